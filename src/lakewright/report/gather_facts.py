"""Facts of a table: files, past, upkeep; advice with the exact calls."""

from __future__ import annotations

import math
import shlex
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import accumulate
from typing import TypeVar

from lakewright.compact import compaction_plan
from lakewright.compact.compaction_plan import AppendRules, BucketFiles, picker
from lakewright.compact.compaction_plan import buckets_of as live_buckets
from lakewright.display import format_bytes, format_count, in_share, in_time
from lakewright.errors import LakewrightError, UnsupportedError, pluralize
from lakewright.lsm.sorted_runs import Section, sections
from lakewright.maintenance.orphan_files import branch_layouts, find_orphans
from lakewright.maintenance.snapshot_expiry import ExpireResult, Retention, expire_snapshots
from lakewright.metadata.snapshot_files import SnapshotFiles
from lakewright.metadata.table_store import TableStore
from lakewright.metadata.table_summary import Shortened, head_of, shorten
from lakewright.read.time_travel import resolve_snapshot
from lakewright.report.report_facts import (
    Advice,
    BucketFacts,
    Buckets,
    Commit,
    Compaction,
    ConsumerFacts,
    Expiry,
    Level,
    Orphans,
    PartitionFacts,
    Partitions,
    References,
    Rewrite,
    SchemaVersion,
    SizeBin,
    Sizes,
    TableFacts,
    TagFacts,
    Totals,
)
from lakewright.spec.manifest import ADD, DataFile, ManifestEntry, ManifestFile, count_rows, is_side_file
from lakewright.spec.option_checks import redact_secret
from lakewright.spec.option_values import MAX_INT
from lakewright.spec.snapshot import Snapshot
from lakewright.spec.table_schema import TableSchema
from lakewright.version import __version__

# ---- Advice ----------------------------------------------------------------------------------------------------------
# Each rule is one function that yields advice or nothing. What hides or loses rows comes first, then what costs most.

DELETED_SHARE = 0.2  # from which deleted rows are worth a full compaction
BUCKET_BYTES = 2**30  # a good size of a bucket, which one task writes and compacts
_MANY_PARTITIONS = 1000
_SMALL_PARTITION = 2**24
_MANY_MANIFESTS = 100
_SMALL_MANIFEST = 2**20
_MANY = 4


def advice_of(facts: TableFacts) -> tuple[Advice, ...]:
    """Return what to do, the most urgent first."""
    rules = (_nothing_written, _hidden, _compact, _compact_fully, _expire, _behind, _manifests, _rescale, _partitions)
    found = [advice for rule in (*rules, _advise_orphans) for advice in rule(facts)]
    return tuple(sorted(found, key=lambda advice: not advice.urgent))


def _sql(text: str) -> str:
    """Return a text as a literal of SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _call(facts: TableFacts, procedure: str, more: str = "") -> str:
    return f"CALL sys.{procedure}(table => {_sql(facts.head.name)}{more})"


def _command(facts: TableFacts, command: str, more: str = "") -> str:
    return f"lakewright {command} {shlex.quote(facts.head.name)}{more}"


def _nothing_written(facts: TableFacts) -> Iterator[Advice]:
    if facts.snapshot is None:
        yield Advice(
            "Write the first rows",
            "The table has columns and options, and no snapshot yet: there is nothing to read.",
            python="lakewright.write_table(rows, table)",
            command=f"lakewright ingest rows.parquet --table {shlex.quote(facts.head.name)}",
            sql=f"INSERT INTO {facts.head.name} VALUES (...)",  # noqa: S608 - shown, not run
        )


def _hidden(facts: TableFacts) -> Iterator[Advice]:
    """Advise about rows that batch reads leave out until a compaction: fresh ones, and those without a bucket yet."""
    buckets = facts.buckets
    for title, files, rows, where in (
        ("new rows are hidden", buckets.hidden_files, buckets.hidden_rows, "are fresh, and this table hides such rows"),
        ("rows wait for their bucket", buckets.postponed_files, buckets.postponed_rows, "lie in the postpone bucket"),
    ):
        if files:
            counts = f"{pluralize(files, 'file')} with {pluralize(rows, 'row')}"
            why = f"{counts} {where}: batch reads leave them out until then."
            yield _worthwhile(facts, f"Compact: {title}", why, urgent=True)


def _worthwhile(facts: TableFacts, title: str, why: str, *, urgent: bool) -> Advice:
    """Return the advice to compact where it is worth it."""
    return Advice(
        title,
        why,
        python="table.compact()",
        command=_command(facts, "compact"),
        sql=_call(facts, "compact", ", compact_strategy => 'minor'"),
        urgent=urgent,
    )


def _compact(facts: TableFacts) -> Iterator[Advice]:
    planned = None if facts.compaction is None else facts.compaction.worthwhile
    if planned is None or planned.files_after >= planned.files or facts.buckets.hidden_files:
        return
    why = (
        f"They would become about {planned.files_after:,}, and {format_bytes(planned.bytes)} are rewritten once. "
        "A scan of "
        f"the table opens {format_count(facts.totals.files)} files today."
    )
    urgent = planned.files >= _MANY * max(planned.files_after, 1) and planned.files * 2 > facts.totals.files
    yield _worthwhile(facts, f"Compact {pluralize(planned.files, 'file')}", why, urgent=urgent)


def _compact_fully(facts: TableFacts) -> Iterator[Advice]:
    deleted, rows = facts.buckets.deleted_rows + facts.buckets.delete_rows, facts.totals.rows
    planned = None if facts.compaction is None else facts.compaction.full
    if planned is None or not planned.files or not rows or deleted < DELETED_SHARE * rows:
        return
    yield Advice(
        f"Drop deleted rows: {in_share(deleted / rows)} of what is stored",
        f"{pluralize(deleted, 'row')} of {rows:,} are deleted or only delete others, and every scan reads them. A full "
        f"compaction rewrites {format_bytes(planned.bytes)} without them.",
        python="table.compact(full=True)",
        command=_command(facts, "compact", " --full"),
        sql=_call(facts, "compact", ", compact_strategy => 'full'"),
    )


def _expire(facts: TableFacts) -> Iterator[Advice]:
    expiry = facts.expiry
    if expiry is None or not expiry.snapshots:
        return
    freed = "" if not expiry.data_bytes else f", up to {format_bytes(expiry.data_bytes)} of data"
    yield Advice(
        f"Expire {pluralize(expiry.snapshots, 'snapshot')}",
        f"They are older than the options of the table ask for. {pluralize(expiry.files, 'file')} would be "
        f"removed with them{freed}.",
        python="table.expire_snapshots()",
        command=_command(facts, "expire"),
        sql=_call(facts, "expire_snapshots"),
    )


def _behind(facts: TableFacts) -> Iterator[Advice]:
    """Advise about the consumer that keeps most snapshots from expiring."""
    consumers = facts.references.consumers.shown
    if facts.expiry is None or not facts.expiry.left or not consumers:
        return
    slowest = consumers[0]
    yield Advice(
        f"Look after the consumer {slowest.name}",
        f"It is {pluralize(slowest.behind, 'snapshot')} behind "
        f"and keeps {pluralize(facts.expiry.left, 'snapshot')} from "
        "expiring. If no reader uses it any more, delete it.",
        sql=_call(facts, "reset_consumer", f", consumerId => {_sql(slowest.name)}"),
    )


def _manifests(facts: TableFacts) -> Iterator[Advice]:
    totals = facts.totals
    if totals.manifests >= _MANY_MANIFESTS and totals.manifest_bytes < totals.manifests * _SMALL_MANIFEST:
        yield Advice(
            f"Merge {pluralize(totals.manifests, 'manifest')}",
            f"They have {format_bytes(totals.manifest_bytes / totals.manifests)} on average, "
            "and every plan of a read opens "
            "those that its filter does not rule out.",
            python="table.compact_manifests()",
            command=_command(facts, "compact-manifests"),
            sql=_call(facts, "compact_manifest"),
        )


def _rescale(facts: TableFacts) -> Iterator[Advice]:
    """Advise about buckets that are much too large or much too small, where their number is fixed."""
    totals, has_number = facts.totals, facts.head.buckets[:1].isdigit()
    if not has_number or not totals.partitions or not totals.buckets:
        return
    mean = totals.bytes / totals.buckets
    now = int(facts.head.buckets.split(" ", 1)[0].replace(",", ""))
    fitting = max(1, math.ceil(totals.bytes / totals.partitions / BUCKET_BYTES))
    too_large, too_small = mean > _MANY * BUCKET_BYTES, mean < BUCKET_BYTES / 64 and now >= 2 * _MANY
    if fitting == now or not (too_large or too_small):
        return
    what = "large: one task reads, writes and compacts each" if too_large else "small: each costs files of its own"
    yield Advice(
        f"Use {pluralize(fitting, 'bucket')} where there are {now:,}",
        f"A bucket holds {format_bytes(mean)} on average, which is {what}. About 1 GiB is a good size.",
        python=f"table.rescale({fitting})",
        command=_command(facts, "rescale", f" {fitting}"),
        sql=_call(facts, "rescale", f", bucket_num => {fitting}"),
    )


def _partitions(facts: TableFacts) -> Iterator[Advice]:
    partitions = facts.partitions
    if partitions.largest.total >= _MANY_PARTITIONS and partitions.median_bytes < _SMALL_PARTITION:
        yield Advice(
            "Partition more coarsely",
            f"Half of the {partitions.largest.total:,} partitions "
            f"hold {format_bytes(partitions.median_bytes)} or less, and "
            "each has files of its own: scans open many small files that no compaction can join. A table by month in "
            "place of day, or without the finest column, is read faster. Make it anew and load it from this one.",
        )


def _advise_orphans(facts: TableFacts) -> Iterator[Advice]:
    if facts.orphans is not None and facts.orphans.files:
        yield Advice(
            f"Remove {pluralize(facts.orphans.files, 'file')} that nothing names",
            f"They take {format_bytes(facts.orphans.bytes)} and were left by writers that failed; "
            "all are older than a day.",
            python="table.remove_orphan_files()",
            command=_command(facts, "remove-orphans", " --delete"),
            sql=_call(facts, "remove_orphan_files"),
        )


# ---- Files -----------------------------------------------------------------------------------------------------------
# Plain functions of metadata: nothing is opened. What a read of a bucket returns is an estimate where files hold
# several versions of one key, because only their rows would tell: of each section the run with the most rows counts.

TOP = 20
PROFILE_GROUPS = 48
RUNS_BINS = 12
_TENTH = 10
# Each bin is four times as wide as the one before it: files of a table spread over many orders of magnitude.
_BIN_EDGES = (0, *(1024 * 4**step for step in range(11)))


def partitions_of(store: TableStore, entries: Iterable[ManifestEntry]) -> Partitions:
    """Return the largest partitions, and how uneven all of them are."""
    grouped: dict[bytes, list[int]] = {}
    for entry in entries:
        counts = grouped.setdefault(entry.partition, [0, 0, 0])
        counts[0] += 1
        counts[1] += entry.file.row_count
        counts[2] += entry.file.file_size
    if not grouped:
        return Partitions()
    ordered = sorted(grouped.items(), key=lambda item: (-item[1][2], item[0]))
    sizes = [counts[2] for _, counts in ordered]
    largest = tuple(PartitionFacts(store.partition_name(partition), *counts) for partition, counts in ordered[:TOP])
    return Partitions(
        largest=Shortened(largest, len(ordered)),
        median_bytes=_median(sizes),
        profile=tuple(sum(group) // len(group) for group in _groups(sizes)),
        top_share=sum(sizes[: math.ceil(len(sizes) / _TENTH)]) / max(sum(sizes), 1),
    )


def _groups(sizes: Sequence[int]) -> Iterator[Sequence[int]]:
    """Yield neighbours in groups of nearly equal length."""
    count = min(PROFILE_GROUPS, len(sizes))
    for group in range(count):
        yield sizes[group * len(sizes) // count : (group + 1) * len(sizes) // count]


def _median(ordered: Sequence[int]) -> int:
    return ordered[len(ordered) // 2] if ordered else 0


def sizes_of(store: TableStore, entries: Sequence[ManifestEntry]) -> Sizes:
    """Return the sizes of the data files in bins, and how many are small."""
    keyed = bool(store.schema.primary_keys)
    target = store.options.data_file_size(has_primary_key=keyed)
    small_below = int(target * store.options.compaction_small_file_ratio)
    sizes = sorted(entry.file.file_size for entry in entries)
    bins: dict[int, list[int]] = {}
    for size in sizes:
        counts = bins.setdefault(_bin(size), [0, 0])
        counts[0] += 1
        counts[1] += size
    first, last = min(bins, default=0), max((*bins, _bin(target)), default=0)
    return Sizes(
        target=target,
        small_below=small_below,
        small_files=sum(size < small_below for size in sizes),
        median=_median(sizes),
        bins=tuple(
            SizeBin(_BIN_EDGES[at], (*_BIN_EDGES, 2**63)[at + 1], *bins.get(at, (0, 0)))
            for at in range(min(first, _bin(target)), last + 1)
        )
        if sizes
        else (),
    )


def _bin(size: int) -> int:
    return max(at for at, low in enumerate(_BIN_EDGES) if low <= size)


def buckets_of(
    store: TableStore, entries: Iterable[ManifestEntry], buckets: Sequence[compaction_plan.BucketFiles]
) -> Buckets:
    """Return what buckets hold and what reading them costs."""
    measured = [_measure_bucket(store, bucket) for bucket in buckets]
    postponed = [entry.file for entry in entries if entry.bucket < 0]
    hides = bool(store.schema.primary_keys) and store.options.hides_level_0
    hidden = [file for bucket in buckets for file in bucket.files if hides and file.level == 0]
    runs = Counter(min(bucket.runs, RUNS_BINS) for bucket in measured)
    costly = sorted(measured, key=lambda one: (-one.runs, -one.files, -one.bytes, one.partition, one.bucket))
    deleted = [one for one in measured if one.deleted_rows or one.delete_rows]
    deleted.sort(key=lambda one: (-one.deleted_share, -one.rows, one.partition, one.bucket))
    return Buckets(
        costliest=Shortened(tuple(costly[:TOP]), len(costly)),
        most_deleted=Shortened(tuple(deleted[:TOP]), len(deleted)),
        runs=tuple(sorted(runs.items())),
        runs_max=max((one.runs for one in measured), default=0),
        files_max=max((one.files for one in measured), default=0),
        level_0_files=sum(level.files for one in measured for level in one.levels if level.level == 0),
        deleted_rows=sum(one.deleted_rows for one in measured),
        delete_rows=sum(one.delete_rows for one in measured),
        answered_rows=sum(one.answered_rows for one in measured),
        hidden_files=len(hidden),
        hidden_rows=sum(file.row_count for file in hidden),
        postponed_files=len(postponed),
        postponed_rows=sum(file.row_count for file in postponed),
        unknown_vectors=sum(count is None for bucket in buckets for count in bucket.deleted_rows.values()),
    )


def _measure_bucket(store: TableStore, bucket: compaction_plan.BucketFiles) -> BucketFacts:
    levels: dict[int, list[DataFile]] = {}
    for file in bucket.files:
        levels.setdefault(file.level, []).append(file)
    deleted = sum(count or 0 for count in bucket.deleted_rows.values())
    delete_rows = sum(file.delete_row_count or 0 for file in bucket.files)
    runs, answered = _reading(store, bucket, deleted)
    return BucketFacts(
        partition=store.partition_name(bucket.place[0]),
        bucket=bucket.place[1],
        files=len(bucket.files),
        rows=count_rows(bucket.files),
        bytes=_bytes(bucket.files),
        levels=tuple(Level(level, len(some), count_rows(some), _bytes(some)) for level, some in sorted(levels.items())),
        runs=runs,
        deleted_rows=deleted,
        delete_rows=delete_rows,
        answered_rows=answered,
    )


def _reading(store: TableStore, bucket: compaction_plan.BucketFiles, deleted: int) -> tuple[int, int]:
    """Return how many runs a read of a bucket merges at most, and an estimate of the rows that it returns."""
    if not store.schema.primary_keys:
        # Files with large values of other files' rows, or with some of their columns, hold no rows of their own.
        whole = [file for file in bucket.files if not is_side_file(file)]
        distinct = {file.first_row_id: file.row_count for file in whole if file.first_row_id is not None}
        evolved = store.options.data_evolution_enabled and distinct
        return 1, max(0, (sum(distinct.values()) if evolved else count_rows(whole)) - deleted)
    if store.options.hides_level_0:
        return 1, max(0, count_rows(file for file in bucket.files if file.level > 0) - deleted)
    parts = sections(bucket.files, [field.type for field in store.schema.trimmed_primary_key_fields])
    runs = max((len(part.runs) for part in parts), default=1)
    return runs, max(0, sum(map(_answered_rows, parts)) - deleted)


def _answered_rows(section: Section) -> int:
    return max(sum(file.row_count - (file.delete_row_count or 0) for file in run) for run in section.runs)


def _bytes(files: Iterable[DataFile]) -> int:
    return sum(file.file_size for file in files)


def compaction_of(store: TableStore, buckets: Sequence[compaction_plan.BucketFiles], *, now_millis: int) -> Compaction:
    """Return what compactions would rewrite, as they would pick it; an error says why the table cannot be compacted."""
    compaction_plan.check_compactable(store)
    groups = [list(_picked_files(store, buckets, full=full, now_millis=now_millis)) for full in (False, True)]
    return Compaction(*(_rewrite(store, some) for some in groups))


def _picked_files(
    store: TableStore, buckets: Sequence[compaction_plan.BucketFiles], *, full: bool, now_millis: int
) -> Iterator[tuple[compaction_plan.PartitionBucket, Sequence[DataFile]]]:
    """Yield the files that would be rewritten together."""
    rules = AppendRules.of(store.options, full=full)
    for bucket in buckets:
        if store.schema.primary_keys:
            unit = compaction_plan.unit_of(store, bucket, full=full, now_ms=now_millis)
            if unit is not None:
                yield bucket.place, unit.files
        else:
            for units in picker(store)(rules, bucket):
                yield bucket.place, [file for unit in units for file in unit.files]


def _rewrite(
    store: TableStore, groups: Sequence[tuple[compaction_plan.PartitionBucket, Sequence[DataFile]]]
) -> Rewrite:
    target = min(store.options.data_file_size(has_primary_key=bool(store.schema.primary_keys)), MAX_INT)
    return Rewrite(
        buckets=len({place for place, _ in groups}),
        files=sum(len(files) for _, files in groups),
        files_after=sum(max(1, math.ceil(_bytes(files) / max(target, 1))) for _, files in groups),
        bytes=sum(_bytes(files) for _, files in groups),
    )


# ---- The past --------------------------------------------------------------------------------------------------------
# Invariant: only metadata is read, and a bounded number of files, whatever the length of the history.

SNAPSHOTS_MAX = 1000  # of which the history shows what they added
ENTRIES_MAX = 200_000  # of their manifests, all together
EXPIRED_MAX = 1000  # snapshots whose expiry is tried at once
KEPT_FILES_MAX = 1_000_000  # that tags and branches name, all together, before the dry run of an expiry is left out
REFERENCES_MAX = 50
SCHEMAS_MAX = 30
CHANGES_MAX = 12
_THREADS = 16

T = TypeVar("T")
R = TypeVar("R")


# ---- snapshots -------------------------------------------------------------------------------------------------------


def commit_of(snapshot: Snapshot) -> Commit:
    """Return a snapshot without what its manifests say."""
    return Commit(
        id=snapshot.id,
        time_millis=snapshot.time_millis,
        kind=snapshot.commit_kind.value,
        user=shorten(snapshot.commit_user, 100),
        total_rows=snapshot.total_record_count,
        delta_rows=snapshot.delta_record_count,
    )


def history_of(store: TableStore, newest: Snapshot, live_bytes: int | None) -> Shortened[Commit]:
    """Return the newest snapshots, newest first; `live_bytes` are those of the newest, from which others follow."""
    ids = [snapshot_id for snapshot_id in store.snapshots.ids() if snapshot_id <= newest.id]
    found = _each(store, store.snapshots.find, ids[-SNAPSHOTS_MAX:])
    snapshots = sorted((one for one in found if one is not None), key=lambda one: -one.id)
    deltas = _each(store, lambda one: store.manifests.read_list(one.delta_manifest_list, snapshot_id=one.id), snapshots)
    sums = accumulate(sum(file.num_added_files + file.num_deleted_files for file in files) for files in deltas)
    affordable = sum(total <= ENTRIES_MAX for total in sums)
    changes = _each(store, lambda files: _added_and_removed(store, files), deltas[:affordable])
    return Shortened(tuple(_with_bytes(map(commit_of, snapshots), changes, live_bytes)), len(ids))


def _each(store: TableStore, read: Callable[[T], R], what: Sequence[T]) -> list[R]:
    """Read several files, in threads on an object store, whose latency is high."""
    if store.storage.renames_atomically:
        return list(map(read, what))
    with ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(read, what))


def _added_and_removed(store: TableStore, files: Sequence[ManifestFile]) -> tuple[int, int]:
    """Return how many bytes a snapshot added and removed; a file that only changed its level counts in neither."""
    entries = [entry for file in files for entry in store.manifests.read(file)]
    added = {_place(entry): entry.file.file_size for entry in entries if entry.kind == ADD}
    removed = {_place(entry): entry.file.file_size for entry in entries if entry.kind != ADD}
    both = added.keys() & removed.keys()
    return tuple(sum(size for key, size in some.items() if key not in both) for some in (added, removed))  # type: ignore[return-value]


def _place(entry: ManifestEntry) -> tuple[bytes, int, str]:
    return entry.partition, entry.bucket, entry.file.file_name


def _with_bytes(
    commits: Iterator[Commit], changes: Sequence[tuple[int, int]], live_bytes: int | None
) -> Iterator[Commit]:
    """Yield commits, newest first, with bytes as far back as the changes are known."""
    total = live_bytes
    known = iter(changes)
    for commit in commits:
        change = next(known, None)
        if change is None:
            yield replace(commit, total_bytes=total)
            total = None
            continue
        added, removed = change
        yield replace(commit, added_bytes=added, removed_bytes=removed, total_bytes=total)
        total = None if total is None else max(0, total - added + removed)


# ---- expiry ----------------------------------------------------------------------------------------------------------


def expiry_of(store: TableStore, history: Shortened[Commit], *, files: int, now_millis: int) -> Expiry:
    """Return what an expiry by the table's options would remove; `files` are those of one snapshot, about."""
    _check_affordable(store, files)
    retention = replace(Retention.of_options(store.options, now_millis), limit=EXPIRED_MAX)
    found = expire_snapshots(store, retention, dry_run=True, now_millis=now_millis)
    return Expiry(
        snapshots=len(found.snapshot_ids),
        files=found.files,
        data_files=found.data_files,
        data_bytes=_freed_bytes(history, found),
        left=found.left,
        held_by=tuple(shorten(reason) for reason in found.held_by[:REFERENCES_MAX]),
    )


def _check_affordable(store: TableStore, files: int) -> None:
    """Raise an error if tags and branches name so many files that looking at all of them would take long."""
    count = 0
    for layout in branch_layouts(store):
        count += len(replace(store.tags, layout=layout).list())
        if layout.branch != store.layout.branch:
            count += len(SnapshotFiles(store.storage, layout).ids())
    if count * files > KEPT_FILES_MAX:
        raise UnsupportedError(
            f"{pluralize(count, 'tag')} and snapshots of branches "
            f"with about {pluralize(files, 'file')} each would have "
            "to be read; table.expire_snapshots(dry_run=True) does so"
        )


def _freed_bytes(history: Shortened[Commit], found: ExpireResult) -> int | None:
    """Return the bytes of data files that become free: those that later snapshots up to the first kept one removed."""
    if not found.snapshot_ids:
        return 0
    first, last = found.snapshot_ids[0], found.snapshot_ids[-1]
    later = sorted((one for one in history.shown if one.id > first), key=lambda one: one.id)
    kept = next((one.id for one in later if one.id > last), None)
    counted_in = [one.removed_bytes for one in later if kept is not None and one.id <= kept]
    complete = len(history.shown) == history.total and kept is not None and None not in counted_in
    return sum(size or 0 for size in counted_in) if complete else None


# ---- tags, branches, consumers ---------------------------------------------------------------------------------------


def tags_of(store: TableStore) -> Shortened[TagFacts]:
    """Return the tags, those of the newest snapshots first."""
    names = store.tags.list()
    found = _each(store, store.tags.get, names[-REFERENCES_MAX:])
    shown = sorted(found, key=lambda tag: (-tag.snapshot.id, tag.name))
    return Shortened(
        tuple(
            TagFacts(
                name=tag.name,
                snapshot_id=tag.snapshot.id,
                time_millis=tag.snapshot.time_millis,
                rows=tag.snapshot.total_record_count,
                kept="for ever"
                if tag.time_retained is None
                else f"for {in_time(tag.time_retained.total_seconds() * 1000)}",
            )
            for tag in shown
        ),
        len(names),
    )


def consumers_of(store: TableStore, newest_id: int) -> Shortened[ConsumerFacts]:
    """Return the consumers, those that are most behind first."""
    positions = sorted(store.consumers.all().items(), key=lambda item: (item[1], item[0]))
    shown = (ConsumerFacts(name, number, max(0, newest_id + 1 - number)) for name, number in positions[:REFERENCES_MAX])
    return Shortened(tuple(shown), len(positions))


def branches_of(store: TableStore) -> Shortened[str]:
    """Return the names of the branches beside `main`."""
    names = store.branches()
    return Shortened(tuple(names[:REFERENCES_MAX]), len(names))


# ---- schemas ---------------------------------------------------------------------------------------------------------


def schemas_of(store: TableStore) -> Shortened[SchemaVersion]:
    """Return the newest schemas, newest first, with what each of them changed."""
    ids = store.schemas.ids()
    found = _each(store, store.schemas.get, ids[-SCHEMAS_MAX - 1 :])
    older: list[TableSchema | None] = [*([None] if len(found) <= SCHEMAS_MAX else []), *found[:-1]]
    newer = found[-len(older) :] if older else []
    versions = [
        SchemaVersion(schema.id, schema.time_millis, len(schema.fields), _few(list(_changes(before, schema))))
        for before, schema in zip(older, newer, strict=True)
    ]
    return Shortened(tuple(reversed(versions)), len(ids))


def _few(changes: list[str]) -> tuple[str, ...]:
    shown = [shorten(change) for change in changes[:CHANGES_MAX]]
    more = len(changes) - len(shown)
    return (*shown, f"and {more:,} more") if more else tuple(shown)


def _changes(before: TableSchema | None, after: TableSchema) -> Iterator[str]:
    """Yield what a schema changed, in words."""
    if before is None:
        yield f"first schema that is kept, with {pluralize(len(after.fields), 'column')}"
        return
    old, new = ({field.id: field for field in schema.fields} for schema in (before, after))
    yield from (f"added {field.name} {field.type}" for key, field in new.items() if key not in old)
    yield from (f"dropped {field.name}" for key, field in old.items() if key not in new)
    for key in (key for key in new if key in old):
        one, other = old[key], new[key]
        if one.name != other.name:
            yield f"renamed {one.name} to {other.name}"
        if str(one.type) != str(other.type):
            yield f"{other.name} from {one.type} to {other.type}"
        if one.description != other.description:
            yield f"comment of {other.name}"
    if list(old) != list(new) and set(old) == set(new):
        yield "order of the columns"
    yield from _option_changes(before, after)


def _option_changes(before: TableSchema, after: TableSchema) -> Iterator[str]:
    for key, value in sorted(after.options.items()):
        if before.options.get(key) != value:
            yield f"{key} = {redact_secret(key, value)}"
    yield from (f"{key} is no longer set" for key in sorted(before.options.keys() - after.options.keys()))
    if before.comment != after.comment:
        yield "comment of the table"


# ---- All facts -------------------------------------------------------------------------------------------------------
# Invariant: only metadata is read, never a data file, and a bounded part of the history. What cannot be read is
# named among the problems, and the rest is still shown: a report is most wanted of a table that is not well.


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
    snapshot = resolve_snapshot(store)
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
        orphans=_find_orphans(store, problems, now) if orphans else None,
        references=_references(store, problems, 0 if snapshot is None else snapshot.id),
        schemas=problems.attempt("the history of the schema", lambda: schemas_of(store), Shortened()),
        problems=(),
    )
    if snapshot is not None:
        facts = _with_past(store, snapshot, _with_files(store, snapshot, facts, problems), problems)
    facts = replace(facts, problems=tuple(problems.texts))
    return replace(facts, advice=advice_of(facts))


def _find_orphans(store: TableStore, problems: _Problems, now: int) -> Orphans | None:
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
    no_buckets: list[BucketFiles] = []
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
        rows=count_rows(entry.file for entry in entries),
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
