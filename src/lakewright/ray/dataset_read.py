"""A read as a lazy dataset.

The core plans and reads. A read task holds a share of the splits and streams it as Arrow blocks; what the plan knows
(schema, files, bytes, and rows where no filter and no merge can change them) is in the metadata of the task, so Ray
answers `schema()` and `count()` without reading. Filters, projections, merges, deletion vectors and row kinds mean what
they mean embedded, because the same code runs. The order of rows is not promised.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa
import ray
from ray.data import Dataset, Datasource, ReadTask
from ray.data.block import BlockMetadata

from lakewright.errors import InvalidInputError
from lakewright.read.data_split import DataSplit
from lakewright.read.read_builder import Columns, ReadRequest, SnapshotRange
from lakewright.read.split_sharing import Share, cut_splits, share_splits
from lakewright.read.table_read import TableRead
from lakewright.spec.argument_checks import IncrementalMode, PathLike, TimestampLike
from lakewright.spec.filters import Filter
from lakewright.spec.predicate import TRUE, simplify
from lakewright.table.open_table import read_builder
from lakewright.table.table_views import ReadableTable, SystemReadBuilder

_BLOCK_BYTES = 32 << 20  # in memory, if the caller does not say how many blocks to make
_BLOCK_BYTES_MIN = 1 << 20  # blocks that are cut to keep every CPU busy are no smaller
_BLOCKS_PER_CPU = 2
_TEXT_BYTES = 32  # what a value without a fixed size takes, where only its type is known
_ITEMS = 4  # how many elements a list or a map has, where only its type is known


def read_table(  # noqa: PLR0913 - each argument is one way to say what to read
    table: ReadableTable | PathLike,
    *,
    filter: Filter | None = None,  # noqa: A002 - the word every reader of tables uses
    columns: Columns | None = None,
    limit: int | None = None,
    snapshot_id: int | None = None,
    tag: str | None = None,
    timestamp: TimestampLike | None = None,
    incremental: SnapshotRange | None = None,
    incremental_mode: IncrementalMode | None = None,
    row_kinds: bool = False,
    override_num_blocks: int | None = None,
    ray_remote_args: Mapping[str, object] | None = None,
    concurrency: int | None = None,
) -> Dataset:
    """Read a table, or a path, as a dataset; the newest snapshot unless an id, a tag or a time is given.

    The arguments are those of `lakewright.read_table`, and those of `TableRead.to_ray`. The snapshot is chosen now, not
    when the dataset runs.
    """
    request = ReadRequest(
        filter=filter,
        columns=columns,
        limit=limit,
        snapshot_id=snapshot_id,
        tag=tag,
        timestamp=timestamp,
        incremental=incremental,
        incremental_mode=incremental_mode,
        row_kinds=row_kinds,
    )
    builder = read_builder(table, request)
    if isinstance(builder, SystemReadBuilder):
        return ray.data.from_arrow(builder.new_read().to_arrow())
    return to_ray(builder.new_read(), None, ray_remote_args, concurrency, override_num_blocks)


def to_ray(
    read: TableRead,
    splits: Sequence[DataSplit] | None = None,
    ray_remote_args: Mapping[str, object] | None = None,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
    *,
    per_task_row_limit: int | None = None,
    **read_args: object,
) -> Dataset:
    """Read splits, all of a fresh plan where none are given, as a dataset of so many blocks.

    `per_task_row_limit` bounds the rows of each task; `read_args` are further arguments of
    `ray.data.read_datasource`.
    """
    if override_num_blocks is not None and override_num_blocks < 1:
        raise InvalidInputError(f"a dataset has at least 1 block, not {override_num_blocks}")
    known = inspect.signature(ray.data.read_datasource).parameters
    if unknown := sorted(read_args.keys() - known.keys()):
        raise InvalidInputError(
            f"{', '.join(unknown)}: no argument of to_ray, nor of ray.data.read_datasource; what to read is said to "
            "the read builder"
        )
    # Ray refuses remote arguments that its reader also has as arguments of its own.
    options = dict(ray_remote_args or {})
    named: dict[str, Any] = {key: options.pop(key) for key in list(options) if key in known}
    if options:
        named["ray_remote_args"] = options
    if not read.read_type():
        raise InvalidInputError(f"{read.store.name}: Ray drops the rows of a dataset without columns; name a column")
    planned = read.new_plan().splits() if splits is None else splits
    source = TableDatasource(read, planned, task_rows=per_task_row_limit)
    dataset: Dataset = ray.data.read_datasource(
        source,
        concurrency=concurrency,
        override_num_blocks=override_num_blocks or _blocks(source.estimate_inmemory_data_size()),
        **(named | read_args),
    )
    return dataset if read.limit is None else dataset.limit(read.limit)


class TableDatasource(Datasource):
    """The splits of one plan as a data source of Ray; `task_rows` bounds the rows of each task."""

    def __init__(self, read: TableRead, splits: Sequence[DataSplit], *, task_rows: int | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._read = read
        self._splits = tuple(splits)
        self._task_rows = task_rows

    def get_name(self) -> str:
        """Return what the tasks are called."""
        return "Lakewright"

    def estimate_inmemory_data_size(self) -> int:
        """Return about how many bytes the rows take in memory."""
        return sum(self._bytes(split) for split in self._splits)

    def get_read_tasks(
        self,
        parallelism: int,
        per_task_row_limit: int | None = None,
        data_context: object = None,  # noqa: ARG002 - Ray's signature
    ) -> list[ReadTask]:
        """Return about so many tasks, of about equal bytes; one that gives no rows where there is nothing to read."""
        read, splits = self._read, self._splits
        parts = splits if read.limit is not None else cut_splits(read.store, splits, read.predicate, parallelism)
        task_shares = share_splits(read.store, parts, at_least=1, exactly=parallelism)
        bounds = [rows for rows in (per_task_row_limit, self._task_rows, self._read.limit) if rows is not None]
        return [self._task(share, min(bounds, default=None)) for share in task_shares or [()]]

    def _task(self, share: Share, rows_max: int | None) -> ReadTask:
        """Return a task that reads a share, with metadata of all that is known before it runs."""
        schema = self._read.projection.schema
        rows = self._rows(share)
        metadata = BlockMetadata(
            num_rows=rows if rows is None or rows_max is None else min(rows, rows_max),
            size_bytes=sum(map(self._bytes, share)),
            input_files=tuple(path for split in share for path in split.file_paths),
            exec_stats=None,
        )
        return ReadTask(_Reading(self._read, share), metadata, schema=schema, per_task_row_limit=rows_max)

    def _rows(self, share: Share) -> int | None:
        """Return how many rows a share gives, where that is known."""
        total = 0
        for split in share:
            count = split.merged_row_count() if self._takes_all(split) else None
            if count is None:
                return None
            total += count
        return total

    def _takes_all(self, split: DataSplit) -> bool:
        """Return whether all rows of a split are read: its partition fulfils the filter, and no row is an event."""
        store = self._read.store
        known = dict(zip(store.schema.partition_keys, store.partition_values(split.partition_bytes), strict=True))
        return not split.streaming and simplify(self._read.predicate, known) == TRUE

    def _bytes(self, split: DataSplit) -> int:
        return split.row_count * _row_bytes(self._read.projection.schema)


@dataclass(frozen=True, slots=True)
class _Reading:
    """Reads a share in a task."""

    read: TableRead
    share: Share
    __name__: ClassVar[str] = "read_share"  # Ray asks for it

    def __call__(self) -> Iterator[pa.Table]:
        """Yield the rows as blocks, at least one, for blocks carry the schema."""
        schema = self.read.projection.schema
        empty = True
        for batch in self.read.to_arrow_batch_reader(self.share, parallelism=1):
            empty = False
            yield pa.Table.from_batches([batch], schema)
        if empty:
            yield schema.empty_table()


def _blocks(size: int) -> int:
    """Return how many blocks a dataset of some bytes should have.

    Ray itself would cut a table of 200 MB into 200 blocks, and spend more time on them than on reading.
    """
    busy = _BLOCKS_PER_CPU * int(ray.cluster_resources().get("CPU", 1))
    return max(1, min(busy, size // _BLOCK_BYTES_MIN), size // _BLOCK_BYTES)


def _row_bytes(schema: pa.Schema) -> int:
    return sum(_value_bytes(field.type) for field in schema)


def _value_bytes(dtype: pa.DataType) -> int:
    """Return about how many bytes a value of a type takes."""
    if pa.types.is_nested(dtype):
        inner = sum(_value_bytes(dtype.field(at).type) for at in range(dtype.num_fields))
        return inner if pa.types.is_struct(dtype) else inner * _ITEMS
    try:
        return max(1, int(dtype.bit_width) // 8)
    except ValueError:
        return _TEXT_BYTES
