"""Old snapshots go, and with them exactly the files that nothing else names."""

from __future__ import annotations

import itertools
import os
import shutil
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lakewright as lw
from contract.faulty_storage import FaultyStorage
from lakewright.errors import CommitConflictError, CorruptTableError, InvalidInputError, NotFoundError
from lakewright.maintenance import snapshot_expiry as expire_module
from lakewright.maintenance.rollback import publish_state
from lakewright.maintenance.snapshot_expiry import ExpireResult, Retention, _first_kept, expire_snapshots
from lakewright.metadata.refs import Consumers
from lakewright.metadata.table_store import TableStore
from lakewright.spec.manifest import COMPACT, DELETION_VECTORS, DeletionRange, IndexFile
from lakewright.spec.option_values import MAX_INT
from lakewright.spec.snapshot import CommitKind, Snapshot, to_json
from lakewright.spec.table_options import TableOptions
from lakewright.table.open_table import open_table
from support.commits import NOW, Ticks, committer, data_file, live_names, message, metadata_names, new_store
from support.effort import examples
from support.golden import WAREHOUSE, expected

HOUR = 60 * 60 * 1000
LATER = NOW + 100 * HOUR
_seeds = itertools.count(1_000_000)


def retention(**more: int) -> Retention:
    """Keep one snapshot and let everything else go, unless told otherwise."""
    return replace(Retention(1, 2**31 - 1, LATER, 50), **more)


def expire(store: TableStore, *, dry_run: bool = False, **more: int) -> ExpireResult:
    return expire_snapshots(store, retention(**more), dry_run=dry_run, now_millis=LATER)


def append(store: TableStore, *names: str, hour: int = 0) -> Snapshot:
    snapshot = committer(store, ticks=Ticks(next(_seeds), now=NOW + hour * HOUR)).commit([message(store, *names)])
    assert snapshot is not None
    return snapshot


def compact(store: TableStore, name: str) -> Snapshot:
    """Rewrite all files into one."""
    newest = store.snapshots.latest()
    assert newest is not None
    before = tuple(e.file for e in store.manifests.live(newest))
    made = message(store, name)
    after = tuple(replace(f, file_source=COMPACT, row_count=len(before)) for f in made.new_files)
    changed = replace(made, new_files=(), rows_in=None, compact_before=before, compact_after=after)
    snapshot = committer(store).commit([changed])
    assert snapshot is not None
    return snapshot


def names_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def data_names(store: TableStore) -> list[str]:
    return sorted(p.stem for p in Path(store.layout.root).glob("bucket-*/*"))


def needed_names(store: TableStore) -> set[str]:
    """Return the names of all metadata files that snapshots and tags need, found without the code under test."""
    needed: set[str] = set()
    snapshots = [store.snapshots.get(i) for i in store.snapshots.ids()]
    for s in [*snapshots, *(tag.snapshot for tag in store.tags.all())]:
        needed |= {s.base_manifest_list, s.delta_manifest_list}
        needed |= {m.file_name for m in store.manifests.files_of(s)}
        needed |= {s.index_manifest} if s.index_manifest else set()
        if s.changelog_manifest_list:
            needed |= {s.changelog_manifest_list}
            needed |= {m.file_name for m in store.manifests.read_list(s.changelog_manifest_list)}
    return needed


@pytest.mark.parametrize(
    ("ids", "change", "wanted", "kept"),
    [
        (range(1, 11), {}, None, 10),  # all but one are old
        (range(1, 11), {"count_min": 3}, None, 8),
        (range(1, 4), {"count_min": 10}, None, 1),  # fewer than must stay
        (range(1, 11), {"limit": 4}, None, 5),
        (range(1, 11), {}, 6, 6),
        (range(1, 11), {"count_min": 9}, 6, 2),
        (range(1, 11), {"old_millis": 5}, None, 4),  # 4 stays: its successor, 5, is not older than 5
        (range(1, 11), {"old_millis": 0}, None, 1),
        (range(1, 11), {"old_millis": 0, "count_max": 3}, None, 8),  # too many, however young
        (range(1, 11), {"old_millis": 0, "count_max": 3}, 5, 5),
        (range(5, 11), {"old_millis": 0, "count_max": 20}, None, 5),
        ([1, 2, 5, 6, 7], {}, None, 7),  # an expiry was interrupted
        ([1, 2, 5, 6, 7], {"limit": 3}, None, 5),
        ([7], {}, None, 7),
    ],
)
def test_the_first_snapshot_that_retention_keeps(
    ids: list[int], change: dict[str, int], wanted: int | None, kept: int
) -> None:
    rules = replace(Retention(1, 2**31 - 1, 1000, 50), **change)
    assert _first_kept(list(ids), rules, wanted, lambda i: i) == kept


def test_arguments_of_an_expiry_replace_its_options() -> None:
    options = TableOptions({"snapshot.time-retained": "2 h", "snapshot.num-retained.max": "30"})
    assert Retention.of_options(options, LATER) == Retention(10, 30, LATER - 2 * HOUR)
    given = Retention.of_options(options, LATER, retain_max=5, older_than=7, max_deletes=3)
    assert given == Retention(5, MAX_INT, 7, 3), "what is younger than the time that is named stays"
    assert Retention.of_options(TableOptions({"snapshot.expire.limit": "7"}), LATER).limit == 7
    for bad in ({"retain_min": 0}, {"retain_min": 5, "retain_max": 4}, {"max_deletes": -1}):
        with pytest.raises(InvalidInputError):
            Retention.of_options(options, LATER, **bad)


def test_all_that_may_go_goes_in_one_call(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    for hour in range(60):
        append(store, f"f{hour}", hour=hour)
    some = expire(store, limit=4, dry_run=True)
    assert (len(some.snapshot_ids), some.left) == (4, 55)
    assert "no more than 4 snapshots go at once (max_deletes): expire again" in some.held_by
    rules = Retention.of_options(TableOptions({}), LATER, retain_max=1)
    gone = expire_snapshots(store, rules, now_millis=LATER)
    assert (len(gone.snapshot_ids), gone.left) == (59, 0)
    assert gone.held_by == ("the newest 1 snapshot must stay (retain_min)",)


def test_what_holds_an_expiry_back_is_named(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    for hour in range(6):
        append(store, f"f{hour}", hour=hour)
    compact(store, "all")
    Consumers(store.storage, store.layout).record("forgotten", 3)
    Consumers(store.storage, store.layout).record("reader", 7)
    store.tags.create("first", store.snapshots.get(1))
    held = expire(store)
    assert (held.snapshot_ids, held.left) == ((1, 2), 4)
    assert held.held_by == (
        "consumer 'forgotten' reads snapshot 3 next; if it is no longer used, delete it",
        "the newest 1 snapshot must stay (retain_min)",
        "tag 'first' keeps files of snapshot 1",
    )
    assert "forgotten" in repr(held)
    Consumers(store.storage, store.layout).delete("forgotten")
    young = expire(store, old_millis=NOW + 3 * HOUR)
    assert young.held_by[0] == "snapshot 3 is not old enough (older_than, snapshot.time-retained)"


def test_a_time_protects_what_is_younger(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    for hour in range(6):
        append(store, f"f{hour}", hour=hour)
    rules = Retention.of_options(TableOptions({}), LATER, retain_max=1, older_than=NOW + 3 * HOUR)
    assert expire_snapshots(store, rules, now_millis=LATER).snapshot_ids == (1, 2)


def test_appends_keep_all_data_and_lose_old_metadata(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    assert expire(store) == ExpireResult()
    for hour, name in enumerate("abcde"):
        append(store, name, hour=hour)
    before = metadata_names(store)
    trial = expire(store, dry_run=True, count_min=2)
    assert (trial.snapshot_ids, trial.data_files, trial.dry_run) == ((1, 2, 3), 0, True)
    assert metadata_names(store) == before
    done = expire(store, count_min=2)
    assert done == replace(trial, dry_run=False)
    assert store.snapshots.ids() == [4, 5]
    assert store.snapshots.earliest_id() == 4
    assert store.storage.read(store.layout.earliest_hint) == b"4"
    assert live_names(store) == list("abcde")
    assert data_names(store) == list("abcde")
    assert metadata_names(store) == needed_names(store)
    assert done.metadata_files == len(before - metadata_names(store))
    assert expire(store, count_min=2).files == 0
    with pytest.raises(NotFoundError, match="expired"):
        store.snapshots.get(2)


def test_the_oldest_snapshots_go_first(tmp_path: Path) -> None:
    """A gap in the ids would look like a rollback to writers at work."""
    store = new_store(tmp_path)
    for hour, name in enumerate("abcde"):
        append(store, name, hour=hour)
    faulty = FaultyStorage(store.storage)
    expire(replace(store, storage=faulty))
    removed = [call.path for call in faulty.calls if call.verb == "take"]
    assert removed == [store.layout.snapshot_file(snapshot_id) for snapshot_id in (1, 2, 3, 4)]


def test_replaced_files_go_with_the_last_snapshot_that_has_them(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    append(store, "a")
    append(store, "b")
    compact(store, "c")
    append(store, "d")
    assert expire(store, limit=1).data_files == 0
    assert data_names(store) == list("abcd")  # snapshot 2 has a and b
    assert expire(store, limit=1).data_files == 2
    assert data_names(store) == list("cd")
    assert live_names(store) == list("cd")


def test_a_file_that_only_changed_its_level_is_kept(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    append(store, "a")
    (file,) = (e.file for e in store.manifests.live(store.snapshots.get(1)))
    up = message(store, compact_before=(file,), compact_after=(replace(file, level=5),))
    committer(store).commit([up])
    append(store, "b")
    expire(store)
    assert data_names(store) == list("ab")


def test_a_rollback_that_is_a_new_snapshot_keeps_what_it_brought_back(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    append(store, "a")
    compact(store, "b")
    (old,) = (e.file for e in store.manifests.live(store.snapshots.get(1)))
    (new,) = (e.file for e in store.manifests.live(store.snapshots.get(2)))
    back = message(store, deleted_files=(new,), new_files=(old,), rows_in=None)
    snapshot = committer(store).commit([back])
    assert snapshot is not None
    assert snapshot.commit_kind is CommitKind.OVERWRITE
    append(store, "c")
    expire(store, limit=1)
    assert data_names(store) == list("abc")
    expire(store)
    assert data_names(store) == list("ac")
    assert live_names(store) == list("ac")


def test_side_files_and_indexes_go_too(tmp_path: Path) -> None:
    store = new_store(tmp_path, options={"deletion-vectors.enabled": "true"})
    made = message(store, "a")
    (file,) = made.new_files
    side = replace(file, extra_files=("a.parquet.index",))
    store.storage.create(store.layout.extra_file("", 0, side, "a.parquet.index"), b"i")
    committer(store).commit([replace(made, new_files=(side,))])

    def vectors(name: str) -> IndexFile:
        index = IndexFile(DELETION_VECTORS, name, 10, 1, (DeletionRange("a.parquet", 1, 2, 1),))
        store.storage.create(store.layout.index_file(index), b"0123456789")
        return index

    first, second = vectors("i-1"), vectors("i-2")
    committer(store).commit([message(store, new_index_files=(first,))])
    committer(store).commit([message(store, new_index_files=(second,), deleted_index_files=(first,))])
    append(store, "b")
    index_directory = Path(store.layout.index_directory)
    assert expire(store).index_files == 1
    assert names_in(index_directory) == ["i-2"]
    committer(store).overwrite([message(store, "c")])
    append(store, "d")
    done = expire(store)
    assert (done.data_files, done.index_files) == (3, 1)
    assert data_names(store) == list("cd")
    assert names_in(index_directory) == []
    assert metadata_names(store) == needed_names(store)


def test_tags_and_branches_keep_their_files(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    append(store, "a")
    store.tags.create("one", store.snapshots.get(1))
    append(store, "b")
    branch = replace(store, layout=store.layout.for_branch("side"))
    store.storage.create(branch.layout.schema_file(0), store.storage.read(store.layout.schema_file(0)))
    store.storage.create(branch.layout.snapshot_file(2), to_json(store.snapshots.get(2)).encode())
    compact(store, "c")
    committer(store).overwrite([message(store, "d")])
    expire(store)
    assert data_names(store) == list("abd")
    assert live_names(store, store.tags.get("one").snapshot) == ["a"]
    assert live_names(branch) == list("ab")
    assert needed_names(store) | needed_names(branch) == metadata_names(store)
    # The branch expires for itself, and keeps what the table has.
    append(branch, "e")
    committer(branch).overwrite([message(branch, "f")])
    expire(branch)
    assert data_names(store) == list("adf")
    assert live_names(store) == ["d"]
    assert live_names(store, store.tags.get("one").snapshot) == ["a"]


def test_snapshots_that_do_not_follow_each_other_keep_their_files(tmp_path: Path) -> None:
    """Java's fast-forward to a branch whose first snapshots have expired leaves those of the table below it."""
    store = new_store(tmp_path)
    append(store, "a")
    branch = replace(store, layout=store.layout.for_branch("side"))
    store.storage.create(branch.layout.schema_file(0), store.storage.read(store.layout.schema_file(0)))
    store.storage.create(branch.layout.snapshot_file(1), to_json(store.snapshots.get(1)).encode())
    append(branch, "b")
    append(branch, "c")
    compact(store, "x")
    store.storage.create(store.layout.snapshot_file(3), to_json(branch.snapshots.get(3)).encode())
    store.storage.delete_directory(branch.layout.branch_root)
    append(store, "d")
    assert expire(store, count_min=2).snapshot_ids == (1, 2)
    assert live_names(store, store.snapshots.get(3)) == list("abc")
    assert data_names(store) == list("abcdx")  # what only snapshot 2 had goes with the orphans
    assert needed_names(store) <= metadata_names(store)


def test_a_snapshot_that_got_the_id_of_an_expiring_one_stays(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    append(store, "a")
    compact(store, "b")
    append(store, "c")
    other = to_json(replace(store.snapshots.get(2), base_manifest_list="of-another-branch")).encode()

    class Forwarded:
        """A storage through which the table gets the snapshot of a branch just when its own goes."""

        def take(self, path: str) -> bytes | None:
            if path == store.layout.snapshot_file(2):
                store.storage.replace(path, other)
            return store.storage.take(path)

        def __getattr__(self, name: str) -> object:
            return getattr(store.storage, name)

    with pytest.raises(CommitConflictError, match="expire again"):
        expire(replace(store, storage=Forwarded()))  # type: ignore[arg-type]
    assert store.storage.read(store.layout.snapshot_file(2)) == other
    assert data_names(store) == list("abc")


def test_a_tag_that_comes_in_between_keeps_its_files(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    append(store, "a")
    compact(store, "b")
    first = store.snapshots.get(1)

    class Late:
        """A storage through which somebody tags a snapshot just when it is going."""

        def take(self, path: str) -> bytes | None:
            if path == store.layout.snapshot_file(1):
                store.tags.create("late", first)
            return store.storage.take(path)

        def __getattr__(self, name: str) -> object:
            return getattr(store.storage, name)

    expire(replace(store, storage=Late()))  # type: ignore[arg-type]
    assert store.snapshots.ids() == [2]
    assert live_names(store, store.tags.get("late").snapshot) == ["a"]
    assert data_names(store) == ["a", "b"]


def test_consumers_keep_what_they_have_to_read(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    for name in "abcd":
        append(store, name)
    consumers = Consumers(store.storage, store.layout)
    consumers.record("slow", 2)
    assert expire(store).snapshot_ids == (1,)
    consumers.record("slow", 4)
    assert expire(store).snapshot_ids == (2, 3)


def test_silent_consumers_are_forgotten(tmp_path: Path) -> None:
    store = new_store(tmp_path, options={"consumer.expiration-time": "1 h", "write-only": "true"})
    for name in "abcd":
        append(store, name)
    consumers = Consumers(store.storage, store.layout)
    consumers.record("dead", 2)
    os.utime(store.layout.consumer_file("dead"), (0, 0))
    assert expire(store, dry_run=True).snapshot_ids == (1,)
    assert expire(store).snapshot_ids == (1, 2, 3)
    assert consumers.list() == []


def logged(store: TableStore, name: str) -> None:
    log = data_file(f"log-{name}.parquet")
    store.storage.create(store.layout.data_file("", 0, log), b"0123456789")
    committer(store).commit([replace(message(store, name), changelog_files=(log,))])


def test_changelogs_go_with_their_snapshots(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    for name in "abc":
        logged(store, name)
    store.tags.create("one", store.snapshots.get(1))
    assert expire(store).changelog_files == 1
    assert data_names(store) == ["a", "b", "c", "log-a", "log-c"]
    assert metadata_names(store) == needed_names(store)


def test_changelogs_may_outlive_their_snapshots(tmp_path: Path) -> None:
    store = new_store(
        tmp_path, options={"changelog.num-retained.min": "3", "changelog.num-retained.max": "3", "write-only": "true"}
    )
    for name in "abcde":
        logged(store, name)
    assert expire(store, count_max=1).changelog_files == 0
    changelogs = Path(store.layout.changelog_directory)
    assert names_in(changelogs) == [f"changelog-{i}" for i in (1, 2, 3, 4)]
    assert expire(store, count_max=1).changelog_files == 2
    assert names_in(changelogs) == ["EARLIEST", "changelog-3", "changelog-4"]
    assert data_names(store) == ["a", "b", "c", "d", "e", "log-c", "log-d", "log-e"]
    kept = store.snapshots.latest()
    assert kept is not None
    assert [e.file.file_name for e in store.manifests.changelog(kept)] == ["log-e.parquet"]
    lw.FileStoreTable(lw.Identifier.from_string("db.t"), store).remove_orphan_files()


def test_what_cannot_be_read_stops_everything(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    append(store, "a")
    append(store, "b")
    compact(store, "c")
    newest = store.snapshots.get(3)
    store.storage.delete(store.layout.manifest_file(newest.delta_manifest_list))
    before = data_names(store)
    with pytest.raises(CorruptTableError):
        expire(store)
    assert (store.snapshots.ids(), data_names(store)) == ([1, 2, 3], before)


def test_what_another_expiry_left_half_done_is_finished(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    for name in "abc":
        append(store, name)
    second = store.snapshots.get(2)
    store.storage.delete(store.layout.manifest_file(second.delta_manifest_list))
    store.storage.delete(store.layout.snapshot_file(1))
    assert expire(store).snapshot_ids == (2,)
    assert live_names(store) == list("abc")


def test_links_are_not_followed(tmp_path: Path) -> None:
    store = new_store(tmp_path / "w")
    append(store, "a")
    compact(store, "b")
    outside = tmp_path / "outside"
    shutil.move(store.layout.bucket_directory("", 0), outside)
    Path(store.layout.bucket_directory("", 0)).symlink_to(outside)
    expire(store)
    assert names_in(outside) == ["a.parquet", "b.parquet"]


STEPS = st.lists(
    st.sampled_from(["append", "compact", "overwrite", "tag", "untag", "expire", "expire one"]), max_size=14
)


@given(STEPS, st.sampled_from([1, 2, 3, 32]))
@settings(max_examples=examples(40))
def test_whatever_happens_all_that_is_needed_stays_and_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str], block: int
) -> None:
    with patch.object(expire_module, "_BLOCK", block):
        _check_steps(new_store(tmp_path_factory.mktemp("t")), steps)


def _check_steps(store: TableStore, steps: list[str]) -> None:
    append(store, "f0")
    held: dict[str, list[str]] = {}
    for number, step in enumerate(steps, 1):
        name = f"f{number}"
        match step:
            case "append":
                append(store, name)
            case "compact":
                compact(store, name)
            case "overwrite":
                committer(store).overwrite([message(store, name)])
            case "tag":
                newest = store.snapshots.latest()
                assert newest is not None
                store.tags.create(name, newest)
                held[name] = live_names(store)
            case "untag":
                for tag in store.tags.list()[:1]:
                    store.tags.delete(tag)
                    del held[tag]
            case "expire":
                expire(store)
            case _:
                expire(store, limit=1)
        lives = [live_names(store, store.snapshots.get(i)) for i in store.snapshots.ids()]
        for needed in (*lives, *held.values()):
            assert set(needed) <= set(data_names(store))
        assert {t: live_names(store, store.tags.get(t).snapshot) for t in store.tags.list()} == held
    if "untag" not in steps:  # what only a tag kept is left to the removal of orphans
        expire(store)
        needed_data = {n for files in (live_names(store), *held.values()) for n in files}
        assert set(data_names(store)) == needed_data
        assert metadata_names(store) == needed_names(store)


@pytest.mark.parametrize("name", sorted(n for n in expected() if n.startswith("meta.")))
def test_tables_of_java_keep_what_they_show(tmp_path: Path, name: str) -> None:
    database, short = name.split(".")
    shutil.copytree(WAREHOUSE / f"{database}.db" / short, tmp_path / short)
    table = open_table(str(tmp_path / short))
    try:
        rows = lw.read_table(table).num_rows
    except lw.UnsupportedError:
        pytest.skip("not readable")
    tags = {tag: lw.read_table(table, tag=tag).num_rows for tag in table.list_tags()}
    done = table.expire_snapshots(retain_max=1, retain_min=1, older_than=2**42)
    assert len(table.store.snapshots.ids()) <= 1 or done.snapshot_ids == ()
    assert lw.read_table(table).num_rows == rows
    assert {tag: lw.read_table(table, tag=tag).num_rows for tag in table.list_tags()} == tags
    assert table.remove_orphan_files(dry_run=True).count == 0


def test_a_rollback_that_was_cut_short_keeps_the_state_that_it_went_to(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    for hour in range(4):
        append(store, f"f{hour}", hour=hour)
    publish_state(store, store.snapshots.get(2), store.snapshots.latest(), is_cover=True)
    held = expire(store, count_max=1)
    assert (held.snapshot_ids, held.left) == ((1,), 3)
    assert "a rollback or fast-forward to snapshot 2 is at work, or was cut short: repeat it" in held.held_by
    append(store, "more", hour=5)
    assert expire(store, count_max=1).left == 0
    assert store.snapshots.ids() == [6]
    assert live_names(store) == ["f0", "f1", "more"]
