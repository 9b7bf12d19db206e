"""A tiny image for live tests, made from the static busybox of this machine, without any registry."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
from pathlib import Path
from typing import Final
from urllib.parse import quote

import pytest

from tests.live.engineapi import EngineApi

NAME: Final = "cpuset-sidecar-test"
TAG: Final = "1"

_BUSYBOX: Final = Path("/bin/busybox")
_APPLETS: Final = (
    "sh",
    "sleep",
    "cat",
    "grep",
    "nproc",
    "taskset",
    "true",
    "false",
    "echo",
    "ls",
    "kill",
    "yes",
    "test",
)
_CURE: Final = "install a static busybox (Debian: apt-get install busybox-static)"


def ensure_image(api: EngineApi) -> str:
    """Return the name of the test image, imported into the engine if missing. Skips the test where that fails."""
    repository = f"{api.image_prefix}{NAME}"
    name = f"{repository}:{TAG}"
    if not api.has_image(name):
        api.import_image(repository, TAG, _root_file_system())
    return name


def with_stop_signal(api: EngineApi, image: str, signal: str) -> str:
    """Return the name of an image like this one with any text as its stop signal: an archive's is not checked."""
    name = f"{NAME}:crafted"
    parts: dict[str, bytes] = {}
    with tarfile.open(fileobj=io.BytesIO(api.ask("GET", f"images/{quote(image)}/get"))) as saved:
        for entry in saved:
            if (content := saved.extractfile(entry)) is not None:
                parts[entry.name] = content.read()
    [described] = json.loads(parts.pop("manifest.json"))
    config = json.loads(parts.pop(described["Config"]))
    config["config"] = {**(config.get("config") or {}), "StopSignal": signal}
    raw = json.dumps(config).encode()
    described |= {"Config": f"{hashlib.sha256(raw).hexdigest()}.json", "RepoTags": [name]}
    parts |= {described["Config"]: raw, "manifest.json": json.dumps([described]).encode()}
    parts.pop("repositories", None)
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for path, part in parts.items():
            entry = tarfile.TarInfo(path)
            entry.size = len(part)
            archive.addfile(entry, io.BytesIO(part))
    api.ask("POST", "images/load", made.getvalue())
    return name


def _root_file_system() -> bytes:
    if not os.access(_BUSYBOX, os.R_OK):
        pytest.skip(f"no {_BUSYBOX}: {_CURE}")
    busybox = _BUSYBOX.read_bytes()
    if not _is_static(busybox):
        pytest.skip(f"{_BUSYBOX} is not statically linked: {_CURE}")
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for folder in ("bin", "proc", "sys", "dev", "tmp", "etc"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(entry)
        program = tarfile.TarInfo("bin/busybox")
        program.size, program.mode = len(busybox), 0o755
        tar.addfile(program, io.BytesIO(busybox))
        for applet in _APPLETS:
            link = tarfile.TarInfo(f"bin/{applet}")
            link.type, link.linkname, link.mode = tarfile.SYMTYPE, "busybox", 0o777
            tar.addfile(link)
    return made.getvalue()


def _is_static(program: bytes) -> bool:
    """Return whether an ELF file has no dynamic linker (no PT_INTERP program header). 64-bit files only."""
    if program[:5] != b"\x7fELF\x02":
        return False
    offset = int.from_bytes(program[32:40], "little")
    size = int.from_bytes(program[54:56], "little")
    count = int.from_bytes(program[56:58], "little")
    return all(program[offset + n * size : offset + n * size + 4] != b"\x03\0\0\0" for n in range(count))
