"""What a unit of systemd asks for: the labels of containers, as keys of its files that systemd does not read.

systemd leaves keys alone whose names begin with `X-` (systemd.syntax(7)). So each label has a key, by one rule:
`cpuset.on-shortage` is `X-CpusetOnShortage`. The last assignment counts, and an empty one takes back those before it.
Specifiers such as `%i` are not replaced.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from sidecar.decide.container.labels import PREFIX
from sidecar.readers import kept

KEY_PREFIX: Final = "X-Cpuset"

_WORD: Final = re.compile(r"[A-Z][a-z0-9]*|[a-z0-9]+|[^A-Za-z0-9]+")
_LABEL_LENGTH: Final = 256
"""Characters that are kept of a value, as of a container's label."""


def label_of(key: str) -> str:
    """Return the label for which a key of a unit's file stands; "" if it stands for none."""
    rest = key.removeprefix(KEY_PREFIX)
    if rest == key or not rest:
        return ""
    return PREFIX + "-".join(word.lower() for word in _WORD.findall(rest))


def key_of(label: str) -> str:
    """Return the key of a unit's file that stands for a label."""
    return KEY_PREFIX + "".join(word.capitalize() for word in label.removeprefix(PREFIX).split("-"))


def labels_of(texts: Iterable[str]) -> dict[str, str]:
    """Return the labels in a unit's files, in the order in which systemd reads these."""
    found: dict[str, str] = {}
    for text in texts:
        for key, value in _assignments(text):
            label = label_of(key)
            if label and value:
                found[label] = kept(value, _LABEL_LENGTH)
            elif label:
                found.pop(label, None)
    return found


def _assignments(text: str) -> Iterator[tuple[str, str]]:
    """Yield the keys and values of a file. A line that ends in a backslash goes on in the next one that is no comment,
    and a space stands between the two.
    """
    begun = ""
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith(("#", ";")) or not (stripped or begun):
            continue
        if stripped.endswith("\\"):
            begun += f"{stripped[:-1].rstrip()} "
            continue
        key, equals, value = f"{begun}{stripped}".partition("=")
        begun = ""
        if equals:
            yield key.strip(), value.strip()
