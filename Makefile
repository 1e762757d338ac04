# Two commands set up everything: `make demo` and `make test`.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
FUZZ   ?= 15

PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check
LOCKS  := requirements/lock.txt requirements/torch.txt

.PHONY: demo test coverage fuzz lint typecheck audit bench lock release clean help

help:
	@echo "make demo       train PolyNSD and its controls on an embedded graph (about a minute)"
	@echo "make test       run the test suite"
	@echo "make coverage   the same with the coverage of branches, which must be 95 % (some ten minutes)"
	@echo "make fuzz       damaged files and killed processes, many more than in make test (about an hour)"
	@echo "make lint       ruff (style, formatting) and import-linter (which folder may import which)"
	@echo "make typecheck  mypy --strict over polynsd/ and polynsd_paper/"
	@echo "make audit      look the locked packages up in a database of known vulnerabilities"
	@echo "make bench      time the filter, a layer, a training step and a protocol on the CPU (a few minutes)"
	@echo "make lock       compute requirements/lock.txt and torch.txt anew (needs uv)"
	@echo "make release    wheel, source archive and bill of materials in dist/"

# Every package has a hash, except a build of torch that is not the registry's (SECURITY.md).
$(READY): pyproject.toml $(LOCKS)
	$(PYTHON) -m venv $(VENV)
	$(PIP) --no-deps --require-hashes --requirement requirements/lock.txt
	$(BIN)/python requirements/install_torch.py $(VENV)/torch.json
	$(PIP) --no-deps --no-build-isolation --editable .
	$(BIN)/python -m pip check
	@touch $(READY)

demo: $(READY)
	$(BIN)/polynsd demo

test: $(READY)
	$(BIN)/python -m pytest --numprocesses 2 --dist worksteal

coverage: $(READY)
	$(BIN)/python -m pytest --numprocesses 2 --dist worksteal --cov --cov-report=
	$(BIN)/coverage report

fuzz: $(READY)
	POLYNSD_FUZZ_CASES=$(FUZZ) $(BIN)/python -m pytest -m 'fuzz or kills'

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo

typecheck: $(READY)
	$(BIN)/mypy

audit: $(READY)
	$(BIN)/python requirements/audit.py

bench: $(READY)
	$(BIN)/polynsd bench kernels
	$(BIN)/polynsd bench layer --graphs chameleon
	$(BIN)/polynsd bench step --repeats 3
	$(BIN)/polynsd bench protocol

lock:
	uv pip compile --universal --python-version 3.10 --generate-hashes --no-header --no-annotate --quiet \
		--extra dev --constraint requirements/pins.txt pyproject.toml --output-file requirements/all.txt
	awk '/^[a-z]/ { file = /^(torch==|nvidia-|cuda-)/ ? "torch" : "lock" } { print > "requirements/" file ".txt" }' \
		requirements/all.txt
	rm requirements/all.txt

release: $(READY)
	rm -rf dist
	$(BIN)/hatchling build
	$(BIN)/cyclonedx-py environment --pyproject pyproject.toml --mc-type library --output-reproducible \
		--output-file dist/polynsd.cdx.json $(BIN)/python

clean:
	rm -rf dist $(VENV) .import_linter_cache .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage
