"""Faults of a sidecar that does not keep what it granted, or never leaves off; and small scenarios that show them.

It reads over mistakes in labels, forgets grants at its start, chooses CPUs again without need, takes what is wanted no
more, gives CPUs back and forth, asks nothing again at a start, or moves what it is told to leave alone.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from sidecar.decide import step as step_module
from sidecar.decide.books import dynamic, gains_and_losses, pinned, refit
from sidecar.decide.books.sizes import Claims, sizes
from sidecar.decide.container import wish
from sidecar.decide.moves import settled
from sidecar.decide.reconcile import begin, with_settings
from sidecar.decide.settings import Settings
from sidecar.decide.world import World, replace
from sidecar.simulation import model_sidecar
from state.cpuset import EMPTY, CPUSet
from state.demand import Demand
from state.key import ContainerKey
from state.model import Assignment, State
from state.topology import Topology
from tests.blackbox.plain_values import Scenario
from tests.blackbox.planted_faults import container, scenario, told


def reads_over_mistakes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(wish, "_mistakes", lambda *_: iter(()))


def forgets_its_grants_at_its_start(patch: pytest.MonkeyPatch) -> None:
    def forgetful(state: State, topology: Topology, settings: Settings) -> World:
        return begin(replace(state, assignments={}), topology, settings)

    patch.setattr(model_sidecar, "begin", forgetful)


def keeps_nothing_at_a_hotplug(patch: pytest.MonkeyPatch) -> None:
    """Choose the CPUs of all grants again when one CPU goes."""
    patch.setattr(refit, "_kept", lambda *_: EMPTY)


def leaves_its_nodes_at_a_reload(patch: pytest.MonkeyPatch) -> None:
    """Reserve for a moment what is free on the nodes of all that is granted."""
    honest = with_settings

    def twice(world: World, settings: Settings) -> World:
        nodes = CPUSet(cpu for each in world.state.exclusive for cpu in world.topology.node_of[each].cpus)
        held = nodes - world.state.exclusive | settings.reserved_cpus
        return honest(honest(world, replace(settings, reserved_cpus=held)), settings)

    patch.setattr(step_module, "with_settings", twice)


def keeps_what_it_gained_beside_a_pin(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(pinned, "without_gains", lambda *_: None)


def cancels_no_take(patch: pytest.MonkeyPatch) -> None:
    """Let a take run to its end though nothing wants the CPUs any more."""
    honest = gains_and_losses.eligible

    def eligible(world: World, state: State, assignment: Assignment) -> CPUSet:
        return honest(world, state, assignment) - state.leaving

    patch.setattr(gains_and_losses, "eligible", eligible)


def gives_the_most_to_the_smallest(patch: pytest.MonkeyPatch) -> None:
    """Give the odd CPU to the container that has fewer now: the decision after this take gives it back."""

    def by_size(
        claims: Claims, state: State, caps: Mapping[ContainerKey, int], arrival: Demand | None = None
    ) -> Mapping[ContainerKey, int]:
        found = sizes(claims, state, caps, arrival)
        if caps or state.leaving:
            return found
        smallest_first = sorted(found, key=lambda key: (len(state.assignments[key].cpus), key))
        return dict(zip(smallest_first, sorted(found.values(), reverse=True), strict=True))

    patch.setattr(dynamic, "sizes", by_size)


def places_what_is_kept_out(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(settled, "way_out", lambda world, _: world.state.shared)


MISTAKEN = scenario([container("a", "1", labels={"cpuset.min": "7"})], told((1.0, "run", "a")))

KILLED = scenario(
    [container("a", "2")],
    [*told((1.0, "run", "a")), {"at": 40.0, "do": "crash"}, {"at": 42.0, "do": "restart"}],
)

ONE_CPU_LESS = scenario(
    [container("a", "2"), container("b", "1")],
    [
        *told((1.0, "run", "a"), (2.0, "run", "b"), (40.0, "remove", "a")),
        {"at": 80.0, "do": "offline", "cpus": "7"},
    ],
)

ALL_BUT_THE_OFFLINE = scenario(
    [container("a", "7")],
    [
        {"at": 1.0, "do": "offline", "cpus": "6-7"},
        *told((4.0, "run", "a")),
        {"at": 40.0, "do": "online", "cpus": "6-7"},
    ],
)
"""A container asks for more than is online, and for no more than there is."""

WANTED_NO_MORE = scenario(
    [container("a", "1", labels={"cpuset.max": "7"}), container("b", "3")],
    told((1.0, "run", "a"), (40.0, "run", "b"), (44.0, "remove", "b")),
    policy="dynamic",
    grace="8s",
)

AN_ODD_CPU = scenario(
    [container("a", "1", labels={"cpuset.max": "8"}), container("b", "1", labels={"cpuset.max": "8"})],
    told((1.0, "run", "a"), (2.0, "run", "b")),
    policy="dynamic",
    grace="4s",
    cooldown="3s",
)

STARTED_AGAIN = scenario(
    [container("a", "6"), container("b", "3")],
    told((1.0, "run", "a"), (2.0, "run", "b"), (40.0, "remove", "a"), (80.0, "stop", "b"), (80.0, "start", "b")),
)

KEPT_OUT = scenario(
    [container("a", "2"), {"name": "b", "labels": {"cpuset.manage": "off"}}],
    told((1.0, "run", "b"), (40.0, "run", "a")),
)

PINNED_ON_ALL = scenario(
    [container("a", "2", labels={"cpuset.max": "3"}), {"name": "b", "cpuset": "2-3"}],
    told((1.0, "run", "a"), (40.0, "run", "b")),
    policy="dynamic",
)
"""One CPU of the floor and the one above it: no other CPU is left."""
PINNED_ON_ALL["machine"] = {"cores": 4}

LATER_CORES = scenario(
    [container("a", "2", labels={"cpuset.min": "1", "cpuset.max": "3"})],
    told((1.0, "run", "a"), (40.0, "reload", {"options": ["full-pcpus-only"]})),
    policy="dynamic",
    grace="1s",
)
"""It has three CPUs, and may have one core from the reload on."""
LATER_CORES["machine"] = {"cores": 4, "threads": 2}

LARGER_FLOOR = scenario(
    [
        container("a", "4", labels={"cpuset.numa": "single"}),
        container("b", "2", labels={"cpuset.min": "1", "cpuset.numa": "single"}),
    ],
    told(
        (1.0, "run", "a"),
        (10.0, "run", "b"),
        (20.0, "remove", "a"),
        (40.0, "reload", {"options": ["full-pcpus-only"], "reserved": "0"}),
    ),
    policy="dynamic",
)
"""It has half a core of its node, and needs a whole one from the reload on, which is there."""
LARGER_FLOOR["machine"] = {"nodes": 2, "cores": 2, "threads": 2}
LARGER_FLOOR["settings"]["reserved"] = "0-1,5"

MORE_IS_SHARED = scenario(
    [container("a", "2"), container("b", "3", labels={"cpuset.min": "2"})],
    told((1.0, "run", "a"), (10.0, "run", "b"), (40.0, "reload", {"shared_min": 4})),
    policy="dynamic",
)
"""The pool has three CPUs, and is to have four: it gets one that is above a floor."""

ANOTHER_NUMBER = scenario(
    [{"name": "a"}],
    told(
        (1.0, "run", "a"),
        (40.0, "reload", {"rule": [{"match": {"name": "a"}, "exclusive": 3, "max": 3}]}),
        (80.0, "reload", {"rule": [{"match": {"name": "a"}, "exclusive": 3, "max": 5}]}),
    ),
    policy="dynamic",
    grace="1s",
    rule=[{"match": {"name": "a"}, "exclusive": 2, "max": 6}],
)
"""It keeps its number of two, and has the maximum of the rule that asks for three."""

BY_NODES_FROM_NOW_ON: Scenario = {
    "machine": {"nodes": 2, "cores": 5},
    "settings": {"policy": "static", "reserved": "0"},
    "container": [container("a", "4")],
    "event": told(
        (1.0, "run", "a"),
        (40.0, "reload", {"numa": "single"}),
        (80.0, "reload", {"reserved": "count:2"}),
    ),
}
"""A NUMA rule that comes moves nothing. Later the grant gives up a CPU that its node cannot replace: all moves."""

REPLACED_ON_ITS_NODE: Scenario = {
    "machine": {"nodes": 2, "cores": 5},
    "settings": {"policy": "static", "reserved": "0", "numa": "single"},
    "container": [container("a", "3")],
    "event": told((1.0, "run", "a"), (40.0, "reload", {"reserved": "count:2"})),
}
"""A grant that lies by nodes gives up a CPU, and its node has another one: the others stay."""
