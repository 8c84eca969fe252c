"""Upserts: as a write, or as a merge that looks rows up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from lakewright.commit.job_ids import JobRun
from lakewright.dml.assignments import ColumnScope, source_col, without_defaults
from lakewright.dml.change_plan import ChangePlan
from lakewright.dml.change_runner import run_change
from lakewright.dml.change_tasks import write_rows
from lakewright.dml.keyed_rules import KeyedChangeRules
from lakewright.dml.matching import true_rows
from lakewright.dml.merge import prepare_merge
from lakewright.dml.merge_clauses import ClauseKind, MergeClause, plan_merge, read_source
from lakewright.dml.row_changes import Prepare, PreparedChange, UpdateResult, change_method
from lakewright.errors import InvalidInputError, UnsupportedError
from lakewright.lsm.key_order import SortColumn, sorted_rows
from lakewright.metadata.table_store import TableStore
from lakewright.spec import argument_checks
from lakewright.spec.snapshot import Snapshot
from lakewright.spec.system_columns import INSERT, KIND_NAMES, RETRACTS
from lakewright.write.alignment import align
from lakewright.write.input_data import ArrowData, batches_of
from lakewright.write.row_intake import kept_kinds, kind_column, to_kinds

# ---- Upserts ---------------------------------------------------------------------------------------------------------
# In an append table the caller names the key columns, a primary-key table has its own. Rows are written to a
# primary-key table without a lookup if its merge engine then does the upsert: the rows have all columns, or the
# engine keeps the columns that they lack. Otherwise existing rows are looked up first, and the change is planned
# again if another commit writes to their buckets meanwhile.
#
# Invariant: a column that the data lacks keeps its values, and is null or its default in new rows; or the
# upsert is refused before anything is written. Of equal keys in the data the last counts, or the one with the newest
# `sequence.field`, or all of them if the merge engine folds rows.


def upsert(
    store: TableStore, data: ArrowData, keys: Sequence[str] | None = None, *, job: JobRun | None = None
) -> UpdateResult:
    """Update the rows whose keys the data has, and insert the others, in one snapshot; a job is committed once."""
    operation = "WRITE" if store.schema.primary_keys else "MERGE"
    return run_change(store, prepare_upsert(store, data, keys), operation=operation, job=job)


def prepare_upsert(
    store: TableStore, data: ArrowData, keys: Sequence[str] | None = None, columns: Sequence[str] | None = None
) -> Prepare:
    """Check an upsert, and return a function that prepares it on a snapshot without committing it.

    `columns` are set in existing rows; without them all columns of the data are.
    """
    names = upsert_keys(store, keys)
    if not store.schema.primary_keys:
        source = read_source(data, store.name)
        plan = plan_upsert(store, source.schema, names, columns)
        return prepare_merge(store, plan, newest_rows(store, plan, source))
    parts = list(batches_of(data, store.name))  # a stream can be read once, but there may be several attempts
    for part in parts[1:]:
        check_same_columns(store, parts[0].schema.names, part.schema.names)
    if not parts or not needs_lookup(store, parts[0].schema.names, columns):
        return _prepare_write(store, parts)
    source = _with_kind_numbers(store, read_source(parts, store.name))
    plan = plan_upsert(store, source.schema, names, columns)
    if not plan.folds:
        return prepare_merge(store, plan, newest_rows(store, plan, source))
    _check_keys(store, source)
    return prepare_merge(store, plan, source)


def upsert_keys(store: TableStore, keys: Sequence[str] | None) -> list[str]:
    """Return the key columns of an upsert."""
    own = list(store.schema.primary_keys)
    names = own if keys is None else list(argument_checks.check_names("keys", keys))
    if own and set(names) != set(own):
        raise InvalidInputError(
            f"{store.name}: rows are found by the primary key ({', '.join(own)}), not by {', '.join(names)}; leave the "
            "keys out, or use merge",
            table=store.name,
        )
    if not names:
        raise InvalidInputError(
            f"{store.name} has no primary key: name the columns that rows are found by, as in upsert(data, ['id'])",
            table=store.name,
        )
    return names


def needs_lookup(store: TableStore, names: Sequence[str], columns: Sequence[str] | None = None) -> bool:
    """Return whether an upsert of data with these columns must look up the rows of a primary-key table.

    If not, writing the data does the upsert. Raises UnsupportedError if the table cannot do it at all. `columns` are
    set in existing rows.
    """
    given = {*_assigned_columns(store, names, columns), *store.schema.primary_keys}
    kept_columns = {*_assigned_columns(store, names, None)} - given
    rules = KeyedChangeRules.of(store, upserts=True)
    rules.check_update(given)
    return bool(kept_columns) or rules.needs_lookup(given)


def plan_upsert(
    store: TableStore, source: pa.Schema, keys: Sequence[str], columns: Sequence[str] | None = None
) -> ChangePlan:
    """Check an upsert that looks rows up, and return it as a merge; `columns` are set in existing rows, or all.

    For a primary-key table the source may have a column of row kinds, as numbers; see `sequence_order` and
    `dml.keyed_rules.KeyedChangeRules` for the other rules of such a table.
    """
    kinds = kinds_column(store, source.names)
    unknown = [name for name in source.names if name not in store.schema.field_names and name != kinds]
    if unknown:
        raise InvalidInputError(
            f"{store.name}: there is no column {unknown[0]!r} to write; drop it from the input or add it to the table",
            table=store.name,
            column=unknown[0],
        )
    given = {name: source_col(name) for name in _assigned_columns(store, source.names, columns) if name not in keys}
    new: dict[str, object] = {name: source_col(name) for name in source.names if name != kinds}
    own = store.options.rowkind_field
    if own is not None and store.schema.primary_keys:
        new[own] = KIND_NAMES[INSERT]
    retracts = f"s.`{kinds}` IN ({', '.join(str(kind) for kind in sorted(RETRACTS))})"
    clauses = [] if kinds is None else [MergeClause(ClauseKind.MATCHED, "delete", None, retracts)]
    if given:
        clauses.append(MergeClause(ClauseKind.MATCHED, "update", given))
    adds = None if kinds is None else f"NOT ({retracts})"
    clauses.append(MergeClause(ClauseKind.NOT_MATCHED, "insert", new, adds, may_lack=True))
    plan = plan_merge(store.name, store.schema.fields, ColumnScope(store.schema.fields, source), keys, clauses)
    if not store.schema.primary_keys:
        return plan
    rules = KeyedChangeRules.of(store, upserts=True)
    rules.check_update(given)
    return replace(plan, upserts=True, folds=rules.folds)


def check_same_columns(store: TableStore, first: Iterable[str], other: Iterable[str]) -> None:
    """Refuse data whose parts have different columns: an upsert keeps the columns that its rows lack, for all rows."""
    different = sorted({*first} ^ {*other})
    if different:
        raise InvalidInputError(
            f"{store.name}: some parts of the data have the column {different[0]!r} and others lack it; upsert them "
            "apart, or give all of them the same columns",
            table=store.name,
            column=different[0],
        )


def sequence_order(store: TableStore, names: Sequence[str]) -> tuple[SortColumn, ...]:
    """Return the columns of the data that decide which of the rows with equal keys is newest; none: the last is."""
    sequence = KeyedChangeRules.of(store).spec.sequence if store.schema.primary_keys else ()
    return tuple(column for column in sequence if column.field.name in names)


def newest_rows(store: TableStore, plan: ChangePlan, source: pa.Table) -> pa.Table:
    """Return the newest row of each key: the one with the newest sequence field, of equal ones the last.

    Rows with null in their key match nothing and all stay; in a primary-key table they are refused.
    """
    newest = _last_of_keys(plan, _sorted_by_sequence(store, source))
    _check_keys(store, newest)
    return newest


def _assigned_columns(store: TableStore, names: Sequence[str], columns: Sequence[str] | None) -> list[str]:
    """Return the columns of the data that are set in existing rows."""
    kinds = kinds_column(store, names)
    return [name for name in (names if columns is None else columns) if name != kinds]


def kinds_column(store: TableStore, names: Sequence[str]) -> str | None:
    """Return the column of the data that holds row kinds; None: it has none."""
    if not store.schema.primary_keys:
        return None
    own = store.options.rowkind_field
    return own if own in names else kind_column(names, store.schema.field_names, table=store.name)


def _prepare_write(store: TableStore, parts: Sequence[pa.Table | pa.RecordBatch]) -> Prepare:
    """Return a function that prepares a plain write, of rows whose merge engine does the rest."""
    rows = sum(part.num_rows for part in parts)

    def prepare(_base: Snapshot | None) -> PreparedChange:
        return PreparedChange(tuple(write_rows(store, parts)), method=change_method(store), counted=rows == 0)

    return prepare


def _with_kind_numbers(store: TableStore, source: pa.Table) -> pa.Table:
    """Return the source with row kinds as numbers, without the rows that the table's options ignore."""
    column = kinds_column(store, source.column_names)
    if column is None:
        return source
    kinds = to_kinds(source.column(column), table=store.name, source=f"the column {column!r}")
    keep = kept_kinds(kinds, store.options)
    source = source.set_column(source.column_names.index(column), column, pa.array(kinds))
    source = source if keep is None else source.filter(pa.array(keep))
    if not np.isin(source.column(column).to_numpy(), list(RETRACTS)).any():
        return source.drop_columns([column])
    rules = KeyedChangeRules.of(store)
    if rules.folds or rules.spec.sequence:
        raise UnsupportedError(
            f"{store.name}: the data lacks columns and has rows that delete or take back (-D, -U), which this table "
            "cannot do with a part of a row; give all columns, or delete by mode='delete'",
            table=store.name,
            column=column,
        )
    return source


def _sorted_by_sequence(store: TableStore, source: pa.Table) -> pa.Table:
    """Return the rows of the source in an order in which the newest row of each key is the last."""
    order = sequence_order(store, source.column_names)
    if not order:
        return source
    fields = without_defaults(column.field for column in order)
    known = align(source.select([field.name for field in fields]), fields, table=store.name)
    return source.take(pa.array(sorted_rows(known, order).order))


def _last_of_keys(plan: ChangePlan, source: pa.Table) -> pa.Table:
    """Return the last row of each key, in the order of the source."""
    last = plan.matcher(source).last_rows()
    return source if len(last) == source.num_rows else source.take(pa.array(last))


def _check_keys(store: TableStore, source: pa.Table) -> None:
    """Raise InvalidInputError if a key is null: such a row cannot be looked up."""
    for name in store.schema.primary_keys:
        empty = true_rows(source.column(name).is_null())
        if len(empty):
            raise InvalidInputError(
                f"{store.name}: the key column {name!r} is null in {len(empty)} of {source.num_rows} rows; a row "
                "without a key cannot be found again, give it one or leave it out",
                table=store.name,
                column=name,
            )


# ---- Lookup of keys --------------------------------------------------------------------------------------------------
# An engine joins the source with the rows of the table and hands each task some groups of files, each with the source
# rows that match, ordered by position, and before them source rows without a match. The tasks read the groups with
# the core's own reader and decide with the core's own code. Columns of the source are named by their index (`s0`,
# `s1`, ...), so that no name of the table can clash.
#
# Rows of a primary-key table become rows with row kinds, which go to the writers of their buckets (`KeyedMergeTask`).
# Invariant: an insert takes effect after every change, as embedded, even if its key exists.


def checked_lookup(store: TableStore, source: pa.Schema, *, frame: str, fetch: str) -> ChangePlan:
    """Check an upsert of a frame that lacks columns, and return it as a merge that looks rows up.

    `frame` is what the engine calls its data, and `fetch` how a user brings it into this process.
    """
    kinds = kinds_column(store, source.names)
    if kinds is not None or KeyedChangeRules.of(store).folds:
        engine = f"the merge engine {store.options.merge_engine}"
        why = engine if kinds is None else f"a column of row kinds ({kinds!r})"
        raise UnsupportedError(
            f"{store.name}: the {frame} lacks columns that must be looked up to stay as they are, which workers cannot "
            f"do with {why}; give all columns, or upsert embedded, with {fetch}",
            table=store.name,
        )
    return plan_upsert(store, source, store.schema.primary_keys)
