"""The doors that users of pypaimon know: builders, writers, commits."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakewright.errors import InvalidInputError
from lakewright.metadata.table_store import TableStore
from lakewright.table.write_builder import BatchWriteBuilder, StreamWriteBuilder
from support.write_tables import data_files, new_store, paths, written

SCHEMA = pa.schema({"k": pa.int64(), "p": pa.string()})


def rows(*keys: int, p: str = "a") -> pa.Table:
    return pa.table({"k": list(keys), "p": [p] * len(keys)}, schema=SCHEMA)


def live(store: TableStore) -> list[int]:
    """Return the keys of the newest snapshot."""
    snapshot = store.snapshots.latest()
    assert snapshot is not None
    keys: list[int] = []
    for entry in store.manifests.live(snapshot):
        directory = store.partition_directory(entry.partition)
        path = store.layout.data_file(directory, entry.bucket, entry.file)
        keys += pq.ParquetFile(path).read()["k"].to_pylist()
    return sorted(keys)


def test_batch_write_and_commit(tmp_path: Path) -> None:
    store = new_store(tmp_path, SCHEMA)
    builder = BatchWriteBuilder(store)
    with builder.new_write() as write, builder.new_commit() as commit:
        write.write_arrow(rows(1, 2)).write_arrow_batch(rows(3).to_batches()[0]).write_pandas(pd.DataFrame({"k": [4]}))
        result = commit.commit(write.prepare_commit())
    assert (result.rows, result.files, result.snapshot_id) == (4, 1, 1)
    assert live(store) == [1, 2, 3, 4]


def test_a_batch_write_is_prepared_once(tmp_path: Path) -> None:
    write = BatchWriteBuilder(new_store(tmp_path, SCHEMA)).new_write()
    assert write.prepare_commit() == []
    for call in (write.prepare_commit, lambda: write.write_arrow(rows(1))):
        with pytest.raises(InvalidInputError, match="prepared"):
            call()
    write.close()


@pytest.mark.parametrize("word", ["overwrite", "with_overwrite"])
def test_a_builder_overwrites_a_partition_or_the_table(tmp_path: Path, word: str) -> None:
    store = new_store(tmp_path, SCHEMA, ["p"], {"dynamic-partition-overwrite": "false"})
    for data, spec in (
        (rows(1, 2, p="a"), None),
        (rows(3, p="b"), None),
        (rows(4, p="a"), {"p": "a"}),
        (rows(5, p="b"), {"p": "b"}),
    ):
        builder = BatchWriteBuilder(store)
        if spec is not None:
            getattr(builder, word)(spec)
        with builder.new_write() as write, builder.new_commit() as commit:
            write.write_arrow(data)
            commit.commit(write.prepare_commit())
    assert live(store) == [4, 5]


def test_stream_writes_are_prepared_again_and_again(tmp_path: Path) -> None:
    store = new_store(tmp_path, SCHEMA, ["p"], {"bucket": "2", "bucket-key": "k"})
    builder = StreamWriteBuilder(store).with_commit_user("job-7")
    with builder.new_write() as write, builder.new_commit() as commit:
        for identifier in (1, 2, 5):
            write.write_arrow(rows(*range(identifier * 10, identifier * 10 + 5)))
            commit.commit(write.prepare_commit(identifier), identifier)
        with pytest.raises(InvalidInputError, match="follow"):
            write.prepare_commit(5)
        assert commit.filter_and_commit({5: [], 6: write.prepare_commit(6)}) == 1
    snapshot = store.snapshots.latest()
    assert snapshot is not None
    assert (snapshot.commit_user, snapshot.commit_identifier) == (builder.commit_user, 6)
    assert live(store) == [*range(10, 15), *range(20, 25), *range(50, 55)]
    by_bucket: dict[int, list[tuple[int, int]]] = {}
    for entry in store.manifests.live(snapshot):
        span = (entry.file.min_sequence_number, entry.file.max_sequence_number)
        by_bucket.setdefault(entry.bucket, []).append(span)
    for spans in by_bucket.values():
        ordered = sorted(spans)
        assert all(low > last for (_, last), (low, _) in pairwise(ordered))


def test_closing_without_commit_leaves_handed_out_files_only(tmp_path: Path) -> None:
    store = new_store(tmp_path, SCHEMA, [], {"target-file-row-num": "1"})
    with StreamWriteBuilder(store).new_write() as write:
        write.write_arrow(rows(1, 2))
        messages = write.prepare_commit(1)
        write.write_arrow(rows(3, 4))
    assert [str(p) for p in data_files(tmp_path)] == sorted(paths(store, messages))
    with pytest.raises(InvalidInputError, match="closed"):
        write.write_arrow(rows(5))


def test_abort_removes_what_was_prepared(tmp_path: Path) -> None:
    store = new_store(tmp_path, SCHEMA)
    builder = BatchWriteBuilder(store)
    with builder.new_write() as write, builder.new_commit() as commit:
        write.write_arrow(rows(1))
        messages = write.prepare_commit()
        assert len(data_files(tmp_path)) == 1
        commit.abort(messages)
    assert data_files(tmp_path) == []


def test_explicit_buckets(tmp_path: Path) -> None:
    store = new_store(tmp_path, SCHEMA, [], {"bucket": "3", "bucket-key": "k"})
    with BatchWriteBuilder(store).new_write() as write:
        write.write_arrow(rows(1, 2), bucket=2).write_arrow_batch(rows(3).to_batches()[0], 0)
        for wrong in (3, -1):
            with pytest.raises(InvalidInputError, match="0 to 2"):
                write.write_arrow(rows(4), bucket=wrong)
        messages = write.prepare_commit()
    assert {m.bucket: written(store, [m])["k"].to_pylist() for m in messages} == {2: [1, 2], 0: [3]}


def test_append_tables_take_inserts_only(tmp_path: Path) -> None:
    with BatchWriteBuilder(new_store(tmp_path, SCHEMA)).new_write() as write:
        write.write_arrow(rows(1, 2), row_kinds=["+I", "+I"])
        write.write_arrow(rows(3), row_kinds=pa.array([0], pa.int8()))
        for kinds in (["-D"], "-U", [3], pa.array(["+U"])):
            with pytest.raises(InvalidInputError, match="inserts"):
                write.write_arrow(rows(4), row_kinds=kinds)
        assert sum(m.rows_in or 0 for m in write.prepare_commit()) == 3


def test_with_write_type(tmp_path: Path) -> None:
    store = new_store(tmp_path, SCHEMA)
    with BatchWriteBuilder(store).new_write() as write:
        write.with_write_type(["k"]).write_arrow(pa.table({"k": [1]}))
        with pytest.raises(InvalidInputError, match="before the first write"):
            write.with_write_type(["p"])
        with pytest.raises(InvalidInputError, match="'p'"):
            write.write_arrow(rows(1))
        assert written(store, write.prepare_commit()).to_pylist() == [{"k": 1, "p": None}]


def test_pandas_frames(tmp_path: Path) -> None:
    store = new_store(tmp_path, SCHEMA)
    frame = pd.DataFrame({"p": ["x", None, "z"], "k": [1.0, float("nan"), 3.0]}, index=[7, 8, 9])
    with BatchWriteBuilder(store).new_write() as write:
        write.write_pandas(frame)
        with pytest.raises(InvalidInputError, match=r"db\.t"):
            write.write_pandas(pd.DataFrame({"k": [1, "x"]}))
        with pytest.raises(InvalidInputError, match=r"db\.t"):
            write.write_pandas([1, 2])  # type: ignore[arg-type]
        assert written(store, write.prepare_commit())["k"].to_pylist() == [1, None, 3]


def test_other_libraries(tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    duckdb = pytest.importorskip("duckdb")
    store = new_store(tmp_path, SCHEMA)
    with BatchWriteBuilder(store).new_write() as write:
        write.write_arrow(polars.DataFrame({"k": [1], "p": ["x"]}))
        write.write_arrow(duckdb.sql("select 2::int as k, 'y' as p"))
        assert written(store, write.prepare_commit())["k"].to_pylist() == [1, 2]
