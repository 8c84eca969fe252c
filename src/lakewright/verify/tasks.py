"""The check of one file as a value: what its manifest entry says in, a report out; both can travel to a worker.

A task names everything that its worker needs and nothing that is open. A report holds no row, only findings, counts and
the ranges of row ids that the file holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias, cast

from lakewright.commit.message.body import (
    BLOB,
    BUCKET,
    DATA_FILE,
    INDEX_FILE,
    NATURAL,
    TEXT,
    Codec,
    from_bytes,
    integer,
    optional,
    record,
    to_bytes,
    tuple_of,
)
from lakewright.spec.datafile import DataFile, IndexFile
from lakewright.verify.findings import Finding

FAST: Final = "fast"  # metadata alone: no data file is opened
FOOTERS: Final = "footers"  # and the footers of data files, and index files
FULL: Final = "full"  # and all rows
DEPTHS: Final = (FAST, FOOTERS, FULL)

IdRun: TypeAlias = tuple[int, int, int]  # so many rows from a position on have ids from a first one on


@dataclass(frozen=True, slots=True)
class FileTask:
    """The check of one data or changelog file."""

    branch: str
    partition: bytes
    bucket: int
    total_buckets: int
    file: DataFile
    is_changelog: bool = False
    hash_index: IndexFile | None = None  # of the bucket, if keys are looked up in one

    def serialize(self) -> bytes:
        """Return the task as bytes that `deserialize` checks."""
        return to_bytes(self, _TASK)

    @classmethod
    def deserialize(cls, data: bytes) -> FileTask:
        """Read a task."""
        return from_bytes(data, _TASK)


@dataclass(frozen=True, slots=True)
class FileReport:
    """What the check of a file found."""

    findings: tuple[Finding, ...] = ()
    rows: int = 0  # that were counted
    file_bytes: int = 0
    id_runs: tuple[IdRun, ...] = ()  # of a file that holds the row ids itself

    def serialize(self) -> bytes:
        """Return the report as bytes that `deserialize` checks."""
        return to_bytes(self, _REPORT)

    @classmethod
    def deserialize(cls, data: bytes) -> FileReport:
        """Read a report."""
        return from_bytes(data, _REPORT)


def _members(**codecs: object) -> Mapping[str, Codec[object]]:
    return cast("Mapping[str, Codec[object]]", codecs)


_FLAG: Codec[bool] = Codec(int, lambda value, place: bool(integer(0, 1).decode(value, place)))
_TASK = record(
    FileTask,
    _members(
        branch=TEXT,
        partition=BLOB,
        bucket=BUCKET,
        total_buckets=BUCKET,
        file=DATA_FILE,
        is_changelog=_FLAG,
        hash_index=optional(INDEX_FILE),
    ),
)
_FINDING = record(Finding, _members(kind=TEXT, severity=TEXT, path=TEXT, message=TEXT, remedy=TEXT))
_REPORT = record(
    FileReport,
    _members(findings=tuple_of(_FINDING), rows=NATURAL, file_bytes=NATURAL, id_runs=tuple_of(tuple_of(NATURAL))),
)
