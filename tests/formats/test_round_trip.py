"""Rows of every type come back as they went in, in every format."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from lakewright.errors import InvalidInputError, UnsupportedError
from lakewright.formats.file_format import WriteOptions
from lakewright.formats.format_registry import file_format_of, open_reader, open_writer
from lakewright.spec.arrow_types import to_arrow_schema
from lakewright.spec.column_stats import COUNTS, FULL, NONE, ColumnStats, parse_stats_mode
from lakewright.spec.scalars import to_array
from lakewright.spec.table_options import TableOptions
from lakewright.spec.types import ArrayType, AtomicType, DataField, DataType, MapType, MultisetType, RowType
from support.data_files import FORMATS, MemoryOutput, options, read, write
from support.effort import examples
from support.rows import NANOSECONDS, nested_fields, nested_rows, scalar_fields, scalar_rows
from support.values import nested_types, values_of

CODECS = [("parquet", c) for c in ("zstd", "snappy", "gzip", "lz4", "none")]
CODECS += [("orc", c) for c in ("zstd", "snappy", "zlib", "lz4", "none")]
CODECS += [("avro", c) for c in ("zstd", "snappy", "deflate", "null")]


def _leaves(dtype: DataType) -> list[AtomicType]:
    match dtype:
        case AtomicType():
            return [dtype]
        case RowType():
            return [leaf for field in dtype.fields for leaf in _leaves(field.type)]
        case MapType():
            return _leaves(dtype.key) + _leaves(dtype.value)
        case ArrayType() | MultisetType():
            return _leaves(dtype.element)
        case _:
            raise AssertionError(dtype)


def _fits(file_format: str, dtype: DataType) -> bool:
    """Say whether a format holds a type as it is: CHAR loses blanks in ORC, Avro ends at microseconds."""
    leaves = _leaves(dtype)
    if file_format == "orc":
        return all(leaf.root != "CHAR" for leaf in leaves)
    return file_format != "avro" or all(leaf.precision <= 6 or leaf.root == "DECIMAL" for leaf in leaves)


def _has_double_keys(value: Any) -> bool:  # noqa: ANN401
    if isinstance(value, list):
        keys = [repr(item[0]) for item in value if isinstance(item, tuple)]
        return len(set(keys)) < len(keys) or any(map(_has_double_keys, value))
    return isinstance(value, tuple) and any(map(_has_double_keys, value))


def _without_early_fractions(value: Any, dtype: DataType) -> Any:  # noqa: ANN401
    """Move times before 1970 to whole seconds: Arrow's ORC writes no others that everybody reads."""
    if value is None:
        return None
    match dtype:
        case AtomicType() if dtype.root.startswith("TIMESTAMP") and value < 0:
            return value - value % 10**9
        case ArrayType():
            return [_without_early_fractions(item, dtype.element) for item in value]
        case MapType():
            parts = (dtype.key, dtype.value)
            return [tuple(map(_without_early_fractions, pair, parts)) for pair in value]
        case MultisetType():
            return [(_without_early_fractions(key, dtype.element), count) for key, count in value]
        case RowType():
            return tuple(_without_early_fractions(v, f.type) for v, f in zip(value, dtype.fields, strict=True))
        case _:
            return value


@pytest.mark.parametrize("file_format", FORMATS)
@settings(max_examples=examples(100), derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_rows_of_any_types_come_back(file_format: str, data: st.DataObject) -> None:
    types = data.draw(st.lists(nested_types().filter(lambda t: _fits(file_format, t)), min_size=1, max_size=4))
    fields = [DataField(n, f"c{n}", dtype) for n, dtype in enumerate(types)]
    count = data.draw(st.integers(1, 12))
    columns = [data.draw(st.lists(values_of(t), min_size=count, max_size=count)) for t in types]
    assume(file_format != "avro" or not any(map(_has_double_keys, columns)))  # an Avro map has each key once
    schema = to_arrow_schema(fields)
    if file_format == "orc":
        columns = [[_without_early_fractions(v, t) for v in c] for c, t in zip(columns, types, strict=True)]
    table = pa.table([to_array(c, t) for c, t in zip(columns, types, strict=True)], schema=schema)
    cut = data.draw(st.integers(0, count))
    written, facts = write(file_format, [table.slice(0, cut), table.slice(cut)], fields)
    got, _ = read(file_format, written, fields, batch_rows=data.draw(st.sampled_from([None, 1, 5])))
    assert got.schema.equals(schema)
    got.validate(full=True)
    assert got.equals(table)
    assert facts.row_count == count
    assert [s and s.null_count for s in facts.stats] == [c.null_count for c in table.columns]


@pytest.mark.parametrize(("file_format", "codec"), CODECS)
def test_rows_survive_every_codec(file_format: str, codec: str) -> None:
    skip = {"avro": NANOSECONDS, "orc": ("TIMESTAMP(6)",)}.get(file_format, ())
    for fields, rows in (
        (scalar_fields(skip), scalar_rows(scalar_fields(skip))),
        (nested_fields(multiset=True), nested_rows(nested_fields(multiset=True))),
    ):
        data, _ = write(file_format, [rows], fields, options(fields, compression=codec))
        assert read(file_format, data, fields)[0].equals(rows)


@pytest.mark.parametrize("file_format", FORMATS)
def test_a_file_without_rows_is_read(file_format: str) -> None:
    fields = nested_fields()
    data, facts = write(file_format, [], fields)
    reader = open_reader(file_format, _source(data), path="p", size=len(data), fields=fields)
    assert (reader.row_count, list(reader.batches()), facts.row_count) == (0, [], 0)


def _source(data: bytes) -> Any:  # noqa: ANN401
    return pa.BufferReader(data)


@pytest.mark.parametrize("file_format", FORMATS)
def test_parts_of_rows_are_read_alone(file_format: str) -> None:
    fields = nested_fields()
    data, _ = write(file_format, [nested_rows(fields)], fields)
    number, text = AtomicType("INT"), AtomicType("STRING")
    pruned = [
        DataField(5, "n5", ArrayType(True, RowType(True, [DataField(102, "y", text)]))),  # noqa: FBT003
        DataField(4, "n4", RowType(True, [DataField(101, "x", number)])),  # noqa: FBT003
    ]
    got, _ = read(file_format, data, pruned)
    assert got.schema.equals(to_arrow_schema(pruned))
    assert got["n4"].to_pylist() == [None, {"x": None}, {"x": 1}, {"x": -1}]
    assert got["n5"].to_pylist() == [None, [], [{"y": "one"}, None, {"y": "two"}], [{"y": None}]]


@pytest.mark.parametrize("file_format", FORMATS)
def test_no_columns_are_still_rows(file_format: str) -> None:
    fields = scalar_fields(("TIMESTAMP(6)", *NANOSECONDS))
    data, _ = write(file_format, [scalar_rows(fields)], fields)
    reader = open_reader(file_format, _source(data), path="p", size=len(data), fields=[])
    assert [(first, batch.num_rows, batch.num_columns) for first, batch in reader.batches()] == [(0, 4, 0)]


@pytest.mark.parametrize("file_format", FORMATS)
def test_columns_may_have_dots_in_their_names(file_format: str) -> None:
    inner = RowType(True, [DataField(2, "b", AtomicType("INT"))])  # noqa: FBT003
    fields = [DataField(0, "a.b", AtomicType("STRING")), DataField(1, "a", inner)]
    table = pa.table([pa.array(["x"]), pa.array([{"b": 7}], pa.struct({"b": pa.int32()}))], names=["a.b", "a"])
    if file_format == "avro":
        with pytest.raises(UnsupportedError, match=r"'a\.b'"):
            write(file_format, [table], fields)
        return
    data, _ = write(file_format, [table], fields)
    assert read(file_format, data, fields[:1])[0].to_pylist() == [{"a.b": "x"}]
    assert read(file_format, data, fields[1:])[0].to_pylist() == [{"a": {"b": 7}}]


@pytest.mark.parametrize("file_format", FORMATS)
def test_statistics_follow_their_modes(file_format: str) -> None:
    text = AtomicType("STRING")
    fields = [DataField(n, f"c{n}", dtype) for n, dtype in enumerate([text, text, text, AtomicType("DOUBLE"), text])]
    given = WriteOptions(stats=(parse_stats_mode("truncate(3)"), FULL, COUNTS, FULL, NONE))
    words = pa.array(["abcdef", None, "abzzzz"])
    first = pa.table([words, words, words, pa.array([1.0, 0.0, None]), words], schema=to_arrow_schema(fields))
    second = pa.table([words, words, words, pa.array([math.nan, 5.0, 2.0]), words], schema=to_arrow_schema(fields))
    _, facts = write(file_format, [first], fields, given)
    assert facts.stats == (
        ColumnStats("abc", "ab{", 1),
        ColumnStats("abcdef", "abzzzz", 1),
        ColumnStats(None, None, 1),
        ColumnStats(-0.0, 1.0, 1),
        None,
    )
    _, facts = write(file_format, [first, second], fields, given)
    assert facts.stats[3] == ColumnStats(None, None, 1)  # NaN leaves no bounds
    assert facts.stats[0] == ColumnStats("abc", "ab{", 2)


@pytest.mark.parametrize("file_format", FORMATS)
def test_a_writer_refuses_nulls_and_foreign_rows(file_format: str) -> None:
    fields = [DataField(0, "id", AtomicType("INT", nullable=False))]
    output = MemoryOutput()
    writer = open_writer(file_format, output, fields, options(fields))
    with pytest.raises(InvalidInputError, match="'id' is NOT NULL"):
        writer.write(pa.table([pa.array([1, None], pa.int32())], schema=to_arrow_schema(fields)))
    with pytest.raises(InvalidInputError, match="schema"):
        writer.write(pa.table({"id": [1]}))
    writer.discard()
    assert output.discarded
    assert output.data is None
    with pytest.raises(InvalidInputError, match="lzma"):
        open_writer(file_format, MemoryOutput(), fields, options(fields, compression="lzma"))


def test_the_size_grows_with_the_rows() -> None:
    fields = [DataField(0, "id", AtomicType("BIGINT"))]
    for file_format in ("parquet", "avro"):
        writer = open_writer(file_format, MemoryOutput(), fields, options(fields))
        writer.write(pa.table({"id": pa.array(range(1000), pa.int64())}))
        before = writer.tell()
        writer.write(pa.table({"id": pa.array(range(1000), pa.int64())}))
        assert 0 < before < writer.tell()


def test_formats_are_told_by_names() -> None:
    assert file_format_of("data-1.zst.parquet") == "parquet"
    assert file_format_of("data-1.avro.gz") == "avro"
    for name in ("data-1.csv", "data-1", "data-1.blob", "data-1.zst"):
        with pytest.raises(UnsupportedError, match=name):
            file_format_of(name)
    with pytest.raises(UnsupportedError, match="csv"):
        open_writer("csv", MemoryOutput(), [], WriteOptions(()))
    with pytest.raises(UnsupportedError, match="csv"):
        open_reader("csv", _source(b""), path="p", size=0, fields=[])


def test_options_of_a_table_say_how_files_are_written() -> None:
    fields = [
        DataField(1073741823, "_KEY_a", AtomicType("INT")),
        DataField(0, "a", AtomicType("INT")),
        DataField(1, "b", AtomicType("STRING")),
        DataField(2, "c", AtomicType("STRING")),
    ]
    given = WriteOptions.from_table_options(
        TableOptions.from_dict(
            {
                "metadata.stats-keep-first-n-columns": "2",
                "fields.b.stats-mode": "full",
                "file.compression": "snappy",
                "file.compression.per.level": "5:gzip",
                "parquet.block.size": "1 mb",
                "parquet.enable.dictionary": "false",
            }
        ),
        fields,
        level=5,
    )
    assert [str(mode) for mode in given.stats] == ["truncate(128)", "truncate(16)", "full", "none"]
    assert (given.compression, given.row_group_bytes, given.dictionary) == ("gzip", 1 << 20, False)
