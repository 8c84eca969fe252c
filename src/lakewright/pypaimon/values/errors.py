"""Errors that only code for pypaimon meets: the classes that its calls raise, with lakewright's words and facts."""

from __future__ import annotations

from lakewright.errors import CatalogException, InvalidInputError


class AlterTableError(CatalogException, InvalidInputError, RuntimeError):
    """A change of a schema was refused; the cause says why."""


class IllegalArgumentError(CatalogException, InvalidInputError):
    """An argument is wrong."""


class IllegalStateError(CatalogException, RuntimeError):
    """The table is not in the state that the call needs."""


class PreparedTwiceError(InvalidInputError, RuntimeError):
    """A batch write was prepared a second time."""
