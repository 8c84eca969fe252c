"""Deletion vectors: Java's bytes both ways, and damage."""

from __future__ import annotations

import io
import random
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewright.errors import CorruptTableError, InvalidInputError
from lakewright.formats.deletion_vectors import (
    decode_deletion_vector,
    encode_deletion_vector,
    encode_deletion_vectors,
    live_mask,
    read_deletion_vector,
)
from lakewright.spec.manifest import DeletionRange
from support.effort import examples

JAVA32 = bytes.fromhex("01 00000018 5e43f2d0 3a30000001000000 00000100 10000000 03000500 267e36de")
JAVA64 = bytes.fromhex(
    "01 00000024 d1d33964 0100000000000000 00000000 3a30000001000000 00000100 10000000 03000500 9467f8a4"
)

positions = st.lists(st.integers(0, 2**20) | st.integers(0, 2**32 - 1), max_size=60)
runs = st.tuples(st.integers(0, 2**33), st.integers(1, 9000)).map(lambda r: list(range(r[0], r[0] + r[1])))


@pytest.mark.parametrize(("data", "length"), [(JAVA32, 24), (JAVA64, 44)])
def test_java_s_examples(data: bytes, length: int) -> None:
    found = DeletionRange("f", 1, length, 2)
    assert read_deletion_vector(io.BytesIO(data), found, path="p").tolist() == [3, 5]
    encoded, ranges = encode_deletion_vectors({"f": [5, 3, 5]}, bitmap64=data is JAVA64)
    assert encoded == data
    assert ranges == (found,)


@settings(max_examples=examples(80), derandomize=True)
@given(st.lists(positions | runs, max_size=3), st.booleans())
def test_any_positions_survive_encoding(parts: list[list[int]], bitmap64: bool) -> None:
    values = {n for part in parts for n in part if bitmap64 or n < 2**32}
    record = encode_deletion_vector(sorted(values), bitmap64=bitmap64)
    got = decode_deletion_vector(record, path="p")
    assert got.dtype == np.uint64
    assert got.tolist() == sorted(values)


def test_several_vectors_in_one_file() -> None:
    vectors = {"a": range(0, 100_000, 3), "b": [], "c": [2**32 + 7, 1]}
    data, ranges = encode_deletion_vectors({k: list(v) for k, v in vectors.items()}, bitmap64=True)
    for found in ranges:
        got = read_deletion_vector(io.BytesIO(data), found, path="p").tolist()
        assert got == sorted(vectors[found.data_file])
    assert encode_deletion_vectors({}) == (b"\x01", ())
    with pytest.raises(InvalidInputError, match="bitmap64"):
        encode_deletion_vectors({"c": [2**32]})


@pytest.mark.parametrize("bitmap64", [False, True])
def test_damage_is_noticed(bitmap64: bool) -> None:
    data, (found,) = encode_deletion_vectors({"f": [*range(0, 5000, 3), 70_000]}, bitmap64=bitmap64)
    assert len(read_deletion_vector(io.BytesIO(data), found, path="p")) == 1668
    for bit in random.Random(5).sample(range(8, len(data) * 8), 500):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptTableError, match="p is damaged"):
            read_deletion_vector(io.BytesIO(damaged), found, path="p")
    for length in range(0, len(data) - 1, 37):
        with pytest.raises(CorruptTableError):
            read_deletion_vector(io.BytesIO(data[:length]), found, path="p")


def test_the_manifest_must_agree() -> None:
    with pytest.raises(CorruptTableError, match="3"):
        read_deletion_vector(io.BytesIO(JAVA32), DeletionRange("f", 1, 24, 3), path="p")
    for wrong in (DeletionRange("f", 2, 24, 2), DeletionRange("f", 1, 25, 2), DeletionRange("f", 0, 24, 2)):
        with pytest.raises(CorruptTableError):
            read_deletion_vector(io.BytesIO(JAVA32), wrong, path="p")


@settings(max_examples=examples(200), derandomize=True)
@given(st.binary(max_size=80), st.booleans())
def test_hostile_bytes_with_a_right_checksum(body: bytes, bitmap64: bool) -> None:
    magic = bytes.fromhex("d1d33964" if bitmap64 else "5e43f2d0")
    whole = magic + body
    record = len(whole).to_bytes(4, "big") + whole + zlib.crc32(whole).to_bytes(4, "big")
    try:
        decode_deletion_vector(record, path="p")
    except CorruptTableError:
        return


def test_a_batch_is_masked_by_its_place_in_the_file() -> None:
    deleted = np.array([0, 3, 5, 9], dtype=np.uint64)
    assert live_mask(deleted, 3, 4).tolist() == [False, True, False, True]
    assert live_mask(deleted, 10, 2).tolist() == [True, True]
    assert live_mask(np.empty(0, dtype=np.uint64), 0, 1).tolist() == [True]
