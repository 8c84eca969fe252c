"""Queries in this process over tables, views and Arrow data: values stay exact, names are found, errors show places."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

import lakewright as lw
from lakewright.errors import ColumnNotExistException


@pytest.fixture
def ctx(tmp_path: Path) -> lw.SQLContext:
    context = lw.SQLContext(tmp_path)
    context.catalog.create_database("default", ignore_if_exists=True)
    context.set("spark.sql.session.timeZone", "UTC")
    return context


def _made(ctx: lw.SQLContext, name: str, rows: pa.Table) -> None:
    ctx.catalog.create_table(f"default.{name}", lw.Schema.from_pyarrow_schema(rows.schema))
    lw.write_table(rows, ctx.catalog.get_table(f"default.{name}"))


def test_values_are_exact_on_their_way_in_and_out(ctx: lw.SQLContext) -> None:
    moment = datetime(2026, 1, 31, 23, 59, 59, 123456, UTC)
    schema = pa.schema(
        {
            "decimal": pa.decimal128(38, 10),
            "zoned": pa.timestamp("us", "UTC"),
            "local": pa.timestamp("ns"),
            "bytes": pa.binary(),
            "list": pa.list_(pa.struct({"a": pa.int8(), "b": pa.string()})),
            "map": pa.map_(pa.string(), pa.float32()),
            "nan": pa.float64(),
        }
    )
    row = {
        "decimal": Decimal("1234567890123456789012345678.0123456789"),
        "zoned": moment,
        "local": 1_700_000_000_123_456_789,
        "bytes": b"\x00\xff'",
        "list": [{"a": 1, "b": None}, None],
        "map": [("k", 0.5)],
        "nan": float("inf"),
    }
    rows = pa.Table.from_pylist([row, dict.fromkeys(row)], schema=schema)
    _made(ctx, "t", rows)
    found = ctx.sql("SELECT * FROM t ORDER BY bytes DESC")
    assert found.schema.names == schema.names
    assert found.column("local").cast(pa.int64()).to_pylist() == [1_700_000_000_123_456_789, None]
    others = [name for name in schema.names if name != "local"]
    assert found.select(others).to_pylist() == rows.select(others).to_pylist()


def test_a_table_may_be_read_several_times_and_at_other_snapshots(ctx: lw.SQLContext) -> None:
    _made(ctx, "t", pa.table({"id": [1, 2]}))
    ctx.sql("INSERT INTO t VALUES (3)")
    text = "SELECT count(*) AS n FROM t a JOIN t b ON a.id = b.id JOIN t VERSION AS OF 1 c ON c.id = a.id"
    assert ctx.sql(text).to_pylist() == [{"n": 2}]


def test_views_are_queries_that_read_the_newest_rows(ctx: lw.SQLContext) -> None:
    _made(ctx, "t", pa.table({"id": [1, 2]}))
    ctx.sql("CREATE TEMPORARY VIEW v AS SELECT id * 10 AS ten FROM t")
    ctx.sql("CREATE TEMPORARY VIEW w AS SELECT ten + 1 AS eleven FROM v JOIN t ON ten = id * 10")
    assert ctx.sql("SELECT * FROM w ORDER BY 1").to_pylist() == [{"eleven": 11}, {"eleven": 21}]
    ctx.sql("INSERT INTO t VALUES (3)")
    assert ctx.sql("SELECT max(ten) AS m FROM v").to_pylist() == [{"m": 30}]
    with pytest.raises(lw.AlreadyExistsError, match="OR REPLACE"):
        ctx.sql("CREATE TEMPORARY VIEW v AS SELECT 1")
    ctx.sql("DROP VIEW v")
    with pytest.raises(lw.NotFoundError):
        ctx.sql("SELECT * FROM v")


def test_arrow_data_takes_part_in_queries(ctx: lw.SQLContext) -> None:
    ctx.register("u", {"id": [1, 2], "name": ["a", None]})
    assert ctx.sql("SELECT name FROM u WHERE name IS NOT NULL").to_pylist() == [{"name": "a"}]
    for wrong in (5, None, "x"):
        with pytest.raises(lw.InvalidInputError):
            ctx.register("u", wrong)  # type: ignore[arg-type]
    with pytest.raises(lw.InvalidInputError):
        ctx.register(7, {"id": [1]})  # type: ignore[arg-type]


def test_explain_shows_the_plan_and_what_is_read(ctx: lw.SQLContext) -> None:
    _made(ctx, "t", pa.table({"id": [1, 2], "other": [1, 2]}))
    plan = ctx.sql("EXPLAIN SELECT sum(id) FROM t WHERE id = 2").to_pylist()[0]["plan"]
    assert "Python Arrow Scan" in plan
    assert "Projection:         [id]" in plan


def test_errors_name_the_column_and_the_place(ctx: lw.SQLContext) -> None:
    _made(ctx, "t", pa.table({"amount": [1]}))
    with pytest.raises(ColumnNotExistException, match=r"no column 'amout'; did you mean 'amount'\? \(line 1, col"):
        ctx.sql("SELECT amout FROM t")
    with pytest.raises(lw.NotFoundError, match="did you mean 't'"):
        ctx.sql("SELECT * FROM tt")
    with pytest.raises(lw.InvalidInputError, match="is ambiguous"):
        ctx.sql("SELECT amount FROM t a JOIN t b ON a.amount = b.amount")


def test_parameters_are_bound_by_name_and_by_place(ctx: lw.SQLContext) -> None:
    quoted = "it's; DROP TABLE t"
    assert ctx.sql("SELECT :x AS x", args={"x": quoted}).to_pylist() == [{"x": quoted}]
    assert ctx.sql("SELECT ? AS a, ? AS b", args=[Decimal("1.50"), None]).to_pylist() == [
        {"a": Decimal("1.50"), "b": None}
    ]
    wrong: list[dict[str, object] | list[object]] = [{}, [], {"x": object()}]
    for args in wrong:
        with pytest.raises(lw.InvalidInputError):
            ctx.sql("SELECT :x", args=args)


def test_limits_of_duckdb_can_be_set(ctx: lw.SQLContext) -> None:
    ctx.sql("SET duckdb.threads = 1")
    ctx.sql("SET duckdb.memory_limit = 64MB")
    assert ctx.sql("SELECT count(DISTINCT id) AS n FROM range(1000)").to_pylist() == [{"n": 1000}]
    with pytest.raises(lw.InvalidInputError, match="no region"):
        ctx.sql("SET spark.sql.session.timeZone = Nowhere/Land")


def test_describe_query_shows_the_columns_of_a_query(ctx: lw.SQLContext) -> None:
    _made(ctx, "t", pa.table({"id": [1], "s": pa.array([{"A": 1.5}], pa.struct({"A": pa.float64()}))}))
    expected = [
        ("id", "bigint", None),
        ("s", "struct<A:double>", None),
        ("n", "void", None),
        ("d", "decimal(3,2)", None),
    ]
    for verb in ("DESCRIBE QUERY", "DESC QUERY", "DESCRIBE"):
        found = ctx.sql(f"{verb} SELECT *, NULL AS n, 1.25BD AS d FROM t")  # noqa: S608 - text of the test
        assert found.column_names == ["col_name", "data_type", "comment"]
        assert [tuple(row.values()) for row in found.to_pylist()] == expected
    with pytest.raises(lw.errors.NotFoundError, match="missing"):
        ctx.sql("DESCRIBE QUERY SELECT * FROM missing")


def test_columns_of_the_audit_log_are_chosen_by_name(ctx: lw.SQLContext) -> None:
    _made(ctx, "t", pa.table({"id": [1, 2], "day": ["mon", "tue"]}))
    assert ctx.sql("SELECT day, rowkind FROM `t$audit_log` WHERE id = 2").to_pylist() == [
        {"day": "tue", "rowkind": "+I"}
    ]
    assert ctx.sql("SELECT rowkind FROM `t$audit_log`").to_pylist() == [{"rowkind": "+I"}] * 2
    assert ctx.sql("SELECT id FROM `t$audit_log` WHERE rowkind = '-D'").num_rows == 0


def test_frames_are_given_by_keyword_for_one_statement(ctx: lw.SQLContext) -> None:
    _made(ctx, "t", pa.table({"id": [1, 2]}))
    new = pa.table({"id": [2, 3]})
    assert ctx.sql("SELECT id FROM new WHERE id > 2", new=new).to_pylist() == [{"id": 3}]
    both = ctx.sql("SELECT count(*) AS n FROM {new} JOIN t USING (id)", new=pl.from_arrow(new))
    assert both.to_pylist() == [{"n": 1}]
    ctx.sql("INSERT INTO t SELECT id FROM new WHERE id > :low", {"low": 2}, new={"id": [2, 3]})
    assert sorted(ctx.sql("SELECT * FROM t")["id"].to_pylist()) == [1, 2, 3]
    with pytest.raises(lw.NotFoundError):
        ctx.sql("SELECT * FROM new")
    ctx.register("new", pa.table({"id": [9]}))
    assert ctx.sql("SELECT * FROM new", new=new).num_rows == 2
    assert ctx.sql("SELECT * FROM new").to_pylist() == [{"id": 9}]
    with pytest.raises(lw.InvalidInputError, match="data takes"):
        ctx.sql("SELECT * FROM new", new=7)


def test_columns_of_the_place_of_a_row_are_read_where_a_query_names_them(ctx: lw.SQLContext) -> None:
    _made(ctx, "a", pa.table({"id": [1, 2, 3]}))
    lw.write_table(pa.table({"id": [4]}), ctx.catalog.get_table("default.a"))
    keyed = lw.Schema.from_pyarrow_schema(pa.schema({"id": pa.int64()}), primary_keys=["id"], options={"bucket": "1"})
    ctx.catalog.create_table("default.k", keyed)
    for _ in range(2):
        lw.write_table(pa.table({"id": [4]}), ctx.catalog.get_table("default.k"))
    assert ctx.sql("SELECT __paimon_row_index AS at FROM a WHERE id >= 3 ORDER BY id").to_pydict() == {"at": [2, 0]}
    files = ctx.sql(
        "SELECT count(*) AS n FROM a GROUP BY __PAIMON_FILE_PATH HAVING max(__paimon_bucket) = 0 ORDER BY n"
    )
    assert files.to_pydict() == {"n": [1, 3]}
    joined = ctx.sql("SELECT a.__paimon_row_index AS at FROM a JOIN k ON a.id = k.id")
    assert joined.to_pydict() == {"at": [0]}
    assert ctx.sql("SELECT * FROM a").column_names == ["id"]
    with pytest.raises(lw.UnsupportedError, match="__paimon_bucket"):
        ctx.sql("SELECT __paimon_bucket FROM k")
