"""Numbers, names and long texts in sentences: one CPU or several, and no more than can be read. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from state.cpuset import CPUSet


def cpus(count: int) -> str:
    """`1 CPU`, `2 CPUs`."""
    return counted(count, "CPU")


def exclusive_cpus(count: int) -> str:
    """`1 exclusive CPU`, `2 exclusive CPUs`."""
    return counted(count, "exclusive CPU")


def named(cpus: CPUSet) -> str:
    """`CPU 3`, `CPUs 3-4`."""
    return f"CPU {cpus}" if len(cpus) == 1 else f"CPUs {cpus}"


def counted(count: int, what: str) -> str:
    """`1 core`, `2 cores`."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def some(names: Sequence[str], *, of: int) -> str:
    """`a, b`, or `a, b and 7 more` where there are more than are named."""
    shown = ", ".join(names)
    return shown if of <= len(names) else f"{shown} and {of - len(names)} more"


def cut(text: str, width: int) -> str:
    """The text, or its beginning with three dots, in at most `width` characters."""
    return text if len(text) <= width else text[: max(0, width - 3)] + "..."
