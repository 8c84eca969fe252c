"""Java Paimon reads what we write, and appends to it; `make nightly PART=interop-java` prepares it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

import lakewright as lw
from lakewright.spec.arrow_types import to_arrow_schema
from lakewright.spec.types import DataField
from support.golden import WAREHOUSE, expected, expected_rows, in_order, normalised, spelled
from support.java import Java
from support.rows import NANOSECONDS, nested_fields, nested_rows, scalar_fields, scalar_rows


@pytest.fixture(scope="module")
def java() -> Iterator[Java]:
    started = Java()
    yield started
    started.close()


def _assert_java_reads(
    java: Java, catalog: lw.Catalog, want: pa.Table, fields: Sequence[DataField], **options: str
) -> None:
    got = normalised(java.read(Path(catalog.warehouse), "d.t", **options), fields)
    assert in_order(got) == in_order(spelled(want.select([field.name for field in fields]), fields))


def test_the_java_reader_itself_reads_a_golden_table_right(java: Java) -> None:
    spec = expected()["types.scalars_parquet"]
    table = lw.CatalogFactory.create({"warehouse": str(WAREHOUSE)}).get_table("types.scalars_parquet")
    got = normalised(java.read(WAREHOUSE, "types.scalars_parquet"), table.fields)
    assert in_order(got) == in_order(normalised(expected_rows(spec, spec["rows"]), table.fields))


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("nested", [False, True], ids=["scalars", "nested"])
def test_java_reads_every_type(java: Java, catalog: lw.Catalog, file_format: str, nested: bool) -> None:
    skip = NANOSECONDS if file_format == "avro" else []
    fields = nested_fields(multiset=True) if nested else scalar_fields(skip)
    rows = nested_rows(fields) if nested else scalar_rows(fields, file_format)
    catalog.create_table("d.t", lw.Schema(fields, options={"file.format": file_format}))
    table = catalog.get_table("d.t")
    lw.write_table(rows, table)
    _assert_java_reads(java, catalog, rows, table.fields)


@pytest.mark.parametrize("column", range(1, 25))
def test_java_reads_tables_partitioned_and_bucketed_by_any_scalar(java: Java, catalog: lw.Catalog, column: int) -> None:
    fields = scalar_fields()
    key = fields[column]
    if isinstance(key.type, lw.AtomicType) and key.type.root in {"BINARY", "VARBINARY"}:
        pytest.skip("Java spells the directory of a binary partition at random; we refuse to make one")
    pair = [fields[0], DataField(1, "p", key.type), DataField(2, "b", key.type)]
    rows = scalar_rows(fields).select(["id", key.name, key.name]).rename_columns(["id", "p", "b"])
    catalog.create_table("d.t", lw.Schema(pair, ["p"], options={"bucket": "3", "bucket-key": "b"}))
    table = catalog.get_table("d.t")
    lw.write_table(rows, table)
    _assert_java_reads(java, catalog, rows, table.fields)
    catalog.create_table("d.copy", lw.Schema(pair, ["p"], options={"bucket": "3", "bucket-key": "b"}))
    java.copy(Path(catalog.warehouse), "d.t", "d.copy")
    ours = lw.read_table(catalog.get_table("d.t$files"), columns=["partition", "bucket", "record_count"]).to_pylist()
    theirs = (
        lw.read_table(catalog.get_table("d.copy$files")).select(["partition", "bucket", "record_count"]).to_pylist()
    )
    assert sorted(map(repr, ours)) == sorted(map(repr, theirs)), "Java routes the same rows elsewhere"


def test_java_appends_to_our_table_and_we_to_its(java: Java, catalog: lw.Catalog) -> None:
    fields = scalar_fields()
    rows = scalar_rows(fields)
    for name in ("d.t", "d.source"):
        catalog.create_table(name, lw.Schema(fields, options={"manifest.merge-min-count": "3"}))
        lw.write_table(rows, catalog.get_table(name))
    for _ in range(4):
        java.copy(Path(catalog.warehouse), "d.source", "d.t")
        lw.write_table(rows, catalog.get_table("d.t"))
    want = pa.concat_tables([rows] * 9)
    _assert_java_reads(java, catalog, want, fields)
    assert in_order(spelled(lw.read_table(catalog.get_table("d.t")), fields)) == in_order(spelled(want, fields))


def test_java_reads_history_overwrites_and_schema_changes(java: Java, catalog: lw.Catalog) -> None:
    fields = [
        DataField(0, "id", lw.AtomicType("INT")),
        DataField(1, "p", lw.AtomicType("STRING")),
        DataField(2, "v", lw.AtomicType("INT")),
    ]
    catalog.create_table("d.t", lw.Schema(fields, ["p"]))
    table = catalog.get_table("d.t")
    first = pa.table({"id": [1, 2, 3], "p": ["a", "b", "c"], "v": [1, 2, 3]}, schema=to_arrow_schema(fields))
    lw.write_table(first, table)
    table.create_tag("first")
    lw.write_table(pa.table({"id": [9], "p": ["b"], "v": [9]}), table, mode="overwrite")
    changes = [
        lw.SchemaChange.rename_column("v", "w"),
        lw.SchemaChange.update_column_type("w", lw.AtomicType("BIGINT")),
        lw.SchemaChange.add_column("n", lw.AtomicType("STRING")),
        lw.SchemaChange.set_option("snapshot.num-retained.min", "20"),
    ]
    catalog.alter_table("d.t", changes)
    table = catalog.get_table("d.t")
    lw.write_table(pa.table({"id": [10], "p": ["d"], "w": [2**40], "n": ["new"]}), table)
    want = pa.table(
        {"id": [1, 9, 3, 10], "p": ["a", "b", "c", "d"], "w": [1, 9, 3, 2**40], "n": [None, None, None, "new"]},
        schema=to_arrow_schema(table.fields),
    )
    _assert_java_reads(java, catalog, want, table.fields)
    _assert_java_reads(java, catalog, first, fields, **{"scan.snapshot-id": "1"})
    _assert_java_reads(java, catalog, first, fields, **{"scan.tag-name": "first"})
    with table.new_batch_write_builder().new_commit() as commit:
        commit.truncate_partitions([{"p": "a"}])
    _assert_java_reads(java, catalog, want.slice(1), table.fields)


def test_java_prunes_with_our_statistics(java: Java, catalog: lw.Catalog) -> None:
    """Nulls and long texts in several files: with a filter Java finds every row, whatever our bounds say."""
    fields = [DataField(0, "k", lw.AtomicType("BIGINT")), DataField(1, "s", lw.AtomicType("STRING"))]
    catalog.create_table("d.t", lw.Schema(fields))
    parts = [
        pa.table({"k": [n, None, n + 1], "s": [f"{n:020d} long enough to be cut", None, "\U0010ffff" * (n + 1)]})
        for n in range(0, 30, 3)
    ]
    for part in parts:
        lw.write_table(part, catalog.get_table("d.t"))
    _assert_java_reads(java, catalog, pa.concat_tables(parts), fields)
    for part in parts:
        for k, text in zip(part["k"].to_pylist(), part["s"].to_pylist(), strict=True):
            if text is not None:
                assert java.find(Path(catalog.warehouse), "d.t", "s", text) == [[k, text]]


JAVA_OPTIONS = [
    {"file.format": "parquet", "file.compression": "snappy"},
    {"file.format": "parquet", "file.compression": "gzip", "parquet.enable.dictionary": "false"},
    {"file.format": "parquet", "file.compression": "none"},
    {"file.format": "parquet", "file.compression": "lz4"},
    {"file.format": "parquet", "parquet.writer.version": "PARQUET_2_0"},
    {"file.format": "orc", "file.compression": "zstd"},
    {"file.format": "orc", "file.compression": "lz4"},
    {"file.format": "orc", "file.compression": "zlib"},
    {"file.format": "avro", "file.compression": "zstd"},
    {"file.format": "avro", "file.compression": "deflate"},
    {"metadata.stats-mode": "full"},
    {"metadata.stats-mode": "none"},
    {"metadata.stats-dense-store": "false", "fields.c1.stats-mode": "counts"},
    {"manifest.compression": "deflate"},
    {"file.suffix.include.compression": "true", "data-file.prefix": "rows-"},
    {"file-index.bloom-filter.columns": "c5,c13", "file-index.bitmap.columns": "c1"},
    {"row-tracking.enabled": "true"},
]


@pytest.mark.parametrize("options", JAVA_OPTIONS, ids=lambda options: ",".join(f"{k}={v}" for k, v in options.items()))
def test_we_read_what_java_writes(java: Java, catalog: lw.Catalog, options: dict[str, str]) -> None:
    file_format = options.get("file.format", "parquet")
    fields = scalar_fields(NANOSECONDS if file_format == "avro" else [])
    rows = scalar_rows(fields, file_format)
    catalog.create_table("d.source", lw.Schema(fields))
    lw.write_table(rows, catalog.get_table("d.source"))
    catalog.create_table("d.t", lw.Schema(fields, options=options))
    java.copy(Path(catalog.warehouse), "d.source", "d.t")
    table = catalog.get_table("d.t")
    assert in_order(spelled(lw.read_table(table), table.fields)) == in_order(spelled(rows, table.fields))
    for number in range(1, 5):
        found = lw.read_table(table, filter=f"id = {number}")
        assert found["id"].to_pylist() == [number]


@pytest.mark.parametrize("legacy", ["true", "false"])
@pytest.mark.parametrize("column", range(1, 25))
def test_we_read_java_s_partitions_of_any_scalar(java: Java, catalog: lw.Catalog, column: int, legacy: str) -> None:
    fields = scalar_fields()
    key = fields[column]
    if isinstance(key.type, lw.AtomicType) and key.type.root in {"BINARY", "VARBINARY"}:
        pytest.skip("Java spells the directory of a binary partition at random")
    pair = [fields[0], DataField(1, "p", key.type)]
    rows = scalar_rows(fields).select(["id", key.name]).rename_columns(["id", "p"])
    catalog.create_table("d.source", lw.Schema(pair))
    lw.write_table(rows, catalog.get_table("d.source"))
    catalog.create_table("d.t", lw.Schema(pair, ["p"], options={"partition.legacy-name": legacy}))
    java.copy(Path(catalog.warehouse), "d.source", "d.t")
    table = catalog.get_table("d.t")
    assert in_order(spelled(lw.read_table(table), table.fields)) == in_order(spelled(rows, table.fields))
    lw.write_table(rows, table)
    twice = pa.concat_tables([rows, rows])
    _assert_java_reads(java, catalog, twice, table.fields)
    places = [path.parent for path in Path(catalog.warehouse, "d.db", "t").glob("p=*/**/*.parquet")]
    assert places
    assert all(count % 2 == 0 for count in Counter(places).values()), "we spell a partition as Java does"


TRACKED = {"row-tracking.enabled": "true"}
EVOLUTION = {**TRACKED, "data-evolution.enabled": "true"}
BUCKETED = {"bucket": "2", "bucket-key": "k"}
VECTORS = {"deletion-vectors.enabled": "true"}
COMPACTED: list[dict[str, str]] = [
    {},
    {**VECTORS, "deletion-vectors.bitmap64": "true"},
    {**BUCKETED, **VECTORS},
    TRACKED,
    {**TRACKED, **VECTORS},
    EVOLUTION,  # without vectors, which this Java does not allow together with it
]


@pytest.mark.parametrize("options", COMPACTED, ids=str)
def test_java_reads_and_appends_to_append_tables_that_we_compacted(
    java: Java, catalog: lw.Catalog, options: dict[str, str]
) -> None:
    columns = pa.schema({"k": pa.int64(), "v": pa.int64()})
    for name in ("d.t", "d.source"):
        catalog.create_table(name, lw.Schema.from_pyarrow_schema(columns, options=options))
        lw.write_table(pa.table({"k": range(50), "v": range(50)}), catalog.get_table(name))
    table = catalog.get_table("d.t")
    for number in (50, 100):
        lw.write_table(pa.table({"k": range(number, number + 50), "v": [number] * 50}), table)
    if "deletion-vectors.enabled" in options:
        table.delete("k in (3, 4, 5, 60, 61, 149)")
    if "data-evolution.enabled" in options:
        table.update_by_row_id(pa.table({"_ROW_ID": [70, 120], "v": [-70, -120]}))
    before = lw.read_table(table)
    assert not table.compact(full=True).is_empty
    _assert_java_reads(java, catalog, before, table.fields)
    java.copy(Path(catalog.warehouse), "d.source", "d.t")
    if "row-tracking.enabled" in options:
        rows = lw.read_table(table, columns=["k", "v", "_ROW_ID", "_SEQUENCE_NUMBER"])
        got = java.read(Path(catalog.warehouse), "d.t$row_tracking")
        assert sorted(got) == sorted([list(row.values()) for row in rows.to_pylist()])
    table.compact(full=True)
    if "deletion-vectors.enabled" in options:
        table.delete("k in (7, 60)")
    _assert_java_reads(java, catalog, lw.read_table(table), table.fields)


@pytest.mark.parametrize("strategy", ["round-robin", "specific-fs", "entropy-inject", "weight-robin"])
@pytest.mark.parametrize("keys", [None, ["id"]], ids=["append", "keyed"])
def test_java_and_we_share_external_paths(
    java: Java, catalog: lw.Catalog, tmp_path: Path, strategy: str, keys: list[str] | None
) -> None:
    options = {
        "data-file.external-paths": f"file://{tmp_path}/one,file://{tmp_path}/two",
        "data-file.external-paths.strategy": strategy,
        "data-file.external-paths.specific-fs": "file",
        "data-file.external-paths.weights": "2,1",
        "bucket": "1",
        **({} if keys else {"bucket-key": "id"}),
    }
    columns = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.string())])
    for name in ("d.t", "d.source"):
        catalog.create_table(name, lw.Schema.from_pyarrow_schema(columns, primary_keys=keys, options=options))
    table = catalog.get_table("d.t")
    lw.write_table(pa.table({"id": range(30, 50), "v": ["java"] * 20}, columns), catalog.get_table("d.source"))
    for n in range(3):
        rows = pa.table({"id": range(n, n + 20), "v": [str(n)] * 20}, columns)
        lw.write_table(rows, table)
        java.copy(Path(catalog.warehouse), "d.source", "d.t")
    _assert_java_reads(java, catalog, lw.read_table(table), table.fields)
    table.compact(full=True)
    _assert_java_reads(java, catalog, lw.read_table(table), table.fields)
    java.compact(Path(catalog.warehouse), "d.t")
    table.expire_snapshots(retain_max=1, retain_min=1)
    want = lw.read_table(table)
    assert want.num_rows == (42 if keys else 120)
    _assert_java_reads(java, catalog, want, table.fields)
    assert not [path for path in Path(table.table_path).rglob("*.parquet") if "bucket-" in str(path)]


def test_java_and_we_read_files_and_snapshots_since_a_time(java: Java, catalog: lw.Catalog) -> None:
    columns = pa.schema({"id": pa.int64()})
    for name in ("d.t", "d.source"):
        catalog.create_table(name, lw.Schema.from_pyarrow_schema(columns))
    table, warehouse = catalog.get_table("d.t"), Path(catalog.warehouse)
    lw.write_table(pa.table({"id": [7]}, columns), catalog.get_table("d.source"))
    moments: list[int] = []
    for _ in range(3):
        java.copy(warehouse, "d.source", "d.t")
        newest = table.snapshot()
        assert newest is not None
        moments.append(newest.time_millis)
    for moment in (moments[0] - 5000, *(at + more for at in moments for more in (0, 1))):
        for option in ("scan.file-creation-time-millis", "scan.creation-time-millis"):
            theirs = java.read(warehouse, "d.t", **{option: str(moment)})
            assert lw.read_table(table.copy({option: moment})).num_rows == len(theirs), (option, moment)


def test_java_and_we_give_a_null_key_one_row(java: Java, catalog: lw.Catalog) -> None:
    columns = pa.schema({"id": pa.int64(), "v": pa.string()})
    options = {"bucket": "1", "primary-key.nullable": "true"}
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(columns, primary_keys=["id"], options=options))
    catalog.create_table("d.source", lw.Schema.from_pyarrow_schema(columns))
    lw.write_table(pa.table({"id": [None, 1], "v": ["java", "java"]}, columns), catalog.get_table("d.source"))
    table = catalog.get_table("d.t")
    lw.write_table(pa.table({"id": [None, 2], "v": ["ours", "ours"]}, columns), table)
    java.copy(Path(catalog.warehouse), "d.source", "d.t")
    want = [{"id": None, "v": "java"}, {"id": 1, "v": "java"}, {"id": 2, "v": "ours"}]
    assert lw.read_table(table).to_pylist() == want
    _assert_java_reads(java, catalog, lw.read_table(table), table.fields)


@pytest.mark.parametrize("ignored", ["", "v", "v,w"])
def test_java_and_we_leave_the_same_rows_out_of_a_changelog(java: Java, catalog: lw.Catalog, ignored: str) -> None:
    columns = pa.schema({"id": pa.int64(), "v": pa.string(), "w": pa.string()})
    options = {
        "bucket": "1",
        "changelog-producer": "lookup",
        "changelog-producer.row-deduplicate": "true",
        **({"changelog-producer.row-deduplicate-ignore-fields": ignored} if ignored else {}),
    }
    for name in ("d.ours", "d.java"):
        catalog.create_table(name, lw.Schema.from_pyarrow_schema(columns, primary_keys=["id"], options=options))
    states = [("a", "a"), ("b", "a"), ("b", "b"), ("b", "b")]
    for number, (v, w) in enumerate(states):
        rows = pa.table({"id": [1, number + 2], "v": [v, v], "w": [w, w]}, columns)
        source = f"d.s{number}"
        catalog.create_table(source, lw.Schema.from_pyarrow_schema(columns))
        lw.write_table(rows, catalog.get_table(source))
        java.copy(Path(catalog.warehouse), source, "d.java")
        lw.write_table(rows, catalog.get_table("d.ours"))
    changes = []
    for name in ("d.ours", "d.java"):
        table = catalog.get_table(name)
        newest = table.snapshot()
        assert newest is not None
        read = lw.read_table(table, incremental=(0, newest.id), incremental_mode="changelog", row_kinds=True)
        changes.append(sorted(map(str, read.to_pylist())))
    assert changes[0] == changes[1]
    assert len(changes[0]) == 5 + 2 * (2 - len(ignored.split(",") if ignored else ()))
