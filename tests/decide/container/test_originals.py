"""A container's own settings: its CPU limit in any form, and its cpuset, whatever it is."""

from __future__ import annotations

import pytest

from sidecar.decide.container.originals import cpu_limit, originals_of
from sidecar.decide.container.place import cpus_of
from sidecar.decide.facts import ContainerView, Phase, ViewKind
from state.cpuset import EMPTY, CPUSet
from state.model import Originals


@pytest.mark.parametrize(
    ("originals", "cpus"),
    [
        (Originals(), 0.0),
        (Originals(nano_cpus=2_500_000_000), 2.5),
        (Originals(cpu_quota=50_000), 0.5),
        (Originals(cpu_quota=50_000, cpu_period=25_000), 2.0),
        (Originals(cpu_quota=-1), 0.0),
        (Originals(cpu_period=50_000), 0.0),
    ],
)
def test_the_limit_in_cpus(originals: Originals, cpus: float) -> None:
    assert cpu_limit(originals) == cpus


@pytest.mark.parametrize(
    ("text", "cpus"), [("2-3", CPUSet([2, 3])), ("", EMPTY), ("junk", EMPTY), ("0-99999999", EMPTY)]
)
def test_a_cpuset_that_cannot_be_read_says_nothing(text: str, cpus: CPUSet) -> None:
    assert cpus_of(text, EMPTY) == cpus


def test_the_settings_of_one_that_was_never_changed_are_its_originals() -> None:
    """Except for the group that confines the shared pool: an earlier sidecar wrote its settings."""
    view = ContainerView(
        id="a" * 64, name="web", phase=Phase.CREATED, cpuset="0-3", nano_cpus=5, mems="0", cgroup_parent="/own"
    )
    assert originals_of(view) == Originals(cpuset="0-3", nano_cpus=5, mems="0", cgroup_parent="/own")
    group = ContainerView(id="a" * 64, name="web", phase=Phase.CREATED, kind=ViewKind.GROUP, cpuset="0-3")
    assert originals_of(group) == Originals(cgroup_parent="")
