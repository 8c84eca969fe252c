"""The history of a table: its snapshots, and the tags, branches and rollbacks that users name and make.

Ids, names and times come in; snapshots and names go out. Every verb first makes sure that the table at this place is
still the one that the handle was opened on.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakewright.errors import InvalidInputError, NotFoundError, naming
from lakewright.maintenance import branches
from lakewright.maintenance.rollback import rollback
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

    def create_branch(self, name: str, tag: str | None = None) -> None:
        """Make a branch at the state of a tag; without a tag, an empty one with the table's columns and options.

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
        >>> table.fast_forward("dev")
        >>> lw.read_table(table)["n"].to_pylist()
        [1, 2]
        """
        with naming(self.store.name):
            source = arguments.optional(arguments.text, "tag", tag)
            branches.create_branch(self.store, arguments.text("name", name), source)

    def drop_branch(self, name: str) -> None:
        """Drop a branch. Files that only it needed stay until `remove_orphan_files` removes them."""
        with naming(self.store.name):
            branches.drop_branch(self.store, arguments.text("name", name))

    def rename_branch(self, from_branch: str, to_branch: str) -> None:
        """Give a branch another name. On object stores its files are copied: let no writer run meanwhile."""
        with naming(self.store.name):
            old, new = arguments.text("from_branch", from_branch), arguments.text("to_branch", to_branch)
            branches.rename_branch(self.store, old, new)

    def fast_forward(self, branch: str) -> None:
        """Bring the table to the state of a branch, which stays as it is.

        Snapshots, tags and changes of the schema that were made to the table since the branch was made are removed.
        Let no writer run meanwhile, and get the table again from its catalog if the schema of either was changed.
        """
        with naming(self.store.name):
            branches.fast_forward(self.store, arguments.text("branch", branch))

    def list_branches(self) -> list[str]:
        """Return the names of the branches beside `main`."""
        return self.store.branches()

    # Going back.

    def rollback_to(self, target: int | str, *, from_snapshot: int | None = None) -> None:
        """Bring the table back to a snapshot, given by its id, or to a tag, given by its name.

        With `from_snapshot` only if the newest snapshot has that id; else CommitConflictError is raised.

        Later snapshots, their changelogs and tags are removed; their data files stay until `remove_orphan_files`
        removes them. The schema stays. Let no writer run meanwhile.

        >>> import tempfile, pyarrow as pa, lakewright as lw
        >>> catalog = lw.CatalogFactory.create({"warehouse": tempfile.mkdtemp()})
        >>> catalog.create_database("d")
        >>> catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(pa.schema({"n": pa.int64()})))
        >>> table = catalog.get_table("d.t")
        >>> for n in (1, 2, 3):
        ...     _ = lw.write_table(pa.table({"n": [n]}), table)
        >>> table.rollback_to(2)
        >>> lw.read_table(table)["n"].to_pylist()
        [1, 2]
        """
        with naming(self.store.name):
            expected = arguments.optional(arguments.whole, "from_snapshot", from_snapshot)
            wanted = arguments.text("target", target) if isinstance(target, str) else arguments.whole("target", target)
            rollback(self.store, wanted, from_snapshot=expected)

    def rollback_to_timestamp(self, timestamp: Moment) -> None:
        """Bring the table back to the last snapshot that is not later than a time; see `snapshot` and `rollback_to`."""
        with naming(self.store.name):
            found = self.store.snapshots.at_timestamp(arguments.moment_millis("timestamp", timestamp))
            rollback(self.store, found.id)
