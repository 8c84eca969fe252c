"""The schema files of a table: ids and changes in, `TableSchema` values out.

A schema file is written once, by atomic creation, and never changed or removed; the newest one is the one with the
highest number. So whoever creates `schema-<n+1>` first has changed the table, and everybody else starts again from it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from lakewright.errors import CommitContentionError, CommitUnknownError, CorruptTableError, NotFoundError
from lakewright.spec.evolution import SchemaChange, apply_changes
from lakewright.spec.schema import TableSchema
from lakewright.storage.base import Storage
from lakewright.storage.layout import Layout, numbered

Check: TypeAlias = Callable[[TableSchema, TableSchema], None]

_ATTEMPTS_MAX = 20


@dataclass(frozen=True, slots=True)
class Schemas:
    """The schema files of one branch of one table."""

    storage: Storage
    layout: Layout

    def ids(self) -> list[int]:
        """Return the numbers of all schema files, in order."""
        files = self.storage.list(self.layout.schema_directory)
        return numbered((file.path.rsplit("/", 1)[-1] for file in files), "schema-")

    def latest(self) -> TableSchema | None:
        """Return the newest schema, None where there is no table."""
        ids = self.ids()
        return self.get(ids[-1]) if ids else None

    def get(self, schema_id: int) -> TableSchema:
        """Return one schema."""
        path = self.layout.schema_file(schema_id)
        try:
            data = self.storage.read(path)
        except FileNotFoundError as cause:
            raise NotFoundError(
                f"the table at {self.layout.root} has no schema {schema_id}: there is no file {path}",
                schema_id=schema_id,
                path=path,
            ) from cause
        schema = TableSchema.from_json(data, path=path)
        if schema.id != schema_id:
            raise CorruptTableError(f"the schema file {path} says that it is schema {schema.id}", path=path)
        return schema

    def all(self) -> list[TableSchema]:
        """Return all schemas, in order."""
        return [self.get(schema_id) for schema_id in self.ids()]

    def create(self, schema: TableSchema) -> bool:
        """Put a new schema file. False means that somebody else was first."""
        return self.storage.create(self.layout.schema_file(schema.id), schema.to_json().encode())

    def _created(self, schema: TableSchema) -> bool:
        """Put a new schema file and make sure whose file stands there now, even if the reply got lost."""
        doubt: OSError | None = None
        try:
            if self.create(schema):
                return True
        except OSError as cause:
            doubt = cause
        try:
            return self.get(schema.id) == schema
        except (NotFoundError, OSError) as cause:
            raise CommitUnknownError(
                f"the new schema {schema.id} of the table at {self.layout.root} may or may not have been written:"
                " look at the table before you change it again",
                schema_id=schema.id,
                path=self.layout.schema_file(schema.id),
            ) from (doubt or cause)

    def evolve(
        self,
        changes: Sequence[SchemaChange],
        *,
        has_snapshot: bool,
        time_millis: int,
        attempts: int = _ATTEMPTS_MAX,
        check: Check | None = None,
    ) -> TableSchema:
        """Apply changes to the newest schema and return the result; changes that change nothing write nothing.

        `check` sees the old and the new schema, and may refuse the new one.
        """
        for _ in range(attempts):
            latest = self.latest()
            if latest is None:
                raise NotFoundError(f"there is no table at {self.layout.root}", path=self.layout.root)
            changed = apply_changes(latest, changes, has_snapshot=has_snapshot, time_millis=time_millis)
            if check is not None and changed is not latest:
                check(latest, changed)
            if changed is latest or self._created(changed):
                return changed
        raise CommitContentionError(
            f"others changed the schema of the table at {self.layout.root} {attempts} times in a row: try again",
            path=self.layout.root,
            attempts=attempts,
        )
