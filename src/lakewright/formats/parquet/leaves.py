"""The leaves of a parquet schema: its columns without nested ones, numbered depth first as parquet numbers them.

Also which leaves are nanosecond timestamps, and for which a dictionary makes a file smaller.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from lakewright.spec.types import ArrayType, AtomicType, DataType, MapType, MultisetType, RowType
from lakewright.spec.units import MIB

_SAMPLE_ROWS = 2048
_SAMPLE_STRETCHES = 16
_DICTIONARY_BYTES = MIB // 2  # the encoder stops using a dictionary that becomes larger than a mebibyte


def leaf_types(arrow: pa.DataType) -> Iterator[pa.DataType]:
    """Yield the types of the leaves of a column."""
    if not pa.types.is_nested(arrow):
        yield arrow
        return
    for number in range(arrow.num_fields):
        yield from leaf_types(arrow.field(number).type)


def leaf_count(arrow: pa.DataType) -> int:
    """Return the number of leaves of a column."""
    return sum(1 for _ in leaf_types(arrow))


def leaf_arrays(path: str, array: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    """Yield the leaves of a column with their paths inside a parquet schema."""
    array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    if pa.types.is_struct(array.type):
        for field, child in zip(array.type, array.flatten(), strict=True):
            yield from leaf_arrays(f"{path}.{field.name}", child)
    elif pa.types.is_map(array.type):
        yield from leaf_arrays(f"{path}.key_value.key", array.keys)
        yield from leaf_arrays(f"{path}.key_value.value", array.items)
    elif pa.types.is_list(array.type):
        yield from leaf_arrays(f"{path}.list.element", array.flatten())
    else:
        yield path, array


def select_leaves(arrow: pa.DataType, dtype: DataType, first: int) -> list[int]:
    """Return the leaves of a column that hold the fields of `dtype`; `first` is the number of its first leaf."""
    if pa.types.is_struct(arrow) and isinstance(dtype, RowType):
        types = {field.name: field.type for field in dtype.fields}
        chosen: list[int] = []
        leaf = first
        for field in arrow:
            if field.name in types:
                chosen += select_leaves(field.type, types[field.name], leaf)
            leaf += leaf_count(field.type)
        return chosen or [first]  # one leaf is enough to know which rows are null
    if pa.types.is_map(arrow) and isinstance(dtype, MapType | MultisetType):
        keys = leaf_count(arrow.key_type)
        inner = dtype.value if isinstance(dtype, MapType) else AtomicType("INT")
        return [*range(first, first + keys), *select_leaves(arrow.item_type, inner, first + keys)]
    if pa.types.is_list(arrow) and isinstance(dtype, ArrayType):
        return select_leaves(arrow.value_type, dtype.element, first)
    return list(range(first, first + leaf_count(arrow)))


def nanosecond_leaves(schema: pa.Schema) -> frozenset[int]:
    """Return which leaves of a schema are nanosecond timestamps."""
    types = [leaf for field in schema for leaf in leaf_types(field.type)]
    return frozenset(number for number, arrow in enumerate(types) if is_nanoseconds(arrow))


def is_nanoseconds(arrow: pa.DataType) -> bool:
    """Say whether a type is a timestamp of nanoseconds."""
    return bool(pa.types.is_timestamp(arrow) and arrow.unit == "ns")


def dictionary_columns(table: pa.Table) -> list[str]:
    """Return the leaves that a dictionary makes smaller: those whose values repeat in a sample of the rows.

    A dictionary of values that hardly repeat costs time and bytes, and the encoder stops using one that becomes too
    large. The sample is a few short stretches, so values that repeat only in neighbouring rows count as well.
    """
    step = max(1, table.num_rows // _SAMPLE_STRETCHES)
    rows = _SAMPLE_ROWS // _SAMPLE_STRETCHES
    small = table.num_rows <= _SAMPLE_ROWS
    sample = table if small else pa.concat_tables(table.slice(at, rows) for at in range(0, table.num_rows, step))
    share = table.num_rows / max(1, sample.num_rows)
    chosen: list[str] = []
    for field, column in zip(table.schema, sample.columns, strict=True):
        for path, leaf in leaf_arrays(field.name, column.combine_chunks()):
            if not pa.types.is_boolean(leaf.type) and _repeats(leaf, share):
                chosen.append(path)
    return chosen


def _repeats(sample: pa.Array, share: float) -> bool:
    """Say whether a column has few enough distinct values, by a sample; it has `share` times as many rows as that."""
    sample = sample.drop_null()
    values = len(sample)
    if values == 0:
        return False
    counts = sample.value_counts().field(1).to_numpy()
    # A dictionary of at most this many values is worth it. If all were equally frequent, a sample of this size would
    # show the number of distinct values that is computed below.
    most = min(values * share / 2, _DICTIONARY_BYTES * values / max(1, sample.nbytes))
    if len(counts) > most * -math.expm1(-values / most):
        return False
    # A single frequent value must not hide that the others are rare. From the number of values that occur once and
    # twice, estimate how many values the sample does not show.
    once, twice = np.bincount(counts, minlength=3)[1:3].tolist()
    hidden = once * (once - 1) / (2 * (twice + 1))
    unseen = hidden * -math.expm1((1 - share) * once / hidden) if hidden else 0
    return bool(len(counts) + unseen <= most)
