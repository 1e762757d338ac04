# Two commands set up everything: `make demo` and `make test`.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: demo test lint typecheck bench clean help

help:
	@echo "make demo       train PolyNSD and its controls on an embedded graph (about a minute)"
	@echo "make test       run the test suite with coverage"
	@echo "make lint       ruff (style, formatting) and import-linter (which folder may import which)"
	@echo "make typecheck  mypy --strict over polynsd/ and polynsd_paper/"
	@echo "make bench      time the filter, a layer, a training step and a protocol on the CPU (a few minutes)"

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $(READY)

demo: $(READY)
	$(BIN)/polynsd demo

test: $(READY)
	$(BIN)/python -m pytest --numprocesses 2 --dist worksteal --cov --cov-report=term

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo

typecheck: $(READY)
	$(BIN)/mypy

bench: $(READY)
	$(BIN)/polynsd bench kernels
	$(BIN)/polynsd bench layer --graphs chameleon
	$(BIN)/polynsd bench step --repeats 3
	$(BIN)/polynsd bench protocol

clean:
	rm -rf $(VENV) .import_linter_cache .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage
