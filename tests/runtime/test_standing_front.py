"""A front with the standing order: who starts by it without a question, who asks, and what counts without an answer."""

from __future__ import annotations

import fcntl
import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sidecar.runtime import standing
from sidecar.runtime.standing import ASK_ALL, ASK_LABELLED, BEGUN, COPY, FOLDER, ORDER, Order
from tests.runtime.bench import ID, Workbench, granted, until
from tests.runtime.test_usual_front import create, put_before

CPU: dict[str, Any] = {"shares": 2}


class Host:
    """A bench with a front, a standing order, and Docker's books of one container."""

    def __init__(self, bench: Workbench, **changed: Any) -> None:
        self.bench = bench
        self.front = put_before(bench, **changed)
        self.folder = bench.folder / FOLDER
        (self.folder / BEGUN).mkdir(parents=True)
        for each in (self.folder, self.folder / BEGUN):
            each.chmod(0o700)
        self.order()

    def order(self, cpus: str = "0", asks: str = ASK_LABELLED, name: str = ORDER, **changed: Any) -> None:
        """Write an order of this boot and machine, but for what is changed."""
        told = {"boot": standing.boot_of(), "machine": standing.machine_of(), **changed}
        path = self.folder / name
        path.write_bytes(standing.encoded(Order(7, cpus, asks, told["boot"], told["machine"])))
        path.chmod(0o600)

    def put(self, labels: dict[str, str] | None = None, cpu: dict[str, Any] | None = None, **more: Any) -> None:
        """Write the bundle of a container; without labels Docker's books are not there."""
        books = self.bench.folder / ID
        books.mkdir(exist_ok=True)
        if labels is not None:
            (books / "config.v2.json").write_text(json.dumps({"Name": "/web", "Config": {"Labels": labels}}))
        mounts = [{"destination": "/etc/hostname", "source": f"{books}/hostname", "type": "bind"}]
        self.bench.put({"mounts": mounts, "linux": {"resources": {"cpu": {**CPU, **(cpu or {})}}}, **more})

    def start(self) -> str:
        """Start it; return its CPUs, "" for none."""
        assert create(self.bench, self.front)[0] == 0
        assert self.bench.became() is not None
        return str(self.bench.spec()["linux"]["resources"]["cpu"].get("cpus", ""))


@pytest.fixture
def host(bench: Workbench) -> Host:
    return Host(bench)


def test_what_asks_for_nothing_starts_by_the_order_without_a_question(host: Host) -> None:
    """With a sidecar or without; it is written down, and nothing is mounted."""
    host.put({"com.example": "x"})
    host.bench.answer(granted("3"))
    assert host.start() == "0"
    assert host.bench.sidecar.asked == []
    assert [each["destination"] for each in host.bench.spec()["mounts"]] == ["/etc/hostname"]
    assert (host.folder / BEGUN / ID).read_text().split()[::2] == ["7", "0"]


@pytest.mark.parametrize(
    ("labels", "cpu", "more"),
    [
        (None, {}, {}),
        ({"cpuset.manage": "off"}, {}, {}),
        ({"com.docker.swarm.task.id": "x"}, {}, {}),
        ({}, {"cpus": "0"}, {}),
        ({}, {"mems": "0"}, {}),
        ({}, {}, {"annotations": {"cpuset.numa": "single"}}),
    ],
)
def test_what_may_ask_or_has_its_own_is_asked_about(
    host: Host, labels: dict[str, str] | None, cpu: dict[str, Any], more: dict[str, Any]
) -> None:
    """Unknown labels, ours, Swarm's, CPUs or memory nodes of its own, annotations."""
    host.put(labels, cpu, **more)
    host.bench.answer(granted("0"))
    assert host.start() == "0"
    assert len(host.bench.sidecar.asked) == 1
    assert not (host.folder / BEGUN / ID).exists()


def test_where_labels_alone_do_not_tell_each_start_is_asked_about(host: Host) -> None:
    """A rule of the configuration may give it CPUs."""
    host.order(asks=ASK_ALL)
    host.put({})
    host.bench.answer(granted("0"))
    assert host.start() == "0"
    assert len(host.bench.sidecar.asked) == 1


@pytest.mark.parametrize("count", [64, 10_001])
def test_of_many_labels_those_that_matter_are_seen(host: Host, count: int) -> None:
    """Swarm's are not those that are left out; and where there are too many, the sidecar is asked."""
    host.put(
        {**{f"a{number}": "" for number in range(count)}, **({"com.docker.swarm.task.id": "x"} if count < 100 else {})}
    )
    host.bench.answer(granted("0"))
    assert host.start() == "0"
    assert len(host.bench.sidecar.asked) == 1


def inside(host: Host, parent: str, cpu: dict[str, Any] | None = None) -> None:
    """Write the bundle of a container that asks for nothing, and begins below this group."""
    host.put({}, cpu)
    spec = host.bench.spec()
    spec["linux"]["cgroupsPath"] = f"{parent}:x:{ID}" if parent.endswith(".slice") else f"{parent}/{ID}"
    host.bench.put(spec)


@pytest.mark.parametrize(
    ("parent", "cpu"),
    [
        (f"/docker/{'d' * 64}", {}),
        (f"/{'d' * 64}", {"cpus": "1"}),
        (f"/x/libpod-{'d' * 64}.scope/../y-{'d' * 64}", {}),
        (f"machine-libpod_pod-{'d' * 64}.slice", {}),
    ],
)
def test_one_inside_what_is_called_like_another_goes_by_the_order_without_an_answer(
    host: Host, parent: str, cpu: dict[str, str]
) -> None:
    """Nothing may be there of that name, or a pod. The sidecar is asked first: it knows where that one is."""
    inside(host, parent, cpu)
    assert host.start() == "0"
    assert (host.folder / BEGUN / ID).exists()
    inside(host, parent, cpu)
    host.bench.answer((200, {"update": None}))
    assert host.start() == cpu.get("cpus", "")
    assert len(host.bench.sidecar.asked) == 1


@pytest.fixture
def pod() -> Iterator[Path]:
    """Make a group like that of a pod, on the last of two CPUs or more."""
    above = Path(standing.CPUSETS)
    if os.geteuid() or not (above / "cpuset.cpus").exists():
        pytest.skip("needs root, and cgroup v1")
    last = str(max(standing.cpus_of((above / "cpuset.cpus").read_text())))
    if last == "0":
        pytest.skip("needs two CPUs")
    made = above / f"cpuset-sidecar-test-{os.getpid()}" / ("e" * 64)
    for each in (made.parent, made):
        each.mkdir()
        (each / "cpuset.cpus").write_text(last)
    yield made
    made.rmdir()
    made.parent.rmdir()


def test_one_inside_a_group_has_those_of_the_orders_cpus_that_this_has(host: Host, pod: Path) -> None:
    """Below a pod that people pinned, it would not start on others; with none in common it starts as it would. What
    is not there yet is made like what is above it.
    """
    last = (pod / "cpuset.cpus").read_text().strip()
    for parent in (pod, pod / "new" / "groups"):
        below = f"/{parent.relative_to(standing.CPUSETS)}"
        for order, gets in ((f"0-{last}", last), ("0", "")):
            host.order(order)
            inside(host, below)
            assert host.start() == gets


@pytest.mark.parametrize(
    ("own", "gets"),
    [("", "0"), ("0", "0"), ("1-3", "0"), ("0,2", "0"), ("nonsense", "0"), ("0-99999999", "0"), ("\u0660", "0")],
)
def test_without_an_answer_whatever_asks_for_no_cpus_starts_by_the_order(host: Host, own: str, gets: str) -> None:
    """On those of its own CPUs that the order has, or on all of the order's."""
    host.order(asks=ASK_ALL)
    host.put(None, {"cpus": own} if own else {})
    assert host.start() == gets


@pytest.mark.parametrize("value", ["", "0", " False\n", "no", "OFF"])
def test_one_that_asks_for_none_by_its_label_starts_by_the_order(host: Host, value: str) -> None:
    """The label asks for nothing then. It is asked about first, since it is one of ours."""
    host.put({"cpuset.exclusive": value})
    assert host.start() == "0"
    host.bench.answer(granted("1"))
    host.put({"cpuset.exclusive": value})
    assert host.start() == "1"


def test_one_that_asks_for_cpus_is_refused_without_a_sidecar(host: Host) -> None:
    """The order is not for it."""
    host.put({"cpuset.exclusive": "1"})
    code, said = create(host.bench, host.front)
    assert code == 1
    assert "nothing answers on" in said


def test_the_lock_is_held_until_the_runtime_has_ended(host: Host) -> None:
    """Before one that is not known to hand it on to nobody, the front stays; its exit code is that of the runtime."""
    gate, seen = host.bench.folder / "gate", host.bench.folder / "seen"
    counts = f"ls -l /proc/self/fd | grep -c {FOLDER} >{seen}"
    host.bench.real.write_text(f"#!/bin/sh\n{counts}\nwhile [ ! -e {gate} ]; do sleep 0.01; done\nexit 7\n")
    host.put({})
    codes: list[int] = []
    calling = threading.Thread(target=lambda: codes.append(create(host.bench, host.front)[0]))
    calling.start()
    until(lambda: seen.exists() and seen.read_text())
    with open(host.folder / ORDER, "rb") as order:
        with pytest.raises(BlockingIOError):
            fcntl.flock(order, fcntl.LOCK_EX | fcntl.LOCK_NB)
        gate.touch()
        calling.join(20)
        fcntl.flock(order, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert codes == [7]
    assert seen.read_text().strip() == "0"


def test_runc_inherits_the_lock_out_of_the_way(bench: Workbench) -> None:
    """It ends when runc does; the engine's own descriptors keep their places."""
    real = bench.folder / "runc"
    shown = bench.folder / "shown"
    real.write_text(f"#!/bin/sh\nls -l /proc/self/fd >{shown}\nexec '{bench.real}' \"$@\"\n")
    real.chmod(0o755)
    bench.real, before = real, bench.real
    host = Host(bench)
    bench.real = before
    host.put({})
    assert host.start() == "0"
    held = [line for line in shown.read_text().splitlines() if f"/{FOLDER}/{ORDER}" in line]
    assert len(held) == 1
    assert int(held[0].split(" -> ")[0].split()[-1]) >= standing.HIGH


SPOILED = (b"", b"cpuset-sidecar order 1\nsum 0\n", b"\xff" * 80, b"x" * 70_000)


@pytest.mark.parametrize("content", SPOILED)
def test_a_torn_order_is_not_followed_and_the_copy_counts_without_a_sidecar(host: Host, content: bytes) -> None:
    """Never unconfined where a safe set is known."""
    (host.folder / ORDER).write_bytes(content)
    host.order(cpus="1", name=COPY)
    host.put({})
    assert host.start() == "1"


def behind_a_link(host: Host) -> None:
    os.rename(host.folder / ORDER, host.folder / "x")
    os.symlink("x", host.folder / ORDER)


def a_pipe(host: Host) -> None:
    os.unlink(host.folder / ORDER)
    os.mkfifo(host.folder / ORDER)


def given_away(host: Host) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, to give a file away")
    os.chown(host.folder / ORDER, 12345, -1)


def writable_folder(host: Host) -> None:
    host.folder.chmod(0o777)


SPOIL = {
    "writable": lambda host: (host.folder / ORDER).chmod(0o666),
    "another owner": given_away,
    "a link": behind_a_link,
    "another machine": lambda host: host.order(boot="another", machine="another"),
    "offline": lambda host: host.order(cpus="4000-4001"),
    "a pipe": a_pipe,
}


@pytest.mark.parametrize("spoil", [*SPOIL.values(), writable_folder], ids=[*SPOIL, "folder writable"])
def test_an_order_that_does_not_count_is_as_none(host: Host, spoil: Callable[[Host], None]) -> None:
    """The sidecar is asked; without one, and without a copy, the engine's own word is left."""
    spoil(host)
    host.put({})
    assert host.start() == ""
    host.bench.answer(granted("0"))
    host.put({})
    assert host.start() == "0"
    assert len(host.bench.sidecar.asked) == 1


@pytest.mark.parametrize("spoil", SPOIL.values(), ids=SPOIL)
def test_beside_an_order_that_does_not_count_the_copy_does(host: Host, spoil: Callable[[Host], None]) -> None:
    """Without a sidecar: a safe set is known."""
    spoil(host)
    host.order(cpus="1", name=COPY)
    host.put({})
    assert host.start() == "1"


@pytest.mark.parametrize("spoil", SPOIL.values(), ids=SPOIL)
def test_a_copy_that_does_not_count_is_as_none(host: Host, spoil: Callable[[Host], None]) -> None:
    """It is held to the same as the order."""
    spoil(host)
    os.rename(host.folder / ORDER, host.folder / COPY)
    host.put({})
    assert host.start() == ""


def test_an_order_counts_as_far_as_its_cpus_are_online(host: Host) -> None:
    """The others may have gone with a reboot."""
    host.order(cpus="0,4000-4001")
    host.put({})
    assert host.start() == "0"


def test_an_order_of_an_earlier_boot_counts_on_this_machine(host: Host) -> None:
    """Until the daemon speaks."""
    host.order(boot="another")
    host.put({})
    assert host.start() == "0"


def test_without_room_for_its_note_a_container_starts_all_the_same(host: Host) -> None:
    """The lock is what counts."""
    Path(host.folder / BEGUN).rmdir()
    host.put({})
    assert host.start() == "0"
