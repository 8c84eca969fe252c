"""Batches to exactly the columns of the schema.

Columns are matched by name, never by position. What comes out has the canonical Arrow types in schema order, keeps
every value exactly, obeys NOT NULL and length limits at every depth, and carries column defaults where the input had
no value. Anything else is an `InvalidInputError` that names the column, its type and the first offending row. A batch
that already has the right shape passes through without a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc

from lakewright.errors import InvalidInputError, UnsupportedError
from lakewright.spec.arrow_types import from_arrow_type, to_arrow_schema, to_arrow_type
from lakewright.spec.scalars import NestedValue, cast_default, to_array
from lakewright.spec.schema_merging import is_wider
from lakewright.spec.types import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    Value,
    VectorType,
    with_nullable,
)
from lakewright.write.array_conversion import (
    Refusal,
    TypeMismatch,
    UnknownField,
    ValueMismatch,
    check,
    convert,
    is_constrained,
    is_trusted,
    validate,
)
from lakewright.write.input_data import memory_bytes

_PIECE_BYTES = 1 << 30
_SHOWN_CHARACTERS = 80  # how much of an offending value an error message repeats


def align(
    data: pa.Table | pa.RecordBatch,
    fields: Sequence[DataField],
    *,
    table: str,
    write_cols: Sequence[str] | None = None,
    first_row: int = 0,
) -> pa.Table:
    """Return the data with exactly the columns `fields`, or raise an error that names the column and the row.

    `write_cols` limits which columns the input may bring; `first_row` is the number of its first row in messages.
    """
    names = None if write_cols is None else tuple(write_cols)
    return _aligner(tuple(fields), table, names).align(data, first_row=first_row)


@lru_cache(maxsize=64)
def _aligner(fields: tuple[DataField, ...], table: str, write_cols: tuple[str, ...] | None) -> Aligner:
    return Aligner(fields, table=table, write_cols=write_cols)


class Aligner:
    """The alignment of many batches to one list of columns; the plan for an input schema is made once."""

    def __init__(
        self,
        fields: Sequence[DataField],
        *,
        table: str,
        write_cols: Sequence[str] | None = None,
        needed: Collection[str] | None = None,
    ) -> None:
        """Align to `fields`; with `needed`, the input may lack all other columns, which then are null or zero."""
        self.schema = to_arrow_schema(fields)
        self._needed = needed
        self._fields = tuple(fields)
        self._table = table
        self._allowed = {f.name for f in fields} if write_cols is None else set(write_cols)
        self._seen: pa.Schema | None = None
        self._plan: list[_Step] = []

    def align(self, data: pa.Table | pa.RecordBatch, *, first_row: int = 0) -> pa.Table:
        """Return one batch with the columns of the table."""
        if self._seen is None or not self._seen.equals(data.schema):
            self._plan = self._steps(data.schema)
            self._seen = data.schema
        columns = data.columns
        out = [self._column(step, columns, data.num_rows, first_row) for step in self._plan]
        return pa.Table.from_arrays(out, schema=self.schema)

    def _steps(self, schema: pa.Schema) -> list[_Step]:
        names = list(schema.names)
        self._check_names(names)
        return [self._step(field, schema, names) for field in self._fields]

    def _step(self, field: DataField, schema: pa.Schema, names: list[str]) -> _Step:
        default = _default(field, self._table)
        if field.name not in names:
            if self._needed is not None and field.name not in self._needed:
                return _Step(field, None, _nothing(field.type), ())
            if default is None and not field.type.nullable:
                raise InvalidInputError(
                    f"table {self._table}: the input lacks the column {field.name!r} ({field.type}), which has no "
                    "default; add it to the input",
                    table=self._table,
                    column=field.name,
                )
            return _Step(field, None, default, ())
        index = names.index(field.name)
        source = schema.field(index).type
        functions: list[Callable[[pa.Array], pa.Array]] = []
        if not is_trusted(source):
            functions.append(_validate_array)
        if source != to_arrow_type(field.type) or not isinstance(field.type, AtomicType):
            functions.append(lambda array: convert(array, field.type))
        if is_constrained(field.type):
            functions.append(lambda array: _check_array(array, field))
        return _Step(field, index, default, tuple(functions))

    def _column(
        self, step: _Step, columns: list[pa.ChunkedArray | pa.Array], rows: int, first_row: int
    ) -> pa.Array | pa.ChunkedArray:
        target = to_arrow_type(step.field.type)
        if step.source is None:
            return pa.nulls(rows, target) if step.default is None else pa.repeat(step.default, rows)
        column = columns[step.source]
        if step.functions:
            chunks = []
            for chunk in _pieces(column):
                chunks.append(self._run(step, chunk, first_row))
                first_row += len(chunk)
            column = chunks[0] if len(chunks) == 1 else pa.chunked_array(chunks, target)
        if step.default is not None and column.null_count:
            column = pc.fill_null(column, step.default)
        return column

    def _run(self, step: _Step, chunk: pa.Array, first_row: int) -> pa.Array | pa.ChunkedArray:
        """Run a step on a chunk of its column; an error names the column and the first row that does not fit."""
        try:
            return step.run(chunk)
        except UnknownField as error:
            raise unknown_field(self._table, step.field, error) from None
        except TypeMismatch as error:
            raise InvalidInputError(
                f"table {self._table}: the column {step.field.name!r} is {step.field.type}; {error}. "
                "Cast the input column before writing.",
                table=self._table,
                column=step.field.name,
                type=str(step.field.type),
            ) from None
        except ValueMismatch as error:
            row, reason = _first_misfit(step, chunk, str(error))
            raise InvalidInputError(
                f"table {self._table}: the column {step.field.name!r} ({step.field.type}) cannot take the value "
                f"{_format_cell(chunk, row)} of row {first_row + row}: {reason}{_widening(self._table, error)}",
                table=self._table,
                column=step.field.name,
                type=str(step.field.type),
                row=first_row + row,
            ) from None

    def _check_names(self, names: list[str]) -> None:
        for one, other in pairwise(sorted(names)):
            if one == other:
                raise InvalidInputError(
                    f"table {self._table}: the input has two columns named {one!r}; rename or drop one",
                    table=self._table,
                    column=one,
                )
        for name in names:
            if name not in self._allowed:
                raise InvalidInputError(
                    f"table {self._table}: there is no column {name!r} to write{self._similar(name)}; drop it from the "
                    "input or add it to the table first",
                    table=self._table,
                    column=name,
                )

    def _similar(self, name: str) -> str:
        near = [known for known in sorted(self._allowed) if known.casefold() == name.casefold()]
        return f" (did you mean {near[0]!r}? names are case sensitive)" if near else ""


@dataclass(frozen=True, slots=True)
class _Step:
    """How one output column is made: from which input column, with what default, through which functions."""

    field: DataField
    source: int | None
    default: pa.Scalar | None
    functions: tuple[Callable[[pa.Array], pa.Array], ...]

    def run(self, array: pa.Array) -> pa.Array:
        try:
            for function in self.functions:
                array = function(array)
        except Refusal as error:
            if error.path:
                error.path = (self.field.name, *error.path)
            raise
        except pa.ArrowNotImplementedError as error:
            raise TypeMismatch(str(error)) from None
        except pa.ArrowException as error:
            raise ValueMismatch(str(error)) from None
        return array


def unknown_field(table: str, column: DataField, error: UnknownField) -> InvalidInputError:
    """Return the error for a field inside a column that the table lacks; the path of `error` begins with the column."""
    path = ".".join(error.path)
    near = ""
    if error.similar is not None:
        meant = ".".join((*error.path[:-1], error.similar))
        near = f" (did you mean {meant!r}? names are case sensitive)"
    return InvalidInputError(
        f"table {table}: the input has the field {path!r}, which the column {column.name!r} ({column.type}) lacks{near}"
        f"; {add_field_remedy(table, path, _type_of(error.arrow))}, or take it out of the input",
        table=table,
        column=column.name,
        field=path,
        type=str(column.type),
    )


def add_field_remedy(table: str, path: str, dtype: DataType | None) -> str:
    """Return how a field is added to a column: by the call, or by a statement."""
    names = _sql_path(path.split("."))
    shown = "<type>" if dtype is None else _sql_type(dtype)
    return f"add it with schema_mode='merge' (--schema-mode merge) or ALTER TABLE {table} ADD COLUMN {names} {shown}"


def _widening(table: str, error: ValueMismatch) -> str:
    """Return the statement that lets a field inside a column hold a value which does not fit; empty: there is none."""
    wide = _type_of(error.arrow)
    if wide is None or error.dtype is None or not is_wider(wide, error.dtype):
        return ""
    path = _sql_path(error.path)
    return f"; ALTER TABLE {table} ALTER COLUMN {path} TYPE {_sql_type(wide)} lets it hold such values"


def _type_of(arrow: pa.DataType | None) -> DataType | None:
    try:
        return None if arrow is None else from_arrow_type(arrow)
    except (InvalidInputError, UnsupportedError):
        return None


def _sql_path(names: Sequence[str]) -> str:
    return ".".join(name if name.isidentifier() else f"`{name}`" for name in names)


def _sql_type(dtype: DataType) -> str:
    """Return how a SQL statement spells a type."""
    match dtype:
        case RowType():
            return f"STRUCT<{', '.join(f'{field.name}: {_sql_type(field.type)}' for field in dtype.fields)}>"
        case ArrayType():
            return f"ARRAY<{_sql_type(dtype.element)}>"
        case MapType():
            return f"MAP<{_sql_type(dtype.key)}, {_sql_type(dtype.value)}>"
        case AtomicType(root="TIMESTAMP"):
            return "TIMESTAMP_NTZ"
        case AtomicType(root="TIMESTAMP_LTZ"):
            return "TIMESTAMP"
        case _:
            return str(with_nullable(dtype, nullable=True))


def _pieces(column: pa.Array | pa.ChunkedArray) -> list[pa.Array]:
    """Return the chunks of a column, cut so small that 32-bit offsets suffice for each."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    if memory_bytes(column) <= _PIECE_BYTES:
        return chunks
    pieces: list[pa.Array] = []
    for chunk in chunks:
        rows = max(1, len(chunk) * _PIECE_BYTES // max(1, memory_bytes(chunk)))
        pieces.extend(chunk.slice(start, rows) for start in range(0, len(chunk), rows))
    return pieces


def _validate_array(array: pa.Array) -> pa.Array:
    validate(array)
    return array


def _check_array(array: pa.Array, field: DataField) -> pa.Array:
    check(array, field.type)
    return array


def _default(field: DataField, table: str) -> pa.Scalar | None:
    if field.default_value is None:
        return None
    try:
        return to_array([cast_default(field.default_value, field.type)], field.type)[0]
    except InvalidInputError as error:
        raise InvalidInputError(
            f"table {table}: the default {field.default_value!r} of the column {field.name!r} is no {field.type}: "
            f"{error}",
            table=table,
            column=field.name,
        ) from error


def _nothing(dtype: DataType) -> pa.Scalar | None:
    """Return the value of a column that a delete by key does not need: null, or a zero where null is forbidden.

    The default of the column would be wrong: an aggregation subtracts the values of a deleted row.
    """
    return None if dtype.nullable else to_array([_zero(dtype)], dtype)[0]


_ZEROS: dict[str, Value] = {
    "BOOLEAN": False,
    "DECIMAL": Decimal(0),
    "FLOAT": 0.0,
    "DOUBLE": 0.0,
    "CHAR": "",
    "VARCHAR": "",
    "VARBINARY": b"",
}


def _zero(dtype: DataType) -> NestedValue:
    match dtype:
        case ArrayType():
            return []
        case VectorType():
            return [_zero(dtype.element)] * dtype.length
        case MapType() | MultisetType():
            return {}
        case RowType(fields=fields):
            return tuple(None if field.type.nullable else _zero(field.type) for field in fields)
        case AtomicType(root="BINARY"):
            return bytes(dtype.length)
        case AtomicType():
            return _ZEROS.get(dtype.root, 0)


def _first_misfit(step: _Step, chunk: pa.Array, reason: str) -> tuple[int, str]:
    """Find the first row that does not fit by halving: the shortest failing prefix ends with it."""
    good, bad = 0, len(chunk)
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            step.run(chunk.slice(good, middle - good))
            good = middle
        except ValueMismatch as error:
            bad, reason = middle, str(error)
    return good, reason


def _format_cell(chunk: pa.Array, row: int) -> str:
    try:
        text = repr(chunk[row].as_py())
    except (ValueError, OverflowError, pa.ArrowException):
        return "(which Python cannot show)"
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "..."
