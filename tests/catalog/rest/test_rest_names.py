"""Names in URLs: form encoding, one segment each, and none that an HTTP program could fold."""

from __future__ import annotations

from urllib.parse import unquote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewright.catalog.rest_api import form_encode, object_name, query_text, segment
from lakewright.errors import InvalidInputError
from lakewright.spec.identifier import Identifier


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_an_encoded_name_is_read_back_and_holds_only_plain_characters(name: str) -> None:
    text = form_encode(name)
    assert unquote_plus(text) == name
    assert set(text) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_*+%")


def test_a_space_is_a_plus_and_a_tilde_is_encoded() -> None:
    assert form_encode("a b+c~d%e/f$g") == "a+b%2Bc%7Ed%25e%2Ff%24g"


@pytest.mark.parametrize("name", [".", ".."])
@pytest.mark.parametrize("kind", ["database", "table", "branch", "tag"])
def test_names_that_mean_directories_are_refused(kind: str, name: str) -> None:
    with pytest.raises(InvalidInputError, match=kind):
        segment(kind, name)


@pytest.mark.parametrize("name", ["", " ", None, 7, "a\0b", "\ud800"])
def test_what_is_no_name_is_refused(name: object) -> None:
    with pytest.raises(InvalidInputError, match="the name of a table"):
        segment("table", name)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["...", "a..b", ".hidden", "*"])
def test_other_names_with_dots_stay(name: str) -> None:
    assert segment("table", name) == name


@pytest.mark.parametrize(
    ("full", "expected"),
    [("d.t", "t"), ("d.t$branch_b", "t$branch_b"), ("d.t$branch_main", "t"), ("d.t$branch_b$files", "t$branch_b")],
)
def test_a_table_is_named_with_its_branch_and_without_its_system_table(full: str, expected: str) -> None:
    assert object_name(Identifier.from_string(full)) == expected


def test_a_query_is_sorted_and_encoded() -> None:
    assert query_text({"warehouse": "a:b c", "k": "%"}) == "k=%25&warehouse=a%3Ab+c"
    assert query_text({}) == ""
