"""pypaimon's declaration of a table: lists and dicts that can be changed, checked as pypaimon checks them when made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from lakewright.errors import InvalidInputError
from lakewright.pypaimon.values.types import DataField, PyarrowFieldParser, core_field, field_from_core
from lakewright.spec import types
from lakewright.spec.options import CoreOptions
from lakewright.spec.schema import declaration as core


class Schema(core.Schema):
    """The columns, keys, options and comment of a table to be created. Key columns become NOT NULL at once.

    >>> made = Schema.from_pyarrow_schema(pa.schema({"id": pa.int64(), "name": pa.string()}), primary_keys=["id"])
    >>> [str(field.type) for field in made.fields]
    ['BIGINT NOT NULL', 'STRING']
    """

    FIELD_FIELDS = "fields"
    FIELD_PARTITION_KEYS = "partitionKeys"
    FIELD_PRIMARY_KEYS = "primaryKeys"
    FIELD_OPTIONS = "options"
    FIELD_COMMENT = "comment"

    fields: list[types.DataField]  # type: ignore[assignment]
    partition_keys: list[str]  # type: ignore[assignment]
    primary_keys: list[str]  # type: ignore[assignment]
    options: dict[str, Any]

    def __init__(
        self,
        fields: Iterable[types.DataField] | None = None,
        partition_keys: Iterable[str] | None = None,
        primary_keys: Iterable[str] | None = None,
        options: Mapping[str, object] | None = None,
        comment: str | None = None,
    ) -> None:
        self.fields = [field if type(field) is DataField else field_from_core(field) for field in fields or ()]
        self.partition_keys = list(partition_keys or ())
        self.primary_keys = list(primary_keys or ())
        self.options = options if isinstance(options, dict) else dict(options or {})
        self.comment = comment  # type: ignore[misc]
        nullable = str(self.options.get(CoreOptions.PRIMARY_KEY_NULLABLE.key(), "false")).lower() == "true"
        if nullable and not self.primary_keys:
            raise InvalidInputError("Option 'primary-key.nullable' can only be enabled for a table with primary keys.")
        for field in self.fields:
            if field.name in self.primary_keys:
                field.type = types.with_nullable(field.type, nullable)  # type: ignore[misc]
        producer = self.options.get(CoreOptions.CHANGELOG_PRODUCER.key(), "none")
        if producer != "none" and not self.primary_keys:
            raise InvalidInputError(
                f"Cannot set 'changelog-producer' to '{producer}' on a table without primary keys: "
                "Changelog producer requires primary keys to be defined; give primary_keys, or leave the option out"
            )

    def __setattr__(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    @classmethod
    def from_pyarrow_schema(
        cls,
        pa_schema: pa.Schema,
        partition_keys: Iterable[str] | None = None,
        primary_keys: Iterable[str] | None = None,
        options: Mapping[str, object] | None = None,
        comment: str | None = None,
    ) -> Schema:
        """Return a schema with the columns of an Arrow schema."""
        return cls(PyarrowFieldParser.to_paimon_schema(pa_schema), partition_keys, primary_keys, options, comment)

    def to_core(self) -> core.Schema:
        """Return lakewright's declaration."""
        fields = [core_field(field) for field in self.fields]
        return core.Schema(fields, self.partition_keys, self.primary_keys, self.options, self.comment)

    def to_dict(self) -> dict[str, object]:
        """Return the declaration as JSON."""
        return {
            self.FIELD_FIELDS: [field.to_dict() for field in self.fields],
            self.FIELD_PARTITION_KEYS: self.partition_keys,
            self.FIELD_PRIMARY_KEYS: self.primary_keys,
            self.FIELD_OPTIONS: self.options,
            self.FIELD_COMMENT: self.comment,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Schema:
        """Read a declaration from JSON."""
        fields = [DataField.from_dict(field) for field in data.get(cls.FIELD_FIELDS, ())]
        keys = data.get(cls.FIELD_PARTITION_KEYS), data.get(cls.FIELD_PRIMARY_KEYS)
        return cls(fields, *keys, data.get(cls.FIELD_OPTIONS), data.get(cls.FIELD_COMMENT))
