"""Planning a compaction, and tasks on their way to workers."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from lakewright.compact.compaction_job import due_for_full
from lakewright.compact.compaction_plan import CompactTask, plan_compaction
from lakewright.compact.keyed_compaction import run_task
from lakewright.compact.rewrite_output import BucketVectors
from lakewright.errors import InvalidInputError, InvalidMessageError
from lakewright.metadata.table_store import TableStore
from lakewright.spec.binary_row import encode_row
from lakewright.spec.schema import SchemaChange
from lakewright.spec.snapshot import Snapshot
from lakewright.spec.system_columns import DELETE, INSERT
from support.keyed_tables import COLUMNS, commit_rows, files_on_disk, keyed_store, live, stored_rows

PARTITIONED = pa.schema([pa.field("p", pa.int32(), nullable=False), *COLUMNS])


def _newest(store: TableStore) -> Snapshot:
    newest = store.snapshots.latest()
    assert newest is not None
    return newest


def _partitioned(root: Path) -> tuple[TableStore, dict[int, bytes]]:
    store = keyed_store(root, {}, PARTITIONED, ("p", "k"), ("p",))
    rows = {p: encode_row([p], store.partition_types) for p in (1, 2)}
    for p, partition in rows.items():
        for _ in range(2):
            commit_rows(store, [(INSERT, p, 1, 1, "a")], partition=partition)
    return store, rows


def test_places_and_partitions(tmp_path: Path) -> None:
    store, rows = _partitioned(tmp_path / "t")
    newest = _newest(store)
    assert plan_compaction(store, newest) == []

    def planned(**choice: object) -> list[bytes]:
        return [task.partition for task in plan_compaction(store, newest, full=True, **choice)]  # type: ignore[arg-type]

    assert planned() == [rows[1], rows[2]]
    assert planned(partitions=[{"p": 2}]) == [rows[2]]
    assert planned(partitions=[{"p": "1"}, {"p": 7}]) == [rows[1]]
    assert planned(only={(rows[1], 0)}) == [rows[1]]
    assert planned(only={(rows[1], 3)}) == []
    with pytest.raises(InvalidInputError, match="not a partition column"):
        planned(partitions=[{"x": 2}])
    some = plan_compaction(store, newest, full=lambda place: place == (rows[2], 0))
    assert [task.partition for task in some] == [rows[2]]


def test_a_task_survives_bytes_and_pickle(tmp_path: Path) -> None:
    store = keyed_store(tmp_path / "t", {"deletion-vectors.enabled": "true", "changelog-producer": "lookup"})
    commit_rows(store, [(INSERT, k, 1, "a" * 50) for k in range(100)], level=5)
    commit_rows(store, [(INSERT, 3, 2, "b"), (DELETE, 4, None, None)])
    (task,) = plan_compaction(store, _newest(store))
    assert (task.output_level, task.deepest, task.drops_deletes, len(task.deeper)) == (4, 5, True, 1)
    assert CompactTask.deserialize(task.serialize()) == task
    assert pickle.loads(pickle.dumps(task)) == task  # noqa: S301 - our own bytes
    with pytest.raises(InvalidMessageError):
        CompactTask.deserialize(task.serialize()[:-2])
    with pytest.raises(InvalidMessageError):
        CompactTask.deserialize(task.serialize().replace(b'"bucket":0', b'"bucket":-9'))


def test_deletes_are_dropped_only_where_nothing_lies_below(tmp_path: Path) -> None:
    store = keyed_store(tmp_path / "t", {"compaction.force-up-level-0": "true"})
    commit_rows(store, [(INSERT, k, 1, "a" * 50) for k in range(100)], level=5)
    commit_rows(store, [(DELETE, 4, None, None)])
    (task,) = plan_compaction(store, _newest(store))
    assert (task.output_level, task.drops_deletes) == (4, False)
    (task,) = plan_compaction(store, _newest(store), full=True)
    assert (task.output_level, task.drops_deletes) == (5, True)
    assert task.deeper == ()


def test_deletes_that_are_merged_above_older_rows_stay(tmp_path: Path) -> None:
    store = keyed_store(tmp_path / "t", {"compaction.force-up-level-0": "true"})
    commit_rows(store, [(INSERT, k, 1, str(k) * 9) for k in range(3000)], level=5)
    commit_rows(store, [(DELETE, 4, None, None), (DELETE, 6, None, None)])
    commit_rows(store, [(DELETE, 5, None, None)])
    (task,) = plan_compaction(store, _newest(store))
    assert (task.output_level, task.drops_deletes) == (4, False)
    (file,) = run_task(store, task).compact_after
    assert (file.row_count, file.delete_row_count) == (3, 3)


def test_a_failing_task_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = keyed_store(tmp_path / "t", {"deletion-vectors.enabled": "true", "changelog-producer": "lookup"})
    commit_rows(store, [(INSERT, k, 1, "a") for k in range(1000)], level=5)
    commit_rows(store, [(INSERT, 3, 2, "b"), (INSERT, 4, 2, "b")])
    commit_rows(store, [(INSERT, 4, 3, "b"), (INSERT, 5, 2, "b")])
    (task,) = plan_compaction(store, _newest(store))
    before = files_on_disk(store)
    written: list[set[str]] = []

    def fail(*_: object) -> None:
        written.append(files_on_disk(store) - before)
        raise OSError("no room")

    with monkeypatch.context() as patched:
        patched.setattr(BucketVectors, "write", fail)
        with pytest.raises(OSError, match="no room"):
            run_task(store, task)
    assert len(written[0]) == 2  # data and changelog
    assert files_on_disk(store) == before
    message = run_task(store, task)
    assert len(files_on_disk(store) - before) == 3
    (index,) = message.compact_new_index_files
    assert [r.cardinality for r in index.deletion_ranges or ()] == [3]


def test_columns_of_a_newer_schema_are_kept(tmp_path: Path) -> None:
    old = keyed_store(tmp_path / "t", {"bucket": 1})
    commit_rows(old, [(INSERT, 1, 1, "a")])
    change = SchemaChange.add_column("x", "STRING")
    newer = old.with_schema(old.schemas.evolve([change], has_snapshot=True, time_millis=2))
    commit_rows(newer, [(INSERT, 2, 2, "b", "new")])
    (task,) = plan_compaction(old, _newest(old), full=True)
    (file,) = run_task(old, task).compact_after
    assert file.schema_id == newer.schema.id == 1
    entry = replace(live(old)[0], file=file)
    assert [row[2:] for row in stored_rows(newer, entry)] == [(1, 1, "a", None), (2, 2, "b", "new")]


def test_what_is_not_compacted(tmp_path: Path) -> None:
    store = keyed_store(tmp_path / "t", {"record-level.expire-time": "1 d", "write-only": True})
    commit_rows(store, [(INSERT, 1, 1, "a")])
    with pytest.raises(InvalidInputError, match=r"needs 'record-level\.time-field'"):
        plan_compaction(store, _newest(store), full=True)


def test_full_compaction_after_so_many_commits(tmp_path: Path) -> None:
    store = keyed_store(tmp_path / "t", {"full-compaction.delta-commits": 3})
    place = (bytes(12), 0)
    for number in range(1, 6):
        published = commit_rows(store, [(INSERT, 1, number, "a")])
        assert due_for_full(store, published, {place}) == (frozenset() if number < 3 else {place})
    every = store.with_schema(store.schema.with_options({"full-compaction.delta-commits": "1"}))
    assert due_for_full(every, _newest(store), {place}) == {place}
    assert live(store)
