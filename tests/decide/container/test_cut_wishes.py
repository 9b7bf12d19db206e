"""A wish of a label that the owner of the host bounds is cut, and its container has a warning of it."""

from __future__ import annotations

import pytest

from sidecar.decide.settings import PolicyName, Settings
from sidecar.words.refusals import harmless
from tests.decide.container.test_wish import asked, wish


@pytest.mark.parametrize(
    ("grace", "policy", "longest", "said"),
    [
        (
            "60s",
            PolicyName.DYNAMIC,
            20.0,
            ["cpuset.grace is '60s', and tenants_longest_notice allows 20s: it has that"],
        ),
        ("1m", PolicyName.DYNAMIC, 0.0, ["cpuset.grace is '1m', and tenants_longest_notice allows 0s: it has that"]),
        ("20s", PolicyName.DYNAMIC, 20.0, []),
        ("60s", PolicyName.STATIC, 20.0, ["the label cpuset.grace has no effect under the policy static"]),
    ],
)
def test_a_notice_that_is_cut_is_said(grace: str, policy: PolicyName, longest: float, said: list[str]) -> None:
    """Where a notice counts at all."""
    settings = Settings(policy=policy, longest_notice_seconds=longest)
    found = wish({"cpuset.exclusive": "2", "cpuset.grace": grace}, settings)
    assert asked(found) == 2
    assert list(harmless(found)) == said


def test_a_label_that_refuses_is_not_said_to_have_no_effect() -> None:
    """Under `static` a ceiling below the number refuses the CPUs; one that is right has no effect."""
    settings = Settings(policy=PolicyName.STATIC)
    wrong = wish({"cpuset.exclusive": "2", "cpuset.max": "1", "cpuset.weight": "3"}, settings)
    assert wrong.refusal is not None
    assert [each.partition(" has no")[0] for each in harmless(wrong)] == ["the label cpuset.weight"]
    assert len(harmless(wish({"cpuset.exclusive": "2", "cpuset.max": "3"}, settings))) == 1
