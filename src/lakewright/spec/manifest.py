"""Entries of manifests, manifest lists and index manifests, and the rule that merges entries into live files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from lakewright.errors import CorruptTableError
from lakewright.spec.datafile import DataFile, IndexFile, SimpleStats

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
