"""Int64: the whole numbers of engines and runtimes, which are Go's. A larger one is a mistake."""

from __future__ import annotations

from typing import Annotated

import msgspec

Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
