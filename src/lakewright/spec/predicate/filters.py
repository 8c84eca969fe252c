"""Filters of users in (text, a predicate, or an expression of Arrow or polars), a bound `Predicate` out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

import pyarrow.compute as pc

from lakewright.spec import arguments
from lakewright.spec.predicate.builder import PredicateBuilder, bind
from lakewright.spec.predicate.expressions import from_arrow, from_polars, is_polars_expression
from lakewright.spec.predicate.predicate import Predicate
from lakewright.spec.predicate.text import parse_predicate
from lakewright.spec.types import DataField


class PolarsExpression(Protocol):
    """An expression of polars such as `pl.col("id") > 3`; polars is an optional package, so its type is not named."""

    @property
    def meta(self) -> object:
        """The part of polars' interface that serialises the expression."""


Filter: TypeAlias = Predicate | str | pc.Expression | PolarsExpression


def to_predicate(given: Filter, fields: Sequence[DataField], zone: str = "UTC") -> Predicate:
    """Return a filter of any form as a predicate on these columns.

    `zone` is the zone of times without one that are compared with columns WITH LOCAL TIME ZONE.

    >>> from lakewright.spec.types import AtomicType
    >>> columns = [DataField(0, "id", AtomicType("INT"))]
    >>> str(to_predicate("id > 3", columns)), str(to_predicate(pc.field("id") > 3, columns))
    ('id > 3', 'id > 3')
    """
    if isinstance(given, str):
        return parse_predicate(given, fields, zone)
    if isinstance(given, Predicate):
        return bind(given, fields)
    if isinstance(given, pc.Expression):
        return from_arrow(given, PredicateBuilder(fields, zone))
    if is_polars_expression(given):
        return from_polars(given, PredicateBuilder(fields, zone))
    expected = "text such as \"id > 3 AND name LIKE 'a%'\", a predicate, or an expression of Arrow or polars"
    raise arguments.wrong("a filter", expected, given)
