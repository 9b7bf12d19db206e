"""The scenarios that ship, and the pages' pictures of them."""

from __future__ import annotations

import tarfile
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

import pytest

from sidecar.__main__ import main
from sidecar.host.machine.record import record
from sidecar.simulation.happenings import What
from sidecar.simulation.scenario import Scenario, simulation_of
from sidecar.simulation.scenario_file import scenario_in
from sidecar.simulation.virtual_host import Simulation

ROOT = Path(__file__).parents[2]
SCENARIOS = sorted((ROOT / "compose" / "scenarios").glob("*.toml"))
PICTURES = ROOT / "docs" / "pictures"
SHARED = ROOT.parent / "shared" / "machines" / "machines.tar.xz"
EPYC = "util-linux/x86_64-epyc_7451"


def played(path: Path) -> tuple[Scenario, Simulation]:
    """Return a scenario that ships, at its end."""
    scenario = scenario_in(str(path))
    simulation = simulation_of(scenario)
    simulation.advance(scenario.ends)
    return scenario, simulation


def name_of(path: Path) -> str:
    return path.stem


@pytest.mark.parametrize("path", SCENARIOS, ids=name_of)
def test_a_scenario_that_ships_breaks_no_law_and_ends_in_rest(path: Path) -> None:
    """Every container has its recorded CPUs."""
    _, simulation = played(path)
    assert simulation.broken == []
    for grant in simulation.world.state.assignments.values():
        assert simulation.cpus_of(grant.name) == grant.cpus


def test_two_cpus_survive_the_death_of_the_sidecar() -> None:
    """The container keeps its CPU while no sidecar runs, and gives it back at its end."""
    _, simulation = played(ROOT / "compose" / "scenarios" / "two-cpus.toml")
    counts = Counter((each.container, each.what) for each in simulation.log)
    assert (counts["steady", "granted"], counts["steady", "released"]) == (1, 1)
    assert counts["plain", What.RUNS_ON] == 2


def test_an_arrival_takes_cpus_back_with_notice() -> None:
    """On 96 CPUs: no container is below its floor, both acknowledge, no take is forced."""
    scenario, simulation = played(ROOT / "compose" / "scenarios" / "dynamic.toml")
    assert len(scenario.machine.online) == 96
    acknowledged = {each.container for each in simulation.log if each.what == What.ACKNOWLEDGES and 30 < each.at < 32}
    assert acknowledged == {"server", "batch"}
    assert simulation.world.state.forced == 0
    frame = next(each for each in reversed(simulation.frames) if each.at < 45)
    sizes = {each.name: len(each.cpus) for each in frame.holdings}
    assert (sizes["realtime"], sizes["server"] >= 16, sizes["batch"] >= 8) == (40, True, True)


def test_load_up_and_down_ends_where_it_began() -> None:
    """And each take from a container that does not acknowledge is forced."""
    _, simulation = played(ROOT / "compose" / "scenarios" / "load.toml")
    sizes = [len(e.cpus) for frame in simulation.frames for e in frame.holdings if e.name == "server" and e.cpus]
    assert (sizes[0], max(sizes), sizes[-1]) == (2, 11, 2)
    assert simulation.world.state.forced == sum(1 for e in simulation.log if e.what.startswith("take forced")) > 5


def test_defragmentation_brings_together_movable_containers() -> None:
    _, simulation = played(ROOT / "compose" / "scenarios" / "defragment.toml")
    for name in ("movable-1", "movable-2"):
        assert len([node for node in simulation.machine.nodes if node.cpus & simulation.cpus_of(name)]) == 1
    assert [each.container for each in simulation.log if each.what == "exchanged"] == ["movable-1", "movable-2"]


@pytest.mark.parametrize("path", SCENARIOS, ids=name_of)
def test_the_pictures_of_the_pages_are_those_that_the_program_makes(path: Path, tmp_path: Path) -> None:
    """To the byte: after a change they must be made again, as docs/reference/scenarios.md says."""
    made = tmp_path / "made.svg"
    assert main(["simulate", str(path), "--svg", str(made)]) == 0
    assert (PICTURES / f"{path.stem}.svg").read_bytes() == made.read_bytes()


@pytest.mark.parametrize("path", [PICTURES / f"{each.stem}.svg" for each in SCENARIOS], ids=name_of)
def test_every_picture_is_of_a_scenario_and_shows_each_containers_cpus(path: Path) -> None:
    """It is well-formed, self-contained, and names its containers."""
    scenario, simulation = played(ROOT / "compose" / "scenarios" / f"{path.stem}.toml")
    found = ET.fromstring(path.read_text())
    words = {each.text for each in found.iter("{http://www.w3.org/2000/svg}text")}
    assert scenario.title in words
    assert {each.name for frame in simulation.frames for each in frame.holdings if each.granted} <= words
    assert "href" not in path.read_text()


@pytest.mark.slow
def test_the_arrival_on_a_recorded_machine_of_96_cpus(tmp_path: Path) -> None:
    """Eight nodes, sixteen caches: the same story, and no law is broken."""
    if not SHARED.exists():
        pytest.skip("needs the recorded machines, in ../shared/machines; simpler ones are played here")
    with tarfile.open(SHARED) as packed:
        wanted = [each for each in packed if each.name.startswith(f"{EPYC}/sys/")]
        packed.extractall(tmp_path, wanted, filter="data")
    machine = tmp_path / "machine.txt"
    machine.write_text(record(tmp_path / EPYC / "sys"))
    scenario = scenario_in(str(ROOT / "compose" / "scenarios" / "dynamic.toml"), str(machine))
    assert (len(scenario.machine.online), len(scenario.machine.nodes)) == (96, 8)
    simulation = simulation_of(scenario)
    simulation.advance(45)
    assert len(simulation.cpus_of("realtime")) == 40
    simulation.advance(scenario.ends)
    assert simulation.broken == []
