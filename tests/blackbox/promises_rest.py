"""Promises about what comes in the end: where containers run at rest, what is spare, who waits, and in which order."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

from tests.blackbox.asked import Asked, CPUs, joined, seconds
from tests.blackbox.chronicle import Chronicle, Stage
from tests.blackbox.finding import AFTERMATH, ORDERS, Finding, listed
from tests.blackbox.promises_sharing import had_always

QUIET = 30.0
"""Seconds without a change, in a history without loads: then it is a rest."""


def it_comes_to_rest(chronicle: Chronicle) -> Iterator[Finding]:
    """ "The same input always converges to the same sizes, and then nothing changes any more" (dynamic)."""
    last = chronicle.last if chronicle.stages else None
    has_loads = last is not None and any(chronicle.asked(name, last).scale == "load" for name in last.there)
    if chronicle.has_rested and not has_loads and chronicle.last.until - chronicle.last.at < QUIET:
        yield Finding("it_comes_to_rest", chronicle.last.at, "", "it still changes")


def at_rest_all_are_in_place(chronicle: Chronicle) -> Iterator[Finding]:
    """An exclusive container runs on its grant; others in the shared pool, "what is online and not granted" (files);
    one that is pinned by hand where its owner put it, or "where it is" as long as another "has any of them exclusively"
    (run-beside-hand-pinned-containers), if it asked by a rule that was taken away.
    """
    answered = {each.container for each in chronicle.said if each.what in ("granted", "refused")}
    last = chronicle.last
    if not chronicle.has_rested or last.until - last.at < ORDERS:
        return
    pool = chronicle.pool(last)
    for name in sorted(last.running):
        asked, place = chronicle.asked(name, last), last.place(name)
        if not asked.is_managed or (asked.is_in_doubt and place.granted is None):
            continue
        if place.leaving:
            continue
        if place.granted is not None:
            right = place.granted
        elif asked.pin and not asked.may_pin:
            # "Those of its CPUs that no container was granted, or the shared pool if none is left" (configuration).
            right = (asked.pin & last.online) - last.granted or pool
        elif asked.pin and name in answered and asked.pin & last.granted:
            continue
        elif asked.pin:
            right = asked.pin & last.online or last.online
        else:
            right = pool
        if place.cpus != right:
            text = f"runs on {listed(place.cpus)} instead of {listed(right)}"
            yield Finding("at_rest_all_are_in_place", last.at, name, text)


def nothing_is_spare(chronicle: Chronicle) -> Iterator[Finding]:
    """`fill`: "it grows to its share of what is spare, by weight, up to max" (labels); "A growth may have any size, so
    `min_change` keeps no CPU idle" (dynamic); "each grows onto the others before they stay idle"
    (configuration, of isolated CPUs).
    """
    last = chronicle.last
    if not chronicle.last.is_dynamic or not _is_still(chronicle):
        return
    apart = chronicle.kept_isolated(last)
    over = len(last.online - last.granted - apart) - _least(chronicle, last)
    # What is isolated is not in the shared pool, which keeps its minimum of the others.
    free = _free(chronicle, last)
    free -= frozenset() if over > 0 else free - apart
    free -= _last_core(chronicle, last)
    for name in sorted(last.running):
        asked, place = chronicle.asked(name, last), last.place(name)
        if asked != chronicle.asks_now(name, last):
            continue
        step = len(chronicle.plan.cores[0]) if asked.whole_cores else 1
        if place.granted is None or asked.scale != "fill" or len(place.granted) + step > asked.ceiling:
            continue
        usable = free & _nodes(chronicle, place.granted) if asked.numa in ("single", "restricted") else free
        if asked.whole_cores:
            usable = joined(core for core in chronicle.plan.cores if core <= usable and len(core - apart) <= over)
        if usable:
            text = f"has {listed(place.granted)} of up to {asked.ceiling}, {listed(usable)} is spare"
            yield Finding("nothing_is_spare", last.at, name, text)


def _is_still(chronicle: Chronicle) -> bool:
    return chronicle.has_rested and chronicle.last.until - chronicle.last.at >= QUIET


def _least(chronicle: Chronicle, stage: Stage) -> int:
    """Return how many CPUs must stay in the shared pool, the reserved ones included."""
    least = max(1, int(stage.settings.get("shared_min", 0)))
    if stage.is_strict:
        has_cores = "full-pcpus-only" in stage.settings.get("options", [])
        core = len(chronicle.plan.cores[0]) * (2 if has_cores else 1)
        return len(stage.reserved & stage.online) + max(least, core if has_cores else 1)
    return max(least, len(stage.reserved & stage.online))


def _last_core(chronicle: Chronicle, stage: Stage) -> CPUs:
    """Return the core that must stay in the shared pool: the only whole one there, "under `full-pcpus-only` with
    `strict-cpu-reservation`" (upgrade-and-change-policy).
    """
    if not stage.is_strict or "full-pcpus-only" not in stage.settings.get("options", []):
        return frozenset()
    whole = [core for core in chronicle.plan.cores if core <= chronicle.pool(stage)]
    return whole[0] if len(whole) == 1 else frozenset()


def _free(chronicle: Chronicle, stage: Stage) -> CPUs:
    free = stage.online - stage.reserved - stage.granted - chronicle.pinned(stage)
    free -= _kept_for_successors(chronicle, stage)
    # The kernel lets one run everywhere whose last CPU went offline.
    strangers = [name for name in stage.running if chronicle.is_stranger(name, stage)]
    if any(not chronicle.asked(name, stage).pin & stage.online for name in strangers):
        return frozenset()
    return free & chronicle.isolated if stage.settings.get("isolated") == "only" else free


def _kept_for_successors(chronicle: Chronicle, stage: Stage) -> CPUs:
    """Return the CPUs of removed containers that another may replace: "after the removal its CPUs are kept for
    `linger`" (labels).
    """
    linger = seconds(stage.settings.get("linger", "10s"))
    released = [e for e in chronicle.said if e.what == "released" and 0 <= stage.at - e.at <= linger + ORDERS]
    return joined(each.cpus for each in released if chronicle.asks_now(each.container, stage).role)


def _nodes(chronicle: Chronicle, cpus: CPUs) -> CPUs:
    return joined(node for node in chronicle.plan.nodes if node & cpus)


def sizes_are_fair(chronicle: Chronicle) -> Iterator[Finding]:
    """ "CPUs are dealt one at a time, each to the container that has the least above its floor for its
    `cpuset.weight`"; "Sizes are fair within one CPU" (dynamic). On machines where no rule stands against it.
    """
    last = chronicle.last
    asked = {name: chronicle.asked(name, last) for name in last.there}
    growing = [name for name in sorted(last.running) if last.place(name).granted and asked[name].scale == "fill"]
    is_plain = all(
        asked[n].is_plain and asked[n].numa in ("none", "best-effort") and not asked[n].pin for n in last.there
    )
    if not _is_still(chronicle) or not is_plain or last.settings.get("min_change", 1) > 1:
        return
    if any(each.pin for each in asked.values()):
        return
    for one, other in permutations(growing, 2):
        more, less = asked[one], asked[other]
        above = len(last.place(one).granted or ()) - more.floor
        below = len(last.place(other).granted or ()) - less.floor
        can_grow = len(last.place(other).granted or ()) < less.ceiling
        if can_grow and (above - 1) / more.weight > (below + 1) / less.weight:
            text = f"has {above} above its floor by weight {more.weight}, {other} has {below} by {less.weight}"
            yield Finding("sizes_are_fair", last.at, one, text)


def waiters_are_granted_what_is_free(chronicle: Chronicle) -> Iterator[Finding]:
    """`wait`: "run there and get the CPUs when they are free"; "decided again whenever something changes" (labels)."""
    if not _is_still(chronicle):
        return
    for name in sorted(chronicle.last.running):
        asked = chronicle.asked(name, chronicle.last)
        if (
            asked.shortage == "wait"
            and not chronicle.is_given_up(name, chronicle.last.at)
            and chronicle.last.place(name).granted is None
            and fits(chronicle, chronicle.last, asked)
        ):
            text = f"waits for {asked.floor} at least, and they are free"
            yield Finding("waiters_are_granted_what_is_free", chronicle.last.at, name, text)


def lost_grants_come_back(chronicle: Chronicle) -> Iterator[Finding]:
    """ "Containers that lost their grant are granted CPUs again, whatever their `cpuset.on-shortage`" (cpu-hotplug)."""
    last = chronicle.last
    if not _is_still(chronicle):
        return
    lost: set[str] = set()
    for before, after in chronicle.pairs():
        anew = {each.container for each in after.said if each.what in ("started", "stopped", "removed")}
        for name in before.running & after.running - anew:
            if before.place(name).granted is not None and after.place(name).granted is None:
                lost.add(name)
        lost -= anew
    for name in sorted(lost & last.running):
        asked = chronicle.asked(name, chronicle.last)
        is_given_up = chronicle.is_given_up(name, last.at)
        if last.place(name).granted is None and not is_given_up and fits(chronicle, last, asked):
            yield Finding("lost_grants_come_back", last.at, name, f"lost its CPUs, and {asked.floor} are free now")


def a_start_asks_again(chronicle: Chronicle) -> Iterator[Finding]:
    """ "A request is decided when the container is created, and again at each start after it was refused" (labels)."""
    for line in chronicle.said:
        if line.what != "started":
            continue
        asked = chronicle.asked(line.container, chronicle.stage_at(line.at))
        if not asked.number:
            continue
        during = [each for each in chronicle.stages if each.until > line.at - ORDERS and each.at <= line.at + 1]
        is_calm = all(each.is_watched for each in during) and chronicle.is_quiet(line.at - AFTERMATH, line.at + 1)
        runs_on = all(line.container in each.running for each in during if each.at >= line.at)
        refused = all(each.place(line.container).granted is None for each in during)
        if is_calm and runs_on and refused and during and all(fits(chronicle, each, asked) for each in during):
            yield Finding(
                "a_start_asks_again", line.at, line.container, f"{asked.floor} would fit, and it was not granted"
            )


def fits(chronicle: Chronicle, stage: Stage, asked: Asked) -> bool:
    """Return whether a demand certainly fits, by counting: False where a rule needs more than counting."""
    if not asked.number or asked.whole_cores or asked.pin or asked.numa in ("single", "restricted"):
        return False
    there = {name: chronicle.asked(name, stage) for name in stage.there}
    if any(each.pin or each.whole_cores for each in there.values()):
        return False
    spare = 0
    # With `only`, no others are of use to a new request.
    of_use = chronicle.isolated if stage.settings.get("isolated") == "only" else stage.online
    if stage.is_dynamic:
        spare = sum(_spare(chronicle, stage, name, of_use) for name in stage.places)
    taken = stage.granted | chronicle.kept_isolated(stage) | _kept_for_successors(chronicle, stage)
    room = len(stage.online - taken) + spare - _least(chronicle, stage)
    return asked.floor <= min(room, len(_free(chronicle, stage)) + spare)


def _spare(chronicle: Chronicle, stage: Stage, name: str, of_use: CPUs) -> int:
    """Return how many of these CPUs an owner can surely give up: "the original CPUs, as many as the floor, never leave"
    (dynamic).
    """
    granted, floor = stage.place(name).granted or frozenset[int](), chronicle.asked(name, stage).floor
    kept = min(floor, len(had_always(chronicle, name, stage) & of_use))
    return min(max(0, len(granted) - floor), max(0, len(granted & of_use) - kept))


def the_queue_is_in_order(chronicle: Chronicle) -> Iterator[Finding]:
    """ "Requests that wait are in a queue: by `cpuset.priority`, then in the order in which they were first decided"
    (labels): of those that ask for the same, none comes before its turn. One whose CPUs people released "asks again at
    its next start" (commands), and is in no queue before.
    """
    waiting: list[str] = []
    for before, after in chronicle.pairs():
        granted = [each.container for each in after.said if each.what == "granted"]
        for name in granted:
            asked = chronicle.asks_now(name, after)
            if name not in waiting or not chronicle.is_quiet(after.at - AFTERMATH, after.at) or not after.is_watched:
                continue
            before_it = {*waiting[: waiting.index(name)]}
            before_it |= {each for each in waiting if chronicle.asks_now(each, after).priority > asked.priority}
            for first in sorted(before_it - {name}):
                elder = chronicle.asks_now(first, after)
                is_alike = _bare(elder) == _bare(asked) and elder.priority >= asked.priority
                still = first in before.running and first in after.running and after.place(first).granted is None
                # One that replaces another container gets the place of that one.
                is_alike &= not asked.role and not chronicle.is_given_up(first, after.at)
                if still and is_alike and elder.number and elder.shortage == "wait":
                    yield Finding(
                        "the_queue_is_in_order", after.at, name, f"granted before {first}, which asked earlier"
                    )
        for line in after.said:
            if line.what == "refused" and line.container not in waiting:
                waiting.append(line.container)
            elif line.what in ("granted", "removed") and line.container in waiting:
                waiting.remove(line.container)


def _bare(asked: Asked) -> Asked:
    """Return what decides whether a request fits."""
    plain = asked._replace(name="", weight=0, grace=0.0, follows=False, priority=0, role=())
    return plain._replace(misspelt=(), is_strict=False)


PROMISES = (
    it_comes_to_rest,
    at_rest_all_are_in_place,
    nothing_is_spare,
    sizes_are_fair,
    waiters_are_granted_what_is_free,
    lost_grants_come_back,
    a_start_asks_again,
    the_queue_is_in_order,
)
