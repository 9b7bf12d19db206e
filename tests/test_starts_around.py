"""Starts that go around the front are counted by runtime, and no others."""

from __future__ import annotations

from collections.abc import Mapping

from sidecar.decide.contacts import Connected, Contact, Ready
from sidecar.decide.facts import Phase
from sidecar.decide.world import World, replace
from sidecar.starts_around import StartsAround
from sidecar.words.around import around_told, cure_of
from sidecar.words.past import in_past
from state.key import ContainerKey
from state.topology import uniform
from tests.cli.worlds import container, world
from tests.support.keys import docker

ENGINE = docker("x").engine


def seen(*named: tuple[str, str, str], glances: tuple[str, ...] = (), is_ready: bool = True) -> World:
    """Return a world with these containers: name, runtime, and when it began."""
    made = world(uniform(cores=4), *(container(name) for name, _, _ in named))
    ready = Contact(readiness=Ready(1) if is_ready else Connected(1))
    for name, runtime, began in named:
        key = next(key for key, each in made.containers.items() if each.view.name == name)
        each = made.containers[key]
        shown = replace(each.view, runtime=runtime, started_at=began, phase=Phase.RUNNING, is_glance=name in glances)
        made = made.with_container(replace(each, view=shown))
    return made.with_contact(ENGINE, ready)


def key_of(at: World, name: str) -> ContainerKey:
    return next(key for key, each in at.containers.items() if each.view.name == name)


def counted(first: World, *others: World, asked: tuple[str, ...] = ()) -> StartsAround:
    """Return what is counted after these worlds; `asked` are the names that asked before the second."""
    made = StartsAround()
    made.asked(docker("somebody"), is_usual=True)
    made.see(first)
    for name in asked:
        made.asked(key_of(others[0], name), is_usual=True)
    for each in others:
        made.see(each)
    return made


def shown(made: StartsAround) -> Mapping[str, int] | None:
    """Return what is shown now."""
    return made.around


def test_a_start_that_nobody_asked_about_is_counted_by_its_runtime() -> None:
    """A new container, and one that starts again; each look once."""
    before, after = seen(("a", "runc", "1")), seen(("a", "runc", "2"), ("b", "kata", "2"))
    assert counted(before, after, after).around == {"kata": 1, "runc": 1}


def test_a_start_that_was_asked_about_is_not() -> None:
    """Once for each question."""
    before, after = seen(("a", "runc", "1")), seen(("a", "runc", "2"), ("b", "kata", "2"))
    assert counted(before, after, asked=("a", "b")).around == {}
    assert counted(before, after, seen(("a", "runc", "3"), ("b", "kata", "2")), asked=("a", "b")).around == {"runc": 1}


def test_what_ran_before_an_engine_was_counted_is_not() -> None:
    """It began at any time."""
    nothing = seen(is_ready=False)
    assert counted(nothing, seen(("a", "runc", "1"))).around == {}
    assert counted(nothing, seen(("a", "runc", "1")), seen(("a", "runc", "2"))).around == {"runc": 1}


def test_a_glance_shows_no_start() -> None:
    """Neither the one nor, by what it hides, another one afterwards."""
    before = seen(("a", "runc", "1"))
    assert counted(before, seen(("a", "runc", ""), glances=("a",)), before).around == {}
    assert counted(before, seen(("a", "", "2"))).around == {}


def test_without_a_front_that_containers_did_not_choose_nothing_is_counted() -> None:
    """Every start would be one. What chose the runtime proves nothing of the others."""
    made = StartsAround()
    for world_then in (seen(("a", "runc", "1")), seen(("a", "runc", "2"))):
        made.asked(docker("strict"), is_usual=False)
        assert not made.see(world_then)
    assert made.around is None


def test_questions_of_what_never_comes_are_forgotten() -> None:
    """Brief containers are never looked at."""
    made = StartsAround()
    for number in range(5000):
        made.asked(docker(f"brief-{number}"), is_usual=True)
    before, after = seen(("a", "runc", "1")), seen(("a", "runc", "2"))
    made.see(before)
    assert made.see(after)


def test_a_front_is_no_way_around_itself() -> None:
    """Docker's own always, any other by its record: of that engine alone."""
    before, after = seen(), seen(("a", "cpuset-default", "2"), ("b", "mine", "2"), ("c", "cpuset", "2"))
    assert counted(before, after).around == {"mine": 1}
    for engine, around in ((ENGINE, {}), ("another", {"mine": 1})):
        made = StartsAround()
        made.recorded(frozenset({(engine, "mine")}), frozenset(), seen(is_ready=False))
        made.asked(docker("asker"), is_usual=True)
        made.see(before)
        made.see(after)
        assert made.around == around


def record(made: StartsAround, *names: str, at: World, passing: tuple[str, ...] = ()) -> bool:
    """Have these fronts of the engine recorded."""
    return made.recorded(frozenset((ENGINE, name) for name in names), frozenset((ENGINE, name) for name in passing), at)


def test_without_a_front_any_more_nothing_is_counted_until_one_comes() -> None:
    """Then from nothing: what began meanwhile went around no front."""
    made = StartsAround()
    assert record(made, "kata", "cpuset-default", at=seen())
    made.see(seen(("a", "runc", "1")))
    assert shown(made) == {"runc": 1}
    assert not record(made, "kata", at=seen(("a", "runc", "1")))
    assert shown(made) == {"runc": 1}
    assert record(made, at=seen(("a", "runc", "1")))
    assert shown(made) is None
    assert not made.see(seen(("a", "runc", "2")))
    assert record(made, "cpuset-default", at=seen(("a", "runc", "3")))
    assert shown(made) == {}
    made.see(seen(("a", "runc", "4")))
    assert shown(made) == {"runc": 1}


def test_a_front_counts_from_its_record_on_before_anything_asks() -> None:
    """Plain containers start by a standing order: no question is heard. What ran by then began at any time."""
    made = StartsAround()
    assert record(made, "cpuset-default", at=seen(("ar", "runc", "1")))
    assert shown(made) == {}
    for count in (1, 2, 3):
        made.see(seen(("ar", "runc", str(count + 1))))
        assert shown(made) == {"runc": count}


def test_a_front_of_which_no_record_is_seen_is_known_by_what_it_wrote_down() -> None:
    """A start by a standing order; not one under the runtime that containers choose, nor of what is not known yet."""
    made, at = StartsAround(), seen(("pl", "mine", "1"), ("strict", "cpuset", "1"), ("ar", "runc", "1"))
    assert not made.began(["0" * 64, key_of(at, "strict").id], at)
    assert shown(made) is None
    assert made.began([key_of(at, "pl").id], at)
    assert not made.began([key_of(at, "pl").id], at)
    made.see(seen(("pl", "mine", "1"), ("ar", "runc", "2")))
    assert shown(made) == {"runc": 1}


def test_one_that_passes_everything_on_is_no_front_whatever_comes_late() -> None:
    """A question, or what was written down before it was taken away. It is named."""
    made, at = StartsAround(), seen(("pl", "cpuset-default", "1"))
    record(made, "cpuset-default", at=at)
    assert record(made, at=at, passing=("cpuset-default",))
    assert not record(made, at=at, passing=("cpuset-default",))
    assert not made.began([key_of(at, "pl").id], at)
    made.asked(key_of(at, "pl"), is_usual=True)
    assert not made.see(seen(("pl", "cpuset-default", "2"), ("ar", "runc", "2")))
    assert shown(made) is None
    assert made.passing == {(ENGINE, "cpuset-default")}
    assert record(made, at=at)
    assert not made.passing


def test_each_engine_is_counted_by_its_own_fronts() -> None:
    """The front of one is none of the other: there, everything starts as it always did."""
    before, after = seen(("a", "runc", "1")), seen(("a", "runc", "2"))
    made = StartsAround()
    assert made.recorded(frozenset({("podman", "crun")}), frozenset(), before)
    assert not made.see(after)
    assert shown(made) == {}
    made.recorded(frozenset({("podman", "crun"), (ENGINE, "cpuset-default")}), frozenset(), after)
    made.see(before)
    assert shown(made) == {"runc": 1}
    assert made.recorded(frozenset({("podman", "crun")}), frozenset({(ENGINE, "cpuset-default")}), before)
    assert shown(made) == {}


def test_what_asked_before_its_engine_was_known_did_not_go_around() -> None:
    """With several engines, a question alone does not tell which one it is of: the look does."""
    before, after = seen(), seen(("a", "runc", "1"), ("b", "runc", "1"))
    made = StartsAround()
    made.asked(ContainerKey("", key_of(after, "a").id), is_usual=True)
    assert shown(made) is None
    made.see(before)
    made.see(seen(("a", "runc", "")))
    assert shown(made) == {}
    made.see(after)
    assert shown(made) == {"runc": 1}


def test_a_front_of_which_no_record_is_seen_is_known_by_its_questions() -> None:
    """As by a daemon in a container: that it sees none proves nothing."""
    made = StartsAround()
    made.asked(docker("asker"), is_usual=True)
    assert not record(made, at=seen())
    assert shown(made) == {}


def test_it_is_said_with_the_cure() -> None:
    """What was created before is to be recreated; what has another runtime can be wrapped."""
    assert around_told({}) == "the engine's own runtime stands behind a front: every start seen since came through it"
    told = around_told({"kata": 1, "runc": 2})
    assert told == "3 starts went around the front, and were seen as births alone: 1 by kata, 2 by runc"
    assert around_told({"runc": 1}) == "1 start went around the front, and was seen as a birth alone: 1 by runc"
    assert not around_told(None)
    gone = {("docker", "cpuset-default")}
    assert around_told(None, gone) == "the front cpuset-default (docker) was removed, and passes everything on"
    assert in_past(around_told(None, gone)).endswith("and passed everything on")
    assert around_told({}, gone) == f"{around_told({})}; {around_told(None, gone)}"
    assert in_past(around_told({})).startswith("the engine's own runtime stood behind a front")
    assert cure_of({"runc": 1}) == "recreate these containers"
    assert "install-runtime --wrap kata" in cure_of({"kata": 1, "runc": 2})
