"""Numbers, names and long texts in sentences: singular or plural, and cut to a readable length. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from state.cpuset import CPUSet


def cpus(count: float) -> str:
    """Return `1 CPU`, `2 CPUs` or `0.5 CPUs`."""
    return counted(count, "CPU")


def exclusive_cpus(count: int) -> str:
    """Return `1 exclusive CPU`, or `2 exclusive CPUs`."""
    return counted(count, "exclusive CPU")


def named(cpus: CPUSet) -> str:
    """Return `CPU 3`, or `CPUs 3-4`."""
    return f"CPU {cpus}" if len(cpus) == 1 else f"CPUs {cpus}"


def counted(count: float, what: str) -> str:
    """Return `1 core`, or `2 cores`."""
    number = str(int(count)) if count == int(count) else f"{count:g}"
    return f"{number} {what}" if count == 1 else f"{number} {what}s"


def agree(count: float, one: str, several: str) -> str:
    """Return the word that agrees with a count: `agree(1, "is", "are")` is `is`."""
    return one if count == 1 else several


def ordinal(number: int) -> str:
    """Return `1st`, `2nd`, `3rd`, `4th`; `11th`, `21st`."""
    teens = 11 <= number % 100 <= 13
    return f"{number}{'th' if teens else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"


def some(names: Sequence[str], *, of: int) -> str:
    """Return `a, b`; or `a, b and 7 more` if there are more than `names`."""
    shown = ", ".join(names)
    return shown if of <= len(names) else f"{shown} and {of - len(names)} more"


def cut(text: str, width: int) -> str:
    """Return the text; or its beginning and three dots, at most `width` characters."""
    return text if len(text) <= width else text[: max(0, width - 3)] + "..."
