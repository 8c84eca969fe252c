"""Compactions beside other commits, after commits, and when they fail."""

from __future__ import annotations

import random
import threading
import warnings
from pathlib import Path

import pytest

from lakewright.commit.commit_message import CommitMessage
from lakewright.commit.committer import Committer
from lakewright.compact import compaction_job
from lakewright.compact.compaction_job import compact_after_commit, compact_table
from lakewright.compact.compaction_plan import plan_compaction
from lakewright.errors import CommitConflictError, CommitUnknownError, LakewrightWarning
from lakewright.metadata.table_store import TableStore
from lakewright.spec.snapshot import CommitKind, Snapshot
from lakewright.spec.system_columns import DELETE, INSERT
from support.keyed_tables import commit_rows, files_on_disk, keyed_store, levels, live, read, stored_rows

PLACE = (bytes(12), 0)
VECTORS = {"deletion-vectors.enabled": "true"}


def _named(store: TableStore) -> set[str]:
    """Return the files that any snapshot names."""
    names: set[str] = set()
    for number in store.snapshots.ids():
        snapshot = store.snapshots.get(number)
        entries = [*store.manifests.delta(snapshot), *store.manifests.changelog(snapshot)]
        names |= {entry.file.file_name for entry in entries}
        if snapshot.index_manifest is not None:
            names |= {entry.file.file_name for entry in store.manifests.read_index(snapshot.index_manifest)}
    return names


def test_the_result_counts_buckets_files_and_rows(tmp_path: Path) -> None:
    store = keyed_store(tmp_path / "t")
    assert compact_table(store).snapshot_id is None
    for number in range(3):
        commit_rows(store, [(INSERT, k, number, "a") for k in range(number, number + 4)])
    assert compact_table(store).is_empty
    result = compact_table(store, full=True)
    (file,) = live(store)
    assert (result.snapshot_id, result.buckets, result.files_before, result.files_after) == (4, 1, 3, 1)
    assert (result.rows, result.bytes) == (6, file.file.file_size)
    newest = store.snapshots.get(4)
    assert newest.commit_kind is CommitKind.COMPACT
    assert (file.file.level, file.file.file_source, file.total_buckets) == (5, 1, 1)
    # Rows keep their numbers.
    assert [row[0] for row in stored_rows(store, file)] == [0, 4, 8, 9, 10, 11]
    assert compact_table(store, full=True).is_empty


def test_merged_files_end_before_one_that_moves(tmp_path: Path) -> None:
    store = keyed_store(tmp_path / "t", {"target-file-size": "4 kb"})
    rng = random.Random(1)
    commit_rows(store, [(INSERT, k, k, rng.randbytes(40).hex()) for k in range(100, 160)])
    (large,) = live(store)
    for first in (0, 1, 1000, 1001):
        commit_rows(store, [(INSERT, k, first, "a") for k in range(first, first + 3)])
    before = read(store)
    compact_table(store, full=True)
    assert large.file.file_name in {entry.file.file_name for entry in live(store)}
    assert [entry.file.level for entry in live(store)] == [5] * 3
    assert read(store) == before


def test_a_vector_that_others_left_behind_stops_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Java compacts a file to nothing it leaves its vector in the index."""
    store = keyed_store(tmp_path / "t", VECTORS)
    commit_rows(store, [(INSERT, k, k * k, f"{k * k * k}") for k in range(2000)])
    compact_table(store, full=True)
    (left,) = live(store)
    commit_rows(store, [(DELETE, k, 0, "a") for k in range(3)])
    compact_table(store)
    with monkeypatch.context() as patch:
        patch.setattr("lakewright.commit.commit_plan.stale_vectors", lambda *_: None)
        message = CommitMessage(PLACE[0], PLACE[1], compact_before=(left.file,), table=store.identity, schema_id=0)
        Committer(store).commit([message])
    assert (live(store), _masked(store)) == ([], [left.file.file_name])
    commit_rows(store, [(INSERT, k, k, f"{k * k * k}") for k in range(2000)])
    compact_table(store)
    (file,) = live(store)
    commit_rows(store, [(INSERT, 7, 8, "b")])
    compact_table(store)
    assert read(store) == {k: (k, f"{k * k * k}") for k in range(2000)} | {7: (8, "b")}
    assert _masked(store) == [file.file.file_name]


def _masked(store: TableStore) -> list[str]:
    newest = store.snapshots.latest()
    assert newest is not None
    index = store.manifests.read_index(newest.index_manifest) if newest.index_manifest else []
    return [place.data_file for entry in index for place in entry.file.deletion_ranges or ()]


def test_an_overtaken_compaction_is_planned_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = keyed_store(tmp_path / "t", VECTORS)
    commit_rows(store, [(INSERT, k, 0, "a") for k in range(10)])
    plan = plan_compaction
    calls: list[int] = []

    def overtaken(found: TableStore, snapshot: Snapshot, **choice: object) -> object:
        tasks = plan(found, snapshot, **choice)  # type: ignore[arg-type]
        calls.append(snapshot.id)
        if len(calls) == 1:
            monkeypatch.setattr(compaction_job, "plan_compaction", plan)
            commit_rows(store, [(INSERT, 3, 1, "b"), (DELETE, 4, None, None)])
            compact_table(store)
            commit_rows(store, [(INSERT, 5, 2, "c")])
            monkeypatch.setattr(compaction_job, "plan_compaction", overtaken)
        return tasks

    monkeypatch.setattr(compaction_job, "plan_compaction", overtaken)
    result = compact_table(store)
    assert calls == [1, 4]
    assert result.snapshot_id == 5
    want = dict.fromkeys(range(10), (0, "a")) | {3: (1, "b"), 5: (2, "c")}
    del want[4]
    assert read(store) == want
    assert files_on_disk(store) == _named(store)


def test_a_lost_reply_deletes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = keyed_store(tmp_path / "t")
    commit_rows(store, [(INSERT, 1, 0, "a")])
    commit_rows(store, [(INSERT, 1, 1, "a")])
    before = files_on_disk(store)

    def lost(*_: object, **__: object) -> None:
        raise CommitUnknownError("who knows")

    monkeypatch.setattr(Committer, "commit", lost)
    with pytest.raises(CommitUnknownError):
        compact_table(store, full=True)
    assert len(files_on_disk(store) - before) == 1


def test_conflicts_without_end_are_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = keyed_store(tmp_path / "t")
    commit_rows(store, [(INSERT, 1, 0, "a")])
    commit_rows(store, [(INSERT, 1, 1, "a")])
    before = files_on_disk(store)

    def taken(*_: object, **__: object) -> None:
        raise CommitConflictError("somebody was faster")

    monkeypatch.setattr(Committer, "commit", taken)
    with pytest.raises(CommitConflictError):
        compact_table(store, full=True)
    assert files_on_disk(store) == before
    with pytest.warns(LakewrightWarning, match=r"snapshot 2 is published.*table\.compact"):
        compact_after_commit(_with(store, "full-compaction.delta-commits", "1"), store.snapshots.get(2), {PLACE})
    with pytest.warns(LakewrightWarning, match="STAY HIDDEN"):
        compact_after_commit(_with(store, "merge-engine", "first-row"), store.snapshots.get(2), {PLACE})


def _with(store: TableStore, key: str, value: str) -> TableStore:
    return store.with_schema(store.schema.with_options({key: value}))


def test_after_a_commit_only_what_asks_for_it_is_compacted(tmp_path: Path) -> None:
    store = keyed_store(tmp_path / "t")
    for number in range(1, 5):
        compact_after_commit(store, commit_rows(store, [(INSERT, 1, number, "a")]), {PLACE})
        assert levels(store) == {0: number}
    compact_after_commit(store, commit_rows(store, [(INSERT, 1, 5, "a")]), {PLACE})
    assert levels(store) == {5: 1}
    published = commit_rows(store, [(INSERT, 1, 6, "a")])
    compact_after_commit(_with(store, "write-only", "true"), published, {PLACE})
    compact_after_commit(store, published, set())
    compact_after_commit(store, published, {(bytes(12), -2)})
    assert levels(store) == {5: 1, 0: 1}
    compact_after_commit(_with(store, "commit.force-compact", "true"), published, {PLACE})
    assert 0 not in levels(store)
    assert read(store) == {1: (6, "a")}


def test_hidden_rows_are_shown_or_warned_of(tmp_path: Path) -> None:
    store = keyed_store(tmp_path / "t", VECTORS)
    published = commit_rows(store, [(INSERT, 1, 1, "a")])
    with pytest.warns(LakewrightWarning, match="STAY HIDDEN"):
        compact_after_commit(_with(store, "write-only", "true"), published, {PLACE})
    assert read(store) == {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compact_after_commit(store, published, {PLACE})
    assert read(store) == {1: (1, "a")}


def test_an_empty_vector_file_replaces_the_last_vectors(tmp_path: Path) -> None:
    store = keyed_store(tmp_path / "t", VECTORS)
    commit_rows(store, [(INSERT, k, 1, "a") for k in range(1000)])
    compact_table(store)
    commit_rows(store, [(INSERT, 7, 2, "b")])
    compact_table(store)
    assert levels(store) == {5: 1, 4: 1}
    compact_table(store, full=True)
    newest = store.snapshots.latest()
    assert newest is not None
    assert newest.index_manifest is not None
    (index,) = store.manifests.read_index(newest.index_manifest)
    assert (index.file.row_count, index.file.deletion_ranges, index.file.file_size) == (0, (), 1)
    assert store.storage.read(store.layout.index_file(index.file)) == b"\x01"
    assert read(store)[7] == (2, "b")


def test_compactions_lose_no_row_of_concurrent_writers(tmp_path: Path) -> None:
    store = keyed_store(tmp_path / "t", {**VECTORS, "changelog-producer": "lookup", "commit.max-retries": 50})
    failures: list[BaseException] = []

    def compact() -> None:
        try:
            for _ in range(4):
                compact_table(store)
        except CommitConflictError:
            pass  # a loser of many rounds
        except BaseException as error:  # noqa: BLE001 - shown by the assertion
            failures.append(error)

    threads = [threading.Thread(target=compact) for _ in range(2)]
    for thread in threads:
        thread.start()
    for number in range(6):
        commit_rows(store, [(INSERT, k, number, "a") for k in range(number, number + 20)])
    for thread in threads:
        thread.join()
    assert failures == []
    compact_table(store)
    assert read(store) == {k: (min(k, 5), "a") for k in range(25)}
    assert files_on_disk(store) == _named(store)
