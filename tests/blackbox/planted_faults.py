"""Faults beside those of the decisions' laws, and small scenarios in which faults break a promise.

Faults of a sidecar that reads its settings wrongly, answers strict starts too early or not at all, forgets who replaces
whom, grants again what people released, asks no waiting container again, or tells what is not so.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from sidecar.config.config import Config
from sidecar.decide import sightings
from sidecar.decide import step as step_module
from sidecar.decide.books import queue, vacancies
from sidecar.decide.container import wish
from sidecar.decide.container.container import Container
from sidecar.decide.moves import settled, starts
from sidecar.decide.moves.timers import notice_of
from sidecar.decide.orders import AnswerStart
from sidecar.decide.placement import choose
from sidecar.decide.placement.tiers import alternatives, tiers
from sidecar.decide.reconcile import with_settings
from sidecar.decide.settings import IsolatedRule, Settings
from sidecar.decide.world import World, replace
from sidecar.simulation import happenings, model_sidecar, virtual_host
from sidecar.simulation.happenings import Happening, What
from sidecar.simulation.model_sidecar import ModelSidecar
from sidecar.simulation.virtual_host import Simulation
from sidecar.words import changes
from state.cpuset import EMPTY
from state.leaving import Leaving
from state.model import State
from tests.blackbox.drawn_settings import EVERY_RIGHT
from tests.blackbox.plain_values import Scenario, Table


def forgets_what_waits_behind_a_start(patch: pytest.MonkeyPatch) -> None:
    """Take it that the engine has no order of an earlier run of the sidecar."""
    patch.setattr(sightings, "left_in_engine", lambda world, view: EMPTY)


def tells_whoever_is_settled_to_be_alone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(virtual_host, "is_alone", settled.is_settled)


def hears_no_reload(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ModelSidecar, "reload", lambda *_: None)


def keeps_the_old_rules(patch: pytest.MonkeyPatch) -> None:
    honest = ModelSidecar.reload

    def reload(self: ModelSidecar, config: Config) -> None:
        honest(self, replace(config, rules=self._config.rules))

    patch.setattr(ModelSidecar, "reload", reload)


def leaves_it_where_its_rule_put_it(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(settled, "way_home", lambda *_: None)


def moves_what_is_pinned_by_hand(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(settled, "way_home", lambda world, container: None if container.is_idle else world.state.reserved)


def moves_everything_at_a_reload(patch: pytest.MonkeyPatch) -> None:
    """Reserve for a moment what is granted."""
    honest = with_settings

    def twice(world: World, settings: Settings) -> World:
        held = world.state.exclusive | settings.reserved_cpus
        return honest(honest(world, replace(settings, reserved_cpus=held)), settings)

    patch.setattr(step_module, "with_settings", twice)


def shares_isolated_cpus(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(State, "shared", property(lambda state: state.online - state.exclusive))


def heeds_no_isolation(patch: pytest.MonkeyPatch) -> None:
    """Place as if the kernel isolated nothing."""
    patch.setattr(
        choose, "alternatives", lambda *given: alternatives(given[0], given[1], given[2], IsolatedRule.IGNORE)
    )
    patch.setattr(choose, "tiers", lambda *given: tiers(given[0], given[1], given[2], IsolatedRule.IGNORE))


def answers_no_start(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(starts, "answer_to", lambda *_: None)


def starts_shared_ones_anywhere(patch: pytest.MonkeyPatch) -> None:
    honest = starts.answer_to

    def answer(world: World, container: Container, number: int) -> AnswerStart | None:
        given = honest(world, container, number)
        if given is None or given.update is None or given.exclusive:
            return given
        return replace(given, update=replace(given.update, cpus=world.state.online))

    patch.setattr(starts, "answer_to", answer)


def lets_misspelt_labels_pass(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(wish, "is_strict_runtime", lambda _: False)


def tells_no_reason(patch: pytest.MonkeyPatch) -> None:
    honest = Simulation._say

    def say(self: Simulation, what: What, name: str = "", **more: Any) -> None:
        honest(self, what, name, **({**more, "why": ""} if what is What.NOT_STARTED else more))

    patch.setattr(Simulation, "_say", say)


def asks_again_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(queue, "asks_again", lambda *_: True)


def asks_none_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(queue, "asks_again", lambda *_: False)


def sees_no_hotplug(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ModelSidecar, "read_topology", lambda _: None)


def leaves_reserved_cpus_in_its_own_time(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Leaving, "due_on", lambda leaving, cpus: leaving)


def lets_nothing_linger(patch: pytest.MonkeyPatch) -> None:
    honest = Config.settings
    patch.setattr(Config, "settings", lambda config: replace(honest(config), linger_seconds=0.0))


def promises_half_the_notice(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(changes, "notice_of", lambda *given: notice_of(*given) / 2)


def tells_no_grant(patch: pytest.MonkeyPatch) -> None:
    def without(before: World, now: World, at: float) -> Iterator[Happening]:
        return (each for each in happenings.told(before, now, at) if each.what != "granted")

    patch.setattr(model_sidecar, "told", without)


def tells_other_places(patch: pytest.MonkeyPatch) -> None:
    honest = Simulation._say

    def say(self: Simulation, what: What, name: str = "", **more: Any) -> None:
        honest(self, what, name, **({**more, "cpus": EMPTY} if what is What.STARTED else more))

    patch.setattr(Simulation, "_say", say)


def leaves_nothing_to_successors(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(vacancies, "_lasting", lambda *_: {})


def container(name: str, exclusive: str = "", **more: Any) -> Table:
    """Return a container that asks for CPUs, with the keys of a scenario."""
    labels = {"cpuset.exclusive": exclusive} if exclusive else {}
    return {"name": name, "labels": labels | more.pop("labels", {}), **more}


def told(*events: tuple[float, str, Any]) -> list[Table]:
    """Return events, each of a container or with settings."""
    return [
        {"at": at, "do": do} | ({("settings" if do == "reload" else "container"): what} if what else {})
        for at, do, what in events
    ]


def scenario(containers: list[Table], events: list[Table], *, isolated: str = "", **more: Any) -> Scenario:
    """Return a scenario on a machine of 8 cores with one thread; CPU 0 is reserved, the policy is static."""
    settings = {"policy": "static", "reserved": "0", "linger": "5s", "tenants_may": EVERY_RIGHT, **more}
    machine = {"cores": 8} | ({"isolated": isolated} if isolated else {})
    return {"machine": machine, "settings": settings, "container": containers, "event": events}


ROLE = {
    f"com.docker.compose.{key}": value for key, value in (("project", "p"), ("service", "s"), ("container-number", "1"))
}

RELOADED = scenario(
    [container("a", "2"), container("b", "1")],
    told((1.0, "run", "a"), (2.0, "run", "b"), (40.0, "reload", {"reserved": "0,7"})),
)

RULED = scenario(
    [{"name": "a"}],
    told((1.0, "run", "a"), (40.0, "reload", {"rule": []})),
    rule=[{"match": {"name": "a"}, "exclusive": 2}],
)

BESIDE_ONE_KEPT_OUT = scenario(
    [container("a", "2"), {"name": "b", "labels": {"cpuset.manage": "off"}}],
    told((1.0, "run", "b"), (2.0, "run", "a")),
)

ISOLATED = scenario(
    [container("a", "2"), {"name": "b"}],
    told((1.0, "run", "b"), (40.0, "run", "a")),
    isolated="5-7",
)
ISOLATED["settings"]["isolated"] = "prefer"

OF_NO_USE = scenario(
    [
        container("a", "1"),
        container("e", "1", labels={"cpuset.max": "6"}),
        container("c", "2", labels={"cpuset.options": "full-pcpus-only"}),
    ],
    told((1.0, "run", "a"), (10.0, "run", "e"), (40.0, "remove", "a"), (80.0, "run", "c")),
    policy="dynamic",
    options=["strict-cpu-reservation"],
)
"""The CPU that the elastic container gained last is isolated, and of no use to a pool that gives up its last one."""
OF_NO_USE["machine"] = {"cores": 3, "threads": 2, "isolated": "3,5"}
OF_NO_USE["settings"]["isolated"] = "prefer"

ONLY = {**ISOLATED, "settings": {**ISOLATED["settings"], "isolated": "only"}}

STRICT = scenario(
    [container("a", "2", runtime="cpuset"), {"name": "b"}, container("large", "8", runtime="cpuset")],
    told((1.0, "run", "b"), (40.0, "run", "a"), (80.0, "run", "large")),
)

AFTER_A_NOTICE = scenario(
    [container("a", "1", labels={"cpuset.max": "7"}), container("b", "3", runtime="cpuset")],
    told((1.0, "run", "a"), (40.0, "run", "b")),
    policy="dynamic",
    grace="20s",
)

WHOLE_CORES = scenario(
    [container("a", "2", labels={"cpuset.min": "1", "cpuset.max": "6"}), container("b", "3")],
    told((1.0, "run", "a"), (40.0, "run", "b")),
    policy="dynamic",
)
WHOLE_CORES["machine"] = {"cores": 4, "threads": 2}
WHOLE_CORES["settings"]["reserved"] = "0,4"
WHOLE_CORES["container"][0]["labels"]["cpuset.options"] = "full-pcpus-only"

WHILE_IT_STARTS = scenario(
    [container("a", "3", runtime="cpuset", labels={"cpuset.min": "2"}), container("b", "5")],
    told((1.0, "run", "a"), (1.05, "run", "b")),
    policy="dynamic",
)

RESERVED_ON_ITS_WAY = scenario(
    [container("g", "1", labels={"cpuset.max": "7"}), container("x", "3")],
    told((1.0, "run", "g"), (40.0, "run", "x"), (42.0, "reload", {"reserved": "0,7"})),
    policy="dynamic",
    grace="20s",
)
"""A CPU becomes reserved of which a container was given notice, while another one waits on the reserved CPUs for it."""

PINNED_MEANWHILE = scenario(
    [container("a", "2", runtime="cpuset"), {"name": "b"}, {"name": "c", "cpuset": "2"}],
    told((1.0, "run", "a"), (10.0, "run", "b"), (10.0, "stop", "a"), (10.0, "start", "a"), (10.05, "run", "c")),
)
"""While its start goes on, the CPUs of an owner change: those that it was told to start on become the pool's."""
PINNED_MEANWHILE["machine"] = {"cores": 4}

BESIDE_AN_OWNER = scenario(
    [container("a", "4"), {"name": "b", "runtime": "cpuset"}], told((1.0, "run", "a"), (40.0, "run", "b"))
)

MISSPELT = scenario([{"name": "a", "runtime": "cpuset", "labels": {"cpuset.exclusiv": "1"}}], told((1.0, "run", "a")))

RELEASED = scenario(
    [container("a", "2"), {"name": "b"}], told((1.0, "create", "a"), (5.0, "release", "a"), (7.0, "run", "b"))
)

REDEPLOYED = scenario(
    [container("old", "2", labels=ROLE), container("new", "2", labels=ROLE), container("other", "1")],
    told(
        (1.0, "run", "other"),
        (2.0, "run", "old"),
        (40.0, "create", "new"),
        (41.0, "remove", "other"),
        (50.0, "remove", "old"),
    ),
)

REPLACED = scenario(
    [container("a", "1"), container("b", "2")],
    told((1.0, "run", "a"), (2.0, "run", "b"), (20.0, "remove", "a"), (40.0, "remove", "b"), (42.0, "run", "b")),
)

REPLACED_BESIDE_A_REFUSED_ONE = scenario(
    [container("a", "1"), container("b", "2"), container("c", "2"), container("large", "6", runtime="cpuset")],
    told(
        (1.0, "run", "a"),
        (2.0, "run", "b"),
        (3.0, "run", "c"),
        (20.0, "remove", "a"),
        (30.0, "run", "large"),
        (40.0, "remove", "b"),
        (42.0, "run", "b"),
    ),
)
"""What was refused is asked again when CPUs come free. They do not suffice: those that they were left to get them."""

LINGERING = scenario([container("a", "2")], told((1.0, "run", "a"), (40.0, "stop", "a")))

LOST = scenario(
    [container("a", "6")],
    [
        *told((1.0, "run", "a")),
        {"at": 40.0, "do": "offline", "cpus": "4-7"},
        {"at": 80.0, "do": "online", "cpus": "4-7"},
    ],
)

EQUALS = scenario(
    [container("a", "1", labels={"cpuset.max": "8"}), container("b", "1", labels={"cpuset.max": "8"})],
    told((1.0, "run", "a"), (40.0, "run", "b")),
    policy="dynamic",
)

PINNED_AND_RULED = scenario(
    [{"name": "a", "cpuset": "0"}],
    [
        *told((1.0, "run", "a")),
        {"at": 40.0, "do": "reload", "settings": {"rule": []}},
    ],
    rule=[{"match": {"name": "a"}, "exclusive": 1}],
)

PINNED = scenario(
    [container("a", "2", labels={"cpuset.max": "6"}), {"name": "b", "cpuset": "5"}],
    told((1.0, "run", "a"), (40.0, "run", "b")),
    policy="dynamic",
)
