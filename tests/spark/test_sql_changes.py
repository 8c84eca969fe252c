"""UPDATE, DELETE, MERGE, INSERT and COPY INTO by SQL on Spark, against rows that a small model in Python computes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import lakewright as lw
import lakewright.spark as lws
from lakewright.errors import InvalidInputError
from support.effort import some

pytestmark = pytest.mark.spark

COLUMNS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("v", pa.int32()),
        ("s", pa.struct([("a", pa.int32()), ("b", pa.string())])),
        pa.field("p", pa.string()),
    ]
)
KINDS: dict[str, dict[str, object]] = {
    "plain": {},
    "vectors": {"options": {"deletion-vectors.enabled": "true"}, "partition_keys": ["p"]},
    "keyed": {"primary_keys": ["id"], "options": {"bucket": "2"}},
}
FAILED = (PySparkException, Py4JJavaError)  # what Spark raises for a job that failed; the second up to 3.5
Row: TypeAlias = dict[str, object]
Rows: TypeAlias = dict[int, Row]


def _row(number: int) -> Row:
    return {"id": number, "v": number * 10, "s": {"a": number, "b": f"b{number}"}, "p": "xy"[number % 2]}


class Table:
    """A table with ten rows, and the model of what it holds."""

    def __init__(self, spark: SparkSession, path: Path, kind: str) -> None:
        self.catalog = lw.CatalogFactory.create({"warehouse": str(path)})
        self.catalog.create_database("d")
        schema = lw.Schema.from_pyarrow_schema(COLUMNS, **KINDS[kind])  # type: ignore[arg-type]
        self.catalog.create_table("d.t", schema)
        self.model: Rows = {number: _row(number) for number in range(10)}
        lw.write_table(pa.Table.from_pylist(list(self.model.values()), COLUMNS), self.catalog.get_table("d.t"))
        self.context = lws.SQLContext(spark, self.catalog, "d")

    def run(self, text: str, args: object = None) -> tuple[int, ...]:
        """Run a statement, and return how many rows it inserted, updated and deleted."""
        row = self.context.sql(text, args).collect()[0]  # type: ignore[arg-type]
        assert row[0] == sum(row[1:])
        return tuple(row[1:])

    def rows(self) -> Rows:
        return {row["id"]: row for row in lw.read_table(self.catalog.get_table("d.t")).to_pylist()}

    def files(self) -> set[str]:
        root = Path(str(self.catalog.get_table("d.t").store.layout.root).removeprefix("file://"))
        return {str(path) for path in root.rglob("*") if path.is_file()}


@pytest.fixture(params=some(list(KINDS), 1, 2))
def table(spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest) -> Table:
    """Return a table of each kind."""
    return Table(spark, tmp_path, request.param)


def _changed(rows: Rows, change: Callable[[Row], Row | None]) -> Rows:
    made = {number: change(dict(row)) for number, row in rows.items()}
    return {number: row for number, row in made.items() if row is not None}


def test_delete_update_and_merge_do_what_the_model_says(table: Table) -> None:
    table.context.spark.createDataFrame([(1,), (3,)], "k int").createOrReplaceTempView("some_keys")
    text = "DELETE FROM t x WHERE EXISTS (SELECT 1 FROM some_keys WHERE k = x.id) OR v = :v"
    assert table.run(text, {"v": 90}) == (0, 0, 3)
    model = _changed(table.model, lambda row: None if row["id"] in {1, 3, 9} else row)
    assert table.rows() == model

    assert table.run("UPDATE d.t SET s.a = d.t.v + ?, v = (SELECT max(v) FROM t) WHERE id > ?", [7, 6]) == (0, 2, 0)
    for number in (7, 8):
        model[number] |= {"s": {"a": number * 10 + 7, "b": f"b{number}"}, "v": 80}
    assert table.rows() == model

    text = """MERGE INTO t USING (SELECT * FROM VALUES (0, 5), (2, 6), (50, 7) AS q(k, w)) u ON t.id = u.k
        WHEN MATCHED AND u.w = 5 THEN DELETE WHEN MATCHED THEN UPDATE SET v = w + t.v
        WHEN NOT MATCHED THEN INSERT (id, v, p) VALUES (k, w, 'x')
        WHEN NOT MATCHED BY SOURCE AND id = 8 THEN UPDATE SET s = named_struct('b', 'new', 'a', 1)"""
    assert table.run(text) == (1, 2, 1)
    del model[0]
    model[2] |= {"v": 26}
    model[8] |= {"s": {"a": 1, "b": "new"}}
    model[50] = {"id": 50, "v": 7, "s": None, "p": "x"}
    assert table.rows() == model


def test_a_merge_of_whole_rows_upserts(table: Table) -> None:
    new = [(2, 1, None, "y"), (60, 2, None, "x")]
    schema = "ID long, v int, s struct<a:int,b:string>, p string"
    table.context.spark.createDataFrame(new, schema).createOrReplaceTempView("news")
    text = "MERGE INTO t USING news n ON t.id = n.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    assert table.run(text) == (1, 1, 0)
    made = {row[0]: dict(zip(("id", "v", "s", "p"), row, strict=True)) for row in new}
    assert table.rows() == table.model | made


@pytest.mark.parametrize(
    ("text", "error"),
    some(
        [
            ("UPDATE t SET v = if(id = 2, raise_error('bad'), 1)", FAILED),
            ("UPDATE t SET v = id * 1000000000", FAILED),
            ("UPDATE t SET v = 'a'", InvalidInputError),
            ("UPDATE t SET id = NULL", InvalidInputError),
            (
                "MERGE INTO t USING VALUES (1, 2), (1, 3) AS s(k, w) ON id = k WHEN MATCHED THEN UPDATE SET v = w",
                InvalidInputError,
            ),
        ],
        0,
        3,
        4,
    ),
)
def test_a_statement_that_fails_leaves_nothing_behind(
    spark: SparkSession, tmp_path: Path, text: str, error: type[Exception] | tuple[type[Exception], ...]
) -> None:
    table = Table(spark, tmp_path, "plain")
    before = table.files()
    with pytest.raises(error):
        table.run(text)
    assert table.rows() == table.model
    assert table.files() == before


def test_a_condition_prunes_files_and_new_rows_with_one_key_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    table = Table(spark, tmp_path, "keyed")
    bad = "MERGE INTO t USING VALUES (70, 2), (70, 3) AS s(k, w) ON id = k WHEN NOT MATCHED THEN INSERT (id) VALUES (k)"
    with pytest.raises(InvalidInputError, match="several rows with the key id = 70"):
        table.run(bad)
    plain = Table(spark, tmp_path / "plain", "plain")
    lw.write_table(pa.Table.from_pylist([_row(20)], COLUMNS), plain.catalog.get_table("d.t"))
    for path in plain.files():
        if path.endswith(".parquet") and 20 not in pq.read_table(path).column("id").to_pylist():
            Path(path).unlink()  # a file that the condition rules out is not opened
    assert plain.run("DELETE FROM t WHERE id >= 20 AND v + 0 = 200") == (0, 0, 1)


def _values(table: Table, name: str = "d.t") -> set[tuple[object, ...]]:
    return {(*row.values(),) for row in lw.read_table(table.catalog.get_table(name)).to_pylist()}


def test_insert_assigns_columns_by_place_by_list_and_by_name(spark: SparkSession, tmp_path: Path) -> None:
    table = Table(spark, tmp_path, "plain")
    table.context.sql("CREATE TABLE i (id BIGINT NOT NULL, v INT DEFAULT 7, p STRING) PARTITIONED BY (p)")
    assert table.run("INSERT INTO i VALUES (1, 10, 'x'), (2, DEFAULT, 'y')") == (2, 0, 0)
    assert table.run("INSERT INTO i (p, ID) VALUES (?, ?)", ["x", 3]) == (1, 0, 0)
    assert table.run("INSERT INTO i BY NAME SELECT 'z' AS P, 4 AS id, CAST(NULL AS INT) AS v") == (1, 0, 0)
    assert table.run("WITH q AS (SELECT * FROM i) INSERT INTO i PARTITION (p = 'w') SELECT id, v FROM q") == (4, 0, 0)
    rows: set[tuple[object, ...]] = {(1, 10, "x"), (2, 7, "y"), (3, 7, "x"), (4, 7, "z")}
    assert _values(table, "d.i") == rows | {(number, v, "w") for number, v, _ in rows}
    for text in (
        "INSERT INTO i VALUES (1, 2)",
        "INSERT INTO i VALUES ('a', 2, 'x')",
        "INSERT INTO i (v) VALUES (1)",
        "INSERT INTO i VALUES (NULL, 1, 'x')",
    ):
        with pytest.raises(InvalidInputError):
            table.run(text)


def test_nulls_inside_of_values_take_the_types_of_the_column(spark: SparkSession, tmp_path: Path) -> None:
    table = Table(spark, tmp_path, "plain")
    table.run("INSERT INTO t VALUES (20, 1, named_struct('a', null, 'b', null), 'x')")
    table.run("INSERT INTO t VALUES (21, 1, struct(null, 'b'), 'x')")
    table.run("UPDATE t SET s = named_struct('b', null, 'a', 5) WHERE id = 1")
    table.run("UPDATE t SET s = named_struct('a', null, 'b', null) WHERE id = 2")
    found = table.rows()
    assert [found[number]["s"] for number in (20, 21, 1, 2)] == [
        {"a": None, "b": None},
        {"a": None, "b": "b"},
        {"a": 5, "b": None},
        {"a": None, "b": None},
    ]


def test_values_that_do_not_fit_are_errors_where_casts_do_not_fail(spark: SparkSession, tmp_path: Path) -> None:
    table = Table(spark, tmp_path, "plain")
    table.context.sql("CREATE TABLE i (id INT, p TINYINT) PARTITIONED BY (p)")
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        for text in ("INSERT INTO i PARTITION (p = 'a') VALUES (1)", "INSERT INTO i PARTITION (p = 300) VALUES (1)"):
            with pytest.raises(InvalidInputError, match="does not fit the column 'p'"):
                table.run(text)
        for text in ("INSERT INTO i VALUES (1, 300)", "INSERT INTO i SELECT id + 3000000000, 1 FROM t"):
            with pytest.raises(FAILED, match="does not fit the column"):
                table.run(text)
        assert _values(table, "d.i") == set()
        assert table.run("INSERT INTO i PARTITION (p = '7') VALUES (1), (1 / 0)") == (2, 0, 0)
    finally:
        spark.conf.set("spark.sql.ansi.enabled", str(before))
    assert _values(table, "d.i") == {(1, 7), (None, 7)}


def test_an_overwrite_replaces_the_table_a_partition_or_the_partitions_of_its_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = Table(spark, tmp_path, "plain")
    table.context.sql("CREATE TABLE o (id BIGINT, p STRING) PARTITIONED BY (p)")
    table.run("INSERT INTO o VALUES (1, 'x'), (2, 'y'), (3, 'z')")
    assert table.run("INSERT OVERWRITE o PARTITION (p = 'x') SELECT id + 10 FROM o WHERE p = 'y'") == (1, 0, 0)
    assert _values(table, "d.o") == {(12, "x"), (2, "y"), (3, "z")}
    table.run("INSERT OVERWRITE o PARTITION (p = 'x') SELECT id FROM o WHERE false")
    assert _values(table, "d.o") == {(2, "y"), (3, "z")}
    table.context.sql("SET spark.sql.sources.partitionOverwriteMode = dynamic")
    try:
        table.run("INSERT OVERWRITE o VALUES (5, 'y')")
    finally:
        table.context.sql("SET spark.sql.sources.partitionOverwriteMode = static")
    assert _values(table, "d.o") == {(5, "y"), (3, "z")}
    table.run("INSERT INTO o REPLACE WHERE p = 'z' VALUES (6, 'z')")
    assert _values(table, "d.o") == {(5, "y"), (6, "z")}
    table.run("INSERT OVERWRITE o SELECT * FROM o WHERE id = 5")
    assert _values(table, "d.o") == {(5, "y")}


def test_a_table_is_created_with_the_rows_of_a_query_or_not_at_all(spark: SparkSession, tmp_path: Path) -> None:
    table = Table(spark, tmp_path, "keyed")
    assert table.run("CREATE TABLE made AS SELECT id, v FROM t WHERE id < 2") == (2, 0, 0)
    assert _values(table, "d.made") == {(0, 0), (1, 10)}
    with pytest.raises(FAILED):
        table.run("CREATE TABLE failed AS SELECT if(id = 1, raise_error('bad'), id) AS x FROM t")
    assert "failed" not in table.catalog.list_tables("d")


def test_copy_loads_each_file_once_and_writes_files(spark: SparkSession, tmp_path: Path) -> None:
    table = Table(spark, tmp_path / "warehouse", "plain")
    files = tmp_path / "in"
    files.mkdir()
    (files / "a.csv").write_text("id|v\n90|1\n91|\n")
    text = f"COPY INTO t (id, v) FROM '{files}' FILE_FORMAT = (TYPE = CSV, SKIP_HEADER = 1, FIELD_DELIMITER = '|')"
    assert table.run(text) == (2, 0, 0)
    (files / "b.csv").write_text("id|v\n92|2\n")
    (files / "c.txt").write_text("nothing")
    assert table.run(f"{text} PATTERN = '.*[.]csv'") == (1, 0, 0)
    found = {number: row["v"] for number, row in table.rows().items() if number >= 90}
    assert found == {90: 1, 91: None, 92: 2}
    out = tmp_path / "out"
    query = "SELECT id, v FROM t WHERE id >= 90"
    assert table.run(f"COPY INTO '{out}' FROM ({query}) FILE_FORMAT = (TYPE = PARQUET)") == (3, 0, 0)
    assert {row["id"]: row["v"] for row in pq.read_table(out).to_pylist()} == found
