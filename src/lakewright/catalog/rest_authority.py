"""A REST server as a table authority.

Invariant: after a lost or unreadable answer nothing is assumed. The server is asked what became of the call; only
where it does not tell is the outcome unknown. A snapshot is recognised by the names of its manifest lists, because
servers up to 1.4.2 drop its uuid; a repeated commit of ours may be refused because the first one was carried out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from lakewright.catalog.rest_api import RestApi
from lakewright.errors import (
    BranchNotExistException,
    CatalogServerError,
    CommitConflictError,
    CommitUnknownError,
    LakewrightError,
    TagNotExistException,
    UnsupportedError,
)
from lakewright.metadata.authority import LostRace, Outcome, Published, TableAuthority, Unknown
from lakewright.spec.identifier import Identifier
from lakewright.spec.manifest import Partition
from lakewright.spec.schema import SchemaChange
from lakewright.spec.snapshot import Snapshot, Tag, is_same_commit
from lakewright.spec.table_schema import TableSchema

ATTEMPTS_MAX = 3  # of calls that are refused if they were carried out before
_PAUSE_SECONDS = 0.2  # before a call is made again; doubles each time


@dataclass(frozen=True, slots=True)
class RestTable:
    """One branch of a table, as its server knows it."""

    api: RestApi
    identifier: Identifier  # with its branch
    table_id: str  # another one once the table was dropped and made again

    # Snapshots.

    def latest(self) -> Snapshot | None:
        """Return the newest snapshot, None for a table that was never written."""
        return self.api.latest_snapshot(self.identifier)

    def commit(self, snapshot: Snapshot, base: Snapshot | None, changes: Sequence[Partition]) -> Outcome:
        """Send a snapshot once, and look for it unless the answer is certain."""
        base_uuid = None if base is None else base.uuid
        try:
            if self.api.commit(self.identifier, self.table_id, base_uuid, snapshot, changes):
                return Published(snapshot.id)
        except CatalogServerError as error:
            if not error.facts.get("perhaps_done"):
                raise
            return self._looked_up(snapshot, error)
        return self._looked_up(snapshot, None)

    def _looked_up(self, snapshot: Snapshot, doubt: CatalogServerError | None) -> Outcome:
        """Return the outcome by what has the snapshot's id now. Without a doubt the server said that it is not ours."""
        try:
            found = self.api.get_snapshot(self.identifier, snapshot.id)
        except LakewrightError as error:
            return Unknown(error)
        if found is not None and is_same_commit(found, snapshot):
            return Published(snapshot.id)
        # Where nothing has the id, the newest snapshot may have gone back; or our request may still be on its way.
        if doubt is None:
            return LostRace(snapshot.id)
        # Another snapshot has the id: ours was late, or others have rolled it back.
        return Unknown(doubt) if found is None else LostRace(snapshot.id)

    def rollback(self, target: int | str, from_snapshot: int | None) -> None:
        """Make a snapshot (by its id) or a tag (by its name) the newest state."""
        tag = self.find_tag(target) if isinstance(target, str) else None
        wanted = target if tag is None else tag.snapshot.id

        def is_back() -> bool:
            newest = self.latest()
            if newest is not None and newest.id == wanted:
                return True
            if from_snapshot is not None and (newest is None or newest.id != from_snapshot):
                raise CommitConflictError(
                    f"{self._name} was not rolled back: its newest snapshot is not {from_snapshot} any more",
                    table=self._name,
                )
            return False

        self._carry_out(
            f"rolled back to {target!r}", lambda: self.api.rollback(self.identifier, target, from_snapshot), is_back
        )

    # Schemas.

    def newest_id(self) -> int:
        """Return the id of the newest schema."""
        return self.api.get_table(self.identifier).schema_id

    def evolve(self, changes: Sequence[SchemaChange], expected: TableSchema) -> None:
        """Apply changes, all or none. Changes whose answer was lost are sent again unless they were applied."""
        self._carry_out(
            "changed",
            lambda: self.api.alter_table(self.identifier, changes),
            lambda: self._has(expected),
            attempts=ATTEMPTS_MAX,
        )

    def _has(self, expected: TableSchema) -> bool:
        """Return whether the newest schema is the one that was expected."""
        now = self.api.get_table(self.identifier)
        return now.schema_id >= expected.id and now.agrees_with(expected)

    # Tags.

    def tags(self) -> list[str]:
        """Return the names of the tags, in order."""
        return sorted(self.api.list_tags(self.identifier))

    def find_tag(self, name: str) -> Tag | None:
        """Return one tag, None where there is none of this name."""
        try:
            return self.api.get_tag(self.identifier, name)
        except TagNotExistException:
            return None

    def create_tag(self, name: str, snapshot_id: int, time_retained_millis: int | None) -> None:
        """Give a snapshot a name."""

        def is_made() -> bool:
            tag = self.find_tag(name)
            return tag is not None and tag.snapshot.id == snapshot_id

        self._carry_out(
            f"tagged {name!r}",
            lambda: self.api.create_tag(self.identifier, name, snapshot_id, time_retained_millis),
            is_made,
            attempts=ATTEMPTS_MAX,
        )

    def delete_tag(self, name: str) -> None:
        """Remove a tag."""
        self._carry_out(
            f"freed of the tag {name!r}",
            lambda: self.api.delete_tag(self.identifier, name),
            lambda: self.find_tag(name) is None,
        )

    # Branches.

    def branches(self) -> list[str]:
        """Return the names of the branches beside `main`, in order."""
        return sorted(name for name in self.api.list_branches(self.identifier) if name != "main")

    def create_branch(self, name: str, tag: str | None) -> None:
        """Make a branch at the state of a tag; without one, an empty one."""
        self._carry_out(
            f"given the branch {name!r}",
            lambda: self.api.create_branch(self.identifier, name, tag),
            lambda: name in self.branches(),
            attempts=ATTEMPTS_MAX,
        )

    def drop_branch(self, name: str) -> None:
        """Remove a branch."""
        self._carry_out(
            f"freed of the branch {name!r}",
            lambda: self.api.drop_branch(self.identifier, name),
            lambda: name not in self.branches(),
        )

    def rename_branch(self, old: str, new: str) -> None:
        """Give a branch another name; some servers answer that they did, and do nothing."""
        self._carry_out(
            f"given the branch {new!r}",
            lambda: self.api.rename_branch(self.identifier, old, new),
            lambda: new in self.branches(),
        )
        now = self.branches()
        if new not in now and old in now:
            raise UnsupportedError(
                f"{self._name}: the server does not rename branches; make {new!r} from a tag, and drop {old!r}",
                table=self._name,
                branch=old,
            )
        if new not in now:
            raise BranchNotExistException(f"{self._name}: branch {old!r} doesn't exist", table=self._name, branch=old)

    def fast_forward(self, name: str) -> None:
        """Bring the table to the state of a branch."""
        self._carry_out(f"forwarded to {name!r}", lambda: self.api.fast_forward(self.identifier, name), lambda: False)

    @property
    def _name(self) -> str:
        return self.identifier.get_full_name()

    def _carry_out(self, done: str, call: Callable[[], None], is_done: Callable[[], bool], attempts: int = 1) -> None:
        carry_out(f"whether {self._name} was {done}", call, is_done, attempts, table=self._name)


@dataclass(frozen=True, slots=True)
class RestAuthority(TableAuthority):
    """The home of a table on a server. The snapshots, tags and branches of an external table are decided by files."""

    table: RestTable
    is_external: bool = False

    @property
    def history(self) -> RestTable | None:
        """The server, None for an external table."""
        return None if self.is_external else self.table

    @property
    def schemas(self) -> RestTable:
        """The server: it owns the schemas of external tables too."""
        return self.table

    def partitions_done(self, specs: Sequence[Mapping[str, str]]) -> None:
        """Tell the server about partitions that are complete; one that has no such call ignores it, as for others."""
        with suppress(UnsupportedError):
            self.table.api.mark_partitions(self.table.identifier, specs)

    def for_branch(self, branch: str) -> RestAuthority:
        """Return the home of another branch of the same table."""
        own = self.table.identifier
        name = Identifier.create(own.get_database_name(), own.get_table_name(), None if branch == "main" else branch)
        return replace(self, table=replace(self.table, identifier=name))


def carry_out(
    question: str, call: Callable[[], None], is_done: Callable[[], bool], attempts: int = 1, **facts: object
) -> None:
    """Make a call that changes something; after a lost answer ask whether it was carried out.

    A call that makes something may be made again, as it is refused once that is there; one that removes something may
    not, as it could meet what others made meanwhile. Raises CommitUnknownError where the outcome cannot be told: a
    request that is still on its way may be carried out later.
    """
    doubt: CatalogServerError | None = None
    for attempt in range(attempts):
        if attempt:
            time.sleep(_PAUSE_SECONDS * 2 ** (attempt - 1))
        try:
            call()
        except CatalogServerError as error:
            if doubt is None and not error.facts.get("perhaps_done"):
                raise
            doubt = error
        except LakewrightError:
            if doubt is None or _ask_server(is_done) is False:
                raise
        else:
            return
        if _ask_server(is_done):
            return
    raise CommitUnknownError(f"it is unknown {question} ({doubt}); look before you try again", **facts) from doubt


def _ask_server(is_done: Callable[[], bool]) -> bool | None:
    """Return what a look at the server tells, None if it does not answer."""
    try:
        return is_done()
    except CatalogServerError:
        return None
