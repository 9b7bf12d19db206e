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
from typing import Any, Final, NamedTuple

from sidecar.quick_imports import quick_imports

try:
    with quick_imports():
        from sidecar.cli import standard_streams
        from sidecar.cli.sign_of_life import sign_of_life
        from sidecar.failures import Misuse, SidecarError
        from sidecar.log import printable
        from sidecar.version import version
        from sidecar.words.exit_codes import EXIT_CODES
        from state.errors import StateError
except KeyboardInterrupt:
    # Ctrl-C while it loads: there is nothing to tell.
    raise SystemExit(1) from None


class Command(NamedTuple):
    """The module that adds a command, and one line on it, for the list of all."""

    module: str
    summary: str


COMMANDS: Final[Mapping[str, Command]] = {
    "run": Command("sidecar.cli.cmd_run", "the daemon: give labelled containers CPUs of their own"),
    "status": Command("sidecar.cli.cmd_status", "which container holds which CPUs: a table and a map"),
    "top": Command("sidecar.cli.cmd_top", "how many CPUs each container has, live"),
    "events": Command("sidecar.cli.cmd_events", "what changed, and why; as it happens with --follow"),
    "page": Command("sidecar.cli.cmd_page", "a live page of the machine and its containers, in a browser"),
    "topology": Command("sidecar.cli.cmd_topology", "the machine: sockets, nodes, caches, cores, CPUs"),
    "plan": Command("sidecar.cli.cmd_plan", "what a request would get, or why it would be refused"),
    "simulate": Command("sidecar.cli.cmd_simulate", "replay a scenario on an imagined or recorded machine"),
    "explain": Command(
        "sidecar.cli.cmd_explain", "why a container has its CPUs, and what it waits for; or which one has a CPU"
    ),
    "disturbed": Command("sidecar.cli.cmd_disturbed", "what runs on an exclusive container's CPUs and is not its own"),
    "resize": Command("sidecar.cli.cmd_resize", "set the number of CPUs of a container"),
    "defragment": Command(
        "sidecar.cli.cmd_defragment", "exchange CPUs for better placed ones, where containers allow it"
    ),
    "watch": Command("sidecar.workload.cmd_watch", "print a workload's CPUs as they change"),
    "exec": Command("sidecar.workload.cmd_exec", "run a program and keep its threads on the CPUs of its container"),
    "ack": Command(
        "sidecar.workload.cmd_ack", "acknowledge that this workload has left the CPUs that are about to be taken"
    ),
    "state": Command("sidecar.cli.cmd_state", "the recorded state: grants, refusals, original settings"),
    "doctor": Command("sidecar.cli.doctor.cmd_doctor", "what will not work on this host, and how to fix it"),
    "install-runtime": Command(
        "sidecar.cli.setup.cmd_install_runtime", "set up the strict start on this host, or remove it"
    ),
    "install-slice": Command(
        "sidecar.cli.setup.cmd_install_slice", "let one cgroup confine the shared pool on this host, or undo it"
    ),
    "swarm": Command("sidecar.cli.setup.cmd_swarm", "tell Swarm's scheduler how many CPUs this node can grant"),
    "release": Command("sidecar.cli.cmd_release", "release everything: restore original cpusets and quotas"),
    "completion": Command("sidecar.cli.cmd_completion", "a script that completes commands and flags in a shell"),
    "help": Command("sidecar.cli.cmd_help", "the help of a command"),
}
"""All commands. A command line imports the module of its own command alone, and the list of all imports none."""

_OF_ITSELF: Final = ("--version", "--help", "-h")
"""Flags of the program, after which it ends."""

_MANUAL: Final = "--man"
"""The flag of `help` for which all commands are needed, as for `completion`."""

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
    try:
        with quick_imports():
            made = parser(*_meant(words))
        [commands] = [each for each in made._actions if isinstance(each, argparse._SubParsersAction)]  # noqa: SLF001  # no public name
        with standard_streams.written():
            if words and words[0] in _OF_ITSELF:
                made.parse_args(words[:1])
            # Only here: it knows the configuration.
            from sidecar.cli import arguments

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


def _meant(words: Sequence[str]) -> tuple[str, ...]:
    """Return the commands whose arguments these words need: that which they name, those of which they want the help, or
    none for the list of all.
    """
    named = [word for word in words if not word.startswith("-")][:2]
    if named[:1] == ["completion"] or (named[:1] == ["help"] and _MANUAL in words):
        return tuple(COMMANDS)
    return tuple(each for each in (named if named[:1] == ["help"] else named[:1]) if each in COMMANDS)


def _carried_out(args: argparse.Namespace) -> int:
    try:
        with sign_of_life(getattr(args, "doing", "")):
            code: int = args.func(args)
    except Misuse as error:
        from sidecar.cli import arguments

        arguments.rejected(args.usage_of, error.sentences)
    return code


class _VersionLookup(argparse._VersionAction):  # noqa: SLF001  # no public name
    """Looks the version up only where it is asked for: that takes as long as many a command."""

    def __call__(self, *args: Any) -> None:
        """Print it, and end the command."""
        self.version = f"cpuset-sidecar {version()}"
        super().__call__(*args)


class _Commands(argparse._SubParsersAction):  # type: ignore[type-arg] # noqa: SLF001  # no public name; typed for checkers alone
    """Knows the line on each command, which its own module does not repeat."""

    def add_parser(self, name: str, **told: Any) -> argparse.ArgumentParser:
        """Add a command."""
        made: argparse.ArgumentParser = super().add_parser(name, help=COMMANDS[name].summary, **told)
        return made


@functools.cache
def parser(*meant: str) -> argparse.ArgumentParser:
    """Make the parser of these commands and their arguments. For one alone it knows no other; for `help`, and for none,
    it knows of all that they are there.
    """
    made = argparse.ArgumentParser(
        prog="cpuset-sidecar",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--version", action=_VersionLookup, help="show program's version number and exit")
    made.set_defaults(program=made)
    subparsers = made.add_subparsers(title="commands", metavar="COMMAND", required=True, action=_Commands)
    for name in COMMANDS if not meant or "help" in meant else meant:
        if name in meant:
            importlib.import_module(COMMANDS[name].module).add_parser(subparsers)
        else:
            subparsers.add_parser(name)
    for each in (made, *subparsers.choices.values()):
        # An abbreviation that works today may be ambiguous tomorrow.
        each.allow_abbrev = False
        each.set_defaults(usage_of=each)
    return made


if __name__ == "__main__":
    sys.exit(main())
