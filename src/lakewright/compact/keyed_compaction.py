"""Merging files of a bucket: steps, windows, lookup, changelog."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.commit.commit_message import CommitMessage
from lakewright.compact.append_compaction import rewrite_append
from lakewright.compact.compaction_plan import (
    CompactTask,
    RecordExpiry,
    bounds_of,
    check_compactable,
    files_with_old_rows,
    overlapping,
    with_schema_of,
)
from lakewright.compact.rewrite_output import BucketOutput, BucketVectors, deletions_of
from lakewright.compact.sort_compaction import sort_append
from lakewright.formats.data_file_writer import FilePlan, wall_clock_ms
from lakewright.formats.format_registry import file_format_of
from lakewright.lsm.changelog import changelog_rows
from lakewright.lsm.key_groups import KeyGroups
from lakewright.lsm.key_order import KeyOrder
from lakewright.lsm.merge_rows import MergeRules, drop_retracts
from lakewright.lsm.sorted_runs import Section, merge_runs, runs_of, sections, windows
from lakewright.metadata.table_store import TableStore
from lakewright.read.data_file_reader import POSITION, KeyedFiles, begin_runs, explain_missing_files
from lakewright.read.manifest_scan import FileSchemas
from lakewright.spec.arrow_types import to_arrow_type
from lakewright.spec.manifest import APPEND, COMPACT, DataFile, IndexFile
from lakewright.spec.option_values import ChangelogProducer
from lakewright.spec.predicate import TRUE, Predicate, and_predicates
from lakewright.spec.scalars import from_scalar
from lakewright.spec.system_columns import LEVEL, SEQUENCE_NUMBER, VALUE_KIND
from lakewright.spec.types import DataField

# ---- One window of a merge -------------------------------------------------------------------------------------------
# The rows are keyed, with `_LEVEL`, and complete for their keys. Rows below the output level are only looked up. They
# matter for keys that got a row from level 0: the nearest of them is merged with the new rows, and a table with
# deletion vectors marks it as deleted in its file. The others are ignored.

PLACE: Final = "_PLACE"  # int64: number of the file and position, of rows that are looked up; -1 of the others
POSITION_BITS: Final = 40

Flags = npt.NDArray[np.bool_]
Longs = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class WindowRules:
    """How the windows of one compaction are merged, and which changelog they give."""

    output_level: int
    old_level: int | None  # of the rows that the changelog calls old; None: of the nearest level that is not 0
    changelog: bool
    deduplicate: bool  # leave keys out of the changelog whose values are as they were
    ignored: frozenset[str]  # columns that are not compared for this
    narrow: bool  # rows below the output level have nothing but their key
    alone: bool = False  # the merge function is applied to a retracting row of level 0 also if its key has no other row


@dataclass(frozen=True, slots=True)
class FoldedWindow:
    """A merged window, in key order."""

    rows: pa.Table  # one row per key; deletes are still in it
    changelog: pa.Table | None
    outdated: Longs  # the places of looked-up rows that newer rows replace


def fold_window(rows: pa.Table, spec: MergeRules, rules: WindowRules) -> FoldedWindow:
    """Merge the rows of a window; return the rows to write, the changelog and the rows that are outdated."""
    keys = _Keys.of(rows, spec, rules)
    folded = keys.compacted if rules.narrow else keys.compacted | keys.looked_up
    if spec.engine.traits.keeps_first_row:
        # A key that has a row below keeps it, so its new rows are dropped.
        folded &= ~keys.has(keys.looked_up)
    outdated = _places(rows, keys.looked_up)
    plain = rows.drop_columns([PLACE]) if PLACE in rows.column_names else rows
    if not rules.changelog and not rules.alone:
        return FoldedWindow(spec.fold(_select(plain, folded)), None, outdated)
    touched = keys.touched
    if spec.engine.traits.keeps_first_row:
        touched = touched & ~keys.has(keys.old | keys.looked_up)
    after = spec.fold(_select(plain, folded & touched))
    if rules.alone:
        after = _merged_alone(after, spec)
    changelog = None
    if rules.changelog:
        before = _select(plain, keys.old & touched).drop_columns([LEVEL.name])
        changelog = changelog_rows(before, after, spec.key, deduplicate=rules.deduplicate, ignored=rules.ignored)
    if not (folded & ~touched).any():
        return FoldedWindow(after, changelog, outdated)
    both = pa.concat_tables([after, spec.fold(_select(plain, folded & ~touched))])
    return FoldedWindow(both.take(pa.array(spec.key.order(both))), changelog, outdated)


def _merged_alone(rows: pa.Table, spec: MergeRules) -> pa.Table:
    """Apply the merge function to retracting rows whose keys have no other row: later rows meet the result."""
    lone = rows.column(VALUE_KIND.name).to_numpy() % 2 == 1  # -U and -D are the odd ones
    if spec.function is None or not lone.any():
        return rows
    numbers = np.arange(int(lone.sum()))
    merged = spec.function.merge(KeyGroups(rows.filter(pa.array(lone)), numbers, numbers, numbers + 1))
    place = np.empty(len(rows), np.int64)
    place[~lone] = np.arange(len(rows) - len(numbers))
    place[lone] = np.arange(len(rows) - len(numbers), len(rows))
    return pa.concat_tables([rows.filter(pa.array(~lone)), merged]).take(pa.array(place))


@dataclass(frozen=True, slots=True)
class _Keys:
    """Which rows of a window are compacted, looked up, touched or old; flags are in the order of the rows."""

    group: Longs  # the number of each row's key
    compacted: Flags  # rows of the files that are compacted
    looked_up: Flags  # rows below them that matter
    touched: Flags  # rows of keys that got new rows
    old: Flags  # the row of each touched key that the new rows change

    @classmethod
    def of(cls, rows: pa.Table, spec: MergeRules, rules: WindowRules) -> _Keys:
        by_key = spec.key.sort_rows(rows)
        group = np.empty(len(rows), np.int64)
        group[by_key.order] = np.cumsum(by_key.new) - 1
        count = int(by_key.new.sum())
        levels = rows.column(LEVEL.name).to_numpy().astype(np.int64)
        compacted = levels <= rules.output_level
        fresh = levels == 0 if rules.old_level is None else levels < rules.old_level
        touched = _of_group(group, count, fresh)
        looked_up = ~compacted & touched
        candidates = (compacted & (levels > 0)) | looked_up
        if rules.old_level is None:
            nearest = np.full(count, np.iinfo(np.int64).max)
            np.minimum.at(nearest, group[candidates], levels[candidates])
            old = candidates & (levels == nearest[group])
        else:
            old = levels == rules.old_level
        return cls(group, compacted, looked_up, touched, old & touched)

    def has(self, flags: Flags) -> Flags:
        """Say of each row whether its key has a row with the flag."""
        return _of_group(self.group, int(self.group.max(initial=-1)) + 1, flags)


def _of_group(group: Longs, count: int, flags: Flags) -> Flags:
    has_flag = np.zeros(count, np.bool_)
    has_flag[group[flags]] = True
    return has_flag[group]


def _select(rows: pa.Table, flags: Flags) -> pa.Table:
    return rows if flags.all() else rows.filter(pa.array(flags))


def _places(rows: pa.Table, flags: Flags) -> Longs:
    if PLACE not in rows.column_names or not flags.any():
        return np.empty(0, np.int64)
    places: Longs = rows.column(PLACE).to_numpy()[flags]
    return places


# ---- Lookup of keys in deeper levels ---------------------------------------------------------------------------------
# The merge finds the row of each key; this module only leaves out rows that cannot match. Files whose key range does
# not overlap that of level 0 are not opened, row groups without a key of level 0 are skipped if the keys are few, and
# of the rest only rows are kept whose key columns all have values that occur in level 0.

_KEYS_MAX = 4_000_000  # rows of level 0 whose keys are kept in memory; with more of them no row is left out
_LITERALS_MAX = 256  # values of a key column that row groups are compared with one by one
_MEMBERS = ("int", "string", "binary", "date", "time", "bool")  # Arrow types whose equality is that of keys


@dataclass(frozen=True, slots=True)
class LookupKeys:
    """The values of the key columns in level 0, by which rows to look up are chosen."""

    members: Mapping[str, pa.Array]  # distinct values by key column, of those columns that can be asked
    skip: Predicate  # a condition that row groups without such values do not fulfil

    def filter(self, rows: pa.Table) -> pa.Table:
        """Return the rows whose key columns all have such values."""
        mask = None
        for name, values in self.members.items():
            matches = pc.is_in(rows.column(name), value_set=values)
            mask = matches if mask is None else pc.and_(mask, matches)
        return rows if mask is None else rows.filter(mask)


ANY = LookupKeys({}, TRUE)


def read_lookup_keys(files: KeyedFiles, fresh: Sequence[DataFile], key: KeyOrder) -> LookupKeys:
    """Read the keys of level 0, unless they are too many to be held."""
    if sum(file.row_count for file in fresh) > _KEYS_MAX:
        return ANY
    keys = replace(files, columns=_in_schema_order(files, key))
    askable = [field for field in key.fields if _is_askable(field)]
    parts: dict[str, list[pa.Array]] = {field.name: [] for field in askable}
    for file in fresh:
        for rows in keys.read(file):
            for name, values in parts.items():
                values.append(pc.unique(rows.column(name)))
    members = {name: pc.unique(pa.chunked_array(values)) for name, values in parts.items() if values}
    asked = [_narrowest_condition(field, members[field.name]) for field in askable if field.name in members]
    return LookupKeys(members, and_predicates(asked))


def lookup_runs(
    files: KeyedFiles, deeper: Sequence[DataFile], fresh: Sequence[DataFile], key: KeyOrder, *, narrow: bool
) -> tuple[list[Iterator[pa.Table]], list[DataFile]]:
    """Return one run per deeper level, with `_LEVEL` and `_PLACE`, and the files that places count.

    With `narrow` only the key columns are read; the others are null.
    """
    files_to_read = overlapping(deeper, fresh, key)
    if not files_to_read:
        return [], []
    keys = read_lookup_keys(files, fresh, key)
    numbered = list(files_to_read)
    number = {file.file_name: at for at, file in enumerate(numbered)}
    source = replace(files, columns=_in_schema_order(files, key)) if narrow else files
    runs = [
        _run(source, sorted(run.files, key=lambda file: bounds_of(file, key)), number, keys, files.columns)
        for run in runs_of(files_to_read)
    ]
    return runs, numbered


def _run(
    source: KeyedFiles,
    run: Sequence[DataFile],
    number: Mapping[str, int],
    keys: LookupKeys,
    columns: Sequence[DataField],
) -> Iterator[pa.Table]:
    for file in run:
        first = number[file.file_name] << POSITION_BITS
        for rows in source.read(file, skip=keys.skip, level=True, positions=True):
            kept = keys.filter(rows)
            if kept.num_rows:
                places = pa.array(kept.column(POSITION.name).to_numpy() + first)
                yield _add_missing_columns(kept.drop_columns([POSITION.name]), columns).append_column(PLACE, places)


def _add_missing_columns(rows: pa.Table, columns: Sequence[DataField]) -> pa.Table:
    """Return rows with all columns of the table; those that were not read are null."""
    names = {*rows.column_names}
    system = [SEQUENCE_NUMBER.name, VALUE_KIND.name, LEVEL.name]
    arrays = [rows.column(name) for name in system]
    for column in columns:
        known = column.name in names
        arrays.append(rows.column(column.name) if known else pa.nulls(rows.num_rows, to_arrow_type(column.type)))
    return pa.table(arrays, names=[*system, *(column.name for column in columns)])


def with_place(rows: pa.Table) -> pa.Table:
    """Return rows of files that are compacted in the form of those that are looked up."""
    return rows.append_column(PLACE, pa.array(np.full(rows.num_rows, -1, np.int64)))


def _in_schema_order(files: KeyedFiles, key: KeyOrder) -> tuple[DataField, ...]:
    return tuple(field for field in files.columns if field.name in key.names)


def _is_askable(field: DataField) -> bool:
    text = str(to_arrow_type(field.type))
    return text.startswith(_MEMBERS)


def _narrowest_condition(field: DataField, members: pa.Array) -> Predicate:
    """Return the narrowest cheap condition that all values of a column fulfil."""
    if members.null_count:
        return TRUE
    few = len(members) <= _LITERALS_MAX
    method = "in" if few else "between"
    values = members if few else pc.min_max(members).values()
    literals: list[Any] = [from_scalar(value, field.type) for value in values]
    return Predicate(method, field.name, tuple(sorted(literals)), dtype=field.type, path=(field.name,))


# ---- The steps of a task ---------------------------------------------------------------------------------------------
# A large file that shares no key range with another file is moved: it gets another level and keeps its bytes. All
# other files are merged, small neighbours together, so that few files come out. Files with rows that a compaction
# must remove (deleted rows, deletes without older rows) and files of another format than the level's are merged too.


@dataclass(frozen=True, slots=True)
class MoveStep:
    """A file that keeps its bytes. Its rows may be read all the same, for the changelog or deletion vectors."""

    file: DataFile


@dataclass(frozen=True, slots=True)
class MergeStep:
    """Files that are merged into new files, as runs in which keys rise."""

    runs: tuple[tuple[DataFile, ...], ...]

    @property
    def files(self) -> tuple[DataFile, ...]:
        """The files of all runs."""
        return tuple(file for run in self.runs for file in run)


Step: TypeAlias = MoveStep | MergeStep


@dataclass(frozen=True, slots=True)
class RewriteOptions:
    """The options of a table, and facts of its merge engine, that decide how the files of a task are rewritten."""

    looks_up: bool  # keys of level 0 are looked up in deeper levels
    vectors: bool
    producer: ChangelogProducer
    first_row: bool
    last_wins: bool  # the newest row of a key is the result, whatever is below
    folds_alone: bool  # the merge function is applied to a retracting row of level 0 also if its key has no other row
    file_format: str  # of the output level
    file_bytes_min: int  # a smaller file is merged with its neighbours

    @classmethod
    def of(cls, spec: MergeRules, output_level: int) -> RewriteOptions:
        """Take from the options of a table what decides how its files are rewritten."""
        options = spec.schema.table_options
        target = options.data_file_size(has_primary_key=True)
        return cls(
            looks_up=options.needs_lookup,
            vectors=options.deletion_vectors_enabled,
            producer=options.changelog_producer,
            first_row=spec.engine.traits.keeps_first_row,
            last_wins=spec.engine.traits.keeps_last_row and not spec.sequence,
            folds_alone=spec.engine.traits.combines_values and spec.needs_lookup,
            file_format=options.file_format_per_level.get(output_level) or options.file_format,
            file_bytes_min=int(target * options.compaction_small_file_ratio),
        )

    def needs_deeper(self) -> bool:
        """Return whether rows of deeper levels can change what comes out."""
        return self.looks_up and (not self.last_wins or self.vectors or self.producer is ChangelogProducer.LOOKUP)

    def folds_some_alone(self, files: Sequence[DataFile]) -> bool:
        """Return whether level 0 may have retracting rows whose keys have no other row."""
        return self.folds_alone and any(file.level == 0 and file.delete_row_count != 0 for file in files)

    def writes_changelog(self, files: Sequence[DataFile], task: CompactTask) -> bool:
        """Return whether the compaction of these files writes a changelog."""
        if self.producer is ChangelogProducer.LOOKUP:
            return any(file.level == 0 for file in files)
        if self.producer is ChangelogProducer.FULL_COMPACTION:
            return task.output_level == task.deepest and any(file.level != task.deepest for file in files)
        return False


def plan_steps(task: CompactTask, options: RewriteOptions, key: KeyOrder, masked: frozenset[str]) -> list[Step]:
    """Return the steps of a task; `masked` are files with deleted rows."""
    steps: list[Step] = []
    waiting: list[Section] = []
    for section in sections(task.files, [field.type for field in key.fields]):
        lone = _lone([section])
        large = lone is not None and lone.file_size >= options.file_bytes_min
        if lone is not None and large and _may_move(lone, task, options, key, masked):
            steps += _merge_step(waiting, task, options, key, masked)
            steps.append(MoveStep(lone))
            waiting = []
        else:
            waiting.append(section)
    return [*steps, *_merge_step(waiting, task, options, key, masked)]


def _merge_step(
    waiting: Sequence[Section], task: CompactTask, options: RewriteOptions, key: KeyOrder, masked: frozenset[str]
) -> list[Step]:
    """Return the step for neighbouring sections; a small file without neighbours is moved."""
    lone = _lone(waiting)
    if lone is not None and _may_move(lone, task, options, key, masked):
        return [MoveStep(lone)]
    if not waiting:
        return []
    # Sections follow each other in key order, so their first runs make one run, their second ones another.
    stacked = zip_longest(*(section.runs for section in waiting), fillvalue=())
    return [MergeStep(tuple(tuple(file for run in runs for file in run) for runs in stacked))]


def _lone(waiting: Sequence[Section]) -> DataFile | None:
    files = [file for section in waiting for file in section.files]
    return files[0] if len(files) == 1 else None


def _may_move(
    file: DataFile, task: CompactTask, options: RewriteOptions, key: KeyOrder, masked: frozenset[str]
) -> bool:
    if task.rewrites_all or file.file_name in masked:
        return False
    if task.drops_deletes and file.delete_row_count != 0:
        return False
    if file.level != 0 or not options.looks_up:
        return True
    if file_format_of(file.file_name) != options.file_format or (options.folds_alone and file.delete_row_count != 0):
        return False
    return options.last_wins or not overlapping(task.deeper, [file], key)


# ---- Running a task --------------------------------------------------------------------------------------------------
# Rows are merged in windows of bounded memory. Sequence numbers and kinds stay as they are. Nothing is visible before
# the message is committed, and a task that fails deletes its files.


def run_task(
    store: TableStore,
    task: CompactTask,
    *,
    memory_bytes: int | None = None,
    clock_ms: Callable[[], int] = wall_clock_ms,
    new_uuid: Callable[[], uuid.UUID | str] = uuid.uuid4,
) -> CommitMessage:
    """Do the work of a task and return the message to commit; about `memory_bytes` of rows are held at a time.

    What `new_uuid` returns is part of the name of every new file.
    """
    store = with_schema_of(store, (*task.files, *task.deeper))
    check_compactable(store)
    memory = memory_bytes or store.options.lakewright_merge_memory
    output = BucketOutput(store, (task.partition, task.bucket), clock_ms, new_uuid)
    try:
        with explain_missing_files(store, task.snapshot_id):
            if task.order_by:
                return sort_append(store, task, output, memory)
            if not store.schema.primary_keys:
                return rewrite_append(store, task, output)
            return _Rewrite(store, task, memory, output).run()
    except BaseException:
        output.discard()
        raise


class _Rewrite:
    """The work of one task."""

    def __init__(self, store: TableStore, task: CompactTask, memory_bytes: int, output: BucketOutput) -> None:
        schema = store.schema
        self._output = output
        self._store = store
        self._task = task
        self._memory = memory_bytes
        self._spec = MergeRules.of_schema(schema, table=store.name)
        self._options = RewriteOptions.of(self._spec, task.output_level)
        self._expiry = RecordExpiry.of(schema, time.time_ns() // 1_000_000)
        self._vectors = BucketVectors(store, task)
        place = (task.partition, task.bucket)
        deletions = deletions_of(store, place, task.vectors)
        share = memory_bytes // (2 * max(1, len(task.files)))  # as many chunks as there are runs are held at a time
        self._files = KeyedFiles(store, FileSchemas(store), *place, schema.fields, deletions, share)
        self._data = output.open(FilePlan.for_keyed_rows(schema, level=task.output_level, source=COMPACT))
        self._changelog = output.open(
            FilePlan.for_keyed_rows(schema, level=task.output_level, source=APPEND, changelog=True)
        )

    def run(self) -> CommitMessage:
        """Take every step, and return the commit message."""
        task = self._task
        before: list[DataFile] = []
        moved: list[DataFile] = []
        masked = self._vectors.masked | files_with_old_rows(self._store, task.files)
        for step in plan_steps(task, self._options, self._spec.key, masked):
            match step:
                case MoveStep(file):
                    self._data.finish()  # otherwise one file could have keys before and after those of the moved file
                    if self._needs_lookup([file]):
                        self._merge_with_lookup([[file]], keeps_files=True)
                    if file.level != task.output_level:
                        before.append(file)
                        moved.append(replace(file, level=task.output_level))
                case MergeStep(runs):
                    self._merge(runs)
                    before += step.files
        after = (*moved, *self._data.finish())
        changelog = self._changelog.finish()
        names = {file.file_name for file in moved}
        index = self._vectors.write(self._output, {f.file_name for f in before if f.file_name not in names})
        return self._message(tuple(before), after, changelog, index)

    def _needs_lookup(self, files: Sequence[DataFile]) -> bool:
        """Return whether rows of deeper levels must be read, a changelog written, or single rows folded."""
        looks_up = self._options.needs_deeper() and any(file.level == 0 for file in files) and self._task.deeper
        changes = self._options.writes_changelog(files, self._task) or self._options.folds_some_alone(files)
        return bool(looks_up) or changes

    def _merge(self, runs: Sequence[Sequence[DataFile]]) -> None:
        files = [file for run in runs for file in run]
        if self._needs_lookup(files):
            self._merge_with_lookup(runs, keeps_files=False)
            return
        sources = [self._read_run(run, level=self._spec.needs_lookup) for run in runs]
        for rows in merge_runs(begin_runs(self._store.storage, sources), self._spec, memory_bytes=self._memory):
            self._data.write(drop_retracts(rows) if self._task.drops_deletes else rows)

    def _read_run(self, run: Sequence[DataFile], *, level: bool) -> Iterator[pa.Table]:
        """Yield the rows of a run that are not too old."""
        rows = self._files.read_run(run, level=level)
        return rows if self._expiry is None else map(self._expiry.drop_expired, rows)

    def _merge_with_lookup(self, runs: Sequence[Sequence[DataFile]], *, keeps_files: bool) -> None:
        """Merge with rows of deeper levels, for the changelog and deletion vectors; kept files are only read."""
        files = [file for run in runs for file in run]
        fresh = [file for file in files if file.level == 0]
        changelog = self._options.writes_changelog(files, self._task)
        narrow = self._options.first_row or (self._options.last_wins and not changelog)
        deeper: list[Iterator[pa.Table]] = []
        numbered: list[DataFile] = []
        if fresh and self._options.needs_deeper():
            deeper, numbered = lookup_runs(self._files, self._task.deeper, fresh, self._spec.key, narrow=narrow)
        sources = [map(with_place, self._read_run(run, level=True)) for run in runs]
        rules = self._rules(changelog=changelog, narrow=narrow)
        for rows in windows([*sources, *deeper], self._spec, memory_bytes=self._memory):
            folded = fold_window(rows, self._spec, rules)
            self._take(folded, keeps_files=keeps_files)
            if self._options.vectors:
                self._mark(folded.outdated, numbered)

    def _rules(self, *, changelog: bool, narrow: bool) -> WindowRules:
        full = self._options.producer is ChangelogProducer.FULL_COMPACTION
        ignored = self._store.options.changelog_producer_row_deduplicate_ignore_fields
        return WindowRules(
            output_level=self._task.output_level,
            old_level=self._task.deepest if full else None,
            changelog=changelog,
            deduplicate=self._store.options.changelog_producer_row_deduplicate,
            ignored=frozenset(ignored),
            narrow=narrow,
            alone=self._options.folds_alone,
        )

    def _take(self, folded: FoldedWindow, *, keeps_files: bool) -> None:
        if not keeps_files:
            self._data.write(drop_retracts(folded.rows) if self._task.drops_deletes else folded.rows)
        if folded.changelog is not None:
            self._changelog.write(folded.changelog)

    def _mark(self, outdated: Longs, numbered: Sequence[DataFile]) -> None:
        numbers = outdated >> POSITION_BITS
        for number, file in enumerate(numbered):
            positions = outdated[numbers == number] & ((1 << POSITION_BITS) - 1)
            if len(positions):
                self._vectors.mark(file.file_name, positions)

    def _message(
        self,
        before: tuple[DataFile, ...],
        after: tuple[DataFile, ...],
        changelog: tuple[DataFile, ...],
        index: IndexFile | None,
    ) -> CommitMessage:
        task, store = self._task, self._store
        return CommitMessage(
            partition_bytes=task.partition,
            bucket=task.bucket,
            total_buckets=task.total_buckets,
            compact_before=before,
            compact_after=after,
            compact_changelog_files=changelog,
            compact_new_index_files=() if index is None else (index,),
            compact_deleted_index_files=() if index is None else task.vectors,
            table=store.identity,
            schema_id=store.schema.id,
            write_id=self._output.stem,
            partition_types=tuple(str(dtype) for dtype in store.partition_types),
        )
