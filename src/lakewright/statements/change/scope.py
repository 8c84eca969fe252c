"""What a change touches: a plan and its expressions, looked up, in; what to prune by, what to guard, or a verb out.

Both engines ask here, so that they read the same files and start again for the same reasons.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lakewright.spec.predicate.predicate import TRUE, Predicate
from lakewright.statements.change.plan import ChangePlan
from lakewright.statements.model import Action
from lakewright.statements.query.bind import Bound, Relation
from lakewright.statements.query.filters import Target, condition_filter, constant_of
from lakewright.statements.query.places import Piece
from lakewright.statements.query.tables import place_of
from lakewright.statements.text import Args, Fragment
from lakewright.table.table import FileStoreTable
from lakewright.update.merge.merge import scope_without
from lakewright.update.primary_key import guard_scope
from lakewright.update.values import LiteralValue, lit


def pruning(plan: ChangePlan, bound: Bound, args: Args, zone: str) -> Predicate:
    """Return what every row of the target fulfils that may change, as far as our statistics understand it."""
    piece = _piece(bound, plan.where or plan.on)
    if piece is None or plan.reaches_all:
        return TRUE
    found = condition_filter(piece, _target(plan), args, zone)
    return TRUE if found is None else found


def guard(table: FileStoreTable, plan: ChangePlan, relations: Sequence[Relation], *, inserted: bool) -> str | None:
    """Return where nobody may have written since the snapshot, so that what was found there still holds."""
    own = place_of(table)
    others = [relation.table for relation in relations if isinstance(relation.table, FileStoreTable)]
    if any(place_of(other) == own for other in others):
        return "table"
    absent = scope_without(plan.store, (name for name, _ in plan.equal)) if inserted else None
    if not plan.store.schema.primary_keys:
        return absent
    return guard_scope(absent or "bucket", plan.store.schema.bucket_mode)


@dataclass(frozen=True, slots=True)
class Verb:
    """A DELETE or an UPDATE of constants by a condition that we evaluate exactly as the engine does."""

    where: Predicate
    values: Mapping[str, LiteralValue] | None = None  # None: the rows are deleted


def verb_of(plan: ChangePlan, bound: Bound, args: Args, zone: str) -> Verb | None:
    """Return what a statement asks for if the verbs of the library can do it, else None.

    They need no query of the engine, and find and change rows in one task: about twice as fast.
    """
    if plan.source is not None:
        return None
    where: Predicate | None = TRUE
    if plan.where is not None:
        piece = _piece(bound, plan.where)
        where = None if piece is None else condition_filter(piece, _target(plan), args, zone, exact=True)
    if where is None:
        return None
    clause = plan.clauses[0]
    if clause.action is Action.DELETE:
        return Verb(where)
    values: dict[str, LiteralValue] = {}
    for name, value in clause.values.items():
        piece = _piece(bound, value.places[0]) if len(value.places) == 1 and not value.rebuilds else None
        constant = () if piece is None else constant_of(piece, _target(plan), args, value.field)
        if not constant:
            return None
        values[name] = lit(constant[0])
    return Verb(where, values)


def _target(plan: ChangePlan) -> Target:
    return Target(plan.target.alias, plan.store.schema.fields, () if plan.source is None else plan.source.columns)


def _piece(bound: Bound, fragment: Fragment | None) -> Piece | None:
    return next((piece for piece in bound.pieces if piece.fragment == fragment), None)
