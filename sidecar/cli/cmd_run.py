"""`run`: the daemon."""

from __future__ import annotations

import argparse
import signal
import sys

from sidecar.cli.flags import add_config, config_of
from sidecar.cli.sign_of_life import sign_of_life
from sidecar.cli.this_machine import this_machine
from sidecar.config.config import Config
from sidecar.config.keys import KEYS
from sidecar.decide.container.rules import idle_rules, idle_unit_rules
from sidecar.log import printable
from sidecar.quick_imports import quick_imports
from sidecar.words.settings_text import UNCHECKED_RULES, UNCHECKED_UNIT_RULES, of_none

_EXAMPLES = """examples:
  cpuset-sidecar run --policy static --reserved 0
  CPUSET_SIDECAR_POLICY=static CPUSET_SIDECAR_RESERVED=0 cpuset-sidecar run
  cpuset-sidecar run --config ./cpuset-sidecar.toml --log-format json
  cpuset-sidecar run --check
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command, with every key of the configuration as a flag."""
    parser = subparsers.add_parser(
        "run",
        description="Run the daemon in the foreground until SIGTERM or Ctrl-C, which leave containers as they are.\n"
        "SIGHUP reads the configuration again.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--check", action="store_true", help="read everything, report mistakes or ok, and end; nothing is touched"
    )
    add_config(parser, KEYS)
    parser.set_defaults(func=run, serves=True)


def run(args: argparse.Namespace) -> int:
    """Run the daemon until it is asked to stop; or check its configuration. Return 1 if that cannot be used."""
    if not args.check:
        # One that comes while the daemon starts waits until it is heard.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    config = config_of(args, this_machine, serves=True)
    if args.check:
        with sign_of_life("looking at the engine and the machine"):
            return _check(config)
    # Only here: a wrong configuration is reported first, and other commands skip the daemon's imports.
    with quick_imports():
        from sidecar import daemon

    return daemon.run(config)


def _check(config: Config) -> int:
    """Print what is doubtful in a configuration without mistakes, and that it can be used. ConfigError, StateError."""
    # Only here: the daemon's imports, for asking the engine.
    from sidecar.cli.doctor.cmd_doctor import ask_engine
    from sidecar.cli.doctor.unit_checks import unit_rules_in_force, visible_units
    from sidecar.engines.found_places import engine_places
    from sidecar.hooks.configured_hooks import doubts
    from sidecar.host.cgroup.host_kernel import HostKernel

    found = list(config.check_against(HostKernel(cgroup=config.cgroup).topology()))
    found += doubts(config.hooks)
    if any(not rule.unit for rule in config.rules):
        reports = [ask_engine(at) for _, at in engine_places(config.engine, config.engines)]
        if all(each.engine for each in reports):
            views = tuple(view for each in reports for view in each.views)
            found += [of_none(rule) for rule in idle_rules(views, config.rules)]
        else:
            found.append(UNCHECKED_RULES)
    if unit_rules := unit_rules_in_force(config):
        names = visible_units(config)
        idle = idle_unit_rules(names, unit_rules) if names is not None else ()
        found += [of_none(rule) for rule in idle] if names is not None else [UNCHECKED_UNIT_RULES]
    sys.stdout.write("".join(f"warning: {printable(doubt)}\n" for doubt in found))
    sys.stdout.write(f"ok: {config.file or 'no file'}, policy {config.policy}\n")
    return 0
