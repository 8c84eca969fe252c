"""pypaimon's verbs on Ray (documented import path).

pypaimon's row changes on Ray are for tables with data evolution alone, and so are these; `lakewright.ray` has them for
tables of every kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakewright import ray as core
from lakewright.dml.assignments import lit, source_col, target_col
from lakewright.dml.row_location import select_groups
from lakewright.errors import InvalidInputError
from lakewright.pypaimon.compat_catalog import CatalogFactory
from lakewright.pypaimon.compat_predicates import cast_table
from lakewright.pypaimon.compat_table import FileStoreTable
from lakewright.pypaimon.compat_update import On, WhenMatched, WrongTypeError, check_clauses, prepare_merge
from lakewright.pypaimon.compat_values import Range
from lakewright.ray.dataset_read import to_ray
from lakewright.ray.ray_datasets import arrow_schema_of, to_dataset
from lakewright.ray.ray_engine import RayWriteSettings
from lakewright.ray.ray_verbs import DatasetMerge
from lakewright.read.read_builder import Columns, ReadRequest
from lakewright.spec import argument_checks
from lakewright.spec.filters import Filter
from lakewright.spec.system_columns import ROW_ID
from lakewright.spec.types import DataField
from lakewright.table import file_store_table as tables
from lakewright.table.open_table import read_builder
from lakewright.table.table_views import SystemReadBuilder
from lakewright.table.update_builder import WhenNotMatched, equalities

if TYPE_CHECKING:
    from ray.data import Dataset

__all__ = [
    "PaimonDatasink",
    "PaimonWriteResult",
    "WhenMatched",
    "WhenNotMatched",
    "bucket_join",
    "lit",
    "merge_into",
    "process_row_id_ranges",
    "read_by_row_id",
    "read_paimon",
    "source_col",
    "target_col",
    "update_by_row_id",
    "write_paimon",
]

_INVARIANTS = ("data-evolution.enabled", "deletion-vectors.enabled", "row-tracking.enabled")


@dataclass(frozen=True)
class PaimonWriteResult:
    """What a write committed."""

    row_count: int
    snapshot_id: int


class PaimonDatasink(core.PaimonDatasink):
    """A sink for `dataset.write_datasink(...)`; `commit_result` says what it committed."""

    def __init__(
        self,
        table: tables.FileStoreTable,
        overwrite: bool = False,  # noqa: FBT001, FBT002 - pypaimon's signature
        static_partition: Mapping[str, object] | None = None,
        postpone_bucket_plan: None = None,
    ) -> None:
        if postpone_bucket_plan is not None:
            raise InvalidInputError(
                "a bucket plan is pypaimon's own; write tables with postponed buckets with write_ray of the builder "
                "that new_postpone_fixed_bucket_write_builder() returns"
            )
        super().__init__(table, overwrite, static_partition)

    @property
    def commit_result(self) -> PaimonWriteResult | None:
        """What the last write committed; None: nothing."""
        return _write_result(self.result)


# ---- reads and writes ------------------------------------------------------------------------------------------------


def read_paimon(  # noqa: PLR0913 - pypaimon's signature
    table_identifier: str,
    catalog_options: Mapping[str, object],
    *,
    filter: Filter | None = None,  # noqa: A002 - pypaimon's signature
    projection: Columns | None = None,
    limit: int | None = None,
    snapshot_id: int | None = None,
    tag_name: str | None = None,
    dynamic_options: Mapping[str, str] | None = None,
    ray_remote_args: Mapping[str, object] | None = None,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
    **read_args: object,
) -> Dataset:
    """Read a table of a catalog as a dataset; see `lakewright.ray.read_table`."""
    table = _table(table_identifier, catalog_options, dynamic_options)
    request = ReadRequest(filter=filter, columns=projection, limit=limit, snapshot_id=snapshot_id, tag=tag_name)
    builder = read_builder(table, request)
    if isinstance(builder, SystemReadBuilder):
        return _dataset(builder.new_read().to_arrow())
    more: dict[str, Any] = read_args
    return to_ray(builder.new_read(), None, ray_remote_args, concurrency, override_num_blocks, **more)


def write_paimon(  # noqa: PLR0913 - pypaimon's signature
    dataset: Dataset,
    table_identifier: str,
    catalog_options: Mapping[str, object],
    *,
    overwrite: bool = False,
    concurrency: int | None = None,
    ray_remote_args: Mapping[str, object] | None = None,
    hash_fixed_precluster: str = "auto",
) -> PaimonWriteResult | None:
    """Write a dataset into a table of a catalog; None: nothing was committed."""
    with _table(table_identifier, catalog_options).new_batch_write_builder().new_write() as write:
        done = write.write_ray(dataset, overwrite, concurrency, ray_remote_args, hash_fixed_precluster)
    return _write_result(done)


def bucket_join(  # noqa: PLR0913 - pypaimon's signature
    left: str,
    right: str,
    catalog_options: Mapping[str, object],
    *,
    on: str | Sequence[str],
    left_projection: Sequence[str] | None = None,
    right_projection: Sequence[str] | None = None,
    join_type: str = "inner",
    ray_remote_args: Mapping[str, object] | None = None,
) -> Dataset:
    """Join two tables with the same buckets, bucket by bucket: see `lakewright.ray.bucket_join`."""
    if join_type != "inner":
        raise InvalidInputError(f"bucket_join supports only join_type='inner', not {join_type!r}")
    return core.bucket_join(
        _table(left, catalog_options),
        _table(right, catalog_options),
        on,
        left_columns=left_projection,
        right_columns=right_projection,
        ray_remote_args=ray_remote_args,
    )


# ---- changes ---------------------------------------------------------------------------------------------------------


def merge_into(  # noqa: PLR0913 - pypaimon's signature
    target: str,
    source: object,
    catalog_options: Mapping[str, object],
    *,
    on: On,
    when_matched: Sequence[WhenMatched] = (),
    when_not_matched: Sequence[WhenNotMatched] = (),
    num_partitions: int | None = None,
    ray_remote_args: Mapping[str, object] | None = None,
    concurrency: int | None = None,
    read_columns: Sequence[str] | None = None,
) -> dict[str, int]:
    """Merge a dataset, Arrow or pandas data, or a table by its name, into a table with data evolution.

    Returns how many rows changed (`num_matched`) and how many are new (`num_inserted`).
    """
    _check_tasks(num_partitions)
    check_clauses(when_matched, when_not_matched)
    if read_columns:
        raise InvalidInputError("read_columns requires a callable SET value, which a merge of Ray datasets lacks")
    table = _evolving("merge_into", target, catalog_options)
    deletes = any(isinstance(clause, WhenMatched) and clause.assigned is None for clause in when_matched)
    if deletes and not table.store.options.deletion_vectors_enabled:
        raise InvalidInputError(f"merge_into DELETE requires 'deletion-vectors.enabled' = 'true' on {target!r}")
    if isinstance(source, str):
        source = _named_source(table, source, catalog_options, on, inserts=bool(when_not_matched))
    else:
        source = _dataset(source)
    merge = prepare_merge(table.store, source, on, when_matched, when_not_matched)
    clauses = (*(each.clause for each in merge.matched), *(each.clause for each in merge.not_matched))
    settings = RayWriteSettings.of(concurrency, ray_remote_args)
    done = DatasetMerge(
        store=table.refreshed().store, source=source, on=equalities(merge.on), clauses=clauses, settings=settings
    ).execute()
    changed = (done.updated or 0) + (done.deleted or 0)
    return {"num_matched": changed, "num_inserted": done.inserted or 0, "num_unchanged": 0}


def update_by_row_id(
    target: str,
    source: object,
    catalog_options: Mapping[str, object],
    *,
    update_cols: Sequence[str],
    num_partitions: int | None = None,
    ray_remote_args: Mapping[str, object] | None = None,
) -> dict[str, int]:
    """Set columns of rows of a table with data evolution by their `_ROW_ID`; returns how many (`num_updated`)."""
    _check_tasks(num_partitions)
    names = list(dict.fromkeys(argument_checks.check_names("update_cols", update_cols)))
    if not names:
        raise InvalidInputError("update_cols must be non-empty: name the columns to set")
    table = _evolving("update_by_row_id", target, catalog_options)
    for name in names:
        if name not in table.field_names:
            raise InvalidInputError(f"the update column {name!r} is not in target {target!r}", column=name)
        if name in table.partition_keys:
            raise InvalidInputError(
                f"update_by_row_id cannot update the partition column {name!r}: rows cannot move to another partition"
            )
    given = _given_ids("update_by_row_id", source)
    known = arrow_schema_of(given)
    missing = [name for name in (ROW_ID.name, *names) if known is not None and name not in known.names]
    if missing:
        raise InvalidInputError(f"the source is missing columns {missing}: it must have {ROW_ID.name} and {names}")
    fields = [field for field in table.store.schema.fields if field.name in names]
    typed = given.map_batches(partial(_cast_block, fields=fields, table=table.name), batch_format="pyarrow")
    done = core.update_by_row_id(typed, table, names, ray_remote_args=ray_remote_args)
    return {"num_updated": done.updated or 0}


def read_by_row_id(  # noqa: PLR0913 - pypaimon's signature
    target: str,
    row_ids: object,
    catalog_options: Mapping[str, object],
    *,
    projection: Sequence[str],
    row_id_col: str | None = None,
    dynamic_options: Mapping[str, str] | None = None,
    num_partitions: int | None = None,
    ray_remote_args: Mapping[str, object] | None = None,
) -> Dataset:
    """Read columns of rows of a table with data evolution by their ids, and `_ROW_ID`, each row once."""
    _check_tasks(num_partitions)
    names = list(dict.fromkeys(argument_checks.check_names("projection", projection)))
    if not names:
        raise InvalidInputError("projection must be non-empty: name the columns to read")
    _evolving("read_by_row_id", target, catalog_options)
    fixed = sorted({*_INVARIANTS} & {*(dynamic_options or {})})
    if fixed:
        raise InvalidInputError(f"dynamic_options cannot override table invariants {fixed}")
    table = _table(target, catalog_options, dynamic_options)
    for name in names:
        if name not in {*table.field_names, ROW_ID.name}:
            raise InvalidInputError(f"the projection column {name!r} is not in target {target!r}", column=name)
    column = ROW_ID.name if row_id_col is None else argument_checks.check_text("row_id_col", row_id_col)
    given = _given_ids("read_by_row_id", row_ids)
    known = arrow_schema_of(given, fetch=False)
    if known is not None and column not in known.names:
        raise InvalidInputError(f"the row_ids source is missing the {column!r} column")
    ids = given.map_batches(partial(_only_ids, column=column), batch_format="pyarrow")
    return core.read_by_row_id(ids, table, names, ray_remote_args=ray_remote_args)


def process_row_id_ranges(
    target: str,
    catalog_options: Mapping[str, object],
    *,
    rows_per_commit: int,
    processor: Callable[[list[Range]], None],
) -> None:
    """Call a function with ranges of row ids, of at least so many rows at a time where there are as many left.

    The ranges are those of the newest snapshot's groups of files, which are never cut, in ascending order.
    """
    wanted = argument_checks.check_positive("rows_per_commit", rows_per_commit)
    call = argument_checks.check_callable("processor", processor)
    store = _table(target, catalog_options).store
    if not store.options.row_tracking_enabled:
        raise InvalidInputError(f"process_row_id_ranges requires 'row-tracking.enabled' = 'true' on {target!r}")
    snapshot = store.snapshots.latest()
    parts = [] if snapshot is None else select_groups(store, snapshot)
    firsts = sorted((part.files[0].first_row_id or 0, part.files[0].row_count) for part in parts)
    waiting: list[Range] = []
    for first, rows in firsts:
        waiting.append(Range(first, first + rows - 1))
        if sum(each.count() for each in waiting) >= wanted:
            call(waiting)
            waiting = []
    if waiting:
        call(waiting)


# ---- what they share -------------------------------------------------------------------------------------------------


def _table(
    name: str, catalog_options: Mapping[str, object], dynamic_options: Mapping[str, str] | None = None
) -> FileStoreTable:
    table = CatalogFactory.create(catalog_options).get_table(name)
    return table.copy(dict(dynamic_options)) if dynamic_options else table


def _evolving(verb: str, target: str, catalog_options: Mapping[str, object]) -> FileStoreTable:
    """Return a table with data evolution and row ids; refuse others, as pypaimon does."""
    table = _table(target, catalog_options)
    options = table.store.options
    for key, enabled in (
        ("data-evolution.enabled", options.data_evolution_enabled),
        ("row-tracking.enabled", options.row_tracking_enabled),
    ):
        if not enabled:
            raise InvalidInputError(
                f"{verb} requires {key!r} = 'true' on {target!r}; lakewright.ray has verbs for tables of every kind",
                table=table.name,
                option=key,
            )
    return table


def _dataset(source: object) -> Dataset:
    made = to_dataset(source)
    if made is None:
        raise WrongTypeError(
            "the source is a ray.data.Dataset, the name of a Paimon table, a pyarrow.Table or a pandas.DataFrame, not "
            f"{type(source).__name__}"
        )
    return made


def _named_source(
    table: FileStoreTable, source: str, catalog_options: Mapping[str, object], on: On, *, inserts: bool
) -> Dataset:
    """Return the rows of a source table, with their ids where rows are joined by these."""
    other = _table(source, catalog_options)
    by_id = isinstance(on, Mapping) and ROW_ID.name in on.values()
    by_id = by_id or (not isinstance(on, Mapping) and ROW_ID.name in argument_checks.check_names("on", on))
    if by_id and inserts and other.store.layout == table.store.layout:
        raise InvalidInputError(
            f"Self-merge: a merge of {source} with itself by {ROW_ID.name} matches every row, so it does not support "
            "WHEN NOT MATCHED clauses"
        )
    return core.read_table(other, columns=[*other.field_names, ROW_ID.name] if by_id else None)


def _given_ids(verb: str, source: object) -> Dataset:
    if isinstance(source, str):
        raise InvalidInputError(
            f"{verb} does not accept a table-name source, for the ids of a table are its own; give a ray.data.Dataset, "
            "a pyarrow.Table or a pandas.DataFrame with the ids of the target"
        )
    return _dataset(source)


def _only_ids(block: pa.Table, column: str) -> pa.Table:
    if column not in block.column_names:
        raise InvalidInputError(f"the row_ids source is missing the {column!r} column")
    return pa.table({ROW_ID.name: block.column(column).cast(pa.int64())})


def _cast_block(block: pa.Table, fields: Sequence[DataField], table: str) -> pa.Table:
    return cast_table(block, fields, table)


def _check_tasks(num_partitions: int | None) -> None:
    """Check a number that tells pypaimon how finely to shuffle; here the tasks follow from the files."""
    argument_checks.check_optional(argument_checks.check_positive, "num_partitions", num_partitions)


def _write_result(done: core.WriteResult | None) -> PaimonWriteResult | None:
    if done is None or done.snapshot_id is None:
        return None
    return PaimonWriteResult(done.rows, done.snapshot_id)
