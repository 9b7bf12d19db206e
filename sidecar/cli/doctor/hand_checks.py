"""What `doctor` reports about the hand: whether births can be answered by the kernel first, and how fast."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from sidecar.cli.doctor.host_checks import Finding, Verdict
from sidecar.config.config import Config
from sidecar.failures import CgroupClosed
from sidecar.hand.group_access import open_groups
from sidecar.hand.inotify_limits import InotifyUse
from sidecar.hand.urgency import Urgency, hurry
from sidecar.words.hands import SWITCHED_OFF, no_hand


def closed_reason(config: Config) -> str | None:
    """Return why this process could write no cgroups directly, with the cure; None if it could."""
    try:
        files, _ = open_groups(config.cgroup)
    except CgroupClosed as error:
        return str(error)
    files.close()
    return None


def tried_urgency() -> Urgency:
    """Return the priority that a thread of this process gets, by one that ends at once."""
    got: list[Urgency] = []
    thread = threading.Thread(target=lambda: got.append(hurry()))
    thread.start()
    thread.join()
    return got[0] if got else Urgency.ORDINARY


def check_hand(config: Config, closed: str | None) -> Iterator[Finding]:
    """Check that births are answered by the kernel first, or say why not. `closed` as `closed_reason` returns it."""
    if config.hand == "off":
        yield Finding("births", Verdict.OK, no_hand(SWITCHED_OFF))
    elif config.shared_slice:
        yield Finding("births", Verdict.OK, "the shared group confines them")
    elif closed is not None:
        cure = "until then a new container may start on exclusive CPUs; see docs/how-to/the-kernel-first.md"
        yield Finding("births", Verdict.WARN, no_hand(closed), cure)
    else:
        yield Finding("births", Verdict.OK, "cgroups can be written: each birth is answered by the kernel first")


def check_speed(*, has_reflex: bool, urgency: Urgency) -> Iterator[Finding]:
    """Check how fast a birth is answered. Only where births are answered."""
    if has_reflex:
        yield Finding("reflex", Verdict.OK, "the compiled reflex answers births")
    else:
        says = "the watcher in Python answers births, later on a busy host: the compiled reflex is not installed"
        yield Finding("reflex", Verdict.OK, says)
    if urgency is Urgency.ORDINARY:
        says = "CAP_SYS_NICE is missing: on a busy host births are answered later"
        yield Finding("urgency", Verdict.WARN, says, "add the capability: cap_add: [SYS_NICE]")
    else:
        priority = "real-time priority" if urgency is Urgency.REAL_TIME else "a raised priority"
        yield Finding("urgency", Verdict.OK, f"births are answered with {priority}")


def check_watches(use: InotifyUse, containers: int) -> Iterator[Finding]:
    """Check that inotify has room for so many containers."""
    watches = f"this user has {use.watches} of at most {use.max_watches} inotify watches"
    instances = f"this user has {use.instances} of at most {use.max_instances} inotify instances"
    if use.instances_run_out:
        cure = "raise it: sysctl fs.inotify.max_user_instances=1024"
        yield Finding("inotify", Verdict.WARN, f"{instances}: without one, births are not answered", cure)
    if use.watches_run_out or not use.has_room_for(containers):
        says = f"{watches}: without one, writes of other programs are not noticed"
        yield Finding("inotify", Verdict.WARN, says, "raise it: sysctl fs.inotify.max_user_watches=65536")
    elif not use.instances_run_out:
        yield Finding("inotify", Verdict.OK, watches)
