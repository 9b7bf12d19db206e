"""Two revisions of the decisions, side by side: the same histories, and equal States, orders and footprints.

    python -m tests.decide.twins REVISION [COUNT] [FIRST_SEED]

The histories drive the decisions of this tree. Each burst of facts goes as JSON to those of the other revision as well,
which are unpacked from version control under names of their own. After each burst it compares the State, the orders,
and for each container the footprint and the CPUs that it surely has. Sentences are not compared.
"""

from __future__ import annotations

import importlib
import importlib.util
import io
import json
import re
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from sidecar.decide.facts import Fact
from sidecar.decide.orders import Order
from state.codec import encode
from state.key import MARK, ContainerKey
from tests.decide.long_run import history
from tests.support.decide import histories
from tests.support.decide.histories import Broken
from tests.support.decide.real import ENGINE
from tests.support.decide.reality import Reality
from tests.support.laws import Breach, Law

ROOT: Final = Path(__file__).parents[2]

_PACKAGES: Final = ("state", "sidecar")
_PREFIX: Final = "then_"
_IMPORT: Final = re.compile(r"^(\s*(?:from|import) )(state|sidecar)\b", re.MULTILINE)

_ENGINES: Final = b'"' + ENGINE.encode() + MARK.encode()
"""How each key begins in JSON."""

_PROSE: Final = frozenset(("reason", "refusal", "detail", "code"))
"""Fields that hold sentences, or did in some revision."""

TWINS: Final[Law[Reality]] = Law("both decide the same", lambda reality: ())

Step = Callable[[Any, Any], tuple[Any, tuple[Any, ...]]]


class Then:
    """The decisions of another revision. Modules are found wherever any revision had them."""

    def __init__(self) -> None:
        self.step: Step = _found("step", "decide.step", "decide.reducer")
        self.begin = _found("begin", "decide.books.refit", "decide.reconcile", "decide.world")
        self.fact: Any = importlib.import_module(f"{_PREFIX}sidecar.decide.facts").Fact
        self.settings: Any = _found("Settings", "decide.settings", "decide.world")
        self.topology: Any = importlib.import_module(f"{_PREFIX}state.topology").Topology
        self.state: Any = importlib.import_module(f"{_PREFIX}state.model").State
        self.codec: Any = importlib.import_module(f"{_PREFIX}state.codec")
        self.has_keys = importlib.util.find_spec(f"{_PREFIX}state.key") is not None

    def translated(self, value: object, wanted: Any) -> Any:
        """Return one of this tree's values as the other revision's, by its JSON."""
        return self.codec.decode(self.told(value), wanted)

    def told(self, value: object) -> bytes:
        """Return the JSON of one of this tree's values; containers by their ids alone where that revision has no
        keys.
        """
        content = encode(value, keeps_order=True)
        return content if self.has_keys else content.replace(_ENGINES, b'"')

    def key(self, key: ContainerKey) -> str:
        """Return a container's key as the other revision writes it."""
        return str(key) if self.has_keys else key.id


class Twin(Reality):
    """A Reality whose daemon decides twice. Raises Broken where the two differ."""

    then: Then
    """Set on the class before a history is played: whoever plays it makes the Reality."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self._their_world: Any = None
        self._their_first: object = None
        super().__init__(*args, **options)

    def feed(self, *facts: Fact) -> None:
        """Feed a burst as a Reality does, and compare."""
        if self._their_first is not self.first:
            self._their_first = self.first
            books = self.then.state() if self._their_world is None else self._their_world.state
            # As from a checkpoint: in the order of its keys.
            books = self.then.codec.decode(self.then.codec.encode(books), self.then.state)
            self._their_world = self.then.begin(
                books,
                self.then.translated(self.topology(), self.then.topology),
                self.then.translated(self.settings, self.then.settings),
            )
        told = tuple(self.then.translated(fact, self.then.fact) for fact in facts)
        self._their_world, theirs = self.then.step(self._their_world, told)
        self._theirs = theirs
        super().feed(*facts)
        self._compare(facts)

    def _compare(self, facts: tuple[Fact, ...]) -> None:
        ours, theirs = self.world, self._their_world
        told, they_told = self.then.told, self.then.codec.encode
        _equal("books", _shape(told(ours.state)), _shape(they_told(theirs.state)), facts)
        _equal("orders", _orders(self.last_orders, told), _orders(self._theirs, they_told), facts)
        _equal("numbers", ours.numbers, theirs.numbers, facts)
        known = {str(key): container for key, container in theirs.containers.items()}
        _equal("containers", [self.then.key(key) for key in ours.containers], list(known), facts)
        for key, container in ours.containers.items():
            other = known[self.then.key(key)]
            _equal(f"footprint of {container.view.name}", container.footprint, other.footprint, facts)
            _equal(f"sure of {container.view.name}", container.sure.mask, other.sure.mask, facts)


def _orders(orders: tuple[Order, ...] | tuple[Any, ...], told: Callable[[object], bytes]) -> object:
    """Return the orders of each kind in the order given: the order of kinds has no meaning."""
    plain = [_shape(told(order)) for order in orders]
    return sorted(plain, key=lambda order: str(order["type"]))


def _shape(value: Any) -> Any:
    """Return JSON, or its values, without sentences but for whether there was one. Empty values are left out."""
    if isinstance(value, bytes):
        return _shape(json.loads(value))
    if isinstance(value, Mapping):
        said = {key: bool(each) if key in _PROSE else _shape(each) for key, each in value.items()}
        return {key: each for key, each in said.items() if each not in (None, False, {}, [], "")}
    return [_shape(each) for each in value] if isinstance(value, list) else value


def _equal(what: str, ours: object, theirs: object, facts: tuple[Fact, ...]) -> None:
    if ours != theirs:
        raise Broken(
            [Breach(TWINS, f"{what}: {ours} now, {theirs} then, after {[encode(fact).decode() for fact in facts]}")]
        )


def _found(name: str, *modules: str) -> Any:
    """Return what has this name in the first of these modules that the other revision has."""
    for module in modules:
        try:
            return getattr(importlib.import_module(f"{_PREFIX}sidecar.{module}"), name)
        except (ModuleNotFoundError, AttributeError):
            continue
    raise LookupError(f"{name} is in none of {', '.join(modules)}")


@contextmanager
def decisions_of(revision: str) -> Iterator[Then]:
    """Import the decisions of a revision for the length of the block. CalledProcessError: there is no such one."""
    packed = subprocess.run(
        ["git", "-C", str(ROOT), "archive", revision, *_PACKAGES], capture_output=True, check=True
    ).stdout
    with tempfile.TemporaryDirectory(prefix="twins-") as folder:
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            archive.extractall(folder, filter="data")
        for package in _PACKAGES:
            (Path(folder) / package).rename(Path(folder) / f"{_PREFIX}{package}")
        for path in Path(folder).rglob("*.py"):
            path.write_text(_IMPORT.sub(rf"\g<1>{_PREFIX}\g<2>", path.read_text()))
        sys.path.insert(0, folder)
        try:
            yield Then()
        finally:
            sys.path.remove(folder)
            for module in [name for name in sys.modules if name.startswith(_PREFIX)]:
                del sys.modules[module]


@contextmanager
def doubled(then: Then) -> Iterator[None]:
    """Decide twice all histories that are played in the block."""
    Twin.then = then
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(histories, "Reality", Twin)
        yield


def main(revision: str, count: int = 1000, first: int = 0) -> int:
    """Play `count` histories twice each, print progress and differences; return 1 if there is any."""
    began, failed = time.monotonic(), 0
    with decisions_of(revision) as then, doubled(then):
        for seed in range(first, first + count):
            try:
                history(seed)
            except Broken as broken:
                if TWINS not in broken.laws:
                    # A law that both break is a finding of the histories alone.
                    continue
                failed += 1
                print(f"seed {seed}: {broken}", flush=True)
                if failed >= 5:
                    break
            if seed % 10_000 == 9_999:
                print(f"{seed + 1 - first} histories, {failed} differ, {time.monotonic() - began:.0f} s", flush=True)
    print(f"{count} histories, {failed} differ, {time.monotonic() - began:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], *map(int, sys.argv[2:])))
