# Everything sets itself up: a fresh clone needs Python 3.11 or newer, git and a C compiler.
#   make demo    one spike from init to SHIP, on a bundled example (about a minute after set-up)
#   make test    lint, types, import contracts, all tests
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.ready
# Tests of one file stay on one worker: they share slow fixtures.
PYTEST := $(BIN)/python -m pytest -n 2 --dist loadfile

.PHONY: help setup demo test lint quick test-clients test-protocol test-install soak bench walkthrough screens build clean

help:
	@sed -n '2,4s/^# *//p' Makefile
	@echo '  make quick | lint | test-clients | test-protocol | test-install | soak | bench | walkthrough | screens | build | clean'

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo 'Python 3.11 or newer is needed: make PYTHON=python3.12 ...' >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || \
	  { echo 'the venv module is missing (Debian: apt-get install python3-venv)' >&2; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[review,sandbox,dev]'
	@touch $@

setup: $(STAMP)

demo: $(STAMP)
	$(BIN)/spike demo

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint
	$(PYTEST)

quick: $(STAMP)
	$(PYTEST) tests/unit

test-clients: $(STAMP)
	$(PYTEST) tests/clients -m clients

test-protocol: $(STAMP)
	$(BIN)/python -m pytest tests/conformance -m protocol

test-install: $(STAMP)
	$(BIN)/python -m pytest tests/install -m install

soak: $(STAMP)
	$(BIN)/python -m pytest tests/soak -m soak

bench: $(STAMP)
	$(BIN)/python benchmarks/run.py --write

walkthrough: $(STAMP)
	$(BIN)/python docs/make_walkthrough.py

screens: $(STAMP)
	$(BIN)/python docs/make_screens.py

build: $(STAMP)
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
