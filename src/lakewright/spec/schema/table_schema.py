"""Schemas: what a user declares, what a schema file records, and the rules between the two.

A `Schema` is a wish; `new_table_schema` checks it, numbers its fields and returns the `TableSchema` of a new table. A
`TableSchema` is one immutable version of a table's columns, keys and options; its JSON is what other implementations
read and write, plus a checksum they ignore. A schema that does not keep the format's rules never becomes a file, and a
file that is not a schema becomes a `CorruptTableError` naming its path.
"""

from __future__ import annotations

import json
import unicodedata
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from itertools import count
from typing import TypeGuard

import pyarrow as pa

from lakewright.errors import ColumnNotExistException, CorruptTableError, InvalidInputError, UnsupportedError
from lakewright.spec import arguments
from lakewright.spec.arrow import from_arrow_schema, to_arrow_schema
from lakewright.spec.options import ChangelogProducer, ConfigOption, CoreOptions, MergeEngine
from lakewright.spec.schema.option_changes import FIELD_OPTION, check_new_value
from lakewright.spec.types import (
    JSON,
    TEXT_ROOTS,
    AtomicType,
    DataField,
    DataType,
    RowType,
    highest_field_id,
    numbered_fields,
    types_inside,
    with_nullable,
)
from lakewright.spec.units import option_text
from lakewright.spec.values import cast_text

VERSION = 3
KEY_PREFIX = "_KEY_"
POSTPONE = -2  # the bucket, and the value of `bucket`, of tables that choose buckets later
SYSTEM_NAMES = frozenset({"_SEQUENCE_NUMBER", "_VALUE_KIND", "_LEVEL", "rowkind", "_ROW_ID"})

_CHECKSUM = "checksum"
_VERSION_WITH_PARQUET = 3  # older schemas mean orc where they name no format
_VERSION_WITH_BUCKETS = 2  # older schemas mean one bucket where they name no number
UNSUPPORTED_ROOTS = frozenset({"BLOB", "VARIANT", "GEOMETRY", "GEOGRAPHY"})


class BucketMode(StrEnum):
    """How rows find their bucket."""

    UNAWARE = "UNAWARE"
    HASH_FIXED = "HASH_FIXED"
    HASH_DYNAMIC = "HASH_DYNAMIC"
    KEY_DYNAMIC = "KEY_DYNAMIC"
    POSTPONE = "POSTPONE"


@dataclass(frozen=True, init=False)
class Schema:
    """Columns, keys, options and comment of a table to be created.

    >>> Schema.from_pyarrow_schema(pa.schema({"id": pa.int64(), "name": pa.string()}), primary_keys=["id"]).primary_keys
    ('id',)
    """

    fields: tuple[DataField, ...]
    partition_keys: tuple[str, ...]
    primary_keys: tuple[str, ...]
    options: Mapping[str, str]
    comment: str | None

    def __init__(
        self,
        fields: Iterable[DataField] | None = None,
        partition_keys: str | Iterable[str] | None = None,
        primary_keys: str | Iterable[str] | None = None,
        options: Mapping[str, object] | None = None,
        comment: str | None = None,
    ) -> None:
        put = object.__setattr__
        wanted = "fields; Schema.from_pyarrow_schema takes an Arrow schema"
        put(self, "fields", () if fields is None else arguments.instances("fields", fields, DataField, wanted))
        put(self, "partition_keys", _key_names("partition_keys", partition_keys))
        put(self, "primary_keys", _key_names("primary_keys", primary_keys))
        put(self, "options", {} if options is None else CoreOptions.from_dict(options).to_map())
        put(self, "comment", arguments.remark("comment", comment))

    @classmethod
    def from_pyarrow_schema(
        cls,
        pa_schema: pa.Schema,
        partition_keys: str | Iterable[str] | None = None,
        primary_keys: str | Iterable[str] | None = None,
        options: Mapping[str, object] | None = None,
        comment: str | None = None,
    ) -> Schema:
        """Take the columns from an Arrow schema."""
        arguments.instance("pa_schema", pa_schema, pa.Schema, "a pyarrow schema")
        return cls(from_arrow_schema(pa_schema), partition_keys, primary_keys, options, comment)


@dataclass(frozen=True)
class TableSchema:
    """One version of a table's schema, as its file records it."""

    id: int
    fields: tuple[DataField, ...]
    highest_field_id: int  # the highest id ever used, those of nested and dropped fields included
    partition_keys: tuple[str, ...] = ()
    primary_keys: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None
    time_millis: int = 0

    @cached_property
    def core_options(self) -> CoreOptions:
        """The options, typed."""
        return CoreOptions(self.options)

    @cached_property
    def arrow_schema(self) -> pa.Schema:
        """The columns as an Arrow schema: what a read of all columns returns."""
        return to_arrow_schema(self.fields)

    @cached_property
    def _by_name(self) -> dict[str, DataField]:
        return {field.name: field for field in self.fields}

    @property
    def field_names(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return tuple(field.name for field in self.fields)

    def field(self, name: str) -> DataField:
        """Return a column by its name."""
        found = self._by_name.get(name) if isinstance(name, str) else None
        if found is None:
            raise column_not_found(name, self.field_names)
        return found

    @cached_property
    def partition_fields(self) -> tuple[DataField, ...]:
        """The partition columns, in partition key order."""
        return tuple(self.field(name) for name in self.partition_keys)

    @cached_property
    def partition_types(self) -> tuple[DataType, ...]:
        """The types of the partition columns, in partition key order."""
        return tuple(field.type for field in self.partition_fields)

    @property
    def trimmed_primary_keys(self) -> tuple[str, ...]:
        """The primary key without the partition columns: the key by which files are sorted and merged."""
        return tuple(name for name in self.primary_keys if name not in self.partition_keys)

    @property
    def trimmed_primary_key_fields(self) -> tuple[DataField, ...]:
        """The columns of the trimmed primary key."""
        return tuple(self.field(name) for name in self.trimmed_primary_keys)

    @property
    def bucket_keys(self) -> tuple[str, ...]:
        """The columns that decide the bucket: those of `bucket-key`, else the trimmed primary key."""
        return self.core_options.bucket_key() or self.trimmed_primary_keys

    @property
    def bucket_fields(self) -> tuple[DataField, ...]:
        """The columns of the bucket key, in its order."""
        return tuple(self.field(name) for name in self.bucket_keys)

    @property
    def crosses_partitions(self) -> bool:
        """Whether an update may move a key to another partition."""
        return bool(self.primary_keys) and not set(self.partition_keys) <= set(self.primary_keys)

    @property
    def bucket_mode(self) -> BucketMode:
        """How rows find their bucket."""
        match self.core_options.bucket():
            case -2:
                return BucketMode.POSTPONE
            case -1 if not self.primary_keys:
                return BucketMode.UNAWARE
            case -1:
                return BucketMode.KEY_DYNAMIC if self.crosses_partitions else BucketMode.HASH_DYNAMIC
            case _:
                return BucketMode.HASH_FIXED

    def with_options(self, extra: Mapping[str, object]) -> TableSchema:
        """Return the same schema with options laid over its own."""
        return replace(self, options={**self.options, **CoreOptions.from_dict(extra).values})

    def to_json(self) -> str:
        """Return the text of the schema file."""
        data: dict[str, JSON] = {
            "version": VERSION,
            "id": self.id,
            "fields": [field.to_dict() for field in self.fields],
            "highestFieldId": self.highest_field_id,
            "partitionKeys": list(self.partition_keys),
            "primaryKeys": list(self.primary_keys),
            "options": dict(self.options),
        }
        if self.comment is not None:  # Java reads a null here as the text "null"
            data["comment"] = self.comment
        data["timeMillis"] = self.time_millis
        data[_CHECKSUM] = _checksum(data)
        return json.dumps(data, indent=2, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str | bytes, *, path: str) -> TableSchema:
        """Read a schema file; `path` is for messages."""
        if not isinstance(text, str | bytes):
            raise arguments.wrong("a schema file", "text or bytes", text)
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as cause:
            raise CorruptTableError(f"the schema file {path} is not JSON: {cause}", path=path) from cause
        if not isinstance(data, dict):
            raise CorruptTableError(f"the schema file {path} does not hold a JSON object", path=path)
        stated = data.pop(_CHECKSUM, None)
        if stated is not None and stated != _checksum(data):
            raise CorruptTableError(
                f"the schema file {path} does not match its checksum: it was damaged after it was written", path=path
            )
        try:
            return _schema_of(data)
        except (InvalidInputError, RecursionError) as cause:
            raise CorruptTableError(f"the schema file {path} breaks the format: {cause}", path=path) from cause
        except UnsupportedError as cause:
            raise UnsupportedError(f"the schema file {path} cannot be read: {cause}", path=path) from cause


def new_table_schema(schema: Schema, *, time_millis: int) -> TableSchema:
    """Return the first schema of a new table, or say which rule of the format the declaration breaks."""
    options = dict(schema.options)
    for key, value in options.items():
        check_new_value(options, key, value)
    primary_keys = _moved_keys(options, CoreOptions.PRIMARY_KEY, schema.primary_keys)
    partition_keys = _moved_keys(options, CoreOptions.PARTITION, schema.partition_keys)
    if CoreOptions.PATH.key() in options:
        raise InvalidInputError("the option 'path' is not stored in a schema: remove it", option="path")
    fields = numbered_fields(schema.fields, count())
    if not CoreOptions(options).get(CoreOptions.PRIMARY_KEY_NULLABLE):
        fields = tuple(
            replace(field, type=with_nullable(field.type, nullable=False)) if field.name in primary_keys else field
            for field in fields
        )
    created = TableSchema(
        id=0,
        fields=fields,
        highest_field_id=highest_field_id(fields),
        partition_keys=partition_keys,
        primary_keys=primary_keys,
        options=options,
        comment=schema.comment,
        time_millis=time_millis,
    )
    check_schema(created)
    check_partition_types(created)
    return created


def check_schema(schema: TableSchema) -> None:
    """Refuse a schema that breaks a rule of the format. Every schema passes here before it becomes a file."""
    schema.core_options.check()
    _check_names(schema.fields)
    for name in schema.field_names:
        if name in SYSTEM_NAMES or name.startswith(KEY_PREFIX):
            raise InvalidInputError(f"the column name {name!r} belongs to the format: choose another", column=name)
    _check_keys("partition key", schema, schema.partition_keys)
    _check_keys("primary key", schema, schema.primary_keys)
    if schema.primary_keys and not schema.trimmed_primary_keys:
        raise InvalidInputError(
            f"the primary key {list(schema.primary_keys)} must have a column that is not a partition key",
            columns=schema.primary_keys,
        )
    _check_buckets(schema)
    _check_row_tracking(schema)
    _check_merging(schema)
    _check_column_settings(schema)
    try:
        schema.to_json().encode()
    except UnicodeEncodeError as cause:
        raise InvalidInputError(f"a name, comment or option of the schema is not valid Unicode: {cause}") from cause


def _key_names(argument: str, names: object) -> tuple[str, ...]:
    return () if names is None else arguments.names(argument, names)


def _moved_keys(
    options: dict[str, str], option: ConfigOption[tuple[str, ...] | None], declared: tuple[str, ...]
) -> tuple[str, ...]:
    """Take a key that was declared as an option out of the options."""
    text = options.pop(option.key(), None)
    if text is None:
        return declared
    keys = option.parse(text) or ()
    if declared and declared != keys:
        raise InvalidInputError(
            f"the keys {list(declared)} and the option {option.key()!r} = {text!r} contradict each other: give one",
            option=option.key(),
        )
    return keys


def _check_names(fields: Sequence[DataField]) -> None:
    """Check the names of the columns and, level by level, of the fields inside them."""
    _check_level(fields, "the table")
    for column in fields:
        for part in types_inside(column.type):
            if isinstance(part, RowType):
                _check_level(part.fields, f"a ROW of the column {column.name!r}")


def _check_level(fields: Sequence[DataField], where: str) -> None:
    if not fields:
        raise InvalidInputError(f"{where} has no columns: give it at least one")
    seen: set[str] = set()
    for name in (column.name for column in fields):
        if not name.strip():
            raise InvalidInputError(f"{where} has a column with the blank name {name!r}: name it", column=name)
        if any(unicodedata.category(character) == "Cc" for character in name):
            raise InvalidInputError(f"the column name {name!r} has control characters: remove them", column=name)
        if name in seen:
            raise InvalidInputError(f"{where} has two columns named {name!r}: rename one", column=name)
        seen.add(name)


def _check_keys(kind: str, schema: TableSchema, names: Sequence[str]) -> None:
    for name in names:
        dtype = schema.field(name).type
        if names.count(name) > 1:
            raise InvalidInputError(f"the {kind} names the column {name!r} twice: name it once", column=name)
        if not isinstance(dtype, AtomicType) or dtype.root in UNSUPPORTED_ROOTS:
            raise InvalidInputError(
                f"the column {name!r} cannot be part of the {kind}: {dtype} has no order; use a scalar column",
                column=name,
            )


def _check_buckets(schema: TableSchema) -> None:
    options = schema.core_options
    buckets, declared = options.bucket(), options.bucket_key()
    if declared:
        _check_keys("bucket key", schema, declared)
    shared = set(declared) & set(schema.partition_keys)
    outside = set(declared) - set(schema.primary_keys)
    if shared:
        raise InvalidInputError(
            f"the bucket key cannot hold partition columns: remove {sorted(shared)}", option="bucket-key"
        )
    if schema.primary_keys and outside:
        raise InvalidInputError(
            f"the bucket key must lie inside the primary key: remove {sorted(outside)}", option="bucket-key"
        )
    if buckets == -1 and declared:
        raise InvalidInputError(
            "a 'bucket-key' needs a fixed number of buckets: set 'bucket' or remove it", option="bucket-key"
        )
    if buckets > 0 and not schema.bucket_keys:
        raise InvalidInputError(
            "a table with fixed buckets and no primary key needs a 'bucket-key'", option="bucket-key"
        )
    if buckets == POSTPONE and not schema.primary_keys:
        raise InvalidInputError("'bucket' = -2 (postpone) needs a primary key", option="bucket")
    if buckets != -1 and schema.crosses_partitions:
        missing = [name for name in schema.partition_keys if name not in schema.primary_keys]
        raise InvalidInputError(
            f"the primary key lacks the partition columns {missing}, so nobody would find a key in other partitions:"
            " add them to the primary key, or set 'bucket' to -1",
            option="bucket",
            columns=tuple(missing),
        )
    if options.get(CoreOptions.BUCKET_FUNCTION_TYPE) == "mod" and buckets > 0:
        types = [field.type for field in schema.bucket_fields]
        if len(types) != 1 or not isinstance(types[0], AtomicType) or types[0].root not in {"INT", "BIGINT"}:
            raise InvalidInputError(
                "the bucket function 'mod' needs exactly one bucket key column, of type INT or BIGINT",
                option="bucket-function.type",
            )


def _check_row_tracking(schema: TableSchema) -> None:
    options = schema.core_options
    tracking = options.row_tracking_enabled()
    if tracking and schema.primary_keys:
        raise InvalidInputError(
            "'row-tracking.enabled' needs a table without primary key", option="row-tracking.enabled"
        )
    if tracking and options.bucket() != -1:
        raise InvalidInputError("'row-tracking.enabled' needs 'bucket' = -1", option="row-tracking.enabled")
    if options.data_evolution_enabled() and not tracking:
        raise InvalidInputError(
            "'data-evolution.enabled' needs 'row-tracking.enabled' = true", option="data-evolution.enabled"
        )


def _check_merging(schema: TableSchema) -> None:
    """Check the options that say how rows of one key meet, and who tells of it."""
    options = schema.core_options
    _check_sequence(schema, options.get(CoreOptions.SEQUENCE_FIELD))
    if (kind_column := options.get(CoreOptions.ROWKIND_FIELD)) is not None:
        dtype = schema.field(kind_column).type
        if not isinstance(dtype, AtomicType) or dtype.root not in TEXT_ROOTS:
            raise InvalidInputError(
                f"'rowkind.field' needs a text column, but {kind_column!r} has the type {dtype}",
                option="rowkind.field",
                column=kind_column,
            )
    if (time_column := options.get(CoreOptions.RECORD_LEVEL_TIME_FIELD)) is not None:
        schema.field(time_column)
    producer, first_row = options.get(CoreOptions.CHANGELOG_PRODUCER), options.merge_engine() is MergeEngine.FIRST_ROW
    if producer is not ChangelogProducer.NONE and not schema.primary_keys:
        raise InvalidInputError("'changelog-producer' needs a primary key", option="changelog-producer")
    if schema.primary_keys and first_row and producer not in {ChangelogProducer.NONE, ChangelogProducer.LOOKUP}:
        raise InvalidInputError(
            f"the merge engine first-row cannot have the changelog producer {producer.value!r}: use none or lookup",
            option="changelog-producer",
        )
    if schema.primary_keys and options.deletion_vectors_enabled():
        if first_row:
            raise InvalidInputError(
                "the merge engine first-row needs no 'deletion-vectors.enabled', because nothing replaces its rows:"
                " remove the option",
                option="deletion-vectors.enabled",
            )
        if producer is ChangelogProducer.FULL_COMPACTION:
            raise InvalidInputError(
                "the changelog producer full-compaction cannot be combined with 'deletion-vectors.enabled': use lookup",
                option="changelog-producer",
            )
    if options.get(CoreOptions.SEQUENCE_SNAPSHOT_ORDERING) and not options.get(CoreOptions.WRITE_ONLY):
        raise InvalidInputError(
            "'sequence.snapshot-ordering' needs 'write-only' = true, and a compaction in a job of its own",
            option="sequence.snapshot-ordering",
        )


def _check_sequence(schema: TableSchema, sequence: tuple[str, ...]) -> None:
    for name in sequence:
        dtype = schema.field(name).type
        if not isinstance(dtype, AtomicType):
            raise InvalidInputError(
                f"'sequence.field' names {name!r}, but {dtype} has no order: use a scalar column",
                option="sequence.field",
                column=name,
            )
        if sequence.count(name) > 1:
            raise InvalidInputError(
                f"'sequence.field' names the column {name!r} twice: name it once", option="sequence.field", column=name
            )
    if sequence and schema.core_options.merge_engine() is MergeEngine.FIRST_ROW:
        raise InvalidInputError(
            "'sequence.field' cannot be combined with the merge engine first-row, which keeps what came first: remove"
            " it, or use deduplicate with 'sequence.field.sort-order' = descending",
            option="sequence.field",
        )
    if sequence and schema.crosses_partitions:
        raise InvalidInputError(
            f"'sequence.field' needs a primary key that contains all partition keys: add"
            f" {[name for name in schema.partition_keys if name not in schema.primary_keys]} to the primary key, or"
            " remove the option",
            option="sequence.field",
        )


def _check_column_settings(schema: TableSchema) -> None:
    """Check defaults, and options that speak of one column or of several."""
    for column in schema.fields:
        if column.default_value is None:
            continue
        try:
            cast_text(column.default_value, column.type)
        except InvalidInputError as cause:
            raise InvalidInputError(
                f"the default of the column {column.name!r}: {cause}", column=column.name
            ) from cause
    for match in filter(None, map(FIELD_OPTION.fullmatch, schema.options)):
        if match["columns"] not in schema.field_names:
            for name in match["columns"].split(","):
                schema.field(name.strip())


def check_partition_types(schema: TableSchema) -> None:
    """Refuse partitions by binary values: each implementation spells their directories its own way, Java at random."""
    for column in schema.partition_fields:
        if isinstance(column.type, AtomicType) and column.type.root in {"BINARY", "VARBINARY"}:
            raise UnsupportedError(
                f"the column {column.name!r} of type {column.type} cannot be a partition key: every implementation "
                "names the directories its own way and does not find those of others; read such a table with its "
                "writer, and partition by the hexadecimal text of the column",
                column=column.name,
            )


def _checksum(data: Mapping[str, JSON]) -> str:
    """Return the checksum of a JSON object, whatever its spelling."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return f"crc32:{zlib.crc32(text.encode()):08x}"


def _schema_of(data: Mapping[str, JSON]) -> TableSchema:
    """Read the JSON object of a schema file."""
    version = _number(data, "version", 1)
    if version > VERSION:
        raise UnsupportedError(
            f"it has the version {version}, written by a newer release; {VERSION} is the newest known"
        )
    items = data.get("options")
    if not isinstance(items, Mapping):
        raise InvalidInputError(f"'options' must be an object, not {items!r}")
    options = {key: option_text(key, value) for key, value in items.items()}
    if version < _VERSION_WITH_BUCKETS:
        options.setdefault("bucket", "1")
    if version < _VERSION_WITH_PARQUET:
        options.setdefault("file.format", "orc")
    columns = _list(data, "fields")
    fields = tuple(DataField.from_dict(column) for column in columns if _is_object(column))
    names = [field.name for field in fields]
    ids = [field.id for field in fields]
    if len(set(names)) < len(names) or len(set(ids)) < len(ids):
        raise InvalidInputError("two columns have the same name or the same id")
    comment = data.get("comment")
    return TableSchema(
        id=_number(data, "id", low=0),
        fields=fields,
        highest_field_id=_number(data, "highestFieldId", low=-1),
        partition_keys=_columns(data, "partitionKeys", names),
        primary_keys=_columns(data, "primaryKeys", names),
        options=options,
        comment=None if comment is None else str(comment),
        time_millis=_number(data, "timeMillis", 0),
    )


def _number(data: Mapping[str, JSON], key: str, default: int | None = None, *, low: int | None = None) -> int:
    value = data.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or (low is not None and value < low):
        raise InvalidInputError(
            f"{key!r} must be a whole number{'' if low is None else f' of at least {low}'}, not {value!r}"
        )
    return value


def _list(data: Mapping[str, JSON], key: str) -> Sequence[JSON]:
    value = data.get(key)
    if not isinstance(value, list):
        raise InvalidInputError(f"{key!r} must be a list, not {value!r}")
    return value


def _is_object(value: JSON) -> TypeGuard[Mapping[str, JSON]]:
    if not isinstance(value, Mapping):
        raise InvalidInputError(f"a column must be an object, not {value!r}")
    return True


def _columns(data: Mapping[str, JSON], key: str, names: Sequence[str]) -> tuple[str, ...]:
    found = tuple(str(name) for name in _list(data, key))
    unknown = set(found) - set(names)
    if unknown or len(set(found)) < len(found):
        raise InvalidInputError(f"{key!r} must name columns, each once, not {list(found)}")
    return found


def column_not_found(name: object, columns: Sequence[str]) -> ColumnNotExistException:
    """Return the error for a column that is not there, with the columns there are."""
    only, hint = ", ".join(map(repr, columns)), arguments.did_you_mean(name, columns)
    said = f", only {only}; {hint}" if hint.startswith("did") else f", only {only}"
    return ColumnNotExistException(
        f"there is no column {arguments.shown(name)}{said}", column=name, columns=tuple(columns)
    )
