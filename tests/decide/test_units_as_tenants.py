"""A unit of the host is one container more: moved off exclusive CPUs, in the way of *alone* until then, put back."""

from __future__ import annotations

import pytest

from sidecar.decide.facts import InventoryTaken, ViewKind
from sidecar.decide.moves.alone import is_alone
from sidecar.decide.settings import TenantRight
from sidecar.decide.world import replace
from state.key import HOST, SYSTEMD, ContainerKey
from state.model import Originals
from tests.support.decide.real import Real
from tests.support.decide.stories import Story


def unit(story: Story, name: str = "ssh.service", cpuset: str = "") -> Real:
    """Let a unit run, and be looked at."""
    real = story.create({}, cpuset=cpuset)
    real.kind, real.name = ViewKind.UNIT, name
    story.start(real)
    story.look(real)
    return real


def test_an_owner_is_alone_when_the_unit_has_left() -> None:
    story = Story()
    service = unit(story)
    owner = story.arrive("owner", 2)
    granted = story.world.state.assignments[owner.key].cpus
    assert not is_alone(story.world, story.world.containers[owner.key])
    story.settle()
    assert service.effective == story.online - granted
    assert is_alone(story.world, story.world.containers[owner.key])


def test_a_release_puts_it_back() -> None:
    story = Story()
    service = unit(story)
    story.arrive("owner", 2)
    story.settle()
    assert service.key in story.world.state.originals
    story.release()
    story.settle()
    assert service.effective == story.online
    assert service.key not in story.world.state.originals


@pytest.mark.parametrize("rights", [(), (TenantRight.PIN,)])
def test_what_the_host_pinned_stays_and_is_granted_to_no_container(rights: tuple[TenantRight, ...]) -> None:
    """Whatever tenants may, and also while it rests."""
    story = Story(may=rights)
    service = unit(story, cpuset="3")
    story.end(service)
    owner = story.arrive("owner", 6)
    story.settle()
    assert story.granted(owner) == "1-2,4-7"
    assert service.cpuset == "3"


@pytest.mark.parametrize("lacks", [(SYSTEMD, HOST), (HOST,)])
def test_records_of_units_outlive_an_inventory_that_does_not_look_at_units(lacks: tuple[str, ...]) -> None:
    """systemd cannot be reached just now: what was confined has to be put back one day."""
    key = ContainerKey(SYSTEMD, "ssh.service")
    story = Story()
    state = story.world.state.remembering(key, Originals())
    story.world = replace(story.world, state=state)
    story.feed(InventoryTaken((), (), story.ticket(), lacks=lacks))
    assert (key in story.world.state.originals) is (SYSTEMD in lacks)


def test_one_that_was_moved_is_no_pin_after_a_restart() -> None:
    """The books have what it had: nothing."""
    story = Story()
    service = unit(story)
    owner = story.arrive("owner", 2)
    story.settle()
    story.crash([True])
    story.settle()
    story.end(owner)
    story.remove(owner)
    story.look(owner)
    story.settle()
    assert service.effective == story.online
