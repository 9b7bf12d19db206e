"""compose.yaml and dynamic.yaml: they parse, and the sidecar has no more power than it needs."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from compose.demo.dynamic import FOLDER, settings
from sidecar.config.config import Config
from sidecar.decide.container.wish import wish_of
from sidecar.decide.facts import ContainerView, Phase
from sidecar.decide.settings import PolicyName
from state.cpuset import CPUSet
from state.model import Originals
from tests.support.composed import composer

pytestmark = pytest.mark.xdist_group("compose")

ROOT = Path(__file__).parents[2]
STATIC, DYNAMIC, STRICT, PROXIED = (
    ROOT / "compose" / name for name in ("compose.yaml", "dynamic.yaml", "strict.yaml", "proxied.yaml")
)

Services = dict[str, Any]


@pytest.fixture(scope="module")
def services() -> Services:
    """Return the services of compose.yaml."""
    return read(STATIC, {})


@pytest.fixture(scope="module")
def elastic() -> Services:
    """Return the services of dynamic.yaml, as the demo fills it."""
    return read(DYNAMIC, settings(8))


def read(file: Path, variables: dict[str, str], *more: Path) -> Services:
    """Return the services as Docker Compose itself reads them."""
    words = composer()
    if words is None:
        pytest.skip("Docker Compose is missing")
    as_json = ["--format", "json"] if words == ("docker", "compose") else []
    files = [f"--file={each}" for each in (file, *more)]
    command = [*words, *files, "config", *as_json]
    # docker-compose 1.29 is a Python program: it must not see modules of ours.
    environment = {**os.environ, "PYTHONPATH": "", **variables}
    text = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
    found: Services = (json.loads(text) if as_json else yaml_of(text))["services"]
    return found


def yaml_of(text: str) -> Any:
    """Parse docker-compose 1.29's YAML; it is a Python program that brings a reader for it."""
    code = "import sys, json, yaml; json.dump(yaml.safe_load(sys.stdin), sys.stdout)"
    done = subprocess.run(["/usr/bin/python3", "-c", code], input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip("nothing here reads YAML")
    return json.loads(done.stdout)


def test_a_strict_start_needs_directories_of_the_host_and_no_more_power() -> None:
    """The runtime asks in one and mounts from the other; workloads mount nothing themselves."""
    strict = read(STRICT, {})
    assert set(strict) == {"sidecar", "exclusive", "shared"}
    for name in ("exclusive", "shared"):
        assert strict[name]["runtime"] == "cpuset"
        assert not strict[name].get("volumes")
    assert strict["exclusive"]["labels"] == {"cpuset.exclusive": "1"}
    assert not strict["shared"].get("labels")
    assert strict["sidecar"].get("runtime") is None
    assert strict["sidecar"]["cap_drop"] == ["ALL"]
    assert strict["sidecar"]["read_only"]
    sources = [str(each).split(":")[0] if isinstance(each, str) else each["source"] for each in volumes(strict)]
    assert {"/var/lib/cpuset-sidecar", "/run/cpuset-sidecar"} <= set(sources)


def volumes(services: Services) -> list[Any]:
    """Return the sidecar's volumes, as Compose writes them."""
    found: list[Any] = services["sidecar"]["volumes"]
    return found


def test_the_sidecar_and_three_workloads_are_there(services: Services) -> None:
    """One that wants an exclusive CPU, one that does not, and a noisy neighbour."""
    assert set(services) == {"sidecar", "exclusive", "plain", "noisy"}
    assert services["exclusive"]["labels"] == {"cpuset.exclusive": "1", "cpuset.projection": "exclusive"}
    assert services["plain"]["labels"] == {"cpuset.projection": "plain"}
    assert not services["noisy"].get("labels")


def test_no_service_has_more_power_than_needed(services: Services, elastic: Services) -> None:
    """No capability but the two of the sidecar, no network, no writable root file system, no way to more."""
    sidecars = (services["sidecar"], elastic["sidecar"])
    for service in [*services.values(), *elastic.values()]:
        assert service["cap_drop"] == ["ALL"]
        assert service.get("cap_add", []) == (["DAC_OVERRIDE", "SYS_NICE"] if service in sidecars else [])
        assert not service.get("privileged")
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert service["read_only"] is True
        assert service["network_mode"] == "none"


def test_the_hosts_services_are_left_alone_without_the_bus_that_one_more_file_mounts(services: Services) -> None:
    """Asked for, the status says that they are not confined; with the file, the sidecar reaches systemd."""
    assert services["sidecar"]["environment"]["CPUSET_SIDECAR_HOST_UNITS"] == "auto"
    assert not any("dbus" in str(each) for each in volumes(services))
    whole = read(STATIC, {}, ROOT / "compose" / "whole-host.yaml")
    assert {"/run/dbus/system_bus_socket", "/run/systemd"} <= {mounted(each) for each in volumes(whole)}
    assert whole["sidecar"]["pid"] == "host"
    assert whole["sidecar"]["cap_drop"] == ["ALL"]
    assert whole["sidecar"]["environment"]["CPUSET_SIDECAR_POLICY"] == "static"


def mounted(volume: Any) -> str:
    """Return where a volume comes from, as any Compose writes it."""
    return str(volume).split(":")[0] if isinstance(volume, str) else str(volume["source"])


def test_only_the_sidecar_may_write_projections_or_talk_to_the_engine(services: Services) -> None:
    """A workload reads its own projection, and no more."""
    mounts = {name: [mount_of(volume) for volume in service.get("volumes", [])] for name, service in services.items()}
    for name in ("exclusive", "plain"):
        assert mounts[name] == [("/run/cpus", True)]
        assert source_of(services[name]["volumes"][0]) == f"/run/cpuset-sidecar/by-name/{name}"
    assert mounts["noisy"] == []
    assert set(mounts["sidecar"]) == {
        ("/var/run/docker.sock", False),
        ("/sys/fs/cgroup", False),
        ("/var/lib/cpuset-sidecar", False),
        ("/run/cpuset-sidecar", False),
    }


@pytest.fixture(scope="module")
def proxied() -> Services:
    """Return the services of proxied.yaml."""
    return read(PROXIED, {})


def test_behind_the_proxy_the_sidecar_is_no_root(proxied: Services) -> None:
    """It has a user of its own, and no capability, network or engine's socket; the cgroups it reads."""
    assert set(proxied) == {"proxy", "sidecar", "exclusive"}
    sidecar = proxied["sidecar"]
    assert sidecar["user"] == "64500:64500"
    assert {mount_of(volume) for volume in sidecar["volumes"]} == {
        ("/run/engine", True),
        ("/sys/fs/cgroup", True),
        ("/var/lib/cpuset-sidecar", False),
        ("/run/cpuset-sidecar", False),
    }
    environment = sidecar["environment"]
    assert environment["CPUSET_SIDECAR_ENGINE"] == "unix:///run/engine/docker.sock"
    assert environment["CPUSET_SIDECAR_HAND"] == "off"
    assert not {"CPUSET_SIDECAR_LISTEN", "LISTEN"} & set(environment)


def test_behind_the_proxy_nothing_else_has_power(proxied: Services) -> None:
    """The engine's socket is the proxy's alone, and the proxy has nothing besides."""
    for service in proxied.values():
        assert service["cap_drop"] == ["ALL"]
        assert "cap_add" not in service
        assert not service.get("privileged")
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert service["read_only"] is True
        assert service["network_mode"] == "none"
    sources = [(name, source_of(volume)) for name, each in proxied.items() for volume in each["volumes"]]
    assert [name for name, source in sources if source.endswith("docker.sock")] == ["proxy"]
    assert {mount_of(volume) for volume in proxied["proxy"]["volumes"]} == {
        ("/var/run/docker.sock", False),
        ("/etc/cpuset-sidecar/haproxy.cfg", True),
        ("/run/engine", False),
    }
    assert [mount_of(volume) for volume in proxied["exclusive"]["volumes"]] == [("/run/cpus", True)]


def test_the_dynamic_story_has_a_sidecar_and_four_elastic_workloads(elastic: Services) -> None:
    """Each has a projection of its own name; numbers come from the machine."""
    assert set(elastic) == {"sidecar", "server", "batch", "arrival", "stubborn"}
    environment = elastic["sidecar"]["environment"]
    assert environment["CPUSET_SIDECAR_POLICY"] == "dynamic"
    assert environment["CPUSET_SIDECAR_RESERVED"] == "0"
    labels = {name: service.get("labels", {}) for name, service in elastic.items()}
    assert all(labels[name]["cpuset.projection"] == name for name in labels if name != "sidecar")
    assert [labels[name].get("cpuset.max") for name in ("server", "batch", "arrival")] == ["2", "7", None]
    assert labels["arrival"]["cpuset.exclusive"] == "5"


def test_labels_of_the_dynamic_story_are_understood(elastic: Services) -> None:
    """No label of it is unknown, and each value is lawful."""
    config = Config(policy=PolicyName.DYNAMIC)
    for name, service in elastic.items():
        view = ContainerView(id="f" * 64, name=name, phase=Phase.CREATED, labels=service.get("labels", {}))
        wish = wish_of(view, config.settings(), Originals(), CPUSet.parse("0-7"))
        assert (wish.refusal, wish.warnings) == (None, ())
        assert (wish.demand is None) == (name == "sidecar")


def test_a_container_that_is_sent_a_signal_has_a_stop_signal_of_its_own(elastic: Services) -> None:
    """Without one, an engine takes any signal for a request to end."""
    signalled = [service for service in elastic.values() if "cpuset.signal" in service.get("labels", {})]
    assert signalled
    for service in signalled:
        assert service["stop_signal"] != f"SIG{service['labels']['cpuset.signal']}"


def test_a_workload_may_write_in_its_own_directory_alone(elastic: Services) -> None:
    """So that it can acknowledge, but not forge other projections. A workload that does not acknowledge only reads."""
    for name in ("server", "batch", "arrival", "stubborn"):
        [volume] = elastic[name]["volumes"]
        assert source_of(volume) == f"{FOLDER}/by-name/{name}"
        assert mount_of(volume) == ("/run/cpus", name == "stubborn")
    assert ("/run/cpuset-sidecar", False) in [mount_of(volume) for volume in elastic["sidecar"]["volumes"]]
    assert ("/sys/fs/cgroup", False) in [mount_of(volume) for volume in elastic["sidecar"]["volumes"]]


def source_of(volume: str | dict[str, Any]) -> str:
    """Return what of the host is mounted: a path or a volume."""
    return str(volume["source"]) if isinstance(volume, dict) else volume.split(":", 1)[0]


def mount_of(volume: str | dict[str, Any]) -> tuple[str, bool]:
    """Return where a volume is mounted, and whether read-only, in either notation."""
    if isinstance(volume, dict):
        return volume["target"], bool(volume.get("read_only"))
    target, _, mode = volume.split(":", 1)[1].partition(":")
    return target, mode.startswith("ro")
