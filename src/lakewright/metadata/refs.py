"""Tags, branches and consumers."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from lakewright.errors import (
    AlreadyExistsError,
    CorruptTableError,
    InvalidInputError,
    NotFoundError,
    TagAlreadyExistException,
    TagNotExistException,
    UnsupportedError,
)
from lakewright.metadata.authority import SnapshotAuthority
from lakewright.metadata.snapshot_files import SnapshotFiles
from lakewright.spec.snapshot import MAX_LONG, Snapshot, Tag, is_same_commit, tag_from_json, tag_to_json
from lakewright.storage.storage import Storage
from lakewright.storage.table_layout import Layout, check_name

# ---- Consumers -------------------------------------------------------------------------------------------------------
# `consumer/consumer-<id>` contains `{"nextSnapshot": n}`: snapshots before n are processed, and snapshots from n on
# must be kept. Expiry uses `min_next_snapshot`. A file that cannot be read is an error and does not count as no
# consumer: otherwise expiry could remove snapshots that a consumer still has to read.

BODY_READS_MAX = 10
BODY_WAIT_SECONDS = 0.2
_PREFIX = "consumer-"
_KEY = "nextSnapshot"


@dataclass(frozen=True, slots=True)
class Consumers:
    """The consumers of one branch of a table."""

    storage: Storage
    layout: Layout
    sleep: Callable[[float], None] = field(default=time.sleep, repr=False, compare=False)

    def next_snapshot(self, consumer_id: str) -> int | None:
        """Return the first snapshot that a consumer has not processed; None if there is no such consumer."""
        path = self._path(consumer_id)
        try:
            data = self.storage.read(path)
            for _ in range(BODY_READS_MAX):
                if data.rstrip().endswith(b"}"):
                    break
                # Some writers do not create the file in one step.
                self.sleep(BODY_WAIT_SECONDS)
                data = self.storage.read(path)
        except FileNotFoundError:
            return None
        return _next_snapshot(data, path)

    def record(self, consumer_id: str, next_snapshot: int) -> None:
        """Record that a consumer has processed all snapshots before this one."""
        if next_snapshot < 1:
            raise InvalidInputError(
                f"consumer {consumer_id!r} cannot be at snapshot {next_snapshot}: snapshots count from 1",
                consumer=consumer_id,
                snapshot_id=next_snapshot,
            )
        self.storage.replace(self._path(consumer_id), json.dumps({_KEY: next_snapshot}).encode())

    def delete(self, consumer_id: str) -> None:
        """Remove a consumer; it is no error if it does not exist."""
        self.storage.delete(self._path(consumer_id))

    def list(self) -> list[str]:
        """Return the ids of all consumers, in order."""
        names = (info.path.rpartition("/")[2] for info in self.storage.list(self.layout.consumer_directory))
        return sorted(name.removeprefix(_PREFIX) for name in names if name.startswith(_PREFIX) and name != _PREFIX)

    def all(self) -> dict[str, int]:
        """Return the next snapshot of every consumer."""
        positions = ((consumer_id, self.next_snapshot(consumer_id)) for consumer_id in self.list())
        return {consumer_id: number for consumer_id, number in positions if number is not None}

    def min_next_snapshot(self) -> int | None:
        """Return the oldest snapshot that a consumer still has to read; None if there is no consumer."""
        return min(self.all().values(), default=None)

    def expire(self, *, older_than_millis: int) -> tuple[str, ...]:
        """Remove the consumers whose last record is older than a time, and return their ids."""
        stale = []
        for info in self.storage.list(self.layout.consumer_directory):
            name = info.path.rpartition("/")[2]
            if name.startswith(_PREFIX) and name != _PREFIX and info.modified_millis < older_than_millis:
                with suppress(FileNotFoundError):
                    self.storage.delete(info.path)
                stale.append(name.removeprefix(_PREFIX))
        return tuple(sorted(stale))

    def _path(self, consumer_id: str) -> str:
        if not isinstance(consumer_id, str) or not consumer_id.strip():
            raise InvalidInputError(f"a consumer needs an id that is not blank, not {consumer_id!r}")
        return self.layout.consumer_file(consumer_id)


def _next_snapshot(data: bytes, path: str) -> int:
    try:
        number = json.loads(data)[_KEY]
    except (ValueError, KeyError, TypeError, RecursionError):
        number = None
    if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number < MAX_LONG:
        raise CorruptTableError(
            f"{path} does not say which snapshot comes next; delete the consumer, or record its position anew",
            path=path,
        )
    return number


# ---- Tags and branches -----------------------------------------------------------------------------------------------
# A tag is a file with the content of a snapshot file; the files of that snapshot are kept after the snapshot has
# expired. Tags are created with `Storage.create`, so of two racing callers exactly one makes the tag. A branch is a
# directory of its own; here branches are only listed, `maintenance.branches` makes them.
#
# Where a server owns the history, it makes, lists and deletes tags.

HIDDEN_BRANCH = ".branch-"  # begins the names of directories of branches that are being made or removed
_LOOKS_MAX = 10  # how often tags may be deleted or renamed while all are read


@dataclass(frozen=True, slots=True)
class Tags:
    """The tags of one branch of a table."""

    storage: Storage
    layout: Layout
    owner: SnapshotAuthority | None = None  # None: the files decide

    def create(
        self,
        name: str,
        snapshot: Snapshot,
        *,
        time_retained_millis: int | None = None,
        create_time: datetime | None = None,
        ignore_if_exists: bool = False,
        kept_by: str | None = None,
    ) -> Tag:
        """Give a snapshot a name, for ever or for a time that begins at `create_time`, by default now.

        If the snapshot expired in the meantime, the tag is removed again: an expiry that did not see it has deleted
        files of the snapshot. It stays if there still is the tag `kept_by`, which has kept the files since before.
        """
        tag = _tag(name, snapshot, time_retained_millis, create_time)
        if self.owner is not None:
            return self._create_on(self.owner, tag, time_retained_millis, ignore_if_exists=ignore_if_exists)
        keepers = self._keepers(snapshot) if kept_by is None else frozenset({kept_by})
        if self.storage.create(self.layout.tag_file(name), tag_to_json(tag).encode()):
            self._check_kept(snapshot, keepers, undo=lambda: self.storage.delete(self.layout.tag_file(name)))
            return tag
        if ignore_if_exists:
            return self.get(name)
        raise self._tag_exists_error(name)

    def get(self, name: str) -> Tag:
        """Return one tag."""
        if self.owner is not None:
            tag = self.owner.find_tag(name)
            if tag is None:
                raise self._missing(name)
            return tag
        path = self.layout.tag_file(name)
        try:
            return tag_from_json(self.storage.read(path), name=name, path=path)
        except FileNotFoundError as error:
            raise self._missing(name) from error

    def exists(self, name: str) -> bool:
        """Return whether there is a tag of this name."""
        if self.owner is not None:
            return self.owner.find_tag(name) is not None
        return self.storage.exists(self.layout.tag_file(name))

    def list(self) -> list[str]:
        """Return the names of all tags, in order."""
        if self.owner is not None:
            return self.owner.tags()
        prefix = "tag-"
        names = (info.path.rpartition("/")[2] for info in self.storage.list(self.layout.tag_directory))
        return sorted(name.removeprefix(prefix) for name in names if name.startswith(prefix) and name != prefix)

    def all(self) -> tuple[Tag, ...]:
        """Return all tags, in the order of their names."""
        names = self.list()
        for _ in range(_LOOKS_MAX):
            try:
                return tuple(self.get(name) for name in names)
            except TagNotExistException:  # it was deleted or renamed since the listing
                names = self.list()
        return tuple(self.get(name) for name in names)

    def delete(self, name: str) -> None:
        """Remove a tag; files that only it kept become orphans."""
        if not self.exists(name):
            raise self._missing(name)
        if self.owner is not None:
            self.owner.delete_tag(name)
            return
        # A power cut must not bring it back: an expiry may have deleted its files by then.
        self.storage.delete(self.layout.tag_file(name), durable=True)

    def rename(self, old: str, new: str) -> None:
        """Rename a tag. If the last step fails, the tag has both names."""
        self._check_changeable("renamed")
        tag = self.get(old)
        body = tag_to_json(Tag(new, tag.snapshot, tag.create_time, tag.time_retained))
        if not self.storage.create(self.layout.tag_file(new), body.encode()):
            raise self._tag_exists_error(new)
        before = self.storage.take(self.layout.tag_file(old))
        if before is not None and not self.storage.exists(self.layout.tag_file(new)):
            # A fast-forward has removed the new name, as that of its own tag; the old one is of the other branch.
            self.storage.create(self.layout.tag_file(old), before)

    def replace(
        self,
        name: str,
        snapshot: Snapshot,
        *,
        time_retained_millis: int | None = None,
        create_time: datetime | None = None,
    ) -> Tag:
        """Give an existing tag another snapshot."""
        self._check_changeable("replaced")
        tag = _tag(name, snapshot, time_retained_millis, create_time)
        path, keepers = self.layout.tag_file(name), self._keepers(snapshot)
        try:
            before = self.storage.read(path)
        except FileNotFoundError:
            raise self._missing(name) from None
        self.storage.replace(path, tag_to_json(tag).encode())
        self._check_kept(snapshot, keepers, undo=lambda: self.storage.replace(path, before))
        return tag

    def _keepers(self, snapshot: Snapshot) -> frozenset[str]:
        """Return the names of the tags that keep the files of a snapshot; none if the snapshot itself does."""
        if SnapshotFiles(self.storage, self.layout).holds(snapshot):
            return frozenset()
        return frozenset(tag.name for tag in self.all() if is_same_commit(tag.snapshot, snapshot))

    def _check_kept(self, snapshot: Snapshot, keepers: frozenset[str], undo: Callable[[], None]) -> None:
        """Undo a change and raise NotFoundError if nothing keeps the files of its snapshot any more."""
        if any(map(self.exists, sorted(keepers))) or SnapshotFiles(self.storage, self.layout).holds(snapshot):
            return
        undo()
        raise NotFoundError(
            f"snapshot {snapshot.id} of {self.layout.root} expired or was rolled back while a tag was made of it; "
            "choose another one",
            snapshot_id=snapshot.id,
        )

    def _create_on(
        self, owner: SnapshotAuthority, tag: Tag, time_retained_millis: int | None, *, ignore_if_exists: bool
    ) -> Tag:
        try:
            owner.create_tag(tag.name, tag.snapshot.id, time_retained_millis)
        except TagAlreadyExistException:
            if not ignore_if_exists:
                raise
        return self.get(tag.name)

    def _check_changeable(self, what: str) -> None:
        if self.owner is not None:
            raise UnsupportedError(
                f"a tag cannot be {what} where a server owns the tags of {self.layout.root}: delete it, and create "
                "another one"
            )

    def _missing(self, name: str) -> TagNotExistException:
        tags = self.list()
        known = f"its tags are {', '.join(tags)}" if tags else "it has no tags"
        return TagNotExistException(
            f"the tag {name!r} doesn't exist in {self.layout.root}; {known}", tag=name, tags=tuple(tags)
        )

    def _tag_exists_error(self, name: str) -> AlreadyExistsError:
        return TagAlreadyExistException(
            f"the tag {name!r} already exists in {self.layout.root}; replace it, or choose another name", tag=name
        )


def branches(storage: Storage, layout: Layout) -> list[str]:
    """Return the names of a table's branches other than `main`, in order."""
    prefix = "branch-"
    names = (path.rstrip("/").rpartition("/")[2] for path in storage.list_directories(layout.branches_directory))
    return sorted(name.removeprefix(prefix) for name in names if name.startswith(prefix) and name != prefix)


def _tag(name: str, snapshot: Snapshot, time_retained_millis: int | None, create_time: datetime | None) -> Tag:
    check_name("tag", name)
    if time_retained_millis is None:
        return Tag(name, snapshot, create_time)
    if time_retained_millis < 0:
        raise InvalidInputError(f"the tag {name!r} cannot be kept for {time_retained_millis} ms", tag=name)
    begin = datetime.now() if create_time is None else create_time  # noqa: DTZ005 - the format records the wall clock
    return Tag(name, snapshot, begin, timedelta(milliseconds=time_retained_millis))
