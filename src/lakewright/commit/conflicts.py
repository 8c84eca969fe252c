"""Whether a change still fits the table: a change and live files in, a conflict or None out. Nothing here reads files.

Every check compares the change with the live files of the partitions it touches, in the snapshot that the commit is to
extend. An append that only adds files is compared with none of them: appends never conflict with each other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

from lakewright.commit.changes import Change
from lakewright.errors import CommitConflictError, counted
from lakewright.lsm.keys import Key
from lakewright.spec.datafile import DELETION_VECTORS, HASH, DataFile
from lakewright.spec.manifest import ADD, DELETE, FileIdentity, IndexEntry, ManifestEntry
from lakewright.spec.snapshot import CommitKind, Snapshot

PLAN_AGAIN = "plan the work again on the newest snapshot"
WRITE_AGAIN = "write the data again on the newest snapshot"
OVERWRITE_BUCKETS = "the number of buckets of a partition changes only by overwriting it"
_NAMES_SHOWN = 5

KeyRange: TypeAlias = Callable[[DataFile], tuple[Key, Key]]  # the first and the last key of a file


@dataclass(frozen=True, slots=True)
class Conflict:
    """Why a change does not fit the table, with the files it is about and what to do."""

    reason: str
    files: tuple[str, ...] = ()
    advice: str = PLAN_AGAIN
    misrouted: bool = False  # the same rows can be written again, into other buckets


def find_conflict(
    change: Change, live: Collection[ManifestEntry], *, replaces: bool, key_range: KeyRange | None = None
) -> Conflict | None:
    """Return the first conflict of a change with the live files of its partitions.

    `replaces` says that it empties its partitions, which may then get another number of buckets. With a `key_range`
    the files of a level, from level 1 on, must not share keys.
    """
    conflict = repeated_files(change.entries) or vanished_files(change.entries, live)
    if conflict is None and not replaces:
        gone = {e.identity for e in change.entries if e.kind == DELETE}
        added = (e for e in change.entries if e.kind == ADD)
        conflict = mixed_buckets(added, (e for e in live if e.identity not in gone))
    if conflict is None and key_range is not None:
        conflict = overlapping_files(change.entries, live, key_range)
    return conflict


def mixed_buckets(entries: Iterable[ManifestEntry], live: Iterable[ManifestEntry]) -> Conflict | None:
    """Return a conflict if one partition would have files written for different numbers of buckets."""
    totals: dict[bytes, int] = {}
    for entry in live:
        if entry.total_buckets > 0:
            totals.setdefault(entry.partition, entry.total_buckets)
    for entry in entries:
        if entry.total_buckets <= 0:
            continue
        total = totals.setdefault(entry.partition, entry.total_buckets)
        if total != entry.total_buckets:
            return Conflict(
                f"{entry.file.file_name} was written for {counted(entry.total_buckets, 'bucket')}, "
                f"its partition has {total}",
                (entry.file.file_name,),
                OVERWRITE_BUCKETS,
            )
    return None


def repeated_files(entries: Iterable[ManifestEntry]) -> Conflict | None:
    """Return a conflict if a change names one file twice."""
    counts = Counter(e.identity for e in entries)
    twice = tuple(_name(identity) for identity, count in counts.items() if count > 1)
    if not twice:
        return None
    return Conflict(f"{_count(twice)} named more than once", twice, "hand in each message once")


def vanished_files(entries: Iterable[ManifestEntry], live: Iterable[ManifestEntry]) -> Conflict | None:
    """Return a conflict if files to delete are not live any more, or files to add are live already."""
    live_files = {e.identity for e in live}
    changes = tuple(entries)
    gone = tuple(e.file.file_name for e in changes if e.kind == DELETE and e.identity not in live_files)
    if gone:
        return Conflict(f"{_count(gone)} to delete {'is' if len(gone) == 1 else 'are'} gone", gone)
    added = tuple(e.file.file_name for e in changes if e.kind == ADD and e.identity in live_files)
    if added:
        advice = "these messages were committed before: do not commit them again"
        return Conflict(
            f"{_count(added)} to add {'is' if len(added) == 1 else 'are'} in the table already", added, advice
        )
    return None


def overlapping_files(
    entries: Collection[ManifestEntry], live: Iterable[ManifestEntry], key_range: KeyRange
) -> Conflict | None:
    """Return a conflict if two files of one level would share keys: from level 1 on a level is one sorted run."""
    gone = {e.identity for e in entries if e.kind == DELETE}
    levels: dict[tuple[bytes, int, int], list[DataFile]] = {
        (e.partition, e.bucket, e.file.level): [] for e in entries if e.kind == ADD and e.file.level > 0
    }
    if not levels:
        return None
    for entry in (*live, *(e for e in entries if e.kind == ADD)):
        files_of_level = levels.get((entry.partition, entry.bucket, entry.file.level))
        if files_of_level is not None and entry.identity not in gone:
            files_of_level.append(entry.file)
    for (_, bucket, level), files in levels.items():
        ranges = sorted((*key_range(file), file.file_name) for file in files)
        for (_, last, name), (first, _, other) in pairwise(ranges):
            if not last < first:
                reason = f"two files of level {level} in bucket {bucket} would share keys"
                return Conflict(reason, (name, other))
    return None


def moved_hashes(bases: Iterable[tuple[bytes, tuple[str, ...]]], index: Iterable[IndexEntry]) -> Conflict | None:
    """Return a conflict if rows got their buckets from index files that are not those of their partition any more.

    Two writers that add keys to one index at the same time may put one key into two buckets.
    """
    current: dict[bytes, list[str]] = {}
    for entry in index:
        if entry.file.index_type == HASH:
            current.setdefault(entry.partition, []).append(entry.file.file_name)
    for partition, names in bases:
        now = current.get(partition, [])
        if sorted(now) != sorted(names):
            changed = tuple(sorted({*now} ^ {*names}))
            reason = "another writer chose buckets of the same partition at the same time"
            return Conflict(reason, changed, WRITE_AGAIN, misrouted=True)
    return None


def stale_vectors(index: Iterable[IndexEntry], change: Change, live: Iterable[ManifestEntry]) -> Conflict | None:
    """Return a conflict if a deletion vector would belong to a data file that is not live any more.

    A commit that deletes rows of a file fails when the file was rewritten in between, and a commit that rewrites a
    file fails when rows of it were deleted in between: either would bring deleted rows back.
    """
    before = {(e.partition, e.bucket, e.file.file_name) for e in live}
    names = before - {(e.partition, e.bucket, e.file.file_name) for e in change.entries if e.kind == DELETE}
    names |= {(e.partition, e.bucket, e.file.file_name) for e in change.entries if e.kind == ADD}
    touched = change.partitions
    own = {e.file.file_name for e in change.index if e.kind == ADD}
    # Java keeps the vectors of a file that it compacts to nothing; a vector that was stale before hides no row.
    stale = tuple(
        place[2]
        for entry in index
        if entry.file.index_type == DELETION_VECTORS and entry.partition in touched
        for place in ((entry.partition, entry.bucket, v.data_file) for v in entry.file.deletion_ranges or ())
        if place not in names and (place in before or entry.file.file_name in own)
    )
    if not stale:
        return None
    return Conflict(
        f"Deletion vector index conflict: rows of {_count(stale)} were deleted or rewritten at the same time", stale
    )


def combine_index(
    previous: Sequence[IndexEntry], changes: Sequence[IndexEntry], *, bucketed: bool, by_name: bool = False
) -> tuple[IndexEntry, ...] | Conflict:
    """Return the whole live set of index files after some changes, or why they do not fit.

    Key hashes, and the deletion vectors of tables with buckets, are one file per bucket, which a new file replaces.
    Other index files are independent, but a data file has one vector at most. An index file to delete must be live.
    With `by_name` a change replaces the vectors of a bucket only if it deletes the newest file of them by name, which
    shows that it was made from it.
    """
    left = {_index_key(e, bucketed=bucketed): e for e in previous}
    added: set[tuple[object, ...]] = set()
    for change in changes:
        key = _index_key(change, bucketed=bucketed)
        name = change.file.file_name
        if change.kind == DELETE:
            deleted = left.pop(key, None)
            if deleted is None or deleted.file.file_name != name:
                kind = "Deletion vector index conflict: " if change.file.index_type == DELETION_VECTORS else ""
                return Conflict(f"{kind}an index file to delete is gone", (name,))
        elif key in added or (key in left and len(key) == 1):
            return Conflict("an index file to add is in the table already", (name,))
        elif by_name and key in left and change.file.index_type == DELETION_VECTORS:
            unseen = left[key].file.file_name
            return Conflict(
                "Deletion vector index conflict: rows of a bucket were deleted by somebody else at the same time",
                (unseen,),
            )
        else:
            left[key] = change
            added.add(key)
    vectors = Counter(
        (entry.partition, entry.bucket, vector.data_file)
        for entry in left.values()
        if entry.file.index_type == DELETION_VECTORS
        for vector in entry.file.deletion_ranges or ()
    )
    twice = tuple(name for (_, _, name), count in vectors.items() if count > 1)
    if twice:
        return Conflict(
            f"Deletion vector index conflict: rows of {_count(twice)} were deleted by somebody else at the same time",
            twice,
        )
    return tuple(left.values())


def conflict_error(
    conflict: Conflict, *, table: str, user: str, kind: CommitKind, other: Snapshot | None
) -> CommitConflictError:
    """Return the error that names both commits, the files they conflict about, and what to do."""
    winner = "the table" if other is None else f"snapshot {other.id} by user {other.commit_user} ({other.commit_kind})"
    shown = ", ".join(conflict.files[:_NAMES_SHOWN])
    more = len(conflict.files) - _NAMES_SHOWN
    names = f": {shown}" + (f" and {more} more" if more > 0 else "") if shown else ""
    return CommitConflictError(
        f"{table}: commit of user {user} ({kind}) conflicts with {winner}: {conflict.reason}{names}; {conflict.advice}",
        table=table,
        user=user,
        kind=kind,
        snapshot_id=None if other is None else other.id,
        files=conflict.files,
        advice=conflict.advice,
        misrouted=conflict.misrouted,
    )


def _index_key(entry: IndexEntry, *, bucketed: bool) -> tuple[object, ...]:
    """Return what only one index file may have: a bucket and a kind of index, or its own name."""
    kind = entry.file.index_type
    if kind == HASH or (kind == DELETION_VECTORS and bucketed):
        return entry.partition, entry.bucket, kind
    return (entry.file.file_name,)


def _name(identity: FileIdentity) -> str:
    return identity[3]


def _count(names: Sequence[str]) -> str:
    return counted(len(names), "file")
