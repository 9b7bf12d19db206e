"""Compare with the kubelet's recorded answers: `python -m tests.vectors [DIR]`.

Every `*.jsonl` file of the directory is read, and every line of it answered anew. A line is printed for each answer
that is not the kubelet's, with the reason where it is meant. The last line is `N passed, N failed`; the exit code is 1
where an answer differs without a named reason.
"""

from __future__ import annotations

import sys

from tests.vectors.running import main

if __name__ == "__main__":
    sys.exit(main())
