"""pypaimon's schema of a table: a schema file's text in, lists and dicts that can be changed out.

`to_core` returns the frozen schema that files are written from, `TableSchema.of` the way back. Changing the schema that
a table shows changes neither the table nor a file.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import ClassVar, Protocol

from lakewright.errors import ColumnNotExistException, CorruptTableError, LakewrightError
from lakewright.pypaimon.values.options import CoreOptions
from lakewright.pypaimon.values.schema import Schema
from lakewright.pypaimon.values.types import (
    core_field,
    current_highest_field_id,
    field_from_core,
    is_blob_file_field,
)
from lakewright.spec import types
from lakewright.spec.schema import table_schema as core


class BucketMode(Enum):
    """How the bucket of a row is chosen, under pypaimon's names."""

    HASH_FIXED = 1
    HASH_DYNAMIC = 2
    CROSS_PARTITION = 3
    BUCKET_UNAWARE = 4
    POSTPONE_MODE = 5
    POSTPONE_BUCKET = -2

    @staticmethod
    def of(mode: core.BucketMode) -> BucketMode:
        """Return pypaimon's name of a mode."""
        return _MODES[mode]


_MODES = {
    core.BucketMode.HASH_FIXED: BucketMode.HASH_FIXED,
    core.BucketMode.HASH_DYNAMIC: BucketMode.HASH_DYNAMIC,
    core.BucketMode.KEY_DYNAMIC: BucketMode.CROSS_PARTITION,
    core.BucketMode.UNAWARE: BucketMode.BUCKET_UNAWARE,
    core.BucketMode.POSTPONE: BucketMode.POSTPONE_MODE,
}


class SchemaFileError(CorruptTableError, RuntimeError):
    """A file or a text is not a schema."""


class TextFiles(Protocol):
    """Something that reads a file as text: `table.file_io`."""

    def read_file_utf8(self, path: str) -> str:
        """Return the text of a file."""


def _now() -> int:
    return int(time.time() * 1000)


@dataclass
class TableSchema:
    """One version of a table's schema, as its file records it.

    >>> declared = Schema([types.DataField(0, "n", types.AtomicType("INT"))], options={"bucket": "1"})
    >>> made = TableSchema.from_schema(0, declared)
    >>> made.version, made.highest_field_id, made.primary_keys, made.copy({"bucket": "2"}).options
    (3, 0, [], {'bucket': '2'})
    """

    PAIMON_07_VERSION: ClassVar[int] = 1
    PAIMON_08_VERSION: ClassVar[int] = 2
    CURRENT_VERSION: ClassVar[int] = core.VERSION
    FIELD_VERSION: ClassVar[str] = "version"
    FIELD_ID: ClassVar[str] = "id"
    FIELD_FIELDS: ClassVar[str] = "fields"
    FIELD_HIGHEST_FIELD_ID: ClassVar[str] = "highestFieldId"
    FIELD_PARTITION_KEYS: ClassVar[str] = "partitionKeys"
    FIELD_PRIMARY_KEYS: ClassVar[str] = "primaryKeys"
    FIELD_OPTIONS: ClassVar[str] = "options"
    FIELD_COMMENT: ClassVar[str] = "comment"
    FIELD_TIME_MILLIS: ClassVar[str] = "timeMillis"

    version: int = core.VERSION
    id: int = 0
    fields: list[types.DataField] = field(default_factory=list)
    highest_field_id: int = 0
    partition_keys: list[str] = field(default_factory=list)
    primary_keys: list[str] = field(default_factory=list)
    options: dict[str, str] = field(default_factory=dict)
    comment: str | None = None
    time_millis: int = field(default_factory=_now)

    @staticmethod
    def of(schema: core.TableSchema, version: int = core.VERSION) -> TableSchema:
        """Return a schema of lakewright in this form."""
        return TableSchema(
            version,
            schema.id,
            [field_from_core(field) for field in schema.fields],
            schema.highest_field_id,
            list(schema.partition_keys),
            list(schema.primary_keys),
            dict(schema.options),
            schema.comment,
            schema.time_millis,
        )

    def to_core(self) -> core.TableSchema:
        """Return lakewright's own schema."""
        return core.TableSchema(
            self.id,
            tuple(core_field(field) for field in self.fields),
            self.highest_field_id,
            tuple(self.partition_keys),
            tuple(self.primary_keys),
            {key: str(value) for key, value in self.options.items()},
            self.comment,
            self.time_millis,
        )

    @staticmethod
    def from_schema(schema_id: int, schema: Schema) -> TableSchema:
        """Make a schema of a declaration."""
        return TableSchema(
            id=schema_id,
            fields=schema.fields,
            highest_field_id=current_highest_field_id(schema.fields),
            partition_keys=schema.partition_keys,
            primary_keys=schema.primary_keys,
            options=schema.options,
            comment=schema.comment,
        )

    def to_schema(self) -> Schema:
        """Return the declaration of a table with this schema."""
        return Schema(self.fields, self.partition_keys, self.primary_keys, self.options, self.comment)

    @staticmethod
    def from_json(json_str: str) -> TableSchema:
        """Read the text of a schema file."""
        return _read(json_str, "the text")

    def to_dict(self) -> dict[str, object]:
        """Return the schema as JSON, as `pypaimon.common.json_util.JSON` writes it."""
        return {
            self.FIELD_VERSION: self.version,
            self.FIELD_ID: self.id,
            self.FIELD_FIELDS: [column.to_dict() for column in self.fields],
            self.FIELD_HIGHEST_FIELD_ID: self.highest_field_id,
            self.FIELD_PARTITION_KEYS: self.partition_keys,
            self.FIELD_PRIMARY_KEYS: self.primary_keys,
            self.FIELD_OPTIONS: self.options,
            self.FIELD_COMMENT: self.comment,
            self.FIELD_TIME_MILLIS: self.time_millis,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> TableSchema:
        """Read a schema from JSON."""
        return cls.from_json(json.dumps(data))

    @staticmethod
    def from_path(file_io: TextFiles, schema_path: str) -> TableSchema:
        """Read a schema file."""
        try:
            text = file_io.read_file_utf8(schema_path)
        except FileNotFoundError as error:
            raise SchemaFileError(f"Schema file not found: {schema_path}", path=schema_path) from error
        return _read(text, schema_path)

    def copy(self, new_options: Mapping[str, str] | None = None) -> TableSchema:
        """Return the same schema with these options instead of its own; None keeps its own."""
        options = dict(self.options if new_options is None else new_options)
        return TableSchema(
            self.version,
            self.id,
            self.fields,
            self.highest_field_id,
            self.partition_keys,
            self.primary_keys,
            options,
            self.comment,
            self.time_millis,
        )

    def cross_partition_update(self) -> bool:
        """Say whether an update may move a key to another partition."""
        return bool(self.primary_keys) and not set(self.partition_keys) <= set(self.primary_keys)

    @property
    def bucket_keys(self) -> list[str]:
        """The columns that decide the bucket: those of `bucket-key`, else the primary key without partition columns."""
        named = [name.strip() for name in self.options.get("bucket-key", "").split(",") if name.strip()]
        unknown = [name for name in named if name not in {field.name for field in self.fields}]
        if unknown:
            raise ColumnNotExistException(f"bucket-key references unknown columns: {unknown}", column=unknown[0])
        return named or [name for name in self.primary_keys if name not in self.partition_keys]

    @property
    def logical_bucket_key_fields(self) -> list[types.DataField]:
        """The columns of the bucket key, in its order."""
        known = {field.name: field for field in self.fields}
        return [known[name] for name in self.bucket_keys]

    def data_file_fields(self, write_cols: Sequence[str] | None) -> list[types.DataField]:
        """Return the columns that a data file holds, whose entry in a manifest names these columns or none."""
        if write_cols is not None:
            known = {field.name: field for field in self.fields}
            return [known[name] for name in write_cols if name in known]
        options = CoreOptions(self.options)
        compact = "data-evolution.write-cols-optimization.enabled"
        if not (options.data_evolution_enabled() and str(self.options.get(compact, "false")).lower() == "true"):
            return list(self.fields)
        inline = options.blob_descriptor_fields() | options.blob_view_fields()
        return [field for field in self.fields if field.name in inline or not is_blob_file_field(field)]

    def partial_file_write_cols(self, write_cols: Sequence[str] | None) -> list[str] | None:
        """Return the names of the columns that a data file holds; None: all."""
        if write_cols is not None:
            return list(write_cols)
        held = self.data_file_fields(None)
        return None if len(held) == len(self.fields) else [field.name for field in held]


def _read(text: str, path: str) -> TableSchema:
    try:
        schema = core.TableSchema.from_json(text, path=path)
    except LakewrightError as error:
        raise SchemaFileError(f"Failed to parse schema from JSON: {error}", path=path) from error
    return TableSchema.of(schema, json.loads(text).get(TableSchema.FIELD_VERSION, TableSchema.PAIMON_07_VERSION))


class ShownSchema(core.TableSchema):
    """The schema of a table: `table.schema` as in lakewright, `table.schema()` as in pypaimon."""

    @classmethod
    def of(cls, schema: core.TableSchema) -> ShownSchema:
        """Return a schema of lakewright that can also be called."""
        return cls(*(getattr(schema, part.name) for part in fields(core.TableSchema)))

    def __call__(self) -> TableSchema:
        """Return the schema in pypaimon's form."""
        return TableSchema.of(self)

    def with_options(self, extra: Mapping[str, object]) -> core.TableSchema:
        """Return lakewright's own schema with more options."""
        plain = core.TableSchema(*(getattr(self, part.name) for part in fields(core.TableSchema)))
        return plain.with_options(extra)
