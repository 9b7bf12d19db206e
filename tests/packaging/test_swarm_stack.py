"""swarm.yaml: the reservation equals the label, and the sidecar has no more power than on a single host."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from sidecar.config.config import PREFIX
from sidecar.config.keys import KEYS
from sidecar.decide.container.swarm_task import KIND, TASK_LABEL
from sidecar.decide.container.wish import wish_of
from sidecar.decide.facts import ContainerView, Phase
from sidecar.decide.settings import PolicyName, Settings
from state.cpuset import CPUSet
from state.model import Originals

STACK = Path(__file__).parents[2] / "compose" / "swarm.yaml"


@pytest.fixture(scope="module")
def stack() -> dict[str, Any]:
    """Return the file as YAML; its variables stay unexpanded."""
    code = "import sys, json, yaml; json.dump(yaml.safe_load(sys.stdin), sys.stdout)"
    try:
        done = subprocess.run(
            ["/usr/bin/python3", "-c", code], input=STACK.read_text(), capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        pytest.skip("no Python of the system here")
    if done.returncode != 0:
        pytest.skip("nothing here reads YAML")
    read: dict[str, Any] = json.loads(done.stdout)
    return read


def test_what_the_scheduler_counts_is_what_the_label_asks_for(stack: dict[str, Any]) -> None:
    """The sidecar finds nothing to warn about."""
    worker = stack["services"]["worker"]
    [resource] = worker["deploy"]["resources"]["reservations"]["generic_resources"]
    spec = resource["discrete_resource_spec"]
    assert spec["kind"] == KIND
    view = ContainerView(
        id="0" * 64,
        name="cpus_worker.1.x",
        phase=Phase.CREATED,
        labels={**worker["labels"], TASK_LABEL: "x"},
        set_aside=spec["value"],
    )
    wish = wish_of(view, Settings(policy=PolicyName.STATIC), Originals(), CPUSet.parse("0-3"))
    assert wish.demand is not None
    assert wish.demand.cpus == spec["value"]
    assert wish.warnings == ()


def test_labels_are_the_containers_and_not_the_services(stack: dict[str, Any]) -> None:
    """A label below `deploy` reaches no container."""
    assert all("labels" not in each["deploy"] for each in stack["services"].values())


def test_the_sidecar_runs_on_every_node_and_alone_there(stack: dict[str, Any]) -> None:
    """A new one starts after the old one ended: both would want the lock on the same state directory."""
    deploy = stack["services"]["sidecar"]["deploy"]
    assert deploy["mode"] == "global"
    assert deploy["update_config"]["order"] == "stop-first"


def test_no_service_has_more_power_than_needed(stack: dict[str, Any]) -> None:
    """No writable root file system; the engine's socket, cgroups and two capabilities for the sidecar alone."""
    for name, service in stack["services"].items():
        assert service["cap_drop"] == ["ALL"]
        assert service.get("cap_add", []) == (["DAC_OVERRIDE", "SYS_NICE"] if name == "sidecar" else [])
        assert service["read_only"] is True
    volumes = stack["services"]["sidecar"]["volumes"]
    assert "/sys/fs/cgroup:/sys/fs/cgroup" in volumes
    assert [each for each in stack["services"]["worker"]["volumes"] if "sock" in each or not each.endswith(":ro")] == []


def test_nothing_listens_and_the_network_leads_nowhere_by_default(stack: dict[str, Any]) -> None:
    """Metrics over TCP, and the node's network for them, are chosen by whoever deploys."""
    assert stack["services"]["sidecar"]["environment"]["CPUSET_SIDECAR_LISTEN"] == "${LISTEN:-}"
    assert all(each["networks"] == ["node"] and "ports" not in each for each in stack["services"].values())
    assert stack["networks"] == {"node": {"external": True, "name": "${SIDECAR_NETWORK:-cpuset-sidecar}"}}


def test_every_variable_of_the_sidecar_is_a_key(stack: dict[str, Any]) -> None:
    """Of the configuration."""
    named = stack["services"]["sidecar"]["environment"]
    assert {name.removeprefix(PREFIX).lower() for name in named} <= set(KEYS)
