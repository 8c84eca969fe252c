"""One table: its schema and its verbs. Every verb calls the room that does the work.

A table is a small value that can be pickled and sent to a worker; it pins no snapshot and holds no open file.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, ClassVar, TypeAlias, cast

from lakewright.compact.job import compact_chosen, materialize_vectors
from lakewright.compact.manifests import ManifestsResult, compact_manifests
from lakewright.compact.request.choice import CompactRequest, Strategy
from lakewright.compact.rescale import rescale
from lakewright.compact.rounds import CompactResult
from lakewright.errors import NotFoundError, naming
from lakewright.maintenance.expire import ExpireResult, expire_snapshots
from lakewright.maintenance.external import check_external_places
from lakewright.maintenance.orphans import OrphanResult, remove_orphans
from lakewright.metadata.store import placed
from lakewright.read.branches import other_branch
from lakewright.read.builder import ReadBuilder
from lakewright.read.changes.stream import StreamReadBuilder
from lakewright.read.scan import travels, with_travelled_schema
from lakewright.report.card import card
from lakewright.spec import arguments
from lakewright.spec.arguments import Age, Moment, Properties
from lakewright.spec.options import CoreOptions
from lakewright.spec.predicate.filters import Filter
from lakewright.spec.schema.option_changes import check_option_change
from lakewright.spec.schema.option_keys import warn_of_unknown
from lakewright.spec.schema.table_schema import TableSchema
from lakewright.spec.types import DataField, RowType
from lakewright.table.analysis import TableAnalysis
from lakewright.table.lifecycle import retention_of
from lakewright.table.write_builder import BatchWriteBuilder, PostponeFixedBucketWriteBuilder, StreamWriteBuilder
from lakewright.update import row_ids, verbs
from lakewright.update.merge import merge, upsert
from lakewright.update.merge.clauses import On
from lakewright.update.merge.merge import MergeBuilder
from lakewright.update.result import UpdateResult
from lakewright.update.row_ids import RowIds
from lakewright.write.input.frames import ArrowData, engine_verb
from lakewright.write.job_run import JobRun

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from ray.data import Dataset

Partitions: TypeAlias = Mapping[str, object] | Sequence[Mapping[str, object]]  # one spec stands for a list of one

_DAY_MILLIS = 24 * 60 * 60 * 1000


class FileStoreTable(TableAnalysis):
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

    __slots__ = ()

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
        return self.store.options

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
        shown = self._travelled().store
        return self._read_builder_class(shown, other_branch(self.store if travels(self.store) else shown, shown))

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
        with naming(self.name):
            given = arguments.text_map("options", options)
            for key, value in given.items():
                if self.schema.options.get(key) != value:
                    check_option_change(self.schema.options, key, value, has_snapshot=True)
            schema = self.schema.with_options(given)
            schema.core_options.check()
        warn_of_unknown(f"table {self.name}", self.table_path, given)
        layout = placed(self.store.layout, schema)
        if layout.external_directories != self.store.layout.external_directories:
            with naming(self.name):
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
        with naming(self.name):
            store = table.store.with_snapshot_properties(snapshot_properties)
        return table if store is table.store else replace(table, store=store)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export the rows as an Arrow stream, so that `pa.table(t)`, polars and DuckDB read the table as it is."""
        return self.new_read_builder().__arrow_c_stream__(requested_schema)

    def _travelled(self) -> FileStoreTable:
        """Return the table seen with the schema of the snapshot that its options travel to."""
        if not travels(self.store):
            return self.refreshed()
        store = with_travelled_schema(self.store)
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
        >>> result.deleted, result.files, result.way
        (1, 0, 'deletion vectors')
        >>> lw.read_table(table)["id"].to_pylist()
        [1, 3]
        """
        with naming(self.name):
            return verbs.delete(self._committing(snapshot_properties).store, where, job_id)

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
        >>> result.updated, result.way
        (1, 'copied files')
        >>> lw.read_table(table).to_pylist()
        [{'id': 1, 'n': 5, 'note': 'a'}, {'id': 2, 'n': 60, 'note': 'ten times'}]
        """
        with naming(self.name):
            return verbs.update(self._committing(snapshot_properties).store, assignments, where, job_id)

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
        with naming(self.name):
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
        >>> result.updated, result.way
        (2, 'column files')
        >>> lw.read_table(table)["n"].to_pylist()
        [10, 2, 30]
        """
        if (on_workers := engine_verb(data, "update_by_row_id")) is not None:
            return cast(
                "UpdateResult", on_workers(data, self, columns, job_id=job_id, snapshot_properties=snapshot_properties)
            )
        with naming(self.name):
            names = arguments.optional(arguments.names, "columns", columns)
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
        with naming(self.name):
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
        with naming(self.name):
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
        idle: Age | None = None,
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
        return compact_chosen(store, request.checked(store))

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
        specs = arguments.optional(arguments.specs, "partitions", partitions)
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
        with naming(self.name):
            specs = arguments.optional(arguments.specs, "partitions", partitions)
            return rescale(self.refreshed().store, arguments.positive("buckets", buckets), partitions=specs)

    def expire_snapshots(
        self,
        retain_max: int | None = None,
        retain_min: int | None = None,
        older_than: Moment | timedelta | None = None,
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
        retention = retention_of(table.options, now, retain_max, retain_min, older_than, max_deletes)
        return expire_snapshots(table.store, retention, dry_run=arguments.flag("dry_run", dry_run), now_millis=now)

    def remove_orphan_files(
        self,
        *,
        older_than: Moment | timedelta | None = None,
        dry_run: bool = False,
    ) -> OrphanResult:
        """Remove files that no snapshot, tag or branch names and that are older than a day, or than `older_than`.

        The files of a running writer are orphans until it commits: choose an age beyond the longest write.
        `older_than` is a time or an age, as in `expire_snapshots`. With `dry_run` nothing is removed: the result's
        `paths` name what would go.
        """
        now = int(time.time() * 1000)
        limit = now - _DAY_MILLIS if older_than is None else arguments.past_millis("older_than", older_than, now)
        return remove_orphans(
            self.refreshed().store, older_than_millis=limit, dry_run=arguments.flag("dry_run", dry_run)
        )
