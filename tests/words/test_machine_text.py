"""`topology` describes a machine in words, on at most a page."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from sidecar.__main__ import main
from sidecar.host.machine.record import read_record
from sidecar.status.machine_levels import WholeMachine, whole_machine_of
from sidecar.status.machine_map import machine_of
from sidecar.words.machine_text import described
from state import codec
from state.cpuset import CPUSet
from state.topology import CacheLevel, Group, Kind, uniform
from tests.support.host.trees import lines, rendered

PLAIN = uniform(packages=2, cores=2, threads=2)
RICH = msgspec.structs.replace(
    PLAIN,
    clusters=tuple(Group(core.id, core.cpus) for core in PLAIN.cores),
    dies=PLAIN.packages,
    cache_levels=(CacheLevel(1, PLAIN.cores), CacheLevel(3, PLAIN.caches)),
    distances={0: {0: 10, 1: 21, 4: 17}, 1: {0: 21, 1: 10, 4: 28}, 4: {0: 17, 1: 28, 4: 10}},
    memory=(0, 4),
    kinds=(Kind("performance", 1024, CPUSet.of(0, 4)), Kind("efficient", 0, PLAIN.online - CPUSet.of(0, 4))),
    devices={"eth0": CPUSet.of(0, 1), "0000:01:00.0": CPUSet.of(0, 1), "sda": PLAIN.online},
    offline=CPUSet.of(8),
    isolated=CPUSet.of(3),
)


def test_a_machine_with_every_level_is_described() -> None:
    """One line for each of its parts."""
    assert described(RICH) == [
        "2 sockets, 2 dies, 2 nodes, 2 last-level caches, 4 clusters, 4 cores of 2 CPUs, 8 CPUs online: 0-7",
        "caches: 4 of level 1, 2 of level 3",
        "performance CPUs: 0,4 (capacity 1024)",
        "efficient CPUs: 1-3,5-7",
        "isolated: 3",
        "offline: 8",
        "nodes of memory only: 4",
        "nodes without memory: 1",
        "distances  0  1  4",
        "   node 0 10 21 17",
        "   node 1 21 10 28",
        "   node 4 17 28 10",
        "near 0-1: eth0, 0000:01:00.0",
        "near all CPUs: sda",
    ]


def test_a_plain_machine_is_one_line() -> None:
    """Missing levels are not mentioned."""
    assert described(uniform()) == ["1 socket, 1 node, 1 last-level cache, 1 core of 1 CPU, 1 CPU online: 0"]


def test_many_of_anything_are_a_number() -> None:
    """Devices, places, nodes, and lists of CPUs do not fill the terminal."""
    cpus = list(uniform(cores=100).online)
    many = msgspec.structs.replace(
        uniform(cores=100),
        distances={id: {0: 10} for id in range(17)},
        devices={f"eth{cpu}x{n}": CPUSet.of(cpu) for cpu in cpus for n in range(20)} | {"odd": CPUSet(cpus[::2])},
    )
    told = described(many)
    assert "distances: of 17 nodes, with --json" in told
    assert "near 85 other sets of CPUs: more devices, with --json" in told
    assert sum(line.startswith("near ") for line in told) == 17
    assert any(line.endswith(", and 12 more") for line in told)
    assert max(map(len, told)) < 160


def test_json_has_every_level_and_the_map_as_it_was() -> None:
    """Readers of the map find it in its old place; the levels are next to it."""
    whole = codec.decode(codec.encode(whole_machine_of(RICH)), WholeMachine)
    assert (whole.distances, whole.kinds, whole.devices) == (RICH.distances, RICH.kinds, RICH.devices)
    assert (whole.dies, whole.clusters, whole.cache_levels) == (RICH.dies, RICH.clusters, RICH.cache_levels)
    before = codec.to_builtins(machine_of(RICH))
    assert {key: value for key, value in codec.to_builtins(whole).items() if key in before} == before


def test_a_foreign_file_is_a_machine_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--machine` takes a record, and the JSON of lscpu."""
    record, json = f"{tmp_path}/machine.txt", f"{tmp_path}/machine.json"
    with open(record, "w") as file:
        file.write(rendered(PLAIN) + lines("devices/cpu_core/cpus: 0-1,4-5\ndevices/cpu_atom/cpus: 2-3,6-7") + "\n")
    with open(json, "w") as file:
        file.write(
            '{"cpus": [{"cpu": 0, "core": 0, "socket": 0, "node": 0}, {"cpu": 1, "core": 0, "socket": 0, "node": 0}]}'
        )
    assert main(["topology", "--machine", record]) == 0
    assert "performance CPUs: 0-1,4-5\n" in capsys.readouterr().out
    assert main(["topology", "--machine", json]) == 0
    assert "1 core of 2 CPUs, 2 CPUs online: 0-1" in capsys.readouterr().out
    assert main(["topology", "--machine", json, "--json"]) == 0
    assert codec.decode(capsys.readouterr().out.encode(), WholeMachine).online == CPUSet.of(0, 1)


def test_a_record_has_what_is_described() -> None:
    """The description has no fact that a record of the machine lacks."""
    machine = read_record(rendered(PLAIN))
    assert described(machine)[0] == described(PLAIN)[0]
