"""Rows of the system tables about the files of one snapshot: data files, manifests, partitions, buckets, index files.

The snapshot is the newest, or the one that the `scan.` options of the table name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from lakewright.catalog.system.bounds import key_texts, row_text, stats_texts
from lakewright.metadata.entry_parts import ChosenEntries, PlaceCounts
from lakewright.read.scan import pick_snapshot
from lakewright.spec.datafile import DELETION_VECTORS, GlobalIndex, IndexFile
from lakewright.spec.manifest import IndexEntry
from lakewright.spec.snapshot import Snapshot
from lakewright.spec.types import DataType
from lakewright.table.table import FileStoreTable

KeyText: TypeAlias = Callable[[bytes, Sequence[DataType]], str | None]
_SOURCES = {None: None, 0: "APPEND", 1: "COMPACT"}


def files(table: FileStoreTable, key_text: KeyText | None = None) -> Iterator[tuple[object, ...]]:
    """Yield each live data file with its statistics; keys are in Java's text form unless `key_text` says otherwise."""
    return zip(*file_columns(table, key_text), strict=True)


def file_columns(table: FileStoreTable, key_text: KeyText | None = None) -> list[list[object]]:
    """Return what `files` yields, column by column."""
    live = _live(table)
    return [
        *_file_facts(table, live, [e or n for e, n in _names(live)], key_text),
        *stats_texts(table, live),
        live.facts("min_sequence_number"),
        live.facts("max_sequence_number"),
        live.facts("creation_time"),
        live.facts("delete_row_count"),
        [_SOURCES[source] for source in live.facts("file_source")],
        live.facts("first_row_id"),
        live.facts("write_cols"),
    ]


def file_key_ranges(table: FileStoreTable, key_text: KeyText | None = None) -> Iterator[tuple[object, ...]]:
    """Yield each live data file with its whole path and its smallest and largest key."""
    return zip(*key_range_columns(table, key_text), strict=True)


def key_range_columns(table: FileStoreTable, key_text: KeyText | None = None) -> list[list[object]]:
    """Return what `file_key_ranges` yields, column by column."""
    live, layout = _live(table), table.store.layout
    partitions, codes = live.partitions()
    parts = [table.store.partition_directory(partition) for partition in partitions]
    directories = [
        layout.bucket_directory(parts[c], b) for c, b in zip(codes.tolist(), live.buckets.tolist(), strict=True)
    ]
    paths = [layout.file_in(where, name, path) for where, (path, name) in zip(directories, _names(live), strict=True)]
    return [*_file_facts(table, live, paths, key_text), live.facts("first_row_id")]


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
            f"{{{row_text(file.partition_stats.min_values, types)}}}",
            f"{{{row_text(file.partition_stats.max_values, types)}}}",
            file.min_row_id,
            file.max_row_id,
        )


def partitions(table: FileStoreTable) -> Iterator[tuple[object, ...]]:
    """Yield each partition that has files; who made it and when is known to catalogs with a server only."""
    deleted = _deleted_rows(table)
    for place in _live(table).counts(by_bucket=False):
        name = table.store.partition_name(place.partition) or None
        unknown = (None, None, None, None)
        yield name, *_counts(place), *unknown, place.total_buckets, False, deleted.get(place.partition, 0)


def buckets(table: FileStoreTable) -> Iterator[tuple[object, ...]]:
    """Yield each bucket that has files, in the order of partitions and numbers."""
    places = _live(table).counts(by_bucket=True)
    names = {partition: table.store.partition_name(partition) for partition in {place.partition for place in places}}
    for place in sorted(places, key=lambda place: (names[place.partition], place.bucket)):
        yield names[place.partition] or None, place.bucket, *_counts(place)


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


def _live(table: FileStoreTable) -> ChosenEntries:
    snapshot = _snapshot(table)
    return ChosenEntries.of(()) if snapshot is None else table.store.manifests.live_columns(snapshot)


def _names(live: ChosenEntries) -> list[tuple[str | None, str]]:
    """Return the external path of each file, None: it has none, and its name."""
    return list(zip(live.facts("external_path"), live.facts("file_name"), strict=True))


def _index(table: FileStoreTable) -> list[IndexEntry]:
    snapshot = _snapshot(table)
    manifest = None if snapshot is None else snapshot.index_manifest
    return [] if manifest is None else table.store.manifests.read_index(manifest)


def _file_facts(
    table: FileStoreTable, live: ChosenEntries, paths: list[str], key_text: KeyText | None
) -> list[list[object]]:
    """Return the columns that `$files` and `$file_key_ranges` begin with."""
    types = [field.type for field in table.schema.trimmed_primary_key_fields]
    partitions, codes = live.partitions()
    names = [table.store.partition_name(partition) or None for partition in partitions]

    def keys(name: str) -> list[str | None]:
        stored = live.facts(name)
        return key_texts(stored, types) if key_text is None else [key_text(key, types) for key in stored]

    return [
        [names[code] for code in codes.tolist()],
        live.buckets.tolist(),
        [*paths],
        [name.rsplit(".", 1)[-1] for name in live.facts("file_name")],
        live.facts("schema_id"),
        live.facts("level"),
        live.facts("row_count"),
        live.facts("file_size"),
        [*keys("min_key")],
        [*keys("max_key")],
    ]


def _counts(place: PlaceCounts) -> tuple[int, int, int, int | None]:
    """Return the rows, bytes and number of files of a place, and when the newest of them was made."""
    return place.rows, place.file_bytes, place.files, place.newest_millis


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
