"""What tests with other implementations share."""

from __future__ import annotations

from pathlib import Path

import pytest

import lakewright as lw


@pytest.fixture
def catalog(tmp_path: Path) -> lw.FileSystemCatalog:
    made = lw.CatalogFactory.create({"warehouse": str(tmp_path / "warehouse")})
    made.create_database("d")
    return made
