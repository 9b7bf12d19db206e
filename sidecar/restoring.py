"""`release`: restore every container's original settings, verify that with the engine, and report what was done.

1. The engine is looked at; nothing is ordered before every container is known.
2. If the recorded state knows of no container, while containers are confined, it is probably another daemon's state.
3. The projections are removed, before any container is let onto the CPUs that they name. One that cannot be removed is
   reported, and tried again at the end.
4. The allocator restores everything; what cannot be reached in time is reported.
5. Each container is looked at once more, and compared with what it had before. One that is half removed will never run
   again, and counts as gone.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Final

import trio

from sidecar.board import Board
from sidecar.decide.container.place import cpus_of
from sidecar.decide.facts import ContainerView, Fact, Phase, ReleaseRequested, ViewKind
from sidecar.decide.moves.release import original_cpus
from sidecar.decide.world import World
from sidecar.failures import ContainerGone, EngineError
from sidecar.log import Log, printable
from sidecar.ports import Engine
from sidecar.projection.projections import Projections
from sidecar.words import released as words
from sidecar.words.units import all_of, noun
from state.errors import ProjectionError
from state.key import ContainerKey
from state.model import Originals

RELEASE_SECONDS: Final = 60.0
"""How long a release tries to reach every container before it reports the ones that it could not reach."""


def print_line(line: str) -> None:
    """Print a line on stdout."""
    sys.stdout.write(f"{printable(line)}\n")


class Restoring:
    """One release. `say` prints a line for people."""

    def __init__(
        self,
        board: Board,
        engine: Engine,
        projections: Projections,
        state_dir: str,
        *,
        stop: trio.Event,
        log: Log,
        say: Callable[[str], None] = print_line,
    ) -> None:
        self._board = board
        self._engine = engine
        self._projections = projections
        self._state_dir = state_dir
        self._stop = stop
        self._log = log
        self._say = say

    async def run(self, outbox: trio.MemorySendChannel[Fact]) -> int:
        """Release everything. Return the exit code: 1 if a container was not restored."""
        originals = dict(self._board.latest.state.originals)
        with trio.move_on_after(RELEASE_SECONDS):
            async for world in self._board.worlds():
                is_looking = any(each.is_looked_at for each in world.contacts.values())
                if world.is_ready and not is_looking and not world.is_releasing:
                    if not originals and _confined(world, originals):
                        break
                    # 3. The projections.
                    self._withdraw()
                    # 4. Restore.
                    units = sum(1 for key in originals if key.is_unit)
                    counts = {"containers": len(originals) - units, **({"units": units} if units else {})}
                    self._log.info("releasing every container", **counts)
                    await outbox.send(ReleaseRequested())
                elif world.is_releasing and not world.state.originals:
                    break
                if self._stop.is_set():
                    break
        world = self._board.latest
        confined = _confined(world, originals)
        if not originals and confined:
            # 2. Another daemon's state.
            self._log.error(words.astray(self._state_dir, confined))
            return 1
        self._projections.retain(())
        failed = {key: _reason(world, key) for key in world.state.originals}
        views = await self._views(originals)
        # 5. As before?
        for key, view in views.items():
            if key not in failed and not _is_as_before(world, view, originals[key]):
                failed[key] = words.not_as_before(view.cpuset)
        self._report(world, originals, views, failed)
        if confined:
            self._say(words.others(confined))
        for key, reason in failed.items():
            known = world.containers.get(key)
            self._log.error("not released", **{noun(key): known.view.name if known else key.short}, reason=reason)
        return 1 if failed else 0

    def _withdraw(self) -> None:
        try:
            self._projections.retain(())
        except ProjectionError as error:
            # A release gives back CPUs whatever is wrong with the files.
            self._log.warning("projections could not be removed", reason=error)

    async def _views(self, originals: Mapping[ContainerKey, Originals]) -> dict[ContainerKey, ContainerView]:
        """Return what the engine shows now of these containers; those that do not exist, or are going, are left out."""
        views = {}
        for key in originals:
            try:
                view = await self._engine.inspect(key.id)
                if view.phase not in (Phase.REMOVING, Phase.DEAD):
                    views[key] = view
            except ContainerGone:
                continue
            except EngineError as error:
                self._log.warning(f"a {noun(key)} could not be looked at again", **{noun(key): key.short}, reason=error)
        return views

    def _report(
        self,
        world: World,
        originals: Mapping[ContainerKey, Originals],
        views: Mapping[ContainerKey, ContainerView],
        failed: Mapping[ContainerKey, str],
    ) -> None:
        done = [key for key in originals if key in views and key not in failed]
        names = [views[key].name for key in done]
        out = [
            views[key].name
            for key in done
            if not originals[key].cpuset
            and views[key].cpuset
            and not views[key].pod_cpuset
            and views[key].kind is ViewKind.CONTAINER
        ]
        missing = [key for key in originals if key not in views and key not in failed]
        units = sum(1 for key in missing if key.is_unit)
        gone = all_of(len(missing) - units, units) if missing else ""
        for line in words.restored(names, out, world.state.online, gone):
            self._say(line)
        if not originals:
            self._say(words.nothing_known(self._state_dir))


def _confined(world: World, originals: Mapping[ContainerKey, Originals]) -> dict[str, str]:
    """Return the containers, by name, with a cpuset that the recorded state does not know and that is not all CPUs."""
    online = world.state.online
    return {
        each.view.name: each.view.cpuset
        for key, each in world.containers.items()
        if key not in originals
        and each.view.kind is ViewKind.CONTAINER
        and each.view.cpuset
        and not online <= cpus_of(each.view.cpuset, online)
    }


def _is_as_before(world: World, view: ContainerView, originals: Originals) -> bool:
    """Return whether the engine shows the original cpuset; an engine that forgets updates shows it in any case."""
    online = world.state.online
    return original_cpus(view, view.cpuset, online) == original_cpus(view, originals.cpuset, online)


def _reason(world: World, key: ContainerKey) -> str:
    known = world.containers.get(key)
    return (known and known.fault and known.fault.text) or "no answer in time"
