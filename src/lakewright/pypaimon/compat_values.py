"""Identifier, ranges, timestamps, JSON, row objects."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any, ClassVar, Protocol, Self, TypeVar, cast, runtime_checkable

import pyarrow as pa

from lakewright.errors import InvalidInputError
from lakewright.pypaimon.compat_blobs import Blob, to_stored
from lakewright.spec import identifier as core_identifier
from lakewright.spec.arrow_types import to_arrow_type
from lakewright.spec.binary_row import decode_row, encode_row
from lakewright.spec.identifier import MAIN_BRANCH
from lakewright.spec.scalars import to_python, to_value
from lakewright.spec.types import DataField, blob_fields

# ---- Rows ------------------------------------------------------------------------------------------------------------


class RowKind(Enum):
    """What a row does, as the format numbers it."""

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3

    def to_string(self) -> str:
        """Return the kind as changelogs write it: +I, -U, +U or -D."""
        return ("+I", "-U", "+U", "-D")[self.value]

    def is_add(self) -> bool:
        """Return whether the row is there afterwards."""
        return self in {RowKind.INSERT, RowKind.UPDATE_AFTER}

    @staticmethod
    def from_string(kind_str: str) -> RowKind:
        """Return the kind that a changelog writes so."""
        for kind in RowKind:
            if kind.to_string() == kind_str:
                return kind
        raise InvalidInputError(f"there is no row kind {kind_str!r}; there are +I, -U, +U and -D")


@runtime_checkable
class InternalRow(Protocol):
    """Anything that answers for its values by position."""

    def get_field(self, pos: int) -> object:
        """Return the value at a position."""

    def get_row_kind(self) -> RowKind:
        """Return what the row does."""

    def __len__(self) -> int: ...


class GenericRow:
    """Values in the order of their fields.

    >>> from lakewright.spec.types import AtomicType
    >>> row = GenericRow([7], [DataField(0, "n", AtomicType("INT"))])
    >>> row.get_field(0), row.to_dict(), row.get_row_kind().to_string()
    (7, {'n': 7}, '+I')
    """

    def __init__(
        self, values: Sequence[object], fields: Sequence[DataField] | None = None, row_kind: RowKind = RowKind.INSERT
    ) -> None:
        self.values = list(values)
        self.fields = None if fields is None else list(fields)
        self.row_kind = row_kind

    def get_field(self, pos: int) -> object:
        """Return the value at a position."""
        if not -len(self) <= pos < len(self):
            raise IndexError(f"Position {pos} is out of bounds for row arity {len(self)}")
        return self.values[pos]

    def get_blob(self, pos: int) -> Blob | None:
        """Return the value of a BLOB column at a position."""
        value = self.get_field(pos)
        if value is None or isinstance(value, Blob):
            return value
        raise TypeError(f"Cannot get Blob from {type(value)} at position {pos}")

    def get_row_kind(self) -> RowKind:
        """Return what the row does."""
        return self.row_kind

    def to_dict(self) -> dict[str, object]:
        """Return the values by the names of their fields."""
        return dict(zip((field.name for field in self.fields or ()), self.values, strict=False))

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[object]:
        return iter(self.values)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GenericRow):
            return NotImplemented
        return (self.values, self.row_kind) == (other.values, other.row_kind)

    def __hash__(self) -> int:
        return hash((tuple(map(str, self.values)), self.row_kind))

    def __str__(self) -> str:
        values = "".join(f", {name}={value!r}" for name, value in self.to_dict().items())
        return f"GenericRow(row_kind={self.row_kind.name}{values})"

    def __repr__(self) -> str:
        return f"GenericRow({self.values!r}, {self.row_kind.name})"


class GenericRowSerializer:
    """Rows as the bytes of manifests."""

    @classmethod
    def to_bytes(cls, row: GenericRow) -> bytes:
        """Return a row with fields as bytes."""
        types = [field.type for field in row.fields or ()]
        return encode_row([to_value(value, kind) for value, kind in zip(row.values, types, strict=True)], types)


class GenericRowDeserializer:
    """Rows from the bytes of manifests."""

    @classmethod
    def from_bytes(cls, bytes_data: bytes, data_fields: Sequence[DataField]) -> GenericRow:
        """Read a row whose columns are these fields."""
        types = [field.type for field in data_fields]
        values = zip(decode_row(bytes_data, types), types, strict=True)
        return GenericRow([to_python(value, kind) for value, kind in values], data_fields)


def to_table(rows: Iterable[InternalRow], fields: Sequence[DataField]) -> pa.Table:
    """Return rows as a table of those columns that they have; rows without fields have all columns of the table."""
    named = [_by_name(row, fields) for row in rows]
    if not named:
        raise InvalidInputError("rows must not be empty")
    known = {field.name: field for field in fields}
    names = list(named[0])
    for row in named:
        unknown = [name for name in row if name not in known]
        if unknown:
            raise InvalidInputError(
                f"got row field(s) {unknown} that are not in table schema fields: {', '.join(known)}"
            )
        if list(row) != names:
            raise InvalidInputError(
                f"rows in the same batch must have the same field set, such as {', '.join(names)}, and not {list(row)}"
            )
    blobs = {field.name for field in blob_fields(known[name] for name in names)}
    columns = {name: [to_stored(row[name]) if name in blobs else row[name] for row in named] for name in names}
    return pa.table({name: pa.array(values, to_arrow_type(known[name].type)) for name, values in columns.items()})


def _by_name(row: InternalRow, fields: Sequence[DataField]) -> dict[str, object]:
    if not isinstance(row, InternalRow):
        raise InvalidInputError(f"a row has values by position, such as GenericRow(values, fields), and not {row!r}")
    own = cast("Sequence[DataField] | None", getattr(row, "fields", None))
    if own is None and len(row) != len(fields):
        raise InvalidInputError(
            f"a row without fields must have the same arity as the table: {len(fields)} values, not {len(row)}"
        )
    return {field.name: row.get_field(at) for at, field in enumerate(own or fields)}


# ---- Identifiers -----------------------------------------------------------------------------------------------------
# Invariant: equal to lakewright's identifier of the same table; the branch `main` equals none.

SYSTEM_TABLE_SPLITTER = "$"
SYSTEM_BRANCH_PREFIX = "branch_"
DEFAULT_MAIN_BRANCH = MAIN_BRANCH
UNKNOWN_DATABASE = "unknown"
_PARTS_MAX = 3  # table$branch_b$snapshots


class Identifier(core_identifier.Identifier):
    """The name of a table, of a branch of it, or of one of its system tables.

    >>> Identifier("sales", "orders", branch="dev")
    Identifier(database='sales', object='orders$branch_dev')
    """

    def __init__(
        self,
        database: str,
        object: str | None = None,  # noqa: A002 - pypaimon's name
        branch: str | None = None,
        system_table: str | None = None,
    ) -> None:
        self.database = database  # type: ignore[misc]
        self.object = object
        self._parts: tuple[str, str | None, str | None] | None = None
        if branch is not None or system_table is not None:
            self._encode(object or "", branch, system_table)

    def _encode(self, table: str, branch: str | None, system_table: str | None) -> None:
        named = branch is not None and branch.lower() != DEFAULT_MAIN_BRANCH
        self.object = table + (f"${SYSTEM_BRANCH_PREFIX}{branch}" if named else "")
        self.object += f"${system_table}" if system_table is not None else ""
        self._parts = table, branch, system_table

    def __setattr__(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    @classmethod
    def from_string(cls, full_name: object) -> Identifier:
        """Read a name; the first dot outside back-quotes ends the database."""
        if not isinstance(full_name, str) or not full_name.strip():
            raise InvalidInputError("fullName cannot be null or empty: a table is named database.table")
        if full_name.count("`") % 2:
            raise InvalidInputError(f"Unclosed backtick in identifier: {full_name}")
        if "`" in full_name:
            if "." not in full_name:
                raise InvalidInputError(f"Invalid identifier format: {full_name}: a table is named database.table")
            parsed = core_identifier.Identifier.from_string(full_name)
            return cls(parsed.database, parsed.get_object_name())
        database, dot, name = full_name.partition(".")
        if not dot:
            raise InvalidInputError(
                f"Cannot get splits from '{full_name}' to get database and object: a table is named database.table"
            )
        return cls(database, name)

    @classmethod
    def of(cls, given: object) -> Identifier:
        """Return a name, which may be text or lakewright's identifier."""
        if isinstance(given, cls):
            return given
        return (
            cls(given.database, given.get_object_name())
            if isinstance(given, core_identifier.Identifier)
            else cls.from_string(given)
        )

    def _split(self) -> tuple[str, str | None, str | None]:
        if self._parts is None:
            parts = self.get_object_name().split("$")
            if len(parts) > _PARTS_MAX:
                raise InvalidInputError(
                    f"Invalid object name: {self.object}: it is a table, $branch_<name> and $<name>"
                )
            if len(parts) == _PARTS_MAX and not parts[1].startswith(SYSTEM_BRANCH_PREFIX):
                raise InvalidInputError(f"System table can only contain one '$' separator, but this is: {self.object}")
            parsed = core_identifier.Identifier(self.database, self.object)
            self._parts = parsed.table, parsed.branch, parsed.system_table
        return self._parts

    @property
    def table(self) -> str:
        """The table itself."""
        return self._split()[0]

    @property
    def branch(self) -> str | None:
        """The branch; it can be set."""
        return self._split()[1]

    @branch.setter
    def branch(self, value: str | None) -> None:
        table, _, system_table = self._split()
        self._encode(table, value, system_table)

    @property
    def system_table(self) -> str | None:
        """The system table, None for the table itself."""
        return self._split()[2]

    def get_object_name(self) -> str:
        """Return the table with its branch and system table."""
        return self.object or ""

    def get_full_name(self) -> str:
        """Return the whole name; the database `unknown` is left out."""
        return self.get_object_name() if self.database == UNKNOWN_DATABASE else f"{self.database}.{self.object}"

    def to_dict(self) -> dict[str, str | None]:
        """Return the name as JSON."""
        return {"database": self.database, "object": self.object}

    @classmethod
    def from_dict(cls, data: dict[str, str]) -> Identifier:
        """Read a name from JSON."""
        return cls(data["database"], data["object"])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, core_identifier.Identifier):
            return NotImplemented
        return (self.database, self.get_object_name()) == (other.database, other.get_object_name())

    def __hash__(self) -> int:
        table, branch, system_table = self._split()
        return hash((self.database, table, None if (branch or "").lower() == MAIN_BRANCH else branch, system_table))

    def __repr__(self) -> str:
        return f"Identifier(database={self.database!r}, object={self.object!r})"

    __str__ = __repr__

    def __reduce__(self) -> tuple[object, ...]:
        return Identifier, (self.database, self.object)


# ---- JSON ------------------------------------------------------------------------------------------------------------

T = TypeVar("T", bound="Readable")


class Readable(Protocol):
    """A class whose values are read from the members of a JSON object."""

    @classmethod
    def from_dict(cls, data: Any, /) -> Self:  # noqa: ANN401 - any JSON
        """Return the value that the members describe."""


class JSON:
    """Turns values into JSON text and back."""

    @staticmethod
    def to_json(obj: object, **kwargs: Any) -> str:  # noqa: ANN401 - the arguments of json.dumps
        """Return a value, or a list of values, as JSON text; more arguments are those of `json.dumps`."""
        return json.dumps(obj, default=lambda value: value.to_dict(), ensure_ascii=False, **kwargs)

    @staticmethod
    def from_json(json_str: str, target_class: type[T]) -> T:
        """Read a value of a class from JSON text."""
        return target_class.from_dict(json.loads(json_str))


# ---- Ranges of row ids -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, order=True, repr=False)
class Range:
    """Row ids from one to another, both included.

    >>> Range(0, 9).exclude([Range(2, 3)]), Range.to_ranges([5, 1, 2]), Range.and_([Range(0, 5)], [Range(4, 9)])
    ([Range(0, 1), Range(4, 9)], [Range(1, 2), Range(5, 5)], [Range(4, 5)])
    """

    from_: int
    to: int

    def __post_init__(self) -> None:
        if self.from_ > self.to:
            raise InvalidInputError(f"Invalid range: from ({self.from_}) > to ({self.to})")

    def __repr__(self) -> str:
        return f"Range({self.from_}, {self.to})"

    def contains(self, value: int) -> bool:
        """Return whether an id is in the range."""
        return self.from_ <= value <= self.to

    def count(self) -> int:
        """Return how many ids the range has."""
        return self.to - self.from_ + 1

    def overlaps(self, other: Range) -> bool:
        """Return whether two ranges have an id in common."""
        return Range.intersect(self.from_, self.to, other.from_, other.to)

    def exclude(self, ranges: Iterable[Range]) -> list[Range]:
        """Return what remains of the range without others."""
        left, start = [], self.from_
        for one in sorted(ranges):
            if start < one.from_ and start <= self.to:
                left.append(Range(start, min(one.from_ - 1, self.to)))
            start = max(start, one.to + 1)
        return [*left, Range(start, self.to)] if start <= self.to else left

    @staticmethod
    def intersect(start1: int, end1: int, start2: int, end2: int) -> bool:
        """Return whether two ranges, given by their ends, have an id in common."""
        return start1 <= end2 and start2 <= end1

    @staticmethod
    def to_ranges(values: Iterable[int]) -> list[Range]:
        """Return ids as ranges of neighbours."""
        made: list[Range] = []
        for value in sorted(values):
            if made and value == made[-1].to + 1:
                made[-1] = Range(made[-1].from_, value)
            else:
                made.append(Range(value, value))
        return made

    @staticmethod
    def and_(ranges1: Iterable[Range], ranges2: Iterable[Range]) -> list[Range]:
        """Return what two lists of ranges have in common."""
        common, left, right = [], sorted(ranges1), sorted(ranges2)
        at = other = 0
        while at < len(left) and other < len(right):
            one, two = left[at], right[other]
            if one.overlaps(two):
                common.append(Range(max(one.from_, two.from_), min(one.to, two.to)))
            at += one.to <= two.to
            other += two.to <= one.to
        return common

    @staticmethod
    def sort_and_merge_overlap(
        ranges: Sequence[Range],
        merge: bool = True,  # noqa: FBT001, FBT002 - pypaimon's signature
        adjacent: bool = True,  # noqa: FBT001, FBT002 - pypaimon's signature
    ) -> list[Range]:
        """Return ranges in order; with `merge` those that overlap as one, with `adjacent` neighbours too."""
        merged: list[Range] = []
        for one in sorted(ranges):
            if merge and merged and one.from_ <= merged[-1].to + adjacent:
                merged[-1] = Range(merged[-1].from_, max(merged[-1].to, one.to))
            else:
                merged.append(one)
        return merged

    @staticmethod
    def merge_sorted_as_possible(ranges: Sequence[Range]) -> list[Range]:
        """Return ranges in order, those that overlap or are neighbours as one."""
        return Range.sort_and_merge_overlap(ranges)


# ---- Times and durations ---------------------------------------------------------------------------------------------

_EPOCH = datetime.fromtimestamp(0, UTC).replace(tzinfo=None)
_DATE_AND_MINUTES = 5  # the parts of a JSON array that are always written
_PARTS = 7


@dataclass(frozen=True, order=True, slots=True)
class Timestamp:
    """A time of a wall clock, without a zone: milliseconds since 1970, and nanoseconds within the last of them.

    >>> Timestamp(86_400_000).to_local_date_time(), Timestamp.from_micros(1_001)
    (datetime.datetime(1970, 1, 2, 0, 0), Timestamp(millisecond=1, nano_of_millisecond=1000))
    """

    MILLIS_PER_DAY: ClassVar[int] = 86_400_000
    MICROS_PER_MILLIS: ClassVar[int] = 1_000
    NANOS_PER_MICROS: ClassVar[int] = 1_000
    NANOS_PER_HOUR: ClassVar[int] = 3_600_000_000_000
    NANOS_PER_MINUTE: ClassVar[int] = 60_000_000_000
    NANOS_PER_SECOND: ClassVar[int] = 1_000_000_000
    NANOS_PER_MICROSECOND: ClassVar[int] = 1_000

    millisecond: int
    nano_of_millisecond: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.nano_of_millisecond < self.MICROS_PER_MILLIS * self.NANOS_PER_MICROS:
            raise InvalidInputError(
                f"nano_of_millisecond must be between 0 and 999,999, got {self.nano_of_millisecond}"
            )

    def __str__(self) -> str:
        return self.to_local_date_time().strftime("%Y-%m-%d %H:%M:%S.%f")

    @staticmethod
    def now() -> Timestamp:
        """Return the time of the local clock."""
        return Timestamp.from_local_date_time(datetime.now())  # noqa: DTZ005 - a wall clock has no zone

    @staticmethod
    def from_epoch_millis(milliseconds: int, nanos_of_millisecond: int = 0) -> Timestamp:
        """Make one of milliseconds since 1970."""
        return Timestamp(milliseconds, nanos_of_millisecond)

    @staticmethod
    def from_local_date_time(date_time: datetime) -> Timestamp:
        """Make one of a datetime without a zone."""
        if date_time.tzinfo is not None:
            raise InvalidInputError("datetime must be naive (no timezone)")
        return Timestamp.from_micros((date_time - _EPOCH) // timedelta(microseconds=1))

    @staticmethod
    def from_micros(micros: int) -> Timestamp:
        """Make one of microseconds since 1970."""
        millis, rest = divmod(micros, Timestamp.MICROS_PER_MILLIS)
        return Timestamp(millis, rest * Timestamp.NANOS_PER_MICROS)

    def get_millisecond(self) -> int:
        """Return the milliseconds since 1970."""
        return self.millisecond

    def get_nano_of_millisecond(self) -> int:
        """Return the nanoseconds within the millisecond."""
        return self.nano_of_millisecond

    def to_micros(self) -> int:
        """Return the microseconds since 1970."""
        return self.millisecond * self.MICROS_PER_MILLIS + self.nano_of_millisecond // self.NANOS_PER_MICROS

    def to_millis_timestamp(self) -> Timestamp:
        """Return the same time in whole milliseconds."""
        return Timestamp(self.millisecond)

    def to_local_date_time(self) -> datetime:
        """Return the time as a datetime without a zone."""
        return _EPOCH + timedelta(microseconds=self.to_micros())


def local_datetime_to_json_array(dt: datetime) -> list[int]:
    """Return year, month, day, hour, minute, second and nanosecond; the last two only if they are not zero.

    >>> local_datetime_to_json_array(datetime(2024, 1, 2, 3, 4))
    [2024, 1, 2, 3, 4]
    """
    parts = [dt.year, dt.month, dt.day, dt.hour, dt.minute, dt.second, dt.microsecond * Timestamp.NANOS_PER_MICROS]
    while len(parts) > _DATE_AND_MINUTES and not parts[-1]:
        parts.pop()
    return parts


def json_array_to_local_datetime(arr: Sequence[int]) -> datetime:
    """Read what `local_datetime_to_json_array` returns; parts that are left out are zero."""
    year, month, day, hour, minute, second, nanos = [*arr, *[0] * (_PARTS - len(arr))][:_PARTS]
    micros = nanos // Timestamp.NANOS_PER_MICROS
    return datetime(year, month, day, hour, minute, second, micros)  # noqa: DTZ001 - a wall clock has no zone


def duration_to_json_seconds(td: timedelta) -> float:
    """Return a duration in seconds."""
    return td.total_seconds()


def json_seconds_to_duration(seconds: float) -> timedelta:
    """Return so many seconds."""
    return timedelta(seconds=seconds)


def local_datetime_to_millis(dt: datetime) -> int:
    """Return the milliseconds from 1970 to a time of the same wall clock."""
    return (dt - _EPOCH) // timedelta(milliseconds=1)


def local_datetime_to_system_zone_millis(dt: datetime) -> int:
    """Return the epoch milliseconds of a time of the local zone."""
    return int(dt.replace(microsecond=0).timestamp()) * 1000 + dt.microsecond // 1000
