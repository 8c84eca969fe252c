"""One version of a table's schema, and its JSON.

The JSON is what other implementations read and write, plus a checksum that they ignore. A file that is not a schema is
a `CorruptTableError` naming its path.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import TypeGuard

import pyarrow as pa

from lakewright.errors import ColumnNotExistException, CorruptTableError, InvalidInputError, UnsupportedError, pluralize
from lakewright.spec import argument_checks
from lakewright.spec.arrow_types import to_arrow_schema
from lakewright.spec.option_values import option_text
from lakewright.spec.snapshot import json_checksum
from lakewright.spec.table_options import TableOptions, option_texts
from lakewright.spec.types import JSON, DataField, DataType, VectorType, blob_fields

VERSION = 3
KEY_PREFIX = "_KEY_"
POSTPONE = -2  # the bucket, and the value of `bucket`, of tables that choose buckets later
_CHECKSUM = "checksum"
_COLUMNS_SHOWN = 20
_VERSION_WITH_PARQUET = 3  # in older schemas the default format is orc
_VERSION_WITH_BUCKETS = 2  # in older schemas the default is one bucket
UNSUPPORTED_ROOTS = frozenset({"BLOB", "GEOMETRY", "GEOGRAPHY", "UNKNOWN"})


class BucketMode(StrEnum):
    """How the bucket of a row is chosen."""

    UNAWARE = "UNAWARE"
    HASH_FIXED = "HASH_FIXED"
    HASH_DYNAMIC = "HASH_DYNAMIC"
    KEY_DYNAMIC = "KEY_DYNAMIC"
    POSTPONE = "POSTPONE"


@dataclass(frozen=True)
class TableSchema:
    """One version of a table's schema, as its file records it.

    >>> TableSchema(0, (), 0, primary_keys=("id",), options={"bucket": "2"})
    TableSchema(id=0; primary key id; 1 option)
    """

    id: int
    fields: tuple[DataField, ...]
    highest_field_id: int  # the highest id ever used, those of nested and dropped fields included
    partition_keys: tuple[str, ...] = ()
    primary_keys: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None
    time_millis: int = 0

    def __repr__(self) -> str:
        """Say which version it is, its columns, keys and how many options it has, which may be long."""
        left = len(self.fields) - _COLUMNS_SHOWN
        columns = [f"{field.name} {field.type}" for field in self.fields[:_COLUMNS_SHOWN]]
        parts = [
            f"id={self.id}" + (": " if columns else "") + ", ".join(columns),
            f"and {left} more columns" if left > 0 else "",
            f"primary key {', '.join(self.primary_keys)}" if self.primary_keys else "",
            f"partitioned by {', '.join(self.partition_keys)}" if self.partition_keys else "",
            pluralize(len(self.options), "option") if self.options else "",
        ]
        return f"TableSchema({'; '.join(part for part in parts if part)})"

    @cached_property
    def table_options(self) -> TableOptions:
        """The options, parsed."""
        return TableOptions(self.options)

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
        column = self._by_name.get(name) if isinstance(name, str) else None
        if column is None:
            raise column_not_found(name, self.field_names)
        return column

    def blob_file_fields(self, fields: Iterable[DataField]) -> tuple[DataField, ...]:
        """Return those columns whose values are in `.blob` files; others of the type BLOB hold descriptors."""
        options = self.table_options
        inline = {*(options.blob_descriptor_field or ())}
        return tuple(field for field in blob_fields(fields) if field.name not in inline)

    def vector_file_fields(self, fields: Iterable[DataField]) -> tuple[DataField, ...]:
        """Return those columns whose values are in `.vector.` files."""
        if self.table_options.vector_file_format is None:
            return ()
        return tuple(field for field in fields if isinstance(field.type, VectorType))

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
        return self.table_options.bucket_key or self.trimmed_primary_keys

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
        """How the bucket of a row is chosen."""
        match self.table_options.bucket:
            case -2:
                return BucketMode.POSTPONE
            case -1 if not self.primary_keys:
                return BucketMode.UNAWARE
            case -1:
                return BucketMode.KEY_DYNAMIC if self.crosses_partitions else BucketMode.HASH_DYNAMIC
            case _:
                return BucketMode.HASH_FIXED

    def with_options(self, extra: Mapping[str, object]) -> TableSchema:
        """Return the same schema with more options, which replace its own of the same keys."""
        return replace(self, options={**self.options, **option_texts(extra)})

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
        data[_CHECKSUM] = json_checksum(data)
        return json.dumps(data, indent=2, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str | bytes, *, path: str) -> TableSchema:
        """Read a schema file; `path` is for messages."""
        if not isinstance(text, str | bytes):
            raise argument_checks.argument_error("a schema file", "text or bytes", text)
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as cause:
            raise CorruptTableError(f"the schema file {path} is not JSON: {cause}", path=path) from cause
        if not isinstance(data, dict):
            raise CorruptTableError(f"the schema file {path} does not hold a JSON object", path=path)
        stated = data.pop(_CHECKSUM, None)
        if stated is not None and stated != json_checksum(data):
            raise CorruptTableError(
                f"the schema file {path} does not match its checksum: it was damaged after it was written", path=path
            )
        try:
            return _schema_of(data)
        except (InvalidInputError, RecursionError) as cause:
            raise CorruptTableError(f"the schema file {path} breaks the format: {cause}", path=path) from cause
        except UnsupportedError as cause:
            raise UnsupportedError(f"the schema file {path} cannot be read: {cause}", path=path) from cause


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
    columns = tuple(str(name) for name in _list(data, key))
    unknown = set(columns) - set(names)
    if unknown or len(set(columns)) < len(columns):
        raise InvalidInputError(f"{key!r} must name columns, each once, not {list(columns)}")
    return columns


def column_not_found(name: object, columns: Sequence[str]) -> ColumnNotExistException:
    """Return the error for a column that does not exist, with the columns that do."""
    only, hint = ", ".join(map(repr, columns)), argument_checks.suggest_name(name, columns)
    choices = f", only {only}; {hint}" if hint.startswith("did") else f", only {only}"
    return ColumnNotExistException(
        f"the column {argument_checks.describe_value(name)} does not exist{choices}",
        column=name,
        columns=tuple(columns),
    )
