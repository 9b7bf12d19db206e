"""The kubelet's state file: its own bytes, its own checksums, and no hostile input gets through."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sidecar.kubelet import gojson
from sidecar.kubelet.kubelet_state import KubeletState, decode, encode, exported, imported, parse_cpus
from state.cpuset import EMPTY, MAX_CPU, CPUSet
from state.demand import Demand
from state.errors import CheckpointCorrupt, CPUSetError, StateError
from state.model import Refused, State
from state.refusal import Refusal, RefusalCode
from tests.state.strategies import cpu_sets, states
from tests.support.keys import docker

cpus = CPUSet.parse

texts = st.text(max_size=12) | st.sampled_from(
    ["a<b>&", 'with "quote"', "naïve", "\u2028\u2029", "\x00\b\x7f", "\\", ""]
)


def kubelets(pods: st.SearchStrategy[dict[str, CPUSet]]) -> st.SearchStrategy[KubeletState]:
    """Draw random states; names may be any text."""
    return st.builds(
        KubeletState,
        policy=texts,
        default=cpu_sets,
        assignments=st.dictionaries(texts, st.dictionaries(texts, cpu_sets, max_size=3), max_size=3),
        pod_assignments=pods,
    )


@pytest.mark.parametrize(
    ("state", "content"),
    [
        (
            KubeletState(policy="static", default=cpus("0-63")),
            b'{"policyName":"static","defaultCpuSet":"0-63","checksum":1058907510}',
        ),
        (
            KubeletState(policy="static", default=cpus("2-15,17-31,34-47,49-63")),
            b'{"policyName":"static","defaultCpuSet":"2-15,17-31,34-47,49-63","checksum":4141502832}',
        ),
        (KubeletState(policy="none"), b'{"policyName":"none","defaultCpuSet":"","checksum":1353318690}'),
        (
            KubeletState(
                policy="static",
                default=cpus("5"),
                assignments={
                    "a<b>&1": {"side-car": cpus("3")},
                    "a<b>&2": {"side-car": cpus("2,11"), "app": cpus("9")},
                    "a<b>&0": {"c0": cpus("0,4,7-8"), "c1": cpus("1,6,10")},
                },
            ),
            b"""{"policyName":"static","defaultCpuSet":"5","entries":{"a\\u003cb\\u003e\\u00260":{"c0":"0,4,7-8","c1":"1,6,10"},\
"a\\u003cb\\u003e\\u00261":{"side-car":"3"},"a\\u003cb\\u003e\\u00262":{"app":"9","side-car":"2,11"}},"checksum":1301384091}""",
        ),
    ],
)
def test_files_are_the_kubelets(state: KubeletState, content: bytes) -> None:
    """Byte for byte, both ways."""
    assert encode(state) == content
    assert decode(content) == state


@pytest.mark.parametrize(
    ("content", "state"),
    [
        # The second format, without entries, by a kubelet of the first; by one that calls its struct by its version.
        (
            '{"policyName":"none","defaultCPUSet":"1-3","checksum":1694838852}',
            KubeletState(policy="none", default=cpus("1-3")),
        ),
        (
            '{"policyName":"static","defaultCpuSet":"0-63","checksum":2983043986}',
            KubeletState(policy="static", default=cpus("0-63")),
        ),
        # No checksum is needed; keys are matched without regard to case, and unknown ones do not count.
        ('{"POLICYNAME":"static","x":[{}],"x":NULL}'.replace("NULL", "null"), KubeletState(policy="static")),
        (
            '{"policyName":"static","checksum":0,"entries":{"p":null}}',
            KubeletState(policy="static", assignments={"p": {}}),
        ),
        (' {"entries":null,"defaultCpuSet":null,"checksum":null} ', KubeletState(policy="")),
        ("null", KubeletState(policy="")),
        (
            """{"policyName":"static","defaultCPUSet":"1-2","entries":{"pod1":{"container1":"5-6","container2":"3-4"}},
            "podEntries":{"pod2":{"cpuSet":"7-9"}},"checksum":2284712151}""",
            KubeletState(
                policy="static",
                default=cpus("1-2"),
                assignments={"pod1": {"container1": cpus("5-6"), "container2": cpus("3-4")}},
                pod_assignments={"pod2": cpus("7-9")},
            ),
        ),
    ],
)
def test_files_that_other_kubelets_left(content: str, state: KubeletState) -> None:
    """Old and new formats, checksums and spellings."""
    assert decode(content.encode()) == state


def test_the_first_format_names_containers_by_id() -> None:
    """Their pods are given from outside, or not at all."""
    content = (
        b'{"policyName":"static","defaultCPUSet":"7-9","entries":{"containerID1":"4-6","containerID2":"1-3"},'
        b'"checksum":2026311253}'
    )
    known = {"containerID1": ("pod", "one"), "containerID2": ("pod", "two")}
    assert decode(content, known).assignments == {"pod": {"one": cpus("4-6"), "two": cpus("1-3")}}
    assert decode(content).assignments["containerID1"] == {"containerID1": cpus("4-6")}
    with pytest.raises(CheckpointCorrupt, match="'containerID2' is unknown"):
        decode(content, {"containerID1": ("pod", "one")})
    with pytest.raises(CheckpointCorrupt, match="the checksum does not match"):
        decode(content.replace(b"4-6", b"4-7"), known)


@given(kubelets(st.just({})), st.booleans())
def test_the_second_format_there_and_back(state: KubeletState, pod_level: bool) -> None:
    """Any names; a kubelet with the gate for whole pods reads it too, and the other way round."""
    content = encode(state)
    assert decode(content, {}, pod_level=pod_level) == state
    assert encode(decode(content)) == content
    assert json.loads(content)["policyName"] == state.policy
    assert decode(encode(state, pod_level=True)) == state


@given(kubelets(st.dictionaries(texts, cpu_sets, min_size=1, max_size=3)))
def test_the_third_format_there_and_back(state: KubeletState) -> None:
    """A kubelet without the gate finds the checksum wrong."""
    content = encode(state)
    assert decode(content) == state
    with pytest.raises(CheckpointCorrupt):
        decode(content, pod_level=False)
    without = json.loads(content)
    del without["checksum"]
    assert not decode(json.dumps(without).encode()).pod_assignments


@given(kubelets(st.just({})), st.data())
def test_white_space_and_order_do_not_count(state: KubeletState, data: st.DataObject) -> None:
    """The checksum is of the content, not of its bytes."""
    said = json.loads(encode(state))
    keys = data.draw(st.permutations(list(said)))
    assert decode(json.dumps({key: said[key] for key in keys}, indent=1).encode()) == state


@given(kubelets(st.just({})), st.integers(0, 10_000), st.integers(0, 255))
def test_a_byte_that_changed_is_noticed(state: KubeletState, at: int, byte: int) -> None:
    """Unless the content stays the same; a checksum that is 0 or missing does not count."""
    content = bytearray(encode(state))
    content[at % len(content)] = byte
    try:
        read = decode(bytes(content), {})
    except StateError:
        return
    assert read == state or b'"checksum":' not in bytes(content) or int(json.loads(content)["checksum"]) == 0


def test_what_is_no_character_is_replaced() -> None:
    """As Go does it: a byte that is not UTF-8, a surrogate alone; a replaced character is written as it was read."""
    assert decode(b'{"policyName":"a\xff\xe2\x82\\ud800b"}').policy == "a\ufffd\ufffd\ufffd\ufffdb"
    assert decode(b'{"policyName":"\\ud83d\\ude00"}').policy == "\U0001f600"
    lone = KubeletState(policy="\ud800", assignments={"\udfff": {"\udc80": EMPTY}})
    assert decode(encode(lone)) == KubeletState(policy="\ufffd", assignments={"\ufffd": {"\ufffd": EMPTY}})


def test_go_escapes_more_than_json_asks() -> None:
    """And only Go's additional ones."""
    content = encode(KubeletState(policy='<>&\u2028\u2029"\\\b\f\n\r\t\x00\x1f\x7fé\U0001f600'))
    assert content.startswith(
        rb'{"policyName":"\u003c\u003e\u0026\u2028\u2029\"\\\b\f\n\r\t\u0000\u001f' + '\x7fé\U0001f600"'.encode()
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "it is not a kubelet's CPU manager state: it is empty"),
        (b"{", "it is not a kubelet's CPU manager state: it is not JSON (line 1, column 2)"),
        (b"[]", "it is not a JSON object"),
        (b"\xef\xbb\xbf{}", "it is not a kubelet's CPU manager state"),
        (b'{"x":NaN}', "NaN is not JSON"),
        (b'{"x":"\x01"}', "it is not a kubelet's CPU manager state"),
        (b'{"x":' + b"[" * 200_000, "it is nested too deeply"),
        (b" " * (gojson.LIMIT + 1), "bytes are too many"),
        (b'{"policyName":1}', "policyName is not a JSON string"),
        (b'{"policyName":[]}', "policyName is not a JSON string"),
        (b'{"policyName":"a","PolicyName":"b"}', "policyName is there twice"),
        (b'{"entries":[]}', "entries is not a JSON object"),
        (b'{"entries":{"p":{"c":1}}}', "entries of 'p' of 'c' is not a JSON string"),
        (b'{"entries":{"p":{},"p":{}}}', "entries has 'p' twice"),
        (b'{"entries":{"p":{"c":"","c":""}}}', "entries of 'p' has 'c' twice"),
        (b'{"entries":{"p":{"c":"1"},"q":"2"}}', "entries of 'q' is not a JSON object"),
        (b'{"defaultCpuSet":"3-1"}', "defaultCpuSet: bad CPU list '3-1': the range '3-1' runs backwards"),
        (b'{"entries":{"p":{"c":"x"}}}', "container 'c' of pod 'p': bad CPU list 'x'"),
        (b'{"checksum":-1}', "checksum is not a whole number of 64 bits"),
        (b'{"checksum":1.0}', "checksum is not a whole number of 64 bits"),
        (b'{"checksum":18446744073709551616}', "checksum is not a whole number of 64 bits"),
        (b'{"checksum":' + b"9" * 10_000 + b"}", "checksum is not a whole number of 64 bits"),
        (b'{"checksum":"1"}', "checksum is not a whole number of 64 bits"),
        (b'{"checksum":1}', "the checksum does not match the content"),
        (b'{"checksum":1,"entries":{"p":{"c":"1"}}}', "the checksum does not match the content"),
        (b'{"checksum":1,"podEntries":{"p":{"cpuSet":"x"}}}', "the checksum does not match the content"),
    ],
)
def test_hostile_files_are_refused_in_words(content: bytes, message: str) -> None:
    with pytest.raises(CheckpointCorrupt) as caught:
        decode(content, {})
    assert message in str(caught.value)


@pytest.mark.slow
def test_whole_pods_cannot_fill_the_memory() -> None:
    """The dump writes each CPU out: a small file could ask for gigabytes."""
    pods = ",".join(f'"{pod}":{{"cpuSet":"0-8191"}}' for pod in range(100_000))
    with pytest.raises(CheckpointCorrupt, match="the checksum does not match"):
        decode(f'{{"checksum":1,"podEntries":{{{pods}}}}}'.encode())


names = st.sampled_from(
    ["policyName", "defaultCpuSet", "DefaultCPUSet", "entries", "podEntries", "checksum", "cpuSet", "p"]
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts | st.sampled_from(["0-3", "1,", "9999"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(names, json_values).map(lambda value: json.dumps(value).encode()) | st.binary(max_size=60))
@example(b'{"checksum":1e400}')
def test_any_bytes_are_a_state_or_an_error(content: bytes) -> None:
    """Never another exception."""
    try:
        read = decode(content, {})
    except StateError:
        return
    assert decode(encode(read), {}) == read


@given(cpu_sets)
def test_lists_are_those_of_cpuset(each: CPUSet) -> None:
    assert parse_cpus(str(each)) == each


@pytest.mark.parametrize(
    ("text", "same"), [("+1-+3", "1-3"), ("0--0", "0"), ("007", "7"), ("3,1,1-2", "1-3"), ("", "")]
)
def test_lists_that_the_kubelet_takes(text: str, same: str) -> None:
    """It is laxer than the kernel's syntax in the sign."""
    assert parse_cpus(text) == cpus(same)


@pytest.mark.parametrize(
    "text",
    ["1 ", "\t0", ",1", "1,", "1-", "-1", "1--1", "0x1", "1_0", "٣", "++1", "1-2-3", str(MAX_CPU + 1), "9" * 5000],
)
def test_lists_that_it_refuses(text: str) -> None:
    """And stricter in blanks; CPUs above our highest are refused only by us."""
    with pytest.raises(CPUSetError):
        parse_cpus(text)


def wish(name: str, number: int, count: int = 2) -> Demand:
    return Demand(container=docker(f"{number:064x}"), name=name, cpus=count)


BOOKS = State(policy="static", online=cpus("0-15"), reserved=cpus("0")).granted(wish("web", 1), cpus("1-2"))
BOOKS = BOOKS.granted(wish("db", 2), cpus("3-4"))


@given(states(), st.booleans())
def test_a_kubelet_could_start_from_our_books(books: State, strict: bool) -> None:
    """Its own check: no assigned CPU is in the pool, and pool and assignments are all CPUs (except strictly reserved
    ones).
    """
    books = State(**{**{f: getattr(books, f) for f in books.__struct_fields__}, "strict": strict})
    kubelet = decode(encode(exported(books)))
    held = [each for named in kubelet.assignments.values() for each in named.values()]
    assert all(each.isdisjoint(kubelet.default) for each in held)
    every = kubelet.default
    for each in held:
        every |= each
    assert every == (books.online - books.reserved if strict else books.online)
    assert kubelet.assignments == {key.id: {grant.name: grant.cpus} for key, grant in books.assignments.items()}
    assert exported(State(policy="none", online=books.online)) == KubeletState(policy="none")


@given(states())
def test_our_own_export_changes_nothing(books: State) -> None:
    """Every entry is what its container holds."""
    back = imported(exported(books), books)
    assert (back.books, back.taken, back.left) == (books, (), ())


def test_an_import_gives_containers_that_the_books_know_their_cpus() -> None:
    """By name or by the beginning of the id; a swap is one step; a refused demand can be granted."""
    late = wish("late", 3)
    no = Refusal(RefusalCode.NOT_ENOUGH)
    books = BOOKS.refused(Refused(container=late.container, name="late", refusal=no, demand=late))
    entries = {"uid-1": {"web": cpus("3-4"), "late": cpus("9-10")}, f"{2:064x}": {"x": cpus("1-2")}}
    made = imported(KubeletState(policy="static", assignments=entries), books)
    assert {grant.name: str(grant.cpus) for grant in made.books.assignments.values()} == {
        "web": "3-4",
        "db": "1-2",
        "late": "9-10",
    }
    assert not made.books.refusals
    assert (made.taken[0], made.left) == ("web (000000000000) holds 3-4", ())
    with pytest.raises(StateError, match="recorded policy is none"):
        imported(KubeletState(policy="static"), State())


def test_an_entry_that_may_mean_several_is_left() -> None:
    """The first digits of these ids are all the same, and two containers may have one name."""
    entries = {f"{2:064x}"[:20]: {"web": cpus("5-6")}, "uid": {"twin": cpus("5-6")}}
    books = BOOKS.granted(wish("twin", 3), cpus("9-10")).granted(wish("twin", 4), cpus("11-12"))
    made = imported(KubeletState(policy="static", assignments=entries), books)
    assert made.books == books
    assert [entry.endswith(": several containers have this name") for entry in made.left] == [True, True]


@pytest.mark.parametrize(
    ("assignments", "left"),
    [
        ({"uid": {"app": "5-6"}}, "container 'app' of pod 'uid' holds 5-6: no container has this name"),
        ({"uid": {"web": "5-7"}}, "container 'web' of pod 'uid' holds 5-7: web asked for 2"),
        ({"uid": {"web": ""}}, "container 'web' of pod 'uid' holds no CPUs: web asked for 2"),
        ({"a": {"web": "5-6"}, "b": {"web": "7-8"}}, "container 'web' of pod 'a' holds 5-6: several entries match web"),
    ],
)
def test_what_an_import_cannot_know_is_left(assignments: dict[str, dict[str, str]], left: str) -> None:
    """The State stays as it is."""
    told = {pod: {name: cpus(text) for name, text in named.items()} for pod, named in assignments.items()}
    made = imported(KubeletState(policy="static", assignments=told, pod_assignments={"p": cpus("1")}), BOOKS)
    assert made.books == BOOKS
    assert made.taken == ()
    assert made.left[0] == "pod 'p' as a whole holds 1"
    assert left in made.left


@pytest.mark.parametrize(
    ("text", "law"),
    [
        ("3,5", "CPUs 3 are granted to db and to another container"),
        ("0,5", "web holds reserved CPUs 0"),
        ("5,99", "CPUs 99 are granted, but not online"),
    ],
)
def test_an_import_that_breaks_a_law_is_refused_whole(text: str, law: str) -> None:
    """With the name of the law."""
    with pytest.raises(StateError, match="the import would break the recorded state: ") as caught:
        imported(KubeletState(policy="static", assignments={"uid": {"web": cpus(text)}}), BOOKS)
    assert law in str(caught.value)
