"""Partitions chosen by a condition or by their age; and the expiry of old ones.

A store and a rule in, specs of partitions of the newest snapshot out; an expiry removes all rows of them in one
snapshot. What always holds: a partition whose values say no time is never old by its values, and one that is written to
while the expiry runs does not expire by the time of its last change.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from lakewright.commit.committer import Committer
from lakewright.commit.retry import Retries, publish_on_newest
from lakewright.compact.request.choice import matching, partition_predicate
from lakewright.datafiles.rolling import wall_clock_ms
from lakewright.display.notebook import InNotebook
from lakewright.errors import InvalidInputError, UnsupportedError
from lakewright.maintenance.java_time import ReadTime, lenient_time, read_time
from lakewright.metadata.store import TableStore
from lakewright.spec.manifest import ManifestEntry
from lakewright.spec.options import CoreOptions
from lakewright.spec.snapshot import Snapshot
from lakewright.spec.values import to_python
from lakewright.storage.layout import legacy_text

VALUES_TIME, UPDATE_TIME = "values-time", "update-time"
STRATEGIES = (VALUES_TIME, UPDATE_TIME)


def partitions_where(store: TableStore, where: str) -> list[dict[str, object]]:
    """Return the partitions that fulfil a condition on the partition columns."""
    predicate = partition_predicate(store, where)
    return [
        {
            field.name: to_python(value, field.type)
            for field, value in zip(store.schema.partition_fields, store.partition_values(partition), strict=True)
        }
        for partition in matching(store, predicate, sorted(live_partitions(store)))
    ]


def live_partitions(store: TableStore, snapshot: Snapshot | None = None) -> dict[bytes, list[ManifestEntry]]:
    """Return the files of each partition of a snapshot, the newest unless one is given."""
    snapshot = snapshot or store.snapshots.latest()
    grouped: dict[bytes, list[ManifestEntry]] = {}
    for entry in [] if snapshot is None else store.manifests.live(snapshot):
        grouped.setdefault(entry.partition, []).append(entry)
    return grouped


# ---- expiry ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ExpiryRule:
    """Which partitions are old, and how many of them go."""

    kept_millis: int
    strategy: str = VALUES_TIME
    pattern: str | None = None  # such as `$day $hour:00:00`; None: the first partition column
    read: ReadTime = lenient_time
    count_max: int | None = None  # how many expire in one call
    batch_size: int | None = None  # how many expire in one snapshot

    @classmethod
    def of_options(
        cls,
        options: CoreOptions,
        *,
        kept_millis: int | None = None,
        formatter: str | None = None,
        pattern: str | None = None,
        strategy: str | None = None,
        max_expires: int | None = None,
    ) -> ExpiryRule:
        """Read the table's options; arguments take precedence over them."""
        get = options.get
        strategy = strategy or get(CoreOptions.PARTITION_EXPIRATION_STRATEGY)
        if strategy not in STRATEGIES:
            raise UnsupportedError(
                f"partitions cannot expire by {strategy!r}: the strategies are {' and '.join(STRATEGIES)}, and classes "
                "of Java are not called",
                option=CoreOptions.PARTITION_EXPIRATION_STRATEGY.key(),
            )
        kept = get(CoreOptions.PARTITION_EXPIRATION_TIME) if kept_millis is None else kept_millis
        if kept is None:
            raise InvalidInputError("give expiration_time: the table has no option 'partition.expiration-time'")
        return cls(
            kept,
            strategy,
            pattern or get(CoreOptions.PARTITION_TIMESTAMP_PATTERN),
            read_time(formatter or get(CoreOptions.PARTITION_TIMESTAMP_FORMATTER)),
            get(CoreOptions.PARTITION_EXPIRATION_MAX_NUM) if max_expires is None else max_expires,
            get(CoreOptions.PARTITION_EXPIRATION_BATCH_SIZE),
        )

    def time_of(self, values: Mapping[str, str | None]) -> datetime | None:
        """Return the time that the values of a partition say; None if they say none.

        >>> ExpiryRule(1, pattern="$day $hour:00:00").time_of({"day": "2026-01-09", "hour": "7"})
        datetime.datetime(2026, 1, 9, 7, 0)
        """
        text = next(iter(values.values()), None) if self.pattern is None else self.pattern
        for name in sorted(values, key=len, reverse=True) if self.pattern is not None else ():
            value = values[name]
            text = None if value is None or text is None else text.replace(f"${name}", value)
        return None if text is None else self.read(text)


@dataclass(frozen=True, slots=True)
class PartitionExpireResult(InNotebook):
    """Which partitions expired, or would expire."""

    partitions: tuple[dict[str, str], ...] = ()
    snapshot_ids: tuple[int, ...] = ()  # the snapshots without them
    left: int = 0  # old partitions that stay because of a limit: expire again
    undated: int = 0  # partitions whose values say no time, which never expire by their values
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class _Old:
    partitions: tuple[bytes, ...]  # in the order in which they go
    undated: int


def expire_partitions(
    store: TableStore, rule: ExpiryRule, *, dry_run: bool = False, now_millis: int | None = None
) -> PartitionExpireResult:
    """Remove all rows of the partitions that are old, each batch of them in one snapshot."""
    _check_rule(store, rule)
    now = time.time_ns() // 1_000_000 if now_millis is None else now_millis
    is_old = _by_values(store, rule, now) if rule.strategy == VALUES_TIME else _by_update(rule, now)
    store.check_same_table()
    snapshot = store.snapshots.latest()
    if snapshot is None:
        return PartitionExpireResult(dry_run=dry_run)
    old = _old(store, snapshot, is_old)
    chosen = old.partitions if rule.count_max is None else old.partitions[: rule.count_max]
    size = rule.batch_size or max(len(chosen), 1)
    published, gone = [], set[bytes]()
    for batch in [] if dry_run else [chosen[at : at + size] for at in range(0, len(chosen), size)]:
        dropped, made = _drop(store, batch, is_old if rule.strategy == UPDATE_TIME else None)
        gone |= dropped
        published += [] if made is None else [made.id]
    return PartitionExpireResult(
        partitions=tuple(store.partition_spec(one) for one in chosen if dry_run or one in gone),
        snapshot_ids=tuple(published),
        left=len(old.partitions) - len(chosen),
        undated=old.undated,
        dry_run=dry_run,
    )


def _check_rule(store: TableStore, rule: ExpiryRule) -> None:
    if not store.schema.partition_keys:
        raise InvalidInputError(f"{store.name} has no partitions that could expire", table=store.name)
    if rule.pattern is not None and not any(f"${name}" in rule.pattern for name in store.schema.partition_keys):
        raise InvalidInputError(
            f"{store.name}: the pattern {rule.pattern!r} names no partition column", table=store.name
        )


# Whether a partition is old, None: nobody knows its time.
_IsOld = Callable[[bytes, Sequence[ManifestEntry]], bool | None]


def _by_values(store: TableStore, rule: ExpiryRule, now: int) -> _IsOld:
    limit = datetime.fromtimestamp(now / 1000) - timedelta(milliseconds=rule.kept_millis)  # noqa: DTZ006 - wall times

    def is_old(partition: bytes, _: Sequence[ManifestEntry]) -> bool | None:
        made = rule.time_of(_texts(store, partition))
        return None if made is None else made < limit

    return is_old


def _by_update(rule: ExpiryRule, now: int) -> _IsOld:
    limit = wall_clock_ms() - time.time_ns() // 1_000_000 + now - rule.kept_millis  # files record the wall clock

    def is_old(_: bytes, entries: Sequence[ManifestEntry]) -> bool | None:
        return max(entry.file.creation_time or 0 for entry in entries) < limit

    return is_old


def _old(store: TableStore, snapshot: Snapshot, is_old: _IsOld) -> _Old:
    judged = [(partition, is_old(partition, files)) for partition, files in live_partitions(store, snapshot).items()]
    old = [partition for partition, verdict in judged if verdict]
    default_name = store.options.get(CoreOptions.PARTITION_DEFAULT_NAME)

    def order(partition: bytes) -> str:
        return ",".join(default_name if text is None else text for text in _texts(store, partition).values())

    return _Old(tuple(sorted(old, key=order)), sum(verdict is None for _, verdict in judged))


def _texts(store: TableStore, partition: bytes) -> dict[str, str | None]:
    """Return the values of a partition as the others turn them into text: dates are numbers of days."""
    values = zip(store.schema.partition_fields, store.partition_values(partition), strict=True)
    return {field.name: None if value is None else legacy_text(value, field.type) for field, value in values}


def _drop(store: TableStore, batch: Sequence[bytes], is_old: _IsOld | None) -> tuple[set[bytes], Snapshot | None]:
    """Remove the rows of partitions in one snapshot; with `is_old` only of those that are old when it is published."""
    committer = Committer(store, sole=True, upkeep=False)
    if is_old is None:
        return set(batch), committer.drop_partitions(batch)

    def choose(base: Snapshot | None) -> list[bytes]:
        live = live_partitions(store, base) if base is not None else {}
        return [one for one in batch if one in live and is_old(one, live[one])]

    def publish(chosen: list[bytes], base: Snapshot | None) -> Snapshot | None:
        return committer.drop_partitions(chosen, if_unchanged_since=base.id) if chosen and base is not None else None

    attempt = publish_on_newest(store, choose, publish, Retries.of(store))
    return set(attempt.made), attempt.published
