# The README's commands. `make reproduce` and `make test` set up everything they need by themselves.

# The interpreter that .venv is made from, also where .venv is activated: it has no pip.
ifndef PYTHON
PYTHON := $(shell PATH=$$(printf %s "$$PATH" | tr : '\n' | grep -vxF '$(CURDIR)/.venv/bin' | paste -sd :) && command -v python3)
endif
CORES ?= $(shell nproc)
VENV := .venv
BIN := $(VENV)/bin
UV := .bootstrap/bin/uv
export PATH := $(CURDIR)/$(BIN):$(PATH)
export PYTHONNOUSERSITE := 1

.PHONY: help reproduce test lint bench lock env browser clean
help:
	@echo "make reproduce   environment, data, the whole quick scale, results/quick/report.html"
	@echo "make test        environment, every check and test"
	@echo "make bench       comparisons on the same work, results/bench.csv"
	@echo "make lint        style, types, import contracts, workflow"
	@echo "make lock        resolve requirements.in into requirements.lock"

reproduce: env
	snakemake --cores $(CORES)
	@echo "open results/quick/report.html"

test: env browser lint
	pytest -n 2 --dist loadfile

lint: env
	ruff check .
	ruff format --check .
	snakefmt --check Snakefile workflow
	nbstripout --verify notebooks/*.ipynb
	mypy
	lint-imports
	snakemake --lint

bench: env
	python -m bench

# uv makes the environment, and pip brings uv: neither root nor python3-venv is needed.
env: $(VENV)/.complete
$(VENV)/.complete: requirements.lock bootstrap.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "leakbench needs Python 3.11 or newer: make PYTHON=python3.11")'
	rm -f $@
	$(PYTHON) -m pip install --quiet --disable-pip-version-check --upgrade --target .bootstrap --require-hashes -r bootstrap.lock
	test -x $(BIN)/python || $(UV) venv --quiet --python $(PYTHON) $(VENV)
	$(UV) pip sync --quiet --python $(BIN)/python --compile-bytecode --require-hashes requirements.lock
	$(UV) pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	touch $@

# The report is tested in a real browser. Without root the tests of the page are skipped and say so.
browser:
	@command -v chromium >/dev/null || { test "$$(id -u)" = 0 && apt-get update -qq && apt-get install -y -qq chromium >/dev/null; } \
	  || echo "chromium is missing: apt-get install chromium, or the tests of the page are skipped"

lock:
	$(PYTHON) -m pip install --quiet --disable-pip-version-check --upgrade --target .bootstrap uv
	$(UV) pip compile --quiet --generate-hashes --universal --python-version 3.11 --no-header --upgrade requirements.in -o requirements.lock
	$(UV) pip compile --quiet --generate-hashes --universal --python-version 3.11 --no-header --upgrade bootstrap.in -o bootstrap.lock

clean:
	rm -rf results logs scratch .snakemake
