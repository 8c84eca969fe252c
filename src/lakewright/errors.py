"""The error tree, sorted by what the caller can do.

LakewrightError
├── InvalidInputError (also ValueError)     fix the call
│   ├── AlreadyExistsError                  choose another name, or ask to ignore it
│   ├── SQLSyntaxError                      the text of a statement cannot be read; the error shows the place
│   └── InvalidMessageError                 the commit message is of another table, damaged or hostile
├── NotFoundError (also KeyError,           no such database, table, snapshot, tag, branch or schema
│   │              ValueError)
│   ├── TableReplacedError                  get the table again from its catalog: another one has its place
│   └── FullRefreshRequiredError            run the job again with full_refresh=True
├── CommitContentionError (also             try again; nothing was published
│                          RuntimeError)
├── CommitConflictError (also RuntimeError) plan again; the inputs changed
├── CommitUnknownError (also RuntimeError)  look again; delete nothing
├── CorruptTableError                       stop; a file breaks the format
├── CredentialsError (also PermissionError) repair what issues the credentials of a store
├── CatalogServerError (also OSError)       the server failed or cannot be reached: try again later
├── NotAuthorizedError (also                renew the credentials of the catalog
│                       PermissionError)
└── UnsupportedError (also ValueError,      the table or call uses a feature that is not implemented
                      NotImplementedError)

The classes of Python beside them are those that code written for pypaimon catches. `CatalogException` is the base of
the errors with pypaimon's names, each of which is also an AlreadyExistsError, a NotFoundError or a PermissionError.

An error carries its facts as attributes (`error.table`, `error.files`, ...), survives pickling, and its message names
the table, column or file and the remedy.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_MESSAGE_MAX = 2000  # characters: a name or a literal of any length may have come into the message


class LakewrightError(Exception):
    """The base of all errors of the library. `error.facts` holds what the message is about, also as attributes.

    >>> InvalidInputError("there is no column 'x'", column="x").column
    'x'
    """

    def __init__(self, message: str, **facts: object) -> None:
        if len(message) > _MESSAGE_MAX:
            message = f"{message[: _MESSAGE_MAX // 2]} ... {message[-_MESSAGE_MAX // 2 :]}"
        super().__init__(message)
        self.message = message
        self.facts = facts

    def __str__(self) -> str:
        return self.message

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - a fact may be of any type
        facts = self.__dict__.get("facts", {})
        if name in facts:
            return facts[name]
        msg = f"{type(self).__name__} carries no fact named {name!r}"
        raise AttributeError(msg)

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.message, self.facts)


@contextmanager
def with_table_name(table: str) -> Iterator[None]:
    """Add the name of a table to errors raised inside the block that have none: code without a table raises such.

    >>> with with_table_name("sales.orders"):
    ...     raise InvalidInputError("the column 'id' is no number", column="id")
    Traceback (most recent call last):
    lakewright.errors.InvalidInputError: table sales.orders: the column 'id' is no number
    """
    try:
        yield
    except LakewrightError as error:
        if table and "table" not in error.facts:
            error.message = f"table {table}: {error.message}"
            error.args = (error.message,)
            error.facts["table"] = table
        raise


def pluralize(number: int, noun: str) -> str:
    """Return a number with its noun, which is given in the singular.

    >>> pluralize(1, "snapshot"), pluralize(1200, "file"), pluralize(2, "entry")
    ('1 snapshot', '1,200 files', '2 entries')
    """
    if number == 1:
        return f"1 {noun}"
    return f"{number:,} {noun[:-1]}ies" if noun.endswith("ry") else f"{number:,} {noun}s"


def _rebuild(kind: type[LakewrightError], message: str, facts: dict[str, object]) -> LakewrightError:
    """Make an error again in another process."""
    return kind(message, **facts)


class InvalidInputError(LakewrightError, ValueError):
    """The call itself is wrong: fix it and call again. Nothing was written."""


class AlreadyExistsError(InvalidInputError):
    """A database, table, tag, branch or column of that name exists already."""


class SQLSyntaxError(InvalidInputError):
    """The text of a SQL statement is wrong. `error.line` and `error.column_number` say where; nothing was changed."""


class InvalidMessageError(InvalidInputError):
    """A commit message is not one of this table, or it is damaged; nothing of it was applied."""


class NotFoundError(LakewrightError, KeyError, ValueError):
    """There is no database, table, snapshot, tag, branch or schema of that name."""


class FullRefreshRequiredError(NotFoundError):
    """It is unknown what changed since the last run of an incremental job: run it with `full_refresh=True`."""


class CommitContentionError(LakewrightError, RuntimeError):
    """Other writers committed first too many times. Nothing was published: commit the same messages again."""


class CommitConflictError(LakewrightError, RuntimeError):
    """The files that a commit replaces have changed. Nothing was published: plan again on the newest snapshot."""


class CommitUnknownError(LakewrightError, RuntimeError):
    """The reply of the storage was lost: the commit may or may not have happened. Delete none of its files."""


class CorruptTableError(LakewrightError):
    """A file of the table breaks the format or its checksum. The message names the file."""


class CredentialsError(LakewrightError, PermissionError):
    """There are no good credentials for a store: their provider failed, or what it returned cannot be used."""


class CatalogServerError(LakewrightError, OSError):
    """The server of a catalog failed, cannot be reached, or gave an answer that cannot be read.

    `error.perhaps_done` is True if the request may have been carried out all the same, False if it was certainly not.
    `error.code` is the code that the server answered with, None without an answer.
    """


class NotAuthorizedError(LakewrightError, PermissionError):
    """The server of a catalog does not accept the credentials, and did nothing: give it valid ones."""


class UnsupportedError(LakewrightError, ValueError, NotImplementedError):
    """The table or the call uses a feature that lakewright does not implement."""


class CatalogException(LakewrightError):  # noqa: N818 - pypaimon's name
    """The base of the errors about the name of a database, table, tag, branch or column.

    It exists already, does not exist, or may not be used.

    Raised with a message and its facts, or, as in pypaimon, with the name alone.

    >>> error = TagNotExistException("v1")
    >>> str(error), error.tag
    ("the tag 'v1' does not exist", 'v1')
    """

    _kind = ""  # what the name is a name of
    _state = ""

    def __init__(self, message: object, **facts: object) -> None:
        if facts or not self._kind:
            super().__init__(str(message), **facts)
            return
        name = message if isinstance(message, str) else getattr(message, "get_full_name", message.__str__)()
        named = {self._kind: name} if isinstance(message, str) else {self._kind: name, "identifier": message}
        super().__init__(f"the {self._kind} {name!r} {self._state}", **named)


class DatabaseAlreadyExistException(CatalogException, AlreadyExistsError):  # noqa: N818 - pypaimon's name
    """The database exists already."""

    _kind = "database"
    _state = "already exists"


class DatabaseNotExistException(CatalogException, NotFoundError):  # noqa: N818 - pypaimon's name
    """There is no such database."""

    _kind = "database"
    _state = "does not exist"


class DatabaseNotEmptyException(InvalidInputError):  # noqa: N818 - in the manner of pypaimon's names
    """The database still holds tables; pass `cascade=True` to drop them too."""


class DatabaseNoPermissionException(CatalogException, PermissionError):  # noqa: N818 - pypaimon's name
    """The credentials of the catalog do not allow this with the database."""

    _kind = "database"
    _state = "does not allow this with the credentials of the catalog"


class TableAlreadyExistException(CatalogException, AlreadyExistsError):  # noqa: N818 - pypaimon's name
    """The table exists already."""

    _kind = "table"
    _state = "already exists"


class TableNotExistException(CatalogException, NotFoundError):  # noqa: N818 - pypaimon's name
    """There is no such table."""

    _kind = "table"
    _state = "does not exist"


class TableReplacedError(TableNotExistException):
    """The table was dropped, or renamed, and another one made in its place: get it again from its catalog."""


class TableNoPermissionException(CatalogException, PermissionError):  # noqa: N818 - pypaimon's name
    """The credentials of the catalog do not allow this with the table."""

    _kind = "table"
    _state = "does not allow this with the credentials of the catalog"


class TagAlreadyExistException(CatalogException, AlreadyExistsError):  # noqa: N818 - pypaimon's name
    """The tag exists already."""

    _kind = "tag"
    _state = "already exists"


class TagNotExistException(CatalogException, NotFoundError):  # noqa: N818 - pypaimon's name
    """There is no such tag."""

    _kind = "tag"
    _state = "does not exist"


class BranchAlreadyExistException(CatalogException, AlreadyExistsError):  # noqa: N818 - pypaimon's name
    """The branch exists already."""

    _kind = "branch"
    _state = "already exists"


class BranchNotExistException(CatalogException, NotFoundError):  # noqa: N818 - pypaimon's name
    """There is no such branch."""

    _kind = "branch"
    _state = "does not exist"


class ColumnAlreadyExistException(CatalogException, AlreadyExistsError):  # noqa: N818 - pypaimon's name
    """The table has a column of that name already."""

    _kind = "column"
    _state = "already exists"


class ColumnNotExistException(CatalogException, NotFoundError):  # noqa: N818 - pypaimon's name
    """The table has no such column."""

    _kind = "column"
    _state = "does not exist"


class LakewrightWarning(UserWarning):
    """A call did what its arguments say, with a consequence that the caller may not expect."""
