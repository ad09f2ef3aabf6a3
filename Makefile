# `make demo` and `make test` do all the set-up, with nothing on the machine but python3, venv, pip and make.
PYTHON ?= python3
BIN := .venv/bin

MATRIX := tests/acceptance/test_kill_matrix.py tests/acceptance/test_zombies.py tests/acceptance/test_any_order.py \
	tests/acceptance/api/test_api_live.py tests/acceptance/api/test_api_schema.py \
	tests/integration/runtime/test_lineage_trees.py tests/acceptance/test_many_sessions.py \
	tests/integration/nights/test_kill.py tests/integration/nights/test_latest_digests.py \
	tests/integration/nights/test_i8_nightly_is_batch.py tests/integration/runtime/test_session_tails.py

.PHONY: demo test pytest setup lint matrix test-pythons bench docs export-session replay sbom hashes clean

setup: .venv/.ready

.venv/.ready: pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "installing into .venv (once)"
	@$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check -c constraints.txt -e '.[test]'
	@$(BIN)/python -m compileall -q -j 0 .venv/lib >/dev/null || true # on each core; a package may hold what is no Python
	@touch $@

demo: setup
	@$(BIN)/consolidator demo

lint: setup
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache

# Compiled once, or each process does so, and again at each start where bytecode is not written.
unexport PYTHONDONTWRITEBYTECODE

pytest: setup
	@$(BIN)/python -m compileall -q consolidator
	@$(BIN)/pytest

# Side by side: types are checked on one core for a minute.
test: setup
	@$(MAKE) --no-print-directory -j 2 lint pytest

# Everything that .ci/run samples, in full: a death at every boundary of the runtime and of the nights, zombies at each,
# conversations in any order, twenty sessions for minutes. It tells its size; half an hour on two cores.
matrix: setup
	@CONSOLIDATOR_TEST_FULL=1 $(BIN)/pytest -n 0 --timeout 7200 $(MATRIX)

# With Python 3.12 and 3.13, where they are on this machine: the unit tests and a sample of the others.
test-pythons:
	@.ci/test-pythons

# make export-session SESSION_ID=... [BUNDLE=session.json]
BUNDLE ?= session.json
export-session: setup
	@$(BIN)/consolidator export --bundle '$(SESSION_ID)' --output '$(BUNDLE)'

# make replay SESSION=<id or bundle> (or SESSION_ID=) [MODEL=...] [FROM_MESSAGE=4]: tools are answered from the record.
SESSION ?= $(SESSION_ID)
replay: setup
	@$(BIN)/consolidator session rerun '$(SESSION)' $(if $(MODEL),--model '$(MODEL)') $(if $(FROM_MESSAGE),--from '$(FROM_MESSAGE)')

bench: setup
	@$(BIN)/python -m benchmarks

# The documentation as a site, in build/site; it fails for a link that leads nowhere.
docs: setup
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

# What the product is made of, with PostgreSQL and pgvector, as CycloneDX JSON.
sbom: setup
	@$(BIN)/python -m release.bill_of_materials sbom.cdx.json

# After a change of constraints.txt or of the dependencies: asks the package registry for the files' hashes.
hashes: setup
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[release]'
	@$(BIN)/python -m release.hashes

clean:
	rm -rf .venv .venv-* sbom.cdx.json build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
