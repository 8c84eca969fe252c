"""Partition expiry and marks of complete partitions."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias
from urllib.parse import urlsplit

from lakewright.commit.commit_loop import RetryPolicy, plan_and_publish
from lakewright.commit.commit_plan import partition_selector, select_partitions
from lakewright.commit.committer import Committer
from lakewright.compact.compaction_job import matching, partition_predicate
from lakewright.display import HtmlRepr
from lakewright.errors import CatalogServerError, InvalidInputError, NotFoundError, UnsupportedError
from lakewright.formats.data_file_writer import wall_clock_ms
from lakewright.maintenance.tag_lifecycle import mark_success
from lakewright.metadata.table_store import TableStore, format_partition_spec
from lakewright.spec.java_time_format import ReadTime, lenient_time, read_time
from lakewright.spec.manifest import ManifestEntry
from lakewright.spec.scalars import to_python
from lakewright.spec.snapshot import Snapshot
from lakewright.spec.table_options import TableOptions
from lakewright.storage.table_layout import legacy_text

# ---- Expiry of partitions --------------------------------------------------------------------------------------------
# A store and a rule in, specs of partitions of the newest snapshot out; an expiry removes all rows of them in one
# snapshot. Invariant: a partition whose values say no time is never old by its values, and one that is
# written to while the expiry runs does not expire by the time of its last change.

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
        options: TableOptions,
        *,
        kept_millis: int | None = None,
        formatter: str | None = None,
        pattern: str | None = None,
        strategy: str | None = None,
        max_expires: int | None = None,
    ) -> ExpiryRule:
        """Read the table's options; arguments take precedence over them."""
        strategy = strategy or options.partition_expiration_strategy
        if strategy not in STRATEGIES:
            raise UnsupportedError(
                f"partitions cannot expire by {strategy!r}: the strategies are {' and '.join(STRATEGIES)}, and classes "
                "of Java are not called",
                option=TableOptions.partition_expiration_strategy.key(),
            )
        kept = options.partition_expiration_time if kept_millis is None else kept_millis
        if kept is None:
            raise InvalidInputError("give expiration_time: the table has no option 'partition.expiration-time'")
        return cls(
            kept,
            strategy,
            pattern or options.partition_timestamp_pattern,
            read_time(formatter or options.partition_timestamp_formatter),
            options.partition_expiration_max_num if max_expires is None else max_expires,
            options.partition_expiration_batch_size,
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
class PartitionExpireResult(HtmlRepr):
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


# Whether a partition is old, None: its time is unknown.
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
    default_name = store.options.partition_default_name

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

    attempt = plan_and_publish(store, choose, publish, RetryPolicy.of(store))
    return set(attempt.made), attempt.published


# ---- Marks of complete partitions ------------------------------------------------------------------------------------
# success-file  a file in the directory of the partition
#     mark-event    the catalog is notified: a REST server acts on it, other catalogs do not, as in Java
#     http-report   a POST request to a server of the user's, which must answer that it succeeded
#     custom        a function of the caller's, in place of the class that Java calls
#
# Invariant: all actions and partitions are checked before anything is done, and marking twice is harmless. A
# failure names the partition; those before it are marked, and the same call marks the others.

CustomAction: TypeAlias = Callable[[dict[str, str]], object]
_Action: TypeAlias = Callable[[bytes], object]
_NAMES = ("success-file", "mark-event", "http-report", "custom")
_ATTEMPTS_MAX = 3  # of a report that a server does not answer, or answers with a failure of its own
_PAUSE_SECONDS = 0.2  # before the second attempt; twice as long before the third
_TIMEOUT_SECONDS = 60.0
_SERVER_FAILED = 500  # and all codes above: the server may recover


def mark_partitions_done(
    store: TableStore,
    specs: Sequence[Mapping[str, object]],
    *,
    custom: CustomAction | None = None,
    now_millis: int | None = None,
) -> list[dict[str, str]]:
    """Mark each partition that agrees with a spec as done; each spec must agree with one. Return the partitions.

    `custom` is called with each of them, after the actions that the options name.
    """
    actions = list(_actions(store, custom, now_millis))
    if not store.schema.partition_keys or not specs:
        raise InvalidInputError(f"{store.name}: name at least one partition that is done", table=store.name)
    live = list(live_partitions(store))
    chosen: dict[bytes, None] = {}
    for spec in specs:
        selects = partition_selector(store, select_partitions(store, [spec]))
        found = [partition for partition in live if selects(partition)]
        if not found:
            shown = format_partition_spec({key: str(value) for key, value in spec.items()})
            raise NotFoundError(f"{store.name} has no partition {shown}", table=store.name)
        chosen |= dict.fromkeys(found)
    store.check_same_table()
    for partition in chosen:
        for action in actions:
            action(partition)
    return [store.partition_spec(partition) for partition in chosen]


def _actions(store: TableStore, custom: CustomAction | None, now_millis: int | None) -> Iterable[_Action]:
    """Yield what is done with each partition; an action that cannot be carried out is an error."""
    for word in dict.fromkeys(store.options.partition_mark_done_action.lower().split(",")):
        match word.strip():
            case "success-file":
                yield lambda partition: mark_success(store, f"{_directory(store, partition)}/_SUCCESS", now_millis)
            case "mark-event":
                yield lambda partition: store.home.partitions_done([store.partition_spec(partition)])
            case "http-report":
                yield _reporter(store)
            case "custom" if custom is not None:
                pass
            case "custom":
                raise _unsupported_action(
                    store, "custom", "it calls a class of Java: give mark_partition_done a function (custom=)"
                )
            case "done-partition":
                raise _unsupported_action(
                    store, "done-partition", "it adds a partition to a metastore, which no catalog here has"
                )
            case other:
                raise _unsupported_action(store, other, f"the actions are {', '.join(_NAMES)}")
    if custom is not None:
        yield lambda partition: custom(store.partition_spec(partition))


def _directory(store: TableStore, partition: bytes) -> str:
    return f"{store.layout.root}/{store.partition_directory(partition)}"


def _unsupported_action(store: TableStore, action: str, reason: str) -> UnsupportedError:
    option = TableOptions.partition_mark_done_action.key()
    return UnsupportedError(
        f"{store.name}: the action {action!r} of {option!r} is not carried out: {reason}; or set the option to "
        "'success-file'",
        table=store.name,
        option=option,
    )


def _reporter(store: TableStore) -> _Action:
    """Return the action that tells the server of an option about a partition."""
    option = TableOptions.partition_mark_done_action_http_url
    url = store.options.partition_mark_done_action_http_url or ""
    if urlsplit(url).scheme not in {"http", "https"}:
        raise InvalidInputError(
            f"{store.name}: the action 'http-report' needs the address of a server: set {option.key()!r} to a URL that "
            "begins with http:// or https://",
            table=store.name,
            option=option.key(),
        )
    params = store.options.partition_mark_done_action_http_params

    def report(partition: bytes) -> None:
        said = {
            "partition": f"{store.partition_directory(partition)}/",
            "table": store.name,
            "path": store.layout.root,
            "params": params,
        }
        failure = _post(url, json.dumps(said).encode())
        if failure is not None:
            raise CatalogServerError(
                f"{store.name}: the server {_redact_url(url)} of {option.key()!r} did not take the report of the "
                f"partition {said['partition']}: {failure}; mark it again when the server works",
                table=store.name,
                perhaps_done=True,
            )

    return report


def _post(url: str, body: bytes) -> str | None:
    """Send a report, some times if need be; return why it failed, None if the server says that it succeeded."""
    import http.client  # noqa: PLC0415 - lazy, for servers: large, and few tables report to one
    import urllib.request  # noqa: PLC0415 - the same door
    from urllib.error import HTTPError  # noqa: PLC0415 - the same door

    failure = ""
    for attempt in range(_ATTEMPTS_MAX):
        if attempt:
            time.sleep(_PAUSE_SECONDS * attempt)
        try:
            request = urllib.request.Request(url, body, {"Content-Type": "application/json"})  # noqa: S310 - http(s) only
            with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as answer:  # noqa: S310
                return _find_failure(answer.read())
        except HTTPError as error:
            failure = f"it answered {error.code}"
            error.close()
            if error.code < _SERVER_FAILED:
                break
        except (OSError, http.client.HTTPException) as error:
            failure = f"it gave no answer: {error}"
    return failure


def _find_failure(answer: bytes) -> str | None:
    """Return None for an answer that says success, else what it says."""
    try:
        result = json.loads(answer)["result"]
    except (ValueError, TypeError, KeyError):
        return "its answer has no 'result'"
    return None if str(result).upper() == "SUCCESS" else f"its 'result' is {str(result)[:100]!r}, not 'SUCCESS'"


def _redact_url(url: str) -> str:
    """Return an address without what may be secret in it: the name of a user, a password, and the query."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
