"""The runner: every machine of a tarball against the laws and against what is expected of it."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from sidecar.host.machine.sources import Live
from sidecar.host.machine.sysfs import read_topology
from state.errors import StateError
from tests.machines.archive import BadInput, Expected, expectations, unpacked
from tests.machines.case import Case, Deviation
from tests.machines.compared import compared
from tests.machines.laws import lawful, round_trip
from tests.machines.reasons import NO_MACHINE

SHARED: Final = Path(__file__).parents[3] / "shared" / "machines"
TARBALL: Final = SHARED / "machines.tar.xz"
EXPECTED: Final = SHARED / "expected.json"


def deviations(root: Path, expected: Expected) -> list[Deviation]:
    """Return all deviations of one machine. Never raises, whatever the machine contains."""
    try:
        return list(_deviations(root, expected))
    except Exception as error:  # A crash is a finding: the other machines are still checked.
        return [Deviation(f"reading it crashed: {type(error).__name__}: {error}")]


def _deviations(root: Path, expected: Expected) -> Iterator[Deviation]:
    with Live(str(root)) as files:
        try:
            machine = read_topology(root)
        except StateError as error:
            is_empty = not any(name.startswith("cpu") for name in files.children("devices/system/cpu"))
            yield Deviation(f"it is refused: {error}", NO_MACHINE if is_empty and not expected else "")
            return
        yield from round_trip(root, machine)
        case = Case(machine, files, expected)
        yield from lawful(case)
        yield from compared(case)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line for each deviation, and the sums. Return 0 if all are named, 1 if not, 2 if the input is bad."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.machines", description="Read recorded machines, and compare with hwloc and lscpu."
    )
    parser.add_argument("tarball", nargs="?", type=Path, default=TARBALL, help="machines, each below NAME/sys")
    parser.add_argument("expected", nargs="?", type=Path, default=EXPECTED, help="what hwloc and lscpu say of each")
    args = parser.parse_args(arguments)
    try:
        with tempfile.TemporaryDirectory(prefix="machines-") as directory:
            wanted = expectations(args.expected)
            _progress(f"extracting {args.tarball}")
            return _run(unpacked(args.tarball, Path(directory)), wanted)
    except BadInput as error:
        _progress("")
        sys.stderr.write(f"{error}\n")
        return 2
    except KeyboardInterrupt:
        _progress("")
        sys.stderr.write("interrupted\n")
        return 130


def _run(roots: dict[str, Path], wanted: dict[str, Expected]) -> int:
    named: Counter[str] = Counter()
    failed = 0
    names = sorted({*roots, *wanted})
    for number, name in enumerate(names, 1):
        _progress(f"{number} of {len(names)}: {name}")
        if root := roots.get(name):
            found = deviations(root, wanted.get(name, {}))
        else:
            found = [Deviation("it is expected, and is not in the tarball")]
        _progress("")
        for deviation in found:
            reason = f" (named: {deviation.reason.partition(':')[0]})" if deviation.reason else ""
            sys.stdout.write(f"{name}: {deviation.text}{reason}\n")
        named.update(deviation.reason for deviation in found if deviation.reason)
        failed += any(not deviation.reason for deviation in found)
    if named:
        sys.stdout.write("\nnamed deviations:\n")
        for reason, count in sorted(named.items(), key=lambda each: (-each[1], each[0])):
            sys.stdout.write(f"{count:5}  {reason}\n")
    sys.stdout.write(f"{len(names) - failed} passed, {failed} failed\n")
    return 1 if failed else 0


def _progress(text: str) -> None:
    """Print the progress on a line that the next one overwrites; nothing without a terminal."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{text[:78]}")
        sys.stderr.flush()
