# Everything a newcomer needs: `make run` shows it working, `make test` proves it.
# `make` alone lists the targets. A missing Python is named, never downloaded.

BIN = .venv/bin
# Tests run side by side, as many as suit them; `make test JOBS=1` keeps them in one process.
JOBS = 0
# `make test ARGS="-k redirect"` hands arguments to pytest.
ARGS =

.PHONY: help run test coverage check lint fmt types contracts bench clients tools fuzz soak mutants \
  cluster cluster-test cluster-down lock schema docs pictures setup clean

help: ## list these targets
	@awk -F ' *## *' '/^[a-z-]+:.*##/ { sub(/:.*/, "", $$1); printf "  make %-12s %s\n", $$1, $$2 }' Makefile

run: setup ## see it work: a client that holds nothing, an API that wants a token, Egress between them
	@sh scripts/demo

test: setup ## run every test of the gate that this machine can run; says what it had to leave out
	@$(BIN)/python -m scripts.gate --jobs $(JOBS) $(ARGS)

coverage: setup ## measure branches by package; fails under the floors in pyproject.toml
	@nice -n 19 $(BIN)/python -m scripts.coverage_floors $(ARGS)

check: lint types contracts test ## all that must pass before a change goes in

lint: setup ## look for mistakes and stray formatting
	@$(BIN)/ruff check --output-format=concise .
	@$(BIN)/ruff format --check .

fmt: setup ## format, and fix what can be fixed safely
	@$(BIN)/ruff check --fix-only --quiet .
	@$(BIN)/ruff format .

types: setup ## check types
	@$(BIN)/mypy

contracts: setup ## check who imports whom
	@$(BIN)/lint-imports --no-logo

bench: setup ## measure; prints numbers, judges nothing
	@$(BIN)/python -m bench

clients: setup ## run every client there is a test for, and write what works to docs/clients.md
	@$(BIN)/python -m scripts.clients $(CLIENTS) && $(BIN)/python -m scripts.docs

tools: setup ## run every tool there is a test for in a sandbox, and write what works to docs/works-with.md
	@$(BIN)/python -m scripts.works_with $(TOOLS) && $(BIN)/python -m scripts.docs

fuzz: setup ## send it what nobody should: what was found once, then 50 000 exchanges, or what ARGS say
	@$(BIN)/python -m tests.fuzz $(ARGS)

soak: setup ## run mixed traffic for half an hour, and judge memory and the log
	@$(BIN)/python -m tests.soak $(ARGS)

mutants: setup ## plant small faults where verdicts are made, and name those no test notices (hours)
	@nice -n 19 $(BIN)/mutmut run --max-children 1 $(ARGS)
	@$(BIN)/mutmut results

cluster: setup ## start a Kubernetes cluster of one node for trials, as root; the first time it is built
	@$(BIN)/python -m scripts.cluster up

cluster-test: cluster ## run the trials on it; it goes on afterwards
	@EGRESS_TEST_TIER=nightly $(BIN)/python -m pytest -n 0 -p no:randomly tests/cluster/trials $(ARGS)

cluster-down: ## end the cluster and remove what it wrote; what was built stays
	@$(BIN)/python -m scripts.cluster down

lock: ## bring both lock files in line with pyproject.toml (needs uv)
	@sh scripts/lock

schema: setup ## write config/hosts.schema.json, which editors complete rule files from
	@$(BIN)/egress schema >.venv/schema.json
	@mv .venv/schema.json config/hosts.schema.json

docs: setup ## write the generated parts of docs/, and container/kubernetes.yaml from the chart
	@$(BIN)/python -m scripts.manifest
	@$(BIN)/python -m scripts.docs

pictures: setup ## make the pictures of docs/ anew, with Chromium (ARGS="--look FOLDER": every page, to look at)
	@$(BIN)/python -m scripts.pictures $(ARGS)

setup: ## make .venv what the lock says (the other targets do this themselves)
	@sh scripts/setup

clean: ## remove everything that was made here, .venv too
	@rm -rf .venv .cache mutants .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache .coverage* build dist
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
