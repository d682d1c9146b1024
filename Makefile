# One command each, nothing to do before: `make run` measures, `make test` proves it works, `make test-all` proves all of it.
PYTHON ?= $(shell for p in python3.12 python3.11 python3.13 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
BIN := .venv/bin
ARGS ?= resnet50
PYTEST := $(BIN)/python -m pytest --durations=50 --durations-min=0.5
PARALLEL := --numprocesses auto --maxprocesses 4 --dist worksteal

.PHONY: setup run test test-rest test-slow test-all lint format bench clean

setup: .venv/ready

.venv/ready: pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "tare needs Python 3.11 or newer; set PYTHON=/path/to/it"; exit 2; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[zoo,dev]'
	@touch $@

run: setup
	$(BIN)/tare run $(ARGS)

# The tests start hundreds of processes. They may write bytecode, so that not every one of them compiles tare anew.
test test-rest test-slow: export PYTHONDONTWRITEBYTECODE =

# The quick tier: one real case of everything, at most 8 minutes on 2 cores.
test: lint
	$(PYTEST) -m 'not full and not alone' $(PARALLEL)

# The other tests: first those whose result depends on time or on every core, then what can run in parallel.
test-rest: setup
	$(PYTEST) -m alone
	$(PYTEST) -m 'full and not alone and not slow' $(PARALLEL)

# Those that take minutes each, or make an environment of another framework or version.
test-slow: setup
	$(PYTEST) -m slow $(PARALLEL)

test-all: test test-rest test-slow

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup
	$(BIN)/python -m benchmarks.harness

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis dist build
