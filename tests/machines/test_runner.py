"""The runner of recorded machines finds faults, names intended deviations, and refuses bad input."""

from __future__ import annotations

import io
import json
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

from sidecar.host.machine.record import unpack
from state.topology import Topology, uniform
from tests.machines.archive import unpacked
from tests.machines.running import deviations, main
from tests.support.host.trees import CPU, NODE, rendered


def packed(directory: Path, machines: dict[str, str], expected: Any) -> list[str]:
    """Return the runner's two arguments: a tarball of recorded machines, and their expectations."""
    tarball, said = directory / "machines.tar.xz", directory / "expected.json"
    with tarfile.open(tarball, "w:xz") as archive:
        for name, text in machines.items():
            unpack(text, directory / name / "sys")
            archive.add(directory / name, name)
    said.write_text(json.dumps(expected))
    return [str(tarball), str(said)]


def by_hwloc(machine: Topology) -> dict[str, Any]:
    """Return what hwloc would report."""
    levels = {"core": machine.cores, "package": machine.packages, "l3": machine.caches}
    return {
        "hwloc": {
            **{name: [list(group.cpus) for group in groups] for name, groups in levels.items()},
            "numa": {str(group.id): list(group.cpus) for group in machine.nodes},
            "die": [],
            "counts": {"PU": len(machine.online), "Core": len(machine.cores)},
        }
    }


def test_machines_that_are_as_expected_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A machine without expectations passes if it is lawful."""
    machine = uniform(packages=2, cores=2, threads=2)
    machines = {"some/two": rendered(machine), "alone": rendered(uniform(cores=3))}
    assert main(packed(tmp_path, machines, {"some/two": by_hwloc(machine), "alone": None})) == 0
    assert capsys.readouterr().out == "2 passed, 0 failed\n"


def test_a_machine_that_is_misread_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each difference is a line; so is an expected machine that is missing."""
    machine = uniform(packages=2, cores=2, threads=2)
    other = by_hwloc(uniform(packages=1, cores=4, threads=2))
    assert main(packed(tmp_path, {"two": rendered(machine)}, {"two": other, "lost": None})) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "lost: it is expected, and is not in the tarball"
    assert any(line.startswith("two: packages: [0-1,4-5] [2-3,6-7] here, hwloc says [0-7]") for line in lines)
    assert lines[-1] == "0 passed, 2 failed"


def test_a_deviation_that_is_meant_has_its_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A rule names a memory-only node to which hwloc assigns CPUs; the machine passes."""
    machine = uniform(packages=2, cores=2)
    text = rendered(machine).replace(f"{NODE}/online: 0-1", f"{NODE}/online: 0-2") + f"{NODE}/node2/cpulist:\n"
    said = by_hwloc(machine)
    said["hwloc"]["numa"]["2"] = [0, 1]
    assert main(packed(tmp_path, {"pmem": text}, {"pmem": said})) == 0
    out = capsys.readouterr().out
    assert "pmem: nodes: none here, hwloc says {2: '0-1'} (named: nodes of memory only)" in out
    assert out.endswith("1 passed, 0 failed\n")


def test_modules_are_named_only_where_the_kernel_tells_two_cores(tmp_path: Path) -> None:
    """Siblings that hwloc splits are a fault, unless each has a core id of its own."""
    machine = uniform(cores=2, threads=2, adjacent=True)
    said = by_hwloc(uniform(cores=4))
    for ids, named in (((0, 0, 1, 1), False), ((0, 1, 2, 3), True)):
        root = tmp_path / str(named)
        lines = "".join(f"{CPU}/cpu{cpu}/topology/core_id: {id}\n" for cpu, id in enumerate(ids))
        unpack(rendered(machine) + lines, root)
        assert [bool(found.reason) for found in deviations(root, said)] == [named]


def test_what_is_no_machine_is_a_deviation(tmp_path: Path) -> None:
    """It is refused with a reason, which counts as named only if nothing else was expected."""
    (tmp_path / "sys").mkdir()
    assert [found.text.partition(":")[0] for found in deviations(tmp_path / "sys", {})] == ["it is refused"]
    assert deviations(tmp_path / "sys", {})[0].reason
    assert not deviations(tmp_path / "sys", by_hwloc(uniform()))[0].reason


@pytest.mark.parametrize(
    "said",
    [
        "{",
        "[]",
        '{"a": 1}',
        '{"a": {"hwloc": {"core": 3}}}',
        '{"a": {"hwloc": {"numa": {"x": []}}}}',
        '{"a": {"lscpu": []}}',
    ],
)
def test_bad_expectations_are_bad_input(said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, and the file is named."""
    arguments = packed(tmp_path, {"a": rendered(uniform())}, {})
    Path(arguments[1]).write_text(said)
    assert main(arguments) == 2
    assert "expected.json" in capsys.readouterr().err


def test_bad_tarballs_are_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Missing, no tarball, cut off, or without a machine."""
    tarball, said = packed(tmp_path, {"a": rendered(uniform())}, {})
    whole = Path(tarball).read_bytes()
    for content in (b"hello", b"", whole[: len(whole) // 2]):
        Path(tarball).write_bytes(content)
        assert main([tarball, said]) == 2
        assert "machines.tar.xz" in capsys.readouterr().err
    assert main([str(tmp_path / "nowhere"), said]) == 2


def test_a_tarball_cannot_write_elsewhere(tmp_path: Path) -> None:
    """Members that climb out, or links that lead out, are passed over."""
    (tmp_path / "in").mkdir()
    tarball, said = packed(tmp_path / "in", {"a": rendered(uniform())}, {})
    with tarfile.open(tarball, "w:xz") as archive:
        archive.add(tmp_path / "in" / "a", "a")
        for name in ("../../escaped/sys/x", "a/sys/../../../escaped"):
            member = tarfile.TarInfo(name)
            member.size = 2
            archive.addfile(member, io.BytesIO(b"no"))
        link = tarfile.TarInfo("a/sys/devices/loop")
        link.type, link.linkname = tarfile.SYMTYPE, "../../../../etc"
        archive.addfile(link)
    assert main([tarball, said]) == 0
    assert not list(tmp_path.rglob("escaped"))


@pytest.mark.parametrize("order", [1, -1])
def test_a_tarball_cannot_write_elsewhere_through_its_own_links(tmp_path: Path, order: int) -> None:
    """Two links that each stay within the machine, and lead above it together: the second is made through no link."""
    tarball, into = tmp_path / "evil.tar", tmp_path / "deep" / "into"
    into.mkdir(parents=True)
    links = [
        ("m/sys/a/b/c/d/l", "../../../.."),
        ("m/sys/a/b/c/d/l/e", "../../../../.."),
        ("m/sys/a/b/c/d/l/e/ESCAPED/link", "../x"),
        ("m/sys/ok", "a"),
    ]
    with tarfile.open(tarball, "w") as archive:
        content = b"0-3\n"
        member = tarfile.TarInfo("m/sys/devices/system/cpu/online")
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
        for name, target in links[::order]:
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, target
            archive.addfile(link)
    before = {path for path in tmp_path.rglob("*") if not path.is_relative_to(into)}
    found = unpacked(tarball, into)
    assert {path for path in tmp_path.rglob("*") if not path.is_relative_to(into)} == before
    assert os.readlink(into / "m/sys/ok") == "a"
    root = os.path.realpath(found["m"])
    for path in into.rglob("*"):
        assert os.path.realpath(path) == str(into / "m") or os.path.realpath(path).startswith(root), path


@pytest.mark.parametrize("kind", ["path", "linkpath"])
def test_a_name_that_no_file_can_have_is_left_out(tmp_path: Path, kind: str) -> None:
    """A null character, by an extended header: the other files are there."""
    tarball = tmp_path / "evil.tar"
    with tarfile.open(tarball, "w", format=tarfile.PAX_FORMAT) as archive:
        for name in ("bad", "online", "longer" * 60):
            member = tarfile.TarInfo(f"m/sys/devices/system/cpu/{name}")
            if name == "bad":
                member.pax_headers = {kind: f"m/sys/devices/{name}\0x"}
                member.type = tarfile.REGTYPE if kind == "path" else tarfile.SYMTYPE
            archive.addfile(member, io.BytesIO(b""))
    (tmp_path / "into").mkdir()
    found = unpacked(tarball, tmp_path / "into")
    assert (found["m"] / "devices/system/cpu/online").exists()
