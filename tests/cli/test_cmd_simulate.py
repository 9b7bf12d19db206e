"""`simulate`: its output of a history, and the files that it writes."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sidecar.__main__ import main
from sidecar.commit.journal import WorldLine, read_journal
from tests.support.schemas import misfits

ROOT = Path(__file__).parents[2]

SCENARIO = """
title = "One arrives"
ends = "10s"
[machine]
cores = 4
[settings]
policy = "dynamic"
reserved = "0"
[[container]]
name = "plain"
[[container]]
name = "own"
labels = { "cpuset.exclusive" = "2" }
demand = 1.5
[[event]]
at = "1s"
do = "run"
container = "plain"
[[event]]
at = "2s"
do = "run"
container = "own"
"""


@pytest.fixture
def scenario(tmp_path: Path) -> str:
    """Write the file."""
    file = tmp_path / "x.toml"
    file.write_text(SCENARIO)
    return str(file)


def test_what_is_in_place_beside_a_container_that_is_kept_out_is_not_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says who may run there."""
    file = tmp_path / "x.toml"
    file.write_text(SCENARIO.replace("[settings]", '[settings]\nunmanaged = ["plain"]'))
    assert main(["simulate", str(file)]) == 0
    out = capsys.readouterr().out
    assert "in place 1-2 0.21 s after the decision: plain (unmanaged) may run there too\n" in out


def test_a_history_for_people(scenario: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The title, each event with its reason, the figures, the final machine."""
    assert main(["simulate", scenario]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "One arrives",
        "",
        "     0.000                    the sidecar starts: policy dynamic",
        "     1.000  plain             created",
        "     1.210  plain             started 0-3",
        "     2.000  own               created",
        "     2.001  own               granted 1-2",
        "     2.011  plain             runs on 0,3 instead of 0-3",
        "     2.210  own               started 1-2",
        "     2.211  own               in place 1-2 0.21 s after the decision: alone",
        "",
        "10 s: 0 changes of size or place; of takes, 0 acknowledged and 0 forced",
        "from a decision until it was in place: 0.21 s in the median, 0.21 s at most",
        "",
        "NAME   RAN (s)  CPUS  FROM-TO  USED  MOVES  LONGEST WAIT (s)",
        "plain  8.8      2.2   2-4      0.0   0      -",
        "own    7.8      2.0   2-2      1.5   0      0.210",
        "",
        "socket 0   [0r] [1A] [2A] [3.]",
        "",
        "A own   . shared   r reserved, shared",
    ]


def test_a_history_for_programs(scenario: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An object a line, and nothing else."""
    assert main(["simulate", scenario, "--json"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert [flaw for line in shown for flaw in misfits("happening", line)] == []
    lines = [json.loads(line) for line in shown]
    found = [each for each in lines if each["what"] != "now"]
    assert found[5] == {
        "at": 2.011,
        "what": "runs on",
        "container": "plain",
        "cpus": "0,3",
        "was": "0-3",
        "why": "",
        "seconds": None,
    }
    assert len(found) == 8
    assert lines[-2]["what"] == "in place"
    plain = {"name": "plain", "cpus": "0,3", "granted": None, "leaving": "", "alone": False, "wants": 0.0}
    own = {"name": "own", "cpus": "1-2", "granted": "1-2", "leaving": "", "alone": False, "wants": 1.5}
    assert lines[-3] == {
        "at": 2.21,
        "what": "now",
        "online": "0-3",
        "reserved": "0",
        "holdings": [plain, own],
    }
    assert lines[-1] == {**lines[-3], "at": 2.211, "holdings": [plain, {**own, "alone": True}]}


def test_events_after_the_end_are_counted(scenario: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = Path(scenario).read_text()
    Path(scenario).write_text(text.replace('ends = "10s"', 'ends = "1500ms"'))
    assert main(["simulate", scenario]) == 0
    out = capsys.readouterr().out
    assert "note: it ends at 1.5 s, and 1 of 2 events is not played\n" in out
    assert "own" not in out


def test_the_journal_and_the_picture_are_written(
    scenario: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace, svg = tmp_path / "trace.jsonl", tmp_path / "x.svg"
    assert main(["simulate", scenario, "--trace", str(trace), "--svg", str(svg)]) == 0
    first, *bursts = read_journal(trace)
    assert isinstance(first, WorldLine)
    assert len(bursts) > 5
    assert svg.read_text().startswith("<svg ")
    capsys.readouterr()
    assert main(["simulate", scenario, "--svg", str(tmp_path / "no" / "x.svg")]) == 1
    assert "x.svg cannot be written: there is no such file or directory" in capsys.readouterr().err


def test_it_can_be_watched(scenario: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Ten times as fast as real time, with the same output."""
    assert main(["simulate", scenario]) == 0
    at_once = capsys.readouterr().out
    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(time, "sleep", lambda seconds: clock.__setitem__(0, clock[0] + seconds))
    assert main(["simulate", scenario, "--speed", "10"]) == 0
    assert capsys.readouterr().out == at_once
    assert clock[0] == pytest.approx(101.0, abs=0.2)


LONG = """
[[event]]
at = "3s"
do = "resize"
container = "own"
cpus = 3
[[event]]
at = "4s"
do = "release"
container = "plain"
"""


def on_a_terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    """Let stdout be a terminal of that width."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("NO_COLOR", "1")


@pytest.mark.parametrize("columns", [20, 40, 60, 100])
def test_on_a_terminal_no_line_is_wider_and_no_word_is_lost(
    columns: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Events and figures are wrapped as the table is: a page is 40 columns wide at least."""
    file = tmp_path / "x.toml"
    file.write_text(SCENARIO.replace("One arrives", "One arrives " * 12) + LONG)
    assert main(["simulate", str(file)]) == 0
    whole = capsys.readouterr().out
    on_a_terminal(monkeypatch, columns)
    assert main(["simulate", str(file)]) == 0
    narrow = capsys.readouterr().out
    before, after = (text.partition("\nNAME")[0] for text in (whole, narrow))
    assert max(map(len, before.splitlines())) > 100
    assert max(map(len, after.splitlines())) <= max(columns, 40)
    assert before.split() == after.split()


def test_what_does_not_fit_beside_an_event_goes_on_below_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Times and names stay readable as columns; in a page that is too narrow for that, the rest begins further left."""
    file = tmp_path / "x.toml"
    file.write_text(SCENARIO + LONG)
    on_a_terminal(monkeypatch, 60)
    assert main(["simulate", str(file)]) == 0
    lines = capsys.readouterr().out.splitlines()
    first = lines.index("     3.000  own               resize: not done: the size of")
    assert lines[first + 1].startswith(" " * 30)
    on_a_terminal(monkeypatch, 40)
    assert main(["simulate", str(file)]) == 0
    assert (
        "     3.000  own               resize:\n            not done: the size of own is\n" in capsys.readouterr().out
    )


@pytest.mark.parametrize("speed", ["0", "-1", "fast", "nan", "inf"])
def test_a_speed_that_is_none_is_wrong_usage(speed: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["simulate", "x.toml", f"--speed={speed}"])
    assert caught.value.code == 2
    assert "write a number above 0 and at most 1e+06, like 10" in capsys.readouterr().err


def test_a_scenario_that_cannot_be_understood_or_played_is_code_1(
    scenario: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "y.toml"
    file.write_text(SCENARIO.replace("cores = 4", "cors = 4"))
    assert main(["simulate", str(file)]) == 1
    assert "y.toml, line 5: unknown key 'cors'; did you mean 'cores'?" in capsys.readouterr().err
    file.write_text(SCENARIO.replace('do = "run"', 'do = "start"'))
    assert main(["simulate", str(file)]) == 1
    assert "y.toml, line 15: start at 1 s: there is no container 'plain' now" in capsys.readouterr().err
    assert main(["simulate", scenario, "--machine", str(tmp_path / "none")]) == 1
    assert "cannot be read" in capsys.readouterr().err


def test_it_needs_nothing_of_the_daemons_tasks(scenario: str) -> None:
    """Neither trio nor an engine's client is loaded: it uses the decisions alone."""
    program = (
        "import sys; from sidecar.cli import cmd_simulate; from sidecar.simulation import scenario, scenario_file\n"
        f"scenario.simulation_of(scenario_file.scenario_in({scenario!r})).advance(10)\n"
        "print(sorted({'trio', 'aiodocker', 'aiohttp', 'h11', 'rich'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "[]"


def test_a_broken_law_is_code_1(
    scenario: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It would be a bug in the program, which must not be overlooked."""
    monkeypatch.setattr("sidecar.simulation.virtual_host.violations", lambda *_: ["CPU 3 is in no book"])
    assert main(["simulate", scenario]) == 1
    assert "a law is broken: CPU 3 is in no book" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("x.toml --svg x.toml", "--svg is 'x.toml', which is the file of SCENARIO as well: choose another one"),
        ("x.toml --trace ./no/../x.toml", "--trace is './no/../x.toml', which is the file of SCENARIO as well"),
        ("x.toml --svg link.toml", "--svg is 'link.toml', which is the file of SCENARIO as well"),
        ("x.toml --svg hard.toml", "--svg is 'hard.toml', which is the file of SCENARIO as well"),
        ("x.toml --machine m.txt --svg m.txt", "--svg is 'm.txt', which is the file of --machine as well"),
        ("x.toml --config c.toml --svg c.toml", "--svg is 'c.toml', which is the file of --config as well"),
        ("x.toml --svg new --trace ./new", "--trace is './new', which is the file of --svg as well"),
        ("recorded.toml --svg m.txt", "--svg is 'm.txt', which is the file of [machine] as well"),
    ],
)
def test_no_output_replaces_another_file_of_the_command(
    words: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By whatever path: wrong usage, before anything is played or changed."""
    monkeypatch.chdir(tmp_path)
    machine = (ROOT / "compose/machines/epyc.txt").read_text()
    texts = {"x.toml": SCENARIO, "m.txt": machine, "c.toml": ""}
    texts["recorded.toml"] = SCENARIO.replace("cores = 4", 'file = "m.txt"')
    for name, text in texts.items():
        Path(name).write_text(text)
    Path("no").mkdir()
    Path("link.toml").symlink_to("x.toml")
    Path("hard.toml").hardlink_to("x.toml")
    with pytest.raises(SystemExit) as caught:
        main(["simulate", *words.split()])
    assert caught.value.code == 2
    shown = capsys.readouterr()
    assert told in shown.err
    assert shown.out == ""
    assert {name: Path(name).read_text() for name in texts} == texts
    assert not Path("new").exists()


@pytest.mark.parametrize(
    ("file", "told"),
    [
        ("no/x.svg", "no/x.svg cannot be written: there is no such file or directory"),
        ("x.toml/x.svg", "x.toml/x.svg cannot be written: something that is not a directory is there"),
        ("folder", "folder cannot be written: a directory is there"),
    ],
)
def test_what_cannot_be_written_is_told_before_the_play(
    scenario: str, file: str, told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A whole play would be lost."""
    monkeypatch.chdir(Path(scenario).parent)
    Path("folder").mkdir()
    for flag in ("--svg", "--trace"):
        assert main(["simulate", scenario, flag, file]) == 1
        shown = capsys.readouterr()
        assert (shown.out, shown.err) == ("", f"cpuset-sidecar: {told}\n")


def test_a_device_takes_both_outputs(scenario: str) -> None:
    assert main(["simulate", scenario, "--svg", "/dev/null", "--trace", "/dev/null"]) == 0


def test_what_the_daemon_would_warn_of_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """At each start, and after a reload what is new, as in the daemon's log: to people and to programs."""
    file = tmp_path / "x.toml"
    reloads = ['{ reserved = "3" }', "{ shared_min = 1 }"]
    events = [f'[[event]]\nat = {at}\ndo = "reload"\nsettings = {to}\n' for at, to in enumerate(reloads, 1)]
    events += [f'[[event]]\nat = {at}\ndo = "{do}"\n' for at, do in ((3, "crash"), (4, "restart"))]
    head = '[machine]\ncores = 4\n[settings]\npolicy = "static"\nreserved = "2"\n'
    file.write_text(head + "".join(events))
    two, three = (
        f"{file}, line {line}: reserved is CPU {cpu} alone: for {cpu} CPUs write count:{cpu}"
        for line, cpu in ((5, 2), (9, 3))
    )
    assert main(["simulate", str(file)]) == 0
    said = [line.split(None, 1) for line in capsys.readouterr().out.splitlines() if "warning" in line]
    assert said == [["0.000", f"warning: {two}"], ["1.000", f"warning: {three}"], ["4.000", f"warning: {three}"]]
    assert main(["simulate", str(file), "--json"]) == 0
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["why"] for each in told if each["what"] == "warning"] == [two, three, three]


@pytest.mark.parametrize(
    ("settings", "machine", "doubt"),
    [
        ({"options": ["full-pcpus-only"], "reserved": "0"}, "threads = 2", "splits cores"),
        ({"reserved": "0"}, 'isolated = "2-3"', "isolated"),
        ({"reserved": "0", "isolated": "prefer"}, "", "isolat"),
    ],
    ids=["split", "isolated", "nothing isolated"],
)
def test_every_doubt_of_the_daemon_is_one_of_the_simulation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], settings: dict[str, object], machine: str, doubt: str
) -> None:
    file = tmp_path / "x.toml"
    keys = "".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items())
    event = '[[event]]\nat = 1\ndo = "defragment"\n'
    file.write_text(f'[machine]\ncores = 4\n{machine}\n[settings]\npolicy = "static"\n{keys}{event}')
    assert main(["simulate", str(file)]) == 0
    [warning] = [line for line in capsys.readouterr().out.splitlines() if "warning: " in line]
    assert doubt in warning
