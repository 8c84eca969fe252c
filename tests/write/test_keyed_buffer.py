"""However rows are cut into batches, spilled and merged, a bucket gets one row per key, and the row that must win."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewright.errors import InvalidInputError
from lakewright.formats.data_file_writer import FilePlan, FinishedFile, NewFile, RollingFile
from lakewright.formats.format_registry import file_format_of, open_reader
from lakewright.lsm.merge_rows import MergeRules
from lakewright.spec.bucket_hash import bucket_ids
from lakewright.spec.manifest import EMPTY_ROW
from lakewright.spec.schema import Schema, new_table_schema
from lakewright.spec.system_columns import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, stored_fields
from lakewright.spec.table_schema import TableSchema
from lakewright.spec.types import AtomicType
from lakewright.write import keyed_buffer
from lakewright.write.bucket_routing import HashRouter, RowGroup
from lakewright.write.keyed_buffer import KeyedBuffer
from lakewright.write.write_buffer import BufferLimits
from lakewright.write.write_task import PartitionBucket
from support.data_files import MemoryOutput
from support.effort import examples

Row: TypeAlias = tuple[int, int | None, int | None, str | None, int]  # k, s, n, v, kind

COLUMNS = pa.schema({"k": pa.int64(), "s": pa.int32(), "n": pa.int64(), "v": pa.string()})
ROW_GROUPS = pa.schema([("_VALUE_KIND", pa.int8()), *COLUMNS])


def schema_of(**options: object) -> TableSchema:
    stored = {name.replace("__", ".").replace("_", "-"): value for name, value in options.items()}
    wish = Schema.from_pyarrow_schema(COLUMNS, primary_keys=["k"], options={"bucket": 1, **stored})
    return new_table_schema(wish, time_millis=1)


def group(rows: Sequence[Row], bucket: int = 0) -> RowGroup:
    columns = [[row[4] for row in rows], *([row[n] for row in rows] for n in range(4))]
    table = pa.table([pa.array(c, f.type) for c, f in zip(columns, ROW_GROUPS, strict=True)], schema=ROW_GROUPS)
    return RowGroup(EMPTY_ROW, bucket, table)


class Disk:
    """Files in memory, for one buffer."""

    def __init__(self, schema: TableSchema, *, changelog: bool = False, failing: bool = False) -> None:
        self.schema = schema
        self.outputs: dict[str, MemoryOutput] = {}
        self.changelog = changelog
        self.failing = failing

    def new_files(self, _place: PartitionBucket) -> tuple[RollingFile, RollingFile | None]:
        log = self._rolling(FilePlan.for_keyed_rows(self.schema, level=0, changelog=True)) if self.changelog else None
        return self._rolling(FilePlan.for_keyed_rows(self.schema, level=0)), log

    def _rolling(self, plan: FilePlan) -> RollingFile:
        def new_file(plan: FilePlan) -> NewFile:
            if self.failing:
                raise OSError(28, "no space left")
            name = plan.file_name(f"u-{len(self.outputs)}")
            self.outputs[name] = MemoryOutput()
            return NewFile(name, name, self.outputs[name])

        return RollingFile(plan, new_file, None, lambda: 1)

    def rows(self, files: Iterable[FinishedFile]) -> list[list[dict[str, Any]]]:
        """Return the rows of each file."""
        return [self._read(done.facts.file_name) for done in files]

    def _read(self, name: str) -> list[dict[str, Any]]:
        data = self.outputs[name].data
        assert data is not None
        fields = stored_fields(self.schema, thin=True)
        reader = open_reader(file_format_of(name), io.BytesIO(data), path=name, size=len(data), fields=fields)
        return [row for _, batch in reader.batches() for row in batch.to_pylist()]


def buffer_on(disk: Disk, *, budget: int = 1 << 30, spillable: bool = True, first: int = 0) -> KeyedBuffer:
    spec = MergeRules.of_schema(disk.schema, table="t")
    return KeyedBuffer(spec, disk.new_files, lambda _: first, BufferLimits(budget, threads=2, spillable=spillable))


def written(schema: TableSchema, batches: Sequence[Sequence[Row]], *, budget: int = 1 << 30) -> list[dict[str, Any]]:
    """Return the rows of the one file that one bucket gets."""
    disk = Disk(schema)
    buffer = buffer_on(disk, budget=budget)
    for batch in batches:
        buffer.add([group(batch)])
    done = buffer.finish()
    files = disk.rows(done[EMPTY_ROW, 0].files) if done else []
    assert len(files) <= 1, "one flush makes one run"
    return files[0] if files else []


KEYS = st.integers(0, 8)
NUMBERS = st.none() | st.integers(0, 5)
TEXTS = st.none() | st.sampled_from(["a", "b", "c"])
ADDS = st.tuples(KEYS, NUMBERS, NUMBERS, TEXTS, st.sampled_from([INSERT, UPDATE_AFTER]))
ROWS = st.tuples(KEYS, NUMBERS, NUMBERS, TEXTS, st.sampled_from([INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE]))


def batches_of(rows: st.SearchStrategy[Row]) -> st.SearchStrategy[list[list[Row]]]:
    return st.lists(st.lists(rows, min_size=1, max_size=6), min_size=1, max_size=8)


def _stored(row: Row, number: int) -> dict[str, Any]:
    return dict(zip(["_SEQUENCE_NUMBER", "_VALUE_KIND", "k", "s", "n", "v"], [number, row[4], *row[:4]], strict=True))


@settings(max_examples=examples(40))
@given(batches_of(ROWS), st.sampled_from([1, 300, 1 << 30]), st.sampled_from(["", "ascending", "descending"]))
def test_the_last_row_of_a_key_wins(batches: list[list[Row]], budget: int, by_field: str) -> None:
    options = {"sequence__field": "s", "sequence__field__sort_order": by_field} if by_field else {}
    latest: dict[int, tuple[tuple[float, int, int], dict[str, Any]]] = {}
    for number, row in enumerate(row for batch in batches for row in batch):
        oldest = float("-inf")
        by_value = (
            0.0 if not by_field else oldest if row[1] is None else row[1] * (1 if by_field == "ascending" else -1)
        )
        age = (by_value, number, 0)
        if row[0] not in latest or age > latest[row[0]][0]:
            latest[row[0]] = (age, _stored(row, number))
    wanted = [latest[key][1] for key in sorted(latest)]
    assert written(schema_of(**options), batches, budget=budget) == wanted


@settings(max_examples=examples(40))
@given(batches_of(ADDS), st.sampled_from([1, 300, 1 << 30]))
def test_the_first_row_of_a_key_wins(batches: list[list[Row]], budget: int) -> None:
    first: dict[int, dict[str, Any]] = {}
    for number, row in enumerate(row for batch in batches for row in batch):
        first.setdefault(row[0], _stored(row, number))
    got = written(schema_of(merge_engine="first-row"), batches, budget=budget)
    assert got == [first[key] for key in sorted(first)]


ENGINES: list[dict[str, object]] = [
    {"merge_engine": "partial-update"},
    {"merge_engine": "partial-update", "fields__s__sequence_group": "n,v"},
    {"merge_engine": "partial-update", "fields__s__sequence_group": "n", "fields__n__aggregate_function": "sum"},
    {"merge_engine": "aggregation", "fields__n__aggregate_function": "sum", "fields__v__aggregate_function": "max"},
    {"merge_engine": "aggregation", "fields__default_aggregate_function": "last_non_null_value"},
]


@settings(max_examples=examples(15))
@pytest.mark.parametrize("options", ENGINES, ids=str)
@given(batches=batches_of(ADDS), budget=st.sampled_from([1, 300, 1000]))
def test_spilling_changes_nothing(options: dict[str, object], batches: list[list[Row]], budget: int) -> None:
    schema = schema_of(**options)
    assert written(schema, batches, budget=budget) == written(schema, batches)


@settings(max_examples=examples(15))
@given(batches_of(ROWS), st.sampled_from([1, 300, 1 << 30]))
def test_a_changelog_holds_every_row_as_it_came(batches: list[list[Row]], budget: int) -> None:
    disk = Disk(schema_of(changelog_producer="input"), changelog=True)
    buffer = buffer_on(disk, budget=budget, first=7)
    for batch in batches:
        buffer.add([group(batch)])
    (done,) = buffer.finish().values()
    files = disk.rows(done.changelog)
    for rows in files:
        assert rows == sorted(rows, key=lambda row: (row["k"], row["_SEQUENCE_NUMBER"]))
    ends = [[row["_SEQUENCE_NUMBER"] for row in rows] for rows in files]
    assert all(max(a) < min(b) for a, b in pairwise(ends)), "later files hold later rows"
    everything = sorted((row for rows in files for row in rows), key=lambda row: row["_SEQUENCE_NUMBER"])
    assert everything == [_stored(row, 7 + n) for n, row in enumerate(row for batch in batches for row in batch)]
    assert {f.facts.file_name.split("-")[0] for f in done.changelog} == {"changelog"}
    deletes = sum(row["_VALUE_KIND"] in {UPDATE_BEFORE, DELETE} for row in everything)
    assert sum(f.facts.delete_row_count or 0 for f in done.changelog) == deletes
    assert sum(f.facts.row_count for f in done.changelog) == len(everything)


ROUTED: list[dict[str, object]] = [
    {},
    {"sequence__field": "s,n"},
    {"merge_engine": "first-row"},
    {"merge_engine": "first-row", "ignore_delete": "true"},
    {"changelog_producer": "input"},
    *ENGINES,
]
CUTS = st.lists(st.integers(1, 40), min_size=1, max_size=5)


@settings(max_examples=examples(20))
@pytest.mark.parametrize("options", ROUTED, ids=str)
@given(data=st.data(), sizes=CUTS, budget=st.sampled_from([1, 2000, 1 << 30]), buckets=st.sampled_from([2, 3, 300]))
def test_rows_that_stay_in_place_are_written_like_gathered_ones(
    options: dict[str, object], data: st.DataObject, sizes: list[int], budget: int, buckets: int
) -> None:
    """However batches are routed, each bucket gets the same rows, numbers and changelog."""
    schema = schema_of(**{**options, "bucket": buckets})
    kinds = ROWS if not options or "ignore_delete" in options or "changelog_producer" in options else ADDS
    batches = [group(data.draw(st.lists(kinds, min_size=size, max_size=size))).rows for size in sizes]
    results = []
    for in_place in (False, True):
        disk = Disk(schema, changelog="changelog_producer" in options)
        buffer, router = buffer_on(disk, budget=budget), HashRouter(schema, table="t", in_place=in_place)
        for batch in batches:
            buffer.add(router.route(batch))
        done = buffer.finish()
        results.append({place: (disk.rows(files.files), disk.rows(files.changelog)) for place, files in done.items()})
    assert results[0] == results[1]


@pytest.mark.parametrize("buckets", [4, 64, 1000])
def test_rows_of_rare_buckets_do_not_keep_whole_batches(buckets: int) -> None:
    """Every batch brings a few rows of buckets that had none, and many of a bucket that had some before."""
    schema = schema_of(bucket=buckets)
    numbers = np.arange(40_000)
    of_bucket = bucket_ids([pa.array(numbers)], [AtomicType("BIGINT")], function="default", buckets=buckets)
    often = numbers[of_bucket == 0]
    rare = [int(np.argmax(of_bucket == bucket)) for bucket in range(1, min(buckets, 12))]
    buffer, router = buffer_on(Disk(schema)), HashRouter(schema, table="t", in_place=True)
    pool = pa.default_memory_pool()
    before, largest = pool.bytes_allocated(), 0
    for key in rare:
        keys = [*np.resize(often, 20_000).tolist(), key]
        batch = group([row(number) for number in keys]).rows
        largest = max(largest, batch.nbytes)
        buffer.add(router.route(batch))
        del batch
        assert pool.bytes_allocated() - before <= buffer.held_bytes + 2 * largest
    assert len(buffer.finish()) == len(rare) + 1


def row(key: int, number: int = 0, kind: int = INSERT) -> Row:
    return (key, None, number, None, kind)


def test_without_spilling_what_is_too_much_becomes_files() -> None:
    disk = Disk(schema_of())
    buffer = buffer_on(disk, budget=1, spillable=False)
    buffer.add([group([row(1), row(2)])])
    buffer.add([group([row(2), row(3)])])
    (done,) = buffer.finish().values()
    assert [[r["k"] for r in rows] for rows in disk.rows(done.files)] == [[1, 2], [2, 3]]
    assert [f.facts.min_sequence_number for f in done.files] == [0, 2]


def test_every_bucket_has_numbers_of_its_own_and_keeps_them() -> None:
    disk = Disk(schema_of())
    spec = MergeRules.of_schema(disk.schema)
    buffer = KeyedBuffer(spec, disk.new_files, lambda place: 10 * place[1], BufferLimits(1 << 30, threads=2))
    buffer.add([group([row(1), row(1)]), group([row(2)], bucket=1)])
    buffer.add([group([row(3)], bucket=1)])
    done = buffer.finish()
    facts = [
        [(f.facts.min_sequence_number, f.facts.max_sequence_number) for f in done[EMPTY_ROW, b].files] for b in (0, 1)
    ]
    assert facts == [[(1, 1)], [(10, 11)]]
    buffer.forget()
    assert buffer.finish() == {}
    buffer.add([group([row(1)]), group([row(1)], bucket=1)])
    done = buffer.finish()
    assert [done[EMPTY_ROW, b].files[0].facts.min_sequence_number for b in (0, 1)] == [2, 12]


def test_numbers_of_others_that_came_in_between_are_passed() -> None:
    disk = Disk(schema_of())
    first = iter([0, 100])
    buffer = KeyedBuffer(
        MergeRules.of_schema(disk.schema), disk.new_files, lambda _: next(first), BufferLimits(1 << 30, threads=1)
    )
    for wanted in (0, 100):
        buffer.add([group([row(1)])])
        (done,) = buffer.finish().values()
        assert done.files[0].facts.min_sequence_number == wanted
        buffer.forget()


def test_many_runs_are_merged_before_they_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyed_buffer, "RUNS_MAX", 3)
    monkeypatch.setattr(keyed_buffer, "RUN_PART", keyed_buffer.PartSize(2, 1 << 20))
    batches = [[row(k, n) for k in range(n % 3, 20, 3)] for n in range(20)]
    got = written(schema_of(), batches, budget=1)
    assert [(r["k"], r["n"]) for r in got] == [(k, max(n for n in range(20) if n % 3 == k % 3)) for k in range(20)]


def test_a_large_bucket_is_written_in_parts_that_no_key_crosses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyed_buffer, "ROW_GROUP", keyed_buffer.PartSize(4, 1 << 20))
    rows = [row(k % 9, n) for n, k in enumerate(range(50))]
    got = written(schema_of(merge_engine="aggregation", fields__n__aggregate_function="sum"), [rows])
    assert [(r["k"], r["n"]) for r in got] == [(k, sum(n for n in range(50) if n % 9 == k)) for k in range(9)]


def test_a_buffer_never_holds_more_than_its_budget() -> None:
    buffer = buffer_on(Disk(schema_of()), budget=10_000)
    for n in range(50):
        buffer.add([group([row(n * 100 + k) for k in range(50)])])
        assert buffer.held_bytes <= 10_000
    buffer.finish()
    assert buffer.held_bytes == 0


def test_discarded_files_are_returned() -> None:
    disk = Disk(schema_of())
    buffer = buffer_on(disk, budget=1, spillable=False)
    buffer.add([group([row(1)])])
    buffer.add([group([row(2)])])
    assert [done.facts.row_count for done in buffer.discard()] == [1, 1]
    assert buffer.finish() == {}
    spilling = buffer_on(disk, budget=1)
    spilling.add([group([row(1)])])
    assert spilling.discard() == []


@pytest.mark.parametrize("buckets", [1, 3])
def test_a_failure_says_which_file(buckets: int) -> None:
    disk = Disk(schema_of(), failing=True)
    buffer = buffer_on(disk)
    buffer.add([group([row(1)], bucket=b) for b in range(buckets)])
    with pytest.raises(OSError, match="no space"):
        buffer.finish()
    buffer.discard()


def test_first_row_takes_no_deletes() -> None:
    with pytest.raises(InvalidInputError, match="first-row"):
        written(schema_of(merge_engine="first-row"), [[row(1), row(1, kind=DELETE)]])


def test_parts_of_wide_rows_have_fewer_rows() -> None:
    narrow = pa.table({"v": pa.array(range(1000), pa.int64())})
    wide = pa.table({"v": ["x" * 10_000] * 100})
    size = keyed_buffer.PartSize(500, 100_000)
    assert size.rows_of(narrow) == 500
    assert 9 <= size.rows_of(wide) <= 10
    assert size.rows_of(narrow.slice(0, 0)) >= 1
