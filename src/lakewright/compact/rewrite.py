"""One task in, one commit message out: files of a bucket are merged into new files, or moved to another level.

Rows are merged in windows of bounded memory. Sequence numbers and kinds stay as they are. Nothing is visible before the
message is committed, and a task that fails deletes its files.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from lakewright.commit.message.message import CommitMessage
from lakewright.compact.append_rewrite import rewrite_append
from lakewright.compact.lookup import lookup_runs, with_place
from lakewright.compact.order.sort import sort_append
from lakewright.compact.output import BucketOutput
from lakewright.compact.steps import Merge, Move, RewriteOptions, plan_steps
from lakewright.compact.task import CompactTask, check_compactable, files_with_old_rows, with_schema_of
from lakewright.compact.vectors import BucketVectors, deletions_of
from lakewright.compact.window import POSITION_BITS, FoldedWindow, Longs, WindowRules, fold_window
from lakewright.datafiles.file_plan import FilePlan
from lakewright.datafiles.rolling import wall_clock_ms
from lakewright.lsm.merge import MergeSpec, drop_retracts
from lakewright.lsm.record_expiry import RecordExpiry
from lakewright.lsm.windows import merge_runs, windows
from lakewright.metadata.store import TableStore
from lakewright.read.files import missing_files_explained
from lakewright.read.keyed_files import KeyedFiles, begun
from lakewright.read.scan import FileSchemas
from lakewright.spec.datafile import APPEND, COMPACT, DataFile, IndexFile
from lakewright.spec.options import ChangelogProducer, CoreOptions


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
    memory = memory_bytes or store.options.get(CoreOptions.LAKEWRIGHT_MERGE_MEMORY)
    output = BucketOutput(store, (task.partition, task.bucket), clock_ms, new_uuid)
    try:
        with missing_files_explained(store, task.snapshot_id):
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
        self._spec = MergeSpec.of_schema(schema, table=store.name)
        self._options = RewriteOptions.of(self._spec, task.output_level)
        self._expiry = RecordExpiry.of(schema, time.time_ns() // 1_000_000)
        self._vectors = BucketVectors(store, task)
        place = (task.partition, task.bucket)
        deletions = deletions_of(store, place, task.vectors)
        share = memory_bytes // (2 * max(1, len(task.files)))  # as many chunks as there are runs are held at a time
        self._files = KeyedFiles(store, FileSchemas(store), *place, schema.fields, deletions, share)
        self._data = output.open(FilePlan.keyed(schema, level=task.output_level, source=COMPACT))
        self._changelog = output.open(FilePlan.keyed(schema, level=task.output_level, source=APPEND, changelog=True))

    def run(self) -> CommitMessage:
        """Take every step, and return the commit message."""
        task = self._task
        before: list[DataFile] = []
        moved: list[DataFile] = []
        masked = self._vectors.masked | files_with_old_rows(self._store, task.files)
        for step in plan_steps(task, self._options, self._spec.key, masked):
            match step:
                case Move(file):
                    self._data.finish()  # otherwise one file could have keys before and after those of the moved file
                    if self._needs_lookup([file]):
                        self._merge_with_lookup([[file]], keeps_files=True)
                    if file.level != task.output_level:
                        before.append(file)
                        moved.append(replace(file, level=task.output_level))
                case Merge(runs):
                    self._merge(runs)
                    before += step.files
        after = (*moved, *self._data.finish())
        changelog = self._changelog.finish()
        names = {file.file_name for file in moved}
        index = self._vectors.write(self._output, {f.file_name for f in before if f.file_name not in names})
        return self._message(tuple(before), after, changelog, index)

    def _needs_lookup(self, files: Sequence[DataFile]) -> bool:
        """Say whether rows of deeper levels must be read, a changelog written, or single rows folded."""
        looks_up = self._options.needs_deeper() and any(file.level == 0 for file in files) and self._task.deeper
        changes = self._options.writes_changelog(files, self._task) or self._options.folds_some_alone(files)
        return bool(looks_up) or changes

    def _merge(self, runs: Sequence[Sequence[DataFile]]) -> None:
        files = [file for run in runs for file in run]
        if self._needs_lookup(files):
            self._merge_with_lookup(runs, keeps_files=False)
            return
        sources = [self._read_run(run, level=self._spec.needs_lookup) for run in runs]
        for rows in merge_runs(begun(self._store.storage, sources), self._spec, memory_bytes=self._memory):
            self._data.write(drop_retracts(rows) if self._task.drops_deletes else rows)

    def _read_run(self, run: Sequence[DataFile], *, level: bool) -> Iterator[pa.Table]:
        """Yield the rows of a run that are not too old."""
        rows = self._files.read_run(run, level=level)
        return rows if self._expiry is None else map(self._expiry.kept, rows)

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
        ignored = self._store.options.get(CoreOptions.CHANGELOG_PRODUCER_ROW_DEDUPLICATE_IGNORE_FIELDS)
        return WindowRules(
            output_level=self._task.output_level,
            old_level=self._task.deepest if full else None,
            changelog=changelog,
            deduplicate=self._store.options.get(CoreOptions.CHANGELOG_PRODUCER_ROW_DEDUPLICATE),
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
