# `make demo` and `make test` do all the set-up, with nothing on the machine but python3, venv, pip and make.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test setup lint bench clean

setup: .venv/.ready

.venv/.ready: pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "installing into .venv (once)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test]'
	@touch $@

demo: setup
	@$(BIN)/consolidator demo

lint: setup
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache

test: lint
	@$(BIN)/pytest

bench: setup
	@$(BIN)/python -m benchmarks

clean:
	rm -rf .venv build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
