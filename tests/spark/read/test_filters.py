"""Predicates as Spark columns: true, false and null for the same rows as the core says."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import reduce
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from lakewright.spark.column_filters import to_column
from lakewright.spark.frame_operations import from_arrow, to_arrow
from lakewright.spark.spark_session import settings
from lakewright.spark.spark_types import spark_schema, to_spark_batch
from lakewright.spec.arrow_types import to_arrow_schema
from lakewright.spec.filter_text import parse_predicate
from lakewright.spec.predicate import Predicate, PredicateBuilder, normalise
from lakewright.spec.types import AtomicType, DataField, RowType

NAN, INF = math.nan, math.inf
INNER = RowType(True, [DataField(20, "x.y", AtomicType("INT"))])  # noqa: FBT003 - a nullable row
COLUMNS: dict[str, tuple[str, list[object]]] = {
    "b": ("BOOLEAN", [True, False, None, True]),
    "t": ("TINYINT", [-128, 127, None, 0]),
    "l": ("BIGINT", [-(2**63), 2**63 - 1, None, 5]),
    "f": ("FLOAT", [NAN, -0.0, None, 0.1]),
    "d": ("DOUBLE", [NAN, -0.0, None, -INF]),
    "m": ("DECIMAL(38, 10)", [Decimal("-1.5"), Decimal("0.0000000001"), None, Decimal("1e20")]),
    "s": ("STRING", ["a%b", "", None, "x\n😀\\"]),
    "c": ("CHAR(4)", ["ab  ", "ab", None, "é"]),
    "y": ("BYTES", [b"", b"\xff", None, b"ab"]),
    "a": ("DATE", [date(1, 1, 1), date(1582, 10, 10), None, date(2024, 2, 29)]),
    "n": ("TIMESTAMP(3)", [datetime(1, 1, 1), datetime(2024, 3, 31, 2, 30), None, datetime(1969, 12, 31, 23)]),  # noqa: DTZ001
    "z": (
        "TIMESTAMP(6) WITH LOCAL TIME ZONE",
        [datetime(1, 1, 1, tzinfo=UTC), datetime(2024, 3, 31, 1, 30, 0, 1, tzinfo=UTC), None, datetime.now(UTC)],
    ),
    "odd `name.": ("INT", [1, 2, None, 3]),
}
FIELDS = [DataField(n, name, AtomicType(kind)) for n, (name, (kind, _)) in enumerate(COLUMNS.items())]
FIELDS.append(DataField(19, "r", INNER))
ROWS = pa.record_batch(
    [
        *(pa.array(values, to_arrow_schema(FIELDS).field(name).type) for name, (_, values) in COLUMNS.items()),
        pa.array([{"x.y": 1}, {"x.y": None}, None, {"x.y": 2}], to_arrow_schema(FIELDS).field("r").type),
    ],
    schema=to_arrow_schema(FIELDS),
)
TEXTS = [
    "b = true",
    "b <> true",
    "t > 300",
    "t >= -128.5",
    "l = 9223372036854775807",
    "l IN (5, 6, NULL)",
    "l NOT IN (5, NULL)",
    "l NOT IN (5)",
    "f = 0.1",
    "f > 0",
    "f >= 0",
    "NOT f < 0",
    "f <> 0.1",
    "d IN (0)",
    "d NOT IN (0)",
    "d BETWEEN -1 AND 1",
    "d NOT BETWEEN 1 AND 2",
    "m < 0.00000000015",
    "m >= 100000000000000000000",
    "s LIKE 'a\\%%'",
    "s LIKE '%😀_'",
    "s LIKE 'x_😀%'",
    "s NOT LIKE 'a%'",
    "s = ''",
    "s < 'b'",
    "c = 'ab'",
    "c > 'ab'",
    "y >= X'6162'",
    "y IN (X'', X'FF')",
    "a < DATE '1582-10-15'",
    "a = DATE '0001-01-01'",
    "n = TIMESTAMP '2024-03-31 02:30:00'",
    "n < TIMESTAMP '1970-01-01 00:00:00.0001'",
    "z <= TIMESTAMP '2024-03-31 01:30:00.000001Z'",
    "`odd ``name.` > 1",
    "r.`x.y` = 1",
    "r.`x.y` IS NULL",
    "r IS NULL OR t IS NOT NULL",
    "NOT (t > 0 AND s LIKE 'a%')",
]


def _predicates() -> list[Predicate]:
    made = PredicateBuilder(FIELDS)
    spelled = [parse_predicate(text, FIELDS) for text in TEXTS]
    built = [
        made.equal("d", NAN),
        made.not_equal("d", NAN),
        made.less_than("d", NAN),
        made.greater_than("d", -INF),
        made.is_in("t", []),
        made.is_not_in("t", []),
        made.equal("t", None),
        made.startswith("s", "a%"),
        made.endswith("s", "\\"),
        made.contains("s", "\n"),
        made.is_in("d", [float(n) for n in range(20)]),
    ]
    return [normalise(p) for p in (*spelled, *built, *(~p for p in built))]


def test_columns_answer_with_three_values_as_the_core_does(spark: SparkSession) -> None:
    predicates = _predicates()
    columns = [to_column(p, FIELDS) for p in predicates]
    assert [str(p) for p, column in zip(predicates, columns, strict=True) if column is None] == []
    rows = from_arrow(spark, pa.Table.from_batches([to_spark_batch(ROWS, FIELDS)]), spark_schema(FIELDS))
    asked = rows.select(*(c.alias(str(n)) for n, c in enumerate(columns) if c is not None))
    with settings(spark, {"spark.sql.session.timeZone": "America/Los_Angeles", "spark.sql.ansi.enabled": "false"}):
        got = to_arrow(asked)
    for number, predicate in enumerate(predicates):
        assert got.column(number).to_pylist() == predicate.mask(ROWS).to_pylist(), str(predicate)


def test_bounds_of_a_file_hide_neither_zeros_nor_nans(spark: SparkSession, tmp_path: Path) -> None:
    fields = [DataField(0, "d", AtomicType("DOUBLE")), DataField(1, "f", AtomicType("FLOAT"))]
    parts = [[-0.0] * 3, [0.0] * 3, [NAN] * 3, [NAN, 5.0, 5.0], [-1.0, -0.0]]
    tables = [pa.table({"d": part, "f": pa.array(part, pa.float32())}) for part in parts]
    rows = pa.concat_tables(tables).combine_chunks()
    for number, table in enumerate(tables):
        pq.write_table(table, tmp_path / f"{number}.parquet", use_dictionary=number % 2 == 0)
    frame = spark.read.schema("d double, f float").parquet(str(tmp_path))
    made = PredicateBuilder(fields)
    asked = [
        normalise(p)
        for name in ("d", "f")
        for p in (
            made.equal(name, 0.0),
            made.equal(name, -0.0),
            made.less_or_equal(name, -0.0),
            made.greater_or_equal(name, 0.0),
            ~made.less_than(name, INF),
            made.not_equal(name, 5.0),
            made.is_in(name, [0.0, 7.0]),
            made.is_not_in(name, [5.0]),
            made.between(name, 0.0, 1.0),
            made.greater_than(name, 4.0),
        )
    ]

    def counted(number: int, predicate: Predicate) -> DataFrame:
        column = to_column(predicate, fields)
        assert column is not None
        return frame.where(column).agg(F.lit(number).alias("number"), F.count("*").alias("rows"))

    counts = reduce(DataFrame.union, (counted(n, p) for n, p in enumerate(asked))).collect()
    got = {str(asked[row["number"]]): row["rows"] for row in counts}
    assert got == {str(p): rows.filter(p.mask(rows)).num_rows for p in asked}


def test_what_spark_cannot_say_is_not_translated() -> None:
    fields = [
        DataField(0, "time", AtomicType("TIME(3)")),
        DataField(1, "fine", AtomicType("TIMESTAMP(9)")),
        DataField(2, "id", AtomicType("INT")),
    ]
    made = PredicateBuilder(fields)
    assert to_column(made.equal("time", "12:00:00"), fields) is None
    nanos = made.equal("fine", "2024-01-01 00:00:00.000000001")
    assert to_column(nanos, fields) is None
    assert to_column(made.or_predicates([nanos, made.equal("id", 1)]), fields) is None
    assert to_column(made.equal("id", 1), fields[:2]) is None, "a column that the frame lacks"
