"""Thrift structs: real footers and random ones come back byte for byte, everything else is refused."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewright.formats.parquet_footer import (
    BINARY,
    BYTE,
    DOUBLE,
    FALSE,
    I16,
    I32,
    I64,
    LIST,
    SET,
    STRUCT,
    TRUE,
    Field,
    Items,
    Struct,
    read_struct,
    write_struct,
)
from support.data_files import write
from support.golden import WAREHOUSE
from support.rows import nested_fields, nested_rows, scalar_fields, scalar_rows


def _footer(data: bytes) -> bytes:
    length = struct.unpack("<I", data[-8:-4])[0]
    return data[-8 - length : -8]


def _footers() -> Iterator[bytes]:
    """Yield footers of Java, of Arrow and of ours."""
    for path in sorted(WAREHOUSE.rglob("*.parquet")):
        yield _footer(path.read_bytes())
    rows = scalar_rows(scalar_fields())
    for option in ({}, {"data_page_version": "2.0"}, {"write_page_index": True}, {"store_schema": False}):
        out = io.BytesIO()
        pq.write_table(pa.concat_tables([rows] * 20), out, row_group_size=4, **option)
        yield _footer(out.getvalue())
    for fields, table in ((scalar_fields(), rows), (nested_fields(), nested_rows(nested_fields()))):
        yield _footer(write("parquet", [table, table], fields)[0])


def test_real_footers_come_back_byte_for_byte() -> None:
    count = 0
    for footer in _footers():
        metadata, end = read_struct(footer)
        assert end == len(footer)
        assert write_struct(metadata) == footer
        count += 1
    assert count > 300


def _number(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)


_LEAVES = {
    I16: _number(16),
    I32: _number(32),
    I64: _number(64),
    DOUBLE: st.binary(min_size=8, max_size=8),
    BINARY: st.binary(max_size=200),
}
_LISTED = {**_LEAVES, TRUE: st.integers(1, 2), BYTE: st.integers(0, 255)}


def _structs(fields: st.SearchStrategy[Field]) -> st.SearchStrategy[Struct]:
    return st.dictionaries(st.one_of(st.integers(1, 40), _number(16)), fields, max_size=6)


def _inside(fields: st.SearchStrategy[Field]) -> st.SearchStrategy[Field]:
    structs = _structs(fields)
    listed = {**_LISTED, STRUCT: structs}
    items = st.sampled_from(sorted(listed)).flatmap(
        lambda kind: st.builds(Items, st.just(kind), st.lists(listed[kind]))
    )
    return st.one_of(
        st.builds(Field, st.just(STRUCT), structs),
        st.builds(Field, st.sampled_from([LIST, SET]), items),
    )


_FIELDS = st.recursive(
    st.one_of(
        st.sampled_from([Field(TRUE, True), Field(FALSE, False)]),  # noqa: FBT003
        *(st.builds(Field, st.just(kind), values) for kind, values in _LEAVES.items()),
    ),
    _inside,
    max_leaves=12,
)


@given(_structs(_FIELDS), st.binary(max_size=3), st.binary(max_size=3))
def test_random_structs_come_back(fields: Struct, before: bytes, behind: bytes) -> None:
    data = write_struct(fields)
    assert read_struct(before + data + behind, len(before)) == (fields, len(before) + len(data))
    assert list(read_struct(data)[0]) == list(fields)


@given(st.binary(max_size=60))
def test_what_can_be_read_is_written_the_same(data: bytes) -> None:
    try:
        fields, end = read_struct(data)
    except ValueError:
        return
    assert write_struct(fields) == data[:end]


def test_a_cut_footer_is_refused() -> None:
    footer = next(_footers())
    for length in range(len(footer)):
        with pytest.raises(ValueError, match="Thrift"):
            read_struct(footer[:length])


@pytest.mark.parametrize(
    "text",
    [
        "",  # no end
        "1000",  # a field of no kind
        "1b00",  # a map
        "1d00",  # a kind that does not exist
        "05020c00",  # the number of a field in its long form, though it is 1 further on
        "15800000",  # a number with a needless byte
        "15ffffffff1f00",  # 33 bits
        "16ffffffffffffffffffff0100",  # eleven bytes
        "19f50100",  # the length of a list in its long form
        "1ffe",  # neither
        "18ffffffff0778",  # a binary without an end
        "19fcffffffff0f",  # a list without an end
        "1c" * 40 + "00" * 41,  # too deep
        "150c0502060000",  # a field twice
    ],
)
def test_what_no_writer_makes_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="Thrift"):
        read_struct(bytes.fromhex(text))


def test_what_is_no_value_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="kind 8"):
        write_struct({1: Field(BINARY, 5)})
