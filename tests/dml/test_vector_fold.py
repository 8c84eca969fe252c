"""Folding vectors: whatever was deleted before and wherever it lies, afterwards each file has old or new, once."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lakewright as lw
from contract.fault_enumerator import stray_files
from contract.faulty_storage import MemoryStorage
from lakewright.catalog.catalog import Catalog
from lakewright.catalog.filesystem_catalog import FileSystemCatalog
from lakewright.commit.committer import Committer
from lakewright.dml import vector_updates
from lakewright.dml.row_changes import AppliedChanges, ChangeJob
from lakewright.dml.row_location import select_groups
from lakewright.formats.deletion_vectors import encode_deletion_vectors
from lakewright.read.data_file_reader import BucketReader
from lakewright.read.data_split import DataSplit
from lakewright.read.manifest_scan import FileSchemas
from lakewright.spec.manifest import DELETION_VECTORS, IndexFile
from lakewright.spec.snapshot import Snapshot
from support.effort import examples

FILES, ROWS = 4, 50
Deleted = dict[int, frozenset[int]]  # of each file the deleted positions

some_rows = st.frozensets(st.integers(0, ROWS - 1), min_size=1, max_size=ROWS)
deleted = st.dictionaries(st.integers(0, FILES - 1), some_rows, max_size=FILES)


def make(path: Path, options: Mapping[str, str]) -> lw.FileStoreTable:
    return _made(lw.CatalogFactory.create({"warehouse": str(path)}), options)


def in_memory(bucketed: bool, bitmap64: bool, target: str) -> lw.FileStoreTable:
    options = {
        "deletion-vectors.bitmap64": str(bitmap64).lower(),
        "deletion-vector.index-file.target-size": target,
        **({"bucket": "2", "bucket-key": "file"} if bucketed else {}),
    }
    memory = MemoryStorage("fold")
    memory.clear()
    return _made(FileSystemCatalog(memory, f"{memory.root}/warehouse", {}), options)


def _made(catalog: Catalog, options: Mapping[str, str]) -> lw.FileStoreTable:
    catalog.create_database("d")
    given_options = {"deletion-vectors.enabled": "true", **options}
    columns = pa.schema({"file": pa.int64(), "n": pa.int64()})
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(columns, options=given_options))
    table = catalog.get_table("d.t")
    for number in range(FILES):
        lw.write_table(pa.table({"file": [number] * ROWS, "n": range(ROWS)}), table)
    return table


def newest(table: lw.FileStoreTable) -> Snapshot:
    snapshot = table.snapshot()
    assert snapshot is not None
    return snapshot


def parts_of(table: lw.FileStoreTable) -> dict[int, DataSplit]:
    """Return the groups by the number of the file."""
    out = {}
    for part in select_groups(table.store, newest(table)):
        rows = BucketReader(table.store, FileSchemas(table.store), part.partition_bytes, part.bucket)
        _, batch = next(rows.rows(part.files[0], table.schema.fields))
        out[batch.column(0)[0].as_py()] = part
    return out


def fold_and_commit(table: lw.FileStoreTable, change: Deleted, *, stored: bool) -> Snapshot | None:
    """Delete rows as one worker, or as many whose vectors come as files."""
    job = ChangeJob.on(table.store, newest(table))
    parts = parts_of(table)
    tasks = [vector_updates.mark_deleted(job, parts[number], np.array(sorted(rows))) for number, rows in change.items()]
    if stored:
        tasks = [vector_updates.store_vectors(job, applied, task, 0) for task, applied in enumerate(tasks)]
    applied = AppliedChanges()
    for task in tasks:
        applied += task
    return Committer(table.store).commit((*applied.messages, *vector_updates.fold_vectors(job, applied)))


def live_of(table: lw.FileStoreTable) -> set[tuple[int, int]]:
    rows = lw.read_table(table).to_pylist()
    assert len({(row["file"], row["n"]) for row in rows}) == len(rows)
    return {(row["file"], row["n"]) for row in rows}


def index_files(table: lw.FileStoreTable) -> list[IndexFile]:
    name = newest(table).index_manifest
    return [] if name is None else [entry.file for entry in table.store.manifests.read_index(name)]


@settings(max_examples=examples(20))
@given(
    steps=st.lists(st.tuples(deleted, st.booleans()), min_size=1, max_size=3),
    bucketed=st.booleans(),
    bitmap64=st.booleans(),
    target=st.sampled_from(["1 b", "100 b", "2 mb"]),
)
def test_old_and_new_vectors_are_joined(
    steps: Sequence[tuple[Deleted, bool]],
    *,
    bucketed: bool,
    bitmap64: bool,
    target: str,
) -> None:
    table = in_memory(bucketed, bitmap64, target)
    live = {(file, n) for file in range(FILES) for n in range(ROWS)}
    for change, stored in steps:
        now = {number: rows for number, rows in change.items() if any((number, row) in live for row in rows)}
        fold_and_commit(table, now, stored=stored)
        live -= {(number, row) for number, rows in now.items() for row in rows}
        assert live_of(table) == live
        names = [found.data_file for file in index_files(table) for found in file.deletion_ranges or ()]
        assert len(names) == len(set(names))
        # Files without a live row are gone, and so are their vectors.
        assert set(names) <= {file.file_name for part in parts_of(table).values() for file in part.files}
    assert stray_files(table.store) == set()


def test_what_is_not_touched_is_copied_byte_by_byte(tmp_path: Path) -> None:
    table = make(tmp_path, {"deletion-vector.index-file.target-size": "1 mb"})
    fold_and_commit(table, {0: frozenset({1}), 1: frozenset({2, 3}), 2: frozenset({4})}, stored=False)
    (before,) = index_files(table)
    fold_and_commit(table, {1: frozenset({7})}, stored=False)
    (after,) = index_files(table)
    was, now = ((Path(table.table_path) / "index" / file.file_name).read_bytes() for file in (before, after))
    records = {r.data_file: was[r.offset : r.offset + r.length + 8] for r in before.deletion_ranges or ()}
    again = {r.data_file: now[r.offset : r.offset + r.length + 8] for r in after.deletion_ranges or ()}
    assert sum(records[name] == again[name] for name in records) == 2
    assert len(now) == after.file_size
    assert after.row_count == 3


def test_only_the_index_files_of_changed_files_are_replaced(tmp_path: Path) -> None:
    table = make(tmp_path, {})
    for number in range(3):
        fold_and_commit(table, {number: frozenset({number})}, stored=False)
    before = {file.file_name for file in index_files(table)}
    assert len(before) == 3
    fold_and_commit(table, {1: frozenset({9})}, stored=False)
    assert len(before & {file.file_name for file in index_files(table)}) == 2


def test_many_small_index_files_become_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_updates, "_SMALL_FILES_MAX", 3)
    table = make(tmp_path, {})
    for number in range(4):
        fold_and_commit(table, {number: frozenset({number})}, stored=False)
    (file,) = index_files(table)
    assert file.row_count == 4
    assert len(live_of(table)) == FILES * ROWS - 4


def test_what_workers_send_survives_the_way(tmp_path: Path) -> None:
    table = make(tmp_path, {})
    job = pickle.loads(pickle.dumps(ChangeJob.on(table.store, newest(table))))  # noqa: S301 - our own bytes
    applied = vector_updates.mark_deleted(job, parts_of(table)[0], np.array([1, 2]))
    stored = vector_updates.store_vectors(job, applied, 3, 1)
    assert pickle.loads(pickle.dumps(applied)) == applied  # noqa: S301 - our own bytes
    assert pickle.loads(pickle.dumps(stored)) == stored  # noqa: S301 - our own bytes
    assert stored.vectors == ()
    (file,) = stored.vector_files
    assert file.file.row_count == 1


def test_a_bucket_without_deleted_rows_keeps_an_empty_index_file(tmp_path: Path) -> None:
    table = make(tmp_path, {"bucket": "1", "bucket-key": "file"})
    fold_and_commit(table, {0: frozenset({1})}, stored=False)
    fold_and_commit(table, {0: frozenset(range(ROWS))}, stored=False)
    (file,) = index_files(table)
    assert (file.index_type, file.row_count, file.deletion_ranges, file.file_size) == (DELETION_VECTORS, 0, (), 1)
    assert (Path(table.table_path) / "index" / file.file_name).read_bytes() == b"\x01"
    assert len(live_of(table)) == (FILES - 1) * ROWS


@pytest.mark.parametrize("first", [False, True])
def test_vectors_of_the_other_form_are_converted(tmp_path: Path, *, first: bool) -> None:
    """A table whose option was changed has vectors of one form once they are written again."""
    table = make(tmp_path, {"deletion-vectors.bitmap64": str(first).lower()})
    fold_and_commit(table, {0: frozenset({1}), 1: frozenset({5})}, stored=False)
    schema = table.schema.with_options({"deletion-vectors.bitmap64": str(not first).lower()})
    other = replace(table, store=table.store.with_schema(schema))
    fold_and_commit(other, {0: frozenset({2})}, stored=False)
    assert live_of(other) == {(f, n) for f in range(FILES) for n in range(ROWS)} - {(0, 1), (1, 5), (0, 2)}
    (file,) = index_files(other)
    magic = {False: bytes.fromhex("5e43f2d0"), True: bytes.fromhex("d1d33964")}[not first]
    data = (Path(table.table_path) / "index" / file.file_name).read_bytes()
    assert [data[r.offset + 4 : r.offset + 8] for r in file.deletion_ranges or ()] == [magic, magic]


def test_a_damaged_vector_is_not_copied(tmp_path: Path) -> None:
    table = make(tmp_path, {})
    fold_and_commit(table, {0: frozenset({1}), 1: frozenset({5})}, stored=False)
    (file,) = index_files(table)
    path = Path(table.table_path) / "index" / file.file_name
    data = bytearray(path.read_bytes())
    place = (file.deletion_ranges or ())[1]
    data[place.offset + 20] ^= 1
    path.write_bytes(data)
    with pytest.raises(lw.errors.CorruptTableError, match="checksum"):
        fold_and_commit(table, {0: frozenset({2})}, stored=False)
    assert len(list((Path(table.table_path) / "index").iterdir())) == 1


def test_records_lie_where_the_manifest_says() -> None:
    """Both forms, as the format describes them: positions 3 and 5 of one file."""
    for bitmap64, length in ((False, 24), (True, 44)):
        data, (place,) = encode_deletion_vectors({"f": [3, 5]}, bitmap64=bitmap64)
        assert (place.offset, place.length, place.cardinality) == (1, length, 2)
        assert len(data) == 1 + 8 + (36 if bitmap64 else 24)
