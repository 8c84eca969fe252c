"""The order of keys: tables in, positions of their rows in key order out.

Nulls come first, texts and bytes compare as unsigned bytes, -0.0 is below 0.0 and NaN above everything. Two keys are
the same exactly when neither is below the other. No row is compared in Python: see `lsm.images`.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from lakewright.lsm.images import Layer, Longs, Part, column_parts, layers_of
from lakewright.lsm.sorting import Sorted, ascends, differ_from_previous, sort_layers
from lakewright.spec.types import DataField, Value
from lakewright.spec.values import from_scalar

Key: TypeAlias = tuple[tuple[object, ...], ...]  # of one row: per column () for null, else (value,)


@dataclass(frozen=True, slots=True)
class SortColumn:
    """A column to sort by; its nulls come first in both directions."""

    field: DataField
    descending: bool = False


def sorted_rows(table: pa.Table, columns: Sequence[SortColumn]) -> Sorted:
    """Return the rows sorted by some columns, equal ones as they came, and where one differs from the one before."""
    return sort_layers(layers_of(table_parts(table, columns)), len(table))


def table_parts(table: pa.Table, columns: Sequence[SortColumn]) -> list[Part]:
    """Return the order image of some columns of a table."""
    parts: list[Part] = []
    for column in columns:
        name = column.field.name
        parts += column_parts(table.column(name), column.field.type, descending=column.descending, name=name)
    return parts


class KeyOrder:
    """The order of the rows of a table by some columns.

    >>> from lakewright.spec.types import AtomicType
    >>> key = KeyOrder([DataField(0, "k", AtomicType("STRING"))])
    >>> key.order(pa.table({"k": ["b", None, "a", "b"]})).tolist()
    [1, 2, 0, 3]
    """

    def __init__(self, fields: Sequence[DataField]) -> None:
        self.fields = tuple(fields)
        self.columns = tuple(SortColumn(field) for field in fields)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the key columns."""
        return tuple(field.name for field in self.fields)

    def sorted(self, table: pa.Table) -> Sorted:
        """Return the rows in key order, and which of them begin a new key."""
        return sorted_rows(table, self.columns)

    def order(self, table: pa.Table) -> Longs:
        """Return the positions of the rows in key order; rows of one key keep their order."""
        return self.sorted(table).order

    def starts(self, table: pa.Table, order: Longs | None = None) -> Longs:
        """Return where each key begins in rows that are sorted, or that `order` sorts."""
        return np.flatnonzero(differ_from_previous(self._layers(table), len(table), order))

    def is_ascending(self, table: pa.Table) -> bool:
        """Say whether each row has a higher key than the one before."""
        return ascends(self._layers(table), len(table))

    def key_at(self, table: pa.Table, row: int) -> Key:
        """Return the key of one row."""
        return self.key_of([from_scalar(table.column(f.name)[row], f.type) for f in self.fields])

    def key_of(self, values: Sequence[Value]) -> Key:
        """Return the key that values make, one per key column."""
        return tuple(() if value is None else (_comparable(value),) for value in values)

    def count_up_to(self, table: pa.Table, key: Key) -> int:
        """Return how many rows of a sorted table have a key that is not above the given one."""
        return bisect_right(range(len(table)), key, key=lambda row: self.key_at(table, row))

    def count_below(self, table: pa.Table, key: Key) -> int:
        """Return how many rows of a sorted table have a key below the given one."""
        return bisect_left(range(len(table)), key, key=lambda row: self.key_at(table, row))

    def _layers(self, table: pa.Table) -> list[Layer]:
        return layers_of(table_parts(table, self.columns))


def _comparable(value: Value) -> object:
    """Return what Python compares as the format does."""
    match value:
        case str():
            return value.encode("utf-8", "surrogatepass")
        case float():
            (bits,) = struct.unpack("<q", struct.pack("<d", float("nan") if value != value else value))  # noqa: PLR0124
            return bits if bits >= 0 else bits ^ 0x7FFFFFFFFFFFFFFF
        case _:
            return value
