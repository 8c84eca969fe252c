"""Errors that only code for pypaimon meets: the classes that its calls raise, with lakewright's words and facts."""

from __future__ import annotations

import warnings

from lakewright.errors import AlreadyExistsError, CatalogException, InvalidInputError, LakewrightWarning
from lakewright.maintenance.branches import FastForwardResult


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
