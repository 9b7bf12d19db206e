"""The judge has teeth: of a daemon with one rule broken, it finds the promise that breaks.

Only here the judge meets the daemon's decisions: the faults are patches of them, most of them those that the laws of
the decisions are proved by.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from sidecar.decide.books import queue
from sidecar.decide.container.container import Container
from sidecar.decide.placement import choose
from sidecar.decide.placement.numa.affinity import affinity
from state.demand import NumaRule
from state.model import State
from tests.blackbox.judge import PROMISES, broken_in
from tests.blackbox.keeping_faults import (
    ALL_BUT_THE_OFFLINE,
    AN_ODD_CPU,
    ANOTHER_NUMBER,
    BY_NODES_FROM_NOW_ON,
    KEPT_OUT,
    KILLED,
    LARGER_FLOOR,
    LATER_CORES,
    MISTAKEN,
    MORE_IS_SHARED,
    ONE_CPU_LESS,
    PINNED_ON_ALL,
    REPLACED_ON_ITS_NODE,
    STARTED_AGAIN,
    WANTED_NO_MORE,
    cancels_no_take,
    forgets_its_grants_at_its_start,
    gives_the_most_to_the_smallest,
    keeps_nothing_at_a_hotplug,
    keeps_what_it_gained_beside_a_pin,
    leaves_its_nodes_at_a_reload,
    places_what_is_kept_out,
    reads_over_mistakes,
)
from tests.blackbox.plain_values import Scenario
from tests.blackbox.planted_faults import (
    AFTER_A_NOTICE,
    BESIDE_AN_OWNER,
    BESIDE_ONE_KEPT_OUT,
    EQUALS,
    ISOLATED,
    LINGERING,
    LOST,
    MISSPELT,
    OF_NO_USE,
    ONLY,
    PINNED,
    PINNED_AND_RULED,
    PINNED_MEANWHILE,
    REDEPLOYED,
    RELEASED,
    RELOADED,
    REPLACED,
    REPLACED_BESIDE_A_REFUSED_ONE,
    RESERVED_ON_ITS_WAY,
    RULED,
    STRICT,
    WHILE_IT_STARTS,
    WHOLE_CORES,
    answers_no_start,
    asks_again_at_once,
    asks_none_again,
    hears_no_reload,
    heeds_no_isolation,
    keeps_the_old_rules,
    leaves_it_where_its_rule_put_it,
    leaves_nothing_to_successors,
    leaves_reserved_cpus_in_its_own_time,
    lets_misspelt_labels_pass,
    lets_nothing_linger,
    moves_everything_at_a_reload,
    moves_what_is_pinned_by_hand,
    promises_half_the_notice,
    sees_no_hotplug,
    shares_isolated_cpus,
    starts_shared_ones_anywhere,
    tells_no_grant,
    tells_no_reason,
    tells_other_places,
    tells_whoever_is_settled_to_be_alone,
)
from tests.blackbox.pool_scenarios import (
    HELD_IN_A_NOTICE,
    HELD_WITH_AN_EXCHANGE,
    REPLACED_UNDER_A_STRICT_RESERVATION,
    REPLACED_WITH_NOTICE,
    REPLACED_WITH_NOTICE_AND,
)
from tests.blackbox.scenarios import scenario_of
from tests.decide.lawbook import (
    alone_faults,
    core_faults,
    dynamic_faults,
    left_faults,
    pool_faults,
    queue_faults,
    refit_faults,
    rule_faults,
    strict_faults,
)

TRIES = 8
"""How many scenarios a fault gets to show itself."""


def splits_nodes(patch: pytest.MonkeyPatch) -> None:
    """Place by no rule of NUMA nodes."""

    def without(topology: Any, free: Any, count: int, rule: NumaRule, **more: Any) -> Any:
        return affinity(topology, free, count, NumaRule.NONE, **more)

    patch.setattr(choose, "affinity", without)


def grants_what_is_reserved(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(State, "assignable", property(lambda state: state.online - state.exclusive))


def serves_the_last_first(patch: pytest.MonkeyPatch) -> None:
    """Ask the queue from its end."""

    def turn(state: State, container: Container) -> tuple[int, int, int]:
        refused = state.refusals.get(container.view.key)
        asked = state.asks if refused is None or refused.asked is None else refused.asked
        return 0, -asked, -container.arrival

    patch.setattr(queue, "_turn", turn)


QUEUE: Scenario = {
    "machine": {"cores": 3},
    "settings": {"policy": "static", "reserved": "0-1", "shortage": "wait", "linger": "1s"},
    "container": [{"name": name, "labels": {"cpuset.exclusive": "1"}} for name in ("holder", "first", "second")],
    "event": [
        {"at": 1.0, "do": "run", "container": "holder"},
        {"at": 2.0, "do": "run", "container": "first"},
        {"at": 3.0, "do": "run", "container": "second"},
        {"at": 9.0, "do": "remove", "container": "holder"},
    ],
}
"""One CPU, three that want it."""

TWO_NODES: Scenario = {
    "machine": {"nodes": 2, "cores": 3},
    "settings": {"policy": "static", "reserved": "0", "numa": "single"},
    "container": [{"name": name, "labels": {"cpuset.exclusive": wanted}} for name, wanted in (("a", "4"), ("b", "3"))]
    + [{"name": "c", "labels": {"cpuset.exclusive": "2"}}, {"name": "d", "labels": {"cpuset.exclusive": "1"}}],
    "event": [
        {"at": at, "do": "run", "container": name} for at, name in ((1.0, "a"), (2.0, "b"), (3.0, "c"), (4.0, "d"))
    ],
}
"""One container asks for more CPUs than a node has; the others for all that there are, and one more."""


@dataclasses.dataclass(frozen=True)
class Planted:
    """A fault, and the promise that breaks by it: in the scenarios from the seed `first` on, or in `scenario`."""

    plant: Callable[[pytest.MonkeyPatch], None]
    promise: str
    first: int = 0
    scenario: Scenario | None = None


FAULTS = (
    Planted(dynamic_faults.lets_newcomers_onto_what_is_leaving, "owners_are_alone", 227),
    Planted(tells_whoever_is_settled_to_be_alone, "who_is_told_to_be_alone_is", scenario=BESIDE_ONE_KEPT_OUT),
    Planted(dynamic_faults.empties_the_pool, "the_pool_keeps_its_minimum", 18),
    Planted(dynamic_faults.gives_the_pool_what_is_of_no_use_to_it, "the_pool_keeps_its_minimum", scenario=OF_NO_USE),
    *(
        Planted(pool_faults.gives_the_pool_away_at_once, "the_pool_has_its_minimum_in_force", scenario=each)
        for each in (
            REPLACED_WITH_NOTICE,
            REPLACED_UNDER_A_STRICT_RESERVATION,
            *REPLACED_WITH_NOTICE_AND.values(),
        )
    ),
    Planted(
        left_faults.leaves_what_only_an_order_may_bring,
        "the_pool_has_its_minimum_in_force",
        scenario=HELD_WITH_AN_EXCHANGE,
    ),
    Planted(left_faults.leaves_what_only_an_order_may_bring, "a_take_is_needed", scenario=HELD_IN_A_NOTICE),
    Planted(dynamic_faults.takes_at_once, "notice_is_given", 21),
    Planted(strict_faults.takes_at_once_from_what_starts, "notice_is_given", scenario=WHILE_IT_STARTS),
    Planted(dynamic_faults.grants_less_than_the_floor, "sizes_are_in_range", 9),
    Planted(dynamic_faults.grows_above_the_ceiling, "sizes_are_in_range"),
    Planted(dynamic_faults.counts_ceilings_in_single_cpus, "sizes_are_in_range", scenario=LATER_CORES),
    Planted(rule_faults.keeps_the_terms_of_another_number, "sizes_are_in_range", scenario=ANOTHER_NUMBER),
    Planted(dynamic_faults.never_ends_a_take, "at_rest_all_are_in_place", 21),
    Planted(dynamic_faults.begins_no_grace_after_a_restart, "at_rest_all_are_in_place", 19),
    Planted(core_faults.counts_floors_in_cpus, "cores_are_whole", scenario=WHOLE_CORES),
    Planted(core_faults.shares_out_less_than_there_is, "nothing_is_spare", 21),
    Planted(alone_faults.grants_where_another_is_pinned, "pinned_cpus_are_granted_to_nobody", 60),
    Planted(splits_nodes, "single_is_one_node", scenario=TWO_NODES),
    Planted(grants_what_is_reserved, "what_is_kept_is_not_granted", scenario=TWO_NODES),
    Planted(serves_the_last_first, "the_queue_is_in_order", scenario=QUEUE),
    Planted(hears_no_reload, "what_is_configured_is_reserved", scenario=RELOADED),
    Planted(leaves_reserved_cpus_in_its_own_time, "what_is_reserved_is_left_at_once", scenario=RESERVED_ON_ITS_WAY),
    Planted(moves_everything_at_a_reload, "a_reload_leaves_what_it_may", scenario=RELOADED),
    Planted(moves_everything_at_a_reload, "a_reload_leaves_what_it_may", scenario=MORE_IS_SHARED),
    Planted(moves_everything_at_a_reload, "a_reload_leaves_what_it_may", scenario=BY_NODES_FROM_NOW_ON),
    Planted(moves_everything_at_a_reload, "a_reload_leaves_what_it_may", scenario=REPLACED_ON_ITS_NODE),
    Planted(leaves_it_where_its_rule_put_it, "at_rest_all_are_in_place", scenario=PINNED_AND_RULED),
    Planted(keeps_what_it_gained_beside_a_pin, "elastic_ones_make_room_for_a_pin", scenario=PINNED_ON_ALL),
    Planted(moves_what_is_pinned_by_hand, "what_is_left_alone_is_never_moved", scenario=PINNED),
    Planted(keeps_the_old_rules, "a_rule_ends_what_it_asked_for", scenario=RULED),
    Planted(shares_isolated_cpus, "isolated_cpus_are_not_shared", scenario=ISOLATED),
    Planted(heeds_no_isolation, "isolated_cpus_are_granted_first", scenario=ISOLATED),
    Planted(heeds_no_isolation, "only_isolated_cpus_are_granted", scenario=ONLY),
    Planted(strict_faults.answers_before_others_have_left, "strict_ones_start_on_their_own", scenario=AFTER_A_NOTICE),
    Planted(strict_faults.forgets_where_owners_start, "strict_ones_start_on_their_own", scenario=PINNED_MEANWHILE),
    Planted(answers_no_start, "strict_starts_that_fit_happen", scenario=STRICT),
    Planted(starts_shared_ones_anywhere, "strict_ones_share_nothing_of_others", scenario=BESIDE_AN_OWNER),
    Planted(tells_no_reason, "a_refused_start_has_a_reason", scenario=STRICT),
    Planted(lets_misspelt_labels_pass, "misspelt_labels_are_noticed", scenario=MISSPELT),
    Planted(asks_again_at_once, "a_release_lasts_until_the_next_start", scenario=RELEASED),
    Planted(leaves_nothing_to_successors, "successors_take_over", scenario=REDEPLOYED),
    Planted(leaves_nothing_to_successors, "a_replacement_under_the_same_name", scenario=REPLACED),
    Planted(leaves_nothing_to_successors, "a_replacement_under_the_same_name", scenario=REPLACED_BESIDE_A_REFUSED_ONE),
    Planted(dynamic_faults.grows_onto_granted_cpus, "no_cpu_is_granted_twice", 9),
    Planted(dynamic_faults.grows_onto_granted_cpus, "growth_stays_on_its_nodes", 9),
    Planted(leaves_its_nodes_at_a_reload, "growth_stays_on_its_nodes", scenario=LARGER_FLOOR),
    Planted(dynamic_faults.grows_above_the_ceiling, "nothing_breaks"),
    Planted(dynamic_faults.gives_up_the_original_set, "originals_stay", 25),
    Planted(dynamic_faults.shares_out_by_arrival, "sizes_are_fair", scenario=EQUALS),
    Planted(core_faults.leaves_the_other_thread, "cores_have_no_stranger", scenario=WHOLE_CORES),
    Planted(alone_faults.stays_beside_the_pinned, "elastic_ones_make_room_for_a_pin", scenario=PINNED),
    Planted(asks_none_again, "waiters_are_granted_what_is_free", scenario=QUEUE),
    Planted(asks_none_again, "lost_grants_come_back", scenario=LOST),
    Planted(sees_no_hotplug, "offline_cpus_leave_a_grant", scenario=LOST),
    Planted(lets_nothing_linger, "grants_linger", scenario=LINGERING),
    Planted(promises_half_the_notice, "notice_is_as_long_as_promised", scenario=AFTER_A_NOTICE),
    Planted(tells_no_grant, "lines_tell_the_grants", scenario=LINGERING),
    Planted(tells_other_places, "lines_tell_the_places", scenario=LINGERING),
    Planted(reads_over_mistakes, "invalid_demands_are_granted_nothing", scenario=MISTAKEN),
    Planted(forgets_its_grants_at_its_start, "grants_are_held_while_it_runs", scenario=KILLED),
    Planted(keeps_nothing_at_a_hotplug, "static_sizes_stay", scenario=ONE_CPU_LESS),
    Planted(cancels_no_take, "a_take_is_needed", scenario=WANTED_NO_MORE),
    Planted(gives_the_most_to_the_smallest, "it_comes_to_rest", scenario=AN_ODD_CPU),
    Planted(queue_faults.asks_again_only_what_was_seen_stopped, "a_start_asks_again", scenario=STARTED_AGAIN),
    Planted(refit_faults.gives_up_on_what_is_offline, "never_is_never", scenario=ALL_BUT_THE_OFFLINE),
    Planted(places_what_is_kept_out, "what_is_left_alone_is_never_moved", scenario=KEPT_OUT),
)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.plant.__name__}: {fault.promise}")
def test_a_planted_fault_is_found(fault: Planted, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the promise that it breaks, in a few scenarios."""
    fault.plant(monkeypatch)
    few = (
        [fault.scenario] if fault.scenario else [scenario_of(seed) for seed in range(fault.first, fault.first + TRIES)]
    )
    assert any(each.promise == fault.promise for one in few for each in broken_in(one))


SMALL = {id(fault.scenario): fault.scenario for fault in FAULTS if fault.scenario is not None}


@pytest.mark.parametrize("scenario", SMALL.values())
def test_without_a_fault_no_promise_is_broken(scenario: Scenario) -> None:
    assert broken_in(scenario) == ()


def test_every_promise_is_seen_to_break() -> None:
    """A promise without a planted fault may be one that the judge never finds broken."""
    assert {promise.__name__ for promise in PROMISES} - {fault.promise for fault in FAULTS} == set()
