"""The contract of catalogs, on every catalog that needs nothing but this machine."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

import lakewright as lw
from lakewright.catalog.base import Catalog
from lakewright.testing.catalog_names import InDatabase
from lakewright.testing.catalog_suite import CatalogContract
from support.catalogs import MarkedCatalogContract
from support.rest_server import RestServer, running_rest
from support.s3 import S3Server


class TestFiles(MarkedCatalogContract):
    stores_properties = False

    @pytest.fixture
    def catalog(self, tmp_path: Path) -> Catalog:
        return lw.CatalogFactory.create({"warehouse": str(tmp_path / "warehouse"), "lakewright.durable": "false"})


@pytest.fixture(scope="module", params=["2.0.0", "1.4.2"])
def rest_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestServer]:
    with running_rest(str(tmp_path_factory.mktemp("rest")), like=request.param) as server:
        yield server


class TestRest(MarkedCatalogContract):
    """On the stand-in for a server; `make interop-rest` runs the contract on Java's servers."""

    renames_branches = False  # servers since 2.0.0 answer that they did, and do nothing
    renames_tags = False  # there is no such call

    @pytest.fixture
    def catalog(self, rest_server: RestServer) -> Catalog:
        return lw.CatalogFactory.create(rest_server.options)


class TestObjects:
    """On an object store: what differs there is that nothing can be renamed in one step."""

    odd_names = ("x y", "50%", "ü", "a+b")

    @pytest.fixture
    def db(self, s3_server: S3Server) -> InDatabase:
        warehouse = f"s3://{s3_server.make_bucket()}/{uuid.uuid4().hex}"
        return InDatabase(lw.CatalogFactory.create({"warehouse": warehouse, **s3_server.options}))

    test_odd_names_of_tables = CatalogContract.test_odd_names_of_tables
    test_rename = CatalogContract.test_rename
    test_a_handle_of_a_dropped_table_is_refused = CatalogContract.test_a_handle_of_a_dropped_table_is_refused
    test_changes_that_race_are_all_made = CatalogContract.test_changes_that_race_are_all_made
    test_commits_that_race_are_all_made = CatalogContract.test_commits_that_race_are_all_made
    test_a_branch_at_a_tag = CatalogContract.test_a_branch_at_a_tag
    test_tags = CatalogContract.test_tags
    test_rollback = CatalogContract.test_rollback
