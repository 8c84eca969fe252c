"""A table in, everything that its report says out.

Always holds: only metadata is read, never a data file, and a bounded part of the history. What cannot be read is named
among the problems, and the rest is still shown: a report is most wanted of a table that is not well.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from lakewright.compact.task import Bucket
from lakewright.compact.task import buckets_of as live_buckets
from lakewright.errors import LakewrightError
from lakewright.maintenance.orphans import find_orphans
from lakewright.metadata.store import TableStore
from lakewright.read.scan import pick_snapshot
from lakewright.report.advice import advice_of
from lakewright.report.facts import (
    Buckets,
    Commit,
    Orphans,
    Partitions,
    References,
    Shortened,
    Sizes,
    TableFacts,
    Totals,
)
from lakewright.report.files import buckets_of, compaction_of, partitions_of, sizes_of
from lakewright.report.head import head_of
from lakewright.report.past import (
    branches_of,
    commit_of,
    consumers_of,
    expiry_of,
    history_of,
    schemas_of,
    tags_of,
)
from lakewright.spec.manifest import ManifestEntry
from lakewright.spec.snapshot import Snapshot
from lakewright.version import __version__

T = TypeVar("T")


class _Problems:
    """What could not be read, as it was met."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def attempt(self, what: str, read: Callable[[], T], otherwise: T) -> T:
        """Return what is read; where that fails, say so and return something else."""
        try:
            return read()
        except (LakewrightError, OSError) as error:
            self.texts.append(f"{what} could not be found out: {error}")
            return otherwise


def gather(store: TableStore, *, orphans: bool = False, now_millis: int | None = None) -> TableFacts:
    """Return everything that a report says about the newest snapshot, or the one that the table's options name.

    Orphans are looked for only if asked for, because that lists every directory of the table.
    """
    now = int(time.time() * 1000) if now_millis is None else now_millis
    problems = _Problems()
    snapshot = pick_snapshot(store)
    store.check_same_table()
    facts = TableFacts(
        made_millis=now,
        version=__version__,
        head=head_of(store),
        snapshot=None if snapshot is None else commit_of(snapshot),
        totals=Totals(),
        history=Shortened(),
        partitions=Partitions(),
        buckets=Buckets(),
        sizes=Sizes(),
        compaction=None,
        expiry=None,
        orphans=_orphans(store, problems, now) if orphans else None,
        references=_references(store, problems, 0 if snapshot is None else snapshot.id),
        schemas=problems.attempt("the history of the schema", lambda: schemas_of(store), Shortened()),
        problems=(),
    )
    if snapshot is not None:
        facts = _with_past(store, snapshot, _with_files(store, snapshot, facts, problems), problems)
    facts = replace(facts, problems=tuple(problems.texts))
    return replace(facts, advice=advice_of(facts))


def _orphans(store: TableStore, problems: _Problems, now: int) -> Orphans | None:
    def read() -> Orphans | None:
        found = find_orphans(store, now=now)
        return Orphans(found.count, found.bytes)

    return problems.attempt("files that nothing names", read, None)


def _references(store: TableStore, problems: _Problems, newest_id: int) -> References:
    return References(
        tags=problems.attempt("tags", lambda: tags_of(store), Shortened()),
        branches=problems.attempt("branches", lambda: branches_of(store), Shortened()),
        consumers=problems.attempt("consumers", lambda: consumers_of(store, newest_id), Shortened()),
    )


def _with_files(store: TableStore, snapshot: Snapshot, facts: TableFacts, problems: _Problems) -> TableFacts:
    """Add what the live files say."""
    no_entries: list[ManifestEntry] = []
    no_buckets: list[Bucket] = []
    entries = problems.attempt("the files of the table", lambda: store.manifests.live(snapshot), no_entries)
    if not entries:
        return facts
    buckets = problems.attempt("the buckets", lambda: live_buckets(store, snapshot, entries), no_buckets)
    partitions = partitions_of(store, entries)
    return replace(
        facts,
        totals=problems.attempt("the manifests", lambda: _totals(store, snapshot, entries), Totals()),
        partitions=partitions,
        buckets=problems.attempt("the buckets", lambda: buckets_of(store, entries, buckets), Buckets()),
        sizes=sizes_of(store, entries),
        compaction=problems.attempt(
            "what a compaction would do", lambda: compaction_of(store, buckets, now_millis=facts.made_millis), None
        ),
    )


def _totals(store: TableStore, snapshot: Snapshot, entries: list[ManifestEntry]) -> Totals:
    manifests = store.manifests.files_of(snapshot)
    indexes = [] if snapshot.index_manifest is None else store.manifests.read_index(snapshot.index_manifest)
    return Totals(
        files=len(entries),
        rows=sum(entry.file.row_count for entry in entries),
        bytes=sum(entry.file.file_size for entry in entries),
        partitions=len({entry.partition for entry in entries}),
        buckets=len({(entry.partition, entry.bucket) for entry in entries}),
        manifests=len(manifests),
        manifest_bytes=sum(manifest.file_size for manifest in manifests),
        index_files=len(indexes),
        index_bytes=sum(entry.file.file_size for entry in indexes),
    )


def _with_past(store: TableStore, snapshot: Snapshot, facts: TableFacts, problems: _Problems) -> TableFacts:
    """Add what the history says."""
    live_bytes = facts.totals.bytes if facts.totals.files or not problems.texts else None
    unknown: Shortened[Commit] = Shortened()
    history = problems.attempt("the history", lambda: history_of(store, snapshot, live_bytes), unknown)
    expiry = problems.attempt(
        "what an expiry would remove",
        lambda: expiry_of(store, history, files=facts.totals.files, now_millis=facts.made_millis),
        None,
    )
    return replace(facts, history=history, expiry=expiry)
