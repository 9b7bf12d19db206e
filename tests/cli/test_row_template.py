"""`--format`: lines of fields, as Docker's templates have them, and what is wrong with others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.__main__ import main
from sidecar.cli.container_fields import CONTAINER_FIELDS, ToldContainer
from sidecar.cli.row_template import RowTemplate, filled, template_reader
from sidecar.cli.status_choice import ALL, Choice
from sidecar.misreadings import Misreading
from sidecar.status.describe import status_of
from sidecar.status.event_file import event_file
from sidecar.status.last_state import container_reading_of
from state.cpuset import CPUSet
from tests.cli.test_commands import BUSY, leave
from tests.cli.top.statuses import owner, plain_one, seen

ROWS = [
    ToldContainer(container_reading_of(owner("voice", "1-2", 1), vouched=True), "settled, alone"),
    ToldContainer(container_reading_of(plain_one("a\x1b[31m", 2), vouched=True), "settled"),
]

read_template = template_reader(CONTAINER_FIELDS)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("{{.Name}} {{.CPUs}}", ["voice 1-2", "a\\x1b[31m "]),
        ("{{ .Name }}={{.State}};", ["voice=settled, alone;", "a\\x1b[31m=settled;"]),
        (r"{{.Kind}}\t{{.Alone}}", ["exclusive\ttrue", "shared\tfalse"]),
        (r"table {{.Name}}\t{{.Size}}", ["NAME       SIZE", "voice      2", "a\\x1b[31m  0"]),
    ],
)
def test_a_template_makes_a_line_of_each(text: str, lines: list[str]) -> None:
    """With what others wrote escaped; a table has a head, and its columns are lined up."""
    template = read_template(text)
    assert isinstance(template, RowTemplate)
    assert filled(template, CONTAINER_FIELDS, ROWS) == lines


def test_json_is_an_object_a_line() -> None:
    """The container's part of the document."""
    template = read_template("json")
    assert isinstance(template, RowTemplate)
    assert [json.loads(line)["name"] for line in filled(template, CONTAINER_FIELDS, ROWS)] == ["voice", "a\x1b[31m"]


@given(st.text(alphabet="{}.Name CPUs\\tn|"))
def test_any_text_is_a_template_or_a_mistake(text: str) -> None:
    """And a template has a line for each row, if it has no line end itself."""
    template = read_template(text)
    if isinstance(template, Misreading):
        return
    assert set(template.parts[1::2]) <= set(CONTAINER_FIELDS.by_name)
    assert len(filled(template, CONTAINER_FIELDS, ROWS)) == len(ROWS) + template.is_table


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{{.Nam}}", "unknown field '.Nam'; did you mean '.Name'?"),
        ("{{.Name", "--format is '{{.Name': write fields in double braces"),
        ("name", "--format is 'name': write fields in double braces"),
        ("{{range .}}{{.Name}}{{end}}", "unknown field 'range .'"),
    ],
)
def test_a_wrong_template_is_told_with_what_would_be_right(
    text: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """As all wrong arguments are."""
    with pytest.raises(SystemExit) as ended:
        main(["status", "--format", text])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["status"],
        ["top", "--once"],
        ["events"],
        ["explain", "web"],
        ["plan", "--cpus", "2", "--empty"],
        ["disturbed", "--seconds", "1"],
    ],
    ids=lambda words: words[0],
)
def test_a_format_excludes_what_prints_otherwise(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """It names both."""
    with pytest.raises(SystemExit) as ended:
        main([*words, "--format", "{{.CPUs}}", "--json"])
    assert ended.value.code == 2
    assert "--format says what is printed, and so does --json" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["events", "--follow", "--format", "table {{.Text}}"], "--follow has not seen them all"),
        (["plan", "--defragment", "--format", "{{.CPUs}}"], "and so does --defragment"),
        (["events", "--format", "{{.Granted}}"], "unknown field '.Granted'"),
    ],
)
def test_what_has_no_rows_takes_no_template(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each command has the fields of what it tells of."""
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return where the status of a busy host is, as words of a command that prints without colour."""
    monkeypatch.setenv("NO_COLOR", "")
    leave(tmp_path, BUSY)
    return ["--state-dir", str(tmp_path)]


def test_top_and_explain_have_the_fields_of_containers(there: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """`top` of those that it shows, which share CPUs with no other; `explain` of one."""
    web = next(each for each in status_of(BUSY).containers if each.name == "web")
    main(["top", "--once", "--format", "{{.Name}} {{.Granted}} {{.Floor}}-{{.Ceiling}}", *there])
    assert f"web 1-2 {web.floor}-{web.ceiling}\n" in capsys.readouterr().out
    main(["top", "--once", "-owide", *there])
    page = capsys.readouterr().out
    assert "PROJECT" in page
    assert web.id in page
    main(["explain", "web", "--format", "{{.Granted}}", *there])
    assert capsys.readouterr().out == "1-2\n"
    with pytest.raises(SystemExit):
        main(["explain", "1", "--format", "{{.Granted}}", *there])
    assert "1 is a CPU" in capsys.readouterr().err


def test_a_plan_and_events_fill_templates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An answer that is refused has no CPUs, and a line all the same."""
    machine = str(Path(__file__).parents[2] / "compose/machines/epyc.txt")
    code = main(
        ["plan", "--cpus", "2", "--cpus", "999", "--machine", machine, "--format", "{{.Asked}}:{{.Size}}:{{.Code}}"]
    )
    first, second = capsys.readouterr().out.splitlines()
    assert code == 1
    assert first == "2:2:"
    assert second.startswith("999:0:")
    assert second != "999:0:"
    recorded = {"id": "1", "time": "2026-01-01T00:00:00+00:00", "level": "info", "message": "granted"}
    event_file(str(tmp_path)).append([json.dumps({**recorded, "container": "web", "cpus": "1-2"}).encode()])
    main(["events", "--format", "{{.Name}} {{.CPUs}} {{.Text}}", "--state-dir", str(tmp_path)])
    assert capsys.readouterr().out == "web 1-2 web was granted CPUs 1-2\n"


@pytest.mark.parametrize(
    ("choice", "names"),
    [
        (ALL, ["voice", "other", "asks", "web"]),
        (Choice(is_owner_only=True), ["voice", "other", "asks"]),
        (Choice(cpus=CPUSet.parse("3,7")), ["other", "asks"]),
        (Choice(cpus=CPUSet.parse("1,7"), is_owner_only=True), ["voice"]),
        (Choice(project="shop"), ["other", "web"]),
        (Choice(project="sh?p*"), ["other", "asks", "web"]),
        (Choice(project="shop", is_owner_only=True), ["other"]),
        (Choice(project="none"), []),
    ],
)
def test_a_choice_is_of_owners_cpus_and_projects(choice: Choice, names: list[str]) -> None:
    """All together if all are given; the machine stays whole."""
    status = seen(
        owner("voice", "1-2", 1),
        owner("other", "3", 2, project="shop"),
        plain_one("asks", 3, asked=4, cpus=CPUSet.parse("0,3"), project="shop-2"),
        plain_one("web", 4, cpus=CPUSet.parse("0"), project="shop"),
    ).status
    chosen = choice.of(status)
    assert [each.name for each in chosen.containers] == names
    assert chosen.machine == status.machine


@pytest.mark.parametrize("words", [["status"], ["status", "--json"], ["status", "--watch"], ["top", "--once"], ["top"]])
def test_no_choice_is_of_cpus_that_the_machine_does_not_have(
    words: list[str], there: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Wrong usage, as a list that is none: nothing could ever be printed for it."""
    with pytest.raises(SystemExit) as ended:
        main([*words, "--cpu", "2,98-99", *there])
    assert ended.value.code == 2
    shown = capsys.readouterr()
    assert "--cpu is 2,98-99, and this machine has no CPU 98-99: it has 0-3" in shown.err
    assert shown.out == ""


def test_status_prints_what_is_chosen_in_the_form_that_is_asked_for(
    there: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """A wide table has whole ids, sizes and uses; the map shows all owners."""
    web = next(each for each in status_of(BUSY).containers if each.name == "web")
    main(["status", "--exclusive", "--format", "{{.Name}}:{{.CPUs}}", *there])
    assert capsys.readouterr().out == f"big:{status_of(BUSY).shared}\nweb:1-2\n"
    main(["status", "--cpu", "1", "--json", *there])
    assert [each["name"] for each in json.loads(capsys.readouterr().out)["containers"]] == ["web"]
    main(["status", "--cpu", "3", "-o", "wide", "--no-color", *there])
    page = capsys.readouterr().out
    assert "SIZE" in page
    assert web.id not in page
    assert "A web" in page
    main(["status", "-o", "wide", *there])
    assert web.id in capsys.readouterr().out
