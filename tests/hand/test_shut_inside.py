"""Groups inside a container's that are closed to a hand without CAP_DAC_OVERRIDE: on v1 they hold its CPUs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sidecar.decide.facts import ContainerView, Phase
from sidecar.decide.orders import Answers, Update
from sidecar.failures import CgroupClosed
from sidecar.hand import inner_groups, shut_groups
from sidecar.ports import GroupShut, GroupStuck, GroupWritten, HandNews
from state.cpuset import CPUSet
from tests.support.hand.fewer_rights import without_modes
from tests.support.hand.stages import FileStage, news_until, until, v1_stage
from tests.support.keys import docker

ONE, TWO = "a" * 64, "b" * 64
POOL, OWN, BOTH = CPUSet.of(0), CPUSet.of(1), CPUSet.of(0, 1)
ALL = Answers(others=BOTH, own={docker(ONE): BOTH})
FEWER = Answers(others=POOL, own={docker(ONE): POOL, docker(TWO): OWN}, owned=OWN)
AT = f"/docker/{ONE}"
OUTER, INNER = f"{AT}/outer", f"{AT}/outer/inner"

Closing = Callable[[Path], None]


@pytest.fixture(params=["", "with the reflex"])
def stage(
    request: pytest.FixtureRequest, tmp_path: Path, reflex: str | None, monkeypatch: pytest.MonkeyPatch
) -> Iterator[FileStage]:
    """Yield cpusets with a container on all CPUs, and groups inside it; the hand has no right to pass over modes."""
    if request.param and reflex is None:
        pytest.skip("needs a C compiler")
    monkeypatch.setattr(shut_groups, "INSIDE_SECONDS", 0.05)
    monkeypatch.setattr(shut_groups, "STILL_SECONDS", 0.2)
    with v1_stage(tmp_path, reflex if request.param else None) as opened:
        opened.make("/docker")
        with without_modes():
            opened.begin()
        held(opened, ALL)
        for path in (AT, OUTER, INNER):
            opened.make(path)
        yield opened


def held(stage: FileStage, answers: Answers) -> CPUSet:
    """Have the hand hold the answers; return where groups are stuck."""
    with without_modes():
        return stage.hand.hold(answers).stuck


def order(stage: FileStage, cpus: CPUSet) -> CPUSet:
    """Write CPUs into the container."""
    view = ContainerView(engine="docker", id=ONE, name="c", phase=Phase.RUNNING)
    with without_modes():
        return stage.hand.write(view, Update(cpus=cpus))


def closed(group: Path) -> None:
    """Take all rights to the cpuset away."""
    (group / "cpuset.cpus").chmod(0)


def read_only(group: Path) -> None:
    """Leave the right to read it."""
    (group / "cpuset.cpus").chmod(0o444)


def closed_as_a_whole(group: Path) -> None:
    """Take the right to pass through the group away."""
    group.chmod(0)


def opened_again(group: Path) -> None:
    """Give all of it back."""
    group.chmod(0o755)
    (group / "cpuset.cpus").chmod(0o644)


every_way = pytest.mark.parametrize("close", [closed, read_only, closed_as_a_whole])


def is_shut(news: HandNews) -> bool:
    return isinstance(news, GroupShut)


def reason(path: str) -> str:
    """Return what is told of a closed group."""
    return f"the cgroup {path} cannot be written: permission denied"


def fails(stage: FileStage, path: str) -> None:
    """Order the container onto the pool, which this closed group inside it does not let it reach."""
    with pytest.raises(CgroupClosed) as caught:
        order(stage, POOL)
    assert str(caught.value) == reason(path)


@every_way
@pytest.mark.parametrize("path", [OUTER, INNER])
def test_an_order_names_the_group_inside_that_is_in_its_way(stage: FileStage, close: Closing, path: str) -> None:
    assert order(stage, BOTH) == BOTH
    close(stage.root / path[1:])
    fails(stage, path)
    told = [each for each in news_until(stage.hand, is_shut) if isinstance(each, GroupShut)]
    assert told == [GroupShut(ONE, BOTH, reason(path))]
    with pytest.raises(CgroupClosed, match=path):
        order(stage, BOTH)


@every_way
def test_as_soon_as_it_is_open_again_the_container_gets_its_answer(stage: FileStage, close: Closing) -> None:
    """Its engine would write nothing inside. It is told, so that the container is looked at."""
    assert order(stage, BOTH) == BOTH
    close(stage.root / INNER[1:])
    fails(stage, INNER)
    held(stage, FEWER)
    news_until(stage.hand, is_shut)
    opened_again(stage.root / INNER[1:])
    news_until(stage.hand, lambda each: each == GroupWritten(ONE))
    assert [stage.cpus(path) for path in (AT, OUTER, INNER)] == ["0", "0", "0"]
    stage.overwrite(AT, "0-1")
    until(lambda: stage.cpus(AT) == "0")


def test_new_answers_move_what_is_inside_before_an_engine_moves_the_outermost_alone(stage: FileStage) -> None:
    """Otherwise that would be taken for a pin."""
    assert order(stage, BOTH) == BOTH
    closed(stage.root / INNER[1:])
    fails(stage, INNER)
    held(stage, FEWER)
    opened_again(stage.root / INNER[1:])
    news_until(stage.hand, lambda each: each == GroupWritten(ONE))
    held(stage, ALL)
    assert [stage.cpus(path) for path in (AT, OUTER, INNER)] == ["0-1", "0-1", "0-1"]


def test_it_is_told_again_as_long_as_it_is_closed(stage: FileStage) -> None:
    assert order(stage, BOTH) == BOTH
    closed(stage.root / INNER[1:])
    fails(stage, INNER)
    held(stage, FEWER)
    for _ in range(3):
        news_until(stage.hand, is_shut)


def test_one_that_is_opened_while_its_answer_is_what_it_has_is_left_as_it_is(stage: FileStage) -> None:
    """The next answers move it, and what is inside it."""
    assert order(stage, BOTH) == BOTH
    closed(stage.root / INNER[1:])
    fails(stage, INNER)
    opened_again(stage.root / INNER[1:])
    assert stage.cpus(AT) == "0-1"
    held(stage, FEWER)
    until(lambda: stage.cpus(AT) == "0")


def test_a_newborn_whose_answer_it_is_in_the_way_of_is_stuck_and_told(stage: FileStage) -> None:
    """No owner may enter its CPUs; it is tried again as well."""
    until(lambda: stage.hand._table.by_id.get(ONE) is not None)
    closed(stage.root / INNER[1:])
    assert held(stage, Answers(others=POOL, owned=OWN)) == BOTH
    news = news_until(stage.hand, is_shut)
    assert GroupStuck(AT) in news
    opened_again(stage.root / INNER[1:])
    until(lambda: stage.cpus(AT) == "0")


def test_a_path_without_end_is_told_in_part(stage: FileStage) -> None:
    """A tenant chooses it, with letters that no terminal should see."""
    path = INNER
    for _ in range(3):
        path += "/" + "\x1b" + "x" * 120
        stage.make(path)
    assert order(stage, BOTH) == BOTH
    closed(stage.root / path[1:])
    with pytest.raises(CgroupClosed) as caught:
        order(stage, POOL)
    assert "\\x1bxxx" in str(caught.value)
    assert "…" in str(caught.value)
    assert len(str(caught.value)) < len(AT) + inner_groups.MOST_SHOWN + 60
