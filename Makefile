# Each target makes its own virtual environment in .venv: Python 3.11, pip and make are enough.

PYTHON ?= python3
ARGS ?=

# The tests start hundreds of programs, and each would compile the whole package again.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
BIN := $(VENV)/bin
# Written once per installed state: the pinned tools, then the package itself.
TOOLS := $(VENV)/.tools-installed
READY := $(VENV)/.package-installed

# Most modules of the tools are never imported: Python compiles the others when it needs them.
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile

.DEFAULT_GOAL := help
.PHONY: help demo test chaos guards bench check format docs screenshots tools dist clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(READY) ## Watch jobs run, fail, come back and survive a kill -9, here and in the dashboard
	@$(BIN)/holdfast demo $(ARGS)

test: $(READY) ## Run the checks, build the docs, run every test (ARGS="-k claim" narrows the tests)
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target check docs
	@$(BIN)/python scripts/run_tests.py $(ARGS)

chaos: $(READY) ## Run the same tests at full size: many rounds, kills and rows
	@HOLDFAST_CHAOS=1 $(BIN)/python scripts/run_tests.py --timeout 1800 --verbose $(ARGS)
	@$(MAKE) --no-print-directory guards ARGS=

guards: $(READY) ## Remove each named guard from a copy of the source and demand that its tests fail (ARGS="finish-fence" tries one)
	@$(BIN)/python scripts/guards.py $(ARGS)

bench: $(READY) ## Measure Holdfast beside its peers, which it installs (ARGS="--rounds 1 --measures drain1" measures less)
	@$(BIN)/python -m benchmarks $(ARGS)

check: $(READY) ## Check style, types, import directions and sizes
	@echo "== ruff"
	@$(BIN)/ruff check --quiet
	@$(BIN)/ruff format --check --quiet || { echo "Not formatted: run 'make format'."; exit 1; }
	@echo "== mypy"
	@$(BIN)/mypy
	@echo "== import-linter"
	@$(BIN)/lint-imports --no-logo
	@echo "== sizes"
	@$(BIN)/python scripts/size_report.py src

format: $(READY) ## Format the code and apply the safe fixes
	@$(BIN)/ruff check --fix --quiet --exit-zero
	@$(BIN)/ruff format

docs: $(READY) ## Build the documentation into docs/_build/html; a warning is an error
	@echo "== docs"
	@$(BIN)/sphinx-build --quiet --fresh-env --fail-on-warning --keep-going --builder html docs docs/_build/html

screenshots: $(READY) ## Draw the pictures of the README anew, with the system's Chromium
	@$(BIN)/python scripts/screenshots.py

tools: $(READY) ## Install what some tests need from Debian: Chromium, PgBouncer, Prometheus
	@$(BIN)/python -m tests.support.debian

dist: $(READY) ## Build the wheel and the source archive into dist/
	@rm -rf dist
	@$(BIN)/python -m build --no-isolation

clean: ## Remove everything that the other targets made
	@rm -rf $(VENV) .bench build dist docs/_build .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find src tests scripts docs benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

$(TOOLS): requirements-dev.txt
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Holdfast needs Python 3.11 or newer: make PYTHON=python3.11")'
	@echo "== installing the pinned tools into $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP_INSTALL) --requirement requirements-dev.txt
	@touch $@

$(READY): $(TOOLS) pyproject.toml
	@$(PIP_INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@
