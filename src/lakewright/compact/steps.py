"""How the files of a task are compacted: facts of files in, steps in key order out. Nothing here opens a file.

A large file that shares no key range with another file is moved: it gets another level and keeps its bytes. All other
files are merged, small neighbours together, so that few files come out. Files with rows that a compaction must remove
(deleted rows, deletes without older rows) and files of another format than the level's are merged too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TypeAlias

from lakewright.compact.task import CompactTask, overlapping
from lakewright.formats.base import file_format_of
from lakewright.lsm.keys import KeyOrder
from lakewright.lsm.merge import MergeSpec
from lakewright.lsm.runs import Section, sections
from lakewright.spec.datafile import DataFile
from lakewright.spec.options import ChangelogProducer, CoreOptions, MergeEngine


@dataclass(frozen=True, slots=True)
class Move:
    """A file that keeps its bytes. Its rows may be read all the same, for the changelog or deletion vectors."""

    file: DataFile


@dataclass(frozen=True, slots=True)
class Merge:
    """Files that are merged into new files, as runs in which keys rise."""

    runs: tuple[tuple[DataFile, ...], ...]

    @property
    def files(self) -> tuple[DataFile, ...]:
        """The files of all runs."""
        return tuple(file for run in self.runs for file in run)


Step: TypeAlias = Move | Merge


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
    def of(cls, spec: MergeSpec, output_level: int) -> RewriteOptions:
        """Take from the options of a table what decides how its files are rewritten."""
        options = spec.schema.core_options
        target = options.target_file_size(has_primary_key=True)
        return cls(
            looks_up=options.needs_lookup(),
            vectors=options.deletion_vectors_enabled(),
            producer=options.get(CoreOptions.CHANGELOG_PRODUCER),
            first_row=spec.engine is MergeEngine.FIRST_ROW,
            last_wins=spec.engine is MergeEngine.DEDUPLICATE and not spec.sequence,
            folds_alone=spec.engine is MergeEngine.AGGREGATION and spec.needs_lookup,
            file_format=options.get(CoreOptions.FILE_FORMAT_PER_LEVEL).get(output_level) or options.file_format(),
            file_bytes_min=int(target * options.get(CoreOptions.COMPACTION_SMALL_FILE_RATIO)),
        )

    def needs_deeper(self) -> bool:
        """Say whether rows of deeper levels can change what comes out."""
        return self.looks_up and (not self.last_wins or self.vectors or self.producer is ChangelogProducer.LOOKUP)

    def folds_some_alone(self, files: Sequence[DataFile]) -> bool:
        """Say whether level 0 may have retracting rows whose keys have no other row."""
        return self.folds_alone and any(file.level == 0 and file.delete_row_count != 0 for file in files)

    def writes_changelog(self, files: Sequence[DataFile], task: CompactTask) -> bool:
        """Say whether the compaction of these files writes a changelog."""
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
            steps += _gathered(waiting, task, options, key, masked)
            steps.append(Move(lone))
            waiting = []
        else:
            waiting.append(section)
    return [*steps, *_gathered(waiting, task, options, key, masked)]


def _gathered(
    waiting: Sequence[Section], task: CompactTask, options: RewriteOptions, key: KeyOrder, masked: frozenset[str]
) -> list[Step]:
    """Return the step for neighbouring sections; a small file without neighbours is moved."""
    lone = _lone(waiting)
    if lone is not None and _may_move(lone, task, options, key, masked):
        return [Move(lone)]
    if not waiting:
        return []
    # Sections follow each other in key order, so their first runs make one run, their second ones another.
    stacked = zip_longest(*(section.runs for section in waiting), fillvalue=())
    return [Merge(tuple(tuple(file for run in runs for file in run) for runs in stacked))]


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
