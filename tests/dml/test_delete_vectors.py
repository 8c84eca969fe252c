"""Rows deleted by deletion vectors on append tables: with and without buckets, in both forms, again and again."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lakewright as lw
from lakewright.spec.snapshot import CommitKind


def _table(path: Path, rows: pa.Table, files: int = 1, **options: str) -> lw.FileStoreTable:
    catalog = lw.CatalogFactory.create({"warehouse": str(path)})
    catalog.create_database("d", ignore_if_exists=True)
    given = {"deletion-vectors.enabled": "true", **{key.replace("_", "-"): v for key, v in options.items()}}
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(rows.schema, options=given))
    table = catalog.get_table("d.t")
    step = -(-rows.num_rows // files)
    for start in range(0, rows.num_rows, step):
        lw.write_table(rows.slice(start, step), table)
    return table


def _ids(table: lw.FileStoreTable) -> list[int]:
    return sorted(lw.read_table(table)["id"].to_pylist())


ROWS = pa.table({"id": range(20), "name": [f"n{i}" for i in range(20)]})


@pytest.mark.parametrize("bitmap64", ["false", "true"])
@pytest.mark.parametrize("buckets", ["-1", "2"])
def test_a_second_delete_keeps_the_deletes_of_the_first(tmp_path: Path, buckets: str, bitmap64: str) -> None:
    keys = {} if buckets == "-1" else {"bucket-key": "id"}
    options = {"bucket": buckets, "deletion-vectors.bitmap64": bitmap64, **keys}
    table = _table(tmp_path, ROWS, 3, **options)
    first = table.delete("id IN (3, 4, 17)")
    assert (first.deleted, first.files, first.method, first.attempts) == (3, 0, "deletion vectors", 1)
    second = table.delete("id >= 4 AND id < 8")
    assert second.deleted == 3
    assert _ids(table) == [i for i in range(20) if i not in {3, 4, 5, 6, 7, 17}]
    snapshot = table.snapshot()
    assert snapshot is not None
    assert (snapshot.commit_kind, snapshot.operation, snapshot.delta_record_count) == (
        CommitKind.OVERWRITE,
        "DELETE",
        0,
    )
    assert table.delete("id = 3").snapshot_id is None
