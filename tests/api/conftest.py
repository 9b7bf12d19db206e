"""The API over an elastic story, for every test that asks for `rig`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.api.apirig import Elastic, Rig


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    made = Rig(tmp_path, Elastic())
    yield made
    await made.close()
