"""Sentences about a release: which containers have their original settings again, and which do not. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sidecar.natural_order import natural
from sidecar.words.counts import counted
from state.cpuset import CPUSet


def restored(names: Sequence[str], written_out: Sequence[str], online: CPUSet, gone: str) -> tuple[str, ...]:
    """Return what a release did for `names`. Of these, `written_out` had no cpuset before, and an engine cannot clear
    one. `gone` says how many did not exist any more, "" for none.
    """
    said = [f"restored: {', '.join(sorted(names, key=natural))}"] if names else []
    if written_out:
        many = len(written_out) > 1
        said.append(
            f"{len(written_out)} had no cpuset before, and {'have' if many else 'has'} {online} written out until "
            f"{'they are' if many else 'it is'} recreated: {', '.join(sorted(written_out, key=natural))}"
        )
    if gone:
        said.append(f"{gone} did not exist any more")
    return tuple(said)


def nothing_known(state_dir: str) -> str:
    """Return that no container was ever changed from this directory."""
    return f"nothing to restore: the state recorded in {state_dir} knows of no container"


def astray(state_dir: str, confined: Mapping[str, str]) -> str:
    """Return that containers have these cpusets, by name, and the recorded state knows of none."""
    have = _with_cpusets(confined)
    verb = "has" if len(confined) == 1 else "have"
    return (
        f"the state recorded in {state_dir} knows of no container, but {counted(len(confined), 'container')} {verb} a "
        f"cpuset: {have}; nothing was changed: is --state-dir right?"
    )


def others(confined: Mapping[str, str]) -> str:
    """Return that containers have cpusets, by name, that the sidecar did not give them."""
    have = _with_cpusets(confined)
    return f"not the sidecar's, and unchanged: the cpuset of {have}"


def fronts_stay(names: Sequence[str]) -> str:
    """Return that fronts are still installed, by the names of their runtimes, and what that means from now on."""
    return (
        f"still installed before runtimes: {', '.join(names)}: while no sidecar runs, what asks for CPUs is not "
        "started through them; `cpuset-sidecar install-runtime --remove` takes them away"
    )


def not_as_before(cpuset: str) -> str:
    """Return that the engine shows another cpuset than the original one after the release."""
    return f"the engine shows the cpuset {cpuset or 'none'}"


def _with_cpusets(confined: Mapping[str, str]) -> str:
    return ", ".join(f"{name} ({confined[name]})" for name in sorted(confined, key=natural))
