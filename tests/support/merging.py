"""Merging as the format describes it, row by row in plain Python: slow, obvious, and what fast merging must equal.

A row is a dict of values by column name, `_SEQUENCE_NUMBER`, `_VALUE_KIND` and perhaps `_LEVEL` among them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cmp_to_key
from itertools import groupby
from typing import TypeAlias

import pyarrow as pa

from lakewright.errors import InvalidInputError
from lakewright.lsm.merge_rows import MergeRules
from lakewright.spec.merge_engine import MergeEngine
from lakewright.spec.scalars import NestedValue, from_scalar, to_array
from lakewright.spec.schema import Schema, new_table_schema
from lakewright.spec.system_columns import DELETE, KEYED_FIELDS, LEVEL, SEQUENCE_NUMBER, UPDATE_BEFORE, VALUE_KIND
from lakewright.spec.table_schema import TableSchema
from lakewright.spec.types import AtomicType, DataField

Row: TypeAlias = dict[str, NestedValue]
Merge: TypeAlias = Callable[[list[Row], MergeRules], Row | None]  # of two rows or more of one key, oldest first


def reference_fold(rows: Iterable[Mapping[str, NestedValue]], spec: MergeRules) -> list[Row]:
    """Return one row per key, in key order, `_LEVEL` left out."""

    def compare_keys(one: Row, other: Row) -> int:
        return first_difference(compare(one[name], other[name]) for name in spec.key.names)

    def compare_ages(one: Row, other: Row) -> int:
        return first_difference(
            [
                *(compare(one[c.field.name], other[c.field.name], descending=c.descending) for c in spec.sequence),
                compare(one[SEQUENCE_NUMBER.name], other[SEQUENCE_NUMBER.name]),
                compare(not is_retract(one), not is_retract(other)),
            ]
        )

    out: list[Row] = []
    in_key_order = sorted(map(dict, rows), key=cmp_to_key(compare_keys))
    for _, same_key in groupby(in_key_order, key=cmp_to_key(compare_keys)):
        group = sorted(_near(list(same_key), spec), key=cmp_to_key(compare_ages))
        group = [{name: value for name, value in row.items() if name != LEVEL.name} for row in group]
        merged = group[0] if len(group) == 1 else REFERENCES[spec.engine](group, spec)
        if merged is not None:
            out.append(merged)
    return out


def compare(one: NestedValue, other: NestedValue, *, descending: bool = False) -> int:
    """Return -1, 0 or 1 as one scalar is below the other, equal or above; null is below everything."""
    if one is None or other is None:
        return (one is not None) - (other is not None)
    low, high = _rank(one), _rank(other)
    sign = (low > high) - (low < high)
    return -sign if descending else sign


def _rank(value: NestedValue) -> tuple[object, ...]:
    if isinstance(value, float):
        return (1,) if math.isnan(value) else (0, value, math.copysign(1, value))
    return (value.encode(),) if isinstance(value, str) else (value,)


def first_difference(signs: Iterable[int]) -> int:
    """Return the first sign that is not 0."""
    return next((sign for sign in signs if sign), 0)


def is_retract(row: Row) -> bool:
    """Say whether the row is of kind -U or -D."""
    return row[VALUE_KIND.name] in {UPDATE_BEFORE, DELETE}


def _near(group: list[Row], spec: MergeRules) -> list[Row]:
    """Return the rows that the lookup rule shows: all of level 0, and the one of the lowest other level."""
    levels = [int(str(row[LEVEL.name])) for row in group if LEVEL.name in row]
    if not spec.needs_lookup or not levels:
        return group
    nearest = min((level for level in levels if level > 0), default=0)
    return [row for row in group if row[LEVEL.name] in {0, nearest}]


def _deduplicate(group: list[Row], spec: MergeRules) -> Row | None:
    shown = [row for row in group if not (spec.ignore_delete and is_retract(row))]
    return shown[-1] if shown else None


def _first_row(group: list[Row], spec: MergeRules) -> Row | None:
    shown = [row for row in group if not is_retract(row)]
    if len(shown) < len(group) and not spec.ignore_delete:
        raise InvalidInputError("a retract")
    return shown[0] if shown else None


REFERENCES: dict[MergeEngine, Merge] = {
    MergeEngine.DEDUPLICATE: _deduplicate,
    MergeEngine.FIRST_ROW: _first_row,
}


def schema_of(
    columns: Mapping[str, str], key: Sequence[str] = ("k",), options: Mapping[str, str] | None = None
) -> TableSchema:
    """Return the schema of a primary-key table with columns of these types; keys may be null."""
    fields = [DataField(n, name, AtomicType(text)) for n, (name, text) in enumerate(columns.items())]
    wish = Schema(fields, (), key, {"bucket": "1", "primary-key.nullable": "true", **(options or {})})
    return new_table_schema(wish, time_millis=1)


def spec_of(
    columns: Mapping[str, str], key: Sequence[str] = ("k",), options: Mapping[str, str] | None = None
) -> MergeRules:
    """Return how such a table is merged."""
    return MergeRules.of_schema(schema_of(columns, key, options), table="db.t")


def keyed_of(rows: Sequence[Mapping[str, NestedValue]], schema: TableSchema, *, level: bool = False) -> pa.Table:
    """Return rows as a keyed table of all columns."""
    fields = [*KEYED_FIELDS, *([LEVEL] if level else []), *schema.fields]
    return pa.table({f.name: to_array([row[f.name] for row in rows], f.type) for f in fields})


def rows_of(table: pa.Table, schema: TableSchema) -> list[Row]:
    """Return a keyed table as rows."""
    types = {f.name: f.type for f in (*KEYED_FIELDS, LEVEL, *schema.fields)}
    columns: dict[str, list[NestedValue]] = {}
    for name in table.column_names:
        scalars = list(table.column(name))
        nested = not isinstance(types[name], AtomicType)
        columns[name] = [s.as_py() for s in scalars] if nested else [from_scalar(s, types[name]) for s in scalars]
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def shown(rows: Iterable[Row]) -> list[str]:
    """Return rows as text, which tells -0.0 from 0.0 and finds NaN equal to itself."""
    return [repr(sorted(row.items())) for row in rows]
