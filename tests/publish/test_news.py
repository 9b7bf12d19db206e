"""What is worth a line in the log."""

from __future__ import annotations

import msgspec

from sidecar.decide.facts import Mount
from sidecar.decide.reconcile import sighted
from sidecar.decide.world import World
from sidecar.log import Level
from sidecar.publish.news import news
from tests.decide.stories import Story, cpus


def told(story: Story, before: World) -> list[tuple[Level, str, dict[str, object]]]:
    return [(line.level, line.message, line.fields) for line in news(before, story.world)]


def test_grants_and_releases_are_told_once() -> None:
    story = Story()
    before = story.world
    voice = story.arrive("voice", 2)
    assert told(story, before) == [(Level.INFO, "granted", {"container": "voice", "cpus": cpus("1-2")})]
    before = story.world
    story.settle()
    assert told(story, before) == []
    before = story.world
    story.remove(voice)
    story.look(voice)
    assert told(story, before) == [(Level.INFO, "released", {"container": "voice", "cpus": cpus("1-2")})]


def test_a_refusal_is_told_with_its_reason() -> None:
    story = Story()
    before = story.world
    story.arrive("greedy", 20)
    [(level, message, fields)] = told(story, before)
    assert (level, message, fields["container"]) == (Level.WARNING, "refused", "greedy")
    assert "20 exclusive CPUs asked for, 7 free" in str(fields["reason"])


def test_a_label_that_nobody_knows_is_told_with_the_nearest_word() -> None:
    story = Story()
    before = story.world
    real = story.arrive("typo", labels={"cpuset.exclusiv": "1"})
    [(level, message, _)] = told(story, before)
    assert level is Level.WARNING
    assert "did you mean 'cpuset.exclusive'" in message
    before = story.world
    story.look(real)
    assert told(story, before) == []


def test_what_a_new_configuration_did_to_the_books_is_told() -> None:
    story = Story()
    story.arrive("voice", 1)
    story.settle()
    before = story.world
    story.change_settings(reserved_cpus=cpus("1"))
    lines = told(story, before)
    assert (Level.INFO, "moved", {"container": "voice", "from": cpus("1"), "to": cpus("0")}) in lines
    assert any("voice moved from CPUs 1 to 0" in str(fields.get("note")) for _, _, fields in lines)


def test_a_replacement_is_never_taken_from_a_container_pinned_by_hand() -> None:
    """The reservation moves onto a grant, and the lowest free CPU is a stranger's."""
    story = Story()
    story.arrive("hand", cpuset="0")
    voice = story.arrive("voice", 1)
    story.settle()
    story.change_settings(reserved_cpus=cpus("1"))
    story.settle()
    assert story.world.state.assignments[voice.id].cpus == cpus("2")


def test_a_single_file_mount_is_warned_of() -> None:
    story = Story()
    real = story.unseen("stale", starts=False)
    mount = Mount(source="/run/cpuset-sidecar/by-id/1/cpuset", target="/cpus")
    view = msgspec.structs.replace(real.view(), mounts=(mount,))
    after = sighted(story.world, view, 10**6)
    assert [line.message for line in news(story.world, after)] == [
        "it mounts a projected file, which stays stale for ever: mount the directory"
    ]
    assert list(news(after, after)) == []
