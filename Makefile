# Everything runs in .venv, made on first use from pyproject.toml and constraints.txt.
PYTHON ?= python3
ARGS ?=
ITEM ?=
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: help run test slow fuzz chaos soak damage check hooks bench paper demo-deploy clean

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-11s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

run: $(STAMP)  ## Train: smofi run $(ARGS)
	@$(BIN)/smofi run $(ARGS)

test: $(STAMP)  ## Run the tests and the examples in docstrings: pytest $(ARGS)
	@$(BIN)/python -m pytest -q -n auto --maxprocesses 8 --dist worksteal $(ARGS)

slow: $(STAMP)  ## Run the tests that take long: pytest -m slow $(ARGS)
	@$(BIN)/python -m pytest -m slow -q -n auto --maxprocesses 8 --dist worksteal $(ARGS)

fuzz: $(STAMP)  ## Attack a server with 100,000 messages while clients train: tests/hostile/fuzz.py $(ARGS)
	@PYTHONPATH=tests $(BIN)/python -m hostile.fuzz $(ARGS)

chaos: $(STAMP)  ## Train through kills, cuts and bad lines (as root, on Linux): tests/hostile/chaos.py $(ARGS)
	@PYTHONPATH=tests $(BIN)/python -m hostile.chaos $(ARGS)

soak: $(STAMP)  ## Serve 2,000 short rounds and see that nothing grows: tests/hostile/soak.py $(ARGS)
	@PYTHONPATH=tests $(BIN)/python -m hostile.soak $(ARGS)

damage: $(STAMP)  ## Damage 200 run folders and see that nothing of it is believed: tests/hostile/damage.py $(ARGS)
	@PYTHONPATH=tests $(BIN)/python -m hostile.damage $(ARGS)

check: $(STAMP)  ## Check style, types and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy smofi $(wildcard benchmarks examples paper)
	$(BIN)/lint-imports --no-logo

hooks: $(STAMP)  ## Run make check's commands before every git commit
	@$(BIN)/pre-commit install

bench: $(STAMP)  ## Measure time and memory, write benchmarks/RESULTS.md: benchmarks/bench.py $(ARGS)
	@$(BIN)/python benchmarks/bench.py $(ARGS)

paper: $(STAMP)  ## List the paper's tables and figures, or run ITEM=NAME: python -m paper $(ITEM) $(ARGS)
	@$(BIN)/python -m paper $(ITEM) $(ARGS)

demo-deploy: $(STAMP)  ## A server and 8 clients with TLS on this machine, beside the simulation: examples/deploy_demo.py $(ARGS)
	@$(BIN)/python examples/deploy_demo.py $(ARGS)

clean:  ## Remove caches and build output; .venv and runs stay
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .coverage .coverage.* htmlcov
	find smofi tests $(wildcard benchmarks examples paper) -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamp is written last, so an installation that failed is tried again.
$(STAMP): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "smofi needs Python 3.10 or newer, and '$(PYTHON)' was not found. Name one: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit("smofi needs Python 3.10 or newer, and $(PYTHON) is %d.%d. Name another: make PYTHON=python3.12 ..." % sys.version_info[:2] if sys.version_info < (3, 10) else 0)'
	@echo "Setting up .venv with PyTorch and the other dependencies. This happens once and takes a few minutes."
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade -c constraints.txt pip
	@$(BIN)/python -m pip install --quiet --no-compile -c constraints.txt -e ".[dev]"
	@touch $@
