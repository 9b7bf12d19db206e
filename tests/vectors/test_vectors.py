"""Every available answer of the kubelet is ours as well, or differs for a named reason."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.vectors.policy import NEVER_EMPTY
from tests.vectors.running import JUDGES, SHARED, judged, main
from tests.vectors.take import MORE_CORES


@pytest.mark.skipif(not SHARED.exists(), reason="needs the kubelet's recorded answers: see `python -m tests.vectors`")
def test_every_answer_is_the_kubelets_or_differs_for_a_named_reason() -> None:
    """And every kind of vector is there."""
    results = list(judged(SHARED))
    assert [
        (each.id, each.verdict.difference) for each in results if each.verdict.difference and not each.verdict.reason
    ] == []
    assert set(Counter(each.kind for each in results)) == set(JUDGES)
    assert len(results) > 1600


TOPOLOGY = {
    "name": "four",
    "counts": {"cpus": 4, "cores": 2, "sockets": 1, "numa": 1, "uncore": 1},
    "cpus": [[0, 0, 0, 0, 0], [1, 0, 0, 0, 0], [2, 2, 0, 0, 0], [3, 2, 0, 0, 0]],
}


def written(directory: Path, *vectors: object) -> Path:
    (directory / "topologies.json").write_text(json.dumps([TOPOLOGY]))
    (directory / "some.jsonl").write_text("".join(json.dumps(vector) + "\n" for vector in vectors))
    return directory


def take(id: str, expect: str, algorithm: str = "packed") -> dict[str, object]:
    return {
        "id": id,
        "kind": "take",
        "topology": "four",
        "available": "0-3",
        "num": 2,
        "algorithm": algorithm,
        "expect": {"cpus": expect},
    }


def test_a_difference_without_a_name_fails_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is printed as a line, and the counts come last."""
    assert main([str(written(tmp_path, take("right", "0-1"), take("wrong", "1-2")))]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "wrong" in lines[0]
    assert "NOT NAMED" in lines[0]
    assert lines[-1] == "1 passed, 1 failed"


def test_a_difference_with_a_name_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two cores rather than two threads of one."""
    assert main([str(written(tmp_path, take("spread", "0-1", "spread")))]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert MORE_CORES in lines[0]
    assert lines[-1] == "1 passed, 0 failed"


def test_nonsense_is_a_failure_and_hides_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Lines that are no vectors, unknown kinds and machines."""
    nonsense = [1, {"kind": "other"}, {**take("far", "0-1"), "topology": "elsewhere"}, take("right", "0-1")]
    assert main([str(written(tmp_path, *nonsense))]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "1 passed, 3 failed"


def test_a_directory_without_vectors_is_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 2
    assert "there are no vectors" in capsys.readouterr().err


def add(
    name: str, cpus: int, then: Mapping[str, object], *, admit: bool = True
) -> tuple[dict[str, object], dict[str, object]]:
    pod = {"name": name, "containers": [{"name": "c", "cpu": str(cpus)}]}
    answer = {"admit": admit, "state": then, **({} if admit else {"reason": "UnexpectedAdmissionError"})}
    return {"op": "add", "pod": pod}, answer


def policy(*steps: tuple[dict[str, object], dict[str, object]], reserved: str, default: str) -> dict[str, object]:
    return {
        "id": "policy",
        "kind": "policy",
        "topology": "four",
        "options": {"strict-cpu-reservation": "true"},
        "reserved_count": 1,
        "steps": [step for step, _ in steps],
        "expect": {
            "reserved": reserved,
            "reserved_physical": "0-1",
            "initial": {"default": default, "assignments": {}},
            "steps": [answer for _, answer in steps],
        },
    }


def test_the_shared_pool_is_kept_where_the_kubelet_empties_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Later steps are compared on the kubelet's state."""
    all_of_it = {"default": "", "assignments": {"p1": {"c": "1-3"}}}
    none_left = add("p2", 1, all_of_it, admit=False)
    assert main([str(written(tmp_path, policy(add("p1", 3, all_of_it), none_left, reserved="0", default="1-3")))]) == 0
    assert NEVER_EMPTY in capsys.readouterr().out


def test_a_wrong_state_in_a_policy_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = {"default": "2-3", "assignments": {"p1": {"c": "0"}}}
    assert main([str(written(tmp_path, policy(add("p1", 1, wrong), reserved="0", default="1-3")))]) == 1
    assert "NOT NAMED" in capsys.readouterr().out
