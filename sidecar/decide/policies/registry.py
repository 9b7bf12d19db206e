"""The policies by name."""

from __future__ import annotations

from sidecar.decide.policies.base import Policy
from sidecar.decide.policies.dynamic import DynamicPolicy
from sidecar.decide.policies.none import NonePolicy
from sidecar.decide.policies.static import StaticPolicy
from sidecar.decide.settings import PolicyName


def policy_named(name: PolicyName) -> Policy:
    """The policy of that name."""
    match name:
        case PolicyName.NONE:
            return NonePolicy()
        case PolicyName.STATIC:
            return StaticPolicy()
        case PolicyName.DYNAMIC:
            return DynamicPolicy()
