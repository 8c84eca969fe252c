"""Rows in equal rows in the files that the messages name, whatever their shape, number and size."""

from __future__ import annotations

import errno
import pickle
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from lakewright.commit.commit_message import CommitMessage
from lakewright.commit.table_commit import BatchTableCommit
from lakewright.errors import InvalidInputError
from lakewright.metadata.table_store import TableStore
from lakewright.spec.bucket_hash import bucket_ids
from lakewright.spec.column_stats import column_stats, field_stats, parse_stats_mode
from lakewright.spec.manifest import APPEND, EMPTY_ROW, DataFile
from lakewright.storage.local_storage import LocalStorage
from lakewright.storage.storage import Output
from lakewright.write import write_buffer as buffer_module
from lakewright.write.table_writer import TableWriter, WriteJob
from support.write_tables import data_files, new_store, paths, written

SCHEMA = pa.schema({"k": pa.int64(), "s": pa.string(), "p": pa.string()})


def table(rows: int, parts: int = 1, first: int = 0) -> pa.Table:
    numbers = np.arange(first, first + rows)
    columns = {"k": numbers, "s": [f"text {i % 97}" for i in numbers], "p": [f"p{i % parts}" for i in numbers]}
    return pa.table(columns, schema=SCHEMA)


def write_once(store: TableStore, *data: object, **job: object) -> list[CommitMessage]:
    with WriteJob.new(store, **job).open_writer() as writer:  # type: ignore[arg-type]
        for part in data:
            writer.write(part)  # type: ignore[arg-type]
        return writer.prepare()


def files(messages: list[CommitMessage]) -> list[DataFile]:
    return [file for message in messages for file in message.new_files]


def test_a_small_write_is_one_file_with_all_its_facts(tmp_path: Path) -> None:
    store = new_store(tmp_path, SCHEMA)
    writer = TableWriter(WriteJob.new(store, write_id="w-1"), task=3, attempt=2, clock_ms=lambda: 77)
    writer.write(table(10))
    (message,) = writer.prepare()
    writer.close()
    (file,) = message.new_files
    assert file.file_name == "data-w-1-3-2-0.parquet"
    assert file.file_size == Path(paths(store, [message])[0]).stat().st_size
    assert (file.row_count, file.level, file.delete_row_count, file.file_source) == (10, 0, 0, APPEND)
    assert (file.min_sequence_number, file.max_sequence_number) == (0, 9)
    assert (file.min_key, file.max_key) == (EMPTY_ROW, EMPTY_ROW)
    assert (file.creation_time, file.schema_id, file.write_cols, file.first_row_id) == (77, 0, None, None)
    assert (message.partition_bytes, message.bucket, message.total_buckets, message.rows_in) == (EMPTY_ROW, 0, None, 10)
    assert (message.table, message.write_id, message.attempt) == (store.identity, "w-1", "3-2")
    assert CommitMessage.deserialize(message.serialize()) == message
    assert written(store, [message]).equals(table(10))


def test_rows_land_in_their_partitions(tmp_path: Path) -> None:
    store = new_store(tmp_path, SCHEMA, ["p"])
    data = table(1000, parts=7)
    messages = write_once(store, data)
    assert [m.partition for m in messages] == [(f"p{i}",) for i in range(7)]
    for message in messages:
        rows = written(store, [message])
        assert rows.equals(data.filter(pc.equal(data["p"], message.partition[0])))
        assert f"/p={message.partition[0]}/bucket-0/" in paths(store, [message])[0]


def test_fixed_buckets_keep_order_and_hold_only_their_rows(tmp_path: Path) -> None:
    options = {"bucket": "4", "bucket-key": "k", "target-file-row-num": "50"}
    store = new_store(tmp_path, SCHEMA, [], options)
    data = table(1000)
    messages = write_once(store, *(data.slice(i, 100) for i in range(0, 1000, 100)))
    expected = bucket_ids([data["k"].combine_chunks()], [store.schema.field("k").type], function="default", buckets=4)
    assert {m.bucket for m in messages} == {0, 1, 2, 3}
    for message in messages:
        assert message.total_buckets == 4
        assert written(store, [message]).equals(data.filter(pa.array(expected == message.bucket)))
        ranges = [(f.min_sequence_number, f.max_sequence_number) for f in message.new_files]
        assert ranges[0][0] == 0
        assert all(nxt[0] == last[1] + 1 for last, nxt in pairwise(ranges))


def test_sequence_numbers_of_a_bucket_continue_after_a_commit(tmp_path: Path) -> None:
    store = new_store(tmp_path, SCHEMA, ["p"], {"bucket": "2", "bucket-key": "k"})
    first = write_once(store, table(100, parts=2))
    BatchTableCommit(store).commit(first)
    ends = {(m.partition_bytes, m.bucket): m.new_files[-1].max_sequence_number for m in first}
    for message in write_once(store, table(100, parts=3, first=50)):
        start = message.new_files[0].min_sequence_number
        assert start == ends.get((message.partition_bytes, message.bucket), -1) + 1
    for message in write_once(store, table(100, parts=2), overwrite=True):
        assert message.new_files[0].min_sequence_number == 0


def test_partitions_that_appear_later_are_looked_up_too(tmp_path: Path) -> None:
    store = new_store(tmp_path, SCHEMA, ["p"], {"bucket": "1", "bucket-key": "k", "write-buffer-size": "1 kb"})
    BatchTableCommit(store).commit(write_once(store, table(100, parts=2)))
    with WriteJob.new(store).open_writer() as writer:
        for part in ("p0", "p1", "p2"):
            writer.write(pa.table({"k": [1], "s": ["x"], "p": [part]}), bucket=0)
        starts = [m.new_files[0].min_sequence_number for m in writer.prepare()]
    assert starts == [50, 50, 0]


def test_another_bucket_count_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    store = new_store(tmp_path, SCHEMA, [], {"bucket": "2", "bucket-key": "k"})
    BatchTableCommit(store).commit(write_once(store, table(100)))
    before = data_files(tmp_path)
    changed = store.with_schema(store.schema.with_options({"bucket": "3"}))
    with pytest.raises(InvalidInputError, match=r"2 buckets.*overwrite"):
        write_once(changed, table(100))
    assert data_files(tmp_path) == before
    assert {m.total_buckets for m in write_once(changed, table(100), overwrite=True)} == {3}


def test_row_tracking_leaves_the_numbers_to_the_commit(tmp_path: Path) -> None:
    store = new_store(tmp_path, SCHEMA, [], {"row-tracking.enabled": "true"})
    (file,) = files(write_once(store, table(10)))
    assert (file.min_sequence_number, file.max_sequence_number, file.first_row_id) == (0, 0, None)


def test_partial_columns_are_filled_or_left_to_data_evolution(tmp_path: Path) -> None:
    data = pa.table({"k": [1, 2], "s": ["a", "b"]})
    store = new_store(tmp_path / "plain", SCHEMA)
    messages = write_once(store, data, write_cols=["k", "s"])
    assert files(messages)[0].write_cols is None
    assert written(store, messages)["p"].to_pylist() == [None, None]
    evolving = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
    store = new_store(tmp_path / "evolving", SCHEMA, [], evolving)
    messages = write_once(store, data.select(["s", "k"]), write_cols=["s", "k"])
    assert files(messages)[0].write_cols == ("k", "s")
    assert written(store, messages).column_names == ["k", "s"]
    with pytest.raises(InvalidInputError, match="'zz'"):
        WriteJob.new(store, write_cols=["zz"])
    with pytest.raises(InvalidInputError, match="once"):
        WriteJob.new(store, write_cols=["k", "k"])


def test_files_roll_by_rows(tmp_path: Path) -> None:
    store = new_store(tmp_path, SCHEMA, [], {"target-file-row-num": "300"})
    messages = write_once(store, table(1000))
    assert [f.row_count for f in files(messages)] == [300, 300, 300, 100]
    assert [(f.min_sequence_number, f.max_sequence_number) for f in files(messages)] == [
        (0, 299), (300, 599), (600, 899), (900, 999),
    ]  # fmt: skip
    assert written(store, messages).equals(table(1000))


def test_files_roll_by_bytes_on_disk(tmp_path: Path) -> None:
    store = new_store(tmp_path, SCHEMA, [], {"target-file-size": "100 kb"})
    data = pa.table(
        {"k": np.random.default_rng(1).integers(0, 2**60, 100_000), "s": ["x"] * 100_000, "p": ["y"] * 100_000}
    )
    messages = write_once(store, data)
    sizes = [f.file_size for f in files(messages)]
    assert len(sizes) > 4
    assert max(sizes) < 150_000
    assert min(sizes[:-1]) > 60_000
    assert written(store, messages).equals(data)


@pytest.mark.parametrize("mode", ["none", "counts", "full", "truncate(16)", "truncate(3)"])
@pytest.mark.parametrize("dense", ["true", "false"])
def test_statistics_equal_those_of_the_rows(tmp_path: Path, mode: str, dense: str) -> None:
    schema = pa.schema(
        {"i": pa.int32(), "t": pa.string(), "d": pa.float64(), "b": pa.bool_(), "l": pa.list_(pa.int32())}
    )
    options = {"metadata.stats-mode": mode, "metadata.stats-dense-store": dense, "target-file-row-num": "40"}
    store = new_store(tmp_path, schema, [], options)
    chance = random.Random(5)
    data = pa.table(
        {
            "i": pa.array([chance.choice([None, chance.randrange(-99, 99)]) for _ in range(100)], pa.int32()),
            "t": [chance.choice([None, "", "prefix " * 5 + str(chance.random()), "ÿ" * 20]) for _ in range(100)],
            "d": [chance.random() if i < 80 else float("nan") for i in range(100)],
            "b": pa.array([None] * 100, pa.bool_()),
            "l": pa.array([[1]] * 100, pa.list_(pa.int32())),
        }
    )
    messages = write_once(store, data)
    start = 0
    for file in files(messages):
        rows = data.slice(start, file.row_count)
        start += file.row_count
        assert (file.value_stats_cols is None) or dense == "true"
        for field in store.schema.fields[:4]:
            found = field_stats(file, field.name, store.schema.fields)
            wanted = column_stats(rows[field.name], field.type, parse_stats_mode(mode))
            if mode == "none":
                assert found is None or (found.min, found.max, found.null_count) == (None, None, None)
            else:
                assert found is not None
                assert (found.min, found.max, found.null_count) == (wanted.min, wanted.max, wanted.null_count)


@pytest.mark.parametrize("file_format", ["orc", "avro"])
def test_files_of_other_formats_are_written(tmp_path: Path, file_format: str) -> None:
    store = new_store(tmp_path, SCHEMA, ["p"], {"file.format": file_format})
    messages = write_once(store, table(100, parts=3))
    assert all(name.endswith(f".{file_format}") for name in paths(store, messages))
    assert sum(f.row_count for f in files(messages)) == 100


def test_names_carry_the_compression_when_asked(tmp_path: Path) -> None:
    options = {"file.suffix.include.compression": "true", "data-file.prefix": "part-"}
    (file,) = files(write_once(new_store(tmp_path, SCHEMA, [], options), table(3)))
    assert file.file_name.startswith("part-")
    assert file.file_name.endswith(".zst.parquet")


def test_a_prefix_cannot_leave_the_bucket(tmp_path: Path) -> None:
    store = new_store(tmp_path, SCHEMA, [], {"data-file.prefix": "../x-"})
    with pytest.raises(InvalidInputError, match="separator"):
        WriteJob.new(store).open_writer()


def test_names_are_unique_over_tasks_attempts_and_prepares(tmp_path: Path) -> None:
    store = new_store(tmp_path, SCHEMA, ["p"], {"target-file-row-num": "10"})
    job = WriteJob.new(store)
    names = []
    for task, attempt in ((0, 0), (0, 1), (1, 0)):
        with job.open_writer(task, attempt) as writer:
            for _ in range(2):
                writer.write(table(50, parts=3))
                names += [f.file_name for f in files(writer.prepare())]
    assert len(set(names)) == len(names) > 30


# ---- input kinds -----------------------------------------------------------------------------------------------------


class Streamable:
    """What polars, DuckDB and pandas look like from outside."""

    def __init__(self, data: pa.Table) -> None:
        self.data = data

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.data.__arrow_c_stream__(requested_schema)


class Arraylike:
    def __init__(self, batch: pa.RecordBatch) -> None:
        self.batch = batch

    def __arrow_c_array__(self, requested_schema: object | None = None) -> object:
        return self.batch.__arrow_c_array__(requested_schema)


KINDS: dict[str, Callable[[pa.Table], object]] = {
    "table": lambda t: t,
    "batch": lambda t: t.to_batches()[0],
    "reader": lambda t: t.to_reader(max_chunksize=7),
    "stream": Streamable,
    "array": lambda t: Arraylike(t.to_batches()[0]),
    "list": lambda t: t.to_batches(max_chunksize=9),
    "list-of-tables": lambda t: [t.slice(0, 10), t.slice(10)],
    "chunked": lambda t: pa.concat_tables([t.slice(0, 3), t.slice(3)]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_arrow_input_of_every_kind_is_written(tmp_path: Path, kind: str) -> None:
    store = new_store(tmp_path, SCHEMA, ["p"])
    messages = write_once(store, KINDS[kind](table(50, parts=2)))
    assert written(store, messages).sort_by("k").equals(table(50, parts=2))


@pytest.mark.parametrize("data", [None, 5, "text", {"k": 1}, object(), [1, 2], [[1]], b"bytes", pa.array([1, 2])])
def test_what_is_not_arrow_is_refused(tmp_path: Path, data: object) -> None:
    store = new_store(tmp_path, SCHEMA)
    with WriteJob.new(store).open_writer() as writer:
        with pytest.raises(InvalidInputError, match=r"db\.t"):
            writer.write(data)  # type: ignore[arg-type]
        writer.write(table(3))
        assert sum(f.row_count for f in files(writer.prepare())) == 3


def test_nothing_in_nothing_out(tmp_path: Path) -> None:
    store = new_store(tmp_path, SCHEMA, ["p"])
    assert write_once(store, table(0), SCHEMA.empty_table(), []) == []
    assert data_files(tmp_path) == []


def test_a_reader_is_never_materialised(tmp_path: Path) -> None:
    store = new_store(tmp_path, SCHEMA, ["p"], {"write-buffer-size": "8 mb"})
    alive = {"now": 0, "most": 0}

    def batches() -> Iterator[pa.RecordBatch]:
        batch = table(20_000, parts=50).to_batches()[0]
        for _ in range(100):
            alive["most"] = max(alive["most"], pa.total_allocated_bytes() - base)
            yield batch

    base = pa.total_allocated_bytes()
    messages = write_once(store, pa.RecordBatchReader.from_batches(SCHEMA, batches()))
    assert sum(f.row_count for f in files(messages)) == 2_000_000
    assert len(files(messages)) == 50
    assert alive["most"] < 24 << 20, alive  # about 60 MB went through
    facts = [pq.ParquetFile(path).metadata.num_row_groups for path in paths(store, messages)]
    assert max(facts) <= 2


def test_without_spilling_the_files_take_what_does_not_fit(tmp_path: Path) -> None:
    options = {"write-buffer-size": "2 mb", "write-buffer-spillable": "false"}
    store = new_store(tmp_path, SCHEMA, ["p"], options)
    data = [table(20_000, parts=20, first=i * 20_000) for i in range(10)]
    messages = write_once(store, *data)
    assert len(files(messages)) == 20
    assert written(store, messages).sort_by("k")["k"].to_pylist() == list(range(200_000))


@pytest.mark.parametrize("threads", ["1", "3"])
@pytest.mark.parametrize("buckets", [{}, {"bucket": "3", "bucket-key": "k"}])
def test_random_batches_over_a_tiny_budget(tmp_path: Path, threads: str, buckets: dict[str, str]) -> None:
    options = {
        "write-buffer-size": "1 mb",
        "lakewright.write-threads": threads,
        "target-file-size": "200 kb",
        **buckets,
    }
    store = new_store(tmp_path, SCHEMA, ["p"], options)
    chance = random.Random(11)
    parts, first = [], 0
    for _ in range(60):
        rows = chance.choice([0, 1, 10, 1000, 5000])
        parts.append(table(rows, parts=chance.choice([1, 3, 40]), first=first))
        first += rows
    messages = write_once(store, *parts)
    out = written(store, messages)
    whole = pa.concat_tables(parts)
    assert out.sort_by("k").equals(whole.combine_chunks())
    for message in messages:
        rows = written(store, [message])["k"].to_pylist()
        assert rows == sorted(rows)
    assert data_files(tmp_path) == sorted(Path(p) for p in paths(store, messages))


def test_threads_share_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffer_module, "ROW_GROUP_BYTES", 1 << 20)
    store = new_store(tmp_path, SCHEMA, [], {"lakewright.write-threads": "3", "write-buffer-size": "4 mb"})
    large = write_once(store, table(400_000))
    (file,) = files(large)
    assert written(store, large)["k"].to_pylist() == list(range(400_000))
    assert (file.min_sequence_number, file.max_sequence_number, file.row_count) == (0, 399_999, 400_000)
    assert pq.read_metadata(paths(store, large)[0]).num_row_groups > 3


def test_more_buckets_than_open_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffer_module, "OPEN_FILES_MAX", 4)
    monkeypatch.setattr(buffer_module, "_SPILLED_BYTES", 100_000)
    monkeypatch.setattr(buffer_module.BufferLimits.__init__, "__defaults__", (1, True, 4))
    store = new_store(tmp_path, SCHEMA, ["p"], {"write-buffer-size": "1 mb"})
    messages = write_once(store, *(table(20_000, parts=30, first=i * 20_000) for i in range(10)))
    assert written(store, messages).sort_by("k")["k"].to_pylist() == list(range(200_000))


# ---- failures --------------------------------------------------------------------------------------------------------


class FullOnClose:
    """A file whose last bytes do not fit on the disk."""

    def __init__(self, inner: Output) -> None:
        self._inner = inner

    @property
    def closed(self) -> bool:
        return self._inner.closed

    def write(self, data: bytes, /) -> int:
        return self._inner.write(data)

    def tell(self) -> int:
        return self._inner.tell()

    def flush(self) -> None:
        self._inner.flush()

    def close(self) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def discard(self) -> None:
        self._inner.discard()


@dataclass(frozen=True)
class Failing(LocalStorage):
    """A disk that is full from the n-th data file on, when that file is opened or when it is closed."""

    after: int = 0
    on_close: bool = False

    def open_output(self, path: str) -> Output:
        number = int(path.rpartition("-")[2].partition(".")[0])
        if number < self.after:
            return super().open_output(path)
        if self.on_close:
            return FullOnClose(super().open_output(path))
        raise OSError(errno.ENOSPC, "No space left on device", path)


@pytest.mark.parametrize("on_close", [False, True])
@pytest.mark.parametrize("threads", ["1", "2"])
def test_a_failed_write_names_the_file_and_leaves_none(tmp_path: Path, threads: str, on_close: bool) -> None:
    options = {"lakewright.write-threads": threads, "target-file-row-num": "100"}
    store = new_store(tmp_path, SCHEMA, ["p"], options, Failing(durable=False, after=5, on_close=on_close))
    writer = WriteJob.new(store).open_writer()
    writer.write(table(2000, parts=4))
    with pytest.raises(OSError, match="No space left") as caught:
        writer.prepare()
    assert "/bucket-0/data-" in str(caught.value.filename)
    with pytest.raises(OSError, match="No space left"):
        writer.write(table(1))
    writer.close()
    assert data_files(tmp_path) == []


def test_a_refused_batch_leaves_the_writer_as_it_was(tmp_path: Path) -> None:
    store = new_store(tmp_path, SCHEMA)
    with WriteJob.new(store).open_writer() as writer:
        writer.write(table(5))
        with pytest.raises(InvalidInputError, match="'k'"):
            writer.write(pa.table({"k": ["no number"]}))
        writer.write(table(5, first=5))
        assert written(store, writer.prepare()).equals(table(10))


def test_a_stream_that_fails_half_way_poisons_the_writer(tmp_path: Path) -> None:
    store = new_store(tmp_path, SCHEMA, [], {"write-buffer-size": "1 mb"})
    good, bad = table(50_000), pa.table({"k": ["x"], "s": ["y"], "p": ["z"]})
    writer = WriteJob.new(store).open_writer()
    with pytest.raises(InvalidInputError, match=r"'k'"):
        writer.write([good, bad])
    for call in (writer.prepare, lambda: writer.write(good)):
        with pytest.raises(InvalidInputError, match="write everything again"):
            call()
    writer.close()
    assert data_files(tmp_path) == []


def test_closing_removes_only_what_was_not_handed_out(tmp_path: Path) -> None:
    store = new_store(tmp_path, SCHEMA, [], {"target-file-row-num": "100"})
    writer = WriteJob.new(store).open_writer()
    writer.write(table(250))
    kept = paths(store, writer.prepare())
    writer.write(table(100_000, first=250))
    writer.close()
    writer.close()
    assert [str(p) for p in data_files(tmp_path)] == sorted(kept)
    with pytest.raises(InvalidInputError, match="closed"):
        writer.write(table(1))


def test_bad_partition_values_are_refused(tmp_path: Path) -> None:
    schema = pa.schema({"k": pa.int64(), "x": pa.float64()})
    store = new_store(tmp_path / "nan", schema, ["x"])
    with WriteJob.new(store).open_writer() as writer:
        with pytest.raises(InvalidInputError, match="NaN") as caught:
            writer.write(pa.table({"k": [1, 2], "x": [0.5, float("nan")]}))
        assert caught.value.column == "x"
        writer.write(pa.table({"k": [1, 2, 3], "x": [0.0, -0.0, None]}))
        assert len(writer.prepare()) == 3
    store = new_store(tmp_path / "long", SCHEMA, ["p"])
    with WriteJob.new(store).open_writer() as writer:
        writer.write(pa.table({"k": [1], "p": ["x" * 300]}))
        with pytest.raises(InvalidInputError, match="'p'"):
            writer.prepare()
    assert data_files(tmp_path / "long") == []


@pytest.mark.parametrize(
    "value", ["", " ", None, "a/b", "..", "../../x", "a=b", "ü😀", "a\x00b", "a%b", "__DEFAULT_PARTITION__", "'\"{}[]"]
)
def test_odd_partition_values_stay_inside_the_table(tmp_path: Path, value: str | None) -> None:
    store = new_store(tmp_path / "t", SCHEMA, ["p"])
    messages = write_once(store, pa.table({"k": [1], "s": ["x"], "p": pa.array([value], pa.string())}))
    assert messages[0].partition == (value,)
    (path,) = paths(store, messages)
    assert Path(path).resolve().is_relative_to((tmp_path / "t").resolve())
    assert written(store, messages)["p"].to_pylist() == [value]


@pytest.mark.processes
def test_a_job_works_in_another_process(tmp_path: Path) -> None:
    store = new_store(tmp_path / "t", SCHEMA, ["p"])
    job = WriteJob.new(store)
    (tmp_path / "job").write_bytes(pickle.dumps(job))
    script = (
        "import pickle, sys, pyarrow as pa\n"
        "job = pickle.load(open(sys.argv[1] + '/job', 'rb'))\n"
        "with job.open_writer(task=9) as writer:\n"
        "    writer.write(pa.table({'k': [1, 2], 's': ['a', 'b'], 'p': ['x', 'y']}))\n"
        "    messages = [m.serialize() for m in writer.prepare()]\n"
        "pickle.dump(messages, open(sys.argv[1] + '/messages', 'wb'))\n"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True)
    frames = pickle.loads((tmp_path / "messages").read_bytes())  # noqa: S301 - our own bytes
    messages = [CommitMessage.deserialize(frame) for frame in frames]
    assert {m.write_id for m in messages} == {job.write_id}
    assert all("-9-0-" in f.file_name for f in files(messages))
    assert BatchTableCommit(store).commit(messages).rows == 2


def test_identity_tells_tables_apart(tmp_path: Path) -> None:
    one, two = new_store(tmp_path / "one", SCHEMA), new_store(tmp_path / "two", SCHEMA)
    assert len(one.identity) == 64
    assert one.identity == one.with_schema(one.schema.with_options({"write-only": "true"})).identity
    assert one.identity != two.identity
