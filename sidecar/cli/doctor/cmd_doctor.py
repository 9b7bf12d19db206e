"""`doctor`: what will not work on this host, and how to fix it."""

from __future__ import annotations

import argparse
import functools
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, closing, suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from sidecar.cli.arguments import misused
from sidecar.cli.cmd_state import newest_books
from sidecar.cli.doctor.daemon_process import AskedProcess, find_daemon
from sidecar.cli.doctor.engine_checks import (
    UNJUDGED,
    check_builds,
    check_further,
    check_notes,
    check_others,
    check_sidecars,
    other_places,
)
from sidecar.cli.doctor.front_checks import check_exec, check_fronts, fronts_here, wants_exec
from sidecar.cli.doctor.group_checks import check_parents, check_shared_group
from sidecar.cli.doctor.hand_checks import (
    check_hand,
    check_modes,
    check_speed,
    closed_reason,
    missing_home,
    taken_parents,
    told_closed,
    tried_urgency,
)
from sidecar.cli.doctor.host_checks import (
    EngineReport,
    Finding,
    Verdict,
    check_cgroups,
    check_config,
    check_containers,
    check_engine,
    check_file,
    check_machine,
    check_projections,
    check_rules,
    check_state_dir,
)
from sidecar.cli.doctor.inotify_checks import check_inotify, listening
from sidecar.cli.doctor.quiet_page import run_quiet
from sidecar.cli.doctor.unit_checks import check_unit_rules, check_units
from sidecar.cli.flags import add_config, add_json, add_no_color, daemons_config, print_json
from sidecar.cli.machine_drawing import coloured
from sidecar.cli.owner_measurement import add_measuring
from sidecar.cli.printout import LEAST_WIDTH, printout, wrapped
from sidecar.cli.setup.cmd_swarm import check_swarm, node_capacity
from sidecar.cli.this_machine import this_machine
from sidecar.config.config import Config
from sidecar.config.keys import KEYS
from sidecar.config.running_settings import read_settings
from sidecar.decide.settings import PolicyName
from sidecar.engines.found_places import engine_places
from sidecar.failures import ConfigError, ContainerGone, EngineLacks, SidecarError
from sidecar.hand.inotify_limits import inotify_use
from sidecar.host.cgroup.engine_lock import EngineLock
from sidecar.host.cgroup.host_kernel import HostKernel, find_hierarchy
from sidecar.host.install.daemon_json import DAEMON_JSON, read_daemon_json
from sidecar.host.install.front_program import find_program
from sidecar.host_ports import Kernel
from sidecar.misreadings import Absent, Misreading
from sidecar.ports import Engine
from sidecar.status.status_file import is_daemon_running, read_status
from sidecar.status.status_reader import LastStatus, read_last_status
from sidecar.words.around import cure_of
from sidecar.words.counts import counted
from sidecar.words.settings_text import settings_of
from state.claim import claimed
from state.cpuset import EMPTY, CPUSet
from state.errors import StateError
from state.model import State
from state.topology import Topology

OpenEngine = Callable[[str], AbstractAsyncContextManager[Engine]]

_COLOURS: Final = {Verdict.OK: "\x1b[32m", Verdict.WARN: "\x1b[33m", Verdict.FAIL: "\x1b[31m"}


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command and its arguments."""
    parser = subparsers.add_parser(
        "doctor",
        description="Check the engine, kernel, machine, directories, configuration and containers, and report\n"
        "what will not work and how to fix it. With --quiet, measure what runs on a container's exclusive CPUs and\n"
        "is not its own, and say which switch would silence it. Changes nothing.",
        epilog="examples:\n  cpuset-sidecar doctor\n  cpuset-sidecar doctor --policy static --reserved 0-1\n"
        "  cpuset-sidecar doctor --quiet db --seconds 30\n\n"
        "exit codes: 0 nothing failed (there may be warnings), 1 something did\n",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--quiet", metavar="CONTAINER", help="instead of the checks: what would silence what disturbs this container"
    )
    add_measuring(parser, only="with --quiet: ")
    add_json(parser)
    add_no_color(parser)
    add_config(parser, KEYS)
    parser.set_defaults(func=functools.partial(run, parser), doing="looking at engine, machine and settings")


def run(parser: argparse.ArgumentParser, args: argparse.Namespace) -> int:
    """Print the findings. Return 1 if one of them is a failure."""
    if args.quiet is not None:
        return run_quiet(args)
    if wrong := [name for name, given in (("--seconds", args.seconds), ("--tracefs", args.tracefs)) if given]:
        misused(parser, [Misreading(name=name, flaw=Absent(("--quiet",))) for name in wrong[:1]])
    findings: list[Finding] = []
    try:
        config, whose = daemons_config(args, this_machine)
        if whose:
            findings.append(Finding("settings", Verdict.OK, settings_of(whose)))
            findings += check_file(read_settings(config.state_dir) or config)
    except ConfigError as error:
        findings += [
            Finding("configuration", Verdict.FAIL, told, "correct it; the other checks run without it")
            for told in error.sentences
        ]
        config = Config()
    findings += examine(config, HostKernel(cgroup=config.cgroup), ask_engine)
    if args.json:
        print_json(findings)
    else:
        paint, width = printout()
        sys.stdout.write("\n".join(rendered(findings, is_coloured=paint is coloured, width=width)) + "\n")
    failures = sum(finding.verdict is Verdict.FAIL for finding in findings)
    if failures:
        sys.stderr.write(f"cpuset-sidecar: {failures} of {counted(len(findings), 'check')} failed\n")
    return 1 if failures else 0


def examine(config: Config, kernel: Kernel, ask: Callable[[str], EngineReport]) -> list[Finding]:
    """Read everything once, and return the findings."""
    (_, first), *rest = engine_places(config.engine, config.engines)
    report, further = ask(first), [(name, ask(at)) for name, at in rest]
    seen = tuple(msgspec.structs.replace(view, effective=kernel.effective_cpus(view)) for view in report.views)
    report = msgspec.structs.replace(report, views=seen)
    mountinfo = _text("/proc/self/mountinfo")
    places = other_places([first, *(at for _, at in rest)], os.environ, os.path.exists)
    is_running, last = is_daemon_running(config.state_dir), _last(config.state_dir)
    asked = find_daemon(config.state_dir, is_running=is_running is True)
    closed = _closed(config, last if asked.is_running else None)
    has_hand = closed is None and config.policy is not PolicyName.NONE and _answers(config)
    findings = [
        *check_engine(report),
        *check_notes(report, has_hand=has_hand),
        *check_builds(report, has_hand=has_hand),
        *check_further(further, has_hand=has_hand),
        *check_others(report, [(place, ask(f"unix://{place}")) for place in places]),
        *check_cgroups(find_hierarchy(config.cgroup), config.cgroup, report),
    ]
    topology: Topology | None = None
    try:
        topology = kernel.topology()
        findings += check_machine(topology)
    except StateError as error:
        findings.append(Finding("machine", Verdict.FAIL, str(error), "make the host's /sys visible here"))
    try:
        books, _ = newest_books(config.state_dir, config.projections)
    except StateError:
        books = State()  # No state yet is not a fault; the daemon reports an unreadable one.
    if report.engine:
        books = claimed(books, report.engine.name)
    with closing(EngineLock(config.cgroup)) as lock:
        holder = lock.holder(report.engine.home) if report.engine else None
    return [
        *findings,
        *check_sidecars(holder, is_running=is_running is True),
        *check_config(config, topology),
        *check_state_dir(
            config.state_dir,
            mountinfo,
            is_running=is_running,
            outdated=last.outdated if last else "",
            is_ready=last is None or last.status.is_ready,
            is_vouched=is_running is True and last is not None and not last.outdated,
        ),
        *check_projections(config.projections, mountinfo),
        *(
            [UNJUDGED]
            if holder is not None and is_running is not True
            else [
                *check_containers(config, report, books.originals, topology.online if topology else EMPTY),
                *check_rules(config, report),
            ]
        ),
        *_check_hand(config, report, asked, closed),
        *check_fronts(fronts := fronts_here(), has_program=find_program() is not None),
        *(around := list(_check_around(config, is_running=is_running is True))),
        *check_exec(fronts, os.uname().release, is_wanted=wants_exec(config, report.views), is_elsewhere=bool(around)),
        *_check_groups(config, report, topology.online if topology else EMPTY),
        *_check_units(config, books, topology, asked),
        *check_unit_rules(config),
        *check_swarm(config, report.engine, node_capacity(config, topology, books, seen) if topology else None),
    ]


def _last(state_dir: str) -> LastStatus | None:
    """Return what a daemon last told there; None if it tells nothing."""
    try:
        return read_last_status(state_dir, time.time())
    except StateError:
        return None


def _closed(config: Config, last: LastStatus | None) -> str | None:
    """Return why no cgroups can be written directly, None if they can: as the daemon that runs tells, or else as it is
    for this command.
    """
    if last is not None and not last.outdated and last.status.hand is not None:
        return told_closed(last.status.hand, config)
    return closed_reason(config)


def _answers(config: Config) -> bool:
    """Return whether births are to be answered."""
    return find_hierarchy(config.cgroup) is not None and config.hand != "off" and not config.shared_slice


def _check_hand(config: Config, report: EngineReport, asked: AskedProcess, closed: str | None) -> Iterator[Finding]:
    """Yield what answers births and hears writes: nothing of speed where nothing answers, nothing under policy none."""
    if config.policy is PolicyName.NONE or find_hierarchy(config.cgroup) is None:
        return
    has_hand = closed is None and _answers(config)
    taken = _taken(config, report, is_running=asked.is_running) if has_hand else ()
    missing = missing_home(config, report.engine.name if report.engine else "") if has_hand else ()
    yield from check_hand(config, closed, taken, missing=missing, views=report.views)
    if has_hand:
        urgency = asked.urgency() if asked.daemon else tried_urgency()
        yield from check_speed(asked.library(), urgency, asked)
        yield from check_modes(asked)
    listens = listening(config, has_hand=has_hand)
    owners = sum("cpuset.exclusive" in each.labels for each in report.views)
    use, whose = inotify_use(user=asked.user), "the daemon's user" if asked.daemon else "this user"
    yield from check_inotify(use, listens, len(report.views), owners, is_running=asked.is_running, whose=whose)


def _taken(config: Config, report: EngineReport, *, is_running: bool) -> tuple[str, ...]:
    """Return the cgroup parents of the engine that another sidecar watches: as the daemon has found, or as they are."""
    if not is_running:
        return taken_parents(config, report.engine.name if report.engine else "")
    try:
        hand = read_status(config.state_dir).hand
    except StateError:
        return ()
    return hand.taken if hand else ()


def _check_around(config: Config, *, is_running: bool) -> Iterator[Finding]:
    """Yield which starts went around the front, where containers start through one; the running daemon counts them."""
    with suppress(StateError):
        around = read_status(config.state_dir).around if is_running else None
        if around is not None:
            verdict = Verdict.WARN if around.starts else Verdict.OK
            yield Finding("starts", verdict, around.text, cure_of(around.starts) if around.starts else "")


def _check_groups(config: Config, report: EngineReport, online: CPUSet) -> Iterator[Finding]:
    """Yield what is above containers: dockerd's configuration is read where it is to be seen."""
    # Only here: the daemon's imports.
    from sidecar.assembly import shared_group

    group = shared_group(config.shared_slice, cgroup=config.cgroup) if config.shared_slice else None
    yield from check_parents(config, report, online, shared=group.path if group else "")
    yield from check_shared_group(report, group, _settings_of_dockerd())


def _check_units(config: Config, books: State, topology: Topology | None, asked: AskedProcess) -> Iterator[Finding]:
    """Yield which processes of the host may run on exclusive CPUs. Where none can be exclusive, nothing is said."""
    if config.policy is not PolicyName.NONE and topology is not None:
        yield from check_units(
            find_hierarchy(config.cgroup),
            config.reserved or books.reserved,
            topology.online,
            is_confining=config.host_units == "auto",
            groups=config.host_groups,
            root=asked.root,
        )


def _settings_of_dockerd() -> Mapping[str, Any] | None:
    """Return dockerd's settings from its file and flag; None if neither is visible here."""
    from sidecar.cli.setup import dockerd_process

    running = dockerd_process.find_dockerd()
    path = (running and running.flag("config-file")) or DAEMON_JSON
    if not running and not os.path.isdir(os.path.dirname(path)):
        return None
    try:
        settings = read_daemon_json(path).settings
    except (SidecarError, StateError):
        return None
    parent = running and running.flag("cgroup-parent")
    return {**settings, "cgroup-parent": parent} if parent else settings


async def look_at(open_engine: OpenEngine, address: str) -> EngineReport:
    """Ask an engine for its identity and its containers."""
    try:
        async with open_engine(address) as engine:
            answer = await engine.info()
            views = []
            for id in await engine.containers():
                try:
                    views.append(await engine.inspect(id))
                except ContainerGone:
                    continue
            return EngineReport(engine=answer, views=tuple(views))
    except SidecarError as error:
        return EngineReport(error=str(error), is_lacking=isinstance(error, EngineLacks))


def rendered(findings: list[Finding], *, is_coloured: bool = False, width: int | None = None) -> list[str]:
    """Return a line for each finding, and the cure below it; longer ones are wrapped at `width`."""
    widest = max((len(finding.question) for finding in findings), default=0)
    margin = " " * (widest + 8)
    room = None if width is None else max(LEAST_WIDTH, width - len(margin))
    lines = []
    for finding in findings:
        word = f"{finding.verdict:<4}"
        shown = f"{_COLOURS[finding.verdict]}{word}\x1b[0m" if is_coloured else word
        first, *more = wrapped(finding.says, room, indent="")
        lines += [f"{shown}  {finding.question:<{widest}}  {first}", *(margin + line for line in more)]
        if finding.cure:
            lines += [margin + line for line in wrapped(f"cure: {finding.cure}", room)]
    return lines


def ask_engine(address: str) -> EngineReport:
    """Ask the engine at this address, outside any event loop."""
    # Only here: the daemon's imports, which no other check needs.
    import trio

    from sidecar.daemon import open_engine

    return trio.run(look_at, open_engine, address)


def _text(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""
