"""Wrong usage: all that is wrong with the words of a command, at once; and files that are none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sidecar.__main__ import main


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["statsu"], ["cpuset-sidecar: unknown command 'statsu'; did you mean 'status'?"]),
        (["run", "--optoins", "x"], ["cpuset-sidecar run: unknown flag '--optoins'; did you mean '--options'?"]),
        (["top", "web"], ["cpuset-sidecar top: unexpected argument 'web'"]),
        (
            ["plan", "--cpus", "x", "--cpus", "0", "--lable=a", "--policy", "statik"],
            [
                "cpuset-sidecar plan: --cpus is 'x': write a whole number from 1 to 8191",
                "cpuset-sidecar plan: --cpus is '0': write a whole number from 1 to 8191",
                "cpuset-sidecar plan: unknown flag '--lable'; did you mean '--label'?",
                "cpuset-sidecar plan: the flag --policy: policy is 'statik'; did you mean 'static'?",
            ],
        ),
        (
            ["--json", "status"],
            [
                (
                    "cpuset-sidecar status: --json is a flag of status: "
                    "write it after the command, cpuset-sidecar status --json"
                )
            ],
        ),
        (["status", "-owied"], ["cpuset-sidecar status: --output is 'wied'; did you mean 'wide'?"]),
        (["--verison"], ["cpuset-sidecar: unknown flag '--verison'; did you mean '--version'?"]),
        (
            ["--nope", "statsu"],
            [
                "cpuset-sidecar: unknown flag '--nope': the flags are --help, --version",
                "cpuset-sidecar: unknown command 'statsu'; did you mean 'status'?",
            ],
        ),
        (
            ["doctor", "--nope", "foo", "bar"],
            [
                "cpuset-sidecar doctor: unexpected argument 'foo'",
                "cpuset-sidecar doctor: unexpected argument 'bar'",
            ],
        ),
        (
            ["resize", "--jsn", "--state-dir"],
            [
                "cpuset-sidecar resize: unknown flag '--jsn'; did you mean '--json'?",
                "cpuset-sidecar resize: --state-dir needs a value: write --state-dir VALUE",
                "cpuset-sidecar resize: container is missing",
                "cpuset-sidecar resize: N is missing",
            ],
        ),
        (
            ["plan", "--near", "a", "--near=b", "--json=1", "x"],
            [
                "cpuset-sidecar plan: --near is given twice: choose one",
                "cpuset-sidecar plan: --json takes no value, and has '1'",
                "cpuset-sidecar plan: unexpected argument 'x'",
                "cpuset-sidecar plan: --cpus or --defragment is missing",
            ],
        ),
        (
            ["plan", "--cpus", "1", "--defragment", "--polic", "static"],
            [
                "cpuset-sidecar plan: unknown flag '--polic'; did you mean '--policy'?",
                "cpuset-sidecar plan: --cpus and --defragment cannot be used together: choose one",
            ],
        ),
        (["plan", "--cpu", "1"], ["cpuset-sidecar plan: unknown flag '--cpu'; did you mean '--cpus'?"]),
        (["status", "--js"], ["cpuset-sidecar status: unknown flag '--js'; did you mean '--json'?"]),
        (["resize", "web", "-1"], ["cpuset-sidecar resize: N is '-1': write a whole number from 1 to 8191"]),
        (["state", "--format", "jsn"], ["cpuset-sidecar state: --format is 'jsn'; did you mean 'json'?"]),
        (["resize", "web", "0"], ["cpuset-sidecar resize: N is '0': write a whole number from 1 to 8191"]),
        (["watch", "--until", "setled"], ["cpuset-sidecar watch: --until is 'setled'; did you mean 'settled'?"]),
        (
            ["watch", "--timeout", "0"],
            ["cpuset-sidecar watch: --timeout is '0': write a duration from 1ms to 24h, in ms, s, m or h, like 10s"],
        ),
        (["exec", "--signal", "winhc", "true"], ["cpuset-sidecar exec: --signal is 'winhc'; did you mean 'WINCH'?"]),
    ],
)
def test_wrong_arguments_are_all_told_after_the_commands_own_usage(
    args: list[str], told: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """With the nearest right word, and with what is wrong in the configuration as well."""
    with pytest.raises(SystemExit) as caught:
        main(args)
    assert caught.value.code == 2
    err = capsys.readouterr().err
    assert err.splitlines()[-len(told) :] == told
    assert err.startswith(f"usage: {told[0].partition(':')[0]} ")


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "args",
    [
        ["run", "--config"],
        ["simulate"],
        ["topology", "--machine"],
        ["plan", "--cpus", "1", "--machine"],
        ["state", "--file"],
    ],
)
@pytest.mark.parametrize("kind", ["pipe", "endless", "directory"])
def test_a_file_that_is_named_must_be_a_regular_one(
    args: list[str], kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A pipe without a writer, an endless device or a directory is refused at once."""
    os.mkfifo(tmp_path / "pipe")
    path = {"pipe": str(tmp_path / "pipe"), "endless": "/dev/zero", "directory": str(tmp_path)}[kind]
    assert main([*args, path]) == 1
    told = "it is a directory, not a regular file" if kind == "directory" else "it is not a regular file"
    assert f"{path} cannot be read: {told}" in capsys.readouterr().err
