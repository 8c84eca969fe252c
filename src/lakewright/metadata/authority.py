"""Who decides which snapshot is newest: files, files under a lock, or a server; outcomes of a commit.

A home is a small value that can be sent to a worker. `Home` itself is that of a table whose files decide everything.
A catalog with a lock gives one that holds the lock while a snapshot or schema is published; a catalog on a server gives
one whose `history` and `schemas` are the server's. Other snapshots than the newest, manifests and data are always
files.

Invariant: a commit ends as `Published`, `LostRace` or `Unknown`. `Published` means that the home said so, or that
the snapshot was found with its own manifest lists; `LostRace` that it is not and will not be visible. Everything else
is `Unknown`: the snapshot may exist, so nothing of it may be deleted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from lakewright.spec.manifest import Partition
from lakewright.spec.schema import SchemaChange
from lakewright.spec.snapshot import Snapshot, Tag
from lakewright.spec.table_schema import TableSchema


@dataclass(frozen=True, slots=True)
class Published:
    """The snapshot is visible to every reader."""

    snapshot_id: int


@dataclass(frozen=True, slots=True)
class LostRace:
    """The newest snapshot is not the one that the commit was planned on; ours is not and will not be visible."""

    winner_id: int


@dataclass(frozen=True, slots=True)
class Unknown:
    """The reply was lost: the snapshot may be visible, or may still become so."""

    cause: Exception
    is_gone: bool = False  # it was created, but does not belong to the history, and is removed: it has lost


Outcome: TypeAlias = Published | LostRace | Unknown


class SnapshotAuthority(Protocol):
    """The server that owns snapshots, tags and branches of one branch of a table.

    Errors are those of the library: NotFoundError and AlreadyExistsError by what is missing or taken, and
    CommitUnknownError where an answer was lost and looking did not tell what happened.
    """

    def latest(self) -> Snapshot | None:
        """Return the newest snapshot, None for a table that was never written."""

    def commit(self, snapshot: Snapshot, base: Snapshot | None, changes: Sequence[Partition]) -> Outcome:
        """Publish a snapshot that was planned on `base`; `changes` is what it adds to each partition.

        An OSError means that nothing was sent; any other error that the server refused the commit for good.
        """

    def rollback(self, target: int | str, from_snapshot: int | None) -> None:
        """Make a snapshot (by its id) or a tag (by its name) the newest state."""

    def tags(self) -> list[str]:
        """Return the names of the tags, in order."""

    def find_tag(self, name: str) -> Tag | None:
        """Return one tag, None where there is none of this name."""

    def create_tag(self, name: str, snapshot_id: int, time_retained_millis: int | None) -> None:
        """Give a snapshot a name."""

    def delete_tag(self, name: str) -> None:
        """Remove a tag."""

    def branches(self) -> list[str]:
        """Return the names of the branches beside `main`, in order."""

    def create_branch(self, name: str, tag: str | None) -> None:
        """Make a branch at the state of a tag; without one, an empty one."""

    def drop_branch(self, name: str) -> None:
        """Remove a branch."""

    def rename_branch(self, old: str, new: str) -> None:
        """Give a branch another name."""

    def fast_forward(self, name: str) -> None:
        """Bring the table to the state of a branch."""


class SchemaAuthority(Protocol):
    """The server that owns the schemas of one branch of a table; their files are written by it."""

    def newest_id(self) -> int:
        """Return the id of the newest schema."""

    def evolve(self, changes: Sequence[SchemaChange], expected: TableSchema) -> None:
        """Apply changes, all or none; after a lost answer `expected` tells whether they were applied."""


@dataclass(frozen=True, slots=True)
class TableAuthority:
    """The home of a table whose files decide: the first to create the file of a snapshot or schema has made it."""

    @property
    def history(self) -> SnapshotAuthority | None:
        """The server that owns the history, None where files do."""
        return None

    @property
    def schemas(self) -> SchemaAuthority | None:
        """The server that owns the schemas, None where files do."""
        return None

    def hold_lock(self) -> AbstractContextManager[None]:
        """Hold what other engines hold while they publish. Failing to let go of it is no error: it expires."""
        return nullcontext()

    def schema_changed(self, schema: TableSchema) -> None:
        """Take notice of a new schema whose file was created."""

    def partitions_done(self, specs: Sequence[Mapping[str, str]]) -> None:
        """Take notice of partitions that are complete; files have nothing to do with it."""

    def for_branch(self, branch: str) -> TableAuthority:  # noqa: ARG002 - the files of all branches are alike
        """Return the home of another branch of the same table."""
        return self


FILE_AUTHORITY = TableAuthority()
