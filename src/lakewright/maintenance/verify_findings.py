"""Findings, tasks and reports of a verification."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import Final, TypeAlias, cast

from lakewright.commit.message_encoding import (
    BLOB,
    BUCKET,
    DATA_FILE,
    INDEX_FILE,
    NATURAL,
    TEXT,
    FieldCodec,
    from_bytes,
    integer,
    optional,
    record,
    to_bytes,
    tuple_of,
)
from lakewright.display import HtmlRepr
from lakewright.errors import LakewrightError, NotFoundError
from lakewright.spec.manifest import DataFile, IndexFile

# ---- Findings --------------------------------------------------------------------------------------------------------
# Invariant: a finding names one file or directory of the table; the same fact about the same file is reported
# once; a table is sound if no finding is an error.

ERROR: Final = "error"  # rows are lost or wrong, or an operation that the table needs fails
WARNING: Final = "warning"  # nothing is lost, but something is left over, or wider than it should be
INFO: Final = "info"  # worth knowing; nothing to do
SEVERITIES: Final = (ERROR, WARNING, INFO)

_RESTORE = "restore the file from a copy, or roll back to a snapshot that does not need it (table.rollback_to)"
_FILE_GONE = f"{_RESTORE}, or give up the rows of missing data files with table.remove_unexisting_files()"
_METADATA = (
    "restore the file from a copy, or roll back to the newest snapshot that is sound (table.rollback_to); a damaged "
    "file of a snapshot is given up by deleting it and calling table.repair()"
)
_GAP = (
    "nothing, if a rollback or a writer was cut short: the history begins above the gap; if snapshot files were lost, "
    "restore them from a copy"
)
_REWRITE = "rewrite the rows: overwrite the partition, or roll back to a sound snapshot (table.rollback_to)"

# The severity and the remedy of every kind of finding.
KINDS: Final[dict[str, tuple[str, str]]] = {
    "hint": (INFO, "nothing: readers look again, and the next commit or table.repair() writes it"),
    "snapshot-gap": (WARNING, _GAP),
    "schema-gap": (WARNING, "restore the missing schema file from a copy; nothing that was checked needs it"),
    "missing-schema": (ERROR, "restore the schema file from a copy, or roll back to a snapshot that does not need it"),
    "missing-file": (ERROR, _FILE_GONE),
    "wrong-size": (ERROR, _RESTORE),
    "damaged-file": (ERROR, _RESTORE),
    "damaged-metadata": (ERROR, _METADATA),
    "missing-metadata": (ERROR, _METADATA),
    "outside-table": (ERROR, "remove the entry by a rollback, or let 'data-file.external-paths' name the directory"),
    "manifest-counts": (ERROR, _METADATA),
    "manifest-bounds": (ERROR, _METADATA),
    "snapshot-totals": (ERROR, _METADATA),
    "double-add": (ERROR, _METADATA),
    "deleted-unknown": (ERROR, _METADATA),
    "lost-entries": (ERROR, _METADATA),
    "statistics": (ERROR, "write the statistics anew with ANALYZE, or roll back to a sound snapshot"),
    "row-count": (ERROR, _RESTORE),
    "missing-column": (ERROR, _RESTORE),
    "column-statistics": (ERROR, f"queries may leave out rows: {_REWRITE}"),
    "wide-statistics": (WARNING, "no row is left out, but less is skipped; compaction writes exact bounds"),
    "key-range": (ERROR, f"merges may miss rows: {_REWRITE}"),
    "key-order": (ERROR, f"merges may miss rows: {_REWRITE}"),
    "key-copies": (ERROR, _RESTORE),
    "sequence-range": (ERROR, f"old rows may win: {_REWRITE}"),
    "delete-count": (ERROR, f"deleted rows may come back: {_REWRITE}"),
    "row-kinds": (ERROR, _RESTORE),
    "overlapping-levels": (ERROR, f"merges may miss rows: {_REWRITE}"),
    "wrong-bucket": (ERROR, f"point queries miss rows of other buckets: {_REWRITE}"),
    "wrong-partition": (ERROR, _REWRITE),
    "row-ids": (ERROR, f"changes by row id would hit other rows: {_METADATA}"),
    "deletion-vector": (ERROR, "deleted rows may come back, or others be hidden: restore the index file, or roll back"),
    "dangling-vector": (WARNING, "nothing reads it; compaction of the partition, or overwriting it, removes the entry"),
    "hash-index": (ERROR, "one key may get into two buckets: restore the index file, or overwrite the partition"),
    "index-entries": (ERROR, _METADATA),
    "damaged-tag": (ERROR, "delete the tag (table.delete_tag), or restore its file from a copy"),
    "damaged-branch": (ERROR, "drop the branch (table.drop_branch), or restore its files from a copy"),
    "damaged-consumer": (ERROR, "delete the consumer's file, or let the consumer record its position anew"),
    "consumer": (INFO, "nothing, if the reader begins anew; else reset its position"),
    "orphan": (WARNING, "remove it with table.remove_orphan_files(), once no writer needs it"),
    "orphans-unknown": (INFO, "repair what is named as an error, then verify again"),
    "not-opened": (INFO, "nothing: its existence and size were checked; verify the rest with a program that reads it"),
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, or worth knowing, about one file of a table."""

    kind: str  # one of KINDS
    severity: str  # "error", "warning" or "info"
    path: str
    message: str
    remedy: str


@dataclass(frozen=True, slots=True)
class VerifyResult(HtmlRepr):
    """What a verification found, the worst first, and how much it looked at."""

    findings: tuple[Finding, ...]
    snapshots: int  # snapshots, tags and changelogs
    manifests: int  # manifests, manifest lists and index manifests
    data_files: int  # data, changelog and index files, each once however many snapshots name it
    rows: int  # in the files whose rows were counted
    bytes: int  # of the data files
    seconds: float

    @property
    def is_sound(self) -> bool:
        """Whether no finding is an error."""
        return all(finding.severity != ERROR for finding in self.findings)

    def _shown_facts(self) -> dict[str, object]:
        found = tuple(f"{one.severity} {one.kind}: {one.message}" for one in self.findings)
        facts = {one.name: getattr(self, one.name) for one in fields(self)}
        return {"is_sound": "yes" if self.is_sound else "no", **facts, "findings": found or "none"}


def finding(kind: str, path: str, message: str) -> Finding:
    """Return a finding with the severity and the remedy of its kind."""
    severity, remedy = KINDS[kind]
    return Finding(kind, severity, path, message, remedy)


@dataclass(slots=True)
class Findings:
    """Collects findings, each once, with the files of the states (snapshots, tags) that they were found in."""

    _found: dict[Finding, str | None] = field(default_factory=dict)
    # Set once a file that names others could not be read: then it is unknown which files are in use.
    incomplete: bool = False

    def add(self, kind: str, path: str, message: str, *, state: str | None = None) -> None:
        """Add a finding; `state` is the file of the snapshot, tag or changelog that it was found in."""
        self._found.setdefault(finding(kind, path, message), state)

    def extend(self, findings: Iterable[Finding], *, state: str | None = None) -> None:
        """Add findings that were made elsewhere."""
        for one in findings:
            self._found.setdefault(one, state)

    @contextmanager
    def noting(self, kind: str, path: str, *, state: str | None = None, missing: str | None = None) -> Iterator[None]:
        """Turn an error that damage raises into a finding about a file; errors of the storage pass.

        `missing` is the kind of a file that is gone, if it is another one.
        """
        try:
            yield
        except LakewrightError as error:
            gone = isinstance(error, NotFoundError) or isinstance(error.__cause__, FileNotFoundError)
            self.incomplete = True
            self.add((missing if gone else None) or kind, path, error.message, state=state)
        except OSError as error:
            if not is_damage(error):
                raise
            self.incomplete = True
            self.add(missing or kind, path, f"{path} cannot be read: {error}", state=state)

    def states(self) -> set[str]:
        """Return the files of the states in which something was found."""
        return {state for state in self._found.values() if state is not None}

    def sort_findings(self, *, without: frozenset[str] = frozenset()) -> tuple[Finding, ...]:
        """Return the findings, the worst first, except those of some states."""
        kept = (one for one, state in self._found.items() if state not in without)
        return tuple(sorted(kept, key=lambda f: (SEVERITIES.index(f.severity), f.path, f.kind, f.message)))


def is_damage(error: OSError) -> bool:
    """Return whether an error of the storage is about one file, which is gone or broken, and not about the storage."""
    return isinstance(error, FileNotFoundError | IsADirectoryError | NotADirectoryError) or error.errno == errno.EIO


# ---- Tasks and their reports -----------------------------------------------------------------------------------------
# A task names everything that its worker needs and nothing that is open. A report holds no row, only findings, counts
# and the ranges of row ids that the file holds.

FAST: Final = "fast"  # metadata alone: no data file is opened
FOOTERS: Final = "footers"  # and the footers of data files, and index files
FULL_DEPTH: Final = "full"  # and all rows
DEPTHS: Final = (FAST, FOOTERS, FULL_DEPTH)

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


def _members(**codecs: object) -> Mapping[str, FieldCodec[object]]:
    return cast("Mapping[str, FieldCodec[object]]", codecs)


_FLAG: FieldCodec[bool] = FieldCodec(int, lambda value, place: bool(integer(0, 1).decode(value, place)))
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
