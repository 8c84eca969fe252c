"""The same rows in another number of buckets."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lakewright.compact.compaction_job import compact_table
from lakewright.compact.rescale import rescale
from lakewright.errors import InvalidInputError, UnsupportedError
from lakewright.metadata.table_store import TableStore
from lakewright.spec.snapshot import CommitKind
from lakewright.spec.system_columns import DELETE, INSERT, UPDATE_BEFORE
from lakewright.table.write_builder import BatchWriteBuilder
from support.effort import each_once
from support.keyed_tables import COLUMNS, changelog_of, commit_rows, files_on_disk, keyed_store, live, read
from support.read_tables import append, new_table

PARTITIONED = pa.schema([pa.field("p", pa.string(), nullable=False), *COLUMNS])


def _upsert(store: TableStore, rows: pa.Table, kinds: list[str] | None = None) -> None:
    builder = BatchWriteBuilder(store)
    with builder.new_write() as write, builder.new_commit() as commit:
        write.write_arrow(rows, row_kinds=kinds)
        commit.commit(write.prepare_commit())


def _rows(keys: range, text: str) -> pa.Table:
    return pa.table({"k": list(keys), "v": [k * k for k in keys], "w": [text] * len(keys)}, schema=COLUMNS)


def _reopened(store: TableStore) -> TableStore:
    latest = store.schemas.latest()
    assert latest is not None
    return store.with_schema(latest)


@pytest.mark.parametrize(
    ("counts", "options"),
    each_once(
        [(1, 4), (4, 1), (2, 6), (3, 2), (6, 4)],
        [{}, {"deletion-vectors.enabled": "true"}, {"merge-engine": "first-row"}],
    ),
)
def test_rows_stay_and_find_their_new_buckets(tmp_path: Path, counts: tuple[int, int], options: dict[str, str]) -> None:
    old, new = counts
    store = keyed_store(tmp_path / "t", {"bucket": old, **options})
    for start in range(0, 60, 15):
        _upsert(store, _rows(range(start, start + 40), f"from {start}"))
    before = read(store)
    result = rescale(store, new)
    store = _reopened(store)
    assert store.options.bucket == new
    assert read(store) == before
    newest = store.snapshots.latest()
    assert newest is not None
    assert (newest.id, newest.commit_kind) == (result.snapshot_id, CommitKind.OVERWRITE)
    assert {e.total_buckets for e in live(store)} == {new}
    assert {e.file.level for e in live(store)} == {5}
    # Writers route as the rescaling did: an upsert meets the row that is there.
    _upsert(store, _rows(range(20, 30), "again"))
    again = {k: (k * k, "again") for k in range(20, 30)}
    assert read(store) == (again | before if "merge-engine" in options else before | again)
    files = files_on_disk(store)
    compact_table(store, full=True)
    assert {e.file.file_name for e in live(store)} <= files_on_disk(store)
    assert len(files) < 60


def test_a_rescale_removes_deleted_rows_for_good(tmp_path: Path) -> None:
    store = keyed_store(tmp_path / "t", {"bucket": 2})
    _upsert(store, _rows(range(10), "a"))
    _upsert(store, _rows(range(4), "a"), ["-D"] * 4)
    rescale(store, 3)
    assert sorted(read(_reopened(store))) == list(range(4, 10))
    assert all(e.file.delete_row_count == 0 for e in live(store))


@pytest.mark.parametrize("producer", ["full-compaction", "lookup"])
def test_a_rescale_first_writes_the_changelog_that_is_due(tmp_path: Path, producer: str) -> None:
    store = keyed_store(tmp_path / "t", {"bucket": 2, "changelog-producer": producer, "write-only": "true"})
    _upsert(store, _rows(range(20), "first"))
    compact_table(store, full=True)
    _upsert(store, _rows(range(10, 30), "second"))
    rescale(store, 3)
    newest = store.snapshots.latest()
    assert newest is not None
    told = {k: (v, w) for _, kind, k, v, w in changelog_of(store, 1, newest.id) if kind != UPDATE_BEFORE}
    assert told == read(_reopened(store)) == {k: (k * k, "first" if k < 10 else "second") for k in range(30)}


def test_a_rescale_of_some_partitions_leaves_the_others(tmp_path: Path) -> None:
    store = keyed_store(tmp_path / "t", {"bucket": 2}, PARTITIONED, ("p", "k"), ("p",))
    for p in ("x", "y", "z"):
        rows = _rows(range(10), p).add_column(0, PARTITIONED.field("p"), pa.array([p] * 10))
        _upsert(store, rows)
    gone = _rows(range(10), "z").add_column(0, PARTITIONED.field("p"), pa.array(["z"] * 10))
    _upsert(store, gone, ["-D"] * 10)
    rescale(store, 3, partitions=[{"p": "y"}, {"p": "z"}])
    totals = {store.partition_values(e.partition): e.total_buckets for e in live(store)}
    assert totals == {("x",): 2, ("y",): 3}
    assert _reopened(store).options.bucket == 2
    with pytest.raises(InvalidInputError, match="has 3 buckets"):
        _upsert(store, gone.set_column(0, PARTITIONED.field("p"), pa.array(["y"] * 10)))
    rescale(store, 3)
    assert {e.total_buckets for e in live(store)} == {3}
    assert _reopened(store).options.bucket == 3


def test_nothing_to_do_stores_the_number(tmp_path: Path) -> None:
    store = keyed_store(tmp_path / "t", {"bucket": 2})
    assert rescale(store, 5).snapshot_id is None
    assert _reopened(store).options.bucket == 5


def test_a_change_in_between_makes_it_begin_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = keyed_store(tmp_path / "t", {"bucket": 1})
    commit_rows(store, [(INSERT, 1, 1, "a")])
    found = type(store.snapshots).latest
    disturbed: list[object] = []

    def latest(self: object) -> object:
        newest = found(self)  # type: ignore[arg-type]
        if not disturbed:
            disturbed.append(newest)
            commit_rows(store, [(INSERT, 2, 2, "b"), (DELETE, 1, None, None)])
        return newest

    monkeypatch.setattr(type(store.snapshots), "latest", latest)
    rescale(store, 2)
    assert read(_reopened(store)) == {2: (2, "b")}
    assert {e.file.file_name for e in live(store)} <= files_on_disk(store)


def test_what_cannot_be_rescaled(tmp_path: Path) -> None:
    plain = new_table(tmp_path / "a", COLUMNS)
    append(plain, _rows(range(3), "a"))
    with pytest.raises(UnsupportedError, match="append"):
        rescale(plain, 2)
    dynamic = keyed_store(tmp_path / "d", {"bucket": -1})
    with pytest.raises(InvalidInputError, match="chooses its buckets"):
        rescale(dynamic, 2)
    with pytest.raises(InvalidInputError, match="at least one"):
        rescale(keyed_store(tmp_path / "f"), 0)
