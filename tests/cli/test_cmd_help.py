"""`help` and `completion`: made from the parsers, so that no command and no flag is missing."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from sidecar.__main__ import main
from sidecar.cli.cmd_completion import SHELLS, script
from sidecar.words.exit_codes import EXIT_CODES
from tests.docs.pages import rows, section
from tests.docs.test_reference import REFERENCE, commands

COMMANDS = commands()


def out(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(words) == 0
    return capsys.readouterr().out


def test_help_is_that_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    """Without one, the list of commands."""
    for name, parser in COMMANDS.items():
        assert out(capsys, "help", name) == parser.format_help()
    assert all(name in out(capsys, "help") for name in COMMANDS)


def test_help_of_an_unknown_command_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["help", "topp"])
    assert caught.value.code == 2
    assert "unknown command 'topp'; did you mean 'top'?" in capsys.readouterr().err


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_has_every_command_and_flag(shell: str) -> None:
    """And is what the command prints."""
    made = script(shell, COMMANDS, {})
    for name, parser in COMMANDS.items():
        flags = [flag for each in parser._actions for flag in each.option_strings if flag.startswith("--")]
        lines = [line for line in made.splitlines() if f" {name})" in line or f"from {name}'" in line]
        assert all(any(flag in line or f"-l {flag[2:]} " in line for line in lines) for flag in flags), name


def completed(made: Path, *words: str, names: str = "", program: str = "") -> list[str]:
    """Return what bash offers for the last of these words, where `status` prints these names."""
    typed = " ".join(f"'{word}'" for word in ("cpuset-sidecar", *words))
    (made.parent / "cpuset-sidecar").write_text(program or f"#!/bin/sh\ncat <<'END'\n{names}\nEND\n")
    (made.parent / "cpuset-sidecar").chmod(0o755)
    paths = f"PATH={made.parent}:$PATH; source {made}"
    asked = f"{paths}; COMP_WORDS=({typed}); COMP_CWORD={len(words)}; _cpuset_sidecar; echo ${{COMPREPLY[@]}}"
    done = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=True)
    return done.stdout.split()


@pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
def test_bash_completes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Commands, their flags, the commands again after `help`; nothing where a name of a container is expected."""
    made = tmp_path / "completion"
    made.write_text(out(capsys, "completion", "bash"))
    assert completed(made, "sta") == ["status", "state"]
    assert completed(made, "status", "--pro") == ["--problems", "--project"]
    assert completed(made, "help", "topo") == ["topology"]
    assert completed(made, "explain", "w") == []


@pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
@pytest.mark.parametrize("name", ["explain", "disturbed", "resize", "release", "watch"])
def test_bash_completes_the_names_of_containers(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As the daemon's status has them. A name that a shell would take for more than a word is never offered, and never
    expanded.
    """
    made = tmp_path / "completion"
    made.write_text(out(capsys, "completion", "bash"))
    hostile = f"w$(touch {tmp_path}/expanded)"
    names = f"web-1\nweb-2\ndb\n{hostile}\nw;rm\nw x\n*"
    assert completed(made, name, "w", names=names) == ["web-1", "web-2"]
    assert completed(made, name, "", names=names) == ["web-1", "web-2", "db"]
    assert completed(made, "status", "w", names=names) == []
    assert not (tmp_path / "expanded").exists()


@pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["run", "--policy", ""], ["none", "static", "dynamic"]),
        (["run", "--policy", "=", "dyn"], ["dynamic"]),
        (["run", "--policy", "="], ["none", "static", "dynamic"]),
        (["status", "-o", ""], ["wide"]),
        (["status", "--output", "w"], ["wide"]),
        (["watch", "--until", "se"], ["settled"]),
        (["state", "--format", "k"], ["kubelet"]),
        (["completion", "b"], ["bash"]),
        (["swarm", ""], ["advertise"]),
        (["help", "--schema", "st"], ["state", "status"]),
        (["help", "st"], ["status", "state"]),
        (["plan", "--machine", ""], []),
        (["explain", "--json", "we"], ["web-1", "web-2"]),
        (["explain", "--format", "{{.Name}}", "we"], ["web-1", "web-2"]),
        (["doctor", "--quiet", "d"], ["db"]),
        (["resize", "db", ""], []),
        (["explain", "db", ""], []),
        (["explain", "--format", "we"], []),
    ],
    ids=" ".join,
)
def test_bash_completes_what_a_place_takes(
    words: list[str], offered: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Values of flags and of other places are those that their refusal names; a container is one after flags, too."""
    made = tmp_path / "completion"
    made.write_text(out(capsys, "completion", "bash"))
    assert completed(made, *words, names="web-1\nweb-2\ndb") == offered


@pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
def test_bash_asks_the_status_of_the_directory_on_the_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """So the names are those that the command itself would find."""
    made = tmp_path / "completion"
    made.write_text(out(capsys, "completion", "bash"))
    asked = "#!/bin/sh\nshift 3; for each; do printf '%s\\n' \"$each\"; done\n"
    assert completed(made, "explain", "--state-dir", "x", "--json", "", program=asked) == ["--state-dir", "x"]
    assert completed(made, "explain", "--config", "=", "y", "", program=asked) == ["--config", "y"]
    assert completed(made, "explain", "", program=asked) == []


def test_the_manual_page_has_every_command_and_flag(capsys: pytest.CaptureFixture[str]) -> None:
    """From the parsers, as the help; no line of a text begins with a request, and every code is explained."""
    page = out(capsys, "help", "--man")
    for name, parser in COMMANDS.items():
        section = page.split(f"\n.SS {name}\n".replace("-", "\\-"))[1].split("\n.SS ")[0]
        for flag in (flag for each in parser._actions for flag in each.option_strings):
            assert "\\fB" + flag.replace("-", "\\-") + "\\fR" in section, (name, flag)
    requests = {line.split()[0] for line in page.splitlines() if line.startswith((".", "'"))}
    assert requests == {".TH", ".SH", ".SS", ".TP", ".PP", ".B", ".I", ".nf", ".fi"}
    assert all(f".B {code}\n" in page.split(".SH EXIT STATUS")[1] for code in EXIT_CODES)


@pytest.mark.skipif(not shutil.which("groff"), reason="needs groff, of the distribution's package of that name")
def test_the_manual_page_is_read_without_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    """By the program that shows it."""
    page = out(capsys, "help", "--man")
    command = ["groff", "-man", "-Tutf8", "-ww", "-z"]
    done = subprocess.run(command, input=page, capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_the_table_of_exit_codes_is_the_programs(capsys: pytest.CaptureFixture[str]) -> None:
    """In the reference and in the help, in these words."""
    table = {row[0]: row[1] for row in rows(section(REFERENCE / "commands.md", "Exit codes")) if row[0].isdigit()}
    assert {int(code): means.replace("`", "") for code, means in table.items()} == EXIT_CODES
    assert all(f"  {code}  {means}\n" in out(capsys, "help") for code, means in EXIT_CODES.items())
