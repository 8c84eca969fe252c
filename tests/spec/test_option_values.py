"""Values of options that nobody could use are refused when they are set: at creation, by alter and by copy."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lakewright as lw

WRONG = [
    ("file.format", "parqet", "parquet, orc, avro"),
    ("changelog-file.format", "csv", "parquet, orc, avro"),
    ("file.compression", "brotli", "zstd, snappy"),
    ("file.compression", "bzip2", "parquet files take zstd"),
    ("changelog-file.compression", "x", "zstd, snappy"),
    ("manifest.compression", "lz4", "zstd, zstandard"),
    ("file.compression.zstd-level", "0", "from 1 to 22"),
    ("file.compression.zstd-level", "23", "from 1 to 22"),
    ("file.format.per.level", "0:avro,5:parqet", "parquet, orc, avro"),
    ("file.format.per.level", "0:avro,,5:orc", "without blank items"),
    ("file.compression.per.level", "0:lzo", "zstd, snappy"),
    ("file.compression.per.level", "0:xz", "parquet files take zstd"),
    ("merge-engine", "dedup", "deduplicate, partial-update"),
    ("changelog-producer", "yes", "none, input"),
    ("lookup-compact", "fast", "radical, gentle"),
    ("sequence.field", "n,,id", "blank"),
    ("sequence.field", " , ", "blank"),
    ("clustering.columns", "n,", "blank"),
    ("fields.n.sequence-group", "id,,n", "blank"),
    ("bucket-key", "id,,n", "blank"),
    ("changelog-producer.row-deduplicate-ignore-fields", "n,,id", "blank"),
    ("data-file.external-paths", "file:///a,,file:///b", "blank"),
]


def _schema(**options: object) -> lw.Schema:
    columns = pa.schema({"id": pa.int64(), "n": pa.int64()})
    return lw.Schema.from_pyarrow_schema(columns, primary_keys="id", options={"bucket": 1, **options})


@pytest.fixture
def catalog(tmp_path: Path) -> lw.Catalog:
    made = lw.CatalogFactory.create({"warehouse": tmp_path})
    made.create_database("d")
    made.create_table("d.t", _schema())
    return made


@pytest.mark.parametrize(("key", "value", "said"), WRONG)
def test_invalid_option_values_are_refused(catalog: lw.Catalog, key: str, value: str, said: str) -> None:
    with pytest.raises(lw.InvalidInputError, match=said):
        catalog.create_table("d.new", _schema(**{key: value}))
    with pytest.raises(lw.InvalidInputError, match=said):
        catalog.alter_table("d.t", [lw.SchemaChange.set_option(key, value)])
    with pytest.raises(lw.InvalidInputError, match=said):
        catalog.get_table("d.t").copy({key: value})
    assert catalog.list_tables("d") == ["t"]


def test_valid_option_values_are_accepted(catalog: lw.Catalog) -> None:
    right = {"file.format": "ORC", "file.compression": "gzip", "file.format.per.level": "0:avro, 5:parquet"}
    catalog.create_table("d.new", _schema(**right, **{"sequence.field": "n"}))
    table = catalog.get_table("d.new")
    lw.write_table(pa.table({"id": [1], "n": [1]}), table)
    assert lw.read_table(table).num_rows == 1
