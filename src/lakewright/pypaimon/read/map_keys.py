"""Projections of keys of a MAP, such as `tags['a']`: names in; the columns to read, and the columns of the result, out.

The whole MAP is read; the value of a key, or null, becomes a column of its own.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from lakewright.spec.types import TEXT_ROOTS, AtomicType, DataField, MapType

_SELECTOR = re.compile(r"([^\[\]]+)\[(['\"])(.*)\2\]", re.DOTALL)


@dataclass(frozen=True, slots=True)
class MapKey:
    """One key of a column: where the column is in the read, and how the result calls the value."""

    column: int
    key: str
    name: str


@dataclass(frozen=True, slots=True)
class MapKeys:
    """A projection with keys of maps: what is read, and for each column of the result where it comes from."""

    read: tuple[str, ...]
    columns: tuple[int | MapKey, ...]

    @classmethod
    def of(cls, projection: Sequence[str], known: Mapping[str, DataField]) -> MapKeys | None:
        """Return a projection that names keys of maps with text as keys; None: it names none."""
        found = {name: selector for name in projection if (selector := map_key(name, known)) is not None}
        if not found:
            return None
        read = list(dict.fromkeys(found[name][0] if name in found else name for name in projection))
        taken = set(known)
        columns: list[int | MapKey] = []
        for name in projection:
            if name not in found:
                columns.append(read.index(name))
                continue
            column, key = found[name]
            shown = _free(f"{column}_{key.replace('.', '_')}", taken)
            taken.add(shown)
            columns.append(MapKey(read.index(column), key, shown))
        return cls(tuple(read), tuple(columns))

    def fields(self, read: Sequence[DataField]) -> tuple[DataField, ...]:
        """Return the fields of the result."""
        return tuple(read[one] if isinstance(one, int) else _value_field(read[one.column], one) for one in self.columns)

    def apply(self, rows: pa.Table) -> pa.Table:
        """Return the result of a read."""
        names = [rows.column_names[one] if isinstance(one, int) else one.name for one in self.columns]
        arrays = [rows.column(one) if isinstance(one, int) else _looked_up(rows, one) for one in self.columns]
        return pa.Table.from_arrays(arrays, names=names)


def map_key(name: str, known: Mapping[str, DataField]) -> tuple[str, str] | None:
    """Return the column and the key that a name such as `tags['a']` means; None: it means something else."""
    match = None if name in known else _SELECTOR.fullmatch(name)
    dtype = known[match[1]].type if match is not None and match[1] in known else None
    if match is None or not isinstance(dtype, MapType) or not isinstance(dtype.key, AtomicType):
        return None
    return (match[1], match[3]) if dtype.key.root in TEXT_ROOTS else None


def _value_field(column: DataField, one: MapKey) -> DataField:
    return replace(column, name=one.name, type=column.type.value if isinstance(column.type, MapType) else column.type)


def _free(name: str, taken: set[str]) -> str:
    """Return a name that is not taken: itself, or with a number."""
    if name not in taken:
        return name
    return next(numbered for n in itertools.count() if (numbered := f"{name}__{n}") not in taken)


def _looked_up(rows: pa.Table, one: MapKey) -> pa.ChunkedArray:
    column = rows.column(one.column)
    return pc.map_lookup(column, pa.scalar(one.key, column.type.key_type), "first")
