"""Values as VARIANT in its binary form, many at once, in the bytes that Java writes.

Scalars of one kind are encoded together (`encode_scalars`), and objects and arrays around the bytes of their parts
(`encode_nested`), level by level from the innermost. `VariantTree` holds whole values, such as parsed JSON;
`encode_tree` gives each row a dictionary of its keys in the order of their first appearance.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.errors import InvalidInputError
from lakewright.spec.arrow_types import to_arrow_type
from lakewright.spec.types import AtomicType
from lakewright.spec.variant_values import (
    BINARY,
    DATE,
    DECIMAL4,
    DOUBLE,
    FLOAT,
    INT8,
    NULL,
    OBJECT,
    SHORT_STRING_MAX,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TRUE,
    UUID,
    VERSION,
    Bytes,
    Ints,
    Mask,
    binary_array,
    binary_parts,
    combine,
)

VARIANT_TYPE = to_arrow_type(AtomicType("VARIANT"))
SIZE_MAX = 128 << 20  # of a value, and of its metadata
_LARGE = 255  # from here on a count takes four bytes
_DECIMAL_WIDTHS = ((9, 4), (18, 8), (38, 16))  # how many digits, which the scale counts as well, and bytes
_FIXED = {
    pa.float64(): DOUBLE,
    pa.float32(): FLOAT,
    pa.date32(): DATE,
    pa.timestamp("us", "UTC"): TIMESTAMP,
    pa.timestamp("us"): TIMESTAMP_NTZ,
    pa.binary(16): UUID,
}


@dataclass(frozen=True, eq=False)
class VariantTree:
    """Whole values: nodes sorted by their depth and then as they appear, so that the parts of a value are together.

    The nodes of depth 0 are the rows.
    """

    depths: Ints
    parents: Ints  # the node around each, -1 for rows
    kinds: Bytes  # OBJECT and ARRAY; others are scalars
    keys: Ints  # of the members of objects, in `names`; -1 for others
    positions: Ints  # of the members of objects, in the order in which their keys appear
    names: pa.LargeStringArray  # distinct keys
    scalars: pa.LargeBinaryArray  # encoded, null for objects and arrays


def encode_tree(tree: VariantTree) -> pa.StructArray:
    """Return the values of a tree as a VARIANT column without nulls."""
    if not len(tree.depths):
        return pa.array([], VARIANT_TYPE)
    rows = int(np.count_nonzero(tree.depths == 0))
    row_of = np.arange(len(tree.depths))
    bounds = np.searchsorted(tree.depths, np.arange(int(tree.depths[-1]) + 2))
    for start, end in pairwise(bounds[1:]):  # rows are known from the outermost inwards
        row_of[start:end] = row_of[tree.parents[start:end]]
    ids, metadata = _number_keys(tree, row_of, rows)
    ranks = sort_ranks(tree.names)
    counts = np.bincount(tree.parents[rows:], minlength=len(tree.depths))
    below = pa.array([], pa.large_binary())
    for start, end in reversed(list(pairwise(bounds))):
        nested = np.flatnonzero(tree.kinds[start:end] >= OBJECT)
        scalars = tree.scalars.slice(start, end - start)
        if len(nested):
            chosen = nested + start
            children = slice(end, end + len(below))
            order = np.lexsort((ranks[tree.keys[children]], tree.parents[children]))
            values = encode_nested(tree.kinds[chosen], counts[chosen], ids[children], order, below)
            others = np.flatnonzero(tree.kinds[start:end] < OBJECT)
            scalars = combine([(others, scalars.take(pa.array(others))), (nested, values)], int(end - start))
        below = scalars
    return variant_array(below, metadata)


def variant_array(values: pa.LargeBinaryArray, metadata: pa.LargeBinaryArray, nulls: Mask | None = None) -> pa.Array:
    """Return a VARIANT column of encoded values and their metadata."""
    for part in (values, metadata):
        if (pc.max(pc.binary_length(part)).as_py() or 0) > SIZE_MAX:
            raise InvalidInputError("a variant, or the keys in it, take more than 128 MiB: store them apart")
    parts = [part.cast(pa.binary()) for part in (values, metadata)]
    if nulls is not None and nulls.any():
        parts = [pc.fill_null(part, b"") for part in parts]
        return pa.StructArray.from_arrays(parts, fields=list(VARIANT_TYPE), mask=pa.array(nulls))
    return pa.StructArray.from_arrays(parts, fields=list(VARIANT_TYPE))


def encode_nested(
    kinds: Bytes, counts: Ints, ids: Ints, order: Ints, parts: pa.LargeBinaryArray
) -> pa.LargeBinaryArray:
    """Return objects and arrays around their parts, which are one after the other.

    `ids` are those of the parts' keys, and `order` lists the parts of each object by their keys, and those of arrays as
    they are.
    """
    ends = np.cumsum(counts)
    first = ends - counts
    offsets, data = binary_parts(parts)
    starts = offsets[np.append(first, len(parts))]
    relative = offsets[:-1] - np.repeat(starts[:-1], counts)
    is_object = kinds == OBJECT
    offset_widths = _width_of(np.diff(starts))
    highest = np.zeros(len(counts), np.int64)
    filled = counts > 0
    if len(parts):
        highest[filled] = np.maximum.reduceat(ids, first[filled])
    id_widths = _width_of(highest)
    large = counts > _LARGE
    count_widths = np.where(large, 4, 1)
    id_sizes = np.where(is_object, id_widths, 0)
    sizes = 1 + count_widths + counts * id_sizes + (counts + 1) * offset_widths
    heads = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(sizes, out=heads[1:])
    at = heads[:-1]
    out = np.zeros(heads[-1], np.uint8)
    object_info = (offset_widths - 1) | (id_widths - 1) << 2 | large << 4
    out[at] = np.where(is_object, object_info << 2 | 2, ((offset_widths - 1) | large << 2) << 2 | 3)
    write_unsigned(out, at + 1, counts, count_widths)
    nth = np.arange(len(parts)) - np.repeat(first, counts)
    id_starts, owner_sizes = np.repeat(at + 1 + count_widths, counts), np.repeat(id_sizes, counts)
    write_unsigned(out, id_starts + nth * owner_sizes, ids[order], owner_sizes)
    offset_starts = at + 1 + count_widths + counts * id_sizes
    owner_widths = np.repeat(offset_widths, counts)
    write_unsigned(out, np.repeat(offset_starts, counts) + nth * owner_widths, relative[order], owner_widths)
    write_unsigned(out, offset_starts + counts * offset_widths, np.diff(starts), offset_widths)
    return _concat(binary_array(heads, out), binary_array(starts, data))


def encode_scalars(array: pa.Array) -> pa.LargeBinaryArray:
    """Return the bytes of scalars, null for nulls.

    The types are those of `VariantNodes.scalar_arrays`; a null type stands for the null of VARIANT.
    """
    kinds, dtype = pa.types, array.type
    if kinds.is_null(dtype):
        return _with_header(np.zeros((len(array), 0), np.uint8), NULL)
    valid = array.is_valid()
    if array.null_count:
        places = np.flatnonzero(np.asarray(valid))
        return combine([(places, encode_scalars(array.drop_null()))], len(array))
    if kinds.is_boolean(dtype):
        headers = np.where(np.asarray(array), TRUE, TRUE + 1).astype(np.uint8) << 2
        return binary_array(np.arange(len(array) + 1), headers)
    if kinds.is_integer(dtype):
        return _encode_integers(np.asarray(array.cast(pa.int64())))
    if kinds.is_decimal(dtype):
        return _encode_decimals(array.cast(pa.decimal128(38, dtype.scale)))
    if kinds.is_large_string(dtype) or kinds.is_large_binary(dtype):
        return _encode_texts(array, is_text=kinds.is_large_string(dtype))
    return _with_header(_fixed_bytes(array), _FIXED[dtype])


def write_unsigned(out: Bytes, places: Ints, numbers: Ints, widths: Ints) -> None:
    """Put integers into a buffer, little-endian, each with its own width of 0 to 4 bytes."""
    for byte in range(int(np.max(widths, initial=0))):
        wide = widths > byte
        out[places[wide] + byte] = (numbers[wide] >> 8 * byte) & 255


def encode_dictionaries(counts: Ints, names: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
    """Return metadata with some number of keys each; the keys are one after the other."""
    ends = np.cumsum(counts)
    first = ends - counts
    offsets, data = binary_parts(names)
    starts = offsets[np.append(first, len(names))]
    widths = _width_of(np.maximum(np.diff(starts), counts))
    heads = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(1 + widths * (counts + 2), out=heads[1:])
    at = heads[:-1]
    out = np.zeros(heads[-1], np.uint8)
    out[at] = VERSION | (widths - 1) << 6
    write_unsigned(out, at + 1, counts, widths)
    nth = np.arange(len(names)) - np.repeat(first, counts)
    owner_widths = np.repeat(widths, counts)
    places = np.repeat(at + 1 + widths, counts) + nth * owner_widths
    write_unsigned(out, places, offsets[:-1] - np.repeat(starts[:-1], counts), owner_widths)
    write_unsigned(out, at + 1 + widths * (counts + 1), np.diff(starts), widths)
    return _concat(binary_array(heads, out), binary_array(starts, data))


def _concat(heads: pa.LargeBinaryArray, bodies: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
    return pc.binary_join_element_wise(heads, bodies, pa.scalar(b"", pa.large_binary()))


def _number_keys(tree: VariantTree, row_of: Ints, rows: int) -> tuple[Ints, pa.LargeBinaryArray]:
    """Return the id of each node's key in the dictionary of its row, and the dictionaries."""
    members = np.flatnonzero(tree.keys >= 0)
    members = members[np.argsort(tree.positions[members], kind="stable")]
    pairs = row_of[members] * max(1, len(tree.names)) + tree.keys[members]
    distinct, seen, inverse = np.unique(pairs, return_index=True, return_inverse=True)
    by_appearance = np.argsort(seen, kind="stable")  # a row's members are together, so this sorts by row as well
    counts = np.bincount(row_of[members[seen]], minlength=rows)
    numbers = np.empty(len(distinct), np.int64)
    numbers[by_appearance] = np.arange(len(distinct)) - np.repeat(np.cumsum(counts) - counts, counts)
    ids = np.zeros(len(tree.keys), np.int64)
    ids[members] = numbers[inverse]
    names = tree.names.cast(pa.large_binary()).take(pa.array(tree.keys[members[seen[by_appearance]]]))
    return ids, encode_dictionaries(counts, names)


def sort_ranks(names: pa.LargeStringArray) -> Ints:
    """Return the rank of each key among all, in the order of UTF-16 units that Java 1.4.2 and 2.0.0 use."""
    texts = names.to_pylist()
    ranks = np.zeros(len(texts) + 1, np.int64)  # the last one is for values without a key, whose key is -1
    ranks[sorted(range(len(texts)), key=lambda at: texts[at].encode("utf-16-be"))] = np.arange(len(texts))
    return ranks


def _width_of(numbers: Ints) -> Ints:
    """Return how many bytes each number needs, at least one."""
    return 1 + (numbers > 0xFF).astype(np.int64) + (numbers > 0xFFFF) + (numbers > 0xFFFFFF)  # noqa: PLR2004 - bytes


def _with_header(contents: Bytes, kind: int) -> pa.LargeBinaryArray:
    """Return scalars of one kind and width; `contents` has a row for each."""
    count, width = contents.shape
    whole = np.empty((count, width + 1), np.uint8)
    whole[:, 0] = kind << 2
    whole[:, 1:] = contents
    return binary_array(np.arange(count + 1) * (width + 1), whole)


def _fixed_bytes(array: pa.Array) -> Bytes:
    width = array.type.byte_width
    data = np.frombuffer(array.buffers()[1], np.uint8)
    return data[array.offset * width : (array.offset + len(array)) * width].reshape(-1, width)


def _encode_integers(numbers: Ints) -> pa.LargeBinaryArray:
    widths = np.select([numbers == numbers.astype(f"i{width}") for width in (1, 2, 4)], [1, 2, 4], 8)
    parts = []
    for place, width in enumerate((1, 2, 4, 8)):
        chosen = np.flatnonzero(widths == width)
        contents = numbers[chosen].astype(f"<i{width}").view(np.uint8).reshape(-1, width)
        parts.append((chosen, _with_header(contents, INT8 + place)))
    return combine(parts, len(numbers))


def _encode_decimals(array: pa.Decimal128Array) -> pa.LargeBinaryArray:
    scale = array.type.scale
    raw = _fixed_bytes(array)
    low, high = (np.ascontiguousarray(raw[:, start : start + 8]).view("<i8")[:, 0] for start in (0, 8))
    is_long = high == low >> 63  # 64 bits are enough
    widths = np.full(len(array), 16)
    for digits, width in reversed(_DECIMAL_WIDTHS[:2]):
        limit = 10**digits
        if scale <= digits:
            widths[is_long & (low > -limit) & (low < limit)] = width
    parts = []
    for place, (_, width) in enumerate(_DECIMAL_WIDTHS):
        chosen = np.flatnonzero(widths == width)
        contents = np.empty((len(chosen), width + 1), np.uint8)
        contents[:, 0] = scale
        contents[:, 1:] = raw[chosen, :width]
        parts.append((chosen, _with_header(contents, DECIMAL4 + place)))
    return combine(parts, len(array))


def _encode_texts(array: pa.Array, *, is_text: bool) -> pa.LargeBinaryArray:
    contents = array.cast(pa.large_binary())
    lengths = np.diff(binary_parts(contents)[0])
    short = (lengths <= SHORT_STRING_MAX) & is_text
    heads = np.zeros(len(array) + 1, np.int64)
    np.cumsum(np.where(short, 1, 5), out=heads[1:])
    at = heads[:-1]
    out = np.zeros(heads[-1], np.uint8)
    out[at] = np.where(short, lengths << 2 | 1, (STRING if is_text else BINARY) << 2)
    write_unsigned(out, at + 1, lengths, np.where(short, 0, 4))
    return _concat(binary_array(heads, out), contents)
