"""The standing order on the disk, as daemon and front see it: who begins by an older one is waited for."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from sidecar.apply.standing_orders import StandingOrders, claimed
from sidecar.log import Log
from sidecar.runtime import standing
from sidecar.runtime.standing import ASK_ALL, ASK_LABELLED, BEGUN, COPY, FOLDER, ORDER
from state import files
from state.cpuset import CPUSet
from state.errors import StateError

ALL, POOL, LESS = CPUSet(range(4)), CPUSet.of(0, 1), CPUSet.of(0)
ID = "0123456789ab" + "c" * 52


@pytest.fixture
def orders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandingOrders]:
    """Yield the orders of a daemon on a machine with four CPUs."""
    online = tmp_path / "online"
    online.write_text("0-3\n")
    monkeypatch.setattr(standing, "ONLINE", str(online))
    made = StandingOrders(str(tmp_path))
    made.claim(POOL)
    yield made
    made.close()


def folder_of(orders: StandingOrders) -> Path:
    return Path(orders.folder)


def taken(orders: StandingOrders) -> str | None:
    """Return the CPUs that a front takes, without holding them."""
    found = standing.taken(orders.folder)
    if found is None:
        return None
    os.close(found[1])
    return found[0].cpus


def test_a_front_takes_what_the_daemon_gave(orders: StandingOrders) -> None:
    """Only root reads it; without an order there is nothing to take."""
    assert taken(orders) is None
    orders.give(POOL, asks_all=False)
    found = standing.taken(orders.folder)
    assert found is not None
    assert (found[0].cpus, found[0].asks) == ("0-1", ASK_LABELLED)
    os.close(found[1])
    assert stat.S_IMODE((folder_of(orders) / ORDER).stat().st_mode) == 0o600
    assert stat.S_IMODE(folder_of(orders).stat().st_mode) == 0o700
    orders.give(POOL, asks_all=True)
    again = standing.taken(orders.folder)
    assert again is not None
    assert (again[0].asks, again[0].epoch) == (ASK_ALL, found[0].epoch + 1)
    os.close(again[1])
    orders.give(None, asks_all=False)
    assert taken(orders) is None


def test_who_starts_by_an_order_is_waited_for_by_who_needs_its_cpus(orders: StandingOrders) -> None:
    """Until it lets go; a pool that only grew keeps nobody waiting, and is remembered when it shrinks."""
    orders.give(POOL, asks_all=False)
    found = standing.taken(orders.folder)
    assert found is not None
    orders.give(ALL, asks_all=False)
    assert orders.older() == ()
    orders.give(LESS, asks_all=False)
    assert orders.older() == (POOL,)
    os.close(found[1])
    assert orders.older() == ()


def test_the_lock_lives_as_long_as_the_last_process_that_has_it(orders: StandingOrders) -> None:
    """It goes with the descriptor through exec; that one ends when the runtime has created the container."""
    orders.give(POOL, asks_all=False)
    found = standing.taken(orders.folder)
    assert found is not None
    runtime = subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=(found[1],))
    os.close(found[1])
    orders.give(LESS, asks_all=False)
    assert orders.older() == (POOL,)
    runtime.communicate(b"")
    assert orders.older() == ()


def test_an_order_that_was_replaced_while_it_was_opened_is_not_taken(
    orders: StandingOrders, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its file has no place any more when the lock is had: the front begins again."""
    orders.give(POOL, asks_all=False)
    honest, replaced = os.open, [LESS, None]

    def opened(path: str, *rest: int, **more: int) -> int:
        result = honest(path, *rest, **more)
        if (
            str(path).endswith(f"/{ORDER}")
            and replaced
            and path == f"{orders.folder}/{ORDER}"
            and rest[0] & os.O_NOFOLLOW
        ):
            cpus = replaced.pop(0)
            if cpus is not None:
                monkeypatch.setattr(os, "open", honest)
                orders.give(cpus, asks_all=False)
                assert orders.older() == ()
        return result

    monkeypatch.setattr(os, "open", opened)
    assert taken(orders) == "0"


@pytest.mark.parametrize(
    "spoiled",
    [b"", b"\xff", b"cpuset-sidecar order 1\n", b"cpuset-sidecar order 2\nsum 0\n", b"{}", b"x" * 100_000],
)
def test_what_is_no_whole_order_is_not_taken(orders: StandingOrders, spoiled: bytes) -> None:
    """Torn, of a later format, or something else; it keeps nobody waiting either."""
    orders.give(POOL, asks_all=False)
    (folder_of(orders) / ORDER).write_bytes(spoiled)
    assert taken(orders) is None
    orders.give(LESS, asks_all=False)
    assert orders.older() == ()
    assert taken(orders) == "0"


def test_each_changed_byte_is_noticed(orders: StandingOrders) -> None:
    """By the sum."""
    orders.give(POOL, asks_all=False)
    path = folder_of(orders) / ORDER
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert taken(orders) is None
        path.write_bytes(whole[:place])
        assert taken(orders) is None


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_what_others_can_write_is_not_taken(orders: StandingOrders, mode: int) -> None:
    """Nor what is below a folder that others can write, or behind a link."""
    orders.give(POOL, asks_all=False)
    path = folder_of(orders) / ORDER
    path.chmod(mode)
    assert taken(orders) is None
    path.chmod(0o600)
    assert taken(orders) == "0-1"
    folder_of(orders).chmod(0o770)
    assert taken(orders) is None
    folder_of(orders).chmod(0o700)
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")
    assert taken(orders) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a file away")
def test_what_belongs_to_another_user_is_not_taken(orders: StandingOrders) -> None:
    """That one could write it."""
    orders.give(POOL, asks_all=False)
    os.chown(folder_of(orders) / ORDER, 12345, -1)
    assert taken(orders) is None


def test_cpus_that_are_offline_are_left_out(orders: StandingOrders) -> None:
    """A container that is told one does not start at all. With none left there is no order."""
    orders.give(CPUSet.of(1, 2, 3), asks_all=False)
    online = Path(standing.ONLINE)
    online.write_text("0-1,3\n")
    assert taken(orders) == "1,3"
    online.write_text("0\n")
    assert taken(orders) is None


def test_an_order_of_another_boot_counts_on_the_same_machine(
    orders: StandingOrders, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until the daemon speaks; on another machine it is nothing."""
    orders.give(POOL, asks_all=False)
    monkeypatch.setattr(standing, "boot_of", lambda: "another")
    assert taken(orders) == "0-1"
    monkeypatch.setattr(standing, "machine_of", lambda: "another")
    assert taken(orders) is None


def test_a_copy_is_kept_for_a_crash_of_the_machine(orders: StandingOrders) -> None:
    """It goes with the order."""
    orders.give(POOL, asks_all=False)
    assert standing.kept(orders.folder) is None
    orders.forget_ended()
    kept = standing.kept(orders.folder)
    assert kept is not None
    assert kept.cpus == "0-1"
    orders.give(None, asks_all=False)
    assert not (folder_of(orders) / COPY).exists()


def test_starts_are_written_down_and_forgotten_when_they_are_over(orders: StandingOrders) -> None:
    """They name who is waited for."""
    orders.give(POOL, asks_all=False)
    found = standing.taken(orders.folder)
    assert found is not None
    order, lock = found
    standing.note(orders.folder, ID, order)
    (folder_of(orders) / BEGUN / "torn").write_bytes(b"x")
    orders.give(LESS, asks_all=False)
    assert list(orders.holders()) == [ID]
    assert orders.has_begun(ID)
    orders.forget_ended()
    assert orders.has_begun(ID)
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    (folder_of(orders) / BEGUN / ID).write_bytes(b"%d %s 0-1\n" % (order.epoch, ended.stdout.strip()))
    orders.forget_ended()
    assert not orders.has_begun(ID)
    os.close(lock)


def test_an_order_that_cannot_be_written_is_taken_away(orders: StandingOrders, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fronts ask then. Who took it before is waited for all the same."""
    orders.give(POOL, asks_all=False)
    found = standing.taken(orders.folder)
    assert found is not None

    def full(*_: object, **__: object) -> None:
        raise StateError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(files, "replace", full)
        with pytest.raises(StateError):
            orders.give(LESS, asks_all=False)
        assert taken(orders) is None
        assert orders.older() == (POOL,)
        os.close(found[1])
        assert orders.older() == ()
    orders.give(LESS, asks_all=False)
    assert taken(orders) == "0"


def test_one_that_cannot_even_be_taken_away_counts_until_it_can_be_replaced(
    orders: StandingOrders, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anybody may still start by it."""
    orders.give(POOL, asks_all=False)

    def refused(*_: object, **__: object) -> None:
        raise PermissionError

    def failed(*_: object, **__: object) -> None:
        raise StateError("read-only")

    with monkeypatch.context() as patch:
        patch.setattr(files, "replace", failed)
        patch.setattr(os, "unlink", refused)
        with pytest.raises(StateError):
            orders.give(LESS, asks_all=False)
    assert orders.older() == (POOL,)
    orders.give(LESS, asks_all=False)
    assert orders.older() == ()


def test_the_next_run_narrows_the_order_and_waits_for_starts_by_the_last_one(orders: StandingOrders) -> None:
    """Its books may have granted what the order still shares; a start that hangs is named, and in the end not waited
    for.
    """
    orders.give(ALL, asks_all=False)
    found = standing.taken(orders.folder)
    assert found is not None
    orders.close()
    said: list[str] = []

    class Told(Log):
        def warning(self, message: str, **_: object) -> None:
            said.append(message)

    async def begin() -> StandingOrders:
        return await claimed(str(folder_of(orders).parent), POOL, Told())

    began = trio.run(begin, clock=MockClock(autojump_threshold=0))
    assert taken(began) == "0-1"
    assert [each.partition(",")[0] for each in said] == ["owners wait for the start of a container that is not known"]
    os.close(found[1])
    assert began.older() == ()
    began.close()


def test_without_a_last_order_there_is_none_before_the_first(tmp_path: Path) -> None:
    """Fronts ask until the hand holds its answers."""
    made = StandingOrders(str(tmp_path))
    made.claim(POOL)
    assert standing.taken(f"{tmp_path}/{FOLDER}") is None
    made.close()
