"""The files by which fronts keep processes off CPUs that join a container: what the daemon decides, a front reads."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sidecar.apply.exec_places import ExecPlaces
from sidecar.board import Board
from sidecar.decide.settings import PolicyName
from sidecar.runtime import exec_place
from state.cpuset import CPUSet
from state.exec_rule import ExecRule, ExecWord
from tests.support.decide.stories import Story

LAST = ExecRule(ExecWord.LAST)


class Kept:
    """The files of a story's world, and the problems that were told."""

    def __init__(self, story: Story, folder: Path) -> None:
        self.story = story
        self.told: list[str | None] = []
        self.places = ExecPlaces(Board(story.world), str(folder), lambda _, problem: self.told.append(problem))

    def now(self) -> Mapping[str, str]:
        """Write the present world; return what a front reads, by the names of the containers."""
        self.places.write(self.story.world)
        names = {key.id: each.view.name for key, each in self.story.world.containers.items()}
        found = os.listdir(self.places.folder) if os.path.isdir(self.places.folder) else []
        read = {id: exec_place.avoided(self.places.folder, id) for id in found}
        return {names.get(id, id): ",".join(map(str, sorted(cpus))) for id, cpus in read.items()}


def story(**settings: Any) -> Story:
    return Story(**settings)


def test_an_owner_with_the_label_has_a_file_as_long_as_it_lives(tmp_path: Path) -> None:
    """Only root reads it, and it follows the owner's CPUs."""
    told = story()
    kept = Kept(told, tmp_path)
    assert kept.now() == {}
    real = told.arrive("voice", 2, labels={"cpuset.exec": "last"})
    told.settle()
    granted = told.granted(real)
    assert granted is not None
    assert kept.now() == {"voice": str(CPUSet.parse(granted).lowest())}
    folder = Path(kept.places.folder)
    assert [stat.S_IMODE(each.stat().st_mode) for each in (folder.parent, folder)] == [0o700, 0o700]
    assert [stat.S_IMODE(each.stat().st_mode) for each in folder.iterdir()] == [0o600]
    told.away(real)
    assert kept.now() == {}


def test_files_of_an_earlier_run_go_and_those_that_count_are_written_anew(tmp_path: Path) -> None:
    """Whatever is in them."""
    told = story(exec=LAST)
    real = told.arrive("voice", 2)
    told.settle()
    folder = tmp_path / "starts" / "exec"
    folder.mkdir(mode=0o700, parents=True)
    (folder / ("9" * 64)).write_text("0\n")
    (folder / real.id).write_text("torn")
    assert list(Kept(told, tmp_path).now()) == ["voice"]


def test_what_cannot_be_written_is_told_and_tried_again(tmp_path: Path) -> None:
    """The daemon goes on."""
    told = story(exec=LAST)
    told.arrive("voice", 2)
    told.settle()
    kept = Kept(told, tmp_path)
    (tmp_path / "starts").write_text("no folder")
    kept.places.write(told.world)
    assert "cannot be written" in (kept.told[-1] or "")
    (tmp_path / "starts").unlink()
    assert list(kept.now()) == ["voice"]
    assert kept.told[-1] is None


def test_without_a_policy_there_are_no_files(tmp_path: Path) -> None:
    """The policy none changes nothing."""
    told = story(policy=PolicyName.NONE, exec=LAST)
    told.arrive("voice", labels={"cpuset.exec": "last"})
    told.settle()
    assert Kept(told, tmp_path).now() == {}
