"""Outdated rows are exactly those that a full merge does not give, whatever is in which level."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from contract.faulty_storage import MemoryStorage
from lakewright.errors import NotFoundError, UnsupportedError
from lakewright.metadata.table_store import TableStore
from lakewright.read.data_file_reader import BucketReader
from lakewright.read.data_split import DataSplit
from lakewright.read.manifest_scan import FileSchemas
from lakewright.read.read_builder import ReadBuilder
from lakewright.spark.computed_vectors import OutdatedFinder, can_find_outdated
from lakewright.spec.manifest import EMPTY_ROW
from lakewright.spec.system_columns import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE
from support.effort import examples
from support.keyed_files import KeyedBucket, keyed_rows, new_keyed_table

COLUMNS = [("v", pa.int32()), ("id", pa.int64())]
KEYS = {
    "number": ([("k", pa.int64())], st.tuples(st.integers(-6, 6))),
    "text": ([("k", pa.string())], st.tuples(st.sampled_from(["", "a", "ab", "b", "b\0", "é", "long text " * 20]))),
    "both": ([("k", pa.string()), ("l", pa.int16())], st.tuples(st.sampled_from(["x", "xy", "z"]), st.integers(0, 3))),
}
SHOWN = {"lakewright.read-level-0": "true"}
TABLES = {
    "deduplicate": {},
    "adds": {},
    "first-adds": {"merge-engine": "first-row", **SHOWN},
    "thin": {"data-file.thin-mode": "true"},
    "sequence": {"sequence.field": "v"},
    "descending": {"sequence.field": "v", "sequence.field.sort-order": "descending"},
    "ignore-delete": {"ignore-delete": "true"},
    "first-row": {"merge-engine": "first-row", "ignore-delete": "true", **SHOWN},
    "lookup": {"changelog-producer": "lookup", **SHOWN},
    "vectors": {"deletion-vectors.enabled": "true", **SHOWN},
}
KINDS = st.sampled_from([INSERT, INSERT, UPDATE_AFTER, DELETE, UPDATE_BEFORE])
ADDS = st.sampled_from([INSERT, UPDATE_AFTER])
PROPERTY = settings(max_examples=examples(15), suppress_health_check=[HealthCheck.too_slow])
_numbers = itertools.count()


@dataclass(frozen=True)
class File:
    """A file to write: its rows by key, what a vector deletes of it, and how far its numbers are behind the last."""

    rows: dict[tuple[object, ...], tuple[int | None, int]]
    deleted: frozenset[int]
    step: int


def files(key: st.SearchStrategy[tuple[object, ...]], kinds: st.SearchStrategy[int]) -> st.SearchStrategy[File]:
    rows = st.dictionaries(key, st.tuples(st.integers(0, 3) | st.none(), kinds), min_size=1, max_size=8)
    return st.builds(File, rows, st.frozensets(st.integers(0, 7), max_size=2), st.sampled_from([100, 100, 3]))


def bucket_of(table: str, key: str, wanted: Sequence[File], deep: int) -> TableStore:
    """Write files of a bucket: `deep` of them one to a level, from the deepest on, then those of level 0."""
    storage = MemoryStorage(f"outdated-{next(_numbers)}")
    columns = KEYS[key][0]
    schema = pa.schema([*columns, *COLUMNS])
    store = new_keyed_table(f"{storage.root}/t", schema, TABLES[table], storage, key=[name for name, _ in columns])
    bucket = KeyedBucket(store)
    first, ids = 0, itertools.count()
    for at, file in enumerate(wanted):
        values: dict[str, Sequence[object]] = {
            name: [key[n] for key in file.rows] for n, (name, _) in enumerate(columns)
        }
        values |= {"v": [v for v, _ in file.rows.values()], "id": [next(ids) for _ in file.rows]}
        kinds = [kind for _, kind in file.rows.values()]
        made = bucket.add(keyed_rows(store, values, first=first, kinds=kinds), level=max(0, deep - at))
        first += file.step
        deleted = sorted(position for position in file.deleted if position < made.row_count)
        if table == "vectors" and deleted:
            bucket.vectors[made.file_name] = deleted
    bucket.publish()
    return store


def ids_left(store: TableStore, splits: Sequence[DataSplit], finder: OutdatedFinder) -> list[int]:
    """Read all files of splits as they lie, without outdated rows."""
    left: list[int] = []
    for split in splits:
        outdated = finder.outdated(split)
        assert set(outdated) <= {file.file_name for file in split.files}
        for file in split.files:
            source = BucketReader(store, FileSchemas(store), EMPTY_ROW, 0)
            ids = [i for _, batch in source.rows(file, [store.schema.field("id")]) for i in batch.column(0).to_pylist()]
            lost = outdated.get(file.file_name, np.empty(0, np.uint64))
            assert file.file_name not in outdated or len(lost), "a file without outdated rows is not named"
            assert lost.dtype == np.uint64
            assert (np.diff(lost.astype(np.int64)) > 0).all()
            left += np.delete(np.array(ids, np.int64), lost.astype(np.int64)).tolist()
    return sorted(left)


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("table", TABLES)
def test_what_is_left_is_what_a_merge_gives(table: str, key: str) -> None:
    kinds = ADDS if table.endswith("adds") else KINDS

    @PROPERTY
    @given(st.lists(files(KEYS[key][1], kinds), min_size=1, max_size=5), st.integers(0, 3), st.integers(1, 2))
    def check(wanted: list[File], deep: int, threads: int) -> None:
        store = bucket_of(table, key, wanted, deep)
        assert can_find_outdated(store)
        builder = ReadBuilder(store).with_projection(["id"])
        splits = builder.new_scan().plan().splits()
        given_by_merge = builder.new_read().to_arrow(splits).column("id").to_pylist()
        assert ids_left(store, splits, OutdatedFinder.of(store, threads=threads)) == sorted(given_by_merge)

    check()


def test_runs_larger_than_the_memory_are_merged_by_windows() -> None:
    storage = MemoryStorage(f"outdated-{next(_numbers)}")
    schema = pa.schema([("k", pa.int64()), *COLUMNS])
    options = {"lakewright.merge-memory": "64 kb"}
    store = new_keyed_table(f"{storage.root}/t", schema, options, storage)
    bucket = KeyedBucket(store)
    for first, keys in ((0, range(30_000)), (30_000, range(0, 60_000, 3))):
        count = len(keys)
        columns = {"k": list(keys), "v": [0] * count, "id": list(range(first, first + count))}
        bucket.add(keyed_rows(store, columns, first=first))
    bucket.publish()
    (split,) = ReadBuilder(store).new_scan().plan().splits()
    (name, lost), *rest = OutdatedFinder.of(store).outdated(split).items()
    assert (name, rest) == (bucket.files[0].file_name, [])
    assert lost.tolist() == list(range(0, 30_000, 3))


def test_rows_that_are_computed_have_no_outdated() -> None:
    storage = MemoryStorage(f"outdated-{next(_numbers)}")
    schema = pa.schema([("k", pa.int64()), *COLUMNS])
    store = new_keyed_table(f"{storage.root}/t", schema, {"merge-engine": "partial-update"}, storage)
    bucket = KeyedBucket(store)
    for first in (0, 1):
        bucket.add(keyed_rows(store, {"k": [1], "v": [2], "id": [3]}, first=first))
    bucket.publish()
    assert not can_find_outdated(store)
    (split,) = ReadBuilder(store).new_scan().plan().splits()
    with pytest.raises(UnsupportedError, match="computes rows from several"):
        OutdatedFinder.of(store).outdated(split)


def test_a_snapshot_that_expired_is_said_to_have() -> None:
    store = bucket_of("deduplicate", "number", [File({(1,): (1, INSERT)}, frozenset(), 9)] * 2, 0)
    (split,) = ReadBuilder(store).new_scan().plan().splits()
    store.storage.delete(split.file_paths[0])
    store.storage.delete(store.layout.snapshot_file(1))
    with pytest.raises(NotFoundError, match="expired"):
        OutdatedFinder.of(store).outdated(split)
