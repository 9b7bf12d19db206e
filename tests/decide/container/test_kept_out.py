"""Who keeps a container out of management: its author by a label, or the owner of the host by the configuration."""

from __future__ import annotations

from typing import Any

import pytest

from sidecar.decide.settings import Rule, Settings, TenantRight
from tests.decide.container.test_wish import wish
from tests.support.decide.rights import EVERY_RIGHT

OFF = Rule(place="[[rules]] 1", name="web", labels={"cpuset.manage": "off"})


@pytest.mark.parametrize(
    ("labels", "may", "settings", "is_owners"),
    [
        ({"cpuset.manage": "off"}, EVERY_RIGHT, {}, False),
        ({"cpuset.manage": "off"}, EVERY_RIGHT, {"unmanaged": ("w*",)}, True),
        ({}, (), {"unmanaged": ("w*",)}, True),
        ({}, (), {"unmanaged": ("com.docker.compose.project=shop",)}, False),
        ({}, (), {"rules": (OFF,)}, True),
        ({"cpuset.manage": "off"}, (), {"rules": (OFF,)}, True),
        ({"cpuset.manage": "off"}, EVERY_RIGHT, {"rules": (OFF,)}, False),
        ({"cpuset.manage": "on"}, EVERY_RIGHT, {"rules": (OFF,)}, False),
    ],
)
def test_who_keeps_a_container_out(
    labels: dict[str, str], may: tuple[TenantRight, ...], settings: dict[str, Any], is_owners: bool
) -> None:
    """The owner of the host, by the configuration or a rule; or its author, by a label that tenants may use."""
    assert wish(labels, Settings(may=may, **settings), cpuset="2").is_kept_out_by_owner is is_owners
