"""What the allocator tells workloads before it sends orders: what is opened to others, leaves, or is about to come."""

from __future__ import annotations

import msgspec
import pytest
import trio
from trio.testing import MockClock

from sidecar.decide.facts import (
    ContainerSeen,
    CpusetApplied,
    Fact,
    GiveUpRequested,
    Phase,
    ResizeRequested,
    SettingsChanged,
    StartHeld,
)
from sidecar.decide.hand_facts import AnswersHeld, HandReady
from sidecar.decide.orders import ApplyCpuset, HoldAnswers
from sidecar.decide.settings import PolicyName, TenantRight
from sidecar.projection.projection_of import projection_of
from state.codec import to_builtins
from state.cpuset import CPUSet
from tests.support.daemon.host import inline
from tests.support.decide.stories import static
from tests.support.keys import docker
from tests.test_allocator import READY, Recorder, recorder, view

pytestmark = pytest.mark.trio

__all__ = ["recorder"]


async def lose_at_once(recorder: Recorder, *facts: Fact) -> list[str]:
    """Let b have CPU 1 to itself beside a, and then have these facts; return the calls since then."""
    await recorder.take(READY, [ContainerSeen(view("a"), 2), ContainerSeen(view("b", exclusive=1), 3)])
    for order in [each for each in recorder.orders if isinstance(each, ApplyCpuset)]:
        await recorder.take([CpusetApplied(order.container, order.number, order.update.cpus, 4)])
    recorder.calls.clear()
    await recorder.take(facts)
    return recorder.calls


@pytest.mark.parametrize("what", ["reserved", "released", "none"])
async def test_what_is_opened_to_others_is_told_first(autojump_clock: MockClock, recorder: Recorder, what: str) -> None:
    """CPUs that a container loses by a decision alone are not told as its own when others are let onto them."""
    facts: dict[str, Fact] = {
        "reserved": SettingsChanged(to_builtins(static(reserved_cpus=CPUSet.of(0, 1)))),
        "none": SettingsChanged(to_builtins(static(policy=PolicyName.NONE))),
        "released": GiveUpRequested(docker("b" * 64)),
    }
    calls = await lose_at_once(recorder, facts[what])
    corrected = next(index for index, call in enumerate(calls) if call.startswith("correct b"))
    ordered = [index for index, call in enumerate(calls) if call.startswith("order")]
    assert all(corrected < index for index in ordered)
    assert calls.index("post") < corrected
    assert ordered or what == "none"


async def test_an_order_leaves_though_what_it_opens_cannot_be_told(
    autojump_clock: MockClock, recorder: Recorder
) -> None:
    recorder.failing = {"projections"}
    calls = await lose_at_once(recorder, GiveUpRequested(docker("b" * 64)))
    assert {"correct b shared 1", "order a"} <= set(calls)
    assert recorder.problems == {"projections": "by-id/a: disk full"}


@pytest.fixture
def elastic(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    """Return a recorder under the policy `dynamic`."""
    monkeypatch.setattr(trio.to_thread, "run_sync", inline)
    return Recorder(PolicyName.DYNAMIC)


async def take_from_b(recorder: Recorder) -> list[str]:
    """Let a newcomer ask for CPUs while b runs on all of them; return the calls since then."""
    everything = CPUSet.of(1, 2, 3)
    grown = view("b", exclusive=1, max="3", signal="HUP", grace="5s")
    await recorder.take(READY, [ContainerSeen(grown, 2)])
    first = next(order for order in recorder.orders if isinstance(order, ApplyCpuset))
    assert first.update.cpus == everything
    await recorder.take([CpusetApplied(docker("b" * 64), first.number, everything, 3)])
    recorder.calls.clear()
    recorder.orders.clear()
    await recorder.take([ContainerSeen(view("c", exclusive=2), 4)])
    return recorder.calls


async def test_an_owner_is_not_told_to_be_settled_when_it_is_given_more(
    autojump_clock: MockClock, elastic: Recorder
) -> None:
    """The kernel has the new CPUs at once, and the file names them after the answer: in between it is not settled."""
    manual = view("b", exclusive=1, max="3", scale="manual")
    await elastic.take(READY, [ContainerSeen(manual, 2)])
    first = next(order for order in elastic.orders if isinstance(order, ApplyCpuset))
    await elastic.take([CpusetApplied(first.container, first.number, first.update.cpus, 3)])
    known = elastic.latest.containers[docker("b" * 64)]
    assert projection_of(elastic.latest, known).settled
    elastic.calls.clear()
    await elastic.take([ResizeRequested(first.container, 3)])
    assert elastic.calls.index("correct b exclusive 1") < elastic.calls.index("order b")
    told = elastic.corrected[-1]
    assert (told.settled, told.alone, told.arriving) == (False, False, CPUSet.of(2, 3))


async def test_a_workload_is_told_before_its_grace_begins_and_before_the_signal(
    autojump_clock: MockClock, elastic: Recorder
) -> None:
    """After the commit and the posting: its projection is that of the newest World."""
    calls = await take_from_b(elastic)
    assert calls[:3] == ["journal", "checkpoint", "post"]
    told = [call for call in calls if call.startswith(("announce b", "grace b", "signal b"))]
    assert told == ["announce b 1-3 leaving 2-3", "grace b", "announce b 1-3 leaving 2-3", "signal b"]
    assert elastic.announced == [(5.0, 5.0), (5.0, None)]


async def test_a_grace_begins_though_it_cannot_be_told(autojump_clock: MockClock, elastic: Recorder) -> None:
    """A full disk does not keep CPUs from other containers: the board and the log report it."""
    elastic.failing = {"projections"}
    calls = await take_from_b(elastic)
    assert {"grace b", "signal b"} <= set(calls)
    assert elastic.problems == {"projections": "by-id/a: disk full"}
    assert "a workload gets no notice of CPUs that are taken from it container=b" in elastic.lines.getvalue()


async def test_what_a_container_will_not_have_at_its_birth_is_withdrawn_first(
    autojump_clock: MockClock, recorder: Recorder
) -> None:
    """The hand lets a container be born without CPUs that are now another's: its files may not name them any more."""
    idle = view("a", phase=Phase.CREATED)
    await recorder.take(READY, [HandReady(("docker",), 2, home=("docker",))], [ContainerSeen(idle, 3)])
    await recorder.take(held(recorder, 4), [ContainerSeen(view("b", exclusive=1), 5)])
    # The order to it is not answered yet, so it gets no other one.
    await recorder.take(held(recorder, 6))
    await recorder.take(held(recorder, 7))
    recorder.calls.clear()
    await recorder.take([ContainerSeen(view("c", exclusive=1), 8)])
    assert "order a" not in recorder.calls
    assert recorder.calls.index("withdraw a 0,3") < recorder.calls.index("answers")
    # Its answer is the one that is held.
    assert "withdraw b 1" not in recorder.calls


async def test_what_the_hand_lets_go_is_sure_of_no_cpu_from_the_order_on(
    autojump_clock: MockClock, recorder: Recorder
) -> None:
    """A container that may be pinned is born where newborns are, and goes to its pin before a look shows it there."""
    permitted = SettingsChanged(to_builtins(static(may=(TenantRight.PIN,))))
    hand = HandReady(("docker",), 2, home=("docker",))
    await recorder.take(READY, [permitted], [hand], [ContainerSeen(view("b", exclusive=1), 3)])
    await recorder.take(held(recorder, 4))
    await recorder.take(held(recorder, 5))
    recorder.calls.clear()
    pinned = msgspec.structs.replace(view("c"), cpuset="0", effective=CPUSet.of(2, 3))
    await recorder.take([ContainerSeen(pinned, 6)])
    assert recorder.calls.index("withdraw c ") < recorder.calls.index("answers")
    known = recorder.latest.containers[docker("c" * 64)]
    assert projection_of(recorder.latest, known).cpus == CPUSet(())


async def test_what_the_hand_may_still_answer_is_sure_of_no_cpu(autojump_clock: MockClock, recorder: Recorder) -> None:
    """The answers that are under way do not know that it is left alone: it may be put into the pool yet."""
    permitted = SettingsChanged(to_builtins(static(may=(TenantRight.PIN,))))
    hand = HandReady(("docker",), 2, home=("docker",))
    await recorder.take(READY, [permitted], [hand], [ContainerSeen(view("b", exclusive=1), 3)])
    await recorder.take(held(recorder, 4))
    pinned = msgspec.structs.replace(view("c"), cpuset="0", effective=CPUSet.of(0))
    await recorder.take([ContainerSeen(pinned, 5)])
    known = recorder.latest.containers[docker("c" * 64)]
    assert projection_of(recorder.latest, known).cpus == CPUSet(())


def held(recorder: Recorder, ended: int) -> list[Fact]:
    """Return the fact that the hand holds the last answers."""
    last = next(each for each in reversed(recorder.orders) if isinstance(each, HoldAnswers))
    return [AnswersHeld(last.number, ("docker",), CPUSet(()), ended)]


async def test_what_the_answer_of_a_held_start_takes_is_withdrawn_first(
    autojump_clock: MockClock, recorder: Recorder
) -> None:
    """A container that was told where it would start, and starts on less."""
    held_back = view("a", phase=Phase.CREATED)
    await recorder.take(READY, [ContainerSeen(held_back, 2)])
    recorder.calls.clear()
    await recorder.take([StartHeld(held_back, 7, 3)])
    assert recorder.calls.index("withdraw a 0-3") < recorder.calls.index("answer a")


async def test_the_first_files_of_one_that_starts_are_there_with_the_answer(
    autojump_clock: MockClock, recorder: Recorder
) -> None:
    """Its runtime mounts them. It starts all the same if they cannot be written."""
    plain = view("a", phase=Phase.CREATED)
    await recorder.take(READY, [StartHeld(plain, 7, 3)])
    assert recorder.calls[recorder.calls.index("answer a") - 1] == "begin a 0-3"
    recorder.failing, recorder.calls = {"projections"}, []
    await recorder.take([StartHeld(plain, 8, 4)])
    assert "answer a" in recorder.calls
    assert "disk full" in str(recorder.problems)
