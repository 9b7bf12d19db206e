"""`plan` and the detailed `explain`: what a request would get, on any machine, next to the running containers."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from sidecar.__main__ import main
from sidecar.cli import cmd_explain, cmd_plan
from sidecar.commit.state_lock import hold_lock
from sidecar.decide.reconcile import begin
from sidecar.decide.settings import IsolatedRule, PolicyName, Settings
from sidecar.decide.world import replace
from sidecar.status.describe import status_of
from sidecar.status.status_file import write_status
from sidecar.status.status_lease import renew_status_lease
from state.checkpoint import CheckpointFile
from state.cpuset import CPUSet
from state.demand import Demand
from state.model import State
from state.topology import Topology, uniform
from tests.cli.worlds import STATIC, container, world
from tests.support.keys import docker

MACHINE = uniform(packages=2, cores=4, threads=2)
"""Nodes 0 (0-3,8-11) and 1 (4-7,12-15)."""


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> Topology:
    """Make this host the machine."""
    for command in (cmd_plan, cmd_explain):
        monkeypatch.setattr(command, "read_topology", lambda: MACHINE)
    return MACHINE


def state_of(directory: Path, *, later: Settings = STATIC, settings: Settings = STATIC) -> Path:
    """Return a state directory: web holds 2 CPUs, db is pinned by hand; the status is of the settings `later`."""
    made = world(MACHINE, container("web", exclusive=2), container("db", cpuset="6"), settings=settings)
    books = CheckpointFile(directory)
    books.save(made.state)
    books.close()
    write_status(directory, status_of(replace(made, settings=later)))
    return directory


def test_a_plan_beside_what_is_running(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The CPUs, how they lie, what is free afterwards, the picture, and what its marks mean."""
    state_of(tmp_path)
    assert main(["plan", "--cpus", "4", "--state-dir", str(tmp_path), "--reserved", "0"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "A  4 CPUs: 2-3,10-11 (2 whole cores, socket 0)",
        "free afterwards: 8 (4-5,7-8,12-15)",
        "",
        "socket 0   [ 0r  8.] [ 1x  9x] [ 2A 10A] [ 3A 11A]",
        "socket 1   [ 4. 12.] [ 5. 13.] [ 6# 14.] [ 7. 15.]",
        "",
        ". shared",
        "r reserved, shared",
        "x held by web",
        "# pinned by hand: db",
    ]


def test_a_plan_counts_a_pin_that_tenants_have_no_right_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The daemon grants its CPUs to no other container while it runs, so none is promised them."""
    plain = replace(STATIC, may=())
    state_of(tmp_path, settings=plain, later=plain)
    assert main(["plan", "--cpus", "13", "--state-dir", str(tmp_path), "--reserved", "0"]) == 1
    out = capsys.readouterr().out
    assert "12 free" in out
    assert "1 in use by containers pinned by hand: db" in out
    assert main(["plan", "--cpus", "12", "--state-dir", str(tmp_path), "--reserved", "0"]) == 0
    out = capsys.readouterr().out
    assert "[ 6# 14A]" in out
    assert "# pinned by hand: db" in out


def test_the_map_shows_free_isolated_cpus_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are shared only where the configuration ignores that they are isolated."""
    monkeypatch.setattr(cmd_plan, "read_topology", lambda: replace(MACHINE, isolated=CPUSet.of(7, 15)))
    args = ["plan", "--empty", "--state-dir", str(tmp_path), "--reserved", "0", "--cpus", "1"]
    assert main([*args, "--isolated", "prefer"]) == 0
    out = capsys.readouterr().out
    assert "[ 7A 15-]" in out
    assert "- isolated, free" in out
    assert main(args) == 0
    assert "[ 7. 15.]" in capsys.readouterr().out


def test_requests_are_answered_one_after_the_other_and_a_refusal_says_what_would_fit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The code is 1, for scripts."""
    args = ["plan", "--empty", "--state-dir", str(tmp_path), "--reserved", "0", "--cpus", "10", "--cpus", "6"]
    assert main(args) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "A  10 CPUs: 1,4-7,9,12-15 (5 whole cores, sockets 0, 1)"
    assert lines[1].startswith("B  6 CPUs: refused: asked for 6 exclusive CPUs, 5 free: 2-3,8,10-11 (1 reserved: 0; ")
    assert lines[1].endswith("; 5 would fit")


def test_a_refusal_is_of_its_own_turn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What a later request gets was free then."""
    args = ["plan", "--empty", "--state-dir", str(tmp_path), "--reserved", "0"]
    assert main([*args, "--cpus", "10", "--cpus", "6", "--cpus", "3"]) == 1
    refused = capsys.readouterr().out.splitlines()[1]
    assert refused.startswith("B  6 CPUs: refused: asked for 6 exclusive CPUs, 5 free: 2-3,8,10-11 (1 reserved: 0; ")
    assert refused.endswith("10 held by request 1); 5 would fit")


def test_a_plan_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With a note if nothing is recorded beside which it could be made."""
    args = ["plan", "--json", "--cpus", "2", "--cpus", "99", "--state-dir", str(tmp_path), "--reserved", "0"]
    assert main(args) == 1
    found = json.loads(capsys.readouterr().out)
    said = f"there is no recorded state in {tmp_path}: this is planned as if nothing were running"
    assert found["notes"] == [said]
    assert found["answers"][0] == {
        "asked": 2,
        "cpus": "1,9",
        "lie": "1 whole core, socket 0",
        "code": "",
        "reason": "",
        "warnings": [],
    }
    assert (found["answers"][1]["asked"], found["answers"][1]["code"]) == (99, "not-enough")
    assert found["reserved"] == "0"


def test_options_labels_and_devices_are_those_of_a_container(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Flags of the configuration for the node, labels for the request."""
    args = ["plan", "--json", "--state-dir", str(tmp_path), "--reserved", "count:1", "--cpus", "4"]
    assert main([*args, "--options", "distribute-cpus-across-numa"]) == 0
    assert json.loads(capsys.readouterr().out)["answers"][0]["cpus"] == "4-5,12-13"
    assert main([*args, "--label", "cpuset.options=distribute-cpus-across-cores", "--near", "eth7"]) == 0
    [answer] = json.loads(capsys.readouterr().out)["answers"]
    assert len(MACHINE.whole_cores(CPUSet.parse(answer["cpus"]))) == 8
    assert answer["warnings"] == ["cpuset.near is 'eth7', and this machine has no such device"]


@pytest.mark.parametrize(
    "label", ["com.docker.compose.project=x", "compose.exclusive=1", "cpu.numa=1", "numax=2", "team="]
)
def test_a_label_of_another_program_is_one(label: str, tmp_path: Path) -> None:
    """Patterns of `unmanaged` may name them."""
    args = ["plan", "--json", "--state-dir", str(tmp_path), "--reserved", "count:1", "--cpus", "1"]
    assert main([*args, "--label", label]) == 0


@pytest.mark.parametrize(
    ("label", "told"),
    [
        ("nonsense", "--label is 'nonsense': write LABEL=VALUE, like cpuset.options=performance"),
        ("=1", "--label is '=1': write LABEL=VALUE"),
        ("numa=single", "--label: unknown label 'numa'; did you mean 'cpuset.numa'?"),
        ("cpuset.nuna=single", "--label: unknown label 'cpuset.nuna'; did you mean 'cpuset.numa'?"),
        ("cpusets.numa=single", "--label: unknown label 'cpusets.numa'; did you mean 'cpuset.numa'?"),
        ("cpuset-exclusive=1", "--label: unknown label 'cpuset-exclusive'; did you mean 'cpuset.exclusive'?"),
    ],
)
def test_a_label_that_is_none_is_wrong_usage(label: str, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One of the sidecar's without its prefix, too: a container with that label would get nothing, and no message."""
    with pytest.raises(SystemExit) as caught:
        main(["plan", "--cpus", "1", "--label", label])
    assert caught.value.code == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("cpus", ["0", "-1", "1.5", "many", "99999", ""])
def test_a_number_of_cpus_that_is_none_is_wrong_usage(cpus: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["plan", f"--cpus={cpus}"])
    assert caught.value.code == 2
    assert f"--cpus is '{cpus}': write a whole number from 1 to 8191" in capsys.readouterr().err


def test_a_label_that_leaves_it_alone_asks_for_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If tenants may opt out."""
    monkeypatch.setenv("CPUSET_SIDECAR_TENANTS_MAY", "opt-out")
    args = ["plan", "--cpus", "2", "--label", "cpuset.manage=off", "--state-dir", str(tmp_path), "--reserved", "0"]
    assert main(args) == 1
    assert "A  2 CPUs: none: it asks for no exclusive CPUs" in capsys.readouterr().out


def test_a_recorded_machine_is_planned_from_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With one CPU reserved if the configuration sets none, and a remark on that."""
    record = tmp_path / "machine.txt"
    base = "devices/system/cpu"
    lines = [f"{base}/online: 0-3", *(f"{base}/cpu{n}/topology/core_cpus_list: {n % 2},{n % 2 + 2}" for n in range(4))]
    record.write_text("".join(f"{line}\n" for line in lines))
    assert main(["plan", "--machine", str(record), "--cpus", "2", "--state-dir", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "the configuration reserves no CPU: 1 reserved CPU is assumed" in out
    assert "A  2 CPUs: 1,3 (1 whole core)" in out


def test_books_that_cannot_be_read_are_told_with_the_way_around(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "checkpoint.json").write_text("?")
    assert main(["plan", "--cpus", "1", "--state-dir", str(tmp_path)]) == 1
    assert "--empty plans plan as if nothing were running" in capsys.readouterr().err


def test_explain_says_how_cpus_lie(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Placed again it would get the same, so there is no remark on that."""
    state_of(tmp_path)
    with hold_lock(str(tmp_path)):
        renew_status_lease(tmp_path, time.time())
        assert main(["explain", "web", "--state-dir", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "  They are 1 whole core, socket 0."


def test_explain_says_what_changed_options_would_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Grants stay; nothing has to be deleted."""
    state_of(tmp_path, later=replace(STATIC, options=("distribute-cpus-across-cores",)))
    with hold_lock(str(tmp_path)):
        renew_status_lease(tmp_path, time.time())
        assert main(["explain", "web", "--state-dir", str(tmp_path)]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == "  Placed again now, it would get 1-2 (2 single threads, socket 0); it keeps what it has."


def test_explain_says_where_a_request_would_be_refused_now(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state_of(tmp_path, later=replace(STATIC, isolated=IsolatedRule.ONLY))
    with hold_lock(str(tmp_path)):
        renew_status_lease(tmp_path, time.time())
        assert main(["explain", "--json", "web", "--state-dir", str(tmp_path)]) == 0
    explanation = json.loads(capsys.readouterr().out)["explanation"]
    said = "Placed again now, it would be refused: asked for 2 exclusive CPUs, 0 free; isolated CPUs only (isolated)"
    assert explanation[-1].startswith(said)


def test_under_dynamic_a_plan_counts_what_others_have_above_their_floors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A request that static would refuse is served from elastic CPUs."""
    demand = Demand(container=docker("a" * 64), name="batch", cpus=14, min_cpus=2, max_cpus=14)
    settings = Settings(policy=PolicyName.DYNAMIC, reserved_cpus=CPUSet.of(0))
    held = CPUSet.parse("1-14")
    books = begin(State(), MACHINE, settings).state.granted(demand, held, CPUSet.of(1, 9))
    with CheckpointFile(tmp_path) as file:
        file.save(books)
    write_status(tmp_path, status_of(begin(books, MACHINE, settings)))
    for policy, code, words in (("dynamic", 0, "A  4 CPUs: "), ("static", 1, "A  4 CPUs: refused: ")):
        asked = ["plan", "--cpus", "4", "--state-dir", str(tmp_path), "--reserved", "0", "--policy", policy]
        assert (main(asked), capsys.readouterr().out.startswith(words)) == (code, True), policy


def fragmented(directory: Path, *, can_move: bool = True) -> Path:
    """Return a state directory in which wide lies on both sockets, and now fits into the first."""
    settings = replace(STATIC, policy=PolicyName.DYNAMIC)
    labels = {"cpuset.move": "true"} if can_move else {}
    views = (container("first", exclusive=5), container("wide", exclusive=4, labels=labels))
    made = world(MACHINE, *views, settings=settings)
    books = CheckpointFile(directory)
    books.save(made.state.released(views[0].key))
    books.close()
    write_status(directory, status_of(made))
    return directory


def test_a_defragmentation_is_shown_without_doing_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The moves with their reasons, and the map afterwards; the State is not touched."""
    fragmented(tmp_path)
    before = (tmp_path / "checkpoint.json").read_bytes()
    args = ["plan", "--defragment", "--state-dir", str(tmp_path), "--policy", "dynamic", "--reserved", "0"]
    assert main(args) == 0
    assert capsys.readouterr().out.splitlines() == [
        "wide: CPUs 4,12 for 1,9: moved closer together: on 1 NUMA node instead of 2",
        "",
        "socket 0   [ 0r  8.] [ 1A  9A] [ 2. 10.] [ 3A 11A]",
        "socket 1   [ 4. 12.] [ 5. 13.] [ 6. 14.] [ 7. 15.]",
        "",
        "A wide   . shared   r reserved",
    ]
    assert (tmp_path / "checkpoint.json").read_bytes() == before
    assert main([*args, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [move["name"] for move in found["moves"]] == ["wide"]
    assert found["notes"] == []


def test_a_defragmentation_that_is_not_allowed_or_useless_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fragmented(tmp_path, can_move=False)
    args = ["plan", "--defragment", "--state-dir", str(tmp_path), "--reserved", "0", "--policy", "static", "--json"]
    assert main(args) == 0
    assert json.loads(capsys.readouterr().out) == {
        "moves": [],
        "notes": [
            "no container with exclusive CPUs may be moved: give it cpuset.move=true",
            "the policy is static: only dynamic moves running containers, as shown",
        ],
    }


@pytest.mark.parametrize(
    "more", [["--empty"], ["--machine", "m"], ["--near", "eth0"], ["--label", "cpuset.min=1"]], ids=lambda more: more[0]
)
def test_a_defragmentation_of_nothing_that_runs_is_no_question(
    more: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert "leave out --machine, --empty" in misused(["--defragment", *more], capsys)[-1]


def test_a_plan_of_nothing_is_no_question(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--cpus or --defragment is missing" in misused([], capsys)[-1]


def test_a_reservation_is_held_to_the_machine_under_the_assumed_policy_too(capsys: pytest.CaptureFixture[str]) -> None:
    """As `run` would refuse it, though the configuration names no policy."""
    assert main(["plan", "--empty", "--cpus", "1", "--reserved", "count:999"]) == 1
    assert "the flag --reserved: reserved takes 999 of this machine's 16 CPUs" in capsys.readouterr().err


def test_labels_that_contradict_the_flags_are_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    """All of them are told, after the usage; one that says the same is harmless."""
    labels = ["--label", "cpuset.exclusive=2", "--label", "cpuset.near=eth1"]
    assert misused(["--empty", "--cpus", "1", "--near", "eth0", *labels], capsys)[-2:] == [
        "cpuset-sidecar plan: --label cpuset.exclusive=2 contradicts --cpus 1: leave the label out",
        "cpuset-sidecar plan: --label cpuset.near=eth1 contradicts --near eth0: leave one of them out",
    ]
    assert main(["plan", "--empty", "--cpus", "2", "--reserved", "0", *labels[:2]]) == 0
    several = ["--cpus", "2", "--cpus", "3", "--label", "cpuset.exclusive=4"]
    assert misused(several, capsys)[-1] == (
        "cpuset-sidecar plan: --label cpuset.exclusive=4 contradicts --cpus 2 --cpus 3: leave the label out"
    )


def test_a_label_with_two_values_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    """One that is given twice with the same value is harmless."""
    twice = ["--label", "cpuset.numa=single", "--label", "cpuset.numa=single"]
    assert main(["plan", "--empty", "--cpus", "1", "--reserved", "0", *twice]) == 0
    said = misused(["--empty", "--cpus", "1", *twice, "--label", "cpuset.numa=none"], capsys)
    assert said[-1] == "cpuset-sidecar plan: --label cpuset.numa is given as none and single: choose one"


def misused(words: list[str], capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Plan, and return what is on stderr: after code 2, and with nothing on stdout, the usage and what is wrong."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as caught:
        main(["plan", *words])
    shown = capsys.readouterr()
    assert (caught.value.code, shown.out) == (2, "")
    assert shown.err.startswith("usage: cpuset-sidecar plan ")
    return shown.err.splitlines()


def test_a_machine_that_cannot_be_used_has_its_files_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever form it seems to be of."""
    file = tmp_path / "m.xml"
    file.write_text("<html></html>")
    assert main(["plan", "--cpus", "1", "--machine", str(file), "--reserved", "0", "--policy", "static"]) == 1
    assert f"{file} cannot be used: it is not hwloc's XML" in capsys.readouterr().err
