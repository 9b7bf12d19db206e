"""Under the strict runtime a label that cannot be read keeps a container from starting, whatever it asks for."""

from __future__ import annotations

import pytest

from sidecar.decide.container.container import Wish
from sidecar.decide.container.originals import originals_of
from sidecar.decide.container.wish import wish_of
from sidecar.decide.facts import ContainerView, Phase
from sidecar.decide.settings import Settings
from sidecar.words.refusals import harmless, sentence, warnings
from state.cpuset import CPUSet
from state.refusal import RefusalCode
from tests.support.decide.rights import EVERY_RIGHT


def wish(labels: dict[str, str], *, phase: Phase = Phase.CREATED) -> Wish:
    """Return the wish of a container whose runtime asks, on a machine with the device `eth0`."""
    view = ContainerView(id="a" * 64, name="web", phase=phase, labels=labels, runtime="cpuset")
    return wish_of(view, Settings(may=EVERY_RIGHT), originals_of(view), CPUSet(range(8)), {"eth0": CPUSet.of(1)})


def why(found: Wish) -> str:
    """Return why it is refused; check that this is for its labels, and that it asks for nothing then."""
    assert found.refusal is not None
    assert (found.refusal.code, found.demand) == (RefusalCode.BAD_LABEL, None)
    return sentence(found.refusal)


@pytest.mark.parametrize("label", ["cpuset.exclusiv", "cpusets.exclusive", "cpuset-exclusive"])
@pytest.mark.parametrize("others", [{}, {"cpuset.exclusive": "2"}])
def test_under_the_strict_runtime_an_unknown_label_is_refused(label: str, others: dict[str, str]) -> None:
    """Before it starts, whatever else it asks for; one that runs stays as it is."""
    found = wish({label: "2", **others})
    assert why(found) == f"unknown label '{label}'; did you mean 'cpuset.exclusive'?"
    assert harmless(found) == ()
    runs = wish({label: "2", **others}, phase=Phase.RUNNING)
    assert (runs.refusal, len(warnings(runs))) == (None, 1)


@pytest.mark.parametrize(
    ("label", "text", "words"),
    [
        ("cpuset.manage", "of", "did you mean 'off'?"),
        ("cpuset.projection", "a/b", "use letters"),
        ("cpuset.near", "eht0", "this machine has no such device; did you mean 'eth0'?"),
        ("cpuset.weight", "1000", "write a whole number from 1 to 100"),
    ],
)
@pytest.mark.parametrize("others", [{}, {"cpuset.exclusive": "2"}])
def test_under_the_strict_runtime_a_bad_value_is_refused(
    label: str, text: str, words: str, others: dict[str, str]
) -> None:
    """Also where it is a warning under any other; nothing else is said of the label."""
    found = wish({label: text, **others})
    assert why(found).startswith(f"{label} is '{text}'")
    assert words in why(found)
    assert harmless(found) == ()
