"""The shipped files give the sidecar what the table of docs/security.md says, and nothing more."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.packaging.test_compose import DYNAMIC, PROXIED, STATIC, STRICT, mount_of, read, source_of, volumes
from tests.packaging.test_podman_units import FOLDER
from tests.packaging.test_podman_units import read as read_unit

ROOT = Path(__file__).parents[2]
SWARM = ROOT / "compose/swarm.yaml"

Row = dict[str, str]

WEIGHTS = {None: "usual", 10240: "ten times"}
"""Of `cpu_shares`, and of systemd's weight, of which 100 are 1024."""


def table() -> dict[str, Row]:
    """Return the table of privileges: for each file, what it says of each row."""
    lines = (ROOT / "docs/security.md").read_text().split("## Privileges")[1].strip().splitlines()
    head, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    names = head[1:]
    end = next(number for number, row in enumerate(rows) if len(row) != len(head))
    return {name: {row[0]: row[column] for row in rows[:end]} for column, name in enumerate(names, 1)}


def of_service(service: dict[str, Any], mounts: list[Any], network: str, new_privileges: str) -> Row:
    """Return a service of compose in the table's words."""
    of = {mount_of(each)[0]: each for each in mounts}
    sources = [source_of(each) for each in mounts]
    is_direct = any(each.endswith("docker.sock}" if "$" in each else "docker.sock") for each in sources)
    assert service["cap_drop"] == ["ALL"]
    assert not service.get("privileged")
    assert "ports" not in service
    assert service.get("pid") is None
    return {
        "user": service.get("user", "root").partition(":")[0],
        "capabilities": ", ".join(service.get("cap_add", [])) or "none",
        "new privileges": new_privileges,
        "network": network,
        "root file system": "read-only" if service["read_only"] else "writable",
        "engine": "its socket" if is_direct else "a proxy's socket",
        "host's cgroups": "read-only" if mount_of(of["/sys/fs/cgroup"])[1] else "writable",
        "CPU weight": WEIGHTS[service.get("cpu_shares")],
        "listens on TCP": "yes"
        if service["environment"].get("CPUSET_SIDECAR_LISTEN", "") not in ("", "${LISTEN:-}")
        else "no",
    }


@pytest.mark.xdist_group("compose")
@pytest.mark.parametrize("file", [STATIC, DYNAMIC, STRICT, PROXIED], ids=lambda file: file.name)
def test_a_compose_file_has_what_the_table_says(file: Path) -> None:
    """As Docker Compose itself reads it; two files extend the first."""
    services = read(file, {})
    sidecar = services["sidecar"]
    forbidden = "forbidden" if sidecar["security_opt"] == ["no-new-privileges:true"] else "allowed"
    found = of_service(sidecar, volumes(services), sidecar["network_mode"], forbidden)
    assert found == table()[PROXIED.name if file == PROXIED else STATIC.name]


def test_the_stack_has_what_the_table_says() -> None:
    """Docker has no word for new privileges in a stack; its network is an internal one."""
    code = "import sys, json, yaml; json.dump(yaml.safe_load(sys.stdin), sys.stdout)"
    command = ["/usr/bin/python3", "-c", code]
    done = subprocess.run(command, input=SWARM.read_text(), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip("nothing here reads YAML")
    stack = json.loads(done.stdout)
    sidecar = stack["services"]["sidecar"]
    # A default in a source has a colon of its own.
    mounts = [
        each.replace("${DOCKER_SOCKET:-/var/run/docker.sock}", "/var/run/docker.sock") for each in sidecar["volumes"]
    ]
    is_internal = stack["networks"][sidecar["networks"][0]]["name"] == "${SIDECAR_NETWORK:-cpuset-sidecar}"
    network = "leads nowhere" if is_internal else "?"
    assert of_service(sidecar, mounts, network, "the node's choice") == table()["swarm.yaml"]


def test_the_quadlet_has_what_the_table_says() -> None:
    """In Podman's words."""
    unit = read_unit(FOLDER / "cpuset-sidecar.container")
    container, weight = unit["Container"], int(unit["Service"]["CPUWeight"][0])
    assert container["DropCapability"] == ["all"]
    assert not container["PublishPort"]
    assert {
        "user": (container["User"] or ["root"])[0],
        "capabilities": ", ".join(container["AddCapability"]) or "none",
        "new privileges": "forbidden" if container["NoNewPrivileges"] == ["true"] else "allowed",
        "network": container["Network"][0],
        "root file system": "read-only" if container["ReadOnly"] == ["true"] else "writable",
        "engine": "its socket" if "/run/podman/podman.sock:/run/podman/podman.sock" in container["Volume"] else "?",
        "host's cgroups": "read-only" if "/sys/fs/cgroup:/sys/fs/cgroup:ro" in container["Volume"] else "writable",
        "CPU weight": WEIGHTS[round(10.24 * weight)],
        "listens on TCP": "yes" if any("LISTEN" in each for each in container["Environment"]) else "no",
    } == table()["podman"]
