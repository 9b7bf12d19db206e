"""Images made of the distribution's packages, without any registry: Python and a shell, or HAProxy.

apt chooses and fetches the packages against an empty list of installed ones, and they are unpacked without being
configured: twenty megabytes instead of a whole system, in seconds, and without root. The archive's signature covers the
digest of each package.
"""

from __future__ import annotations

import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

from compose.host.commands import HostLacks, attempt, cache, has, output, quietly, say

OWN_BASE = "cpuset-sidecar-base:local"
PROXY_IMAGE = "cpuset-sidecar-proxy:local"
OLDEST = (3, 11)
SETTINGS = ("ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", 'CMD ["python3"]')


def make_base() -> str:
    """Make the base image, from the cached file system if there is one, and return its name. Raise HostLacks without
    apt.
    """
    _see_that_apt_is_here("an image with Python 3.11 or newer: BASE=NAME@sha256:...")
    python = python_package()
    _import(OWN_BASE, "base", (python, "busybox-static"), SETTINGS)
    return OWN_BASE


def make_proxy() -> str:
    """Make the image of HAProxy, as `make_base` does, and return its name."""
    _see_that_apt_is_here("an image with HAProxy: PROXY_IMAGE=NAME@sha256:...")
    _import(PROXY_IMAGE, "proxy", ("haproxy", "busybox-static"), (SETTINGS[0], 'CMD ["haproxy"]'))
    return PROXY_IMAGE


def _see_that_apt_is_here(instead: str) -> None:
    if not has("apt-get") or not has("dpkg-deb"):
        raise HostLacks(f"an image is made of the distribution's packages by apt, which is not here: name {instead}")


def _import(name: str, kind: str, packages: tuple[str, ...], settings: tuple[str, ...]) -> None:
    codename = platform.freedesktop_os_release().get("VERSION_CODENAME", "unknown")
    archive = cache() / f"{kind}-{codename}-{platform.machine()}.tar"
    if not archive.exists():
        with tempfile.TemporaryDirectory(prefix="cpuset-sidecar-base-") as folder:
            unpack(Path(folder), packages)
            part = archive.with_suffix(".part")
            output(
                "tar",
                "--numeric-owner",
                "--owner=0",
                "--group=0",
                "-C",
                f"{folder}/root",
                "-cf",
                str(part),
                ".",
                timeout=300,
            )
            part.rename(archive)
    changes = [word for setting in settings for word in ("--change", setting)]
    output("docker", "import", *changes, str(archive), name, timeout=300)


def python_package() -> str:
    """Return the distribution's package of a Python that is new enough. Raise HostLacks if it has none."""
    for _ in range(2):
        for name in ("python3", "python3.13", "python3.12", "python3.11"):
            for line in attempt("apt-cache", "policy", name).stdout.splitlines():
                key, _, version = line.strip().partition(": ")
                if (
                    key == "Candidate"
                    and version[:1] == "3"
                    and tuple(map(int, version.split("-")[0].split("~")[0].split(".")[:2])) >= OLDEST
                ):
                    return name
        attempt("apt-get", "-qq", "update", timeout=300)
    raise HostLacks(
        "this distribution has no Python 3.11 or newer for a base image: set BASE=... to a local image that has one"
    )


def unpack(folder: Path, packages: tuple[str, ...]) -> None:
    """Fetch packages and what they need into `folder`, and unpack them under `folder`/root. One is busybox-static."""
    root, archives, nothing = folder / "root", folder / "archives", folder / "status"
    (archives / "partial").mkdir(parents=True)
    nothing.touch()
    # Merged /usr, as the distribution's own installer does before the first package: some still ship /bin and /lib.
    for name in ("bin", "sbin", "lib", "lib64"):
        (root / "usr" / name).mkdir(parents=True)
        (root / name).symlink_to(f"usr/{name}")
    apt = ["apt-get", "-qq", "-y", "--no-install-recommends", "--download-only", "-o", f"Dir::State::status={nothing}"]
    apt += ["-o", f"Dir::Cache::archives={archives}/", "-o", "Debug::NoLocking=1", "-o", "APT::Sandbox::User=root"]
    quietly("fetch the distribution's packages", [*apt, "install", *packages])
    say(f"unpacking packages: {len(list(archives.glob('*.deb')))}")
    for package in sorted(archives.glob("*.deb")):
        contents = subprocess.run(
            ["dpkg-deb", "--fsys-tarfile", str(package)], stdout=subprocess.PIPE, check=True
        ).stdout
        subprocess.run(
            [
                "tar",
                "-C",
                str(root),
                "--keep-directory-symlink",
                "--no-same-owner",
                "--exclude=./usr/share/doc",
                "--exclude=./usr/share/man",
                "-x",
            ],
            input=contents,
            check=True,
        )
    shutil.rmtree(root / "usr/share/locale", ignore_errors=True)
    # The tools of a shell script, without the package of each: busybox provides them all.
    names = output(str(root / "bin/busybox"), "--list").split()
    for name in names:
        if name != "busybox" and not (root / "usr/bin" / name).exists() and not (root / "usr/sbin" / name).exists():
            (root / "usr/bin" / name).symlink_to("busybox")
    for name in ("etc", "tmp", "run", "var", "proc", "sys", "dev"):
        (root / name).mkdir(exist_ok=True)
    (root / "tmp").chmod(0o1777)
    (root / "etc/passwd").write_text(
        "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/bin/false\n"
    )
    (root / "etc/group").write_text("root:x:0:\nnogroup:x:65534:\n")
    python = next((name for name in packages if name.startswith("python3.")), None)
    if python and not (root / "usr/bin/python3").exists():
        (root / "usr/bin/python3").symlink_to(python)
