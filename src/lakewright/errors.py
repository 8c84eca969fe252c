"""Every error of the library, sorted by what the caller can do about it.

LakewrightError
├── InvalidInputError (also ValueError)     fix the call
│   ├── AlreadyExistsError                  choose another name, or ask to ignore it
│   └── InvalidMessageError                 the commit message is of another table, damaged or hostile
├── NotFoundError (also KeyError)           no such database, table, snapshot, tag, branch or schema
│   └── TableReplacedError                  get the table again from its catalog: another one has its place
├── CommitContentionError                   try again; nothing was published
├── CommitConflictError                     plan again; the inputs changed
├── CommitUnknownError                      look again; delete nothing
├── CorruptTableError                       stop; a file breaks the format
└── UnsupportedError                        the table or call uses a feature that is not implemented

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
def naming(table: str) -> Iterator[None]:
    """Add the name of a table to errors raised inside the block that have none: code without a table raises such.

    >>> with naming("sales.orders"):
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


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, which is given in the singular.

    >>> counted(1, "snapshot"), counted(1200, "file"), counted(2, "entry")
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


class InvalidMessageError(InvalidInputError):
    """A commit message is not one of this table, or it is damaged; nothing of it was applied."""


class NotFoundError(LakewrightError, KeyError):
    """There is no database, table, snapshot, tag, branch or schema of that name."""


class CommitContentionError(LakewrightError):
    """Other writers committed first too many times. Nothing was published: commit the same messages again."""


class CommitConflictError(LakewrightError):
    """The files that a commit replaces have changed. Nothing was published: plan again on the newest snapshot."""


class CommitUnknownError(LakewrightError):
    """The reply of the storage was lost: the commit may or may not have happened. Delete none of its files."""


class CorruptTableError(LakewrightError):
    """A file of the table breaks the format or its checksum. The message names the file."""


class UnsupportedError(LakewrightError):
    """The table or the call uses a feature that lakewright does not implement."""


class DatabaseAlreadyExistException(AlreadyExistsError):  # noqa: N818 - pypaimon's name
    """The database exists already."""


class DatabaseNotExistException(NotFoundError):  # noqa: N818 - pypaimon's name
    """There is no such database."""


class DatabaseNotEmptyException(InvalidInputError):  # noqa: N818 - in the manner of pypaimon's names
    """The database still holds tables; pass `cascade=True` to drop them too."""


class TableAlreadyExistException(AlreadyExistsError):  # noqa: N818 - pypaimon's name
    """The table exists already."""


class TableNotExistException(NotFoundError):  # noqa: N818 - pypaimon's name
    """There is no such table."""


class TableReplacedError(TableNotExistException):
    """The table was dropped, or renamed, and another one made in its place: get it again from its catalog."""


class TagAlreadyExistException(AlreadyExistsError):  # noqa: N818 - pypaimon's name
    """The tag exists already."""


class TagNotExistException(NotFoundError):  # noqa: N818 - pypaimon's name
    """There is no such tag."""


class BranchAlreadyExistException(AlreadyExistsError):  # noqa: N818 - pypaimon's name
    """The branch exists already."""


class BranchNotExistException(NotFoundError):  # noqa: N818 - pypaimon's name
    """There is no such branch."""


class ColumnAlreadyExistException(AlreadyExistsError):  # noqa: N818 - pypaimon's name
    """The table has a column of that name already."""


class ColumnNotExistException(NotFoundError):  # noqa: N818 - pypaimon's name
    """The table has no such column."""


class LakewrightWarning(UserWarning):
    """A call did what its arguments say, with a consequence that the caller may not expect."""
