"""What an earlier hand wrote, and did not live to give back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sidecar.decide.orders import Answers
from state.cpuset import CPUSet
from tests.support.hand.stages import FileStage, until, v2_stage
from tests.support.keys import docker

ONE = "a" * 64
GROUP = f"/machine.slice/docker-{ONE}.scope"
POOL, PIN = CPUSet.parse("0-2"), CPUSet.of(1)


@pytest.fixture(params=["", "with the reflex"])
def v2(tmp_path: Path, reflex: str | None, request: pytest.FixtureRequest) -> Iterator[FileStage]:
    """Yield a plain tree with the parent of systemd's engines, and a hand that holds answers."""
    if request.param and reflex is None:
        pytest.skip("needs a C compiler")
    with v2_stage(tmp_path, reflex if request.param else None) as stage:
        stage.make("/machine.slice")
        stage.begin()
        stage.hand.hold(Answers(others=POOL))
        yield stage


def test_a_pin_that_was_not_known_before_the_end_is_given_back_by_the_next_hand(v2: FileStage) -> None:
    """It is answered as all newborns are: the engine's own write shows its pin to the first hand alone."""
    v2.make(GROUP)
    until(lambda: v2.cpus(GROUP) == "0-2")
    v2.hand.close()
    v2.begin()
    v2.hand.hold(Answers(others=POOL, own={docker(ONE): None}, left={docker(ONE): PIN}))
    assert v2.cpus(GROUP) == "1"


@pytest.mark.parametrize("has", ["1", "3", "2-3"])
def test_what_another_program_wrote_before_the_hand_stays(v2: FileStage, has: str) -> None:
    """It has not all of its pin and more, as from an answer."""
    v2.hand.close()
    v2.make(GROUP)
    v2.overwrite(GROUP, has)
    v2.begin()
    v2.hand.hold(Answers(others=POOL, own={docker(ONE): None}, left={docker(ONE): PIN}))
    assert v2.cpus(GROUP) == has


def test_it_is_given_back_once(v2: FileStage) -> None:
    """What its owner writes later is the owner's own."""
    v2.make(GROUP)
    until(lambda: v2.cpus(GROUP) == "0-2")
    v2.hand.close()
    v2.begin()
    left = Answers(others=POOL, own={docker(ONE): None}, left={docker(ONE): PIN})
    v2.hand.hold(left)
    v2.overwrite(GROUP, "0-3")
    v2.hand.hold(left)
    assert v2.cpus(GROUP) == "0-3"
