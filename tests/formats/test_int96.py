"""Nanosecond timestamps in parquet are INT96, they alone, and everybody reads the same from them."""

from __future__ import annotations

import io
import itertools
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewright.errors import CorruptTableError
from lakewright.formats.parquet_columns import nanosecond_leaves
from lakewright.formats.parquet_footer import Field, Items, Struct, read_struct
from lakewright.formats.parquet_writer import image_schema, image_table, int96_footer
from lakewright.spec.arrow_types import to_arrow_schema, with_field_ids
from lakewright.spec.column_stats import ColumnStats
from lakewright.spec.types import ArrayType, AtomicType, DataField, DataType, MapType, RowType
from support.data_files import options, read, write
from support.effort import examples

DAY = 86_400 * 10**9
NINE, ZONED = AtomicType("TIMESTAMP(9)"), AtomicType("TIMESTAMP(7) WITH LOCAL TIME ZONE")
FIELDS = [
    DataField(0, "id", AtomicType("INT", nullable=False)),
    DataField(1, "nine", NINE),
    DataField(2, "micros", AtomicType("TIMESTAMP(6)")),
    DataField(3, "zoned", ZONED),
    DataField(4, "list", ArrayType(True, NINE)),  # noqa: FBT003
    DataField(5, "map", MapType(True, AtomicType("TIMESTAMP(8)", nullable=False), ZONED)),  # noqa: FBT003
    DataField(6, "row", RowType(True, [DataField(7, "a", AtomicType("STRING")), DataField(8, "b", NINE)])),  # noqa: FBT003
    DataField(9, "deep", ArrayType(True, RowType(True, [DataField(10, "x", ZONED), DataField(11, "y", NINE)]))),  # noqa: FBT003
    DataField(12, "solid", AtomicType("TIMESTAMP(9)", nullable=False)),
    DataField(13, "text", AtomicType("STRING")),
]
SCHEMA = to_arrow_schema(FIELDS)
FAR = 253_402_300_799_999_999  # microseconds: the end of 9999, which nanoseconds cannot hold
TIMES = [0, None, -1, 1, -DAY, DAY - 1, -DAY - 1, 1_714_979_289_123_456_789, None, -(2**63) + 2 * DAY, 2**63 - 1]


def rows(times: list[int | None]) -> pa.Table:
    """Return a row per time, with the time in every column that holds nanoseconds."""
    plain: list[list[Any]] = [
        list(range(len(times))),
        times,
        [FAR] * len(times),
        times,
        [None if t == 1 else [t, None, t] * (n % 3) for n, t in enumerate(times)],
        [None if t == -1 else [] if t is None else [(t, None), (n, t)] for n, t in enumerate(times)],
        [None if n % 4 == 3 else {"a": str(n), "b": t} for n, t in enumerate(times)],
        [[{"x": t, "y": None}, None, {"x": None, "y": t}][: n % 4] for n, t in enumerate(times)],
        [n if t is None else t for n, t in enumerate(times)],
        [str(t) for t in times],
    ]
    return pa.table([pa.array(c, f.type) for c, f in zip(plain, SCHEMA, strict=True)], schema=SCHEMA)


def _metadata(data: bytes) -> pq.FileMetaData:
    return pq.read_metadata(io.BytesIO(data))


def _footer(data: bytes) -> bytes:
    length = struct.unpack("<I", data[-8:-4])[0]
    return data[-8 - length : -8]


def test_only_nanoseconds_are_int96() -> None:
    data, _ = write("parquet", [rows(TIMES)], FIELDS)
    schema = _metadata(data).schema
    found = {schema.column(n).path for n in range(len(schema)) if schema.column(n).physical_type == "INT96"}
    assert found == {
        "nine",
        "zoned",
        "list.list.element",
        "map.key_value.key",
        "map.key_value.value",
        "row.b",
        "deep.list.element.x",
        "deep.list.element.y",
        "solid",
    }
    kept = schema.column(2)
    assert (kept.path, kept.physical_type, kept.logical_type.type) == ("micros", "INT64", "TIMESTAMP")
    for expected in (
        "optional int96 field_id=1 nine;",
        "required int96 field_id=12 solid;",
        "optional int96 field_id=8 b;",
        f"optional int96 field_id={536870911 + 4 * 1024 + 1} element;",
        f"required int96 field_id={536870911 - 5 * 1024 - 1} key;",
    ):
        assert expected in str(schema)


@pytest.mark.parametrize("dictionary", [False, True], ids=["plain", "dictionary"])
@pytest.mark.parametrize("codec", ["zstd", "none"])
def test_nanoseconds_survive_every_codec_and_encoding(codec: str, dictionary: bool) -> None:
    table = rows(TIMES * 40)
    given_options = options(
        FIELDS, compression=codec, dictionary=dictionary, row_group_bytes=table.nbytes // 3, page_bytes=500
    )
    data, facts = write("parquet", [table, table.slice(13, 50)], FIELDS, given_options)
    metadata = _metadata(data)
    assert metadata.num_row_groups > 3
    assert metadata.row_group(0).column(1).has_dictionary_page == dictionary
    got, _ = read("parquet", data, FIELDS)
    want = pa.concat_tables([table, table.slice(13, 50)])
    got.validate(full=True)
    assert got.equals(want)
    assert facts.row_count == want.num_rows
    assert read("parquet", data, FIELDS[3:6], batch_rows=7)[0].combine_chunks().equals(want.select([3, 4, 5]))


def test_an_empty_file_has_the_type() -> None:
    data, _ = write("parquet", [], FIELDS)
    assert read("parquet", data, FIELDS)[1] == []
    assert _metadata(data).schema.column(1).physical_type == "INT96"


def test_large_files_are_streamed_and_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("_DECODED_BYTES", 50_000), ("SINGLE_READ_BYTES", 0), ("_TAIL_BYTES", 100)):
        monkeypatch.setattr(f"lakewright.formats.parquet_reader.{name}", value)
    table = rows(TIMES * 300)
    data, _ = write("parquet", [table], FIELDS, options(FIELDS, page_bytes=2000))
    assert read("parquet", data, FIELDS)[0].equals(table)


def test_images_are_what_the_format_says() -> None:
    table = pa.table({"t": pa.array([0, -1, DAY + 5, None], pa.timestamp("ns"))})
    images = image_table(table, image_schema(table.schema))["t"].to_pylist()
    assert [image and struct.unpack("<qi", image) for image in images] == [
        (0, 2_440_588),
        (DAY - 1, 2_440_587),
        (5, 2_440_589),
        None,
    ]


@settings(max_examples=examples(60))
@given(
    st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)), min_size=1, max_size=40),
    st.integers(0, 39),
    st.integers(1, 40),
)
def test_any_slice_of_any_times(times: list[int | None], start: int, length: int) -> None:
    table = rows(times).slice(start, length)
    data, _ = write("parquet", [table], FIELDS)
    if table.num_rows:
        assert read("parquet", data, FIELDS)[0].equals(table)


@pytest.mark.parametrize("dictionary", [False, True], ids=["plain", "dictionary"])
def test_pages_are_byte_for_byte_those_of_arrow_s_int96(dictionary: bool) -> None:
    """The one fact that all of this stands on."""
    fields = [FIELDS[1]]
    late = [time for time in TIMES if time is None or time >= 0]  # older Arrows count back from the next midnight
    table = rows(late * 50).select(["nine"])
    made = options(fields, dictionary=dictionary, page_bytes=1000)
    ours = write("parquet", [table], fields, made)[0]
    out = io.BytesIO()
    pq.write_table(
        table,
        out,
        compression="zstd",
        compression_level=1,
        use_dictionary=dictionary,
        data_page_size=1000,
        write_page_checksum=True,
        write_page_index=True,  # without it the headers hold statistics
        use_deprecated_int96_timestamps=True,
    )
    theirs = out.getvalue()
    for left, right in ((_metadata(ours), _metadata(theirs)),):
        a, b = left.row_group(0).column(0), right.row_group(0).column(0)
        assert (a.physical_type, a.encodings, a.total_compressed_size) == (
            "INT96",
            b.encodings,
            b.total_compressed_size,
        )
        assert ours[4 : 4 + a.total_compressed_size] == theirs[4 : 4 + b.total_compressed_size]


def test_the_rest_of_the_footer_stays() -> None:
    table = rows(TIMES)
    plain = image_schema(with_field_ids(FIELDS))
    out = io.BytesIO()
    with pq.ParquetWriter(out, plain, write_page_index=True, store_schema=False) as writer:
        writer.write_table(image_table(table, plain))
        writer.write_table(image_table(table.slice(3), plain))
    before = _footer(out.getvalue())
    leaves = nanosecond_leaves(SCHEMA)
    old, new = read_struct(before)[0], read_struct(int96_footer(before, leaves))[0]
    assert int96_footer(before, ()) == before
    assert {n: f for n, f in old.items() if n not in {2, 4}} == {n: f for n, f in new.items() if n not in {2, 4}}
    assert len(_items(new[7])) == len(leaves) + 4  # a column order for every leaf
    for was, now in zip(_items(old[2]), _items(new[2]), strict=True):
        changed = {n for n in was if was[n] != now.get(n)}
        assert changed in (set(), {1, 2})
        assert (now.get(1) == Field(5, 3)) == bool(changed)
    for was, now in zip(_items(old[4]), _items(new[4]), strict=True):
        assert {n: f for n, f in was.items() if n != 1} == {n: f for n, f in now.items() if n != 1}
        for leaf, (a, b) in enumerate(zip(_items(was[1]), _items(now[1]), strict=True)):
            _assert_chunk(a, b, int96=leaf in leaves)


def _assert_chunk(was: Struct, now: Struct, *, int96: bool) -> None:
    if not int96:
        assert was == now
        return
    assert set(was) - set(now) == {6, 7}
    assert {4, 5} <= set(now)
    a, b = was[3].value, now[3].value
    assert isinstance(a, dict)
    assert isinstance(b, dict)
    assert {n for n in a if a[n] != b.get(n)} == {1, 12}
    assert isinstance(b[12].value, dict)
    assert set(b[12].value) == {3}


def _items(field: Field) -> list[Struct]:
    assert isinstance(field.value, Items)
    return [value for value in field.value.values if isinstance(value, dict)]


def test_other_leaves_are_not_taken_for_images() -> None:
    data, _ = write("parquet", [rows(TIMES)], FIELDS)
    with pytest.raises(ValueError, match="leaf 1 "):
        int96_footer(_footer(data), {1})
    with pytest.raises(ValueError, match="ends at byte"):
        int96_footer(_footer(data) + b"\x00", {1})


def test_statistics_are_null_counts() -> None:
    table = rows(TIMES)
    data, facts = write("parquet", [table], FIELDS)
    by_name = dict(zip(table.column_names, facts.stats, strict=True))
    assert by_name["nine"] == ColumnStats(None, None, 2)
    assert by_name["zoned"] == ColumnStats(None, None, 2)
    assert by_name["solid"] == ColumnStats(None, None, 0)
    micros = by_name["micros"]
    assert micros is not None
    assert micros.max == FAR * 1000
    group = _metadata(data).row_group(0)
    told = group.column(1).statistics  # older Arrows look past statistics of INT96
    assert told is None or (told.has_min_max, told.null_count) == (False, 2)
    assert group.column(2).statistics.has_min_max


def test_tables_without_nanoseconds_go_the_plain_way(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("an INT96 function was called")

    for name in ("image_table", "image_schema", "int96_footer", "without_bounds"):
        monkeypatch.setattr(f"lakewright.formats.parquet_writer.{name}", refuse)
    fields = [FIELDS[0], FIELDS[2], FIELDS[9]]
    table = rows(TIMES).select(["id", "micros", "text"])
    assert read("parquet", write("parquet", [table], fields)[0], fields)[0].equals(table)


def _with_arrow(path: Path, column: str) -> list[int | None]:
    values: list[int | None] = pq.read_table(path)[column].cast(pa.int64()).to_pylist()
    return values


def _with_polars(path: Path, column: str) -> list[int | None]:
    return pl.read_parquet(path)[column].cast(pl.Int64).to_list()


def _with_duckdb(path: Path, column: str) -> list[int | None]:
    # DuckDB reads INT96 as microseconds.
    found = duckdb.connect().execute(f"select epoch_us({column}) from '{path}' order by id").fetchall()  # noqa: S608 - a test's path
    return [row[0] for row in found]


@pytest.mark.parametrize("column", ["nine", "zoned", "solid"])
@pytest.mark.parametrize(
    ("reader", "nanos"), [(_with_arrow, 1), (_with_polars, 1), (_with_duckdb, 1000)], ids=["arrow", "polars", "duckdb"]
)
def test_other_libraries_read_the_same_times(
    tmp_path: Path, reader: Callable[[Path, str], list[int | None]], nanos: int, column: str
) -> None:
    path = tmp_path / "t.parquet"
    table = rows(TIMES)
    path.write_bytes(write("parquet", [table.slice(0, 5), table.slice(5)], FIELDS)[0])
    want = [None if t is None else t // nanos for t in table[column].cast(pa.int64()).to_pylist()]
    assert reader(path, column) == want
    assert pl.read_parquet(path)["micros"].cast(pl.Int64).to_list() == [FAR] * len(TIMES)


def test_others_read_nested_values_the_same(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    table = rows(TIMES)
    path.write_bytes(write("parquet", [table], FIELDS)[0])
    lists = table["list"].cast(pa.list_(pa.int64())).to_pylist()
    assert pl.read_parquet(path)["list"].cast(pl.List(pl.Int64)).to_list() == lists
    query = f"select [epoch_us(t) for t in list] from '{path}' order by id"  # noqa: S608 - a test's path
    found = duckdb.connect().execute(query).fetchall()
    assert [row[0] for row in found] == [
        None if ts is None else [None if t is None else t // 1000 for t in ts] for ts in lists
    ]
    arrow = pq.read_table(path)
    assert arrow["map"].cast(SCHEMA.field("map").type).equals(table["map"])
    assert arrow["deep"].cast(SCHEMA.field("deep").type).equals(table["deep"])


def test_a_flipped_bit_is_noticed() -> None:
    table = rows(TIMES)
    data, _ = write("parquet", [table, table.slice(1)], FIELDS)
    want = pa.concat_tables([table, table.slice(1)])
    footer = range((len(data) - len(_footer(data)) - 24) * 8, len(data) * 8)
    rng = random.Random(11)
    noticed = 0
    flips = examples(1000)
    for bit in itertools.chain(rng.sample(range(len(data) * 8), flips), rng.sample(footer, flips)):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        try:
            got, _ = read("parquet", bytes(damaged), FIELDS)
        except CorruptTableError:
            noticed += 1
        else:
            assert got.equals(want), f"bit {bit} went unnoticed"
    assert noticed > flips * 4 // 3


@pytest.mark.parametrize("dtype", [NINE, ZONED])
def test_images_hold_any_nanosecond(dtype: DataType) -> None:
    values = np.random.default_rng(1).integers(-(2**62), 2**62, 10_000)
    fields = [DataField(0, "t", dtype)]
    table = pa.table([pa.array(values).cast(to_arrow_schema(fields).field(0).type)], schema=to_arrow_schema(fields))
    images = image_table(table, image_schema(table.schema))["t"].chunk(0)
    raw = np.frombuffer(images.buffers()[1], np.dtype([("nanos", "<i8"), ("day", "<i4")]))
    assert (raw["nanos"] >= 0).all()
    assert (raw["nanos"] < DAY).all()
    assert np.array_equal((raw["day"].astype(np.int64) - 2_440_588) * DAY + raw["nanos"], values)
