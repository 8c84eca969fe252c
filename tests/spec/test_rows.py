from __future__ import annotations

import contextlib
import json
import random
import struct
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewright.errors import CorruptTableError, InvalidInputError, UnsupportedError
from lakewright.metadata.manifest_records import decode_records
from lakewright.spec.binary_row import (
    RowImages,
    assemble_rows,
    canonical_row,
    column_slots,
    decode_body,
    decode_field,
    decode_row,
    encode_body,
    encode_row,
)
from lakewright.spec.scalars import to_array
from lakewright.spec.types import ArrayType, AtomicType, DataType, MapType, Value, parse_type
from support.effort import examples
from support.values import SCALARS, nested_types, scalar_types, values_of

WAREHOUSE = Path(__file__).parents[1] / "golden" / "warehouse"
TS = 1_700_000_000_123_456_000

VECTORS: list[tuple[str, Value, str]] = [
    ("STRING", "2026-01-01", "00000001 0000000000000000 0a00000010000000 323032362d30312d3031 000000000000"),
    ("STRING", "a b/c:d", "00000001 0000000000000000 6120622f633a6487"),
    ("STRING", None, "00000001 0001000000000000 0000000000000000"),
    ("STRING", "  ", "00000001 0000000000000000 2020000000000082"),
    ("BOOLEAN", True, "00000001 0000000000000000 0100000000000000"),
    ("DATE", 20000, "00000001 0000000000000000 204e000000000000"),
    ("DECIMAL(10,2)", Decimal("12.50"), "00000001 0000000000000000 e204000000000000"),
    ("TIMESTAMP(3)", TS // 10**6 * 10**6, "00000001 0000000000000000 7b68e5cf8b010000"),
    ("TIMESTAMP(6)", TS, "00000001 0000000000000000 40f5060010000000 7b68e5cf8b010000"),
    ("TIMESTAMP(6)", None, "00000001 0001000000000000 0000000010000000 0000000000000000"),
    ("DECIMAL(20,2)", None, "00000001 0001000000000000 0000000010000000" + "00" * 16),
    ("DECIMAL(20,2)", Decimal("1.50"), "00000001 0000000000000000 0200000010000000 0096" + "00" * 14),
]


def encode_columns(columns: Sequence[pa.Array], types: Sequence[DataType]) -> RowImages:
    return assemble_rows(column_slots(columns, types))


@pytest.mark.parametrize(("text", "value", "image"), VECTORS)
def test_rows_of_one_value_have_java_bytes(text: str, value: Value, image: str) -> None:
    dtype = AtomicType(text)
    data = bytes.fromhex(image)
    assert encode_row([value], [dtype]) == data
    assert decode_row(data, [dtype]) == (value,)
    assert decode_field(data, 0, dtype) == value
    assert encode_columns([to_array([value], dtype)], [dtype]).row(0) == data[4:]


def test_a_wide_decimal_among_22_fields_has_java_bytes() -> None:
    types: list[DataType] = [AtomicType("INT")] * 22
    types[8] = AtomicType("DECIMAL(38, 10)")
    values: list[Value] = [None] * 22
    values[8] = Decimal("12345678901234567890.1234567890")
    body = encode_body(values, types)
    assert body[8 + 64 : 8 + 72].hex() == "0d000000b8000000"
    assert body[-16:].hex() == "018ee90ff6c373e0ee4e3f0ad2000000"
    assert decode_body(body, types) == tuple(values)


def test_the_empty_row_has_twelve_zero_bytes() -> None:
    assert encode_row([], []) == bytes(12)
    assert decode_row(bytes(12), []) == ()


def test_foreign_nulls_become_javas_form_and_canonical_rows_stay_the_same_object() -> None:
    types = [AtomicType("TIMESTAMP(6)"), AtomicType("STRING")]
    java = encode_row([None, "x"], types)
    foreign = bytes.fromhex("00000002 0001000000000000 0000000000000000 7800000000000081")
    assert canonical_row(foreign, types) == java
    assert canonical_row(java, types) is java


def test_arrays_maps_and_rows_follow_the_layout() -> None:
    longs = ArrayType(True, AtomicType("BIGINT"))  # noqa: FBT003
    body = encode_body([[7, None]], [longs])
    array = struct.pack("<i", 2) + bytes([2, 0, 0, 0]) + struct.pack("<qq", 7, 0)
    assert body == bytes(8) + struct.pack("<II", len(array), 16) + array
    shorts = ArrayType(True, AtomicType("SMALLINT"))  # noqa: FBT003
    array = struct.pack("<i", 3) + bytes(4) + struct.pack("<hhh", 1, 2, 3) + bytes(2)
    assert encode_body([[1, 2, 3]], [shorts])[16:] == array
    mapping = MapType(True, AtomicType("INT"), AtomicType("INT"))  # noqa: FBT003
    one = struct.pack("<i", 1) + bytes(4) + struct.pack("<i", 5) + bytes(4)
    two = struct.pack("<i", 1) + bytes(4) + struct.pack("<i", 6) + bytes(4)
    content = struct.pack("<i", 16) + one + two
    assert encode_body([{5: 6}], [mapping])[16:] == content + bytes(4)
    variant = AtomicType("VARIANT")
    assert decode_body(encode_body([(b"v", b"meta")], [variant]), [variant]) == ((b"v", b"meta"),)


@given(st.data())
@settings(max_examples=examples(150))
def test_what_was_encoded_is_decoded(data: st.DataObject) -> None:
    types = data.draw(st.lists(nested_types(), min_size=1, max_size=5))
    values = tuple(data.draw(values_of(t)) for t in types)
    body = encode_body(values, types)
    assert len(body) % 8 == 0
    assert decode_body(body, types) == values


@given(st.data())
@settings(max_examples=examples(60))
def test_more_fields_than_one_header_word_has_bits(data: st.DataObject) -> None:
    count = data.draw(st.sampled_from([55, 56, 57, 120, 121, 200]))
    values = data.draw(st.lists(st.none() | st.integers(-5, 5), min_size=count, max_size=count))
    types = [AtomicType("INT")] * count
    row = encode_row(values, types)
    assert decode_row(row, types) == tuple(values)
    assert [decode_field(row, i, types[i]) for i in range(count)] == values
    assert encode_columns([to_array([v], t) for v, t in zip(values, types, strict=True)], types).row(0) == row[4:]


@given(st.data())
@settings(max_examples=examples(150))
def test_columns_and_single_rows_agree(data: st.DataObject) -> None:
    types = data.draw(st.lists(scalar_types, min_size=1, max_size=4))
    count = data.draw(st.integers(0, 12))
    rows = [tuple(data.draw(values_of(t)) for t in types) for _ in range(count)]
    columns = [to_array([row[i] for row in rows], t) for i, t in enumerate(types)]
    images = encode_columns(columns, types)
    assert [images.row(i) for i in range(len(images))] == [encode_body(row, types) for row in rows]
    first = data.draw(st.integers(0, count))
    sliced = encode_columns([c.slice(first) for c in columns], types)
    assert [sliced.row(i) for i in range(len(sliced))] == [images.row(i) for i in range(first, count)]


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["a", None, "long enough text"], pa.large_string()),
        pa.array(["a", None, "long enough text"], pa.string_view()),
        pa.array(["a", None, "long enough text"]).dictionary_encode(),
        pa.chunked_array([["a"], [None, "long enough text"]], pa.string()),
    ],
    ids=str,
)
def test_every_layout_of_text_gives_the_same_rows(column: pa.Array) -> None:
    types = [AtomicType("STRING")]
    images = encode_columns([column], types)
    assert [images.row(i) for i in range(3)] == [encode_body([v], types) for v in ("a", None, "long enough text")]


def test_a_null_may_hide_bytes_behind_it() -> None:
    content = pa.array(["visible enough", "hidden long text", "x"])
    buffers = [pa.py_buffer(bytes([0b101])), *content.buffers()[1:]]
    column = pa.Array.from_buffers(pa.string(), 3, buffers)
    images = encode_columns([column], [AtomicType("STRING")])
    assert images.row(1) == encode_body([None], [AtomicType("STRING")])
    assert images.row(2) == encode_body(["x"], [AtomicType("STRING")])


@pytest.mark.parametrize(
    ("column", "text", "error"),
    [
        (pa.array([1.5]), "INT", InvalidInputError),
        (pa.array([1.5]), "FLOAT", InvalidInputError),
        (pa.array([300]), "TINYINT", InvalidInputError),
        (pa.array(["1"]), "INT", InvalidInputError),
        (pa.array([1], pa.timestamp("us")), "TIMESTAMP(6) WITH LOCAL TIME ZONE", InvalidInputError),
        (pa.array([1], pa.timestamp("us")), "TIMESTAMP(3)", InvalidInputError),
        (pa.array([2**62], pa.timestamp("s")), "TIMESTAMP(3)", InvalidInputError),
        (pa.array([[1]]), "ARRAY", UnsupportedError),
    ],
    ids=str,
)
def test_columns_of_another_kind_are_refused(column: pa.Array, text: str, error: type[Exception]) -> None:
    dtype = ArrayType(True, AtomicType("INT")) if text == "ARRAY" else AtomicType(text)  # noqa: FBT003
    with pytest.raises(error):
        encode_columns([column], [dtype])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (128, "TINYINT"),
        ("x", "INT"),
        (1, "STRING"),
        ("\ud800", "STRING"),
        (1, "TIMESTAMP(3)"),
        (Decimal("1.234"), "DECIMAL(5,2)"),
    ],
)
def test_values_that_do_not_fit_are_refused(value: Value, text: str) -> None:
    with pytest.raises(InvalidInputError):
        encode_row([value], [AtomicType(text)])


def _damaged(body: bytes, seed: random.Random) -> bytes:
    data = bytearray(body)
    for _ in range(seed.randint(1, 3)):
        if data:
            data[seed.randrange(len(data))] ^= 1 << seed.randrange(8)
    if seed.random() < 0.3:
        del data[seed.randrange(len(data) + 1) :]
    return bytes(data)


@given(st.data(), st.randoms(use_true_random=False))
@settings(max_examples=examples(250))
def test_damage_gives_a_value_or_a_corrupt_table_error(data: st.DataObject, seed: random.Random) -> None:
    types = data.draw(st.lists(nested_types(), min_size=1, max_size=4))
    row = encode_row(tuple(data.draw(values_of(t)) for t in types), types)
    for _ in range(8):
        damaged = _damaged(row, seed)
        for attempt in (
            lambda d=damaged: decode_row(d, types),
            lambda d=damaged: [decode_field(d, i, t) for i, t in enumerate(types)],
            lambda d=damaged: decode_body(d[4:], types),
        ):
            with contextlib.suppress(CorruptTableError):
                attempt()


def test_small_input_cannot_claim_large_output() -> None:
    strings = ArrayType(True, AtomicType("STRING"))  # noqa: FBT003
    count, content = 1000, b"x" * 4000
    first = 4 + (count + 31) // 32 * 4
    array = bytearray((first + 8 * count + 7) & ~7)
    struct.pack_into("<i", array, 0, count)
    for i in range(count):
        struct.pack_into("<II", array, first + 8 * i, len(content), len(array) - len(content))
    body = bytes(8) + struct.pack("<II", len(array), 16) + bytes(array)
    with pytest.raises(CorruptTableError):
        decode_body(body, [strings])
    huge = bytes(8) + struct.pack("<II", 8, 16) + struct.pack("<iI", 2**31 - 1, 0)
    with pytest.raises(CorruptTableError):
        decode_body(huge, [strings])
    with pytest.raises(CorruptTableError):
        decode_row(struct.pack(">i", 2**31 - 1) + bytes(100), [AtomicType("INT")])


def _schemas(table: Path) -> dict[int, dict[str, object]]:
    return {int(p.name.removeprefix("schema-")): json.loads(p.read_bytes()) for p in table.glob("schema/schema-*")}


@pytest.mark.skipif(not WAREHOUSE.is_dir(), reason="the golden tables are not here")
def test_rows_of_golden_manifests_are_written_again_byte_for_byte() -> None:
    checked = 0
    for manifest in sorted(WAREHOUSE.glob("*.db/*/manifest/manifest-*")):
        if not manifest.name.startswith("manifest-list"):
            checked += _check_manifest(manifest)
    assert checked > 1000


def _check_manifest(manifest: Path) -> int:
    schemas = _schemas(manifest.parent.parent)
    checked = 0
    for record in decode_records(manifest.read_bytes(), str(manifest)):
        file: dict[str, object] = record["_FILE"]  # type: ignore[assignment]
        schema = schemas[file["_SCHEMA_ID"]]  # type: ignore[index]
        types = {f["name"]: parse_type(f["type"]) for f in schema["fields"]}  # type: ignore[attr-defined]
        keys = [k for k in schema["primaryKeys"] if k not in schema["partitionKeys"]]  # type: ignore[attr-defined, operator]
        columns = file["_VALUE_STATS_COLS"] if file["_VALUE_STATS_COLS"] is not None else file.get("_WRITE_COLS")
        values: dict[str, bytes] = file["_VALUE_STATS"]  # type: ignore[assignment]
        stats: dict[str, bytes] = file["_KEY_STATS"]  # type: ignore[assignment]
        rows: list[tuple[object, list[str]]] = [(record["_PARTITION"], schema["partitionKeys"])]  # type: ignore[list-item]
        rows += [(file[k], keys) for k in ("_MIN_KEY", "_MAX_KEY")]
        rows += [(stats[k], keys) for k in ("_MIN_VALUES", "_MAX_VALUES")]
        rows += [(values[k], list(types) if columns is None else columns) for k in ("_MIN_VALUES", "_MAX_VALUES")]  # type: ignore[misc]
        for row, names in rows:
            assert isinstance(row, bytes)
            # System columns that a file holds are counted too, and all of them are BIGINT.
            row_types = [types.get(n, AtomicType("BIGINT")) for n in names] if row != bytes(12) else []
            decoded = decode_row(row, row_types)
            assert encode_row(decoded, row_types) == row, (manifest, names)
            assert canonical_row(row, row_types) is row
            if row_types and all(isinstance(t, AtomicType) for t in row_types):
                arrays = [to_array([value], t) for value, t in zip(decoded, row_types, strict=True)]
                assert encode_columns(arrays, row_types).row(0) == row[4:]
            checked += 1
    return checked


def test_all_scalar_types_are_in_the_property_tests() -> None:
    roots = {AtomicType(t).root for t in SCALARS}
    assert {"BOOLEAN", "DECIMAL", "CHAR", "BINARY", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ"} <= roots
