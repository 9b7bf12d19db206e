"""Churn: containers come and go in many threads while the sidecar, or the engine, is killed; the kernel is watched.

    python -m tests.live.churn --kills 200 [--seed N]
    python -m tests.live.churn --engine-restarts 10
    python -m tests.live.churn --kills 20 --dynamic
    python -m tests.live.churn --kills 150 --default

`tests.live.users` acts as users do, through the engine's API alone. `tests.live.watcher` compares the projections with
the kernel. At the end everything must come to rest, the State must agree with the kernel, and `release` must restore
all originals.

With `--dynamic`, on a machine of five CPUs or more, containers grow and shrink, acknowledge and lie, and are resized.
With `--default` everything starts through the front: then no newcomer ever touches an owner's CPUs, and none is
excused.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext, suppress
from http.client import HTTPException
from pathlib import Path

import msgspec

from sidecar.decide.facts import Phase
from sidecar.host.machine.sysfs import read_topology
from state.cpuset import CPUSet
from state.errors import StateError
from state.invariants import violations
from tests.live.churnreport import Report
from tests.live.containers import Containers
from tests.live.engineapi import ApiError, EngineApi
from tests.live.image import ensure_image
from tests.live.kernelview import KernelView, online
from tests.live.notices import SampledNotices
from tests.live.privateengine import PrivateEngine, running
from tests.live.rootlesspodman import private_kind
from tests.live.sidecarprocess import SidecarProcess, all_but
from tests.live.stage import FOUR, ask
from tests.live.stricthost import everything_asks
from tests.live.users import ELASTIC_MIX, STATIC_MIX, User, host_config
from tests.live.waiting import PATIENCE, eventually
from tests.live.watcher import Watcher
from tests.support.churn import Verb
from tests.support.keys import by_id
from tests.support.kinds import Wanted

_USERS = 3
_REST_SECONDS = 30.0


class Churn:
    """One churn on one engine. `seed` determines every random choice here, but not how the threads race. With
    `is_asked` every start asks, because the engine was set up so.
    """

    def __init__(
        self,
        api: EngineApi,
        folder: Path,
        *,
        seed: int,
        is_private: bool,
        is_dynamic: bool = False,
        is_asked: bool = False,
    ) -> None:
        self._api = api
        self._is_asked = is_asked
        self._rng = random.Random(seed)
        self._containers = Containers(api, ensure_image(api))
        unmanaged = () if is_private else all_but(self._containers.prefix)
        self.sidecar = SidecarProcess(folder, api.socket_path, unmanaged)
        self.sidecar.configure(linger=f"{200 * PATIENCE:.0f}ms")
        if is_dynamic:
            self.sidecar.configure(
                policy="dynamic", reserved=str(online() - FOUR), cooldown="500ms", load_period="500ms"
            )
        self._notices = SampledNotices()
        self._watcher = Watcher(self.sidecar.projections, self._notices if is_dynamic else None, is_strict=is_asked)
        self._over = threading.Event()
        self._made_as: dict[str, Wanted] = {}
        self._report = Report(seed=seed)
        self._users = [
            User(
                self._containers,
                seed * 100 + number,
                self._over,
                self._made,
                self._watcher.forget,
                touched=self._notices.touched,
                mix=ELASTIC_MIX if is_dynamic else STATIC_MIX,
                wishes={Verb.ACKNOWLEDGE: self._acknowledge, Verb.RESIZE: self._resize} if is_dynamic else {},
            )
            for number in range(_USERS)
        ]

    def run(
        self,
        *,
        kills: int = 0,
        engine_restarts: int = 0,
        engine: PrivateEngine | None = None,
        meanwhile: Callable[[], None] | None = None,
    ) -> Report:
        """Churn, with this many kills of the sidecar and restarts of the engine, and check what is left. `meanwhile`
        injects other faults, and returns when it is done.
        """
        began = time.monotonic()
        try:
            self.sidecar.start()
            self._watcher.start()
            for user in self._users:
                user.start()
            for _ in range(kills):
                self._kill_sidecar()
            if engine is not None:
                for number in range(engine_restarts):
                    self._restart(engine, number)
            if meanwhile is not None:
                meanwhile()
            self._come_to_rest(engine)
            books = self.sidecar.books()
            self._report.acknowledged, self._report.forced = books.acknowledged, books.forced
            self._release()
        except AssertionError as error:
            # The findings until then are worth knowing too.
            self._report.violations.append(str(error))
        finally:
            self._over.set()
            self._watcher.stop()
            self.sidecar.kill()
            for id in self._ours():
                self._api.remove(id)
        self._count(time.monotonic() - began)
        return self._report

    def _made(self, id: str, wanted: Wanted) -> None:
        self._made_as[id] = wanted
        self._watcher.watch(id)

    def _acknowledge(self, id: str, rng: random.Random) -> None:
        """Acknowledge as the workload would: a generation that it read, or one that never existed."""
        told = self.sidecar.projection(id)
        if told is None or not told.leaving:
            return
        generation = told.generation if rng.random() < 0.7 else rng.choice((0, 1, told.generation + 100))
        self._notices.acknowledged(id, generation)
        with suppress(OSError):
            (self.sidecar.projections / "by-id" / id[:12] / "ack").write_text(f"{generation}\n")

    def _resize(self, id: str, rng: random.Random) -> None:
        """Order a size that is possible, or one that is not."""
        route = f"/v1/containers/{id}/resize"
        with suppress(OSError, HTTPException):
            answer = ask(self.sidecar.state_dir, "POST", route, json.dumps({"cpus": rng.randint(1, 5)}))
            self._report.resized += "granted" in answer

    def _kill_sidecar(self) -> None:
        """Kill the sidecar at any moment: one time in four while it starts, otherwise while it works. Afterwards the
        State is complete and lawful, and the journal is readable.
        """
        if self._rng.random() < 0.25:
            time.sleep(self._rng.uniform(0, 0.6))
        else:
            self.sidecar.until_ready()
            time.sleep(self._rng.uniform(0, 1.5) * PATIENCE)
        assert self.sidecar.is_running, f"the sidecar ended by itself: {self.sidecar.log()}"
        with self._watcher.pause:
            # One of them may restart as soon as it is killed.
            self.sidecar.kill()
            if not self._is_asked:
                self._excuse_the_unrecorded()
        self._report.kills += 1
        try:
            for broken in violations(self.sidecar.books(), read_topology()):
                self._report.violations.append(f"the books after kill {self._report.kills}: {broken}")
            self.sidecar.journal()
        except FileNotFoundError:
            # Between two renames, or before the first grant: the previous file exists, or none was needed yet.
            pass
        except StateError as error:
            self._report.violations.append(f"the files after kill {self._report.kills}: {error}")
        if self._rng.random() < 0.5:
            time.sleep(self._rng.uniform(0, 0.5))
        self.sidecar.start(until_ready=False)

    def _excuse_the_unrecorded(self) -> None:
        """Excuse containers whose CPUs the kernel has and the engine has not: the sidecar was killed before the record.
        Until the next sidecar looks, they restart where the engine has them.
        """
        for id in self._ours():
            told = self.sidecar.projection(id)
            with suppress(ApiError):
                configured = self._api.inspect(id)["HostConfig"]["CpusetCpus"]
                if told is not None and told.settled and told.cpus != CPUSet.parse(configured or str(online())):
                    self._watcher.excuse(id)
                    self._report.unrecorded += 1

    def _restart(self, engine: PrivateEngine, number: int) -> None:
        """Restart with SIGTERM and SIGKILL in turn, two of each with live-restore and then two without."""
        time.sleep(self._rng.uniform(1.0, 3.0))
        if number % 2:
            engine.kill()
        else:
            engine.stop()
        time.sleep(self._rng.uniform(0, 0.5))
        with self._watcher.pause:
            engine.start(live_restore=number % 4 < 2)
            self._end_orphans()
        self._report.engine_restarts += 1
        assert self.sidecar.is_running, f"the sidecar ended: {self.sidecar.log()[-3000:]}"

    def _end_orphans(self, *, at_rest: bool = False) -> None:
        """End containers that run although the engine calls them exited, as their owner would have to. Docker 20.10,
        killed while it starts a container, leaves such ones ("task already exists"), and its API cannot tell. At rest
        nothing starts: then a runtime that still waits in a container's cgroup is left from such a start as well.
        """
        kernel = KernelView()
        is_there = kernel.members if at_rest else kernel.allowed
        for id in self._ours():
            if all(not self._is_running(id) and is_there(id) for _ in range(2)):
                kernel.end(id)
                self._report.orphans += 1

    def _is_running(self, id: str) -> bool:
        try:
            return bool(self._api.inspect(id)["State"]["Running"])
        except ApiError:
            return True

    def _stop(self, id: str, engine: PrivateEngine | None) -> None:
        """Stop a container. Docker 20.10, killed before, may wait in vain for an exit that it missed, and can then
        neither stop nor remove it: its owner has to restart the engine cleanly.
        """
        try:
            self._api.act(id, "stop", t="0")
        except ApiError as error:
            if engine is None or error.status != 500:
                raise
            with self._watcher.pause:
                engine.stop()
                engine.start()
                self._end_orphans()
            self.sidecar.until_ready()
            try:
                self._api.act(id, "stop", t="0")
            except ApiError:
                with self._watcher.pause:
                    engine.forget([id])
                self._report.orphans += 1
                self.sidecar.until_ready()

    def _come_to_rest(self, engine: PrivateEngine | None) -> None:
        """Stop the users; then wait until the State, the projections and the kernel agree, and no CPU is lost."""
        self._over.set()
        for user in self._users:
            # An engine that was killed meanwhile may never answer the last request.
            user.join(_REST_SECONDS)
        self.sidecar.until_ready()
        for id in self._ours():
            state = self._api.inspect(id)["State"]
            if state["Paused"]:
                self._api.act(id, "unpause")
            if state["Restarting"] or self._made_as.get(id, Wanted()).restarts:
                self._stop(id, engine)

        def is_calm() -> bool:
            if engine is not None:
                # The engine may call one exited only some time after its restart.
                self._end_orphans(at_rest=True)
            return not self._unlike()

        try:
            eventually(is_calm, "the books are the kernel's", seconds=_REST_SECONDS)
        except AssertionError:
            self._report.violations += [f"at rest: {each}" for each in self._unlike()]
        self._watcher.stop()

    def _unlike(self) -> list[str]:
        """Return the differences between status, State, projections and the kernel."""
        status, books, kernel = self.sidecar.status(), self.sidecar.books(), KernelView()
        known = [
            each
            for each in status.containers
            if each.name.startswith(self._containers.prefix) and each.phase != Phase.DEAD
        ]
        found = [f"{each.name} is not settled" for each in known if not each.is_settled]
        if status.shared | status.exclusive != online():
            found.append(f"CPUs are lost: shared {status.shared}, exclusive {status.exclusive}")
        for each in known:
            grant = by_id(books.assignments).get(each.id)
            wanted = grant.cpus if grant else status.shared
            runs = kernel.allowed(each.id)
            told = self.sidecar.projection(each.id)
            if runs and runs != wanted:
                found.append(f"{each.name} runs on {runs}, and the books say {wanted}")
            if runs and (told is None or told.cpus != runs or not told.settled):
                found.append(f"{each.name} runs on {runs}, and is told {told}")
        ids = {each.id for each in known}
        if missing := set(self._ours()) ^ ids:
            found.append(f"the engine and the sidecar know different containers: {sorted(missing)}")
        # A half-removed container is dead for good, but it exists.
        there = {each.id for each in status.containers}
        found += [
            f"{id[:12]} stands in the books and is gone"
            for id in {*by_id(books.assignments), *by_id(books.originals)} - there
        ]
        return found

    def _release(self) -> None:
        """Release and check: no container here was pinned by hand, so each gets all CPUs, and its original limits."""
        code = self.sidecar.terminate()
        done = self.sidecar.command("release")
        if code or done.returncode:
            self._report.violations.append(f"SIGTERM: {code}; release: {done.returncode} {done.stderr[-600:]}")
        for id in self._ours():
            host = self._api.inspect(id)["HostConfig"]
            limits = host_config(self._made_as[id]) if id in self._made_as else host
            if host["CpusetCpus"] not in ("", str(online())):
                self._report.violations.append(f"{id[:12]} was left with the cpuset {host['CpusetCpus']}")
            for key in ("NanoCpus", "CpuQuota") if not self._api.is_podman else ():  # It reports either limit as both.
                if host[key] != limits.get(key, 0):
                    self._report.violations.append(f"{id[:12]}: {key} is {host[key]}, and was {limits.get(key, 0)}")
        left = self.sidecar.books()
        if left.assignments or left.originals:
            self._report.violations.append(f"the books are not empty after release: {left}")

    def _ours(self) -> list[str]:
        """Return our containers by name: an engine that is killed may have created one without an answer to its
        client.
        """
        listed = self._api.ask("GET", "containers/json", all="1")
        start = f"/{self._containers.prefix}-"
        return [
            each["Id"]
            for each in listed
            # "dead": half removed when the engine was killed. It never runs again, and takes no update.
            if each["State"] != "dead" and any(name.startswith(start) for name in each["Names"])
        ]

    def _count(self, seconds: float) -> None:
        report, watcher = self._report, self._watcher
        report.violations += watcher.violations
        report.containers = len(self._made_as)
        report.actions = sum(sum(user.actions.values()) for user in self._users)
        report.samples, report.judged = watcher.samples, watcher.judged
        report.owners = len(watcher.owners)
        report.notices, report.spared = len(self._notices.kept), self._notices.spared
        report.shortest_notice_seconds = round(min(self._notices.kept, default=0.0), 3)
        report.exposures, report.longest_exposure_seconds = watcher.exposures, round(watcher.longest_exposure, 3)
        report.answers = dict(sum((user.answers for user in self._users), Counter()).most_common())
        report.wall_seconds = round(seconds, 1)


def main() -> int:
    """Churn for long, on an engine of its own; return 0 if no rule was violated."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--engine-restarts", type=int, default=0)
    parser.add_argument("--dynamic", action="store_true", help="containers that grow and shrink; five CPUs at least")
    parser.add_argument("--default", action="store_true", help="with the runtime that asks as the engine's default")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--keep", action="store_true", help="keep the folder with logs and books")
    args = parser.parse_args()
    if args.dynamic and len(online()) < 5:
        parser.error(f"--dynamic needs five CPUs; there are {len(online())}")
    folder = Path(tempfile.mkdtemp(prefix="cpuset-churn-"))
    engine = running(private_kind()())
    try:
        with everything_asks(engine, folder) if args.default else nullcontext():
            mode = {"is_dynamic": args.dynamic, "is_asked": args.default}
            churn = Churn(engine.api, folder, seed=args.seed, is_private=True, **mode)
            report = churn.run(kills=args.kills, engine_restarts=args.engine_restarts, engine=engine)
    finally:
        engine.close()
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(report), indent=2).decode() + "\n")
    if args.keep or report.violations:
        sys.stdout.write(f"logs and books: {folder}\n")
    else:
        shutil.rmtree(folder)
    return 1 if report.violations else 0


if __name__ == "__main__":
    sys.exit(main())
