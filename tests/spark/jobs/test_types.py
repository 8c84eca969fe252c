"""Every type of the format through Spark and back: types, values, nullability, and what is refused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, datetime, time
from decimal import Decimal
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as sql

from lakewright.errors import InvalidInputError, UnsupportedError
from lakewright.spark.frame_operations import to_arrow
from lakewright.spark.spark_features import Feature, TimeType, has
from lakewright.spark.spark_session import settings
from lakewright.spark.spark_types import arrow_schema_of, fields_of, spark_schema, spark_type, to_spark_batch
from lakewright.spec.arrow_types import from_arrow_schema, to_arrow_schema
from lakewright.spec.types import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    VectorType,
    all_fields,
)
from support.effort import some
from support.needs import needs


def _row(*types: DataType, nullable: bool = True) -> RowType:
    return RowType(nullable, [DataField(100 + i, f"f{i}", dtype) for i, dtype in enumerate(types)])


YES, NO = True, False  # nullable
INT, STRING = AtomicType("INT"), AtomicType("STRING")
EARLY, LATE = datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999)  # noqa: DTZ001 - local times
UTC = ZoneInfo("UTC")
# name: (type, values in the canonical Arrow type, the same as Spark gives them to Python)
COLUMNS: dict[str, tuple[DataType, list[object], list[object] | None]] = {
    "boolean": (AtomicType("BOOLEAN"), [True, False, None], None),
    "tinyint": (AtomicType("TINYINT"), [-128, 127, None], None),
    "smallint": (AtomicType("SMALLINT"), [-(2**15), 2**15 - 1, None], None),
    "int": (INT, [-(2**31), 2**31 - 1, None], None),
    "bigint": (AtomicType("BIGINT"), [-(2**63), 2**63 - 1, None], None),
    "float": (AtomicType("FLOAT"), [float("-inf"), 2.0**-149, None], None),
    "double": (AtomicType("DOUBLE"), [1.7976931348623157e308, 5e-324, None], None),
    "decimal": (AtomicType("DECIMAL(10, 2)"), [Decimal("-99999999.99"), Decimal("0.01"), None], None),
    "decimal38": (AtomicType("DECIMAL(38, 18)"), [Decimal("-" + "9" * 20 + "." + "9" * 18), Decimal(0), None], None),
    "char": (AtomicType("CHAR(3)"), ["ab", "", None], None),
    "varchar": (AtomicType("VARCHAR(7)"), ["äöü€𝄞", " x ", None], None),
    "string": (STRING, ["s" * 1000, "\x00", None], None),
    "binary": (AtomicType("BINARY(2)"), [b"\x00\xff", b"ab", None], None),
    "bytes": (AtomicType("BYTES"), [b"", b"\x00" * 9, None], None),
    "date": (AtomicType("DATE"), [date(1, 1, 1), date(9999, 12, 31), None], None),
    "time0": (AtomicType("TIME(0)"), [time(0), time(23, 59, 59), None], None),
    "time3": (AtomicType("TIME(3)"), [time(0, 0, 0, 1000), time(23, 59, 59, 999000), None], None),
    "time9": (AtomicType("TIME(9)"), [time(1, 2, 3, 4000), time(0), None], None),
    "ts0": (AtomicType("TIMESTAMP(0)"), [EARLY, datetime(9999, 12, 31, 23, 59, 59), None], None),  # noqa: DTZ001
    "ts3": (AtomicType("TIMESTAMP(3)"), [EARLY, datetime(1969, 12, 31, 23, 59, 59, 999000), None], None),  # noqa: DTZ001
    "ts6": (AtomicType("TIMESTAMP(6)"), [EARLY, LATE, None], None),
    "ltz3": (
        AtomicType("TIMESTAMP_LTZ(3)"),
        [datetime(1969, 12, 31, 23, 59, 59, 999000, UTC), datetime(2024, 7, 1, 12, 0, 0, 1000, UTC), None],
        None,
    ),
    "ltz6": (
        AtomicType("TIMESTAMP_LTZ(6)"),
        [datetime(1, 1, 3, tzinfo=UTC), datetime(9999, 12, 30, 1, 2, 3, 999999, UTC), None],
        None,
    ),
    # -1 ns is in the last microsecond before 1970.
    "ts9": (AtomicType("TIMESTAMP(9)"), [-1, 1_700_000_000_123_456_789, None], [-1, 1_700_000_000_123_456, None]),
    "ltz9": (AtomicType("TIMESTAMP_LTZ(9)"), [-1, 999, None], [-1, 0, None]),
    "array": (ArrayType(YES, INT), [[1, None], [], None], None),
    "array_of_time": (ArrayType(YES, AtomicType("TIME(3)", nullable=False)), [[time(1)], [], None], None),
    "map": (
        MapType(YES, AtomicType("STRING", nullable=False), AtomicType("TIMESTAMP(3)")),
        [[("a", EARLY)], [("b", None)], None],
        None,
    ),
    "multiset": (MultisetType(YES, AtomicType("STRING", nullable=False)), [[("a", 2)], [], None], None),
    "row": (
        _row(
            AtomicType("TIME(3)"),
            AtomicType("INT", nullable=False),
            ArrayType(YES, _row(STRING, AtomicType("TIMESTAMP(0)"))),
        ),
        [{"f0": time(2), "f1": 1, "f2": [{"f0": "x", "f1": EARLY}, None]}, {"f0": None, "f1": 2, "f2": None}, None],
        None,
    ),
    "required": (AtomicType("BIGINT", nullable=False), [1, 2, 3], None),
}
if not has(Feature.TIME):
    COLUMNS = {name: case for name, case in COLUMNS.items() if "TIME(" not in str(case[0])}
FIELDS = tuple(
    DataField(i, name, dtype, f"about {name}" if i % 2 else None)
    for i, (name, (dtype, _, _)) in enumerate(COLUMNS.items())
)
INSTANT = re.compile("ltz")


def _batch() -> pa.RecordBatch:
    schema = to_arrow_schema(FIELDS)
    arrays = [pa.array(values, field.type) for (_, values, _), field in zip(COLUMNS.values(), schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _expected() -> dict[str, list[object]]:
    """Return every column as Arrow gives it to Python, in microseconds at most."""
    wanted = arrow_schema_of(spark_schema(FIELDS))
    return {
        name: pa.array(values if expected is None else expected, wanted.field(name).type).to_pylist()
        for name, (_, values, expected) in COLUMNS.items()
    }


@pytest.mark.parametrize("zone", some(["Asia/Kolkata", "America/New_York"], 1))
def test_every_type_goes_through_spark_and_comes_back(spark: SparkSession, zone: str) -> None:
    """One job makes all columns and hands them to a second task, which sees what a writer would see."""

    def make(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield to_spark_batch(_batch(), FIELDS)

    def seen(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        sink = pa.BufferOutputStream()
        for batch in batches:
            with pa.ipc.new_stream(sink, batch.schema) as writer:
                writer.write_batch(batch)
        yield pa.record_batch({"stream": pa.array([sink.getvalue().to_pybytes()], pa.binary())})

    with settings(spark, {"spark.sql.session.timeZone": zone}):
        frame = spark.range(0, 1, 1, 1).mapInArrow(make, spark_schema(FIELDS))
        assert frame.schema == spark_schema(FIELDS)
        stream = frame.mapInArrow(seen, "stream binary").collect()[0].stream
        came = to_arrow(frame.drop("row"))  # 4.3 cannot hand out a TIME inside a struct this way
    task = pa.ipc.open_stream(bytes(stream)).read_all()
    # Spark takes NOT NULL at its word when it makes frames, and may tell tasks less.
    assert task.schema.remove_metadata().equals(arrow_schema_of(frame.schema, time_zone=zone))
    for name, values in _expected().items():
        for found in (task, came) if name != "row" else (task,):
            arrow = found.column(name)
            instants = arrow.cast(pa.timestamp("us", "UTC")) if INSTANT.match(name) else arrow
            assert instants.to_pylist() == values, name


def test_a_batch_has_the_types_that_spark_wants_on_every_level() -> None:
    made = to_spark_batch(_batch(), FIELDS)
    made.validate(full=True)
    assert made.schema.equals(arrow_schema_of(spark_schema(FIELDS)))
    assert to_spark_batch(made, FIELDS).columns == made.columns
    if has(Feature.TIME):  # the row has a field of this type
        assert made.schema.field("row").type.field("f0").type == pa.time64("ns")
        assert not made.schema.field("row").type.field("f1").nullable


def test_what_fits_already_is_not_copied() -> None:
    batch = pa.record_batch({"b": pa.array(["x"]), "a": pa.array([1], pa.int32())})
    fields = (DataField(0, "a", INT), DataField(1, "b", STRING))
    made = to_spark_batch(batch, fields)
    assert made.schema.names == ["a", "b"]
    assert made.column("b").buffers()[2].address == batch.column("b").buffers()[2].address
    assert to_spark_batch(batch, ()).num_rows == 1


def test_flavours_of_text_and_slices_are_made_plain() -> None:
    rows = pa.array([[None], ["a", "b"], None, ["c"]], pa.large_list(pa.string_view()))
    batch = pa.record_batch({"a": rows, "b": pa.array(["w", "x", "y", "z"], pa.large_string())}).slice(1)
    fields = (DataField(0, "a", ArrayType(YES, STRING)), DataField(1, "b", STRING))
    made = to_spark_batch(batch, fields)
    made.validate(full=True)
    assert made.schema.types == [pa.list_(pa.field("element", pa.string())), pa.string()]
    assert made.to_pydict() == {"a": [["a", "b"], None, ["c"]], "b": ["x", "y", "z"]}


def test_a_time_beyond_microseconds_is_refused_with_its_column() -> None:
    batch = pa.record_batch({"t": pa.array([2**62], pa.timestamp("ms"))})
    with pytest.raises(InvalidInputError, match="the column 't' holds a value that Spark cannot"):
        to_spark_batch(batch, [DataField(0, "t", AtomicType("TIMESTAMP(3)"))])


def test_a_schema_becomes_columns_and_stays_the_same_schema() -> None:
    schema = spark_schema(FIELDS)
    columns = fields_of(schema)
    assert spark_schema(columns) == schema
    assert [c.description for c in columns] == [f.description for f in FIELDS]
    assert [c.name for c in columns] == list(COLUMNS)
    found = {c.name: str(c.type) for c in columns}
    assert found["decimal"] == "DECIMAL(10, 2)"
    assert found["ltz3"] == "TIMESTAMP(6) WITH LOCAL TIME ZONE"
    assert found.get("time9", "TIME(3)") == "TIME(3)"
    assert found["multiset"] == "MAP<STRING NOT NULL, INT NOT NULL>"
    assert found["required"] == "BIGINT NOT NULL"
    # The ids are those that the same schema has when it comes from Arrow.
    assert [c.id for c in all_fields(columns)] == [
        c.id for c in all_fields(from_arrow_schema(to_arrow_schema(columns)))
    ]


@needs(Feature.TIME)
def test_lengths_and_nested_comments_make_it_into_a_new_table() -> None:
    inner = sql.StructType([sql.StructField("v", sql.VarcharType(7), NO, {"comment": "inside"})])
    schema = sql.StructType(
        [sql.StructField("c", sql.CharType(3)), sql.StructField("s", inner), sql.StructField("t", TimeType(0))]
    )
    char, row, time0 = fields_of(schema)
    assert (str(char.type), str(row.type), str(time0.type)) == ("CHAR(3)", "ROW<`v` VARCHAR(7) NOT NULL>", "TIME(0)")
    assert isinstance(row.type, RowType)
    assert row.type.fields[0].description == "inside"
    assert arrow_schema_of(schema).types[0] == pa.string()


@pytest.mark.parametrize(
    ("dtype", "error", "remedy"),
    [
        (sql.DayTimeIntervalType(), InvalidInputError, "number of seconds"),
        (sql.YearMonthIntervalType(), InvalidInputError, "number of months"),
        (sql.NullType(), InvalidInputError, "cast it"),
        (sql.StructType([]), InvalidInputError, "at least one field"),
    ],
)
def test_types_without_a_counterpart_are_refused_by_name(
    dtype: sql.DataType, error: type[Exception], remedy: str
) -> None:
    schema = sql.StructType([sql.StructField("x", sql.ArrayType(dtype))])
    with pytest.raises(error, match=rf"the column 'x.element' .*{remedy}"):
        fields_of(schema)


@pytest.mark.parametrize(
    "dtype",
    [AtomicType("GEOMETRY")],
)
def test_what_spark_has_no_type_for_is_refused_by_name(dtype: DataType) -> None:
    with pytest.raises(UnsupportedError, match=r"the column 'c.f0' is .* leave it out with columns"):
        spark_schema([DataField(0, "c", _row(dtype))])


def test_blobs_are_binary() -> None:
    blob = DataField(0, "b", AtomicType("BLOB"))
    assert spark_schema([blob])["b"].dataType == sql.BinaryType()
    rows = pa.record_batch({"b": pa.array([b"a", None], pa.large_binary())})
    assert to_spark_batch(rows, [blob]).to_pydict() == {"b": [b"a", None]}


def test_vectors_are_arrays() -> None:
    (field,) = spark_schema([DataField(0, "v", VectorType(YES, INT, 3))])
    assert field.dataType == sql.ArrayType(sql.IntegerType())
    vectors = pa.record_batch({"v": pa.array([None, [1, 2, 3]], pa.list_(pa.int32(), 3))})
    batch = to_spark_batch(vectors, [DataField(0, "v", VectorType(YES, INT, 3))])
    assert batch.schema == arrow_schema_of(sql.StructType([field]))
    assert batch.to_pylist() == vectors.to_pylist()


def test_a_task_may_see_what_no_table_can_hold() -> None:
    """An alignment then refuses it with the table's name, as it refuses any other column."""
    schema = sql.StructType([sql.StructField("d", sql.DayTimeIntervalType()), sql.StructField("n", sql.NullType())])
    assert arrow_schema_of(schema).types == [pa.duration("us"), pa.null()]
    assert spark_type(AtomicType("STRING")) == sql.StringType()


def test_empty_arrays_and_maps_without_a_type_have_nulls() -> None:
    void = sql.NullType()
    schema = sql.StructType([sql.StructField("a", sql.ArrayType(void, containsNull=False))])
    schema.add("m", sql.MapType(void, void, valueContainsNull=False))
    assert arrow_schema_of(schema).types == [pa.list_(pa.field("element", pa.null())), pa.null()]
