# Every target does its own set-up: Python 3.11 or newer, pip and make are all it needs.

VENV    := .venv
BIN     := $(VENV)/bin
STAMP   := $(VENV)/.installed
KERNELS := $(VENV)/.compiled
PYTEST_ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help install demo test check bench experiments clean

help: ## this list
	@echo "make TARGET, each of which first installs what it needs into $(VENV):"
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "%-14s %s\n", $$1, $$2}'

install: $(KERNELS) ## only the set-up

demo: $(KERNELS) ## train real jobs on four emulated devices under two schedulers and compare
	@$(BIN)/python examples/demo.py

test: $(STAMP) ## ruff, mypy --strict, then every test; ends with the skipped tests and why
	@$(MAKE) --no-print-directory -j 2 check $(KERNELS)
	@echo "pytest: two processes, one file each at a time; what starts processes of its own in one"
	@$(BIN)/python -m pytest -n 2 --dist loadgroup $(PYTEST_ARGS)

check: $(STAMP) ## ruff, the formatter and mypy --strict only
	@echo "ruff check" && $(BIN)/ruff check .
	@echo "ruff format --check" && $(BIN)/ruff format --check .
	@echo "mypy --strict" && $(BIN)/mypy

bench: $(KERNELS) ## every program in benchmarks/
	@scripts/run_all benchmarks $(BIN)/python

experiments: $(KERNELS) ## every program in experiments/; the long proofs
	@scripts/run_all experiments $(BIN)/python

clean: ## remove caches, builds and outputs; the environment stays
	@rm -f $(KERNELS)
	@rm -rf build dist out demo-out .pytest_cache .mypy_cache .ruff_cache .hypothesis src/*.egg-info
	@find src tests examples benchmarks experiments scripts -depth -name __pycache__ -exec rm -rf {} +

$(STAMP): pyproject.toml constraints.txt scripts/install
	@scripts/install $(VENV)
	@touch $@

# Compiled once, beside the checks: two workers that start to test would each compile them. Modules
# too: where Python may not keep their bytecode (PYTHONDONTWRITEBYTECODE), every start would make it.
$(KERNELS): $(STAMP) $(shell find src -name '*.py')
	@echo "Compiling modules and the simulator's kernels (once)"
	@$(BIN)/python -m compileall -q src
	@$(BIN)/warren simulate examples/quickstart/run.yaml --place hare >/dev/null 2>&1 || true
	@touch $@
