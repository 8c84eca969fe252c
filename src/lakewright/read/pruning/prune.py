"""Which manifests and files may hold matching rows: a predicate and recorded facts in, yes or no out.

Every answer is conservative: what is pruned holds no matching row, and none that hides another version of its key. A
file is described by its own schema, so a predicate is first said in the words of that schema (`devolve`); what cannot
be said safely is left out.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from lakewright.lsm.runs import sections
from lakewright.read.projection import ROW_ID, ROW_TRACKING_FIELDS
from lakewright.spec.buckets import bucket_of
from lakewright.spec.datafile import DataFile, is_side_file
from lakewright.spec.keyed_rows import SEQUENCE_NUMBER
from lakewright.spec.manifest import ManifestEntry, ManifestFile
from lakewright.spec.predicate.builder import bind
from lakewright.spec.predicate.evaluation import assume, may_match, project
from lakewright.spec.predicate.predicate import (
    FALSE,
    TRUE,
    Predicate,
    and_predicates,
    conjuncts,
    normalise,
    or_predicates,
)
from lakewright.spec.rows.binary_row import decode_row
from lakewright.spec.stats import ColumnStats, field_stats, is_nan
from lakewright.spec.types import AtomicType, DataField, Value

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
    """Say whether a manifest may name a file of a matching partition."""
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
        self.predicate = normalise(self.predicate)
        self.asks_partitions = not self.predicate.columns().isdisjoint(f.name for f in self.partition_fields)

    def residual(self, partition: bytes) -> Predicate:
        """Return the predicate that rows of a partition must still fulfil; FALSE means that none of them can match."""
        if not self.asks_partitions:
            return self.predicate
        residual = self._residuals.get(partition)
        if residual is None:
            residual = self._residuals[partition] = assume(self.predicate, self.values_of(partition))
        return residual

    def values_of(self, partition: bytes) -> dict[str, Value]:
        """Return the values of a partition by the names of its columns."""
        values = decode_row(partition, [f.type for f in self.partition_fields])
        return dict(zip((f.name for f in self.partition_fields), values, strict=True))

    def bucket_may_match(self, entry: ManifestEntry) -> bool:
        """Say whether rows that match can be in the entry's bucket, by the bucket count the entry itself records."""
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
        """Say whether the file's statistics allow a matching row; `file_fields` are those the file was written with."""
        file = entry.file
        predicate = self._asked(entry, file_fields)
        if predicate == TRUE:
            return True
        return may_match(predicate, lambda name: _stats_of(file, name, file_fields), file.row_count)

    def key_may_match(
        self, entry: ManifestEntry, file_fields: Sequence[DataField], key_fields: Sequence[DataField]
    ) -> bool:
        """Say whether the file of a primary-key table may hold a matching key; all versions of a row have one key."""
        predicate = self._asked(entry, file_fields, key_fields)
        if predicate in (TRUE, FALSE):
            return predicate == TRUE
        file = entry.file
        by_id = {f.id: f for f in file_fields}
        stored = [by_id[f.id] for f in key_fields]  # under the names they had then
        keys = replace(file, value_stats=file.key_stats, value_stats_cols=None, write_cols=None)
        return may_match(
            predicate, lambda name: _stats_of(keys, name, stored) or _stats_of(file, name, file_fields), file.row_count
        )

    def _asked(
        self, entry: ManifestEntry, file_fields: Sequence[DataField], columns: Sequence[DataField] | None = None
    ) -> Predicate:
        """Return what to ask of a file's statistics, of some columns alone or of all."""
        file = entry.file
        key = entry.partition, file.schema_id, file.write_cols, columns is None
        devolved = self._devolved.get(key)
        if devolved is None:
            residual = self.residual(entry.partition)
            asked = residual if columns is None else project(residual, [f.name for f in columns])
            written = (*written_fields(file_fields, file.write_cols), *self._implied_fields)
            devolved = self._devolved[key] = devolve(asked, self.read_fields, written)
        return devolved

    @property
    def _implied_fields(self) -> tuple[DataField, ...]:
        """The system columns that every file of the table has, stored or not."""
        return tuple(f for f in self.read_fields if f in ROW_TRACKING_FIELDS)

    def group_may_match(self, group: Sequence[ManifestEntry], fields_of: FieldsOf) -> bool:
        """Say whether files that hold columns of the same rows, newest first, may hold a matching row."""
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
        needed = matching if rules.key_is_once else _needed(members, matching, rules)
        kept |= {id(entry) for entry in members if entry.file.file_name in needed}
    return [entry for entry in in_reach if id(entry) in kept]


def _needed(entries: Sequence[ManifestEntry], matching: set[str], rules: KeyedRules) -> set[str]:
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
    second. What is read from the file then lies outside of what the manifest says.
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
    """Say whether every row of a file has its id in a column, as rows have that were moved."""
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
    for part in conjuncts(project(predicate, [bucket_field.name])):
        listed = [_listed(leaf) for leaf in (part.children if part.method == "or" else (part,))]
        if any(values is None for values in listed):
            continue
        values: set[Value] = {value for some in listed for value in some or () if value is not None}
        allowed = values if allowed is None else allowed & values
    if allowed is None:
        return None
    zeros = (-0.0, 0.0) if isinstance(next(iter(allowed), None), float) and 0.0 in allowed else ()
    return (*(value for value in allowed if not zeros or value != 0.0), *zeros)


def _listed(leaf: Predicate) -> tuple[Value, ...] | None:
    # There are many NaNs, which are all equal and whose bits lead to several buckets.
    return leaf.literals if leaf.method in {"equal", "in"} and not any(map(is_nan, leaf.literals)) else None
