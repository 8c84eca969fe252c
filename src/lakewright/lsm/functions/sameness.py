"""Sameness inside one array: values in, small numbers out that are equal exactly where the values are.

Null equals null, a NaN equals every NaN, 0.0 and -0.0 differ; rows are equal field by field, arrays element by element,
and maps whatever the order of their entries.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.lsm.images import Longs


def codes(values: pa.Array) -> Longs:
    """Return a number for each value: the same for the same values, -1 for null.

    >>> codes(pa.array([7, None, 9, 7])).tolist()
    [0, -1, 1, 0]
    """
    if len(values) == 0:
        return np.zeros(0, np.int64)
    if pa.types.is_struct(values.type):
        numbers = row_codes([values.field(n) for n in range(values.type.num_fields)], len(values))
    elif pa.types.is_map(values.type):
        entries = row_codes([values.keys, values.items], len(values.keys)).tolist()
        numbers = _numbered([frozenset(part) for part in _parts(values, entries)])
    elif pa.types.is_list(values.type):
        numbers = _numbered([tuple(part) for part in _parts(values, codes(values.values).tolist())])
    else:
        numbers = _scalar_codes(values)
    if values.null_count:
        numbers = np.where(np.asarray(values.is_null()), -1, numbers)
    return numbers


def row_codes(columns: Sequence[pa.Array], count: int) -> Longs:
    """Return a number for each row of some columns of one length: the same for the same rows."""
    out = np.zeros(count, np.int64)
    for column in columns:
        step = codes(column) + 1
        _, out = np.unique(out * (int(step.max(initial=0)) + 1) + step, return_inverse=True)
    return out.astype(np.int64)


def _scalar_codes(values: pa.Array) -> Longs:
    if pa.types.is_floating(values.type):
        numbers = values.to_numpy(zero_copy_only=False)
        canonical = np.where(np.isnan(numbers), np.full(1, np.nan, numbers.dtype), numbers)
        values = pa.array(canonical.view(f"<i{canonical.dtype.itemsize}"))
    indices: Longs = pc.fill_null(pc.dictionary_encode(values).indices, -1).to_numpy().astype(np.int64)
    return indices


def _parts(lists: pa.Array, elements: Sequence[Hashable]) -> list[Sequence[Hashable]]:
    offsets = lists.offsets.to_pylist()
    return [elements[begin:end] for begin, end in pairwise(offsets)]


def _numbered(values: Sequence[Hashable]) -> Longs:
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(value, len(numbers)) for value in values], np.int64)
