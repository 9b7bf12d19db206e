"""Another engine in the place of the first: it has none of the containers, and is not believed."""

from __future__ import annotations

from pathlib import Path

import pytest

from sidecar.engines.docker.docker_engine import open_docker
from sidecar.failures import EngineUnavailable
from tests.support.daemon.rawdaemon import INFO, RawDaemon, answer

pytestmark = pytest.mark.trio

ONE = [{"Id": "a" * 64}]


def named(daemon: RawDaemon, root: str, listed: object) -> RawDaemon:
    daemon.scripts["/info"] = answer(200, INFO | {"DockerRootDir": root, "ID": "X"})
    daemon.scripts["/containers/json"] = answer(200, listed)
    return daemon


async def test_a_socket_that_was_replaced_is_not_asked_before_it_is_known_whose_it_is(
    daemon: RawDaemon, tmp_path: Path
) -> None:
    """Its list would make all containers look gone. The old engine is recognised when it is back."""
    named(daemon, "/var/lib/docker", ONE)
    place = tmp_path / "d.sock"
    with RawDaemon(tmp_path / "other.sock") as other:
        named(other, "/elsewhere", [])
        async with open_docker(daemon.address) as engine:
            await engine.info()
            assert await engine.containers() == ("a" * 64,)
            place.rename(tmp_path / "away.sock")
            place.symlink_to(tmp_path / "other.sock")
            with pytest.raises(EngineUnavailable, match="its socket was replaced"):
                await engine.containers()
            with pytest.raises(EngineUnavailable, match="its socket was replaced"):
                async with engine.events():
                    pytest.fail("it is believed")
            with pytest.raises(
                EngineUnavailable, match=r"its containers in /elsewhere .*previous one in /var/lib/docker"
            ):
                await engine.info()
            with pytest.raises(EngineUnavailable, match="its socket was replaced"):
                await engine.containers()
            (tmp_path / "away.sock").replace(place)
            # The old socket, and open connections to the other engine.
            with pytest.raises(EngineUnavailable, match="its socket was replaced"):
                await engine.containers()
            await engine.info()
            assert await engine.containers() == ("a" * 64,)
    assert other.requests
    assert not [each for each in other.requests if "containers" in each or "events" in each]


async def test_the_same_engine_on_a_new_socket_is_known_again(daemon: RawDaemon, tmp_path: Path) -> None:
    """As after its restart."""
    named(daemon, "/var/lib/docker", ONE)
    with RawDaemon(tmp_path / "new.sock") as new:
        named(new, "/var/lib/docker", [])
        async with open_docker(daemon.address) as engine:
            await engine.info()
            (tmp_path / "new.sock").replace(tmp_path / "d.sock")
            with pytest.raises(EngineUnavailable, match="its socket was replaced"):
                await engine.containers()
            await engine.info()
            assert await engine.containers() == ()


async def test_a_socket_that_is_gone_is_said_so(daemon: RawDaemon, tmp_path: Path) -> None:
    """With the cure, not as a replaced one, and although connections are open: nothing else would notice."""
    named(daemon, "/var/lib/docker", ONE)
    async with open_docker(daemon.address) as engine:
        await engine.info()
        (tmp_path / "d.sock").unlink()
        with pytest.raises(EngineUnavailable, match="no such socket"):
            await engine.containers()
        with pytest.raises(EngineUnavailable, match="no such socket"):
            await engine.info()
