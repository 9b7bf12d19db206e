"""What each hand promises: the real one on the kernel's cpusets, on plain files of v2, and the simulated one."""

from __future__ import annotations

import pytest

from sidecar.decide.facts import ContainerView, Phase
from sidecar.decide.orders import Answers, Update
from sidecar.failures import CgroupGone
from sidecar.ports import GroupBorn, GroupGone, GroupOverwritten, GroupPinned, ParentsChanged
from state.cpuset import EMPTY, CPUSet
from tests.support.hand.stages import Stage, news_until, until
from tests.support.keys import docker

ONE, TWO, THREE, LAST = "a" * 64, "b" * 64, "c" * 64, "d" * 64
POOL, OWN = CPUSet.of(0), CPUSet.of(1)
ANSWERS = Answers(others=POOL, own={docker(TWO): OWN}, owned=OWN)


def begun(stage: Stage, *paths: str, answers: Answers | None = ANSWERS) -> Stage:
    """Return the stage with these parents, and a hand that holds the answers."""
    for path in paths or ("/docker",):
        stage.make(path)
    stage.begin()
    if answers:
        stage.hand.hold(answers)
    return stage


def at(id: str) -> str:
    """Return the path of one of Docker's containers."""
    return f"/docker/{id}"


def view_of(id: str) -> ContainerView:
    """Return a live container with this id."""
    return ContainerView(engine="docker", id=id, name="c", phase=Phase.RUNNING)


def has(stage: Stage, path: str, cpus: str) -> None:
    """Wait until a group has these CPUs."""
    until(lambda: stage.cpus(path) == cpus)


def born(stage: Stage) -> tuple[str, str]:
    """Wait for the next birth; return the id that is told, and the path."""
    found = news_until(stage.hand, lambda each: isinstance(each, GroupBorn))
    return next((each.id, each.path) for each in found if isinstance(each, GroupBorn))


def test_a_newborn_has_the_pool_and_one_that_is_known_its_own(stage: Stage) -> None:
    """Before the engine is asked: the answers were there before the birth."""
    begun(stage)
    stage.make(at(ONE))
    stage.make(at(TWO))
    has(stage, at(ONE), "0")
    has(stage, at(TWO), "1")


def test_a_birth_is_reported_with_what_was_written(stage: Stage) -> None:
    begun(stage)
    stage.make(at(TWO))
    news = news_until(stage.hand, lambda each: isinstance(each, GroupBorn))
    assert [(each.id, each.path) for each in news if isinstance(each, GroupBorn)] == [(TWO, at(TWO))]


def test_a_start_after_an_end_is_a_birth(stage: Stage) -> None:
    begun(stage)
    stage.make(at(ONE))
    has(stage, at(ONE), "0")
    stage.hand.write(view_of(ONE), Update(cpus=OWN))
    stage.remove(at(ONE))
    news_until(stage.hand, lambda each: each == GroupGone(ONE, at(ONE)))
    stage.make(at(ONE))
    has(stage, at(ONE), "0")


def test_nothing_is_written_before_the_first_answers_and_none_without_a_pool(stage: Stage) -> None:
    begun(stage, answers=None)
    stage.make(at(ONE))
    news_until(stage.hand, lambda each: isinstance(each, GroupBorn) and each.cpus is None)
    assert stage.hand.hold(Answers()).stuck == EMPTY
    stage.overwrite(at(ONE), "1")
    stage.make(at(TWO))
    news_until(stage.hand, lambda each: isinstance(each, GroupBorn) and each.id == TWO)
    assert stage.cpus(at(ONE)) == "1"


def test_new_answers_are_in_every_newborn_on_return(stage: Stage) -> None:
    """A later birth has them as well: no CPU is granted while a newborn may still get it."""
    begun(stage)
    stage.make(at(ONE))
    has(stage, at(ONE), "0")
    assert stage.hand.hold(Answers(others=OWN)).stuck == EMPTY
    assert stage.cpus(at(ONE)) == "1"
    stage.make(at(TWO))
    has(stage, at(TWO), "1")


def test_a_newborn_is_answered_when_the_first_answers_come(stage: Stage) -> None:
    begun(stage, answers=None)
    stage.make(at(ONE))
    stage.hand.hold(ANSWERS)
    has(stage, at(ONE), "0")


def test_a_container_that_is_left_alone_keeps_what_its_runtime_wrote(stage: Stage) -> None:
    begun(stage, answers=Answers(others=POOL, own={docker(TWO): None}))
    stage.make(at(TWO))
    stage.overwrite(at(TWO), "0-1")
    stage.make(at(ONE))
    has(stage, at(ONE), "0")
    assert stage.cpus(at(TWO)) == "0-1"


def test_what_an_order_wrote_is_kept_whatever_the_answers_are(stage: Stage) -> None:
    begun(stage)
    stage.make(at(ONE))
    has(stage, at(ONE), "0")
    assert stage.hand.write(view_of(ONE), Update(cpus=OWN)) == OWN
    stage.hand.hold(Answers(others=CPUSet.of(0, 1)))
    assert stage.cpus(at(ONE)) == "1"


def test_the_group_of_a_run_that_is_over_is_answered_as_a_birth(stage: Stage) -> None:
    """It may still be there, because other groups are inside it."""
    begun(stage)
    stage.make(at(ONE))
    has(stage, at(ONE), "0")
    stage.hand.write(view_of(ONE), Update(cpus=OWN))
    stage.hand.hold(ANSWERS, resting=[docker(TWO)])
    assert stage.cpus(at(ONE)) == "1"
    stage.hand.hold(ANSWERS, resting=[docker(ONE), docker(TWO)])
    assert stage.cpus(at(ONE)) == "0"
    stage.hand.write(view_of(ONE), Update(cpus=OWN))
    assert stage.cpus(at(ONE)) == "1", "it runs again"


def test_a_group_that_was_found_is_answered_as_a_birth_if_its_container_rests(stage: Stage) -> None:
    """No order will write it. Its name may be all that it has of that container."""
    stage.make("/docker")
    for id in (ONE, TWO):
        stage.make(at(id))
        stage.overwrite(at(id), "0-1")
    stage.begin()
    answers = Answers(others=POOL, own={docker(ONE): POOL, docker(TWO): OWN}, owned=OWN)
    stage.hand.hold(answers, resting=[docker(ONE)])
    assert stage.cpus(at(ONE)) == "0"
    assert stage.cpus(at(TWO)) == "0-1", "it may be leaving CPUs with notice"
    assert stage.hand.write(view_of(ONE), Update(cpus=OWN)) == OWN, "it runs again"


def test_many_are_written_at_once_and_one_that_is_gone_keeps_no_other(stage: Stage) -> None:
    """Each outcome is where its write was, and each that was written is guarded."""
    begun(stage)
    for id in (ONE, THREE):
        stage.make(at(id))
        has(stage, at(id), "0")
    first, gone, last = stage.hand.write_many([(view_of(id), Update(cpus=OWN)) for id in (ONE, LAST, THREE)])
    assert (first, last) == (OWN, OWN)
    assert isinstance(gone, CgroupGone)
    assert [stage.cpus(at(id)) for id in (ONE, THREE)] == ["1", "1"]
    for id in (ONE, THREE):
        stage.overwrite(at(id), "0-1")
        has(stage, at(id), "1")
    stage.hand.hold(Answers(others=CPUSet.of(0, 1)))
    assert [stage.cpus(at(id)) for id in (ONE, THREE)] == ["1", "1"], "no answer is written into it"
    assert list(stage.hand.write_many([])) == []


def test_many_written_again_are_guarded_with_the_newest_alone(stage: Stage) -> None:
    begun(stage)
    for id in (ONE, THREE):
        stage.make(at(id))
        has(stage, at(id), "0")
    for cpus in (OWN, POOL, OWN):
        views = [view_of(id) for id in (ONE, THREE)]
        assert list(stage.hand.write_many([(view, Update(cpus=cpus)) for view in views])) == [cpus, cpus]
        assert [stage.cpus(at(id)) for id in (ONE, THREE)] == [str(cpus)] * 2
    stage.overwrite(at(ONE), "0-1")
    has(stage, at(ONE), "1")
    stage.remove(at(ONE))
    [gone] = stage.hand.write_many([(view_of(ONE), Update(cpus=OWN))])
    assert isinstance(gone, CgroupGone)


def test_a_foreign_write_is_overwritten(stage: Stage) -> None:
    begun(stage)
    stage.make(at(ONE))
    has(stage, at(ONE), "0")
    stage.hand.write(view_of(ONE), Update(cpus=POOL))
    stage.overwrite(at(ONE), "0-1")
    has(stage, at(ONE), "0")


def test_a_released_container_keeps_what_others_write(stage: Stage) -> None:
    begun(stage)
    stage.make(at(ONE))
    has(stage, at(ONE), "0")
    stage.hand.write(view_of(ONE), Update(cpus=POOL))
    stage.hand.release(ONE)
    stage.overwrite(at(ONE), "0-1")
    stage.make(at(TWO))
    has(stage, at(TWO), "1")
    stage.hand.hold(Answers(others=POOL))
    assert stage.cpus(at(ONE)) == "0-1"


def test_after_a_release_of_all_none_is_written(stage: Stage) -> None:
    begun(stage)
    stage.make(at(ONE))
    has(stage, at(ONE), "0")
    stage.hand.hold(Answers())
    stage.hand.release(None)
    stage.overwrite(at(ONE), "0-1")
    stage.make(at(TWO))
    news_until(stage.hand, lambda each: isinstance(each, GroupBorn) and each.id == TWO)
    assert stage.cpus(at(ONE)) == "0-1"


def test_a_group_that_was_there_before_leaves_only_owners_cpus(stage: Stage) -> None:
    """The daemon was away: it does not know yet where the container should be."""
    stage.make("/docker")
    for id, cpus in ((ONE, "0-1"), ("c" * 64, "1"), ("d" * 64, "0"), (TWO, "0-1")):
        stage.make(at(id))
        stage.overwrite(at(id), cpus)
    stage.begin()
    stage.hand.hold(ANSWERS)
    found = {id: stage.cpus(at(id)) for id in (ONE, "c" * 64, "d" * 64, TWO)}
    assert found == {ONE: "0", "c" * 64: "0", "d" * 64: "0", TWO: "0-1"}


def test_a_group_that_is_not_known_keeps_what_its_runtime_writes_but_for_owners_cpus(stage: Stage) -> None:
    """It is of another engine: it gets again what it was denied once the owner has left."""
    free = Answers(others=POOL)
    begun(stage, answers=free)
    stage.make(at(ONE))
    has(stage, at(ONE), "0")
    stage.overwrite(at(ONE), "1")
    has(stage, at(ONE), "1")
    stage.hand.hold(ANSWERS)
    assert stage.cpus(at(ONE)) == "0"
    stage.hand.hold(free)
    assert stage.cpus(at(ONE)) == "1"
    stage.hand.hold(Answers(others=POOL, own={docker(ONE): POOL}))
    assert stage.cpus(at(ONE)) == "0", "it is known now"


def test_a_newborn_that_is_let_go_gets_what_its_runtime_wrote(stage: Stage) -> None:
    """It is pinned by hand, as its first look shows."""
    begun(stage)
    stage.make(at(ONE))
    has(stage, at(ONE), "0")
    stage.overwrite(at(ONE), "1")
    has(stage, at(ONE), "0")
    stage.hand.hold(Answers(others=POOL, own={docker(ONE): None}))
    assert stage.cpus(at(ONE)) == "1"
    stage.overwrite(at(ONE), "0-1")
    stage.make(at(TWO))
    has(stage, at(TWO), "0")
    assert stage.cpus(at(ONE)) == "0-1"


def test_a_newborn_that_is_let_go_keeps_a_pin_that_is_the_pool(stage: Stage) -> None:
    """Nobody noticed that its runtime wrote that too: the engine knows."""
    begun(stage)
    stage.make(at(ONE))
    has(stage, at(ONE), "0")
    stage.overwrite(at(ONE), "0")
    stage.hand.hold(Answers(others=POOL, own={docker(ONE): None}, left={docker(ONE): POOL}))
    assert stage.cpus(at(ONE)) == "0"


def test_a_group_that_was_moved_when_the_hand_began_gets_its_cpus_again_when_it_is_let_go(stage: Stage) -> None:
    stage.make("/docker")
    stage.make(at(ONE))
    stage.overwrite(at(ONE), "1")
    stage.begin()
    stage.hand.hold(ANSWERS)
    assert stage.cpus(at(ONE)) == "0"
    stage.hand.hold(Answers())
    assert stage.cpus(at(ONE)) == "1"


def test_a_container_that_an_order_wrote_keeps_its_cpus_when_it_is_let_go(stage: Stage) -> None:
    begun(stage)
    stage.make(at(ONE))
    stage.hand.write(view_of(ONE), Update(cpus=OWN))
    stage.hand.hold(Answers())
    assert stage.cpus(at(ONE)) == "1"
    stage.overwrite(at(ONE), "0-1")
    stage.make(at(TWO))
    news_until(stage.hand, lambda each: isinstance(each, GroupBorn) and each.id == TWO)
    assert stage.cpus(at(ONE)) == "0-1"


def test_a_pin_that_an_order_overwrote_is_given_back(stage: Stage) -> None:
    """The order came while nothing but a glance was possible: the engine knows what it is pinned to."""
    begun(stage)
    stage.make(at(ONE))
    stage.hand.write(view_of(ONE), Update(cpus=POOL))
    assert stage.cpus(at(ONE)) == "0"
    alone = Answers(others=POOL, own={docker(ONE): None}, left={docker(ONE): OWN})
    stage.hand.hold(alone)
    assert stage.cpus(at(ONE)) == "1"
    stage.overwrite(at(ONE), "0-1")
    stage.hand.hold(alone)
    assert stage.cpus(at(ONE)) == "0-1", "once"


def test_a_pin_that_was_changed_while_an_order_guarded_it_is_given_once_it_is_told(stage: Stage) -> None:
    """What undid it was the guard, and the look by which the container was let go was older."""
    begun(stage)
    stage.make(at(ONE))
    stage.hand.write(view_of(ONE), Update(cpus=POOL))
    stage.overwrite(at(ONE), "1")
    has(stage, at(ONE), "0")
    for pin, cpus in ((POOL, "0"), (OWN, "1")):
        stage.hand.hold(Answers(others=POOL, own={docker(ONE): None}, left={docker(ONE): pin}))
        assert stage.cpus(at(ONE)) == cpus


def test_a_container_without_a_group_is_gone(stage: Stage) -> None:
    begun(stage)
    with pytest.raises(CgroupGone):
        stage.hand.write(view_of(ONE), Update(cpus=POOL))


def test_a_parent_that_appears_is_watched_from_then_on(stage: Stage) -> None:
    stage.begin()
    assert stage.hand.hold(ANSWERS).parents == ()
    stage.make("/docker")
    stage.make(at(ONE))
    has(stage, at(ONE), "0")
    news_until(stage.hand, lambda each: each == ParentsChanged(("/docker",)))
    assert stage.hand.parents == ("/docker",)


def test_pods_and_builds_are_parents_themselves(stage: Stage) -> None:
    begun(stage, "/docker", "/libpod_parent")
    pod = f"/libpod_parent/{'9' * 64}"
    stage.make(pod)
    stage.make(f"{pod}/libpod-{ONE}")
    stage.make("/docker/buildkit")
    stage.make("/docker/buildkit/x6fkz")
    has(stage, f"{pod}/libpod-{ONE}", "0")
    has(stage, "/docker/buildkit/x6fkz", "0")


def test_services_beside_containers_are_never_touched(stage: Stage) -> None:
    begun(stage, "/system.slice")
    stage.make("/system.slice/ssh.service")
    stage.overwrite("/system.slice/ssh.service", "0-1")
    stage.make(f"/system.slice/docker-{ONE}.scope")
    has(stage, f"/system.slice/docker-{ONE}.scope", "0")
    assert stage.cpus("/system.slice/ssh.service") == "0-1"


def test_a_parent_that_a_container_names_is_watched(stage: Stage) -> None:
    begun(stage)
    stage.hand.hold(ANSWERS, ["/tenants/one"])
    stage.make("/tenants")
    stage.make("/tenants/one")
    stage.make(f"/tenants/one/{ONE}")
    has(stage, f"/tenants/one/{ONE}", "0")


def test_cpus_that_a_runtime_gives_a_newborn_are_reported_once(stage: Stage) -> None:
    """Not its copy of the parent's CPUs, nor what is written into one that an order wrote."""
    begun(stage)
    for id in (ONE, THREE):
        stage.make(at(id))
        has(stage, at(id), "0")
    stage.overwrite(at(ONE), "0-1")
    has(stage, at(ONE), "0")
    for _ in range(3):
        stage.overwrite(at(THREE), "1")
        has(stage, at(THREE), "0")
    stage.hand.write(view_of(ONE), Update(cpus=POOL))
    stage.overwrite(at(ONE), "1")
    has(stage, at(ONE), "0")
    stage.make(at(LAST))
    news = news_until(stage.hand, lambda each: isinstance(each, GroupBorn) and each.id == LAST)
    assert [each.id for each in news if isinstance(each, GroupPinned)] == [THREE]


def test_a_loop_of_foreign_writes_is_reported_by_its_container(stage: Stage) -> None:
    begun(stage)
    stage.make(at(ONE))
    has(stage, at(ONE), "0")
    stage.grow_older()
    for _ in range(20):
        stage.overwrite(at(ONE), "0-1")
        has(stage, at(ONE), "0")
    news = news_until(stage.hand, lambda each: isinstance(each, GroupOverwritten))
    assert {(each.id, each.found) for each in news if isinstance(each, GroupOverwritten)} == {(ONE, CPUSet.of(0, 1))}
