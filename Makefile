# Every target does its own set-up: Python 3.11 or newer, pip and make are all it needs.

VENV    := .venv
BIN     := $(VENV)/bin
STAMP   := $(VENV)/.installed
KERNELS := $(VENV)/.compiled
PLANNED := $(VENV)/.planned
LOADED  := $(VENV)/.loaded
SITE    := $(VENV)/.site
LINKED  := $(VENV)/.linked
GROUPED := $(VENV)/.grouped
QUICK   := examples/quickstart/run.yaml
FEW     := workload=[{name: a, model: resnet50, rounds: 20}, {name: b, model: vgg19, rounds: 20}]
KEEP    := env -u PYTHONDONTWRITEBYTECODE
PYTEST_ARGS ?=
QUICKLY := -m "not live and not slow" --ignore=tests/cli --ignore=tests/experiments \
  --ignore=tests/live --ignore=tests/live_training

.DEFAULT_GOAL := help
.PHONY: help install demo test quick deep check docs wheel release bench experiments clean

help: ## this list
	@echo "make TARGET, each of which first installs what it needs into $(VENV):"
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "%-14s %s\n", $$1, $$2}'

install: $(KERNELS) ## only the set-up

demo: $(KERNELS) ## train real jobs on four emulated devices under two schedulers and compare
	@$(KEEP) $(BIN)/python examples/demo.py

# In this order both processors are at work to the end: the longest of what is compiled is second.
test: $(STAMP) ## ruff, mypy --strict, then every test; ends with the skipped tests and why
	@$(MAKE) --no-print-directory -j 2 check $(KERNELS) $(LINKED) $(LOADED) $(PLANNED) $(GROUPED)
	@echo "pytest: three processes; what looks at the whole machine in one of them"
	@$(BIN)/python -m pytest -n 3 --dist loadscope $(PYTEST_ARGS)

quick: $(KERNELS) ## what finds most mistakes in a few minutes: ruff, short tests of the rooms, no process
	@$(BIN)/ruff check .
	@HYPOTHESIS_PROFILE=quick $(BIN)/python -m pytest -n 2 --dist loadscope $(QUICKLY) $(PYTEST_ARGS)

deep: $(KERNELS) ## each property with 2,000 drawn examples, of which `make test` draws 60; hours
	@HYPOTHESIS_PROFILE=deep $(BIN)/python -m pytest -n 2 --dist loadscope -m "not live" $(PYTEST_ARGS)

check: $(STAMP) ## ruff, the formatter and mypy --strict only
	@echo "ruff check" && $(BIN)/ruff check .
	@echo "ruff format --check" && $(BIN)/ruff format --check .
	@echo "mypy --strict" && $(BIN)/mypy

docs: $(SITE) ## the site with search, in build/site; a broken link fails
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "Made build/site. To read it: $(BIN)/python -m http.server -b 127.0.0.1 -d build/site"

wheel: $(STAMP) ## build the wheel, install it into a clean environment and try it there
	@scripts/wheel_check $(BIN)/python

release: $(STAMP) ## sdist, wheel and notes in dist/ after the checks, uploaded nowhere; DRAFT=1 rehearses
	@$(MAKE) --no-print-directory check wheel
	@$(BIN)/python scripts/release.py dist $(if $(DRAFT),--draft)

bench: $(KERNELS) ## every program in benchmarks/
	@$(KEEP) scripts/run_all benchmarks $(BIN)/python

experiments: $(KERNELS) ## every program in experiments/; the long proofs
	@$(KEEP) scripts/run_all experiments $(BIN)/python

clean: ## remove caches, builds and outputs; the environment stays
	@rm -f $(KERNELS) $(PLANNED) $(LOADED) $(LINKED) $(GROUPED)
	@rm -rf build dist out demo-out .pytest_cache .mypy_cache .ruff_cache .hypothesis src/*.egg-info
	@find src tests examples benchmarks experiments scripts -depth -name __pycache__ -exec rm -rf {} +

$(STAMP): pyproject.toml constraints.txt scripts/install
	@scripts/install $(VENV)
	@touch $@

$(SITE): $(STAMP)
	@echo "Installing what makes the site"
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e '.[docs]'
	@touch $@

# Compiled once, and kept where Python may not keep bytecode by itself (PYTHONDONTWRITEBYTECODE):
# else every start would make it again. Libraries are compiled as they are loaded, not when they are
# installed: most of their modules never are.
$(KERNELS): $(STAMP) $(shell find src -name '*.py')
	@echo "Compiling modules and the simulator's kernels (once)"
	@$(KEEP) $(BIN)/python -m compileall -q src
	@$(KEEP) $(BIN)/warren --help >/dev/null
	@$(KEEP) $(BIN)/warren simulate $(QUICK) --place hare >/dev/null 2>&1 || true
	@$(KEEP) $(BIN)/warren simulate $(QUICK) --place hare --set '$(FEW)' >/dev/null 2>&1 || true
	@touch $@

# Beside the checks, what only tests need: two workers that start to test would each make it. What
# fails here will fail there, and be told.
$(PLANNED): $(KERNELS)
	@$(KEEP) $(BIN)/warren simulate $(QUICK) --place hare --set grain='4 rounds' >/dev/null 2>&1 || true
	@$(KEEP) $(BIN)/warren simulate $(QUICK) --place hare-published >/dev/null 2>&1 || true
	@touch $@

# Kernels of rings and of flows share next to nothing with the others, so they need not wait.
$(LINKED): $(STAMP) $(shell find src/warren/solve -name '*.py')
	@$(KEEP) $(BIN)/python -m pytest -qq -p no:xdist tests/policy/test_policy_contract.py \
	  tests/solve/test_solve_flows_changes.py tests/solve/test_solve_timed_flows.py \
	  -k '(every_job_ends and (braid or sjf)) or by_hand or many_changes' >/dev/null 2>&1 || true
	@touch $@

# So do those of job groups and of shapes, which take two workers' time and no command's.
$(GROUPED): $(STAMP) $(shell find src/warren/solve -name '*.py')
	@$(KEEP) $(BIN)/python -m pytest -qq -p no:xdist tests/solve/test_solve_job_groups.py \
	  tests/solve/test_solve_shapes.py tests/solve/test_solve_sjf_bco.py \
	  -k '6100 or 5000 or 300 or 1-published-True or linear_program or second_form' \
	  >/dev/null 2>&1 || true
	@touch $@

$(LOADED): $(KERNELS)
	@$(KEEP) PYTHONPATH=tests/solve $(BIN)/python tests/sim/kernel_cases.py >/dev/null 2>&1 || true
	@$(KEEP) $(BIN)/python -m pytest --collect-only -qq >/dev/null 2>&1 || true
	@$(KEEP) $(BIN)/python -c 'import matplotlib.pyplot' >/dev/null 2>&1 || true
	@touch $@
