"""ContainerKey: identifies a container on a host with several engines, by the engine's name and the engine's id; or
a unit of the host, by its source and its name.
"""

from __future__ import annotations

from typing import Final, Self

MARK: Final = ":"
"""Between the two parts of a key's text. No container's id has one; that of a user's own engine has (`podman:1000`)."""

SYSTEMD: Final = "systemd"
"""The source of the units of systemd, in the place of an engine's name."""

HOST: Final = "host"
"""The source of what runs on a host without containers, and is no unit of systemd."""

SOURCES: Final = (SYSTEMD, HOST)


class ContainerKey(str):
    """A container's name everywhere in the State and the World: the text `docker:6f0c...`. Immutable.

    `engine` is the name that the engine reports (`docker`, `podman`). It is "" in a State that was written before keys
    had one, until an engine claims the container; the text is then the id alone. `id` is the engine's id of the
    container, 64 hex digits in full. Engines and people are given the id. Of a unit of the host, `engine` is one of
    `SOURCES`, and `id` its name.

    It is text because State and World are searched for it some thousand times in a decision, and no type is found
    faster.
    """

    __slots__ = ("engine", "id")

    engine: str
    id: str

    def __new__(cls, engine: str, id: str) -> Self:
        """Make the key of a container of this engine."""
        made = super().__new__(cls, f"{engine}{MARK}{id}" if engine else id)
        made.engine, made.id = engine, id
        return made

    def __reduce__(self) -> tuple[object, tuple[str, str]]:
        return (ContainerKey, (self.engine, self.id))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a key's text, `"docker:6f0c..."`. A text without an engine is an id alone. An id has no mark, and a
        unit's name may have.
        """
        engine, mark, id = text.partition(MARK)
        if mark and engine not in SOURCES:
            engine, mark, id = text.rpartition(MARK)
        return cls(engine, id) if mark else cls("", text)

    @classmethod
    def listed(cls, engine: str, listed: str) -> Self:
        """Return the key of what an engine lists: the id of a container of its own, or the key's text of a unit."""
        return cls.parse(listed) if MARK in listed else cls(engine, listed)

    def __str__(self) -> str:
        return f"{self.engine}{MARK}{self.id}" if self.engine else self.id

    def __repr__(self) -> str:
        return f"ContainerKey({self.engine!r}, {self.id!r})"

    @property
    def short(self) -> str:
        """The beginning of its id, as engines show it, or a unit's name: for people, where its name is not known."""
        return self.id if self.is_unit else self.id[:12]

    @property
    def handle(self) -> str:
        """By what the files of this container, or unit, are found: its id, or a unit's whole key."""
        return str(self) if self.is_unit else self.id

    @property
    def is_unit(self) -> bool:
        """Whether it is the key of a unit of the host."""
        return self.engine in SOURCES
