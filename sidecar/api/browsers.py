"""What a browser says of the page that asks, and why a request of another page is refused. Pure.

A page of any site can make the browsers of its readers ask the addresses that these reach, the loopback address among
them. It cannot forge what its browser adds: `Origin`, and `Sec-Fetch-Site` with `Sec-Fetch-Mode` and `Sec-Fetch-Dest`.
Programs send none of these. Refused are, on every listener:

1. a request of another origin than the requested one;
2. a request of any page that shows the answer inside itself, as in a frame: a stream would be held there, and seen;
3. a request that another site's page makes, unless it is a link that its reader followed: that shows the answer alone;
4. a request of any page that would change something: the page has no button for it, so it is not the page's.

What a browser was answered without saying where it shows it, it is told not to frame (`HEADERS`).
"""

from __future__ import annotations

from typing import Final

import msgspec

_READING: Final = ("GET", "HEAD")
_OWN: Final = ("", "same-origin", "none")
"""`none` is the address bar, or a bookmark."""
_INSIDE: Final = ("iframe", "frame", "fencedframe", "object", "embed")
"""The destinations that are a part of a page that is shown."""

HEADERS: Final = (
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-resource-policy", "same-origin"),
    ("content-security-policy", "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"),
)
"""Of every answer that has none of its own by that name: no page embeds or frames it, no link out of it tells its
address, and as a document it loads and runs nothing.
"""


class Visitor(msgspec.Struct, frozen=True):
    """What a browser says of a request, as headers; each is "" for any other program."""

    origin: str = ""
    site: str = ""
    mode: str = ""
    shown_as: str = ""

    @classmethod
    def of(cls, headers: dict[bytes, bytes]) -> Visitor:
        """Read the headers of a request, by their names in lower case."""
        names = (b"origin", b"sec-fetch-site", b"sec-fetch-mode", b"sec-fetch-dest")
        return cls(*(headers.get(name, b"").decode("latin-1") for name in names))


def objection(visitor: Visitor, method: str, host: str) -> str:
    """Return why this request is refused; "" if it is not."""
    if visitor.origin and visitor.origin.lower() not in (f"http://{host.lower()}", f"https://{host.lower()}"):
        return "a page of another origin asks"
    if visitor.shown_as in _INSIDE:
        return "a page shows this inside itself"
    if visitor.site not in _OWN and (visitor.mode, visitor.shown_as) != ("navigate", "document"):
        return "a page of another site asks"
    if (visitor.origin or visitor.site) and method not in _READING:
        return "nothing can be changed from a page: use the command line"
    return ""
