"""Values as pypaimon casts them: columns that lakewright would refuse in, columns of the table's types out.

pypaimon casts with Arrow's checked casts, which round floats and turn text into numbers; lakewright keeps every value.
What only pypaimon casts is cast with a LakewrightWarning.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence

import pyarrow as pa

from lakewright.errors import InvalidInputError, LakewrightWarning
from lakewright.spec.arrow import to_arrow_type
from lakewright.spec.types import DataField
from lakewright.update.values import Scope, check_assignments, lit, without_defaults
from lakewright.write.input.align import Aligner


def cast_table(data: pa.Table, fields: Sequence[DataField], table: str) -> pa.Table:
    """Cast the columns of some data that have the names of `fields`."""
    known = {field.name: field for field in fields}
    return cast_columns(data, {name: known[name] for name in data.column_names if name in known}, table)


def cast_columns(data: pa.Table, fields: Mapping[str, DataField], table: str) -> pa.Table:
    """Cast some columns of data to the types of fields, which may have other names."""
    for name, field in fields.items():
        at = data.schema.get_field_index(name)
        if at >= 0 and (column := cast_column(data.column(at), field, table)) is not data.column(at):
            data = data.set_column(at, name, column)
    return data


def cast_literal(value: object, field: DataField, table: str) -> object:
    """Return a value for every row: itself, or, with a warning, what Arrow makes of a value that lakewright refuses."""
    plain = value.as_py() if isinstance(value, pa.Scalar) else value
    try:
        check_assignments({field.name: lit(plain)}, Scope((field,)), (field,), table=table)
    except InvalidInputError as refusal:
        try:
            made = pa.array([plain], to_arrow_type(field.type))[0].as_py()
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            return value
        if made == plain:
            return value
        _warn(f"{table}: {plain!r} becomes {made!r} ({field.type}) in the column {field.name!r}", refusal)
        return lit(made)
    return value


def drop_unknown(data: pa.Table, names: Sequence[str], table: str) -> pa.Table:
    """Return data without the columns that the table lacks, which pypaimon ignores, with a warning."""
    unknown = [name for name in data.column_names if name not in names]
    if not unknown:
        return data
    warnings.warn(
        f"{table}: the columns {', '.join(unknown)} of the data are not in table schema; they are left out, as in "
        "pypaimon",
        LakewrightWarning,
        stacklevel=5,
    )
    return data.drop_columns(unknown)


def cast_column(column: pa.Array | pa.ChunkedArray, field: DataField, table: str) -> pa.Array | pa.ChunkedArray:
    """Return a column that lakewright takes: itself, or what Arrow's checked cast makes of it, with a warning.

    A column that neither takes is returned as it is, so that the write refuses it with its own words.
    """
    target = to_arrow_type(field.type)
    if column.type == target:
        return column
    try:
        Aligner(without_defaults([field]), table=table).align(pa.table({field.name: column}))
    except InvalidInputError as refusal:
        try:
            made = column.cast(target)
        except (pa.ArrowException, TypeError, ValueError):
            return column
        _warn(f"{table}: values of {column.type} become {field.type} in the column {field.name!r}", refusal)
        return made
    return column


def _warn(what: str, refusal: InvalidInputError) -> None:
    message = f"{what}, as in pypaimon; without lakewright.pypaimon they are refused ({refusal.message})"
    warnings.warn(message, LakewrightWarning, stacklevel=5)
