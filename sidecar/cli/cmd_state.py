"""`state`: print the recorded state, the sidecar's or a kubelet's; or import a kubelet's."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Final

from sidecar.cli.arguments import typed
from sidecar.cli.flags import add_config, last_daemons_config, print_json
from sidecar.cli.printout import printout
from sidecar.cli.table import table
from sidecar.commit.fallback_books import SPARE, spared_state
from sidecar.commit.state_lock import hold_lock
from sidecar.config.config import Config
from sidecar.kubelet import kubelet_state
from sidecar.kubelet.kubelet_state import KubeletState, exported, imported
from sidecar.log import printable
from sidecar.readers import word
from sidecar.status.status_file import is_daemon_running
from sidecar.words.causes import why
from sidecar.words.counts import counted
from sidecar.words.missing_records import no_directory, no_state
from sidecar.words.refusals import sentence
from state import files
from state.checkpoint import LIMIT, NAME, PREVIOUS, CheckpointFile, decode_checkpoint
from state.errors import FileUnreadable, StateError
from state.model import Assignment, Originals, State

_DESCRIPTION = """Print the recorded state in the checkpoint: grants, refusals, and the original settings of
containers. Reads only, and needs no daemon.

--format kubelet prints it as a kubelet's cpu_manager_state, each container as a pod of its own.
--file reads another checkpoint, the sidecar's or a kubelet's, and verifies its checksum.
--import is the one option that writes, while no daemon runs: the CPUs in such a file become those of
the recorded containers, matched by ID or name, if no invariant is broken; the next daemon moves them."""

_EXAMPLES = """examples:
  cpuset-sidecar state
  cpuset-sidecar state --json
  cpuset-sidecar state --format kubelet > cpu_manager_state
  cpuset-sidecar state --file /var/lib/kubelet/cpu_manager_state
  cpuset-sidecar state --import /var/lib/kubelet/cpu_manager_state
"""

_OURS: Final = b'{"version":'
"""The beginning of every checkpoint of ours, without white space. A kubelet's begins with its policy."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command and its arguments."""
    parser = subparsers.add_parser(
        "state",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--format",
        type=typed("--format", word("text", "json", "kubelet")),
        default="text",
        metavar="FORMAT",
        help="how to print them: text, json or kubelet (default: text)",
    )
    parser.add_argument("--json", dest="format", action="store_const", const="json", help="the same as --format json")
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--file", metavar="FILE", help="the checkpoint to read instead (- for stdin)")
    source.add_argument(
        "--import", dest="import_from", metavar="FILE", help="import the CPUs in this file into the recorded state"
    )
    add_config(parser)
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Print the newest state, or the one in a file; or import a file. StateError if it cannot be read."""
    if args.import_from:
        return _import(last_daemons_config(args), args.import_from, args.format)
    if args.file:
        _print(read_file(args.file), args.format)
        return 0
    config = last_daemons_config(args)
    found, notes = newest_books(config.state_dir, config.projections)
    _print(found, args.format)
    sys.stderr.write("".join(f"cpuset-sidecar: {note}\n" for note in notes))
    return 0


def read_file(path: str) -> State | KubeletState:
    """Return the checkpoint in a file, the sidecar's or a kubelet's."""
    try:
        content = sys.stdin.buffer.read(LIMIT + 1) if path == "-" else files.read_named(path, LIMIT)
    except OSError as error:
        raise StateError(f"{path} cannot be read: {files.reason(error)}") from error
    except FileUnreadable as error:
        raise StateError(f"{path} cannot be read: {error}") from error
    if len(content) > LIMIT:
        raise StateError(f"{path} is too large to be a checkpoint")
    try:
        return decode_checkpoint(content) if content.startswith(_OURS) else kubelet_state.decode(content)
    except StateError as error:
        raise StateError(f"{path} cannot be used: {error}") from error


def _print(books: State | KubeletState, format: str) -> None:  # noqa: A002 - the flag's name
    if format == "json":
        print_json(books)
    elif format == "kubelet":
        # Byte for byte: the kubelet's file does not end in a newline.
        sys.stdout.flush()
        sys.stdout.buffer.write(kubelet_state.encode(books if isinstance(books, KubeletState) else exported(books)))
        sys.stdout.buffer.flush()
    else:
        width = printout().width
        lines = kubelets(books, width) if isinstance(books, KubeletState) else rendered(books, width)
        sys.stdout.write("\n".join(lines) + "\n")


def _import(config: Config, path: str, format: str) -> int:  # noqa: A002 - the flag's name
    found, state_dir = read_file(path), config.state_dir
    newest_books(state_dir, config.projections)
    with hold_lock(state_dir), CheckpointFile(state_dir) as checkpoints:
        books, _ = newest_books(state_dir, config.projections)
        made = imported(found if isinstance(found, KubeletState) else exported(found), books)
        if made.taken:
            checkpoints.save(made.books)
    if format == "text":
        sys.stdout.write("".join(f"{printable(line)}\n" for line in made.taken or ("nothing changed",)))
    elif format == "json":
        print_json(made)
    else:
        _print(made.books, format)
    sys.stderr.write("".join(f"cpuset-sidecar: not imported: {printable(line)}\n" for line in made.left))
    return 0 if made.taken or not made.left else 1


def read_books(state_dir: str) -> State:
    """Return the newest recorded state on disk, without changing any file."""
    if not os.path.lexists(state_dir):
        raise StateError(no_directory(state_dir))
    with files.directory(state_dir) as at:
        # Between the two renames of a commit, only the previous file is there, and it is the newest.
        for name in (NAME, PREVIOUS):
            content = files.read_bounded(at, name, LIMIT)
            if content is not None:
                break
        else:
            raise StateError(no_state(state_dir, is_running=is_daemon_running(state_dir)))
    try:
        return decode_checkpoint(content)
    except StateError as error:
        raise StateError(f"{name} in {state_dir} cannot be used: {error}") from error


def newest_books(state_dir: str, projections: str) -> tuple[State, tuple[str, ...]]:
    """Return the newest recorded state, wherever the daemon could write it, and a note if that is not the directory."""
    spare = f"{projections}/{SPARE}"
    if (spared := spared_state(state_dir, spare)) is not None:
        return spared, (f"the newest state is in {spare}: {state_dir} could not be written",)
    return read_books(state_dir), ()


def rendered(state: State, width: int | None = None) -> list[str]:
    """Return the CPUs, then the grants, refusals and original settings."""
    lines = [
        f"policy {state.policy}, {counted(state.grants, 'grant')} so far",
        f"online     {state.online or 'none'}",
        f"reserved   {state.reserved or 'none'}" + (" (strict: not in the shared pool)" if state.strict else ""),
        f"exclusive  {state.exclusive or 'none'}",
        f"shared     {state.shared or 'none'}",
    ]
    if state.takes:
        ended = f"takes acknowledged {state.acknowledged}, forced {state.forced}"
        lines.append(f"changes    {state.takes} so far; {ended}")
    grants = sorted(state.assignments.values(), key=lambda each: each.since)
    rows = [(a.name, a.container.short, str(len(a.cpus)), str(a.cpus), str(a.original)) for a in grants]
    lines += ["", *table(("GRANTED", "ID", "CPUS", "NOW", "AT FIRST"), rows, width, spare=("ID",))] if rows else []
    lines += _elastic(grants, width)
    refused = [
        (r.name, r.container.short, r.refusal.code.value, sentence(r.refusal))
        for _, r in sorted(state.refusals.items())
    ]
    lines += ["", *table(("REFUSED", "ID", "CODE", "REASON"), refused, width, spare=("ID",))] if refused else []
    before = [(key.short, _settings(originals)) for key, originals in sorted(state.originals.items())]
    lines += ["", *table(("ID", "SETTINGS BEFORE"), before, width)] if before else []
    return lines


def _elastic(grants: list[Assignment], width: int | None) -> list[str]:
    """Sizes that may change, what is leaving, and the last changes with their reasons."""
    rows = [
        (
            a.name,
            f"{a.demand.floor}-{a.demand.ceiling}",
            a.demand.scale.value,
            str(a.demand.weight),
            "-" if a.ordered is None else str(a.ordered),
            str(a.forced),
            f"{a.leaving.cpus} (take {a.leaving.number}{', due' if a.leaving.is_due else ''})" if a.leaving else "-",
        )
        for a in grants
        if a.demand.floor < a.demand.ceiling or a.leaving
    ]
    lines = (
        ["", *table(("ELASTIC", "RANGE", "SCALE", "WEIGHT", "ORDERED", "FORCED", "LEAVING"), rows, width)]
        if rows
        else []
    )
    moves = [(a.name, str(m.gained or "-"), str(m.lost or "-"), why(m.cause)) for a in grants for m in a.moves]
    return lines + (["", *table(("CHANGED", "GAINED", "LOST", "REASON"), moves, width)] if moves else [])


def kubelets(books: KubeletState, width: int | None = None) -> list[str]:
    """Return the content of a kubelet's file: its shared pool, and the CPUs of each container."""
    lines = [f"policy {printable(books.policy) or 'none told'}, of a kubelet", f"default    {books.default or 'none'}"]
    rows = [
        (pod, name, str(len(cpus)), str(cpus))
        for pod, named in sorted(books.assignments.items())
        for name, cpus in sorted(named.items())
    ]
    lines += ["", *table(("POD", "CONTAINER", "CPUS", "WHICH"), rows, width)] if rows else []
    pods = [(pod, str(len(cpus)), str(cpus)) for pod, cpus in sorted(books.pod_assignments.items())]
    return lines + (["", *table(("POD AS A WHOLE", "CPUS", "WHICH"), pods, width)] if pods else [])


def _settings(originals: Originals) -> str:
    fields = {name: getattr(originals, name) for name in originals.__struct_fields__}
    return ", ".join(f"{name} {value}" for name, value in fields.items() if value) or "none"
