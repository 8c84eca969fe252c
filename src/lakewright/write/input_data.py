"""Any data that callers hand in to Arrow batches.

Frames of other libraries are recognised by their types, without importing the library:

    pandas                     becomes an Arrow table; named levels of the index are columns, others are dropped
    a dict, a list of dicts    are columns, and rows: a dict whose values are all lists or arrays is columns
    Spark                      goes to the verbs of `lakewright.spark`, whose workers hold the rows
    Ray                        goes to the verbs of `lakewright.ray`
    pandas on Spark            refused: `to_spark()` says what becomes of its index

Invariant: rows that the workers of an engine hold come into this process only if the caller fetches them.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Protocol, TypeAlias, TypeGuard, cast

import numpy as np
import pyarrow as pa

from lakewright.engine_registry import _engine_of, _is_a
from lakewright.errors import InvalidInputError, LakewrightError
from lakewright.formats.blob_values import Blob, to_descriptors
from lakewright.spec.types import PRECISION_MAX

_WORD_BITS = 64  # an integer of fewer bits fits int64


class ArrowStream(Protocol):
    """Anything that can be read as an Arrow stream: tables, readers, polars, DuckDB and pandas frames."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export the data."""


class ArrowArray(Protocol):
    """Anything that can be read as one Arrow batch."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> object:
        """Export the data."""


# Of mappings a dict is taken: names of columns, and their values in lists of equal length. A list of dicts is rows.
ArrowData: TypeAlias = (
    ArrowStream | ArrowArray | Sequence[ArrowStream | ArrowArray | Mapping[str, object]] | Mapping[str, object]
)


def to_local_data(data: object, table: str) -> Any:  # noqa: ANN401 - whatever callers give as data
    """Return data that can be read in this process: a pandas frame as an Arrow table, frames of engines refused."""
    engine = _engine_of(data)
    if engine is not None:
        raise InvalidInputError(
            f"table {table}: this is a {engine.title} {engine.frame}, whose rows would all come into this process; "
            f"write it with lakewright.write_table or with write_{engine.room} of a builder, which use the workers, or "
            f"fetch the rows yourself with {engine.fetch}",
            table=table,
        )
    if _is_a(data, "polars", "LazyFrame"):
        data = cast("Any", data).collect(engine="streaming")
    if _is_a(data, "polars", "DataFrame"):
        _refuse_objects(cast("Any", data), table)
        return _with_decimals(cast("Any", data), table)
    if isinstance(data, dict):
        return _from_columns(data, table)
    if isinstance(data, list | tuple) and data and all(isinstance(one, dict) for one in data) and _are_rows(data):
        return _from_rows(data, table)
    return from_pandas(data, table) if _is_a(data, "pandas", "DataFrame") else data


def batches_of(data: object, table: str) -> Iterator[pa.Table | pa.RecordBatch]:
    """Return the data as Arrow batches, one at a time where it is a stream."""
    data = to_local_data(data, table)
    if isinstance(data, pa.Table | pa.RecordBatch):
        return iter((data,))
    if isinstance(data, pa.RecordBatchReader):
        return iter(data)
    if isinstance(data, list | tuple):
        return itertools.chain.from_iterable(batches_of(part, table) for part in data)
    if hasattr(data, "__arrow_c_stream__"):
        return iter(stream_of(data, table))
    try:
        if hasattr(data, "__arrow_c_array__"):
            return iter((pa.record_batch(data),))
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise _no_batches(table, error) from error
    raise InvalidInputError(
        f"table {table}: cannot write a value of the type {type(data).__name__}; pass a pyarrow table, batch or "
        "reader, a list of these, a dict of columns, a list of dicts that are rows, or anything that exports an Arrow "
        "stream (polars, DuckDB, pandas)",
        table=table,
    )


def stream_of(data: object, table: str) -> pa.RecordBatchReader:
    """Return what exports an Arrow stream as a reader; a stream that has no columns, as of a series, is refused."""
    try:
        return pa.RecordBatchReader.from_stream(data)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise _no_batches(table, error) from error


def _no_batches(table: str, error: Exception) -> InvalidInputError:
    return InvalidInputError(
        f"table {table}: the data cannot be read as Arrow batches: {error}; a series or an array has no columns: put "
        "it into a frame or a dict of columns",
        table=table,
    )


def _are_rows(dicts: Sequence[Mapping[object, object]]) -> bool:
    """Return whether dicts are rows: the values of columns have a length and are no texts, those of a row mostly do."""
    values = (value for one in dicts for value in one.values())
    return any(isinstance(value, str | bytes | dict) or not hasattr(value, "__len__") for value in values)


def _from_rows(rows: Sequence[Mapping[object, object]], table: str) -> pa.Table:
    """Return rows as an Arrow table; a row that lacks a column of another row has a null there."""
    names = dict.fromkeys(name for row in rows for name in row)
    return _from_columns({name: [row.get(name) for row in rows] for name in names}, table)


def _refuse_objects(frame: Any, table: str) -> None:  # noqa: ANN401 - a frame of an optional package
    """Raise InvalidInputError for a column of Python objects, which polars exports as addresses in memory."""
    for name, dtype in frame.schema.items():
        if _holds_objects(dtype):
            raise InvalidInputError(
                f"table {table}: the column {name!r} holds Python objects (polars' type {dtype}), which have no place "
                "in a table; turn them into texts, numbers or structs, or drop the column",
                table=table,
                column=name,
            )


def _holds_objects(dtype: Any) -> bool:  # noqa: ANN401 - a type of an optional package
    inner = [getattr(dtype, "inner", None), *(field.dtype for field in getattr(dtype, "fields", ()))]
    return str(dtype) == "Object" or any(one is not None and _holds_objects(one) for one in inner)


def _from_columns(data: Mapping[object, object], table: str) -> pa.Table:
    """Return a dict of columns as an Arrow table."""
    data = {name: to_descriptors(values) if _holds_blobs(values) else values for name, values in data.items()}
    try:
        try:
            return pa.table({name: _vectors(values) for name, values in data.items()})
        except OverflowError:
            return pa.table({name: _wide_integers(values, str(name), table) for name, values in data.items()})
    except LakewrightError:
        raise
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(
            f"table {table}: the dict cannot become Arrow data, as each key names a column and its value is a list of "
            f"equal length: {error}",
            table=table,
        ) from error


def _holds_blobs(values: object) -> TypeGuard[Sequence[object]]:
    return isinstance(values, list | tuple) and any(isinstance(value, Blob) for value in values)


def _vectors(values: object) -> object:
    """Return an array of numpy with a vector in each row as an Arrow array, without a copy; anything else as it is."""
    if not isinstance(values, np.ndarray) or values.ndim != 2 or not values.shape[1]:  # noqa: PLR2004
        return values
    return pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(values).reshape(-1)), values.shape[1])


def _wide_integers(values: Any, column: str, table: str) -> pa.Array:  # noqa: ANN401 - a list or a pandas series
    """Return a column as an Arrow array, integers beyond 64 bits as decimals of 38 digits."""
    if not any(isinstance(value, int) and value.bit_length() >= _WORD_BITS for value in values):
        return pa.array(values)
    # None, NaN and pandas' NA are the values that a column of integers has for null.
    decimals = [Decimal(value) if isinstance(value, int) else None for value in values]
    others = [value for value, one in zip(values, decimals, strict=True) if one is None and not _is_missing(value)]
    if not others and all(one is None or one.adjusted() < PRECISION_MAX for one in decimals):
        return pa.array(decimals, pa.decimal128(PRECISION_MAX, 0))
    reason = f"mixes such integers with {type(others[0]).__name__}" if others else "has integers beyond 38 digits"
    raise InvalidInputError(
        f"table {table}: the column {column!r} holds integers beyond 64 bits, which become DECIMAL(38, 0), and "
        f"{reason}; turn its values into texts",
        table=table,
        column=column,
    )


def _is_missing(value: object) -> bool:
    return value is None or str(value) in {"nan", "<NA>"}


def _with_decimals(frame: Any, table: str) -> Any:  # noqa: ANN401 - a frame of an optional package
    """Return a polars frame with integers of 128 bits, which Arrow does not have, as decimals of 38 digits."""
    wide = [name for name, dtype in frame.schema.items() if str(dtype) in {"Int128", "UInt128"}]
    if not wide:
        return frame
    polars = sys.modules["polars"]
    try:
        return frame.with_columns(frame[name].cast(polars.Decimal(PRECISION_MAX, 0)) for name in wide)
    except polars.exceptions.InvalidOperationError as error:
        raise InvalidInputError(
            f"table {table}: a column of {', '.join(map(repr, wide))} has integers of 128 bits with more than 38 "
            f"digits; cast it to pl.String",
            table=table,
            column=wide[0],
        ) from error


def from_pandas(frame: Any, table: str) -> pa.Table:  # noqa: ANN401 - a frame of an optional package
    """Return a pandas frame as an Arrow table, with the named levels of its index as columns."""
    try:
        frame = _index_as_columns(frame, table)
        try:
            return pa.Table.from_pandas(frame, preserve_index=False)
        except OverflowError:
            names = [name for name, dtype in frame.dtypes.items() if str(dtype) == "object"]
            wide = {str(name): _wide_integers(frame[name], str(name), table) for name in names}
            narrow = pa.Table.from_pandas(frame.drop(columns=names), preserve_index=False)
            columns = [wide[name] if name in wide else narrow.column(name) for name in map(str, frame.columns)]
            return pa.table(columns, names=list(map(str, frame.columns)))
    except LakewrightError:
        raise
    except (pa.ArrowException, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise InvalidInputError(f"table {table}: the frame cannot become Arrow data: {error}", table=table) from error


def _index_as_columns(frame: Any, table: str) -> Any:  # noqa: ANN401 - a frame of an optional package
    """Return a frame whose columns are the named levels of its index and its own columns; other levels are dropped."""
    levels = list(frame.index.names)
    named = [name for name in levels if name is not None]
    clashes = [name for at, name in enumerate(named) if name in frame.columns or name in named[:at]]
    if clashes:
        raise InvalidInputError(
            f"table {table}: {clashes[0]!r} names a level of the index and another column or level; rename one, or "
            "drop the index with reset_index(drop=True)",
            table=table,
            column=str(clashes[0]),
        )
    nameless = [at for at, name in enumerate(levels) if name is None]
    if nameless and named:
        frame = frame.reset_index(level=nameless, drop=True)
    return frame.reset_index() if named else frame


def memory_bytes(data: pa.Table | pa.RecordBatch | pa.Array | pa.ChunkedArray) -> int:
    """Return how many bytes the values take in memory.

    Arrow 18 to 23 cannot count the part of a view (polars gives text as views) that a slice uses: then these are the
    bytes of the whole buffers.
    """
    try:
        return int(data.nbytes)
    except pa.ArrowTypeError:
        return int(data.get_total_buffer_size())
