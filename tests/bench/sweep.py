"""One exclusive arrival on a host with many shared containers: `python -m tests.bench.sweep [--shared 50]`.

Time from the arrival's create event to its projection saying `settled`, and the number of updates, compared with the
bare engine: the same updates of the same containers by a blocking client, as many at once, in the same run. Use an
engine of your own.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from sidecar.decide.moves.plan import SWEEP_SLOTS
from tests.bench.latency import IMAGE, engine_at
from tests.live.engineapi import EngineApi


def wait_for(path: Path, key: str, seconds: float = 30) -> float:
    """Poll a JSON file until a key is true; return the wall clock in seconds then."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            if json.loads(path.read_text()).get(key):
                return time.time()
        except (OSError, ValueError):
            pass
        time.sleep(0.0005)
    raise SystemExit(f"{path} did not say {key} within {seconds:g} s")


def bare_sweep(api: EngineApi, ids: list[str], cpus: str) -> float:
    """Return the seconds that a blocking client needs to update all, as many at once as the sidecar does."""
    with ThreadPoolExecutor(SWEEP_SLOTS) as pool:
        began = time.perf_counter()
        list(pool.map(lambda id: api.update(id, CpusetCpus=cpus), ids))
        return time.perf_counter() - began


def main() -> int:
    """Measure, and print a line per round."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--socket", default="/var/run/docker.sock")
    parser.add_argument("--shared", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    api = engine_at(args.socket)
    ids: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        try:
            for number in range(args.shared):
                ids.append(api.create(f"bench-shared-{number}", IMAGE, "sleep", "3600"))
                api.act(ids[-1], "start")
            command = [sys.executable, "-m", "tests.bench.timed", f"unix://{args.socket}", str(scratch / "state")]
            daemon = subprocess.Popen([*command, str(scratch / "projections"), str(scratch / "updates")])
            try:
                wait_for(scratch / "state" / "status.json", "is_ready")
                for _ in range(args.rounds):
                    one_round(api, scratch, ids)
            finally:
                daemon.send_signal(signal.SIGTERM)
                daemon.wait(20)
            bare = [bare_sweep(api, ids, cpus) for cpus in ("0", "0-1") * args.rounds]
            shown = ", ".join(f"{seconds * 1e3:.0f}" for seconds in sorted(bare))
            print(f"the bare engine, {len(ids)} updates, {SWEEP_SLOTS} at once: {shown} ms")
        finally:
            for id in ids:
                api.ask("DELETE", f"containers/{id}", force="1")
    return 0


def one_round(api: EngineApi, scratch: Path, ids: list[str]) -> None:
    """Measure one arrival and departure."""
    updates = scratch / "updates"
    before = len(updates.read_text().splitlines())
    began = time.time()
    id = api.create("bench-exclusive", IMAGE, "sleep", "3600", labels={"cpuset.exclusive": "1"})
    api.act(id, "start")
    started = time.time()
    settled = wait_for(scratch / "projections" / "by-id" / id[:12] / "status.json", "settled")
    rows = [json.loads(text) for text in updates.read_text().splitlines()[before:]]
    shared = sum(1 for row in rows if row["id"] in ids)
    stamped = next((row["stamped"] / 1e9 for row in rows if row["id"] == id and row["stamped"]), began)
    print(
        f"settled {(settled - stamped) * 1e3:.0f} ms after the create event "
        f"({(settled - started) * 1e3:.0f} ms after the start answered); {shared} updates of shared containers, "
        f"{len(rows) - shared} of the arrival"
    )
    api.ask("DELETE", f"containers/{id}", force="1")
    quiet = len(updates.read_text().splitlines())
    while True:
        time.sleep(0.5)
        now = len(updates.read_text().splitlines())
        if now == quiet:
            return
        quiet = now


if __name__ == "__main__":
    sys.exit(main())
