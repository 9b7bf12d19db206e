"""Promises about grants: how many CPUs, of which cores and nodes, and which ones stay."""

from __future__ import annotations

from collections.abc import Iterator

from tests.blackbox.asked import Asked, CPUs, joined
from tests.blackbox.chronicle import Chronicle, Stage
from tests.blackbox.finding import ORDERS, Finding, lasting, listed


def sizes_are_in_range(chronicle: Chronicle) -> Iterator[Finding]:
    """`cpuset.min` is "its floor: it never has fewer", `cpuset.max` "its ceiling: it never has more"; without them it
    has N (labels). A CPU that goes offline is replaced, or the grant ends (cpu-hotplug).
    """
    since: dict[str, float] = {}
    for stage in chronicle.stages:
        since = {name: at for name, at in since.items() if name in stage.places}
        for name, place in stage.places.items():
            asked, size = chronicle.asked(name, stage), len((place.granted or frozenset()) & stage.online)
            # A core of which threads are offline is what is left of it: a number of such cores may be any.
            is_by_cores = asked.whole_cores or chronicle.asks_now(name, stage).whole_cores
            is_narrow = is_by_cores and stage.online != chronicle.plan.all
            least, most = (asked.least, asked.most) if is_narrow else (asked.floor, asked.ceiling)
            is_right = least <= size <= most
            # Where no core has all its threads, the floor is no number of theirs either.
            is_right |= is_by_cores and not any(core <= stage.online for core in chronicle.plan.cores)
            if place.granted is None or not stage.is_watched or not asked.number or is_right:
                since.pop(name, None)
                continue
            since.setdefault(name, stage.at)
            if stage.until - since[name] > 1.1:
                text = f"has {size} ({listed(place.granted)}), not {asked.floor} to {asked.ceiling}"
                yield Finding("sizes_are_in_range", since[name], name, text)
                since[name] = stage.until


def invalid_demands_are_granted_nothing(chronicle: Chronicle) -> Iterator[Finding]:
    """ "An invalid value refuses them, with the reason, and the container runs in the shared pool" (labels)."""
    for stage in chronicle.stages:
        for name, place in stage.places.items():
            # Where threads are offline, a core may have fewer; what was granted then stays.
            is_narrow = chronicle.asked(name, stage).whole_cores and "went offline" in {e.what for e in chronicle.said}
            if place.granted and not chronicle.asked(name, stage).number and not is_narrow:
                text = f"granted {listed(place.granted)}"
                yield Finding("invalid_demands_are_granted_nothing", stage.at, name, text)


def cores_are_whole(chronicle: Chronicle) -> Iterator[Finding]:
    """ "Whole physical cores only" (configuration); "gains and loses whole cores" (dynamic). A core that had an offline
    thread since is let pass: a container keeps what is left of it. So is what it was moved to while it asked for no
    whole cores: "new options apply to new grants" (upgrade-and-change-policy).
    """
    ever_gone: CPUs = frozenset()
    had: dict[str, CPUs] = {}
    for stage in chronicle.stages:
        ever_gone |= chronicle.plan.all - stage.online
        for name, place in stage.places.items():
            granted = place.granted or frozenset()
            if not chronicle.asked(name, stage).whole_cores:
                had[name] = granted
                continue
            had[name] = had.get(name, frozenset()) & granted
            for core in chronicle.plan.cores:
                part = core & granted
                if part and part != core and not core & ever_gone and not part <= had[name]:
                    text = f"{listed(part)} is a part of core {listed(core)}"
                    yield Finding("cores_are_whole", stage.at, name, text)


def cores_have_no_stranger(chronicle: Chronicle) -> Iterator[Finding]:
    """ "Needs whole cores, with no other container on the sibling thread" (choose-cpus). One that waits for CPUs with
    notice runs meanwhile "on those of its CPUs that no other container has to leave" (dynamic).
    """

    def seen(stage: Stage) -> dict[tuple[str, ...], CPUs]:
        found: dict[tuple[str, ...], CPUs] = {}
        for name in stage.running:
            place = stage.place(name)
            if not chronicle.asked(name, stage).whole_cores or not place.own or place.cpus != place.own:
                continue
            whole = frozenset(cpu for core in chronicle.plan.cores if core & place.own for cpu in core) - place.own
            for other in stage.running:
                asked = chronicle.asked(other, stage)
                there = stage.place(other).cpus - (stage.place(other).leaving & (place.granted or frozenset()))
                if other != name and asked.is_managed and not asked.pin and (both := there & whole):
                    found[name, other] = both
        return found

    if not chronicle.hotplugs and not chronicle.reloads:
        for each in lasting(chronicle, seen, ORDERS):
            text = f"{each.names[1]} runs on {listed(each.cpus)}, its sibling, for {each.seconds:g} s"
            yield Finding("cores_have_no_stranger", each.began, each.names[0], text)


def single_is_one_node(chronicle: Chronicle) -> Iterator[Finding]:
    """ "`single`: one node, or a refusal"; "`restricted`: as few nodes as on an empty machine" (labels): as that was
    when CPUs were offline, since one that is on too many nodes moves only "if free CPUs allow it" (cpu-hotplug). What a
    sidecar decides at its start is told as one decision: one that is `restricted`, and cut in it, had more before.
    """
    most: dict[str, int] = {}
    for stage in chronicle.stages:
        began = any(e.what == "the sidecar starts" and 0 <= stage.at - e.at < ORDERS for e in chronicle.said)
        most = {name: nodes for name, nodes in most.items() if name not in stage.renewed}
        for name, place in stage.places.items():
            asked = chronicle.asked(name, stage)
            if not place.granted or not asked.number:
                continue
            touched = _touched(chronicle, place.granted & stage.online)
            if not {asked.numa, chronicle.asks_now(name, stage).numa} <= {"single", "restricted"}:
                # What it grew onto while the node's rule allowed that, it keeps.
                most[name] = max(most.get(name, 1), len(touched))
                continue
            fewest = 1 if asked.numa == "single" else _fewest_nodes(chronicle, stage, len(place.granted), asked)
            most[name] = max(most.get(name, 1), fewest)
            most[name] = max(most[name], len(touched) if began and asked.numa == "restricted" else 1)
            if stage.is_watched and len(touched) > most[name]:
                text = f"{listed(place.granted)} is on {len(touched)} nodes under {asked.numa}"
                yield Finding("single_is_one_node", stage.at, name, text)


def _fewest_nodes(chronicle: Chronicle, stage: Stage, size: int, asked: Asked) -> int:
    return _fewest_for(chronicle, stage, max(asked.number, size))


def _fewest_for(chronicle: Chronicle, stage: Stage, wanted: int) -> int:
    sizes = sorted((len(node & stage.online - stage.reserved) for node in chronicle.plan.nodes), reverse=True)
    return next((count for count in range(1, len(sizes) + 1) if sum(sizes[:count]) >= wanted), len(sizes))


def growth_stays_on_its_nodes(chronicle: Chronicle) -> Iterator[Finding]:
    """ "A container with `cpuset.numa: restricted` or `single` grows only on the nodes that it has" (dynamic). Half
    cores that are made whole where there is room for it may be whole on as many other nodes. So may lie what was on
    more nodes than it needed: it is "moved together" when CPUs come back (cpu-hotplug). Of a floor that whole
    cores make larger, "what is missing is placed by the rules of a new request" (0072): elsewhere if it does not fit.
    """
    for before, after in chronicle.pairs():
        for line in after.said:
            if line.what != "grew":
                continue
            asked, had = chronicle.asked(line.container, after), before.place(line.container).granted
            is_refitted = not (before.is_dynamic and after.is_dynamic)
            if asked.numa not in ("restricted", "single") or not had or is_refitted:
                continue
            is_evicted = bool(had & chronicle.pinned(after, but=line.container))
            is_evicted |= _gives_way(chronicle, before, after, line.container)
            is_evicted |= any(e.container == line.container and e.what in ("exchanged", "moved") for e in after.said)
            has = after.place(line.container).granted or frozenset()
            is_no_wider = len(_touched(chronicle, has)) <= len(_touched(chronicle, had))
            is_evicted |= is_no_wider and _is_made_whole(chronicle, before, after, line.container)
            lay_apart = len(_touched(chronicle, had)) > _fewest_for(chronicle, after, len(had & after.online))
            is_evicted |= is_no_wider and lay_apart and _came_back(chronicle, after)
            is_evicted |= is_no_wider and _floor_lies_elsewhere(chronicle, before, after, line.container)
            if not is_evicted and (new := _touched(chronicle, line.cpus) - _touched(chronicle, had)):
                text = f"grew onto {listed(line.cpus)}, of {len(new)} other nodes"
                yield Finding("growth_stays_on_its_nodes", line.at, line.container, text)


def _touched(chronicle: Chronicle, cpus: CPUs) -> frozenset[int]:
    return frozenset(number for number, node in enumerate(chronicle.plan.nodes) if node & cpus)


def _has_a_rule(asked: Asked) -> bool:
    return asked.whole_cores or asked.numa in ("single", "restricted")


def _gives_way(chronicle: Chronicle, before: Stage, after: Stage, name: str) -> bool:
    """Return whether an older grant lost CPUs to a hotplug now: where not all fit, "the newest grants end", and may be
    granted again elsewhere at once.
    """
    at = {e.container: e.at for e in chronicle.said if e.what == "granted" and e.at <= after.at}
    losers = (other for other, each in before.places.items() if (each.granted or frozenset()) - after.online)
    return any(at.get(other, 0.0) < at.get(name, 0.0) for other in losers)


def _cuts_the_pool(chronicle: Chronicle, before: Stage, after: Stage) -> bool:
    """Return whether a hotplug or a reload left too little in the shared pool, beside replacements for granted CPUs
    that went offline: the newest grants end for that, too, and may be granted again at once. Of a hotplug and a reload
    in one instant, the hotplug may come first.
    """
    left = after.online - before.granted - chronicle.kept_isolated(after)
    left -= after.reserved if after.is_strict else frozenset()
    is_new = not chronicle.is_quiet(after.at - 1.1, after.at)
    replaced = len(before.granted - after.online)
    least = max(1, *(int(each.settings.get("shared_min", 0)) for each in (before, after)))
    return is_new and len(left) - replaced < least


def _came_back(chronicle: Chronicle, after: Stage) -> bool:
    return any(e.what == "came online" and 0 <= after.at - e.at < 1.1 for e in chronicle.said)


def _is_made_whole(chronicle: Chronicle, before: Stage, after: Stage, name: str) -> bool:
    """Return whether CPUs came back while a container had half cores, which its request now excludes: they "are made
    whole" (cpu-hotplug), but for a number that comes to no whole cores.
    """
    now, had = chronicle.asks_now(name, after), before.place(name).granted or frozenset()
    came = _came_back(chronicle, after)
    return came and now.whole_cores and now.number > 0 and any(c & had and not c <= had for c in chronicle.plan.cores)


def _floor_lies_elsewhere(chronicle: Chronicle, before: Stage, after: Stage, name: str) -> bool:
    """Return whether `full-pcpus-only`, which came by a reload, makes the floor larger than what it has, and the nodes
    that it has do not have so many whole cores that no other container has, and that are not reserved.
    """
    asked, had = chronicle.asks_now(name, after), before.place(name).granted or frozenset()
    others = joined(each.granted or frozenset() for other, each in before.places.items() if other != name)
    nodes = joined(chronicle.plan.nodes[number] for number in _touched(chronicle, had))
    there = nodes & after.online - others - after.reserved - chronicle.pinned(after, but=name)
    room = sum(len(core) for core in chronicle.plan.cores if core <= there)
    return before.settings is not after.settings and asked.whole_cores and len(had) < asked.floor and room < asked.floor


def _goes_to_fewer_nodes(chronicle: Chronicle, before: Stage, after: Stage, name: str) -> bool:
    """Return whether it moved to fewer nodes because CPUs came back, now or while the sidecar was away: "containers on
    too many NUMA nodes moved together" (cpu-hotplug).
    """
    had, has = (each.place(name).granted or frozenset() for each in (before, after))
    since = after.at - 1.1 if before.is_watched else 0.0
    came = any(e.what == "came online" and since < e.at <= after.at for e in chronicle.said)
    is_bound = chronicle.asks_now(name, after).numa in ("single", "restricted")
    return came and is_bound and len(_touched(chronicle, has)) < len(_touched(chronicle, had))


def originals_stay(chronicle: Chronicle) -> Iterator[Finding]:
    """ "The original CPUs, as many as the floor, are chosen once, best packed, and never leave" (dynamic). But for
    those that went offline, or that a container is pinned to by hand, and for a container that may be moved. "CPUs that
    become reserved go at once" (upgrade-and-change-policy).
    """
    always: dict[str, CPUs] = {}
    lost: dict[str, int] = {}
    for before, after in chronicle.pairs():
        for name in set(always) - {each for each, place in after.places.items() if place.granted is not None}:
            always.pop(name)
        for name, place in after.places.items():
            asked = chronicle.asked(name, after)
            if place.granted is None or not asked.number or asked.may_move:
                continue
            if name not in always or name in after.renewed:
                always[name], lost[name] = place.granted, 0
                continue
            gone = (before.place(name).granted or frozenset()) - after.online
            gone |= (before.place(name).granted or frozenset()) & chronicle.pinned(after, but=name)
            gone |= (before.place(name).granted or frozenset()) & after.reserved
            lost[name] += len(gone & always[name])
            always[name] &= place.granted
            if (
                _gives_way(chronicle, before, after, name)
                or _cuts_the_pool(chronicle, before, after)
                or (asked.whole_cores and chronicle.hotplugs)
                or _is_made_whole(chronicle, before, after, name)
                or _goes_to_fewer_nodes(chronicle, before, after, name)
                or after.at in chronicle.reloads
                or not after.is_dynamic
            ):
                always[name] = place.granted
                continue
            if lost[name] == 0 and not gone and len(always[name]) < asked.floor:
                text = f"of what it always had, {listed(always[name])} is left, its floor is {asked.floor}"
                yield Finding("originals_stay", after.at, name, text)
                always[name] = place.granted


def static_sizes_stay(chronicle: Chronicle) -> Iterator[Finding]:
    """ "Under `static` a container keeps its CPUs until it ends" (dynamic). But for CPUs that went offline, or that a
    container is pinned to by hand: where a rule cannot be met beside what is left, it "is placed as a new request would
    be", and when CPUs come back it is mended (cpu-hotplug).
    """
    for before, after in chronicle.pairs():
        if before.is_dynamic or after.is_dynamic:
            continue
        for name, place in after.places.items():
            had = before.place(name).granted
            if had is None or place.granted is None or name in after.renewed:
                continue
            # Of two things at one instant the sidecar may hear the second one later.
            pinned = chronicle.pinned(after, but=name) | chronicle.pinned(before, but=name)
            gone = ((had - place.granted) & after.online) - after.reserved - pinned
            if not before.is_watched and len(had) > chronicle.asked(name, after).number:
                # The settings changed to `static` while the sidecar was away: it gives up what dynamic gave it.
                continue
            is_evicted = bool(had & pinned)
            # Under a strict reservation by whole cores the pool keeps one, which a pin may cut.
            by_rule = after.is_strict or _has_a_rule(chronicle.asked(name, after))
            # What it has to give up is replaced "by the rules of a new request" (upgrade-and-change-policy).
            by_rule |= _has_a_rule(chronicle.asks_now(name, after))
            is_new = by_rule and (is_evicted or not chronicle.is_quiet(after.at - 1.1, after.at))
            # "They do not fit, too, if they would leave too little in the shared pool" (upgrade-and-change-policy).
            is_new |= _cuts_the_pool(chronicle, before, after)
            if gone and had <= chronicle.stayed_online(before, after) and not is_new:
                yield Finding("static_sizes_stay", after.at, name, f"lost {listed(gone)}")


PROMISES = (
    sizes_are_in_range,
    invalid_demands_are_granted_nothing,
    cores_are_whole,
    cores_have_no_stranger,
    single_is_one_node,
    growth_stays_on_its_nodes,
    originals_stay,
    static_sizes_stay,
)
