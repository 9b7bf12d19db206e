"""hwloc's XML, both formats: what was written is read, and a hostile document is refused in words."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.host.machine.hwloc import DEPTH, LIMIT, read_hwloc
from sidecar.words.counts import named
from state.cpuset import MAX_CPU, CPUSet, union
from state.errors import StateError
from state.topology import Group, Kind, Topology, topology, uniform
from tests.state.strategies import cpu_sets, partitions
from tests.support.host.hwlocxml import document, element, format1, format2, mask, thing
from tests.support.host.trees import members


@st.composite
def machines(draw: st.DrawFn) -> Topology:
    """Draw machines of nodes within packages within nothing, or of one node each, as both formats can describe them."""
    every = draw(st.frozensets(st.integers(0, 200), min_size=1, max_size=24).map(CPUSet))
    online = draw(st.just(every) | st.frozensets(st.sampled_from(sorted(every)), min_size=1).map(CPUSet))
    packages = draw(partitions(online))
    caches = [cache for package in packages for cache in draw(partitions(package))]
    cores = [core for cache in caches for core in draw(partitions(cache))]
    ids = draw(st.permutations(range(len(caches))))
    return topology(
        cores=cores,
        caches=dict(zip(ids, caches, strict=True)),
        nodes=dict(enumerate(packages, draw(st.integers(0, 9)))),
        packages=dict(enumerate(packages)),
        offline=every - online,
    )


def with_distances(machine: Topology) -> Topology:
    """Draw the same with firmware that reports distances."""
    nodes = [group.id for group in machine.nodes]
    rows = {a: {b: 10 if a == b else 20 + a + b for b in nodes} for a in nodes}
    return replaced(machine, distances=rows)


def replaced(machine: Topology, **changes: object) -> Topology:
    fields = {name: getattr(machine, name) for name in machine.__struct_fields__}
    return Topology(**{**fields, **changes})


LEVELS = ("online", "offline", "cores", "nodes", "packages", "distances")


@given(machines().map(with_distances))
def test_format_2_there_and_back(machine: Topology) -> None:
    """Every level with its ids, the CPUs that are away, and the distances."""
    read = read_hwloc(format2(machine))
    for level in (*LEVELS, "caches"):
        assert getattr(read, level) == getattr(machine, level), level
    assert read.memory == tuple(group.id for group in machine.nodes)
    assert [level.level for level in read.cache_levels] == [1, 3]
    away = f"offline, or not allowed to the program that looked: {named(machine.offline)}"
    assert read.notes == ((away,) if machine.offline else ())


@given(machines().map(with_distances))
def test_format_1_there_and_back(machine: Topology) -> None:
    """The same; its caches have no ids, and go by their lowest CPUs."""
    read = read_hwloc(format1(machine))
    for level in LEVELS:
        assert getattr(read, level) == getattr(machine, level), level
    assert [(group.id, group.cpus) for group in read.caches] == sorted(
        (group.cpus.lowest(), group.cpus) for group in machine.caches
    )
    assert read.memory == tuple(group.id for group in machine.nodes)
    assert read.notes == ()


@given(cpu_sets.filter(lambda cpus: len(cpus - CPUSet.of(0)) < MAX_CPU))
def test_masks_are_hwlocs(cpus: CPUSet) -> None:
    """Words of 32 bits, some of them empty: the root names the further CPUs. (All of them is "no end".)"""
    text = document(thing("Machine", CPUSet.of(0), thing("PU", CPUSet.of(0), os_index=0)))
    text = text.replace('complete_cpuset="0x00000001"', f'complete_cpuset="{mask(cpus)}"', 1)
    assert read_hwloc(text).offline == cpus - CPUSet.of(0)


@pytest.mark.parametrize("words", [["0xffffffff"] * 200_000, ["0xffffffff", *[""] * 200_000]])
def test_a_mask_of_more_words_than_any_machine_needs_is_refused_at_once(words: list[str]) -> None:
    text = document(thing("Machine", CPUSet.of(0), thing("PU", CPUSet.of(0), os_index=0)))
    began = time.thread_time()
    with pytest.raises(StateError, match="which is not a mask of CPUs 0 to 8191"):
        read_hwloc(text.replace('cpuset="0x00000001"', f'cpuset="{",".join(words)}"', 1))
    assert time.thread_time() - began < 5


def test_a_mask_without_end() -> None:
    """hwloc's notation for "all": as the machine's own mask it says nothing about absent CPUs."""
    pus = [thing("PU", CPUSet.of(cpu), os_index=cpu) for cpu in range(4)]
    endless = element("object", *pus, type="Machine", cpuset="0xf...f", complete_cpuset="0xf...f")
    read = read_hwloc(document(endless))
    assert (str(read.online), str(read.offline)) == ("0-3", "")
    endless = element("object", *pus, type="Machine", allowed_cpuset="0xf...f,0x0000000c")
    assert str(read_hwloc(document(endless)).online) == "2-3"


def test_a_hybrid_with_clusters_and_dies() -> None:
    """Kinds by Linux' capacity or by Intel's names; groups that are clusters; ids only if each is unique."""
    machine = uniform(cores=8)
    fast, slow = CPUSet(range(4)), CPUSet(range(4, 8))
    machine = replaced(
        machine,
        kinds=(Kind("performance", 1024, fast), Kind("efficient", 446, slow)),
        dies=(Group(0, CPUSet(range(6))), Group(6, CPUSet.of(6, 7))),
        caches=(Group(0, fast), Group(4, CPUSet.of(4, 5)), Group(6, CPUSet.of(6, 7))),
    )
    read = read_hwloc(format2(machine))
    assert read.kinds == machine.kinds
    assert read.dies == machine.dies
    cores = [thing("Core", CPUSet.of(cpu), thing("PU", CPUSet.of(cpu), os_index=cpu)) for cpu in range(8)]
    clusters = [thing("Group", half, *cores[half.lowest() :][:4], subtype="Cluster") for half in (fast, slow)]
    kinds = [
        element("cpukind", element("info", name="CoreType", value="IntelAtom"), cpuset=mask(slow)),
        element("cpukind", element("info", name="CoreType", value="IntelCore"), cpuset=mask(fast)),
    ]
    read = read_hwloc(document(thing("Machine", machine.online, *clusters), *kinds))
    assert [str(group.cpus) for group in read.clusters] == ["0-3", "4-7"]
    assert read.kinds == (Kind("performance", 1024, fast), Kind("efficient", 0, slow))
    for odd in (kinds[:1], [*kinds, element("cpukind", cpuset=mask(fast))]):
        assert read_hwloc(document(thing("Machine", machine.online, *clusters), *odd)).kinds == ()


def test_memory_without_cpus_of_its_own() -> None:
    """Fast memory next to a node names the CPUs near it, which are that node's; a cache of the memory is no cache."""
    first, second = CPUSet.of(0, 1), CPUSet.of(2, 3)
    packages = [
        thing(
            "L3Cache",
            cpus,
            thing("NUMANode", cpus, os_index=index, local_memory=1),
            thing("NUMANode", cpus, os_index=index + 4, local_memory=1),
            *(thing("PU", CPUSet.of(cpu), os_index=cpu) for cpu in cpus),
            subtype="MemorySideCache",
        )
        for index, cpus in enumerate((first, second))
    ]
    slow = thing("NUMANode", first | second, os_index=2, local_memory=1)
    read = read_hwloc(document(thing("Machine", first | second, slow, *packages)))
    assert [(group.id, str(group.cpus)) for group in read.nodes] == [(0, "0-1"), (1, "2-3")]
    assert read.memory == (0, 1, 2, 4, 5)
    assert read.cache_levels == ()


def test_devices_are_near_the_cpus_of_what_they_hang_from() -> None:
    """By PCI address, and by the name that the kernel gives; absent CPUs do not count."""
    near = CPUSet.of(0, 1)
    network = element("object", type="OSDev", name="eth0", osdev_type=2)
    card = element("object", network, type="PCIDev", os_index=4096, pci_busid="0000:01:00.0")
    bridge = element("object", card, type="Bridge", bridge_type="0-1")
    disk = element("object", type="OSDev", name="sda", osdev_type=0)
    pus = [thing("PU", CPUSet.of(cpu), os_index=cpu) for cpu in range(4)]
    package = thing("Package", near, *pus[:2], bridge, os_index=0)
    rest = thing("Package", CPUSet.of(2, 3), *pus[2:], os_index=1)
    read = read_hwloc(document(thing("Machine", CPUSet.of(0, 1, 2, 3), package, rest, disk, allowed_cpuset="0xd")))
    assert read.devices == {"0000:01:00.0": CPUSet.of(0), "eth0": CPUSet.of(0), "sda": CPUSet.of(0, 2, 3)}
    assert str(read.offline) == "1"


def test_old_and_odd_levels() -> None:
    """PUs alone; os_index that is missing, unknown or the same twice; the first format's root."""
    pus = [thing("PU", CPUSet.of(cpu), os_index=cpu) for cpu in range(4)]
    read = read_hwloc(document(element("object", *pus, type="Machine")))
    assert members(read, "cores") == ["0", "1", "2", "3"]
    assert "cores are unknown for CPUs 0-3: each CPU counts as a core" in read.notes
    for index in ({"os_index": 0}, {}, {"os_index": 4294967295}, {"os_index": -1}):
        halves = [thing("Socket", CPUSet.of(a, a + 1), *pus[a : a + 2], **index) for a in (0, 2)]
        read = read_hwloc(document(element("object", *halves, type="System"), format=1))
        assert [(group.id, str(group.cpus)) for group in read.packages] == [(0, "0-1"), (2, "2-3")]
    text = document(element("object", *pus, type="Machine"), format=1)
    assert read_hwloc(text.replace("topology>", "root>").replace("DOCTYPE topology", "DOCTYPE root")).online


def test_distances_that_do_not_fit_are_left_out() -> None:
    """Of another type, by other indexes, of another level, or not a square."""
    machine = with_distances(uniform(packages=2, cores=2))
    whole = format2(machine)
    assert read_hwloc(whole).distances == machine.distances
    for before, after in (
        ('type="NUMANode" nbobjs', 'type="Package" nbobjs'),
        ("NUMALatency", "NUMABandwidth"),
        ('indexing="os"', 'indexing="gp"'),
        (">0 1<", ">0 0<"),
        (">0 1<", ">0<"),
        (">10 ", ">x "),
    ):
        assert before in whole
        assert read_hwloc(whole.replace(before, after)).distances == {}
    old = format1(machine)
    for before, after in (('relative_depth="1"', 'relative_depth="2"'), ('value="1.0', 'value="-'), ("10.0", "x")):
        assert before in old
        assert read_hwloc(old.replace(before, after)).distances == {}


BOMB = """<?xml version="1.0"?>
<!DOCTYPE topology [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;">]>
<topology><object type="Machine" name="&c;"/></topology>"""
OUTSIDE = """<!DOCTYPE topology [<!ENTITY file SYSTEM "file:///etc/passwd">]>
<topology><object type="Machine">&file;</object></topology>"""
PARAMETER = """<!DOCTYPE topology [<!ENTITY % all SYSTEM "http://127.0.0.1:9/evil.dtd"> %all;]><topology/>"""
UNDECLARED = """<!DOCTYPE topology SYSTEM "hwloc2.dtd"><topology><object type="Machine">&file;</object></topology>"""
ATTLIST = """<!DOCTYPE topology [<!ATTLIST object cpuset CDATA "0x1">]><topology><object type="Machine"/></topology>"""
MACHINE = '<topology><object type="Machine" cpuset="{}">{}</object></topology>'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BOMB, "it declares a document type of its own"),
        (OUTSIDE, "it declares a document type of its own"),
        (PARAMETER, "it declares a document type of its own"),
        (ATTLIST, "it declares a document type of its own"),
        (UNDECLARED, "it declares or names an entity"),
        (f"<topology>{'<object>' * (DEPTH + 1)}", "no machine has so many objects, or so deep"),
        ("", "it is not hwloc's XML: no element found"),
        ("<topology>", "it is not hwloc's XML"),
        ("<topology/>", "it has no topology with an object"),
        ("<html><object/></html>", "it has no topology with an object"),
        ("\ud800", "it is not hwloc's XML"),
        (MACHINE.format("0x1", ""), "names no CPU that is online and allowed"),
        (MACHINE.format("0xg", ""), "has '0xg', which is not a mask of CPUs 0 to 8191"),
        (MACHINE.format("7", ""), "has '7', which is not a mask"),
        (MACHINE.format("0x", ""), "has '0x', which is not a mask"),
        (MACHINE.format("0x1_0", ""), "has '0x1_0', which is not a mask"),
        (MACHINE.format("0x1,0x123456789", ""), "which is not a mask"),
        (MACHINE.format("0x" + "f" * 9000, ""), "which is not a mask"),
        (MACHINE.format("0x1", '<object type="PU"/>'), "a PU without a CPU number: None"),
        (MACHINE.format("0x1", '<object type="PU" os_index="8192"/>'), "a PU without a CPU number: '8192'"),
        (MACHINE.format("0x1", '<object type="PU" os_index="1"/>' * 2), "has CPU 1 twice"),
        (" " * (LIMIT + 1), "characters are too many"),
    ],
)
def test_what_is_not_hwlocs_is_refused_in_words(text: str, message: str) -> None:
    with pytest.raises(StateError) as caught:
        read_hwloc(text)
    assert message in str(caught.value)


@pytest.mark.slow
def test_too_many_objects_are_refused() -> None:
    """Before they use up the memory of the host."""
    with pytest.raises(StateError, match="so many objects"):
        read_hwloc(f"<topology>{'<info/>' * 500_001}")


types = st.sampled_from(
    ["PU", "Core", "Package", "NUMANode", "L3Cache", "Cache", "Die", "Group", "PCIDev", "OSDev", ""]
)
numbers = st.sampled_from(["0", "1", "2", "-1", "4294967295", "9" * 30, "x", ""])
masks = st.sampled_from(["0x1", "0x3", "0x0", "0x6", "", ",", "0xf...f", "0xf...f,0x0", "0x1,,0x0", "0x"])


@st.composite
def odd_objects(draw: st.DrawFn, depth: int = 0) -> str:
    """Draw objects of any kind, in any order."""
    below = draw(st.lists(odd_objects(depth + 1), max_size=3)) if depth < 4 else []
    attributes = draw(
        st.fixed_dictionaries({"type": types}, optional={"os_index": numbers, "cpuset": masks, "depth": numbers})
    )
    return element(draw(st.sampled_from(["object", "object", "info"])), *below, **attributes)


@pytest.mark.slow
@given(st.lists(odd_objects(), max_size=4), st.booleans())
def test_any_objects_are_a_machine_or_an_error(objects: list[str], has_cpu: bool) -> None:
    """Never another exception; and a machine has every CPU in every level."""
    cpu = [thing("PU", CPUSet.of(5), os_index=5)] if has_cpu else []
    try:
        read = read_hwloc(document(element("object", *cpu, *objects, type="Machine")))
    except StateError:
        return
    assert union(group.cpus for group in read.caches) == read.online
