"""Which groups are written at birth, and which are never touched."""

from __future__ import annotations

import re

import pytest

from sidecar.hand.group_names import GroupKind, GroupName, ParentKind, has_inner_group, pattern_of, recognized

ID = "0123456789abcdef" * 4
CONTAINER = GroupName(GroupKind.CONTAINER, ID)
STEP = GroupName(GroupKind.STEP)
WRITTEN = [ParentKind.OWN, ParentKind.PODS, ParentKind.GUESTS]

NAMES = [
    ID,
    f"docker-{ID}.scope",
    f"libpod-{ID}.scope",
    f"libpod-{ID}",
    f"libpod-conmon-{ID}.scope",
    f"libpod-conmon-{ID}",
    f"machine-libpod_pod_{ID}.slice",
    "docker-x6fkzqp2m5c4j1v8n3b7t9w0y.scope",
    "system.slice:docker:x6fkzqp2m5c4j1v8n3b7t9w0y",
    "my-own\\x2dlane.slice:docker:x6fkzqp2m5c4j1v8n3b7t9w0y",
    "system.slice:docker:x6fkzqp2m5c4",
    "x6fkzqp2m5c4j1v8n3b7t9w0y",
    "ssh.service",
    "user.slice",
    "conmon",
    "supervisor",
    "buildkit",
    "container",
    "machine-qemu.scope",
    f"{ID}0",
    ID[1:],
    ID.upper(),
    f"nerdctl-{ID}.scope",
]


@pytest.mark.parametrize("below", WRITTEN)
@pytest.mark.parametrize("name", [f"docker-{ID}.scope", f"libpod-{ID}.scope", f"libpod-{ID}", f"nerdctl-{ID}.scope"])
def test_a_full_id_in_an_engines_form_is_a_container_everywhere(name: str, below: ParentKind) -> None:
    assert recognized(name.encode(), below) == CONTAINER


def test_a_bare_id_is_a_container_or_a_pod_by_its_parent() -> None:
    assert recognized(ID.encode(), ParentKind.OWN) == recognized(ID.encode(), ParentKind.GUESTS) == CONTAINER
    assert recognized(ID.encode(), ParentKind.PODS) == GroupName(GroupKind.PARENT)


@pytest.mark.parametrize("below", WRITTEN)
@pytest.mark.parametrize("name", [f"libpod-conmon-{ID}", "conmon", "supervisor", "user.slice"])
def test_monitors_and_slices_are_never_touched(name: str, below: ParentKind) -> None:
    assert recognized(name.encode(), below) is None


@pytest.mark.parametrize("name", ["ssh.service", ID[1:], f"{ID}0", "machine-qemu.scope", "x6fkzqp2m5c4j1v8n3b7t9w0y"])
def test_below_a_parent_with_other_guests_only_containers_and_steps_of_builds_count(name: str) -> None:
    assert recognized(name.encode(), ParentKind.GUESTS) is None
    assert recognized(name.encode(), ParentKind.OWN) == STEP


def test_steps_of_builds_are_found_with_both_drivers() -> None:
    assert recognized(b"docker-x6fkzqp2m5c4j1v8n3b7t9w0y.scope", ParentKind.GUESTS) == STEP
    assert recognized(b"system.slice:docker:x6fkzqp2m5c4j1v8n3b7t9w0y", ParentKind.GUESTS) == STEP
    assert recognized(b"buildkit", ParentKind.GUESTS) == GroupName(GroupKind.PARENT)


def test_pods_of_podman_are_parents_under_systemd() -> None:
    found = recognized(f"machine-libpod_pod_{ID}.slice".encode(), ParentKind.GUESTS)
    assert found == GroupName(GroupKind.PARENT, parent_kind=ParentKind.GUESTS)


def test_in_a_scope_only_cruns_group_is_the_containers() -> None:
    assert recognized(b"container", ParentKind.SCOPE) == GroupName(GroupKind.CONTAINER)
    assert recognized(ID.encode(), ParentKind.SCOPE) is None
    assert has_inner_group(f"libpod-{ID}.scope".encode())
    assert not has_inner_group(f"docker-{ID}.scope".encode())


@pytest.mark.parametrize("below", WRITTEN)
@pytest.mark.parametrize("name", NAMES)
def test_the_reflex_answers_no_name_that_is_not_recognized(name: str, below: ParentKind) -> None:
    """It writes only groups that the watcher would write, and all containers among them."""
    found = recognized(name.encode(), below)
    if re.match(pattern_of(below), name.encode()):
        assert found
        assert found.kind is not GroupKind.PARENT
    else:
        assert found is None or found.kind is not GroupKind.CONTAINER
