"""What `doctor` reports about the cgroups above containers: what confines them, and whether the shared group does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from sidecar.cli.doctor.host_checks import EngineReport, Finding, Verdict
from sidecar.config.config import Config
from sidecar.decide.engine_traits import EngineTraits
from sidecar.decide.facts import ContainerView
from sidecar.engines.shared_group import PoolCgroup
from sidecar.failures import SidecarError
from sidecar.host.cgroup.confinement import parents
from sidecar.host.install.daemon_json import value_at
from sidecar.natural_order import natural
from sidecar.systemd_names import exclusive_beside, misread_by_runtimes
from sidecar.words.counts import agree, named, some
from sidecar.words.counts import cpus as counted_cpus
from state.cpuset import CPUSet

_SHOWN: Final = 5
"""Names in one finding."""


def check_parents(
    config: Config, report: EngineReport, online: CPUSet, *, shared: str = "", proc: str = "/proc"
) -> Iterator[Finding]:
    """Check for cgroups above containers that keep them off CPUs; `shared` is the path of the intended one."""
    if report.engine and 0 < report.engine.ncpu < len(online):
        says = (
            f"the engine knows {report.engine.ncpu} of {counted_cpus(len(online))}: it refuses updates with the others"
        )
        cure = (
            "widen its service (AllowedCPUs=, CPUAffinity=), and restart it; a restart alone is enough if CPUs came "
            "online after it started"
        )
        yield Finding("engine's CPUs", Verdict.WARN, says, cure)
    narrow: dict[str, tuple[CPUSet, list[str]]] = {}
    for view in report.views:
        for path, cpus in parents(view, cgroup=config.cgroup, proc=proc):
            if cpus and not online <= cpus and not _is_at_or_below(path, shared):
                narrow.setdefault(path, (cpus, []))[1].append(view.name)
                break
    for path, (cpus, names) in sorted(narrow.items()):
        says = f"the cgroup {path} has only {named(cpus)} for {_named(names)}: updates with others have no effect"
        cure = (
            "widen it (systemctl set-property NAME AllowedCPUs=..., or its cpuset.cpus), or use another cgroup_parent"
        )
        yield Finding("cgroup parents", Verdict.WARN, says, cure)
    odd = sorted({view.cgroup_parent for view in report.views if _is_misread(view)})
    if odd:
        begin = agree(len(odd), "begins", "begin")
        says = f"{_named(odd)} {begin} with a cgroup controller's name: systemd escapes it, but OCI runtimes do not"
        cure = "use another name: pause, stats and limits may not work for its containers"
        yield Finding("cgroup parents", Verdict.WARN, says, cure)


def check_shared_group(
    report: EngineReport, group: PoolCgroup | None, settings: Mapping[str, Any] | None
) -> Iterator[Finding]:
    """Check that the shared group is the default cgroup parent. `settings` are dockerd's; None if not visible."""
    engine = report.engine
    parent = value_at(settings or {}, ("cgroup-parent",))
    if engine is None:
        return
    if group is None:
        if parent:
            says = f"dockerd has cgroup-parent {parent!r}, but shared_slice is not set"
            cure = f'set shared_slice = "{parent}", or remove the key with `cpuset-sidecar install-slice --remove`'
            yield Finding("shared group", Verdict.WARN, says, cure)
        return
    try:
        group.check(engine)
    except SidecarError as error:
        yield Finding("shared group", Verdict.FAIL, str(error), "change shared_slice, or leave it out")
        return
    if engine.traits.has_default_parent and settings is not None and parent != group.name:
        says = f"shared_slice is {group.name!r}, but dockerd's cgroup-parent is {parent or 'not set'}"
        cure = "run `cpuset-sidecar install-slice`, then restart dockerd; or leave shared_slice out"
        yield Finding("shared group", Verdict.FAIL, says, cure)
        return
    plain = [view for view in report.views if view.phase.is_live and not view.cgroup_parent]
    outside = [view.name for view in plain if not group.whereabouts(view).startswith(f"{group.path}/")]
    if outside and engine.traits.has_default_parent:
        are = agree(len(outside), "is", "are")
        says = f"{_named(outside)} of {len(plain)} without a cgroup parent {are} not in {group.name}"
        cure = "restart dockerd if you have not yet, then these containers: each joins at its next start"
        yield Finding("shared group", Verdict.WARN, says, cure)
    wrong = [view.name for view in report.views if _is_labelled(view) and _would_be_inside(view, group, engine.traits)]
    if wrong:
        ask, are = agree(len(wrong), "asks", "ask"), agree(len(wrong), "is", "are")
        inside = f"{are} in {group.name}, which confines containers to the shared pool"
        says = f"{_named(wrong)} {ask} for exclusive CPUs, but {inside}"
        cure = f"recreate {agree(len(wrong), 'it', 'them')} with cgroup_parent: {exclusive_beside(group.name)}"
        yield Finding("shared group", Verdict.FAIL, says, cure)
    if not outside and not wrong:
        says = f"{group.name} confines the shared pool{'' if group.exists() else ', but is not used yet'}"
        yield Finding("shared group", Verdict.OK, says)


def _would_be_inside(view: ContainerView, group: PoolCgroup, traits: EngineTraits) -> bool:
    path = group.whereabouts(view) if view.phase.is_live else group.path_of(view.cgroup_parent or group.name) + "/"
    if not view.phase.is_live and not view.cgroup_parent and not traits.has_default_parent:
        return False
    return path.startswith(f"{group.path}/")


def _is_labelled(view: ContainerView) -> bool:
    return "cpuset.exclusive" in view.labels and view.labels.get("cpuset.manage") != "off"


def _is_misread(view: ContainerView) -> bool:
    return (
        view.cgroup_parent.endswith(".slice")
        and "/" not in view.cgroup_parent
        and misread_by_runtimes(view.cgroup_parent)
    )


def _is_at_or_below(path: str, group: str) -> bool:
    return bool(group) and f"{path}/".startswith(f"{group}/")


def _named(names: list[str]) -> str:
    shown = sorted(names, key=natural)[:_SHOWN]
    return some(shown, of=len(names))
