"""Exceptions under pypaimon's names, and the messages that its users look for."""

from __future__ import annotations

import functools
import inspect
import re
import warnings
from collections.abc import Callable, Sequence
from typing import ParamSpec, TypeAlias, TypeVar

from lakewright.errors import (
    AlreadyExistsError,
    CatalogException,
    InvalidInputError,
    LakewrightError,
    LakewrightWarning,
)
from lakewright.maintenance.branches import FastForwardResult

# ---- Exception classes -----------------------------------------------------------------------------------------------


class AlterTableError(CatalogException, InvalidInputError, RuntimeError):
    """A change of a schema was refused; the cause says why."""


class IllegalArgumentError(CatalogException, InvalidInputError):
    """An argument is wrong."""


class IllegalStateError(CatalogException, RuntimeError):
    """The table is not in the state that the call needs."""


class SchemaExistsError(AlreadyExistsError, RuntimeError):
    """A table was to be made where there is one."""


class NullKeyError(InvalidInputError, RuntimeError):
    """A row has no value in a column of the primary key; nothing of its batch was written."""


class OtherPartitionError(InvalidInputError, RuntimeError):
    """An overwrite of one partition got rows of another one; nothing was committed."""


class PreparedTwiceError(InvalidInputError, RuntimeError):
    """A batch write was prepared a second time."""


def no_forward(branch: str, error: InvalidInputError) -> InvalidInputError | IllegalStateError:
    """Return the error of a fast-forward: a name that is wrong, or a branch in no state to be forwarded to."""
    if "no snapshot" not in error.message:
        return error
    return IllegalStateError(f"Exception occurs when fast forward '{branch}': {error}", **error.facts)


def warn_of_loss(table: str, result: FastForwardResult) -> None:
    """Warn if a fast-forward, which pypaimon does without a question, removed rows or tags."""
    if result.has_loss and not result.dry_run:
        warnings.warn(
            f"{table}: the fast-forward to branch {result.branch!r} removed {result.loss}, which the branch did not "
            "have; lakewright's own table.fast_forward(branch) refuses that unless allow_loss is true",
            LakewrightWarning,
            stacklevel=3,
        )


# ---- Messages --------------------------------------------------------------------------------------------------------
# Each row of a table below is a part of a message of lakewright, and pypaimon's words that say the same; the rest of
# the message, with its remedy, stays. The kind and the facts of an error stay as they are.

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
Words: TypeAlias = Sequence[tuple[re.Pattern[str], str]]


def _table(*rows: tuple[str, str]) -> Words:
    return [(re.compile(ours), theirs) for ours, theirs in rows]


ROW_WORDS = _table(
    # Columns and rows to change.
    (r"(?:the column )?'([^']+)' to update is not in table schema", r"Column \1 not found in table schema"),
    (
        r"(?<!upsert_key )(?:the column )?'([^']+)'(?: to write)? is not in table schema",
        r"Column \1 is not in table schema",
    ),
    (r"'([^']+)' is a partition column, and rows", r"an update does not support updating partition column '\1': rows"),
    (
        r"the array for the column ('[^']+') has the length (\d+), and (\d+) rows? matched",
        r"Assignment array length must match matched row count: \2 != \3 for the column \1",
    ),
    (
        r"the function for the column ('[^']+') returned (\d+) values? for (\d+) rows?",
        r"Assignment array length must match matched row count: \2 != \3 for the column \1",
    ),
    (r"the data lacks the column '_ROW_ID'", "Input data must contain _ROW_ID column"),
    (r"the row id (\d+) is there twice", r"Input data contains duplicate _ROW_ID values such as \1"),
    (r"the row id (-?\d+) is unknown: it does not", r"Row ID \1 does not"),
    (
        r"does not track its rows, so they have no ids",
        "does not track its rows, so an id does not belong to any valid range",
    ),
    (r"\d+ of \d+ row ids are null", "a _ROW_ID value must not be null"),
    (r"name each column to update once, and at least one", "column_names cannot be empty: name a column to update"),
    # Merges.
    (
        r"a merge without clauses changes nothing",
        "At least one of when_matched or when_not_matched must be non-empty",
    ),
    (
        r"the row with (.*) is matched by (\d+) rows of the source",
        r"MERGE matched multiple source rows to the same target _ROW_ID (\1, \2 rows)",
    ),
    (
        r"(t\.\S+) cannot be asked here, as there is no row of the target",
        r"a WhenNotMatched condition must not reference target columns (t.*), but has \1",
    ),
    (
        r"(the condition of when\S+: .*)there is no column ('[^']+')(; there are .*_ROW_ID)",
        r"\1the condition references unknown target column \2\3",
    ),
    (
        r"(the condition of when\S+: .*)there is no column ('[^']+')",
        r"\1the condition references unknown source column \2",
    ),
    (r"the condition of the merge: .*there is no column ('[^']+');", r"'on' columns [\1] missing from source schema:"),
    # Writers and commits.
    (r"there is no bucket (-?\d+); it has the buckets 0 to (\d+)", r"Bucket id must be between 0 and \2, not \1"),
    (r"name at least one partition to truncate", "Partitions list cannot be empty"),
    (
        r"('[^']+') in the partition spec (.*) is not a partition column",
        r"Partition spec key \1 is not a partition column in \2",
    ),
)

NEW_TAG_WORDS = _table((r"Snapshot id '(\d+)' doesn't exist", r"Snapshot with id \1 doesn't exist"))

TABLE_WORDS = _table(
    # Tags, snapshots and branches.
    (r"the tag ('[^']+') ", r"Tag \1 "),
    (r"a tag needs a name that is not blank", "Tag name shouldn't be blank"),
    (r"there is no snapshot to tag", "No snapshot exists in this table"),
    (r"snapshot (\d+) doesn't exist; the nearest", r"Rollback snapshot '\1' doesn't exist; the nearest"),
    (r"target takes a whole number, not", "Unsupported rollback target type:"),
    (r"(?<!Source )(?<!Target )branch ('[^']+') (doesn't exist|already exists)", r"Branch name \1 \2"),
    (
        r"'main' is the table itself: choose another branch name",
        "Branch name 'main' is the default branch and cannot be used",
    ),
    (r"a branch needs a name that is not blank", "Branch name is blank"),
    (r"a branch name cannot be all digits:", "Branch name cannot be pure numeric string but is"),
    (r"'main' is the table itself, not a branch of it", "Cannot rename the main branch"),
    (
        r"is branch 'main' itself: give another one",
        "is branch 'main' itself, which do not use in fast-forward: give another one",
    ),
    # Time travel.
    (r"'scan.timestamp' must look like", "Cannot parse timestamp: 'scan.timestamp' must look like"),
    (r"scan.mode is 'from-timestamp' but none of", "scan.mode is 'from-timestamp' but neither of"),
    (
        r"scan.mode is 'from-snapshot-full' but none of (.*) is set",
        r"scan.mode is 'from-snapshot-full' but scan.snapshot-id is not set (\1)",
    ),
    (
        r"a batch read knows no 'scan.mode' 'incremental'",
        "scan.mode is 'incremental' but incremental-between-timestamp is not set; no mode is needed for it",
    ),
    (r"a consumer needs an id that is not blank", "consumer_id cannot be empty"),
    (
        r"'consumer-(.*)' cannot be a file name: it contains a separator",
        r"consumer_id cannot contain path separators: '\1' has one",
    ),
)

CATALOG_WORDS = [
    *NEW_TAG_WORDS,
    *TABLE_WORDS,
    *ROW_WORDS[-2:],
    *_table(
        (r"\bdatabase (\S+) (does not exist|already exists)", r"Database \1 \2"),
        (r"\bdatabase (\S+) holds", r"Database \1 is not empty: it holds"),
        (r"\btable (\S+) (does not exist|already exists)", r"Table \1 \2"),
        (r"(?:the tag|Tag) '([^']+)' (?:doesn't|does not) exist", r"Tag \1 does not exist"),
        (r"(?:the tag|Tag) '([^']+)' already exists", r"Tag \1 already exists"),
        (r"(?:branch|Branch name) '([^']+)' (?:doesn't|does not) exist", r"Branch \1 does not exist"),
        (r"(?:branch|Branch name) '([^']+)' already exists", r"Branch \1 already exists"),
        (r"the option 'type' = '([^']+)' is not supported", r"Table Type: \1 is not supported"),
        # Changes of schemas.
        (r"the column '([^']+)' (does not exist|already exists)", r"Column \1 \2"),
        (r"the new column '([^']+)' cannot be NOT NULL", r"Column \1 cannot specify NOT NULL in the table"),
        (r"the column '([^']+)' cannot be dropped", r"Cannot drop partition key or primary key: [\1]"),
        (r"the column '([^']+)' cannot be renamed", r"Cannot rename partition column: [\1]"),
        (
            r"the column '([^']+)' cannot be retyped: it is part of the",
            r"Cannot update primary key. Cannot update partition column: [\1]. It is part of the",
        ),
        (r"the column '([^']+)' cannot be made nullable", r"Cannot change nullability of primary key: [\1]"),
        (
            r"the column '([^']+)' may hold nulls already and cannot become NOT NULL",
            r"Cannot update column type from nullable to non nullable for \1, which may hold nulls already",
        ),
        (r"cannot be converted from (\S+(?: NOT NULL)?) to (\S+)", r"cannot be converted to \2 from \1"),
        (r"the column ('[^']+') is the only one:", r"Cannot drop all fields in table, and \1 is the last one:"),
        (
            r"the option ('[^']+') cannot (change from|be set or removed)",
            r"Change \1 is not supported yet: the option cannot \2",
        ),
    ),
]


def rewrite_message(error: LakewrightError, words: Words) -> None:
    """Put pypaimon's words into the message of an error."""
    message = error.message
    for ours, theirs in words:
        message = ours.sub(theirs, message)
    if message != error.message:
        error.message = message
        error.args = (message,)


def translate_errors(words: Words) -> Callable[[type[T]], type[T]]:
    """Return what makes the errors of a class's public methods, inherited ones too, have pypaimon's words.

    >>> from lakewright.errors import InvalidInputError
    >>> @translate_errors(CATALOG_WORDS)
    ... class Names:
    ...     def find(self, name: str) -> None:
    ...         raise InvalidInputError(f"database {name} does not exist; create it first")
    >>> Names().find("a")
    Traceback (most recent call last):
    lakewright.errors.InvalidInputError: Database a does not exist; create it first
    """

    def translate_class_errors(made: type[T]) -> type[T]:
        for name in dir(made):
            method = inspect.getattr_static(made, name)
            if name.startswith("_"):
                continue
            if isinstance(method, staticmethod):
                setattr(made, name, staticmethod(translate_method_errors(method.__func__, words)))
            elif inspect.isfunction(method):
                setattr(made, name, translate_method_errors(method, words))
        return made

    return translate_class_errors


def translate_method_errors(method: Callable[P, R], words: Words) -> Callable[P, R]:
    """Return a method whose errors have pypaimon's words."""

    @functools.wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(*args, **kwargs)
        except LakewrightError as error:
            rewrite_message(error, words)
            raise

    return call
