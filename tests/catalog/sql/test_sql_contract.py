"""The contract of catalogs, on SQLite with the lock, and what touches names and commits on PostgreSQL."""

from __future__ import annotations

import pytest

import lakewright as lw
from contract.catalog_names import InDatabase
from contract.catalog_suite import CatalogContract
from lakewright.catalog.catalog import Catalog
from support.catalogs import MarkedCatalogContract


class TestSqlite(MarkedCatalogContract):
    @pytest.fixture
    def catalog(self, sqlite: dict[str, str]) -> Catalog:
        return lw.CatalogFactory.create({**sqlite, "lakewright.durable": "false", "lock.enabled": "true"})


@pytest.mark.processes
class TestPostgres:
    odd_names = CatalogContract.odd_names
    stores_properties = True

    @pytest.fixture
    def catalog(self, postgres: dict[str, str]) -> Catalog:
        return lw.CatalogFactory.create({**postgres, "lakewright.durable": "false", "lock.enabled": "true"})

    @pytest.fixture
    def db(self, catalog: Catalog) -> InDatabase:
        return InDatabase(catalog)

    test_databases = CatalogContract.test_databases_are_made_listed_and_dropped
    test_properties_of_databases = CatalogContract.test_properties_of_databases
    test_cascade = CatalogContract.test_a_database_with_tables_is_dropped_only_with_cascade
    test_tables_are_made_listed_and_dropped = CatalogContract.test_tables_are_made_listed_and_dropped
    test_odd_names_of_tables = CatalogContract.test_odd_names_of_tables
    test_rename = CatalogContract.test_rename
    test_of_many_that_make_one_table_one_wins = CatalogContract.test_of_many_that_make_one_table_one_wins
    test_changes_that_race_are_all_made = CatalogContract.test_changes_that_race_are_all_made
    test_commits_that_race_are_all_made = CatalogContract.test_commits_that_race_are_all_made
    test_a_table_in_another_process = CatalogContract.test_a_table_in_another_process
