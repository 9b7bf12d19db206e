"""The workloads' output as sentences on one time line: pure functions, and Words, which reads and remembers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Protocol

from compose.demo.evidence import Line, cpus_of
from compose.demo.takes import owned

_OBVIOUS = re.compile(r"^(?:in the shared pool: |(?:gained [\d,-]+)?(?: and )?(?:gave up [\d,-]+)?: )")
HOLD_BACK_NS = 150_000_000  # the logs are read one after the other: an older line may still follow a younger one


class Project(Protocol):
    """The source of the lines."""

    def containers(self, service: str) -> list[str]:
        """Return the ids of a service's containers."""
        ...

    def lines(self, container: str) -> list[Line]:
        """Return what a container wrote."""
        ...


def kernel_list(cpus: frozenset[int]) -> str:
    """Format a set of CPUs as the kernel writes it: "0-2,5"."""
    ranges: list[list[int]] = []
    for cpu in sorted(cpus):
        if ranges and ranges[-1][1] == cpu - 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def sentences(lines: Sequence[Line]) -> Iterator[tuple[int, str]]:
    """Yield what a workload reported: the time, and a sentence. Its records of where it ran are left out."""
    before: Line | None = None
    for line in lines:
        match line["kind"]:
            case "told":
                if text := _told(before, line):
                    yield line["at"], text
                before = line
            case "acknowledged":
                yield line["at"], f"I have left {line['cpus']}, and acknowledge"
            case "could not acknowledge":
                yield line["at"], f"I could not acknowledge: {line['why']}"
            case "signalled":
                yield line["at"], f"I was sent SIG{line['name']}"
            case "ended":
                yield line["at"], "I end"
                before = None
            case "started":
                before = None
            case _:
                pass  # where it ran


def _told(before: Line | None, now: Line) -> str:
    had, has = owned(before) if before else frozenset(), owned(now)
    leaving, left = cpus_of(now["leaving"]), cpus_of(before["leaving"]) if before else frozenset()
    why = _OBVIOUS.sub("", now["reason"])
    parts = []
    if not has and now["sharing"] == "exclusive":
        parts.append(f"{now['arriving']} will be mine, I still share {now['cpus']}: {why}")
    elif not has and (before is None or had or before["reason"] != now["reason"]):
        parts.append(f"I share {now['cpus']} with others: {why}")
    if lost := had - has:
        parts.append(f"{kernel_list(lost)} is gone, I have {now['cpus']}")
    elif has and not had:
        parts.append(f"I have {now['cpus']}: {why}")
    elif has - had:
        parts.append(f"{kernel_list(has - had)} is now mine as well: I have {now['cpus']}: {why}")
    elif left - leaving and has:
        parts.append(f"{kernel_list(left - leaving)} is mine again after all")
    if leaving - left:
        parts.append(f"{now['leaving']} leaves me within {now['deadline']:.1f} s: {why}")
    return "; ".join(parts)


class Words:
    """The output of the containers of some services so far."""

    def __init__(self, project: Project, services: Sequence[str]) -> None:
        self.lines: dict[str, list[Line]] = {service: [] for service in services}
        self._project = project
        self._shown: dict[str, int] = dict.fromkeys(services, 0)

    def read(self) -> None:
        """Read all of it again."""
        for service in self.lines:
            self.lines[service] = [
                line for container in self._project.containers(service) for line in self._project.lines(container)
            ]

    def last(self, service: str) -> Line | None:
        """Return the last projection that a workload read since its start; None if it does not run, or read none."""
        for line in reversed(self.lines[service]):
            if line["kind"] in ("started", "ended"):
                return None
            if line["kind"] == "told":
                return line
        return None

    def has(self, service: str) -> int:
        """Return how many settled exclusive CPUs a workload has, none of them leaving; 0 while that changes."""
        last = self.last(service)
        return len(owned(last)) if last and last["settled"] and not last["leaving"] else 0

    def latest(self) -> int:
        """Return when anything last happened to any of them; 0 if nothing did."""
        return max((line["at"] for lines in self.lines.values() for line in lines if line["kind"] != "ran"), default=0)

    def news(self, now: int) -> list[tuple[int, str, str]]:
        """Return the new sentences that are old enough that nothing older can follow: time, workload, and sentence."""
        found: list[tuple[int, str, str]] = []
        for service, lines in self.lines.items():
            told = [(at, text) for at, text in sentences(lines) if at < now - HOLD_BACK_NS]
            found += [(at, service, text) for at, text in told[self._shown[service] :]]
            self._shown[service] = len(told)
        return sorted(found)
