"""`take` and `filter` on Arrow data, faster than Arrow's own.

Arrow copies texts one by one when it takes rows. Texts that all have the same length, as identifiers mostly do, are
copied as values of fixed width instead, which takes a tenth of the time. To filter a whole batch Arrow takes rows too;
if few are dropped, it is twice as fast to filter each column, which copies the rows between those in one piece.
"""

from __future__ import annotations

from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_Positions: TypeAlias = npt.NDArray[np.integer]
_Offsets: TypeAlias = np.dtype[np.signedinteger[Any]]
_OFFSETS: dict[pa.DataType, _Offsets] = {
    pa.string(): np.dtype(np.int32),
    pa.binary(): np.dtype(np.int32),
    pa.large_string(): np.dtype(np.int64),
    pa.large_binary(): np.dtype(np.int64),
}

_FEW_DROPPED = 4  # at most one row of so many is dropped: columns are filtered one by one
_Rows = TypeVar("_Rows", pa.Table, pa.RecordBatch)


def filter_rows(rows: _Rows, mask: pa.Array | pa.ChunkedArray, kept: int) -> _Rows:
    """Return the rows for which a mask is true; `kept` is how many they are.

    >>> filter_rows(pa.table({"k": [1, 2, 3]}), pa.array([True, None, True]), 2).column("k").to_pylist()
    [1, 3]
    """
    if kept == rows.num_rows:
        return rows
    if kept == 0:
        return rows.slice(0, 0)
    if not rows.num_columns or (rows.num_rows - kept) * _FEW_DROPPED > rows.num_rows:
        return rows.filter(mask)
    return type(rows).from_arrays([_filter_column(column, mask) for column in rows.columns], schema=rows.schema)


def _filter_column(column: pa.Array | pa.ChunkedArray, mask: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    offsets = _OFFSETS.get(column.type)
    if offsets is None or isinstance(column, pa.ChunkedArray):
        return column.filter(mask)
    width = _common_width(pa.chunked_array([column]), offsets)
    if width is None:
        return column.filter(mask)
    return _as_texts(_as_fixed(column, offsets, width).filter(mask), column.type, offsets)


def take_rows(rows: pa.Table, positions: _Positions) -> pa.Table:
    """Return the rows at positions.

    >>> take_rows(pa.table({"k": ["a1", "b2", "c3"]}), np.array([2, 0])).column("k").to_pylist()
    ['c3', 'a1']
    """
    at = pa.array(positions)
    return pa.Table.from_arrays([_take_column(column, at) for column in rows.columns], schema=rows.schema)


def _take_column(column: pa.ChunkedArray, at: pa.Array) -> pa.ChunkedArray:
    offsets = _OFFSETS.get(column.type)
    width = None if offsets is None else _common_width(column, offsets)
    if offsets is None or width is None or width * len(at) > np.iinfo(offsets).max:
        return column.take(at)
    fixed = pa.chunked_array([_as_fixed(chunk, offsets, width) for chunk in column.chunks], pa.binary(width))
    return pa.chunked_array([_as_texts(chunk, column.type, offsets) for chunk in fixed.take(at).chunks], column.type)


def _common_width(column: pa.ChunkedArray, offsets: _Offsets) -> int | None:
    """Return the length of all texts; None if lengths differ, one text is null, or all are empty."""
    if len(column) == 0 or column.null_count:
        return None
    common: int | None = None
    for chunk in column.chunks:
        if len(chunk) == 0:
            continue
        ends = _ends(chunk, offsets)
        width = int(ends[1]) - int(ends[0])
        same = common in {None, width} and int(ends[-1]) - int(ends[0]) == width * len(chunk)
        if not same or not bool((ends[1:] - ends[:-1] == width).all()):
            return None
        common = width
    return common or None


def _ends(chunk: pa.Array, offsets: _Offsets) -> npt.NDArray[np.signedinteger]:
    return np.frombuffer(chunk.buffers()[1], offsets, len(chunk) + 1, chunk.offset * offsets.itemsize)


def _as_fixed(chunk: pa.Array, offsets: _Offsets, width: int) -> pa.FixedSizeBinaryArray:
    first = int(_ends(chunk, offsets)[0]) if len(chunk) else 0
    data = chunk.buffers()[2].slice(first, width * len(chunk)) if len(chunk) else pa.py_buffer(b"")
    return pa.Array.from_buffers(pa.binary(width), len(chunk), [None, data])


def _as_texts(chunk: pa.FixedSizeBinaryArray, dtype: pa.DataType, offsets: _Offsets) -> pa.Array:
    width = chunk.type.byte_width
    ends = np.arange(chunk.offset, chunk.offset + len(chunk) + 1, dtype=offsets) * offsets.type(width)
    return pa.Array.from_buffers(dtype, len(chunk), [None, pa.py_buffer(ends), chunk.buffers()[1]])
