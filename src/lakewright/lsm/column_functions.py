"""Functions of columns, read from options and checked.

`fields.<column>.aggregate-function` names what merging does with a column, and a few options beside it say how. A
function that does not exist, does not fit the type of its column or lacks an option is refused here, before any row
is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from lakewright.errors import InvalidInputError, UnsupportedError
from lakewright.spec.table_schema import TableSchema
from lakewright.spec.types import (
    FLOAT_ROOTS,
    INTEGER_BITS,
    TEXT_ROOTS,
    UNBOUNDED,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    RowType,
    row_parts,
)

LAST_NON_NULL: Final = "last_non_null_value"
LAST: Final = "last_value"
RETRACTABLE: Final = frozenset(
    {"sum", "product", LAST, LAST_NON_NULL, "collect", "merge_map", "nested_update"}
)  # the others cannot take a value back
REPEATABLE: Final = frozenset(
    {LAST, LAST_NON_NULL, "first_value", "first_non_null_value", "max", "min", "bool_and", "bool_or", "merge_map"}
)  # merging the current value in once more changes nothing

_NUMERIC = frozenset(INTEGER_BITS) | FLOAT_ROOTS | {"DECIMAL"}
_INCOMPARABLE = frozenset({"BOOLEAN", "VARIANT", "BLOB", "GEOMETRY", "GEOGRAPHY"})
_OTHER_NAMES = {"first_not_null_value": "first_non_null_value"}
_UNSUPPORTED = {
    "hll_sketch": "sketches are not read",
    "theta_sketch": "sketches are not read",
    "rbm64": "its bytes are a private form of one library for Java",
}


@dataclass(frozen=True, slots=True)
class ColumnFunction:
    """What merging does with one column."""

    name: str
    column: str
    type: DataType
    ignore_retract: bool = False
    distinct: bool = False  # listagg, collect
    delimiter: str = ","  # listagg
    nested_key: tuple[str, ...] = ()  # nested_update, nested_partial_update
    nested_sequence: tuple[str, ...] = ()  # nested_update
    count_limit: int | None = None  # nested_update
    time_field: str = ""  # merge_map_with_keytime

    @property
    def option(self) -> str:
        """The option that names the function."""
        return option_of(self.column)


def option_of(column: str, what: str = "aggregate-function") -> str:
    """Return the key of an option of one column."""
    return f"fields.{column}.{what}"


def named_function(schema: TableSchema, column: str) -> str | None:
    """Return the function that the options name for a column itself, None where they name none."""
    return schema.options.get(option_of(column), "").strip() or None


def check_takes_no_function(schema: TableSchema, sequence: Iterable[str], what: str) -> None:
    """Refuse a function of a key column or of a sequence field, which would have no effect; `what` names the latter."""
    for name in (*schema.primary_keys, *sequence):
        if named_function(schema, name) is not None:
            owner = "the primary key" if name in schema.primary_keys else what
            raise InvalidInputError(
                f"the column {name!r} belongs to {owner} and takes no function: remove {option_of(name)!r}",
                column=name,
                option=option_of(name),
            )


def column_function(schema: TableSchema, column: str, name: str) -> ColumnFunction:
    """Return the function of a column with its options, or raise if it does not exist or does not fit the column."""
    field = schema.field(column)
    name = _OTHER_NAMES.get(name, name)
    if name in _UNSUPPORTED:
        raise UnsupportedError(
            f"the function {name!r} of the column {column!r} is not supported: {_UNSUPPORTED[name]}",
            column=column,
            option=option_of(column),
        )
    if name not in FITS:
        raise UnsupportedError(
            f"the column {column!r} asks for the unknown function {name!r}: set {option_of(column)!r} to one of"
            f" {', '.join(sorted(FITS))}",
            column=column,
            option=option_of(column),
        )
    needs, fits = FITS[name]
    if not fits(field.type):
        raise InvalidInputError(
            f"the function {name!r} needs {needs}, but the column {column!r} has the type {field.type}: choose another"
            f" function in {option_of(column)!r}",
            column=column,
            option=option_of(column),
        )
    options = _Options(schema.options, column)
    function = ColumnFunction(
        name,
        column,
        field.type,
        ignore_retract=options.flag("ignore-retract"),
        distinct=options.flag("distinct"),
        delimiter=options.text("list-agg-delimiter", ","),
        nested_key=options.names("nested-key"),
        nested_sequence=options.names("nested-sequence-field"),
        count_limit=options.number("count-limit"),
        time_field=options.text("ts-field", _last_field(field.type)),
    )
    _check_parts(function)
    return function


@dataclass(frozen=True, slots=True)
class _Options:
    """The options of one column."""

    options: Mapping[str, str]
    column: str

    def text(self, what: str, default: str) -> str:
        return self.options.get(option_of(self.column, what), default)

    def flag(self, what: str) -> bool:
        text = self.text(what, "false").strip().lower()
        if text not in {"true", "false"}:
            raise self._bad(what, text, "true or false")
        return text == "true"

    def number(self, what: str) -> int | None:
        text = self.text(what, "").strip()
        if not text:
            return None
        if not text.isdecimal():
            raise self._bad(what, text, "a whole number")
        return int(text)

    def names(self, what: str) -> tuple[str, ...]:
        return tuple(name for name in (part.strip() for part in self.text(what, "").split(",")) if name)

    def _bad(self, what: str, text: str, expected: str) -> InvalidInputError:
        key = option_of(self.column, what)
        return InvalidInputError(f"the option {key!r} must be {expected}, not {text!r}", option=key, column=self.column)


def _check_parts(function: ColumnFunction) -> None:
    """Check that the fields which options name are there, and of a fitting type."""
    match function.name:
        case "nested_update" | "nested_partial_update":
            _check_nested(function)
        case "merge_map_with_keytime":
            kind = _part(function, "ts-field", function.time_field).type
            if not isinstance(kind, AtomicType) or kind.root not in TEXT_ROOTS:
                raise _refusal(function, "ts-field", f"must name a STRING, but {function.time_field!r} is {kind}")
        case "listagg" if function.distinct and not function.delimiter:
            raise _refusal(function, "list-agg-delimiter", "cannot be empty where 'distinct' must find the parts again")


def _check_nested(function: ColumnFunction) -> None:
    if function.name == "nested_partial_update" and not function.nested_key:
        raise _refusal(function, "nested-key", "must name the fields by which rows of the array are found again")
    if function.nested_sequence and not function.nested_key:
        raise _refusal(function, "nested-sequence-field", f"needs {option_of(function.column, 'nested-key')!r} too")
    for name in function.nested_key:
        _part(function, "nested-key", name)
    for name in function.nested_sequence:
        kind = _part(function, "nested-sequence-field", name).type
        if not isinstance(kind, AtomicType):
            raise _refusal(function, "nested-sequence-field", f"names {name!r}, but {kind} has no order")


def _part(function: ColumnFunction, what: str, name: str) -> DataField:
    parts = {part.name: part for part in row_parts(function.type)}
    if name not in parts:
        raise _refusal(function, what, f"names {name!r}, but there are only the fields {', '.join(parts)}")
    return parts[name]


def _refusal(function: ColumnFunction, what: str, why: str) -> InvalidInputError:
    key = option_of(function.column, what)
    return InvalidInputError(
        f"the function {function.name!r} of the column {function.column!r}: the option {key!r} {why}",
        column=function.column,
        option=key,
    )


def _last_field(dtype: DataType) -> str:
    fields = row_parts(dtype)
    return fields[-1].name if fields else ""


def _root_in(roots: frozenset[str]) -> Callable[[DataType], bool]:
    return lambda dtype: isinstance(dtype, AtomicType) and dtype.root in roots


def _comparable(dtype: DataType) -> bool:
    return isinstance(dtype, AtomicType) and dtype.root not in _INCOMPARABLE


def _unbounded_type(root: str) -> Callable[[DataType], bool]:
    return lambda dtype: isinstance(dtype, AtomicType) and dtype.root == root and dtype.length == UNBOUNDED


# What each function needs, in words and as a test.
FITS: dict[str, tuple[str, Callable[[DataType], bool]]] = {
    "sum": ("a number", _root_in(_NUMERIC)),
    "product": ("a number", _root_in(_NUMERIC)),
    "max": ("a scalar that has an order", _comparable),
    "min": ("a scalar that has an order", _comparable),
    LAST: ("a column", lambda _: True),
    LAST_NON_NULL: ("a column", lambda _: True),
    "first_value": ("a column", lambda _: True),
    "first_non_null_value": ("a column", lambda _: True),
    "listagg": ("a STRING", _unbounded_type("VARCHAR")),
    "bool_and": ("a BOOLEAN", _root_in(frozenset({"BOOLEAN"}))),
    "bool_or": ("a BOOLEAN", _root_in(frozenset({"BOOLEAN"}))),
    "collect": ("an ARRAY", lambda dtype: isinstance(dtype, ArrayType)),
    "merge_map": ("a MAP", lambda dtype: isinstance(dtype, MapType)),
    "merge_map_with_keytime": (
        "a MAP of ROWs",
        lambda dtype: isinstance(dtype, MapType) and isinstance(dtype.value, RowType),
    ),
    "nested_update": ("an ARRAY of ROWs", lambda t: isinstance(t, ArrayType) and isinstance(t.element, RowType)),
    "nested_partial_update": (
        "an ARRAY of ROWs",
        lambda dtype: isinstance(dtype, ArrayType) and isinstance(dtype.element, RowType),
    ),
    "rbm32": ("a VARBINARY", _root_in(frozenset({"VARBINARY"}))),
}
