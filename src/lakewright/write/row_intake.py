"""Aligned rows with checked keys and row kinds."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.errors import InvalidInputError, pluralize
from lakewright.lsm.merge_rows import MergeRules
from lakewright.spec import argument_checks
from lakewright.spec.arrow_types import to_arrow_field
from lakewright.spec.blob_descriptors import are_descriptors
from lakewright.spec.system_columns import DELETE, INSERT, KIND_NAMES, UPDATE_BEFORE, VALUE_KIND
from lakewright.spec.table_options import TableOptions
from lakewright.spec.table_schema import BucketMode, TableSchema
from lakewright.spec.types import AtomicType, DataField, blob_fields
from lakewright.write.alignment import Aligner

# ---- Row kinds -------------------------------------------------------------------------------------------------------
# A kind is said in one way only: by the argument `row_kinds`, by a column `_row_kind` of the input (also `row_kind`
# or `rowkind`, where the table has no such column), or by the column that the option `rowkind.field` names. Without
# any of them every row is an insert. Kinds are the numbers 0 to 3 or their names +I, -U, +U, -D.

Kinds: TypeAlias = npt.NDArray[np.int8]
RowKinds: TypeAlias = str | int | Iterable[object]  # one kind for all rows, or one for each

_INPUT_COLUMNS = ("_row_kind", "row_kind", "rowkind")
_REMEDY = "use 0 to 3 or +I, -U, +U, -D"


def kind_column(names: Sequence[str], of_table: Collection[str], *, table: str) -> str | None:
    """Return the column of an input that holds row kinds and is no column of the table."""
    columns = [name for name in _INPUT_COLUMNS if name in names and name not in of_table]
    if len(columns) > 1:
        raise InvalidInputError(
            f"table {table}: the input has the columns {columns[0]!r} and {columns[1]!r}, which both would say the row "
            "kinds; drop one",
            table=table,
            column=columns[1],
        )
    return columns[0] if columns else None


def to_kinds(values: pa.Array | pa.ChunkedArray, *, table: str, source: str, first_row: int = 0) -> Kinds:
    """Return a column of kinds as numbers; `source` names it in messages, `first_row` is the number of its first."""
    dtype = values.type
    if pa.types.is_dictionary(dtype):
        values, dtype = values.cast(dtype.value_type), dtype.value_type
    if len(values) == 0:  # an empty list has no type
        return np.zeros(0, np.int8)
    if pa.types.is_integer(dtype):
        known = pc.and_(pc.greater_equal(values, 0), pc.less(values, len(KIND_NAMES)))
        numbers = pc.if_else(known, values, None)
    elif pa.types.is_string(dtype) or pa.types.is_large_string(dtype) or pa.types.is_string_view(dtype):
        numbers = pc.index_in(pc.utf8_upper(values.cast(pa.string())), pa.array(KIND_NAMES))
    else:
        raise InvalidInputError(
            f"table {table}: {source} is {dtype}, which cannot hold row kinds; {_REMEDY}", table=table
        )
    if numbers.null_count:
        row = pc.index(pc.is_null(numbers), value=True).as_py()
        raise InvalidInputError(
            f"table {table}: {source} says {values[row].as_py()!r} in row {first_row + row}, which is no row kind; "
            f"{_REMEDY}",
            table=table,
            row=first_row + row,
        )
    kinds: Kinds = numbers.cast(pa.int8()).to_numpy(zero_copy_only=False)
    return kinds


class GivenKinds:
    """The argument `row_kinds` of one call; each batch of the call takes the kinds of its rows from it."""

    def __init__(self, given: RowKinds, *, table: str) -> None:
        self._table = table
        if isinstance(given, bool | bytes | Mapping):
            raise argument_checks.argument_error(
                "row_kinds", f"one kind for all rows or a list of them ({_REMEDY})", given
            )
        one_for_all = isinstance(given, str | int)
        self.kinds = to_kinds(_array([given] if one_for_all else given, table), table=table, source="row_kinds")
        self._one: int | None = int(self.kinds[0]) if one_for_all else None

    def next(self, first_row: int, count: int) -> Kinds:
        """Return the kinds of the next rows."""
        if self._one is not None:
            return np.full(count, self._one, np.int8)
        if first_row + count > len(self.kinds):
            raise self._mismatch(f"at least {pluralize(first_row + count, 'row')}")
        return self.kinds[first_row : first_row + count]

    def check_count(self, rows: int) -> None:
        """Raise InvalidInputError unless the call had as many rows as kinds."""
        if self._one is None and rows != len(self.kinds):
            raise self._mismatch(pluralize(rows, "row"))

    def _mismatch(self, rows: str) -> InvalidInputError:
        return InvalidInputError(
            f"table {self._table}: row_kinds has {pluralize(len(self.kinds), 'kind')} for {rows}; "
            "give one per row, or a "
            "single one for all",
            table=self._table,
        )


def _array(given: object, table: str) -> pa.Array | pa.ChunkedArray:
    if isinstance(given, pa.Array | pa.ChunkedArray):
        return given
    try:
        return pa.array(given if isinstance(given, np.ndarray) or hasattr(given, "__arrow_array__") else list(given))  # type: ignore[call-overload]
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(f"table {table}: row_kinds holds what is no row kind: {error}", table=table) from error


def refuse_others_than_inserts(kinds: Kinds, *, table: str) -> None:
    """Raise InvalidInputError unless every row is an insert, which is all that an append table takes."""
    others = np.flatnonzero(kinds != INSERT)
    if len(others):
        raise InvalidInputError(
            f"table {table}: an append table takes only inserts (+I), not {KIND_NAMES[kinds[others[0]]]!r}; make a "
            "table with a primary key to update and delete",
            table=table,
        )


def kept_kinds(kinds: Kinds, options: TableOptions) -> npt.NDArray[np.bool_] | None:
    """Return which rows are written: options may leave out deletes and old values of updates. None: all rows."""
    if options.ignore_delete:
        keep = (kinds & 1) == 0  # -U and -D have odd numbers
    elif options.ignore_update_before:
        keep = kinds != UPDATE_BEFORE
    else:
        return None
    return None if bool(keep.all()) else keep


# ---- Intake ----------------------------------------------------------------------------------------------------------
# The rows of an append table have its columns; those of a primary-key table begin with `_VALUE_KIND`. A key never
# holds NaN, which equals nothing, and null only where the option `primary-key.nullable` says so. Rows with kinds that
# the merge function of the table cannot merge are refused.


class Intake:
    """How one table takes batches in."""

    def __init__(
        self, schema: TableSchema, fields: Sequence[DataField], *, table: str, write_cols: Sequence[str] | None
    ) -> None:
        self._schema = schema
        self._table = table
        self._aligner = Aligner(fields, table=table, write_cols=write_cols)
        stored = {field.name for field in schema.blob_file_fields(fields)}
        self._descriptors = tuple(field.name for field in blob_fields(fields) if field.name not in stored)

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
        for name in self._descriptors:
            self._check_descriptors(aligned, name, first_row)
        return aligned

    def _check_descriptors(self, rows: pa.Table, name: str, first_row: int) -> None:
        """Raise InvalidInputError for a value in a column of stored descriptors that is not one."""
        column = rows.column(name)
        flags = pa.chunked_array([are_descriptors(chunk) for chunk in column.chunks], pa.bool_())
        row = pc.index(flags, value=False).as_py()
        if row >= 0:
            raise InvalidInputError(
                f"table {self._table}: the column {name!r} stores descriptors ('blob-descriptor-field'), and row "
                f"{first_row + row} holds other bytes; give it a lakewright.Blob of a file, or take the column out of "
                "the option of a new table",
                table=self._table,
                column=name,
                row=first_row + row,
            )

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
        self._options = schema.table_options
        self._kind_field = self._options.rowkind_field
        self._keys_only = keys_only
        names = {*schema.primary_keys, *schema.partition_keys}
        if keys_only:
            # Where a key may be in any partition, the router finds the partition, so its columns are not needed.
            needed = schema.primary_keys if schema.bucket_mode is BucketMode.KEY_DYNAMIC else names
            self._aligner = Aligner(schema.fields, table=table, write_cols=write_cols, needed=needed)
        self._keys = tuple(field for field in schema.fields if field.name in names)
        nullable = self._options.primary_key_nullable
        self._not_null = () if nullable else schema.primary_keys
        self._arrow_schema = pa.schema([to_arrow_field(VALUE_KIND), *self._aligner.schema])
        self._merging = MergeRules.of_schema(schema, table=table)

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
        keep = kept_kinds(kinds, self._options)
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
