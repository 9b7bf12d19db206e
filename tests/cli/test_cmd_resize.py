"""`resize` and `defragment` against the real API on a real socket: their output, and their errors."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio

from sidecar.__main__ import main
from sidecar.api.unix_socket import NAME, listening
from sidecar.cli.daemon_client import container_route
from sidecar.decide.facts import Purpose
from sidecar.decide.settings import PolicyName
from state.topology import uniform
from tests.api.apirig import Rig
from tests.support.decide.stories import Story, cpus
from tests.support.decide.workloads import acknowledge
from tests.support.schemas import misfits


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    """Serve `batch` with 6 CPUs of 2 to 6, and `man` with 1, and up to 3 if resized."""
    story = Story(policy=PolicyName.DYNAMIC)
    story.arrive("batch", 2, labels={"cpuset.max": "6", "cpuset.grace": "1500ms"})
    story.arrive("man", 1, labels={"cpuset.max": "3", "cpuset.scale": "manual"})
    story.settle()
    for place in reversed(range(len(story.timers))):
        if story.timers[place].purpose is Purpose.COOLDOWN:
            story.time_out(place)
    return Rig(tmp_path, story)


async def typed(rig: Rig, *words: str) -> int:
    """Run a command, in a thread."""
    return await trio.to_thread.run_sync(main, [*words, "--state-dir", str(rig.directory)])


@pytest.mark.trio
async def test_one_container_is_released_by_the_daemon(rig: Rig, capsys: pytest.CaptureFixture[str]) -> None:
    """By its name; where it goes is printed, and a second time is refused."""
    async with rig.serving():
        assert await typed(rig, "release", "man") == 0
        said = capsys.readouterr().out
        assert said.startswith("man released its exclusive CPUs until it is next started, and is being moved to CPU")
        assert await typed(rig, "release", "man") == 1
        assert capsys.readouterr().err == "cpuset-sidecar: man has no exclusive CPUs\n"


@pytest.mark.trio
async def test_a_release_is_told_as_json(rig: Rig, capsys: pytest.CaptureFixture[str]) -> None:
    """As `explain` tells the container. Of everything there is a log instead, which the refusal says."""
    async with rig.serving():
        assert await typed(rig, "release", "man", "--json") == 0
        told = capsys.readouterr().out
        assert misfits("explain", told) == []
        assert (json.loads(told)["name"], json.loads(told)["granted"]) == ("man", "")
        with pytest.raises(SystemExit):
            await typed(rig, "release", "--json")
        assert "--json is for one container" in capsys.readouterr().err


@pytest.mark.trio
async def test_a_size_is_ordered_and_the_decision_is_printed(rig: Rig, capsys: pytest.CaptureFixture[str]) -> None:
    """Its CPUs, its future CPUs, the container it waits for; then what leaves it, until when."""
    async with rig.serving():
        assert await typed(rig, "resize", "man", "3") == 0
        [taken] = [each.leaving.cpus for each in rig.story.world.state.assignments.values() if each.leaving]
        grown = taken | cpus("7")
        assert capsys.readouterr().out == (
            f"man has 3 CPUs ({grown}); it runs on CPU 7 now\n"
            f"  it waits for batch to leave {taken}, after 1.5 s of notice\n"
        )
        acknowledge(rig.story, 0)
        rig.story.settle()
        rig.tell()
        assert await typed(rig, "resize", "/man", "1") == 0
        assert capsys.readouterr().out == (
            f"man has 1 CPU (7); it runs on CPUs {grown} now\n"
            f"  CPUs {taken} are leaving it (take 3): until it acknowledges, or 2 s from now\n"
        )
        assert await typed(rig, "resize", "man", "1", "--json") == 0
        shown = capsys.readouterr().out
        assert misfits("resize", shown) == []
        told = json.loads(shown)
        assert (told["name"], told["granted"], told["ordered"], told["leaving"]["cpus"]) == ("man", "7", 1, str(taken))


@pytest.mark.trio
async def test_what_was_made_of_a_number_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Half a core is not given; nothing is said of a rest that never comes."""
    machine = uniform(cores=4, threads=2, adjacent=True)
    story = Story(machine, policy=PolicyName.DYNAMIC, reserved_cpus=cpus("0-1"), options=("full-pcpus-only",))
    story.arrive("man", 2, labels={"cpuset.max": "6", "cpuset.scale": "manual"})
    story.settle()
    rig = Rig(tmp_path, story)
    async with rig.serving():
        assert await typed(rig, "resize", "man", "5") == 0
        said = capsys.readouterr().out
        assert said.startswith("man has 4 CPUs (2-5)")
        assert said.endswith("\n  it gets whole cores: the order of 5 became 4\n")
        assert await typed(rig, "resize", "man", "4") == 0
        assert "became" not in capsys.readouterr().out
        assert await typed(rig, "resize", "man", "3", "--json") == 0
        told = json.loads(capsys.readouterr().out)
        assert (told["ordered"], told["granted"], told["short"]) == (3, "2-3", "")
        assert told["rounded"] == "it gets whole cores: the order of 3 became 2"


@pytest.mark.trio
async def test_less_than_ordered_is_said(rig: Rig, capsys: pytest.CaptureFixture[str]) -> None:
    """If there are too few, it gets those that are available."""
    rig.story.arrive("late", 4)
    rig.story.settle()
    async with rig.serving():
        assert await typed(rig, "resize", "man", "3") == 0
    assert "  1 of 3 CPUs is available now; it gets the rest when CPUs become spare" in capsys.readouterr().out


@pytest.mark.trio
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("resize", "man", "4"), "man may have 1 to 3 CPUs (cpuset.min, cpuset.max), not 4"),
        (("resize", "batch", "3"), "the size of batch is decided by fill: set its label cpuset.scale=manual"),
        (("resize", "men", "3"), "there is no container 'men'; did you mean 'man'?"),
        (("resize", "a/../b", "3"), "there is no container 'a/../b': a name has no slash inside"),
        (("resize", "a b?c#d%20", "3"), "there is no container 'a b?c#d%20'; `cpuset-sidecar status` lists them"),
    ],
)
async def test_what_may_not_be_is_told_with_its_cure(
    rig: Rig, words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 1, and the daemon's own reason."""
    async with rig.serving():
        assert await typed(rig, *words) == 1
    shown = capsys.readouterr()
    assert (shown.out, shown.err.startswith(f"cpuset-sidecar: {message}")) == ("", True)
    assert rig.asked == []


@pytest.mark.trio
async def test_a_defragmentation_says_why_it_moved_nothing(rig: Rig, capsys: pytest.CaptureFixture[str]) -> None:
    async with rig.serving():
        assert await typed(rig, "defragment") == 0
        note = "no container with exclusive CPUs may be moved: give it cpuset.move=true"
        assert capsys.readouterr().out == f"{note}\n"
        assert await typed(rig, "defragment", "--json") == 0
        shown = capsys.readouterr().out
        assert json.loads(shown) == {"moves": [], "notes": [note]}
        assert misfits("defragment", shown) == []


@pytest.mark.parametrize("words", [("resize", "man", "3"), ("defragment",)])
def test_without_a_daemon_the_command_fails(
    tmp_path: Path, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """Never started, crashed, or another directory: exit code 1, and the path that was tried."""
    stale = tmp_path / "stale"
    stale.mkdir()
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(stale / NAME))
    left.close()
    for directory in (tmp_path, tmp_path / "nowhere", stale):
        assert main([*words, "--state-dir", str(directory)]) == 1
        message = f"cpuset-sidecar: no daemon is running on {directory} (set another with --state-dir)\n"
        assert capsys.readouterr().err == message


def test_without_permission_the_owner_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 1, and the cure."""
    with listening(str(tmp_path)), nobody(tmp_path):
        assert main(["resize", "man", "3", "--state-dir", str(tmp_path)]) == 1
    message = f"cpuset-sidecar: the daemon on {tmp_path} answers only root and its api_group: run this as root\n"
    assert capsys.readouterr().err == message


def test_too_long_a_path_and_an_answer_of_something_else_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Some other program listens instead of a daemon."""
    deep = tmp_path / ("x" * 120)
    assert main(["defragment", "--state-dir", str(deep)]) == 1
    assert "cannot be reached: " in capsys.readouterr().err
    for answer in (b"hello\r\n\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", b""):
        with listening(str(tmp_path)) as listener:
            listener.settimeout(20)
            stranger = threading.Thread(target=_answer_with, args=(listener, answer))
            stranger.start()
            assert main(["defragment", "--state-dir", str(tmp_path)]) == 1
            stranger.join()
        assert capsys.readouterr().err.startswith(f"cpuset-sidecar: the daemon on {tmp_path} ")


def test_any_text_is_a_name_and_one_part_of_the_route() -> None:
    """No part of it acts as a path, a query or an encoding."""
    assert container_route("/web", "resize") == "/v1/containers/web/resize"
    assert container_route("..b?c#d%20\n", "resize") == "/v1/containers/..b%3Fc%23d%2520%0A/resize"


@pytest.mark.parametrize("words", [("resize",), ("resize", "man"), ("resize", "man", "many"), ("defragment", "man")])
def test_wrong_usage_is_2(words: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(list(words))
    assert caught.value.code == 2


def _answer_with(listener: socket.socket, answer: bytes) -> None:
    peer, _ = listener.accept()
    with peer:
        peer.recv(65536)
        peer.sendall(answer)


@contextmanager
def nobody(directory: Path) -> Iterator[None]:
    """Act as a user who may not open files in this directory."""
    if os.geteuid() == 0:
        directory.chmod(0o700)
        os.seteuid(65534)
        try:
            yield
        finally:
            os.seteuid(0)
    else:
        directory.chmod(0)
        try:
            yield
        finally:
            directory.chmod(0o700)
