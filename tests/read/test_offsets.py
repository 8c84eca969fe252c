"""Offsets of streams, without Spark: the same two offsets give the same rows, whatever happens in between."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest

import lakewright as lw
from lakewright.read.data_split import DataSplit
from lakewright.read.stream_read import PASSED_MAX, Limits, Offset, Steps, StreamReadBuilder
from support.effort import each_once

EVERYTHING = Limits()
ONE_FILE_EACH = {"source.split.target-size": "1 b", "source.split.open-file-cost": "1 b"}


def _table(path: Path, options: Mapping[str, str] | None = None, *, keyed: bool = False) -> lw.FileStoreTable:
    catalog = lw.CatalogFactory.create({"warehouse": str(path)})
    catalog.create_database("d", ignore_if_exists=True)
    columns = pa.schema({"id": pa.int64(), "n": pa.int64()})
    given = {**(options or {}), **({"bucket": "2"} if keyed else {})}
    schema = lw.Schema.from_pyarrow_schema(columns, primary_keys=["id"] if keyed else None, options=given)
    catalog.create_table("d.t", schema)
    return catalog.get_table("d.t")


def _write(table: lw.FileStoreTable, number: int) -> None:
    lw.write_table(pa.table({"id": [number * 2, number * 2 + 1], "n": [number, number]}), table)


def _ids(table: lw.FileStoreTable, splits: list[DataSplit]) -> list[int]:
    found: list[int] = StreamReadBuilder(table.store).new_read().to_arrow(splits)["id"].to_pylist()
    return found


def _chained(batches: list[list[int]]) -> list[int]:
    return list(itertools.chain.from_iterable(batches))


def _follow(table: lw.FileStoreTable, start: Offset, limits: Limits) -> list[list[int]]:
    """Read batch by batch, each in a process of its own as it were."""
    batches = []
    while (end := Steps(table.store).advance(start, limits)) != start:
        start = Offset.from_json(json.loads(json.dumps(start.to_json())))
        batches.append(_ids(table, Steps(table.store).between(start, end)))
        start = end
    return batches


def test_a_stream_begins_with_the_state_and_goes_on_with_changes(tmp_path: Path) -> None:
    table = _table(tmp_path)
    for number in range(3):
        _write(table, number)
    begin = Steps(table.store).begin()
    assert begin == Offset(3, full=True)
    _write(table, 3)
    _write(table, 4)
    assert _follow(table, begin, EVERYTHING) == [list(range(10))]
    end = Steps(table.store).advance(begin, EVERYTHING)
    assert end == Offset(6)
    assert Steps(table.store).advance(end, EVERYTHING) == end


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"scan.mode": "latest"}, Offset(4)),
        ({"scan.mode": "latest-full"}, Offset(3, full=True)),
        ({"scan.snapshot-id": "2"}, Offset(2)),
        ({"scan.mode": "from-snapshot-full", "scan.snapshot-id": "2"}, Offset(2, full=True)),
        ({"scan.timestamp-millis": "0"}, Offset(1)),
    ],
)
def test_where_a_stream_begins(tmp_path: Path, options: dict[str, str], expected: Offset) -> None:
    table = _table(tmp_path)
    for number in range(3):
        _write(table, number)
    assert Steps(table.copy(options).store).begin() == expected


def test_a_stream_of_a_table_that_was_never_written_begins_with_its_first_snapshot(tmp_path: Path) -> None:
    table = _table(tmp_path)
    begin = Steps(table.store).begin()
    assert Steps(table.store).advance(begin, EVERYTHING) == begin
    _write(table, 0)
    assert _follow(table, begin, EVERYTHING) == [[0, 1]]


@pytest.mark.parametrize(
    ("limits", "keyed"),
    each_once([Limits(files=1), Limits(rows=3), Limits(bytes=1), Limits(files=2, rows=1000)], [False, True]),
)
def test_limits_cut_the_first_state_and_the_changes(tmp_path: Path, limits: Limits, keyed: bool) -> None:
    table = _table(tmp_path, ONE_FILE_EACH, keyed=keyed)
    for number in range(3):
        _write(table, number)
    begin = Steps(table.store).begin()
    for number in range(3, 6):
        _write(table, number)
    batches = _follow(table, begin, limits)
    assert sorted(_chained(batches)) == list(range(12))
    assert max(map(len, batches)) <= (4 if limits.files == 2 else 3)


def test_any_way_of_cutting_gives_the_same_rows_in_the_same_order(tmp_path: Path) -> None:
    table = _table(tmp_path, ONE_FILE_EACH, keyed=True)
    for number in range(4):
        _write(table, number)
    begin = Steps(table.store).begin()
    for number in range(4):
        lw.write_table(pa.table({"id": [number, 100 + number], "n": [50 + number] * 2}), table)
    whole = _chained(_follow(table, begin, EVERYTHING))
    dice = random.Random(5)
    for _ in range(8):
        limits = Limits(files=dice.randint(1, 5), rows=dice.randint(1, 20))
        assert _chained(_follow(table, begin, limits)) == whole


def test_available_now_ends_at_the_snapshot_it_was_given(tmp_path: Path) -> None:
    table = _table(tmp_path)
    for number in range(4):
        _write(table, number)
    steps = Steps(table.copy({"scan.snapshot-id": "1"}).store)
    end = steps.advance(steps.begin(), EVERYTHING, last=2)
    assert (end, steps.advance(end, EVERYTHING, last=2)) == (Offset(3), Offset(3))


def test_compactions_make_no_batch_until_there_are_many(tmp_path: Path) -> None:
    table = _table(tmp_path, {"num-sorted-run.compaction-trigger": "1000"}, keyed=True)
    _write(table, 0)
    steps = Steps(table.store)
    start = steps.advance(steps.begin(), EVERYTHING)
    assert start == Offset(2)
    for number in range(1, PASSED_MAX):
        lw.write_table(pa.table({"id": [0], "n": [number]}), table.copy({"write-only": "true"}), mode="overwrite")
        assert steps.advance(start, EVERYTHING) == start, "overwriting is no change that a stream tells"
    lw.write_table(pa.table({"id": [0], "n": [99]}), table, mode="overwrite")
    assert steps.advance(start, EVERYTHING) == Offset(2 + PASSED_MAX)
    assert steps.between(start, Offset(2 + PASSED_MAX)) == []
    _write(table, 7)
    assert _ids(table, steps.between(start, steps.advance(start, EVERYTHING))) == [14, 15]


def test_a_snapshot_that_expired_underneath_is_an_error(tmp_path: Path) -> None:
    table = _table(tmp_path)
    for number in range(5):
        _write(table, number)
    table.expire_snapshots(retain_max=2, retain_min=1)
    with pytest.raises(lw.errors.NotFoundError, match="snapshot 2 has expired"):
        Steps(table.store).advance(Offset(2), EVERYTHING)
    with pytest.raises(lw.errors.NotFoundError, match="snapshot 2 has expired"):
        Steps(table.store).between(Offset(2), Offset(5))
    with pytest.raises(lw.errors.NotFoundError, match="2"):
        Steps(table.store).between(Offset(2, full=True), Offset(3))


def test_a_tag_keeps_the_state_that_a_stream_begins_with(tmp_path: Path) -> None:
    table = _table(tmp_path)
    for number in range(4):
        _write(table, number)
    table.create_tag("start", snapshot_id=2)
    tagged = table.copy({"scan.mode": "from-snapshot-full", "scan.tag-name": "start"})
    begin = Steps(tagged.store).begin()
    table.expire_snapshots(retain_max=1, retain_min=1)
    assert _ids(table, Steps(tagged.store).between(begin, Offset(3))) == [0, 1, 2, 3]


def test_a_table_that_was_rolled_back_is_an_error_and_no_smaller_batch(tmp_path: Path) -> None:
    table = _table(tmp_path)
    for number in range(4):
        _write(table, number)
    for snapshot_id in (3, 4):
        table.store.storage.delete(table.store.layout.snapshot_file(snapshot_id))
    table.store.snapshots.write_latest_hint(2)
    with pytest.raises(lw.errors.NotFoundError, match="rolled back"):
        Steps(table.store).between(Offset(2), Offset(5))


def test_a_plan_that_changed_in_the_middle_of_a_step_is_an_error(tmp_path: Path) -> None:
    table = _table(tmp_path, ONE_FILE_EACH)
    for number in range(4):
        _write(table, number)
    end = Steps(table.store).advance(Offset(4, full=True), Limits(files=2))
    assert end == Offset(4, full=True, split=2, splits=4)
    larger = table.copy({"source.split.target-size": "128 mb"})
    with pytest.raises(lw.errors.InvalidInputError, match="split 2 of 4 of snapshot 4, which now has 1"):
        Steps(larger.store).between(end, Offset(5))


@pytest.mark.parametrize("damaged", [{}, {"snapshot": "3"}, {"offset": 3}])
def test_foreign_offsets_are_refused(damaged: dict[str, object]) -> None:
    with pytest.raises(lw.errors.InvalidInputError, match="no offset of a lakewright stream"):
        Offset.from_json(damaged)


def test_a_consumer_is_recorded_once_the_first_state_is_read(tmp_path: Path) -> None:
    table = _table(tmp_path)
    for number in range(3):
        _write(table, number)
    steps = Steps(table.store, consumer_id="billing")
    steps.record(Offset(3, full=True, split=1, splits=2))
    assert table.store.consumers.next_snapshot("billing") is None
    steps.record(Offset(4))
    assert table.store.consumers.next_snapshot("billing") == 4
    _write(table, 3)
    assert Steps(table.store, consumer_id="billing").begin() == Offset(4)
