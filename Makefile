# Everything a newcomer needs: `make demo`, `make test`. The environments are made here, from the project's own files.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PEERS := .venvs/peers

.PHONY: demo test lint types unit interop-java interop-s3 soak bench clean

demo: $(VENV)/.made
	$(BIN)/python examples/demo.py

test: lint types unit

lint: $(VENV)/.made
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.made
	$(BIN)/mypy

unit: $(VENV)/.made $(PEERS)/.made
	$(BIN)/python -m pytest -n auto --dist loadgroup

interop-java: $(VENV)/.made
	$(BIN)/python -m pytest tests/interop/java --interop-java

interop-s3: $(VENV)/.made
	$(BIN)/python -m pytest tests/interop/s3 --interop-s3

soak: $(VENV)/.made
	$(BIN)/python -m pytest tests/soak --soak

bench: $(VENV)/.made $(PEERS)/.made
	$(PEERS)/bin/python -m pip install --quiet --requirement bench/requirements.txt
	$(BIN)/python bench/run.py

$(VENV)/.made: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

# The peers pin an old pyarrow, so they live apart.
$(PEERS)/.made: tests/interop/requirements-peers.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --upgrade pip
	$(PEERS)/bin/python -m pip install --quiet --requirement tests/interop/requirements-peers.txt
	touch $@

clean:
	rm -rf $(VENV) .venvs .mypy_cache .ruff_cache .hypothesis
