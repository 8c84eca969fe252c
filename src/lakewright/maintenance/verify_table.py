"""Verification of one table, on any engine."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TypeAlias

import numpy as np

from lakewright.engine.engine import Engine, Job, TaskId, TaskResult, Work
from lakewright.errors import InvalidInputError, LakewrightError, pluralize
from lakewright.formats.deletion_vectors import Positions, read_deletion_vector
from lakewright.maintenance.orphan_files import DAY_MILLIS, orphan_candidates
from lakewright.maintenance.verify_files import FileChecker, check_hashes_apart, check_index_file, check_ranges
from lakewright.maintenance.verify_findings import (
    FAST,
    FOOTERS,
    FULL_DEPTH,
    FileReport,
    FileTask,
    Findings,
    IdRun,
    VerifyResult,
)
from lakewright.maintenance.verify_states import (
    BranchWalk,
    Files,
    FileSizes,
    ManifestFiles,
    Needed,
    all_states,
    newest_state,
)
from lakewright.metadata.table_store import TableStore
from lakewright.spec import argument_checks
from lakewright.spec.manifest import DELETION_VECTORS, DataFile, count_rows, is_side_file
from lakewright.spec.schema_checks import check_options_for_read
from lakewright.storage.storage import FileInfo

# ---- Running a verification ------------------------------------------------------------------------------------------
# list old files -> walk the states -> check index files -> check data files -> row ids -> orphans
#
# Invariant: damage is a finding and never an error; only wrong arguments and a storage that cannot be reached
# raise. Nothing is written. Files are checked in threads, a batch of rows of each at a time. A state that expired
# while its files were checked is left out of the result.

LATEST, ALL = "latest", "all"
THREADS_MAX = 8
PROGRESS_FILES = 1000  # files between two messages about progress

Say: TypeAlias = Callable[[str], None]
RunChecks: TypeAlias = Callable[[TableStore, Sequence[FileTask], str], Iterable[FileReport]]


def check_here(store: TableStore, tasks: Sequence[FileTask], depth: str) -> Iterator[FileReport]:
    """Check files in threads of this process; the reports come in the order of the tasks."""
    checker = FileChecker(store, depth)
    threads = min(THREADS_MAX, (os.cpu_count() or 1) if depth == FULL_DEPTH else THREADS_MAX)
    with ThreadPoolExecutor(threads) as pool:
        yield from pool.map(checker.check, tasks)


def verify_table(
    store: TableStore,
    *,
    depth: str,
    states: str,
    run: RunChecks = check_here,
    say: Say = lambda _: None,
    now_millis: int | None = None,
) -> VerifyResult:
    """Return what is wrong with a table; see `lakewright.verify.tasks` for the depths."""
    begin = time.perf_counter()
    check_options_for_read(store.schema)
    store.check_same_table()
    now = time.time_ns() // 1_000_000 if now_millis is None else now_millis
    findings = Findings()
    # Old files are listed before the states are read, so that files of a commit in between are seen as used.
    old = (
        [info for info in orphan_candidates(store) if info.modified_millis < now - DAY_MILLIS] if states == ALL else []
    )
    manifests = ManifestFiles(FileSizes(store.storage), findings)
    files = Files()
    walks = _walk(store, states, manifests, files, findings)
    count = sum(len(walk.branch.states) for walk in walks)
    say(f"read {pluralize(count, 'state')} and {pluralize(manifests.count, 'manifest')} of {store.name}")
    _check_index_files(store, files, findings, depth)
    present = _check_presence(manifests.listing, files, findings, store)
    rows, size = 0, 0
    runs: dict[str, tuple[IdRun, ...]] = {}
    if depth == FAST:
        rows, size = count_rows(n.task.file for n in present), sum(n.task.file.file_size for n in present)
    else:
        reports = run(store, [needed.task for needed in present], depth)
        for number, (needed, report) in enumerate(zip(present, reports, strict=True), start=1):
            findings.extend(report.findings, state=needed.state)
            rows, size = rows + report.rows, size + report.file_bytes
            runs[needed.path] = report.id_runs
            if number % PROGRESS_FILES == 0:
                say(f"checked {number:,} of {pluralize(len(present), 'file')}")
    if depth == FULL_DEPTH:
        for walk in walks:
            _check_id_runs(walk, runs, findings)
            findings.extend(check_hashes_apart(walk.branch.store, walk.index))
    if states == ALL:
        _check_orphans(old, manifests.used, findings, store)
    found = findings.sort_findings(without=_find_expired_files(store, findings))
    seconds = time.perf_counter() - begin
    return VerifyResult(found, count, manifests.count, len(files.data) + len(files.index), rows, size, seconds)


def _walk(
    store: TableStore, states: str, manifests: ManifestFiles, files: Files, findings: Findings
) -> list[BranchWalk]:
    walks = []
    for branch in all_states(store, findings) if states == ALL else newest_state(store, findings):
        walk = BranchWalk(branch, manifests, findings, files)
        for state in branch.states:
            walk.visit(state)
        walk.finish()
        walks.append(walk)
    return walks


def _check_index_files(store: TableStore, files: Files, findings: Findings, depth: str) -> None:
    listing = FileSizes(store.storage)
    for needed in files.index.values():
        actual = listing.size(needed.path)
        findings.extend(check_ranges(needed), state=needed.state)
        if actual is None:
            text = f"{needed.path} is missing, though {needed.state} needs it"
            findings.add("missing-file", needed.path, text, state=needed.state)
        elif actual != needed.file.file_size:
            text = f"{needed.path} has {pluralize(actual, 'byte')} where {needed.file.file_size:,} are recorded"
            findings.add("wrong-size", needed.path, text, state=needed.state)
        elif depth != FAST:
            findings.extend(check_index_file(store, needed), state=needed.state)


def _check_presence(listing: FileSizes, files: Files, findings: Findings, store: TableStore) -> list[Needed]:
    """Return the data files that exist with their sizes; what is missing or has another size is a finding."""
    present = []
    for needed in files.data.values():
        actual, recorded = listing.size(needed.path), needed.task.file.file_size
        if actual is None:
            text = f"{needed.path} is missing, though {needed.state} needs it"
            findings.add("missing-file", needed.path, text, state=needed.state)
        elif actual != recorded:
            text = f"{needed.path} has {pluralize(actual, 'byte')} where {recorded:,} are recorded"
            findings.add("wrong-size", needed.path, text, state=needed.state)
        else:
            present.append(needed)
        for name in needed.task.file.extra_files:
            path = f"{needed.path.rpartition('/')[0]}/{name}"
            if store.layout.may_lie_at(path) and "/" not in name and listing.size(path) is None:
                text = f"{path} is missing, though it belongs to {needed.path}"
                findings.add("missing-file", path, text, state=needed.state)
    return present


def _check_id_runs(walk: BranchWalk, runs: dict[str, tuple[IdRun, ...]], findings: Findings) -> None:
    """Every row id is that of one live row, also of rows that were moved and carry their ids."""
    store = walk.branch.store
    options = store.options
    state = walk.branch.states[-1] if walk.branch.states else None
    tracked = options.row_tracking_enabled and not options.data_evolution_enabled
    if not tracked or state is None:
        return
    vectors = _vectors(walk)
    spans: list[tuple[int, int, str]] = []
    for entry in walk.live.values():
        file = entry.file
        if is_side_file(file):
            continue
        path = walk.path_of(entry, state)
        if path is None:
            continue  # reported already: the entry names a file outside the table
        deleted = vectors.get(file.file_name)
        for position, first, count in runs.get(path) or _own_run(file):
            spans += [(low, high, path) for low, high in _live_ranges(position, first, count, deleted)]
    spans.sort()
    end = -1
    for low, high, path in spans:
        if low <= end:
            text = f"{path} has the row id {low}, which another row has too"
            findings.add("row-ids", path, text, state=state.path)
        end = max(end, high)


def _own_run(file: DataFile) -> tuple[IdRun, ...]:
    return () if file.first_row_id is None else ((0, file.first_row_id, file.row_count),)


def _live_ranges(position: int, first: int, count: int, deleted: Positions | None) -> Iterator[tuple[int, int]]:
    """Yield the ranges of row ids of a run without those of deleted rows, first and last included."""
    start = position
    inside = [] if deleted is None else deleted[(deleted >= position) & (deleted < position + count)].tolist()
    for gone in (*inside, position + count):
        if gone > start:
            yield first + start - position, first + gone - 1 - position
        start = gone + 1


def _vectors(walk: BranchWalk) -> dict[str, Positions]:
    """Return the deleted positions of the live files of a branch, by file name; unreadable vectors are left out."""
    store = walk.branch.store
    out: dict[str, Positions] = {}
    for entry in walk.index:
        if entry.file.index_type != DELETION_VECTORS:
            continue
        directory = store.layout.bucket_directory(store.partition_directory(entry.partition), entry.bucket)
        path = store.layout.index_file(entry.file, directory)
        with suppress(LakewrightError, FileNotFoundError), store.storage.open_input(path) as source:
            for vector in entry.file.deletion_ranges or ():  # a damaged one is reported by the check of the file
                out[vector.data_file] = read_deletion_vector(source, vector, path=path).astype(np.int64)
    return out


def _check_orphans(old: Sequence[FileInfo], used: set[str], findings: Findings, store: TableStore) -> None:
    if findings.incomplete:
        text = "files that nothing names were not looked for, as some metadata cannot be read"
        findings.add("orphans-unknown", store.layout.root, text)
        return
    for info in old:
        if info.path.rpartition("/")[2] not in used:
            findings.add("orphan", info.path, f"nothing names {info.path} ({pluralize(info.size, 'byte')})")


def _find_expired_files(store: TableStore, findings: Findings) -> frozenset[str]:
    """Return the files of states that are gone by now: what was found there is no damage."""
    if store.home.history is not None:
        return frozenset()
    return frozenset(path for path in findings.states() if not store.storage.exists(path))


# ---- On workers ------------------------------------------------------------------------------------------------------

SHARES_PER_WORKER = 4  # so that a share of large files does not keep all others waiting


def checking_on(workers: Engine[Work]) -> RunChecks:
    """Return how data files are checked by workers."""
    return partial(_run, workers)


def _run(workers: Engine[Work], store: TableStore, tasks: Sequence[FileTask], depth: str) -> list[FileReport]:
    if not tasks:
        return []
    count = min(len(tasks), SHARES_PER_WORKER * workers.tasks_at_once)
    shares = [[task.serialize() for task in tasks[first::count]] for first in range(count)]
    what = f"verify {len(tasks)} files of {store.name}"
    work = workers.share_out(shares, partial(_check, store, depth), description=what)
    answers = workers.run(Job(store, str(uuid.uuid4()), work)).results
    reports: dict[int, FileReport] = {}
    for first, result in enumerate(answers):
        reports |= {first + n * count: FileReport.deserialize(one) for n, one in enumerate(result.data.split(b"\n"))}
    return [reports[number] for number in range(len(tasks))]


def _check(store: TableStore, depth: str, _this: TaskId, tasks: Iterator[bytes]) -> TaskResult:
    """Check the files of one share, on a worker; JSON has no line breaks, so these part the reports."""
    checker = FileChecker(store, depth)
    return TaskResult(data=b"\n".join(checker.check(FileTask.deserialize(task)).serialize() for task in tasks))


# ---- Arguments -------------------------------------------------------------------------------------------------------


def check_depth(full: object, *, fast: object, snapshots: object) -> tuple[str, str]:
    """Return the depth and the states that the arguments of `table.verify` name."""
    wants_all, wants_fast = argument_checks.check_bool("full", full), argument_checks.check_bool("fast", fast)
    if wants_all and wants_fast:
        raise InvalidInputError("give one of full and fast: all rows are read, or no data file is opened")
    states = argument_checks.check_one_of("snapshots", snapshots, (LATEST, ALL))
    return FULL_DEPTH if wants_all else FAST if wants_fast else FOOTERS, states
