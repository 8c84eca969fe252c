"""Directories outside the table that hold its data files.

File names prove nothing, as all tables name their files alike, and several tables may share an external directory. So a
table that gets one claims it: it writes a small file with its identity below `_lakewright-tables` there, which also
says whether the directory was empty then. Readers of any implementation ignore it, as it is not in a bucket.

Invariant: nothing is deleted in the directory of another table, that is at or below a directory with schema or snapshot
files that is not the table's own, with links resolved, whatever an option, a schema or a manifest says. A file outside
that snapshots of the table name is deleted if no table has claimed its directory, or the table itself has. A file that
nothing names is deleted only if the table claimed the directory while it was empty, and no other table has since.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from lakewright.errors import CorruptTableError, InvalidInputError
from lakewright.metadata.schema_files import SchemaFiles
from lakewright.metadata.table_store import TableStore, apply_layout_options
from lakewright.spec.external_paths import external_paths
from lakewright.spec.table_options import TableOptions
from lakewright.spec.table_schema import TableSchema
from lakewright.storage.concurrency import map_concurrently
from lakewright.storage.local_storage import resolve_links
from lakewright.storage.storage import Storage
from lakewright.storage.table_layout import MAIN_BRANCH, Layout, plain_location

CLAIMS = "_lakewright-tables"
_OPTION = TableOptions.data_file_external_paths.key()
_DATABASE = ".db"
_CHILDREN_MAX = 200  # directories below a new external path that are looked into
_ADVICE = "choose a directory of its own for the table, outside the warehouse's databases"


# Where external directories may be.


def check_external_paths(storage: Storage, layout: Layout, schema: TableSchema) -> None:
    """Raise InvalidInputError if the external paths of a new or changed table are at a root, or where tables are.

    The storage is asked too, for tables of other warehouses.
    """
    placed_layout = apply_layout_options(layout, schema)
    check_external_places(placed_layout)
    reachable = frozenset(placed_layout.reachable_directories)
    for directory in placed_layout.external_directories:
        if directory not in reachable:
            continue
        found = _tables_above(storage, directory, layout.root) or _table_below(storage, directory)
        if found is not None:
            raise _refusal(directory, f"which is inside or around another table, at {found}")


def check_external_places(layout: Layout, others: Mapping[str, str] | None = None) -> None:
    """Raise InvalidInputError for external directories at a root, or where tables of the warehouse are or may be.

    The tables of a warehouse are at `<warehouse>/<database>.db/<table>`, so that no table need be looked at. `others`
    are the places of other tables by their names, where a server has chosen them.
    """
    own = _steps(layout.root)
    warehouse = own[:-2] if own[1:-1] and own[-2].endswith(_DATABASE) else None
    for directory in layout.external_directories:
        steps = _steps(directory)
        if {".", ".."} & set(steps):
            raise _refusal(directory, "which has '.' or '..' in it")
        if len(steps) == 1:
            raise _refusal(directory, "the root of a file system or bucket")
        for name, place in (others or {}).items():
            if _overlap(steps, _steps(place)):
                raise _refusal(directory, f"which is inside or around the table {name} at {place}")
        if warehouse is None:
            if layout.root and _overlap(steps, own):
                raise _refusal(directory, f"which is inside or around the table at {layout.root}")
            continue
        is_in_database = len(steps) > len(warehouse) and steps[len(warehouse)].endswith(_DATABASE)
        if warehouse[: len(steps)] == steps or (steps[: len(warehouse)] == warehouse and is_in_database):
            raise _refusal(directory, "which is inside or around the tables of the warehouse")


def _steps(path: str) -> tuple[str, ...]:
    """Return the file system or bucket of a path, and the names on the way to it."""
    scheme, colon, rest = resolve_links(plain_location(path)).partition("://")
    if not colon:
        return ("/", *filter(None, scheme.split("/")))
    bucket, _, inner = rest.partition("/")
    return (f"{scheme}://{bucket}", *filter(None, inner.split("/")))


def _overlap(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    return one[: len(other)] == other or other[: len(one)] == one


def _refusal(directory: str, why: str) -> InvalidInputError:
    return InvalidInputError(f"the option {_OPTION!r} names {directory}, {why}; {_ADVICE}", option=_OPTION)


# Where other tables are.


def _tables_above(storage: Storage, directory: str, own: str) -> str | None:
    """Return the place of another table that a directory belongs to: its own, or one above it."""
    path = resolve_links(plain_location(directory)).rstrip("/")
    ways = {tuple(_upwards(path)), tuple(_upwards(plain_location(directory).rstrip("/")))}
    candidates = [place for place in dict.fromkeys(p for way in ways for p in way) if not _is_same(place, own)]
    return next(
        (place for place, held in zip(candidates, _hold_tables(storage, candidates), strict=True) if held), None
    )


def _is_same(one: str, other: str) -> bool:
    return resolve_links(plain_location(one)).rstrip("/") == resolve_links(plain_location(other)).rstrip("/")


def _upwards(path: str) -> Iterator[str]:
    """Yield a directory and those above it, up to but not including the root."""
    scheme, colon, rest = path.partition("://")
    names = rest.split("/") if colon else scheme.strip("/").split("/")
    start = f"{scheme}://{names.pop(0)}" if colon else ""
    while names and names[0]:
        yield "/".join((start, *names))
        names.pop()


def _hold_tables(storage: Storage, directories: Iterable[str]) -> list[bool]:
    def holds(directory: str) -> bool:
        layout = Layout(directory)
        return (
            bool(SchemaFiles(storage, layout).ids())
            or next(iter(storage.list(layout.snapshot_directory)), None) is not None
        )

    return map_concurrently(storage, holds, directories)


def _table_below(storage: Storage, directory: str) -> str | None:
    """Return the place of a table directly below a directory, or in a database below it."""
    children = [path for path in _inner(storage, directory) if "=" not in _name(path)]
    databases = [path for path in children if path.endswith(_DATABASE)]
    tables = [path for database in databases for path in _inner(storage, database)]
    places = [path for path in (*children, *tables) if _name(path) != CLAIMS]
    return next((place for place, held in zip(places, _hold_tables(storage, places), strict=True) if held), None)


def _inner(storage: Storage, directory: str) -> list[str]:
    found = [path.rstrip("/") for path in storage.list_directories(plain_location(directory).rstrip("/"))]
    return found[:_CHILDREN_MAX]


def _name(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


# Claims.


@dataclass(frozen=True, slots=True)
class _Claims:
    """Who has claimed an external directory: tables by their identity; `alone` says that it was empty before."""

    alone: Mapping[str, bool]
    above: frozenset[str]  # those that have claimed a directory above it


def identity_at(storage: Storage, layout: Layout) -> str:
    """Return the identity by which the table at a place claims directories; empty if its first schema is gone."""
    main = layout.for_branch(MAIN_BRANCH)
    try:
        return SchemaFiles(storage, main).digest(storage.read(main.schema_file(0)))
    except OSError:
        return ""


def claim(storage: Storage, layout: Layout, schema: TableSchema, identity: str) -> None:
    """Let the external directories of a table say that it has files there. Where it cannot write, nothing is claimed.

    This comes before the schema that names the directories, so that a table without a claim has no files of ours there.
    """
    placed_layout = apply_layout_options(layout, schema)
    for directory in placed_layout.reachable_directories if places_files(schema) else ():
        with suppress(OSError):
            is_empty = all(f"/{CLAIMS}/" in info.path for info in storage.walk(plain_location(directory).rstrip("/")))
            others = _claims(storage, directory)
            alone = is_empty and not (others.alone.keys() | others.above) - {identity}
            body = json.dumps({"table": layout.root, "alone": alone})
            storage.create(_claim_file(directory, identity), body.encode())


def places_files(schema: TableSchema) -> bool:
    """Return whether new files go outside; options that clash are refused by writers."""
    try:
        return external_paths(schema.table_options) is not None
    except InvalidInputError:
        return False


def release(storage: Storage, directories: Iterable[str], identity: str) -> None:
    """Take back the claims of a table that is gone."""
    for directory in directories:
        with suppress(OSError):
            storage.delete(_claim_file(directory, identity))
            storage.prune_directory(f"{plain_location(directory).rstrip('/')}/{CLAIMS}")


def move_claims(storage: Storage, old: str, layout: Layout) -> None:
    """Give the claims of a table that was at `old` to the same table at its new place."""
    schemas = SchemaFiles(storage, layout)
    with suppress(OSError, CorruptTableError):
        schema = schemas.latest()
        if schema is None or not places_files(schema):
            return
        data = storage.read(layout.schema_file(0))
        before, now = SchemaFiles(storage, Layout(old)).digest(data), schemas.digest(data)
        for directory in apply_layout_options(layout, schema).reachable_directories:
            alone = _claims(storage, directory).alone.get(before)
            if alone is not None:
                body = json.dumps({"table": layout.root, "alone": alone})
                storage.create(_claim_file(directory, now), body.encode())
                release(storage, [directory], before)


def claim_files(store: TableStore) -> list[str]:
    """Return the paths of the claims of a table."""
    identity = identity_at(store.storage, store.layout)
    return [_claim_file(directory, identity) for directory in store.layout.reachable_directories if identity]


def _claim_file(directory: str, identity: str) -> str:
    return f"{plain_location(directory).rstrip('/')}/{CLAIMS}/{identity}"


def _claims(storage: Storage, directory: str) -> _Claims:
    """Read the claims of an external directory, and of those above it."""
    place, *above = _upwards(plain_location(directory).rstrip("/"))
    found = map_concurrently(
        storage, lambda path: [info.path for info in storage.list(f"{path}/{CLAIMS}")], [place, *above]
    )
    alone: dict[str, bool] = {}
    for path in found[0]:
        with suppress(FileNotFoundError):
            try:
                body = json.loads(storage.read(path))
            except ValueError:
                body = None
            alone[_name(path)] = isinstance(body, dict) and body.get("alone") is True
    return _Claims(alone, frozenset(_name(path) for paths in found[1:] for path in paths))


# What may be deleted.


def why_not_own(store: TableStore, directory: str) -> str | None:
    """Return why files that nothing names in an external directory may be another table's; None if they are not."""
    other = _tables_above(store.storage, directory, store.layout.root)
    if other is not None:
        return f"it belongs to the table at {other}"
    claims = _claims(store.storage, directory)
    if not claims.alone.get(identity_at(store.storage, store.layout)):
        return "it is not known to be the table's alone: the table did not claim it while it was empty"
    if len(claims.alone) > 1 or claims.above:
        return "another table has claimed it, or one above it, too"
    return None


def deletable(store: TableStore, paths: Iterable[str]) -> frozenset[str]:
    """Return those of some files outside the table, which its snapshots name, that belong to no other table."""
    by_directory: dict[str, list[str]] = {}
    for path in paths:
        by_directory.setdefault(path.rpartition("/")[0], []).append(path)
    if not by_directory:
        return frozenset()
    outside = {
        directory: plain_location(directory).rstrip("/")
        for directory in store.layout.reachable_directories
        if _may_have_files(store, directory)
    }
    places = [place for place in by_directory if any(_is_below(place, base) for base in outside.values())]
    inner = store.layout.data_root[len(store.layout.root) :].count("/")
    levels = inner + len(store.schema.partition_keys) + 1  # down to the bucket
    ways = {place: _between(place, outside.values())[:levels] for place in places}
    above = list(dict.fromkeys(step for way in ways.values() for step in way))
    taken = {place for place, held in zip(above, _hold_tables(store.storage, above), strict=True) if held}
    own = [place for place, way in ways.items() if taken.isdisjoint(way)]
    return frozenset(path for place in own for path in by_directory[place])


def _may_have_files(store: TableStore, directory: str) -> bool:
    if _tables_above(store.storage, directory, store.layout.root) is not None:
        return False
    claims = _claims(store.storage, directory)
    return identity_at(store.storage, store.layout) in claims.alone or not (claims.alone or claims.above)


def _is_below(place: str, base: str) -> bool:
    """Return whether a directory is below another, without a link on the way."""
    plain = plain_location(place)
    inner = plain.removeprefix(base)
    return plain.startswith(f"{base}/") and resolve_links(plain) == f"{resolve_links(base)}{inner}"


def _between(place: str, bases: Iterable[str]) -> list[str]:
    """Return the directories from below an external directory down to the one of a file."""
    plain = plain_location(place)
    base = max((base for base in bases if plain.startswith(f"{base}/")), key=len, default=plain)
    names = plain.removeprefix(base).strip("/").split("/")
    return ["/".join((base, *names[: number + 1])) for number in range(len(names))]
