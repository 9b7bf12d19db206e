"""Which containers are placed although their authors wrote otherwise, since tenants lack the right. Pure."""

from __future__ import annotations

from typing import Final

from sidecar.decide.settings import TenantRight
from sidecar.decide.world import World
from sidecar.natural_order import natural
from sidecar.words.counts import some
from state.mistakes import NotAllowed

_NAMES: Final = 5


def missing_rights(world: World) -> str:
    """Return one sentence for all of them, by right: after an upgrade they may run elsewhere than before. "" if there
    are none.
    """
    names: dict[TenantRight, list[str]] = {}
    for container in world.containers.values():
        wish, name = container.wish, container.view.name
        lacking = {TenantRight(each.flaw.right) for each in wish.warnings if isinstance(each.flaw, NotAllowed)}
        for right in lacking | ({TenantRight.PIN} if wish.pin else set()):
            names.setdefault(right, []).append(name)
    if not names:
        return ""
    ordered = {right: sorted(names[right], key=natural) for right in TenantRight if right in names}
    shown = "; ".join(f"{right}: {some(each[:_NAMES], of=len(each))}" for right, each in ordered.items())
    return f"containers use rights that tenants do not have, and are placed all the same ({shown}); see [tenants] may"
