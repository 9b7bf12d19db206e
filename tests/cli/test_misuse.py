"""Arguments of a command that contradict each other are wrong usage, in every command."""

from __future__ import annotations

import pytest

from sidecar.__main__ import main


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["watch", "--timeout", "5"], "--timeout goes with --until"),
        (["exec", "--timeout", "5", "--", "true"], "--timeout goes with --wait"),
        (["topology", "--record", "--json"], "leave one of them out"),
        (["doctor", "--seconds", "5"], "--quiet is missing"),
        (["state", "--file", "a", "--import", "b"], "choose one"),
    ],
    ids=lambda each: each[0] if isinstance(each, list) else "",
)
def test_arguments_that_contradict_each_other_are_wrong_usage(
    args: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Code 2, after the usage of the command, whoever finds it out."""
    with pytest.raises(SystemExit) as caught:
        main(args)
    shown = capsys.readouterr()
    assert (caught.value.code, shown.out) == (2, "")
    assert shown.err.startswith(f"usage: cpuset-sidecar {args[0]} ")
    assert said in shown.err
