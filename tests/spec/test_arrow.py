from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakewright.errors import InvalidInputError, UnsupportedError
from lakewright.spec.arrow_types import (
    FIELD_ID,
    from_arrow_schema,
    from_arrow_type,
    to_arrow_field,
    to_arrow_schema,
    to_arrow_type,
    with_field_ids,
)
from lakewright.spec.table_schema import TableSchema
from lakewright.spec.types import ArrayType, AtomicType, DataField, MapType, MultisetType, RowType, VectorType
from support.golden import WAREHOUSE

ATOMS = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "DECIMAL(38, 10)": pa.decimal128(38, 10),
    "CHAR(3)": pa.string(),
    "VARCHAR(3)": pa.string(),
    "STRING": pa.string(),
    "BINARY(3)": pa.binary(),
    "VARBINARY(3)": pa.binary(),
    "BYTES": pa.binary(),
    "DATE": pa.date32(),
    "TIME(0)": pa.time32("ms"),
    "TIME(9)": pa.time32("ms"),
    "TIMESTAMP(0)": pa.timestamp("ms"),
    "TIMESTAMP(3)": pa.timestamp("ms"),
    "TIMESTAMP(4)": pa.timestamp("us"),
    "TIMESTAMP(6)": pa.timestamp("us"),
    "TIMESTAMP(7)": pa.timestamp("ns"),
    "TIMESTAMP(9)": pa.timestamp("ns"),
    "TIMESTAMP(3) WITH LOCAL TIME ZONE": pa.timestamp("ms", "UTC"),
    "TIMESTAMP(9) WITH LOCAL TIME ZONE": pa.timestamp("ns", "UTC"),
    "BLOB": pa.large_binary(),
    "GEOMETRY(OGC:CRS84)": pa.binary(),
    "VARIANT": pa.struct(
        [pa.field("value", pa.binary(), nullable=False), pa.field("metadata", pa.binary(), nullable=False)]
    ),
}


@pytest.mark.parametrize("text", ATOMS)
def test_each_scalar_has_its_canonical_arrow_type(text: str) -> None:
    assert to_arrow_type(AtomicType(text)) == ATOMS[text]


def test_nested_nullability_is_kept_and_map_keys_are_never_null() -> None:
    inner = RowType(nullable=False, fields=[DataField(7, "x", AtomicType("INT", nullable=False))])
    arrow = to_arrow_type(MapType(nullable=True, key_type=AtomicType("STRING"), value_type=inner))
    assert not arrow.key_field.nullable
    assert not arrow.item_field.nullable
    assert not arrow.item_type.field("x").nullable
    elements = to_arrow_type(ArrayType(nullable=True, element_type=AtomicType("BIGINT", nullable=False)))
    assert (elements.value_field.name, elements.value_field.nullable) == ("element", False)


def test_a_multiset_is_a_map_to_counts() -> None:
    arrow = to_arrow_type(MultisetType(nullable=True, element_type=AtomicType("STRING")))
    assert arrow.item_type == pa.int32()
    assert not arrow.item_field.nullable


def test_a_vector_is_a_fixed_size_list() -> None:
    arrow = to_arrow_type(VectorType(nullable=True, element=AtomicType("FLOAT"), length=3))
    assert pa.types.is_fixed_size_list(arrow)
    columns = from_arrow_schema(pa.schema({"v": pa.list_(pa.field("item", pa.float32(), nullable=False), 3)}))
    assert [str(column.type) for column in columns] == ["VECTOR<FLOAT, 3>"]
    assert arrow.list_size == 3


def test_descriptions_travel_both_ways() -> None:
    field = DataField(0, "a", AtomicType("INT", nullable=False), "what it is")
    assert to_arrow_field(field).metadata == {b"description": b"what it is"}
    assert from_arrow_schema(to_arrow_schema([field])) == (field,)


def test_nested_fields_are_numbered_before_the_field_that_holds_them() -> None:
    inner = pa.struct([("x", pa.int32()), ("y", pa.list_(pa.struct([("z", pa.int64())])))])
    first, second, third = from_arrow_schema(pa.schema({"a": pa.int64(), "r": inner, "b": pa.string()}))
    assert (first.id, second.id, third.id) == (0, 1, 5)
    assert isinstance(second.type, RowType)
    x, y = second.type.fields
    assert isinstance(y.type, ArrayType)
    assert isinstance(y.type.element, RowType)
    assert (x.id, y.type.element.fields[0].id, y.id) == (2, 3, 4)


ACCEPTED = {
    pa.large_string(): "STRING",
    pa.string_view(): "STRING",
    pa.binary_view(): "BYTES",
    pa.binary(): "BYTES",
    pa.binary(5): "BINARY(5)",
    pa.date64(): "DATE",
    pa.time32("s"): "TIME(0)",
    pa.time32("ms"): "TIME(3)",
    pa.time64("ns"): "TIME(3)",
    pa.timestamp("s"): "TIMESTAMP(0)",
    pa.timestamp("ns"): "TIMESTAMP(9)",
    pa.timestamp("us", "Europe/Berlin"): "TIMESTAMP(6) WITH LOCAL TIME ZONE",
    pa.decimal128(9, 2): "DECIMAL(9, 2)",
    pa.decimal256(38, 0): "DECIMAL(38, 0)",
    pa.dictionary(pa.int8(), pa.large_string()): "STRING",
    pa.large_list(pa.int32()): "ARRAY<INT>",
    pa.list_view(pa.int32()): "ARRAY<INT>",
    pa.map_(pa.string(), pa.int32()): "MAP<STRING NOT NULL, INT>",
    pa.uint8(): "SMALLINT",
    pa.uint16(): "INT",
    pa.uint32(): "BIGINT",
    pa.uint64(): "DECIMAL(20, 0)",
    pa.float16(): "FLOAT",
    pa.uuid(): "BINARY(16)",
    pa.large_binary(): "BYTES",
    pa.list_(pa.uint8()): "ARRAY<SMALLINT>",
}


@pytest.mark.parametrize("arrow", ACCEPTED, ids=str)
def test_arrow_types_with_a_meaning_are_taken(arrow: pa.DataType) -> None:
    assert str(from_arrow_type(arrow, ids=count())) == ACCEPTED[arrow]


REFUSED = {
    pa.null(): InvalidInputError,
    pa.duration("s"): InvalidInputError,
    pa.month_day_nano_interval(): InvalidInputError,
    pa.dense_union([pa.field("a", pa.int32())]): InvalidInputError,
    pa.run_end_encoded(pa.int32(), pa.int64()): InvalidInputError,
    pa.bool8(): InvalidInputError,
    pa.decimal256(50, 2): InvalidInputError,
    pa.decimal128(5, -1): InvalidInputError,
    pa.struct([]): InvalidInputError,
    pa.large_binary(): UnsupportedError,
    pa.list_(pa.string(), 4): InvalidInputError,
}


@pytest.mark.parametrize("arrow", REFUSED, ids=str)
def test_other_arrow_types_are_refused_with_the_column(arrow: pa.DataType) -> None:
    columns = pa.schema({"ok": pa.int32(), "outer": pa.struct([("inner", arrow)])})
    with pytest.raises(REFUSED[arrow], match=r"'outer\.inner'") as caught:
        from_arrow_schema(columns, declared=pa.types.is_large_binary(arrow))
    assert caught.value.column == "outer.inner"


def test_one_error_names_all_columns_that_are_refused() -> None:
    columns = {"a": pa.null(), "b": pa.int32(), "c": pa.struct([("d", pa.duration("s")), ("e", pa.uint8())])}
    with pytest.raises(InvalidInputError, match=r"'a'.*pa\.string\(\).*'c\.d'.*pa\.int64\(\)") as caught:
        from_arrow_schema(pa.schema(columns))
    assert caught.value.columns == ["a", "c.d"]


@pytest.mark.parametrize(
    "table", ["types.db/nested_parquet", "evolve.db/nested", "types.db/multiset", "types.db/variant"]
)
def test_field_ids_of_every_level_are_those_of_java(table: str) -> None:
    schemas = [
        TableSchema.from_json(path.read_bytes(), path=str(path))
        for path in (WAREHOUSE / table / "schema").glob("schema-*")
    ]
    ours = [list(_ids(with_field_ids(schema.fields))) for schema in schemas]
    files = list((WAREHOUSE / table).glob("bucket-*/*.parquet"))
    assert files
    for file in files:
        assert list(_ids(pq.ParquetFile(file).schema_arrow)) in ours


def _ids(fields: pa.Schema | list[pa.Field]) -> Iterator[tuple[int, bool]]:
    for field in fields:
        yield int(field.metadata[FIELD_ID]), field.nullable
        kind = field.type
        if pa.types.is_map(kind):
            yield from _ids([kind.key_field, kind.item_field])
        elif pa.types.is_nested(kind):
            yield from _ids([kind.field(index) for index in range(kind.num_fields)])
