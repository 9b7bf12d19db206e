"""Doctor on the engine's limits, and on a second engine on the host."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from sidecar.cli.doctor.engine_checks import check_builds, check_further, check_notes, check_others, other_places
from sidecar.cli.doctor.host_checks import EngineReport, Verdict
from sidecar.decide.facts import ContainerView, EngineInfo, Phase
from sidecar.engines.podman.libpod_wire import _notes
from sidecar.engines.traits_table import traits_of
from tests.cli.worlds import container

PODMAN = EngineInfo(
    name="podman",
    version="4.3.1",
    api_version="4.0.0",
    ncpu=2,
    traits=traits_of("podman", "4.3.1"),
    notes=("it forgets updates",),
)
DOCKER = EngineInfo(name="docker", version="26.1.5", api_version="1.45", ncpu=2)
SYSTEM = "/run/podman/podman.sock"


def view(id: str) -> ContainerView:
    return ContainerView(id=id * 64, name=id, phase=Phase.RUNNING)


def test_each_limit_of_the_engine_is_a_warning() -> None:
    """With the page that says what to do; without an answer there is no finding."""
    [finding] = check_notes(EngineReport(engine=PODMAN))
    assert (finding.verdict, finding.says, "run-with-podman" in finding.cure) == (
        Verdict.WARN,
        "it forgets updates",
        True,
    )
    assert not [*check_notes(EngineReport(engine=DOCKER)), *check_notes(EngineReport(error="nobody"))]


@pytest.mark.parametrize("version", ["4.3.1", "5.2.0", "5.4.2"])
def test_what_is_said_of_starts_is_no_limit_where_births_are_answered(version: str) -> None:
    """Neither that this Podman loses updates nor that it tells late: no container starts outside its CPUs for that."""
    traits = traits_of("podman", version)
    notes = tuple(_notes(traits, is_rootless=False))
    report = EngineReport(engine=msgspec.structs.replace(PODMAN, traits=traits, notes=notes))
    assert [each.says for each in check_notes(report)] == list(notes)
    said = [each.says for each in check_notes(report, has_hand=True)]
    assert said == [note for note in notes if "outside its CPUs" not in note]
    assert len(said) == (version == "5.2.0")


def test_builds_are_told_where_containers_ask_for_exclusive_cpus() -> None:
    """Both engines run their steps outside containers; only Docker has a builder that is one."""
    asking, plain = container("web", exclusive=1), container("log")
    [finding] = check_builds(EngineReport(engine=DOCKER, views=(plain, asking)))
    assert "docker build" in finding.says
    assert "--driver docker-container" in finding.cure
    [finding] = check_builds(EngineReport(engine=PODMAN, views=(plain, asking)))
    assert "podman build" in finding.says
    assert finding.cure == "build elsewhere"
    for engine in (DOCKER, PODMAN):
        assert not list(check_builds(EngineReport(engine=engine, views=(plain,))))


def test_builds_that_a_hand_answers_are_no_finding() -> None:
    """Those of Podman are born beside its command, and those of BuildKit under systemd perhaps elsewhere."""
    views = (container("web", exclusive=1),)
    docker = EngineReport(engine=msgspec.structs.replace(DOCKER, cgroup_driver="cgroupfs"), views=views)
    assert not list(check_builds(docker, has_hand=True))
    assert list(check_builds(docker))
    systemd = EngineReport(engine=msgspec.structs.replace(DOCKER, cgroup_driver="systemd"), views=views)
    [finding] = check_builds(systemd, has_hand=True)
    assert finding.says.startswith("unless systemd starts docker for the host, steps of `docker build` by BuildKit run")
    [finding] = check_builds(EngineReport(engine=PODMAN, views=views), has_hand=True)
    assert finding.says.startswith("steps of `podman build` run outside containers")


def test_a_second_engine_with_containers_is_told() -> None:
    """It is not ours to confine; an engine that is empty, silent, or the same under another name is no finding."""
    ours = EngineReport(engine=DOCKER, views=(view("a"),))
    [finding] = check_others(ours, [(SYSTEM, EngineReport(engine=PODMAN, views=(view("b"), view("c"))))])
    assert finding.verdict is Verdict.WARN
    assert "podman 4.3.1 at /run/podman/podman.sock has 2 more containers, which are not confined" in finding.says
    quiet = [
        EngineReport(engine=PODMAN),
        EngineReport(error="permission denied"),
        EngineReport(engine=PODMAN, views=ours.views),
    ]
    assert not list(check_others(ours, [(SYSTEM, each) for each in quiet]))


def test_further_engines_are_judged_by_their_names() -> None:
    """One that is silent, and one that is another than configured."""
    silent, wrong = EngineReport(error="connection refused"), EngineReport(engine=DOCKER)
    (found,) = check_further([("podman", silent)])
    assert (found.question, found.verdict) == ("podman: engine", Verdict.FAIL)
    found = list(check_further([("podman", wrong)]))[-1]
    assert (found.verdict, found.says) == (Verdict.FAIL, "docker answers where podman should")


def test_a_link_to_the_same_socket_is_no_other_place(tmp_path: Path) -> None:
    """Podman's package links Docker's socket path to its own."""
    own, user = tmp_path / "own.sock", tmp_path / "podman"
    user.mkdir()
    (user / "podman.sock").touch()
    own.symlink_to(user / "podman.sock")
    environ = {"XDG_RUNTIME_DIR": str(tmp_path)}
    here = lambda path: path.startswith(str(tmp_path)) and Path(path).exists()  # noqa: E731
    assert other_places([f"unix://{own}"], environ, here) == ()
    assert other_places(["unix:///elsewhere.sock"], environ, here) == (str(user / "podman.sock"),)
    assert other_places(["auto"], environ, here) == ()
    assert other_places(["auto"], {}, lambda _: False) == ()
