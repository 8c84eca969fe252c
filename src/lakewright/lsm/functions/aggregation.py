"""The merge engine aggregation: every column of a key's rows goes through its function.

Key columns keep their value, sequence fields that of the last row, and a column without a function the last value that
is not null. A retract is taken back from each column; with `aggregation.remove-record-on-delete` a -D instead makes
the record what its own row says, deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakewright.errors import InvalidInputError
from lakewright.lsm.functions.aggregates import aggregated, check_retractable
from lakewright.lsm.functions.column_functions import (
    LAST,
    LAST_NON_NULL,
    ColumnFunction,
    check_takes_no_function,
    column_function,
    named_function,
    option_of,
)
from lakewright.lsm.functions.groups import Groups
from lakewright.lsm.functions.steps import ADD, RESET, RETRACT, Steps, one_array, without_other_rows
from lakewright.spec.keyed_rows import DELETE, INSERT, RETRACTS, UPDATE_BEFORE, VALUE_KIND
from lakewright.spec.options import CoreOptions
from lakewright.spec.schema.table_schema import TableSchema


@dataclass(frozen=True, slots=True)
class Aggregation:
    """How a table of the merge engine aggregation makes one row of several."""

    functions: Mapping[str, ColumnFunction]  # of all columns but those of the key
    remove_on_delete: bool

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
        return cls(functions, remove)

    def needed(self, columns: AbstractSet[str]) -> AbstractSet[str]:
        """Return the same columns: each is made from itself alone."""
        return columns

    def check_kinds(self, kinds: AbstractSet[int]) -> None:
        """Refuse rows that take something back where a function cannot; a -D that removes the record does not."""
        retracts = RETRACTS - {DELETE} if self.remove_on_delete else RETRACTS
        if not kinds.isdisjoint(retracts):
            for function in self.functions.values():
                check_retractable(function)

    def merge(self, groups: Groups) -> pa.Table:
        """Return one row per group."""
        groups = without_other_rows(groups)
        rows = groups.rows
        kinds = rows.column(VALUE_KIND.name).to_numpy()[groups.order]
        ops = np.full(len(kinds), ADD, np.int8)
        ops[(kinds == UPDATE_BEFORE) | (kinds == DELETE)] = RETRACT
        deleted = np.zeros(len(groups), np.bool_)
        if self.remove_on_delete:
            ops[kinds == DELETE] = RESET
            deleted = kinds[groups.ends - 1] == DELETE
        owners = np.repeat(np.arange(len(groups)), groups.ends - groups.starts)
        steps = Steps(groups.order, ops, owners, len(groups))
        last = pa.array(groups.order[groups.ends - 1])
        columns = []
        for name in rows.column_names:
            if name == VALUE_KIND.name:
                columns.append(pa.array(np.where(deleted, DELETE, INSERT).astype(np.int8)))
            elif name in self.functions:
                columns.append(aggregated(one_array(rows.column(name)), steps, self.functions[name]))
            else:
                columns.append(one_array(rows.column(name)).take(last))
        return pa.Table.from_arrays(columns, schema=rows.schema)


def check_aggregation(schema: TableSchema) -> None:
    """Refuse options of a new table that would have no effect, besides those that cannot work."""
    Aggregation.of_schema(schema)
    sequence = schema.core_options.get(CoreOptions.SEQUENCE_FIELD)
    check_takes_no_function(schema, sequence, "'sequence.field'")
