"""How engines differ, as values. `engines/traits_table` has them by engine and version."""

from __future__ import annotations

import msgspec


class EngineTraits(msgspec.Struct, frozen=True, kw_only=True):
    """The differences between engines that matter here. All else is common to all. The defaults are Docker's."""

    needs_service: bool = True
    """No container starts while the service that answers is silent; else a command line starts them by itself."""
    keeps_updates: bool = True
    """An update holds at the next start; else the container starts with its old limits, and its description says so."""
    resets_unnamed_limits: bool = False
    """An update may reset limits that it does not name."""
    tells_updates: bool = True
    """An update comes back as an event; else a change behind the back shows with the next look."""
    tells_late: float = 0.0
    """Seconds by which an event may be late."""
    has_default_parent: bool = True
    """A cgroup parent can be set for all containers that name none."""
    confines_builds: bool = True
    """The steps of a build are born below the cgroup parent of containers, so a hand confines them."""
    limits_one_way: bool = False
    """A limit is told and changed as nano CPUs alone, however it was asked for, and an update by quota is one, too."""
    only_delivers: bool = False
    """A signal is delivered, whatever the stop signal, and resumes no paused container."""
    signal_forgets_policy: bool = False
    """A container that was sent a signal is not started again when it ends, whatever the stop signal."""
    tells_intentions: bool = False
    """A restart is told when it begins, and a stop by the end of its program; else both are told when they are done."""
    glances_from_memory: bool = False
    """A glance tells the phase that was last seen or heard of."""
