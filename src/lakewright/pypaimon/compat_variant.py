"""pypaimon's names for values of VARIANT: `GenericVariant`, `variant_get` and `variant_to_pylist`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from lakewright import variant
from lakewright.errors import InvalidInputError
from lakewright.spec.variant_encoding import VARIANT_TYPE
from lakewright.spec.variant_paths import find_values, parse_path, variants_of
from lakewright.spec.variant_python import decode_python
from lakewright.spec.variant_values import OBJECT, VariantNodes, combine, decode_variants


@dataclass(frozen=True, slots=True, repr=False)
class GenericVariant:
    """One value of VARIANT: its bytes, and those of the keys in it.

    >>> GenericVariant.from_python({"a": [1, None]}).to_python()
    {'a': [1, None]}
    """

    _value: bytes
    _metadata: bytes

    def __repr__(self) -> str:
        return f"GenericVariant({self.to_python()!r})"

    def __str__(self) -> str:
        return str(self.to_python())

    @classmethod
    def from_python(cls, obj: object) -> GenericVariant:
        """Return a Python object as a value; None is the null of VARIANT."""
        cell = variant.from_python([[obj]])
        _, nodes = decode_variants(cell)
        _, inner = find_values(nodes, (0,))
        return cls.from_arrow_struct(variants_of(inner)[0].as_py())

    @classmethod
    def from_arrow_struct(cls, d: Mapping[str, bytes]) -> GenericVariant:
        """Return the value of a struct of value and metadata."""
        return cls(d["value"], d["metadata"])

    @staticmethod
    def to_arrow_array(variants: Iterable[GenericVariant | None]) -> pa.StructArray:
        """Return values as an Arrow column; None is a null."""
        cells = [None if one is None else {"value": one.value(), "metadata": one.metadata()} for one in variants]
        return pa.array(cells, VARIANT_TYPE)

    def value(self) -> bytes:
        """Return the bytes of the value."""
        return self._value

    def metadata(self) -> bytes:
        """Return the bytes of the keys."""
        return self._metadata

    def to_python(self) -> object:
        """Return the value as a Python object."""
        return variant.to_python(self.to_arrow_array([self]))[0]


def variant_get(
    column: Any,  # noqa: ANN401 - an Arrow column
    path: str | Mapping[str, pa.DataType],
    data_type: pa.DataType | None = None,
) -> Any:  # noqa: ANN401 - an Arrow column, or several by their paths
    """Return what is at a path of a VARIANT column, or at several: a dict from paths to types gives one of columns.

    Nothing is cast: integers become integers of any width, other values have the type that is asked for.

    >>> variant_get(variant.from_json(['{"a": 1}', "{}"]), "$.a", pa.int64()).to_pylist()
    [1, None]
    """
    if isinstance(path, Mapping):
        return {one: variant_get(column, one, kind) for one, kind in path.items()}
    if not isinstance(data_type, pa.DataType):
        raise InvalidInputError("variant_get takes the Arrow type of the result: pa.int64()", argument="data_type")
    rows, nodes = decode_variants(_as_column(column))
    found, inner = find_values(nodes, parse_path(path))
    return combine([(rows[found], _cast_nodes(inner, data_type, path))], len(column))


def variant_to_pylist(column: Any, fields: Sequence[str]) -> list[dict[str, object] | None]:  # noqa: ANN401 - as above
    """Return some fields of the objects in a VARIANT column as dicts; a field that is missing is left out.

    >>> variant_to_pylist(variant.from_json(['{"a": 1, "b": 2}', None]), ["a", "c"])
    [{'a': 1}, None]
    """
    rows, nodes = decode_variants(_as_column(column))
    if np.any(nodes.kinds != OBJECT):
        raise InvalidInputError("variant_to_pylist takes a column of objects, and a value is none: filter it first")
    objects: list[dict[str, object]] = [{} for _ in range(len(nodes))]
    for name in fields:
        found, inner = find_values(nodes, (name,))
        for place, value in zip(found.tolist(), decode_python(inner), strict=True):
            objects[place][name] = value
    result: list[dict[str, object] | None] = [None] * len(column)
    for row, one in zip(rows.tolist(), objects, strict=True):
        result[row] = one
    return result


def _as_column(column: Any) -> pa.StructArray:  # noqa: ANN401 - as above
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if not pa.types.is_struct(array.type) or {field.name for field in array.type} != {"value", "metadata"}:
        msg = f"a VARIANT column is a struct of value and metadata, not {array.type}"
        raise InvalidInputError(msg, argument="column")
    return array


def _cast_nodes(nodes: VariantNodes, data_type: pa.DataType, path: str) -> pa.Array:
    parts = [(np.zeros(0, np.int64), pa.array([], data_type))]
    if np.any(nodes.kinds >= OBJECT):
        raise _other_type(path, data_type)
    for places, values in nodes.scalar_arrays():
        if pa.types.is_null(values.type):
            continue
        if not _is_kind(values.type, data_type):
            raise _other_type(path, data_type)
        parts.append((places, values.cast(data_type)))
    return combine(parts, len(nodes))


def _is_kind(found: pa.DataType, asked: pa.DataType) -> bool:
    kinds = pa.types
    if kinds.is_decimal(asked):
        return bool(kinds.is_decimal(found) and found.scale == asked.scale)
    pairs = (
        (kinds.is_integer, kinds.is_integer),
        (kinds.is_large_string, lambda kind: kinds.is_string(kind) or kinds.is_large_string(kind)),
        (kinds.is_large_binary, lambda kind: kinds.is_binary(kind) or kinds.is_large_binary(kind)),
    )
    return found == asked or any(has(found) and wants(asked) for has, wants in pairs)


def _other_type(path: str, data_type: pa.DataType) -> InvalidInputError:
    return InvalidInputError(
        f"a value at {path} is not {data_type}, and variant_get casts nothing: ask for its own type, or use "
        "variant_get of SQL",
        argument="data_type",
    )
