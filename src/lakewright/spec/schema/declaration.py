"""The schema that a user declares for a new table in, the first `TableSchema` of the table out, its fields numbered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import count

import pyarrow as pa

from lakewright.errors import InvalidInputError
from lakewright.spec import arguments
from lakewright.spec.arrow import from_arrow_schema
from lakewright.spec.options import ConfigOption, CoreOptions
from lakewright.spec.schema.option_changes import check_new_value
from lakewright.spec.schema.rules import check_schema
from lakewright.spec.schema.supported import check_partition_types
from lakewright.spec.schema.table_schema import TableSchema
from lakewright.spec.types import (
    DataField,
    highest_field_id,
    numbered_fields,
    with_nullable,
)


@dataclass(frozen=True, init=False)
class Schema:
    """The columns, keys, options and comment of a table to be created.

    Without primary keys it is an append table; with them, rows of one key are merged, and the key columns become NOT
    NULL. Keys are given as names of columns; one name is accepted as a list of one. Options are those of Apache Paimon;
    numbers and booleans are accepted as values. The ids of the fields are assigned anew when the table is created.

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
        expected = "fields; Schema.from_pyarrow_schema takes an Arrow schema"
        put(self, "fields", () if fields is None else arguments.instances("fields", fields, DataField, expected))
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
        """Return a schema with the columns of an Arrow schema.

        Types without a counterpart are widened if that keeps every value (`uint32` is BIGINT), otherwise refused, all
        in one error. `large_binary` stands for BLOB, which is not supported.
        """
        arguments.instance("pa_schema", pa_schema, pa.Schema, "a pyarrow schema")
        return cls(from_arrow_schema(pa_schema, declared=True), partition_keys, primary_keys, options, comment)


def new_table_schema(schema: Schema, *, time_millis: int) -> TableSchema:
    """Return the first schema of a new table; InvalidInputError names the rule that the declaration breaks."""
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


def _key_names(argument: str, names: object) -> tuple[str, ...]:
    return () if names is None else arguments.names(argument, names)


def _moved_keys(
    options: dict[str, str], option: ConfigOption[tuple[str, ...] | None], declared: tuple[str, ...]
) -> tuple[str, ...]:
    """Remove a key from the options, if it is declared as one, and return it."""
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
