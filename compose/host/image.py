"""The image: its base, the wheels that go into it, and the build.

1. The base is python:3-slim if it is here or can be pulled; else one made of the distribution's packages (`base.py`).
2. This host's pip fetches the wheels for the base's Python, because pip inside a build knows neither the host's proxy
   nor its package index. They lie in compose/wheels, and the Dockerfile installs from there, without network.
3. The build uses BuildKit if the client has it, else the classic builder.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import tomllib
from pathlib import Path
from typing import IO

from compose.host.base import OWN_BASE, make_base
from compose.host.commands import HostLacks, attempt, output, quietly, say

ROOT = Path(__file__).resolve().parents[2]
WHEELS = ROOT / "compose" / "wheels"
PUBLIC_BASE = "python:3-slim"
TARGETS = {"sidecar": "cpuset-sidecar:local", "demo": "cpuset-sidecar-demo:local"}
STAGE_LABEL = "cpuset-sidecar.stage"
SILENCE_SECONDS = 30  # a pull without any output for this long has no connection
# The glibc of the base is at least that of Debian 12 (2.36): all older platform tags are compatible as well.
GLIBC = ("2_36", "2_35", "2_34", "2_31", "2_28", "2_27", "2_24", "2_17", "2014", "2_12", "2010", "2_5", "1")
# Needed in the image although a resolver on another Python may miss them: they depend on the Python's version.
ALWAYS = ("pyasyncore", "typing_extensions", "pip")


def tags() -> set[str]:
    """Return the names of all images that are on the engine now."""
    return set(output("docker", "image", "ls", "--format", "{{.Repository}}:{{.Tag}}").split())


def build_images() -> None:
    """Build both images. Raise HostLacks if that fails."""
    base = find_base(tags())
    fetch_wheels(base)
    # The classic builder keeps the container of a step that failed, unless told otherwise.
    buildkit = attempt("docker", "buildx", "version").returncode == 0
    way = ["build"] if buildkit else ["build", "--force-rm"]
    for target, tag in TARGETS.items():
        say(f"building the image {tag}")
        command = [*way, "--file", str(ROOT / "compose" / "Dockerfile"), "--build-arg", f"BASE={base}"]
        command += ["--target", target, "--tag", tag, str(ROOT)]
        quietly("build the image", ["docker", *command], env={"DOCKER_BUILDKIT": "1" if buildkit else "0"})


def remove_images(present: set[str]) -> None:
    """Remove the images that `build_images` made, except those that were `present` before, and what builders leave."""
    for tag in (*TARGETS.values(), OWN_BASE, PUBLIC_BASE):
        if tag not in present:
            attempt("docker", "image", "rm", tag)
    attempt("docker", "image", "prune", "--force", f"--filter=label={STAGE_LABEL}")


def find_base(present: set[str]) -> str:
    """Return the name of a base image: BASE of the environment, the public one, or one made here."""
    if chosen := os.environ.get("BASE"):
        return chosen
    for name in (PUBLIC_BASE, OWN_BASE):
        if name in present:
            return name
    say(f"pulling {PUBLIC_BASE}")
    reason = pull(PUBLIC_BASE)
    if reason is None:
        return PUBLIC_BASE
    say(f"it cannot be pulled ({reason}): making a base image from the distribution's packages")
    return make_base()


def pull(image: str) -> str | None:
    """Pull an image. Return None if that worked, else the reason, in one line. Give up after SILENCE_SECONDS of
    silence.
    """
    words: list[str] = []
    spoke = threading.Event()

    def listen(lines: IO[str]) -> None:
        for line in lines:
            words.append(line.strip())
            spoke.set()

    command = ["docker", "pull", image]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        listener = threading.Thread(target=listen, args=(process.stdout,))
        listener.start()
        try:
            while listener.is_alive():
                # Once a registry has answered, a slow line may take its time over a layer, without any output.
                patience = SILENCE_SECONDS * (10 if words else 1)
                spoke.clear()
                listener.join(patience)
                if listener.is_alive() and not spoke.is_set():
                    return f"no answer in {patience:g} s"
        finally:
            if listener.is_alive():
                process.kill()
                listener.join()
    # In a chain of reasons, the first cause is last.
    return None if process.returncode == 0 else (words[-1].rpartition(": ")[2] if words else "no reason given")


def fetch_wheels(base: str) -> None:
    """Put the wheels for the Python of `base` into compose/wheels, if they are missing. Raise HostLacks on failure."""
    code = "import sys, platform; print('%d.%d' % sys.version_info[:2], platform.machine(), platform.libc_ver()[0])"
    version, machine, *libc = output(
        "docker", "run", "--rm", "--network=none", "--entrypoint=python3", base, "-c", code
    ).split()
    if libc != ["glibc"]:
        raise HostLacks(f"the base image {base} has no glibc: choose another with BASE=...")
    pins = (ROOT / "constraints.txt").read_text()
    stamp = f"{version} {machine}\n{(ROOT / 'pyproject.toml').read_text()}{pins}"
    note = WHEELS / ".made-for"
    if note.exists() and note.read_text() == stamp:
        return
    say(f"fetching wheels for Python {version} on {machine}")
    for old in WHEELS.glob("*.whl"):
        old.unlink()
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    # pyinotify has only a source release: pure Python, so a wheel made by any Python works for all.
    quietly(
        "build pyinotify",
        [*pip, "wheel", "--no-deps", "-c", "constraints.txt", "-w", str(WHEELS), "pyinotify"],
        cwd=ROOT,
    )
    platforms = [f"--platform=manylinux{tag if tag.isdigit() else '_' + tag}_{machine}" for tag in GLIBC]
    command = [
        *pip,
        "download",
        "--only-binary=:all:",
        f"--python-version={version}",
        "--implementation=cp",
        *platforms,
    ]
    command += ["--find-links", str(WHEELS), "-c", "constraints.txt", "-d", str(WHEELS), *requirements(), *ALWAYS]
    quietly("fetch wheels", command, cwd=ROOT)
    note.write_text(stamp)


def requirements() -> list[str]:
    """Return what the sidecar needs at run time and for its build, from pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return [
        *project["build-system"]["requires"],
        *project["project"]["dependencies"],
        *project["project"]["optional-dependencies"]["daemon"],
    ]
