"""The tree of errors: which classes of Python each one also is, pickling, and pypaimon's way to make one."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

import lakewright as lw
from lakewright import errors
from lakewright.errors import TableAlreadyExistException, TableNotExistException
from lakewright.spec.identifier import Identifier

ALSO: dict[type[errors.LakewrightError], tuple[type[Exception], ...]] = {
    errors.InvalidInputError: (ValueError,),
    errors.NotFoundError: (KeyError, ValueError),
    errors.CommitContentionError: (RuntimeError,),
    errors.CommitConflictError: (RuntimeError,),
    errors.CommitUnknownError: (RuntimeError,),
    errors.CatalogServerError: (OSError,),
    errors.NotAuthorizedError: (PermissionError,),
    errors.UnsupportedError: (ValueError, NotImplementedError, RuntimeError),
}
NAMED: dict[type[errors.CatalogException], tuple[str, str]] = {
    errors.DatabaseNotExistException: ("database", "does not exist"),
    errors.DatabaseAlreadyExistException: ("database", "already exists"),
    errors.DatabaseNoPermissionException: ("database", "does not allow"),
    errors.TableNoPermissionException: ("table", "does not allow"),
    errors.TagNotExistException: ("tag", "does not exist"),
    errors.TagAlreadyExistException: ("tag", "already exists"),
    errors.BranchNotExistException: ("branch", "does not exist"),
    errors.BranchAlreadyExistException: ("branch", "already exists"),
    errors.ColumnNotExistException: ("column", "does not exist"),
    errors.ColumnAlreadyExistException: ("column", "already exists"),
}


def _pickled(error: errors.LakewrightError) -> errors.LakewrightError:
    again: errors.LakewrightError = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    return again


def test_an_error_is_also_what_other_code_catches() -> None:
    for kind, others in ALSO.items():
        assert issubclass(kind, errors.LakewrightError)
        assert [other for other in others if not issubclass(kind, other)] == [], kind
        again = _pickled(kind("the message", table="d.t"))
        assert (type(again), str(again), again.table) == (kind, "the message", "d.t")


def test_a_name_alone_makes_an_error() -> None:
    for kind, (fact, state) in NAMED.items():
        error = kind("x")
        assert issubclass(kind, errors.CatalogException)
        assert (getattr(error, fact), state in str(error)) == ("x", True), kind
        again = _pickled(error)
        assert (type(again), str(again), getattr(again, fact)) == (kind, str(error), "x")


def test_an_identifier_makes_an_error_about_its_table() -> None:
    for kind in (errors.TableNotExistException, errors.TableAlreadyExistException):
        error = _pickled(kind(Identifier("d", "t")))
        assert (error.identifier, error.table) == (Identifier("d", "t"), "d.t")
        assert "'d.t'" in str(error)


def test_a_catalog_says_which_name_it_misses(tmp_path: Path) -> None:
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d")
    with pytest.raises(TableNotExistException, match=r"table d\.none does not exist") as missing:
        catalog.get_table("d.none")
    assert missing.value.identifier == Identifier("d", "none")
    schema = lw.Schema([lw.DataField(0, "a", lw.AtomicType("INT"))])
    catalog.create_table("d.t", schema, ignore_if_exists=False)
    with pytest.raises(TableAlreadyExistException, match=r"d\.t already exists") as taken:
        catalog.create_table("d.t", schema, ignore_if_exists=False)
    assert taken.value.identifier == Identifier("d", "t")
    with pytest.raises(TableNotExistException, match=r"\$nothing of d\.t does not exist") as unknown:
        catalog.get_table("d.t$nothing")
    assert unknown.value.identifier == Identifier("d", "t", system_table="nothing")
