"""Queries of Spark to queries of DuckDB."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import pyarrow as pa
from sqlglot import exp

from lakewright.errors import InvalidInputError, LakewrightError, UnsupportedError
from lakewright.statements.embedded.aggregate_functions import AGGREGATES, NESTED
from lakewright.statements.embedded.dialect_casts import Casts
from lakewright.statements.embedded.dialect_expressions import Expressions, TranslationContext, ordering
from lakewright.statements.embedded.dialect_values import (
    INT,
    LONG,
    NULL,
    Binder,
    Bound,
    Functions,
    PythonFunction,
    QueryScope,
    ScopedColumn,
    ScopedRelation,
    TypedSql,
    inner_relation,
    spark_type,
)
from lakewright.statements.embedded.scalar_functions import NUMBERS, TEXTS, TIMES
from lakewright.statements.embedded.variant_functions import VARIANTS
from lakewright.statements.spark_grammar import parse_fragment, place_of
from lakewright.statements.sql_text import Args, Fragment

# ---- Functions that return rows --------------------------------------------------------------------------------------

_NAMES = {f"{name}{outer}" for name in ("explode", "posexplode", "inline") for outer in ("", "_outer")}


def is_generator(node: exp.Expr) -> bool:
    """Return whether a call makes rows."""
    return isinstance(node, exp.Anonymous) and node.name.lower() in _NAMES


def bind_generator(binder: Binder, call: exp.Expr) -> tuple[str, list[ScopedColumn], bool]:
    """Return the query of a generator, its columns, and whether a row without elements gives one row of nulls."""
    if not is_generator(call):
        raise binder.unsupported_error(call, f"{call.sql('spark')} makes no rows here; {', '.join(sorted(_NAMES))} do")
    name = call.name.lower()
    value = binder.bind(call.expressions[0])
    kind, columns = value.type, []
    if pa.types.is_map(kind) and not name.startswith("inline"):
        rows = f"map_entries({value.sql})"
        columns = [
            ("key", "unnest(map_keys({0}))", kind.key_type),
            ("value", "unnest(map_values({0}))", kind.item_type),
        ]
        columns = [(column, text.format(value.sql), one) for column, text, one in columns]
    elif pa.types.is_list(kind) and name.startswith("inline") and pa.types.is_struct(kind.value_type):
        rows = value.sql
        columns = [
            (one.name, f"struct_extract(unnest({value.sql}), '{one.name}')", one.type) for one in kind.value_type
        ]
    elif pa.types.is_list(kind) and not name.startswith("inline"):
        rows = value.sql
        columns = [("col", f"unnest({value.sql})", kind.value_type)]
    else:
        raise InvalidInputError(f"{name} takes an array or a map, not {spark_type(kind)}")
    if name.startswith("pos"):
        columns.insert(0, ("pos", f"CAST(unnest(range(len({rows}))) AS INTEGER)", INT))
    text = ", ".join(f'{sql} AS "c{number}"' for number, (_, sql, _) in enumerate(columns))
    made = [ScopedColumn(column, f'"c{number}"', one) for number, (column, _, one) in enumerate(columns)]
    return f"SELECT {text}", made, name.endswith("_outer")


def table_function(binder: Binder, call: exp.Anonymous) -> Bound:
    """Return the rows of a table function."""
    if call.name.lower() == "range":
        values = [binder.cast(binder.bind(one), LONG).sql for one in call.expressions[:3]]
        sql = f'SELECT range AS "c0" FROM range({", ".join(values)})'  # noqa: S608 - numbers
        return Bound(sql, [ScopedColumn("id", '"c0"', LONG)])
    if is_generator(call):
        sql, columns, _ = bind_generator(binder, call)
        return Bound(sql, columns)
    raise binder.unsupported_error(call, f"the table function {call.name} does not run here; range and explode do")


# ---- Queries ---------------------------------------------------------------------------------------------------------
# Every relation and every column gets a name of its own in the SQL (`r1`, `c0`), so that names of the user which are
# equal, or differ in case only, never meet. Invariant: a clause that is not translated is refused.

_CLAUSES = {
    *("expressions", "from_", "joins", "laterals", "where", "group", "having", "windows", "distinct"),
    *("order", "sort", "cluster", "distribute", "limit", "offset", "with_", "hint", "alias", "this", "expression"),
    *("by_name", "comments", "side", "kind", "on"),
}
_JOINED = {
    "": "JOIN",
    "LEFT": "LEFT JOIN",
    "RIGHT": "RIGHT JOIN",
    "FULL": "FULL JOIN",
    "SEMI": "SEMI JOIN",
    "ANTI": "ANTI JOIN",
}


@dataclass(frozen=True, slots=True)
class QuerySource:
    """A table in FROM: how the query may name it, its columns, and its name or query in DuckDB."""

    qualifier: tuple[str, ...]
    columns: tuple[tuple[str, str, pa.DataType], ...]  # the name, the name in DuckDB, the type
    sql: str


class Sources(Protocol):
    """Where a query finds its tables."""

    def find(self, table: exp.Table, queries: Queries) -> QuerySource:
        """Return the table of a name; if there is none, an error that says so."""


@dataclass(slots=True)
class Queries:
    """Translates the queries of one statement."""

    env: TranslationContext
    sources: Sources
    ctes: Mapping[str, tuple[str, list[ScopedColumn]]] = field(default_factory=dict)
    aliases: Iterator[int] = field(default_factory=lambda: iter(range(1, 1_000_000)))

    def alias(self) -> str:
        """Return a name that no other relation of the statement has."""
        return f"r{next(self.aliases)}"

    def unsupported_error(self, node: exp.Expr, message: str) -> UnsupportedError:
        """Return the error for something that does not run in this process."""
        return self.env.fragment.error(message, place_of(node), UnsupportedError)

    def wrong(self, node: exp.Expr, message: str) -> InvalidInputError:
        """Return the error for a query that is wrong."""
        return self.env.fragment.error(message, place_of(node), InvalidInputError)

    # ---- queries

    def query(self, node: exp.Expr, outer: QueryScope | None = None) -> Bound:
        """Return a query."""
        for key, value in node.args.items():
            if value and key not in _CLAUSES:
                raise self.unsupported_error(
                    node, f"{key.rstrip('_').upper().replace('_', ' ')} in a query does not run here"
                )
        if (with_ := node.args.get("with_")) is not None:
            return self._with(node, with_, outer)
        match node:
            case exp.Subquery() | exp.Paren():
                return self._with_order_and_limit(node, self.query(node.this, outer))
            case exp.Select():
                return _Block(self, node, QueryScope(outer)).bound()
            case exp.SetOperation():
                return self._with_order_and_limit(node, self._set_operation(node, outer))
            case exp.Values():
                return self._values(node, outer)
            case exp.Table():
                return self.query(exp.select("*").from_(node), outer)
        raise self.unsupported_error(node, "this is no query that runs here")

    def _with(self, node: exp.Expr, with_: exp.Expr, outer: QueryScope | None) -> Bound:
        if with_.args.get("recursive"):
            raise self.unsupported_error(node, "WITH RECURSIVE does not run here")
        inner, parts = self, []
        for cte in with_.expressions:
            bound = inner.query(cte.this, outer)
            names = [one.name for one in cte.args["alias"].args.get("columns") or []]
            columns = self.rename_columns(cte, bound.columns, names)
            alias = self.alias()
            parts.append(f"{alias} AS ({bound.sql})")
            inner = replace(inner, ctes={**inner.ctes, cte.alias.lower(): (alias, columns)})
        bare = node.copy()
        bare.set("with_", None)
        bound = inner.query(bare, outer)
        sql = f"WITH {', '.join(parts)} SELECT * FROM ({bound.sql}) AS {self.alias()}"  # noqa: S608 - bound
        return Bound(sql, bound.columns)

    def rename_columns(
        self, node: exp.Expr, columns: Sequence[ScopedColumn], names: Sequence[str]
    ) -> list[ScopedColumn]:
        """Return columns with the names of `t(a, b)`."""
        if names and len(names) != len(columns):
            raise self.wrong(node, f"{len(names)} names are given for {len(columns)} columns")
        return (
            [replace(column, name=name) for column, name in zip(columns, names, strict=True)]
            if names
            else list(columns)
        )

    def _with_order_and_limit(self, node: exp.Expr, bound: Bound) -> Bound:
        """Return a query with the ORDER BY and LIMIT that stand behind it."""
        order, alias = node.args.get("order"), self.alias()
        tail = self.limits(node)
        if order is None and not tail:
            return bound
        scope = QueryScope(None, [inner_relation(alias, (), [(c.name, c.sql, c.type) for c in bound.columns])])
        binder = self.expressions(scope)
        given = order.expressions if order is not None else []
        items = [_ordinal(one, len(bound.columns)) or binder.bind_order_item(one)[0] for one in given]
        sort = f" ORDER BY {', '.join(items)}" if items else ""
        sql = f"SELECT * FROM ({bound.sql}) AS {alias}{sort}{tail}"  # noqa: S608 - bound
        return Bound(sql, bound.columns)

    def limits(self, node: exp.Expr) -> str:
        """Return LIMIT and OFFSET."""
        text, binder = "", self.expressions(QueryScope())
        for word in ("limit", "offset"):
            clause = node.args.get(word)
            inner = clause.expression if clause is not None else None
            if inner is None or (isinstance(inner, exp.Var) and inner.name.upper() == "ALL"):
                continue
            value = binder.bind(inner)
            if not isinstance(value.literal, int) or value.literal < 0:
                raise self.wrong(inner, f"{word.upper()} takes a whole number of 0 or more")
            text += f" {word.upper()} {value.literal}"
        return text

    def expressions(self, scope: QueryScope, windows: Mapping[str, exp.Expr] | None = None) -> Expressions:
        """Return the binder of expressions in a scope."""

        def subquery(node: exp.Expr, outer: QueryScope) -> tuple[str, list[ScopedColumn]]:
            bound = self.query(node, outer)
            return bound.sql, bound.columns

        return Expressions(self.env, scope, subquery, windows or {})

    # ---- set operations and VALUES

    def _set_operation(self, node: exp.SetOperation, outer: QueryScope | None) -> Bound:
        left, right = self.query(node.this, outer), self.query(node.expression, outer)
        if node.args.get("by_name"):
            raise self.unsupported_error(node, "UNION BY NAME does not run here")
        if len(left.columns) != len(right.columns):
            counts = f"{len(left.columns)} and {len(right.columns)}"
            raise self.wrong(node, f"both sides must have the same number of columns, not {counts}")
        binder, kinds = self.expressions(QueryScope()), []
        sides: tuple[list[str], list[str]] = ([], [])
        for number, pair in enumerate(zip(left.columns, right.columns, strict=True)):
            values = [TypedSql(f'"c{number}"', one.type, one.name) for one in pair]
            try:
                both = binder.common(values)
            except LakewrightError as error:
                raise binder.with_place(node, error) from None
            kinds.append(both[0].type)
            for side, value in zip(sides, both, strict=True):
                side.append(f'{value.sql} AS "c{number}"')
        word = type(node).__name__.upper() + ("" if node.args.get("distinct") else " ALL")
        texts = [
            f"(SELECT {', '.join(side)} FROM ({bound.sql}) AS {self.alias()})"  # noqa: S608 - bound
            for side, bound in zip(sides, (left, right), strict=True)
        ]
        columns = [replace(column, type=kind) for column, kind in zip(left.columns, kinds, strict=True)]
        return Bound(f"{texts[0]} {word} {texts[1]}", columns)

    def _values(self, node: exp.Values, outer: QueryScope | None) -> Bound:
        binder = self.expressions(QueryScope(outer))
        rows = [
            [binder.bind(one) for one in (row.expressions if isinstance(row, exp.Tuple) else [row])]
            for row in node.expressions
        ]
        if len({len(row) for row in rows}) != 1:
            raise self.wrong(node, "the rows of VALUES must have the same number of values")
        across = [binder.common(column) for column in zip(*rows, strict=True)]
        texts = [
            "SELECT " + ", ".join(f'{value.sql} AS "c{number}"' for number, value in enumerate(row))
            for row in zip(*across, strict=True)
        ]
        names = [one.name for one in (node.args["alias"].args.get("columns") or [])] if node.args.get("alias") else []
        columns = [
            ScopedColumn(f"col{number}", f'"c{number - 1}"', one[0].type) for number, one in enumerate(across, 1)
        ]
        return Bound(" UNION ALL ".join(texts), self.rename_columns(node, columns, names))


def _ordinal(node: exp.Expr, count: int) -> str | None:
    inner = node.this if isinstance(node, exp.Ordered) else node
    if not isinstance(inner, exp.Literal) or inner.is_string or not inner.name.isdecimal():
        return None
    if not 1 <= int(inner.name) <= count:
        raise InvalidInputError(f"ORDER BY {inner.name}: the query has {count} columns")
    return ordering(node, inner.name)


@dataclass(slots=True)
class _Block:
    """One SELECT."""

    queries: Queries
    node: exp.Select
    scope: QueryScope
    from_: str = ""
    items: list[TypedSql] = field(default_factory=list)

    def bound(self) -> Bound:
        """Return the query."""
        node, args = self.node, self.node.args
        self._from(args.get("from_"), args.get("joins") or [], args.get("laterals") or [])
        wanted = self._expand_generators(node.expressions)
        windows = {one.name.lower(): one for one in args.get("windows") or []}
        binder = self.queries.expressions(self.scope, windows)
        where = f" WHERE {binder.condition(args['where'].this)}" if args.get("where") else ""
        self._select(binder, wanted)
        named = self._columns_by_name()
        after = self.queries.expressions(replace(self.scope, first=named), windows)
        group = self._group(args.get("group"), binder)
        having = f" HAVING {after.condition(args['having'].this)}" if args.get("having") else ""
        tail = self._order(after) + self.queries.limits(node)
        columns = [ScopedColumn(value.name, f'"c{n}"', value.type) for n, value in enumerate(self.items)]
        chosen = ", ".join(f'{value.sql} AS "c{n}"' for n, value in enumerate(self.items))
        distinct = args.get("distinct")
        if distinct is not None and distinct.args.get("on"):
            raise self.queries.unsupported_error(node, "DISTINCT ON does not run here")
        sql = f"SELECT {'DISTINCT ' if distinct is not None else ''}{chosen}{self.from_}{where}{group}{having}{tail}"
        return Bound(sql, columns)

    # ---- FROM

    def _from(self, from_: exp.Expr | None, joins: Sequence[exp.Expr], laterals: Sequence[exp.Expr]) -> None:
        if from_ is not None:
            sql, relation = self._item(from_.this)
            self.from_ = f" FROM {sql}"
            self.scope.relations.append(relation)
            joins = [*(from_.this.args.get("joins") or []), *joins]
        for join in joins:
            self._join(join)
        for lateral in laterals:
            self._generator(lateral.this, lateral.args.get("alias"), outer=bool(lateral.args.get("outer")))

    def _item(self, node: exp.Expr) -> tuple[str, ScopedRelation]:
        alias, given = self.queries.alias(), node.args.get("alias")
        name = (given.name,) if given is not None and given.name else ()
        names = [one.name for one in given.args.get("columns") or []] if given is not None else []
        for clause in ("sample", "pivots", "match_recognize"):
            if node.args.get(clause):
                raise self.queries.unsupported_error(node, f"{clause.upper()} does not run here")
        match node:
            case exp.Table() if isinstance(node.this, exp.Anonymous):
                bound = table_function(self.queries.expressions(QueryScope()), node.this)
            case exp.Table() if not node.db and node.name.lower() in self.queries.ctes:
                inner, columns = self.queries.ctes[node.name.lower()]
                return f"{inner} AS {alias}", self._relation(node, alias, name or (node.name,), columns, names)
            case exp.Table():
                return self._table(node, alias, name, names)
            case exp.Lateral():
                bound = self.queries.query(node.this, self.scope)
                return f"LATERAL ({bound.sql}) AS {alias}", self._relation(node, alias, name, bound.columns, names)
            case exp.Values():
                bound, names = self.queries.query(node, self.scope.outer), []
            case _:
                bound = self.queries.query(node, self.scope.outer)
        return f"({bound.sql}) AS {alias}", self._relation(node, alias, name, bound.columns, names)

    def _table(
        self, node: exp.Table, alias: str, name: tuple[str, ...], names: list[str]
    ) -> tuple[str, ScopedRelation]:
        source = self.queries.sources.find(node, self.queries)
        columns = [ScopedColumn(column, inner, kind) for column, inner, kind in source.columns]
        relation = self._relation(node, alias, name or source.qualifier, columns, names)
        return f"{source.sql} AS {alias}", relation

    def _relation(
        self, node: exp.Expr, alias: str, name: tuple[str, ...], columns: list[ScopedColumn], names: list[str]
    ) -> ScopedRelation:
        renamed = self.queries.rename_columns(node, columns, names)
        return inner_relation(alias, name, [(column.name, column.sql, column.type) for column in renamed])

    def _join(self, join: exp.Expr) -> None:
        args = join.args
        kind, side = str(args.get("kind") or "").upper(), str(args.get("side") or "").upper()
        sql, right = self._item(join.this)
        word = _JOINED.get(kind if kind in {"SEMI", "ANTI"} else side)
        if word is None:
            raise self.queries.unsupported_error(join, f"{side} {kind} JOIN does not run here")
        left = QueryScope(
            self.scope.outer, list(self.scope.relations), dict(self.scope.merged), list(self.scope.hidden)
        )
        both = QueryScope(self.scope.outer, [*left.relations, right], dict(left.merged), list(left.hidden))
        using = [one.name for one in args.get("using") or []]
        if str(args.get("method") or "").upper() == "NATURAL":
            using = [one.name for one in left.visible() if right.columns_named(one.name)]
        if using:
            condition = self._using(join, left, both, right, using, side)
        elif args.get("on") is not None:
            condition = self.queries.expressions(both).condition(args["on"])
        else:
            condition = ""
        if not condition:
            word = "CROSS JOIN" if word == "JOIN" else word
            condition = "" if word == "CROSS JOIN" else "TRUE"
        self.from_ += f" {word} {sql}" + (f" ON {condition}" if condition else "")
        if word not in {"SEMI JOIN", "ANTI JOIN"}:
            self.scope.relations.append(right)
            self.scope.merged, self.scope.hidden = both.merged, both.hidden

    def _using(
        self, join: exp.Expr, left: QueryScope, both: QueryScope, right: ScopedRelation, names: Sequence[str], side: str
    ) -> str:
        binder, parts = self.queries.expressions(both), []
        for name in names:
            one, _ = left.resolve([name])
            found = right.columns_named(name)
            if len(found) != 1:
                raise self.queries.wrong(join, f"USING ({name}): the right side has {len(found)} columns of that name")
            first, second = binder.common([one, found[0].value(name)])
            parts.append(f"{first.sql} = {second.sql}")
            kept = {"RIGHT": second.sql, "FULL": f"coalesce({first.sql}, {second.sql})"}.get(side, first.sql)
            both.hidden += [c for r in both.relations for c in r.columns_named(name)]
            both.merged[name.lower()] = ScopedColumn(name, kept, first.type)
        return " AND ".join(parts)

    def _generator(self, call: exp.Expr, given: exp.Expr | None, *, outer: bool) -> ScopedRelation:
        binder, alias = self.queries.expressions(self.scope), self.queries.alias()
        names = [one.name for one in given.args.get("columns") or []] if given is not None else []
        sql, columns, is_outer = bind_generator(binder, call)
        joined = "LEFT JOIN" if outer or is_outer else "JOIN"
        lateral = f"LATERAL ({sql}) AS {alias}"
        if not self.from_:
            self.from_ = f" FROM (SELECT 1) AS {self.queries.alias()} {joined} {lateral} ON TRUE"
        else:
            self.from_ += f" {joined} {lateral} ON TRUE"
        relation = self._relation(
            call, alias, (given.name,) if given is not None and given.name else (), columns, names
        )
        self.scope.relations.append(relation)
        return relation

    def _expand_generators(self, items: Sequence[exp.Expr]) -> list[exp.Expr | ScopedRelation]:
        """Return the items of SELECT with each generator, such as explode, as a relation of its own."""
        out: list[exp.Expr | ScopedRelation] = []
        for item in items:
            call = item.this if isinstance(item, exp.Alias | exp.Aliases) else item
            if not is_generator(call):
                out.append(item)
                continue
            if self.node.args.get("group") is not None:
                raise self.queries.unsupported_error(
                    item, "explode beside GROUP BY does not run here: explode in a subquery"
                )
            names = [one.name for one in item.expressions] if isinstance(item, exp.Aliases) else []
            names = [item.alias] if isinstance(item, exp.Alias) else names
            alias = exp.TableAlias(columns=[exp.to_identifier(name) for name in names])
            visible = list(self.scope.relations)
            out.append(self._generator(call, alias, outer=False))
            self.scope.relations = visible
        return out

    # ---- SELECT

    def _select(self, binder: Expressions, wanted: Sequence[exp.Expr | ScopedRelation]) -> None:
        for item in wanted:
            if isinstance(item, ScopedRelation):
                self.items += [column.value(column.name) for column in item.columns]
            elif isinstance(item, exp.Star):
                self.items += self._star(item, list(self.scope.visible()))
            elif isinstance(item, exp.Column) and isinstance(item.this, exp.Star):
                self.items += self._qualified_star(binder, item)
            elif isinstance(item, exp.Alias):
                value = binder.bind(item.this).with_name(item.alias)
                self.items.append(value)
                self.scope.last.setdefault(item.alias.lower(), value)
            else:
                self.items.append(binder.bind(item))
        if not self.items:
            raise self.queries.wrong(self.node, "SELECT has no columns")

    def _qualified_star(self, binder: Expressions, item: exp.Column) -> list[TypedSql]:
        parts = [part.name for part in item.parts[:-1]]
        try:
            columns = self.scope.find_relation(parts).columns
        except InvalidInputError as error:
            value = None
            if len(parts) == 1:
                value = next(
                    (one.value(one.name) for one in self.scope.visible() if one.name.lower() == parts[0].lower()), None
                )
            if value is not None and pa.types.is_struct(value.type):
                return [binder.field_of(value, one.name) for one in value.type]
            raise binder.with_place(item, error) from None
        return self._star(item.this, columns)

    def _star(self, star: exp.Expr, columns: Sequence[ScopedColumn]) -> list[TypedSql]:
        if star.args.get("replace") or star.args.get("rename"):
            raise self.queries.unsupported_error(star, "* REPLACE and * RENAME do not run here")
        left_out = {one.name.lower() for one in star.args.get("except_") or star.args.get("except") or []}
        missing = left_out - {column.name.lower() for column in columns}
        if missing:
            raise self.queries.wrong(star, f"* EXCEPT names {', '.join(sorted(missing))}, which is no column here")
        return [column.value(column.name) for column in columns if column.name.lower() not in left_out]

    def _columns_by_name(self) -> dict[str, TypedSql]:
        """Return the columns of the result by name; a name that two have is left out."""
        names = [value.name.lower() for value in self.items]
        return {name: value for name, value in zip(names, self.items, strict=True) if names.count(name) == 1}

    # ---- GROUP BY and ORDER BY

    def _group(self, group: exp.Expr | None, binder: Expressions) -> str:
        if group is None:
            return ""
        if group.args.get("all"):
            return " GROUP BY ALL"
        parts = [self._grouping(one, binder) for one in group.expressions]
        for word in ("rollup", "cube", "grouping_sets"):
            for one in group.args.get(word) or []:
                inner = [self._grouping(item, binder) for item in getattr(one, "expressions", [])]
                parts = [f"{word.upper().replace('_', ' ')} ({', '.join(inner or parts)})", *(parts if inner else [])]
        return f" GROUP BY {', '.join(parts)}"

    def _grouping(self, node: exp.Expr, binder: Expressions) -> str:
        match node:
            case exp.Rollup() | exp.Cube() | exp.GroupingSets():
                word = {exp.Rollup: "ROLLUP", exp.Cube: "CUBE"}.get(type(node), "GROUPING SETS")
                return f"{word} ({', '.join(self._grouping(one, binder) for one in node.expressions)})"
            case exp.Tuple():
                return f"({', '.join(self._grouping(one, binder) for one in node.expressions)})"
            case exp.Paren():
                return f"({self._grouping(node.this, binder)})"
            case exp.Literal() if not node.is_string and node.name.isdecimal():
                number = int(node.name)
                if not 1 <= number <= len(self.items):
                    raise self.queries.wrong(node, f"GROUP BY {number}: the query has {len(self.items)} columns")
                return self.items[number - 1].sql
        return binder.bind(node).sql

    def _order(self, binder: Expressions) -> str:
        order = next((found for key in ("order", "sort", "cluster") if (found := self.node.args.get(key))), None)
        if order is None:
            return ""
        items = []
        for one in order.expressions:
            inner = one.this if isinstance(one, exp.Ordered) else one
            if isinstance(inner, exp.Var) and inner.name.upper() == "ALL":
                items += [ordering(one, str(number + 1)) for number in range(len(self.items))]
                continue
            items.append(_ordinal(one, len(self.items)) or self._placed_order(one, inner, binder))
        return f" ORDER BY {', '.join(items)}"

    def _placed_order(self, one: exp.Expr, inner: exp.Expr, binder: Expressions) -> str:
        value = binder.bind(inner)
        for number, item in enumerate(self.items, 1):
            if item.sql == value.sql and item.type != NULL:
                return ordering(one, str(number))
        return ordering(one, value.sql)


# ---- Translation of a statement --------------------------------------------------------------------------------------

_SCALAR = {**TEXTS, **NUMBERS, **NESTED, **TIMES, **VARIANTS}


@dataclass(frozen=True, slots=True)
class Translated:
    """A query of DuckDB."""

    bound: Bound
    functions: Iterable[PythonFunction]


def translate(query: Fragment, args: Args, sources: Sources, zone: str) -> Translated:
    """Return a query for DuckDB that means what Spark means."""
    functions = Functions()
    env = TranslationContext(query, args, Casts(functions, zone), functions, _SCALAR, AGGREGATES)
    bound = Queries(env, sources).query(parse_fragment(query))
    return Translated(bound, functions.needed.values())
