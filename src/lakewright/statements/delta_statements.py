"""The upkeep statements of Delta Lake as values that run: OPTIMIZE, VACUUM, RESTORE, DESCRIBE HISTORY."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import pyarrow as pa

from lakewright.compact.compaction_job import partition_predicate
from lakewright.errors import InvalidInputError
from lakewright.statements.sql_session import Session, with_position
from lakewright.statements.sql_text import Args, Fragment, Name
from lakewright.statements.statements import CatalogCommand
from lakewright.statements.table_commands import changeable
from lakewright.table.file_store_table import FileStoreTable

_ORPHAN_AGE = timedelta(days=1)  # files of writers that still run are younger
_NOW = timedelta(milliseconds=1)  # the smallest age
_OPTIMIZED = pa.schema(
    [
        ("path", pa.string()),
        ("metrics", pa.struct({"numFilesAdded": pa.int64(), "numFilesRemoved": pa.int64(), "numRows": pa.int64()})),
    ]
)
_VACUUMED = pa.schema([("kind", pa.string()), ("path", pa.string())])
_RESTORED = pa.schema([("version", pa.int64()), ("restored_version", pa.int64())])
_HISTORY = pa.schema(
    [
        ("version", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("userName", pa.string()),
        ("operation", pa.string()),
        ("operationMetrics", pa.map_(pa.string(), pa.string())),
    ]
)


@dataclass(frozen=True, slots=True)
class Optimize(CatalogCommand):
    """OPTIMIZE table [FULL] [WHERE condition] [ZORDER BY (a, b)]: a compaction."""

    name: Name
    full: bool = False
    where: Fragment | None = None
    columns: tuple[Name, ...] = ()

    def run(self, session: Session, args: Args) -> pa.Table:
        """Compact the table, and return how many files went and came."""
        _, _, table = changeable(session, self.name)
        chosen: dict[str, object] = {"full": self.full}
        if self.where is not None:
            if args:
                raise self.where.error("the condition of OPTIMIZE takes no parameters", kind=InvalidInputError)
            with with_position(self.where):
                chosen["where"] = partition_predicate(table.refreshed().store, self.where.text)
        if self.columns:
            chosen |= {"order_by": [str(one) for one in self.columns], "strategy": "zorder"}
        with with_position(self.name.place, {str(one): one.place for one in self.columns}):
            done = session.compact(table, **chosen)
        metrics = {"numFilesAdded": done.files_after, "numFilesRemoved": done.files_before, "numRows": done.rows}
        return pa.Table.from_pylist([{"path": table.table_path, "metrics": metrics}], _OPTIMIZED)


@dataclass(frozen=True, slots=True)
class Vacuum(CatalogCommand):
    """VACUUM table [RETAIN n HOURS] [DRY RUN]: an expiry, and the removal of files that nothing names."""

    name: Name
    retained: timedelta
    dry_run: bool = False

    def run(self, session: Session, args: Args) -> pa.Table:  # noqa: ARG002 - it has no parameters
        """Remove snapshots that are older than the time, then orphans, and return what went or would go."""
        _, _, table = changeable(session, self.name)
        expired = table.expire_snapshots(retain_min=1, older_than=max(self.retained, _NOW), dry_run=self.dry_run)
        age = max(self.retained, _ORPHAN_AGE)
        orphans = table.remove_orphan_files(older_than=age, dry_run=self.dry_run)
        root = table.table_path
        rows = [{"kind": "snapshot", "path": f"{root}/snapshot/snapshot-{one}"} for one in expired.snapshot_ids]
        rows += [{"kind": "file", "path": path} for path in orphans.paths]
        return pa.Table.from_pylist(rows, _VACUUMED)


@dataclass(frozen=True, slots=True)
class Restore(CatalogCommand):
    """RESTORE TABLE table TO VERSION | TIMESTAMP AS OF value: the old state as a new snapshot."""

    name: Name
    target: int | str | Fragment  # a snapshot, a tag, or a time

    def run(self, session: Session, args: Args) -> pa.Table:
        """Publish the state as a new snapshot, and return both ids."""
        _, _, table = changeable(session, self.name)
        with with_position(self.name.place):
            target, snapshot_id = self._snapshot(table, session, args)
            done = table.rollback_to_as_latest(target)
        return pa.Table.from_pylist([{"version": done.id, "restored_version": snapshot_id}], _RESTORED)

    def _snapshot(self, table: FileStoreTable, session: Session, args: Args) -> tuple[int | str, int]:
        """Return the snapshot or the tag, and the id of the snapshot."""
        match self.target:
            case Fragment():
                found = table.store.snapshots.at_timestamp(session.moment(self.target, args)).id
                return found, found
            case str():
                return self.target, table.store.tags.get(self.target).snapshot.id
            case _:
                return self.target, self.target


@dataclass(frozen=True, slots=True)
class DescribeHistory(CatalogCommand):
    """DESCRIBE HISTORY table [LIMIT n]: the snapshots under the column names of Delta Lake."""

    name: Name
    limit: int | None = None

    def run(self, session: Session, args: Args) -> pa.Table:  # noqa: ARG002 - it has no parameters
        """Return the snapshots, the newest first."""
        _, _, table = changeable(session, self.name)
        snapshots = table.refreshed().store.snapshots
        ids = sorted(snapshots.ids(), reverse=True)[: self.limit]
        rows = []
        for one in (snapshots.find(snapshot_id) for snapshot_id in ids):
            if one is None:  # it expired meanwhile
                continue
            metrics = {"totalRecords": one.total_record_count, "deltaRecords": one.delta_record_count}
            rows.append({
                "version": one.id,
                "timestamp": one.time_millis * 1000,
                "userName": one.commit_user,
                "operation": str(one.commit_kind),
                "operationMetrics": [(name, str(value)) for name, value in metrics.items() if value is not None],
            })  # fmt: skip
        return pa.Table.from_pylist(rows, _HISTORY)
