"""A real Prometheus scrapes a real daemon by our configuration: its figures arrive, and rules fire and end."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import pytest

from tests.live.containers import SLEEP, Containers
from tests.live.sidecarprocess import ROOT, SidecarProcess
from tests.live.waiting import PATIENCE, eventually

pytestmark = [pytest.mark.live, pytest.mark.timeout(180 * PATIENCE)]

OURS: Final = ROOT / "compose" / "prometheus"


class Prometheus:
    """A Prometheus of the test's own, on loopback, with our rules: they wait for nothing, and are asked each second."""

    def __init__(self, folder: Path, target: str) -> None:
        self._port = free_port()
        self._folder = folder
        rules = re.sub(r"for: \w+", "for: 0s", (OURS / "alerts.yml").read_text())
        (folder / "alerts.yml").write_text(rules)
        told = (OURS / "prometheus.yml").read_text().replace("node1:9413, node2:9413, node3:9413", target)
        told = told.replace("scrape_interval: 15s", "scrape_interval: 1s\n  evaluation_interval: 1s")
        (folder / "prometheus.yml").write_text(told)

    def run(self) -> subprocess.Popen[bytes]:
        """Start it; the caller ends it."""
        with open(self._folder / "log", "wb") as log:
            return subprocess.Popen(
                [
                    "prometheus",
                    f"--config.file={self._folder}/prometheus.yml",
                    f"--storage.tsdb.path={self._folder}/data",
                    f"--web.listen-address=127.0.0.1:{self._port}",
                ],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )

    def ask(self, route: str, **query: str) -> Any:
        """Return what it answers; None while it does not."""
        address = f"http://127.0.0.1:{self._port}/api/v1/{route}?{urlencode(query)}"
        try:
            with urllib.request.urlopen(address, timeout=10) as answer:
                return json.load(answer)["data"]
        except OSError:
            return None

    def value(self, expression: str) -> float | None:
        """Return the only value of an expression now; None if there is none."""
        found = (self.ask("query", query=expression) or {"result": []})["result"]
        return float(found[0]["value"][1]) if found else None

    def shows(self, expression: str, value: float) -> bool:
        """Return whether this is its value now."""
        return self.value(expression) == value

    def firing(self, name: str) -> Any:
        """Return an alert that fires; None if it does not."""
        found = (self.ask("alerts") or {"alerts": []})["alerts"]
        return next((each for each in found if each["labels"]["alertname"] == name and each["state"] == "firing"), None)


@pytest.fixture
def prometheus(sidecar: SidecarProcess, tmp_path: Path) -> Iterator[Prometheus]:
    """Provide one that scrapes a running daemon."""
    if shutil.which("prometheus") is None:
        pytest.skip("needs the program prometheus (Debian: apt-get install prometheus)")
    target = f"127.0.0.1:{free_port()}"
    sidecar.configure(listen=target)
    sidecar.start()
    made = Prometheus(tmp_path, target)
    with made.run() as process:
        try:
            eventually(lambda: made.value("up") == 1, "the daemon is scraped")
            yield made
        finally:
            process.terminate()


def free_port() -> int:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        port: int = made.getsockname()[1]
        return port


def test_figures_arrive_in_prometheus(prometheus: Prometheus, workloads: Containers) -> None:
    """All series, but for the one of a swarm; a grant is seen by our name and by the kubelet's. By their types one sees
    that OpenMetrics was asked for: it describes a counter by its name without `_total`.
    """
    assert prometheus.value("scrape_samples_scraped") == 89
    workloads.api.act(workloads.create("rt", *SLEEP, labels={"cpuset.exclusive": "1"}), "start")
    for name in ("cpuset_sidecar_exclusive_cpus", "kubelet_cpu_manager_exclusive_cpu_allocation_count"):
        eventually(partial(prometheus.shows, name, 1), f"{name} is 1")
    known = eventually(lambda: prometheus.ask("metadata"), "it knows the types")
    assert known["kubelet_cpu_manager_pinning_requests"][0]["type"] == "counter"
    assert known["kubelet_cpu_manager_allocation_per_numa"][0]["type"] == "gauge"


def test_a_rule_fires_and_ends(prometheus: Prometheus, sidecar: SidecarProcess, workloads: Containers) -> None:
    """A container that asks for too much; then a daemon that is gone, and back."""
    greedy = workloads.create("greedy", *SLEEP, labels={"cpuset.exclusive": "500"})
    workloads.api.act(greedy, "start")
    fired = eventually(lambda: prometheus.firing("ExclusiveRefused"), "the refusal is an alert")
    assert fired["annotations"]["runbook_url"] == "docs/how-to/alerts.md#exclusiverefused"
    assert fired["labels"]["severity"] == "warning"
    workloads.api.remove(greedy)
    eventually(lambda: prometheus.firing("ExclusiveRefused") is None, "it ends with the container")
    sidecar.kill()
    eventually(lambda: prometheus.firing("SidecarGone"), "a daemon that is gone is an alert")
    sidecar.start()
    eventually(lambda: prometheus.firing("SidecarGone") is None, "it ends with the next one")
    # Here rules wait for nothing: a problem of the daemon's first moments is an alert, too.
    eventually(lambda: prometheus.firing("SidecarProblem") is None, "no problem is left")
