"""The binary form of VARIANT, decoded for many values at once.

A value is a node: the place of its first byte in a buffer that holds the values of all rows, and the dictionary of keys
of its row. Nodes are decoded level by level, with numpy over all nodes of a level: `VariantNodes.kinds` says what they
are, `expand` returns the members of objects and the elements of arrays as the nodes of the next level, and
`scalar_arrays` returns scalars as Arrow arrays, one for each kind. The encoding is version 1 of Parquet's
VariantEncoding. Bytes that do not follow it are a `CorruptTableError`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakewright.errors import CorruptTableError, UnsupportedError
from lakewright.spec.types import PRECISION_MAX

Ints: TypeAlias = npt.NDArray[np.int64]
Bytes: TypeAlias = npt.NDArray[np.uint8]
Mask: TypeAlias = npt.NDArray[np.bool_]

# Kinds of nodes: the numbers of the primitive types of the encoding, and two more for what has parts.
NULL, TRUE, FALSE, INT8, INT16, INT32, INT64, DOUBLE, DECIMAL4, DECIMAL8, DECIMAL16, DATE, TIMESTAMP = range(13)
TIMESTAMP_NTZ, FLOAT, BINARY, STRING, UUID, OBJECT, ARRAY = 13, 14, 15, 16, 20, 32, 33
SHORT_STRING_MAX = 63
VERSION = 1
_SHORT_STRING, _OBJECT = 1, 2  # basic types, the low two bits of the first byte; primitives are 0, arrays 3
# The bytes of a primitive with its header; 5 for those that give their length, 0 for types that are not known.
_SIZES = np.array([1, 1, 1, 2, 3, 5, 9, 9, 6, 10, 18, 5, 9, 9, 5, 5, 5, 0, 0, 0, 17, *[0] * 43], np.int64)
_INTEGERS = {INT8: "<i1", INT16: "<i2", INT32: "<i4", INT64: "<i8"}
_FIXED = {
    DOUBLE: pa.float64(),
    FLOAT: pa.float32(),
    DATE: pa.date32(),
    TIMESTAMP: pa.timestamp("us", "UTC"),
    TIMESTAMP_NTZ: pa.timestamp("us"),
    UUID: pa.binary(16),
}


@dataclass(frozen=True, eq=False)
class KeyDictionaries:
    """The keys of dictionaries: those of dictionary `n` are `counts[n]` names from `first[n]` on."""

    names: pa.LargeStringArray
    first: Ints
    counts: Ints
    encoded: pa.LargeBinaryArray  # the dictionaries themselves


@dataclass(frozen=True, eq=False)
class VariantNodes:
    """Values in a buffer, in any order; each ends before `limits`."""

    data: Bytes
    starts: Ints
    limits: Ints
    dictionaries: Ints  # which of `keys` the values use
    keys: KeyDictionaries

    def __len__(self) -> int:
        """Return the number of values."""
        return len(self.starts)

    def take(self, chosen: Ints | Mask) -> VariantNodes:
        """Return some of the values."""
        parts = (self.starts[chosen], self.limits[chosen], self.dictionaries[chosen])
        return VariantNodes(self.data, *parts, self.keys)

    @cached_property
    def kinds(self) -> Bytes:
        """What the values are: NULL, TRUE, ..., STRING, UUID, OBJECT or ARRAY."""
        if np.any(self.starts >= self.limits):
            raise _corrupt("a value begins behind its end")
        headers = self.data[self.starts]
        basic = headers & 3
        kinds = np.where(basic == 0, headers >> 2, np.where(basic == _SHORT_STRING, STRING, OBJECT + basic - _OBJECT))
        if np.any(unknown := (basic == 0) & (_SIZES[headers >> 2] == 0)):
            raise UnsupportedError(
                f"a variant has a value of the type {int((headers >> 2)[unknown][0])} of the Parquet encoding, which "
                "this version cannot read; select other columns"
            )
        return kinds.astype(np.uint8)

    @cached_property
    def _contents(self) -> tuple[Ints, Ints]:
        """Where the bytes behind the header of each scalar start, and how many they are."""
        headers = self.data[self.starts]
        short = headers & 3 == _SHORT_STRING
        sizes = np.where(short, 1, _SIZES[headers >> 2])
        variable = ~short & np.isin(self.kinds, (BINARY, STRING))
        lengths = np.where(short, headers >> 2, np.where(variable, 0, sizes - 1))
        self._check_inside(self.starts + sizes)
        lengths[variable] = read_unsigned(self.data, self.starts[variable] + 1, 4)
        begins = self.starts + np.where(variable, sizes, 1)
        self._check_inside(begins + lengths)
        return begins, lengths

    @cached_property
    def encoded(self) -> pa.LargeBinaryArray:
        """The bytes of each value."""
        ends = np.zeros(len(self), np.int64)
        nested = self.kinds >= OBJECT
        ends[nested] = _layout_of(self.take(nested)).ends
        scalars = self.take(~nested)
        begins, lengths = scalars._contents  # noqa: SLF001 - of another value of this class
        ends[~nested] = begins + lengths
        return gather(self.data, self.starts, ends - self.starts)

    def _check_inside(self, ends: Ints) -> None:
        if np.any(ends > self.limits):
            raise _corrupt("a value ends behind the bytes of its row")

    def scalar_arrays(self) -> Iterator[tuple[Ints, pa.Array]]:
        """Yield scalars by kind: which values they are, and an Arrow array of them; decimals of one scale together.

        The types are null, bool, int64, double, float, decimal128(38, scale), date32, timestamp (us, with and without
        the zone UTC), large_binary, large_string and binary(16) for UUIDs.
        """
        kinds = self.kinds
        for kind in np.unique(kinds[kinds < OBJECT]).tolist():
            places = np.flatnonzero(kinds == kind)
            scalars = self.take(places)
            begins, lengths = scalars._contents  # noqa: SLF001
            if kind == NULL:
                yield places, pa.nulls(len(places))
            elif kind in {TRUE, FALSE}:
                yield places, pa.array(np.full(len(places), kind == TRUE))
            elif kind in _INTEGERS:
                numbers = _fixed_width(self.data, begins, int(_SIZES[kind]) - 1).view(_INTEGERS[kind])[:, 0]
                yield places, pa.array(numbers.astype(np.int64))
            elif kind in _FIXED:
                values = np.ascontiguousarray(_fixed_width(self.data, begins, int(_SIZES[kind]) - 1))
                yield places, pa.Array.from_buffers(_FIXED[kind], len(places), [None, pa.py_buffer(values)])
            elif kind in {BINARY, STRING}:
                content = gather(self.data, begins, lengths)
                yield places, as_text(content) if kind == STRING else content
            else:
                yield from _decimals(self.data, places, begins, int(_SIZES[kind]) - 2)


class VariantMembers(NamedTuple):
    """The members of objects and the elements of arrays, those of one value together and in their stored order."""

    nodes: VariantNodes
    counts: Ints  # how many each value has, 0 for scalars
    owners: Ints  # which value each belongs to
    names: Ints  # the index of each member's key in `KeyDictionaries.names`, -1 for elements
    ids: Ints  # of the members' keys in their dictionaries, 0 for elements


def expand(nodes: VariantNodes) -> VariantMembers:
    """Return the parts of objects and arrays; the members of an object are sorted by their keys."""
    nested = np.flatnonzero(nodes.kinds >= OBJECT)
    layout = _layout_of(nodes.take(nested))
    counts = np.zeros(len(nodes), np.int64)
    counts[nested] = layout.counts
    owners = np.repeat(np.arange(len(nested)), layout.counts)
    places = np.arange(len(owners)) - np.repeat(np.cumsum(layout.counts) - layout.counts, layout.counts)
    widths, id_widths = layout.offset_widths[owners], layout.id_widths[owners]
    starts = layout.data_starts[owners]
    starts = starts + read_unsigned(nodes.data, layout.offset_starts[owners] + places * widths, widths)
    ids = read_unsigned(nodes.data, layout.id_starts[owners] + places * id_widths, id_widths)
    outer = nested[owners]
    dictionaries = nodes.dictionaries[outer]
    is_member = nodes.kinds[outer] == OBJECT
    if np.any(is_member & (ids >= nodes.keys.counts[dictionaries])):
        raise _corrupt("an object has a key that its dictionary lacks")
    if len(owners) > len(nodes.data):  # values that share bytes would multiply from level to level
        raise _corrupt("the values inside of it overlap")
    parts = VariantNodes(nodes.data, starts, layout.ends[owners], dictionaries, nodes.keys)
    return VariantMembers(parts, counts, outer, np.where(is_member, nodes.keys.first[dictionaries] + ids, -1), ids)


def expand_levels(nodes: VariantNodes) -> list[VariantMembers]:
    """Return the parts of values, the parts of those, and so on; the last level is empty.

    The counts of a level are those of the nodes one level above it.
    """
    levels = [expand(nodes)]
    while len(levels[-1].nodes):
        levels.append(expand(levels[-1].nodes))
    return levels


def decode_variants(column: pa.StructArray) -> tuple[Ints, VariantNodes]:
    """Return which rows of a column are not null, and their values."""
    rows = np.flatnonzero(np.asarray(column.is_valid()))
    values, metadata = (column.field(name).cast(pa.large_binary()) for name in ("value", "metadata"))
    if len(rows) < len(column):
        values, metadata = values.take(pa.array(rows)), metadata.take(pa.array(rows))
    return rows, nodes_of(values, *decode_keys(metadata))


def nodes_of(values: pa.LargeBinaryArray, dictionaries: Ints, keys: KeyDictionaries) -> VariantNodes:
    """Return values as nodes; a null is an error of its file."""
    if values.null_count:
        raise _corrupt("its value is missing")
    offsets, data = binary_parts(values)
    return VariantNodes(data, offsets[:-1], offsets[1:], dictionaries, keys)


def decode_keys(metadata: pa.LargeBinaryArray) -> tuple[Ints, KeyDictionaries]:
    """Return which dictionary each metadata has, and the distinct dictionaries."""
    if metadata.null_count:
        raise _corrupt("its metadata is missing")
    encoded = metadata.dictionary_encode()
    offsets, data = binary_parts(encoded.dictionary)
    starts, limits = offsets[:-1], offsets[1:]
    if np.any(starts >= limits) or np.any(data[starts] & 15 != VERSION):
        raise _corrupt("its metadata is not of version 1")
    widths = (data[starts] >> 6).astype(np.int64) + 1
    if np.any(starts + 1 + widths > limits):
        raise _corrupt("its metadata is cut off")
    counts = read_unsigned(data, starts + 1, widths)
    texts = starts + 1 + widths * (counts + 2)
    if np.any(texts > limits):
        raise _corrupt("its metadata is cut off")
    owners = np.repeat(np.arange(len(starts)), counts)
    first = np.cumsum(counts) - counts
    places = starts[owners] + 1 + widths[owners] * (np.arange(len(owners)) - first[owners] + 1)
    begins = read_unsigned(data, places, widths[owners])
    lengths = read_unsigned(data, places + widths[owners], widths[owners]) - begins
    begins = texts[owners] + begins
    if np.any(lengths < 0) or np.any(begins + lengths > limits[owners]):
        raise _corrupt("its metadata has keys outside of it")
    names = as_text(gather(data, begins, lengths))
    return encoded.indices.to_numpy().astype(np.int64), KeyDictionaries(names, first, counts, encoded.dictionary)


# ---- bytes -----------------------------------------------------------------------------------------------------------


def read_unsigned(data: Bytes, places: Ints, widths: Ints | int) -> Ints:
    """Return the little-endian integers of some widths, 0 to 4 bytes, at some places."""
    out = np.zeros(len(places), np.int64)
    for byte in range(int(np.max(widths, initial=0))):
        wide = widths > byte
        if np.all(wide):
            out |= data[places + byte].astype(np.int64) << 8 * byte
        else:
            out[wide] |= data[places[wide] + byte].astype(np.int64) << 8 * byte
    return out


def binary_parts(array: pa.LargeBinaryArray) -> tuple[Ints, Bytes]:
    """Return the offsets of an array and the bytes that they point into."""
    if not len(array):
        return np.zeros(1, np.int64), np.zeros(0, np.uint8)
    _, offsets, data = array.buffers()
    ends = np.frombuffer(offsets, np.int64, len(array) + 1, 8 * array.offset)
    return ends, np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)


def binary_array(offsets: Ints, data: Bytes | pa.Buffer) -> pa.LargeBinaryArray:
    """Return the array of the bytes between offsets."""
    buffers = [None, pa.py_buffer(np.ascontiguousarray(offsets)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)


def gather(data: Bytes, starts: Ints, lengths: Ints) -> pa.LargeBinaryArray:
    """Return stretches of a buffer as an array."""
    offsets = np.zeros(len(starts) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return binary_array(offsets, data[np.repeat(starts - offsets[:-1], lengths) + np.arange(offsets[-1])])


def as_text(array: pa.LargeBinaryArray) -> pa.LargeStringArray:
    """Return bytes as text."""
    try:
        return array.cast(pa.large_string())
    except pa.ArrowInvalid as error:
        raise _corrupt("it has text that is not UTF-8") from error


def combine(parts: Sequence[tuple[Ints, pa.Array]], count: int) -> pa.Array:
    """Return one array of parts of one type, each with the places that its values get; other places are null."""
    order = np.full(count, -1, np.int64)
    position = 0
    for places, values in parts:
        order[places] = np.arange(position, position + len(values))
        position += len(values)
    whole = pa.concat_arrays([values for _, values in parts])
    return whole.take(pa.array(order, mask=order < 0))


class _Layout(NamedTuple):
    """Where objects and arrays hold what."""

    counts: Ints
    id_widths: Ints
    offset_widths: Ints
    id_starts: Ints
    offset_starts: Ints
    data_starts: Ints
    ends: Ints


def _layout_of(nodes: VariantNodes) -> _Layout:
    info = nodes.data[nodes.starts] >> 2
    is_object = nodes.kinds == OBJECT
    offset_widths = (info & 3).astype(np.int64) + 1
    id_widths = np.where(is_object, (info >> 2 & 3).astype(np.int64) + 1, 0)
    count_widths = np.where(np.where(is_object, info >> 4, info >> 2) & 1, 4, 1)
    id_starts = nodes.starts + 1 + count_widths
    _check_inside(id_starts, nodes.limits)
    counts = read_unsigned(nodes.data, nodes.starts + 1, count_widths)
    offset_starts = id_starts + counts * id_widths
    data_starts = offset_starts + (counts + 1) * offset_widths
    _check_inside(data_starts, nodes.limits)
    ends = data_starts + read_unsigned(nodes.data, offset_starts + counts * offset_widths, offset_widths)
    _check_inside(ends, nodes.limits)
    return _Layout(counts, id_widths, offset_widths, id_starts, offset_starts, data_starts, ends)


def _check_inside(ends: Ints, limits: Ints) -> None:
    if np.any(ends > limits):
        raise _corrupt("a value ends behind the bytes of its row")


def _fixed_width(data: Bytes, begins: Ints, width: int) -> Bytes:
    """Return the bytes of values of one width, a row for each."""
    content: Bytes = data[begins[:, None] + np.arange(width)]
    return content


def _decimals(data: Bytes, places: Ints, begins: Ints, width: int) -> Iterator[tuple[Ints, pa.Array]]:
    scales = data[begins]
    raw = _fixed_width(data, begins + 1, width)
    wide = np.empty((len(places), 16), np.uint8)
    wide[:, :width] = raw
    wide[:, width:] = np.where(raw[:, -1:] >= 128, 255, 0)  # noqa: PLR2004 - the sign
    for scale in np.unique(scales).tolist():
        chosen = scales == scale
        if scale > PRECISION_MAX:
            raise _corrupt(f"a decimal has the scale {scale}")
        values = pa.py_buffer(np.ascontiguousarray(wide[chosen]))
        dtype = pa.decimal128(PRECISION_MAX, scale)
        yield places[chosen], pa.Array.from_buffers(dtype, int(chosen.sum()), [None, values])


def _corrupt(reason: str) -> CorruptTableError:
    return CorruptTableError(f"a variant is damaged: {reason}")
