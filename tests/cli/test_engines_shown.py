"""Several engines in the document and on the page of `status`: a column tells them apart, and the head names them."""

from __future__ import annotations

from datetime import UTC, datetime

from sidecar.cli import cmd_status
from sidecar.decide.contacts import Away, Contact, Ready
from sidecar.decide.facts import EngineInfo
from sidecar.decide.world import World, replace
from sidecar.status.describe import status_of
from sidecar.status.sight import WORKS
from state.topology import uniform
from tests.cli.worlds import container, world

NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
PODMAN = EngineInfo(name="podman", version="5.4.2", api_version="5.4", ncpu=4)


def two(contact: Contact) -> World:
    made = world(uniform(cores=4), container("web", exclusive=1), container("log"))
    return made.with_contact(PODMAN.name, contact)


def test_one_engine_needs_no_column() -> None:
    """And the document says nothing of several."""
    status = status_of(world(uniform(cores=4), container("web")), updated_at="2026-03-04T05:06:02Z")
    assert status.engines == ()
    assert [each.engine for each in status.containers] == [""]
    assert not [line for line in cmd_status.rendered(status, NOW, WORKS) if "ENGINE" in line]


def test_several_engines_have_a_column_and_a_place_in_the_head() -> None:
    status = status_of(two(Contact(PODMAN, Ready(1))), updated_at="2026-03-04T05:06:02Z")
    lines = cmd_status.rendered(status, NOW, WORKS)
    assert lines[0].startswith("policy static on docker 26.1.5, podman 5.4.2 | reserved")
    head = next(line for line in lines if "NAME" in line)
    assert head.split() == ["ENGINE", "NAME", "ID", "KIND", "CPUS", "STATE"]
    assert {each.engine for each in status.containers} == {"docker"}
    row = next(line for line in lines if " web " in line)
    assert row.split()[:3] == ["A", "docker", "web"]


def test_one_that_is_not_ready_is_named_with_the_reason() -> None:
    """The other one's containers are as settled as before; whether they are alone is not known."""
    world = two(Contact(PODMAN, Away("connection refused")))
    status = status_of(world, updated_at="2026-03-04T05:06:02Z")
    page = " ".join(" ".join(cmd_status.rendered(status, NOW, WORKS)).split())
    assert "podman 5.4.2 (not ready: connection refused)" in page
    (web,) = (each for each in status.containers if each.name == "web")
    assert (web.is_settled, web.is_alone) == (True, False)
    assert status.is_ready
    never = status_of(replace(world, contacts={**world.contacts, "podman": Contact()}))
    assert [(each.is_ready, each.why_not) for each in never.engines] == [(True, ""), (False, "was not reached yet")]
