"""What changed between two snapshots: plan and rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.errors import InvalidInputError, UnsupportedError
from lakewright.lsm.changelog import key_changes
from lakewright.lsm.key_groups import one_array
from lakewright.lsm.key_order import KeyOrder
from lakewright.lsm.merge_rows import MergeRules, drop_retracts
from lakewright.lsm.nested_aggregates import row_codes
from lakewright.lsm.sorted_runs import sections, windows
from lakewright.metadata.table_store import TableStore
from lakewright.read.blob_columns import in_form, storages_of
from lakewright.read.data_file_reader import KeyedFiles, explain_missing_files
from lakewright.read.data_split import DataSplit, DeletionFile, Deletions
from lakewright.read.manifest_scan import FileSchemas, Funnel, ScanResult, entry_pruner, scan
from lakewright.read.projection import Projection, plan_projection
from lakewright.read.split_planning import (
    BucketKey,
    Packing,
    deletions_of,
    in_row_order,
    pack,
    plan_splits,
    row_id_groups,
    sequence_is_order,
    split_of,
)
from lakewright.read.split_reader import SplitReader, Unit, check_places_are_known
from lakewright.read.time_travel import READERS_MAX, SCAN_MODE, Between, ChangeMode, event_mode, resolve_between
from lakewright.spec.argument_checks import BlobForm
from lakewright.spec.manifest import ADD, DataFile, ManifestEntry, is_side_file
from lakewright.spec.predicate import FALSE, TRUE, Predicate, project_columns
from lakewright.spec.snapshot import CommitKind, Snapshot
from lakewright.spec.system_columns import DELETE, INSERT, KIND_NAMES, UPDATE_AFTER, UPDATE_BEFORE, VALUE_KIND
from lakewright.spec.table_schema import POSTPONE

# ---- Planning --------------------------------------------------------------------------------------------------------
# In the modes `delta` and `changelog` the files that the snapshots of the range added are read row by row, without a
# merge; the mode `diff` compares the state at the end of the range with the state before it.

KeepBucket: TypeAlias = Callable[[int], bool]


@dataclass(frozen=True, slots=True)
class IncrementalPlan:
    """The splits of changes, and the snapshot they lead to."""

    snapshot: Snapshot | None
    splits: tuple[DataSplit, ...]
    funnel: Funnel


def plan_between(store: TableStore, predicate: Predicate = TRUE) -> IncrementalPlan:
    """Plan the reading of what changed in the range that the options name."""
    with store.naming_replaced():
        between = resolve_between(store)
    if between.mode is ChangeMode.DIFF:
        if between.after is None:
            store.check_same_table()
            return IncrementalPlan(None, (), Funnel())
        return plan_difference(store, between.before, between.after, predicate)
    _refuse_no_changelog(store, between)
    return plan_events(store, between.snapshots, between.mode, predicate)


def _refuse_no_changelog(store: TableStore, between: Between) -> None:
    """Raise InvalidInputError if a changelog is asked for and none was written: the read would wrongly give no rows."""
    written = between.mode is not ChangeMode.CHANGELOG or event_mode(store) is ChangeMode.CHANGELOG
    if not written and all(snapshot.changelog_manifest_list is None for snapshot in between.snapshots):
        raise InvalidInputError(
            f"{store.name}: no changelog was written ('changelog-producer' is none): read the changes in the mode delta"
            " or diff",
            table=store.name,
            option=SCAN_MODE,
        )


# Events: rows of added files, read without a merge.


def plan_events(
    store: TableStore,
    snapshots: Sequence[Snapshot],
    mode: ChangeMode,
    predicate: Predicate = TRUE,
    *,
    keep_bucket: KeepBucket | None = None,
) -> IncrementalPlan:
    """Plan the reading of the rows that snapshots wrote, oldest snapshot first; rows of a bucket stay in order."""
    store.check_same_table()
    with_events = [snapshot for snapshot in snapshots if has_events(snapshot, mode)]
    pruner = entry_pruner(store, predicate)
    schemas = FileSchemas(store)

    def entries_of(snapshot: Snapshot) -> list[ManifestEntry]:
        def keep(partition: bytes, bucket: int, _total_buckets: int, _level: int) -> bool:
            chosen = bucket != POSTPONE and (keep_bucket is None or keep_bucket(bucket))
            return chosen and pruner.residual(partition) != FALSE

        manifests = store.manifests
        read = manifests.changelog if mode is ChangeMode.CHANGELOG else manifests.delta
        added = [entry for entry in read(snapshot, keep=keep) if entry.kind == ADD]
        places = _by_place(added).values()
        if mode is ChangeMode.CHANGELOG or not sequence_is_order(store):
            # Files stay in the order in which they were written: one may end between the old and the new row of a key.
            return [entry for members in places for entry in members]
        return [e for members in places for e in sorted(members, key=lambda entry: entry.file.min_sequence_number)]

    with ThreadPoolExecutor(READERS_MAX) as pool:
        per_snapshot = list(pool.map(entries_of, with_events))
    added = [entry for entries in per_snapshot for entry in entries]
    in_bucket = [entry for entry in added if pruner.bucket_may_match(entry)]
    matching = [
        e for e in in_bucket if is_side_file(e.file) or pruner.stats_may_match(e, schemas.fields_of(e.file.schema_id))
    ]
    newest = snapshots[-1] if snapshots else None
    funnel = Funnel(
        files_total=len(added),
        files_after_partition=len(added),
        files_after_bucket=len(in_bucket),
        files_after_stats=len(matching),
    )
    return IncrementalPlan(newest, tuple(_event_splits(store, snapshots, matching)), funnel)


def has_events(snapshot: Snapshot, mode: ChangeMode) -> bool:
    """Return whether a snapshot adds events: an overwrite or a compaction has none."""
    if mode is ChangeMode.CHANGELOG:
        return snapshot.commit_kind != CommitKind.OVERWRITE and snapshot.changelog_manifest_list is not None
    return snapshot.commit_kind == CommitKind.APPEND


def _event_splits(
    store: TableStore, snapshots: Sequence[Snapshot], entries: Sequence[ManifestEntry]
) -> list[DataSplit]:
    if not entries:
        return []
    newest = snapshots[-1]
    if not store.schema.primary_keys:
        _check_whole_rows(store, snapshots[0], entries)
        return [replace(split, streaming=True) for split in plan_splits(store, newest.id, entries, {})]
    # All changes of a key are in one split, in order.
    splits = (
        split_of(store, newest.id, (partition, bucket, members[-1].total_buckets), [tuple(e.file for e in members)], {})
        for (partition, bucket), members in _by_place(entries).items()
    )
    return [replace(split, streaming=True, raw_convertible=False) for split in splits]


def _check_whole_rows(store: TableStore, first: Snapshot, entries: Sequence[ManifestEntry]) -> None:
    """Raise UnsupportedError for files that hold new values of some columns only: the rows they belong to are older."""
    if not store.options.data_evolution_enabled:
        return
    fresh = _first_new_row_id(store, first)
    columns = {field.id for field in store.schema.fields}
    schemas = FileSchemas(store)
    files = [entry.file for entry in entries]
    groups = row_id_groups(files)
    in_groups = {file.file_name for group in groups for file in group}
    # A BLOB or VECTOR file without a normal file updates older rows.
    groups += [(file,) for file in files if file.file_name not in in_groups]
    for group in groups:
        held = {number for file in group for number in _columns_of(file, schemas)}
        known = {field.id for file in group for field in schemas.fields_of(file.schema_id)} & columns
        is_new = fresh is not None and (group[0].first_row_id or 0) >= fresh
        if not is_new and not known <= held:
            raise UnsupportedError(
                f"{store.name}: the file {group[0].file_name} updates some columns of older rows, which is no event of "
                f"whole rows; read with {SCAN_MODE!r} = 'diff'",
                table=store.name,
                files=(group[0].file_name,),
            )


def _first_new_row_id(store: TableStore, first: Snapshot) -> int | None:
    """Return the lowest row id that a snapshot could give to new rows; None where the one before it has expired."""
    if first.id == 1:
        return 0
    return store.snapshots.get(first.id - 1).next_row_id if store.snapshots.exists(first.id - 1) else None


def _columns_of(file: DataFile, schemas: FileSchemas) -> set[int]:
    fields = schemas.fields_of(file.schema_id)
    return {field.id for field in fields if file.write_cols is None or field.name in file.write_cols}


def _by_place(entries: Iterable[ManifestEntry]) -> dict[tuple[bytes, int], list[ManifestEntry]]:
    """Group entries by partition and bucket, in the order in which these first come."""
    places: dict[tuple[bytes, int], list[ManifestEntry]] = {}
    for entry in entries:
        places.setdefault((entry.partition, entry.bucket), []).append(entry)
    return places


# Differences: two states, bucket by bucket.


def plan_difference(
    store: TableStore,
    before: Snapshot | None,
    after: Snapshot,
    predicate: Predicate = TRUE,
    *,
    keep_bucket: KeepBucket | None = None,
) -> IncrementalPlan:
    """Plan the comparison of two states; files of both are left out, unless a file with overlapping keys changed."""
    keys = store.schema.primary_keys
    # Both versions of a row are needed to see whether it changed, and they share only the key.
    asked = project_columns(predicate, (*store.schema.partition_keys, *keys)) if keys else predicate
    old = ScanResult((), Funnel()) if before is None else scan(store, before, asked)
    new = scan(store, after, asked)
    states = (
        _State(before, _state_files(old.entries, keep_bucket), _deletions(store, before)),
        _State(after, _state_files(new.entries, keep_bucket), _deletions(store, after)),
    )
    if keys:
        _check_bucket_counts(store, states)
    places = dict.fromkeys(place for state in reversed(states) for place in state.files)
    difference = _keyed_difference if keys else _row_difference
    splits = tuple(split for place in places for split in difference(store, place, states))
    return IncrementalPlan(after, splits, new.funnel)


@dataclass(frozen=True, slots=True)
class _State:
    """The visible files of a table at one snapshot."""

    snapshot: Snapshot | None
    files: Mapping[BucketKey, Sequence[DataFile]]
    deletions: Deletions

    def of(self, place: BucketKey, files: Sequence[DataFile]) -> frozenset[tuple[DataFile, DeletionFile | None]]:
        """Return files with their deletion vectors; equal values in two states mean equal rows."""
        return frozenset((file, self.deletions.get((place[0], file.file_name))) for file in files)

    def split(self, store: TableStore, place: BucketKey, groups: Sequence[tuple[DataFile, ...]]) -> DataSplit:
        """Return the split of some of the files."""
        snapshot_id = 0 if self.snapshot is None else self.snapshot.id
        return split_of(store, snapshot_id, place, [group for group in groups if group], self.deletions)


def _state_files(entries: Iterable[ManifestEntry], keep_bucket: KeepBucket | None) -> dict[BucketKey, list[DataFile]]:
    files: dict[BucketKey, list[DataFile]] = {}
    for entry in entries:
        if keep_bucket is None or keep_bucket(entry.bucket):
            files.setdefault((entry.partition, entry.bucket, entry.total_buckets), []).append(entry.file)
    return files


def _deletions(store: TableStore, snapshot: Snapshot | None) -> Deletions:
    if snapshot is None or snapshot.index_manifest is None:
        return {}
    return deletions_of(store, store.manifests.read_index(snapshot.index_manifest))


def _check_bucket_counts(store: TableStore, states: Iterable[_State]) -> None:
    """Refuse partitions whose bucket count changed: a key may be in another bucket now."""
    counts: dict[bytes, set[int]] = {}
    for partition, _, total_buckets in chain.from_iterable(state.files for state in states):
        counts.setdefault(partition, set()).add(total_buckets)
    for partition, totals in counts.items():
        if len(totals) > 1:
            where = store.partition_name(partition) or "the table"
            raise UnsupportedError(
                f"{store.name}: {where} had {' and '.join(map(str, sorted(totals)))} buckets in the two snapshots, so "
                "its keys moved; compare snapshots of one side of that change, or read both and compare them",
                table=store.name,
                option="bucket",
            )


def _keyed_difference(store: TableStore, place: BucketKey, states: tuple[_State, _State]) -> list[DataSplit]:
    """Plan the comparison of a bucket of a primary-key table: parts that share no key are compared apart."""
    old, new = (state.files.get(place, ()) for state in states)
    types = [field.type for field in store.schema.trimmed_primary_key_fields]
    changed: list[tuple[tuple[DataFile, ...], tuple[DataFile, ...]]] = []
    for section in sections(dict.fromkeys((*old, *new)), types):
        inside = frozenset(section.files)
        pair = tuple(f for f in old if f in inside), tuple(f for f in new if f in inside)
        if states[0].of(place, pair[0]) != states[1].of(place, pair[1]):
            changed.append(pair)
    packing = Packing.of(store.options)
    splits = []
    for pairs in pack(changed, lambda pair: packing.weight(chain(*pair)), packing.target_bytes):
        before = replace(states[0].split(store, place, [pair[0] for pair in pairs]), raw_convertible=False)
        after = states[1].split(store, place, [pair[1] for pair in pairs])
        splits.append(replace(after, raw_convertible=False, before=before))
    return splits


def _row_difference(store: TableStore, place: BucketKey, states: tuple[_State, _State]) -> list[DataSplit]:
    """Plan the comparison of a bucket of an append table; if no file was removed, new files are the difference."""
    olds, news = (_row_groups(store, state.files.get(place, ())) for state in states)
    known = {states[0].of(place, group) for group in olds}
    still = {states[1].of(place, group) for group in news}
    removed = [group for group in olds if states[0].of(place, group) not in still]
    added = [group for group in news if states[1].of(place, group) not in known]
    if removed:
        return [replace(states[1].split(store, place, added), before=states[0].split(store, place, removed))]
    packing = Packing.of(store.options)
    bins = pack(added, packing.weight, packing.target_bytes)
    return [replace(states[1].split(store, place, groups), streaming=True) for groups in bins]


def _row_groups(store: TableStore, files: Sequence[DataFile]) -> list[tuple[DataFile, ...]]:
    if store.options.data_evolution_enabled:
        return row_id_groups(files)
    return [(file,) for file in in_row_order(store, files)]


# ---- Rows of changes -------------------------------------------------------------------------------------------------
# The rows of a streaming split of a primary-key table come one by one as its files hold them, in file order. A split
# with `before` gives the difference of two states of a bucket: +I for a new key, -U and +U for one whose row changed,
# -D for one that was deleted; rows that are the same in both states give nothing. Rows of an append table have no
# key, so there a row that is in both states equally often gives nothing. Without a kind column only rows of the state
# afterwards are given: +I and +U. Filters are applied to whole changes, after old and new rows were compared.
#
# A projection into lists puts the old and the new row of an update into one row of kind +U: see `with_lists`.

_SIDE = "_SIDE"  # of a row while two states are compared: 0 before, 1 after


def units_of(reader: SplitReader, split: DataSplit) -> list[Unit]:
    """Return the parts of any split that can be read concurrently."""
    check_places_are_known(reader.store, reader.projection, split)
    if reader.projection.rows is not None:
        return [partial(_read_lists, reader, reader.projection.rows, split)]
    if split.before is not None:
        keyed = bool(reader.store.schema.primary_keys)
        _check_columns(reader)
        after = replace(split, before=None)
        return [partial(_read_difference if keyed else _read_surplus, reader, split.before, after)]
    if split.streaming and reader.store.schema.primary_keys:
        return [partial(_read_events, reader, split, file) for file in split.files]
    return reader.units(split)


def _check_columns(reader: SplitReader) -> None:
    known = frozenset(field.name for field in reader.store.schema.fields)
    for field in reader.projection.read_fields:
        if field.name not in known:
            raise UnsupportedError(
                f"{reader.store.name}: {field.name} belongs to a stored row, and a row of a difference is none; leave "
                "it out, or read with 'incremental-between-scan-mode' = 'delta'",
                table=reader.store.name,
                column=field.name,
            )


def _read_events(reader: SplitReader, split: DataSplit, file: DataFile) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one file, without a merge."""
    fields = reader.projection.read_fields
    files = KeyedFiles(reader.store, reader.schemas, split.partition_bytes, split.bucket, fields)
    with (
        explain_missing_files(reader.store, split.snapshot_id),
        closing(files.read(file, skip=reader.predicate)) as tables,
    ):
        for rows in tables:
            yield from _select_changes(reader, rows)


def _read_difference(reader: SplitReader, before: DataSplit, after: DataSplit) -> Iterator[pa.RecordBatch]:
    """Yield how each key changed between two states, in key order."""
    schema = reader.store.schema
    spec = MergeRules.of_schema(schema, table=reader.store.name)
    # A filter on other columns must see both rows of a key first; only the key is the same in both.
    all_columns = _whole_rows(reader, keep=(*schema.partition_keys, *spec.key.names))
    memory = reader.store.options.lakewright_merge_memory
    states = [_state(all_columns, before, 0), _state(all_columns, after, 1)]
    for window in windows(states, spec, memory_bytes=memory):
        yield from _select_changes(reader, difference(window, spec.key))


def _whole_rows(reader: SplitReader, keep: tuple[str, ...]) -> SplitReader:
    """Return a reader of all columns, as all are compared, whose predicate is only about the columns `keep`."""
    fields = reader.store.schema.fields
    return replace(reader, projection=plan_projection(fields), predicate=project_columns(reader.predicate, keep))


def _state(reader: SplitReader, split: DataSplit, side: int) -> Iterator[pa.Table]:
    """Yield the rows of a bucket in one state, in key order."""
    for batch in reader.read(split):
        marks = pa.repeat(pa.scalar(side, pa.int8()), batch.num_rows)
        yield pa.Table.from_batches([batch.append_column(_SIDE, marks)])


def difference(rows: pa.Table, key: KeyOrder) -> pa.Table:
    """Return the changes that lead from one state of some keys to the other, in key order, with their `_VALUE_KIND`.

    The column `_SIDE` says which state a row is of, 0 before and 1 after; each state has at most one row of a key.
    """
    values = rows.drop_columns([_SIDE])
    is_after = rows.column(_SIDE).to_numpy() > 0
    order, kinds = key_changes(values, is_after, key, values.column_names)
    return _with_kinds(values.take(pa.array(order)), kinds)


def _read_surplus(reader: SplitReader, before: DataSplit, after: DataSplit) -> Iterator[pa.RecordBatch]:
    """Yield the rows of an append table that became more (+I) or fewer (-D); rows that only moved cancel out."""
    # Equal rows match equally, so both states can be filtered before they are compared.
    # Bytes are compared where bytes are asked for; else it is where they are stored that is compared.
    projection, is_lazy = plan_projection(reader.store.schema.fields), reader.projection.blobs == "lazy"
    form: BlobForm = "bytes" if reader.projection.blobs == "bytes" else "descriptor"
    all_columns = replace(reader, projection=replace(projection, blobs=form))
    parts = [[pa.Table.from_batches([batch]) for batch in all_columns.read(state)] for state in (before, after)]
    rows = pa.concat_tables([all_columns.projection.empty(), *parts[0], *parts[1]])
    gone = sum(part.num_rows for part in parts[0])
    weights = np.where(np.arange(rows.num_rows) < gone, -1, 1)
    _, firsts, numbers = np.unique(
        row_codes([one_array(column) for column in rows.columns], rows.num_rows), return_index=True, return_inverse=True
    )
    surplus = np.bincount(numbers, weights, minlength=len(firsts)).astype(np.int64)
    at = np.repeat(np.arange(len(surplus)), np.abs(surplus))
    kinds = np.where(surplus[at] > 0, INSERT, DELETE).astype(np.int8)
    for batch in _select_changes(reader, _with_kinds(rows.take(pa.array(firsts[at])), kinds)):
        if is_lazy:
            yield from in_form(batch, reader.projection.fields, "lazy", storages_of(reader.store))
        else:
            yield batch


def _read_lists(reader: SplitReader, rows: Projection, split: DataSplit) -> Iterator[pa.RecordBatch]:
    """Yield the changes of a split as lists; an old row that ends a batch waits for the next one."""
    waiting: pa.RecordBatch | None = None
    for unit in units_of(replace(reader, projection=rows), split):
        for batch in unit():
            joined = batch if waiting is None else pa.concat_batches([waiting, batch])
            ends_old = joined.num_rows > 0 and joined.column(rows.kind)[-1].as_py() == KIND_NAMES[UPDATE_BEFORE]
            done = joined.num_rows - ends_old
            waiting = joined.slice(done) if ends_old else None
            if done:
                yield with_lists(joined.slice(0, done), reader.projection)
    if waiting is not None:
        yield with_lists(waiting, reader.projection)


def with_lists(rows: pa.RecordBatch, projection: Projection) -> pa.RecordBatch:
    """Return changes with their values in lists: two of an update whose old and new row are neighbours, else one."""
    kinds = rows.column(projection.kind)
    is_old = np.asarray(pc.equal(kinds, KIND_NAMES[UPDATE_BEFORE]))
    is_new = np.asarray(pc.equal(kinds, KIND_NAMES[UPDATE_AFTER]))
    has_new = np.zeros(rows.num_rows, np.bool_)
    has_new[:-1] = is_old[:-1] & is_new[1:]
    last = np.flatnonzero(~has_new)  # of each list
    offsets = pa.array(np.concatenate(([0], last + 1)).astype(np.int32))
    columns = [
        kinds.take(pa.array(last)) if field.name == projection.kind else _list_values(field, offsets, rows)
        for field in projection.schema
    ]
    if not columns:
        return pa.record_batch({"": pa.array(last)}).select([])  # a batch without columns keeps its number of rows
    return pa.RecordBatch.from_arrays(columns, schema=projection.schema)


def _list_values(field: pa.Field, offsets: pa.Array, rows: pa.RecordBatch) -> pa.Array:
    return pa.ListArray.from_arrays(offsets, rows.column(field.name), type=field.type)


def _with_kinds(values: pa.Table, kinds: npt.NDArray[np.int8]) -> pa.Table:
    return values.append_column(VALUE_KIND.name, pa.array(kinds))


def _select_changes(reader: SplitReader, rows: pa.Table) -> Iterator[pa.RecordBatch]:
    """Yield the changes that match: with their kinds, or without those of kind -U and -D where no kind is asked for."""
    projection = reader.projection
    if projection.kind is None:
        rows = drop_retracts(rows)
    else:
        kinds = pa.array(KIND_NAMES).take(rows.column(VALUE_KIND.name).combine_chunks())
        rows = rows.append_column(projection.kind, kinds)
    for batch in rows.to_batches():
        kept = batch if reader.predicate == TRUE else batch.filter(reader.predicate.mask(batch))
        if kept.num_rows:
            yield projection.apply(kept)
