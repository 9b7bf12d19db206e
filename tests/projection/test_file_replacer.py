"""The compiled part of the projections: found if it fits, and asked for nothing it cannot do."""

from __future__ import annotations

import hashlib
import re
import subprocess
from pathlib import Path

import pytest

from sidecar.projection import file_replacer
from sidecar.projection.file_replacer import INTERFACE, Replacement, Replacer, find_replacer


def test_without_a_library_that_fits_nothing_is_replaced(replacer_library: str | None, tmp_path: Path) -> None:
    """Each directory is written by itself then."""
    assert not find_replacer(tmp_path).is_able
    assert not find_replacer(tmp_path / "none").is_able
    (tmp_path / "replacer.broken.so").write_bytes(b"no library")
    assert not find_replacer(tmp_path).is_able
    assert Replacer(None).put(-1, -1, [Replacement("a", b"", b"", b"")]) == [False]
    if replacer_library is None:
        pytest.skip("needs a C compiler")
    source = tmp_path / "older.c"
    source.write_text("int replacer_put(void) { return 0; }\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(tmp_path / "replacer.older.so"), str(source)], check=True)
    assert not find_replacer(tmp_path).is_able
    (tmp_path / "replacer.present.so").symlink_to(replacer_library)
    assert find_replacer(tmp_path).is_able


def test_the_interface_has_a_new_number_whenever_it_changes() -> None:
    """Change the number here and in both sources together with a call."""
    source = Path(file_replacer.__file__).with_name("replacer.c").read_text()
    calls = re.findall(r"^int (replacer_\w+\(.*\)) ", source, re.MULTILINE)
    assert (INTERFACE, hashlib.sha256("\n".join(calls).encode()).hexdigest()[:8]) == (1, "04a04821")
    assert f"replacer_interface(void) {{ return {INTERFACE}; }}" in source
