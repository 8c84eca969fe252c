"""`.blob` files and descriptors: the bytes that other implementations write, and damage that is noticed."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pytest

from lakewright.errors import CorruptTableError, InvalidInputError
from lakewright.formats.blob_files import (
    NULL,
    PLACEHOLDER,
    BlobFileWriter,
    check_entries,
    decode_lengths,
    encode_lengths,
    read_blob_index,
)
from lakewright.spec.blob_descriptors import (
    BlobDescriptor,
    are_descriptors,
    decode_descriptors,
    encode_descriptors,
)

# Rows, and the file that Java or pypaimon makes of them.
FILES: list[tuple[list[bytes | int], str]] = [
    ([NULL, b"\x3f"], "cf114e583f11000000000000007b4c3acd01240200000001"),
    (
        [b"\x01\x02", NULL, b""],
        "cf114e58010212000000000000001c87f1c8cf114e581000000000000000537fdf032425220300000001",
    ),
    ([NULL, NULL], "01000200000001"),
    ([PLACEHOLDER, PLACEHOLDER, NULL, PLACEHOLDER], "030002010400000001"),
    (
        [PLACEHOLDER, b"new", PLACEHOLDER, NULL],
        "cf114e586e6577130000000000000091cd1cd2032a29020400000001",
    ),
]


class Output(io.BytesIO):
    """A file whose bytes can be read after it was closed."""

    def close(self) -> None:
        """Keep the bytes."""

    def discard(self) -> None:
        """Do nothing."""


def written(rows: list[bytes | int]) -> bytes:
    output = Output()
    writer = BlobFileWriter(output)
    for row in rows:
        if isinstance(row, int):
            writer.add_absent(row)
        else:
            writer.add((row[:1], row[1:]))
    assert writer.close() == len(output.getvalue())
    return output.getvalue()


@pytest.mark.parametrize(("rows", "data"), FILES, ids=[data[-12:] for _, data in FILES])
def test_files_have_the_bytes_of_other_writers(rows: list[bytes | int], data: str) -> None:
    assert written(rows).hex() == data
    source = io.BytesIO(bytes.fromhex(data))
    index = read_blob_index(source, path="a.blob", size=len(data) // 2)
    check_entries(source, index, path="a.blob")
    values = [
        int(length) if length < 0 else source.getvalue()[offset : offset + size]
        for length, (offset, size) in zip(index.lengths, index.payloads().tolist(), strict=True)
    ]
    assert values == rows


def test_lengths_of_any_size_come_back() -> None:
    random = np.random.default_rng(3)
    for bits in range(5, 62, 4):
        lengths = random.integers(-2, 1 << bits, size=int(random.integers(0, 40)))
        assert decode_lengths(encode_lengths(lengths)).tolist() == lengths.tolist()


def test_every_flipped_bit_of_a_value_is_noticed() -> None:
    data = written([b"some bytes", NULL, b"", PLACEHOLDER, b"more"])
    index = read_blob_index(io.BytesIO(data), path="a.blob", size=len(data))
    for bit in range(int(index.lengths[index.lengths > 0].sum()) * 8):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptTableError, match=r"a\.blob.*checksum"):
            check_entries(io.BytesIO(bytes(damaged)), index, path="a.blob")
    for end in range(len(data)):
        with pytest.raises(CorruptTableError, match=r"a\.blob"):
            read_blob_index(io.BytesIO(data[:end]), path="a.blob", size=end)


def test_descriptors_are_those_of_other_writers() -> None:
    one = BlobDescriptor("file:/a.bin", 3, 8)
    data = "0243534544424f4c420b00000066696c653a2f612e62696e03000000000000000800000000000000"
    assert one.serialize().hex() == data
    first = b"\x01" + (11).to_bytes(4, "little") + bytes.fromhex(data)[13:]  # version 1 has no magic
    assert [BlobDescriptor.deserialize(bytes.fromhex(text)) for text in (data, first.hex())] == [one, one]
    with pytest.raises(InvalidInputError, match="does not begin a descriptor"):
        BlobDescriptor.deserialize(b"some other bytes that are long enough")


def test_a_column_of_descriptors_is_encoded_and_decoded() -> None:
    places = np.array([[1, 2], [0, 0], [5, -1], [7, 8]])
    column = encode_descriptors(["a", "longer"], np.array([0, -1, 1, 0]), places)
    assert column.to_pylist()[1] is None
    assert column[2].as_py() == BlobDescriptor("longer", 5).serialize()
    for start in range(4):
        found = decode_descriptors(column.slice(start))
        uris = [None if at < 0 else found.uris[at] for at in found.uri_of]
        assert uris == ["a", None, "longer", "a"][start:]
        kept = [at for at in range(start, 4) if at != 1]
        assert found.offsets[found.uri_of >= 0].tolist() == places[kept, 0].tolist()
        assert found.lengths[found.uri_of >= 0].tolist() == places[kept, 1].tolist()
    values = pa.concat_arrays([column, pa.array([b"", b"\x02CSEDBOL", b"plain"], pa.large_binary())])
    assert are_descriptors(values).to_pylist() == [True, None, True, True, False, False, False]
