"""INSERT as columns of a query; columns that a write adds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from lakewright.errors import ColumnNotExistException, InvalidInputError, UnsupportedError, pluralize
from lakewright.metadata.table_store import TableStore
from lakewright.spec.arrow_types import from_arrow_type, to_arrow_type
from lakewright.spec.schema_merging import new_parts
from lakewright.spec.types import DataField
from lakewright.statements.change_query import Side, conjuncts
from lakewright.statements.sql_session import Session
from lakewright.statements.sql_text import Fragment, Name
from lakewright.statements.statements import Insert
from lakewright.statements.store_assignment import default_of
from lakewright.statements.table_lookup import MERGE_SCHEMA, SETTING, Lookup, set_options
from lakewright.statements.token_cursor import words_of
from lakewright.table.file_store_table import FileStoreTable

# ---- Columns that a write adds ---------------------------------------------------------------------------------------

_WHOLE = 3  # parts of a name with a catalog
_CAST, _WIDEN = f"{MERGE_SCHEMA}.explicit-cast", f"{MERGE_SCHEMA}.type-widening"


@dataclass(frozen=True, slots=True)
class SchemaMerge:
    """What a write may do to the columns of its table."""

    adds: bool
    widens: bool

    @classmethod
    def of(cls, session: Session, lookup: Lookup, name: Name, *, always: bool = False) -> SchemaMerge:
        """Return what SET says about a table; `always`: the statement itself says that columns are added."""
        settings = {key.removeprefix(SETTING): value for key, value in lookup.table_settings().items()}
        _, identifier = session.resolve(name)
        catalog = session.catalog_name if len(name.parts) < _WHOLE else name.parts[0]
        own = set_options(settings, (catalog, identifier.get_database_name(), identifier.get_object_name()))
        asked = {key for key, value in own.items() if value.strip().lower() == "true"}
        if _CAST in asked:
            message = f"{_CAST} is not supported: types of columns are never narrowed; cast the values in the query"
            raise name.place.error(message, kind=UnsupportedError, option=_CAST)
        adds = always or MERGE_SCHEMA in asked
        return cls(adds, adds and _WIDEN in asked)

    def columns(self, table: FileStoreTable, given: pa.Schema) -> pa.Schema:
        """Return the columns of rows to add or to widen, with the names of the table in whichever case they are.

        Of a column that the table has, these are the fields inside it that the table lacks, or with `widens` all.
        """
        known = {field.name.casefold(): field for field in table.schema.fields}
        fields: list[tuple[str, pa.DataType]] = []
        for one in given if self.adds else ():
            own = known.get(one.name.casefold())
            if own is None:
                fields.append((one.name, one.type))
            elif self.widens:
                fields.append((own.name, one.type))
            elif pa.types.is_nested(one.type) and (part := new_parts(from_arrow_type(one.type), own.type)) is not None:
                fields.append((own.name, to_arrow_type(part)))
        return pa.schema(fields)


# ---- Columns of an INSERT --------------------------------------------------------------------------------------------
# Columns are matched by their places, or by name. Invariant: a column of the query that has no place, or a
# column of the table that gets no value and takes no null, is an error before a row is read.


@dataclass(frozen=True, slots=True)
class InsertPlan:
    """Where the columns of a query go."""

    columns: tuple[tuple[DataField, int], ...]  # columns of the table, and the number of the query's column
    static: Mapping[str, Fragment]  # partition columns that have one value for all rows
    replaced: Mapping[str, Fragment] | None = None  # what an overwrite replaces: one partition, all; None: it depends


def insert_query(store: TableStore, statement: Insert) -> Fragment:
    """Return the query of an INSERT, in whose VALUES the word DEFAULT is the default of its column."""
    query = statement.query
    words = words_of(query.text)
    if not words or words[0].upper != "VALUES" or statement.by_name:
        return query
    fields = _targets(store, statement)
    changes, depth, place = {}, 0, 0
    for at, word in enumerate(words):
        if word.text == "(" and not word.is_text:
            depth, place = depth + 1, 0 if depth == 0 else place
        elif word.text == ")" and not word.is_text:
            depth -= 1
        elif word.text == "," and depth == 1 and not word.is_text:
            place += 1
        elif word.upper == "DEFAULT" and depth == 1 and words[at - 1].text in {"(", ","} and place < len(fields):
            changes[word.start, word.end] = default_of(fields[place])
    if not changes:
        return query
    text = query.replace_at(changes)
    return Fragment(query.whole[: query.start] + text + query.whole[query.end :], query.start, query.start + len(text))


def plan_insert(store: TableStore, statement: Insert, names: Sequence[str], *, dynamic: bool) -> InsertPlan:
    """Return where the columns of a query go; `dynamic` is how the session overwrites partitions."""
    static = _static(store, statement)
    if statement.by_name:
        columns = _by_name(store, statement, names, static)
    else:
        fields = _targets(store, statement)
        if len(fields) != len(names):
            message = (
                f"{store.name}: the query has {pluralize(len(names), 'column')}, and there are {len(fields)} to fill"
            )
            message += f" ({', '.join(field.name for field in fields)})"
            raise statement.query.error(message, kind=InvalidInputError, table=store.name)
        columns = [(field, at) for at, field in enumerate(fields)]
    given = {field.name for field, _ in columns} | static.keys()
    for field in store.schema.fields:
        if field.name not in given and not field.type.nullable and field.default_value is None:
            message = (
                f"{store.name}: INSERT gives no value to {field.name!r} ({field.type}), which takes no null and has no"
            )
            raise statement.table.place.error(f"{message} default", kind=InvalidInputError, column=field.name)
    return InsertPlan(tuple(columns), static, _replaced_partition(store, statement, static, dynamic=dynamic))


def _replaced_partition(
    store: TableStore, statement: Insert, static: Mapping[str, Fragment], *, dynamic: bool
) -> Mapping[str, Fragment] | None:
    """Return which partition an INSERT replaces, {} for the whole table; None: those of its rows, or nothing."""
    if statement.replace_where is not None:
        return _partition_of(store, statement.replace_where)
    if not statement.overwrite or (dynamic and len(static) < len(store.schema.partition_keys)):
        return None
    return static


def _partition_of(store: TableStore, condition: Fragment) -> dict[str, Fragment]:
    """Return the values of the partition that a condition names."""
    out: dict[str, Fragment] = {}
    side = Side(store.name, store.schema.partition_keys)
    for part in conjuncts(condition.tree):
        if isinstance(part, exp.Boolean) and part.this:
            continue
        column = part.this.unnest() if isinstance(part, exp.EQ) else None
        path = side.path([one.name for one in column.parts]) if isinstance(column, exp.Column) else None
        value = part.expression if isinstance(part, exp.EQ) else None
        span = None if value is None else _span(condition, value)
        if path is None or len(path) > 1 or span is None or path[0] in out:
            message = (
                f"{store.name}: REPLACE WHERE takes equalities of partition columns with literals, joined by AND; "
            )
            message += "delete the rows first, or use INSERT OVERWRITE"
            raise condition.error(message, kind=UnsupportedError, table=store.name)
        out[path[0]] = span
    return out


def _span(condition: Fragment, value: exp.Expr) -> Fragment | None:
    """Return the place of a literal."""
    if not isinstance(value, exp.Literal):
        return None
    for word in words_of(condition.text):
        if word.text == value.this and (word.is_text == value.is_string):
            return condition.slice(word.start, word.end)
    return None


def _static(store: TableStore, statement: Insert) -> dict[str, Fragment]:
    """Return the values that PARTITION (...) gives."""
    out: dict[str, Fragment] = {}
    side = Side(store.name, store.schema.partition_keys)
    for name, value in (statement.partition or {}).items():
        column = side.column(name)
        if column is None:
            known = ", ".join(store.schema.partition_keys) or "none"
            message = f"{store.name} has no partition column {name!r}; it has {known}"
            raise statement.table.place.error(message, kind=ColumnNotExistException, table=store.name, column=name)
        if value is not None:
            out[column] = value
    return out


def _targets(store: TableStore, statement: Insert) -> list[DataField]:
    """Return the columns that the columns of the query fill, in their order."""
    static = _static(store, statement)
    if statement.columns is None:
        return [field for field in store.schema.fields if field.name not in static]
    side = Side(store.name, store.schema.field_names)
    out = []
    for name in statement.columns:
        column = side.column(name)
        if column is None:
            message = f"{store.name} has no column {name!r}; it has {', '.join(store.schema.field_names)}"
            raise statement.table.place.error(message, kind=ColumnNotExistException, table=store.name, column=name)
        if column in static:
            raise statement.table.place.error(f"{name!r} has its value from PARTITION", kind=InvalidInputError)
        out.append(store.schema.field(column))
    return out


def _by_name(
    store: TableStore, statement: Insert, names: Sequence[str], static: Mapping[str, Fragment]
) -> list[tuple[DataField, int]]:
    side = Side(store.name, store.schema.field_names)
    out: dict[str, tuple[DataField, int]] = {}
    for at, name in enumerate(names):
        column = side.column(name)
        if column is None or column in out or column in static:
            known = ", ".join(store.schema.field_names)
            message = (
                f"{store.name}: the query has a column {name!r} that is no column of the table, or is there twice; "
            )
            raise statement.query.error(f"{message}the table has {known}", kind=ColumnNotExistException, column=name)
        out[column] = store.schema.field(column), at
    return list(out.values())
