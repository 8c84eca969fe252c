"""Rows of the system tables about the files of one snapshot: data files, manifests, partitions, buckets, index files.

The snapshot is the newest, or the one that the `scan.` options of the table name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

from lakewright.catalog.system.history import compact_json
from lakewright.read.scan import pick_snapshot
from lakewright.spec.datafile import DELETION_VECTORS, EMPTY_ROW, DataFile, GlobalIndex, IndexFile
from lakewright.spec.manifest import IndexEntry, ManifestEntry
from lakewright.spec.rows.binary_row import decode_row
from lakewright.spec.snapshot import Snapshot
from lakewright.spec.stats import ColumnStats, field_stats
from lakewright.spec.types import DataField, DataType
from lakewright.spec.values import to_text
from lakewright.table.table import FileStoreTable

KeyText: TypeAlias = Callable[[bytes, Sequence[DataType]], str | None]


def files(table: FileStoreTable, key_text: KeyText | None = None) -> Iterator[tuple[object, ...]]:
    """Yield each live data file with its statistics; keys are in Java's text form unless `key_text` says otherwise."""
    for entry in _live(table):
        file, stats = entry.file, _stats(table, entry.file)
        yield (
            *_file_facts(table, entry, file.external_path or file.file_name, key_text or _key_text),
            compact_json({f.name: None if s is None else s.null_count for f, s in stats.items()}),
            compact_json({f.name: _bound(f, s, lower=True) for f, s in stats.items()}),
            compact_json({f.name: _bound(f, s, lower=False) for f, s in stats.items()}),
            file.min_sequence_number,
            file.max_sequence_number,
            file.creation_time,
            file.delete_row_count,
            None if file.file_source is None else ("APPEND", "COMPACT")[file.file_source],
            file.first_row_id,
            None if file.write_cols is None else list(file.write_cols),
        )


def file_key_ranges(table: FileStoreTable, key_text: KeyText | None = None) -> Iterator[tuple[object, ...]]:
    """Yield each live data file with its whole path and its smallest and largest key."""
    store = table.store
    for entry in _live(table):
        path = store.layout.data_file(store.partition_directory(entry.partition), entry.bucket, entry.file)
        yield (*_file_facts(table, entry, path, key_text or _key_text), entry.file.first_row_id)


def manifests(table: FileStoreTable, *, changelog: bool = True) -> Iterator[tuple[object, ...]]:
    """Yield each manifest of the snapshot: those of its base, those of its delta, those of its changelog."""
    snapshot, types = _snapshot(table), table.store.partition_types
    if snapshot is None:
        return
    found = table.store.manifests.files_of(snapshot)
    if changelog and snapshot.changelog_manifest_list is not None:
        size = snapshot.changelog_manifest_list_size
        found += table.store.manifests.read_list(snapshot.changelog_manifest_list, size, snapshot_id=snapshot.id)
    for file in found:
        yield (
            file.file_name,
            file.file_size,
            file.num_added_files,
            file.num_deleted_files,
            file.schema_id,
            f"{{{_row_text(file.partition_stats.min_values, types)}}}",
            f"{{{_row_text(file.partition_stats.max_values, types)}}}",
            file.min_row_id,
            file.max_row_id,
        )


def partitions(table: FileStoreTable) -> Iterator[tuple[object, ...]]:
    """Yield each partition that has files; who made it and when is known to catalogs with a server only."""
    deleted = _deleted_rows(table)
    grouped: dict[bytes, list[ManifestEntry]] = {}
    for entry in _live(table):
        grouped.setdefault(entry.partition, []).append(entry)
    for partition, entries in grouped.items():
        name = table.store.partition_name(partition) or None
        unknown = (None, None, None, None)
        yield name, *_counts(entries), *unknown, entries[-1].total_buckets, False, deleted.get(partition, 0)


def buckets(table: FileStoreTable) -> Iterator[tuple[object, ...]]:
    """Yield each bucket that has files, in the order of partitions and numbers."""
    grouped: dict[tuple[str, int], list[ManifestEntry]] = {}
    for entry in _live(table):
        grouped.setdefault((table.store.partition_name(entry.partition), entry.bucket), []).append(entry)
    for (partition, bucket), entries in sorted(grouped.items(), key=lambda item: item[0]):
        yield partition or None, bucket, *_counts(entries)


def table_indexes(table: FileStoreTable) -> Iterator[tuple[object, ...]]:
    """Yield each live index file: deletion vectors, key hashes of dynamic buckets, global indexes."""
    for entry in _index(table):
        file = entry.file
        yield (
            table.store.partition_name(entry.partition) or None,
            entry.bucket,
            file.index_type,
            file.file_name,
            file.file_size,
            file.row_count,
            _ranges(file),
            *_global_facts(table, file.global_index),
        )


def _snapshot(table: FileStoreTable) -> Snapshot | None:
    snapshot = pick_snapshot(table.store)
    table.store.check_same_table()
    return snapshot


def _live(table: FileStoreTable) -> list[ManifestEntry]:
    snapshot = _snapshot(table)
    return [] if snapshot is None else table.store.manifests.live(snapshot)


def _index(table: FileStoreTable) -> list[IndexEntry]:
    snapshot = _snapshot(table)
    manifest = None if snapshot is None else snapshot.index_manifest
    return [] if manifest is None else table.store.manifests.read_index(manifest)


def _file_facts(table: FileStoreTable, entry: ManifestEntry, path: str, key_text: KeyText) -> tuple[object, ...]:
    """Return the columns that `$files` and `$file_key_ranges` begin with."""
    file, keys = entry.file, [field.type for field in table.schema.trimmed_primary_key_fields]
    return (
        table.store.partition_name(entry.partition) or None,
        entry.bucket,
        path,
        file.file_name.rsplit(".", 1)[-1],
        file.schema_id,
        file.level,
        file.row_count,
        file.file_size,
        key_text(file.min_key, keys),
        key_text(file.max_key, keys),
    )


def _counts(entries: Sequence[ManifestEntry]) -> tuple[int, int, int, int | None]:
    """Return the rows, bytes and number of some files, and when the newest of them was made."""
    times = [entry.file.creation_time for entry in entries if entry.file.creation_time is not None]
    rows, size = (sum(entry.file.row_count for entry in entries), sum(entry.file.file_size for entry in entries))
    return rows, size, len(entries), max(times, default=None)


def _deleted_rows(table: FileStoreTable) -> dict[bytes, int | None]:
    """Return how many rows the deletion vectors of each partition delete; None where one does not say."""
    deleted: dict[bytes, int | None] = {}
    for entry in _index(table):
        if entry.file.index_type != DELETION_VECTORS:
            continue
        counts = [place.cardinality for place in entry.file.deletion_ranges or ()]
        known = deleted.get(entry.partition, 0)
        deleted[entry.partition] = None if known is None or None in counts else known + sum(filter(None, counts))
    return deleted


def _ranges(file: IndexFile) -> list[tuple[str, int, int, int | None]] | None:
    places = file.deletion_ranges or ()
    return [(place.data_file, place.offset, place.length, place.cardinality) for place in places] or None


def _global_facts(table: FileStoreTable, index: GlobalIndex | None) -> tuple[object, ...]:
    """Return the row ids that a global index covers, the id of its first column and the names of all its columns."""
    if index is None:
        return (None, None, None, None)
    known = {field.id: field.name for field in table.fields}
    names = [known.get(number) for number in (index.index_field_id, *(index.extra_field_ids or ()))]
    text = None if None in names else ",".join(filter(None, names))
    return index.row_range_start, index.row_range_end, index.index_field_id, text


def _stats(table: FileStoreTable, file: DataFile) -> dict[DataField, ColumnStats | None]:
    """Return the statistics of each current column, in the type that the file has; a column that it lacks is null."""
    written = table.store.schemas.get(file.schema_id).fields
    by_id = {field.id: field for field in written}
    stats: dict[DataField, ColumnStats | None] = {}
    for field in table.fields:
        stored = by_id.get(field.id)
        if stored is None:
            stats[field] = ColumnStats(None, None, file.row_count, all_null=True)
        else:
            stats[replace(stored, name=field.name)] = field_stats(file, stored.name, written)
    return stats


def _key_text(key: bytes, types: Sequence[DataType]) -> str | None:
    """Return a key in Java's text form, such as `[1, a]`; None for tables without a primary key."""
    return None if not types or key == EMPTY_ROW else f"[{_row_text(key, types)}]"


def _row_text(row: bytes, types: Sequence[DataType]) -> str:
    values = zip(decode_row(row, types), types, strict=True)
    return ", ".join("null" if value is None else to_text(value, dtype) for value, dtype in values)


def _bound(field: DataField, stats: ColumnStats | None, *, lower: bool) -> str | None:
    value = None if stats is None else stats.min if lower else stats.max
    return None if value is None else to_text(value, field.type)
