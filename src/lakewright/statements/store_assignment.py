"""ANSI store assignment: casts of new values.

A number goes into any column of numbers if its value fits, everything plain into a text, dates and times into each
other; a text is parsed into nothing. Invariant: a type that does not fit is an error before a row is read, and
a value that does not fit is an error when its row is evaluated, never a null or another number.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from lakewright.errors import InvalidInputError, UnsupportedError
from lakewright.spec.arrow_types import from_arrow_type, to_arrow_type
from lakewright.spec.identifier import quote_identifier
from lakewright.spec.types import (
    BINARY_ROOTS,
    TEXT_ROOTS,
    TIMESTAMP_ROOTS,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    VectorType,
)
from lakewright.statements.sql_text import Fragment

_DIGITS = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 19}
_FLOATS = {"FLOAT", "DOUBLE"}
_NUMBERS = {*_DIGITS, *_FLOATS, "DECIMAL"}
_WIDER_NUMBERS = {
    "TINYINT": {"SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE"},
    "SMALLINT": {"INT", "BIGINT", "FLOAT", "DOUBLE"},
    "INT": {"BIGINT", "FLOAT", "DOUBLE"},
    "BIGINT": {"FLOAT", "DOUBLE"},
    "FLOAT": {"DOUBLE"},
    "DECIMAL": {"FLOAT", "DOUBLE"},
}
_MOMENTS = TIMESTAMP_ROOTS | {"DATE"}
_BYTES = BINARY_ROOTS | {"BLOB"}
_NAMES = {
    "CHAR": "STRING",
    "VARCHAR": "STRING",
    "VARBINARY": "BINARY",
    "BLOB": "BINARY",  # to SQL its values are bytes
    "TIMESTAMP": "TIMESTAMP_NTZ",
    "TIMESTAMP_LTZ": "TIMESTAMP",
    "TIME": "TIME(6)",
}


def literal(text: str) -> str:
    """Return a text as a literal of SQL."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def sql_type(dtype: DataType) -> str:
    """Return how Spark SQL spells a type."""
    match dtype:
        case AtomicType(root="DECIMAL"):
            return f"DECIMAL({dtype.precision}, {dtype.scale})"
        case AtomicType():
            return _NAMES.get(dtype.root, dtype.root)
        case ArrayType() | VectorType():
            return f"ARRAY<{sql_type(dtype.element)}>"
        case MapType() | MultisetType():
            return f"MAP<{sql_type(dtype.key)}, {sql_type(dtype.value)}>"
        case RowType():
            return f"STRUCT<{', '.join(f'{quote_identifier(f.name)}: {sql_type(f.type)}' for f in dtype.fields)}>"


def default_of(field: DataField) -> str:
    """Return the default of a column as SQL text, or NULL."""
    if field.default_value is None:
        return f"CAST(NULL AS {sql_type(field.type)})"
    return f"CAST({literal(field.default_value)} AS {sql_type(field.type)})"


@dataclass(frozen=True, slots=True)
class StoreAssignment:
    """How values are assigned: of which table, and what the casts of the session do."""

    table: str
    casts_fail: bool = True  # a cast of a value that does not fit is an error; False: it gives a null or wraps
    by_position: bool = False  # fields of a struct are matched by their places, as INSERT does; else by name

    def value(self, expression: str, given: pa.DataType, field: DataField, place: Fragment | None) -> str:
        """Return SQL text that gives an expression the type of a column, or raise an error that shows the place."""
        is_void = _is_void(given)
        typed = given if is_void else self._type_nulls(given, field.type)
        own = None if is_void else _known_type(typed)
        if is_void:
            fits = pa.types.is_null(given) or isinstance(field.type, ArrayType | VectorType)
            reason = None if fits else "their structure differs"
        else:
            reason = "there is no such type" if own is None else self._misfit(own, field.type)
        if reason is not None:
            shown = str(given) if own is None else str(_nullable(own))
            message = f"{self.table}: the column {field.name!r} ({field.type}) cannot take a value of type {shown}"
            message = f"{message}: {reason}; cast it, for example CAST(... AS {sql_type(field.type)})"
            if place is None:
                raise InvalidInputError(message, table=self.table, column=field.name)
            raise place.error(message, kind=InvalidInputError, table=self.table, column=field.name)
        if own is not None and typed == given and sql_type(own) == sql_type(field.type):
            return expression
        return self._cast(expression, own, field)

    def _type_nulls(self, given: pa.DataType, target: DataType) -> pa.DataType:
        """Return a type in which a NULL inside a struct, array or map, which has no type, gets that of the column."""
        types = pa.types
        match target:
            case _ if types.is_null(given):
                return to_arrow_type(target)
            case ArrayType() | VectorType() if types.is_list(given):
                return pa.list_(self._type_nulls(given.value_type, target.element))
            case MapType() | MultisetType() if types.is_map(given):
                return pa.map_(
                    self._type_nulls(given.key_type, target.key), self._type_nulls(given.item_type, target.value)
                )
            case RowType() if types.is_struct(given):
                return pa.struct([one.with_type(self._typed_field(one, at, target)) for at, one in enumerate(given)])
        return given

    def _typed_field(self, given: pa.Field, at: int, target: RowType) -> pa.DataType:
        found = list(target.fields[at : at + 1])
        if not self.by_position:
            found = [field for field in target.fields if field.name.casefold() == given.name.casefold()]
        return self._type_nulls(given.type, found[0].type) if found else given.type

    def _cast(self, expression: str, own: DataType | None, field: DataField) -> str:
        if own is not None and not self.by_position and _reorders(own, field.type):
            expression, own = _by_name(expression, own, field.type)
        target = sql_type(field.type)
        if own is None or self.casts_fail or _always_fits(own, field.type):
            return f"CAST({expression} AS {target})"
        if not isinstance(field.type, AtomicType):
            raise UnsupportedError(
                f"{self.table}: a value of type {own} may not fit the column {field.name!r} ({field.type}), and casts "
                "of this session do not fail for such values; cast it, or set spark.sql.ansi.enabled = true",
                table=self.table,
                column=field.name,
            )
        tried = f"try_cast({expression} AS {target})"
        message = literal(f"{self.table}: a value does not fit the column {field.name!r} ({field.type})")
        failed = f"CAST(raise_error({message}) AS {target})"
        return f"coalesce({tried}, CASE WHEN {expression} IS NULL THEN NULL ELSE {failed} END)"

    def _misfit(self, own: DataType | None, target: DataType) -> str | None:
        """Return why a type cannot be assigned; None: it can."""
        match own, target:
            case None, _:
                return None
            case AtomicType(), AtomicType():
                return None if _plain_fits(own.root, target.root) else _why(own.root)
            case ArrayType() | VectorType(), ArrayType() | VectorType():
                return self._misfit(own.element, target.element)
            case MapType() | MultisetType(), MapType() | MultisetType():
                return self._misfit(own.key, target.key) or self._misfit(own.value, target.value)
            case RowType(), RowType():
                return self._misfit_of_rows(own, target)
        return "their structure differs"

    def _misfit_of_rows(self, own: RowType, target: RowType) -> str | None:
        if len(own.fields) != len(target.fields):
            return f"it has {len(own.fields)} fields instead of {len(target.fields)}"
        given = {field.name.casefold(): field for field in own.fields}
        for at, field in enumerate(target.fields):
            source = own.fields[at] if self.by_position else given.get(field.name.casefold())
            if source is None:
                return f"it has no field {field.name!r}"
            reason = self._misfit(source.type, field.type)
            if reason is not None:
                return f"its field {field.name!r} is {source.type}: {reason}"
        return None


def _is_void(given: pa.DataType) -> bool:
    """Return whether a type is that of NULL (on Spark also of an empty map), or of `array()`."""
    return bool(pa.types.is_null(given.value_type if pa.types.is_list(given) else given))


def _known_type(given: pa.DataType) -> DataType | None:
    try:
        return from_arrow_type(given)
    except (InvalidInputError, UnsupportedError):
        return None


def _nullable(dtype: DataType) -> str:
    return str(dtype).removesuffix(" NOT NULL")


def _plain_fits(own: str, target: str) -> bool:
    if own == target or target in TEXT_ROOTS:
        return own not in _BYTES or target not in TEXT_ROOTS
    pairs = ((_NUMBERS, _NUMBERS), (_MOMENTS, _MOMENTS), (_BYTES, _BYTES))
    return any(own in first and target in second for first, second in pairs)


def _why(own: str) -> str:
    return "text is not parsed" if own in TEXT_ROOTS else "such values are not converted"


def _always_fits(own: DataType, target: DataType) -> bool:
    """Return whether every value of a type fits another."""
    match own, target:
        case AtomicType(), AtomicType():
            if own.root not in _NUMBERS or own.root == target.root != "DECIMAL":
                return True
            if target.root == "DECIMAL":
                digits = own.precision - own.scale if own.root == "DECIMAL" else _DIGITS.get(own.root, 99)
                return digits <= target.precision - target.scale
            return target.root not in _NUMBERS or target.root in _WIDER_NUMBERS.get(own.root, ())
        case ArrayType() | VectorType(), ArrayType() | VectorType():
            return _always_fits(own.element, target.element)
        case MapType() | MultisetType(), MapType() | MultisetType():
            return _always_fits(own.key, target.key) and _always_fits(own.value, target.value)
        case RowType(), RowType():
            return all(_always_fits(a.type, b.type) for a, b in zip(own.fields, target.fields, strict=True))
    return False


def _reorders(own: DataType, target: DataType) -> bool:
    """Return whether the fields of a struct have another order than those of the column, at any depth of structs."""
    if not isinstance(own, RowType) or not isinstance(target, RowType):
        return False
    pairs = list(zip(own.fields, target.fields, strict=True))
    moved = any(a.name.casefold() != b.name.casefold() for a, b in pairs)
    return moved or any(_reorders(a.type, b.type) for a, b in pairs)


def _by_name(expression: str, own: DataType, target: DataType) -> tuple[str, DataType]:
    """Return a struct with its fields in the order of the column, and its type."""
    if not isinstance(own, RowType) or not isinstance(target, RowType):
        return expression, own
    given = {field.name.casefold(): field for field in own.fields}
    parts, fields = [], []
    for field in target.fields:
        source = given[field.name.casefold()]
        text, dtype = _by_name(f"{expression}.{quote_identifier(source.name)}", source.type, field.type)
        parts.append(f"{literal(field.name)}, {text}")
        fields.append(DataField(field.id, field.name, dtype))
    built = f"CASE WHEN {expression} IS NULL THEN NULL ELSE named_struct({', '.join(parts)}) END"
    return built, RowType(own.nullable, fields)
