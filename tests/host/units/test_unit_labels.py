"""The labels in a unit's files: one rule from a label's name to a key's, and systemd's own rules for lines."""

from __future__ import annotations

import pytest

from sidecar.decide.container.labels import NAMES
from sidecar.host.units.unit_labels import key_of, label_of, labels_of


@pytest.mark.parametrize("name", NAMES)
def test_each_label_has_a_key_and_each_key_its_label(name: str) -> None:
    """By the rule alone: there is no second table."""
    assert label_of(key_of(name)) == name
    assert key_of(name).startswith("X-Cpuset")


def test_the_keys_are_as_the_pages_say() -> None:
    assert key_of("cpuset.exclusive") == "X-CpusetExclusive"
    assert key_of("cpuset.on-shortage") == "X-CpusetOnShortage"
    assert [label_of(key) for key in ("CPUQuota", "X-Cpus", "X-Cpuset", "AllowedCPUs")] == [""] * 4
    assert label_of("X-CpusetExclusiv") == "cpuset.exclusiv", "a slip is a label that is unknown, and said to be"


@pytest.mark.parametrize(
    ("texts", "labels"),
    [
        (["[Service]\nX-CpusetExclusive=2\n"], {"cpuset.exclusive": "2"}),
        (["[Service]\nX-CpusetExclusive=2\n", "[Unit]\nX-CpusetExclusive = 3 \n"], {"cpuset.exclusive": "3"}),
        (["X-CpusetExclusive=2\nX-CpusetNuma=single\n", "X-CpusetExclusive=\n"], {"cpuset.numa": "single"}),
        (["# X-CpusetExclusive=2\n; X-CpusetExclusive=3\n"], {}),
        (
            ["X-CpusetOptions=full-pcpus-only,\\\n# between\n  spread\nExecStart=x\n"],
            {"cpuset.options": "full-pcpus-only, spread"},
        ),
        (["ExecStart=sh -c 'X-CpusetExclusive=9' \\\nX-CpusetExclusive=9\n"], {}),
        (["\x00\xff=\n=\n[X-Cpuset\n\\\n"], {}),
    ],
    ids=["one", "the last counts", "an empty one takes back", "comments", "a line goes on", "another key's", "garbage"],
)
def test_files_are_read_as_systemd_reads_them(texts: list[str], labels: dict[str, str]) -> None:
    assert labels_of(texts) == labels


def test_a_long_value_is_cut() -> None:
    assert len(labels_of([f"X-CpusetNear={'x' * 10_000}"])["cpuset.near"]) <= 256
