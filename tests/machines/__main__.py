"""Compare recorded machines with hwloc's and lscpu's reports: `python -m tests.machines [TARBALL [EXPECTED.json]]`.

A line is printed for each deviation, with its reason if it has a named one. The last line is `N passed, N failed`,
counting machines; the exit code is 1 if a deviation has no named reason.
"""

from __future__ import annotations

import sys

from tests.machines.running import main

if __name__ == "__main__":
    sys.exit(main())
