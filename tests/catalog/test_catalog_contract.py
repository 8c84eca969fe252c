"""The contract of catalogs, on every catalog that needs nothing but this machine."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

import lakewright as lw
from contract.catalog_names import InDatabase
from contract.catalog_suite import CatalogContract
from lakewright.catalog.catalog import Catalog
from support.catalogs import MarkedCatalogContract
from support.rest_server import RestServer, running_rest
from support.s3 import S3Server


class TestFiles(MarkedCatalogContract):
    stores_properties = False

    @pytest.fixture
    def catalog(self, tmp_path: Path) -> Catalog:
        return lw.CatalogFactory.create({"warehouse": str(tmp_path / "warehouse"), "lakewright.durable": "false"})

    @pytest.mark.processes
    @pytest.mark.nightly  # workers of Spark and Ray write to such tables per push
    def test_a_table_in_another_process(self, db: InDatabase) -> None:
        super().test_a_table_in_another_process(db)


@pytest.fixture(scope="module")
def rest_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestServer]:
    with running_rest(str(tmp_path_factory.mktemp("rest")), like="2.0.0") as server:
        yield server


@pytest.fixture(scope="module")
def older_rest_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestServer]:
    with running_rest(str(tmp_path_factory.mktemp("rest")), like="1.4.2") as server:
        yield server


class TestRest(MarkedCatalogContract):
    """On the stand-in for a server; `make nightly PART=interop-rest` runs the contract on Java's servers."""

    renames_branches = False  # servers since 2.0.0 answer that they did, and do nothing
    renames_tags = False  # there is no such call

    @pytest.fixture
    def catalog(self, rest_server: RestServer) -> Catalog:
        return lw.CatalogFactory.create(rest_server.options)


@pytest.mark.nightly
class TestOlderRest(TestRest):
    """On the stand-in for an older server."""

    @pytest.fixture
    def catalog(self, older_rest_server: RestServer) -> Catalog:
        return lw.CatalogFactory.create(older_rest_server.options)


class TestOlderRestDifferences:
    """The calls that an older server answers differently: commits, and the listing of partitions."""

    @pytest.fixture
    def db(self, older_rest_server: RestServer) -> InDatabase:
        return InDatabase(lw.CatalogFactory.create(older_rest_server.options))

    test_commits_that_race_are_all_made = CatalogContract.test_commits_that_race_are_all_made
    test_partitions_come_in_pages = CatalogContract.test_partitions_come_in_pages


class TestObjects:
    """On an object store, where nothing can be renamed in one step: renames, commits and branches."""

    @pytest.fixture
    def db(self, s3_server: S3Server) -> InDatabase:
        warehouse = f"s3://{s3_server.make_bucket()}/{uuid.uuid4().hex}"
        return InDatabase(lw.CatalogFactory.create({"warehouse": warehouse, **s3_server.options}))

    test_rename = CatalogContract.test_rename
    test_commits_that_race_are_all_made = CatalogContract.test_commits_that_race_are_all_made
    test_a_branch_at_a_tag = CatalogContract.test_a_branch_at_a_tag


@pytest.mark.nightly
class TestMoreOnObjects:
    """On an object store: what costs many requests there and is done by the same code as on a disk."""

    odd_names = ("x y", "50%", "ü", "a+b")
    db = TestObjects.db

    test_odd_names_of_tables = CatalogContract.test_odd_names_of_tables
    test_a_handle_of_a_dropped_table_is_refused = CatalogContract.test_a_handle_of_a_dropped_table_is_refused
    test_changes_that_race_are_all_made = CatalogContract.test_changes_that_race_are_all_made
    test_tags = CatalogContract.test_tags
    test_rollback = CatalogContract.test_rollback
