"""What `doctor` reports about inotify: whether the kernel lets the daemon hear all that it listens to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from sidecar.cli.doctor.host_checks import Finding, Verdict
from sidecar.config.config import Config
from sidecar.decide.settings import PolicyName
from sidecar.hand.inotify_limits import InotifyUse
from sidecar.words.counts import counted

BIRTHS: Final = "births are not answered"
WRITES: Final = "writes of other programs are not noticed"
ACKNOWLEDGEMENTS: Final = "acknowledgements are noticed later"

_OF_A_HAND: Final = 1
_WITHOUT_A_HAND: Final = 2
"""Watches for a container: of the hand on its cgroup; or on its file, and on that of the scope around it."""

_OF_AN_OWNER: Final = 1
"""What the hand has more for one with exclusive CPUs: on the groups inside it. Each of these takes one as well."""


class Listening(NamedTuple):
    """What the daemon listens to."""

    losses: tuple[str, ...]
    """For each inotify instance, in the order in which the daemon opens them: what is lost without it."""
    watches_each: int
    """How many watches a container takes at most."""
    watches_more: int = 0
    """How many more one takes that asks for CPUs of its own."""


def listening(config: Config, *, has_hand: bool) -> Listening:
    """Return what a daemon of this configuration listens to; `has_hand` says whether it can write cgroups itself."""
    dynamic = (ACKNOWLEDGEMENTS,) if config.policy is PolicyName.DYNAMIC else ()
    if not has_hand:
        return Listening((WRITES, *dynamic), _WITHOUT_A_HAND)
    return Listening((BIRTHS, WRITES, *dynamic), _OF_A_HAND, _OF_AN_OWNER)


def check_inotify(
    use: InotifyUse, listens: Listening, containers: int, owners: int = 0, *, is_running: bool, whose: str = "this user"
) -> Iterator[Finding]:
    """Check that inotify has room for the daemon's instances, and for so many containers, of which so many ask for CPUs
    of their own. The instances of a daemon that is running are in `use` already, which is that of its user: `whose`.
    """
    to_open = () if is_running else listens.losses
    lacking = len(to_open) - use.free_instances
    if lacking > 0 or use.instances_run_out:
        losses = to_open[-lacking:] if lacking > 0 else listens.losses
        opens = "" if is_running else f", and the sidecar opens {len(to_open)} more"
        yield Finding(
            "inotify",
            Verdict.WARN,
            f"{whose} has {use.instances} of at most {counted(use.max_instances, 'inotify instance')}{opens}: "
            f"without one, {', '.join(losses)}",
            "raise it: sysctl fs.inotify.max_user_instances=1024",
        )
    needed = containers * listens.watches_each + owners * listens.watches_more
    watches = f"{whose} has {use.watches} of at most {use.max_watches} inotify watches"
    if use.watches_run_out or not use.has_room_for(needed):
        says = f"{watches}: without one, {WRITES}"
        yield Finding("inotify", Verdict.WARN, says, "raise it: sysctl fs.inotify.max_user_watches=65536")
    elif lacking <= 0 and not use.instances_run_out:
        yield Finding("inotify", Verdict.OK, watches)
