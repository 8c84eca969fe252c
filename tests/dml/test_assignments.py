"""What an update sets: every form of a value, and errors before anything is read."""

from __future__ import annotations

import datetime as dt
import pickle
from collections.abc import Callable, Sequence
from decimal import Decimal

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lakewright as lw
from lakewright.dml.assignments import Assignments, ColumnScope, check_assignments, refuse_names_as_text
from lakewright.errors import ColumnNotExistException, InvalidInputError
from lakewright.spec.arrow_types import to_arrow_schema
from lakewright.spec.types import ArrayType, AtomicType, DataField, MapType, RowType

FIELDS = (
    DataField(0, "id", AtomicType("INT", nullable=False)),
    DataField(1, "n", AtomicType("BIGINT"), default_value="7"),
    DataField(2, "name", AtomicType("VARCHAR(5)")),
    DataField(3, "day", AtomicType("DATE")),
    DataField(4, "price", AtomicType("DECIMAL(6, 2)")),
    DataField(5, "data", AtomicType("BYTES")),
    DataField(6, "at", AtomicType("TIMESTAMP(3)")),
    DataField(7, "list", ArrayType(nullable=True, element_type=AtomicType("INT"))),
    DataField(8, "map", MapType(nullable=True, key_type=AtomicType("STRING"), value_type=AtomicType("INT"))),
    DataField(9, "row", RowType(nullable=True, fields=[DataField(10, "x", AtomicType("INT"))])),
    DataField(11, "flag", AtomicType("BOOLEAN")),
)
SOURCE = pa.schema({"id": pa.int64(), "n": pa.int16(), "text": pa.large_string(), "x": pa.float64()})
TARGET_ROWS = pa.table({"id": pa.array([1, 2], pa.int32()), "n": [10, None], "name": ["a", None]})
SOURCE_ROWS = pa.table({"id": [1, 2], "n": [3, 4], "text": ["p", "q"], "x": [1.5, 2.0]}, SOURCE)


def check(given: dict[str, object], scope: ColumnScope | None = None, read: Sequence[str] = ()) -> Assignments:
    return check_assignments(given, scope or ColumnScope(FIELDS), FIELDS, table="d.t", read=read)


@pytest.mark.parametrize(
    ("column", "given", "out"),
    [
        ("n", 5, 5),
        ("n", lw.lit(5), 5),
        ("n", np.int16(5), 5),
        ("n", pa.scalar(5, pa.uint8()), 5),
        ("n", None, None),  # although the column has a default
        ("name", "n + 1", "n + 1"),  # text is a literal
        ("day", dt.date(2026, 1, 2), dt.date(2026, 1, 2)),
        ("day", "2026-01-02", dt.date(2026, 1, 2)),
        ("price", Decimal("1.50"), Decimal("1.50")),
        ("price", 1.5, Decimal("1.50")),
        ("data", b"\x00\xff", b"\x00\xff"),
        ("at", dt.datetime(2026, 1, 2, 3), dt.datetime(2026, 1, 2, 3)),  # noqa: DTZ001 - TIMESTAMP has no zone
        ("list", [1, 2], [1, 2]),
        ("list", lw.lit([]), []),
        ("map", {"a": 1}, [("a", 1)]),
        ("row", {"x": 3}, {"x": 3}),
        ("flag", True, True),
        ("n", lw.target_col("id"), [1, 2]),
        ("id", lw.target_col("id"), [1, 2]),
        ("n", pc.field("id") * 2, [2, 4]),
        ("n", pc.field("id") + pc.field("n"), [11, None]),
        ("n", pc.coalesce(pc.field("n"), pc.scalar(0)), [10, 0]),
        ("n", lambda rows: pc.add(rows["id"], 1), [2, 3]),
        ("n", lambda _: [None, 8], [None, 8]),
        ("n", lambda _: np.array([7, 8]), [7, 8]),
        ("n", lambda _: pl.Series([7, 8], dtype=pl.Int8), [7, 8]),
        ("n", lambda _: 3, 3),
        ("n", lambda _: pa.scalar(3), 3),
        ("name", lambda _: "x", "x"),
    ],
)
def test_values_expressions_and_functions_are_assigned(column: str, given: object, out: object) -> None:
    made = check({column: given}).evaluate(2, whole())
    assert made.schema == to_arrow_schema([made_field(column)])
    assert made[column].to_pylist() == (out if isinstance(out, list) and column not in {"list", "map"} else [out] * 2)


def made_field(column: str) -> DataField:
    found = next(field for field in FIELDS if field.name == column)
    return DataField(found.id, found.name, found.type)


def test_only_what_is_needed_is_read() -> None:
    assert check({"n": 5, "name": "x"}).target_columns == ()
    assert check({"name": lw.target_col("name"), "n": pc.field("id")}).target_columns == ("id", "name")
    assert check({"n": lambda rows: rows["id"]}).target_columns == tuple(field.name for field in FIELDS)
    assert check({"n": lambda rows: rows["id"]}, read=["id"]).target_columns == ("id",)
    both = check({"n": pc.field("t.n") + pc.field("s.n"), "name": lw.source_col("text")}, ColumnScope(FIELDS, SOURCE))
    assert (both.target_columns, both.source_columns) == (("n",), ("n", "text"))


def test_rows_of_a_merge_lie_side_by_side() -> None:
    made = check(
        {"n": pc.field("t.id") + pc.field("s.n"), "name": lw.source_col("text"), "id": lambda rows: rows["x"]},
        ColumnScope(FIELDS, SOURCE.remove(3).append(pa.field("x", pa.int64()))),
    )
    source = SOURCE_ROWS.drop_columns(["x"]).append_column("x", pa.array([7, 8]))
    out = made.evaluate(2, whole(), source)
    assert out.to_pylist() == [{"id": 7, "n": 4, "name": "p"}, {"id": 8, "n": 6, "name": "q"}]
    plain = check({"n": pc.field("x"), "id": pc.field("s.id"), "name": pc.field("text")}, ColumnScope((), SOURCE))
    assert plain.evaluate(1, None, SOURCE_ROWS.slice(1)).to_pylist() == [{"id": 2, "n": 2, "name": "q"}]


def whole() -> pa.Table:
    """Return rows of the target with all columns."""
    rest = {field.name: pa.nulls(2, field.type) for field in to_arrow_schema(FIELDS[3:])}
    return pa.table({**dict(zip(TARGET_ROWS.column_names, TARGET_ROWS.columns, strict=True)), **rest})


def test_checked_assignments_travel() -> None:
    made = pickle.loads(pickle.dumps(check({"n": pc.field("id") + 1, "name": "x"})))  # noqa: S301 - our own bytes
    assert made.evaluate(2, TARGET_ROWS).to_pylist() == [{"n": 2, "name": "x"}, {"n": 3, "name": "x"}]


@pytest.mark.parametrize(
    ("given", "says", "column"),
    [
        ({"nn": 1}, "no column 'nn'; did you mean 'n'", "nn"),
        ({"row.x": 1}, "assign the whole column", "row.x"),
        ({"id": None}, "takes no null", "id"),
        ({"id": 2**31}, "out of range", "id"),
        ({"n": "12"}, "taken as it stands", "n"),
        ({"n": 1.5}, "fraction", "n"),
        ({"flag": "true"}, "taken as it stands", "flag"),
        ({"name": "too long"}, "longer than the 5 characters", "name"),
        ({"name": 3}, "name", "name"),
        ({"day": "soon"}, "day", "day"),
        ({"list": ["x"]}, "list", "list"),
        ({"n": lw.target_col("name")}, "cannot become it", "n"),
        ({"n": lw.target_col("nn")}, "no column 'nn'", "nn"),
        ({"n": lw.source_col("n")}, "no source here", "n"),
        ({"name": pc.field("id")}, "cannot become it", "name"),
    ],
)
def test_wrong_assignments_are_refused_before_anything_is_read(
    given: dict[str, object], says: str, column: str
) -> None:
    with pytest.raises((InvalidInputError, ColumnNotExistException), match=says) as caught:
        check(given)
    assert caught.value.column == column


@pytest.mark.parametrize("given", [{}, None, [("n", 1)]])
def test_an_empty_assignment_is_refused(given: dict[str, object]) -> None:
    with pytest.raises(InvalidInputError, match="nothing to assign"):
        check(given)


@pytest.mark.parametrize("expression", [pc.field("nothing") + 1, pc.field(1), pc.field("name") * 2])
def test_expressions_that_cannot_be_computed_are_refused(expression: pc.Expression) -> None:
    with pytest.raises(InvalidInputError, match="the expression"):
        check({"n": expression})


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (lambda _: [1], "1 value for 2 rows"),
        (lambda _: ["a", "b"], "no column of it"),
        (lambda _: pa.array(["a", "b"]), "cannot become it"),
        (lambda _: pa.array([1.5, 2.0]), "cannot take the value 1.5"),
    ],
)
def test_functions_that_return_something_else(given: object, says: str) -> None:
    with pytest.raises(InvalidInputError, match=says) as caught:
        check({"n": given}).evaluate(2, whole())
    assert caught.value.column == "n"


def test_nulls_of_rows_are_refused_where_the_column_takes_none() -> None:
    made = check({"id": pc.field("n")})
    with pytest.raises(InvalidInputError, match="NOT NULL") as caught:
        made.evaluate(2, TARGET_ROWS)
    assert caught.value.column == "id"


@pytest.mark.parametrize(
    "text",
    ["upper(name)", "concat(name, '!')", "name || '!'", "n + 1", "id*n", "t.name || 'x'", "`name` || 'x'", "2 * n"],
)
def test_text_that_reads_as_an_expression_over_columns_is_refused(text: str) -> None:
    scope = ColumnScope(FIELDS)
    with pytest.raises(lw.InvalidInputError, match=r"lw\.expr\(.*lw\.lit\("):
        refuse_names_as_text({"name": text}, scope, table="d.t")
    refuse_names_as_text({"name": lw.lit(text)}, scope, table="d.t")


@pytest.mark.parametrize(
    "text",
    ["name", "first-name", "a (name)", "n/a", "Hello, name!", "upper(other)", "2024-01-01", "", "f(x) = 1"],
)
def test_other_text_is_a_literal(text: str) -> None:
    refuse_names_as_text({"name": text}, ColumnScope(FIELDS), table="d.t")


def test_expressions_in_sql_and_of_polars() -> None:
    both = {"n": lw.expr("n * 2 + id"), "name": pl.col("name") + "!"}
    made = check(both)
    assert (made.target_columns, made.source_columns) == (("id", "n", "name"), ())
    made = pickle.loads(pickle.dumps(made))  # noqa: S301 - our own bytes
    rows = pa.table({"id": pa.array([1, 2], pa.int32()), "n": [10, 20], "name": ["a", "b"]})
    assert made.evaluate(2, rows).to_pylist() == [{"n": 21, "name": "a!"}, {"n": 42, "name": "b!"}]
    constant = check({"n": pl.lit(7), "name": lw.expr("'x'")})
    assert constant.target_columns == ()
    assert constant.evaluate(2, rows).to_pylist() == [{"n": 7, "name": "x"}] * 2


def test_expressions_in_sql_see_both_sides_of_a_merge() -> None:
    made = check({"n": lw.expr("t.n + s.n"), "name": pl.col("s.text")}, ColumnScope(FIELDS, SOURCE))
    assert (made.target_columns, set(made.source_columns)) == (("n",), {"n", "text"})


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        (lambda: lw.expr("sum(n)"), "over one row"),
        (lambda: lw.expr("(SELECT 1)"), "over one row"),
        (lambda: lw.expr("row_number() OVER (ORDER BY n)"), "over one row"),
        (lambda: lw.expr("missing + 1"), "'missing', which is unknown"),
        (lambda: pl.col("missing"), "'missing', which is unknown"),
        (lambda: pl.col("n").sum(), "a value for each row"),
        (lambda: lw.expr("name"), "BIGINT"),
    ],
)
def test_wrong_expressions_are_refused_before_anything_is_read(expression: Callable[[], object], says: str) -> None:
    with pytest.raises(lw.InvalidInputError if "unknown" not in says else lw.NotFoundError, match=says):
        check({"n": expression()})
