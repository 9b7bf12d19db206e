"""The table of labels: what each accepts, what is wrong with other values, and the sentence for that."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.decide.container.labels import (
    FROM_LIMIT,
    LABELS,
    NAMES,
    Label,
    Labels,
    OnMistake,
    Values,
    meant,
    read_labels,
)
from sidecar.decide.placement.options import CONTAINER_OPTIONS
from sidecar.words.mistaken import sentence, sentences
from state import codec
from state.demand import MemsRule, NumaRule, QuotaRule, Scale, Shortage
from state.exec_rule import ExecRule, ExecWord
from state.mistakes import Mistake

FULL = {
    "cpuset.exclusive": "4",
    "cpuset.options": " full-pcpus-only ,, ",
    "cpuset.numa": "single-numa-node",
    "cpuset.near": " eth0 ",
    "cpuset.mems": "follow",
    "cpuset.on-shortage": "Wait",
    "cpuset.quota": "keep",
    "cpuset.projection": "game",
    "cpuset.manage": "on",
    "cpuset.for": "voice",
    "cpuset.min": "2",
    "cpuset.max": "8",
    "cpuset.scale": "load",
    "cpuset.weight": "20",
    "cpuset.grace": "500ms",
    "cpuset.signal": "sighup",
    "cpuset.move": "yes",
    "cpuset.priority": "9",
    "cpuset.exec": "Last",
}


def said(label: str, value: str, cpus: int | None = None) -> str:
    """Return the sentences about this value of a label."""
    return sentences(read_labels({label: value}, cpus).mistakes)


def test_every_label_has_a_value_and_every_value_a_label() -> None:
    """In the same order."""
    assert tuple(label.field for label in LABELS) == Values.__struct_fields__


def test_what_all_labels_say() -> None:
    assert read_labels(FULL, 4) == Labels(
        Values(
            exclusive=4,
            options=("full-pcpus-only",),
            numa=NumaRule.SINGLE,
            near="eth0",
            mems=MemsRule.FOLLOW,
            on_shortage=Shortage.WAIT,
            quota=QuotaRule.KEEP,
            projection="game",
            for_="voice",
            manage=True,
            min=2,
            max=8,
            scale=Scale.LOAD,
            weight=20,
            grace=0.5,
            signal="HUP",
            move=True,
            priority=9,
            exec=ExecRule(ExecWord.LAST),
        )
    )


def test_no_label_says_nothing() -> None:
    """Where the node decides, the value is None; labels of other programs are ignored."""
    assert read_labels({"com.example": "x"}) == Labels(Values())
    assert {label.default for label in LABELS if label.key} == {None}


@pytest.mark.parametrize(
    ("text", "count"), [("2", 2), (" 02 ", 2), ("true", FROM_LIMIT), ("Yes", FROM_LIMIT), ("", 0), ("no", 0), ("0", 0)]
)
def test_the_count_is_a_number_or_taken_from_the_limit_or_none(text: str, count: object) -> None:
    assert read_labels({"cpuset.exclusive": text}).values.exclusive == count


@pytest.mark.parametrize(
    ("label", "value", "right"),
    [
        ("cpuset.exclusive", "two", "is 'two': write a whole number of CPUs, or true to take it from the limit"),
        ("cpuset.options", "full-pcpu-only", "has 'full-pcpu-only'; did you mean 'full-pcpus-only'?"),
        (
            "cpuset.options",
            "zig,zag",
            f"has 'zag', 'zig': the words are {', '.join(CONTAINER_OPTIONS)}",
        ),
        (
            "cpuset.options",
            "performance,efficient",
            ": performance and efficient cannot be used together: choose one",
        ),
        ("cpuset.numa", "singlee", "is 'singlee'; did you mean 'single'?"),
        ("cpuset.numa", "zzz", "is 'zzz': write one of none, best-effort, restricted, single"),
        ("cpuset.mems", "fllw", "is 'fllw'; did you mean 'follow'?"),
        ("cpuset.on-shortage", "die", "is 'die': write one of share, wait, stop"),
        ("cpuset.quota", "drop", "is 'drop': write one of lift, keep"),
        ("cpuset.projection", "../up", "is '../up': use letters, digits, _ . - and at most 64 of them"),
        ("cpuset.manage", "Off", "is 'Off'; did you mean 'off'?"),
        ("cpuset.for", "a/b", "is 'a/b': use letters, digits, _ . - and at most 64 of them"),
        ("cpuset.min", "many", "is 'many': write a whole number from 1 to the N of cpuset.exclusive"),
        ("cpuset.max", "0", "is '0': write a whole number from the N of cpuset.exclusive to 9999"),
        ("cpuset.scale", "none", "is 'none': write one of fill, load, manual"),
        ("cpuset.weight", "101", "is '101': write a whole number from 1 to 100"),
        ("cpuset.grace", "61s", "is '61s': write a duration from 0s to 1m, in ms, s, m or h, like 10s"),
        ("cpuset.signal", "winhc", "is 'winhc'; did you mean 'WINCH'?"),
        ("cpuset.signal", "KILL", "is 'KILL': write the name of a signal that a program can catch, like HUP"),
        ("cpuset.move", "maybe", "is 'maybe': write true or false"),
        ("cpuset.priority", "10", "is '10': write a whole number from 0 to 9"),
        ("cpuset.exec", "lst", "is 'lst'; did you mean 'last'?"),
        (
            "cpuset.exec",
            "zzz",
            "is 'zzz': write one of first, last, all, or a list like 1 or 0-1, in which 0 is its first CPU",
        ),
    ],
)
def test_a_value_that_cannot_be_read_says_what_would_be_right(label: str, value: str, right: str) -> None:
    """The label keeps its default."""
    found = read_labels({label: value})
    assert sentences(found.mistakes) == f"{label}{'' if right[0] == ':' else ' '}{right}"
    assert found.values == Values()


def test_bounds_are_held_to_the_count_once_it_is_known() -> None:
    assert said("cpuset.min", "5", 4) == "cpuset.min is '5': write a whole number from 1 to the 4 of cpuset.exclusive"
    right = "write a whole number from the 4 of cpuset.exclusive to 9999"
    assert said("cpuset.max", "3", 4) == f"cpuset.max is '3': {right}"
    assert (said("cpuset.min", "4", 4), said("cpuset.max", "4", 4), said("cpuset.min", "5")) == ("", "", "")


def test_all_mistakes_are_found_in_the_order_of_the_table() -> None:
    """Those that refuse, and those that only warn."""
    found = read_labels({"cpuset.move": "?", "cpuset.manage": "?", "cpuset.exclusive": "?", "cpuset.weight": "20"})
    assert [each.label for each in found.mistakes] == ["cpuset.exclusive", "cpuset.manage", "cpuset.move"]
    assert [each.label for each in found.refusing] == ["cpuset.exclusive", "cpuset.move"]
    assert [each.label for each in found.harmless] == ["cpuset.manage"]
    assert found.values.weight == 20


texts = st.text(st.characters(codec="utf-8"), max_size=300) | st.sampled_from(["9" * 5000, "\x1b[31m", "1\n", "0000"])


@given(st.sampled_from(LABELS), texts)
def test_a_value_is_read_or_a_mistake_that_names_its_label(label: Label, text: str) -> None:
    """Never both, and nothing else changes. The sentence has a bounded length, and the State can store the mistake."""
    found = read_labels({label.name: text})
    others = [name for name in Values.__struct_fields__ if name != label.field]
    assert [getattr(found.values, name) for name in others] == [getattr(Values(), name) for name in others]
    if not found.mistakes:
        return
    [mistake] = found.mistakes
    assert mistake.label == label.name
    assert getattr(found.values, label.field) == label.default
    assert label.name in sentence(mistake)
    assert len(sentence(mistake)) < 1000
    assert codec.decode(codec.encode(mistake), Mistake) == mistake


def test_a_label_that_only_changes_where_it_is_told_refuses_nothing() -> None:
    assert [label.name for label in LABELS if label.on_mistake is OnMistake.WARN] == [
        "cpuset.near",
        "cpuset.projection",
        "cpuset.manage",
        "cpuset.for",
    ]
    assert tuple(FULL) == NAMES


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("cpusets.exclusive", "cpuset.exclusive"),
        ("cpuset-exclusive", "cpuset.exclusive"),
        ("cpu-set.exclusive", "cpuset.exclusive"),
        ("cpuset", "cpuset.exclusive"),
        ("cpus", ""),
        ("CPUSET_EXCLUSIVE", "cpuset.exclusive"),
        ("cpuset:numa", "cpuset.numa"),
        ("cpst.on-shortge", "cpuset.on-shortage"),
        ("cpuset.exclusiv", ""),
        ("cpu.numa", ""),
        ("cpuset-team", ""),
        ("com.docker.compose.project", ""),
        ("exclusive", ""),
        ("c" * 9999, ""),
    ],
)
def test_a_foreign_name_that_is_like_one_of_ours_is_recognised(name: str, label: str) -> None:
    """In its prefix and in the rest; a name with our prefix is ours already."""
    assert meant(name) == label
