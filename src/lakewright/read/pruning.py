"""Skipping manifests and files by partition, bucket, keys and statistics."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from lakewright.formats.avro_columns import Longs, Mask, Words
from lakewright.lsm.sorted_runs import sections
from lakewright.metadata.manifest_columns import EntryColumns, EntryPart, SelectedEntries
from lakewright.read.projection import ROW_TRACKING_FIELDS
from lakewright.spec.binary_row import ARITY_BYTES, decode_row
from lakewright.spec.binary_slots import MILLI_NANOS, SLOT_BYTES, header_bytes
from lakewright.spec.bucket_hash import bucket_of
from lakewright.spec.column_stats import ColumnStats, field_stats, is_nan
from lakewright.spec.comparison import is_float
from lakewright.spec.manifest import DataFile, ManifestEntry, ManifestFile, is_side_file
from lakewright.spec.predicate import (
    FALSE,
    TRUE,
    Predicate,
    and_predicates,
    bind,
    conjuncts,
    may_match,
    normalise,
    or_predicates,
    project_columns,
    simplify,
)
from lakewright.spec.system_columns import ROW_ID, SEQUENCE_NUMBER
from lakewright.spec.table_schema import POSTPONE, TableSchema
from lakewright.spec.types import (
    BYTES_ROOTS,
    MILLIS_PRECISION,
    TIMESTAMP_ROOTS,
    AtomicType,
    DataField,
    Value,
    is_stored_apart,
)

# ---- Pruning one by one ----------------------------------------------------------------------------------------------
# Every answer is conservative: what is pruned holds no matching row, and none that hides another version of its key.
# A file is described by its own schema, so a predicate is first said in the words of that schema (`devolve`); what
# cannot be said safely is left out.

BUCKET_VALUES_MAX = 1000
_SECOND_NANOS = 10**9
_INTEGERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")
FieldsOf: TypeAlias = Callable[[int], Sequence[DataField]]  # the columns of a schema, by its id


def devolve(predicate: Predicate, read_fields: Sequence[DataField], file_fields: Sequence[DataField]) -> Predicate:
    """Return the strongest predicate on a file's own columns that every matching row of the file fulfils.

    Columns are found by id. A column that the file lacks is null in all its rows. A column of another type is asked
    only where both types order their values alike: integers that were widened.
    """
    ids = {f.name: f for f in read_fields}
    by_id = {f.id: f for f in file_fields}
    return _devolve(normalise(predicate), ids, by_id)


def _devolve(p: Predicate, read: Mapping[str, DataField], by_id: Mapping[int, DataField]) -> Predicate:
    match p.method:
        case "and":
            return and_predicates(_devolve(child, read, by_id) for child in p.children)
        case "or":
            return or_predicates(_devolve(child, read, by_id) for child in p.children)
        case "alwaysTrue" | "alwaysFalse":
            return p
        case "not":
            inner = _devolve_leaf(p.children[0], read, by_id)
            if inner is None or inner == FALSE:
                return FALSE if inner else TRUE  # a comparison with nothing but nulls is never false either
            return replace(p, children=(inner,))
        case _:
            return _devolve_leaf(p, read, by_id) or TRUE


def _devolve_leaf(leaf: Predicate, read: Mapping[str, DataField], by_id: Mapping[int, DataField]) -> Predicate | None:
    """Return the comparison for the file, FALSE where no row can match, None where nothing can be said."""
    column = read.get(leaf.column or "")
    if column is None:
        return None  # a path into a ROW, or a column that is none of the table's
    stored = by_id.get(column.id)
    if stored is None:
        return TRUE if leaf.method == "isNull" else FALSE
    if not isinstance(stored.type, AtomicType) or not isinstance(column.type, AtomicType):
        return None
    if stored.type.type == column.type.type:
        return replace(leaf, field=stored.name, path=(stored.name,), dtype=stored.type)
    if not _is_widened(stored.type.root, column.type.root):
        return None
    return bind(replace(leaf, field=stored.name, path=(stored.name,)), (stored,))


def _is_widened(stored: str, now: str) -> bool:
    return stored in _INTEGERS and now in _INTEGERS and _INTEGERS.index(stored) < _INTEGERS.index(now)


def manifest_may_match(partitions: Predicate, manifest: ManifestFile, partition_fields: Sequence[DataField]) -> bool:
    """Return whether a manifest may name a file of a matching partition."""
    entries = manifest.num_added_files + manifest.num_deleted_files
    recorded = manifest.partition_stats
    if partitions == TRUE or len(recorded.null_counts) != len(partition_fields) or not partition_fields:
        return partitions != FALSE
    types = [f.type for f in partition_fields]
    bounds = zip(
        decode_row(recorded.min_values, types),
        decode_row(recorded.max_values, types),
        recorded.null_counts,
        strict=True,
    )
    stats = {f.name: ColumnStats(*bound) for f, bound in zip(partition_fields, bounds, strict=True)}
    return may_match(partitions, stats.get, entries)


@dataclass(slots=True)
class EntryPruner:
    """Decides about entries one by one, and remembers what partitions, schemas and bucket counts have in common."""

    predicate: Predicate
    partition_fields: tuple[DataField, ...]
    bucket_fields: tuple[DataField, ...]
    bucket_function: str
    read_fields: tuple[DataField, ...]
    asks_partitions: bool = field(init=False)  # or the predicate is the same for all of them
    _residuals: dict[bytes, Predicate] = field(default_factory=dict)
    _buckets: dict[tuple[bytes, int], frozenset[int] | None] = field(default_factory=dict)
    _devolved: dict[tuple[bytes, int, tuple[str, ...] | None, bool], Predicate] = field(default_factory=dict)
    _joined: dict[tuple[bytes, tuple[tuple[int, tuple[str, ...] | None], ...]], _Joined] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # Files of BLOB and VECTOR columns have no statistics, and normal files do not hold these columns.
        asked = self.predicate.columns() - {f.name for f in self.read_fields if is_stored_apart(f.type)}
        self.predicate = project_columns(self.predicate, asked)
        self.asks_partitions = not self.predicate.columns().isdisjoint(f.name for f in self.partition_fields)

    def residual(self, partition: bytes) -> Predicate:
        """Return the predicate that rows of a partition must still fulfil; FALSE means that none of them can match."""
        if not self.asks_partitions:
            return self.predicate
        residual = self._residuals.get(partition)
        if residual is None:
            residual = self._residuals[partition] = simplify(self.predicate, self.values_of(partition))
        return residual

    def values_of(self, partition: bytes) -> dict[str, Value]:
        """Return the values of a partition by the names of its columns."""
        values = decode_row(partition, [f.type for f in self.partition_fields])
        return dict(zip((f.name for f in self.partition_fields), values, strict=True))

    def bucket_may_match(self, entry: ManifestEntry) -> bool:
        """Return whether rows that match can be in the entry's bucket, by the bucket count the entry itself records."""
        buckets = self.buckets_of(entry.partition, entry.total_buckets)
        return buckets is None or entry.bucket in buckets

    def buckets_of(self, partition: bytes, total_buckets: int) -> frozenset[int] | None:
        """Return the buckets of a partition that rows which match can be in; None: any."""
        if total_buckets <= 0 or not self.bucket_fields:
            return None
        key = partition, total_buckets
        if key not in self._buckets:
            self._buckets[key] = matching_buckets(
                self.residual(partition), self.bucket_fields, self.bucket_function, total_buckets
            )
        return self._buckets[key]

    def stats_may_match(self, entry: ManifestEntry, file_fields: Sequence[DataField]) -> bool:
        """Return whether the statistics of a file allow a match; `file_fields` are those it was written with."""
        file = entry.file
        predicate = self._stats_predicate(entry, file_fields)
        if predicate == TRUE:
            return True
        return may_match(predicate, lambda name: _stats_of(file, name, file_fields), file.row_count)

    def key_may_match(
        self, entry: ManifestEntry, file_fields: Sequence[DataField], key_fields: Sequence[DataField]
    ) -> bool:
        """Tell whether the file of a primary-key table may hold a matching key; all versions of a row have one key."""
        predicate = self._stats_predicate(entry, file_fields, key_fields)
        if predicate in (TRUE, FALSE):
            return predicate == TRUE
        file = entry.file
        by_id = {f.id: f for f in file_fields}
        stored = [by_id[f.id] for f in key_fields]  # under the names they had then
        keys = replace(file, value_stats=file.key_stats, value_stats_cols=None, write_cols=None)
        return may_match(
            predicate, lambda name: _stats_of(keys, name, stored) or _stats_of(file, name, file_fields), file.row_count
        )

    def _stats_predicate(
        self, entry: ManifestEntry, file_fields: Sequence[DataField], columns: Sequence[DataField] | None = None
    ) -> Predicate:
        """Return what to ask of a file's statistics, of some columns alone or of all."""
        file = entry.file
        key = entry.partition, file.schema_id, file.write_cols, columns is None
        devolved = self._devolved.get(key)
        if devolved is None:
            residual = self.residual(entry.partition)
            asked = residual if columns is None else project_columns(residual, [f.name for f in columns])
            written = (*written_fields(file_fields, file.write_cols), *self._implied_fields)
            devolved = self._devolved[key] = devolve(asked, self.read_fields, written)
        return devolved

    @property
    def _implied_fields(self) -> tuple[DataField, ...]:
        """The system columns that every file of the table has, stored or not."""
        return tuple(f for f in self.read_fields if f in ROW_TRACKING_FIELDS)

    def group_may_match(self, group: Sequence[ManifestEntry], fields_of: FieldsOf) -> bool:
        """Return whether files that hold columns of the same rows, newest first, may hold a matching row."""
        if len(group) == 1:
            return self.stats_may_match(group[0], fields_of(group[0].file.schema_id))
        key = group[0].partition, tuple((entry.file.schema_id, entry.file.write_cols) for entry in group)
        joined = self._joined.get(key)
        if joined is None:
            joined = self._joined[key] = self._join(group, fields_of)
        files = [entry.file for entry in group]

        def stats(name: str) -> ColumnStats | None:
            at, stored = joined.holders[name]
            return _stats_of(files[at], stored, fields_of(files[at].schema_id))

        return may_match(joined.asked, stats, files[0].row_count)

    def _join(self, group: Sequence[ManifestEntry], fields_of: FieldsOf) -> _Joined:
        """Find the newest file that holds each column, and say the predicate in the types of these files."""
        holders = {f.name: (0, f.name) for f in self._implied_fields}
        held = list(self._implied_fields)
        for column in self.read_fields:
            for at, entry in enumerate(group):
                written = written_fields(fields_of(entry.file.schema_id), entry.file.write_cols)
                stored = next((f for f in written if f.id == column.id), None)
                if stored is not None:
                    holders[column.name] = at, stored.name
                    held.append(replace(stored, name=column.name))
                    break
        return _Joined(devolve(self.residual(group[0].partition), self.read_fields, held), holders)


@dataclass(frozen=True, slots=True)
class _Joined:
    """What to ask of files that hold columns of the same rows."""

    asked: Predicate  # of the columns by their names of today, in the types that the files have
    holders: Mapping[str, tuple[int, str]]  # of each column, which file holds it under which name


def prune_groups(entries: Sequence[ManifestEntry], pruner: EntryPruner, fields_of: FieldsOf) -> list[ManifestEntry]:
    """Return the files of a table with data evolution that may hold columns of matching rows.

    Files of the same rows are kept or left out together, also those of which no column is read: the oldest one is where
    deleted rows are noted.
    """
    groups: dict[tuple[bytes, int, int | str], list[ManifestEntry]] = {}
    for entry in entries:
        file = entry.file
        alone = file.first_row_id is None or is_side_file(file)
        key = entry.partition, entry.bucket, file.file_name if alone else file.first_row_id or 0
        groups.setdefault(key, []).append(entry)
    kept: set[int] = set()
    for group in groups.values():
        newest_first = sorted(group, key=lambda e: (-e.file.max_sequence_number, e.file.file_name))
        if is_side_file(group[0].file) or pruner.group_may_match(newest_first, fields_of):
            kept |= {id(entry) for entry in group}
    return [entry for entry in entries if id(entry) in kept]


@dataclass(frozen=True, slots=True)
class KeyedRules:
    """What of a primary-key table decides which of its files may be left out."""

    key_fields: tuple[DataField, ...]
    key_is_once: bool  # no two visible files hold live rows of one key
    row_wins_whole: bool  # a merged row is one of those it was merged from


def prune_keyed(
    entries: Sequence[ManifestEntry],
    pruner: EntryPruner,
    rules: KeyedRules,
    fields_of: FieldsOf,
) -> list[ManifestEntry]:
    """Return the files of a primary-key table that are needed to give every matching row as it is after merging."""
    in_reach = [e for e in entries if pruner.key_may_match(e, fields_of(e.file.schema_id), rules.key_fields)]
    keys = {f.name for f in rules.key_fields}
    buckets: dict[tuple[bytes, int], list[ManifestEntry]] = {}
    for entry in in_reach:
        buckets.setdefault((entry.partition, entry.bucket), []).append(entry)
    kept: set[int] = set()
    for (partition, _), members in buckets.items():
        if pruner.residual(partition).columns() <= keys:
            kept |= {id(entry) for entry in members}
            continue
        matching = {e.file.file_name for e in members if pruner.stats_may_match(e, fields_of(e.file.schema_id))}
        needed = matching if rules.key_is_once else _needed_files(members, matching, rules)
        kept |= {id(entry) for entry in members if entry.file.file_name in needed}
    return [entry for entry in in_reach if id(entry) in kept]


def _needed_files(entries: Sequence[ManifestEntry], matching: set[str], rules: KeyedRules) -> set[str]:
    """Return the files of a bucket that matching rows are merged from.

    Only files of one section share keys. A file that is alone in its section decides about its keys alone: if no row of
    it matches it can go, and rows of it that delete have nothing left to hide, for nothing else holds their keys. Of
    several files all or none are needed: one without a matching row may hold the version that hides a matching one.
    None are needed where no version matches, unless the merged row is put together from several versions.
    """
    needed: set[str] = set()
    for section in sections([entry.file for entry in entries], [f.type for f in rules.key_fields]):
        names = {file.file_name for file in section.files}
        if not names.isdisjoint(matching) or (len(names) > 1 and not rules.row_wins_whole):
            needed |= names
    return needed


def written_fields(file_fields: Sequence[DataField], write_cols: Sequence[str] | None) -> tuple[DataField, ...]:
    """Return the columns that a file holds, of those of its schema."""
    return tuple(f for f in file_fields if write_cols is None or f.name in write_cols)


def _stats_of(file: DataFile, name: str, file_fields: Sequence[DataField]) -> ColumnStats | None:
    """Return those statistics of a column that are reliable; of system columns, what follows from the file's numbers.

    ORC files move times: those with a local zone by the zone of the writer, and the last second before 1970 by one
    second. What is read from the file then is outside of what the manifest says.
    """
    if name in _TRACKED:
        return _tracked_stats(file, name)
    stats = field_stats(file, name, file_fields)
    if stats is None or not file.file_name.endswith(".orc"):
        return stats
    dtype = next(f.type for f in file_fields if f.name == name)
    root = dtype.root if isinstance(dtype, AtomicType) else ""
    if root == "TIMESTAMP_LTZ":
        return ColumnStats(None, None, stats.null_count)
    if root == "TIMESTAMP" and isinstance(stats.max, int) and -_SECOND_NANOS < stats.max < 0:
        return ColumnStats(stats.min, None, stats.null_count)
    return stats


_TRACKED = frozenset(f.name for f in ROW_TRACKING_FIELDS)


def _tracked_stats(file: DataFile, name: str) -> ColumnStats | None:
    """Return the bounds of the row ids or sequence numbers that a file implies, or those of ids that rows bring along.

    Statistics of sequence numbers in a file are not used: the numbers are null for rows that changed.
    """
    if name in (file.write_cols or ()):
        return field_stats(file, name, ROW_TRACKING_FIELDS) if holds_ids(file) and name == ROW_ID.name else None
    if name == SEQUENCE_NUMBER.name:
        return ColumnStats(file.max_sequence_number, file.max_sequence_number, 0)
    first = file.first_row_id
    return None if first is None else ColumnStats(first, first + file.row_count - 1, 0)


def holds_ids(file: DataFile) -> bool:
    """Return whether every row of a file has its id in a column, as rows have that were moved."""
    return file.first_row_id is None and ROW_ID.name in (file.write_cols or ())


def matching_buckets(
    predicate: Predicate, bucket_fields: Sequence[DataField], function: str, total_buckets: int
) -> frozenset[int] | None:
    """Return the buckets that rows with the bucket keys the predicate asks for can be in; None: any bucket."""
    choices: list[tuple[Value, ...]] = []
    for bucket_field in bucket_fields:
        values = _values_of(predicate, bucket_field)
        if values is None:
            return None
        choices.append(values)
    count = 1
    for values in choices:
        count *= len(values)
    if count > BUCKET_VALUES_MAX:
        return None
    types = [f.type for f in bucket_fields]
    return frozenset(
        bucket_of(values, types, function=function, buckets=total_buckets) for values in itertools.product(*choices)
    )


def _values_of(predicate: Predicate, bucket_field: DataField) -> tuple[Value, ...] | None:
    """Return the values that one column may have in matching rows, None where they are too many to list."""
    allowed: set[Value] | None = None
    for part in conjuncts(project_columns(predicate, [bucket_field.name])):
        listed = [_listed_values(leaf) for leaf in (part.children if part.method == "or" else (part,))]
        if any(values is None for values in listed):
            continue
        values: set[Value] = {value for some in listed for value in some or () if value is not None}
        allowed = values if allowed is None else allowed & values
    if allowed is None:
        return None
    zeros = (-0.0, 0.0) if isinstance(next(iter(allowed), None), float) and 0.0 in allowed else ()
    return (*(value for value in allowed if not zeros or value != 0.0), *zeros)


def _listed_values(leaf: Predicate) -> tuple[Value, ...] | None:
    # There are many NaNs, which are all equal and whose bits lead to several buckets.
    return leaf.literals if leaf.method in {"equal", "in"} and not any(map(is_nan, leaf.literals)) else None


# ---- Pruning many entries at once ------------------------------------------------------------------------------------
# What is left out here surely holds no matching row; of what is left, it is said where that is not sure: `prune`
# looks at those once more, entry by entry. So only what is common is decided here: comparisons of a column with
# literals, where the file has the newest schema and records statistics of all columns. Bounds are compared by images
# that never fall as the values rise: of a text its first bytes, of a time its milliseconds; only of whole numbers and
# days that is all.

_Bounds: TypeAlias = npt.NDArray[Any]  # images of one kind

_SIGNED = {"TINYINT": np.int8, "SMALLINT": np.int16, "INT": np.int32, "DATE": np.int32, "BIGINT": np.int64}
_TEXTS = frozenset({"STRING", "VARCHAR"}) | BYTES_ROOTS
_PREFIX_BYTES = 16
_LITERALS_MAX = 100  # of a list whose members are looked at one by one
_ORC = int.from_bytes(b".orc", "little")
_LOW_HALF = np.uint64(0xFFFFFFFF)


@dataclass(slots=True)
class Narrowing:
    """What of a scan decides about entries, and how many each kind of pruning left."""

    pruner: EntryPruner
    predicate: Predicate  # on columns that the statistics cover
    fields: Sequence[DataField]  # that the statistics cover, in order
    stats: str  # the field of a file's record that holds them
    schema_id: int
    lowest_level: int | None  # of a primary-key table, the lowest level that is read
    list_partitions: bool
    decides_alone: bool  # each entry is kept or left out by its own statistics of these fields, and nothing else
    live: int = 0
    shown: int = 0
    in_bucket: int = 0
    partitions: frozenset[bytes] = frozenset()  # of what is shown, where they are to be listed

    def choose(self, live: SelectedEntries) -> tuple[SelectedEntries, Mask]:
        """Return the live entries that are shown and may hold a matching row, and for which of them that is sure."""
        self.live = len(live)
        found = live.narrow(self._shown_rows)
        self.shown = len(found)
        found = found.narrow(lambda part, rows: rows[self._in_bucket(part, rows)])
        self.in_bucket = len(found)
        sure: list[Mask] = []

        def by_stats(part: EntryPart, rows: Longs) -> Longs:
            verdict = _StatsMask(self, part, rows).of(self.predicate)
            sure.append(verdict.sure[verdict.may])
            return rows[verdict.may]

        left = found.narrow(by_stats)
        return left, np.concatenate([np.zeros(0, np.bool_), *sure])

    def _shown_rows(self, part: EntryPart, rows: Longs) -> Longs:
        if self.lowest_level is not None:
            is_shown = (part.buckets.take(rows) != POSTPONE) & (part.levels.take(rows) >= self.lowest_level)
            rows = rows[is_shown]
        if self.list_partitions:
            codes = np.unique(part.codes.take(rows)).tolist()
            self.partitions |= {part.partitions[code] for code in codes}
        return rows

    def _in_bucket(self, part: EntryPart, rows: Longs) -> Mask:
        kept = np.ones(len(rows), np.bool_)
        if not self.pruner.bucket_fields:
            return kept
        codes, totals, buckets = (some.take(rows) for some in (part.codes, part.totals, part.buckets))
        for code, total in np.unique(np.stack([codes, totals], axis=1), axis=0).tolist():
            matching = self.pruner.buckets_of(part.partitions[code], total)
            if matching is not None:
                kept[(codes == code) & (totals == total) & ~np.isin(buckets, list(matching))] = False
        return kept


@dataclass(frozen=True, slots=True)
class _Verdict:
    """Of some entries, which may hold a matching row, and where `prune` would surely say the same."""

    may: Mask
    sure: Mask


@dataclass(slots=True)
class _StatsMask:
    """Says of some entries whether their statistics allow a matching row."""

    narrowing: Narrowing
    part: EntryPart
    rows: Longs

    def of(self, predicate: Predicate) -> _Verdict:
        """Return what the statistics say about a predicate."""
        all_ = np.ones(len(self.rows), np.bool_)
        match predicate.method:
            case "and":
                parts = [self.of(child) for child in predicate.children]
                return _Verdict(_every([part.may for part in parts]), _every([part.sure for part in parts]))
            case "or":
                parts = [self.of(child) for child in predicate.children]
                return _Verdict(~_every([~part.may for part in parts]), _every([part.sure for part in parts]))
            case "alwaysTrue":
                return _Verdict(all_, all_)
            case "alwaysFalse":
                return _Verdict(~all_, all_)
            case _ if self._asks_partitions_only(predicate):
                return _Verdict(self._by_partition(predicate), all_)
            case _ if len(predicate.path) == 1 and predicate.literals and not predicate.other:
                return self._leaf(predicate)
        return _Verdict(all_, ~all_)

    def _asks_partitions_only(self, leaf: Predicate) -> bool:
        names = {field.name for field in self.narrowing.pruner.partition_fields}
        return bool(names) and bool(leaf.columns()) and leaf.columns() <= names

    def _by_partition(self, leaf: Predicate) -> Mask:
        """Say which entries are of a partition that fulfils a condition on partition columns."""
        pruner = self.narrowing.pruner
        answers = [simplify(leaf, pruner.values_of(partition)) != FALSE for partition in self.part.partitions]
        return np.array(answers, np.bool_).take(self.part.codes.take(self.rows))

    def _leaf(self, leaf: Predicate) -> _Verdict:
        all_ = np.ones(len(self.rows), np.bool_)
        names = [field.name for field in self.narrowing.fields]
        dtype, entries = leaf.dtype, self.part
        if leaf.path[0] not in names or not isinstance(dtype, AtomicType) or not isinstance(entries, EntryColumns):
            return _Verdict(all_, ~all_)
        index = names.index(leaf.path[0])
        literals = [_image(value, dtype) for value in leaf.literals]
        is_known = self.narrowing.fields[index].type.root == dtype.root  # type: ignore[union-attr]
        if not is_known or None in literals or (is_float(dtype) and leaf.method.startswith("greater")):
            return _Verdict(all_, ~all_)  # among others because every file may hold NaN, which is above all numbers
        lows, is_low = self._bounds(entries, "_MIN_VALUES", index, dtype)
        highs, is_high = self._bounds(entries, "_MAX_VALUES", index, dtype)
        exact = dtype.root in _SIGNED and len(literals) <= _LITERALS_MAX
        may = _may_match(leaf.method, literals, lows, highs, exact=exact)
        if may is None:
            return _Verdict(all_, ~all_)
        covered = is_low & is_high & self._covered_files(entries, dtype)
        return _Verdict(may | ~covered, covered if exact else ~all_)

    def _covered_files(self, entries: EntryColumns, dtype: AtomicType) -> Mask:
        """Say which files have the newest schema and statistics of all columns, in a form that can be trusted."""
        rows, file = self.rows, entries.of_file
        schemas = file("_SCHEMA_ID")
        covered = schemas.values.take(rows) == self.narrowing.schema_id if schemas is not None else rows < 0
        for name in ("_VALUE_STATS_COLS", "_WRITE_COLS"):
            column = file(name)
            if column is not None:
                covered &= False if column.valid is None else ~column.valid.take(rows)
        names = file("_FILE_NAME")
        if dtype.root in TIMESTAMP_ROOTS and names is not None and names.sizes is not None:
            ends = entries.columns.words(names.values.take(rows) + names.sizes.take(rows) - ARITY_BYTES)
            covered &= (ends & _LOW_HALF) != _ORC  # ORC files move times
        return covered

    def _bounds(self, entries: EntryColumns, bound: str, index: int, dtype: AtomicType) -> tuple[_Bounds, Mask]:
        """Return the images of a bound of a column, and where it is known."""
        arity, words = len(self.narrowing.fields), entries.columns.words
        column = entries.of_file(f"{self.narrowing.stats}.{bound}")
        if column is None or column.sizes is None:
            return np.zeros(len(self.rows), np.int64), self.rows < 0
        starts, sizes = column.values.take(self.rows), column.sizes.take(self.rows)
        known = sizes >= ARITY_BYTES + header_bytes(arity) + SLOT_BYTES * arity
        known &= (words(starts) & _LOW_HALF) == int.from_bytes(arity.to_bytes(ARITY_BYTES, "big"), "little")
        bodies = starts + ARITY_BYTES
        at, bit = divmod(8 + index, 8)
        known &= (words(bodies + at) >> np.uint64(bit)) & np.uint64(1) == 0
        slots = words(bodies + header_bytes(arity) + SLOT_BYTES * index)
        if dtype.root in _TEXTS:
            prefixes, lasts = _texts(words, bodies, slots)
            return prefixes, known & (lasts != ord("?")) if bound == "_MAX_VALUES" else known
        if dtype.root in TIMESTAMP_ROOTS and dtype.precision > MILLIS_PRECISION:
            slots = words(bodies + (slots >> np.uint64(32)).astype(np.int64))
        if is_float(dtype):
            numbers = slots.view(np.float64)
            if dtype.root == "FLOAT":
                numbers = slots.astype(np.uint32).view(np.float32).astype(np.float64)
            return numbers, known & ~np.isnan(numbers)
        return slots.view(np.int64).astype(_SIGNED.get(dtype.root, np.int64)).astype(np.int64), known


def _texts(words: Callable[[Longs], Words], bodies: Longs, slots: Words) -> tuple[_Bounds, Words]:
    """Return the first bytes of texts, which numpy compares as such, and their last bytes."""
    top = slots >> np.uint64(56)
    is_inline = top >= 0x80  # noqa: PLR2004 - how a text of up to 7 bytes inside of its slot is marked
    sizes = np.where(is_inline, top & np.uint64(0x7F), slots & _LOW_HALF).astype(np.int64)
    at = np.where(is_inline, 0, bodies + (slots >> np.uint64(32)).astype(np.int64))
    first = np.where(is_inline, slots, words(at)) & _low_bytes(sizes)
    second = words(at + SLOT_BYTES) & _low_bytes(sizes - SLOT_BYTES)
    prefixes = np.stack([first, second], axis=1).view(f"S{_PREFIX_BYTES}").reshape(-1)
    lasts = np.where(is_inline, slots >> _bits(sizes - 1), words(at + np.maximum(sizes - 1, 0)))
    return prefixes, lasts & np.uint64(0xFF)


def _every(masks: Sequence[Mask]) -> Mask:
    return np.asarray(np.logical_and.reduce(masks))


def _bits(sizes: Longs) -> Words:
    return (np.clip(sizes, 0, 7) * 8).astype(np.uint64)


def _low_bytes(sizes: Longs) -> Words:
    """Return masks of so many bytes, which come first in memory."""
    return np.where(sizes < SLOT_BYTES, (np.uint64(1) << _bits(sizes)) - np.uint64(1), ~np.uint64(0))


def _image(value: Value, dtype: AtomicType) -> Any:  # noqa: ANN401 - a number, or bytes
    """Return the image of a literal; None where it has none."""
    root = dtype.root
    if root in _TEXTS and isinstance(value, str | bytes):
        raw = value.encode() if isinstance(value, str) else value
        return raw[:_PREFIX_BYTES]
    if root in TIMESTAMP_ROOTS and isinstance(value, int):
        return value // MILLI_NANOS
    if root in _SIGNED and isinstance(value, int):
        return value
    if is_float(dtype) and isinstance(value, float) and not is_nan(value):
        return value
    return None


def _may_match(method: str, literals: Sequence[Any], lows: _Bounds, highs: _Bounds, *, exact: bool) -> Mask | None:
    """Say where a value between the bounds may fulfil a comparison; None: it is not known.

    Images that are not `exact` may be equal where the values are not.
    """
    match method:
        case "equal" | "in" if len(literals) <= _LITERALS_MAX:
            ranges = [(literal, literal) for literal in literals]
        case "equal" | "in":
            ranges = [(min(literals), max(literals))]
        case "between":
            ranges = [(literals[0], literals[1])]
        case "lessThan" if exact:
            return np.asarray(lows < literals[0])
        case "greaterThan" if exact:
            return np.asarray(highs > literals[0])
        case "lessThan" | "lessOrEqual":
            return np.asarray(lows <= literals[0])
        case "greaterThan" | "greaterOrEqual":
            return np.asarray(highs >= literals[0])
        case _:
            return None
    found = np.zeros(len(lows), np.bool_)
    for first, last in ranges:
        found |= (lows <= last) & (highs >= first)
    return found


# ---- Pruning manifests -----------------------------------------------------------------------------------------------
# Every answer is conservative, and no stronger than what is asked of the entries afterwards. So a file whose deletion
# is recorded in a manifest that is skipped does not come back: it is left out by its own bucket, level or row ids.


def is_hidden(manifest: ManifestFile, lowest_level: int) -> bool:
    """Return whether a batch read of a primary-key table sees no file that a manifest names, whatever it asks for."""
    below = manifest.max_level is not None and manifest.max_level < lowest_level
    return below or (manifest.max_bucket is not None and manifest.max_bucket <= POSTPONE)


@dataclass(frozen=True, slots=True)
class ManifestRanges:
    """What of a predicate can be asked of the buckets and row ids of a manifest."""

    buckets: frozenset[int] | None  # that matching rows are in; None: any
    row_ids: Predicate

    @classmethod
    def of(cls, pruner: EntryPruner, schema: TableSchema) -> ManifestRanges:
        """Find out what to ask of manifests.

        A manifest does not record how many buckets there were when its files were written. Only as long as the table
        has its first schema that is surely the number of today.
        """
        buckets = None
        if pruner.bucket_fields and schema.id == 0 and pruner.predicate != TRUE:
            total = schema.table_options.bucket
            buckets = matching_buckets(pruner.predicate, pruner.bucket_fields, pruner.bucket_function, total)
        has_ids = any(field.name == ROW_ID.name for field in pruner.read_fields)
        return cls(buckets, project_columns(pruner.predicate, [ROW_ID.name]) if has_ids else TRUE)

    def may_match(self, manifest: ManifestFile) -> bool:
        """Return whether a manifest may name a file with matching rows."""
        return self._bucket_may_match(manifest) and self._row_id_may_match(manifest)

    def _bucket_may_match(self, manifest: ManifestFile) -> bool:
        low, high = manifest.min_bucket, manifest.max_bucket
        if self.buckets is None or low is None or high is None:
            return True
        return any(low <= bucket <= high for bucket in self.buckets)

    def _row_id_may_match(self, manifest: ManifestFile) -> bool:
        first, last = manifest.min_row_id, manifest.max_row_id
        if self.row_ids == TRUE or first is None or last is None:
            return True
        stats = ColumnStats(first, last, 0)
        return may_match(self.row_ids, lambda _: stats, last - first + 1)
