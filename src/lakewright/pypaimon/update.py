"""pypaimon's row changes: its calls in, commit messages out.

Each call plans on the newest snapshot, as in the core; what differs is the shape of arguments, and the casts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import pyarrow as pa

from lakewright.commit.files import delete_written, files_of
from lakewright.commit.message.message import CommitMessage
from lakewright.errors import ColumnNotExistException, InvalidInputError
from lakewright.pypaimon.casts import cast_column, cast_literal, cast_table, drop_unknown
from lakewright.pypaimon.commit import settable
from lakewright.pypaimon.merge import On, check_clauses, prepare_merge
from lakewright.pypaimon.rows import InternalRow, to_table
from lakewright.pypaimon.values.predicate import PredicateBuilder
from lakewright.pypaimon.values.words import ROW_WORDS, speaking
from lakewright.read.builder import ReadBuilder
from lakewright.read.projection import ROW_ID
from lakewright.spec import arguments
from lakewright.spec.options import ConfigOption, CoreOptions
from lakewright.spec.predicate.filters import Filter
from lakewright.spec.snapshot import MAX_LONG
from lakewright.spec.types import DataField
from lakewright.table import update_builder as core
from lakewright.table.table import FileStoreTable
from lakewright.update.find import condition, hidden_fields
from lakewright.update.row_ids import RowIds
from lakewright.update.run import Prepare
from lakewright.update.values import lit, source_col
from lakewright.write.input.frames import ArrowData

Rows: TypeAlias = InternalRow | Iterable[InternalRow]
_ALL = "true"  # the filter that every row fulfils
_CHANGING = (CoreOptions.DATA_EVOLUTION_ENABLED, CoreOptions.ROW_TRACKING_ENABLED)
_DELETING = (*_CHANGING, CoreOptions.DELETION_VECTORS_ENABLED)


class TableUpdate(core.TableUpdate):
    """Changes rows of a table; made by the `new_update()` of a write builder, or by a table and a commit user."""

    def __init__(self, table: FileStoreTable, commit_user: str = "") -> None:
        super().__init__(table.refreshed().store)
        self.table = table
        self.commit_user = commit_user

    @property
    def update_cols(self) -> list[str] | None:
        """The columns of `with_update_type`; None: all of them."""
        chosen = self._update_cols
        return None if chosen is None or len(chosen) == len(self._store.schema.fields) else list(chosen)

    @property
    def projection(self) -> list[str] | None:
        """The columns of `with_read_projection`."""
        return None if self._projection is None else list(self._projection)

    def new_predicate_builder(self) -> PredicateBuilder:
        """Return a builder of predicates on the table's columns."""
        return PredicateBuilder((*self._store.schema.fields, *hidden_fields(self._store)))

    def new_shard_updator(self, shard_num: int, total_shard_count: int) -> ShardTableUpdator:
        """Return a reader and updater of the share of one of several workers; all plan on the newest snapshot."""
        shard = (arguments.whole("shard_num", shard_num), arguments.whole("total_shard_count", total_shard_count))
        return ShardTableUpdator(self.table, self._projection, self._update_cols, self.commit_user, *shard)

    def _prepared(self, prepare: Prepare) -> list[CommitMessage]:
        return settable(super()._prepared(prepare))

    def _delete(self, predicate: Filter | None) -> list[CommitMessage]:
        asked = condition(self._store, predicate).columns()
        if not asked or not asked <= set(self._store.schema.partition_keys):  # whole partitions can always go
            self._require("delete", _DELETING)
        return super()._delete(_ALL if predicate is None else predicate)

    def _delete_ids(self, ids: RowIds) -> list[CommitMessage]:
        self._require("delete", _DELETING)
        return super()._delete_ids(ids)

    def _require(self, verb: str, options: Sequence[ConfigOption[bool]], where: str = "") -> None:
        """Refuse tables that pypaimon refuses: it changes single rows only where these options are set."""
        for option in options:
            if not self._store.options.get(option):
                raise InvalidInputError(
                    f"table {self._store.name}: {verb} requires '{option.key()}' = 'true'{where}: set it when the "
                    "table is created, or use lakewright's own catalog, whose tables do without",
                    table=self._store.name,
                    option=option.key(),
                )

    def _update(
        self, predicate: Filter | None, assignments: Mapping[str, object], read: str | Sequence[str] | None
    ) -> list[CommitMessage]:
        self._require("update_by_predicate", _CHANGING)
        given = arguments.mapping("assignments", assignments)
        self._check_assignments(given, () if read is None else arguments.names("read_columns", read))
        fields = {field.name: field for field in self._store.schema.fields}
        cast = {
            name: cast_column(value, fields[name], self._store.name)
            if isinstance(value, pa.Array | pa.ChunkedArray)
            else self._casting(value, fields[name])
            for name, value in given.items()
        }
        return super()._update(predicate, cast, read)

    def _update_ids(self, data: ArrowData) -> list[CommitMessage]:
        return super()._update_ids(self._cast(data))

    def _upsert(self, data: ArrowData, keys: str | Sequence[str]) -> list[CommitMessage]:
        names = self._upsert_keys("upsert_by_arrow_with_key", keys)
        if not isinstance(data, pa.Table):
            return super()._upsert(data, keys)
        schema = self._store.schema
        self._check_has(data.column_names, names, "upsert_key {0!r} is not in input data columns")
        self._check_has(
            data.column_names,
            schema.partition_keys,
            "For partitioned tables, input data must contain all partition key columns. Missing: {1}",
        )
        if not data.num_rows:
            raise InvalidInputError(f"table {self._store.name}: Input data is empty: there are no rows to upsert")
        rows = cast_table(drop_unknown(data, schema.field_names, self._store.name), schema.fields, self._store.name)
        nulls = any(rows.column(name).null_count for name in names if name in rows.column_names)
        if nulls and not schema.primary_keys and self._store.options.row_tracking_enabled():
            return self._upsert_by_ids(rows, names)
        return super()._upsert(rows, keys)

    def _upsert_by_ids(self, rows: pa.Table, keys: Sequence[str]) -> list[CommitMessage]:
        """Upsert rows with null in their keys, which equals null in pypaimon; the rows are found here, by their ids."""
        names = list(dict.fromkeys((*keys, *self._store.schema.partition_keys)))
        builder = ReadBuilder(self.table.refreshed().store).with_projection([*names, ROW_ID.name])
        stored = builder.new_read().to_arrow(builder.new_scan().plan().splits())
        ids: dict[tuple[object, ...], list[int]] = {}
        for row_id, key in zip(stored.column(ROW_ID.name).to_pylist(), _keys(stored, names), strict=True):
            ids.setdefault(key, []).append(row_id)
        last = {key: at for at, key in enumerate(_keys(rows, names))}
        pairs = [
            (at, row_id) for key, at in sorted(last.items(), key=lambda one: one[1]) for row_id in ids.get(key, [None])
        ]
        source = rows.take(pa.array([at for at, _ in pairs])).append_column(
            ROW_ID.name, pa.array([row_id for _, row_id in pairs], pa.int64())
        )
        chosen = [name for name in self._update_cols or rows.column_names if name not in names]
        inserted = core.WhenNotMatched({name: source_col(name) for name in rows.column_names})
        updated = [core.WhenMatched.update({name: source_col(name) for name in chosen})] if chosen else []
        return super()._merge(source, ROW_ID.name, updated, inserted)

    def _upsert_rows(self, rows: Rows, keys: str | Sequence[str]) -> list[CommitMessage]:
        names = self._upsert_keys("upsert_by_key", keys)
        data = _rows_table(rows, self.table)
        self._check_has(data.column_names, names, "upsert_by_key requires row field(s) {1}, but row only contains")
        return self._upsert(data, keys)

    def _upsert_keys(self, verb: str, keys: str | Sequence[str]) -> tuple[str, ...]:
        self._require(verb, _CHANGING)
        names = tuple(arguments.names("upsert_keys", keys))
        if not names:
            raise InvalidInputError(f"table {self._store.name}: upsert_keys must not be empty: rows are found by them")
        self._check_has(self._store.schema.field_names, names, "upsert_key {0!r} is not in table schema fields")
        return names

    def _check_has(self, columns: Sequence[str], names: Sequence[str], words: str) -> None:
        """Refuse names that are no columns; the words get the first of them and their list."""
        missing = [name for name in names if name not in columns]
        if missing:
            raise ColumnNotExistException(
                f"table {self._store.name}: {words.format(missing[0], missing)}: {', '.join(columns)}",
                table=self._store.name,
                column=missing[0],
            )

    def _merge(
        self,
        source: ArrowData,
        on: On,
        matched: core.WhenMatched | Sequence[core.WhenMatched],
        not_matched: core.WhenNotMatched | Sequence[core.WhenNotMatched],
    ) -> list[CommitMessage]:
        updates = (matched,) if isinstance(matched, core.WhenMatched) else matched
        inserts = (not_matched,) if isinstance(not_matched, core.WhenNotMatched) else not_matched
        check_clauses(updates, inserts)
        deletes = any(each.clause.action == "delete" for each in updates)
        self._require("merge_into", _CHANGING, " on target table")
        self._require("merge_into DELETE", _DELETING if deletes else (), " on target table")
        merge = prepare_merge(self._store, source, on, updates, inserts)
        return super()._merge(merge.source, merge.on, merge.matched, merge.not_matched)

    def _cast(self, data: ArrowData) -> ArrowData:
        return cast_table(data, self._store.schema.fields, self._store.name) if isinstance(data, pa.Table) else data

    def _casting(self, value: object, field: DataField) -> object:
        """Return a value, or a function of the rows, whose result is cast as pypaimon casts it."""
        if not callable(value):
            made = cast_literal(value, field, self._store.name)
            return lit(made) if isinstance(made, str) else made  # text is a literal, whatever it reads as

        def cast(rows: pa.Table) -> pa.Array | pa.ChunkedArray:
            made = value(rows)
            if not isinstance(made, pa.Array | pa.ChunkedArray):
                raise InvalidInputError(
                    f"Callable assignment for {field.name} must return a pyarrow.Array or pyarrow.ChunkedArray, not "
                    f"{type(made).__name__}"
                )
            return cast_column(made, field, self._store.name)

        return cast

    def _check_assignments(self, given: Mapping[str, object], read: Sequence[str]) -> None:
        """Refuse what pypaimon refuses: functions need `read_columns`, and only they do."""
        table, known = self._store.name, self._store.schema.field_names
        if not given:
            raise InvalidInputError(f"table {table}: assignments must not be empty")
        functions = [name for name, value in given.items() if callable(value)]
        arrays = [name for name, value in given.items() if isinstance(value, pa.Array | pa.ChunkedArray)]
        if bool(read) != bool(functions):
            raise InvalidInputError(
                f"table {table}: Callable assignments require read_columns, and read_columns requires a callable "
                "assignment: name the columns that the functions get"
            )
        if functions and arrays:
            raise InvalidInputError(
                f"table {table}: Callable assignments cannot be combined with arrays; the array for {arrays[0]!r} has "
                f"one value for each row, and {functions[0]!r} a function of them"
            )
        self._check_has((*known, ROW_ID.name), read, "Read column {0} is not in table schema")
        self._check_has(known, list(given), "Column {0} is not in table schema")


@speaking(ROW_WORDS)
class BatchTableUpdate(TableUpdate, core.BatchTableUpdate):
    """Changes of a batch write builder; commit the messages with its `new_commit()`."""

    def new_update_by_row_id(self) -> TableUpdateByRowId:
        """Return what gives columns of rows new values, in several calls and one commit."""
        return TableUpdateByRowId(self.table, self.commit_user)

    def update_by_arrow_batches_with_row_id(self, tables: Iterable[pa.Table]) -> list[CommitMessage]:
        """Give rows new values: each table has `_ROW_ID` and the columns to change."""
        updater = self.new_update_by_row_id()
        try:
            for each in _checked_tables(tables, self._store.name):
                updater.update_columns(each, self._update_cols or _but_ids(each))
        except BaseException:
            delete_written(self._store, files_of(self._store, updater.commit_messages))
            raise
        return updater.commit_messages

    def upsert_by_key(self, rows: Rows, upsert_keys: str | Sequence[str]) -> list[CommitMessage]:
        """Upsert rows such as `GenericRow(values, fields)`, as `upsert_by_arrow_with_key` does."""
        return self._upsert_rows(rows, upsert_keys)


@speaking(ROW_WORDS)
class StreamTableUpdate(TableUpdate, core.StreamTableUpdate):
    """Changes of a stream write builder; commit the messages with its `new_commit()` under the same identifier."""

    def new_update_by_row_id(self, commit_identifier: int) -> TableUpdateByRowId:
        """Return what gives columns of rows new values, in several calls and one commit."""
        return TableUpdateByRowId(self.table, self.commit_user, commit_identifier)

    def upsert_by_key(
        self, rows: Rows, upsert_keys: str | Sequence[str], commit_identifier: int
    ) -> list[CommitMessage]:
        """Upsert rows such as `GenericRow(values, fields)`, as `upsert_by_arrow_with_key` does."""
        self._begin(commit_identifier)
        return self._upsert_rows(rows, upsert_keys)


@speaking(ROW_WORDS)
class TableUpdateByRowId:
    """New values for columns of rows by their ids; `commit_messages` are those of all calls so far."""

    FIRST_ROW_ID_COLUMN = "_FIRST_ROW_ID"

    def __init__(self, table: FileStoreTable, commit_user: str = "", commit_identifier: int = MAX_LONG) -> None:
        self.table = table
        self.commit_user = commit_user
        self.commit_identifier = commit_identifier
        snapshot = table.store.snapshots.latest()
        self.snapshot_id = -1 if snapshot is None else snapshot.id
        self.commit_messages: list[CommitMessage] = []

    def update_columns(self, data: pa.Table, column_names: Sequence[str]) -> list[CommitMessage]:
        """Give rows new values in the named columns: `data` has `_ROW_ID` and these columns."""
        names, table = list(dict.fromkeys(column_names)), self.table.name
        if not names:
            raise InvalidInputError(f"table {table}: column_names cannot be empty: name a column to update")
        for name in names:
            if name not in self.table.field_names:
                raise ColumnNotExistException(f"table {table}: Column {name} not found in table schema", column=name)
        update = BatchTableUpdate(self.table, self.commit_user)
        made = update.with_update_type(names).update_by_arrow_with_row_id(data)
        written = {place for message in self.commit_messages for place in _places(message)}
        twice = sorted(place for message in made for place in _places(message) if place in written)
        if twice:
            delete_written(self.table.store, files_of(self.table.store, made))
            first, name = twice[0]
            raise InvalidInputError(
                f"table {table}: Input batches contain overlapping first_row_ids: the column {name!r} of the rows "
                f"from {first} on was given values already; give all of them in one call",
                column=name,
            )
        self.commit_messages += made
        return self.commit_messages

    def update_row_columns(
        self, row: InternalRow, row_ids: Sequence[int], column_names: Sequence[str]
    ) -> list[CommitMessage]:
        """Give all rows with these ids the values of one row."""
        return self.update_rows_columns([row], [row_ids], column_names)

    def update_rows_columns(
        self, rows: Sequence[InternalRow], row_ids_by_row: Sequence[Sequence[int]], column_names: Sequence[str]
    ) -> list[CommitMessage]:
        """Give the rows with the ids of each list the values of one row."""
        if len(rows) != len(row_ids_by_row):
            raise InvalidInputError(
                f"rows and row_ids_by_row must have the same length: {len(rows)} != {len(row_ids_by_row)}"
            )
        ids = [row_id for listed in row_ids_by_row for row_id in listed]
        if not ids:
            return []
        numbers = [at for at, listed in enumerate(row_ids_by_row) for _ in listed]
        values = to_table(rows, self.table.store.schema.fields).take(pa.array(numbers))
        return self.update_columns(values.append_column(ROW_ID.name, pa.array(ids, pa.int64())), column_names)


class TableUpsertByKey:
    """Upserts by columns that the caller names."""

    def __init__(self, table: FileStoreTable, commit_user: str = "", commit_identifier: int = MAX_LONG) -> None:
        self.table = table
        self.commit_user = commit_user
        self.commit_identifier = commit_identifier

    def upsert(
        self, data: pa.Table, upsert_keys: Sequence[str], update_cols: Sequence[str] | None = None
    ) -> list[CommitMessage]:
        """Update the rows that have the keys of the data, and insert the rest of it."""
        return self._update(update_cols).upsert_by_arrow_with_key(data, upsert_keys)

    def upsert_rows(
        self, rows: Rows, upsert_keys: Sequence[str], update_cols: Sequence[str] | None = None
    ) -> list[CommitMessage]:
        """Upsert rows such as `GenericRow(values, fields)`."""
        return self._update(update_cols).upsert_by_key(rows, upsert_keys)

    def _update(self, columns: Sequence[str] | None) -> BatchTableUpdate:
        update = BatchTableUpdate(self.table, self.commit_user)
        return update if columns is None else update.with_update_type(columns)


class TableDeleteByRowId:
    """Deletes rows by their ids."""

    def __init__(self, table: FileStoreTable) -> None:
        self.table = table

    def delete(self, row_ids: RowIds) -> list[CommitMessage]:
        """Delete the rows with these ids."""
        return BatchTableUpdate(self.table).delete_by_row_id(row_ids)


class NoMoreRowsError(InvalidInputError, RuntimeError):
    """A share got more values than it has rows."""


class ShardTableUpdator(core.ShardTableUpdator):
    """Reads the rows of a share of a table and takes new values for them."""

    def __init__(
        self,
        table: FileStoreTable,
        projection: Sequence[str] | None,
        write_cols: Sequence[str] | None,
        commit_user: str = "",
        *shard: int,
    ) -> None:
        index, count = shard or (0, 1)
        super().__init__(table.refreshed().store, (index, count), read=projection, update=write_cols)
        self.table = table
        self.commit_user = commit_user

    def update_by_arrow_batch(self, data: ArrowData) -> None:
        """Take new values for the next rows, in the order in which the reader gave them."""
        try:
            super().update_by_arrow_batch(data)
        except InvalidInputError as error:
            if "came for no row" not in error.message:
                raise
            raise NoMoreRowsError(f"No more row ranges to write: {error}", **error.facts) from error


def merge_into(  # noqa: PLR0913 - pypaimon's signature
    target_table: FileStoreTable,
    source: ArrowData,
    *,
    on: On,
    when_matched: Sequence[core.WhenMatched] = (),
    when_not_matched: Sequence[core.WhenNotMatched] = (),
    commit_user: str,
    commit_identifier: int = MAX_LONG,
) -> list[CommitMessage]:
    """Merge a source into a table and return the messages, which a commit of that table publishes."""
    arguments.whole("commit_identifier", commit_identifier)
    update = BatchTableUpdate(target_table, commit_user)
    return update.merge_into(source, on=on, when_matched=when_matched, when_not_matched=when_not_matched)


def _keys(rows: pa.Table, names: Sequence[str]) -> Iterable[tuple[object, ...]]:
    return zip(*(rows.column(name).to_pylist() for name in names), strict=True)


def _places(message: CommitMessage) -> Iterable[tuple[int, str]]:
    """Return the groups of rows and the columns that the files of a message hold."""
    return ((file.first_row_id or 0, name) for file in message.new_files for name in file.write_cols or ())


def _rows_table(rows: Rows, table: FileStoreTable) -> pa.Table:
    listed = [rows] if isinstance(rows, InternalRow) and not isinstance(rows, list | tuple) else rows
    return to_table(listed, table.store.schema.fields)


def _checked_tables(tables: Iterable[pa.Table], table: str) -> Iterable[pa.Table]:
    for each in tables:
        if not isinstance(each, pa.Table):
            raise InvalidInputError(f"table {table}: give tables of pyarrow, each with {ROW_ID.name}")
        yield each


def _but_ids(data: pa.Table) -> list[str]:
    return [name for name in data.column_names if name != ROW_ID.name]
