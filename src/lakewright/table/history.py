"""The history of a table: its snapshots, and the tags, branches and rollbacks that users name and make.

Ids, names and times come in; snapshots and names go out. Every verb first makes sure that the table at this place is
still the one that the handle was opened on.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from datetime import timedelta

from lakewright.errors import InvalidInputError, NotFoundError, naming
from lakewright.maintenance import branches
from lakewright.maintenance.branches import FastForwardResult
from lakewright.maintenance.rollback import RollbackResult, restore, rollback
from lakewright.metadata.store import TableStore
from lakewright.spec import arguments
from lakewright.spec.arguments import Age, Moment
from lakewright.spec.identifier import Identifier
from lakewright.spec.options import CoreOptions
from lakewright.spec.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class TableHistory:
    """The verbs of a table about its snapshots, tags and branches."""

    identifier: Identifier
    store: TableStore

    def snapshot(
        self, snapshot_id: int | None = None, *, tag: str | None = None, timestamp: Moment | None = None
    ) -> Snapshot | None:
        """Return the newest snapshot, or that of an id, a tag or a time; None if the table was never written.

        A `timestamp` is a `datetime`, a `date`, ISO text or epoch milliseconds, and finds the last snapshot that is not
        later; without a zone it is one of the local zone.
        """
        given = [what for what in (snapshot_id, tag, timestamp) if what is not None]
        if len(given) > 1:
            raise InvalidInputError(f"{self.store.name}: give one of snapshot_id, tag and timestamp, not {len(given)}")
        if snapshot_id is not None:
            return self.store.snapshots.get(arguments.whole("snapshot_id", snapshot_id))
        if tag is not None:
            return self.store.tags.get(arguments.text("tag", tag)).snapshot
        if timestamp is not None:
            return self.store.snapshots.at_timestamp(arguments.moment_millis("timestamp", timestamp))
        return self.store.snapshots.latest()

    # Tags.

    def create_tag(
        self,
        tag_name: str,
        snapshot_id: int | None = None,
        ignore_if_exists: bool = False,  # noqa: FBT001, FBT002 - pypaimon's signature
        time_retained: Age | None = None,
    ) -> None:
        """Give a snapshot a name that keeps its files from expiring: the newest one, unless an id is given.

        `time_retained` is how long the tag is to stay: a `timedelta`, text such as `7 days`, or milliseconds; without
        it the option `tag.default-time-retained` says so. A tag that exists already is an error unless
        `ignore_if_exists` is true.
        """
        self.store.tags.create(
            tag_name,
            self._existing_snapshot(snapshot_id),
            time_retained_millis=self._tag_millis(time_retained),
            ignore_if_exists=arguments.flag("ignore_if_exists", ignore_if_exists),
        )

    def replace_tag(self, tag_name: str, snapshot_id: int | None = None, time_retained: Age | None = None) -> None:
        """Let an existing tag name another snapshot: the newest one, unless an id is given. See `create_tag`."""
        self.store.tags.replace(
            tag_name,
            self._existing_snapshot(snapshot_id),
            time_retained_millis=self._tag_millis(time_retained),
        )

    def _tag_millis(self, time_retained: Age | None) -> int | None:
        """Return how long a tag is to stay; None: until it is deleted."""
        given = arguments.optional(arguments.age_millis, "time_retained", time_retained)
        return self.store.options.get(CoreOptions.TAG_DEFAULT_TIME_RETAINED) if given is None else given

    def rename_tag(self, old_name: str, new_name: str) -> None:
        """Give a tag another name."""
        self.store.check_same_table()
        self.store.tags.rename(old_name, new_name)

    def delete_tag(self, tag_name: str) -> None:
        """Delete a tag. Files that only it needed stay until `remove_orphan_files` removes them."""
        self.store.check_same_table()
        self.store.tags.delete(tag_name)

    def list_tags(self) -> list[str]:
        """Return the names of the tags."""
        return self.store.tags.list()

    def _existing_snapshot(self, snapshot_id: int | None) -> Snapshot:
        with self.store.naming_replaced():
            snapshot = self.snapshot(snapshot_id)
        self.store.check_same_table()
        if snapshot is None:
            raise NotFoundError(
                f"{self.store.name}: there is no snapshot to tag; write something first", table=self.store.name
            )
        return snapshot

    # Branches.

    def create_branch(self, name: str, tag: str | None = None, *, snapshot_id: int | None = None) -> None:
        """Make a branch at the state of a tag or a snapshot; without one, an empty one with the table's columns.

        `catalog.get_table("db.t$branch_<name>")` reads and writes it. Its data files are shared with the table: none
        is copied.

        >>> import tempfile, pyarrow as pa, lakewright as lw
        >>> catalog = lw.CatalogFactory.create({"warehouse": tempfile.mkdtemp()})
        >>> catalog.create_database("d")
        >>> catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(pa.schema({"n": pa.int64()})))
        >>> table = catalog.get_table("d.t")
        >>> _ = lw.write_table(pa.table({"n": [1]}), table)
        >>> table.create_tag("v1")
        >>> table.create_branch("dev", tag="v1")
        >>> branch = catalog.get_table("d.t$branch_dev")
        >>> _ = lw.write_table(pa.table({"n": [2]}), branch)
        >>> lw.read_table(table)["n"].to_pylist(), lw.read_table(branch)["n"].to_pylist()
        ([1], [1, 2])
        >>> table.fast_forward("dev").snapshot_id
        2
        >>> lw.read_table(table)["n"].to_pylist()
        [1, 2]
        """
        with naming(self.store.name):
            source = arguments.optional(arguments.text, "tag", tag)
            first = arguments.optional(arguments.whole, "snapshot_id", snapshot_id)
            branches.create_branch(self.store, arguments.text("name", name), source, snapshot_id=first)

    def drop_branch(self, name: str) -> None:
        """Drop a branch. Files that only it needed stay until `remove_orphan_files` removes them."""
        with naming(self.store.name):
            branches.drop_branch(self.store, arguments.text("name", name))

    def rename_branch(self, from_branch: str, to_branch: str) -> None:
        """Give a branch another name. On object stores its files are copied: let no writer run meanwhile."""
        with naming(self.store.name):
            old, new = arguments.text("from_branch", from_branch), arguments.text("to_branch", to_branch)
            branches.rename_branch(self.store, old, new)

    def fast_forward(self, branch: str, allow_loss: bool = False, dry_run: bool = False) -> FastForwardResult:  # noqa: FBT001, FBT002 - used as in `fast_forward("dev", True)`
        """Bring the table to the state of a branch, which stays as it is, and return what was removed.

        Snapshots, tags and changes of the schema that were made to the table since the branch was made are removed; all
        earlier snapshots as well, if the branch has none in common with the table any more. If changes of rows or tags
        are lost by that, InvalidInputError is raised and nothing is changed, unless `allow_loss` is true. With
        `dry_run` nothing is removed either: the result says what would go.

        Readers see the old state or the new one. Get the table again from its catalog if the schema of either was
        changed; then let no reader or writer run meanwhile.
        """
        with naming(self.store.name):
            name, only_look = arguments.text("branch", branch), arguments.flag("dry_run", dry_run)
            may_lose = arguments.flag("allow_loss", allow_loss)
            return branches.fast_forward(self.store, name, allow_loss=may_lose, dry_run=only_look)

    def list_branches(self) -> list[str]:
        """Return the names of the branches beside `main`."""
        return self.store.branches()

    # Going back.

    def rollback_to(
        self, target: int | str, *, from_snapshot: int | None = None, dry_run: bool = False
    ) -> RollbackResult:
        """Bring the table back to a snapshot, given by its id, or to a tag, given by its name.

        With `from_snapshot` only if the newest snapshot has that id; else CommitConflictError is raised. With `dry_run`
        nothing is removed; the result says what would go.

        Later snapshots, their changelogs and tags are removed; their data files stay until `remove_orphan_files`
        removes them. The schema stays. Readers see the old state or the target. A commit of lakewright that is under
        way is planned again on the target; let writers of other engines rest.

        >>> import tempfile, pyarrow as pa, lakewright as lw
        >>> catalog = lw.CatalogFactory.create({"warehouse": tempfile.mkdtemp()})
        >>> catalog.create_database("d")
        >>> catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(pa.schema({"n": pa.int64()})))
        >>> table = catalog.get_table("d.t")
        >>> for n in (1, 2, 3):
        ...     _ = lw.write_table(pa.table({"n": [n]}), table)
        >>> table.rollback_to(2).snapshot_ids
        (3,)
        >>> lw.read_table(table)["n"].to_pylist()
        [1, 2]
        """
        with naming(self.store.name):
            expected = arguments.optional(arguments.whole, "from_snapshot", from_snapshot)
            only_look = arguments.flag("dry_run", dry_run)
            return rollback(self.store, _state("target", target), from_snapshot=expected, dry_run=only_look)

    def rollback_to_timestamp(self, timestamp: Moment) -> RollbackResult:
        """Bring the table back to the last snapshot that is not later than a time; see `snapshot` and `rollback_to`."""
        with naming(self.store.name):
            found = self.store.snapshots.at_timestamp(arguments.moment_millis("timestamp", timestamp))
            return rollback(self.store, found.id)

    def rollback_to_watermark(self, watermark: int) -> RollbackResult:
        """Bring the table back to the last snapshot whose watermark is not above a value; see `rollback_to`."""
        with naming(self.store.name):
            found = self.store.snapshots.up_to_watermark(arguments.whole("watermark", watermark))
            return rollback(self.store, found.id)

    def rollback_to_as_latest(self, target: int | str, *, from_snapshot: int | None = None) -> Snapshot:
        """Publish the state of a snapshot or a tag as a new snapshot, and return it. Nothing is removed.

        If that brings back files which were removed since, the state gets a tag `rollback-to-as-latest-...`; it keeps
        the expiry of Java from deleting them: delete it once the snapshots from before the call have expired.

        With `from_snapshot` only if the newest snapshot has that id; else CommitConflictError is raised.

        >>> import tempfile, pyarrow as pa, lakewright as lw
        >>> catalog = lw.CatalogFactory.create({"warehouse": tempfile.mkdtemp()})
        >>> catalog.create_database("d")
        >>> catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(pa.schema({"n": pa.int64()})))
        >>> table = catalog.get_table("d.t")
        >>> for n in (1, 2, 3):
        ...     _ = lw.write_table(pa.table({"n": [n]}), table)
        >>> table.rollback_to_as_latest(1).id
        4
        >>> lw.read_table(table)["n"].to_pylist(), lw.read_table(table, snapshot_id=3)["n"].to_pylist()
        ([1], [1, 2, 3])
        """
        with naming(self.store.name):
            expected = arguments.optional(arguments.whole, "from_snapshot", from_snapshot)
            self.store.check_same_table()
            return restore(self.store, _state("target", target), from_snapshot=expected)

    # Readers of streams.

    def list_consumers(self) -> dict[str, int]:
        """Return the snapshot that each consumer reads next; expiry keeps it and all later ones."""
        return self.store.consumers.all()

    def reset_consumer(self, consumer_id: str, next_snapshot: int | None = None) -> None:
        """Let a consumer go on at a snapshot; without one, forget the consumer."""
        with naming(self.store.name):
            name = arguments.text("consumer_id", consumer_id)
            following = arguments.optional(arguments.positive, "next_snapshot", next_snapshot)
            self.store.check_same_table()
            if following is None:
                self.store.consumers.delete(name)
            else:
                self.store.consumers.record(name, following)

    def clear_consumers(self, including: str | None = None, excluding: str | None = None) -> list[str]:
        """Forget the consumers whose whole name one regular expression matches and another does not; return them.

        Without expressions all go.

        >>> import tempfile, pyarrow as pa, lakewright as lw
        >>> catalog = lw.CatalogFactory.create({"warehouse": tempfile.mkdtemp()})
        >>> catalog.create_database("d")
        >>> catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(pa.schema({"n": pa.int64()})))
        >>> table = catalog.get_table("d.t")
        >>> table.reset_consumer("daily", 3)
        >>> table.reset_consumer("test-1", 1)
        >>> table.clear_consumers("test-.*"), table.list_consumers()
        (['test-1'], {'daily': 3})
        """
        with naming(self.store.name):
            wanted, spared = _pattern("including", including), _pattern("excluding", excluding)
            self.store.check_same_table()
            names = self.store.consumers.list()
            cleared = [n for n in names if wanted is None or wanted.fullmatch(n)]
            cleared = [n for n in cleared if spared is None or not spared.fullmatch(n)]
            for name in cleared:
                self.store.consumers.delete(name)
            return cleared

    def expire_consumers(self, older_than: Moment | timedelta | None = None) -> list[str]:
        """Forget the consumers that recorded nothing since a time, or for an age; return their names.

        Without it the option `consumer.expiration-time` says how long they stay; expiry of snapshots does the same.
        """
        with naming(self.store.name):
            now = int(time.time() * 1000)
            kept = self.store.options.get(CoreOptions.CONSUMER_EXPIRATION_TIME)
            if older_than is None and kept is None:
                raise InvalidInputError(
                    f"{self.store.name}: say how old a consumer must be (older_than), or set 'consumer.expiration-time'"
                )
            limit = now - (kept or 0) if older_than is None else arguments.past_millis("older_than", older_than, now)
            self.store.check_same_table()
            return list(self.store.consumers.expire(older_than_millis=limit))


def _state(argument: str, target: object) -> int | str:
    return arguments.text(argument, target) if isinstance(target, str) else arguments.whole(argument, target)


def _pattern(argument: str, text: str | None) -> re.Pattern[str] | None:
    given = arguments.optional(arguments.text, argument, text)
    try:
        return None if given is None else re.compile(given)
    except re.error as error:
        raise InvalidInputError(f"{argument} takes a regular expression: {error}") from None
