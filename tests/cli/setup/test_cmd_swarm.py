"""`swarm advertise` writes what dockerd advertises, keeps all else, and names the next step; doctor compares it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import trio

from sidecar.__main__ import main
from sidecar.cli.setup import cmd_swarm, dockerd_process
from sidecar.cli.setup.cmd_swarm import Advertised, advertise, advertised_in, check_swarm, node_capacity, rendered
from sidecar.cli.setup.dockerd_process import Dockerd
from sidecar.config.config import Config, load
from sidecar.decide.facts import EngineInfo
from sidecar.decide.world import replace
from sidecar.failures import ConfigError
from sidecar.host.cgroup.host_kernel import HostKernel
from sidecar.host.install.daemon_json import read_daemon_json
from state.cpuset import CPUSet
from state.model import State
from state.topology import uniform
from tests.api.apirig import Rig
from tests.cli.worlds import ENGINE, container
from tests.support.decide.contacts import with_info
from tests.support.decide.stories import Story
from tests.support.schemas import misfits

STATIC = load(None, {}, {"policy": "static", "reserved": "0"})
NODE = replace(ENGINE, in_swarm=True, advertised=3)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "daemon.json"


def asked(path: Path, *words: str) -> list[str]:
    flags = ["--policy", "static", "--reserved", "0", "--state-dir", str(path.parent / "state")]
    return ["swarm", "advertise", "--daemon-json", str(path), *flags, *words]


def written(path: Path) -> Any:
    return json.loads(path.read_text())


def of(path: Path, count: int | None, kind: str = "exclusive-cpu", **more: Any) -> Advertised:
    return advertise(read_daemon_json(str(path)), kind, count, **more)


@pytest.mark.parametrize(
    ("before", "count", "after"),
    [
        ({}, 15, {"node-generic-resources": ["exclusive-cpu=15"]}),
        (
            {"log-level": "warn", "node-generic-resources": ["gpu=a", "exclusive-cpu=3"]},
            15,
            {"log-level": "warn", "node-generic-resources": ["gpu=a", "exclusive-cpu=15"]},
        ),
        (
            {"node-generic-resources": ["Exclusive-CPU=3,ssd=2"]},
            1,
            {"node-generic-resources": ["ssd=2", "exclusive-cpu=1"]},
        ),
        (
            {"node-generic-resources": ["exclusive-cpus=9"]},
            1,
            {"node-generic-resources": ["exclusive-cpus=9", "exclusive-cpu=1"]},
        ),
        ({"debug": True, "node-generic-resources": ["exclusive-cpu=3"]}, None, {"debug": True}),
        ({"node-generic-resources": ["gpu=a", "exclusive-cpu=3"]}, None, {"node-generic-resources": ["gpu=a"]}),
    ],
)
def test_one_resource_changes_and_all_else_stays(
    path: Path, before: dict[str, Any], count: int | None, after: dict[str, Any]
) -> None:
    """The former file is kept beside it."""
    path.write_text(json.dumps(before))
    made = of(path, count)
    assert written(path) == after
    assert made.changed
    assert made.needs_restart
    if count is not None:
        assert json.loads(Path(made.backup).read_text()) == before


def test_a_second_time_nothing_is_written(path: Path) -> None:
    """And dockerd need not be restarted, unless it is known not to have read it yet."""
    assert of(path, 3).needs_restart
    before = path.stat().st_mtime_ns
    assert not of(path, 3).changed
    assert not of(path, 3).needs_restart
    assert not of(path, 3, engine=NODE).needs_restart
    assert of(path, 3, engine=replace(NODE, advertised=1)).needs_restart
    assert of(path, 3, engine=replace(NODE, advertised=None)).needs_restart
    assert path.stat().st_mtime_ns == before


def test_what_is_advertised_is_removed_again(path: Path) -> None:
    """A file without other keys is removed; without a file, nothing happens."""
    of(path, 3)
    made = of(path, None)
    assert (made.before, made.cpus, made.changed, path.exists()) == (3, None, True, False)
    assert not of(path, None).changed


def test_a_dry_run_writes_nothing(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And prints what it would write."""
    assert main(asked(path, "--dry-run")) == 0
    assert not path.exists()
    told = capsys.readouterr().out
    assert "it would advertise exclusive-cpu=" in told
    assert "restart" not in told


def test_the_command_counts_by_the_configuration_where_no_daemon_runs(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All CPUs of this machine but the reserved one."""
    path.write_text('{"log-level": "warn"}')
    assert main(asked(path, "--json")) == 0
    shown = capsys.readouterr().out
    assert misfits("swarm", shown) == []
    told = json.loads(shown)
    expected = node_capacity(STATIC, HostKernel().topology(), State())
    assert (told["cpus"], told["before"], told["source"]) == (expected, None, "the configuration (no file)")
    assert written(path) == {"log-level": "warn", "node-generic-resources": [f"exclusive-cpu={expected}"]}
    assert main(asked(path)) == 0
    shown = capsys.readouterr().out
    assert "it is unchanged" in shown
    assert ("warning: " in shown) is bool(told["warnings"])
    assert main(asked(path, "--remove")) == 0
    assert written(path) == {"log-level": "warn"}


@pytest.mark.trio
async def test_the_command_believes_the_running_daemon(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It knows the containers pinned by hand, and whether its engine needs a restart."""
    story = Story(uniform(cores=8))
    story.arrive("by hand", cpuset="6-7")
    story.settle()
    rig = Rig(tmp_path, story)
    rig.board.post(with_info(story.world, replace(NODE, advertised=5)))
    monkeypatch.setattr(cmd_swarm, "is_daemon_running", lambda state_dir: True)
    path = tmp_path / "daemon.json"
    path.write_text('{"node-generic-resources": ["exclusive-cpu=5"]}')
    words = ["swarm", "advertise", "--state-dir", str(tmp_path), "--daemon-json", str(path)]
    async with rig.serving():
        assert await trio.to_thread.run_sync(main, words) == 0
        told = capsys.readouterr().out.splitlines()
    assert told == [
        f"this node can grant 5 exclusive CPUs by the daemon on {tmp_path}; {path} advertised exclusive-cpu=5",
        "it is unchanged",
    ]


def test_what_is_to_be_done_next_is_said(path: Path) -> None:
    """The number, its file, and that the node must be drained and dockerd restarted."""
    lines = rendered(of(path, 15))
    assert lines[:2] == [
        f"this node can grant 15 exclusive CPUs by ; {path} advertised nothing",
        "it advertises exclusive-cpu=15 now",
    ]
    assert [line.strip() for line in lines if line.startswith("  ")] == [
        "docker node update --availability drain NODE",
        "systemctl restart docker",
        "docker node update --availability active NODE",
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--policy", "none"), "has the policy none, which grants nothing: set policy and reserved first"),
        (("--shared-min", "8191"), "make it smaller"),
    ],
)
def test_what_cannot_be_advertised_is_said(
    path: Path, words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """And nothing is written."""
    given = asked(path)
    if words[0] in given:
        at = given.index(words[0])
        del given[at : at + 2]
    assert main([*given, *words]) == 1
    assert message in capsys.readouterr().err
    assert not path.exists()


@pytest.mark.parametrize("words", [("--kind", "a=b"), ("--kind", "../up")])
def test_a_kind_that_is_no_name_is_wrong_usage(
    path: Path, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(asked(path, *words))
    assert caught.value.code == 2
    assert f"--kind is {words[1]!r}: use letters, digits, _ . -" in capsys.readouterr().err
    assert not path.exists()


def test_a_file_that_says_something_else_there_is_left_alone(path: Path) -> None:
    """It is a mistake for its author to correct."""
    path.write_text('{"node-generic-resources": {"exclusive-cpu": 3}}')
    with pytest.raises(ConfigError, match="is not a list of strings: nothing was changed; correct it first"):
        of(path, 3)


def test_a_flag_of_dockerd_that_would_keep_it_from_starting_is_said(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """dockerd refuses a key that is set in both places."""
    monkeypatch.setattr(
        dockerd_process, "find_dockerd", lambda: Dockerd(1, ("--debug", "--node-generic-resource=gpu=a"))
    )
    with pytest.raises(ConfigError, match=r"would not start with node-generic-resources in .* remove that flag first"):
        of(path, 3)
    assert not path.exists()


def test_names_of_single_resources_are_no_count(path: Path) -> None:
    """`exclusive-cpu=c0` is one of them, by name."""
    path.write_text('{"node-generic-resources": ["exclusive-cpu=c0", "ssd=4"]}')
    found = read_daemon_json(str(path))
    assert (advertised_in(found), advertised_in(found, "ssd")) == (None, 4)


@pytest.mark.parametrize(
    ("config", "engine", "count", "said"),
    [
        (STATIC, NODE, 3, [("ok", "exclusive-cpu=3 is advertised, and can be granted")]),
        (
            STATIC,
            NODE,
            2,
            [("warn", "dockerd advertises exclusive-cpu=3 to Swarm's scheduler, but this node can grant 2")],
        ),
        (
            STATIC,
            replace(NODE, advertised=None),
            3,
            [
                (
                    "warn",
                    "this node advertises no exclusive-cpu: Swarm's scheduler places exclusive tasks without counting",
                )
            ],
        ),
        (STATIC, replace(NODE, in_swarm=False), 2, []),
        (STATIC, None, 2, []),
        (STATIC, NODE, None, []),
        (Config(), NODE, 2, []),
    ],
)
def test_doctor_compares_what_is_advertised_with_what_can_be_given(
    config: Config, engine: EngineInfo | None, count: int | None, said: list[tuple[str, str]]
) -> None:
    """On nodes of a swarm, and where CPUs can be granted at all."""
    findings = list(check_swarm(config, engine, count))
    assert [(each.verdict.value, each.says) for each in findings] == said
    assert all(each.question == "swarm" and bool(each.cure) == (each.verdict == "warn") for each in findings)


def test_a_node_s_capacity_counts_strangers_and_not_containers_pinned_here() -> None:
    """The State tells one from the other."""
    machine = uniform(cores=8)
    pinned = container("pinned", cpuset="5-6", effective=CPUSet.parse("5-6"))
    assert node_capacity(STATIC, machine, State()) == 7
    assert node_capacity(STATIC, machine, State(), [pinned]) == 5
    story = Story(machine)
    real = story.arrive("ours", 2)
    story.settle()
    assert node_capacity(STATIC, machine, story.world.state, [real.view()]) == 7
