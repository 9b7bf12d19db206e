"""The tests of attacks that need no daemon see them succeed without the mend (see `daemon/test_planted_attacks`)."""

from __future__ import annotations

import gc
import inspect
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import Any

import pytest

from sidecar.api import connections
from sidecar.projection.projections import Projections
from sidecar.status import find_container
from tests.api import test_connections
from tests.machines import archive, test_runner
from tests.packaging import test_compose, test_hashes, test_privilege_table
from tests.projection import test_hostile_directories
from tests.projection.test_projections import opened
from tests.status import test_find_container

Patch = pytest.MonkeyPatch


def without(function: Callable[..., Any], guard: str, instead: str) -> Callable[..., Any]:
    """Return a function of a module with other words in place of these, which must be there."""
    module = inspect.getmodule(function)
    assert isinstance(module, ModuleType)
    source = inspect.getsource(function)
    assert guard in source
    made = dict(vars(module))
    exec(compile("from __future__ import annotations\n" + source.replace(guard, instead), "planted", "exec"), made)
    found: Callable[..., Any] = made[function.__name__]
    return found


def test_names_stay_without_the_mend(tmp_path: Path, monkeypatch: Patch) -> None:
    """M3: every name that was ever used."""
    monkeypatch.setattr(Projections, "remove_spare_names", lambda self, mounted: None)
    root = tmp_path / "cpuset-sidecar"
    with pytest.raises(AssertionError):
        test_hostile_directories.test_names_that_no_container_uses_are_given_back(opened(root), root)


def test_an_id_as_a_name_shadows_a_container_without_the_mend(monkeypatch: Patch) -> None:
    """M4."""
    planted = without(find_container.find, "if exact := [", "if False and [")
    monkeypatch.setattr(test_find_container, "find", planted)
    with pytest.raises((AssertionError, find_container.NotFound)):
        test_find_container.test_a_full_id_is_that_container_whatever_another_is_named()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.trio
async def test_one_peer_keeps_others_out_without_the_mend(tmp_path: Path, monkeypatch: Patch) -> None:
    """M6: the connection that has waited for longest yields, whatever its peer has."""
    monkeypatch.setattr(connections, "_held_by_peers", lambda served: dict.fromkeys((one.peer for one in served), 1))
    with pytest.raises((AssertionError, BaseExceptionGroup)) as failed:
        await test_connections.test_the_peer_with_the_most_places_yields(tmp_path, monkeypatch)
    assert any(isinstance(each, AssertionError) for each in leaves(failed.value))
    # What it left open says so here, and in no other test.
    del failed
    gc.collect()


def test_a_tarball_writes_elsewhere_without_the_mend(tmp_path: Path, monkeypatch: Patch) -> None:
    """M7: a link is made through another one."""

    def link(directory: Path, path: PurePosixPath, target: str) -> None:
        at = directory / path
        with suppress(OSError):
            at.parent.mkdir(parents=True, exist_ok=True)
            os.symlink(target, at)

    monkeypatch.setattr(archive, "_link", link)
    with pytest.raises(AssertionError):
        test_runner.test_a_tarball_cannot_write_elsewhere_through_its_own_links(tmp_path, 1)


@pytest.mark.slow
def test_a_byte_that_was_changed_is_installed_without_the_mend(tmp_path: Path) -> None:
    """M8."""
    made = test_hashes.Checkout(tmp_path)
    made.lists("build", made.wheel("tool"))
    made.lists("daemon", made.wheel("needed"), made.wheel("other"))
    script = made.folder / "compose/host/install.sh"
    script.write_text(script.read_text().replace(" --require-hashes", ""))
    for each in (made.folder / "requirements").glob("*.txt"):
        each.write_text("".join(line.partition(" --hash")[0] + "\n" for line in each.read_text().splitlines()))
    with pytest.raises(AssertionError):
        test_hashes.test_one_byte_changed_is_refused_by_name(made, "needed", {"tool"})


@pytest.mark.xdist_group("compose")
@pytest.mark.parametrize(
    "more",
    [
        {"cap_add": ["DAC_OVERRIDE", "SYS_ADMIN", "SYS_NICE"]},
        {"security_opt": []},
        {"read_only": False},
        {"network_mode": "host"},
        {"privileged": True},
        {"environment": {"CPUSET_SIDECAR_LISTEN": "0.0.0.0:80"}},
    ],
    ids=lambda more: next(iter(more)),
)
def test_each_privilege_more_is_seen(more: dict[str, Any], monkeypatch: Patch) -> None:
    """M9: in a compose file."""
    honest = test_compose.read

    def read(file: Path, environment: dict[str, str]) -> dict[str, Any]:
        services = honest(file, environment)
        return {**services, "sidecar": {**services["sidecar"], **more}}

    monkeypatch.setattr(test_privilege_table, "read", read)
    with pytest.raises(AssertionError):
        test_privilege_table.test_a_compose_file_has_what_the_table_says(test_compose.STATIC)


def leaves(error: BaseException) -> list[BaseException]:
    """Return the errors of a group, of its groups too."""
    if isinstance(error, BaseExceptionGroup):
        return [leaf for each in error.exceptions for leaf in leaves(each)]
    return [error]
