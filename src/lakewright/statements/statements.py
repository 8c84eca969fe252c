"""Statements as frozen values.

Queries and expressions stay slices of the text (`Fragment`), because an engine evaluates them. A `Command` needs no
engine: it works on catalogs and tables alone and returns a small table.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

import pyarrow as pa

from lakewright.statements.sql_session import Session
from lakewright.statements.sql_text import Args, Fragment, Name


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement, with its own slice of the text."""

    text: Fragment = field(kw_only=True)


@dataclass(frozen=True, slots=True)
class Query(Statement):
    """A query: SELECT, WITH ... SELECT, VALUES, TABLE t, FROM t SELECT."""


@dataclass(frozen=True, slots=True)
class Explain(Statement):
    """EXPLAIN [EXTENDED | FORMATTED | COST | CODEGEN] query."""

    query: Fragment
    mode: str = ""


@dataclass(frozen=True, slots=True)
class DescribeQuery(Statement):
    """DESCRIBE [QUERY] query."""

    query: Fragment


@dataclass(frozen=True, slots=True)
class CreateView(Statement):
    """CREATE [OR REPLACE] [GLOBAL] TEMPORARY VIEW name [(columns)] AS query."""

    name: str
    query: Fragment
    replace: bool = False
    columns: tuple[str, ...] = ()
    is_global: bool = False


@dataclass(frozen=True, slots=True)
class Native(Statement):
    """A statement that is none of ours: the engine runs it as it is, or refuses it."""


@dataclass(frozen=True, slots=True)
class CatalogCommand(Statement, ABC):
    """A statement about catalogs and tables that every engine runs in the same way."""

    @abstractmethod
    def run(self, session: Session, args: Args) -> pa.Table:
        """Do it, and return what the user sees; `args` are the values of its parameters."""


# ---- changes of rows -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Insert(Statement):
    """INSERT INTO | OVERWRITE table [PARTITION (...)] [(columns) | BY NAME] query."""

    table: Name
    query: Fragment  # with the CTEs that stand before INSERT
    overwrite: bool = False
    columns: tuple[str, ...] | None = None
    by_name: bool = False
    partition: Mapping[str, Fragment | None] | None = None  # a value, or None: the query has the column
    replace_where: Fragment | None = None  # INSERT INTO t REPLACE WHERE condition


@dataclass(frozen=True, slots=True)
class CreateTableAs(Statement):
    """CREATE | REPLACE | CREATE OR REPLACE TABLE ... AS query; `create` makes the empty table of given columns."""

    create: CreatesTable
    query: Fragment


class CreatesTable(ABC):
    """What CREATE TABLE ... AS asks of the command that creates a table."""

    __slots__ = ()

    @abstractmethod
    def create_as(self, session: Session, columns: pa.Schema) -> Name | None:
        """Create the table with the columns of a query, and return the name to write to; None: nothing is to do.

        Rows are written to that name, then `finish` is called, or `undo` if the writing failed.
        """

    @abstractmethod
    def finish(self, session: Session) -> None:
        """Give the filled table its name: one that replaces another is made beside it and takes its place here."""

    @abstractmethod
    def undo(self, session: Session) -> None:
        """Remove the table that `create_as` made, because its rows could not be written."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """`column = expression` of UPDATE and MERGE; the path has several parts for a field inside a struct."""

    path: tuple[str, ...]
    value: Fragment
    place: Fragment  # of the path


@dataclass(frozen=True, slots=True)
class Update(Statement):
    """UPDATE table [AS alias] SET ... [WHERE condition]."""

    table: Name
    assignments: tuple[Assignment, ...]
    alias: str | None = None
    where: Fragment | None = None


@dataclass(frozen=True, slots=True)
class Delete(Statement):
    """DELETE FROM table [AS alias] [WHERE condition]."""

    table: Name
    alias: str | None = None
    where: Fragment | None = None


class When(Enum):
    """Which rows a clause of MERGE is for."""

    MATCHED = auto()
    NOT_MATCHED = auto()
    NOT_MATCHED_BY_SOURCE = auto()


class Action(Enum):
    """What happens to a row."""

    DELETE = auto()
    UPDATE = auto()
    INSERT = auto()


@dataclass(frozen=True, slots=True)
class MergeClause:
    """WHEN [NOT] MATCHED [BY SOURCE] [AND condition] THEN action."""

    when: When
    action: Action
    condition: Fragment | None = None
    assignments: tuple[Assignment, ...] | None = None  # of an update or insert; None: `*`
    place: Fragment | None = None


@dataclass(frozen=True, slots=True)
class MergeInto(Statement):
    """MERGE INTO table [AS alias] USING source [AS alias] ON condition clauses."""

    table: Name
    source: Fragment  # the name of a table or view, or a query in brackets
    on: Fragment
    clauses: tuple[MergeClause, ...]
    alias: str | None = None
    source_alias: str | None = None
    source_columns: tuple[str, ...] = ()  # AS alias (columns)
    evolve: bool = False  # WITH SCHEMA EVOLUTION


@dataclass(frozen=True, slots=True)
class CopyIn(Statement):
    """COPY INTO table [(columns)] FROM files FILE_FORMAT = (...) ..."""

    table: Name
    path: str
    format: str
    options: Mapping[str, str]
    columns: tuple[str, ...] | None = None
    settings: Mapping[str, str] = field(default_factory=dict)  # PATTERN, FORCE, ON_ERROR ...


@dataclass(frozen=True, slots=True)
class CopyOut(Statement):
    """COPY INTO a directory FROM table | (query) FILE_FORMAT = (...) ..."""

    path: str
    query: Fragment
    format: str
    options: Mapping[str, str]
    settings: Mapping[str, str] = field(default_factory=dict)
