"""The law of labels: a bad value of any label is reported, whatever else the container asks for; and its planted
faults.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.decide.container import wish as wish_module
from sidecar.decide.container.labels import NAMES, ROWS, Labels, OnMistake, read_labels
from sidecar.decide.container.originals import originals_of
from sidecar.decide.container.wish import wish_of
from sidecar.decide.facts import ContainerView, Phase
from sidecar.decide.settings import PolicyName, Settings
from sidecar.decide.world import replace
from sidecar.words.refusals import sentence, warnings
from state.cpuset import CPUSet
from tests.support.broken_property import TO_BE_BROKEN

COUNT: Final = "cpuset.exclusive"

GOOD: Final[Mapping[str, tuple[str, ...]]] = {
    COUNT: ("4", " 4 ", "false", ""),
    "cpuset.options": ("", "performance", "full-pcpus-only, align-by-socket"),
    "cpuset.numa": ("single", "single-numa-node"),
    "cpuset.near": ("eth0", ""),
    "cpuset.mems": ("keep", "follow"),
    "cpuset.on-shortage": ("wait", "STOP"),
    "cpuset.quota": ("lift", "keep"),
    "cpuset.projection": ("game",),
    "cpuset.manage": ("on",),
    "cpuset.for": ("web",),
    "cpuset.min": ("1", "4"),
    "cpuset.max": ("4", "9"),
    "cpuset.scale": ("fill", "load"),
    "cpuset.weight": ("1", "100"),
    "cpuset.grace": ("0", "500ms"),
    "cpuset.signal": ("HUP", "sigusr1"),
    "cpuset.move": ("yes", "0"),
    "cpuset.priority": ("0", "9"),
    "cpuset.exec": ("last", "0-1"),
}
BAD: Final[Mapping[str, tuple[str, ...]]] = {
    COUNT: ("four", "1.5", "-1", "00"),
    "cpuset.options": ("nonsense", "performance,efficient", "strict-cpu-reservation"),
    "cpuset.numa": ("singlee", ""),
    "cpuset.mems": ("fllw", ""),
    "cpuset.on-shortage": ("die",),
    "cpuset.quota": ("drop",),
    "cpuset.projection": ("../up", ""),
    "cpuset.manage": ("false", "Off"),
    "cpuset.min": ("many", "0"),
    "cpuset.max": ("0", "10000"),
    "cpuset.scale": ("none",),
    "cpuset.weight": ("0", "101"),
    "cpuset.grace": ("soon", "61s"),
    "cpuset.signal": ("KILL", ""),
    "cpuset.move": ("maybe",),
    "cpuset.priority": ("10", "high", "-1"),
    "cpuset.exec": ("second", "", "1-"),
}

some_labels = st.fixed_dictionaries(
    {}, optional={name: st.sampled_from(GOOD[name] + BAD.get(name, ()) * 2) for name in NAMES}
)


def excludes_itself(labels: Mapping[str, str]) -> bool:
    """Return whether two values that are good alone exclude each other, as the page of the configuration says."""
    aligns = "align-by-socket" in labels.get("cpuset.options", "")
    return aligns and labels.get("cpuset.numa") in ("single", "single-numa-node")


def keep_the_law(labels: Mapping[str, str]) -> None:
    """Check that every bad value is reported with the name of its label. It refuses the container if it asks for
    exclusive CPUs and the label matters to that; otherwise it is a warning.
    """
    view = ContainerView(id="a" * 64, name="web", phase=Phase.CREATED, labels=labels)
    wish = wish_of(view, Settings(policy=PolicyName.DYNAMIC), originals_of(view), CPUSet(range(8)), {"eth0": CPUSet()})
    said = " ".join(warnings(wish))
    bad = {name for name, text in labels.items() if text in BAD.get(name, ())}
    assert {name for name in bad if f"{name} " not in said and f"{name}:" not in said} == set()
    asks = labels.get(COUNT, "").strip() == "4" or COUNT in bad
    refuses = excludes_itself(labels) or any(ROWS[name].on_mistake is OnMistake.REFUSE for name in bad)
    assert (wish.refusal is not None) == (asks and refuses)
    assert (wish.demand is not None) == (asks and wish.refusal is None)
    assert bool(said) == bool(bad)


@given(some_labels)
def test_every_bad_value_is_told(labels: dict[str, str]) -> None:
    """Whatever the other labels contain, and whether or not it asks for exclusive CPUs."""
    keep_the_law(labels)


def keep_the_law_of_strict_starts(labels: Mapping[str, str]) -> None:
    """Check that any bad value refuses a container whose runtime asks, also one that asks for no CPUs: the reason names
    the label. One that runs was started before, and is refused for what would refuse it under any runtime.
    """
    view = ContainerView(id="a" * 64, name="web", phase=Phase.CREATED, labels=labels, runtime="cpuset")
    settings, devices = Settings(policy=PolicyName.DYNAMIC), {"eth0": CPUSet()}
    wish = wish_of(view, settings, originals_of(view), CPUSet(range(8)), devices)
    said = sentence(wish.refusal) if wish.refusal else ""
    bad = {name for name, text in labels.items() if text in BAD.get(name, ())}
    assert {name for name in bad if f"{name} " not in said and f"{name}:" not in said} == set()
    asks = labels.get(COUNT, "").strip() == "4"
    assert bool(said) == bool(bad or (asks and excludes_itself(labels)))
    runs = replace(view, phase=Phase.RUNNING)
    usual = wish_of(replace(runs, runtime="runc"), settings, originals_of(view), CPUSet(range(8)), devices)
    assert wish_of(runs, settings, originals_of(view), CPUSet(range(8)), devices) == usual


@given(some_labels)
def test_every_bad_value_keeps_a_strict_start_from_happening(labels: dict[str, str]) -> None:
    keep_the_law_of_strict_starts(labels)


Fault = Callable[[Mapping[str, str], int | None], Labels]


def reads_nothing_without_a_count(labels: Mapping[str, str], cpus: int | None = None) -> Labels:
    """Drop mistakes if no CPUs are requested."""
    read = read_labels(labels, cpus)
    return read if labels.get(COUNT, "").strip() not in ("", "false") else Labels(read.values)


def stops_at_the_first(labels: Mapping[str, str], cpus: int | None = None) -> Labels:
    """Report only the first mistake."""
    read = read_labels(labels, cpus)
    return Labels(read.values, read.mistakes[:1])


def calls_every_mistake_harmless(labels: Mapping[str, str], cpus: int | None = None) -> Labels:
    """Grant CPUs by the defaults in place of the mistaken values."""
    read = read_labels(labels, cpus)
    return Labels(read.values, read.harmless)


@pytest.mark.parametrize(
    "fault",
    [reads_nothing_without_a_count, stops_at_the_first, calls_every_mistake_harmless],
    ids=lambda it: it.__name__,
)
def test_a_planted_fault_breaks_the_law(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    """The law has teeth."""
    monkeypatch.setattr(wish_module, "read_labels", fault)

    @TO_BE_BROKEN
    @given(some_labels)
    def law(labels: dict[str, str]) -> None:
        keep_the_law(labels)

    with pytest.raises(AssertionError):
        law()


@pytest.mark.parametrize("forgotten", ["harmless", "refusing"])
def test_a_strict_start_that_forgives_is_caught(forgotten: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values that are a warning elsewhere, and those that refuse where CPUs are asked for, each have to refuse."""
    monkeypatch.setattr(Labels, forgotten, property(lambda self: ()))

    @TO_BE_BROKEN
    @given(some_labels)
    def law(labels: dict[str, str]) -> None:
        keep_the_law_of_strict_starts(labels)

    with pytest.raises(AssertionError):
        law()
