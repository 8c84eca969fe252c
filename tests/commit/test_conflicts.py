from __future__ import annotations

import pickle

import pytest

from lakewright.commit.commit_changes import Change
from lakewright.commit.conflicts import (
    Conflict,
    combine_index,
    conflict_error,
    find_conflict,
    mixed_buckets,
    moved_hashes,
    overlapping_files,
    repeated_files,
    stale_vectors,
    vanished_files,
)
from lakewright.errors import CommitConflictError
from lakewright.lsm.key_order import Key
from lakewright.spec.manifest import (
    ADD,
    DELETE,
    DELETION_VECTORS,
    HASH,
    DataFile,
    DeletionRange,
    IndexEntry,
    IndexFile,
    ManifestEntry,
)
from lakewright.spec.snapshot import CommitKind, Snapshot
from support.commits import data_file

P, Q = b"p", b"q"


def entry(kind: int, name: str, partition: bytes = P, total: int = 2, level: int = 0) -> ManifestEntry:
    return ManifestEntry(kind, partition, 0, total, data_file(name, level=level))


def index(kind: int, name: str, *files: str, type_: str = DELETION_VECTORS, partition: bytes = P) -> IndexEntry:
    ranges = tuple(DeletionRange(f, 0, 1, 1) for f in files)
    return IndexEntry(kind, partition, 0, IndexFile(type_, name, 1, len(ranges), ranges))


def test_buckets_must_agree_within_a_partition() -> None:
    assert mixed_buckets([entry(ADD, "a", total=2), entry(ADD, "b", Q, total=4)], []) is None
    assert mixed_buckets([entry(ADD, "a", total=4)], [entry(ADD, "x", Q, total=2)]) is None
    assert mixed_buckets([entry(ADD, "a", total=-1)], [entry(ADD, "x", total=2)]) is None
    conflict = mixed_buckets([entry(ADD, "a", total=4)], [entry(ADD, "x", total=2)])
    assert conflict is not None
    assert conflict.files == ("a",)
    assert "overwriting" in conflict.advice
    assert mixed_buckets([entry(ADD, "a", total=4), entry(ADD, "b", total=2)], []) is not None


def test_one_identity_is_changed_once() -> None:
    assert repeated_files([entry(DELETE, "a", level=0), entry(ADD, "a", level=5)]) is None
    for twice in ([entry(ADD, "a")] * 2, [entry(DELETE, "a")] * 2, [entry(ADD, "a"), entry(DELETE, "a")]):
        conflict = repeated_files(twice)
        assert conflict is not None
        assert conflict.files == ("a",)


def test_what_is_deleted_must_be_live_and_what_is_added_must_not() -> None:
    live = [entry(ADD, "a"), entry(ADD, "b", level=5)]
    assert vanished_files([entry(DELETE, "a"), entry(DELETE, "b", level=5), entry(ADD, "c")], live) is None
    gone = vanished_files([entry(DELETE, "b", level=0), entry(DELETE, "x")], live)
    assert gone is not None
    assert gone.files == ("b", "x")
    assert gone.reason == "2 files to delete are gone"
    there = vanished_files([entry(ADD, "a")], live)
    assert there is not None
    assert there.reason == "1 file to add is in the table already"


def test_only_an_overwrite_may_change_the_buckets() -> None:
    change = Change((entry(DELETE, "a", total=2), entry(ADD, "b", total=4)))
    live = [entry(ADD, "a", total=2), entry(ADD, "c", total=2)]
    assert find_conflict(change, live, replaces=True) is None
    assert find_conflict(change, live, replaces=False) is not None
    # Whoever takes away all files of a partition may give it another number of buckets.
    assert find_conflict(change, live[:1], replaces=False) is None


def keyed(kind: int, name: str, low: int, high: int, *, level: int = 1, bucket: int = 0) -> ManifestEntry:
    file = data_file(name, level=level, min_key=bytes([low]), max_key=bytes([high]))
    return ManifestEntry(kind, P, bucket, 2, file)


def key_range(file: DataFile) -> tuple[Key, Key]:
    return ((file.min_key,),), ((file.max_key,),)


def test_files_of_a_level_must_not_share_keys() -> None:
    live = [keyed(ADD, "a", 0, 10), keyed(ADD, "b", 11, 20), keyed(ADD, "fresh", 0, 99, level=0)]
    assert overlapping_files([keyed(ADD, "c", 21, 30)], live, key_range) is None
    assert overlapping_files([keyed(ADD, "c", 5, 30, level=2)], live, key_range) is None
    assert overlapping_files([keyed(ADD, "c", 5, 30, level=0)], live, key_range) is None
    assert overlapping_files([keyed(ADD, "c", 5, 30, bucket=1)], live, key_range) is None
    for low, high in ((20, 30), (12, 13), (0, 99), (10, 10)):
        conflict = overlapping_files([keyed(ADD, "c", low, high)], live, key_range)
        assert conflict is not None
        assert "c" in conflict.files
    assert overlapping_files([keyed(DELETE, "b", 11, 20), keyed(ADD, "c", 12, 30)], live, key_range) is None
    pair = [keyed(ADD, "c", 30, 40), keyed(ADD, "d", 40, 50)]
    assert overlapping_files(pair, live, key_range) is not None
    moved = [keyed(DELETE, "fresh", 0, 99, level=0), keyed(ADD, "fresh", 0, 99, level=3)]
    assert find_conflict(Change(tuple(moved)), live, replaces=False, key_range=key_range) is None
    down = [keyed(DELETE, "fresh", 0, 99, level=0), keyed(ADD, "fresh", 0, 99, level=1)]
    assert find_conflict(Change(tuple(down)), live, replaces=False, key_range=key_range) is not None


def test_buckets_chosen_by_hashes_need_the_same_hashes() -> None:
    there = [index(ADD, "h1", type_=HASH), index(ADD, "v", "a"), index(ADD, "h2", type_=HASH, partition=Q)]
    assert moved_hashes([(P, ("h1",)), (Q, ("h2",))], there) is None
    assert moved_hashes([(b"new", ())], there) is None
    for base in ((P, ()), (P, ("h0",)), (P, ("h1", "h2")), (b"new", ("h1",))):
        conflict = moved_hashes([base], there)
        assert conflict is not None
        assert "write the data again" in conflict.advice


def test_a_vector_must_speak_of_a_live_file() -> None:
    live = [entry(ADD, "a"), entry(ADD, "b")]
    deletes_rows = Change(index=(index(ADD, "i", "a"),))
    assert stale_vectors([index(ADD, "i", "a")], deletes_rows, live) is None
    gone = stale_vectors([index(ADD, "i", "x")], Change(index=(index(ADD, "i", "x"),)), live)
    assert gone is not None
    assert gone.files == ("x",)
    rewrites = Change((entry(DELETE, "a"), entry(ADD, "c")))
    assert stale_vectors([index(ADD, "i", "a")], rewrites, live) is not None
    assert stale_vectors([index(ADD, "i", "b")], rewrites, live) is None
    assert stale_vectors([index(ADD, "i", "c")], rewrites, live) is None
    # What was stale before the change is not its fault, unless it says the same again.
    assert stale_vectors([index(ADD, "i", "x")], rewrites, live) is None
    again = Change(rewrites.entries, index=(index(ADD, "j", "x"),))
    assert stale_vectors([index(ADD, "j", "x")], again, live) is not None
    # Partitions that the change does not touch were not read, so nothing is said of them.
    assert stale_vectors([index(ADD, "i", "z", partition=Q)], rewrites, live) is None


def test_index_files_of_a_bucket_are_replaced_as_a_whole() -> None:
    before = [index(ADD, "h", type_=HASH), index(ADD, "v", "a"), index(ADD, "w", "b", partition=Q)]
    after = combine_index(before, [index(DELETE, "v"), index(ADD, "v2", "a", "c")], bucketed=True)
    assert isinstance(after, tuple)
    assert sorted(e.file.file_name for e in after) == ["h", "v2", "w"]
    after = combine_index(before, [index(ADD, "h2", type_=HASH), index(ADD, "v3", "a")], bucketed=True)
    assert isinstance(after, tuple)
    assert sorted(e.file.file_name for e in after) == ["h2", "v3", "w"]
    # Whoever names what it replaces must have seen the newest; of two new files one would be lost.
    stale = [index(DELETE, "u"), index(ADD, "v4", "a")]
    twice = [index(ADD, "h2", type_=HASH), index(ADD, "h3", type_=HASH)]
    for changes in ([index(DELETE, "gone", type_=HASH)], stale, twice):
        assert isinstance(combine_index(before, changes, bucketed=True), Conflict)


def test_index_files_without_buckets_stand_for_themselves() -> None:
    before = [index(ADD, "v", "a"), index(ADD, "w", "b")]
    after = combine_index(before, [index(DELETE, "v"), index(ADD, "x", "a", "c")], bucketed=False)
    assert isinstance(after, tuple)
    assert sorted(e.file.file_name for e in after) == ["w", "x"]
    for changes in ([index(DELETE, "gone")], [index(ADD, "w", "z")], [index(ADD, "y", "a")]):
        assert isinstance(combine_index(before, changes, bucketed=False), Conflict)


def test_the_error_says_who_what_and_what_to_do() -> None:
    other = Snapshot(41, 0, "b", "d", "Y", 1, CommitKind.COMPACT, 0)
    conflict = Conflict("2 files to delete are gone", ("data-1", "data-2"))
    error = conflict_error(conflict, table="sales.orders", user="X", kind=CommitKind.OVERWRITE, other=other)
    assert str(error) == (
        "sales.orders: commit of user X (OVERWRITE) conflicts with snapshot 41 by user Y (COMPACT): "
        "2 files to delete are gone: data-1, data-2; plan the work again on the newest snapshot"
    )
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
    assert (again.user, again.kind, again.snapshot_id, again.files) == ("X", "OVERWRITE", 41, ("data-1", "data-2"))
    many = Conflict("many", tuple(f"f{n}" for n in range(9)))
    text = str(conflict_error(many, table="t", user="X", kind=CommitKind.COMPACT, other=None))
    assert text.endswith("conflicts with the table: many: f0, f1, f2, f3, f4 and 4 more; " + many.advice)
    with pytest.raises(CommitConflictError):
        raise error
