"""Ingests on Spark: the same cases as in one process, and what only frames can do."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import lakewright as lw
import lakewright.spark
from lakewright.spark import ingest
from lakewright.spark.spark_features import Feature, has
from support.effort import some
from support.ingest_cases import WRONG, IngestCases, Load, MessyIngestCases, check_wrong_records


@pytest.fixture
def load(spark: SparkSession) -> Load:
    return partial(ingest, spark)


class TestSparkIngest(IngestCases):
    """On Spark."""

    # A job that fails takes Spark seconds, and the code that refuses a value is the same: a few are enough here.
    @pytest.mark.parametrize(("files", "message"), some([WRONG[at] for at in (0, 1, 7, 9, 10)], 0))
    def test_wrong_records_are_errors_and_nothing_is_committed(
        self, load: Load, orders: lw.FileStoreTable, tmp_path: Path, files: dict[str, str], message: str
    ) -> None:
        check_wrong_records(load, orders, tmp_path, files, message)

    def test_sources_may_have_other_types_where_every_value_fits(
        self, spark: SparkSession, catalog: lw.Catalog
    ) -> None:
        catalog.create_table("d.n", lw.Schema([lw.DataField(0, "n", lw.AtomicType("DOUBLE"))]))
        frames = [spark.createDataFrame([(1,)], "n int"), spark.createDataFrame([(1.5,)], "n double")]
        assert ingest(spark, frames, catalog.get_table("d.n")).rows == 2
        with pytest.raises(lw.InvalidInputError, match="the sources disagree about the column 'n'"):
            ingest(spark, frames, "d.new", catalog=catalog, create=True)

    @pytest.mark.parametrize(
        ("more", "message"),
        some(
            [
                ({"primary_keys": ["nix"]}, "nix"),
                ({"types": {"nix": "INT"}}, "there is no column 'nix' to give a type"),
                ({"types": {"id": "BIGGER"}}, "BIGGER"),
                ({"mode": "upsert"}, "has no primary key"),
                ({"schema_mode": "nix"}, "schema_mode takes one of 'merge', not 'nix'"),
            ],
            *(1, 3),
        ),
    )
    def test_a_table_that_cannot_be_is_refused(
        self, spark: SparkSession, catalog: lw.Catalog, more: dict[str, object], message: str
    ) -> None:
        frame = spark.createDataFrame([(1,)], "id int")
        with pytest.raises(lw.LakewrightError, match=message):
            ingest(spark, frame, "d.new", catalog=catalog, create=True, **more)  # type: ignore[arg-type]
        assert catalog.list_tables("d") == []

    def test_a_table_that_is_not_there_is_named(self, spark: SparkSession, catalog: lw.Catalog) -> None:
        with pytest.raises(lw.NotFoundError, match=r"table d.nix does not exist .*create"):
            ingest(spark, spark.range(1), "d.nix", catalog=catalog)
        with pytest.raises(lw.InvalidInputError, match="cannot be made"):
            ingest(spark, spark.range(1), f"{catalog.warehouse}/nix", create=True)

    def test_a_table_can_be_made_by_its_path(self, spark: SparkSession, catalog: lw.Catalog) -> None:
        assert ingest(spark, spark.range(2), f"{catalog.warehouse}/e.db/t", create=True).rows == 2
        assert lw.read_table(catalog.get_table("e.t")).num_rows == 2

    def test_types_that_never_fit_are_refused_before_the_write(
        self, spark: SparkSession, orders: lw.FileStoreTable, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("lakewright.spark.spark_ingest.write_table", _never)
        with pytest.raises(lw.InvalidInputError, match="'id' is BIGINT"):
            ingest(spark, spark.createDataFrame([("x",)], "id string"), orders)
        with pytest.raises(lw.UnsupportedError, match="has no primary key"):
            ingest(spark, spark.range(1), lw.open_table(_append_table(orders)), mode="upsert")


@pytest.mark.nightly  # the code that both engines share reads the files: `tests/ingestion` has all cases at every push
class TestSparkMessyFiles(MessyIngestCases):
    """On Spark."""

    has_time = has(Feature.TIME)


def test_no_public_name_is_also_a_module() -> None:
    """`from lakewright.spark import ingest` gives the function, whatever was imported before."""
    modules = {module.name for module in pkgutil.iter_modules(lakewright.spark.__path__)}
    assert not modules & set(lakewright.spark.__all__)


def _append_table(beside: lw.FileStoreTable) -> str:
    warehouse = Path(beside.table_path).parent.parent
    catalog = lw.CatalogFactory.create({"warehouse": str(warehouse)})
    catalog.create_table("d.plain", lw.Schema([lw.DataField(0, "id", lw.AtomicType("BIGINT"))]))
    return catalog.get_table("d.plain").table_path


def _never(*_: object, **__: object) -> Callable[[], None]:
    pytest.fail("the write was started")
