"""Names of systemd slices, and where their cgroups are: systemd.slice(5), checked in tests/vm/slice.sh.

Two rules apply to a name:

- Dashes nest: `a-b.slice` lies in `a.slice`.
- A cgroup directory may not look like a file of a controller. So systemd writes `cpu.slice` as `_cpu.slice`, and the
 same for every slice whose name begins with `cpu-`, `cpuset-`, `memory-` ... OCI runtimes do not know that: under
 the systemd driver they work on a second, empty cgroup of the plain name, and a pause, for instance, freezes nothing.
 Such a name is unsuitable as a parent of containers.
"""

from __future__ import annotations

import posixpath
import re
from typing import Final

SHARED: Final = "sidecar-shared.slice"
EXCLUSIVE: Final = "sidecar-exclusive.slice"
"""Slices that `install-slice` makes: for new containers, and for containers with exclusive CPUs."""

SHARED_PATH: Final = "/sidecar-shared"
EXCLUSIVE_PATH: Final = "/sidecar-exclusive"
"""The same under the cgroupfs driver, where a cgroup parent is a path."""

_CONTROLLERS: Final = frozenset(
    (
        "cgroup",
        "cpu",
        "cpuacct",
        "cpuset",
        "io",
        "blkio",
        "memory",
        "devices",
        "pids",
        "bpf-firewall",
        "bpf-devices",
        "bpf-foreign",
        "bpf-socket-bind",
        "bpf-restrict-network-interfaces",
        "bpf-bind-network-interface",
    )
)
"""Names that systemd takes for a controller in the name of a cgroup (its cgroup-util.h), and `cgroup`, the core's
files.
"""

_OF_CONTAINER: Final = re.compile(r"(docker-|libpod-|cri-containerd-)?[0-9a-f]{64}(\.scope)?")
"""What engines call the cgroup of a container."""

_MAY_ASK: Final = (".service", ".slice")
"""Units that have files of their own, and processes: how the names of those end that can ask for CPUs."""

_SLICE: Final = re.compile(r"[A-Za-z0-9:_.\\]+(-[A-Za-z0-9:_.\\]+)*\.slice")


def exclusive_beside(shared: str) -> str:
    """Return the cgroup parent for containers with exclusive CPUs, where this one confines the shared pool."""
    return EXCLUSIVE_PATH if shared.startswith("/") else EXCLUSIVE


def is_slice(name: str) -> bool:
    """Return whether this is a slice's name that can be nested: no dash at an end, no two in a row."""
    return len(name) <= 255 and _SLICE.fullmatch(name) is not None


def may_ask(name: str) -> bool:
    """Return whether a unit of this kind can ask for CPUs."""
    return name.endswith(_MAY_ASK)


def names_what_may_ask(pattern: str) -> bool:
    """Return whether a pattern can be that of a unit that can ask: as its end after the last wildcard is."""
    end = re.split(r"[*?\]]", pattern)[-1]
    return may_ask(end) or (end != pattern and any(kind.endswith(end) for kind in _MAY_ASK))


def slice_path(name: str) -> str:
    """Return where systemd has the cgroup of a slice, below the hierarchy's root; "" for the root slice."""
    parts = name.removesuffix(".slice").split("-")
    if not all(parts):
        return "" if name == "-.slice" else f"/{_escaped(name)}"
    return "".join(f"/{_escaped('-'.join(parts[:depth]) + '.slice')}" for depth in range(1, len(parts) + 1))


def cleaned_parent(parent: str) -> str:
    """Return a cgroup parent that an engine was given as runtimes take it: of a path, without parts that are empty, `.`
    or `..`, whatever was written. A tenant chooses the spelling, and what is compared with it is the kernel's.
    """
    parts = parent.removeprefix("/").rstrip("/").split("/")
    if not parent.strip("/") or not {"", ".", ".."}.intersection(parts):
        return parent
    return posixpath.normpath(f"/{parent.strip('/')}")


def parent_path(parent: str) -> str:
    """Return where the cgroup is that an engine was given as a parent, a slice or a path; "" for the engine's own."""
    if not parent:
        return ""
    return slice_path(parent) if is_slice(parent) else f"/{cleaned_parent(parent).strip('/')}"


def is_inside_a_container(parent: str, pod: str = "") -> bool:
    """Return whether a cgroup parent that an engine was given is the cgroup of a container, or inside it, by what its
    parts are called: whether there is such a container is not asked. That of the container's own pod, which has this
    id, is none.
    """
    return any(_OF_CONTAINER.fullmatch(part) and part != pod for part in parent.split("/"))


def outside_containers(parent: str, pod: str = "") -> str:
    """Return the cgroup, as a path, in which the outermost container lies that this cgroup parent is inside of; "" if
    it is inside none.
    """
    parts = parent.strip("/").split("/")
    within = [_OF_CONTAINER.fullmatch(part) is not None and part != pod for part in parts]
    return f"/{'/'.join(parts[: within.index(True)])}" if any(within) else ""


def parent_in(group: str) -> str:
    """Return the cgroup parent in what an OCI runtime was given as a container's cgroup: a path that ends in its name,
    or `parent.slice:prefix:ID` under systemd's driver.
    """
    is_unit = group.count(":") == 2 and "/" not in group
    return group.partition(":")[0] if is_unit else cleaned_parent(group.rpartition("/")[0])


def pod_in(group: str) -> str:
    """Return the id of the pod in which Podman puts a container, by what its runtime was given; "" if there is none in
    it. Under the cgroupfs driver the pod's cgroup has its bare id as its name, as a container of Docker has.
    """
    above, _, own = group.rpartition("/")
    pod = above.rpartition("/")[2]
    return pod if own.startswith("libpod-") and re.fullmatch("[0-9a-f]{64}", pod) else ""


def is_group_of_pod(path: str, pod: str) -> bool:
    """Return whether the cgroup at this path is called like that of the pod with this id: by the id, or as a slice."""
    return pod in path.rpartition("/")[2]


def misread_by_runtimes(name: str) -> bool:
    """Return whether OCI runtimes look for this slice's cgroup where systemd has not put it."""
    return "/_" in slice_path(name)


def group_named(unit: str) -> str:
    """Return what systemd calls the cgroup of a unit."""
    return f"_{unit}" if unit.startswith(("_", ".")) else _escaped(unit)


def unit_named(group: str) -> str:
    """Return the unit to which systemd gave a cgroup of this name; "" if it gave it to none: an OCI runtime may have
    made it.
    """
    return group[1:] if group.startswith("_") else "" if _escaped(group) != group else group


def _escaped(name: str) -> str:
    return f"_{name}" if name.partition(".")[0] in _CONTROLLERS else name
