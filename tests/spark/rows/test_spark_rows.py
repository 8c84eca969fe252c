"""Row-level changes by Spark's workers: the rows and the counts of the embedded verbs, whatever happens in between."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

import lakewright as lw
from lakewright.commit.commit_message import CommitMessage
from lakewright.commit.committer import Committer
from lakewright.dml.merge import MergeBuilder
from lakewright.errors import ColumnNotExistException, InvalidInputError, UnsupportedError
from lakewright.spark import spark_verbs
from lakewright.spark.frame_operations import from_arrow
from lakewright.spark.frame_read import read_table
from lakewright.spark.spark_verbs import merge, upsert
from lakewright.spec.snapshot import Snapshot
from support.effort import some
from support.row_changes import KINDS, SCHEMA, VECTORS
from support.spark_traps import TrapStorage, trapped
from support.spark_writes import assert_tidy, new_table, rows_of, sorted_rows

WIDE = {"bucket": "-1", "dynamic-bucket.target-row-num": "5"}
# Of each kind: partition columns, primary key, options. Keys in partitions need not be in the partition that was read.
TABLES: dict[str, tuple[list[str], list[str], dict[str, str]]] = {
    **{name: KINDS[name] for name in ("plain", "plain, buckets", "vectors", "vectors of 64 bits, partitions")},
    **{name: KINDS[name] for name in ("vectors, buckets, avro", "tracked, vectors, partitions")},
    **{name: KINDS[name] for name in ("evolution", "evolution, vectors")},
    **{name: KINDS[name] for name in ("keyed", "keyed, partitions, vectors", "keyed, dynamic", "keyed, changelog")},
    "keyed, hidden level 0": (["p"], ["p", "id"], {"bucket": "2", "write-only": "true"} | VECTORS),
    "keyed across partitions": (["p"], ["id"], WIDE),
}
VERSIONS = {"bucket": "2", "sequence.field": "n", "ignore-delete": "true"}


def table_of(kind: str, root: Path, name: str = "t") -> lw.FileStoreTable:
    """Make a table of a kind with three writes in it, of which keys have several versions."""
    partitions, keys, options = TABLES.get(kind, ([], ["id"], VERSIONS))
    required = {*partitions, *keys}
    columns = pa.schema([field.with_nullable(field.name not in required) for field in SCHEMA])
    table = new_table(root, keys=keys, partitions=partitions, options=options, name=name, columns=columns)
    for first in (0, 10, 15):
        lw.write_table(some_rows(first, 20), table)
    return table


def some_rows(first: int, count: int) -> pa.Table:
    """Make rows with ids from `first` on."""
    numbers = range(first, first + count)
    return pa.table(
        {
            "id": list(numbers),
            "p": [n % 3 for n in numbers],
            "n": [n % 5 if n % 7 else None for n in numbers],
            "name": [f"a{n}" for n in numbers],
            "tag": [first * 100 + n for n in numbers],
        },
        SCHEMA,
    )


def seen_by_merging(table: lw.FileStoreTable) -> list[tuple[object, ...]]:
    """Return all rows, those of level 0 too, and what the table says of them."""
    table = table.copy({"deletion-vectors.merge-on-read": "true"})
    # Data evolution without vectors gives the rows of groups that lost some new ids, in no promised order.
    told = table.options.row_tracking_enabled() and "deletion-vectors.enabled" in table.schema.options
    hidden = ["_ROW_ID", "_SEQUENCE_NUMBER"] if told else []
    return sorted_rows(lw.read_table(table, columns=[*SCHEMA.names, *hidden]))


def seen_by_spark(spark: SparkSession, table: lw.FileStoreTable) -> list[tuple[object, ...]]:
    return sorted((tuple(row) for row in read_table(spark, table).collect()), key=repr)


@pytest.mark.filterwarnings("ignore:.*STAY HIDDEN:lakewright.errors.LakewrightWarning")
@pytest.mark.parametrize("kind", some(list(TABLES), 1, 7, 11))
def test_delete_and_update_do_what_they_do_embedded(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    ours, theirs = (table_of(kind, tmp_path, name) for name in ("ours", "theirs"))
    where = "n = 2 OR id IN (3, 99) OR (p = 1 AND n IS NULL)"
    done, wanted = spark_verbs.delete(spark, ours, where), theirs.delete(where)
    assert (done.deleted, done.updated, done.method) == (wanted.deleted, 0, wanted.method)
    assert (done.deleted or 0) > 3
    given = {"n": pc.field("n") + 10, "name": lambda rows: pc.utf8_upper(rows["name"])}
    done, wanted = spark_verbs.update(spark, ours, given, "p > 0 AND n < 4"), theirs.update(given, "p > 0 AND n < 4")
    assert (done.deleted, done.updated, done.partitions) == (0, wanted.updated, wanted.partitions)
    assert (done.updated or 0) > 3
    assert seen_by_merging(ours) == seen_by_merging(theirs)
    assert seen_by_spark(spark, ours) == rows_of(ours)
    assert_tidy(ours)


KEYED = [kind for kind in TABLES if kind.startswith("keyed")]
CHANGES = pa.table(
    {
        "id": pa.array([2, 3, 11, 16, 25, 40, 41, 42], pa.int64()),
        "p": pa.array([2, 0, 2, 1, 1, 1, 2, 0], pa.int32()),
        "n": pa.array([1, None, 7, 9, 4, 5, 6, 100], pa.int64()),
    }
)


def said(builder: MergeBuilder, *, alone: bool) -> MergeBuilder:
    """Say a merge with a clause of every kind, or without those of rows that the source does not have."""
    new = {"name": "new", **{name: lw.source_col(name) for name in CHANGES.column_names}}
    builder = (
        builder.when_matched_delete(condition="s.n IS NULL")
        .when_matched_update({"n": pc.field("t.n") + pc.field("s.n"), "name": "met"}, condition="t.id <> 25")
        .when_not_matched_insert(new, condition="s.n < 100")
    )
    if not alone:
        return builder
    return builder.when_not_matched_by_source_update({"tag": None}, "id < 5").when_not_matched_by_source_delete("n = 3")


@pytest.mark.filterwarnings("ignore:.*STAY HIDDEN:lakewright.errors.LakewrightWarning")
@pytest.mark.parametrize("kind", some(KEYED, 2, 4))
def test_a_merge_by_key_does_what_it_does_embedded(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    ours, theirs = (table_of(kind, tmp_path, name) for name in ("ours", "theirs"))
    on, alone = ["id", "p"], kind in {"keyed", "keyed, dynamic"}
    done = said(merge(from_arrow(spark, CHANGES), ours, on), alone=alone).execute()
    wanted = said(theirs.merge(CHANGES, on), alone=alone).execute()
    assert (done.deleted, done.updated, done.inserted) == (wanted.deleted, wanted.updated, wanted.inserted)
    assert min(done.deleted or 0, done.updated or 0, done.inserted or 0) > 0
    assert done.method == wanted.method
    assert seen_by_merging(ours) == seen_by_merging(theirs)
    assert seen_by_spark(spark, ours) == rows_of(ours)
    assert_tidy(ours)


def test_an_upsert_by_key_is_what_it_is_embedded(spark: SparkSession, tmp_path: Path) -> None:
    ours, theirs = (table_of("keyed", tmp_path, name) for name in ("ours", "theirs"))
    done, wanted = upsert(from_arrow(spark, CHANGES), ours), theirs.upsert(CHANGES)
    assert (done.updated, done.inserted, done.method) == (wanted.updated, wanted.inserted, wanted.method)
    assert seen_by_merging(ours) == seen_by_merging(theirs)
    with pytest.raises(InvalidInputError, match="found by the primary key"):
        upsert(from_arrow(spark, CHANGES), ours, ["p"])


def test_types_that_spark_lacks_survive_a_merge(spark: SparkSession, tmp_path: Path) -> None:
    """Rows of the table never become rows of Spark, which has no nanoseconds."""
    columns = pa.schema([pa.field("id", pa.int64(), nullable=False), ("at", pa.timestamp("ns")), ("n", pa.int64())])
    table = new_table(tmp_path, keys=["id"], options={"bucket": "2"}, columns=columns)
    lw.write_table(pa.table([[1, 2], [1_000_000_001, 2_000_000_002], [1, 2]], schema=columns), table)
    builder = merge(spark.sql("SELECT 1L AS id, 5L AS n"), table, "t.id = s.id AND s.n > t.n")
    assert builder.when_matched_update({"n": lw.source_col("n")}).execute().updated == 1
    spark_verbs.update(spark, table, {"n": 7}, "id = 2")
    found = lw.read_table(table).cast(pa.schema([("id", pa.int64()), ("at", pa.int64()), ("n", pa.int64())]))
    assert sorted_rows(found) == [(1, 1_000_000_001, 5), (2, 2_000_000_002, 7)]


@pytest.mark.parametrize(
    ("kind", "call", "name"),
    some([("keyed", "open_output", "data-"), ("plain", "open_output", "data-"), ("vectors", "create", "index-")], 0),
)
def test_a_worker_that_is_killed_is_replaced(
    spark: SparkSession, tmp_path: Path, kind: str, call: str, name: str
) -> None:
    table = table_of(kind, tmp_path)
    wanted = [row for row in seen_by_merging(table) if row[1] != 1]
    trap = TrapStorage(durable=False, call=call, name=name, deed="kill", marks=str(tmp_path / "marks"))
    result = spark_verbs.delete(spark, trapped(table, trap), "p = 1")
    assert (tmp_path / "marks" / "0").exists()
    assert (result.deleted or 0) > 0
    assert seen_by_merging(table) == wanted
    assert_tidy(table)


@pytest.mark.nightly  # the contract of engines has one such race
@pytest.mark.parametrize("kind", ["keyed", "vectors"])
def test_whoever_is_overtaken_begins_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    table = table_of(kind, tmp_path)
    commit, others = Committer.commit, [lambda: table.update({"n": 50}, "id = 4"), lambda: table.delete("id = 5")]

    def overtaken(
        committer: Committer, messages: Sequence[CommitMessage], *, operation: str | None = None, **_: object
    ) -> Snapshot | None:
        if others:
            others.pop()()  # it commits too, and meets the next of them
        return commit(committer, messages, operation=operation)

    wanted = [row for row in seen_by_merging(table) if row[0] != 5]
    monkeypatch.setattr(Committer, "commit", overtaken)
    result = spark_verbs.update(spark, table, {"n": pc.field("n") + 1}, "id IN (4, 5, 6)")
    assert (result.updated, result.attempts) == (2, 2)
    new = {4: 51, 6: 2}
    assert seen_by_merging(table) == sorted(
        [(*r[:2], new.get(int(str(r[0])), r[2]), *r[3:5]) for r in wanted], key=repr
    )
    assert_tidy(table)


def test_errors_are_those_of_the_core(spark: SparkSession, tmp_path: Path) -> None:
    keyed = table_of("keyed, versions", tmp_path)
    with pytest.raises(ColumnNotExistException, match="no column 'nowhere'"):
        spark_verbs.delete(spark, keyed, "nowhere = 1")
    with pytest.raises(InvalidInputError, match="'id' cannot be assigned"):
        spark_verbs.update(spark, keyed, {"id": 1})
    with pytest.raises(UnsupportedError, match="reset 'ignore-delete'"):
        spark_verbs.delete(spark, keyed, "id = 1")
    with pytest.raises(InvalidInputError, match="older than it is") as caught:  # only a task can see that
        spark_verbs.update(spark, keyed, {"n": -1}, "id = 4")
    assert caught.value.facts["option"] == "sequence.field"
    with pytest.raises(InvalidInputError, match="'name'"):
        spark_verbs.update(spark, keyed, {"name": lambda rows: rows["name"].slice(1)}, "id < 9")
    assert_tidy(keyed)
