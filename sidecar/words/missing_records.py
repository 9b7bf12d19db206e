"""Sentences about a state directory in which a command finds nothing, or not what it looks for. Pure.

A file that is missing does not show whether it was ever there: what may have happened is said, and what to do in each
case.
"""

from __future__ import annotations

from typing import Final

_WRITTEN_LATER: Final = (
    "the daemon that runs there has not written it yet, or it was deleted since; it is written at the next change"
)

_NEVER_OR_DELETED: Final = (
    "no daemon has run with this state_dir, or what it wrote was deleted since "
    "(set another with --state-dir, or start the daemon)"
)


def no_directory(state_dir: str) -> str:
    """Return that the directory is not there."""
    return (
        f"there is no {state_dir}: no daemon has run with this state_dir, or it was deleted since "
        "(set another with --state-dir, or start the daemon)"
    )


def no_status(state_dir: str, *, is_running: bool | None, has_state: bool) -> str:
    """Return that the directory has no status document. `is_running` is whether a daemon is seen there, None if that
    cannot be known; `has_state`, whether the recorded state of one is there.
    """
    head = f"there is no status in {state_dir}"
    if is_running:
        return f"{head}: {_WRITTEN_LATER}"
    if has_state:
        return f"{head}, only the recorded state of a daemon: the status was deleted; start the daemon"
    return f"{head}: {_NEVER_OR_DELETED}"


def no_state(state_dir: str, *, is_running: bool | None) -> str:
    """Return that the directory has no recorded state; `is_running` as above."""
    head = f"there is no recorded state in {state_dir}"
    if is_running:
        return f"{head}: {_WRITTEN_LATER}"
    return f"{head}: {_NEVER_OR_DELETED}"


def nothing_to_release(state_dir: str) -> str:
    """Return that a release finds nothing recorded, and changed nothing."""
    return (
        f"there is no recorded state in {state_dir}: no daemon has run with this state_dir, or what it wrote was "
        "deleted since; nothing was changed (set another with --state-dir; if it was deleted, recreate the containers "
        "that are still confined)"
    )


def planned_from_nothing(state_dir: str) -> str:
    """Return that a plan is made as if nothing were running, since nothing is recorded."""
    return f"there is no recorded state in {state_dir}: this is planned as if nothing were running"
