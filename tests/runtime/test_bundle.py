"""The changes to a container's config.json, and how it is read and written without the package json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.runtime import bundle

TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)
OBJECTS = st.dictionaries(TEXT, VALUES, max_size=6)

AT = "/run/cpuset-sidecar"


@given(OBJECTS, st.sampled_from([None, 1, 2]), st.booleans())
def test_json_reads_as_the_standard_library_reads_it(value: dict[str, Any], indent: int | None, is_ascii: bool) -> None:
    """In any spelling, with blank space around it."""
    written = json.dumps(value, indent=indent, ensure_ascii=is_ascii)
    assert bundle.loaded(f" \n{written}\t\r\n".encode()) == value


@given(OBJECTS)
def test_what_is_written_reads_the_same_with_the_standard_library(value: dict[str, Any]) -> None:
    """Numbers of any length, characters of any script, keys in their order."""
    again = json.loads(bundle.dumped(value))
    assert again == value
    assert list(again) == list(value)


@given(st.binary(max_size=40))
def test_bytes_are_an_object_or_a_refusal(content: bytes) -> None:
    """There is no other outcome."""
    try:
        found = bundle.loaded(content)
    except bundle.StartRefused:
        return
    assert isinstance(found, dict)


def test_the_parts_of_the_package_json_serve_here() -> None:
    """On this Python the parts are as expected; elsewhere the package itself is used."""
    loads, dumps = bundle._without_json()
    assert (bundle._loads.__qualname__, bundle._dumps.__qualname__) == (loads.__qualname__, dumps.__qualname__)
    other_loads, other_dumps = bundle._with_json()
    assert other_loads(dumps({"é": [1.5, None]})) == loads(other_dumps({"é": [1.5, None]})) == {"é": [1.5, None]}


@given(OBJECTS)
def test_a_change_touches_nothing_but_what_it_says(spec: dict[str, Any]) -> None:
    """A conflicting value is replaced; all other values stay."""
    others = {key: value for key, value in spec.items() if key != "linux"}
    bundle.apply(spec, {"cpus": "1-2", "mems": None, "quota": -1})
    assert {key: value for key, value in spec.items() if key != "linux"} == others
    assert spec["linux"]["resources"]["cpu"] == {"cpus": "1-2", "quota": -1}


def mounted(tmp_path: Path, *mounts: dict[str, Any]) -> tuple[str, list[Any]]:
    """Return why it is left out, and the mounts that were added."""
    (tmp_path / "by-id/x").mkdir(parents=True)
    spec: dict[str, Any] = {"mounts": list(mounts)}
    reason = bundle.mount(spec, str(tmp_path), "by-id/x", AT)
    return reason, spec["mounts"][len(mounts) :]


@pytest.mark.parametrize("at", [AT, f"{AT}/", f"{AT}/by-id", "/var/run/cpuset-sidecar", "//run/./cpuset-sidecar"])
def test_a_container_that_mounts_there_already_gets_nothing_over_it(tmp_path: Path, at: str) -> None:
    """In any spelling: it is the user's own mount."""
    assert mounted(tmp_path, {"destination": at}) == ("", [])


@pytest.mark.parametrize(
    "mounts",
    [
        [],
        [{"destination": "/run", "type": "tmpfs"}],
        [{"destination": "/run/cpuset-sidecar-2"}],
        [{"destination": "/run", "options": ["ro"]}, {"destination": "/var/run", "options": ["rw"]}],
        [{"destination": None}, "nonsense", {}],
        [{"destination": "/", "options": ["ro"]}],
    ],
)
def test_others_are_no_obstacle(tmp_path: Path, mounts: list[Any]) -> None:
    """It comes last, on top of mounts above it."""
    reason, added = mounted(tmp_path, *mounts)
    assert (reason, [each["destination"] for each in added]) == ("", [AT])


def test_a_place_that_cannot_be_made_is_left_alone(tmp_path: Path) -> None:
    """A container that mounts /run read-only would not start at all."""
    reason, added = mounted(tmp_path, {"destination": "/run", "options": ["rbind", "ro"]})
    assert "/run is mounted read-only" in reason
    assert added == []


@pytest.mark.parametrize("directory", ["", "/etc", "../x", "by-id/../../x", "by-id//x"])
def test_nothing_outside_the_root_is_mounted(tmp_path: Path, directory: str) -> None:
    """For any answer: only paths below the root of the installation are mounted."""
    spec: dict[str, Any] = {}
    assert "is not a projection directory" in bundle.mount(spec, str(tmp_path), directory, AT)
    assert spec == {}


def test_a_planted_link_is_not_followed(tmp_path: Path) -> None:
    """A workload that may write to the whole root cannot make another container mount host files."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "root").mkdir()
    (tmp_path / "root/by-id").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere/x").mkdir()
    spec: dict[str, Any] = {}
    assert "leads elsewhere" in bundle.mount(spec, str(tmp_path / "root"), "by-id/x", AT)
    assert spec == {}
    (tmp_path / "link").symlink_to(tmp_path / "root")
    (tmp_path / "root/by-id").unlink()
    (tmp_path / "root/by-id/x").mkdir(parents=True)
    assert bundle.mount(spec, str(tmp_path / "link"), "by-id/x", AT) == ""


def test_a_directory_that_does_not_come_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For instance, if the projections are in a volume that the host does not know."""
    monkeypatch.setattr(bundle, "DIRECTORY_SECONDS", 0.05)
    spec: dict[str, Any] = {}
    assert f"there is no {tmp_path}/by-id/x on the host" in bundle.mount(spec, str(tmp_path), "by-id/x", AT)
    assert spec == {}


def test_it_is_made_where_a_sidecar_is_at_home_that_has_written_none_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At boot, in an empty tmpfs: a container without the mount now would never see its projection."""
    monkeypatch.setattr(bundle, "DIRECTORY_SECONDS", 0.05)
    (tmp_path / ".staging").mkdir()
    spec: dict[str, Any] = {}
    assert bundle.mount(spec, str(tmp_path), "by-id/x", AT) == ""
    assert (tmp_path / "by-id/x").is_dir()


def test_dockers_own_files_identify_it(tmp_path: Path) -> None:
    """Next to the files that every container of Docker mounts; our labels first, long ones left out."""
    id = "a" * 64
    folder = tmp_path / "containers" / id
    folder.mkdir(parents=True)
    labels = {"cpuset.exclusive": "2", "long": "x" * 300, "none": None, **{f"a{n:03}": "" for n in range(100)}}
    (folder / "config.v2.json").write_text(json.dumps({"Name": "/voice", "Config": {"Labels": labels}}))
    spec = {"mounts": [{"destination": "/etc/hosts", "source": f"{folder}/hosts"}]}
    found = bundle.described(id, spec)
    assert found["name"] == "voice"
    assert found["labels"]["cpuset.exclusive"] == "2"
    assert len(found["labels"]) == bundle.MOST_LABELS
    assert bundle.described("b" * 64, spec) == {}
    (folder / "config.v2.json").write_text("nonsense")
    assert bundle.described(id, spec) == {}
    assert bundle.described(id, {"mounts": "nonsense"}) == {}


@pytest.mark.parametrize(
    "path",
    [
        f"/machine.slice/libpod-{'a' * 64}.scope/container",
        f"machine.slice:libpod:{'a' * 64}",
        f"/libpod_parent/libpod-{'a' * 64}",
        f"/libpod_parent/{'b' * 64}/libpod-{'a' * 64}",
        f"machine-libpod_pod_{'b' * 64}.slice:libpod:{'a' * 64}",
        f"/docker/{'a' * 64}",
    ],
)
def test_the_id_is_found_in_the_path_of_the_cgroup(path: str) -> None:
    """In the spelling of every driver, and in a pod: that of the container, and not of its pod."""
    assert bundle.id_in(path) == "a" * 64


def test_a_path_without_an_id_is_a_refusal() -> None:
    with pytest.raises(bundle.StartRefused, match="is not in the path"):
        bundle.id_in("/machine.slice/abc")


def test_a_number_that_json_cannot_hold_is_a_refusal() -> None:
    """It is read as infinity, and would be written as no JSON."""
    spec = bundle.loaded(b'{"linux": {"resources": {"cpu": {"shares": 1e999}}}}')
    with pytest.raises(bundle.StartRefused, match="cannot be written as JSON"):
        bundle.dumped(spec)


def test_a_null_character_in_a_path_is_no_crash() -> None:
    spec = bundle.loaded(b'{"mounts": [{"source": "/\\u0000/c/hostname", "destination": "/etc/hostname"}]}')
    assert bundle.described("c", spec) == {}
    assert "not a projection directory" in bundle.mount(spec, "/run", "by-id/a\0b", "/run/x")
    assert "not a projection directory" in bundle.mount(spec, "/run", "by-id/a", "/run/\0")
