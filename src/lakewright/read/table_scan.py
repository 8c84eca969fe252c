"""`TableScan` and `Plan`: a read planned into splits.

builder = table.new_read_builder().with_filter("id > 3").with_projection(["id", "name"])
    plan = builder.new_scan().plan()
    rows = builder.new_read().to_arrow(plan.splits())

A builder changes in place and returns itself. A plan pins one snapshot; splits and reads can go to other processes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Self

from lakewright.display import HtmlRepr
from lakewright.errors import InvalidInputError, UnsupportedError, with_table_name
from lakewright.metadata.table_store import TableStore
from lakewright.read.data_split import DataSplit
from lakewright.read.fallback_branch import OtherBranch
from lakewright.read.incremental import plan_between
from lakewright.read.manifest_scan import Funnel, ScanResult, check_readable
from lakewright.read.manifest_scan import scan as scan_snapshot
from lakewright.read.split_planning import (
    deletions_of,
    id_ranges,
    limit_splits,
    plan_splits,
    shard_splits,
    shuffle_splits,
    slice_splits,
    with_row_ids,
)
from lakewright.read.time_travel import created_since, is_incremental, resolve_snapshot
from lakewright.spec import argument_checks
from lakewright.spec.predicate import TRUE, Predicate
from lakewright.spec.snapshot import Snapshot

Shape = Callable[[Sequence[DataSplit]], list[DataSplit]]


@dataclass(frozen=True, slots=True)
class Plan(HtmlRepr):
    """The splits of a read, at one snapshot."""

    snapshot_id: int | None
    _splits: tuple[DataSplit, ...]
    snapshot: Snapshot | None = None
    funnel: Funnel = field(default_factory=Funnel)

    def splits(self) -> list[DataSplit]:
        """Return the splits in reading order."""
        return list(self._splits)

    @property
    def row_count(self) -> int:
        """How many rows the files of the plan hold, deleted and filtered ones included."""
        return sum(split.row_count for split in self._splits)

    def _shown_facts(self) -> dict[str, object]:
        files = [file for split in self._splits for file in split.files]
        size, known = sum(file.file_size for file in files), self.funnel.files_total
        counts = {"splits": len(self._splits), "files": len(files), "bytes": size, "rows_in_files": self.row_count}
        return {"snapshot_id": self.snapshot_id, **counts, "files_of_the_snapshot": known or None}

    def __repr__(self) -> str:
        return f"Plan({', '.join(f'{key}={value}' for key, value in self._shown_facts().items())})"


class TableScan:
    """Plans a read."""

    _cuts_buckets = True  # whether shares may part the files of one bucket of a primary-key table

    def __init__(
        self, store: TableStore, predicate: Predicate, limit: int | None, other: OtherBranch | None = None
    ) -> None:
        self._store = store
        self._predicate = predicate
        self._limit = limit
        self._other = other
        self._shapes: list[Shape] = []

    @property
    def other_branch(self) -> OtherBranch | None:
        """The branch that is read beside the table's own."""
        return self._other

    def with_shard(self, idx_of_this_subtask: int, number_of_para_subtasks: int) -> Self:
        """Plan the share of one of several workers only; the shares have equally many rows."""
        index, count = _shard(idx_of_this_subtask, number_of_para_subtasks)
        return self._add_shape(partial(shard_splits, index=index, count=count))

    def with_slice(self, start_pos: int, end_pos: int) -> Self:
        """Plan only the rows from one position of the whole plan up to another."""
        start, end = argument_checks.check_int("start_pos", start_pos), argument_checks.check_int("end_pos", end_pos)
        return self._add_shape(partial(slice_splits, start=start, end=end))

    def with_chunk_shuffle(self, seed: int, chunk_size: int) -> Self:
        """Plan chunks of so many rows in an order that only the seed decides."""
        rows = argument_checks.check_int("chunk_size", chunk_size)
        return self._add_shape(partial(shuffle_splits, seed=argument_checks.check_int("seed", seed), chunk_rows=rows))

    def with_row_ranges(self, row_ranges: Sequence[tuple[int, int]]) -> Self:
        """Plan only the rows whose `_ROW_ID` is in one of the ranges `(first, last)`, both ends included."""
        with with_table_name(self._store.name):
            if not self._store.options.row_tracking_enabled:
                raise InvalidInputError(
                    f"{self._store.name}: rows have ids only with 'row-tracking.enabled'; use with_slice or a filter",
                    table=self._store.name,
                )
            return self._add_shape(partial(with_row_ids, ranges=id_ranges(row_ranges)))

    def _add_shape(self, shape: Shape) -> Self:
        shape([])  # a shape that cannot be is refused here, not when the plan is made
        self._shapes.append(shape)
        return self

    def plan(self) -> Plan:
        """Pick the snapshot and plan its splits; the plan of a table that was never written has none."""
        check_readable(self._store)
        if is_incremental(self._store.options):
            self._refuse_changes_of_branches()
            changes = plan_between(self._store, self._predicate)
            return self._plan(changes.snapshot, list(changes.splits), changes.funnel)
        if self._other is not None:
            return self._plan_branches(self._other)
        snapshot = resolve_snapshot(self._store)
        if snapshot is None:
            self._store.check_same_table()
            return Plan(None, ())
        result = created_since(self._store, scan_snapshot(self._store, snapshot, self._predicate))
        return self._plan(snapshot, self._splits(self._store, snapshot, result), result.funnel)

    def _splits(self, store: TableStore, snapshot: Snapshot, result: ScanResult) -> list[DataSplit]:
        name = snapshot.index_manifest
        index = [] if name is None else store.manifests.read_index(name, snapshot=snapshot)
        apart = self._cuts_buckets and bool(self._shapes)
        return plan_splits(store, snapshot.id, result.found, deletions_of(store, index), apart=apart)

    def _plan_branches(self, other: OtherBranch) -> Plan:
        """Plan the partitions of the branch that comes first, then those that only the other one has."""
        check_readable(other.store)
        shown: Snapshot | None = None
        splits: list[DataSplit] = []
        funnel, taken = Funnel(), frozenset[bytes]()
        for store in (other.store, self._store) if other.comes_first else (self._store, other.store):
            snapshot = resolve_snapshot(store)
            if snapshot is None:
                store.check_same_table()
                continue
            result = scan_snapshot(store, snapshot, self._predicate, without=taken, list_partitions=True)
            taken |= result.partitions
            funnel += result.funnel
            is_own = store is self._store
            shown = snapshot if is_own else shown
            found = self._splits(store, snapshot, created_since(store, result))
            splits += found if is_own else [replace(split, branch=other.name) for split in found]
        return self._plan(shown, splits, funnel)

    def _refuse_changes_of_branches(self) -> None:
        if self._other is not None:
            raise UnsupportedError(
                f"{self._store.name}: what changed between two snapshots is known of one branch alone, and the table "
                f"is read together with {self._other.name}; read the changes of a copy with 'scan.fallback-branch' and "
                "'scan.primary-branch' set to ''",
                table=self._store.name,
                branch=self._other.name,
            )

    def _plan(self, snapshot: Snapshot | None, splits: list[DataSplit], funnel: Funnel) -> Plan:
        """Give splits the shapes that were asked for, and stop where they surely hold enough rows."""
        with with_table_name(self._store.name):
            for shape in self._shapes:
                splits = shape(splits)
        if self._limit is not None and self._predicate == TRUE:
            splits = limit_splits(splits, self._limit)
        return Plan(None if snapshot is None else snapshot.id, tuple(splits), snapshot, funnel)


def _shard(index: object, count: object) -> tuple[int, int]:
    return argument_checks.check_int("idx_of_this_subtask", index), argument_checks.check_int(
        "number_of_para_subtasks", count
    )
