"""Row kinds of an argument, a column of the input or a column of the table in, numbers 0 to 3 out.

A kind is said in one way only: by the argument `row_kinds`, by a column `_row_kind` of the input (also `row_kind` or
`rowkind`, where the table has no such column), or by the column that the option `rowkind.field` names. Without any of
them every row is an insert. Kinds are the numbers 0 to 3 or their names +I, -U, +U, -D.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.errors import InvalidInputError, counted
from lakewright.spec import arguments
from lakewright.spec.keyed_rows import INSERT, KIND_NAMES, UPDATE_BEFORE
from lakewright.spec.options import CoreOptions

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
            raise arguments.wrong("row_kinds", f"one kind for all rows or a list of them ({_REMEDY})", given)
        one_for_all = isinstance(given, str | int)
        self.kinds = to_kinds(_array([given] if one_for_all else given, table), table=table, source="row_kinds")
        self._one: int | None = int(self.kinds[0]) if one_for_all else None

    def next(self, first_row: int, count: int) -> Kinds:
        """Return the kinds of the next rows."""
        if self._one is not None:
            return np.full(count, self._one, np.int8)
        if first_row + count > len(self.kinds):
            raise self._mismatch(f"at least {counted(first_row + count, 'row')}")
        return self.kinds[first_row : first_row + count]

    def check_count(self, rows: int) -> None:
        """Raise InvalidInputError unless the call had as many rows as kinds."""
        if self._one is None and rows != len(self.kinds):
            raise self._mismatch(counted(rows, "row"))

    def _mismatch(self, rows: str) -> InvalidInputError:
        return InvalidInputError(
            f"table {self._table}: row_kinds has {counted(len(self.kinds), 'kind')} for {rows}; give one per row, or a "
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


def kept(kinds: Kinds, options: CoreOptions) -> npt.NDArray[np.bool_] | None:
    """Return which rows are written: options may leave out deletes and old values of updates. None: all rows."""
    if options.get(CoreOptions.IGNORE_DELETE):
        keep = (kinds & 1) == 0  # -U and -D have odd numbers
    elif options.get(CoreOptions.IGNORE_UPDATE_BEFORE):
        keep = kinds != UPDATE_BEFORE
    else:
        return None
    return None if bool(keep.all()) else keep
