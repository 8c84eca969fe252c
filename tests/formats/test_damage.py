"""One flipped bit, or a missing end: the same rows or a named error, never other rows."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from lakewright.errors import CorruptTableError
from lakewright.formats.format_registry import open_reader
from lakewright.spec.types import DataField
from support.data_files import FORMATS, read, write
from support.effort import examples
from support.rows import nested_fields, nested_rows, scalar_fields, scalar_rows

FLIPS = examples(1000)


def _file(file_format: str, *, nested: bool) -> tuple[list[DataField], pa.Table, bytes]:
    if nested:
        fields = nested_fields()
        rows = nested_rows(fields)
    else:
        fields = scalar_fields(("TIMESTAMP(9)",))[:16]
        rows = pa.concat_tables([scalar_rows(scalar_fields(("TIMESTAMP(9)",))).select(range(16))] * 3)
    data, _ = write(file_format, [rows, rows.slice(1)], fields)
    return fields, pa.concat_tables([rows, rows.slice(1)]), data


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("file_format", FORMATS)
def test_a_flipped_bit_is_noticed_or_harmless(file_format: str, nested: bool) -> None:
    fields, rows, data = _file(file_format, nested=nested)
    noticed = 0
    for bit in random.Random(7).sample(range(len(data) * 8), FLIPS):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        try:
            got, _ = read(file_format, bytes(damaged), fields)
        except CorruptTableError as error:
            assert error.path == "memory"  # noqa: PT017 - most flips raise, some change nothing
            noticed += 1
        else:
            assert got.equals(rows), f"bit {bit} went unnoticed"
    assert noticed > FLIPS // 2


@pytest.mark.parametrize("file_format", FORMATS)
def test_a_cut_file_is_refused(file_format: str) -> None:
    fields, rows, data = _file(file_format, nested=False)
    for length in [0, 1, 3, 4, 15, *range(20, len(data) - 1, 97), len(data) - 1]:
        with pytest.raises(CorruptTableError, match="memory"):
            _read_as(file_format, data[:length], len(data), fields)
        if file_format != "avro":  # the caller knows the size and the row count; a cut between blocks shows only there
            with pytest.raises(CorruptTableError, match="memory"):
                read(file_format, data[:length], fields)
    assert read(file_format, data, fields)[0].equals(rows)


def _read_as(file_format: str, data: bytes, size: int, fields: list[DataField]) -> None:
    list(open_reader(file_format, pa.BufferReader(data), path="memory", size=size, fields=fields).batches())


@pytest.mark.parametrize("file_format", FORMATS)
def test_foreign_bytes_are_refused(file_format: str) -> None:
    fields = nested_fields()
    rng = random.Random(3)
    for length in (0, 1, 8, 100, 5000):
        with pytest.raises(CorruptTableError, match="memory"):
            read(file_format, rng.randbytes(length), fields)
