"""Partial-update and aggregation, slowly: one key, one row after the other, plain Python values, no cleverness.

A row is `(kind, sequence number, {column: value})`, a kind is `+I`, `-U`, `+U` or `-D`. Options are read
from the schema here once more, so that a mistake in reading them shows too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any, TypeAlias

import numpy as np

from lakewright.spec.table_schema import TableSchema
from lakewright.spec.types import INTEGER_BITS, AtomicType

Thing: TypeAlias = Any  # a value of a column
Row: TypeAlias = tuple[str, int, dict[str, Thing]]
RETRACTS = frozenset({"-U", "-D"})
EXACT = Context(prec=100, rounding=ROUND_HALF_UP)


class RefusedError(Exception):
    """The rows cannot be merged."""


@dataclass(slots=True)
class Cell:
    """The accumulator of one column."""

    schema: TableSchema
    column: str
    function: str
    value: Thing = None
    came: bool = False  # whether a row was added, which only the first-value functions care about

    def option(self, what: str, default: str = "") -> str:
        return self.schema.options.get(f"fields.{self.column}.{what}", default)

    @property
    def type(self) -> AtomicType:
        dtype = self.schema.field(self.column).type
        assert isinstance(dtype, AtomicType)
        return dtype

    def add(self, new: Thing) -> None:
        self.value = self.both(self.value, new)
        self.came = True

    def late(self, new: Thing) -> None:
        match self.function:
            case "first_value":
                self.value = new if self.came else self.value
            case "first_non_null_value" if not self.came and self.value is not None:
                pass
            case "first_non_null_value":
                self.value = self.value if new is None else new
            case "collect":
                self.value = self.both(self.value, new)
            case "last_value":
                pass
            case _:
                self.value = self.both(new, self.value)
        self.came = self.came or self.function != "first_non_null_value" or new is not None

    def retract(self, new: Thing) -> None:
        if self.option("ignore-retract") == "true":
            return
        match self.function:
            case "last_value":
                self.value = None
            case "last_non_null_value":
                self.value = self.value if new is None else None
            case "sum" | "product" | "collect" | "merge_map" | "nested_update":
                if new is not None:
                    self.value = getattr(self, f"take_back_{self.function}")(new)
            case _:
                raise RefusedError(self.function)

    def both(self, here: Thing, new: Thing) -> Thing:
        if self.function == "last_value":
            return new
        if self.function == "first_value":
            return here if self.came else new
        if self.function == "first_non_null_value":
            if new is None:
                return here
            first = here is None or not self.came
            self.came = True
            return new if first else here
        if self.function == "collect" and self.option("distinct") == "true":
            if new is None:
                return here
            return distinct([*(here or []), *new])
        if here is None or new is None:
            return new if here is None else here
        combine: Callable[[Thing, Thing], Thing] = getattr(self, f"both_{self.function}")
        return combine(here, new)

    def both_last_non_null_value(self, here: Thing, new: Thing) -> Thing:
        del here
        return new

    def both_sum(self, here: Thing, new: Thing) -> Thing:
        return self.fitting(EXACT.add(here, new)) if isinstance(here, Decimal) else here + new

    def take_back_sum(self, new: Thing) -> Thing:
        minus = new.copy_negate() if isinstance(new, Decimal) else -new
        return minus if self.value is None else self.both_sum(self.value, minus)

    def both_product(self, here: Thing, new: Thing) -> Thing:
        with np.errstate(all="ignore"):
            return self.fitting(EXACT.multiply(here, new) if isinstance(here, Decimal) else here * new)

    def take_back_product(self, new: Thing) -> Thing:
        if self.value is None:
            return None
        if self.type.root in {"FLOAT", "DOUBLE"}:
            with np.errstate(all="ignore"):
                return self.value / new
        if new == 0:
            raise RefusedError("division by zero")
        if isinstance(new, Decimal):
            return self.fitting(EXACT.divide(self.value, new))
        return self.fitting(int(EXACT.divide(Decimal(self.value), Decimal(new))))

    def finished(self) -> Thing:
        """Return the value; only the end of a sum of integers must fit."""
        return self.fitting(self.value) if self.function == "sum" and self.value is not None else self.value

    def fitting(self, number: Thing) -> Thing:
        dtype = self.type
        if dtype.root in INTEGER_BITS:
            limit = 1 << (INTEGER_BITS[dtype.root] - 1)
            if not -limit <= number < limit:
                raise RefusedError("overflow")
        if dtype.root == "DECIMAL":
            number = number.quantize(Decimal(1).scaleb(-dtype.scale), context=EXACT)
            return None if number.copy_abs() >= Decimal(10) ** (dtype.precision - dtype.scale) else number
        return number

    def both_max(self, here: Thing, new: Thing) -> Thing:
        return max(here, new, key=comparable)

    def both_min(self, here: Thing, new: Thing) -> Thing:
        return min(here, new, key=comparable)

    def both_bool_and(self, here: bool, new: bool) -> bool:
        return here and new

    def both_bool_or(self, here: bool, new: bool) -> bool:
        return here or new

    def both_listagg(self, here: str, new: str) -> str:
        delimiter = self.option("list-agg-delimiter", ",")
        if here == "" or new == "":
            return here or new
        if self.option("distinct") != "true":
            return here + delimiter + new
        for part in new.split(delimiter):
            if part and part not in here.split(delimiter):
                here += delimiter + part
        return here

    def both_collect(self, here: list[Thing], new: list[Thing]) -> list[Thing]:
        return [*here, *new]

    def take_back_collect(self, new: list[Thing]) -> list[Thing] | None:
        if self.value is None:
            return None
        left = list(self.value)
        for element in new:
            if element in left:
                left.remove(element)
        return left

    def both_merge_map(
        self, here: list[tuple[Thing, Thing]], new: list[tuple[Thing, Thing]]
    ) -> list[tuple[Thing, Thing]]:
        return list({**dict(here), **dict(new)}.items())

    def take_back_merge_map(self, new: list[tuple[Thing, Thing]]) -> list[tuple[Thing, Thing]] | None:
        if self.value is None:
            return None
        return [(key, value) for key, value in self.value if key not in dict(new)]

    def both_merge_map_with_keytime(self, here: list[Thing], new: list[Thing]) -> list[Thing]:
        kept, field = dict(here), self.option("ts-field")
        for key, value in new:
            mine = kept.get(key)
            if value is None:
                kept.pop(key, None)
            elif value[field] is not None and (mine is None or mine[field] is None or mine[field] < value[field]):
                kept[key] = value
        return list(kept.items())

    def nested_key(self, row: dict[str, Thing]) -> tuple[Thing, ...]:
        names = self.option("nested-key")
        return tuple(row[name] for name in names.split(",")) if names else tuple(row.values())

    def upserted(self, rows: Sequence[dict[str, Thing] | None]) -> list[dict[str, Thing]]:
        there = [row for row in rows if row is not None]
        if not self.option("nested-key"):
            return there
        kept: dict[tuple[Thing, ...], dict[str, Thing]] = {}
        sequence = self.option("nested-sequence-field")
        for row in there:
            mine = kept.get(self.nested_key(row))
            if mine is None or not sequence or age(row[sequence]) >= age(mine[sequence]):
                kept[self.nested_key(row)] = row
        return list(kept.values())

    def both_nested_update(self, here: list[Thing], new: list[Thing]) -> list[Thing]:
        if limit := self.option("count-limit"):
            if len(here) >= int(limit):
                return here
            new = [row for row in new if row is not None][: int(limit) - len(here)]
        return self.upserted([*here, *new])

    def take_back_nested_update(self, new: list[Thing]) -> list[Thing] | None:
        if self.value is None:
            return None
        gone = [self.nested_key(row) for row in new if row is not None]
        return [row for row in self.upserted(self.value) if self.nested_key(row) not in gone]

    def both_nested_partial_update(self, here: list[Thing], new: list[Thing]) -> list[Thing]:
        kept: dict[tuple[Thing, ...], dict[str, Thing]] = {}
        for row in (*here, *new):
            if row is not None:
                mine = kept.get(self.nested_key(row), row)
                kept[self.nested_key(row)] = {n: mine[n] if row[n] is None else row[n] for n in row}
        return list(kept.values())


def distinct(elements: Sequence[Thing]) -> list[Thing]:
    out: list[Thing] = []
    for element in elements:
        if element not in out:
            out.append(element)
    return out


def age(value: Thing) -> tuple[Thing, ...]:
    return () if value is None else (comparable(value),)


def comparable(value: Thing) -> Thing:
    if isinstance(value, float):
        return (math.isnan(value), 0 if math.isnan(value) else value, math.copysign(1, value))
    return value.encode() if isinstance(value, str) else value


def fold(schema: TableSchema, rows: Sequence[Row]) -> Row:
    """Merge the rows of one key, the oldest first; one row passes as it is."""
    if len(rows) == 1:
        return rows[0]
    if schema.options["merge-engine"] == "aggregation":
        return _aggregation(schema, rows)
    return _partial_update(schema, rows)


def _function(schema: TableSchema, column: str, default: str) -> str:
    named = schema.options.get(f"fields.{column}.aggregate-function")
    named = named or schema.options.get("fields.default-aggregate-function") or default
    return "first_non_null_value" if named == "first_not_null_value" else named


def _aggregation(schema: TableSchema, rows: Sequence[Row]) -> Row:
    sequence = schema.options.get("sequence.field", "").split(",")
    removing = schema.options.get("aggregation.remove-record-on-delete") == "true"
    cells = {
        name: Cell(schema, name, "last_value" if name in sequence else _function(schema, name, "last_non_null_value"))
        for name in schema.field_names
    }
    for kind, _, values in rows:
        for name, cell in cells.items():
            if name in schema.primary_keys or (kind == "-D" and removing):
                cell.value = values[name]
            elif kind in RETRACTS and name not in sequence:
                cell.retract(values[name])
            else:
                cell.add(values[name])
    last, number, _ = rows[-1]
    return "-D" if last == "-D" and removing else "+I", number, {name: cell.finished() for name, cell in cells.items()}


def _partial_update(schema: TableSchema, rows: Sequence[Row]) -> Row:
    options = schema.options
    groups = {
        tuple(key.removeprefix("fields.").removesuffix(".sequence-group").split(",")): columns.split(",")
        for key, columns in options.items()
        if key.endswith(".sequence-group") and key.startswith("fields.")
    }
    removing = options.get("partial-update.remove-record-on-sequence-group", "").split(",")
    grouped = {name for fields, columns in groups.items() for name in (*fields, *columns)}
    cells = {name: Cell(schema, name, _function(schema, name, "")) for name in schema.field_names}
    number, added, deleted = rows[-1][1], False, False
    for at, (kind, sequence_number, values) in enumerate(rows):
        if at == 0 and kind in RETRACTS:
            _take_all(cells, values)
        if kind in RETRACTS and options.get("ignore-delete") == "true":
            continue
        number, deleted = sequence_number, False
        if kind not in RETRACTS:
            added = True
            for name in schema.field_names:
                if name not in grouped and values[name] is not None:
                    cells[name].value = values[name]
        elif options.get("partial-update.remove-record-on-delete") == "true":
            deleted = kind == "-D"
            if deleted:
                _take_all(cells, values)
            continue
        elif not groups:
            raise RefusedError(kind)
        touched = {
            fields: [age(values[name]) for name in fields] >= [age(cells[name].value) for name in fields]
            for fields in groups
            if any(values[name] is not None for name in fields)
        }
        deleted = kind == "-D" and any(newest and set(fields) & set(removing) for fields, newest in touched.items())
        if deleted:
            _take_all(cells, values)
            continue
        for fields, newest in touched.items():
            for name in fields if newest else ():
                cells[name].value = values[name]
            for name in groups[fields]:
                _step(cells[name], values[name], kind, newest=newest)
    kind = "-D" if deleted or not added else "+I"
    if all(kind in RETRACTS for kind, _, _ in rows) and options.get("ignore-delete") == "true":
        number = rows[-1][1]
    out = {name: cell.finished() for name, cell in cells.items()}
    for name in schema.primary_keys:
        out[name] = rows[-1][2][name]
    return kind, number, out


def _take_all(cells: dict[str, Cell], values: dict[str, Thing]) -> None:
    for name, cell in cells.items():
        cell.value = values[name]


def _step(cell: Cell, new: Thing, kind: str, *, newest: bool) -> None:
    """Give a row's value to a column of a sequence group."""
    if not cell.function:
        if newest:
            cell.value = None if kind in RETRACTS else new
    elif kind in RETRACTS:
        cell.retract(new)
    elif newest:
        cell.add(new)
    else:
        cell.late(new)
