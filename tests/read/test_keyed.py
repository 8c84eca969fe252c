"""Files of primary-key tables as keyed rows: today's schema, deleted rows left out, levels and positions on request."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from lakewright.metadata.table_store import TableStore
from lakewright.read.data_file_reader import KeyedFiles
from lakewright.read.manifest_scan import FileSchemas
from lakewright.read.split_planning import deletions_of
from lakewright.read.time_travel import resolve_snapshot
from lakewright.spec.manifest import COMPACT, EMPTY_ROW
from lakewright.spec.predicate import PredicateBuilder
from lakewright.spec.system_columns import DELETE, INSERT, UPDATE_AFTER
from support.keyed_files import KeyedBucket, keyed_rows, new_keyed_table
from support.read_tables import golden_store

SCHEMA = pa.schema([("v", pa.string()), ("k", pa.int32())])


@pytest.fixture
def store(tmp_path: Path) -> TableStore:
    return new_keyed_table(str(tmp_path), SCHEMA, {"parquet.block.size": "1 kb"})


def reader(store: TableStore, *columns: str, bucket: KeyedBucket | None = None) -> KeyedFiles:
    fields = tuple(store.schema.field(name) for name in columns or store.schema.field_names)
    deletions = {}
    if bucket is not None:
        bucket.publish()
        snapshot = resolve_snapshot(store)
        assert snapshot is not None
        assert snapshot.index_manifest is not None
        deletions = deletions_of(store, store.manifests.read_index(snapshot.index_manifest))
    return KeyedFiles(store, FileSchemas(store), EMPTY_ROW, 0, fields, deletions)


def test_rows_come_with_their_numbers_and_kinds(store: TableStore) -> None:
    kinds = [INSERT, UPDATE_AFTER, DELETE]
    file = KeyedBucket(store).add(
        keyed_rows(store, {"k": [3, 1, 2], "v": ["c", "a", None]}, first=7, kinds=kinds), level=4
    )
    (rows,) = reader(store).read(file)
    assert rows.column_names == ["_SEQUENCE_NUMBER", "_VALUE_KIND", "v", "k"]
    assert rows.to_pydict() == {
        "_SEQUENCE_NUMBER": [8, 9, 7],
        "_VALUE_KIND": [UPDATE_AFTER, DELETE, INSERT],
        "v": ["a", None, "c"],
        "k": [1, 2, 3],
    }
    (rows,) = reader(store, "k").read(file, level=True, positions=True)
    assert rows.column_names == ["_SEQUENCE_NUMBER", "_VALUE_KIND", "_LEVEL", "k", "_POSITION"]
    assert rows.column("_LEVEL").type == pa.int8()
    assert rows.column("_LEVEL").to_pylist() == [4, 4, 4]
    assert rows.column("_POSITION").to_pylist() == [0, 1, 2]


def test_deleted_positions_are_left_out_and_the_others_keep_theirs(store: TableStore) -> None:
    bucket = KeyedBucket(store)
    file = bucket.add(keyed_rows(store, {"k": range(6), "v": [None] * 6}, first=0), level=1)
    gone = bucket.add(keyed_rows(store, {"k": range(3), "v": [None] * 3}, first=9), level=2)
    bucket.vectors = {file.file_name: [0, 4], gone.file_name: [0, 1, 2]}
    found = reader(store, bucket=bucket)
    (rows,) = found.read(file, positions=True)
    assert rows.column("_POSITION").to_pylist() == [1, 2, 3, 5]
    assert rows.column("k").to_pylist() == [1, 2, 3, 5]
    assert list(found.read(gone)) == []


def test_positions_count_rows_that_were_skipped(store: TableStore) -> None:
    bucket = KeyedBucket(store)
    count = 4_000
    file = bucket.add(keyed_rows(store, {"k": range(count), "v": [f"{n:032d}" for n in range(count)]}, first=0))
    bucket.vectors = {file.file_name: [0, count - 1]}
    last = PredicateBuilder(store.schema.fields).greater_than("k", count - 3)
    rows = pa.concat_tables(reader(store, bucket=bucket).read(file, skip=last, positions=True))
    assert rows.column("k").to_pylist()[-1] == count - 2
    assert rows.column("k").equals(rows.column("_POSITION").cast(pa.int32()))


def test_snapshot_ordering_numbers_the_rows_of_users_alike(store: TableStore) -> None:
    bucket = KeyedBucket(store)
    fresh = bucket.add(keyed_rows(store, {"k": [1, 2], "v": ["a", "b"]}, first=5))
    compacted = bucket.add(keyed_rows(store, {"k": [1, 2], "v": ["a", "b"]}, first=5), level=5, source=COMPACT)
    ordered = store.with_schema(store.schema.with_options({"sequence.snapshot-ordering": "true"}))
    numbers = [
        [n for rows in reader(of).read(replace(file, min_sequence_number=3)) for n in rows.column(0).to_pylist()]
        for of in (store, ordered)
        for file in (fresh, compacted)
    ]
    assert numbers == [[5, 6], [5, 6], [3, 3], [5, 6]]


def test_a_run_is_its_files_one_after_the_other(store: TableStore) -> None:
    bucket = KeyedBucket(store)
    files = [
        bucket.add(keyed_rows(store, {"k": [at, at + 1], "v": ["x", "y"]}, first=at), level=3) for at in (0, 10, 20)
    ]
    runs = list(reader(store, "k").read_run(files))
    assert [n for rows in runs for n in rows.column("k").to_pylist()] == [0, 1, 10, 11, 20, 21]


def test_files_of_older_schemas_read_as_todays() -> None:
    store = golden_store("evolve.pk")
    snapshot = resolve_snapshot(store)
    assert snapshot is not None
    entries = store.manifests.live(snapshot)
    assert len({entry.file.schema_id for entry in entries}) > 1
    for entry in entries:
        files = KeyedFiles(store, FileSchemas(store), entry.partition, entry.bucket, store.schema.fields)
        rows = pa.concat_tables(files.read(entry.file))
        assert rows.column_names == ["_SEQUENCE_NUMBER", "_VALUE_KIND", *store.schema.field_names]
        assert rows.schema.types[2:] == store.schema.arrow_schema.types
        assert all(rows.column(name).null_count == 0 for name in store.schema.trimmed_primary_keys)


def test_partition_columns_come_from_the_manifest() -> None:
    store = golden_store("pk.cross_partition")
    snapshot = resolve_snapshot(store)
    assert snapshot is not None
    for entry in store.manifests.live(snapshot):
        files = KeyedFiles(store, FileSchemas(store), entry.partition, entry.bucket, store.schema.partition_fields)
        values = store.partition_values(entry.partition)
        assert values
        rows = pa.concat_tables(files.read(entry.file))
        assert rows.num_rows == entry.file.row_count
        assert all(len(set(rows.column(f.name).to_pylist())) == 1 for f in store.schema.partition_fields)


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_chunks_are_small_where_many_are_held(tmp_path: Path, file_format: str) -> None:
    store = new_keyed_table(str(tmp_path), SCHEMA, {"file.format": file_format})
    bucket = KeyedBucket(store)
    count = 50_000
    file = bucket.add(keyed_rows(store, {"k": range(count), "v": [f"{n:032d}" for n in range(count)]}, first=0))
    bucket.vectors = {file.file_name: [0, count - 1]}
    found = replace(reader(store, bucket=bucket), chunk_bytes=file.file_size // 2)
    chunks = list(found.read(file, positions=True))
    assert max(rows.num_rows for rows in chunks) <= count // 6
    rows = pa.concat_tables(chunks)
    assert rows.column("k").to_pylist() == list(range(1, count - 1))
    assert rows.column("k").equals(rows.column("_POSITION").cast(pa.int32()))


def test_what_is_only_merged_needs_no_numbers_and_kinds_of_its_own(store: TableStore) -> None:
    bucket = KeyedBucket(store)
    adds = bucket.add(keyed_rows(store, {"k": [1, 2], "v": ["a", "b"]}, first=5, kinds=[INSERT, UPDATE_AFTER]))
    deletes = bucket.add(keyed_rows(store, {"k": [1, 2], "v": ["a", "b"]}, first=8, kinds=[UPDATE_AFTER, DELETE]))
    found = replace(reader(store, "k"), exact=False)
    assert [rows.to_pydict() for file in (adds, deletes) for rows in found.read(file)] == [
        {"_SEQUENCE_NUMBER": [6, 6], "_VALUE_KIND": [INSERT, INSERT], "k": [1, 2]},
        {"_SEQUENCE_NUMBER": [9, 9], "_VALUE_KIND": [UPDATE_AFTER, DELETE], "k": [1, 2]},
    ]
    (unknown,) = found.read(replace(adds, delete_row_count=None))
    assert unknown.column("_VALUE_KIND").to_pylist() == [INSERT, UPDATE_AFTER]
