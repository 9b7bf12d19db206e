"""Keys for tests that know containers by their ids: keys of the simulated engine, and a State by ids alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar

from state.key import ContainerKey

ENGINE: Final = "docker"
"""What the simulated engine calls itself."""

T = TypeVar("T")


def docker(id: str) -> ContainerKey:
    """Return the key of one of Docker's containers; the simulated engine has the same name."""
    return ContainerKey(ENGINE, id)


def by_id(mapping: Mapping[ContainerKey, T]) -> dict[str, T]:
    """Return the mapping by plain ids: of one engine's containers."""
    return {key.id: each for key, each in mapping.items()}
