# `make` lists what there is. Everything lives in .venv, made by the first target that needs it and brought up
# to date when the lock files or pyproject.toml change. It needs Python 3.11 or newer and make (3.81 will do).

HOST ?= 127.0.0.1
PORT ?= 8000
# The database to serve. It is remembered in .env, where every prudent command in this folder finds it. Empty means the
# one in PRUDENT_DATABASE_URL or else in .env, and the first time data/prudent.db.
DATABASE_URL ?=
VENV ?= .venv
# The Python to use, for example PYTHON=python3.12; empty means the first one found that is new enough.
PYTHON ?=

export HOST PORT DATABASE_URL PYTHON
export PIP_DISABLE_PIP_VERSION_CHECK = 1

BIN = $(VENV)/bin
PIP_INSTALL = $(BIN)/python -m pip install --quiet
LOCKED = $(PIP_INSTALL) --require-hashes
COMPILE = $(BIN)/python -m uv pip compile --quiet --universal --python-version 3.11 --fork-strategy fewest \
	--generate-hashes --no-emit-index-url --no-emit-find-links --no-emit-package prudent-client --custom-compile-command 'make lock' $(UPGRADE)

.DEFAULT_GOAL := help
.PHONY: help run test slow pictures soak trust mutations mutate check format docs bench exploration coverage paper lock sbom clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-9s %s\n", $$1, $$2 }' Makefile
	@echo
	@echo 'Settings of make run, given as `make run PORT=9000` or in the environment:'
	@echo '  HOST=$(HOST) PORT=$(PORT) DATABASE_URL=... (remembered in .env, for the prudent commands)'

run: $(VENV)/.runtime ## Serve with a demo campaign, on http://127.0.0.1:8000
	@set -e; mkdir -p data; umask 077; touch .env; \
	url=$${DATABASE_URL:-$$PRUDENT_DATABASE_URL}; \
	if [ -z "$$url" ] && ! grep -q '^PRUDENT_DATABASE_URL=.' .env; then url=sqlite:///data/prudent.db; fi; \
	if [ -n "$$url" ] && ! grep -qxF "PRUDENT_DATABASE_URL=$$url" .env; then \
		{ grep -v '^PRUDENT_DATABASE_URL=' .env || true; echo "PRUDENT_DATABASE_URL=$$url"; } > .env.new; mv .env.new .env; \
	fi; \
	unset PRUDENT_DATABASE_URL; umask 022; \
	$(BIN)/prudent migrate; \
	exec $(BIN)/prudent serve --demo --host "$$HOST" --port "$$PORT"

PYTEST = FORKED_SERVERS=1 $(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder

test: $(VENV)/.dev ## Install everything, check the code, and run the tests (ten minutes)
	@$(MAKE) --no-print-directory check
	$(PYTEST) -m 'not slow'

slow: $(VENV)/.dev ## The tests that `make test` leaves to CI: browsers, failing machines, whole pages of the docs
	$(PYTEST) -m slow

soak: $(VENV)/.dev ## The tests of load, learning and numbers at full length, with an hour of traffic (an hour and a half)
	SOAK_SECONDS=10 SOAK_ROUNDS=1500 SOAK_SEEDS=20 SOAK_UPDATES=100000 SOAK_PROBLEMS=1000 SOAK_TINY=6000 SOAK_CENTRING=2000 \
		SOAK_SCALED=2000 \
		$(BIN)/python -m pytest -s tests/end_to_end/test_concurrency.py tests/end_to_end/test_first_campaign.py \
		tests/end_to_end/test_reward_scale.py \
		tests/core/test_adversarial.py tests/core/test_centring.py tests/core/estimators/test_exact_incremental.py \
		tests/simulator/custom_environments/test_run.py
	TRUST_SOAK_SECONDS=3600 $(BIN)/python -m pytest -s tests/trust/test_soak.py

TRUST_LENGTHS = TRUST_ROUNDS=200 TRUST_DEATHS=100 TRUST_STOPS=20 TRUST_RESTARTS=5 TRUST_DECISIONS=200 TRUST_REWARDS=5000 \
	TRUST_FAIL_POINTS=2000 TRUST_PROMOTIONS=20 TRUST_RESTORES=5 TRUST_READ_ONLY_SECONDS=10 TRUST_POOLED_SECONDS=10 \
	TRUST_LOCK_SECONDS=60 TRUST_STALLS=10 TRUST_ABORTS=1000 TRUST_EXAMPLES=6000 TRUST_STALL_SECONDS=60 \
	TRUST_MOVED_DECISIONS=10000 TRUST_ARM_ROUNDS=1500 TRUST_COMMANDS=10000 TRUST_CRASH_STATES=500 TRUST_DAMAGES=200 \
	TRUST_SOAK_SECONDS=60 TRUST_ATTACKERS=1000 TRUST_ATTACK_SECONDS=30 TRUST_HEAVY=5 TRUST_KEY_CHECKS=1000000 \
	TRUST_METRICS_SECONDS=20 TRUST_PROXY_DEATHS=100 TRUST_DEFAULTS=1000 TRUST_CORRECTIONS=1000 \
	TRUST_COMPACTIONS=60 SOAK_UPDATES=100000
TRUST_TESTS = tests/trust tests/transfer tests/api/test_fuzz.py tests/api/test_keys.py tests/api/test_access.py \
	tests/api/test_arms_come_and_go.py tests/client/test_defaults.py tests/clients/test_javascript.py \
	tests/ledger/test_amendments.py tests/ledger/test_compaction.py tests/ledger/test_compaction_courses.py \
	tests/end_to_end/test_hostile_bodies.py tests/end_to_end/test_hostile_connections.py \
	tests/end_to_end/test_reproducibility.py tests/core/test_adversarial.py \
	tests/core/numerics/test_newton.py tests/core/test_distributions.py tests/core/measures

# The promises of docs/reliability.md at full length; first what does not measure times, two at a time, then what does.
# A part of it: make trust TRUST='-k crash' (pytest's 5 says that none of the tests is in this half).
trust: $(VENV)/.dev ## Every promise of docs/reliability.md at full length, and the tables of figures (an hour)
	@failed=0; \
	$(TRUST_LENGTHS) $(BIN)/python -m pytest --no-header -q -m 'not alone' --numprocesses 2 --dist worksteal $(TRUST) \
		$(TRUST_TESTS) || [ $$? = 5 ] || failed=1; \
	$(TRUST_LENGTHS) $(BIN)/python -m pytest --no-header -q -m alone $(TRUST) $(TRUST_TESTS) || [ $$? = 5 ] || failed=1; \
	exit $$failed

pictures: $(VENV)/.dev ## Look at every page in Chromium; writes docs/pictures/dashboard-*.png and states
	DASHBOARD_PICTURES=docs/pictures $(BIN)/python -m pytest tests/dashboard/test_story.py tests/dashboard/test_states.py

mutations: $(VENV)/.dev ## Inject faults into a copy of the source; each must make a named test fail (about ten minutes)
	$(BIN)/python -m tests.mutations $(MUTATIONS)

# A part of it: make mutate MUTATE='core.confidence ledger.selection'. cosmic-ray has an environment of its own.
mutate: $(VENV)/.dev $(VENV)-mutate/.made ## Run a mutation tool over core and ledger, and print scores (many hours)
	$(BIN)/python -m tests.mutation_sweep --tool $(VENV)-mutate/bin $(MUTATE)

check: $(VENV)/.dev ## Lint, formatting, types and import contracts
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m mypy
	$(BIN)/lint-imports

format: $(VENV)/.dev ## Let ruff fix what it can
	$(BIN)/python -m ruff check --fix .
	$(BIN)/python -m ruff format .

docs: $(VENV)/.dev ## Build these pages as a site that needs no network, in site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo 'Open site/index.html in a browser, or change pages and watch: $(BIN)/python -m mkdocs serve'

coverage: $(VENV)/.dev ## How often the intervals hold; writes docs/coverage.md (about half an hour)
	$(BIN)/python -m benchmarks.coverage $(COVERAGE)
	$(BIN)/python -m benchmarks.coverage_self_scaled $(COVERAGE)

# It may be interrupted: the same command resumes it. A part of it: make exploration EXPLORATION='--only taxi --print'.
exploration: $(VENV)/.dev ## What exploring costs, 200 seeds; writes docs/exploration-benchmark.md (about two hours)
	$(BIN)/python -m benchmarks.exploration $(EXPLORATION)

# A part of it: make bench BENCH='--parts ae'. Everything: make bench BENCH=--full (about an hour). Debian's wrk, if it
# is there, makes the load; the libraries that we compare with live in an environment of their own.
bench: $(VENV)/.dev $(VENV)-rivals/.made ## Speed, compared with a no-op, a naive service and other libraries (minutes)
	$(BIN)/python -m benchmarks --rivals $(VENV)-rivals/bin/python $(BENCH)

# It may be interrupted: the same command resumes it.
# Options go to the grid: PAPER='--replications 20 --servers 1'.
paper: $(VENV)/.dev ## The paper's grid and our comparisons, 500 runs each; writes docs/results.md (one to two hours)
	$(BIN)/prudent-simulator paper --directory paper-results $(PAPER)
	$(BIN)/prudent-simulator paper --directory paper-results --rows all $(PAPER)
	$(BIN)/python -m benchmarks.runtime paper-results/runtime.json
	$(BIN)/python -m benchmarks.measures paper-results/measures
	$(BIN)/prudent-simulator report paper-results --runtime paper-results/runtime.json --measures paper-results/measures \
		--markdown docs/results.md

# Lists that agree: all versions are chosen together, for dev, and the smaller lists repeat them. The image ships
# requirements.lock; `make run` installs requirements-all.lock, with what the simulator needs.
lock: $(VENV)/.created ## Write the lock files from pyproject.toml (UPGRADE=--upgrade for the newest versions)
	$(PIP_INSTALL) uv
	$(COMPILE) pyproject.toml --all-extras --group dev --output-file requirements-dev.lock
	$(COMPILE) pyproject.toml --all-extras --constraints requirements-dev.lock --output-file requirements-all.lock
	$(COMPILE) pyproject.toml --extra postgres --constraints requirements-dev.lock --output-file requirements.lock
	$(COMPILE) --group build --constraints requirements-dev.lock --output-file requirements-build.lock

sbom: ## The components of the service as a CycloneDX document, from the lock; writes dist/prudent-sbom.json
	@mkdir -p dist
	python3 deploy/sbom.py requirements.lock > dist/prudent-sbom.json
	@echo 'dist/prudent-sbom.json'

# Without a network it stays empty, and the benchmark says so.
$(VENV)-rivals/.made: $(VENV)/.created benchmarks/rivals.txt
	@echo 'Installing the libraries that we compare with (a minute, once)'
	@$(BIN)/python -m venv --clear $(VENV)-rivals
	@$(VENV)-rivals/bin/python -m pip install --quiet -r benchmarks/rivals.txt && touch $@ || \
		echo 'They cannot be installed: the benchmark continues without them.'

$(VENV)-mutate/.made: $(VENV)/.created
	@echo 'Installing the mutation tool (a minute, once)'
	@$(BIN)/python -m venv --clear $(VENV)-mutate
	@$(VENV)-mutate/bin/python -m pip install --quiet 'cosmic-ray>=8.7,<9' && touch $@

clean: ## Remove the virtual environment, caches and builds; data/ stays
	rm -rf $(VENV) $(VENV)-rivals $(VENV)-mutate build dist site .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	rm -rf clients/javascript/node_modules clients/javascript/dist clients/javascript/built
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamps are written last, so that a set-up that broke halfway is done again.

$(VENV)/.created:
	@set -e; \
	new_enough='import sys; sys.exit(sys.version_info < (3, 11))'; \
	if ! $(BIN)/python -c "$$new_enough" 2>/dev/null || ! $(BIN)/python -m pip --version >/dev/null 2>&1; then \
		found=; \
		for candidate in $${PYTHON:-python3 python3.13 python3.12 python3.11}; do \
			if "$$candidate" -c "$$new_enough" 2>/dev/null; then found="$$candidate"; break; fi; \
		done; \
		if [ -z "$$found" ]; then \
			echo "Prudent needs Python 3.11 or newer; tried: $${PYTHON:-python3 python3.13 python3.12 python3.11}." >&2; \
			echo "Install one, or name one: make PYTHON=/path/to/python" >&2; \
			exit 1; \
		fi; \
		if ! "$$found" -c 'import ensurepip, venv' 2>/dev/null; then \
			echo "$$found cannot make virtual environments: it lacks the module venv or ensurepip." >&2; \
			echo "On Debian and Ubuntu, install the package python3-venv, then run make again." >&2; \
			exit 1; \
		fi; \
		echo "Making $(VENV) with $$("$$found" --version)"; \
		"$$found" -m venv --clear $(VENV); \
	fi; \
	touch $@

$(VENV)/.runtime: $(VENV)/.created requirements-all.lock requirements-build.lock pyproject.toml client/pyproject.toml
	@echo 'Installing what the service needs (a minute or two, once)'
	@$(LOCKED) -r requirements-all.lock -r requirements-build.lock
	@$(PIP_INSTALL) --no-deps --no-build-isolation --editable client --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.created requirements-dev.lock pyproject.toml client/pyproject.toml
	@echo 'Installing what development needs (a minute or two, once)'
	@$(LOCKED) -r requirements-dev.lock
	@$(PIP_INSTALL) --no-deps --no-build-isolation --editable client --editable .
	@touch $@
