"""Sentences about whose settings a command goes by. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sidecar.decide.settings import Rule
from sidecar.words.counts import counted

UNCHECKED_RULES: Final = "the engine does not answer: whether each rule is some container's was not checked"

UNCHECKED_UNIT_RULES: Final = "no units of systemd are visible here: whether each rule is some unit's was not checked"


def daemon_on(state_dir: str, overridden: Sequence[str] = ()) -> str:
    """Return whose settings these are, and which of them were given to the command itself."""
    flags = " and ".join(f"--{key.replace('_', '-')}" for key in overridden)
    return f"the daemon on {state_dir}{f', except {flags}' if flags else ''}"


def last_daemon_on(state_dir: str, overridden: Sequence[str] = ()) -> str:
    """Return the same of a daemon that has ended."""
    return f"the last {daemon_on(state_dir, overridden).removeprefix('the ')}"


def settings_of(whose: str) -> str:
    """Return the same as a sentence; "" if they are the command's own."""
    return f"the settings are those of {whose}" if whose else ""


def reloaded(changes: Sequence[tuple[str, str]]) -> str:
    """Return what a reload changes: keys with their values, and how many rules there are from then on."""
    return ", ".join(
        counted(int(value), "rule") if key == "rule" else f"{key} = {value or 'none'}" for key, value in changes
    )


NOT_LOOKED_AT: Final = (
    "the policy is none: labels are not looked at, and no container is changed; set the key policy, or --policy"
)


def of_none(rule: Rule) -> str:
    """Return that a rule applies to no container, or to no unit of the host, that exists."""
    if rule.unit:
        return f"{rule.place}: the rule for unit {rule.unit} is no unit's now"
    patterns = ", ".join(f"{key} {text}" for key in ("name", "project", "image") if (text := getattr(rule, key)))
    return f"{rule.place}: the rule for {patterns or 'every container'} is no container's now"
