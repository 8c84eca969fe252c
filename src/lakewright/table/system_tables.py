"""`$snapshots`, `$files` and the others, by name: columns, keys, rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from json.encoder import encode_basestring
from typing import TypeAlias

import numpy as np

from lakewright.errors import CorruptTableError, TableNotExistException
from lakewright.metadata import refs
from lakewright.metadata.manifest_columns import PlaceCounts, SelectedEntries
from lakewright.read.time_travel import resolve_snapshot
from lakewright.spec.binary_row import RowColumns, decode_field, decode_row
from lakewright.spec.column_stats import corrected_bounds, field_stats
from lakewright.spec.identifier import Identifier
from lakewright.spec.manifest import (
    DELETION_VECTORS,
    EMPTY_ROW,
    DataFile,
    GlobalIndex,
    IndexEntry,
    IndexFile,
    SimpleStats,
)
from lakewright.spec.scalars import to_text
from lakewright.spec.snapshot import Snapshot
from lakewright.spec.types import INTEGER_BITS, ArrayType, AtomicType, DataField, DataType, RowType, Value
from lakewright.table.file_store_table import FileStoreTable
from lakewright.table.table_views import (
    AuditLog,
    BinaryLog,
    ColumnSource,
    ReadOptimized,
    RowSource,
    RowTracking,
    RowView,
    TableSystemTable,
)

# ---- Rows about the history ------------------------------------------------------------------------------------------

_SECOND = timedelta(seconds=1)


def snapshots(table: FileStoreTable) -> Iterator[tuple[object, ...]]:
    """Yield each snapshot that is kept, the oldest first."""
    for snapshot_id in table.store.snapshots.ids():
        s = table.store.snapshots.get(snapshot_id)
        yield (
            s.id,
            s.schema_id,
            s.commit_user,
            s.commit_identifier,
            s.commit_kind.value,
            s.time_millis,
            s.base_manifest_list,
            s.delta_manifest_list,
            s.changelog_manifest_list,
            s.total_record_count,
            s.delta_record_count,
            s.changelog_record_count,
            s.watermark,
            s.next_row_id,
            s.writer_version,
        )


def schemas(table: FileStoreTable) -> Iterator[tuple[object, ...]]:
    """Yield each schema, the oldest first; lists and mappings are JSON."""
    for schema in table.store.schemas.all():
        yield (
            schema.id,
            compact_json([field.to_dict() for field in schema.fields]),
            compact_json(list(schema.partition_keys)),
            compact_json(list(schema.primary_keys)),
            compact_json(dict(schema.options)),
            schema.comment,
            schema.time_millis,
        )


def options(table: FileStoreTable) -> Iterator[tuple[object, ...]]:
    """Yield the options of the table by their keys."""
    yield from sorted(table.schema.options.items())


def tags(table: FileStoreTable) -> Iterator[tuple[object, ...]]:
    """Yield each tag with the snapshot that it names; times are the wall clock of its creator."""
    for tag in table.store.tags.all():
        snapshot = tag.snapshot
        retained = None if tag.time_retained is None else java_duration(tag.time_retained)
        yield (
            tag.name,
            snapshot.id,
            snapshot.schema_id,
            snapshot.time_millis,
            snapshot.total_record_count,
            tag.create_time,
            retained,
        )


def branches(table: FileStoreTable) -> Iterator[tuple[object, ...]]:
    """Yield each branch; it is as old as the oldest of its schema files, which are copied when it is made."""
    store = table.store
    for name in refs.branches(store.storage, store.layout):
        files = store.storage.list(store.layout.for_branch(name).schema_directory)
        yield name, min((file.modified_millis for file in files), default=0)


def consumers(table: FileStoreTable) -> Iterator[tuple[object, ...]]:
    """Yield the position of each reader of a stream."""
    yield from sorted(table.store.consumers.all().items())


def statistics(table: FileStoreTable) -> Iterator[tuple[object, ...]]:
    """Yield what ANALYZE recorded of the snapshot: nothing or one row; columns are JSON with line breaks, as Java's."""
    found = table.statistics()
    if found is not None:
        columns = {name: column.to_members() for name, column in found.columns.items()}
        text = json.dumps(columns, indent=2, separators=(",", " : "), ensure_ascii=False) if columns else "{ }"
        yield found.snapshot_id, found.schema_id, found.row_count, found.size, text


def aggregation_fields(table: FileStoreTable) -> Iterator[tuple[object, ...]]:
    """Yield each column with the options `fields.<column>.` that say how its values are merged, and their values."""
    for field in table.fields:
        prefix = f"fields.{field.name}."
        found = {key: value for key, value in table.schema.options.items() if key.startswith(prefix)}
        values, keys = (f"[{', '.join(texts)}]" for texts in (found.values(), found))
        yield field.name, str(field.type), values, keys, field.description


def compact_json(value: object) -> str:
    """Return JSON without spaces."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def java_duration(age: timedelta) -> str:
    """Return a duration as Java's text.

    >>> [java_duration(timedelta(seconds=seconds)) for seconds in (86400, 3661.5, 0)]
    ['PT24H', 'PT1H1M1.5S', 'PT0S']
    """
    whole, rest = divmod(age, _SECOND)
    hours, minutes, seconds = whole // 3600, whole // 60 % 60, whole % 60
    fraction = f".{rest.microseconds:06d}".rstrip("0") if rest else ""
    parts = f"{hours}H" * bool(hours) + f"{minutes}M" * bool(minutes)
    return f"PT{parts}{seconds}{fraction}S" if seconds or fraction or not parts else f"PT{parts}"


# ---- Bounds as text --------------------------------------------------------------------------------------------------
# Files of one schema that have statistics of the same columns are converted together, column by column. Where a row
# of bounds is damaged, each file is converted for itself, and the error says which one it is.

_Texts: TypeAlias = list[str]
_NULL = "null"


def stats_texts(table: FileStoreTable, live: SelectedEntries) -> list[list[object]]:
    """Return the null counts, the lower and the upper bounds of all files, as JSON by the current columns."""
    stats, row_counts = live.facts("value_stats"), live.facts("row_count")
    shapes = zip(live.facts("schema_id"), live.facts("value_stats_cols"), live.facts("write_cols"), strict=True)
    groups: dict[tuple[object, ...], list[int]] = {}
    for position, (shape, one) in enumerate(zip(shapes, stats, strict=True)):
        groups.setdefault((*shape, _is_known(one)), []).append(position)
    found: list[list[object]] = [[None] * len(live) for _ in range(3)]
    for (schema_id, stats_columns, write_columns, is_known), positions in groups.items():
        written = table.store.schemas.get(schema_id).fields  # type: ignore[arg-type]  # the first of the shape
        columns = stats_columns if stats_columns is not None else write_columns or [field.name for field in written]
        group = _Group(table.fields, written, tuple(columns) if is_known else ())  # type: ignore[arg-type]
        texts = group.together([stats[p] for p in positions], [row_counts[p] for p in positions])
        if texts is None:
            texts = list(zip(*(group.alone(entry.file) for entry in live.at(np.array(positions))), strict=True))
        for column, some in zip(found, texts, strict=True):
            for position, text in zip(positions, some, strict=True):
                column[position] = text
    return found


def _is_known(stats: SimpleStats) -> bool:
    return bool(stats.null_counts) or stats.min_values != EMPTY_ROW


@dataclass(frozen=True, slots=True)
class _Group:
    """Files of one schema that have statistics of the same columns."""

    fields: Sequence[DataField]  # the current columns of the table
    written: Sequence[DataField]  # the columns of the schema of the files
    columns: tuple[str, ...]  # what the statistics cover, in order

    def together(self, stats: Sequence[SimpleStats], row_counts: Sequence[int]) -> Sequence[Sequence[str]] | None:
        """Return null counts, lower and upper bounds of all files, each as JSON; None: take them one by one."""
        if any(len(one.null_counts) != len(self.columns) for one in stats):
            return None
        rows = [one.min_values for one in stats], [one.max_values for one in stats]
        bounds = [_Bounds(some, RowColumns(some, len(self.columns))) for some in rows]
        if not all(one.columns.is_sound for one in bounds):
            return None
        columns: list[tuple[_Texts, _Texts, _Texts]] = []
        for field in self.fields:
            stored, nulls = self._stored_column(field), [_NULL] * len(stats)
            if stored is None:
                columns.append(([*map(str, row_counts)], nulls, nulls))
            elif stored.name not in self.columns:
                columns.append((nulls, nulls, nulls))
            else:
                index = self.columns.index(stored.name)
                counts = [_NULL if (count := one.null_counts[index]) is None else str(count) for one in stats]
                try:
                    lows, highs = (one.values(index, stored.type) for one in bounds)
                except CorruptTableError:
                    return None
                columns.append((counts, *_bound_texts(lows, highs, stored.type)))
        members = (encode_basestring(field.name).replace("%", "%%") for field in self.fields)
        form = "{" + ",".join(f"{member}:%s" for member in members) + "}"
        return [[form % row for row in zip(*column, strict=True)] for column in zip(*columns, strict=True)]

    def alone(self, file: DataFile) -> tuple[str, str, str]:
        """Return the same of one file; damaged statistics raise CorruptTableError."""
        counts: dict[str, int | None] = {}
        lows: dict[str, str | None] = {}
        highs: dict[str, str | None] = {}
        for field in self.fields:
            stored = self._stored_column(field)
            stats = None if stored is None else field_stats(file, stored.name, self.written)
            low, high = (None, None) if stats is None else (stats.min, stats.max)
            counts[field.name] = file.row_count if stored is None else None if stats is None else stats.null_count
            dtype = field.type if stored is None else stored.type
            lows[field.name] = None if low is None else to_text(low, dtype)
            highs[field.name] = None if high is None else to_text(high, dtype)
        return compact_json(counts), compact_json(lows), compact_json(highs)

    def _stored_column(self, field: DataField) -> DataField | None:
        """Return a column as the files have it, which may have another name and type; None: they lack it."""
        return next((stored for stored in self.written if stored.id == field.id), None)


@dataclass(frozen=True, slots=True)
class _Bounds:
    """The lower, or the upper, bounds of several files."""

    rows: Sequence[bytes]
    columns: RowColumns

    def values(self, index: int, dtype: DataType) -> Sequence[Value]:
        """Return the bounds of one column."""
        if not isinstance(dtype, AtomicType):
            return [None] * len(self.rows)
        values = self.columns.values(index, dtype)
        return [decode_field(row, index, dtype) for row in self.rows] if values is None else values


def _bound_texts(lows: Sequence[Value], highs: Sequence[Value], dtype: DataType) -> tuple[_Texts, _Texts]:
    """Return the bounds of a column as JSON, corrected as `field_stats` does it."""
    root = dtype.root if isinstance(dtype, AtomicType) else ""
    if root in INTEGER_BITS:
        return _numbers(lows), _numbers(highs)
    if root == "VARCHAR":
        # Of texts only the last character of an upper bound is looked at.
        return _strings(lows), _strings([None if str(high).endswith("?") else high for high in highs])
    pairs = list(zip(lows, highs, strict=True))
    known = {pair: [_quote_value(bound, dtype) for bound in corrected_bounds(*pair, dtype)] for pair in set(pairs)}
    texts = [known[pair] for pair in pairs]
    return [low for low, _ in texts], [high for _, high in texts]


def _numbers(values: Iterable[Value]) -> _Texts:
    return [_NULL if value is None else f'"{value!s}"' for value in values]


def _strings(values: Iterable[Value]) -> _Texts:
    return [_NULL if value is None else encode_basestring(value) for value in values]  # type: ignore[arg-type]  # texts


def _quote_value(value: Value, dtype: DataType) -> str:
    return _NULL if value is None else encode_basestring(to_text(value, dtype))


def key_texts(keys: Sequence[bytes], types: Sequence[DataType]) -> list[str | None]:
    """Return keys in Java's text form, such as `[1, a]`; None for tables without a primary key."""
    if not types:
        return [None] * len(keys)
    rows = RowColumns(keys, len(types))
    columns = [rows.values(index, dtype) for index, dtype in enumerate(types)]
    if None in columns:
        return [None if key == EMPTY_ROW else f"[{row_text(key, types)}]" for key in keys]
    texts = [
        [_NULL if value is None else to_text(value, dtype) for value in column or ()]
        for column, dtype in zip(columns, types, strict=True)
    ]
    return [f"[{', '.join(row)}]" for row in zip(*texts, strict=True)]


def row_text(row: bytes, types: Sequence[DataType]) -> str:
    """Return the values of a row in Java's text form, such as `1, a`."""
    values = zip(decode_row(row, types), types, strict=True)
    return ", ".join(_NULL if value is None else to_text(value, dtype) for value, dtype in values)


# ---- Columns and keys ------------------------------------------------------------------------------------------------

_NOT_NULL = "!"  # after a type: the column is never null
_TEXT = AtomicType("STRING")
_RANGE = RowType(
    True,  # noqa: FBT003
    (
        DataField(0, "f0", AtomicType("STRING", False)),  # noqa: FBT003
        DataField(1, "f1", AtomicType("INT", False)),  # noqa: FBT003
        DataField(2, "f2", AtomicType("INT", False)),  # noqa: FBT003
        DataField(3, "_CARDINALITY", AtomicType("BIGINT")),
    ),
)
_NESTED: dict[str, DataType] = {"TEXTS": ArrayType(True, _TEXT), "RANGES": ArrayType(True, _RANGE)}  # noqa: FBT003

_FILE = """partition STRING, bucket INT!, file_path STRING!, file_format STRING!, schema_id BIGINT!, level INT!,
    record_count BIGINT!, file_size_in_bytes BIGINT!, min_key STRING, max_key STRING"""
_COUNTS = "record_count BIGINT!, file_size_in_bytes BIGINT!, file_count BIGINT!, last_update_time TIMESTAMP(3)"
_NAMES = "database_name STRING, table_name STRING"
_FILE_COUNTS = "record_count BIGINT, file_size_in_bytes BIGINT, file_count BIGINT, last_file_creation_time BIGINT"
_COLUMN_TEXTS = {
    "snapshots": """snapshot_id BIGINT!, schema_id BIGINT!, commit_user STRING!, commit_identifier BIGINT!,
        commit_kind STRING!, commit_time TIMESTAMP(3)!, base_manifest_list STRING!, delta_manifest_list STRING!,
        changelog_manifest_list STRING, total_record_count BIGINT, delta_record_count BIGINT,
        changelog_record_count BIGINT, watermark BIGINT, next_row_id BIGINT, writer_version STRING""",
    "schemas": """schema_id BIGINT!, fields STRING!, partition_keys STRING!, primary_keys STRING!, options STRING!,
        comment STRING, update_time TIMESTAMP(3)!""",
    "options": "key STRING!, value STRING!",
    "manifests": """file_name STRING!, file_size BIGINT!, num_added_files BIGINT!, num_deleted_files BIGINT!,
        schema_id BIGINT!, min_partition_stats STRING, max_partition_stats STRING, min_row_id BIGINT,
        max_row_id BIGINT""",
    "files": f"""{_FILE}, null_value_counts STRING!, min_value_stats STRING!, max_value_stats STRING!,
        min_sequence_number BIGINT, max_sequence_number BIGINT, creation_time TIMESTAMP(3), deleteRowCount BIGINT,
        file_source STRING, first_row_id BIGINT, write_cols TEXTS""",
    "file_key_ranges": f"{_FILE}, first_row_id BIGINT",
    "partitions": f"""partition STRING, {_COUNTS}, created_at TIMESTAMP(3), created_by STRING, updated_by STRING,
        options STRING, total_buckets INT!, done BOOLEAN!, deleted_record_count BIGINT""",
    "buckets": f"partition STRING, bucket INT!, {_COUNTS}",
    "tags": """tag_name STRING!, snapshot_id BIGINT!, schema_id BIGINT!, commit_time TIMESTAMP(3)!,
        record_count BIGINT, create_time TIMESTAMP(3), time_retained STRING""",
    "branches": "branch_name STRING!, create_time TIMESTAMP(3)!",
    "consumers": "consumer_id STRING!, next_snapshot_id BIGINT!",
    "aggregation_fields": """field_name STRING!, field_type STRING!, function STRING, function_options STRING,
        comment STRING""",
    "statistics": """snapshot_id BIGINT!, schema_id BIGINT!, mergedRecordCount BIGINT, mergedRecordSize BIGINT,
        colstat STRING""",
    "table_indexes": """partition STRING, bucket INT!, index_type STRING!, file_name STRING!, file_size BIGINT!,
        row_count BIGINT!, dv_ranges RANGES, row_range_start BIGINT, row_range_end BIGINT, index_field_id INT,
        index_field_name STRING""",
    "sys.tables": f"""{_NAMES}, table_type STRING, partitioned BOOLEAN, primary_key BOOLEAN, owner STRING,
        created_at BIGINT, created_by STRING, updated_at BIGINT, updated_by STRING, {_FILE_COUNTS}""",
    "sys.partitions": f"{_NAMES}, partition_name STRING, {_FILE_COUNTS}, done BOOLEAN",
    "sys.all_table_options": f"{_NAMES}, key STRING, value STRING",
    "sys.catalog_options": "key STRING!, value STRING!",
}
_KEYS = {
    "buckets": ("partition", "bucket"),
    "file_key_ranges": ("file_path",),
    "files": ("file_path",),
    "table_indexes": ("file_name",),
}
_IDS = {"writer_version": 15}  # the id 14 belongs to a column that only other implementations show


def fields_of(name: str) -> tuple[DataField, ...]:
    """Return the columns of a system table in order.

    >>> [str(field.type) for field in fields_of("consumers")]
    ['STRING NOT NULL', 'BIGINT NOT NULL']
    """
    declared = (column.split() for column in _COLUMN_TEXTS[name].split(","))
    return tuple(DataField(_IDS.get(column, at), column, _type(text)) for at, (column, text) in enumerate(declared))


def keys_of(name: str) -> tuple[str, ...]:
    """Return the columns that identify a row of a system table: the first one, unless others do.

    >>> keys_of("buckets"), keys_of("tags")
    (('partition', 'bucket'), ('tag_name',))
    """
    return _KEYS.get(name) or (fields_of(name)[0].name,)


def _type(text: str) -> DataType:
    return _NESTED.get(text) or AtomicType(text.removesuffix(_NOT_NULL), not text.endswith(_NOT_NULL))


# ---- Rows about files ------------------------------------------------------------------------------------------------
# The snapshot is the newest, or the one that the `scan.` options of the table name.

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
    snapshot = resolve_snapshot(table.store)
    table.store.check_same_table()
    return snapshot


def _live(table: FileStoreTable) -> SelectedEntries:
    snapshot = _snapshot(table)
    return SelectedEntries.of(()) if snapshot is None else table.store.manifests.live_columns(snapshot)


def _names(live: SelectedEntries) -> list[tuple[str | None, str]]:
    """Return the external path of each file, None: it has none, and its name."""
    return list(zip(live.facts("external_path"), live.facts("file_name"), strict=True))


def _index(table: FileStoreTable) -> list[IndexEntry]:
    snapshot = _snapshot(table)
    manifest = None if snapshot is None else snapshot.index_manifest
    return [] if manifest is None else table.store.manifests.read_index(manifest)


def _file_facts(
    table: FileStoreTable, live: SelectedEntries, paths: list[str], key_text: KeyText | None
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


# ---- System tables by name -------------------------------------------------------------------------------------------

_ROWS: dict[str, RowSource] = {
    "snapshots": snapshots,
    "schemas": schemas,
    "options": options,
    "manifests": manifests,
    "files": files,
    "partitions": partitions,
    "buckets": buckets,
    "tags": tags,
    "branches": branches,
    "file_key_ranges": file_key_ranges,
    "table_indexes": table_indexes,
    "consumers": consumers,
    "statistics": statistics,
    "aggregation_fields": aggregation_fields,
}
_COLUMN_SOURCES: dict[str, ColumnSource] = {"files": file_columns, "file_key_ranges": key_range_columns}

_VIEWS: dict[str, type[RowView]] = {view.suffix: view for view in (AuditLog, BinaryLog, ReadOptimized, RowTracking)}


def system_table(table: FileStoreTable, name: str) -> TableSystemTable | RowView:
    """Return the system table of that name."""
    if name in _VIEWS:
        return _VIEWS[name](table)
    if name not in _ROWS:
        known = ", ".join(f"${n}" for n in (*_ROWS, *_VIEWS))
        raise TableNotExistException(
            f"the system table ${name} of {table.name} does not exist (there are {known})",
            table=f"{table.name}${name}",
            identifier=Identifier(table.identifier.database, table.identifier.get_object_name(), system_table=name),
        )
    return TableSystemTable(name, fields_of(name), keys_of(name), table, _ROWS[name], _COLUMN_SOURCES.get(name))
