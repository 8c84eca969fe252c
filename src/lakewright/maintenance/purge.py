"""A table emptied at once: a store in; one empty snapshot, and no other file of rows or history, out.

The steps are in an order that leaves a whole table behind if one of them fails or the process is killed: branches go,
a snapshot without rows is published, and only then is removed what nothing names. Calling it again finishes it.

Invariant: only files of commits that were visible are deleted, however young, and files that nothing names once they
are a day old. A writer that has written its files and not committed them keeps them: its commit comes after the purge.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lakewright.commit.committer import Committer
from lakewright.display.notebook import InNotebook
from lakewright.errors import InvalidInputError, UnsupportedError
from lakewright.maintenance.branches import drop_branch
from lakewright.maintenance.expire import Retention, expire_snapshots
from lakewright.maintenance.orphans import KnownFiles, remove_orphans
from lakewright.metadata.store import TableStore
from lakewright.spec.units import MAX_INT
from lakewright.storage.layout import MAIN_BRANCH

_CHANGELOGS = ("changelog.num-retained.", "changelog.time-retained")


@dataclass(frozen=True, slots=True)
class PurgeResult(InNotebook):
    """What a purge removed, or would remove."""

    snapshot_id: int | None = None  # the empty snapshot that is left; None: the table was never written
    snapshots: int = 0
    tags: tuple[str, ...] = ()
    branches: tuple[str, ...] = ()
    consumers: tuple[str, ...] = ()
    changelogs: int = 0
    files: int = 0  # of rows, indexes and metadata; those of a dry run are not counted
    dry_run: bool = False


def purge(store: TableStore, *, dry_run: bool = False) -> PurgeResult:
    """Remove all rows, tags, branches, consumers, changelogs and snapshots but an empty one, with all their files."""
    if store.home.history is not None:
        raise UnsupportedError(
            f"{store.name}: a server owns the history, and removes it; drop the table, or truncate it", table=store.name
        )
    if store.layout.branch != MAIN_BRANCH:
        raise InvalidInputError(
            f"{store.name} is a branch, which cannot be purged by itself: drop it, or purge the table", table=store.name
        )
    store.check_same_table()
    tags, branches, consumers = tuple(store.tags.list()), tuple(store.branches()), tuple(store.consumers.list())
    ids, changelogs = store.snapshots.ids(), store.changelogs.ids()
    planned = PurgeResult(None, len(ids), tags, branches, consumers, len(changelogs), dry_run=dry_run)
    if dry_run or not ids:
        return planned
    known = KnownFiles(store)
    known.look()
    for branch in branches:
        drop_branch(store, branch)
    empty = Committer(store, sole=True, upkeep=False).truncate()
    known.look()  # at what was committed in the meantime, and tagged
    layout = store.layout
    # Whole directories: their deletion is synced, and a power cut must not bring back a tag whose files are deleted.
    for directory in (
        layout.tag_directory,
        layout.consumer_directory,
        layout.changelog_directory,
        layout.job_directory,
    ):
        store.storage.delete_directory(directory)
    gone = expire_snapshots(_without_changelogs(store), Retention(1, 1, 0, MAX_INT))
    orphans = remove_orphans(store, committed=known.names)
    return PurgeResult(
        empty.id, len(gone.snapshot_ids), tags, branches, consumers, len(changelogs), gone.files + orphans.count
    )


def _without_changelogs(store: TableStore) -> TableStore:
    """Return the table without the options that keep changelogs longer than snapshots."""
    options = {key: value for key, value in store.schema.options.items() if not key.startswith(_CHANGELOGS)}
    return store.with_schema(replace(store.schema, options=options))
