"""`plan --defragment`: what a defragmentation would move here, and the map afterwards; nothing is done."""

from __future__ import annotations

from sidecar.api.documents import Defragmented, Exchange
from sidecar.api.documents import defragmented as told
from sidecar.cli.cmd_defragment import rendered as moves_of
from sidecar.cli.machine_drawing import LETTERS, MORE, Paint, draw, plain, short_name
from sidecar.cli.printout import joined, wrapped
from sidecar.decide.books.exchanges import best_move, defragmented
from sidecar.decide.settings import PolicyName
from sidecar.decide.world import World, replace
from sidecar.log import printable
from sidecar.status.machine_map import machine_of


def rearranged(world: World, policy: PolicyName) -> tuple[World, Defragmented]:
    """Return the world after one round of moves, and the moves; `policy` is the one in force."""
    after = replace(world, state=defragmented(world, world.state))
    made = told(world, after)
    notes = list(made.notes)
    if policy is not PolicyName.DYNAMIC:
        notes.append(f"the policy is {policy}: only dynamic moves running containers, as shown")
    if made.moves and best_move(after, after.state) is not None:
        notes.append("another round would move more (max_moves)")
    return after, replace(made, notes=tuple(notes))


def drawn(after: World, made: Defragmented, *, paint: Paint = plain, width: int | None = 100) -> list[str]:
    """Return the moves, the map afterwards, and its legend."""
    state = after.state
    marks = dict.fromkeys(after.topology.online, ".")
    marks.update(dict.fromkeys(state.reserved, "r"))
    letters = {move.container: LETTERS[n] if n < len(LETTERS) else MORE for n, move in enumerate(_last(made))}
    for key, grant in state.assignments.items():
        marks.update(dict.fromkeys(grant.cpus, letters.get(key.id, "x")))
    marks.update(dict.fromkeys(after.strangers & after.topology.online, "#"))
    held = [(letters[key.id], grant.name) for key, grant in state.assignments.items() if key.id in letters]
    names = [f"{letter} {printable(name)}" for letter, name in held]
    words = {".": ". shared", "r": "r reserved", "x": "x held, not moved", "#": "# pinned by hand"}
    legend = [short_name(each, width) for each in names] + [words[mark] for mark in ".rx#" if mark in marks.values()]
    lines = [line for move in moves_of(made) for line in wrapped(move, width)]
    return [*lines, "", *draw(machine_of(after.topology), marks, paint, width), "", *joined(legend, width, gap="   ")]


def _last(made: Defragmented) -> list[Exchange]:
    return list({move.container: move for move in made.moves}.values())
