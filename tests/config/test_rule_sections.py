"""Rules in the configuration's file: the labels' own keys and values, and every mistake with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from sidecar.config.config import load
from sidecar.config.running_settings import read_settings, write_settings
from sidecar.decide.settings import Rule
from sidecar.failures import ConfigError


def test_a_rule_has_patterns_and_labels(tmp_path: Path) -> None:
    """Numbers, truth values and lists stand for their texts."""
    path = tmp_path / "c.toml"
    path.write_text(
        """
[[rule]]
match = { name = "db-*", project = "shop" }
exclusive = 4
on-shortage = "wait"
options = ["full-pcpus-only"]

[[rule]]
match = { image = "redis:*" }
exclusive = true
move = true
"""
    )
    config = load(str(path), {}, {})
    assert config.rules == (
        Rule(
            name="db-*",
            project="shop",
            labels={
                "cpuset.exclusive": "4",
                "cpuset.on-shortage": "wait",
                "cpuset.options": "full-pcpus-only",
            },
            place=f"{path}, line 2",
        ),
        Rule(image="redis:*", labels={"cpuset.exclusive": "true", "cpuset.move": "true"}, place=f"{path}, line 8"),
    )
    assert config.settings().rules == config.rules
    write_settings(tmp_path, config)
    assert read_settings(tmp_path) == config


MISTAKES = [
    ("exclusive = 1", 'line 1: match is missing: write match = { name = "db-*" }'),
    ("match = {}\nexclusive = 1", 'line 2: match is {}: write patterns, like { name = "db-*" }'),
    ('match = "db-*"', "line 2: match is 'db-*': write patterns"),
    ('match = { imag = "db-*" }', "line 2: unknown key 'match.imag'; did you mean 'match.image'?"),
    ("match = { name = 3 }", "line 2: match.name is 3: write it as text, between quotes"),
    ('match = { name = "a" }\nexclusiv = 2', "line 3: unknown key 'exclusiv'; did you mean 'exclusive'?"),
    ('match = { name = "a" }\nexclusive = 2.5', "line 3: exclusive is 2.5: write a whole number of CPUs"),
    ('match = { name = "a" }\nexclusive = 2\nmin = 3', "line 4: min is 3: write a whole number from 1 to the 2 of"),
    ('match = { name = "a" }\nshortage = "wait"', "line 3: unknown key 'shortage'; did you mean 'on-shortage'?"),
]


@pytest.mark.parametrize(("text", "words"), MISTAKES, ids=[words for _, words in MISTAKES])
def test_a_mistake_in_a_rule_names_its_line(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "c.toml"
    path.write_text(f"[[rule]]\n{text}\n")
    with pytest.raises(ConfigError) as error:
        load(str(path), {}, {})
    assert error.value.sentences[0].startswith(f"{path}, {words}")


def test_all_mistakes_are_found_at_once(tmp_path: Path) -> None:
    """In the rules, and beside them."""
    path = tmp_path / "c.toml"
    path.write_text('polcy = "static"\n[[rule]]\nmatch = { name = "a" }\nweight = 0\nscale = "fil"\n[[rule]]\n')
    with pytest.raises(ConfigError) as error:
        load(str(path), {}, {})
    assert len(error.value.sentences) == 4


@pytest.mark.parametrize("text", ["rule = 3", "[rule]\nexclusive = 1", "rule = [3]"])
def test_rules_are_a_list_of_tables(tmp_path: Path, text: str) -> None:
    path = tmp_path / "c.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"line 1: rule is no list of tables: write each as \[\[rule\]\]"):
        load(str(path), {}, {})
