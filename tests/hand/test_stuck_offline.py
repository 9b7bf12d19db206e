"""A newborn that cannot be written is stuck on all CPUs that it was written with, also on those that are offline."""

from __future__ import annotations

from pathlib import Path

from sidecar.decide.orders import Answers
from sidecar.simulation.model_hand import ModelHand
from sidecar.simulation.model_kernel import ENGINE_GROUP, ModelKernel
from state.cpuset import CPUSet
from state.topology import uniform
from tests.support.hand.stages import until, v2_stage

ONE = "a" * 64
POOL, OWN, BOTH = CPUSet.of(0), CPUSet.of(1), CPUSet.of(0, 1)


def test_offline_cpus_are_told_as_not_yet_free(tmp_path: Path, reflex: str | None) -> None:
    """It has them again as soon as they come back: no news would tell that."""
    path = f"/machine.slice/docker-{ONE}.scope"
    with v2_stage(tmp_path, reflex) as stage:
        stage.make("/machine.slice")
        stage.begin()
        stage.hand.hold(Answers(others=BOTH))
        stage.make(path)
        until(lambda: stage.cpus(path) == "0-1")
        (stage.root / path[1:] / "cpuset.cpus.effective").write_text("0\n")
        with stage.hand._lock:
            stage.hand._enforcer._put_whole = _refuse  # type: ignore[method-assign]
        assert stage.hand.hold(Answers(others=POOL, owned=OWN)).stuck == BOTH


def _refuse(*_: object, **__: object) -> None:
    raise PermissionError("operation not permitted")


def test_the_modelled_hand_tells_the_same() -> None:
    kernel = ModelKernel(uniform(cores=2))
    hand = ModelHand(kernel, "docker")
    hand.hold(Answers(others=BOTH))
    kernel.enter(ONE, BOTH, ENGINE_GROUP)
    kernel.take_offline(OWN)
    hand.closed.add(ONE)
    assert hand.hold(Answers(others=POOL, owned=OWN)) == OWN
