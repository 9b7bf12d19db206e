"""The best possible reaction to events: an update sent at once, without a look or a State.

`python -m tests.bench.racer SOCKET` subscribes, and for each labelled container that is created sends one update to
CPU 1, blindly, over a connection that is open already. It keeps nothing and can undo nothing: a bound, not a program.
"""

from __future__ import annotations

import http.client
import json
import socket
import sys

_FILTERS = "filters=%7B%22type%22%3A%5B%22container%22%5D%2C%22event%22%3A%5B%22create%22%5D%7D"


class _Unix(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost")
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.connect(self._path)


def main(path: str) -> None:
    """Race until killed."""
    events, updates = _Unix(path), _Unix(path)
    updates.request("GET", "/_ping")
    updates.getresponse().read()
    events.request("GET", f"/v1.41/events?{_FILTERS}")
    stream = events.getresponse()
    print("ready", flush=True)
    while line := stream.readline():
        event = json.loads(line)
        if "cpuset.exclusive" not in event["Actor"]["Attributes"]:
            continue
        body = json.dumps({"CpusetCpus": "1"})
        updates.request("POST", f"/v1.41/containers/{event['id']}/update", body, {"Content-Type": "application/json"})
        updates.getresponse().read()


if __name__ == "__main__":
    main(sys.argv[1])
