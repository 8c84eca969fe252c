"""`TableUpdate` and its relatives.

builder = table.new_batch_write_builder()
    messages = builder.new_update().with_update_type(["age"]).update_by_arrow_with_row_id(rows)
    builder.new_commit().commit(messages)

Nothing is visible before the messages are committed. They were planned on the newest snapshot; if another
commit changed the same rows before they are committed, the commit raises `CommitConflictError`: make the change again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

import numpy as np
import pyarrow as pa

from lakewright.commit.commit_changes import delete_files_of, files_of_messages
from lakewright.commit.commit_message import CommitMessage
from lakewright.dml import delete_update, row_ids
from lakewright.dml import file_group_strategy as column_files
from lakewright.dml.assignments import source_col, target_col, without_defaults
from lakewright.dml.merge import merge
from lakewright.dml.merge_clauses import ClauseKind, MergeClause
from lakewright.dml.row_changes import AppliedChanges, ChangeJob, GroupChange, Prepare, PreparedChange, RowPositions
from lakewright.dml.row_ids import NewValues, RowIds
from lakewright.dml.row_location import bind_condition, locate_rows, select_groups, system_fields
from lakewright.dml.upsert import prepare_upsert
from lakewright.errors import ColumnNotExistException, InvalidInputError, UnsupportedError, pluralize, with_table_name
from lakewright.metadata.table_store import TableStore
from lakewright.read.data_split import DataSplit
from lakewright.read.projection import plan_projection
from lakewright.read.split_planning import check_shard
from lakewright.read.split_sharing import stretches
from lakewright.spec import argument_checks
from lakewright.spec.filters import Filter
from lakewright.spec.identifier import quote_identifier
from lakewright.spec.predicate import PredicateBuilder
from lakewright.spec.types import DataField
from lakewright.write.alignment import Aligner
from lakewright.write.input_data import ArrowData, batches_of


@dataclass(frozen=True, slots=True)
class WhenMatched:
    """What a merge does to rows that a row of the source matches; made by `update` or `delete`."""

    clause: MergeClause

    @classmethod
    def update(cls, update: str | Mapping[str, object] = "*", condition: str | None = None) -> WhenMatched:
        """Set columns: all of them from the source (`*`), or those that a mapping names.

        In a mapping the text `s.name` is a column of the source and `t.name` one of the row itself; any other value is
        a literal.
        """
        return cls(MergeClause(ClauseKind.MATCHED, "update", _assignments(update), condition))

    @classmethod
    def delete(cls, condition: str | None = None) -> WhenMatched:
        """Delete the row."""
        return cls(MergeClause(ClauseKind.MATCHED, "delete", None, condition))


@dataclass(frozen=True, slots=True)
class WhenNotMatched:
    """What a merge inserts for rows of the source that match nothing: all columns (`*`), or what a mapping says."""

    insert: str | Mapping[str, object] = "*"
    condition: str | None = None

    @property
    def clause(self) -> MergeClause:
        """The clause of the merge."""
        return MergeClause(ClauseKind.NOT_MATCHED, "insert", _assignments(self.insert), self.condition)


class TableUpdate:
    """Changes rows of the table; every call plans on the newest snapshot and returns messages to commit."""

    def __init__(self, store: TableStore) -> None:
        store.check_changeable(stored_too=True)
        self._store = store
        self._update_cols: tuple[str, ...] | None = None
        self._projection: tuple[str, ...] | None = None

    def with_update_type(self, update_cols: str | Sequence[str]) -> Self:
        """Say which columns change, where the data has more."""
        self._update_cols = _column_names(self._store, update_cols, self._store.schema.fields)
        return self

    def with_read_projection(self, projection: str | Sequence[str]) -> Self:
        """Say which columns the readers of shards give."""
        self._projection = _column_names(
            self._store, projection, (*self._store.schema.fields, *system_fields(self._store))
        )
        return self

    def new_predicate_builder(self) -> PredicateBuilder:
        """Return a builder of predicates on the table's columns."""
        zone = self._store.options.lakewright_time_zone
        return PredicateBuilder((*self._store.schema.fields, *system_fields(self._store)), zone)

    def new_shard_updator(self, shard_num: int, total_shard_count: int) -> ShardTableUpdator:
        """Return a reader and updater of the share of one of several workers; all plan on the newest snapshot."""
        shard = (
            argument_checks.check_int("shard_num", shard_num),
            argument_checks.check_int("total_shard_count", total_shard_count),
        )
        return ShardTableUpdator(self._store, shard, read=self._projection, update=self._update_cols)

    def _prepare_messages(self, prepare: Prepare) -> list[CommitMessage]:
        base = self._store.snapshots.latest()
        with with_table_name(self._store.name):
            return list(prepare(base).planned_on(base))

    def _delete(self, predicate: Filter) -> list[CommitMessage]:
        checked = delete_update.checked_delete(self._store, predicate)
        return self._prepare_messages(partial(delete_update.prepare_delete, self._store, checked))

    def _delete_ids(self, ids: RowIds) -> list[CommitMessage]:
        return self._prepare_messages(partial(row_ids.prepare_delete, self._store, row_ids.to_ids(self._store, ids)))

    def _update_ids(self, data: ArrowData) -> list[CommitMessage]:
        rows = NewValues.of(self._store, data, self._update_cols)
        return self._prepare_messages(partial(row_ids.prepare_update, self._store, rows))

    def _update(
        self, predicate: Filter | None, assignments: Mapping[str, object], read: str | Sequence[str] | None
    ) -> list[CommitMessage]:
        hidden = [field.name for field in system_fields(self._store)[:1]]  # functions may look at `_ROW_ID`
        seen = (
            None
            if read is None
            else tuple(dict.fromkeys((*argument_checks.check_names("read_columns", read), *hidden)))
        )
        checked = delete_update.checked_update(self._store, assignments, seen, in_order=True)
        return self._prepare_messages(
            partial(delete_update.prepare_update, self._store, checked, bind_condition(self._store, predicate)),
        )

    def _upsert(self, data: ArrowData, keys: str | Sequence[str]) -> list[CommitMessage]:
        """Upsert; a row of one partition never matches one of another."""
        named = argument_checks.check_names("upsert_keys", keys)
        if not named:
            raise InvalidInputError(f"table {self._store.name}: name the columns that rows are found by")
        more = [] if self._store.schema.primary_keys else self._store.schema.partition_keys
        names = tuple(dict.fromkeys((*named, *more)))
        return self._prepare_messages(prepare_upsert(self._store, data, names, self._update_cols))

    def _merge(
        self,
        source: ArrowData,
        on: str | Sequence[str] | Mapping[str, str],
        matched: WhenMatched | Sequence[WhenMatched],
        not_matched: WhenNotMatched | Sequence[WhenNotMatched],
    ) -> list[CommitMessage]:
        updates = argument_checks.check_instances("when_matched", matched, WhenMatched, "WhenMatched clauses")
        inserts = argument_checks.check_instances(
            "when_not_matched", not_matched, WhenNotMatched, "WhenNotMatched clauses"
        )
        clauses = (*(each.clause for each in updates), *(each.clause for each in inserts))
        joined = equalities(on) if isinstance(on, Mapping) else on
        begun = merge(self._store, source, joined)
        return self._prepare_messages(replace(begun, clauses=clauses).prepare())


class BatchTableUpdate(TableUpdate):
    """Changes of a batch write builder; commit the messages with its `new_commit()`."""

    def delete_by_predicate(self, predicate: Filter) -> list[CommitMessage]:
        """Delete the rows that fulfil a predicate; the text `true` means all of them."""
        return self._delete(predicate)

    def delete_by_row_id(self, row_ids: RowIds) -> list[CommitMessage]:
        """Delete the rows with these `_ROW_ID`s."""
        return self._delete_ids(row_ids)

    def update_by_arrow_with_row_id(self, table: ArrowData) -> list[CommitMessage]:
        """Give rows new values: `table` has `_ROW_ID` and the columns to change."""
        return self._update_ids(table)

    def update_by_predicate(
        self,
        predicate: Filter | None,
        assignments: Mapping[str, object],
        read_columns: str | Sequence[str] | None = None,
    ) -> list[CommitMessage]:
        """Assign values, or functions of an Arrow table with `read_columns`, to the rows that fulfil a predicate.

        An Arrow array has one value for each of these rows, in the order in which a read with that filter returns them.
        """
        return self._update(predicate, assignments, read_columns)

    def upsert_by_arrow_with_key(self, table: ArrowData, upsert_keys: str | Sequence[str]) -> list[CommitMessage]:
        """Update the rows that have the keys of the data, and insert the rest of it; of equal keys the last counts."""
        return self._upsert(table, upsert_keys)

    def merge_into(
        self,
        source: ArrowData,
        *,
        on: str | Sequence[str] | Mapping[str, str],
        when_matched: WhenMatched | Sequence[WhenMatched] = (),
        when_not_matched: WhenNotMatched | Sequence[WhenNotMatched] = (),
    ) -> list[CommitMessage]:
        """Merge a source into the table; `on` names columns of both, or maps columns of the table to the source's."""
        return self._merge(source, on, when_matched, when_not_matched)


class StreamTableUpdate(TableUpdate):
    """Changes of a stream write builder; commit the messages with its `new_commit()` under the same identifier."""

    def delete_by_predicate(self, predicate: Filter, commit_identifier: int) -> list[CommitMessage]:
        """Delete the rows that fulfil a predicate; the text `true` means all of them."""
        self._begin(commit_identifier)
        return self._delete(predicate)

    def delete_by_row_id(self, row_ids: RowIds, commit_identifier: int) -> list[CommitMessage]:
        """Delete the rows with these `_ROW_ID`s."""
        self._begin(commit_identifier)
        return self._delete_ids(row_ids)

    def update_by_arrow_with_row_id(self, table: ArrowData, commit_identifier: int) -> list[CommitMessage]:
        """Give rows new values: `table` has `_ROW_ID` and the columns to change."""
        self._begin(commit_identifier)
        return self._update_ids(table)

    def update_by_predicate(
        self,
        predicate: Filter | None,
        assignments: Mapping[str, object],
        commit_identifier: int,
        read_columns: str | Sequence[str] | None = None,
    ) -> list[CommitMessage]:
        """Assign values, or functions of an Arrow table with `read_columns`, to the rows that fulfil a predicate.

        An Arrow array has one value for each of these rows, in the order in which a read with that filter returns them.
        """
        self._begin(commit_identifier)
        return self._update(predicate, assignments, read_columns)

    def upsert_by_arrow_with_key(
        self, table: ArrowData, upsert_keys: str | Sequence[str], commit_identifier: int
    ) -> list[CommitMessage]:
        """Update the rows that have the keys of the data, and insert the rest of it; of equal keys the last counts."""
        self._begin(commit_identifier)
        return self._upsert(table, upsert_keys)

    def merge_into(
        self,
        source: ArrowData,
        *,
        on: str | Sequence[str] | Mapping[str, str],
        when_matched: WhenMatched | Sequence[WhenMatched] = (),
        when_not_matched: WhenNotMatched | Sequence[WhenNotMatched] = (),
        commit_identifier: int,
    ) -> list[CommitMessage]:
        """Merge a source into the table; `on` names columns of both, or maps columns of the table to the source's."""
        self._begin(commit_identifier)
        return self._merge(source, on, when_matched, when_not_matched)

    def _begin(self, identifier: int) -> None:
        with with_table_name(self._store.name):
            argument_checks.check_non_negative("commit_identifier", identifier)


class ShardTableUpdator:
    """Reads the rows of a share and takes new values for them, in the order in which they were read.

    The messages of all shares may be committed together, or one after the other. A share is some groups of files.
    Values of a group are written when those of the next one begin, so that no more than one group is held. Rows that
    were never read keep their values; rows that were read all need new ones.
    """

    def __init__(
        self,
        store: TableStore,
        shard: tuple[int, int],
        *,
        read: Sequence[str] | None = None,
        update: Sequence[str] | None = None,
    ) -> None:
        if not store.options.data_evolution_enabled:
            raise UnsupportedError(
                f"table {store.name}: shares can be updated side by side only where columns have files of their own "
                "('data-evolution.enabled'); use update_by_predicate",
                table=store.name,
                option="data-evolution.enabled",
            )
        column_files.check_assignable(store, update or ())
        self._store = store
        self._base = store.snapshots.latest()
        self._job = None if self._base is None else ChangeJob.on(store, self._base)
        self._parts = [] if self._base is None else _share(select_groups(store, self._base), *shard)
        self._read = tuple(store.schema.field_names if read is None else read)
        self._update = None if update is None else tuple(update)
        self._waiting: deque[tuple[int, RowPositions]] = deque()  # rows that were read and have no values yet
        self._group: tuple[int, list[RowPositions], list[pa.Table]] | None = None  # that gets values
        self._applied = AppliedChanges()
        self._done = False

    def arrow_reader(self) -> pa.RecordBatchReader:
        """Return a reader of the share's live rows."""
        projection = plan_projection(self._store.schema.fields, self._read, hidden=system_fields(self._store))
        return pa.RecordBatchReader.from_batches(projection.schema, self._batches())

    def update_by_arrow_batch(self, data: ArrowData) -> None:
        """Take new values for the next rows, in the order in which the reader gave them."""
        for batch in batches_of(data, self._store.name):
            values = self._align_columns(pa.table(batch))
            start = 0
            while start < values.num_rows:
                start += self._take(values.slice(start))

    def prepare_commit(self) -> list[CommitMessage]:
        """Write what is left and return the messages to commit."""
        if self._waiting and (self._group is not None or self._applied.updated):
            left = sum(len(positions) for _, positions in self._waiting)
            raise InvalidInputError(
                f"table {self._store.name}: {pluralize(left, 'row')} of those that were read got no values; give "
                "every row that was read its values, changed or not",
                table=self._store.name,
            )
        self._write_group()
        self._done = True
        if self._job is None:
            return []
        prepared = PreparedChange(self._applied.messages, reads=self._read)
        return list(prepared.planned_on(self._base))

    def close(self) -> None:
        """Remove the files of a share that was not prepared."""
        if not self._done:
            delete_files_of(self._store, files_of_messages(self._store, self._applied.messages))
            self._done = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _batches(self) -> Iterator[pa.RecordBatch]:
        for number, part in enumerate(self._parts):
            for located in locate_rows(self._store, part, self._read):
                self._waiting.append((number, located.positions))
                yield located.rows

    def _align_columns(self, data: pa.Table) -> pa.Table:
        """Return the columns to update of new values, in the table's types."""
        if self._update is None:
            self._update = _column_names(self._store, data.column_names, self._store.schema.fields)
            column_files.check_assignable(self._store, self._update)
        missing = [name for name in self._update if name not in data.column_names]
        if missing:
            raise InvalidInputError(
                f"table {self._store.name}: the new values lack the column {missing[0]!r}", column=missing[0]
            )
        fields = without_defaults(field for field in self._store.schema.fields if field.name in self._update)
        return Aligner(fields, table=self._store.name).align(data.select([field.name for field in fields]))

    def _take(self, values: pa.Table) -> int:
        """Put values at the next rows that wait for them, of one group; return how many they were."""
        if not self._waiting:
            raise InvalidInputError(
                f"table {self._store.name}: {pluralize(values.num_rows, 'value')} came for no row that was read; "
                "give as many as rows were read",
                table=self._store.name,
            )
        number, positions = self._waiting.popleft()
        rows = min(len(positions), int(values.num_rows))
        if rows < len(positions):
            self._waiting.appendleft((number, positions[rows:]))
        if self._group is None or self._group[0] != number:
            self._write_group()
            self._group = number, [], []
        self._group[1].append(positions[:rows])
        self._group[2].append(values.slice(0, rows))
        return rows

    def _write_group(self) -> None:
        if self._group is None or self._job is None:
            return
        number, positions, values = self._group
        self._group = None
        change = GroupChange(
            self._parts[number], updated=np.concatenate(positions), values=pa.concat_tables(values).combine_chunks()
        )
        self._applied += column_files.apply_columns(self._job, [change], number)


def _share(parts: Sequence[DataSplit], index: int, count: int) -> list[DataSplit]:
    """Return the groups of one of several shares: neighbours, so that the largest share is as small as it can be."""
    check_shard(index, count)
    return [parts[at] for at in stretches([part.row_count for part in parts], count)[index]]


def _column_names(store: TableStore, given: object, fields: Sequence[DataField]) -> tuple[str, ...]:
    """Return the names of columns as given; raise ColumnNotExistException for one that the table lacks."""
    known, names = [field.name for field in fields], argument_checks.check_names("columns", given)
    for name in names:
        if name not in known:
            raise ColumnNotExistException(
                f"table {store.name}: {name!r} is not in table schema; {argument_checks.suggest_name(name, known)}",
                table=store.name,
                column=name,
            )
    if not names:
        raise InvalidInputError(f"table {store.name}: name at least one column", table=store.name)
    return names


def _assignments(given: str | Mapping[str, object]) -> Mapping[str, object] | None:
    """Return assignments as our merge takes them: None for all columns, texts such as `s.name` as columns."""
    if isinstance(given, str) and given == "*":
        return None
    if not isinstance(given, Mapping):
        raise argument_checks.argument_error("a clause", "'*' for all columns, or a dict of columns and values", given)
    return {name: _column_or_value(value) for name, value in argument_checks.check_mapping("a clause", given).items()}


def _column_or_value(value: object) -> object:
    if isinstance(value, str) and value.startswith("s."):
        return source_col(value.removeprefix("s."))
    if isinstance(value, str) and value.startswith("t."):
        return target_col(value.removeprefix("t."))
    return value


def equalities(on: Mapping[str, str]) -> str:
    """Return the condition of a merge for pairs of columns, of the target and of the source."""
    pairs = [
        (target, argument_checks.check_text("on", source))
        for target, source in argument_checks.check_mapping("on", on).items()
    ]
    return " AND ".join(f"t.{quote_identifier(target)} = s.{quote_identifier(source)}" for target, source in pairs)
