"""Batches of any shape in, rows for a router out: aligned, with their row kinds, their keys checked.

The rows of an append table have its columns; those of a primary-key table begin with `_VALUE_KIND`. A key never holds
NaN, which equals nothing, and null only where the option `primary-key.nullable` says so. Rows with kinds that the merge
function of the table cannot merge are refused.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.errors import InvalidInputError
from lakewright.lsm.merge import MergeSpec
from lakewright.spec.arrow import to_arrow_field
from lakewright.spec.keyed_rows import DELETE, KIND_NAMES, VALUE_KIND
from lakewright.spec.options import CoreOptions
from lakewright.spec.schema.table_schema import BucketMode, TableSchema
from lakewright.spec.types import AtomicType, DataField
from lakewright.write.input.align import Aligner
from lakewright.write.input.kinds import GivenKinds, Kinds, kept, kind_column, refuse_others_than_inserts, to_kinds


class Intake:
    """How one table takes batches in."""

    def __init__(
        self, schema: TableSchema, fields: Sequence[DataField], *, table: str, write_cols: Sequence[str] | None
    ) -> None:
        self._schema = schema
        self._table = table
        self._aligner = Aligner(fields, table=table, write_cols=write_cols)

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows that come out."""
        return self._aligner.schema

    def take(self, batch: pa.Table | pa.RecordBatch, given: GivenKinds | None, *, first_row: int) -> pa.Table:
        """Return the rows of a batch; `first_row` is the number of its first row in the call."""
        if given is not None:
            refuse_others_than_inserts(given.kinds, table=self._table)
        aligned = self._aligner.align(batch, first_row=first_row)
        self._refuse_nan(aligned, self._schema.partition_fields, first_row)
        return aligned

    def _refuse_nan(self, rows: pa.Table, fields: Sequence[DataField], first_row: int) -> None:
        for field in fields:
            if not isinstance(field.type, AtomicType) or field.type.root not in {"FLOAT", "DOUBLE"}:
                continue
            row = pc.index(pc.is_nan(rows.column(field.name)), value=True).as_py()
            if row >= 0:
                raise InvalidInputError(
                    f"table {self._table}: the key column {field.name!r} holds NaN in row {first_row + row}; NaN "
                    "equals nothing and cannot be a key, replace it by a number",
                    table=self._table,
                    column=field.name,
                    row=first_row + row,
                )


class KeyedIntake(Intake):
    """How a primary-key table takes rows in, or, with `keys_only`, the keys of rows to delete."""

    def __init__(
        self, schema: TableSchema, *, table: str, write_cols: Sequence[str] | None, keys_only: bool = False
    ) -> None:
        super().__init__(schema, schema.fields, table=table, write_cols=write_cols)
        self._options = schema.core_options
        self._kind_field = self._options.get(CoreOptions.ROWKIND_FIELD)
        self._keys_only = keys_only
        names = {*schema.primary_keys, *schema.partition_keys}
        if keys_only:
            # Where a key may be in any partition, the router finds the partition, so its columns are not needed.
            needed = schema.primary_keys if schema.bucket_mode is BucketMode.KEY_DYNAMIC else names
            self._aligner = Aligner(schema.fields, table=table, write_cols=write_cols, needed=needed)
        self._keys = tuple(field for field in schema.fields if field.name in names)
        nullable = self._options.get(CoreOptions.PRIMARY_KEY_NULLABLE)
        self._not_null = () if nullable else schema.primary_keys
        self._arrow_schema = pa.schema([to_arrow_field(VALUE_KIND), *self._aligner.schema])
        self._merging = MergeSpec.of_schema(schema, table=table)

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows that come out: their kinds, then those of the table."""
        return self._arrow_schema

    def take(self, batch: pa.Table | pa.RecordBatch, given: GivenKinds | None, *, first_row: int) -> pa.Table:
        """Return the rows of a batch with their kinds as first column; rows that the options ignore are left out."""
        table = pa.Table.from_batches([batch]) if isinstance(batch, pa.RecordBatch) else batch
        column = kind_column(table.column_names, self._schema.field_names, table=self._table)
        self._check_one_source(given, column)
        column_kinds = None
        if column is not None:
            column_kinds = to_kinds(
                table.column(column), table=self._table, source=f"the column {column!r}", first_row=first_row
            )
            table = table.drop_columns([column])
        rows = self._aligner.align(table, first_row=first_row)
        if self._keys_only:
            kinds = np.full(rows.num_rows, DELETE, np.int8)
            rows = self._with_kind_text(rows, table.column_names)
        elif given is not None:
            kinds = given.next(first_row, rows.num_rows)
        else:
            kinds = self._kinds_of(rows, first_row) if column_kinds is None else column_kinds
        self._refuse_null(rows, first_row)
        self._refuse_nan(rows, self._keys, first_row)
        keyed = pa.Table.from_arrays([pa.array(kinds), *rows.columns], schema=self._arrow_schema)
        keep = kept(kinds, self._options)
        entering = kinds if keep is None else kinds[keep]
        if entering.any():  # inserts are 0, so there are other kinds
            self._merging.check_kinds({kind for kind in range(1, len(KIND_NAMES)) if (entering == kind).any()})
        return keyed if keep is None else keyed.filter(pa.array(keep))

    def _check_one_source(self, given: GivenKinds | None, column: str | None) -> None:
        sources = [] if given is None else ["the argument row_kinds"]
        sources += [] if column is None else [f"the column {column!r} of the input"]
        if self._keys_only:
            sources.append("a delete")
        elif self._kind_field is not None:
            sources.append(f"the column {self._kind_field!r} that 'rowkind.field' names")
        if len(sources) > 1:
            raise InvalidInputError(
                f"table {self._table}: the row kinds are said twice, by {sources[0]} and by {sources[1]}; say them "
                "once",
                table=self._table,
            )

    def _kinds_of(self, rows: pa.Table, first_row: int) -> Kinds:
        if self._kind_field is None:
            return np.zeros(rows.num_rows, np.int8)
        source = f"the column {self._kind_field!r}"
        return to_kinds(rows.column(self._kind_field), table=self._table, source=source, first_row=first_row)

    def _with_kind_text(self, rows: pa.Table, given: Sequence[str]) -> pa.Table:
        """Return the rows with -D in the column that `rowkind.field` names, unless the caller gave that column."""
        if self._kind_field is None or self._kind_field in given:
            return rows
        at = rows.column_names.index(self._kind_field)
        text = pa.repeat(pa.scalar(KIND_NAMES[DELETE], rows.schema.field(at).type), rows.num_rows)
        return rows.set_column(at, rows.schema.field(at), text)

    def _refuse_null(self, rows: pa.Table, first_row: int) -> None:
        for name in self._not_null:
            column = rows.column(name)
            if column.null_count:
                row = first_row + pc.index(pc.is_null(column), value=True).as_py()
                raise InvalidInputError(
                    f"table {self._table}: the key column {name!r} is null in row {row}; a row without a key cannot be "
                    "found again, give it one or leave it out",
                    table=self._table,
                    column=name,
                    row=row,
                )
