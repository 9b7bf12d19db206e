"""A label of 40 MB, and a stop signal of 5000 digits: any user who may create containers can write them."""

from __future__ import annotations

import pytest
import trio

from sidecar.decide.facts import Phase
from sidecar.decide.orders import Update
from sidecar.engines.open_engine import open_engine
from sidecar.failures import EngineError
from sidecar.host.cgroup.host_kernel import HostKernel
from state.cpuset import CPUSet
from tests.live.containers import Containers
from tests.live.image import with_stop_signal

GIANT = 40_000_000


@pytest.mark.live
@pytest.mark.slow
@pytest.mark.trio
async def test_a_giant_label_stops_nothing(containers: Containers) -> None:
    """Its events come, it is listed, described and updated, and so is its neighbour."""
    labels = {"cpuset.exclusive": "1", "cpuset.near": "x" * GIANT, "other": "y" * 1000}
    if containers.api.is_podman:
        pytest.skip("Podman's own record of events ends at lines as long as this, and so does its stream")
    address = f"unix://{containers.api.socket_path}"
    async with open_engine(address, machine=HostKernel()) as engine, engine.events() as stream:
        giant = await trio.to_thread.run_sync(lambda: containers.create("giant", labels=labels))
        small = await trio.to_thread.run_sync(lambda: containers.create("small"))
        with trio.fail_after(60):
            seen: set[tuple[str, str]] = set()
            while not {(giant, "create"), (small, "create")} <= seen:
                event = await anext(stream)
                assert not event.is_gap
                seen.add((event.container, event.action))
        assert {giant, small} <= set(await engine.containers())
        view = await engine.inspect(giant)
        assert view.labels == {"cpuset.exclusive": "1", "cpuset.near": "x" * 255 + "…"}
        for container in (giant, small):
            await engine.update(container, Update(cpus=CPUSet.of(0)))
            assert (await engine.inspect(container)).cpuset == "0"


@pytest.mark.live
@pytest.mark.slow
@pytest.mark.trio
async def test_a_stop_signal_of_any_length_is_that_containers(containers: Containers) -> None:
    """The engine checks a request's, and not an image's. It is read before each signal that the sidecar sends."""
    api = containers.api
    if api.is_podman:
        pytest.skip("the image is one of Docker's archives")
    digits = "9" * 5000
    image = await trio.to_thread.run_sync(with_stop_signal, api, containers.image, digits)
    policy = {"RestartPolicy": {"Name": "always"}}
    try:
        made = api.create(f"{containers.prefix}-crafted", image, "sleep", "3600", stop_signal="", **policy)
        containers.made.append(made)
        api.act(made, "start")
        assert api.inspect(made)["Config"]["StopSignal"] == digits
        async with open_engine(f"unix://{api.socket_path}", machine=HostKernel()) as engine:
            # Docker itself cannot send any signal to it.
            with pytest.raises(EngineError, match=r"(?i)invalid signal"):
                await engine.signal(made, "HUP")
            assert (await engine.inspect(made)).phase is Phase.RUNNING
    finally:
        containers.remove_all()
        api.ask("DELETE", f"images/{image}", force="1")
