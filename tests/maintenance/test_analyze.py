"""ANALYZE: what is counted, how it is recorded, how long it is kept, and what becomes of it when others commit."""

from __future__ import annotations

import datetime as dt
import json
import random
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import lakewright as lw
from contract.fault_enumerator import Operation, enumerate_faults
from lakewright.commit.committer import Committer
from lakewright.errors import ColumnNotExistException, CommitConflictError, InvalidInputError, UnsupportedError
from lakewright.maintenance import table_analysis
from lakewright.maintenance.table_analysis import KEPT, DistinctSketch, RowCounts, value_hashes
from lakewright.metadata.table_statistics import ColumnStatistics, TableStatistics
from support.effort import is_thin

NOON = dt.datetime(2024, 2, 29, 1, 2, 3)  # noqa: DTZ001 - a wall clock
ROWS = pa.table(
    {
        "b": pa.array([True, False, None]),
        "i": pa.array([4, None, 1], pa.int64()),
        "f": pa.array([1.5, float("nan"), 1e20], pa.float32()),
        "g": pa.array([2.25, -0.0, 0.0]),
        "d": pa.array([Decimal("12.30"), None, Decimal("0.00")], pa.decimal128(10, 2)),
        "w": pa.array([Decimal("123456789012345.6789"), Decimal("-0.0001"), Decimal(0)], pa.decimal128(30, 4)),
        "s": ["é文x", None, ""],
        "z": pa.array([None, None, None], pa.string()),
        "x": pa.array([b"\0\1", b"", b"\xff\xff"], pa.binary()),
        "day": pa.array([dt.date(2024, 2, 29), dt.date(1, 1, 1), None]),
        "at": pa.array([NOON + dt.timedelta(microseconds=5), NOON, None], pa.timestamp("us")),
        "a": pa.array([[1], None, []], pa.list_(pa.int32())),
    }
)
# As the connector 0.9.0 of Java Paimon writes them for these rows (its days before 1582 are Julian).
EXPECTED = {
    "b": ("false", "true", 2, 1, 1, 1),
    "i": ("1", "4", 2, 1, 8, 8),
    "f": ("1.5", "NaN", 3, 0, 4, 4),
    "g": ("-0.0", "2.25", 2, 0, 8, 8),
    "d": ("0.00", "12.30", 2, 1, 8, 8),
    "w": ("-0.0001", "123456789012345.6789", 3, 0, 16, 16),
    "s": (None, None, 2, 1, 2, 3),
    "z": (None, None, 0, 3, 20, 20),
    "x": (None, None, 3, 0, 2, 2),
    "day": ("-719162", "19782", 2, 1, 4, 4),
    "at": ("2024-02-29 01:02:03.000000", "2024-02-29 01:02:03.000005", 2, 1, 8, 8),
}


@pytest.fixture
def catalog(tmp_path: Path) -> lw.Catalog:
    made = lw.CatalogFactory.create({"warehouse": str(tmp_path / "lake"), "lakewright.durable": "false"})
    made.create_database("d")
    return made


def created(catalog: lw.Catalog, schema: pa.Schema, **options: str) -> lw.FileStoreTable:
    keys = ["k"] if "bucket" in options else []
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(schema, primary_keys=keys, options=options))
    return catalog.get_table("d.t")


def numbers(catalog: lw.Catalog, *values: int) -> lw.FileStoreTable:
    """Make a table with a snapshot for each value."""
    table = created(catalog, pa.schema({"n": pa.int64()}))
    for value in values:
        lw.write_table(pa.table({"n": [value]}), table)
    return table


def stat_files(table: lw.FileStoreTable) -> set[str]:
    place = Path(table.table_path, "statistics")
    return {path.name for path in place.iterdir()} if place.exists() else set()


def test_columns_of_every_type_are_counted_as_java_does(catalog: lw.Catalog) -> None:
    table = created(catalog, ROWS.schema)
    lw.write_table(ROWS.slice(0, 2), table)
    lw.write_table(ROWS.slice(2), table)
    result = table.analyze("all")
    found = {
        name: (c.min, c.max, c.distinct_count, c.null_count, c.avg_len, c.max_len) for name, c in result.columns.items()
    }
    assert found == EXPECTED
    sizes = sum(path.stat().st_size for path in Path(table.table_path).glob("bucket-0/*"))
    assert (result.snapshot_id, result.analyzed_id, result.rows, result.size) == (3, 2, 3, sizes)
    snapshot = table.snapshot()
    assert snapshot is not None
    assert (snapshot.commit_kind, snapshot.delta_record_count, snapshot.total_record_count) == ("ANALYZE", 0, 3)
    assert stat_files(table) == {snapshot.statistics}
    assert table.statistics() == TableStatistics(2, 0, 3, sizes, result.columns)
    assert table.verify(full=True, snapshots="all").findings == ()
    assert lw.read_table(table).num_rows == 3


def test_the_file_is_in_java_s_form(catalog: lw.Catalog) -> None:
    table = numbers(catalog, 7, 9)
    result = table.analyze(["n"])
    snapshot = table.snapshot()
    assert snapshot is not None
    body = json.loads(Path(table.table_path, "statistics", str(snapshot.statistics)).read_text())
    column = {"colId": 0, "distinctCount": 2, "min": "7", "max": "9", "nullCount": 0, "avgLen": 8, "maxLen": 8}
    head = {"snapshotId": 2, "schemaId": 0, "mergedRecordCount": 2, "mergedRecordSize": result.size}
    assert body == {**head, "colStats": {"n": column}}


def test_rows_of_a_key_count_once_and_deleted_rows_not_at_all(catalog: lw.Catalog) -> None:
    table = created(
        catalog, pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.string())]), bucket="1"
    )
    lw.write_table(pa.table({"k": [1, 2, 3], "v": ["a", "b", "c"]}), table)
    lw.write_table(pa.table({"k": [2, 3], "v": ["bb", None]}), table)
    table.delete("k = 1")
    rows = table.analyze().rows
    result = table.analyze("v")
    assert (rows, result.rows) == (2, 2)
    assert result.columns == {"v": ColumnStatistics(1, 1, None, None, 1, 2, 2)}
    sizes = sum(path.stat().st_size for path in Path(table.table_path).glob("bucket-0/*"))
    assert 0 < result.size < sizes
    assert table.new_read_builder().explain().estimated_merged_row_count == 2


def test_explain_shows_statistics_and_survives_their_loss(catalog: lw.Catalog) -> None:
    table = numbers(catalog, 1, 2, 3)
    assert table.new_read_builder().explain().statistics is None
    table.analyze()
    assert "Statistics:         3 rows, " in str(table.new_read_builder().explain())
    for name in stat_files(table):
        Path(table.table_path, "statistics", name).write_text("{")
    assert table.new_read_builder().explain().statistics is None
    with pytest.raises(lw.CorruptTableError, match="write the statistics anew"):
        table.statistics()


def test_a_table_without_snapshots_stays_as_it_is(catalog: lw.Catalog) -> None:
    table = numbers(catalog)
    assert table.analyze("all").snapshot_id is None
    assert table.snapshot() is None
    assert table.statistics() is None


@pytest.mark.parametrize(
    ("columns", "kind", "message"),
    [
        ("nn", ColumnNotExistException, "has no column 'nn'; did you mean 'n'"),
        (["n", "a"], UnsupportedError, "the column a is ARRAY<INT>"),
        (7, InvalidInputError, "columns"),
        ([7], InvalidInputError, "columns"),
    ],
)
def test_wrong_columns_are_refused_before_anything_is_read(
    catalog: lw.Catalog, columns: object, kind: type[Exception], message: str
) -> None:
    table = created(catalog, pa.schema({"n": pa.int64(), "a": pa.list_(pa.int32())}))
    with pytest.raises(kind, match=message):
        table.analyze(columns)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="newest snapshot"):
        table.copy({"scan.snapshot-id": "1"}).analyze()


def test_statistics_stay_until_the_schema_changes(catalog: lw.Catalog) -> None:
    table = numbers(catalog, 1)
    table.analyze()
    name = next(iter(stat_files(table)))
    lw.write_table(pa.table({"n": [2]}), table)
    table.compact(full=True)
    assert [table.store.snapshots.get(n).statistics for n in (1, 2, 3, 4)] == [None, name, name, name]
    table.expire_snapshots(retain_max=1, retain_min=1)
    table.remove_orphan_files(older_than="1 ms", dry_run=False)
    known = table.statistics()
    assert known is not None
    assert (known.snapshot_id, known.row_count) == (1, 1)
    assert table.verify(full=True).is_sound
    catalog.alter_table("d.t", lw.SchemaChange.add_column("m", lw.AtomicType("INT")))
    table = catalog.get_table("d.t")
    lw.write_table(pa.table({"n": [3], "m": pa.array([4], pa.int32())}), table)
    assert table.statistics() is None
    table.expire_snapshots(retain_max=1, retain_min=1)
    assert stat_files(table) == set()


def test_tags_and_branches_keep_the_file(catalog: lw.Catalog) -> None:
    table = numbers(catalog, 1)
    table.analyze()
    table.create_tag("v")
    table.create_branch("b", "v")
    table.create_tag("w")
    table.delete_tag("v")
    for number in (2, 3):
        catalog.alter_table("d.t", lw.SchemaChange.add_column(f"m{number}", lw.AtomicType("INT")))
        table = catalog.get_table("d.t")
        lw.write_table(pa.table({"n": [number]}), table)
    table.expire_snapshots(retain_max=1, retain_min=1)
    table.remove_orphan_files(older_than="1 ms", dry_run=False)
    assert len(stat_files(table)) == 1
    assert table.verify(full=True, snapshots="all").findings == ()
    assert table.copy({"scan.tag-name": "w"}).statistics() is not None
    branch = catalog.get_table("d.t$branch_b")
    assert branch.statistics() is not None
    assert branch.analyze("all").rows == 1
    table.delete_tag("w")
    table.drop_branch("b")
    table.remove_orphan_files(older_than="1 ms", dry_run=False)
    assert stat_files(table) == set()


def test_a_commit_in_between_does_not_matter_but_a_new_schema_or_a_rollback_does(catalog: lw.Catalog) -> None:
    table = numbers(catalog, 1, 2)
    events: list[Callable[[], object]] = [
        lambda: lw.write_table(pa.table({"n": [3]}), table),
        lambda: catalog.alter_table("d.t", lw.SchemaChange.add_column("m", lw.AtomicType("INT"))),
        lambda: None,
        lambda: table.rollback_to(2),
    ]
    plain = table_analysis.count_here
    counted: list[int] = []

    def meanwhile(*args: object) -> RowCounts:
        found = plain(*args)  # type: ignore[arg-type]
        counted.append(found.rows)
        if events:
            events.pop(0)()
        return found

    def result() -> tuple[int | None, int | None, int]:
        done = table_analysis.analyze_table(catalog.get_table("d.t").store, "all", meanwhile)
        return done.snapshot_id, done.analyzed_id, done.rows

    assert result() == (4, 2, 2)
    assert (result(), counted) == ((5, 4, 3), [2, 3, 3])
    assert list(table.statistics().columns) == ["n", "m"]  # type: ignore[union-attr]
    assert result() == (3, 2, 2)
    assert len(stat_files(table)) == 3
    assert table.verify(full=True).is_sound


def test_statistics_of_a_state_that_is_gone_are_refused_and_deleted(catalog: lw.Catalog) -> None:
    table = numbers(catalog, 1, 2)
    of = table.snapshot(2)
    assert of is not None
    table.rollback_to(1)
    lw.write_table(pa.table({"n": [3]}), table)
    file = table_analysis.write_statistics(table.store, TableStatistics(2, 0, 2, 10))
    with pytest.raises(CommitConflictError, match="was rolled back; analyze the table again"):
        Committer(table.store, sole=True).name_statistics(file, of=of, schema_id=0)
    assert stat_files(table) == set()


def test_every_fault_leaves_the_table_whole() -> None:
    def prepare(catalog: lw.Catalog) -> None:
        catalog.create_database("d")
        numbers(catalog, 1, 2)

    def act(catalog: lw.Catalog) -> None:
        catalog.get_table("d.t").analyze("all")

    def observe(catalog: lw.Catalog) -> tuple[list[int], bool]:
        table = catalog.get_table("d.t")
        found = table.statistics()
        assert found is None or found.row_count == 2
        assert table.verify(full=True).is_sound
        return sorted(lw.read_table(table)["n"].to_pylist()), found is not None

    report = enumerate_faults(Operation("analyze", prepare, act), observe, thin=is_thin())
    assert report.calls > 0
    assert report.failures == ()


@pytest.mark.parametrize("count", [KEPT - 1, 3 * KEPT, pytest.param(20 * KEPT, marks=pytest.mark.nightly)])
def test_distinct_values_are_exact_when_few_and_near_when_many(count: int) -> None:
    chance = random.Random(count)
    values = pa.array([f"value {chance.random()}" for _ in range(count)])
    whole, parts = DistinctSketch(), [DistinctSketch() for _ in range(3)]
    whole.add(pa.concat_arrays([values, values.slice(0, 1000)]))
    for at, part in enumerate(parts):
        part.add(values.slice(at * count // 4, count // 2 + 1))
    for part in parts[1:]:
        parts[0].merge(part)
    assert np.array_equal(whole.hashes, parts[0].hashes)
    assert whole.count == count if count < KEPT else abs(whole.count / count - 1) < 0.04


def test_equal_values_have_one_hash_and_others_another() -> None:
    floats = value_hashes(pa.array([0.0, -0.0, float("nan"), np.frombuffer(b"\1\0\0\0\0\0\xf8\x7f")[0], 1.0]))
    assert len(set(floats.tolist())) == 3
    texts = ["", "a", "a\0", "aaaaaaaa", "aaaaaaaa\0", "a" * 256, "a" * 257, "b" * 300]
    padded = pa.array(["x", *texts, *texts]).slice(1)
    hashes = value_hashes(padded).tolist()
    assert hashes[: len(texts)] == hashes[len(texts) :]
    assert len(set(hashes)) == len(texts)
    assert hashes == value_hashes(padded.cast(pa.large_binary())).tolist()


def test_counts_of_parts_travel_and_merge(catalog: lw.Catalog) -> None:
    table = created(catalog, ROWS.schema)
    fields = table_analysis.chosen_columns(table.store, "all")
    whole, first, second = (RowCounts.of(fields) for _ in range(3))
    for part, rows in ((whole, ROWS), (first, ROWS.slice(0, 1)), (second, ROWS.slice(1))):
        for batch in rows.to_batches():
            part.add(batch)
    first.merge(RowCounts.deserialize(second.serialize(), fields))
    assert [c.result() for c in first.columns] == [c.result() for c in whole.columns]
    assert first.rows == whole.rows == 3


def test_analyze_table_of_sql_counts_rows_and_columns(catalog: lw.Catalog) -> None:
    catalog.create_table("d.t", pa.schema({"n": pa.int64(), "s": pa.string()}))
    table = catalog.get_table("d.t")
    lw.write_table(pa.table({"n": [1, 1, 7], "s": ["a", None, "bcd"]}), table)
    context = lw.SQLContext(catalog, database="d")
    counted = []
    for what in ("", "FOR COLUMNS n", "FOR ALL COLUMNS"):
        assert context.sql(f"ANALYZE TABLE t COMPUTE STATISTICS {what}").num_rows == 0
        found = table.statistics()
        assert found is not None
        counted.append((found.row_count, {name: one.distinct_count for name, one in found.columns.items()}))
    assert counted == [(3, {}), (3, {"n": 2}), (3, {"n": 2, "s": 2})]
    shown = context.sql("SELECT mergedRecordCount, colstat FROM `t$statistics`").to_pylist()
    assert [(row["mergedRecordCount"], json.loads(row["colstat"])["s"]["maxLen"]) for row in shown] == [(3, 3)]
    assert "Statistics:         3 rows, " in str(table.new_read_builder().explain())
