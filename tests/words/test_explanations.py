"""The status of containers whose CPUs change: what decides their size, what leaves them, why CPUs moved."""

from __future__ import annotations

from msgspec.structs import replace

from sidecar.decide.facts import ContainerView, Load, LoadMeasured, Phase, Purpose
from sidecar.decide.settings import PolicyName
from sidecar.decide.sightings import sighted
from sidecar.status.describe import status_of
from sidecar.status.document import ContainerStatus, LoadStatus, MoveStatus
from sidecar.words.reasons import reason_of
from tests.support.decide.stories import Story, cpus


def dynamic() -> Story:
    return Story(policy=PolicyName.DYNAMIC)


def told(story: Story, name: str) -> ContainerStatus:
    return next(each for each in status_of(story.world).containers if each.name == name)


def test_what_decides_how_many_is_said() -> None:
    """Share of the spare CPUs, use, or order; with the resulting number."""
    story = dynamic()
    story.arrive("fill", 1, labels={"cpuset.max": "2", "cpuset.weight": "30"})
    busy = story.arrive("busy", 1, labels={"cpuset.max": "2", "cpuset.scale": "load"})
    story.arrive("man", 1, labels={"cpuset.max": "2", "cpuset.scale": "manual"})
    story.arrive("fixed", 1)
    story.settle()
    assert "It may have 1 to 2 CPUs: it gets a share of the spare CPUs, by its weight of 30." in sentences(
        story, "fill"
    )
    assert sentences(story, "busy")[1] == (
        "It may have 1 to 2 CPUs: its load decides, and no measurement has called for a change yet."
    )
    assert sentences(story, "man")[1] == (
        "It may have 1 to 2 CPUs: `cpuset-sidecar resize` decides; it has not been used yet."
    )
    assert not [sentence for sentence in sentences(story, "fixed") if "It may have" in sentence]
    assert told(story, "busy").load is None
    story.feed(LoadMeasured((Load(container=busy.key, cpus=1, use=0.9, peak=0.95, pressure=3.0),)))
    assert told(story, "busy").load == LoadStatus(use=0.9, peak=0.95, pressure=3.0)
    assert "it used 0.9 when last measured out of range" in " ".join(sentences(story, "busy"))


def test_what_its_engine_has_not_shown_is_not_said_to_ask_for_nothing() -> None:
    """The kernel alone tells of a container that is born while the engine is away: its labels may ask."""
    view = ContainerView(engine="docker", id="b" * 64, name="b" * 12, phase=Phase.RUNNING, is_glance=True)
    world = sighted(Story().world, view, 1000)
    [born] = status_of(world).containers
    assert born.explanation[0] == "Its labels are not known yet, so it runs in the shared pool, 0-7."
    assert reason_of(world, world.containers[view.key]) == "in the shared pool: its labels are not known yet"
    world = sighted(world, replace(view, is_glance=False), 1001)
    [looked_at] = status_of(world).containers
    assert looked_at.explanation[0] == "It asks for no exclusive CPUs, so it runs in the shared pool, 0-7."


def test_why_cpus_moved_and_what_is_leaving_is_said() -> None:
    """The take with its notice, its recipient and the reason; and afterwards what was changed, the newest first."""
    story = dynamic()
    story.arrive("batch", 2, labels={"cpuset.max": "6", "cpuset.grace": "3s"})
    story.settle()
    story.arrive("web", 3)
    story.settle()
    batch, web = told(story, "batch"), told(story, "web")
    assert batch.leaving is not None
    taken, kept = batch.leaving.cpus, cpus("1-6") - batch.leaving.cpus
    assert (batch.cpus, batch.granted, batch.desired) == (cpus("1-6"), kept, cpus("1-6"))
    assert (batch.leaving.notice_seconds, batch.leaving.is_due, batch.leaving.until) == (3.0, False, "")
    assert batch.waits_for == f"its acknowledgement of take 1 ({taken}), for 3 s at most"
    said = f"It keeps CPUs {taken} (take 1) until it acknowledges, for 3 s at most: {batch.leaving.reason}."
    assert said in batch.explanation
    assert batch.explanation[0] == f"It asked for 2 exclusive CPUs and has {len(kept)} now: {kept}."
    assert "web arrived" in batch.leaving.reason
    assert web.waits_for == f"batch to leave {web.granted & batch.cpus}, after 3 s of notice"
    [grace] = [place for place, timer in enumerate(story.timers) if timer.purpose is Purpose.GRACE]
    story.time_out(grace)
    due = f"It is losing CPUs {taken} now (take 1): {batch.leaving.reason}."
    assert due in sentences(story, "batch")
    story.settle()
    after = told(story, "batch")
    assert after.leaving is None
    assert after.moves[-1] == MoveStatus(lost=taken, reason=batch.leaving.reason)
    assert after.explanation[2:] == (
        "It runs on exactly these, and no other container of the engine does.",
        f"It gave up CPUs {taken}: {batch.leaving.reason}.",
        "It gained CPUs 3-6: its share of the spare CPUs grew by 4, within its ceiling of 6.",
        "CPUs were taken from it once before it acknowledged.",
    )
    status = status_of(story.world)
    assert (status.forced, status.acknowledged, after.forced) == (1, 0, 1)


def test_under_static_nothing_of_this_is_said() -> None:
    """Labels of the range have no effect there, and the document shows none."""
    story = Story()
    story.arrive("batch", 2, labels={"cpuset.max": "6"})
    story.settle()
    batch = told(story, "batch")
    assert (batch.floor, batch.ceiling, batch.scale, batch.weight, batch.moves) == (0, 0, "", 0, ())
    assert batch.granted == batch.original == cpus("1-2")
    assert batch.explanation[0] == "It asked for 2 exclusive CPUs and was granted 1-2."


def sentences(story: Story, name: str) -> tuple[str, ...]:
    return told(story, name).explanation


def test_who_can_never_be_granted_in_its_place_is_not_told_to_start_anew() -> None:
    """Inside the shared slice it is refused at each start, so its sentences say nothing but to create it elsewhere."""
    story = Story(shared_slice="pool.slice")
    inside = story.arrive("inside", 2, starts=False, is_member=True)
    before = sentences(story, "inside")
    story.start(inside)
    story.look(inside)
    story.settle()
    for said in (before, sentences(story, "inside")):
        assert "create it with cgroup_parent: " in " ".join(said)
        assert "asks again" not in " ".join(said)
