"""`swarm advertise`: tell Swarm's scheduler how many exclusive CPUs this node can grant; check what it was told.

The scheduler places a service only on nodes that advertise as much of a generic resource as it reserves, less what
their tasks reserve already. It counts; which CPUs, the sidecar on the node decides. What a node advertises stands in
dockerd's configuration, which dockerd reads for this at its start alone (measured with 20.10 and 26.1: not on SIGHUP).
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from sidecar.cli.arguments import typed
from sidecar.cli.doctor.host_checks import Finding, Verdict
from sidecar.cli.flags import add_config, daemons_config, print_json
from sidecar.cli.setup.install_arguments import add_installing, root_of
from sidecar.config.config import Config
from sidecar.config.keys import KEYS
from sidecar.config.running_settings import overridden
from sidecar.decide.books.room import capacity
from sidecar.decide.container.swarm_task import KIND
from sidecar.decide.facts import ContainerView, EngineInfo
from sidecar.decide.reconcile import begin
from sidecar.decide.settings import PolicyName
from sidecar.decide.sightings import sighted
from sidecar.failures import ConfigError, SidecarError
from sidecar.host.cgroup.host_kernel import HostKernel
from sidecar.host.install.daemon_json import (
    DAEMON_JSON,
    DaemonJson,
    read_daemon_json,
    take_back,
    value_at,
    with_value,
    without,
    write_daemon_json,
)
from sidecar.log import printable
from sidecar.readers import plain_name, word
from sidecar.status.document import Status
from sidecar.status.status_file import is_daemon_running
from sidecar.words.counts import exclusive_cpus
from state.model import State
from state.topology import Topology

_KEY: Final = "node-generic-resources"

_PLACES: Final = {"engine", "projections", "cgroup", "hand", "log_level", "log_format", "listen"}
"""Keys that do not change how many CPUs can be granted."""

_EXAMPLES: Final = """examples:
  cpuset-sidecar swarm advertise --dry-run
  cpuset-sidecar swarm advertise              then restart dockerd as instructed
  cpuset-sidecar swarm advertise --remove
"""

_RESTART: Final = """dockerd reads this only when it starts: restart it, which stops its containers. On a manager:
  docker node update --availability drain NODE
then on the node:
  systemctl restart docker
and on the manager again:
  docker node update --availability active NODE"""


class Advertised(msgspec.Struct, frozen=True, kw_only=True):
    """What was done: `cpus` of this `kind` stand in `file` now (None: none do), or would; `before` stood there.

    `source` says where the number is from. `needs_restart`: dockerd does not know it yet.
    """

    kind: str
    cpus: int | None
    before: int | None
    file: str
    source: str = ""
    changed: bool = False
    is_dry_run: bool = False
    backup: str = ""
    needs_restart: bool = False
    warnings: tuple[str, ...] = ()


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command and its arguments."""
    parser = subparsers.add_parser(
        "swarm",
        description="Advertise the CPUs that this node can grant exclusively as a generic resource, in dockerd's\n"
        "configuration file; everything else in it is kept. The number comes from the running daemon, or else\n"
        "from the configuration on this machine.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "action", type=typed("the action", word("advertise")), metavar="advertise", help="write what dockerd advertises"
    )
    parser.add_argument(
        "--kind",
        type=typed("--kind", plain_name),
        default=KIND,
        metavar="NAME",
        help=f"the generic resource (default: {KIND})",
    )
    add_installing(parser, undo="advertise no CPUs any more")
    add_config(parser, KEYS)
    parser.set_defaults(func=run, doing="looking at the engine and the machine")


def run(args: argparse.Namespace) -> int:
    """Write it, and say what is to be done next."""
    config, whose = daemons_config(args)
    told = None if set(overridden(config)) - _PLACES else _told_by_the_daemon(config)
    path = args.daemon_json or os.path.join(root_of(args), DAEMON_JSON.lstrip("/"))
    found = read_daemon_json(path)
    if args.remove:
        source, count, warnings = "", None, tuple[str, ...]()
    else:
        source, count, warnings = _number(config, told, whose)
    made = advertise(found, args.kind, count, is_dry_run=args.dry_run, engine=told.engine if told else None)
    made = msgspec.structs.replace(made, source=source, warnings=warnings)
    if args.json:
        print_json(made)
    else:
        sys.stdout.write("\n".join(printable(line) for line in rendered(made)) + "\n")
    return 0


def advertise(
    found: DaemonJson, kind: str, count: int | None, *, is_dry_run: bool = False, engine: EngineInfo | None = None
) -> Advertised:
    """Put a count of this kind into dockerd's configuration, or take it out (None). ConfigError, StateError.

    `engine` is what the engine says of itself, where that is known.
    """
    before, settings = advertised_in(found, kind), with_count(found, kind, count)
    made = Advertised(kind=kind, cpus=count, before=before, file=found.path, is_dry_run=is_dry_run)
    if settings != found.settings:
        _check_flags(_words_of_dockerd(), found.path)
        made = msgspec.structs.replace(made, changed=True)
        if not is_dry_run:
            written = [write_daemon_json(found, settings)] if count is not None else take_back(found, settings)
            made = msgspec.structs.replace(made, backup="".join(each.backup for each in written))
    is_behind = engine is not None and kind == KIND and engine.advertised != count
    return msgspec.structs.replace(made, needs_restart=made.changed or is_behind)


def advertised_in(found: DaemonJson, kind: str = KIND) -> int | None:
    """Return how many of this kind dockerd's configuration file advertises; None for none, or where they have names."""
    for each in _resources(found):
        name, _, value = each.partition("=")
        if name.lower() == kind.lower() and value.isascii() and value.isdigit():
            return int(value)
    return None


def with_count(found: DaemonJson, kind: str, count: int | None) -> Mapping[str, Any]:
    """Return the settings of this file, advertising so many of this kind; other resources stay as they are."""
    ours = [] if count is None else [f"{kind}={count}"]
    others = [each for each in _resources(found) if each.partition("=")[0].lower() != kind.lower()]
    if not others and not ours:
        return without(found.settings, (_KEY,))
    return with_value(found.settings, (_KEY,), [*others, *ours])


def rendered(made: Advertised) -> list[str]:
    """Return what was done, and what is to be done, as lines."""
    before = "nothing" if made.before is None else f"{made.kind}={made.before}"
    if made.cpus is None:
        lines = [f"{made.file} advertised {before}"]
        done = "would no longer advertise any" if made.is_dry_run else "no longer advertises any"
    else:
        lines = [f"this node can grant {exclusive_cpus(made.cpus)} by {made.source}; {made.file} advertised {before}"]
        done = f"{'would advertise' if made.is_dry_run else 'advertises'} {made.kind}={made.cpus} now"
    lines += [f"warning: {warning}" for warning in made.warnings]
    lines.append(f"it {done}" if made.changed else "it is unchanged")
    if made.backup:
        lines.append(f"the previous file {'is kept' if made.cpus is not None else 'stays'}: {made.backup}")
    if made.needs_restart and not made.is_dry_run:
        lines += _RESTART.splitlines()
    return lines


def check_swarm(config: Config, engine: EngineInfo | None, count: int | None) -> Iterator[Finding]:
    """Does Swarm's scheduler count what there is? `count` is what this node can give; None where it is not known."""
    if engine is None or not engine.in_swarm or config.policy is PolicyName.NONE or count is None:
        return
    if engine.advertised is None:
        says = f"this node advertises no {KIND}: Swarm's scheduler places exclusive tasks without counting"
        yield Finding("swarm", Verdict.WARN, says, "run `cpuset-sidecar swarm advertise`, then restart dockerd")
    elif engine.advertised != count:
        says = f"dockerd advertises {KIND}={engine.advertised} to Swarm's scheduler, but this node can grant {count}"
        yield Finding("swarm", Verdict.WARN, says, "run `cpuset-sidecar swarm advertise`, then restart dockerd")
    else:
        yield Finding("swarm", Verdict.OK, f"{KIND}={count} is advertised, and can be granted")


def node_capacity(config: Config, topology: Topology, books: State, views: Iterable[ContainerView] = ()) -> int:
    """Return how many CPUs a daemon with this configuration could give here, beside these containers."""
    world = begin(books, topology, config.settings())
    for view in views:
        world = sighted(world, view, world.horizon + 1)
    return capacity(world)


def _told_by_the_daemon(config: Config) -> Status | None:
    """Return what the running daemon says; None where none runs, or it has not looked at everything yet."""
    if is_daemon_running(config.state_dir) is False:
        return None
    # Only here: the client of the daemon's socket, which other commands need not load.
    from sidecar.cli.daemon_client import ask

    try:
        status = ask(config.state_dir, "GET", "/v1/status", Status)
    except SidecarError:
        return None
    return status if status.is_ready else None


def _number(config: Config, told: Status | None, whose: str) -> tuple[str, int, tuple[str, ...]]:
    """Return how many CPUs can be granted, by what, and what is doubtful about that."""
    warnings: tuple[str, ...] = ()
    if told is not None:
        source, policy, count = f"the daemon on {config.state_dir}", told.policy, told.capacity
    else:
        topology = HostKernel(cgroup=config.cgroup).topology()
        warnings = config.check_against(topology)
        source, policy = whose or f"the configuration ({config.file or 'no file'})", config.policy.value
        count = node_capacity(config, topology, State())
    if policy == PolicyName.NONE:
        raise ConfigError(f"{source} has the policy none, which grants nothing: set policy and reserved first")
    if not count:
        raise ConfigError(
            f"according to {source} this node can grant no exclusive CPU: make reserved or shared_min smaller"
        )
    return source, count, warnings


def _resources(found: DaemonJson) -> list[str]:
    stands = value_at(found.settings, (_KEY,))
    if stands is None:
        return []
    if not isinstance(stands, list) or not all(isinstance(each, str) for each in stands):
        raise ConfigError(f"{_KEY} in {found.path} is not a list of strings: nothing was changed; correct it first")
    return [each.strip() for text in stands for each in text.split(",")]


def _words_of_dockerd() -> tuple[str, ...]:
    from sidecar.cli.setup.dockerd_process import find_dockerd

    running = find_dockerd()
    return running.words if running else ()


def _check_flags(flags: Iterable[str], path: str) -> None:
    if any(flag.partition("=")[0] == "--node-generic-resource" for flag in flags):
        raise ConfigError(
            f"dockerd runs with --node-generic-resource, and would not start with {_KEY} in {path} as well: "
            "remove that flag first"
        )
