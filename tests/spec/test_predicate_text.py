"""Filters as text: what they mean, and that errors say where."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewright.errors import ColumnNotExistException, InvalidInputError
from lakewright.spec.filter_text import DEPTH_MAX, parse_predicate
from lakewright.spec.predicate import FALSE, TRUE, Predicate, PredicateBuilder, normalise
from lakewright.spec.types import AtomicType, DataField, RowType
from support.effort import examples

FIELDS = [
    DataField(0, "id", AtomicType("INT")),
    DataField(1, "name", AtomicType("STRING")),
    DataField(2, "price", AtomicType("DECIMAL(10, 2)")),
    DataField(3, "day", AtomicType("DATE")),
    DataField(4, "at", AtomicType("TIMESTAMP(6)")),
    DataField(5, "clock", AtomicType("TIME(3)")),
    DataField(6, "raw", AtomicType("BYTES")),
    DataField(7, "ok", AtomicType("BOOLEAN")),
    DataField(8, "odd `name", AtomicType("DOUBLE")),
    DataField(9, "r", RowType(True, [DataField(10, "x", AtomicType("INT"))])),  # noqa: FBT003
    DataField(11, "date", AtomicType("STRING")),
]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("id = 5", "id = 5"),
        ("id == +5 AnD name is null", "id = 5 AND name IS NULL"),
        ("5 < id", "id > 5"),
        ("id <> -5 OR id != 6 or not id <= 7", "id <> -5 OR id <> 6 OR NOT (id <= 7)"),
        ("(id = 1 or id = 2) and name = 'it''s'", "(id = 1 OR id = 2) AND name = 'it''s'"),
        ("id in (3, 1, NULL) and id not in (4)", "id IN (1, 3, NULL) AND id NOT IN (4)"),
        ("id between 1 and 5 and id not between 7 and 9", "id BETWEEN 1 AND 5 AND id NOT BETWEEN 7 AND 9"),
        ("name like 'a\\%b%' or name not like '_'", r"name LIKE 'a\%b%' OR NOT (name LIKE '_')"),
        ("name like '50!%!_!!%' escape '!'", r"name LIKE '50\%\_\!%'"),
        ("name like 'a\\b%' escape '!'", r"name LIKE 'a\\b%'"),
        ("price >= 1.5e1", "price >= 15.00"),
        ("price = .125", "price IN ()"),
        ("price = '12.5'", "price = 12.50"),
        ("day = DATE '2024-10-04' and day < '2024-10-05'", "day = DATE '2024-10-04' AND day < DATE '2024-10-05'"),
        ("at > TIMESTAMP '2024-10-04 01:02:03.5'", "at > TIMESTAMP '2024-10-04 01:02:03.500000'"),
        ("at > DATE '2024-10-04'", "at > TIMESTAMP '2024-10-04 00:00:00.000000'"),
        ("clock = TIME '01:02:03'", "clock = TIME '01:02:03.0'"),
        ("raw = X'0aFF'", "raw = X'0aff'"),
        ("ok and not ok", "ok = TRUE AND NOT (ok = TRUE)"),
        ("ok = false", "ok = FALSE"),
        ("id = null", "id IN (NULL)"),
        ('`odd ``name` = 0.5 and "name" = \'"\'', "`odd ``name` = 0.5 AND name = '\"'"),
        ("r.x = 1 and `r`.`x` = 1", "r.x = 1 AND r.x = 1"),
        ("date = 'x'", "date = 'x'"),
        ("1 = 1 and id = 2", "id = 2"),
        ("'a' < 'b'", "TRUE"),
        ("true and 1 > 2", "FALSE"),
        ("not not id = 1", "id = 1"),
    ],
)
def test_what_text_means(text: str, shown: str) -> None:
    assert str(parse_predicate(text, FIELDS)) == shown


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", 1),
        ("id", 3),
        ("id = ", 6),
        ("id = 5 5", 8),
        ("id = 5 and", 11),
        ("(id = 5", 8),
        ("id = 5)", 7),
        ("id ~ 5", 4),
        ("name = 'abc", 8),
        ("id in 5", 7),
        ("id in (5 6)", 10),
        ("id between 1 or 2", 14),
        ("id is 5", 7),
        ("id not 5", 8),
        ("5 is null", 1),
        ("5 = and", 5),
        ("id = name", 4),
        ("name like 5", 11),
        ("name like 'a' escape 'ab'", 22),
        ("raw = X'0'", 7),
        ("id = DATE '2024-01-01'", 6),
        ("price = 'abc'", 9),
        ("r. = 1", 4),
        ("null", 5),
        ("id = " + "9" * 500, 6),
    ],
)
def test_errors_say_where(text: str, place: int) -> None:
    with pytest.raises(InvalidInputError, match=f"filter text, column {place}: expected") as caught:
        parse_predicate(text, FIELDS)
    assert caught.value.position == place


def test_unknown_columns_and_wrong_kinds() -> None:
    with pytest.raises(
        ColumnNotExistException, match="filter text, column 12: there is no column 'nme'; did you mean 'name'"
    ):
        parse_predicate("id = 5 and nme = 'a'", FIELDS)
    with pytest.raises(InvalidInputError, match="column 'name' of type STRING"):
        parse_predicate("name = 5", FIELDS)
    with pytest.raises(InvalidInputError, match="column 'day'"):
        parse_predicate("day = 'tomorrow'", FIELDS)


def test_depth_is_bounded() -> None:
    fine = DEPTH_MAX - 1
    assert parse_predicate("(" * fine + "id = 1" + ")" * fine, FIELDS).method == "equal"
    with pytest.raises(InvalidInputError, match="nested levels"):
        parse_predicate("(" * 10_000 + "id = 1" + ")" * 10_000, FIELDS)
    many = parse_predicate(" and ".join(["id > 1"] * 5000), FIELDS)
    assert len(many.children) == 5000


_builder = PredicateBuilder(FIELDS)
_leaves = st.one_of(
    st.integers(-(2**33), 2**33).map(lambda n: _builder.less_than("id", n)),
    st.text(max_size=5).map(lambda t: _builder.equal("name", t)),
    st.text(alphabet="a%_\\'", max_size=5).map(lambda t: _builder.like("name", t)),
    st.text(alphabet="a%_\\'", max_size=5).map(lambda t: _builder.startswith("name", t)),
    st.decimals(-9, 9, places=2).map(lambda n: _builder.not_equal("price", n)),
    st.dates().map(lambda d: _builder.greater_or_equal("day", d)),
    st.datetimes().map(lambda d: _builder.greater_than("at", d)),
    st.binary(max_size=3).map(lambda b: _builder.equal("raw", b)),
    st.lists(st.one_of(st.none(), st.integers(-5, 5)), max_size=3).map(lambda v: _builder.is_not_in("id", v)),
    st.floats(allow_nan=False, allow_infinity=False).map(lambda x: _builder.equal("odd `name", x)),
    st.sampled_from([TRUE, FALSE, _builder.is_null("r.x"), _builder.is_not_null("ok")]),
)
_trees = st.recursive(
    _leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(_builder.and_predicates),
        st.lists(inner, max_size=3).map(_builder.or_predicates),
        inner.map(lambda p: ~p),
    ),
    max_leaves=6,
)


@settings(max_examples=examples(200))
@given(_trees)
def test_the_text_of_a_predicate_is_parsed_to_the_same_predicate(predicate: Predicate) -> None:
    again = parse_predicate(str(predicate), FIELDS)
    assert str(normalise(again)) == str(normalise(predicate))


@settings(max_examples=examples(200))
@given(st.text(alphabet="id name='(),<>!ANDORNOTLIKE0.5%`\"xX-", max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(InvalidInputError, ColumnNotExistException):
        parse_predicate(text, FIELDS)
