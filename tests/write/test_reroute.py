"""Two writers that race into dynamic buckets both commit: the loser's rows are put into the buckets of the winner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

import lakewright as lw
from lakewright.commit.table_commit import REROUTES_MAX
from lakewright.metadata.table_store import TableStore
from lakewright.table.write_builder import BatchTableWrite
from lakewright.write import table_writer
from lakewright.write.table_writer import reroute_messages

COLUMNS = pa.schema({"id": pa.int64(), "day": pa.string(), "n": pa.int64()})
DYNAMIC = {"bucket": "-1", "dynamic-bucket.target-row-num": "3", "write-only": "true"}


def _table(root: Path, *, partitioned: bool, **options: str) -> lw.FileStoreTable:
    catalog = lw.CatalogFactory.create({"warehouse": str(root)})
    catalog.create_database("d")
    parts, keys = (["day"], ["id", "day"]) if partitioned else ([], ["id"])
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(COLUMNS, parts, keys, {**DYNAMIC, **options}))
    return catalog.get_table("d.t")


def _rows(ids: range, n: int) -> pa.Table:
    return pa.table({"id": list(ids), "day": [f"d{i % 2}" for i in ids], "n": [n] * len(ids)}, schema=COLUMNS)


def _overtaken_by(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Let somebody else commit between the writing and the commit of the next write."""
    prepare, acts = BatchTableWrite.prepare_commit, [act]

    def late(self: BatchTableWrite) -> list[lw.CommitMessage]:
        messages = prepare(self)
        if acts:
            acts.pop()()
        return messages

    monkeypatch.setattr(BatchTableWrite, "prepare_commit", late)


def _check(table: lw.FileStoreTable, expected: dict[int, int]) -> None:
    found = lw.read_table(table)
    assert dict(zip(found["id"].to_pylist(), found["n"].to_pylist(), strict=True)) == expected
    assert found.num_rows == len(expected)
    # No key is in two buckets.
    places: Counter[int] = Counter()
    for split in table.new_read_builder().new_scan().plan().splits():
        ids = table.new_read_builder().new_read().to_arrow([split])["id"].to_pylist()
        places.update(set(ids))
    assert set(places.values()) == {1}


def _data_files(table: lw.FileStoreTable) -> int:
    return len(list(Path(table.table_path).rglob("data-*")))


@pytest.mark.parametrize("partitioned", [False, True])
def test_a_write_that_lost_the_race_for_buckets_is_routed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, partitioned: bool
) -> None:
    table = _table(tmp_path, partitioned=partitioned)
    lw.write_table(_rows(range(4), 0), table)
    rival = _rows(range(6, 20), 2)
    _overtaken_by(monkeypatch, lambda: lw.write_table(rival, table))
    result = lw.write_table(_rows(range(2, 12), 1), table)
    assert (result.snapshot_id, result.rows) == (3, 10)
    expected = dict.fromkeys(range(2), 0) | dict.fromkeys(range(12, 20), 2) | dict.fromkeys(range(2, 12), 1)
    _check(table, expected)
    live = sum(len(split.files) for split in table.new_read_builder().new_scan().plan().splits())
    assert _data_files(table) == live  # what the loser wrote first is gone


@pytest.mark.parametrize("times", [3, REROUTES_MAX + 1])
def test_a_race_is_lost_again_and_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    table = _table(tmp_path, partitioned=False)
    starts = list(range(100, 100 + 10 * times, 10))
    expected = {i: 7 for start in starts for i in range(start, start + 5)}

    def rival() -> None:
        if starts:
            lw.write_table(_rows(range(start := starts.pop(), start + 5), 7), table)

    def overtaken(store: TableStore, messages: Sequence[lw.CommitMessage], lost: int) -> list[lw.CommitMessage]:
        messages = reroute_messages(store, messages, lost)
        rival()
        return messages

    monkeypatch.setattr(table_writer, "reroute_messages", overtaken)
    data = _rows(range(10), 1)
    _overtaken_by(monkeypatch, rival)
    if times > REROUTES_MAX:
        with pytest.raises(lw.CommitConflictError, match="buckets of the same partition"):
            lw.write_table(data, table, job_id="j")
    else:
        lw.write_table(data, table, job_id="j")
        assert lw.write_table(_rows(range(10), 1), table, job_id="j").replayed
        expected |= dict.fromkeys(range(10), 1)
    _check(table, expected)
    live = sum(len(split.files) for split in table.new_read_builder().new_scan().plan().splits())
    assert _data_files(table) == live


def test_deletes_are_routed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _table(tmp_path, partitioned=False)
    lw.write_table(_rows(range(6), 0), table)
    _overtaken_by(monkeypatch, lambda: lw.write_table(_rows(range(6, 12), 2), table))
    lw.write_table(_rows(range(4), 0).select(["id"]), table, mode="delete")
    _check(table, {4: 0, 5: 0} | dict.fromkeys(range(6, 12), 2))


def test_messages_in_other_hands_conflict_as_before(tmp_path: Path) -> None:
    table = _table(tmp_path, partitioned=False)
    builder = table.new_batch_write_builder()
    messages = builder.new_write().write_arrow(_rows(range(4), 1)).prepare_commit()
    lw.write_table(_rows(range(2, 6), 2), table)
    with pytest.raises(lw.CommitConflictError, match="write"):
        builder.new_commit().commit(messages)
