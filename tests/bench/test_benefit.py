"""The model of the study of benefit: checked against queueing theory, and fair to every policy."""

from __future__ import annotations

import math
import random
import statistics
from array import array
from bisect import bisect_left
from pathlib import Path

import pytest

from sidecar.decide.settings import PolicyName
from sidecar.simulation.happenings import Frame, Holding
from state.cpuset import CPUSet
from tests.bench.benefit.cases import BATCH, CASES, CPUS, SERVER, Case
from tests.bench.benefit.engine import unframed
from tests.bench.benefit.load import BURST, CALM, NEIGHBOURS, REQUEST, Requests, Shape, neighbours, poisson, requests
from tests.bench.benefit.lockstep import WARM_UP, Outcome, given_back, play
from tests.bench.benefit.queueing import Server
from tests.bench.benefit.sharing import CACHE, batch_speed, own_speed, own_speeds, shared_batch, shared_speeds
from tests.bench.benefit.study import chosen, history, study
from tests.bench.benefit.tables import quartiles, tables

# Most of them share the cases that were played: one worker plays them.
pytestmark = pytest.mark.xdist_group("benefit")

BY_NAME = {case.name: case for case in CASES}


def memoryless(seed: int, rate: float, mean: float, seconds: float) -> Requests:
    """Return Poisson arrivals of exponential work."""
    chance = random.Random(seed)
    at = poisson(chance, 0.0, seconds, rate)
    return Requests(at, array("d", (chance.expovariate(1 / mean) for _ in at)), array("d", [0.0]) * len(at))


def answered(server: Server) -> list[float]:
    """Return the response times of a server that has answered everything, in the order of arrival."""
    assert server.is_done
    return [seconds for _, seconds in sorted(server.responses)]


def bounds(values: list[float], batches: int = 25) -> tuple[float, float]:
    """Return the bounds of the mean at 99 %: by the means of batches, which are nearly independent."""
    size = len(values) // batches
    means = [statistics.fmean(values[size * number : size * (number + 1)]) for number in range(batches)]
    # Student's t for 24 degrees of freedom.
    margin = 2.797 * statistics.stdev(means) / math.sqrt(batches)
    return statistics.fmean(means) - margin, statistics.fmean(means) + margin


def erlang_response(servers: int, offered: float, mean: float) -> float:
    """Return the mean response time of M/M/c."""
    blocked = 1.0
    for number in range(1, servers + 1):
        blocked = offered * blocked / (number + offered * blocked)
    waits = blocked / (1 - offered / servers * (1 - blocked))
    return mean + waits * mean / (servers - offered)


@pytest.mark.parametrize(("servers", "offered"), [(1, 0.6), (8, 6.4), (28, 25.0)])
def test_a_line_before_threads_with_cpus_of_their_own_is_erlangs(servers: int, offered: float) -> None:
    """The mean response time of M/M/c, within the bounds that this many requests allow."""
    load = memoryless(7, offered / REQUEST, REQUEST, 50_000 * REQUEST / offered)
    server = Server(load)
    server.advance(1e6, servers, own_speeds(servers, servers))
    low, high = bounds(answered(server))
    assert low < erlang_response(servers, offered, REQUEST) < high


@pytest.mark.parametrize("spread", [0.3, 1.0])
def test_threads_that_share_one_cpu_answer_as_processor_sharing_does(spread: float) -> None:
    """M/G/1 with processor sharing: the mean response depends on the mean of the work alone."""
    chance, share = random.Random(11), 0.7
    at = poisson(chance, 0.0, 1500.0, share / REQUEST)
    work = array("d", (chance.lognormvariate(math.log(REQUEST) - spread**2 / 2, spread) for _ in at))
    server = Server(Requests(at, work, array("d", [0.0]) * len(at)))
    server.advance(1e6, 10_000, [1.0, *(1 / count for count in range(1, 10_001))])
    low, high = bounds(answered(server))
    assert low < REQUEST / (1 - share) < high


def test_no_work_is_lost_and_none_is_invented() -> None:
    """However the CPUs and threads change: each request is answered once, and took at least its work."""
    load = requests(Shape.BURSTS, 3, 30.0)
    server, chance, now = Server(load), random.Random(5), 0.0
    while not server.is_done:
        now += 0.1
        cpus = chance.randint(30, 60)
        server.advance(now, chance.randint(30, 90), own_speeds(cpus, CPUS), (0.0, 0.003))
    by_arrival = dict(zip(load.at, load.work, strict=True))
    assert sorted(arrived for arrived, _ in server.responses) == list(load.at)
    assert all(seconds > by_arrival[arrived] - 1e-9 for arrived, seconds in server.responses)
    assert server.served == pytest.approx(sum(load.work) + server.overhead)
    assert server.busy >= server.served


def test_no_request_is_interrupted_for_want_of_threads() -> None:
    """With fewer threads than before, requests under way go on; with more, the line moves at once."""
    load = Requests(array("d", [0.0] * 6), array("d", [1.0] * 6), array("d", [0.0] * 6))
    server = Server(load)
    server.advance(0.5, 4, own_speeds(4, 6))
    assert (server.active, server.waiting) == (4, 2)
    server.advance(0.9, 1, own_speeds(4, 6))
    assert (server.active, server.waiting) == (4, 2)
    server.advance(1.5, 1, own_speeds(4, 6))
    assert (server.active, server.waiting) == (1, 1)
    server.advance(1.6, 3, own_speeds(4, 6))
    assert (server.active, server.waiting) == (2, 0)


@pytest.mark.parametrize("ratio", CACHE)
@pytest.mark.parametrize("noise", [0, 5, NEIGHBOURS])
def test_sharing_parties_get_no_more_than_there_is(ratio: int, noise: int) -> None:
    """Server and batch job together do at most what the neighbours leave; more for one is less for the other."""
    speeds = shared_speeds(CPUS, noise, ratio, CPUS)
    before = math.inf
    for busy in range(CPUS + 1):
        batch = shared_batch(CPUS, noise, ratio, busy)
        assert 0 < speeds[busy] <= 1
        assert batch < before or busy > CPUS - noise
        before = batch
        # The batch job's serial part leaves its other CPUs idle: it occupies at least as much as its speed.
        assert busy * speeds[busy] + batch <= CPUS - noise
    assert shared_batch(CPUS, noise, ratio, 0) == pytest.approx(batch_speed(CPUS - noise))


def test_more_shares_are_more_speed() -> None:
    for busy in (1, 20, CPUS):
        assert shared_speeds(CPUS, 4, 10, CPUS)[busy] > shared_speeds(CPUS, 4, 1, CPUS)[busy]
        assert shared_batch(CPUS, 4, 10, busy) < shared_batch(CPUS, 4, 1, busy) or busy == 1


@pytest.mark.parametrize(
    ("threads", "cpus", "least", "most"), [(8, 8, 8, 8), (5, 8, 5, 5), (9, 8, 7, 8), (80, 8, 7, 8)]
)
def test_threads_use_cpus_of_their_own(threads: int, cpus: int, least: float, most: float) -> None:
    """As many as there are threads, and nearly all of them where threads take turns."""
    assert least <= own_speed(threads, cpus) <= most
    assert own_speeds(cpus, threads)[threads] * threads == pytest.approx(own_speed(threads, cpus))


@pytest.mark.parametrize("shape", Shape)
def test_the_load_is_what_it_says(shape: Shape) -> None:
    """Between calm and burst at any time, with requests of the mean that they should have, and the seed decides."""
    load = requests(shape, 1, 90.0)
    assert statistics.fmean(load.work) == pytest.approx(REQUEST, rel=0.02)
    for second in range(0, 90, 10):
        asked = (bisect_left(load.at, second + 10) - bisect_left(load.at, second)) * REQUEST / 10
        assert 0.9 * CALM < asked < 1.1 * BURST
    assert load == requests(shape, 1, 90.0) != requests(shape, 2, 90.0)
    assert list(load.at) == sorted(load.at)


def test_neighbours_are_busy_half_of_the_time() -> None:
    noise = neighbours(1, 2000.0)
    lasts = [after - at for at, after in zip(noise.at, [*noise.at[1:], 2000.0], strict=True)]
    mean = sum(count * lasted for count, lasted in zip(noise.busy, lasts, strict=True)) / 2000
    assert mean == pytest.approx(NEIGHBOURS / 2, rel=0.1)
    assert 0 <= min(noise.busy) <= max(noise.busy) <= NEIGHBOURS


SEED = 5
"""One with a crest in the few seconds that are measured."""


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Outcome]:
    """Play every case under one short load."""
    return {case.name: play(case, Shape.WAVES, SEED, 12.0) for case in CASES}


@pytest.mark.slow
def test_every_policy_is_given_the_same_load(outcomes: dict[str, Outcome]) -> None:
    """The same number of requests is measured in each case: all that arrived after the warm-up."""
    load = requests(Shape.WAVES, SEED, WARM_UP + 12.0)
    assert {found.requests for found in outcomes.values()} == {sum(1 for at in load.at if at >= WARM_UP)}


@pytest.mark.slow
def test_the_same_run_gives_the_same_outcome(outcomes: dict[str, Outcome]) -> None:
    assert play(BY_NAME["dynamic"], Shape.WAVES, SEED, 12.0) == outcomes["dynamic"]


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_each_case_is_what_its_name_says(outcomes: dict[str, Outcome], case: Case) -> None:
    """A sharing container has all CPUs; static sizes stay; dynamic ones move, and only takes from a deaf container are
    forced.
    """
    found = outcomes[case.name]
    if case.shares:
        assert found.server_cpus == found.batch_cpus == pytest.approx(CPUS)
    elif case.policy is PolicyName.STATIC:
        assert (found.changes, found.forced, found.given_back) == (0, 0, ())
        assert found.server_cpus == pytest.approx(int(case.server["cpuset.exclusive"]))
    else:
        assert found.changes > 0
        assert (found.forced == 0) is case.follows
        # Within the grace if it is acknowledged, and no earlier than its end if not.
        assert (max(found.given_back) < 2.0) is case.follows


@pytest.mark.slow
def test_a_server_that_cannot_keep_up_is_seen_to_wait(outcomes: dict[str, Outcome]) -> None:
    """Sized for the mean it has a line at a crest; sized for the peak it has none, and the batch job has less."""
    mean, peak = outcomes["static, mean"], outcomes["static, peak"]
    assert mean.p99 > 10 * peak.p99
    assert peak.batch < mean.batch


@pytest.mark.slow
def test_a_study_is_of_every_case_shape_and_seed() -> None:
    """In order, each as if it were played alone; and its tables and pictures can be made."""
    few = (BY_NAME["none"], BY_NAME["dynamic"])
    found = study(2, 1.0, cases=few, processes=1)
    assert [(one.case, one.shape, one.seed) for one in found] == [
        (case.name, shape, seed) for case in few for shape in Shape for seed in (1, 2)
    ]
    assert found[-1] == play(few[1], Shape.WAVES, 2, 1.0)
    assert chosen(found, few[0], Shape.WAVES) == found[2:4]
    lines = list(tables(found, few))
    assert len(lines) == len(Shape) * (2 + len(few) + 1) + 3
    assert all(line.count("|") == lines[0].count("|") for line in lines[:4])


def test_a_take_lasts_until_its_own_cpus_are_left() -> None:
    """Two takes of one container overlap: each is counted from its own beginning."""

    def frame(at: float, leaving: str) -> Frame:
        holding = Holding(name="batch", cpus=CPUSet.parse("0-7"), leaving=CPUSet.parse(leaving))
        return Frame(at=at, online=CPUSet.parse("0-7"), reserved=CPUSet(), holdings=(holding,))

    frames = [frame(1.0, ""), frame(2.0, "4-5"), frame(3.0, "3-5"), frame(4.0, "3"), frame(6.0, "")]
    assert list(given_back(frames)) == [2.0, 3.0]


def test_what_a_container_printed_is_read_without_the_heads_of_its_frames() -> None:
    """Each frame of a log has eight bytes before it, of which four are its length; a line may lie across two."""
    assert unframed(b"\x01\0\0\0\0\0\0\x031.5" + b"\x01\0\0\0\0\0\0\x0500\n2\n") == "1.500\n2\n"
    assert unframed(b"") == ""


def test_quartiles_are_those_of_the_values() -> None:
    assert quartiles([3.0]) == (3.0, 3.0, 3.0)
    assert quartiles([5.0, 1.0, 2.0, 4.0, 3.0]) == (2.0, 3.0, 4.0)


def test_a_history_shows_what_each_container_had() -> None:
    """Together never more than can be exclusive, each within its bounds, and the request is the load."""
    moments = history(BY_NAME["dynamic"], Shape.WAVES, SEED, 5.0)
    assert all(20 <= each.server <= 64 and each.batch >= 8 and each.server + each.batch <= 88 for each in moments)
    assert len({each.server for each in moments}) > 1
    load = requests(Shape.WAVES, SEED, WARM_UP + 5.0)
    assert sum(each.asked for each in moments) * 0.25 == pytest.approx(sum(load.work))


@pytest.mark.slow
def test_the_figures_are_the_same_bytes_each_time(outcomes: dict[str, Outcome], tmp_path: Path) -> None:
    """Drawn twice they are equal, carry no date, name every case, and support light and dark."""
    pytest.importorskip("matplotlib", reason="needs matplotlib: `make benefit` installs it, and draws")
    from tests.bench.benefit.figure import boxes, timeline, write

    moments = history(BY_NAME["dynamic"], Shape.BURSTS, 1, 5.0)
    for name in ("first", "second"):
        write(boxes(list(outcomes.values())), tmp_path / f"{name}-boxes.svg")
        write(timeline(moments), tmp_path / f"{name}-timeline.svg")
    drawn = (tmp_path / "first-boxes.svg").read_bytes()
    assert drawn == (tmp_path / "second-boxes.svg").read_bytes()
    assert (tmp_path / "first-timeline.svg").read_bytes() == (tmp_path / "second-timeline.svg").read_bytes()
    text = drawn.decode()
    assert "dc:date" not in text
    assert "prefers-color-scheme: dark" in text
    assert all(case.name in text for case in CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_case_says_what_both_parties_ask_for(case: Case) -> None:
    """A sharing container asks for nothing, all others for CPUs; together they do not exceed what can be exclusive."""
    asked = [int(labels["cpuset.exclusive"]) for labels in (case.server, case.batch) if labels]
    assert len(asked) == (0 if case.shares else 2)
    assert sum(asked) <= 88
    assert set(case.threads) <= {SERVER, BATCH}
