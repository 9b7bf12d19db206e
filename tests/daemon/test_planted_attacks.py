"""The tests of attacks see them succeed without the mend: each is run with the fault that the audit found, and fails.

Findings are named as the audit names them (docs/decisions/0062-what-became-of-the-audit.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from trio.testing import MockClock

from sidecar.apply import executor
from sidecar.crashes import Crashes
from sidecar.decide import covering, sightings
from sidecar.decide.container import wish
from sidecar.decide.moves import alone
from sidecar.decide.settings import TenantRight
from sidecar.decide.world import replace
from sidecar.engines.docker import docker_wire
from sidecar.held_starts import Waiting
from sidecar.observe import looks, turns
from sidecar.observe.meeting_insiders import MeetingInsiders
from sidecar.projection.belongings import NameClaims
from tests import test_crashes
from tests.api import test_many_starts
from tests.daemon import test_daemon_insiders, test_daemon_locks, test_daemon_loops, test_daemon_tenants
from tests.decide.container import test_inside_another
from tests.engines.docker import test_docker_wire

Patch = pytest.MonkeyPatch


class Planted(NamedTuple):
    """A finding, its fault, and the test that sees it, with its parameters."""

    finding: str
    fault: Callable[[Patch], None]
    test: Callable[..., Any]
    with_parameters: Mapping[str, Any] = MappingProxyType({})


def waits_for_every_lock(patch: Patch) -> None:
    patch.setattr(executor, "DELAYED_SECONDS", 30.0)
    patch.setattr(turns, "PLACE_SECONDS", 30.0)


def knows_nothing_by_a_glance(patch: Patch) -> None:
    honest = covering.may_cover
    patch.setattr(covering, "may_cover", lambda world, one: not one.view.is_glance and honest(world, one))


def gives_a_name_to_the_lowest_id(patch: Patch) -> None:
    patch.setattr(NameClaims, "is_first", lambda self, name, short: short == min(self.of(name), default=""))


def lets_a_crash_end_the_daemon(patch: Patch) -> None:
    def tell(self: Crashes, container: object, work: str, error: Exception) -> None:
        raise error

    patch.setattr(Crashes, "tell", tell)


def counts_no_offence(patch: Patch) -> None:
    patch.setattr(looks, "is_foreign", lambda board, view: False)


def lets_a_name_end_management(patch: Patch) -> None:
    honest = wish.wish_of
    patch.setattr(sightings, "wish_of", lambda *facts, **_: honest(*facts, is_placed=False))


def sees_no_container_inside_another(patch: Patch) -> None:
    patch.setattr(wish, "is_inside_a_container", lambda parent, pod="": False)


def keeps_all_that_is_written(patch: Patch) -> None:
    patch.setattr(docker_wire, "cut", lambda text, most: text)


def holds_starts_without_a_limit(patch: Patch) -> None:
    patch.setattr(Waiting, "is_beyond", lambda self, most: False)


def gives_every_right(patch: Patch) -> None:
    patch.setattr(wish, "as_allowed", lambda own, ruled, settings, originals: (ruled, ()))


def takes_every_pin_for_one(patch: Patch) -> None:
    """Leave a container that is pinned by hand where it is, and count it there while it rests: without a right too."""
    honest = wish._standing
    patch.setattr(
        wish,
        "_standing",
        lambda view, settings, *facts: honest(view, replace(settings, may=frozenset({TenantRight.PIN})), *facts),
    )


def hears_no_birth_inside_an_owner(patch: Patch) -> None:
    patch.setattr(alone, "insiders_of", lambda world, owner: ())


def asks_no_engine_whose_it_is(patch: Patch) -> None:
    honest = MeetingInsiders._tell_of
    patch.setattr(MeetingInsiders, "meet", lambda self, birth: honest(self, birth, [birth.container]))


PLANTED = (
    Planted(
        "H2",
        waits_for_every_lock,
        test_daemon_locks.test_an_arrival_is_placed_however_many_locks_are_held,
        {"count": 30},
    ),
    Planted(
        "H2",
        knows_nothing_by_a_glance,
        test_daemon_locks.test_locks_that_are_taken_before_the_first_look_delay_no_arrival,
        {"made_by": test_daemon_locks._run_plain, "version": 2},
    ),
    Planted("H3", gives_a_name_to_the_lowest_id, test_daemon_tenants.test_a_label_takes_over_no_projection_of_another),
    Planted(
        "H5",
        counts_no_offence,
        test_daemon_loops.test_a_repeat_offender_is_named_and_delays_no_other,
        {"loops": 1, "has_hand": False},
    ),
    Planted("H6", lets_a_name_end_management, test_daemon_tenants.test_one_that_is_renamed_stays_among_the_managed),
    Planted("M2", takes_every_pin_for_one, test_daemon_tenants.test_a_pin_takes_no_cpu_from_an_owner),
    Planted("M5", gives_every_right, test_daemon_tenants.test_a_label_lifts_no_limit_beyond_what_it_pays_for),
    Planted("M1", gives_every_right, test_daemon_tenants.test_opting_out_needs_the_right),
    Planted(
        "inside",
        hears_no_birth_inside_an_owner,
        test_daemon_insiders.test_an_owner_is_not_alone_before_the_program_begins,
    ),
    Planted(
        "inside",
        asks_no_engine_whose_it_is,
        test_daemon_insiders.test_what_the_engine_does_not_know_takes_alone_from_nobody,
    ),
)


def leaves(error: BaseException) -> list[BaseException]:
    """Return the errors of a group, of its groups too."""
    if isinstance(error, BaseExceptionGroup):
        return [leaf for each in error.exceptions for leaf in leaves(each)]
    return [error]


@pytest.mark.slow
@pytest.mark.trio
@pytest.mark.parametrize("planted", PLANTED, ids=lambda each: f"{each.finding}-{each.fault.__name__}")
async def test_an_attack_succeeds_without_its_mend(
    autojump_clock: MockClock, make_host: Any, monkeypatch: Patch, planted: Planted
) -> None:
    """The test of the attack fails by an expectation, on the whole daemon."""
    planted.fault(monkeypatch)
    with pytest.raises((AssertionError, BaseExceptionGroup)) as failed:
        await planted.test(autojump_clock, make_host, **planted.with_parameters)
    assert any(isinstance(each, AssertionError) for each in leaves(failed.value)), leaves(failed.value)


def test_a_container_inside_another_is_overlooked_without_the_mend(monkeypatch: Patch) -> None:
    """H7."""
    sees_no_container_inside_another(monkeypatch)
    with pytest.raises(AssertionError):
        test_inside_another.test_one_inside_another_is_left_alone_and_refused_with_the_cure()


def test_an_author_decides_how_much_is_kept_without_the_mend(monkeypatch: Patch) -> None:
    """H8."""
    keeps_all_that_is_written(monkeypatch)
    with pytest.raises(AssertionError):
        test_docker_wire.test_no_author_decides_how_much_is_kept()


@pytest.mark.trio
async def test_many_starts_close_the_way_to_others_without_the_mend(tmp_path: Path, monkeypatch: Patch) -> None:
    """H9: the next one is held, too, and gets no answer."""
    holds_starts_without_a_limit(monkeypatch)
    with pytest.raises((AssertionError, BaseExceptionGroup)) as failed:
        await test_many_starts.test_a_start_that_can_be_answered_is_answered_however_many_wait(tmp_path, monkeypatch)
    assert any(isinstance(each, AssertionError | TimeoutError) for each in leaves(failed.value)), leaves(failed.value)


@pytest.mark.trio
async def test_a_crash_ends_the_daemon_without_the_mend(
    autojump_clock: MockClock, make_host: Any, monkeypatch: Patch
) -> None:
    """H4."""
    lets_a_crash_end_the_daemon(monkeypatch)
    host = make_host(version=2)
    with pytest.raises(BaseException) as failed:
        await test_crashes.test_the_daemon_and_other_containers_survive_a_crash(
            autojump_clock, host, monkeypatch, "orders"
        )
    assert leaves(failed.value)
