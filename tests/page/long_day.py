"""A day in the life of a page: a server that streams one at any speed, in the shape of a real daemon's document.

What it streams is made of a document that a daemon sent: each ten seconds one of its containers with CPUs of its own
goes, and another one comes in its place, with a new name and id, as the daemon would tell it. The daemon's own clock is
in each message, so a day needs no day.
"""

from __future__ import annotations

import itertools
import json
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any, Final

STEP_SECONDS: Final = 10
HOUR_SECONDS: Final = 3600

_KINDS: Final = {"": "text/html; charset=utf-8", "page.css": "text/css", "page.js": "text/javascript"}


class LongDay:
    """What the daemon would say, hour by hour. `link` is where."""

    def __init__(self, first: dict[str, Any], link: str = "") -> None:
        """Begin with this document, as it is first sent."""
        self.link = link
        self._fields = first["fields"]
        self._now = first["at"]["now"]
        self._containers = {each["id"]: each for each in first["containers"]}
        self._owners = deque(each["id"] for each in first["containers"] if each["sharing"] == "exclusive")
        self._numbers = itertools.count(1)
        self._past: deque[dict[str, Any]] = deque()
        self._asked = threading.Semaphore(0)
        self._said = threading.Event()

    def pass_hour(self) -> None:
        """Stream an hour, and return when it is sent."""
        self._said.clear()
        self._asked.release()
        assert self._said.wait(120)

    def stream(self) -> Iterator[bytes]:
        """Yield what a page is sent: first the whole document."""
        whole = {"at": self._at(), "fields": self._fields, "containers": [*self._containers.values()]}
        yield _event("status", whole)
        while True:
            if not self._asked.acquire(timeout=1):
                yield _event("lease", self._at())
                continue
            for _ in range(HOUR_SECONDS // STEP_SECONDS):
                yield self._step()
            self._said.set()

    def history(self) -> dict[str, Any]:
        """Return the last hour."""
        began = [_grant(self._now - HOUR_SECONDS, self._containers[id]) for id in self._owners]
        return {"since": self._now - HOUR_SECONDS, "began": began, "changes": [*self._past]}

    def _step(self) -> bytes:
        self._now += STEP_SECONDS
        went = self._containers.pop(self._owners.popleft())
        number = next(self._numbers)
        came = {**went, "id": f"{number:064x}", "name": f"job-{number}", "since": went["since"] + len(self._owners) + 1}
        self._containers[came["id"]] = came
        self._owners.append(came["id"])
        changes = [
            {**_grant(self._now, went), "cpus": "", "reason": "released: it was removed"},
            _grant(self._now, came),
        ]
        self._past.extend(changes)
        while self._past[0]["at"] < self._now - HOUR_SECONDS:
            self._past.popleft()
        news = {"time": "", "level": "info", "message": "granted", "container": came["name"], "cpus": came["granted"]}
        difference = {"at": self._at(), "fields": {}, "gone": [went["id"]], "containers": [came]}
        return _event("change", news) + _event("grants", changes) + _event("difference", difference)

    def _at(self) -> dict[str, Any]:
        return {"vouched": True, "now": self._now}


def _grant(at: float, each: dict[str, Any]) -> dict[str, Any]:
    return {"at": at, "container": each["id"], "name": each["name"], "cpus": each["granted"], "reason": "granted"}


def _event(name: str, value: Any) -> bytes:
    return f"event: {name}\ndata: {json.dumps(value)}\n\n".encode()


@contextmanager
def streamed(first: dict[str, Any], script: Callable[[str], str] = str) -> Iterator[LongDay]:
    """Serve the page and a day on a port of the loopback address, for the length of the block. `script` may change the
    page's script, for a planted fault.
    """
    day = LongDay(first)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            place = self.path.lstrip("/").partition("?")[0]
            if place in _KINDS:
                content = (files("sidecar.api") / "page" / (place or "page.html")).read_text()
                self._answer(_KINDS[place], (script(content) if place == "page.js" else content).encode())
            elif place == "v1/history":
                self._answer("application/json", json.dumps(day.history()).encode())
            elif place == "v1/live":
                self._begin("text/event-stream")
                try:
                    for part in day.stream():
                        self.wfile.write(part)
                except OSError:
                    return
            else:
                self.send_error(404)

        def log_message(self, *_: Any) -> None:
            pass

        def _answer(self, kind: str, content: bytes) -> None:
            self._begin(kind)
            self.wfile.write(content)

        def _begin(self, kind: str) -> None:
            self.send_response(200)
            self.send_header("content-type", kind)
            self.end_headers()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    day.link = f"http://127.0.0.1:{server.server_port}/"
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    try:
        yield day
    finally:
        server.shutdown()
        server.server_close()
        serving.join(10)
