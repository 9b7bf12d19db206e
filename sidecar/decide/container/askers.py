"""When a container asks for exclusive CPUs, again after a refusal, and what its refusal means for it meanwhile."""

from __future__ import annotations

from typing import Final

import msgspec

from sidecar.decide.container.container import Container, Standing
from sidecar.decide.facts import Phase
from state.demand import Shortage
from state.model import Refused
from state.refusal import Asked, RefusalCode

_COMING: Final = (Phase.CREATED, Phase.RESTARTING)

_RECONSIDERED: Final = (RefusalCode.CPUS_LOST, RefusalCode.AWAITS_PLACE)
"""Refusals of a container that had CPUs, or for which they are kept."""


def is_coming(container: Container) -> bool:
    """Return whether it runs or is about to start. A stopped container asks when it starts."""
    return not container.is_idle or container.is_held or (container.view.phase in _COMING and not container.is_lapsed)


def is_asking(container: Container) -> bool:
    """Return whether it asks for CPUs of its own, even if with a mistake, and is not left alone."""
    wish = container.wish
    return wish.standing is not Standing.UNMANAGED and (wish.demand is not None or wish.refusal is not None)


def rests_as_released(container: Container, refused: Refused) -> bool:
    """Return whether people released its CPUs, and it has not started since: it asks at its next start, whatever it
    asks for meanwhile.
    """
    return refused.refusal.code is RefusalCode.GIVEN_UP and not (container.is_held or has_restarted(container, refused))


def asks_again(container: Container, refused: Refused) -> bool:
    """Return whether a refused container that is coming asks in the next decision. One whose CPUs people released asks
    at its next start, also while that is held, and not before.
    """
    if refused.refusal.code is RefusalCode.GIVEN_UP:
        return not rests_as_released(container, refused)
    if container.is_idle or asks_anew(container, refused) or _is_reconsidered(refused):
        return True
    wished = container.wish.demand
    return wished is not None and wished.shortage is Shortage.WAIT


def _is_reconsidered(refused: Refused) -> bool:
    """Return whether a refusal does not wait for another start, whatever the container chose: it had CPUs, they are
    kept for it, or CPUs that are offline now may be all that it lacks.
    """
    detail = refused.refusal.detail
    return refused.refusal.code in _RECONSIDERED or (isinstance(detail, Asked) and bool(detail.offline))


def asks_anew(container: Container, refused: Refused) -> bool:
    """Return whether it asks because of another start, or for something else than what was refused."""
    return has_restarted(container, refused) or is_another_request(container, refused)


def is_another_request(container: Container, refused: Refused) -> bool:
    """Return whether it asks for something else than what was refused, or has another mistake: a refusal is of one
    request. Another name of the container is none, and a glance shows no limits. What people released rests, whatever
    it asks for.
    """
    asked, mistake = container.wish.demand, container.wish.refusal
    if container.view.is_glance or refused.refusal.code is RefusalCode.GIVEN_UP:
        return False
    if asked is None:
        return mistake is not None and (refused.demand is not None or mistake != refused.refusal)
    return refused.demand is None or asked != msgspec.structs.replace(refused.demand, name=asked.name)


def has_restarted(container: Container, refused: Refused) -> bool:
    """Return whether its last start is another than the one that was refused, even if no look showed it stopped. A
    glance does not show when it started.
    """
    is_told = refused.started_at is not None and not container.view.is_glance
    return is_told and refused.started_at != container.view.started_at


def is_hopeful(refused: Refused) -> bool:
    """Return whether the request could be served on this machine if other containers gave up their CPUs."""
    detail = refused.refusal.detail
    if refused.demand is None:
        return False
    return not detail.is_final if isinstance(detail, Asked) else refused.refusal.code is RefusalCode.CPUS_LOST


def is_waiting(container: Container, refused: Refused) -> bool:
    """Return whether it is granted CPUs as soon as these come free, without another start."""
    return is_coming(container) and is_hopeful(refused) and asks_again(container, refused)


def is_standing(container: Container, refused: Refused) -> bool:
    """Return whether a refusal tells about the present: its container runs or is about to, or was stopped for it."""
    return is_coming(container) or (refused.demand is not None and refused.demand.shortage is Shortage.STOP)
