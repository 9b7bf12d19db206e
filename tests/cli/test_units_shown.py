"""Units of the host on the pages of `status`, `top` and `explain`, in the document, the API, the metrics and the log:
each is called a unit there, and never counted as a container.
"""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime

import msgspec
import pytest

from sidecar.api.documents import Vouching, one
from sidecar.api.metrics import Metrics
from sidecar.board import Board
from sidecar.cli import cmd_status, cmd_top, explained_tenant
from sidecar.crashes import Crashes
from sidecar.decide.facts import ContainerView, Phase, ViewKind
from sidecar.decide.settings import PolicyName, Settings
from sidecar.decide.world import World
from sidecar.log import Log
from sidecar.observe.unseen import Unseen
from sidecar.status.cpu_view import cpu_view
from sidecar.status.describe import status_of
from sidecar.status.document import Status
from sidecar.status.last_state import unvouched
from sidecar.status.sight import WORKS
from sidecar.words.units import HostConfinement
from state import codec
from state.cpuset import CPUSet
from state.key import SYSTEMD, ContainerKey
from state.topology import uniform
from tests.cli.worlds import STATIC, container, world

NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
CONFINING = HostConfinement(is_confining=True, holes={"user@1000.service": "has containers below it"})


def unit(name: str, cpuset: str = "") -> ContainerView:
    view = container(name, cpuset=cpuset, **({"effective": CPUSet.parse(cpuset)} if cpuset else {}))
    return msgspec.structs.replace(view, engine=SYSTEMD, id=name, kind=ViewKind.UNIT)


def busy(settings: Settings = STATIC) -> World:
    """An owner, a container of the shared pool, a unit that is confined, and one with CPUs of its own."""
    views = (container("web", exclusive=1), container("log"), unit("ssh.service"), unit("db.service", "5"))
    return world(uniform(cores=6), *views, settings=settings)


def told(host: HostConfinement | None = CONFINING, settings: Settings = STATIC) -> Status:
    return status_of(busy(settings), updated_at="2026-03-04T05:06:02Z", host=host)


def test_status_has_a_table_of_units_and_the_holes() -> None:
    """Exactly this, with the line that tells how far the host is confined."""
    lines = cmd_status.rendered(told(), NOW, WORKS)
    assert lines[:15] == [
        "policy static on docker 26.1.5 | reserved 0 | shared 0,2-5 | exclusive 1",
        "1 unit of the host is confined to the shared pool; not confined: db.service (has CPUs of its own),",
        "    user@1000.service (has containers below it)",
        "the daemon is running; the last change was 5 s ago",
        "",
        "   NAME  ID            KIND       CPUS   STATE",
        "   log   6c6f67000000  shared     0,2-5  settled",
        "A  web   776562000000  exclusive  1      settled, alone",
        "",
        "   UNIT               KIND      CPUS   STATE",
        "   db.service         stranger  5      pinned by hand",
        "   ssh.service        shared    0,2-5  settled",
        "   user@1000.service  hole      -      has containers below it",
        "",
        "socket 0   [0r] [1A] [2.] [3.] [4.] [5#]",
    ]


@pytest.mark.parametrize(
    ("host", "policy", "said"),
    [
        (None, PolicyName.STATIC, None),
        (
            HostConfinement(is_confining=False, why_not="there is no systemd"),
            PolicyName.STATIC,
            "the host's own processes are not confined: there is no systemd",
        ),
        (CONFINING, PolicyName.NONE, "the host's own processes are not confined: the policy is none"),
    ],
    ids=["not asked for", "no systemd", "policy none"],
)
def test_one_line_says_that_the_host_is_not_confined(
    host: HostConfinement | None, policy: PolicyName, said: str | None
) -> None:
    status = told(host, Settings(policy=policy, reserved_cpus=STATIC.reserved_cpus))
    assert (status.host and status.host.text) == said
    if said:
        assert said in cmd_status.rendered(status, NOW, WORKS)


def test_the_document_keeps_units_apart() -> None:
    document = json.loads(codec.encode(told()))
    assert [each["name"] for each in document["containers"]] == ["log", "web"]
    assert [(each["id"], each["kind"]) for each in document["units"]] == [
        ("db.service", "unit"),
        ("ssh.service", "unit"),
    ]
    assert document["host"]["is_confining"]
    assert [each["name"] for each in document["host"]["holes"]] == ["db.service", "user@1000.service"]


def test_without_a_daemon_that_vouches_nothing_is_claimed_of_units() -> None:
    status = unvouched(told())
    assert not any(each.is_settled for each in status.units)
    assert status.host is not None
    assert not status.host.is_confining
    assert "1 unit of the host was confined to the shared pool" in status.host.text


def test_top_counts_units_apart() -> None:
    lines = cmd_top.rendered(told(), NOW, WORKS)
    assert "containers with no known request for exclusive CPUs: 1" in lines
    assert "units of the host: 2" in lines


def test_explain_calls_a_unit_a_unit() -> None:
    """No sentence on it, or on who is on a CPU, calls it a container."""
    units = {each.name: each for each in told().units}
    assert explained_tenant.rendered(units["ssh.service"], WORKS) == [
        "ssh.service (a unit of the host): shared, running, on 0,2-5",
        "  It is a unit of the host, which is confined to the shared pool, 0,2-5.",
        "  It runs on exactly these.",
    ]
    assert explained_tenant.rendered(units["db.service"], WORKS) == [
        "db.service (a unit of the host): stranger, running, on 5",
        "  It is pinned by hand to CPU 5: it is never moved, and no container gets these CPUs exclusively.",
    ]
    view = cpu_view(told(), 5)
    assert view is not None
    assert view.explanation == (
        "A unit of the host with CPUs of its own is there: it is not granted.",
        "Containers that may run there: log (shared).",
        "Units of the host that may run there: db.service, ssh.service.",
        "Others may run there too: kernel threads, and units that are not confined.",
    )


def test_the_api_knows_a_unit_by_its_name() -> None:
    shown = one(busy(), "ssh.service", {}, Vouching(counts=True, said_at="", is_outdated=False, is_ready=True))
    assert (shown.kind, shown.id) == (ViewKind.UNIT, "ssh.service")


def test_metrics_count_units_apart() -> None:
    board = Board(busy())
    board.host = CONFINING
    lines = Metrics(board).exposed()[0].decode().splitlines()
    assert 'cpuset_sidecar_containers{sharing="shared"} 1.0' in lines
    assert 'cpuset_sidecar_containers{sharing="stranger"} 0.0' in lines
    assert 'cpuset_sidecar_units{sharing="shared"} 1.0' in lines
    assert 'cpuset_sidecar_units{sharing="stranger"} 1.0' in lines
    assert "cpuset_sidecar_confines_host 1.0" in lines


def test_the_log_names_units_as_units() -> None:
    out = io.StringIO()
    board, log, key = Board(busy()), Log(out), ContainerKey(SYSTEMD, "ssh.service")
    Unseen(board, log).add({key: "it is silent"})
    Crashes(board, log).tell(key, "look", ValueError("wrong"))
    assert "a unit cannot be inspected" in out.getvalue()
    assert out.getvalue().count("unit=ssh.service") == 2
    assert "container" not in out.getvalue().split("trace=")[0]
    assert list(board.problems.values()) == ["these units cannot be inspected: ssh.service"]


def test_a_unit_that_rests_has_no_cpus_in_the_table() -> None:
    resting = msgspec.structs.replace(unit("cron.service"), phase=Phase.CREATED, cpuset="0,2", effective=None)
    lines = cmd_status.rendered(status_of(world(uniform(cores=3), resting), host=CONFINING), NOW, WORKS)
    assert any(line.split()[:3] == ["cron.service", "stranger", "-"] for line in lines)


def owning() -> Status:
    """A service with CPUs of its own beside a container with one."""
    asking = msgspec.structs.replace(unit("db.service"), labels={"cpuset.exclusive": "2"})
    made = world(uniform(cores=6), container("web", exclusive=1), asking, unit("ssh.service"), settings=STATIC)
    return status_of(made, updated_at="2026-03-04T05:06:02Z", host=CONFINING)


def test_a_unit_that_owns_has_a_letter_a_row_and_its_cpus() -> None:
    """As a container that owns, in the table of units; it is not among those that are confined."""
    lines = cmd_status.rendered(owning(), NOW, WORKS)
    assert "B  db.service         exclusive  2-3    settled, alone" in lines
    assert "socket 0   [0r] [1A] [2B] [3B] [4.] [5.]" in lines
    assert "A web   B db.service   . shared   r reserved, shared" in lines
    assert any("1 unit of the host is confined to the shared pool" in line for line in lines)
    assert any(line.startswith("B  db.service") for line in cmd_top.rendered(owning(), NOW, WORKS))
    [row] = [each for each in owning().units if each.name == "db.service"]
    assert explained_tenant.rendered(row, WORKS) == [
        "db.service (a unit of the host): exclusive, running, on 2-3",
        "  It asked for 2 exclusive CPUs and was granted 2-3.",
        "  It runs on exactly these, and no container and no other unit does.",
    ]
    view = cpu_view(owning(), 2)
    assert view is not None
    assert (view.owner, view.explanation[0]) == ("db.service", "It is granted to db.service.")
