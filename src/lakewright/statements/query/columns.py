"""Which columns of a table a statement can need: slices and a reference in, names out.

A column whose name occurs nowhere in the statement, and that no star covers, is not read. What is not understood reads
all columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlglot import exp

from lakewright.spec.types import AtomicType, DataField
from lakewright.statements.query.places import Kind, Piece
from lakewright.statements.query.references import Reference

_PATTERN_SIGNS = frozenset("*+?()[]|^")  # a name in backticks may be a pattern of columns
_NARROW = ("BOOLEAN", "TINYINT", "SMALLINT", "INT", "DATE", "FLOAT", "BIGINT", "DOUBLE", "TIME")


def columns_read(pieces: Sequence[Piece], reference: Reference, fields: Sequence[DataField]) -> tuple[str, ...] | None:
    """Return the columns that have to be read of a reference, at least one; None: all."""
    if any(_not_understood(piece) for piece in pieces) or _reads_all(pieces, reference):
        return None
    used = {name.lower() for piece in pieces for name in _names(piece)}
    needed = tuple(field.name for field in fields if field.name.lower() in used)
    if len(needed) == len(fields):
        return None
    return needed or _narrowest(fields)


def _narrowest(fields: Sequence[DataField]) -> tuple[str, ...]:
    """Return the column that is the cheapest to read, for a query that only counts rows."""
    roots = {field.name: field.type.root for field in fields if isinstance(field.type, AtomicType)}
    narrow = (name for root in _NARROW for name, own in roots.items() if own == root)
    return (next(narrow, fields[0].name),)


def _names(piece: Piece) -> Iterable[str]:
    for word in piece.words:
        # A setting of Spark makes names of what stands in double quotes.
        if not word.is_text or piece.fragment.text[word.start] == '"':
            yield word.text


def _not_understood(piece: Piece) -> bool:
    words = piece.words
    is_pattern = any(word.is_quoted and _PATTERN_SIGNS & set(word.text) for word in words)
    return is_pattern or any(word.text == "|>" or word.upper in {"IDENTIFIER", "TRANSFORM"} for word in words)


def _reads_all(pieces: Sequence[Piece], reference: Reference) -> bool:
    node = reference.node
    alias = node.args.get("alias")
    if reference.piece.kind is Kind.RELATION or node.args.get("pivots") or (alias is not None and alias.columns):
        return True
    select = node.find_ancestor(exp.Select)
    if select is None or any(_is_natural(join) for join in select.find_all(exp.Join)):
        return True
    name = (reference.alias or reference.name.parts[-1] if reference.name.parts else reference.alias or "").lower()
    return any(_covers(piece, star, reference, select, name) for piece in pieces for star in _stars(piece))


def _is_natural(join: exp.Expr) -> bool:
    return str(join.args.get("method") or "").upper() == "NATURAL"


def _stars(piece: Piece) -> Iterable[exp.Expr]:
    for star in piece.tree.find_all(exp.Star):
        if not (isinstance(star.parent, exp.Count) and star.parent.this is star):
            yield star


def _covers(piece: Piece, star: exp.Expr, reference: Reference, select: exp.Expr, name: str) -> bool:
    """Say whether a star may stand for columns of a reference: in its own SELECT, or with its name before it."""
    column = star.parent
    if isinstance(column, exp.Column):
        return not name or any(piece.spelled(part).lower() == name for part in column.parts[:-1])
    return piece is reference.piece and star.find_ancestor(exp.Select) is select
