"""The demo names what else used the exclusive CPU, and judges by a margin that is no chance."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from compose.demo.evidence import Line, Outside, Span, judge
from compose.demo.outsiders import Lookout, Sweep, busy, outside_of
from compose.demo.sampler import on_cpu
from compose.demo.witness import Witness
from tests.packaging.test_evidence import EXCLUSIVE, NOISY, PLAIN, WORK, S

SPAN = Span(2 * S, 6 * S, frozenset({1}))
SWEEPS = [
    Sweep(3 * S, {0: 0, 1: 0}, {0: 0, 1: 0}, {0: ("bash",), 1: ("qemu", "dockerd")}),
    Sweep(5 * S, {0: 2 * S, 1: 19 * S // 10}, {0: 0, 1: S // 10}, {1: ("qemu",)}),
    Sweep(7 * S, {0: 9 * S, 1: 9 * S}, {0: 0, 1: 0}, {1: ("late",)}),
]


def working(share: float) -> Line:
    return {"kind": "worked", "began": 3 * S, "at": 4 * S, "allowed": "1", **WORK, "share": share}


def test_what_else_used_the_cpu_is_the_time_that_its_container_did_not() -> None:
    """While it was settled, on its own CPU; with the programs that were seen there most often."""
    found = outside_of(SWEEPS, [SPAN], own_share=0.2)
    assert found is not None
    assert round(found.share, 3) == 0.75
    assert round(found.stolen, 3) == 0.05
    assert found.programs == ("qemu", "dockerd")
    said = "processes outside the container used 75% of its CPU (qemu, dockerd), and the hypervisor took 5% of it"
    assert found.sentence == said


def test_nothing_is_said_of_what_was_not_seen() -> None:
    """One look is no time; an idle host's own needs are no news."""
    assert outside_of(SWEEPS[:1], [SPAN], 0.5) is None
    assert Outside(0.01, 0.0, ("cron",)).sentence == ""


@pytest.mark.parametrize(("own", "plain"), [(0.215, 0.212), (0.2, 0.4), (0.55, 0.5)])
def test_a_share_that_is_larger_by_luck_proves_nothing(own: float, plain: float) -> None:
    """The verdict names the cause where it was seen, and says so where it was not."""
    exclusive = [EXCLUSIVE[0], working(own)]
    beside = [working(plain)]
    busy_host = judge(exclusive, beside, {"a": NOISY}, [], 5 * S, Outside(0.78, 0.0, ("qemu",)))
    assert not busy_host.is_true
    assert "processes outside the container used 78% of its CPU (qemu)" in busy_host.findings[-1].text
    quiet = judge(exclusive, beside, {"a": NOISY}, [], 5 * S, Outside(0.0, 0.0))
    assert not quiet.is_true
    assert "nothing else that used it was seen" in quiet.findings[-1].text


def test_a_clear_margin_proves_the_claim_and_still_names_the_others() -> None:
    """A third of the CPU went elsewhere, and the rest is more than the plain workload got."""
    verdict = judge(EXCLUSIVE, PLAIN, {"a": NOISY}, [], 5 * S, Outside(0.1, 0.0, ("dockerd",)))
    assert verdict.is_true
    assert "dockerd" in verdict.outside


def test_proc_is_read_as_the_kernel_writes_it() -> None:
    """Time by CPU, without what was idle; a thread by its state, its CPU and its name."""
    tick = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    stat = "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 1 2 3 100 50 4 5 6 7 8\ncpu12 1 0 0 0 0 0 0 0 0 0\nintr 5\n"
    assert busy(stat) == ({0: 15 * tick, 12: tick}, {0: 6 * tick, 12: 0})
    fields = " ".join(str(number) for number in range(4, 53))
    assert on_cpu(f"7 (a) R b) R {fields}") == (39, "a) R b")
    assert on_cpu(f"7 (python) S {fields}") is None


@pytest.mark.skipif(not Path("/proc/stat").exists(), reason="needs /proc")
def test_the_witness_sees_where_a_program_runs() -> None:
    """Each sample is a CPU of this machine, at a moment after the one before."""
    witness = Witness()
    witness.watch([Path("/proc/self/cgroup").read_text().splitlines()[0]])
    witness.start()
    while len(witness.samples) < 2:
        time.sleep(0.01)  # the witness has a thread of its own
    witness.stop()
    (first, cpu), (second, _), *_ = witness.samples
    assert cpu in range(os.cpu_count() or 1)
    assert first <= second


@pytest.mark.skipif(not Path("/proc/stat").exists(), reason="needs /proc")
def test_the_lookout_sees_this_machine() -> None:
    """A few looks, with a time for each CPU; without a container here it looks at nothing."""
    lookout = Lookout()
    lookout.start({os.getpid()})
    while len(lookout.sweeps) < 2:
        time.sleep(0.01)  # the lookout has a thread of its own
    lookout.stop()
    assert all(sweep.worked for sweep in lookout.sweeps)
    assert lookout.sweeps[0].at < lookout.sweeps[1].at
    elsewhere = Lookout()
    elsewhere.start(())
    elsewhere.stop()
    assert elsewhere.sweeps == []
