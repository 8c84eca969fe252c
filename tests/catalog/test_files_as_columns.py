"""`$files` and its like show the same with manifest entries as columns or as objects, together or one by one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import lakewright as lw
from lakewright.formats import avro_columns
from lakewright.metadata import manifest_files as manifests_module
from lakewright.metadata.manifest_files import CACHE
from lakewright.spec.binary_row import RowColumns, encode_row
from lakewright.spec.column_stats import field_stats
from lakewright.spec.manifest import EMPTY_STATS, DataFile, SimpleStats
from lakewright.spec.types import AtomicType, DataField, Value
from lakewright.table import system_tables

NAMES = ("files", "file_key_ranges", "partitions", "buckets")


@pytest.fixture
def catalog(tmp_path: Path) -> lw.Catalog:
    """Return a catalog with a table of many shapes: old schemas, no statistics, statistics of some columns."""
    made = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    made.create_database("d")
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("p", pa.string(), nullable=False)])
    schema = schema.append(pa.field("t", pa.string())).append(pa.field("x", pa.float64()))
    schema = schema.append(pa.field("at", pa.timestamp("us"))).append(pa.field("n", pa.decimal128(12, 2)))
    options = {"bucket": "2", "write-only": "true"}
    kept = lw.Schema.from_pyarrow_schema(schema, partition_keys=["p"], primary_keys=["k", "p"], options=options)
    made.create_table("d.t", kept)

    def write(**more: str) -> None:
        rows = {
            "k": [7, 8],
            "p": ["a", "b%"],
            "t": ['said "?', None],
            "x": [0.0, 1e-7],
            "at": [1_700_000_000_123_456] * 2,
        }
        table = made.get_table("d.t").copy(more) if more else made.get_table("d.t")
        lw.write_table(pa.table(rows).cast(pa.schema([schema.field(name) for name in rows])), table)

    write()
    write(**{"metadata.stats-mode": "none"})
    write(**{"metadata.stats-mode": "counts"})
    write(**{"fields.x.stats-mode": "none", "metadata.stats-dense-store": "true"})
    made.alter_table("d.t", [lw.SchemaChange.rename_column("t", 'the "text"'), lw.SchemaChange.drop_column("n")])
    made.alter_table("d.t", [lw.SchemaChange.add_column("later 100%", AtomicType("INT"))])
    made.get_table("d.t").delete("k = 8")
    return made


def _contents(catalog: lw.Catalog) -> dict[str, pa.Table]:
    CACHE.clear()
    return {name: lw.read_table(catalog.get_table(f"d.t${name}")) for name in NAMES}


def test_entries_as_columns_and_as_objects_show_the_same(catalog: lw.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    as_objects = _contents(catalog)
    assert as_objects["files"].num_rows > 8
    monkeypatch.setattr(manifests_module, "_COLUMNS_MIN", 1)
    monkeypatch.setattr(avro_columns, "LANES_MIN", 0)
    assert _contents(catalog) == as_objects


def test_files_together_and_one_by_one_show_the_same(catalog: lw.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    together = _contents(catalog)
    monkeypatch.setattr(system_tables._Group, "together", lambda *_: None)
    monkeypatch.setattr(RowColumns, "values", lambda *_: None)
    assert _contents(catalog) == together
    assert '"the \\"text\\"":null' in together["files"]["max_value_stats"][0].as_py()


def _file(stats: SimpleStats) -> DataFile:
    empty = (b"", b"", EMPTY_STATS, stats, 0, 0, 0, 0, (), None, None, None, None, None, None, None, None)
    return DataFile("f.parquet", 1, 9, *empty)


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("DOUBLE", float("nan"), 1.0),
        ("DOUBLE", 0.0, -0.0),
        ("DOUBLE", 1e10, 1e-5),
        ("STRING", "a", "b?"),
        ("STRING", None, None),
        ("CHAR(5)", "a b  ", "c    "),
        ("DECIMAL(10, 2)", None, None),
        ("DATE", -800_000, 20_000),
        ("BOOLEAN", False, True),
        ("BYTES", b"\xff\x00", b"\n"),
    ],
)
def test_bounds_are_corrected_together_as_alone(text: str, low: Value, high: Value) -> None:
    dtype = AtomicType(text)
    fields = [DataField(0, "c", dtype)]
    stats = SimpleStats(encode_row([low], [dtype]), encode_row([high], [dtype]), (None,))
    group = system_tables._Group(fields, fields, ("c",))
    together = group.together([stats, stats], [9, 9])
    assert together is not None
    assert [*zip(*together, strict=True)] == [group.alone(_file(stats))] * 2


@pytest.mark.parametrize("text", ["INT", "DECIMAL(10, 2)"])
def test_bounds_of_another_number_of_columns_are_taken_one_by_one(text: str) -> None:
    dtype = AtomicType(text)
    row = encode_row([None, None, None], [dtype] * 3)
    group = system_tables._Group([DataField(0, "c", dtype)], [DataField(0, "c", dtype)], ("c",))
    stats = SimpleStats(row, row, (0,))
    assert group.together([stats], [9]) is None
    with pytest.raises(lw.CorruptTableError, match="do not cover 1 columns"):
        group.alone(_file(stats))


def test_damaged_statistics_are_named(catalog: lw.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    def damaged(file: DataFile, name: str, fields: list[DataField]) -> object:
        return field_stats(replace(file, value_stats=cut), name, fields)

    cut = SimpleStats(bytes(12), bytes(12), (1,))
    monkeypatch.setattr(system_tables, "field_stats", damaged)
    monkeypatch.setattr(system_tables._Group, "together", lambda *_: None)
    with pytest.raises(lw.CorruptTableError, match=r"the statistics of the column .* of the data file .* are damaged"):
        _contents(catalog)
