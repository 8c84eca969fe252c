"""One bucket of a primary-key table, made file by file for readers alone: no writer, no committer, no compaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from lakewright.formats.data_file_writer import FilePlan, NewFile, RollingFile
from lakewright.formats.deletion_vectors import encode_deletion_vectors
from lakewright.lsm.key_order import KeyOrder
from lakewright.metadata.table_store import TableStore
from lakewright.spec.manifest import (
    ADD,
    APPEND,
    DELETION_VECTORS,
    EMPTY_ROW,
    DataFile,
    IndexEntry,
    IndexFile,
    ManifestEntry,
)
from lakewright.spec.schema import Schema, new_table_schema
from lakewright.spec.snapshot import CommitKind, Snapshot, to_json
from lakewright.spec.system_columns import INSERT, SEQUENCE_NUMBER, VALUE_KIND
from lakewright.storage.local_storage import LocalStorage
from lakewright.storage.storage import Storage
from lakewright.storage.table_layout import Layout


def new_keyed_table(
    root: str,
    schema: pa.Schema,
    options: Mapping[str, str],
    storage: Storage | None = None,
    key: Sequence[str] = ("k",),
) -> TableStore:
    """Make a primary-key table without partitions."""
    wish = Schema.from_pyarrow_schema(schema, primary_keys=key, options={"bucket": "1", **options})
    table_schema = new_table_schema(wish, time_millis=1)
    storage, layout = storage or LocalStorage(durable=False), Layout(root)
    storage.make_directory(layout.schema_directory)
    assert storage.create(layout.schema_file(0), table_schema.to_json().encode())
    return TableStore("db.t", storage, layout, table_schema)


def keyed_rows(
    store: TableStore, columns: Mapping[str, Sequence[object]], *, first: int, kinds: Sequence[int] | None = None
) -> pa.Table:
    """Return rows sorted by key; their sequence numbers count from `first` in the order they are given in."""
    values = pa.table({f.name: pa.array(columns[f.name], f.type) for f in store.schema.arrow_schema})
    kinds = kinds or [INSERT] * values.num_rows
    rows = values.add_column(0, VALUE_KIND.name, pa.array(kinds, pa.int8()))
    rows = rows.add_column(0, SEQUENCE_NUMBER.name, pa.array(range(first, first + rows.num_rows), pa.int64()))
    return rows.take(pa.array(KeyOrder(store.schema.trimmed_primary_key_fields).order(rows)))


@dataclass(slots=True)
class KeyedBucket:
    """The only bucket of a table, to which files are put one by one."""

    store: TableStore
    files: list[DataFile] = field(default_factory=list)
    vectors: dict[str, list[int]] = field(default_factory=dict)  # deleted positions by file

    def add(self, rows: pa.Table, *, level: int = 0, source: int = APPEND) -> DataFile:
        """Write rows, sorted by key, as one file of a level."""
        storage, layout = self.store.storage, self.store.layout
        directory = layout.bucket_directory("", 0)
        storage.make_directory(directory)
        plan = FilePlan.for_keyed_rows(self.store.schema, level=level, source=source)
        name = plan.file_name(f"{len(self.files):04d}")
        path = f"{directory}/{name}"
        rolling = RollingFile(plan, lambda _: NewFile(name, path, storage.open_output(path)), None, lambda: 1)
        rolling.write(rows)
        rolling.finish()
        (finished,) = rolling.files
        self.files.append(finished.facts)
        return finished.facts

    def publish(self, snapshot_id: int = 1, *, bucket: int = 0) -> None:
        """Name the files in a snapshot."""
        manifests, layout = self.store.manifests, self.store.layout
        storage = self.store.storage
        for place in (layout.manifest_directory, layout.snapshot_directory, layout.index_directory):
            storage.make_directory(place)
        entries = [ManifestEntry(ADD, EMPTY_ROW, bucket, 1, file) for file in self.files]
        base, base_size = manifests.write_list([])
        delta, delta_size = manifests.write_list(manifests.write(entries, schema_id=self.store.schema.id))
        index = None
        if self.vectors:
            data, ranges = encode_deletion_vectors(self.vectors)
            name = f"index-{snapshot_id}"
            assert storage.create(f"{layout.index_directory}/{name}", data)
            file = IndexFile(DELETION_VECTORS, name, len(data), len(ranges), ranges)
            index = manifests.write_index([IndexEntry(ADD, EMPTY_ROW, 0, file)])
        snapshot = Snapshot(
            id=snapshot_id,
            schema_id=self.store.schema.id,
            base_manifest_list=base,
            base_manifest_list_size=base_size,
            delta_manifest_list=delta,
            delta_manifest_list_size=delta_size,
            index_manifest=index,
            commit_user="test",
            commit_identifier=snapshot_id,
            commit_kind=CommitKind.APPEND,
            time_millis=snapshot_id,
        )
        assert storage.create(layout.snapshot_file(snapshot_id), to_json(snapshot).encode())
