"""What is special to Avro: Java's schema, the seal in the header, files of others."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from lakewright.errors import UnsupportedError
from lakewright.formats.avro_container import Codec, compress, decode_header, decode_long, decompress, encode_long
from lakewright.formats.avro_files import avro_schema
from lakewright.spec.types import ArrayType, AtomicType, DataField, MapType, MultisetType, RowType
from support.data_files import options, read, write
from support.golden import WAREHOUSE
from support.rows import NANOSECONDS, nested_fields, nested_rows, scalar_fields, scalar_rows


def fields_of(table: str) -> list[DataField]:
    text = json.loads((WAREHOUSE / table / "schema" / "schema-0").read_text())
    return [DataField.from_dict(field) for field in text["fields"]]


@pytest.mark.parametrize("table", ["types.db/scalars_avro", "types.db/nested_avro", "types.db/codec_avro_null"])
def test_the_schema_is_java_s(table: str) -> None:
    path = next((WAREHOUSE / table / "bucket-0").glob("*.avro"))
    theirs = json.loads(decode_header(path.read_bytes()).metadata["avro.schema"])
    assert avro_schema(fields_of(table)) == theirs


def test_fastavro_reads_what_we_write() -> None:
    fields = nested_fields(multiset=True)
    data, _ = write("avro", [nested_rows(fields)], fields, options(fields, compression="deflate"))
    rows: list[Any] = list(fastavro.reader(io.BytesIO(data)))
    assert rows[2]["n3"] == {"a": 1, "b": None}
    assert rows[3]["n5"] == [{"x": 7, "y": None}]
    fields = scalar_fields(NANOSECONDS)
    data, _ = write("avro", [scalar_rows(fields)], fields, options(fields, compression="null"))
    again: list[Any] = list(fastavro.reader(io.BytesIO(data)))
    assert [row["id"] for row in again] == [1, 2, 3, 4]
    assert str(again[1]["c8"]) == "999.99"


def test_keys_that_are_no_text() -> None:
    row = RowType(True, [DataField(2, "x", AtomicType("INT"))])  # noqa: FBT003
    fields = [
        DataField(0, "m", MapType(True, AtomicType("INT"), row)),  # noqa: FBT003
        DataField(1, "s", MultisetType(True, ArrayType(True, AtomicType("INT")))),  # noqa: FBT003
    ]
    schema = pa.schema(
        [
            ("m", pa.map_(pa.int32(), pa.struct([("x", pa.int32())]))),
            ("s", pa.map_(pa.list_(pa.field("element", pa.int32())), pa.field("value", pa.int32(), nullable=False))),
        ]
    )
    table = pa.table(
        [
            pa.array([[(1, {"x": 5}), (2, None)], None], schema.field(0).type),
            pa.array([None, [([1], 2)]], schema.field(1).type),
        ],
        schema=schema,
    )
    data, _ = write("avro", [table], fields)
    assert read("avro", data, fields)[0].equals(table)


@pytest.mark.parametrize("text", ["TIMESTAMP(9)", "TIME(6)", "VARIANT"])
def test_what_avro_cannot_hold(text: str) -> None:
    with pytest.raises(UnsupportedError, match="'c'"):
        avro_schema([DataField(0, "c", AtomicType(text))])


def test_a_record_inside_a_union_and_a_missing_column() -> None:
    record = {"type": "record", "name": "r", "fields": [{"name": "id", "type": "int"}, {"name": "t", "type": "long"}]}
    out = io.BytesIO()
    fastavro.writer(out, ["null", record], [{"id": 1, "t": 5}, {"id": 2, "t": 7}], codec="deflate")
    fields = [
        DataField(0, "id", AtomicType("INT")),
        DataField(1, "t", AtomicType("TIMESTAMP(3)")),
        DataField(2, "none", AtomicType("STRING")),
    ]
    got = read("avro", out.getvalue(), fields)[0]
    assert got["id"].to_pylist() == [1, 2]
    assert got["t"].cast(pa.int64()).to_pylist() == [5, 7]
    assert got["none"].to_pylist() == [None, None]


@pytest.mark.parametrize("value", [0, 1, -1, 63, 64, -64, -65, 2**31, -(2**63), 2**63 - 1])
def test_numbers_survive_encoding(value: int) -> None:
    assert decode_long(b"x" + encode_long(value), 1) == (value, 1 + len(encode_long(value)))


@pytest.mark.parametrize("compression", ["null", "zstd", "snappy", "deflate", "bzip2", "xz"])
def test_every_codec_gives_back_what_was_packed(compression: str) -> None:
    codec = Codec.of(compression)
    for data in (b"", b"abc" * 1000):
        packed = compress(data, codec)
        assert decompress(packed, codec.name, sealed=True) == data
        with pytest.raises(ValueError, match=r".+"):
            decompress(packed[:-1], codec.name, sealed=True)


def test_blocks_of_lz4_are_read() -> None:
    data = b"abc" * 1000
    packed = len(data).to_bytes(4, "little") + pa.compress(data, codec="lz4_raw", asbytes=True)
    assert decompress(packed, "lz4") == data


def test_codecs_that_we_do_not_know() -> None:
    with pytest.raises(UnsupportedError, match="lzo"):
        decompress(b"", "lzo")
