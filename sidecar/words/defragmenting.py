"""Why a defragmentation moves nothing."""

from __future__ import annotations

from typing import Final

from sidecar.decide.books.exchanges import best_move
from sidecar.decide.settings import PolicyName
from sidecar.decide.world import World
from sidecar.words.refusals import sentence
from state.refusal import Refusal, RefusalCode, UnderPolicy

_FIXED: Final = "no container with exclusive CPUs may be moved: give it cpuset.move=true"
_BEST: Final = "no move would make it better"


def wrong_policy(world: World) -> Refusal | None:
    """Return the refusal under a policy that moves no container that runs; None under dynamic."""
    policy = world.settings.policy
    return None if policy is PolicyName.DYNAMIC else Refusal(RefusalCode.WRONG_POLICY, UnderPolicy(policy.value))


def why_none(world: World) -> str:
    """Return why no container was moved, or none would be."""
    return _BEST if any(each.demand.move for each in world.state.assignments.values()) else _FIXED


def why_not(world: World) -> str:
    """Return why a defragmentation would move nothing now; "" if it would."""
    if refusal := wrong_policy(world):
        return sentence(refusal)
    return why_none(world) if best_move(world, world.state) is None else ""
