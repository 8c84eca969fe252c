"""Keys and statistics of many files as text: what manifests record in, the text columns of `$files` out.

Files of one schema that have statistics of the same columns are converted together, column by column. Where a row of
bounds is damaged, each file is converted for itself, and the error says which one it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from json.encoder import encode_basestring
from typing import TypeAlias

import numpy as np

from lakewright.catalog.system.history import compact_json
from lakewright.errors import CorruptTableError
from lakewright.metadata.entry_parts import ChosenEntries
from lakewright.spec.datafile import EMPTY_ROW, DataFile, SimpleStats
from lakewright.spec.rows.binary_row import decode_field, decode_row
from lakewright.spec.rows.row_columns import RowColumns
from lakewright.spec.stats import corrected_bounds, field_stats
from lakewright.spec.types import INTEGER_BITS, AtomicType, DataField, DataType, Value
from lakewright.spec.values import to_text
from lakewright.table.table import FileStoreTable

_Texts: TypeAlias = list[str]
_NULL = "null"


def stats_texts(table: FileStoreTable, live: ChosenEntries) -> list[list[object]]:
    """Return the null counts, the lower and the upper bounds of all files, as JSON by the current columns."""
    stats, row_counts = live.facts("value_stats"), live.facts("row_count")
    shapes = zip(live.facts("schema_id"), live.facts("value_stats_cols"), live.facts("write_cols"), strict=True)
    groups: dict[tuple[object, ...], list[int]] = {}
    for position, (shape, one) in enumerate(zip(shapes, stats, strict=True)):
        groups.setdefault((*shape, _is_known(one)), []).append(position)
    found: list[list[object]] = [[None] * len(live) for _ in range(3)]
    for (schema_id, stats_columns, write_columns, is_known), positions in groups.items():
        written = table.store.schemas.get(schema_id).fields  # type: ignore[arg-type]  # the first of the shape
        columns = stats_columns if stats_columns is not None else write_columns or [field.name for field in written]
        group = _Group(table.fields, written, tuple(columns) if is_known else ())  # type: ignore[arg-type]
        texts = group.together([stats[p] for p in positions], [row_counts[p] for p in positions])
        if texts is None:
            texts = list(zip(*(group.alone(entry.file) for entry in live.at(np.array(positions))), strict=True))
        for column, some in zip(found, texts, strict=True):
            for position, text in zip(positions, some, strict=True):
                column[position] = text
    return found


def _is_known(stats: SimpleStats) -> bool:
    return bool(stats.null_counts) or stats.min_values != EMPTY_ROW


@dataclass(frozen=True, slots=True)
class _Group:
    """Files of one schema that have statistics of the same columns."""

    fields: Sequence[DataField]  # the current columns of the table
    written: Sequence[DataField]  # the columns of the schema of the files
    columns: tuple[str, ...]  # what the statistics cover, in order

    def together(self, stats: Sequence[SimpleStats], row_counts: Sequence[int]) -> Sequence[Sequence[str]] | None:
        """Return null counts, lower and upper bounds of all files, each as JSON; None: take them one by one."""
        if any(len(one.null_counts) != len(self.columns) for one in stats):
            return None
        rows = [one.min_values for one in stats], [one.max_values for one in stats]
        bounds = [_Bounds(some, RowColumns(some, len(self.columns))) for some in rows]
        if not all(one.columns.is_sound for one in bounds):
            return None
        columns: list[tuple[_Texts, _Texts, _Texts]] = []
        for field in self.fields:
            stored, nulls = self._stored(field), [_NULL] * len(stats)
            if stored is None:
                columns.append(([*map(str, row_counts)], nulls, nulls))
            elif stored.name not in self.columns:
                columns.append((nulls, nulls, nulls))
            else:
                index = self.columns.index(stored.name)
                counts = [_NULL if (count := one.null_counts[index]) is None else str(count) for one in stats]
                try:
                    lows, highs = (one.values(index, stored.type) for one in bounds)
                except CorruptTableError:
                    return None
                columns.append((counts, *_bound_texts(lows, highs, stored.type)))
        members = (encode_basestring(field.name).replace("%", "%%") for field in self.fields)
        form = "{" + ",".join(f"{member}:%s" for member in members) + "}"
        return [[form % row for row in zip(*column, strict=True)] for column in zip(*columns, strict=True)]

    def alone(self, file: DataFile) -> tuple[str, str, str]:
        """Return the same of one file; damaged statistics raise CorruptTableError."""
        counts: dict[str, int | None] = {}
        lows: dict[str, str | None] = {}
        highs: dict[str, str | None] = {}
        for field in self.fields:
            stored = self._stored(field)
            stats = None if stored is None else field_stats(file, stored.name, self.written)
            low, high = (None, None) if stats is None else (stats.min, stats.max)
            counts[field.name] = file.row_count if stored is None else None if stats is None else stats.null_count
            dtype = field.type if stored is None else stored.type
            lows[field.name] = None if low is None else to_text(low, dtype)
            highs[field.name] = None if high is None else to_text(high, dtype)
        return compact_json(counts), compact_json(lows), compact_json(highs)

    def _stored(self, field: DataField) -> DataField | None:
        """Return a column as the files have it, which may have another name and type; None: they lack it."""
        return next((stored for stored in self.written if stored.id == field.id), None)


@dataclass(frozen=True, slots=True)
class _Bounds:
    """The lower, or the upper, bounds of several files."""

    rows: Sequence[bytes]
    columns: RowColumns

    def values(self, index: int, dtype: DataType) -> Sequence[Value]:
        """Return the bounds of one column."""
        if not isinstance(dtype, AtomicType):
            return [None] * len(self.rows)
        values = self.columns.values(index, dtype)
        return [decode_field(row, index, dtype) for row in self.rows] if values is None else values


def _bound_texts(lows: Sequence[Value], highs: Sequence[Value], dtype: DataType) -> tuple[_Texts, _Texts]:
    """Return the bounds of a column as JSON, corrected as `field_stats` does it."""
    root = dtype.root if isinstance(dtype, AtomicType) else ""
    if root in INTEGER_BITS:
        return _numbers(lows), _numbers(highs)
    if root == "VARCHAR":
        # Of texts only the last character of an upper bound is looked at.
        return _strings(lows), _strings([None if str(high).endswith("?") else high for high in highs])
    pairs = list(zip(lows, highs, strict=True))
    known = {pair: [_quoted(bound, dtype) for bound in corrected_bounds(*pair, dtype)] for pair in set(pairs)}
    texts = [known[pair] for pair in pairs]
    return [low for low, _ in texts], [high for _, high in texts]


def _numbers(values: Iterable[Value]) -> _Texts:
    return [_NULL if value is None else f'"{value!s}"' for value in values]


def _strings(values: Iterable[Value]) -> _Texts:
    return [_NULL if value is None else encode_basestring(value) for value in values]  # type: ignore[arg-type]  # texts


def _quoted(value: Value, dtype: DataType) -> str:
    return _NULL if value is None else encode_basestring(to_text(value, dtype))


def key_texts(keys: Sequence[bytes], types: Sequence[DataType]) -> list[str | None]:
    """Return keys in Java's text form, such as `[1, a]`; None for tables without a primary key."""
    if not types:
        return [None] * len(keys)
    rows = RowColumns(keys, len(types))
    columns = [rows.values(index, dtype) for index, dtype in enumerate(types)]
    if None in columns:
        return [None if key == EMPTY_ROW else f"[{row_text(key, types)}]" for key in keys]
    texts = [
        [_NULL if value is None else to_text(value, dtype) for value in column or ()]
        for column, dtype in zip(columns, types, strict=True)
    ]
    return [f"[{', '.join(row)}]" for row in zip(*texts, strict=True)]


def row_text(row: bytes, types: Sequence[DataType]) -> str:
    """Return the values of a row in Java's text form, such as `1, a`."""
    values = zip(decode_row(row, types), types, strict=True)
    return ", ".join(_NULL if value is None else to_text(value, dtype) for value, dtype in values)
