"""`state` in the kubelet's format: printed, read, imported."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path

import pytest

from sidecar.__main__ import main
from sidecar.cli.cmd_state import kubelets
from sidecar.commit.fallback_books import SPARE, SparedCheckpoint
from sidecar.decide.facts import CpusetApplied, EngineConnected, InventoryTaken
from sidecar.decide.orders import ApplyCpuset
from sidecar.decide.reconcile import begin
from sidecar.decide.step import step
from sidecar.kubelet import kubelet_state
from sidecar.kubelet.kubelet_state import KubeletState, exported, imported
from state import codec
from state.checkpoint import CheckpointFile, encode_checkpoint
from state.cpuset import CPUSet
from state.model import State
from state.topology import uniform
from tests.cli.worlds import ENGINE, STATIC, container, world
from tests.commit.test_fallback_books import break_disk
from tests.support.keys import by_id, docker
from tests.support.schemas import misfits

BOOKS = world(uniform(cores=8), container("web", exclusive=2), container("db", exclusive=2)).state
WEB, DB = (name.encode().hex().ljust(64, "0") for name in ("web", "db"))
EXAMPLE = b'{"policyName":"static","defaultCpuSet":"0-63","checksum":1058907510}'


@pytest.fixture
def state_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a state directory with a State, and no daemon."""
    monkeypatch.setenv("CPUSET_SIDECAR_STATE_DIR", str(tmp_path / "state"))
    with CheckpointFile(tmp_path / "state") as checkpoint:
        checkpoint.save(BOOKS)
    return tmp_path / "state"


def books_in(directory: Path) -> State:
    with CheckpointFile(directory) as checkpoint:
        loaded = checkpoint.load().state
    assert loaded is not None
    return loaded


def left(tmp_path: Path, content: bytes) -> str:
    (tmp_path / "file").write_bytes(content)
    return str(tmp_path / "file")


@pytest.fixture
def newer(state_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> State:
    """Return books that a daemon kept beside the projections: its state directory was full."""
    projections = tmp_path / "projections"
    projections.mkdir()
    monkeypatch.setenv("CPUSET_SIDECAR_PROJECTIONS", str(projections))
    made = world(uniform(cores=8), container("web", exclusive=3)).state
    with monkeypatch.context() as patch, SparedCheckpoint(str(state_dir), str(projections / SPARE)) as checkpoint:
        break_disk(patch, state_dir)
        checkpoint.save(made)
    return made


def test_books_that_are_kept_elsewhere_are_the_newest(
    newer: State, state_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is imported goes into these as well."""
    assert main(["state", "--json"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out) == json.loads(codec.encode(newer))
    assert f"the newest state is in {tmp_path}/projections/.books: {state_dir} could not be written" in shown.err
    others = world(uniform(cores=8), container("db", exclusive=2), container("web", exclusive=3)).state
    main(["state", "--import", left(tmp_path, kubelet_state.encode(exported(others)))])
    assert {key: each.cpus for key, each in books_in(state_dir).assignments.items()} == {
        docker(WEB): others.assignments[docker(WEB)].cpus
    }
    assert others.assignments[docker(WEB)].cpus != newer.assignments[docker(WEB)].cpus


@pytest.mark.usefixtures("state_dir")
def test_the_books_as_a_kubelets_file(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    """Exactly its bytes: no newline, and a checksum that fits."""
    assert main(["state", "--format", "kubelet"]) == 0
    shown = capsysbinary.readouterr().out
    assert shown == kubelet_state.encode(exported(BOOKS))
    assert json.loads(shown)["entries"] == {DB: {"db": "3-4"}, WEB: {"web": "1-2"}}
    assert json.loads(shown)["defaultCpuSet"] == "0,5-7"


def test_any_checkpoint_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Ours or a kubelet's, by its content; the output formats are the same for both. No state directory is needed."""
    assert main(["state", "--file", left(tmp_path, EXAMPLE)]) == 0
    assert capsys.readouterr().out == "policy static, of a kubelet\ndefault    0-63\n"
    assert main(["state", "--file", left(tmp_path, EXAMPLE), "--format", "kubelet"]) == 0
    assert capsys.readouterr().out == EXAMPLE.decode()
    assert main(["state", "--file", left(tmp_path, EXAMPLE), "--json"]) == 0
    shown = capsys.readouterr().out
    assert codec.decode(shown.encode(), KubeletState).default == CPUSet(range(64))
    assert misfits("state", shown) == []
    ours = left(tmp_path, encode_checkpoint(BOOKS))
    assert main(["state", "--file", ours]) == 0
    assert "web      776562000000  2     1-2  1-2" in capsys.readouterr().out
    assert main(["state", "--file", ours, "--json"]) == 0
    shown = capsys.readouterr().out
    assert codec.decode(shown.encode(), State) == BOOKS
    assert misfits("state", shown) == []


def test_a_kubelets_books_are_a_table() -> None:
    """Names are foreign text."""
    held = {"pod-1": {"app\x1b[2J": CPUSet.of(2, 3), "log": CPUSet()}, "pod-2": {"app": CPUSet.of(4)}}
    state = KubeletState(policy="\x07", assignments=held, pod_assignments={"pod-3": CPUSet.of(6, 7)})
    assert kubelets(state) == [
        "policy \\x07, of a kubelet",
        "default    none",
        "",
        "POD    CONTAINER   CPUS  WHICH",
        "pod-1  app\\x1b[2J  2     2-3",
        "pod-1  log         0",
        "pod-2  app         1     4",
        "",
        "POD AS A WHOLE  CPUS  WHICH",
        "pod-3           2     6-7",
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (EXAMPLE.replace(b"0-63", b"0-62"), "file cannot be used: the checksum does not match the content"),
        (encode_checkpoint(BOOKS)[:-5], "file cannot be used: it is not a checkpoint"),
        (b"\x7fELF", "file cannot be used: it is not a kubelet's CPU manager state"),
    ],
)
def test_a_broken_file_is_refused(
    content: bytes, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 1, and the reason."""
    assert main(["state", "--file", left(tmp_path, content)]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/nowhere", "/nowhere cannot be read: "),
        ("/", "/ cannot be read: it is a directory"),
        ("/dev/zero", "/dev/zero cannot be read: it is not a regular"),
    ],
)
def test_no_file_is_told(path: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Also one that never ends."""
    assert main(["state", "--file", path]) == 1
    assert message in capsys.readouterr().err


def test_an_import_moves_what_the_books_know(
    state_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By name and by id; foreign entries are reported, and the checkpoint is written when the command is done."""
    held = {"uid-1": {"web": CPUSet.of(6, 7)}, "uid-2": {"app": CPUSet.of(5)}, DB: {"db": CPUSet.of(3, 4)}}
    file = left(tmp_path, kubelet_state.encode(KubeletState(policy="static", assignments=held)))
    assert main(["state", "--import", file]) == 0
    shown = capsys.readouterr()
    assert shown.out == "web (776562000000) holds 6-7\n"
    assert shown.err == (
        "cpuset-sidecar: not imported: container 'app' of pod 'uid-2' holds 5: no container has this name\n"
    )
    assert {grant.name: str(grant.cpus) for grant in books_in(state_dir).assignments.values()} == {
        "web": "6-7",
        "db": "3-4",
    }
    # A second time, only the impossible entries are left.
    assert main(["state", "--import", file]) == 1
    assert capsys.readouterr().out == "nothing changed\n"


def test_an_export_is_imported_back(
    state_dir: Path, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    """As a kubelet's file, or as our own."""
    swapped = exported(BOOKS)
    swapped = KubeletState(
        policy="static",
        assignments={WEB: {"web": CPUSet.of(3, 4)}, DB: {"db": CPUSet.of(1, 2)}},
        default=swapped.default,
    )
    assert main(["state", "--import", left(tmp_path, kubelet_state.encode(swapped)), "--format", "kubelet"]) == 0
    assert kubelet_state.decode(capsysbinary.readouterr().out) == swapped
    assert books_in(state_dir).assignments[docker(WEB)].cpus == CPUSet.of(3, 4)
    assert main(["state", "--import", left(tmp_path, encode_checkpoint(BOOKS)), "--json"]) == 0
    assert len(json.loads(capsysbinary.readouterr().out)["taken"]) == 2
    assert books_in(state_dir).assignments[docker(WEB)].cpus == CPUSet.of(1, 2)


def test_the_next_daemon_moves_what_was_imported() -> None:
    """Also where two containers change places: they are parked on the reserved CPUs in between."""
    swapped = {WEB: {"web": CPUSet.of(3, 4)}, DB: {"db": CPUSet.of(1, 2)}}
    books = imported(KubeletState(policy="static", assignments=swapped), BOOKS).books
    now, _ = step(begin(books, uniform(cores=8), STATIC), [EngineConnected(ENGINE, 0)])
    views = [
        container(grant.name, exclusive=2, cpuset=str(grant.cpus), effective=grant.cpus)
        for grant in BOOKS.assignments.values()
    ]
    now, first = step(now, [InventoryTaken(tuple(views), (), 1)])
    orders = list(first)
    runs = {view.key: view.effective for view in views}
    for ticket in range(2, 20):
        order = next((each for each in orders if isinstance(each, ApplyCpuset)), None)
        if order is None:
            break
        others = [cpus for key, cpus in runs.items() if key != order.container and cpus]
        assert all(order.update.cpus.isdisjoint(cpus - now.state.reserved) for cpus in others)
        runs[order.container] = order.update.cpus
        now, more = step(now, [CpusetApplied(order.container, order.number, order.update.cpus, ticket)])
        orders = [each for each in orders if each is not order] + list(more)
    assert by_id(runs) == {WEB: CPUSet.of(3, 4), DB: CPUSet.of(1, 2)}


def test_an_import_that_cannot_be_leaves_the_books(
    state_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A law would be broken; a daemon runs; there is no State, or none that can hold a grant."""
    overlapping = KubeletState(policy="static", assignments={"uid": {"web": CPUSet.of(4, 5)}})
    file = left(tmp_path, kubelet_state.encode(overlapping))
    before = (state_dir / "checkpoint.json").read_bytes()
    assert main(["state", "--import", file]) == 1
    assert "would break the recorded state: CPUs 4 are granted to " in capsys.readouterr().err
    held = os.open(state_dir / "lock", os.O_CREAT | os.O_RDWR)
    fcntl.flock(held, fcntl.LOCK_EX)
    assert main(["state", "--import", file]) == 1
    os.close(held)
    assert "another sidecar" in capsys.readouterr().err
    assert (state_dir / "checkpoint.json").read_bytes() == before
    assert main(["state", "--import", file, "--state-dir", str(tmp_path / "nowhere")]) == 1
    assert "no daemon has run with this state_dir" in capsys.readouterr().err
    assert not (tmp_path / "nowhere").exists()
    with pytest.raises(SystemExit):
        main(["state", "--import", file, "--file", file])
