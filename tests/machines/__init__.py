"""Recorded machines against the reports of hwloc and lscpu: `python -m tests.machines TARBALL EXPECTED.json`."""
