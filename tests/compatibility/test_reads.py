"""Reads through the face: pypaimon's arguments, shapes, words and laxness."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakewright as lw
from lakewright import pypaimon

COLUMNS = pa.schema(
    [("p", pa.string()), ("id", pa.int64()), ("mv", pa.struct([("v", pa.int32()), ("w", pa.string())]))]
)
KEYED = pa.schema([pa.field("id", pa.int64(), nullable=False), ("s", pa.string())])


def _catalog(tmp_path: Path) -> pypaimon.Catalog:
    catalog = pypaimon.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d", True)  # noqa: FBT003 - pypaimon's signature
    return catalog


def _write(table: pypaimon.FileStoreTable, rows: pa.Table) -> None:
    lw.write_table(rows, table)


@pytest.fixture
def table(tmp_path: Path) -> Any:  # noqa: ANN401 - used as scripts use it
    catalog = _catalog(tmp_path)
    catalog.create_table("d.t", pypaimon.Schema.from_pyarrow_schema(COLUMNS, partition_keys=["p"]))
    made = catalog.get_table("d.t")
    rows = [{"p": "x" if n < 4 else "y", "id": n, "mv": {"v": n, "w": "w"}} for n in range(6)]
    _write(made, pa.Table.from_pylist(rows, schema=COLUMNS))
    return made


@pytest.fixture
def keyed(tmp_path: Path) -> Any:  # noqa: ANN401 - used as scripts use it
    catalog = _catalog(tmp_path)
    schema = pypaimon.Schema.from_pyarrow_schema(KEYED, primary_keys=["id"], options={"bucket": "1"})
    catalog.create_table("d.k", schema)
    made = catalog.get_table("d.k")
    _write(made, pa.table({"id": [1, 2], "s": ["a", "b"]}, schema=KEYED))
    _write(made, pa.table({"id": [2, 3], "s": ["B", "c"]}, schema=KEYED))
    return made


def _ids(builder: Any) -> list[int]:  # noqa: ANN401
    rows: list[int] = builder.new_read().to_arrow(builder.new_scan().plan().splits())["id"].to_pylist()
    return rows


def test_splits_and_files_have_pypaimon_s_attributes(table: Any, keyed: Any) -> None:  # noqa: ANN401
    first, second = table.new_read_builder().new_scan().plan().splits()
    assert (first.partition.values, first.partition.to_dict(), str(first.partition)) == (
        ["x"],
        {"p": "x"},
        "GenericRow(row_kind=INSERT, p='x')",
    )
    assert (second.bucket, second.row_count, second.is_streaming, second.data_deletion_files) == (0, 2, False, None)
    [file] = first.files
    assert file.file_path == first.file_paths[0]
    assert Path(file.physical_path()).stat().st_size == file.file_size
    assert (file.row_count, file.level, file.min_key.values, file.first_row_id) == (4, 0, [], None)
    assert file.value_stats.min_values.get_field(1) == 0
    assert file.creation_time_epoch_millis() == file.creation_time.get_millisecond()
    with pytest.raises(AttributeError, match="colour"):
        file.colour  # noqa: B018
    assert first.filter_file(lambda _: False) is None
    assert first.filter_file(lambda one: one.row_count == 4).row_count == 4
    [split] = keyed.new_read_builder().new_scan().plan().splits()
    assert [(one.min_key.get_field(0), one.max_key.values) for one in split.files] == [(1, [2]), (2, [3])]
    again = pickle.loads(pickle.dumps(split))  # noqa: S301 - our own bytes
    assert keyed.new_read_builder().new_read().to_arrow([again]).num_rows == 3
    assert again.files[0].min_key.values == [1]


def test_rows_tell_their_kind(keyed: Any) -> None:  # noqa: ANN401
    read, scan = keyed.new_read_builder().new_read(), keyed.new_read_builder().new_scan()
    rows = list(read.to_iterator(scan.plan().splits()))
    assert [(row.get_field(0), row.get_field(1), len(row)) for row in rows] == [(1, "a", 2), (2, "B", 2), (3, "c", 2)]
    assert {row.get_row_kind() for row in rows} == {pypaimon.RowKind.INSERT}
    builder = keyed.new_stream_read_builder()
    stream, read = builder.new_streaming_scan(), builder.new_read()
    stream.plan()
    keyed.delete("id = 1")
    kinds = [(row.get_field(0), row.get_row_kind().to_string()) for row in read.to_iterator(stream.plan().splits())]
    assert kinds == [(1, "-D")]
    assert stream.next_snapshot_id == 4


def test_a_second_filter_replaces_the_first(table: Any) -> None:  # noqa: ANN401
    builder = table.new_read_builder()
    words = builder.new_predicate_builder()
    builder.with_partition_filter(words.equal("p", "x"))
    builder.with_filter(words.equal("id", 1))
    assert _ids(builder) == [1]
    builder.with_filter(words.greater_than("id", 1))
    assert _ids(builder) == [2, 3]
    builder.with_filter(None)
    assert _ids(builder) == [0, 1, 2, 3]


def test_unknown_columns_are_left_out_with_a_warning(table: Any) -> None:  # noqa: ANN401
    with pytest.warns(lw.LakewrightWarning, match=r"d\.t has no column 'nope', 'mv.z'"):
        builder = table.new_read_builder().with_projection(["id", "nope", "mv.z"])
    assert builder.new_read().to_arrow().column_names == ["id"]
    with pytest.raises(ValueError, match="mapping must not be empty"):
        table.new_read_builder().with_projection({})


def test_fields_of_a_row_are_columns_of_a_projection(table: Any) -> None:  # noqa: ANN401
    builder = table.new_read_builder().with_projection(["mv.v", "id"])
    assert [field.name for field in builder.read_type()] == ["mv", "id"]
    assert [field.name for field in builder.read_type()[0].type.fields] == ["v"]
    builder.with_filter(builder.new_predicate_builder().equal("mv_v", 2))
    assert builder.new_read().to_arrow().to_pylist() == [{"mv_v": 2, "id": 2}]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda scan: scan.with_shard(2, 2), "idx_of_this_subtask must be less than number_of_para_subtasks"),
        (lambda scan: scan.with_shard(0, 0), "number_of_para_subtasks must be a positive integer"),
        (lambda scan: scan.with_slice(2, 1), "start_pos must be non-negative and less than end_pos"),
        (lambda scan: scan.with_chunk_shuffle(1, 0), "chunk_size must be a positive int"),
        (
            lambda scan: scan.with_shard(0, 2).with_slice(0, 1),
            "with_slice and with_shard cannot be used simultaneously",
        ),
        (lambda scan: scan.with_slice(0, 1).with_chunk_shuffle(1, 2).plan(), "cannot combine with with_slice"),
        (lambda scan: scan.with_row_ranges([(0, 1)]), "Row ranges are only supported"),
    ],
)
def test_wrong_plans_are_refused_in_pypaimon_s_words(table: Any, call: Callable[[Any], object], words: str) -> None:  # noqa: ANN401
    with pytest.raises(ValueError, match=words):
        call(table.new_read_builder().new_scan())


def test_shares_of_shuffled_chunks_are_whole_chunks(table: Any) -> None:  # noqa: ANN401
    builder = table.new_read_builder()
    shares = [builder.new_scan().with_shard(n, 2).with_chunk_shuffle(7, 2).plan().splits() for n in range(2)]
    assert [[split.row_count for split in share] for share in shares] == [[2, 2], [2]]
    read = builder.new_read()
    assert sorted(row for share in shares for row in read.to_arrow(share)["id"].to_pylist()) == list(range(6))


def test_primary_key_tables_have_no_slices_and_chunks(keyed: Any) -> None:  # noqa: ANN401
    with pytest.raises(NotImplementedError, match="use with_shard instead"):
        keyed.new_read_builder().new_scan().with_slice(0, 1).plan()
    with pytest.raises(ValueError, match="only supports append tables"):
        keyed.new_read_builder().new_scan().with_chunk_shuffle(1, 2).plan()


def test_parallelism_is_checked(table: Any) -> None:  # noqa: ANN401
    read, splits = table.new_read_builder().new_read(), table.new_read_builder().new_scan().plan().splits()
    with pytest.raises(ValueError, match="parallelism must be >= 1, got 0"):
        read.to_arrow(splits, parallelism=0)
    with pytest.raises(ValueError, match="blob_parallelism must be >= 1, got 0"):
        read.to_arrow_batch_reader(splits, 0)
    assert read.to_arrow([]).num_rows == 0
    assert table.new_read_builder().with_limit(-1).new_read().to_arrow(splits).num_rows == 0


def test_row_ranges_are_ranges(tmp_path: Path) -> None:
    catalog = _catalog(tmp_path)
    schema = pypaimon.Schema.from_pyarrow_schema(COLUMNS, options={"row-tracking.enabled": "true"})
    catalog.create_table("d.r", schema)
    made: Any = catalog.get_table("d.r")
    _write(made, pa.Table.from_pylist([{"p": "x", "id": n, "mv": None} for n in range(5)], schema=COLUMNS))
    builder = made.new_read_builder()
    splits = builder.new_scan().with_row_ranges([pypaimon.Range(1, 2), pypaimon.Range(4, 9)]).plan().splits()
    assert builder.new_read().to_arrow(splits)["id"].to_pylist() == [1, 2, 4]
    assert [str(file.row_id_range()) for file in splits[0].files] == ["Range(0, 4)"]


def test_an_explained_plan_looks_like_pypaimon_s(table: Any) -> None:  # noqa: ANN401
    builder = table.new_read_builder()
    shown = builder.with_filter(builder.new_predicate_builder().equal("p", "x")).explain(verbose=True)
    assert str(shown.partition_pruning) == "PruningStat(before=2, after=1)"
    assert str(shown).splitlines()[:2] == [
        "== PyPaimon Scan Plan ==",
        "Table:              d.t (Append, BUCKET_UNAWARE)",
    ]
    assert "Manifests" not in str(shown)
    [split] = shown.splits
    assert split.data_files[0].file_path == split.file_paths[0]


def test_workers_share_whole_buckets_of_a_keyed_table(tmp_path: Path) -> None:
    catalog = _catalog(tmp_path)
    schema = pypaimon.Schema.from_pyarrow_schema(KEYED, primary_keys=["id"], options={"bucket": "3"})
    catalog.create_table("d.b", schema)
    made = catalog.get_table("d.b")
    for start in (0, 20):
        _write(made, pa.table({"id": list(range(start, start + 20)), "s": ["x"] * 20}, schema=KEYED))
    builder = made.new_read_builder()
    shares = [builder.new_scan().with_shard(index, 2).plan().splits() for index in range(2)]
    assert [sorted(split.bucket for split in share) for share in shares] == [[0, 2], [1]]
    # Files of the first level are not called raw, also where they share no key.
    assert {(len(split.files), split.raw_convertible) for share in shares for split in share} == {(2, False)}
    rows = [builder.new_read().to_arrow(share)["id"].to_pylist() for share in shares]
    assert sorted(rows[0] + rows[1]) == list(range(40))
