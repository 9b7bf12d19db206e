"""The demo's time line: the workloads' records, as sentences, in the order of events."""

from __future__ import annotations

from compose.demo.evidence import Line
from compose.demo.timeline import HOLD_BACK_NS, Words, kernel_list, sentences
from tests.packaging.test_takes import ARRIVAL, BATCH, MS, S, ran, said, started, told


def spoken(*lines: Line) -> list[str]:
    return [text for _, text in sentences(lines)]


def test_a_list_of_cpus_is_written_as_the_kernel_writes_it() -> None:
    """Neighbours form ranges."""
    assert kernel_list(frozenset({5, 0, 1, 2, 7})) == "0-2,5,7"
    assert kernel_list(frozenset()) == ""


def test_a_workload_says_what_it_has_and_what_changed() -> None:
    """What it is granted, gains, must leave, has left, has lost, may keep after all, and shares."""
    assert spoken(
        started(0),
        told(1, "1", reason="granted 1 exclusive CPU: 1"),
        told(2, "1-3", reason="gained 2-3: spare"),
        told(3, "1-3", "2-3", reason="gave up 2-3: an arrival"),
        said(4, "2-3"),
        told(5, "1", reason="an arrival"),
        told(6, "1-2", "2", reason="another"),
        told(7, "1-2", reason="never mind"),
        {"kind": "signalled", "at": 8, "name": "HUP"},
        {"kind": "ended", "at": 9},
        started(10),
        told(11, "0", shared=True, reason="in the shared pool: none free"),
        told(12, "0", desired="1", arriving="1", settled=False, reason="granted 1 exclusive CPU: 1"),
        told(13, "1", reason="granted 1 exclusive CPU: 1"),
    ) == [
        "I have 1: granted 1 exclusive CPU: 1",
        "2-3 is now mine as well: I have 1-3: spare",
        "2-3 leaves me within 2.0 s: an arrival",
        "I have left 2-3, and acknowledge",
        "2-3 is gone, I have 1",
        "2 is now mine as well: I have 1-2: another; 2 leaves me within 2.0 s: another",
        "2 is mine again after all",
        "I was sent SIGHUP",
        "I end",
        "I share 0 with others: none free",
        "1 will be mine, I still share 0: granted 1 exclusive CPU: 1",
        "I have 1: granted 1 exclusive CPU: 1",
    ]


def test_what_is_no_news_is_not_said() -> None:
    """Neither where it ran, nor differences that do not concern it."""
    assert spoken(told(1, "1"), ran(1, 1, 2), told(2, "1", settled=False), told(3, "1")) == ["I have 1: "]
    assert len(spoken(told(1, "0", shared=True), told(2, "0-1", shared=True))) == 1


class Project:
    """Containers with logs that grow."""

    def __init__(self, **lines: list[Line]) -> None:
        self.logs = lines

    def containers(self, service: str) -> list[str]:
        """Return one container for each service that was started."""
        return [service] if service in self.logs else []

    def lines(self, container: str) -> list[Line]:
        """Return all that it wrote."""
        return self.logs[container]


def test_news_come_once_each_and_in_order() -> None:
    """A line is held back while another log may still have an older one."""
    project = Project(batch=BATCH[:6], arrival=[])
    words = Words(project, ("batch", "arrival", "stubborn"))
    words.read()
    assert [at for at, _, _ in words.news(3 * S + 2 * MS + HOLD_BACK_NS)] == [S, 2 * S, 3 * S + MS]
    assert words.latest() == 3 * S + 2 * MS
    project.logs = {"batch": BATCH, "arrival": ARRIVAL}
    words.read()
    late = words.news(20 * S)
    assert [who for _, who, _ in late][:4] == ["batch", "batch", "arrival", "arrival"]
    assert late == sorted(late)
    assert words.news(20 * S) == []


def test_what_a_workload_has_is_what_it_has_to_keep() -> None:
    """None while CPUs leave it, or it is not settled, or does not run."""
    project = Project(batch=BATCH[:3])
    words = Words(project, ("batch", "arrival"))
    has = []
    for count in (1, 3, 5, 7, 10):
        project.logs["batch"] = BATCH[:count]
        words.read()
        has.append(words.has("batch"))
    assert has == [0, 3, 0, 1, 0]
    assert words.last("batch") is None
    assert words.has("arrival") == 0
