"""The sentences of mistakes in files, variables and flags: where it is, what was given, what would be right. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, assert_never

from sidecar.contradictions import (
    AllReserved,
    BandUpsideDown,
    BareNumber,
    Contradiction,
    IsolatedReserved,
    IsolatedShared,
    LackingThreads,
    NeedsReserved,
    NoneToGive,
    NoSuchGroup,
    NothingIsolated,
    NoticeCut,
    NotOnMachine,
    NoUnitAsks,
    NoUnitConfined,
    OneEngineOnly,
    PoolTooLarge,
    ReservedOffline,
    SocketPathTooLong,
    SplitCores,
    StateInProjections,
    Unfit,
)
from sidecar.misreadings import (
    AboveZero,
    Absent,
    BareCount,
    Form,
    GivenTwice,
    ListKind,
    Misplaced,
    Misreading,
    MisreadSlice,
    Missing,
    NeedlessValue,
    NoFile,
    NoTable,
    NotOfForm,
    NoTOML,
    NoValue,
    SameFile,
    Slip,
    Superfluous,
    Switched,
    Unknown,
    UsedTogether,
)
from sidecar.scenario_flaws import (
    DoesNotFollow,
    IsThere,
    LastCPU,
    MachineTooLarge,
    MeansNothing,
    NoMachine,
    NoSuchCPUs,
    NotThere,
    OnlyAtStart,
    ScenarioFlaw,
    Twice,
    TwoMachines,
    UnevenCaches,
    Unrecorded,
)
from sidecar.words import refusals
from sidecar.words.counts import agree, counted, named
from sidecar.words.counts import cpus as counted_cpus
from sidecar.words.mistaken import nearest, nearest_label, said

_FORMS: Final = {
    Form.TEXT: "write it as text, between quotes",
    Form.CPU_LIST: 'write a CPU list like "3" or "0-1,8"',
    Form.RESERVED: 'write a CPU list like "0" or "0-1,8", or a count like "count:2"',
    Form.RESERVED_COUNT: 'a count of reserved CPUs is at least 1; CPU 0 is written as a list, "0"',
    Form.AMOUNT: "write a number of CPUs, like 2 or 0.5",
    Form.PATTERNS: 'write a list of name patterns (db-*) or label=value patterns, like ["a", "b"] or a,b',
    Form.DIRECTORY: "write the absolute path of a directory, like /run/cpuset-sidecar",
    Form.ENGINE: (
        "write auto, or the address of an engine's socket, like unix:///var/run/docker.sock or tcp://127.0.0.1:2375"
    ),
    Form.ENGINES: (
        'write two engines, each once, like ["docker", "podman"], a user\'s own as podman:1000, or with its address, '
        "like podman=unix:///run/podman/podman.sock; or auto"
    ),
    Form.HAND: (
        "write auto, off, or the engine's default cgroup parent: the name of a slice, like second.slice, or under "
        "cgroupfs a path, like /second"
    ),
    Form.LISTEN: "write an address and a port, like 127.0.0.1:9413, [::1]:9413, or 0.0.0.0:9413 for all interfaces",
    Form.CGROUP_PARENT: (
        'write the name of a slice, like "sidecar-shared.slice", or under cgroupfs a path, like "/sidecar-shared"'
    ),
    Form.DELAY: "write a duration like 50ms, or never",
    Form.STEPS: 'write a number of CPUs, or a list like [{ at = "0s", cpus = 2 }, { at = "10s", cpus = 8 }]',
    Form.STEPS_IN_ORDER: "put its times in order",
    Form.LABELS: 'write labels with texts, like { "cpuset.exclusive" = "2" }',
    Form.GROUP: "write the name or the number of a group, like monitoring",
    Form.MATCH: 'write patterns, like { name = "db-*" }, with some of name, project and image, or with unit alone',
    Form.TEMPLATE: "write fields in double braces, like '{{.CPUs}}', or json",
    Form.HOOK: 'write either command = ["/usr/local/bin/program"] or webhook = "https://host/path"',
    Form.HOOKS: "there are 16 hooks at most",
    Form.HOOK_NAME: "write letters, digits, spaces, and - _ . in between, 64 at most",
    Form.HOOK_NAME_TWICE: "another hook has that name, by its number if it has no other: write one of its own",
    Form.COMMAND: (
        'write a list of words that begins with the absolute path of a program, like ["/usr/local/bin/tell", "ops"]: '
        "no shell reads it"
    ),
    Form.WEBHOOK: "write an address like https://host/path or http://127.0.0.1:8080/path, without a user or a #",
    Form.LABEL: "write LABEL=VALUE, like cpuset.options=performance",
}

_SLIPS: Final = {
    Slip.TWICE: "a key or section stands there twice",
    Slip.CLOSED: "what stands between brackets is complete: add to it there",
    Slip.VALUE: "a value is missing or misspelt: write a number, true, false, or a text between quotes",
    Slip.DATE: "there is no such date or time",
    Slip.KEY: "write KEY = VALUE, or [SECTION]",
    Slip.REST: "something follows: write each key and each section on a line of its own, and texts between quotes",
    Slip.UNCLOSED: "a comma or a closing bracket is missing",
    Slip.UNCLOSED_HEADER: "the closing bracket of a section is missing",
    Slip.UNCLOSED_TEXT: "a closing quote is missing",
    Slip.ESCAPE: "a backslash begins no known escape: write two, or put the text between single quotes",
    Slip.CHARACTER: "there is a control character, or a line break inside a text",
    Slip.DEEP: "lists or tables are nested too deeply",
    Slip.DIGITS: "a number has too many digits",
    Slip.MARK: "it begins with a byte order mark: save it as UTF-8 without one",
    Slip.ENCODING: "it is not text in UTF-8",
    Slip.OTHER: "it cannot be read",
}

_NEEDS_RESERVED: Final = (
    "needs reserved CPUs, which are never given exclusively: set reserved, as a CPU list "
    '(reserved = "0", CPUSET_SIDECAR_RESERVED=0, --reserved 0) or as a count (reserved = "count:1", --reserved count:1)'
)


def sentences(mistakes: Iterable[Misreading]) -> tuple[str, ...]:
    """Return a sentence for each of these."""
    return tuple(map(sentence, mistakes))


def sentence(mistake: Misreading) -> str:
    """Return the place, what is wrong there, and what would be right."""
    body = _body(mistake)
    return f"{mistake.where}: {body}" if mistake.where else body


def _body(mistake: Misreading) -> str:
    name, flaw = mistake.name, mistake.flaw
    word, shown = (mistake.given, repr(mistake.given)) if mistake.is_text else ("", mistake.given)
    match flaw:
        case NotOfForm(form, detail):
            return f"{name} is {shown}: {_FORMS[form]}{f' ({detail})' if detail else ''}"
        case AboveZero(most, like):
            return f"{name} is {shown}: write a number above 0 and at most {most:g}, like {like}"
        case Switched(option, switch):
            return f"{name}: {option} is {switch!r}: write true or false"
        case BareCount(number):
            count = f'"count:{number}" for {counted_cpus(number)}, or ' if number else ""
            return f'{name} is {shown}, a bare number: write {count}"{number}" for CPU {number} alone'
        case MisreadSlice(path):
            return (
                f"{name} is {shown}: systemd puts it at {path}, where OCI runtimes do not look for it, since it begins "
                "with the name of a cgroup controller: write another name, like sidecar-shared.slice"
            )
        case Unknown(ListKind.LABEL):
            label = word.partition("=")[0]
            return f"{name}: unknown label {label!r}{nearest_label(label)}"
        case Unknown(ListKind.CONTAINER, known):
            return f"{name} is {shown}{_nearest_or_all(ListKind.CONTAINER, word, known)}"
        case Unknown(kind, known):
            return f"unknown {kind} {name!r}{_nearest_or_all(kind, name, known)}"
        case Superfluous():
            return f"unexpected argument {shown}"
        case Absent(names):
            return f"{' or '.join(names)} is missing"
        case NoValue(like):
            return f"{name} needs a value: write {name} {like}"
        case Misplaced(command):
            return f"{name} is a flag of {command}: write it after the command, cpuset-sidecar {command} {name}"
        case NeedlessValue():
            return f"{name} takes no value, and has {shown}"
        case GivenTwice(first):
            return f"{name} is given twice{f', first in {first}' if first else ''}: choose one"
        case UsedTogether(other):
            return f"{name} and {other} cannot be used together: choose one"
        case SameFile(other):
            return f"{name} is {shown}, which is the file of {other} as well: choose another one"
        case Missing(like):
            return f"{name} is missing: write {name} = {like}"
        case NoTable(is_list=True):
            return f"{name} is no list of tables: write each as [[{name}]]"
        case NoTable():
            return f"{name} is no table: write it as [{name}]"
        case NoFile(reason):
            return f"{name} cannot be read: {reason}"
        case NoTOML(slip, column):
            return f"{name} is not TOML: {_SLIPS[slip]}{f' (column {column})' if column else ''}"
        case _ if isinstance(flaw, Contradiction):
            return _contradiction(flaw)
        case _ if isinstance(flaw, ScenarioFlaw):
            return _unplayable(name, shown, flaw)
        case _:
            return said(name, word, shown, flaw)


def _contradiction(flaw: Contradiction) -> str:
    """Return what a value contradicts, or why it is probably not meant."""
    match flaw:
        case NeedsReserved(policy):
            return f"the policy {policy} {_NEEDS_RESERVED}"
        case BandUpsideDown(low, high):
            return f"load_low is {low:g} and load_high {high:g}: make load_low the smaller one"
        case StateInProjections(state_dir, projections):
            inside = f"state_dir {state_dir} is inside projections {projections}"
            return f"{inside}, which workloads mount: keep them apart"
        case OneEngineOnly(key):
            return f"{key} is about one engine, and engines names several: leave one of them out"
        case NoSuchGroup(group):
            cure = "create it, or write its number (in a container, the host's)"
            return f"api_group is {group!r}, and there is no such group here: {cure}"
        case SocketPathTooLong(path, size, most):
            return f"{path} has {size} bytes, and the path of a socket at most {most}: choose a shorter state_dir"
        case NotOnMachine(reserved, missing, cpus):
            return f"reserved is {reserved}, but {missing} is not on this machine: it has {cpus}"
        case AllReserved(count, size):
            return f"reserved takes {count} of this machine's {counted_cpus(size)}: leave some to be given exclusively"
        case PoolTooLarge(keep, size):
            return f"shared_min is {keep}, and this machine has {counted_cpus(size)}: make it smaller"
        case Unfit(refusal):
            return refusals.sentence(refusal)
        case BareNumber(cpu):
            return f"reserved is CPU {cpu} alone: for {counted_cpus(cpu)} write count:{cpu}"
        case NoticeCut(asked, most):
            return f"grace is {asked:g} s, and tenants_longest_notice allows {most:g} s: its containers have that"
        case NoUnitConfined(unit):
            return f'the rule for unit {unit} has no effect: host_units is off; set host_units = "auto"'
        case NoUnitAsks(unit):
            return f"the rule for unit {unit} has no effect: services and slices can ask, and their names end so"
        case SplitCores(reserved, rest):
            return f"reserved {reserved} splits cores: under full-pcpus-only {named(rest)} cannot be granted"
        case LackingThreads(cpus):
            return f"a thread of the same core is offline: under full-pcpus-only {named(cpus)} cannot be granted"
        case ReservedOffline(reserved, offline):
            is_, it = agree(len(offline), "is", "are"), agree(len(offline), "it is", "they are")
            return f"reserved is {reserved}, and {named(offline)} {is_} offline: {it} reserved as soon as {it} back"
        case NoneToGive(offline):
            return f"no CPU can be given exclusively while {named(offline)} {agree(len(offline), 'is', 'are')} offline"
        case IsolatedShared(cpus):
            return (
                f"the kernel isolates {named(cpus)}, over which it does not balance threads: those of a shared "
                "container can get stuck on one of them; set isolated to prefer, or only"
            )
        case NothingIsolated(rule):
            return f"isolated is {rule}, and the kernel isolates no CPUs here (isolcpus= at boot)"
        case IsolatedReserved(cpus):
            return f"reserved has isolated CPUs ({cpus}): several threads there would all sit on one"
    assert_never(flaw)


def _unplayable(name: str, shown: str, flaw: ScenarioFlaw) -> str:
    """Return why a scenario cannot be played."""
    match flaw:
        case MeansNothing():
            return f"{name} means nothing in a simulation: leave it out"
        case OnlyAtStart():
            return f"{name} takes effect only after a restart of the sidecar: a reload cannot change it"
        case NoMachine():
            return "the machine is missing: write [machine] with cores = 8, or file = ..., or give --machine FILE"
        case TwoMachines():
            return "write file, or sockets, nodes, cores and threads, and not both"
        case Unrecorded(reason):
            return reason
        case MachineTooLarge(cpus, most):
            return f"this machine has {counted_cpus(cpus)}: {most} is the most"
        case UnevenCaches(cores, caches):
            return f"{counted(cores, 'core')} of a node cannot share {counted(caches, 'cache')} evenly"
        case Twice():
            return f"there are two containers {shown}"
        case IsThere():
            return f"{name}: there is a container {shown} already: remove it before it is created again"
        case NotThere(there):
            return f"{name}: there is no container {shown} now; there is {', '.join(there) or 'none'}"
        case LastCPU():
            return f"{name}: the last CPU cannot go offline"
        case NoSuchCPUs(missing, online):
            return f"{name} is {shown}, but {missing} is not on this machine: it has {online}"
        case DoesNotFollow():
            return "only one that follows moves: add follows = true"
    assert_never(flaw)


def _nearest_or_all(kind: ListKind, name: str, known: tuple[str, ...]) -> str:
    """Return the known word that is most like this one; all of them if none is."""
    there = f": the {kind}s are {', '.join(known)}" if known else f": there is no {kind}"
    return nearest(name, known) or there
