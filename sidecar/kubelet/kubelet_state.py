"""The kubelet's CPU manager state (`cpu_manager_state`), read and written byte for byte as the kubelet does it.

   {"policyName":"static","defaultCpuSet":"0-1","entries":{"POD":{"CONTAINER":"2-3"}},"checksum":1045985640}

There are three formats. The first has `entries` by container id, without pods; the second is the one above; the third
adds `podEntries`, the CPUs of whole pods, behind an alpha feature gate. No format has a number: the kubelet tries the
newest, and falls back to an older one if types or checksum do not fit. So does this module.

The checksum is FNV-1a, 32 bits, of the text of Go's dump of the decoded struct (`_dumped`), not of the file: so white
space, the order of keys and unknown keys do not count. A checksum of 0, or none, is accepted for the first two formats.
Keys are matched without regard to case, and invalid UTF-8 becomes U+FFFD, as in Go's encoding/json.

This module is stricter than the kubelet: it refuses a repeated key in an object, CPUs above 8191, and files of a size
that no node can have.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from sidecar.kubelet import gojson
from state.cpuset import EMPTY, MAX_CPU, CPUSet
from state.errors import CheckpointCorrupt, CPUSetError, StateError
from state.invariants import violations
from state.key import ContainerKey
from state.model import State
from state.topology import topology

NAME: Final = "cpu_manager_state"

_SHORTEST_ID: Final = 12
"""Digits of a container id, as engines print it."""

_NUMBER: Final = re.compile(r"\+?(\d+)", re.ASCII)
_LAST: Final = re.compile(r"\+?(\d+)|-(0+)", re.ASCII)

_MAX_POD_CPUS: Final = 64 * (MAX_CPU + 1)
"""CPUs of all whole pods together; valid files have each CPU once. The dump writes them one by one."""

_NAME: Final = "CPUManagerCheckpoint"
"""The struct's name in the dump; some kubelets append its version, so the reader accepts that too."""

Entries = Mapping[str, str] | Mapping[str, Mapping[str, str] | None] | None
"""Entries of a file, by container id or by pod; None for null."""

Container = tuple[str, str]
"""A pod's uid, and the name of a container in it."""


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """The State after an import; as sentences, what containers hold now (`taken`), and what was not done (`left`)."""

    books: State
    taken: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


class KubeletState(msgspec.Struct, frozen=True, kw_only=True):
    """What a kubelet remembers: its shared pool (`default`), and the CPUs of containers, by pod and name.

    `pod_assignments` are the CPUs of whole pods, which only the third format has.
    """

    policy: str
    default: CPUSet = EMPTY
    assignments: Mapping[str, Mapping[str, CPUSet]] = {}
    pod_assignments: Mapping[str, CPUSet] = {}


def encode(kubelet: KubeletState, *, pod_level: bool = False) -> bytes:
    """Return the whole file: in the third format if it has CPUs of whole pods, or if `pod_level`, for kubelets with
    that
    gate.
    """
    policy, default = gojson.clean(kubelet.policy), str(kubelet.default)
    entries = {
        gojson.clean(pod): {gojson.clean(name): str(cpus) for name, cpus in named.items()}
        for pod, named in kubelet.assignments.items()
    }
    pods = {gojson.clean(pod): cpus for pod, cpus in kubelet.pod_assignments.items()}
    shown = [f'"policyName":{gojson.quoted(policy)}', f'"defaultCpuSet":{gojson.quoted(default)}']
    if entries:
        by_pod = {
            pod: gojson.braced({name: gojson.quoted(cpus) for name, cpus in named.items()})
            for pod, named in entries.items()
        }
        shown.append(f'"entries":{gojson.braced(by_pod)}')
    if pods:
        by_pod = {pod: f'{{"cpuSet":{gojson.quoted(str(cpus))}}}' if cpus else "{}" for pod, cpus in pods.items()}
        shown.append(f'"podEntries":{gojson.braced(by_pod)}')
    dumped = _dumped(_NAME, policy, default, entries, pods, has_pods=pod_level or bool(pods))
    shown.append(f'"checksum":{_fnv(dumped)}')
    return f"{{{','.join(shown)}}}".encode()


def decode(
    content: bytes, containers: Mapping[str, Container] | None = None, *, pod_level: bool = True
) -> KubeletState:
    """Return the content of a file.

    Raise CheckpointCorrupt, with the reason, if it is not such a file, or its checksum does not fit.

    `containers` are the pods and names of container ids, which the first format needs, and which must hold every id;
    with
    None each container counts as a pod of its own. Without `pod_level` the third format is not understood, as in
    kubelets
    without that gate.
    """
    fields = gojson.fields_of(
        gojson.parsed(content), ("policyName", "defaultCpuSet", "entries", "podEntries", "checksum")
    )
    policy = gojson.text_of(fields.get("policyName"), "policyName")
    default = gojson.text_of(fields.get("defaultCpuSet"), "defaultCpuSet")
    checksum = _checksum(fields.get("checksum"))
    told = fields.get("entries", gojson.Object([]))
    pods: dict[str, CPUSet] | None = None
    has_pods = False
    by_pod: dict[str, dict[str, str] | None] | None
    by_id: dict[str, str] | None
    try:
        by_pod = gojson.map_of(told, "entries", lambda named, what: gojson.map_of(named, what, gojson.text_of))
    except CheckpointCorrupt as error:
        # 1. format
        try:
            by_id = gojson.map_of(told, "entries", gojson.text_of)
        except CheckpointCorrupt:
            raise error from None
        return _first(policy, default, by_id, checksum, containers)
    if pod_level and checksum:
        # 3. format; if it does not fit, the CPUs of whole pods are treated as any unknown key.
        with contextlib.suppress(CheckpointCorrupt):
            pods = gojson.map_of(fields.get("podEntries", gojson.Object([])), "podEntries", _pod_entry)
            if sum(map(len, (pods or {}).values())) > _MAX_POD_CPUS:
                raise CheckpointCorrupt("podEntries has more CPUs than any node")
            has_pods = _fits(checksum, "V3", lambda name: _dumped(name, policy, default, by_pod, pods, has_pods=True))
    if has_pods:
        return _made(policy, default, by_pod, pods)
    if checksum and not _fits(checksum, "V2", lambda name: _dumped(name, policy, default, by_pod)):
        if by_pod:
            raise CheckpointCorrupt("the checksum does not match the content")
        # Without entries, the first two formats differ only in the checksum.
        return _first(policy, default, None if by_pod is None else {}, checksum, containers)
    return _made(policy, default, by_pod)


def parse_cpus(text: str) -> CPUSet:
    """Return a CPU list by the kubelet's rules: no blanks anywhere, a plus sign is allowed. Raise CPUSetError."""
    mask = 0
    for part in text.split(",") if text else ():
        first, dash, last = part.partition("-")
        low = _number(_NUMBER, first, text)
        # "0--0" is a range up to minus zero, and valid.
        high = _number(_LAST, last, text) if dash else low
        if low > high:
            raise CPUSetError(f"bad CPU list {gojson.shown(text)}: the range {part!r} runs backwards")
        mask |= (1 << (high + 1)) - (1 << low)
    return CPUSet.from_mask(mask)


def exported(books: State) -> KubeletState:
    """Return our State as a kubelet would keep it, so that one could start from it on the same machine.

    Each container is a pod of its own: the pod's uid is the container's full id. The kubelet's shared pool is all CPUs
    that
    are not assigned, including the isolated ones, which it does not know, and without the reserved ones only if strict.
    The policy none keeps nothing.
    """
    if books.policy == "none":
        return KubeletState(policy="none")
    held = {key.id: {grant.name: grant.cpus} for key, grant in books.assignments.items()}
    default = books.online - books.exclusive
    # The kubelet has no policy that moves CPUs: grants of the dynamic policy count as static.
    return KubeletState(
        policy="static", default=default - books.reserved if books.strict else default, assignments=held
    )


def imported(kubelet: KubeletState, books: State) -> Imported:
    """Return our State with the CPUs that the file grants to known containers.

    Raise StateError, with every broken law, if that is not lawful.

    1. A container is known if it holds CPUs, or if a valid request of it was refused. An entry matches it if the
    entry's
    pod is its id, or the beginning of it (12 digits or more), or else if the entry has its name; an entry that matches
      several containers is left out.
    2. It gets the CPUs if they are as many as it asked for. The rest of the file is ignored: an entry does not tell
    what a
      container asks for, and its pod does not exist here.
    3. All other containers keep their CPUs; the shared pool follows from the grants.
    """
    if books.policy == "none":
        raise StateError("the recorded policy is none, which grants nothing: run the daemon with another policy first")
    wishes = {key: grant.demand for key, grant in books.assignments.items()}
    wishes |= {key: refusal.demand for key, refusal in books.refusals.items() if refusal.demand}
    entries = [(pod, name, cpus) for pod, named in kubelet.assignments.items() for name, cpus in named.items()]
    meant: dict[ContainerKey, list[tuple[str, CPUSet]]] = {}
    left = [f"pod {gojson.shown(pod)} as a whole holds {cpus}" for pod, cpus in sorted(kubelet.pod_assignments.items())]
    for pod, name, cpus in sorted(entries, key=lambda entry: entry[:2]):
        entry = f"container {gojson.shown(name)} of pod {gojson.shown(pod)} holds {cpus or 'no CPUs'}"
        fitting = [key for key in wishes if len(pod) >= _SHORTEST_ID and key.id.startswith(pod)]
        fitting = fitting or [key for key, wish in wishes.items() if wish.name == name]
        if len(fitting) == 1:
            meant.setdefault(fitting[0], []).append((entry, cpus))
        else:
            left.append(f"{entry}: {'no container has' if not fitting else 'several containers have'} this name")
    made, taken = books, []
    for key in sorted(meant):
        entry, cpus = meant[key][0]
        if len(meant[key]) > 1:
            left += [f"{entry}: several entries match {wishes[key].name}" for entry, _ in meant[key]]
        elif len(cpus) != wishes[key].cpus:
            left.append(f"{entry}: {wishes[key].name} asked for {wishes[key].cpus}")
        elif key not in books.assignments or books.assignments[key].cpus != cpus:
            made = made.granted(wishes[key], cpus)
            taken.append(f"{wishes[key].name} ({key.short}) holds {cpus}")
    # The laws need only the online CPUs of a machine.
    machine = topology(cores=[CPUSet.of(cpu) for cpu in books.online])
    before = violations(books, machine)
    if broken := [law for law in violations(made, machine) if law not in before]:
        raise StateError("the import would break the recorded state: " + "; ".join(map(str, broken)))
    return Imported(books=made, taken=tuple(taken), left=tuple(left))


def _pod_entry(value: object, what: str) -> CPUSet:
    return _cpus(gojson.text_of(gojson.fields_of(value, ("cpuSet",)).get("cpuSet"), what), what)


def _checksum(value: object) -> int:
    if value is None:
        return 0
    if not isinstance(value, gojson.Number) or not value.isdigit() or len(value) > 20 or int(value) >> 64:
        raise CheckpointCorrupt("checksum is not a whole number of 64 bits")
    return int(value)


def _first(
    policy: str, default: str, by_id: dict[str, str] | None, checksum: int, containers: Mapping[str, Container] | None
) -> KubeletState:
    """Return the content of a file of the first format."""
    if checksum and not _fits(checksum, "V1", lambda name: _dumped(name, policy, default, by_id, is_first=True)):
        raise CheckpointCorrupt("the checksum does not match the content")
    by_pod: dict[str, dict[str, str] | None] = {}
    for id, cpus in sorted((by_id or {}).items()):
        if containers is not None and id not in containers:
            raise CheckpointCorrupt(f"container {gojson.shown(id)} is unknown, and the file does not name its pod")
        pod, name = containers[id] if containers is not None else (id, id[:12])
        by_pod[pod] = {**(by_pod.get(pod) or {}), name: cpus}
    return _made(policy, default, by_pod)


def _made(
    policy: str,
    default: str,
    by_pod: Mapping[str, Mapping[str, str] | None] | None,
    pods: Mapping[str, CPUSet] | None = None,
) -> KubeletState:
    """Return the value, once the checksum fits; only now must the CPU lists be valid."""
    return KubeletState(
        policy=policy,
        default=_cpus(default, "defaultCpuSet"),
        assignments={
            pod: {
                name: _cpus(text, f"container {gojson.shown(name)} of pod {gojson.shown(pod)}")
                for name, text in (named or {}).items()
            }
            for pod, named in (by_pod or {}).items()
        },
        pod_assignments=pods or {},
    )


def _cpus(text: str, what: str) -> CPUSet:
    try:
        return parse_cpus(text)
    except CPUSetError as error:
        raise CheckpointCorrupt(f"{what}: {error}") from error


def _number(pattern: re.Pattern[str], text: str, whole: str) -> int:
    match = pattern.fullmatch(text)
    if not match:
        raise CPUSetError(
            f"bad CPU list {gojson.shown(whole)}: {gojson.shown(text)} is not a CPU number; write it like 0-3,8"
        )
    digits = (match[1] or "0").lstrip("0") or "0"
    if len(digits) > len(str(MAX_CPU)) or int(digits) > MAX_CPU:
        raise CPUSetError(f"bad CPU list {gojson.shown(whole)}: CPUs are numbered 0 to {MAX_CPU}")
    return int(digits)


def _fits(checksum: int, version: str, dump: Callable[[str], str]) -> bool:
    """Return whether it is the checksum of the dump, under either name of the struct."""
    return any(checksum == _fnv(dump(name)) for name in (_NAME, _NAME + version))


def _dumped(
    name: str,
    policy: str,
    default: str,
    entries: Entries,
    pods: Mapping[str, CPUSet] | None = None,
    *,
    is_first: bool = False,
    has_pods: bool = False,
) -> str:
    """Return Go's dump of the struct, the text of the checksum: types in brackets, map keys in order, no quotes."""
    kind = "map[string]string" if is_first else "map[string]map[string]string"
    shown = f"PolicyName:(string){policy} DefaultCPUSet:(string){default} Entries:({kind}){_dumped_value(entries)}"
    if has_pods:
        shown += f" PodEntries:(state.PodCPUAssignments){_dumped_value(pods)}"
    return f"(*state.{name}){{{shown} Checksum:(checksum.Checksum)0}}"


def _dumped_value(value: object) -> str:
    if value is None:
        return "<nil>"
    if isinstance(value, Mapping):
        return f"map[{' '.join(f'{key}:{_dumped_value(inner)}' for key, inner in sorted(value.items()))}]"
    if isinstance(value, CPUSet):
        return (
            f"{{CPUSet:(cpuset.CPUSet){{elems:(map[int]struct {{}})map[{' '.join(f'{cpu}:{{}}' for cpu in value)}]}}}}"
        )
    return str(value)


def _fnv(text: str) -> int:
    """Return the FNV-1a hash, 32 bits."""
    value = 0x811C9DC5
    for byte in text.encode():
        value = ((value ^ byte) * 0x01000193) & 0xFFFFFFFF
    return value
