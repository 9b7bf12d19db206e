"""Promises about settings: what is reserved and isolated, what a reload leaves alone, and rules in place of labels."""

from __future__ import annotations

from collections.abc import Iterator

from tests.blackbox.asked import CPUs, joined
from tests.blackbox.chronicle import Chronicle, Stage
from tests.blackbox.finding import AFTERMATH, LONGEST_NOTICE, ORDERS, Finding, lasting, listed
from tests.blackbox.plain_values import numbers


def what_is_configured_is_reserved(chronicle: Chronicle) -> Iterator[Finding]:
    """A list "keeps its remaining CPUs" when some go offline; a count "is taken from the remaining CPUs" (cpu-hotplug).
    "The reservation is applied first", when the settings change (upgrade-and-change-policy).
    """
    for stage in chronicle.stages:
        text = stage.settings["reserved"]
        if not stage.is_watched or stage.until - stage.at <= 1.1:
            continue
        if text.startswith("count:"):
            is_right = len(stage.reserved) == min(int(text[6:]), len(stage.online))
        else:
            is_right = stage.reserved & stage.online == numbers(text) & stage.online
        if not is_right:
            text = f"{listed(stage.reserved)} is reserved instead of {text}"
            yield Finding("what_is_configured_is_reserved", stage.at, "", text)


def what_is_reserved_is_left_at_once(chronicle: Chronicle) -> Iterator[Finding]:
    """ "CPUs that become reserved go at once" (upgrade-and-change-policy), and so do those that stand in for others
    (cpu-hotplug): also if a container was given notice of them. Else one that waits on reserved CPUs shares them.
    """

    def seen(stage: Stage) -> dict[tuple[str, ...], CPUs]:
        running = {name: stage.place(name) for name in stage.running if not chronicle.is_locked(name, stage)}
        left = {(name,): place.cpus & place.leaving & stage.reserved for name, place in running.items()}
        return {names: cpus for names, cpus in left.items() if cpus and stage.is_watched}

    for each in lasting(chronicle, seen, ORDERS):
        text = f"stays on {listed(each.cpus)}, reserved, for {each.seconds:g} s"
        yield Finding("what_is_reserved_is_left_at_once", each.began, each.names[0], text)


def isolated_cpus_are_not_shared(chronicle: Chronicle) -> Iterator[Finding]:
    """With `prefer` and with `only`, "the shared pool never has them" (configuration)."""

    def seen(stage: Stage) -> dict[tuple[str, ...], CPUs]:
        found: dict[tuple[str, ...], CPUs] = {}
        for name in stage.running:
            asked, place = chronicle.asked(name, stage), stage.place(name)
            is_ours = asked.is_managed and not asked.pin and not asked.is_in_doubt and place.granted is None
            is_ours &= not chronicle.is_locked(name, stage)
            if is_ours and (both := place.cpus & chronicle.kept_isolated(stage) - stage.reserved - place.leaving):
                found[(name,)] = both
        return found

    for each in lasting(chronicle, seen, ORDERS):
        text = f"shares {listed(each.cpus)}, isolated, for {each.seconds:g} s"
        yield Finding("isolated_cpus_are_not_shared", each.began, each.names[0], text)


def only_isolated_cpus_are_granted(chronicle: Chronicle) -> Iterator[Finding]:
    """ "With `only` no others are granted" (configuration). What was granted before is kept."""
    for before, after in chronicle.pairs():
        if after.settings.get("isolated") != "only" or before.settings.get("isolated") != "only":
            continue
        for name, place in after.places.items():
            gained = (place.granted or frozenset()) - (before.place(name).granted or frozenset())
            if wrong := gained - chronicle.isolated:
                yield Finding("only_isolated_cpus_are_granted", after.at, name, f"gained {listed(wrong)}")


def isolated_cpus_are_granted_first(chronicle: Chronicle) -> Iterator[Finding]:
    """ "With `isolated = prefer` these CPUs are granted first" (configuration): none of the others to a new request
    that the free ones of them can serve. Where no other rule stands against it.
    """
    for before, after in chronicle.pairs():
        if after.settings.get("isolated") != "prefer" or not chronicle.is_quiet(after.at - AFTERMATH, after.at):
            continue
        granted = [each for each in after.said if each.what == "granted"]
        # Of several that are granted at once, the others come first; and those that have to leave what is pinned.
        pinned = chronicle.pinned(after)
        leaving = [each for name, each in after.places.items() if (before.place(name).granted or frozenset()) & pinned]
        taken = before.granted | after.reserved | pinned | joined(each.granted or frozenset() for each in leaving)
        for line in granted if len(granted) == 1 and after.is_watched else ():
            asked = chronicle.asked(line.container, after)
            free = chronicle.isolated & after.online - taken
            is_plain = asked.is_plain and asked.numa == "none" and not asked.pin and not asked.role
            if (
                is_plain
                and len(line.cpus) <= len(free)
                and line.cpus - chronicle.isolated
                and not _had(chronicle, line.at, line.container)
            ):
                text = f"granted {listed(line.cpus)}, and {listed(free)} are isolated and free"
                yield Finding("isolated_cpus_are_granted_first", line.at, line.container, text)


def _had(chronicle: Chronicle, at: float, name: str) -> bool:
    """Return whether an earlier container of the same name left CPUs, which it gets "if they are still free"."""
    return any(each.container == name and each.what == "removed" and each.at <= at for each in chronicle.said)


def a_reload_leaves_what_it_may(chronicle: Chronicle) -> Iterator[Finding]:
    """ "Grants keep the CPUs that they may keep"; "No container is moved because another place would be better"
    (upgrade-and-change-policy). It loses no more than what is reserved now, or what it has above what it asks for. Not
    judged where whole cores or a strict reservation may cost it more, or a NUMA rule because its nodes have too few for
    what it has to give up; nor where grants have to end, since "they would leave too little in the shared pool": they
    may be granted other CPUs at once.
    """
    for before, after in chronicle.pairs():
        if before.settings is after.settings or not chronicle.is_quiet(after.at - AFTERMATH, after.at - 1e-6):
            continue
        for name, place in after.places.items():
            had, asked = before.place(name).granted, chronicle.asked(name, after)
            asks_now = chronicle.asks_now(name, after)
            whole_cores = asked.whole_cores or asks_now.whole_cores
            if had is None or place.granted is None or name in after.renewed or whole_cores or asked.pin:
                continue
            stays = chronicle.stayed_online(before, after)
            if after.is_strict or not had <= stays:
                continue
            if _have_to_end_for_the_pool(chronicle, before, after):
                continue
            # Two reloads at once are two changes: what the first one took does not come back.
            if sum(e["do"] == "reload" and e["at"] == after.at for e in chronicle.scenario["event"]) > 1:
                continue
            # What is pinned by hand without the right to stay there takes no CPU that is granted.
            strangers = [each for each in after.there if each != name and chronicle.is_stranger(each, after)]
            may_keep = had - after.reserved - joined(chronicle.asked(each, after).pin for each in strangers)
            least = asked.floor if after.is_dynamic else asked.number
            # "A CPU that a grant has to give up is replaced, by the rules of a new request": all of it, where its nodes
            # have too few. No NUMA rule that comes moves any other: "CPUs stay where they lie" (0072).
            is_by_nodes = bool({asked.numa, asks_now.numa} & {"single", "restricted"})
            if is_by_nodes and len(may_keep) < least and len(may_keep | _beside(chronicle, before, after, had)) < least:
                continue
            if len(place.granted & may_keep) < min(least, len(may_keep)):
                text = f"had {listed(had)}, could keep {listed(may_keep)}, and has {listed(place.granted)}"
                yield Finding("a_reload_leaves_what_it_may", after.at, name, text)


def _beside(chronicle: Chronicle, before: Stage, after: Stage, had: CPUs) -> CPUs:
    """Return what could replace CPUs of a grant on its own nodes."""
    nodes = joined(node for node in chronicle.plan.nodes if node & had)
    return nodes & after.online - after.reserved - before.granted - after.granted - chronicle.pinned(after)


def _have_to_end_for_the_pool(chronicle: Chronicle, before: Stage, after: Stage) -> bool:
    """Return whether `shared_min` of now could not be met if all grants stayed, each with no more than its floor. An
    isolated CPU that is given up is none for the pool.
    """
    isolated = chronicle.kept_isolated(after)
    left = len(after.online - before.granted - isolated)
    for name, place in before.places.items():
        asked, granted = chronicle.asked(name, after), place.granted or frozenset()
        least = asked.floor if after.is_dynamic else asked.number
        left += max(0, min(len(granted) - least, len(granted - isolated)))
    return left < max(1, int(after.settings.get("shared_min", 0)))


def a_rule_ends_what_it_asked_for(chronicle: Chronicle) -> Iterator[Finding]:
    """ "Rules change on SIGHUP: ... one that no longer asks loses them" (configuration)."""

    def seen(stage: Stage) -> dict[tuple[str, ...], CPUs]:
        return {
            (name,): place.granted
            for name, place in stage.places.items()
            if place.granted and not chronicle.has_request(name, stage)
        }

    for each in lasting(chronicle, seen, LONGEST_NOTICE):
        text = f"has {listed(each.cpus)} for {each.seconds:g} s, and asks for nothing any more"
        yield Finding("a_rule_ends_what_it_asked_for", each.began, each.names[0], text)


def never_is_never(chronicle: Chronicle) -> Iterator[Finding]:
    """ "A request for more than the machine could ever grant" is refused for good, with the most that it can; "if only
    CPUs are missing that are offline now", it says so and waits for them (labels). Told of requests without rules of
    their own, under the settings in force when it was said: a reload at the end of a stage comes after it.
    """
    for stage in chronicle.stages:
        for place, line in enumerate(stage.said):
            if line.what != "refused" or "this machine can give" not in line.why:
                continue
            if "offline" in line.why and "and too few with" not in line.why:
                continue
            if any(later.what == "reload" for later in stage.said[place:]):
                continue
            asked = chronicle.asks_now(line.container, stage)
            if not asked.is_plain or asked.numa != "none" or stage.settings.get("isolated", "ignore") != "ignore":
                continue
            least = asked.floor if stage.is_dynamic else asked.number
            if 0 < least <= (most := _most_of_the_machine(chronicle, stage)):
                text = f"is refused for good, and the machine could give {most} with all of its CPUs"
                yield Finding("never_is_never", stage.at, line.container, text)


def _most_of_the_machine(chronicle: Chronicle, stage: Stage) -> int:
    """Return how many CPUs could be exclusive if all of the machine were online, and none were granted. At least one
    CPU stays shared beside a strict reservation, "with `full-pcpus-only`, one whole core" (configuration).
    """
    text, present = stage.settings["reserved"], chronicle.plan.all
    reserved = int(text[6:]) if text.startswith("count:") else max(1, len(numbers(text) & present))
    kept = max(1, int(stage.settings.get("shared_min", 0)))
    if stage.is_strict and "full-pcpus-only" in stage.settings.get("options", ()):
        kept = max(kept, len(chronicle.plan.cores[0]))
    return len(present) - (reserved + kept if stage.is_strict else max(reserved, kept))


PROMISES = (
    what_is_configured_is_reserved,
    what_is_reserved_is_left_at_once,
    isolated_cpus_are_not_shared,
    only_isolated_cpus_are_granted,
    isolated_cpus_are_granted_first,
    a_reload_leaves_what_it_may,
    a_rule_ends_what_it_asked_for,
    never_is_never,
)
