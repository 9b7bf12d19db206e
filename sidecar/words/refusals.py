"""Why a request is refused, as sentences for people from the facts of a Refusal; and what would help. Pure."""

from __future__ import annotations

from typing import Final, assert_never

from sidecar.decide.container.container import Wish
from sidecar.words import mistaken
from sidecar.words.counts import agree, counted, cpus, exclusive_cpus, named, some
from state.cpuset import union
from state.demand import NumaRule
from state.refusal import (
    Asked,
    CutCore,
    Detail,
    Excluded,
    Fixed,
    InCores,
    Limit,
    Lost,
    Mistakes,
    MoreSocketsThanNodes,
    Named,
    Neighbours,
    NoMultiple,
    NoOption,
    NoTruth,
    OnNodes,
    Part,
    PoolEmptied,
    PoolKeeps,
    Range,
    Refusal,
    RefusalCode,
    Replaces,
    Said,
    Scaled,
    Scattered,
    SocketOnOneNode,
    Taken,
    TooFew,
    TooFewWholeCores,
    UnderPolicy,
)

_SHOWN_PARTS: Final = 8
"""Groups of CPUs that a sentence names; of more, their number."""


def sentence(refusal: Refusal) -> str:
    """Return why it is refused, with the cure if there is one, as a clause: lower case, no full stop."""
    detail = refusal.detail
    if detail is None:
        return _WITHOUT_DETAIL.get(refusal.code, refusal.code.value)
    if not isinstance(detail, Asked):
        return _told(detail)
    said = _asked(detail) + _kept_to(detail) + _neighbours(detail.neighbours)
    said += f"; {cure(refusal)}" if cure(refusal) else ""
    return said + ("; this counts every elastic container at its floor" if detail.at_floors else "")


def cure(refusal: Refusal) -> str:
    """Return what would be granted instead; "" if nothing would, or if the sentence itself says what to do."""
    detail = refusal.detail
    if not isinstance(detail, Asked):
        return ""
    is_said = detail.is_of_the_machine and not isinstance(detail, NoMultiple | CutCore)
    because = f", because {_limited(detail.limit)}" if detail.limit is not None else ""
    fitting = f"{' or '.join(map(str, detail.would_fit))} would fit" if detail.would_fit and not is_said else ""
    if not isinstance(detail, Scattered):
        return f"{fitting or 'none would fit'}{because}" if fitting or because else ""
    said = [f"{fitting} on one node{because}"] if fitting else []
    if detail.nodes:
        nodes = agree(len(detail.nodes), "node", "nodes")
        said.append(f"cpuset.numa=best-effort would take them from {nodes} {', '.join(map(str, detail.nodes))}")
    return "; ".join(said)


def warnings(wish: Wish) -> tuple[str, ...]:
    """Return what is wrong with a container's labels: those without effect, and those that get it refused."""
    return (*harmless(wish), sentence(wish.refusal)) if wish.refusal else harmless(wish)


def harmless(wish: Wish) -> tuple[str, ...]:
    """Return only the labels without effect, for a place that already shows the refusal."""
    return tuple(map(mistaken.sentence, wish.warnings))


_WITHOUT_DETAIL: Final = {
    RefusalCode.UNKNOWN_CONTAINER: "there is no such container",
    RefusalCode.GIVEN_UP: "its exclusive CPUs were released by hand",
    RefusalCode.START_HELD: "its start is held, and asks for its exclusive CPUs: release them once it runs",
}


def _told(detail: Detail) -> str:
    match detail:
        case Said():
            return detail.text
        case Mistakes():
            return mistaken.sentences(detail.mistakes)
        case Excluded():
            return f"{detail.one} and {detail.other} cannot be used together: choose one"
        case NoOption():
            return f"unknown option {detail.name!r}"
        case NoTruth():
            return f"{detail.option} is {detail.given!r}: write true or false"
        case SocketOnOneNode():
            head = f"{detail.option} takes CPUs from a whole socket"
            return f"{head}, but the NUMA rule {detail.numa} from one node: choose one"
        case MoreSocketsThanNodes():
            head = f"{detail.option} needs at least as many NUMA nodes as sockets"
            has = f"{counted(detail.nodes, 'node')} and {counted(detail.sockets, 'socket')}"
            return f"{head}, but this machine has {has}"
        case Lost():
            return f"it held {named(detail.cpus)}, but the machine no longer has {cpus(detail.wanted)} for it"
        case Replaces():
            then = f"gets {named(detail.cpus)}" if detail.cpus else "asks again"
            return f"it replaces {detail.name}, and {then} when that is gone"
        case Taken():
            were = "was" if len(detail.cpus) == 1 else "were"
            return f"{named(detail.cpus)} {were} granted to it, but a container pinned by hand is there now"
        case Named():
            return f"{detail.name} has no exclusive CPUs"
        case UnderPolicy():
            return f"the policy is {detail.policy}: only dynamic changes the CPUs of a running container"
        case Fixed():
            return f"the size of {detail.name} is fixed at {cpus(detail.cpus)}: set its label cpuset.min or cpuset.max"
        case Scaled():
            return f"the size of {detail.name} is decided by {detail.scale}: set its label cpuset.scale=manual"
        case Range():
            head = f"{detail.name} may have {detail.floor} to {cpus(detail.ceiling)}"
            return f"{head} (cpuset.min, cpuset.max), not {detail.asked}"
        case TooFew() | NoMultiple() | TooFewWholeCores() | CutCore() | Scattered() | PoolEmptied():
            return _asked(detail)
    assert_never(detail)


def _asked(detail: Asked) -> str:
    asked = f"it held {named(detail.had)}, and needs" if detail.had else "asked for"
    asked += f" {exclusive_cpus(detail.count)}"
    if detail.is_of_the_machine and not isinstance(detail, NoMultiple | CutCore):
        return f"{asked}{_one_node(detail)}, {_most(detail)}"
    match detail:
        case TooFew():
            return f"{asked}, {_free(detail.free)}"
        case NoMultiple():
            return f"{asked}, not a multiple of the {detail.width} threads per core (full-pcpus-only)"
        case TooFewWholeCores():
            return f"{asked}, {_free(detail.free)} on whole cores (full-pcpus-only)"
        case CutCore():
            head = f"{asked}, but whole cores do not add up to that (full-pcpus-only){_while_offline(detail)}"
            return f"{head}, {_free(detail.free)}"
        case Scattered():
            return f"{asked}{_one_node(detail)}, {_free(detail.free)}"
        case PoolEmptied():
            are = "is" if detail.shared == 1 else "are"
            stays = _stays(detail.keep, by_cores=detail.by_cores)
            return f"{asked}; {cpus(detail.shared)} {are} shared, and {stays} must stay shared"
        case _:
            return asked


def _limited(limit: Limit) -> str:
    """Return why not all free CPUs would fit, as a clause."""
    match limit:
        case PoolKeeps():
            return f"{_stays(limit.count, by_cores=limit.by_cores)} must stay shared"
        case OnNodes():
            return f"they must be {_nodes_allowed(limit.numa)}"
        case InCores():
            return "cores are granted whole (full-pcpus-only)"
    assert_never(limit)


def _one_node(detail: Asked) -> str:
    """Return on how many NUMA nodes the CPUs must be; "" if that was not the reason."""
    if not isinstance(detail, Scattered):
        return ""
    return f" {_nodes_allowed(detail.numa)}"


def _nodes_allowed(numa: str) -> str:
    """Return on how many NUMA nodes this rule allows CPUs."""
    most = "one NUMA node" if numa == NumaRule.SINGLE else "the fewest NUMA nodes that this machine allows"
    return f"on {most} (cpuset.numa {numa})"


def _most(detail: Asked) -> str:
    """Return the most that the machine can give, if it could never give what was asked for, or not as it is now."""
    most = max(detail.would_fit, default=0)
    said = f"but this machine can give {most} at most" if most else "but this machine can give none"
    said += _while_offline(detail)
    match detail:
        case TooFewWholeCores():
            return f"{said} on cores without a reserved CPU (full-pcpus-only)"
        case PoolEmptied():
            return f"{said}: {_stays(detail.keep, by_cores=detail.by_cores)} must stay shared"
        case _:
            return said


def _while_offline(detail: Asked) -> str:
    """Return which CPUs are offline, and whether they may be the reason, as the end of a clause; "" if none are."""
    if not detail.offline:
        return ""
    said = f" while {named(detail.offline)} {agree(len(detail.offline), 'is', 'are')} offline"
    return f"{said}, and too few with {agree(len(detail.offline), 'it', 'them')}" if detail.is_final else said


def _stays(keep: int, *, by_cores: bool) -> str:
    """Return what must stay in the shared pool."""
    if not by_cores:
        return str(keep)
    return "a whole core" if keep == 1 else f"{keep} with a whole core among them"


def _kept_to(detail: Asked) -> str:
    """Return which of the free CPUs were not considered, as the end of a sentence; "" if all were."""
    parts = [f"{kind} cores only (cpuset.options)" for kind in detail.kinds]
    parts += ["isolated CPUs only (isolated)"] if detail.is_isolated else []
    return f"; {' and '.join(parts)}" if parts else ""


def _neighbours(neighbours: Neighbours | None) -> str:
    """Return what holds the other CPUs, in parentheses; "" if that is not known."""
    if neighbours is None:
        return ""
    parts = [f"{len(neighbours.reserved)} reserved: {neighbours.reserved}"]
    if neighbours.held:
        parts.append(f"{neighbours.held} held by {some(neighbours.holder_names, of=neighbours.holders)}")
    if neighbours.taken:
        names = f": {', '.join(neighbours.stranger_names)}" if neighbours.stranger_names else ""
        parts.append(f"{neighbours.taken} in use by containers pinned by hand{names}")
    return f" ({'; '.join(parts)})"


def _free(parts: tuple[Part, ...]) -> str:
    """Return `6 free: 2 on node 0 (1,5), 4 on node 1 (8-11)`; by caches if a node has several."""
    free = union(part.cpus for part in parts)
    if not free:
        return "0 free"
    if len(parts) < 2:
        return f"{len(free)} free: {free}"
    return f"{len(free)} free: {some([_part(part) for part in parts[:_SHOWN_PARTS]], of=len(parts))}"


def _part(part: Part) -> str:
    node = f" on node {part.node}" if part.node is not None else ""
    if part.cache is None:
        return f"{len(part.cpus)}{node} ({part.cpus})"
    return f"{len(part.cpus)}{f'{node},' if node else ' on'} cache {part.cache} ({part.cpus})"
