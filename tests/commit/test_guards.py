"""Changes that rely on what they read: they are committed on a table that is as it was, or refused by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from lakewright.commit.commit_changes import guards_of
from lakewright.commit.commit_message import CommitMessage, with_guards
from lakewright.errors import CommitConflictError
from lakewright.metadata.table_store import TableStore
from lakewright.spec.manifest import ADD, DELETION_VECTORS, DeletionRange, IndexFile
from lakewright.spec.snapshot import CommitKind, Snapshot
from support.commits import committer, data_file, hooked, live_names, message, metadata_names, new_store
from support.commits import used_metadata_names as used_names

BUCKETS = {"bucket": "2", "bucket-key": "v"}
EVOLVING = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
VECTORS = {"deletion-vectors.enabled": "true"}


def newest(store: TableStore) -> Snapshot:
    snapshot = store.snapshots.latest()
    assert snapshot is not None
    return snapshot


def in_bucket(store: TableStore, name: str, dt: str, bucket: int) -> CommitMessage:
    made = message(store, partition=(dt,), bucket=bucket, rows_in=1)
    file = data_file(f"{name}.parquet")
    place = store.partition_directory(made.partition_bytes)
    store.storage.create(store.layout.data_file(place, bucket, file), b"0123456789")
    return replace(made, new_files=(file,))


def vectors(store: TableStore, name: str, **deleted: int) -> IndexFile:
    store.storage.create(store.layout.index_file(name), b"0123456789")
    ranges = tuple(DeletionRange(f"{file}.parquet", 1, 2, rows) for file, rows in deleted.items())
    return IndexFile(DELETION_VECTORS, name, 10, len(ranges), ranges)


@pytest.mark.parametrize(
    ("unchanged", "refused"),
    [
        ("bucket", {("x", 0)}),
        ("partition", {("x", 0), ("x", 1)}),
        ("table", {("x", 0), ("x", 1), ("y", 0)}),
        (None, set()),
    ],
)
def test_rows_that_others_wrote_there_are_a_conflict(
    tmp_path: Path, unchanged: str | None, refused: set[tuple[str, int]]
) -> None:
    for number, (dt, bucket) in enumerate([("x", 0), ("x", 1), ("y", 0)]):
        store = new_store(tmp_path / str(number), partition_keys=["dt"], options=BUCKETS)
        committer(store).commit([in_bucket(store, "start", "x", 0)])
        mine = with_guards(in_bucket(store, "mine", "x", 0), newest(store), unchanged=unchanged)
        committer(store, user="rival").commit([in_bucket(store, "theirs", dt, bucket)])
        if (dt, bucket) in refused:
            with pytest.raises(CommitConflictError, match=r"rows of .* after snapshot 1, .*: theirs") as caught:
                committer(store).commit([mine])
            assert caught.value.facts["snapshot_id"] == 2
            assert caught.value.facts["files"] == ("theirs.parquet",)
            assert "by user rival (APPEND)" in str(caught.value)
            assert live_names(store) == ["start", "theirs"]
            again = with_guards(mine, newest(store), unchanged=unchanged)
            committer(store).commit([again])
        else:
            committer(store).commit([mine])
        assert live_names(store) == ["mine", "start", "theirs"]


def test_every_attempt_is_checked_against_what_it_extends(tmp_path: Path) -> None:
    store, hooks, plain = hooked(tmp_path, partition_keys=["dt"], options=BUCKETS)
    committer(plain).commit([in_bucket(plain, "start", "x", 0)])
    hooks.before = [
        lambda: committer(plain).commit([in_bucket(plain, "beside", "x", 1)]),
        lambda: committer(plain).commit([in_bucket(plain, "inside", "x", 0)]),
    ]
    mine = with_guards(in_bucket(store, "mine", "x", 0), newest(plain), unchanged="bucket")
    with pytest.raises(CommitConflictError, match="inside"):
        committer(store).commit([mine])
    assert live_names(plain) == ["beside", "inside", "start"]
    assert metadata_names(plain) == used_names(plain)
    hooks.before = [lambda: committer(plain).commit([in_bucket(plain, "more", "x", 1)])]
    committer(store).commit([with_guards(mine, newest(plain), unchanged="bucket")])
    assert "mine" in live_names(plain)


def test_compactions_change_no_rows_and_deletes_do(tmp_path: Path) -> None:
    store = new_store(tmp_path, options=VECTORS)
    start = message(store, "a", "b")
    committer(store).commit([start])
    mine = with_guards(message(store, "mine"), newest(store), unchanged="table")
    merged = message(store, "merged", rows_in=None)
    compaction = replace(merged, new_files=(), compact_before=start.new_files, compact_after=merged.new_files)
    committer(store).commit([compaction])
    assert newest(store).commit_kind is CommitKind.COMPACT
    committer(store).commit([mine])
    second = with_guards(message(store, "second"), newest(store), unchanged="table")
    deletes = replace(message(store), new_index_files=(vectors(store, "index-1", merged=1),))
    committer(store).commit([deletes])
    with pytest.raises(CommitConflictError, match="index-1"):
        committer(store).commit([second])
    committer(store).commit([with_guards(message(store), newest(store), unchanged="table"), message(store, "plain")])
    assert "plain" in live_names(store)


def expired(store: TableStore) -> None:
    store.storage.delete(store.layout.snapshot_file(1))


def rolled_back(store: TableStore) -> None:
    store.storage.delete(store.layout.snapshot_file(2))
    store.storage.delete(store.layout.latest_hint)


def rolled_back_and_written(store: TableStore) -> None:
    rolled_back(store)
    committer(store).commit([message(store, "other")])


@pytest.mark.parametrize(
    ("happens", "planned_on", "why"),
    [
        (expired, 1, "snapshot 1 expired"),
        (rolled_back, 2, "snapshot 2 was rolled back"),
        (rolled_back_and_written, 2, "the table was rolled back"),
    ],
)
def test_what_is_unknown_is_a_conflict(
    tmp_path: Path, happens: Callable[[TableStore], None], planned_on: int, why: str
) -> None:
    store = new_store(tmp_path)
    committer(store).commit([message(store, "a")])
    committer(store).commit([message(store, "b")])
    mine = with_guards(message(store, "mine"), store.snapshots.get(planned_on), unchanged="table")
    happens(store)
    alone = committer(store)
    alone.sole = True  # nobody has committed the message before, so that only the guard decides
    with pytest.raises(CommitConflictError, match=f"{why}.*it is unknown.*plan the work again"):
        alone.commit([mine])


def test_a_table_without_a_snapshot_can_be_what_was_read(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    first = with_guards(message(store, "first"), None, unchanged="table")
    second = with_guards(message(store, "second"), None, unchanged="table")
    committer(store).commit([first])
    with pytest.raises(CommitConflictError, match="first"):
        committer(store).commit([second])


def test_messages_of_others_say_nothing_as_minus_one(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    assert guards_of([message(store, "a", check_from_snapshot=-1), message(store, "b")]) == ()
    same = with_guards(message(store, "c"), None)
    assert len(guards_of([same, same])) == 1


def test_the_vectors_of_a_bucket_are_replaced_only_by_who_has_seen_them(tmp_path: Path) -> None:
    store = new_store(tmp_path, options={**BUCKETS, **VECTORS})
    committer(store).commit([message(store, "a", "b")])
    one = replace(message(store), new_index_files=(vectors(store, "index-1", a=1),))
    other = replace(message(store), new_index_files=(vectors(store, "index-2", b=1),))
    committer(store).commit([one])
    with pytest.raises(CommitConflictError, match="deleted by another commit at the same time: index-1"):
        committer(store).commit([other])
    both = vectors(store, "index-3", a=1, b=1)
    aware = replace(message(store), new_index_files=(both,), deleted_index_files=one.new_index_files)
    twin = replace(aware, new_index_files=(vectors(store, "index-4", a=2),))
    committer(store).commit([aware])
    with pytest.raises(CommitConflictError, match="gone: index-1"):
        committer(store).commit([twin])


def columns(store: TableStore, name: str, *cols: str, first: int = 0, rows: int = 2) -> CommitMessage:
    """Return the message of a file that holds some columns of rows that are there."""
    made = message(store, name)
    (file,) = made.new_files
    return replace(made, new_files=(replace(file, row_count=rows, first_row_id=first, write_cols=cols),), rows_in=None)


def evolving(root: Path) -> TableStore:
    """Make a table whose rows 0 and 1 are in one file, and row 2 is in another."""
    store = new_store(root, options={**EVOLVING, **VECTORS})
    pair = message(store, "pair", rows_in=None)
    pair = replace(pair, new_files=(replace(pair.new_files[0], row_count=2),))
    committer(store).commit([pair])
    committer(store).commit([message(store, "single")])
    return store


def test_columns_of_the_same_rows_can_be_changed_side_by_side(tmp_path: Path) -> None:
    store = evolving(tmp_path)
    base = newest(store)
    rivals = [with_guards(columns(store, f"update-{c}", c), base) for c in ("dt", "hour", "v")]
    for one in rivals:
        committer(store).commit([one])
    entries = store.manifests.live(newest(store))
    assert {e.file.file_name: (e.file.first_row_id, e.file.max_sequence_number) for e in entries} == {
        "pair.parquet": (0, 1),
        "single.parquet": (2, 2),
        "update-dt.parquet": (0, 3),
        "update-hour.parquet": (0, 4),
        "update-v.parquet": (0, 5),
    }
    assert newest(store).next_row_id == 3


@pytest.mark.parametrize("reads", [(), ("hour",)])
@pytest.mark.parametrize("cols", [("v",), ("v", "dt"), ("hour",), ("dt",)])
def test_the_same_columns_of_the_same_rows_conflict(
    tmp_path: Path, cols: tuple[str, ...], reads: tuple[str, ...]
) -> None:
    store = evolving(tmp_path)
    mine = with_guards(columns(store, "mine", "v"), newest(store), reads=reads)
    committer(store).commit([columns(store, "theirs", *cols)])
    committer(store).commit([message(store, "new")])
    if {"v", *reads} & set(cols):
        with pytest.raises(CommitConflictError, match=r"columns of the same rows .*: theirs") as caught:
            committer(store).commit([mine])
        assert caught.value.facts["snapshot_id"] == 3
    else:
        committer(store).commit([mine])


def test_a_message_of_another_implementation_is_held_to_its_snapshot(tmp_path: Path) -> None:
    store = evolving(tmp_path)
    mine = CommitMessage.from_java(with_guards(columns(store, "mine", "v"), newest(store)).to_java())
    assert (mine.check_from_snapshot, mine.planned_on) == (2, None)
    committer(store).commit([columns(store, "theirs", "v")])
    with pytest.raises(CommitConflictError, match="theirs"):
        committer(store).commit([mine])
    committer(store).commit([replace(mine, check_from_snapshot=3)])


def test_columns_need_a_range_that_is_there(tmp_path: Path) -> None:
    store = evolving(tmp_path)
    for first, rows, why in ((0, 1, "rewritten"), (1, 2, "rewritten"), (0, 3, "rewritten"), (4, 1, "do not exist")):
        with pytest.raises(CommitConflictError, match=why):
            committer(store).commit([columns(store, f"bad-{first}-{rows}", "v", first=first, rows=rows)])
    committer(store).commit([columns(store, "good", "v", first=2, rows=1)])
    beyond = columns(store, "beyond", "v", first=3, rows=1)
    with pytest.raises(CommitConflictError, match="do not exist"):
        committer(store).commit(
            [with_guards(beyond, newest(store))]
        )  # it changes rows that were there when it was planned
    committer(store).commit([beyond])  # its writer numbered new rows
    assert newest(store).next_row_id == 4


def joined(store: TableStore) -> CommitMessage:
    """Return the compaction of both groups into one."""
    before = tuple(e.file for e in store.manifests.live(newest(store)))
    one = columns(store, "joined", rows=3)
    file = replace(one.new_files[0], write_cols=None, min_sequence_number=1, max_sequence_number=2)
    return replace(one, new_files=(), compact_before=before, compact_after=(file,))


def test_rows_that_a_compaction_moved_conflict_with_their_columns_and_the_reverse(tmp_path: Path) -> None:
    store = evolving(tmp_path)
    mine = with_guards(columns(store, "mine", "v"), newest(store))
    twice, again = joined(store), evolving(tmp_path / "again")
    committer(store).commit([twice])
    with pytest.raises(CommitConflictError, match="rows 0 to 1, which were rewritten"):
        committer(store).commit([mine])
    late = joined(again)
    committer(again).commit([columns(again, "mine", "v")])
    with pytest.raises(CommitConflictError, match="would overlap"):
        committer(again).commit([late])


def test_a_group_is_rewritten_whole_or_not_at_all(tmp_path: Path) -> None:
    store = evolving(tmp_path)
    pair = next(e.file for e in store.manifests.live(newest(store)) if e.file.row_count == 2)
    rewrite = with_guards(replace(message(store, "rewritten"), deleted_files=(pair,)), newest(store))
    committer(store).commit([columns(store, "theirs", "v")])
    for attempt in (rewrite, replace(rewrite, check_from_snapshot=None, planned_on=None)):
        with pytest.raises(CommitConflictError, match="theirs"):
            committer(store).commit([attempt])
    other = replace(rewrite, deleted_files=(replace(pair, row_count=1),))
    with pytest.raises(CommitConflictError, match="holds other rows"):
        committer(store).commit([other])


def test_deleted_rows_rely_on_the_columns_that_chose_them(tmp_path: Path) -> None:
    store = evolving(tmp_path)
    base = newest(store)

    def deletes(number: int, *reads: str) -> CommitMessage:
        made = message(store, new_index_files=(vectors(store, f"index-{number}", pair=1),))
        return with_guards(made, base, reads=reads)

    committer(store).commit([columns(store, "theirs", "v")])
    with pytest.raises(CommitConflictError, match="theirs"):
        committer(store).commit([deletes(1, "v", "dt")])
    committer(store).commit([deletes(2, "dt")])
    with pytest.raises(CommitConflictError, match=r"pair\.parquet"):
        committer(store).commit([deletes(3)])


def test_an_update_and_new_rows_in_one_commit_get_their_ids_after_a_lost_race(tmp_path: Path) -> None:
    store, hooks, plain = hooked(tmp_path, options=EVOLVING)
    first = replace(message(plain, "start", rows_in=None))
    committer(plain).commit([replace(first, new_files=(replace(first.new_files[0], row_count=2),))])
    hooks.before = [
        lambda: committer(plain).commit([message(plain, "rival")]),
        lambda: committer(plain).commit([columns(plain, "theirs", "dt")]),
    ]
    update, insert = columns(store, "update", "v"), message(store, "insert")
    made = replace(update, new_files=(*update.new_files, *insert.new_files))
    committer(store).commit([with_guards(made, newest(plain))])
    files = {e.file.file_name: e.file for e in plain.manifests.live(newest(plain)) if e.kind == ADD}
    assert {name: (f.first_row_id, f.min_sequence_number, f.max_sequence_number) for name, f in files.items()} == {
        "start.parquet": (0, 1, 1),
        "rival.parquet": (2, 2, 2),
        "theirs.parquet": (0, 3, 3),
        "update.parquet": (0, 4, 4),
        "insert.parquet": (3, 4, 4),
    }
    assert newest(plain).next_row_id == 4
    assert metadata_names(plain) == used_names(plain)


def test_plain_appends_look_at_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = evolving(tmp_path)

    def refuse(*_: object, **__: object) -> None:
        pytest.fail("an append looked at the table's files")

    monkeypatch.setattr("lakewright.commit.commit_plan.live_files", refuse)
    monkeypatch.setattr("lakewright.commit.commit_plan.find_broken_guard", refuse)
    committer(store).commit([message(store, "more")])
