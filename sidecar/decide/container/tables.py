"""What the three tables of a container's machine share: the type of a rule, and the rule that changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sidecar.decide.container.container import Container
from sidecar.decide.container.line import Doubt

Rule = Callable[[Container, Any], Container]
"""Returns the container after this news, whose type is that of the rule's row in the table."""


def same(container: Container, _: object) -> Container:
    """Change nothing."""
    return container


def with_doubt(doubts: tuple[Doubt, ...], doubt: Doubt) -> tuple[Doubt, ...]:
    """Return the doubts and this one, once."""
    return doubts if doubt in doubts else (*doubts, doubt)
