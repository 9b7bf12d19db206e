"""How long newcomers may run on a CPU that is granted to one container: `python -m tests.bench.exposure`."""
