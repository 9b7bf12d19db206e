"""Run groups of tests in virtual machines, and print the table: engine, cgroup, driver and feature.

Exit codes: 0 all passed; 1 some failed, or did not run; 2 wrong usage; 3 no virtual machine can be had here.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from tests.vm.groups import GROUPS, Group
from tests.vm.machine import ROOT, NoMachines, find_vmrun
from tests.vm.outcomes import Ran, table
from tests.vm.running import present, run
from tests.vm.share import cache_folder, prepared

_NO_MACHINES = 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    asked = _parser().parse_args(arguments)
    if asked.list:
        for group in GROUPS:
            sys.stdout.write(f"{group.name:18} {group.engine:14} {group.machine.words:62} {group.about}\n")
        return 0
    try:
        groups = chosen(asked.groups)
    except LookupError as error:
        sys.stderr.write(f"error: {error.args[0]}\n")
        return 2
    # So that its files are removed when it is ended.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    began = time.monotonic()
    logs = Path(asked.logs)
    try:
        vmrun = find_vmrun()
        with prepared(cache_folder()) as share:
            ran = [_one(vmrun, group, share, logs, tuple(asked.pytest)) for group in groups if _is_there(group)]
    except NoMachines as error:
        sys.stderr.write(f"error: {error}\n")
        return _NO_MACHINES
    seconds = time.monotonic() - began
    sys.stdout.write(f"\n{table(ran)}\n{_failures(ran)}{seconds / 60:.1f} minutes; all output is below {logs}\n")
    if asked.json:
        content = {"seconds": seconds, "groups": ran}
        Path(asked.json).write_bytes(msgspec.json.format(msgspec.json.encode(content), indent=1))
    return 0 if ran and all(each.is_good for each in ran) else 1


def chosen(names: Sequence[str]) -> list[Group]:
    """Return the groups of these names, or beginnings of names; all if none is given. LookupError for an unknown
    one. A whole name is that group alone, though others begin so.
    """
    if not names:
        return list(GROUPS)
    found = []
    for name in names:
        exact = [group for group in GROUPS if group.name == name]
        fitting = exact or [group for group in GROUPS if group.name.startswith(name)]
        if not fitting:
            raise LookupError(f"no group is called {name}; there are: {', '.join(group.name for group in GROUPS)}")
        found += [group for group in fitting if group not in found]
    return found


def _is_there(group: Group) -> bool:
    if present(group):
        return True
    sys.stdout.write(f"{group.name:18} left out: none of its tests is in this project\n")
    return False


def _one(vmrun: str, group: Group, share: Path, logs: Path, extra: tuple[str, ...]) -> Ran:
    sys.stdout.write(f"{group.name:18} ")
    sys.stdout.flush()
    done = run(vmrun, group, share, logs, extra)
    count = {word: sum(case.outcome == word for case in done.cases) for word in ("passed", "skipped", "failed")}
    said = ", ".join(f"{number} {word}" for word, number in count.items() if number) or "nothing ran"
    sys.stdout.write(f"{done.seconds:6.0f} s  {said}{'; ' + done.problem if done.problem else ''}\n")
    sys.stdout.flush()
    return done


def _failures(ran: Sequence[Ran]) -> str:
    lines = [
        f"failed: {each.group}: {case.file}::{case.name}: {' '.join(case.reason.split())[:200]}\n"
        for each in ran
        for case in each.cases
        if case.outcome == "failed"
    ]
    lines += [f"not whole: {each.group}: {each.problem}\n" for each in ran if each.problem]
    return "".join(lines)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.vm", description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("groups", nargs="*", metavar="GROUP", help="names, or their beginnings; all where none is said")
    parser.add_argument("--list", action="store_true", help="say what groups there are")
    parser.add_argument("--json", metavar="FILE", help="write everything there, too")
    parser.add_argument("--logs", default=str(ROOT / "build" / "vm"), metavar="DIR", help="where all output goes")
    parser.add_argument("--pytest", action="append", default=[], metavar="ARG", help="one more argument of pytest")
    return parser


if __name__ == "__main__":
    sys.exit(main())
