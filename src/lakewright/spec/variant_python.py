"""VARIANT columns from Python objects, and as Python objects."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa

from lakewright.errors import InvalidInputError
from lakewright.spec.scalars import from_scalar, to_python
from lakewright.spec.types import PRECISION_MAX, AtomicType
from lakewright.spec.variant_encoding import VariantTree, encode_scalars, encode_tree
from lakewright.spec.variant_values import ARRAY, OBJECT, VariantNodes, combine, expand_levels

_INT64 = range(-(2**63), 2**63)
_TYPES: dict[type, pa.DataType] = {
    type(None): pa.null(),
    bool: pa.bool_(),
    float: pa.float64(),
    str: pa.large_string(),
    bytes: pa.large_binary(),
    bytearray: pa.large_binary(),
    date: pa.date32(),
    uuid.UUID: pa.binary(16),
}


def encode_python(values: Sequence[object]) -> pa.StructArray:
    """Return Python objects as a VARIANT column; None is the null of VARIANT.

    >>> encode_python([[1, "a"]])[0].as_py()["value"].hex()
    '03020002040c010561'
    """
    flat = _FlatValues()
    for row, value in enumerate(values):
        try:
            flat.add(value, depth=0, parent=-1, key=-1)
        except (InvalidInputError, RecursionError) as error:
            reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
            raise InvalidInputError(f"row {row} cannot become a variant: {reason}", row=row) from error
    return encode_tree(flat.tree())


def decode_python(nodes: VariantNodes) -> list[object]:
    """Return values as Python objects: dict, list, str, bytes, int, float, Decimal, date, datetime, UUID and None."""
    members = expand_levels(nodes)
    names = nodes.keys.names.to_pylist()
    inner: list[object] = []
    levels = [nodes, *(part.nodes for part in members)]
    for level, (_, counts, _, keys, _) in reversed(list(zip(levels, members, strict=False))):
        found: list[object] = [None] * len(level)
        for places, values in level.scalar_arrays():
            for place, value in zip(places.tolist(), _objects(values), strict=True):
                found[place] = value
        texts = [names[key] if key >= 0 else None for key in keys.tolist()]
        ends = np.cumsum(counts).tolist()
        for place in np.flatnonzero(level.kinds >= OBJECT).tolist():
            own = slice(ends[place] - int(counts[place]), ends[place])
            is_object = level.kinds[place] == OBJECT
            found[place] = dict(zip(texts[own], inner[own], strict=True)) if is_object else inner[own]
        inner = found
    return inner


class _FlatValues:
    """The parts of values, one after the other as they appear."""

    def __init__(self) -> None:
        self._depths: list[int] = []
        self._parents: list[int] = []
        self._kinds: list[int] = []
        self._keys: list[int] = []
        self._numbers: dict[str, int] = {}  # of the keys
        self._scalars: defaultdict[pa.DataType, tuple[list[int], list[object]]] = defaultdict(lambda: ([], []))

    def add(self, value: object, *, depth: int, parent: int, key: int) -> None:
        """Add a value and its parts."""
        place = len(self._depths)
        self._depths.append(depth)
        self._parents.append(parent)
        self._keys.append(key)
        self._kinds.append(OBJECT if isinstance(value, dict) else ARRAY if isinstance(value, list | tuple) else 0)
        if isinstance(value, dict):
            for name, part in value.items():
                if not isinstance(name, str):
                    raise InvalidInputError(f"the key {name!r} is not a text")
                number = self._numbers.setdefault(name, len(self._numbers))
                self.add(part, depth=depth + 1, parent=place, key=number)
        elif isinstance(value, list | tuple):
            for part in value:
                self.add(part, depth=depth + 1, parent=place, key=-1)
        else:
            dtype, scalar = _scalar(value)
            places, scalars = self._scalars[dtype]
            places.append(place)
            scalars.append(scalar)

    def tree(self) -> VariantTree:
        """Return the values sorted by depth."""
        depths = np.array(self._depths, np.int64)
        order = np.argsort(depths, kind="stable")
        sorted_places = np.empty(len(order), np.int64)
        sorted_places[order] = np.arange(len(order))
        parents = np.array(self._parents, np.int64)[order]
        parts = [
            (sorted_places[places], encode_scalars(pa.array(values, dtype)))
            for dtype, (places, values) in self._scalars.items()
        ]
        nothing = (np.zeros(0, np.int64), pa.array([], pa.large_binary()))
        return VariantTree(
            depths[order],
            np.where(parents < 0, -1, sorted_places[parents]),
            np.array(self._kinds, np.uint8)[order],
            np.array(self._keys, np.int64)[order],
            order,
            pa.array(list(self._numbers), pa.large_string()),
            combine([nothing, *parts], len(order)),
        )


def _scalar(value: object) -> tuple[pa.DataType, object]:
    """Return the Arrow type in which a scalar is encoded, and the value for it."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, int) and not isinstance(value, bool):
        return (pa.int64(), value) if value in _INT64 else _decimal(Decimal(value))
    if isinstance(value, Decimal):
        return _decimal(value)
    if isinstance(value, datetime):
        return pa.timestamp("us", None if value.tzinfo is None else "UTC"), value
    for kind, dtype in _TYPES.items():
        if isinstance(value, kind):
            return dtype, value.bytes if isinstance(value, uuid.UUID) else value
    raise _refusal(value)


def _decimal(value: Decimal) -> tuple[pa.DataType, Decimal]:
    exponent = value.as_tuple().exponent
    if isinstance(exponent, int) and exponent >= -PRECISION_MAX:
        scale = max(0, -exponent)
        if value.adjusted() + scale < PRECISION_MAX:
            return pa.decimal128(PRECISION_MAX, scale), value
    raise _refusal(value)


def _refusal(value: object) -> InvalidInputError:
    return InvalidInputError(f"{value!r} ({type(value).__name__}) has no counterpart among the values of VARIANT")


def _objects(values: pa.Array) -> list[object]:
    if pa.types.is_fixed_size_binary(values.type):
        return [uuid.UUID(bytes=value) for value in values.to_pylist()]
    try:
        return list(values.to_pylist())
    except (OverflowError, ValueError):  # dates outside of the years 1 to 9999
        zone = "" if pa.types.is_date(values.type) or values.type.tz is None else " WITH LOCAL TIME ZONE"
        dtype = AtomicType("DATE" if pa.types.is_date(values.type) else f"TIMESTAMP(6){zone}")
        return [to_python(from_scalar(value, dtype), dtype) for value in values]
