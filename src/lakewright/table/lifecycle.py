"""The lifecycle of a table's data: partitions and tags that grow old, changelogs, marks of partitions, a purge.

Ages and specs come in, results that say what went go out. The options of the table say what arguments leave out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta

from lakewright.errors import naming
from lakewright.maintenance import marks, partitions, purge, tags
from lakewright.maintenance.expire import ExpireResult, Retention, expire_changelogs
from lakewright.maintenance.partitions import ExpiryRule, PartitionExpireResult
from lakewright.maintenance.purge import PurgeResult
from lakewright.maintenance.tags import BATCH
from lakewright.spec import arguments
from lakewright.spec.arguments import Age, Moment
from lakewright.spec.options import CoreOptions
from lakewright.spec.units import MAX_INT
from lakewright.table.history import TableHistory


def retention_of(
    options: CoreOptions,
    now: int,
    retain_max: int | None,
    retain_min: int | None,
    older_than: Moment | timedelta | None,
    max_deletes: int | None,
) -> Retention:
    """Return what an expiry keeps, after checking its arguments; the options say what these leave out."""
    return Retention.of_options(
        options,
        now,
        retain_max=arguments.optional(arguments.positive, "retain_max", retain_max),
        retain_min=arguments.optional(arguments.positive, "retain_min", retain_min),
        older_than=None if older_than is None else arguments.past_millis("older_than", older_than, now),
        max_deletes=arguments.optional(arguments.count, "max_deletes", max_deletes),
    )


class TableLifecycle(TableHistory):
    """The verbs of a table about data that grows old."""

    __slots__ = ()

    def expire_partitions(
        self,
        expiration_time: Age | None = None,
        *,
        timestamp_formatter: str | None = None,
        timestamp_pattern: str | None = None,
        strategy: str | None = None,
        max_expires: int | None = None,
        dry_run: bool = False,
    ) -> PartitionExpireResult:
        """Remove all rows of old partitions in one snapshot; what is not said is as the table's options say.

        `expiration_time` is how long a partition is kept: a `timedelta`, text such as `7 days`, or milliseconds. By the
        strategy `values-time` its values say its time: `timestamp_pattern` puts them together, such as `$day $hour`
        (without it the first column counts), and `timestamp_formatter` is a pattern of Java such as `yyyyMMdd HH`
        (without it, `yyyy-MM-dd` and `yyyy-MM-dd HH:mm:ss`). By `update-time` a partition is as old as its newest file.
        The first `max_expires`, in the order of their values, go in one call; the result's `left` counts the others.

        >>> import tempfile, pyarrow as pa, lakewright as lw
        >>> catalog = lw.CatalogFactory.create({"warehouse": tempfile.mkdtemp()})
        >>> catalog.create_database("d")
        >>> columns = pa.schema({"day": pa.string(), "n": pa.int64()})
        >>> catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(columns, partition_keys=["day"]))
        >>> table = catalog.get_table("d.t")
        >>> _ = lw.write_table(pa.table({"day": ["20200131", "29991231"], "n": [1, 2]}), table)
        >>> table.expire_partitions("30 days", timestamp_formatter="yyyyMMdd").partitions
        ({'day': '20200131'},)
        >>> lw.read_table(table)["n"].to_pylist()
        [2]
        """
        with naming(self.store.name):
            rule = ExpiryRule.of_options(
                self.store.options,
                kept_millis=arguments.optional(arguments.age_millis, "expiration_time", expiration_time),
                formatter=arguments.optional(arguments.text, "timestamp_formatter", timestamp_formatter),
                pattern=arguments.optional(arguments.text, "timestamp_pattern", timestamp_pattern),
                strategy=None if strategy is None else arguments.one_of("strategy", strategy, partitions.STRATEGIES),
                max_expires=arguments.optional(arguments.count, "max_expires", max_expires),
            )
            only_look = arguments.flag("dry_run", dry_run)
            return partitions.expire_partitions(self.store.refreshed(), rule, dry_run=only_look)

    def expire_tags(self, older_than: Moment | timedelta | None = None, *, dry_run: bool = False) -> list[str]:
        """Delete the tags whose time is over, and with `older_than` all that were created before; return their names.

        `older_than` is a time or an age, as in `expire_snapshots`. A tag without a time of its creation stays. Files
        that only a tag needed stay until `remove_orphan_files` removes them.
        """
        with naming(self.store.name):
            now = int(time.time() * 1000)
            limit = None if older_than is None else arguments.past_millis("older_than", older_than, now)
            return tags.expire_tags(self.store, older_than_millis=limit, dry_run=arguments.flag("dry_run", dry_run))

    def create_due_tags(self) -> list[str]:
        """Create the tags that `tag.automatic-creation` asks for and that are due; return their names.

        Commits do the same by themselves, unless the table is `write-only`. With `batch` the newest snapshot is tagged.
        """
        with naming(self.store.name):
            if self.store.options.get(CoreOptions.TAG_AUTOMATIC_CREATION) == BATCH:
                name = tags.create_batch_tag(self.store)
                return [] if name is None else [name]
            return tags.create_due_tags(self.store)

    def expire_changelogs(
        self,
        retain_max: int | None = None,
        retain_min: int | None = None,
        older_than: Moment | timedelta | None = None,
        max_deletes: int | None = None,
        *,
        delete_all: bool = False,
        dry_run: bool = False,
    ) -> ExpireResult:
        """Remove old changelogs of expired snapshots, which tables with `changelog.*` options keep longer than these.

        The arguments mean the same as in `expire_snapshots`; what is not said is as the options `changelog.*` say.
        With `delete_all` none stays that no consumer needs.
        """
        with naming(self.store.name):
            now, options = int(time.time() * 1000), self.store.options
            given = retention_of(options, now, retain_max, retain_min, older_than, max_deletes)
            said = any(argument is not None for argument in (retain_max, retain_min, older_than))
            retention = given if said else given.of_changelogs(options, now) or given
            if arguments.flag("delete_all", delete_all):
                retention = Retention(1, 1, now, MAX_INT)
            return expire_changelogs(self.store, retention, dry_run=arguments.flag("dry_run", dry_run))

    def mark_partition_done(
        self,
        partitions: Mapping[str, object] | Sequence[Mapping[str, object]],
        *,
        custom: Callable[[dict[str, str]], object] | None = None,
    ) -> list[dict[str, str]]:
        """Mark each partition that agrees with a spec as complete; return these.

        What is done is what the option `partition.mark-done-action` names: by default the file `_SUCCESS` is written
        into the directory of the partition. It says since when the partition is complete, and when it was marked last.
        `custom` is a function that is called with each partition at last.
        """
        with naming(self.store.name):
            specs = arguments.specs("partitions", partitions)
            if custom is not None:
                arguments.function("custom", custom)
            return marks.mark_done(self.store.refreshed(), specs, custom=custom)

    def purge_files(self, *, dry_run: bool = False) -> PurgeResult:
        """Remove all rows with their history at once: tags, branches, consumers, all snapshots but an empty one.

        All files that nothing names go too, those of writers at work among them: let none run. The schema stays.
        """
        with naming(self.store.name):
            return purge.purge(self.store.refreshed(), dry_run=arguments.flag("dry_run", dry_run))
