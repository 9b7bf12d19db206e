"""Simulation: where each container runs when, its projections, and what another program in lockstep sees."""

from __future__ import annotations

import msgspec
import pytest

from sidecar.commit.journal import WorldLine
from sidecar.config.config import Config
from sidecar.decide.facts import Fact
from sidecar.decide.settings import PolicyName
from sidecar.decide.step import step
from sidecar.decide.world import World
from sidecar.simulation.happenings import Happening, What
from sidecar.simulation.summary import summary_of
from sidecar.simulation.virtual_host import ScenarioError, Simulation
from state import codec
from state.cpuset import EMPTY, CPUSet
from tests.simulation.hosts import CONFIG, host, runs, said
from tests.support.decide.rights import EVERY_RIGHT

replace = msgspec.structs.replace


def test_what_is_decided_within_one_instant_is_one_line() -> None:
    """With `linger` 0 a grant ends, and another grows, in the instant in which the look shows the end: between the two
    nothing was in place.
    """
    sim = host(8, replace(CONFIG, linger_seconds=0.0))
    sim.crash_sidecar()
    for name, most in (("short", 4), ("long", 6)):
        runs(sim, name, 4 if name == "short" else 1, most=most)
    sim.advance(1)
    sim.start_sidecar()
    sim.stop("short")
    sim.advance(3)
    lines = [(each.at, each.what) for each in sim.log if each.container == "long" and each.at > 1]
    both = {at for at, what in lines if what == What.IN_PLACE} & {at for at, what in lines if what == "grew"}
    assert both == set()
    assert len(sim.cpus_of("long")) == 6


def test_a_look_takes_its_turn_at_the_engines_lock() -> None:
    """What people order later waits behind it: a container that is stopped and started over and over is known."""
    sim = host()
    sim.advance(1)
    sim.create("pinned", cpuset="1")
    sim.start("pinned")
    sim.advance(1.1)
    for _ in range(9):
        sim.stop("pinned")
        sim.start("pinned")
    sim.advance(1.3)
    runs(sim, "own", 1)
    sim.advance(1.4)
    assert [each.cpus for each in sim.log if each.container == "own" and each.what == "granted"] == [CPUSet.of(2)]


def test_a_container_gets_its_own_cpu_and_the_others_leave_it() -> None:
    """From create to alone; after its end and its linger the CPU is shared again."""
    sim = host(2)
    sim.create("plain")
    sim.start("plain")
    sim.advance(1)
    assert sim.cpus_of("plain") == CPUSet.of(0, 1)
    runs(sim, "own", 1)
    sim.advance(2)
    assert (sim.cpus_of("own"), sim.cpus_of("plain")) == (CPUSet.of(1), CPUSet.of(0))
    # The plain container had left before the other's first instruction.
    [left] = said(sim, "plain", What.RUNS_ON)
    [started] = said(sim, "own", What.STARTED)
    assert left < started
    sim.stop("own")
    sim.advance(3)
    assert (sim.cpus_of("own"), sim.cpus_of("plain")) == (EMPTY, CPUSet.of(0))
    sim.advance(4)
    assert sim.cpus_of("plain") == CPUSet.of(0, 1)
    assert sim.broken == []


def test_a_follower_is_off_at_once_and_acknowledges_when_it_has_moved() -> None:
    """Its work leaves on notice; its CPUs are taken once it acknowledged; only then are they granted to another."""
    sim = host()
    runs(sim, "batch", 1, most=7, grace="5s", follows=True, moves_in=0.3)
    sim.advance(10)
    assert len(sim.cpus_of("batch")) == 7
    runs(sim, "server", 4)
    sim.advance(10.1)
    assert len(sim.cpus_of("batch")) == 7
    assert len(sim.usable_of("batch")) == 3
    sim.advance(10.3)
    assert len(sim.cpus_of("batch")) == 7
    assert sim.cpus_of("server") == CPUSet.of(0)
    sim.advance(11)
    assert len(sim.cpus_of("batch")) == 3
    assert len(sim.cpus_of("server")) == 4
    assert said(sim, "batch", What.ACKNOWLEDGES) == [10.301]
    assert (sim.world.state.acknowledged, sim.world.state.forced, sim.broken) == (1, 0, [])


@pytest.mark.parametrize("moves_in", [None, 9.0])
def test_without_a_timely_acknowledgement_cpus_stay_for_the_grace(moves_in: float | None) -> None:
    """Then they are taken all the same."""
    sim = host()
    runs(sim, "batch", 1, most=7, grace="5s", follows=moves_in is not None, moves_in=moves_in)
    sim.advance(10)
    runs(sim, "server", 4)
    sim.advance(15.0)
    assert len(sim.cpus_of("batch")) == 7
    sim.advance(15.1)
    assert len(sim.cpus_of("batch")) == 3
    assert (sim.world.state.acknowledged, sim.world.state.forced) == (0, 1)
    sim.advance(30)
    assert said(sim, "batch", What.ACKNOWLEDGES) == []
    assert sim.broken == []


def test_a_container_that_does_not_follow_uses_all_that_it_may() -> None:
    sim = host()
    runs(sim, "batch", 1, most=7, grace="5s")
    sim.advance(10)
    runs(sim, "server", 4)
    sim.advance(11)
    assert sim.usable_of("batch") == sim.cpus_of("batch")
    assert len(sim.usable_of("batch")) == 7


def test_a_size_that_follows_the_load_goes_up_and_down_with_it() -> None:
    """As another model asks for more use, and for less."""
    sim = host(config=replace(CONFIG, load_half_life_seconds=2.0, cooldown_seconds=1.0))
    runs(sim, "server", 1, most=6, scale="load", demand=0.6)
    sim.advance(10)
    assert len(sim.cpus_of("server")) == 1
    sim.set_demand("server", 4.0)
    sim.advance(40)
    assert len(sim.cpus_of("server")) == 5
    sim.set_demand("server", 0.5)
    sim.advance(80)
    assert len(sim.cpus_of("server")) == 1
    assert sim.broken == []


def test_an_update_waits_for_a_start_of_the_same_container() -> None:
    """The engine holds the container's lock: a decision meanwhile is in force right after."""
    sim = host()
    runs(sim, "batch", 2, most=7)
    sim.advance(0.1)
    sim.create("late", {"cpuset.exclusive": "2"})
    sim.start("late")
    sim.advance(0.299)
    assert sim.cpus_of("late") == EMPTY
    sim.advance(0.35)
    assert said(sim, "late", What.STARTED) == [0.3]
    assert said(sim, "late", What.RUNS_ON) == [0.31]
    # Its CPUs are still being left by the other.
    assert sim.cpus_of("late") == CPUSet.of(0)
    sim.advance(3)
    assert len(sim.cpus_of("late")) == 2
    assert sim.broken == []


def test_between_two_calls_nothing_happens_and_next_at_says_when_something_will() -> None:
    """So another model can step from event to event; it misses none, and the steps add up to the same history."""
    whole, pieces = host(), host()
    for sim in (whole, pieces):
        runs(sim, "batch", 1, most=7, follows=True, moves_in=0.3)
        sim.at(5, lambda sim=sim: runs(sim, "server", 4))  # type: ignore[misc]
    whole.advance(20)
    heard: list[Happening] = []
    while (due := pieces.next_at) is not None and due <= 20:
        heard += pieces.advance(due)
        assert pieces.now == due
    heard += pieces.advance(20)
    assert heard == pieces.log == whole.log
    assert pieces.frames == whole.frames
    assert pieces.now == 20


def test_a_sidecar_that_is_killed_in_a_take_gives_notice_again() -> None:
    """A promise is a minimum: the grace begins again with its next start."""
    sim = host()
    runs(sim, "batch", 1, most=7, grace="5s")
    sim.advance(10)
    runs(sim, "server", 4)
    sim.advance(13)
    sim.crash_sidecar()
    sim.advance(17)
    assert len(sim.cpus_of("batch")) == 7
    sim.start_sidecar()
    sim.advance(21.9)
    assert len(sim.cpus_of("batch")) == 7
    sim.advance(22.5)
    assert (len(sim.cpus_of("batch")), len(sim.cpus_of("server"))) == (3, 4)
    assert sim.broken == []


def killed_with_an_order_under_way() -> Simulation:
    """Return a host whose engine is about to move `plain` off the CPUs that were granted to `own`."""
    sim = host(4)
    sim.create("plain")
    sim.start("plain")
    sim.advance(1)
    sim.create("own", {"cpuset.exclusive": "2"})
    sim.advance(1.005)
    sim.crash_sidecar()
    return sim


def test_an_order_that_the_engine_has_takes_effect_though_the_sidecar_is_killed() -> None:
    sim = killed_with_an_order_under_way()
    assert sim.cpus_of("plain") == CPUSet.parse("0-3")
    sim.advance(2)
    assert sim.cpus_of("plain") == CPUSet.of(0, 3)


def test_the_next_sidecar_looks_when_the_engine_has_done_what_the_killed_one_ordered() -> None:
    """Or it would grant CPUs onto which that order brings another container (decision 0011)."""
    sim = killed_with_an_order_under_way()
    sim.start_sidecar()
    sim.advance(1.0125)
    (plain,) = (each for each in sim.world.containers.values() if each.view.name == "plain")
    assert plain.place.seen == sim.cpus_of("plain") == CPUSet.of(0, 3)


def test_a_cpu_that_goes_offline_is_replaced() -> None:
    sim = host(4)
    runs(sim, "own", 2)
    sim.advance(1)
    assert sim.cpus_of("own") == CPUSet.of(1, 2)
    sim.switch_off(CPUSet.of(2))
    assert sim.cpus_of("own") == CPUSet.of(1)
    sim.advance(2)
    assert sim.cpus_of("own") == CPUSet.of(1, 3)
    sim.switch_on(CPUSet.of(2))
    sim.advance(20)
    assert sim.broken == []
    with pytest.raises(ScenarioError, match="the last CPU cannot go offline"):
        sim.switch_off(CPUSet.parse("0-3"))


def test_a_size_is_ordered_and_what_cannot_be_is_said() -> None:
    sim = host()
    runs(sim, "manual", 2, most=6, scale="manual")
    sim.advance(1)
    sim.resize("manual", 5)
    sim.advance(2)
    assert len(sim.cpus_of("manual")) == 5
    sim.resize("manual", 9)
    assert sim.log[-1].why.startswith("not done: manual may have 2 to 6 CPUs")


def test_a_container_that_asks_for_a_signal_gets_one_at_each_change() -> None:
    """When its notice begins, and when the CPUs are taken; since its first settled grant."""
    sim = host()
    sim.create("batch", {"cpuset.exclusive": "7", "cpuset.min": "1", "cpuset.signal": "HUP", "cpuset.grace": "5s"})
    sim.run("batch")
    sim.at(10, lambda: runs(sim, "server", 4))
    sim.advance(20)
    assert said(sim, "batch", What.SIGNALLED) == [10.001, 15.001]
    assert {each.why for each in sim.log if each.what == What.SIGNALLED} == {"HUP"}


def test_names_are_of_containers_that_there_are() -> None:
    sim = host()
    sim.create("web")
    with pytest.raises(ScenarioError, match="there is no container 'wep' now; there is web"):
        sim.cpus_of("wep")
    with pytest.raises(ScenarioError, match="already"):
        sim.create("web")
    sim.remove("web")
    assert not sim.is_there("web")


def test_the_trace_replays_to_the_same_world() -> None:
    """It is the journal: a World, and the bursts that were decided on."""
    lines: list[bytes] = []
    sim = Simulation(host().machine, CONFIG, trace=lines.append)
    runs(sim, "batch", 1, most=7, follows=True, moves_in=0.1)
    sim.at(5, lambda: runs(sim, "server", 4))
    sim.advance(20)
    world = codec.decode(bytes(msgspec.json.decode(lines[0], type=WorldLine).world), World)
    for line in lines[1:]:
        world, _ = step(world, codec.decode(line, tuple[Fact, ...]))
    assert world.state == sim.world.state


def test_a_container_on_the_cpus_of_a_settled_one_is_found() -> None:
    """The check of a history can fail: a kernel that admits another container is noticed at the next instant."""
    sim = host()
    runs(sim, "own", 3)
    sim.create("plain")
    sim.start("plain")
    sim.advance(1)
    sim._host.kernel.write(sim._host.named("plain").id, CPUSet.parse("0-7"))
    sim.defragment()
    sim.advance(2)
    assert sim.broken == ["own is settled on 1-3, and plain runs on 1-3"]
    assert summary_of(sim).broken == tuple(sim.broken)
    assert sim.log[-1].what == What.BROKEN


def test_the_figures_of_a_history() -> None:
    """Averages over the time in which it ran, and how long decisions took to be in place."""
    sim = host()
    runs(sim, "batch", 1, most=7, demand=4.0)
    sim.at(10, lambda: runs(sim, "server", 4, demand=1.0))
    sim.advance(20)
    figures = summary_of(sim)
    batch, server = figures.containers
    assert (batch.name, batch.least, batch.most, batch.moves) == ("batch", 1, 7, 2)
    assert batch.seconds == pytest.approx(20 - 0.21)
    # 7 CPUs until 12.011, then 3; it would use 4.
    assert batch.average == pytest.approx((7 * (12.011 - 0.231) + 3 * (20 - 12.011) + 0.021) / 19.79, abs=0.01)
    assert batch.used == pytest.approx((4 * (12.011 - 0.231) + 3 * (20 - 12.011) + 0.021) / 19.79, abs=0.01)
    assert (server.used, figures.forced, figures.moves) == (1.0, 1, 2)
    assert figures.waits_most == max(*batch.waits, *server.waits)


def test_a_container_that_starts_pinned_by_hand_breaks_no_promise() -> None:
    """The other one gives up what is above its floor, and is settled meanwhile: the sidecar does not move the first, if
    tenants may pin.
    """
    sim = host(config=replace(CONFIG, tenants_may=EVERY_RIGHT))
    runs(sim, "batch", 1, most=5)
    sim.advance(5)
    sim.create("pinned", cpuset="3,5")
    sim.start("pinned")
    sim.advance(10)
    assert sim.broken == []
    assert sim.cpus_of("batch").isdisjoint(CPUSet.of(3, 5))


def test_without_the_right_a_pin_takes_no_cpu_that_another_was_granted() -> None:
    """The pinned container runs beside the owner, and goes where it is pinned as soon as that is free."""
    sim = host()
    runs(sim, "batch", 1, most=5)
    sim.advance(5)
    held = sim.cpus_of("batch")
    sim.create("pinned", cpuset="3,5")
    sim.start("pinned")
    sim.advance(10)
    assert (sim.broken, sim.cpus_of("batch")) == ([], held)
    assert sim.cpus_of("pinned").isdisjoint(held)
    sim.stop("batch")
    sim.advance(30)
    assert sim.cpus_of("pinned") == CPUSet.of(3, 5)


def test_under_static_sizes_stay() -> None:
    sim = host(config=Config(policy=PolicyName.STATIC, reserved=CPUSet.of(0)))
    runs(sim, "batch", 1, most=7)
    sim.advance(20)
    assert len(sim.cpus_of("batch")) == 1
