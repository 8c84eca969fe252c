"""Spark's own scan: which files it may read, and that it reads them exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import lakewright as lw
from lakewright.errors import CorruptTableError
from lakewright.spark import native_scan
from lakewright.spark.frame_operations import to_arrow
from lakewright.spark.frame_read import read_table
from lakewright.spark.native_scan import native_splits
from lakewright.spark.spark_session import settings
from lakewright.spec.arrow_types import to_arrow_schema
from lakewright.storage.storage_registry import open_storage
from support.golden import in_order, spelled

HOSTILE = {
    "spark.sql.session.timeZone": "America/Los_Angeles",
    "spark.sql.parquet.datetimeRebaseModeInRead": "LEGACY",
    "spark.sql.parquet.int96RebaseModeInRead": "LEGACY",
    "spark.sql.ansi.enabled": "false",
    "spark.sql.caseSensitive": "true",
    "spark.sql.parquet.binaryAsString": "true",
    "spark.sql.parquet.fieldId.read.enabled": "true",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
}
OLD = datetime(1, 1, 1)  # noqa: DTZ001 - a time without a zone
TYPES: dict[str, tuple[str, list[object]]] = {
    "flag": ("BOOLEAN", [True, None, False]),
    "tiny": ("TINYINT", [-128, None, 127]),
    "big": ("BIGINT", [-(2**63), None, 2**63 - 1]),
    "float": ("FLOAT", [float("nan"), None, -0.0]),
    "double": ("DOUBLE", [float("inf"), None, 5e-324]),
    "small": ("DECIMAL(5, 2)", [Decimal("-999.99"), None, Decimal("0.01")]),
    "middle": ("DECIMAL(15, 3)", [Decimal("-999999999999.999"), None, Decimal("0.001")]),
    "large": ("DECIMAL(38, 10)", [Decimal("-9999999999999999999999999999.9999999999"), None, Decimal("1e-10")]),
    "fixed": ("CHAR(5)", ["ab   ", None, "😀"]),
    "text": ("STRING", ["", None, "a\0b"]),
    "bytes": ("BYTES", [b"", None, b"\xff"]),
    "day": ("DATE", [date(1, 1, 1), None, date(9999, 12, 31)]),
    "seconds": ("TIMESTAMP(0)", [OLD, None, datetime(9999, 12, 31, 23, 59, 59)]),  # noqa: DTZ001
    "clock": ("TIMESTAMP(6)", [OLD, None, datetime(2024, 3, 31, 2, 30, 0, 123456)]),  # noqa: DTZ001
    "moment": (
        "TIMESTAMP(3) WITH LOCAL TIME ZONE",
        [datetime(1582, 10, 10, tzinfo=UTC), None, datetime(1883, 11, 18, 12, 3, 57, tzinfo=UTC)],
    ),
    "odd `name, {=}.": ("INT", [1, None, 2]),
}


@pytest.fixture
def catalog(tmp_path: Path) -> lw.Catalog:
    made = lw.CatalogFactory.create({"warehouse": str(tmp_path / "a [b]{c} *?\\d")})
    made.create_database("d")
    return made


def _made(
    catalog: lw.Catalog, rows: pa.Table, *, partition: Sequence[str] = (), name: str = "d.t", **options: str
) -> lw.FileStoreTable:
    given = {key.replace("_", "."): value for key, value in options.items()}
    catalog.create_table(
        name, lw.Schema.from_pyarrow_schema(rows.schema, partition_keys=list(partition), options=given)
    )
    table = catalog.get_table(name)
    lw.write_table(rows, table)
    return table


def _parted(table: lw.FileStoreTable, columns: Sequence[str] | None = None) -> tuple[int, int]:
    """Return how many files go through Spark's own scan, and how many do not."""
    builder = table.new_read_builder().with_projection(columns)
    parts = native_splits(table.store, builder.new_scan().plan().splits(), builder.new_read().projection)
    return sum(len(s.files) for s in parts[0]), sum(len(s.files) for s in parts[1])


def _same(frame: DataFrame, table: lw.FileStoreTable, **what: Any) -> None:  # noqa: ANN401 - arguments of a read
    want = lw.read_table(table, **what)
    fields = table.new_read_builder().with_projection(what.get("columns")).read_type()
    assert frame.columns == want.column_names
    assert in_order(spelled(to_arrow(frame), fields)) == in_order(spelled(want, fields))


def test_every_type_is_exact_under_any_settings(spark: SparkSession, catalog: lw.Catalog) -> None:
    fields = [lw.DataField(n, name, lw.AtomicType(kind)) for n, (name, (kind, _)) in enumerate(TYPES.items())]
    nested = lw.RowType(
        True,  # noqa: FBT003 - a nullable row
        [
            lw.DataField(51, "x", lw.AtomicType("INT", nullable=False)),
            lw.DataField(52, "y.z", lw.ArrayType(True, lw.AtomicType("DATE"))),  # noqa: FBT003
            lw.DataField(53, "m", lw.MapType(True, lw.AtomicType("STRING"), lw.AtomicType("TIMESTAMP(3)"))),  # noqa: FBT003
        ],
    )
    bag = lw.MultisetType(True, lw.AtomicType("STRING"))  # noqa: FBT003
    fields += [lw.DataField(50, "row", nested), lw.DataField(54, "bag", bag)]
    catalog.create_table("d.t", lw.Schema(fields=fields))
    table = catalog.get_table("d.t")
    values = {name: values for name, (_, values) in TYPES.items()}
    values["row"] = [{"x": 1, "y.z": [date(1, 1, 1), None], "m": [("k", OLD), ("", None)]}, None, {"x": 2}]
    values["bag"] = [[("a", 2)], None, []]
    schema = to_arrow_schema(table.fields)
    lw.write_table(pa.table([pa.array(values[f.name], f.type) for f in schema], schema=schema), table)
    assert _parted(table) == (1, 0)
    frame = read_table(spark, table)
    with settings(spark, HOSTILE):
        _same(frame, table)


def test_files_of_older_schemas(spark: SparkSession, catalog: lw.Catalog) -> None:
    first = {"id": pa.array([1, 2], pa.int32()), "name": ["abc", None], "gone": [1, 2], "price": [Decimal("1.25")] * 2}
    table = _made(catalog, pa.table(first))
    change = lw.SchemaChange
    catalog.alter_table(
        "d.t",
        [
            change.drop_column("gone"),
            change.rename_column("name", "title"),
            change.update_column_type("id", "BIGINT"),
            change.update_column_type("price", "DECIMAL(20, 4)"),
            change.add_column("gone", "STRING"),
            change.add_column("size", "INT", move=lw.Move.first("size")),
            change.update_column_type("title", "VARCHAR(2)", allow_lossy=True),
        ],
    )
    table = catalog.get_table("d.t")
    second = {"size": [7], "id": [2**40], "title": ["xy"], "price": [Decimal("3.5000")], "gone": ["back"]}
    lw.write_table(pa.table(second), table)
    assert _parted(table) == (2, 0)
    _same(read_table(spark, table, filter="gone IS NULL OR id > 5"), table)
    assert _parted(table, ["size"]) == (2, 0), "a file that holds none of the columns still has rows"
    _same(read_table(spark, table, columns=["size"]), table, columns=["size"])
    catalog.alter_table("d.t", [change.update_column_type("id", "STRING")])
    assert _parted(catalog.get_table("d.t")) == (0, 2), "Spark's casts to text are not the core's"
    assert _parted(catalog.get_table("d.t"), ["title"]) == (2, 0)


def test_partition_columns_come_from_the_path(spark: SparkSession, catalog: lw.Catalog) -> None:
    names = [
        "a b",
        "x/y=z",
        "100%",
        "ü:[1]*?{}",
        "__HIVE_DEFAULT_PARTITION__",
        "__DEFAULT_PARTITION__x",
        " ",
        None,
        "01",
    ]
    rows = {
        "id": pa.array(range(len(names)), pa.int64()),
        "name": names,
        "day": pa.array([date(2024, 1, 1), date(1, 1, 1), date(9999, 12, 31)] * 3),
        "n =%": pa.array([-1, 0, 7] * 3, pa.int32()),
        "yes": [True, False, True] * 3,
    }
    table = _made(catalog, pa.table(rows), partition=["name", "day", "n =%", "yes"])
    assert _parted(table) == (6, 3), "nulls, blanks and what Spark takes for null"
    _same(read_table(spark, table), table)
    wanted: dict[str, Any] = {
        "filter": "day > DATE '2000-01-01' AND `n =%` < 5 AND id >= 0",
        "columns": ["yes", "name"],
    }
    _same(read_table(spark, table, **wanted), table, **wanted)


def test_what_the_scan_cannot_read_exactly_goes_another_way(catalog: lw.Catalog) -> None:
    rows = pa.table({"id": [1, 2], "r": [{"a": 1, "b": 2}] * 2})
    for number, file_format in enumerate(("orc", "avro")):
        assert _parted(_made(catalog, rows, name=f"d.f{number}", file_format=file_format)) == (0, 1)
    time = pa.table({"id": [1], "at": pa.array([1], pa.time32("ms")), "fine": pa.array([1], pa.timestamp("ns"))})
    timed = _made(catalog, time, name="d.time")
    assert [_parted(timed, [name]) for name in ("id", "at", "fine")] == [(1, 0), (0, 1), (0, 1)]
    assert _parted(_made(catalog, pa.table({"id": [1], "ID": [2]}), name="d.case")) == (0, 1)
    assert _parted(_made(catalog, pa.table({"_metadata": [1]}), name="d.meta")) == (0, 1)
    table = _made(catalog, rows)
    assert _parted(table) == (1, 0)
    assert _parted(table.copy({"lakewright.native-scan": "never"})) == (0, 1)
    builder = table.new_read_builder()
    cut = builder.new_scan().with_slice(0, 1).plan().splits()
    assert native_splits(table.store, cut, builder.new_read().projection)[0] == []
    catalog.alter_table("d.t", [lw.SchemaChange.drop_column(["r", "a"]), lw.SchemaChange.add_column(["r", "a"], "INT")])
    assert _parted(catalog.get_table("d.t")) == (0, 1), "another field of the same name inside a row"
    assert _parted(catalog.get_table("d.t"), ["r.b"]) == (1, 0)


def test_object_stores_are_read_by_spark_only_on_request(catalog: lw.Catalog) -> None:
    table = _made(catalog, pa.table({"id": [1]}))
    splits = table.new_read_builder().new_scan().plan().splits()
    projection = table.new_read_builder().new_read().projection
    for location, reached in (("s3://lake/t", 1), ("az://lake/t", 0)):
        storage, root = open_storage(location, {})
        store = replace(table.store, storage=storage, layout=replace(table.store.layout, root=root))
        assert len(native_splits(store, splits, projection)[0]) == 0
        asked = store.with_schema(store.schema.with_options({"lakewright.native-scan": "always"}))
        assert len(native_splits(asked, splits, projection)[0]) == reached


def test_many_files_are_looked_up_without_a_job(spark: SparkSession, catalog: lw.Catalog) -> None:
    ids = list(range(80))
    table = _made(catalog, pa.table({"id": ids, "p": [str(n % 40) for n in ids]}), partition=["p"])
    context = spark.sparkContext
    context.setJobGroup("lookup", "the files of a scan")
    try:
        frame = read_table(spark, table)
        assert list(context.statusTracker().getJobIdsForGroup("lookup")) == []
        assert _parted(table) == (40, 0)
        assert frame.agg({"id": "sum"}).collect()[0][0] == sum(ids)
        assert list(context.statusTracker().getJobIdsForGroup("lookup")) != []
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type] # None takes it away
    assert spark.conf.get("spark.sql.sources.parallelPartitionDiscovery.threshold") == "32", "put back"


def test_a_file_that_is_gone_is_named(spark: SparkSession, catalog: lw.Catalog) -> None:
    table = _made(catalog, pa.table({"id": [1]}))
    (path,) = table.new_read_builder().new_scan().plan().splits()[0].file_paths
    Path(path).unlink()
    with pytest.raises(CorruptTableError, match="is missing") as raised:
        read_table(spark, table)
    assert Path(path).name in str(raised.value)


def test_a_flipped_bit_is_noticed(spark: SparkSession, catalog: lw.Catalog) -> None:
    table = _made(catalog, pa.table({"id": list(range(1000))}), file_compression="none")
    (path,) = table.new_read_builder().new_scan().plan().splits()[0].file_paths
    data = bytearray(Path(path).read_bytes())
    data[len(data) // 2] ^= 1
    Path(path).write_bytes(data)
    with pytest.raises(Exception, match=r"FAILED_READ_FILE|CRC|checksum"):
        read_table(spark, table).collect()


def test_many_paths_travel_as_one_text(
    spark: SparkSession, catalog: lw.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = pa.table({"k": range(6), "p": ["plain", "a b", "*?[x]{y}\\", "ä/ö", "new\nline", None]})
    table = _made(catalog, rows, partition=["p"])
    monkeypatch.setattr(native_scan, "_PATHS_AS_TEXT", 1)
    read = to_arrow(read_table(spark, table))
    assert sorted(read.to_pylist(), key=lambda row: row["k"]) == rows.to_pylist()
    assert _parted(table)[0] > 3
