"""The past tense of what a daemon said that does not vouch for it any more. Pure.

A status document and a projection outlast their daemon, and their sentences are in the present tense. Without a daemon
that vouches they are told as what was: a reader passes each sentence through `in_past`. The verbs of the sentences in
`sidecar.words` are a closed list, and a test finds one that is missing here. Names of containers, quotations, and the
advice how to write a label stay. No sentence begins with a verb.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final

PAST: Final[Mapping[str, str]] = {
    # What was expected comes before the verbs in it.
    "asks again": "was to ask again",
    "that ask": "that asked",
    "units ask": "units asked",
    "they come": "they came",
    "nodes stay": "nodes stayed",
    "containers start": "containers started",
    "processes run": "processes ran",
    "gets": "was to get",
    "should": "was to",
    "must": "had to",
    "will": "would",
    "may": "could",
    "can": "could",
    "cannot": "could not",
    "do not": "did not",
    "is": "was",
    "are": "were",
    "has": "had",
    "does": "did",
    "now": "then",
    "acknowledges": "acknowledged",
    "allows": "allowed",
    "applies": "applied",
    "answers": "answered",
    "asks": "asked",
    "balances": "balanced",
    "begins": "began",
    "belongs": "belonged",
    "calls": "called",
    "changes": "changed",
    "comes": "came",
    "confines": "confined",
    "counts": "counted",
    "decides": "decided",
    "exists": "existed",
    "follows": "followed",
    "gives": "gave",
    "goes": "went",
    "holds": "held",
    "isolates": "isolated",
    "keeps": "kept",
    "knows": "knew",
    "leaves": "left",
    "lies": "lay",
    "lives": "lived",
    "passes": "passed",
    "looks": "looked",
    "makes": "made",
    "means": "meant",
    "moves": "moved",
    "needs": "needed",
    "redistributes": "redistributed",
    "replaces": "replaced",
    "require": "required",
    "requires": "required",
    "restarts": "restarted",
    "runs": "ran",
    "says": "said",
    "sees": "saw",
    "shares": "shared",
    "stands": "stood",
    "starts": "started",
    "stays": "stayed",
    "switches": "switched",
    "takes": "took",
    "waits": "waited",
    "wants": "wanted",
    "writes": "wrote",
}
"""Verbs as the sentences have them, and how they are told afterwards."""

_COUNTABLE: Final = frozenset(("answers", "calls", "changes", "looks", "moves", "needs", "restarts", "starts"))
"""Those that are nouns after a number: `3 starts`."""

_NUMBER: Final = re.compile(r"(?<![\w.-])\d+ $")
_QUOTED: Final = re.compile(r"(?<!\w)'[^']*'|`[^`]*`|\"[^\"]*\"|(?<=: )write .*")
_VERB: Final = re.compile(rf"(?<![\w.=/-])(?:{'|'.join(PAST)})(?![\w=/-]|\.\w)")
"""A verb that is a word of its own: not a piece of a name, a label or a path."""


def in_past(said: str, names: Collection[str] = (), *, quoted: str = "") -> str:
    """Return a sentence or clause in the past tense. `names` are those of containers, which stay as they are, and so
    does what is `quoted` in it without quotation marks: the words of another program.
    """
    kept = [match.span() for match in _QUOTED.finditer(said)]
    if quoted and (begins := said.find(quoted)) >= 0:
        kept.append((begins, begins + len(quoted)))

    def told(match: re.Match[str]) -> str:
        word = match[0]
        is_counted = word in _COUNTABLE and _NUMBER.search(said, 0, match.start()) is not None
        is_kept = is_counted or word in names or any(begin <= match.start() < end for begin, end in kept)
        return word if is_kept else PAST[word]

    return _VERB.sub(told, said)
