"""How a procedure is declared: signature, arguments.

@procedure("rename_tag(table STRING, tag STRING, target_tag STRING) -> result BOOLEAN", "Give a tag another name.")

A parameter with `?` may be left out. The types are Spark's, and three more: MOMENT is shown as BIGINT and takes epoch
milliseconds or a time, OPTIONS and PARTITIONS are shown as STRING and take `k=v,k=v` or a map. Invariant: a
function that runs a procedure gets values of the declared types, and NULL counts as an argument that is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import TypeAlias, TypeVar

import pyarrow as pa

from lakewright.errors import InvalidInputError, LakewrightError
from lakewright.spec import argument_checks
from lakewright.statements.sql_session import Session
from lakewright.statements.sql_text import Fragment, Name, error_at
from lakewright.table.file_store_table import FileStoreTable

Rows: TypeAlias = Sequence[tuple[object, ...]]
T = TypeVar("T")

_ARROW = {"STRING": pa.string(), "BIGINT": pa.int64(), "INT": pa.int32(), "BOOLEAN": pa.bool_()}
_SHOWN = {"MOMENT": "BIGINT", "OPTIONS": "STRING", "PARTITIONS": "STRING", "MAP": "MAP<STRING, STRING>"}
_INT_BITS, _LONG_BITS = 31, 63
_SIGNATURE = re.compile(r"(\w+)\((.*)\) -> (.*)")
_PART = re.compile(r"\s*(`(?:[^`]|``)*`|[^.`]+)\s*(?:\.|$)")


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a procedure."""

    name: str
    type: str  # as it is declared
    is_required: bool

    def __str__(self) -> str:
        return f"{self.name}{'' if self.is_required else '?'} {_SHOWN.get(self.type, self.type)}"


@dataclass(frozen=True, slots=True)
class ArgumentValue:
    """The value of an argument, and where the argument stands."""

    value: object
    place: Fragment


@dataclass(frozen=True, slots=True)
class ProcedureArguments:
    """The arguments of one call, and the session in which it runs; values have the types of their parameters."""

    session: Session
    catalog: str | None  # of `CALL catalog.sys.name(...)`
    values: Mapping[str, ArgumentValue]

    def text(self, name: str) -> str:
        """Return the value of a parameter that is required."""
        return str(self.values[name].value)

    def optional_text(self, name: str) -> str | None:
        """Return a text; None if it was left out."""
        return None if name not in self.values else self.text(name)

    def number(self, name: str) -> int | None:
        """Return a number; None if it was left out."""
        return None if name not in self.values else int(str(self.values[name].value))

    def flag(self, name: str) -> bool:
        """Return a boolean; False if it was left out."""
        return name in self.values and self.values[name].value is True

    def convert_value(self, name: str, convert: Callable[[str, object], T]) -> T | None:
        """Return the value as a function makes it, which may refuse it; None if it was left out."""
        if name not in self.values:
            return None
        try:
            return convert(name, self.values[name].value)
        except InvalidInputError as error:
            raise self.error(name, error.message) from None

    def options(self, name: str = "options") -> dict[str, str]:
        """Return options of a table: `k=v,k2=v2`, or a map."""
        return self.convert_value(name, _options) or {}

    def partitions(self, name: str = "partitions") -> list[dict[str, object]] | None:
        """Return partitions: `dt=1,hour=2;dt=3` are two specs; None if they were left out."""
        return self.convert_value(name, _specs)

    def name_of_table(self, name: str = "table") -> Name:
        """Return the name of a table; without a catalog it is one of the catalog of the call."""
        text, place = self.text(name), self.values[name].place
        parts = [match[1] for match in _PART.finditer(text)]
        if "".join(match[0] for match in _PART.finditer(text)) != text or not parts:
            raise self.error(
                name, f"{name} takes the name of a table such as 'db.t', not {argument_checks.describe_value(text)}"
            )
        parts = [part[1:-1].replace("``", "`") if part.startswith("`") else part.strip() for part in parts]
        if self.catalog is not None and len(parts) < 3:  # noqa: PLR2004 - catalog, database, table
            is_current = self.catalog == self.session.catalog_name
            database = [self.session.database if is_current else "default"] if len(parts) == 1 else []
            parts = [self.catalog, *database, *parts]
        return Name(tuple(parts), place)

    def table(self, name: str = "table") -> FileStoreTable:
        """Return the table that an argument names; a system table is an error."""
        table = self.session.table(self.name_of_table(name))
        if not isinstance(table, FileStoreTable):
            raise self.error(name, f"{self.text(name)} is a system table; name the table itself")
        return table

    def error(self, name: str, message: str, kind: type[LakewrightError] = InvalidInputError) -> LakewrightError:
        """Return an error that shows an argument."""
        place = self.values[name].place
        return error_at(kind, message, place.whole, place.start, argument=name)


Run: TypeAlias = Callable[[ProcedureArguments], Rows]


@dataclass(frozen=True, slots=True)
class Procedure:
    """A procedure: its parameters in order, the columns of its rows, and what runs it."""

    name: str
    parameters: tuple[Parameter, ...]
    result: pa.Schema
    help: str  # what it does
    run: Run

    @property
    def signature(self) -> str:
        """The procedure as it is called: `create_tag(table STRING, tag STRING, snapshot? BIGINT)`."""
        return f"{self.name}({', '.join(map(str, self.parameters))})"

    @property
    def result_text(self) -> str:
        """The columns of its rows: `result BOOLEAN`."""
        names = {arrow: name for name, arrow in _ARROW.items()}
        return ", ".join(f"{field.name} {names[field.type]}" for field in self.result)


def procedure(signature: str, text: str) -> Callable[[Run], Procedure]:
    """Return a decorator that makes a procedure of the function that runs it.

    >>> print(procedure("p(table STRING, limit? INT) -> n BIGINT", "Count.")(lambda given: []).signature)
    p(table STRING, limit? INT)
    """
    match = _SIGNATURE.fullmatch(signature)
    assert match is not None, signature  # noqa: S101 - a mistake of the declaration
    pairs = [part.split() for part in match[2].split(", ")]
    parameters = tuple(Parameter(name.removesuffix("?"), kind, not name.endswith("?")) for name, kind in pairs)
    columns = [column.split() for column in match[3].split(", ")]
    result = pa.schema([pa.field(name, _ARROW[kind], nullable=not rest) for name, kind, *rest in columns])
    return lambda run: Procedure(match[1], parameters, result, text, run)


# ---- values ----------------------------------------------------------------------------------------------------------


def fit(parameter: Parameter, value: object) -> object:
    """Return a value as the type of a parameter; InvalidInputError if it does not fit."""
    fitted = _fit_value(parameter.type, value)
    if fitted is None:
        expected = {
            "MAP": "a map such as map('k', 'v')",
            "MOMENT": "epoch milliseconds or a time",
            "OPTIONS": "a STRING such as 'k=v,k2=v2' or a map",
            "PARTITIONS": "a STRING such as 'dt=2026-01-01;dt=2026-01-02' or a map",
            "INT": "an INT",
        }
        raise argument_checks.argument_error(parameter.name, expected.get(parameter.type, f"a {parameter.type}"), value)
    return fitted


def _fit_value(kind: str, value: object) -> object:
    """Return a value as a type, None if it does not fit."""
    match kind:
        case "MAP" | "OPTIONS" | "PARTITIONS" if isinstance(value, Mapping):
            return value
        case "STRING" | "OPTIONS" | "PARTITIONS":
            return _as_text(value)
        case "BOOLEAN":
            known = {"true": True, "false": False}
            return (
                value if isinstance(value, bool) else known.get(value.strip().lower() if isinstance(value, str) else "")
            )
        case "MOMENT" if isinstance(value, date) or (isinstance(value, str) and not _is_whole(value)):
            return argument_checks.to_epoch_millis("the time", value)
        case "MAP":
            return None
    number = int(str(value)) if _is_whole(value) else None
    limit = 1 << (_INT_BITS if kind == "INT" else _LONG_BITS)
    return number if number is not None and -limit <= number < limit else None


def _is_whole(value: object) -> bool:
    return not isinstance(value, bool) and re.fullmatch(r"\s*[-+]?[0-9]{1,19}\s*", str(value)) is not None


def _as_text(value: object) -> str | None:
    """Return a text, a number, a boolean or a time as Spark casts it to text; None for anything else."""
    match value:
        case str():
            return value
        case bool():
            return str(value).lower()
        case datetime():
            return value.isoformat(" ")
        case date():
            return value.isoformat()
        case int() | float() | Decimal():
            return str(value)
    return None


def _options(name: str, value: object) -> dict[str, str]:
    if isinstance(value, Mapping):
        return argument_checks.check_text_mapping(name, value)
    return dict(_pairs(name, str(value)))


def _specs(name: str, value: object) -> list[dict[str, object]]:
    if isinstance(value, Mapping):
        return [dict(value)]
    return [dict(_pairs(name, part)) for part in str(value).split(";") if part.strip()]


def _pairs(name: str, text: str) -> list[tuple[str, str]]:
    found = []
    for part in filter(str.strip, text.split(",")):
        key, sign, value = part.partition("=")
        if not sign or not key.strip():
            raise InvalidInputError(f"{name} takes key=value,key=value, not {argument_checks.describe_value(part)}")
        found.append((key.strip(), value.strip()))
    return found
