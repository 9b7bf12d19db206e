"""lscpu's JSON: rows are read as they are, the summary is a guess and says so, and nothing else is accepted."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.host.machine.lscpu import LIMIT, read_lscpu
from sidecar.host.machine.sysfs import read_topology
from state.cpuset import CPUSet
from state.errors import StateError
from state.topology import Topology, topology
from tests.state.strategies import partitions
from tests.support.host.trees import members


def rows_of(machine: Topology, *, as_text: bool = False) -> str:
    """Return what `lscpu -J -e -a` prints of such a machine; old versions print every value as text."""

    def number(value: int) -> int | str:
        return str(value) if as_text else value

    rows: list[dict[str, object]] = []
    for cpu in machine.online | machine.offline:
        if cpu in machine.offline:
            rows.append({"cpu": number(cpu), "node": None, "socket": "-", "core": None, "l1d:l2:l3": "-"})
            rows[-1]["online"] = "no" if as_text else False
            continue
        core = machine.core_of[cpu].id
        rows.append(
            {
                "cpu": number(cpu),
                "node": number(machine.node_of[cpu].id),
                "socket": number(machine.package_of[cpu].id),
                "core": number([group.id for group in machine.cores].index(core)),
                "l1d:l2:l3": f"{core}:{core}:{machine.cache_of[cpu].id}",
                "online": "yes" if as_text else True,
            }
        )
    return json.dumps({"cpus": rows}, indent=3)


@st.composite
def machines(draw: st.DrawFn) -> Topology:
    """Draw machines whose cores lie within a socket, as lscpu's rows imply."""
    every = draw(st.frozensets(st.integers(0, 60), min_size=1, max_size=24).map(CPUSet))
    online = draw(st.just(every) | st.frozensets(st.sampled_from(sorted(every)), min_size=1).map(CPUSet))
    packages = draw(partitions(online))
    return topology(
        cores=[core for package in packages for core in draw(partitions(package))],
        caches=dict(enumerate(draw(partitions(online)))),
        nodes=dict(enumerate(draw(partitions(online)), 3)),
        packages=dict(enumerate(packages)),
        offline=every - online,
    )


@given(machines(), st.booleans())
def test_rows_there_and_back(machine: Topology, as_text: bool) -> None:
    """Every level as it was, with its ids."""
    read = read_lscpu(rows_of(machine, as_text=as_text))
    for level in ("online", "offline", "cores", "caches", "nodes", "packages", "notes"):
        assert getattr(read, level) == getattr(machine, level), level
    assert [level.level for level in read.cache_levels] == [1, 2, 3]
    assert read.cache_levels[2].groups == tuple(sorted(machine.caches, key=lambda group: group.cpus.lowest()))


def test_numbers_that_repeat_are_told_apart() -> None:
    """`lscpu -J -e -y`: core numbers per socket, socket numbers per book, and only what the columns hold."""
    rows = [
        {"cpu": 0, "book": 0, "socket": 0, "core": 0},
        {"cpu": 1, "book": 0, "socket": 0, "core": 1},
        {"cpu": 2, "book": 1, "socket": 0, "core": 0},
        {"cpu": 3, "book": 1, "socket": 0, "core": 1},
    ]
    read = read_lscpu(json.dumps({"cpus": rows}))
    assert members(read, "cores") == ["0", "1", "2", "3"]
    assert [(group.id, str(group.cpus)) for group in read.packages] == [(0, "0-1"), (2, "2-3")]
    assert read.nodes == read.packages == read.caches
    assert read.notes == (
        "nodes are unknown: the next larger level is used instead",
        "caches are missing: each package counts as one",
    )


def test_the_least_that_rows_can_tell() -> None:
    """A column of CPUs: each is a core. A cache column without its title has the usual order."""
    read = read_lscpu('{"cpus": [{"cpu": "7"}, {"cpu": "2"}]}')
    assert (members(read, "cores"), members(read, "packages")) == (["2", "7"], ["2,7"])
    assert "cores are unknown for CPUs 2,7: each CPU counts as a core" in read.notes
    rows = [
        {"CPU": cpu, "CORE": cpu, "CACHE": f"{cpu}:{cpu}:{cpu}:{cpu // 2}", "CLUSTER": cpu // 2} for cpu in range(4)
    ]
    read = read_lscpu(json.dumps({"cpus": rows}))
    assert members(read, "caches") == ["0-1", "2-3"]
    assert [str(group.cpus) for group in read.clusters] == ["0-1", "2-3"]


def test_a_bare_dash_is_nothing_known() -> None:
    """lscpu 2.38 writes it for an offline CPU, unquoted; the JSON is broken, but its meaning is clear."""
    text = (
        '{"cpus":[{"cpu":0,"node":0,"socket":0,"core":0,"l1d:l1i:l2:l3":"0:0:0:0","online":true},'
        '{"cpu":1,"node":-,"socket":- ,"core": -\n,"l1d:l1i:l2:l3":"-","modelname":"a\\": -,","online":false}]}'
    )
    read = read_lscpu(text)
    assert (str(read.online), str(read.offline)) == ("0", "1")


def test_words_for_online_in_other_languages() -> None:
    """Old versions translate yes and no: a CPU with a core is online."""
    rows = [{"cpu": 0, "core": "0", "online": "ja"}, {"cpu": 1, "core": "-", "online": "nein"}]
    read = read_lscpu(json.dumps({"cpus": rows}))
    assert (str(read.online), str(read.offline)) == ("0", "1")


def summary(**fields: str) -> str:
    """Return a summary with the fields by their names, _ for a blank."""
    items = [{"field": name.replace("_", " ") + ":", "data": data} for name, data in fields.items()]
    return json.dumps({"lscpu": items})


SERVER = {
    "Architecture": "x86_64",
    "CPU(s)": "16",
    "On-line CPU(s) list": "0-15",
    "Thread(s) per core": "2",
    "Core(s) per socket": "4",
    "Socket(s)": "2",
    "L3 cache": "32 MiB (4 instances)",
    "NUMA node(s)": "2",
    "NUMA node0 CPU(s)": "0-3,8-11",
    "NUMA node1 CPU(s)": "4-7,12-15",
}


def test_the_summary_is_guessed_from() -> None:
    """Nodes are given; cores, sockets and caches are those of a typical server; a note says so."""
    read = read_lscpu(summary(**SERVER))
    assert members(read, "nodes") == ["0-3,8-11", "4-7,12-15"]
    assert members(read, "packages") == ["0-3,8-11", "4-7,12-15"]
    assert members(read, "cores")[:2] == ["0,8", "1,9"]
    assert members(read, "caches") == ["0-1,8-9", "2-3,10-11", "4-5,12-13", "6-7,14-15"]
    assert read.notes[0].startswith("this is lscpu's summary: it has no row for each CPU")
    assert "threads of a core are assumed to be numbered like 0,8" in read.notes


@pytest.mark.parametrize(
    ("changes", "cores"),
    [
        ({"Hypervisor vendor": "KVM", "NUMA node0 CPU(s)": "0-7", "NUMA node1 CPU(s)": "8-15"}, "0-1"),
        ({"Architecture": "ppc64le", "NUMA node0 CPU(s)": "0-15", "NUMA node1 CPU(s)": ""}, "0-1"),
        # Only the other numbering keeps each core within a node.
        ({"NUMA node0 CPU(s)": "0-7", "NUMA node1 CPU(s)": "8-15"}, "0-1"),
        ({"Hypervisor vendor": "KVM", "NUMA node0 CPU(s)": "even", "NUMA node1 CPU(s)": "odd"}, "0,8"),
        ({"NUMA node0 CPU(s)": "0-2", "NUMA node1 CPU(s)": "3-15"}, "0"),
        ({"Thread(s) per core": "3"}, "0"),
        ({"Thread(s) per core": "1"}, "0"),
        ({"On-line CPU(s) list": "0-7", "Off-line CPU(s) list": "8-15"}, "0"),
        ({"On-line CPU(s) list": "0xffff", "NUMA node0 CPU(s)": "0x0f0f", "NUMA node1 CPU(s)": "0xf0f0"}, "0,8"),
    ],
)
def test_how_threads_are_numbered(changes: dict[str, str], cores: str) -> None:
    """By the kind of machine, unless its nodes contradict that."""
    lists = {"even": "0,2,4,6,8,10,12,14", "odd": "1,3,5,7,9,11,13,15"}
    fields = {**SERVER, **{name: lists.get(text, text) for name, text in changes.items()}}
    assert members(read_lscpu(summary(**fields)), "cores")[0] == cores


def test_the_summary_with_fields_below_fields() -> None:
    """As `--hierarchic` prints it; s390 counts sockets by books and drawers."""
    text = json.dumps(
        {
            "lscpu": [
                {"field": "CPU(s):", "data": "8", "children": [{"field": "On-line CPU(s) list:", "data": "0-6"}]},
                {"field": "Off-line CPU(s) list:", "data": "7"},
                {"field": "Socket(s) per book:", "data": "1"},
                {"field": "Book(s) per drawer:", "data": "1"},
                {"field": "Drawer(s):", "data": "7"},
                {"field": "L2 cache:", "data": None},
            ]
        }
    )
    read = read_lscpu(text)
    assert (str(read.online), str(read.offline), len(read.packages)) == ("0-6", "7", 7)
    assert len(read_lscpu(summary(**{"CPU(s)": "4", "Socket(s)": "3"})).packages) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it is not lscpu's JSON"),
        ("[]", 'there is no list "cpus" or "lscpu" in it'),
        ("[" * 100_000, "it is not lscpu's JSON: it is nested too deeply"),
        ('{"cpus": []}', "lscpu names no CPU that is online"),
        ('{"cpus": [7]}', 'in the list "cpus" is 7'),
        ('{"cpus": [{}]}', "is of no CPU: None"),
        ('{"cpus": [{"cpu": 8192}]}', "is of no CPU: 8192"),
        ('{"cpus": [{"cpu": 1e400}]}', "lscpu's"),
        ('{"cpus": [{"cpu": 1}, {"cpu": 1}]}', "CPU 1 has two rows"),
        ('{"cpus": [{"cpu": 1, "online": false}]}', "no CPU that is online"),
        ('{"lscpu": [7]}', 'in the list "lscpu" is 7'),
        ('{"lscpu": [{"field": "CPU(en):", "data": "4"}]}', "names neither CPUs nor their number; its field names"),
        ('{"lscpu": [{"field": "CPU(s):", "data": "99999"}]}', "names neither CPUs"),
        ('{"lscpu": [{"field": "On-line CPU(s) list:", "data": "x"}]}', "is no CPU list: 'x'"),
        ('{"lscpu": [{"field": "On-line CPU(s) mask:", "data": "0xz"}]}', "is no CPU list: '0xz'"),
        ("\ud800", "it is not lscpu's JSON"),
        (" " * (LIMIT + 1), "characters are too many"),
    ],
)
def test_what_is_not_lscpu_is_refused_in_words(text: str, message: str) -> None:
    with pytest.raises(StateError) as caught:
        read_lscpu(text)
    assert message in str(caught.value)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8) | st.just("0-3"),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["cpu", "core", "l2:l3", "field", "data", "x"]), inner)
    ),
    max_leaves=20,
)


@given(json_values, st.sampled_from(["cpus", "lscpu"]))
def test_any_json_is_a_machine_or_an_error(value: object, name: str) -> None:
    """Never another exception."""
    try:
        read = read_lscpu(json.dumps({name: value if isinstance(value, list) else [value]}))
    except StateError:
        return
    assert read.online


needs_lscpu = pytest.mark.skipif(shutil.which("lscpu") is None, reason="lscpu (util-linux) is not installed")
LSCPU = ["lscpu", "-J", "-e", "-a"]


@needs_lscpu
def test_this_machine_is_read_as_from_sysfs() -> None:
    """By the lscpu of this machine."""
    shown = subprocess.run(LSCPU, capture_output=True, text=True, check=True, env={**os.environ, "LC_ALL": "C"})
    told, here = read_lscpu(shown.stdout), read_topology(Path("/sys"))
    assert told.online == here.online
    for level in ("cores", "nodes", "packages"):
        assert members(told, level) == members(here, level)
