"""ContainerKey: which container it is, on a host with more than one engine: the engine's name, and the engine's id."""

from __future__ import annotations

from typing import Final

MARK: Final = ":"
"""Between the two parts of a key's text. No engine's name has one, and no container's id."""


class ContainerKey:
    """A container's name everywhere in the books and the World. Immutable, hashable, ordered by engine and id.

    `engine` is the engine's name as it says it (`docker`, `podman`); "" in books that were written before keys had one,
    until an engine claims them. `id` is what that engine calls the container, 64 hex digits in full.

    It is no text, so that it cannot be given to an engine, or shown, in place of an id by mistake.
    """

    __slots__ = ("_hash", "engine", "id")

    engine: str
    id: str
    _hash: int

    def __init__(self, engine: str, id: str) -> None:
        object.__setattr__(self, "engine", engine)
        object.__setattr__(self, "id", id)
        object.__setattr__(self, "_hash", hash((engine, id)))

    @classmethod
    def parse(cls, text: str) -> ContainerKey:
        """Read a key's text, `"docker:6f0c..."`. One without an engine is an id alone."""
        engine, mark, id = text.partition(MARK)
        return cls(engine, id) if mark else cls("", text)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a ContainerKey does not change; make a new one")

    def __delattr__(self, name: str) -> None:
        raise AttributeError("a ContainerKey does not change; make a new one")

    def __reduce__(self) -> tuple[object, tuple[str, str]]:
        return (ContainerKey, (self.engine, self.id))

    def __str__(self) -> str:
        return f"{self.engine}{MARK}{self.id}" if self.engine else self.id

    def __repr__(self) -> str:
        return f"ContainerKey({self.engine!r}, {self.id!r})"

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ContainerKey) and self.id == other.id and self.engine == other.engine

    def __lt__(self, other: ContainerKey) -> bool:
        return (self.engine, self.id) < (other.engine, other.id)

    @property
    def short(self) -> str:
        """The beginning of its id, as engines show it: for people, where its name is not known."""
        return self.id[:12]
