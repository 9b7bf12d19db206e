"""The edges of the two fronts: what a bundle, an answer, an order or a call makes the one do, it makes the other do.

The compiled front is built with ASan and UBSan, around a driver that takes one input after the other. Where Python's
front refuses, in which kind, and what it writes, the compiled one does the same. Only the words on what is wrong with
JSON are the library's own, and JSON that is nested between 500 and 2000 levels is left out: the interpreter's limit is
another in each version. A driver that ends is a fault that a sanitizer found.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from random import Random
from typing import Any, Final
from unittest import mock

from sidecar.runtime import bundle, exec_place, front, owner_start, socket_client, standing
from sidecar.runtime.bundle import StartRefused
from tests.fuzz.edge import Edge
from tests.fuzz.front_process import ID, can_be_built, driver
from tests.fuzz.mutations import VALUES, broken, document

__all__ = ["EDGES", "can_be_built"]

_DEEP: Final = 500
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))


def refused(error: StartRefused) -> tuple[str, str]:
    """Return a refusal as the driver tells it. What is wrong with JSON is in the library's own words."""
    kind = "?" if isinstance(error, socket_client.KeptFromStarting) else "!"
    return kind, plain(str(error).encode("utf-8", "backslashreplace").decode())


def plain(reason: str) -> str:
    """Return a reason without the words of a library, which has other ones for what is no object anyway."""
    reason = reason.replace("this is not a JSON object", "this is not JSON: it is no object")
    return re.sub(r"(?s)(this is not JSON|this cannot be written as JSON): .*", r"\1", reason)


def told(found: tuple[str, bytes]) -> tuple[str, str]:
    """Return an outcome of the driver's."""
    return found[0], plain(found[1].decode("utf-8", "replace"))


def is_left_out(content: bytes) -> bool:
    """Return whether the interpreter's own limits decide: levels of nesting, and digits of a number."""
    depth = most = 0
    for byte in content.translate(None, _NO_BRACKETS):
        depth += (byte in b"[{") - (byte in b"]}")
        most = max(most, depth)
    return _DEEP < most < 4 * _DEEP


def _spec() -> dict[str, Any]:
    source = f"{driver().folder}/{ID}/hostname"
    return {
        "ociVersion": "1.0.2",
        "process": {
            "args": ["sh", "é"],
            "rlimits": [{"type": "RLIMIT_NOFILE", "hard": 2**64 - 1}],
            "x": [1.5, True, None],
        },
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/etc/hostname", "type": "bind", "source": source, "options": ["ro"]},
            {"destination": "/run/x", "options": ["rbind", "ro"]},
        ],
        "annotations": {"cpuset.exclusive": "2", "other": "x"},
        "linux": {
            "cgroupsPath": f"/docker/{ID}",
            "resources": {"cpu": {"shares": 2, "cpus": "0-3", "quota": 1, "period": 10}, "memory": {"limit": 5}},
        },
    }


def _bundle(chance: Random) -> bytes:
    content = document(_spec(), chance)
    if chance.random() < 0.2:
        content = _twice(content, chance)
    if chance.random() < 0.1:
        content = json.dumps(json.loads(json.dumps(_spec())), indent=chance.choice([" ", "\t", " \r\n"])).encode()
    return content


def _twice(content: bytes, chance: Random) -> bytes:
    """Return a document with a name that stands twice in an object, or in another spelling."""
    name = chance.choice([b'"linux"', b'"resources"', b'"cpu"', b'"cpus"', b'"mounts"', b'"annotations"', b'"source"'])
    other = chance.choice([name, b'"\\u00' + b"%02x" % name[1] + name[2:], name[:-1] + b'\\u0000"'])
    value = json.dumps(chance.choice(VALUES)).encode()
    return content.replace(
        name + b":",
        chance.choice([other + b":" + value + b"," + name, other, name + b":" + value + b"," + other]) + b":",
        1,
    )


def front_question(chance: Random) -> None:
    """A bundle, and Docker's books of its container, in the question of both."""
    labels: dict[str, Any] = {"cpuset.numa": "single", "é": "x" * chance.choice([1, 248, 249, 250, 251]), "b": 1}
    if chance.random() < 0.3:
        labels |= {f"{chance.choice(['a', 'z', 'com.docker.swarm.', 'cpuset.'])}{number}": "" for number in range(80)}
    labels |= {str(chance.choice(VALUES)): chance.choice(VALUES)}
    books = document({"Name": "//web", "Config": {"Labels": labels}}, chance)
    content = _bundle(chance)
    if is_left_out(content) or is_left_out(books):
        return
    driver().books.write_bytes(books)
    expected: Any
    try:
        spec = bundle.loaded(content)
        body = bundle.question(ID, spec)
        expected = (
            "=",
            json.loads(bundle.dumped({**body, "strict": False})),
            (f"{front.surely_asks_nothing(body):d}{front.asks(body):d}{front.lies_in_another(body['cgroup']):d}"),
        )
    except StartRefused as error:
        expected = refused(error)
    found: Any = driver().ask("q", ID.encode(), content)[0]
    if found[0] != "=":
        assert told(found) == expected
    else:
        assert ("=", json.loads(found[1][:-3]), found[1][-3:].decode()) == expected


def _changed(content: bytes, status: int, body: bytes) -> tuple[Any, str]:
    """Return the changed bundle of Python's front, None if it stays, and why a mount is left out. StartRefused."""
    spec, left_out = bundle.loaded(content), ""
    given = socket_client._answer(status, body)
    update = given.get("update")
    if update is None:
        return None, ""
    front.apply_update(spec, update)
    projection = given.get("projection")
    if isinstance(projection, dict):
        texts = bundle.text(projection, "directory"), bundle.text(projection, "destination")
        with mock.patch.object(bundle, "DIRECTORY_SECONDS", 0.0):
            left_out = bundle.mount(spec, str(driver().root), *texts)
    return json.loads(bundle.dumped(spec)), left_out


def front_change(chance: Random) -> None:
    """A bundle and an answer, in the changed bundle of both: the same values, and the same bytes if nothing changes."""
    content = _bundle(chance)
    status = chance.choice([200, 200, 200, 200, 404, 409, 503, 500])
    directory = chance.choice(
        ["by-id/x", "by-id/x", "by-id/x", "by-id/link", "by-id/none", "../x", "", chance.choice(VALUES)]
    )
    where = chance.choice(
        [
            "/run/cpuset-sidecar",
            "/run/x/y",
            "/etc/hostname",
            "/var/run/x",
            "//run/../etc/./hostname/",
            chance.choice(VALUES),
        ]
    )
    update = {
        "cpus": chance.choice(["2-3", "2-3", "", "0;"]),
        "mems": chance.choice([None, "0", "", 1]),
        "quota": chance.choice([None, -1, 5, True, 1.5]),
    }
    answer = {
        "update": chance.choice([update, update, update, None]),
        "exclusive": True,
        "error": chance.choice(["no", "", "é\ud800\n", 1]),
    }
    answer |= {"projection": {"directory": directory, "destination": where}}
    body = document(answer, chance) if chance.random() < 0.5 else json.dumps(answer).encode()
    if is_left_out(content) or is_left_out(body):
        return
    expected: Any
    left_out = ""
    try:
        changed, left_out = _changed(content, status, body)
        expected = "=", content if changed is None else changed
    except StartRefused as error:
        expected = refused(error)
    found: Any = driver().ask("c", content, str(driver().root).encode(), str(status).encode(), body, answers=2)
    if found[0][0] == "=":
        if isinstance(expected[1], dict):
            found[0] = "=", json.loads(found[0][1].decode("utf-8", "replace"))
        assert found[0] == expected
        assert found[1][1].decode() == left_out.encode("utf-8", "backslashreplace").decode()
    else:
        assert told(found[0]) == expected


def front_order(chance: Random) -> None:
    """A standing order, and the CPUs of a bundle."""
    cpus = chance.choice(
        ["0", "0-3,8", "", "65535", "65536", "5-2", "0-99999999", " 1", "1,,2", "0,1,2,3,5", "1-2-3", "\u0663"]
    )
    order = standing.Order(
        chance.choice([0, 7, 2**40]), cpus, "labelled", "a boot", chance.choice(["m m", "", "é"[:0]])
    )
    content = standing.encoded(order)
    if chance.random() < 0.5:
        content = broken(content, chance)
    own = chance.choice([cpus, "1-2", "0-65535", "x", "٣", "9" * 30, "0-3\n", "3,2,1,0"])
    read = standing.decoded(content) if b"\r" not in content else None
    expected = ""
    if read:
        expected = f"{read.epoch} {read.cpus} {read.asks} {read.boot} {read.machine}|{standing.within(own, read)}"
    if b"\r" not in content:
        assert driver().ask("o", content, own.encode())[0] == ("=", expected.encode())


def front_owners(chance: Random) -> None:
    """The answers to owners, and which of them counts for one."""
    cpus = chance.choice(["0", "0-1", "0-1,4000", "", " 0", "0,0", "1-0", "65535", "-", "0-0\\n", "x"])
    update: Any = chance.choice([{"cpus": cpus, "mems": "0", "quota": -1}, {"cpus": 1}, None, [], {"cpus": cpus}])
    answer = json.dumps(chance.choice([{"update": update}, {"update": update, "projection": {}}, [], "x", {}]))
    others = {"e" * 64: "{}", chance.choice([ID, ID[:-1], ID + "d", "own", ""]): answer}
    content = owner_start.encoded(
        owner_start.OwnersTold(chance.choice([0, 7, 2**40, 10**18]), chance.choice(["a boot", "", "b"]), others)
    )
    if chance.random() < 0.3:
        lines = standing.unsealed(owner_start.HEAD, content)
        lines = chance.choice(
            [lines + f"own {ID} {answer}\n", lines + f"own {ID}\n", lines[:-1], lines + "\n", "x y\n"]
        )
        content = standing.sealed(owner_start.HEAD, lines)
    if chance.random() < 0.5:
        content = broken(content, chance)
    read, expected = owner_start.decoded(content), ""
    if read:
        found = owner_start.answer_in(read, ID)
        expected = f"{read.epoch} {read.boot}|{found['update']['cpus'] if found else ''}"
    assert driver().ask("n", ID.encode(), content)[0] == ("=", expected.encode())


def front_http(chance: Random) -> None:
    """An answer of HTTP, or a part of one."""
    body = chance.choice([b"", b"{}", b"\r\n\r\n", chance.randbytes(20)])
    size = chance.choice(
        [str(len(body)), str(len(body)), "0", "-1", "+2", "1_0", " 2 ", "", "9" * 9, "9" * 10, "0" * 9 + "2"]
    )
    line = chance.choice([b"HTTP/1.1 200 ", b"HTTP/1.1 200 OK", b"HTTP/1.1", b"", b"x 2x", b" x\t409\v"])
    name = chance.choice([b"Content-Length:", b"content-length:", b"Content-Length :", b"X: 1\r\nCONTENT-LENGTH: "])
    content = line + b"\r\n" + name + size.encode() + b"\r\n\r\n" + body
    if chance.random() < 0.5:
        content = broken(content, chance)
    try:
        parsed = socket_client.parsed_answer(content)
        expected = ("=", b"%d %s" % parsed if parsed else b"")
    except StartRefused as error:
        expected = ("!", str(error).encode())
    assert driver().ask("h", content)[0] == expected


_WORDS: Final = (
    *(
        "--log",
        "/x",
        "file:/x",
        "--log=file:/y",
        "--log-format",
        "json",
        "--log-format=json",
        "text",
        "--root=/r",
        "--root",
        "create",
    ),
    *(
        "run",
        "restore",
        "state",
        "--bundle",
        "-b",
        "--bundle=/etc/../etc",
        "--config",
        "-f",
        "/tmp/./x",
        "nothing/../here",
        "--",
        ID,
    ),
    *(
        "-",
        "",
        "--=",
        "-x",
        "---log",
        "é",
        "--pid-file",
        "--preserve-fds",
        "2",
        "--systemd-cgroup",
        "--bundle=",
        "/etc/passwd/..",
    ),
)


def front_call(chance: Random) -> None:
    """The arguments of a runtime."""
    words = [chance.choice(_WORDS) for _ in range(chance.randint(0, 9))]
    called = front.Called(words)
    found = driver().ask("w", b"".join(os.fsencode(word) + b"\0" for word in words))[0][1].decode()
    log, is_json, command, container, folder, config = found.split("\n")[:6]
    assert (log, is_json, command, container) == (called.log, f"{called.is_json:d}", called.command, called.container)
    assert (folder, config) == (called.bundle, called.config)


_EXEC_WORDS: Final = (
    *("exec", "exec", ID, ID, "e" * 64, "E" * 64, "d" * 63, "sh", "-p", "--p", "--process", "--process=/x", "-p=/y"),
    *("--process=", "/z", "---process", "-", "", "--log", "-root", "--root", "--detach", "--pid-file", "=", "-=", "é"),
)


def front_exec_call(chance: Random) -> None:
    """The arguments of a call that has a process join a container."""
    words = [chance.choice(_EXEC_WORDS) for _ in range(chance.randint(0, 9))]
    call = exec_place.ExecCall(words)
    found = driver().ask("e", b"".join(os.fsencode(word) + b"\0" for word in words))[0][1]
    assert found == os.fsencode(f"{call.container}\n{call.process}"), words


def front_exec_process(chance: Random) -> None:
    """The description of such a process: the same values, and where it begins."""
    process = {"terminal": True, "args": ["sh", "é"], "rlimits": [{"hard": 2**64 - 1}], "x": chance.choice(VALUES)}
    if chance.random() < 0.2:
        process["execCPUAffinity"] = chance.choice([None, {}, {"final": "1"}, *VALUES])
    content = document(process, chance)
    if chance.random() < 0.2:
        content = _twice(content, chance)
    if is_left_out(content):
        return
    expected: Any
    try:
        expected = "=", json.loads(exec_place.placed(content, "0-1,3"))
    except StartRefused as error:
        expected = refused(error)
    found: Any = driver().ask("p", content, b"0-1,3")[0]
    if found[0] != "=":
        assert told(found) == expected
    else:
        assert ("=", json.loads(found[1].decode("utf-8", "replace"))) == expected


def front_settings(chance: Random) -> None:
    """A file of settings: what is understood means what it means to a shell."""
    values = ("/usr/bin/runc", "a b", "it's", "", '"', "$x", "10", "0.5", "nan", "#", "a#b", "\\", "é", "*")
    lines = [
        "# Settings",
        *(f"{key}={shlex.quote(chance.choice(values))}" for key in ("real", "socket", "projections", "library")),
    ]
    lines += [chance.choice([f"patience={chance.choice(values[6:9])}", "kind=usual # x", 'kind="a b"', "", "  real=x"])]
    content = ("\n".join(lines) + "\n").encode()
    if chance.random() < 0.5:
        content = broken(content, chance)
    content = content.replace(b"\0", b"").replace(b"\r", b"")
    kind, found = driver().ask("s", content)[0]
    if kind != "=":
        return
    path = driver().folder / "settings"
    path.write_bytes(content)
    # Nothing but assignments is left, and a shell without a path finds no program.
    shell = 'set -e; . "$1"; printf "%s\\n" "$real" "$socket" "$projections" "$kind" "$patience"'
    before = {"real": "r", "socket": "s", "projections": "p", "kind": "k", "patience": "10", "PATH": "/nonexistent"}
    done = subprocess.run(["/bin/sh", "-c", shell, "sh", str(path)], env=before, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b""), content
    assert done.stdout.rsplit(b"\n", 2)[0] == found.rsplit(b"\n", 1)[0], content
    assert float(done.stdout.rsplit(b"\n", 2)[1]) == float(found.rsplit(b"\n", 1)[1]), content


EDGES: Final[tuple[Edge, ...]] = (
    Edge("front question", front_question),
    Edge("front change", front_change),
    Edge("front order", front_order),
    Edge("front owners", front_owners),
    Edge("front http", front_http),
    Edge("front call", front_call),
    Edge("front exec call", front_exec_call),
    Edge("front exec process", front_exec_process),
    Edge("front settings", front_settings),
)
