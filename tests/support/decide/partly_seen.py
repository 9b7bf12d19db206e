"""PartlySeen: a Reality of which the daemon knows a part alone, for a while: what belongs to the rest is away."""

from __future__ import annotations

from abc import ABC, abstractmethod

from state.key import ContainerKey
from tests.support.decide.reality import Reality


class PartlySeen(Reality, ABC):
    """A host that is told of in parts."""

    @property
    @abstractmethod
    def is_apart(self) -> bool:
        """Whether one part is known, and another one is not."""

    @abstractmethod
    def is_away(self, key: ContainerKey) -> bool:
        """Return whether the part of this container is not known."""

    @abstractmethod
    def was_away(self, key: ContainerKey) -> bool:
        """Return whether that was so before the last burst as well."""
