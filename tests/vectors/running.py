"""Runs every vector of a directory, and reports the results."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from state.topology import Topology
from tests.vectors import checkpoint, cpusets, discover, hints, policy, switches, take
from tests.vectors.machines import machines_in
from tests.vectors.verdict import Judge, Vector, Verdict

JUDGES: Final[Mapping[str, Judge]] = {
    "take": take.judge,
    "policy": policy.judge,
    "hints": hints.judge,
    "get_hints": hints.judge_of_pod,
    "options": switches.judge,
    "cpuset": cpusets.judge,
    "checkpoint": checkpoint.judge,
    "discover": discover.judge,
}

SHARED: Final = Path(__file__).parents[2].parent / "shared" / "vectors"


class Judged(NamedTuple):
    """A vector's file, id and kind, and the result of the comparison."""

    file: str
    id: str
    kind: str
    verdict: Verdict


def judged(directory: Path) -> Iterator[Judged]:
    """Yield every vector of the directory, compared."""
    machines = machines_in(directory)
    for file in sorted(directory.glob("*.jsonl")):
        for number, line in enumerate(file.read_text().splitlines(), 1):
            if line.strip():
                yield _judged(file.name, number, line, machines)


def _judged(file: str, number: int, line: str, machines: Mapping[str, Topology]) -> Judged:
    where = f"{file}:{number}"
    try:
        vector: Vector = json.loads(line)
        kind = vector["kind"]
        id = vector.get("id", where)
    except (ValueError, KeyError, TypeError) as error:
        return Judged(file, where, "?", Verdict(f"no vector: {error!r}"))
    judge = JUDGES.get(kind)
    if judge is None:
        return Judged(file, id, kind, Verdict(f"nobody knows the kind {kind!r}"))
    try:
        return Judged(file, id, kind, judge(vector, machines))
    except Exception as error:
        # One vector that breaks a judge must not hide the others.
        return Judged(file, id, kind, Verdict(f"{type(error).__name__}: {error}"))


def main(argv: list[str] | None = None) -> int:
    """Print the deviations, then the counts; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.vectors", description="Compare with the kubelet's answers.")
    parser.add_argument("directory", nargs="?", type=Path, default=SHARED, help="default: %(default)s")
    args = parser.parse_args(argv)
    if not sorted(args.directory.glob("*.jsonl")):
        sys.stderr.write(f"there are no vectors (*.jsonl) in {args.directory}\n")
        return 2
    passed = failed = 0
    reasons: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    try:
        for each in judged(args.directory):
            kinds[each.kind] += 1
            difference, reason = each.verdict
            if difference:
                print(f"{each.file} {each.id}: {difference[:400]} [{reason or 'NOT NAMED'}]")
                reasons.update(reason.split(" + ") if reason else ())
            failed += bool(difference and not reason)
            passed += not (difference and not reason)
    except KeyboardInterrupt:
        return 130
    print("vectors by kind: " + ", ".join(f"{kind} {count}" for kind, count in sorted(kinds.items())))
    for reason, count in reasons.most_common():
        print(f"named deviation, {count} times: {reason}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0
