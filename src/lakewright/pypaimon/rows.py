"""pypaimon's row objects: values in column order, which the changes of single rows take."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import Protocol, cast, runtime_checkable

import pyarrow as pa

from lakewright.errors import InvalidInputError
from lakewright.spec.arrow import to_arrow_type
from lakewright.spec.rows.binary_row import decode_row, encode_row
from lakewright.spec.types import DataField
from lakewright.spec.values import to_python, to_value


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
        """Say whether the row is there afterwards."""
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
    return pa.table({name: pa.array([row[name] for row in named], to_arrow_type(known[name].type)) for name in names})


def _by_name(row: InternalRow, fields: Sequence[DataField]) -> dict[str, object]:
    if not isinstance(row, InternalRow):
        raise InvalidInputError(f"a row has values by position, such as GenericRow(values, fields), and not {row!r}")
    own = cast("Sequence[DataField] | None", getattr(row, "fields", None))
    if own is None and len(row) != len(fields):
        raise InvalidInputError(
            f"a row without fields must have the same arity as the table: {len(fields)} values, not {len(row)}"
        )
    return {field.name: row.get_field(at) for at, field in enumerate(own or fields)}
