# Every target sets itself up: a virtual environment in .venv with the locked requirements and the checkout itself.
# Needs only make and Python 3.11 or newer; make clean, then make PYTHON=python3.12 test, changes to another one.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
LOCK := requirements/dev.txt
PYTEST := $(BIN)/python -m pytest
# Worker processes for the tests that start no Celery worker.
JOBS ?= 2

.DEFAULT_GOAL := help
.PHONY: help setup test test-long check fmt up demo bench lock clean

help:
	@echo 'make test       the tests (embedded servers, or TURNCHAIN_TEST_POSTGRES_URL / TURNCHAIN_TEST_REDIS_URL)'
	@echo 'make test-long  the tests that take minutes'
	@echo 'make check      formatting, lint, types, architecture'
	@echo 'make fmt        format, and fix what can be fixed'
	@echo 'make up         servers, workers, beat and Flower on this machine; UP holds options: make up UP="--workers 4"'
	@echo 'make demo       dialogues on real workers and servers of its own; one worker is killed inside a turn; DEMO holds options'
	@echo 'make bench      Turnchain beside plain Celery, in about ten minutes; BENCH=--quick for a look'
	@echo 'make lock       resolve $(LOCK) anew from pyproject.toml'
	@echo 'make clean      remove the virtual environment and everything generated'

setup: $(READY)

$(READY): $(LOCK) pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo "turnchain needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1)." \
	         "Name another one: make PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -qq --disable-pip-version-check --require-hashes -r $(LOCK)
	$(BIN)/python -m pip install -qq --disable-pip-version-check --no-deps --no-build-isolation --no-index -e .
	@touch $@

# Real workers are started and killed after everything else, three files at once, since most of it is waiting; pytest's 5 is
# "nothing selected". Deadlines are seconds, and a busy machine can miss one: what failed is run once more, one test at a
# time, and must pass then.
test: $(READY)
	$(PYTEST) -n $(JOBS) -m 'not long and not acceptance'
	$(PYTEST) -n 3 --dist loadfile -m 'acceptance and not long' || [ $$? -eq 5 ] || $(PYTEST) -m 'acceptance and not long' --last-failed

test-long: $(READY)
	$(PYTEST) -m long --timeout 1800

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/basedpyright
	$(BIN)/lint-imports --no-logo

fmt: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

up: $(READY)
	@$(BIN)/turnchain up $(UP)

demo: $(READY)
	@$(BIN)/turnchain demo $(DEMO)

# BENCH holds options: make bench BENCH='--quick --only staged,noop7'.
bench: $(READY)
	$(BIN)/python -m benchmarks $(BENCH)

# One file for Python 3.11 to 3.13, with hashes and without any index address. uv lives in a place of its own, so that
# a stale lock never stands in the way of a new one.
lock:
	$(PYTHON) -m venv $(VENV)-lock
	$(VENV)-lock/bin/python -m pip install -qq --disable-pip-version-check 'uv>=0.13,<0.14'
	$(VENV)-lock/bin/uv pip compile --no-config --universal --python-version 3.11 --upgrade --generate-hashes \
	    --no-header --no-emit-index-url --quiet --extra worker --extra flower --extra embedded --group dev \
	    pyproject.toml --output-file $(LOCK)
	rm -rf $(VENV)-lock

clean:
	rm -rf $(VENV) $(VENV)-lock dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
