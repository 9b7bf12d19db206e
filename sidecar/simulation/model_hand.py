"""ModelHand: the hand on a modelled kernel. It answers a birth and a foreign write within the same instant."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import Final

from sidecar.decide.orders import Answers
from sidecar.failures import CgroupClosed, CgroupGone
from sidecar.simulation.model_kernel import ENGINE_GROUP, Denied, ModelKernel
from state.cpuset import EMPTY, CPUSet
from state.key import ContainerKey

DEFAULT_PARENTS: Final = (f"/{ENGINE_GROUP}",)
"""The parents that it watches without being asked."""


class ModelHand:
    """A hand that watches the groups of engines: what no answer names is of this `engine`. `parents` are those that are
    watched now. `tell_slip` is told of the container of a group that is shut: closed to it by what runs inside.

    `closed` are groups that it cannot write now, and `denied` those that it never can. `missed` are groups that no
    order has written, and that it could not write at their birth or after a foreign write. `may_watch` are parents that
    it watches when it is asked for them. `called` are groups by the ids of what is in them, that are called like
    another container.
    """

    def __init__(
        self,
        kernel: ModelKernel,
        engine: str,
        may_watch: Iterable[str] = (),
        denied: Collection[str] = (),
        called: Mapping[str, str] | None = None,
        tell_slip: Callable[[ContainerKey], None] = lambda _: None,
    ) -> None:
        self._kernel = kernel
        self._engine = engine
        self._may_watch = frozenset(may_watch)
        self._called = {} if called is None else called
        self._tell_slip = tell_slip
        self._home: frozenset[str] = frozenset(DEFAULT_PARENTS)
        self._answers = Answers()
        self._keys: dict[str, ContainerKey] = {}
        self._guarded: dict[str, CPUSet] = {}
        self._newborn: dict[str, CPUSet] = {}
        """What other programs wrote into each of them; empty if none has."""
        self._found: dict[str, CPUSet | None] = {}
        """The same for groups that existed before; None if the hand never moved it."""
        self._released: dict[str, CPUSet | None] = {}
        """The same for groups that an order could not write: they are left as they are until they are let go. None if
        they have nothing of the hand.
        """
        self._pinned: dict[str, CPUSet] = {}
        """To which CPUs their engine had pinned groups that an order had written, when these were let go."""
        self._slipped: set[str] = set()
        """Groups that it found to be shut, also those that were opened since."""
        self._unread: set[str] = set()
        """Groups that existed before, and were shut already."""
        self._seen_born: set[str] = set()
        self._owed: dict[str, CPUSet] = {}
        """What groups had that were let go and could not be written: they get it as soon as they can be."""
        self.given_late: set[str] = set()
        """Groups that got it since the last report."""
        self.parents: tuple[str, ...] = ()
        self.closed: set[str] = set()
        self.denied = denied
        self.missed: set[str] = set()
        self.watch(DEFAULT_PARENTS)
        kernel.watcher = self

    def watch(self, parents: Iterable[str]) -> None:
        """Watch these parents, and take up the groups that are there."""
        self.parents = tuple(sorted(parents))
        for id in self._kernel.running():
            if id not in self._taken_up() and self._is_watched(id):
                self._found[id] = None
                self._unread |= {id} if self._kernel.is_shut(id) else set()

    def close(self) -> None:
        """End: all groups stay as they are."""
        if self._kernel.watcher is self:
            self._kernel.watcher = None

    def hold(
        self,
        answers: Answers,
        parents: Iterable[str] = (),
        home: Iterable[str] = (),
        resting: Collection[ContainerKey] = (),
        *,
        keeps_defaults: bool = False,
    ) -> CPUSet:
        """Hold these answers, as the port describes; return where newborns are that cannot be written."""
        may_watch = {*DEFAULT_PARENTS, *self._may_watch}
        homes = {*home} if home and not keeps_defaults else {*home, *DEFAULT_PARENTS}
        wanted = {*parents, *homes}
        self.watch(each for each in wanted if each in may_watch)
        self._answers, self._home = answers, frozenset(homes)
        self._keys = {key.id: key for key in answers.own}
        stuck = EMPTY
        for table in (self._guarded, self._newborn, self._found, self._released, self._owed, self._pinned):
            for id in [id for id in table if id not in self._kernel.running()]:
                del table[id]
        self._slipped &= {*self._kernel.running()}
        self._unread &= {*self._kernel.running()}
        for id in [id for id in self._guarded if self.answer_to(id) is None]:
            del self._guarded[id]
            stuck |= self._let_go(id, self._pin_of(id))
            self._pinned[id] = self._pin_of(id) or EMPTY
        stuck |= self._follow_pins()
        for id, had in self._released.items():
            if self.answer_to(id) is None:
                stuck |= self._let_go(id, had)
                self._released[id] = None
        self._give_late()
        for id in [id for id in self._found if self.key_of(id) in resting]:
            # No order will write it.
            had = self._found.pop(id)
            self._newborn[id] = self._kernel.own(id) if had is None else had
        self._disown()
        self._read_opened()
        for id in list(self._newborn):
            if self.answer_to(id) is None:
                stuck |= self._let_go(id, self._newborn[id])
            stuck |= self._rewritten(id, self.answer_beside(id, self._newborn[id]))
        for id in list(self._found):
            stuck |= self._moved_off(id)
        for id in [id for id in self._unread if id in self._found]:
            # It tries these again and again, and tells soon afterwards.
            is_shut = self._kernel.is_shut(id)
            if not is_shut or self.answer_to(id) is not None:
                self._unread.discard(id)
                if is_shut:
                    self._lose(id)
        return stuck

    def write(self, id: str, cpus: CPUSet) -> CPUSet:
        """Write a group, guard it, and return its CPUs. Raise CgroupGone or CgroupClosed."""
        if self._kernel.effective(id) is None or id in self._called:
            raise CgroupGone("it has no cgroup")
        if id in self._slipped and id in self._released:
            raise CgroupClosed("its cgroup was closed before")
        self._release(id)
        if self._is_closed(id):
            if self._kernel.is_shut(id) and self.answer_to(id) is not None:
                self._lose(id)
            raise CgroupClosed("its cgroup cannot be written")
        try:
            self._kernel.answer(id, cpus)
        except Denied as error:
            raise CgroupClosed(str(error)) from error
        del self._released[id]
        self._slipped.discard(id)
        self._guarded[id] = cpus
        return self._kernel.reached(id)

    def key_of(self, id: str, parent: str = "") -> ContainerKey | None:
        """Return the container for which a group stands that is, or will be, below this parent; None if for none: its
        name is that of one whose group is elsewhere.
        """
        called = self._called.get(id, id)
        key = self._keys.get(called) or ContainerKey(self._engine, called)
        answers, parent = self._answers, parent or self._parent_of(id)
        if key not in answers.own or key in answers.unplaced:
            return key
        is_there = parent == answers.named[key] if key in answers.named else parent in self._home
        return key if is_there else None

    def answer_to(self, id: str, parent: str = "") -> CPUSet | None:
        """Return what a newborn group of this container is answered with; None if nothing is written."""
        key, others = self.key_of(id, parent), self._answers.others
        return others if key is None else self._answers.own.get(key, others)

    def answer_beside(self, id: str, theirs: CPUSet, parent: str = "") -> CPUSet | None:
        """Return the same after another program wrote these CPUs into it: if it is not known, it keeps them, but for
        owned ones.
        """
        answer, others = self.answer_to(id, parent), self._answers.others
        if answer is None or others is None or self._is_own(id, parent):
            return answer
        return others if theirs >= others else (theirs - self._answers.owned) or others

    def is_newborn(self, id: str) -> bool:
        """Return whether no order has written this group."""
        return id in self._newborn or id in self._found

    def is_pinned(self, id: str) -> bool:
        """Return whether another program gave a newborn group CPUs of its own."""
        theirs = self._newborn.get(id, EMPTY)
        return bool(theirs) and not theirs >= (self._answers.others or EMPTY)

    def saw_born(self, id: str) -> bool:
        """Return whether it was there when this group was born."""
        return id in self._seen_born

    def is_owner_found(self, id: str) -> bool:
        """Return whether this group existed before the hand, and is left to its first write: it has its own answer."""
        return id in self._found and self._kernel.effective(id) is not None and self._is_own(id)

    def born(self, container: str) -> None:
        """Answer a birth."""
        self._seen_born.add(container)
        for table in (self._guarded, self._newborn, self._found, self._released, self._owed, self._pinned):
            table.pop(container, None)
        self.closed.discard(container)
        self._slipped.discard(container)
        self._unread.discard(container)
        if self._is_watched(container):
            # Its runtime writes what the engine has configured while it sets it up.
            self._rewrite_newborn(container)

    def overwritten(self, container: str) -> None:
        """Answer a foreign write. One into a group that is shut is told instead, also if that was opened again."""
        if container in self._slipped and container in self._released:
            self._tell(container)
        elif container in self._taken_up() and self._kernel.is_shut(container):
            if self.answer_to(container) is not None:
                self._lose(container)
        elif container in self._guarded:
            self._rewritten(container, self._guarded[container])
        elif container in self._newborn:
            self._rewrite_newborn(container)
        elif container in self._found:
            self._found[container] = None
            if self._moved_off(container):
                self.missed.add(container)
        elif self._released.get(container) is not None:
            self._released[container] = self._kernel.own(container)

    def has_slipped(self, id: str) -> bool:
        """Return whether it found this group to be shut, and has not written it since."""
        return id in self._slipped

    def _disown(self) -> None:
        """Count groups as newborn that were released because they slipped, and have no answer of their own any more."""
        for id in [id for id in self._slipped if id in self._released and self.answer_to(id) is not None]:
            if not self._is_own(id):
                had = self._released.pop(id)
                self._newborn[id] = self._kernel.own(id) if had is None else had

    def _read_opened(self) -> None:
        """Read what other programs wrote meanwhile into groups that no order wrote, and that are open again."""
        for id in [id for id in self._slipped if not self._kernel.is_shut(id)]:
            own = self._kernel.own(id)
            if id in self._newborn and own != self.answer_beside(id, self._newborn[id]):
                self._newborn[id] = own
            elif id in self._found:
                self._found[id] = None

    def _lose(self, id: str, *, is_asked: bool = False) -> None:
        """Leave a group that is shut as it is, and tell of it. One that has no answer of its own is tried again, and is
        not told if where it may be `is_asked` now.
        """
        self._slipped.add(id)
        is_known = id in self._guarded or id in self._released or self._is_own(id)
        if is_known:
            self._release(id)
        if is_known or not is_asked:
            self._tell(id)

    def _tell(self, id: str) -> None:
        if id in self._newborn or id in self._found:
            self.missed.add(id)
        if (key := self.key_of(id)) is not None:
            self._tell_slip(key)

    def _release(self, id: str) -> None:
        """Leave a group as it is from now on."""
        had = next((table[id] for table in (self._newborn, self._found, self._released) if id in table), None)
        for table in (self._guarded, self._newborn, self._found):
            table.pop(id, None)
        self._released[id] = had

    def _rewrite_newborn(self, id: str) -> None:
        self._newborn[id] = self._kernel.own(id)
        if self._rewritten(id, self.answer_beside(id, self._newborn[id])):
            self.missed.add(id)

    def _moved_off(self, id: str) -> CPUSet:
        """Move a group that was found off owned CPUs, if nothing else is known of it; or let it go."""
        owned = self._answers.owned
        if self._kernel.is_shut(id) and self.answer_to(id) is not None and id in (self._unread | self._slipped):
            return self._kernel.reached(id) if id in self._slipped else EMPTY
        # What it was written with counts: offline CPUs come back.
        written, had = self._kernel.own(id), self._found[id]
        theirs = written if had is None else had
        if self.answer_to(id) is None:
            return self._let_go(id, self._found.pop(id))
        # Where it runs counts as well: a group that lacks all of its own has those of the group above. One that has
        # none of its own has all of these, also those that come online.
        is_beside = bool(owned) and (not theirs or not (theirs | self._kernel.reached(id)).isdisjoint(owned))
        if self._is_own(id) or (had is None and not is_beside):
            return EMPTY
        if had is None:
            self._found[id] = written
        return self._rewritten(id, (theirs - owned) or self._answers.others)

    def _pin_of(self, id: str) -> CPUSet | None:
        """Return to which CPUs a container is pinned that is left alone by itself, as its engine knows."""
        key = self.key_of(id)
        return self._answers.left.get(key) if key and key in self._answers.own else None

    def _follow_pins(self) -> CPUSet:
        """Give groups that were let go what their engine has for them, if that turns out to be another pin than they
        have: it is older than a write that was undone. Return where those are that could not be written just now.
        """
        stuck = EMPTY
        for id, had in self._pinned.items():
            pin, has = self._pin_of(id), self._owed.get(id, self._kernel.own(id))
            if pin and had and has == had != pin and self.answer_to(id) is None:
                self._pinned[id] = pin
                stuck |= self._let_go(id, pin)
                self.given_late |= {id} - self._owed.keys()
        return stuck

    def _let_go(self, id: str, had: CPUSet | None) -> CPUSet:
        """Give a group back what it had; return where it stays if it could not be written just now."""
        self._slipped.discard(id)
        if had is None or had == self._kernel.own(id):
            return EMPTY
        if self._is_closed(id):
            is_told, self._owed[id] = id in self._owed, had
            return EMPTY if is_told else self._kernel.reached(id)
        self._kernel.answer(id, had)
        return EMPTY

    def _give_late(self) -> None:
        for id, had in list(self._owed.items()):
            is_let_go = self.answer_to(id) is None
            if is_let_go and self._is_closed(id):
                continue
            del self._owed[id]
            if is_let_go:
                self._kernel.answer(id, had)
                self.given_late.add(id)

    def _rewritten(self, id: str, cpus: CPUSet | None) -> CPUSet:
        if cpus is None:
            return EMPTY
        if self._kernel.is_shut(id):
            is_there = self._is_own(id) or self._kernel.reached(id) <= cpus
            if id not in self._slipped and self._kernel.own(id) == cpus and is_there:
                # There is nothing to write.
                return EMPTY
            # What it was written with cannot be read.
            self._lose(id, is_asked=True)
            return self._kernel.reached(id) - cpus
        self._slipped.discard(id)
        if self._is_closed(id):
            # What it was written with counts as well: offline CPUs come back.
            return (self._kernel.reached(id) | self._kernel.own(id)) - cpus
        with suppress(Denied):
            self._kernel.answer(id, cpus)
        plain = self._answers.others
        if plain and not self._is_own(id) and id not in self._guarded and self._kernel.reached(id) - cpus:
            # On version 2 a group that lacks all of them has those of the group above.
            cpus = plain
            with suppress(Denied):
                self._kernel.answer(id, cpus)
        return self._kernel.reached(id) - cpus

    def _is_own(self, id: str, parent: str = "") -> bool:
        return self.key_of(id, parent) in self._answers.own

    def _taken_up(self) -> set[str]:
        return {*self._guarded, *self._newborn, *self._found, *self._released}

    def _is_closed(self, id: str) -> bool:
        return id in self.closed or id in self.denied or self._kernel.is_shut(id)

    def _is_watched(self, container: str) -> bool:
        return self._parent_of(container) in self.parents

    def _parent_of(self, container: str) -> str:
        """Return the watched parent that a group is below, whatever is between the two; the group above without any."""
        above = at = self._kernel.above(container)
        while at:
            if f"/{at}" in self.parents:
                return f"/{at}"
            at = self._kernel.above(at)
        return f"/{above}"
