"""Asks the webhook of a hook: one POST over HTTP/1.1, on a connection of its own, for so long at most.

Only the first line of the answer matters: a code from 200 to 299 is success. Redirections are not followed.
"""

from __future__ import annotations

import re
import ssl
from typing import Final
from urllib.parse import urlsplit

import trio

from state import files

_KEPT: Final = 4096
"""Bytes of the answer that are read for its first line."""

_STATUS: Final = re.compile(rb"HTTP/1\.[01] (\d{3})[ \r\n]")


async def ask_webhook(address: str, document: bytes, seconds: float) -> str:
    """Return why it failed, "" if it did not. `address` is a URL that the configuration allows."""
    with trio.move_on_after(seconds):
        try:
            return await _asked(address, document)
        except ssl.CertificateError as error:
            return f"its certificate is not accepted: {error.verify_message}"
        except OSError as error:
            return f"it cannot be reached: {files.reason(error)}"
        except trio.BrokenResourceError:
            return "it broke off the connection"
    return f"it did not answer within {seconds:g} s"


async def _asked(address: str, document: bytes) -> str:
    url = urlsplit(address)
    is_secure = url.scheme == "https"
    assert url.hostname is not None, "the configuration has checked it"
    stream: trio.abc.Stream = await trio.open_tcp_stream(url.hostname, url.port or (443 if is_secure else 80))
    try:
        if is_secure:
            # It reads many files.
            context = await trio.to_thread.run_sync(ssl.create_default_context)
            stream = trio.SSLStream(stream, context, server_hostname=url.hostname, https_compatible=True)
        target = f"{url.path or '/'}{f'?{url.query}' if url.query else ''}"
        head = (
            f"POST {target} HTTP/1.1\r\nHost: {url.netloc}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(document)}\r\nUser-Agent: cpuset-sidecar\r\nConnection: close\r\n\r\n"
        )
        await stream.send_all(head.encode() + document)
        answer = b""
        while b"\n" not in answer and len(answer) < _KEPT and (part := await stream.receive_some(_KEPT)):
            answer += part
    finally:
        await trio.aclose_forcefully(stream)
    status = _STATUS.match(answer)
    if status is None:
        return "it does not speak HTTP" if answer else "it gave no answer"
    return "" if status[1].startswith(b"2") else f"it answered {int(status[1])}"
