"""Data types: parsed from schema JSON, printed as Java prints them.

A type is a frozen value. Atomic types are spelled as text (`DECIMAL(10, 2) NOT NULL`), constructed types as JSON
objects whose `type` member carries the keyword and the nullability. The text is normalised when a value is made, so
two spellings of one type are equal. A column may hold ROWs; their fields have ids of the same counter as the columns.

Values of these types inside the library (partition values, bounds, literals) are plain Python, called `Value`:
BOOLEAN bool; integers int; FLOAT, DOUBLE float; DECIMAL Decimal with the type's scale; text str; binary bytes; DATE int
(days since 1970); TIME int (milliseconds of the day); TIMESTAMP and LTZ int (NANOSECONDS since 1970 UTC, of any size).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import lru_cache
from typing import ClassVar, Self, TypeAlias

from lakewright.errors import InvalidInputError
from lakewright.spec import argument_checks

Value: TypeAlias = bool | int | float | Decimal | str | bytes | None
JSON: TypeAlias = "str | int | float | bool | Sequence[JSON] | Mapping[str, JSON] | None"

UNBOUNDED = 2147483647  # the length of STRING and BYTES
PRECISION_MAX = 38
FRACTION_MAX = 9
SYSTEM_FIELD_ID_MIN = 1073741823  # ids from here on belong to the format itself

INTEGER_BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}  # from narrow to wide
WIDENED_BY_KIND = (tuple(INTEGER_BITS), ("FLOAT", "DOUBLE"))  # a type holds every value of those before it
FLOAT_ROOTS = frozenset({"FLOAT", "DOUBLE"})
VECTOR_ROOTS = frozenset({"BOOLEAN", *INTEGER_BITS, *FLOAT_ROOTS})  # of the elements of vectors
TEXT_ROOTS = frozenset({"CHAR", "VARCHAR"})
BINARY_ROOTS = frozenset({"BINARY", "VARBINARY"})
BYTES_ROOTS = BINARY_ROOTS | {"BLOB", "GEOMETRY", "GEOGRAPHY"}  # what has bytes as values
TIMESTAMP_ROOTS = frozenset({"TIMESTAMP", "TIMESTAMP_LTZ"})
MILLIS_PRECISION = 3  # times up to this precision are stored as milliseconds
MICROS_PRECISION = 6  # and up to this one as microseconds
UNIT_NANOS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}

_NO_PARAMETER = frozenset("BOOLEAN TINYINT SMALLINT INT BIGINT FLOAT DOUBLE DATE VARIANT BLOB".split())
_LENGTH = TEXT_ROOTS | BINARY_ROOTS
_KNOWN_WORDS = (  # that types begin with
    _NO_PARAMETER
    | _LENGTH
    | {"DECIMAL", "TIME", "STRING", "BYTES", "ARRAY", "MULTISET", "MAP", "ROW"}
    | TIMESTAMP_ROOTS
)
_ALIASES = {
    "INTEGER": "INT",
    "DEC": "DECIMAL",
    "NUMERIC": "DECIMAL",
    "DOUBLE PRECISION": "DOUBLE",
}
_TEXT = re.compile(
    r"^\s*(?P<root>[A-Z_]+(?:\s+PRECISION)?)\s*(?:\((?P<args>[^)]*)\))?\s*(?P<rest>.*?)\s*$", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class AtomicType:
    """A scalar type such as `INT` or `DECIMAL(10, 2)`, given as text in the words of SQL.

    Types: BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DECIMAL(p, s), CHAR(n), VARCHAR(n), STRING,
    BINARY(n), VARBINARY(n), BYTES, DATE, TIME(p), TIMESTAMP(p) and TIMESTAMP(p) WITH LOCAL TIME ZONE. Two spellings of
    one type are equal.

    >>> AtomicType("decimal(10,2)", nullable=False)
    AtomicType(type='DECIMAL(10, 2)', nullable=False)
    >>> str(AtomicType("VARCHAR(2147483647)"))
    'STRING'
    """

    type: str
    nullable: bool = True
    root: str = field(init=False, repr=False, compare=False)
    length: int = field(init=False, repr=False, compare=False)
    precision: int = field(init=False, repr=False, compare=False)
    scale: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        argument_checks.check_text("a type", self.type)
        argument_checks.check_bool("nullable", self.nullable)
        root, numbers, nullable = _atomic_parts(self.type)
        put = object.__setattr__
        put(self, "root", root)
        put(self, "length", numbers[0] if root in _LENGTH else 0)
        put(self, "precision", numbers[0] if root in TIMESTAMP_ROOTS | {"DECIMAL", "TIME"} else 0)
        put(self, "scale", numbers[1] if root == "DECIMAL" else 0)
        put(self, "nullable", bool(self.nullable) and nullable)
        put(self, "type", _atomic_text(root, numbers, self.type))

    def __str__(self) -> str:
        return self.type if self.nullable else f"{self.type} NOT NULL"

    def to_dict(self) -> JSON:
        """Return the JSON of the schema file."""
        return str(self)


@dataclass(frozen=True, slots=True)
class UnknownType(AtomicType):
    """A type in a schema file that this release does not know: kept as it is spelled, and refused where it is used.

    Other columns of such a table can be read.
    """

    definition: str = ""  # the JSON of a type that is not spelled as text

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "root", "UNKNOWN")
        for name in ("length", "precision", "scale"):
            put(self, name, 0)

    def to_dict(self) -> JSON:
        """Return the JSON of the schema file."""
        stored: JSON = json.loads(self.definition) if self.definition else str(self)
        return stored


class _Nested:
    """The common base of all types but the scalar ones."""

    __slots__ = ()

    @classmethod
    def from_dict(cls, data: Mapping[str, JSON]) -> Self:
        """Read the JSON of the schema file."""
        parsed = parse_type(data)
        if not isinstance(parsed, cls):
            raise InvalidInputError(f"expected a {cls.__name__}, found {parsed}")
        return parsed


@dataclass(frozen=True, slots=True)
class _Elements(_Nested):
    """The common base of types with elements of one type."""

    keyword: ClassVar[str]
    nullable: bool
    element: DataType

    def __init__(self, nullable: bool, element_type: DataType) -> None:  # noqa: FBT001 - pypaimon's order
        object.__setattr__(self, "nullable", argument_checks.check_bool("nullable", nullable))
        object.__setattr__(self, "element", to_type("element_type", element_type))

    def __str__(self) -> str:
        return _suffix(f"{self.keyword}<{self.element}>", self.nullable)

    def to_dict(self) -> JSON:
        """Return the JSON of the schema file."""
        return {"type": _suffix(self.keyword, self.nullable), "element": self.element.to_dict()}


class ArrayType(_Elements):
    """A list of elements of one type."""

    __slots__ = ()
    keyword = "ARRAY"


class MultisetType(_Elements):
    """A multiset: each element with the number of its occurrences. It is stored as a map from elements to numbers."""

    __slots__ = ()
    keyword = "MULTISET"

    @property
    def key(self) -> DataType:
        """The type of the elements."""
        return self.element

    @property
    def value(self) -> AtomicType:
        """The type of the numbers."""
        return AtomicType("INT", nullable=False)


@dataclass(frozen=True, slots=True)
class MapType(_Nested):
    """A map from keys to values."""

    nullable: bool
    key: DataType
    value: DataType

    def __init__(self, nullable: bool, key_type: DataType, value_type: DataType) -> None:  # noqa: FBT001 - pypaimon's order
        object.__setattr__(self, "nullable", argument_checks.check_bool("nullable", nullable))
        object.__setattr__(self, "key", to_type("key_type", key_type))
        object.__setattr__(self, "value", to_type("value_type", value_type))

    def __str__(self) -> str:
        return _suffix(f"MAP<{self.key}, {self.value}>", self.nullable)

    def to_dict(self) -> JSON:
        """Return the JSON of the schema file."""
        return {"type": _suffix("MAP", self.nullable), "key": self.key.to_dict(), "value": self.value.to_dict()}


@dataclass(frozen=True, slots=True)
class VectorType(_Nested):
    """A list with a fixed number of numbers or booleans, none of which is null; the list as a whole may be null.

    >>> str(VectorType(True, "FLOAT", 3))
    'VECTOR<FLOAT, 3>'
    """

    nullable: bool
    element: DataType
    length: int

    def __post_init__(self) -> None:
        argument_checks.check_bool("nullable", self.nullable)
        element = to_type("element", self.element)
        if not isinstance(element, AtomicType) or element.root not in VECTOR_ROOTS:
            raise InvalidInputError(f"a VECTOR has elements of one of {', '.join(sorted(VECTOR_ROOTS))}, not {element}")
        if not 1 <= argument_checks.check_int("length", self.length) <= UNBOUNDED:
            raise InvalidInputError(f"a VECTOR has a length from 1 to {UNBOUNDED}, not {self.length}")
        object.__setattr__(self, "element", element)

    def __str__(self) -> str:
        return _suffix(f"VECTOR<{self.element}, {self.length}>", self.nullable)

    def to_dict(self) -> JSON:
        """Return the JSON of the schema file."""
        return {"type": _suffix("VECTOR", self.nullable), "element": self.element.to_dict(), "length": self.length}


@dataclass(frozen=True, slots=True)
class DataField:
    """A column, or a field of a ROW. Its id identifies it for ever; its name, type and place may change.

    The type may be given as text. `default_value` is the text of the value that writes store in place of a null.

    >>> DataField(0, "id", "BIGINT NOT NULL").type
    AtomicType(type='BIGINT', nullable=False)
    """

    id: int
    name: str
    type: DataType
    description: str | None = None
    default_value: str | None = None

    def __post_init__(self) -> None:
        argument_checks.check_int("the id of a field", self.id)
        argument_checks.plain_text("the name of a field", self.name)
        object.__setattr__(self, "type", to_type("the type of a field", self.type))
        argument_checks.remark("description", self.description)
        argument_checks.remark("default_value", self.default_value)

    @classmethod
    def from_dict(cls, data: Mapping[str, JSON]) -> DataField:
        """Read the JSON of the schema file."""
        if not isinstance(data, Mapping):
            raise argument_checks.argument_error("a field of a schema", "a dict with id, name and type", data)
        missing = {"id", "name", "type"} - data.keys()
        if missing:
            raise InvalidInputError(f"a field of a schema lacks {sorted(missing)}: {dict(data)!r}")
        number, name = data["id"], data["name"]
        if not isinstance(number, int) or not isinstance(name, str):
            raise InvalidInputError(f"a field needs a number as id and a text as name: {dict(data)!r}")
        description, default = data.get("description"), data.get("defaultValue")
        return cls(
            number,
            name,
            parse_type(data["type"], keep_unknown=True),
            None if description is None else str(description),
            None if default is None else str(default),
        )

    def to_dict(self) -> dict[str, JSON]:
        """Return the JSON of the schema file."""
        out: dict[str, JSON] = {"id": self.id, "name": self.name, "type": self.type.to_dict()}
        if self.description is not None:
            out["description"] = self.description
        if self.default_value is not None:
            out["defaultValue"] = self.default_value
        return out


@dataclass(frozen=True, slots=True)
class RowType(_Nested):
    """A struct of named fields, each with an id of its own."""

    nullable: bool
    fields: tuple[DataField, ...]

    def __init__(self, nullable: bool, fields: Iterable[DataField]) -> None:  # noqa: FBT001 - pypaimon's order
        object.__setattr__(self, "nullable", argument_checks.check_bool("nullable", nullable))
        object.__setattr__(self, "fields", argument_checks.check_instances("fields", fields, DataField, "fields"))

    def __str__(self) -> str:
        inner = ", ".join(f"`{f.name}` {f.type}" for f in self.fields)
        return _suffix(f"ROW<{inner}>", self.nullable)

    def to_dict(self) -> JSON:
        """Return the JSON of the schema file."""
        return {"type": _suffix("ROW", self.nullable), "fields": [f.to_dict() for f in self.fields]}


DataType: TypeAlias = AtomicType | ArrayType | MapType | MultisetType | RowType | VectorType


def to_type(argument: str, value: object) -> DataType:
    """Return a data type that a caller gives as a type, or as text such as `INT`."""
    if isinstance(value, str):
        return parse_type(value)
    if not isinstance(value, AtomicType | ArrayType | MapType | MultisetType | RowType | VectorType):
        raise argument_checks.argument_error(argument, "a data type, such as AtomicType('INT') or 'INT'", value)
    return value


def parse_type(data: JSON, *, keep_unknown: bool = False) -> DataType:
    """Read a type from the JSON of a schema file: text for scalars, an object for the rest.

    A type of a later version of the format is an InvalidInputError, or an `UnknownType` with `keep_unknown`.

    >>> parse_type({"type": "ARRAY NOT NULL", "element": "INT"})
    ArrayType(nullable=False, element=AtomicType(type='INT', nullable=True))
    """
    if isinstance(data, Mapping) and isinstance(data.get("type"), str):
        keyword, nullable = _keyword(str(data["type"]))
    elif isinstance(data, str):
        keyword, nullable = _strip_nullability(data)
    else:
        raise argument_checks.argument_error("a data type", "text such as 'INT' or a dict with 'type'", data)
    try:
        return _parse_text(data) if isinstance(data, str) else _parse_object(data, keyword, nullable, keep_unknown)
    except InvalidInputError:
        if not keep_unknown or re.split(r"\W", keyword.upper())[0] in _KNOWN_WORDS:
            raise  # a known type is broken
        return UnknownType(keyword.strip(), nullable, "" if isinstance(data, str) else json.dumps(data))


def _parse_object(data: Mapping[str, JSON], keyword: str, nullable: bool, keep_unknown: bool) -> DataType:  # noqa: FBT001
    def part(name: str) -> DataType:
        return parse_type(data.get(name), keep_unknown=keep_unknown)

    match keyword:
        case "ARRAY":
            return ArrayType(nullable, part("element"))
        case "MULTISET":
            return MultisetType(nullable, part("element"))
        case "MAP":
            return MapType(nullable, part("key"), part("value"))
        case "VECTOR":
            length = data.get("length")
            if not isinstance(length, int):
                raise InvalidInputError(f"a VECTOR needs a number as length: {dict(data)!r}")
            return VectorType(nullable, part("element"), length)
        case "ROW":
            fields = data.get("fields")
            if not isinstance(fields, Sequence) or isinstance(fields, str):
                raise InvalidInputError(f"a ROW needs a list of fields: {dict(data)!r}")
            return RowType(nullable, [DataField.from_dict(_mapping(f)) for f in fields])
        case _:
            return _parse_text(str(data["type"]))


def with_nullable(dtype: DataType, nullable: bool) -> DataType:  # noqa: FBT001 - reads well at every call
    """Return the same type with another nullability."""
    match dtype:
        case UnknownType():
            return replace(dtype, nullable=nullable)
        case AtomicType():
            return dtype if dtype.nullable == nullable else AtomicType(dtype.type, nullable)
        case ArrayType() | MultisetType():
            return type(dtype)(nullable, dtype.element)
        case MapType():
            return MapType(nullable, dtype.key, dtype.value)
        case RowType():
            return RowType(nullable, dtype.fields)
        case VectorType():
            return replace(dtype, nullable=nullable)


def row_parts(dtype: DataType) -> tuple[DataField, ...]:
    """Return the fields of the rows inside an array or a map; none for other types."""
    match dtype:
        case ArrayType(element=RowType(fields=fields)) | MapType(value=RowType(fields=fields)):
            return fields
        case _:
            return ()


def types_inside(dtype: DataType) -> Iterator[DataType]:
    """Yield a type and every type inside it, depth first."""
    yield dtype
    match dtype:
        case AtomicType():
            parts: tuple[DataType, ...] = ()
        case RowType():
            parts = tuple(field.type for field in dtype.fields)
        case MapType():
            parts = (dtype.key, dtype.value)
        case _:
            parts = (dtype.element,)
    for part in parts:
        yield from types_inside(part)


def is_stored_apart(dtype: DataType) -> bool:
    """Return whether values of a type may be in files of their own (`spec.manifest.is_side_file`)."""
    return isinstance(dtype, VectorType) or (isinstance(dtype, AtomicType) and dtype.root == "BLOB")


def blob_fields(fields: Iterable[DataField]) -> tuple[DataField, ...]:
    """Return the columns of the type BLOB."""
    return tuple(field for field in fields if isinstance(field.type, AtomicType) and field.type.root == "BLOB")


def all_fields(fields: Iterable[DataField]) -> Iterator[DataField]:
    """Yield columns and every field inside them."""
    for column in fields:
        yield column
        for part in types_inside(column.type):
            if isinstance(part, RowType):
                yield from part.fields


def highest_field_id(fields: Iterable[DataField]) -> int:
    """Return the highest id in use, -1 without fields; ids of the format itself do not count."""
    return max((f.id for f in all_fields(fields) if f.id < SYSTEM_FIELD_ID_MIN), default=-1)


def numbered_fields(fields: Iterable[DataField], ids: Iterator[int]) -> tuple[DataField, ...]:
    """Return columns with new ids: a column is numbered before the fields inside it."""
    return renumber_fields(fields, lambda _: next(ids))


def renumber_fields(fields: Iterable[DataField], new_id: Callable[[int], int]) -> tuple[DataField, ...]:
    """Return columns whose ids, and those of the fields inside them, are replaced by what a function makes of them."""
    return tuple(replace(field, id=new_id(field.id), type=_renumber_type(field.type, new_id)) for field in fields)


def numbered_type(dtype: DataType, ids: Iterator[int]) -> DataType:
    """Return a type whose ROW fields have new ids; inside a ROW, the fields inside a field are numbered before it."""
    return _renumber_type(dtype, lambda _: next(ids))


def _renumber_type(dtype: DataType, new_id: Callable[[int], int]) -> DataType:
    match dtype:
        case AtomicType():
            return dtype
        case ArrayType() | MultisetType():
            return type(dtype)(dtype.nullable, _renumber_type(dtype.element, new_id))
        case VectorType():
            return replace(dtype, element=_renumber_type(dtype.element, new_id))
        case MapType():
            key = _renumber_type(dtype.key, new_id)
            return MapType(dtype.nullable, key, _renumber_type(dtype.value, new_id))
        case RowType():
            # Arguments are evaluated from left to right: the inner fields get their ids first.
            return RowType(
                dtype.nullable, [replace(f, type=_renumber_type(f.type, new_id), id=new_id(f.id)) for f in dtype.fields]
            )


def time_unit(precision: int) -> str:
    """Return the unit in which times of a precision are stored: ms, us or ns."""
    return "ms" if precision <= MILLIS_PRECISION else "us" if precision <= MICROS_PRECISION else "ns"


def _suffix(text: str, nullable: bool) -> str:  # noqa: FBT001
    return text if nullable else f"{text} NOT NULL"


def _mapping(data: JSON) -> Mapping[str, JSON]:
    if not isinstance(data, Mapping):
        raise InvalidInputError(f"a field of a ROW must be an object: {data!r}")
    return data


def _keyword(text: str) -> tuple[str, bool]:
    """Split `ARRAY NOT NULL` into its keyword and nullability."""
    words = text.upper().split()
    if words[-2:] == ["NOT", "NULL"]:
        return " ".join(words[:-2]), False
    if words[-1:] == ["NULL"]:
        return " ".join(words[:-1]), True
    return " ".join(words), True


@lru_cache(maxsize=4096)
def _parse_text(text: str) -> DataType:
    """Read one type from text, with the suffix forms `INT ARRAY` and `INT MULTISET` and the form `VECTOR<T, n>`."""
    body, nullable = _strip_nullability(text)
    upper = body.upper()
    for word, kind in ((" ARRAY", ArrayType), (" MULTISET", MultisetType)):
        if upper.endswith(word):
            return kind(nullable, _parse_text(body[: -len(word)]))
    vector = re.fullmatch(r"VECTOR\s*<(.+),\s*(\d+)\s*>", body.strip(), re.IGNORECASE)
    if vector:
        return VectorType(nullable, _parse_text(vector[1]), int(vector[2]))
    return AtomicType(body, nullable)


def _strip_nullability(text: str) -> tuple[str, bool]:
    match = re.fullmatch(r"(.*?)(\s+NOT)?\s+NULL\s*", text, re.IGNORECASE | re.DOTALL)
    if match is None:
        return text, True
    return match[1], match[2] is None


@lru_cache(maxsize=4096)
def _atomic_parts(text: str) -> tuple[str, tuple[int, ...], bool]:
    """Return the root keyword, its parameters including defaults, and the nullability that the text states."""
    body, nullable = _strip_nullability(text)
    match = _TEXT.match(body)
    if match is None:
        raise InvalidInputError(f"not a data type: {text!r}")
    root = " ".join(match["root"].upper().split())
    root = _ALIASES.get(root, root)
    rest = " ".join(match["rest"].upper().split())
    args = match["args"]
    if root in {"GEOMETRY", "GEOGRAPHY"} and not rest:
        return root, (), nullable
    try:
        numbers = tuple(int(a) for a in args.split(",")) if args else ()
    except ValueError:
        raise InvalidInputError(f"the parameters of {text!r} are not numbers") from None
    root, rest, numbers = _long_names(root, rest, numbers)
    if rest:
        raise InvalidInputError(f"not a data type: {text!r} (cannot read {rest!r})")
    return root, _checked_parameters(root, numbers, text), nullable


def _long_names(root: str, rest: str, numbers: tuple[int, ...]) -> tuple[str, str, tuple[int, ...]]:
    if root in {"STRING", "BYTES"} and not numbers:
        return ("VARCHAR" if root == "STRING" else "VARBINARY"), rest, (UNBOUNDED,)
    if root == "TIMESTAMP" and rest == "WITH LOCAL TIME ZONE":
        return "TIMESTAMP_LTZ", "", numbers
    if root in {"TIMESTAMP", "TIME"} and rest == "WITHOUT TIME ZONE":
        return root, "", numbers
    return root, rest, numbers


def _checked_parameters(root: str, numbers: tuple[int, ...], text: str) -> tuple[int, ...]:
    if root in _NO_PARAMETER:
        valid = not numbers
    elif root in _LENGTH:
        numbers = numbers or (1,)
        valid = len(numbers) == 1 and 0 <= numbers[0] <= UNBOUNDED
    elif root == "DECIMAL":
        numbers = (*numbers, *(10, 0)[len(numbers) :])
        valid = len(numbers) == 2 and 1 <= numbers[0] <= PRECISION_MAX and 0 <= numbers[1] <= numbers[0]  # noqa: PLR2004
    elif root == "TIME" or root in TIMESTAMP_ROOTS:
        numbers = numbers or ((0,) if root == "TIME" else (6,))
        valid = len(numbers) == 1 and 0 <= numbers[0] <= FRACTION_MAX
    else:
        raise InvalidInputError(f"unknown data type {text!r}")
    if not valid:
        raise InvalidInputError(f"the parameters of {text!r} are outside the limits of the format")
    return numbers


def _atomic_text(root: str, numbers: tuple[int, ...], text: str) -> str:
    if root in {"GEOMETRY", "GEOGRAPHY"}:
        return _strip_nullability(text)[0].strip()
    if root in _NO_PARAMETER:
        return root
    if numbers == (UNBOUNDED,) and root in {"VARCHAR", "VARBINARY"}:
        return "STRING" if root == "VARCHAR" else "BYTES"
    if root == "TIMESTAMP_LTZ":
        return f"TIMESTAMP({numbers[0]}) WITH LOCAL TIME ZONE"
    return f"{root}({', '.join(map(str, numbers))})"
