"""Rows of the system tables about states of a table: its snapshots, statistics, schemas, tags, branches and others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta

from lakewright.metadata import refs
from lakewright.table.table import FileStoreTable

_SECOND = timedelta(seconds=1)


def snapshots(table: FileStoreTable) -> Iterator[tuple[object, ...]]:
    """Yield each snapshot that is kept, the oldest first."""
    for snapshot_id in table.store.snapshots.ids():
        s = table.store.snapshots.get(snapshot_id)
        yield (
            s.id,
            s.schema_id,
            s.commit_user,
            s.commit_identifier,
            s.commit_kind.value,
            s.time_millis,
            s.base_manifest_list,
            s.delta_manifest_list,
            s.changelog_manifest_list,
            s.total_record_count,
            s.delta_record_count,
            s.changelog_record_count,
            s.watermark,
            s.next_row_id,
            s.writer_version,
        )


def schemas(table: FileStoreTable) -> Iterator[tuple[object, ...]]:
    """Yield each schema, the oldest first; lists and mappings are JSON."""
    for schema in table.store.schemas.all():
        yield (
            schema.id,
            compact_json([field.to_dict() for field in schema.fields]),
            compact_json(list(schema.partition_keys)),
            compact_json(list(schema.primary_keys)),
            compact_json(dict(schema.options)),
            schema.comment,
            schema.time_millis,
        )


def options(table: FileStoreTable) -> Iterator[tuple[object, ...]]:
    """Yield the options of the table by their keys."""
    yield from sorted(table.schema.options.items())


def tags(table: FileStoreTable) -> Iterator[tuple[object, ...]]:
    """Yield each tag with the snapshot that it names; times of creation are the wall clock of whoever made the tag."""
    for tag in table.store.tags.all():
        snapshot = tag.snapshot
        retained = None if tag.time_retained is None else java_duration(tag.time_retained)
        yield (
            tag.name,
            snapshot.id,
            snapshot.schema_id,
            snapshot.time_millis,
            snapshot.total_record_count,
            tag.create_time,
            retained,
        )


def branches(table: FileStoreTable) -> Iterator[tuple[object, ...]]:
    """Yield each branch; it is as old as the oldest of its schema files, which are copied when it is made."""
    store = table.store
    for name in refs.branches(store.storage, store.layout):
        files = store.storage.list(store.layout.for_branch(name).schema_directory)
        yield name, min((file.modified_millis for file in files), default=0)


def consumers(table: FileStoreTable) -> Iterator[tuple[object, ...]]:
    """Yield the position of each reader of a stream."""
    yield from sorted(table.store.consumers.all().items())


def statistics(table: FileStoreTable) -> Iterator[tuple[object, ...]]:
    """Yield what ANALYZE recorded of the snapshot: nothing or one row; columns are JSON with line breaks, as Java's."""
    found = table.statistics()
    if found is not None:
        columns = {name: column.to_members() for name, column in found.columns.items()}
        text = json.dumps(columns, indent=2, separators=(",", " : "), ensure_ascii=False) if columns else "{ }"
        yield found.snapshot_id, found.schema_id, found.row_count, found.size, text


def aggregation_fields(table: FileStoreTable) -> Iterator[tuple[object, ...]]:
    """Yield each column with the options `fields.<column>.` that say how its values are merged, and their values."""
    for field in table.fields:
        prefix = f"fields.{field.name}."
        found = {key: value for key, value in table.schema.options.items() if key.startswith(prefix)}
        values, keys = (f"[{', '.join(texts)}]" for texts in (found.values(), found))
        yield field.name, str(field.type), values, keys, field.description


def compact_json(value: object) -> str:
    """Return JSON without spaces."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def java_duration(age: timedelta) -> str:
    """Return a duration as Java's text.

    >>> [java_duration(timedelta(seconds=seconds)) for seconds in (86400, 3661.5, 0)]
    ['PT24H', 'PT1H1M1.5S', 'PT0S']
    """
    whole, rest = divmod(age, _SECOND)
    hours, minutes, seconds = whole // 3600, whole // 60 % 60, whole % 60
    fraction = f".{rest.microseconds:06d}".rstrip("0") if rest else ""
    parts = f"{hours}H" * bool(hours) + f"{minutes}M" * bool(minutes)
    return f"PT{parts}{seconds}{fraction}S" if seconds or fraction or not parts else f"PT{parts}"
