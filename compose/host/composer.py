"""Docker Compose as it is found: the client's plugin, the stand-alone program, or the distribution's package."""

from __future__ import annotations

from compose.host.commands import HostLacks, attempt
from compose.host.packages import candidate, install, installable

ADVICE = """neither `docker compose` nor `docker-compose` is installed:
    On Debian:  sudo apt-get install docker-compose     on Ubuntu:  sudo apt-get install docker-compose-v2
    On other systems:  https://docs.docker.com/compose/install/"""


def compose_command() -> tuple[str, ...]:
    """Return the words that start Docker Compose; install it if necessary. Raise HostLacks if there is none."""
    words = find()
    if words is None and installable():
        install(compose_packages(), "Docker Compose is missing")
        words = find()
    if words is None:
        raise HostLacks(ADVICE)
    return words


def find() -> tuple[str, ...] | None:
    """Return the words that start the installed Docker Compose, or None."""
    for words in (("docker", "compose"), ("docker-compose",)):
        if attempt(*words, "version").returncode == 0:
            return words
    return None


def compose_packages() -> list[str]:
    """Return what to install for Docker Compose: nothing if it is there, else this distribution's newer package."""
    if find():
        return []
    return ["docker-compose-v2" if candidate("docker-compose-v2") else "docker-compose"]
