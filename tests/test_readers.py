"""Readers of user input: what they accept, from TOML or as text, and the correct form that they suggest."""

from __future__ import annotations

import datetime
import math
import time
from collections.abc import Mapping
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sidecar.config.keys import KEYS
from sidecar.decide.container.labels import LABELS
from sidecar.decide.settings import PolicyName, TenantRight
from sidecar.misreadings import AboveZero, Form, ListKind, NotOfForm, TypedFlaw, Unknown
from sidecar.readers import (
    CUT,
    NUMA_WORDS,
    Given,
    above_zero,
    amount,
    choice,
    closest,
    cpu_list,
    duration,
    kept,
    misreading,
    plain_name,
    read_all,
    shown,
    text,
    truth,
    unknown,
    whole,
    word,
    words,
)
from sidecar.simulation import toml_sections
from sidecar.words.misread import sentence
from state.cpuset import CPUSet
from state.demand import NumaRule, Shortage
from state.mistakes import AllOf, DirectoryName, Flaw, OneOf, Seconds, TrueOrFalse, Whole

HUGE: Any = pytest.param(16**9999, id="huge")
"""A number that TOML can say, and Python refuses to write in decimal."""

READERS: Mapping[str, Any] = {
    "choice": choice(Shortage),
    "rule": choice(NumaRule, NUMA_WORDS),
    "word": word("text", "json"),
    "whole": whole(1, 100),
    "above_zero": above_zero(100, "20"),
    "amount": amount(8192),
    "duration": duration(0, 60),
    "truth": truth,
    "words": words(("red", "green")),
    "cpu_list": cpu_list,
    "text": text,
    "plain_name": plain_name,
    "seconds": toml_sections.seconds,
    "seconds_or_never": toml_sections.seconds_or_never,
    "steps": toml_sections.steps,
    "labels": toml_sections.labels,
    **{f"key {name}": key.read for name, key in KEYS.items()},
    **{f"label {label.name}": label.read for label in LABELS},
}
"""Every reader that there is, but for those that know the containers of a scenario."""


@pytest.mark.parametrize("value", ["wait", " Wait ", "WAIT"])
def test_a_word_is_read_in_either_case(value: str) -> None:
    assert choice(Shortage)(value) is Shortage.WAIT


@pytest.mark.parametrize("value", ["waits", "", 1, None, ["wait"]])
def test_what_is_none_of_the_words_says_which_there_are(value: object) -> None:
    assert choice(Shortage)(value) == OneOf(("share", "wait", "stop"))


def test_the_kubelets_word_for_a_rule_is_read_and_not_offered() -> None:
    assert choice(NumaRule, NUMA_WORDS)("single-numa-node") is NumaRule.SINGLE
    assert choice(NumaRule, NUMA_WORDS)("double") == OneOf(("none", "best-effort", "restricted", "single"))


def test_a_plain_word_is_read_as_a_member_is() -> None:
    assert word("text", "json")(" JSON") == "json"
    assert word("text", "json")(1) == OneOf(("text", "json"))


@pytest.mark.parametrize(("value", "number"), [(7, 7), ("7", 7), (" 07 ", 7), (1, 1), ("100", 100)])
def test_a_whole_number_is_one_of_toml_or_digits(value: object, number: int) -> None:
    assert whole(1, 100)(value) == number


@pytest.mark.parametrize("value", [0, 101, "0", "101", "1.0", 1.0, True, "+1", "٢", "9" * 5000, "", None])
def test_no_other_number_is_whole_and_within(value: object) -> None:
    assert whole(1, 100)(value) == Whole(1, 100)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        *[("2s", 2.0), ("500ms", 0.5), ("1m", 60.0), (2, 2.0), (0.5, 0.5), (" 3 s ", 3.0), ("7", 7.0), ("1h", 3600)],
        *[(8.123000000000001, 8.123000000000001), ("8.123000000000001s", 8.123000000000001), (1e-7, 1e-7), (-0.0, 0)],
    ],
)
def test_a_duration_is_a_number_with_or_without_a_unit(value: object, seconds: float) -> None:
    assert duration(0, 3600)(value) == seconds


@pytest.mark.parametrize("value", ["61s", "-1s", "soon", "", True, None, "1h", math.nan, math.inf, HUGE])
def test_no_other_duration_is_one(value: object) -> None:
    assert duration(0, 60)(value) == Seconds(0, 60)


@pytest.mark.parametrize(("value", "is_true"), [(True, True), ("on", True), (" Yes", True), ("", False), ("0", False)])
def test_truth_has_many_words(value: object, is_true: bool) -> None:
    assert truth(value) is is_true


@pytest.mark.parametrize("value", ["2", "maybe", 1, None, [], {}])
def test_nothing_else_is_true_or_false(value: object) -> None:
    assert truth(value) == TrueOrFalse()


def test_a_list_of_words_is_sorted_and_each_stands_once() -> None:
    read = words(("red", "green"))
    assert read("red,,green, red ") == read(["red", "green"]) == ("green", "red")
    assert read("") == ()


def test_all_unknown_words_of_a_list_are_found() -> None:
    assert words(("red", "green"))("blue,red,amber") == AllOf(("red", "green"), ("amber", "blue"))
    assert words(("red",))(7) == AllOf(("red",), ())


@pytest.mark.parametrize(
    ("value", "number"), [(0.5, 0.5), ("12.25", 12.25), (100, 100), (" 1 ", 1), (1e-7, 1e-7), (".9", 0.9)]
)
def test_a_number_may_have_a_fraction(value: object, number: float) -> None:
    assert above_zero(100, "20")(value) == amount(100)(value) == number


@pytest.mark.parametrize("value", [-1, 100.5, ".", "1.", "1e1", "nan", math.nan, math.inf, True, "", None, HUGE])
def test_no_other_number_is_within(value: object) -> None:
    assert above_zero(100, "20")(value) == AboveZero(100, "20")
    assert amount(100)(value) == NotOfForm(Form.AMOUNT)


def test_zero_is_an_amount_and_not_above_zero() -> None:
    assert (amount(1)(0), above_zero(1, "0.5")(0)) == (0, AboveZero(1, "0.5"))


def test_a_cpu_list_says_what_is_wrong_with_its_numbers() -> None:
    assert cpu_list(" 0-1,8 ") == CPUSet.of(0, 1, 8)
    assert [cpu_list(value) for value in ("", " ", 3, "all")] == [NotOfForm(Form.CPU_LIST)] * 4
    found = cpu_list("3-1")
    assert isinstance(found, NotOfForm)
    assert "runs backwards" in found.detail


def test_a_name_leads_nowhere_else() -> None:
    assert plain_name("a.b-c_1") == "a.b-c_1"
    assert [plain_name(value) for value in ("../up", "", ".", "a" * 65, 1)] == [DirectoryName()] * 5


def test_the_closest_word_is_found_in_either_case() -> None:
    assert (closest("lfit", ("keep", "lift")), closest("LIFT", ("lift",)), closest("hup", ("HUP",))) == (
        "lift",
        "lift",
        "HUP",
    )
    assert (closest("xyz", ("lift",)), closest("lift" * 9999, ("lift",)), closest("lift", ())) == ("", "", "")


def test_a_suggestion_is_the_word_also_where_the_words_are_members() -> None:
    """Quoted, a member would be shown as Python writes it: `<TenantRight.PIN: 'pin'>`."""
    assert [repr(closest(word, tuple(kind))) for word, kind in (("pins", TenantRight), ("dynamicc", PolicyName))] == [
        "'pin'",
        "'dynamic'",
    ]


def test_a_suggestion_takes_no_time_however_many_words_there_are() -> None:
    """A container's author names the device that is missing, and a machine may have thousands."""
    devices = [f"0000:{number:04x}:00.0" for number in range(20_000)]
    began = time.process_time()
    assert closest("0000:0012:00.9", ["x" * 60, *devices]) == "0000:0012:00.0"
    assert closest("n" * 64, ["n" * 40 + f"{number:024}" for number in range(20_000)])
    assert time.process_time() - began < 0.1


def test_what_was_cut_says_so() -> None:
    """A text at the bound is not cut."""
    assert kept("a" * 40) == "a" * 40
    assert kept("a" * 41) == "a" * 39 + CUT
    assert len(kept("a" * 9999, 60)) == 60


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("a", "a"),
        (True, "true"),
        (7, "7"),
        (0.5, "0.5"),
        (datetime.date(2026, 1, 2), "2026-01-02"),
        ([1, "b", [2]], "[1, 'b', [2]]"),
        ({"a": 1, "b c": {"d": 2}}, "{a = 1, 'b c' = {d = 2}}"),
        ([[[[1]]]], f"[[[{CUT}]]]"),
        pytest.param(16**9999, "0x1" + "0" * 36 + CUT, id="huge"),
    ],
)
def test_a_value_is_shown_as_it_would_be_written(value: object, written: str) -> None:
    assert shown(value) == written


def test_everything_that_is_given_is_read_and_the_later_wins() -> None:
    """All mistakes are found, in their order, those of values that a later one overrides too."""
    readers = {"size": whole(1, 9), "mode": word("a", "b")}
    given_values = [Given("size", 0, "x"), Given("sizx", 1, "y"), Given("size", 2, "z"), Given("mode", "c")]
    values, mistakes = read_all(given_values, readers)
    assert values == {"size": 2}
    assert [(each.where, each.name, each.flaw) for each in mistakes] == [
        ("x", "size", Whole(1, 9)),
        ("y", "sizx", Unknown(ListKind.KEY, ("size", "mode"))),
        ("", "mode", OneOf(("a", "b"))),
    ]


def test_an_unknown_table_is_a_section() -> None:
    """Where there may be sections, and they alone are suggested."""
    assert unknown({}, ("a", "b"), ("b",)) == unknown([{}], ("a", "b"), ("b",)) == Unknown(ListKind.SECTION, ("b",))
    assert unknown({}, ("a",)) == Unknown(ListKind.KEY, ("a",))
    assert unknown([], ()) == unknown(1, ()) == Unknown(ListKind.KEY, ())


scalars: st.SearchStrategy[Any] = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.datetimes() | st.dates() | st.times()
)
near_misses = st.sampled_from(
    ["count:", "0-", "1s", "true", "=true", "a=b,c", "[::1]:", "unix://", "/", "9" * 5000, "\0"]
)
anything: st.SearchStrategy[Any] = st.recursive(
    scalars | near_misses,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)


@given(st.sampled_from(sorted(READERS)), anything)
@example("key reserved", 16**9999)
@example("steps", [{"at": 16**9999, "cpus": -(16**9999)}])
@example("truth", [])
def test_a_reader_takes_anything_and_raises_nothing(reader: str, value: object) -> None:
    """It returns a value, or a flaw whose sentence names what was read and what would be right. It does so
    repeatably.
    """
    read = READERS[reader]
    found = read(value)
    assert read(value) == found
    if not isinstance(found, Flaw):
        return
    assert isinstance(found, get_args(TypedFlaw))
    told = sentence(misreading(Given("the key", value, "here"), found))
    assert told.startswith("here: the key")
    assert told.isprintable()
    assert len(told) < 700
    assert any(cure in told for cure in CURES)


CURES = (
    "write ",
    "did you mean ",
    "the words are ",
    "use letters",
    "a count of ",
    "choose one",
    "the only word",
    "put ",
)
"""What a sentence says before what would be right."""


BOUNDS: Mapping[str, Any] = {
    "whole": lambda found: 1 <= found <= 100,
    "above_zero": lambda found: 0 < found <= 100,
    "amount": lambda found: 0 <= found <= 8192,
    "duration": lambda found: 0 <= found <= 60,
    "words": lambda found: set(found) <= {"red", "green"} and list(found) == sorted(set(found)),
    "word": lambda found: found in ("text", "json"),
    "cpu_list": bool,
    "text": lambda found: bool(found.strip()),
    "plain_name": lambda found: found.isascii() and "/" not in found and found.strip(".") and len(found) <= 64,
    "steps": lambda found: [at for at, _ in found] == sorted(at for at, _ in found),
    "labels": lambda found: all(isinstance(each, str) for each in found.values()),
    "key shared_min": lambda found: 0 <= found <= 8191,
    "key load_high": lambda found: 0 < found <= 1,
    "key reserved": lambda found: bool(found.cpus) != bool(found.number) and 0 <= found.number <= 8191,
    "key state_dir": lambda found: found.startswith("/") and not found.endswith("/") and ".." not in found.split("/"),
    "key listen": lambda found: 1 <= int(found.rpartition(":")[2]) <= 65535,
}

numbers = st.integers(-5, 9000) | st.floats(-1, 9000).map(lambda each: round(each, 2))
likely = (
    numbers
    | numbers.map(str)
    | st.sampled_from(["red", "green,red", "a", "0-3", "count:3", "[::1]:80", "/a//b/", "JSON", "count:0", ""])
    | st.from_regex(r"[0-9,.:/-]{1,8}", fullmatch=True)
    | st.lists(st.fixed_dictionaries({"at": numbers, "cpus": numbers}), max_size=3)
)


@given(st.sampled_from(sorted(BOUNDS)), likely | anything)
def test_what_a_reader_gives_is_within_its_bounds(reader: str, value: object) -> None:
    found = READERS[reader](value)
    assert isinstance(found, Flaw) or BOUNDS[reader](found)


def test_a_misreading_can_be_compared_and_kept() -> None:
    """It holds only texts and facts, never the value itself."""
    found = misreading(Given("x" * 99, ["a"] * 99, "here"), Whole(1, 2))
    assert hash(found) == hash(msgspec.structs.replace(found))
    assert (len(found.name), len(found.given), found.is_text) == (64, 40, False)
