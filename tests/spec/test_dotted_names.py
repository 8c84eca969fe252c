"""A column named `a.b` beside a ROW `a` with a field `b`: no form of a filter takes one for the other."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lakewright as lw
from lakewright.dml.assignments import ColumnScope
from lakewright.dml.matching import parse
from lakewright.errors import ColumnNotExistException
from lakewright.pypaimon.compat_predicates import PredicateBuilder as PeerBuilder
from lakewright.read.pruning import devolve
from lakewright.spec.arrow_types import from_arrow_schema
from lakewright.spec.column_stats import ColumnStats
from lakewright.spec.filters import from_arrow, from_polars, to_predicate
from lakewright.spec.predicate import FALSE, TRUE, Predicate, PredicateBuilder, bind, may_match, simplify
from lakewright.spec.types import DataField

SCHEMA = pa.schema([("a", pa.struct([("b", pa.int32()), ("c.d", pa.int32())])), ("a.b", pa.int32()), ("k", pa.int32())])
FIELDS = from_arrow_schema(SCHEMA)
ROWS = pa.table({"a": [{"b": 1, "c.d": 3}], "a.b": [2], "k": [0]}, schema=SCHEMA)
COLUMN, FIELD = ("a.b",), ("a", "b")
FILTERS: list[tuple[tuple[str, ...], Callable[[int], Any]]] = [
    (COLUMN, lambda value: f"`a.b` = {value}"),
    (FIELD, lambda value: f"a.b = {value}"),
    (FIELD, lambda value: f"`a`.`b` = {value}"),
    (FIELD, lambda value: f"{value} >= a.b AND NOT a.b < {value}"),
    (FIELD, lambda value: f"a.b IN ({value}) OR a.b BETWEEN {value} AND {value}"),
    (("a", "c.d"), lambda value: f"a.`c.d` = {value}"),
    (COLUMN, lambda value: pc.field("a.b") == value),
    (FIELD, lambda value: pc.field("a", "b") == value),
    (FIELD, lambda value: pc.field("a", "b").isin([value])),
    (COLUMN, lambda value: pl.col("a.b") == value),
    (FIELD, lambda value: pl.col("a").struct.field("b") == value),
    (COLUMN, lambda value: PredicateBuilder(FIELDS).equal("a.b", value)),
    (COLUMN, lambda value: PredicateBuilder(FIELDS).equal(("a.b",), value)),
    (FIELD, lambda value: PredicateBuilder(FIELDS).equal(FIELD, value)),
    (FIELD, lambda value: PredicateBuilder(FIELDS).is_in(FIELD, [value])),
    (COLUMN, lambda value: PeerBuilder(FIELDS).equal("a.b", value)),
    (FIELD, lambda value: PeerBuilder(FIELDS, aliases={"a_b": FIELD}).equal("a_b", value)),
    (FIELD, lambda value: PeerBuilder(FIELDS).equal(FIELD, value)),
]
VALUES = {COLUMN: 2, FIELD: 1, ("a", "c.d"): 3}


@pytest.mark.parametrize(("path", "make"), FILTERS)
def test_every_form_of_a_filter_finds_its_column(path: tuple[str, ...], make: Callable[[int], Any]) -> None:
    predicate = to_predicate(make(VALUES[path]), FIELDS)
    assert {leaf.path for leaf in predicate.leaves()} == {path}
    for again in (predicate, bind(predicate, FIELDS), to_predicate(str(predicate), FIELDS)):
        assert {leaf.path for leaf in again.leaves()} == {path}
        assert again.mask(ROWS).to_pylist() == [True]
        assert ROWS.filter(again.to_arrow(SCHEMA)).num_rows == 1
    assert to_predicate(make(7), FIELDS).mask(ROWS).to_pylist() == [False]
    if isinstance(given := make(1), Predicate):
        assert bind(copy.deepcopy(given), FIELDS) == bind(given, FIELDS)


def test_expressions_of_other_libraries_do_not_fall_back_to_text() -> None:
    only_column = PredicateBuilder([field for field in FIELDS if field.name != "a"])
    with pytest.raises(ColumnNotExistException):
        from_arrow(pc.field("a", "b") == 1, only_column)
    with pytest.raises(ColumnNotExistException):
        from_polars(pl.col("a").struct.field("b") == 1, only_column)
    assert from_arrow(pc.field("a.b") == 1, only_column).path == COLUMN
    assert to_predicate("a.b = 1", [field for field in FIELDS if field.name != "a"]).path == COLUMN


def test_statistics_and_partitions_of_the_column_say_nothing_about_the_field() -> None:
    on_field, on_column = (to_predicate(text, FIELDS) for text in ("a.b = 1", "`a.b` = 1"))
    stats = {"a.b": ColumnStats(2, 2, 0)}.get
    assert may_match(on_field, stats, 1)
    assert not may_match(on_column, stats, 1)
    assert may_match(~to_predicate("a.b LIKE 'x'", _as_text()), {"a.b": ColumnStats(None, None, 1)}.get, 1)
    assert simplify(on_field, {"a.b": 2}) == on_field
    assert simplify(on_column, {"a.b": 2}) == FALSE
    assert devolve(on_field, FIELDS, FIELDS) == TRUE
    renamed = [DataField(field.id, field.name.replace("a.b", "z"), field.type) for field in FIELDS]
    assert devolve(on_column, FIELDS, renamed).path == ("z",)


def _as_text() -> list[DataField]:
    schema = pa.schema([("a", pa.struct([("b", pa.string())])), ("a.b", pa.string())])
    return list(from_arrow_schema(schema))


def test_conditions_of_a_merge_find_their_columns() -> None:
    scope = ColumnScope(tuple(FIELDS), SCHEMA)
    for text, target, source in [
        ("t.a.b = s.`a.b`", ("t", "a", "b"), ("s", "a.b")),
        ("t.`a.b` = s.a.b", ("t", "a.b"), ("s", "a", "b")),
    ]:
        condition = parse(text, scope, "on")
        assert ({condition.predicate.path, condition.predicate.other}) == {target, source}
    assert parse("t.a.b = 1", scope, "when").mask(1, ROWS, ROWS).to_pylist() == [True]
    assert parse("t.`a.b` = 1", scope, "when").mask(1, ROWS, ROWS).to_pylist() == [False]


@pytest.mark.parametrize("kind", ["append", "primary key", "partitioned"])
def test_reads_keep_the_rows_that_match(kind: str, tmp_path: Path) -> None:
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d")
    keys = ["k", "a.b"] if kind == "primary key" else []
    partitions = ["a.b"] if kind != "append" else []
    options = {"bucket": "1"} if keys else {}
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(SCHEMA, partitions, keys, options))
    table = catalog.get_table("d.t")
    lw.write_table(ROWS, table)
    for path, make in FILTERS:
        assert lw.read_table(table, filter=make(VALUES[path])).num_rows == 1, path
        assert lw.read_table(table, filter=make(7)).num_rows == 0
    assert lw.scan_polars(table).filter(pl.col("a").struct.field("b") == 1).collect().height == 1
    assert lw.scan_polars(table).filter(pl.col("a.b") == 2).collect().height == 1
    with duckdb.connect() as connection:
        relation = lw.duckdb_relation(table, connection)
        assert [len(relation.filter(text).fetchall()) for text in ("a.b = 1", '"a.b" = 2', "a.b = 2")] == [1, 1, 0]
    assert lw.sql("SELECT k FROM d.t WHERE a.b = 1", catalog=catalog).num_rows == 1
    assert lw.sql("SELECT k FROM d.t WHERE `a.b` = 2", catalog=catalog).num_rows == 1
    assert lw.sql("SELECT k FROM d.t WHERE `a.b` = 1 OR a.b = 2", catalog=catalog).num_rows == 0
    assert table.delete("a.b = 2").deleted == 0
    assert table.delete("a.b = 1").deleted == 1
    assert lw.read_table(table).num_rows == 0
