"""Reads of a table together with another branch.

With `scan.fallback-branch` a batch read takes the partitions that the table's own branch lacks from another branch.
With `scan.primary-branch` the other branch comes first, and the table's own gives the partitions that it lacks. What
always holds: a partition is read from one branch alone; the files of a branch are read with its own schema, keys and
options; only batch reads look at the other branch: writes, row-level changes and streams keep to the table's own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lakewright.errors import BranchNotExistException, InvalidInputError, NotFoundError
from lakewright.metadata.schema_files import SchemaFiles
from lakewright.metadata.table_store import TableStore, apply_layout_options
from lakewright.read.projection import Projection
from lakewright.read.time_travel import has_time_travel, with_snapshot_schema
from lakewright.spec.system_columns import METADATA_IDS
from lakewright.spec.table_options import TRAVEL, TableOptions
from lakewright.spec.table_schema import TableSchema
from lakewright.spec.types import DataField, RowType, with_nullable

_FALLBACK, _PRIMARY = TableOptions.scan_fallback_branch, TableOptions.scan_primary_branch
# Options of a handle that are meant for its own branch alone.
_NOT_PASSED_ON = frozenset(option.key() for option in (TableOptions.branch, TableOptions.bucket, _FALLBACK, _PRIMARY))
_FIRST_SNAPSHOT = 1


@dataclass(frozen=True, slots=True)
class OtherBranch:
    """A branch that is read beside the table's own."""

    store: TableStore
    comes_first: bool  # its partitions are read, and the table's own branch gives the others

    @property
    def name(self) -> str:
        """The name of the branch."""
        return self.store.layout.branch

    def projection(self, wanted: Projection) -> Projection:
        """Return the same columns with the field ids of this branch."""
        known = {field.name: field for field in self.store.schema.fields}
        for field in wanted.read_fields:
            if field.name not in known and field.id not in METADATA_IDS:
                raise InvalidInputError(
                    f"{self.store.name}: the column {field.name} numbers the rows of one branch, and rows of two "
                    "branches may have the same number; leave it out, or read one branch alone, from a copy of the "
                    f"table with {_FALLBACK.key()!r} and {_PRIMARY.key()!r} set to ''",
                    table=self.store.name,
                    column=field.name,
                )
        return replace(wanted, read_fields=tuple(_with_ids_of(f, known.get(f.name, f)) for f in wanted.read_fields))


def other_branch(store: TableStore, shown: TableStore) -> OtherBranch | None:
    """Return the branch that a batch read of a table reads beside its own; None without such an option.

    `shown` is the table with the schema of the snapshot that its options travel to. Options of the handle, time travel
    among them, hold for both branches. The snapshot of an id is one of the table's own branch: of the other one the
    newest snapshot is read that is not later, and its first one if all are later. A tag names a state of the table's
    own branch, which is then read alone.
    """
    options = store.options
    named = {_FALLBACK: options.scan_fallback_branch or "", _PRIMARY: options.scan_primary_branch or ""}
    named = {option: name.strip() for option, name in named.items()}
    given = [option for option, name in named.items() if name]
    if len(given) > 1:
        raise InvalidInputError(
            f"{store.name}: only one of {_FALLBACK.key()!r} and {_PRIMARY.key()!r} may be set", table=store.name
        )
    if not given or named[given[0]] == store.layout.branch or _names_tag(store):
        return None
    opened = _open_branch(store, named[given[0]], given[0].key())
    own = {key: text for key, text in store.own_options().items() if key not in _NOT_PASSED_ON}
    other = replace(opened, schema=opened.schema.with_options(own))
    if has_time_travel(other):
        other = _at_same_state(store, other)
    _check_columns(shown, other)
    return OtherBranch(other, comes_first=given[0] is _PRIMARY)


def _names_tag(store: TableStore) -> bool:
    version = store.options.scan_version
    return TableOptions.scan_tag_name.key() in store.options.values or (
        version is not None and store.tags.exists(version)
    )


def _open_branch(store: TableStore, name: str, option: str) -> TableStore:
    layout = store.layout.for_branch(name)
    opened = SchemaFiles(store.storage, layout).open_schema()
    if opened is None:
        raise BranchNotExistException(
            f"{store.name}: the option {option!r} names the branch {name!r}, which does not exist; make the branch, or "
            f"remove the option (a read of this branch alone: table.copy({{{option!r}: ''}}))",
            table=store.name,
            branch=name,
            option=option,
        )
    schema, origin = opened
    base = store.name.partition("$branch_")[0]
    return TableStore(
        f"{base}$branch_{name}",
        store.storage,
        apply_layout_options(layout, schema),
        schema,
        origin,
        store.home.for_branch(name),
    )


def _at_same_state(own: TableStore, other: TableStore) -> TableStore:
    """Return the other branch as it was at the state of the table that the options name."""
    if other.snapshots.latest() is None:  # it has no rows in any state
        left = {key: text for key, text in other.schema.options.items() if key not in TRAVEL}
        return other.with_schema(replace(other.schema, options=left))
    snapshot_id = own.options.scan_snapshot_id
    if snapshot_id is not None:
        moment = own.snapshots.get(snapshot_id).time_millis
        try:
            same_time = other.snapshots.at_timestamp(moment).id
        except NotFoundError:
            same_time = _FIRST_SNAPSHOT
        pinned = {TableOptions.scan_snapshot_id.key(): str(same_time)}
        other = other.with_schema(other.schema.with_options(pinned))
    return with_snapshot_schema(other) or other


def _check_columns(own: TableStore, other: TableStore) -> None:
    """Raise InvalidInputError unless both branches have the same columns; they may differ in NOT NULL and in keys."""
    if _columns(own.schema) == _columns(other.schema) and own.schema.partition_keys == other.schema.partition_keys:
        return
    raise InvalidInputError(
        f"{own.name} and {other.name} are read together, but differ in their columns or partition keys: change one of "
        f"them, or remove the option; {_format_schema(own.schema)} against {_format_schema(other.schema)}",
        table=own.name,
        branch=other.layout.branch,
    )


def _columns(schema: TableSchema) -> list[tuple[str, str]]:
    return [(field.name, str(with_nullable(field.type, nullable=True))) for field in schema.fields]


def _format_schema(schema: TableSchema) -> str:
    columns = ", ".join(f"{name} {dtype}" for name, dtype in _columns(schema))
    return f"({columns}) partitioned by {list(schema.partition_keys)}"


def _with_ids_of(field: DataField, theirs: DataField) -> DataField:
    """Return a field, perhaps only a part of a ROW, with the ids that another schema gives to the same field."""
    if isinstance(field.type, RowType) and isinstance(theirs.type, RowType):
        inner = {one.name: one for one in theirs.type.fields}
        parts = [_with_ids_of(one, inner[one.name]) for one in field.type.fields]
        return replace(field, id=theirs.id, type=RowType(field.type.nullable, parts))
    return replace(field, id=theirs.id, type=with_nullable(theirs.type, field.type.nullable))
