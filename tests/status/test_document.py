"""The status document says what is where, and why, in sentences that are true."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from sidecar.commit.state_lock import hold_lock
from sidecar.decide.container.line import Fault, FaultKind, Free
from sidecar.decide.container.place import Place
from sidecar.decide.facts import Phase
from sidecar.decide.hand_state import HandState
from sidecar.decide.orders import Answers, HoldAnswers
from sidecar.decide.settings import PolicyName, Settings
from sidecar.decide.world import replace
from sidecar.status.describe import MOST_NEIGHBOURS, status_of
from sidecar.status.document import ContainerStatus, SharingStatus, Status
from sidecar.status.machine_map import machine_of
from sidecar.status.status_file import NAME, decode_status, is_daemon_running, read_status, write_status
from sidecar.words.neighbour_names import may_run_there
from state import codec
from state.cpuset import CPUSet
from state.errors import StateError
from state.topology import topology, uniform
from tests.cli.worlds import STATIC, container, world
from tests.support.decide.rights import EVERY_RIGHT
from tests.support.decide.stories import Story
from tests.support.keys import docker

FOUR = uniform(cores=4)


def one(status: Status, name: str) -> ContainerStatus:
    return next(each for each in status.containers if each.name == name)


def test_an_exclusive_container_that_is_settled() -> None:
    """Where it runs, that it is alone, and why it has these CPUs."""
    status = status_of(world(FOUR, container("web", exclusive=2), container("log")), updated_at="now", program="1")
    web = one(status, "web")
    assert (web.sharing, web.asked, str(web.cpus), str(web.desired)) == (SharingStatus.EXCLUSIVE, 2, "1-2", "1-2")
    assert web.is_settled
    assert web.explanation == (
        "It asked for 2 exclusive CPUs and was granted 1-2.",
        "It runs on exactly these, and no other container of the engine does.",
    )
    log = one(status, "log")
    assert (log.sharing, log.is_settled, str(log.cpus)) == (SharingStatus.SHARED, True, "0,3")
    assert log.explanation == (
        "It asks for no exclusive CPUs, so it runs in the shared pool, 0,3.",
        "It runs on exactly these.",
    )
    assert (str(status.reserved), str(status.shared), str(status.exclusive)) == ("0", "0,3", "1-2")
    assert (status.policy, status.is_ready, status.updated_at, status.program) == ("static", True, "now", "1")


def test_a_waiting_container_names_the_one_it_waits_for() -> None:
    """Before the shared container has left, the exclusive one is not settled; the status names the container in its
    way.
    """
    views = (container("web", exclusive=2, effective=CPUSet.of(0, 1, 2)), container("noisy"))
    status = status_of(world(FOUR, *views, answers=0))
    web, noisy = one(status, "web"), one(status, "noisy")
    assert not web.is_settled
    assert not noisy.is_settled
    assert str(noisy.pending) == "0,3"
    assert noisy.waits_for == "the engine to move it to 0,3"
    settled = status_of(world(FOUR, *views))
    assert one(settled, "web").is_settled
    half = world(FOUR, *views, answers=0)
    key = docker(one(status, "web").id)
    half = half.with_container(replace(half.containers[key], line=Free(), place=Place(CPUSet.of(1), CPUSet.of(1))))
    assert one(status_of(half), "web").waits_for == "noisy to leave 1-2"
    assert (
        "It runs on 1 now and should run on 1-2; it waits for noisy to leave 1-2."
        in one(status_of(half), "web").explanation
    )


def test_only_what_the_other_one_has_is_named() -> None:
    """Not all that the one that waits should have."""
    views = (container("web", exclusive=2, effective=CPUSet.of(0, 1, 2)), container("noisy"))
    half = world(FOUR, *views, answers=0)
    for name, cpus in (("web", CPUSet.of(1)), ("noisy", CPUSet.of(0, 2))):
        key = docker(one(status_of(half), name).id)
        half = half.with_container(replace(half.containers[key], line=Free(), place=Place(cpus, cpus)))
    assert one(status_of(half), "web").waits_for == "noisy to leave 2"


def test_a_refusal_says_why_and_what_next() -> None:
    """The reason, and whether it will be tried again."""
    first = container("first", exclusive=2)
    wait = container("big", exclusive=3, labels={"cpuset.on-shortage": "wait"})
    status = status_of(world(FOUR, first, wait, container("odd", exclusive="some")))
    big, odd = one(status, "big"), one(status, "odd")
    assert big.sharing is odd.sharing is SharingStatus.SHARED
    assert big.refusal.startswith("asked for 3 exclusive CPUs")
    assert big.explanation[0] == f"It was refused: {big.refusal}."
    assert big.explanation[1:3] == ("It runs in the shared pool until they are available.", "It is 1st of 1 waiting.")
    assert (big.turn, odd.turn, status.waiting) == (1, 0, 1)
    assert odd.explanation[0].startswith("It was refused: cpuset.exclusive is 'some'")
    assert odd.explanation[1] == "It runs in the shared pool."
    assert not any(sentence.startswith("Warning") for sentence in odd.explanation)


def test_strangers_and_those_left_alone() -> None:
    """Pinned by hand differs from unmanaged, and both have their reason."""
    pinned = container("pinned", cpuset="3", effective=CPUSet.of(3))
    alone = container("alone", labels={"cpuset.manage": "off"})
    status = status_of(world(FOUR, pinned, alone))
    assert one(status, "pinned").sharing is SharingStatus.STRANGER
    assert one(status, "pinned").explanation == (
        "It is pinned by hand to CPU 3: it is never moved, and no other container gets these CPUs exclusively.",
    )
    assert one(status, "alone").sharing is SharingStatus.UNMANAGED
    assert one(status, "alone").explanation == ("It is not managed: left alone, as requested.",)
    assert all(each.is_settled for each in status.containers)


def test_under_no_policy_no_container_is_managed() -> None:
    """The document says so, and promises nothing."""
    status = status_of(
        world(FOUR, container("web", exclusive=2), settings=Settings(may=EVERY_RIGHT, policy=PolicyName.NONE))
    )
    web = one(status, "web")
    assert (web.sharing, web.desired, web.explanation) == (
        SharingStatus.UNMANAGED,
        CPUSet(),
        ("The policy is none: no container is changed.",),
    )


def test_a_lifted_quota_is_told() -> None:
    """The change in addition to the CPUs, and that it will be restored."""
    before = container("web", exclusive=2, nano_cpus=2_000_000_000)
    made = world(FOUR, before)
    held = made.containers[before.key]
    made = made.with_container(replace(held, view=replace(held.view, nano_cpus=8_000_000_000)))
    web = one(status_of(made), "web")
    assert web.is_quota_lifted
    assert web.explanation[-1] == (
        "Its limit of 2 CPUs is lifted while it has exclusive CPUs, and restored when it gives them up."
    )


def test_a_container_that_does_not_run_is_told_where_it_would() -> None:
    """Created and stopped containers run nothing, and come last."""
    made = container("late", exclusive=1, phase=Phase.CREATED)
    gone = container("done", phase=Phase.EXITED)
    status = status_of(world(FOUR, gone, made, container("web")))
    assert [each.name for each in status.containers] == ["web", "done", "late"]
    assert one(status, "late").explanation[-1] == "It is not running (created); it would start on 1."
    assert one(status, "done").explanation[-1] == "It is not running (exited); it would start on 0,2-3."


def test_a_container_whose_runtime_asks_is_where_the_answer_will_say() -> None:
    """It is not moved before: what the engine has configured meanwhile keeps it from nothing."""
    late = container("late", exclusive=1, phase=Phase.CREATED, runtime="cpuset")
    told = one(status_of(world(FOUR, late, container("web"))), "late")
    assert told.explanation[-1] == "It is not running (created); its runtime asks the sidecar before it starts."
    assert (str(told.cpus), told.is_settled) == ("1", True)


def test_a_member_of_the_shared_group_is_where_the_group_is() -> None:
    """The group is moved, and its members are not looked at again."""
    story = Story(FOUR, shared_slice="pool.slice")
    story.arrive("member", is_member=True)
    story.arrive("web", 1)
    story.settle()
    assert str(one(status_of(story.world), "member").cpus) == "0,2-3"


def test_problems_warnings_and_troubles_are_told() -> None:
    """What the daemon cannot do, labels that are not understood, and the last failure."""
    odd = container("odd", labels={"cpuset.exclusiv": "1"})
    made = world(FOUR, odd)
    made = made.with_container(replace(made.containers[odd.key], fault=Fault(FaultKind.FAILED, "no space")))
    status = status_of(made, problems=("the checkpoint cannot be written",))
    assert status.problems == ("the checkpoint cannot be written",)
    told = one(status, "odd").explanation
    assert "The last order failed: no space" in told
    assert told[-1].startswith("Warning: unknown label 'cpuset.exclusiv'; did you mean 'cpuset.exclusive'?")


def test_while_everything_is_given_back() -> None:
    """The status shows the release."""
    made = world(FOUR, container("web", exclusive=2))
    status = status_of(replace(made, is_releasing=True))
    assert one(status, "web").explanation[0] == (
        "The sidecar is releasing every container: its original settings are being restored."
    )


def test_the_machine_is_a_map_from_sockets_to_cpus() -> None:
    """Packages hold nodes, nodes caches, caches cores, cores CPUs."""
    machine = machine_of(uniform(packages=2, cores=2, threads=2))
    assert [p.id for p in machine.packages] == [0, 1]
    cores = [str(c.cpus) for p in machine.packages for n in p.nodes for k in n.caches for c in k.cores]
    assert cores == ["0,4", "1,5", "2,6", "3,7"]


def test_what_spans_two_groups_is_drawn_in_both_with_its_part() -> None:
    """A node over two sockets, and a cache over two nodes, lose no CPU and repeat none."""
    cpus = [CPUSet.of(n) for n in range(4)]
    machine = machine_of(
        topology(
            cores=cpus,
            caches=[CPUSet.of(0), CPUSet.of(1, 2), CPUSet.of(3)],
            nodes={0: CPUSet.of(0, 1), 1: CPUSet.of(2, 3)},
            packages={0: CPUSet.of(0, 1, 2), 1: CPUSet.of(3)},
        )
    )
    drawn = [cpu for p in machine.packages for n in p.nodes for k in n.caches for c in k.cores for cpu in c.cpus]
    assert sorted(drawn) == [0, 1, 2, 3]


def test_the_document_survives_the_disk(tmp_path: Path) -> None:
    """Written in one step, read unchanged, and private."""
    status = status_of(world(FOUR, container("web", exclusive=2)), updated_at="t")
    write_status(tmp_path, status)
    assert read_status(tmp_path) == status
    assert (tmp_path / NAME).stat().st_mode & 0o777 == 0o600
    assert codec.encode(decode_status(codec.encode(status))) == codec.encode(status)


def test_no_document_broken_ones_and_later_ones_are_told(tmp_path: Path) -> None:
    """Each with what to do."""
    never = "no daemon has run with this state_dir, or {} was deleted since"
    with pytest.raises(StateError, match=rf"there is no status in .*: {never.format('what it wrote')}"):
        read_status(tmp_path)
    with pytest.raises(StateError, match=never.format("it")):
        read_status(tmp_path / "nowhere")
    # It has run, and what is there shows it.
    (tmp_path / "checkpoint.json").write_bytes(b"{}")
    with pytest.raises(StateError, match="only the recorded state of a daemon: the status was deleted; start"):
        read_status(tmp_path)
    with (
        hold_lock(str(tmp_path)),
        pytest.raises(StateError, match="the daemon that runs there has not written it yet, or it was deleted since"),
    ):
        read_status(tmp_path)
    (tmp_path / NAME).write_bytes(b"{}")
    broken = rf"^{NAME} in {tmp_path} cannot be used: this is not a status document: .*; a daemon of .* replaces it"
    with pytest.raises(StateError, match=broken):
        read_status(tmp_path)
    later = codec.encode(replace(status_of(world(FOUR)), version=2))
    with pytest.raises(StateError, match="has version 2"):
        decode_status(later)


def test_a_daemon_is_known_by_its_lock(tmp_path: Path) -> None:
    """The lock counts, not the age of a file."""
    assert is_daemon_running(tmp_path) is False
    held = os.open(tmp_path / "lock", os.O_CREAT | os.O_RDWR)
    assert is_daemon_running(tmp_path) is False
    fcntl.flock(held, fcntl.LOCK_EX)
    assert is_daemon_running(tmp_path) is True
    os.close(held)
    assert is_daemon_running(tmp_path) is False


def test_the_settings_of_the_examples_are_lawful() -> None:
    """The worlds of these tests are worlds that the daemon can be in."""
    assert STATIC.policy is PolicyName.STATIC
    assert world(FOUR, container("web", exclusive=2)).is_ready


def test_of_a_crowd_the_first_neighbours_are_shown_and_how_many_there_are() -> None:
    """All that arrive at once may run on an owner's CPUs: pairs of all would be megabytes. The words count all."""
    views = [container("web", exclusive=1), *(container(f"log-{number}") for number in range(40))]
    web = one(status_of(world(FOUR, *views, answers=0)), "web")
    assert (len(web.neighbours), web.neighbour_count) == (MOST_NEIGHBOURS, 40)
    assert [each.name for each in web.neighbours[:3]] == ["log-0", "log-1", "log-2"]
    shown = [(each.name, each.sharing.value) for each in web.neighbours]
    assert may_run_there(shown, web.neighbour_count).endswith("log-4 (shared) and 35 more may run there too")
    few = one(status_of(world(FOUR, *views[:4], answers=0)), "web")
    assert (len(few.neighbours), few.neighbour_count) == (3, 3)


def test_one_that_a_start_by_an_older_order_holds_up_says_so() -> None:
    """The start that hangs is named among the problems; the engine's own order may wait for it as well."""
    settled = world(FOUR, container("web", exclusive=2, phase=Phase.CREATED))
    key = next(iter(settled.state.assignments))
    granted = settled.state.assignments[key].cpus
    held = HoldAnswers(1, Answers(others=CPUSet(range(4))))
    sent = HoldAnswers(2, Answers(others=settled.state.shared, own={key: granted}, owned=granted))
    late = replace(settled, hand=HandState(parents=("/docker",), held=held, sent=sent))
    web = one(status_of(late), "web")
    assert web.waits_for == f"what starts by an older order to leave {granted}"
    assert f"It is not running (created); it waits for {web.waits_for}." in web.explanation
    on_time = replace(settled, hand=HandState(parents=("/docker",), held=sent))
    assert "older order" not in one(status_of(on_time), "web").waits_for
