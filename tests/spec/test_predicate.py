"""Predicates against a slow reference with three-valued logic, and pruning that never loses a row."""

from __future__ import annotations

import datetime as dt
import math
import pickle
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewright.errors import ColumnNotExistException, InvalidInputError
from lakewright.spec.arrow_types import to_arrow_schema
from lakewright.spec.column_stats import FULL, ColumnStats, column_stats, parse_stats_mode
from lakewright.spec.predicate import (
    FALSE,
    TRUE,
    Predicate,
    PredicateBuilder,
    bind,
    conjuncts,
    matches_values,
    may_match,
    negate,
    normalise,
    project_columns,
    simplify,
)
from lakewright.spec.scalars import from_scalar, to_array
from lakewright.spec.types import ArrayType, AtomicType, DataField, RowType, Value
from support.effort import examples

FIELDS = [
    DataField(0, "i", AtomicType("INT")),
    DataField(1, "s", AtomicType("STRING")),
    DataField(2, "d", AtomicType("DOUBLE")),
    DataField(3, "n", AtomicType("DECIMAL(6, 2)")),
    DataField(4, "t", AtomicType("TIMESTAMP(3)")),
    DataField(5, "b", AtomicType("BOOLEAN")),
]
BUILDER = PredicateBuilder(FIELDS)
EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001

texts = st.text(alphabet="ab%_\\\n?\u00e4\ud7ff", max_size=4)
cells: dict[str, st.SearchStrategy[Any]] = {
    "i": st.integers(-3, 3),
    "s": texts,
    "d": st.sampled_from([-1.5, -0.0, 0.0, 0.1, 2.0, math.inf, -math.inf, math.nan]),
    "n": st.decimals(-2, 2, places=2),
    "t": st.integers(-3, 3).map(lambda n: EPOCH + dt.timedelta(milliseconds=n)),
    "b": st.booleans(),
}
# Literals reach beyond the values of a type: fractions, numbers out of range, finer times.
literals: dict[str, st.SearchStrategy[Any]] = {
    "i": st.one_of(cells["i"], st.sampled_from([0.5, -2.5, 2**40, -(2**40), Decimal("1.5"), math.inf])),
    "s": texts,
    "d": st.one_of(cells["d"], st.integers(-3, 3), st.just(Decimal("0.1")), st.just(10**400)),
    "n": st.one_of(cells["n"], st.integers(-3, 3), st.sampled_from([0.1, 0.125, 10**9, Decimal("-0.001")])),
    "t": st.one_of(cells["t"], st.integers(-9, 9).map(lambda n: EPOCH + dt.timedelta(microseconds=n * 250))),
    "b": st.booleans(),
}
Row = dict[str, Any]
rows = st.fixed_dictionaries({name: st.one_of(st.none(), cell) for name, cell in cells.items()})


def _number(value: Any) -> Any:  # noqa: ANN401
    """Make numbers of all kinds comparable exactly, the way the literal was written."""
    return Decimal(repr(value)) if isinstance(value, float) and math.isfinite(value) else value


def _like(pattern: str, text: str) -> bool:
    out, skip = "", False
    for at, char in enumerate(pattern):
        if skip:
            out, skip = out + re.escape(char), False
        elif char == "\\" and at + 1 < len(pattern):
            skip = True
        else:
            out += {"%": ".*", "_": "."}.get(char, re.escape(char))
    return re.fullmatch(out, text, re.DOTALL) is not None


TESTS: dict[str, Callable[[Any, Any], bool]] = {
    "equal": lambda a, b: a == b,
    "not_equal": lambda a, b: a != b,
    "less_than": lambda a, b: a < b,
    "less_or_equal": lambda a, b: a <= b,
    "greater_than": lambda a, b: a > b,
    "greater_or_equal": lambda a, b: a >= b,
    "startswith": lambda a, b: a.startswith(b),
    "endswith": lambda a, b: a.endswith(b),
    "contains": lambda a, b: b in a,
    "like": lambda a, b: _like(b, a),
}


class Tree:
    """A predicate beside its slow meaning."""

    def __init__(self, predicate: Predicate, reference: Callable[[Row], bool | None], text: str) -> None:
        self.predicate = predicate
        self.reference = reference
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _compare(column: str, method: str, literal: Any) -> Tree:  # noqa: ANN401
    def reference(row: Row) -> bool | None:
        if row[column] is None or literal is None:
            return None
        if str(row[column]) == "nan" or str(literal) == "nan":  # NaN equals itself and is above all others
            return TESTS[method](str(row[column]) == "nan", str(literal) == "nan")
        return TESTS[method](_number(row[column]), _number(literal))

    return Tree(getattr(BUILDER, method)(column, literal), reference, f"{column} {method} {literal!r}")


def _null(column: str, *, wanted: bool) -> Tree:
    method = BUILDER.is_null if wanted else BUILDER.is_not_null
    return Tree(method(column), lambda row: (row[column] is None) == wanted, f"{column} null {wanted}")


def _members(column: str, values: list[Any], *, inside: bool) -> Tree:
    def reference(row: Row) -> bool | None:
        if row[column] is None:
            return None
        if any(_compare(column, "equal", v).reference(row) for v in values):
            return inside
        return None if None in values else not inside

    method = BUILDER.is_in if inside else BUILDER.is_not_in
    return Tree(method(column, values), reference, f"{column} in {inside} {values!r}")


def _between(column: str, low: Any, high: Any, *, inside: bool) -> Tree:  # noqa: ANN401
    lower, upper = _compare(column, "greater_or_equal", low), _compare(column, "less_or_equal", high)
    both = _and([lower, upper])
    method = BUILDER.between if inside else BUILDER.not_between
    tree = both if inside else _not(both)
    return Tree(method(column, low, high), tree.reference, f"{column} between {inside} {low!r} {high!r}")


def _and(trees: list[Tree]) -> Tree:
    def reference(row: Row) -> bool | None:
        results = [tree.reference(row) for tree in trees]
        return False if False in results else None if None in results else True

    return Tree(BUILDER.and_predicates([t.predicate for t in trees]), reference, f"and{trees!r}")


def _or(trees: list[Tree]) -> Tree:
    def reference(row: Row) -> bool | None:
        results = [tree.reference(row) for tree in trees]
        return True if True in results else None if None in results else False

    return Tree(BUILDER.or_predicates([t.predicate for t in trees]), reference, f"or{trees!r}")


def _not(tree: Tree) -> Tree:
    def reference(row: Row) -> bool | None:
        result = tree.reference(row)
        return None if result is None else not result

    return Tree(~tree.predicate, reference, f"not({tree!r})")


@st.composite
def leaves(draw: st.DrawFn) -> Tree:
    column = draw(st.sampled_from(list(cells)))
    maybe = st.one_of(literals[column], st.none())
    kind = draw(st.sampled_from(["compare", "null", "in", "between", "text"]))
    if kind == "null":
        return _null(column, wanted=draw(st.booleans()))
    if kind == "in":
        return _members(column, draw(st.lists(maybe, max_size=3)), inside=draw(st.booleans()))
    if kind == "between":
        return _between(column, draw(maybe), draw(maybe), inside=draw(st.booleans()))
    if kind == "text":
        return _compare("s", draw(st.sampled_from(["startswith", "endswith", "contains", "like"])), draw(texts))
    return _compare(column, draw(st.sampled_from(list(TESTS)[:6])), draw(maybe))


trees = st.recursive(
    leaves(),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(_and),
        st.lists(inner, min_size=1, max_size=3).map(_or),
        inner.map(_not),
    ),
    max_leaves=5,
)


def _table(some: list[Row]) -> pa.Table:
    return pa.Table.from_pylist(some, schema=to_arrow_schema(FIELDS))


@settings(max_examples=examples(300))
@given(trees, st.lists(rows, min_size=1, max_size=8))
def test_arrow_and_values_equal_the_reference(tree: Tree, some: list[Row]) -> None:
    table = _table(some)
    want = [tree.reference(row) for row in some]
    assert tree.predicate.mask(table).to_pylist() == want
    kept = [row for row, result in zip(range(len(some)), want, strict=True) if result is True]
    numbered = table.append_column("at", pa.array(range(len(some))))
    assert sorted(numbered.filter(tree.predicate.to_arrow())["at"].to_pylist()) == kept
    assert sorted(numbered.filter(tree.predicate.to_arrow(table.schema))["at"].to_pylist()) == kept
    normal = normalise(tree.predicate)
    assert [r is True for r in normal.mask(table).to_pylist()] == [r is True for r in want]
    opposite = negate(tree.predicate)
    assert [r is True for r in opposite.mask(table).to_pylist()] == [r is False for r in want]
    for at, result in enumerate(want):
        values = {f.name: from_scalar(table[f.name][at], f.type) for f in FIELDS}
        assert matches_values(tree.predicate, values) is (result is True)
        known = {name: values[name] for name in ("i", "s")}
        left = simplify(tree.predicate, known)
        assert left.fields().isdisjoint(known)
        assert matches_values(left, values) is (result is True)


@settings(max_examples=examples(400))
@given(trees, st.lists(rows, min_size=1, max_size=6), st.sampled_from(["full", "truncate(2)", "counts", "none"]))
def test_pruning_never_loses_a_row(tree: Tree, some: list[Row], mode: str) -> None:
    table = _table(some)
    stats = {f.name: column_stats(table[f.name], f.type, parse_stats_mode(mode)) for f in FIELDS}
    matched = any(tree.reference(row) is True for row in some)
    assert may_match(tree.predicate, stats.get, len(some)) or not matched
    # Bounds that leave NaN out, as some writers make them.
    finite = [row["d"] for row in some if row["d"] is not None and not math.isnan(row["d"])]
    if finite:
        stats["d"] = ColumnStats(min(finite), max(finite), stats["d"].null_count)
        assert may_match(tree.predicate, stats.get, len(some)) or not matched
    for part in conjuncts(tree.predicate):
        assert may_match(part, stats.get, len(some)) or not matched
    for row in some:
        if tree.reference(row) is True:
            relaxed = project_columns(tree.predicate, ["i", "d"])
            assert relaxed.fields() <= {"i", "d"}
            assert relaxed.mask(_table([row])).to_pylist() == [True]


@pytest.mark.parametrize(
    ("make", "stats", "expected"),
    [
        (lambda b: b.equal("i", 5), ColumnStats(1, 4, 0), False),
        (lambda b: b.equal("i", 4), ColumnStats(1, 4, 0), True),
        (lambda b: b.equal("i", 300_000_000_000), ColumnStats(None, None, None), False),
        (lambda b: b.less_than("i", 1), ColumnStats(1, 4, 0), False),
        (lambda b: b.greater_than("i", 4), ColumnStats(1, 4, 0), False),
        (lambda b: b.not_equal("i", 4), ColumnStats(4, 4, 0), False),
        (lambda b: b.not_equal("d", 4.0), ColumnStats(4.0, 4.0, 0), True),
        (lambda b: b.is_null("i"), ColumnStats(1, 4, 0), False),
        (lambda b: b.is_null("i"), ColumnStats(1, 4, None), True),
        (lambda b: b.is_not_null("i"), ColumnStats(None, None, 10), False),
        (lambda b: b.is_in("i", [0, 5, 9]), ColumnStats(1, 4, 0), False),
        (lambda b: b.is_in("i", [0, 3, 9]), ColumnStats(1, 4, 0), True),
        (lambda b: b.is_not_in("i", [4, 5]), ColumnStats(4, 4, 0), False),
        (lambda b: b.between("i", 5, 9), ColumnStats(1, 4, 0), False),
        (lambda b: b.not_between("i", 0, 9), ColumnStats(1, 4, 0), False),
        (lambda b: b.startswith("s", "abcdef"), ColumnStats("abc", "abd", 0), True),
        (lambda b: b.startswith("s", "b"), ColumnStats("abc", "abd", 0), False),
        (lambda b: b.startswith("s", "aaz"), ColumnStats("abc", "abd", 0), False),
        (lambda b: b.like("s", "b%"), ColumnStats("abc", "abd", 0), False),
        (lambda b: b.like("s", "%b"), ColumnStats("abc", "abd", 0), True),
        (lambda b: b.equal("s", "z"), ColumnStats("abc", "abd?", 0), True),
        (lambda b: b.greater_than("d", 5.0), ColumnStats(math.nan, math.nan, 0), True),
        (lambda b: ~b.greater_than("d", 5.0), ColumnStats(6.0, 7.0, 0), False),
        (lambda b: b.greater_than("d", 9.0), ColumnStats(6.0, 7.0, 0), True),  # NaN may hide beside the bounds
        (lambda b: b.less_than("d", math.nan), ColumnStats(6.0, 7.0, 0), True),
        (lambda b: b.between("d", 8.0, 9.0), ColumnStats(6.0, 7.0, 0), False),
        (lambda b: b.is_in("d", [8.0, math.nan]), ColumnStats(6.0, 7.0, 0), True),
        (lambda b: ~b.greater_than("i", 5), ColumnStats(6, 7, 0), False),
    ],
)
def test_statistics_decide(make: Callable[[PredicateBuilder], Predicate], stats: ColumnStats, expected: bool) -> None:
    assert may_match(make(BUILDER), lambda _: stats, 10) is expected


def test_blank_padded_char_bounds() -> None:
    builder = PredicateBuilder([DataField(0, "c", AtomicType("CHAR(4)"))])
    padded = ColumnStats("    ", "ab  ", 0)
    assert may_match(builder.equal("c", ""), lambda _: padded, 3)
    assert may_match(builder.equal("c", "ab"), lambda _: padded, 3)
    assert not may_match(builder.equal("c", "b"), lambda _: padded, 3)


@pytest.mark.parametrize(
    ("column", "literal", "text"),
    [
        ("i", 300, "i = 300"),
        ("i", 2**31, "i IN ()"),
        ("i", Decimal("2.0"), "i = 2"),
        ("i", np.int64(7), "i = 7"),
        ("i", pa.scalar(7), "i = 7"),
        ("n", 5, "n = 5.00"),
        ("n", 0.1, "n = 0.10"),
        ("n", Decimal("0.125"), "n IN ()"),
        ("d", 1, "d = 1.0"),
        ("d", Decimal("0.1"), "d = 0.1"),
        ("t", dt.datetime(2024, 1, 2, 3, 4, 5), "t = TIMESTAMP '2024-01-02 03:04:05.000'"),  # noqa: DTZ001
        ("t", np.datetime64("2024-01-02T03:04:05.0001"), "t IN ()"),
        ("b", True, "b = TRUE"),
        ("s", "it's", "s = 'it''s'"),
    ],
)
def test_literals_become_values_of_the_column(column: str, literal: object, text: str) -> None:
    assert str(BUILDER.equal(column, literal)) == text


@pytest.mark.parametrize(
    ("column", "literal"), [("i", "5"), ("i", True), ("s", 5), ("b", 1), ("t", 5.5), ("d", "x"), ("n", math.nan)]
)
def test_a_literal_of_another_kind_is_an_error(column: str, literal: object) -> None:
    with pytest.raises(InvalidInputError, match=f"column '{column}'"):
        BUILDER.equal(column, literal)


def test_unknown_columns_get_a_hint() -> None:
    builder = PredicateBuilder([DataField(0, "customer", AtomicType("INT"))])
    with pytest.raises(ColumnNotExistException, match="did you mean 'customer'"):
        builder.is_null("custmer")


def test_nested_columns_follow_the_path() -> None:
    inner = RowType(True, [DataField(2, "x", AtomicType("INT"))])  # noqa: FBT003
    array = ArrayType(True, AtomicType("INT"))  # noqa: FBT003
    fields = [DataField(1, "r", inner), DataField(3, "a.b", AtomicType("INT")), DataField(4, "l", array)]
    builder = PredicateBuilder(fields)
    table = pa.Table.from_pylist(
        [{"r": {"x": 1}, "a.b": 5}, {"r": {"x": None}}, {"r": None}, {"r": {"x": 2}}], schema=to_arrow_schema(fields)
    )
    predicate = builder.greater_or_equal("r.x", 1)
    assert predicate.path == ("r", "x")
    assert predicate.columns() == {"r"}
    assert predicate.mask(table).to_pylist() == [True, None, None, True]
    assert table.filter(predicate.to_arrow()).num_rows == 2
    assert builder.equal("a.b", 5).mask(table).to_pylist() == [True, None, None, None]
    assert builder.is_null("r").mask(table).to_pylist() == [False, False, True, False]
    with pytest.raises(InvalidInputError, match="only be tested for null"):
        builder.equal("l", 5)
    with pytest.raises(ColumnNotExistException):
        builder.equal("r.y", 5)


def test_every_comparable_type_has_arrow_literals() -> None:
    some: dict[str, list[Value]] = {
        "BOOLEAN": [False, True],
        "TINYINT": [-1, 1],
        "SMALLINT": [-1, 1],
        "INT": [-1, 1],
        "BIGINT": [-1, 1],
        "FLOAT": [-1.5, 0.5],
        "DOUBLE": [-1.5, 0.5],
        "DECIMAL(30, 3)": [Decimal("-1.500"), Decimal("2.000")],
        "CHAR(3)": ["a", "b"],
        "STRING": ["a", "b"],
        "BINARY(2)": [b"ab", b"cd"],
        "BYTES": [b"a", b"b"],
        "DATE": [-1, 20000],
        "TIME(3)": [0, 1000],
        "TIMESTAMP(0)": [-(10**6), 10**9],
        "TIMESTAMP(6)": [-1000, 10**9],
        "TIMESTAMP(9)": [-1, 10**9],
        "TIMESTAMP(6) WITH LOCAL TIME ZONE": [-1000, 10**9],
    }
    for text, (low, high) in some.items():
        field = DataField(0, "c", AtomicType(text))
        table = pa.table({"c": to_array([low, high, None], field.type)})
        leaf = Predicate("equal", "c", (high,), (), field.type, ("c",))
        assert leaf.mask(table).to_pylist() == [False, True, None], text
        assert table.filter(leaf.to_arrow()).num_rows == 1, text
        member = Predicate("notIn", "c", (high,), (), field.type, ("c",))
        assert member.mask(table).to_pylist() == [True, False, None], text
        assert table.filter(member.to_arrow()).num_rows == 1, text
        stats = {"c": column_stats(table["c"], field.type, FULL)}
        assert may_match(leaf, stats.get, 3), text


def test_constants_fold_and_values_survive_pickling() -> None:
    leaf = BUILDER.equal("i", 1)
    assert BUILDER.and_predicates([]) == TRUE
    assert BUILDER.or_predicates([]) == FALSE
    assert leaf & TRUE == leaf
    assert (leaf & FALSE) == FALSE
    assert (leaf | TRUE) == TRUE
    assert BUILDER.not_predicate(leaf) == ~leaf
    assert pickle.loads(pickle.dumps(leaf & ~leaf)) == (leaf & ~leaf)  # noqa: S301
    assert TRUE.mask(_table([])).to_pylist() == []
    with pytest.raises(InvalidInputError, match="a list of predicates"):
        BUILDER.and_predicates([5])  # type: ignore[list-item]


def test_binding_again_follows_a_type_that_changed() -> None:
    wide = PredicateBuilder([DataField(0, "i", AtomicType("BIGINT"))])
    narrow = [DataField(0, "i", AtomicType("INT"))]
    assert str(bind(wide.less_than("i", 2**40), narrow)) == f"i <= {2**31 - 1}"
    assert str(bind(wide.between("i", 1, 5), narrow)) == "i BETWEEN 1 AND 5"
    assert str(bind(Predicate("startsWith", "s", ("x",)), FIELDS)) == "s LIKE 'x%'"
    assert str(bind(~Predicate("isNull", "s"), FIELDS)) == "NOT (s IS NULL)"
    with pytest.raises(InvalidInputError, match="no predicate method"):
        bind(Predicate("near", "s"), FIELDS)
    with pytest.raises(InvalidInputError, match="not bound"):
        Predicate("equal", "s", ("x",)).to_arrow()
