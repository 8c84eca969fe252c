"""An expression on its way to DuckDB: its SQL, its type in Spark, and the name that Spark gives its column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeAlias

import pyarrow as pa
from sqlglot import exp

from lakewright.errors import InvalidInputError, UnsupportedError
from lakewright.statements.embedded.dialect.types import duckdb_type


@dataclass(frozen=True, slots=True)
class Value:
    """One expression."""

    sql: str
    type: pa.DataType
    name: str
    literal: object = None  # the value, of a literal

    def typed(self, kind: pa.DataType) -> Value:
        """Return it after a cast that DuckDB does as Spark does."""
        return self if kind == self.type else replace(self, sql=f"CAST({self.sql} AS {duckdb_type(kind)})", type=kind)

    def called(self, name: str) -> Value:
        """Return it under another name."""
        return replace(self, name=name)


Constant: TypeAlias = str | int | bool | tuple[str, ...] | None
Key: TypeAlias = tuple[str, tuple[pa.DataType, ...], pa.DataType, tuple[Constant, ...]]


@dataclass(frozen=True, slots=True)
class PythonFunction:
    """A function that DuckDB calls with Arrow arrays."""

    name: str
    takes: tuple[pa.DataType, ...]
    gives: pa.DataType
    run: Callable[..., pa.Array]


@dataclass(slots=True)
class Functions:
    """The functions in Python that a query needs. The same call has the same name everywhere in a query."""

    needed: dict[Key, PythonFunction] = field(default_factory=dict)

    def call(
        self,
        rowwise: Callable[..., object],
        gives: pa.DataType,
        values: Sequence[Value],
        *constants: Constant,
        safe: bool = False,
    ) -> str:
        """Return the call of a function that is given one row after the other; a null argument gives a null.

        The constants follow the values of the row. With `safe`, a row for which there is no result gives a null.
        """

        def one(row: tuple[object, ...]) -> object:
            try:
                return None if any(value is None for value in row) else rowwise(*row, *constants)
            except InvalidInputError:
                if safe:
                    return None
                raise

        def run(*columns: pa.ChunkedArray) -> pa.Array:
            return pa.array(map(one, zip(*(column.to_pylist() for column in columns), strict=True)), gives)

        takes = tuple(value.type for value in values)
        key = (rowwise.__name__, takes, gives, (*constants, safe))
        if key not in self.needed:
            self.needed[key] = PythonFunction(f"lw_{rowwise.__name__}_{len(self.needed)}", takes, gives, run)
        return f"{self.needed[key].name}({', '.join(value.sql for value in values)})"


@dataclass(frozen=True, slots=True)
class Aggregation:
    """How an aggregate function is called: on distinct rows, on some rows, over a window, in an order."""

    distinct: bool = False
    condition: str = ""
    over: str = ""
    ignore_nulls: bool = False
    order: str = ""

    def of(self, call: str, *conditions: str) -> str:
        """Return an aggregate call of DuckDB on the rows that are meant."""
        wanted = [one for one in (self.condition, *conditions) if one]
        rows = f" FILTER (WHERE {' AND '.join(wanted)})" if wanted else ""
        return f"{call}{rows}{self.over}"

    @property
    def word(self) -> str:
        """`DISTINCT `, if only distinct rows count."""
        return "DISTINCT " if self.distinct else ""


class Binder(Protocol):
    """What functions ask of the translation of expressions, which calls them."""

    @property
    def functions(self) -> Functions:
        """The functions in Python of the query."""

    @property
    def zone(self) -> str:
        """The time zone of the session."""

    def bind(self, node: exp.Expr) -> Value:
        """Return the value of an expression."""

    def cast(self, value: Value, to: pa.DataType) -> Value:
        """Return a value as another type."""

    def common(self, values: Sequence[Value]) -> list[Value]:
        """Return values as their common type."""

    def refused(self, node: exp.Expr, message: str) -> UnsupportedError:
        """Return the error for something that does not run in this process."""

    def lambda_body(self, node: exp.Lambda, *kinds: pa.DataType) -> tuple[str, Value]:
        """Return the head and the body of a lambda whose variables have these types."""


Function: TypeAlias = Callable[[Binder, list[Value]], Value]
Aggregate: TypeAlias = Callable[[Binder, list[Value], Aggregation], Value]
