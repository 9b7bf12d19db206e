"""What is said of fronts, and of starts that go around them (`starts_around`)."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sidecar.words.counts import agree, counted


def around_told(around: Mapping[str, int] | None, passing: Collection[tuple[str, str]] = ()) -> str:
    """Return which runtimes started containers around the front, as a clause, and which fronts pass everything on; ""
    where there is none.
    """
    return "; ".join(each for each in (_starts_told(around), _passing_told(passing)) if each)


def _passing_told(passing: Collection[tuple[str, str]]) -> str:
    if not passing:
        return ""
    named = ", ".join(f"{name} ({engine})" for engine, name in sorted(passing))
    count = len(passing)
    fronts, were = agree(count, "front", "fronts"), agree(count, "was", "were")
    return f"the {fronts} {named} {were} removed, and {agree(count, 'passes', 'each passes')} everything on"


def _starts_told(around: Mapping[str, int] | None) -> str:
    if around is None:
        return ""
    if not around:
        return "the engine's own runtime stands behind a front: every start seen since came through it"
    told = ", ".join(f"{count} by {name}" for name, count in around.items())
    total = sum(around.values())
    were, births = agree(total, "was", "were"), agree(total, "a birth", "births")
    return f"{counted(total, 'start')} went around the front, and {were} seen as {births} alone: {told}"


def fronts_told(fronts: Mapping[str, bool]) -> str:
    """Return which front asks before the starts of which runtime, as a clause: the compiled one, or that in Python."""
    kinds = {
        "the compiled front": [name for name, is_compiled in fronts.items() if is_compiled],
        "the front in Python": [name for name, is_compiled in fronts.items() if not is_compiled],
    }
    return "; ".join(f"{kind} stands before {', '.join(names)}" for kind, names in kinds.items() if names)


def cure_of(around: Mapping[str, int]) -> str:
    """Return what to do about them."""
    names = " ".join(f"--wrap {name}" for name in around if name != "runc")
    wrap = f"cpuset-sidecar install-runtime {names}, " if names else ""
    return f"{wrap}and recreate containers that were created before" if wrap else "recreate these containers"
