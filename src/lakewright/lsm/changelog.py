"""Rows of keys before and after a merge to -U, +U, +I, -D."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.lsm.key_groups import one_array
from lakewright.lsm.key_order import KeyOrder
from lakewright.lsm.merge_rows import drop_retracts
from lakewright.lsm.normalized_keys import UInt64Array
from lakewright.spec.system_columns import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, VALUE_KIND, value_names

# ---- Equality of rows ------------------------------------------------------------------------------------------------
# Two values are the same if no reader could see a difference: null equals null, a NaN equals every NaN, 0.0 and
# -0.0 differ. Arrays, maps and rows are compared to any depth; the entries of a map count in their order.

Flags = npt.NDArray[np.bool_]


def equal_rows(left: pa.Table, right: pa.Table) -> Flags:
    """Say of each row whether the two tables, which have the same columns, agree in all of them."""
    same = np.ones(left.num_rows, np.bool_)
    for name in left.column_names:
        same &= equal_values(_decode_dictionary(left.column(name)), _decode_dictionary(right.column(name)))
    return same


def equal_values(left: pa.Array, right: pa.Array) -> Flags:
    """Say of each place whether two arrays of one type hold the same value there.

    >>> equal_values(pa.array([1.0, None, float("nan")]), pa.array([1.0, None, float("nan")])).tolist()
    [True, True, True]
    """
    left_valid, right_valid = _valid(left), _valid(right)
    both = left_valid & right_valid
    if both.all():
        return _equal(left, right)
    # Only values that are not null on both sides are compared: the bytes under a null mean nothing.
    same: Flags = left_valid == right_valid
    at = pa.array(np.flatnonzero(both))
    same[both] = _equal(left.take(at), right.take(at))
    return same


def _equal(left: pa.Array, right: pa.Array) -> Flags:
    """Compare arrays without nulls of their own."""
    kind = left.type
    if pa.types.is_struct(kind):
        same = np.ones(len(left), np.bool_)
        for mine, other in zip(left.flatten(), right.flatten(), strict=True):
            same &= equal_values(mine, other)
        return same
    if pa.types.is_map(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _equal_lists(left, right)
    if pa.types.is_fixed_size_list(kind):
        element = pa.list_(kind.value_field)
        return _equal_lists(left.cast(element), right.cast(element))
    if pa.types.is_floating(kind):
        return _equal_floats(left, right)
    if pa.types.is_null(kind):
        return np.ones(len(left), np.bool_)
    equal: Flags = pc.equal(left, right).to_numpy(zero_copy_only=False).astype(np.bool_)
    return equal


def _equal_floats(left: pa.Array, right: pa.Array) -> Flags:
    mine, other = left.to_numpy(zero_copy_only=False), right.to_numpy(zero_copy_only=False)
    same: Flags = (mine == other) & (np.signbit(mine) == np.signbit(other))
    same |= np.isnan(mine) & np.isnan(other)
    return same


def _equal_lists(left: pa.Array, right: pa.Array) -> Flags:
    """Compare lists: those of equal length element by element, all of them in one step."""
    (begin, lengths), (other_begin, other_lengths) = _spans(left), _spans(right)
    same: Flags = lengths == other_lengths
    rows = np.flatnonzero(same & (lengths > 0))
    if len(rows) == 0:
        return same
    counts = lengths[rows]
    owner = np.repeat(np.arange(len(rows)), counts)
    inside = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
    mine = _elements(left).take(pa.array(begin[rows][owner] + inside))
    other = _elements(right).take(pa.array(other_begin[rows][owner] + inside))
    different = np.bincount(owner[~equal_values(mine, other)], minlength=len(rows))
    same[rows] = different == 0
    return same


def _spans(lists: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return where each list begins among the elements, and how long it is."""
    offsets = lists.offsets.to_numpy().astype(np.int64)
    return offsets[:-1], np.diff(offsets)


def _elements(lists: pa.Array) -> pa.Array:
    """Return all elements that the offsets count: those of a map are its entries."""
    if not pa.types.is_map(lists.type):
        return lists.values
    return pa.StructArray.from_arrays([lists.keys, lists.items], names=["key", "value"])


def _valid(array: pa.Array) -> Flags:
    if array.null_count == 0:
        return np.ones(len(array), np.bool_)
    valid: Flags = array.is_valid().to_numpy(zero_copy_only=False).astype(np.bool_)
    return valid


def _decode_dictionary(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """Return a column as one array, dictionaries decoded."""
    values = one_array(column) if isinstance(column, pa.ChunkedArray) else column
    return values.dictionary_decode() if pa.types.is_dictionary(values.type) else values


# ---- Changes of keys -------------------------------------------------------------------------------------------------
# Incremental reads and the changelog of a compaction use the same rule. Each side has at most one row per key. The
# result is in key order, the old row of a key before the new one: -U and +U for a key that both sides have, +I for
# one that only the side after has, -D for one that only the side before has. Nothing here reads or writes.


def key_changes(
    rows: pa.Table, is_after: Flags, key: KeyOrder, compared: Sequence[str] | None
) -> tuple[UInt64Array, npt.NDArray[np.int8]]:
    """Return the positions of the rows of a change, in key order, and the kind of each.

    `is_after` says of each row whether it is of the side after. Keys whose two rows agree in the columns `compared` are
    left out; without such columns every key that both sides have counts as changed.
    """
    ordered = key.sort_rows(rows)
    order = ordered.order
    first = np.flatnonzero(~ordered.new) - 1  # of each pair
    turned = first[is_after[order[first]]]  # pairs that begin with the row after
    if len(turned):
        order = order.copy()
        order[turned], order[turned + 1] = order[turned + 1], order[turned]
    kinds = np.where(is_after[order], INSERT, DELETE).astype(np.int8)
    kinds[first], kinds[first + 1] = UPDATE_BEFORE, UPDATE_AFTER
    if compared is None:
        return order, kinds
    values = rows.select(list(compared))
    same = equal_rows(values.take(pa.array(order[first])), values.take(pa.array(order[first + 1])))
    keep = np.ones(len(order), np.bool_)
    keep[first[same]] = keep[first[same] + 1] = False
    return order[keep], kinds[keep]


def changelog_rows(
    before: pa.Table, after: pa.Table, key: KeyOrder, *, deduplicate: bool, ignored: frozenset[str] = frozenset()
) -> pa.Table:
    """Return how keyed rows changed, each row with its own sequence number; a row that deletes counts as no row.

    `deduplicate` leaves out keys whose values are as they were, whatever their sequence numbers and
    their values in the columns `ignored`.
    """
    before, after = drop_retracts(before), drop_retracts(after.select(before.column_names))
    rows = pa.concat_tables([before, after])
    if len(rows) == 0:
        return rows
    is_after = np.arange(len(rows)) >= len(before)
    compared = [name for name in value_names(rows) if name not in ignored]
    order, kinds = key_changes(rows, is_after, key, compared if deduplicate else None)
    out = rows.take(pa.array(order))
    place = out.schema.get_field_index(VALUE_KIND.name)
    return out.set_column(place, VALUE_KIND.name, pa.array(kinds))
