"""Promises about starts and ends: strict starts, misspelt labels, releases by hand, and redeploys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.blackbox.asked import CPUs, joined, seconds
from tests.blackbox.chronicle import Chronicle, Place, Said, Stage
from tests.blackbox.finding import AFTERMATH, ORDERS, Finding, listed
from tests.blackbox.promises_rest import fits

HELD = 30.0
"""Seconds: "the start waits until the granted CPUs are free of other containers, up to 30 s" (start-strictly)."""

STARTS = 0.2
"""Seconds that a start takes here."""


STARTED = ("started", "could not start")
"""How a start ends."""

RACE = 0.02
"""Seconds: "it runs on other CPUs for about 20 ms" (README), if it is created and started in one go."""


def strict_ones_start_on_their_own(chronicle: Chronicle) -> Iterator[Finding]:
    """Under the runtime `cpuset`: "on its CPUs from the first instruction: always"; "not enough CPUs: does not start"
    (start-strictly). A stage begins with the start: what runs there then, ran there at the first instruction.
    """
    for stage in chronicle.stages:
        for line in stage.said:
            asked, place = (
                chronicle.asked(line.container, stage) if line.container else None,
                stage.place(line.container),
            )
            if line.what != "started" or asked is None or not asked.is_strict or line.at != stage.at:
                continue
            if not asked.number and not chronicle.has_request(asked.name, stage):
                continue
            if chronicle.is_released_meanwhile(line):
                continue
            others = {
                name: both
                for name in stage.running - {line.container}
                if _is_moved(chronicle, name, stage)
                and not _wins_the_race(chronicle, name, line.at)
                and (both := stage.place(name).cpus & line.cpus - stage.reserved)
            }
            # Of one whose last CPU went offline the kernel decides, until the sidecar's next look.
            if others and chronicle.is_quiet(line.at - 1.1, line.at):
                name, both = min(others.items(), key=lambda each: each[0])
                text = f"starts on {listed(line.cpus)}, and {name} runs on {listed(both)}"
                yield Finding("strict_ones_start_on_their_own", line.at, line.container, text)
            elif (
                not others and chronicle.is_quiet(line.at - 1.1, line.at) and _is_off_its_grant(chronicle, line, place)
            ):
                text = f"starts on {listed(line.cpus)}, its grant is {listed(place.granted or frozenset()) or 'none'}"
                yield Finding("strict_ones_start_on_their_own", line.at, line.container, text)


def _wins_the_race(chronicle: Chronicle, name: str, at: float) -> bool:
    """Return whether a container by events has just been created and started in one go: "a client that starts the
    container immediately wins that race, and the container runs on other CPUs for about 20 ms" (README).
    """
    if chronicle.asked(name, chronicle.stage_at(at)).is_strict:
        return False
    heard = [e for e in chronicle.said if e.container == name and e.at <= at and e.what in ("created", "started")]
    if [e.what for e in heard[-2:]] != ["created", "started"]:
        return False
    created, started = heard[-2:]
    return started.at - created.at <= STARTS + RACE and at - started.at <= RACE


def _is_off_its_grant(chronicle: Chronicle, line: Said, place: Place) -> bool:
    """Return whether it starts elsewhere than granted. While it starts, people may release its CPUs."""
    is_released = any(
        each.what == "release" and each.container == line.container and 0 <= line.at - each.at <= STARTS
        for each in chronicle.said
    )
    # So may containers be created that are pinned by hand, and the sidecar hears of one a little later.
    stage = chronicle.stage_at(line.at)
    new = {e.container for e in chronicle.said if e.what == "created" and 0 <= line.at - e.at <= STARTS + RACE}
    is_released |= any(chronicle.is_stranger(name, stage) for name in new - {line.container})
    return not is_released and (place.granted is None or not line.cpus <= place.granted | place.leaving)


def _is_moved(chronicle: Chronicle, name: str, stage: Stage) -> bool:
    asked = chronicle.asked(name, stage)
    return asked.is_managed and not asked.pin and not asked.is_in_doubt and not chronicle.is_locked(name, stage)


def strict_ones_share_nothing_of_others(chronicle: Chronicle) -> Iterator[Finding]:
    """ "A container without the label: in the shared pool from the first instruction" (start-strictly)."""
    for stage in chronicle.stages:
        for line in stage.said:
            if line.what != "started" or line.at != stage.at or not stage.is_watched:
                continue
            asked = chronicle.asked(line.container, stage)
            if not asked.is_strict or asked.number or not asked.is_managed or asked.pin or asked.is_in_doubt:
                continue
            # One that was granted CPUs meanwhile is not alone there yet.
            new = {
                e.container for e in chronicle.said if e.what == "granted" and 0 <= line.at - e.at <= STARTS + ORDERS
            }
            own = joined(stage.place(name).own for name in stage.running - {line.container} - new)
            foreign = line.cpus & own - stage.reserved
            if foreign and not any(
                each.what == "the sidecar starts" and line.at - each.at < 1 for each in chronicle.said
            ):
                text = f"starts on {listed(line.cpus)}, and others run on {listed(foreign)} of their own"
                yield Finding("strict_ones_share_nothing_of_others", line.at, line.container, text)


def misspelt_labels_are_noticed(chronicle: Chronicle) -> Iterator[Finding]:
    """ "An unknown `cpuset.*` label is a warning with the nearest right word, and so is a name that is like one of
    them" (labels); "a misspelt *name* keeps the container from starting: the reason names the label that was probably
    meant" (start-strictly).
    """
    for line in chronicle.said:
        if line.what != "started":
            continue
        asked = chronicle.asked(line.container, chronicle.stage_at(line.at))
        if not asked.misspelt or not asked.is_managed:
            continue
        if asked.is_strict:
            text = f"it started, in spite of {asked.misspelt[0]}"
            yield Finding("misspelt_labels_are_noticed", line.at, line.container, text)
        watched = [each for each in chronicle.stages if each.is_watched and each.at >= line.at - 1]
        warned = [each for each in chronicle.said if each.container == line.container]
        for name in (
            asked.misspelt if watched and chronicle.has_rested and line.container in chronicle.last.there else ()
        ):
            said = [
                each
                for each in warned
                if f"'{name}'" in each.what + each.why and "did you mean" in each.what + each.why
            ]
            if not said:
                yield Finding("misspelt_labels_are_noticed", line.at, line.container, f"no word of {name}")


def strict_starts_that_fit_happen(chronicle: Chronicle) -> Iterator[Finding]:
    """ "The start waits until the granted CPUs are free of other containers, up to 30 s; the sidecar moves the others
    off first" (start-strictly): where it fits all the time, it starts. What came free in the instant of the start may
    be told later.
    """
    for event in chronicle.scenario["event"]:
        if event["do"] not in ("start", "run"):
            continue
        name, at = event["container"], event["at"]
        during = [each for each in chronicle.stages if each.until > at and each.at <= at + HELD + 1]
        if not during or name not in during[-1].there or not all(each.is_watched for each in during):
            continue
        asked = chronicle.asks_now(name, during[0])
        others = [each for each in chronicle.scenario["event"] if each.get("container") == name]
        is_alone = not any(at - 1 <= each["at"] <= at + HELD + 1 for each in others if each is not event)
        if not asked.is_strict or not asked.number or not is_alone or name in during[0].running:
            continue
        is_calm = chronicle.is_quiet(at - AFTERMATH, at + HELD + 1) and chronicle.last.until > at + HELD + 1
        began = [
            e for e in chronicle.said if e.what == "started" and e.container == name and at <= e.at <= at + HELD + 1
        ]
        just_before = [each for each in chronicle.stages if each.at < at == each.until]
        if is_calm and not began and all(fits(chronicle, each, asked) for each in (*just_before, *during)):
            yield Finding("strict_starts_that_fit_happen", at, name, f"{asked.floor} are free, and it did not start")


def a_refused_start_has_a_reason(chronicle: Chronicle) -> Iterator[Finding]:
    """ "Does not start, and the client gets the reason" (start-strictly)."""
    for each in chronicle.said:
        if each.what == "could not start" and not each.why:
            yield Finding("a_refused_start_has_a_reason", each.at, each.container, "no reason")


def a_release_lasts_until_the_next_start(chronicle: Chronicle) -> Iterator[Finding]:
    """ "People released its CPUs with `cpuset-sidecar release NAME`; it asks again at its next start" (labels). "The
    engine's time stamp of a start tells whether it came after the order" (commands): so may one that was not over then.
    One that stops asking, by a rule that goes, and asks by another is not judged from then on. An order to a sidecar
    that is killed at that moment is lost.
    """
    kills = [each.at for each in chronicle.said if each.what == "the sidecar is killed"]
    for line in chronicle.said:
        if line.what != "release" or line.why or any(line.at <= at < line.at + ORDERS for at in kills):
            continue
        name = line.container
        ends = [each.at for each in chronicle.said if each.container == name and each.what in ("started", "removed")]
        ends += [stage.at for stage in chronicle.stages if not chronicle.has_request(name, stage)]
        again = [at for at in ends if at >= line.at]
        if chronicle.asked(name, chronicle.stage_at(line.at)).is_strict:
            # It asks before it starts, and others may have to leave its CPUs until then.
            over = [each.at for each in chronicle.said if each.container == name and each.what in STARTED]
            for at, turn in _starts_in_turn(chronicle, name, over):
                end = min((each for each in over if each > turn), default=line.at)
                again += [at] if turn >= line.at - ORDERS else [line.at] if end > line.at else []
        until = min(again, default=chronicle.last.until)
        for stage in chronicle.stages:
            granted = stage.place(name).granted
            if line.at < stage.at < until and granted is not None:
                text = f"has {listed(granted)}, and was not started since its release"
                yield Finding("a_release_lasts_until_the_next_start", stage.at, name, text)


def _starts_in_turn(chronicle: Chronicle, name: str, over: Sequence[float]) -> Iterator[tuple[float, float]]:
    """Yield when people ordered each start of a strict container, and when its turn comes at the latest: a start holds
    the container's lock for 0.2 s, or until one of the times `over` if no sidecar answers it before, and looks, updates
    and other orders wait for that lock (decision 0013).
    """
    verbs, free_at = ("run", "start", "stop"), 0.0
    events = [each for each in chronicle.scenario["event"] if each.get("container") == name and each["do"] in verbs]
    for each in sorted(events, key=lambda event: event["at"]):
        turn = max(each["at"], free_at)
        free_at = turn + STARTS
        if each["do"] != "stop":
            free_at = max(free_at, min((ended for ended in over if ended > turn), default=free_at))
            yield each["at"], turn


def successors_take_over(chronicle: Chronicle) -> Iterator[Finding]:
    """ "A container that replaces another one gets the same CPUs when that one is removed, except those to which a
    container was pinned by hand meanwhile. If the others are too few, it asks as any other container does" (labels).
    Judged where it has none by then, and both ask for the same. What has stopped holds its CPUs "for `linger`": of one
    that is removed at the very instant at which that is over, either may be decided first.
    """
    for before, after in chronicle.pairs():
        for line in after.said:
            if line.what != "removed" or not before.is_watched or not after.is_watched:
                continue
            old, had = chronicle.asks_now(line.container, before), before.place(line.container).granted
            for name in sorted(before.there & after.there):
                new = chronicle.asks_now(name, before)
                is_successor = bool(old.role) and new.role == old.role and name != line.container
                is_alike = is_successor and new.number == old.number > 0 and new.floor == old.floor
                # One that may be moved is moved to better ones at once.
                is_alike &= not new.may_move
                has_ended = any(e.what == "stopped" and e.container == name for e in chronicle.said if e.at <= line.at)
                if not is_alike or has_ended or had is None or before.place(name).granted is not None:
                    continue
                stops = [e.at for e in chronicle.said if e.what == "stopped" and e.container == line.container]
                if any(abs(line.at - at - seconds(before.settings.get("linger", "10s"))) < 1e-6 for at in stops):
                    continue
                left = had - chronicle.pinned(before)
                if left == had or len(left) >= new.floor:
                    yield from _taken_over(chronicle, line, name, left, new.floor)


def _taken_over(chronicle: Chronicle, gone: Said, name: str, had: CPUs, floor: int) -> Iterator[Finding]:
    soon = [each for each in chronicle.stages if each.until > gone.at + ORDERS and each.at <= gone.at + ORDERS]
    calm = chronicle.is_quiet(gone.at - AFTERMATH, gone.at + ORDERS) and all(each.is_watched for each in soon)
    events = [each for each in chronicle.scenario["event"] if abs(each["at"] - gone.at) <= ORDERS + STARTS]
    # What people release at once it has taken over, and has no more.
    others = [each for each in events if each.get("container") not in (gone.container, name) or each["do"] == "release"]
    created = [each.at for each in chronicle.said if each.what == "created" and each.container == name]
    before_it = [each.at for each in chronicle.said if each.what == "created" and each.container == gone.container]
    is_known = (
        bool(created) and gone.at - created[-1] > 0.01 and created[-1] > max(e for e in before_it if e <= gone.at)
    )
    for stage in soon[:1] if calm and not others and is_known else ():
        granted = stage.place(name).granted or frozenset()
        ended = [e for e in chronicle.said if e.what == "stopped" and gone.at <= e.at <= stage.at]
        if (
            name in stage.there
            and name not in {each.container for each in ended}
            and not chronicle.is_given_up(name, stage.at)
            and len(granted & had) < min(floor, len(had))
        ):
            text = f"has {listed(granted) or 'none'}, what it replaces had {listed(had)}"
            yield Finding("successors_take_over", gone.at, name, text)


def a_replacement_under_the_same_name(chronicle: Chronicle) -> Iterator[Finding]:
    """ "A container with only the same name (`docker rm`, then `docker run`) gets the same CPUs if they are still free,
    and no container is pinned to them by hand" (labels). Judged where nothing else happens meanwhile, under `static`.
    """
    left: dict[str, tuple[float, CPUs]] = {}
    for before, after in chronicle.pairs():
        for line in after.said:
            had = before.place(line.container).granted if line.container else None
            if line.what == "removed" and had and before.is_watched:
                left[line.container] = (line.at, had)
            elif line.what == "granted" and line.container in left:
                at, had = left.pop(line.container)
                asked = chronicle.asked(line.container, after)
                linger = seconds(after.settings.get("linger", "10s"))
                is_soon = not asked.role and line.at - at < linger and not after.is_dynamic and asked.number == len(had)
                others = [
                    e
                    for e in chronicle.scenario["event"]
                    if at <= e["at"] <= line.at and e.get("container") != line.container
                ]
                is_calm = chronicle.is_quiet(at - AFTERMATH, line.at) and all(
                    e.is_watched for e in chronicle.stages if at <= e.at <= line.at
                )
                taken = before.granted | joined(after.place(name).own for name in after.there - {line.container})
                is_free = not had & (taken | after.reserved | chronicle.pinned(after))
                if is_soon and not others and is_calm and is_free and line.cpus != had:
                    text = f"has {listed(line.cpus)}, the one before had {listed(had)}"
                    yield Finding("a_replacement_under_the_same_name", line.at, line.container, text)


PROMISES = (
    strict_ones_start_on_their_own,
    strict_ones_share_nothing_of_others,
    strict_starts_that_fit_happen,
    misspelt_labels_are_noticed,
    a_refused_start_has_a_reason,
    a_release_lasts_until_the_next_start,
    successors_take_over,
    a_replacement_under_the_same_name,
)
