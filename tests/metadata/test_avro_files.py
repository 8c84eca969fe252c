from __future__ import annotations

import io
import json
from collections.abc import Iterator

import fastavro
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from lakewright.errors import CorruptTableError, InvalidInputError, UnsupportedError
from lakewright.formats import avro_container
from lakewright.formats.avro_container import encode_long
from lakewright.metadata import manifest_records
from lakewright.metadata.manifest_records import (
    ENTRY_SCHEMA,
    ENTRY_SCHEMA_SEQUENCES,
    Record,
    RecordEncoder,
    Schema,
    data_file,
    decode_records,
    entry_record,
)
from lakewright.spec.manifest import DataFile, ManifestEntry
from support.facts import data_files, encode_records, entry

CODECS = ["zstd", "null", "deflate", "snappy", "bzip2", "xz"]
SMALL: Schema = {
    "type": "record",
    "name": "small",
    "fields": [{"name": "a", "type": "long"}, {"name": "b", "type": ["null", "string"], "default": None}],
}
RECORDS: list[Record] = [{"a": n, "b": None if n % 3 else f"text {n}"} for n in range(200)]


def record_of(kind: object) -> Schema:
    return {"type": "record", "name": "r", "fields": [{"name": "a", "type": kind}]}


def flipped(data: bytes) -> Iterator[bytes]:
    """Yield the bytes with each bit flipped in turn."""
    for bit in range(len(data) * 8):
        broken = bytearray(data)
        broken[bit // 8] ^= 1 << bit % 8
        yield bytes(broken)


@pytest.mark.parametrize("codec", CODECS)
def test_round_trip_in_every_codec_and_fastavro_reads_it(codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest_records, "BLOCK_BYTES", 500)
    data = encode_records(SMALL, RECORDS, codec)
    assert decode_records(data, "f") == RECORDS
    if codec not in {"snappy", "zstd"}:  # fastavro needs one more package for these
        assert list(fastavro.reader(io.BytesIO(data))) == RECORDS


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz"])
def test_files_of_fastavro_are_read(codec: str) -> None:
    out = io.BytesIO()
    fastavro.writer(out, SMALL, RECORDS, codec=codec, sync_interval=300)
    assert decode_records(out.getvalue(), "f") == RECORDS


def test_zstd_frames_carry_a_checksum() -> None:
    data = encode_records(SMALL, RECORDS, "zstd")
    start = data.index(zstandard.FRAME_HEADER)
    assert zstandard.get_frame_parameters(data[start:]).has_checksum


def test_zstd_frames_without_content_size_are_read() -> None:
    body = io.BytesIO()
    for record in RECORDS:
        fastavro.schemaless_writer(body, SMALL, record)
    compressor = zstandard.ZstdCompressor().compressobj()
    frame = compressor.compress(body.getvalue()) + compressor.flush()
    assert zstandard.get_frame_parameters(frame).content_size == zstandard.CONTENTSIZE_UNKNOWN
    assert decode_records(container(SMALL, "zstandard", [(len(RECORDS), frame)]), "f") == RECORDS


def test_equal_records_make_equal_files() -> None:
    assert encode_records(SMALL, RECORDS, "zstd") == encode_records(SMALL, RECORDS, "zstd")
    assert encode_records(SMALL, [], "zstd") != encode_records(SMALL, RECORDS[:1], "zstd")


def test_no_records_make_a_file_that_says_so() -> None:
    assert decode_records(encode_records(SMALL, [], "zstd"), "f") == []


@pytest.mark.parametrize("codec", ["zstd", "null"])
def test_every_flipped_bit_of_a_manifest_is_noticed_or_harmless(codec: str) -> None:
    records = [entry_record(entry("data-0.parquet")), entry_record(entry("data-1.parquet", level=5))]
    data = encode_records(ENTRY_SCHEMA, records, codec)
    whole = decode_records(data, "f")
    harmless = 0
    for broken in flipped(data):
        try:
            assert decode_records(broken, "f") == whole
            harmless += 1
        except CorruptTableError as error:
            assert error.path == "f"  # noqa: PT017 - either outcome is right
    # Only the name of the seal's key is not covered by the seal.
    assert harmless <= len("lakewright.seal") * 8


def test_every_cut_file_is_refused() -> None:
    data = encode_records(SMALL, RECORDS, "zstd")
    for length in range(len(data)):
        with pytest.raises(CorruptTableError):
            decode_records(data[:length], "f")
    with pytest.raises(CorruptTableError):
        decode_records(data + b"\0", "f")


@given(st.lists(data_files(), max_size=4))
def test_data_files_round_trip(files: list[DataFile]) -> None:
    records = [entry_record(ManifestEntry(0, bytes(12), -2, -2, file)) for file in files]
    decoded = decode_records(encode_records(ENTRY_SCHEMA_SEQUENCES, records, "zstd"), "f")
    assert [data_file(record["_FILE"]) for record in decoded] == files  # type: ignore[arg-type]


@given(st.binary(max_size=300))
def test_any_bytes_are_refused_or_read(noise: bytes) -> None:
    for data in (noise, b"Obj\x01" + noise, container(SMALL, "null", [(3, noise)], noise[:16].ljust(16))):
        try:
            decode_records(data, "f")
        except CorruptTableError:
            continue


def test_the_encoder_counts_the_bytes_of_its_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest_records, "BLOCK_BYTES", 100)
    encoder = RecordEncoder(SMALL, "null")
    for record in RECORDS:
        encoder.add(record)
    size = encoder.size
    assert 0 < size < len(encoder.finish()) < size + 1000


def test_an_unknown_codec_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="'lzo'"):
        encode_records(SMALL, [], "lzo")
    with pytest.raises(UnsupportedError, match="codec 'lzo'"):
        decode_records(container(SMALL, "lzo", [(1, b"")]), "f")


@pytest.mark.parametrize("codec", ["zstandard", "deflate", "bzip2", "xz", "snappy", "null"])
def test_a_block_that_grows_beyond_the_limit_is_refused(codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = encode_records(SMALL, [{"a": 0, "b": "x" * 100_000}], codec)
    assert len(decode_records(data, "f")) == 1
    monkeypatch.setattr(avro_container, "BLOCK_BYTES_MAX", 90_000)
    with pytest.raises(CorruptTableError):
        decode_records(data, "f")


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"type": "record", "name": "r", "fields": []}, "take no bytes"),
        (record_of("null"), "take no bytes"),
        (
            {"type": "record", "name": "r", "fields": [{"name": "a", "type": {"type": "array", "items": "null"}}]},
            "array",
        ),
        (record_of(["null", "r"]), "definition"),
        (record_of("other"), "definition"),
        ({"type": "record", "name": "r", "fields": [{"type": "int"}]}, "without name"),
        ("int", "not one record"),
        (["null", "int"], "not one record"),
        (["null", SMALL, SMALL], "not one record"),
        (7, "not one of Avro"),
    ],
)
def test_schemas_that_could_ask_for_anything_are_refused(schema: object, why: str) -> None:
    data = container(schema, "null", [(2**40, b"")])
    with pytest.raises(CorruptTableError, match=why):
        decode_records(data, "f")


def test_a_schema_that_unfolds_without_measure_is_refused() -> None:
    fields = [{"name": "f0", "type": {"type": "record", "name": "r0", "fields": [{"name": "a", "type": "int"}]}}]
    for level in range(1, 20):
        inner = [{"name": name, "type": f"r{level - 1}"} for name in ("a", "b")]
        fields.append({"name": f"f{level}", "type": {"type": "record", "name": f"r{level}", "fields": inner}})
    with pytest.raises(CorruptTableError, match="parts"):
        decode_records(container({"type": "record", "name": "r", "fields": fields}, "null", []), "f")


def test_a_count_that_the_bytes_cannot_hold_is_refused() -> None:
    with pytest.raises(CorruptTableError, match="announces"):
        decode_records(container(SMALL, "null", [(2**60, b"\0\0")]), "f")


def test_a_named_type_may_stand_in_two_places_and_a_union_may_wrap_the_record() -> None:
    inner = {"type": "record", "name": "s", "fields": [{"name": "x", "type": "int"}]}
    schema = {"type": "record", "name": "r", "fields": [{"name": "a", "type": inner}, {"name": "b", "type": "s"}]}
    out = io.BytesIO()
    record = {"a": {"x": 1}, "b": {"x": 2}}
    fastavro.writer(out, ["null", schema], [record])
    assert decode_records(out.getvalue(), "f") == [record]
    out = io.BytesIO()
    fastavro.writer(out, ["null", schema], [None])
    with pytest.raises(CorruptTableError, match="null"):
        decode_records(out.getvalue(), "f")


@pytest.mark.parametrize(
    ("kind", "why"),
    [("string", "a has the type string"), (["null", "long"], "a has the type null"), ("double", "type double")],
)
def test_fields_of_another_type_are_refused(kind: object, why: str) -> None:
    schema = record_of(kind)
    with pytest.raises(CorruptTableError, match=why):
        decode_records(container(schema, "null", []), "f", expected=SMALL)


def test_fields_may_be_narrower_missing_with_a_default_or_unknown() -> None:
    schema = {"type": "record", "name": "r", "fields": [{"name": "z", "type": "bytes"}, {"name": "a", "type": "int"}]}
    out = io.BytesIO()
    fastavro.writer(out, schema, [{"z": b"?", "a": 4}])
    assert decode_records(out.getvalue(), "f", expected=SMALL) == [{"z": b"?", "a": 4}]
    with pytest.raises(CorruptTableError, match="no field a"):
        decode_records(container({**schema, "fields": schema["fields"][:1]}, "null", []), "f", expected=SMALL)


def container(schema: object, codec: str, blocks: list[tuple[int, bytes]], sync: bytes = b"s" * 16) -> bytes:
    """Build a container by hand, so that it can lie."""
    metadata = {"avro.schema": json.dumps(schema).encode(), "avro.codec": codec.encode()}
    entries = b"".join(sized(key.encode()) + sized(value) for key, value in metadata.items())
    head = b"Obj\x01" + encode_long(len(metadata)) + entries + b"\0" + sync
    return head + b"".join(encode_long(count) + sized(block) + sync for count, block in blocks)


def sized(data: bytes) -> bytes:
    return encode_long(len(data)) + data
