"""CPUs that come and go are seen within a period, or at once where the kernel tells of them; the host is mended before
the fact; trouble is reported once.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from sidecar.astray import Astray, AstrayKind
from sidecar.board import Board
from sidecar.decide.contacts import Away, Ready
from sidecar.decide.container.container import Container
from sidecar.decide.container.grip import Closed
from sidecar.decide.container.line import Fault, FaultKind
from sidecar.decide.facts import ContainerView, Fact, TopologyRead
from sidecar.decide.hand_state import HandState
from sidecar.decide.reconcile import begin
from sidecar.decide.world import replace
from sidecar.log import Log, LogLevel
from sidecar.observe.hotplug import HEARD_PERIOD_SECONDS, QUICK_ROUNDS, ROUNDS_AFTER, SETTLING_SECONDS, watch_cpus
from sidecar.words.strays import told
from state.cpuset import CPUSet
from state.errors import StateError
from state.model import State
from state.topology import Topology, uniform, with_online
from tests.support.decide.contacts import with_readiness
from tests.support.decide.stories import Story, static
from tests.support.engine.told_cpus import ToldCpus

pytestmark = pytest.mark.trio

MACHINE = uniform(cores=4)


A_ASTRAY = Astray(kind=AstrayKind.WITHOUT_CPUS, container="a")
B_ASTRAY = Astray(kind=AstrayKind.WITHOUT_CPUS, container="b")
NARROWED = Astray(kind=AstrayKind.NARROWED, cgroup="/docker", error="Read-only file system")


class Kernel:
    """A machine whose CPUs a test takes, and a host with the damage that the test sets; every question is recorded."""

    def __init__(self) -> None:
        self._cpus = MACHINE.online
        self.troubles: tuple[Astray, ...] = ()
        self.unreadable = False
        self.is_failing = False
        self.broken_topology = 0
        self.looks = 0
        self.hears_cpus: ToldCpus | None = None
        self.asked: list[str] = []

    @property
    def cpus(self) -> CPUSet:
        return self._cpus

    @cpus.setter
    def cpus(self, cpus: CPUSet) -> None:
        self._cpus = cpus
        if self.hears_cpus:
            self.hears_cpus.tell()

    def online(self) -> CPUSet:
        self.looks += 1
        if self.unreadable:
            raise StateError("no such file")
        return self.cpus

    def mend(self, views: Iterable[ContainerView]) -> tuple[Astray, ...]:
        self.asked.append("mend")
        if self.is_failing:
            raise RecursionError("nobody expected it")
        return self.troubles

    def why_unreadable(self, view: ContainerView) -> str:
        return ""

    def topology(self) -> Topology:
        self.asked.append("topology")
        if self.broken_topology:
            self.broken_topology -= 1
            raise StateError("half of a machine")
        return with_online(MACHINE, self.cpus)

    def effective_cpus(self, view: ContainerView) -> CPUSet | None:
        return None

    def ears(self) -> None:
        return None

    def cpu_ears(self) -> ToldCpus | None:
        return self.hears_cpus

    def parent_of(self, view: ContainerView) -> str:
        return ""

    def confinement(self, view: ContainerView, cpus: CPUSet) -> str:
        return ""


class Bench:
    """The watch on a board that is ready, in a nursery of its own."""

    def __init__(self) -> None:
        self.kernel = Kernel()
        self.board = Board(begin(State(), MACHINE, static()))
        self.lines = io.StringIO()
        self.looks = 0
        self.outbox, self.inbox = trio.open_memory_channel[Fact](100)

    def look(self) -> None:
        self.looks += 1

    async def told(self) -> str:
        fact = await self.inbox.receive()
        assert isinstance(fact, TopologyRead)
        self.board.post(replace(self.board.latest, topology=fact.topology))
        return str(fact.topology.online)

    def said(self, words: str) -> int:
        return self.lines.getvalue().count(words)


async def _inline(work: Callable[..., Any], *args: Any) -> Any:
    """Run in place of a thread, which the virtual clock does not see."""
    await trio.lowlevel.checkpoint()
    return work(*args)


@pytest.fixture
def is_ready() -> bool:
    return True


@pytest.fixture(params=[False, True], ids=["deaf", "hearing"])
def ears(request: pytest.FixtureRequest) -> Iterator[ToldCpus | None]:
    with closing(ToldCpus()) as made:
        yield made if request.param else None


@pytest.fixture
async def bench(monkeypatch: pytest.MonkeyPatch, nursery: trio.Nursery, is_ready: bool, ears: ToldCpus | None) -> Bench:
    monkeypatch.setattr(trio.to_thread, "run_sync", _inline)
    made = Bench()
    made.kernel.hears_cpus = ears
    made.board.post(with_readiness(made.board.latest, Ready(0) if is_ready else Away()))
    log = Log(made.lines, level=LogLevel.DEBUG)
    nursery.start_soon(lambda: watch_cpus(made.kernel, made.board, made.outbox, look_at_everything=made.look, log=log))
    return made


async def test_nothing_is_told_while_nothing_changes(autojump_clock: MockClock, bench: Bench) -> None:
    """It reads one short file per second; the host is mended once, for earlier changes."""
    await trio.sleep(3600)
    assert bench.kernel.asked == ["mend"]
    assert bench.inbox.statistics().current_buffer_used == 0
    assert bench.lines.getvalue() == ""


async def test_cpus_that_go_and_come_are_told_within_a_period(autojump_clock: MockClock, bench: Bench) -> None:
    """With a log line, and the host is mended before the machine is read."""
    await trio.sleep(10.5)
    bench.kernel.cpus = CPUSet.parse("0-1")
    began = trio.current_time()
    assert await bench.told() == "0-1"
    assert trio.current_time() - began <= 1.0
    assert bench.kernel.asked == ["mend", "mend", "topology"]
    assert bench.said("CPUs went offline cpus=2-3 online=0-1") == 1
    await trio.sleep(10)
    assert bench.kernel.asked[3:] == ["mend"] * (ROUNDS_AFTER - 1)
    bench.kernel.cpus = CPUSet.parse("0-1,3")
    assert await bench.told() == "0-1,3"
    assert bench.said("CPUs came online cpus=3 online=0-1,3") == 1


async def test_a_swap_is_told_as_both(autojump_clock: MockClock, bench: Bench) -> None:
    """The number of CPUs stays the same."""
    await trio.sleep(1)
    bench.kernel.cpus = CPUSet.parse("0-2")
    await bench.told()
    bench.kernel.cpus = CPUSet.parse("0-1,3")
    assert await bench.told() == "0-1,3"
    assert bench.said("CPUs went offline cpus=2 ") == bench.said("CPUs came online cpus=3 ") == 1


async def test_what_cannot_be_read_is_said_once(autojump_clock: MockClock, bench: Bench) -> None:
    """And it stays among the problems for as long as it lasts."""
    await trio.sleep(1)
    bench.kernel.unreadable = True
    await trio.sleep(600)
    assert bench.said("CPU hotplug is not observed reason") == 1
    assert bench.board.problems == {"hotplug": "no such file"}
    bench.kernel.unreadable = False
    bench.kernel.cpus = CPUSet.of(0)
    assert await bench.told() == "0"
    assert bench.board.problems == {}


async def test_a_machine_that_cannot_be_understood_is_read_again(autojump_clock: MockClock, bench: Bench) -> None:
    """A change is not forgotten because its first reading failed."""
    await trio.sleep(1)
    bench.kernel.cpus, bench.kernel.broken_topology = CPUSet.parse("0-2"), 3
    assert await bench.told() == "0-2"
    assert bench.said("half of a machine") == 1
    assert bench.board.problems == {}


async def test_a_process_astray_is_mended_quickly_then_looked_at(autojump_clock: MockClock, bench: Bench) -> None:
    """Ten times a second at first; and all containers are looked at when it is done."""
    await trio.sleep(1)
    bench.kernel.cpus, bench.kernel.troubles = CPUSet.parse("0-2"), (A_ASTRAY, B_ASTRAY)
    await bench.told()
    await trio.sleep(1.05)
    assert 9 <= bench.kernel.asked.count("mend") <= 13
    assert (bench.looks, bench.said(told(A_ASTRAY))) == (0, 1)
    assert bench.board.problems == {"hotplug": f"{told(A_ASTRAY)}; {told(B_ASTRAY)}"}
    bench.kernel.troubles = (B_ASTRAY,)
    await trio.sleep(0.2)
    assert bench.looks == 1
    bench.kernel.troubles = ()
    await trio.sleep(0.2)
    assert (bench.looks, bench.board.problems) == (2, {})
    asked = len(bench.kernel.asked)
    await trio.sleep(60)
    assert len(bench.kernel.asked) <= asked + ROUNDS_AFTER


async def test_what_cannot_be_mended_is_tried_at_leisure(autojump_clock: MockClock, bench: Bench) -> None:
    """A read-only cgroup tree stays so: after a while at most one attempt per second, and one log line in all."""
    await trio.sleep(1)
    bench.kernel.cpus, bench.kernel.troubles = CPUSet.parse("0-2"), (NARROWED,)
    await bench.told()
    await trio.sleep(10)
    before = len(bench.kernel.asked)
    assert before > QUICK_ROUNDS
    await trio.sleep(100)
    assert 98 <= len(bench.kernel.asked) - before <= 102
    assert bench.said(told(NARROWED)) == 1


@pytest.mark.parametrize("is_ready", [False])
async def test_nothing_is_mended_before_containers_are_known(autojump_clock: MockClock, bench: Bench) -> None:
    """Only the containers show which groups have parents."""
    await trio.sleep(10)
    assert bench.kernel.asked == []
    bench.board.post(with_readiness(bench.board.latest, Ready(0)))
    await trio.sleep(10)
    assert bench.kernel.asked == ["mend"]


async def test_a_mending_that_fails_unexpectedly_ends_nothing(autojump_clock: MockClock, bench: Bench) -> None:
    """It is counted, and CPUs are still told once it works again."""
    bench.kernel.is_failing, bench.kernel.cpus = True, CPUSet.parse("0-2")
    await trio.sleep(10)
    assert bench.board.crashes > 1
    assert bench.said("nobody expected it") > 0
    bench.kernel.is_failing = False
    assert await bench.told() == "0-2"


only_hearing = pytest.mark.parametrize("ears", [True], ids=["hearing"], indirect=True)


@only_hearing
async def test_what_the_kernel_tells_is_seen_at_once(autojump_clock: MockClock, bench: Bench) -> None:
    """And hardly anything is read while it tells nothing."""
    await trio.sleep(3600)
    assert bench.kernel.looks <= 3600 / HEARD_PERIOD_SECONDS + ROUNDS_AFTER + 1
    bench.kernel.cpus = CPUSet.parse("0-2")
    began = trio.current_time()
    assert await bench.told() == "0-2"
    assert trio.current_time() - began <= 2 * SETTLING_SECONDS


@only_hearing
async def test_cpus_that_went_and_came_between_two_looks_are_mended(autojump_clock: MockClock, bench: Bench) -> None:
    """The list is as it was; on cgroup v1 the groups are not."""
    await trio.sleep(30)
    bench.kernel.asked.clear()
    bench.kernel.cpus = CPUSet.parse("0-2")
    bench.kernel.cpus = MACHINE.online
    await trio.sleep(1)
    assert bench.kernel.asked == ["mend"] * ROUNDS_AFTER


@only_hearing
async def test_ears_that_missed_a_change_are_not_relied_on(
    autojump_clock: MockClock, bench: Bench, ears: ToldCpus
) -> None:
    """It is seen within their period, and then there is a look each second, until they hear something."""
    await trio.sleep(60)
    bench.kernel.hears_cpus = None
    bench.kernel.cpus = CPUSet.parse("0-2")
    began = trio.current_time()
    assert await bench.told() == "0-2"
    assert trio.current_time() - began <= HEARD_PERIOD_SECONDS
    await trio.sleep(5)
    before = bench.kernel.looks
    await trio.sleep(60)
    assert 59 <= bench.kernel.looks - before <= 61
    ears.tell()
    await trio.sleep(5)
    before = bench.kernel.looks
    await trio.sleep(600)
    assert 59 <= bench.kernel.looks - before <= 61


async def at_rest_with_one(bench: Bench) -> Container:
    """Wait until nothing is asked of the kernel any more, and return a plain container."""
    await trio.sleep(60)
    bench.kernel.asked.clear()
    story = Story(MACHINE)
    return story.known(story.arrive("plain", starts=False))


@only_hearing
async def test_an_order_that_failed_has_the_host_mended_though_nothing_is_heard(
    autojump_clock: MockClock, bench: Bench
) -> None:
    """People narrow groups as well. It is tried once a second, for as long as the order fails."""
    plain = await at_rest_with_one(bench)
    failed = Fault(FaultKind.FAILED, "cpuset.cpus: permission denied")
    bench.board.post(bench.board.latest.with_container(replace(plain, fault=failed)))
    await trio.sleep(1.1)
    assert "mend" in bench.kernel.asked
    await trio.sleep(60)
    assert 55 <= bench.kernel.asked.count("mend") <= 65


@only_hearing
async def test_an_order_that_failed_as_a_container_closed_its_cgroup_is_no_hint_of_cpus_that_went(
    autojump_clock: MockClock, bench: Bench
) -> None:
    """Else it would be said that nothing is known of CPUs that went offline, where none did."""
    plain = await at_rest_with_one(bench)
    failed = Fault(FaultKind.INEFFECTIVE, "where plain runs cannot be read")
    bench.board.post(bench.board.latest.with_container(replace(plain, fault=failed, grip=Closed("permission denied"))))
    await trio.sleep(5)
    hand = HandState(parents=("/docker",), wrested=frozenset({plain.view.key}))
    world = replace(bench.board.latest, hand=hand)
    bench.board.post(world.with_container(replace(plain, fault=failed)))
    await trio.sleep(5)
    assert "mend" not in bench.kernel.asked


@only_hearing
async def test_ears_that_break_are_done_without(autojump_clock: MockClock, bench: Bench, ears: ToldCpus) -> None:
    """It is said once, and there is a look each second."""
    await trio.sleep(60)
    ears.is_broken = True
    bench.kernel.cpus = CPUSet.parse("0-2")
    await bench.told()
    await trio.sleep(10)
    assert bench.said("CPUs that come and go are not heard any more reason=broken") == 1
    before = bench.kernel.looks
    await trio.sleep(60)
    assert 59 <= bench.kernel.looks - before <= 61


@only_hearing
@pytest.mark.parametrize("is_ready", [False])
async def test_what_is_heard_before_containers_are_known_is_read_at_leisure(
    autojump_clock: MockClock, bench: Bench
) -> None:
    """An engine may be away for hours."""
    bench.kernel.cpus = CPUSet.parse("0-2")
    await bench.told()
    await trio.sleep(60)
    before = bench.kernel.looks
    await trio.sleep(600)
    assert bench.kernel.looks - before <= 601
