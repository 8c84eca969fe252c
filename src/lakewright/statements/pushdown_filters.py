"""Conditions of a query as predicates of a read."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import TypeAlias

from sqlglot import exp

from lakewright.spec.predicate import Predicate, PredicateBuilder, and_predicates
from lakewright.spec.scalars import zone_of
from lakewright.spec.types import FLOAT_ROOTS, INTEGER_BITS, MICROS_PRECISION, AtomicType, DataField
from lakewright.statements.spark_grammar import ParsedFragment
from lakewright.statements.sql_text import Args
from lakewright.statements.table_references import Reference

# ---- Conditions that may move below a join ---------------------------------------------------------------------------
# FROM e0 JOIN e1 ON c1 JOIN e2 ON c2 ... WHERE c
#
# A row of a table that a conjunct of WHERE leaves out reaches no result; only where an outer join supplies nulls in
# the place of the table's rows, the conjunct must be one that is not true for nulls. A conjunct of ON leaves out rows
# of the right side unless the join preserves them, and rows of the left side in joins that do not preserve those.

_INNER = frozenset({"INNER", "CROSS", ""})


@dataclass(frozen=True, slots=True)
class Conjunct:
    """A condition that rows of a table must fulfil to reach the result."""

    condition: exp.Expr
    rejects_nulls: bool  # it must be one that is not true for nulls


@dataclass(frozen=True, slots=True)
class _Element:
    """One side of a join, with how it is joined to those before it."""

    node: exp.Expr
    kind: str  # INNER, LEFT, RIGHT, FULL, SEMI or ANTI; empty for the first
    on: exp.Expr | None


def conjuncts_of(select: exp.Expr, node: exp.Expr) -> list[Conjunct]:
    """Return the conjuncts that hold for all rows of a table of a SELECT that matter; they may use other tables too."""
    elements = _elements(select)
    number = next((at for at, one in enumerate(elements) if one.node is node), None)
    if number is None:
        return []
    own, out = elements[number], []
    if own.on is not None and own.kind in _INNER | {"LEFT", "SEMI", "ANTI"}:
        out += [Conjunct(one, rejects_nulls=False) for one in _split(own.on)]
    if own.kind in {"SEMI", "ANTI"}:
        return out  # nothing behind sees it
    nullable = own.kind in {"LEFT", "FULL"}
    for later in elements[number + 1 :]:
        if later.on is not None and later.kind in _INNER | {"RIGHT", "SEMI"}:
            out += [Conjunct(one, rejects_nulls=nullable) for one in _split(later.on)]
        nullable = nullable or later.kind in {"RIGHT", "FULL"}
    where = select.args.get("where")
    return out if where is None else [*out, *(Conjunct(one, rejects_nulls=nullable) for one in _split(where.this))]


def tables_of(select: exp.Expr) -> list[exp.Expr]:
    """Return what a SELECT joins, and what its lateral views are."""
    return [one.node for one in _elements(select)] + list(select.args.get("laterals") or [])


def joins_by_name(select: exp.Expr) -> bool:
    """Return whether a join of a SELECT merges columns of the same name."""
    from_ = select.args.get("from_")
    found = [*_joins(select), *(() if from_ is None else _joins(from_.this))]
    return any(join.args.get("using") or join.args.get("method") for join in found)


def _elements(select: exp.Expr) -> list[_Element]:
    from_ = select.args.get("from_")
    if from_ is None:
        return []
    first = from_.this
    joins = [*_joins(first), *_joins(select)]
    return [_Element(first, "", None), *(_Element(join.this, _kind(join), join.args.get("on")) for join in joins)]


def _joins(node: exp.Expr) -> list[exp.Expr]:
    return list(node.args.get("joins") or [])


def _kind(join: exp.Expr) -> str:
    side, kind = str(join.args.get("side") or "").upper(), str(join.args.get("kind") or "").upper()
    if kind in {"SEMI", "ANTI"}:
        return kind
    if side in {"LEFT", "RIGHT", "FULL"}:
        return side
    return kind if kind in _INNER else "FULL"  # one that is not known here lets nothing through


def _split(condition: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the conditions that AND joins."""
    match condition:
        case exp.Paren():
            yield from _split(condition.this)
        case exp.And():
            yield from _split(condition.this)
            yield from _split(condition.expression)
        case _:
            yield condition


# ---- Conditions as predicates ----------------------------------------------------------------------------------------
# The predicate is an extra: the engine evaluates the whole condition again. So what cannot be said is left out, but
# what is said must keep every row that the engine would keep. A comparison is taken only if ours is exactly Spark's:
# literals of the column's own kind, and no text that Spark would have to convert in a way that depends on settings.

Known: TypeAlias = Mapping[int, tuple[DataField, ...]]  # the columns of references, by the identity of their nodes

_METHODS: dict[type[exp.Expr], tuple[str, str]] = {
    exp.EQ: ("equal", "equal"),
    exp.NEQ: ("not_equal", "not_equal"),
    exp.LT: ("less_than", "greater_than"),
    exp.LTE: ("less_or_equal", "greater_or_equal"),
    exp.GT: ("greater_than", "less_than"),
    exp.GTE: ("greater_or_equal", "less_or_equal"),
}
_UNDERSTOOD_ARGS = frozenset({"this", "expression", "expressions", "low", "high", "negate"})
_STRICT = frozenset({"isNull", "isNotNull"})  # the methods that are not unknown for null
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{1,6})?")
_FLOAT_EXACT = {"FLOAT": 2**24, "DOUBLE": 2**53}  # up to which every whole number is one of the type
_DIGITS_MAX = 15
_TIMES = {"TIMESTAMP", "TIMESTAMP_LTZ"}
_CASTS = {"DATE": "DATE", "TIMESTAMPTZ": "TIMESTAMP_LTZ", "TIMESTAMPLTZ": "TIMESTAMP_LTZ", "TIMESTAMPNTZ": "TIMESTAMP"}


class _NotSaidError(Exception):
    """A condition has no exact form here."""


def filter_of(reference: Reference, known: Known, args: Args, zone: str) -> Predicate | None:
    """Return what rows of a reference must fulfil to matter for its SELECT; None: nothing is known."""
    node = reference.node
    select = node.find_ancestor(exp.Select)
    alias = node.args.get("alias")
    is_changed = node.args.get("pivots") or (alias is not None and alias.columns)
    # A sample is one of all rows, and conditions of a pipe hold where they stand.
    has_order = any(word.text == "|>" or word.upper == "TABLESAMPLE" for word in reference.piece.words)
    if select is None or is_changed or has_order or id(node) not in known:
        return None
    reader = _Reader.of(reference, select, known, args, zone)
    found = []
    for conjunct in conjuncts_of(select, node):
        try:
            predicate = reader.read(conjunct.condition)
        except _NotSaidError:
            continue
        if not conjunct.rejects_nulls or _rejects_nulls(predicate):
            found.append(predicate)
    return and_predicates(found) if found else None


def condition_filter(
    piece: ParsedFragment, target: FilterTarget, args: Args, zone: str, *, exact: bool = False
) -> Predicate | None:
    """Return what rows of a table must fulfil for a condition to be true, as far as it can be said; None: nothing.

    With `exact` the predicate is true for just the rows for which the condition is true.
    """
    reader = target.reader(piece, args, zone)
    try:
        found = reader.read(piece.tree, exact=exact)
    except _NotSaidError:
        return None
    return found if not exact or all(_is_exact(leaf, reader.fields) for leaf in found.leaves()) else None


@dataclass(frozen=True, slots=True)
class FilterTarget:
    """A table as a condition knows it: a name without `qualifier` may be that of a column `taken` by another table."""

    qualifier: str
    fields: Sequence[DataField]
    taken: Collection[str] = ()

    def reader(self, piece: ParsedFragment, args: Args, zone: str) -> _Reader:
        """Return what reads conditions over the table."""
        names = [field.name.lower() for field in self.fields]
        known = {field.name.lower(): field for field in self.fields if names.count(field.name.lower()) == 1}
        bare = frozenset(known.keys() - {name.lower() for name in self.taken})
        return _Reader(piece, known, bare, self.qualifier.lower(), PredicateBuilder(self.fields, zone), args, zone)


def constant_of(piece: ParsedFragment, target: FilterTarget, args: Args, field: DataField) -> tuple[object, ...]:
    """Return the value that an expression gives a column, as the only element, if every engine stores it alike."""
    if isinstance(piece.tree, exp.Null):
        return (None,)
    value = target.reader(piece, args, "UTC").value_of(piece.tree)
    if value is None or not isinstance(field.type, AtomicType):
        return ()
    match value.kind, field.type.root, value.value:
        case "NUMBER", root, int(number) if root in INTEGER_BITS and -1 << INTEGER_BITS[root] - 1 <= number:
            return (number,) if number < 1 << INTEGER_BITS[root] - 1 else ()
        case "TEXT", "VARCHAR", constant if field.type.type == "STRING":
            return (constant,)
        case "BOOLEAN", "BOOLEAN", constant:
            return (constant,)
        case "DATE", "DATE", str(text) if _is_day(text):
            return (date.fromisoformat(text),)
    return ()


def _is_exact(leaf: Predicate, fields: Mapping[str, DataField]) -> bool:
    """Return whether a comparison that is good enough for statistics is also exact: engines order NaN on their own."""
    if not leaf.columns():
        return True
    types = [fields[name.lower()].type for name in leaf.columns()]
    if not all(isinstance(dtype, AtomicType) and dtype.root not in FLOAT_ROOTS for dtype in types):
        return False
    are_whole = all(isinstance(dtype, AtomicType) and dtype.root in INTEGER_BITS for dtype in types)
    return not are_whole or all(value is None or isinstance(value, int) for value in leaf.literals or ())


def _rejects_nulls(predicate: Predicate) -> bool:
    """Return whether a predicate is surely not true for a row in which all columns are null."""
    if predicate.method == "and":
        return any(map(_rejects_nulls, predicate.children))
    if predicate.method == "or":
        return all(map(_rejects_nulls, predicate.children))
    if predicate.method == "not":
        return not _methods(predicate) & _STRICT
    return predicate.method not in {"isNull", "alwaysTrue", "alwaysFalse"}


def _methods(predicate: Predicate) -> frozenset[str]:
    inner = [_methods(child) for child in predicate.children]
    return frozenset({predicate.method}).union(*inner)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads conditions of one SELECT over one reference."""

    piece: ParsedFragment
    fields: Mapping[str, DataField]  # by their names in lower case; names that occur twice are left out
    bare: frozenset[str]  # those that need no qualifier
    qualifier: str
    builder: PredicateBuilder
    args: Args
    zone: str

    @classmethod
    def of(cls, reference: Reference, select: exp.Expr, known: Known, args: Args, zone: str) -> _Reader:
        own = known[id(reference.node)]
        names = [field.name.lower() for field in own]
        fields = {field.name.lower(): field for field in own if names.count(field.name.lower()) == 1}
        others = [one for one in tables_of(select) if one is not reference.node]
        all_known = all(id(one) in known and _keeps_names(one) for one in others) and not joins_by_name(select)
        taken = {field.name.lower() for one in others for field in known.get(id(one), ())}
        qualifier = reference.alias or (reference.name.parts[-1] if reference.name.parts else "")
        bare = frozenset(fields.keys() - taken) if all_known else frozenset()
        return cls(reference.piece, fields, bare, qualifier.lower(), PredicateBuilder(own, zone), args, zone)

    def read(self, node: exp.Expr, *, exact: bool = False) -> Predicate:
        """Return a condition as a predicate; unless `exact`, it may keep more rows than the condition."""
        if any(value for key, value in node.args.items() if key not in _UNDERSTOOD_ARGS):
            raise _NotSaidError
        match node:
            case exp.Paren():
                return self.read(node.this, exact=exact)
            case exp.And():
                return self._and(node, exact=exact)
            case exp.Or():
                return self.builder.or_predicates([self.read(one, exact=exact) for one in (node.this, node.expression)])
            case exp.Not():
                return self.builder.not_predicate(self.read(node.this, exact=True))
            case exp.Column():
                return self.builder.equal(self._column(node, {"BOOLEAN"}).name, literal=True)
            case _:
                return self._comparison(node)

    def _and(self, node: exp.Expr, *, exact: bool) -> Predicate:
        parts = []
        for one in (node.this, node.expression):
            try:
                parts.append(self.read(one, exact=exact))
            except _NotSaidError:
                if exact:
                    raise
        if not parts:
            raise _NotSaidError
        return self.builder.and_predicates(parts)

    def _comparison(self, node: exp.Expr) -> Predicate:
        match node:
            case exp.Is() if isinstance(node.expression, exp.Null):
                return self.builder.is_null(self._column(node.this).name)
            case exp.Between():
                field = self._column(node.this)
                low, high = self._literal(node.args["low"], field), self._literal(node.args["high"], field)
                return self.builder.between(field.name, low, high)
            case exp.In() if node.expressions:
                return self._member(node)
            case exp.Like():
                field = self._column(node.this, {"STRING", "VARCHAR"})
                found = self.builder.like(field.name, str(self._literal(node.expression, field)))
                return self.builder.not_predicate(found) if node.args.get("negate") else found
        if type(node) not in _METHODS:
            raise _NotSaidError
        plain, mirrored = _METHODS[type(node)]
        if isinstance(node.this, exp.Column):
            field = self._column(node.this)
            return self._compare(plain, field, self._literal(node.expression, field))
        field = self._column(node.expression)
        return self._compare(mirrored, field, self._literal(node.this, field))

    def _compare(self, method: str, field: DataField, literal: object) -> Predicate:
        made: Predicate = getattr(self.builder, method)(field.name, literal)
        return made

    def _member(self, node: exp.Expr) -> Predicate:
        field = self._column(node.this)
        is_time = isinstance(field.type, AtomicType) and field.type.root in _TIMES
        if is_time and any(one.is_string for one in node.expressions):
            raise _NotSaidError  # Spark compares such a list as text
        literals = [None if isinstance(one, exp.Null) else self._literal(one, field) for one in node.expressions]
        return self.builder.is_in(field.name, literals)

    def _column(self, node: exp.Expr, roots: set[str] | None = None) -> DataField:
        """Return the field that a column is; one of another table, or a part of a struct, is not said."""
        if not isinstance(node, exp.Column) or not isinstance(node.this, exp.Identifier):
            raise _NotSaidError
        *qualifiers, name = (self.piece.spell_name(part).lower() for part in node.parts)
        is_own = qualifiers == [self.qualifier] if qualifiers else name in self.bare
        if not is_own or name not in self.fields or (len(qualifiers) == 1 and not self.qualifier):
            raise _NotSaidError
        field = self.fields[name]
        if roots is not None and not (isinstance(field.type, AtomicType) and field.type.root in roots):
            raise _NotSaidError
        return field

    def _literal(self, node: exp.Expr, field: DataField) -> object:
        """Return the value of a literal if comparing the column with it means the same to Spark."""
        if not isinstance(field.type, AtomicType):
            raise _NotSaidError
        value = self.value_of(node)
        if value is None or not _fits(value, field.type, self.zone):
            raise _NotSaidError
        return value.value

    def value_of(self, node: exp.Expr) -> _Value | None:
        """Return the value of a literal or a parameter, if it is one."""
        match node:
            case exp.Neg():
                inner = self.value_of(node.this)
                is_number = inner is not None and inner.kind == "NUMBER" and isinstance(inner.value, int | Decimal)
                return _Value("NUMBER", -inner.value) if is_number and inner is not None else None  # type: ignore[operator]
            case exp.Boolean():
                return _Value("BOOLEAN", bool(node.this))
            case exp.Literal() if node.is_string:
                return _Value("TEXT", node.this) if self._is_plain_text(node) else None
            case exp.Literal():
                return _number(str(node.this))
            case exp.Cast() if type(node) is exp.Cast and isinstance(node.this, exp.Literal) and node.this.is_string:
                kind = _CASTS.get(node.args["to"].this.name)
                return None if kind is None or not self._is_plain_text(node.this) else _Value(kind, node.this.this)
            case exp.Placeholder() if isinstance(self.args, Mapping) and str(node.this) in self.args:
                return _parameter_value(self.args[str(node.this)])
        return None

    def _is_plain_text(self, node: exp.Expr) -> bool:
        """Return whether a text is in single quotes and has no escapes, so that it is read in one way only."""
        span = self.piece.span(node)
        raw = "" if span is None else self.piece.fragment.text[slice(*span)]
        return raw.startswith("'") and "\\" not in raw and raw[1:-1] == node.this


@dataclass(frozen=True, slots=True)
class _Value:
    """A literal: its kind is NUMBER, TEXT, BOOLEAN, or the type that its text is of."""

    kind: str
    value: object


def _number(text: str) -> _Value | None:
    if text.isdigit() and text.isascii():
        return _Value("NUMBER", int(text))
    try:
        return _Value("NUMBER", Decimal(text)) if re.fullmatch(r"\d*\.\d*", text) else None
    except InvalidOperation:
        return None


def _parameter_value(value: object) -> _Value | None:
    """Return the value of a parameter."""
    match value:
        case bool():
            return _Value("BOOLEAN", value)
        case int() | Decimal():
            return _Value("NUMBER", value)
        case str():
            return _Value("TEXT", value)
        case datetime():
            return None
        case date():
            return _Value("DATE", value.isoformat())
    return None


def _fits(value: _Value, dtype: AtomicType, zone: str) -> bool:
    """Return whether comparing a column of a type with a literal means the same here and in Spark."""
    root = dtype.root
    if root in INTEGER_BITS or root in FLOAT_ROOTS or root == "DECIMAL":
        return value.kind == "NUMBER" and isinstance(value.value, int | Decimal) and _number_fits(value.value, dtype)
    if root == "BOOLEAN":
        return value.kind == "BOOLEAN"
    if root in {"STRING", "VARCHAR"}:
        return value.kind == "TEXT"
    text = str(value.value)
    if root == "DATE":
        return value.kind in {"DATE", "TEXT"} and _is_day(text)
    if root in _TIMES and dtype.precision <= MICROS_PRECISION:
        kinds = {"TEXT", "TIMESTAMP_LTZ"} if root == "TIMESTAMP_LTZ" else {"TEXT", "TIMESTAMP"}
        return value.kind in kinds and _is_one_time(text, zone)
    return False


def _number_fits(number: int | Decimal, dtype: AtomicType) -> bool:
    if isinstance(number, Decimal) and (not number.is_finite() or len(number.as_tuple().digits) > _DIGITS_MAX):
        return False
    if dtype.root in FLOAT_ROOTS:
        return isinstance(number, Decimal) or abs(number) <= _FLOAT_EXACT[dtype.root]
    if dtype.root != "DECIMAL":
        return True
    exact = Decimal(number)
    scale = -int(exact.as_tuple().exponent)
    return scale <= dtype.scale and abs(exact) < Decimal(10) ** (dtype.precision - dtype.scale)


def _is_day(text: str) -> bool:
    try:
        return _DAY.fullmatch(text) is not None and date.fromisoformat(text) is not None
    except ValueError:
        return False


def _is_one_time(text: str, zone: str) -> bool:
    """Return whether a text is a time that occurs once in a zone: not in the hour that a change of clocks repeats."""
    if _TIME.fullmatch(text) is None and not _is_day(text):
        return False
    try:
        time = datetime.fromisoformat(text).replace(tzinfo=zone_of(zone))
        return time.utcoffset() == time.replace(fold=1).utcoffset()
    except ValueError:
        return False


def _keeps_names(node: exp.Expr) -> bool:
    """Return whether a table in FROM has the columns of the table, not others by PIVOT or by an alias."""
    alias = node.args.get("alias")
    return not node.args.get("pivots") and not (alias is not None and alias.columns)
