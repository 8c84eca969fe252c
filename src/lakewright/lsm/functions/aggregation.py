"""The merge engine aggregation: every column of a key's rows goes through its function.

Key columns keep their value, sequence fields that of the last row, and a column without a function the last value that
is not null. A retract is taken back from each column; with `aggregation.remove-record-on-delete` a -D instead makes
the record what its own row says, deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.errors import InvalidInputError
from lakewright.lsm.functions.aggregates import aggregated, check_retractable, loses_retracts, lost
from lakewright.lsm.functions.column_functions import (
    LAST,
    LAST_NON_NULL,
    ColumnFunction,
    check_takes_no_function,
    column_function,
    named_function,
    option_of,
)
from lakewright.lsm.functions.groups import Groups, clear_deleted, merge_several, split_at_deletes, take_rows
from lakewright.lsm.functions.steps import ADD, RESET, RETRACT, Steps, one_array, without_other_rows
from lakewright.spec.keyed_rows import DELETE, INSERT, RETRACTS, UPDATE_BEFORE, VALUE_KIND
from lakewright.spec.options import CoreOptions
from lakewright.spec.schema.table_schema import TableSchema


@dataclass(frozen=True, slots=True)
class Aggregation:
    """How a table of the merge engine aggregation makes one row of several."""

    functions: Mapping[str, ColumnFunction]  # of all columns but those of the key
    remove_on_delete: bool
    sequence: tuple[str, ...]

    @classmethod
    def of_schema(cls, schema: TableSchema) -> Aggregation:
        """Read the functions of all columns, and refuse what does not exist or does not fit."""
        options = schema.core_options
        sequence = options.get(CoreOptions.SEQUENCE_FIELD)
        default = options.get(CoreOptions.FIELDS_DEFAULT_AGGREGATE_FUNCTION) or LAST_NON_NULL
        functions = {}
        for name in schema.field_names:
            if name not in schema.primary_keys:
                asked = LAST if name in sequence else named_function(schema, name) or default
                functions[name] = column_function(schema, name, asked)
        remove = options.get(CoreOptions.AGGREGATION_REMOVE_RECORD_ON_DELETE)
        ignoring = [name for name, function in functions.items() if function.ignore_retract]
        if remove and ignoring:
            raise InvalidInputError(
                "'aggregation.remove-record-on-delete' cannot be combined with"
                f" {option_of(ignoring[0], 'ignore-retract')!r}: remove one of them",
                column=ignoring[0],
                option="aggregation.remove-record-on-delete",
            )
        return cls(functions, remove, tuple(sequence))

    def needed(self, columns: AbstractSet[str]) -> AbstractSet[str]:
        """Return the same columns: each is made from itself alone."""
        return columns

    def check_kinds(self, kinds: AbstractSet[int]) -> None:
        """Refuse rows that take something back where a function cannot; a -D that removes the record does not."""
        retracts = RETRACTS - {DELETE} if self.remove_on_delete else RETRACTS
        if not kinds.isdisjoint(retracts):
            for function in self.functions.values():
                check_retractable(function)

    @property
    def keeps_apart(self) -> bool:
        """Whether a retract may say more than one merged row can express as long as older rows are missing."""
        return self.remove_on_delete or any(map(loses_retracts, self.functions.values()))

    def merge_apart(self, groups: Groups) -> list[pa.Table]:
        """Return the rows that remove a record, or take from older rows what these alone have, and the merged rows."""
        groups = without_other_rows(groups)
        kinds = groups.rows.column(VALUE_KIND.name).to_numpy()[groups.order]
        if self.remove_on_delete and bool((kinds == DELETE).any()):
            *older, latest = split_at_deletes(replace(groups, rows=self._clear_deleted(groups.rows)), kinds == DELETE)
            return [*(merge_several(layer, self.merge) for layer in older), *self._merge_latest(latest)]
        return self._merge_latest(groups)

    def _clear_deleted(self, rows: pa.Table) -> pa.Table:
        """Let rows that remove a record hold no values, or values from which later rows begin as if there were none."""
        rows = clear_deleted(rows, {*self.functions} - {*self.sequence})
        deletes = rows.column(VALUE_KIND.name).to_numpy() == DELETE
        for at, field in enumerate(rows.schema):
            if not field.nullable and field.name in self.functions and field.name not in self.sequence:
                values = one_array(rows.column(field.name))
                kept = values.take(pa.array(np.arange(len(rows)), mask=deletes))
                rows = rows.set_column(at, field, _without_nulls(kept, values, self.functions[field.name]))
        return rows

    def _merge_latest(self, groups: Groups) -> list[pa.Table]:
        merged = merge_several(groups, self.merge)
        before = self._lost_rows(groups)
        return [merged] if before is None else [before, merged]

    def _lost_rows(self, groups: Groups) -> pa.Table | None:
        """Return a row of kind -U for each key of several rows that take back what only older rows have."""
        several = groups.only(np.repeat(groups.ends - groups.starts > 1, groups.ends - groups.starts))
        rows = several.rows
        steps = self._steps(several)
        values = {name: lost(one_array(rows.column(name)), steps, f) for name, f in self.functions.items()}
        found = [array.is_valid().to_numpy(zero_copy_only=False) for array in values.values() if array is not None]
        if not found:
            return None
        keys = np.flatnonzero(np.logical_or.reduce(found))
        first = take_rows(rows, several.order[several.starts[keys]])
        columns = []
        for field in rows.schema:
            if field.name == VALUE_KIND.name:
                columns.append(pa.array(np.full(len(keys), UPDATE_BEFORE, np.int8)))
            elif field.name not in self.functions or field.name in self.sequence:
                columns.append(one_array(first.column(field.name)))
            else:
                array = values[field.name]
                gone = pa.nulls(len(keys), field.type) if array is None else array.take(pa.array(keys))
                columns.append(
                    gone
                    if field.nullable
                    else _without_nulls(gone, one_array(first.column(field.name)), self.functions[field.name])
                )
        return pa.Table.from_arrays(columns, schema=rows.schema)

    def _steps(self, groups: Groups) -> Steps:
        kinds = groups.rows.column(VALUE_KIND.name).to_numpy()[groups.order]
        ops = np.full(len(kinds), ADD, np.int8)
        ops[(kinds == UPDATE_BEFORE) | (kinds == DELETE)] = RETRACT
        if self.remove_on_delete:
            ops[kinds == DELETE] = RESET
        return Steps(groups.order, ops, np.repeat(np.arange(len(groups)), groups.ends - groups.starts), len(groups))

    def merge(self, groups: Groups) -> pa.Table:
        """Return one row per group."""
        groups = without_other_rows(groups)
        rows = groups.rows
        kinds = rows.column(VALUE_KIND.name).to_numpy()[groups.order]
        deleted = np.zeros(len(groups), np.bool_)
        if self.remove_on_delete:
            deleted = kinds[groups.ends - 1] == DELETE
        steps = self._steps(groups)
        last = pa.array(groups.order[groups.ends - 1])
        columns = []
        for name in rows.column_names:
            if name == VALUE_KIND.name:
                columns.append(pa.array(np.where(deleted, DELETE, INSERT).astype(np.int8)))
            elif name in self.sequence:
                # A retract has an age too. Without it the merged row would be the oldest of all.
                ages = replace(steps, ops=np.where(steps.ops == RETRACT, ADD, steps.ops))
                columns.append(aggregated(one_array(rows.column(name)), ages, self.functions[name]))
            elif name in self.functions:
                columns.append(aggregated(one_array(rows.column(name)), steps, self.functions[name]))
            else:
                columns.append(one_array(rows.column(name)).take(last))
        return pa.Table.from_arrays(columns, schema=rows.schema)


_NEUTRAL: Mapping[str, object] = {
    "sum": 0,
    "product": 1,
    "listagg": "",
    "collect": [],
    "merge_map": [],
    "nested_update": [],
}


def _without_nulls(values: pa.Array, others: pa.Array, function: ColumnFunction) -> pa.Array:
    """Replace nulls by a value that takes nothing away, or by another value of a function that does not look at it."""
    if function.name not in _NEUTRAL or function.ignore_retract:
        return pc.coalesce(values, others)
    neutral = pa.array([_NEUTRAL[function.name]], values.type)
    places = np.where(values.is_valid().to_numpy(zero_copy_only=False), np.arange(len(values)), len(values))
    return pa.concat_arrays([values, neutral]).take(pa.array(places))


def check_aggregation(schema: TableSchema) -> None:
    """Refuse options of a new table that would have no effect, besides those that cannot work."""
    made = Aggregation.of_schema(schema)
    sequence = schema.core_options.get(CoreOptions.SEQUENCE_FIELD)
    check_takes_no_function(schema, sequence, "'sequence.field'")
    first = [name for name, function in made.functions.items() if function.name == "first_value"]
    if made.remove_on_delete and first:
        raise InvalidInputError(
            f"the column {first[0]!r} keeps the first value of a record even when the record is removed and comes back,"
            " until a compaction has forgotten the deleted record: use 'first_non_null_value', or remove"
            " 'aggregation.remove-record-on-delete'",
            column=first[0],
            option="aggregation.remove-record-on-delete",
        )
