"""What `doctor` reports about the fronts on this host: whether each is the compiled one, and whether it could be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress

from sidecar.cli.doctor.host_checks import Finding, Verdict
from sidecar.failures import ConfigError
from sidecar.host.install.fronts import installed_fronts
from sidecar.host.install.runtime_files import Places
from sidecar.words.around import fronts_told
from state.errors import StateError


def fronts_here() -> Mapping[str, bool]:
    """Return the fronts of the usual place, by the names of their runtimes, and whether each is the compiled one."""
    with suppress(ConfigError, StateError):
        return installed_fronts("/", Places())
    return {}


def check_fronts(fronts: Mapping[str, bool], *, has_program: bool) -> Iterator[Finding]:
    """Check which front asks before a start; nothing where there is none."""
    if not fronts:
        return
    is_slow = has_program and not all(fronts.values())
    cure = "`cpuset-sidecar install-runtime` puts the compiled one there, with the words of before" if is_slow else ""
    yield Finding("front", Verdict.WARN if is_slow else Verdict.OK, fronts_told(fronts), cure)
