"""What a caller asks of a compaction: arguments in, checked choices out, and which partitions of a snapshot they mean.

A condition and an idle time are applied to the snapshot that is compacted, not to the one that was there when the call
began. Reads metadata alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from lakewright.commit.overwrite import PartitionSelection
from lakewright.commit.plan import live_files_in, select_partitions
from lakewright.compact.task import Partitions, PartitionSpec
from lakewright.datafiles.rolling import wall_clock_ms
from lakewright.errors import InvalidInputError, UnsupportedError, naming
from lakewright.metadata.store import TableStore
from lakewright.spec import arguments
from lakewright.spec.arguments import Age
from lakewright.spec.options import CoreOptions
from lakewright.spec.predicate.evaluation import matches_values
from lakewright.spec.predicate.filters import Filter, to_predicate
from lakewright.spec.predicate.predicate import Predicate
from lakewright.spec.schema.table_schema import BucketMode
from lakewright.spec.snapshot import Snapshot
from lakewright.spec.types import AtomicType

Strategy: TypeAlias = Literal["order", "zorder", "hilbert"]
STRATEGIES: Final = ("order", "zorder", "hilbert")
_COLUMNS_MAX = 32  # a curve gives each column at least two bits


@dataclass(frozen=True, slots=True)
class CompactChoice:
    """What is to be compacted, and how: the arguments of a call after they were checked."""

    full: bool = False
    partitions: tuple[PartitionSpec, ...] | None = None
    where: Predicate | None = None  # on partition columns alone
    idle_millis: int | None = None
    order_by: tuple[str, ...] = ()  # rows are sorted by these columns
    strategy: str = ""
    dry_run: bool = False
    only_deleted: bool = False  # files with deletion vectors, and nothing else

    def selection(self, store: TableStore, snapshot: Snapshot) -> Partitions:
        """Return the partitions of a snapshot that are meant."""
        if self.where is None and self.idle_millis is None:
            return self.partitions
        newest: dict[bytes, int] = {}
        for entry in live_files_in(store, snapshot, select_partitions(store, self.partitions)):
            newest[entry.partition] = max(newest.get(entry.partition, 0), entry.file.creation_time or 0)
        chosen = newest.keys() if self.where is None else matching(store, self.where, newest)
        if self.idle_millis is not None:
            limit = wall_clock_ms() - self.idle_millis
            chosen = [partition for partition in chosen if newest[partition] < limit]
        return PartitionSelection(partitions=frozenset(chosen))


@dataclass(frozen=True, slots=True)
class CompactRequest:
    """The arguments of a compaction as a caller gave them."""

    full: bool = False
    partitions: Mapping[str, object] | Sequence[Mapping[str, object]] | None = None
    where: Filter | None = None
    order_by: str | Sequence[str] | None = None
    strategy: Strategy | None = None
    idle: Age | None = None
    dry_run: bool = False

    def checked(self, store: TableStore) -> CompactChoice:
        """Check the arguments against a table."""
        with naming(store.name):
            order_by, strategy = self._order(store)
            idle = arguments.optional(arguments.age_millis, "idle", self.idle)
            if idle is not None and not store.schema.partition_keys:
                raise InvalidInputError(
                    f"{store.name} has no partitions that could be idle; leave 'idle' out", argument="idle"
                )
            return CompactChoice(
                arguments.flag("full", self.full),
                arguments.optional(arguments.specs, "partitions", self.partitions),
                None if self.where is None else partition_predicate(store, self.where),
                idle,
                order_by,
                strategy,
                arguments.flag("dry_run", self.dry_run),
            )

    def _order(self, store: TableStore) -> tuple[tuple[str, ...], str]:
        names = arguments.optional(arguments.names, "order_by", self.order_by)
        if names is None and self.strategy is None:
            return (), ""
        if not names:
            raise InvalidInputError(
                f"strategy={arguments.shown(self.strategy)} sorts rows by columns: name them in order_by",
                argument="order_by",
            )
        strategy = arguments.one_of("strategy", "order" if self.strategy is None else self.strategy, STRATEGIES)
        _check_order(store, names)
        return names, strategy


def _check_order(store: TableStore, names: Sequence[str]) -> None:
    """Raise an error if rows of the table cannot be sorted by some columns."""
    schema = store.schema
    unsortable = None
    if schema.primary_keys:
        unsortable = "has a primary key, which orders its rows"
    elif schema.bucket_mode is not BucketMode.UNAWARE:
        unsortable = f"has bucket={store.options.bucket()}, and rows of a bucket stay in the order they were written"
    elif store.options.data_evolution_enabled():
        unsortable = "has 'data-evolution.enabled', and the ids of its rows count up in the order of the rows"
    if unsortable is not None:
        raise UnsupportedError(
            f"order_by is for append tables without buckets (bucket=-1), and {store.name} {unsortable}; compact it "
            "without order_by",
            argument="order_by",
        )
    for name in names:
        field = next((field for field in schema.fields if field.name == name), None)
        if field is None:
            near = arguments.did_you_mean(name, [field.name for field in schema.fields])
            raise InvalidInputError(f"order_by names {name!r}, which is no column; {near}", argument="order_by")
        if not isinstance(field.type, AtomicType) or field.type.root == "VARIANT":
            raise InvalidInputError(
                f"order_by names {name!r} of the type {field.type}, whose values have no order", argument="order_by"
            )
        if name in schema.partition_keys:
            raise InvalidInputError(
                f"order_by names {name!r}, a partition column: it is the same in all rows of a partition; name others",
                argument="order_by",
            )
    if len(set(names)) < len(names) or len(names) > _COLUMNS_MAX:
        raise InvalidInputError(
            f"order_by takes up to {_COLUMNS_MAX} columns, each once, not {', '.join(names)}", argument="order_by"
        )


def partition_predicate(store: TableStore, where: Filter) -> Predicate:
    """Return a condition on the partition columns; one on other columns is an error."""
    keys = store.schema.partition_keys
    if not keys:
        raise InvalidInputError(
            f"{store.name} has no partitions that a condition could choose; leave 'where' out", argument="where"
        )
    predicate = to_predicate(where, store.schema.fields, store.options.get(CoreOptions.LAKEWRIGHT_TIME_ZONE))
    others = sorted(predicate.columns() - set(keys))
    if others:
        raise InvalidInputError(
            f"the condition may only use the partition columns {', '.join(keys)}, because whole partitions are "
            f"chosen; it uses {', '.join(others)}",
            argument="where",
        )
    return predicate


def matching(store: TableStore, where: Predicate, partitions: Iterable[bytes]) -> list[bytes]:
    """Return the partitions that fulfil a condition on the partition columns, in order."""
    names = store.schema.partition_keys
    return [
        partition
        for partition in partitions
        if matches_values(where, dict(zip(names, store.partition_values(partition), strict=True)))
    ]
