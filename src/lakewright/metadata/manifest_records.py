"""Avro schemas of manifests; records to entries and back."""

from __future__ import annotations

import io
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeAlias, TypedDict, cast

import fastavro

from lakewright.formats.avro_container import (
    SYNC_BYTES,
    Block,
    Codec,
    FileSchema,
    check_readable,
    compile_schema,
    compress,
    decode_blocks,
    decode_header,
    encode_file,
    file_schema,
)
from lakewright.formats.file_format import translate_decode_errors
from lakewright.spec.binary_row import decode_row, encode_row
from lakewright.spec.manifest import (
    ADD,
    EMPTY_ROW,
    EMPTY_STATS,
    DataFile,
    DeletionRange,
    GlobalIndex,
    IndexEntry,
    IndexFile,
    ManifestEntry,
    ManifestFile,
    SimpleStats,
)
from lakewright.spec.types import DataType, Value

# ---- Avro files of records -------------------------------------------------------------------------------------------
# Fields are found by the names in the file's own schema, because newer files have more fields, record names differ
# between writers, and some put the record into a union. Invariant: either all records of a file are decoded, or
# CorruptTableError is raised.

Record: TypeAlias = dict[str, object]
Schema: TypeAlias = dict[str, object]

BLOCK_BYTES = 64_000  # a block is closed once its records reach this size, as Java does
FILE_BYTES_MAX = 2 << 30  # of all blocks together, decompressed


def decode_records(data: bytes, path: str, *, expected: Schema | None = None) -> list[Record]:
    """Return the records of an Avro file; `path` names it in errors.

    With `expected`, each of its fields must be in the file with a type that can be read as the expected one; only
    fields that have a default may be missing. A value may be None wherever the file's schema says so.
    """
    return list(iterate_records(data, path, expected=expected))


def iterate_records(data: bytes, path: str, *, expected: Schema | None = None) -> Iterator[Record]:
    """Yield the records one by one, as `decode_records` returns them. After an error, those before are invalid too."""
    with translate_decode_errors(path):
        header = decode_header(data)
        coding = _coding(header.schema)
        if expected is not None:
            coding.check_readable(expected)
        total = 0
        for block in decode_blocks(data, header):
            total += len(block.data)
            if total > FILE_BYTES_MAX:
                raise ValueError(f"its records take more than {FILE_BYTES_MAX} bytes")
            yield from _records(block, coding.entry)


@dataclass(frozen=True, slots=True)
class _Coding:
    """The schema in the header of a file, in fastavro's form too, and the expected schemas it was checked against."""

    schema: FileSchema
    entry: Any
    readable_as: list[Schema] = field(default_factory=list)

    def check_readable(self, expected: Schema) -> None:
        """Check the schema once for all files that have it: the check can take longer than reading a file."""
        if not any(known is expected for known in self.readable_as):
            check_readable(self.schema.record, expected)
            self.readable_as.append(expected)


@lru_cache(maxsize=32)
def _coding(schema: bytes) -> _Coding:
    """Return a checked schema; cached, because most files of a table have the same one."""
    checked = file_schema(json.loads(schema))
    return _Coding(checked, compile_schema(checked.entry))


@lru_cache(maxsize=32)
def _writing(schema: bytes) -> Any:  # noqa: ANN401 - fastavro's own kind of schema
    """Return how records of a schema of ours are written; it needs none of the checks for files of others."""
    return fastavro.parse_schema(json.loads(schema))


def _records(block: Block, schema: Any) -> Iterator[Record]:  # noqa: ANN401 - fastavro's own kind of schema
    source = io.BytesIO(block.data)
    for _ in range(block.count):
        record = fastavro.schemaless_reader(source, schema, None)
        if record is None:
            raise ValueError("one of its records is null")
        yield cast("Record", record)
    if source.tell() != len(block.data):
        raise ValueError(f"a block has {len(block.data) - source.tell()} bytes after its last record")


class RecordEncoder:
    """Collects the records of one file and counts its bytes, so that the caller knows when to start another file."""

    def __init__(self, schema: Schema, compression: str, *, zstd_level: int = 1, salt: bytes = b"") -> None:
        self._codec = Codec.of(compression, zstd_level)
        self._schema = json.dumps(schema, separators=(",", ":")).encode()
        self._salt = salt
        self._entry = _writing(self._schema)
        self._pending = io.BytesIO()
        self._pending_count = 0
        self._blocks: list[tuple[int, bytes]] = []
        self._size = 0

    @property
    def size(self) -> int:
        """The bytes of the closed blocks, a little less than the size of the file."""
        return self._size

    def add(self, record: Mapping[str, object]) -> None:
        """Append one record."""
        fastavro.schemaless_writer(self._pending, self._entry, record)
        self._pending_count += 1
        if self._pending.tell() >= BLOCK_BYTES:
            self._close_block()

    def finish(self) -> bytes:
        """Return the whole file."""
        if self._pending_count:
            self._close_block()
        return encode_file(self._schema, self._codec, self._blocks, self._salt)

    def _close_block(self) -> None:
        block = compress(self._pending.getvalue(), self._codec)
        self._blocks.append((self._pending_count, block))
        self._size += len(block) + SYNC_BYTES
        self._pending = io.BytesIO()
        self._pending_count = 0


# ---- Schemas and records ---------------------------------------------------------------------------------------------
# The schemas are Java's, name by name, so that every reader of the format finds what it expects. Records of other
# writers may lack the fields that are nullable here, or have None where we would never write it.

ENTRY_VERSION = 2
LIST_VERSION = 2
INDEX_VERSION = 1

_NAMESPACE = "org.apache.paimon.avro.generated"


class StatsRecord(TypedDict):
    """Bounds and null counts as a record."""

    _MIN_VALUES: bytes
    _MAX_VALUES: bytes
    _NULL_COUNTS: list[int | None] | None


class FileRecord(TypedDict, total=False):
    """A data file as a record."""

    _FILE_NAME: str
    _FILE_SIZE: int
    _ROW_COUNT: int
    _MIN_KEY: bytes
    _MAX_KEY: bytes
    _KEY_STATS: StatsRecord | None
    _VALUE_STATS: StatsRecord | None
    _MIN_SEQUENCE_NUMBER: int
    _MAX_SEQUENCE_NUMBER: int
    _SCHEMA_ID: int
    _LEVEL: int
    _EXTRA_FILES: list[str] | None
    _CREATION_TIME: int | None
    _DELETE_ROW_COUNT: int | None
    _EMBEDDED_FILE_INDEX: bytes | None
    _FILE_SOURCE: int | None
    _VALUE_STATS_COLS: list[str] | None
    _EXTERNAL_PATH: str | None
    _FIRST_ROW_ID: int | None
    _WRITE_COLS: list[str] | None
    _WRITE_COLS_SEQUENCES: list[int] | None


class EntryRecord(TypedDict):
    """An entry of a manifest as a record."""

    _VERSION: int
    _KIND: int
    _PARTITION: bytes
    _BUCKET: int
    _TOTAL_BUCKETS: int
    _FILE: FileRecord | None


class ListRecord(TypedDict, total=False):
    """An entry of a manifest list as a record."""

    _VERSION: int
    _FILE_NAME: str
    _FILE_SIZE: int
    _NUM_ADDED_FILES: int
    _NUM_DELETED_FILES: int
    _PARTITION_STATS: StatsRecord | None
    _SCHEMA_ID: int
    _MIN_BUCKET: int | None
    _MAX_BUCKET: int | None
    _MIN_LEVEL: int | None
    _MAX_LEVEL: int | None
    _MIN_ROW_ID: int | None
    _MAX_ROW_ID: int | None


class RangeRecord(TypedDict, total=False):
    """The place of a deletion vector as a record."""

    f0: str
    f1: int
    f2: int
    _CARDINALITY: int | None


class GlobalIndexRecord(TypedDict, total=False):
    """The part of a global index as a record."""

    _ROW_RANGE_START: int
    _ROW_RANGE_END: int
    _INDEX_FIELD_ID: int
    _EXTRA_FIELD_IDS: list[int] | None
    _INDEX_META: bytes | None
    _SOURCE_META: bytes | None


class IndexRecord(TypedDict, total=False):
    """An entry of an index manifest as a record."""

    _VERSION: int
    _KIND: int
    _PARTITION: bytes
    _BUCKET: int
    _INDEX_TYPE: str
    _FILE_NAME: str
    _FILE_SIZE: int
    _ROW_COUNT: int
    _DELETIONS_VECTORS_RANGES: list[RangeRecord | None] | None
    _EXTERNAL_PATH: str | None
    _GLOBAL_INDEX: GlobalIndexRecord | None


def _required_field(name: str, kind: object) -> Schema:
    return {"name": name, "type": kind}


def _optional(name: str, kind: object) -> Schema:
    return {"name": name, "type": ["null", kind], "default": None}


def _array(items: object) -> Schema:
    return {"type": "array", "items": items}


def _record(name: str, fields: list[Schema]) -> Schema:
    return {"type": "record", "name": name, "fields": fields}


def _top(fields: list[Schema]) -> Schema:
    return {"type": "record", "name": "record", "namespace": _NAMESPACE, "fields": fields}


def _stats(name: str) -> Schema:
    return _record(
        name,
        [
            _required_field("_MIN_VALUES", "bytes"),
            _required_field("_MAX_VALUES", "bytes"),
            _optional("_NULL_COUNTS", _array(["null", "long"])),
        ],
    )


_FILE_FIELDS = [
    _required_field("_FILE_NAME", "string"),
    _required_field("_FILE_SIZE", "long"),
    _required_field("_ROW_COUNT", "long"),
    _required_field("_MIN_KEY", "bytes"),
    _required_field("_MAX_KEY", "bytes"),
    _required_field("_KEY_STATS", _stats("record__FILE__KEY_STATS")),
    _required_field("_VALUE_STATS", _stats("record__FILE__VALUE_STATS")),
    _required_field("_MIN_SEQUENCE_NUMBER", "long"),
    _required_field("_MAX_SEQUENCE_NUMBER", "long"),
    _required_field("_SCHEMA_ID", "long"),
    _required_field("_LEVEL", "int"),
    _required_field("_EXTRA_FILES", _array("string")),
    _optional("_CREATION_TIME", {"type": "long", "logicalType": "timestamp-millis"}),
    _optional("_DELETE_ROW_COUNT", "long"),
    _optional("_EMBEDDED_FILE_INDEX", "bytes"),
    _optional("_FILE_SOURCE", "int"),
    _optional("_VALUE_STATS_COLS", _array("string")),
    _optional("_EXTERNAL_PATH", "string"),
    _optional("_FIRST_ROW_ID", "long"),
    _optional("_WRITE_COLS", _array("string")),
]


def _entry_schema(file_fields: list[Schema]) -> Schema:
    return _top(
        [
            _required_field("_VERSION", "int"),
            _required_field("_KIND", "int"),
            _required_field("_PARTITION", "bytes"),
            _required_field("_BUCKET", "int"),
            _required_field("_TOTAL_BUCKETS", "int"),
            _required_field("_FILE", _record("record__FILE", file_fields)),
        ]
    )


# Only tables that need the last field get it: released readers do not support it.
ENTRY_SCHEMA = _entry_schema(_FILE_FIELDS)
ENTRY_SCHEMA_SEQUENCES = _entry_schema([*_FILE_FIELDS, _optional("_WRITE_COLS_SEQUENCES", _array("long"))])

LIST_SCHEMA = _top(
    [
        _required_field("_VERSION", "int"),
        _required_field("_FILE_NAME", "string"),
        _required_field("_FILE_SIZE", "long"),
        _required_field("_NUM_ADDED_FILES", "long"),
        _required_field("_NUM_DELETED_FILES", "long"),
        _required_field("_PARTITION_STATS", _stats("record__PARTITION_STATS")),
        _required_field("_SCHEMA_ID", "long"),
        _optional("_MIN_BUCKET", "int"),
        _optional("_MAX_BUCKET", "int"),
        _optional("_MIN_LEVEL", "int"),
        _optional("_MAX_LEVEL", "int"),
        _optional("_MIN_ROW_ID", "long"),
        _optional("_MAX_ROW_ID", "long"),
    ]
)

_RANGE = _record(
    "record__DELETIONS_VECTORS_RANGES",
    [
        _required_field("f0", "string"),
        _required_field("f1", "int"),
        _required_field("f2", "int"),
        _optional("_CARDINALITY", "long"),
    ],
)
_GLOBAL_FIELDS = [
    _required_field("_ROW_RANGE_START", "long"),
    _required_field("_ROW_RANGE_END", "long"),
    _required_field("_INDEX_FIELD_ID", "int"),
    _optional("_EXTRA_FIELD_IDS", _array("int")),
    _optional("_INDEX_META", "bytes"),
]


def _index_schema(global_fields: list[Schema]) -> Schema:
    return _top(
        [
            _required_field("_VERSION", "int"),
            _required_field("_KIND", "int"),
            _required_field("_PARTITION", "bytes"),
            _required_field("_BUCKET", "int"),
            _required_field("_INDEX_TYPE", "string"),
            _required_field("_FILE_NAME", "string"),
            _required_field("_FILE_SIZE", "long"),
            _required_field("_ROW_COUNT", "long"),
            _optional("_DELETIONS_VECTORS_RANGES", _array(["null", _RANGE])),
            _optional("_EXTERNAL_PATH", "string"),
            _optional("_GLOBAL_INDEX", _record("record__GLOBAL_INDEX", global_fields)),
        ]
    )


INDEX_SCHEMA = _index_schema(_GLOBAL_FIELDS)
INDEX_SCHEMA_SOURCE = _index_schema([*_GLOBAL_FIELDS, _optional("_SOURCE_META", "bytes")])


def manifest_facts(
    entries: Sequence[ManifestEntry], types: Sequence[DataType], *, name: str, size: int, schema_id: int
) -> ManifestFile:
    """Return the record of a manifest with these entries in a manifest list."""
    files = [entry.file for entry in entries]
    buckets, levels = [entry.bucket for entry in entries], [file.level for file in files]
    first_ids = [file.first_row_id for file in files]
    last_ids = [file.first_row_id + file.row_count - 1 for file in files if file.first_row_id is not None]
    has_ids = len(last_ids) == len(files)  # bounds of ids are recorded only if all files have ids
    added = sum(entry.kind == ADD for entry in entries)
    return ManifestFile(
        file_name=name,
        file_size=size,
        num_added_files=added,
        num_deleted_files=len(entries) - added,
        partition_stats=_partition_stats(Counter(entry.partition for entry in entries), types),
        schema_id=max((file.schema_id for file in files), default=schema_id),
        min_bucket=min(buckets, default=None),
        max_bucket=max(buckets, default=None),
        min_level=min(levels, default=None),
        max_level=max(levels, default=None),
        min_row_id=min((i for i in first_ids if i is not None), default=None) if has_ids else None,
        max_row_id=max(last_ids, default=None) if has_ids else None,
    )


def _partition_stats(partitions: Counter[bytes], types: Sequence[DataType]) -> SimpleStats:
    """Return the bounds and null counts of the partition columns over all entries, never truncated."""
    if not types:
        return EMPTY_STATS
    rows = [(decode_row(data, types), count) for data, count in partitions.items()]
    lows: list[Value] = []
    highs: list[Value] = []
    nulls: list[int | None] = []
    for column in range(len(types)):
        values = [row[column] for row, _ in rows if row[column] is not None]
        lows.append(min(values, key=java_order, default=None))
        highs.append(max(values, key=java_order, default=None))
        nulls.append(sum(count for row, count in rows if row[column] is None))
    return SimpleStats(encode_row(lows, types), encode_row(highs, types), tuple(nulls))


def java_order(value: Value) -> tuple[object, ...]:
    """Return a key that sorts values as Java does: NaN after every number, -0.0 before 0.0."""
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value, math.copysign(1, value))
    return (value,)


def entry_record(entry: ManifestEntry) -> Record:
    """Return the record of a manifest entry."""
    f = entry.file
    file: Record = {
        "_FILE_NAME": f.file_name,
        "_FILE_SIZE": f.file_size,
        "_ROW_COUNT": f.row_count,
        "_MIN_KEY": f.min_key,
        "_MAX_KEY": f.max_key,
        "_KEY_STATS": _stats_record(f.key_stats),
        "_VALUE_STATS": _stats_record(f.value_stats),
        "_MIN_SEQUENCE_NUMBER": f.min_sequence_number,
        "_MAX_SEQUENCE_NUMBER": f.max_sequence_number,
        "_SCHEMA_ID": f.schema_id,
        "_LEVEL": f.level,
        "_EXTRA_FILES": list(f.extra_files),
        "_CREATION_TIME": 0 if f.creation_time is None else f.creation_time,  # Java fails on a null here
        "_DELETE_ROW_COUNT": f.delete_row_count,
        "_EMBEDDED_FILE_INDEX": f.embedded_file_index,
        "_FILE_SOURCE": f.file_source,
        "_VALUE_STATS_COLS": _list(f.value_stats_cols),
        "_EXTERNAL_PATH": f.external_path,
        "_FIRST_ROW_ID": f.first_row_id,
        "_WRITE_COLS": _list(f.write_cols),
        "_WRITE_COLS_SEQUENCES": _list(f.write_cols_sequences),
    }
    return {
        "_VERSION": ENTRY_VERSION,
        "_KIND": entry.kind,
        "_PARTITION": entry.partition,
        "_BUCKET": entry.bucket,
        "_TOTAL_BUCKETS": entry.total_buckets,
        "_FILE": file,
    }


def data_file(record: FileRecord) -> DataFile:
    """Return the data file of a manifest entry's record."""
    return DataFile(
        record["_FILE_NAME"],
        record["_FILE_SIZE"],
        record["_ROW_COUNT"],
        record["_MIN_KEY"],
        record["_MAX_KEY"],
        stats_of(record["_KEY_STATS"]),
        stats_of(record["_VALUE_STATS"]),
        record["_MIN_SEQUENCE_NUMBER"],
        record["_MAX_SEQUENCE_NUMBER"],
        record["_SCHEMA_ID"],
        record["_LEVEL"],
        tuple(record["_EXTRA_FILES"] or ()),
        record.get("_CREATION_TIME"),
        record.get("_DELETE_ROW_COUNT"),
        record.get("_EMBEDDED_FILE_INDEX"),
        record.get("_FILE_SOURCE"),
        _texts(record.get("_VALUE_STATS_COLS")),
        record.get("_EXTERNAL_PATH"),
        record.get("_FIRST_ROW_ID"),
        _texts(record.get("_WRITE_COLS")),
        None if (sequences := record.get("_WRITE_COLS_SEQUENCES")) is None else tuple(sequences),
    )


def list_record(manifest: ManifestFile) -> Record:
    """Return the record of a manifest in a manifest list."""
    return {
        "_VERSION": LIST_VERSION,
        "_FILE_NAME": manifest.file_name,
        "_FILE_SIZE": manifest.file_size,
        "_NUM_ADDED_FILES": manifest.num_added_files,
        "_NUM_DELETED_FILES": manifest.num_deleted_files,
        "_PARTITION_STATS": _stats_record(manifest.partition_stats),
        "_SCHEMA_ID": manifest.schema_id,
        "_MIN_BUCKET": manifest.min_bucket,
        "_MAX_BUCKET": manifest.max_bucket,
        "_MIN_LEVEL": manifest.min_level,
        "_MAX_LEVEL": manifest.max_level,
        "_MIN_ROW_ID": manifest.min_row_id,
        "_MAX_ROW_ID": manifest.max_row_id,
    }


def manifest_file(record: ListRecord) -> ManifestFile:
    """Return the manifest that a record of a manifest list describes."""
    return ManifestFile(
        record["_FILE_NAME"],
        record["_FILE_SIZE"],
        record["_NUM_ADDED_FILES"],
        record["_NUM_DELETED_FILES"],
        stats_of(record["_PARTITION_STATS"]),
        record["_SCHEMA_ID"],
        record.get("_MIN_BUCKET"),
        record.get("_MAX_BUCKET"),
        record.get("_MIN_LEVEL"),
        record.get("_MAX_LEVEL"),
        record.get("_MIN_ROW_ID"),
        record.get("_MAX_ROW_ID"),
    )


def index_record(entry: IndexEntry) -> Record:
    """Return the record of an entry of an index manifest."""
    f, g = entry.file, entry.file.global_index
    ranges = None if f.deletion_ranges is None else [_range_record(r) for r in f.deletion_ranges]
    global_index: Record | None = None
    if g is not None:
        global_index = {
            "_ROW_RANGE_START": g.row_range_start,
            "_ROW_RANGE_END": g.row_range_end,
            "_INDEX_FIELD_ID": g.index_field_id,
            "_EXTRA_FIELD_IDS": _list(g.extra_field_ids),
            "_INDEX_META": g.index_meta,
            "_SOURCE_META": g.source_meta,
        }
    return {
        "_VERSION": INDEX_VERSION,
        "_KIND": entry.kind,
        "_PARTITION": entry.partition,
        "_BUCKET": entry.bucket,
        "_INDEX_TYPE": f.index_type,
        "_FILE_NAME": f.file_name,
        "_FILE_SIZE": f.file_size,
        "_ROW_COUNT": f.row_count,
        "_DELETIONS_VECTORS_RANGES": ranges,
        "_EXTERNAL_PATH": f.external_path,
        "_GLOBAL_INDEX": global_index,
    }


def index_file(record: IndexRecord) -> IndexFile:
    """Return the index file of an index manifest's record."""
    ranges, global_index = record.get("_DELETIONS_VECTORS_RANGES"), record.get("_GLOBAL_INDEX")
    return IndexFile(
        record["_INDEX_TYPE"],
        record["_FILE_NAME"],
        record["_FILE_SIZE"],
        record["_ROW_COUNT"],
        None
        if ranges is None
        else tuple(DeletionRange(r["f0"], r["f1"], r["f2"], r.get("_CARDINALITY")) for r in ranges if r is not None),
        record.get("_EXTERNAL_PATH"),
        None if global_index is None else _global_index(global_index),
    )


def stats_of(record: StatsRecord | None) -> SimpleStats:
    """Return the statistics of a record; some writers leave empty ones out."""
    if record is None:
        return EMPTY_STATS
    low, high, nulls = record["_MIN_VALUES"], record["_MAX_VALUES"], record.get("_NULL_COUNTS")
    if low == high == EMPTY_ROW and not nulls:
        return EMPTY_STATS  # one object for all files, most of which lack some statistics
    return SimpleStats(low, high, tuple(nulls or ()))


def _stats_record(stats: SimpleStats) -> Record:
    return {"_MIN_VALUES": stats.min_values, "_MAX_VALUES": stats.max_values, "_NULL_COUNTS": list(stats.null_counts)}


def _range_record(place: DeletionRange) -> Record:
    return {"f0": place.data_file, "f1": place.offset, "f2": place.length, "_CARDINALITY": place.cardinality}


def _global_index(record: GlobalIndexRecord) -> GlobalIndex:
    ids = record.get("_EXTRA_FIELD_IDS")
    return GlobalIndex(
        record["_ROW_RANGE_START"],
        record["_ROW_RANGE_END"],
        record["_INDEX_FIELD_ID"],
        None if ids is None else tuple(ids),
        record.get("_INDEX_META"),
        record.get("_SOURCE_META"),
    )


def _texts(values: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if values is None else tuple(values)


def _list(values: Sequence[object] | None) -> list[object] | None:
    """Return a list, because fastavro reads a tuple as the name of a branch of a union and its value."""
    return None if values is None else list(values)
