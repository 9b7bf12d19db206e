"""The ground of live tests does no harm to others: the sidecar under test leaves their containers alone."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest

from tests.live.sidecarprocess import all_but

NAMES = {
    "own-1a-web": False,
    "own-1a": False,
    "own-2b-web": True,
    "own-1": True,
    "o": True,
    "web": True,
    "an-own-1a-web": True,
}


@pytest.mark.parametrize(("name", "is_spared"), NAMES.items())
def test_only_containers_with_the_prefix_are_touched(name: str, is_spared: bool) -> None:
    """On a shared engine, every name that does not begin with the test's prefix is unmanaged."""
    assert any(fnmatchcase(name, pattern) for pattern in all_but("own-1a")) == is_spared
