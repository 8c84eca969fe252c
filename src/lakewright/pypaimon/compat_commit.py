"""Commits and their callbacks.

A batch commit commits once. A callback that fails raises out of `commit`, as in pypaimon; the snapshot is published.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, cast

from lakewright.commit import table_commit as core_table_commit
from lakewright.commit.commit_message import CommitMessage
from lakewright.commit.committer import PartitionSpec
from lakewright.errors import InvalidInputError
from lakewright.metadata.table_store import TableStore
from lakewright.pypaimon.compat_errors import ROW_WORDS, OtherPartitionError, translate_errors
from lakewright.pypaimon.compat_values import GenericRow
from lakewright.spec.manifest import DataFile, ManifestEntry
from lakewright.spec.scalars import to_python
from lakewright.spec.snapshot import Snapshot
from lakewright.spec.table_options import TableOptions
from lakewright.spec.types import DataField
from lakewright.table.file_store_table import FileStoreTable

if TYPE_CHECKING:
    from collections.abc import Callable

# Options by which a table asks for a compaction after its commits.
_COMPACTIONS = (
    TableOptions.commit_force_compact,
    TableOptions.full_compaction_delta_commits,
    TableOptions.compaction_optimization_interval,
    TableOptions.num_sorted_run_compaction_trigger,
)


class CommittedOnceError(InvalidInputError, RuntimeError):
    """A batch commit was used a second time; nothing was done."""


@dataclass(frozen=True, slots=True)
class CommitEntry:
    """A data file that a snapshot added (kind 0) or deleted (kind 1)."""

    kind: int
    partition: GenericRow
    bucket: int
    total_buckets: int
    file: DataFile


@dataclass
class CommitCallbackContext:
    """What a callback is told: the snapshot, the files it added and deleted, and the commit identifier."""

    snapshot: Snapshot
    commit_entries: list[CommitEntry]
    identifier: int


class CommitCallback(ABC):
    """Something to call after each published commit. It may be called twice for one commit."""

    @abstractmethod
    def call(self, context: CommitCallbackContext) -> None:
        """Do something about a commit that was published."""

    def close(self) -> None:  # noqa: B027 - most callbacks hold nothing
        """Release what the callback holds."""


class _Names(tuple[str, ...]):
    """Names of columns that also equal a list of them, as pypaimon has it."""

    __slots__ = ()
    __hash__ = tuple.__hash__

    def __eq__(self, other: object) -> bool:
        return super().__eq__(tuple(other) if isinstance(other, list) else other)

    def __repr__(self) -> str:
        return repr(list(self))


class WrittenFile(DataFile):
    """A data file of a commit message, whose facts may be set before the commit: `file.first_row_id = 0`."""

    __slots__ = ()
    __setattr__ = object.__setattr__

    @classmethod
    def of(cls, file: DataFile) -> DataFile:
        """Return a file with the same facts."""
        made = cls(*(getattr(file, fact.name) for fact in fields(DataFile)))
        if made.write_cols is not None:
            made.write_cols = _Names(made.write_cols)  # type: ignore[misc]
        return made


def settable(messages: Sequence[CommitMessage]) -> list[CommitMessage]:
    """Return messages whose new files can be changed, as programs do that number the rows of some columns."""
    return [replace(message, new_files=tuple(map(WrittenFile.of, message.new_files))) for message in messages]


class TableCommit(core_table_commit.TableCommit):
    """Publishes what writers prepared. A write builder sets `table`, `commit_user` and `overwrite_partition`.

    As in pypaimon no compaction follows a commit, so that programs find the snapshot ids they expect, unless the table
    asks for it or shows new rows only then.
    """

    table: FileStoreTable
    commit_user: str
    overwrite_partition: PartitionSpec | None = None

    def __init__(self, store: TableStore, **settings: Any) -> None:  # noqa: ANN401 - those of the core's commits
        super().__init__(store, **settings)
        asked = any(option.key() in store.options.values for option in _COMPACTIONS)
        if not (asked or store.options.hides_level_0 or store.options.needs_lookup):
            self._after_commit = None

    def _tell(self, context: core_table_commit.CommitContext) -> None:
        if not self._callbacks:
            return
        entries = [_entry(self._store, entry) for entry in context.commit_entries]
        told = CommitCallbackContext(context.snapshot, entries, context.identifier)
        for callback in self._callbacks:
            call = callback if callable(callback) else callback.call
            cast("Callable[[CommitCallbackContext], None]", call)(told)


@translate_errors(ROW_WORDS)
class BatchTableCommit(TableCommit, core_table_commit.BatchTableCommit):
    """Commits the messages of batch writes, once."""

    batch_committed = False

    def commit(
        self, commit_messages: Sequence[CommitMessage], snapshot_properties: Mapping[str, str] | None = None
    ) -> core_table_commit.CommitResult:
        """Publish the messages as one snapshot."""
        self._once()
        try:
            return super().commit(commit_messages, snapshot_properties)
        except InvalidInputError as error:
            if "which the overwrite of" not in error.message:
                raise
            raise OtherPartitionError(f"{error} (it does not belong to this partition)", **error.facts) from error

    def truncate_table(self) -> core_table_commit.CommitResult:
        """Remove all rows of the table in one snapshot."""
        self._once()
        return super().truncate_table()

    def truncate_partitions(
        self, partitions: PartitionSpec | Sequence[PartitionSpec]
    ) -> core_table_commit.CommitResult:
        """Remove all rows of some partitions in one snapshot."""
        self._once()
        return super().truncate_partitions(partitions)

    def _once(self) -> None:
        if self.batch_committed:
            raise CommittedOnceError(
                f"{self._store.name}: BatchTableCommit only supports one-time committing; make a new one with "
                "new_commit(), or use a stream commit",
                table=self._store.name,
            )
        self.batch_committed = True


@translate_errors(ROW_WORDS)
class StreamTableCommit(TableCommit, core_table_commit.StreamTableCommit):
    """Commits the messages of one stream under growing identifiers; a commit without messages makes no snapshot."""

    def _ignore_empty(self, *, default: bool) -> bool:
        del default
        return super()._ignore_empty(default=True)


VERSION = 14  # of the bytes that all implementations exchange


def serialize_commit_message(message: CommitMessage, partition_fields: Sequence[DataField]) -> bytes:
    """Return a message as the bytes that all implementations exchange."""
    del partition_fields  # the message has its partition as bytes
    return message.to_java()


def deserialize_commit_message(
    data: bytes,
    partition_fields: Sequence[DataField],
    key_fields: Sequence[DataField] | None = None,
    version: int = VERSION,
) -> CommitMessage:
    """Read a message from the bytes that all implementations exchange."""
    del key_fields  # keys stay bytes
    types = tuple(str(field.type) for field in partition_fields)
    return CommitMessage.from_java(data, version, partition_types=types)


def _entry(store: TableStore, entry: ManifestEntry) -> CommitEntry:
    fields = store.schema.partition_fields
    values = zip(store.partition_values(entry.partition), fields, strict=True)
    row = GenericRow([to_python(value, field.type) for value, field in values], fields)
    return CommitEntry(entry.kind, row, entry.bucket, entry.total_buckets, entry.file)
