"""Conditions of a merge that compute, such as `s.x > t.x + 10`: SQL text in, a mask of pairs of rows out.

Text that the core understands is left to it. Other text is evaluated by DuckDB, a name of a column with its side
replaced by a plain one; whatever it refuses, and what is no truth value of each row, is refused before a row is read.
"""

from __future__ import annotations

import importlib
import re
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lakewright.errors import ColumnNotExistException, InvalidInputError, UnsupportedError
from lakewright.spec.arrow import to_arrow_schema
from lakewright.update.merge.conditions import RowCondition, ScopedText, parse
from lakewright.update.values import ColumnRef, Scope, Side

_TOKENS = re.compile(
    r"""'(?:[^']|'')*'                                          # a text
    | (?<![\w."`])(?P<side>s|t|source|target)\.               # a side, and a column of it
      (?:"(?P<quoted>(?:[^"]|"")*)" | `(?P<ticked>[^`]*)` | (?P<plain>\w+))""",
    re.IGNORECASE | re.VERBOSE,
)
_PAIRS = "lakewright_pairs"


class SqlText(ScopedText):
    """The text of a condition that may compute."""

    __slots__ = ()

    def in_scope(self, scope: Scope, what: str) -> RowCondition:
        """Return the condition as the core understands it, else as SQL."""
        text = str(self)
        try:
            return parse(text, scope, what)
        except (InvalidInputError, ColumnNotExistException, UnsupportedError) as error:
            refused = error
        condition = _computed(text, what)
        sides = {Side.TARGET: to_arrow_schema(scope.target), Side.SOURCE: scope.source or pa.schema([])}
        for ref in condition.columns:
            if ref.name not in sides[ref.side].names:
                if isinstance(refused, ColumnNotExistException) and ref.name in refused.message:
                    raise refused
                raise ColumnNotExistException(
                    f"{what}: there is no column {ref.side}.{ref.name}", column=ref.name
                ) from refused
        try:
            condition.mask(0, sides[Side.TARGET].empty_table(), sides[Side.SOURCE].empty_table())
        except InvalidInputError as error:
            raise type(refused)(f"{refused.message}; {error.message}", **refused.facts) from error
        return condition


@dataclass(frozen=True, slots=True)
class ComputedCondition:
    """A condition that DuckDB evaluates."""

    sql: str
    columns: tuple[ColumnRef, ...]  # in the SQL they are column_0, column_1 ...
    what: str

    @property
    def refs(self) -> frozenset[ColumnRef]:
        """The columns that it needs."""
        return frozenset(self.columns)

    def mask(self, rows: int, target: pa.Table | None, source: pa.Table | None) -> pa.Array | pa.ChunkedArray:
        """Evaluate it on pairs of rows: true, false or null for each."""
        duckdb = _duckdb(self.what)
        sides = {Side.TARGET: target, Side.SOURCE: source}
        columns = {f"column_{at}": _column(sides[ref.side], ref) for at, ref in enumerate(self.columns)}
        with duckdb.connect(config={"enable_external_access": "false"}) as connection:
            connection.execute("SET integer_division = true")  # as in DataFusion, which pypaimon uses
            connection.register(_PAIRS, pa.table({"pair": pa.nulls(rows, pa.int8()), **columns}))
            try:
                made = connection.sql(f"SELECT (\n{self.sql}\n) FROM {_PAIRS}").to_arrow_table()  # noqa: S608
            except duckdb.Error as error:
                raise InvalidInputError(f"{self.what}: {error}") from error
        if made.num_columns != 1 or made.num_rows != rows or not pa.types.is_boolean(made.schema.types[0]):
            raise InvalidInputError(f"{self.what}: a condition is true or false for each row")
        return made.column(0)


def _computed(text: str, what: str) -> ComputedCondition:
    """Return a condition with plain names in its SQL."""
    columns: dict[ColumnRef, str] = {}

    def plain(token: re.Match[str]) -> str:
        if token["side"] is None:
            return token[0]
        quoted = token["quoted"]
        name = token["ticked"] or token["plain"] if quoted is None else quoted.replace('""', '"')
        return columns.setdefault(ColumnRef(Side(token["side"][0].lower()), name), f"column_{len(columns)}")

    return ComputedCondition(_TOKENS.sub(plain, text), tuple(columns), what)


def _column(table: pa.Table | None, ref: ColumnRef) -> pa.ChunkedArray:
    if table is None:
        raise InvalidInputError(f"the column {ref.side}.{ref.name} was not read", column=ref.name)
    return table.column(ref.name)


def _duckdb(what: str) -> Any:  # noqa: ANN401 - a module
    try:
        return importlib.import_module("duckdb")
    except ImportError as error:
        raise UnsupportedError(
            f"{what} computes, which needs duckdb: pip install 'lakewright[duckdb]'", package="duckdb"
        ) from error
