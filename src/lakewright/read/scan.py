"""From a table to the live files that may hold matching rows: which snapshot, which manifests, which entries.

A scan pins one snapshot. Manifests are pruned by the partitions they name, decoded in parallel, and their entries are
pruned by partition, bucket and statistics. An ADD and the DELETE that cancels it share partition and bucket, so both
are pruned or neither is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from datetime import UTC, datetime

import numpy as np

from lakewright.errors import InvalidInputError, NotFoundError, UnsupportedError, naming
from lakewright.formats.avro.columns import Mask
from lakewright.metadata.entry_parts import ChosenEntries
from lakewright.metadata.store import TableStore
from lakewright.read.projection import ROW_TRACKING_FIELDS
from lakewright.read.pruning.narrow import Narrowing
from lakewright.read.pruning.prune import (
    EntryPruner,
    KeyedRules,
    manifest_may_match,
    prune_groups,
    prune_keyed,
)
from lakewright.read.pruning.ranges import ManifestRanges, is_hidden
from lakewright.spec.manifest import ManifestEntry, ManifestFile
from lakewright.spec.options import LATEST_MODES, TRAVEL, CoreOptions, MergeEngine
from lakewright.spec.predicate.evaluation import project
from lakewright.spec.predicate.predicate import FALSE, TRUE, Predicate
from lakewright.spec.schema.supported import check_options_for_read
from lakewright.spec.schema.table_schema import POSTPONE, BucketMode
from lakewright.spec.snapshot import CommitKind, Snapshot
from lakewright.spec.types import DataField

_FILE_CREATION, _CREATION = CoreOptions.SCAN_FILE_CREATION_TIME_MILLIS, CoreOptions.SCAN_CREATION_TIME_MILLIS
CREATION_MODES = {"from-file-creation-time": _FILE_CREATION.key(), "from-creation-timestamp": _CREATION.key()}
_SNAPSHOT_MODES = frozenset({"from-snapshot", "from-snapshot-full"})


@dataclass(frozen=True, slots=True)
class Funnel:
    """How many manifests and files a scan began with, and how many each kind of pruning left."""

    manifests_total: int = 0
    manifests_read: int = 0
    files_total: int = 0
    files_after_partition: int = 0
    files_after_bucket: int = 0
    files_after_stats: int = 0

    def __add__(self, other: Funnel) -> Funnel:
        return Funnel(*(mine + theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True)))


@dataclass(frozen=True, slots=True)
class ScanResult:
    """The live entries that may hold matching rows, in manifest order."""

    found: tuple[ManifestEntry, ...] | ChosenEntries  # objects are made later where they are many
    funnel: Funnel
    partitions: frozenset[bytes] = frozenset()  # that have visible files and fulfil the filter; only where asked for

    @property
    def entries(self) -> tuple[ManifestEntry, ...]:
        """The entries as objects."""
        return tuple(self.found.entries()) if isinstance(self.found, ChosenEntries) else self.found


def pick_snapshot(store: TableStore) -> Snapshot | None:
    """Return the snapshot that the `scan.` options name, the newest without them; None: the table was never written."""
    options = store.options
    given = [key for key in (*TRAVEL, _FILE_CREATION.key(), _CREATION.key()) if key in options.values]
    if len(given) > 1:
        raise InvalidInputError(
            f"{store.name}: Only one of the following parameters may be set: {', '.join(given)} ({' and '.join(given)} "
            "cannot both be set, as each of them names a snapshot)",
            table=store.name,
        )
    mode = options.get(CoreOptions.SCAN_MODE)
    _check_mode(store.name, mode, given[0] if given else None)
    if given and given[0] in TRAVEL:
        with store.naming_replaced():
            return _travel(store)
    if given == [_CREATION.key()]:
        return first_since_creation(store) or store.snapshots.latest()
    return _last_compacted(store) if mode == "compacted-full" else store.snapshots.latest()


def travels(store: TableStore) -> bool:
    """Say whether options of the table name the snapshot to read."""
    return any(key in store.schema.options for key in TRAVEL)


def with_travelled_schema(store: TableStore) -> TableStore | None:
    """Return a store with the schema of the snapshot that its options name; None if the table was never written."""
    snapshot = pick_snapshot(store)
    if snapshot is None:
        return None
    stored = store.schemas.get(snapshot.schema_id)
    return store.with_schema(stored.with_options(store.schema.options))


def first_since_creation(store: TableStore) -> Snapshot | None:
    """Return the snapshot after the last one from before `scan.creation-time-millis`; None if one of the two is not."""
    millis = store.options.get(_CREATION)
    try:
        before = store.snapshots.at_timestamp((millis or 0) - 1)
    except NotFoundError:
        return None
    return store.snapshots.find(before.id + 1)


def created_since(store: TableStore, result: ScanResult) -> ScanResult:
    """Return only files that were made at or after the time that `scan.file-creation-time-millis` gives.

    `scan.creation-time-millis` means the same if no snapshot is known to have been the first after that time.
    """
    millis = store.options.get(_FILE_CREATION)
    if millis is None and _CREATION.key() in store.options.values and first_since_creation(store) is None:
        millis = store.options.get(_CREATION)
    if millis is None:
        return result
    kept = tuple(entry for entry in result.entries if _creation_millis(entry) >= millis)
    return replace(result, found=kept, funnel=replace(result.funnel, files_after_stats=len(kept)))


def _creation_millis(entry: ManifestEntry) -> int:
    """Return when a file was made, in epoch milliseconds; files record the clock of the local zone."""
    clock = datetime.fromtimestamp((entry.file.creation_time or 0) / 1000, UTC).replace(tzinfo=None)
    return round(clock.timestamp() * 1000)


def _check_mode(table: str, mode: str, given: str | None) -> None:
    expected: set[str] | None
    if mode in _SNAPSHOT_MODES:
        named = (CoreOptions.SCAN_SNAPSHOT_ID, CoreOptions.SCAN_TAG_NAME, CoreOptions.SCAN_VERSION)
        expected = {option.key() for option in named} | {CoreOptions.SCAN_WATERMARK.key()}
    elif mode in CREATION_MODES:
        expected = {CREATION_MODES[mode]}
    elif mode == "from-timestamp":
        expected = {CoreOptions.SCAN_TIMESTAMP_MILLIS.key(), CoreOptions.SCAN_TIMESTAMP.key()}
    elif mode in LATEST_MODES or mode == "compacted-full":
        expected = None if mode == "default" else set()
    else:
        raise UnsupportedError(
            f"{table}: a batch read knows no 'scan.mode' {mode!r}; leave it out, or use latest-full, compacted-full, "
            "from-snapshot, from-timestamp, from-file-creation-time or from-creation-timestamp",
            table=table,
            option="scan.mode",
        )
    if expected is None or (given in expected if expected else given is None):
        return
    if given is None:
        wrong = f"scan.mode is {mode!r} but none of {', '.join(sorted(expected))} is set"
    else:
        wrong = f"scan.mode {mode!r} conflicts with: ['{given}']; leave one of the two out"
    raise InvalidInputError(f"{table}: {wrong}", table=table, option="scan.mode")


def _travel(store: TableStore) -> Snapshot:
    options = store.options
    if (snapshot_id := options.get(CoreOptions.SCAN_SNAPSHOT_ID)) is not None:
        return store.snapshots.get(snapshot_id)
    if (tag := options.get(CoreOptions.SCAN_TAG_NAME)) is not None:
        return store.tags.get(tag).snapshot
    if (millis := options.get(CoreOptions.SCAN_TIMESTAMP_MILLIS)) is not None:
        return store.snapshots.at_timestamp(millis)
    if (text := options.get(CoreOptions.SCAN_TIMESTAMP)) is not None:
        return store.snapshots.at_timestamp(local_millis(text, CoreOptions.SCAN_TIMESTAMP.key()))
    if (watermark := options.get(CoreOptions.SCAN_WATERMARK)) is not None:
        return store.snapshots.at_watermark(watermark)
    return _version(store, str(options.get(CoreOptions.SCAN_VERSION)))


def _version(store: TableStore, version: str) -> Snapshot:
    if store.tags.exists(version):
        return store.tags.get(version).snapshot
    watermark = version.removeprefix("watermark-")
    if watermark != version and watermark.isdecimal():
        return store.snapshots.at_watermark(int(watermark))
    if version.isdecimal():
        return store.snapshots.get(int(version))
    tags = store.tags.list()
    raise NotFoundError(
        f"{store.name}: Cannot find a time travel version for {version}: it is no tag (there are "
        f"{', '.join(tags) or 'none'}), no snapshot id and no 'watermark-<n>'",
        table=store.name,
        version=version,
    )


def local_millis(text: str, option: str) -> int:
    """Return the moment that the text of an option names, in epoch milliseconds."""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise InvalidInputError(f"{option!r} must look like 2026-01-31 12:00:00, not {text!r}", option=option) from None
    return round(moment.timestamp() * 1000)  # a time without a zone is one of the local zone


def _last_compacted(store: TableStore) -> Snapshot | None:
    newest = store.snapshots.latest()
    if newest is None:
        return None
    compacted = (s for s in store.snapshots.walk_back(newest.id) if s.commit_kind == CommitKind.COMPACT)
    return next(compacted, None)


def scan(
    store: TableStore,
    snapshot: Snapshot,
    predicate: Predicate = TRUE,
    *,
    without: frozenset[bytes] = frozenset(),
    list_partitions: bool = False,
) -> ScanResult:
    """Return the live files of a snapshot that may hold rows fulfilling a predicate, but none of some partitions."""
    check_readable(store)
    pruner = entry_pruner(store, predicate)
    asks_partitions = pruner.asks_partitions or bool(without)

    def keep(partition: bytes, _bucket: int, _total_buckets: int, _level: int) -> bool:
        return partition not in without and pruner.residual(partition) != FALSE

    narrowing = _narrowing(store, pruner, list_partitions=list_partitions)
    with store.checking_same_table():  # after the snapshot was read, so that it is one of this table
        manifests = _Manifests.of(store, pruner, store.manifests.files_of(snapshot))
        live = store.manifests.live_of(
            manifests.read,
            snapshot,
            keep=keep if asks_partitions else None,
            all_are_here=not manifests.has_gaps,
        )
    found: tuple[ManifestEntry, ...] | ChosenEntries
    if isinstance(live, ChosenEntries):
        found = _prune_chosen(store, narrowing.choose(live), narrowing)
    else:
        narrowing.live = len(live)
        live = visible(store, live) if store.schema.primary_keys else live
        narrowing.shown = len(live)
        if list_partitions:
            narrowing.partitions = frozenset(entry.partition for entry in live)
        live = [entry for entry in live if pruner.bucket_may_match(entry)]
        narrowing.in_bucket = len(live)
        found = tuple(live if predicate == TRUE else _prune_by_stats(store, live, pruner))
    return ScanResult(found, manifests.funnel(narrowing, len(found)), narrowing.partitions)


def _prune_chosen(
    store: TableStore, narrowed: tuple[ChosenEntries, Mask], narrowing: Narrowing
) -> tuple[ManifestEntry, ...] | ChosenEntries:
    """Look at those of many entries as objects about which the columns alone do not decide."""
    chosen, sure = narrowed
    if narrowing.pruner.predicate == TRUE or (sure.all() and narrowing.decides_alone):
        return chosen
    if not narrowing.decides_alone:
        return tuple(_prune_by_stats(store, chosen.entries(), narrowing.pruner))
    doubtful = np.flatnonzero(~sure)
    entries = chosen.at(doubtful)
    kept = {id(entry) for entry in _prune_by_stats(store, entries, narrowing.pruner)}
    left = np.ones(len(chosen), np.bool_)
    left[doubtful] = [id(entry) in kept for entry in entries]
    return chosen.where(left)


@dataclass(frozen=True, slots=True)
class _Manifests:
    """The manifests of a snapshot that a scan reads, and how many live files they and the others name."""

    total: int
    read: tuple[ManifestFile, ...]
    files: int  # of all, but for those that are skipped because they lie below the levels that are read
    out_of_range: int  # of those that are skipped by their buckets or row ids
    has_gaps: bool  # whether files may be deleted in one that is read and added in one that is not

    @classmethod
    def of(cls, store: TableStore, pruner: EntryPruner, manifests: Sequence[ManifestFile]) -> _Manifests:
        """Decide by what the manifest list says of each manifest.

        What is skipped here is left out among the entries too, so that no file comes back whose deletion is skipped.
        """
        partitions = project(pruner.predicate, store.schema.partition_keys)
        lowest = lowest_level(store) if store.schema.primary_keys else None
        ranges = ManifestRanges.of(pruner, store.schema)
        read: list[ManifestFile] = []
        files = out_of_range = 0
        has_gaps = False
        for manifest in manifests:
            count = manifest.num_added_files - manifest.num_deleted_files
            files += count
            if not manifest_may_match(partitions, manifest, store.schema.partition_fields):
                continue
            if lowest is not None and is_hidden(manifest, lowest):
                files, has_gaps = files - count, True
            elif not ranges.may_match(manifest):
                out_of_range, has_gaps = out_of_range + count, True
            else:
                read.append(manifest)
        return cls(len(manifests), tuple(read), files, out_of_range, has_gaps)

    def funnel(self, narrowing: Narrowing, left: int) -> Funnel:
        """Return how many manifests and files each kind of pruning left."""
        files = max(narrowing.shown, self.files - narrowing.live + narrowing.shown)
        return Funnel(
            manifests_total=self.total,
            manifests_read=len(self.read),
            files_total=files,
            files_after_partition=min(files, narrowing.shown + self.out_of_range),
            files_after_bucket=narrowing.in_bucket,
            files_after_stats=left,
        )


def _narrowing(store: TableStore, pruner: EntryPruner, *, list_partitions: bool) -> Narrowing:
    """Return what leaves out entries of a large table before they become objects."""
    schema = store.schema
    if schema.primary_keys:  # files with values that do not match may hold rows that hide others
        fields: tuple[DataField, ...] = schema.trimmed_primary_key_fields
        asked, stats, lowest = project(pruner.predicate, [f.name for f in fields]), "_KEY_STATS", lowest_level(store)
    else:
        fields, asked, stats, lowest = schema.fields, pruner.predicate, "_VALUE_STATS", None
    evolves = store.options.get(CoreOptions.DATA_EVOLUTION_ENABLED)
    if evolves:
        asked = TRUE  # several files hold columns of the same rows
    known = {f.name for f in fields} | set(schema.partition_keys)
    decides_alone = not evolves and pruner.predicate.columns() <= known
    return Narrowing(pruner, asked, fields, stats, schema.id, lowest, list_partitions, decides_alone)


def entry_pruner(store: TableStore, predicate: Predicate) -> EntryPruner:
    """Return what decides about the entries of a table."""
    schema = store.schema
    function = store.options.get(CoreOptions.BUCKET_FUNCTION_TYPE)
    # In other modes the bucket of a key is where it was first written, not what a function says.
    bucket_fields = schema.bucket_fields if schema.bucket_mode is BucketMode.HASH_FIXED else ()
    tracked = ROW_TRACKING_FIELDS if store.options.row_tracking_enabled() else ()
    return EntryPruner(predicate, schema.partition_fields, bucket_fields, function, (*schema.fields, *tracked))


def check_readable(store: TableStore) -> None:
    """Raise UnsupportedError for a table whose reads cannot be planned."""
    with naming(store.name):
        check_options_for_read(store.schema)


def visible(store: TableStore, entries: Sequence[ManifestEntry]) -> list[ManifestEntry]:
    """Return the files that a batch read of a primary-key table sees: all but those of bucket -2 (postponed).

    Level 0 is not seen either if keys are made unique when files are compacted: a fresh file may hold a key again.
    """
    lowest = lowest_level(store)
    return [entry for entry in entries if entry.bucket != POSTPONE and entry.file.level >= lowest]


def lowest_level(store: TableStore) -> int:
    """Return the lowest level that a batch read of a primary-key table sees."""
    if store.options.get(CoreOptions.LAKEWRIGHT_READ_OPTIMIZED):
        return store.options.num_levels() - 1
    return 1 if keys_are_once(store) else 0


def keys_are_once(store: TableStore) -> bool:
    """Say whether no two files that a batch read sees hold live rows of one key."""
    return store.options.hides_level_0() and not store.options.get(CoreOptions.LAKEWRIGHT_READ_LEVEL_0)


def _prune_by_stats(store: TableStore, entries: Sequence[ManifestEntry], pruner: EntryPruner) -> list[ManifestEntry]:
    schemas = FileSchemas(store)
    if store.schema.primary_keys:
        wins = store.options.merge_engine() in {MergeEngine.DEDUPLICATE, MergeEngine.FIRST_ROW}
        rules = KeyedRules(store.schema.trimmed_primary_key_fields, keys_are_once(store), wins)
        return prune_keyed(entries, pruner, rules, schemas.fields_of)
    if store.options.get(CoreOptions.DATA_EVOLUTION_ENABLED):
        return prune_groups(entries, pruner, schemas.fields_of)
    return [entry for entry in entries if pruner.stats_may_match(entry, schemas.fields_of(entry.file.schema_id))]


class FileSchemas:
    """The columns of the schemas that data files were written with, each schema read once."""

    def __init__(self, store: TableStore, opened: dict[str, int] | None = None) -> None:
        self._store = store
        self._fields: dict[int, tuple[DataField, ...]] = {store.schema.id: store.schema.fields}
        self.opened = opened  # names and sizes of the files that were opened, for who asks

    def fields_of(self, schema_id: int) -> tuple[DataField, ...]:
        """Return the columns of a schema."""
        fields = self._fields.get(schema_id)
        if fields is None:
            fields = self._fields[schema_id] = self._store.schemas.get(schema_id).fields
        return fields
