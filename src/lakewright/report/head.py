"""What a table is, for its report: a store in, its kind, keys, columns and options in words out. Reads no file."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from lakewright.display.words import in_size, in_time
from lakewright.errors import InvalidInputError, counted
from lakewright.metadata.store import TableStore
from lakewright.report.facts import Column, Head, Option, Shortened
from lakewright.spec.options import KNOWN_OPTIONS, ChangelogProducer, ConfigOption, CoreOptions
from lakewright.spec.schema.option_keys import without_secrets
from lakewright.spec.schema.table_schema import BucketMode, TableSchema

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
        comment=shortened(schema.comment or ""),
        kind="primary-key table" if schema.primary_keys else "append table",
        details=tuple(_details(schema)),
        primary_keys=schema.primary_keys,
        partition_keys=schema.partition_keys,
        buckets=_buckets(schema),
        schema_id=schema.id,
        columns=Shortened(columns[:COLUMNS_MAX], len(columns)),
        options=Shortened(options[:OPTIONS_MAX], len(options)),
    )


def shortened(text: str, most: int = VALUE_CHARS_MAX) -> str:
    """Return a text, cut if it is very long.

    >>> shortened("abcdef", 4), shortened("abcd", 4)
    ('abc…', 'abcd')
    """
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _columns(schema: TableSchema) -> Iterator[Column]:
    for field in schema.fields:
        roles = ("primary key",) * (field.name in schema.primary_keys)
        roles += ("partition",) * (field.name in schema.partition_keys)
        yield Column(field.name, shortened(str(field.type)), ", ".join(roles), shortened(field.description or ""))


def _options(schema: TableSchema) -> Iterator[Option]:
    """Yield the options that are set to something else than their default."""
    for key, value in sorted(schema.options.items()):
        option = _BY_KEY.get(key)
        if key not in _SHOWN_ELSEWHERE and not (option is not None and _is_default(option, value)):
            default = "" if option is None else _default_text(option)
            yield Option(key, shortened(without_secrets(key, value)), default)


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
        return in_size(default)
    if isinstance(default, int) and option.kind.allowed.startswith("a duration"):
        return in_time(default)
    return str(default.value) if isinstance(default, Enum) else str(default)


def _details(schema: TableSchema) -> Iterator[str]:
    """Yield what decides how the table is read and written, in words."""
    options = schema.core_options
    if schema.primary_keys:
        yield f"merge engine {options.merge_engine().value}"
        producer = options.get(CoreOptions.CHANGELOG_PRODUCER)
        if producer is not ChangelogProducer.NONE:
            yield f"changelog by {producer.value}"
    if options.deletion_vectors_enabled():
        yield "deletion vectors"
    if options.row_tracking_enabled():
        yield "row tracking"
    if options.data_evolution_enabled():
        yield "data evolution"
    if options.get(CoreOptions.WRITE_ONLY):
        yield "write-only: writers do not compact"
    yield f"{options.file_format()} files"


def _buckets(schema: TableSchema) -> str:
    match schema.bucket_mode:
        case BucketMode.UNAWARE:
            return "none"
        case BucketMode.HASH_FIXED:
            return f"{counted(schema.core_options.bucket(), 'bucket')} by {', '.join(schema.bucket_keys)}"
        case BucketMode.HASH_DYNAMIC:
            return "dynamic, as many as the rows of a partition need"
        case BucketMode.KEY_DYNAMIC:
            return "dynamic, over all partitions"
        case BucketMode.POSTPONE:
            return "postponed: a compaction gives rows their bucket"
