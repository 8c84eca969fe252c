"""The rows that a source of a change matches, on Ray."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import ray

from lakewright.dml.change_plan import ChangePlan
from lakewright.dml.change_runner import GROUP, POSITION, MatchedRows
from lakewright.dml.change_tasks import chunked_rows, source_name
from lakewright.dml.keyed_strategy import locate_merged
from lakewright.dml.matching import Matcher, Pairs, compared_in, concat_positions, convert_key_column
from lakewright.dml.row_location import locate_rows
from lakewright.dml.upsert import newest_rows
from lakewright.engine.engine import TaskId, TaskResult
from lakewright.metadata.table_store import TableStore
from lakewright.ray.ray_datasets import RaySource, read_pieces, runs
from lakewright.ray.ray_engine import (
    BlockSlice,
    ProgressReport,
    RayAnswers,
    RayTaskResult,
    RayWork,
    RayWriteSettings,
    Tasks,
    answer_of,
    new_attempt,
)
from lakewright.read.data_split import DataSplit
from lakewright.read.manifest_scan import FileSchemas
from lakewright.read.split_sharing import share_splits
from lakewright.spec.arrow_types import to_arrow_type
from lakewright.spec.bucket_hash import row_hashes
from lakewright.spec.comparison import is_float
from lakewright.spec.predicate import TRUE, Predicate, and_predicates
from lakewright.spec.system_columns import ROW_ID
from lakewright.spec.types import AtomicType

# ---- Matching --------------------------------------------------------------------------------------------------------
# a source that is small        goes to every task: each matches the groups of files that it will change later
#     any other source              its rows and the table's join columns go to tasks by a hash of their keys; each
#                                   joins its share, and sends what matches to the task that changes the group
#
# The tasks that change rows read their groups again (`dml.change_tasks`). All rows travel through Ray's object
# store, which spills to disk; a worker needs memory for one share of the source and the join columns that it is
# matched with, and the driver for counts alone. Invariant: rows match exactly if they match embedded, for the
# same code matches them (`dml.matching`).

_SMALL_BYTES = 256 << 20  # a source of so many bytes fits into each task that matches
_SHARE_BYTES = 128 << 20  # of a larger source, that one task joins
_SEND_BYTES = 64 << 20  # of blocks that are sent on together
_INSERT_BYTES = 64 << 20  # of a source, that are worth a task which inserts

Numbers: TypeAlias = npt.NDArray[np.int64]
Groups: TypeAlias = tuple[tuple[int, DataSplit], ...]  # by their numbers
FindGroups: TypeAlias = Callable[[Predicate], Sequence[DataSplit]]


@dataclass(frozen=True, slots=True)
class Matching:
    """What the tasks of a match need to know; it travels to them as a value."""

    store: TableStore
    plan: ChangePlan
    source: pa.Schema  # the columns of the source that the plan needs
    newest: bool = False  # only the newest, or last, source row of each key counts
    alone: bool = False  # source rows without a match are needed too
    predicate: Predicate = TRUE  # rows of the table are read by it

    @classmethod
    def of(cls, store: TableStore, plan: ChangePlan, source: pa.Schema, *, newest: bool = False) -> Matching:
        """Return the match of a plan."""
        columns = pa.schema([source.field(name) for name in plan.source_columns])
        return cls(store, plan, columns, newest, alone=bool(plan.not_matched))

    @classmethod
    def by_id(
        cls, store: TableStore, source: pa.Schema, columns: Sequence[str] = (), *, newest: bool = False
    ) -> Matching:
        """Return the match of row ids, with some more columns of the source."""
        plan = ChangePlan(store.name, store.schema.fields, ((ROW_ID, ROW_ID.name),), None, TRUE)
        names = [ROW_ID.name, *columns]
        return cls(store, plan, pa.schema([source.field(name) for name in names]), newest, alone=True)

    def counted_rows(self, source: pa.Table) -> pa.Table:
        """Return the source rows that count."""
        return newest_rows(self.store, self.plan, source) if self.newest else source

    def locate_part(self, part: DataSplit, columns: Sequence[str]) -> Iterator[tuple[Numbers, pa.Table]]:
        """Yield the rows of a group with their positions, in chunks that can be matched at once."""
        if self.store.schema.primary_keys:
            return chunked_rows(locate_merged(self.store, part, columns, self.predicate))
        return chunked_rows(locate_rows(self.store, part, columns, self.predicate, schemas=FileSchemas(self.store)))

    def hashes_of_source(self, source: pa.Table) -> Numbers:
        """Return a number for each source row that is the same for rows which may match."""
        keys = self._keys()
        return _hashes([(convert_key_column(source.column(name), dtype, name), dtype) for _, name, dtype in keys])

    def hashes_of_target(self, target: pa.Table) -> Numbers:
        """Return the same for rows of the table."""
        keys = self._keys()
        return _hashes([(target.column(name).cast(to_arrow_type(dtype)), dtype) for name, _, dtype in keys])

    def _keys(self) -> list[tuple[str, str, AtomicType]]:
        return [(field.name, name, compared_in(field, self.source.field(name))) for field, name in self.plan.on]


@dataclass(frozen=True, slots=True)
class TaskRows:
    """What one changing task gets: groups of files, and references to source rows that match them or match nothing."""

    groups: Groups
    rows: tuple[Any, ...] = ()

    def group_matches(self) -> MatchedRows:
        """Yield rows without a match, then every group with the rows that match it, on a worker."""
        tables = [ray.get(rows) for rows in self.rows]
        if not tables:
            return
        rows = pa.concat_tables(tables)
        alone = rows.filter(rows.column(GROUP).is_null())
        if alone.num_rows:
            yield None, alone.to_batches()
        rows = rows if not alone.num_rows else rows.filter(rows.column(GROUP).is_valid())
        numbers, positions = rows.column(GROUP).to_numpy(), rows.column(POSITION).to_numpy()
        if len(tables) > 1:
            order = np.lexsort((positions, numbers))
            rows, numbers = rows.take(pa.array(order)), numbers[order]
        for number, part in self.groups:
            first, end = np.searchsorted(numbers, (number, number + 1))
            yield part, rows.slice(first, end - first).to_batches() or [_no_rows(rows.schema)]


@dataclass(frozen=True, slots=True)
class Matched:
    """What the changing tasks of a merge get, and by which predicate the rows were read."""

    tasks: tuple[TaskRows, ...]
    matching: Matching
    source_rows: int

    @property
    def parts(self) -> list[DataSplit]:
        """All groups that may change."""
        return [part for task in self.tasks for _, part in task.groups]


def match(tasks: Tasks, source: RaySource, matching: Matching, find: FindGroups, *, at_once: int) -> Matched:
    """Match a source with the groups that `find` returns, so that about `at_once` tasks can change them."""
    by_source = bool(matching.plan.by_source)
    if source.bytes <= _SMALL_BYTES:
        (gathered,) = tasks.send(GATHER, 1, matching, source.pieces)
        ((rows, within),) = tasks.wait_for_sent()
        prunes = TRUE if by_source else and_predicates((within, matching.plan.prunes))
        found = _reading(matching, prunes), _task_groups(matching.store, find(prunes), at_once)
        return Matched(_match_small(tasks, source, gathered, *found), found[0], rows)
    prunes = TRUE if by_source else matching.plan.prunes
    known = _reading(matching, prunes)
    groups = _task_groups(matching.store, find(prunes), max(at_once, source.bytes // _INSERT_BYTES))
    made, rows = _match_large(tasks, source, known, groups)
    return Matched(made, known, rows)


def _reading(matching: Matching, prunes: Predicate) -> Matching:
    """Return the match with the predicate that rows are read by: positions of a primary-key table count these rows."""
    return replace(matching, predicate=prunes if matching.store.schema.primary_keys else matching.plan.prunes)


def _task_groups(store: TableStore, parts: Sequence[DataSplit], at_once: int) -> list[Groups]:
    """Spread groups over tasks; without groups there are tasks all the same, which may have rows to insert."""
    number_of = {part.file_paths[0]: number for number, part in enumerate(parts)}
    spread = share_splits(store, parts, at_least=at_once) if parts else [()] * at_once
    return [tuple((number_of[part.file_paths[0]], part) for part in share) for share in spread]


# ---- a small source --------------------------------------------------------------------------------------------------


def _match_small(
    tasks: Tasks,
    source: RaySource,
    gathered: Any,  # noqa: ANN401 - a reference to the source
    matching: Matching,
    groups: Sequence[Groups],
) -> tuple[TaskRows, ...]:
    sent = [tasks.send(MATCH, 2, matching, some, gathered) for some in groups if some]
    counts = tasks.wait_for_sent()
    made = [
        TaskRows(some, (rows,))
        for some, (rows, _), count in zip([some for some in groups if some], sent, counts, strict=True)
        if count or matching.plan.by_source
    ]
    if not matching.alone:
        return tuple(made)
    inserting = max(1, min(len(groups), -(-source.bytes // _INSERT_BYTES)))
    left = tasks.send(LEAVE, inserting, [flags for _, flags in sent], gathered, inserting)
    if tasks.wait_for_sent() == [0]:
        return tuple(made)
    made += [TaskRows(())] * (inserting - len(made))
    return tuple(replace(task, rows=(*task.rows, *left[number : number + 1])) for number, task in enumerate(made))


def gather(matching: Matching, pieces: Sequence[BlockSlice]) -> list[Any]:
    """Return how many rows of the source count, a predicate that rows with a match fulfil, and the source."""
    source = matching.counted_rows(read_pieces(pieces, matching.source, matching.plan.table)).combine_chunks()
    return [(source.num_rows, matching.plan.matcher(source).pruning_predicate()), source]


def match_groups(matching: Matching, groups: Groups, source: pa.Table) -> list[Any]:
    """Return how many source rows match rows of groups, these with their places, and flags of the source rows."""
    matcher = matching.plan.matcher(source)
    flags = np.zeros(source.num_rows, np.bool_)
    numbers, places, rows = [], [], []
    for number, part in groups:
        for positions, target in matching.locate_part(part, matcher.columns):
            pairs = matcher.match(target)
            flags[pairs.source] = True
            rows.append(pairs.source)
            places.append(positions[pairs.target])
            numbers.append(np.full(len(pairs.source), number, np.int64))
    matched = _with_places(
        source.take(pa.array(concat_positions(rows))), concat_positions(numbers), concat_positions(places)
    )
    return [matched.num_rows, matched, flags]


def leave(flags: Sequence[Any], source: pa.Table, count: int) -> list[Any]:
    """Return how many source rows match nothing, and these rows in so many parts."""
    matched = np.zeros(source.num_rows, np.bool_)
    for some in flags:
        matched |= ray.get(some)
    alone = np.flatnonzero(~matched)
    return [len(alone), *(_with_places(source.take(pa.array(part))) for part in np.array_split(alone, count))]


# ---- a large source --------------------------------------------------------------------------------------------------


def _match_large(
    tasks: Tasks, source: RaySource, matching: Matching, groups: Sequence[Groups]
) -> tuple[tuple[TaskRows, ...], int]:
    count = max(2, -(-source.bytes // _SHARE_BYTES))
    sources = [tasks.send(SEND_SOURCE, count, matching, run, count) for run in runs(source.pieces, _SEND_BYTES)]
    rows = sum(tasks.wait_for_sent())
    targets = [tasks.send(SEND_TARGET, count, matching, some, count) for some in groups if some]
    tasks.wait_for_sent()
    task_of = np.zeros(max([number for some in groups for number, _ in some], default=0) + 1, np.int64)
    for task, some in enumerate(groups):
        task_of[[number for number, _ in some]] = task
    joins = [
        tasks.send(
            JOIN,
            len(groups),
            matching,
            [to[number] for to in sources],
            [to[number] for to in targets],
            task_of,
            (number % len(groups), len(groups)),
        )
        for number in range(count)
    ]
    tasks.wait_for_sent()
    return tuple(TaskRows(some, tuple(to[task] for to in joins)) for task, some in enumerate(groups)), rows


def send_source(matching: Matching, pieces: Sequence[BlockSlice], count: int) -> list[Any]:
    """Return how many rows pieces of the source have, and these rows for each of the tasks that join."""
    source = read_pieces(pieces, matching.source, matching.plan.table)
    return [source.num_rows, *_split_by_number(source, matching.hashes_of_source(source) % count, count)]


def send_target(matching: Matching, groups: Groups, count: int) -> list[Any]:
    """Return how many rows groups have, and places and join columns of these rows for each of the tasks that join."""
    columns = Matcher(matching.source.empty_table(), matching.plan.on, matching.plan.residual).columns
    parts: list[list[pa.Table]] = [[] for _ in range(count)]
    for number, part in groups:
        for positions, target in matching.locate_part(part, columns):
            placed = _with_places(target, np.full(len(positions), number), positions)
            for to, some in enumerate(_split_by_number(placed, matching.hashes_of_target(target) % count, count)):
                parts[to].append(some)
    tables = [pa.concat_tables(some) if some else None for some in parts]
    return [sum(0 if table is None else table.num_rows for table in tables), *tables]


def join(
    matching: Matching, sources: Sequence[Any], targets: Sequence[Any], task_of: Numbers, inserts: tuple[int, int]
) -> list[Any]:
    """Return how many rows of one share of the source match, and its rows for each of the tasks that change groups.

    `task_of` has the task of each group. Rows without a match go to one task: `inserts` is its number, and how many
    tasks there are.
    """
    source = matching.counted_rows(pa.concat_tables(map(ray.get, sources))).combine_chunks()
    tables = [table for table in map(ray.get, targets) if table is not None]
    if not tables:
        return [0, *_to_one(_with_places(source), *inserts)]
    matcher = matching.plan.matcher(source)
    target = pa.concat_tables(tables)
    names = {source_name(at): name for at, name in enumerate(matcher.columns)}
    pairs: Pairs = matcher.match(target.select(list(names)).rename_columns(list(names.values())))
    groups, positions = (target.column(name).to_numpy()[pairs.target] for name in (GROUP, POSITION))
    matched = _with_places(source.take(pa.array(pairs.source)), groups, positions)
    out = _split_by_number(matched, task_of[groups], inserts[1])
    if matching.alone:
        alone = np.setdiff1d(np.arange(source.num_rows), pairs.source)
        more = _to_one(_with_places(source.take(pa.array(alone))), *inserts)
        out = [pa.concat_tables(both) for both in zip(out, more, strict=True)]
    return [len(pairs.source), *out]


def _to_one(rows: pa.Table, number: int, tasks: int) -> list[pa.Table]:
    """Return a table for each of the tasks, with all rows in that of one task."""
    return [rows if task == number else rows.schema.empty_table() for task in range(tasks)]


# ---- rows ------------------------------------------------------------------------------------------------------------


def _with_places(rows: pa.Table, groups: Numbers | None = None, positions: Numbers | None = None) -> pa.Table:
    """Return rows with columns named by their index, and the place of each; without places they match nothing."""
    count = rows.num_rows
    places = [
        pa.nulls(count, pa.int32()) if groups is None else pa.array(groups.astype(np.int32)),
        pa.nulls(count, pa.int64()) if positions is None else pa.array(positions),
    ]
    names = [source_name(at) for at in range(rows.num_columns)]
    return pa.Table.from_arrays([*places, *rows.columns], names=[GROUP, POSITION, *names])


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], schema=schema)


def _split_by_number(rows: pa.Table, numbers: Numbers, count: int) -> list[pa.Table]:
    """Return the rows of each number, in their order."""
    order = np.argsort(numbers, kind="stable")
    bounds = np.searchsorted(numbers[order], np.arange(count + 1))
    return [rows.take(pa.array(order[bounds[at] : bounds[at + 1]])) for at in range(count)]


def _hashes(columns: Sequence[tuple[pa.Array | pa.ChunkedArray, AtomicType]]) -> Numbers:
    plain = [(_one_zero(column) if is_float(dtype) else column, dtype) for column, dtype in columns]
    hashes = row_hashes([column for column, _ in plain], [dtype for _, dtype in plain])
    return hashes.view(np.uint32).astype(np.int64)


def _one_zero(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return floating-point numbers with one zero and one NaN, as they are compared."""
    values = column.to_numpy() if isinstance(column, pa.ChunkedArray) else column.to_numpy(zero_copy_only=False)
    plain = np.where(np.isnan(values), np.nan, values + 0.0).astype(values.dtype)
    return pa.array(plain, column.type, from_pandas=False)


GATHER = ray.remote(gather)
MATCH = ray.remote(match_groups)
LEAVE = ray.remote(leave)
SEND_SOURCE = ray.remote(send_source)
SEND_TARGET = ray.remote(send_target)
JOIN = ray.remote(join)


# ---- Tasks for groups of files ---------------------------------------------------------------------------------------

ChangeTask: TypeAlias = Callable[[TaskId, MatchedRows], TaskResult]


def over_tasks(settings: RayWriteSettings, task: ChangeTask, inputs: Sequence[TaskRows]) -> RayWork:
    """Return the work of calling a function for each of the inputs, in a task of its own."""

    def work(_: TableStore) -> RayAnswers:
        shared = ray.put(task)
        with Tasks(settings, ProgressReport(None)) as tasks:
            for number, one in enumerate(inputs):
                tasks.start(CHANGE_GROUPS, shared, number, one)
            return RayAnswers(tasks.finish())

    return work


def change_groups(task: ChangeTask, number: int, rows: TaskRows) -> RayTaskResult:
    """Call the function of a job for what one task gets, on a worker."""
    return answer_of(number, task(TaskId(number, new_attempt()), rows.group_matches()))


CHANGE_GROUPS = ray.remote(change_groups)
