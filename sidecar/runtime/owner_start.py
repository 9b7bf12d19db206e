"""The start of an owner without a sidecar: the answer that it would get, known before it comes. Read by fronts.

The daemon keeps a second file beside the standing order (`standing`), with what it would answer to the next start of
each container that holds CPUs. It is replaced, locked and checked in the same way:

1. A front asks first, and waits no longer than one whose container asks for nothing. Then it takes the answer under a
   shared lock, and holds that until the real runtime has created the container. The daemon gives the owner's CPUs to no
   other before.
2. An answer counts in the boot in which it was written, and as a whole: if one of its CPUs is offline, it is none.
   After a boot the books alone tell which CPUs it has.
3. A container is known by its whole id, which its engine made. Nothing that it says of itself counts.

It runs under any Python from 3.9 on.
"""

from __future__ import annotations

import os

from . import standing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

HEAD = "cpuset-sidecar owners 1"
MOST_BYTES = 1024 * 1024
"""Ten thousand owners, on neighbouring CPUs."""


class OwnersTold:
    """The answers to owners, as JSON by their ids, with the number and the boot of the file."""

    def __init__(self, epoch: int, boot: str, answers: dict[str, str]) -> None:
        self.epoch = epoch
        self.boot = boot
        self.answers = answers


def encoded(owners: OwnersTold) -> bytes:
    """Return the answers as a file has them. Those that are too many for it are left out."""
    lines, size = [f"epoch {owners.epoch}\n", f"boot {owners.boot}\n"], len(HEAD) + 200
    for id, answer in sorted(owners.answers.items()):
        line = f"own {id} {answer}\n"
        size += len(line)
        if size > MOST_BYTES:
            break
        lines.append(line)
    return standing.sealed(HEAD, "".join(lines))


def decoded(content: bytes) -> OwnersTold | None:
    """Return the answers in a file; None if it is torn, or something else."""
    found, answers = {"epoch": "", "boot": ""}, {}
    try:
        for line in standing.unsealed(HEAD, content).split("\n")[:-1]:
            key, rest = line.split(" ", 1)
            if key == "own":
                id, answer = rest.split(" ", 1)
                answers[id] = answer
            found[key] = rest
        if len(found["epoch"]) > 18 or not found["epoch"].isdecimal():
            return None
        return OwnersTold(int(found["epoch"]), found["boot"], answers)
    except ValueError:
        return None


def counts(folder: str, container: str) -> bool:
    """Return whether there is an answer for this container. It may be gone a moment later."""
    found = taken(folder, container)
    if found is not None:
        os.close(found[2])
    return found is not None


def taken(folder: str, container: str) -> tuple[dict[str, Any], standing.Order, int] | None:
    """Return the answer for this container, as an order of its own, with the descriptor that locks it; None if there
    is none that counts. The caller closes the descriptor when the container is created.
    """
    from .bundle import table, text  # Only here: the daemon, which writes the file, reads no bundle.
    from .exec_place import is_id

    found = standing.locked(f"{folder}/{standing.OWNERS}", MOST_BYTES, decoded) if is_id(container) else None
    if found is None:
        return None
    owners, opened = found
    is_of_now = owners.boot and owners.boot == standing.boot_of()
    answer = answer_in(owners, container) if is_of_now else None
    if answer is None:
        os.close(opened)
        return None
    cpus = text(table(answer, "update"), "cpus")
    return answer, standing.Order(owners.epoch, cpus, "", owners.boot, ""), opened


def answer_in(owners: OwnersTold, container: str) -> dict[str, Any] | None:
    """Return the answer for this container, whose CPUs are all online; None without one."""
    from .bundle import StartRefused, loaded, table, text

    try:
        answer = loaded(owners.answers.get(container, "").encode())
        words = text(table(answer, "update"), "cpus")
        cpus = standing.cpus_of(words)
        if not cpus or words.strip("0123456789,-"):
            return None
        return answer if cpus <= standing.cpus_of(standing.read(standing.ONLINE)) else None
    except (StartRefused, ValueError):
        return None
