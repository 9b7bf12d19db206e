"""What live tests stand on."""

from tests.live.fixtures import api, containers, engine_address, image

__all__ = ["api", "containers", "engine_address", "image"]
