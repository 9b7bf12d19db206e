"""A write into a cpuset that no hand guards is a hint: on real files, with the daemon's own ears."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from sidecar.board import Board
from sidecar.decide.world import replace
from sidecar.host.cgroup.host_kernel import HostKernel
from sidecar.observe.written import follow_writes
from state.key import ContainerKey
from state.topology import uniform
from tests.cli.worlds import container, world

pytestmark = pytest.mark.trio


class Written:
    """The task on a board with two containers, whose cgroups are in this folder; `looks` are those it asked for."""

    def __init__(self, folder: Path) -> None:
        (folder / "cgroup.controllers").write_text("cpuset cpu\n")
        self.board = Board(world(uniform(cores=4), container("web"), container("log")))
        self.kernel = HostKernel(cgroup=folder, proc=folder)
        self._sent, self.looks = trio.open_memory_channel[ContainerKey](100)
        self.keys = {each.view.name: each.view.key for each in self.board.latest.containers.values()}
        self.files = {name: folder / "docker" / key.id / "cpuset.cpus" for name, key in self.keys.items()}
        for file in self.files.values():
            file.parent.mkdir(parents=True)
            file.write_text("0-3\n")

    async def run(self) -> None:
        """Follow, as the daemon does."""
        await follow_writes(self.board, self.kernel, self._sent.send_nowait, lambda: None)

    async def write_until_heard(self, name: str) -> ContainerKey:
        """Write again and again, until a look is asked for: the task may not listen yet."""
        with trio.fail_after(20):
            while True:
                self.files[name].write_text("0\n")
                with trio.move_on_after(0.2):
                    return await self.looks.receive()

    async def quiet(self) -> None:
        """Wait until nothing is asked for any more."""
        while True:
            with trio.move_on_after(0.5) as waiting:
                await self.looks.receive()
            if waiting.cancelled_caught:
                return


async def test_a_write_asks_for_a_look_at_its_container(tmp_path: Path) -> None:
    """And at no other."""
    written = Written(tmp_path)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(written.run)
        for name, key in written.keys.items():
            assert await written.write_until_heard(name) == key
            await written.quiet()
        nursery.cancel_scope.cancel()


async def test_what_a_hand_guards_is_left_to_it(tmp_path: Path) -> None:
    """The hand has answered the write already; when it guards no more, writes are heard again."""
    written = Written(tmp_path)
    web, before = written.keys["web"], written.board.latest
    written.board.post(before.with_container(replace(before.containers[web], is_covered=True)))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(written.run)
        assert await written.write_until_heard("log") == written.keys["log"]
        await written.quiet()
        written.files["web"].write_text("1\n")
        assert await written.write_until_heard("log") == written.keys["log"]
        await written.quiet()
        written.board.post(before)
        assert await written.write_until_heard("web") == web
        nursery.cancel_scope.cancel()


async def test_a_container_that_is_gone_is_not_looked_at(tmp_path: Path) -> None:
    """The end of its cgroup is heard, too, and nobody needs it."""
    written = Written(tmp_path)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(written.run)
        await written.write_until_heard("web")
        await written.quiet()
        containers = dict(written.board.latest.containers)
        del containers[written.keys["web"]]
        written.board.latest = replace(written.board.latest, containers=containers)
        written.files["web"].unlink()
        await written.quiet()
        assert await written.write_until_heard("log") == written.keys["log"]
        nursery.cancel_scope.cancel()
