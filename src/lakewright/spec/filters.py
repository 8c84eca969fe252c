"""Whatever users give as a filter (text, predicate, Arrow or polars expression) to a `Predicate`."""

from __future__ import annotations

import ctypes
import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from lakewright.errors import InvalidInputError, LakewrightError, UnsupportedError
from lakewright.spec import argument_checks
from lakewright.spec.filter_text import parse_predicate
from lakewright.spec.predicate import (
    FALSE,
    TRUE,
    ColumnName,
    Predicate,
    PredicateBuilder,
    and_predicates,
    bind,
    or_predicates,
)
from lakewright.spec.types import DataField

# ---- Expressions of Arrow and polars ---------------------------------------------------------------------------------
# Both become one small tree of columns, literals and calls. An Arrow expression is read from its serialised form (the
# one that pickling uses), a polars expression from its JSON. A call that has an exact counterpart among predicates
# becomes that predicate; for any other call, and for any form that is not known, UnsupportedError names it.
# Comparisons follow the rules of predicates, as those in filter text do.

_COMPARISONS = {
    "equal": PredicateBuilder.equal,
    "not_equal": PredicateBuilder.not_equal,
    "less": PredicateBuilder.less_than,
    "less_equal": PredicateBuilder.less_or_equal,
    "greater": PredicateBuilder.greater_than,
    "greater_equal": PredicateBuilder.greater_or_equal,
}
_MIRROR = {"less": "greater", "less_equal": "greater_equal", "greater": "less", "greater_equal": "less_equal"}
_PATTERNS = {
    "starts_with": PredicateBuilder.startswith,
    "ends_with": PredicateBuilder.endswith,
    "match_substring": PredicateBuilder.contains,
    "match_like": PredicateBuilder.like,
}
_POLARS_OPERATORS = {
    "Eq": "equal",
    "NotEq": "not_equal",
    "Lt": "less",
    "LtEq": "less_equal",
    "Gt": "greater",
    "GtEq": "greater_equal",
    "And": "and_kleene",
    "Or": "or_kleene",
    "LogicalAnd": "and_kleene",
    "LogicalOr": "or_kleene",
}
_POLARS_PLAIN = {"Not": "invert", "IsNull": "is_null", "IsNotNull": "is_valid"}
_POLARS_TEXT = {"StartsWith": "starts_with", "EndsWith": "ends_with"}
_POLARS_UNITS = {"Nanoseconds": "ns", "Microseconds": "us", "Milliseconds": "ms"}
_DECIMAL_PARTS = 3  # the number without its point, the precision and the scale
_NULL_NEVER_MATCHES, _NULL_MATCHES_NULL = 1, 0  # of Arrow's option `null_matching_behavior`
_REMEDY = (
    "write it with comparisons, IN, IS NULL, BETWEEN, LIKE, AND, OR and NOT of columns with literals, or filter the "
    "rows after reading them"
)


@dataclass(frozen=True, slots=True)
class _Column:
    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Literal:
    value: object


@dataclass(frozen=True, slots=True)
class _Call:
    name: str
    arguments: tuple[_Node, ...]
    options: Mapping[str, Any] = field(default_factory=dict)


_Node: TypeAlias = "_Column | _Literal | _Call"


def is_polars_expression(given: object) -> bool:
    """Return whether something is an expression of polars, which need not be installed."""
    return type(given).__module__.partition(".")[0] == "polars" and type(given).__name__ == "Expr"


def from_arrow(expression: pc.Expression, builder: PredicateBuilder) -> Predicate:
    """Return an Arrow expression as a predicate on the columns that a builder knows.

    >>> from lakewright.spec.types import AtomicType, DataField
    >>> builder = PredicateBuilder([DataField(0, "id", AtomicType("INT"))])
    >>> str(from_arrow((pc.field("id") > 3) & ~pc.field("id").isin([5]), builder))
    'id > 3 AND NOT (id IN (5) AND id IS NOT NULL)'
    """
    return _predicate(_arrow_tree(expression), builder)


def _arrow_tree(expression: pc.Expression) -> _Node:
    try:
        stored = expression.__reduce__()[1][0]
    except pa.ArrowNotImplementedError as error:  # a column that is named by its number, and the like
        raise _refusal(str(expression)) from error
    reader = pa.ipc.open_file(stored)
    values = reader.get_batch(0) if reader.num_record_batches else None
    steps = iter(_metadata(reader.schema))
    key, text = next(steps)
    return _arrow_node(key, text, steps, values)


def from_polars(expression: Any, builder: PredicateBuilder) -> Predicate:  # noqa: ANN401 - of an optional package
    """Return a polars expression as a predicate on the columns that a builder knows."""
    return _predicate(_polars_node(_polars_json(expression)), builder)


@dataclass(frozen=True, slots=True)
class PushedFilter:
    """What a read can do of an engine's filter: a predicate that leaves out no row which the filter keeps."""

    predicate: Predicate
    is_whole: bool  # the predicate keeps just the rows that the filter keeps
    columns: frozenset[str]  # that the filter names


def pushed_from_arrow(expression: pc.Expression, builder: PredicateBuilder) -> PushedFilter:
    """Return those conditions of an Arrow expression, joined by AND, that are predicates.

    >>> from lakewright.spec.types import AtomicType, DataField
    >>> builder = PredicateBuilder([DataField(0, "id", AtomicType("INT"))])
    >>> pushed = pushed_from_arrow((pc.field("id") > 3) & (pc.bit_wise_and(pc.field("id"), 1) == 1), builder)
    >>> str(pushed.predicate), pushed.is_whole, sorted(pushed.columns)
    ('id > 3', False, ['id'])
    """
    tree = _arrow_tree(expression)
    found = [_predicate_or_none(_without_null_check(node), builder) for node in _conjuncts(tree)]
    kept = [one for one in found if one is not None]
    return PushedFilter(and_predicates(kept), len(kept) == len(found), frozenset(_columns(tree)))


def pushed_from_polars(expression: Any, builder: PredicateBuilder) -> Predicate:  # noqa: ANN401 - see `from_polars`
    """Return those conditions of a polars expression, joined by AND, that are predicates; the engine applies all."""
    kept = []
    for data in _polars_conjuncts(_polars_json(expression)):
        try:
            kept.append(_predicate(_polars_node(data), builder))
        except (LakewrightError, KeyError, TypeError):  # a form that is not known here
            continue
    return and_predicates(kept)


def _polars_json(expression: Any) -> Any:  # noqa: ANN401 - see `from_polars`
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # polars warns that its JSON may change; unknown forms raise an error below
        return json.loads(expression.meta.serialize(format="json"))


def _polars_conjuncts(data: Any) -> Iterator[Any]:  # noqa: ANN401 - JSON
    inner = data.get("BinaryExpr") if isinstance(data, dict) else None
    if isinstance(inner, dict) and _POLARS_OPERATORS.get(inner.get("op", "")) == "and_kleene":
        yield from (part for side in ("left", "right") for part in _polars_conjuncts(inner[side]))
    else:
        yield data


def _conjuncts(node: _Node) -> Iterator[_Node]:
    if isinstance(node, _Call) and node.name == "and_kleene":
        yield from (part for argument in node.arguments for part in _conjuncts(argument))
    else:
        yield node


def _without_null_check(node: _Node) -> _Node:
    """Return a condition that is false, not null, where its column is null: a filter keeps neither."""
    match node:
        case _Call("if_else", (_Call("is_valid", (_Column(path),)), inner, _Literal(pa.Scalar(is_valid=False)))):
            return _Call("and_kleene", (_Call("is_valid", (_Column(path),)), inner))
        case _:
            return node


def _columns(node: _Node) -> Iterator[str]:
    match node:
        case _Column(path):
            yield path[0]
        case _Call(_, parts):
            yield from (name for part in parts for name in _columns(part))


def _predicate_or_none(node: _Node, builder: PredicateBuilder) -> Predicate | None:
    try:
        return _predicate(node, builder)
    except LakewrightError:  # no counterpart among predicates, or a literal that does not fit the column
        return None


# Arrow: a schema whose metadata lists the tree, depth first, and a row with the literals and options.


def _metadata(schema: pa.Schema) -> Iterator[tuple[str, str]]:
    """Yield the metadata of a schema in order, keys that occur twice included, through Arrow's C interface."""
    capsule = schema.__arrow_c_schema__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    members = ctypes.cast(pointer(capsule, b"arrow_schema"), ctypes.POINTER(ctypes.c_void_p))
    at = members[2]  # format, name, metadata
    if at is None:
        return
    texts = []
    count, at = ctypes.c_int32.from_address(at).value, at + 4
    for _ in range(2 * count):
        length = ctypes.c_int32.from_address(at).value
        texts.append(ctypes.string_at(at + 4, length).decode())
        at += 4 + length
    yield from zip(texts[::2], texts[1::2], strict=True)


def _arrow_node(key: str, text: str, steps: Iterator[tuple[str, str]], values: pa.RecordBatch | None) -> _Node:
    match key:
        case "field_ref":
            return _Column((text,))
        case "nested_field_ref":
            parts = [next(steps) for _ in range(int(text))]
            return _Column(tuple(name for _, name in parts))
        case "literal" if values is not None:
            return _Literal(values.column(int(text))[0])
        case "call":
            return _arrow_call(text, steps, values)
        case _:
            raise _refusal(key)


def _arrow_call(name: str, steps: Iterator[tuple[str, str]], values: pa.RecordBatch | None) -> _Call:
    arguments: list[_Node] = []
    options: dict[str, Any] = {}
    for key, text in steps:
        if key == "end":
            return _Call(name, tuple(arguments), options)
        if key == "options" and values is not None:
            options = dict(values.column(int(text))[0].items())
        else:
            arguments.append(_arrow_node(key, text, steps, values))
    raise _refusal(name)


# polars: JSON objects with one member, which is the kind of the node.


def _polars_node(data: Any) -> _Node:  # noqa: ANN401 - JSON
    kind, inner = _only(data)
    match kind:
        case "Column" if isinstance(inner, str):
            return _Column((inner,))
        case "Literal":
            return _Literal(_polars_literal(*_only(inner)))
        case "BinaryExpr":
            name = _POLARS_OPERATORS.get(inner["op"])
            if name is None:
                raise _refusal(inner["op"])
            return _Call(name, (_polars_node(inner["left"]), _polars_node(inner["right"])))
        case "Function":
            return _polars_call(inner["input"], *_only(inner["function"]))
        case _:
            raise _refusal(kind)


def _only(data: Any) -> tuple[str, Any]:  # noqa: ANN401 - JSON
    """Return the one member of an object; a bare name is one without contents."""
    if isinstance(data, str):
        return data, None
    if not isinstance(data, dict) or len(data) != 1:
        raise _refusal("an expression in a form that is not known here")
    return next(iter(data.items()))


def _polars_call(inputs: list[Any], room: str, what: Any) -> _Node:  # noqa: ANN401 - JSON
    name, settings = _only(what)
    first = _polars_node(inputs[0])
    if room == "StructExpr" and name == "FieldByName" and isinstance(first, _Column):
        return _Column((*first.path, settings))
    if room == "Boolean" and name in _POLARS_PLAIN:
        return _Call(_POLARS_PLAIN[name], (first,))
    if room == "Boolean" and name == "IsBetween":
        return _between(first, _polars_node(inputs[1]), _polars_node(inputs[2]), settings["closed"])
    if room == "Boolean" and name == "IsIn" and settings == {"nulls_equal": False}:
        members = _polars_node(inputs[1])
        if isinstance(members, _Literal) and isinstance(members.value, list):
            return _Call("member", (first,), {"values": members.value})
    if room == "StringExpr" and (name in _POLARS_TEXT or (name == "Contains" and settings.get("literal") is True)):
        pattern = _polars_node(inputs[1])
        if isinstance(pattern, _Literal):
            return _Call(_POLARS_TEXT.get(name, "match_substring"), (first,), {"pattern": pattern.value})
    raise _refusal(f"{room}.{name}")


def _between(column: _Node, low: _Node, high: _Node, closed: str) -> _Call:
    above = "greater_equal" if closed in {"Both", "Left"} else "greater"
    below = "less_equal" if closed in {"Both", "Right"} else "less"
    return _Call("and_kleene", (_Call(above, (column, low)), _Call(below, (column, high))))


def _polars_literal(kind: str, inner: Any) -> object:  # noqa: ANN401 - JSON
    if kind in {"Dyn", "Scalar"}:
        return _polars_literal(*_only(inner))
    if kind == "Null":
        return None
    if kind == "List" and isinstance(inner, list):
        return pa.ipc.open_stream(bytes(inner)).read_all().column(0).to_pylist()
    if kind == "Date":
        return pa.scalar(inner, pa.date32())
    if kind == "Datetime" and inner[1] in _POLARS_UNITS:
        zone = inner[2]["inner"] if isinstance(inner[2], dict) else inner[2]
        return pa.scalar(inner[0], pa.timestamp(_POLARS_UNITS[inner[1]], zone))
    if kind == "Time":
        return pa.scalar(inner, pa.time64("ns"))
    if kind == "Binary" and isinstance(inner, list):
        return bytes(inner)
    if kind == "Decimal" and isinstance(inner, list) and len(inner) == _DECIMAL_PARTS:
        unscaled, _, scale = inner
        return Decimal(f"{unscaled}E-{scale}")
    plain = {"String": str, "Boolean": bool, "Int": int, "UInt": int, "Float": float}.get(kind.rstrip("0123456789"))
    if plain is None or type(inner) is not plain:
        raise _refusal(f"a literal of the type {kind}")
    return inner


# From the tree to a predicate.


def _predicate(node: _Node, builder: PredicateBuilder) -> Predicate:
    match node:
        case _Column(path):
            return builder.equal(_name_of(path), literal=True)
        case _Literal(value):
            return _constant(value)
        case _Call("and_kleene", parts):
            return and_predicates(_predicate(part, builder) for part in parts)
        case _Call("or_kleene", parts):
            return or_predicates(_predicate(part, builder) for part in parts)
        case _Call("invert", (part,)):
            return ~_predicate(part, builder)
        case _Call(name, (left, right)) if name in _COMPARISONS:
            return _comparison(name, left, right, builder)
        case _Call(name, (_Column(path),), options):
            return _test(name, _name_of(path), options, builder)
        case _Call(name):
            raise _refusal(name)


def _constant(value: object) -> Predicate:
    plain = value.as_py() if isinstance(value, pa.Scalar) else value
    if not isinstance(plain, bool):
        raise InvalidInputError(f"the literal {plain!r} is no condition; compare a column with it")
    return TRUE if plain else FALSE


def _comparison(name: str, left: _Node, right: _Node, builder: PredicateBuilder) -> Predicate:
    if isinstance(left, _Literal):
        left, right, name = right, left, _MIRROR.get(name, name)
    if isinstance(left, _Column) and isinstance(right, _Literal):
        value = right.value
        none = isinstance(value, pa.Scalar) and not value.is_valid
        return _COMPARISONS[name](builder, _name_of(left.path), None if none else value)
    inner = next((part.name for part in (left, right) if isinstance(part, _Call)), "a comparison of two columns")
    raise _refusal(inner)


def _name_of(path: tuple[str, ...]) -> ColumnName:
    """Return a column by its name alone, and a field inside of a ROW by its path, in which dots mean nothing."""
    return path if len(path) > 1 else path[0]


def _test(name: str, column: ColumnName, options: Mapping[str, Any], builder: PredicateBuilder) -> Predicate:
    """Return the predicate for a call whose only argument is a column."""
    if name == "is_valid":
        return builder.is_not_null(column)
    if name == "is_null" and not _option(options, "nan_is_null"):
        return builder.is_null(column)
    if name in _PATTERNS and not _option(options, "ignore_case"):
        make: Callable[[PredicateBuilder, ColumnName, str], Predicate] = _PATTERNS[name]
        return make(builder, column, _option(options, "pattern"))
    if name == "member":
        return builder.is_in(column, [value for value in options["values"] if value is not None])
    if name == "is_in" and _option(options, "null_matching_behavior") in {_NULL_MATCHES_NULL, _NULL_NEVER_MATCHES}:
        values = list(options["value_set"].values)
        members = builder.is_in(column, [value for value in values if value.is_valid]) & builder.is_not_null(column)
        nulls = any(not value.is_valid for value in values)
        matches = nulls and _option(options, "null_matching_behavior") == _NULL_MATCHES_NULL
        return members | builder.is_null(column) if matches else members
    raise _refusal(name)


def _option(options: Mapping[str, Any], name: str) -> Any:  # noqa: ANN401 - the option of a function
    value = options.get(name)
    return value.as_py() if isinstance(value, pa.Scalar) else value


def _refusal(name: str) -> UnsupportedError:
    return UnsupportedError(f"a filter cannot use {name!r}: {_REMEDY}", function=name)


# ---- Filters of any kind ---------------------------------------------------------------------------------------------


class PolarsExpression(Protocol):
    """An expression of polars such as `pl.col("id") > 3`; polars is an optional package, so its type is not named."""

    @property
    def meta(self) -> object:
        """The part of polars' interface that serialises the expression."""


Filter: TypeAlias = Predicate | str | pc.Expression | PolarsExpression


def to_predicate(given: Filter, fields: Sequence[DataField], zone: str = "UTC") -> Predicate:
    """Return a filter of any form as a predicate on these columns.

    `zone` is the zone of times without one that are compared with columns WITH LOCAL TIME ZONE.

    >>> from lakewright.spec.types import AtomicType
    >>> columns = [DataField(0, "id", AtomicType("INT"))]
    >>> str(to_predicate("id > 3", columns)), str(to_predicate(pc.field("id") > 3, columns))
    ('id > 3', 'id > 3')
    """
    if isinstance(given, str):
        return parse_predicate(given, fields, zone)
    if isinstance(given, Predicate):
        return bind(given, fields)
    if isinstance(given, pc.Expression):
        return from_arrow(given, PredicateBuilder(fields, zone))
    if is_polars_expression(given):
        return from_polars(given, PredicateBuilder(fields, zone))
    expected = "text such as \"id > 3 AND name LIKE 'a%'\", a predicate, or an expression of Arrow or polars"
    raise argument_checks.argument_error("a filter", expected, given)
