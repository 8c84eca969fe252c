"""What is special to parquet: Java's physical forms, the seal, foreign files, skipping row groups."""

from __future__ import annotations

import contextlib
import io
from datetime import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from lakewright.errors import CorruptTableError, UnsupportedError
from lakewright.formats import parquet_footer
from lakewright.formats.format_registry import open_reader
from lakewright.formats.parquet_columns import dictionary_columns
from lakewright.spec.arrow_types import to_arrow_schema
from lakewright.spec.predicate import Predicate, PredicateBuilder
from lakewright.spec.types import ArrayType, AtomicType, DataField, DataType, RowType
from support.data_files import options, read, write
from support.rows import nested_fields, nested_rows, scalar_fields, scalar_rows

ID = DataField(0, "id", AtomicType("INT"))


def foreign(table: pa.Table, **more: object) -> bytes:
    out = io.BytesIO()
    pq.write_table(table, out, **more)
    return out.getvalue()


def field(name: str, text: str) -> DataField:
    return DataField(7, name, AtomicType(text))


def test_physical_forms_are_java_s() -> None:
    fields = scalar_fields()
    data, _ = write("parquet", [scalar_rows(fields)], fields)
    schema = pq.read_metadata(io.BytesIO(data)).schema
    forms = {str(f.type): (schema.column(n).physical_type, schema.column(n).logical_type) for n, f in enumerate(fields)}
    assert {text: form[0] for text, form in forms.items() if text.startswith("DECIMAL")} == {
        "DECIMAL(5, 2)": "INT32",
        "DECIMAL(18, 6)": "INT64",
        "DECIMAL(38, 10)": "FIXED_LEN_BYTE_ARRAY",
    }
    assert forms["TIME(3)"][0] == "INT32"
    assert "isAdjustedToUTC=true" in str(forms["TIME(3)"][1])
    assert {text: form[0] for text, form in forms.items() if text.startswith("TIMESTAMP")} == {
        "TIMESTAMP(3)": "INT64",
        "TIMESTAMP(6)": "INT64",
        "TIMESTAMP(9)": "INT96",
        "TIMESTAMP(3) WITH LOCAL TIME ZONE": "INT64",
        "TIMESTAMP(6) WITH LOCAL TIME ZONE": "INT64",
        "TIMESTAMP(9) WITH LOCAL TIME ZONE": "INT96",
    }
    assert "isAdjustedToUTC=false, timeUnit=microseconds" in str(forms["TIMESTAMP(6)"][1])
    assert "isAdjustedToUTC=true, timeUnit=microseconds" in str(forms["TIMESTAMP(6) WITH LOCAL TIME ZONE"][1])
    assert (schema.column(0).max_definition_level, schema.column(1).max_definition_level) == (0, 1)
    assert "field_id=1 c1" in str(schema)


def test_ids_stand_on_every_level() -> None:
    fields = nested_fields()
    data, _ = write("parquet", [nested_rows(fields)], fields)
    text = str(pq.read_metadata(io.BytesIO(data)).schema)
    for expected in (
        f"field_id={536870911 + 1024 + 1} element",
        f"field_id={536870911 - 3 * 1024 - 1} key",
        "field_id=101 x",
    ):
        assert expected in text


def test_everybody_finds_the_same_footer() -> None:
    fields = scalar_fields()
    rows = scalar_rows(fields)
    data, _ = write("parquet", [rows, rows], fields)
    assert data.count(b"LWSEAL01") == 1
    assert pq.read_table(io.BytesIO(data)).num_rows == 8
    assert pq.ParquetFile(io.BytesIO(data)).read(["id"]).column(0).to_pylist() == [1, 2, 3, 4] * 2


def test_big_tables_become_several_row_groups() -> None:
    table = pa.table({"id": pa.array(range(10_000), pa.int32())})
    data, _ = write("parquet", [table], [ID], options([ID], row_group_bytes=10_000))
    assert pq.read_metadata(io.BytesIO(data)).num_row_groups == 4
    assert read("parquet", data, [ID])[0].equals(table)


def test_large_row_groups_are_streamed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakewright.formats.parquet_reader._DECODED_BYTES", 50_000)
    monkeypatch.setattr("lakewright.formats.parquet_reader.SINGLE_READ_BYTES", 0)
    monkeypatch.setattr("lakewright.formats.parquet_reader._TAIL_BYTES", 100)
    rng = np.random.default_rng(1)
    table = pa.table({"id": pa.array(rng.integers(0, 1 << 30, 100_000), pa.int32())})
    data, _ = write("parquet", [table], [ID], options([ID], page_bytes=10_000))
    assert read("parquet", data, [ID])[0].combine_chunks().equals(table)
    reader = open_reader("parquet", io.BytesIO(data), path="p", size=len(data), fields=[ID])
    assert len(list(reader.batches())) > 5
    for at in range(30, 50):  # the header of the first page, as it passes by
        damaged = bytearray(data)
        damaged[at] ^= 4
        with contextlib.suppress(CorruptTableError):
            assert read("parquet", bytes(damaged), [ID])[0].combine_chunks().equals(table)


@pytest.mark.parametrize("rows", [3_000, 20_000])
def test_a_dictionary_only_where_it_pays(rows: int) -> None:
    rng = np.random.default_rng(1)
    table = pa.table(
        {
            "few": pa.array(rng.integers(0, 100, rows)),
            "many": pa.array(rng.integers(0, 1 << 60, rows)),
            "text": pa.array([str(n) for n in range(rows)]),
            "word": pa.array([f"word {n % 500}" for n in range(rows)]),
            "neighbours": pa.array(np.arange(rows) // 8),
            "flag": pa.array([n % 2 == 0 for n in range(rows)]),
            "list": pa.array([[n, -n - 1] for n in range(rows)]),
            "row": pa.array([{"a": n % 3, "b": n} for n in range(rows)]),
            "none": pa.nulls(rows, pa.int32()),
            "seldom": pa.array([n % 3 if n % 50 == 0 else None for n in range(rows)]),
        }
    )
    assert dictionary_columns(table) == ["few", "word", "neighbours", "row.a", "seldom"]


@pytest.mark.parametrize(("distinct", "want"), [(1_000, True), (30_000, True), (150_000, False), (1 << 40, False)])
def test_a_sample_foretells_how_large_a_dictionary_becomes(distinct: int, want: bool) -> None:
    values = np.random.default_rng(2).integers(0, distinct, 400_000)
    assert bool(dictionary_columns(pa.table({"n": values}))) == want


@pytest.mark.parametrize(("frequent", "want"), [(0.02, False), (0.3, False), (0.9, True)])
def test_one_frequent_value_does_not_make_a_dictionary_of_all_others(frequent: float, want: bool) -> None:
    rng = np.random.default_rng(3)
    values = np.where(rng.random(100_000) < frequent, 0.0, rng.random(100_000))
    assert bool(dictionary_columns(pa.table({"n": values}))) == want


@pytest.mark.parametrize(
    ("arrow", "text", "want"),
    [
        (pa.array([5], pa.int64()), "INT", 5),
        (pa.array([5], pa.int32()), "BIGINT", 5),
        (pa.array([5], pa.uint8()), "TINYINT", 5),
        (pa.array([1.5], pa.float64()), "FLOAT", 1.5),
        (pa.array(["x"], pa.large_string()), "STRING", "x"),
        (pa.array([b"x"], pa.binary()), "STRING", "x"),
        (pa.array(["x"]).dictionary_encode(), "STRING", "x"),
        (pa.array([b"ab"], pa.binary(2)), "BINARY(2)", b"ab"),
        (pa.array([Decimal("1.50")], pa.decimal128(20, 2)), "DECIMAL(5, 2)", Decimal("1.50")),
        (pa.array([1999], pa.timestamp("us")), "TIMESTAMP(3)", datetime(1970, 1, 1, 0, 0, 0, 1000)),  # noqa: DTZ001
        (pa.array([-1], pa.timestamp("us")), "TIMESTAMP(3)", datetime(1969, 12, 31, 23, 59, 59, 999000)),  # noqa: DTZ001
        (pa.array([1], pa.timestamp("ms")), "TIMESTAMP(6)", datetime(1970, 1, 1, 0, 0, 0, 1000)),  # noqa: DTZ001
    ],
)
def test_widths_and_units_of_others(arrow: pa.Array, text: str, want: object) -> None:
    data = foreign(pa.table({"c": arrow}))
    got = read("parquet", data, [field("c", text)])[0]
    assert got["c"].to_pylist() == [want]


def test_foreign_96_bit_timestamps_are_read() -> None:
    wanted = [field("c", "TIMESTAMP(9) WITH LOCAL TIME ZONE")]
    near = pa.table({"c": pa.array([1_700_000_000_123_456, None], pa.timestamp("us"))})
    got = read("parquet", foreign(near, use_deprecated_int96_timestamps=True), wanted)[0]
    assert got["c"].type == pa.timestamp("ns", "UTC")
    assert got["c"].cast(pa.int64()).to_pylist() == [1_700_000_000_123_456_000, None]
    far = pa.table({"c": pa.array([253_402_300_799_000_000, 0], pa.timestamp("us"))})
    with pytest.raises(UnsupportedError, match="'c'"):
        read("parquet", foreign(far, use_deprecated_int96_timestamps=True), wanted)


def test_foreign_lists_of_two_levels_are_read() -> None:
    data = foreign(pa.table({"c": pa.array([[1, 2], [], None])}), use_compliant_nested_type=False)
    dtype: DataType = ArrayType(True, AtomicType("BIGINT"))  # noqa: FBT003
    assert read("parquet", data, [DataField(1, "c", dtype)])[0]["c"].to_pylist() == [[1, 2], [], None]


def test_what_a_foreign_file_lacks_is_null() -> None:
    data = foreign(pa.table({"r": pa.array([{"a": 1}, None])}))
    row = RowType(True, [DataField(2, "a", AtomicType("BIGINT")), DataField(3, "b", AtomicType("STRING"))])  # noqa: FBT003
    other = RowType(True, [DataField(3, "b", AtomicType("STRING"))])  # noqa: FBT003
    fields = [DataField(1, "r", row), field("x", "INT")]
    assert read("parquet", data, fields)[0].to_pylist() == [
        {"r": {"a": 1, "b": None}, "x": None},
        {"r": None, "x": None},
    ]
    assert read("parquet", data, [DataField(1, "r", other)])[0].to_pylist() == [{"r": {"b": None}}, {"r": None}]
    assert read("parquet", data, [field("x", "INT")])[0].to_pylist() == [{"x": None}, {"x": None}]
    assert read("parquet", foreign(pa.table({"x": pa.array([], pa.int32())})), [field("x", "INT")])[1] == []


def test_what_a_sealed_file_lacks_is_damage() -> None:
    data, _ = write("parquet", [pa.table({"id": pa.array([1], pa.int32())})], [ID])
    with pytest.raises(CorruptTableError, match="'other'"):
        read("parquet", data, [field("other", "INT")])
    with pytest.raises(CorruptTableError, match="'id'"):
        read("parquet", data, [DataField(0, "id", AtomicType("STRING"))])


class Failing(io.BytesIO):
    def read(self, size: int | None = -1, /) -> bytes:  # noqa: ARG002
        raise TimeoutError("the store is gone")


def test_errors_of_the_storage_stay_what_they_are() -> None:
    with pytest.raises(TimeoutError):
        open_reader("parquet", Failing(b"x" * 100), path="p", size=100, fields=[ID])


@pytest.mark.parametrize(
    ("text", "values", "condition"),
    [
        ("INT", list(range(90)), ("greater_than", 65)),
        ("BIGINT", list(range(90)), ("equal", 5)),
        ("STRING", [f"k{n:03}" for n in range(90)], ("between", "k010", "k020")),
        ("DECIMAL(5, 2)", [Decimal(n) for n in range(90)], ("less_than", Decimal(12))),
        ("DECIMAL(38, 2)", [Decimal(n) for n in range(90)], ("less_than", Decimal(12))),
        ("TIMESTAMP(3)", list(range(90)), ("greater_than", datetime(1970, 1, 1, 0, 0, 0, 70_000))),  # noqa: DTZ001
        ("TIMESTAMP(6)", list(range(90)), ("less_than", np.datetime64(7, "us"))),
        ("DATE", list(range(90)), ("is_in", ["1970-01-05"])),
        ("DOUBLE", [float(n) for n in range(90)], ("greater_or_equal", 80.0)),
        ("BOOLEAN", [n < 30 for n in range(90)], ("equal", True)),
        ("BYTES", [bytes([n]) for n in range(90)], ("greater_than", bytes([62]))),
    ],
)
def test_row_groups_are_skipped_and_positions_stay(text: str, values: list[Any], condition: tuple[Any, ...]) -> None:
    fields = [ID, field("c", text)]
    schema = to_arrow_schema(fields)
    table = pa.table([pa.array(range(90), pa.int32()), pa.array(values, schema.field("c").type)], schema=schema)
    data, _ = write("parquet", [table.slice(n, 30) for n in (0, 30, 60)], fields)
    skip = getattr(PredicateBuilder(fields), condition[0])("c", *condition[1:])
    got, positions = read("parquet", data, fields, skip=skip)
    assert len(positions) == 30
    assert got["id"].to_pylist() == positions
    wanted = pc.filter(table["id"], skip.mask(table)).to_pylist()
    assert wanted
    assert set(wanted) <= set(positions)


def scattered(matches: set[int], padding: int = 0) -> tuple[pa.Table, list[DataField], Predicate]:
    """Return rows whose statistics never help: row groups of ten, a filter, and a match in some of the groups."""
    fields = [ID, field("c", "INT"), field("other", "STRING")]
    values = [5 if n % 10 == 3 and n // 10 in matches else (n % 2) * 10 for n in range(200)]
    others = [str(n) + "x" * padding for n in range(200)]
    columns = [pa.array(range(200), pa.int32()), pa.array(values, pa.int32()), pa.array(others)]
    return pa.table(columns, schema=to_arrow_schema(fields)), fields, PredicateBuilder(fields).equal("c", 5)


@pytest.mark.parametrize("padding", [0, 20_000], ids=["in memory", "from a file"])
def test_row_groups_without_a_match_are_left_out(padding: int) -> None:
    table, fields, skip = scattered({7, 8, 19}, padding)
    given = options(fields, compression="none", dictionary=False)
    data, _ = write("parquet", [table.slice(n, 10) for n in range(0, 200, 10)], fields, given)
    got, positions = read("parquet", data, fields, skip=skip)
    assert positions == [*range(70, 90), *range(190, 200)]
    assert got.equals(table.take(positions))
    # The column of the filter comes first and alone, and its pages are checked as well.
    start = pq.read_metadata(io.BytesIO(data)).row_group(19).column(1).data_page_offset
    for at in range(start, start + 60):
        with contextlib.suppress(CorruptTableError):
            damaged = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
            assert read("parquet", damaged, fields, skip=skip)[0].equals(got)


@pytest.mark.parametrize("batch_rows", [1, 7, 50, 99])
@pytest.mark.parametrize("padding", [0, 20_000], ids=["in memory", "from a file"])
def test_columns_of_a_filter_come_with_batches_smaller_than_a_row_group(batch_rows: int, padding: int) -> None:
    """The columns of the filter are decoded first, and the others in batches of a few rows."""
    table, fields, skip = scattered({7, 8, 19}, padding)
    for data in (foreign(table, row_group_size=100), write("parquet", [table.slice(0, 100), table], fields)[0]):
        got, positions = read("parquet", data, fields, skip=skip, batch_rows=batch_rows)
        whole, _ = read("parquet", data, fields)
        assert positions == list(range(whole.num_rows))
        assert got.equals(whole)


def test_a_filter_that_matches_everywhere_is_not_asked_twice() -> None:
    table, fields, skip = scattered(set(range(4, 20)))
    data, _ = write("parquet", [table.slice(n, 10) for n in range(0, 200, 10)], fields)
    got, positions = read("parquet", data, fields, skip=skip)
    assert positions == list(range(40, 200))
    assert got.equals(table.slice(40))
    late = scattered({18, 19})[0]
    mixed = [table.slice(100, 50), late]
    data, _ = write("parquet", [part.slice(n, 10) for part in mixed for n in range(0, part.num_rows, 10)], fields)
    got, positions = read("parquet", data, fields, skip=skip)
    assert {*range(50), 233, 243} <= set(positions)
    assert len(positions) == 250  # after so many matches nobody looks any more
    assert got.equals(pa.concat_tables(mixed))


def test_nothing_is_skipped_on_unclear_statistics() -> None:
    fields = [field("c", "DOUBLE")]
    table = pa.table({"c": [float("nan"), 1.0]})
    data, _ = write("parquet", [table], fields)
    builder = PredicateBuilder(fields)
    assert read("parquet", data, fields, skip=builder.not_equal("c", 1.0))[1] == [0, 1]
    unsigned = foreign(pa.table({"c": pa.array([2**31 + 5], pa.uint32())}))
    wide = [field("c", "BIGINT")]
    assert read("parquet", unsigned, wide, skip=PredicateBuilder(wide).equal("c", 2**31 + 5))[1] == [0]
    without = foreign(pa.table({"c": [5]}), write_statistics=False)
    assert read("parquet", without, wide, skip=PredicateBuilder(wide).equal("c", 1))[1] == [0]


def test_after_plain_pages_no_page_refers_to_the_dictionary() -> None:
    """Where the dictionary grew too large the pages after it are plain, so one that says otherwise is damaged."""
    many = pa.table({"n": np.random.default_rng(0).permutation(250_000).astype(np.int64)})
    data = foreign(many, write_page_checksum=True, compression="none", data_page_size=100_000, row_group_size=250_000)
    chunk = parquet_footer.ColumnChunk.of(pq.read_metadata(io.BytesIO(data)).row_group(0).column(0))
    stored = bytearray(data[chunk.start : chunk.start + chunk.byte_count])
    parquet_footer.check_pages(bytes(stored), chunk)
    found, at = [], 0
    while at < len(stored):
        found.append(parquet_footer._page(bytes(stored), at))
        at = found[-1].start + found[-1].byte_count
    assert [page.encoding for page in found[-2:]] == [0, 0]
    # The encoding stands in front of those of levels; what follows depends on the release of Arrow.
    stored[stored.rindex(b"\x15\x00\x15\x06\x15\x06", 0, found[-1].start) + 1] ^= 0x10
    with pytest.raises(ValueError, match="an encoding that cannot be right"):
        parquet_footer.check_pages(bytes(stored), chunk)
