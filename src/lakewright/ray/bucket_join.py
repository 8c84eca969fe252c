"""Joins bucket by bucket.

Equal keys are in buckets of the same number, so a task joins one bucket of each side and no row is shuffled. What
always holds: rows match as in a merge (`dml.matching`): null matches nothing, 0.0 and -0.0 are equal, and so are
all NaNs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import ray
from ray.data import Dataset

from lakewright.dml.matching import Matcher
from lakewright.errors import InvalidInputError, with_table_name
from lakewright.ray.ray_engine import ProgressReport, RayWriteSettings, Tasks, our_errors
from lakewright.read.data_split import DataSplit
from lakewright.read.read_builder import ReadBuilder
from lakewright.read.table_read import TableRead
from lakewright.spec import argument_checks
from lakewright.spec.argument_checks import PathLike
from lakewright.spec.table_schema import BucketMode
from lakewright.spec.types import with_nullable
from lakewright.table.file_store_table import FileStoreTable
from lakewright.table.open_table import to_table


def bucket_join(  # noqa: PLR0913 - each argument is one choice of the caller
    left: FileStoreTable | PathLike,
    right: FileStoreTable | PathLike,
    on: str | Sequence[str],
    *,
    left_columns: str | Sequence[str] | None = None,
    right_columns: str | Sequence[str] | None = None,
    concurrency: int | None = None,
    ray_remote_args: Mapping[str, object] | None = None,
) -> Dataset:
    """Join two tables by the bucket key that they share, bucket by bucket on Ray's workers, without a shuffle.

    Both tables have no partitions and the same fixed number of buckets over the same columns, which are those of `on`.
    The dataset has the columns of the left table and those of the right one, the key once; it is an inner join. Other
    columns must have different names: choose them with `left_columns` and `right_columns`, which name the key too.
    """
    settings = RayWriteSettings.of(concurrency, ray_remote_args)
    keys = list(argument_checks.check_names("on", on))
    tables = to_table(left), to_table(right)
    _check_buckets(*tables, keys)
    sides = [
        _Side(table, argument_checks.check_optional(argument_checks.check_names, which, names))
        for table, which, names in zip(
            tables, ("left_columns", "right_columns"), (left_columns, right_columns), strict=True
        )
    ]
    _check_columns(sides, keys)
    buckets = [side.by_bucket() for side in sides]
    empty = join_bucket(keys, [(side.read, []) for side in sides])[1]
    shared = [ray.put(side.read) for side in sides]
    with our_errors(), Tasks(settings, ProgressReport(None)) as tasks:
        made = [
            tasks.send(
                JOIN_BUCKET, 1, keys, [(read, found[number]) for read, found in zip(shared, buckets, strict=True)]
            )[0]
            for number in sorted(buckets[0].keys() & buckets[1].keys())
        ]
        tasks.wait_for_sent()
    blocks: list[Any] = [ray.put(empty), *made]
    joined: Dataset = ray.data.from_arrow_refs(blocks)
    return joined


class _Side:
    """One side of a join: a table, and the columns of it."""

    def __init__(self, table: FileStoreTable, columns: Sequence[str] | None) -> None:
        self.table = table
        self.columns = list(table.field_names if columns is None else columns)
        with with_table_name(table.name):
            self._builder: ReadBuilder = table.new_read_builder().with_projection(self.columns)
            self.read: TableRead = self._builder.new_read()

    def by_bucket(self) -> dict[int, list[DataSplit]]:
        """Return the splits of each bucket; refuse those of another number of buckets, where keys lie elsewhere."""
        buckets: dict[int, list[DataSplit]] = {}
        wanted = self.table.store.options.bucket
        for split in self._builder.new_scan().plan().splits():
            if split.branch is not None:
                raise InvalidInputError(
                    f"{self.table.name}: the rows come from the branch {split.branch}, whose buckets may be others; "
                    "read the tables with lakewright.ray.read_table and join the datasets",
                    table=self.table.name,
                )
            if split.total_buckets not in {None, wanted}:
                raise InvalidInputError(
                    f"{self.table.name}: some files have {split.total_buckets} buckets and the table has {wanted} now: "
                    "equal keys may be in different buckets; rewrite the table with mode='overwrite' first",
                    table=self.table.name,
                )
            buckets.setdefault(split.bucket, []).append(split)
        return buckets


def _check_buckets(left: FileStoreTable, right: FileStoreTable, keys: Sequence[str]) -> None:
    """Raise InvalidInputError unless equal keys of two tables are in buckets of the same number."""
    facts = []
    for table in (left, right):
        schema, options = table.store.schema, table.store.options
        if schema.partition_keys or schema.bucket_mode is not BucketMode.HASH_FIXED:
            raise InvalidInputError(
                f"{table.name}: bucket_join needs a table without partitions and with a fixed number of buckets; read "
                "the tables with lakewright.ray.read_table and join the datasets",
                table=table.name,
            )
        types = [str(with_nullable(field.type, nullable=True)) for field in schema.bucket_fields]
        function = options.bucket_function_type
        facts.append((options.bucket, list(schema.bucket_keys), types, function))
    for what, ours, theirs in zip(
        ("number of buckets", "bucket key", "types of the bucket key", "bucket function"), *facts, strict=True
    ):
        if ours != theirs:
            raise InvalidInputError(
                f"bucket_join needs the same {what} on both sides: {left.name} has {ours} and {right.name} has {theirs}"
            )
    if list(keys) != facts[0][1]:
        raise InvalidInputError(
            f"bucket_join joins by the bucket key {facts[0][1]} in its order, not by {list(keys)}: equal values of "
            "other columns are not in the same bucket"
        )


def _check_columns(sides: Sequence[_Side], keys: Sequence[str]) -> None:
    for side in sides:
        lacking = [name for name in keys if name not in side.columns]
        if lacking:
            raise InvalidInputError(f"{side.table.name}: the columns of a join must have the join key {lacking[0]!r}")
    both = sorted({*sides[0].columns} & {*sides[1].columns} - {*keys})
    if both:
        raise InvalidInputError(
            f"bucket_join: both sides have the column {both[0]!r}; leave it out on one side with left_columns or "
            "right_columns"
        )


def join_bucket(keys: Sequence[str], sides: Sequence[tuple[Any, Sequence[DataSplit]]]) -> list[Any]:
    """Return how many rows a bucket of two tables joins to, and these rows, on a worker."""
    reads = [ray.get(read) if isinstance(read, ray.ObjectRef) else read for read, _ in sides]
    left, right = (read.to_arrow(list(splits)) for read, (_, splits) in zip(reads, sides, strict=True))
    known = {field.name: field for field in reads[0].store.schema.fields}
    pairs = Matcher(right.combine_chunks(), [(known[name], name) for name in keys]).match(left)
    joined = left.take(pa.array(pairs.target))
    others = right.drop_columns(list(keys)).take(pa.array(pairs.source))
    for field, column in zip(others.schema, others.columns, strict=True):
        joined = joined.append_column(field, column)
    return [joined.num_rows, joined]


JOIN_BUCKET = ray.remote(join_bucket)
