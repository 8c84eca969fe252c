"""ANALYZE: a table in; the statistics of its newest state as a file, and one snapshot that names it, out.

What always holds: rows are counted as a reader sees them, merged and without deleted ones; a commit that comes between
the count and the snapshot does not matter, but a change of the schema, or a rollback, has all counted again.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from lakewright.commit.committer import Committer
from lakewright.commit.files import WrittenFile
from lakewright.commit.retry import Retries, publish_on_newest
from lakewright.display.notebook import InNotebook
from lakewright.errors import ColumnNotExistException, InvalidInputError, UnsupportedError
from lakewright.maintenance.statistics.columns import RowCounts, has_statistics
from lakewright.metadata.statistics import ColumnStatistics, TableStatistics
from lakewright.metadata.store import TableStore
from lakewright.read.builder import ReadBuilder
from lakewright.read.scan import travels
from lakewright.read.splits.split import DataSplit
from lakewright.spec import arguments
from lakewright.spec.snapshot import Snapshot
from lakewright.spec.types import DataField

Columns: TypeAlias = str | Sequence[str] | None  # a name, names, or `all`
# How rows are counted: the table, splits, and the columns to count in; what was counted out.
CountRows: TypeAlias = Callable[[TableStore, Sequence[DataSplit], Sequence[DataField]], RowCounts]
ALL = "all"


@dataclass(frozen=True, slots=True)
class AnalyzeResult(InNotebook):
    """What was found, and the snapshot that records it."""

    snapshot_id: int | None  # None: the table has no snapshot yet, so there was nothing to analyze
    analyzed_id: int | None  # the snapshot whose rows were counted
    rows: int
    size: int  # bytes of the data files that these rows make up
    columns: Mapping[str, ColumnStatistics]
    seconds: float


@dataclass(frozen=True, slots=True)
class _Counted:
    """Statistics that are not published yet."""

    store: TableStore  # with the schema whose columns were counted
    of: Snapshot
    found: TableStatistics


def count_here(store: TableStore, splits: Sequence[DataSplit], columns: Sequence[DataField]) -> RowCounts:
    """Count the rows of splits, and the values of columns, in this process."""
    counts = RowCounts.of(columns)
    names = [column.name for column in columns] or [next(iter(store.schema.primary_keys), store.schema.fields[0].name)]
    reader = ReadBuilder(store).with_projection(names).new_read().to_arrow_batch_reader(splits)
    for batch in reader:
        counts.add(batch)
    return counts


def analyze_table(store: TableStore, columns: Columns, count: CountRows = count_here) -> AnalyzeResult:
    """Count the rows of the newest snapshot, and the values of columns, and publish what was counted."""
    if travels(store):
        raise InvalidInputError(
            f"{store.name}: statistics are those of the newest snapshot; analyze the table without its scan options",
            table=store.name,
        )
    started = time.monotonic()
    chosen_columns(store, columns)  # before any work

    def prepare(_: Snapshot | None) -> _Counted | None:
        newest = store.refreshed()
        plan = ReadBuilder(newest).new_scan().plan()
        if plan.snapshot is None:
            return None
        chosen = chosen_columns(newest, columns)
        return _Counted(newest, plan.snapshot, _statistics(newest, plan.snapshot, plan.splits(), chosen, count))

    def publish(made: _Counted | None, _: Snapshot | None) -> Snapshot | None:
        if made is None:
            return None
        file = write_statistics(made.store, made.found)
        return Committer(made.store, sole=True).name_statistics(file, of=made.of, schema_id=made.found.schema_id)

    attempt = publish_on_newest(store, prepare, publish, Retries.of(store))
    seconds = time.monotonic() - started
    if attempt.made is None or attempt.published is None:
        return AnalyzeResult(None, None, 0, 0, {}, seconds)
    found = attempt.made.found
    return AnalyzeResult(
        attempt.published.id, found.snapshot_id, found.row_count or 0, found.size or 0, found.columns, seconds
    )


def chosen_columns(store: TableStore, columns: object) -> tuple[DataField, ...]:
    """Return the columns that a caller names: None is no column, `all` all that can have statistics."""
    if columns is None:
        return ()
    if isinstance(columns, str) and columns == ALL and ALL not in {field.name for field in store.schema.fields}:
        return tuple(field for field in store.schema.fields if has_statistics(field.type))
    known = {field.name: field for field in store.schema.fields}
    names = arguments.names("columns", columns)
    for name in names:
        if name not in known:
            hint = arguments.did_you_mean(name, list(known))
            raise ColumnNotExistException(f"{store.name} has no column {name!r}; {hint}", column=name)
        if not has_statistics(known[name].type):
            kind = known[name].type
            message = f"{store.name}: the column {name} is {kind}, and the format has no statistics of such values"
            raise UnsupportedError(f"{message}; leave it out", column=name)
    return tuple(known[name] for name in dict.fromkeys(names))


def _statistics(
    store: TableStore,
    snapshot: Snapshot,
    splits: Sequence[DataSplit],
    columns: Sequence[DataField],
    count: CountRows,
) -> TableStatistics:
    known = 0
    if not columns:  # the facts of files say how many rows most splits have
        merged = [(split, split.merged_row_count()) for split in splits]
        known = sum(rows or 0 for _, rows in merged)
        splits = [split for split, rows in merged if rows is None]
    counts = count(store, splits, columns) if splits else RowCounts.of(columns)
    rows = known + counts.rows
    found = {one.column.name: one.result() for one in counts.columns}
    return TableStatistics(snapshot.id, store.schema.id, rows, _size(store, snapshot, rows), found)


def _size(store: TableStore, snapshot: Snapshot, rows: int) -> int:
    """Return the bytes of the data files, in the share that the merged rows are of all rows in them."""
    files = [entry.file for entry in store.manifests.live(snapshot)]
    size, total = sum(file.file_size for file in files), sum(file.row_count for file in files)
    return size if rows >= total else size * rows // total


def write_statistics(store: TableStore, statistics: TableStatistics) -> WrittenFile:
    """Write a statistics file, which no snapshot names yet."""
    name, data = f"stat-{uuid.uuid4()}-0", statistics.to_json().encode()
    path = store.layout.statistics_file(name)
    store.storage.create(path, data)
    return WrittenFile(name, path, len(data))
