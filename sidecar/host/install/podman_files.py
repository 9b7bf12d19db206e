"""Podman's files of the strict start: the drop-in by which it knows the runtime, and those of the precreate hook.

1. A list in a later file of Podman's configuration replaces that of an earlier one (containers.conf(5)). So the drop-in
   has what is in force without it, and adds to that.
2. The program is one for both engines. Which prefix a file of Podman's belongs to is told by the program that it names:
   a file that names another one is another installation's, and stays.
3. The drop-in says which directories were made for it. They go with it, if nothing else is in them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from typing import Final

from sidecar.decide.container.start import STRICT_RUNTIME
from sidecar.host.install.runtime_files import Places, Planned, below, content_at, shell_script

SUPPORTS_JSON: Final = ("crun", "runc", "kata", "runsc", "youki", "krun")
"""Runtimes whose errors Podman reads in its log, where no file says which."""

HOOKS_DIRS: Final = ("/usr/share/containers/oci/hooks.d",)
"""Where Podman looks for hooks if no file says where (measured with 4.3.1: a directory that is missing is no error)."""

_MADE: Final = "# Directories made for it: "


def podman_files(
    places: Places,
    *,
    with_hook: bool,
    supports_json: Sequence[str] = SUPPORTS_JSON,
    hooks_dirs: Sequence[str] = HOOKS_DIRS,
    made: Collection[str] = (),
) -> Iterator[Planned]:
    """Yield the file by which Podman knows the runtime, and with `with_hook` those of the hook. `supports_json` and
    `hooks_dirs` are what is in force without them, `made` the directories that are made for them.
    """
    lines = ["# Written by `cpuset-sidecar install-runtime`."]
    lines += [f"{_MADE}{json.dumps(sorted(made))}"] if made else []
    lines += ["[engine]", f"runtime_supports_json = {_listed(*supports_json, STRICT_RUNTIME)}"]
    if with_hook:
        yield Planned(places.hook, shell_script("cpuset-precreate", {"CONF": places.settings}), 0o755)
        yield Planned(places.podman_hook, _hook_text(places).encode())
        lines.append(f"hooks_dir = {_listed(*hooks_dirs, os.path.dirname(places.podman_hook))}")
    lines += ["", "[engine.runtimes]", f"{STRICT_RUNTIME} = {_listed(places.runtime)}", ""]
    yield Planned(places.podman_settings, "\n".join(lines).encode())


def podman_gone(root: str, places: Places) -> Iterator[Planned]:
    """Yield Podman's files of this installation, to be removed: first those by which it is called. StateError."""
    for path, program in ((places.podman_hook, places.hook), (places.podman_settings, places.runtime)):
        if _names(root, path, program):
            yield Planned(path, None)
    yield Planned(places.hook, None)


def is_known_to_podman(root: str, places: Places) -> bool:
    """Return whether Podman's drop-in names this installation's runtime. StateError."""
    return _names(root, places.podman_settings, places.runtime)


def directories_made(root: str, places: Places, *planned: str) -> list[str]:
    """Return the directories that were made for Podman's files, and those that are missing above these. StateError."""
    made = set[str]()
    for line in (content_at(root, places.podman_settings) or b"").decode(errors="replace").splitlines():
        if line.startswith(_MADE):
            # A line that people changed records nothing: what is not known to be ours stays.
            with suppress(ValueError):
                found = json.loads(line.removeprefix(_MADE))
                made |= {each for each in found if isinstance(each, str)} if isinstance(found, list) else set()
    for path in planned:
        at = os.path.dirname(path)
        while not os.path.lexists(below(root, at)):
            made.add(at)
            at = os.path.dirname(at)
    return sorted(made)


def remove_made(root: str, made: Collection[str]) -> None:
    """Remove these directories, if they are empty; the inner ones first."""
    for path in sorted(made, key=len, reverse=True):
        with suppress(OSError):
            os.rmdir(below(root, path))


def _names(root: str, path: str, program: str) -> bool:
    return _quoted(program).encode() in (content_at(root, path) or b"")


def _listed(*words: str) -> str:
    return f"[{', '.join(_quoted(word) for word in dict.fromkeys(words))}]"


def _quoted(word: str) -> str:
    """Return a text as TOML and JSON both write it: the escapes of JSON are those of TOML, but for halves of pairs."""
    return json.dumps(word, ensure_ascii=False)


def _hook_text(places: Places) -> str:
    """Select containers with annotations about CPUs: hooks are not selected by labels."""
    hook = {
        "version": "1.0.0",
        "hook": {"path": places.hook},
        "when": {"annotations": {r"^cpuset\.": ".*"}},
        "stages": ["precreate"],
    }
    return json.dumps(hook, indent=2, ensure_ascii=False) + "\n"
