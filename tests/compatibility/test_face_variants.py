"""VARIANT by pypaimon's names: columns of tables, single values, and paths into columns."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

import lakewright.pypaimon as face
from lakewright.errors import InvalidInputError

VALUES = [{"a": 1, "b": {"c": [1, "x"]}, "d": date(2024, 1, 2), "m": Decimal("1.50"), "n": None}, None, {"a": 300}]
PLAIN = pa.struct([pa.field("value", pa.binary(), nullable=False), pa.field("metadata", pa.binary(), nullable=False)])


def column() -> pa.StructArray:
    return face.GenericVariant.to_arrow_array(
        [None if one is None else face.GenericVariant.from_python(one) for one in VALUES]
    )


def test_a_struct_of_value_and_metadata_is_a_variant_of_a_table(tmp_path: Path) -> None:
    catalog = face.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d", True)  # noqa: FBT003 - pypaimon's signature
    nested = pa.list_(pa.struct([("w", PLAIN)]))
    schema = pa.schema([("id", pa.int32()), ("v", PLAIN), ("l", nested)])
    declared = face.Schema.from_pyarrow_schema(schema)
    assert [str(field.type) for field in declared.fields] == ["INT", "VARIANT", "ARRAY<ROW<w: VARIANT>>"]
    catalog.create_table("d.t", declared, False)  # noqa: FBT003 - pypaimon's signature
    table = catalog.get_table("d.t")
    builder = table.new_batch_write_builder()
    write, commit = builder.new_write(), builder.new_commit()
    cells = column().to_pylist()
    rows = pa.table([pa.array([1, 2, 3], pa.int32()), column(), [[{"w": one}] for one in cells]], schema=schema)
    write.write_arrow(rows)
    commit.commit(write.prepare_commit())
    read = table.new_read_builder()
    found = read.new_read().to_arrow(read.new_scan().plan().splits())
    got = [None if one is None else face.GenericVariant.from_arrow_struct(one) for one in found["v"].to_pylist()]
    assert [None if one is None else one.to_python() for one in got] == VALUES
    assert found["l"].to_pylist()[2][0]["w"] == cells[2]


def test_values_are_equal_by_their_bytes() -> None:
    one, same = (face.GenericVariant.from_python({"k": [True]}) for _ in range(2))
    assert one == same
    assert (one.metadata().hex(), one.value().hex()) == ("010100016b", "0201000005030100010 4".replace(" ", ""))
    assert repr(one) == "GenericVariant({'k': [True]})"


@pytest.mark.parametrize(
    ("path", "dtype", "found"),
    [
        ("$.a", pa.int64(), [1, None, 300]),
        ("$.b.c[1]", pa.string(), ["x", None, None]),
        ("$.d", pa.date32(), [date(2024, 1, 2), None, None]),
        ("$.m", pa.decimal128(5, 2), [Decimal("1.50"), None, None]),
        ("$.n", pa.int64(), [None] * 3),
    ],
)
def test_a_path_gives_values_of_their_own_type(path: str, dtype: pa.DataType, found: list[object]) -> None:
    assert face.variant_get(column(), path, dtype) == pa.array(found, dtype)
    assert face.variant_get(pa.chunked_array([column()]), {path: dtype}) == {path: pa.array(found, dtype)}


def test_nothing_is_cast() -> None:
    for path, dtype in (
        ("$.a", pa.string()),
        ("$.a", pa.float64()),
        ("$.m", pa.decimal128(5, 3)),
        ("$.b", pa.string()),
    ):
        with pytest.raises(InvalidInputError, match="casts nothing"):
            face.variant_get(column(), path, dtype)
    with pytest.raises(pa.ArrowInvalid, match="300"):
        face.variant_get(column(), "$.a", pa.int8())


def test_fields_of_objects_become_dicts() -> None:
    assert face.variant_to_pylist(column(), ["a", "n"]) == [{"a": 1, "n": None}, None, {"a": 300}]
    with pytest.raises(InvalidInputError, match="objects"):
        face.variant_to_pylist(face.GenericVariant.to_arrow_array([face.GenericVariant.from_python(1)]), ["a"])
