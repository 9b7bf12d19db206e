"""What nobody vouches for is told in the past tense: each verb, and nothing but verbs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sidecar.words.past import PAST, in_past
from tests.support.sources import SOURCES_GROUP, files, nodes
from tests.words.test_voice import texts

pytestmark = pytest.mark.xdist_group(SOURCES_GROUP)

NOUNS = {"cores", "nodes", "threads", "containers", "ids", "its", "this", "as", "sockets", "options", "labels", "times"}
NOUNS |= {"names", "seconds", "others", "less", "across", "processes", "always", "isolcpus", "requests", "rules"}
NOUNS |= {"settings", "caches", "cpus", "digits", "letters", "words", "ms", "births", "groups", "units"}
"""Words of the sentences that end in an s, and are no verbs."""


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            "It runs on exactly these, and no other container of the engine does.",
            "It ran on exactly these, and no other container of the engine did.",
        ),
        (
            "It replaces web1, and gets CPU 3 when that is gone",
            "It replaced web1, and was to get CPU 3 when that was gone",
        ),
        ("It asks again when it is next started.", "It was to ask again when it was next started."),
        ("It runs on 3 now and should run on 4", "It ran on 3 then and was to run on 4"),
        ("cpuset.exclusive is 'it is now': write a number", "cpuset.exclusive was 'it is now': write a number"),
        ("who-runs (shared) may run there too", "who-runs (shared) could run there too"),
        ("cannot write /srv/is/it: is.it", "could not write /srv/is/it: is.it"),
        ("cannot write /srv/it: Is a directory", "could not write /srv/it: Is a directory"),
        (
            "It gave up CPU 3: above a's floor of 2, as it is told by b's rule",
            "It gave up CPU 3: above a's floor of 2, as it was told by b's rule",
        ),
        (
            "cpuset.max is '0': write a whole number that is at least the 2 of cpuset.exclusive",
            "cpuset.max was '0': write a whole number that is at least the 2 of cpuset.exclusive",
        ),
        (
            "It gets them if they come free before it starts.",
            "It was to get them if they came free before it started.",
        ),
        ("Its memory nodes stay as they are", "Its memory nodes stayed as they were"),
        ("13 starts went around the front: 13 by x", "13 starts went around the front: 13 by x"),
        ("web-3 starts, and waits", "web-3 started, and waited"),
    ],
)
def test_verbs_are_told_as_what_was(said: str, told: str) -> None:
    """And pieces of names, labels and paths, and quotations, stay."""
    assert in_past(said) == told
    assert in_past(told) == told


def test_a_container_with_the_name_of_a_verb_keeps_it() -> None:
    assert in_past("It is granted to runs.", {"runs"}) == "It was granted to runs."


def test_what_another_program_said_stays() -> None:
    said = "The last order failed: container is not running, so it cannot be updated; it is tried again"
    told = "The last order failed: container is not running, so it cannot be updated; it was tried again"
    assert in_past(said, quoted="container is not running, so it cannot be updated") == told


def unknown(texts: set[str]) -> dict[str, str]:
    """Return the words that look like a verb of the third person, and are neither known verbs nor nouns."""
    words = {word: text for text in texts for word in re.findall(r"(?<![\w.=/\'-])[a-z]+s(?![\w=/.-])", text)}
    known = NOUNS | set(PAST) | {word for past in PAST.values() for word in past.split()}
    return {word: text for word, text in words.items() if word not in known}


def present(texts: set[str]) -> dict[str, str]:
    """Return the verbs of several things that are in the present tense where all else is told in the past."""
    several = {verb.removesuffix("s") for verb in PAST if " " not in verb and verb.endswith("s")} | {"go", "have"}
    told = {in_past(text): text for text in texts}
    pairs = {
        (*pair, text) for text in told for pair in re.findall(r"\b(they|that|which|[A-Za-z]+s) (?=([a-z]+)\b)", text)
    }
    return {f"{one} {verb}": told[text] for one, verb, text in pairs if verb in several and one not in {"its", "as"}}


def told_of(names: tuple[str, ...]) -> set[str]:
    """Return every text in the modules whose sentences outlast a daemon."""
    return {text for path in files("sidecar") if Path(path).name in names for text in texts(nodes(path))}


def test_every_verb_of_a_sentence_that_outlasts_the_daemon_has_a_past() -> None:
    """A new sentence with another verb has to add it."""
    names = ("explanations.py", "reasons.py", "causes.py", "neighbours.py", "refusals.py", "repairs.py", "cpu_view.py")
    more = ("hands.py", "mistaken.py", "problem_list.py", "strays.py")
    assert unknown(told_of(names + more)) == {}
    assert present(told_of(names + more)) == {}
    assert list(unknown({"it outlives \0"})) == ["outlives"]
    assert list(present({"its caches stay \0"})) == ["caches stay"]
