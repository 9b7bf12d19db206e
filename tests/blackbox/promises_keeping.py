"""Promises about time: notice before CPUs go, grants that are held, and lines that say what is so."""

from __future__ import annotations

from collections.abc import Iterator

from tests.blackbox.asked import CPUs, joined, seconds
from tests.blackbox.chronicle import Chronicle, Said, Stage
from tests.blackbox.finding import AFTERMATH, ORDERS, Finding, listed

Held = tuple[str, int]
"""A container, and a CPU."""

ENDS = ("started", "stopped", "removed")
"""Lines after which a container runs anew, or not at all."""


_ENDS = ("take finished", "take called off", "take broken off")
"""How the end of a take is told."""


def notice_is_given(chronicle: Chronicle) -> Iterator[Finding]:
    """`cpuset.grace` is "the time between `leaving` in its projection and the moment at which they are gone. An
    acknowledgement shortens it" (labels); "No CPU changes hands before the take was acknowledged or its grace was over"
    (dynamic). But for CPUs that go offline, and for a grant that ends since there is no replacement. "An order that the
    engine had accepted before it held the start, such as one after CPUs went offline or were exchanged, is carried out
    right after the start" (start-strictly).
    """
    had_since: dict[Held, float] = {}
    leaving_since: dict[Held, float] = {}
    told: list[Said] = []
    for before, after in chronicle.pairs():
        told += [each for each in after.said if each.what == "acknowledges" or each.what.startswith("take forced")]
        for each in after.said:
            if each.what == "take started":
                leaving_since |= {(each.container, cpu): each.at for cpu in each.cpus} | leaving_since
        ended = {each.container for each in after.said if each.what in ENDS}
        is_dynamic = before.is_dynamic and after.is_dynamic
        for name in before.running & after.running - ended:
            short = set()
            for cpu in (before.place(name).own - after.place(name).cpus) & after.online:
                since = leaving_since.get((name, cpu), after.at)
                is_over = is_dynamic and after.at - since >= chronicle.asked(name, after).grace - 1e-6
                is_told = any(each.container == name and each.at >= since and cpu in each.cpus for each in told)
                # What was ordered at the end of a take happens, also if a growth comes before the kernel.
                is_told |= any(e.container == name and after.at - e.at < ORDERS and cpu in e.cpus for e in told)
                is_new = after.at - had_since.get((name, cpu), after.at) <= ORDERS
                short |= set() if is_over or is_told or is_new else {cpu}
            may_end = after.place(name).granted is None or not is_dynamic
            # "CPUs that become reserved go at once"; people may release them (commands).
            short -= set(after.reserved)
            is_excused = may_end and _is_released(chronicle, name, after.at)
            is_excused |= may_end and not chronicle.is_quiet(after.at - AFTERMATH, after.at)
            is_excused |= not is_dynamic and bool((before.place(name).own) & chronicle.pinned(after, but=name))
            if short and not is_excused:
                text = f"{listed(frozenset(short))} gone before its notice was over"
                yield Finding("notice_is_given", after.at, name, text)
        had_since = _in_force(chronicle, after, had_since, ended)
        leaving_since |= {
            (name, cpu): leaving_since.get((name, cpu), after.at)
            for name, place in after.places.items()
            for cpu in place.leaving
        }
        for name, cpu in list(leaving_since):
            is_kept = cpu in (after.place(name).granted or ())
            ends = [e for e in after.said if e.what in _ENDS and e.container == name]
            if is_kept or any(cpu in e.cpus for e in ends):
                del leaving_since[name, cpu]


def _is_released(chronicle: Chronicle, name: str, at: float, seconds: float = ORDERS) -> bool:
    """Return whether people have just ordered to release its CPUs."""
    return any(
        each.what == "release" and each.container == name and 0 <= at - each.at < seconds for each in chronicle.said
    )


def _in_force(chronicle: Chronicle, stage: Stage, had_since: dict[Held, float], ended: set[str]) -> dict[Held, float]:
    """Return since when each CPU has been its container's own, in a container that ran on nothing else. With the
    runtime `cpuset` they are "from the first instruction" (start-strictly): no order is under way then.
    """
    found = {}
    for name in stage.running:
        place = stage.place(name)
        for cpu in place.own if place.own == place.cpus else ():
            known = None if name in ended else had_since.get((name, cpu))
            # An order that waits for the start.
            is_calm = chronicle.is_quiet(stage.at - AFTERMATH, stage.at)
            is_calm &= not _is_exchanged_before_its_start(chronicle, name, stage.at)
            is_calm &= not _is_released(chronicle, name, stage.at, seconds=1.0)
            is_strict = name in ended and is_calm and chronicle.asked(name, stage).is_strict
            found[name, cpu] = (stage.at - 2 * ORDERS if is_strict else stage.at) if known is None else known
    return found


def _is_exchanged_before_its_start(chronicle: Chronicle, name: str, at: float) -> bool:
    """Return whether its CPUs were exchanged between people's order to start it and the start, at this time: in one
    line, or by one loss and one gain of the same instant.
    """
    starts = [each for each in chronicle.scenario["event"] if each["do"] in ("run", "start")]
    ordered = max((each["at"] for each in starts if each["container"] == name and each["at"] <= at), default=at)
    said = [each for each in chronicle.said if each.container == name and ordered <= each.at <= at]
    lost, gained = ({each.at for each in said if each.what == what} for what in ("shrank", "grew"))
    return any(each.what == "exchanged" for each in said) or bool(lost & gained)


def notice_is_as_long_as_promised(chronicle: Chronicle) -> Iterator[Finding]:
    """`cpuset.grace`, or the key `grace`: "notice before CPUs are taken from it" (labels). "A container that does not
    run cannot be notified" (dynamic).
    """
    for each in chronicle.said:
        stage = chronicle.stage_at(each.at)
        if each.what != "take started" or each.container not in stage.running:
            continue
        asked = chronicle.asked(each.container, stage)
        if (each.seconds or 0.0) < asked.grace - 1e-6:
            yield Finding("notice_is_as_long_as_promised", each.at, each.container, f"{each.seconds} s")


def grants_are_held_while_it_runs(chronicle: Chronicle) -> Iterator[Finding]:
    """ "CPUs are held while the container runs" (labels); "No container loses CPUs because the daemon was down"
    (recover). But where a CPU went offline, and a grant has to end.
    """
    for before, after in chronicle.pairs():
        for name in before.running & after.running:
            ended = before.place(name).granted is not None and after.place(name).granted is None
            is_restarted = any(each.container == name and each.what in ENDS for each in after.said)
            # A decision after a hotplug may wait for the end of a notice, or for the sidecar's start.
            since = min(after.at - AFTERMATH, _last_crash(chronicle, after.at))
            is_restarted |= _is_released(chronicle, name, after.at)
            # A start at the end of `linger` is not seen at once.
            is_restarted |= any(
                e.container == name and e.what == "started" and 0 <= after.at - e.at < ORDERS for e in chronicle.said
            )
            if ended and not is_restarted and chronicle.is_quiet(since, after.at):
                yield Finding(
                    "grants_are_held_while_it_runs", after.at, name, listed(before.place(name).granted or frozenset())
                )


def _last_crash(chronicle: Chronicle, at: float) -> float:
    return max(
        (each.at for each in chronicle.said if each.what == "the sidecar is killed" and each.at <= at), default=at
    )


def grants_linger(chronicle: Chronicle) -> Iterator[Finding]:
    """CPUs are held "for `linger` after it stopped ... A `created` container that is not started holds them for
    `linger`, and for 10 s at least" (labels). A run that is shorter than orders take is not seen, and counts for
    nothing.
    """
    least: dict[str, float] = {}
    idle_since: dict[str, float] = {}
    began: dict[str, float] = {}
    ran: dict[str, bool] = {}
    for before, after in chronicle.pairs():
        for each in after.said:
            if each.what in ("created", "stopped"):
                ran[each.container] = each.what == "stopped"
            if each.what == "started":
                began[each.container] = each.at
            is_short = (
                each.container in idle_since
                and each.what == "stopped"
                and each.at - began.get(each.container, -9.0) < ORDERS
            )
            if each.what in ("created", "stopped", "granted"):
                idle_since[each.container] = idle_since[each.container] if is_short else each.at
                linger = seconds(after.settings.get("linger", "10s"))
                least[each.container] = linger if ran.get(each.container) else max(linger, 10.0)
        for name, place in before.places.items():
            is_over = place.granted is not None and after.place(name).granted is None
            is_calm = chronicle.is_quiet(after.at - AFTERMATH, after.at)
            is_gone = (
                _is_released(chronicle, name, after.at)
                or name not in after.there
                or any(e.what == "removed" and e.container == name for e in after.said)
            )
            if not is_over or name in after.running | before.running or is_gone:
                continue
            if after.at < idle_since.get(name, -99.0) + least.get(name, 0.0) - 1e-6 and is_calm:
                yield Finding(
                    "grants_linger", after.at, name, f"its grant ended, {least.get(name, 0.0):g} s are promised"
                )


def lines_tell_the_grants(chronicle: Chronicle) -> Iterator[Finding]:
    """ "`granted`, `released`: a container got or lost these exclusive CPUs"; "`moved`: ... from which CPUs to which";
    "`grew`, `shrank`, `exchanged`: ... which CPUs" (files, log lines). Whoever adds them up knows the grants.
    """
    known: dict[str, CPUs] = {}
    namesakes: set[str] = set()
    for stage in chronicle.stages:
        namesakes |= {each.container for each in stage.said if each.what == "removed"}
        notes = " ".join(each.why for each in stage.said if not each.container)
        for each in stage.said:
            _add(known, each)
        for name in set(known) | set(stage.places):
            granted = stage.place(name).granted or frozenset()
            is_noted = f"{name} " in notes or any(e.what == "exchanged" and e.container == name for e in stage.said)
            # The lines of a container and of its namesake before cannot be told from each other.
            is_noted |= name in namesakes
            if known.get(name, frozenset()) != granted and not is_noted and name in stage.there:
                told = listed(known.get(name, frozenset()))
                text = f"by the lines it has {told or 'none'}, and it has {listed(granted) or 'none'}"
                yield Finding("lines_tell_the_grants", stage.at, name, text)
            known[name] = granted
        namesakes -= {each.container for each in stage.said if each.what == "released"}


def _add(known: dict[str, CPUs], line: Said) -> None:
    name, had = line.container, known.get(line.container, frozenset())
    if line.what in ("granted", "moved"):
        known[name] = line.cpus
    elif line.what in ("released", "removed"):
        known[name] = frozenset()
    elif line.what == "grew":
        known[name] = had | line.cpus
    elif line.what == "shrank":
        known[name] = had - line.cpus


def lines_tell_the_places(chronicle: Chronicle) -> Iterator[Finding]:
    """ "`in place`: it runs on exactly its grant, and alone"; "`started`, `runs on`: on these CPUs now" (scenarios)."""
    for stage in chronicle.stages:
        words = ("in place", "started", "runs on", *ENDS)
        last = {each.container: each for each in stage.said if each.at == stage.at and each.what in words}
        for name, line in last.items():
            place = stage.place(name)
            if line.what in ("in place", "started", "runs on") and name in stage.running and line.cpus != place.cpus:
                yield Finding(
                    "lines_tell_the_places",
                    line.at,
                    name,
                    f"{line.what} {listed(line.cpus)}, runs on {listed(place.cpus)}",
                )
            if line.what == "in place" and place.granted != line.cpus:
                yield Finding(
                    "lines_tell_the_places",
                    line.at,
                    name,
                    f"in place on {listed(line.cpus)}, and that is not its grant",
                )


def a_take_is_needed(chronicle: Chronicle) -> Iterator[Finding]:
    """ "If R is no longer needed before step 4, it stays: a growth cancels the take" (dynamic): what left with notice
    does not come back at once. But for what a container that may be replaced had: "after the removal its CPUs are kept
    for `linger`" (labels).
    """
    ends = [each for each in chronicle.said if each.what in _ENDS]
    for each in chronicle.said:
        if each.what == "grew":
            # Of one decision, the growth is said before the end of the take.
            lately = [e for e in ends if e.container == each.container and 0 <= each.at - e.at < 0.1]
            # A take that is cancelled ends before its CPUs are left.
            runs_on = chronicle.stage_at(each.at).place(each.container).cpus
            back = each.cpus & joined(e.cpus for e in lately) - runs_on
            # Other containers may have changed their minds meanwhile, and so may people about this one.
            others = [
                e
                for e in chronicle.said
                if each.at - 0.2 <= e.at <= each.at and (e.container != each.container or e.what == "resize")
            ]
            if back and not others and not _was_kept(chronicle, back, each.at):
                yield Finding(
                    "a_take_is_needed", each.at, each.container, f"{listed(back)} left, and came back at once"
                )


def _was_kept(chronicle: Chronicle, cpus: CPUs, at: float) -> bool:
    """Return whether these CPUs were kept until then for what replaces a container that was removed."""
    linger = seconds(chronicle.stage_at(at).settings.get("linger", "10s"))
    released = [e for e in chronicle.said if e.what == "released" and cpus <= e.cpus]
    lately = [e.container for e in released if abs(at - e.at - linger) < ORDERS]
    return any(chronicle.asks_now(name, chronicle.stage_at(at)).role for name in lately)


def nothing_breaks(chronicle: Chronicle) -> Iterator[Finding]:
    """ "`BROKEN`: a law of the recorded state does not hold: a bug in this program" (scenarios)."""
    for each in chronicle.said:
        if each.what == "BROKEN":
            yield Finding("nothing_breaks", each.at, each.container, each.why)
    if chronicle.code:
        yield Finding("nothing_breaks", 0.0, "", f"code {chronicle.code}: {chronicle.complaint}")


PROMISES = (
    notice_is_given,
    notice_is_as_long_as_promised,
    grants_are_held_while_it_runs,
    grants_linger,
    lines_tell_the_grants,
    lines_tell_the_places,
    a_take_is_needed,
    nothing_breaks,
)
