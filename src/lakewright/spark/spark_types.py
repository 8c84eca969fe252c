"""Table types to Spark types.

Converts the columns of a table to a `StructType` and back. Nullability is kept on every
level and a column's description is the field's comment. Values are the same on both sides, with two limits of Spark:

- **Timestamps** count microseconds. TIMESTAMP(7..9) loses what is finer, towards the past, as when Spark reads INT96.
- **TIME** is `TimeType(6)`: the precision of Spark's own literals, since some releases compare no others with them.
  Releases up to 4.3 carry, collect, sort and join such columns in every session, but group, cache and compare them only
  where `spark.sql.timeType.enabled` is true (a run-time setting). Their parquet scan cannot read the milliseconds of
  the format as TIME, so such columns go through `mapInArrow`. PySpark before 4.1 has no such type: they are refused.

CHAR and VARCHAR are plain strings: Spark keeps their lengths only in its own catalog. A MULTISET is a map from elements
to counts. VARIANT needs PySpark 4.0. GEOMETRY and GEOGRAPHY are refused with the name of the column.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import count

import pyarrow as pa
from pyspark.sql import types as sql

from lakewright.errors import InvalidInputError, UnsupportedError
from lakewright.formats.arrow_conform import conform
from lakewright.spark.spark_features import CalendarIntervalType, Feature, TimeType, VariantType, require
from lakewright.spec.arrow_types import to_arrow_type
from lakewright.spec.types import (
    MILLIS_PRECISION,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    VectorType,
    numbered_fields,
)

COMMENT = "comment"  # where Spark keeps the comment of a field
_BATCH_ROWS = 65536  # what Spark takes fastest
_BATCH_BYTES = 64 << 20  # rows may be wide

_ATOMIC: dict[str, sql.DataType] = {
    "BOOLEAN": sql.BooleanType(),
    "TINYINT": sql.ByteType(),
    "SMALLINT": sql.ShortType(),
    "INT": sql.IntegerType(),
    "BIGINT": sql.LongType(),
    "FLOAT": sql.FloatType(),
    "DOUBLE": sql.DoubleType(),
    "CHAR": sql.StringType(),
    "VARCHAR": sql.StringType(),
    "BINARY": sql.BinaryType(),
    "VARBINARY": sql.BinaryType(),
    "BLOB": sql.BinaryType(),
    "DATE": sql.DateType(),
    "TIMESTAMP": sql.TimestampNTZType(),
    "TIMESTAMP_LTZ": sql.TimestampType(),
}


def spark_type(dtype: DataType, *, column: str = "") -> sql.DataType:
    """Return the Spark type of a table type; `column` is for the message of a refusal."""
    match dtype:
        case AtomicType(root="DECIMAL"):
            return sql.DecimalType(dtype.precision, dtype.scale)
        case AtomicType() if dtype.root in _ATOMIC:
            return _ATOMIC[dtype.root]
        case AtomicType(root="TIME"):
            require(Feature.TIME, f"the column {column!r} is {dtype}", column=column)
            return TimeType(6)
        case AtomicType(root="VARIANT"):
            require(Feature.VARIANT, f"the column {column!r} is {dtype}", column=column)
            return VariantType()
        case ArrayType() | VectorType():
            element = spark_type(dtype.element, column=f"{column}.element")
            return sql.ArrayType(element, containsNull=dtype.element.nullable)
        case MapType() | MultisetType():
            key = spark_type(dtype.key, column=f"{column}.key")
            value = spark_type(dtype.value, column=f"{column}.value")
            return sql.MapType(key, value, valueContainsNull=dtype.value.nullable)
        case RowType():
            return sql.StructType([_struct_field(field, f"{column}.{field.name}") for field in dtype.fields])
        case AtomicType():
            raise UnsupportedError(
                f"the column {column!r} is {dtype}, for which there is no Spark type: leave it out with columns=[...]",
                column=column,
                type=str(dtype),
            )


def spark_schema(fields: Iterable[DataField]) -> sql.StructType:
    """Return columns as the schema of a frame."""
    return sql.StructType([_struct_field(field, field.name) for field in fields])


def arrow_schema_of(schema: sql.StructType, *, time_zone: str = "UTC") -> pa.Schema:
    """Return what a task sees of a frame; `time_zone` is the session's, a label of TIMESTAMP that changes no value."""
    return pa.schema([_arrow_field(field, time_zone, field.name) for field in schema.fields])


def fields_of(schema: sql.StructType) -> tuple[DataField, ...]:
    """Return a frame as columns of a new table; types without a counterpart are refused with the column's name."""
    columns = [_data_field(field, field.name) for field in schema.fields]
    return numbered_fields(columns, count())


def to_spark_batch(batch: pa.RecordBatch, fields: Iterable[DataField]) -> pa.RecordBatch:
    """Return rows of a table, whose columns may be in any order, with values and types as `spark_schema` says.

    The types are those that `mapInArrow` and a Python Data Source accept from 4.1 on, nullability on every level
    included. Columns that have them already are not copied.
    """
    schema = _target(tuple(fields))
    columns = [_conform_column(batch.column(field.name), field) for field in schema]
    if not columns:  # rows without columns still count
        return pa.RecordBatch.from_struct_array(pa.array([{}] * batch.num_rows, pa.struct([])))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def spark_batches(batch: pa.RecordBatch, fields: Sequence[DataField]) -> Iterator[pa.RecordBatch]:
    """Yield rows of a table as `to_spark_batch` does, in parts of a size that Spark takes fast."""
    rows = batch.num_rows
    step = min(_BATCH_ROWS, max(1, rows * _BATCH_BYTES // max(1, batch.nbytes)))
    for start in range(0, rows, step):
        yield to_spark_batch(batch if rows <= step else batch.slice(start, step), fields)


@lru_cache(maxsize=256)
def _target(fields: tuple[DataField, ...]) -> pa.Schema:
    return arrow_schema_of(spark_schema(fields))


def _conform_column(array: pa.Array, field: pa.Field) -> pa.Array:
    try:
        return conform(array, field.type, lambda _: None)
    except pa.ArrowInvalid as error:
        raise InvalidInputError(
            f"the column {field.name!r} holds a value that Spark cannot: {error}; leave it out with columns=[...], or "
            "read the table without Spark",
            column=field.name,
        ) from error


def _struct_field(field: DataField, column: str) -> sql.StructField:
    comment = None if field.description is None else {COMMENT: field.description}
    return sql.StructField(field.name, spark_type(field.type, column=column), field.type.nullable, comment)


# ---- Spark types to Arrow types --------------------------------------------------------------------------------------

_ARROW: tuple[tuple[type[sql.DataType], pa.DataType], ...] = (
    (sql.BooleanType, pa.bool_()),
    (sql.ByteType, pa.int8()),
    (sql.ShortType, pa.int16()),
    (sql.IntegerType, pa.int32()),
    (sql.LongType, pa.int64()),
    (sql.FloatType, pa.float32()),
    (sql.DoubleType, pa.float64()),
    (sql.StringType, pa.string()),
    (sql.CharType, pa.string()),
    (sql.VarcharType, pa.string()),
    (sql.BinaryType, pa.binary()),
    (sql.DateType, pa.date32()),
    (TimeType, pa.time64("ns")),
    (sql.TimestampNTZType, pa.timestamp("us")),
    (sql.DayTimeIntervalType, pa.duration("us")),
    (sql.NullType, pa.null()),
    (VariantType, to_arrow_type(AtomicType("VARIANT"))),
)


def _arrow_field(field: sql.StructField, time_zone: str, column: str) -> pa.Field:
    return pa.field(field.name, _arrow_type(field.dataType, time_zone, column), nullable=field.nullable)


def _arrow_type(dtype: sql.DataType, time_zone: str, column: str) -> pa.DataType:
    match dtype:
        case sql.TimestampType():
            return pa.timestamp("us", tz=time_zone)
        case sql.DecimalType():
            return pa.decimal128(dtype.precision, dtype.scale)
        case sql.ArrayType():
            element = _arrow_type(dtype.elementType, time_zone, f"{column}.element")
            return pa.list_(pa.field("element", element, nullable=dtype.containsNull or pa.types.is_null(element)))
        case sql.MapType():
            key = _arrow_type(dtype.keyType, time_zone, f"{column}.key")
            value = _arrow_type(dtype.valueType, time_zone, f"{column}.value")
            if pa.types.is_null(key):  # of `map()`; Arrow has no such keys
                return key
            return pa.map_(
                pa.field("key", key, nullable=False), pa.field("value", value, nullable=dtype.valueContainsNull)
            )
        case sql.StructType():
            return pa.struct([_arrow_field(field, time_zone, f"{column}.{field.name}") for field in dtype.fields])
        case sql.UserDefinedType():
            return _arrow_type(dtype.sqlType(), time_zone, column)
    for kind, arrow in _ARROW:
        if isinstance(dtype, kind):
            return arrow
    raise _refusal(dtype, column)


# ---- Spark types to table types --------------------------------------------------------------------------------------

_NAMES: tuple[tuple[type[sql.DataType], str], ...] = (
    (sql.BooleanType, "BOOLEAN"),
    (sql.ByteType, "TINYINT"),
    (sql.ShortType, "SMALLINT"),
    (sql.IntegerType, "INT"),
    (sql.LongType, "BIGINT"),
    (sql.FloatType, "FLOAT"),
    (sql.DoubleType, "DOUBLE"),
    (sql.StringType, "STRING"),
    (sql.BinaryType, "BYTES"),
    (sql.DateType, "DATE"),
    (sql.TimestampNTZType, "TIMESTAMP(6)"),
    (sql.TimestampType, "TIMESTAMP(6) WITH LOCAL TIME ZONE"),
    (VariantType, "VARIANT"),
)
_REMEDIES: tuple[tuple[type[sql.DataType], str], ...] = (
    (sql.NullType, "a column needs a type: cast it, for example to string"),
    (sql.DayTimeIntervalType, "the format has no intervals: store the number of seconds"),
    (sql.YearMonthIntervalType, "the format has no intervals: store the number of months"),
    (CalendarIntervalType, "the format has no intervals: store the numbers of months, days and seconds"),
)


def _data_field(field: sql.StructField, column: str) -> DataField:
    comment = field.metadata.get(COMMENT)
    dtype = _data_type(field.dataType, field.nullable, column)
    return DataField(0, field.name, dtype, None if comment is None else str(comment))


def _data_type(dtype: sql.DataType, nullable: bool, column: str) -> DataType:  # noqa: FBT001 - reads well at every call
    match dtype:
        case sql.CharType() | sql.VarcharType() | sql.DecimalType():
            return AtomicType(dtype.simpleString(), nullable)  # both sides spell these alike
        case TimeType():
            return AtomicType(f"TIME({min(dtype.precision, MILLIS_PRECISION)})", nullable)
        case sql.ArrayType():
            return ArrayType(nullable, _data_type(dtype.elementType, dtype.containsNull, f"{column}.element"))
        case sql.MapType():
            key = _data_type(dtype.keyType, False, f"{column}.key")  # noqa: FBT003 - as above
            return MapType(nullable, key, _data_type(dtype.valueType, dtype.valueContainsNull, f"{column}.value"))
        case sql.StructType(fields=[_, *_]):
            return RowType(nullable, [_data_field(field, f"{column}.{field.name}") for field in dtype.fields])
        case sql.UserDefinedType():
            return _data_type(dtype.sqlType(), nullable, column)
    for kind, name in _NAMES:
        if isinstance(dtype, kind):
            return AtomicType(name, nullable)
    raise _refusal(dtype, column)


def _refusal(dtype: sql.DataType, column: str) -> InvalidInputError:
    """Return the error for a Spark type that no column can have."""
    remedy = "a struct needs at least one field" if isinstance(dtype, sql.StructType) else "the format has no such type"
    remedy = next((text for kind, text in _REMEDIES if isinstance(dtype, kind)), remedy)
    return InvalidInputError(
        f"the column {column!r} has the Spark type {dtype.simpleString()}: {remedy}, or drop the column",
        column=column,
        type=dtype.simpleString(),
    )
