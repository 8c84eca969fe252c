"""Row changes and merge."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, TypeVar, cast

import pyarrow as pa

from lakewright.commit.commit_changes import delete_files_of, files_of_messages
from lakewright.commit.commit_message import CommitMessage
from lakewright.dml.assignments import ColumnRef, LiteralValue, MergeSide, lit, source_col, target_col
from lakewright.dml.merge_clauses import MergeClause
from lakewright.dml.row_changes import Prepare
from lakewright.dml.row_ids import RowIds
from lakewright.dml.row_location import bind_condition, system_fields
from lakewright.errors import ColumnNotExistException, InvalidInputError, UnsupportedError
from lakewright.metadata.table_store import TableStore
from lakewright.pypaimon.compat_commit import settable
from lakewright.pypaimon.compat_errors import ROW_WORDS, translate_errors
from lakewright.pypaimon.compat_predicates import (
    PredicateBuilder,
    SqlText,
    cast_column,
    cast_columns,
    cast_literal,
    cast_table,
    drop_unknown,
)
from lakewright.pypaimon.compat_values import InternalRow, to_table
from lakewright.read.read_builder import ReadBuilder
from lakewright.spec import argument_checks
from lakewright.spec.filters import Filter
from lakewright.spec.option_values import ConfigOption
from lakewright.spec.snapshot import MAX_LONG
from lakewright.spec.system_columns import ROW_ID
from lakewright.spec.table_options import TableOptions
from lakewright.spec.types import DataField
from lakewright.table import file_store_table as tables
from lakewright.table import update_builder as core_update_builder
from lakewright.table.file_store_table import FileStoreTable
from lakewright.write.input_data import ArrowData

# ---- Merge -----------------------------------------------------------------------------------------------------------

_NAMES_A_SIDE = re.compile(r"\s*(s|t|source|target)\.", re.IGNORECASE)
SetSpec: TypeAlias = str | Mapping[str, object]
_Text = TypeVar("_Text")
On: TypeAlias = str | Sequence[str] | Mapping[str, str]


class WrongTypeError(InvalidInputError, TypeError):
    """A value of another type than the call takes."""


class WhenMatched(core_update_builder.WhenMatched):
    """What a merge does to rows that match: `WhenMatched.update("*")` or `WhenMatched.delete()`.

    On an object, `update` is what it sets (None where it deletes) and `delete` says whether it deletes.

    >>> clause = WhenMatched.update({"n": "s.n"}, condition="s.n > 0")
    >>> clause.update, clause.delete, clause.condition
    ({'n': 's.n'}, False, 's.n > 0')
    """

    def __init__(self, action: str, *, update: SetSpec | None = None, condition: str | None = None) -> None:
        if action not in {"update", "delete"}:
            raise InvalidInputError(f"a WhenMatched action must be 'update' or 'delete', not {action!r}")
        if action == "update" and update is None:
            raise InvalidInputError("WhenMatched.update requires an update spec: say what it sets")
        if action == "delete" and update is not None:
            raise InvalidInputError("WhenMatched.delete must not specify update: it sets nothing")
        # These names are methods of the class, as in pypaimon; on an object they are what it was made with.
        self.__dict__.update(update=update, condition=condition, delete=action == "delete")

    @classmethod
    def update(cls, update: SetSpec = "*", condition: str | None = None) -> WhenMatched:
        """Set columns: all of them from the source (`*`), or those that a mapping names."""
        return cls("update", update=update, condition=condition)

    @classmethod
    def delete(cls, condition: str | None = None) -> WhenMatched:
        """Delete the row."""
        return cls("delete", condition=condition)

    @property
    def assigned(self) -> SetSpec | None:
        """What the clause sets; None: it deletes."""
        given: SetSpec | None = self.__dict__["update"]
        return given

    @property
    def clause(self) -> MergeClause:
        """The clause of the merge, made when that begins, so that a wrong one fails there."""
        condition = self.__dict__["condition"]
        given = self.assigned
        return (
            core_update_builder.WhenMatched.delete(condition)
            if given is None
            else core_update_builder.WhenMatched.update(given, condition)
        ).clause

    def __repr__(self) -> str:
        return f"WhenMatched({self.__dict__})"


@dataclass(frozen=True, slots=True)
class CompatMerge:
    """A merge in the shapes that the core takes."""

    source: ArrowData
    on: Mapping[str, str]
    matched: tuple[core_update_builder.WhenMatched, ...]
    not_matched: tuple[core_update_builder.WhenNotMatched, ...]


def prepare_merge(
    store: TableStore,
    source: object,
    on: On,
    when_matched: Sequence[core_update_builder.WhenMatched],
    when_not_matched: Sequence[core_update_builder.WhenNotMatched],
) -> CompatMerge:
    """Check a merge as pypaimon does and return it as the core takes it."""
    updates = argument_checks.check_instances(
        "when_matched", when_matched, core_update_builder.WhenMatched, "WhenMatched clauses"
    )
    inserts = argument_checks.check_instances(
        "when_not_matched", when_not_matched, core_update_builder.WhenNotMatched, "WhenNotMatched clauses"
    )
    joined = _pairs(on)
    data = _source(store, source, joined, inserts=bool(inserts))
    fields = {field.name: field for field in store.schema.fields}
    matched = tuple(_update(each, joined, fields, store.name) for each in updates)
    _check_partitions(store, (*updates, *matched))
    not_matched = tuple(_insert(each, joined, fields, store.name) for each in inserts)
    taken = {source_name: fields[name] for name, source_name in _from_source(matched, not_matched) if name in fields}
    return CompatMerge(_cast(data, taken, store.name), joined, matched, not_matched)


def _pairs(on: On) -> dict[str, str]:
    """Return the columns to join by: of the target, and the source's for each."""
    if isinstance(on, Mapping):
        pairs = {
            name: argument_checks.check_text("on", source)
            for name, source in argument_checks.check_mapping("on", on).items()
        }
    else:
        pairs = {name: name for name in argument_checks.check_names("on", on)}
    if not pairs:
        raise InvalidInputError("'on' must not be empty: name the columns that the source and the table are joined by")
    return pairs


def check_clauses(
    when_matched: Sequence[core_update_builder.WhenMatched],
    when_not_matched: Sequence[core_update_builder.WhenNotMatched],
) -> None:
    """Refuse no clauses at all, and clauses that never apply because of one before them."""
    updates = argument_checks.check_instances(
        "when_matched", when_matched, core_update_builder.WhenMatched, "WhenMatched clauses"
    )
    inserts = argument_checks.check_instances(
        "when_not_matched", when_not_matched, core_update_builder.WhenNotMatched, "WhenNotMatched clauses"
    )
    if not updates and not inserts:
        raise InvalidInputError("At least one of when_matched or when_not_matched must be non-empty.")
    _check_conditions("when_matched", [each.clause.condition for each in updates])
    _check_conditions("when_not_matched", [each.condition for each in inserts])


def _check_partitions(store: TableStore, matched: Sequence[core_update_builder.WhenMatched]) -> None:
    """Refuse clauses that set partition columns; `*` sets them too."""
    clauses = [each.clause for each in matched if each.clause.action != "delete"]
    columns = store.schema.field_names
    moved = {name for each in clauses for name in _set(each, columns)} & set(store.schema.partition_keys)
    if moved:
        raise UnsupportedError(
            f"table {store.name}: merge_into does not support updating partition columns {sorted(moved)}: rows of a "
            "table with data evolution stay in their partition; delete them and write them again",
            table=store.name,
        )


def _set(clause: MergeClause, columns: Sequence[str]) -> Iterator[str]:
    """Yield the columns that a clause changes: not those that it sets to what they are."""
    given = dict.fromkeys(columns) if clause.assignments is None else clause.assignments
    return (name for name, value in given.items() if value != target_col(name))


def _check_conditions(kind: str, conditions: Sequence[object]) -> None:
    for at, condition in enumerate(conditions[:-1]):
        if condition is None:
            raise InvalidInputError(
                f"Only the last {kind} clause may omit its condition: the clauses after clause {at} would never apply"
            )


def _source(store: TableStore, source: object, on: Mapping[str, str], *, inserts: bool) -> ArrowData:
    """Return the rows of a source; a table that is joined by row ids is read with them."""
    if isinstance(source, tables.FileStoreTable):
        if ROW_ID.name not in on.values():
            return source
        if inserts and source.store.layout == store.layout:
            raise InvalidInputError(
                f"table {store.name}: a merge of a table with itself by {ROW_ID.name} matches every row, so it does "
                "not support WHEN NOT MATCHED clauses"
            )
        builder = source.new_read_builder().with_projection([*source.store.schema.field_names, ROW_ID.name])
        return cast("ArrowData", builder.new_read().to_arrow(builder.new_scan().plan().splits()))
    if source is None or isinstance(source, str | bytes | int | float | Mapping | list | tuple):
        raise WrongTypeError(
            f"the source must be a pyarrow.Table, a pandas.DataFrame or a Paimon table, not {type(source).__name__}"
        )
    return cast("ArrowData", source)  # the core says what else it cannot be


def _update(
    given: core_update_builder.WhenMatched, on: Mapping[str, str], columns: Mapping[str, DataField], table: str
) -> core_update_builder.WhenMatched:
    """Return a clause with assignments: `*` sets every column but those that are joined by, which are equal."""
    clause = replace(given.clause, condition=_sql(given.clause.condition))
    if clause.action == "delete":
        return core_update_builder.WhenMatched(clause)
    if clause.assignments is None:
        chosen = [name for name in columns if name not in on] or list(columns)
        given_all = {name: source_col(on.get(name, name)) for name in chosen}
        return core_update_builder.WhenMatched(replace(clause, assignments=given_all))
    checked = _cast_assignments(clause.assignments, columns, table)
    kept = {name: value for name, value in checked.items() if value != target_col(name)}
    return core_update_builder.WhenMatched(replace(clause, assignments=kept or checked))


def _insert(
    given: core_update_builder.WhenNotMatched, on: Mapping[str, str], columns: Mapping[str, DataField], table: str
) -> core_update_builder.WhenNotMatched:
    """Return a clause with assignments: `*` sets every column, and all of them must be in the source."""
    assignments = given.clause.assignments
    if assignments is None:
        assignments = {name: source_col(on.get(name, name)) for name in columns}
    checked = _cast_assignments(assignments, columns, table)
    for name, value in checked.items():
        if isinstance(value, ColumnRef) and value.side is MergeSide.TARGET:
            raise InvalidInputError(
                f"INSERT spec must not reference target columns (t.*), but {name!r} comes from 't.{value.name}'"
            )
    return core_update_builder.WhenNotMatched(checked, _sql(given.condition))


def _sql(condition: _Text) -> _Text | SqlText:
    """Return a condition that may compute."""
    return SqlText(condition) if isinstance(condition, str) else condition


def _cast_assignments(
    assignments: Mapping[str, object], columns: Mapping[str, DataField], table: str
) -> Mapping[str, object]:
    """Return assignments with literals as pypaimon casts them; functions are refused."""
    if not assignments:
        raise InvalidInputError("a clause must not be empty: say which columns it sets")
    for name, value in assignments.items():
        if callable(value) and not isinstance(value, type):
            raise WrongTypeError(
                f"the column {name!r} of a merge takes source_col(), target_col(), lit() or a literal, not a function"
            )
    return {name: _literal(value, columns.get(name), table) for name, value in assignments.items()}


def _literal(value: object, field: DataField | None, table: str) -> object:
    if field is None or isinstance(value, ColumnRef):
        return value
    made = cast_literal(value.value if isinstance(value, LiteralValue) else value, field, table)
    # Text is a literal in pypaimon; only what names a column of a side is refused, unless it is given as lit().
    is_literal = isinstance(value, LiteralValue) or (isinstance(made, str) and not _NAMES_A_SIDE.match(made))
    return lit(made) if is_literal and not isinstance(made, LiteralValue) else made


def _from_source(
    matched: Sequence[core_update_builder.WhenMatched], not_matched: Sequence[core_update_builder.WhenNotMatched]
) -> Iterator[tuple[str, str]]:
    """Yield the columns of the table that take a column of the source, and that column."""
    for clause in (*(each.clause for each in matched), *(each.clause for each in not_matched)):
        for name, value in (clause.assignments or {}).items():
            if isinstance(value, ColumnRef) and value.side is MergeSide.SOURCE:
                yield name, value.name


def _cast(source: ArrowData, fields: Mapping[str, DataField], table: str) -> ArrowData:
    return cast_columns(source, fields, table) if isinstance(source, pa.Table) else source


# ---- Row changes -----------------------------------------------------------------------------------------------------
# Each call plans on the newest snapshot, as in the core; what differs is the shape of arguments, and the casts.

Rows: TypeAlias = InternalRow | Iterable[InternalRow]
_ALL = "true"  # the filter that every row fulfils
_CHANGING = (TableOptions.data_evolution_enabled, TableOptions.row_tracking_enabled)
_DELETING = (*_CHANGING, TableOptions.deletion_vectors_enabled)


class TableUpdate(core_update_builder.TableUpdate):
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
        return PredicateBuilder((*self._store.schema.fields, *system_fields(self._store)))

    def new_shard_updator(self, shard_num: int, total_shard_count: int) -> ShardTableUpdator:
        """Return a reader and updater of the share of one of several workers; all plan on the newest snapshot."""
        shard = (
            argument_checks.check_int("shard_num", shard_num),
            argument_checks.check_int("total_shard_count", total_shard_count),
        )
        return ShardTableUpdator(self.table, self._projection, self._update_cols, self.commit_user, *shard)

    def _prepare_messages(self, prepare: Prepare) -> list[CommitMessage]:
        return settable(super()._prepare_messages(prepare))

    def _delete(self, predicate: Filter | None) -> list[CommitMessage]:
        asked = bind_condition(self._store, predicate).columns()
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
        given = argument_checks.check_mapping("assignments", assignments)
        self._check_assignments(given, () if read is None else argument_checks.check_names("read_columns", read))
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
        if nulls and not schema.primary_keys and self._store.options.row_tracking_enabled:
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
        inserted = core_update_builder.WhenNotMatched({name: source_col(name) for name in rows.column_names})
        updated = (
            [core_update_builder.WhenMatched.update({name: source_col(name) for name in chosen})] if chosen else []
        )
        return super()._merge(source, ROW_ID.name, updated, inserted)

    def _upsert_rows(self, rows: Rows, keys: str | Sequence[str]) -> list[CommitMessage]:
        names = self._upsert_keys("upsert_by_key", keys)
        data = _rows_table(rows, self.table)
        self._check_has(data.column_names, names, "upsert_by_key requires row field(s) {1}, but row only contains")
        return self._upsert(data, keys)

    def _upsert_keys(self, verb: str, keys: str | Sequence[str]) -> tuple[str, ...]:
        self._require(verb, _CHANGING)
        names = tuple(argument_checks.check_names("upsert_keys", keys))
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
        matched: core_update_builder.WhenMatched | Sequence[core_update_builder.WhenMatched],
        not_matched: core_update_builder.WhenNotMatched | Sequence[core_update_builder.WhenNotMatched],
    ) -> list[CommitMessage]:
        updates = (matched,) if isinstance(matched, core_update_builder.WhenMatched) else matched
        inserts = (not_matched,) if isinstance(not_matched, core_update_builder.WhenNotMatched) else not_matched
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


@translate_errors(ROW_WORDS)
class BatchTableUpdate(TableUpdate, core_update_builder.BatchTableUpdate):
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
            delete_files_of(self._store, files_of_messages(self._store, updater.commit_messages))
            raise
        return updater.commit_messages

    def upsert_by_key(self, rows: Rows, upsert_keys: str | Sequence[str]) -> list[CommitMessage]:
        """Upsert rows such as `GenericRow(values, fields)`, as `upsert_by_arrow_with_key` does."""
        return self._upsert_rows(rows, upsert_keys)


@translate_errors(ROW_WORDS)
class StreamTableUpdate(TableUpdate, core_update_builder.StreamTableUpdate):
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


@translate_errors(ROW_WORDS)
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
            delete_files_of(self.table.store, files_of_messages(self.table.store, made))
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


class ShardTableUpdator(core_update_builder.ShardTableUpdator):
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
    when_matched: Sequence[core_update_builder.WhenMatched] = (),
    when_not_matched: Sequence[core_update_builder.WhenNotMatched] = (),
    commit_user: str,
    commit_identifier: int = MAX_LONG,
) -> list[CommitMessage]:
    """Merge a source into a table and return the messages, which a commit of that table publishes."""
    argument_checks.check_int("commit_identifier", commit_identifier)
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
