"""What will not work on this host, and how to fix it: one function for each question, from facts to findings.

`doctor` reads the host and the engine, these functions judge. Only the last ones look at the file system.
"""

from __future__ import annotations

import enum
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from sidecar.config.config import Config, read_file_again
from sidecar.config.running_settings import differing
from sidecar.decide.container.container import Standing
from sidecar.decide.container.mounts import is_single_file_mount
from sidecar.decide.container.originals import originals_of
from sidecar.decide.container.rules import idle_rules
from sidecar.decide.container.wish import wish_of
from sidecar.decide.facts import ContainerView, EngineInfo
from sidecar.decide.settings import PolicyName, TenantRight
from sidecar.failures import ConfigError
from sidecar.host.cgroup.places import Hierarchy
from sidecar.natural_order import natural
from sidecar.words.counts import agree, counted, cpus, named
from sidecar.words.misread import sentences
from sidecar.words.refusals import warnings as warnings_of
from sidecar.words.settings_text import of_none
from state import files
from state.cpuset import CPUSet
from state.key import ContainerKey
from state.model import Originals
from state.topology import Topology

_SHOWN: Final = 5
"""Names of containers in one finding; of more, their number."""

LEAST_FREE: Final = 256 * 1024
"""Bytes below which a file system counts as full: a file is written beside the one that it replaces."""

LEAST_FILES: Final = 16
"""Files more that a file system has to have room for."""

_MEMORY: Final = ("tmpfs", "ramfs")


class Verdict(enum.StrEnum):
    """How serious a finding is."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class Finding(msgspec.Struct, frozen=True):
    """The answer to one question: what is so, and what to do about it ("" if nothing)."""

    question: str
    verdict: Verdict
    says: str
    cure: str = ""


class EngineReport(msgspec.Struct, frozen=True, kw_only=True):
    """The engine's answer: itself and its containers (with `effective`), or the error."""

    engine: EngineInfo | None = None
    views: tuple[ContainerView, ...] = ()
    error: str = ""
    is_lacking: bool = False
    """It answers, but lacks something: the error contains the cure."""


def check_engine(report: EngineReport) -> Iterator[Finding]:
    """Check that the engine answers, and that it has cpusets."""
    if report.engine is None:
        # The error has the cure for what is known; this one is for what is not.
        cure = "`docker info` or `podman info` must answer for the same user; see the engine's log if it does not"
        yield Finding("engine", Verdict.FAIL, report.error, "" if report.is_lacking else cure)
        return
    engine = report.engine
    yield Finding(
        "engine", Verdict.OK, f"{engine.name} {engine.version} answers (API {engine.api_version}, {cpus(engine.ncpu)})"
    )
    if not engine.has_cpuset:
        cure = (
            "enable the cpuset controller; for a rootless engine: Delegate=cpu cpuset io memory pids in "
            "/etc/systemd/system/user@.service.d/delegate.conf, then log in again"
        )
        yield Finding(
            "cpuset controller",
            Verdict.FAIL,
            "the engine has no cpuset controller, so it cannot confine containers",
            cure,
        )
    else:
        kind = f"cgroup v{engine.cgroup_version or '?'}, driver {engine.cgroup_driver or 'unknown'}"
        yield Finding("cpuset controller", Verdict.OK, f"the engine has it ({kind})")


def check_cgroups(hierarchy: Hierarchy | None, root: str, report: EngineReport) -> Iterator[Finding]:
    """Check that the containers' effective CPUs can be read from the kernel."""
    cure = (
        "mount the host's /sys/fs/cgroup read-only into the sidecar, and set CPUSET_SIDECAR_CGROUP if it is elsewhere"
    )
    if hierarchy is None:
        says = f"no cgroup hierarchy with cpusets at {root}: updates cannot be verified"
        yield Finding("cgroups", Verdict.WARN, says, cure)
        return
    yield Finding("cgroups", Verdict.OK, f"v{hierarchy.version} at {hierarchy.root}")
    live = [view for view in report.views if view.phase.is_live]
    blind = [view for view in live if view.effective is None]
    if blind:
        says = f"the effective CPUs of {_names(blind)} cannot be read"
        yield Finding("effective CPUs", Verdict.WARN, says, cure)
    elif live:
        yield Finding("effective CPUs", Verdict.OK, f"readable for all that run ({counted(len(live), 'container')})")


def check_machine(topology: Topology) -> Iterator[Finding]:
    """Check that the machine has enough CPUs, and that its topology is complete."""
    says = ", ".join(
        (
            f"{cpus(len(topology.online))} in {counted(len(topology.cores), 'core')}",
            counted(len(topology.nodes), "NUMA node"),
        )
    )
    if len(topology.online) < 2:
        cure = "use a machine with two CPUs or more: one must stay reserved"
        yield Finding("machine", Verdict.FAIL, f"{says}: no CPU can be exclusive", cure)
    elif topology.notes:
        yield Finding("machine", Verdict.WARN, f"{says}; {'; '.join(topology.notes)}", "see `cpuset-sidecar topology`")
    else:
        yield Finding("machine", Verdict.OK, says)
    if topology.isolated:
        says = f"the kernel isolates {named(topology.isolated)} (isolcpus): it balances no load there"
        cure = "boot without isolcpus: shared containers may all end up on one of these CPUs"
        yield Finding("isolated CPUs", Verdict.WARN, says, cure)


def check_file(running: Config) -> Iterator[Finding]:
    """Check whether a running daemon's file still says what the daemon goes by, if the file is visible here."""
    if not running.file or not os.path.exists(running.file):
        return
    read = read_file_again(running)
    if not isinstance(read, Config):
        says = f"{running.file} was changed since the daemon read it, and has mistakes: {'; '.join(sentences(read))}"
        yield Finding("settings", Verdict.WARN, says, "correct it: the daemon would not start with it")
    elif changed := differing(read, running):
        says = f"{running.file} was changed since the daemon read it: {', '.join(changed)}"
        yield Finding("settings", Verdict.WARN, says, "have the daemon read it again (SIGHUP), or restart it")


def check_config(config: Config, topology: Topology | None) -> Iterator[Finding]:
    """Check that the configuration fits the machine, and that its policy grants CPUs."""
    where = config.file or "no file"
    if config.policy is PolicyName.NONE:
        cure = "set policy to static, and reserved to a CPU list: --policy static --reserved 0"
        yield Finding("policy", Verdict.WARN, f"it is none ({where}): no container is changed", cure)
    else:
        yield Finding("policy", Verdict.OK, f"{config.policy} ({where})")
    if topology is None:
        return
    try:
        warnings = config.check_against(topology)
    except ConfigError as error:
        for told in error.sentences:
            yield Finding("reserved CPUs", Verdict.FAIL, told, "change reserved or shared_min")
        return
    for warning in warnings:
        yield Finding("reserved CPUs", Verdict.WARN, warning, "see docs/how-to/reserve-cpus.md")
    if not warnings and config.policy is not PolicyName.NONE:
        reserved = config.reserved or f"{config.reserved_count} of them"
        yield Finding("reserved CPUs", Verdict.OK, f"{reserved}")
    threads = max(len(core.cpus) for core in topology.cores)
    if threads > 1 and config.policy is not PolicyName.NONE and "full-pcpus-only" not in config.options:
        says = f"{threads} CPUs share a core: two containers may get siblings and slow each other down"
        yield Finding("SMT", Verdict.WARN, says, "add the option: --options full-pcpus-only")
    if config.policy is PolicyName.DYNAMIC and not config.shared_min:
        says = "containers that fill spare CPUs may leave only the reserved ones to all others"
        yield Finding("shared pool", Verdict.WARN, says, "set shared_min to as many CPUs as the others need")


def check_containers(
    config: Config, report: EngineReport, originals: Mapping[ContainerKey, Originals], online: CPUSet
) -> Iterator[Finding]:
    """Check for pinned containers, wrong labels and mounts of single files."""
    settings = config.settings()
    wishes = [
        (view, wish_of(view, settings, originals.get(view.key) or originals_of(view), online)) for view in report.views
    ]
    if pinned := [view for view, wish in wishes if wish.standing is Standing.STRANGER or wish.pin]:
        cure = "to have them managed, recreate them without a cpuset; until then no other is granted their CPUs"
        holds = TenantRight.PIN in settings.may or all(w.is_kept_out_by_owner for v, w in wishes if v in pinned)
        cure += "" if holds else " while they run"
        yield Finding(
            "pinned by hand",
            Verdict.WARN,
            f"{_names(pinned)} {agree(len(pinned), 'has a cpuset of its', 'have a cpuset of their')} own",
            cure,
        )
    if stale := [view for view in report.views if is_single_file_mount(view, settings)]:
        says = f"{_names(stale)} {agree(len(stale), 'mounts', 'mount')} a single projected file, which stays stale"
        yield Finding("mounts", Verdict.FAIL, says, "mount the directory instead, and read the file in it")
    for view, wish in sorted(wishes, key=lambda each: natural(each[0].name)):
        if said := warnings_of(wish):
            says = f"{view.name}: {'; '.join(said)}"
            yield Finding("labels", Verdict.WARN, says, "correct the labels, and recreate the container")


def check_rules(config: Config, report: EngineReport) -> Iterator[Finding]:
    """Check that each rule for containers is some container's, if the engine has told its containers."""
    rules = [rule for rule in config.rules if not rule.unit]
    if report.engine is None or not rules:
        return
    idle = idle_rules(report.views, rules)
    for rule in idle:
        cure = "correct its patterns, or put it before the rule that hides it; it may be for containers to come"
        yield Finding("rules", Verdict.WARN, of_none(rule), cure)
    if not idle:
        yield Finding("rules", Verdict.OK, f"{counted(len(rules), 'rule')}, each of some container")


def check_state_dir(
    path: str,
    mountinfo: str,
    *,
    is_running: bool | None,
    outdated: str = "",
    is_ready: bool = True,
    is_vouched: bool = False,
) -> Iterator[Finding]:
    """Check that the state can be recorded, and survives a reboot; and that a daemon that runs vouches for what it
    tells: `outdated` says why that may be out of date, "" if it is not. One that is not ready waits for its engine.
    With `is_vouched` it has just written there, whatever this command may write.
    """
    if is_running and outdated:
        cure = "free the disk if it is full; else see its log, and restart it"
        if not is_ready:
            cure = "make its engine answer: it goes on by itself then"
        yield Finding("daemon", Verdict.FAIL, outdated, cure)
    if not is_vouched and (trouble := _unwritable(path)):
        cure = "mount a writable volume there, or set state_dir"
        yield Finding("state directory", Verdict.FAIL, trouble, cure)
        return
    if trouble := _full(path):
        yield Finding("state directory", Verdict.FAIL, trouble, "free some, or set state_dir to another file system")
        return
    kind = file_system(path, mountinfo)
    if kind in _MEMORY:
        says = f"{path} is on {kind}: the original settings of containers are lost at a reboot"
        yield Finding("state directory", Verdict.WARN, says, "put it on a disk or a named volume")
    else:
        yield Finding("state directory", Verdict.OK, f"{path} can be written ({kind})")
    if is_running and not outdated:
        yield Finding("daemon", Verdict.OK, f"it is running on {path}")


def check_projections(
    path: str, mountinfo: str, has_links: Callable[[Path], bool | None] = files.has_links
) -> Iterator[Finding]:
    """Check that projections can be written, and that their leases can be renewed by another name."""
    if trouble := _unwritable(path):
        cure = "mount a writable volume there, or set projections"
        yield Finding("projections", Verdict.FAIL, trouble, cure)
        return
    if trouble := _full(path):
        yield Finding("projections", Verdict.FAIL, trouble, "free some, or set projections to another file system")
        return
    kind = file_system(path, mountinfo)
    if has_links(_nearest(path)) is False:
        says = f"{path} is on {kind}, which has no hard links: the sidecar could not vouch for any projection"
        yield Finding("projections", Verdict.FAIL, says, "use a tmpfs, as /run is, or set projections")
        return
    if kind in _MEMORY:
        yield Finding("projections", Verdict.OK, f"{path} can be written ({kind})")
    else:
        says = f"{path} is on {kind}: every change is written to disk, and old files survive a reboot"
        yield Finding("projections", Verdict.WARN, says, "use a tmpfs")


def file_system(path: str, mountinfo: str) -> str:
    """Return the type of the file system that a path is on, from /proc/self/mountinfo (proc_pid_mountinfo(5))."""
    best, kind = -1, "unknown"
    for line in mountinfo.splitlines():
        left, dash, right = line.partition(" - ")
        fields = left.split(" ")
        if not dash or len(fields) < 5:
            continue
        point = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), fields[4])
        is_above = point == "/" or path == point or path.startswith(point + "/")
        # A later line for the same place covers an earlier one.
        if is_above and len(point) >= best:
            best, kind = len(point), right.split(" ")[0]
    return kind


def _unwritable(path: str) -> str:
    """Return why a directory cannot be written, "" if it can. One that is missing can be made if its parent can be
    written.
    """
    at = _nearest(path)
    if not os.path.isdir(at):
        return f"{at} is not a directory"
    if os.access(at, os.W_OK | os.X_OK):
        return ""
    return f"{at} cannot be written" if at == Path(path) else f"{path} is missing, and {at} cannot be written"


def _full(path: str) -> str:
    """Return why nothing more can be written to the file system of a directory, "" if something can."""
    try:
        found = os.statvfs(_nearest(path))
    except OSError:
        return ""
    # Only root may use what is kept for it.
    free = (found.f_bfree if os.geteuid() == 0 else found.f_bavail) * found.f_frsize
    if free < LEAST_FREE:
        return f"the file system of {path} has {free // 1024} KiB free: files of the sidecar cannot be replaced"
    if found.f_files > 0 and found.f_ffree < LEAST_FILES:
        return f"the file system of {path} has room for {found.f_ffree} files: the sidecar's cannot be replaced"
    return ""


def _nearest(path: str) -> Path:
    """Return the directory, or what is nearest above it."""
    at = Path(path)
    while not os.path.exists(at) and at != at.parent:
        at = at.parent
    return at


def _names(views: list[ContainerView]) -> str:
    names = sorted((view.name for view in views), key=natural)
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
