"""Upserts, deletes and overwrites of primary-key tables, from the builder to the rows that a read returns."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakewright as lw
from lakewright.commit.commit_message import CommitMessage, snapshot_key
from lakewright.errors import InvalidInputError, UnsupportedError
from lakewright.metadata.table_store import TableStore
from lakewright.spec.binary_row import decode_row
from lakewright.spec.bucket_hash import bucket_ids
from lakewright.spec.manifest import APPEND, DataFile
from lakewright.spec.system_columns import KIND_NAMES
from lakewright.spec.types import AtomicType
from lakewright.write.table_writer import WriteJob

COLUMNS = pa.schema({"k": pa.int64(), "v": pa.string()})


def new_table(
    root: Path,
    columns: pa.Schema = COLUMNS,
    keys: Sequence[str] = ("k",),
    partition_keys: Sequence[str] = (),
    **options: object,
) -> lw.FileStoreTable:
    """Make a table whose level 0 nobody compacts."""
    stored = {name.replace("__", ".").replace("_", "-"): str(value) for name, value in options.items()}
    catalog = lw.CatalogFactory.create({"warehouse": str(root)})
    catalog.create_database("d", ignore_if_exists=True)
    wish = lw.Schema.from_pyarrow_schema(
        columns,
        primary_keys=list(keys),
        partition_keys=list(partition_keys),
        options={"bucket": "1", "write-only": "true", "lakewright.durable": "false", **stored},
    )
    catalog.create_table("d.t", wish)
    return catalog.get_table("d.t")


def data(rows: Mapping[int, str | None]) -> pa.Table:
    return pa.table({"k": list(rows), "v": list(rows.values())}, schema=COLUMNS)


def read(table: lw.FileStoreTable) -> dict[int, str | None]:
    rows = lw.read_table(table).to_pylist()
    found = {row["k"]: row["v"] for row in rows}
    assert len(found) == len(rows), "a key came twice"
    return found


def write(table: lw.FileStoreTable, rows: object, **more: Any) -> list[CommitMessage]:  # noqa: ANN401
    builder = table.new_batch_write_builder()
    with builder.new_write() as writer, builder.new_commit() as commit:
        writer.write_arrow(rows, **more)  # type: ignore[arg-type]
        messages = writer.prepare_commit()
        commit.commit(messages)
        return messages


def files(messages: Sequence[CommitMessage]) -> list[DataFile]:
    return [file for message in messages for file in message.new_files]


def stored(store: TableStore, message: CommitMessage) -> pa.Table:
    directory = store.partition_directory(message.partition_bytes)
    paths = [store.layout.data_file(directory, message.bucket, file) for file in message.new_files]
    return pa.concat_tables([pq.ParquetFile(path).read() for path in paths])


def test_rows_of_a_key_replace_each_other(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    result = lw.write_table(pa.table({"k": [3, 1, 3], "v": ["a", "b", "c"]}), table)
    assert (result.snapshot_id, result.rows, result.files) == (1, 2, 1)
    assert read(table) == {1: "b", 3: "c"}
    lw.write_table(data({1: None, 2: "d"}), table, "upsert")
    assert read(table) == {1: None, 2: "d", 3: "c"}
    assert lw.write_table(pa.table({"k": [1, 9]}), table, "delete").rows == 2
    assert read(table) == {2: "d", 3: "c"}
    lw.write_table(data({7: "x"}), table, "overwrite")
    assert read(table) == {7: "x"}


def test_files_of_a_write_have_the_numbers_and_keys_of_their_rows(tmp_path: Path) -> None:
    table = new_table(tmp_path, bucket=2)
    store = table.store
    first = write(table, data({k: str(k) for k in range(10)}))
    assert [m.bucket for m in first] == [1, 0]  # in the order in which the buckets first get rows
    assert {m.base_snapshot for m in first} == {snapshot_key(None)}
    kinds = ["+I", "-D", "+U", "-U"] * 3
    second = write(table, pa.table({"k": list(range(12)), "v": ["w"] * 12}), row_kinds=kinds)
    assert {m.base_snapshot for m in second} == {snapshot_key(store.snapshots.get(1))}
    keys = [field.type for field in store.schema.trimmed_primary_key_fields]
    for message in second:
        rows, (file,) = stored(store, message), message.new_files
        mine = rows["k"].to_pylist()
        assert mine == sorted(mine)
        assert [KIND_NAMES[kind] for kind in rows["_VALUE_KIND"].to_pylist()] == [kinds[k] for k in mine]
        before = next(m for m in first if m.bucket == message.bucket).new_files[0]
        assert file.min_sequence_number == before.max_sequence_number + 1
        assert file.max_sequence_number - file.min_sequence_number == file.row_count - 1
        assert (decode_row(file.min_key, keys), decode_row(file.max_key, keys)) == ((mine[0],), (mine[-1],))
        assert file.delete_row_count == sum(kinds[k] in {"-U", "-D"} for k in mine)
        assert (file.level, file.file_source, message.total_buckets, message.rows_in) == (0, APPEND, 2, len(mine))
    assert read(table) == {k: "w" for k in range(12) if kinds[k] in {"+I", "+U"}}


@pytest.mark.parametrize("function", ["default", "mod", "hive"])
def test_rows_go_where_the_bucket_function_says(tmp_path: Path, function: str) -> None:
    table = new_table(tmp_path, bucket=4, bucket_function__type=function)
    numbers = list(range(-50, 50))
    messages = write(table, pa.table({"k": numbers, "v": [""] * 100}))
    field = table.store.schema.field("k")
    wanted = bucket_ids([pa.array(numbers)], [field.type], function=function, buckets=4)
    found = {k: m.bucket for m in messages for k in stored(table.store, m)["k"].to_pylist()}
    assert [found[k] for k in numbers] == wanted.tolist()
    assert sum(f.row_count for f in files(messages)) == 100


def test_numbers_count_every_row_that_came(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    (message,) = write(table, pa.table({"k": [1, 1, 1, 2], "v": ["a", "b", "c", "d"]}))
    assert stored(table.store, message)["_SEQUENCE_NUMBER"].to_pylist() == [2, 3]
    assert message.rows_in == 4
    (message,) = write(table, data({5: "e"}))
    assert (message.new_files[0].min_sequence_number, read(table)[5]) == (4, "e")


def test_an_overwrite_starts_from_nothing(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    write(table, data(dict.fromkeys(range(5), "a")))
    builder = table.new_batch_write_builder().overwrite()
    with builder.new_write() as writer, builder.new_commit() as commit:
        messages = writer.write_arrow(data({1: "b", 2: "c"})).prepare_commit()
        commit.commit(messages)
    (file,) = files(messages)
    assert (file.min_sequence_number, messages[0].base_snapshot) == (0, None)
    assert read(table) == {1: "b", 2: "c"}


def test_partitions_have_keys_of_their_own(tmp_path: Path) -> None:
    columns = pa.schema({"p": pa.string(), "k": pa.int64(), "v": pa.string()})
    table = new_table(tmp_path, columns, ["p", "k"], ["p"])
    lw.write_table(pa.table({"p": ["x", "y", "x"], "k": [1, 1, 2], "v": ["a", "b", "c"]}), table)
    lw.write_table(pa.table({"p": ["x"], "k": [1], "v": ["d"]}), table)
    lw.write_table(pa.table({"p": ["x"], "k": [2]}), table, "delete")
    rows = {(row["p"], row["k"]): row["v"] for row in lw.read_table(table).to_pylist()}
    assert rows == {("x", 1): "d", ("y", 1): "b"}
    with pytest.raises(InvalidInputError, match="'p'"):
        lw.write_table(pa.table({"k": [2]}), table, "delete")


def test_a_stream_writer_goes_on_counting(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    builder = table.new_stream_write_builder()
    with builder.new_write() as writer, builder.new_commit() as commit:
        writer.write_arrow(data({1: "a", 2: "a"}))
        first = writer.prepare_commit(1)
        writer.write_arrow(data({1: "b"}))
        second = writer.prepare_commit(2)  # before the first is committed
        assert (files(second)[0].min_sequence_number, writer.prepare_commit(3)) == (2, [])
        commit.commit(first, 1)
        commit.commit(second, 2)
        write(table, data(dict.fromkeys(range(100), "other")))
        writer.delete_arrow(pa.table({"k": [2]}))
        third = writer.prepare_commit(4)
        assert files(third)[0].min_sequence_number == 103
        commit.commit(third, 4)
    found = read(table)
    assert (found[1], 2 in found, len(found)) == ("other", False, 99)


def test_an_input_changelog_tells_every_row(tmp_path: Path) -> None:
    table = new_table(tmp_path, changelog_producer="input", changelog_file__format="avro")
    rows = pa.table({"k": [1, 1, 2, 1], "v": ["a", "b", "c", "d"], "_row_kind": ["+I", "-U", "+I", "+U"]})
    (message,) = write(table, rows)
    (changelog,) = message.changelog_files
    assert (changelog.row_count, changelog.delete_row_count, changelog.level) == (4, 1, 0)
    assert changelog.file_name.startswith("changelog-")
    assert changelog.file_name.endswith(".avro")
    assert message.new_files[0].row_count == 2
    snapshot = table.store.snapshots.latest()
    assert snapshot is not None
    assert snapshot.changelog_record_count == 4
    builder = table.new_batch_write_builder().overwrite()
    with builder.new_write() as writer:
        (message,) = writer.write_arrow(data({1: "x"})).prepare_commit()
    assert message.changelog_files == ()


def test_columns_left_out_are_null(tmp_path: Path) -> None:
    columns = pa.schema({"k": pa.int64(), "a": pa.string(), "b": pa.string()})
    table = new_table(tmp_path, columns, merge_engine="partial-update")
    lw.write_table(pa.table({"k": [1], "a": ["x"], "b": ["y"]}), table)
    builder = table.new_batch_write_builder()
    with builder.new_write() as writer, builder.new_commit() as commit:
        writer.with_write_type(["k", "b"]).write_arrow(pa.table({"k": [1, 2], "b": ["z", "z"]}))
        commit.commit(writer.prepare_commit())
    assert sorted(lw.read_table(table).to_pylist(), key=lambda row: row["k"]) == [
        {"k": 1, "a": "x", "b": "z"},
        {"k": 2, "a": None, "b": "z"},
    ]
    with builder.new_write() as writer, pytest.raises(InvalidInputError, match="key column 'k'"):
        writer.with_write_type(["a"])


def test_columns_that_cannot_be_null_are_needed(tmp_path: Path) -> None:
    columns = pa.schema([pa.field("k", pa.int64()), pa.field("a", pa.string(), nullable=False)])
    table = new_table(tmp_path, columns, merge_engine="partial-update")
    with table.new_batch_write_builder().new_write() as writer, pytest.raises(InvalidInputError, match="'a'"):
        writer.with_write_type(["k"]).write_arrow(pa.table({"k": [1]}))
    lw.write_table(pa.table({"k": [1], "a": ["x"]}), table)


def test_another_bucket_count_is_refused(tmp_path: Path) -> None:
    table = new_table(tmp_path, bucket=2)
    write(table, data(dict.fromkeys(range(10), "")))
    with pytest.raises(InvalidInputError, match=r"has 2 buckets.*rescale"):
        write(table.copy({"bucket": "3"}), data({1: ""}))


def test_what_cannot_be_written_is_refused_before_any_row(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    for options in (
        {"pk-clustering-override": "true"},
        {"sequence.snapshot-ordering": "true", "write-only": "false"},
        {"merge-engine": "aggregation", "fields.v.aggregate-function": "no_such_function"},
    ):
        store = table.store.with_schema(table.store.schema.with_options(options))
        with pytest.raises((UnsupportedError, InvalidInputError)):
            WriteJob.new(store)


def test_append_tables_have_no_upserts(tmp_path: Path) -> None:
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d", ignore_if_exists=True)
    catalog.create_table("d.a", lw.Schema.from_pyarrow_schema(COLUMNS))
    table = catalog.get_table("d.a")
    for mode in ("upsert", "delete"):
        with pytest.raises(UnsupportedError, match="primary key"):
            lw.write_table(data({1: "a"}), table, mode)
    with table.new_batch_write_builder().new_write() as writer, pytest.raises(InvalidInputError, match="primary key"):
        writer.delete_arrow(pa.table({"k": [1]}))


def test_a_refused_call_leaves_the_writer_as_it_was(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    builder = table.new_batch_write_builder()
    with builder.new_write() as writer, builder.new_commit() as commit:
        writer.write_arrow(data({1: "a"}))
        for bad, kinds in [
            (pa.table({"k": [None], "v": ["x"]}, schema=COLUMNS), None),
            (data({2: "b"}), ["+I", "+I"]),
            (data({2: "b"}), "upsert"),
        ]:
            with pytest.raises(InvalidInputError):
                writer.write_arrow(bad, row_kinds=kinds)
        commit.commit(writer.prepare_commit())
    assert read(table) == {1: "a"}


def test_merging_schemas_leaves_the_kinds_out(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    rows = pa.table({"k": [1], "v": ["a"], "w": ["b"], "_row_kind": ["+I"]})
    lw.write_table(rows, table, schema_mode="merge")
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    assert catalog.get_table("d.t").field_names == ["k", "v", "w"]


def test_pandas_frames_are_upserts(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    table = new_table(tmp_path)
    builder = table.new_batch_write_builder()
    with builder.new_write() as writer, builder.new_commit() as commit:
        writer.write_pandas(pandas.DataFrame({"k": [1, 1], "v": ["a", "b"]}))
        commit.commit(writer.prepare_commit())
    assert read(table) == {1: "b"}


def test_an_aborted_write_leaves_no_file(tmp_path: Path) -> None:
    table = new_table(tmp_path, write_buffer_size="1 mb", write_buffer_spillable="false", changelog_producer="input")
    with table.new_batch_write_builder().new_write() as writer:
        for start in range(0, 200_000, 20_000):
            numbers = np.arange(start, start + 20_000)
            writer.write_arrow(pa.table({"k": numbers, "v": pa.repeat("x" * 20, 20_000)}))
        assert list(tmp_path.rglob("bucket-*/*.parquet"))
    assert list(tmp_path.rglob("bucket-*/*.parquet")) == []


@pytest.mark.parametrize("spillable", ["true", "false"])
def test_more_rows_than_fit_in_memory_are_written(tmp_path: Path, spillable: str) -> None:
    table = new_table(tmp_path, bucket=3, write_buffer_size="1 mb", write_buffer_spillable=spillable)
    chance = random.Random(5)
    builder = table.new_batch_write_builder()
    model: dict[int, str | None] = {}
    with builder.new_write() as writer, builder.new_commit() as commit:
        for part in range(15):
            keys = chance.sample(range(15_000), 3_000)
            writer.write_arrow(data({k: f"value {part} of {k}" for k in keys}))
            model |= {k: f"value {part} of {k}" for k in keys}
            gone = chance.sample(keys, 50)
            writer.delete_arrow(pa.table({"k": gone}))
            model = {k: v for k, v in model.items() if k not in set(gone)}
        messages = writer.prepare_commit()
        commit.commit(messages)
    counts = {m.bucket: len(m.new_files) for m in messages}
    assert set(counts.values()) == {1} if spillable == "true" else min(counts.values()) > 1
    assert sum(m.rows_in or 0 for m in messages) == 15 * 3_050
    assert read(table) == model


def test_rows_that_were_lost_on_their_way_are_not_forgotten(tmp_path: Path) -> None:
    table = new_table(tmp_path, bucket=2)
    write(table, data(dict.fromkeys(range(10), "")))
    with table.copy({"bucket": "3"}).new_batch_write_builder().new_write() as writer:
        writer.write_arrow(data({1: "a"}))  # staged
        with pytest.raises(InvalidInputError, match="2 buckets"):
            writer.write_arrow(data({2: "b"}), bucket=0)
        with pytest.raises(InvalidInputError, match="write everything again"):
            writer.prepare_commit()


def test_the_same_rows_make_the_same_files(tmp_path: Path) -> None:
    """Which thread is first must not show: compaction picks by size, and a seed is to replay a run."""
    keys = pa.array(range(4_000))
    buckets = bucket_ids([keys], [AtomicType("BIGINT")], function="default", buckets=4)
    # Texts repeat in two buckets, which get a dictionary, and never in the others.
    texts = [f"text {0 if bucket < 2 else key}" for key, bucket in enumerate(buckets.tolist())]
    contents = []
    for turn in range(12):
        table = new_table(tmp_path / str(turn), bucket=4)
        write(table, pa.table({"k": keys, "v": texts}, schema=COLUMNS))
        contents.append(sorted(path.read_bytes() for path in Path(table.table_path).rglob("*.parquet")))
    assert len(contents[0]) == 4
    assert all(files == contents[0] for files in contents)


@pytest.mark.parametrize(
    "options",
    [
        {"file.format": "orc", "file.format.per.level": "0:avro"},
        {"file.format.per.level": "3:orc"},
        {"changelog-producer": "lookup", "changelog-file.format": "orc"},
        {"file.format": "orc", "bucket": "-2"},
    ],
)
def test_rows_that_a_file_of_a_later_level_cannot_hold_are_refused_by_the_write(
    tmp_path: Path, options: dict[str, str]
) -> None:
    columns = pa.schema({"k": pa.int64(), "ts": pa.timestamp("us")})
    table = new_table(tmp_path, columns, **options)
    early = pa.array([datetime(1969, 12, 31, 23, 59, 59, 500000)], pa.timestamp("us"))  # noqa: DTZ001 - no zone
    with pytest.raises(UnsupportedError, match="'ts' of the rows to write has times before 1970"):
        lw.write_table(pa.table({"k": [1], "ts": early}, schema=columns), table)
    assert table.snapshot() is None


def test_a_compression_of_changelog_files_must_fit_their_format(tmp_path: Path) -> None:
    options = {"changelog-file.format": "avro", "changelog-file.compression": "lz4"}
    with pytest.raises(InvalidInputError, match="cannot be 'lz4': avro files take"):
        new_table(tmp_path, **options)
