"""Vectors of kind `policy`: a whole static policy, from its start through pods that come and go.

Where our answer differs from the kubelet's on purpose, the reason is a rule over both answers, and the State is set to
the kubelet's, so that later steps are compared as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from sidecar.decide.placement.numa.affinity import Affinity
from sidecar.decide.placement.options import (
    ACROSS_CORES,
    FULL_PCPUS_ONLY,
    STRICT_CPU_RESERVATION,
    from_switches,
    misfit,
)
from sidecar.decide.placement.reserve import reserve
from sidecar.decide.placement.whole_cores import is_by_cores, takeable
from sidecar.decide.settings import PolicyName, Settings
from sidecar.words.refusals import sentence
from state.cpuset import EMPTY, CPUSet, union
from state.demand import Demand
from state.invariants import violations
from state.model import Assignment, State
from state.refusal import Refusal, RefusalCode
from state.topology import Topology
from tests.support.decide.carried import refitted
from tests.support.keys import docker
from tests.vectors.bubble import allocate_pod
from tests.vectors.hints import shown
from tests.vectors.machines import is_contradictory
from tests.vectors.node import Node, containers_of
from tests.vectors.switches import rule_named, withheld
from tests.vectors.take import MORE_CORES, cores_of
from tests.vectors.verdict import EQUAL, Vector, Verdict, wanted

REPAIRED: Final = "books that no longer fit are carried over as far as lawful, and the rest reported"
WHOLE_CORES: Final = "full-pcpus-only grants no half core, where the kubelet grants one"
RESERVES_CORES: Final = "a count reserves whole cores first, where the kubelet reserves threads of several cores"
CONTRADICTORY: Final = "the machine's counts contradict its rows: whole cores by one are half cores by the other"
NEVER_EMPTY: Final = "the shared pool is never emptied: at least one CPU stays, one core under full-pcpus-only"

_CODES: Final = {
    "UnexpectedAdmissionError": RefusalCode.NOT_ENOUGH,
    "SMTAlignmentError": RefusalCode.NOT_WHOLE_CORES,
}


def judge(vector: Vector, machines: Mapping[str, Topology]) -> Verdict:
    """Compare the start, then every step."""
    run = _Run(vector, machines[vector["topology"]])
    try:
        run.play()
    except _Differs as differs:
        return Verdict(str(differs), differs.reason)
    return Verdict("; ".join(run.deviations), " + ".join(dict.fromkeys(run.reasons))) if run.deviations else EQUAL


class _Differs(Exception):
    def __init__(self, difference: str, reason: str = "") -> None:
        super().__init__(difference)
        self.reason = reason


class _Run:
    """One vector being played."""

    def __init__(self, vector: Vector, topology: Topology) -> None:
        self.vector = vector
        self.topology = topology
        self.expected = wanted(vector)
        self.deviations: list[str] = []
        self.reasons: list[str] = []
        self.reserved: list[tuple[tuple[object, ...], CPUSet]] = []

    def play(self) -> None:
        node = self._start(self.vector, self.vector.get("state"), self.expected)
        if node is None:
            return
        if (hint := self.vector.get("hint")) is not None:
            node.fixed_hint = Affinity(tuple(hint["numa"]), hint["preferred"])
        self._compare_state(node, self.expected["initial"], "at the start")
        for number, step in enumerate(self.vector["steps"]):
            answer = self.expected["steps"][number]
            if answer.get("hang"):
                raise _Differs(f"step {number}: an answer is expected that never comes")
            at = f"step {number} ({step['op']})"
            if step["op"] == "restart":
                fresh = self._start(step, _stored(node), answer, at)
                if fresh is None:
                    return
                fresh.active = node.active
                node = fresh
            else:
                self._step(node, step, answer, at)
            self._compare_state(node, answer["state"], at)

    def _start(self, given: Vector, stored: Mapping[str, Any] | None, answer: Vector, at: str = "start") -> Node | None:
        """Return the policy at its start or restart; None if it does not start."""
        options = from_switches(given["options"])
        rule = rule_named(self.vector.get("tm_policy"))
        problem: Refusal | str | None = withheld(given["options"], self.vector.get("gates", {}))
        problem = problem or (options if isinstance(options, Refusal) else misfit(options, rule, self.topology))
        if not problem and given["reserved_count"] > len(self.topology.online):
            problem = "more CPUs are to be reserved than there are"
        refusal = answer.get("new_error") or answer.get("tm_error")
        if problem or refusal:
            if problem and refusal:
                return None
            raise _Differs(f"{at}: {f'refused ({problem})' if problem else f'accepted, expected {refusal!r}'}")
        assert not isinstance(options, Refusal)
        settings = Settings(
            policy=PolicyName.STATIC,
            options=options,
            numa=rule,
            reserved_cpus=CPUSet.parse(given.get("reserved") or ""),
            reserved_count=given["reserved_count"],
        )
        reserved = self._reserved(settings, answer, at)
        strict = STRICT_CPU_RESERVATION in options
        everything = self.topology.online - (reserved if strict else EMPTY)
        default, assignments = _books(stored)
        if not default and not assignments:
            default = everything
        if not self.vector.get("no_start"):
            settings = msgspec.structs.replace(settings, reserved_cpus=reserved)
            self._check_books(settings, default, assignments, answer, at)
            if "start_error" in answer:
                return None
        return Node(
            topology=self.topology,
            options=options,
            reserved=reserved,
            strict=strict,
            rule=rule,
            by_pod=self.vector.get("tm_scope") == "pod",
            default=default,
            assignments=assignments,
            active=set(assignments),
        )

    def _reserved(self, settings: Settings, answer: Vector, at: str) -> CPUSet:
        asked = (settings.options, settings.reserved_cpus, settings.reserved_count)
        if "reserved" not in answer:
            # A policy that restarts under the same options reserves the same.
            same = [cpus for before, cpus in self.reserved if before == asked]
            return same[-1] if same else reserve(self.topology, settings, State())
        ours = reserve(self.topology, settings, State())
        theirs = CPUSet.parse(answer["reserved"])
        if ours != theirs:
            reason = self._more_cores(settings.options, ours, theirs) or self._fewer_halves(ours, theirs)
            self._deviate(f"{at}: reserved {ours}, expected {theirs}", reason)
        if self.topology.whole_cores(theirs) != CPUSet.parse(answer["reserved_physical"]):
            raise _Differs(f"{at}: the cores of the reservation are not {answer['reserved_physical']}")
        self.reserved.append((asked, theirs))
        return theirs

    def _check_books(
        self,
        settings: Settings,
        default: CPUSet,
        assignments: Mapping[str, Mapping[str, CPUSet]],
        answer: Vector,
        at: str,
    ) -> None:
        """Check that our State is always carried over: unchanged where the kubelet starts, lawfully where it does
        not.
        """
        # Containers of one pod may share CPUs (a later one reuses those of an init container): a pod is one grant here.
        grants = {
            docker(pod): Assignment(
                demand=Demand(container=docker(pod), name=pod, cpus=len(cpus)), cpus=cpus, original=cpus, since=n
            )
            for n, (pod, held) in enumerate(assignments.items())
            if (cpus := union(held.values()))
        }
        carried, notes = refitted(State(assignments=grants), self.topology, settings)
        if broken := violations(carried, self.topology):
            raise _Differs(f"{at}: the books that were carried over break laws: {'; '.join(map(str, broken))}")
        if "start_error" in answer:
            self._deviate(f"{at}: starts, expected {answer['start_error']!r}", REPAIRED)
            return
        kept = {key: grant.cpus for key, grant in carried.assignments.items()}
        if kept != {key: grant.cpus for key, grant in grants.items()}:
            self._deviate(
                f"{at}: the books were changed: {notes}",
                NEVER_EMPTY if self._empties(settings.options, default) else "",
            )

    def _step(self, node: Node, step: Vector, answer: Vector, at: str) -> None:
        match step["op"]:
            case "add":
                self._add(node, step, answer, at)
            case "remove":
                node.active.discard(step["name"])
                node.sweep()
            case "gc":
                node.sweep()
            case "remove_container":
                node.remove(step["name"], step["container"])
            case "allocate":
                pod = step["pod"]
                node.active.add(pod["name"])
                container = next(each for each in containers_of(pod) if each["name"] == step["container"])
                refused = node.allocate(pod, container, node.hint(pod, container))
                if bool(refused) != bool(answer["error"]):
                    self._refusal(node, refused, answer, at)
            case "allocate_pod":
                problem = allocate_pod(node, step["pod"])
                if bool(problem) != bool(answer["error"]):
                    raise _Differs(f"{at}: {problem or 'allocated'}, expected {answer['error']}")
            case other:
                raise _Differs(f"{at}: nobody knows the step {other!r}")

    def _add(self, node: Node, step: Vector, answer: Vector, at: str) -> None:
        admitted, chosen, refused = node.admit(step["pod"])
        if admitted != answer["admit"]:
            self._refusal(node, refused, answer, at)
            return
        if not admitted:
            code = refused.code if refused else None
            if code is RefusalCode.POOL_WOULD_BE_EMPTY:
                # The same container is refused, or an earlier one that the kubelet lets empty the pool.
                self._refusal(node, refused, answer, at)
            elif code != _CODES.get(answer["reason"]):
                raise _Differs(f"{at}: refused as {code}, expected {answer['reason']}")
        ours = {name: shown(hint) for name, hint in chosen.items()}
        if "hints" in answer and admitted and ours != answer["hints"]:
            raise _Differs(f"{at}: chose nodes {ours}, expected {answer['hints']}")

    def _refusal(self, node: Node, refused: Refusal | None, answer: Vector, at: str) -> None:
        """Judge a refusal by only one of the two: lawful only for the sake of the shared pool, or of whole cores."""
        said = sentence(refused) if refused else "granted"
        self._deviate(f"{at}: {said}, expected the opposite", self._why_refused(node, refused, answer["state"]))
        self._adopt(node, answer["state"])
        if answer.get("admit"):
            node.active.add(self.vector["steps"][int(at.split()[1])]["pod"]["name"])

    def _why_refused(self, node: Node, refused: Refusal | None, theirs: Vector) -> str:
        """Return why only we refuse, by both answers; "" if no rule of ours is the reason."""
        code = refused.code if refused else None
        if code is RefusalCode.POOL_WOULD_BE_EMPTY:
            return NEVER_EMPTY if self._empties(node.options, CPUSet.parse(theirs["default"])) else ""
        if code is not RefusalCode.NOT_WHOLE_CORES:
            return ""
        if is_contradictory(self.topology):
            return CONTRADICTORY
        return WHOLE_CORES if self._new_halves(node, theirs) else ""

    def _new_halves(self, node: Node, theirs: Vector) -> bool:
        """Return whether the kubelet granted part of a core, or a core with an offline thread, in this step."""
        if not is_by_cores(node.options):
            return False
        had = {(pod, name): cpus for pod, held in node.assignments.items() for name, cpus in held.items()}
        new = [
            cpus
            for pod, held in _books(theirs)[1].items()
            for name, cpus in held.items()
            if had.get((pod, name)) != cpus
        ]
        return any(cpus != takeable(self.topology, node.options, cpus) for cpus in new)

    def _compare_state(self, node: Node, answer: Vector, at: str) -> None:
        if _stored(node) == _normal(answer):
            return
        difference = f"{at}: {_stored(node)}, expected {_normal(answer)}"
        theirs = _books(answer)[1]
        reason = MORE_CORES if ACROSS_CORES in node.options else ""
        for pod in {*node.assignments, *theirs}:
            ours_of, theirs_of = node.assignments.get(pod, {}), theirs.get(pod, {})
            if ours_of.keys() != theirs_of.keys():
                reason = ""
                break
            for name, ours in ours_of.items():
                if ours != theirs_of[name] and not self._more_cores(node.options, ours, theirs_of[name]):
                    reason = ""
        if not reason and self._new_halves(node, answer):
            reason = WHOLE_CORES
        self._deviate(difference, reason)
        self._adopt(node, answer)

    def _empties(self, options: tuple[str, ...], default: CPUSet) -> bool:
        """Return whether so little is left shared that our rule forbids it."""
        by_cores = {STRICT_CPU_RESERVATION, FULL_PCPUS_ONLY} <= set(options)
        return not default or (by_cores and not any(core.cpus <= default for core in self.topology.cores))

    def _more_cores(self, options: tuple[str, ...], ours: CPUSet, theirs: CPUSet) -> str:
        """Return the reason, if CPUs should be on different cores, and ours are on more than theirs."""
        if ACROSS_CORES not in options or len(ours) != len(theirs):
            return ""
        return MORE_CORES if cores_of(self.topology, ours) > cores_of(self.topology, theirs) else ""

    def _fewer_halves(self, ours: CPUSet, theirs: CPUSet) -> str:
        """Return the reason, if a thread is offline, and our reservation has more whole cores than theirs."""
        if not self.topology.offline or len(ours) != len(theirs):
            return ""
        whole = [sum(core.cpus <= cpus for core in self.topology.full_cores) for cpus in (ours, theirs)]
        return RESERVES_CORES if whole[0] > whole[1] else ""

    def _deviate(self, difference: str, reason: str) -> None:
        if not reason:
            raise _Differs(difference)
        self.deviations.append(difference)
        self.reasons.append(reason)

    def _adopt(self, node: Node, answer: Vector) -> None:
        node.default, node.assignments = _books(answer)


def _books(stored: Mapping[str, Any] | None) -> tuple[CPUSet, dict[str, dict[str, CPUSet]]]:
    if not stored:
        return EMPTY, {}
    return CPUSet.parse(stored["default"]), {
        pod: {name: CPUSet.parse(cpus) for name, cpus in held.items()} for pod, held in stored["assignments"].items()
    }


def _stored(node: Node) -> dict[str, Any]:
    return {
        "default": str(node.default),
        "assignments": {pod: {n: str(c) for n, c in held.items()} for pod, held in node.assignments.items() if held},
    }


def _normal(answer: Vector) -> dict[str, Any]:
    return {"default": answer["default"], "assignments": {p: dict(h) for p, h in answer["assignments"].items() if h}}
