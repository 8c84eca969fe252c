"""Join conditions of a merge, and the pairs of rows that fulfil them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.dml.assignments import ColumnRef, ColumnScope, MergeSide
from lakewright.errors import ColumnNotExistException, InvalidInputError, UnsupportedError
from lakewright.lsm.normalized_keys import INTEGERS
from lakewright.spec.arrow_types import from_arrow_type, to_arrow_type
from lakewright.spec.binary_row import fixed_values, null_mask, plain_column
from lakewright.spec.comparison import check_comparable, common_type, is_float
from lakewright.spec.filter_text import parse_condition
from lakewright.spec.filters import Filter, to_predicate
from lakewright.spec.predicate import (
    FALSE,
    TRUE,
    ColumnName,
    Predicate,
    PredicateBuilder,
    and_predicates,
    conjuncts,
    format_column,
    normalise,
    or_predicates,
    resolve_path,
)
from lakewright.spec.types import BINARY_ROOTS, TEXT_ROOTS, AtomicType, DataField, DataType
from lakewright.write.alignment import Aligner

# ---- Join conditions -------------------------------------------------------------------------------------------------
# The text is that of filters (`spec.filter_text`), and columns may be compared with columns. Those of the target
# are written `t.name` or `target.name`, those of the source `s.name` or `source.name`; a plain name is enough if only
# one of them has such a column. The logic is SQL's with three values: only rows match for which the condition is
# true.

_SIDES = {"s": MergeSide.SOURCE, "source": MergeSide.SOURCE, "t": MergeSide.TARGET, "target": MergeSide.TARGET}


class RowCondition(Protocol):
    """What decides for which pairs of rows a clause applies."""

    @property
    def refs(self) -> frozenset[ColumnRef]:
        """The columns that it needs."""

    def mask(self, rows: int, target: pa.Table | None, source: pa.Table | None) -> pa.Array | pa.ChunkedArray:
        """Evaluate it on pairs of rows: true, false or null for each."""


class ScopedText(str):
    """The text of a condition in another language than that of filters; a subclass says how it is understood."""

    __slots__ = ()

    def in_scope(self, scope: ColumnScope, what: str) -> RowCondition:
        """Return the condition on the columns of a scope; `what` names it in errors."""
        return parse(str(self), scope, what)


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on pairs of rows, or on rows of one side. Each path of its predicate begins with `t` or `s`."""

    predicate: Predicate

    @classmethod
    def on(cls, side: MergeSide, predicate: Predicate) -> Condition:
        """Return a condition on the rows of one side, given as a predicate on its columns."""
        return cls(_on_side(predicate, side))

    @property
    def refs(self) -> frozenset[ColumnRef]:
        """The columns that it needs."""
        return frozenset(ref for leaf in self.predicate.leaves() for ref in _refs(leaf))

    def equalities(self) -> tuple[tuple[str, str], ...]:
        """Return the pairs of target and source columns that must be equal: those joined by the outermost ANDs."""
        pairs = (_equality(part) for part in conjuncts(self.predicate))
        return tuple(dict.fromkeys(pair for pair in pairs if pair is not None))

    def residual(self) -> Condition | None:
        """Return the rest of the condition, for pairs whose equalities hold; None: there is no more."""
        left = [part for part in conjuncts(self.predicate) if _equality(part) is None]
        return Condition(and_predicates(left)) if left else None

    def on_target(self) -> Predicate:
        """Return the strongest predicate on the target's columns that every matching target row fulfils."""
        return _on_target(normalise(self.predicate))

    def mask(self, rows: int, target: pa.Table | None, source: pa.Table | None) -> pa.Array | pa.ChunkedArray:
        """Evaluate it on pairs of rows: true, false or null for each."""
        sides = {MergeSide.TARGET: target, MergeSide.SOURCE: source}

        def find(path: tuple[str, ...]) -> tuple[pa.ChunkedArray, tuple[str, ...]]:
            table = sides[MergeSide(path[0])]
            if table is None:
                raise InvalidInputError(f"the column {'.'.join(path)} was not read", column=path[1])
            return table.column(path[1]), path[2:]

        return self.predicate.mask_of(rows, find)


def parse(given: Filter, scope: ColumnScope, what: str) -> Condition:
    """Parse a condition; a predicate is one on the target, or on the source if there is no target.

    `what` names the condition in errors.
    """
    try:
        if isinstance(given, str):
            return Condition(parse_condition(given, _ScopedBuilder(scope)))
        side = MergeSide.TARGET if scope.target else MergeSide.SOURCE
        return Condition.on(side, to_predicate(given, list(_fields(scope, side).values()), scope.zone))
    except (InvalidInputError, ColumnNotExistException, UnsupportedError) as error:
        raise type(error)(f"{what}: {error.message}", **error.facts) from error


class _ScopedBuilder(PredicateBuilder):
    """Builds predicates on the columns of both sides."""

    def __init__(self, scope: ColumnScope) -> None:
        super().__init__(scope.target, scope.zone)
        self._scope = scope

    def resolve(self, field: ColumnName) -> tuple[tuple[str, ...], DataType]:
        """Return the side, the path and the type that a name stands for."""
        rest: ColumnName
        if isinstance(field, tuple):
            head, rest, dot = field[0], field[1:], len(field) > 1
        else:
            head, mark, rest = field.partition(".")
            dot = bool(mark)
        if dot and self._scope.source is not None and head.casefold() in _SIDES:
            return self._path_of(_SIDES[head.casefold()], rest)
        sides = [side for side in MergeSide if not {head, field}.isdisjoint(_names(self._scope, side))]
        if len(sides) > 1:
            name = format_column(field)
            raise InvalidInputError(
                f"the column {name!r} is there on both sides; write t.{name} or s.{name}", column=name
            )
        return self._path_of(sides[0] if sides else MergeSide.TARGET if self._scope.target else MergeSide.SOURCE, field)

    def _path_of(self, side: MergeSide, name: ColumnName) -> tuple[tuple[str, ...], DataType]:
        text = format_column(name)
        if not _names(self._scope, side):
            which = "target" if side is MergeSide.TARGET else "source"
            raise ColumnNotExistException(
                f"{side}.{text} cannot be asked here, as there is no row of the {which}", column=text
            )
        path, dtype = resolve_path(_fields(self._scope, side, text), name)
        return (side.value, *path), dtype


def _names(scope: ColumnScope, side: MergeSide) -> list[str]:
    if side is MergeSide.TARGET:
        return [field.name for field in scope.target]
    return [] if scope.source is None else list(scope.source.names)


def _fields(scope: ColumnScope, side: MergeSide, needed: str = "") -> dict[str, DataField]:
    """Return the columns of a side; a source column whose type the format lacks is an error only if it is needed."""
    if side is MergeSide.TARGET:
        return {field.name: field for field in scope.target}
    fields = {}
    for number, field in enumerate(scope.source or ()):
        try:
            fields[field.name] = DataField(number, field.name, from_arrow_type(field.type, column=field.name))
        except (InvalidInputError, UnsupportedError):
            if needed in {field.name, ""} or needed.startswith(f"{field.name}."):
                raise
    return fields


def _on_side(p: Predicate, side: MergeSide) -> Predicate:
    """Return a predicate whose paths begin with a side."""
    if p.children:
        return replace(p, children=tuple(_on_side(child, side) for child in p.children))
    return replace(p, path=(side.value, *p.path)) if p.path else p


def _refs(leaf: Predicate) -> Iterable[ColumnRef]:
    return (ColumnRef(MergeSide(path[0]), path[1]) for path in (leaf.path, leaf.other) if path)


def _equality(p: Predicate) -> tuple[str, str] | None:
    """Return the columns, of the target and of the source, that a comparison asks to be equal."""
    if p.method != "equal" or len(p.path) != 2 or len(p.other) != 2:  # noqa: PLR2004 - a side and a column
        return None
    by_side = {p.path[0]: p.path[1], p.other[0]: p.other[1]}
    return (by_side[MergeSide.TARGET], by_side[MergeSide.SOURCE]) if len(by_side) > 1 else None


def _on_target(p: Predicate) -> Predicate:
    match p.method:
        case "and":
            return and_predicates(_on_target(child) for child in p.children)
        case "or":
            return or_predicates(_on_target(child) for child in p.children)
        case "not":
            inner = _on_target(p.children[0])
            return TRUE if inner == TRUE else ~inner
        case _ if not p.path:
            return p
        case _ if p.other or p.path[0] != MergeSide.TARGET:
            return TRUE
        case _:
            return replace(p, field=".".join(p.path[1:]), path=p.path[1:])


# ---- Matching rows ---------------------------------------------------------------------------------------------------
# The source is an Arrow table in memory. Its join columns are converted to the target's types as a write would, and
# indexed once; target rows then come in batches of any size, from any thread or worker. Invariant: null
# matches nothing, 0.0 and -0.0 are equal, and so are all NaNs; pairs are in the order of the target's rows, then the
# source's. Only where rows are found by the primary key of a table, 0.0 and -0.0 differ, as they do wherever its rows
# are merged.
#
# Values that are stored as integers are looked up in an array if their range is small enough, all others by Arrow's
# hash. Several columns are looked up one after the other, each only for the rows that matched in the columns before.

Longs: TypeAlias = npt.NDArray[np.int64]
Column: TypeAlias = pa.Array | pa.ChunkedArray
Lookup: TypeAlias = tuple[Longs, Longs]  # rows whose values are known, and the codes of these values
JoinPair: TypeAlias = tuple[DataField, str]  # a column of the target, and the name of one of the source

_UNKNOWN = -1
_BLOCK = 1 << 16  # numbers that are looked up at once, so that intermediate arrays fit the processor's cache
_TABLE_MIN, _TABLE_MAX, _TABLE_PER_VALUE = 1 << 22, 1 << 26, 64  # entries of a table in which numbers are looked up
_SIEVE_PER_VALUE = 16
_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # a hash multiplier: neighbouring numbers get distant hashes
_LISTED_MAX = 1000  # a predicate lists up to so many keys, and gives bounds for more
_COMPACT_DECIMAL_MAX = 18  # decimals up to this precision fit 64 bits
_WIDTHS = {
    "BOOLEAN": "<u1",
    **INTEGERS,
    "FLOAT": "<f4",
    "DOUBLE": "<f8",
}


@dataclass(frozen=True, slots=True)
class Pairs:
    """Rows that match: row `target[i]` of the target and row `source[i]` of the source."""

    target: Longs  # ascending; a row occurs once for each source row that matches it
    source: Longs

    def where(self, keep: pa.Array | pa.ChunkedArray) -> Pairs:
        """Return the pairs for which a mask is true."""
        at = true_rows(keep)
        return Pairs(self.target[at], self.source[at])


class Matcher:
    """Finds the source rows of target rows; it can be shared by threads."""

    def __init__(
        self,
        source: pa.Table,
        on: Sequence[tuple[DataField, str]],
        residual: Condition | None = None,
        *,
        zeros_differ: bool = False,
    ) -> None:
        """Index a source by pairs of columns that must be equal; `residual` is the rest of the condition."""
        self.source = source
        self.on = tuple(on)
        self._residual = residual
        self._joins = [_JoinColumn.of(source.column(name), field, name) for field, name in on]
        self._keys = _KeyIndex(self._joins, zeros_differ=zeros_differ)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the target that it needs."""
        return tuple(dict.fromkeys([*(field.name for field, _ in self.on), *self._residual_columns(MergeSide.TARGET)]))

    def match(self, target: pa.Table) -> Pairs:
        """Return the pairs of rows that match."""
        pairs = self._keys.find([target.column(field.name) for field, _ in self.on])
        if self._residual is None or not len(pairs.target):
            return pairs
        left = target.select(self._residual_columns(MergeSide.TARGET)).take(pa.array(pairs.target))
        right = self.source.select(self._residual_columns(MergeSide.SOURCE)).take(pa.array(pairs.source))
        return pairs.where(self._residual.mask(len(pairs.target), left, right))

    def pruning_predicate(self) -> Predicate:
        """Return a predicate that every target row with a match fulfils: it lists the keys, or gives their bounds."""
        pairs = zip(self._joins, self.on, strict=True)
        return and_predicates(_key_predicate(field, join) for join, (field, _) in pairs if join.exact)

    def last_rows(self) -> Longs:
        """Return the last source row of each key, and all rows with null in their key, in their order."""
        return self._keys.last_rows(self.source.num_rows)

    def _residual_columns(self, side: MergeSide) -> list[str]:
        refs = frozenset() if self._residual is None else self._residual.refs
        return sorted(ref.name for ref in refs if ref.side is side)


def compared_in(field: DataField, given: pa.Field) -> AtomicType:
    """Return a type in which a column of the target and one of the source can be compared, whatever values they have.

    That is the target's own type where the two have no type in common: then a write would convert the source's values.
    """
    own = check_comparable(field.type, field.name)
    common = common_type(own, check_comparable(from_arrow_type(given.type, column=given.name), given.name))
    return _wide(own) if common is None else _wide(common)


# ---- join columns ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _JoinColumn:
    """One join column of the source, converted to a type in which it is compared with the target's."""

    source: pa.Array
    dtype: AtomicType  # in which both are compared
    exact: bool  # that is the target's own type

    @classmethod
    def of(cls, column: Column, field: DataField, name: str) -> _JoinColumn:
        own = check_comparable(field.type, field.name)
        try:
            return cls(convert_key_column(column, own, name), own, exact=True)
        except InvalidInputError as error:
            common = common_type(own, check_comparable(from_arrow_type(column.type, column=name), name))
            if common is None:
                raise InvalidInputError(
                    f"the column {name!r} of the source ({column.type}) cannot be matched with {field.name!r} of the "
                    f"table ({own}); cast it",
                    column=name,
                    type=str(own),
                ) from error
            # Some value does not fit the target's type, so it matches nothing; the others still may.
            return cls(convert_key_column(column, common, name), common, exact=False)

    def of_target(self, column: Column) -> pa.Array:
        """Return a column of the target in the type of the comparison."""
        return plain_column(column if self.exact else column.cast(to_arrow_type(self.dtype)), self.dtype)


def convert_key_column(column: Column, dtype: AtomicType, name: str) -> pa.Array:
    """Convert a column as a write would, but allow nulls, which match nothing, and text of any length."""
    wide = _wide(dtype)
    aligner = Aligner([DataField(0, name, wide)], table="the source")
    return plain_column(aligner.align(pa.table({name: column})).column(0), wide)


def _wide(dtype: AtomicType) -> AtomicType:
    """Return a type as nullable, and text and bytes without a maximal length."""
    return AtomicType("STRING" if dtype.root in TEXT_ROOTS else "BYTES" if dtype.root in BINARY_ROOTS else dtype.type)


def _key_predicate(field: DataField, join: _JoinColumn) -> Predicate:
    values = pc.unique(join.source).drop_null()
    if not len(values):
        return FALSE
    builder = PredicateBuilder([field])
    if len(values) <= _LISTED_MAX:
        return builder.is_in(field.name, list(values))
    bounds = pc.min_max(values)  # ignores NaN, which sorts above all numbers
    if is_float(field.type) and pc.any(pc.is_nan(values)).as_py():
        return builder.greater_or_equal(field.name, bounds["min"])
    return builder.between(field.name, bounds["min"], bounds["max"])


# ---- the index -------------------------------------------------------------------------------------------------------


class _KeyIndex:
    """The source rows by key: each distinct key has a code, and the rows are sorted by code."""

    def __init__(self, joins: Sequence[_JoinColumn], *, zeros_differ: bool) -> None:
        self._joins = joins
        indexes = [_index_of(join.source, join.dtype, zeros_differ=zeros_differ) for join in joins]
        # The column with the most distinct values comes first, so that the others have the fewest rows to look up.
        self._steps = sorted(range(len(joins)), key=lambda at: -indexes[at].size)
        self._indexes = indexes
        self._combined: list[_Numbers] = []
        rows, codes = self._find_keys([join.source for join in joins], add=True)
        self._order = rows[np.argsort(codes, kind="stable")]
        counts = np.bincount(codes, minlength=1)
        self._ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        self._once = bool((counts <= 1).all())

    def find(self, columns: Sequence[Column]) -> Pairs:
        """Return the pairs of equal keys."""
        plain = [join.of_target(column) for join, column in zip(self._joins, columns, strict=True)]
        rows, codes = self._find_keys(plain)
        first = self._ends[codes]
        if self._once:
            return Pairs(rows, self._order[first])
        counts = self._ends[codes + 1] - first
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        return Pairs(np.repeat(rows, counts), self._order[np.repeat(first, counts) + within])

    def last_rows(self, count: int) -> Longs:
        """Return the last row of each key, and the rows with null in their key, in their order."""
        keep = np.ones(count, np.bool_)
        keep[self._order] = False
        keep[self._order[self._ends[1:][np.diff(self._ends) > 0] - 1]] = True
        return np.flatnonzero(keep)

    def _find_keys(self, columns: Sequence[pa.Array], *, add: bool = False) -> Lookup:
        """Return the rows whose keys are known, and the codes of their keys; with `add`, all keys become known."""
        rows, codes = self._indexes[self._steps[0]].find(columns[self._steps[0]])
        for number, at in enumerate(self._steps[1:]):
            column = columns[at] if len(rows) == len(columns[at]) else columns[at].take(pa.array(rows))
            hit, more = self._indexes[at].find(column)
            both = codes[hit] * self._indexes[at].size + more
            if add:
                self._combined.append(_Numbers.of(both))
            known, codes = self._combined[number].find(both)
            rows = rows[hit][known]
        return rows, codes


class _Index(Protocol):
    """The distinct values of one column of the source, each with a code."""

    @property
    def size(self) -> int:
        """How many distinct values there are."""

    def find(self, column: pa.Array) -> Lookup:
        """Return the rows whose value is known, and the codes of these values; null is never known."""


@dataclass(frozen=True, slots=True)
class _HashIndex:
    """Values that are looked up by Arrow's hash."""

    known: pa.Array

    @property
    def size(self) -> int:
        return len(self.known)

    def find(self, column: pa.Array) -> Lookup:
        known = self.known
        if column.type != known.type:  # large columns of text have 64-bit offsets
            column, known = (array.cast(_large(array.type)) for array in (column, known))
        codes = pc.index_in(column, value_set=known, skip_nulls=True)
        rows = true_rows(codes.is_valid())
        return rows, codes.drop_null().to_numpy().astype(np.int64)


@dataclass(frozen=True, slots=True)
class _NumberIndex:
    """Values of at most 64 bits, which are looked up as integers."""

    numbers: _Numbers
    dtype: AtomicType
    zeros_differ: bool

    @property
    def size(self) -> int:
        return len(self.numbers.known)

    def find(self, column: pa.Array) -> Lookup:
        values, nulls = _numbers_of(column, self.dtype, zeros_differ=self.zeros_differ)
        rows, codes = self.numbers.find(values)
        if nulls is None:
            return rows, codes
        valid = ~nulls[rows]
        return rows[valid], codes[valid]


@dataclass(frozen=True, slots=True)
class _Numbers:
    """Distinct numbers in order.

    Those of a narrow range are looked up in a table; others by a sieve of hashes, which drops most unknown numbers,
    and then by binary search.
    """

    known: Longs
    table: npt.NDArray[np.int32] | None
    sieve: npt.NDArray[np.bool_]
    shift: np.uint64

    @classmethod
    def of(cls, values: Longs) -> _Numbers:
        known = np.sort(values)
        known = known[np.concatenate([np.ones(min(1, len(known)), np.bool_), known[1:] != known[:-1]])]
        none: npt.NDArray[np.bool_] = np.zeros(2, np.bool_)
        if not len(known):
            return cls(known, None, none, np.uint64(63))
        span = int(known[-1]) - int(known[0]) + 1
        if span <= min(max(_TABLE_MIN, _TABLE_PER_VALUE * len(known)), _TABLE_MAX):
            table = np.full(span + 1, _UNKNOWN, np.int32)
            table[known - known[0]] = np.arange(len(known), dtype=np.int32)
            return cls(known, table, none, np.uint64(0))
        bits = max(10, (len(known) * _SIEVE_PER_VALUE).bit_length())
        shift = np.uint64(64 - bits)
        sieve = np.zeros(1 << bits, np.bool_)
        sieve[_spread(known, shift)] = True
        return cls(known, None, sieve, shift)

    def find(self, values: Longs) -> Lookup:
        """Return which of the values are known, and their positions among the known ones."""
        parts = [self._find(values[start : start + _BLOCK]) for start in range(0, len(values), _BLOCK)]
        rows = concat_positions(at + number * _BLOCK for number, (at, _) in enumerate(parts))
        return rows, concat_positions(codes for _, codes in parts)

    def _find(self, values: Longs) -> Lookup:
        if self.table is not None:
            # A number below the first wraps around to a large one, and the last entry of the table is always unknown.
            far: npt.NDArray[np.uint64] = (values - self.known[0]).view(np.uint64)
            codes = self.table[np.minimum(far, np.uint64(len(self.table) - 1))]
            rows = np.flatnonzero(codes >= 0)
            return rows, codes[rows].astype(np.int64)
        maybe = np.flatnonzero(self.sieve[_spread(values, self.shift)])
        some = values[maybe]
        at = np.minimum(np.searchsorted(self.known, some), len(self.known) - 1)
        same = self.known[at] == some
        return maybe[same], at[same]


def _spread(values: Longs, shift: np.uint64) -> Longs:
    spread: Longs = ((values.view(np.uint64) * _SPREAD) >> shift).view(np.int64)
    return spread


def _index_of(column: pa.Array, dtype: AtomicType, *, zeros_differ: bool) -> _Index:
    if dtype.root in _WIDTHS or (dtype.root == "DECIMAL" and dtype.precision <= _COMPACT_DECIMAL_MAX):
        values, nulls = _numbers_of(column, dtype, zeros_differ=zeros_differ)
        return _NumberIndex(_Numbers.of(values if nulls is None else values[~nulls]), dtype, zeros_differ)
    return _HashIndex(pc.unique(column).drop_null())


def _numbers_of(
    column: pa.Array, dtype: AtomicType, *, zeros_differ: bool
) -> tuple[Longs, npt.NDArray[np.bool_] | None]:
    """Return values as 64-bit integers that are equal exactly if the values are, and a mask of the nulls."""
    nulls = null_mask(column)
    if dtype.root == "DECIMAL":
        return fixed_values(column, "<i8", 2).reshape(-1, 2)[:, 0].astype(np.int64), nulls
    if dtype.root == "BOOLEAN":
        column = column.cast(pa.uint8())
    values = fixed_values(column, _WIDTHS[dtype.root])
    if is_float(dtype):
        wide = values.astype(np.float64)
        wide = wide if zeros_differ else wide + 0.0  # which makes one zero of two
        return np.where(np.isnan(wide), np.nan, wide).view(np.int64), nulls
    return values.astype(np.int64, copy=False), nulls


def concat_positions(arrays: Iterable[Longs]) -> Longs:
    """Return the concatenation of arrays of numbers, which may be none."""
    some = list(arrays)
    return np.concatenate(some) if some else np.empty(0, np.int64)


def _large(arrow: pa.DataType) -> pa.DataType:
    return {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}.get(arrow, arrow)


def true_rows(mask: Column) -> Longs:
    """Return the positions of the rows for which a mask is true."""
    rows: npt.NDArray[np.uint64] = pc.indices_nonzero(pc.fill_null(mask, fill_value=False)).to_numpy()
    return rows.astype(np.int64)
