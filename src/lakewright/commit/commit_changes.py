"""Commit messages to the changes of one or two snapshots; guards; the files that messages name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import NamedTuple

from lakewright.commit.commit_message import CommitMessage
from lakewright.errors import InvalidInputError, InvalidMessageError, UnsupportedError, pluralize
from lakewright.metadata.schema_files import SchemaFiles
from lakewright.metadata.table_store import TableStore
from lakewright.spec.manifest import (
    ADD,
    APPEND,
    COMPACT,
    DELETE,
    DELETION_VECTORS,
    DataFile,
    IndexEntry,
    IndexFile,
    ManifestEntry,
    count_rows,
    is_side_file,
)
from lakewright.spec.snapshot import CommitKind
from lakewright.spec.table_schema import POSTPONE
from lakewright.storage.concurrency import map_concurrently
from lakewright.storage.storage import Storage
from lakewright.storage.table_layout import MAIN_BRANCH, check_file_name

# ---- Commit messages to changes --------------------------------------------------------------------------------------
# A message holds what one writer did to one bucket. All messages of a commit together become an append group and a
# compact group, each of which is published as one snapshot. A message is checked against the table before anything
# else happens: a message that is foreign, out of date or inconsistent changes nothing.

ROW_ID = "_ROW_ID"
_COPY = re.compile(r"-r[0-9a-f]{12}(?=\.|$)")


@dataclass(frozen=True, slots=True)
class Change:
    """What one snapshot does to the files of a table."""

    entries: tuple[ManifestEntry, ...] = ()
    changelog: tuple[ManifestEntry, ...] = ()
    index: tuple[IndexEntry, ...] = ()  # deletes before adds

    @property
    def is_empty(self) -> bool:
        """Return whether nothing changes."""
        return not (self.entries or self.changelog or self.index)

    @property
    def kind(self) -> CommitKind:
        """APPEND while files are only added; taking files or rows away is an OVERWRITE."""
        takes = any(e.kind == DELETE for e in self.entries)
        takes = takes or any(e.file.index_type == DELETION_VECTORS for e in self.index)
        return CommitKind.OVERWRITE if takes else CommitKind.APPEND

    @property
    def added_names(self) -> frozenset[str]:
        """The names of the data files that the change adds."""
        return frozenset(e.file.file_name for e in self.entries if e.kind == ADD)

    @property
    def partitions(self) -> frozenset[bytes]:
        """The partitions whose files, or whose indexes of files, change."""
        return frozenset(e.partition for e in self.entries) | frozenset(e.partition for e in self.index)


@dataclass(frozen=True, slots=True)
class Guard:
    """Where no other commit may have written rows since the snapshot that a change was planned on."""

    since: int  # 0: the table had no snapshot
    planned_on: str | None  # the name of that snapshot, where it is known
    unchanged: str | None  # "bucket", "partition", "table"; None: only the touched files count
    partition: bytes
    bucket: int
    reads: tuple[str, ...] = ()  # columns, for tables whose files hold only some


@dataclass(frozen=True, slots=True)
class TargetFacts:
    """The facts of a table that its messages are checked against."""

    table: str
    identity: str
    schema_ids: frozenset[int]
    buckets: int  # the option `bucket`
    has_primary_key: bool
    row_tracking: bool
    crosses_partitions: bool = False  # a key may be in any partition, and no index file says in which


def append_change(messages: Iterable[CommitMessage], buckets: int) -> Change:
    """Return the files that writers added and deleted, without those of their compactions."""
    return _change(
        (
            _Lists(m, m.deleted_files, m.new_files, m.changelog_files, m.deleted_index_files, m.new_index_files)
            for m in messages
        ),
        buckets,
    )


def compact_change(messages: Iterable[CommitMessage], buckets: int) -> Change:
    """Return the files that compactions inside the writers replaced."""
    return _change(
        (
            _Lists(
                m,
                m.compact_before,
                m.compact_after,
                m.compact_changelog_files,
                m.compact_deleted_index_files,
                m.compact_new_index_files,
            )
            for m in messages
        ),
        buckets,
    )


def record_count(entries: Iterable[ManifestEntry]) -> int:
    """Return how many rows the added files hold, less those of the deleted files."""
    return sum(e.file.row_count if e.kind == ADD else -e.file.row_count for e in entries)


def written_files(message: CommitMessage) -> Iterator[DataFile]:
    """Yield every data and changelog file that the writer of a message made."""
    yield from message.new_files
    yield from message.changelog_files
    before = {f.file_name for f in message.compact_before}
    # An upgrade names a file again at another level: the bytes are those of the file before.
    yield from (f for f in message.compact_after if f.file_name not in before)
    yield from message.compact_changelog_files


def written_index_files(message: CommitMessage) -> Iterator[IndexFile]:
    """Yield every index file that the writer of a message made."""
    yield from message.new_index_files
    yield from message.compact_new_index_files


def origin_name(name: str) -> str:
    """Return the name of the file that a renumbered file is a copy of; any other name as it is.

    >>> origin_name("data-7-0-r0123456789ab.zst.parquet"), origin_name("data-7-0.parquet")
    ('data-7-0.zst.parquet', 'data-7-0.parquet')
    """
    return _COPY.sub("", name)


def copy_name(name: str, unique: str) -> str:
    """Return the name of a renumbered copy.

    >>> copy_name("data-7-0.parquet", "0123456789ab")
    'data-7-0-r0123456789ab.parquet'
    """
    stem, dot, ending = name.partition(".")
    return f"{stem}-r{unique}{dot}{ending}"


def hash_bases_of(messages: Iterable[CommitMessage]) -> frozenset[tuple[bytes, tuple[str, ...]]]:
    """Return the partitions whose buckets were chosen by key hashes, and the index files that held these."""
    return frozenset((m.partition_bytes, m.hash_base) for m in messages if m.hash_base is not None)


def guards_of(messages: Iterable[CommitMessage]) -> tuple[Guard, ...]:
    """Return the guards of all messages, each once."""
    guards = {
        Guard(m.check_from_snapshot, m.planned_on, m.unchanged, m.partition_bytes, m.bucket, m.reads): None
        for m in messages
        # Some writers spell "nothing to check" as -1.
        if m.check_from_snapshot is not None and m.check_from_snapshot >= 0
    }
    return tuple(guards)


def schema_ids_of(messages: Sequence[CommitMessage]) -> frozenset[int]:
    """Return the ids of the schemas that the files of messages were written with."""
    written = {f.schema_id for m in messages for f in written_files(m)}
    return frozenset(written | {m.schema_id for m in messages if m.schema_id is not None})


def check_table(messages: Iterable[CommitMessage], target: TargetFacts) -> None:
    """Refuse messages that were written for another table."""
    for message in messages:
        if message.table and message.table != target.identity:
            raise InvalidMessageError(
                f"{target.table}: the message was written for table {message.table}, this is table "
                f"{target.identity}; commit it to its own table (a table dropped and made again is another table)",
                table=target.table,
                found=message.table,
                expected=target.identity,
            )


def check_messages(messages: Sequence[CommitMessage], target: TargetFacts) -> None:
    """Refuse messages that the table cannot take, before anything is read or written."""
    check_table(messages, target)
    for message in messages:
        faults = (
            _of_unknown_schema(message, target),
            _find_misplacement(message, target),
            _find_missing_rows(message, target),
        )
        for fault in faults:
            if fault is not None:
                raise InvalidMessageError(f"{target.table}: {fault}", table=target.table, message_bucket=message.bucket)
        _check_files(message, target)
    for name, select in _LISTS.items():
        _check_named_once(messages, name, select, target)
    if target.crosses_partitions and len({(m.write_id, m.attempt) for m in messages if m.new_files}) > 1:
        # Neither writer knows into which partitions the other put its keys.
        raise InvalidMessageError(
            f"{target.table}: a key lives in one partition alone, and several writers at once may put it into two; "
            "write all rows of a commit with one writer",
            table=target.table,
        )


def order_by_snapshot(entries: Sequence[ManifestEntry], snapshot_id: int) -> tuple[ManifestEntry, ...]:
    """Give new files the snapshot's id as their sequence number, so that later commits have higher numbers.

    The numbers inside the files stay as they are; readers use the number of the file instead.
    """

    def numbered(entry: ManifestEntry) -> ManifestEntry:
        if entry.kind != ADD or entry.file.file_source == COMPACT:
            return entry
        file = replace(entry.file, min_sequence_number=snapshot_id, max_sequence_number=snapshot_id)
        return replace(entry, file=file)

    return tuple(numbered(entry) for entry in entries)


def assign_row_ids(
    entries: Sequence[ManifestEntry], *, snapshot_id: int, next_row_id: int, by_partition: bool
) -> tuple[tuple[ManifestEntry, ...], int]:
    """Give new files of a row-tracking table their sequence and row ids; return them and the next free row id.

    Both depend on the snapshot that the commit becomes, so every attempt assigns them anew from the same entries. A
    file that has its row ids keeps them, and others follow behind it. BLOB and VECTOR files have the rows of the normal
    file before them; several files of one column follow each other.
    """
    ordered = _group_by_partition(entries) if by_partition else list(entries)
    numbered = (e.file for e in ordered if e.kind == ADD and e.file.first_row_id is not None)
    next_row_id = max((next_row_id, *((file.first_row_id or 0) + file.row_count for file in numbered)))
    out: list[ManifestEntry] = []
    start = next_row_id  # of the newest normal file
    side_starts: dict[tuple[str, ...], int] = {}  # by columns, the next row id of the files that are beside it
    for entry in ordered:
        file = entry.file
        if entry.kind == ADD:
            file = _with_sequence(file, snapshot_id)
            if not _needs_row_ids(file):
                pass
            elif is_side_file(file):
                columns = file.write_cols or ()
                file = replace(file, first_row_id=side_starts.get(columns, start))
                side_starts[columns] = _end_of_rows(file)
                if side_starts[columns] > next_row_id:
                    raise InvalidMessageError(
                        f"the file {file.file_name} has more rows than the normal file before it in its message; write "
                        "the data again",
                        files=(file.file_name,),
                    )
            else:
                start, side_starts = next_row_id, {}
                file = replace(file, first_row_id=start)
                next_row_id += file.row_count
        out.append(entry if file is entry.file else replace(entry, file=file))
    return tuple(out), next_row_id


def _end_of_rows(file: DataFile) -> int:
    return (file.first_row_id or 0) + file.row_count


def _needs_row_ids(file: DataFile) -> bool:
    return file.file_source == APPEND and file.first_row_id is None and ROW_ID not in (file.write_cols or ())


def _with_sequence(file: DataFile, snapshot_id: int) -> DataFile:
    if file.min_sequence_number == 0:
        return replace(file, min_sequence_number=snapshot_id, max_sequence_number=snapshot_id)
    if file.max_sequence_number == 0:
        return replace(file, max_sequence_number=snapshot_id)
    return file


def _group_by_partition(entries: Sequence[ManifestEntry]) -> list[ManifestEntry]:
    groups: dict[bytes, list[ManifestEntry]] = {}
    for entry in entries:
        groups.setdefault(entry.partition, []).append(entry)
    return [entry for group in groups.values() for entry in group]


class _Lists(NamedTuple):
    """The lists of a message that become one change."""

    message: CommitMessage
    deleted: Sequence[DataFile]
    added: Sequence[DataFile]
    changelog: Sequence[DataFile]
    index_deleted: Sequence[IndexFile]
    index_added: Sequence[IndexFile]


def _change(lists: Iterable[_Lists], buckets: int) -> Change:
    """Return the change of all messages; files of messages that name no bucket count have that of the table."""
    entries: list[ManifestEntry] = []
    changelog: list[ManifestEntry] = []
    index_deleted: list[IndexEntry] = []
    index_added: list[IndexEntry] = []
    for one in lists:
        place = (one.message.partition_bytes, one.message.bucket)
        total = buckets if one.message.total_buckets is None else one.message.total_buckets
        entries += [ManifestEntry(DELETE, *place, total, file) for file in one.deleted]
        entries += [ManifestEntry(ADD, *place, total, file) for file in one.added]
        changelog += [ManifestEntry(ADD, *place, total, file) for file in one.changelog]
        index_deleted += [IndexEntry(DELETE, *place, file) for file in one.index_deleted]
        index_added += [IndexEntry(ADD, *place, file) for file in one.index_added]
    return Change(tuple(entries), tuple(changelog), (*index_deleted, *index_added))


# Every list of files that a message holds, for the check that none is named twice.
_LISTS: dict[str, Callable[[CommitMessage], Iterable[DataFile | IndexFile]]] = {
    "written": lambda m: (*written_files(m), *written_index_files(m)),
    "deleted": lambda m: (*m.deleted_files, *m.deleted_index_files),
    "compacted": lambda m: (*m.compact_before, *m.compact_deleted_index_files),
}


def _check_named_once(
    messages: Sequence[CommitMessage],
    name: str,
    select: Callable[[CommitMessage], Iterable[DataFile | IndexFile]],
    target: TargetFacts,
) -> None:
    seen: set[tuple[bytes, int, str]] = set()
    for message in messages:
        for file in select(message):
            key = (message.partition_bytes, message.bucket, file.file_name)
            if key in seen:
                raise InvalidMessageError(
                    f"{target.table}: the messages name {file.file_name} twice as {name}; hand in each message once, "
                    "and of a repeated task only the attempt that counts",
                    table=target.table,
                    files=(file.file_name,),
                )
            seen.add(key)


def _of_unknown_schema(message: CommitMessage, target: TargetFacts) -> str | None:
    unknown = sorted(schema_ids_of([message]) - target.schema_ids)
    if unknown:
        return f"the message was written with schema {unknown[0]}, which the table does not have; write the data again"
    return None


def _find_misplacement(message: CommitMessage, target: TargetFacts) -> str | None:
    total = target.buckets if message.total_buckets is None else message.total_buckets
    bucket = message.bucket
    if target.buckets == POSTPONE and bucket == POSTPONE:
        fits = total == POSTPONE
    elif target.buckets == POSTPONE or target.buckets > 0:
        fits = 0 <= bucket < total
    else:
        fits = total == -1 and (bucket >= 0 if target.has_primary_key else bucket == 0)
    if fits:
        return None
    return (
        f"bucket {bucket} of {total} does not fit a table with bucket={target.buckets}; "
        "the table's buckets changed since the data was written: write it again"
    )


def _find_missing_rows(message: CommitMessage, target: TargetFacts) -> str | None:
    if message.rows_in is None or any(f.write_cols is not None for f in message.new_files):
        return None
    written = count_rows(message.new_files)
    # A primary-key writer folds rows of one key together, so it may write fewer than it took in, never more.
    if written == message.rows_in or (target.has_primary_key and written < message.rows_in):
        return None
    return f"the writer took in {pluralize(message.rows_in, 'row')} but its files hold {written}; write the data again"


def _check_files(message: CommitMessage, target: TargetFacts) -> None:
    for file in written_files(message):
        for name in (file.file_name, *file.extra_files):
            _check_name(name, target)
        if target.row_tracking and file.file_source is None:
            raise InvalidMessageError(
                f"{target.table}: {file.file_name} does not say whether a writer or a compaction made it, "
                "which row tracking needs; write it again with a newer writer",
                table=target.table,
                files=(file.file_name,),
            )
    for index in written_index_files(message):
        _check_name(index.file_name, target)
    outside = [f.file_name for f in written_index_files(message) if f.external_path]
    if outside:
        raise UnsupportedError(
            f"{target.table}: the index file {outside[0]} lies outside the table, which cannot be committed",
            table=target.table,
            files=tuple(outside),
        )


def _check_name(name: str, target: TargetFacts) -> None:
    try:
        check_file_name(name)
    except InvalidInputError as error:
        raise InvalidMessageError(f"{target.table}: {error}", table=target.table, files=(name,)) from None


# ---- Files named by messages -----------------------------------------------------------------------------------------

_THREADS = 16
_FEW = 8  # below this starting threads costs more than it saves


@dataclass(frozen=True, slots=True)
class MessageFile:
    """One file that a writer made; the size is None for side files, of which messages record only the name."""

    name: str
    path: str
    size: int | None


def files_of_messages(store: TableStore, messages: Iterable[CommitMessage]) -> tuple[MessageFile, ...]:
    """Return every file that the writers of the messages made. The paths are built here, never taken from a message."""
    return tuple(file for message in messages for file in _files(store, message))


def check_written(store: TableStore, files: Sequence[MessageFile]) -> None:
    """Raise InvalidMessageError if a file is missing or has another size than its message says."""
    sizes = _call_each(store.storage, store.storage.size, [file.path for file in files])
    bad = [
        f"{file.path} ({'missing' if size is None else f'{size} bytes, not {file.size}'})"
        for file, size in zip(files, sizes, strict=True)
        if size is None or file.size not in {None, size}
    ]
    if bad:
        raise InvalidMessageError(
            f"{store.name}: {len(bad)} of {len(files)} files to commit are missing or cut: {bad[0]}; "
            "write the data again",
            table=store.name,
            files=tuple(bad),
        )


def delete_files_of(store: TableStore, files: Sequence[MessageFile]) -> None:
    """Delete files that will never be committed."""
    _call_each(store.storage, store.storage.delete, [file.path for file in files])


def prune_dropped_table(store: TableStore) -> None:
    """Remove the empty directories that late writers made again for a table or branch that was dropped or renamed."""
    for layout in dict.fromkeys((store.layout, store.layout.for_branch(MAIN_BRANCH))):
        if store.storage.renames_atomically and not SchemaFiles(store.storage, layout).ids():
            store.storage.prune_directory(layout.branch_root)


def _files(store: TableStore, message: CommitMessage) -> Iterator[MessageFile]:
    layout = store.layout
    partition = store.partition_directory(message.partition_bytes)
    for file in written_files(message):
        if file.external_path is not None and not layout.is_external_file(
            partition, message.bucket, file.external_path
        ):
            raise InvalidMessageError(
                f"{store.name}: a commit message places {file.file_name} at {file.external_path}, where the option "
                "'data-file.external-paths' has no directory for its bucket; write the data again",
                table=store.name,
                files=(file.file_name,),
            )
        yield MessageFile(file.file_name, layout.data_file(partition, message.bucket, file), file.file_size)
        for name in file.extra_files:
            yield MessageFile(name, layout.extra_file(partition, message.bucket, file, name), None)
    directory = layout.bucket_directory(partition, message.bucket)
    for index in written_index_files(message):
        yield MessageFile(index.file_name, layout.index_file(index, directory), index.file_size)


def _call_each(storage: Storage, call: Callable[[str], int | None], paths: Sequence[str]) -> list[int | None]:
    if storage.requests_at_once > 1 or len(paths) <= _FEW:
        return map_concurrently(storage, call, paths)
    with ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(call, paths))
