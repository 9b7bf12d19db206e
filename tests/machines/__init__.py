"""Recorded machines against what hwloc and lscpu say of them: `python -m tests.machines TARBALL EXPECTED.json`."""
