"""What a column of a file, or of its path, is in a frame: types in, Spark columns out, or a refusal.

A column is converted here only where Spark's cast is the core's cast for every value, in every session: integers that
grow wider, decimals that gain digits, text that is cut or left alone. `readable` says beforehand whether all columns of
a read are of that kind; what is not goes through the core's own reader.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it
from pyspark.sql import types as sql

from lakewright.metadata.store import TableStore
from lakewright.read.evolve import plan_evolution
from lakewright.spark.jobs.types import spark_type
from lakewright.spark.read.filters import column_at
from lakewright.spec.options import CoreOptions
from lakewright.spec.schema.table_schema import KEY_PREFIX
from lakewright.spec.types import (
    BINARY_ROOTS,
    FLOAT_ROOTS,
    INTEGER_BITS,
    MICROS_PRECISION,
    TEXT_ROOTS,
    TIMESTAMP_ROOTS,
    UNBOUNDED,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    Value,
)
from lakewright.spec.values import to_text

# What Spark's parquet reader gives as it was written. It knows no TIME of milliseconds, and nothing below microseconds.
_EXACT = TEXT_ROOTS | BINARY_ROOTS | FLOAT_ROOTS | frozenset(INTEGER_BITS) | {"BOOLEAN", "DECIMAL", "DATE"}
_WIDTH = {root: place for place, root in enumerate(INTEGER_BITS)}
_DIGITS = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 19}  # that hold every value of an integer type
_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"  # Spark reads this text as null
_SYSTEM_NAMES = frozenset({"_sequence_number", "_value_kind", "_row_id", "_metadata"})
_DATE = re.compile(r"\d{4}-\d\d-\d\d")


def readable(written: Sequence[DataField], read: Sequence[DataField]) -> bool:
    """Say whether Spark reads files with these columns exactly as a read wants them."""
    if not (_names_are_plain(written) and _names_are_plain(read)):
        return False
    plan = plan_evolution(written, read)
    pairs = zip(plan.read_fields, plan.places, strict=True)
    return all(place is None or _converts(plan.file_fields[place].type, field.type) for field, place in pairs)


def converted(column: Column, file: DataType, read: DataType) -> Column:
    """Return a column of a file as the read wants it; `readable` has seen the types."""
    if _is_alike(file, read) or not isinstance(read, AtomicType):
        return column
    if read.root in {"VARCHAR", "VARBINARY"}:
        return F.substring(column, 1, read.length)
    return column.cast(spark_type(read))


def _names_are_plain(fields: Sequence[DataField]) -> bool:
    """Say whether Spark can tell columns apart, also if it ignores upper and lower case."""
    names = [field.name.lower() for field in fields]
    inside = [_names_are_plain(part.fields) for field in fields for part in _rows_inside(field.type)]
    taken = any(name in _SYSTEM_NAMES or name.startswith(KEY_PREFIX.lower()) for name in names)
    return len(set(names)) == len(names) and not taken and all(inside)


def _rows_inside(dtype: DataType) -> list[RowType]:
    match dtype:
        case RowType():
            return [dtype]
        case ArrayType() | MultisetType():
            return _rows_inside(dtype.element)
        case MapType():
            return [*_rows_inside(dtype.key), *_rows_inside(dtype.value)]
        case _:
            return []


def _converts(file: DataType, read: DataType) -> bool:
    """Say whether values of a file become those of the read, by nothing or by a cast that is the core's own."""
    if _is_alike(file, read):
        return True
    if not isinstance(file, AtomicType) or not isinstance(read, AtomicType):
        return False
    pair = (file.root, read.root)
    if file.root in INTEGER_BITS:
        if read.root in INTEGER_BITS:
            return _WIDTH[file.root] <= _WIDTH[read.root]
        return read.root in FLOAT_ROOTS or (
            read.root == "DECIMAL" and read.precision - read.scale >= _DIGITS[file.root]
        )
    if pair == ("DECIMAL", "DECIMAL"):
        return read.scale >= file.scale and read.precision - read.scale >= file.precision - file.scale
    cut = (file.root in TEXT_ROOTS and read.root == "VARCHAR") or (
        file.root in BINARY_ROOTS and read.root == "VARBINARY"
    )
    return cut or pair == ("FLOAT", "DOUBLE")


def _is_alike(file: DataType, read: DataType) -> bool:
    """Say whether values need no work at all, and Spark reads them as they are."""
    match file, read:
        case AtomicType(), AtomicType():
            return _is_alike_atomic(file, read)
        case RowType(), RowType():
            return len(file.fields) == len(read.fields) and all(
                a.id == b.id and a.name == b.name and _is_alike(a.type, b.type)
                for a, b in zip(file.fields, read.fields, strict=True)
            )
        case ArrayType(), ArrayType():
            return _is_alike(file.element, read.element)
        case MultisetType(), MultisetType():
            return _is_alike(file.element, read.element)
        case MapType(), MapType():
            return _is_alike(file.key, read.key) and _is_alike(file.value, read.value)
        case _:
            return False


def _is_alike_atomic(file: AtomicType, read: AtomicType) -> bool:
    if file.root in TIMESTAMP_ROOTS:
        return file.root == read.root and file.precision <= read.precision <= MICROS_PRECISION
    if file.root not in _EXACT:
        return False
    roots = TEXT_ROOTS if file.root in TEXT_ROOTS else BINARY_ROOTS if file.root in BINARY_ROOTS else frozenset()
    return file.type == read.type or (read.root in roots and read.length == UNBOUNDED)


# ---- Partition columns, whose values come from the path of a file ----------------------------------------------------


def partition_is_readable(store: TableStore, partition: bytes) -> bool:
    """Say whether Spark reads the values of a partition from the path exactly; a null has a name that could be text."""
    legacy = store.options.get(CoreOptions.PARTITION_LEGACY_NAME)
    values = store.partition_values(partition)
    return all(
        _value_is_readable(value, field, legacy=legacy)
        for value, field in zip(values, store.schema.partition_fields, strict=True)
    )


def _value_is_readable(value: Value, field: DataField, *, legacy: bool) -> bool:
    if value is None or not isinstance(field.type, AtomicType):
        return False
    root = field.type.root
    if root in TEXT_ROOTS:
        return isinstance(value, str) and bool(value.strip()) and value != _HIVE_NULL
    if root == "DATE":
        return legacy or _DATE.fullmatch(to_text(value, field.type)) is not None
    return root in INTEGER_BITS or root == "BOOLEAN"


def partition_type(store: TableStore, field: DataField) -> sql.DataType:
    """Return the type that Spark reads the text in a path as."""
    is_number = isinstance(field.type, AtomicType) and field.type.root == "DATE"
    if is_number and store.options.get(CoreOptions.PARTITION_LEGACY_NAME):
        return sql.IntegerType()
    return spark_type(field.type)


def partition_column(store: TableStore, field: DataField) -> Column:
    """Return a partition column as the read wants it."""
    column = column_at([field.name])
    if isinstance(partition_type(store, field), sql.IntegerType) and spark_type(field.type) == sql.DateType():
        return F.date_from_unix_date(column)
    return column
