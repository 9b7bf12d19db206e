"""`page`: the page of the running daemon, for the user of the command, as long as it runs."""

from __future__ import annotations

import argparse
import getpass
import os
import secrets
import socket
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from sidecar.api.tcp_listener import listening_on
from sidecar.api.unix_socket import path_in
from sidecar.cli.arguments import typed
from sidecar.cli.flags import add_config, config_of
from sidecar.log import Log
from sidecar.readers import whole

_EXAMPLES: Final = """examples:
  cpuset-sidecar page                  print the link, and serve until Ctrl-C
  cpuset-sidecar page --open           open it in the browser of this desktop
  cpuset-sidecar page --port 8090      on the same port each time; the token is another one
"""

_DESCRIPTION: Final = """Serve a page on a port of the loopback address, until Ctrl-C: the machine, its containers,
the last hour, and what a request would get, live. It only shows: nothing can be changed from it. The link has
a token, and lets any user look. Over ssh, run the printed `ssh -L` line on your own computer."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command and its arguments."""
    parser = subparsers.add_parser(
        "page",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--port",
        type=typed("--port", whole(1, 65535)),
        default=0,
        metavar="N",
        help="the port on 127.0.0.1 (default: any free one)",
    )
    parser.add_argument("--open", action="store_true", help="open the page in a browser on this desktop")
    add_config(parser)
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Serve until Ctrl-C. SidecarError if no daemon answers, ConfigError if the port cannot be used."""
    import webbrowser

    import trio

    from sidecar.api.page_relay import serve_page
    from sidecar.cli.daemon_client import ask

    state_dir = config_of(args).state_dir
    ask(state_dir, "GET", "/healthz", dict[str, object])
    with listening_on(f"127.0.0.1:{args.port}") as listener:
        assert listener is not None, "an address is given"
        port, token = listener.socket.getsockname()[1], secrets.token_urlsafe(16)
        link = f"http://127.0.0.1:{port}/{token}/"
        sys.stdout.write("\n".join(told(link, port, os.environ)) + "\n")
        sys.stdout.flush()
        with tempfile.TemporaryDirectory(prefix="cpuset-sidecar-") as folder:
            if args.open:
                webbrowser.open(_forwarding(Path(folder), link).as_uri())
            try:
                trio.run(serve_page, listener.socket, token, path_in(state_dir), Log(sys.stderr))
            except* KeyboardInterrupt:
                sys.stdout.write("\n")
    return 0


def told(link: str, port: int, environment: Mapping[str, str]) -> list[str]:
    """Return what is printed: the link, and the line for people behind ssh."""
    user = environment.get("SUDO_USER") or getpass.getuser()
    came = environment.get("SSH_CONNECTION", "").split()
    host = came[2] if len(came) == 4 else socket.gethostname()
    return [
        link,
        "",
        "from another computer, run this there, and open the same link:",
        f"  ssh -N -L {port}:127.0.0.1:{port} {user}@{host}",
        "",
        "The link lets any user look, and change nothing. Ctrl-C ends it.",
    ]


def _forwarding(folder: Path, link: str) -> Path:
    """Return a file that leads to the link: a browser's arguments can be read by every user of the host."""
    made = folder / "page.html"
    made.write_text(f'<!doctype html><meta http-equiv="refresh" content="0;url={link}">', encoding="ascii")
    return made
