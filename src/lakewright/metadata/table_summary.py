"""What a table is, in a few values: kind, keys, columns, newest state; the card in a notebook."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

from lakewright.display import (
    SafeHtml,
    format_bytes,
    format_count,
    html_element,
    html_name,
    in_time,
    instant,
    join_html,
    render_remainder,
)
from lakewright.errors import InvalidInputError, LakewrightError, pluralize
from lakewright.metadata.table_store import TableStore
from lakewright.spec.option_checks import redact_secret
from lakewright.spec.option_values import ChangelogProducer, ConfigOption
from lakewright.spec.table_options import KNOWN_OPTIONS
from lakewright.spec.table_schema import BucketMode, TableSchema

# ---- Values ----------------------------------------------------------------------------------------------------------
# Everything is plain text, numbers and tuples, so that it can be shown as a page or as JSON. Invariant: lists are
# bounded, whatever the size of the table; what a list leaves out is counted beside it. Times are epoch milliseconds.

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Shortened(Generic[T]):
    """The first of many, and how many there are in all."""

    shown: tuple[T, ...] = ()
    total: int = 0

    @property
    def left_out(self) -> int:
        """How many are not shown."""
        return self.total - len(self.shown)


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """A column of the table."""

    name: str
    type: str
    role: str  # "primary key", "partition", both with a comma, or empty
    comment: str


@dataclass(frozen=True, slots=True)
class OptionFacts:
    """An option that is set to something else than its default; a secret is not shown."""

    key: str
    value: str
    default: str  # empty: there is none


@dataclass(frozen=True, slots=True)
class Head:
    """What the table is."""

    name: str
    path: str
    branch: str
    comment: str
    kind: str  # "primary-key table" or "append table"
    details: tuple[str, ...]  # what else is special about it, in words
    primary_keys: tuple[str, ...]
    partition_keys: tuple[str, ...]
    buckets: str  # how buckets are chosen, in words
    schema_id: int
    columns: Shortened[ColumnFacts]
    options: Shortened[OptionFacts]


# ---- The head of a table ---------------------------------------------------------------------------------------------

COLUMNS_MAX = 200
OPTIONS_MAX = 100
VALUE_CHARS_MAX = 300
_SHOWN_ELSEWHERE = frozenset({"path", "branch"})
_BY_KEY = {key: option for option in KNOWN_OPTIONS for key in (option.name, *option.old_names)}


def head_of(store: TableStore) -> Head:
    """Return what the table is, by its newest schema."""
    schema = store.schema
    columns = tuple(_columns(schema))
    options = tuple(_options(schema))
    return Head(
        name=store.name,
        path=store.layout.root,
        branch=store.layout.branch,
        comment=shorten(schema.comment or ""),
        kind="primary-key table" if schema.primary_keys else "append table",
        details=tuple(_details(schema)),
        primary_keys=schema.primary_keys,
        partition_keys=schema.partition_keys,
        buckets=_buckets(schema),
        schema_id=schema.id,
        columns=Shortened(columns[:COLUMNS_MAX], len(columns)),
        options=Shortened(options[:OPTIONS_MAX], len(options)),
    )


def shorten(text: str, most: int = VALUE_CHARS_MAX) -> str:
    """Return a text, cut if it is very long.

    >>> shorten("abcdef", 4), shorten("abcd", 4)
    ('abc…', 'abcd')
    """
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _columns(schema: TableSchema) -> Iterator[ColumnFacts]:
    for field in schema.fields:
        roles = ("primary key",) * (field.name in schema.primary_keys)
        roles += ("partition",) * (field.name in schema.partition_keys)
        yield ColumnFacts(field.name, shorten(str(field.type)), ", ".join(roles), shorten(field.description or ""))


def _options(schema: TableSchema) -> Iterator[OptionFacts]:
    """Yield the options that are set to something else than their default."""
    for key, value in sorted(schema.options.items()):
        option = _BY_KEY.get(key)
        if key not in _SHOWN_ELSEWHERE and not (option is not None and _is_default(option, value)):
            default = "" if option is None else _default_text(option)
            yield OptionFacts(key, shorten(redact_secret(key, value)), default)


def _is_default(option: ConfigOption[object], value: str) -> bool:
    try:
        return option.parse(value) == option.default
    except InvalidInputError:
        return False  # a value that cannot be read is shown as it is


def _default_text(option: ConfigOption[object]) -> str:
    default = option.default
    if default is None or default in ((), {}):
        return ""
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, int) and option.kind.allowed.startswith("a size"):
        return format_bytes(default)
    if isinstance(default, int) and option.kind.allowed.startswith("a duration"):
        return in_time(default)
    return str(default.value) if isinstance(default, Enum) else str(default)


def _details(schema: TableSchema) -> Iterator[str]:
    """Yield what decides how the table is read and written, in words."""
    options = schema.table_options
    if schema.primary_keys:
        yield f"merge engine {options.merge_engine.value}"
        producer = options.changelog_producer
        if producer is not ChangelogProducer.NONE:
            yield f"changelog by {producer.value}"
    if options.deletion_vectors_enabled:
        yield "deletion vectors"
    if options.row_tracking_enabled:
        yield "row tracking"
    if options.data_evolution_enabled:
        yield "data evolution"
    if options.write_only:
        yield "write-only: writers do not compact"
    yield f"{options.file_format} files"


def _buckets(schema: TableSchema) -> str:
    match schema.bucket_mode:
        case BucketMode.UNAWARE:
            return "none"
        case BucketMode.HASH_FIXED:
            return f"{pluralize(schema.table_options.bucket, 'bucket')} by {', '.join(schema.bucket_keys)}"
        case BucketMode.HASH_DYNAMIC:
            return "dynamic, as many as the rows of a partition need"
        case BucketMode.KEY_DYNAMIC:
            return "dynamic, over all partitions"
        case BucketMode.POSTPONE:
            return "postponed: a compaction gives rows their bucket"


# ---- The card in a notebook ------------------------------------------------------------------------------------------
# Invariant: it never raises and never takes long. It reads the newest snapshot and a bounded number of manifests,
# and shows the columns alone where these cannot be read. Its styles are inline and take the colours of the notebook.

MANIFESTS_MAX = 20
ENTRIES_MAX = 20_000
CARD_COLUMNS_MAX = 12
_SOFT = "opacity:.75"
_CELL = "text-align:left;padding:2px 16px 2px 0"


def card(store: TableStore) -> str:
    """Return the table as a notebook shows it."""
    head = head_of(store)
    try:
        state = " · ".join(_state(store))
    except (LakewrightError, OSError, ValueError) as error:
        state = f"its snapshot could not be read: {type(error).__name__}"
    rows = join_html(
        html_element(
            "tr",
            html_element("td", html_name(column.name), style=_CELL),
            html_element("td", html_element("code", column.type), style=_CELL),
            html_element("td", column.role, style=f"{_CELL};{_SOFT}"),
        )
        for column in head.columns.shown[:CARD_COLUMNS_MAX]
    )
    more = render_remainder(head.columns.total - min(CARD_COLUMNS_MAX, len(head.columns.shown)), "columns")
    return html_element(
        "div",
        html_element(
            "div", html_element("strong", html_name(head.name)), html_element("span", f" · {_kind(head)}", style=_SOFT)
        ),
        html_element("div", head.comment, dir="auto") if head.comment else SafeHtml(),
        html_element("div", state, style=_SOFT),
        html_element("table", html_element("tbody", rows), style="border-collapse:collapse;margin:6px 0"),
        html_element("div", more, style=_SOFT) if more else SafeHtml(),
        style="border-left:4px solid #4c7fe0;padding:4px 14px;color:inherit;background:transparent;max-width:60em",
    )


def _kind(head: Head) -> str:
    return " · ".join((head.kind, *(() if head.buckets == "none" else (head.buckets,))))


def _state(store: TableStore) -> Iterator[str]:
    """Yield the newest snapshot and, where few manifests say so, the number and size of its files."""
    snapshot = store.snapshots.latest()
    if snapshot is None:
        yield "nothing was written yet"
        return
    yield f"snapshot {snapshot.id} of {instant(snapshot.time_millis)}"
    if snapshot.total_record_count is not None:
        yield f"{format_count(snapshot.total_record_count)} rows stored"
    manifests = store.manifests.files_of(snapshot)
    entries = sum(file.num_added_files + file.num_deleted_files for file in manifests)
    if len(manifests) <= MANIFESTS_MAX and entries <= ENTRIES_MAX:
        files = [entry.file for entry in store.manifests.live(snapshot)]
        yield f"{pluralize(len(files), 'file')}, {format_bytes(sum(file.file_size for file in files))}"
