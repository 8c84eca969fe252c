"""What is special to ORC: the seal, padded text, far timestamps, files of others."""

from __future__ import annotations

import datetime as dt
import io

import pyarrow as pa
import pyarrow.orc as pa_orc
import pytest

from lakewright.errors import CorruptTableError, UnsupportedError
from lakewright.formats.orc_footer import read_postscript, timestamp_bounds
from lakewright.spec.arrow_types import to_arrow_schema, to_arrow_type
from lakewright.spec.types import ArrayType, AtomicType, DataField, MapType, RowType
from support.data_files import read, write

ID = DataField(0, "id", AtomicType("INT"))


def foreign(table: pa.Table, **more: object) -> bytes:
    out = io.BytesIO()
    pa_orc.write_table(table, out, **more)
    return out.getvalue()


def test_arrow_looks_past_the_seal() -> None:
    table = pa.table({"id": pa.array(range(50_000), pa.int32())})
    data, _ = write("orc", [table, table], [ID])
    assert data.count(b"LWSEAL01") == 1
    assert pa_orc.ORCFile(io.BytesIO(data)).read().num_rows == 100_000


def test_padded_text_comes_back_without_blanks() -> None:
    char, text = AtomicType("CHAR(4)"), AtomicType("STRING")
    row = RowType(True, [DataField(4, "a", char), DataField(5, "b", text)])  # noqa: FBT003
    fields = [
        DataField(0, "c", char),
        DataField(1, "s", text),
        DataField(2, "l", ArrayType(True, row)),  # noqa: FBT003
        DataField(3, "m", MapType(True, char, char)),  # noqa: FBT003
    ]
    data = foreign(
        pa.table(
            {
                "c": ["ab  ", None],
                "s": ["ab  ", None],
                "l": pa.array([[{"a": "x ", "b": "x "}, None], None]),
                "m": pa.array([[("k ", "v ")], None], pa.map_(pa.string(), pa.string())),
            }
        )
    )
    got = read("orc", data, fields)[0].to_pylist()
    assert got[0] == {"c": "ab", "s": "ab  ", "l": [{"a": "x", "b": "x "}, None], "m": [("k", "v")]}
    assert got[1] == {"c": None, "s": None, "l": None, "m": None}


@pytest.mark.parametrize("codec", ["zstd", "snappy", "zlib", "lz4", "uncompressed"])
def test_far_timestamps_are_refused_by_name(codec: str) -> None:
    moments = pa.array([0, 253_402_300_799_000], pa.timestamp("ms"))
    nested = pa.array([[], [253_402_300_799_000]], pa.list_(pa.timestamp("ms")))
    data = foreign(pa.table({"id": pa.array([1, 2], pa.int32()), "ts": moments, "l": nested}), compression=codec)
    far = [
        DataField(1, "ts", AtomicType("TIMESTAMP(3)")),
        DataField(2, "l", ArrayType(True, AtomicType("TIMESTAMP(3)"))),  # noqa: FBT003
    ]
    for field in far:
        with pytest.raises(UnsupportedError, match=f"{field.name!r} of the file memory"):
            read("orc", data, [ID, field])
    assert read("orc", data, [ID])[0]["id"].to_pylist() == [1, 2]
    with pytest.raises(UnsupportedError, match="'ts'"):
        write("orc", [pa.table({"ts": moments})], far[:1])
    with pytest.raises(UnsupportedError, match="'l'"):
        write("orc", [pa.table({"l": nested})], far[1:])


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_fractions_before_1970_are_not_written(unit: str) -> None:
    second = {"ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    digits = {"ms": 3, "us": 6, "ns": 9}[unit]
    fields = [DataField(0, "t", AtomicType(f"TIMESTAMP({digits})"))]
    good = pa.table({"t": pa.array([-second, None, 0, 1, second + 1], pa.timestamp(unit))})
    assert read("orc", write("orc", [good], fields)[0], fields)[0].equals(good)
    for early in (-1, -second - 1):
        with pytest.raises(UnsupportedError, match="'t'"):
            write("orc", [pa.table({"t": pa.array([early, None], pa.timestamp(unit))})], fields)


@pytest.mark.parametrize("outer", [[], [None]])
def test_a_null_row_inside_a_row(outer: list[None]) -> None:
    inner = RowType(True, [DataField(2, "x", AtomicType("INT"))])  # noqa: FBT003
    dtype = RowType(True, [DataField(1, "f", inner), DataField(3, "l", ArrayType(True, inner))])  # noqa: FBT003
    fields = [DataField(0, "c", dtype)]
    cells = [
        *outer,
        {"f": None, "l": [None, {"x": 1}]},
        {"f": {"x": 5}, "l": None},
        {"f": {"x": None}, "l": [{"x": 2}]},
    ]
    table = pa.table([pa.array(cells, to_arrow_type(dtype))], schema=to_arrow_schema(fields))
    data, _ = write("orc", [table], fields)
    assert pa_orc.ORCFile(io.BytesIO(data)).read()["c"].to_pylist() == cells


def test_slices_of_nested_columns() -> None:
    row = RowType(True, [DataField(1, "a", AtomicType("BOOLEAN")), DataField(2, "t", AtomicType("TIME(3)"))])  # noqa: FBT003
    fields = [DataField(0, "r", row), DataField(3, "l", ArrayType(True, row))]  # noqa: FBT003
    cells = [{"a": True, "t": dt.time(1)}, None, {"a": None, "t": None}, {"a": False, "t": dt.time(2)}] * 3
    table = pa.table(
        [
            pa.array(cells, to_arrow_type(row)),
            pa.array([cells[:n] or None for n in range(12)], to_arrow_type(fields[1].type)),
        ],
        schema=to_arrow_schema(fields),
    )
    for start in range(12):
        part = table.slice(start, 7)
        assert read("orc", write("orc", [part], fields)[0], fields)[0].to_pylist() == part.to_pylist()


def test_the_tail_tells_the_bounds() -> None:
    data = foreign(pa.table({"a": pa.array([5, 1500, None], pa.timestamp("ms")), "b": [1, 2, 3]}), compression="zstd")
    postscript = read_postscript(data[-256:])
    assert timestamp_bounds(data[-postscript.tail_bytes :], postscript) == {"a": (5, 1500)}


def test_columns_that_a_foreign_file_lacks_are_null() -> None:
    other = DataField(9, "other", AtomicType("STRING"))
    table = pa.table({"id": pa.array([1, 2], pa.int32())})
    assert read("orc", foreign(table), [ID, other])[0]["other"].to_pylist() == [None, None]
    assert read("orc", foreign(table), [other])[0]["other"].to_pylist() == [None, None]
    with pytest.raises(CorruptTableError, match="'other'"):
        read("orc", write("orc", [table], [ID])[0], [ID, other])
