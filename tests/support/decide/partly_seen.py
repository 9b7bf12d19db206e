"""PartlySeen: a Reality of which the daemon knows a part alone, for a while: what belongs to the rest is away."""

from __future__ import annotations

from state.key import ContainerKey
from tests.support.decide.reality import Reality


class PartlySeen(Reality):
    """A host that is told of in parts."""

    @property
    def is_apart(self) -> bool:
        """Whether one part is known, and another one is not."""
        raise NotImplementedError

    def is_away(self, key: ContainerKey) -> bool:
        """Return whether the part of this container is not known."""
        raise NotImplementedError

    def was_away(self, key: ContainerKey) -> bool:
        """Return whether that was so before the last burst as well."""
        raise NotImplementedError
