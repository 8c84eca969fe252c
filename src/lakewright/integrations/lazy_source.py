"""A table at one state, read when another library asks for columns and rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakewright.read.read_builder import ReadBuilder, ReadRequest
from lakewright.read.time_travel import has_time_travel, is_incremental
from lakewright.spec.argument_checks import PathLike, TimestampLike
from lakewright.spec.arrow_types import to_arrow_schema
from lakewright.spec.predicate import Predicate, PredicateBuilder
from lakewright.table.file_store_table import FileStoreTable
from lakewright.table.open_table import pinned_builder, readable
from lakewright.table.table_views import ReadableTable, SystemReadBuilder, SystemTable


@dataclass(frozen=True, slots=True)
class LazySource:
    """A table, or a system table, and the snapshot that is read of it."""

    table: ReadableTable
    snapshot_id: int | None  # None: the options of the table name its state, or it has no snapshot yet

    @property
    def name(self) -> str:
        """The name of the table."""
        return self.table.name

    @property
    def schema(self) -> pa.Schema:
        """The columns that a query may name."""
        return to_arrow_schema(self.builder().read_type())

    def predicates(self) -> PredicateBuilder:
        """Return what makes predicates on these columns."""
        return self.builder().new_predicate_builder()

    def builder(self) -> ReadBuilder | SystemReadBuilder:
        """Start a read of the state."""
        if self.snapshot_id is None or isinstance(self.table, SystemTable):
            return self.table.new_read_builder()
        return pinned_builder(self.table, self.snapshot_id)

    def batches(
        self, columns: Sequence[str] | None = None, predicate: Predicate | None = None, limit: int | None = None
    ) -> pa.RecordBatchReader:
        """Read some columns of the rows that fulfil a predicate, batch by batch; other files stay closed."""
        builder = self.builder().with_filter(predicate).with_limit(limit)
        if columns is not None:
            builder = builder.with_projection(columns)
        return builder.new_read().to_arrow_batch_reader()


def lazy_source(
    table: ReadableTable | PathLike,
    snapshot_id: int | None = None,
    tag: str | None = None,
    timestamp: TimestampLike | None = None,
) -> LazySource:
    """Return the state of a table that these arguments name, the newest one without them, to be read later."""
    source = readable(table)
    if isinstance(source, SystemTable):
        source.read_builder(ReadRequest(snapshot_id=snapshot_id, tag=tag, timestamp=timestamp))  # refuses a state
        return LazySource(source, None)
    options = ReadRequest(snapshot_id=snapshot_id, tag=tag, timestamp=timestamp).travel_options(source.name)
    if options:
        source = source.copy(options)
    own = source if isinstance(source, FileStoreTable) else source.table
    if has_time_travel(own.store) or is_incremental(own.store.options):
        source.new_read_builder().new_scan().plan()  # a state that does not exist is an error now, not in the query
        return LazySource(source, None)
    newest = own.snapshot()
    return LazySource(source, None if newest is None else newest.id)
