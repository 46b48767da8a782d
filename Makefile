# exactness: `make verify` checks the catalogue, `make test` checks the project.
# Both install what they need into .venv; nothing has to be prepared by hand.

VENV ?= .venv
BUILD ?= build
# Processes that pytest spreads the tests over.
JOBS ?= 2
# Options handed through: make verify VERIFY="qnorm", make test PYTEST="-k golden".
VERIFY ?=
PYTEST ?=

# The first interpreter that runs and is new enough. A name on PATH proves nothing:
# version managers leave launchers there for versions that are not installed.
PYTHON ?= $(shell for python in python3.11 python3 python3.12 python3.13; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& { echo $$python; break; }; done)

BIN := $(VENV)/bin
RUN := $(BIN)/python -m
PIP := $(RUN) pip install --quiet --disable-pip-version-check --constraint constraints.txt
INSTALLED := $(VENV)/.installed
INSTALLED_DOCS := $(VENV)/.installed-docs

.DEFAULT_GOAL := help
.PHONY: help verify test lint docs clean

help:
	@echo 'make verify   check every kernel of the catalogue on this CPU; report in $(BUILD)/report'
	@echo 'make test     ruff, mypy --strict and all tests'
	@echo 'make lint     ruff and mypy --strict alone'
	@echo 'make docs     build the documentation into $(BUILD)/docs, warnings as errors'
	@echo 'make clean    remove $(VENV), $(BUILD) and caches'

verify: $(INSTALLED)
	$(BIN)/exactness verify --device cpu --report $(BUILD)/report $(VERIFY)

test: lint
	$(RUN) pytest -n $(JOBS) --dist worksteal -rsfE $(PYTEST)

lint: $(INSTALLED)
	$(RUN) ruff check .
	$(RUN) ruff format --check --quiet .
	$(RUN) mypy

docs: $(INSTALLED_DOCS)
	$(RUN) sphinx -W --keep-going -q -b html docs $(BUILD)/docs
	@echo 'documentation: $(BUILD)/docs/index.html'

$(BIN)/python:
	@test -n '$(PYTHON)' || { \
		echo 'exactness needs Python 3.11 or newer: none on PATH; name one, make PYTHON=/path/to/python' >&2; exit 2; }
	@'$(PYTHON)' -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "exactness needs Python 3.11 or newer: PYTHON is $(PYTHON), $$('$(PYTHON)' --version 2>&1)" >&2; exit 2; }
	'$(PYTHON)' -m venv $(VENV)

# pip first: --group needs a newer one than a fresh environment holds. The build backend comes from
# constraints.txt too, hence no build isolation.
$(INSTALLED): pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) pip hatchling editables
	$(PIP) --no-build-isolation --editable '.[torch,triton,test,quality]' --group dev
	@touch $@

$(INSTALLED_DOCS): $(INSTALLED)
	$(PIP) --group docs
	@touch $@

clean:
	rm -rf $(VENV) $(BUILD) dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
