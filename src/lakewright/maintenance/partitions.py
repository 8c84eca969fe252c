"""Partitions chosen by a condition, by their age or by how long nothing was written; and marks that one is complete.

A store and a rule in, specs of partitions of the newest snapshot out; nothing is removed here. What always holds: a
partition whose values say no time is never old.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from lakewright.commit.plan import partition_selector, select_partitions
from lakewright.errors import InvalidInputError, NotFoundError, UnsupportedError
from lakewright.metadata.store import TableStore, spec_name
from lakewright.spec import arguments
from lakewright.spec.manifest import ManifestEntry
from lakewright.spec.options import CoreOptions
from lakewright.spec.predicate.evaluation import matches_values
from lakewright.spec.predicate.text import parse_predicate
from lakewright.spec.values import to_python

_DEFAULT_FORMATS = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d")
_LETTERS = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S", "SSS": "%f"}  # of Java
_FORMAT_PART = re.compile(r"([A-Za-z])\1*|'((?:[^']|'')*)'|.", re.DOTALL)
_SUCCESS_FILE = "success-file"
_MARK_ACTION = "partition.mark-done-action"


def partitions_where(store: TableStore, where: str) -> list[dict[str, object]]:
    """Return the partitions that fulfil a condition on the partition columns."""
    fields = store.schema.partition_fields
    if not fields:
        raise InvalidInputError(f"{store.name} has no partitions that a condition could choose", table=store.name)
    try:
        predicate = parse_predicate(where, fields)
    except NotFoundError as error:
        raise InvalidInputError(
            f"the condition may only use the partition columns {', '.join(f.name for f in fields)}: {error}"
        ) from None
    names = [field.name for field in fields]
    rows = {partition: store.partition_values(partition) for partition in _live(store)}
    return [
        {field.name: to_python(value, field.type) for field, value in zip(fields, values, strict=True)}
        for _, values in sorted(rows.items())
        if matches_values(predicate, dict(zip(names, values, strict=True)))
    ]


def idle_partitions(
    store: TableStore, specs: Sequence[Mapping[str, object]] | None, *, before_millis: int
) -> list[dict[str, object]]:
    """Return the partitions, of those that agree with a spec, whose newest file was made before a time."""
    if not store.schema.partition_keys:
        raise InvalidInputError(f"{store.name} has no partitions that could be idle", table=store.name)
    selects = partition_selector(store, select_partitions(store, specs))
    entries = [entry for some in _live(store).values() for entry in some if selects(entry.partition)]
    counts = store.partition_counts(entries)
    return [dict(one.spec) for one in counts if one.last_file_creation_time < before_millis]


def _live(store: TableStore) -> dict[bytes, list[ManifestEntry]]:
    snapshot = store.snapshots.latest()
    grouped: dict[bytes, list[ManifestEntry]] = {}
    for entry in [] if snapshot is None else store.manifests.live(snapshot):
        grouped.setdefault(entry.partition, []).append(entry)
    return grouped


# ---- age -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ExpiryRule:
    """Which partitions are old: how long one is kept, and how its values say its time."""

    kept_millis: int
    pattern: str | None = None  # such as `$day $hour:00:00`; None: the first partition column
    formats: tuple[str, ...] = _DEFAULT_FORMATS  # of strptime

    @classmethod
    def of_options(
        cls,
        options: CoreOptions,
        *,
        kept_millis: int | None = None,
        formatter: str | None = None,
        pattern: str | None = None,
        strategy: str | None = None,
    ) -> ExpiryRule:
        """Read the table's options; arguments take precedence over them."""
        own = options.values
        if (strategy or own.get("partition.expiration-strategy", "values-time")) != "values-time":
            raise UnsupportedError(
                "expiry of partitions by the time of their last change is not built: the times of files are of "
                "different zones; use the strategy 'values-time'"
            )
        if kept_millis is None:
            if "partition.expiration-time" not in own:
                raise InvalidInputError("give expiration_time: the table has no option 'partition.expiration-time'")
            kept_millis = arguments.age_millis("partition.expiration-time", own["partition.expiration-time"])
        formatter = formatter or own.get("partition.timestamp-formatter")
        formats = _DEFAULT_FORMATS if formatter is None else (_format(formatter),)
        return cls(kept_millis, pattern or own.get("partition.timestamp-pattern"), formats)

    def time_of(self, spec: Mapping[str, str]) -> datetime | None:
        """Return the time that the values of a partition say; None if they say none.

        >>> ExpiryRule(1, "$day $hour:00:00").time_of({"day": "2026-01-09", "hour": "7"})
        datetime.datetime(2026, 1, 9, 7, 0)
        """
        text = next(iter(spec.values()), "") if self.pattern is None else self.pattern
        for name in sorted(spec, key=len, reverse=True) if self.pattern is not None else ():
            text = text.replace(f"${name}", spec[name])
        for form in self.formats:
            with suppress(ValueError):
                return datetime.strptime(text, form)  # noqa: DTZ007 - the values are wall times
        return None


def old_partitions(store: TableStore, rule: ExpiryRule, now: datetime | None = None) -> list[dict[str, str]]:
    """Return the partitions whose time lies longer ago than they are kept, the oldest first."""
    if not store.schema.partition_keys:
        raise InvalidInputError(f"{store.name} has no partitions that could expire", table=store.name)
    if rule.pattern is not None and not any(f"${name}" in rule.pattern for name in store.schema.partition_keys):
        raise InvalidInputError(
            f"{store.name}: the pattern {rule.pattern!r} names no partition column", table=store.name
        )
    today = datetime.now() if now is None else now  # noqa: DTZ005 - the values are wall times
    limit = today - timedelta(milliseconds=rule.kept_millis)
    timed = [(rule.time_of(spec), spec) for spec in map(store.partition_spec, _live(store))]
    old = [(made, spec) for made, spec in timed if made is not None and made < limit]
    return [spec for _, spec in sorted(old, key=lambda pair: (pair[0], spec_name(pair[1])))]


def _format(formatter: str) -> str:
    """Return a format of Java's DateTimeFormatter as one of strptime.

    >>> _format("yyyyMMdd'T'HH")
    '%Y%m%dT%H'
    """
    out = []
    for match in _FORMAT_PART.finditer(formatter):
        if match[2] is not None:
            out.append(match[2].replace("''", "'").replace("%", "%%"))
        elif match[1] is None:
            out.append(match[0].replace("%", "%%"))
        elif match[0] in _LETTERS:
            out.append(_LETTERS[match[0]])
        else:
            known = ", ".join(_LETTERS)
            raise InvalidInputError(f"{match[0]!r} in the format {formatter!r} is not supported; there are {known}")
    return "".join(out)


# ---- marks -----------------------------------------------------------------------------------------------------------


def mark_done(store: TableStore, specs: Sequence[Mapping[str, object]], *, now_millis: int | None = None) -> None:
    """Write `_SUCCESS` into the directory of each partition that agrees with a spec; each spec must agree with one."""
    action = store.options.values.get(_MARK_ACTION, _SUCCESS_FILE)
    if action.strip() != _SUCCESS_FILE:
        raise UnsupportedError(
            f"{store.name}: {_MARK_ACTION!r} is {action!r}, and only {_SUCCESS_FILE!r} is built",
            table=store.name,
            option=_MARK_ACTION,
        )
    if not store.schema.partition_keys or not specs:
        raise InvalidInputError(f"{store.name}: name at least one partition that is done", table=store.name)
    live = list(_live(store))
    chosen: dict[bytes, None] = {}
    for spec in specs:
        selects = partition_selector(store, select_partitions(store, [spec]))
        found = [partition for partition in live if selects(partition)]
        if not found:
            shown = spec_name({key: str(value) for key, value in spec.items()})
            raise NotFoundError(f"{store.name} has no partition {shown}", table=store.name)
        chosen |= dict.fromkeys(found)
    now = time.time_ns() // 1_000_000 if now_millis is None else now_millis
    for partition in chosen:
        path = f"{store.layout.root}/{store.partition_directory(partition)}/_SUCCESS"
        times = {"creationTime": _created(store, path, now), "modificationTime": now}
        store.storage.replace(path, json.dumps(times).encode())


def _created(store: TableStore, path: str, now_millis: int) -> int:
    """Return when a mark was written first."""
    with suppress(FileNotFoundError, ValueError, TypeError, KeyError):
        return int(json.loads(store.storage.read(path))["creationTime"])
    return now_millis
