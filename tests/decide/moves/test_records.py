"""The engine's records of others wait for an owner that is on its way: they would hold up its start."""

from __future__ import annotations

from sidecar.decide.facts import Purpose, ReleaseRequested
from sidecar.decide.moves.records import MOST_OWNERS, is_record_alone
from sidecar.decide.orders import ApplyCpuset
from state.cpuset import CPUSet
from state.topology import uniform
from tests.support.decide.handreality import HandReality
from tests.support.decide.histories import STATIC
from tests.support.decide.real import Real

POOL, GRANT = CPUSet.parse("0,4-7"), CPUSet.parse("1-3")
WHOLE = CPUSet.parse("0-7")


def host_with(count: int) -> tuple[HandReality, list[Real]]:
    """Return a host of eight cores at rest, with so many containers of the shared pool that the engine has recorded."""
    host = HandReality(uniform(cores=8), STATIC[0])
    host.has_slow_starts = False
    _go_on(host)
    plain = [_create(host, {}) for _ in range(count)]
    for each in plain:
        host.start(each)
        _look(host, each)
    while host.go_on():
        pass
    return host, plain


def create_owner(host: HandReality, cpus: int = 3) -> Real:
    """Create an owner of so many CPUs, and carry out what follows from the first look at it."""
    owner = _create(host, {"cpuset.exclusive": f"{cpus}"})
    _look(host, owner)
    _go_on(host)
    return owner


def recorded(containers: list[Real]) -> set[CPUSet]:
    """Return where the engine has them."""
    return {CPUSet.parse(each.cpuset) if each.cpuset else WHOLE for each in containers}


def _create(host: HandReality, labels: dict[str, str]) -> Real:
    """Create a container below the engine's own parent, whose lock is free."""
    real = host.create(labels)
    real.parent, real.home, real.is_busy = "", "docker", False
    return real


def _remove(host: HandReality, real: Real) -> None:
    """Remove a container."""
    host.remove(real)
    _look(host, real)
    _go_on(host)


def _look(host: HandReality, real: Real) -> None:
    host.begin_look(real.key)
    host.deliver_look(len(host.looks) - 1)


def _go_on(host: HandReality) -> None:
    """Carry out everything, while no timer ends."""
    while host.hear() or host.act() or host.looks or host.flight:
        if host.looks:
            host.deliver_look(0)
        elif host.flight:
            host.deliver(0, "ok")


def test_all_leave_its_cpus_at_once_and_are_recorded_when_it_runs() -> None:
    host, plain = host_with(6)
    owner = create_owner(host)
    assert owner.cpuset == str(GRANT), "its own record does not wait"
    assert {each.effective for each in plain} == {POOL}
    assert recorded(plain) == {WHOLE}
    host.start(owner)
    _look(host, owner)
    assert not any(isinstance(order, ApplyCpuset) for order in host.last_orders), "the hand writes it first"
    _go_on(host)
    assert owner.effective == GRANT
    assert recorded(plain) == {POOL}


def test_they_wait_no_longer_than_for_a_newcomer() -> None:
    """It may have been created for later."""
    host, plain = host_with(6)
    owner = create_owner(host)
    [timer] = [timer for timer in host.timers if timer.purpose is Purpose.RECORD]
    assert timer.container == owner.key
    host.time_out(host.timers.index(timer))
    _go_on(host)
    assert recorded(plain) == {POOL}


def test_they_wait_for_so_many_owners_in_a_row_and_no_more() -> None:
    """A tenant creates owners without a pause, each before the one before has gone, and starts none."""
    host, plain = host_with(6)
    last = create_owner(host, 1)
    for _ in range(MOST_OWNERS - 1):
        owner = create_owner(host, 1)
        _remove(host, last)
        last = owner
        assert recorded(plain) == {WHOLE}
    create_owner(host, 1)
    assert recorded(plain) == {CPUSet.parse("0,3-7")}
    _remove(host, last)
    assert {each.effective for each in plain} <= {CPUSet.parse("0,2-7"), CPUSet.parse("0-1,3-7")}
    assert recorded(plain) == {CPUSet.parse("0,3-7")}, "all were ordered: so they wait again"


def test_records_that_are_right_for_an_instant_were_not_ordered() -> None:
    """Each is gone before the next one comes, and the pool is whole in between."""
    host, plain = host_with(6)
    for _ in range(MOST_OWNERS):
        owner = create_owner(host)
        assert recorded(plain) == {WHOLE}
        _remove(host, owner)
        assert {each.effective for each in plain} == {WHOLE}
    create_owner(host)
    assert recorded(plain) == {POOL}


def test_they_do_not_wait_for_many_at_once() -> None:
    host, plain = host_with(6)
    owners = [_create(host, {"cpuset.exclusive": "1"}) for _ in range(MOST_OWNERS + 1)]
    for each in owners:
        _look(host, each)
    _go_on(host)
    assert recorded(plain) == {CPUSet.parse("0,7")}


def test_what_the_hand_cannot_write_does_not_wait() -> None:
    """The engine moves it: that is no record, and the owner waits for it."""
    host, plain = host_with(2)
    host.denied.add(plain[0].id)
    create_owner(host)
    assert [recorded([each]) for each in plain] == [{POOL}, {WHOLE}]
    assert {each.effective for each in plain} == {POOL}


def test_an_owners_record_is_more_than_a_record() -> None:
    """Its limit is lifted with that, and until then it is not settled."""
    host, [plain] = host_with(1)
    owner = create_owner(host)
    host.start(owner)
    _look(host, owner)
    _go_on(host)
    world = host.world
    assert is_record_alone(world, world.containers[plain.key])
    assert not is_record_alone(world, world.containers[owner.key])


def test_without_a_hand_nothing_waits() -> None:
    host, plain = host_with(2)
    host.lose_hand()
    _go_on(host)
    owner = create_owner(host)
    assert recorded(plain) == {POOL}
    assert {each.effective for each in plain} == {POOL}
    assert owner.cpuset == str(GRANT)


def test_nothing_waits_during_a_release() -> None:
    host, plain = host_with(2)
    owner = create_owner(host)
    host.start(owner)
    _look(host, owner)
    _go_on(host)
    assert recorded(plain) == {POOL}
    create_owner(host, 1)
    assert recorded(plain) == {POOL}
    host.feed(ReleaseRequested())
    _go_on(host)
    assert recorded(plain) == {WHOLE}
