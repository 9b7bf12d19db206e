"""Doctor on the host's own processes: whether the sidecar confines them, and if not, which may run on owners' CPUs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Final

from sidecar.cli.doctor.host_checks import Finding, Verdict
from sidecar.config.config import Config
from sidecar.decide.container.rules import idle_unit_rules
from sidecar.decide.settings import Rule
from sidecar.host.cgroup.host_kernel import find_hierarchy
from sidecar.host.cgroup.places import Hierarchy
from sidecar.host.units.host_units import HostUnit, host_units, names_that_may_ask
from sidecar.natural_order import natural
from sidecar.systemd_names import names_what_may_ask
from sidecar.words.counts import agree, counted, some
from sidecar.words.settings_text import UNCHECKED_UNIT_RULES, of_none
from state.cpuset import CPUSet

_QUESTION: Final = "host processes"
_SHOWN: Final = 5
_CURE_NO_SYSTEMD: Final = "name groups in host_groups: docs/how-to/keep-the-host-off.md"
_CURE: Final = 'set host_units = "auto": docs/how-to/keep-the-host-off.md'
_FILES: Final = ("/etc/systemd/system", "/run/systemd/system", "/usr/lib/systemd/system")
"""Where units ask for CPUs of their own. A host that systemd runs has all three."""


def check_units(
    hierarchy: Hierarchy | None,
    reserved: CPUSet,
    online: CPUSet,
    *,
    is_confining: bool = False,
    groups: Sequence[str] = (),
    files: Sequence[str] = _FILES,
    root: str = "",
) -> Iterator[Finding]:
    """Check that systemd keeps the host's services and sessions on reserved CPUs, as far as that is to be seen; or,
    with `is_confining`, that the sidecar can confine them: these, or the `groups` that the configuration names. The
    files are those below `root`, where the daemon sees others than this command.
    """
    if hierarchy is None:
        return
    units = list(host_units(hierarchy.root, online)) if hierarchy.version == 2 else []
    if units and is_confining:
        holes = [unit for unit in units if unit.has_containers]
        says = f"the sidecar confines {counted(len(units) - len(holes), 'unit')} of systemd to the shared pool"
        yield Finding(_QUESTION, Verdict.OK, f"{says}, and not {_names(holes)}" if holes else says)
        if hidden := [each for each in files if not os.path.isdir(f"{root}{each}")]:
            says = f"{', '.join(hidden)} cannot be read here: a unit that asks there for CPUs of its own gets none"
            yield Finding(
                _QUESTION, Verdict.WARN, says, "mount the host's, read-only: docs/how-to/keep-the-host-off.md"
            )
        return
    if is_confining and groups:
        says = (
            f"the sidecar confines what host_groups names to the shared pool: {some(groups[:_SHOWN], of=len(groups))}"
        )
        yield Finding(_QUESTION, Verdict.OK, says)
        return
    if is_confining:
        says = "host_units is auto, but no unit of systemd with CPUs of its own is visible here"
        yield Finding(_QUESTION, Verdict.WARN, f"{says}: the host's own processes are not confined", _CURE_NO_SYSTEMD)
        return
    if not units:
        says = "the sidecar does not confine them, and no unit of systemd with CPUs of its own is visible here"
        yield Finding(_QUESTION, Verdict.WARN, f"{says}: they may run on exclusive CPUs", "")
        return
    loose = [unit for unit in units if unit.cpus & (online - reserved)]
    if not loose:
        says = f"{counted(len(units), 'unit')} of systemd {agree(len(units), 'is', 'are')} kept on the reserved CPUs"
        yield Finding(_QUESTION, Verdict.OK, says)
        return
    says = f"the sidecar does not confine them: {_names(loose)} may run on exclusive CPUs"
    yield Finding(_QUESTION, Verdict.WARN, says, _CURE)


def visible_units(config: Config) -> list[str] | None:
    """Return the names of the units that could ask for CPUs of their own; None if no units are visible here."""
    hierarchy = find_hierarchy(config.cgroup)
    if hierarchy is None or hierarchy.version != 2:
        return None
    return names_that_may_ask(str(hierarchy.root), config.leave) or None


def unit_rules_in_force(config: Config) -> list[Rule]:
    """Return the rules for units of the host that can have an effect: of the others the configuration warns."""
    is_confining = config.host_units != "off"
    return [rule for rule in config.rules if is_confining and rule.unit and names_what_may_ask(rule.unit)]


def check_unit_rules(config: Config) -> Iterator[Finding]:
    """Check that each rule for units of the host is some unit's, if units are visible."""
    if not (rules := unit_rules_in_force(config)):
        return
    names = visible_units(config)
    if names is None:
        yield Finding("rules", Verdict.WARN, UNCHECKED_UNIT_RULES, _CURE_NO_SYSTEMD)
        return
    idle = idle_unit_rules(names, rules)
    for rule in idle:
        cure = "correct its pattern, or put it before the rule that hides it; it may be for a unit that starts later"
        yield Finding("rules", Verdict.WARN, of_none(rule), cure)
    if not idle:
        yield Finding("rules", Verdict.OK, f"{counted(len(rules), 'rule')}, each of some unit")


def _names(units: list[HostUnit]) -> str:
    names = [f"{unit.name} (has containers)" if unit.has_containers else unit.name for unit in units]
    return some(sorted(names, key=natural)[:_SHOWN], of=len(names))
