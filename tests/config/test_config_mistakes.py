"""Mistakes in the configuration: each is reported with its place and its cure, and all of them at once."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.config import config as config_module
from sidecar.config.config import Config, configured, load
from sidecar.config.keys import KEYS
from sidecar.config.toml_text import read_text
from sidecar.failures import ConfigError
from sidecar.misreadings import Misreading
from sidecar.readers import Given, read_all
from sidecar.words.misread import sentence, sentences
from state.mistakes import Flaw
from state.topology import uniform
from tests.support.broken_property import TO_BE_BROKEN


def from_text(tmp_path: Path, text: str) -> Config:
    path = tmp_path / "c.toml"
    path.write_text(text)
    return load(str(path), {}, {})


FILE_MISTAKES = [
    ('# ours\n\nreservd = "0"', "c.toml, line 3: unknown key 'reservd'; did you mean 'reserved'?"),
    ("[cpuset]\nx = 1", "c.toml, line 1: unknown section 'cpuset': the sections are options, tenants, rule, hook"),
    ('policy = "stattic"', "c.toml, line 1: policy is 'stattic'; did you mean 'static'?"),
    ("policy = 3", "c.toml, line 1: policy is 3: write one of none, static"),
    ('policy = "dynamic"', "c.toml, line 1: the policy dynamic needs reserved CPUs, which are never given exclusively"),
    ('\nlisten = "x"', "c.toml, line 2: listen is 'x': write an address and a port, like 127.0.0.1:9413, [::1]:9413"),
    ("listen = 9413", "listen is 9413: write an address and a port"),
    ('listen = ":9413"', "listen is ':9413': write an address and a port"),
    ('listen = "node1:9413"', "listen is 'node1:9413': write an address and a port"),
    ('listen = "::1:9413"', "listen is '::1:9413': write an address and a port"),
    ('listen = "[127.0.0.1]:9413"', "listen is '[127.0.0.1]:9413': write an address and a port"),
    ('listen = "127.0.0.1:0"', "listen is '127.0.0.1:0': write an address and a port"),
    ('listen = "127.0.0.1:65536"', "listen is '127.0.0.1:65536': write an address and a port"),
    ('reserved = "0-"', 'reserved is \'0-\': write a CPU list like "0" or "0-1,8", or a count like "count:2"'),
    ("reserved = 0", 'reserved is 0, a bare number: write "0" for CPU 0 alone'),
    ("reserved = 2", 'reserved is 2, a bare number: write "count:2" for 2 CPUs, or "2" for CPU 2 alone'),
    ("reserved = -1", "reserved is -1: write a CPU list"),
    ("reserved = true", "reserved is true: write a CPU list"),
    ("reserved = []", "reserved is []: write a CPU list"),
    ("reserved = [-1]", "reserved is [-1]: write a CPU list"),
    ('options = ["full-pcpu-only"]', "options has 'full-pcpu-only'; did you mean 'full-pcpus-only'?"),
    (
        'options = "full-pcpus-only,distribute-cpus-across-cores"',
        "full-pcpus-only and distribute-cpus-across-cores cannot be used together: choose one",
    ),
    ('options = "full-pcpus-only=maybe"', "full-pcpus-only is 'maybe': write true or false"),
    ('options = "fast=true"', "options has 'fast': the words are full-pcpus-only, strict-cpu-reservation"),
    ('numa = "together"', "write one of none, best-effort, restricted, single"),
    ("numa = 1", "write one of none, best-effort, restricted, single"),
    ('isolated = "yes"', "write one of ignore, prefer, only"),
    ("options = 1", "options is 1: write a list of some of full-pcpus-only, "),
    ('shared_min = "-1"', "shared_min is '-1': write a whole number from 0 to 8191"),
    ("shared_min = -1", "shared_min is -1: write a whole number"),
    ('linger = "10 parsecs"', "linger is '10 parsecs': write a duration from 0s to 1h, in ms, s, m or h, like 10s"),
    ("linger = -1", "linger is -1: write a duration"),
    ("reconcile_period = 0", "reconcile_period is 0: write a duration from 100ms to 1h"),
    ("load_period = 0", "load_period is 0: write a duration from 100ms to 1h"),
    ("load_half_life = 0.5", "load_half_life is 0.5: write a duration from 1s to 1h"),
    ("load_low = 0", "load_low is 0: write a number above 0 and at most 1, like 0.5"),
    ("load_low = nan", "load_low is nan: write a number above 0"),
    ("load_low = true", "load_low is true: write a number above 0"),
    ("load_high = 1.01", "load_high is 1.01: write a number above 0"),
    ('load_high = "80%"', "load_high is '80%': write a number above 0"),
    ("load_low = 0.8", "c.toml, line 1: load_low is 0.8 and load_high 0.8: make load_low the smaller one"),
    ("load_high = 0.4", "c.toml, line 1: load_low is 0.5 and load_high 0.4: make load_low the smaller one"),
    ("load_pressure = 101", "load_pressure is 101: write a number above 0 and at most 100, like 20"),
    ("load_pressure = -1", "load_pressure is -1: write a number above 0"),
    ("[section]\na = 1", "c.toml, line 1: unknown section 'section': the sections are options, tenants, rule, hook"),
    ("[option]\nfull-pcpus-only = true", "c.toml, line 1: unknown section 'option'; did you mean 'options'?"),
    ("linger = 1e400", "linger is 1e400: write a duration"),
    ("load_pressure = -1e400", "load_pressure is -1e400: write a number above 0"),
    ('reserved = "conut:1"', "reserved is 'conut:1'; did you mean 'count:1'?"),
    ('reserved = "Count = 2"', "reserved is 'Count = 2'; did you mean 'count:2'?"),
    ('reserved = "cpus:1"', "reserved is 'cpus:1': write a CPU list"),
    ("linger = inf", "linger is inf: write a duration"),
    ('engine = "docker"', "engine is 'docker': write auto, or the address of an engine's socket"),
    ('engine = "http://x"', "engine is 'http://x': write auto, or the address of an engine's socket"),
    ('engine = "tcp://host"', "engine is 'tcp://host': write auto, or the address"),
    ('engine = "tcp://h:99999"', "like unix:///var/run/docker.sock or tcp://127.0.0.1:2375"),
    ('engine = "tcp://::1:2375"', "engine is 'tcp://::1:2375': write auto, or the address"),
    ('api_group = "99999999999"', "or the number of a group, like monitoring (the highest number is 4294967294)"),
    ("api_group = 4294967295", "api_group is 4294967295: write the name or the number of a group"),
    ('hand = "maybe"', "hand is 'maybe': write auto, off, or the engine's default cgroup parent: the name of a slice"),
    ('hand = "of"', "hand is 'of'; did you mean 'off'?"),
    ('tenants_may = ["pins"]', "tenants_may has 'pins'; did you mean 'pin'?"),
    ('tenants_may = "opt-outt"', "tenants_may has 'opt-outt'; did you mean 'opt-out'?"),
    ('state_dir = "here"', "state_dir is 'here': write the absolute path of a directory"),
    ('state_dir = "/a/../b"', "state_dir is '/a/../b': write the absolute path"),
    ('projections = "/"', "projections is '/': write the absolute path"),
    ('state_dir = "/run/cpuset-sidecar/x"', "is inside projections /run/cpuset-sidecar, which workloads mount"),
    ('policy = "static"', "c.toml, line 1: the policy static needs reserved CPUs, which are never given exclusively"),
    ("policy = \nshared_min = 1", "c.toml, line 1: the configuration is not TOML: a value is missing or misspelt"),
    ('log_level = "loud"', "log_level is 'loud': write one of debug, info, warning, error"),
    ("unmanaged = [1]", "unmanaged is [1]: write a list of name patterns (db-*) or label=value patterns"),
]


@pytest.mark.parametrize(("text", "message"), FILE_MISTAKES)
def test_a_mistake_in_the_file_is_told_by_line_with_its_cure(tmp_path: Path, text: str, message: str) -> None:
    """The file, the line, the value, and what would be right."""
    with pytest.raises(ConfigError) as caught:
        from_text(tmp_path, text)
    assert message in str(caught.value)
    assert str(tmp_path / "c.toml") in str(caught.value) or "inside projections" in message


@pytest.mark.parametrize(
    ("environ", "flags", "message"),
    [
        (
            {"CPUSET_SIDECAR_RESERVED": "zero"},
            {},
            "the variable CPUSET_SIDECAR_RESERVED: reserved is 'zero': write a CPU list",
        ),
        (
            {"CPUSET_SIDECAR_POLICE": "x"},
            {},
            "the variable CPUSET_SIDECAR_POLICE: unknown key 'police'; did you mean 'policy'?",
        ),
        ({}, {"shared_min": "some"}, "the flag --shared-min: shared_min is 'some': write a whole number"),
        ({}, {"policy": "static"}, "the flag --policy: the policy static needs reserved CPUs"),
        (
            {},
            {"reserved": "count:0"},
            "the flag --reserved: reserved is 'count:0': a count of reserved CPUs is at least 1",
        ),
        ({}, {"reserved": "count:x"}, "the flag --reserved: reserved is 'count:x': write a CPU list"),
    ],
)
def test_a_mistake_elsewhere_names_the_variable_or_the_flag(
    environ: dict[str, str], flags: dict[str, str | None], message: str
) -> None:
    """The message says which of three places is wrong."""
    with pytest.raises(ConfigError) as caught:
        load(None, environ, flags)
    assert str(caught.value).startswith(message)


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    """A file that was named must exist, and be text."""
    with pytest.raises(ConfigError, match=r"nowhere\.toml cannot be read: there is no such file or directory"):
        load(str(tmp_path / "nowhere.toml"), {}, {})
    (tmp_path / "c.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="is not TOML"):
        load(str(tmp_path / "c.toml"), {}, {})
    (tmp_path / "c.toml").write_bytes(b"#" * 2_000_000)
    with pytest.raises(ConfigError, match="cannot be read: it is longer than 1048576 bytes"):
        load(str(tmp_path / "c.toml"), {}, {})


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("linger = 1\n\nlinger = 2\n", 3, "a key or section stands there twice (column 11)"),
        ("[a]\n[b]\n[a]", 3, "a key or section stands there twice (column 3)"),
        ("a = { b = 1, b = 2 }", 1, "a key or section stands there twice"),
        ("a = { b = 1 }\n[a.c]", 2, "a key or section stands there twice"),
        ("a = { b = 1 }\na.c = 2", 2, "what stands between brackets is complete"),
        ("a = yes", 1, "a value is missing or misspelt"),
        ("a =", 1, "a value is missing or misspelt"),
        ("a = 2020-02-31", 1, "there is no such date or time"),
        ("a", 1, "write KEY = VALUE, or [SECTION]"),
        ("= 1", 1, "write KEY = VALUE, or [SECTION]"),
        ("\n\u00e4 = 1", 2, "write KEY = VALUE, or [SECTION]"),
        ("a = 10s", 1, "something follows: write each key"),
        ("a = [1 2]", 1, "a comma or a closing bracket is missing"),
        ("a = [1\n\n", 1, "a comma or a closing bracket is missing"),
        ("[a\nb = 1", 1, "the closing bracket of a section is missing"),
        ('a = "x\nb = 1', 1, "there is a control character, or a line break inside a text"),
        ('a = "x', 1, "a closing quote is missing"),
        ("a = 'x", 1, "a closing quote is missing"),
        ('a = "C:\\x"', 1, "a backslash begins no known escape"),
        ("\n# \x00", 2, "there is a control character"),
        ("a = 1\nb = " + "9" * 5000, 2, "a number has too many digits"),
        ("\ufeffa = 1", 1, "it begins with a byte order mark: save it as UTF-8 without one"),
    ],
)
def test_what_is_not_toml_is_told_by_line_in_own_words(text: str, line: int, said: str) -> None:
    """The words of the parser reach nobody."""
    read = read_text(text, "c.toml", "the configuration")
    assert isinstance(read, Misreading)
    assert sentence(read).startswith(f"c.toml, line {line}: the configuration is not TOML: {said}")


def test_toml_that_is_nested_too_deeply_is_told() -> None:
    read = read_text("a = " + "[" * 5000, "c.toml", "the configuration")
    assert isinstance(read, Misreading)
    assert sentence(read) == "the configuration c.toml is not TOML: lists or tables are nested too deeply"


@pytest.mark.parametrize("key", sorted(KEYS))
def test_every_example_is_right(key: str) -> None:
    """What the help shows as an example is accepted."""
    load(None, {}, {"reserved": "0", key: KEYS[key].example})


@given(st.sampled_from(sorted(KEYS)), st.text(max_size=30))
def test_no_text_does_worse_than_an_error(key: str, text: str) -> None:
    """Any text in any variable is accepted, or is a ConfigError that names the variable."""
    name = f"CPUSET_SIDECAR_{key.upper()}"
    try:
        load(None, {name: text}, {})
    except ConfigError as error:
        message = str(error)
    else:
        message = f"the variable {name}: it is fine"
    assert message.startswith(f"the variable {name}: ")


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    """Those of file, variables and flags, in this order; each with its place, and a cut value is marked."""
    path = tmp_path / "c.toml"
    path.write_text(f'polcy = "static"\n\nlinger = "soon"\nunmanaged = 7\nnuma = "{"x" * 50}"\n[settings]\na = 1\n')
    with pytest.raises(ConfigError) as caught:
        load(str(path), {"CPUSET_SIDECAR_GRACE": "2h"}, {"shortage": "wayt"})
    assert [told.removeprefix(f"{path}, ") for told in caught.value.sentences] == [
        "line 1: unknown key 'polcy'; did you mean 'policy'?",
        "line 3: linger is 'soon': write a duration from 0s to 1h, in ms, s, m or h, like 10s",
        'line 4: unmanaged is 7: write a list of name patterns (db-*) or label=value patterns, like ["a", "b"] or a,b',
        f"line 5: numa is '{'x' * 39}…': write one of none, best-effort, restricted, single",
        "line 6: unknown section 'settings': the sections are options, tenants, rule, hook",
        "the variable CPUSET_SIDECAR_GRACE: grace is '2h': write a duration from 0s to 1m, in ms, s, m or h, like 10s",
        "the flag --shortage: shortage is 'wayt'; did you mean 'wait'?",
    ]
    assert str(caught.value).splitlines() == list(caught.value.sentences)


def test_values_that_contradict_each_other_are_all_told() -> None:
    """And values that the machine cannot have."""
    flags = {"policy": "static", "load_low": "0.9", "state_dir": "/run/cpuset-sidecar/x"}
    with pytest.raises(ConfigError) as caught:
        load(None, {}, flags)
    assert len(caught.value.sentences) == 3
    config = load(None, {}, {"policy": "static", "reserved": "9", "shared_min": "2"})
    with pytest.raises(ConfigError) as caught:
        config.check_against(uniform(cores=2))
    assert len(caught.value.sentences) == 2


def test_contradictions_are_told_beside_values_that_cannot_be_read() -> None:
    """And beside what the machine cannot have; but nothing is said of a key whose value is not known."""
    flags = {
        "policy": "static",
        "reserved": "count:9",
        "load_low": "0.9",
        "load_high": "0.1",
        "shared_min": "7",
        "options": "full-pcpus-only,distribute-cpus-across-cores",
        "linger": "soon",
    }
    with pytest.raises(ConfigError) as caught:
        load(None, {}, flags, lambda: uniform(cores=2))
    assert [told.partition(": ")[0] for told in caught.value.sentences] == [
        f"the flag --{key}" for key in ("options", "linger", "load-low", "reserved", "shared-min")
    ]
    with pytest.raises(ConfigError) as caught:
        load(None, {}, {"policy": "static", "reserved": "zero", "load_low": "0.9", "load_high": "x"})
    assert [told.partition(": ")[0] for told in caught.value.sentences] == [
        "the flag --reserved",
        "the flag --load-high",
    ]


def test_variables_and_flags_are_read_though_the_file_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text("policy = \n")
    with pytest.raises(ConfigError) as caught:
        load(str(tmp_path / "c.toml"), {"CPUSET_SIDECAR_LINGER": "soon"}, {})
    assert ["is not TOML" in told for told in caught.value.sentences] == [True, False]


@pytest.mark.parametrize("number", ["9" * 5000, "0x" + "f" * 5000])
def test_a_number_of_thousands_of_digits_is_a_mistake(number: str, tmp_path: Path) -> None:
    """Python refuses to parse it, and to print it."""
    with pytest.raises(ConfigError):
        from_text(tmp_path, f"linger = {number}")


names = st.sampled_from([*KEYS, "polizy", "x", "a b", "cpuset.exclusive"])
plain = (
    st.booleans() | st.integers(-(2**70), 2**70) | st.text(max_size=12) | st.sampled_from(["static", "0", "10s", "/x"])
)
values = (
    plain | st.lists(plain, max_size=3) | st.dictionaries(st.sampled_from(["a", "full-pcpus-only"]), plain, max_size=2)
)


def written(value: object) -> str:
    """Return the value in TOML, which has JSON's texts and numbers."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {written(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(written, value)) + "]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def keep_the_law(table: dict[str, object]) -> None:
    """Check that each line is read as if alone: its mistake is reported with its number, and none hides another.

    Contradictions are reported after that.
    """
    text = "\n".join(f"{json.dumps(name)} = {written(value)}" for name, value in table.items())
    wrong = [
        number
        for number, (name, value) in enumerate(table.items(), 1)
        if name not in KEYS or isinstance(KEYS[name].read(value), Flaw)
    ]
    read = read_text(text, "c.toml", "the configuration")
    assert not isinstance(read, Misreading)
    found = config_module.configured([Given(key, value, read.text.place(key=key)) for key, value in read.table.items()])
    told = () if isinstance(found, Config) else sentences(found)
    if wrong:
        lines = [re.match(r"c\.toml, line (\d+): ", each) for each in told[: len(wrong)]]
        assert [each and int(each[1]) for each in lines] == wrong
    assert all(each.isprintable() and len(each) < 1200 for each in told)


files = st.dictionaries(names, values, max_size=8)


@given(files)
def test_of_any_file_all_mistakes_are_told(table: dict[str, object]) -> None:
    keep_the_law(table)


def stops_at_the_first(given: Iterable[Given], readers: Mapping[str, Any], _: Iterable[str]) -> Any:
    """Report only the first mistake."""
    values, mistakes = read_all(given, readers)
    return values, mistakes[:1]


def forgets_what_is_unknown(given: Iterable[Given], readers: Mapping[str, Any], _: Iterable[str]) -> Any:
    """Ignore an unknown key."""
    return read_all([each for each in given if each.name in readers], readers)


@pytest.mark.parametrize("fault", [stops_at_the_first, forgets_what_is_unknown], ids=lambda it: it.__name__)
def test_a_planted_fault_breaks_the_law(fault: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The law has teeth."""
    monkeypatch.setattr(config_module, "read_all", fault)

    @TO_BE_BROKEN
    @given(files)
    def law(table: dict[str, object]) -> None:
        keep_the_law(table)

    with pytest.raises(AssertionError):
        law()


@given(st.text(st.characters(codec="utf-8")) | st.sampled_from(["[", "a.b.c = 1", "[[policy]]", "a = [" * 2000]))
def test_any_text_is_a_configuration_or_a_configuration_error(text: str) -> None:
    """No other exception."""
    read = read_text(text, "c.toml", "the configuration")
    if isinstance(read, Misreading):
        assert re.match(
            r"(c\.toml, line \d+: the configuration|the configuration c\.toml) is not TOML: ", sentence(read)
        )
        assert "it cannot be read" not in sentence(read)
        return
    configured([Given(key, value, read.text.place(key=key)) for key, value in read.table.items()])
