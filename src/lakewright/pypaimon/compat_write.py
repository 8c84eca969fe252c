"""Write builders and writers."""

from __future__ import annotations

import uuid
import warnings
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Self, cast

import numpy as np
import pyarrow as pa

from lakewright.commit.commit_message import CommitMessage
from lakewright.errors import ColumnNotExistException, InvalidInputError, LakewrightWarning, UnsupportedError
from lakewright.pypaimon.compat_commit import BatchTableCommit, StreamTableCommit, TableCommit, settable
from lakewright.pypaimon.compat_errors import ROW_WORDS, NullKeyError, PreparedTwiceError, translate_errors
from lakewright.pypaimon.compat_update import BatchTableUpdate, StreamTableUpdate, TableUpdate
from lakewright.pypaimon.compat_values import InternalRow, to_table
from lakewright.spec.arrow_types import to_arrow_schema
from lakewright.spec.table_schema import BucketMode
from lakewright.table import write_builder as core_write_builder
from lakewright.table.file_store_table import FileStoreTable
from lakewright.write.input_data import ArrowData, from_pandas
from lakewright.write.row_intake import RowKinds

if TYPE_CHECKING:
    import pandas as pd

_NUMBERED = (BucketMode.HASH_FIXED, BucketMode.HASH_DYNAMIC)  # the tables whose buckets a caller may choose


class TableWrite(core_write_builder.TableWrite):
    """A writer that takes data as pypaimon does: tables and batches with exactly the columns to write, in their order.

    What pypaimon does not take at all (readers, lists, dicts) is written as lakewright writes it.
    """

    table: FileStoreTable
    commit_user: str
    static_partition: dict[str, object] | None = None

    @property
    def table_pyarrow_schema(self) -> pa.Schema:
        """The columns of the table."""
        return to_arrow_schema(self._store.schema.fields)

    def write_arrow(self, data: ArrowData, bucket: int | None = None, row_kinds: RowKinds | None = None) -> Self:
        """Write a table or a batch; one with other columns or types is an error."""
        if isinstance(data, pa.Table | pa.RecordBatch) and row_kinds is None:
            self._check_columns(data.schema)
        if bucket is not None and self._store.schema.bucket_mode not in _NUMBERED:
            raise InvalidInputError(
                f"table {self._store.name}: Precomputed bucket writes are only valid for HASH_FIXED or HASH_DYNAMIC "
                "tables; leave bucket out",
                table=self._store.name,
            )
        return self._put(data, bucket, row_kinds)

    def _put(self, data: ArrowData, bucket: int | None = None, row_kinds: RowKinds | None = None) -> Self:
        schema, chosen = self._store.schema, self._job.write_cols
        if chosen is not None and schema.primary_keys and len(chosen) < len(schema.fields):
            raise UnsupportedError(
                f"table {self._store.name}: with_write_type is not yet supported on primary-key tables: a row would "
                "lose its other columns; write all of them, or use lakewright's own catalog",
                table=self._store.name,
            )
        try:
            return super().write_arrow(data, bucket, row_kinds)
        except InvalidInputError as error:
            keyed = error.facts.get("column") in self._store.schema.primary_keys
            if not keyed or "a null where the type says NOT NULL" not in error.message:
                raise
            raise NullKeyError(f"Primary key should not be null: {error}", **error.facts) from error

    def write_pandas(self, dataframe: pd.DataFrame) -> Self:
        """Write the columns of a frame that the table has; all of them must be there."""
        written = self._written_schema()
        missing = [name for name in written.names if name not in dataframe.columns]
        if missing:
            raise ColumnNotExistException(
                f"table {self._store.name}: name {missing[0]!r} present in the specified schema is not found in the "
                "columns of the frame",
                table=self._store.name,
                column=missing[0],
            )
        maps = {part.name: dataframe[part.name].map(_pairs) for part in written if pa.types.is_map(part.type)}
        frame = dataframe.assign(**maps) if maps else dataframe
        try:
            rows = pa.Table.from_pandas(frame, written, preserve_index=False)
        except (pa.ArrowException, TypeError, ValueError):
            rows = from_pandas(frame[written.names], self._store.name)  # the write names the column that does not fit
        return self._put(rows)

    def write_row(self, row: InternalRow) -> Self:
        """Write one row. A row that knows its fields is written by their names, another one by position."""
        written = set(self._written_schema().names)
        fields = [field for field in self._store.schema.fields if field.name in written]
        known = getattr(row, "fields", None)
        names = [field.name for field in (self._store.schema.fields if known is None else known)]
        missing = [field.name for field in fields if field.name not in names]
        if missing:
            raise InvalidInputError(
                f"table {self._store.name}: write_row requires row field(s) {missing}, but row only contains {names}",
                table=self._store.name,
            )
        try:
            rows = to_table([row], self._store.schema.fields if known is None else known)
        except IndexError as error:
            raise InvalidInputError(
                "Input schema isn't consistent with table schema and write cols: the row has fewer values than the "
                f"{len(names)} fields {names} of table {self._store.name}",
                table=self._store.name,
            ) from error
        return self._put(rows.select([field.name for field in fields]))

    def abort(self) -> None:
        """Remove what was written and not yet prepared."""
        if self._writer is not None:
            self._writer.close()
        self._writer = None

    def _written_schema(self) -> pa.Schema:
        """Return the columns to write, in the order in which `with_write_type` named them."""
        table, chosen = self.table_pyarrow_schema, self._job.write_cols
        return table if chosen is None else pa.schema([table.field(name) for name in chosen])

    def _check_columns(self, given: pa.Schema) -> None:
        table, chosen = self.table_pyarrow_schema, self._written_schema()
        if _same_columns(given, table) or _same_columns(given, chosen):
            return
        raise InvalidInputError(
            "Input schema isn't consistent with table schema and write cols: names, order and types must be "
            f"those of table {self._store.name}. Input schema is: {given} Table schema is: {table} "
            f"Write cols is: {self._job.write_cols}",
            table=self._store.name,
        )


@translate_errors(ROW_WORDS)
class BatchTableWrite(TableWrite, core_write_builder.BatchTableWrite):
    """A write that is prepared once."""

    def prepare_commit(self) -> list[CommitMessage]:
        """Finish the files and return the messages to commit."""
        if self._prepared:
            raise PreparedTwiceError(
                f"table {self._store.name}: BatchTableWrite only supports one-time committing; make a new writer",
                table=self._store.name,
            )
        return settable(super().prepare_commit())


class PostponeFixedBucketBatchTableWrite(BatchTableWrite, core_write_builder.PostponeFixedBucketBatchTableWrite):
    """A batch write into real buckets."""

    def write_arrow(self, table: ArrowData, bucket: int | None = None) -> Self:  # type: ignore[override] # pypaimon's
        """Write a table or a batch; its rows find their buckets themselves."""
        return super().write_arrow(table, bucket)


@translate_errors(ROW_WORDS)
class StreamTableWrite(TableWrite, core_write_builder.StreamTableWrite):
    """A write that is prepared again and again."""

    def prepare_commit(self, commit_identifier: int) -> list[CommitMessage]:
        """Finish the files so far and return the messages to commit; identifiers that do not grow get a warning."""
        last = self._last_identifier
        if last is not None and commit_identifier <= last:
            warnings.warn(
                f"table {self._store.name}: the identifier {commit_identifier} does not follow {last}, and a commit "
                "under an identifier that the table has already is skipped",
                LakewrightWarning,
                stacklevel=2,
            )
            self._last_identifier = None
        return settable(super().prepare_commit(commit_identifier))


def _pairs(entries: object) -> object:
    """Return the entries of a map, which may be lists of a key and a value, as Arrow takes them."""
    if not isinstance(entries, list | tuple | np.ndarray):
        return entries
    return [tuple(entry) if isinstance(entry, list | np.ndarray) else entry for entry in entries]


def _same_columns(given: pa.Schema, wanted: pa.Schema) -> bool:
    """Return whether two schemas have the same names and types; text and binary may have another width."""
    return given.names == wanted.names and all(
        one == other or _narrow(one) == _narrow(other) for one, other in zip(given.types, wanted.types, strict=True)
    )


def _narrow(dtype: pa.DataType) -> pa.DataType:
    """Return a type with the ordinary kinds of text, binary and seconds inside."""
    if pa.types.is_large_string(dtype):
        return pa.string()
    if pa.types.is_fixed_size_binary(dtype):
        return pa.binary()
    if pa.types.is_timestamp(dtype) and dtype.unit == "s":
        return pa.timestamp("ms", dtype.tz)
    if pa.types.is_time(dtype):
        return pa.time32("ms")
    if pa.types.is_struct(dtype):
        return pa.struct([part.with_type(_narrow(part.type)) for part in dtype])
    if pa.types.is_list(dtype):
        return pa.list_(dtype.value_field.with_type(_narrow(dtype.value_type)))
    if pa.types.is_map(dtype):
        return pa.map_(_narrow(dtype.key_type), dtype.item_field.with_type(_narrow(dtype.item_type)))
    return dtype


class WriteBuilder(ABC):
    """What all write builders share: a table to write to."""

    table: FileStoreTable

    @abstractmethod
    def new_write(self) -> TableWrite:
        """Open a writer."""

    @abstractmethod
    def new_update(self) -> TableUpdate:
        """Return the verbs that change rows of the table."""

    @abstractmethod
    def new_commit(self) -> TableCommit:
        """Open the commit."""


class BatchWriteBuilder(core_write_builder.BatchWriteBuilder, WriteBuilder):
    """Starts batch writes: any number of writers, a commit for each snapshot."""

    _commit_type = BatchTableCommit
    _write_type = BatchTableWrite

    def __init__(self, table: FileStoreTable) -> None:
        super().__init__(table.refreshed().store)
        self.table = table
        self._name = str(uuid.uuid4())

    def new_write(self) -> BatchTableWrite:
        """Open a writer."""
        write = cast("BatchTableWrite", super().new_write())
        write.table, write.commit_user, write.static_partition = self.table, self.commit_user, self._static_partition
        return write

    @property
    def commit_user(self) -> str:
        """The name of the builder. Several commits may come from it, so each is recorded under a name of its own."""
        return self._commit_user or self._name

    @property
    def static_partition(self) -> dict[str, object] | None:
        """What an overwrite replaces; None: the write appends."""
        return self._static_partition

    def new_update(self) -> BatchTableUpdate:
        """Return the verbs that change rows of the table."""
        return BatchTableUpdate(self.table, self.commit_user)

    def new_commit(self) -> BatchTableCommit:
        """Open the commit."""
        commit = cast("BatchTableCommit", super().new_commit())
        commit.table, commit.commit_user, commit.overwrite_partition = (
            self.table,
            self.commit_user,
            self._static_partition,
        )
        return commit


class PostponeFixedBucketWriteBuilder(BatchWriteBuilder, core_write_builder.PostponeFixedBucketWriteBuilder):
    """Starts batch writes into real buckets."""

    _write_type = PostponeFixedBucketBatchTableWrite


class StreamWriteBuilder(core_write_builder.StreamWriteBuilder, WriteBuilder):
    """Starts stream writes: many commits of one user, each with an identifier that grows."""

    _commit_type = StreamTableCommit
    _write_type = StreamTableWrite

    def __init__(self, table: FileStoreTable) -> None:
        super().__init__(table.refreshed().store)
        self.table = table

    def new_write(self) -> StreamTableWrite:
        """Open a writer."""
        write = cast("StreamTableWrite", super().new_write())
        write.table, write.commit_user = self.table, self.commit_user
        return write

    def new_update(self) -> StreamTableUpdate:
        """Return the verbs that change rows of the table."""
        return StreamTableUpdate(self.table, self.commit_user)

    def new_commit(self) -> StreamTableCommit:
        """Open the commit."""
        commit = cast("StreamTableCommit", super().new_commit())
        commit.table, commit.commit_user = self.table, self.commit_user
        return commit
