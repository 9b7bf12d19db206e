"""What requests for exclusive CPUs would get: the daemon's own policy answers, and nothing is carried out. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from sidecar.decide.whatif import requested, turns
from sidecar.decide.world import World
from sidecar.words.machine_text import lie
from sidecar.words.refusals import harmless, sentence
from sidecar.words.repairs import noted
from state.cpuset import EMPTY, CPUSet


class PlannedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to one request: its CPUs and where they are, or the code and reason of its refusal."""

    asked: int
    cpus: CPUSet = EMPTY
    lie: str = ""
    code: str = ""
    reason: str = ""
    warnings: tuple[str, ...] = ()


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The whole answer. `held` maps names to CPUs already held; `free` can still be granted afterwards."""

    reserved: CPUSet
    shared: CPUSet
    free: CPUSet
    held: dict[str, CPUSet]
    pinned: dict[str, CPUSet]
    answers: tuple[PlannedRequest, ...]
    notes: tuple[str, ...] = ()


def planned(
    before: World,
    asked: Sequence[int],
    labels: Mapping[str, str],
    *,
    pinned: Mapping[str, CPUSet],
    notes: tuple[str, ...] = (),
) -> Plan:
    """Return what requests for so many CPUs would get in this world, one after the other, each with these labels.

    `pinned` are the CPUs of containers that are pinned by hand; `notes` come before those of the world.
    """
    names = [f"request {number}" for number in range(1, len(asked) + 1)]
    requests = [(name, {**labels, "cpuset.exclusive": str(cpus)}) for name, cpus in zip(names, asked, strict=True)]
    worlds = list(turns(before, requests))
    after = worlds[-1] if worlds else before
    return Plan(
        reserved=after.state.reserved,
        shared=after.state.shared,
        free=after.state.assignable - after.strangers,
        held={grant.name: grant.cpus for grant in before.state.assignments.values()},
        pinned=dict(pinned),
        answers=tuple(_answer(after, *each) for each in zip(worlds, names, asked, strict=True)),
        notes=(*notes, *map(noted, before.notes)),
    )


def _answer(world: World, then: World, name: str, asked: int) -> PlannedRequest:
    """Return what a request has in the end, or else why it got nothing when it was its turn, `then`: those that come
    later take nothing from it.
    """
    key = requested(name)
    wish = world.containers[key].wish
    if grant := world.state.assignments.get(key):
        return PlannedRequest(
            asked=asked, cpus=grant.cpus, lie=lie(world.topology, grant.cpus), warnings=harmless(wish)
        )
    refused = then.state.refusals.get(key)
    if refused is None:
        return PlannedRequest(asked=asked, reason="it asks for no exclusive CPUs")
    why = refused.refusal
    return PlannedRequest(asked=asked, code=why.code.value, reason=sentence(why), warnings=harmless(wish))
