# `make reproduce` and `make test` set up everything they need. `make help` lists all targets.

# The interpreter that .venv is made from. Where an environment is active it is the one behind it: an environment may lack pip.
ifndef PYTHON
PYTHON := $(shell python3 -c 'import sys; print(sys._base_executable)')
endif
CORES ?= $(shell nproc)
VENV := .venv
BIN := $(VENV)/bin
UV := .bootstrap/bin/uv
export PATH := $(CURDIR)/$(BIN):$(PATH)
export PYTHONNOUSERSITE := 1
# Some containers forbid to keep compiled files. Each of a run's thousand processes would compile leakbench again.
unexport PYTHONDONTWRITEBYTECODE
# Snakemake keeps a cache in the home, which may be read-only.
ifneq ($(shell test -w "$(HOME)" && echo yes),yes)
export XDG_CACHE_HOME ?= $(CURDIR)/scratch/cache
endif
# `make test` installs Debian packages only where it is asked to: in CI, or by SYSTEM=yes.
export SYSTEM ?= $(if $(CI),yes)
install = { test "$(SYSTEM)" = yes && test "$$(id -u)" = 0 && apt-get update -qq && apt-get install -y -qq $(1) >/dev/null; }

.PHONY: site-tools help reproduce test nightly lint manual bench verify-recorded renew golden-lines mutants house seeds seeds-quick fuzz kills lock env site browser slurm flower release clean
help:
	@echo "make reproduce   set up the environment, run the whole quick scale, write results/quick/report.html"
	@echo "make test        set up the environment, run every check and every test (SYSTEM=yes: install what some tests need)"
	@echo "make nightly     run the tests of long campaigns that make test leaves out (half an hour)"
	@echo "make lint        check style, types, import contracts and the workflow"
	@echo "make manual      write results/manual/, generated pages of docs/, the schemas for editors and the citations"
	@echo "make site        write the site of documents, scorecard and figures to results/site (after make reproduce)"
	@echo "make bench       compare ways of doing the same work, write results/bench.csv"
	@echo "make verify-recorded   measure a cell of each recorded experiment again and hold it to the record (SCALE=standard, ONLY=\"name …\", SEED=1, EQUIVALENT=yes)"
	@echo "make renew ONLY=name   measure the cells of a record again whose numerics have changed (SCALE=standard, SEED=1)"
	@echo "make golden-lines  say which lines of recorded jobs no golden cell executes (an hour and a half)"
	@echo "make mutants     put 200 random faults into that code, and say which tests find them (two hours; COUNT=200)"
	@echo "make seeds       measure every headline finding with raised seeds and record it (SCALE=standard, SEEDS=\"1 2\")"
	@echo "make seeds-quick  run the quick scale with seeds 0, 1 and 2, and say which verdicts differ (an hour)"
	@echo "make fuzz        feed 100,000 damaged files to the readers (some 20 minutes)"
	@echo "make kills       kill a second whole run twenty times and compare its bytes with this one (half an hour and more)"
	@echo "make release     pack the records, the citation and the report of a finished run for a DOI service: leakbench-records.zip"
	@echo "make house       print how large the code is, beside what it is to reach"
	@echo "make lock        resolve requirements.in into requirements.lock"
	@echo "make clean       remove results, logs and scratch files"

reproduce: env
	snakemake --cores $(CORES)
	@echo "open results/quick/report.html"

# Many tests wait for other processes, so that three workers keep two cores busy. One of the tests is `make lint`.
# A worker that crashes ends the run, which names its test. Replaced, it may leave xdist waiting for ever.
TESTS := pytest -n 3 --dist loadfile --no-loadscope-reorder --max-worker-restart 0
test: env browser slurm flower site-tools
	$(TESTS)

# A short test of each of these campaigns is among those of `make test`.
nightly: env browser slurm flower site-tools
	$(TESTS) -m nightly

lint: env
	ruff check .
	ruff format --check .
	snakefmt --check Snakefile workflow
	nbstripout --verify notebooks/*.ipynb
	mypy
	lint-imports
	snakemake --lint

manual: env
	python -m leakbench manual

# The figures are those of a finished run. A page is checked before the site is built, and its anchors while it is.
site: env .site/.complete
	python -m leakbench site --scale $(or $(SITE_SCALE),quick)
	NO_MKDOCS_2_WARNING=1 .site/bin/mkdocs build --strict --config-file scratch/site/mkdocs.yml
# The test of the site builds it.
site-tools: env
	@$(MAKE) --no-print-directory .site/.complete || echo "the environment of the site could not be made, so its test is skipped (make site)"
.site/.complete: site/requirements.lock $(VENV)/.complete
	rm -f $@
	test -x .site/bin/python || $(UV) venv --quiet --python $(PYTHON) .site
	$(UV) pip sync --quiet --python .site/bin/python --compile-bytecode --require-hashes $<
	touch $@

bench: env
	python -m bench

SCALE ?= standard
verify-recorded: env
	recheck="python -m leakbench recheck --scale $(SCALE)$(addprefix -seed,$(SEED)) $(addprefix --only ,$(ONLY)) $(if $(EQUIVALENT),--equivalent)" && \
	targets=$$($$recheck --targets) && \
	{ test -z "$$targets" || { set -- $$targets && only=$$1 && shift && \
	  snakemake --cores $(CORES) --config scale=$(SCALE) $(addprefix seed=,$(SEED)) $$only -- "$$@"; }; } && \
	$$recheck

renew: env
	renew="python -m leakbench renew $(ONLY) --scale $(SCALE) $(addprefix --seed ,$(SEED))" && \
	targets=$$($$renew --targets) && set -- $$targets && only=$$1 && shift && \
	snakemake --cores $(CORES) --config scale=$(SCALE) $(addprefix seed=,$(SEED)) $$only -- "$$@" && $$renew

release: env
	python -m leakbench archive --out leakbench-records.zip

house: env
	python tests/house.py

golden-lines: env
	OMP_NUM_THREADS=1 python tests/golden/lines.py

COUNT ?= 200
mutants: env
	OMP_NUM_THREADS=1 python tests/golden/mutants.py --count $(COUNT)

# `python -m leakbench plan --scale standard --headlines` says what one seed costs. A killed run goes on where it stopped.
SEEDS ?= 1 2
seeds: env
	for seed in $(SEEDS); do \
	  targets=$$(python -m leakbench record --headlines --targets --scale $(SCALE) --seed $$seed) || exit; \
	  test -n "$$targets" || continue; \
	  only=$$(basename -s .csv -a $$targets | paste -sd, -) && \
	  snakemake --cores $(CORES) --config scale=$(SCALE) seed=$$seed only=$$only -- $$targets || exit; \
	  python -m leakbench record --headlines --scale $(SCALE) --seed $$seed || exit; \
	done

seeds-quick: env
	snakemake --cores $(CORES)
	for seed in 1 2; do snakemake --cores $(CORES) --config seed=$$seed || exit; done
	python -m leakbench compare results/quick/scorecard.csv results/quick-seed[12]/scorecard.csv --out results/seeds.csv

# Coverage-guided, as many inputs as FUZZ says: about a hundred a second.
FUZZ ?= 100000
fuzz: env
	$(UV) pip install --quiet --python $(BIN)/python --require-hashes -r tests/fuzz/requirements.lock
	cd tests/fuzz && OMP_NUM_THREADS=1 python nightly.py $(FUZZ)

# In a clone with an environment of its own, whose bytes are compared with those of this finished checkout.
KILLS ?= 20
# Seconds between two of them, on average; the run must not be over before the last.
EVERY ?= 40
# Seconds in which a killed run must end; a busy machine needs more.
GRACE ?= 10
kills: env
	test -f results/quick/report.html || { echo "there is no finished run to compare with (run make reproduce first)"; exit 2; }
	rm -rf scratch/kills
	git clone --quiet . scratch/kills
	$(MAKE) -C scratch/kills env PYTHON=$(PYTHON)
	here="$$PWD" && cd scratch/kills && .venv/bin/python tests/kills.py "$$here" --kills $(KILLS) --every $(EVERY) --grace $(GRACE)

# Packages that `make env` leaves out. GPU=no: those that torch loads on a GPU alone. TORCH_INDEX, a package index of your
# own with torch and torchvision built for the CPU: everything of CUDA, and these two come from there.
GPU ?= yes
CUDA := torch|torchvision|triton|nvidia-[a-z0-9-]+|cuda-[a-z]+
LEFT_OUT := $(if $(TORCH_INDEX),$(CUDA),$(if $(filter no,$(GPU)),triton|nvidia-cusolver|nvidia-nvjitlink|nvidia-nvtx))
export TORCH_INDEX
# uv makes the environment, and pip brings uv: neither root nor python3-venv is needed.
env: $(VENV)/.complete
$(VENV)/.complete: requirements.lock bootstrap.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "leakbench needs Python 3.11 or newer: make PYTHON=python3.11")'
	$(PYTHON) -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec("pip") is None and sys.executable + " has no pip (apt-get install python3-pip, or make PYTHON=<one with pip>)")'
	rm -f $@
	$(PYTHON) -m pip install --quiet --disable-pip-version-check --upgrade --target .bootstrap --require-hashes -r bootstrap.lock
	test -x $(BIN)/python || $(UV) venv --quiet --python $(PYTHON) $(VENV)
	awk -v names='^($(LEFT_OUT))==' '/^[^ #]/ { out = $$1 ~ names } !out' requirements.lock > .bootstrap/requirements.txt
	$(UV) pip sync --quiet --python $(BIN)/python --compile-bytecode --require-hashes .bootstrap/requirements.txt
	test -z "$$TORCH_INDEX" || $(UV) pip install --quiet --python $(BIN)/python --compile-bytecode --no-deps \
	  --index "$$TORCH_INDEX" $$(grep -oE '^torch(vision)?==[0-9.]+' requirements.lock)
	$(UV) pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	touch $@

# The report is tested in a real browser.
browser:
	@command -v chromium >/dev/null || $(call install,chromium) \
	  || echo "chromium is missing, so the tests of the report page are skipped (as root: make test SYSTEM=yes installs it)"

# profiles/slurm is tested on a real Slurm of one node, whose configuration lies in /etc/slurm while that test runs.
slurm:
	@test "$(SYSTEM)" = yes || { echo "Slurm's test writes to /etc/slurm and is skipped (as root: make test SYSTEM=yes runs it)"; exit 0; }; \
	  { command -v sbatch >/dev/null && test -x /usr/sbin/munged; } || $(call install,slurm-wlm munge) \
	  || echo "Slurm is missing, so its test is skipped (apt-get install slurm-wlm munge)"

# The test of a Flower app's capture runs that app; flwr wants an environment of its own, which looks for torch and
# leakbench here.
flower: env
	@$(MAKE) --no-print-directory .flower/.complete || echo "the environment of flwr could not be made, so its test is skipped (make flower)"
.flower/.complete: tests/flower/requirements.lock $(VENV)/.complete
	rm -f $@
	test -x .flower/bin/python || $(UV) venv --quiet --python $(PYTHON) .flower
	$(UV) pip sync --quiet --python .flower/bin/python --compile-bytecode --require-hashes $<
	for folder in "$$PWD"/$(VENV)/lib/python3*/site-packages "$$PWD/src"; do echo "$$folder"; done > $$(echo .flower/lib/python3*/site-packages)/beside.pth
	touch $@

lock:
	$(PYTHON) -m pip install --quiet --disable-pip-version-check --upgrade --target .bootstrap uv
	$(UV) pip compile --quiet --generate-hashes --universal --python-version 3.11 --no-header --upgrade pyproject.toml requirements.in --extra pipeline -o requirements.lock
	$(UV) pip compile --quiet --generate-hashes --universal --python-version 3.11 --no-header --upgrade bootstrap.in -o bootstrap.lock
	$(UV) pip compile --quiet --generate-hashes --universal --python-version 3.11 --no-header --upgrade tests/flower/requirements.in -o tests/flower/requirements.lock
	$(UV) pip compile --quiet --generate-hashes --universal --python-version 3.11 --no-header --upgrade --group site -o site/requirements.lock
	$(UV) pip compile --quiet --generate-hashes --universal --python-version 3.11 --no-header --upgrade tests/fuzz/requirements.in -o tests/fuzz/requirements.lock

clean:
	rm -rf results logs scratch .snakemake
