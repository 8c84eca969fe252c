"""pypaimon's values beside lakewright's: equal to them, taken in their place, stored without a trace of the face."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import lakewright as lw
import lakewright.pypaimon as face


def test_identifiers_and_types_equal_those_of_lakewright() -> None:
    assert face.Identifier("d", "t", branch="b") == lw.Identifier("d", "t", "b") == face.Identifier("d", "t$branch_b")
    assert len({face.Identifier("d", "t", branch="main"), lw.Identifier("d", "t")}) == 1
    ours, theirs = (
        lw.RowType(nullable=True, fields=[lw.DataField(0, "a", lw.AtomicType("INT"))]),
        face.AtomicType("INT"),
    )
    made = face.RowType(nullable=True, fields=[face.DataField(0, "a", theirs)])
    assert made == ours == made
    assert hash(made) == hash(ours)
    assert isinstance(ours, face.RowType)
    assert isinstance(ours.fields[0], face.DataField)
    assert not isinstance(ours, face.ArrayType)


def test_a_schema_file_is_the_one_that_lakewright_writes(tmp_path: Path) -> None:
    columns = pa.schema([("a", pa.int32()), ("b", pa.list_(pa.string()))])
    stored = []
    for name, library in (("face", face), ("core", lw)):
        catalog = library.CatalogFactory.create({"warehouse": str(tmp_path / name)})
        catalog.create_database("d")
        catalog.create_table("d.t", library.Schema.from_pyarrow_schema(columns, primary_keys=["a"]))
        catalog.alter_table("d.t", [library.SchemaChange.add_column("c", library.AtomicType("INT"))])
        text = (tmp_path / name / "d.db" / "t" / "schema" / "schema-1").read_text()
        stored.append({key: value for key, value in json.loads(text).items() if key not in {"timeMillis", "checksum"}})
    assert stored[0] == stored[1]


def test_a_narrower_type_is_taken_with_a_warning(tmp_path: Path) -> None:
    catalog = face.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d")
    catalog.create_table("d.t", face.Schema.from_pyarrow_schema(pa.schema([("a", pa.int64())])))
    lw.write_table(pa.table({"a": [1, 1 << 40]}), catalog.get_table("d.t"))
    with pytest.warns(lw.LakewrightWarning, match="pypaimon changes the type all the same"):
        catalog.alter_table("d.t", [face.SchemaChange.update_column_type("a", face.AtomicType("INT"))])
    assert [str(field.type) for field in catalog.get_table("d.t").fields] == ["INT"]


def test_a_refused_change_is_a_runtime_error_with_the_reason(tmp_path: Path) -> None:
    catalog = face.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d")
    catalog.create_table("d.t", face.Schema.from_pyarrow_schema(pa.schema([("a", pa.int64())])))
    with pytest.raises(RuntimeError, match=r"Failed to alter table d\.t: .*Column z does not exist") as refused:
        catalog.alter_table("d.t", [face.SchemaChange.drop_column("z")])
    assert isinstance(refused.value, lw.InvalidInputError)
    with pytest.raises(face.TableNotExistException, match=r"d\.none does not exist"):
        catalog.alter_table("d.none", [face.SchemaChange.drop_column("z")])
