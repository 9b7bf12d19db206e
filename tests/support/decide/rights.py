"""What tenants may do where a test is not about that: everything, so that containers may be kept out and pinned."""

from __future__ import annotations

from typing import Final

from sidecar.decide.settings import TenantRight

EVERY_RIGHT: Final = tuple(TenantRight)
