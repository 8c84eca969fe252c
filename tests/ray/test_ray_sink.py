"""Ray's own write protocol, routed writes and joins by bucket."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
import ray.data

import lakewright as lw
import lakewright.ray as lwr
from contract.engine_suite import DAY, KINDS, MORE, ROWS, arrow, in_order, new_table, tuples
from lakewright.errors import InvalidInputError, UnsupportedError
from support.effort import some
from support.ray_rows import arrow_of
from support.spark_writes import assert_tidy

pytestmark = pytest.mark.usefixtures("ray_session")


def dataset(rows: pa.Table, step: int = 40) -> ray.data.Dataset:
    return ray.data.from_arrow([rows.slice(at, step) for at in range(0, max(1, rows.num_rows), step)])


@pytest.mark.parametrize("kind", some(["append", "append, partitions", "append, buckets", "keys", "postponed"], 1, 3))
def test_a_sink_writes_and_commits_once(tmp_path: Path, kind: str) -> None:
    table = new_table(tmp_path, kind)
    rows = ROWS[:40]
    sink = lwr.PaimonDatasink(table)
    assert pickle.loads(pickle.dumps(sink)).get_name() == sink.get_name() == "Paimon"  # noqa: S301 - made here
    dataset(arrow(rows), 10).write_datasink(sink)
    assert sink.result is not None
    assert (sink.result.snapshot_id, sink.result.rows) == (1, 40)
    dataset(arrow(MORE), 10).write_datasink(sink)  # a second write of the same sink is a second snapshot
    assert sink.result.snapshot_id == 2
    if kind == "postponed":
        table.compact()
    assert tuples(lw.read_table(table)) == KINDS[kind].expected([rows, MORE])
    assert_tidy(table)


def test_a_sink_replaces_partitions(tmp_path: Path) -> None:
    table = new_table(tmp_path, "append, partitions")
    lw.write_table(arrow(ROWS), table)
    new = [(1, DAY, 1, "new")]
    dataset(arrow(new)).write_datasink(lwr.PaimonDatasink(table, overwrite=True))
    others = [row for row in ROWS if row[1] != DAY]
    assert tuples(lw.read_table(table)) == in_order([*others, *new])
    dataset(arrow(new)).write_datasink(lwr.PaimonDatasink(table, static_partition={"day": DAY}))
    assert tuples(lw.read_table(table)) == in_order([*others, *new])
    with pytest.raises(InvalidInputError, match="nope"):
        lwr.PaimonDatasink(table, static_partition={"nope": 1})


def test_a_sink_that_fails_leaves_nothing(tmp_path: Path) -> None:
    table = new_table(tmp_path)

    def fail(rows: pa.Table) -> pa.Table:
        if rows.column("n")[0].as_py() >= 80:
            raise ValueError("the input is bad")
        return rows

    bad = dataset(arrow(ROWS), 40).map_batches(fail, batch_format="pyarrow", batch_size=None)
    with pytest.raises(Exception, match="the input is bad"):
        bad.write_datasink(lwr.PaimonDatasink(table))
    assert table.store.snapshots.latest_id() is None
    assert_tidy(table)
    with pytest.raises(UnsupportedError, match="write_table"):
        lwr.PaimonDatasink(new_table(tmp_path, "dynamic", "dynamic"))
    with pytest.raises(InvalidInputError, match="table"):
        lwr.PaimonDatasink(cast("Any", "d.t"))


def test_a_builder_routes_rows_as_it_is_asked(tmp_path: Path) -> None:
    table = new_table(tmp_path, "keys in partitions")
    writer = table.new_batch_write_builder().new_write()
    together = writer.write_ray(dataset(arrow(ROWS)), hash_fixed_precluster="map_groups")
    apart = writer.write_ray(dataset(arrow(ROWS)), hash_fixed_precluster="off")
    assert "in place" in apart.method
    assert "in place" not in together.method
    assert tuples(lw.read_table(table)) == KINDS["keys in partitions"].expected([ROWS])
    new = [(77, DAY, 1, "new")]
    writer.write_ray(dataset(arrow(new)), static_partition={"day": DAY})
    others = [row for row in KINDS["keys in partitions"].expected([ROWS]) if row[1] != DAY]
    assert tuples(lw.read_table(table)) == in_order([*others, *new])
    with pytest.raises(InvalidInputError, match="hash_fixed_precluster"):
        writer.write_ray(dataset(arrow(new)), hash_fixed_precluster="sideways")


def test_tables_are_joined_bucket_by_bucket(tmp_path: Path) -> None:
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d")
    for name, columns, keys, buckets in (
        ("l", {"id": pa.int64(), "a": pa.list_(pa.int64())}, [], "3"),
        ("r", {"id": pa.int64(), "b": pa.string()}, ["id"], "3"),
        ("more", {"id": pa.int64(), "b": pa.string()}, ["id"], "4"),
        ("narrow", {"id": pa.int32(), "b": pa.string()}, ["id"], "3"),
    ):
        options = {"bucket": buckets, "bucket-key": "id"}
        schema = lw.Schema.from_pyarrow_schema(pa.schema(columns), primary_keys=keys, options=options)
        catalog.create_table(f"d.{name}", schema)
    left, right = catalog.get_table("d.l"), catalog.get_table("d.r")
    assert arrow_of(lwr.bucket_join(left, right, "id")).column_names == ["id", "a", "b"]
    lw.write_table(pa.table({"id": [1, 2, 2, 3, None], "a": [[1], [2], [22], [3], [0]]}), left)
    lw.write_table(pa.table({"id": [2, 3, 4], "b": ["two", "old", "four"]}), right)
    lw.write_table(pa.table({"id": [3], "b": ["three"]}), right)
    joined = arrow_of(lwr.bucket_join(left, right.table_path, ["id"], right_columns=["id", "b"]))
    assert tuples(joined) == in_order([(2, [2], "two"), (2, [22], "two"), (3, [3], "three")])
    for other, on, names, message in (
        ("more", "id", None, "same number of buckets"),
        ("narrow", "id", None, "same types"),
        ("r", "b", None, "joins by the bucket key"),
        ("r", "id", ["b"], "must have the join key"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            lwr.bucket_join(left, catalog.get_table(f"d.{other}"), on, right_columns=names)
    with pytest.raises(InvalidInputError, match="both sides have the column 'b'"):
        lwr.bucket_join(right, right, "id")
    with pytest.raises(InvalidInputError, match="without partitions"):
        lwr.bucket_join(left, new_table(tmp_path / "more", "append, buckets in partitions"), "id")
