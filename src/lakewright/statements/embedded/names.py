"""How relations are named in the text of a query: a relation in, a name that no table has out."""

from __future__ import annotations

from lakewright.statements.query.bind import Relation

ROWS = "$rows"


def relation_name(relation: Relation) -> str:
    """Return how the text of a statement names a relation."""
    return f"`{relation.name}{ROWS}`"
