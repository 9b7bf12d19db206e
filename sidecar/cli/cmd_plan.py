"""`plan`: what requests would get on this machine or a recorded one, or why not. Changes nothing."""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from typing import Final

import msgspec

from sidecar.cli.arguments import typed
from sidecar.cli.cmd_state import newest_books
from sidecar.cli.defragment_preview import drawn, rearranged
from sidecar.cli.flags import (
    add_config,
    add_format,
    add_json,
    add_no_color,
    check_format,
    config_of,
    daemons_config,
    print_json,
)
from sidecar.cli.machine_drawing import IDLE, ISOLATED, LETTERS, MORE, Paint, draw, plain
from sidecar.cli.printout import printout, wrapped
from sidecar.cli.row_template import Fields, filled
from sidecar.cli.this_machine import this_machine
from sidecar.config.config import Config
from sidecar.decide.container.labels import NAMES, PREFIX, meant, split
from sidecar.decide.settings import PolicyName, Settings
from sidecar.decide.whatif import imagined
from sidecar.failures import Misuse, SidecarError
from sidecar.host.machine.machine_file import machine_in
from sidecar.host.machine.sysfs import read_topology
from sidecar.log import printable
from sidecar.misreadings import Form, ListKind, NotOfForm, Unknown
from sidecar.natural_order import natural
from sidecar.readers import closest, kept, whole
from sidecar.status.document import Status
from sidecar.status.machine_map import machine_of
from sidecar.status.planned_requests import Plan, PlannedRequest, planned
from sidecar.status.status_reader import read_last_status
from sidecar.words.counts import cpus
from sidecar.words.missing_records import planned_from_nothing
from sidecar.words.settings_text import settings_of
from state import codec, files
from state.checkpoint import NAME, PREVIOUS
from state.cpuset import MAX_CPU, CPUSet
from state.errors import StateError
from state.model import State
from state.topology import Topology

_KEYS: Final = ("policy", "reserved", "options", "numa", "isolated", "shared_min", "max_moves", "state_dir")

_LIKENESS: Final = 0.8
"""Of a prefix to the sidecar's own, from which it is taken for a slip: `cpusets` and `cpset` are, `compose` is not."""

_EXAMPLES: Final = """examples:
  cpuset-sidecar plan --cpus 4                        next to the containers that run here
  cpuset-sidecar plan --cpus 4 --cpus 8 --empty       on an empty machine, in order
  cpuset-sidecar plan --cpus 16 --machine compose/machines/epyc.txt --options prefer-align-cpus-by-uncorecache
  cpuset-sidecar plan --cpus 4 --near eth0 --label cpuset.options=performance
  cpuset-sidecar plan --cpus 4 --format '{{.CPUs}}'   for a script: nothing where it would be refused
  cpuset-sidecar plan --defragment                    what `cpuset-sidecar defragment` would move
"""

_FIELDS: Final[Fields[PlannedRequest]] = Fields(
    {
        ".Asked": lambda each: str(each.asked),
        ".CPUs": lambda each: str(each.cpus),
        ".Size": lambda each: str(len(each.cpus)),
        ".Where": lambda each: each.lie,
        ".Code": lambda each: each.code,
        ".Reason": lambda each: each.reason,
    },
    lambda each: codec.encode(each).decode(),
)
"""What a template may name of an answer."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command and its arguments."""
    parser = subparsers.add_parser(
        "plan",
        description="Print what requests for exclusive CPUs would get, or why they would be refused. Changes nothing.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    asked = parser.add_mutually_exclusive_group(required=True)
    asked.add_argument(
        "--cpus",
        action="append",
        type=typed("--cpus", whole(1, MAX_CPU)),
        metavar="N",
        help="a request; may be repeated",
    )
    asked.add_argument("--defragment", action="store_true", help="the moves that a defragmentation would make here")
    parser.add_argument("--near", metavar="DEVICE", help="as the label cpuset.near")
    parser.add_argument(
        "--label",
        action="append",
        type=typed("--label", _label),
        default=[],
        metavar="LABEL=VALUE",
        help="any label; may be repeated",
    )
    parser.add_argument("--machine", metavar="FILE", help="a recorded machine instead of this one (implies --empty)")
    parser.add_argument("--empty", action="store_true", help="plan as if nothing were running")
    add_format(parser, _FIELDS, "{{.Asked}}\\t{{.CPUs}}")
    add_json(parser)
    add_no_color(parser)
    add_config(parser, _KEYS)
    parser.set_defaults(func=run, doing="planning")


def run(args: argparse.Namespace) -> int:
    """Print the plan. Return 1 if a request would be refused."""
    check_format(args, "json", "defragment")
    if args.defragment:
        return _rearrange(args)
    _check_requests(args)
    # A recorded machine is another one than the daemon's, whose reservation need not fit it.
    found, whose = (
        (config_of(args, lambda: this_machine(args.machine)), "")
        if args.machine
        else daemons_config(args, this_machine)
    )
    config = _granting(found)
    topology = machine_in(args.machine) if args.machine else read_topology()
    warnings = config.check_against(topology)
    settings, assumed = _settings(config)
    state, by_hand, notes = (State(), {}, ()) if args.empty or args.machine else _running(config)
    before = imagined(state, topology, settings, by_hand)
    said = (*([settings_of(whose)] if whose else []), *notes, *assumed, *warnings)
    plan = planned(before, args.cpus, _labels(args), pinned=by_hand, notes=said)
    if args.json:
        print_json(plan)
    elif args.format:
        sys.stdout.write("".join(f"{line}\n" for line in filled(args.format, _FIELDS, plan.answers)))
    else:
        paint, width = printout()
        sys.stdout.write("\n".join(rendered(plan, topology, paint=paint, width=width)) + "\n")
    return 0 if all(answer.cpus for answer in plan.answers) else 1


def _rearrange(args: argparse.Namespace) -> int:
    """Print the moves. No move is not a failure. Misuse with arguments that mean nothing for it."""
    if args.machine or args.empty or args.near or args.label:
        raise Misuse(
            "--defragment plans for the containers that hold CPUs here: leave out --machine, --empty, --near, --label"
        )
    config, whose = daemons_config(args, this_machine)
    topology = read_topology()
    warnings = config.check_against(topology)
    settings, _ = _settings(_granting(config))
    state, by_hand, notes = _running(config)
    world = imagined(state, topology, msgspec.structs.replace(settings, policy=PolicyName.DYNAMIC), by_hand)
    after, made = rearranged(world, config.policy)
    if args.json:
        print_json(made)
    else:
        paint, width = printout()
        said = [f"note: {printable(note)}" for note in (settings_of(whose), *notes, *warnings) if note]
        sys.stdout.write("\n".join([*said, *drawn(after, made, paint=paint, width=width)]) + "\n")
    return 0


def rendered(plan: Plan, topology: Topology, *, paint: Paint = plain, width: int | None = 100) -> list[str]:
    """Return the answers, the picture, and what its marks mean."""
    lines = [line for note in plan.notes for line in wrapped(f"note: {note}", width)]
    marks = {**dict.fromkeys(topology.online, "."), **dict.fromkeys(topology.isolated - plan.shared, ISOLATED)}
    marks.update(dict.fromkeys(plan.reserved, "r"))
    for held in plan.held.values():
        marks.update(dict.fromkeys(held, "x"))
    for pinned_to in plan.pinned.values():
        marks.update(dict.fromkeys(pinned_to & topology.online, "#"))
    for number, answer in enumerate(plan.answers):
        mark = LETTERS[number] if number < len(LETTERS) else MORE
        marks.update(dict.fromkeys(answer.cpus, mark))
        why_not = f"{'refused' if answer.code else 'none'}: {answer.reason}"
        said = f"{answer.cpus} ({answer.lie})" if answer.cpus else why_not
        lines += wrapped(f"{mark}  {cpus(answer.asked)}: {said}", width)
        lines += [line for warning in answer.warnings for line in wrapped(f"   warning: {warning}", width)]
    lines += [f"free afterwards: {len(plan.free)}{f' ({plan.free})' if plan.free else ''}", ""]
    lines += draw(machine_of(topology), marks, paint, width)
    return [*lines, "", *_legend(plan, set(marks.values()), width)]


def _legend(plan: Plan, marks: set[str], width: int | None) -> list[str]:
    held = ", ".join(printable(name) for name in sorted(plan.held, key=natural))
    by_hand = ", ".join(printable(name) for name in sorted(plan.pinned, key=natural))
    reserved = "r reserved" if plan.reserved.isdisjoint(plan.shared) else "r reserved, shared"
    pinned_there = f"# pinned by hand: {by_hand}"
    words = {".": ". shared", ISOLATED: IDLE, "r": reserved, "x": f"x held by {held}", "#": pinned_there}
    return [line for mark in f".{ISOLATED}rx#" if mark in marks for line in wrapped(words[mark], width)]


def _granting(config: Config) -> Config:
    """Return the configuration with a policy that grants; static is the default."""
    return msgspec.structs.replace(config, policy=PolicyName.STATIC) if config.policy is PolicyName.NONE else config


def _check_requests(args: argparse.Namespace) -> None:
    """Compare the labels with each other, and with what --cpus and --near say of the same. Misuse where they contradict
    each other.
    """
    labels = dict(args.label)
    exclusive, near = labels.get("cpuset.exclusive"), labels.get("cpuset.near")
    given = sorted({(label, value) for label, value in args.label})
    wrong = [
        f"--label {kept(label)} is given as {' and '.join(kept(value) for other, value in given if other == label)}: "
        "choose one"
        for label in labels
        if sum(other == label for other, _ in given) > 1
    ]
    if exclusive is not None and any(exclusive.strip() != str(cpus) for cpus in args.cpus):
        asked = " ".join(f"--cpus {cpus}" for cpus in args.cpus)
        wrong.append(f"--label cpuset.exclusive={kept(exclusive)} contradicts {asked}: leave the label out")
    if near is not None and args.near and near != args.near:
        wrong.append(f"--label cpuset.near={kept(near)} contradicts --near {kept(args.near)}: leave one of them out")
    if wrong:
        raise Misuse(*wrong)


def _settings(config: Config) -> tuple[Settings, tuple[str, ...]]:
    """Return the configuration's settings; one reserved CPU is the default."""
    settings = config.settings()
    if settings.reserved_cpus or settings.reserved_count:
        return settings, ()
    return msgspec.structs.replace(settings, reserved_count=1), (
        "the configuration reserves no CPU: 1 reserved CPU is assumed",
    )


def _running(config: Config) -> tuple[State, dict[str, CPUSet], tuple[str, ...]]:
    """Return the recorded state of this host, and its pinned containers; if none is recorded, both are empty, with a
    note. So are there notes if the state is elsewhere, and if a daemon runs that does not vouch for what it told.
    """
    state_dir = config.state_dir
    try:
        if not any(files.is_there(os.path.join(state_dir, name)) for name in (NAME, PREVIOUS)):
            return State(), {}, (planned_from_nothing(state_dir),)
        state, notes = newest_books(state_dir, config.projections)
        last = read_last_status(state_dir, time.time())
    except StateError as error:
        raise SidecarError(f"{error}; --empty plans plan as if nothing were running") from error
    stale = (last.outdated,) if last.is_running and last.outdated else ()
    return state, pinned(last.status), (*stale, *notes)


def pinned(status: Status) -> dict[str, CPUSet]:
    """Return the names of containers pinned by hand, and the CPUs that they keep from others."""
    return {each.name: each.pinned for each in status.rows if each.pinned}


def _labels(args: argparse.Namespace) -> dict[str, str]:
    return {**dict(args.label), **({"cpuset.near": args.near} if args.near else {})}


def _label(value: object) -> tuple[str, str] | NotOfForm | Unknown:
    """Return a label and its value. One without the prefix is right, unless it looks like a slip in one that has it;
    one with it has to be known.
    """
    label, equals, text = str(value).partition("=")
    if not equals or not label:
        return NotOfForm(Form.LABEL)
    prefix = re.split("[._-]", label)[0]
    is_slip = PREFIX + label in NAMES or closest(prefix, (PREFIX.rstrip("."),), _LIKENESS) != "" or meant(label) != ""
    is_known = split(label)[0] in NAMES if label.startswith(PREFIX) else not is_slip
    return (label, text) if is_known else Unknown(ListKind.LABEL, NAMES)
