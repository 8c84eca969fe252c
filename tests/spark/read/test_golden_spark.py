"""Tables that Java wrote read through Spark as Java reads them: a sample of every kind, and at night all."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, TypeAlias

import pyarrow as pa
import pytest
from pyspark.errors import PythonException
from pyspark.sql import SparkSession

import lakewright as lw
from lakewright.errors import UnsupportedError
from lakewright.spark.frame_operations import to_arrow
from lakewright.spark.frame_read import read_table
from support.effort import is_thin
from support.golden import SAMPLE, WAREHOUSE, expected, expected_rows, in_order, normalised, sampled, spelled

# PySpark's own `toArrow` fails on a VARIANT that is null; tests/spark/rows/test_spark_variants.py reads such columns.
TABLES = sorted(expected().keys() - {"types.variant"})
READ = [name for name in SAMPLE if name in TABLES] if is_thin() else TABLES
EVOLVED = ("evolve.add_drop_rename_parquet", "evolve.types_parquet", "dv.pk_bitmap32", "pk.dedup_levels")
STATES = [
    *((name, "tag", tag, rows) for name in TABLES for tag, rows in expected()[name].get("tags", {}).items()),
    *((name, "snapshot_id", s["id"], s["rows"]) for name in EVOLVED for s in expected()[name]["snapshots"][:2]),
]
PER_PUSH = {("meta.tags", "first"), ("evolve.types_parquet", 1), ("dv.pk_bitmap32", 1)}
_NANOS = re.compile(r"(T\d\d:\d\d:\d\d\.\d{6})\d{3}")

Reads: TypeAlias = dict[str, "Future[pa.Table]"]


@pytest.fixture(scope="module")
def catalog() -> lw.Catalog:
    return lw.CatalogFactory.create({"warehouse": str(WAREHOUSE)})


@pytest.fixture(scope="module")
def reads(spark: SparkSession, catalog: lw.Catalog) -> Iterator[Reads]:
    """Read all tables concurrently: most of the time of a small job is spent in the driver."""

    def read(name: str) -> pa.Table:
        return to_arrow(read_table(spark, catalog.get_table(name)))

    with ThreadPoolExecutor(4) as pool:
        yield {name: pool.submit(read, name) for name in READ}


def _assert_same(rows: Callable[[], pa.Table], table: lw.FileStoreTable, name: str, numbers: list[int]) -> None:
    spec = expected()[name]
    fields = table.new_read_builder().read_type()
    try:
        got = rows()
    except (UnsupportedError, PythonException) as error:
        if not spec.get("mayRefuse") or "UnsupportedError" not in f"{type(error).__name__}{error}":
            raise
        return
    unordered = [n for n, field in enumerate(fields) if field.name in spec.get("unorderedArrays", ())]
    want = in_order(normalised(expected_rows(spec, numbers), fields), unordered)
    # Spark counts microseconds; what is finer is cut.
    assert in_order(spelled(_times_in_millis(got), fields), unordered) == sorted(
        _NANOS.sub(r"\g<1>000", w) for w in want
    )


def _times_in_millis(rows: pa.Table) -> pa.Table:
    """Return rows with times as the format has them; Spark's Arrow has nanoseconds."""
    target = [pa.field(f.name, pa.time32("ms")) if pa.types.is_time(f.type) else f for f in rows.schema]
    return rows.cast(pa.schema(target))


@pytest.mark.parametrize("name", sampled(TABLES))
def test_the_newest_snapshot(catalog: lw.Catalog, reads: Reads, name: str) -> None:
    _assert_same(reads[name].result, catalog.get_table(name), name, expected()[name]["rows"])


@pytest.mark.parametrize(
    ("name", "key", "state", "numbers"),
    [pytest.param(*one, marks=[] if (one[0], one[2]) in PER_PUSH else [pytest.mark.nightly]) for one in STATES],
    ids=lambda value: "" if isinstance(value, list) else str(value),
)
def test_other_snapshots(
    spark: SparkSession, catalog: lw.Catalog, name: str, key: str, state: str | int, numbers: list[int]
) -> None:
    options = {"tag": "scan.tag-name", "snapshot_id": "scan.snapshot-id"}
    then = catalog.get_table(name).copy({options[key]: str(state)})
    travel: dict[str, Any] = {key: state}
    rows = partial(read_table, spark, catalog.get_table(name), **travel)
    _assert_same(lambda: to_arrow(rows()), then, name, numbers)


@pytest.mark.parametrize("name", [n for n in TABLES if expected()[n].get("branches")])
def test_branches(spark: SparkSession, catalog: lw.Catalog, name: str) -> None:
    for branch, numbers in expected()[name]["branches"].items():
        table = catalog.get_table(f"{name}$branch_{branch}")
        _assert_same(partial(to_arrow, read_table(spark, table)), table, name, numbers)
