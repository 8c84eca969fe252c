"""Pieces smaller than a file: whatever a split holds, its pieces one after the other give its rows in its order."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lakewright as lw
from contract.faulty_storage import MemoryStorage
from lakewright.errors import CorruptTableError
from lakewright.formats import avro_files as avro_writer
from lakewright.formats import orc_files as orc_writer
from lakewright.formats import parquet_writer
from lakewright.formats.parquet_reader import ParquetFileReader
from lakewright.read import split_reader as reader_module
from lakewright.read import split_sharing
from lakewright.read.data_split import DataSplit
from lakewright.read.read_builder import ReadBuilder
from lakewright.read.split_sharing import cut_splits, share_splits
from lakewright.spec.predicate import TRUE
from lakewright.table.file_store_table import FileStoreTable
from support.effort import examples, is_thin, pairwise
from support.keyed_files import KeyedBucket, keyed_rows, new_keyed_table

Columns = dict[str, pa.Array]
SCALE = {"parquet": 1, "orc": 12, "avro": 1}  # a stripe of ORC has at least a thousand rows
UNUSUAL = ["", "a", "z", "Z", "ä", "ß", "zz", "\U0001f600", "￿", "a\x00", "é", "e\u0301"]


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make row groups, stripes and blocks of a few rows, and pieces of a few bytes."""
    monkeypatch.setattr(parquet_writer, "_GROUP_ROWS_MAX", 16)
    monkeypatch.setattr(avro_writer, "_BLOCK_ROWS", 16)
    monkeypatch.setattr(orc_writer, "_STRIPE_BYTES_MAX", 1)
    monkeypatch.setattr(split_sharing, "PIECE_BYTES_MIN", 64)


def texts(numbers: Sequence[int]) -> pa.Array:
    """Return as many different texts; neighbours differ in unusual ways."""
    return pa.array([f"{UNUSUAL[n % len(UNUSUAL)]}{n // len(UNUSUAL) or ''}" for n in numbers])


KEYS: dict[str, Callable[[Sequence[int]], Columns]] = {
    "int": lambda ns: {"k": pa.array([n - 40 for n in ns], pa.int32())},
    "text": lambda ns: {"k": texts(ns)},
    "composite": lambda ns: {"k": pa.array([n // 97 for n in ns], pa.int8()), "s": texts([n % 97 for n in ns])},
    "timestamp": lambda ns: {
        "k": pa.array([dt.datetime(1969, 12, 31, 23, 59) + dt.timedelta(seconds=n) for n in ns], pa.timestamp("us"))  # noqa: DTZ001
    },
    "decimal": lambda ns: {"k": pa.array([Decimal(n - 60).scaleb(-2) for n in ns], pa.decimal128(20, 2))},
    "double": lambda ns: {"k": pa.array([-0.0 if n == 0 else (n - 60) / 8 for n in ns])},
    "binary": lambda ns: {"k": pa.array([bytes([n % 256, n // 256]) for n in ns])},
    "date": lambda ns: {"k": pa.array([n - 30 for n in ns], pa.int32()).cast(pa.date32())},
}
ENGINES: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "sequence": {"sequence.field": "v"},
    "sequence-down": {"sequence.field": "v", "sequence.field.sort-order": "descending"},
    "first-row": {"merge-engine": "first-row"},
    "partial-update": {"merge-engine": "partial-update"},
    "aggregation": {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"},
    "ignore-delete": {"ignore-delete": "true"},
}


def rows_of(key: str, numbers: Sequence[int], seed: int) -> pa.Table:
    chance = np.random.default_rng(seed)
    values = [None if n % 5 == 0 else n for n in chance.integers(-9, 9, len(numbers)).tolist()]
    return pa.table(
        KEYS[key](numbers)
        | {"v": pa.array(values, pa.int64()), "w": texts(chance.integers(0, 99, len(numbers)).tolist())}
    )


def new_table(path: Path, rows: pa.Table, keys: Sequence[str], options: dict[str, str]) -> FileStoreTable:
    catalog = lw.CatalogFactory.create({"warehouse": str(path)})
    catalog.create_database("d", ignore_if_exists=True)
    fields = [field.with_nullable(field.name not in keys) for field in rows.schema]
    schema = lw.Schema.from_pyarrow_schema(pa.schema(fields), primary_keys=list(keys), options=options)
    catalog.create_table("d.t", schema)
    return catalog.get_table("d.t")


COUNTS = [2, 7] if is_thin() else [2, 3, 7]


def check(table: FileStoreTable, *, columns: list[str] | None = None, counts: Sequence[int] = COUNTS) -> None:
    """Check the pieces of all splits, for some numbers of pieces, and reads by several threads."""
    builder = table.new_read_builder().with_projection(columns)
    splits, read = builder.new_scan().plan().splits(), builder.new_read()
    whole = read.to_arrow(splits, parallelism=1)
    for count in counts:
        cut = cut_splits(read.store, splits, TRUE, count)
        assert len(cut) >= 2
        assert len(cut) == len({(piece.file_paths, piece.row_ranges) for piece in cut})
        sent = [DataSplit.deserialize(piece.serialize()) for piece in cut]
        assert pa.concat_tables([read.to_arrow([piece], parallelism=1) for piece in sent]).equals(whole)
    assert read.to_arrow(splits, parallelism=3).equals(whole)
    with read.to_arrow_batch_reader(splits, parallelism=3) as batches:
        assert batches.read_all().equals(whole)


def _write_runs(table: FileStoreTable, key: str, seed: int, *, deletes: bool, scale: int = 1) -> None:
    """Write runs that share keys: a large one, then smaller ones, and in between delete some keys."""
    chance = np.random.default_rng(seed)
    for size in (200, 60, 7, 90):
        numbers = chance.choice(260 * scale, size * scale, replace=False).tolist()
        lw.write_table(rows_of(key, numbers, seed + size), table)
        if deletes and size == 60:
            table.delete("v < -6")


MERGED_KEYS = ["int", "text", "composite"]


@pytest.mark.filterwarnings("ignore:.*STAY HIDDEN")
@pytest.mark.parametrize(("engine", "key", "file_format"), pairwise(list(ENGINES), MERGED_KEYS, list(SCALE)))
def test_pieces_of_a_merge_give_its_rows(tmp_path: Path, file_format: str, key: str, engine: str) -> None:
    deletes = engine in {"deduplicate", "sequence"}
    options = {"bucket": "1", "write-only": "true", "file.format": file_format, **ENGINES[engine]}
    table = new_table(tmp_path, rows_of(key, [1], 0), list(KEYS[key]([1])), options)
    _write_runs(table, key, len(engine), deletes=deletes, scale=SCALE[file_format])
    reading = table.copy({"lakewright.read-level-0": "true"}) if engine == "first-row" else table
    check(reading)
    check(reading, columns=["w"], counts=[3])


@pytest.mark.parametrize("key", [key for key in KEYS if key not in MERGED_KEYS])
def test_pieces_are_cut_in_the_order_of_keys(tmp_path: Path, key: str) -> None:
    options = {"bucket": "1", "write-only": "true"}
    table = new_table(tmp_path, rows_of(key, [1], 0), list(KEYS[key]([1])), options)
    _write_runs(table, key, 3, deletes=False)
    check(table)


@pytest.mark.parametrize("file_format", SCALE)
def test_pieces_of_one_file_give_its_rows(tmp_path: Path, file_format: str) -> None:
    table = new_table(tmp_path, rows_of("int", [1], 0), [], {"file.format": file_format})
    lw.write_table(rows_of("int", range(200 * SCALE[file_format]), 1), table)
    check(table)
    check(table, columns=["w"])
    nothing = table.new_read_builder().with_projection([]).new_read()
    assert nothing.to_arrow(parallelism=3).num_rows == 200 * SCALE[file_format]


@pytest.mark.parametrize("file_format", SCALE)
def test_pieces_of_a_file_with_deleted_rows(tmp_path: Path, file_format: str) -> None:
    options = {"file.format": file_format, "deletion-vectors.enabled": "true"}
    table = new_table(tmp_path, rows_of("int", [1], 0), [], options)
    lw.write_table(rows_of("int", range(200 * SCALE[file_format]), 1), table)
    table.delete("v > 5 OR k < -20")
    assert table.new_read_builder().new_scan().plan().splits()[0].has_deletions
    check(table)


def test_pieces_of_rows_whose_columns_lie_in_several_files(tmp_path: Path) -> None:
    options = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
    table = new_table(tmp_path, rows_of("int", [1], 0), [], options)
    lw.write_table(rows_of("int", range(200), 1), table)
    ids = pa.array(np.arange(0, 200, 3))
    table.update_by_row_id(pa.table({"_ROW_ID": ids, "v": pa.array(np.arange(len(ids)))}))
    (split,) = table.new_read_builder().new_scan().plan().splits()
    assert len(split.files) > 1
    check(table)
    check(table, columns=["_ROW_ID", "v"])


@pytest.mark.parametrize("key", ["int", "text"])
def test_pieces_of_files_of_an_older_schema(tmp_path: Path, key: str) -> None:
    table = new_table(tmp_path, rows_of(key, [1], 0), ["k"], {"bucket": "1", "write-only": "true"})
    lw.write_table(rows_of(key, range(150), 1), table)
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.alter_table("d.t", [lw.SchemaChange.add_column("x", "INT"), lw.SchemaChange.rename_column("w", "text")])
    later = rows_of(key, range(50, 250), 2).rename_columns(["k", "v", "text"])
    table = catalog.get_table("d.t")
    lw.write_table(later.append_column("x", pa.array(range(200), pa.int32())), table)
    check(table)


@pytest.mark.filterwarnings("ignore:.*STAY HIDDEN")
def test_pieces_of_levels_with_deletion_vectors(tmp_path: Path) -> None:
    """Rows of level 0 are merged with compacted ones, of which deletion vectors delete some."""
    options = {"bucket": "1", "deletion-vectors.enabled": "true", "num-sorted-run.compaction-trigger": "2"}
    table = new_table(tmp_path, rows_of("int", [1], 0), ["k"], options)
    for seed in range(4):
        lw.write_table(rows_of("int", range(seed * 20, 260 - seed * 10, seed + 1), seed), table)
    lw.write_table(rows_of("int", range(0, 260, 7), 9), table.copy({"write-only": "true"}))
    reading = table.copy({"lakewright.read-level-0": "true"})
    (split,) = reading.new_read_builder().new_scan().plan().splits()
    assert split.needs_merge
    assert split.has_deletions
    check(reading)


@pytest.mark.parametrize("engine", ["deduplicate", "aggregation"])
def test_files_that_end_with_row_groups_without_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    table = new_table(tmp_path, rows_of("int", [1], 0), ["k"], {"bucket": "1", "write-only": "true", **ENGINES[engine]})
    _write_runs(table, "int", 3, deletes=False)
    starts = ParquetFileReader.starts
    monkeypatch.setattr(ParquetFileReader, "starts", lambda self, skip=None: (*starts(self, skip), self.row_count))
    check(table)


def test_pieces_of_several_partitions_keep_their_order(tmp_path: Path) -> None:
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d")
    rows = rows_of("int", range(200), 1)
    schema = lw.Schema.from_pyarrow_schema(
        pa.schema([rows.schema.field(0).with_nullable(nullable=False), pa.field("p", pa.int32(), nullable=False)]),
        partition_keys=["p"], primary_keys=["p", "k"], options={"bucket": "1", "write-only": "true"},
    )  # fmt: skip
    catalog.create_table("d.t", schema)
    table = catalog.get_table("d.t")
    for step in (1, 3):
        numbers = range(0, 200, step)
        parts = pa.array([n % 2 for n in numbers], pa.int32())
        lw.write_table(pa.table({"k": rows_of("int", numbers, 1).column("k"), "p": parts}), table)
    check(table)
    assert lw.read_table(table, filter="p = 1").num_rows == 100


@pytest.mark.parametrize("place", [8, 16, 40, 90, 96, 100])
def test_a_file_that_is_not_sorted_is_noticed(place: int) -> None:
    storage = MemoryStorage(f"cutting-{place}")
    store = new_keyed_table(f"{storage.root}/t", pa.schema([("k", pa.int32()), ("v", pa.int32())]), {}, storage)
    bucket = KeyedBucket(store)
    rows = keyed_rows(store, {"k": range(120), "v": range(120)}, first=0)
    # Two ascending halves, of which the second begins at a key that the first one has.
    bucket.add(pa.concat_tables([rows.slice(0, place), rows.slice(place - 5)]).slice(0, 120))
    bucket.add(keyed_rows(store, {"k": range(0, 120, 7), "v": range(0, 120, 7)}, first=200))
    bucket.publish()
    builder = ReadBuilder(store)
    splits = builder.new_scan().plan().splits()
    for count in (1, 2, 3, 5, 8):
        with pytest.raises(CorruptTableError, match="not sorted"):
            builder.new_read().to_arrow(splits, parallelism=count)


def test_a_plan_is_the_same_and_small_reads_are_not_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = new_table(tmp_path, rows_of("int", [1], 0), ["k"], {"bucket": "1", "write-only": "true"})
    _write_runs(table, "int", 3, deletes=False)
    builder = table.new_read_builder()
    splits, read = builder.new_scan().plan().splits(), builder.new_read()
    assert len(splits) == 1
    assert not splits[0].row_ranges
    by_key = table.new_read_builder().with_filter("k = 5")
    assert cut_splits(read.store, splits, by_key.predicate, 4) == splits
    assert cut_splits(read.store, splits, TRUE, 1) == splits
    monkeypatch.undo()
    assert cut_splits(read.store, splits, TRUE, 4) == splits


def test_a_filter_that_few_row_groups_can_match_is_read_in_one_piece(tmp_path: Path) -> None:
    table = new_table(tmp_path, rows_of("int", [1], 0), [], {})
    lw.write_table(rows_of("int", range(200), 1), table)
    builder = table.new_read_builder().with_filter("k = 100")
    splits = builder.new_scan().plan().splits()
    (piece,) = cut_splits(builder.new_read().store, splits, builder.predicate, 4)
    assert builder.new_read().to_arrow([piece]).column("k").to_pylist() == [100]
    half = table.new_read_builder().with_filter("k >= 60")
    pieces = cut_splits(half.new_read().store, splits, half.predicate, 2)
    assert len(pieces) == 2
    assert half.new_read().to_arrow(pieces).column("k").to_pylist() == list(range(60, 160))


FILTERS = [None, "v > 2", "v IS NULL", "w < 'b' OR v = 0", "w LIKE 'a%'", "v BETWEEN -3 AND 3 AND w > 'Z'"]
KINDS = ["merge", "merge", "vectors", "columns", "plain"]


def _random_table(path: Path, chance: random.Random) -> FileStoreTable:
    """Make a table of some kind, format, key and history."""
    kind, key, file_format = chance.choice(KINDS), chance.choice(list(KEYS)), chance.choice(["parquet", "avro"])
    options = {"file.format": file_format, "lakewright.merge-memory": chance.choice(["256 mb", "4 kb"])}
    if kind == "merge":
        options |= {"bucket": "1", "write-only": "true", **ENGINES[chance.choice(list(ENGINES))]}
    elif kind == "vectors":
        options["deletion-vectors.enabled"] = "true"
    elif kind == "columns":
        options |= {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
    table = new_table(path, rows_of(key, [1], 0), list(KEYS[key]([1])) if kind == "merge" else [], options)
    for size in chance.sample([200, 90, 60, 17, 7, 1], chance.randint(1, 5)):
        lw.write_table(rows_of(key, chance.sample(range(260), size), size), table)
        if kind == "vectors" or (kind == "merge" and options.keys().isdisjoint({"merge-engine", "ignore-delete"})):
            table.delete(chance.choice(["v < -6", "v > 5", "v = 0"]))
        if kind == "columns" and chance.random() < 0.5:
            ids = pa.array(np.arange(0, size, 3))
            table.update_by_row_id(pa.table({"_ROW_ID": ids, "v": pa.array(np.arange(len(ids)))}))
    is_first = options.get("merge-engine") == "first-row"
    return table.copy({"lakewright.read-level-0": "true"}) if is_first else table


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:.*STAY HIDDEN")
@given(chance=st.randoms(use_true_random=False), small=st.sampled_from([3, 16, 50]), few=st.sampled_from([1, 7, 99]))
@settings(max_examples=examples(60))
def test_reads_in_pieces_give_the_rows_of_reads_in_one(
    tmp_path_factory: pytest.TempPathFactory, chance: random.Random, small: int, few: int
) -> None:
    """Whatever a table holds, filters, columns, shards, pieces and shares of tasks change no row."""
    with (
        patch.object(parquet_writer, "_GROUP_ROWS_MAX", small),
        patch.object(avro_writer, "_BLOCK_ROWS", small),
        patch.object(reader_module, "_FILTERED_ROWS", few),
    ):
        table = _random_table(tmp_path_factory.mktemp("t"), chance)
        for _ in range(4):
            builder = table.new_read_builder().with_projection(chance.choice([None, ["w"], ["v", "k"]]))
            condition, shards, count = chance.choice(FILTERS), chance.randint(1, 3), chance.choice([2, 3, 8])
            builder = builder if condition is None else builder.with_filter(condition)
            splits = builder.new_scan().with_shard(chance.randrange(shards), shards).plan().splits()
            read = builder.new_read()
            whole = read.to_arrow(splits, parallelism=1)
            cut = cut_splits(read.store, splits, builder.predicate, count, piece_bytes=chance.choice([0, 100]))
            parts = [read.to_arrow([piece], parallelism=1) for piece in cut]
            assert pa.concat_tables([whole.slice(0, 0), *parts]).equals(whole)
            assert read.to_arrow(splits, parallelism=count).equals(whole)
            tasks = [read.to_arrow(share) for share in share_splits(read.store, cut, at_least=1, exactly=count)]
            rows = [row for task in tasks for row in task.to_pylist()]
            assert sorted(map(repr, rows)) == sorted(map(repr, whole.to_pylist()))


def test_a_limit_holds_for_all_pieces_together(tmp_path: Path) -> None:
    table = new_table(tmp_path, rows_of("int", [1], 0), [], {})
    lw.write_table(rows_of("int", range(200), 1), table)
    read = table.new_read_builder().with_limit(5).new_read()
    assert read.to_arrow(parallelism=4).column("k").to_pylist() == [-40, -39, -38, -37, -36]
