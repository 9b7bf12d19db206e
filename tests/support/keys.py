"""Keys for tests that know containers by their ids: those of the simulated engine, and the books by ids alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar

from state.key import ContainerKey

ENGINE: Final = "docker"
"""What the simulated engine calls itself."""

T = TypeVar("T")


def docker(id: str) -> ContainerKey:
    """The key of one of Docker's containers; the simulated engine calls itself so, too."""
    return ContainerKey(ENGINE, id)


def by_id(mapping: Mapping[ContainerKey, T]) -> dict[str, T]:
    """The mapping by plain ids: of one engine's containers."""
    return {key.id: each for key, each in mapping.items()}
