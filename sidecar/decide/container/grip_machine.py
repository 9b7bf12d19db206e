"""The third machine of a container: the hand's grip on its cgroup. A part of `machine`, which calls it.

1. A write that is **done** is the truth about where the container runs. From then on it is guarded: no order of the
   engine, late or lost, changes that for longer than the hand needs to write again.
2. Another run is another cgroup: it was answered at its birth, and is not guarded by an earlier write.
3. A look that shows another run while a write is outstanding is believed. The write may have met either run, so its
   CPUs are unsure until the next look.
4. A write that **failed** closes the cgroup until another run: the engine alone moves the container. Until a look, that
   may be such a run already.
5. A cgroup that another program closed to the hand has **slipped**: it is closed too, and may be anywhere until a look
   that began later.

The rules for changing this file are those of `machine`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from sidecar.decide.container.container import Container
from sidecar.decide.container.grip import Closed, Grip, Guarded, Loose, Writing
from sidecar.decide.container.line import Sent
from sidecar.decide.container.news import (
    AnswersTold,
    GripNews,
    HoldBegan,
    LetGo,
    Looked,
    SlipTold,
    WriteDone,
    WriteSent,
    WriteUndone,
)
from sidecar.decide.container.place import Place
from sidecar.decide.container.tables import Rule, same
from sidecar.decide.facts import ContainerView
from state.cpuset import EMPTY, CPUSet

_made = msgspec.structs.replace


def is_same_run(before: ContainerView, view: ContainerView) -> bool:
    """Return whether two looks show the same run of a container, or the same rest."""
    return before.phase.is_live == view.phase.is_live and before.started_at == view.started_at


def widened(grip: Grip, came: CPUSet, online: CPUSet) -> Grip:
    """Return the grip after CPUs came online, to those that were: what may be anywhere by it may be on them too."""
    if isinstance(grip, Guarded) or not grip.unsure or not online <= grip.unsure:
        return grip
    return _made(grip, unsure=grip.unsure | came)


def _written_to(container: Container, news: WriteSent) -> Container:
    """Make the write outstanding. CPUs of the one before that the kernel did not give are unsure until it is done: it
    gives them as soon as it can. If it may have been moved before, it is sure of nothing until then.
    """
    grip, unsure, is_moved = container.grip, EMPTY, False
    if isinstance(grip, Loose):
        unsure, is_moved = grip.unsure, grip.is_moved
    elif isinstance(grip, Guarded) and not grip.cpus <= container.place.seen:
        unsure = grip.cpus
    return _made(container, grip=Writing(news.order, unsure, isinstance(grip, Guarded), is_moved=is_moved))


def _surer(container: Container, news: Looked) -> Container:
    """Be sure again of what the look shows, unless it is older than what the hand did."""
    assert isinstance(container.grip, Loose)
    return _made(container, grip=Loose()) if container.grip.since <= news.began else container


def _reborn(container: Container, news: Looked) -> Container:
    """In another run, know of no write. Be sure again of what the look shows, unless it is older than what the hand
    did.
    """
    grip, left = container.grip, Loose()
    if isinstance(grip, Closed) and grip.since > news.began:
        left = Loose(grip.unsure, bool(grip.unsure), grip.since)
    if not is_same_run(container.view, news.view):
        return _made(container, grip=left)
    return _made(container, grip=_made(grip, unsure=left.unsure)) if isinstance(grip, Closed) else container


def _crossed(container: Container, news: Looked) -> Container:
    """Note the look; if it shows another run, mark the write as overlapped."""
    if not is_same_run(container.view, news.view):
        return _ended(container, news)
    assert isinstance(container.grip, Writing)
    return _made(container, grip=_made(container.grip, looked=news.began))


def _ended(container: Container, _: object) -> Container:
    """Mark the write as overlapped: the run that it was meant for is over."""
    assert isinstance(container.grip, Writing)
    return _made(container, grip=_made(container.grip, is_guarded=False, is_overlapped=True))


def _loosened(container: Container, _: object) -> Container:
    """Know of no write, and be sure of the place: the run that had them is over."""
    return _made(container, grip=Loose())


def _done(container: Container, news: WriteDone) -> Container:
    """Guard it there; unless a look is newer, it is seen there. If the write was overlapped, or there is no hand any
    more, nothing is guarded, and its CPUs are unsure. If it slipped meanwhile, it may be anywhere until a look.
    """
    grip, view = container.grip, container.view
    assert isinstance(grip, Writing)
    if grip.slipped:
        return _made(container, grip=Loose(grip.unsure | news.effective, is_moved=True, since=grip.slipped))
    if grip.is_overlapped:
        return _made(container, grip=Loose(grip.unsure | news.effective))
    is_news = news.ended > grip.looked
    made = _made(
        container,
        grip=Guarded(grip.order.update.cpus) if container.is_covered else Loose(EMPTY if is_news else news.effective),
        known=max(container.known, news.ended),
    )
    if not is_news:
        return made
    place = Place(news.effective, container.place.configured)
    return _made(made, view=_made(view, effective=news.effective), place=place)


def _undone(container: Container, news: WriteUndone) -> Container:
    """Close it: the engine alone moves it in this run. If the write was overlapped, it is another run. It may be one
    that no look has shown yet, and whose birth could not be written either: until a look it may be where it is
    configured.
    """
    grip = container.grip
    assert isinstance(grip, Writing)
    unsure = grip.unsure | grip.order.update.cpus
    if grip.is_overlapped or not container.is_covered:
        return _made(container, grip=Loose(unsure, bool(grip.slipped), grip.slipped))
    unsure |= container.place.configured
    return _made(container, grip=Closed(news.text, unsure, news.is_missing, max(news.ended, grip.slipped)))


def _slipped(container: Container, news: SlipTold) -> Container:
    """Close it: the engine alone moves it in this run. Until a look it may be anywhere."""
    if not container.is_covered:
        return _made(container, grip=Loose(news.cpus, is_moved=True, since=news.ended))
    is_missing = isinstance(container.grip, Closed) and container.grip.is_missing
    return _made(container, grip=Closed(news.text, news.cpus, is_missing, news.ended))


def _slipped_meanwhile(container: Container, news: SlipTold) -> Container:
    """Note it: the write may have been done before, and guards nothing. It may be anywhere."""
    grip = container.grip
    assert isinstance(grip, Writing)
    unsure = grip.unsure | news.cpus
    return _made(container, grip=_made(grip, unsure=unsure, is_guarded=False, slipped=news.ended))


def _answered_for(container: Container, news: AnswersTold) -> Container:
    """Keep the answers that its next birth may get. Without cover the hand guards nothing, and an outstanding order
    counts as overlapped: the guard may have answered it. What could not be written stays unsure.
    """
    if news.is_covered or not container.is_covered:
        return _made(container, answers=news.answers, is_covered=news.is_covered)
    grip, line = container.grip, container.line
    if isinstance(grip, Writing):
        grip = _made(grip, is_guarded=False)
    elif not isinstance(grip, Loose):
        grip = Loose(grip.unsure, bool(grip.unsure), grip.since) if isinstance(grip, Closed) else Loose()
    if isinstance(line, Sent) and not container.is_idle:
        line = _made(line, is_overlapped=True)
    return _made(container, answers=news.answers, is_covered=False, grip=grip, line=line)


def _let_go(container: Container, news: LetGo) -> Container:
    """Know of no write, and be unsure of where the hand put it, or lets it go, unless its start is held: then it has no
    cgroup. An older look does not end that. It was not moved if all of that is where it was seen, no write of it
    failed, and it was not moved before.
    """
    grip = container.grip
    unsure = EMPTY if container.is_held else container.pulled | news.cpus
    put = {container.pulled, news.cpus} - {EMPTY}
    is_either = isinstance(grip, Closed) and bool(grip.unsure)
    if isinstance(grip, Loose) and grip.is_moved and not container.is_held:
        unsure, is_either = unsure | grip.unsure, True
    is_moved = bool(unsure) and not isinstance(container.grip, Guarded) and (is_either or put != {container.place.seen})
    return _made(container, grip=Loose(unsure, is_moved, news.ended))


def _let_go_meanwhile(container: Container, news: LetGo) -> Container:
    """Be unsure of where the hand put it, or lets it go."""
    assert isinstance(container.grip, Writing)
    return _made(container, grip=_made(container.grip, unsure=container.grip.unsure | news.cpus))


GRIPS: Final[Mapping[tuple[type[Grip], type[GripNews]], Rule]] = {
    (Loose, WriteSent): _written_to,
    (Writing, WriteSent): same,
    (Guarded, WriteSent): _written_to,
    (Closed, WriteSent): same,
    (Loose, Looked): _surer,
    (Writing, Looked): _crossed,
    (Guarded, Looked): _reborn,
    (Closed, Looked): _reborn,
    (Loose, HoldBegan): _loosened,
    (Writing, HoldBegan): _ended,
    (Guarded, HoldBegan): _loosened,
    (Closed, HoldBegan): _loosened,
    (Loose, WriteDone): same,
    (Writing, WriteDone): _done,
    (Guarded, WriteDone): same,
    (Closed, WriteDone): same,
    (Loose, WriteUndone): same,
    (Writing, WriteUndone): _undone,
    (Guarded, WriteUndone): same,
    (Closed, WriteUndone): same,
    (Loose, SlipTold): _slipped,
    (Writing, SlipTold): _slipped_meanwhile,
    (Guarded, SlipTold): _slipped,
    (Closed, SlipTold): _slipped,
    (Loose, AnswersTold): _answered_for,
    (Writing, AnswersTold): _answered_for,
    (Guarded, AnswersTold): _answered_for,
    (Closed, AnswersTold): _answered_for,
    (Loose, LetGo): _let_go,
    (Writing, LetGo): _let_go_meanwhile,
    (Guarded, LetGo): _let_go,
    (Closed, LetGo): _let_go,
}
"""The rule for each state of the grip and each kind of news about the hand."""
