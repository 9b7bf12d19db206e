"""Below which groups containers are looked for."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from sidecar.decide.orders import Answers
from sidecar.hand.cgroup_hand import CgroupHand
from sidecar.hand.group_names import ParentKind
from sidecar.hand.parents import DEFAULTS, default_parents, is_path, users_manager, wanted_parents
from state.cpuset import CPUSet
from tests.support.hand.stages import until, v1_stage

MANAGER = "/user.slice/user-1000.slice/user@1000.service"


def test_the_engines_defaults_are_always_watched() -> None:
    assert wanted_parents(DEFAULTS, ()) == default_parents() == DEFAULTS
    assert default_parents("docker").keys() == {"/docker", "/system.slice"}


def test_what_a_container_names_is_a_path_or_a_slice() -> None:
    named = wanted_parents(DEFAULTS, ["/tenants/one", "tenants/two/", "batch-night.slice"]).keys() - DEFAULTS
    assert named == {"/tenants/one", "/tenants/two", "/batch.slice/batch-night.slice"}


def test_below_what_a_container_names_anything_else_may_be() -> None:
    """A tenant may name any group of the host, and none of its other members is touched."""
    assert wanted_parents(DEFAULTS, ["/user.slice"])["/user.slice"] is ParentKind.GUESTS


def test_a_name_does_not_change_what_a_default_is() -> None:
    assert wanted_parents(DEFAULTS, ["/docker", "system.slice"]) == DEFAULTS


@pytest.mark.parametrize("name", ["..", "/a/../b", "/a b", "/a\nb", "a" * 300, "/."])
def test_what_is_no_path_is_left_out(name: str) -> None:
    assert wanted_parents(DEFAULTS, [name]) == DEFAULTS
    assert not is_path(f"/{name.strip('/')}")


def test_the_root_is_a_parent_as_any_other() -> None:
    """Docker takes it (`--cgroup-parent /`). No name is none."""
    assert wanted_parents(DEFAULTS, ["/", ""]).keys() - DEFAULTS == {"/"}


def test_a_users_engine_has_its_containers_below_the_users_manager() -> None:
    found = wanted_parents(default_parents(manager=MANAGER), ["batch.slice"], MANAGER)
    assert {f"{MANAGER}/user.slice", f"{MANAGER}/batch.slice", "/batch.slice"} < found.keys()


def test_a_parent_that_is_configured_stands_for_the_defaults() -> None:
    """A path is the engine's own, with all that is below it; a slice may have other guests."""
    assert default_parents("docker", "", "/lane-3") == {"/lane-3": ParentKind.OWN}
    assert default_parents("podman", "", "/lane-3") == {"/lane-3": ParentKind.PODS}
    assert default_parents("docker", "", "x.slice") == {"/x.slice": ParentKind.GUESTS}
    assert default_parents("podman", MANAGER, "x.slice").keys() == {"/x.slice", f"{MANAGER}/x.slice"}


def test_once_it_is_known_where_containers_are_the_other_defaults_are_left_to_others() -> None:
    """Another engine may have them."""
    assert wanted_parents(DEFAULTS, ["/t"], home=["/docker"]).keys() == {"/docker", "/t"}
    assert wanted_parents(DEFAULTS, [], home=["/lane-3"]) == {"/lane-3": ParentKind.GUESTS}
    several = wanted_parents(DEFAULTS, [], home=["/lane-3"], keeps_defaults=True)
    assert several == {**DEFAULTS, "/lane-3": ParentKind.GUESTS}


@pytest.mark.parametrize(
    ("text", "manager"),
    [
        (f"0::{MANAGER}/app.slice/sidecar.service\n", MANAGER),
        (f"1:cpuset:/\n0::{MANAGER}\n", MANAGER),
        ("0::/system.slice/sidecar.service\n", ""),
        ("1:cpuset:/\n", ""),
    ],
)
def test_the_users_manager_is_read_from_the_process(tmp_path: Path, text: str, manager: str) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "cgroup").write_text(text)
    assert users_manager(str(tmp_path)) == manager


def test_without_proc_the_manager_is_the_hosts(tmp_path: Path) -> None:
    assert users_manager(str(tmp_path)) == ""


def test_a_parent_that_an_engine_seems_to_have_is_watched_beside_the_defaults(tmp_path: Path) -> None:
    """What is born there first is answered, as soon as the engine makes the parent. It is the home of none until a look
    shows a container there.
    """
    answers, born = Answers(others=CPUSet.of(0)), f"/tenants/{'a' * 64}"
    with v1_stage(tmp_path, None) as stage:
        stage.make("/docker")
        with closing(CgroupHand.open(None, "docker", also=("/tenants",), cgroup=stage.cgroup)) as hand:
            hand.hold(answers)
            assert (hand.parents, hand.home) == (("/docker",), ())
            stage.make("/tenants")
            stage.make(born)
            until(lambda: stage.cpus(born) == "0")
            hand.hold(answers, home=("/docker",))
            assert hand.parents == ("/docker",)
