"""`explain`: why a container has its CPUs, and what it waits for; or which container has a CPU."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time

from sidecar.cli.cmd_plan import pinned
from sidecar.cli.cmd_state import newest_books
from sidecar.cli.cmd_status import formatted
from sidecar.cli.container_fields import CONTAINER_FIELDS
from sidecar.cli.explained_tenant import rendered
from sidecar.cli.flags import add_config, add_format, add_json, check_format, last_daemons_config, print_json
from sidecar.config.config import Config
from sidecar.decide.settings import PolicyName, Settings
from sidecar.decide.whatif import imagined
from sidecar.decide.world import replace
from sidecar.failures import Misuse
from sidecar.host.machine.sysfs import read_topology
from sidecar.log import printable
from sidecar.status.cpu_view import CPUView, cpu_view
from sidecar.status.document import ContainerStatus, SharingStatus, Status
from sidecar.status.find_container import LISTED, NotFound, find
from sidecar.status.last_state import all_in_past, container_reading_of, last_word, names_in
from sidecar.status.sight import Sight
from sidecar.status.status_reader import LastStatus, read_last_status
from sidecar.words.machine_text import no_cpu
from sidecar.words.placement_text import placement_told
from state.cpuset import MAX_CPU
from state.errors import StateError
from state.model import State
from state.topology import Topology


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command and its arguments."""
    parser = subparsers.add_parser(
        "explain",
        description="Print why a container has its CPUs, and what it waits for; or what a CPU is for, the container\n"
        "that it is granted to, and those that may run there.",
        epilog="examples:\n  cpuset-sidecar explain web\n  cpuset-sidecar explain 3f2a9c\n  cpuset-sidecar explain 7\n",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "container",
        help="its name, or the beginning of its ID; a unit of the host; or the number of a CPU (/7 for one that is "
        "named 7)",
    )
    add_format(parser, CONTAINER_FIELDS, "{{.CPUs}}\\t{{.State}}")
    add_json(parser)
    add_config(parser)
    parser.set_defaults(func=run, doing="looking at the machine")


def run(args: argparse.Namespace) -> int:
    """Print the sentences. Return 1 if no daemon runs and vouches for them: they are then its last word.

    SidecarError, with the nearest name, if there is no such container.
    """
    check_format(args, "json")
    config = last_daemons_config(args)
    last = read_last_status(config.state_dir, time.time())
    status, outdated = last.reading, last.outdated
    told: CPUView | ContainerStatus
    if view := _cpu(status, args.container):
        if args.format:
            raise Misuse(
                f"--format has the fields of a container, and {args.container} is a CPU: --json has what it is"
            )
        told, lines = view, rendered_cpu(view, last.sight)
        if outdated:
            is_ready = last.status.is_ready
            said = last_word(status.updated_at, is_running=last.is_running, is_ready=is_ready)
            told = view = replace(view, explanation=(said, *all_in_past(view.explanation, names_in(status))))
            lines = rendered_cpu(view, last.sight)
        if any(each.name == args.container for each in status.rows):
            lines.append(f"  A container has this name: `cpuset-sidecar explain /{args.container}` is about it.")
    else:
        found = _container(last, config, args.container)
        told = reading = container_reading_of(found, vouched=last.vouched)
        lines = rendered(found, last.sight)
        if args.format:
            lines = formatted(args.format, [reading], last.status, last.sight)
    if args.json:
        print_json(told)
    else:
        sys.stdout.write("\n".join(lines) + "\n")
    if outdated:
        sys.stderr.write(f"cpuset-sidecar: {outdated}\n")
        return 1
    return 0


def _cpu(status: Status, wanted: str) -> CPUView | None:
    """Return the CPU of this number; None if that is no CPU of the machine. A container's author chooses its name: one
    that is the number of a CPU hides no CPU.
    """
    if not wanted.isascii() or not wanted.isdigit() or len(wanted) > len(str(MAX_CPU)):
        return None
    return cpu_view(status, int(wanted))


def _container(last: LastStatus, config: Config, wanted: str) -> ContainerStatus:
    """Return the container, with sentences on where its CPUs are. NotFound, which says so if the status is an old one:
    the container may have come since.
    """
    status = last.reading
    is_number = wanted.isascii() and wanted.isdigit() and len(wanted) <= len(str(MAX_CPU))
    listed = f", and {no_cpu(wanted, status.machine.online)}" if is_number else LISTED
    try:
        found = find(status.rows, wanted, listed=listed)
    except NotFound as error:
        if last.outdated:
            raise NotFound(f"{error}; but {last.outdated}") from error
        raise
    if found.sharing is SharingStatus.EXCLUSIVE:
        # Nothing is printed about a state or a machine that cannot be read here.
        with contextlib.suppress(StateError):
            books, _ = newest_books(config.state_dir, config.projections)
            placed = placement(found, status, books, read_topology())
            found = replace(found, explanation=(*found.explanation, *map(last.sight.clause, placed)))
    return found


def placement(found: ContainerStatus, status: Status, state: State, topology: Topology) -> tuple[str, ...]:
    """Return where the CPUs of an exclusive container are, and which ones it would get if placed again now."""
    settings = Settings(
        policy=PolicyName(status.policy),
        reserved_cpus=status.reserved,
        options=status.options,
        numa=status.numa,
        isolated=status.isolated,
        shared_min=status.shared_min,
    )
    world = imagined(state, topology, settings, pinned(status))
    grant = world.state.assignments.get(world.key_of(found.id))
    return placement_told(world, grant) if grant else ()


def rendered_cpu(view: CPUView, sight: Sight) -> list[str]:
    """Return the sentences below the CPU's number and its use."""
    use = f"{view.kind}, of {view.owner}" if view.owner else view.kind.value
    return [
        printable(f"CPU {view.cpu}: {sight.state(use, {view.owner})}"),
        *(f"  {printable(sentence)}" for sentence in view.explanation),
    ]
