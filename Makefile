# Two commands on a fresh machine: `make demo` and `make test`. Both need only Python >= 3.11, make and the package index.

PYTHON ?= python3
FILE   ?=
ARGS   ?=

BIN   := .venv/bin
STAMP := .venv/.installed

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test check faults system-test system-parts mutants clean

help:
	@echo 'make demo [FILE=any.xlsx] [ARGS="--database postgresql://..."]   run the main job'
	@echo 'make test [ARGS="-k claim"]   the tests, on SQLite and PostgreSQL'
	@echo 'make check          style, types, direction of imports, sizes'
	@echo 'make faults         real-time faults and mutants, one at a time'
	@echo 'make system-test    tests with a browser and a proxy (make system-parts installs them)'

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo 'Tenure needs Python 3.11 or newer: make PYTHON=python3.11 ...' >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' \
	  || { echo "Tenure needs Python's venv module: on Debian, apt-get install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt -e '.[all,dev]'
	@touch $@

demo: $(STAMP)
	$(BIN)/tenure demo $(if $(FILE),"$(FILE)") --yes $(ARGS)

test: $(STAMP)
	$(BIN)/pytest tests --ignore=tests/faults --ignore=tests/system -n 2 --session-timeout=900 $(ARGS)

check: $(STAMP)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tests/size_report.py

faults: $(STAMP)
	$(BIN)/pytest tests/faults --session-timeout=1200 $(ARGS)
	$(MAKE) mutants

mutants: $(STAMP)
	$(BIN)/python tests/mutants.py
	$(BIN)/python tests/mutants_flow.py
	$(BIN)/python tests/mutants_worker.py

system-test: $(STAMP)
	@for part in chromium nginx; do \
	  command -v $$part >/dev/null || { echo "system-test needs $$part: make system-parts installs it" >&2; exit 1; }; done
	$(BIN)/pytest tests/system --session-timeout=900 $(ARGS)

system-parts:
	apt-get update -qq
	apt-get install -y -qq --no-install-recommends chromium nginx-light

clean:
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests examples bench -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
