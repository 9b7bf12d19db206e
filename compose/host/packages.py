"""The distribution's packages: install missing ones on Debian and Ubuntu, and remove those that were installed here."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from compose.host.commands import HostLacks, attempt, cache, has, output, quietly, say

POLICY = Path("/usr/sbin/policy-rc.d")  # invoke-rc.d(8): code 101 forbids the action


def installable() -> bool:
    """Return whether packages can be installed: root, on a system with apt."""
    return os.geteuid() == 0 and has("apt-get") and has("dpkg-query")


def candidate(package: str) -> str | None:
    """Return the version that apt would install, or None if it knows no such package."""
    for line in attempt("apt-cache", "policy", package).stdout.splitlines():
        key, _, version = line.strip().partition(": ")
        if key == "Candidate":
            return None if version == "(none)" else version
    return None


def installed() -> frozenset[str]:
    """Return the names of all packages that are installed now."""
    lines = output("dpkg-query", "-W", "-f", "${db:Status-Abbrev} ${Package}\\n").splitlines()
    return frozenset(line.split()[-1] for line in lines if line.startswith("ii"))


def install(packages: Iterable[str], why: str) -> None:
    """Install packages and their dependencies, start none of their services, and note the new ones for `remove_ours`.

    Raise HostLacks if apt cannot.
    """
    wanted = list(packages)
    say(f"{why}: installing {' '.join(wanted)} from the distribution")
    before = installed()
    if any(candidate(package) is None for package in wanted):
        quietly("refresh the package lists", ["apt-get", "-qq", "update"])
    env = {"DEBIAN_FRONTEND": "noninteractive"}
    command = ["apt-get", "-qq", "-y", "--no-install-recommends", "install", *wanted]
    try:
        with _services_off():
            try:
                quietly("install packages", command, env=env)
            except HostLacks:
                # Lists that are days old name files that the archive has since replaced: refresh once, then fail.
                quietly("refresh the package lists", ["apt-get", "-qq", "update"])
                quietly("install packages", command, env=env)
    finally:
        _note(installed() - before)


@contextmanager
def _services_off() -> Iterator[None]:
    """Keep services from starting as soon as they are unpacked, by Debian's own switch."""
    if POLICY.exists():
        yield
        return
    POLICY.write_text("#!/bin/sh\nexit 101\n")
    POLICY.chmod(0o755)
    try:
        yield
    finally:
        POLICY.unlink()


def remove_ours() -> list[str]:
    """Purge every package that `install` ever installed here. Return their names."""
    leaving = sorted(installed().intersection(ours()))
    if leaving:
        quietly(
            "remove packages", ["apt-get", "-qq", "-y", "purge", *leaving], env={"DEBIAN_FRONTEND": "noninteractive"}
        )
    _note_file().unlink(missing_ok=True)
    return leaving


def ours() -> list[str]:
    """Return the packages that were installed here and are still noted for removal."""
    return _note_file().read_text().split() if _note_file().exists() else []


def _note(names: frozenset[str]) -> None:
    if names:
        _note_file().write_text("\n".join(sorted(names.union(ours()))) + "\n")


def _note_file() -> Path:
    return cache() / "installed-packages"
