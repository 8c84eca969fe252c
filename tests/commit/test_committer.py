from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from contract.faulty_storage import FaultyStorage, MemoryStorage
from lakewright.commit import commit_search
from lakewright.commit.commit_message import CommitMessage
from lakewright.commit.committer import Committer
from lakewright.errors import (
    CommitConflictError,
    CommitContentionError,
    CommitUnknownError,
    InvalidInputError,
    InvalidMessageError,
    LakewrightWarning,
)
from lakewright.metadata.table_store import TableStore
from lakewright.spec.manifest import COMPACT, DELETION_VECTORS, DeletionRange, IndexFile
from lakewright.spec.snapshot import MAX_LONG, CommitKind, to_json
from support.commits import (
    NOW,
    Ticks,
    committer,
    data_file,
    hooked,
    live_names,
    message,
    metadata_names,
    new_store,
    used_metadata_names,
)


def fail(error: BaseException) -> Callable[[], None]:
    def act() -> None:
        raise error

    return act


def test_an_append_makes_one_complete_snapshot(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    first = committer(store).commit([message(store, "a", "b")], properties={"job": "7"})
    second = committer(store).commit([message(store, "c")], operation="WRITE", watermark=5)
    third = committer(store).commit([message(store, "d")], watermark=3)

    assert first is not None
    assert second is not None
    assert third is not None
    assert live_names(store) == ["a", "b", "c", "d"]
    assert live_names(store, first) == ["a", "b"]
    assert store.snapshots.latest() == third
    assert store.storage.read(store.layout.latest_hint) == b"3"
    assert (first.id, first.commit_kind, first.commit_identifier) == (1, CommitKind.APPEND, MAX_LONG)
    assert (first.total_record_count, first.delta_record_count) == (2, 2)
    assert (second.total_record_count, second.delta_record_count) == (3, 1)
    assert first.properties == {"job": "7"}
    assert second.operation == "WRITE"
    assert (second.watermark, third.watermark) == (5, 5)
    assert first.next_row_id == 0
    assert str(first.writer_version).startswith("lakewright-")
    assert first.uuid
    assert len({first.commit_user, second.commit_user, third.commit_user}) == 3
    assert metadata_names(store) == used_metadata_names(store)


def test_nothing_to_commit_makes_no_snapshot_unless_asked(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    assert committer(store).commit([]) is None
    assert store.snapshots.latest() is None
    empty = committer(store, user="u").commit([], 4, ignore_empty=False)
    assert empty is not None
    assert (empty.id, empty.commit_identifier, empty.commit_kind) == (1, 4, CommitKind.APPEND)


def test_the_snapshot_names_the_newest_schema_and_drops_statistics_with_the_old_one(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    committer(store).commit([message(store, "a")])
    first = store.snapshots.get(1)
    with_statistics = replace(first, id=2, statistics="stat-x", uuid="u2", next_row_id=7)
    store.storage.create(store.layout.snapshot_file(2), to_json(with_statistics).encode())
    committer(store).commit([], ignore_empty=False)
    assert store.snapshots.get(3).statistics == "stat-x"
    assert store.snapshots.get(3).next_row_id == 7
    store.schemas.create(replace(store.schema, id=1))
    committer(store).commit([], ignore_empty=False)
    assert store.snapshots.get(4).schema_id == 1
    assert store.snapshots.get(4).statistics is None


def test_a_lost_race_is_retried_and_leaves_nothing_behind(tmp_path: Path) -> None:
    store, hooks, plain = hooked(tmp_path)
    rival = [message(plain, f"r{n}") for n in range(3)]
    hooks.before = [lambda m=m: committer(plain).commit([m]) for m in rival]  # type: ignore[misc]
    ticks = Ticks()
    snapshot = committer(store, ticks=ticks).commit([message(store, "a")])
    assert snapshot is not None
    assert snapshot.id == 4
    assert live_names(plain) == ["a", "r0", "r1", "r2"]
    assert len(ticks.slept) == 3
    assert metadata_names(plain) == used_metadata_names(plain)


def test_a_lost_reply_is_recognised(tmp_path: Path) -> None:
    store, hooks, plain = hooked(tmp_path)
    hooks.after = [fail(OSError("reply lost"))]
    snapshot = committer(store).commit([message(store, "a")])
    assert snapshot == plain.snapshots.latest()
    assert plain.snapshots.ids() == [1]


def test_a_failure_before_the_effect_is_retried_and_published_once(tmp_path: Path) -> None:
    store, hooks, plain = hooked(tmp_path)
    hooks.before = [fail(OSError("no answer")), fail(OSError("no answer"))]
    snapshot = committer(store).commit([message(store, "a")])
    assert snapshot is not None
    assert plain.snapshots.ids() == [1]
    assert live_names(plain) == ["a"]


def test_a_put_that_arrives_late_is_found_by_the_retry(tmp_path: Path) -> None:
    store, hooks, plain = hooked(tmp_path)
    original = hooks.create
    held: list[tuple[str, bytes]] = []

    def create(path: str, data: bytes) -> bool:
        if "/snapshot/snapshot-" in path and not held:
            held.append((path, data))
            raise OSError("timed out")
        if "/snapshot/snapshot-" in path:
            plain.storage.create(*held[0])  # the first put arrives while the second is on its way
        return original(path, data)

    hooks.create = create  # type: ignore[method-assign]
    snapshot = committer(store).commit([message(store, "a")])
    assert snapshot == plain.snapshots.get(1)
    assert plain.snapshots.ids() == [1]
    assert metadata_names(plain) == used_metadata_names(plain)


def test_an_outcome_that_stays_unknown_deletes_nothing_and_says_so(tmp_path: Path) -> None:
    store, hooks, plain = hooked(tmp_path, options={"commit.max-retries": "3"})
    hooks.before = [fail(OSError("no answer"))] * 100
    mine = message(store, "a")
    one = committer(store)
    with pytest.raises(CommitUnknownError, match="may or may not"):
        one.commit([mine])
    assert len(hooks.before) == 100 - 4  # bounded, though an append
    assert metadata_names(plain)
    one.abort([mine])
    assert plain.storage.exists(f"{plain.layout.bucket_directory('', 0)}/a.parquet")
    hooks.before = []
    again = committer(store).commit([mine])  # what the error advises
    assert again is not None
    assert live_names(plain) == ["a"]
    assert plain.snapshots.ids() == [1]


def test_a_crash_while_publishing_is_survived_by_a_new_process(tmp_path: Path) -> None:
    store, hooks, plain = hooked(tmp_path)
    mine = message(store, "a")
    hooks.after = [fail(KeyboardInterrupt())]
    with pytest.raises(KeyboardInterrupt):
        committer(store).commit([mine])
    again = committer(plain).commit([mine])
    assert again == plain.snapshots.latest()
    assert plain.snapshots.ids() == [1]
    hooks.before = [fail(KeyboardInterrupt())]
    other = message(store, "b")
    with pytest.raises(KeyboardInterrupt):
        committer(store).commit([other])
    committer(plain).commit([other])
    assert live_names(plain) == ["a", "b"]


def test_replaying_messages_finds_the_first_snapshot(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    mine = [message(store, "a"), message(store, "b")]
    one = committer(store)
    first = one.commit(mine)
    committer(store).commit([message(store, "c")])
    assert one.commit(mine) == first
    assert committer(store).commit(list(reversed(mine))) == first
    assert committer(store, user="somebody else").commit(mine) == first
    assert store.snapshots.ids() == [1, 2]
    received = [CommitMessage.deserialize(m.serialize()) for m in mine]
    assert committer(store).commit(received) == first


def _commit_in_child(store: TableStore, data: Sequence[bytes]) -> None:
    Committer(store).commit([CommitMessage.deserialize(d) for d in data])


@pytest.mark.processes
def test_replaying_in_another_process_is_harmless(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    mine = [message(store, "a")]
    context = multiprocessing.get_context("spawn")
    child = context.Process(target=_commit_in_child, args=(store, [m.serialize() for m in mine]))
    child.start()
    child.join()
    assert child.exitcode == 0
    assert live_names(store) == ["a"]
    committer(store).commit(mine)
    assert store.snapshots.ids() == [1]


def test_twins_that_commit_the_same_messages_at_once_publish_once(tmp_path: Path) -> None:
    store, hooks, plain = hooked(tmp_path)
    mine = message(store, "a")
    hooks.before = [lambda: committer(plain).commit([mine])]
    assert committer(store).commit([mine]) == plain.snapshots.get(1)
    assert plain.snapshots.ids() == [1]
    assert committer(plain).commit([mine]) == plain.snapshots.get(1)
    assert live_names(plain) == ["a"]


def test_parts_of_one_write_are_separate_commits(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    first = message(store, "a")
    second = message(store, "b", write_id=first.write_id)
    committer(store).commit([first])
    committer(store).commit([second])
    assert live_names(store) == ["a", "b"]
    with pytest.raises(InvalidMessageError, match=r"committed by snapshot 2 already \(b\.parquet"):
        committer(store).commit([second, message(store, "c", write_id=first.write_id)])
    assert live_names(store) == ["a", "b"]


def test_a_replay_long_after_is_found_by_its_user_even_without_the_marker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = new_store(tmp_path)
    mine = message(store, "a")
    first = committer(store).commit([mine])
    committer(store).commit([message(store, "b")])
    monkeypatch.setattr(commit_search, "is_marked", lambda _store, _change, _marker: False)
    assert committer(store, ticks=Ticks(now=NOW + 3_600_000)).commit([mine]) == first
    assert committer(store, ticks=Ticks(now=NOW - 3_600_000)).commit([mine]) == first
    assert store.snapshots.ids() == [1, 2]


def test_the_common_case_looks_at_no_old_snapshot(tmp_path: Path) -> None:
    store, hooks, plain = hooked(tmp_path)
    for n in range(5):
        committer(plain).commit([message(plain, f"f{n}")])
    read: list[str] = []
    inner = hooks.inner

    def noted(path: str) -> bytes:
        read.append(path.removeprefix(plain.layout.root))
        return inner.read(path)

    hooks.read = noted  # type: ignore[attr-defined]
    committer(store).commit([message(store, "mine")])
    snapshots = [path for path in read if "/snapshot/snapshot-" in path]
    # The base is read again at the end: a rollback may have removed it.
    assert snapshots == ["/snapshot/snapshot-5", "/snapshot/snapshot-6", "/snapshot/snapshot-5"]
    assert sum("/manifest/manifest-" in path for path in read) == 2  # the two lists of the base, no manifest


def test_a_replay_after_expiry_is_unknown_or_refused(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    mine = message(store, "a")
    committer(store).commit([mine])
    committer(store).commit([message(store, "b")])
    store.storage.delete(store.layout.snapshot_file(1))
    with pytest.raises(CommitUnknownError, match="expired"):
        committer(store).commit([mine])
    assert live_names(store) == ["a", "b"]


def test_files_are_checked_before_the_commit(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    missing = replace(message(store, "a"), new_files=(data_file("nowhere.parquet"),))
    with pytest.raises(InvalidMessageError, match=r"nowhere\.parquet \(missing\)"):
        committer(store).commit([missing])
    cut = message(store, "b")
    longer = replace(cut, new_files=(data_file("b.parquet", file_size=11),))
    with pytest.raises(InvalidMessageError, match="10 bytes, not 11"):
        committer(store).commit([longer])
    many = message(store, *(f"m{n}" for n in range(30)))
    store.storage.delete(f"{store.layout.bucket_directory('', 0)}/m17.parquet")
    with pytest.raises(InvalidMessageError, match=r"1 of 30 files .*m17"):
        committer(store).commit([many])
    assert store.snapshots.latest() is None
    assert metadata_names(store) == set()


def test_appends_queue_until_the_timeout(tmp_path: Path) -> None:
    store, hooks, plain = hooked(tmp_path, options={"commit.timeout": "1 s", "commit.max-retries": "2"})
    numbers = iter(range(10_000))
    hooks.before = [lambda: committer(plain).commit([message(plain, f"r{next(numbers)}")])] * 10_000
    ticks = Ticks()
    mine = message(store, "a")
    with pytest.raises(CommitContentionError, match="was not published") as caught:
        committer(store, ticks=ticks).commit([mine])
    assert caught.value.table == "db.t"
    assert len(ticks.slept) > 10  # far more than max-retries: every lost race was somebody's progress
    assert 1000 <= ticks.now - NOW < 1400
    assert len(metadata_names(plain) - used_metadata_names(plain)) == 1, "the marker stays for the next try"
    hooks.before = []
    committer(plain).commit([mine])
    assert "a" in live_names(plain)


def test_overwrites_give_up_after_max_retries(tmp_path: Path) -> None:
    store, hooks, plain = hooked(tmp_path, options={"commit.max-retries": "2"})
    numbers = iter(range(100))
    hooks.before = [lambda: committer(plain).commit([message(plain, f"r{next(numbers)}")])] * 100
    ticks = Ticks()
    with pytest.raises(CommitContentionError):
        committer(store, ticks=ticks).overwrite([message(store, "a")])
    assert len(hooks.before) == 97
    assert [0.010 <= ticks.slept[0] < 0.012, 0.020 <= ticks.slept[1] < 0.024] == [True, True]
    assert len(metadata_names(plain) - used_metadata_names(plain)) == 1, "the marker stays for the next try"


def test_threads_that_race_lose_nothing_and_leave_nothing(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    messages = [[message(store, f"w{w}-{n}") for n in range(5)] for w in range(6)]
    errors: list[BaseException] = []

    def work(mine: list[CommitMessage]) -> None:
        try:
            for m in mine:
                Committer(store, clock=lambda: NOW).commit([m])
        except BaseException as error:  # noqa: BLE001 - reported below
            errors.append(error)

    threads = [threading.Thread(target=work, args=(mine,)) for mine in messages]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert store.snapshots.ids() == list(range(1, 31))
    assert live_names(store) == sorted(f"w{w}-{n}" for w in range(6) for n in range(5))
    assert metadata_names(store) == used_metadata_names(store)


def test_two_hundred_commits_stay_cheap() -> None:
    counted = FaultyStorage(MemoryStorage("two-hundred-commits"))
    store = new_store("memory://two-hundred-commits", storage=counted)
    calls = []
    for n in range(200):
        mine = message(store, f"f{n:03}")
        before = len(counted.calls)
        committer(store).commit([mine])
        calls.append(len(counted.calls) - before)
    newest = store.snapshots.latest()
    assert newest is not None
    assert len(live_names(store)) == 200
    assert len(store.manifests.read_list(newest.base_manifest_list)) <= 31
    # Once in thirty commits the small manifests are merged; the others cost the same for ever.
    assert max(calls[1:]) <= 50
    # A commit whose manifest lists are still in memory makes two calls less.
    assert max(calls[10:25]) == max(calls[-10:])
    assert max(calls[-10:]) <= 20


def test_a_retry_reuses_the_merged_manifests(tmp_path: Path) -> None:
    store, hooks, plain = hooked(tmp_path, options={"manifest.merge-min-count": "3"})
    for n in range(6):
        committer(plain).commit([message(plain, f"a{n}")])
    hooks.before = [lambda: committer(plain).commit([message(plain, "rival")])]
    committer(store).commit([message(store, "mine")])
    hooks.before = [
        lambda: committer(plain).commit([message(plain, "rival2")]),
        lambda: committer(plain).commit([message(plain, "rival3")]),
        lambda: committer(plain).commit([message(plain, "rival4")]),
    ]
    committer(store).commit([message(store, "mine2")])
    assert len(live_names(plain)) == 12
    assert metadata_names(plain) == used_metadata_names(plain)


# Overwrite and truncate.


def partitioned(tmp_path: Path, **options: str) -> TableStore:
    store = new_store(tmp_path, partition_keys=["dt", "hour"], options=options)
    for dt in ("x", "y", None):
        for hour in (1, 2):
            committer(store).commit([message(store, f"{dt}{hour}", partition=(dt, hour))])
    return store


def test_a_dynamic_overwrite_replaces_the_partitions_of_its_files(tmp_path: Path) -> None:
    store = partitioned(tmp_path)
    snapshot = committer(store).overwrite([message(store, "new", partition=("x", 1))])
    assert snapshot is not None
    assert snapshot.commit_kind is CommitKind.OVERWRITE
    assert live_names(store) == sorted(["new", "x2", "y1", "y2", "None1", "None2"])
    assert (snapshot.delta_record_count, snapshot.total_record_count) == (0, 6)
    assert committer(store).overwrite([]) is None
    assert store.snapshots.latest() == snapshot
    assert metadata_names(store) == used_metadata_names(store)


@pytest.mark.parametrize(
    ("spec", "left"),
    [
        ({"dt": "x", "hour": 1}, ["None1", "None2", "x2", "y1", "y2"]),
        ({"dt": "x", "hour": "1"}, ["None1", "None2", "x2", "y1", "y2"]),
        ({"hour": 2}, ["None1", "x1", "y1"]),
        ({"dt": "__DEFAULT_PARTITION__"}, ["x1", "x2", "y1", "y2"]),
        ({"dt": None}, ["x1", "x2", "y1", "y2"]),
        ({}, []),
        (None, []),
        ({"dt": "nothing there"}, ["None1", "None2", "x1", "x2", "y1", "y2"]),
    ],
)
def test_a_static_overwrite_replaces_what_agrees_with_the_spec_even_by_nothing(
    tmp_path: Path, spec: dict[str, object] | None, left: list[str]
) -> None:
    store = partitioned(tmp_path)
    snapshot = committer(store).overwrite([], static_partition=spec, dynamic=False)
    assert snapshot is not None
    assert live_names(store) == left
    assert snapshot.total_record_count == len(left)


def test_a_static_overwrite_takes_files_inside_the_spec_only(tmp_path: Path) -> None:
    store = partitioned(tmp_path, **{"dynamic-partition-overwrite": "false"})
    inside = message(store, "new", partition=("x", 7))
    outside = message(store, "bad", partition=("y", 1))
    with pytest.raises(InvalidInputError, match="dt=y/hour=1"):
        committer(store).overwrite([inside, outside], static_partition={"dt": "x"})
    with pytest.raises(InvalidInputError, match=r"'day' in the partition spec .* \(dt, hour\)"):
        committer(store).overwrite([inside], static_partition={"day": "x"})
    committer(store).overwrite([inside], static_partition={"dt": "x"})
    assert live_names(store) == ["None1", "None2", "new", "y1", "y2"]


def test_a_spec_while_dynamic_overwrite_is_on_is_only_a_check_and_warns(tmp_path: Path) -> None:
    store = partitioned(tmp_path)
    with pytest.warns(LakewrightWarning, match="replaces only the partitions"):
        committer(store).overwrite([message(store, "new", partition=("x", 1))], static_partition={"dt": "x"})
    assert live_names(store) == sorted(["new", "x2", "y1", "y2", "None1", "None2"])
    with pytest.raises(InvalidInputError, match="dt=y/hour=1"):
        committer(store).overwrite([message(store, "z", partition=("y", 1))], static_partition={"dt": "x"})


def test_an_unpartitioned_overwrite_replaces_the_table(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    committer(store).overwrite([message(store, "first")])
    committer(store).commit([message(store, "a")])
    committer(store).overwrite([message(store, "b")])
    assert live_names(store) == ["b"]
    committer(store).overwrite([])
    assert live_names(store) == []
    with pytest.raises(InvalidInputError, match="not partitioned"):
        committer(store).overwrite([], static_partition={"dt": "x"})


def test_an_overwrite_replaces_what_is_there_at_commit_time(tmp_path: Path) -> None:
    store, hooks, plain = hooked(tmp_path)
    committer(plain).commit([message(plain, "old")])
    hooks.before = [lambda: committer(plain).commit([message(plain, "late")])]
    committer(store).overwrite([message(store, "new")])
    assert live_names(plain) == ["new"]
    assert metadata_names(plain) == used_metadata_names(plain)


def test_replaying_an_overwrite_is_harmless(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    mine = [message(store, "new")]
    first = committer(store).overwrite(mine)
    committer(store).commit([message(store, "later")])
    assert committer(store).overwrite(mine) == first
    assert live_names(store) == ["later", "new"]


def test_if_unchanged_since_refuses(tmp_path: Path) -> None:
    store = partitioned(tmp_path)
    mine = [message(store, "new", partition=("x", 1))]
    with pytest.raises(CommitConflictError, match="changed after snapshot 0"):
        committer(store).overwrite(mine, if_unchanged_since=0)
    with pytest.raises(CommitConflictError, match="no snapshot 9"):
        committer(store).overwrite(mine, if_unchanged_since=9)
    assert committer(store).overwrite(mine, if_unchanged_since=1)
    committer(store).commit([message(store, "more", partition=("y", 1))])
    assert committer(store).overwrite([message(store, "new2", partition=("x", 1))], if_unchanged_since=7)


def test_if_unchanged_since_notices_deleted_rows(tmp_path: Path) -> None:
    store = new_store(tmp_path, options={"deletion-vectors.enabled": "true"})
    committer(store).commit([message(store, "a")])
    mine = [message(store, "new")]
    committer(store).commit([replace(message(store), new_index_files=(vectors(store, "index-1", "a"),))])
    with pytest.raises(CommitConflictError, match="index-1"):
        committer(store).overwrite(mine, if_unchanged_since=1)
    assert committer(store).overwrite(mine, if_unchanged_since=2)


def test_strict_mode_refuses_what_others_rewrote(tmp_path: Path) -> None:
    store = partitioned(tmp_path)
    strict = store.with_schema(store.schema.with_options({"commit.strict-mode.last-safe-snapshot": "5"}))
    assert committer(strict).commit([message(store, "a", partition=("x", 1))])
    with pytest.raises(CommitConflictError, match="unsafe after snapshot 5"):
        committer(strict).overwrite([message(store, "b", partition=("x", 1))])
    assert committer(strict).overwrite([message(store, "c", partition=("y", 1))])
    with pytest.raises(CommitConflictError, match=r"snapshot 8 by user .* \(OVERWRITE\)"):
        committer(strict).commit([message(store, "d", partition=("y", 1))])


def test_truncate_removes_partitions_or_the_whole_table(tmp_path: Path) -> None:
    store = partitioned(tmp_path)
    snapshot = committer(store).truncate([{"dt": "x"}, {"dt": "y", "hour": 2}])
    assert live_names(store) == ["None1", "None2", "y1"]
    assert (snapshot.operation, snapshot.commit_kind) == ("TRUNCATE", CommitKind.OVERWRITE)
    with pytest.raises(InvalidInputError, match="whole table"):
        committer(store).truncate([{}])
    with pytest.raises(InvalidInputError, match="at least one"):
        committer(store).truncate([])
    committer(store).truncate()
    assert live_names(store) == []
    total = store.snapshots.get(8).total_record_count
    assert total == 0


# Conflicts, deletion vectors, compaction.


def compaction(store: TableStore, before: CommitMessage, after: str) -> CommitMessage:
    made = message(store, after)
    files = tuple(replace(f, file_source=COMPACT, row_count=len(before.new_files)) for f in made.new_files)
    return replace(made, new_files=(), rows_in=None, compact_before=before.new_files, compact_after=files)


def test_the_second_of_two_compactions_conflicts_and_names_the_first(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    written = message(store, "a", "b")
    committer(store).commit([written])
    one, other = compaction(store, written, "c1"), compaction(store, written, "c2")
    first = committer(store, user="ann").commit([one])
    assert first is not None
    assert first.commit_kind is CommitKind.COMPACT
    assert first.total_record_count == 2
    committer(store).commit([message(store, "later")])
    with pytest.raises(CommitConflictError) as caught:
        committer(store, user="bob").commit([other])
    assert str(caught.value) == (
        "db.t: commit of user bob (COMPACT) conflicts with snapshot 2 by user ann (COMPACT): "
        "2 files to delete are gone: a.parquet, b.parquet; plan the work again on the newest snapshot"
    )
    assert (caught.value.snapshot_id, caught.value.files) == (2, ("a.parquet", "b.parquet"))
    assert live_names(store) == ["c1", "later"]
    assert metadata_names(store) == used_metadata_names(store)
    assert committer(store).commit([one]) == first
    committer(store).abort([other])
    assert not store.storage.exists(f"{store.layout.bucket_directory('', 0)}/c2.parquet")


def test_append_and_compaction_of_one_commit_are_two_snapshots(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    written = message(store, "a")
    committer(store).commit([written])
    both = replace(compaction(store, written, "c"), new_files=message(store, "n").new_files)
    snapshot = committer(store).commit([both], 7)
    assert [store.snapshots.get(i).commit_kind for i in (2, 3)] == [CommitKind.APPEND, CommitKind.COMPACT]
    assert [store.snapshots.get(i).commit_identifier for i in (2, 3)] == [7, 7]
    assert snapshot == store.snapshots.get(3)
    assert live_names(store) == ["c", "n"]
    assert committer(store).commit([both], 7) == snapshot
    stale = replace(compaction(store, written, "d"), new_files=message(store, "o").new_files)
    with pytest.raises(CommitConflictError, match="snapshot 4 with the new rows is published"):
        committer(store).commit([stale], 8)
    assert live_names(store) == ["c", "n", "o"]


def vectors(store: TableStore, name: str, *data_files: str) -> IndexFile:
    store.storage.create(store.layout.index_file(name), b"0123456789")
    ranges = tuple(DeletionRange(f"{f}.parquet", 1, 2, 1) for f in data_files)
    return IndexFile(DELETION_VECTORS, name, 10, len(ranges), ranges)


def test_deletion_vectors_conflict_with_rewrites_and_with_each_other(tmp_path: Path) -> None:
    store = new_store(tmp_path, options={"deletion-vectors.enabled": "true"})
    written = message(store, "a", "b")
    committer(store).commit([written])
    delete = replace(message(store), new_index_files=(vectors(store, "index-1", "a"),))
    snapshot = committer(store).commit([delete])
    assert snapshot is not None
    assert snapshot.commit_kind is CommitKind.OVERWRITE
    assert snapshot.index_manifest is not None
    assert [e.file.file_name for e in store.manifests.read_index(snapshot.index_manifest)] == ["index-1"]
    appended = committer(store).commit([message(store, "c")])
    assert appended is not None
    assert appended.index_manifest == snapshot.index_manifest

    same_rows = replace(message(store), new_index_files=(vectors(store, "index-2", "a"),))
    with pytest.raises(CommitConflictError, match=r"a\.parquet"):
        committer(store).commit([same_rows])
    with pytest.raises(CommitConflictError, match=r"deleted or rewritten at the same time: a\.parquet"):
        committer(store).commit([compaction(store, written, "compacted")])
    aware = replace(compaction(store, written, "compacted2"), compact_deleted_index_files=delete.new_index_files)
    committer(store).commit([aware])
    with pytest.raises(CommitConflictError, match=r"b\.parquet"):
        committer(store).commit([replace(message(store), new_index_files=(vectors(store, "index-3", "b"),))])
    assert live_names(store) == ["c", "compacted2"]


def test_an_overwrite_drops_the_index_files_of_what_it_replaces(tmp_path: Path) -> None:
    store = new_store(tmp_path, partition_keys=["dt"], options={"deletion-vectors.enabled": "true"})
    for dt in ("x", "y"):
        made = message(store, dt, partition=(dt,))
        committer(store).commit([made])
        index = vectors(store, f"index-{dt}", dt)
        committer(store).commit([replace(made, new_files=(), rows_in=0, new_index_files=(index,))])
    snapshot = committer(store).overwrite([message(store, "new", partition=("x",))])
    assert snapshot is not None
    assert snapshot.index_manifest is not None
    assert [e.file.file_name for e in store.manifests.read_index(snapshot.index_manifest)] == ["index-y"]


def test_row_ids_are_assigned_again_on_every_attempt(tmp_path: Path) -> None:
    store, hooks, plain = hooked(tmp_path, options={"row-tracking.enabled": "true"})
    committer(plain).commit([message(plain, "a", "b")])
    hooks.before = [lambda: committer(plain).commit([message(plain, "rival")])]
    committer(store).commit([message(store, "mine")])
    newest = plain.snapshots.latest()
    assert newest is not None
    assert newest.next_row_id == 4
    files = {e.file.file_name: e.file for e in plain.manifests.live(newest)}
    assert {name: f.first_row_id for name, f in files.items()} == {
        "a.parquet": 0,
        "b.parquet": 1,
        "rival.parquet": 2,
        "mine.parquet": 3,
    }
    assert (files["mine.parquet"].min_sequence_number, files["mine.parquet"].max_sequence_number) == (3, 3)
    assert metadata_names(plain) == used_metadata_names(plain)
    committer(plain).truncate()
    assert plain.snapshots.get(4).next_row_id == 4


def test_the_number_of_buckets_of_a_partition_changes_only_by_overwrite(tmp_path: Path) -> None:
    store = new_store(tmp_path, options={"bucket": "2", "bucket-key": "v"})
    committer(store).commit([message(store, "a")])
    wider = replace(store.schema, id=1, options={**store.schema.options, "bucket": "4"})
    store.schemas.create(wider)
    store = store.with_schema(wider)
    with pytest.raises(CommitConflictError, match="written for 4 buckets, its partition has 2"):
        committer(store).commit([message(store, "b")])
    old_writer = message(store, "c", total_buckets=2)
    committer(store).commit([old_writer])
    committer(store).overwrite([message(store, "d")])
    committer(store).commit([message(store, "e")])
    assert live_names(store) == ["d", "e"]


# Streams, abort, messages.


def test_filter_committed_knows_what_a_user_did(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    committer(store, user="stream").commit([message(store, "a")], 1)
    committer(store, user="stream").commit([message(store, "b")], 5)
    committer(store, user="other").commit([message(store, "c")], 9)
    assert committer(store, user="stream").filter_committed([7, 5, 1, 6]) == [6, 7]
    assert committer(store, user="new").filter_committed([2, 1]) == [1, 2]
    with pytest.raises(InvalidInputError, match="stable commit user"):
        committer(store).filter_committed([1])


def test_a_stream_replayed_without_a_filter_is_recognised(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    mine = message(store, "a")
    first = committer(store, user="stream").commit([mine], 1)
    committer(store, user="stream").commit([message(store, "b", write_id=mine.write_id)], 2)
    assert committer(store, user="stream").commit([mine], 1) == first
    assert live_names(store) == ["a", "b"]


def test_abort_deletes_only_what_no_snapshot_names(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    directory = store.layout.bucket_directory("", 0)
    committed, unused = message(store, "a"), message(store, "b")
    one = committer(store)
    one.commit([committed])
    one.abort([committed])
    committer(store).abort([committed])
    committer(store, user="other").abort([committed])
    committer(store, ticks=Ticks(now=NOW + 10**7)).abort([committed])
    assert store.storage.exists(f"{directory}/a.parquet")
    one.abort([unused])
    one.abort([unused])
    assert not store.storage.exists(f"{directory}/b.parquet")
    one.abort([])
    foreign = replace(message(store, "c"), table="somewhere else")
    with pytest.raises(InvalidMessageError, match="somewhere else"):
        one.abort([foreign])
    assert store.storage.exists(f"{directory}/c.parquet")


def test_abort_deletes_nothing_while_somebody_may_be_publishing(tmp_path: Path) -> None:
    store, hooks, plain = hooked(tmp_path)
    mine = message(store, "a")
    hooks.before = [fail(KeyboardInterrupt())]
    with pytest.raises(KeyboardInterrupt):
        committer(store).commit([mine])
    committer(plain).abort([mine])  # another object: the put of the first may still be on its way
    assert committer(plain).commit([mine])


def test_abort_knows_published_index_files(tmp_path: Path) -> None:
    store = new_store(tmp_path, options={"deletion-vectors.enabled": "true"})
    committer(store).commit([message(store, "a")])
    index = vectors(store, "index-1", "a")
    mine = replace(message(store), new_index_files=(index,))
    other = replace(message(store), new_index_files=(vectors(store, "index-2", "a"),))
    committer(store, user="stream").commit([mine], 1)
    for user in (None, "stream"):
        committer(store, user=user).abort([mine])
        committer(store, user=user, ticks=Ticks(now=NOW + 10**7)).abort([mine])
        assert store.storage.exists(store.layout.index_file(index))
    committer(store, user="stream").abort([other])
    assert not store.storage.exists(store.layout.index_file("index-2"))


def test_storage_that_fails_before_publishing_is_no_commit(tmp_path: Path) -> None:
    store, hooks, plain = hooked(tmp_path)
    original = hooks.create

    def create(path: str, data: bytes) -> bool:
        if "manifest-list" in path:
            raise OSError("disk full")
        return original(path, data)

    hooks.create = create  # type: ignore[method-assign]
    with pytest.raises(CommitContentionError, match="disk full"):
        committer(store).commit([message(store, "a")])
    assert plain.snapshots.latest() is None
    assert metadata_names(plain) == set()


def test_a_hint_that_cannot_be_written_fails_nothing(tmp_path: Path) -> None:
    store, hooks, plain = hooked(tmp_path)

    def replace_file(_path: str, _data: bytes, **_: bool) -> None:
        raise OSError("no hint today")

    hooks.replace = replace_file  # type: ignore[attr-defined]
    assert committer(store).commit([message(store, "a")])
    assert live_names(plain) == ["a"]
