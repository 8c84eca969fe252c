"""Sorted compaction on engines: what must hold when several workers sort one partition, and of what is chosen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pytest

import lakewright as lw
from lakewright.catalog.database_compaction import DatabaseCompaction
from lakewright.commit.commit_message import CommitMessage
from lakewright.compact import compaction_job, sort_compaction
from lakewright.compact.compaction_rounds import CompactResult, RoundEnd, publish_fitting
from lakewright.metadata.table_store import TableStore
from lakewright.spec.column_stats import field_stats
from lakewright.spec.manifest import DataFile
from lakewright.spec.snapshot import Snapshot
from support.effort import some
from support.spark_writes import assert_tidy
from support.traps import TrapStorage, trapped

Compact: TypeAlias = Callable[..., CompactResult]
CompactDatabase: TypeAlias = Callable[..., DatabaseCompaction]
COLUMNS = pa.schema({"p": pa.string(), "x": pa.int64(), "y": pa.float64(), "id": pa.int64()})
OPTIONS = {"target-file-row-num": "400", "file.block-size": "4 kb"}
ROWS = 2000  # of a commit, half of them in each partition
COMMITS = 4


def points(root: Path, options: dict[str, str], *, partitions: bool = False) -> lw.FileStoreTable:
    """Return a table of points in no order; with partitions those of `b` are few."""
    catalog = lw.CatalogFactory.create({"warehouse": str(root)})
    catalog.create_database("d")
    keys = ["p"] if partitions else []
    catalog.create_table(
        "d.t", lw.Schema.from_pyarrow_schema(COLUMNS, partition_keys=keys, options={**OPTIONS, **options})
    )
    table = catalog.get_table("d.t")
    rng = np.random.default_rng(1)
    for number in range(COMMITS):
        ids = np.arange(ROWS) + number * ROWS
        columns = {
            "p": np.where(ids % 20 == 0, "b", "a"),
            "x": rng.integers(0, 1000, ROWS),
            "y": rng.random(ROWS),
            "id": ids,
        }
        lw.write_table(pa.table(columns, COLUMNS), table)
    return table


def contents(table: lw.FileStoreTable) -> list[tuple[object, ...]]:
    """Return all rows, in an order of their own."""
    return sorted(tuple(row.values()) for row in lw.read_table(table).to_pylist())


def live_files(table: lw.FileStoreTable) -> list[DataFile]:
    """Return the data files of the newest snapshot."""
    snapshot = table.snapshot()
    assert snapshot is not None
    return [entry.file for entry in table.store.manifests.live(snapshot)]


def kinds(table: lw.FileStoreTable) -> list[str]:
    """Return what each snapshot is, in order."""
    snapshots = table.store.snapshots
    return [snapshots.get(number).commit_kind.value for number in sorted(snapshots.ids())]


def writers_of(table: lw.FileStoreTable) -> set[str]:
    """Return the numbers of the tasks that wrote the live files: they follow the id of the write in each name."""
    return {file.file_name.removeprefix("data-").split("-")[5] for file in live_files(table)}


def opened(table: lw.FileStoreTable, where: str) -> int:
    """Return how many files a query opens."""
    found = table.new_read_builder().with_filter(where).new_scan().plan().splits()
    return sum(len(split.files) for split in found)


def before_publishing(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Let something happen once, when the files are written and the first commit of a compaction begins."""
    publish, acts = publish_fitting, [act]

    def interrupted(store: TableStore, base: Snapshot, messages: list[CommitMessage]) -> RoundEnd:
        if acts:
            acts.pop()()
        return publish(store, base, messages)

    monkeypatch.setattr(compaction_job, "publish_fitting", interrupted)


class SortCases:
    """Tests of the fixture `compact`: a table and the arguments of `compact` in, the result out."""

    @pytest.fixture(autouse=True)
    def small_parts(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let several workers share even few rows."""
        monkeypatch.setattr(sort_compaction, "PART_BYTES_MIN", 1)

    @pytest.mark.parametrize("strategy", some(["order", "zorder", "hilbert"], 0))
    def test_several_workers_sort_one_partition(self, compact: Compact, tmp_path: Path, strategy: str) -> None:
        table = points(tmp_path, {})
        before = contents(table)
        result = compact(table, order_by=["x", "y"], strategy=strategy)
        assert (result.rows, result.partitions, result.files_before) == (ROWS * COMMITS, 1, 20)
        assert contents(table) == before
        assert kinds(table)[-2:] == ["APPEND", "COMPACT"]
        files = live_files(table)
        assert len(writers_of(table)) >= 3
        assert max(file.row_count for file in files) <= 400
        assert len(files) <= ROWS * COMMITS / 400 * 1.4
        assert opened(table, "x = 300 AND y > 0.3 AND y < 0.31") <= 3
        numbers = [(file.min_sequence_number, file.max_sequence_number) for file in files]
        assert numbers == sorted(numbers)
        if strategy == "order":
            bounds = [field_stats(file, "x", table.fields) for file in files]
            ends = [end for bound in bounds if bound is not None for end in (bound.min, bound.max)]
            assert len(ends) == 2 * len(files)
            assert ends == sorted(ends, key=lambda end: int(str(end)))
            keys = [tuple(row.values()) for row in lw.read_table(table, columns=["x", "y"]).to_pylist()]
            assert keys == sorted(keys)
        assert_tidy(table)

    @pytest.mark.nightly
    def test_an_append_in_the_meantime_stays(
        self, compact: Compact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        table = points(tmp_path, {})
        late = pa.table({"p": ["a"], "x": [1], "y": [0.5], "id": [-1]}, COLUMNS)
        before = contents(table)
        before_publishing(monkeypatch, lambda: lw.write_table(late, table))
        compact(table, order_by="x")
        assert contents(table) == sorted([*before, ("a", 1, 0.5, -1)])
        assert kinds(table)[-2:] == ["APPEND", "COMPACT"]
        assert_tidy(table)

    @pytest.mark.nightly
    def test_a_change_in_the_meantime_loses_only_its_partition(
        self, compact: Compact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        options = {"deletion-vectors.enabled": "true", "row-tracking.enabled": "true"}
        table = points(tmp_path, options, partitions=True)
        table.delete("id < 100")
        columns = ["_ROW_ID", "_SEQUENCE_NUMBER", "p", "x", "y", "id"]

        def rows() -> list[dict[str, object]]:
            return sorted(lw.read_table(table, columns=columns).to_pylist(), key=lambda row: row["_ROW_ID"])

        before = rows()
        before_publishing(monkeypatch, lambda: table.delete("id = 101 AND p = 'a'"))
        result = compact(table, order_by=["x", "y"], strategy="zorder")
        assert rows() == [row for row in before if row["id"] != 101]
        assert kinds(table).count("COMPACT") == 2  # one without the partition that changed, and one with it alone
        assert (result.partitions, result.rows, result.skipped) == (2, ROWS * COMMITS - 101, ())
        assert_tidy(table)

    @pytest.mark.nightly
    def test_only_what_is_chosen_is_compacted(self, compact: Compact, tmp_path: Path) -> None:
        table = points(tmp_path, {}, partitions=True)
        before, snapshot = contents(table), table.snapshot()
        assert compact(table, full=True, idle="1 day").is_empty
        plan = compact(table, order_by="x", idle="1 ms", dry_run=True)
        assert [(one.partition, one.files_before, one.rows) for one in plan.details] == [
            ("p=a", 20, 7600),
            ("p=b", 4, 400),
        ]
        assert (plan.partitions, plan.files_before, plan.rows, plan.dry_run) == (2, 24, ROWS * COMMITS, True)
        assert table.snapshot() == snapshot
        assert compact(table, order_by="x", where="p = 'b'").partitions == 1
        assert compact(table, order_by="x", partitions={"p": "b"}).rows == 400
        with pytest.raises(lw.InvalidInputError, match="only use the partition columns p"):
            compact(table, where="x = 1")
        assert contents(table) == before

    def test_all_tables_of_a_database(self, compact_database: CompactDatabase, tmp_path: Path) -> None:
        table = points(tmp_path, {"target-file-row-num": "100000"})
        catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
        before, snapshot = contents(table), table.snapshot()
        plan = compact_database(catalog, "d", full=True, idle="1 day", dry_run=True)
        assert [(name, one.dry_run, one.files_before) for name, one in plan.tables.items()] == [("d.t", True, COMMITS)]
        assert table.snapshot() == snapshot
        assert compact_database(catalog, "d", excluding=r"d\.t", full=True).tables == {}
        done = compact_database(catalog, including=r"d\..*", full=True)
        assert (done.tables["d.t"].rows, dict(done.failed)) == (ROWS * COMMITS, {})
        assert contents(table) == before
        with pytest.raises(lw.InvalidInputError, match="excluding"):
            compact_database(catalog, excluding="(")

    def test_a_worker_that_dies_is_replaced(self, compact: Compact, tmp_path: Path) -> None:
        table = points(tmp_path, {})
        before = contents(table)
        trap = TrapStorage(durable=False, deed="exit", marks=str(tmp_path / "marks"))
        compact(trapped(table, trap), order_by="x")
        assert (tmp_path / "marks" / "0").exists()
        assert contents(table) == before
        assert_tidy(table)

    @pytest.mark.nightly
    def test_a_file_that_is_gone_is_named_and_nothing_stays(self, compact: Compact, tmp_path: Path) -> None:
        table = points(tmp_path, {})
        snapshot, gone = table.snapshot(), next(tmp_path.rglob("data-*"))
        gone.unlink()
        with pytest.raises(lw.LakewrightError, match=gone.name):
            compact(table, order_by="x")
        assert table.snapshot() == snapshot
        assert len(list(tmp_path.rglob("data-*"))) == 19
