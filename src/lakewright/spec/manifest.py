"""`DataFile`, `IndexFile`, manifest entries, manifest files; entries merged into live files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from lakewright.errors import CorruptTableError

# ---- Data and index files --------------------------------------------------------------------------------------------

EMPTY_ROW = bytes(12)  # the serialised BinaryRow of arity 0
APPEND = 0  # _FILE_SOURCE of files written by users
COMPACT = 1  # _FILE_SOURCE of files written by compaction


@dataclass(frozen=True, slots=True)
class SimpleStats:
    """Bounds and null counts of some columns.

    The two rows are serialised BinaryRows (arity prefix included) of equal arity; a null bound is an unknown bound, and
    so is a null count of None.
    """

    min_values: bytes = EMPTY_ROW
    max_values: bytes = EMPTY_ROW
    null_counts: tuple[int | None, ...] = ()


EMPTY_STATS = SimpleStats()


@dataclass(frozen=True, slots=True)
class DataFile:
    """One immutable file of rows, field by field as the format names them."""

    file_name: str
    file_size: int
    row_count: int
    min_key: bytes
    max_key: bytes
    key_stats: SimpleStats
    value_stats: SimpleStats
    min_sequence_number: int
    max_sequence_number: int
    schema_id: int
    level: int  # 0 is fresh from a writer and may overlap its neighbours
    extra_files: tuple[str, ...]
    creation_time: int | None  # milliseconds; writers disagree on the zone, so it is only a hint
    delete_row_count: int | None  # rows of kind -U or -D; None counts as 0
    embedded_file_index: bytes | None
    file_source: int | None  # APPEND or COMPACT
    value_stats_cols: tuple[str, ...] | None  # None: all columns; (): no statistics
    external_path: str | None
    first_row_id: int | None
    write_cols: tuple[str, ...] | None  # None: all columns of the schema
    write_cols_sequences: tuple[int, ...] | None = None


def with_file_name(file: DataFile, name: str) -> DataFile:
    """Return a file with another name; one outside the table stays in its directory."""
    external = file.external_path
    path = None if external is None else f"{external.rpartition('/')[0]}/{name}"
    return replace(file, file_name=name, external_path=path)


def is_side_file(file: DataFile) -> bool:
    """Return whether a file holds BLOB or VECTOR columns of rows whose other columns are in normal files."""
    return is_blob_file(file) or ".vector." in file.file_name


def count_rows(files: Iterable[DataFile]) -> int:
    """Return how many rows files hold; BLOB and VECTOR files hold columns of rows that are counted already."""
    return sum(file.row_count for file in files if not is_side_file(file))


def is_blob_file(file: DataFile) -> bool:
    """Return whether a file holds the values of one BLOB column."""
    return file.file_name.endswith(".blob")


@dataclass(frozen=True, slots=True)
class DeletionRange:
    """Where the deletion vector of one data file is inside an index file."""

    data_file: str
    offset: int
    length: int
    cardinality: int | None


@dataclass(frozen=True, slots=True)
class GlobalIndex:
    """The part of an index entry that only global indexes have."""

    row_range_start: int
    row_range_end: int
    index_field_id: int
    extra_field_ids: tuple[int, ...] | None
    index_meta: bytes | None
    source_meta: bytes | None


@dataclass(frozen=True, slots=True)
class IndexFile:
    """One index file: key hashes of a dynamic bucket, deletion vectors, or a global index."""

    index_type: str
    file_name: str
    file_size: int
    row_count: int
    deletion_ranges: tuple[DeletionRange, ...] | None = None
    external_path: str | None = None
    global_index: GlobalIndex | None = None


HASH = "HASH"
DELETION_VECTORS = "DELETION_VECTORS"


# ---- Manifest entries ------------------------------------------------------------------------------------------------

ADD = 0
DELETE = 1

FileIdentity: TypeAlias = tuple[bytes, int, int, str, tuple[str, ...], bytes | None, str | None]


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """A data file added to, or deleted from, one bucket of one partition."""

    kind: int  # ADD or DELETE
    partition: bytes  # serialised BinaryRow, in Java's form, so that equal partitions have equal bytes
    bucket: int
    total_buckets: int
    file: DataFile

    @property
    def identity(self) -> FileIdentity:
        """Equal for two entries of the same file. It includes the level, because an upgrade keeps the file's name."""
        f = self.file
        return (
            self.partition,
            self.bucket,
            f.level,
            f.file_name,
            f.extra_files,
            f.embedded_file_index,
            f.external_path,
        )


@dataclass(frozen=True, slots=True)
class Partition:
    """What the files of one partition hold, or what a commit adds to it: counts may then be below zero."""

    spec: Mapping[str, str]
    record_count: int
    file_size_in_bytes: int
    file_count: int
    last_file_creation_time: int
    total_buckets: int


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """One record of a manifest list: a manifest file, and counts and bounds of its entries."""

    file_name: str
    file_size: int
    num_added_files: int
    num_deleted_files: int
    partition_stats: SimpleStats
    schema_id: int
    min_bucket: int | None = None
    max_bucket: int | None = None
    min_level: int | None = None
    max_level: int | None = None
    min_row_id: int | None = None
    max_row_id: int | None = None


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One record of an index manifest, which always lists all live index files."""

    kind: int
    partition: bytes
    bucket: int
    file: IndexFile


def merge_entries(entries: Iterable[ManifestEntry]) -> list[ManifestEntry]:
    """Remove each DELETE together with the ADD before it; the remaining entries keep their order.

    A DELETE whose ADD is in an older manifest stays, so that some of the manifests can be merged without the others.
    """
    left: dict[FileIdentity, ManifestEntry] = {}
    for entry in entries:
        identity = entry.identity
        if entry.kind == ADD:
            if identity in left:
                raise CorruptTableError(
                    f"the manifests add the data file {entry.file.file_name} twice", files=(entry.file.file_name,)
                )
            left[identity] = entry
        elif identity in left:
            del left[identity]
        else:
            left[identity] = entry
    return list(left.values())
