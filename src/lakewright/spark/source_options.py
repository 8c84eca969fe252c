"""Options of `format("lakewright")`.

Spark hands options over as text, with their keys in lower case. Every key means something: it says which table, how to
reach its storage, or it is an option of the table that holds for this read or write. A key that means nothing is
refused: if `snapshot-id` were ignored where `snapshot_id` is meant, the wrong rows would be read without an error.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches

from lakewright.catalog.catalog_registry import CatalogFactory
from lakewright.errors import InvalidInputError, UnsupportedError
from lakewright.read.read_builder import ReadBuilder, ReadRequest
from lakewright.spec.identifier import Identifier
from lakewright.spec.option_table import OPENING, RULES, OptionScope, is_of_storage, rule_of, spell_key
from lakewright.spec.table_options import TableOptions
from lakewright.storage.credentials import named_provider, setting_names
from lakewright.table.file_store_table import FileStoreTable
from lakewright.table.open_table import open_table, read_builder
from lakewright.table.table_views import ReadableTable, RowView, SystemReadBuilder, SystemTable

FORMAT = "lakewright"
PLACE = frozenset({"path", "paths", "warehouse", "table", "credentials"})
READ = frozenset(
    {"snapshot_id", "tag", "timestamp", "incremental", "incremental_mode", "row_kinds", "columns", "filter"}
)
READ_TASKS = "num_partitions"
# Words of ours that Java's connector spells as options of the table.
_JAVA_WORDS = {"write.merge-schema": "mergeschema"} | {
    f"read.stream.{word}": word for word in ("maxfilespertrigger", "maxrowspertrigger", "maxbytespertrigger")
}
_SWITCH = {"true": True, "false": False}
# Keys of Paimon that ask for something else than the newest state: a view with them cannot be written.
_TRAVEL_PREFIXES = ("scan.", "incremental-")


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The options of one read or write, sorted by what they are for."""

    place: Mapping[str, str]
    words: Mapping[str, str]  # ours: `columns`, `filter`, `snapshot_id` and others
    table: Mapping[str, str]  # options of the table, for this read or write only
    storage: Mapping[str, str] = field(repr=False)  # and of the catalog; may hold secrets
    bound: FileStoreTable | RowView | None = field(default=None, repr=False)  # the table, if the call has it

    @classmethod
    def of(
        cls, options: Mapping[str, str], words: Collection[str], bound: FileStoreTable | RowView | None = None
    ) -> SourceOptions:
        """Sort the options of a call that accepts some words; refuse keys that mean nothing."""
        given = {_spell_option(str(key).lower(), words): str(value) for key, value in options.items()}
        sorts: dict[str, dict[str, str]] = {"place": {}, "words": {}, "table": {}, "storage": {}}
        for key, value in given.items():
            sorts[_sort(key, words)][key] = value
        return cls(**sorts, bound=bound)

    def open(self) -> FileStoreTable:
        """Open the table that the options name, with the options that hold for it; a system table is refused."""
        table = self.open_any()
        if isinstance(table, FileStoreTable):
            return table
        raise UnsupportedError(f"{table.name} is a system table, which can only be read as it is", table=table.name)

    def open_any(self) -> ReadableTable:
        """Open the table, or the system table such as `db.t$snapshots`, that the options name."""
        opening = {key: value for key, value in self.table.items() if key in OPENING}
        bound: ReadableTable | None = None if self.bound is None else self.bound.refreshed()
        table = _open(self.place, {**self.storage, **opening}) if bound is None else bound
        kept = {key: value for key, value in self.table.items() if key != TableOptions.branch.key()}
        if isinstance(table, SystemTable):
            if kept:
                raise InvalidInputError(f"{table.name} shows the table as it is: only columns and filter fit it")
            return table
        return table.copy(kept) if kept else table

    @property
    def travels(self) -> bool:
        """Whether the options ask for something else than the newest state of the table, or only for a part of it."""
        return not READ.isdisjoint(self.words) or any(key.startswith(_TRAVEL_PREFIXES) for key in self.table)

    def switch(self, word: str, *, default: bool = False) -> bool:
        """Return the value of a word that is true or false."""
        value = self.words.get(word)
        if value is None:
            return default
        if value.strip().lower() not in _SWITCH:
            raise InvalidInputError(f"the option {word!r} is true or false, not {value!r}", option=word)
        return _SWITCH[value.strip().lower()]

    def number(self, word: str) -> int | None:
        """Return the value of a word that is a whole number, None where it was not given."""
        value = self.words.get(word)
        if value is None:
            return None
        try:
            return int(value)
        except ValueError:
            raise InvalidInputError(f"the option {word!r} is a whole number, not {value!r}", option=word) from None

    def names(self, word: str) -> list[str] | None:
        """Return the names in a word that lists columns: `a,b`, or a JSON list where names hold commas."""
        value = self.words.get(word)
        if value is None:
            return None
        if value.lstrip().startswith("["):
            return _json_names(word, value)
        return [name.strip() for name in value.split(",")]

    def read(self) -> ReadBuilder | SystemReadBuilder:
        """Return the read that the options describe."""
        table = self.open_any()
        if isinstance(table, FileStoreTable):
            check_zone_said(table, self.words.get("filter"))
        return read_builder(table, self.request())

    def request(self) -> ReadRequest:
        """Return what the words ask for; digits are a time in epoch milliseconds, other text is an ISO time."""
        moment = self.words.get("timestamp")
        return ReadRequest(
            filter=self.words.get("filter"),
            columns=self.names("columns"),
            snapshot_id=self.number("snapshot_id"),
            tag=self.words.get("tag"),
            timestamp=self.number("timestamp") if moment is not None and moment.strip().isdigit() else moment,
            incremental=self.words.get("incremental"),
            incremental_mode=self.words.get("incremental_mode"),
            row_kinds=self.switch("row_kinds"),
        )


def check_zone_said(table: FileStoreTable, condition: str | None) -> None:
    """Refuse a filter whose result depends on a time zone that is not given: a source cannot see the session's."""
    key = TableOptions.lakewright_time_zone.key()
    if condition is None or key in table.schema.options:
        return
    east, west = (table.copy({key: zone}).new_read_builder().with_filter(condition) for zone in ("+12:00", "-12:00"))
    if east.predicate != west.predicate:
        raise InvalidInputError(
            f"{table.name}: the filter {condition!r} compares a column WITH LOCAL TIME ZONE with a time that names no "
            f"zone, and format({FORMAT!r}) does not see the zone of the session: write '2026-01-09 00:00:00+01:00', "
            f"or give the option {key!r}, or use lakewright.spark.read_table, which sees it",
            table=table.name,
            option=key,
        )


def _spell_option(key: str, words: Collection[str]) -> str:
    """Return a key, which Spark has turned into lower case, as the call or the table spells it."""
    if (word := _JAVA_WORDS.get(key, key)) in words:
        return word
    return spell_key(key)


def _sort(key: str, words: Collection[str]) -> str:
    if key in words:
        return "words"
    if key in PLACE:
        return "place"
    rule = rule_of(key)
    if rule is not None and rule.scope is OptionScope.TABLE:
        return "table"
    if rule is not None or is_of_storage(key):
        return "storage"
    known = sorted({*words, *PLACE, *RULES, *setting_names()} - {"paths"})
    near = get_close_matches(key, known, n=1) or get_close_matches(key.replace("-", "_"), known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"here are {', '.join(sorted({*words, *PLACE} - {'paths'}))}"
    raise InvalidInputError(
        f'format("{FORMAT}") has no option {key!r}; {hint} Options of the table and of its storage can be given too',
        option=key,
    )


def _open(place: Mapping[str, str], options: Mapping[str, str]) -> ReadableTable:
    if "paths" in place:
        raise UnsupportedError(
            f'format("{FORMAT}") reads one table at a time: load each path by itself and join them with unionByName'
        )
    path, warehouse, name = (place.get(key) for key in ("path", "warehouse", "table"))
    if path is not None and (warehouse is not None or name is not None):
        raise InvalidInputError(f"give the path of the table, or 'warehouse' and 'table', not both (path {path!r})")
    provider = named_provider(place["credentials"]) if "credentials" in place else None
    if path is not None:
        return open_table(path, options, credentials=provider)
    has_catalog = warehouse is not None or "metastore" in options  # a server may do without a warehouse
    if has_catalog and name is not None:
        identifier = Identifier.from_string(name)
        branch = options.get(TableOptions.branch.key())
        if branch is not None and identifier.get_branch_name() is None:
            identifier = Identifier(identifier.database, identifier.table, branch, identifier.system_table)
        own = {key: value for key, value in options.items() if key != TableOptions.branch.key()}
        catalog = own if warehouse is None else {**own, "warehouse": warehouse}
        return CatalogFactory.create(catalog, credentials=provider).get_table(identifier)
    if has_catalog or name is not None:
        missing = "table" if name is None else "warehouse"
        raise InvalidInputError(
            f"the option {missing!r} is missing: a table is found by 'warehouse' and 'table', or by 'table' and the "
            "options of another catalog ('metastore', 'uri', ...)"
        )
    raise InvalidInputError(
        f'format("{FORMAT}") got no path of a table. Say .load(path), or .option("warehouse", w).option("table", '
        '"db.t"). Tables of Spark\'s own catalog (CREATE TABLE ... USING, saveAsTable, writeTo) cannot be of this '
        "format, because Spark forgets their options: drop the table and use lakewright.spark.publish, CREATE "
        "TEMPORARY VIEW v USING "
        f"{FORMAT} OPTIONS (path '...'), or lakewright.spark.attach(spark, warehouse, database)"
    )


def _json_names(word: str, value: str) -> list[str]:
    try:
        names = json.loads(value)
    except json.JSONDecodeError as error:
        raise InvalidInputError(f"the option {word!r} is no JSON list: {error}", option=word) from error
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InvalidInputError(f"the option {word!r} is a list of names, not {value!r}", option=word)
    return names
