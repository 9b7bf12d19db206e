"""Both fronts with the answers to owners: which containers start by them without a sidecar, and which do not."""

from __future__ import annotations

import fcntl
import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sidecar.runtime import owner_start, standing
from sidecar.runtime.owner_start import OwnersTold
from sidecar.runtime.standing import ASK_ALL, BEGUN, FOLDER, OWNERS
from tests.runtime.bench import ID, Workbench, granted, until
from tests.runtime.test_standing_front import Host
from tests.runtime.test_usual_front import create

ASKS = {"cpuset.exclusive": "1"}
OTHER = "e" * 64


def answered(cpus: str = "0", **update: Any) -> str:
    """Return an answer as the sidecar gives it."""
    told = {"cpus": cpus, "mems": None, "quota": None, **update}
    mount = {"directory": f"by-id/{ID[:12]}", "destination": "/run/cpuset-sidecar"}
    return json.dumps({"update": told, "exclusive": True, "projection": mount})


class Owner(Host):
    """A host with a front of both kinds, and an owner that asks for CPUs by its label."""

    def __init__(self, bench: Workbench) -> None:
        super().__init__(bench)
        (bench.projections / "by-id" / ID[:12]).mkdir(parents=True)
        self.order("1")
        self.own({ID: answered(), OTHER: answered("1")})
        self.put(ASKS)

    def own(self, answers: dict[str, str], *, boot: str | None = None) -> None:
        """Write these answers, as of this boot."""
        path = self.folder / OWNERS
        path.write_bytes(owner_start.encoded(OwnersTold(9, standing.boot_of() if boot is None else boot, answers)))
        path.chmod(0o600)

    def refusal(self) -> str:
        """Return why it is not started."""
        self.bench.called.unlink(missing_ok=True)
        code, said = create(self.bench, self.front)
        assert code == 1
        assert self.bench.became() is None
        return said


@pytest.fixture
def owner(bench: Workbench) -> Owner:
    return Owner(bench)


def test_an_owner_starts_on_its_cpus_at_once_with_its_projection(owner: Owner) -> None:
    """Not after the patience, which is for a container that nothing is known of. It is written down who began."""
    owner.bench.install(patience=30)
    owner.own({ID: answered("0", mems="0", quota=-1)})
    owner.put(ASKS, {"quota": 5000})
    began = time.monotonic()
    assert owner.start() == "0"
    assert time.monotonic() - began < 10
    cpu = owner.bench.spec()["linux"]["resources"]["cpu"]
    assert (cpu["mems"], cpu["quota"]) == ("0", -1)
    assert [each["destination"] for each in owner.bench.spec()["mounts"]] == ["/etc/hostname", "/run/cpuset-sidecar"]
    assert (owner.folder / BEGUN / ID).read_text().split()[::2] == ["9", "0"]


def test_under_the_runtime_that_it_chose_it_does_so_too(owner: Owner) -> None:
    """Whatever its labels are called; without an answer for it, it is refused as before."""
    owner.put({})
    assert owner.bench.create().returncode == 0
    assert owner.bench.spec()["linux"]["resources"]["cpu"]["cpus"] == "0"
    assert len(owner.bench.spec()["mounts"]) == 2
    owner.own({OTHER: answered()})
    owner.put(ASKS)
    done = owner.bench.create()
    assert done.returncode == 1
    assert "nothing answers on" in done.stderr


def test_a_sidecar_that_answers_is_obeyed(owner: Owner) -> None:
    """It knows more than what was written down; also if it refuses."""
    owner.bench.answer(granted("1"))
    assert owner.start() == "1"
    assert not (owner.folder / BEGUN / ID).exists()
    owner.bench.sidecar.answers = [(409, {"error": "not started: it was released"})]
    owner.put(ASKS)
    assert "it was released" in owner.refusal()


def test_one_whose_labels_tell_nothing_has_its_cpus_and_no_mount(owner: Owner) -> None:
    """A rule of the configuration gave it them, or its engine tells no labels."""
    owner.order("1", asks=ASK_ALL)
    for labels in (dict[str, str](), None):
        owner.put(labels)
        assert owner.start() == "0"
        assert len(owner.bench.spec()["mounts"]) == 1


def test_a_container_without_an_answer_of_its_own_is_refused(owner: Owner) -> None:
    """What begins like its id, and what it says of itself, is nothing."""
    for id in (OTHER, ID[:-1], f"{ID}0", "", "own"):
        owner.own({id: answered()})
        owner.put({**ASKS, "own": ID}, annotations={"own": ID})
        assert "nothing answers on" in owner.refusal()
    (owner.folder / OWNERS).unlink()
    assert "nothing answers on" in owner.refusal()


def test_one_in_a_pod_has_its_answer(owner: Owner) -> None:
    """It was given it there: a container stays in its group for life. What is left alone inside another has none."""
    spec = owner.bench.spec()
    spec["linux"]["cgroupsPath"] = f"/libpod_parent/{OTHER}/{ID}"
    owner.bench.put(spec)
    assert owner.start() == "0"
    owner.own({OTHER: answered()})
    owner.bench.put(spec)
    assert "nothing answers on" in owner.refusal()


def of_an_earlier_boot(owner: Owner) -> None:
    owner.own({ID: answered()}, boot="another")


def of_no_boot(owner: Owner) -> None:
    owner.own({ID: answered()}, boot="")


def writable(owner: Owner) -> None:
    (owner.folder / OWNERS).chmod(0o622)


def below_a_writable_folder(owner: Owner) -> None:
    owner.folder.chmod(0o777)


def behind_a_link(owner: Owner) -> None:
    os.rename(owner.folder / OWNERS, owner.folder / "x")
    os.symlink("x", owner.folder / OWNERS)


def torn(owner: Owner) -> None:
    path = owner.folder / OWNERS
    path.write_bytes(path.read_bytes()[:-1])


def too_long(owner: Owner) -> None:
    lines = f"epoch 9\nboot {standing.boot_of()}\nown {ID} {answered()}\nx {'x' * owner_start.MOST_BYTES}\n"
    (owner.folder / OWNERS).write_bytes(standing.sealed(owner_start.HEAD, lines))


def of_the_order(owner: Owner) -> None:
    (owner.folder / OWNERS).write_bytes((owner.folder / standing.ORDER).read_bytes())


def given_away(owner: Owner) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, to give a file away")
    os.chown(owner.folder / OWNERS, 12345, -1)


@pytest.mark.parametrize(
    "spoil",
    [
        of_an_earlier_boot,
        of_no_boot,
        writable,
        below_a_writable_folder,
        behind_a_link,
        torn,
        too_long,
        of_the_order,
        given_away,
    ],
)
def test_a_file_that_does_not_count_is_as_none(owner: Owner, spoil: Callable[[Owner], None]) -> None:
    """After a boot the books alone tell; a tenant writes none."""
    spoil(owner)
    assert "nothing answers on" in owner.refusal()


@pytest.mark.parametrize(
    "answer",
    [
        answered("0,4000"),
        answered("4000"),
        answered(""),
        answered(" 0"),
        answered("1-0-"),
        '{"update": null}',
        '{"update": {"cpus": 0}}',
        "[]",
        "{",
    ],
)
def test_an_answer_counts_as_a_whole(owner: Owner, answer: str) -> None:
    """If one of its CPUs is offline, the owner waits for a sidecar that gives it another."""
    owner.own({ID: answer})
    assert "nothing answers on" in owner.refusal()


class Withdrawing(list[Any]):
    """The answers of a sidecar that withdraws what was written down when it is first asked, and hangs up."""

    def __init__(self, path: Path) -> None:
        super().__init__([None, granted("1")])
        self.path = path

    def pop(self, *_: Any) -> Any:
        """Withdraw; a lock would keep the daemon waiting."""
        with open(self.path, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self.path.unlink()
        return super().pop(0)


def test_what_is_withdrawn_while_it_asks_is_not_taken(owner: Owner) -> None:
    """It holds no lock meanwhile, as whoever answers may wait for that; and then asks with patience."""
    owner.bench.answer(None)
    owner.bench.sidecar.answers = Withdrawing(owner.folder / OWNERS)
    assert owner.start() == "1"
    assert len(owner.bench.sidecar.asked) == 2
    assert not (owner.folder / BEGUN / ID).exists()


def test_the_lock_is_held_until_the_runtime_has_ended(owner: Owner) -> None:
    """As that of the standing order, of which it holds none: plain starts keep no owner waiting, nor the other way."""
    gate, seen = owner.bench.folder / "gate", owner.bench.folder / "seen"
    owner.bench.real.write_text(
        f"#!/bin/sh\nls -l /proc/self/fd | grep -c {FOLDER} >{seen}\n"
        f"while [ ! -e {gate} ]; do sleep 0.01; done\nexit 7\n"
    )
    codes: list[int] = []
    calling = threading.Thread(target=lambda: codes.append(create(owner.bench, owner.front)[0]))
    calling.start()
    until(lambda: seen.exists() and seen.read_text())
    with open(owner.folder / OWNERS, "rb") as own, open(owner.folder / standing.ORDER, "rb") as order:
        with pytest.raises(BlockingIOError):
            fcntl.flock(own, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(order, fcntl.LOCK_EX | fcntl.LOCK_NB)
        gate.touch()
        calling.join(20)
        fcntl.flock(own, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert codes == [7]
    assert seen.read_text().strip() == "0"


def test_more_owners_than_there_is_room_for_are_refused(owner: Owner) -> None:
    """The file stays one that a front reads whole."""
    many = {f"{number:064x}": answered("0") for number in range(9000)}
    content = owner_start.encoded(OwnersTold(9, standing.boot_of(), many))
    assert len(content) <= owner_start.MOST_BYTES
    found = owner_start.decoded(content)
    assert found is not None
    assert 4000 < len(found.answers) < 9000
