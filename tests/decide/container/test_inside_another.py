"""A container whose cgroup lies inside another container's is seen as such, and never placed."""

from __future__ import annotations

import msgspec
import pytest

from sidecar.decide.container.container import Standing
from sidecar.decide.container.originals import originals_of
from sidecar.decide.container.wish import wish_of
from sidecar.decide.facts import ContainerView, Phase
from sidecar.decide.hand_state import HandState
from sidecar.decide.moves.newborn_answers import answers_of, standing_answers
from sidecar.decide.moves.starts import answer_to
from sidecar.decide.moves.starts_from_books import from_books
from sidecar.decide.settings import Settings, TenantRight
from sidecar.decide.sightings import sighted
from sidecar.decide.world import World, replace, without
from sidecar.systemd_names import (
    cleaned_parent,
    is_inside_a_container,
    outside_containers,
    parent_in,
    parent_path,
)
from sidecar.words.refusals import warnings
from state.cpuset import CPUSet
from state.key import ContainerKey
from state.refusal import RefusalCode
from tests.support.decide.stories import Story

ID = "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("parent", "is_inside"),
    [
        ("", False),
        ("/docker", False),
        ("team.slice", False),
        (f"machine-libpod_pod_{ID}.slice", False),
        (f"/docker/{ID[:12]}", False),
        (f"/docker/{ID}", True),
        (f"docker/{ID}/deeper", True),
        (f"/system.slice/docker-{ID}.scope", True),
        (f"/machine.slice/libpod-{ID}.scope/container", True),
    ],
)
def test_a_parent_inside_a_container_is_known_by_its_name(parent: str, is_inside: bool) -> None:
    """On both versions of cgroups and under both drivers; a pod of Podman is no container."""
    assert is_inside_a_container(parent) is is_inside


@pytest.mark.parametrize(
    ("parent", "place"),
    [
        ("", ""),
        ("/docker", ""),
        (f"/docker/{ID}", "/docker"),
        (f"tenants/one/{ID}/deeper/{ID}", "/tenants/one"),
        (f"/{ID}", "/"),
        (f"/system.slice/docker-{ID}.scope", "/system.slice"),
    ],
)
def test_where_the_outermost_container_lies_is_watched(parent: str, place: str) -> None:
    """Whether it is a container or only called like one: no order reaches what is inside, and the hand confines it with
    the outermost.
    """
    assert outside_containers(parent) == place
    story = Story()
    view = ContainerView(engine="docker", id="f" * 64, name="evil", phase=Phase.RUNNING, cgroup_parent=parent)
    world = sighted(replace(story.world, hand=HandState(parents=("/docker",))), view, story.ticket())
    _, [order] = standing_answers(world)
    assert order.parents == tuple({place or parent} - {""})


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("", ""),
        ("/", "/"),
        ("team-a.slice", "team-a.slice"),
        ("docker", "docker"),
        ("/docker/", "/docker/"),
        ("/docker//x", "/docker/x"),
        ("//docker/x", "/docker/x"),
        ("/docker/./x", "/docker/x"),
        ("/elsewhere/../docker/x", "/docker/x"),
        ("/docker/x/../x", "/docker/x"),
        ("/../docker/x//deep/", "/docker/x/deep"),
        ("../docker/x", "/docker/x"),
        ("..", "/"),
    ],
)
def test_a_parent_is_what_runtimes_make_of_it_however_it_is_written(written: str, meant: str) -> None:
    assert cleaned_parent(written).rstrip("/") == meant.rstrip("/")
    assert parent_path(written) == parent_path(meant)
    assert parent_in(f"{written}/{ID}").strip("/") == meant.strip("/")


def test_a_pod_is_no_container() -> None:
    """Under cgroupfs the cgroup of a pod is called by its id alone. A container in it is one all the same."""
    pod = "b" * 64
    assert not is_inside_a_container(f"/libpod_parent/{pod}", pod)
    assert is_inside_a_container(f"/libpod_parent/{pod}/libpod-{ID}", pod)
    assert is_inside_a_container(f"/libpod_parent/{pod}")


def test_one_inside_another_is_left_alone_and_refused_with_the_cure() -> None:
    """Whatever it asks for: it has the other container's CPUs, and no order reaches it."""
    view = ContainerView(
        id="f" * 64, name="evil", phase=Phase.RUNNING, cgroup_parent=f"/docker/{ID}", labels={"cpuset.exclusive": "1"}
    )
    wish = wish_of(view, Settings(), originals_of(view), CPUSet.parse("0-7"), is_placed=True)
    assert (wish.standing, wish.demand) == (Standing.UNMANAGED, None)
    assert wish.refusal is not None
    assert wish.refusal.code is RefusalCode.CONTRADICTION
    [said] = warnings(wish)
    assert "recreate it with another cgroup_parent" in said


def test_one_without_a_cgroup_is_left_alone_too() -> None:
    """It runs in the cgroup of whatever started it: what it asks for is refused, with the cure, and never ordered."""
    view = ContainerView(
        id="f" * 64, name="loose", phase=Phase.RUNNING, has_no_cgroup=True, labels={"cpuset.exclusive": "1"}
    )
    wish = wish_of(view, Settings(), originals_of(view), CPUSet.parse("0-7"))
    assert (wish.standing, wish.demand) == (Standing.UNMANAGED, None)
    assert "no cgroup of its own (cgroups is 'disabled')" in warnings(wish)[0]


def test_its_held_start_is_refused() -> None:
    """Under the strict start it never runs on the other container's CPUs."""
    story = Story()
    real = story.arrive("evil", starts=False)
    known = story.known(real)
    inside = replace(known.view, cgroup_parent=f"/docker/{ID}", runtime="cpuset")
    world = sighted(story.world.without_container(real.key, 0), inside, story.ticket())
    answer = answer_to(world, world.containers[real.key], 1)
    assert answer is not None
    assert answer.refusal is not None
    assert from_books(world, inside, story.ticket()) is not None


def test_a_name_stands_for_a_container_below_its_parent_alone() -> None:
    """The hand is told which parents containers name, and of which that is not known, once any names one."""
    story = Story()
    plain, glanced = story.arrive("plain"), story.arrive("glanced")
    world = replace(story.world, hand=HandState(parents=("/docker",)))
    world = _only_glanced_at(world, glanced.key)
    answers = answers_of(world)
    assert (answers.named, answers.unplaced) == ({}, frozenset())
    views = (
        ContainerView(engine="docker", id="e" * 64, name="named", phase=Phase.RUNNING, cgroup_parent="team.slice"),
        ContainerView(engine="docker", id="f" * 64, name="evil", phase=Phase.RUNNING, cgroup_parent=f"/docker/{ID}"),
        ContainerView(
            engine="docker", id="d" * 64, name="found", cgroup_parent="/x", phase=Phase.RUNNING, found_below="/outer/x"
        ),
        ContainerView(engine="docker", id="c" * 64, name="new", phase=Phase.RUNNING, is_glance=True),
    )
    for view in views:
        world = sighted(world, view, story.ticket())
    answers = answers_of(world)
    assert answers.named == {
        views[0].key: "team.slice",
        views[1].key: f"/docker/{ID}",
        views[2].key: "/outer/x",
    }
    assert answers.unplaced == {views[3].key}
    assert {plain.key, glanced.key} <= answers.own.keys()


def test_one_that_is_found_elsewhere_may_be_there() -> None:
    """No container names a parent, but something with the name of one that was only glanced at runs below another."""
    story = Story()
    world = replace(story.world, hand=HandState(parents=("/docker",), home=("/docker",)))
    view = ContainerView(engine="docker", id="c" * 64, name="new", phase=Phase.RUNNING, is_glance=True)
    assert not answers_of(sighted(world, replace(view, found_below="/docker"), story.ticket())).unplaced
    assert answers_of(sighted(world, replace(view, found_below="/team"), story.ticket())).unplaced == {view.key}


@pytest.mark.parametrize(
    ("parent", "found", "named"),
    [
        ("", "", ""),
        ("", "/x", ""),
        ("/team", "", "/team"),
        ("/team", "/x", "/team"),
        ("/team", "/outer/team", "/outer/team"),
        ("team-a.slice", "/user/team.slice/team-a.slice", "/user/team.slice/team-a.slice"),
    ],
)
def test_the_books_have_the_place_of_what_is_only_glanced_at(parent: str, found: str, named: str) -> None:
    """A group that a tenant has the engine make with its name (`--cgroup-parent /x/ID`) is not it, also if a look finds
    that first. And the same holds of one that only the books know.
    """
    story = Story()
    owner = story.arrive("owner", 1)
    world = replace(story.world, hand=HandState(parents=("/docker",)))
    world = replace(world, state=world.state.naming_parent(owner.key, parent))
    evil = ContainerView(engine="docker", id="e" * 64, name="evil", phase=Phase.RUNNING, cgroup_parent="/x")
    world = sighted(world, evil, story.ticket())
    answers = answers_of(_only_glanced_at(world, owner.key, found))
    assert answers.named == ({owner.key: named} if named else {}) | {evil.key: "/x"}
    assert owner.key in answers.own.keys() - answers.unplaced
    answers = answers_of(_only_in_the_books(world, owner.key))
    assert answers.named == ({owner.key: parent} if parent else {}) | {evil.key: "/x"}
    assert owner.key in answers.own.keys() - answers.unplaced


@pytest.mark.parametrize("path", ["/libpod_parent/{}", "/machine.slice/machine-libpod_pod_{}.slice", "/team/{}"])
def test_a_pods_container_is_where_a_look_shows_it(path: str) -> None:
    """So a group elsewhere that is called like it (`--cgroup-parent /x/libpod-ID`) is a newborn. At rest, and where
    only a glance shows it, it may be anywhere: its pod's group comes and goes.
    """
    story = Story()
    world = replace(story.world, hand=HandState(parents=("/libpod_parent",)))
    pod, found = "a" * 64, path.format("a" * 64)
    view = ContainerView(
        engine="podman", id="c" * 64, name="voice", phase=Phase.RUNNING, pod=pod, found_below=found, cgroup_parent=pod
    )
    answers = answers_of(sighted(world, view, story.ticket()))
    assert (answers.named[view.key], answers.unplaced) == (found, frozenset())
    for unknown in (
        replace(view, is_glance=True),
        replace(view, found_below=""),
        replace(view, found_below="/x"),
        replace(view, phase=Phase.EXITED, found_below=""),
    ):
        assert view.key not in answers_of(sighted(world, unknown, story.ticket())).named


def test_a_parent_that_only_one_left_alone_names_is_named() -> None:
    """A container whose parent is not known may be below that as well."""
    story = Story(may=(TenantRight.OPT_OUT,))
    glanced = ContainerView(engine="docker", id="c" * 64, name="new", phase=Phase.CREATED, is_glance=True)
    world = replace(story.world, hand=HandState(parents=("/docker",)))
    world = sighted(world, glanced, story.ticket())
    assert answers_of(world).unplaced == frozenset()
    labels = {"cpuset.manage": "off"}
    out = ContainerView(
        engine="docker", id="e" * 64, name="out", phase=Phase.RUNNING, labels=labels, cgroup_parent="/team"
    )
    assert answers_of(sighted(world, out, story.ticket())).unplaced == {glanced.key}


def test_books_of_an_earlier_version_lack_the_place() -> None:
    """The container may be anywhere then, until a look at it."""
    story = Story()
    owner = story.arrive("owner", 1)
    world = replace(story.world, hand=HandState(parents=("/docker",)))
    before = msgspec.structs.replace(world.state.originals[owner.key], cgroup_parent=msgspec.UNSET)
    world = replace(
        world, state=msgspec.structs.replace(world.state, originals={**world.state.originals, owner.key: before})
    )
    evil = ContainerView(engine="docker", id="e" * 64, name="evil", phase=Phase.RUNNING, cgroup_parent="/x")
    world = sighted(_only_in_the_books(world, owner.key), evil, story.ticket())
    assert owner.key in answers_of(world).unplaced


def _only_in_the_books(world: World, key: ContainerKey) -> World:
    return replace(world, containers=without(world.containers, key))


def _only_glanced_at(world: World, key: ContainerKey, found_below: str = "") -> World:
    """Return the world in which nothing but glances showed this container, and found something of its name there."""
    known = world.containers[key]
    return world.with_container(
        replace(known, view=replace(known.view, is_glance=True, cgroup_parent="", found_below=found_below))
    )
