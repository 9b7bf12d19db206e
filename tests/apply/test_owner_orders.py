"""The answers to owners on the disk, as daemon and front see them: a start by one that was withdrawn is waited for."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from sidecar.apply.standing_orders import StandingOrders, claimed
from sidecar.log import Log
from sidecar.runtime import owner_start, standing
from sidecar.runtime.standing import OWNERS
from state import files
from state.cpuset import CPUSet
from state.errors import StateError

ID, OTHER = "0123456789ab" + "c" * 52, "d" * 64
ONE, TWO = '{"update":{"cpus":"1"}}', '{"update":{"cpus":"2"}}'
POOL = CPUSet.of(0, 3)


@pytest.fixture
def orders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandingOrders]:
    """Yield the orders of a daemon on a machine with four CPUs."""
    online = tmp_path / "online"
    online.write_text("0-3\n")
    monkeypatch.setattr(standing, "ONLINE", str(online))
    made = StandingOrders(str(tmp_path))
    made.claim(POOL)
    made.give(POOL, asks_all=False)
    yield made
    made.close()


def taken(orders: StandingOrders, id: str = ID) -> str:
    """Return the CPUs on which a front starts an owner, without holding them; "" for none."""
    found = owner_start.taken(orders.folder, id)
    if found is None:
        return ""
    os.close(found[2])
    return found[1].cpus


def test_a_front_takes_what_the_daemon_keeps(orders: StandingOrders) -> None:
    """Only root reads it. Without answers there is no file."""
    path = Path(orders.folder) / OWNERS
    orders.owners.keep({})
    assert not path.exists()
    orders.owners.keep({ID: ONE})
    assert (taken(orders), taken(orders, OTHER)) == ("1", "")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    before = path.stat().st_ino
    orders.owners.keep({ID: ONE})
    assert path.stat().st_ino == before
    orders.owners.keep({})
    assert not path.exists()


@pytest.mark.parametrize("after", [{}, {ID: TWO}, {OTHER: TWO}])
def test_one_that_was_withdrawn_or_changed_is_waited_for(orders: StandingOrders, after: dict[str, str]) -> None:
    """Until its start lets go; and it is named as far as its front wrote that down."""
    orders.owners.keep({ID: ONE})
    found = owner_start.taken(orders.folder, ID)
    assert found is not None
    standing.note(orders.folder, ID, found[1])
    orders.owners.keep(after)
    assert orders.is_awaited()
    assert list(orders.holders()) == [ID]
    os.close(found[2])
    assert not orders.is_awaited()


def test_another_owners_answer_keeps_nobody_waiting(orders: StandingOrders) -> None:
    """Nor does a plain start, nor is one waited for by those."""
    orders.owners.keep({ID: ONE})
    own, plain = owner_start.taken(orders.folder, ID), standing.taken(orders.folder)
    assert own is not None
    assert plain is not None
    orders.owners.keep({ID: ONE, OTHER: TWO})
    assert not orders.is_awaited()
    orders.owners.keep({ID: ONE})
    # The first file is the one that is held, and had no other answer.
    assert not orders.is_awaited()
    orders.give(POOL | CPUSet.of(1), asks_all=False)
    assert not orders.is_awaited()
    os.close(own[2])
    os.close(plain[1])


def test_the_next_run_withdraws_all_and_waits_for_who_began(orders: StandingOrders) -> None:
    """It is asked from then on, whether there was an order as well or not."""
    orders.owners.keep({ID: ONE})
    found = owner_start.taken(orders.folder, ID)
    assert found is not None
    standing.note(orders.folder, ID, found[1])
    orders.give(None, asks_all=False)
    said: list[str] = []

    class Told(Log):
        def warning(self, message: str, **_: object) -> None:
            said.append(message)

    async def begin() -> StandingOrders:
        return await claimed(str(Path(orders.folder).parent), POOL, Told())

    began = trio.run(begin, clock=MockClock(autojump_threshold=0))
    assert taken(began) == ""
    assert [each.partition(",")[0] for each in said] == [f"owners wait for the start of {ID[:12]}"]
    os.close(found[2])
    assert not began.is_awaited()
    began.owners.keep({ID: TWO})
    again = owner_start.taken(began.folder, ID)
    assert again is not None
    assert again[1].epoch > found[1].epoch
    os.close(again[2])
    began.close()


def test_answers_that_cannot_be_written_are_withdrawn(orders: StandingOrders, monkeypatch: pytest.MonkeyPatch) -> None:
    """If not even that can be, nobody is let in where they lead."""
    orders.owners.keep({ID: ONE})

    def full(*_: object, **__: object) -> None:
        raise StateError("the disk is full")

    def refused(*_: object, **__: object) -> None:
        raise PermissionError

    with monkeypatch.context() as patch:
        patch.setattr(files, "replace", full)
        with pytest.raises(StateError):
            orders.owners.keep({ID: TWO})
        assert taken(orders) == ""
    orders.owners.keep({ID: TWO})
    with monkeypatch.context() as patch:
        patch.setattr(files, "remove", full)
        patch.setattr(os, "unlink", refused)
        with pytest.raises(StateError):
            orders.owners.keep({})
    assert taken(orders) == "2"
    assert orders.is_awaited()
    orders.owners.keep({})
    assert not orders.is_awaited()


def test_a_torn_file_is_withdrawn_and_followed_by_nobody(orders: StandingOrders) -> None:
    """Each changed byte is noticed by the sum."""
    orders.owners.keep({ID: ONE})
    path = Path(orders.folder) / OWNERS
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert taken(orders) == ""
        path.write_bytes(whole[:place])
        assert taken(orders) == ""
    orders.owners.keep({})
    assert not path.exists()
    assert not orders.is_awaited()
