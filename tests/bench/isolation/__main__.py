"""What an exclusive CPU is worth: `python -m tests.bench.isolation [--rounds 5] [--seconds 10]`.

A victim computes in pieces of 100 µs: alone on the host; beside a neighbour and a busy host without a sidecar, with as
many shares and with ten times as many; and on a CPU of its own, with containers confined alone and with the host
confined as well. The cases take turns in one run. The host is played, by processes in namespaces and a cgroup of the
bench's own, and by the engine, which is started for this; the machine's other processes are not touched, so run it on a
machine that is quiet otherwise. At the end it prints what ran on the victim's CPU, from the kernel's trace.

As root, with gcc, dockerd, two CPUs or more, and cgroup v1.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from tests.bench.isolation.cases import CASES, TRACED, WARM, Case, Run, Stage
from tests.bench.isolation.figures import summary
from tests.bench.isolation.played_host import ROOT
from tests.bench.own_engine import own_engine
from tests.support.tracefs import mounted

HERE: Final = Path(__file__).parent


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print a line for each run on stderr, and the table on stdout. At Ctrl-C: the table of what is done."""
    args = _arguments().parse_args(arguments)
    if not ROOT.is_dir():
        sys.exit("this bench plays a host on cgroup v1, which this machine does not have")
    runs: list[Run] = []
    try:
        with own_engine() as (engine, folder), mounted(folder / "tracefs") as tracefs:
            program = folder / "played"
            words = ("gcc", "-O2", "-static", "-Wall", "-Wextra", "-Werror", "-o", str(program))
            subprocess.run([*words, str(HERE / "played.c")], check=True)
            steps = int(subprocess.run([str(program), "steps"], check=True, capture_output=True, text=True).stdout)
            stage = Stage(engine, folder, program, steps=steps, seconds=args.seconds, tracefs=tracefs)
            for number, case in enumerate(_turns(args.rounds), 1):
                run = stage.play(case)
                runs.append(run)
                told = f"{run.pieces:.0f} pieces, p99.9 {run.p999:.0f} µs"
                print(f"{number} of {args.rounds * len(CASES)}: {case.name}: {told}", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        if not runs:
            return 130
    if args.json:
        print(json.dumps([msgspec.to_builtins(run._asdict(), enc_hook=str) for run in runs], indent=1))
    else:
        print("\n".join(summary(runs)))
    return 0


def _turns(rounds: int) -> list[Case]:
    """Return the cases of each round, each round begun by another one."""
    return [CASES[(at + turn) % len(CASES)] for turn in range(rounds) for at in range(len(CASES))]


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    about = f"that count, of each run; {WARM:g} go before, and {TRACED:g} are traced after"
    parser.add_argument("--seconds", type=float, default=10.0, help=about)
    parser.add_argument("--json", action="store_true")
    return parser


if __name__ == "__main__":
    sys.exit(main())
