"""What tests with other implementations share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import lakewright as lw
from support.peers import PYTHON, Peers


@pytest.fixture
def catalog(tmp_path: Path) -> lw.Catalog:
    made = lw.CatalogFactory.create({"warehouse": str(tmp_path / "warehouse")})
    made.create_database("d")
    return made


@pytest.fixture(scope="session")
def peers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peers]:
    assert PYTHON.exists(), "the peers' environment is missing: run `make test`, which makes it"
    started = Peers(tmp_path_factory.mktemp("peers"))
    yield started
    started.close()
