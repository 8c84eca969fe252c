"""Repair hints, tags, branches; remove entries of missing files."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from lakewright.commit.commit_loop import RetryPolicy, plan_and_publish
from lakewright.commit.commit_message import CommitMessage
from lakewright.commit.committer import Committer
from lakewright.display import HtmlRepr
from lakewright.dml.row_changes import AppliedChanges, ChangeJob, Vector
from lakewright.dml.vector_updates import fold_vectors
from lakewright.errors import CorruptTableError, NotFoundError, UnsupportedError
from lakewright.maintenance.branches import is_cut_short
from lakewright.maintenance.orphan_files import DAY_MILLIS
from lakewright.metadata.refs import HIDDEN_BRANCH, branches
from lakewright.metadata.table_store import TableStore
from lakewright.spec.manifest import DELETION_VECTORS, IndexEntry, ManifestEntry
from lakewright.spec.snapshot import Snapshot

# ---- Entries of missing files ----------------------------------------------------------------------------------------
# Invariant: a file is taken off only after the storage said twice that it is not there, and only from the
# newest snapshot; its deletion vector goes with it. Older snapshots and tags stay as they are. A storage that fails
# to answer is an error, never a missing file. If others changed the same files meanwhile, everything is looked up
# again.

_THREADS = 16


@dataclass(frozen=True, slots=True)
class UnexistingResult(HtmlRepr):
    """The missing files that were taken off the newest snapshot, or would be."""

    snapshot_id: int | None  # None: nothing was published
    paths: tuple[str, ...]
    rows: int  # that the files had
    dry_run: bool

    @property
    def count(self) -> int:
        """How many files there are."""
        return len(self.paths)


def remove_missing_files(store: TableStore, *, dry_run: bool) -> UnexistingResult:
    """Take the missing data files off the newest snapshot, in one commit; with `dry_run` only find them."""
    store.check_same_table()
    if store.options.data_evolution_enabled:
        raise UnsupportedError(
            f"{store.name}: files of a table with data evolution hold columns of the same rows, so that one cannot go "
            "alone; roll back to a snapshot whose files exist",
            table=store.name,
        )
    if dry_run:
        newest = store.snapshots.latest()
        return _result(store, None, [] if newest is None else missing_files(store, newest), dry_run=True)
    found: list[ManifestEntry] = []

    def prepare(base: Snapshot | None) -> tuple[CommitMessage, ...]:
        found[:] = [] if base is None else missing_files(store, base)
        return () if base is None or not found else _messages(store, base, found)

    def publish(messages: tuple[CommitMessage, ...], _: Snapshot | None) -> Snapshot | None:
        return Committer(store, sole=True).commit(messages, operation="DELETE") if messages else None

    published = plan_and_publish(store, prepare, publish, RetryPolicy.of(store)).published
    return _result(store, None if published is None else published.id, found, dry_run=False)


def missing_files(store: TableStore, snapshot: Snapshot) -> list[ManifestEntry]:
    """Return the live entries of a snapshot whose files do not exist; each is looked for twice."""
    entries = store.manifests.live(snapshot)
    with ThreadPoolExecutor(_THREADS) as pool:
        sizes = pool.map(lambda entry: store.storage.size(path_of(store, entry)), entries)
        missing = [entry for entry, size in zip(entries, sizes, strict=True) if size is None]
    return [entry for entry in missing if store.storage.size(path_of(store, entry)) is None]


def path_of(store: TableStore, entry: ManifestEntry) -> str:
    """Return the path of a data file."""
    return store.layout.data_file(store.partition_directory(entry.partition), entry.bucket, entry.file)


def _messages(store: TableStore, base: Snapshot, missing: Sequence[ManifestEntry]) -> tuple[CommitMessage, ...]:
    job = ChangeJob.on(store, base)
    names = {(entry.partition, entry.bucket, entry.file.file_name) for entry in missing}
    index = [] if base.index_manifest is None else store.manifests.read_index(base.index_manifest)
    vectors = list(_vectors(store, index, names, {(e.partition, e.bucket): e.total_buckets for e in missing}))
    by_bucket: dict[tuple[bytes, int, int], list[ManifestEntry]] = {}
    for entry in missing:
        by_bucket.setdefault((entry.partition, entry.bucket, entry.total_buckets), []).append(entry)
    removed = [job.message(place, deleted_files=[e.file for e in some]) for place, some in by_bucket.items()]
    return (*removed, *fold_vectors(job, AppliedChanges(vectors=tuple(vectors))))


def _vectors(
    store: TableStore,
    index: Sequence[IndexEntry],
    names: set[tuple[bytes, int, str]],
    totals: dict[tuple[bytes, int], int],
) -> Iterator[Vector]:
    """Yield the vectors of missing files, to be dropped; an index file with them that is missing too is an error."""
    for entry in index:
        ranges = entry.file.deletion_ranges or () if entry.file.index_type == DELETION_VECTORS else ()
        gone = [one for one in ranges if (entry.partition, entry.bucket, one.data_file) in names]
        place = store.layout.bucket_directory(store.partition_directory(entry.partition), entry.bucket)
        path = store.layout.index_file(entry.file, place)
        if gone and not store.storage.exists(path):
            raise CorruptTableError(
                f"{store.name}: the deletion vectors in {path} are missing as well: without them, deleted rows of "
                "other files would come back; restore the file from a copy, or roll back",
                table=store.name,
                path=path,
            )
        for one in gone:
            bucket = entry.partition, entry.bucket, totals[entry.partition, entry.bucket]
            yield Vector(bucket, one.data_file, 0, None)


def _result(
    store: TableStore, snapshot_id: int | None, missing: Sequence[ManifestEntry], *, dry_run: bool
) -> UnexistingResult:
    paths = tuple(path_of(store, entry) for entry in missing)
    return UnexistingResult(snapshot_id, paths, sum(entry.file.row_count for entry in missing), dry_run)


# ---- Repair ----------------------------------------------------------------------------------------------------------
# Nothing that can be read is removed: a tag goes only if its file, its manifests or all of its data files are gone,
# and left-overs of branches only if they are older than a day, because a call may still be writing them. Each step is
# one call of the storage that leaves a whole table, so that a repair that is cut short is finished by the next one.

HINT, TAG, BRANCH, SNAPSHOT = "hint", "tag", "branch", "snapshot"


@dataclass(frozen=True, slots=True)
class RepairStep:
    """One thing that was wrong, and what was done about it, or would be."""

    kind: str  # "hint", "tag", "branch" or "snapshot"
    path: str
    message: str
    repaired: bool  # False: it is only reported, and the message says what to do


@dataclass(frozen=True, slots=True)
class RepairResult(HtmlRepr):
    """All that a repair found."""

    steps: tuple[RepairStep, ...]
    dry_run: bool

    @property
    def is_empty(self) -> bool:
        """Whether nothing was wrong."""
        return not self.steps


def repair(store: TableStore, *, dry_run: bool, now_millis: int | None = None) -> RepairResult:
    """Repair hints, tags and left-overs of branches; with `dry_run` only say what would be done."""
    if store.home.history is not None:
        raise UnsupportedError(
            f"{store.name}: a server owns its history, with its hints, tags and branches; nothing is repaired here",
            table=store.name,
        )
    store.check_same_table()
    now = int(time.time() * 1000) if now_millis is None else now_millis
    steps = [*_tags(store, dry_run=dry_run), *_branches(store, now - DAY_MILLIS, dry_run=dry_run)]
    return RepairResult((*_newest(store), *_hints(store, dry_run=dry_run), *steps), dry_run)


def _newest(store: TableStore) -> Iterator[RepairStep]:
    """Report a newest snapshot that cannot be read: only a person can return whether what it committed may be lost."""
    for snapshot_id in store.snapshots.ids()[-1:]:
        try:
            store.snapshots.get(snapshot_id)
        except CorruptTableError as error:
            yield RepairStep(SNAPSHOT, store.layout.snapshot_file(snapshot_id), error.message, repaired=False)
        except NotFoundError:
            return  # it was rolled back


def _hints(store: TableStore, *, dry_run: bool) -> Iterator[RepairStep]:
    ids = store.snapshots.ids()
    layout = store.layout
    for path, right in ((layout.latest_hint, ids[-1:]), (layout.earliest_hint, ids[:1])):
        try:
            text = store.storage.read(path).decode("ascii", "replace").strip()
        except FileNotFoundError:
            text = None
        wanted = str(right[0]) if right else None
        if text == wanted:
            continue
        name, was = path.rpartition("/")[2], "is missing" if text is None else f"says {text[:20]!r}"
        message = f"{name} {was}; {'the table has no snapshot' if wanted is None else f'it is {wanted}'}"
        if not dry_run and wanted is None:
            store.storage.delete(path)
        elif not dry_run and wanted is not None:
            store.storage.replace(path, wanted.encode())
        yield RepairStep(HINT, path, message, repaired=True)


def _tags(store: TableStore, *, dry_run: bool) -> Iterator[RepairStep]:
    for name in store.tags.list():
        found = _what_is_wrong(store, name)
        if found is None:
            continue
        reason, is_lost = found
        path = store.layout.tag_file(name)
        advice = "it is removed" if is_lost else "delete_tag removes it, if you do not need the rest"
        if is_lost and not dry_run:
            store.storage.delete(path)
        yield RepairStep(TAG, path, f"the tag {name!r}: {reason}; {advice}", repaired=is_lost)


def _what_is_wrong(store: TableStore, name: str) -> tuple[str, bool] | None:
    """Return why a tag cannot be read, and whether all of it is lost; None if it can be read."""
    try:
        snapshot = store.tags.get(name).snapshot
        entries = store.manifests.without_cache().live(snapshot)
        missing = missing_files(store, snapshot)
    except FileNotFoundError as error:
        return f"{error.filename or error} is missing", True
    except CorruptTableError as error:
        return f"it cannot be read ({error.message})", True
    except NotFoundError:
        return None  # it was deleted
    if not missing:
        return None
    return f"{len(missing)} of its {len(entries)} data files are missing", len(missing) == len(entries)


def _branches(store: TableStore, limit: int, *, dry_run: bool) -> Iterator[RepairStep]:
    layout, storage = store.layout, store.storage
    directories = [path.rstrip("/") for path in storage.list_directories(layout.branches_directory)]
    hidden = [path for path in directories if path.rpartition("/")[2].startswith(HIDDEN_BRANCH)]
    cut = [layout.for_branch(name) for name in branches(storage, layout)]
    cut = [branch for branch in cut if is_cut_short(store, branch)]
    for directory in (*hidden, *(branch.branch_root for branch in cut)):
        files = list(storage.walk(directory))
        if not files:
            if not dry_run:
                storage.prune_directory(directory, before_millis=limit)
            continue
        if any(info.modified_millis >= limit for info in files):
            message = f"{directory} is being made or removed, or was cut short less than a day ago; repair it later"
            yield RepairStep(BRANCH, directory, message, repaired=False)
            continue
        if not dry_run:
            storage.delete_directory(directory)
        yield RepairStep(BRANCH, directory, "work on a branch was cut short; what it left is removed", repaired=True)
