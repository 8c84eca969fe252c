"""Tags that options create and expire.

A store and its options in, names of tags out. A table with `tag.automatic-creation` gets one tag for each period: the
first snapshot after the end of a period carries the period's name. Invariant: creating the tags that are due is
repeatable, because the tags that exist say which period is next, and of two callers one makes a tag; a tag that a user
named differently is never deleted, except by its own time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from lakewright.errors import InvalidInputError, TagAlreadyExistException, TagNotExistException, UnsupportedError
from lakewright.metadata.table_store import TableStore
from lakewright.spec.java_time_format import lenient_time
from lakewright.spec.scalars import zone_of
from lakewright.spec.snapshot import MIN_LONG, Snapshot, Tag
from lakewright.spec.table_options import TableOptions

NEVER = "none"
BATCH = "batch"
_HOURS = {"daily": 24, "hourly": 1, "two-hours": 2}
_BATCH_PREFIX = "batch-write-"
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - wall times


@dataclass(frozen=True, slots=True)
class TagPeriod:
    """How long one period is, and how the name of a tag says which one it is."""

    length: timedelta
    form: str  # of strftime
    shape: re.Pattern[str]  # of the name of a tag: year, month and day, and maybe hour and minute

    @classmethod
    def of_options(cls, options: TableOptions) -> TagPeriod:
        """Read the options of a table."""
        duration, kind = (
            options.tag_creation_period_duration,
            options.tag_creation_period,
        )
        dash = "-" if options.tag_period_formatter == "with-dashes" else ""
        day, day_shape = f"%Y{dash}%m{dash}%d", rf"(\d{{1,10}}){dash}(\d\d){dash}(\d\d)"
        if duration is not None:
            if duration <= 0:
                raise InvalidInputError("the option 'tag.creation-period-duration' must be longer than nothing")
            return cls(
                timedelta(milliseconds=duration), "%Y%m%d%H%M", re.compile(r"(\d{1,10})(\d\d)(\d\d)(\d\d)(\d\d)")
            )
        length = timedelta(hours=_HOURS[kind])
        if kind == "daily":
            return cls(length, day, re.compile(rf"{day_shape}(?: .*)?"))
        if kind == "two-hours":
            return cls(length, "%Y-%m-%d %H", re.compile(r"(\d{1,10})-(\d\d)-(\d\d) (\d\d)"))
        blank = "" if options.tag_period_formatter == "without-dashes-and-spaces" else " "
        return cls(length, f"{day}{blank}%H", re.compile(rf"{day_shape}{blank}(\d\d)"))

    def name_of(self, start: datetime) -> str:
        """Return the name of the tag of the period that begins at a time."""
        return start.strftime(self.form)

    def start_of(self, name: str) -> datetime | None:
        """Return when the period of a tag begins; None: the name is not that of a period."""
        match = self.shape.fullmatch(name)
        if match is None:
            return None
        year, month, day, *clock = match.groups()
        hour, minute = [*clock, "0", "0"][:2]
        return lenient_time(f"{year}-{month}-{day} {hour}:{minute}:00")

    def last_ended(self, time: datetime) -> datetime:
        """Return when the last period that has ended at a time began."""
        return _EPOCH + (time - _EPOCH) // self.length * self.length - self.length


def create_due_tags(store: TableStore) -> list[str]:
    """Create the tags of periods that have ended, as the table's options ask for; return their names."""
    options = store.options
    mode = options.tag_automatic_creation
    if mode in {NEVER, BATCH}:
        return []
    _refuse_callbacks(store)
    period, delay = TagPeriod.of_options(options), timedelta(milliseconds=options.tag_creation_delay)
    if delay >= period.length:
        raise InvalidInputError(
            f"{store.name}: 'tag.creation-delay' must be shorter than a period of {period.length}", table=store.name
        )
    store.check_same_table()
    due = _DueTags(store, mode, period, delay)
    return list(due.create())


@dataclass(slots=True)
class _DueTags:
    """The snapshots after the last automatic tag, and the tags that they are due for."""

    store: TableStore
    mode: str
    period: TagPeriod
    delay: timedelta

    def create(self) -> Iterator[str]:
        """Create the tags that are due, oldest first, and yield their names."""
        tagged = self._tags()
        after, start = 0, None  # of the next tag
        if tagged:
            last = max(tagged, key=lambda tag: (tag.snapshot.id, tag.name))
            self._finish(last, len(tagged))
            begun = self.period.start_of(last.name)
            after, start = last.snapshot.id, None if begun is None else begun + self.period.length
        latest = self.store.snapshots.latest()
        # Times grow with the ids: where the newest snapshot is not due, none is, and the others are not read.
        if latest is None or latest.id <= after or (start is not None and not self._is_due(latest, start)):
            return
        for snapshot_id in [one for one in self.store.snapshots.ids() if one > after]:
            snapshot = self.store.snapshots.find(snapshot_id)
            if snapshot is None or (time := self._time(snapshot)) is None or not self._is_due(snapshot, start):
                continue
            this = self.period.last_ended(time)
            if start is not None and self.store.options.tag_automatic_completion:
                this = start
            name, start = self.period.name_of(this), this + self.period.length
            if _create(self.store, name, snapshot):
                yield name
            self._delete_surplus()

    def _finish(self, last: Tag, count: int) -> None:
        """Do what a call that was cut short has left to do after it created the last tag."""
        most = self.store.options.tag_num_retained_max
        if most is not None and count > most:
            self._delete_surplus()
        _mark_complete(self.store, last.name)

    def _is_due(self, snapshot: Snapshot, start: datetime | None) -> bool:
        time = self._time(snapshot)
        if time is None:
            return False
        return start is None or time - self.delay >= start + self.period.length

    def _time(self, snapshot: Snapshot) -> datetime | None:
        """Return the wall time that a snapshot stands for; None: it has no watermark."""
        options = self.store.options
        if self.mode == "watermark":
            if snapshot.watermark is None or snapshot.watermark == MIN_LONG:
                return None
            return _wall(snapshot.watermark, options.sink_watermark_time_zone)
        return _wall(snapshot.time_millis, options.sink_process_time_zone)

    def _tags(self) -> list[Tag]:
        return [tag for tag in self.store.tags.all() if self.period.start_of(tag.name) is not None]

    def _delete_surplus(self) -> None:
        """Delete the oldest automatic tags beyond `tag.num-retained-max`."""
        most = self.store.options.tag_num_retained_max
        if most is not None:
            tags = sorted(self._tags(), key=lambda tag: (tag.snapshot.id, tag.name))
            for tag in tags[: max(len(tags) - most, 0)]:
                delete_tag(self.store, tag.name)


def _wall(millis: int, zone: str | None) -> datetime:
    moment = datetime.fromtimestamp(millis / 1000, UTC)
    return (moment.astimezone() if zone is None else moment.astimezone(zone_of(zone))).replace(tzinfo=None)


def _refuse_callbacks(store: TableStore) -> None:
    if store.options.values.get("tag.callbacks", "").strip():
        raise UnsupportedError(
            f"{store.name}: 'tag.callbacks' names classes of Java, which are not called: tags are not created by "
            "themselves; remove the option, or call table.create_tag",
            table=store.name,
            option="tag.callbacks",
        )


# ---- batch writes ----------------------------------------------------------------------------------------------------


def create_batch_tag(store: TableStore) -> str | None:
    """Tag the newest snapshot as the state after a batch write of today; the tag of an earlier one is replaced."""
    snapshot = store.snapshots.latest()
    if snapshot is None:
        return None
    _refuse_callbacks(store)
    store.check_same_table()
    name = store.options.tag_batch_customized_name
    if name is None:
        name = _BATCH_PREFIX + _wall(snapshot.time_millis, None).strftime("%Y-%m-%d")
    if store.tags.exists(name) and store.tags.get(name).snapshot.id != snapshot.id:
        delete_tag(store, name)
    _create(store, name, snapshot)
    most = store.options.tag_num_retained_max
    if most is not None:
        tags = sorted(store.tags.all(), key=lambda tag: (tag.snapshot.id, tag.create_time or _EPOCH, tag.name))
        for tag in tags[: max(len(tags) - most, 0)]:
            delete_tag(store, tag.name)
    return name


# ---- single tags -----------------------------------------------------------------------------------------------------


def _create(store: TableStore, name: str, snapshot: Snapshot) -> bool:
    """Create a tag unless it exists; return whether this call made it."""
    kept = store.options.tag_default_time_retained
    try:
        store.tags.create(name, snapshot, time_retained_millis=kept)
    except TagAlreadyExistException:
        made = False
    else:
        made = True
    _mark_complete(store, name)
    return made


def _mark_complete(store: TableStore, name: str) -> None:
    """Write the file that says that a tag is complete, if the options ask for it and it is not there."""
    if store.options.tag_create_success_file:
        path, now = _success_file(store, name), int(datetime.now(UTC).timestamp() * 1000)
        if not store.storage.exists(path):
            store.storage.create(path, _times(now, now))


def delete_tag(store: TableStore, name: str) -> None:
    """Delete a tag and, first, the file that says that it is complete; no error if another process was faster."""
    if store.options.tag_create_success_file:
        store.storage.delete(_success_file(store, name))
    with suppress(TagNotExistException):
        store.tags.delete(name)


def _success_file(store: TableStore, name: str) -> str:
    return f"{store.layout.tag_directory}/tag-success-file/{name}_SUCCESS"


def mark_success(store: TableStore, path: str, now_millis: int | None = None) -> None:
    """Write the file that says since when something is complete; if it exists, only the time of the change is new."""
    now = int(datetime.now(UTC).timestamp() * 1000) if now_millis is None else now_millis
    created = now
    with suppress(FileNotFoundError, ValueError, TypeError, KeyError):
        created = int(json.loads(store.storage.read(path))["creationTime"])
    store.storage.replace(path, _times(created, now))


def _times(created: int, changed: int) -> bytes:
    return json.dumps({"creationTime": created, "modificationTime": changed}).encode()


def expire_tags(
    store: TableStore, *, older_than_millis: int | None = None, now: datetime | None = None, dry_run: bool = False
) -> list[str]:
    """Delete the tags whose time is over, and those created before a time (epoch milliseconds); return their names.

    A tag that records no time of its creation stays.
    """
    today = datetime.now() if now is None else now  # noqa: DTZ005 - the format records the wall clock
    past = 0 if older_than_millis is None else older_than_millis
    limit = datetime.fromtimestamp(past / 1000)  # noqa: DTZ006
    expired = []
    store.check_same_table()
    for tag in store.tags.all():
        made, kept = tag.create_time, tag.time_retained
        if made is not None and ((kept is not None and made + kept < today) or made < limit):
            if not dry_run:
                delete_tag(store, tag.name)
            expired.append(tag.name)
    return expired
