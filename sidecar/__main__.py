"""The command `cpuset-sidecar`: finds the subcommand, and turns errors into a line on stderr and an exit code.

The codes and what they mean: `words/exit_codes.py`.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from sidecar.quick_imports import quick_imports

with quick_imports():
    from sidecar.cli import arguments, standard_streams
    from sidecar.cli.sign_of_life import sign_of_life
    from sidecar.failures import Misuse, SidecarError
    from sidecar.log import printable
    from sidecar.version import version
    from sidecar.words.exit_codes import EXIT_CODES
    from state.errors import StateError

COMMANDS: Final[Mapping[str, str]] = {
    "run": "sidecar.cli.cmd_run",
    "status": "sidecar.cli.cmd_status",
    "top": "sidecar.cli.cmd_top",
    "events": "sidecar.cli.cmd_events",
    "page": "sidecar.cli.cmd_page",
    "topology": "sidecar.cli.cmd_topology",
    "plan": "sidecar.cli.cmd_plan",
    "simulate": "sidecar.cli.cmd_simulate",
    "explain": "sidecar.cli.cmd_explain",
    "disturbed": "sidecar.cli.cmd_disturbed",
    "resize": "sidecar.cli.cmd_resize",
    "defragment": "sidecar.cli.cmd_defragment",
    "watch": "sidecar.workload.cmd_watch",
    "exec": "sidecar.workload.cmd_exec",
    "ack": "sidecar.workload.cmd_ack",
    "state": "sidecar.cli.cmd_state",
    "doctor": "sidecar.cli.doctor.cmd_doctor",
    "install-runtime": "sidecar.cli.setup.cmd_install_runtime",
    "install-slice": "sidecar.cli.setup.cmd_install_slice",
    "swarm": "sidecar.cli.setup.cmd_swarm",
    "release": "sidecar.cli.cmd_release",
    "completion": "sidecar.cli.cmd_completion",
    "help": "sidecar.cli.cmd_help",
}
"""Each command, and the module that adds it: a command imports its own alone, and not what all others need."""

_OF_ALL: Final = ("completion", "help")
"""Commands about all commands."""

_DESCRIPTION = "Exclusive CPU cores for Docker containers: the kubelet's CPU manager, without Kubernetes."

_EPILOG = """a container asks with a label:
  docker run --label cpuset.exclusive=2 ...
and the daemon gives it two CPUs that no other container runs on:
  cpuset-sidecar run --policy static --reserved 0

exit codes:
""" + "".join(f"  {code}  {means}\n" for code, means in EXIT_CODES.items())

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
    is_one = bool(words) and words[0] in COMMANDS and words[0] not in _OF_ALL
    with quick_imports():
        made = parser(words[0] if is_one else "")
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
        with sign_of_life(getattr(args, "doing", "")):
            code: int = args.func(args)
    except Misuse as error:
        arguments.rejected(args.usage_of, error.sentences)
    return code


class _VersionLookup(argparse._VersionAction):  # noqa: SLF001  # no public name
    """Looks the version up only where it is asked for: that takes as long as many a command."""

    def __call__(self, *args: Any) -> None:
        """Print it, and end the command."""
        self.version = f"cpuset-sidecar {version()}"
        super().__call__(*args)


@functools.cache
def parser(only: str = "") -> argparse.ArgumentParser:
    """Make the parser of all commands and their arguments, or of `only` one."""
    made = argparse.ArgumentParser(
        prog="cpuset-sidecar",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--version", action=_VersionLookup, help="show program's version number and exit")
    made.set_defaults(program=made)
    subparsers = made.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name in (only,) if only else COMMANDS:
        importlib.import_module(COMMANDS[name]).add_parser(subparsers)
    for each in (made, *subparsers.choices.values()):
        # An abbreviation that works today may be ambiguous tomorrow.
        each.allow_abbrev = False
        each.set_defaults(usage_of=each)
    return made


if __name__ == "__main__":
    sys.exit(main())
