# `make demo`, `make quick` and `make test` need Python 3.11 or newer; the environments are made here.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PEERS := .venvs/peers

.PHONY: demo quick test nightly bench docs release clean

demo: $(VENV)/.made
	$(BIN)/python examples/demo.py

# The inner loop: the tests that need no engine, no peer and no other process.
quick: $(VENV)/.made
	$(BIN)/ruff check .
	$(BIN)/python -m pytest -n auto --hypothesis-profile=quick --ignore=tests/spark --ignore=tests/ray --ignore=tests/interop \
		-m 'not (spark or ray or peers or s3 or processes or long)'

# What continuous integration runs. Types are checked beside the tests.
test: $(VENV)/.made $(PEERS)/.made
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@mkdir -p target; $(BIN)/mypy >target/mypy.log 2>&1 & types=$$!; \
	$(BIN)/python -m pytest -n auto; tests=$$?; \
	wait $$types; types=$$?; cat target/mypy.log; test $$tests -eq 0 -a $$types -eq 0

# Larger proofs, in parts that can run alone: `make nightly PART=soak`, or `PART="spark-3.5 lowest"`; `PART=list` lists them.
nightly: $(VENV)/.made
	$(BIN)/python scripts/nightly.py $(PART)

# Speed beside other libraries: `make bench CASE=spark`; `CASE=list` lists the cases.
bench: $(VENV)/.made
	$(BIN)/python scripts/bench.py $(or $(CASE),local)

# The site, into target/site; a warning is an error. It works from a disk, without a server and without a network.
docs: $(VENV)/.made .venvs/docs/.made
	NO_MKDOCS_2_WARNING=1 .venvs/docs/bin/mkdocs build --strict
	$(BIN)/python -m pytest tests/test_site.py tests/site

# Wheel and sdist into dist/, checked and tried in an environment of their own. Uploading them is up to a person.
release: $(VENV)/.made
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/python -m twine check --strict dist/*
	$(BIN)/python -m pytest -s tests/release/test_release.py

clean:
	rm -rf $(VENV) .venvs target dist .mypy_cache .ruff_cache .hypothesis .coverage

include scripts/environments.mk
