"""What deserves a line in the log."""

from __future__ import annotations

from typing import Any

import msgspec

from sidecar.decide.facts import Mount, Purpose
from sidecar.decide.placement.shortfall import with_facts
from sidecar.decide.reconcile import begin
from sidecar.decide.settings import PolicyName
from sidecar.decide.sightings import sighted
from sidecar.decide.world import World, replace
from sidecar.log import LogLevel
from sidecar.words.causes import why
from sidecar.words.changes import at_start, new_moves, new_refusals, news
from state.model import Move
from state.refusal import Neighbours, Said
from tests.support.decide.stories import Story, cpus
from tests.support.decide.workloads import acknowledge


def told(story: Story, before: World) -> list[tuple[LogLevel, str, dict[str, object]]]:
    return [(line.level, line.message, line.fields) for line in news(before, story.world)]


def test_grants_and_releases_are_told_once() -> None:
    story = Story()
    before = story.world
    voice = story.arrive("voice", 2)
    assert told(story, before) == [(LogLevel.INFO, "granted", {"container": "voice", "cpus": cpus("1-2")})]
    before = story.world
    story.settle()
    assert told(story, before) == []
    before = story.world
    story.remove(voice)
    story.look(voice)
    assert told(story, before) == [(LogLevel.INFO, "released", {"container": "voice", "cpus": cpus("1-2")})]


def test_what_makes_room_is_told_before_what_takes_it() -> None:
    """Of what one decision did: a container that is removed, and one that is granted its CPUs."""
    story = Story()
    old = story.arrive("old", 2)
    story.settle()
    before = story.world
    story.remove(old)
    story.look(old)
    story.arrive("new", 2)
    assert [(message, fields["container"]) for _, message, fields in told(story, before)] == [
        ("released", "old"),
        ("granted", "new"),
    ]


def test_a_refusal_is_told_with_its_reason() -> None:
    story = Story()
    before = story.world
    story.arrive("greedy", 20)
    [(level, message, fields)] = told(story, before)
    assert (level, message, fields["container"]) == (LogLevel.WARNING, "refused", "greedy")
    assert "asked for 20 exclusive CPUs, but this machine can give 7 at most" in str(fields["reason"])


def test_an_unknown_label_is_told_with_the_nearest_word() -> None:
    story = Story()
    before = story.world
    real = story.arrive("typo", labels={"cpuset.exclusiv": "1"})
    [(level, message, _)] = told(story, before)
    assert level is LogLevel.WARNING
    assert "did you mean 'cpuset.exclusive'" in message
    before = story.world
    story.look(real)
    assert told(story, before) == []


def test_a_rename_is_no_news_of_grants_and_notes() -> None:
    """They are told with the new name from then on, and not a second time in the log."""
    story = Story(policy=PolicyName.DYNAMIC)
    batch = story.arrive("batch", 1, labels={"cpuset.max": "7", "cpuset.grace": "0s"})
    story.settle()
    web = story.arrive("web", 3)
    story.settle()
    story.hotplug(7)
    before = story.world
    for real in (batch, web):
        real.name += "-old"
        story.look(real)
    assert told(story, before) == []
    after = story.world
    assert "web-old arrived and took" in " ".join(why(each.cause) for each in after.state.assignments[batch.key].moves)
    assert {note.name for note in after.notes} <= {"batch-old", "web-old"}
    assert after.notes


def test_what_a_new_configuration_did_to_the_books_is_told() -> None:
    story = Story()
    story.arrive("voice", 1)
    story.settle()
    before = story.world
    story.change_settings(reserved_cpus=cpus("1"))
    lines, why = told(story, before), "CPU 1 became reserved"
    assert (
        LogLevel.INFO,
        "exchanged",
        {"container": "voice", "reason": why, "from": cpus("1"), "to": cpus("0")},
    ) in lines
    assert any("voice moved from CPU 1 to 0" in str(fields.get("note")) for _, _, fields in lines)


def test_a_replacement_is_never_taken_from_a_container_pinned_by_hand() -> None:
    """The reservation moves onto a grant, and the lowest free CPU belongs to a stranger."""
    story = Story()
    story.arrive("hand", cpuset="0")
    voice = story.arrive("voice", 1)
    story.settle()
    story.change_settings(reserved_cpus=cpus("1"))
    story.settle()
    assert story.world.state.assignments[voice.key].cpus == cpus("2")


def test_a_single_file_mount_is_warned_of() -> None:
    story = Story()
    real = story.unseen("stale", starts=False)
    mount = Mount(source="/run/cpuset-sidecar/by-id/1/cpuset")
    view = msgspec.structs.replace(real.view(), mounts=(mount,))
    after = sighted(story.world, view, 10**6)
    assert [line.message for line in news(story.world, after)] == [
        "it mounts a single projected file, which stays stale: mount the directory instead"
    ]
    assert list(news(after, after)) == []


def elastic() -> Story:
    """Return a story where `batch` has 2 to 6 CPUs, and all spare ones."""
    story = Story(policy=PolicyName.DYNAMIC)
    story.arrive("batch", 2, labels={"cpuset.max": "6", "cpuset.grace": "3s"})
    story.settle()
    return story


def test_a_take_is_told_from_its_beginning_to_its_end() -> None:
    """What was taken and why, the notice, the acknowledgement, and that it is over."""
    story = elastic()
    before = story.world
    story.arrive("web", 3)
    lines = told(story, before)
    [taken] = [each.leaving.cpus for each in story.world.state.assignments.values() if each.leaving]
    take = {"container": "batch", "cpus": taken, "number": 1}
    assert (LogLevel.INFO, "granted") in [line[:2] for line in lines]
    [shrank] = [fields for _, message, fields in lines if message == "shrank"]
    assert (shrank["container"], shrank["cpus"]) == ("batch", taken)
    assert "web arrived" in str(shrank["reason"])
    assert (LogLevel.INFO, "take started", {**take, "notice_seconds": 3.0}) in lines
    before = story.world
    acknowledge(story, 0)
    assert told(story, before) == [(LogLevel.INFO, "take acknowledged", take)]
    before = story.world
    story.settle()
    assert told(story, before) == [(LogLevel.INFO, "take finished", take)]


def test_a_take_that_is_called_off_is_not_told_as_finished() -> None:
    """What needed the CPUs is gone before they were left."""
    story = elastic()
    web = story.arrive("web", 3)
    [taken] = [each.leaving.cpus for each in story.world.state.assignments.values() if each.leaving]
    before = story.world
    story.end(web)
    story.away(web)
    lines = [(message, fields.get("cpus")) for _, message, fields in told(story, before)]
    assert ("take called off", taken) in lines
    assert not [message for message, _ in lines if message == "take finished"]


def test_a_take_that_a_policy_without_notice_cuts_short_is_broken_off() -> None:
    """The container still runs there, and leaves now."""
    story = elastic()
    story.arrive("web", 3)
    [taken] = [each.leaving.cpus for each in story.world.state.assignments.values() if each.leaving]
    before = story.world
    story.change_settings(policy=PolicyName.STATIC)
    lines = [(message, fields.get("cpus")) for _, message, fields in told(story, before)]
    assert ("take broken off", taken) in lines
    assert not [message for message, _ in lines if message == "take finished"]


def test_what_does_not_run_gets_no_notice() -> None:
    """It is taken at once: the line promises nothing else."""
    story = elastic()
    batch = next(each for each in story.containers.values() if each.name == "batch")
    story.end(batch)
    story.look(batch)
    before = story.world
    story.arrive("web", 3, starts=False)
    notices = [fields["notice_seconds"] for _, message, fields in told(story, before) if message == "take started"]
    assert notices == [0.0]


def test_a_take_that_begins_at_the_start_is_told_and_one_that_goes_on_is_not() -> None:
    """The daemon starts again with a larger reservation, and then once more with the same."""
    story = elastic()
    recorded, settings = story.world.state, replace(story.settings, shared_min=3)
    begun = begin(recorded, story.machine, settings)
    [leaving] = [each.leaving for each in begun.state.assignments.values()]
    assert leaving is not None
    take = {"container": "batch", "cpus": leaving.cpus, "number": leaving.number, "notice_seconds": 3.0}
    lines = [line for line in at_start(recorded, begun) if line.message == "take started"]
    assert [line.fields for line in lines] == [take]
    assert list(at_start(begun.state, begin(begun.state, story.machine, settings))) == []


def test_a_forced_take_is_a_warning() -> None:
    """Its notice was over before the workload acknowledged; also if only the end is seen."""
    story = elastic()
    story.arrive("web", 3)
    before = story.world
    [taken] = [each.leaving.cpus for each in before.state.assignments.values() if each.leaving]
    [grace] = [place for place, timer in enumerate(story.timers) if timer.purpose is Purpose.GRACE]
    story.time_out(grace)
    message = "take forced: the workload did not acknowledge in time"
    line = (LogLevel.WARNING, message, {"container": "batch", "cpus": taken, "number": 1})
    assert told(story, before) == [line]
    story.settle()
    assert told(story, before) == [
        line,
        (LogLevel.INFO, "take finished", {"container": "batch", "cpus": taken, "number": 1}),
    ]


def test_each_take_is_told_with_its_own_cpus() -> None:
    """A second one that begins during the notice of the first, and their ends."""
    story = elastic()
    story.arrive("web", 2)
    before = story.world
    [first] = [each.leaving.cpus for each in before.state.assignments.values() if each.leaving]
    story.arrive("db", 2)
    [both] = [each.leaving.cpus for each in story.world.state.assignments.values() if each.leaving]
    second = both - first
    lines = told(story, before)
    assert [fields["cpus"] for _, message, fields in lines if message == "take started"] == [second]
    for taken in (first, second):
        before = story.world
        [grace] = [place for place, timer in enumerate(story.timers) if timer.purpose is Purpose.GRACE][:1]
        story.time_out(grace)
        lines = told(story, before)
        assert [fields["cpus"] for _, message, fields in lines if message.startswith("take forced")] == [taken]


def test_growth_and_exchange_are_told_with_their_reasons() -> None:
    """A slow reader gets each remembered change, in order."""
    grant = elastic().world.state.assignments
    [was] = grant.values()
    moves = [
        Move(gained=cpus("7"), cause=Said("spare")),
        Move(lost=cpus("6"), cause=Said("somebody came")),
        Move(gained=cpus("6"), lost=cpus("7"), cause=Said("better")),
    ]
    story = elastic()
    for count in range(1, 4):
        now = msgspec.structs.replace(was, moves=(*was.moves, *moves[:count])[-5:])
        assert new_moves(was, now) == tuple(moves[:count])
    full = msgspec.structs.replace(was, moves=tuple(Move(gained=cpus("1"), cause=Said(str(n))) for n in range(5)))
    later = msgspec.structs.replace(full, moves=(*full.moves, *moves)[-5:])
    assert new_moves(full, later) == tuple(moves)
    assert new_moves(later, later) == ()
    before = story.world
    now = msgspec.structs.replace(was, moves=(*was.moves, *moves))
    story.world = msgspec.structs.replace(before, state=before.state.holding(now))
    assert told(story, before) == [
        (LogLevel.INFO, "grew", {"container": "batch", "reason": "spare", "cpus": cpus("7")}),
        (LogLevel.INFO, "shrank", {"container": "batch", "reason": "somebody came", "cpus": cpus("6")}),
        (LogLevel.INFO, "exchanged", {"container": "batch", "reason": "better", "from": cpus("7"), "to": cpus("6")}),
    ]


def test_a_refusal_is_news_unless_only_its_neighbours_are_others() -> None:
    """Other holders of the CPUs do not make it another refusal; another reservation does."""
    story = Story()
    late = story.arrive("late", 9)
    world, state = story.world, story.world.state
    refused = state.refusals[late.key]
    assert [each.name for each in new_refusals(replace(world, state=state.released(late.key)), world)] == ["late"]
    changes: tuple[tuple[dict[str, Any], list[str]], ...] = (
        ({"neighbours": Neighbours(reserved=state.reserved, held=3, holders=1, holder_names=("web",))}, []),
        ({"neighbours": Neighbours(reserved=cpus("0-1"))}, ["late"]),
        ({"would_fit": (1,)}, ["late"]),
    )
    for facts, names in changes:
        refusal = with_facts(refused.refusal, **facts)
        assert refusal != refused.refusal
        after = replace(world, state=state.refused(replace(refused, refusal=refusal)))
        assert [each.name for each in new_refusals(world, after)] == names
