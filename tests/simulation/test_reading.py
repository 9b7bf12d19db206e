"""A scenario's file is read strictly: every error names the line and what would be right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.config.toml_text import TOMLFile, TOMLText
from sidecar.decide.settings import PolicyName
from sidecar.failures import ConfigError, SidecarError
from sidecar.simulation.busy_host import ScenarioError
from sidecar.simulation.scenario import Do, simulation_of
from sidecar.simulation.scenario_file import read_scenario, scenario_in, scenario_of
from sidecar.words.misread import sentences
from state.cpuset import CPUSet
from state.errors import StateError
from tests.docs.pages import Block, blocks_in

WHOLE = """
title = "All of it"
ends = "2m"

[machine]
sockets = 2
nodes = 2
cores = 6
threads = 2
caches = 3

[settings]
policy = "dynamic"
reserved = "0,24"
load_period = "1s"

[pace]
apply = "20ms"

[[container]]
name = "web"
labels = { "cpuset.exclusive" = "2", "cpuset.max" = "8" }
cpus = 2
follows = true
moves_in = "50ms"
demand = [{ at = "1s", cpus = 2 }, { at = 10, cpus = 0.5 }]

[[container]]
name = "pinned"
labels.cpuset.exclusive = "1"
cpuset = "3"

[[event]]
at = "20s"
do = "resize"
container = "web"
cpus = 4

[[event]]
at = "500ms"
do = "run"
container = "web"

[[event]]
at = 30
do = "offline"
cpus = "5-6"
"""


def test_all_that_a_scenario_may_say_is_read() -> None:
    found = scenario_of(WHOLE)
    assert (found.title, found.ends, found.pace.apply, found.pace.start) == ("All of it", 120.0, 0.02, 0.2)
    assert (found.config.policy, found.config.load_period_seconds) == (PolicyName.DYNAMIC, 1.0)
    machine = found.machine
    levels = (machine.packages, machine.nodes, machine.caches, machine.cores, machine.online)
    assert [len(level) for level in levels] == [2, 4, 12, 24, 48]
    assert machine.caches[1].cpus == CPUSet.parse("2-3,26-27")
    web, pinned = found.containers
    assert (web.cpus, web.follows, web.moves_in) == (2.0, True, 0.05)
    assert [web.demand_at(time) for time in (0, 1, 9.9, 10, 99)] == [0.0, 2.0, 2.0, 0.5, 0.5]
    assert (pinned.labels, pinned.cpuset, pinned.moves_in) == ({"cpuset.exclusive": "1"}, "3", None)
    assert [(event.at, event.do) for event in found.events] == [(20.0, Do.RESIZE), (0.5, Do.RUN), (30.0, Do.OFFLINE)]
    assert (found.events[0].size, found.events[2].cpus) == (4, CPUSet.of(5, 6))


def test_without_an_end_it_goes_on_for_a_while() -> None:
    assert scenario_of(WHOLE.replace('ends = "2m"', "")).ends == 40.0


HEAD = '[machine]\ncores = 4\n[settings]\npolicy = "dynamic"\nreserved = "count:1"\n'
CONTAINER = f'{HEAD}[[container]]\nname = "web"\n'
EVENT = f'{CONTAINER}[[event]]\nat = "1s"\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = ", "x.toml, line 1: the scenario is not TOML: "),
        ("", "x.toml, line 1: the machine is missing: write [machine] with cores = 8"),
        ("[machine]\ncors = 4\n", "x.toml, line 2: unknown key 'cors'; did you mean 'cores'?"),
        ("titlle = 'a'\n[machine]\ncores = 4\n", "x.toml, line 1: unknown key 'titlle'; did you mean 'title'?"),
        ("[machine]\ncores = 0\n", "x.toml, line 2: cores is 0: write a whole number from 1 to "),
        ("[machine]\ncores = 4\ncaches = 3\n", "x.toml, line 3: 4 cores of a node cannot share 3 caches evenly"),
        ("[machine]\nsockets = 64\ncores = 8000\n", "line 3: this machine has 512000 CPUs: 8191 is the most"),
        ("[machine]\nfile = 'nowhere'\n", "x.toml, line 2: the record nowhere cannot be read: "),
        (
            "[machine]\ncores = 1\nfile = 'nowhere'\n",
            "x.toml, line 3: write file, or sockets, nodes, cores and threads",
        ),
        ("machine = 4\n", "x.toml, line 1: machine is no table: write it as [machine]"),
        ("[machine]\ncores = 4\n[settings]\npolcy = 'static'\n", "x.toml, line 4: unknown key 'polcy'; did you mean"),
        ("[machine]\ncores = 4\n[settings]\ngrace = '5h'\n", "x.toml, line 4: grace is '5h': write a duration"),
        ("[machine]\ncores = 4\n[settings]\nengine = 'auto'\n", "line 4: engine means nothing in a simulation"),
        ("[machine]\ncores = 4\n[settings]\npolicy = 'dynamic'\n", "line 4: the policy dynamic needs reserved CPUs"),
        (HEAD.replace("1", "9"), "x.toml, line 5: reserved takes 9 of this machine's 4 CPUs"),
        (f"{HEAD}[pace]\nstart = 'slow'\n", "x.toml, line 7: start is 'slow': write a duration from 0s to 168h"),
        (f"{HEAD}[container]\nname = 'a'\n", "line 6: container is no list of tables: write each as [[container]]"),
        (f"{HEAD}[[container]]\n", 'x.toml, line 6: name is missing: write name = "web"'),
        (f"{CONTAINER}[[container]]\nname = 'web'\n", "x.toml, line 9: there are two containers 'web'"),
        (f"{HEAD}[[containers]]\nname = 'web'\n", "line 6: unknown section 'containers'; did you mean 'container'?"),
        (f"{CONTAINER}followws = true\n", "x.toml, line 8: unknown key 'followws'; did you mean 'follows'?"),
        (f"{CONTAINER}follows = 1\n", "x.toml, line 8: follows is 1: write true or false"),
        (f"{CONTAINER}moves_in = '1s'\n", "x.toml, line 8: only one that follows moves: add follows = true"),
        (
            f"{CONTAINER}follows = true\nmoves_in = 'soon'\n",
            "line 9: moves_in is 'soon': write a duration like 50ms, or",
        ),
        (f"{CONTAINER}labels = {{ a = 1 }}\n", "x.toml, line 8: labels is {a = 1}: write labels with texts"),
        (f"{CONTAINER}cpuset = 'all'\n", "x.toml, line 8: cpuset is 'all': write a CPU list"),
        (f"{CONTAINER}demand = 'much'\n", "x.toml, line 8: demand is 'much': write a number of CPUs, or a list"),
        (
            f"{CONTAINER}demand = [{{ at = 5, cpus = 1 }}, {{ at = 2, cpus = 1 }}]\n",
            "line 8: demand is [{at = 5, cpus = 1}, {at = 2, cpus = 1}]: put its times in order",
        ),
        (f"{EVENT}do = 'rum'\ncontainer = 'web'\n", "x.toml, line 10: do is 'rum'; did you mean 'run'?"),
        (f"{EVENT}do = 'run'\ncontainer = 'wep'\n", "x.toml, line 11: container is 'wep'; did you mean 'web'?"),
        (f"{EVENT}do = 'run'\n", 'x.toml, line 8: container is missing: write container = "web"'),
        (f"{EVENT}do = 'crash'\ncontainer = 'web'\n", "x.toml, line 11: unknown key 'container'"),
        (f"{EVENT}do = 'resize'\ncontainer = 'web'\ncpus = 'four'\n", "line 12: cpus is 'four': write a whole number"),
        (f"{EVENT}do = 'offline'\ncpus = 4\n", "x.toml, line 11: cpus is 4: write a CPU list"),
        (f"{CONTAINER}[[event]]\ndo = 'crash'\n", 'x.toml, line 8: at is missing: write at = "10s"'),
        (
            "[machine]\ncores = 4\nisolated = '3-4'\n",
            "line 3: isolated is '3-4', but 4 is not on this machine",
        ),
        (f"{HEAD}listen = '127.0.0.1:9413'\n", "line 6: listen means nothing in a simulation"),
        (f"{HEAD}[[settings.rule]]\nexclusive = 1\n", "line 6: match is missing: write match = { name ="),
        (
            f"{HEAD}[[settings.rule]]\nmatch = {{ name = 'a' }}\nexclusiv = 1\n",
            "line 8: unknown key 'exclusiv'; did you mean",
        ),
        (f"{HEAD}rule = 1\n", "line 6: settings.rule is no list of tables: write each as [[settings.rule]]"),
        (f"{EVENT}do = 'reloud'\n", "line 10: do is 'reloud'; did you mean 'reload'?"),
        (f"{EVENT}do = 'reload'\n", "x.toml, line 8: settings is missing: write settings = {"),
        (f"{EVENT}do = 'reload'\nsettings = 1\n", "x.toml, line 11: settings is no table: write it as [settings]"),
        (
            f"{EVENT}do = 'reload'\nsettings = {{ polcy = 'static' }}\n",
            "line 11: unknown key 'polcy'; did you mean 'policy'?",
        ),
        (f"{EVENT}do = 'reload'\n[event.settings]\npolicy = 'statik'\n", "line 12: policy is 'statik'; did you mean"),
        (
            f"{EVENT}do = 'reload'\n[event.settings]\ntenants_may = ['pin']\ntenants.may = ['priority']\n",
            "x.toml, line 13: tenants_may is given twice, first in x.toml, line 12: choose one",
        ),
        (f"{EVENT}do = 'reload'\nsettings.linger = 'soon'\n", "x.toml, line 11: linger is 'soon': write a duration"),
        (
            f"{EVENT}do = 'reload'\nsettings = {{ reserved = '7' }}\n",
            "line 11: reserved is 7, but 7 is not on this machine",
        ),
        (
            f"{EVENT}do = 'reload'\nsettings = {{ load_period = '1s' }}\n",
            "line 11: load_period takes effect only after a restart",
        ),
        (f"{EVENT}do = 'reload'\nsettings = {{ engine = 'auto' }}\n", "line 11: engine means nothing in a simulation"),
        (
            f"{EVENT}do = 'reload'\n[[event.settings.rule]]\nmatch = {{ nam = 'a' }}\n",
            "line 11: unknown key 'match.nam'",
        ),
        (f"{EVENT}do = 'crash'\nsettings = {{ reserved = '0' }}\n", "x.toml, line 11: unknown key 'settings'"),
        (f"{EVENT}do = 'release'\n", 'x.toml, line 8: container is missing: write container = "web"'),
        (f"{CONTAINER}[[event]]\ndo = 'crash'\nat = '8 days'\n", "line 10: at is '8 days': write a duration"),
    ],
)
def test_what_is_not_understood_is_said_with_its_line(text: str, message: str) -> None:
    with pytest.raises((SidecarError, StateError)) as caught:
        scenario_of(text, "x.toml")
    assert message in str(caught.value)


def test_all_mistakes_of_a_scenario_are_told_at_once() -> None:
    """Each with its line; values that depend on a wrong one are not judged."""
    text = """titlle = "x"
[machine]
cors = 4
[settings]
policy = "dynamik"
engine = "auto"
[pace]
start = "slow"
[[container]]
name = "web"
cpus = "many"
[[container]]
name = "web"
[[event]]
at = "soon"
do = "rum"
container = "wep"
[[event]]
at = "1s"
do = "run"
container = "wep"
"""
    with pytest.raises(ScenarioError) as caught:
        scenario_of(text, "x.toml")
    assert [told.removeprefix("x.toml, ") for told in caught.value.sentences] == [
        "line 1: unknown key 'titlle'; did you mean 'title'?",
        "line 3: unknown key 'cors'; did you mean 'cores'?",
        "line 5: policy is 'dynamik'; did you mean 'dynamic'?",
        "line 6: engine means nothing in a simulation: leave it out",
        "line 8: start is 'slow': write a duration from 0s to 168h, in ms, s, m or h, like 10s",
        "line 11: cpus is 'many': write a number of CPUs, like 2 or 0.5",
        "line 13: there are two containers 'web'",
        "line 15: at is 'soon': write a duration from 0s to 168h, in ms, s, m or h, like 10s",
        "line 16: do is 'rum'; did you mean 'run'?",
        "line 21: container is 'wep'; did you mean 'web'?",
    ]


def test_reloads_add_up_in_the_order_of_time() -> None:
    """Each leaves alone what it does not name; what contradicts the last one is a mistake at its line."""
    first = "[[event]]\nat = '9s'\ndo = 'reload'\nsettings = { policy = 'static', linger = '1s' }\n"
    rules = "[[event]]\nat = '5s'\ndo = 'reload'\n[event.settings]\nshared_min = 2\n"
    rules += "[[event.settings.rule]]\nmatch = { name = 'a*' }\nexclusive = 1\n"
    none = "[[event]]\nat = '10s'\ndo = 'reload'\nsettings = { rule = [] }\n"
    found = {event.at: event for event in scenario_of(f"{CONTAINER}{first}{rules}{none}").events}
    policies = [each.config.policy if each.config else None for _, each in sorted(found.items())]
    assert policies == [PolicyName.DYNAMIC, PolicyName.STATIC, PolicyName.STATIC]
    last = found[10.0].config
    assert last is not None
    assert (last.shared_min, last.linger_seconds, last.reserved_count, last.rules) == (2, 1.0, 1, ())
    assert found[5.0].changes == (("shared_min", "2"), ("rule", "1"))
    with pytest.raises(ScenarioError) as caught:
        scenario_of(f"{CONTAINER}{rules.replace('shared_min = 2', 'load_low = 0.9')}", "x.toml")
    told = "x.toml, line 12: load_low is 0.9 and load_high 0.8: make load_low the smaller one"
    assert caught.value.sentences == (told,)


def test_a_reload_is_told_what_contradicts_itself_and_what_the_machine_cannot_have() -> None:
    with pytest.raises(ScenarioError) as caught:
        scenario_of(HEAD + reload_at(1, "shared_min = 4, load_low = 0.9"), "x.toml")
    assert [told.partition(":")[2].split()[0] for told in caught.value.sentences] == ["load_low", "shared_min"]


def reload_at(seconds: int, settings: str) -> str:
    return f"[[event]]\nat = {seconds}\ndo = 'reload'\nsettings = {{ {settings} }}\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            HEAD + reload_at(1, "shared_min = 4") + reload_at(2, "linger = '1s'"),
            "line 9: shared_min is 4, and this machine has 4 CPUs: make it smaller",
        ),
        (
            HEAD.replace("1", "4") + reload_at(1, "linger = '1s'") + reload_at(2, "linger = '2s'"),
            "line 5: reserved takes 4 of this machine's 4 CPUs: leave some to be given exclusively",
        ),
        (
            HEAD.replace("1", "4").replace("dynamic", "none")
            + reload_at(1, "policy = 'static'")
            + reload_at(2, "policy = 'none'")
            + reload_at(3, "policy = 'static'"),
            "line 5: reserved takes 4 of this machine's 4 CPUs: leave some to be given exclusively",
        ),
    ],
)
def test_a_mistake_that_later_reloads_leave_in_force_is_told_once(text: str, told: str) -> None:
    """At the line that brought it."""
    with pytest.raises(ScenarioError) as caught:
        scenario_of(text, "x.toml")
    assert caught.value.sentences == (f"x.toml, {told}",)


names = st.sampled_from(["machine", "settings", "pace", "container", "event", "title", "ends", "x"])
keys = st.sampled_from(
    ["cores", "file", "caches", "policy", "reserved", "name", "labels", "demand", "at", "do", "cpus", "start"]
)
plain = st.booleans() | st.integers(-5, 20) | st.sampled_from(["web", "run", "offline", "1s", "0-3", "dynamic", ""])
tables = st.dictionaries(keys, plain | st.lists(plain, max_size=2), max_size=4)


@given(st.dictionaries(names, plain | tables | st.lists(tables | plain, max_size=3), max_size=6))
def test_any_table_is_a_scenario_or_all_that_is_wrong_with_it(table: dict[str, Any]) -> None:
    """No exception, and never a mistake without a sentence."""
    read = read_scenario(TOMLFile(TOMLText("x.toml", ""), table))
    if isinstance(read, tuple):
        assert read
        assert all(told.startswith("x.toml, line 1: ") for told in sentences(read))


def test_a_file_that_is_no_scenario_is_told(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="cannot be read: there is no such file"):
        scenario_in(str(tmp_path / "none"))
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ScenarioError, match="is not text"):
        scenario_in(str(tmp_path / "binary"))
    (tmp_path / "large").write_bytes(b"#" * (1024 * 1024 + 1))
    with pytest.raises(ScenarioError, match="it is longer than 1048576 bytes"):
        scenario_in(str(tmp_path / "large"))


def test_another_machine_takes_the_place_of_the_scenarios(tmp_path: Path) -> None:
    """A relative path starts at the scenario's folder; the requested machine takes precedence, and must have all
    CPUs.
    """
    base = "devices/system/cpu"
    lines = [f"{base}/online: 0-3", *(f"{base}/cpu{n}/topology/core_cpus_list: {n}" for n in range(4))]
    (tmp_path / "machine.txt").write_text("".join(f"{line}\n" for line in lines))
    file = tmp_path / "x.toml"
    file.write_text("[machine]\nfile = 'machine.txt'\n[settings]\npolicy = 'static'\nreserved = '0'\n")
    assert scenario_in(str(file)).machine.online == CPUSet.parse("0-3")
    file.write_text(WHOLE)
    with pytest.raises(ConfigError, match="reserved is 0,24, but 24 is not on this machine"):
        scenario_in(str(file), str(tmp_path / "machine.txt"))


@pytest.mark.parametrize("block", blocks_in("toml", word="scenario"), ids=str)
def test_a_scenario_of_the_pages_can_be_played(block: Block) -> None:
    """To its end, and no law is broken."""
    scenario = scenario_of(block.text)
    simulation = simulation_of(scenario)
    simulation.advance(scenario.ends)
    assert simulation.broken == []
    assert len(simulation.log) > 10


def test_a_name_that_is_there_twice_is_listed_once() -> None:
    """Beside the mistake that there are two."""
    twice = '[[container]]\nname = "a"\n'
    with pytest.raises(SidecarError) as caught:
        scenario_of(f'[machine]\ncores = 2\n{twice}{twice}[[event]]\nat = 1\ndo = "stop"\ncontainer = "zz"\n')
    assert "container is 'zz': the containers are a" in str(caught.value)
    assert "a, a" not in str(caught.value)
