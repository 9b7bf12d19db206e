"""What the status says of where processes begin that join a container."""

from __future__ import annotations

from sidecar.words.exec_text import exec_told
from state.exec_rule import ExecRule, ExecWord
from tests.support.decide.stories import Story


def test_an_owner_is_told_where_and_by_which_rule() -> None:
    """A label, or the node's key; and nothing where it is any of its CPUs."""
    story = Story(exec=ExecRule(ExecWord.LAST))
    owner, shared = story.arrive("owner", 2), story.arrive("shared")
    placed = story.arrive("placed", 2, labels={"cpuset.exec": "0"})
    story.settle()
    last = (story.granted(owner) or "").replace(",", "-").rpartition("-")[2]
    assert exec_told(story.world, story.known(owner)) == (
        f"Where a front starts them, exec and health checks begin on {last} (cpuset.exec is last)."
    )
    assert exec_told(story.world, story.known(placed)).endswith("(cpuset.exec is 0).")
    assert exec_told(story.world, story.known(shared)) == ""
