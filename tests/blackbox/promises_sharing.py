"""Promises about who may run where: exclusive, shared, reserved, pinned by hand."""

from __future__ import annotations

from collections.abc import Iterator

from tests.blackbox.asked import CPUs, joined
from tests.blackbox.chronicle import Chronicle, Stage
from tests.blackbox.finding import LONGEST_NOTICE, LOOKS, ORDERS, Finding, lasting, listed


def owners_are_alone(chronicle: Chronicle) -> Iterator[Finding]:
    """ "Two exclusive containers never share a CPU" (dynamic); "whole CPUs on which no other managed container runs"
    (labels). Until orders took effect, which is milliseconds.
    """

    def seen(stage: Stage) -> dict[tuple[str, ...], CPUs]:
        found: dict[tuple[str, ...], CPUs] = {}
        for name in stage.running:
            own = stage.place(name).own
            for other in stage.running if own else ():
                asked = chronicle.asked(other, stage)
                is_placed = asked.is_managed and not (asked.pin and asked.may_pin) and not asked.is_in_doubt
                is_placed &= not chronicle.is_locked(other, stage)
                if other != name and is_placed and (both := stage.place(other).cpus & own):
                    found[name, other] = both
        return found

    for each in lasting(chronicle, seen, ORDERS):
        owner, other = each.names
        seen_text = f"{other} runs on {listed(each.cpus)} of {owner} for {each.seconds:g} s"
        yield Finding("owners_are_alone", each.began, owner, seen_text)


def who_is_told_to_be_alone_is(chronicle: Chronicle) -> Iterator[Finding]:
    """ "A workload runs alone when its `status.json` has `"alone": true`: no container that the sidecar can see may run
    on its CPUs" (README): whatever it is, as soon as a look has shown that it runs. Looks wait for starts and stops.
    """

    def seen(stage: Stage) -> dict[tuple[str, ...], CPUs]:
        return {
            (name, other): both
            for name, place in stage.places.items()
            for other in (stage.running if place.is_alone else ())
            if other != name and not chronicle.is_locked(other, stage)
            if (both := stage.place(other).cpus & place.cpus)
        }

    for each in lasting(chronicle, seen, LOOKS):
        owner, other = each.names
        seen_text = f"{owner} is told to be alone, and {other} runs on {listed(each.cpus)} for {each.seconds:g} s"
        yield Finding("who_is_told_to_be_alone_is", each.began, owner, seen_text)


def no_cpu_is_granted_twice(chronicle: Chronicle) -> Iterator[Finding]:
    """ "Two exclusive containers never share a CPU" (dynamic): nor are they promised one."""
    for stage in chronicle.stages:
        taken: set[int] = set()
        for name, place in sorted(stage.places.items()):
            if both := taken & (place.granted or frozenset()):
                yield Finding("no_cpu_is_granted_twice", stage.at, name, listed(frozenset(both)))
            taken |= place.granted or frozenset()


def what_is_kept_is_not_granted(chronicle: Chronicle) -> Iterator[Finding]:
    """ "Reserved CPUs are never granted exclusively" (reserve-cpus)."""
    for stage in chronicle.stages:
        for name, place in stage.places.items():
            if both := (place.granted or frozenset()) & stage.reserved:
                yield Finding("what_is_kept_is_not_granted", stage.at, name, f"{listed(both)} is reserved")


def offline_cpus_leave_a_grant(chronicle: Chronicle) -> Iterator[Finding]:
    """ "An exclusive container loses some of its CPUs: the container keeps the others, gets the nearest free ones as
    replacement" (cpu-hotplug). "The sidecar checks once a second".
    """

    def seen(stage: Stage) -> dict[tuple[str, ...], CPUs]:
        places = stage.places.items()
        return {(name,): gone for name, each in places if (gone := (each.granted or frozenset()) - stage.online)}

    for each in lasting(chronicle, seen, 1.1):
        yield Finding("offline_cpus_leave_a_grant", each.began, each.names[0], f"{listed(each.cpus)} is offline")


def pinned_cpus_are_granted_to_nobody(chronicle: Chronicle) -> Iterator[Finding]:
    """ "Its CPUs are granted to no other container, for as long as it exists, running or not"
    (run-beside-hand-pinned-containers): none that comes new into a grant, once it was looked at.
    """
    created = {each.container: each.at for each in chronicle.said if each.what == "created"}
    for before, after in chronicle.pairs():
        if not before.is_watched or after.at - before.since < ORDERS:
            continue
        for name, place in after.places.items():
            gained = (place.granted or frozenset()) - (before.place(name).granted or frozenset())
            seen = [each for each in before.there & after.there if after.at - created[each] > ORDERS and each != name]
            strangers = [each for each in seen if chronicle.is_stranger(each, after)]
            if both := gained & joined(chronicle.asked(each, after).pin for each in strangers):
                yield Finding("pinned_cpus_are_granted_to_nobody", after.at, name, f"gained {listed(both)}")


def elastic_ones_make_room_for_a_pin(chronicle: Chronicle) -> Iterator[Finding]:
    """ "If a container is pinned by hand onto CPUs above the floor of another, that one gives them up, with notice"
    (dynamic).
    """
    if not chronicle.last.is_dynamic or not chronicle.has_rested:
        return
    last = chronicle.last
    for name, place in last.places.items():
        asked = chronicle.asked(name, last)
        foreign = joined_pins(chronicle, last, name) & (place.granted or frozenset())
        over = len(place.granted or ()) - asked.floor
        is_cut = chronicle.hotplugs or chronicle.reloads or asked.whole_cores
        if name in last.running and over > 0 and foreign and not is_cut and last.settings.get("min_change", 1) == 1:
            originals = original(chronicle, name)
            if originals is not None and foreign - originals:
                text = f"keeps {listed(foreign - originals)} above its floor of {asked.floor}"
                yield Finding("elastic_ones_make_room_for_a_pin", last.at, name, text)


def joined_pins(chronicle: Chronicle, stage: Stage, name: str) -> CPUs:
    """Return what strangers are pinned to, but for one container's own pin."""
    return frozenset(
        cpu
        for each in stage.there
        if each != name and chronicle.is_stranger(each, stage)
        for cpu in chronicle.asked(each, stage).pin
    )


def original(chronicle: Chronicle, name: str) -> CPUs | None:
    """Return what a container's present grant always had, None if that is more than its floor."""
    always = had_always(chronicle, name, chronicle.last)
    return always if always and len(always) == chronicle.asked(name, chronicle.last).floor else None


def had_always(chronicle: Chronicle, name: str, stage: Stage) -> CPUs:
    """Return what a container's grant had at each stage until this one: its original CPUs, and others perhaps."""
    always: CPUs | None = None
    for each in chronicle.stages:
        granted = each.place(name).granted
        always = granted if granted is None or always is None else always & granted
        if each is stage:
            break
    return always or frozenset()


def the_pool_keeps_its_minimum(chronicle: Chronicle) -> Iterator[Finding]:
    """ "The minimum number of CPUs in the shared pool (at least one is always kept)" (configuration). After CPUs went
    offline, elastic containers have notice of what they give up for it (cpu-hotplug).
    """
    went = [*(each.at for each in chronicle.said if each.what == "went offline"), *chronicle.reloads]
    missing_since: float | None = None
    for stage in chronicle.stages:
        least = max(1, int(stage.settings.get("shared_min", 0)))
        possible = stage.online - (stage.reserved if stage.is_strict else frozenset()) - chronicle.kept_isolated(stage)
        pool = possible - stage.granted
        is_short = stage.is_watched and len(pool) < min(least, len(possible))
        if not is_short:
            missing_since = None
            continue
        missing_since = stage.at if missing_since is None else missing_since
        allowed = LONGEST_NOTICE if any(at <= stage.until for at in went) else ORDERS
        if stage.until - missing_since > allowed:
            yield Finding("the_pool_keeps_its_minimum", missing_since, "", f"{listed(pool)} of {least} CPUs")
            missing_since = stage.until


def the_pool_has_its_minimum_in_force(chronicle: Chronicle) -> Iterator[Finding]:
    """ "The minimum number of CPUs in the shared pool" (configuration), "and it has them in force" (reserve-cpus): as
    many are there for a container that has none of its own, also while others give up CPUs with notice. What went
    offline, and what a reload asks for, is replaced after a notice.
    """
    went = [*chronicle.hotplugs, *chronicle.reloads]

    def seen(stage: Stage) -> dict[tuple[str, ...], CPUs]:
        possible = stage.online - (stage.reserved if stage.is_strict else frozenset()) - chronicle.kept_isolated(stage)
        least = min(max(1, int(stage.settings.get("shared_min", 0))), len(possible - stage.granted))
        if any(at <= stage.until and stage.at <= at + LONGEST_NOTICE for at in went):
            return {}
        found: dict[tuple[str, ...], CPUs] = {}
        for name in stage.running:
            asked, place = chronicle.asked(name, stage), stage.place(name)
            is_placed = asked.is_managed and not asked.pin and not asked.is_in_doubt and place.granted is None
            if is_placed and place.cpus and not chronicle.is_locked(name, stage) and len(place.cpus & possible) < least:
                found[name,] = place.cpus
        return found

    for each in lasting(chronicle, seen, ORDERS):
        text = f"has {listed(each.cpus)} for {each.seconds:g} s"
        yield Finding("the_pool_has_its_minimum_in_force", each.began, each.names[0], text)


def what_is_left_alone_is_never_moved(chronicle: Chronicle) -> Iterator[Finding]:
    """ "The sidecar never moves it"; but for one that asked by a rule that was taken away: "it goes back to the CPUs to
    which its owner pinned it" (run-beside-hand-pinned-containers); "left alone entirely: the sidecar never sends an
    order for it" (labels, `cpuset.manage`).
    """
    asked_at, released_at = dict[str, float](), dict[str, float]()
    for each in chronicle.said:
        if each.what in ("granted", "refused"):
            asked_at.setdefault(each.container, each.at)
        if each.what == "released":
            released_at[each.container] = each.at
        if each.what == "runs on":
            stage = chronicle.stage_at(each.at)
            asked = chronicle.asked(each.container, stage)
            goes_back = asked_at.get(each.container, each.at) < each.at and each.cpus == asked.pin & stage.online
            # An order from before it was released may still be under way.
            goes_back |= 0 <= each.at - released_at.get(each.container, -ORDERS) < ORDERS
            # One that does not run asks for nothing yet, and is placed by its rule all the same.
            goes_back |= chronicle.asked_since(each.container, each.at - ORDERS, each.at)
            if not asked.is_managed or (chronicle.is_stranger(each.container, stage) and not goes_back):
                text = f"moved from {listed(each.was)} to {listed(each.cpus)}"
                yield Finding("what_is_left_alone_is_never_moved", each.at, each.container, text)


PROMISES = (
    owners_are_alone,
    who_is_told_to_be_alone_is,
    no_cpu_is_granted_twice,
    what_is_kept_is_not_granted,
    offline_cpus_leave_a_grant,
    pinned_cpus_are_granted_to_nobody,
    elastic_ones_make_room_for_a_pin,
    the_pool_keeps_its_minimum,
    the_pool_has_its_minimum_in_force,
    what_is_left_alone_is_never_moved,
)
