"""Which of many entries may hold matching rows: columns of entries in, the numbers of those that are left out.

What is left out here surely holds no matching row; of what is left, it is said where that is not sure: `prune` looks at
those once more, entry by entry. So only what is common is decided here: comparisons of a column with literals, where
the file has the newest schema and records statistics of all columns. Bounds are compared by images that never fall as
the values rise: of a text its first bytes, of a time its milliseconds; only of whole numbers and days that is all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from lakewright.formats.avro.columns import Longs, Mask, Words
from lakewright.metadata.entry_columns import EntryColumns
from lakewright.metadata.entry_parts import ChosenEntries, EntryPart
from lakewright.read.pruning.prune import EntryPruner
from lakewright.spec.predicate.comparison import is_float
from lakewright.spec.predicate.evaluation import assume
from lakewright.spec.predicate.predicate import FALSE, Predicate
from lakewright.spec.rows.binary_row import ARITY_BYTES
from lakewright.spec.rows.slots import MILLI_NANOS, SLOT_BYTES, header_bytes
from lakewright.spec.schema.table_schema import POSTPONE
from lakewright.spec.stats import is_nan
from lakewright.spec.types import BYTES_ROOTS, MILLIS_PRECISION, TIMESTAMP_ROOTS, AtomicType, DataField, Value

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

    def choose(self, live: ChosenEntries) -> tuple[ChosenEntries, Mask]:
        """Return the live entries that are shown and may hold a matching row, and for which of them that is sure."""
        self.live = len(live)
        found = live.narrowed(self._shown)
        self.shown = len(found)
        found = found.narrowed(lambda part, rows: rows[self._in_bucket(part, rows)])
        self.in_bucket = len(found)
        sure: list[Mask] = []

        def by_stats(part: EntryPart, rows: Longs) -> Longs:
            verdict = _StatsMask(self, part, rows).of(self.predicate)
            sure.append(verdict.sure[verdict.may])
            return rows[verdict.may]

        left = found.narrowed(by_stats)
        return left, np.concatenate([np.zeros(0, np.bool_), *sure])

    def _shown(self, part: EntryPart, rows: Longs) -> Longs:
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
        answers = [assume(leaf, pruner.values_of(partition)) != FALSE for partition in self.part.partitions]
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
        covered = is_low & is_high & self._covered(entries, dtype)
        return _Verdict(may | ~covered, covered if exact else ~all_)

    def _covered(self, entries: EntryColumns, dtype: AtomicType) -> Mask:
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
