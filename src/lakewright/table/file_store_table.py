"""`FileStoreTable`: one table, its schema and its verbs."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias, cast

from lakewright.commit.job_ids import JobRun
from lakewright.compact.compaction_job import CompactRequest, Strategy, compact_request, materialize_vectors
from lakewright.compact.compaction_rounds import CompactResult, ManifestsResult, compact_manifests
from lakewright.compact.rescale import rescale
from lakewright.dml import delete_update, merge, row_ids, upsert
from lakewright.dml.merge import MergeBuilder
from lakewright.dml.merge_clauses import On
from lakewright.dml.row_changes import UpdateResult
from lakewright.dml.row_ids import RowIds
from lakewright.engine_registry import engine_verb
from lakewright.errors import InvalidInputError, NotFoundError, with_table_name
from lakewright.maintenance import branches, partition_lifecycle, snapshot_expiry, tag_lifecycle
from lakewright.maintenance.branches import FastForwardResult
from lakewright.maintenance.external_directories import check_external_places
from lakewright.maintenance.global_indexes import DropIndexResult, drop_global_index
from lakewright.maintenance.orphan_files import OrphanResult, remove_orphans
from lakewright.maintenance.partition_lifecycle import ExpiryRule, PartitionExpireResult
from lakewright.maintenance.repair import RepairResult, UnexistingResult, remove_missing_files, repair
from lakewright.maintenance.rollback import RollbackResult, restore, rollback
from lakewright.maintenance.snapshot_expiry import (
    ExpireResult,
    PurgeResult,
    Retention,
    expire_changelogs,
    expire_snapshots,
)
from lakewright.maintenance.table_analysis import AnalyzeResult, Columns, analyze_table
from lakewright.maintenance.tag_lifecycle import BATCH
from lakewright.maintenance.verify_findings import VerifyResult
from lakewright.maintenance.verify_table import check_depth, verify_table
from lakewright.metadata.table_statistics import TableStatistics, read_statistics
from lakewright.metadata.table_store import TableStore, apply_layout_options
from lakewright.metadata.table_summary import card
from lakewright.read.fallback_branch import other_branch
from lakewright.read.read_builder import ReadBuilder
from lakewright.read.stream_read import StreamReadBuilder
from lakewright.read.time_travel import has_time_travel, resolve_snapshot, with_snapshot_schema
from lakewright.report.gather_facts import gather
from lakewright.report.report_page import write_report
from lakewright.spec import argument_checks
from lakewright.spec.argument_checks import DurationLike, PathLike, Properties, TimestampLike
from lakewright.spec.filters import Filter
from lakewright.spec.identifier import Identifier
from lakewright.spec.option_checks import check_option_change, warn_unknown_options
from lakewright.spec.option_values import MAX_INT
from lakewright.spec.snapshot import Snapshot
from lakewright.spec.table_options import CoreOptions, TableOptions
from lakewright.spec.table_schema import TableSchema
from lakewright.spec.types import DataField, RowType
from lakewright.table.write_builder import BatchWriteBuilder, PostponeFixedBucketWriteBuilder, StreamWriteBuilder
from lakewright.write.input_data import ArrowData

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from ray.data import Dataset


def _state(argument: str, target: object) -> int | str:
    return (
        argument_checks.check_text(argument, target)
        if isinstance(target, str)
        else argument_checks.check_int(argument, target)
    )


def _pattern(argument: str, text: str | None) -> re.Pattern[str] | None:
    given = argument_checks.check_optional(argument_checks.check_text, argument, text)
    try:
        return None if given is None else re.compile(given)
    except re.error as error:
        raise InvalidInputError(f"{argument} takes a regular expression: {error}") from None


def retention_of(
    options: TableOptions,
    now: int,
    retain_max: int | None,
    retain_min: int | None,
    older_than: TimestampLike | timedelta | None,
    max_deletes: int | None,
) -> Retention:
    """Return what an expiry keeps, after checking its arguments; the options say what these leave out."""
    return Retention.of_options(
        options,
        now,
        retain_max=argument_checks.check_optional(argument_checks.check_positive, "retain_max", retain_max),
        retain_min=argument_checks.check_optional(argument_checks.check_positive, "retain_min", retain_min),
        older_than=None if older_than is None else argument_checks.to_past_epoch_millis("older_than", older_than, now),
        max_deletes=argument_checks.check_optional(argument_checks.check_non_negative, "max_deletes", max_deletes),
    )


Partitions: TypeAlias = Mapping[str, object] | Sequence[Mapping[str, object]]  # one spec stands for a list of one

_DAY_MILLIS = 24 * 60 * 60 * 1000


@dataclass(frozen=True, slots=True)
class FileStoreTable:
    """A table: what it is, and the verbs that read, write, change and maintain it.

    `catalog.get_table("db.t")` and `lakewright.open_table(path)` return one, `lakewright.create_table_from` makes one
    of rows. What one can do with it:

    - read: `lakewright.read_table(table, filter="id > 3", columns=["id"])` returns Arrow data; `lakewright.scan_polars`
      and `lakewright.duckdb_relation` are lazy; `table.new_read_builder()` plans splits, and its read has `to_arrow`,
      `to_pandas`, `to_polars`, `to_torch`, `to_spark`, `to_ray`; `table.new_stream_read_builder()` follows the table
    - write: `lakewright.write_table(rows, table, mode="append" | "upsert" | "overwrite" | "delete")`; writers that work
      together begin with `table.new_batch_write_builder()` or `new_stream_write_builder()`
    - change rows: `delete`, `update`, `upsert`, `merge`, `delete_by_row_id`, `update_by_row_id`
    - travel: `snapshot`, `create_tag`, `create_branch`, `rollback_to`, `fast_forward`; `snapshot_id=`, `tag=` and
      `timestamp=` of reads
    - keep in order: `compact`, `expire_snapshots`, `remove_orphan_files`, `rescale`, `analyze`
    - look: `schema`, `fields`, `options`, `report`, `verify`, and system tables such as `db.t$snapshots`, `db.t$files`
    """

    identifier: Identifier
    store: TableStore

    _read_builder_class: ClassVar[type[ReadBuilder]] = ReadBuilder
    _stream_read_builder_class: ClassVar[type[StreamReadBuilder]] = StreamReadBuilder

    # What it is.

    @property
    def name(self) -> str:
        """The full name, `database.table`."""
        return self.identifier.get_full_name()

    @property
    def schema(self) -> TableSchema:
        """The schema that reads and writes use, with the effective options."""
        return self.store.schema

    @property
    def table_schema(self) -> TableSchema:
        """The same as `schema`, under pypaimon's name."""
        return self.store.schema

    @property
    def fields(self) -> list[DataField]:
        """The columns in order."""
        return list(self.schema.fields)

    @property
    def field_names(self) -> list[str]:
        """The names of the columns in order."""
        return [field.name for field in self.schema.fields]

    @property
    def options(self) -> CoreOptions:
        """The effective options."""
        return CoreOptions(self.schema.options)

    @property
    def primary_keys(self) -> list[str]:
        """The primary key columns; empty for an append table."""
        return list(self.schema.primary_keys)

    @property
    def partition_keys(self) -> list[str]:
        """The partition columns; empty for an unpartitioned table."""
        return list(self.schema.partition_keys)

    @property
    def table_path(self) -> str:
        """Where the table lies."""
        return self.store.layout.root

    def comment(self) -> str | None:
        """Return the table's comment."""
        return self.schema.comment

    def row_type(self) -> RowType:
        """Return the columns as one ROW type."""
        return RowType(False, self.schema.fields)  # noqa: FBT003 - a table's row is never null

    def _repr_html_(self) -> str:
        """Show the table in a notebook: its columns and the size of its newest snapshot. `report` shows much more."""
        return card(self.store)

    def __repr__(self) -> str:
        columns = ", ".join(f"{field.name} {field.type}" for field in self.schema.fields)
        keys = f"; primary key {', '.join(self.primary_keys)}" if self.primary_keys else ""
        partitions = f"; partitioned by {', '.join(self.partition_keys)}" if self.partition_keys else ""
        return f"FileStoreTable({self.name}: {columns}{keys}{partitions})"

    # Writing.

    def new_batch_write_builder(self) -> BatchWriteBuilder:
        """Start a batch write: one writer (or many), one commit."""
        return BatchWriteBuilder(self.refreshed().store)

    def new_write_builder(self) -> BatchWriteBuilder:
        """Start a batch write, under pypaimon-rust's name."""
        return self.new_batch_write_builder()

    def new_stream_write_builder(self) -> StreamWriteBuilder:
        """Start a stream write: many commits, each with an identifier."""
        return StreamWriteBuilder(self.refreshed().store)

    def new_postpone_fixed_bucket_write_builder(self) -> PostponeFixedBucketWriteBuilder:
        """Start a batch write straight into real buckets of a table that postpones them (`bucket` = -2)."""
        return PostponeFixedBucketWriteBuilder(self.refreshed().store)

    # Reading.

    def new_read_builder(self) -> ReadBuilder:
        """Start a read of the newest snapshot, or of the one the table's `scan.` options name."""
        shown = self._at_snapshot_schema().store
        return self._read_builder_class(
            shown, other_branch(self.store if has_time_travel(self.store) else shown, shown)
        )

    def new_stream_read_builder(self) -> StreamReadBuilder:
        """Start to follow the table: what it holds, then what every new snapshot changes.

        >>> import tempfile, pyarrow as pa, lakewright as lw
        >>> catalog = lw.CatalogFactory.create({"warehouse": tempfile.mkdtemp()})
        >>> catalog.create_database("d")
        >>> columns = pa.schema({"id": pa.int64(), "n": pa.int64()})
        >>> schema = lw.Schema.from_pyarrow_schema(columns, primary_keys=["id"], options={"bucket": 1})
        >>> catalog.create_table("d.t", schema)
        >>> table = catalog.get_table("d.t")
        >>> builder = table.new_stream_read_builder().with_include_row_kind()
        >>> read, scan = builder.new_read(), builder.new_streaming_scan()
        >>> for rows in ({"id": [1, 2], "n": [5, 5]}, {"id": [2], "n": [6]}):
        ...     _ = lw.write_table(pa.table(rows), table)
        ...     read.to_arrow(scan.plan().splits()).to_pylist()
        [{'_row_kind': '+I', 'id': 1, 'n': 5}, {'_row_kind': '+I', 'id': 2, 'n': 5}]
        [{'_row_kind': '+I', 'id': 2, 'n': 6}]
        >>> scan.plan() is None
        True
        """
        return self._stream_read_builder_class(self.refreshed().store)

    def copy(self, options: Mapping[str, object]) -> FileStoreTable:
        """Return the same table with more options, such as `{"scan.snapshot-id": "3"}`. Nothing is stored."""
        with with_table_name(self.name):
            given = argument_checks.check_text_mapping("options", options)
            for key, value in given.items():
                if self.schema.options.get(key) != value:
                    check_option_change(self.schema.options, key, value, has_snapshot=True)
            schema = self.schema.with_options(given)
            schema.table_options.check()
        warn_unknown_options(f"table {self.name}", self.table_path, given)
        layout = apply_layout_options(self.store.layout, schema)
        if layout.external_directories != self.store.layout.external_directories:
            with with_table_name(self.name):
                check_external_places(layout)
        return replace(self, store=replace(self.store, schema=schema, layout=layout))

    def refreshed(self) -> FileStoreTable:
        """Return the table with its newest schema, and the options of this handle: others may have changed it.

        Every verb does so first; the columns that a handle itself shows are those of the moment it was opened.
        """
        store = self.store.refreshed()
        return self if store is self.store else replace(self, store=store)

    def _committing(self, snapshot_properties: object) -> FileStoreTable:
        """Return the table with its newest schema, and with properties for the snapshots that a verb publishes."""
        table = self.refreshed()
        with with_table_name(self.name):
            store = table.store.with_snapshot_properties(snapshot_properties)
        return table if store is table.store else replace(table, store=store)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export the rows as an Arrow stream, so that `pa.table(t)`, polars and DuckDB read the table as it is."""
        return self.new_read_builder().__arrow_c_stream__(requested_schema)

    def _at_snapshot_schema(self) -> FileStoreTable:
        """Return the table seen with the schema of the snapshot that its options travel to."""
        if not has_time_travel(self.store):
            return self.refreshed()
        store = with_snapshot_schema(self.store)
        if store is None:
            raise NotFoundError(f"{self.name}: there is no snapshot to travel to; the table was never written")
        return replace(self, store=store)

    # Changing rows. With a `job_id` a change is made once: a second run finds the snapshot of the first. Snapshots that
    # a verb publishes record its `snapshot_properties`.

    def delete(
        self, where: Filter, *, job_id: str | None = None, snapshot_properties: Properties | None = None
    ) -> UpdateResult:
        """Delete the rows that fulfil a condition, given as SQL text or as a predicate; the text `true` means all rows.

        >>> import tempfile, pyarrow as pa, lakewright as lw
        >>> catalog = lw.CatalogFactory.create({"warehouse": tempfile.mkdtemp()})
        >>> catalog.create_database("d")
        >>> columns = pa.schema({"id": pa.int64(), "n": pa.int64()})
        >>> schema = lw.Schema.from_pyarrow_schema(columns, options={"deletion-vectors.enabled": "true"})
        >>> catalog.create_table("d.t", schema)
        >>> table = catalog.get_table("d.t")
        >>> _ = lw.write_table(pa.table({"id": [1, 2, 3], "n": [5, 6, 7]}), table)
        >>> result = table.delete("n > 5 AND id < 3")
        >>> result.deleted, result.files, result.method
        (1, 0, 'deletion vectors')
        >>> lw.read_table(table)["id"].to_pylist()
        [1, 3]
        """
        with with_table_name(self.name):
            return delete_update.delete(self._committing(snapshot_properties).store, where, job_id=job_id)

    def update(
        self,
        assignments: Mapping[str, object],
        where: Filter | None = None,
        *,
        job_id: str | None = None,
        snapshot_properties: Properties | None = None,
    ) -> UpdateResult:
        """Give columns new values in the rows that fulfil a condition; without one in all rows.

        A value is plain (text is taken as it stands), `target_col(name)`, SQL as `expr("upper(name)")`, an expression
        of Arrow or polars over the table's columns, or a function of the rows as an Arrow table. Where the table tracks
        its rows, they keep their ids.

        >>> import tempfile, pyarrow as pa, pyarrow.compute as pc, lakewright as lw
        >>> catalog = lw.CatalogFactory.create({"warehouse": tempfile.mkdtemp()})
        >>> catalog.create_database("d")
        >>> columns = pa.schema({"id": pa.int64(), "n": pa.int64(), "note": pa.string()})
        >>> catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(columns))
        >>> table = catalog.get_table("d.t")
        >>> _ = lw.write_table(pa.table({"id": [1, 2], "n": [5, 6], "note": ["a", "b"]}), table)
        >>> result = table.update({"n": pc.field("n") * 10, "note": "ten times"}, "id = 2")
        >>> result.updated, result.method
        (1, 'copied files')
        >>> lw.read_table(table).to_pylist()
        [{'id': 1, 'n': 5, 'note': 'a'}, {'id': 2, 'n': 60, 'note': 'ten times'}]
        """
        with with_table_name(self.name):
            return delete_update.update(self._committing(snapshot_properties).store, assignments, where, job_id=job_id)

    def delete_by_row_id(
        self,
        ids: RowIds | DataFrame | Dataset,
        *,
        job_id: str | None = None,
        snapshot_properties: Properties | None = None,
    ) -> UpdateResult:
        """Delete the rows with these `_ROW_ID`s, in one snapshot; only tables with row tracking know such ids.

        `ids` are a list, a numpy or Arrow array, or Arrow data with the column `_ROW_ID`. An id that the table does not
        have is an error; a row that is deleted already stays so.

        >>> import tempfile, pyarrow as pa, lakewright as lw
        >>> catalog = lw.CatalogFactory.create({"warehouse": tempfile.mkdtemp()})
        >>> catalog.create_database("d")
        >>> tracked = {"row-tracking.enabled": "true", "deletion-vectors.enabled": "true"}
        >>> columns = pa.schema({"id": pa.int64(), "n": pa.int64()})
        >>> catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(columns, options=tracked))
        >>> table = catalog.get_table("d.t")
        >>> _ = lw.write_table(pa.table({"id": [1, 2, 3], "n": [1, 2, 3]}), table)
        >>> table.delete_by_row_id([0, 2]).deleted
        2
        >>> lw.read_table(table, columns=["_ROW_ID", "n"]).to_pylist()
        [{'_ROW_ID': 1, 'n': 2}]
        """
        if (on_workers := engine_verb(ids, "delete_by_row_id")) is not None:
            return cast("UpdateResult", on_workers(ids, self, job_id=job_id, snapshot_properties=snapshot_properties))
        with with_table_name(self.name):
            return row_ids.delete_by_row_id(self._committing(snapshot_properties).store, ids, job_id)

    def update_by_row_id(
        self,
        data: ArrowData | DataFrame | Dataset,
        columns: str | Sequence[str] | None = None,
        *,
        job_id: str | None = None,
        snapshot_properties: Properties | None = None,
    ) -> UpdateResult:
        """Give rows of a table with row tracking new values, in one snapshot; their ids stay.

        `data` is anything that exports Arrow data, with `_ROW_ID` and the columns to change; if it has more, `columns`
        names those to change. An id that the table does not have, or that comes twice, is an error. With data evolution
        only the changed columns are written.

        >>> import tempfile, pyarrow as pa, lakewright as lw
        >>> catalog = lw.CatalogFactory.create({"warehouse": tempfile.mkdtemp()})
        >>> catalog.create_database("d")
        >>> evolving = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
        >>> columns = pa.schema({"id": pa.int64(), "n": pa.int64()})
        >>> catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(columns, options=evolving))
        >>> table = catalog.get_table("d.t")
        >>> _ = lw.write_table(pa.table({"id": [1, 2, 3], "n": [1, 2, 3]}), table)
        >>> result = table.update_by_row_id(pa.table({"_ROW_ID": [2, 0], "n": [30, 10]}))
        >>> result.updated, result.method
        (2, 'column files')
        >>> lw.read_table(table)["n"].to_pylist()
        [10, 2, 30]
        """
        if (on_workers := engine_verb(data, "update_by_row_id")) is not None:
            return cast(
                "UpdateResult", on_workers(data, self, columns, job_id=job_id, snapshot_properties=snapshot_properties)
            )
        with with_table_name(self.name):
            names = argument_checks.check_optional(argument_checks.check_names, "columns", columns)
            return row_ids.update_by_row_id(
                self._committing(snapshot_properties).store, cast("ArrowData", data), names, job_id
            )

    def upsert(
        self,
        data: ArrowData | DataFrame | Dataset,
        keys: str | Sequence[str] | None = None,
        *,
        job_id: str | None = None,
        snapshot_properties: Properties | None = None,
    ) -> UpdateResult:
        """Update the rows whose keys the data has and insert the rest, in one snapshot; of equal keys the last counts.

        `keys` are the columns that rows are found by; those of a primary-key table are its own. Columns that the data
        lacks stay as they are, and are null or their default in new rows. Data with all columns of a primary-key table
        is written without reading the table, and the counts are None. Where the table tracks its rows, updated
        ones keep their ids. A Spark frame, or a dataset of Ray, is brought in by the workers.

        >>> import tempfile, pyarrow as pa, lakewright as lw
        >>> catalog = lw.CatalogFactory.create({"warehouse": tempfile.mkdtemp()})
        >>> catalog.create_database("d")
        >>> columns = pa.schema({"id": pa.int64(), "n": pa.int64()})
        >>> catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(columns))
        >>> table = catalog.get_table("d.t")
        >>> _ = lw.write_table(pa.table({"id": [1, 2], "n": [5, 6]}), table)
        >>> result = table.upsert(pa.table({"id": [2, 3, 3], "n": [7, 8, 9]}), ["id"])
        >>> result.updated, result.inserted
        (1, 1)
        >>> lw.read_table(table).to_pylist()
        [{'id': 1, 'n': 5}, {'id': 2, 'n': 7}, {'id': 3, 'n': 9}]
        """
        if (on_workers := engine_verb(data, "upsert")) is not None:
            return cast(
                "UpdateResult", on_workers(data, self, keys, job_id=job_id, snapshot_properties=snapshot_properties)
            )
        with with_table_name(self.name):
            store = self._committing(snapshot_properties).store
            return upsert.upsert(store, cast("ArrowData", data), keys, job=JobRun.of(store, job_id))

    def merge(self, source: ArrowData | DataFrame | Dataset, on: On) -> MergeBuilder:
        """Begin a merge of a source into the table: add clauses, then `execute()`.

        `on` names columns that both have, or is a condition such as `t.id = s.id AND s.day > t.day`. Of the clauses of
        one kind the first whose condition holds applies. Two source rows that would change one row are an error. A
        Spark frame, or a dataset of Ray, is merged by the workers.

        >>> import tempfile, pyarrow as pa, pyarrow.compute as pc, lakewright as lw
        >>> catalog = lw.CatalogFactory.create({"warehouse": tempfile.mkdtemp()})
        >>> catalog.create_database("d")
        >>> columns = pa.schema({"id": pa.int64(), "n": pa.int64()})
        >>> catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(columns))
        >>> table = catalog.get_table("d.t")
        >>> _ = lw.write_table(pa.table({"id": [1, 2, 3], "n": [5, 6, 7]}), table)
        >>> changes = pa.table({"id": [2, 3, 4], "n": [10, None, 30]})
        >>> result = (
        ...     table.merge(changes, on="id")
        ...     .when_matched_delete(condition="s.n IS NULL")
        ...     .when_matched_update({"n": pc.field("t.n") + pc.field("s.n")})
        ...     .when_not_matched_insert()
        ...     .execute()
        ... )
        >>> result.deleted, result.updated, result.inserted
        (1, 1, 1)
        >>> lw.read_table(table).to_pylist()
        [{'id': 1, 'n': 5}, {'id': 2, 'n': 16}, {'id': 4, 'n': 30}]
        """
        if (on_workers := engine_verb(source, "merge")) is not None:
            return cast("MergeBuilder", on_workers(source, self, on))
        with with_table_name(self.name):
            return merge.merge(self.refreshed().store, cast("ArrowData", source), on)

    # Keeping it healthy.

    def compact(  # noqa: PLR0913 - each argument is one choice of the caller
        self,
        *,
        full: bool = False,
        partitions: Partitions | None = None,
        where: Filter | None = None,
        order_by: str | Sequence[str] | None = None,
        strategy: Strategy | None = None,
        idle: DurationLike | None = None,
        dry_run: bool = False,
        snapshot_properties: Properties | None = None,
    ) -> CompactResult:
        """Merge files where it is worth it; with `full`, all that can be.

        Of a primary-key table `full` brings all of each bucket to one level; of an append table it merges small files
        even if they are few and rewrites every file with deleted rows. Rows that wait in the postpone bucket are given
        their buckets first.

        `partitions` are specs such as `{"dt": "2026-01-01"}`, which may leave columns out; `where` is a condition on
        the partition columns; `idle` leaves out partitions with a file that is younger (text such as `1 day`, a
        `timedelta`, or milliseconds). With `dry_run` nothing is written, and the result is an estimate.

        `order_by` sorts all rows of an append table without buckets, partition by partition, so that the statistics of
        its files rule files out: by the columns in their order (`strategy="order"`, the default), or along a curve that
        keeps rows together that are near in all columns (`"zorder"`, `"hilbert"`).

        >>> import tempfile, pyarrow as pa, lakewright as lw
        >>> catalog = lw.CatalogFactory.create({"warehouse": tempfile.mkdtemp()})
        >>> catalog.create_database("d")
        >>> columns = pa.schema({"id": pa.int64(), "n": pa.int64()})
        >>> schema = lw.Schema.from_pyarrow_schema(columns, primary_keys=["id"], options={"bucket": 1})
        >>> catalog.create_table("d.t", schema)
        >>> table = catalog.get_table("d.t")
        >>> for n in range(3):
        ...     _ = lw.write_table(pa.table({"id": [1, 10 + n], "n": [n, n]}), table)
        >>> result = table.compact(full=True)
        >>> result.files_before, result.files_after, result.rows
        (3, 1, 4)
        >>> table.compact(full=True).is_empty
        True
        """
        request = CompactRequest(full, partitions, where, order_by, strategy, idle, dry_run)
        store = self._committing(snapshot_properties).store
        return compact_request(store, request.check_arguments(store))

    def compact_manifests(self) -> ManifestsResult:
        """Merge the manifests of the newest snapshot into few full ones, in a snapshot that changes no data file.

        >>> import tempfile, pyarrow as pa, lakewright as lw
        >>> catalog = lw.CatalogFactory.create({"warehouse": tempfile.mkdtemp()})
        >>> catalog.create_database("d")
        >>> catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(pa.schema({"id": pa.int64()})))
        >>> table = catalog.get_table("d.t")
        >>> for n in range(5):
        ...     _ = lw.write_table(pa.table({"id": [n]}), table)
        >>> result = table.compact_manifests()
        >>> result.manifests_before, result.manifests_after
        (5, 1)
        >>> table.compact_manifests().is_empty
        True
        """
        return compact_manifests(self.refreshed().store)

    def materialize_deletion_vectors(self, *, partitions: Partitions | None = None) -> CompactResult:
        """Rewrite the files that have deletion vectors, so that no reader has to leave out deleted rows.

        Of a primary-key table the buckets that have such files are compacted fully.
        """
        specs = argument_checks.check_optional(argument_checks.check_partition_specs, "partitions", partitions)
        return materialize_vectors(self.refreshed().store, partitions=specs)

    def rescale(self, buckets: int, *, partitions: Partitions | None = None) -> CompactResult:
        """Rewrite the table, or some partitions, with another number of buckets; of the whole table it is stored.

        >>> import tempfile, pyarrow as pa, lakewright as lw
        >>> catalog = lw.CatalogFactory.create({"warehouse": tempfile.mkdtemp()})
        >>> catalog.create_database("d")
        >>> columns = pa.schema({"id": pa.int64(), "n": pa.int64()})
        >>> schema = lw.Schema.from_pyarrow_schema(columns, primary_keys=["id"], options={"bucket": 1})
        >>> catalog.create_table("d.t", schema)
        >>> table = catalog.get_table("d.t")
        >>> _ = lw.write_table(pa.table({"id": [1, 2, 3], "n": [1, 2, 3]}), table)
        >>> table.rescale(2).rows
        3
        >>> catalog.get_table("d.t").options.bucket()
        2
        """
        with with_table_name(self.name):
            specs = argument_checks.check_optional(argument_checks.check_partition_specs, "partitions", partitions)
            return rescale(self.refreshed().store, argument_checks.check_positive("buckets", buckets), partitions=specs)

    def expire_snapshots(
        self,
        retain_max: int | None = None,
        retain_min: int | None = None,
        older_than: TimestampLike | timedelta | None = None,
        max_deletes: int | None = None,
        *,
        dry_run: bool = False,
    ) -> ExpireResult:
        """Remove old snapshots and the files that only they name; what is not said is as the table's options say.

        At least `retain_min` snapshots stay and at most `retain_max`; in between one goes when its successor is older
        than the table's `snapshot.time-retained`. With `older_than` (a `datetime`, ISO text, epoch milliseconds, or an
        age such as `7 days` or a `timedelta`) only what is older goes, even if more than `retain_max` stay. All of it
        goes in one call, unless `max_deletes` limits it. Tags, other branches and consumers keep what they need: the
        result's `held_by` names them, `left` counts what waits for them. Where the table has options such as
        `snapshot.num-retained.max`, expiry also follows each commit.

        >>> import tempfile, pyarrow as pa, lakewright as lw
        >>> catalog = lw.CatalogFactory.create({"warehouse": tempfile.mkdtemp()})
        >>> catalog.create_database("d")
        >>> columns = pa.schema({"id": pa.int64(), "n": pa.int64()})
        >>> schema = lw.Schema.from_pyarrow_schema(columns, primary_keys=["id"], options={"bucket": 1})
        >>> catalog.create_table("d.t", schema)
        >>> table = catalog.get_table("d.t")
        >>> for n in range(4):
        ...     _ = lw.write_table(pa.table({"id": [1], "n": [n]}), table)
        >>> table.create_tag("kept", snapshot_id=1)
        >>> expired = table.expire_snapshots(retain_max=2, retain_min=1)
        >>> expired.snapshot_ids, expired.left
        ((1, 2), 0)
        >>> expired.held_by[1]
        "tag 'kept' keeps files of snapshot 1"
        >>> lw.read_table(table, tag="kept")["n"].to_pylist()
        [0]
        """
        now, table = int(time.time() * 1000), self.refreshed()
        retention = retention_of(table.store.options, now, retain_max, retain_min, older_than, max_deletes)
        return expire_snapshots(
            table.store, retention, dry_run=argument_checks.check_bool("dry_run", dry_run), now_millis=now
        )

    def remove_orphan_files(
        self,
        *,
        older_than: TimestampLike | timedelta | None = None,
        dry_run: bool = False,
    ) -> OrphanResult:
        """Remove files that no snapshot, tag or branch names and that are older than a day, or than `older_than`.

        The files of a running writer are orphans until it commits: choose an age beyond the longest write.
        `older_than` is a time or an age, as in `expire_snapshots`. With `dry_run` nothing is removed: the result's
        `paths` name what would go.
        """
        now = int(time.time() * 1000)
        limit = (
            now - _DAY_MILLIS
            if older_than is None
            else argument_checks.to_past_epoch_millis("older_than", older_than, now)
        )
        return remove_orphans(
            self.refreshed().store, older_than_millis=limit, dry_run=argument_checks.check_bool("dry_run", dry_run)
        )

    # ---- snapshots, tags, branches, rollback, consumers

    def snapshot(
        self, snapshot_id: int | None = None, *, tag: str | None = None, timestamp: TimestampLike | None = None
    ) -> Snapshot | None:
        """Return the newest snapshot, or that of an id, a tag or a time; None if the table was never written.

        A `timestamp` is a `datetime`, a `date`, ISO text or epoch milliseconds, and finds the last snapshot that is not
        later; without a zone it is one of the local zone.
        """
        given = [what for what in (snapshot_id, tag, timestamp) if what is not None]
        if len(given) > 1:
            raise InvalidInputError(f"{self.store.name}: give one of snapshot_id, tag and timestamp, not {len(given)}")
        if snapshot_id is not None:
            return self.store.snapshots.get(argument_checks.check_int("snapshot_id", snapshot_id))
        if tag is not None:
            return self.store.tags.get(argument_checks.check_text("tag", tag)).snapshot
        if timestamp is not None:
            return self.store.snapshots.at_timestamp(argument_checks.to_epoch_millis("timestamp", timestamp))
        return self.store.snapshots.latest()

    # Tags.

    def create_tag(
        self,
        tag_name: str,
        snapshot_id: int | None = None,
        ignore_if_exists: bool = False,  # noqa: FBT001, FBT002 - pypaimon's signature
        time_retained: DurationLike | None = None,
    ) -> None:
        """Give a snapshot a name that keeps its files from expiring: the newest one, unless an id is given.

        `time_retained` is how long the tag is to stay: a `timedelta`, text such as `7 days`, or milliseconds; without
        it the option `tag.default-time-retained` says so. A tag that exists already is an error unless
        `ignore_if_exists` is true.
        """
        self.store.tags.create(
            tag_name,
            self._existing_snapshot(snapshot_id),
            time_retained_millis=self._tag_millis(time_retained),
            ignore_if_exists=argument_checks.check_bool("ignore_if_exists", ignore_if_exists),
        )

    def replace_tag(
        self, tag_name: str, snapshot_id: int | None = None, time_retained: DurationLike | None = None
    ) -> None:
        """Let an existing tag name another snapshot: the newest one, unless an id is given. See `create_tag`."""
        self.store.tags.replace(
            tag_name,
            self._existing_snapshot(snapshot_id),
            time_retained_millis=self._tag_millis(time_retained),
        )

    def _tag_millis(self, time_retained: DurationLike | None) -> int | None:
        """Return how long a tag is to stay; None: until it is deleted."""
        given = argument_checks.check_optional(argument_checks.to_duration_millis, "time_retained", time_retained)
        return self.store.options.tag_default_time_retained if given is None else given

    def rename_tag(self, old_name: str, new_name: str) -> None:
        """Give a tag another name."""
        self.store.check_same_table()
        self.store.tags.rename(old_name, new_name)

    def delete_tag(self, tag_name: str) -> None:
        """Delete a tag. Files that only it needed stay until `remove_orphan_files` removes them."""
        self.store.check_same_table()
        self.store.tags.delete(tag_name)

    def list_tags(self) -> list[str]:
        """Return the names of the tags."""
        return self.store.tags.list()

    def _existing_snapshot(self, snapshot_id: int | None) -> Snapshot:
        with self.store.naming_replaced():
            snapshot = self.snapshot(snapshot_id)
        self.store.check_same_table()
        if snapshot is None:
            raise NotFoundError(
                f"{self.store.name}: there is no snapshot to tag; write something first", table=self.store.name
            )
        return snapshot

    # Branches.

    def create_branch(self, name: str, tag: str | None = None, *, snapshot_id: int | None = None) -> None:
        """Make a branch at the state of a tag or a snapshot; without one, an empty one with the table's columns.

        `catalog.get_table("db.t$branch_<name>")` reads and writes it. Its data files are shared with the table: none
        is copied.

        >>> import tempfile, pyarrow as pa, lakewright as lw
        >>> catalog = lw.CatalogFactory.create({"warehouse": tempfile.mkdtemp()})
        >>> catalog.create_database("d")
        >>> catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(pa.schema({"n": pa.int64()})))
        >>> table = catalog.get_table("d.t")
        >>> _ = lw.write_table(pa.table({"n": [1]}), table)
        >>> table.create_tag("v1")
        >>> table.create_branch("dev", tag="v1")
        >>> branch = catalog.get_table("d.t$branch_dev")
        >>> _ = lw.write_table(pa.table({"n": [2]}), branch)
        >>> lw.read_table(table)["n"].to_pylist(), lw.read_table(branch)["n"].to_pylist()
        ([1], [1, 2])
        >>> table.fast_forward("dev").snapshot_id
        2
        >>> lw.read_table(table)["n"].to_pylist()
        [1, 2]
        """
        with with_table_name(self.store.name):
            source = argument_checks.check_optional(argument_checks.check_text, "tag", tag)
            first = argument_checks.check_optional(argument_checks.check_int, "snapshot_id", snapshot_id)
            branches.create_branch(self.store, argument_checks.check_text("name", name), source, snapshot_id=first)

    def drop_branch(self, name: str) -> None:
        """Drop a branch. Files that only it needed stay until `remove_orphan_files` removes them."""
        with with_table_name(self.store.name):
            branches.drop_branch(self.store, argument_checks.check_text("name", name))

    def rename_branch(self, from_branch: str, to_branch: str) -> None:
        """Give a branch another name. On object stores its files are copied: let no writer run meanwhile."""
        with with_table_name(self.store.name):
            old, new = (
                argument_checks.check_text("from_branch", from_branch),
                argument_checks.check_text("to_branch", to_branch),
            )
            branches.rename_branch(self.store, old, new)

    def fast_forward(self, branch: str, allow_loss: bool = False, dry_run: bool = False) -> FastForwardResult:  # noqa: FBT001, FBT002 - used as in `fast_forward("dev", True)`
        """Bring the table to the state of a branch, which stays as it is, and return what was removed.

        Snapshots, tags and changes of the schema that were made to the table since the branch was made are removed; all
        earlier snapshots as well, if the branch has none in common with the table any more. If changes of rows or tags
        are lost by that, InvalidInputError is raised and nothing is changed, unless `allow_loss` is true. With
        `dry_run` nothing is removed either: the result says what would go.

        Readers see the old state or the new one. Get the table again from its catalog if the schema of either was
        changed; then let no reader or writer run meanwhile.
        """
        with with_table_name(self.store.name):
            name, only_look = (
                argument_checks.check_text("branch", branch),
                argument_checks.check_bool("dry_run", dry_run),
            )
            may_lose = argument_checks.check_bool("allow_loss", allow_loss)
            return branches.fast_forward(self.store, name, allow_loss=may_lose, dry_run=only_look)

    def list_branches(self) -> list[str]:
        """Return the names of the branches beside `main`."""
        return self.store.branches()

    # Going back.

    def rollback_to(
        self, target: int | str, *, from_snapshot: int | None = None, dry_run: bool = False
    ) -> RollbackResult:
        """Bring the table back to a snapshot, given by its id, or to a tag, given by its name.

        With `from_snapshot` only if the newest snapshot has that id; else CommitConflictError is raised. With `dry_run`
        nothing is removed; the result says what would go.

        Later snapshots, their changelogs and tags are removed; their data files stay until `remove_orphan_files`
        removes them. The schema stays. Readers see the old state or the target. A commit of lakewright that is under
        way is planned again on the target; let writers of other engines rest.

        >>> import tempfile, pyarrow as pa, lakewright as lw
        >>> catalog = lw.CatalogFactory.create({"warehouse": tempfile.mkdtemp()})
        >>> catalog.create_database("d")
        >>> catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(pa.schema({"n": pa.int64()})))
        >>> table = catalog.get_table("d.t")
        >>> for n in (1, 2, 3):
        ...     _ = lw.write_table(pa.table({"n": [n]}), table)
        >>> table.rollback_to(2).snapshot_ids
        (3,)
        >>> lw.read_table(table)["n"].to_pylist()
        [1, 2]
        """
        with with_table_name(self.store.name):
            expected = argument_checks.check_optional(argument_checks.check_int, "from_snapshot", from_snapshot)
            only_look = argument_checks.check_bool("dry_run", dry_run)
            return rollback(self.store, _state("target", target), from_snapshot=expected, dry_run=only_look)

    def rollback_to_timestamp(self, timestamp: TimestampLike) -> RollbackResult:
        """Bring the table back to the last snapshot that is not later than a time; see `snapshot` and `rollback_to`."""
        with with_table_name(self.store.name):
            found = self.store.snapshots.at_timestamp(argument_checks.to_epoch_millis("timestamp", timestamp))
            return rollback(self.store, found.id)

    def rollback_to_watermark(self, watermark: int) -> RollbackResult:
        """Bring the table back to the last snapshot whose watermark is not above a value; see `rollback_to`."""
        with with_table_name(self.store.name):
            found = self.store.snapshots.up_to_watermark(argument_checks.check_int("watermark", watermark))
            return rollback(self.store, found.id)

    def rollback_to_as_latest(self, target: int | str, *, from_snapshot: int | None = None) -> Snapshot:
        """Publish the state of a snapshot or a tag as a new snapshot, and return it. Nothing is removed.

        If that brings back files which were removed since, the state gets a tag `rollback-to-as-latest-...`; it keeps
        the expiry of Java from deleting them: delete it once the snapshots from before the call have expired.

        With `from_snapshot` only if the newest snapshot has that id; else CommitConflictError is raised.

        >>> import tempfile, pyarrow as pa, lakewright as lw
        >>> catalog = lw.CatalogFactory.create({"warehouse": tempfile.mkdtemp()})
        >>> catalog.create_database("d")
        >>> catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(pa.schema({"n": pa.int64()})))
        >>> table = catalog.get_table("d.t")
        >>> for n in (1, 2, 3):
        ...     _ = lw.write_table(pa.table({"n": [n]}), table)
        >>> table.rollback_to_as_latest(1).id
        4
        >>> lw.read_table(table)["n"].to_pylist(), lw.read_table(table, snapshot_id=3)["n"].to_pylist()
        ([1], [1, 2, 3])
        """
        with with_table_name(self.store.name):
            expected = argument_checks.check_optional(argument_checks.check_int, "from_snapshot", from_snapshot)
            self.store.check_same_table()
            return restore(self.store, _state("target", target), from_snapshot=expected)

    # Readers of streams.

    def list_consumers(self) -> dict[str, int]:
        """Return the snapshot that each consumer reads next; expiry keeps it and all later ones."""
        return self.store.consumers.all()

    def reset_consumer(self, consumer_id: str, next_snapshot: int | None = None) -> None:
        """Let a consumer go on at a snapshot; without one, forget the consumer."""
        with with_table_name(self.store.name):
            name = argument_checks.check_text("consumer_id", consumer_id)
            following = argument_checks.check_optional(argument_checks.check_positive, "next_snapshot", next_snapshot)
            self.store.check_same_table()
            if following is None:
                self.store.consumers.delete(name)
            else:
                self.store.consumers.record(name, following)

    def clear_consumers(self, including: str | None = None, excluding: str | None = None) -> list[str]:
        """Forget the consumers whose whole name one regular expression matches and another does not; return them.

        Without expressions all go.

        >>> import tempfile, pyarrow as pa, lakewright as lw
        >>> catalog = lw.CatalogFactory.create({"warehouse": tempfile.mkdtemp()})
        >>> catalog.create_database("d")
        >>> catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(pa.schema({"n": pa.int64()})))
        >>> table = catalog.get_table("d.t")
        >>> table.reset_consumer("daily", 3)
        >>> table.reset_consumer("test-1", 1)
        >>> table.clear_consumers("test-.*"), table.list_consumers()
        (['test-1'], {'daily': 3})
        """
        with with_table_name(self.store.name):
            wanted, spared = _pattern("including", including), _pattern("excluding", excluding)
            self.store.check_same_table()
            names = self.store.consumers.list()
            cleared = [n for n in names if wanted is None or wanted.fullmatch(n)]
            cleared = [n for n in cleared if spared is None or not spared.fullmatch(n)]
            for name in cleared:
                self.store.consumers.delete(name)
            return cleared

    def expire_consumers(self, older_than: TimestampLike | timedelta | None = None) -> list[str]:
        """Forget the consumers that recorded nothing since a time, or for an age; return their names.

        Without it the option `consumer.expiration-time` says how long they stay; expiry of snapshots does the same.
        """
        with with_table_name(self.store.name):
            now = int(time.time() * 1000)
            kept = self.store.options.consumer_expiration_time
            if older_than is None and kept is None:
                raise InvalidInputError(
                    f"{self.store.name}: say how old a consumer must be (older_than), or set 'consumer.expiration-time'"
                )
            limit = (
                now - (kept or 0)
                if older_than is None
                else argument_checks.to_past_epoch_millis("older_than", older_than, now)
            )
            self.store.check_same_table()
            return list(self.store.consumers.expire(older_than_millis=limit))

    # ---- partitions, tags and changelogs that grow old; purge

    def expire_partitions(
        self,
        expiration_time: DurationLike | None = None,
        *,
        timestamp_formatter: str | None = None,
        timestamp_pattern: str | None = None,
        strategy: str | None = None,
        max_expires: int | None = None,
        dry_run: bool = False,
    ) -> PartitionExpireResult:
        """Remove all rows of old partitions in one snapshot; what is not said is as the table's options say.

        `expiration_time` is how long a partition is kept: a `timedelta`, text such as `7 days`, or milliseconds. By the
        strategy `values-time` its values say its time: `timestamp_pattern` puts them together, such as `$day $hour`
        (without it the first column counts), and `timestamp_formatter` is a pattern of Java such as `yyyyMMdd HH`
        (without it, `yyyy-MM-dd` and `yyyy-MM-dd HH:mm:ss`). By `update-time` a partition is as old as its newest file.
        The first `max_expires`, in the order of their values, go in one call; the result's `left` counts the others.

        >>> import tempfile, pyarrow as pa, lakewright as lw
        >>> catalog = lw.CatalogFactory.create({"warehouse": tempfile.mkdtemp()})
        >>> catalog.create_database("d")
        >>> columns = pa.schema({"day": pa.string(), "n": pa.int64()})
        >>> catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(columns, partition_keys=["day"]))
        >>> table = catalog.get_table("d.t")
        >>> _ = lw.write_table(pa.table({"day": ["20200131", "29991231"], "n": [1, 2]}), table)
        >>> table.expire_partitions("30 days", timestamp_formatter="yyyyMMdd").partitions
        ({'day': '20200131'},)
        >>> lw.read_table(table)["n"].to_pylist()
        [2]
        """
        with with_table_name(self.store.name):
            rule = ExpiryRule.of_options(
                self.store.options,
                kept_millis=argument_checks.check_optional(
                    argument_checks.to_duration_millis, "expiration_time", expiration_time
                ),
                formatter=argument_checks.check_optional(
                    argument_checks.check_text, "timestamp_formatter", timestamp_formatter
                ),
                pattern=argument_checks.check_optional(
                    argument_checks.check_text, "timestamp_pattern", timestamp_pattern
                ),
                strategy=None
                if strategy is None
                else argument_checks.check_one_of("strategy", strategy, partition_lifecycle.STRATEGIES),
                max_expires=argument_checks.check_optional(
                    argument_checks.check_non_negative, "max_expires", max_expires
                ),
            )
            only_look = argument_checks.check_bool("dry_run", dry_run)
            return partition_lifecycle.expire_partitions(self.store.refreshed(), rule, dry_run=only_look)

    def expire_tags(self, older_than: TimestampLike | timedelta | None = None, *, dry_run: bool = False) -> list[str]:
        """Delete the tags whose time is over, and with `older_than` all that were created before; return their names.

        `older_than` is a time or an age, as in `expire_snapshots`. A tag without a time of its creation stays. Files
        that only a tag needed stay until `remove_orphan_files` removes them.
        """
        with with_table_name(self.store.name):
            now = int(time.time() * 1000)
            limit = None if older_than is None else argument_checks.to_past_epoch_millis("older_than", older_than, now)
            return tag_lifecycle.expire_tags(
                self.store, older_than_millis=limit, dry_run=argument_checks.check_bool("dry_run", dry_run)
            )

    def create_due_tags(self) -> list[str]:
        """Create the tags that `tag.automatic-creation` asks for and that are due; return their names.

        Commits do the same by themselves, unless the table is `write-only`. With `batch` the newest snapshot is tagged.
        """
        with with_table_name(self.store.name):
            if self.store.options.tag_automatic_creation == BATCH:
                name = tag_lifecycle.create_batch_tag(self.store)
                return [] if name is None else [name]
            return tag_lifecycle.create_due_tags(self.store)

    def expire_changelogs(
        self,
        retain_max: int | None = None,
        retain_min: int | None = None,
        older_than: TimestampLike | timedelta | None = None,
        max_deletes: int | None = None,
        *,
        delete_all: bool = False,
        dry_run: bool = False,
    ) -> ExpireResult:
        """Remove old changelogs of expired snapshots, which tables with `changelog.*` options keep longer than these.

        The arguments mean the same as in `expire_snapshots`; what is not said is as the options `changelog.*` say.
        With `delete_all` none stays that no consumer needs.
        """
        with with_table_name(self.store.name):
            now, options = int(time.time() * 1000), self.store.options
            given = retention_of(options, now, retain_max, retain_min, older_than, max_deletes)
            said = any(argument is not None for argument in (retain_max, retain_min, older_than))
            retention = given if said else given.of_changelogs(options, now) or given
            if argument_checks.check_bool("delete_all", delete_all):
                retention = Retention(1, 1, now, MAX_INT)
            return expire_changelogs(self.store, retention, dry_run=argument_checks.check_bool("dry_run", dry_run))

    def mark_partition_done(
        self,
        partitions: Mapping[str, object] | Sequence[Mapping[str, object]],
        *,
        custom: Callable[[dict[str, str]], object] | None = None,
    ) -> list[dict[str, str]]:
        """Mark each partition that agrees with a spec as complete; return these.

        What is done is what the option `partition.mark-done-action` names: by default the file `_SUCCESS` is written
        into the directory of the partition. It says since when the partition is complete, and when it was marked last.
        `custom` is a function that is called with each partition at last.
        """
        with with_table_name(self.store.name):
            specs = argument_checks.check_partition_specs("partitions", partitions)
            if custom is not None:
                argument_checks.check_callable("custom", custom)
            return partition_lifecycle.mark_partitions_done(self.store.refreshed(), specs, custom=custom)

    def purge_files(self, *, dry_run: bool = False) -> PurgeResult:
        """Remove all rows with their history at once: tags, branches, consumers, all snapshots but an empty one.

        All files that nothing names go too, those of writers at work among them: let none run. The schema stays.
        """
        with with_table_name(self.store.name):
            return snapshot_expiry.purge(self.store.refreshed(), dry_run=argument_checks.check_bool("dry_run", dry_run))

    # ---- repair

    def repair(self, *, dry_run: bool = False) -> RepairResult:
        """Repair the hints LATEST and EARLIEST, tags whose files are gone, and what cut-short work on branches left.

        The result's `steps` say what was wrong and what was done, or with `dry_run` would be. A tag is removed only if
        nothing of it can be read any more. Data files are never touched: see `remove_unexisting_files`.

        >>> import tempfile, pathlib, pyarrow as pa, lakewright as lw
        >>> catalog = lw.CatalogFactory.create({"warehouse": tempfile.mkdtemp()})
        >>> catalog.create_database("d")
        >>> catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(pa.schema({"n": pa.int64()})))
        >>> table = catalog.get_table("d.t")
        >>> _ = lw.write_table(pa.table({"n": [1]}), table)
        >>> _ = pathlib.Path(table.table_path, "snapshot/LATEST").write_text("77")
        >>> [step.message for step in table.repair().steps if "LATEST" in step.message]
        ["LATEST says '77'; it is 1"]
        >>> table.repair().is_empty
        True
        """
        with with_table_name(self.store.name):
            return repair(self.store, dry_run=argument_checks.check_bool("dry_run", dry_run))

    def remove_unexisting_files(self, *, dry_run: bool = True) -> UnexistingResult:
        """Take data files that do not exist off the newest snapshot, so that the rest of the table can be read.

        By default they are only listed: their rows are lost, so look for a copy first. With `dry_run=False` one commit
        removes them, and their deletion vectors. Of a primary-key table, rows that they had replaced come back.

        >>> import tempfile, pathlib, pyarrow as pa, lakewright as lw
        >>> catalog = lw.CatalogFactory.create({"warehouse": tempfile.mkdtemp()})
        >>> catalog.create_database("d")
        >>> catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(pa.schema({"n": pa.int64()})))
        >>> table = catalog.get_table("d.t")
        >>> for n in (1, 2):
        ...     _ = lw.write_table(pa.table({"n": [n]}), table)
        >>> next(pathlib.Path(table.table_path).glob("bucket-0/*")).unlink()
        >>> table.remove_unexisting_files().count
        1
        >>> table.remove_unexisting_files(dry_run=False).snapshot_id
        3
        >>> lw.read_table(table).num_rows
        1
        """
        with with_table_name(self.store.name):
            store = self.store.refreshed()
            return remove_missing_files(store, dry_run=argument_checks.check_bool("dry_run", dry_run))

    def drop_global_index(
        self,
        index_column: str,
        index_type: str | None = None,
        *,
        partitions: Mapping[str, object] | Sequence[Mapping[str, object]] | None = None,
        dry_run: bool = False,
    ) -> DropIndexResult:
        """Drop the global indexes that another engine made of a column, in one commit; then the column can be updated.

        With `index_type` only those of a kind such as `btree`, with `partitions` only those of some partitions. An
        index of several columns goes as a whole. With `dry_run` nothing is changed: the result says what would go. A
        column without such an index is a NotFoundError.
        """
        with with_table_name(self.store.name):
            kind = argument_checks.check_optional(argument_checks.check_text, "index_type", index_type)
            specs = argument_checks.check_optional(argument_checks.check_partition_specs, "partitions", partitions)
            only_look = argument_checks.check_bool("dry_run", dry_run)
            name = argument_checks.check_text("index_column", index_column)
            return drop_global_index(self.store.refreshed(), name, kind, partitions=specs, dry_run=only_look)

    # ---- statistics, report, verification

    def analyze(self, columns: Columns = None) -> AnalyzeResult:
        """Count the rows of the newest snapshot and record them, with their bytes, in one ANALYZE snapshot.

        `columns` names columns to count as well, or is `"all"`: distinct values (exact up to 16,000, else within about
        one percent), nulls, bounds, lengths. Nested values have no statistics. Later snapshots keep what was recorded
        until the schema changes; `statistics()` and `db.t$statistics` show it, and `explain` uses it.

        >>> import tempfile, pyarrow as pa, lakewright as lw
        >>> catalog = lw.CatalogFactory.create({"warehouse": tempfile.mkdtemp()})
        >>> catalog.create_database("d")
        >>> catalog.create_table("d.t", pa.schema({"n": pa.int64(), "s": pa.string()}))
        >>> table = catalog.get_table("d.t")
        >>> _ = lw.write_table(pa.table({"n": [1, 1, 7], "s": ["a", None, "bcd"]}), table)
        >>> result = table.analyze("all")
        >>> result.snapshot_id, result.rows, result.columns["n"].distinct_count, result.columns["n"].max
        (2, 3, 2, '7')
        """
        with with_table_name(self.store.name):
            return analyze_table(self.store.refreshed(), columns)

    def statistics(self) -> TableStatistics | None:
        """Return the statistics that the newest snapshot has, or the one that `scan.` options name; None for none."""
        with with_table_name(self.store.name):
            snapshot = resolve_snapshot(self.store)
            self.store.check_same_table()
            return read_statistics(self.store, snapshot)

    def report(self, path: PathLike | None = None, *, orphans: bool = False) -> str:
        """Return a page about the table in HTML: its history, partitions, buckets and files, and what to do about them.

        With a `path` the page is written there too, in place of a file of that name. It needs no network, no script
        and no data file: metadata alone is read. With `orphans` it also counts the files that nothing names, for which
        the whole table is listed.

        >>> import tempfile, pyarrow as pa, lakewright as lw
        >>> catalog = lw.CatalogFactory.create({"warehouse": tempfile.mkdtemp()})
        >>> catalog.create_database("d")
        >>> catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(pa.schema({"n": pa.int64()})))
        >>> page = catalog.get_table("d.t").report()
        >>> page.splitlines()[0], "nothing was written yet" in page
        ('<!DOCTYPE html>', True)
        """
        with with_table_name(self.store.name):
            target = argument_checks.check_optional(argument_checks.check_path, "path", path)
            counts_orphans = argument_checks.check_bool("orphans", orphans)
            return write_report(gather(self.store.refreshed(), orphans=counts_orphans), target)

    def verify(
        self,
        full: bool = False,  # noqa: FBT001, FBT002 - read as verify(True) or verify(full=True)
        snapshots: Literal["latest", "all"] = "latest",
        *,
        fast: bool = False,
    ) -> VerifyResult:
        """Prove that the files of the table hold what its metadata says; damage is a finding and raises nothing.

        Without `full`, data files are opened and their rows counted; with `full`, all rows are read, and statistics,
        keys, sequence numbers, buckets and checksums proven; with `fast`, no data file is opened. `snapshots` is
        `latest`, the newest snapshot of this branch, or `all`: every snapshot, tag, changelog and branch, and files
        that nothing names. `result.is_sound` says whether no finding is an error.

        >>> import tempfile, pyarrow as pa, lakewright as lw
        >>> catalog = lw.CatalogFactory.create({"warehouse": tempfile.mkdtemp()})
        >>> catalog.create_database("d")
        >>> catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(pa.schema({"n": pa.int64()})))
        >>> table = catalog.get_table("d.t")
        >>> _ = lw.write_table(pa.table({"n": [1, 2]}), table)
        >>> result = table.verify(full=True, snapshots="all")
        >>> result.is_sound, result.rows, result.findings
        (True, 2, ())
        """
        with with_table_name(self.store.name):
            depth, states = check_depth(full, fast=fast, snapshots=snapshots)
            return verify_table(self.store.refreshed(), depth=depth, states=states)
