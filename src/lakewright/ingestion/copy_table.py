"""Copy one snapshot of a table.

pick the snapshot -> create the table with the same schemas and options -> copy its data and index files, in
    threads, each checked by its size -> one commit, on an empty table

Files keep their names, levels, sequence numbers, row ids and statistics; deletion vectors and indexes come along. Files
that lay outside the source are inside the copy. If it fails or is killed, at most an empty table is left with files
that nothing names; the same call goes on.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace

from lakewright.catalog.catalog import Catalog, plain_identifier
from lakewright.commit.commit_message import CommitMessage
from lakewright.commit.commit_plan import partition_selector, select_partitions
from lakewright.commit.committer import Committer
from lakewright.display import HtmlRepr
from lakewright.errors import (
    InvalidInputError,
    LakewrightError,
    LakewrightWarning,
    NotFoundError,
    TableAlreadyExistException,
    TableNotExistException,
    UnsupportedError,
)
from lakewright.ingestion.migrate_table import check_catalog, copy_file
from lakewright.maintenance.partition_lifecycle import partitions_where
from lakewright.maintenance.table_analysis import write_statistics
from lakewright.metadata.table_statistics import read_statistics
from lakewright.metadata.table_store import TableStore
from lakewright.spec import argument_checks
from lakewright.spec.identifier import Identifier
from lakewright.spec.manifest import DataFile, IndexEntry, IndexFile, ManifestEntry, count_rows
from lakewright.spec.schema import Schema
from lakewright.spec.snapshot import CommitKind, Snapshot
from lakewright.spec.table_schema import TableSchema
from lakewright.table.file_store_table import FileStoreTable

_THREADS = 8
_NOT_COPIED = ("path", "data-file.external-paths", "data-file.external-paths.strategy")


@dataclass(frozen=True, slots=True)
class CopyResult(HtmlRepr):
    """What a copy of a table did, or would do."""

    table: str
    snapshot_id: int | None  # of the new table; None: nothing was published
    source_snapshot_id: int
    files: int  # data and index files
    rows: int  # in the data files
    bytes: int
    dry_run: bool
    seconds: float


@dataclass(frozen=True, slots=True)
class _Copied:
    """What is copied: the live files of a snapshot."""

    snapshot: Snapshot
    entries: Sequence[ManifestEntry]
    index: Sequence[IndexEntry]


def copy_table(  # noqa: PLR0913 - the call of a user
    source_table: FileStoreTable,
    target_catalog: Catalog,
    identifier: str | Identifier,
    *,
    snapshot_id: int | None = None,
    tag: str | None = None,
    where: str | None = None,
    dry_run: bool = False,
) -> CopyResult:
    """Copy the newest snapshot of a table, or that of an id or a tag, to a new table of any catalog.

    Schemas, options, deletion vectors and indexes come along; the history does not. Statistics do, in an ANALYZE
    snapshot of their own, if they were counted on these rows and all partitions are copied. `where` is a condition on
    partition columns, such as `day >= '2026-01-01'`. With `dry_run` nothing is copied, and the result says how much
    would be.

    >>> import tempfile, pyarrow as pa, lakewright as lw
    >>> here, there = (lw.CatalogFactory.create({"warehouse": tempfile.mkdtemp()}) for _ in range(2))
    >>> for catalog in (here, there):
    ...     catalog.create_database("d")
    >>> here.create_table("d.t", lw.Schema.from_pyarrow_schema(pa.schema({"n": pa.int64()})))
    >>> _ = lw.write_table(pa.table({"n": [1, 2]}), here.get_table("d.t"))
    >>> lw.copy_table(here.get_table("d.t"), there, "d.copy").rows
    2
    >>> lw.read_table(there.get_table("d.copy"))["n"].to_pylist()
    [1, 2]
    """
    started = time.monotonic()
    source = argument_checks.check_instance(
        "source_table", source_table, FileStoreTable, "a table, as catalog.get_table returns it"
    )
    check_catalog(target_catalog)
    name = plain_identifier(identifier)
    condition = argument_checks.check_optional(argument_checks.check_text, "where", where)
    is_dry = argument_checks.check_bool("dry_run", dry_run)
    snapshot = source.snapshot(snapshot_id, tag=tag)
    if snapshot is None:
        raise NotFoundError(f"{source.name}: there is no snapshot to copy; write something first", table=source.name)
    target_catalog.get_database(name.get_database_name())
    copied = _files_of(source.store, snapshot, condition)
    result = _result(name, copied, dry_run=is_dry)
    if not is_dry:
        target = _create_target(source.store, snapshot, target_catalog, name)
        published = _commit(source.store, target, copied)
        if published is not None and condition is None:
            _copy_statistics(source.store, target, snapshot, published)
        result = replace(result, snapshot_id=None if published is None else published.id)
    return replace(result, seconds=time.monotonic() - started)


def _files_of(store: TableStore, snapshot: Snapshot, where: str | None) -> _Copied:
    """Return the live files of a snapshot, those of the partitions that fulfil a condition."""
    entries = store.manifests.live(snapshot)
    index = [] if snapshot.index_manifest is None else store.manifests.read_index(snapshot.index_manifest)
    if where is None:
        return _Copied(snapshot, entries, index)
    selects = partition_selector(store, select_partitions(store, partitions_where(store, where)))
    return _Copied(
        snapshot,
        [entry for entry in entries if selects(entry.partition)],
        [entry for entry in index if selects(entry.partition)],
    )


def _result(name: Identifier, copied: _Copied, *, dry_run: bool) -> CopyResult:
    files: list[DataFile | IndexFile] = [*(e.file for e in copied.entries), *(e.file for e in copied.index)]
    return CopyResult(
        table=name.get_full_name(),
        snapshot_id=None,
        source_snapshot_id=copied.snapshot.id,
        files=len(files),
        rows=count_rows(entry.file for entry in copied.entries),
        bytes=sum(file.file_size for file in files),
        dry_run=dry_run,
        seconds=0.0,
    )


# ---- the table -------------------------------------------------------------------------------------------------------


def _create_target(source: TableStore, snapshot: Snapshot, catalog: Catalog, name: Identifier) -> TableStore:
    """Create the table with all schemas up to that of the snapshot, or take the empty one of a call that was cut."""
    schemas = [schema for schema in source.schemas.all() if schema.id <= snapshot.schema_id]
    with suppress(TableAlreadyExistException):
        catalog.create_table(name, _declared_schema(schemas[0]))
    store = catalog.get_table(name).store
    if store.snapshots.latest() is not None or schemas[0].id != 0 or not _agree(schemas[0], store.schemas.get(0)):
        raise TableAlreadyExistException(
            f"table {store.name} already exists, and is not the empty one that a copy of {source.name} leaves when it "
            "is cut short; choose another name, or drop it",
            table=store.name,
            identifier=name,
        )
    for schema in schemas[1:]:
        if store.home.history is not None:
            raise UnsupportedError(
                f"{source.name} has {len(schemas)} schemas, and the server that owns {store.name} takes only one: copy "
                "the rows with lakewright.write_table",
                table=store.name,
            )
        options = _options(schema)
        store.storage.create(store.layout.schema_file(schema.id), replace(schema, options=options).to_json().encode())
    return catalog.get_table(name).store


def _declared_schema(schema: TableSchema) -> Schema:
    keys, primary = list(schema.partition_keys), list(schema.primary_keys)
    return Schema(list(schema.fields), keys, primary, _options(schema), schema.comment)


def _options(schema: TableSchema) -> dict[str, str]:
    return {key: value for key, value in schema.options.items() if key not in _NOT_COPIED}


def _agree(one: TableSchema, other: TableSchema) -> bool:
    return (one.fields, one.partition_keys, one.primary_keys) == (
        other.fields,
        other.partition_keys,
        other.primary_keys,
    )


# ---- the files -------------------------------------------------------------------------------------------------------


def _commit(source: TableStore, target: TableStore, copied: _Copied) -> Snapshot | None:
    """Copy the files, and publish all of them in one snapshot."""
    pairs = dict(_pairs(source, target, copied))
    try:
        with ThreadPoolExecutor(_THREADS) as pool:
            for _ in pool.map(lambda pair: _copy(source, target, *pair), pairs.items()):
                pass
        return _publish_files(target, _messages(target, copied))
    except InvalidInputError as error:
        _remove(target, pairs)
        if "path" not in error.facts:
            raise
        raise InvalidInputError(
            f"{source.name}: a file has another size than its manifest says: {error.message}", **error.facts
        ) from error
    except (LakewrightError, OSError):
        if published_nothing(target):
            _remove(target, pairs)
        raise


def _publish_files(target: TableStore, messages: list[CommitMessage]) -> Snapshot | None:
    committer = Committer(target, sole=True)
    if target.options.data_evolution_enabled:  # an append may not bring columns of rows that it adds itself
        return committer.overwrite(messages, dynamic=False)
    return committer.commit(messages, ignore_empty=False)


def _copy_statistics(source: TableStore, target: TableStore, snapshot: Snapshot, copy: Snapshot) -> None:
    """Record the statistics of a snapshot for its copy, if they are of the same rows; a copy without them is whole."""
    try:
        found = read_statistics(source, snapshot)
        if (
            found is None
            or found.schema_id != target.schema.id
            or not _has_rows_of(source, snapshot, found.snapshot_id)
        ):
            return
        file = write_statistics(target, replace(found, snapshot_id=copy.id))
        Committer(target, sole=True).name_statistics(file, of=copy, schema_id=found.schema_id)
    except (LakewrightError, OSError) as error:
        message = f"{target.name} was copied without its statistics ({error}): call table.analyze()"
        warnings.warn(message, LakewrightWarning, stacklevel=3)


def _has_rows_of(source: TableStore, snapshot: Snapshot, older_id: int) -> bool:
    """Return whether no snapshot after an older one has changed rows, as far as snapshots are still there to tell."""
    for snapshot_id in range(older_id + 1, snapshot.id + 1):
        between = snapshot if snapshot_id == snapshot.id else source.snapshots.find(snapshot_id)
        if between is None or between.commit_kind not in (CommitKind.ANALYZE, CommitKind.COMPACT):
            return False
    return True


def published_nothing(store: TableStore) -> bool:
    """Return whether a table certainly has no snapshot."""
    try:
        return store.snapshots.latest() is None
    except (TableNotExistException, OSError):
        return False


def _remove(target: TableStore, pairs: Mapping[str, tuple[str, int]]) -> None:
    with suppress(OSError):
        for path in pairs:
            target.storage.delete(path)


def _copy(source: TableStore, target: TableStore, path: str, origin: tuple[str, int]) -> None:
    old, size = origin
    found = target.storage.size(path)
    if found == size:
        return  # an earlier call has copied it
    if found is not None:
        target.storage.delete(path)
    actual = source.storage.size(old) if size < 0 else size
    copy_file(source.storage, old, target.storage, path, size=actual or 0)


def _pairs(source: TableStore, target: TableStore, copied: _Copied) -> list[tuple[str, tuple[str, int]]]:
    """Return the path of each new file, with the path and the size of the old one; -1 is an unrecorded size."""
    pairs = []
    for entry in copied.entries:
        place, inside = source.partition_directory(entry.partition), replace(entry.file, external_path=None)
        old, new = (source.layout, entry.file), (target.layout, inside)
        paths = [layout.data_file(place, entry.bucket, file) for layout, file in (new, old)]
        pairs.append((paths[0], (paths[1], entry.file.file_size)))
        for extra in entry.file.extra_files:
            paths = [layout.extra_file(place, entry.bucket, file, extra) for layout, file in (new, old)]
            pairs.append((paths[0], (paths[1], -1)))
    for one in copied.index:
        place = source.partition_directory(one.partition)
        paths = [
            layout.index_file(file, layout.bucket_directory(place, one.bucket))
            for layout, file in ((target.layout, replace(one.file, external_path=None)), (source.layout, one.file))
        ]
        pairs.append((paths[0], (paths[1], one.file.file_size)))
    return pairs


def _messages(target: TableStore, copied: _Copied) -> list[CommitMessage]:
    files: dict[tuple[bytes, int], list[DataFile]] = {}
    index: dict[tuple[bytes, int], list[IndexFile]] = {}
    totals: dict[tuple[bytes, int], int] = {}
    for entry in copied.entries:
        place = entry.partition, entry.bucket
        files.setdefault(place, []).append(replace(entry.file, external_path=None))
        totals[place] = entry.total_buckets
    for one in copied.index:
        index.setdefault((one.partition, one.bucket), []).append(replace(one.file, external_path=None))
    return [
        CommitMessage(
            partition_bytes=place[0],
            bucket=place[1],
            total_buckets=totals.get(place),
            new_files=tuple(files.get(place, ())),
            new_index_files=tuple(index.get(place, ())),
            check_from_snapshot=0,
            unchanged="table",
            table=target.identity,
            schema_id=target.schema.id,
        )
        for place in dict.fromkeys((*files, *index))
    ]
