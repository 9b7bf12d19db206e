"""Compare with the kubelet's recorded answers: `python -m tests.vectors [DIR]`.

Every `*.jsonl` file of the directory is read, and every line of it answered again. A line is printed for each answer
that is not the kubelet's, with the reason if it is intended. The last line is `N passed, N failed`; the exit code is 1
if an answer differs without a named reason.
"""

from __future__ import annotations

import sys

from tests.vectors.running import main

if __name__ == "__main__":
    sys.exit(main())
