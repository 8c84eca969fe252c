"""Facts of the format for tests: data files, entries, and hypothesis strategies of both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from hypothesis import strategies as st

from lakewright.metadata.manifest_records import RecordEncoder, Schema
from lakewright.spec.binary_row import encode_row
from lakewright.spec.manifest import (
    ADD,
    DELETION_VECTORS,
    EMPTY_ROW,
    EMPTY_STATS,
    HASH,
    DataFile,
    DeletionRange,
    GlobalIndex,
    IndexFile,
    ManifestEntry,
    SimpleStats,
)
from lakewright.spec.types import AtomicType, Value

LONGS = st.integers(-(2**63), 2**63 - 1)
NATURALS = st.integers(0, 2**63 - 1)
NAMES = st.from_regex(r"[a-z]{1,8}-[0-9]{1,4}\.parquet", fullmatch=True)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


def data_file(name: str = "data-0.parquet", level: int = 0, rows: int = 3, schema_id: int = 0) -> DataFile:
    """Return a plain data file of an append table."""
    return DataFile(
        file_name=name,
        file_size=1000,
        row_count=rows,
        min_key=EMPTY_ROW,
        max_key=EMPTY_ROW,
        key_stats=EMPTY_STATS,
        value_stats=EMPTY_STATS,
        min_sequence_number=0,
        max_sequence_number=rows - 1,
        schema_id=schema_id,
        level=level,
        extra_files=(),
        creation_time=1_700_000_000_000,
        delete_row_count=0,
        embedded_file_index=None,
        file_source=0,
        value_stats_cols=(),
        external_path=None,
        first_row_id=None,
        write_cols=None,
    )


def entry(
    name: str, *, kind: int = ADD, partition: bytes = EMPTY_ROW, bucket: int = 0, level: int = 0
) -> ManifestEntry:
    """Return an entry of a table with one bucket."""
    return ManifestEntry(kind, partition, bucket, 1, data_file(name, level))


def encode_records(schema: Schema, records: Iterable[Mapping[str, object]], compression: str) -> bytes:
    """Return an Avro file with these records, sealed."""
    encoder = RecordEncoder(schema, compression)
    for record in records:
        encoder.add(record)
    return encoder.finish()


def text_partition(value: Value) -> bytes:
    """Return the partition row of a table with one STRING partition column."""
    return encode_row([value], [AtomicType("STRING")])


def stats() -> st.SearchStrategy[SimpleStats]:
    """Return bounds and null counts that need not fit any row."""
    counts = st.lists(st.none() | NATURALS, max_size=4).map(tuple)
    return st.builds(SimpleStats, st.binary(max_size=30), st.binary(max_size=30), counts)


def data_files() -> st.SearchStrategy[DataFile]:
    """Return data files with every field that a file of ours can have."""
    return st.builds(
        DataFile,
        file_name=NAMES,
        file_size=NATURALS,
        row_count=NATURALS,
        min_key=st.binary(max_size=30),
        max_key=st.binary(max_size=30),
        key_stats=stats(),
        value_stats=stats(),
        min_sequence_number=LONGS,
        max_sequence_number=LONGS,
        schema_id=NATURALS,
        level=st.integers(0, 2**31 - 1),
        extra_files=st.lists(NAMES, max_size=3).map(tuple),
        creation_time=st.integers(0, 2**41),
        delete_row_count=st.none() | NATURALS,
        embedded_file_index=st.none() | st.binary(max_size=20),
        file_source=st.none() | st.integers(0, 1),
        value_stats_cols=st.none() | st.lists(TEXTS, max_size=3).map(tuple),
        external_path=st.none(),
        first_row_id=st.none() | NATURALS,
        write_cols=st.none() | st.lists(TEXTS, max_size=3).map(tuple),
        write_cols_sequences=st.none() | st.lists(LONGS, max_size=3).map(tuple),
    )


def index_files() -> st.SearchStrategy[IndexFile]:
    """Return index files of every kind."""
    ints = st.integers(0, 2**31 - 1)
    plain = st.builds(IndexFile, st.just(HASH), NAMES, NATURALS, NATURALS)
    ranges = st.lists(st.builds(DeletionRange, NAMES, ints, ints, st.none() | NATURALS), max_size=3).map(tuple)
    vectors = st.builds(IndexFile, st.just(DELETION_VECTORS), NAMES, NATURALS, NATURALS, st.none() | ranges)
    blobs = st.none() | st.binary(max_size=12)
    extra = st.none() | st.lists(ints, max_size=3).map(tuple)
    whole = st.builds(GlobalIndex, NATURALS, NATURALS, ints, extra, blobs, blobs)
    return plain | vectors | st.builds(replace, plain, global_index=whole)
