"""Data files that the newest snapshot names and that do not exist: found, and removed from the table in one commit.

What always holds: a file is taken off only after the storage said twice that it is not there, and only from the newest
snapshot; its deletion vector goes with it. Older snapshots and tags stay as they are. A storage that fails to answer is
an error, never a missing file. If others changed the same files meanwhile, everything is looked up again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from lakewright.commit.committer import Committer
from lakewright.commit.message.message import CommitMessage
from lakewright.commit.retry import Retries, publish_on_newest
from lakewright.display.notebook import InNotebook
from lakewright.errors import CorruptTableError, UnsupportedError
from lakewright.metadata.store import TableStore
from lakewright.spec.datafile import DELETION_VECTORS
from lakewright.spec.manifest import IndexEntry, ManifestEntry
from lakewright.spec.snapshot import Snapshot
from lakewright.update.change import Applied, ChangeJob, Vector
from lakewright.update.vectors import fold_vectors

_THREADS = 16


@dataclass(frozen=True, slots=True)
class UnexistingResult(InNotebook):
    """The missing files that were taken off the newest snapshot, or would be."""

    snapshot_id: int | None  # None: nothing was published
    paths: tuple[str, ...]
    rows: int  # that the files had
    dry_run: bool

    @property
    def count(self) -> int:
        """How many files there are."""
        return len(self.paths)


def remove_unexisting(store: TableStore, *, dry_run: bool) -> UnexistingResult:
    """Take the missing data files off the newest snapshot, in one commit; with `dry_run` only find them."""
    store.check_same_table()
    if store.options.data_evolution_enabled():
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

    published = publish_on_newest(store, prepare, publish, Retries.of(store)).published
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
    return (*removed, *fold_vectors(job, Applied(vectors=tuple(vectors))))


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
