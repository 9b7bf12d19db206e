"""The content of a container's `config.json`, and its changes: CPUs, memory nodes, quota, and the projection's mount.

Everything else stays as it was, including unknown fields. Values may be anything, since users who create containers
influence them. It runs under any Python from 3.9 on, without `json`: that costs as much as all the rest.
"""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

MOST_BYTES = 32 * 1024 * 1024
"""Bytes of a config.json, and of an answer."""

MOST_LABELS = 64
"""Labels that are sent: ours first, and then Swarm's."""

MOST_PAIRS = 10_000
"""Labels, or annotations of ours, that are looked at."""

OURS, SWARMS = "cpuset.", "com.docker.swarm."
"""How labels begin for which a container is asked about: Swarm may count on its CPUs."""

DIRECTORY_SECONDS = 1.0
"""How long to wait for the container's projection directory: the sidecar makes it right after its decision."""


class StartRefused(Exception):
    """The container does not start, and why."""


def question(container: str, spec: dict[str, Any]) -> dict[str, Any]:
    """Return the question for the sidecar: the container, with its cgroup, and with the limits and the annotations of
    its spec.
    """
    linux = table(spec, "linux")
    resources = table(linux, "resources")
    cpu, memory = table(resources, "cpu"), table(resources, "memory")
    annotations = {key: value for key, value in table(spec, "annotations").items() if key.startswith(OURS)}
    if len(annotations) > MOST_PAIRS:
        raise StartRefused(f"there are more than {MOST_PAIRS} annotations of ours")
    return {
        "id": container,
        "cgroup": text(linux, "cgroupsPath"),
        "cpus": text(cpu, "cpus"),
        "mems": text(cpu, "mems"),
        "quota": number(cpu, "quota"),
        "period": number(cpu, "period"),
        "memory": number(memory, "limit"),
        "annotations": {key: value for key, value in annotations.items() if isinstance(value, str)},
        **described(container, spec),
    }


def described(container: str, spec: dict[str, Any]) -> dict[str, Any]:
    """Return the container's name and labels from Docker's own records, which lie beside files that it mounts; else
    none.

    Needed when the engine cannot be asked: a starting engine answers no request before its containers have started.
    """
    mounts = spec.get("mounts")
    for each in mounts if isinstance(mounts, list) else []:
        source = text(each, "source") if isinstance(each, dict) else ""
        folder, name = os.path.split(source)
        if name not in ("hostname", "resolv.conf", "hosts") or os.path.basename(folder) != container:
            continue
        try:
            with open(f"{folder}/config.v2.json", "rb", buffering=0) as file:
                books = loaded(file.read(MOST_BYTES + 1))
        except (OSError, ValueError, StartRefused):
            # A path with a null character is a ValueError.
            continue
        labels = table(table(books, "Config"), "Labels")
        if len(labels) > MOST_PAIRS:
            continue
        short = {key: value for key, value in labels.items() if isinstance(value, str) and len(key + value) <= 250}
        ours = sorted(short, key=lambda key: (not key.startswith(OURS), not key.startswith(SWARMS), key))[:MOST_LABELS]
        return {"name": text(books, "Name").lstrip("/")[:250], "labels": {key: short[key] for key in ours}}
    return {}


def apply(spec: dict[str, Any], update: dict[str, Any]) -> None:
    """Replace the spec's CPUs by those of an answer. Raise StartRefused if it names none."""
    cpus = update.get("cpus")
    if not isinstance(cpus, str) or not cpus or cpus.strip("0123456789,-"):
        raise StartRefused("the sidecar's answer names no CPUs")
    cpu = made(made(made(spec, "linux"), "resources"), "cpu")
    cpu["cpus"] = cpus
    if isinstance(update.get("mems"), str) and update["mems"]:
        cpu["mems"] = update["mems"]
    if isinstance(update.get("quota"), int):
        cpu["quota"] = update["quota"]


def mount(spec: dict[str, Any], root: str, directory: str, destination: str) -> str:
    """Mount a projection directory. Return why it is left out, or ""."""
    parts = directory.split("/")
    if not destination.startswith("/") or {"", ".", ".."} & set(parts) or "\0" in directory + destination:
        return f"{directory!r} is not a projection directory"
    source = os.path.join(root, *parts)
    mounts = spec.get("mounts")
    if not isinstance(mounts, list):
        mounts = []
    wanted, above = _place(destination), ""
    for each in mounts:
        place = _place(text(each, "destination")) if isinstance(each, dict) else ""
        if place == wanted or place.startswith(wanted + "/"):
            return ""  # The user's own mount suffices.
        if place and place != "/" and wanted.startswith(place + "/"):
            options = each.get("options")
            above = place if isinstance(options, list) and "ro" in options else ""
    if above:
        return f"{above} is mounted read-only, so {destination} cannot be created in it"
    if not _appears(root, source):
        return f"there is no {source} on the host (the sidecar's projections must be a directory of the host)"
    if os.path.realpath(source) != os.path.join(os.path.realpath(root), *parts):
        return f"{source} is a symbolic link that leads elsewhere"
    options = ["bind", "ro", "nosuid", "nodev", "noexec"]
    spec["mounts"] = [*mounts, {"destination": destination, "type": "bind", "source": source, "options": options}]
    return ""


def _place(destination: str) -> str:
    """Return a mount's place in one spelling."""
    place = os.path.normpath("/" + destination.lstrip("/")) if destination else ""
    return place[4:] if place == "/var/run" or place.startswith("/var/run/") else place


def _appears(root: str, directory: str) -> bool:
    """Return whether the directory appears in time; make it if the sidecar uses this root.

    A sidecar that has reached no engine makes no directories yet, and a container without the mount would never see
    one.
    """
    end = time.monotonic() + DIRECTORY_SECONDS
    while not os.path.isdir(directory):
        if time.monotonic() > end:
            try:
                if os.path.isdir(os.path.join(root, ".staging")):
                    os.makedirs(directory, exist_ok=True)
            except OSError:
                pass
            return os.path.isdir(directory)
        time.sleep(0.001)
    return True


def replace(path: str, content: bytes) -> None:
    """Replace a file by one rename, with the old file's owner and mode. Raise StartRefused."""
    fresh = path + ".cpuset-sidecar"
    try:
        was = os.stat(path)
        if os.path.lexists(fresh):
            os.unlink(fresh)
        opened = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            if (was.st_uid, was.st_gid) != (os.geteuid(), os.getegid()):
                os.fchown(opened, was.st_uid, was.st_gid)
            os.fchmod(opened, was.st_mode & 0o7777)
            left = memoryview(content)
            while left:
                left = left[os.write(opened, left) :]
        finally:
            os.close(opened)
        os.rename(fresh, path)
    except OSError as error:
        raise StartRefused(f"the bundle cannot be changed: {path}: {error.strerror}") from error


def id_in(cgroups: str) -> str:
    """Return the container's id in the path of its cgroup: libpod-ID, in the spelling of either cgroup driver.

    The last one counts: under cgroupfs a pod's group has an id as well, and lies above. Raise StartRefused if there is
    none.
    """
    for word in reversed(cgroups.replace(":", "/").replace("-", "/").replace(".", "/").split("/")):
        if len(word) == 64 and not word.strip("0123456789abcdef"):
            return word
    raise StartRefused(f"the container's id is not in the path of its cgroup, {cgroups!r}")


# Values of JSON that may be anything.


def table(above: dict[str, Any], key: str) -> dict[str, Any]:
    """Return the object at a key; an empty one if there is none."""
    value = above.get(key)
    return value if isinstance(value, dict) else {}


def made(above: dict[str, Any], key: str) -> dict[str, Any]:
    """Return the object at a key, which is made if there is none."""
    if not isinstance(above.get(key), dict):
        above[key] = {}
    found: dict[str, Any] = above[key]
    return found


def text(above: dict[str, Any], key: str) -> str:
    """Return the text at a key; "" if there is none."""
    value = above.get(key)
    return value if isinstance(value, str) else ""


def number(above: dict[str, Any], key: str) -> int | None:
    """Return the integer at a key; None if there is none."""
    value = above.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


# JSON.


def loaded(content: bytes) -> dict[str, Any]:
    """Return a JSON object. Raise StartRefused if it is none, or too large."""
    if len(content) > MOST_BYTES:
        raise StartRefused(f"there are more than {MOST_BYTES} bytes of JSON")
    try:
        value = _loads(content.decode("utf-8", "replace"))
    except (ValueError, RecursionError, SystemError) as error:
        # The scanner raises the last one if the package json, whose error it would raise, was not imported.
        raise StartRefused(f"this is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise StartRefused("this is not a JSON object")
    return value


def dumped(value: object) -> bytes:
    """Return a value as JSON, in ASCII. Raise StartRefused for one that JSON cannot hold, such as 1e999."""
    try:
        return _dumps(value).encode("ascii")
    except (ValueError, RecursionError) as error:
        raise StartRefused(f"this cannot be written as JSON: {error}") from error


class _Reading:
    """Settings of the interpreter's own scanner: those of `json.loads`."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int

    def __init__(self) -> None:
        self.memo: dict[str, str] = {}

    @staticmethod
    def parse_constant(word: str) -> float:
        """Refuse NaN and the like, which are not JSON."""
        raise ValueError(f"{word} is not JSON")


def _with_json() -> tuple[Callable[[str], Any], Callable[[object], str]]:
    import json

    return json.loads, json.dumps


def _without_json() -> tuple[Callable[[str], Any], Callable[[object], str]]:
    """Return the parts of the package json. Raise ImportError, TypeError or AttributeError if it has other parts."""
    import _json

    reading: Any = _Reading()
    scan = _json.make_scanner(reading)
    # As `json.dumps` does: no indentation, unsorted, no odd keys; and no NaN.
    switches = (False, False, False)
    encode = _json.make_encoder({}, _foreign, _json.encode_basestring_ascii, None, ": ", ", ", *switches)

    def loads(written: str) -> Any:
        written = written.strip(" \t\n\r")
        try:
            value, end = scan(written, 0)
        except StopIteration as stop:
            raise ValueError(f"something else is at character {stop.value}") from None
        if end != len(written):
            raise ValueError(f"there is more after character {end}")
        return value

    def dumps(value: object) -> str:
        return "".join(encode(value, 0))

    if loads(dumps({"a": [1, -2.5, "\u20ac", None, True]})) != {"a": [1, -2.5, "\u20ac", None, True]}:
        raise TypeError
    return loads, dumps


def _foreign(value: object) -> Any:
    raise TypeError(f"{type(value).__name__} is not of JSON")


try:
    _loads, _dumps = _without_json()
except (ImportError, TypeError, AttributeError, ValueError):
    _loads, _dumps = _with_json()
