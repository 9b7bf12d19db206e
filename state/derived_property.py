"""derived_property: what follows from a frozen value is computed when it is first asked for, and kept in the value.

As `functools.cached_property`, without its lock, which Python 3.11 takes for each first question and later versions do
not have: a decision asks hundreds. Two threads that ask at once compute the same twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class derived_property(Generic[T]):  # noqa: N801 - as `property`
    """A property of a value that has a `__dict__`, by a pure function of it."""

    def __init__(self, function: Callable[[Any], T]) -> None:
        self.func = function
        self._name = function.__name__
        self.__doc__ = function.__doc__

    @overload
    def __get__(self, value: None, owner: type) -> derived_property[T]: ...

    @overload
    def __get__(self, value: object, owner: type) -> T: ...

    def __get__(self, value: object, owner: type) -> object:
        """Return what follows from this value. The next question finds it in the value, and does not come here."""
        del owner
        if value is None:
            return self
        found = value.__dict__[self._name] = self.func(value)
        return found
