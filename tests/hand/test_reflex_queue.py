"""The compiled part, and what stands in for it."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from sidecar.hand import libc_calls, reflex_queue
from sidecar.hand.group_names import ParentKind
from sidecar.hand.libc_calls import IN_CREATE, Queue
from sidecar.hand.reflex_queue import INTERFACE, Library, ReflexQueue, find_library, open_queue
from sidecar.hand.urgency import Urgency


def test_without_a_library_the_watcher_answers(tmp_path: Path) -> None:
    """Also with one that is for another machine."""
    other = tmp_path / "reflex.so"
    other.write_bytes(b"\x7fELF of another machine")
    for library in (None, str(other)):
        with closing(open_queue(library)) as queue:
            assert queue.is_passive


def test_a_library_of_another_version_is_not_used(reflex: str | None, tmp_path: Path) -> None:
    """Nor one that cannot be read: the watcher answers."""
    assert find_library(tmp_path) == Library(None, is_there=False)
    assert find_library(tmp_path / "none") == Library(None, is_there=True)
    (tmp_path / "reflex.broken.so").write_bytes(b"no library")
    assert find_library(tmp_path) == Library(None, is_there=True)
    if reflex is None:
        pytest.skip("needs a C compiler")
    source = tmp_path / "older.c"
    source.write_text("int reflex_new(void) { return 0; }\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(tmp_path / "reflex.older.so"), str(source)], check=True)
    assert find_library(tmp_path) == Library(None, is_there=True)
    (tmp_path / "reflex.present.so").symlink_to(reflex)
    assert find_library(tmp_path) == Library(f"{tmp_path}/reflex.present.so", is_there=True)


def test_the_interface_has_a_new_number_whenever_it_changes() -> None:
    """Change the number here and in both sources together with a call."""
    source = Path(reflex_queue.__file__).with_name("reflex.c").read_text()
    calls = re.findall(r"^(?:int|long|void|struct reflex \*) ?(reflex_\w+\(.*\)) ", source, re.MULTILINE)
    assert (INTERFACE, hashlib.sha256("\n".join(calls).encode()).hexdigest()[:8]) == (4, "87c3c49f")
    assert f"reflex_interface(void) {{ return {INTERFACE}; }}" in source


def test_with_a_library_it_answers_by_itself(reflex: str | None) -> None:
    if reflex is None:
        pytest.skip("needs a C compiler")
    with closing(open_queue(reflex)) as queue:
        assert isinstance(queue, ReflexQueue)
        queue.start()
        assert isinstance(queue.urgency, Urgency)


def test_events_it_does_not_answer_are_passed_on(reflex: str | None, tmp_path: Path) -> None:
    """In order, with their names, however many there are."""
    if reflex is None:
        pytest.skip("needs a C compiler")
    with closing(open_queue(reflex)) as queue:
        watch = queue.watch(os.fsencode(tmp_path), IN_CREATE)
        names = [f"{number}{'x' * (number % 200)}".encode() for number in range(500)]
        for name in names:
            (tmp_path / name.decode()).touch()
        queue.drain()
        found = list(queue.events()) + list(queue.events())
        assert [event.name for event in found] == names
        assert {(event.watch, event.cookie) for event in found} == {(watch, 0)}


def test_what_the_kernel_does_not_give_is_an_error(monkeypatch: pytest.MonkeyPatch, reflex: str | None) -> None:
    def none_left(result: int) -> int:
        raise OSError(errno.EMFILE, "too many")

    monkeypatch.setattr(libc_calls, "_checked", none_left)
    for library in (None, reflex):
        with pytest.raises(OSError, match="too many"):
            open_queue(library)


def test_a_queue_without_a_reflex_answers_nothing(tmp_path: Path) -> None:
    """What it may be told has no effect."""
    with closing(Queue()) as queue:
        queue.answer(b"0", {})
        queue.expect(1, -1, b"", b"0")
        queue.drain()
        assert list(queue.events()) == []


def test_a_name_counts_at_its_place_alone(reflex: str | None, tmp_path: Path) -> None:
    """Before the watcher has a say: what is inside must not get the CPUs of a container that is elsewhere."""
    if reflex is None:
        pytest.skip("needs a C compiler")
    there, elsewhere, anywhere, other = (digit * 64 for digit in "abcd")
    with closing(open_queue(reflex)) as queue:
        parent = os.open(tmp_path, os.O_RDONLY)
        queue.know_parent(queue.watch(os.fsencode(tmp_path), IN_CREATE), parent, ParentKind.OWN, 5)
        queue.answer(b"0", {there: (5, b"1"), elsewhere: (0, b"1"), anywhere: (-1, b"1")})
        for name in (there, elsewhere, anywhere, other):
            (tmp_path / name).mkdir()
            (tmp_path / name / "cpuset.cpus").write_text("")
        queue.drain()
        found = {name: (tmp_path / name / "cpuset.cpus").read_text() for name in (there, elsewhere, anywhere, other)}
        assert found == {there: "1\n", elsewhere: "0\n", anywhere: "1\n", other: "0\n"}
        os.close(parent)
