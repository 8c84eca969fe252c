"""A query in Spark's SQL in, the query of DuckDB and what it needs out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lakewright.statements.embedded.dialect.casts import Casts
from lakewright.statements.embedded.dialect.expressions import Environment
from lakewright.statements.embedded.dialect.functions.aggregates import AGGREGATES
from lakewright.statements.embedded.dialect.functions.nested import NESTED
from lakewright.statements.embedded.dialect.functions.numbers import NUMBERS
from lakewright.statements.embedded.dialect.functions.texts import TEXTS
from lakewright.statements.embedded.dialect.functions.times import TIMES
from lakewright.statements.embedded.dialect.grammar import parsed
from lakewright.statements.embedded.dialect.queries import Queries, Sources
from lakewright.statements.embedded.dialect.scope import Bound
from lakewright.statements.embedded.dialect.values import Functions, PythonFunction
from lakewright.statements.text import Args, Fragment

_SCALAR = {**TEXTS, **NUMBERS, **NESTED, **TIMES}


@dataclass(frozen=True, slots=True)
class Translated:
    """A query of DuckDB."""

    bound: Bound
    functions: Iterable[PythonFunction]


def translate(query: Fragment, args: Args, sources: Sources, zone: str) -> Translated:
    """Return a query for DuckDB that means what Spark means."""
    functions = Functions()
    env = Environment(query, args, Casts(functions, zone), functions, _SCALAR, AGGREGATES)
    bound = Queries(env, sources).query(parsed(query))
    return Translated(bound, functions.needed.values())
