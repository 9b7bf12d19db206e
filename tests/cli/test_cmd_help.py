"""`help` and `completion`: made from the parsers, so that no command and no flag is missing."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from sidecar.__main__ import main
from sidecar.cli.cmd_completion import SHELLS, script
from tests.docs.test_reference import commands

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


def completed(made: Path, *words: str) -> list[str]:
    """Return what bash offers for the last of these words."""
    typed = " ".join(f"'{word}'" for word in ("cpuset-sidecar", *words))
    asked = f"source {made}; COMP_WORDS=({typed}); COMP_CWORD={len(words)}; _cpuset_sidecar; echo ${{COMPREPLY[@]}}"
    done = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=True)
    return done.stdout.split()


@pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
def test_bash_completes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Commands, their flags, the commands again after `help`; nothing where a name of a container is expected."""
    made = tmp_path / "completion"
    made.write_text(out(capsys, "completion", "bash"))
    assert completed(made, "sta") == ["status", "state"]
    assert completed(made, "status", "--p") == ["--problems"]
    assert completed(made, "help", "topo") == ["topology"]
    assert completed(made, "explain", "w") == []
