"""The image: its base, the wheels that go into it, and the build.

1. The base is BASE of the environment, or one made of the distribution's packages (`base.py`). No tag of a registry is
   ever a default: what it names changes without notice.
2. This host's pip fetches the packages for the base's Python, because pip inside a build knows neither the host's proxy
   nor its package index. They lie in compose/wheels, and the Dockerfile installs from there, without network. Both
   times pip holds each file against its digest in requirements/.
3. The build uses BuildKit if the client has it, else the classic builder.
"""

from __future__ import annotations

import os
import sys

from compose.host.base import OWN_BASE, make_base
from compose.host.commands import HostLacks, attempt, output, quietly, say
from compose.host.hashed import ROOT, for_python

WHEELS = ROOT / "compose" / "wheels"
TARGETS = {"sidecar": "cpuset-sidecar:local", "demo": "cpuset-sidecar-demo:local"}
STAGE_LABEL = "cpuset-sidecar.stage"
# The glibc of the base is at least that of Debian 12 (2.36): all older platform tags are compatible as well.
GLIBC = ("2_36", "2_35", "2_34", "2_31", "2_28", "2_27", "2_24", "2_17", "2014", "2_12", "2010", "2_5", "1")
SOURCE_ONLY = "pyinotify"  # it has no wheel: the build makes one, of the source whose digest is known


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
    for tag in (*TARGETS.values(), OWN_BASE):
        if tag not in present:
            attempt("docker", "image", "rm", tag)
    attempt("docker", "image", "prune", "--force", f"--filter=label={STAGE_LABEL}")


def find_base(present: set[str]) -> str:
    """Return the name of a base image: BASE of the environment, or one made here. Raise HostLacks without either."""
    if chosen := os.environ.get("BASE"):
        if "@sha256:" not in chosen and chosen != OWN_BASE:
            say(f"BASE={chosen} is a tag, another image tomorrow: name it by its digest, {chosen}@sha256:...")
        return chosen
    if OWN_BASE in present:
        return OWN_BASE
    say("making a base image from the distribution's packages (BASE=NAME@sha256:... chooses another)")
    return make_base()


def fetch_wheels(base: str) -> None:
    """Put the wheels for the Python of `base` into compose/wheels, if they are missing. Raise HostLacks on failure."""
    code = "import sys, platform; print('%d.%d' % sys.version_info[:2], platform.machine(), platform.libc_ver()[0])"
    version, machine, *libc = output(
        "docker", "run", "--rm", "--network=none", "--entrypoint=python3", base, "-c", code
    ).split()
    if libc != ["glibc"]:
        raise HostLacks(f"the base image {base} has no glibc: choose another with BASE=...")
    wanted = [each.line() for each in for_python(version, "build", "daemon")]
    stamp = "\n".join([f"{version} {machine}", *wanted]) + "\n"
    note = WHEELS / ".made-for"
    if note.exists() and note.read_text() == stamp:
        return
    say(f"fetching packages for Python {version} on {machine}")
    note.unlink(missing_ok=True)
    for old in (*WHEELS.glob("*.whl"), *WHEELS.glob("*.tar.gz")):
        old.unlink()
    listed = WHEELS / ".wanted"
    listed.write_text("\n".join(wanted) + "\n")
    platforms = [f"--platform=manylinux{tag if tag.isdigit() else '_' + tag}_{machine}" for tag in GLIBC]
    command = [
        *(sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--require-hashes", "--no-deps"),
        *("--only-binary=:all:", f"--no-binary={SOURCE_ONLY}", "--no-build-isolation"),
        *(f"--python-version={version}", "--implementation=cp", *platforms),
        *("-d", str(WHEELS), "-r", str(listed)),
    ]
    quietly("fetch packages", command, cwd=ROOT)
    note.write_text(stamp)
