"""The formats of metrics: which one a scraper gets, what Prometheus' own tool says of both, how many series come."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics

from sidecar.api.exposition import OPENMETRICS, TEXT, prefers_openmetrics
from sidecar.api.metrics import Metrics
from sidecar.board import Board, SampledDisturbance
from sidecar.decide.world import replace
from sidecar.disturbance.sampler import KINDS
from state.topology import uniform
from tests.api.apirig import Rig
from tests.cli.worlds import ENGINE, container, world
from tests.docs.pages import section
from tests.support.decide.contacts import with_info

PROMETHEUS_2 = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
"""What Prometheus 2.42 accepts."""

PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,"
    "text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)

DOCS = Path(__file__).parents[2] / "docs"
HTTP = DOCS / "reference" / "http.md"

FIXED_SERIES = 90
"""Series of a host with one engine and one NUMA node, however many containers it has; each further one has one more."""

SERIES_OF_AN_OWNER = 8
"""Series of each container that is sampled: at most one for each CPU that may be exclusive."""


def full(containers: int = 3) -> Metrics:
    """Return the metrics of a host that has all of them, and so many containers."""
    owners = [container(f"owner {number}", exclusive=1) for number in range(min(containers, 7))]
    others = [container(f"web {number:04}") for number in range(containers - len(owners))]
    made = world(uniform(cores=8), *owners, *others, answers=0)
    board = Board(with_info(made, replace(ENGINE, in_swarm=True, advertised=3)))
    hostile = 'a "quoted"\\ name\nof two lines'
    board.disturbances = {
        key: SampledDisturbance(hostile if not number else f"owner {number}", dict.fromkeys(KINDS, 0.5), 0.1, 9.0)
        for number, key in enumerate(made.state.assignments)
    }
    return Metrics(board)


def samples(text: str) -> list[str]:
    return [line for line in text.splitlines() if line and not line.startswith("#")]


@pytest.mark.parametrize(
    ("accept", "is_openmetrics"),
    [
        ("", False),
        ("*/*", False),
        ("text/html", False),
        ("text/plain", False),
        (PROMETHEUS_2, True),
        (PROMETHEUS_3, True),
        ("application/openmetrics-text", True),
        ("Application/OpenMetrics-Text; Version=1.0.0", True),
        ("application/openmetrics-text;version=0.0.1", False),
        ("application/openmetrics-text;version=9.0.0, text/plain", False),
        ("application/openmetrics-text;q=0.1, text/plain;q=0.2", False),
        ("application/openmetrics-text;q=0", False),
        ("application/openmetrics-text;q=nan", False),
        ("application/openmetrics-text;q=;version", False),
        (",;=,application/openmetrics-text;;q=9e999", False),
    ],
)
def test_openmetrics_is_given_to_those_that_ask_for_it(accept: str, is_openmetrics: bool) -> None:
    """By the header `Accept`; whatever cannot be understood gets the text format, which every scraper reads."""
    assert prefers_openmetrics(accept) is is_openmetrics


@pytest.mark.trio
async def test_the_answer_names_its_format(rig: Rig) -> None:
    """And that it depends on the header, for whoever keeps answers."""
    async with rig.serving():
        for accept, kind, end in ((PROMETHEUS_2, OPENMETRICS, b"# EOF\n"), ("*/*", TEXT, b"\n")):
            stream = await rig.send(b"GET /metrics HTTP/1.0\r\naccept: %s\r\n\r\n" % accept.encode())
            answer = b"".join([part async for part in stream])
            head, _, content = answer.partition(b"\r\n\r\n")
            assert b"content-type: %s\r\n" % kind.encode() in head.lower()
            assert b"vary: accept" in head.lower()
            assert content.endswith(end)
            assert content.count(b"# EOF") == (kind is OPENMETRICS)


def test_both_formats_have_the_same_series_with_the_same_values() -> None:
    metrics = full()
    text, told = metrics.exposed()[0].decode(), metrics.exposed("application/openmetrics-text")[0].decode()
    assert sorted(samples(text)) == sorted(samples(told))
    families = openmetrics(told)  # type: ignore[no-untyped-call] # of the library
    read = [sample for family in families for sample in family.samples]
    assert len({(sample.name, *sorted(sample.labels.items())) for sample in read}) == len(samples(told))


BY_KUBERNETES = {
    "kubelet_container_aligned_compute_resources_count": 2,
    "kubelet_container_aligned_compute_resources_failure_count": 2,
    "kubelet_cpu_manager_exclusive_cpu_allocation_count": 1,
}
"""Names that promtool does not like, and how often: Kubernetes' own, and on its list of exceptions."""


@pytest.fixture(scope="module")
def promtool() -> str:
    found = shutil.which("promtool")
    if found is None:
        pytest.skip("needs promtool (Debian: apt-get install prometheus)")
    return found


def test_promtool_reads_the_text_format_and_likes_our_names(promtool: str) -> None:
    """It complains of names that Kubernetes gave, as it would at a kubelet, and the page has them: code 3. Of ours it
    says nothing: 0.
    """
    told = full().exposed()[0]
    made = subprocess.run([promtool, "check", "metrics"], input=told, capture_output=True, timeout=60)
    assert Counter(line.partition(" ")[0] for line in made.stderr.decode().splitlines()) == BY_KUBERNETES
    assert made.returncode == 3
    listed = section(HTTP, "Metrics").partition("`promtool check metrics`")[2]
    assert set(re.findall(r"`(kubelet_\w+)`", listed)) == set(BY_KUBERNETES)
    ours = re.sub(rb"(?m)^(# (HELP|TYPE) )?kubelet_.*\n", b"", told)
    made = subprocess.run([promtool, "check", "metrics"], input=ours, capture_output=True, timeout=60)
    assert (made.returncode, made.stdout + made.stderr) == (0, b"")


def test_prometheus_reads_openmetrics(promtool: str, tmp_path: Path) -> None:
    """Its own reader of the format, which takes samples with a time: all series come into its database."""
    told = full().exposed("application/openmetrics-text")[0].decode()
    timed = "\n".join(f"{line} 1700000000" if line in set(samples(told)) else line for line in told.splitlines())
    (tmp_path / "metrics").write_text(timed + "\n")
    made = subprocess.run(
        [promtool, "tsdb", "create-blocks-from", "openmetrics", str(tmp_path / "metrics"), str(tmp_path / "data")],
        capture_output=True,
        timeout=60,
    )
    assert made.returncode == 0, made.stderr
    (tmp_path / "data" / "wal").mkdir()
    listed = subprocess.run(
        [promtool, "tsdb", "dump", str(tmp_path / "data")], capture_output=True, text=True, timeout=60
    )
    assert len(listed.stdout.splitlines()) == len(samples(told)), listed.stderr


def test_planted_nonsense_is_seen_by_both_readers(promtool: str, tmp_path: Path) -> None:
    """The two tests above can fail."""
    broken = b"# TYPE a counter\na{ 1\n"
    made = subprocess.run([promtool, "check", "metrics"], input=broken, capture_output=True, timeout=60)
    assert made.returncode == 1
    (tmp_path / "metrics").write_bytes(b"# TYPE a counter\na{ 1 1700000000\n# EOF\n")
    wanted = [promtool, "tsdb", "create-blocks-from", "openmetrics", str(tmp_path / "metrics"), str(tmp_path / "data")]
    assert subprocess.run(wanted, capture_output=True, timeout=60).returncode != 0


def test_the_number_of_series_does_not_grow_with_the_containers() -> None:
    """5,000 containers have as many series as ten; only owners have series of their own, where these are sampled."""
    few, many = (len(samples(full(number).exposed()[0].decode())) for number in (10, 5000))
    assert few == many == FIXED_SERIES + 7 * SERIES_OF_AN_OWNER
    assert len(KINDS) + 3 == SERIES_OF_AN_OWNER
    # The pages have the number without the one series of a swarm.
    assert f"There are {FIXED_SERIES - 1} series: one more on a swarm" in HTTP.read_text()
    assert f"A scrape has {FIXED_SERIES - 1} samples" in (DOCS / "how-to" / "monitor.md").read_text()
