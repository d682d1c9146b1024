# One command each, nothing to be done before: `make run` measures, `make test` proves, `make lint` checks.
PYTHON ?= $(shell for p in python3.12 python3.11 python3.13 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
BIN := .venv/bin
ARGS ?= resnet50

.PHONY: setup run test lint format bench clean

setup: .venv/ready

.venv/ready: pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "tare needs Python 3.11 or newer; set PYTHON=/path/to/it"; exit 2; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[zoo,dev]'
	@touch $@

run: setup
	$(BIN)/tare run $(ARGS)

# First what can run side by side, a share of the cores each, then what depends on time, alone. The tests start
# hundreds of processes: none should have to compile tare anew, as all would where bytecode is not to be written.
test: export PYTHONDONTWRITEBYTECODE =
test: lint
	$(BIN)/python -m pytest -m 'not alone' --numprocesses auto --maxprocesses 4 --dist worksteal
	$(BIN)/python -m pytest -m alone

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
