"""Two writers number their rows from the same snapshot: whoever commits later wins, whatever happens in between."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from contract.faulty_storage import FaultyStorage
from lakewright.commit.commit_changes import copy_name, origin_name
from lakewright.commit.commit_message import CommitMessage, snapshot_key
from lakewright.commit.committer import Committer
from lakewright.commit.sequence_renumbering import HighestNumbers
from lakewright.compact.postponed_rows import distribute
from lakewright.errors import CommitConflictError, CommitContentionError, CommitUnknownError, InvalidMessageError
from lakewright.metadata.authority import Outcome, Unknown
from lakewright.metadata.table_store import TableStore
from lakewright.read.read_builder import ReadBuilder
from lakewright.spec.manifest import COMPACT, EMPTY_ROW, ManifestEntry
from lakewright.spec.snapshot import CommitKind, Snapshot
from lakewright.table.write_builder import BatchWriteBuilder
from lakewright.write.table_writer import WriteJob
from support.commits import Hooked, metadata_names, used_metadata_names
from support.keyed_tables import keyed_store

PLACE = (EMPTY_ROW, 0)


def rows_of(values: Mapping[int, int]) -> pa.Table:
    keys, numbers = pa.array(values.keys(), pa.int32()), pa.array(values.values(), pa.int64())
    return pa.table({"k": keys, "v": numbers, "w": pa.array(["x"] * len(values))})


def prepared(store: TableStore, values: Mapping[int, int]) -> list[CommitMessage]:
    """Write rows and return the messages, uncommitted."""
    with BatchWriteBuilder(store).new_write() as write:
        write.write_arrow(rows_of(values))
        return write.prepare_commit()


def committer(store: TableStore) -> Committer:
    """Return a committer that does not wait. Its clock is the one that the writers have."""
    return Committer(store, sleep=lambda _seconds: None, random=Random(7).random)


def commit(store: TableStore, messages: Sequence[CommitMessage]) -> Snapshot:
    snapshot = committer(store).commit(messages)
    assert snapshot is not None
    return snapshot


def read(store: TableStore) -> dict[int, int]:
    reader = ReadBuilder(store)
    rows = reader.new_read().to_arrow(reader.new_scan().plan().splits()).to_pylist()
    assert len({row["k"] for row in rows}) == len(rows)
    return {row["k"]: row["v"] for row in rows}


def live(store: TableStore) -> list[ManifestEntry]:
    newest = store.snapshots.latest()
    return [] if newest is None else store.manifests.live(newest)


def data_names(store: TableStore) -> set[str]:
    """Return the names of all data and changelog files, live or not."""
    return {path.name for path in Path(store.layout.root).glob("bucket-*/*")}


def tables(root: Path, options: Mapping[str, object] | None = None) -> TableStore:
    return keyed_store(root, {"write-only": "true", **(options or {})})


FORMATS: list[dict[str, object]] = [
    {},
    {"file.format": "orc"},
    {"file.format": "avro"},
    {"data-file.thin-mode": "false"},
    {"file.suffix.include.compression": "true"},
]


@pytest.mark.parametrize("options", FORMATS, ids=str)
def test_the_later_commit_wins(tmp_path: Path, options: dict[str, object]) -> None:
    store = tables(tmp_path, options)
    commit(store, prepared(store, {1: 0, 2: 0}))
    first, second = prepared(store, {1: 100, 3: 100}), prepared(store, {1: 200, 2: 200, 4: 200})
    commit(store, second)
    snapshot = commit(store, first)
    assert read(store) == {1: 100, 2: 200, 3: 100, 4: 200}
    assert snapshot.total_record_count == 7
    files = sorted((e.file for e in live(store)), key=lambda file: file.max_sequence_number)
    assert all(a.max_sequence_number < b.min_sequence_number for a, b in pairwise(files))
    (original,) = first[0].new_files
    last = files[-1]
    assert (origin_name(last.file_name), last.row_count) == (original.file_name, 2)
    assert last.max_sequence_number - last.min_sequence_number == (
        original.max_sequence_number - original.min_sequence_number
    )
    same = {"file_name", "file_size", "min_sequence_number", "max_sequence_number"}
    assert replace(last, **{name: getattr(original, name) for name in same}) == original
    assert data_names(store) == {file.file_name for file in files}  # the original is gone


def test_rows_that_are_above_are_left_alone(tmp_path: Path) -> None:
    store = tables(tmp_path, {"bucket": "2"})
    commit(store, prepared(store, {1: 0}))
    mine = prepared(store, dict.fromkeys(range(20), 1))
    commit(store, mine)
    assert {e.file.file_name for e in live(store)} >= {f.file_name for m in mine for f in m.new_files}
    # What happens in one bucket does not concern the other.
    both = sorted(prepared(store, dict.fromkeys(range(20), 2)), key=lambda message: message.bucket)
    assert [m.bucket for m in both] == [0, 1]
    commit(store, [m for m in prepared(store, dict.fromkeys(range(20), 3)) if m.bucket == 0])
    commit(store, both)
    assert read(store) == dict.fromkeys(range(20), 2)
    kept = {f.file_name for m in both for f in m.new_files} & {e.file.file_name for e in live(store)}
    assert kept == {f.file_name for f in both[1].new_files}


def test_a_commit_on_the_snapshot_that_was_seen_reads_no_manifest(tmp_path: Path) -> None:
    store = tables(tmp_path)
    for number in range(3):
        commit(store, prepared(store, {number: number}))
    mine = prepared(store, {1: 5})
    assert mine[0].base_snapshot == snapshot_key(store.snapshots.latest())
    counted = FaultyStorage(store.storage)
    commit(replace(store, storage=counted), mine)
    assert [
        c.path for c in counted.calls if c.verb == "read" and "/manifest-" in c.path and "-list-" not in c.path
    ] == []


def test_a_replay_finds_the_renumbered_commit(tmp_path: Path) -> None:
    store = tables(tmp_path)
    first, second = prepared(store, {1: 1}), prepared(store, {1: 2})
    commit(store, second)
    snapshot = commit(store, first)
    commit(store, prepared(store, {9: 9}))
    assert commit(store, first) == snapshot
    assert Committer(store).commit(first) == snapshot
    assert read(store) == {1: 1, 9: 9}
    before = data_names(store)
    Committer(store).abort(first)
    assert data_names(store) == before
    # Long after, without the marker.
    stray = metadata_names(store) - used_metadata_names(store)
    assert stray
    for name in stray:
        store.manifests.delete(name)
    later = committer(store)
    later.clock = lambda: 2**42
    assert later.commit(first) == snapshot
    later.abort(first)
    assert data_names(store) == before


def test_the_changelog_is_renumbered_with_its_rows(tmp_path: Path) -> None:
    store = tables(tmp_path, {"changelog-producer": "input"})
    first, second = prepared(store, {1: 1, 2: 1}), prepared(store, {1: 2})
    commit(store, second)
    snapshot = commit(store, first)
    (row,), (change,) = store.manifests.delta(snapshot), store.manifests.changelog(snapshot)
    assert snapshot.changelog_record_count == 2
    assert change.file.file_name != first[0].changelog_files[0].file_name
    assert origin_name(change.file.file_name) == first[0].changelog_files[0].file_name
    assert change.file.min_sequence_number == row.file.min_sequence_number
    assert data_names(store) == {
        e.file.file_name
        for s in (store.snapshots.get(1), snapshot)
        for e in (*store.manifests.delta(s), *store.manifests.changelog(s))
    }


def test_messages_of_others_are_renumbered_too(tmp_path: Path) -> None:
    store = tables(tmp_path)
    commit(store, prepared(store, {1: 0}))
    theirs = [CommitMessage.from_java(m.to_java()) for m in prepared(store, {1: 1})]
    assert theirs[0].base_snapshot is None
    commit(store, prepared(store, {1: 2}))
    commit(store, theirs)
    assert read(store) == {1: 1}
    untouched = [CommitMessage.from_java(m.to_java()) for m in prepared(store, {2: 1})]
    commit(store, untouched)
    assert untouched[0].new_files[0].file_name in data_names(store)


def test_numbers_that_a_message_lies_about_are_refused(tmp_path: Path) -> None:
    store = tables(tmp_path)
    (mine,) = prepared(store, {1: 1, 2: 2})
    commit(store, prepared(store, {1: 2}))
    (file,) = mine.new_files
    for lie in ({"max_sequence_number": 0}, {"row_count": 1}, {"max_sequence_number": 2**63 - 1}):
        bad = replace(mine, new_files=(replace(file, **lie),), rows_in=None)  # type: ignore[arg-type]
        before = data_names(store)
        with pytest.raises(InvalidMessageError):
            commit(store, [bad])
        assert data_names(store) == before


def test_files_that_a_compaction_of_the_same_commit_names_cannot_be_renumbered(tmp_path: Path) -> None:
    store = tables(tmp_path)
    (mine,) = prepared(store, {1: 1})
    (after,) = prepared(store, {1: 1})
    compacted = tuple(replace(f, level=5, file_source=COMPACT) for f in after.new_files)
    both = replace(mine, compact_before=mine.new_files, compact_after=compacted)
    commit(store, prepared(store, {1: 2}))
    with pytest.raises(CommitConflictError, match="write the data again"):
        commit(store, [both])
    assert read(store) == {1: 2}


def test_rows_that_compaction_gives_to_a_bucket_are_numbered_too(tmp_path: Path) -> None:
    store = tables(tmp_path)
    (mine,) = prepared(store, {1: 1})
    commit(store, prepared(store, {1: 2}))
    given = replace(mine, new_files=(), rows_in=None, compact_after=mine.new_files)
    snapshot = commit(store, [given])
    assert snapshot.commit_kind is CommitKind.COMPACT
    assert read(store) == {1: 1}
    assert commit(store, [given]) == snapshot


class Racing:
    """A table on which others commit while somebody publishes."""

    def __init__(self, root: Path, options: Mapping[str, object] | None = None) -> None:
        self.plain = tables(root, options)
        self.hooks = Hooked()
        self.store = replace(self.plain, storage=self.hooks)  # type: ignore[arg-type]

    def between(self, *values: int) -> None:
        """Let others commit these values just before each of the next snapshots is published."""
        self.hooks.before += [self._rival(value) for value in values]

    def _rival(self, value: int) -> Callable[[], object]:
        return lambda: commit(self.plain, prepared(self.plain, {1: value}))


def test_copies_have_room_for_those_who_commit_in_between(tmp_path: Path) -> None:
    racing = Racing(tmp_path)
    mine = prepared(racing.plain, {1: 1, 2: 1})
    commit(racing.plain, prepared(racing.plain, {1: 2}))
    # The rivals look before they number, so they are above what is published, but below the copies.
    racing.between(3, 4, 5)
    commit(racing.store, mine)
    assert read(racing.plain) == {1: 1, 2: 1}
    assert racing.plain.snapshots.latest_id() == 5
    assert data_names(racing.plain) == {e.file.file_name for e in live(racing.plain)}


def test_a_lost_race_can_make_renumbering_necessary(tmp_path: Path) -> None:
    racing = Racing(tmp_path)
    mine = prepared(racing.plain, {1: 1})
    racing.between(2)
    commit(racing.store, mine)
    assert racing.plain.snapshots.latest_id() == 2
    assert read(racing.plain) == {1: 1}
    assert commit(racing.plain, mine).id == 2
    assert data_names(racing.plain) == {e.file.file_name for e in live(racing.plain)}


def test_overtaken_copies_are_made_again(tmp_path: Path) -> None:
    racing = Racing(tmp_path)
    mine = prepared(racing.plain, {1: 1})
    commit(racing.plain, prepared(racing.plain, {1: 2}))

    def leap() -> None:
        """Publish numbers above the copies."""
        (theirs,) = prepared(racing.plain, {1: 3})
        high = prepared(racing.plain, {1: 4})[0].new_files[0].min_sequence_number + 2**40
        file = replace(theirs.new_files[0], min_sequence_number=high, max_sequence_number=high)
        commit(racing.plain, [replace(theirs, new_files=(file,))])

    racing.hooks.before.append(leap)
    commit(racing.store, mine)
    newest = max(live(racing.plain), key=lambda e: e.file.max_sequence_number)
    assert origin_name(newest.file.file_name) == mine[0].new_files[0].file_name
    copies = [name for name in data_names(racing.plain) if name != origin_name(name)]
    assert copies == [newest.file.file_name]


def test_who_gives_up_takes_the_copies_back(tmp_path: Path) -> None:
    racing = Racing(tmp_path)
    mine = prepared(racing.plain, {1: 1})
    commit(racing.plain, prepared(racing.plain, {1: 2}))

    before = data_names(racing.plain)
    inner = racing.hooks.inner

    def create(path: str, data: bytes) -> bool:
        if "manifest-list" in path:
            raise OSError("disk full")
        return inner.create(path, data)

    racing.hooks.create = create  # type: ignore[method-assign]
    with pytest.raises(CommitContentionError):
        commit(racing.store, mine)
    assert data_names(racing.plain) == before
    del racing.hooks.create
    commit(racing.store, mine)
    assert read(racing.plain) == {1: 1}


class Silent:
    """Takes snapshots and never answers."""

    def publish(self, snapshot: Snapshot, base: Snapshot | None, entries: Sequence[ManifestEntry] = ()) -> Outcome:  # noqa: ARG002 - says nothing of either
        return Unknown(OSError("no reply"))


def test_in_doubt_nothing_is_deleted(tmp_path: Path) -> None:
    racing = Racing(tmp_path, {"commit.max-retries": "1"})
    mine = prepared(racing.plain, {1: 1})
    commit(racing.plain, prepared(racing.plain, {1: 2}))
    before = data_names(racing.plain)

    doubtful = committer(racing.plain)
    doubtful.publisher = Silent()
    with pytest.raises(CommitUnknownError):
        doubtful.commit(mine)
    assert before < data_names(racing.plain)
    doubtful.abort(mine)
    assert before < data_names(racing.plain)


def test_floors_follow_the_snapshots(tmp_path: Path) -> None:
    store = tables(tmp_path)

    def floor(since: str | None) -> int | None:
        newest = store.snapshots.latest()
        assert newest is not None
        return HighestNumbers(store, frozenset({PLACE}), since).in_snapshot(newest).get(PLACE)

    names = [snapshot_key(commit(store, prepared(store, {1: number}))) for number in range(20)]
    assert floor(names[-1]) is None  # nothing was added since
    assert floor(names[-2]) == 19
    assert floor(names[0]) == 19  # too far away: all live files are read
    assert floor("") == 19
    assert floor(None) == 19
    assert floor("manifest-list-of-a-snapshot-that-was-rolled-back") == 19
    known = HighestNumbers(store, frozenset({PLACE}), names[-1])
    newest = commit(store, prepared(store, {1: 1}))
    assert known.in_snapshot(newest) == {PLACE: 20}
    assert known.in_snapshot(newest) == {PLACE: 20}
    other = HighestNumbers(store, frozenset({(EMPTY_ROW, 1)}), None)
    assert other.in_snapshot(newest) == {}


@pytest.mark.parametrize("name", ["data-1.parquet", "data-x-0-0-1.zst.parquet", "plain"])
def test_names_of_copies_tell_their_origin(name: str) -> None:
    copy = copy_name(name, uuid.UUID(int=77).hex[:12])
    assert copy != name
    assert origin_name(copy) == name
    assert origin_name(name) == name


def _rows(values: Iterable[int]) -> dict[int, int]:
    return dict.fromkeys(values, 0)


def test_large_files_are_copied_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakewright.commit.sequence_renumbering._CHUNK_BYTES", 1000)
    store = tables(tmp_path)
    mine = prepared(store, _rows(range(5000)))
    commit(store, prepared(store, {1: 2}))
    commit(store, mine)
    assert read(store) == _rows(range(5000))


def test_rows_that_leave_the_postpone_bucket_count_as_written(tmp_path: Path) -> None:
    store = keyed_store(tmp_path / "t", {"bucket": -2, "postpone.default-bucket-num": 1})

    def written(values: Mapping[int, int], *, real_buckets: bool) -> list[CommitMessage]:
        with WriteJob.new(store, real_buckets=real_buckets).open_writer() as writer:
            writer.write(rows_of(values))
            return writer.prepare()

    commit(store, written({1: 10}, real_buckets=True))
    late = written({1: 30}, real_buckets=True)
    commit(store, written({2: 20, 1: 20}, real_buckets=False))
    distribute(store)
    assert read(store) == {1: 20, 2: 20}
    commit(store, late)
    assert read(store) == {1: 30, 2: 20}
