"""What tenants may do where a test is not about that: everything, so that containers may be kept out and pinned."""

from __future__ import annotations

from typing import Final

from sidecar.decide.settings import TenantRight

EVERY_RIGHT: Final = tuple(TenantRight)


def rights_after(before: tuple[TenantRight, ...], given: tuple[TenantRight, ...]) -> tuple[TenantRight, ...]:
    """Return the rights of a history whose tenants lose and get them, after the next change of settings."""
    return given if before == EVERY_RIGHT else EVERY_RIGHT
