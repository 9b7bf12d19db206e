"""A sign of life of an engine: any kind answers a ping in the same way."""

from __future__ import annotations

from sidecar.engines.asyncio_room import AsyncioRoom
from sidecar.engines.http_client import Client
from sidecar.failures import EngineFailed, EngineLacks, EngineRefused


async def ping(room: AsyncioRoom, client: Client, seconds: float) -> None:
    """Return once the engine has answered. A proxy may refuse a ping; the version needs no lock either. Raise any
    EngineError.
    """
    try:
        await room.call(client.greet, seconds)
    except (EngineLacks, EngineFailed, EngineRefused):
        await room.call(client.version, seconds)
