# What a person does with this project. `make` alone says what there is.
SHELL := /bin/sh
.DEFAULT_GOAL := help
PY := .venv/bin/python
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Tests start hundreds of commands, and without bytecode on disk each compiles the program first: twice its time.
unexport PYTHONDONTWRITEBYTECODE

# One step of a recipe: its name, its command. Silent when it passes; when it fails, its output and what failed.
step = @log=$$(mktemp); if $(2) >$$log 2>&1; then printf '%-14s ok\n' '$(1)'; rm -f $$log; \
	else cat $$log; rm -f $$log; printf '\n%s failed:  %s\n' '$(1)' '$(2)'; exit 1; fi

# Further tools for .venv, from a file that names each by its digest.
HASHED = $(PY) -m pip -q install --require-hashes --only-binary=:all:

# A lane of live tests is one worker's, and lanes come first (tests/live/lanes.py).
SPREAD = $(if $(findstring no:xdist,$(ARGS)),,-n $(or $(WORKERS),2) --dist loadgroup --no-loadscope-reorder)

.PHONY: help venv check test soak vm-test image demo demo-dynamic demo-swarm demo-clean bench benefit hashes schemas sbom clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

venv:  ## make .venv: Python 3.11 or newer with everything that is needed
	@compose/host/venv.sh

check: venv  ## format, lint, types, import contracts, spelling, and the fast tests; no engine needed
	@$(MAKE) --no-print-directory --keep-going --output-sync --jobs=2 $(CHECKS)

# The longest first: two run at a time.
CHECKS := check-tests check-types check-format check-lint check-imports check-spelling
.PHONY: $(CHECKS)
check-tests: WORKERS := 3
check-tests:
	@$(PY) -m pytest -q $(SPREAD) --hypothesis-profile quick -m 'not live and not slow'
check-types:
	$(call step,types,.venv/bin/mypy)
check-format:
	$(call step,format,.venv/bin/ruff format --check .)
check-lint:
	$(call step,lint,.venv/bin/ruff check .)
check-imports:
	$(call step,imports,.venv/bin/lint-imports --no-cache)
check-spelling:
	$(call step,spelling,.venv/bin/codespell)

# Lanes wait for an engine more than they compute: the third worker plays the other tests meanwhile.
test: WORKERS := 3
# Tests that each wait until their own limit still come to a summary, well before a CI's limit ends them without one.
test: venv  ## all tests, with a real container engine: the one here, or one that is installed, started and stopped again
	@! command -v chromium >/dev/null || $(PY) -c 'import playwright' 2>/dev/null || $(HASHED) -r requirements/page.txt
	@$(PY) -m compose.host with-engine -- $(PY) -m pytest -q --session-timeout 3600 $(SPREAD) $(ARGS)

soak: venv  ## churn, random histories and scenarios for longer than `make test` plays them; no engine needed; takes a quarter of an hour
	@CPUSET_TESTS_SOAK=1 $(PY) -m pytest -q $(SPREAD) -k more_churn $(ARGS)
	@$(PY) -m tests.decide.long_run 20000
	@$(PY) -m tests.fuzz.long_run 200000
	@$(PY) -m tests.blackbox.long_run 10000 --workers 2

vm-test: venv  ## the live tests in virtual machines: Docker, Podman, cgroup v2, systemd, hotplug; takes an hour
	@$(PY) -m tests.vm $(ARGS)

image: venv  ## build the images that the files in compose/ name; BASE=IMAGE@sha256:... chooses another base
	@$(PY) -m compose.host image

demo: venv  ## see it work: an exclusive container, a plain one and a noisy neighbour, on a real engine; HOST=1: the host's services move as well
	@$(PY) -m compose.demo $(if $(HOST),--host)

demo-dynamic: venv  ## see CPUs change hands: an elastic server, a batch job, an arrival; on few CPUs partly simulated
	@$(PY) -m compose.demo --dynamic

demo-swarm: venv  ## see a swarm of three nodes on this machine: the scheduler places what fits, the sidecars pin it
	@$(PY) -m compose.demo.swarm

demo-clean: venv  ## remove the packages and cached files that the demos and `make test` brought to this host
	@$(PY) -m compose.host forget

bench: venv  ## the benchmarks
	@$(PY) -m pytest -q --benchmark-only --benchmark-disable-gc tests/bench $(ARGS)

benefit: venv  ## what changing CPUs are worth: the simulated study of docs/benefit.md, with its figures; takes some minutes
	@$(PY) -c 'import matplotlib' 2>/dev/null || $(HASHED) -r requirements/figures.txt
	@$(PY) -m tests.bench.benefit $(ARGS)

hashes: venv  ## write requirements/*.txt anew: the digests of all files of the versions in constraints.txt
	@compose/host/hashes.sh

schemas: venv  ## write sidecar/cli/schemas: the JSON Schemas of what commands print
	@$(PY) -m sidecar.cli.json_schemas

sbom: venv  ## write build/sbom.json: what the daemon consists of, in CycloneDX, with the digest of each file
	@.venv/bin/cyclonedx-py --version >/dev/null 2>&1 || $(HASHED) -r requirements/sbom.txt
	@mkdir -p build
	@PYTHONWARNINGS=ignore::UserWarning .venv/bin/cyclonedx-py requirements --pyproject pyproject.toml \
		--output-reproducible --of JSON -o build/sbom.json requirements/daemon.txt

clean:  ## remove what was made in this folder
	@rm -rf .venv build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .benchmarks
	@rm -f compose/wheels/*.whl compose/wheels/*.tar.gz compose/wheels/.made-for compose/wheels/.wanted
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
