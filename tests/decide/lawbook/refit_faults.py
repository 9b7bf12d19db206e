"""Faults of the refit, each a rule that is broken in one place: the histories must catch every one."""

from __future__ import annotations

import pytest

from sidecar.decide import reconcile, step
from sidecar.decide.books import grants, holdings, refit, replacing
from sidecar.decide.books.holdings import Holdings
from sidecar.decide.container import askers
from sidecar.decide.settings import PolicyName, Settings
from sidecar.decide.world import World
from state.cause import Cause, WentOffline
from state.cpuset import EMPTY, CPUSet
from state.model import Assignment, State
from state.refusal import RefusalCode
from tests.decide.lawbook import laws, offlinelaws
from tests.decide.lawbook.faults import Fault


def completes_to_the_number(patch: pytest.MonkeyPatch) -> None:
    """Demand the number that a grant asked for, in place of its floor."""
    patch.setattr(refit, "fewest_for", lambda world, demand: demand.cpus)


def takes_what_is_nearest(patch: pytest.MonkeyPatch) -> None:
    """Complete a grant from all other CPUs alike, granted or not."""

    def sources(world: World, bare: State, holdings: Holdings, grant: Assignment, *_: Holdings) -> list[CPUSet]:
        return [bare.assignable - world.strangers - holdings[grant.container]]

    patch.setattr(refit, "sources_for", sources)


def replaces_from_any_node(patch: pytest.MonkeyPatch) -> None:
    """Complete a grant without regard to its NUMA rule."""
    patch.setattr(replacing, "_most_nodes", lambda world, demand, count: None)


def asks_only_for_those_that_wait(patch: pytest.MonkeyPatch) -> None:
    """Leave a container that lost its CPUs in the shared pool until it starts again."""
    patch.setattr(askers, "_RECONSIDERED", (RefusalCode.AWAITS_PLACE,))


def gives_up_on_what_is_offline(patch: pytest.MonkeyPatch) -> None:
    """Refuse for good what the CPUs that are online cannot serve."""
    patch.setattr(grants, "offline_in_the_way", lambda *_: EMPTY)


def blames_what_is_online(patch: pytest.MonkeyPatch) -> None:
    """Name all CPUs as offline that a refusal could do with."""
    patch.setattr(grants, "offline_in_the_way", lambda world, *_: world.topology.online)


def says_that_what_became_reserved_went_offline(patch: pytest.MonkeyPatch) -> None:
    """Give one reason for both."""
    patch.setattr(holdings, "BecameReserved", WentOffline)


def says_that_all_went_offline(patch: pytest.MonkeyPatch) -> None:
    """Give what a grant leaves for its rules, or for others, the reason of what went."""

    def taken(world: World, fitted: State, grant: Assignment, lost: CPUSet, *_: object) -> list[tuple[CPUSet, Cause]]:
        return [(lost, WentOffline(lost))] if lost else []

    patch.setattr(holdings, "_taken", taken)


def gives_notice_of_what_was_never_had(patch: pytest.MonkeyPatch) -> None:
    """What a grant loses with the machine or a setting, while another is still leaving it, is leaving twice."""
    patch.setattr(reconcile, "without_takes_of_what_was_not_its_own", lambda world, state: state)
    patch.setattr(step, "without_takes_of_what_only_came", lambda before, world: world)


SETTINGS = (
    Settings(policy=PolicyName.STATIC, reserved_count=1),
    Settings(policy=PolicyName.DYNAMIC, reserved_count=1),
)

FAULTS = (
    Fault(completes_to_the_number, laws.FLOOR, first=369),
    Fault(takes_what_is_nearest, laws.ORIGINAL, first=1669),
    Fault(replaces_from_any_node, laws.NUMA, first=2802),
    Fault(asks_only_for_those_that_wait, laws.REGRANTED, first=1319),
    Fault(says_that_what_became_reserved_went_offline, laws.REASONS, first=105),
    Fault(says_that_all_went_offline, laws.REASONS, first=101),
    Fault(gives_up_on_what_is_offline, offlinelaws.FOR_GOOD, first=42),
    Fault(blames_what_is_online, offlinelaws.OFFLINE, first=37),
)
