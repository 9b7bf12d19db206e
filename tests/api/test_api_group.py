"""A group that may read: the socket and the status are open to it, and it can change nothing."""

from __future__ import annotations

import grp
import os
import socket
import stat
import struct
from pathlib import Path

import pytest

from sidecar.api import connections
from sidecar.api.unix_socket import PEER, group_id, is_owner, listening, open_to_group
from sidecar.failures import ConfigError, StateUnwritable
from sidecar.status.describe import status_of
from sidecar.status.status_file import NAME, is_daemon_running, write_status
from tests.api.apirig import Rig
from tests.support.decide.stories import Story

OURS = os.getegid()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_group_may_enter_the_directory_and_open_the_socket_and_the_status(tmp_path: Path) -> None:
    """Nothing else: the checkpoint beside it stays 0600."""
    tmp_path.chmod(0o700)
    status = status_of(Story().world)
    with listening(str(tmp_path), OURS):
        write_status(tmp_path, status)
        assert (mode(tmp_path), mode(tmp_path / "api.sock"), mode(tmp_path / NAME)) == (0o2750, 0o660, 0o640)
        assert (tmp_path / NAME).stat().st_gid == OURS


def test_without_a_group_all_is_the_owners_again(tmp_path: Path) -> None:
    open_to_group(str(tmp_path), OURS)
    with listening(str(tmp_path)):
        write_status(tmp_path, status_of(Story().world))
        assert (mode(tmp_path), mode(tmp_path / "api.sock"), mode(tmp_path / NAME)) == (0o700, 0o600, 0o600)


def test_a_group_that_the_sidecar_may_not_give_the_directory_to_says_the_cure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a container without capabilities."""

    def denied(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "chown", denied)
    with pytest.raises(StateUnwritable, match="without CAP_CHOWN the sidecar must be a member of the group"):
        open_to_group(str(tmp_path), OURS)


def test_one_who_may_not_open_the_lock_asks_the_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Monitoring must notice that the daemon is gone."""

    def denied(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    with listening(str(tmp_path), OURS), monkeypatch.context() as patch:
        patch.setattr(os, "open", denied)
        assert is_daemon_running(tmp_path) is True
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", denied)
        assert is_daemon_running(tmp_path) is False
        assert is_daemon_running(tmp_path / ("x" * 200)) is None


def test_a_group_has_a_name_or_a_number() -> None:
    """A container knows the host's groups by their numbers alone."""
    known = grp.getgrgid(0)
    assert (group_id(known.gr_name), group_id("12345"), group_id("")) == (0, 12345, None)
    with pytest.raises(ConfigError, match="api_group is 'no-such-group', and there is no such group here"):
        group_id("no-such-group")


def test_only_root_and_the_daemons_user_are_owners() -> None:
    one, other = socket.socketpair()
    with one, other:
        assert is_owner(one.getsockopt(*PEER))
    assert is_owner(struct.pack("3i", 7, 0, 5))
    assert not is_owner(struct.pack("3i", 7, os.geteuid() + 1, 0))


@pytest.mark.trio
async def test_the_group_reads_and_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "is_owner", lambda _: False)
    rig = Rig(tmp_path, Story())
    async with rig.serving():
        assert (await rig.ask("GET", "/v1/status"))[0] == 200
        for route in ("/v1/defragment", "/v1/containers/a/resize", "/v1/containers/a/ack"):
            found = await rig.ask("POST", route, {})
            assert found == (403, {"error": "the group may only read: run this as root"})
    assert rig.asked == []
