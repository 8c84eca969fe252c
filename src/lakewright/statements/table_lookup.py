"""References to tables: time travel, hints, one snapshot.

Invariant: a table, or a branch of it, is looked up once per statement, and all references to it that name no
state of their own read the same snapshot.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeAlias

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from lakewright.catalog.catalog import Catalog
from lakewright.errors import (
    BranchNotExistException,
    InvalidInputError,
    LakewrightError,
    NotFoundError,
    SQLSyntaxError,
    TableNotExistException,
)
from lakewright.read.manifest_scan import scan
from lakewright.read.time_travel import has_time_travel, is_incremental
from lakewright.spec.identifier import Identifier
from lakewright.spec.option_table import OptionScope, rule_of
from lakewright.spec.scalars import cast_text, to_text
from lakewright.spec.table_options import TableOptions
from lakewright.spec.types import TEXT_ROOTS, AtomicType, DataField
from lakewright.statements.spark_grammar import ParsedFragment
from lakewright.statements.sql_session import Session
from lakewright.statements.sql_text import Args, E, Fragment, Name, error_at
from lakewright.statements.table_references import FUNCTIONS, Reference, TableFunctionCall, Travel
from lakewright.statements.token_cursor import TokenCursor
from lakewright.table.file_store_table import FileStoreTable
from lakewright.table.system_tables import system_table
from lakewright.table.table_views import ReadableTable, SystemTable

Place: TypeAlias = tuple[str, str]  # the root of a table and the branch

MERGE_SCHEMA = "write.merge-schema"  # a setting that lets a write add columns, and how others about it begin
SETTING = "spark.paimon."  # what keys begin with that SET sets for tables
_NANOS_PER_MILLI = 1_000_000
_MILLIS = 1000
_MOMENT = AtomicType("TIMESTAMP_LTZ(6)")
_OWN_STATE = (
    TableOptions.scan_mode,
    TableOptions.scan_file_creation_time_millis,
    TableOptions.scan_creation_time_millis,
)
_OWN_STATE_KEYS = frozenset(option.key() for option in _OWN_STATE)
_BRANCHES = (TableOptions.scan_fallback_branch.key(), TableOptions.scan_primary_branch.key())


class Lookup(Protocol):
    """What an engine is asked while names are looked up."""

    @property
    def zone(self) -> str:
        """The time zone of the session."""

    def is_hidden(self, name: Name) -> bool:
        """Return whether the engine takes the name of a Paimon table for something else, such as a temporary view."""

    def refresh_view(self, name: str) -> None:
        """Bring a temporary view over Paimon tables up to date, if one has this name."""

    def table_settings(self) -> Mapping[str, str]:
        """Return what is set for tables: the keys that begin with `spark.paimon.`."""

    def moment(self, expression: Fragment, args: Args) -> int:
        """Return the moment that an expression gives, in epoch milliseconds."""


@dataclass(frozen=True, slots=True)
class Found:
    """The table of a reference; `snapshot_id` is the state that is read if the table's options name none."""

    table: ReadableTable
    snapshot_id: int | None
    full_name: tuple[str, ...]  # catalog, database, table
    fields: tuple[DataField, ...]  # the columns at the state that is read


def place_of(table: FileStoreTable) -> Place:
    """Return what tells a table, and a branch of it, from all others."""
    return table.store.layout.root, table.store.layout.branch


@dataclass(slots=True)
class Tables:
    """Looks up the tables of one statement."""

    session: Session
    lookup: Lookup
    args: Args
    pins: dict[Place, int | None] = field(default_factory=dict)
    _settings: dict[str, str] | None = None
    _opened: dict[tuple[str, Identifier], FileStoreTable | SystemTable | None] = field(default_factory=dict)
    _hidden: dict[tuple[str, ...], bool] = field(default_factory=dict)

    def find(self, reference: Reference) -> Found | None:
        """Return the table of a reference; None: it is none of ours, and the engine has to know it."""
        name, options = reference.name, dict(reference.options)
        if reference.call is not None:
            name, more = self._resolve_call(reference.name, reference.call)
            options |= more
        resolved = self._resolve_name(name)
        # Our catalog is asked first: over Spark Connect a look for a view takes longer.
        table = None if resolved is None else self._table(name, *resolved)
        if len(name.parts) == 1:
            self.lookup.refresh_view(name.parts[0])
        if table is not None and self._is_hidden(name):
            return None
        if table is None or resolved is None:
            if reference.call is not None and reference.call.name in FUNCTIONS:
                raise self.missing(name)
            return None
        catalog_name, identifier = resolved
        whole = (catalog_name, identifier.get_database_name(), identifier.get_object_name())
        if isinstance(table, SystemTable):
            return self._of_catalog(reference, table, whole)
        options = self._to_auto_tag(table, {**self._set_options(*whole), **options})
        if reference.travel is not None:
            options |= self._state(reference.travel)
        with _shown(name.place):
            table = table.copy(options) if options else table
            suffix = identifier.get_system_table_name()
            shown = table if suffix is None else system_table(table, suffix)
            pin = None if isinstance(shown, SystemTable) else self._pinned_snapshot(table)
            fields = shown.fields if pin is not None else shown.new_read_builder().read_type()
            return Found(shown, pin, whole, tuple(fields))

    def _of_catalog(self, reference: Reference, table: SystemTable, whole: tuple[str, ...]) -> Found:
        """Return a table of the database `sys`, which has no other states."""
        if reference.travel is not None or reference.options or reference.call is not None:
            message = f"{table.name} shows the catalog as it is: it has no past states and no options"
            raise reference.name.place.error(message, kind=InvalidInputError)
        return Found(table, None, whole, tuple(table.fields))

    def missing(self, name: Name) -> NotFoundError:
        """Return the error for a name that neither we nor the engine know."""
        error = TableNotExistException(f"there is no table or view {name}", table=str(name))
        try:
            return self.session.not_found(name, error)
        except LakewrightError:
            return name.place.error(error.message, kind=TableNotExistException)

    def max_partition(self, piece: ParsedFragment, call: exp.Anonymous) -> str:
        """Return the greatest value of the first partition column of a table, as SQL spells it."""
        span = piece.span(call) or (0, 0)
        place = piece.fragment.slice(*span)
        if len(call.expressions) != 1:
            raise place.error("max_pt takes the name of a table as text")
        name = self._name(call.expressions[0], place)
        resolved = self._resolve_name(name)
        table = None if resolved is None else self._table(name, *resolved)
        if table is None or isinstance(table, SystemTable):
            raise self.missing(name)
        with _shown(place):
            return _greatest_partition(table, self._pinned_snapshot(table))

    # ---- names

    def _is_hidden(self, name: Name) -> bool:
        if name.parts not in self._hidden:
            self._hidden[name.parts] = self.lookup.is_hidden(name)
        return self._hidden[name.parts]

    def _resolve_name(self, name: Name) -> tuple[str, Identifier] | None:
        """Return the catalog and the identifier that a name means; None: it cannot be a table of ours."""
        catalogs, parts = self.session.catalogs, name.parts
        catalog = self.session.catalog_name
        if len(parts) == 3:  # noqa: PLR2004 - catalog, database, table
            catalog, parts = parts[0], parts[1:]
        if len(parts) == 1:
            parts = (self.session.database, *parts)
        if catalog not in catalogs or len(parts) != 2:  # noqa: PLR2004 - database, table
            return None
        try:
            return catalog, Identifier.create(*parts)
        except InvalidInputError:
            return None

    def _table(self, name: Name, catalog_name: str, identifier: Identifier) -> FileStoreTable | SystemTable | None:
        plain = Identifier.create(identifier.database, identifier.table, identifier.branch)
        key = catalog_name, plain
        if key not in self._opened:
            catalog: Catalog = self.session.catalogs[catalog_name]
            try:
                self._opened[key] = catalog.get_table(plain)
            except BranchNotExistException as error:
                raise error_at(type(error), error.message, name.place.whole, name.place.start, **error.facts) from None
            except (NotFoundError, InvalidInputError):
                self._opened[key] = None
        return self._opened[key]

    def _resolve_call(self, place: Name, call: TableFunctionCall) -> tuple[Name, dict[str, str]]:
        """Return the table that a call in FROM names, and the options that it stands for."""
        values = [self._value(argument, place.place) for argument in call.arguments]
        if not values:
            raise place.place.error(f"{call.name} needs the name of a table as its first argument")
        name = self._name(call.arguments[0], place.place)
        if call.name not in FUNCTIONS:
            return name, {}
        count = 2 if call.name.endswith("tag") else 3
        if len(values) != count:
            raise place.place.error(f"{call.name} takes {count} arguments, not {len(values)}")
        if call.name.endswith("timestamp"):
            values[1:] = [
                int(str(value)) if str(value).isdigit() else self._millis(value, place.place) for value in values[1:]
            ]  # digits are milliseconds here
        return name, {FUNCTIONS[call.name]: ",".join(str(value) for value in values[1:])}

    def _name(self, argument: exp.Expr, place: Fragment) -> Name:
        text = self._value(argument, place)
        if not isinstance(text, str):
            raise place.error("the name of a table is a text here, such as 'db.t'")
        try:
            return Name(TokenCursor(Fragment(text, 0, len(text))).qualified_name().parts, place)
        except SQLSyntaxError:
            raise place.error(f"{text!r} is no name of a table") from None

    def _value(self, node: exp.Expr, place: Fragment) -> object:
        """Return the value of a literal or a parameter."""
        value = literal_value(node, self.args)
        if value is None:
            raise place.error("expected literals, or parameters by name such as :day with a value, in this call")
        return value

    # ---- states

    def _state(self, travel: Travel) -> dict[str, str]:
        """Return the table options that a time travel stands for."""
        value = _plain_value(travel.value, self.args)
        if travel.is_time:
            if any(word.kind is TokenType.PLACEHOLDER for word in TokenCursor(travel.value).words):
                raise travel.value.error("the time takes parameters by name, such as :at, not by place")
            millis = self.lookup.moment(travel.value, self.args) if value is None else self._millis(value, travel.value)
            return {TableOptions.scan_timestamp_millis.key(): str(millis)}
        if not isinstance(value, str | int) or isinstance(value, bool):
            raise travel.value.error("a version is the id of a snapshot or the name of a tag in quotes")
        return {TableOptions.scan_version.key(): str(value)}

    def _millis(self, value: object, place: Fragment) -> int:
        """Return a time of the session's zone in epoch milliseconds; a number is one of seconds, as in Spark."""
        if isinstance(value, int) and not isinstance(value, bool):
            return value * _MILLIS
        try:
            nanos = cast_text(str(value), _MOMENT, self.lookup.zone)
        except LakewrightError:
            nanos = None
        if not isinstance(nanos, int):
            raise place.error(f"{value!r} is no time such as '2026-01-31 12:00:00'")
        return nanos // _NANOS_PER_MILLI

    def _to_auto_tag(self, table: FileStoreTable, options: dict[str, str]) -> dict[str, str]:
        """Return options with the range up to a tag from the tag before it, in place of the later tag alone."""
        tag = options.pop(FUNCTIONS["paimon_incremental_to_auto_tag"], None)
        if tag is None:
            return options
        ids = {name: table.store.tags.get(name).snapshot.id for name in table.list_tags()}
        before = [name for name in sorted(ids, key=ids.__getitem__) if ids[name] < ids.get(tag, 0)]
        same = table.store.snapshots.latest_id() or 0  # without the tag, or one before it, there is nothing to return
        span = f"{before[-1]},{tag}" if before else f"{same},{same}"
        return {**options, TableOptions.incremental_between.key(): span}

    def _set_options(self, catalog: str, database: str, table: str) -> dict[str, str]:
        """Return the options that SET gives to a table: `spark.paimon.KEY`, or for it alone with its name before."""
        if self._settings is None:
            given = self.lookup.table_settings()
            self._settings = {key.removeprefix(SETTING): value for key, value in given.items()}
        found = set_options(self._settings, (catalog, database, table))
        return {key: value for key, value in found.items() if not key.startswith(MERGE_SCHEMA)}

    def _pinned_snapshot(self, table: FileStoreTable) -> int | None:
        """Return the snapshot that all references to a table read; None where its options name what is read."""
        store = table.store
        given = _OWN_STATE_KEYS & store.options.values.keys()
        if has_time_travel(store) or is_incremental(store.options) or given:
            return None
        if any(store.options.values.get(key, "").strip() for key in _BRANCHES):
            return None
        place = place_of(table)
        if place not in self.pins:
            self.pins[place] = store.snapshots.latest_id()
        return self.pins[place]


def literal_value(node: exp.Expr, args: Args) -> object:
    """Return the value of a literal or a named parameter; None for anything else."""
    match node:
        case exp.Literal():
            return node.this if node.is_string else (int(node.this) if node.this.isdigit() else None)
        case exp.Placeholder() if isinstance(args, Mapping) and node.this is not None:
            return args.get(str(node.this))
    return None


def _plain_value(fragment: Fragment, args: Args) -> object:
    """Return the value of a slice that is one literal or one named parameter."""
    cursor = TokenCursor(fragment)
    if cursor.here.is_text and len(cursor.words) == 1:
        return cursor.string()
    if cursor.here.text.isdigit() and len(cursor.words) == 1:
        return cursor.integer()
    if cursor.accept(":") and len(cursor.words) == 2 and isinstance(args, Mapping):  # noqa: PLR2004 - `:` and a name
        return args.get(cursor.here.text)
    return None


def set_options(settings: Mapping[str, str], name: tuple[str, str, str]) -> dict[str, str]:
    """Return the options that settings, by keys without `spark.paimon.`, give to a table."""
    every, own = {}, {}
    for key, value in settings.items():
        rule = rule_of(key)
        if rule is not None and rule.scope is OptionScope.TABLE:
            every[key] = value
        elif (rest := _behind_name(key, name)) is not None:
            own[rest] = value
    return every | own


def _behind_name(key: str, name: tuple[str, str, str]) -> str | None:
    """Return what follows the name of a table in a setting, `*` standing for any; None: it is of another table."""
    parts = key.split(".")
    for own in (name, name[1:]):
        head, rest = parts[: len(own)], parts[len(own) :]
        is_own = len(head) == len(own) and all(given in ("*", part) for given, part in zip(head, own, strict=True))
        if is_own and rule_of(".".join(rest)) is not None:
            return ".".join(rest)
    return None


class _shown:  # noqa: N801 - used as a function
    """Errors of a table that a name means show the place of the name."""

    def __init__(self, place: Fragment) -> None:
        self._place = place

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, NotFoundError | InvalidInputError) and "\n" not in error.message:
            raise _with_place(error, self._place) from None


def _with_place(error: E, place: Fragment) -> E:
    return error_at(type(error), error.message, place.whole, place.start, **error.facts)


def _greatest_partition(table: FileStoreTable, snapshot_id: int | None) -> str:
    store = table.store
    if not store.schema.partition_keys:
        raise InvalidInputError(f"{table.name} has no partitions, so that there is no greatest one", table=table.name)
    entries = () if snapshot_id is None else scan(store, store.snapshots.get(snapshot_id)).entries
    values = [store.partition_values(entry.partition)[0] for entry in entries]
    known = [value for value in values if value is not None]
    if not known:
        raise NotFoundError(f"{table.name} has no partition with rows", table=table.name)
    dtype = store.schema.partition_fields[0].type
    text = to_text(max(known), dtype).replace("\\", "\\\\").replace("'", "\\'")
    is_text = isinstance(dtype, AtomicType) and dtype.root in TEXT_ROOTS
    return f"'{text}'" if is_text else f"CAST('{text}' AS {replace(dtype, nullable=True)})"
