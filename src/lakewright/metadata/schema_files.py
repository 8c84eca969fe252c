"""Schema files of a table.

A schema file is created atomically, and never changed or removed; the newest one is the one with the highest number. So
the first writer that creates `schema-<n+1>` has changed the table, and all others start again from that schema.

A schema file also identifies its table: it contains the time when it was made, so that a table that is dropped and made
again has another one, even with the same columns. A handle keeps its origin: the schema file that it was opened with.

Where a server owns the schemas, it says which one is the newest, applies changes and writes the files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias

from lakewright.errors import (
    CommitContentionError,
    CommitUnknownError,
    CorruptTableError,
    NotFoundError,
    TableNotExistException,
    TableReplacedError,
)
from lakewright.metadata.authority import FILE_AUTHORITY, SchemaAuthority, TableAuthority
from lakewright.spec.schema import SchemaChange
from lakewright.spec.schema_evolution import apply_changes
from lakewright.spec.table_schema import TableSchema
from lakewright.storage.concurrency import map_concurrently
from lakewright.storage.storage import Storage, is_refusal
from lakewright.storage.table_layout import Layout, parse_numbered_names

Check: TypeAlias = Callable[[TableSchema, TableSchema], None]
PlanChanges: TypeAlias = Callable[[TableSchema], Sequence[SchemaChange]]

_ATTEMPTS_MAX = 20


@dataclass(frozen=True, slots=True)
class Origin:
    """The schema file that a table was opened with: its number, and a digest of its bytes and of the table's place."""

    schema_id: int
    digest: str


@dataclass(frozen=True, slots=True)
class SchemaFiles:
    """The schema files of one branch of one table; with an origin, only of the table that has that schema file."""

    storage: Storage
    layout: Layout
    origin: Origin | None = None
    home: TableAuthority = FILE_AUTHORITY

    def ids(self) -> list[int]:
        """Return the numbers of all schema files, in order."""
        files = self.storage.list(self.layout.schema_directory)
        return parse_numbered_names((file.path.rsplit("/", 1)[-1] for file in files), "schema-")

    def latest(self) -> TableSchema | None:
        """Return the newest schema, None where there is no table."""
        if self.home.schemas is not None:
            return self.get(self.home.schemas.newest_id())
        ids = self.ids()
        return self.get(ids[-1]) if ids else None

    def open_schema(self, schema_id: int | None = None) -> tuple[TableSchema, Origin] | None:
        """Return a schema and its file as the origin of a handle: the newest one, None where there is no table."""
        if schema_id is None:
            ids = self.ids()
            if not ids:
                return None
            schema_id = ids[-1]
        data = self._read(schema_id)
        return self._parse_schema_file(schema_id, data), Origin(schema_id, self.digest(data))

    def digest(self, data: bytes) -> str:
        """Return the SHA-256 of the table's place and the bytes of a schema file, in hexadecimal."""
        return hashlib.sha256(self.layout.branch_root.encode() + b"\0" + data).hexdigest()

    def check_origin(self) -> None:
        """Raise TableReplacedError if the table is not that of the origin, TableNotExistException if there is none.

        A change of a table calls this right before the step that makes the change visible.
        """
        origin, place = self.origin, self.layout.branch_root
        if origin is None:
            return
        path = self.layout.schema_file(origin.schema_id)
        with suppress(FileNotFoundError):
            if self.digest(self.storage.read(path)) == origin.digest:
                return
            raise _table_replaced_error(place, path)
        if self.ids():
            raise _table_replaced_error(place, path)
        raise _table_gone_error(place)

    def get(self, schema_id: int) -> TableSchema:
        """Return one schema."""
        return self._parse_schema_file(schema_id, self._read(schema_id))

    def _read(self, schema_id: int) -> bytes:
        path = self.layout.schema_file(schema_id)
        try:
            return self.storage.read(path)
        except FileNotFoundError as cause:
            raise NotFoundError(
                f"the table at {self.layout.root} has no schema {schema_id}: there is no file {path}",
                schema_id=schema_id,
                path=path,
            ) from cause

    def _parse_schema_file(self, schema_id: int, data: bytes) -> TableSchema:
        path = self.layout.schema_file(schema_id)
        schema = TableSchema.from_json(data, path=path)
        if schema.id != schema_id:
            raise CorruptTableError(f"the schema file {path} says that it is schema {schema.id}", path=path)
        return schema

    def all(self) -> list[TableSchema]:
        """Return all schemas, in order."""
        return map_concurrently(self.storage, self.get, self.ids())

    def create(self, schema: TableSchema) -> bool:
        """Create a new schema file. False means that another writer was first."""
        return self.storage.create(self.layout.schema_file(schema.id), schema.to_json().encode())

    def _create_file(self, schema: TableSchema) -> bool:
        """Create a new schema file and return whether the file is ours, even if the reply of the storage was lost."""
        doubt: OSError | None = None
        try:
            if self.create(schema):
                return True
        except OSError as cause:
            doubt = cause
        try:
            return self.get(schema.id) == schema
        except (NotFoundError, OSError) as cause:
            if doubt is not None and is_refusal(doubt) and isinstance(cause, NotFoundError):
                raise CommitContentionError(
                    f"the schema of the table at {self.layout.root} was not changed: the storage refused it ({doubt}); "
                    "make room or get the rights, and run it again",
                    schema_id=schema.id,
                    path=self.layout.schema_file(schema.id),
                ) from doubt
            raise CommitUnknownError(
                f"the new schema {schema.id} of the table at {self.layout.root} may or may not have been written:"
                " look at the table before you change it again",
                schema_id=schema.id,
                path=self.layout.schema_file(schema.id),
            ) from (doubt or cause)

    def evolve(
        self,
        changes: Sequence[SchemaChange] | PlanChanges,
        *,
        has_snapshot: bool,
        time_millis: int,
        attempts: int = _ATTEMPTS_MAX,
        check: Check | None = None,
    ) -> TableSchema:
        """Apply changes to the newest schema and return the result; no file is written if they have no effect.

        Changes that depend on the newest schema are given as a function of it, which every attempt calls again.
        `check` gets the old and the new schema, and may raise an error.
        """
        for _ in range(attempts):
            latest = self.latest()
            self.check_origin()
            if latest is None:
                raise _table_gone_error(self.layout.branch_root)
            planned = changes(latest) if callable(changes) else changes
            changed = apply_changes(latest, planned, has_snapshot=has_snapshot, time_millis=time_millis)
            if check is not None and changed is not latest:
                check(latest, changed)
            if changed is latest:
                return changed
            if self.home.schemas is not None:
                return self._evolved_by(self.home.schemas, planned, changed)
            with self.home.hold_lock():
                created = self._create_file(changed)
            if created:
                self._take_back_if_replaced(changed)
                self.home.schema_changed(changed)
                return changed
        raise CommitContentionError(
            f"others changed the schema of the table at {self.layout.root} {attempts} times in a row: try again",
            path=self.layout.root,
            attempts=attempts,
        )

    def _evolved_by(
        self, owner: SchemaAuthority, changes: Sequence[SchemaChange], expected: TableSchema
    ) -> TableSchema:
        """Let the server apply changes, and return the schema that came of it."""
        owner.evolve(changes, expected)
        return self.get(owner.newest_id())

    def _take_back_if_replaced(self, made: TableSchema) -> None:
        """Remove a new schema if the table was dropped and made again between the check and the creation.

        Only on disks, where the check is cheap: on object stores a drop takes longer than the time between the two.
        """
        if not self.storage.renames_atomically:
            return
        try:
            with suppress(OSError):
                self.check_origin()
        except TableNotExistException:
            path = self.layout.schema_file(made.id)
            if self.ids()[-1:] == [made.id] and self.storage.read(path) == made.to_json().encode():
                self.storage.delete(path)
                if not self.ids():
                    self.storage.prune_directory(self.layout.root)
            raise


def _table_gone_error(place: str) -> TableNotExistException:
    return TableNotExistException(
        f"there is no table at {place} any more: it was dropped or renamed; get it from its catalog", path=place
    )


def _table_replaced_error(place: str, path: str) -> TableReplacedError:
    return TableReplacedError(
        f"the table at {place} is not the one that this handle was opened on: that one was dropped, or renamed, and "
        "another made in its place; get the table again from its catalog",
        path=path,
    )
