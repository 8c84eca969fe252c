"""Small primary-key tables that are written file by file, so that a test decides what is in which level."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from lakewright.commit.commit_message import CommitMessage, snapshot_key
from lakewright.commit.committer import Committer
from lakewright.compact.rewrite_output import BucketOutput
from lakewright.formats.data_file_writer import FilePlan
from lakewright.lsm.merge_rows import MergeRules
from lakewright.metadata.table_store import TableStore
from lakewright.read.data_file_reader import BucketReader
from lakewright.read.manifest_scan import FileSchemas
from lakewright.read.read_builder import ReadBuilder
from lakewright.spec.manifest import EMPTY_ROW, DataFile, ManifestEntry
from lakewright.spec.schema import Schema, new_table_schema
from lakewright.spec.snapshot import Snapshot
from lakewright.spec.system_columns import KEYED_FIELDS, keyed_table
from lakewright.storage.local_storage import LocalStorage
from lakewright.storage.storage import Storage
from lakewright.storage.table_layout import Layout

COLUMNS = pa.schema([pa.field("k", pa.int32(), nullable=False), ("v", pa.int64()), ("w", pa.string())])
Change = tuple[Any, ...]  # the kind, then the columns


def keyed_store(
    root: Path,
    options: Mapping[str, object] | None = None,
    schema: pa.Schema = COLUMNS,
    primary_keys: Sequence[str] = ("k",),
    partition_keys: Sequence[str] = (),
    storage: Storage | None = None,
) -> TableStore:
    """Make a primary-key table, of one bucket unless the options say otherwise."""
    wish = Schema.from_pyarrow_schema(
        schema,
        primary_keys=primary_keys,
        partition_keys=partition_keys,
        options={"bucket": "1", **{k: str(v) for k, v in (options or {}).items()}},
    )
    table_schema = new_table_schema(wish, time_millis=1)
    inner, layout = LocalStorage(durable=False), Layout(str(root))
    inner.make_directory(layout.schema_directory)
    assert inner.create(layout.schema_file(0), table_schema.to_json().encode())
    return TableStore("db.t", storage or inner, layout, table_schema)


def live(store: TableStore, snapshot: Snapshot | None = None) -> list[ManifestEntry]:
    """Return the live files of a snapshot, the newest unless one is given."""
    snapshot = snapshot or store.snapshots.latest()
    return [] if snapshot is None else store.manifests.live(snapshot)


def commit_rows(
    store: TableStore, changes: Iterable[Change], *, level: int = 0, partition: bytes = EMPTY_ROW, bucket: int = 0
) -> Snapshot:
    """Publish rows of kinds as one file of a level, numbered after those of the bucket, with no compaction."""
    rows = list(changes)
    newest = store.snapshots.latest()
    numbers = [e.file.max_sequence_number for e in live(store) if (e.partition, e.bucket) == (partition, bucket)]
    first = max(numbers, default=-1) + 1
    names = store.schema.arrow_schema.names
    columns = list(zip(*(row[1:] for row in rows), strict=True))
    values = pa.table(
        [pa.array(c, store.schema.arrow_schema.field(n).type) for n, c in zip(names, columns, strict=True)], names=names
    )
    keyed = keyed_table(
        values,
        pa.array(range(first, first + len(rows)), pa.int64()),
        pa.array([row[0] for row in rows], pa.int8()),
    )
    output = BucketOutput(store, (partition, bucket))
    sink = output.open(FilePlan.for_keyed_rows(store.schema, level=level))
    sink.write(MergeRules.of_schema(store.schema).fold(keyed))
    message = CommitMessage(
        partition_bytes=partition,
        bucket=bucket,
        new_files=sink.finish(),
        table=store.identity,
        schema_id=store.schema.id,
        write_id=str(uuid.uuid4()),
        base_snapshot=snapshot_key(newest),
    )
    published = Committer(store).commit([message])
    assert published is not None
    return published


def read(store: TableStore) -> dict[int, tuple[int | None, str | None]]:
    """Return what a batch read of the newest snapshot shows."""
    builder = ReadBuilder(store)
    rows = builder.new_read().to_arrow(builder.new_scan().plan().splits()).to_pylist()
    found = {row["k"]: (row["v"], row["w"]) for row in rows}
    assert len(found) == len(rows), "a key came twice"
    return found


def stored_rows(store: TableStore, entry: ManifestEntry) -> list[tuple[Any, ...]]:
    """Return the rows of a data or changelog file as they are there: number, kind, then the columns of the table."""
    files = BucketReader(store, FileSchemas(store), entry.partition, entry.bucket)
    batches = files.rows(entry.file, (*KEYED_FIELDS, *store.schema.fields))
    return [tuple(row.values()) for _, batch in batches for row in batch.to_pylist()]


def changelog_of(store: TableStore, first: int, last: int) -> list[tuple[Any, ...]]:
    """Return the changelog rows of some snapshots, in the order of snapshots and files."""
    snapshots = (store.snapshots.get(number) for number in range(first, last + 1))
    entries = itertools.chain.from_iterable(store.manifests.changelog(snapshot) for snapshot in snapshots)
    return [row for entry in entries for row in stored_rows(store, entry)]


def levels(store: TableStore) -> dict[int, int]:
    """Return how many live files each level has."""
    found: dict[int, int] = {}
    for entry in live(store):
        found[entry.file.level] = found.get(entry.file.level, 0) + 1
    return found


def files_on_disk(store: TableStore) -> set[str]:
    """Return the names of all data, changelog and index files."""
    root = Path(store.layout.root)
    return {p.name for p in root.rglob("*") if p.is_file() and p.parent.name.startswith(("bucket-", "index"))}


def named(files: Iterable[DataFile]) -> list[str]:
    """Return the names of files."""
    return [file.file_name for file in files]
