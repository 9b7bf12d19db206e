"""`status --format`: lines of fields, as Docker's templates have them, and what is wrong with others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.__main__ import main
from sidecar.cli.row_template import FIELDS, RowTemplate, filled, read_template
from sidecar.cli.status_choice import ALL, Choice
from sidecar.misreadings import Misreading
from sidecar.status.describe import status_of
from state.cpuset import CPUSet
from tests.cli.test_commands import BUSY, leave
from tests.cli.top.statuses import owner, plain_one, seen

ROWS = [(owner("voice", "1-2", 1), "settled, alone"), (plain_one("a\x1b[31m", 2), "settled")]


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
    assert filled(template, ROWS) == lines


def test_json_is_an_object_a_line() -> None:
    """The container's part of the document."""
    template = read_template("json")
    assert isinstance(template, RowTemplate)
    assert [json.loads(line)["name"] for line in filled(template, ROWS)] == ["voice", "a\x1b[31m"]


@given(st.text(alphabet="{}.Name CPUs\\tn|"))
def test_any_text_is_a_template_or_a_mistake(text: str) -> None:
    """And a template has a line for each row, if it has no line end itself."""
    template = read_template(text)
    if isinstance(template, Misreading):
        return
    assert set(template.parts[1::2]) <= set(FIELDS)
    assert len(filled(template, ROWS)) == len(ROWS) + template.is_table


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


def test_a_format_excludes_what_prints_otherwise(capsys: pytest.CaptureFixture[str]) -> None:
    """It names both."""
    with pytest.raises(SystemExit) as ended:
        main(["status", "--format", "{{.Name}}", "--json"])
    assert ended.value.code == 2
    assert "--format says what is printed, and so does --json" in capsys.readouterr().err


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


def test_status_prints_what_is_chosen_in_the_form_that_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wide table has whole ids, sizes and uses; the map shows all owners."""
    monkeypatch.setenv("NO_COLOR", "")
    leave(tmp_path, BUSY)
    web = next(each for each in status_of(BUSY).containers if each.name == "web")
    there = ["--state-dir", str(tmp_path)]
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
