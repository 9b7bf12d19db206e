"""The page: one HTML, one style sheet, one script, from the package, each known by the hash of its bytes. Pure but for
reading them once.

The HTML names the other two with their hashes, so that a browser keeps them, and asks for new ones by
themselves; the HTML itself is asked for each time, and answered with 304 where the browser has it.
"""

from __future__ import annotations

import hashlib
from importlib.resources import files
from typing import Final

from sidecar.api.routing import Answer, Question

POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        # No text becomes markup or a program, whatever the script does with it.
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
"""What the page may do: run its own script, use its own style sheet, ask its own daemon."""

_FOR_EVER: Final = "public, max-age=31536000, immutable"
_DIGITS: Final = 16
_KINDS: Final = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8"}


class PageFiles:
    """The three files, as answers."""

    def __init__(self) -> None:
        folder = files("sidecar.api") / "page"
        parts = {kind: (folder / f"page.{kind}").read_bytes() for kind in _KINDS}
        html = (folder / "page.html").read_bytes()
        for kind, content in parts.items():
            html = html.replace(b"page.%s" % kind.encode(), b"page.%s?%s" % (kind.encode(), _digest(content).encode()))
        self._parts = parts
        self._html = html
        self._tag = f'"{_digest(html)}"'
        self.size = len(html) + sum(map(len, parts.values()))
        """Bytes of all three."""

    async def html(self, question: Question) -> Answer:
        """Answer with the page, or that the browser has it."""
        headers = (("etag", self._tag), ("cache-control", "no-cache"), ("content-security-policy", POLICY))
        if question.known == self._tag:
            return Answer(b"", 304, "text/html; charset=utf-8", headers=headers)
        return Answer(self._html, kind="text/html; charset=utf-8", headers=headers)

    async def css(self, question: Question) -> Answer:
        """Answer with the style sheet."""
        return self._part("css", question)

    async def js(self, question: Question) -> Answer:
        """Answer with the script."""
        return self._part("js", question)

    def _part(self, kind: str, question: Question) -> Answer:
        content = self._parts[kind]
        is_named = question.query == _digest(content)
        # Under another hash the browser would keep what is not it.
        return Answer(content, kind=_KINDS[kind], headers=(("cache-control", _FOR_EVER if is_named else "no-cache"),))


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:_DIGITS]
