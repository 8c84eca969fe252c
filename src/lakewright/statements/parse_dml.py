"""Grammar of INSERT, UPDATE, DELETE, MERGE, COPY INTO.

Queries, conditions and values stay slices of the text. What Spark refuses by the text alone is refused here.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from lakewright.errors import SQLSyntaxError, UnsupportedError
from lakewright.statements.sql_text import Fragment
from lakewright.statements.statements import (
    Action,
    Assignment,
    CopyIn,
    CopyOut,
    Delete,
    Insert,
    MergeClause,
    MergeInto,
    Query,
    Statement,
    Update,
    When,
)
from lakewright.statements.token_cursor import TokenCursor

_QUERY = ("SELECT", "WITH", "VALUES", "TABLE", "FROM", "MAP", "REDUCE")
_CHANGES = ("INSERT INTO", "INSERT OVERWRITE", "DELETE FROM", "MERGE INTO")
_FORMATS = ("csv", "json", "parquet")
_ACTIONS = {
    When.MATCHED: "UPDATE SET or DELETE",
    When.NOT_MATCHED: "INSERT",
    When.NOT_MATCHED_BY_SOURCE: "UPDATE SET or DELETE",
}


# ---- INSERT ----------------------------------------------------------------------------------------------------------


def read_with(cursor: TokenCursor) -> Statement:
    """Read WITH ..., which begins a query or an INSERT."""
    start = cursor.here
    cursor.take()
    common = cursor.until(*_CHANGES, what="the name of a common table expression")
    if cursor.is_done:
        return Query(text=cursor.fragment)
    if not cursor.sees("INSERT"):
        message = f"WITH before {cursor.here.text.upper()} is not supported: write the query where it is used"
        raise cursor.error(message, kind=UnsupportedError)
    return _insert(cursor, Fragment(common.whole, start.start, common.end))


def read_insert(cursor: TokenCursor) -> Statement:
    """Read INSERT INTO | OVERWRITE."""
    return _insert(cursor, None)


def _insert(cursor: TokenCursor, common: Fragment | None) -> Insert:
    cursor.expect("INSERT")
    overwrite = cursor.accept("OVERWRITE")
    if not overwrite:
        cursor.expect("INTO")
    if cursor.sees_any("DIRECTORY", "LOCAL DIRECTORY"):
        raise cursor.error("INSERT OVERWRITE DIRECTORY is not supported: use COPY INTO", kind=UnsupportedError)
    cursor.accept("TABLE")
    table = cursor.qualified_name()
    partition = _partition(cursor) if cursor.accept("PARTITION") else None
    if cursor.sees("IF", "NOT", "EXISTS"):
        message = "INSERT ... IF NOT EXISTS is not supported: overwrite the partition, or look for it first"
        raise cursor.error(message, kind=UnsupportedError)
    by_name = cursor.accept("BY", "NAME")
    columns = None if by_name or not _sees_columns(cursor) else _names(cursor)
    replaced = None
    if cursor.sees("REPLACE"):
        if overwrite:
            raise cursor.unexpected_word("a query")
        cursor.expect("REPLACE")
        cursor.expect("WHERE")
        replaced = cursor.until(*_QUERY, what="a condition")
    query = _query(cursor)
    return Insert(
        text=cursor.fragment,
        table=table,
        query=query if common is None else _with_common(common, query),
        overwrite=overwrite,
        columns=columns,
        by_name=by_name,
        partition=partition,
        replace_where=replaced,
    )


def _partition(cursor: TokenCursor) -> dict[str, Fragment | None]:
    """Read `(dt = 'a', hh)`."""
    found: dict[str, Fragment | None] = {}
    cursor.expect("(")
    while True:
        word = cursor.here
        name = cursor.name("a partition column")
        if name in found:
            raise cursor.error(f"the partition column {name!r} is there twice", kind=SQLSyntaxError, word=word)
        found[name] = cursor.until(",", what="a value") if cursor.accept("=") else None
        if not cursor.accept(","):
            break
    cursor.expect(")")
    return found


def _sees_columns(cursor: TokenCursor) -> bool:
    """Return whether a list of columns comes next, and not a query in brackets."""
    if not cursor.sees("("):
        return False
    ahead = cursor.words[cursor.at + 1 : cursor.at + 2]
    return bool(ahead) and ahead[0].upper not in _QUERY and ahead[0].text != "("


def _names(cursor: TokenCursor) -> tuple[str, ...]:
    """Read `(a, b)`."""
    cursor.expect("(")
    names: list[str] = []
    while True:
        word = cursor.here
        name = cursor.name("the name of a column")
        if name.casefold() in {known.casefold() for known in names}:
            raise cursor.error(f"the column {name!r} is there twice", kind=SQLSyntaxError, word=word)
        names.append(name)
        if not cursor.accept(","):
            break
    cursor.expect(")")
    return tuple(names)


def _query(cursor: TokenCursor) -> Fragment:
    if not cursor.sees_any(*_QUERY, "("):
        raise cursor.unexpected_word("a query or VALUES")
    return cursor.rest("a query or VALUES")


def _with_common(common: Fragment, query: Fragment) -> Fragment:
    """Return one slice of common table expressions and the query; the words between them become blanks."""
    return _blank_out(common.start, common.end, query.start, query)


def _blank_out(start: int, blank_from: int, blank_to: int, query: Fragment, instead: str = "") -> Fragment:
    """Return a slice whose text has blanks between two places, so that all places stay what they are."""
    whole = query.whole
    kept = "".join(sign if sign == "\n" else " " for sign in whole[blank_from : blank_to - len(instead)])
    return Fragment(whole[:blank_from] + kept + instead + whole[blank_to:], start, query.end)


# ---- UPDATE, DELETE --------------------------------------------------------------------------------------------------


def read_update(cursor: TokenCursor) -> Update:
    """Read UPDATE table [AS alias] SET assignments [WHERE condition]."""
    cursor.expect("UPDATE")
    table = cursor.qualified_name()
    alias = _alias(cursor, "SET")
    cursor.expect("SET")
    assignments = _assignments(cursor, "WHERE")
    where = cursor.rest("a condition") if cursor.accept("WHERE") else None
    return Update(text=cursor.fragment, table=table, assignments=assignments, alias=alias, where=where)


def read_delete(cursor: TokenCursor) -> Delete:
    """Read DELETE FROM table [AS alias] [WHERE condition]."""
    cursor.expect("DELETE", "FROM")
    table = cursor.qualified_name()
    alias = _alias(cursor, "WHERE")
    where = cursor.rest("a condition") if cursor.accept("WHERE") else None
    return Delete(text=cursor.fragment, table=table, alias=alias, where=where)


def _alias(cursor: TokenCursor, *ends: str) -> str | None:
    """Read [AS] alias, unless one of these words comes next."""
    if cursor.accept("AS"):
        return cursor.name("an alias")
    if cursor.is_done or cursor.sees_any(*ends) or not (cursor.here.is_quoted or cursor.here.text.isidentifier()):
        return None
    return cursor.name("an alias")


def _assignments(cursor: TokenCursor, *ends: str) -> tuple[Assignment, ...]:
    """Read `a = 1, s.b = 2` up to one of these words."""
    found = []
    while True:
        name = cursor.qualified_name("the name of a column")
        cursor.expect("=")
        found.append(Assignment(name.parts, cursor.until(",", *ends), name.place))
        if not cursor.accept(","):
            return tuple(found)


# ---- MERGE -----------------------------------------------------------------------------------------------------------


def read_merge(cursor: TokenCursor) -> MergeInto:
    """Read MERGE [WITH SCHEMA EVOLUTION] INTO table USING source ON condition WHEN ..."""
    cursor.expect("MERGE")
    evolve = cursor.accept("WITH", "SCHEMA", "EVOLUTION")
    cursor.expect("INTO")
    table = cursor.qualified_name()
    alias = _alias(cursor, "USING")
    cursor.expect("USING")
    source = _source(cursor)
    source_alias = _alias(cursor, "ON")
    columns = _names(cursor) if source_alias is not None and cursor.sees("(") else ()
    cursor.expect("ON")
    on = cursor.until("WHEN MATCHED", "WHEN NOT MATCHED", what="a condition")
    clauses = []
    while not cursor.is_done:
        clauses.append(_clause(cursor))
    if not clauses:
        raise cursor.unexpected_word("WHEN MATCHED or WHEN NOT MATCHED")
    _check_conditions(cursor, clauses)
    return MergeInto(
        text=cursor.fragment,
        table=table,
        source=source,
        on=on,
        clauses=tuple(clauses),
        alias=alias,
        source_alias=source_alias,
        source_columns=columns,
        evolve=evolve,
    )


def _source(cursor: TokenCursor) -> Fragment:
    """Read the source of a merge: a name, a query in brackets, or VALUES with its rows."""
    first = cursor.here
    if cursor.sees("("):
        cursor.take_bracket()
    elif cursor.accept("VALUES"):
        cursor.take_bracket()
        while cursor.accept(","):
            cursor.take_bracket()
    else:
        return cursor.qualified_name("the name of a table or view, or a query in brackets").place
    return Fragment(cursor.fragment.whole, first.start, cursor.words[cursor.at - 1].end)


def _clause(cursor: TokenCursor) -> MergeClause:
    start = cursor.here
    cursor.expect("WHEN")
    when = When.MATCHED
    if cursor.accept("NOT", "MATCHED", "BY", "SOURCE"):
        when = When.NOT_MATCHED_BY_SOURCE
    elif cursor.accept("NOT", "MATCHED"):
        when = When.NOT_MATCHED
        if cursor.accept("BY"):
            cursor.expect("TARGET")
    else:
        cursor.expect("MATCHED")
    condition = cursor.until("THEN", what="a condition") if cursor.accept("AND") else None
    cursor.expect("THEN")
    action, assignments = _action(cursor, when)
    place = Fragment(cursor.fragment.whole, start.start, cursor.words[cursor.at - 1].end)
    return MergeClause(when, action, condition, assignments, place)


def _action(cursor: TokenCursor, when: When) -> tuple[Action, tuple[Assignment, ...] | None]:
    """Read what follows THEN; assignments are None for `*` and for DELETE."""
    if when is When.NOT_MATCHED:
        if not cursor.accept("INSERT"):
            raise cursor.unexpected_word(_ACTIONS[when])
        return Action.INSERT, None if cursor.accept("*") else _read_insert_values(cursor)
    if cursor.accept("DELETE"):
        return Action.DELETE, None
    if not cursor.accept("UPDATE", "SET"):
        raise cursor.unexpected_word(_ACTIONS[when])
    if not cursor.sees("*"):
        return Action.UPDATE, _assignments(cursor, "WHEN MATCHED", "WHEN NOT MATCHED")
    if when is When.NOT_MATCHED_BY_SOURCE:
        raise cursor.unexpected_word("assignments, since there is no source row to take values from")
    cursor.take()
    return Action.UPDATE, None


def _read_insert_values(cursor: TokenCursor) -> tuple[Assignment, ...]:
    """Read `(columns) VALUES (values)`."""
    cursor.expect("(")
    columns = [cursor.qualified_name("the name of a column")]
    while cursor.accept(","):
        columns.append(cursor.qualified_name("the name of a column"))
    cursor.expect(")")
    cursor.expect("VALUES")
    start = cursor.here
    cursor.expect("(")
    values = [cursor.until(",")]
    while cursor.accept(","):
        values.append(cursor.until(","))
    cursor.expect(")")
    if len(values) != len(columns):
        message = f"INSERT names {len(columns)} columns and has {len(values)} values"
        raise cursor.error(message, kind=SQLSyntaxError, word=start)
    return tuple(Assignment(name.parts, value, name.place) for name, value in zip(columns, values, strict=True))


def _check_conditions(cursor: TokenCursor, clauses: Sequence[MergeClause]) -> None:
    """Raise an error if a clause comes after one of its kind that has no condition: it would never apply."""
    for when in When:
        for one, following in pairwise(clause for clause in clauses if clause.when is when):
            if one.condition is None:
                place = following.place or cursor.fragment
                raise place.error("only the last clause of a kind may lack a condition; this one would never apply")


# ---- COPY INTO -------------------------------------------------------------------------------------------------------


def read_copy(cursor: TokenCursor) -> Statement:
    """Read COPY INTO table FROM files, or COPY INTO directory FROM table | (query)."""
    cursor.expect("COPY", "INTO")
    if cursor.here.is_text:
        return _copy_out(cursor)
    table = cursor.qualified_name("the name of a table, or a directory in quotes")
    columns = _names(cursor) if cursor.sees("(") else None
    cursor.expect("FROM")
    path = cursor.string("the path of files, in quotes")
    kind, options = _file_format(cursor)
    known = ("PATTERN", "FORCE", "ON_ERROR", "MATCH_BY_COLUMN_NAME", "PURGE", "VALIDATION_MODE", "FILES")
    settings = _settings(cursor, known)
    return CopyIn(
        text=cursor.fragment,
        table=table,
        path=path,
        format=kind,
        options=options,
        columns=columns,
        settings=settings,
    )


def _copy_out(cursor: TokenCursor) -> CopyOut:
    path = cursor.string()
    word = cursor.here
    cursor.expect("FROM")
    if cursor.sees("("):
        query = cursor.take_bracket()
    else:
        place = cursor.qualified_name("the name of a table, or a query in brackets").place
        # `TABLE t` is the query of a whole table; it takes the place of the word FROM and the sign before it.
        query = _blank_out(word.start - 1, word.start - 1, word.end, place, instead="TABLE")
    kind, options = _file_format(cursor)
    settings = _settings(cursor, ("OVERWRITE", "SINGLE", "HEADER"))
    return CopyOut(text=cursor.fragment, path=path, query=query, format=kind, options=options, settings=settings)


def _file_format(cursor: TokenCursor) -> tuple[str, dict[str, str]]:
    """Read FILE_FORMAT = (TYPE = CSV, option = value, ...)."""
    cursor.expect("FILE_FORMAT")
    cursor.expect("=")
    start = cursor.here
    cursor.expect("(")
    options: dict[str, str] = {}
    while not cursor.sees(")"):
        name = cursor.name("an option").upper()
        cursor.expect("=")
        options[name] = _value(cursor)
        cursor.accept(",")
    cursor.expect(")")
    kind = options.pop("TYPE", "").lower()
    if kind not in _FORMATS:
        message = f"TYPE = {kind.upper() or '(missing)'}: a file format is one of {', '.join(_FORMATS).upper()}"
        raise cursor.error(message, kind=SQLSyntaxError, word=start)
    return kind, options


def _settings(cursor: TokenCursor, known: Sequence[str]) -> dict[str, str]:
    """Read KEY = value ... to the end."""
    found: dict[str, str] = {}
    while not cursor.is_done:
        if cursor.here.upper not in known:
            raise cursor.unexpected_word(f"one of {', '.join(known)}")
        name = cursor.take().upper
        cursor.expect("=")
        found[name] = _value(cursor)
    return found


def _value(cursor: TokenCursor) -> str:
    """Read a word, number or text; several texts in brackets are joined by newlines."""
    if not cursor.accept("("):
        return cursor.take().text
    texts = [cursor.string()]
    while cursor.accept(","):
        texts.append(cursor.string())
    cursor.expect(")")
    return "\n".join(texts)


GRAMMAR = {
    "WITH": read_with,
    "INSERT": read_insert,
    "UPDATE": read_update,
    "DELETE FROM": read_delete,
    "MERGE": read_merge,
    "COPY INTO": read_copy,
}
