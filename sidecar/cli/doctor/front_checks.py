"""What `doctor` reports about the fronts on this host: whether each is the compiled one, and whether it could be."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Final

from sidecar.cli.doctor.host_checks import Finding, Verdict
from sidecar.config.config import Config
from sidecar.decide.container.labels import EXEC
from sidecar.decide.facts import ContainerView
from sidecar.failures import ConfigError
from sidecar.host.install.fronts import installed_fronts
from sidecar.host.install.runtime_files import Places
from sidecar.words.around import fronts_told
from sidecar.words.exec_text import NO_FRONT, NO_FRONT_CURE, OLD_KERNEL
from state.errors import StateError
from state.exec_rule import ExecRule

REMEMBERING_KERNEL: Final = (6, 2)
"""From here on the affinity that a process asked for outlives its move into a cpuset."""


def fronts_here() -> Mapping[str, bool]:
    """Return the fronts of the usual place, by the names of their runtimes, and whether each is the compiled one."""
    with suppress(ConfigError, StateError):
        return installed_fronts("/", Places())
    return {}


def wants_exec(config: Config, views: Iterable[ContainerView]) -> bool:
    """Return whether anything says where exec and health checks begin: the node's key, a rule, or a label."""
    labels = (*(rule.labels for rule in config.rules), *(view.labels for view in views))
    return config.exec != ExecRule() or any(EXEC in each for each in labels)


def check_exec(
    fronts: Mapping[str, bool], release: str, *, is_wanted: bool, is_elsewhere: bool = False
) -> Iterator[Finding]:
    """Check that fronts can have processes begin where labels, or the node, want it; nothing where none does. A front
    that is installed elsewhere is not to be seen, but has asked.
    """
    if not is_wanted:
        return
    if not (fronts or is_elsewhere):
        yield Finding("exec", Verdict.WARN, NO_FRONT, NO_FRONT_CURE)
    numbers = re.match(r"(\d+)\.(\d+)", release)
    if numbers and tuple(map(int, numbers.groups())) < REMEMBERING_KERNEL:
        yield Finding("exec", Verdict.WARN, OLD_KERNEL, "")


def check_fronts(fronts: Mapping[str, bool], *, has_program: bool) -> Iterator[Finding]:
    """Check which front asks before a start; nothing where there is none."""
    if not fronts:
        return
    is_slow = has_program and not all(fronts.values())
    cure = "`cpuset-sidecar install-runtime` puts the compiled one there, with the words of before" if is_slow else ""
    yield Finding("front", Verdict.WARN if is_slow else Verdict.OK, fronts_told(fronts), cure)
