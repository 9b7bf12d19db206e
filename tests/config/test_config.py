"""Configuration comes from file, environment and flags, and fits the machine or gives the reason."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from sidecar.config.config import Config, configured, load, load_again
from sidecar.decide.settings import Band, OptIn, PolicyName, Settings
from sidecar.failures import ConfigError
from sidecar.readers import Given
from sidecar.words.misread import sentences
from state.cpuset import CPUSet
from state.demand import Shortage
from state.topology import topology, uniform, with_online

TINY = uniform(cores=2)


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
    """Every key, in TOML."""
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
        disturbed_period = "30s"
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
    assert config.disturbed_period_seconds == 30
    assert (config.cgroup, config.log_level, config.log_format) == ("/host/cgroup", "debug", "json")


def test_flags_win_over_variables_and_those_over_the_file(tmp_path: Path) -> None:
    """Later sources win, key by key; and each key remembers its source."""
    path = tmp_path / "c.toml"
    path.write_text('policy = "static"\nreserved = "count:2"\nlinger = 3\n')
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
        ('reserved = "2"', "2", 0),
        ('reserved = "count:2"', None, 2),
        ("reserved = [0, 4]", "0,4", 0),
    ],
)
def test_reserved_is_a_list_unless_it_says_count(tmp_path: Path, text: str, cpus: str | None, count: int) -> None:
    """`reserved = "2"` is CPU 2, `reserved = "count:2"` is two CPUs."""
    config = from_text(tmp_path, text)
    assert config.reserved == (CPUSet.parse(cpus) if cpus else None)
    assert config.reserved_count == count


def test_the_file_may_be_named_by_a_variable(tmp_path: Path) -> None:
    """CPUSET_SIDECAR_CONFIG holds its path, for containers."""
    (tmp_path / "c.toml").write_text("shared_min = 1")
    assert load(None, {"CPUSET_SIDECAR_CONFIG": str(tmp_path / "c.toml")}, {}).shared_min == 1


def test_it_can_be_read_again(tmp_path: Path) -> None:
    """On a signal: the file as it is now, under the same flags."""
    (tmp_path / "c.toml").write_text("shared_min = 0\nlinger = 1")
    config = load(str(tmp_path / "c.toml"), {}, {"linger": "7s", "policy": None})
    (tmp_path / "c.toml").write_text("shared_min = 1\nlinger = 2")
    again = load_again(config, {}, TINY)
    assert (again.shared_min, again.linger_seconds) == (1, 7)
    (tmp_path / "c.toml").write_text("shared_min = 2\nlinger = 2")
    with pytest.raises(ConfigError, match="shared_min is 2, and this machine has 2 CPUs: make it smaller"):
        load_again(again, {}, TINY)
    (tmp_path / "c.toml").write_text("shared_min = ")
    with pytest.raises(ConfigError, match="is not TOML"):
        load_again(again, {}, TINY)


def test_all_mistakes_are_found_when_it_is_read_again(tmp_path: Path) -> None:
    """Also what contradicts the machine, beside what cannot be read."""
    (tmp_path / "c.toml").write_text('policy = "static"\nreserved = "0"')
    config = load(str(tmp_path / "c.toml"), {}, {})
    (tmp_path / "c.toml").write_text('policy = "static"\nlinger = "soon"\nreserved = "0-1"')
    with pytest.raises(ConfigError) as caught:
        load_again(config, {}, TINY)
    assert len(caught.value.sentences) == 2


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
    """Off without one; a host name is invalid, except the one that is the same everywhere."""
    assert load(None, {}, {}).listen == ""
    assert load(None, {}, {"listen": written}).listen == meant


def test_an_empty_variable_is_not_given() -> None:
    """compose writes an empty variable for an unset one."""
    assert load(None, {"CPUSET_SIDECAR_POLICY": "", "CPUSET_SIDECAR_CONFIG": ""}, {}) == Config()


def test_the_variable_of_workloads_is_no_key() -> None:
    """CPUSET_SIDECAR_DIR is for `watch`, and does not end the daemon's start."""
    assert load(None, {"CPUSET_SIDECAR_DIR": "/run/x"}, {}) == Config()


def test_the_machine_must_have_what_is_reserved() -> None:
    """A reserved CPU that is missing, and a reservation of everything end the start. One that is offline does not, as
    it may be after a restart as well as before.
    """
    machine = topology(cores=[CPUSet.of(0), CPUSet.of(1)], offline=CPUSet.of(2))

    def check(**flags: str) -> tuple[str, ...]:
        return load(None, {}, {"policy": "static", **flags}).check_against(machine)

    assert check(reserved="0") == ()
    with pytest.raises(
        ConfigError, match="the flag --reserved: reserved is 0,9, but 9 is not on this machine: it has 0-2"
    ):
        check(reserved="0,9")
    [warning] = check(reserved="0,2")
    assert warning == (
        "the flag --reserved: reserved is 0,2, and CPU 2 is offline: it is reserved as soon as it is back"
    )
    for everything in ("0-2", "count:3", "count:7"):
        with pytest.raises(ConfigError, match=r"reserved takes \d of this machine's 3 CPUs"):
            check(reserved=everything)
    with pytest.raises(ConfigError, match="the flag --shared-min: shared_min is 3, and this machine has 3 CPUs"):
        check(reserved="0", shared_min="3")
    for nearly in ({"reserved": "0-1"}, {"reserved": "count:2"}, {"reserved": "0", "shared_min": "2"}):
        assert check(**nearly) == ("no CPU can be given exclusively while CPU 2 is offline",)


def test_a_reservation_that_splits_a_core_is_worth_a_warning() -> None:
    """Lawful, but under full-pcpus-only the sibling cannot be granted."""
    flags = {"policy": "static", "reserved": "0", "options": "full-pcpus-only"}
    warnings = load(None, {}, flags).check_against(uniform(cores=2, threads=2))
    assert warnings == ("reserved 0 splits cores: under full-pcpus-only CPU 2 cannot be granted",)


def test_a_core_with_an_offline_thread_is_worth_a_warning_under_full_pcpus_only() -> None:
    """It cannot be granted as a whole. A core that is narrower as such can."""
    machine = uniform(cores=4, threads=2)
    flags = {"policy": "static", "reserved": "0,4", "options": "full-pcpus-only"}
    [warning] = load(None, {}, flags).check_against(with_online(machine, machine.online - CPUSet.of(6)))
    assert warning == "a thread of the same core is offline: under full-pcpus-only CPU 2 cannot be granted"
    narrow = topology(cores=[CPUSet.of(0, 4), CPUSet.of(1), CPUSet.of(2)])
    assert load(None, {}, flags).check_against(narrow) == ()


@pytest.mark.parametrize(
    ("flags", "isolated", "warning"),
    [
        ({}, "", ""),
        ({}, "2-3", "the kernel isolates CPUs 2-3, over which it does not balance threads"),
        ({"policy": "none"}, "2-3", ""),
        ({"isolated": "prefer"}, "2-3", ""),
        ({"isolated": "only"}, "", "isolated is only, and the kernel isolates no CPUs here"),
        ({"isolated": "prefer"}, "0,3", "reserved has isolated CPUs (0): several threads there would all sit on one"),
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
    with pytest.raises(
        ConfigError, match="the flag --options: align-by-socket needs at least as many NUMA nodes as sockets"
    ):
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
    """In the form of the engine's default parent; decisions get it, too."""
    config = configured([Given("shared_slice", text, "here")])
    assert isinstance(config, Config)
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
    """Including a slice that systemd and OCI runtimes look for in different places."""
    found = configured([Given("shared_slice", value, "here")])
    assert not isinstance(found, Config)
    [told] = sentences(found)
    assert words in told


@pytest.mark.parametrize(
    ("reserved", "doubt"),
    [
        ("2", ("the flag --reserved: reserved is CPU 2 alone: for 2 CPUs write count:2",)),
        ("1", ("the flag --reserved: reserved is CPU 1 alone: for 1 CPU write count:1",)),
        ("0", ()),
        ("2-2", ()),
        ("1-2", ()),
        ("count:2", ()),
    ],
)
def test_one_number_as_text_that_looks_like_a_count_is_worth_a_warning(reserved: str, doubt: tuple[str, ...]) -> None:
    """RESERVED: "2" looks like two CPUs, and is CPU 2. 0 cannot be meant as a count."""
    assert load(None, {}, {"policy": "static", "reserved": reserved}).check_against(uniform(cores=4)) == doubt
