"""A filter that is given to a read keeps the rows that Spark's own `where` of the same text keeps, in every zone."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import reduce
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name

import lakewright as lw
import lakewright.spark as lws
from lakewright.spark.frame_operations import to_arrow
from lakewright.spark.spark_features import Feature, has
from lakewright.spark.spark_session import settings
from lakewright.spec.arrow_types import to_arrow_schema
from support.effort import some, thinned
from support.needs import needs

NAN, INF = math.nan, math.inf
ZONE = "spark.sql.session.timeZone"
ZONES = ["America/Los_Angeles", "+05:30"]  # one with summer time, one by its offset


def _moments(*texts: str) -> list[object]:
    return [datetime.fromisoformat(text) for text in texts]


def _zoned(*texts: str) -> list[object]:
    return [datetime.fromisoformat(text).replace(tzinfo=UTC) for text in texts]


LOCAL = ("1969-12-31 23:59:59", "2024-03-10 02:30:00", "2026-01-09 00:00:00", "2026-01-09 08:00:00")
FINE = ("2026-01-09 00:00:00.000001", "2026-01-08 23:59:59.999999")
TIMES = [
    "'2026-01-09'",
    "'2026-01-09 08:00:00'",
    "TIMESTAMP '2026-01-09 00:00:00'",
    "DATE '2026-01-09'",
    "'1970-01-01'",
]
TIMES += ["'2026-01-09 00:00:00.000001'", "'2024-11-03 01:30:00'"]
MOMENTS = [*TIMES, "'2026-01-09 00:00:00Z'", "'2026-01-08T18:30:00+00:00'", "'2024-03-10 02:30:00'"]
NUMBERS = ["0", "-1", "127", "2.5", "-0.5", "300", "'7'", "2147483648"]
FLOATS = ["0", "-0.0", "0.1", "0.5", "1e2", "16777217", "'NaN'", "'Infinity'", "'-Infinity'", "'0.1'"]
TEXTS = ["'a'", "'ab'", "'ab  '", "''", "'é'", "'b''c'"]
# Of each column its type, its values and literals that it can be compared with.
COLUMNS: dict[str, tuple[str, list[object], list[str]]] = {
    "b": ("BOOLEAN", [True, False], ["true", "false"]),
    "t": ("TINYINT", [-128, -1, 0, 7, 127], NUMBERS),
    "s": ("SMALLINT", [-1, 0, 7, 300], NUMBERS),
    "i": ("INT", [-1, 0, 3, 7, 2**31 - 1], NUMBERS),
    "l": ("BIGINT", [-(2**63), -1, 0, 7, 2**31], NUMBERS),
    "f": ("FLOAT", [NAN, -0.0, 0.0, 0.1, 0.5, 16777216.0, -INF, INF], FLOATS),
    "d": ("DOUBLE", [NAN, -0.0, 0.0, 0.1, 0.5, 100.0, 16777217.0, -INF, INF], FLOATS),
    "m": (
        "DECIMAL(10, 2)",
        [Decimal("0.10"), Decimal("-0.50"), Decimal("2.50")],
        ["0.1", "0.1000", "2.505", "0", "-1"],
    ),
    "w": ("DECIMAL(30, 10)", [Decimal("0.1"), Decimal("1e-10"), Decimal("1e19")], ["0.1", "0.00000000015", "0"]),
    "x": ("STRING", ["a", "ab", "ab  ", "", "é", "b'c"], TEXTS),
    "c": ("CHAR(4)", ["a", "ab", "ab  ", "é"], TEXTS),
    "v": ("VARCHAR(5)", ["a", "ab", "ab  ", ""], TEXTS),
    "y": ("BYTES", [b"", b"a", b"\xff", b"ab"], ["X''", "X'61'", "X'6162'", "X'FF'"]),
    "a": ("DATE", [date(1, 1, 1), date(1969, 12, 31), date(2026, 1, 9)], ["DATE '2026-01-09'", "'1969-12-31'"]),
    "o": ("TIME(3)", [time(0), time(12, 30), time(23, 59, 59, 999000)], ["TIME '12:30:00'", "TIME '23:59:59.999'"]),
    "n0": ("TIMESTAMP(0)", _moments(*LOCAL), TIMES),
    "n3": ("TIMESTAMP(3)", _moments(*LOCAL), TIMES),
    "n6": ("TIMESTAMP(6)", _moments(*LOCAL, *FINE), TIMES),
    "n9": ("TIMESTAMP(9)", _moments(*LOCAL, *FINE), TIMES),
    "z0": ("TIMESTAMP(0) WITH LOCAL TIME ZONE", _zoned(*LOCAL), MOMENTS),
    "z3": ("TIMESTAMP(3) WITH LOCAL TIME ZONE", _zoned(*LOCAL), MOMENTS),
    "z6": ("TIMESTAMP(6) WITH LOCAL TIME ZONE", _zoned(*LOCAL, *FINE, "2026-01-08 18:30:00"), MOMENTS),
    "z9": ("TIMESTAMP(9) WITH LOCAL TIME ZONE", _zoned(*LOCAL, *FINE), MOMENTS),
}
if not has(Feature.TIME):
    del COLUMNS["o"]
FIELDS = [lw.DataField(0, "id", lw.AtomicType("INT"))]
FIELDS += [lw.DataField(at, name, lw.AtomicType(kind)) for at, (name, (kind, _, _)) in enumerate(COLUMNS.items(), 1)]


def _rows(values: int, chosen: random.Random) -> pa.Table:
    """Return rows of which each column has every value, and null, somewhere."""
    schema = to_arrow_schema(FIELDS)
    columns = [pa.array(range(values), pa.int32())]
    for name, (_, known, _) in COLUMNS.items():
        some = [*known, None] * (values // (len(known) + 1) + 1)
        chosen.shuffle(some)
        columns.append(pa.array(some[:values], schema.field(name).type))
    return pa.table(columns, schema=schema)


def _filters(chosen: random.Random) -> list[str]:
    """Return comparisons of every column with every literal, and some of them joined."""
    simple = []
    for name, (_, _, literals) in COLUMNS.items():
        for literal in literals:
            other = chosen.choice(literals)
            simple += [
                f"{name} {chosen.choice(['=', '<>'])} {literal}",
                f"{name} {chosen.choice(['<', '<='])} {literal}",
            ]
            simple += [f"{name} {chosen.choice(['>', '>='])} {literal}", f"NOT {name} >= {literal}"]
            simple.append(f"{name} {chosen.choice(['', 'NOT '])}BETWEEN {literal} AND {other}")
            simple.append(f"{name} {chosen.choice(['', 'NOT '])}IN ({literal}, {other}{chosen.choice(['', ', NULL'])})")
        simple.append(f"{name} IS {chosen.choice(['', 'NOT '])}NULL")
    joined = [
        f"{chosen.choice(['', 'NOT '])}({chosen.choice(simple)} {word} NOT ({chosen.choice(simple)}))"
        for word in ("AND", "OR")
        for _ in range(30)
    ]
    return [*simple, *joined]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> lw.FileStoreTable:
    """Make a table of several files, whose bounds differ."""
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path_factory.mktemp("zones"))})
    catalog.create_database("d")
    catalog.create_table("d.t", lw.Schema(FIELDS))
    made: lw.FileStoreTable = catalog.get_table("d.t")
    rows = _rows(48, random.Random(3))
    for start in (0, 4, 8, 24):
        lw.write_table(rows.slice(start, {0: 4, 4: 4, 8: 16, 24: 24}[start]), made)
    return made


def _of_spark(spark: SparkSession, table: lw.FileStoreTable, filters: Sequence[str]) -> dict[str, list[int]]:
    """Return what `where` keeps for each filter, by one job."""
    read = lws.read_table(spark, table)
    got = to_arrow(read.select("id", *(F.expr(text).alias(f"f{at}") for at, text in enumerate(filters))))
    ids = got.column("id")
    return {text: sorted(ids.filter(got.column(f"f{at}")).to_pylist()) for at, text in enumerate(filters)}


@pytest.mark.parametrize("zone", some(ZONES, 0))
def test_filters_mean_what_where_means(spark: SparkSession, table: lw.FileStoreTable, zone: str) -> None:
    filters = thinned(_filters(random.Random(11)))
    with settings(spark, {ZONE: zone}):
        expected = _of_spark(spark, table, filters)
    here = table.copy({"lakewright.time-zone": zone})
    got = {text: sorted(lw.read_table(here, filter=text, columns=["id"]).column("id").to_pylist()) for text in filters}
    assert {text: ids for text, ids in got.items() if ids != expected[text]} == {
        text: expected[text] for text, ids in got.items() if ids != expected[text]
    }


def test_reads_on_spark_keep_the_rows_of_where(spark: SparkSession, table: lw.FileStoreTable) -> None:
    chosen = random.Random(5)
    filters = ["z6 IS NULL", *chosen.sample(_filters(random.Random(11)), 30), "d = 'NaN'"]
    filters += [
        "z6 >= '2026-01-09'",
        "z3 = TIMESTAMP '2026-01-09 00:00:00'",
        "d > 0.5",
        "f >= 'NaN'",
        "d <> 0.1",
        "d = 0",
    ]
    with settings(spark, {ZONE: "America/Los_Angeles"}):
        expected = _of_spark(spark, table, filters)
        frames = (
            lws.read_table(spark, table, filter=text, columns=["id"]).select(F.lit(at).alias("f"), "id")
            for at, text in enumerate(filters)
        )
        # Spark hands a `where` to its parquet reader, whose bounds know no NaN.
        floats = {at: text for at, text in enumerate(filters) if text.startswith(("d ", "f "))}
        wheres = (
            lws.read_table(spark, table).where(text).select(F.lit(-at).alias("f"), "id") for at, text in floats.items()
        )
        found = reduce(DataFrame.union, [*frames, *wheres]).collect()
    read = {text: sorted(number for at, number in found if at == place) for place, text in enumerate(filters)}
    assert read == expected
    where = {text: sorted(number for at, number in found if at == -place) for place, text in floats.items()}
    assert where == {text: expected[text] for text in floats.values()}


def _moments_table(warehouse: Path, **options: str) -> lw.FileStoreTable:
    """Make a table of the hours from 2026-01-08 18:00 to 2026-01-09 17:00, in UTC."""
    catalog = lw.CatalogFactory.create({"warehouse": str(warehouse)})
    catalog.create_database("d", ignore_if_exists=True)
    fields = [lw.DataField(0, "id", lw.AtomicType("INT")), lw.DataField(1, "z", lw.AtomicType("TIMESTAMP_LTZ(6)"))]
    fields.append(lw.DataField(2, "d", lw.AtomicType("DOUBLE")))
    catalog.create_table("d.m", lw.Schema(fields, options={"deletion-vectors.enabled": "true", **options}))
    made: lw.FileStoreTable = catalog.get_table("d.m")
    hours = [datetime(2026, 1, 8, 18, tzinfo=UTC) + timedelta(hours=n) for n in range(24)]
    numbers = [NAN if n == 3 else float(n) for n in range(24)]
    lw.write_table(pa.table({"id": pa.array(range(24), pa.int32()), "z": hours, "d": numbers}), made)
    return made


@pytest.fixture
def tokyo(spark: SparkSession) -> Iterator[None]:
    """Let the session be nine hours ahead of UTC."""
    with settings(spark, {ZONE: "Asia/Tokyo"}):
        yield


@pytest.mark.usefixtures("tokyo")
def test_verbs_mean_the_zone_of_the_session(spark: SparkSession, tmp_path: Path) -> None:
    table = _moments_table(tmp_path)
    late = "z >= '2026-01-09 20:00:00'"  # 11:00 in UTC: rows 17 to 23
    assert lws.read_table(spark, table).where(late).count() == 7
    assert lws.update(spark, table, {"d": 0.5}, late).updated == 7
    assert lws.delete(spark, table, f"{late} AND d = 0.5 AND id > 20").deleted == 3
    source = spark.sql("SELECT CAST(id AS INT) AS id, CAST('NaN' AS DOUBLE) AS d FROM range(24)")
    merged = lws.merge(source, table, on="t.d = s.d AND t.id = s.id AND t.z < '2026-01-09 20:00:00'")
    assert merged.when_matched_delete().execute().deleted == 1, "NaN equals NaN"
    assert lws.read_table(spark, table, filter=late, columns=["id"]).count() == 4


@pytest.mark.nightly
@pytest.mark.usefixtures("tokyo")
@needs(Feature.PYTHON_SOURCE)
def test_streams_mean_the_zone_of_the_session(spark: SparkSession, tmp_path: Path) -> None:
    table = _moments_table(tmp_path)
    asked: tuple[str | lw.Predicate, ...] = ("z >= '2026-01-09 20:00:00'", _later_than(table))
    for at, late in enumerate(asked):
        stream = lws.read_stream(spark, table, filter=late, columns=["id"])
        query = stream.writeStream.format("memory").queryName(f"late{at}").trigger(availableNow=True).start()
        query.awaitTermination()
        assert spark.table(f"late{at}").count() == 7


def _later_than(table: lw.FileStoreTable) -> lw.Predicate:
    builder = table.new_read_builder().new_predicate_builder()
    return builder.greater_or_equal("z", datetime(2026, 1, 9, 11, tzinfo=UTC))


@pytest.mark.nightly
@pytest.mark.usefixtures("tokyo")
@needs(Feature.PYTHON_SOURCE)
def test_the_format_asks_for_a_zone_that_it_cannot_see(spark: SparkSession, tmp_path: Path) -> None:
    table = _moments_table(tmp_path)
    read = spark.read.format("lakewright").option("filter", "z >= '2026-01-09 20:00:00'")
    with pytest.raises(Exception, match=r"lakewright\.time-zone"):
        read.load(table.table_path)
    assert read.option("lakewright.time-zone", "Asia/Tokyo").load(table.table_path).count() == 7
    zoned = spark.read.format("lakewright").option("filter", "z >= '2026-01-09 20:00:00+09:00' AND d > 1")
    assert zoned.load(table.table_path).count() == 7


@pytest.mark.parametrize(
    "text", some(['x = "a"', "abs(i) = 1", "I = 1", "nope = 1", "i = ", "i = 'x'", "z6 = 'x'", "NOT"], 1, 5)
)
def test_a_wrong_filter_gets_the_same_answer_everywhere(
    spark: SparkSession, table: lw.FileStoreTable, text: str
) -> None:
    with pytest.raises(lw.LakewrightError) as embedded:
        lw.read_table(table, filter=text)
    for ask in (lambda: lws.read_table(spark, table, filter=text), lambda: lws.delete(spark, table, text)):
        with pytest.raises(type(embedded.value)) as here:
            ask()
        assert str(here.value) == str(embedded.value)
