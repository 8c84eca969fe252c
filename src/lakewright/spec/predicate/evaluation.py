"""A predicate and known values or statistics in; what can be said of the rows without reading them out.

`may_match` uses bounds and null counts, and is False only when no row can match. All other answers are exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

from lakewright.spec.predicate.comparison import (
    all_null,
    is_float,
    matches_value,
    may_match_stats,
)
from lakewright.spec.predicate.predicate import FALSE, TRUE, Predicate, and_predicates, negate, normalise, or_predicates
from lakewright.spec.stats import ColumnStats
from lakewright.spec.types import Value


def project(p: Predicate, keep_fields: Iterable[str]) -> Predicate:
    """Return the strongest predicate on only these columns that every matching row fulfils."""
    return _project(normalise(p), frozenset(keep_fields))


def _project(p: Predicate, keep: frozenset[str]) -> Predicate:
    match p.method:
        case "and":
            return and_predicates(_project(child, keep) for child in p.children)
        case "or":
            return or_predicates(_project(child, keep) for child in p.children)
        case _:
            return p if p.columns() <= keep else TRUE


def assume(p: Predicate, values: Mapping[str, Value]) -> Predicate:
    """Return the predicate that remains for rows whose values of some columns are known, as those of a partition."""
    return _assume(normalise(p), values)


def _assume(p: Predicate, values: Mapping[str, Value]) -> Predicate:
    match p.method:
        case "and":
            return and_predicates(_assume(child, values) for child in p.children)
        case "or":
            return or_predicates(_assume(child, values) for child in p.children)
        case _:
            asked = {leaf.column for leaf in p.leaves()}
            if not asked <= values.keys():
                return p
            return TRUE if matches_values(p, values) else FALSE


def matches_values(p: Predicate, values: Mapping[str, Value]) -> bool:
    """Say whether a row of values fulfils the predicate, exactly; for partition rows."""
    return _evaluate(p, values) is True


def _evaluate(p: Predicate, values: Mapping[str, Value]) -> bool | None:
    """Return True, False, or None for unknown."""
    match p.method:
        case "and":
            results = [_evaluate(child, values) for child in p.children]
            return False if False in results else None if None in results else True
        case "or":
            results = [_evaluate(child, values) for child in p.children]
            return True if True in results else None if None in results else False
        case "not":
            result = _evaluate(p.children[0], values)
            return None if result is None else not result
        case "alwaysTrue" | "alwaysFalse":
            return p.method == "alwaysTrue"
        case _:
            return matches_value(p.method, p.literals, values[p.column or ""])


def may_match(
    p: Predicate,
    stats: Callable[[str], ColumnStats | None],
    row_count: int,
    numbers: frozenset[str] = frozenset(),
) -> bool:
    """Say whether a file with these statistics may hold a matching row. False is certain; True is not.

    `numbers` names columns that are known not to be NaN in a matching row, because of other conditions on them.
    """
    match p.method:
        case "and":
            numbers = numbers.union(child.column or "" for child in p.children if excludes_nan(child))
            return all(may_match(child, stats, row_count, numbers) for child in p.children)
        case "or":
            return any(may_match(child, stats, row_count, numbers) for child in p.children)
        case "not":
            inner = negate(p.children[0])
            if inner.method != "not":
                return may_match(inner, stats, row_count, numbers)
            known = stats(inner.children[0].column or "")
            return known is None or not all_null(known, row_count)
        case "alwaysTrue" | "alwaysFalse":
            return p.method == "alwaysTrue"
        case _:
            known = None if p.column is None else stats(p.column)
            if known is None or row_count <= 0:
                return row_count > 0
            return may_match_stats(p.method, p.literals, p.dtype, known, row_count, may_be_nan=p.column not in numbers)


def excludes_nan(p: Predicate) -> bool:
    """Say whether a predicate is a condition on one floating-point column that NaN does not fulfil."""
    return is_float(p.dtype) and matches_value(p.method, p.literals, math.nan) is not True
