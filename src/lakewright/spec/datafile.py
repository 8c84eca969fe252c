"""The facts of one immutable data or index file, as manifest entries and commit messages record them."""

from __future__ import annotations

from dataclasses import dataclass, replace

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


def renamed(file: DataFile, name: str) -> DataFile:
    """Return a file with another name; one outside the table stays in its directory."""
    external = file.external_path
    path = None if external is None else f"{external.rpartition('/')[0]}/{name}"
    return replace(file, file_name=name, external_path=path)


def is_side_file(file: DataFile) -> bool:
    """Say whether a file holds the large values of one column, apart from the rows: a blob or vector file."""
    return file.file_name.endswith(".blob") or ".vector." in file.file_name


@dataclass(frozen=True, slots=True)
class DeletionRange:
    """Where the deletion vector of one data file lies inside an index file."""

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
