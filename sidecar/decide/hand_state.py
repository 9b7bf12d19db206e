"""HandState: what is known of the hand: which answers it holds, and where the groups may be that it answered.

All groups that were born and are not known yet are together **one more container, the newborns**, as the shared group
is: a start before its look, the steps of a build, containers that the engine does not list. They have a footprint, they
are ordered (`HoldAnswers`), and what they leave is entered only once that is confirmed (`AnswersHeld`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from sidecar.decide.contacts import Contact
from sidecar.decide.facts import ContainerView, EngineInfo
from sidecar.decide.hand_facts import Slipped
from sidecar.decide.orders import HoldAnswers
from sidecar.systemd_names import is_group_of_pod, parent_path
from state.cpuset import EMPTY, CPUSet, union
from state.key import ContainerKey


class Insider(msgspec.Struct, frozen=True):
    """What was born inside the group of this owner, as it was told with this ticket."""

    owner: ContainerKey
    since: int


class HandState(msgspec.Struct, frozen=True, kw_only=True):
    """The hand, which watches these parents: paths below the hierarchy's root."""

    parents: tuple[str, ...] = ()
    since: int = 0
    """Each birth below these parents is answered that is later than this ticket."""
    held: HoldAnswers | None = None
    """The answers that it surely holds."""
    sent: HoldAnswers | None = None
    """The answers that it may hold already."""
    stuck: CPUSet = EMPTY
    """Where newborns may be that it cannot write."""
    unwatched: tuple[str, ...] = ()
    """Cgroup parents, as engines name them, below which the hand did not find a container that runs; "" is the engine's
    default.
    """
    taken: tuple[str, ...] = ()
    """Parents that another hand watches, so that this one does not."""
    home: tuple[str, ...] = ()
    """Where containers that name no parent are born, as configured; nothing if it is not."""
    homes: Mapping[str, tuple[str, ...]] = {}
    """By engine, where those were found."""
    wrested: frozenset[ContainerKey] = frozenset()
    """Containers whose cpuset another program writes more often than it surely undoes (`covering`)."""
    slipped: Mapping[ContainerKey, Slipped] = {}
    """What was told last of those that slipped and are not known yet (`wresting`)."""
    insiders: Mapping[ContainerKey, Insider] = {}
    """What was born inside owners' groups, and no look has shown since (`insiders`)."""
    waited_for: frozenset[ContainerKey] = frozenset()
    """The owners for which records have waited since the last of these was ordered (`moves/records`)."""
    met: tuple[str, ...] = ()
    """All parents that it has ever watched: it watches one that is gone as soon as it is there again, if it is free."""

    def watches_home(self, engine: str) -> bool:
        """Return whether births of an engine's containers that name no parent are surely below parents that it
        watches: it was not told to leave one of them before a look showed that it is one.
        """
        home = {*self.home, *self.homes.get(engine, ())}
        told = [{*each.home, *each.parents} for each in (self.held, self.sent) if each and not _has_defaults(each)]
        is_watched = home <= set(self.met) and all(home <= each for each in told)
        return bool(home) and is_watched and not home & set(self.taken)

    def answers_births_of(self, engine: str, contacts: Mapping[str, Contact]) -> bool:
        """Return whether it surely answers each birth of this engine: where containers are born that name no parent is
        fixed, or was found. Beside other engines, a user's has them in that user's systemd, where no hand is.
        """
        if not self.is_answering or self.taken:
            return False
        info = contacts[engine].info
        if info is None or info.traits.has_default_parent:
            return self.watches_home(engine)
        return len(contacts) == 1 or not info.is_rootless

    def surely_watches(self, path: str, contacts: Mapping[str, Contact]) -> bool:
        """Return whether it watches this parent, and still does when it holds what it was sent: that no container named
        any more, when this was sent, may be watched no more already. A default is watched though nothing names it.
        """
        held, sent = self.held, self.sent
        if sent is None or path in sent.parents or path in sent.home:
            return path in self.parents
        infos = {None, *(each.info for each in contacts.values())}

        def is_named_by(order: HoldAnswers) -> bool:
            return any(may_mean(each, path, info) for each in order.parents for info in infos)

        is_default = _has_defaults(sent) and (held is None or not is_named_by(held))
        return path in self.parents and (is_default or is_named_by(sent))

    @property
    def is_answering(self) -> bool:
        """Whether it surely answers each birth, but for containers that are left alone."""
        held, newest = self.held, self.sent or self.held
        if held is None or newest is None:
            return False
        return held.answers.others is not None and newest.answers.others is not None

    def surely_answers(self, key: ContainerKey) -> bool:
        """Return whether it surely answers each birth of this container with an entry of its own."""
        held, newest = self.held, self.sent or self.held
        if held is None or newest is None:
            return False
        return held.answers.own.get(key) is not None and newest.answers.own.get(key) is not None

    def answers_for(self, key: ContainerKey) -> tuple[CPUSet, ...]:
        """Return the CPUs that this container may get at its birth, the newest answer last. Without any, nothing is
        written.
        """
        held, sent = self.held, self.sent
        before = held.answers.own.get(key, held.answers.others) if held else None
        newest = sent.answers.own.get(key, sent.answers.others) if sent else None
        if newest is None or newest == before:
            return () if before is None else (before,)
        return (newest,) if before is None else (before, newest)

    def returned_to(self, key: ContainerKey) -> CPUSet:
        """Return the CPUs on which it may let a container be again that it does not know: what another program wrote
        into that group counts as far as it is not owned, and these are not any more in the answers that it was sent. If
        those are empty, it lets the container go instead (`lets_go`).
        """
        held, sent = self.held, self.sent
        if held is None or sent is None or sent.answers.others is None or key in sent.answers.own:
            return EMPTY
        return held.answers.owned - sent.answers.owned

    def has_own_answer(self, key: ContainerKey) -> bool:
        """Return whether it may hold an answer for this container, other than that for all others."""
        return any(each.answers.own.get(key) is not None for each in (self.held, self.sent) if each)

    def lets_go(self, key: ContainerKey) -> bool:
        """Return whether it is letting this container go, or may have done so: from then on the container may be
        wherever it would be without the hand.
        """
        return _is_answered(self.held, key) and self.sent is not None and not _is_answered(self.sent, key)

    def newborns(self, online: CPUSet) -> int:
        """Return the CPUs on which newborns may be, as a mask: where they are let be born, and all that are not owned,
        in any answer that it may hold.

        If it does not answer all births, nothing is known of newborns, as without a hand, but for those that fronts
        start by the standing order: these are where all others may be.
        """
        if not self.is_answering or self.held is None:
            orders = [each.answers.others for each in (self.held, self.sent) if each]
            return union(each for each in orders if each).mask
        if any(map(self.has_own_answer, self.slipped)):
            # It is no newborn that the hand tells of where it is stuck, and no look shows it.
            return online.mask
        kept = self.held.answers.owned
        for each in (self.held, self.sent or self.held):
            # The pool's last CPU may be owned as well: a grant whose CPUs all went offline is answered with it.
            kept &= each.answers.owned - (each.answers.others or EMPTY)
            if each.online - online or online.isdisjoint(each.answers.others or EMPTY):
                # A group whose CPUs are all offline has those of its parent, until it is written again.
                return online.mask
        return (online - kept).mask | self.stuck.mask


def _is_answered(order: HoldAnswers | None, key: ContainerKey) -> bool:
    return order is not None and order.answers.own.get(key, order.answers.others) is not None


def _has_defaults(order: HoldAnswers) -> bool:
    """Return whether it watches all defaults that engines may have, and not only those that were found."""
    return order.keeps_defaults or not order.home


def is_insider(hand: HandState | None, key: ContainerKey) -> bool:
    """Return whether a container was born inside the group of an owner, and no look has shown it since."""
    return hand is not None and key in hand.insiders


def may_mean(parent: str, path: str, info: EngineInfo | None) -> bool:
    """Return whether a container that names this cgroup parent is born below the cgroup at this path, for all that is
    known of its engine. A user's own engine is confined to the user's part of the hierarchy.
    """
    named, is_rootless = parent_path(parent), info is not None and info.is_rootless
    return path == named or (is_rootless and bool(named) and path.endswith(named))


def has_place(view: ContainerView) -> bool:
    """Return whether a look showed below which parent a container is born, or that it is in its pod's group."""
    return not view.is_glance and (not view.pod or is_group_of_pod(view.found_below, view.pod))


def owned_by_strays(hand: HandState, known: Collection[ContainerKey], shown: Collection[ContainerKey]) -> int:
    """Return the CPUs, as a mask, that the hand may give at their births to groups which are no container's that has
    them: it is not `known` any more; or its place was `shown` since, and it may be below any parent in an answer that
    the hand may hold, so that a group elsewhere that is called like it has them as well.
    """
    mask = 0
    for answers in (each.answers for each in (hand.held, hand.sent) if each):
        for key, cpus in answers.own.items():
            if cpus is not None and (key not in known or (key in answers.unplaced and key in shown)):
                mask |= cpus.mask
    return mask
