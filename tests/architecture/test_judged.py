"""Each daemon of the live tests has the judge beside it, but for those that need none."""

from __future__ import annotations

from tests.support.sources import ROOT

NEEDS_NONE = {
    "churn": "the watcher compares every projection with the kernel",
    "crowd": "the program of a measurement; the test of it has the judged fixture",
    "sidecarprocess": "it defines the daemon",
    "test_faults_sidecars": "the second daemon is refused at once",
    "test_host_processes": "the same",
}
"""The modules that may make a daemon without a judge, and why."""


def test_each_daemon_of_live_tests_is_judged() -> None:
    """A module that makes a daemon of its own names the judge."""
    texts = {path.stem: path.read_text() for path in (ROOT / "tests" / "live").glob("*.py")}
    makes = {name for name, text in texts.items() if "SidecarProcess(" in text or "class SidecarProcess" in text}
    assert NEEDS_NONE.keys() <= makes
    assert [name for name in sorted(makes - NEEDS_NONE.keys()) if "judged_alone(" not in texts[name]] == []
