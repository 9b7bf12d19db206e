"""The worked example of the architecture page, played by the real `step`."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from sidecar.decide.facts import (
    ContainerSeen,
    ContainerView,
    CpusetApplied,
    EngineConnected,
    EngineInfo,
    Fact,
    InventoryTaken,
    Phase,
    Purpose,
    TimerEnded,
)
from sidecar.decide.moves.settled import is_settled
from sidecar.decide.orders import ApplyCpuset, Order, StartTimer
from sidecar.decide.reconcile import begin
from sidecar.decide.settings import PolicyName, Settings
from sidecar.decide.step import step
from sidecar.decide.world import World
from state.cpuset import CPUSet
from state.key import ContainerKey
from state.model import State
from state.topology import uniform
from tests.docs.pages import ROOT, rows, section

WEB = ContainerView(
    engine="docker", id="a" * 64, name="web", phase=Phase.RUNNING, effective=CPUSet.parse("0-3"), started_at="1"
)
DB = ContainerView(engine="docker", id="b" * 64, name="db", phase=Phase.CREATED, labels={"cpuset.exclusive": "2"})


class Story:
    """A World, and what was ordered in it."""

    def __init__(self) -> None:
        settings = Settings(policy=PolicyName.STATIC, reserved_cpus=CPUSet.of(0))
        self.world: World = begin(State(), uniform(cores=4), settings)
        self.orders: dict[ContainerKey, ApplyCpuset] = {}
        self.timers: list[int] = []
        self.tickets = 0

    def ticket(self) -> int:
        self.tickets += 1
        return self.tickets

    def tell(self, *facts: Fact) -> tuple[str, str, str]:
        """Return the last three columns of the table: footprints *before* the answers, and the orders."""
        self.world, orders = step(self.world, facts)
        self._remember(orders)
        moves = [f"{self._name(o.container)} to {o.update.cpus}" for o in orders if isinstance(o, ApplyCpuset)]
        return self._footprint(WEB), self._footprint(DB), ", ".join(moves)

    def answer(self, view: ContainerView, effective: str | None) -> tuple[str, str, str]:
        seen = CPUSet.parse(effective) if effective else None
        return self.tell(CpusetApplied(view.key, self.orders[view.key].number, seen, self.ticket()))

    def is_settled(self) -> bool:
        return is_settled(self.world, self.world.containers[DB.key])

    def _remember(self, orders: Sequence[Order]) -> None:
        for order in orders:
            if isinstance(order, ApplyCpuset):
                self.orders[order.container] = order
            elif isinstance(order, StartTimer):
                self.timers.append(order.number)

    def _name(self, key: ContainerKey) -> str:
        return self.world.containers[key].view.name

    def _footprint(self, view: ContainerView) -> str:
        return str(CPUSet.from_mask(self.world.containers[view.key].footprint))


def test_the_worked_example_is_what_happens() -> None:
    """Each row of the table: the footprints, the orders, and when the container is settled."""
    story = Story()
    info = EngineInfo(name="docker", version="20.10", api_version="1.41", ncpu=4)
    story.world, _ = step(story.world, [EngineConnected(info, 0), InventoryTaken((WEB,), (), story.ticket())])
    running = msgspec.structs.replace(
        DB, phase=Phase.RUNNING, cpuset="1-2", effective=CPUSet.parse("1-2"), started_at="2"
    )
    stopped = msgspec.structs.replace(running, phase=Phase.EXITED, effective=None)

    found = [story.tell(ContainerSeen(DB, story.ticket()))]
    found.append(story.answer(DB, None))
    found.append(story.tell(ContainerSeen(running, story.ticket())))
    assert not story.is_settled()
    found.append(story.answer(WEB, "0,3"))
    assert story.is_settled()
    found.append(story.tell(ContainerSeen(stopped, story.ticket())))
    assert [orders for _, _, orders in found] == ["db to 1-2, web to 0,3", "", "", "", ""]
    final = story.tell(TimerEnded(DB.key, Purpose.LINGER, story.timers[-1]))
    assert sorted(final[2].split(", ")) == ["db to 0-3", "web to 0-3"]

    table = rows(section(ROOT / "docs/architecture.md", "The heart: vacate before occupy"))
    assert [(row[1], row[2].partition(",")[0]) for row in table[:5]] == [(web, db) for web, db, _ in found]
    assert [row[3].replace("`", "") for row in (table[0], table[5])] == [
        "db to 1-2 (rule 4), web to 0,3 (rule 1)",
        "web to 0-3 (rule 2), db to 0-3 (rule 4)",
    ]
    assert "**settled**" in table[3][3]
