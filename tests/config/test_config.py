"""Configuration comes from file, environment and flags, and every mistake is told where it stands, with its cure."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.config.config import Config, Given, configured, load, load_again
from sidecar.config.keys import KEYS
from sidecar.decide.settings import Band, OptIn, PolicyName, Settings
from sidecar.failures import ConfigError
from state.cpuset import CPUSet
from state.model import Shortage
from state.topology import topology, uniform


def from_text(tmp_path: Path, text: str) -> Config:
    path = tmp_path / "c.toml"
    path.write_text(text)
    return load(str(path), {}, {})


def test_nothing_said_means_nothing_touched() -> None:
    """Without any configuration the policy is none."""
    config = load(None, {}, {})
    assert config == Config()
    assert config.settings() == Settings()
    assert config.settings().policy is PolicyName.NONE


def test_a_whole_file_is_read(tmp_path: Path) -> None:
    """Every key, in the words of TOML."""
    config = from_text(
        tmp_path,
        """
        policy = "static"
        reserved = "0,8-9"
        options = ["strict-cpu-reservation", "full-pcpus-only"]
        shared_min = 2
        opt_in = "guaranteed"
        shortage = "wait"
        linger = "500ms"
        reconcile_period = 30
        load_period = "500ms"
        load_half_life = "1m"
        load_low = 0.25
        load_high = 1
        load_pressure = 12.5
        engine = "/run/docker.sock"
        state_dir = "/srv/state/"
        projections = "/run/p"
        unmanaged = ["db-*", "role=backup"]
        cgroup = "/host/cgroup"
        log_level = "debug"
        log_format = "json"
        """,
    )
    assert config.settings() == Settings(
        policy=PolicyName.STATIC,
        reserved_cpus=CPUSet.parse("0,8-9"),
        options=("full-pcpus-only", "strict-cpu-reservation"),
        shared_min=2,
        opt_in=OptIn.GUARANTEED,
        shortage=Shortage.WAIT,
        linger_seconds=0.5,
        band=Band(low=0.25, high=1.0, pressure=12.5),
        unmanaged=("db-*", "role=backup"),
        projections="/run/p",
    )
    assert (config.reconcile_seconds, config.engine, config.state_dir) == (30, "unix:///run/docker.sock", "/srv/state")
    assert (config.load_period_seconds, config.load_half_life_seconds) == (0.5, 60)
    assert (config.cgroup, config.log_level, config.log_format) == ("/host/cgroup", "debug", "json")


def test_flags_win_over_variables_and_those_over_the_file(tmp_path: Path) -> None:
    """Later ones win, key by key; and each key remembers where it was given."""
    path = tmp_path / "c.toml"
    path.write_text('policy = "static"\nreserved = 2\nlinger = 3\n')
    config = load(str(path), {"CPUSET_SIDECAR_RESERVED": "0", "CPUSET_SIDECAR_LINGER": "4s"}, {"linger": "5s"})
    assert (config.reserved, config.reserved_count, config.linger_seconds) == (CPUSet.of(0), 0, 5)
    assert config.origins == {
        "policy": f"{path}, line 1",
        "reserved": "the variable CPUSET_SIDECAR_RESERVED",
        "linger": "the flag --linger",
    }


@pytest.mark.parametrize(
    ("text", "cpus", "count"),
    [
        ("reserved = 2", None, 2),
        ('reserved = "2"', "2", 0),
        ('reserved = "count:2"', None, 2),
        ("reserved = [0, 4]", "0,4", 0),
    ],
)
def test_reserved_is_a_list_as_text_and_a_count_as_number(
    tmp_path: Path, text: str, cpus: str | None, count: int
) -> None:
    """`reserved = 2` is two CPUs, `reserved = "2"` is CPU 2."""
    config = from_text(tmp_path, text)
    assert config.reserved == (CPUSet.parse(cpus) if cpus else None)
    assert config.reserved_count == count


def test_the_file_may_be_named_by_a_variable(tmp_path: Path) -> None:
    """CPUSET_SIDECAR_CONFIG says where it is, for containers."""
    (tmp_path / "c.toml").write_text("shared_min = 1")
    assert load(None, {"CPUSET_SIDECAR_CONFIG": str(tmp_path / "c.toml")}, {}).shared_min == 1


def test_it_can_be_read_again(tmp_path: Path) -> None:
    """On a signal: the file as it is now, under the same flags."""
    (tmp_path / "c.toml").write_text("shared_min = 1\nlinger = 1")
    config = load(str(tmp_path / "c.toml"), {}, {"linger": "7s", "policy": None})
    (tmp_path / "c.toml").write_text("shared_min = 2\nlinger = 2")
    again = load_again(config, {})
    assert (again.shared_min, again.linger_seconds) == (2, 7)
    (tmp_path / "c.toml").write_text("shared_min = ")
    with pytest.raises(ConfigError, match="is not TOML"):
        load_again(again, {})


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("127.0.0.1:9413", "127.0.0.1:9413"),
        ("localhost:9413", "127.0.0.1:9413"),
        ("[::1]:9413", "[::1]:9413"),
        ("[0:0::1]:09413", "[::1]:9413"),
        ("0.0.0.0:80", "0.0.0.0:80"),
    ],
)
def test_where_to_listen_is_an_address_and_a_port(written: str, meant: str) -> None:
    """Off without; a name is none, but for the one that is the same everywhere."""
    assert load(None, {}, {}).listen == ""
    assert load(None, {}, {"listen": written}).listen == meant


def test_an_empty_variable_is_not_given() -> None:
    """compose writes an empty variable where nobody set one."""
    assert load(None, {"CPUSET_SIDECAR_POLICY": "", "CPUSET_SIDECAR_CONFIG": ""}, {}) == Config()


def test_the_variable_of_workloads_is_no_key() -> None:
    """CPUSET_SIDECAR_DIR is for `watch`, and does not end the daemon's start."""
    assert load(None, {"CPUSET_SIDECAR_DIR": "/run/x"}, {}) == Config()


FILE_MISTAKES = [
    ('# ours\n\nreservd = "0"', "c.toml, line 3: unknown key 'reservd'; did you mean 'reserved'?"),
    ("[cpuset]\nx = 1", "c.toml, line 1: unknown key 'cpuset'; there is policy, reserved, options"),
    ('policy = "stattic"', "c.toml, line 1: policy is 'stattic'; did you mean 'static'?"),
    ("policy = 3", "c.toml, line 1: policy is 3: there is none, static"),
    ('policy = "dynamic"', "c.toml, line 1: the policy dynamic needs reserved CPUs, which are never given exclusively"),
    ('\nlisten = "x"', "c.toml, line 2: listen is 'x': write an address and a port, like 127.0.0.1:9413, [::1]:9413"),
    ("listen = 9413", "listen is 9413: write an address and a port"),
    ('listen = ":9413"', "listen is ':9413': write an address and a port"),
    ('listen = "node1:9413"', "listen is 'node1:9413': write an address and a port"),
    ('listen = "::1:9413"', "listen is '::1:9413': write an address and a port"),
    ('listen = "[127.0.0.1]:9413"', "listen is '[127.0.0.1]:9413': write an address and a port"),
    ('listen = "127.0.0.1:0"', "listen is '127.0.0.1:0': write an address and a port"),
    ('listen = "127.0.0.1:65536"', "listen is '127.0.0.1:65536': write an address and a port"),
    ('reserved = "0-"', 'reserved is \'0-\': write a CPU list like "0" or "0-1,8", or a count like 2'),
    ("reserved = 0", "reserved is 0: a count of reserved CPUs is at least 1"),
    ("reserved = true", "reserved is True: write a CPU list"),
    ("reserved = []", "reserved is []: write a CPU list"),
    ("reserved = [-1]", "reserved is [-1]: write a CPU list"),
    ('options = ["full-pcpu-only"]', "unknown option 'full-pcpu-only'; did you mean 'full-pcpus-only'?"),
    (
        'options = "full-pcpus-only,distribute-cpus-across-cores"',
        "full-pcpus-only and distribute-cpus-across-cores cannot be used together: choose one",
    ),
    ('options = "full-pcpus-only=maybe"', "full-pcpus-only is 'maybe': write true or false"),
    ('options = "fast=true"', "unknown option 'fast'; there is full-pcpus-only, strict-cpu-reservation"),
    ('numa = "together"', "there is none, best-effort, restricted, single"),
    ("numa = 1", "there is none, best-effort, restricted, single"),
    ('isolated = "yes"', "there is ignore, prefer, only"),
    ("options = 1", "options is 1: write a list of placement options, like"),
    ('shared_min = "-1"', "shared_min is '-1': write how many CPUs are never given exclusively"),
    ("shared_min = -1", "shared_min is -1: write how many CPUs"),
    ('linger = "10 parsecs"', "linger is '10 parsecs': write a duration between 0s and 3600s, like 10s, 500ms or 1m"),
    ("linger = -1", "linger is -1: write a duration"),
    ("reconcile_period = 0", "reconcile_period is 0: write a duration between 0.1s and 3600s"),
    ("load_period = 0", "load_period is 0: write a duration between 0.1s and 3600s"),
    ("load_half_life = 0.5", "load_half_life is 0.5: write a duration between 1s and 3600s"),
    ("load_low = 0", "load_low is 0: write how busy a CPU may be, above 0 and at most 1, like 0.5"),
    ("load_low = nan", "load_low is nan: write how busy a CPU may be"),
    ("load_low = true", "load_low is True: write how busy a CPU may be"),
    ("load_high = 1.01", "load_high is 1.01: write how busy a CPU may be"),
    ('load_high = "80%"', "load_high is '80%': write how busy a CPU may be"),
    ("load_low = 0.8", "c.toml, line 1: load_low is 0.8 and load_high 0.8: make load_low the smaller one"),
    ("load_high = 0.4", "c.toml, line 1: load_low is 0.5 and load_high 0.4: make load_low the smaller one"),
    ("load_pressure = 101", "load_pressure is 101: write a number of percent, above 0 and at most 100, like 20"),
    ("load_pressure = -1", "load_pressure is -1: write a number of percent"),
    ("linger = inf", "linger is inf: write a duration"),
    ('engine = "docker"', "engine is 'docker': write auto, or the address of an engine's socket"),
    ('state_dir = "here"', "state_dir is 'here': write the absolute path of a directory"),
    ('state_dir = "/a/../b"', "state_dir is '/a/../b': write the absolute path"),
    ('projections = "/"', "projections is '/': write the absolute path"),
    ('state_dir = "/run/cpuset-sidecar/x"', "is inside projections /run/cpuset-sidecar, which workloads mount"),
    ('policy = "static"', "c.toml, line 1: the policy static needs reserved CPUs, which are never given exclusively"),
    ("policy = \nshared_min = 1", "c.toml is not TOML: Invalid value (at line 1, column 10)"),
    ('log_level = "loud"', "log_level is 'loud'; there is debug, info, warning, error"),
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
        ({}, {"shared_min": "some"}, "the flag --shared-min: shared_min is 'some': write how many CPUs"),
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
    """Nobody has to guess which of three places is wrong."""
    with pytest.raises(ConfigError) as caught:
        load(None, environ, flags)
    assert str(caught.value).startswith(message)


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    """A file that was asked for must be there, and be text."""
    with pytest.raises(ConfigError, match=r"nowhere\.toml cannot be read: No such file or directory"):
        load(str(tmp_path / "nowhere.toml"), {}, {})
    (tmp_path / "c.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="is not TOML"):
        load(str(tmp_path / "c.toml"), {}, {})
    (tmp_path / "c.toml").write_bytes(b"#" * 2_000_000)
    with pytest.raises(ConfigError, match="2000000 bytes: this is something else"):
        load(str(tmp_path / "c.toml"), {}, {})


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


def test_the_machine_must_have_what_is_reserved() -> None:
    """A reserved CPU that is missing, or offline, and a reservation of everything end the start."""
    machine = topology(cores=[CPUSet.of(0), CPUSet.of(1)], offline=CPUSet.of(2))

    def check(**flags: str) -> tuple[str, ...]:
        return load(None, {}, {"policy": "static", **flags}).check_against(machine)

    assert check(reserved="0") == ()
    with pytest.raises(
        ConfigError, match="the flag --reserved: reserved is 0,9, but 9 is not on this machine: it has 0-1"
    ):
        check(reserved="0,9")
    with pytest.raises(ConfigError, match="reserved is 0,2, but 2 is offline: it has 0-1"):
        check(reserved="0,2")
    for everything in ("0-1", "count:2", "count:7"):
        with pytest.raises(ConfigError, match=r"reserved takes \d of this machine's 2 CPUs"):
            check(reserved=everything)
    with pytest.raises(ConfigError, match="the flag --shared-min: shared_min is 2, and this machine has 2 CPUs"):
        check(reserved="0", shared_min="2")


def test_a_reservation_that_splits_a_core_is_worth_a_warning() -> None:
    """Lawful, but under full-pcpus-only the sibling is of no use to anybody."""
    flags = {"policy": "static", "reserved": "0", "options": "full-pcpus-only"}
    warnings = load(None, {}, flags).check_against(uniform(cores=2, threads=2))
    assert warnings == ("reserved 0 splits cores: under full-pcpus-only nobody can get CPUs 2",)


def test_cores_of_different_widths_are_worth_a_warning_under_full_pcpus_only() -> None:
    """The kubelet's average is 1 there, so any number of CPUs is a number of cores to it."""
    machine = topology(cores=[CPUSet.of(0, 1), CPUSet.of(2), CPUSet.of(3)])
    flags = {"policy": "static", "reserved": "0-1", "options": "full-pcpus-only"}
    [warning] = load(None, {}, flags).check_against(machine)
    assert warning.startswith("cores have 1 or 2 threads here: full-pcpus-only counts with 1, the average")


@pytest.mark.parametrize(
    ("flags", "isolated", "warning"),
    [
        ({}, "", ""),
        ({}, "2-3", "the kernel isolates CPUs 2-3, over which it does not balance threads"),
        ({"policy": "none"}, "2-3", ""),
        ({"isolated": "prefer"}, "2-3", ""),
        ({"isolated": "only"}, "", "isolated is only, and the kernel isolates no CPUs here"),
        ({"isolated": "prefer"}, "0,3", "reserved has the isolated CPUs 0: several threads there would all sit on one"),
    ],
)
def test_what_is_lawful_about_isolated_cpus_and_perhaps_not_meant_is_a_warning(
    flags: dict[str, str], isolated: str, warning: str
) -> None:
    machine = msgspec.structs.replace(uniform(cores=4), isolated=CPUSet.parse(isolated))
    found = load(None, {}, {"policy": "static", "reserved": "0", **flags}).check_against(machine)
    assert len(found) == bool(warning)
    assert "".join(found).startswith(warning)


def test_options_that_this_machine_cannot_have_end_the_start() -> None:
    """align-by-socket, with more sockets than nodes or with one node for a request."""
    machine = topology(
        cores=[CPUSet.of(0), CPUSet.of(1)],
        nodes={0: CPUSet.of(0, 1)},
        packages={0: CPUSet.of(0), 1: CPUSet.of(1)},
    )
    config = load(None, {}, {"policy": "static", "reserved": "0", "options": "align-by-socket"})
    with pytest.raises(ConfigError, match="the flag --options: align-by-socket needs no fewer NUMA nodes than sockets"):
        config.check_against(machine)
    config = load(None, {}, {"policy": "static", "reserved": "0", "options": "align-by-socket", "numa": "single"})
    with pytest.raises(ConfigError, match="from one node: choose one"):
        config.check_against(uniform(packages=2, cores=2))


@pytest.mark.parametrize(
    "text",
    [
        'options = ["full-pcpus-only", "strict-cpu-reservation"]',
        'options = "strict-cpu-reservation=true,full-pcpus-only=1,align-by-socket=F"',
        "[options]\nfull-pcpus-only = true\nstrict-cpu-reservation = true\nalign-by-socket = false",
    ],
)
def test_options_may_be_written_as_the_kubelet_takes_them(tmp_path: Path, text: str) -> None:
    assert from_text(tmp_path, text).options == ("full-pcpus-only", "strict-cpu-reservation")


@pytest.mark.parametrize("text", ["", "sidecar-shared.slice", "a.slice", "/sidecar-shared", "/a/b.c"])
def test_a_shared_group_is_a_slice_or_a_path(text: str) -> None:
    """As the engine is told its default parent; and decisions are told it."""
    config = configured([Given("shared_slice", text, "here")])
    assert config.shared_slice == config.settings().shared_slice == text


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("sidecar-shared", "write the name of a slice"),
        ("a--b.slice", "write the name of a slice"),
        ("/", "write the name of a slice"),
        ("/a/../b", "write the name of a slice"),
        (1, "write the name of a slice"),
        (
            "cpuset-sidecar-shared.slice",
            "at /_cpuset.slice/cpuset-sidecar.slice/cpuset-sidecar-shared.slice, where OCI",
        ),
    ],
)
def test_what_cannot_be_a_shared_group_is_refused_with_what_can(value: object, words: str) -> None:
    """Also a slice that systemd and OCI runtimes look for in different places."""
    with pytest.raises(ConfigError, match=re.escape(words)):
        configured([Given("shared_slice", value, "here")])
