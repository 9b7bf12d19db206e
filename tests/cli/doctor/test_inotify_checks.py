"""What `doctor` says of inotify: each instance that the daemon opens is counted, and what is lost without it told."""

from __future__ import annotations

import pytest

from sidecar.cli.doctor.host_checks import Verdict
from sidecar.cli.doctor.inotify_checks import ACKNOWLEDGEMENTS, BIRTHS, WRITES, check_inotify, listening
from sidecar.config.config import Config
from sidecar.decide.settings import PolicyName
from sidecar.hand.inotify_limits import InotifyUse

STATIC = Config(policy=PolicyName.STATIC)
DYNAMIC = Config(policy=PolicyName.DYNAMIC)


@pytest.mark.parametrize(
    ("use", "containers", "words"),
    [
        (InotifyUse(1000, 128, 10, 2), 50, "10 of at most 1000 inotify watches"),
        (InotifyUse(1000, 128, 900, 2), 5, "without one, writes of other programs"),
        (InotifyUse(1000, 128, 10, 2), 5000, "without one, writes of other programs"),
        (InotifyUse(1000, 128, 10, 127), 5, "without one, births are not answered"),
    ],
    ids=["room", "used up", "too many containers", "instances"],
)
def test_limits_are_told_before_they_are_reached(use: InotifyUse, containers: int, words: str) -> None:
    """With the key of sysctl to raise."""
    [finding] = check_inotify(use, listening(STATIC, has_hand=True), containers, is_running=True)
    assert words in finding.says
    assert (finding.verdict is Verdict.OK) == (finding.cure == "")
    assert not finding.cure or "sysctl fs.inotify." in finding.cure


@pytest.mark.parametrize(
    ("free", "lost"),
    [(2, ()), (1, (WRITES,)), (0, (BIRTHS, WRITES))],
    ids=["for both", "for the hand alone", "for none"],
)
def test_the_instance_that_hears_writes_is_one_more(free: int, lost: tuple[str, ...]) -> None:
    """The hand opens its own first, so the other one is lacking first. A warning wherever one is."""
    use = InotifyUse(1000, 5000, 10, 5000 - free)
    found = list(check_inotify(use, listening(STATIC, has_hand=True), 5, is_running=False))
    warned = [each for each in found if each.verdict is Verdict.WARN]
    said = " ".join(each.says for each in warned)
    assert warned
    assert "the sidecar opens 2 more" in said
    assert not lost or [each for each in (BIRTHS, WRITES) if each in said] == list(lost)


def test_a_small_limit_is_not_near_and_still_too_small() -> None:
    """Of three, two are taken: that is not four fifths yet, and leaves no room for two."""
    [finding] = check_inotify(InotifyUse(1000, 3, 10, 2), listening(STATIC, has_hand=True), 5, is_running=False)
    assert (finding.verdict, BIRTHS in finding.says, WRITES in finding.says) == (Verdict.WARN, False, True)


def test_what_a_running_daemon_opened_is_counted_already() -> None:
    """Of three, three are taken, by the daemon among others: that is near the limit, and it opens no more."""
    [full] = check_inotify(InotifyUse(1000, 3, 10, 3), listening(STATIC, has_hand=True), 5, is_running=True)
    assert "more" not in full.says
    [roomy] = check_inotify(InotifyUse(1000, 4, 10, 3), listening(STATIC, has_hand=True), 5, is_running=True)
    assert roomy.verdict is Verdict.OK


def test_without_a_hand_writes_are_listened_to_all_the_same() -> None:
    """By two watches for a container, where the runtime makes two groups; and births are not spoken of."""
    listens = listening(STATIC, has_hand=False)
    [full] = check_inotify(InotifyUse(1000, 4, 10, 4), listens, 5, is_running=False)
    assert (WRITES in full.says, BIRTHS in full.says) == (True, False)
    [few] = check_inotify(InotifyUse(1000, 128, 10, 2), listens, 500, is_running=False)
    assert (few.verdict, WRITES in few.says) == (Verdict.WARN, True)
    [enough] = check_inotify(InotifyUse(1000, 128, 10, 2), listening(STATIC, has_hand=True), 500, is_running=False)
    assert enough.verdict is Verdict.OK


def test_one_that_asks_for_cpus_takes_a_watch_more_of_the_hand() -> None:
    """For births inside its group; where births are not answered, there is none."""
    use = InotifyUse(1000, 128, 10, 2)
    [full] = check_inotify(use, listening(STATIC, has_hand=True), 500, 490, is_running=False)
    assert full.verdict is Verdict.WARN
    [enough] = check_inotify(use, listening(STATIC, has_hand=True), 500, 480, is_running=False)
    assert enough.verdict is Verdict.OK
    [same] = check_inotify(use, listening(STATIC, has_hand=False), 490, 490, is_running=False)
    assert same.verdict is Verdict.OK


def test_acknowledgements_are_listened_to_under_the_dynamic_policy() -> None:
    assert ACKNOWLEDGEMENTS not in listening(STATIC, has_hand=True).losses
    assert listening(DYNAMIC, has_hand=True).losses == (BIRTHS, WRITES, ACKNOWLEDGEMENTS)
