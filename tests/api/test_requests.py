"""What may be requested of a running daemon about a container whose engine is away, or a unit that is not listed."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
import trio

from sidecar.api.documents import Declined
from sidecar.api.requests import Requests
from sidecar.board import Board
from sidecar.decide.contacts import Away, Contact, Ready, UnitSources
from sidecar.decide.facts import Fact
from sidecar.decide.world import World, replace
from state.key import SYSTEMD, ContainerKey
from tests.support.decide.stories import Story

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def apart(world: World) -> World:
    """Return the world in which the engine of all containers is away, and another one is ready."""
    away = {name: replace(each, readiness=Away("gone")) for name, each in world.contacts.items()}
    return replace(world, contacts={**away, "another": Contact(readiness=Ready(1))})


@pytest.mark.trio
async def test_what_is_absent_is_not_released_resized_or_acknowledged_for() -> None:
    """Its engine cannot move it: it keeps what it has, whoever asks (decision 0069)."""
    story = Story()
    key = story.arrive("owner", 2).key
    story.settle()
    outbox, inbox = trio.open_memory_channel[Fact](4)
    requests = Requests(Board(apart(story.world)), outbox)
    for request in (requests.give_up(key, NOW), requests.resize(key, 3), requests.acknowledge(key, None)):
        with pytest.raises(Declined, match=f"{key.engine} is not reached") as caught:
            await request
        assert caught.value.status == 503
    assert inbox.statistics().current_buffer_used == 0


@pytest.mark.trio
async def test_a_unit_is_not_released_before_systemd_told_which_units_ask() -> None:
    story = Story()
    real = story.arrive("db.service", 2)
    story.settle()
    key = ContainerKey(SYSTEMD, "db.service")
    container = story.world.containers[real.key]
    world = replace(story.world, sources=UnitSources((SYSTEMD,)), containers={key: container})
    outbox, _ = trio.open_memory_channel[Fact](4)
    with pytest.raises(Declined, match="systemd is not reached"):
        await Requests(Board(world), outbox).give_up(key, NOW)
