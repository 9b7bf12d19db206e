"""Promises that are broken still, each with the smallest scenario: strict, so that a mended one leaves this list."""

from __future__ import annotations

import pytest

from tests.blackbox.chronicle import Chronicle, Said, chronicle_of
from tests.blackbox.player import printed
from tests.blackbox.scenarios import Scenario


def played(scenario: Scenario) -> Chronicle:
    return chronicle_of(scenario, printed(scenario))


def one(chronicle: Chronicle, what: str) -> list[Said]:
    """Return the lines of this kind."""
    return [each for each in chronicle.said if each.what == what]


@pytest.mark.xfail(reason="a run that is shorter than a start and a stop take is not seen", strict=True)
def test_linger_counts_from_the_last_stop() -> None:
    """CPUs are held "for `linger` after it stopped" (labels)."""
    chronicle = played(
        {
            "machine": {"cores": 5},
            "settings": {"policy": "static", "reserved": "0", "linger": "10s"},
            "container": [{"name": "a", "labels": {"cpuset.exclusive": "2"}}],
            "event": [
                {"at": 1.0, "do": "run", "container": "a"},
                {"at": 3.0, "do": "stop", "container": "a"},
                {"at": 5.0, "do": "start", "container": "a"},
                {"at": 5.1, "do": "stop", "container": "a"},
            ],
        }
    )
    assert one(chronicle, "released")[-1].at >= one(chronicle, "stopped")[-1].at + 10


@pytest.mark.xfail(reason="with a range, a number that is not whole cores is rounded down", strict=True)
def test_a_number_that_is_not_whole_cores_is_refused() -> None:
    """ "A demand that is not a multiple of the threads of a core is refused" (configuration)."""
    labels = {"cpuset.exclusive": "5", "cpuset.min": "2", "cpuset.options": "full-pcpus-only"}
    chronicle = played(
        {
            "machine": {"cores": 4, "threads": 2},
            "settings": {"policy": "dynamic", "reserved": "0"},
            "container": [{"name": "a", "labels": labels}],
            "event": [{"at": 1.0, "do": "run", "container": "a"}],
        }
    )
    assert one(chronicle, "granted") == []


@pytest.mark.xfail(reason="what the first decision after a start takes has no line", strict=True)
def test_a_take_that_begins_at_a_start_has_a_line() -> None:
    """ "`take started`: a workload gets notice: which CPUs, ... for how many seconds" (log lines)."""
    chronicle = played(
        {
            "machine": {"cores": 3, "threads": 2, "adjacent": True},
            "settings": {"policy": "dynamic", "reserved": "0", "options": ["full-pcpus-only"]},
            "container": [{"name": "a", "labels": {"cpuset.exclusive": "2"}}],
            "event": [
                {"at": 1.0, "do": "run", "container": "a"},
                {"at": 5.0, "do": "crash"},
                {"at": 6.0, "do": "offline", "cpus": "3"},
                {"at": 7.0, "do": "restart"},
            ],
        }
    )
    assert len(one(chronicle, "take started")) == 1
