"""Groups inside a container's, on the kernel's cpusets (v1): it is confined as a whole, whatever is inside."""

from __future__ import annotations

import inspect
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from sidecar.decide.facts import ContainerView, Phase
from sidecar.decide.orders import Answers, Update
from sidecar.hand import inner_groups
from sidecar.hand.inner_groups import InnerGroups
from sidecar.hand.standing_answers import StandingAnswers
from sidecar.ports import GroupBorn, GroupGone, GroupWritten
from state.cpuset import EMPTY, CPUSet
from tests.support.deep_groups import nested as deep
from tests.support.hand.stages import DEADLINE_SECONDS, FileStage, news_until, until, v1_stage
from tests.support.keys import docker

ONE, TWO, INSIDE = "a" * 64, "b" * 64, "c" * 64
POOL, OWN, BOTH = CPUSet.of(0), CPUSet.of(1), CPUSet.of(0, 1)
ALL = Answers(others=BOTH, own={docker(ONE): BOTH})
OWNED = Answers(others=POOL, own={docker(ONE): POOL, docker(TWO): OWN}, owned=OWN)


@pytest.fixture(params=["", "with the reflex"])
def stage(
    request: pytest.FixtureRequest, tmp_path: Path, reflex: str | None, monkeypatch: pytest.MonkeyPatch
) -> Iterator[FileStage]:
    """Yield a hand that lets all newborns have both CPUs, and a container on both. A walk has one step."""
    monkeypatch.setattr(inner_groups, "STEP_SECONDS", DEADLINE_SECONDS)
    if request.param and reflex is None:
        pytest.skip("needs a C compiler")
    with v1_stage(tmp_path, reflex if request.param else None) as made:
        made.make("/docker")
        made.begin()
        made.hand.hold(ALL)
        made.make(at(ONE))
        until(lambda: made.cpus(at(ONE)) == "0-1")
        yield made


def at(*names: str) -> str:
    """Return the path of one of Docker's containers, or of a group in it."""
    return "/".join(("/docker", *names))


def view_of(id: str) -> ContainerView:
    """Return a live container with this id."""
    return ContainerView(engine="docker", id=id, name="c", phase=Phase.RUNNING)


def nested(stage: FileStage, *names: str) -> list[str]:
    """Make groups, each inside the one before, the first inside the container; return all paths, the container's
    first.
    """
    paths = [at(ONE)]
    for name in names:
        paths.append(f"{paths[-1]}/{name}")
        stage.make(paths[-1])
    return paths


def cpus(stage: FileStage, paths: list[str]) -> list[str]:
    """Return the CPUs of these groups."""
    return [stage.cpus(path) for path in paths]


def test_a_container_leaves_what_groups_inside_it_have(stage: FileStage) -> None:
    """By an order: the engine could not do it, because the kernel refuses."""
    paths = nested(stage, INSIDE, "deep", "deeper")
    assert stage.hand.write(view_of(ONE), Update(cpus=POOL)) == POOL
    assert cpus(stage, paths) == ["0"] * 4
    assert stage.hand.write(view_of(ONE), Update(cpus=BOTH)) == BOTH
    assert cpus(stage, paths) == ["0-1"] * 4, "they have all that the container has"
    assert stage.hand.write(view_of(ONE), Update(cpus=OWN)) == OWN
    assert stage.hand.write(view_of(ONE), Update(cpus=POOL)) == POOL
    assert cpus(stage, paths) == ["0"] * 4, "from one CPU to another"


def test_a_newborn_leaves_what_groups_inside_it_have(stage: FileStage) -> None:
    """By answers that are held: nothing is known of it yet."""
    paths = nested(stage, INSIDE)
    assert stage.hand.hold(OWNED).stuck == EMPTY
    assert cpus(stage, paths) == ["0", "0"]
    stage.hand.hold(ALL)
    assert cpus(stage, paths) == ["0-1", "0-1"]


def test_news_of_the_hands_own_write_that_come_late_widen_what_is_inside_too(stage: FileStage) -> None:
    """They are read with the next answers, before any group is brought to these."""
    paths = nested(stage, INSIDE)
    stage.hand.hold(OWNED)
    with stage.hand._lock:
        [group] = [each for each in stage.hand._table.groups() if each.id == ONE]
        stage.hand._enforcer.hold(StandingAnswers(ALL))
        stage.hand._enforcer.settle(group, time.monotonic())
    assert cpus(stage, paths) == ["0-1", "0-1"]


def test_a_pin_inside_is_kept_as_far_as_possible_and_comes_back(stage: FileStage) -> None:
    """Two pins: one on the CPU that is left, and one on the other. Neither is taken for the whole later."""
    stage.make(at(ONE, "left"))
    stage.overwrite(at(ONE, "left"), "0")
    stage.make(at(ONE, "lost"))
    stage.overwrite(at(ONE, "lost"), "1")
    stage.make(at(ONE, "whole"))
    paths = [at(ONE, name) for name in ("left", "lost", "whole")]
    stage.hand.write(view_of(ONE), Update(cpus=POOL))
    assert cpus(stage, paths) == ["0", "0", "0"]
    stage.hand.write(view_of(ONE), Update(cpus=BOTH))
    assert cpus(stage, paths) == ["0", "1", "0-1"]
    stage.hand.hold(Answers(others=BOTH, own={docker(ONE): None}))
    assert cpus(stage, paths) == ["0", "1", "0-1"], "let go as well"


def test_a_container_that_is_let_go_gives_back_what_those_inside_had(stage: FileStage) -> None:
    stage.hand.hold(OWNED)
    paths = nested(stage, INSIDE)
    stage.overwrite(at(ONE), "0-1")
    until(lambda: stage.cpus(at(ONE)) == "0")
    stage.hand.hold(Answers())
    assert cpus(stage, paths) == ["0-1", "0-1"]


def test_a_container_that_is_let_go_step_by_step_is_told_when_that_is_over(
    stage: FileStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look may have shown it before."""
    stage.hand.hold(OWNED)
    nested(stage, INSIDE, "deep", "deeper")
    stage.overwrite(at(ONE), "0-1")
    until(lambda: stage.cpus(at(ONE)) == "0")
    monkeypatch.setattr(inner_groups, "STEP_SECONDS", 0.0)
    stage.hand.hold(Answers())
    news_until(stage.hand, lambda each: each == GroupWritten(ONE))
    assert stage.cpus(at(ONE)) == "0-1"


def test_more_pins_than_are_kept_have_all_of_the_container(stage: FileStage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is bounded: an older one is forgotten."""
    monkeypatch.setattr(inner_groups, "MOST_PINS", 2)
    paths = [at(ONE, f"pin-{number}") for number in range(4)]
    for path in paths:
        stage.make(path)
        stage.overwrite(path, "1")
    stage.hand.write(view_of(ONE), Update(cpus=POOL))
    stage.hand.write(view_of(ONE), Update(cpus=BOTH))
    assert sorted(cpus(stage, paths)) == ["0-1", "0-1", "1", "1"]


def test_a_write_of_both_is_undone(stage: FileStage) -> None:
    """A tenant widens its container and at once a group inside, faster than the hand: then the kernel refuses to narrow
    the container alone.
    """
    paths = nested(stage, INSIDE, "deep")
    stage.hand.write(view_of(ONE), Update(cpus=POOL))
    for _ in range(20):
        # Faster than any tenant: the hand's thread waits meanwhile. The reflex does not, and may be faster still.
        with stage.hand._lock, suppress(PermissionError):
            for path in paths:
                stage.overwrite(path, "0-1")
        until(lambda: cpus(stage, paths) == ["0"] * 3)


def test_writes_of_both_without_a_pause_end_where_they_should(stage: FileStage) -> None:
    paths = nested(stage, INSIDE, "deep")
    stage.hand.write(view_of(ONE), Update(cpus=POOL))
    is_over = threading.Event()

    def widen(path: str) -> None:
        while not is_over.is_set():
            with suppress(OSError):
                stage.overwrite(path, "0-1")

    users = [threading.Thread(target=widen, args=(path,)) for path in paths]
    for each in users:
        each.start()
    is_over.wait(0.5)
    is_over.set()
    for each in users:
        each.join()
    until(lambda: cpus(stage, paths) == ["0"] * 3)


def test_a_write_that_groups_inside_hold_up_is_told_when_it_is_done(
    stage: FileStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look shows where they are then: the container, and those inside."""
    monkeypatch.setattr(inner_groups, "STEP_SECONDS", 0.0)
    nested(stage, INSIDE, "deep", "deeper", "deepest")
    assert stage.hand.write(view_of(ONE), Update(cpus=POOL)) == BOTH, "not yet: nobody may be told to be alone there"
    news = news_until(stage.hand, lambda each: each == GroupWritten(ONE))
    assert GroupWritten(INSIDE) in news
    assert stage.cpus(at(ONE)) == "0"


def test_many_groups_are_written_step_by_step(stage: FileStage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Meanwhile births are answered, and another order ends the walk that is under way."""
    monkeypatch.setattr(inner_groups, "STEP_SECONDS", 0.001)
    for number in range(100):
        nested(stage, f"flat-{number}", "deep")
    assert stage.hand.write(view_of(ONE), Update(cpus=POOL)) == BOTH
    assert stage.hand.write(view_of(ONE), Update(cpus=OWN)) == BOTH
    stage.make(at(TWO))
    until(lambda: stage.cpus(at(TWO)) == "0-1")
    until(lambda: stage.cpus(at(ONE)) == "1")
    found = {path.read_text() for path in (stage.root / at(ONE)[1:]).rglob("cpuset.cpus")}
    assert found == {"1\n"}


def test_a_chain_deeper_than_the_stack_is_written(stage: FileStage) -> None:
    """No recursion: a path of a thousand names costs a tenant one start."""
    paths = nested(stage, *["x"] * 150)
    limit = sys.getrecursionlimit()
    groups = InnerGroups()
    stage.hand.close()
    fd = os.open(stage.root / at(ONE)[1:], os.O_PATH)
    try:
        sys.setrecursionlimit(len(inspect.stack(0)) + 50)
        while not groups.bring(fd, b"0"):
            pass
    finally:
        sys.setrecursionlimit(limit)
        os.close(fd)
    assert set(cpus(stage, paths)) == {"0"}


@pytest.mark.parametrize("names", [["y" * 250] * 40, ["x"] * 1500])
def test_groups_with_longer_paths_than_the_kernel_takes_are_written(stage: FileStage, names: list[str]) -> None:
    """A tenant makes each relative to the one before."""
    stage.make(at(ONE, "first"))
    with deep(stage.root / at(ONE, "first")[1:], names) as innermost:
        assert innermost.read("cpuset.cpus") == "0-1\n"
        stage.hand.write(view_of(ONE), Update(cpus=POOL))
        until(lambda: stage.cpus(at(ONE)) == "0")
        assert innermost.read("cpuset.cpus") == "0\n"


def test_a_walk_finds_its_way_back_from_groups_that_are_gone(stage: FileStage, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was begun with is removed before the next step."""
    monkeypatch.setattr(inner_groups, "STEP_SECONDS", 0.0)
    gone, left = nested(stage, "gone", "deep"), nested(stage, "left", "deep")
    groups = InnerGroups()
    fd = os.open(stage.root / at(ONE)[1:], os.O_PATH)
    stage.hand.close()
    try:
        steps = 0
        while not groups.bring(fd, b"0"):
            steps += 1
            if steps == 2:
                for path in reversed(gone[1:]):
                    stage.remove(path)
    finally:
        os.close(fd)
    assert cpus(stage, left) == ["0", "0", "0"]


def test_groups_that_come_and_go_meanwhile_close_nothing(stage: FileStage) -> None:
    """The container stays the hand's, whatever becomes of those inside."""
    is_over = threading.Event()

    def churn() -> None:
        while not is_over.is_set():
            with suppress(OSError):
                stage.make(at(ONE, INSIDE))
            with suppress(OSError):
                stage.remove(at(ONE, INSIDE))

    user = threading.Thread(target=churn)
    user.start()
    for _ in range(200):
        stage.hand.write(view_of(ONE), Update(cpus=POOL))
        stage.hand.write(view_of(ONE), Update(cpus=BOTH))
    stage.hand.write(view_of(ONE), Update(cpus=POOL))
    is_over.set()
    user.join()
    until(lambda: stage.cpus(at(ONE)) == "0")


def test_a_group_without_cpus_is_left_as_it_is(stage: FileStage) -> None:
    """The kernel lets no process in."""
    os.mkdir(stage.root / at(ONE, "empty")[1:])
    assert stage.hand.write(view_of(ONE), Update(cpus=POOL)) == POOL
    assert stage.cpus(at(ONE, "empty")) == ""


def test_those_that_a_container_leaves_behind_are_answered_as_a_birth(stage: FileStage) -> None:
    """Its run is over, and its group is still there, because others are inside: what was ordered for it is past."""
    paths = nested(stage, INSIDE)
    stage.hand.write(view_of(ONE), Update(cpus=BOTH))
    stage.hand.hold(OWNED)
    assert cpus(stage, paths) == ["0-1", "0-1"], "it runs, and leaves by an order"
    stage.hand.hold(OWNED, resting=[docker(ONE)])
    assert cpus(stage, paths) == ["0", "0"]
    stage.hand.hold(ALL)
    stage.hand.write(view_of(ONE), Update(cpus=BOTH))
    stage.hand.hold(Answers(others=POOL, owned=OWN), resting=[docker(ONE)])
    assert cpus(stage, paths) == ["0", "0"], "removed, and known no more"


def test_groups_that_were_there_before_the_hand_leave_owners_cpus(stage: FileStage) -> None:
    paths = nested(stage, INSIDE, "deep")
    stage.hand.close()
    stage.begin()
    stage.hand.hold(Answers(others=POOL, own={docker(TWO): OWN}, owned=OWN))
    assert cpus(stage, paths) == ["0"] * 3


def test_a_tree_in_the_root_is_confined_as_any_other(stage: FileStage) -> None:
    """A tenant may name any parent: the root, or a group that only looks like a container."""
    outermost = f"/{INSIDE}"
    stage.make(outermost)
    stage.make(f"{outermost}/deep")
    stage.make("/service")
    held = stage.hand.hold(msgspec.structs.replace(OWNED, named={docker(TWO): "/"}), ["/"])
    assert held.parents == ("/", "/docker")
    assert cpus(stage, [outermost, f"{outermost}/deep", "/service"]) == ["0", "0", "0-1"]
    stage.make(f"/{TWO}")
    until(lambda: stage.cpus(f"/{TWO}") == "1")
    stage.hand.write(view_of(TWO), Update(cpus=POOL))
    stage.overwrite(f"/{TWO}", "0-1")
    until(lambda: stage.cpus(f"/{TWO}") == "0")
    stage.remove(f"/{TWO}")
    news_until(stage.hand, lambda each: each == GroupGone(TWO, f"/{TWO}"))
    assert stage.hand.hold(OWNED).parents == ("/docker",)
    stage.make(at(TWO))
    until(lambda: stage.cpus(at(TWO)) == "1")


def test_a_container_without_groups_inside_costs_no_walk(stage: FileStage) -> None:
    stage.hand.write(view_of(ONE), Update(cpus=POOL))
    stage.make(at(TWO))
    news_until(stage.hand, lambda each: isinstance(each, GroupBorn) and each.id == TWO)
    assert all(group.inner is None for group in stage.hand._table.groups())
