"""Which conditions of a SELECT may be evaluated on one of its tables beforehand: a SELECT in, conjuncts out.

    FROM e0 JOIN e1 ON c1 JOIN e2 ON c2 ... WHERE c

A row of a table that a conjunct of WHERE leaves out reaches no result; only where an outer join supplies nulls in the
place of the table's rows, the conjunct must be one that is not true for nulls. A conjunct of ON leaves out rows of the
right side unless the join preserves them, and rows of the left side in joins that do not preserve those.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp

_INNER = frozenset({"INNER", "CROSS", ""})


@dataclass(frozen=True, slots=True)
class Conjunct:
    """A condition that rows of a table must fulfil to reach the result."""

    condition: exp.Expr
    rejects_nulls: bool  # it must be one that is not true for nulls


@dataclass(frozen=True, slots=True)
class _Element:
    """One side of a join, with how it is joined to those before it."""

    node: exp.Expr
    kind: str  # INNER, LEFT, RIGHT, FULL, SEMI or ANTI; empty for the first
    on: exp.Expr | None


def conjuncts_of(select: exp.Expr, node: exp.Expr) -> list[Conjunct]:
    """Return the conjuncts that hold for all rows of a table of a SELECT that matter; they may use other tables too."""
    elements = _elements(select)
    number = next((at for at, one in enumerate(elements) if one.node is node), None)
    if number is None:
        return []
    own, out = elements[number], []
    if own.on is not None and own.kind in _INNER | {"LEFT", "SEMI", "ANTI"}:
        out += [Conjunct(one, rejects_nulls=False) for one in _split(own.on)]
    if own.kind in {"SEMI", "ANTI"}:
        return out  # nothing behind sees it
    nullable = own.kind in {"LEFT", "FULL"}
    for later in elements[number + 1 :]:
        if later.on is not None and later.kind in _INNER | {"RIGHT", "SEMI"}:
            out += [Conjunct(one, rejects_nulls=nullable) for one in _split(later.on)]
        nullable = nullable or later.kind in {"RIGHT", "FULL"}
    where = select.args.get("where")
    return out if where is None else [*out, *(Conjunct(one, rejects_nulls=nullable) for one in _split(where.this))]


def tables_of(select: exp.Expr) -> list[exp.Expr]:
    """Return what a SELECT joins, and what its lateral views are."""
    return [one.node for one in _elements(select)] + list(select.args.get("laterals") or [])


def joins_by_name(select: exp.Expr) -> bool:
    """Say whether a join of a SELECT merges columns of the same name."""
    from_ = select.args.get("from_")
    found = [*_joins(select), *(() if from_ is None else _joins(from_.this))]
    return any(join.args.get("using") or join.args.get("method") for join in found)


def _elements(select: exp.Expr) -> list[_Element]:
    from_ = select.args.get("from_")
    if from_ is None:
        return []
    first = from_.this
    joins = [*_joins(first), *_joins(select)]
    return [_Element(first, "", None), *(_Element(join.this, _kind(join), join.args.get("on")) for join in joins)]


def _joins(node: exp.Expr) -> list[exp.Expr]:
    return list(node.args.get("joins") or [])


def _kind(join: exp.Expr) -> str:
    side, kind = str(join.args.get("side") or "").upper(), str(join.args.get("kind") or "").upper()
    if kind in {"SEMI", "ANTI"}:
        return kind
    if side in {"LEFT", "RIGHT", "FULL"}:
        return side
    return kind if kind in _INNER else "FULL"  # one that is not known here lets nothing through


def _split(condition: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the conditions that AND joins."""
    match condition:
        case exp.Paren():
            yield from _split(condition.this)
        case exp.And():
            yield from _split(condition.this)
            yield from _split(condition.expression)
        case _:
            yield condition
