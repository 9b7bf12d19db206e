"""What `doctor` reports about the hand: whether births can be answered by the kernel first, and how fast."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from typing import Final

from sidecar.cli.doctor.daemon_process import DAC_OVERRIDE, AskedProcess
from sidecar.cli.doctor.host_checks import Finding, Verdict
from sidecar.config.config import Config
from sidecar.decide.facts import ContainerView
from sidecar.failures import CgroupClosed
from sidecar.hand.group_access import open_groups
from sidecar.hand.group_files import GroupFiles
from sidecar.hand.parent_lock import lock_directory
from sidecar.hand.parents import default_parents
from sidecar.hand.reflex_queue import Library
from sidecar.hand.urgency import Urgency, hurry
from sidecar.status.document import HandStatus
from sidecar.words.hands import SWITCHED_OFF, no_hand, no_such_home, parents_taken, reflex_told

_PRIORITIES: Final = {Urgency.REAL_TIME: "real-time priority", Urgency.RAISED: "a raised priority"}


def told_closed(hand: HandStatus | None, config: Config) -> str | None:
    """Return why the daemon that runs writes no cgroups, as it tells itself, with the cure; None if it does. What it
    tells of a `hand` that it was not to have is no word on another configuration.
    """
    if hand is None or hand.taken or not hand.text.startswith(no_hand("")):
        return None
    reason = hand.text.removeprefix(no_hand(""))
    return closed_reason(config) if reason == SWITCHED_OFF else reason


def closed_reason(config: Config) -> str | None:
    """Return why this process could write no cgroups directly, with the cure; None if it could."""
    try:
        files, _ = open_groups(config.cgroup)
    except CgroupClosed as error:
        return str(error)
    files.close()
    return None


def taken_parents(config: Config, engine: str) -> tuple[str, ...]:
    """Return the parents of this engine that another process watches now; none if that cannot be found out."""
    try:
        files, manager = open_groups(config.cgroup)
    except CgroupClosed:
        return ()
    wanted = default_parents(engine, manager, "" if config.hand == "auto" else config.hand)
    try:
        return tuple(path for path in sorted(wanted) if _is_taken(files, path))
    finally:
        files.close()


def missing_home(config: Config, engine: str) -> tuple[str, ...]:
    """Return where `hand` says that this engine's containers are born, if there is no such cgroup; nothing else."""
    if config.hand in ("auto", "off"):
        return ()
    try:
        files, manager = open_groups(config.cgroup)
    except CgroupClosed:
        return ()
    try:
        paths = tuple(sorted(default_parents(engine, manager, config.hand)))
        return () if any(os.path.isdir(f"{files.root}{path}") for path in paths) else paths
    finally:
        files.close()


def _is_taken(files: GroupFiles, path: str) -> bool:
    try:
        fd = files.open_path(path)
    except OSError:
        return False
    try:
        os.close(lock_directory(fd))
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(fd)
    return False


def tried_urgency() -> Urgency:
    """Return the priority that a thread of this process gets, by one that ends at once."""
    got: list[Urgency] = []
    thread = threading.Thread(target=lambda: got.append(hurry()))
    thread.start()
    thread.join()
    return got[0] if got else Urgency.ORDINARY


def check_hand(
    config: Config,
    closed: str | None,
    taken: Sequence[str] = (),
    *,
    missing: Sequence[str] = (),
    views: Sequence[ContainerView] = (),
) -> Iterator[Finding]:
    """Check that births are answered by the kernel first, or say why not. `closed` as `closed_reason` returns it,
    `taken` as `taken_parents`, where another sidecar answers, and `missing` as `missing_home`. That counts while some
    of these containers run and name no parent: the engine makes its own for the first of them.
    """
    is_missing = bool(missing) and any(each.phase.is_live and not each.cgroup_parent for each in views)
    if config.hand == "off":
        yield Finding("births", Verdict.OK, no_hand(SWITCHED_OFF))
    elif config.shared_slice:
        yield Finding("births", Verdict.OK, "the shared group confines them")
    elif closed is not None:
        cure = "until then a new container may start on exclusive CPUs; see docs/how-to/the-kernel-first.md"
        yield Finding("births", Verdict.WARN, no_hand(closed), cure)
    elif taken:
        problem, cure = parents_taken(taken)
        yield Finding("births", Verdict.WARN, f"cgroups can be written, but {problem}", cure)
    elif is_missing:
        says = f"{no_such_home(missing)}, and containers run that name no cgroup parent: the engine alone moves these"
        cure = "set `hand` to the engine's own default parent (`--cgroup-parent`), or leave it out; then restart"
        yield Finding("births", Verdict.WARN, says, cure)
    else:
        yield Finding("births", Verdict.OK, "cgroups can be written: each birth is answered by the kernel first")


def check_modes(asked: AskedProcess) -> Iterator[Finding]:
    """Check that a cgroup can be written whatever its mode is. Only where births are answered."""
    if not asked.may(DAC_OVERRIDE):
        says = "CAP_DAC_OVERRIDE is missing: a container that changes the modes of its own cgroup keeps its CPUs"
        yield Finding("modes", Verdict.WARN, f"{says} {asked.told}", "add the capability: cap_add: [DAC_OVERRIDE]")


def check_speed(library: Library, urgency: Urgency | None, asked: AskedProcess) -> Iterator[Finding]:
    """Check how fast a birth is answered. Only where births are answered."""
    is_unfit = library.path is None and library.is_there
    says = reflex_told(fits=library.path is not None, is_there=library.is_there)
    cure = "install the package again" if is_unfit else ""
    yield Finding("reflex", Verdict.WARN if is_unfit else Verdict.OK, says, cure)
    if urgency is Urgency.ORDINARY:
        says = f"CAP_SYS_NICE is missing: on a busy host births are answered later {asked.told}"
        yield Finding("urgency", Verdict.WARN, says, "add the capability: cap_add: [SYS_NICE]")
        return
    says = "births may be answered with a raised priority, and no thread answers any now"
    if urgency:
        says = f"births are answered with {_PRIORITIES[urgency]}"
    yield Finding("urgency", Verdict.OK, f"{says} {asked.told}")
