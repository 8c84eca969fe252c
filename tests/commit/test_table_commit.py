from __future__ import annotations

from pathlib import Path

import pytest

from lakewright.commit.table_commit import BatchTableCommit, CommitContext, Place, StreamTableCommit
from lakewright.errors import InvalidInputError, LakewrightWarning
from lakewright.metadata.table_store import TableStore
from lakewright.spec.snapshot import MAX_LONG, Snapshot
from support.commits import live_names, message, new_store


class Listener:
    def __init__(self) -> None:
        self.heard: list[CommitContext] = []

    def call(self, context: CommitContext) -> None:
        self.heard.append(context)


def test_a_batch_commit_counts_what_it_did(tmp_path: Path) -> None:
    store = new_store(tmp_path, partition_keys=["dt"])
    with BatchTableCommit(store) as commit:
        made = [message(store, "a", "b", partition=("x",)), message(store, "c", partition=("y",))]
        result = commit.commit(made, {"k": "v"})
    assert (result.snapshot_id, result.rows, result.files, result.bytes, result.partitions) == (1, 3, 3, 30, 2)
    assert result.seconds > 0
    assert store.snapshots.get(1).properties == {"k": "v"}


def test_an_empty_batch_makes_no_snapshot_unless_the_table_says_so(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    listener = Listener()
    commit = BatchTableCommit(store)
    commit.add_commit_callback(listener)
    assert commit.commit([]).snapshot_id is None
    assert listener.heard == []
    eager = store.with_schema(store.schema.with_options({"snapshot.ignore-empty-commit": "false"}))
    assert BatchTableCommit(eager).commit([]).snapshot_id == 1


def test_a_batch_can_overwrite_and_truncate(tmp_path: Path) -> None:
    store = new_store(tmp_path, partition_keys=["dt"])
    BatchTableCommit(store).commit([message(store, "a", partition=("x",)), message(store, "b", partition=("y",))])
    BatchTableCommit(store, overwrite={}).commit([message(store, "c", partition=("x",))])
    assert live_names(store) == ["b", "c"]
    BatchTableCommit(store).overwrite([message(store, "d", partition=("y",))])
    assert live_names(store) == ["c", "d"]
    static = store.with_schema(store.schema.with_options({"dynamic-partition-overwrite": "false"}))
    assert BatchTableCommit(static).overwrite([], {"dt": "x"}).snapshot_id == 4
    assert live_names(store) == ["d"]
    BatchTableCommit(store).truncate_partitions([{"dt": "z"}])
    assert live_names(store) == ["d"]
    assert BatchTableCommit(store).truncate_table().snapshot_id == 6
    assert live_names(store) == []


def test_callbacks_hear_of_published_commits_and_cannot_undo_them(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    commit, listener = BatchTableCommit(store), Listener()
    heard: list[CommitContext] = []

    def broken(_context: CommitContext) -> None:
        raise RuntimeError("no luck")

    commit.add_commit_callback(broken)
    commit.add_commit_callback(listener)
    commit.add_commit_callback(heard.append)
    mine = message(store, "a")
    with pytest.warns(LakewrightWarning, match="snapshot 1 is published, but a commit callback failed"):
        assert commit.commit([mine]).snapshot_id == 1
    context = listener.heard[0]
    assert heard == [context]
    assert (context.table, context.identifier, context.messages) == ("db.t", MAX_LONG, (mine,))
    assert context.snapshot == store.snapshots.latest()
    with pytest.raises(InvalidInputError, match="callback"):
        commit.add_commit_callback(7)  # type: ignore[arg-type]


def test_the_work_after_a_commit_learns_which_buckets_it_touched(tmp_path: Path) -> None:
    store = new_store(tmp_path, partition_keys=["dt"])
    heard: list[tuple[int, frozenset[Place]]] = []

    def after(snapshot: Snapshot, places: frozenset[Place]) -> None:
        heard.append((snapshot.id, places))

    a, b = message(store, "a", partition=("x",)), message(store, "b", partition=("y",))
    touched = frozenset({(a.partition_bytes, 0), (b.partition_bytes, 0)})
    BatchTableCommit(store, after_commit=after).commit([a, b, message(store, partition=("z",))])
    again = message(store, "c", partition=("x",))
    BatchTableCommit(store, overwrite={}, after_commit=after).commit([again])
    StreamTableCommit(store, commit_user="s", after_commit=after).commit([], 1)
    BatchTableCommit(store, after_commit=after).truncate_table()
    assert heard == [(1, touched), (2, frozenset({(again.partition_bytes, 0)}))]


def test_the_work_after_a_commit_cannot_undo_it(tmp_path: Path) -> None:
    store = new_store(tmp_path)

    def broken(_snapshot: Snapshot, _places: frozenset[Place]) -> None:
        raise RuntimeError("no luck")

    with pytest.warns(LakewrightWarning, match="snapshot 1 is published, but the work after it failed"):
        assert BatchTableCommit(store, after_commit=broken).commit([message(store, "a")]).snapshot_id == 1
    assert live_names(store) == ["a"]


def test_a_closed_commit_refuses(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    commit = BatchTableCommit(store)
    commit.close()
    with pytest.raises(InvalidInputError, match="closed"):
        commit.commit([])
    with pytest.raises(InvalidInputError, match="closed"):
        commit.truncate_table()
    with pytest.raises(InvalidInputError, match="takes a text"):
        BatchTableCommit(store).commit([], {"n": 1})  # type: ignore[dict-item]


def stream(store: TableStore) -> StreamTableCommit:
    return StreamTableCommit(store, commit_user="stream")


def test_a_stream_records_every_identifier(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    with stream(store) as commit:
        commit.commit([message(store, "a")], 1)
        assert commit.commit([], 2).snapshot_id == 2
    assert [store.snapshots.get(i).commit_identifier for i in (1, 2)] == [1, 2]
    assert {store.snapshots.get(i).commit_user for i in (1, 2)} == {"stream"}
    quiet = store.with_schema(store.schema.with_options({"snapshot.ignore-empty-commit": "true"}))
    assert stream(quiet).commit([], 3).snapshot_id is None


def test_a_restarted_stream_commits_only_what_is_missing(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    parts = {n: [message(store, f"f{n}")] for n in (3, 1, 2)}
    stream(store).commit(parts[1], 1)
    assert stream(store).filter_and_commit(parts) == 2
    assert [store.snapshots.get(i).commit_identifier for i in (1, 2, 3)] == [1, 2, 3]
    assert stream(store).filter_and_commit(parts) == 0
    assert live_names(store) == ["f1", "f2", "f3"]


def test_abort_takes_files_back(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    with BatchTableCommit(store) as commit:
        mine = message(store, "a")
        commit.abort([mine])
    assert not store.storage.exists(f"{store.layout.bucket_directory('', 0)}/a.parquet")


def test_callbacks_can_read_what_the_snapshot_changed_and_are_closed_with_the_commit(tmp_path: Path) -> None:
    class Closing:
        def __init__(self) -> None:
            self.entries: list[tuple[int, str]] = []
            self.closed = 0

        def call(self, context: CommitContext) -> None:
            self.entries += [(entry.kind, entry.file.file_name) for entry in context.commit_entries]

        def close(self) -> None:
            self.closed += 1
            raise RuntimeError("stuck")

    store = new_store(tmp_path)
    BatchTableCommit(store).commit([message(store, "a")])
    commit, callback = BatchTableCommit(store, overwrite={}), Closing()
    commit.add_commit_callback(callback)
    commit.commit([message(store, "b")])
    assert sorted(callback.entries) == [(0, "b.parquet"), (1, "a.parquet")]
    with pytest.warns(LakewrightWarning, match="closing a commit callback failed"):
        commit.close()
    commit.close()
    assert callback.closed == 1
