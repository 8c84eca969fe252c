"""Shredded VARIANT columns of parquet files: the cells of Java, values that come back, and damaged columns."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewright import variant
from lakewright.errors import CorruptTableError, InvalidInputError
from lakewright.formats.variant_shredding import rebuild_variants, shred_variants, shredded_type, shredding_types
from lakewright.spec.types import AtomicType, DataField, DataType
from support.data_files import options, read, write

V = DataField(1, "v", AtomicType("VARIANT"))


def type_of(data: object) -> DataType:
    text = json.dumps({"type": "ROW", "fields": [{"name": "v", "type": data}]})
    return shredding_types({"variant.shreddingSchema": text})[0][1]


def row(**fields: object) -> dict[str, object]:
    return {"type": "ROW", "fields": [{"name": name, "type": dtype} for name, dtype in fields.items()]}


def array(element: object) -> dict[str, object]:
    return {"type": "ARRAY", "element": element}


NESTED = type_of(
    row(u=row(id="BIGINT", ok="BOOLEAN"), l=array("INT"), d="DECIMAL(10, 2)", x="DOUBLE", raw="VARIANT", s="STRING")
)
TYPES = [NESTED, type_of(array(row(a="INT"))), type_of("BIGINT"), type_of(array("STRING")), type_of("VARIANT")]


def test_cells_are_those_of_java() -> None:
    """As section 3.5 of the format lists them."""
    group = shredded_type(type_of(row(age="INT", city="STRING")), nullable=True)
    texts = [
        '{"age":35,"city":"Chicago"}',
        '{"age":45,"city":null,"other":[1,2]}',
        '{"age":"old","city":"Rome"}',
        '{"age":3000000000,"x":1.25}',
        "{}",
        "[1,2]",
        "null",
        None,
    ]
    found = shred_variants(variant.from_json(texts), group).to_pylist()

    def cells(value: bytes | None) -> str | None:
        return None if value is None else value.hex()

    shown = []
    for cell in found[:-1]:
        typed = cell["typed_value"]
        parts = None if typed is None else [(cells(p["value"]), p["typed_value"]) for p in typed.values()]
        shown.append((cell["metadata"].hex(), cells(cell["value"]), parts))
    assert shown == [
        ("010200030761676563697479", None, [(None, 35), (None, "Chicago")]),
        (
            "01030003070c616765636974796f74686572",
            "020102000903020002040c010c02",
            [(None, 45), ("00", None)],
        ),
        ("010200030761676563697479", None, [("0d6f6c64", None), (None, "Rome")]),
        ("010200030461676578", "020101000620027d000000", [("18005ed0b200000000", None), (None, None)]),
        ("010000", None, [(None, None), (None, None)]),
        ("010000", "03020002040c010c02", None),
        ("010000", "00", None),
    ]
    assert found[-1] is None


def test_every_node_of_a_file_has_an_id_because_java_reads_no_others() -> None:
    shredded = replace(options([V]), shredding=(("v", NESTED),))
    data, _ = write("parquet", [pa.table({"v": variant.from_json(['{"l":[1,2],"u":{"id":1}}'])})], [V], shredded)
    text = str(pq.ParquetFile(io.BytesIO(data), arrow_extensions_enabled=False).schema)
    nodes = [line for line in text.splitlines() if "field_id=" in line]
    assert [
        line
        for line in nodes
        if "field_id=-1" in line and " list " not in line and "required group field_id=-1" not in line
    ] == []
    assert "optional group field_id=536871936 element" in text


LEAVES = (
    st.none()
    | st.booleans()
    | st.sampled_from([0, 1, -1, 2**31, 2**40, 10**20, 1.5, 2.0, Decimal("1.50"), Decimal("99999999.99")])
    | st.sampled_from([Decimal("1E+3"), Decimal("0.001"), Decimal(7), "", "text", b"x"])
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["u", "l", "d", "x", "raw", "s", "id", "ok", "a", "é"]), inner, max_size=5)
    ),
    max_leaves=12,
)


@given(st.lists(VALUES, min_size=1), st.sampled_from(TYPES))
def test_values_come_back_from_every_type(values: list[object], dtype: DataType) -> None:
    column = variant.from_python(values)
    shredded = replace(options([V]), shredding=(("v", dtype),))
    data, _ = write("parquet", [pa.table({"v": column})], [V], shredded)
    found = read("parquet", data, [V])[0]["v"]
    found.validate(full=True)
    assert variant.to_json(found).to_pylist() == variant.to_json(column).to_pylist()


@pytest.mark.parametrize(
    ("value", "typed", "reason"),
    [
        (None, None, "neither a value nor a typed value"),
        (b"\x0c\x01", {"a": {"value": None, "typed_value": 1}}, "is not an object"),
        (b"\x02\x01\x00\x00\x02\x0c\x02", {"a": {"value": None, "typed_value": 1}}, "beside it"),
        (None, {"b": {"value": None, "typed_value": 1}}, "its keys lack 'b'"),
    ],
)
def test_damaged_columns_are_noticed(value: bytes | None, typed: object, reason: str) -> None:
    inner = pa.struct([("value", pa.binary()), ("typed_value", pa.int64())])
    fields = [
        ("metadata", pa.binary()),
        ("value", pa.binary()),
        ("typed_value", pa.struct([("a", inner), ("b", inner)])),
    ]
    cell = {"metadata": b"\x01\x01\x00\x01a", "value": value, "typed_value": typed}
    with pytest.raises(CorruptTableError, match=reason):
        rebuild_variants(pa.array([cell], pa.struct(fields)))


@pytest.mark.parametrize(
    "text", ["{", "{}", '{"fields":[{"name":"v"}]}', '{"fields":[{"name":"v","type":"NO"}]}', "[]"]
)
def test_schemas_that_cannot_be_read_are_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match=r"variant\.shreddingSchema"):
        shredding_types({"parquet.variant.shreddingSchema": text})
