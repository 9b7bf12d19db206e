"""A Hand on the simulated kernel: the ModelHand of the histories behind the port."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import trio

from sidecar.decide.facts import ContainerView
from sidecar.decide.orders import Answers, Update
from sidecar.failures import CgroupError
from sidecar.ports import GroupBorn, GroupPinned, HandNews, HeldAnswers
from sidecar.simulation.model_hand import ModelHand
from sidecar.simulation.model_kernel import ModelKernel
from state.cpuset import CPUSet
from state.key import ContainerKey


class _ToldHand(ModelHand):
    """A ModelHand that reports births."""

    def __init__(self, kernel: ModelKernel, engine: str) -> None:
        super().__init__(kernel, engine)
        self.send, self.receive = trio.open_memory_channel[HandNews](1000)

    def born(self, container: str) -> None:
        super().born(container)
        self.send.send_nowait(GroupBorn(container, f"/docker/{container}", self.answer_to(container), 0.0))
        if self.is_pinned(container):
            self.send.send_nowait(GroupPinned(container))


class KernelHand:
    """The port on a modelled kernel. `writes` are all that were ordered."""

    def __init__(self, kernel: ModelKernel, engine: str) -> None:
        self._hand = _ToldHand(kernel, engine)
        self.writes: list[tuple[str, CPUSet]] = []

    @property
    def parents(self) -> tuple[str, ...]:
        """The parents that are watched."""
        return self._hand.parents

    @property
    def shut(self) -> tuple[str, ...]:
        """As the port says."""
        return ()

    @property
    def taken(self) -> tuple[str, ...]:
        """None."""
        return ()

    @property
    def home(self) -> tuple[str, ...]:
        """It was not told."""
        return ()

    def hold(
        self,
        answers: Answers,
        parents: Sequence[str] = (),
        home: Sequence[str] = (),
        resting: Collection[ContainerKey] = (),
        *,
        keeps_defaults: bool = False,
    ) -> HeldAnswers:
        """Hold these answers."""
        stuck = self._hand.hold(answers, parents, home, resting, keeps_defaults=keeps_defaults)
        return HeldAnswers(self._hand.parents, stuck)

    def write(self, view: ContainerView, update: Update) -> CPUSet:
        """Write a group, and guard it."""
        self.writes.append((view.id, update.cpus))
        return self._hand.write(view.id, update.cpus)

    def write_many(self, writes: Sequence[tuple[ContainerView, Update]]) -> list[CPUSet | CgroupError]:
        """Write many."""
        return [self.write(view, update) for view, update in writes]

    def release(self, id: str | None) -> None:
        """Do nothing: answers let go."""

    async def news(self) -> Sequence[HandNews]:
        """Wait for one piece of news."""
        return [await self._hand.receive.receive()]

    def close(self) -> None:
        """Watch nothing any more."""
        self._hand.close()
