"""The laws of rules and releases: labels win, what asks for nothing holds nothing, and what is released rests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase

from sidecar.decide.books.grants import bounds, no_multiple, place
from sidecar.decide.container.askers import is_coming
from sidecar.decide.facts import ContainerView, Phase, ViewKind
from sidecar.decide.moves import plain
from sidecar.decide.settings import OptIn, PolicyName, TenantRight
from sidecar.decide.world import replace
from sidecar.systemd_names import is_inside_a_container
from state.cpuset import EMPTY, CPUSet
from state.demand import Demand
from state.refusal import RefusalCode
from tests.support.decide.real import Real
from tests.support.decide.reality import Reality
from tests.support.laws import Law, When


def asked_otherwise(reality: Reality) -> Iterator[str]:
    """Yield containers that ask for something else than their labels, and for what these leave open their rule; where
    labels alone ask. A maximum of its own may count as absent if tenants may not have a limit
    lifted.
    """
    settings = reality.world.settings
    if settings.opt_in is not OptIn.LABEL:
        return
    for key, container in reality.world.containers.items():
        real, demand = reality.containers.get(key), container.wish.demand
        if real is None or demand is None or (container.view.is_glance and not container.view.labels):
            # Without the engine, no labels are known.
            continue
        said = _labels(reality, real, container.view.name)
        asked = {
            "exclusive": str(demand.cpus),
            "on-shortage": demand.shortage.value,
            "priority": str(demand.priority),
            "min": str(demand.min_cpus),
            "max": str(demand.max_cpus),
        }
        meant = {"on-shortage": settings.shortage.value, "priority": "5", "min": "None", "max": "None"} | said
        if TenantRight.LIFT_QUOTA not in settings.may:
            del asked["max"]
        wrong = sorted(name for name in asked if asked[name] != meant.get(name, "0"))
        if wrong:
            yield f"{real.name} says {said}, and asks for {', '.join(f'{each}={asked[each]}' for each in wrong)}"


def told_plain_and_asks(reality: Reality) -> Iterator[str]:
    """Yield containers that seemed to ask for nothing when they were created, and do, or are left alone by their labels
    or the configuration: nobody may look at them before they have lasted.
    """
    settings = reality.world.settings
    for container in reality.world.containers.values():
        view, wish = container.view, container.wish
        if view.kind is not ViewKind.CONTAINER:
            continue
        told = ContainerView(engine=view.engine, id=view.id, name=view.name, phase=Phase.CREATED, labels=view.labels)
        told = replace(told, image=view.image, is_glance=True)
        if is_inside_a_container(view.cgroup_parent):
            # Its parent makes it be left alone, whatever it asks for.
            continue
        if plain.asks_nothing(told, settings) and (wish.demand or wish.refusal or wish.is_kept_out):
            yield f"{view.name} was told plain, and is {wish}"


def held_without_a_request(reality: Reality) -> Iterator[str]:
    """Yield grants of containers that ask for nothing: a rule that goes takes back what it gave."""
    world = reality.world
    if not world.is_ready or world.is_releasing or world.settings.policy is PolicyName.NONE:
        return
    if world.settings.opt_in is not OptIn.LABEL:
        # Limits ask as well.
        return
    for key, grant in world.state.assignments.items():
        real, container = reality.containers.get(key), world.containers.get(key)
        if world.is_absent(key):
            # What is not known keeps what it has.
            continue
        if real and container and "exclusive" not in _labels(reality, real, container.view.name):
            yield f"{real.name} asks for nothing, and holds {grant.cpus}"


def granted_on_old_terms(reality: Reality) -> Iterator[str]:
    """Yield grants with a ceiling, a weight or a notice for which their container does not ask any more: what the owner
    of the host changes in a rule, or in what tenants may, counts at once, but for the number and the floor.
    """
    for key, grant in reality.world.state.assignments.items():
        container = reality.world.containers.get(key)
        if container is None or container.view.is_glance or (asked := container.wish.demand) is None:
            continue
        had, most = grant.demand, asked.ceiling
        if (asked.cpus, asked.floor) != (had.cpus, had.floor):
            # It keeps its number: that is its size without a maximum, and no maximum is below it.
            most = max(asked.max_cpus or 0, had.cpus)
        for name, has, wants in (
            ("ceiling", had.ceiling, most),
            ("weight", had.weight, asked.weight),
            ("notice", had.grace_seconds, asked.grace_seconds),
        ):
            if has != wants:
                yield f"{grant.name} asks for the {name} {wants}, and its grant has {has}"


def refused_on_old_terms(reality: Reality) -> Iterator[str]:
    """Yield containers that are refused something else than what they ask for now, and those that ask for something
    else since the last burst, that fits, and are refused all the same: a refusal is of one request. A successor waits
    for its place, and what people released rests.
    """
    before, world = reality.planned_from, reality.world
    if not world.is_ready or world.is_releasing or world.settings.policy is PolicyName.NONE:
        return
    for key, refused in world.state.refusals.items():
        container = world.containers.get(key)
        if container is None or world.is_absent(key) or container.view.is_glance or not is_coming(container):
            continue
        if refused.refusal.code is RefusalCode.GIVEN_UP or key in before.state.assignments:
            # What it lost just now is what it had asked for then.
            continue
        asked, was = container.wish.demand, before.state.refusals.get(key)
        if not _is_the_same(refused.demand, asked):
            yield f"{refused.name} asks for {asked}, and was refused {refused.demand}"
        elif asked is None and refused.refusal != container.wish.refusal:
            yield f"{refused.name} has the mistake {container.wish.refusal}, and was refused for {refused.refusal}"
        if asked is None or was is None or _is_the_same(was.demand, asked):
            continue
        if refused.refusal.code is RefusalCode.AWAITS_PLACE or no_multiple(world, world.state, asked):
            # Of a range the floor may come to whole cores where the number does not.
            continue
        if isinstance(place(world, world.state, asked, bounds(world, asked)[0]), CPUSet):
            yield f"{refused.name} asks for something else now, which fits, and is refused as before"


def _is_the_same(one: Demand | None, other: Demand | None) -> bool:
    """Return whether two requests are the same, whatever their container was called."""
    return one == other if one is None or other is None else replace(one, name=other.name) == other


def granted_though_released(reality: Reality) -> Iterator[str]:
    """Yield grants of containers that people released, and that have neither started since nor asked for a start."""
    if reality.world.is_releasing:
        return
    for key, starts in reality.given_up.items():
        real, grant = reality.containers.get(key), reality.world.state.assignments.get(key)
        if real and grant and real.starts == starts:
            yield f"{real.name} was released, was not started since, and holds {grant.cpus}"


def not_sent_home(reality: Reality) -> Iterator[str]:
    """Yield containers that were pinned by hand, ask for nothing any more, and are not back on their own CPUs, though
    no other container has any of these exclusively.
    """
    world = reality.world
    if world.is_releasing or world.settings.policy is PolicyName.NONE:
        return
    for key, real in reality.containers.items():
        container, home = world.containers.get(key), CPUSet.parse(real.had.cpuset) & reality.online
        is_ours = real.is_ours and not real.was_tampered and real.labels.get("cpuset.manage") != "off"
        if container is None or not home or home == reality.online or not is_ours or real.effective is None:
            continue
        if container.view.kind is ViewKind.GROUP:
            # Its CPUs are the pool, whoever else writes it.
            continue
        has_request = "exclusive" in _labels(reality, real, container.view.name)
        is_free = not home & ((world.state.exclusive | world.state.leaving) - world.state.reserved)
        if not has_request and is_free and real.effective != home and not container.may_change_unseen:
            yield f"{real.name} was pinned to {home}, and runs on {real.effective or EMPTY}"


def _labels(reality: Reality, real: Real, name: str) -> dict[str, str]:
    """Return its labels without their prefix: its own, and others of the first rule that matches it."""
    own = dict(real.labels)
    given: Mapping[str, str] = {}
    for rule in reality.world.settings.rules if real.kind is ViewKind.CONTAINER else ():
        project = own.get("com.docker.compose.project", "")
        if fnmatchcase(name, rule.name or "*") and fnmatchcase(project, rule.project or "*"):
            given = rule.labels
            break
    return {label.removeprefix("cpuset."): value for label, value in {**given, **own}.items()}


LABELS_WIN = Law("labels win over rules", asked_otherwise)
TAKEN_BACK = Law("what asks for nothing holds nothing", held_without_a_request)
ANEW = Law("a refusal is of the present request", refused_on_old_terms)
TERMS = Law("a grant has the terms for which its container asks", granted_on_old_terms)
RESTS = Law("what people released rests until its next start", granted_though_released)
HOME = Law("what was pinned by hand goes back when its rule goes", not_sent_home, When.REST)

TOLD_PLAIN = Law("what asks for nothing by its name, image and labels asks for nothing", told_plain_and_asks)

LAWS: tuple[Law[Reality], ...] = (LABELS_WIN, TAKEN_BACK, ANEW, TERMS, RESTS, HOME, TOLD_PLAIN)
