"""Merge and upsert of frames into append tables: what embedded verbs make of the same rows, in one snapshot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

import lakewright as lw
import lakewright.spark as lws
from lakewright.table import FileStoreTable
from lakewright.update.merge import MergeClauses
from lakewright.update.result import UpdateResult

VECTORS = {"deletion-vectors.enabled": "true"}
TRACKED = {"row-tracking.enabled": "true"}
EVOLUTION = {**TRACKED, "data-evolution.enabled": "true"}
COLUMNS = pa.schema({"id": pa.int64(), "p": pa.string(), "n": pa.float64(), "x": pa.string()})
CHANGES = pa.table(
    {
        "id": [2, 3, 11, 25, 26, 40, 41, None],
        "p": ["a", "b", "b", "b", "a", "a", "b", "a"],
        "n": [1.5, 2.5, None, 4.5, 5.5, 6.5, 7.5, 8.5],
    }
)


def _table(
    path: Path, options: Mapping[str, str] | None = None, partitioned: Sequence[str] = (), files: int = 3
) -> FileStoreTable:
    """Make a table with ten rows in each file; where there are vectors, two rows are deleted."""
    catalog = lw.CatalogFactory.create({"warehouse": str(path)})
    catalog.create_database("d", ignore_if_exists=True)
    schema = lw.Schema.from_pyarrow_schema(COLUMNS, partition_keys=list(partitioned), options=dict(options or {}))
    catalog.create_table("d.t", schema)
    table = catalog.get_table("d.t")
    for first in range(0, files * 10, 10):
        ids = range(first, first + 10)
        columns = [list(ids), ["ab"[i % 2] for i in ids], [float(i) for i in ids], [f"x{i}" for i in ids]]
        lw.write_table(pa.table(columns, schema=COLUMNS), table)
    if "deletion-vectors.enabled" in (options or {}):
        table.delete("id IN (3, 14)")
    return table


def _rows(table: FileStoreTable, *more: str) -> list[dict[str, object]]:
    rows = lw.read_table(table, columns=[*COLUMNS.names, *more])
    found: list[dict[str, object]] = rows.sort_by([("id", "ascending"), ("n", "ascending")]).to_pylist()
    return found


def _said(builder: MergeClauses) -> MergeClauses:
    """Say a merge with a clause of every kind."""
    new = {name: lw.source_col(name) for name in ("id", "p", "n")}
    return (
        builder.when_matched_delete(condition="s.n IS NULL")
        .when_matched_update({"n": pc.field("t.n") + pc.field("s.n")}, condition="t.id <> 26")
        .when_not_matched_insert(new, condition="s.n < 8")
    )


def _counts(result: UpdateResult) -> tuple[int, int, int]:
    return result.deleted, result.updated, result.inserted


TABLES = {
    "plain": ({}, ()),
    "vectors": (VECTORS, ()),
    "fixed buckets": ({"bucket": "2", "bucket-key": "id"}, ()),
    "data evolution": ({**EVOLUTION, **VECTORS}, ()),
    "partitioned orc": ({"file.format": "orc"}, ("p",)),
}


@pytest.mark.parametrize("kind", TABLES)
def test_a_merge_is_what_it_is_embedded(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    options, partitioned = TABLES[kind]
    one, other = (_table(tmp_path / name, options, partitioned) for name in ("embedded", "spark"))
    embedded = _said(one.merge(CHANGES, on="id")).execute()
    result = _said(lws.merge(spark.createDataFrame(CHANGES), other, "id")).execute()
    assert _rows(other) == _rows(one)
    assert _counts(result) == _counts(embedded)
    assert result.way == embedded.way
    assert result.snapshot_id == embedded.snapshot_id  # one commit
