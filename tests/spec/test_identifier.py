from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewright.errors import InvalidInputError
from lakewright.spec.identifier import Identifier


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("db.t", ("db", "t", None, None)),
        ("db.t$snapshots", ("db", "t", None, "snapshots")),
        ("db.t$branch_b", ("db", "t", "b", None)),
        ("db.t$branch_b$files", ("db", "t", "b", "files")),
        ("`my.db`.`a t`", ("my.db", "a t", None, None)),
        ("`db`.t$files", ("db", "t", None, "files")),
        (" db . t ", ("db", "t", None, None)),
        ("`a``b`.`t`", ("a`b", "t", None, None)),
    ],
)
def test_a_name_is_split_into_its_parts_and_put_together_again(
    text: str, parts: tuple[str, str, str | None, str | None]
) -> None:
    name = Identifier.from_string(text)
    assert (name.database, name.table, name.branch, name.system_table) == parts
    assert Identifier.from_string(name.get_full_name()) == name


@pytest.mark.parametrize(
    "text", ["", "t", "a.b.c", ".t", "db.", "db.t$", "db.t$branch_", "db.t$a$b", "`db.t", "``.t", "db.$x"]
)
def test_texts_that_are_no_names(text: str) -> None:
    with pytest.raises(InvalidInputError):
        Identifier.from_string(text)


def test_the_methods_of_the_peer() -> None:
    name = Identifier.create("db", "t", branch="b", system_table="files")
    assert name.get_database_name() == "db"
    assert name.get_table_name() == "t"
    assert name.get_branch_name() == name.get_branch_name_or_default() == "b"
    assert name.get_system_table_name() == "files"
    assert name.is_system_table()
    assert name.get_full_name() == str(name) == "db.t$branch_b$files"
    plain = Identifier("db", "t")
    assert plain.get_branch_name() is None
    assert plain.get_branch_name_or_default() == "main"
    assert not plain.is_system_table()
    assert pickle.loads(pickle.dumps(name)) == name  # noqa: S301 - our own bytes


def test_a_branch_named_twice_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="give it once"):
        Identifier("db", "t$branch_a", branch="b")


@given(
    st.text(min_size=1).filter(lambda s: "$" not in s and s.strip()),
    st.text(min_size=1).filter(lambda s: "$" not in s and s.strip()),
)
def test_any_name_is_parsed_from_its_full_name(database: str, table: str) -> None:
    name = Identifier(database, table)
    assert Identifier.from_string(name.get_full_name()) == name
