"""Whose table a plain call of PySpark names, and statements under `install`.

Invariant: a name of three parts belongs to the catalog that it names; a shorter one to the current catalog, and
while that is an installed one also to Spark's, if only Spark has it. A short name that both have is refused, because
statements would read one table and subqueries in `where("...")` the other.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import fields
from itertools import pairwise
from typing import Any
from uuid import uuid4

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from lakewright.catalog.catalog import Catalog
from lakewright.errors import InvalidInputError, LakewrightError, NotFoundError, UnsupportedError
from lakewright.spark.source_options import FORMAT
from lakewright.spark.spark_session import is_connect, own_calls
from lakewright.spark.spark_sql_context import SQLContext
from lakewright.spec.identifier import quote_identifier
from lakewright.statements.bind_tables import bind
from lakewright.statements.call_statement import CallProcedure, DescribeProcedure, ShowProcedures
from lakewright.statements.catalog_commands import (
    AlterDatabase,
    CreateDatabase,
    DescribeCatalog,
    DescribeDatabase,
    DropDatabase,
    ShowCatalogs,
    ShowCurrent,
    ShowDatabases,
    ShowTableExtended,
    ShowTables,
    Use,
)
from lakewright.statements.parser import ChangeSetting, ResetAll, ShowSettings, parse_statement
from lakewright.statements.spark_grammar import FragmentKind, read_piece
from lakewright.statements.sql_context import checked_args
from lakewright.statements.sql_session import DEFAULT_DATABASE, command_rows, matching
from lakewright.statements.sql_text import Args, Fragment, Name
from lakewright.statements.statements import (
    CatalogCommand,
    CopyIn,
    CopyOut,
    CreateTableAs,
    CreateView,
    Delete,
    DescribeQuery,
    Explain,
    Insert,
    MergeInto,
    Query,
    Statement,
    Update,
)
from lakewright.statements.table_commands import CreateTable, CreateTableLike
from lakewright.statements.table_lookup import SETTING
from lakewright.statements.table_references import find_references
from lakewright.statements.token_cursor import TokenCursor, words_of
from lakewright.table.table_views import ReadableTable

SPARK = "spark_catalog"  # the current catalog as long as it is not an installed one
_PLACES = {"current_database", "current_schema", "current_catalog"}
_QUERY = re.compile(r"[\s(]*(SELECT|WITH|VALUES|FROM|TABLE|EXPLAIN|DESC|DESCRIBE|SHOW)\b", re.IGNORECASE)


class InstalledContext(SQLContext):
    """Runs the statements of one session that name tables of our catalogs, and leaves the others to Spark."""

    def __init__(self, spark: SparkSession, catalogs: Mapping[str, Catalog], default: str | None) -> None:
        super().__init__(spark, catalogs)
        name, _, database = (default or SPARK).partition(".")
        self.catalog_name, self.database = name, database or DEFAULT_DATABASE

    @property
    def is_current(self) -> bool:
        """Whether the current catalog is an installed one."""
        return self.catalog_name in self.catalogs

    # ---- statements

    def route(self, text: str, args: Args | None, values: Mapping[str, Any]) -> DataFrame | None:
        """Run a statement that is ours; None: Spark runs it, as the user wrote it."""
        if not self._may_be_ours(text):
            return None
        with own_calls():
            text, given = self._with_values(text, values)
            try:
                placed = self._with_current(text) if self.is_current else text
                statement: Statement | None = parse_statement(placed)
            except LakewrightError:
                if _begins_query(text):  # Spark knows more syntax; it would not find a Paimon table
                    return None
                target = _created_table(text)
                if target is None and not self.is_current and not self._names_catalog(text):
                    return None
                if target is None or self.is_ours(target, creates=True):
                    raise
                statement = None
            with self.with_frames(given):
                if statement is None:
                    return self._create_in_spark(placed, checked_args(args))
                return self._route_statement(statement, checked_args(args), is_changed=placed != text)

    def _with_values(self, text: str, values: Mapping[str, Any]) -> tuple[str, dict[str, DataFrame]]:
        """Return text in which values by keyword are written, and frames by the names they have there."""
        frames: dict[str, DataFrame] = {}
        for name, value in values.items():
            if hasattr(value, "createOrReplaceTempView") and f"{{{name}}}" in text:
                view = f"lakewright_{name}_{uuid4().hex[:8]}"
                text, frames[view] = text.replace(f"{{{name}}}", f"`{view}`"), value
        others = {name: value for name, value in values.items() if f"{{{name}}}" in text}
        if others:
            module = "pyspark.sql.connect.sql_formatter" if is_connect(self.spark) else "pyspark.sql.sql_formatter"
            formatter: Any = importlib.import_module(module).SQLStringFormatter(self.spark)
            text = formatter.format(text, **others)
        return text, frames

    def _route_statement(self, statement: Statement, args: Args, *, is_changed: bool) -> DataFrame | None:
        match statement:
            case Query():
                bound = bind(self, self, [statement.text], args)
                return self.evaluate(bound, args) if bound.relations or is_changed else None
            case DescribeQuery() | Explain() | CreateView():
                return self.run(statement, args) if is_changed or self._reads_ours(statement.query, args) else None
            case Insert() | CreateTableAs():
                target = statement.table if isinstance(statement, Insert) else _created_name(statement)
                if self.is_ours(target, creates=isinstance(statement, CreateTableAs)):
                    return self.run(statement, args)
                return self._into_spark(statement.query, args)
            case CopyIn() | Update() | Delete() | MergeInto():
                return self.run(statement, args) if self.is_ours(statement.table) else None
            case CopyOut():
                return self.run(statement, args) if self._reads_ours(statement.query, args) else None
            case CatalogCommand():
                return self._command(statement, args)
        return None

    def write(self, statement: Insert | CreateTableAs | CopyIn | CopyOut, args: Args) -> pa.Table:
        """Write the rows of a query or of files; INSERT and CREATE TABLE AS return nothing, as in Spark."""
        done = super().write(statement, args)
        return pa.table({}) if isinstance(statement, Insert | CreateTableAs) else done

    def _reads_ours(self, query: Fragment, args: Args) -> bool:
        return bool(bind(self, self, [query], args).relations)

    def _into_spark(self, query: Fragment, args: Args) -> DataFrame | None:
        """Run a statement that writes a table of Spark by a query at its end, if that reads Paimon tables."""
        bound = bind(self, self, [query], args)
        if not bound.relations or query.text == query.whole or query.whole[query.end :].strip(" ;\n"):
            return None
        return self.evaluate(bound, args, before=query.whole[: query.start])

    def _create_in_spark(self, text: str, args: Args) -> DataFrame | None:
        """Run CREATE TABLE ... AS for a table of Spark, whose clauses are not ours to know."""
        words = words_of(text)
        for word, after in pairwise(words):
            if word.upper == "AS" and _QUERY.match(text, after.start):
                return self._into_spark(Fragment(text, after.start, words[-1].end), args)
        return None

    def query_table(self, name: str) -> DataFrame:
        """Return the rows of a Paimon table."""
        return self.sql(f"TABLE {name}")

    # ---- commands

    def _command(self, statement: CatalogCommand, args: Args) -> DataFrame | None:
        match statement:
            case Use():
                return self._use(statement, args)
            case ShowCatalogs():
                return self._show_catalogs(statement)
            case ChangeSetting() if statement.key.startswith(SETTING):
                return self.run(statement, args)
            case ShowSettings() | ChangeSetting() | ResetAll():
                return None
            case ShowCurrent():
                return self.run(statement, args) if self.is_current else None
        catalog = self._catalog_of(statement)
        if catalog is None:
            return None
        # Other threads use this context at the same time, so that it stays where it is.
        return self.at(catalog, self.database if catalog == self.catalog_name else DEFAULT_DATABASE).run(
            statement, args
        )

    def _catalog_of(self, statement: CatalogCommand) -> str | None:
        """Return the installed catalog that a command is about; None: it is about Spark's."""
        own = self.catalog_name if self.is_current else None
        first: str | None
        match statement:
            case CreateDatabase() | DropDatabase() | AlterDatabase() | DescribeDatabase():
                first, own = (statement.name.parts[0], None) if len(statement.name.parts) > 1 else (None, own)
            case ShowTables() | ShowTableExtended():
                parts = () if statement.database is None else statement.database.parts
                first, own = (parts[0], None) if len(parts) > 1 else (None, own)
            case ShowDatabases():
                first, own = (str(statement.catalog), None) if statement.catalog is not None else (None, own)
            case DescribeCatalog():
                first, own = str(statement.name), None
            case CallProcedure():
                first, own = (statement.catalog, None) if statement.catalog is not None else (None, own)
            case ShowProcedures() | DescribeProcedure():
                first = None
            case _:
                name = self._name_of(statement)
                if name is None or not self.is_ours(name, creates=isinstance(statement, CreateTable | CreateTableLike)):
                    return None
                first = name.parts[0] if len(name.parts) > 2 else None  # noqa: PLR2004 - catalog, database, table
        return first if first in self.catalogs else own

    @staticmethod
    def _name_of(statement: CatalogCommand) -> Name | None:
        named = (getattr(statement, one.name) for one in fields(statement) if one.name in {"name", "table"})
        return next((name for name in named if isinstance(name, Name)), None)

    def _use(self, statement: Use, args: Args) -> DataFrame | None:
        parts = statement.name.parts
        if parts[0] in self.catalogs or (self.is_current and len(parts) == 1 and not self._is_of_spark(parts[0])):
            return self.run(statement, args)
        done = self.spark.sql(statement.text.text)
        self.leave()
        return done

    def leave(self) -> None:
        """Note that a catalog of Spark is the current one."""
        self.catalog_name, self.database = SPARK, DEFAULT_DATABASE

    def _is_of_spark(self, catalog: str) -> bool:
        return catalog == SPARK or any(one[0] == catalog for one in self.spark.sql("SHOW CATALOGS").collect())

    def _show_catalogs(self, statement: ShowCatalogs) -> DataFrame:
        names = {row[0] for row in self.spark.sql("SHOW CATALOGS").collect()} | self.catalogs.keys()
        return self.rows(
            command_rows({"catalog": False}, [(one,) for one in matching(sorted(names), statement.pattern)])
        )

    # ---- names

    def name(self, text: str) -> Name:
        """Return the name of a table that a call of PySpark gives as text."""
        whole = Fragment(text, 0, len(text))
        return TokenCursor(whole).qualified_name()

    def is_ours(self, name: Name, *, creates: bool = False) -> bool:
        """Return whether a name means a Paimon table, which may still have to be made if a call `creates` it."""
        if len(name.parts) > 2:  # noqa: PLR2004 - catalog, database, table
            return name.parts[0] in self.catalogs
        if not self.is_current:
            return False
        if self.has(name):
            return not self.is_hidden(name)
        return creates and self._in_spark(name) is None

    def find(self, text: str) -> ReadableTable | None:
        """Return the Paimon table that a name means; None: the name is Spark's."""
        try:
            name = self.name(text)
        except LakewrightError:
            return None
        return self.table(name) if self.is_ours(name) else None

    def has(self, name: Name) -> bool:
        """Return whether our catalog has a table."""
        catalog, identifier = self.resolve(name)
        try:
            catalog.get_table(identifier)
        except (NotFoundError, InvalidInputError):
            return False
        return True

    def is_hidden(self, name: Name) -> bool:
        """Return whether a temporary view has the name of a table; a table of Spark with the same name is refused."""
        if len(name.parts) > 2:  # noqa: PLR2004 - catalog, database, table
            return False
        found = self._in_spark(name)
        if found == "TABLE":
            _, identifier = self.resolve(name)
            own = f"{self.catalog_name}.{identifier.get_full_name()}"
            raise name.place.error(
                f"the name {name} is ambiguous: there is {own}, and Spark's catalog has a table of this name; write "
                f"{own}, or {SPARK}.{'.'.join(name.parts)}",
                kind=InvalidInputError,
                table=str(name),
            )
        return found == "VIEW"

    def _in_spark(self, name: Name) -> str | None:
        """Return what Spark calls by a name: VIEW for a temporary one, TABLE, or None; also for published tables."""
        text = ".".join(map(quote_identifier, name.parts))
        with own_calls(), suppress(PySparkException):
            if is_connect(self.spark):
                if not self.spark.catalog.tableExists(text):
                    return None
                kind = self.spark.catalog.getTable(text)
                return "VIEW" if kind.isTemporary else self._unless_published(text)
            state = self.spark._jsparkSession.sessionState()  # noqa: SLF001 - the public call takes 30 ms for a name
            known, parsed = state.catalog(), state.sqlParser().parseTableIdentifier(text)
            if known.isTempView(parsed):
                return "VIEW"
            return self._unless_published(text) if known.tableExists(parsed) else None
        return None

    def _unless_published(self, text: str) -> str | None:
        """Return TABLE, or None for a table that `publish` made: it is the same as ours."""
        rows = self.spark.sql(f"DESCRIBE TABLE EXTENDED {text}").collect()
        provider = next((str(row[1]) for row in rows if row[0] == "Provider"), "")
        return None if FORMAT in provider else "TABLE"

    def check_text(self, text: str) -> None:
        """Refuse Paimon tables in a condition or expression that Spark itself looks up."""
        if "select" not in text.lower() or not (self.is_current or self._names_catalog(text)):
            return
        try:
            references = find_references(read_piece(Fragment(text, 0, len(text)), FragmentKind.EXPRESSION))
        except LakewrightError:
            return
        for one in references:
            if one.call is None and self.is_ours(one.name):
                raise one.name.place.error(
                    f"Spark does not know the table {one.name} in a condition given as text: write the whole query "
                    "with spark.sql(...), or join the frames",
                    kind=UnsupportedError,
                    table=str(one.name),
                )

    # ---- what a text may be about

    def _may_be_ours(self, text: str) -> bool:
        """Return False for texts that cannot be about Paimon tables, without reading them."""
        if self.is_current:
            return True
        lower = text.lower()
        return (
            self._names_catalog(text)
            or SETTING in lower
            or any(view in lower for view in self._views)
            or lower.lstrip().startswith("show catalogs")
        )

    def _names_catalog(self, text: str) -> bool:
        return any(name in text for name in self.catalogs)

    def _with_current(self, text: str) -> str:
        """Return text with literals in place of the functions that tell the current catalog and database."""
        if not _asks_place(text):
            return text
        words = words_of(text)
        changes: dict[tuple[int, int], str] = {}
        for at, word in enumerate(words[:-2]):
            if (
                word.text.lower() in _PLACES
                and not word.is_text
                and [w.text for w in words[at + 1 : at + 3]] == ["(", ")"]
            ):
                value = self.catalog_name if word.text.lower() == "current_catalog" else self.database
                is_column = (
                    at > 0
                    and words[at - 1].upper in {"SELECT", ","}
                    and (at + 3 == len(words) or words[at + 3].upper in {",", "FROM", ";"})
                )
                alias = f" AS `{word.text.lower()}()`" if is_column and _depth(words[:at]) == 0 else ""
                changes[word.start, words[at + 2].end] = f"'{value}'{alias}"
        return Fragment(text, 0, len(text)).replace_at(changes)


def _asks_place(text: str) -> bool:
    return re.search(r"\bcurrent_(database|schema|catalog)\b", text, re.IGNORECASE) is not None


def _depth(words: Iterable[Any]) -> int:
    return sum((word.text == "(") - (word.text == ")") for word in words if not word.is_text)


def _begins_query(text: str) -> bool:
    return (
        re.match(r"[\s(]*(SELECT|WITH|VALUES|FROM|TABLE|EXPLAIN|DESC|DESCRIBE|SHOW)\b", text, re.IGNORECASE) is not None
    )


def _created_table(text: str) -> Name | None:
    """Return the name of the table or view that a text begins to create."""
    cursor = TokenCursor(Fragment(text, 0, len(text)))
    if not (cursor.accept("CREATE") or cursor.sees("REPLACE")):
        return None
    cursor.accept("OR")
    for word in ("REPLACE", "EXTERNAL"):
        cursor.accept(word)
    if not (cursor.accept("TABLE") or cursor.accept("VIEW")):
        return None
    cursor.accept("IF", "NOT", "EXISTS")
    return cursor.qualified_name()


def _created_name(statement: CreateTableAs) -> Name:
    name: Name = statement.create.name  # type: ignore[attr-defined] # every implementation has one
    return name
