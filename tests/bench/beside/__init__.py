"""What an arrival waits for beside a hostile tenant: `python -m tests.bench.beside`."""
