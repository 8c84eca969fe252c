"""Which runs of a bucket to compact, and into which level: facts of files in, a unit of work or nothing out.

Universal compaction. Runs come youngest first; what is picked is always the youngest part of them, because a row may
only move past rows that are older than it. The output level is not above any picked run and above every run that stays,
so a higher level is always older than a lower one, before and after. Nothing here opens a file or asks for the time.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from lakewright.lsm.runs import SortedRun
from lakewright.spec.datafile import DataFile
from lakewright.spec.options import CoreOptions

_PERCENT = 100


@dataclass(frozen=True, slots=True)
class Unit:
    """Files to compact together, youngest run first, and the level that their rows go to."""

    files: tuple[DataFile, ...]
    output_level: int


def pick(runs: Sequence[SortedRun], options: CoreOptions, *, max_level: int, now_ms: int | None = None) -> Unit | None:
    """Return what is worth compacting now; `runs` are all runs of a bucket, youngest first.

    `now_ms` is the wall clock in the form of creation times; without it, `compaction.optimization-interval` is ignored.
    """
    trigger = options.get(CoreOptions.NUM_SORTED_RUN_COMPACTION_TRIGGER)
    ratio = options.get(CoreOptions.COMPACTION_SIZE_RATIO)
    count = 0
    if _is_early(runs, options, max_level, now_ms):
        count = len(runs)
    elif len(runs) >= trigger:
        count = _by_amplification(runs, options) or _by_ratio(runs, ratio, 1)
        if count <= 1:
            count = _by_ratio(runs, ratio, len(runs) - trigger + 1) if len(runs) > trigger else 0
    if count == 0 and (options.needs_lookup() or options.get(CoreOptions.COMPACTION_FORCE_UP_LEVEL_0)):
        fresh = sum(run.level == 0 for run in runs)
        count = _by_ratio(runs, ratio, fresh) if fresh else 0
    return _unit(runs, count, max_level) if count else None


def pick_full(
    runs: Sequence[SortedRun], *, max_level: int, masked: Collection[str] = (), rewrite_all: bool = False
) -> Unit | None:
    """Return all there is to compact: everything goes to the deepest level.

    Where everything lies there already, only files with deleted rows (`masked`, by name) are worth it, or all of them
    when `rewrite_all` says so.
    """
    if not runs:
        return None
    if len(runs) > 1 or runs[0].level != max_level:
        return _unit(runs, len(runs), max_level)
    files = tuple(f for f in runs[0].files if rewrite_all or f.file_name in masked or f.delete_row_count)
    return Unit(files, max_level) if files else None


def _is_early(runs: Sequence[SortedRun], options: CoreOptions, max_level: int, now_ms: int | None) -> bool:
    """Say whether everything should be compacted before the number of runs asks for it."""
    if len(runs) <= 1:
        return False
    interval = options.get(CoreOptions.COMPACTION_OPTIMIZATION_INTERVAL)
    if interval is not None and now_ms is not None and now_ms - _last_full_ms(runs, max_level) > interval:
        return True
    total = sum(run.size for run in runs)
    small = options.get(CoreOptions.COMPACTION_TOTAL_SIZE_THRESHOLD)
    if small is not None and total < small:
        return True
    large = options.get(CoreOptions.COMPACTION_INCREMENTAL_SIZE_THRESHOLD)
    return large is not None and sum(run.size for run in runs if run.level != max_level) > large


def _last_full_ms(runs: Sequence[SortedRun], max_level: int) -> int:
    """Return the newest creation time of a file of the deepest level; 0 if it has none."""
    return max((file.creation_time or 0 for run in runs if run.level == max_level for file in run.files), default=0)


def _by_amplification(runs: Sequence[SortedRun], options: CoreOptions) -> int:
    """Return all runs where what lies above the oldest one is large beside it, else 0."""
    limit = options.get(CoreOptions.COMPACTION_MAX_SIZE_AMPLIFICATION_PERCENT)
    above = sum(run.size for run in runs[:-1])
    return len(runs) if above * _PERCENT > limit * runs[-1].size else 0


def _by_ratio(runs: Sequence[SortedRun], ratio: int, start: int) -> int:
    """Return how many runs to take: the first `start`, and further ones while they are not much larger than those."""
    size = sum(run.size for run in runs[:start])
    count = start
    for run in runs[start:]:
        fits = size * (_PERCENT + ratio) >= run.size * _PERCENT
        # If runs are compacted at all, those of level 0 and 1 are taken too: they would be picked again very soon.
        if not fits and not (count > start and run.level <= 1):
            break
        size += run.size
        count += 1
    return count


def _unit(runs: Sequence[SortedRun], count: int, max_level: int) -> Unit | None:
    """Return the first `count` runs, or a few more, with the deepest level that is free for them."""
    level = max_level
    if count < len(runs):
        level = max(0, runs[count].level - 1)
        if level == 0:
            # Nothing may come out in level 0, so the rows join the first run that lies deeper.
            while count < len(runs) and level == 0:
                level = runs[count].level
                count += 1
            level = level if count < len(runs) else max_level
    files = tuple(file for run in runs[:count] for file in run.files)
    if len(files) == 1 and files[0].level == level:
        return None
    return Unit(files, level)
