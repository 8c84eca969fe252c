"""INSERT, UPDATE, DELETE, MERGE and CREATE TABLE AS in this process, on every kind of table."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

import lakewright as lw
from support.effort import some

_KINDS = {
    "plain": "",
    "partitioned": "PARTITIONED BY (part)",
    "vectors": "TBLPROPERTIES ('deletion-vectors.enabled' = 'true')",
    "keyed": "TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '2')",
}
_ROWS = "(1, 'a', 1.5, 'x', named_struct('n', 1, 't', 'p')), (2, 'b', 2.5, 'x', NULL), (3, NULL, NULL, 'y', NULL)"


# Every kind at night; by day only what depends on how a kind finds and rewrites its rows.
_SAMPLE = pytest.mark.parametrize("ctx", some(list(_KINDS), 0, 3), indirect=True)


@pytest.fixture(params=_KINDS)
def ctx(tmp_path: Path, request: pytest.FixtureRequest) -> lw.SQLContext:
    context = lw.SQLContext(tmp_path)
    context.catalog.create_database("default")
    columns = "id INT NOT NULL, name STRING, price DECIMAL(10, 2), part STRING, s STRUCT<n: INT, t: STRING>"
    context.sql(f"CREATE TABLE t ({columns}) {_KINDS[request.param]}")
    context.sql(f"INSERT INTO t VALUES {_ROWS}")  # noqa: S608 - text of the test
    return context


def _counts(done: pa.Table) -> tuple[object, ...]:
    return tuple(done.select(["num_inserted_rows", "num_updated_rows", "num_deleted_rows"]).to_pylist()[0].values())


def _rows(ctx: lw.SQLContext, columns: str = "id, name, price") -> list[tuple[object, ...]]:
    text = f"SELECT {columns} FROM t ORDER BY id"  # noqa: S608 - text of the test
    return [tuple(row.values()) for row in ctx.sql(text).to_pylist()]


def test_update_evaluates_expressions_and_subqueries(ctx: lw.SQLContext) -> None:
    text = "UPDATE t SET name = concat(coalesce(name, '?'), '!'), price = price * 2"
    assert _counts(ctx.sql(f"{text} WHERE id > (SELECT min(id) FROM t)")) == (0, 2, 0)  # noqa: S608 - text of the test
    assert _rows(ctx) == [(1, "a", Decimal("1.50")), (2, "b!", Decimal("5.00")), (3, "?!", None)]


@_SAMPLE
def test_update_of_a_field_keeps_the_others(ctx: lw.SQLContext) -> None:
    assert _counts(ctx.sql("UPDATE t SET s.n = ? WHERE id = ?", [7, 1])) == (0, 1, 0)
    assert ctx.sql("SELECT s FROM t WHERE id = 1").to_pylist() == [{"s": {"n": 7, "t": "p"}}]


def test_delete_follows_the_condition_only_where_it_is_true(ctx: lw.SQLContext) -> None:
    assert _counts(ctx.sql("DELETE FROM t WHERE NOT price > 2")) == (0, 0, 1)
    assert [row[0] for row in _rows(ctx)] == [2, 3]
    before = ctx.catalog.get_table("default.t").snapshot()
    assert _counts(ctx.sql("DELETE FROM t WHERE id = 99")) == (0, 0, 0)
    after = ctx.catalog.get_table("default.t").snapshot()
    assert before is not None
    assert after is not None
    assert after.id == before.id


def test_merge_takes_the_first_clause_that_applies(ctx: lw.SQLContext) -> None:
    ctx.register("u", pa.table({"id": [2, 3, 9], "name": ["B", "C", "N"], "price": [1, 0, 2]}))
    text = """
        MERGE INTO t USING (SELECT CAST(id AS INT) AS id, name, price FROM u) s ON t.id = s.id
        WHEN MATCHED AND s.price = 0 THEN DELETE
        WHEN MATCHED THEN UPDATE SET name = s.name
        WHEN NOT MATCHED THEN INSERT (id, name, price) VALUES (s.id, s.name, s.price)
        WHEN NOT MATCHED BY SOURCE THEN UPDATE SET name = 'gone'
    """
    snapshot = ctx.catalog.get_table("default.t").snapshot()
    assert _counts(ctx.sql(text)) == (1, 2, 1)
    assert _rows(ctx) == [(1, "gone", Decimal("1.50")), (2, "B", Decimal("2.50")), (9, "N", Decimal("2.00"))]
    after = ctx.catalog.get_table("default.t").snapshot()
    assert snapshot is not None
    assert after is not None


@_SAMPLE
def test_an_ambiguous_merge_is_an_error_and_changes_nothing(ctx: lw.SQLContext) -> None:
    ctx.register("u", {"id": pa.array([2, 2], pa.int32())})
    with pytest.raises(lw.InvalidInputError, match="matched by 2 rows of the source"):
        ctx.sql("MERGE INTO t USING u ON t.id = u.id WHEN MATCHED THEN UPDATE SET name = 'x'")
    assert _rows(ctx)[1] == (2, "b", Decimal("2.50"))


@_SAMPLE
def test_a_merge_is_ambiguous_by_its_on_whatever_its_conditions_leave(ctx: lw.SQLContext) -> None:
    ctx.register("u", {"id": pa.array([2, 2], pa.int32()), "n": pa.array([1, 2], pa.int32())})
    with pytest.raises(lw.InvalidInputError, match="matched by 2 rows of the source"):
        ctx.sql("MERGE INTO t USING u ON t.id = u.id WHEN MATCHED AND u.n = 1 THEN UPDATE SET name = 'x'")
    with pytest.raises(lw.InvalidInputError, match="matched by 2 rows of the source"):
        ctx.sql(
            "MERGE INTO t USING u ON t.id = u.id WHEN MATCHED AND u.n = 1 THEN DELETE WHEN NOT MATCHED THEN INSERT "
            "(id) VALUES (u.id) WHEN NOT MATCHED BY SOURCE THEN UPDATE SET name = 'y'"
        )
    assert _rows(ctx) == [(1, "a", Decimal("1.50")), (2, "b", Decimal("2.50")), (3, None, None)]
    done = ctx.sql("MERGE INTO t USING u ON t.id = u.id AND u.n = 1 WHEN MATCHED AND t.id > 9 THEN DELETE")
    assert done["num_affected_rows"].to_pylist() == [0]
    ctx.sql("MERGE INTO t USING u ON t.id = u.id WHEN MATCHED THEN DELETE")
    assert [row[0] for row in _rows(ctx)] == [1, 3]


@_SAMPLE
def test_values_that_do_not_fit_are_errors(ctx: lw.SQLContext) -> None:
    for text in (
        "UPDATE t SET price = 'abc'",
        "UPDATE t SET price = 123456789012",
        "UPDATE t SET name = name / 0",
        "INSERT INTO t VALUES (1, 2)",
        "DELETE FROM t WHERE nam = 'a'",
    ):
        with pytest.raises(lw.LakewrightError):
            ctx.sql(text)
    assert _rows(ctx) == [(1, "a", Decimal("1.50")), (2, "b", Decimal("2.50")), (3, None, None)]


@_SAMPLE
def test_insert_takes_columns_by_place_by_list_and_by_name(ctx: lw.SQLContext) -> None:
    ctx.sql("INSERT INTO t (name, id) SELECT upper(name), id + 10 FROM t WHERE id = 1")
    ctx.sql("INSERT INTO t BY NAME SELECT 20 AS id, CAST(7 AS BIGINT) AS price")
    assert _rows(ctx)[3:] == [(11, "A", None), (20, None, Decimal("7.00"))]
    assert _counts(ctx.sql("INSERT OVERWRITE t SELECT * FROM t WHERE id = 11")) == (1, 0, 0)
    assert [row[0] for row in _rows(ctx)] == [11]


def test_an_insert_by_key_counts_the_rows_that_it_writes(tmp_path: Path) -> None:
    """Which keys exist is not looked up; only a merge knows."""
    ctx = lw.SQLContext(tmp_path)
    ctx.sql("CREATE TABLE t (id INT, v INT) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')")
    assert _counts(ctx.sql("INSERT INTO t VALUES (1, 1), (1, 2), (2, 2)")) == (2, 0, 0)
    assert _counts(ctx.sql("INSERT INTO t VALUES (1, 9), (3, 3)")) == (2, 0, 0)
    merge = "MERGE INTO t USING (VALUES (1, 8), (4, 4)) AS s(id, v) ON t.id = s.id"
    done = ctx.sql(f"{merge} WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *")
    assert _counts(done) == (1, 1, 0)
    assert _rows(ctx, "id, v") == [(1, 8), (2, 2), (3, 3), (4, 4)]


@_SAMPLE
def test_a_table_is_created_from_a_query(ctx: lw.SQLContext) -> None:
    assert _counts(ctx.sql("CREATE TABLE c AS SELECT id, sum(price) AS total FROM t GROUP BY id")) == (3, 0, 0)
    assert [str(field.type) for field in ctx.sql("SELECT * FROM c").schema] == ["int32", "decimal128(20, 2)"]
    with pytest.raises(lw.InvalidInputError, match="division by zero"):
        ctx.sql("CREATE TABLE e AS SELECT id / 0 AS x FROM t")
    assert ctx.catalog.list_tables("default") == ["c", "t"]


@_SAMPLE
def test_a_setting_lets_an_insert_by_name_add_and_widen_columns(ctx: lw.SQLContext) -> None:
    text = "INSERT INTO t BY NAME SELECT 4 AS ID, 'x' AS part, 5000000000 AS extra"
    with pytest.raises(lw.errors.NotFoundError, match="extra"):
        ctx.sql(text)
    ctx.sql("SET spark.paimon.write.merge-schema = true")
    assert _counts(ctx.sql(text)) == (1, 0, 0)
    assert _rows(ctx, "id, extra")[2:] == [(3, None), (4, 5_000_000_000)]
    for at, fields in enumerate(("'a', 1", "'a', 2, 'b', 3")):
        ctx.sql(f"INSERT INTO t BY NAME SELECT {5 + at} AS id, named_struct({fields}) AS inside")
    assert _rows(ctx, "inside")[-2:] == [({"a": 1, "b": None},), ({"a": 2, "b": 3},)]
    with pytest.raises(lw.InvalidInputError, match="'name'"):
        ctx.sql("INSERT INTO t BY NAME SELECT 5 AS id, array(1) AS name, 1 AS other")
    assert "other" not in ctx.sql("SELECT * FROM t").column_names
    ctx.sql("SET spark.paimon.write.merge-schema.explicit-cast = true")
    with pytest.raises(lw.UnsupportedError, match="explicit-cast"):
        ctx.sql(text)


@_SAMPLE
def test_a_merge_that_is_refused_adds_no_column(ctx: lw.SQLContext) -> None:
    source = "(SELECT 1 AS id, 'z' AS name, 2 AS price, 'x' AS part, NULL AS s, 'new' AS extra) AS n"
    text = f"MERGE WITH SCHEMA EVOLUTION INTO t USING {source} ON t.id = n.id"
    with pytest.raises(lw.InvalidInputError, match="'price'"):
        ctx.sql(f"{text} WHEN MATCHED AND n.id > 5 THEN UPDATE SET price = array(1) WHEN MATCHED THEN UPDATE SET *")  # noqa: S608 - text of the test
    assert "extra" not in ctx.sql("SELECT * FROM t").column_names
    assert _counts(ctx.sql(f"{text} WHEN MATCHED THEN UPDATE SET *")) == (0, 1, 0)
    assert _rows(ctx, "id, extra")[0] == (1, "new")


@pytest.mark.parametrize("buckets", ["1", "4", "-1"])
@pytest.mark.parametrize("by_text", [False, True])
def test_a_merge_takes_the_zeros_of_a_key_for_equal_and_keeps_their_signs(
    tmp_path: Path, buckets: str, *, by_text: bool
) -> None:
    context = lw.SQLContext(tmp_path)
    context.catalog.create_database("default")
    context.sql(
        f"CREATE TABLE t (k DOUBLE NOT NULL, v INT) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '{buckets}')"
    )

    def merge(zero: float, value: int) -> None:
        if by_text:
            source = f"(SELECT CAST('{zero}' AS DOUBLE) AS k, {value} AS v) s"
            changes = "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *"
            context.sql(f"MERGE INTO t USING {source} ON t.k = s.k {changes}")
            return
        rows = pa.table({"k": [zero], "v": pa.array([value], pa.int32())})
        merged = context.catalog.get_table("default.t").merge(rows, on="k")
        merged.when_matched_update().when_not_matched_insert().execute()

    merge(-0.0, 1)
    merge(0.0, 2)  # the same row, under its own key
    table = context.catalog.get_table("default.t")
    assert [str(tuple(row.values())) for row in lw.read_table(table).to_pylist()] == ["(-0.0, 2)"]
    table.upsert(pa.table({"k": [0.0], "v": pa.array([3], pa.int32())}))  # a write: keys differ as their bits do
    merge(-0.0, 4)
    found = lw.read_table(table).to_pylist()
    assert sorted(str(tuple(row.values())) for row in found) == ["(-0.0, 4)", "(0.0, 4)"]
