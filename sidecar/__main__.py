"""The command `cpuset-sidecar`: finds the subcommand, and turns errors into a line on stderr and an exit code.

0 done; 1 not done, with the reason on stderr; 2 wrong usage.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
import sys
from collections.abc import Sequence

from sidecar.quick_imports import quick_imports

with quick_imports():
    from sidecar.cli import (
        arguments,
        cmd_completion,
        cmd_defragment,
        cmd_disturbed,
        cmd_events,
        cmd_explain,
        cmd_help,
        cmd_page,
        cmd_plan,
        cmd_release,
        cmd_resize,
        cmd_run,
        cmd_simulate,
        cmd_state,
        cmd_status,
        cmd_top,
        cmd_topology,
        standard_streams,
    )
    from sidecar.cli.doctor import cmd_doctor
    from sidecar.cli.setup import cmd_install_runtime, cmd_install_slice, cmd_swarm
    from sidecar.failures import Misuse, SidecarError
    from sidecar.log import printable
    from sidecar.version import version
    from sidecar.workload import cmd_ack, cmd_exec, cmd_watch
    from state.errors import StateError

_COMMANDS = (
    cmd_run,
    cmd_status,
    cmd_top,
    cmd_events,
    cmd_page,
    cmd_topology,
    cmd_plan,
    cmd_simulate,
    cmd_explain,
    cmd_disturbed,
    cmd_resize,
    cmd_defragment,
    cmd_watch,
    cmd_exec,
    cmd_ack,
    cmd_state,
    cmd_doctor,
    cmd_install_runtime,
    cmd_install_slice,
    cmd_swarm,
    cmd_release,
    cmd_completion,
    cmd_help,
)

_DESCRIPTION = "Exclusive CPU cores for Docker containers: the kubelet's CPU manager, without Kubernetes."

_EPILOG = """a container asks with a label:
  docker run --label cpuset.exclusive=2 ...
and the daemon gives it two CPUs that no other container runs on:
  cpuset-sidecar run --policy static --reserved 0

exit codes: 0 done, 1 not done (the reason is on stderr), 2 wrong usage
"""

DAEMON_PACKAGES = ("trio", "aiodocker", "aiohttp", "rich", "h11", "jeepney", "prometheus_client")
"""Packages of the extra `daemon`; the base install is the workload's side."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a subcommand. Return the exit code; it counts that all output was written."""
    standard_streams.set_up()
    try:
        return _run(sys.argv[1:] if argv is None else argv)
    finally:
        standard_streams.drop_unwritable()


def _run(words: Sequence[str]) -> int:
    made = parser()
    [commands] = [each for each in made._actions if isinstance(each, argparse._SubParsersAction)]  # noqa: SLF001  # no public name
    try:
        with standard_streams.written():
            args = arguments.parse(made, commands.choices, words, os.environ)
            code = _carried_out(args)
    except (SidecarError, StateError) as error:
        told = error.sentences if isinstance(error, SidecarError) else (str(error),)
        sys.stderr.write("".join(f"cpuset-sidecar: {printable(each)}\n" for each in told))
    except ModuleNotFoundError as error:
        if error.name not in DAEMON_PACKAGES:
            raise
        sys.stderr.write(f"cpuset-sidecar: {error.name} is missing: pip install 'cpuset-sidecar[daemon]'\n")
    except KeyboardInterrupt:
        # The prompt should begin on a line of its own.
        with contextlib.suppress(OSError):
            sys.stderr.write("\n")
    except BrokenPipeError:
        # The reader stopped reading, as `head` does.
        return 0
    else:
        return code
    return 1


def _carried_out(args: argparse.Namespace) -> int:
    try:
        code: int = args.func(args)
    except Misuse as error:
        arguments.rejected(args.usage_of, error.sentences)
    return code


@functools.cache
def parser() -> argparse.ArgumentParser:
    """Make the parser of all commands and their arguments."""
    made = argparse.ArgumentParser(
        prog="cpuset-sidecar",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--version", action="version", version=f"cpuset-sidecar {version()}")
    made.set_defaults(program=made)
    subparsers = made.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in _COMMANDS:
        command.add_parser(subparsers)
    for each in (made, *subparsers.choices.values()):
        # An abbreviation that works today may be ambiguous tomorrow.
        each.allow_abbrev = False
        each.set_defaults(usage_of=each)
    return made


if __name__ == "__main__":
    sys.exit(main())
