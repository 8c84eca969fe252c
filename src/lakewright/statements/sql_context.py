"""What both `SQLContext`s share.

text -> statements (parse) -> a command, or a query or change that the engine of the context evaluates -> rows

Invariant: every statement returns rows; a statement that fails changes nothing; a script stops at the first
error and says where.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Generic, TypeVar

import pyarrow as pa

from lakewright.errors import InvalidInputError, LakewrightError, UnsupportedError
from lakewright.spec import argument_checks
from lakewright.statements.parser import parse_script, parse_statement
from lakewright.statements.sql_session import Session
from lakewright.statements.sql_text import Args, Fragment
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
    Native,
    Query,
    Statement,
    Update,
)
from lakewright.statements.token_cursor import nesting_depth

Rows = TypeVar("Rows")  # what the engine of a context returns
COUNTS = pa.schema(
    [(f"num_{what}_rows", pa.int64()) for what in ("affected", "inserted", "updated", "deleted")]
)  # of a change


class Context(Session, Generic[Rows]):
    """Runs statements on the tables of some catalogs. The engines derive from it."""

    # ---- statements

    def sql(self, text: str, args: Args | None = None, **frames: Any) -> Rows:  # noqa: ANN401 - frames of any library
        """Run one statement and return its rows; `args` are the values of `:name`, or of `?` in their order.

        Frames given by keyword can be read under these names, in this statement alone; as in Spark, the names may be
        written in braces: `ctx.sql("SELECT * FROM {new}", new=frame)`.

        A query returns its result, a change one row with `num_affected_rows` and the rows inserted, updated and
        deleted, any other statement what it shows, which may be no row.
        """
        given = argument_checks.check_text("text", text)
        for name in frames:
            given = given.replace(f"{{{name}}}", f"`{name}`")
        with self.with_frames(frames):
            return self.run(parse_statement(given), checked_args(args))

    def script(self, script: str | os.PathLike[str], args: Args | None = None) -> list[Rows]:
        """Run the statements of a script, with `;` between them, and return the rows of each.

        `script` is the text, or the path of a file (a `Path`, or a text that ends with `.sql`). The first statement
        that fails stops the script: its error says which it was, and those before it have taken effect.
        """
        return list(self.each(_script_text(script), checked_args(args)))

    def each(self, text: str, args: Args) -> Iterator[Rows]:
        """Run the statements of a text one by one, and yield the rows of each."""
        statements = parse_script(text)
        for number, statement in enumerate(statements, 1):
            try:
                yield self.run(statement, args)
            except LakewrightError as error:
                if len(statements) > 1:
                    line = text.count("\n", 0, statement.text.start) + 1
                    error.message = f"statement {number} of {len(statements)}, on line {line}: {error.message}"
                    error.args = (error.message,)
                error.facts |= {"statement": number}
                raise

    def run(self, statement: Statement, args: Args) -> Rows:
        """Run a statement that was parsed."""
        try:
            return self._run(statement, args)
        except RecursionError:
            depth = nesting_depth(statement.text)
            message = f"the statement is nested {depth:,} levels deep, which is too deep: split it, such as with WITH"
            raise statement.text.error(message, kind=UnsupportedError, depth=depth) from None

    def _run(self, statement: Statement, args: Args) -> Rows:
        match statement:
            case CatalogCommand():
                return self.rows(statement.run(self, args))
            case Query():
                return self.query(statement.text, args)
            case Explain() | DescribeQuery() | CreateView() | Native():
                return self.other(statement, args)
            case Insert() | CreateTableAs() | CopyIn() | CopyOut():
                return self.rows(self.write(statement, args))
            case Update() | Delete() | MergeInto():
                return self.rows(self.change(statement, args))
        msg = f"{type(statement).__name__} is no statement that runs"
        raise AssertionError(msg)

    # ---- what an engine does

    def interrupt(self) -> None:
        """Stop what the engine does for a statement that another thread runs, which then raises an error."""

    @abstractmethod
    def with_frames(self, frames: Mapping[str, Any]) -> AbstractContextManager[None]:
        """Make frames known as temporary views while a statement runs."""

    @abstractmethod
    def rows(self, table: pa.Table) -> Rows:
        """Return a small table as the rows of this engine."""

    @abstractmethod
    def query(self, query: Fragment, args: Args) -> Rows:
        """Run a query."""

    @abstractmethod
    def write(self, statement: Insert | CreateTableAs | CopyIn | CopyOut, args: Args) -> pa.Table:
        """Write the rows of a query or of files, and return the counts (`COUNTS`)."""

    @abstractmethod
    def change(self, statement: Update | Delete | MergeInto, args: Args) -> pa.Table:
        """Change rows of a table in one snapshot, and return the counts (`COUNTS`)."""

    @abstractmethod
    def other(self, statement: Explain | DescribeQuery | CreateView | Native, args: Args) -> Rows:
        """Run a statement that belongs to the engine."""


def counts(inserted: int | None = 0, updated: int | None = 0, deleted: int | None = 0) -> pa.Table:
    """Return what a change shows; a count that is not known is null, and so is the sum then."""
    numbers = (inserted, updated, deleted)
    known = [number for number in numbers if number is not None]
    affected = sum(known) if len(known) == len(numbers) else None
    return pa.Table.from_pylist([dict(zip(COUNTS.names, (affected, *numbers), strict=True))], schema=COUNTS)


def checked_args(args: object) -> Args:
    """Return the values of the parameters of a statement; anything but a mapping or a list is an error."""
    if args is None:
        return {}
    if isinstance(args, Mapping):
        return {argument_checks.check_text("a name in args", name): value for name, value in args.items()}
    if isinstance(args, list | tuple):
        return list(args)
    raise argument_checks.argument_error(
        "args", 'a mapping such as {"day": ...} for :day, or a list of values for ?', args
    )


def _script_text(script: object) -> str:
    is_path = isinstance(script, os.PathLike) or (
        isinstance(script, str) and script.strip().endswith(".sql") and "\n" not in script.strip()
    )
    if not is_path:
        return argument_checks.check_text("script", script)
    path = Path(argument_checks.check_path("script", script))
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"the script {path} cannot be read: {error}", path=str(path)) from error
