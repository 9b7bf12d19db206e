"""What a plain container that comes and goes costs: `python -m tests.bench.brief [--clients 1] [--containers 60]`.

Clients create a container, start it, wait for its end (it sleeps 50 ms) and remove it, beside an owner and, as asked
for, beside other containers that stay. CPU time is the scheduler's own, of all threads, from the first creation until
what was left for later is done as well, without what the daemon uses in the same time when nothing happens; inspects
and updates are counted in the engine's log. Everything runs on an engine that is started for this and removed again,
which needs root.
"""

from __future__ import annotations

import argparse
import re
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from tests.bench.exposure.columns import Column, Scene, scene
from tests.bench.own_engine import own_engine
from tests.live.privateengine import PrivateEngine

_COMMAND: Final = ("sleep", "0.05")

_INSPECT: Final = re.compile(r"Calling GET \S*/containers/\w+/json")
_UPDATE: Final = re.compile(r"Calling POST \S*/update")

_IDLE_SECONDS: Final = 15.0

_LATER_SECONDS: Final = 6.0
"""Longer than anything waits that concerns a brief container."""


def cpu_ms(pid: int) -> dict[int, float]:
    """Return the milliseconds of CPU time of each thread so far."""
    found = {}
    for each in Path(f"/proc/{pid}/task").iterdir():
        found[int(each.name)] = int((each / "schedstat").read_text().split()[0]) / 1e6
    return found


def idle_rate(pid: int) -> float:
    """Return the milliseconds of CPU time that the daemon uses in a second while nothing happens."""
    before = cpu_ms(pid)
    time.sleep(_IDLE_SECONDS)
    return sum(now - before.get(thread, now) for thread, now in cpu_ms(pid).items()) / _IDLE_SECONDS


def measured(here: Scene, engine: PrivateEngine, clients: int, containers: int, label: str) -> str:
    """Bring so many containers in all; return a line for people."""
    assert here.sidecar is not None
    log, pid = engine.folder / "log", here.sidecar.pid
    idle = idle_rate(pid)
    daemon, logged = cpu_ms(pid), log.stat().st_size
    dockerd = sum(cpu_ms(engine_pid := int((engine.folder / "pid").read_text())).values())
    began = time.monotonic()
    with ThreadPoolExecutor(clients) as pool:
        list(pool.map(lambda number: _one(here, f"brief-{label}-{number}"), range(containers)))
    took = time.monotonic() - began
    time.sleep(_LATER_SECONDS)
    waited = (time.monotonic() - began) * idle / containers
    threads = [(now - daemon.get(thread, 0.0)) / containers for thread, now in cpu_ms(pid).items()]
    engines = (sum(cpu_ms(engine_pid).values()) - dockerd) / containers
    with open(log, "rb") as text:
        text.seek(logged)
        calls = text.read().decode(errors="replace")
    inspects, updates = len(_INSPECT.findall(calls)), len(_UPDATE.findall(calls))
    return (
        f"{clients} clients: daemon {sum(threads) - waited:.2f} ms each, and {waited:.2f} ms of its own "
        f"({' + '.join(f'{each:.2f}' for each in threads if each >= 0.005)}), dockerd {engines:.1f} ms; "
        f"inspects {inspects / containers:.2f}, updates {updates / containers:.2f}; {containers / took:.2f} a second"
    )


def _one(here: Scene, name: str) -> None:
    id = here.create(name, *_COMMAND)
    here.api.act(id, "start")
    here.api.act(id, "wait")
    here.api.remove(id)


def main() -> int:
    """Measure, and print a line for each round."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", default="1", help="a list: 1,8")
    parser.add_argument("--containers", type=int, default=60, help="of each round")
    parser.add_argument("--beside", type=int, default=0, help="plain containers that stay")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--columns", default="hand", help="a list of: engine, hand")
    args = parser.parse_args()
    columns = [Column[each.upper()] for each in args.columns.split(",")]
    with own_engine(debug=True) as (engine, folder):
        for turn in range(args.rounds):
            for column in columns:
                with scene(engine, column, folder / f"{column.name}-{turn}") as here:
                    for number in range(args.beside):
                        here.api.act(here.create(f"stays-{number}"), "start")
                    time.sleep(_LATER_SECONDS)
                    for clients in (int(each) for each in args.clients.split(",")):
                        found = measured(here, engine, clients, args.containers, f"{turn}-{clients}")
                        print(f"{column.value}, {found}", flush=True)
    return 0


if __name__ == "__main__":
    main()
