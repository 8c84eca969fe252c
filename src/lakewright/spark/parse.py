"""Text to values: columns of csv files and of directory names in, columns of the table's types out.

A text that is no value of its type, or would lose something by becoming one, is an error that names the column, the
text and the file; it never becomes null. An absent text stays null.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit
from pyspark.sql import types as sql

from lakewright.errors import InvalidInputError

_DATE = r"^\s*[+-]?\d{4,}-\d{1,2}-\d{1,2}([T ]0{1,2}:00(:00(\.0*)?)?Z?)?\s*$"  # a time of day would be lost
_TIMESTAMP = r"^\s*[+-]?\d{4,}-\d{1,2}-\d{1,2}([T ].*)?$"  # a time alone would be a time of today
_PLAIN_TIMESTAMP = r"^\s*[+-]?\d{4,}-\d{1,2}-\d{1,2}([T ][0-9:.]*)?\s*$"  # a zone would be lost
_TOO_FINE = r"\.\d{6}\d*[1-9]"  # Spark counts microseconds
_DIGITS_MAX = 38


def column(name: str) -> Column:
    """Return a column by its exact name, whatever characters it has."""
    return F.col(f"`{name.replace('`', '``')}`")


def parsed(name: str, dtype: sql.DataType, *, target: str, formats: dict[str, str]) -> Column:
    """Return a column of text as values of a type; `target` is the table's column, `formats` are the reader's."""
    text = column(name)
    if isinstance(dtype, sql.StringType):
        return text.alias(target)
    if isinstance(dtype, sql.ArrayType | sql.MapType | sql.StructType):
        raise InvalidInputError(
            f"the column {target!r} is {dtype.simpleString()}, which no text holds; bring it in a json, parquet or orc "
            "file",
            column=target,
        )
    value = _value(text, dtype, formats)
    reason = F.concat(
        F.lit(f"the column {target!r} cannot take the text '"),
        text,
        F.lit(f"' as {dtype.simpleString()} (in "),
        F.input_file_name(),
        F.lit(")"),
    )
    good = text.isNull() | (value.isNotNull() & _kept(text, value, dtype, formats))
    return F.when(good, value).otherwise(F.raise_error(reason)).alias(target)


def narrowed(name: str, dtype: sql.DecimalType, *, target: str) -> Column:
    """Return a column of wide decimals as narrower ones, which must hold every digit."""
    wide = column(name)
    value = wide.try_cast(dtype)
    reason = F.concat(
        F.lit(f"the column {target!r} cannot take the number "),
        wide.cast("string"),
        F.lit(f" as {dtype.simpleString()} (in "),
        F.input_file_name(),
        F.lit(")"),
    )
    return F.when(wide.isNull() | (value == wide), value).otherwise(F.raise_error(reason)).alias(target)


def widest(dtype: sql.DecimalType) -> sql.DecimalType:
    """Return the decimal with as many integer digits, and as many more after the point as there can be."""
    return sql.DecimalType(_DIGITS_MAX, _DIGITS_MAX - (dtype.precision - dtype.scale))


def _value(text: Column, dtype: sql.DataType, formats: dict[str, str]) -> Column:
    pattern = _pattern(dtype, formats)
    if pattern is None:
        return text.try_cast(dtype)
    if isinstance(dtype, sql.DateType):
        return F.try_to_date(text, pattern)
    return F.try_to_timestamp(text, F.lit(pattern)).cast(dtype)


def _pattern(dtype: sql.DataType, formats: dict[str, str]) -> str | None:
    """Return the pattern that the caller gave for a type, under the names that Spark's csv reader has for them."""
    match dtype:
        case sql.DateType():
            return formats.get("dateFormat")
        case sql.TimestampType():
            return formats.get("timestampFormat")
        case sql.TimestampNTZType():
            return formats.get("timestampNTZFormat", formats.get("timestampFormat"))
        case _:
            return None


def _kept(text: Column, value: Column, dtype: sql.DataType, formats: dict[str, str]) -> Column:
    """Say that nothing was lost."""
    if _pattern(dtype, formats) is not None:
        return text.isNotNull()
    match dtype:
        case sql.DateType():
            return text.rlike(_DATE)
        case sql.TimestampType():
            return text.rlike(_TIMESTAMP) & ~text.rlike(_TOO_FINE)
        case sql.TimestampNTZType():
            return text.rlike(_PLAIN_TIMESTAMP) & ~text.rlike(_TOO_FINE)
        case sql.DecimalType():
            return _same_decimal(text, value, dtype)
        case sql.FloatType() | sql.DoubleType():
            return ~value.isin(float("inf"), float("-inf")) | text.rlike("(?i)inf")
        case _:
            return text.isNotNull()


def _same_decimal(text: Column, value: Column, dtype: sql.DecimalType) -> Column:
    """Say that no digit was rounded away: by the digits, and where there is an exponent by a wider decimal."""
    beyond = text.rlike(rf"\.\d{{{dtype.scale}}}\d*[1-9]")
    wide = text.try_cast(widest(dtype))
    return F.when(text.rlike("[eE]"), wide == value).otherwise(~beyond)
