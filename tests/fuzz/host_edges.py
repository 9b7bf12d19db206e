"""The edges of the host: files of the machine, of the daemon, of workloads and of other programs."""

from __future__ import annotations

import io
import json
import os
import tarfile
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final
from unittest import mock

import msgspec

from sidecar.commit.journal import read_journal
from sidecar.config.running_settings import read_settings
from sidecar.failures import ConfigError
from sidecar.host.install.daemon_json import decode_settings, encode_settings
from sidecar.host.machine.hwloc import read_hwloc
from sidecar.host.machine.lscpu import read_lscpu
from sidecar.host.machine.record import read_record
from sidecar.kubelet import kubelet_state
from sidecar.projection.projections import Projections
from sidecar.runtime import bundle, front, socket_client
from sidecar.runtime.bundle import StartRefused
from sidecar.status.status_reader import read_last_status
from state import checkpoint
from state.cpuset import CPUSet
from state.errors import StateError
from state.lease import seconds_left
from state.projection import MAX_GENERATION, Projection, read
from state.topology import uniform
from tests.fuzz.edge import Edge
from tests.fuzz.mutations import VALUES, broken, document
from tests.machines.archive import BadInput, unpacked
from tests.support.host.trees import rendered

DATA: Final = Path(__file__).parent.parent / "data"
ID: Final = "d" * 64


def in_memory() -> str | None:
    """Return a folder in memory, None where there is none: thousands of files are written."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


@cache
def content_of(path: Path) -> bytes:
    return path.read_bytes()


def cpu_list(chance: Random) -> None:
    """A CPU list of the kernel's."""
    text = broken(b"0-3,8,10-11", chance).decode("utf-8", "replace")
    assert CPUSet.parse(str(CPUSet.parse(text))) == CPUSet.parse(text)


def machine(chance: Random) -> None:
    """A machine that was recorded, and is described in a lawful way or not at all."""
    text = rendered(uniform(packages=chance.choice([1, 2]), cores=2, threads=2)).encode()
    read = read_record(broken(text, chance).decode("utf-8", "replace"))
    assert read.online
    assert sorted(cpu for core in read.cores for cpu in core.cpus) == sorted(read.online)


def hwloc(chance: Random) -> None:
    """What hwloc says of a machine."""
    read_hwloc(broken(_HWLOC, chance).decode("utf-8", "replace"))


def lscpu(chance: Random) -> None:
    """What lscpu says of a machine."""
    read_lscpu(broken(chance.choice(_LSCPU), chance).decode("utf-8", "replace"))


def machines(chance: Random) -> None:
    """A tarball of machines: nothing is written outside the folder."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for _ in range(chance.randint(1, 6)):
            parts = chance.choices(["m", "sys", "a", "..", ".", "b", "l", "x" * 300], k=chance.randint(0, 6))
            member = tarfile.TarInfo("/".join(["m", "sys", *parts]))
            member.type = chance.choice(_MEMBERS)
            member.linkname = chance.choice(["..", "../..", "../../../..", "a", "/etc", "b/../..", "l"])
            if chance.random() < 0.1:
                member.pax_headers = {chance.choice(["path", "linkpath"]): "m/sys/a\0b"}
            archive.addfile(member, io.BytesIO(b""))
    content = packed.getvalue() if chance.random() < 0.7 else broken(packed.getvalue(), chance)
    with tempfile.TemporaryDirectory(dir=in_memory()) as folder:
        tarball, into = Path(folder, "evil.tar"), Path(folder, "into")
        tarball.write_bytes(content)
        into.mkdir()
        with suppress(BadInput):
            unpacked(tarball, into)
        assert sorted(os.listdir(folder)) == ["evil.tar", "into"]
        top = os.path.realpath(into)
        assert all(os.path.realpath(path).startswith(top) for path in into.rglob("*"))


def state(chance: Random) -> None:
    """A checkpoint, sometimes with the checksum that fits."""
    found = content_of(DATA / "checkpoints" / f"v{chance.randint(1, checkpoint.VERSION)}.json")
    if chance.random() < 0.7:
        told = json.loads(found)
        found = checkpoint._framed(told["version"], document(told["state"], chance))
    else:
        found = broken(found, chance)
    again = checkpoint.decode_checkpoint(found)
    assert checkpoint.decode_checkpoint(checkpoint.encode_checkpoint(again)) == again


def journal(chance: Random) -> None:
    """A journal."""
    lines = content_of(DATA / "journals" / "v2.jsonl").splitlines(keepends=True)
    at = chance.randrange(len(lines))
    with suppress(ValueError):
        lines[at] = document(json.loads(lines[at]), chance) + b"\n"
    content = b"".join(lines) if chance.random() < 0.7 else broken(b"".join(lines), chance)
    with tempfile.NamedTemporaryFile(dir=in_memory()) as file:
        file.write(content)
        file.flush()
        for _ in read_journal(file.name):
            pass


def projection(chance: Random) -> None:
    """Whatever a workload writes into its directory: readers have an error or a reading, and numbers only grow."""
    with tempfile.TemporaryDirectory(dir=in_memory()) as folder:
        root = Path(folder)
        projections = Projections(root, clock=lambda: 1e9, steady=lambda: 1.0)
        told = Projection(container=ID, name="a", cpus=CPUSet.of(1), desired=CPUSet.of(1))
        projections.write(ID, ["a"], told)
        for path in (root / "by-id" / ID[:12], root / "by-name" / "a"):
            (path / "status.json").write_bytes(document(json.loads((path / "status.json").read_bytes()), chance))
            (path / "cpuset").write_bytes(broken(b"1\n", chance))
            with suppress(StateError):
                seconds_left(1.0, read(path).lease_seconds, 2.0)
        if chance.random() < 0.5:
            projections = Projections(root, clock=lambda: 1e9, steady=lambda: 1.0)
        projections.write(ID, ["a"], msgspec.structs.replace(told, cpus=CPUSet.of(2)))
        projections.withdraw(ID, CPUSet.of(3))
        projections.remove(ID)
        assert 0 < read(root / "by-name" / "a").generation < MAX_GENERATION - 2**50


def directory(chance: Random) -> None:
    """What the daemon's own directory holds, as commands read it."""
    with tempfile.TemporaryDirectory(dir=in_memory()) as folder:
        for name in ("status.json", "running.json", "settings.json", "checkpoint.json"):
            Path(folder, name).write_bytes(document({"a": chance.choice(VALUES), "containers": [{}]}, chance))
        read_settings(folder)
        read_last_status(folder, 1e9)


def kubelet(chance: Random) -> None:
    """The state file of a kubelet's CPU manager."""
    told = {
        "policyName": "static",
        "defaultCpuSet": "0,2-7",
        "entries": {"pod": {"container": "1"}},
        "checksum": 1,
    }
    kubelet_state.decode(document(told, chance))


def daemon_json(chance: Random) -> None:
    """Docker's configuration: what is written again means the same."""
    settings = decode_settings(document({"runtimes": {"x": {"path": "/x"}}, "a": chance.choice(VALUES)}, chance), "x")
    assert json.loads(encode_settings(settings)) == settings


def spec(chance: Random) -> None:
    """A container's bundle, and the sidecar's answer, in the runtime."""
    told: dict[str, Any] = {
        "process": {"args": ["sh"]},
        "mounts": [{"destination": "/run", "type": "bind", "source": "/x/hostname", "options": ["ro"]}],
        "linux": {"cgroupsPath": f"/docker/{ID}", "resources": {"cpu": {"cpus": "0-3", "quota": 1}}},
        "annotations": {"cpuset.exclusive": "2"},
    }
    read = bundle.loaded(document(told, chance))
    asked = bundle.dumped(bundle.question(ID, read))
    assert bundle.loaded(asked)["id"] == ID
    answer = socket_client._answer(chance.choice([200, 404, 409, 503]), document(_ANSWER, chance))
    bundle.apply(read, answer)
    with mock.patch.object(bundle, "DIRECTORY_SECONDS", 0.0):
        bundle.mount(read, "/nonexistent", bundle.text(answer, "directory"), bundle.text(answer, "destination"))
    assert bundle.loaded(bundle.dumped(read))["linux"]["resources"]["cpu"]["cpus"] == answer["cpus"]
    bundle.id_in(str(chance.choice(VALUES)))


def call(chance: Random) -> None:
    """The arguments of a runtime."""
    words = [
        "--log",
        "/x",
        "--log-format",
        "json",
        "--root=/r",
        "create",
        "--bundle",
        "/b",
        "--",
        ID,
        "-",
        "",
        "--=",
        "-x",
    ]
    front.Called([chance.choice(words) for _ in range(chance.randint(0, 9))])


_MEMBERS: Final = (tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE)

_ANSWER: Final = {
    "cpus": "2-3",
    "mems": "0",
    "quota": -1,
    "directory": "by-id/d",
    "destination": "/run/x",
    "error": "no",
}

_HWLOC: Final = b"""<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
  <object type="Machine" os_index="0" cpuset="0x0000000f" nodeset="0x00000001" gp_index="1">
    <object type="Package" os_index="0" cpuset="0x0000000f" nodeset="0x00000001">
      <object type="NUMANode" os_index="0" cpuset="0x0000000f" nodeset="0x00000001" local_memory="1000"/>
      <object type="L3Cache" cpuset="0x0000000f" nodeset="0x00000001" cache_size="1" depth="3" cache_type="0">
        <object type="Core" os_index="0" cpuset="0x00000003" nodeset="0x00000001">
          <object type="PU" os_index="0" cpuset="0x00000001" nodeset="0x00000001"/>
          <object type="PU" os_index="1" cpuset="0x00000002" nodeset="0x00000001"/>
        </object>
        <object type="Core" os_index="1" cpuset="0x0000000c" nodeset="0x00000001">
          <object type="PU" os_index="2" cpuset="0x00000004" nodeset="0x00000001"/>
          <object type="PU" os_index="3" cpuset="0x00000008" nodeset="0x00000001"/>
        </object>
      </object>
    </object>
  </object>
</topology>
"""

_LSCPU: Final = (
    b"# CPU,Core,Socket,Node,,L1d,L1i,L2,L3\n0,0,0,0,,0,0,0,0\n1,0,0,0,,0,0,0,0\n2,1,1,1,,1,1,1,1\n",
    b"CPU NODE SOCKET CORE L1d:L1i:L2:L3 ONLINE\n  0    0      0    0 0:0:0:0  yes\n  1    0      0    1 1:1:1:0  no\n",
)

EDGES: Final = (
    Edge("cpu list", cpu_list, (StateError,)),
    Edge("machine", machine, (StateError,)),
    Edge("hwloc", hwloc, (StateError,)),
    Edge("lscpu", lscpu, (StateError,)),
    Edge("machines", machines),
    Edge("state", state, (StateError,)),
    Edge("journal", journal, (StateError,)),
    Edge("projection", projection),
    Edge("directory", directory, (StateError,)),
    Edge("kubelet", kubelet, (StateError,)),
    Edge("daemon.json", daemon_json, (ConfigError,)),
    Edge("spec", spec, (StartRefused,)),
    Edge("call", call),
)
