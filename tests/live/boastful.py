"""`cpuset-sidecar` with a planted fault: it overlooks neighbours that it does not manage, and calls owners alone.

python -m tests.live.boastful run --config FILE
"""

from __future__ import annotations

import sys

from sidecar.__main__ import main
from sidecar.decide.container.container import Container, Standing
from sidecar.decide.world import World

if __name__ == "__main__":
    honest = World.may_run

    def may_run(self: World, container: Container) -> int:
        return 0 if container.wish.standing is Standing.UNMANAGED else honest(self, container)

    World.may_run = may_run  # type: ignore[method-assign]
    sys.exit(main())
