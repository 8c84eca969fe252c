"""Messages of a compaction in, one COMPACT snapshot out with all that still fits the newest snapshot, and what did not.

Other writers go first: a bucket from which they took a file away, or deleted rows, is left out, its new files are
deleted and its place is returned. Always holds: no file is deleted that a snapshot names or may name.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from lakewright.commit.committer import NOT_PUBLISHED, Committer
from lakewright.commit.files import delete_written, files_of
from lakewright.commit.message.message import CommitMessage
from lakewright.commit.overwrite import PartitionSelection
from lakewright.commit.plan import live_files_in
from lakewright.compact.rounds import OVERTAKEN, CompactResult, result_of
from lakewright.compact.task import Place, vectors_of, vectors_of_files
from lakewright.compact.vectors import fold_vectors
from lakewright.errors import LakewrightError
from lakewright.metadata.store import TableStore
from lakewright.spec.snapshot import Snapshot

_TRIES_MAX = 3  # to publish without those buckets that no longer fit


@dataclass(frozen=True, slots=True)
class RoundEnd:
    """What one round published, the buckets that it could not, and the error that said so."""

    result: CompactResult
    lost: frozenset[Place] = frozenset()
    error: LakewrightError | None = None


def publish_fitting(store: TableStore, base: Snapshot, messages: Sequence[CommitMessage]) -> RoundEnd:
    """Publish the messages that were made on a snapshot, without those that other commits made impossible."""
    made, lost, last = list(messages), set[Place](), None
    for _ in range(_TRIES_MAX):
        try:
            published = _publish(store, base, made)
        except OVERTAKEN as error:
            last = error
        else:
            counts = replace(result_of(made), snapshot_id=None if published is None else published.id)
            return RoundEnd(counts, frozenset(lost), last)
        newest = store.snapshots.latest()
        fitting = [] if newest is None or newest.id == base.id else _fitting(store, base, newest, made)
        gone = [message for message in made if message not in fitting]
        lost |= {_place(message) for message in gone}
        delete_written(store, files_of(store, gone))
        made = fitting
        if not made or not gone or newest is None:
            break
        base = newest
    delete_written(store, files_of(store, made))
    return RoundEnd(CompactResult(None), frozenset(lost | {_place(message) for message in made}), last)


def place_name(store: TableStore, place: Place) -> str:
    """Return how a result names a bucket."""
    partition = store.partition_name(place[0])
    return f"{partition}, bucket {place[1]}" if store.schema.partition_keys else f"bucket {place[1]}"


def _publish(store: TableStore, base: Snapshot, made: Sequence[CommitMessage]) -> Snapshot | None:
    """Publish messages; if this is refused, their files stay, and others that were written for the commit do not."""
    ready = list(made) if store.schema.primary_keys else fold_vectors(store, base, made)
    try:
        return Committer(store, sole=True, keeps_files=True).commit(ready)
    except NOT_PUBLISHED as error:
        kept = set(files_of(store, made)) if isinstance(error, OVERTAKEN) else set()
        with suppress(OSError):
            delete_written(store, [file for file in files_of(store, ready) if file not in kept])
        raise


def _fitting(
    store: TableStore, base: Snapshot, newest: Snapshot, messages: Sequence[CommitMessage]
) -> list[CommitMessage]:
    """Return the messages whose files are all live still, with the same deleted rows."""
    partitions = PartitionSelection(partitions=frozenset(message.partition_bytes for message in messages))
    live: dict[Place, set[str]] = {}
    for entry in live_files_in(store, newest, partitions):
        live.setdefault((entry.partition, entry.bucket), set()).add(entry.file.file_name)
    before, after = vectors_of(store, base), vectors_of(store, newest)

    def fits(message: CommitMessage) -> bool:
        place, names = _place(message), {file.file_name for file in message.compact_before}
        ranges = (
            {(file.file_name, *(file.deletion_ranges or ())) for file in vectors_of_files(some.get(place, ()), names)}
            for some in (before, after)
        )
        return names <= live.get(place, set()) and len({frozenset(some) for some in ranges}) == 1

    return [message for message in messages if fits(message)]


def _place(message: CommitMessage) -> Place:
    return message.partition_bytes, message.bucket
