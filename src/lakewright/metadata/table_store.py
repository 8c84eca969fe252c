"""One table as a worker sees it: location, schema, options, managers of its metadata; serialisable.

Writers, readers and committers all start from this value; it holds no session, no connection and no open file, only how
to reach who owns the table's history (`metadata.authority`). It records which table was opened: a table that was
dropped and
made again at the same place is another one, and a read or a change of it through an old handle raises
TableReplacedError. A commit message contains the identity of its table, so that it cannot be committed to another one.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache

from lakewright.errors import InvalidInputError, NotFoundError, TableNotExistException, with_table_name
from lakewright.metadata import refs
from lakewright.metadata.authority import FILE_AUTHORITY, TableAuthority
from lakewright.metadata.job_records import JobRecords
from lakewright.metadata.manifest_files import Manifests
from lakewright.metadata.refs import Consumers, Tags
from lakewright.metadata.schema_files import Origin, SchemaFiles
from lakewright.metadata.snapshot_files import Changelogs, SnapshotFiles
from lakewright.spec import argument_checks
from lakewright.spec.binary_row import decode_row
from lakewright.spec.external_paths import external_paths
from lakewright.spec.manifest import ADD, EMPTY_ROW, ManifestEntry, Partition, count_rows
from lakewright.spec.scalars import to_text
from lakewright.spec.table_options import LATEST_MODES, TRAVEL, TableOptions
from lakewright.spec.table_schema import TableSchema
from lakewright.spec.types import DataType, Value
from lakewright.storage.concurrency import CallGroup
from lakewright.storage.storage import Storage
from lakewright.storage.table_layout import MAIN_BRANCH, Layout, partition_text, plain_location

_PARTIAL = (  # options that let a handle show only some of the rows
    TableOptions.incremental_between.key(),
    TableOptions.incremental_between_timestamp.key(),
    "scan.bucket",
    "scan.creation-time-millis",
    "scan.file-creation-time-millis",
)
_IDENTITIES_MAX = 4096
_identities: dict[Origin, str] = {}
_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class TableStore:
    """A table's name, place, schema and options."""

    name: str  # "database.table", for messages
    storage: Storage
    layout: Layout
    schema: TableSchema  # the schema to read and write with; its options are the effective ones
    origin: Origin | None = None  # which table it is; None for a table that does not exist yet: nothing is checked
    home: TableAuthority = FILE_AUTHORITY  # who owns its history
    snapshot_properties: Mapping[str, str] = field(default_factory=dict, compare=False)  # of what this handle commits

    @property
    def identity(self) -> str:
        """The SHA-256 of the table's location and its first schema file, in hexadecimal."""
        origin = self.origin
        if origin is None:
            return _first_digest(self)
        if origin.schema_id == 0:
            return origin.digest
        identity = _identities.get(origin)
        if identity is None:
            identity = _first_digest(self)
            self.check_same_table()  # after the first schema was read, which may be one of another table by now
            with _lock:
                if len(_identities) >= _IDENTITIES_MAX:
                    _identities.clear()
                _identities[origin] = identity
        return identity

    def check_same_table(self) -> None:
        """Raise TableReplacedError if another table is at this one's place, TableNotExistException if there is none.

        This reads one small file.
        """
        with with_table_name(self.name):
            self.schemas.check_origin()

    @contextmanager
    def checking_same_table(self) -> Iterator[None]:
        """Call `check_same_table` for the reads inside the block; in parallel with them on an object store.

        If the table was replaced, that error is raised, not the one that reading the files of another table caused.
        """
        with CallGroup(self.storage) as errands:
            check = errands.start(self.check_same_table)
            if self.storage.requests_at_once == 1:
                check.result()
            try:
                yield
            finally:
                check.result()

    def refreshed(self) -> TableStore:
        """Return the table with its newest schema; one request finds out whether there is a newer one.

        A handle may be old: other users add columns, widen types and change options. The handle's own options stay.
        """
        if not self.storage.exists(self.layout.schema_file(self.schema.id + 1)):
            return self
        self.check_same_table()
        newest = self.schemas.latest()
        return self if newest is None else self.with_newest(newest)

    def with_newest(self, schema: TableSchema) -> TableStore:
        """Return the table with another of its stored schemas and the options that only this handle has."""
        effective = schema.with_options(self.own_options())
        return replace(self, schema=effective, layout=apply_layout_options(self.layout, effective))

    def with_snapshot_properties(self, given: object) -> TableStore:
        """Return the table so that every snapshot it publishes records more properties; None leaves it as it is."""
        if given is None:
            return self
        return replace(self, snapshot_properties={**self.snapshot_properties, **check_properties(given)})

    def own_options(self) -> dict[str, str]:
        """Return the options of this handle that differ from the stored ones: those given to `copy`."""
        stored = self.schemas.get(self.schema.id).options
        return {key: value for key, value in self.schema.options.items() if stored.get(key) != value}

    def check_changeable(self, *, stored_too: bool = False) -> None:
        """Raise InvalidInputError if options of this handle show rows of the past, or only some of the rows.

        What is written goes to the newest snapshot, which such a handle does not show. Options that are stored with
        the table are meant for its readers; with `stored_too` they count as well, for changes that look at rows first.
        """
        effective = self.options.values
        given = [key for key in (*TRAVEL, *_PARTIAL) if key in effective]
        if self.options.scan_mode not in LATEST_MODES:
            given.append(TableOptions.scan_mode.key())
        if given and not stored_too:
            stored = self.schemas.get(self.schema.id).options
            given = [key for key in given if stored.get(key) != effective[key]]
        if given:
            raise InvalidInputError(
                f"{self.name}: {given[0]!r} shows rows of the past, or some of the rows, which cannot be changed; "
                "change the table through a handle without that option",
                table=self.name,
                option=given[0],
            )

    @contextmanager
    def naming_replaced(self) -> Iterator[None]:
        """Raise TableReplacedError in place of NotFoundError if the table was replaced by another one."""
        try:
            yield
        except NotFoundError:
            self.check_same_table()
            raise

    @property
    def options(self) -> TableOptions:
        """The effective options: those of the schema, replaced by the handle's own where both have a key."""
        return self.schema.table_options

    @property
    def schemas(self) -> SchemaFiles:
        """The table's schema files."""
        return SchemaFiles(self.storage, self.layout, self.origin, self.home)

    @property
    def snapshots(self) -> SnapshotFiles:
        """The table's snapshots: the files, and where a server owns them, the newest by its word."""
        return SnapshotFiles(self.storage, self.layout, self.home.history)

    @property
    def tags(self) -> Tags:
        """The table's tags."""
        return Tags(self.storage, self.layout, self.home.history)

    def branches(self) -> list[str]:
        """Return the names of the branches beside `main`, in order."""
        owner = self.home.history
        return refs.branches(self.storage, self.layout) if owner is None else owner.branches()

    @property
    def consumers(self) -> Consumers:
        """The positions of the readers of streams."""
        return Consumers(self.storage, self.layout)

    @property
    def jobs(self) -> JobRecords:
        """The records of jobs that commit once."""
        return JobRecords(self.storage, self.layout)

    @property
    def changelogs(self) -> Changelogs:
        """The expired snapshots that are kept for their changelog."""
        return Changelogs(self.storage, self.layout)

    @property
    def manifests(self) -> Manifests:
        """The table's manifests and manifest lists."""
        return Manifests(self.storage, self.layout, self.partition_types, self.options)

    @property
    def partition_types(self) -> tuple[DataType, ...]:
        """The types of the partition columns, in partition key order."""
        return self.schema.partition_types

    def partition_values(self, partition: bytes) -> tuple[Value, ...]:
        """Decode a partition row."""
        return _decode(partition, self.partition_types)

    def partition_spec(self, partition: bytes) -> dict[str, str]:
        """Return the text of each value of a partition, by the names of the columns."""
        default_name = self.options.partition_default_name
        values = zip(self.schema.partition_fields, self.partition_values(partition), strict=True)
        return {field.name: default_name if value is None else to_text(value, field.type) for field, value in values}

    def partition_name(self, partition: bytes) -> str:
        """Return a partition as text for messages, such as `day=2026-01-09/hour=7`; empty without partitions."""
        return format_partition_spec(self.partition_spec(partition))

    def partition_counts(self, entries: Iterable[ManifestEntry]) -> list[Partition]:
        """Return what entries add to each partition, in the order in which they come; deleted files count down."""
        grouped: dict[bytes, list[ManifestEntry]] = {}
        for entry in entries:
            grouped.setdefault(entry.partition, []).append(entry)
        return [self._partition(partition, group) for partition, group in grouped.items()]

    def _partition(self, partition: bytes, entries: list[ManifestEntry]) -> Partition:
        signed = [(1 if entry.kind == ADD else -1, entry.file) for entry in entries]
        return Partition(
            spec=self.partition_spec(partition),
            record_count=sum(sign * count_rows([file]) for sign, file in signed),
            file_size_in_bytes=sum(sign * file.file_size for sign, file in signed),
            file_count=sum(sign for sign, _ in signed),
            last_file_creation_time=max(file.creation_time or 0 for _, file in signed),
            total_buckets=entries[0].total_buckets,
        )

    def partition_directory(self, partition: bytes) -> str:
        """Return the partition part of a data file's path, such as `dt=2026-01-01/hour=7`; empty without partitions."""
        if partition == EMPTY_ROW and not self.schema.partition_keys:
            return ""
        options = self.options
        return partition_text(
            self.partition_values(partition),
            self.schema.partition_fields,
            default_name=options.partition_default_name,
            legacy=options.partition_legacy_name,
        )

    def new_data_file(self, place: tuple[bytes, int], name: str, number: int) -> tuple[str, str | None]:
        """Return the path of a new data file, and the same as its external path if it is outside the table.

        `number` counts the files of one writer.
        """
        directory = self.partition_directory(place[0])
        outside = external_paths(self.options) if self.layout.external_directories else None
        if outside is None:
            return f"{self.layout.bucket_directory(directory, place[1])}/{name}", None
        path = self.layout.external_file(directory, place[1], name, number, outside)
        return path, path

    def check_new_files(self) -> None:
        """Raise InvalidInputError or UnsupportedError if the options place new data files where they cannot go."""
        with with_table_name(self.name):
            outside = external_paths(self.options)
        if outside is not None:
            if any(not plain_location(directory).strip("/") for directory in outside.directories):
                raise InvalidInputError(
                    f"{self.name}: the option {TableOptions.data_file_external_paths.key()!r} names the root of the "
                    "file system, which is no place for data files; choose a directory",
                    table=self.name,
                )
            self.layout.check_reachable(outside)

    def with_schema(self, schema: TableSchema) -> TableStore:
        """Return the same table with another schema."""
        return replace(self, schema=schema)


def check_properties(given: object) -> dict[str, str]:
    """Return properties of a snapshot, which are text by text."""
    properties = argument_checks.check_mapping("snapshot_properties", given)
    for key, value in properties.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise argument_checks.argument_error(f"the snapshot property {key!r}", "a text", value)
    return {key: str(value) for key, value in properties.items()}


def format_partition_spec(spec: Mapping[str, str]) -> str:
    """Return a partition spec in one text: `k1=v1/k2=v2`."""
    return "/".join(f"{key}={value}" for key, value in spec.items())


@lru_cache(maxsize=65536)
def _decode(partition: bytes, types: tuple[DataType, ...]) -> tuple[Value, ...]:
    return decode_row(partition, types)


def apply_layout_options(layout: Layout, schema: TableSchema) -> Layout:
    """Return the layout with the directories that the options of a table name."""
    options = schema.table_options
    external = options.data_file_external_paths or ""
    return replace(
        layout,
        data_directory=options.data_file_path_directory,
        index_in_data_directory=options.index_file_in_data_file_dir,
        external_directories=tuple(filter(None, map(str.strip, external.split(",")))),
    )


def _first_digest(store: TableStore) -> str:
    """Return the digest of the first schema: of the branch, or of the table itself where the branch lacks it."""
    for layout in (store.layout, store.layout.for_branch(MAIN_BRANCH)):
        path = layout.schema_file(0)
        try:
            return store.schemas.digest(store.storage.read(path))
        except FileNotFoundError:
            continue
    raise TableNotExistException(
        f"table {store.name}: its first schema is missing at {path}; was the table dropped?",
        table=store.name,
        path=path,
    )
