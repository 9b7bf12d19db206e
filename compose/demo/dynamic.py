"""The story of the policy `dynamic`: an elastic server, an elastic batch job, and an arrival that takes CPUs back.

With four CPUs or more, all of it is real. With fewer, one CPU can be granted: nothing can grow and shrink. There the
real part shows which container waits for a CPU, and which one gets it when. Growth is simulated, on 96 CPUs.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from compose.demo.evidence import Finding
from compose.demo.project import Project, machine_size
from compose.demo.screen import News, Screen, others_note
from compose.demo.simulated import retell
from compose.demo.takes import judge, judge_small
from compose.demo.timeline import Words
from compose.host.commands import HostLacks, attempt, output
from sidecar.words.counts import cpus

SETTLE_SECONDS = 30.0
QUIET_NS = 1_000_000_000  # this long without news: no container grows any more
ENOUGH = 4  # CPUs of a machine on which three workloads can grow and shrink, and none is refused
MOST = 12  # CPUs of a large machine that take part: more would not fit on the screen
FOLDER = "/run/cpuset-sidecar-demo"


@dataclass(frozen=True)
class Sizes:
    """How many CPUs can be granted in all, what the server has at most, and what the new container asks for."""

    room: int
    server: int
    arrival: int


def sizes(machine: int) -> Sizes:
    """Return a story that fits a machine with this many CPUs: the new container leaves the others their floors of 1."""
    room = min(machine - 1, MOST) if machine >= ENOUGH else 1
    return Sizes(room=room, server=max(2, room // 3), arrival=max(1, room - 2))


def settings(machine: int) -> dict[str, str]:
    """Return the variables of compose/dynamic.yaml."""
    chosen = sizes(machine)
    return {
        "RESERVED": "0",
        "SHARED_MIN": str(machine - chosen.room),
        "SERVER_MAX": str(chosen.server),
        "BATCH_MAX": str(chosen.room),
        "ARRIVAL": str(chosen.arrival),
        "GRACE": "2s",
        "COOLDOWN": "2s",
        "LINGER": "1s",
        "PROJECTIONS": FOLDER,
    }


def play(project: Project) -> int:
    """Play the story, prove it, and simulate it on a larger machine. Return the exit code."""
    machine = machine_size()
    if machine < 2:
        raise HostLacks("one CPU is too few: the host needs one, and another must be free to grant")
    tale = Tale(project, ("server", "batch", "arrival", "stubborn") if machine >= ENOUGH else ("server", "batch"))
    tale.begin()
    findings = whole(tale, sizes(machine)) if machine >= ENOUGH else small(tale)
    tale.screen.headline("What the workloads report, and what the sidecar counted:")
    for finding in findings:
        tale.screen.verdict(finding.is_true, finding.text)
    is_retold = retell(tale.screen, is_all_there_is=machine < ENOUGH)
    return 0 if is_retold and all(finding.is_true for finding in findings) else 1


class Tale:
    """The project, the output of its workloads, and the screen."""

    def __init__(self, project: Project, services: tuple[str, ...]) -> None:
        self.project = project
        self.words = Words(project, services)
        self.screen = Screen(project.status, self._news)
        self._forced: dict[str, int] = {}

    def begin(self) -> None:
        """Start the sidecar alone."""
        self.screen.headline("The sidecar starts, with the policy dynamic. CPU 0 is reserved for the host.")
        if others := len(output("docker", "ps", "--quiet").split()):
            self.screen.note(others_note(others))
        self.project.up("sidecar")
        self.screen.until(self.project.is_ready, "the sidecar is ready", SETTLE_SECONDS)

    def until(self, is_so: Callable[[], bool], what: str) -> None:
        """Wait until the workloads report something, and then nothing new for a second."""

        def is_done() -> bool:
            self.words.read()
            return is_so() and time.monotonic_ns() - self.words.latest() > QUIET_NS

        self.screen.until(is_done, what, SETTLE_SECONDS)
        self._count()

    def end(self, *services: str) -> None:
        """Stop workloads."""
        for service in services:
            self.project.stop(service)

    @property
    def forced(self) -> Mapping[str, int]:
        """How many takes the sidecar counted as forced, by workload."""
        return self._forced

    def _count(self) -> None:
        said = self.project.ask("status", "--json")
        if said.returncode != 0:
            raise HostLacks(f"the sidecar does not report its status: {said.stderr}")
        counted = {each["id"]: int(each["forced"]) for each in json.loads(said.stdout)["containers"]}
        for service in self.words.lines:
            for container in self.project.containers(service):
                # The count is forgotten with the grant.
                self._forced[service] = max(self._forced.get(service, 0), counted.get(container, 0))

    def _news(self) -> list[News]:
        now = time.monotonic_ns()
        self.words.read()
        return self.words.news(now)


def whole(tale: Tale, size: Sizes) -> list[Finding]:
    """Play the whole story on the real engine."""
    words, has = tale.words, tale.words.has
    tale.screen.headline(f"A batch job arrives: 1 CPU or more. {size.room} can be granted, and it is alone.")
    tale.project.up("batch")
    tale.until(lambda: has("batch") == size.room, "the batch job has all spare CPUs")

    tale.screen.headline(f"A server arrives: 1 to {cpus(size.server)}, and three times the weight of the batch job.")
    tale.project.up("server")
    tale.until(lambda: has("server") > 0 and has("server") + has("batch") == size.room, "both have their share")

    tale.screen.headline(f"A container arrives that needs exactly {size.arrival}: the others make room.")
    tale.project.up("arrival")
    tale.until(lambda: has("arrival") == size.arrival, "the new container has its CPUs")

    tale.screen.headline("It ends. After a moment (linger) the others grow again.")
    tale.end("arrival")
    tale.until(lambda: has("server") + has("batch") == size.room, "both have their share again")

    tale.screen.headline("Batch job and server end. A workload that never acknowledges arrives, and grows.")
    tale.end("batch", "server")
    tale.project.up("stubborn")
    tale.until(lambda: has("stubborn") == size.room, "it has all spare CPUs")

    tale.screen.headline("The other container returns: this time it must wait until the notice is over.")
    tale.project.up("arrival")
    tale.until(lambda: has("arrival") == size.arrival, "the new container has its CPUs")
    return judge(words.lines, "stubborn", tale.forced, time.monotonic_ns())


def small(tale: Tale) -> list[Finding]:
    """Play what can be shown if one CPU can be granted."""
    words, has = tale.words, tale.words.has
    tale.screen.note("REDUCED: only one CPU can be granted here, so no container can grow or shrink.")
    tale.screen.note("Real: which container waits, and which one gets the CPU when. Growth is SIMULATED at the end.")

    tale.screen.headline("A server arrives: 1 to 2 CPUs.")
    tale.project.up("server")
    tale.until(lambda: has("server") == 1, "the server has its CPU")

    tale.screen.headline("A batch job arrives: 1 CPU or more, and it waits if none is free.")
    tale.project.up("batch")
    tale.until(lambda: words.last("batch") is not None, "the batch job is told what it has")

    tale.screen.headline("The server ends. After a moment (linger) its CPU goes to the waiting batch job.")
    tale.end("server")
    tale.until(lambda: has("batch") == 1, "the batch job has the CPU")

    tale.screen.headline("The server returns. No container is pushed below its floor, so now the server waits.")
    tale.project.up("server")
    tale.until(lambda: words.last("server") is not None, "the server is told what it has")
    return judge_small(words.lines, "server", "batch", tale.forced, time.monotonic_ns())


def clear_up(project: Project) -> None:
    """Remove the projections on the engine's host, which only its root can do."""
    if project.settings.get("PROJECTIONS") != FOLDER:
        return
    name = FOLDER.rpartition("/")[2]
    mount = f"--volume={FOLDER.rpartition('/')[0]}:/host"
    attempt("docker", "run", "--rm", "--network=none", mount, "cpuset-sidecar-demo:local", "rm", "-rf", f"/host/{name}")
