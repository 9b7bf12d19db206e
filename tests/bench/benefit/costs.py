"""The cost of sharing a CPU here: `python -m tests.bench.benefit.costs`; the source of the model's prices.

As root on a host with the `cpu` controller of cgroup v1, and two CPUs. The parties are cgroups, as containers are,
below one with so many shares that other programs hardly count. CPU 1 is measured; CPU 0 is for all else.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
CONTROLLER: Final = Path("/sys/fs/cgroup/cpu")

ABOVE_ALL: Final = 262144
"""Shares, the most that the kernel takes."""

NEIGHBOUR_KIB: Final = 8192
"""The neighbour's working set: more than the cache that a core has of its own."""

RATIOS: Final = {"as many shares": 1024, "ten times the shares": 10240}


class Costs:
    """The compiled program, and the two parties, `measured` and `neighbour`."""

    def __init__(self, program: Path, groups: Path) -> None:
        self._program = program
        self._groups = groups

    def shares(self, measured: int) -> None:
        """Set the weight of the measured party against the neighbour's 1024."""
        (self._groups / "measured" / "cpu.shares").write_text(str(measured))

    def run(self, *words: object) -> list[float]:
        """Return the sorted output of one run of the measured party."""
        found = subprocess.run(self._in("measured", words), check=True, capture_output=True, text=True)
        return sorted(float(line) for line in found.stdout.split())

    @contextmanager
    def beside(self, *words: object) -> Iterator[None]:
        """Run a neighbour for the length of the block."""
        neighbour = subprocess.Popen(self._in("neighbour", words))
        try:
            yield
        finally:
            neighbour.kill()
            neighbour.wait()

    def _in(self, party: str, words: tuple[object, ...]) -> list[str]:
        enter = f'echo $$ > "{self._groups / party / "tasks"}"; exec "$@"'
        return ["sh", "-c", enter, "sh", str(self._program), *(str(word) for word in words)]


@contextmanager
def opened() -> Iterator[Costs]:
    """Compile the program and make cgroups, which are removed again."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        program = Path(folder) / "costs"
        compiling = ["gcc", "-O2", "-pthread", "-Wall", "-Wextra", "-Werror", "-o", str(program), str(HERE / "costs.c")]
        subprocess.run(compiling, check=True)
        groups = CONTROLLER / "benefit-costs"
        for group in (groups, groups / "measured", groups / "neighbour"):
            group.mkdir()
            stack.callback(group.rmdir)
        (groups / "cpu.shares").write_text(str(ABOVE_ALL))
        yield Costs(program, groups)


def at(values: list[float], share: float) -> float:
    """Return the value below which that share of the sorted values lies."""
    return values[min(len(values) - 1, int(share * len(values)))]


def main() -> int:
    """Print one table after the other."""
    with opened() as costs:
        _wakes(costs)
        _walks(costs)
        _steps(costs)
    return 0


def _wakes(costs: Costs) -> None:
    print("\n| woken, microseconds late | p50 | p80 | p85 | p90 | p95 | p99 |")
    print("| --- |" + " --- |" * 6)

    def row(name: str) -> None:
        late = costs.run("wake", 1, 600)
        print(
            f"| {name} | " + " | ".join(f"{at(late, share):.0f}" for share in (0.5, 0.8, 0.85, 0.9, 0.95, 0.99)) + " |"
        )

    row("alone")
    for name, shares in RATIOS.items():
        costs.shares(shares)
        with costs.beside("walk", 1, NEIGHBOUR_KIB):
            row(f"beside a neighbour, {name}")


def _walks(costs: Costs) -> None:
    places = "alone | neighbour elsewhere | on the same CPU | ten times the shares"
    print(f"\n| a million hops, ms of CPU time, mean | {places} |")
    print("| --- | --- | --- | --- | --- |")
    for kib in (256, 768):
        found = [costs.run("work", 1, kib, 60)]
        with costs.beside("walk", 0, NEIGHBOUR_KIB):
            found.append(costs.run("work", 1, kib, 60))
        for shares in RATIOS.values():
            costs.shares(shares)
            with costs.beside("walk", 1, NEIGHBOUR_KIB):
                found.append(costs.run("work", 1, kib, 60))
        print(f"| {kib} KiB | " + " | ".join(f"{sum(times) / len(times) / 1e6:.2f}" for times in found) + " |")


def _steps(costs: Costs) -> None:
    print("\n| CPUs | threads | a step of 20 ms of work, median ms | of the ideal |\n| --- | --- | --- | --- |")
    for cpus, threads in ((1, 1), (1, 2), (1, 4), (1, 8), (2, 2), (2, 3), (2, 4), (2, 5), (2, 6), (2, 8)):
        times = costs.run("steps", cpus, threads, 60, 20000)
        took = at(times, 0.5) / 1e6
        print(f"| {cpus} | {threads} | {took:.2f} | {20 / cpus / took:.2f} |")


if __name__ == "__main__":
    sys.exit(main())
