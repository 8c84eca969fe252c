"""Conditions over two tables: what DuckDB says of random ones, and errors that name the column and the remedy."""

from __future__ import annotations

from random import Random

import duckdb
import pyarrow as pa
import pytest

from lakewright.dml.assignments import ColumnScope, MergeSide, source_col, target_col
from lakewright.dml.matching import Condition, parse
from lakewright.errors import ColumnNotExistException, InvalidInputError
from lakewright.spec.arrow_types import to_arrow_schema
from lakewright.spec.predicate import PredicateBuilder
from lakewright.spec.types import AtomicType, DataField, RowType
from support.effort import examples

FIELDS = (
    DataField(0, "id", AtomicType("INT")),
    DataField(1, "n", AtomicType("BIGINT")),
    DataField(2, "name", AtomicType("STRING")),
    DataField(3, "price", AtomicType("DECIMAL(9, 2)")),
    DataField(4, "s", RowType(nullable=True, fields=[DataField(5, "deep", AtomicType("INT"))])),
)
SOURCE = pa.schema({"id": pa.int64(), "name": pa.string(), "price": pa.decimal128(12, 4), "flag": pa.bool_()})
BOTH = ColumnScope(FIELDS, SOURCE)


def condition(text: str, scope: ColumnScope = BOTH) -> Condition:
    return parse(text, scope, "table d.t: the condition")


def random_text(random: Random, depth: int = 0) -> str:
    if depth < 3 and random.random() < 0.6:
        joiner = random.choice([" AND ", " OR "])
        inner = joiner.join(random_text(random, depth + 1) for _ in range(random.randint(2, 3)))
        return f"{random.choice(['', 'NOT '])}({inner})"
    number = random.choice(["t.id", "t.n", "s.id", "t.price", "s.price"])
    other = random.choice(["t.id", "t.n", "s.id", "t.price", "s.price", "2", "1.5", "-1"])
    text = random.choice(["t.name", "s.name"])
    return random.choice(
        [
            f"{number} {random.choice(['=', '<>', '<', '<=', '>', '>='])} {other}",
            f"{text} {random.choice(['=', '<', '>='])} {random.choice(['t.name', 's.name'])}",
            f"{text} LIKE 'a%'",
            f"{text} {random.choice(['', 'NOT '])}IN ('a', 'b')",
            f"{number} {random.choice(['', 'NOT '])}BETWEEN {random.choice(['0', 't.id'])} AND {other}",
            f"{number} IS {random.choice(['', 'NOT '])}NULL",
            "s.flag",
        ]
    )


def random_rows(random: Random, schema: pa.Schema, rows: int) -> pa.Table:
    def value(dtype: pa.DataType) -> object:
        if random.random() < 0.2:
            return None
        if pa.types.is_string(dtype):
            return random.choice(["a", "b", "ab", ""])
        if pa.types.is_struct(dtype):
            return {"deep": random.randint(0, 3)}
        return random.random() < 0.5 if pa.types.is_boolean(dtype) else random.randint(-1, 3)

    return pa.table({f.name: pa.array([value(f.type) for _ in range(rows)], f.type) for f in schema})


@pytest.mark.parametrize("seed", range(examples(50)))
def test_conditions_say_what_duckdb_says(seed: int) -> None:
    random = Random(seed)
    target, source = random_rows(random, to_arrow_schema(FIELDS), 60), random_rows(random, SOURCE, 60)
    connection = duckdb.connect()
    connection.register("target", target)
    connection.register("source", source)
    for _ in range(6):
        text = random_text(random)
        found = condition(text)
        said = connection.sql(
            f"SELECT {text} FROM (SELECT *, row_number() OVER () AS at FROM target) t "  # noqa: S608 - our own text
            "JOIN (SELECT *, row_number() OVER () AS at FROM source) s ON t.at = s.at ORDER BY t.at"
        ).fetchall()
        assert found.mask(60, target, source).to_pylist() == [row[0] for row in said], text
        # Rows that fulfil the whole fulfil what prunes the target; and the equalities are what is not left over.
        kept = found.on_target().mask(target).to_pylist()
        assert all(kept[at] for at, (hit,) in enumerate(said) if hit), text


def test_equalities_are_those_of_the_outermost_ands() -> None:
    found = condition("t.id = s.id AND (s.name = t.name AND t.n > 5) AND (t.price = s.price OR s.flag) AND t.id = 3")
    assert found.equalities() == (("id", "id"), ("name", "name"))
    left = found.residual()
    assert left is not None
    assert str(left.predicate) == "t.n > 5 AND (t.price = s.price OR s.flag = TRUE) AND t.id = 3"
    assert str(found.on_target()) == "n > 5 AND id = 3"
    assert found.refs == {
        *map(target_col, ("id", "name", "n", "price")),
        *map(source_col, ("id", "name", "price", "flag")),
    }
    assert condition("t.id = s.id").residual() is None
    assert condition("t.id = t.n OR t.id = s.id").equalities() == ()
    assert condition("NOT (t.id <> s.id)").equalities() == (("id", "id"),)


def test_sides_may_be_spelled_out_and_plain_names_are_enough_where_one_side_has_them() -> None:
    assert condition("target.id = SOURCE.id").equalities() == (("id", "id"),)
    assert {(ref.side, ref.name) for ref in condition("n > 1 AND flag").refs} == {
        (MergeSide.TARGET, "n"),
        (MergeSide.SOURCE, "flag"),
    }
    assert condition("id = 1 AND name LIKE 'a%'", ColumnScope((), SOURCE)).refs == {
        source_col("id"),
        source_col("name"),
    }
    assert condition("t.s.deep = s.id").refs == {target_col("s"), source_col("id")}
    assert condition("`t`.`n` = 1").refs == {target_col("n")}


def test_predicates_are_on_the_target_or_on_the_source_where_there_is_none() -> None:
    made = PredicateBuilder(FIELDS).equal("id", 3)
    assert parse(made, BOTH, "the condition").refs == {target_col("id")}
    assert parse(made, ColumnScope((), SOURCE), "the condition").refs == {source_col("id")}
    assert str(parse(made, BOTH, "the condition").on_target()) == "id = 3"


@pytest.mark.parametrize(
    ("text", "says", "column"),
    [
        ("id = 3", "both sides; write t.id or s.id", "id"),
        ("t.ids = s.id", "did you mean 'id'", "ids"),
        ("s.nothing = 1", "no column 'nothing'", "nothing"),
        ("t.name = s.id", "cannot be compared exactly; cast one", "t.name"),
        ("t.s = s.id", "only be tested for null", "t.s"),
        ("s.flag = 3", "cannot be compared with 3", "s.flag"),
    ],
)
def test_conditions_that_cannot_be(text: str, says: str, column: str) -> None:
    with pytest.raises((InvalidInputError, ColumnNotExistException), match=says) as caught:
        condition(text)
    assert caught.value.column == column
    assert str(caught.value).startswith("table d.t: the condition: ")


def test_a_side_that_is_not_there_cannot_be_asked() -> None:
    with pytest.raises(ColumnNotExistException, match="no row of the target"):
        condition("t.id = 1", ColumnScope((), SOURCE))
    with pytest.raises(ColumnNotExistException, match="no row of the source"):
        condition("s.id = 1", ColumnScope(FIELDS, pa.schema([])))


def test_big_integers_are_not_compared_with_floats() -> None:
    scope = ColumnScope(FIELDS, pa.schema({"x": pa.float64(), "u": pa.uint64(), "d": pa.duration("s")}))
    with pytest.raises(InvalidInputError, match="BIGINT"):
        condition("t.n = s.x", scope)
    assert condition("t.id = s.x", scope).equalities() == (("id", "x"),)
    with pytest.raises(InvalidInputError, match="durations"):
        condition("s.d = 1", scope)
    assert condition("s.u = 1", scope).refs == {source_col("u")}
    assert condition("s.x = 1", scope).refs == {source_col("x")}


def test_conditions_must_be_whole_sentences() -> None:
    with pytest.raises(InvalidInputError, match="found the end"):
        condition("t.id =")
    with pytest.raises(InvalidInputError, match="a filter takes text"):
        parse(3, BOTH, "the condition")
