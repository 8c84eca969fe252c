"""pypaimon's merge: clauses and sources of its shapes in, the core's clauses and Arrow data out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, TypeVar, cast

import pyarrow as pa

from lakewright.errors import InvalidInputError, UnsupportedError
from lakewright.metadata.store import TableStore
from lakewright.pypaimon.casts import cast_columns, cast_literal
from lakewright.pypaimon.conditions import SqlText
from lakewright.read.projection import ROW_ID
from lakewright.spec import arguments
from lakewright.spec.types import DataField
from lakewright.table import table as tables
from lakewright.table import update_builder as core
from lakewright.update.merge.clauses import Clause
from lakewright.update.values import ColumnRef, LiteralValue, Side, lit, source_col, target_col
from lakewright.write.input.frames import ArrowData

_NAMES_A_SIDE = re.compile(r"\s*(s|t|source|target)\.", re.IGNORECASE)
SetSpec: TypeAlias = str | Mapping[str, object]
_Text = TypeVar("_Text")
On: TypeAlias = str | Sequence[str] | Mapping[str, str]


class WrongTypeError(InvalidInputError, TypeError):
    """A value of another type than the call takes."""


class WhenMatched(core.WhenMatched):
    """What a merge does to rows that match: `WhenMatched.update("*")` or `WhenMatched.delete()`.

    On an object, `update` is what it sets (None where it deletes) and `delete` says whether it deletes.

    >>> clause = WhenMatched.update({"n": "s.n"}, condition="s.n > 0")
    >>> clause.update, clause.delete, clause.condition
    ({'n': 's.n'}, False, 's.n > 0')
    """

    def __init__(self, action: str, *, update: SetSpec | None = None, condition: str | None = None) -> None:
        if action not in {"update", "delete"}:
            raise InvalidInputError(f"a WhenMatched action must be 'update' or 'delete', not {action!r}")
        if action == "update" and update is None:
            raise InvalidInputError("WhenMatched.update requires an update spec: say what it sets")
        if action == "delete" and update is not None:
            raise InvalidInputError("WhenMatched.delete must not specify update: it sets nothing")
        # These names are methods of the class, as in pypaimon; on an object they are what it was made with.
        self.__dict__.update(update=update, condition=condition, delete=action == "delete")

    @classmethod
    def update(cls, update: SetSpec = "*", condition: str | None = None) -> WhenMatched:
        """Set columns: all of them from the source (`*`), or those that a mapping names."""
        return cls("update", update=update, condition=condition)

    @classmethod
    def delete(cls, condition: str | None = None) -> WhenMatched:
        """Delete the row."""
        return cls("delete", condition=condition)

    @property
    def assigned(self) -> SetSpec | None:
        """What the clause sets; None: it deletes."""
        given: SetSpec | None = self.__dict__["update"]
        return given

    @property
    def clause(self) -> Clause:
        """The clause of the merge, made when that begins, so that a wrong one fails there."""
        condition = self.__dict__["condition"]
        given = self.assigned
        return (
            core.WhenMatched.delete(condition) if given is None else core.WhenMatched.update(given, condition)
        ).clause

    def __repr__(self) -> str:
        return f"WhenMatched({self.__dict__})"


@dataclass(frozen=True, slots=True)
class Merge:
    """A merge in the shapes that the core takes."""

    source: ArrowData
    on: Mapping[str, str]
    matched: tuple[core.WhenMatched, ...]
    not_matched: tuple[core.WhenNotMatched, ...]


def prepare_merge(
    store: TableStore,
    source: object,
    on: On,
    when_matched: Sequence[core.WhenMatched],
    when_not_matched: Sequence[core.WhenNotMatched],
) -> Merge:
    """Check a merge as pypaimon does and return it as the core takes it."""
    updates = arguments.instances("when_matched", when_matched, core.WhenMatched, "WhenMatched clauses")
    inserts = arguments.instances("when_not_matched", when_not_matched, core.WhenNotMatched, "WhenNotMatched clauses")
    joined = _pairs(on)
    data = _source(store, source, joined, inserts=bool(inserts))
    fields = {field.name: field for field in store.schema.fields}
    matched = tuple(_update(each, joined, fields, store.name) for each in updates)
    _check_partitions(store, (*updates, *matched))
    not_matched = tuple(_insert(each, joined, fields, store.name) for each in inserts)
    taken = {source_name: fields[name] for name, source_name in _from_source(matched, not_matched) if name in fields}
    return Merge(_cast(data, taken, store.name), joined, matched, not_matched)


def _pairs(on: On) -> dict[str, str]:
    """Return the columns to join by: of the target, and the source's for each."""
    if isinstance(on, Mapping):
        pairs = {name: arguments.text("on", source) for name, source in arguments.mapping("on", on).items()}
    else:
        pairs = {name: name for name in arguments.names("on", on)}
    if not pairs:
        raise InvalidInputError("'on' must not be empty: name the columns that the source and the table are joined by")
    return pairs


def check_clauses(when_matched: Sequence[core.WhenMatched], when_not_matched: Sequence[core.WhenNotMatched]) -> None:
    """Refuse no clauses at all, and clauses that never apply because of one before them."""
    updates = arguments.instances("when_matched", when_matched, core.WhenMatched, "WhenMatched clauses")
    inserts = arguments.instances("when_not_matched", when_not_matched, core.WhenNotMatched, "WhenNotMatched clauses")
    if not updates and not inserts:
        raise InvalidInputError("At least one of when_matched or when_not_matched must be non-empty.")
    _check_conditions("when_matched", [each.clause.condition for each in updates])
    _check_conditions("when_not_matched", [each.condition for each in inserts])


def _check_partitions(store: TableStore, matched: Sequence[core.WhenMatched]) -> None:
    """Refuse clauses that set partition columns; `*` sets them too."""
    clauses = [each.clause for each in matched if each.clause.action != "delete"]
    columns = store.schema.field_names
    moved = {name for each in clauses for name in _set(each, columns)} & set(store.schema.partition_keys)
    if moved:
        raise UnsupportedError(
            f"table {store.name}: merge_into does not support updating partition columns {sorted(moved)}: rows of a "
            "table with data evolution stay in their partition; delete them and write them again",
            table=store.name,
        )


def _set(clause: Clause, columns: Sequence[str]) -> Iterator[str]:
    """Yield the columns that a clause changes: not those that it sets to what they are."""
    given = dict.fromkeys(columns) if clause.assignments is None else clause.assignments
    return (name for name, value in given.items() if value != target_col(name))


def _check_conditions(kind: str, conditions: Sequence[object]) -> None:
    for at, condition in enumerate(conditions[:-1]):
        if condition is None:
            raise InvalidInputError(
                f"Only the last {kind} clause may omit its condition: the clauses after clause {at} would never apply"
            )


def _source(store: TableStore, source: object, on: Mapping[str, str], *, inserts: bool) -> ArrowData:
    """Return the rows of a source; a table that is joined by row ids is read with them."""
    if isinstance(source, tables.FileStoreTable):
        if ROW_ID.name not in on.values():
            return source
        if inserts and source.store.layout == store.layout:
            raise InvalidInputError(
                f"table {store.name}: a merge of a table with itself by {ROW_ID.name} matches every row, so it does "
                "not support WHEN NOT MATCHED clauses"
            )
        builder = source.new_read_builder().with_projection([*source.store.schema.field_names, ROW_ID.name])
        return cast("ArrowData", builder.new_read().to_arrow(builder.new_scan().plan().splits()))
    if source is None or isinstance(source, str | bytes | int | float | Mapping | list | tuple):
        raise WrongTypeError(
            f"the source must be a pyarrow.Table, a pandas.DataFrame or a Paimon table, not {type(source).__name__}"
        )
    return cast("ArrowData", source)  # the core says what else it cannot be


def _update(
    given: core.WhenMatched, on: Mapping[str, str], columns: Mapping[str, DataField], table: str
) -> core.WhenMatched:
    """Return a clause with assignments: `*` sets every column but those that are joined by, which are equal."""
    clause = replace(given.clause, condition=_sql(given.clause.condition))
    if clause.action == "delete":
        return core.WhenMatched(clause)
    if clause.assignments is None:
        chosen = [name for name in columns if name not in on] or list(columns)
        given_all = {name: source_col(on.get(name, name)) for name in chosen}
        return core.WhenMatched(replace(clause, assignments=given_all))
    checked = _checked(clause.assignments, columns, table)
    kept = {name: value for name, value in checked.items() if value != target_col(name)}
    return core.WhenMatched(replace(clause, assignments=kept or checked))


def _insert(
    given: core.WhenNotMatched, on: Mapping[str, str], columns: Mapping[str, DataField], table: str
) -> core.WhenNotMatched:
    """Return a clause with assignments: `*` sets every column, and all of them must be in the source."""
    assignments = given.clause.assignments
    if assignments is None:
        assignments = {name: source_col(on.get(name, name)) for name in columns}
    checked = _checked(assignments, columns, table)
    for name, value in checked.items():
        if isinstance(value, ColumnRef) and value.side is Side.TARGET:
            raise InvalidInputError(
                f"INSERT spec must not reference target columns (t.*), but {name!r} comes from 't.{value.name}'"
            )
    return core.WhenNotMatched(checked, _sql(given.condition))


def _sql(condition: _Text) -> _Text | SqlText:
    """Return a condition that may compute."""
    return SqlText(condition) if isinstance(condition, str) else condition


def _checked(assignments: Mapping[str, object], columns: Mapping[str, DataField], table: str) -> Mapping[str, object]:
    """Return assignments with literals as pypaimon casts them; functions are refused."""
    if not assignments:
        raise InvalidInputError("a clause must not be empty: say which columns it sets")
    for name, value in assignments.items():
        if callable(value) and not isinstance(value, type):
            raise WrongTypeError(
                f"the column {name!r} of a merge takes source_col(), target_col(), lit() or a literal, not a function"
            )
    return {name: _literal(value, columns.get(name), table) for name, value in assignments.items()}


def _literal(value: object, field: DataField | None, table: str) -> object:
    if field is None or isinstance(value, ColumnRef):
        return value
    made = cast_literal(value.value if isinstance(value, LiteralValue) else value, field, table)
    # Text is a literal in pypaimon; only what names a column of a side is refused, unless it is given as lit().
    is_literal = isinstance(value, LiteralValue) or (isinstance(made, str) and not _NAMES_A_SIDE.match(made))
    return lit(made) if is_literal and not isinstance(made, LiteralValue) else made


def _from_source(
    matched: Sequence[core.WhenMatched], not_matched: Sequence[core.WhenNotMatched]
) -> Iterator[tuple[str, str]]:
    """Yield the columns of the table that take a column of the source, and that column."""
    for clause in (*(each.clause for each in matched), *(each.clause for each in not_matched)):
        for name, value in (clause.assignments or {}).items():
            if isinstance(value, ColumnRef) and value.side is Side.SOURCE:
                yield name, value.name


def _cast(source: ArrowData, fields: Mapping[str, DataField], table: str) -> ArrowData:
    return cast_columns(source, fields, table) if isinstance(source, pa.Table) else source
