"""Every mistake in a file, a variable or a flag has its sentence."""

from __future__ import annotations

from typing import get_args

import pytest

from sidecar.contradictions import (
    AllReserved,
    BandUpsideDown,
    BareNumber,
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
    TypedFlaw,
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
    Twice,
    TwoMachines,
    UnevenCaches,
    Unrecorded,
)
from sidecar.words.misread import sentence
from state.cpuset import CPUSet
from state.mistakes import AnyFlaw, OneOf
from state.refusal import MoreSocketsThanNodes, Refusal, RefusalCode

ONE, TWO = CPUSet.of(1), CPUSet.of(0, 1)
FLAWS: tuple[tuple[TypedFlaw, str], ...] = (
    (OneOf(("yes", "no")), "k is 'yess'; did you mean 'yes'?"),
    (NotOfForm(Form.CPU_LIST, "why"), 'k is \'yess\': write a CPU list like "3" or "0-1,8" (why)'),
    (AboveZero(1, "0.5"), "k is 'yess': write a number above 0 and at most 1, like 0.5"),
    (Switched("fast", "?"), "k: fast is '?': write true or false"),
    (
        MisreadSlice("/_cpu.slice"),
        (
            "k is 'yess': systemd puts it at /_cpu.slice, where OCI runtimes do not look for it, since it begins with "
            "the name of a cgroup controller: write another name, like sidecar-shared.slice"
        ),
    ),
    (Unknown(ListKind.KEY, ("kk", "z")), "unknown key 'k'; did you mean 'kk'?"),
    (Unknown(ListKind.SECTION, ("x", "z")), "unknown section 'k': the sections are x, z"),
    (Unknown(ListKind.FLAG, ("--x", "--z")), "unknown flag 'k': the flags are --x, --z"),
    (Unknown(ListKind.COMMAND, ("x", "z")), "unknown command 'k': the commands are x, z"),
    (Unknown(ListKind.CONTAINER, ("yes",)), "k is 'yess'; did you mean 'yes'?"),
    (Unknown(ListKind.CONTAINER, ()), "k is 'yess': there is no container"),
    (Superfluous(), "unexpected argument 'yess'"),
    (Missing("4"), "k is missing: write k = 4"),
    (NoTable(), "k is no table: write it as [k]"),
    (NoTable(is_list=True), "k is no list of tables: write each as [[k]]"),
    (Absent(("A", "B")), "A or B is missing"),
    (NoValue("FILE"), "k needs a value: write k FILE"),
    (BareCount(2), 'k is \'yess\', a bare number: write "count:2" for 2 CPUs, or "2" for CPU 2 alone'),
    (NeedlessValue(), "k takes no value, and has 'yess'"),
    (Misplaced("status"), "k is a flag of status: write it after the command, cpuset-sidecar status k"),
    (GivenTwice(), "k is given twice: choose one"),
    (UsedTogether("--b"), "k and --b cannot be used together: choose one"),
    (SameFile("--b"), "k is 'yess', which is the file of --b as well: choose another one"),
    (NoFile("Is a directory"), "k cannot be read: Is a directory"),
    (NoTOML(Slip.TWICE, 3), "k is not TOML: a key or section stands there twice (column 3)"),
    (
        NeedsReserved("static"),
        (
            "the policy static needs reserved CPUs, which are never given exclusively: set reserved, as a CPU list "
            '(reserved = "0", CPUSET_SIDECAR_RESERVED=0, --reserved 0) or as a count (reserved = "count:1", '
            "--reserved count:1)"
        ),
    ),
    (BandUpsideDown(0.5, 0.5), "load_low is 0.5 and load_high 0.5: make load_low the smaller one"),
    (
        StateInProjections("/a/b", "/a"),
        "state_dir /a/b is inside projections /a, which workloads mount: keep them apart",
    ),
    (OneEngineOnly("hand"), "hand is about one engine, and engines names several: leave one of them out"),
    (
        NoSuchGroup("g"),
        (
            "api_group is 'g', and there is no such group here: create it, or write its number (in a container, the "
            "host's)"
        ),
    ),
    (
        SocketPathTooLong("/a/api.sock", 11, 10),
        "/a/api.sock has 11 bytes, and the path of a socket at most 10: choose a shorter state_dir",
    ),
    (GivenTwice("c.toml, line 1"), "k is given twice, first in c.toml, line 1: choose one"),
    (NotOnMachine(TWO, ONE, CPUSet.of(0)), "reserved is 0-1, but 1 is not on this machine: it has 0"),
    (ReservedOffline(TWO, ONE), "reserved is 0-1, and CPU 1 is offline: it is reserved as soon as it is back"),
    (NoneToGive(TWO), "no CPU can be given exclusively while CPUs 0-1 are offline"),
    (AllReserved(2, 2), "reserved takes 2 of this machine's 2 CPUs: leave some to be given exclusively"),
    (PoolTooLarge(4, 2), "shared_min is 4, and this machine has 2 CPUs: make it smaller"),
    (
        Unfit(Refusal(RefusalCode.CONTRADICTION, MoreSocketsThanNodes("o", 2, 1))),
        "o needs at least as many NUMA nodes as sockets, but this machine has 1 node and 2 sockets",
    ),
    (MeansNothing(), "k means nothing in a simulation: leave it out"),
    (OnlyAtStart(), "k takes effect only after a restart of the sidecar: a reload cannot change it"),
    (NoMachine(), "the machine is missing: write [machine] with cores = 8, or file = ..., or give --machine FILE"),
    (TwoMachines(), "write file, or sockets, nodes, cores and threads, and not both"),
    (Unrecorded("the record x cannot be read"), "the record x cannot be read"),
    (MachineTooLarge(9000, 8191), "this machine has 9000 CPUs: 8191 is the most"),
    (UnevenCaches(4, 3), "4 cores of a node cannot share 3 caches evenly"),
    (Twice(), "there are two containers 'yess'"),
    (IsThere(), "k: there is a container 'yess' already: remove it before it is created again"),
    (NotThere(()), "k: there is no container 'yess' now; there is none"),
    (NotThere(("a", "b")), "k: there is no container 'yess' now; there is a, b"),
    (LastCPU(), "k: the last CPU cannot go offline"),
    (NoSuchCPUs(TWO, ONE), "k is 'yess', but 0-1 is not on this machine: it has 1"),
    (DoesNotFollow(), "only one that follows moves: add follows = true"),
    (NoticeCut(60.0, 20.0), "grace is 60 s, and tenants_longest_notice allows 20 s: its containers have that"),
    (
        NoUnitConfined("db.service"),
        'the rule for unit db.service has no effect: host_units is off; set host_units = "auto"',
    ),
    (NoUnitAsks("db"), "the rule for unit db has no effect: services and slices can ask, and their names end so"),
    (BareNumber(2), "reserved is CPU 2 alone: for 2 CPUs write count:2"),
    (SplitCores(ONE, CPUSet.of(2)), "reserved 1 splits cores: under full-pcpus-only CPU 2 cannot be granted"),
    (
        LackingThreads(CPUSet.of(2)),
        "a thread of the same core is offline: under full-pcpus-only CPU 2 cannot be granted",
    ),
    (
        IsolatedShared(ONE),
        (
            "the kernel isolates CPU 1, over which it does not balance threads: those of a shared container can get "
            "stuck on one of them; set isolated to prefer, or only"
        ),
    ),
    (NothingIsolated("only"), "isolated is only, and the kernel isolates no CPUs here (isolcpus= at boot)"),
    (IsolatedReserved(ONE), "reserved has isolated CPUs (1): several threads there would all sit on one"),
)


@pytest.mark.parametrize(("flaw", "said"), FLAWS, ids=lambda each: type(each).__name__)
def test_a_mistake_is_told_in_one_sentence_after_its_place(flaw: TypedFlaw, said: str) -> None:
    """A flag's place is its name, which the sentence contains."""
    assert sentence(Misreading(where="c.toml, line 3", name="k", given="yess", flaw=flaw)) == f"c.toml, line 3: {said}"
    assert sentence(Misreading(name="k", given="yess", flaw=flaw)) == said


def test_an_unknown_label_in_a_flag_is_told_without_its_value() -> None:
    mistake = Misreading(name="--label", given="cpuset.qouta=keep", flaw=Unknown(ListKind.LABEL, ()))
    assert sentence(mistake) == "--label: unknown label 'cpuset.qouta'; did you mean 'cpuset.quota'?"


@pytest.mark.parametrize("form", Form)
def test_each_form_says_what_is_right(form: Form) -> None:
    said = sentence(Misreading(name="k", given="[1]", is_text=False, flaw=NotOfForm(form)))
    assert said.startswith("k is [1]: ")
    assert len(said) > len("k is [1]: ") + 10


def test_each_flaw_has_its_sentence() -> None:
    """Those of labels have theirs elsewhere."""
    assert {type(flaw) for flaw, _ in FLAWS} - {OneOf} == set(get_args(TypedFlaw)) - set(get_args(AnyFlaw))
