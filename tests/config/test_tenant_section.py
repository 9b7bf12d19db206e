"""The section `[tenants]`: its keys are those of its name, and mistakes in it have their lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from sidecar.config.config import Config, load, read_config
from sidecar.decide.settings import Settings, TenantRight
from sidecar.failures import ConfigError


def written(tmp_path: Path, text: str) -> str:
    file = tmp_path / "c.toml"
    file.write_text(text)
    return str(file)


@pytest.mark.parametrize(
    "text",
    [
        '[tenants]\nmay = ["pin", "opt-out"]\n',
        'tenants_may = "opt-out, pin"\n',
        'tenants = { may = ["pin", "opt-out"] }\n',
        'tenants.may = ["pin", "opt-out"]\n',
    ],
)
def test_each_way_to_write_it_says_the_same(tmp_path: Path, text: str) -> None:
    """A section, an inline table, dotted keys, and the full names."""
    config = load(written(tmp_path, text), {}, {})
    assert config.tenants_may == (TenantRight.OPT_OUT, TenantRight.PIN)
    assert config.settings().may == config.tenants_may


def test_the_environment_and_flags_win_over_the_section(tmp_path: Path) -> None:
    """As over every other key."""
    file = written(tmp_path, '[tenants]\nmay = ["pin"]\n')
    assert load(file, {"CPUSET_SIDECAR_TENANTS_MAY": "opt-out"}, {}).tenants_may == (TenantRight.OPT_OUT,)
    assert load(file, {}, {"tenants_may": "lift-quota"}).tenants_may == (TenantRight.LIFT_QUOTA,)


def test_nothing_may_be_allowed(tmp_path: Path) -> None:
    """An empty list takes the default right away as well."""
    assert load(written(tmp_path, "[tenants]\nmay = []\n"), {}, {}).tenants_may == ()


def test_decisions_without_a_configuration_have_its_defaults() -> None:
    """The safe ones: none of them takes a CPU from an owner."""
    assert Settings().may == Config().tenants_may
    assert not {TenantRight.OPT_OUT, TenantRight.PIN, TenantRight.LIFT_QUOTA} & set(Config().tenants_may)


def test_mistakes_have_the_line_and_the_full_name_of_their_key(tmp_path: Path) -> None:
    """An unknown right, an unknown key, and a section that is no table."""
    read = read_config(written(tmp_path, '\n[tenants]\nmay = ["pinn"]\n\nidle = 2\n'), {}, {})
    assert not isinstance(read, Config)
    assert [(each.name, each.where.rpartition(", ")[2]) for each in read] == [
        ("tenants_may", "line 3"),
        ("tenants_idle", "line 5"),
    ]
    [flat] = [read] if isinstance(read := read_config(written(tmp_path, "tenants = 1\n"), {}, {}), tuple) else []
    assert [(each.name, each.where.rpartition(", ")[2]) for each in flat] == [("tenants", "line 1")]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('tenants_may = ["pin"]\n[tenants]\nmay = ["priority"]\n', 3),
        ('tenants.may = ["priority"]\ntenants_may = ["pin"]\n', 2),
    ],
)
def test_one_key_in_two_spellings_is_a_mistake(tmp_path: Path, text: str, line: int) -> None:
    """TOML sees two keys: one of the two values would be lost without a word."""
    file = written(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load(file, {}, {})
    assert str(caught.value) == f"{file}, line {line}: tenants_may is given twice, first in {file}, line 1: choose one"
