"""Columns that no file of the table could hold are refused when the table is made or changed."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lakewright as lw
from lakewright.errors import CorruptTableError
from lakewright.spec.types import parse_type

INT = lw.AtomicType("INT")


@pytest.fixture
def catalog(tmp_path: Path) -> lw.Catalog:
    made = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    made.create_database("d")
    return made


def schema(kind: object, **options: str) -> lw.Schema:
    fields = [lw.DataField(0, "id", INT), lw.DataField(1, "x", parse_type(kind))]  # type: ignore[arg-type]
    return lw.Schema(fields, options={key.replace("_", "."): value for key, value in options.items()})


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("VARIANT", {"file_format": "orc"}),
        ("VARIANT", {"file_format": "avro"}),
        ("BLOB", {}),
        ("TIME(6)", {"file_format": "avro"}),
        ("TIMESTAMP(9)", {"file_format": "avro"}),
        ("TIMESTAMP(9) WITH LOCAL TIME ZONE", {"file_format_per_level": "0:avro"}),
        ({"type": "ARRAY", "element": "TIME(6)"}, {"file_format": "avro"}),
        ({"type": "ROW", "fields": [{"id": 2, "name": "a", "type": "VARIANT"}]}, {"file_format_per_level": "0:orc"}),
    ],
    ids=str,
)
def test_types_that_no_write_can_store_are_refused(catalog: lw.Catalog, kind: object, options: dict[str, str]) -> None:
    with pytest.raises(lw.UnsupportedError, match=r"d\.t.*column 'x'.* cannot be written") as refused:
        catalog.create_table("d.t", schema(kind, **options))
    assert refused.value.column == "x"
    assert not catalog.table_exists("d.t")


@pytest.mark.parametrize(("kind", "file_format"), [("TIME(3)", "avro"), ("TIME(6)", "orc"), ("TIMESTAMP(6)", "avro")])
def test_other_types_are_not(catalog: lw.Catalog, kind: str, file_format: str) -> None:
    catalog.create_table("d.t", schema(kind, file_format=file_format))
    assert lw.write_table(pa.table({"id": pa.array([1], pa.int32())}), catalog.get_table("d.t")).rows == 1


def test_a_change_is_checked_like_a_new_table(catalog: lw.Catalog) -> None:
    catalog.create_table("d.t", schema("TIMESTAMP(9)"))
    with pytest.raises(lw.UnsupportedError, match=r"'x'.*Avro files cannot hold"):
        catalog.alter_table("d.t", [lw.SchemaChange.set_option("file.format", "avro")])
    with pytest.raises(lw.UnsupportedError, match="'v'"):
        catalog.alter_table("d.t", [lw.SchemaChange.add_column("v", lw.AtomicType("BLOB"))])
    catalog.alter_table("d.t", [lw.SchemaChange.add_column("v", INT)])
    assert catalog.get_table("d.t").field_names == ["id", "x", "v"]


def test_errors_of_files_keep_their_kind_in_sql(catalog: lw.Catalog, tmp_path: Path) -> None:
    catalog.create_table("d.t", schema("INT"))
    lw.write_table(pa.table({"id": pa.array([1], pa.int32())}), catalog.get_table("d.t"))
    (file,) = tmp_path.glob("d.db/t/bucket-*/*.parquet")
    file.write_bytes(b"x" * file.stat().st_size)
    for query in ("SELECT * FROM d.t", "SELECT sum(id) FROM d.t"):
        with pytest.raises(CorruptTableError, match="is damaged"):
            lw.sql(query, catalog=catalog)
