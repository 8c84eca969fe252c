"""Databases for the tests of SQL catalogs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lakewright.catalog.sql_database import database
from lakewright.catalog.sql_drivers import parse_address
from support.postgres import PostgresServer, running_postgres


@pytest.fixture
def sqlite(tmp_path: Path) -> dict[str, str]:
    """Return the options of a catalog in an SQLite file that does not exist yet."""
    return {"metastore": "jdbc", "uri": f"jdbc:sqlite:{tmp_path}/names.db", "warehouse": str(tmp_path / "lake")}


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    with running_postgres() as server:
        yield server


@pytest.fixture
def postgres(postgres_server: PostgresServer, tmp_path: Path) -> Iterator[dict[str, str]]:
    """Return the options of a catalog in an empty database of a PostgreSQL server."""
    with postgres_server.database() as lent:
        options = {**lent, "warehouse": str(tmp_path / "lake")}
        yield options
        database(parse_address(options)).close()


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.processes)])
def sql(request: pytest.FixtureRequest) -> dict[str, str]:
    """Return the options of a catalog in an empty database, once of each kind that can be tested here."""
    options: dict[str, str] = request.getfixturevalue(request.param)
    return options
