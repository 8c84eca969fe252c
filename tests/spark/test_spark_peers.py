"""Tables that Spark's workers wrote are read equal by the embedded engine, by Spark and by both Python peers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lakewright as lw
from lakewright.spark import merge, read_table, write_table
from lakewright.spark.frame_operations import from_arrow, to_arrow
from lakewright.spark.spark_types import fields_of
from support.peers import PYTHON, Peers

# Files that tasks write come from the writer whose files `tests/interop` shows to the peers.
pytestmark = [pytest.mark.peers, pytest.mark.nightly]
KINDS: dict[str, tuple[list[str], list[str], dict[str, str]]] = {
    "append": ([], [], {}),
    "partitions": (["p"], [], {}),
    "buckets": ([], [], {"bucket": "3", "bucket-key": "id"}),
    "keys": ([], ["id"], {"bucket": "2"}),
    "keys_in_partitions": (["p"], ["p", "id"], {"bucket": "2"}),
    "dynamic": ([], ["id"], {"bucket": "-1"}),
    "changelog": ([], ["id"], {"bucket": "2", "changelog-producer": "input"}),
}
ROWS = """
    SELECT id, concat('p', id % 3) AS p, cast(id * 1.5 AS double) AS d, cast(id % 100 AS decimal(10, 2)) AS m,
           date_add(date'2020-01-01', cast(id % 50 AS int)) AS dt, cast(id AS string) AS s,
           timestamp_ntz'2020-01-01 00:00:00' + make_dt_interval(0, 0, 0, id) AS ts,
           cast(concat('b', id) AS binary) AS b, id % 2 = 0 AS f
    FROM range(0, 200, 1, 4)
"""


@pytest.fixture(scope="module")
def peers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peers]:
    """Start the process of the peers."""
    if not PYTHON.exists():
        pytest.skip("the peers' environment is not there: `make test` makes it")
    found = Peers(tmp_path_factory.mktemp("peers"))
    yield found
    found.close()


@pytest.mark.parametrize("kind", KINDS)
def test_peers_read_what_spark_wrote(kind: str, spark: SparkSession, peers: Peers, tmp_path: Path) -> None:
    partitions, keys, options = KINDS[kind]
    frame = spark.sql(ROWS)
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d", ignore_if_exists=True)
    catalog.create_table("d.t", lw.Schema(list(fields_of(frame.schema)), partitions, keys, options), False)  # noqa: FBT003
    table = catalog.get_table("d.t")
    write_table(frame, table, progress=False)
    if keys:
        changed = frame.where("id % 4 = 0").selectExpr("* EXCEPT (s)", "concat('u', s) AS s")
        write_table(changed, table, "upsert", progress=False)
        write_table(frame.where("id < 10").select(*keys), table, "delete", progress=False)
    rows = _sorted(lw.read_table(table))
    assert len(rows) == (190 if keys else 200)
    assert _sorted(to_arrow(read_table(spark, table))) == rows
    for peer in ("rust", "pypaimon"):
        read = peers.read(peer, tmp_path, "d.t")
        assert read is not None, peer
        assert _sorted(read.select(table.field_names)) == rows, peer


def test_merges_and_peers_grow_dynamic_buckets_in_turn(spark: SparkSession, peers: Peers, tmp_path: Path) -> None:
    """A merge finds the keys that peers wrote, and peers find those of a merge: each in the bucket that it has."""
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d")
    names = {"p": pa.string(), "id": pa.int64(), "v": pa.string()}
    columns = pa.schema([pa.field(name, dtype, nullable=name == "v") for name, dtype in names.items()])
    options = {"bucket": "-1", "dynamic-bucket.target-row-num": "20", "write-only": "true"}
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(columns, ["p"], ["p", "id"], options))
    table = catalog.get_table("d.t")
    model: dict[int, dict[str, object]] = {}
    for turn, who in enumerate(("pypaimon-rust", "spark", "pypaimon", "spark", "pypaimon-rust", "spark")):
        ids = range(turn * 12, turn * 12 + 40)
        rows = pa.table([["ab"[k % 2] for k in ids], list(ids), [f"{who}-{turn}"] * len(ids)], schema=columns)
        if who == "spark":
            builder = merge(from_arrow(spark, rows), table, ["p", "id"])
            done = builder.when_matched_update().when_not_matched_insert().execute()
            assert (done.updated, done.inserted) == (28, 12)
        else:
            peers.append(who, tmp_path, "d.t", rows)
        model |= {row["id"]: row for row in rows.to_pylist()}
        assert _sorted(lw.read_table(table)) == [row for _, row in sorted(model.items())]
        assert table.verify(full=True).findings == ()


def _sorted(rows: pa.Table) -> list[dict[str, object]]:
    found: list[dict[str, object]] = rows.sort_by("id").to_pylist()
    return found
