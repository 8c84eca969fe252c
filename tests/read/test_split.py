"""Splits as bytes: whole, cut, changed and foreign."""

from __future__ import annotations

import pickle
import random
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lakewright as lw
from lakewright.errors import InvalidMessageError, LakewrightError, UnsupportedError
from lakewright.read.data_split import DataSplit, DeletionFile, Row
from lakewright.spec.binary_row import encode_row
from lakewright.spec.java_encoding import from_modified_utf8, modified_utf8
from lakewright.spec.types import AtomicType
from support.effort import examples
from support.facts import TEXTS, data_file, data_files
from support.java_splits import from_java, to_java

TYPES = (AtomicType("STRING"), AtomicType("DATE"))

splits = st.builds(
    lambda files, partition, bucket, raw: DataSplit(
        3,
        bucket,
        4,
        tuple(files),
        tuple(file.external_path or f"/t/bucket-{bucket}/{file.file_name}" for file in files),
        partition_bytes=encode_row(partition, TYPES),
        partition_types=TYPES,
        bucket_path=f"/t/bucket-{bucket}",
        raw_convertible=raw,
        deletion_files=tuple(DeletionFile("/t/index/i-\u00e4", n, 24, n or None) for n, _ in enumerate(files)),
    ),
    st.lists(data_files(), max_size=3),
    st.tuples(st.none() | TEXTS, st.none() | st.integers(-1000, 30000)),
    st.integers(0, 100),
    st.booleans(),
)


@settings(max_examples=examples(60))
@given(splits)
def test_splits_survive_bytes_pickle_and_java(split: DataSplit) -> None:
    assert DataSplit.deserialize(split.serialize()) == split
    assert pickle.loads(pickle.dumps(split)) == split  # noqa: S301
    assert from_java(to_java(split), TYPES) == split


def _example() -> DataSplit:
    row = encode_row(["x", 20000], TYPES)
    file = data_file()
    paths = ("/t/bucket-0/data-0.parquet",)
    return DataSplit(1, 0, -1, (file,), paths, row, TYPES, "/t/bucket-0", deletion_files=(DeletionFile("/i", 1, 2, 3),))


def test_partition_is_a_row_of_python_values() -> None:
    partition = _example().partition
    assert isinstance(partition, Row)
    assert partition.get_field(0) == "x"
    assert partition.values == list(partition)
    assert str(partition[1]) == "2024-10-04"
    assert _example().row_count == 3


@pytest.mark.parametrize("java", [False, True])
def test_damaged_bytes_are_refused_or_another_split(java: bool) -> None:
    """Our frame notices every flipped bit; Java's has no checksum, but never leads to any other error."""
    data = to_java(_example()) if java else _example().serialize()
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 1 << random.Random(at).randrange(8)
        for bad in (bytes(changed), data[:at]):
            if not java:
                with pytest.raises(InvalidMessageError):
                    DataSplit.deserialize(bad)
                continue
            try:
                from_java(bad, TYPES)
            except LakewrightError:
                continue


def test_row_ranges_and_newer_facts_do_not_fit_java_s_splits() -> None:
    cut = _example().slice_rows(1, 2)
    assert cut is not None
    assert DataSplit.deserialize(cut.serialize()) == cut
    with pytest.raises(UnsupportedError, match="row ranges"):
        to_java(cut)
    with pytest.raises(UnsupportedError, match="version 5"):
        to_java(_example(), version=5)
    old = replace(_example(), files=(replace(data_file(), write_cols_sequences=(1,)),))
    assert from_java(to_java(old, version=8), TYPES).files[0].write_cols_sequences is None


@given(st.text())
def test_modified_utf8_comes_back(text: str) -> None:
    assert from_modified_utf8(modified_utf8(text)) == text
    assert b"\0" not in modified_utf8(text)


def test_splits_and_schemas_are_shown_in_a_line(tmp_path: Path) -> None:
    rows = {"id": range(30), "day": ["a"] * 30, **{f"c{number}": range(30) for number in range(40)}}
    table = lw.create_table_from(rows, "d.t", catalog=tmp_path, partition_keys="day")
    (split,) = table.new_read_builder().new_scan().plan().splits()
    size = f"bytes={split.file_size}"
    assert repr(split) == (
        f"DataSplit({split.bucket_path!r}, partition=('a',), bucket=0, files=1, rows=30, {size}, snapshot=1)"
    )
    assert repr(replace(split, partition_bytes=b"x")).count("partition=b'x'") == 1
    shown = repr(table.schema)
    assert shown.startswith("TableSchema(id=0: id BIGINT, day STRING, c0 BIGINT,")
    assert shown.endswith("; and 22 more columns; partitioned by day)")
