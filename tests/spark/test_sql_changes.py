"""UPDATE, DELETE, MERGE, INSERT and COPY INTO by SQL on Spark, against rows that a small model in Python computes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import lakewright as lw
import lakewright.spark as lws
from lakewright.errors import InvalidInputError

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


@pytest.fixture(params=list(KINDS))
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
    [
        ("UPDATE t SET v = 1 / (id - 2)", PySparkException),
        ("UPDATE t SET v = id * 1000000000", PySparkException),
        ("UPDATE t SET v = 'a'", InvalidInputError),
        ("UPDATE t SET id = NULL", InvalidInputError),
        (
            "MERGE INTO t USING VALUES (1, 2), (1, 3) AS s(k, w) ON id = k WHEN MATCHED THEN UPDATE SET v = w",
            InvalidInputError,
        ),
    ],
)
def test_a_statement_that_fails_leaves_nothing_behind(
    spark: SparkSession, tmp_path: Path, text: str, error: type[Exception]
) -> None:
    table = Table(spark, tmp_path, "plain")
    before = table.files()
    with pytest.raises(error):
        table.run(text)
    assert table.rows() == table.model
    assert table.files() == before
