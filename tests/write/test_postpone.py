"""Rows that wait for a bucket lie as they arrived; a batch may also go straight to real buckets."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest

from lakewright.commit.commit_message import CommitMessage
from lakewright.errors import InvalidInputError
from lakewright.formats.format_registry import open_reader
from lakewright.metadata.table_store import TableStore
from lakewright.spec.system_columns import stored_fields
from lakewright.table.write_builder import BatchWriteBuilder, PostponeFixedBucketWriteBuilder, StreamWriteBuilder
from lakewright.write.table_writer import WriteJob
from support.bucket_tables import committed, keyed_store, read_all
from support.read_tables import golden_store

SCHEMA = pa.schema([pa.field("p", pa.string()), pa.field("k", pa.int64()), pa.field("v", pa.string())])
NAME = re.compile(r"data--u-[0-9a-f-]{36}-s-(\d+)-w-[\w-]+-(\d+)\.avro")


def table(root: Path, schema: pa.Schema = SCHEMA, **options: str) -> TableStore:
    return keyed_store(root, schema, (["p", "k"], ["p"]), {"bucket": "-2", **options})


def rows(keys: list[int], partition: str = "a") -> pa.Table:
    return pa.table([[partition] * len(keys), keys, [str(k) for k in keys]], schema=SCHEMA)


def stored(store: TableStore, messages: list[CommitMessage], *, thin: bool = True) -> list[pa.Table]:
    found = []
    for message in messages:
        for file in message.new_files:
            directory = store.partition_directory(message.partition_bytes)
            path = store.layout.data_file(directory, message.bucket, file)
            fields = stored_fields(store.schema, thin=thin)
            extension = file.file_name.rpartition(".")[2]
            with store.storage.open_input(path) as source:
                reader = open_reader(extension, source, path=path, size=file.file_size, fields=fields)
                found.append(pa.Table.from_batches([batch for _, batch in reader.batches()]))
    return found


def test_rows_wait_as_they_arrived(tmp_path: Path) -> None:
    store = table(tmp_path)
    with WriteJob.new(store).open_writer(task=7) as writer:
        writer.write(rows([5, 1, 5]), row_kinds=["+I", "+U", "-D"])
        writer.write(rows([9], "b"))
        writer.write(rows([1, 0]))
        messages = writer.prepare()
    first, second = messages
    assert [(m.bucket, m.total_buckets, m.rows_in) for m in messages] == [(-2, -2, 5), (-2, -2, 1)]
    (held,) = stored(store, [first])
    assert held.select(["k", "_VALUE_KIND", "_SEQUENCE_NUMBER"]).to_pydict() == {
        "k": [5, 1, 5, 1, 0],
        "_VALUE_KIND": [0, 2, 3, 0, 0],
        "_SEQUENCE_NUMBER": [-1] * 5,
    }
    name = NAME.fullmatch(first.new_files[0].file_name)
    assert name is not None
    assert name[1] == "7"
    assert second.new_files[0].delete_row_count == 0
    assert f"{tmp_path}/p=a/bucket-postpone/" in store.layout.data_file("p=a", -2, first.new_files[0])


def test_files_have_the_facts_that_javas_have(tmp_path: Path) -> None:
    golden = golden_store("pk.postpone")
    snapshot = golden.snapshots.latest()
    assert snapshot is not None
    (entry,) = golden.manifests.live(snapshot)
    fields = stored_fields(golden.schema, thin=False)
    path = golden.layout.data_file("", -2, entry.file)
    with golden.storage.open_input(path) as source:
        reader = open_reader("avro", source, path=path, size=entry.file.file_size, fields=fields)
        java = pa.Table.from_batches([batch for _, batch in reader.batches()])
    values = java.select(golden.schema.field_names)
    keys: tuple[list[str], list[str]] = (list(golden.schema.primary_keys), [])
    store = keyed_store(tmp_path, golden.schema.arrow_schema, keys, {"bucket": "-2", "data-file.thin-mode": "false"})
    with WriteJob.new(store).open_writer() as writer:
        writer.write(values, row_kinds=java["_VALUE_KIND"])
        (message,) = writer.prepare()
    (ours,) = stored(store, [message], thin=False)
    assert ours == java.cast(ours.schema)
    (file,) = message.new_files
    for fact in (
        "row_count min_key max_key key_stats value_stats min_sequence_number max_sequence_number schema_id level "
        "extra_files delete_row_count embedded_file_index file_source value_stats_cols first_row_id write_cols"
    ).split():
        assert getattr(file, fact) == getattr(entry.file, fact), fact
    assert (message.bucket, message.total_buckets) == (entry.bucket, entry.total_buckets)


def test_what_avro_cannot_hold_goes_into_the_tables_format(tmp_path: Path) -> None:
    schema = SCHEMA.append(pa.field("t", pa.timestamp("ns")))
    store = table(tmp_path, schema, **{"file.format": "orc"})
    with WriteJob.new(store).open_writer() as writer:
        writer.write(pa.table([["a"], [1], ["x"], [0]], schema=schema))
        (message,) = writer.prepare()
    assert message.new_files[0].file_name.endswith("-0.orc")


def test_nobody_sees_rows_that_wait(tmp_path: Path) -> None:
    store = table(tmp_path)
    committed(BatchWriteBuilder(store), rows([1, 2]))
    assert read_all(store).num_rows == 0
    committed(PostponeFixedBucketWriteBuilder(store), rows([3]))
    assert read_all(store)["k"].to_pylist() == [3]


def test_a_stream_writes_one_writers_files_in_order(tmp_path: Path) -> None:
    store = table(tmp_path)
    builder = StreamWriteBuilder(store)
    names = []
    with builder.new_write() as write, builder.new_commit() as commit:
        for number in range(3):
            write.write_arrow(rows([number]))
            messages = write.prepare_commit(number)
            names += [file.file_name for m in messages for file in m.new_files]
            commit.commit(messages, number)
    heads = {name.partition("-w-")[0] for name in names}
    assert len(heads) == 1
    assert [int(found[2]) for name in names if (found := NAME.fullmatch(name))] == [0, 1, 2]


def test_a_write_with_a_name_of_its_own_still_has_names_that_can_be_taken_apart(tmp_path: Path) -> None:
    with WriteJob.new(table(tmp_path), write_id="my-s-write-w-1").open_writer() as writer:
        writer.write(rows([1]))
        (message,) = writer.prepare()
    head, _, tail = message.new_files[0].file_name.partition("-w-")
    assert re.fullmatch(r"data--u-[0-9a-f-]{36}-s-0", head)
    assert tail == "my-s-write-w-1-0-0-0.avro"


# ---- straight to real buckets ----------------------------------------------------------------------------------------


def counts(messages: list[CommitMessage]) -> set[tuple[object, ...]]:
    return {(*m.partition, m.total_buckets) for m in messages}


def test_a_partition_keeps_the_number_of_buckets_it_began_with(tmp_path: Path) -> None:
    store = table(tmp_path, **{"postpone.default-bucket-num": "3"})
    assert counts(committed(PostponeFixedBucketWriteBuilder(store), rows(list(range(50))))) == {("a", 3)}
    more = store.with_schema(store.schema.with_options({"postpone.default-bucket-num": "5"}))
    both = pa.concat_tables([rows(list(range(40, 90))), rows(list(range(50)), "b")])
    messages = committed(PostponeFixedBucketWriteBuilder(more), both)
    assert counts(messages) == {("a", 3), ("b", 5)}
    assert {m.bucket for m in messages} == {0, 1, 2, 3, 4}
    found = read_all(store)
    assert sorted(zip(found["p"].to_pylist(), found["k"].to_pylist(), strict=True)) == [
        *(("a", k) for k in range(90)),
        *(("b", k) for k in range(50)),
    ]


def test_the_first_rows_say_how_many_buckets_a_partition_gets(tmp_path: Path) -> None:
    store = table(tmp_path, **{"postpone.target-size-per-bucket": "1 kb"})
    both = pa.concat_tables([rows(list(range(500))), rows([1], "b")])
    totals = {m.partition: m.total_buckets for m in committed(PostponeFixedBucketWriteBuilder(store), both)}
    assert totals["b",] == 1
    assert (totals["a",] or 0) > 5
    assert read_all(store).num_rows == 501


def test_only_tables_that_postpone_their_buckets_have_that_door(tmp_path: Path) -> None:
    store = keyed_store(tmp_path, SCHEMA, (["p", "k"], ["p"]), {"bucket": "2"})
    with pytest.raises(InvalidInputError, match="does not postpone its buckets"):
        PostponeFixedBucketWriteBuilder(store)
