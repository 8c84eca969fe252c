"""The bucket of a key, as Java computes it.

The default function is murmur3 (seed 42) over the BinaryRow of the bucket key, then the absolute value of the truncated
remainder. Columns are hashed in blocks that fit the processor's cache: keys of equal length directly from their
columns, others from assembled rows, one word of all rows that are long enough at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.errors import InvalidInputError, UnsupportedError
from lakewright.spec.binary_row import (
    ColumnSlots,
    RowImages,
    Words,
    assemble_rows,
    column_slots,
    encode_body,
    fixed_values,
    header_words,
    null_mask,
    plain_column,
    text_layout,
)
from lakewright.spec.binary_slots import SLOT_BYTES
from lakewright.spec.scalars import to_array, unscaled_of
from lakewright.spec.table_options import TableOptions
from lakewright.spec.types import BYTES_ROOTS, INTEGER_BITS, TEXT_ROOTS, AtomicType, DataType, Value

Hashes: TypeAlias = npt.NDArray[np.int32]
_Words32: TypeAlias = npt.NDArray[np.uint32]

DEFAULT = "default"

_SEED = 42
_C1, _C2, _STEP = 0xCC9E2D51, 0x1B873593, 0xE6546B64
_F1, _F2 = 0x85EBCA6B, 0xC2B2AE35
_LOW = 0xFFFFFFFF
_BLOCK_ROWS = 1 << 15
_FEW_ROWS = 32  # fewer rows than this are hashed faster one by one, if they have many words
_MANY_WORDS = 32  # a row with more words has many
_U32 = np.dtype("<u4")


def row_hashes(columns: Sequence[pa.Array | pa.ChunkedArray], types: Sequence[DataType]) -> Hashes:
    """Return the hash of each row of some columns.

    >>> row_hashes([pa.array([1, -1], pa.int32())], [AtomicType("INT")])
    array([1465514398, 1133687267], dtype=int32)
    """
    if not columns:
        raise InvalidInputError("a hash needs at least one column")
    plain = [plain_column(c, t) for c, t in zip(columns, types, strict=True)]
    count = len(plain[0])
    out = np.empty(count, np.int32)
    for first in range(0, count, _BLOCK_ROWS):
        block = column_slots([c.slice(first, _BLOCK_ROWS) for c in plain], types)
        at_once = all(c.even for c in block) and not _are_few_and_long(block)
        hashes = _hash_even(block) if at_once else _hash_images(assemble_rows(block))
        out[first : first + _BLOCK_ROWS] = hashes.view(np.int32)
    return out


def body_hash(body: bytes) -> int:
    """Return the hash of one row without arity prefix.

    >>> body_hash(bytes(16))
    -300363099
    """
    unsigned = _finish_hash(_mix_words(_SEED, np.frombuffer(body, _U32)), len(body))
    return unsigned - (1 << 32) if unsigned >> 31 else unsigned


def bucket_ids(
    columns: Sequence[pa.Array | pa.ChunkedArray], types: Sequence[DataType], *, function: str, buckets: int
) -> Hashes:
    """Return the bucket of each row; `function` is the value of `bucket-function.type`.

    >>> bucket_ids([pa.array([-8, 13])], [AtomicType("BIGINT")], function="mod", buckets=7)
    array([6, 6], dtype=int32)
    """
    if buckets < 1:
        raise InvalidInputError(f"a table of fixed buckets has at least one, not {buckets}")
    match function:
        case "default":
            return _bucket(row_hashes(columns, types), buckets)
        case "mod":
            return _mod_buckets(columns, types, buckets)
        case "hive":
            return ((_hive_hashes(columns, types) & np.int32(0x7FFFFFFF)) % np.int32(buckets)).astype(np.int32)
        case _:
            raise UnsupportedError(f"the bucket function {function!r} is not implemented: use default, mod or hive")


def bucket_of(values: Sequence[Value], types: Sequence[DataType], *, function: str, buckets: int) -> int:
    """Return the bucket of one key.

    >>> bucket_of(["abc"], [AtomicType("STRING")], function="default", buckets=7)
    4
    """
    if function == DEFAULT and buckets > 0:
        return abs(body_hash(encode_body(values, types))) % buckets
    columns = [to_array([v], t) for v, t in zip(values, types, strict=True)]
    return int(bucket_ids(columns, types, function=function, buckets=buckets)[0])


def _bucket(hashes: Hashes, buckets: int) -> Hashes:
    # The remainder takes the sign of the hash and is made positive after that: -7 and 7 share a bucket. So it is the
    # remainder of the size of the hash, which as an unsigned number is right for the lowest hash too. Numpy divides by
    # one number with vector instructions, and has none for remainders.
    sizes = np.abs(hashes).view(np.uint32)
    sizes -= sizes // np.uint32(buckets) * np.uint32(buckets)
    return sizes.view(np.int32)


def _mix(state: _Words32, word: _Words32) -> None:
    """Mix one word per row into the state, in place; `word` is overwritten."""
    word *= np.uint32(_C1)
    turned = word << np.uint32(15)
    word >>= np.uint32(17)
    word |= turned
    word *= np.uint32(_C2)
    state ^= word
    np.left_shift(state, np.uint32(13), out=turned)
    state >>= np.uint32(19)
    state |= turned
    state *= np.uint32(5)
    state += np.uint32(_STEP)


def _finish(state: _Words32, length: _Words32 | np.uint32) -> _Words32:
    state ^= length
    state ^= state >> np.uint32(16)
    state *= np.uint32(_F1)
    state ^= state >> np.uint32(13)
    state *= np.uint32(_F2)
    state ^= state >> np.uint32(16)
    return state


def _mix_words(state: int, words: _Words32) -> int:
    """Return the state of one row with its words mixed in.

    What happens to each word alone is worked out for many words at once; only the chain of states goes word by word.
    """
    if len(words) > _MANY_WORDS:
        products = words * np.uint32(_C1)
        turned = (products << np.uint32(15)) | (products >> np.uint32(17))
        turned *= np.uint32(_C2)
        for k in turned.tolist():
            state ^= k
            state = ((state << 13 | state >> 19) & _LOW) * 5 + _STEP & _LOW
        return state
    for word in words.tolist():
        k = word * _C1 & _LOW
        k = (k << 15 | k >> 17) * _C2 & _LOW
        state ^= k
        state = ((state << 13 | state >> 19) & _LOW) * 5 + _STEP & _LOW
    return state


def _finish_hash(state: int, length: int) -> int:
    state ^= length
    state = (state ^ state >> 16) * _F1 & _LOW
    state = (state ^ state >> 13) * _F2 & _LOW
    return state ^ state >> 16


def _are_few_and_long(columns: Sequence[ColumnSlots]) -> bool:
    """Return whether a numpy call for every word would cost more than a loop over the words of each row."""
    rows = len(columns[0].slots)
    return rows <= _FEW_ROWS and sum(len(c.pieces) for c in columns if c.pieces is not None) > rows * _MANY_WORDS


def _hash_even(columns: Sequence[ColumnSlots]) -> _Words32:
    """Hash rows of equal length without assembling them."""
    headers = header_words(columns)
    count = len(columns[0].slots)
    words = [np.zeros(count, np.uint64) if word is None else word for word in headers]
    seed = _SEED
    if all(word is None for word in headers):  # most keys have no nulls: the hash of their header is a constant
        words, seed = [], _mix_words(_SEED, np.zeros(2 * len(headers), np.uint32))
    at = len(headers) + len(columns)
    pieces: list[Words] = []
    for column in columns:
        if column.pieces is None:
            words.append(column.slots)
            continue
        words.append(column.slots | np.uint64((at * SLOT_BYTES) << 32))
        table = column.pieces.reshape(count, -1)
        pieces += [np.ascontiguousarray(table[:, k]) for k in range(table.shape[1])]
        at += table.shape[1]
    state = np.full(count, seed, np.uint32)
    for word in [*words, *pieces]:
        halves = word.view(_U32)
        _mix(state, halves[0::2].copy())
        _mix(state, halves[1::2].copy())
    return _finish(state, np.uint32(at * SLOT_BYTES))


def _hash_images(images: RowImages) -> _Words32:
    """Hash assembled rows, ordered from the longest on, so that the rows with one more word are always the first."""
    words = images.buffer.view(_U32)
    counts = np.diff(images.offsets) >> 2
    narrow = counts.astype(np.uint16) if int(counts.max()) < 1 << 16 else counts
    order = np.argsort(narrow, kind="stable")[::-1]
    at = (images.offsets[:-1] >> 2)[order]
    ascending = counts[order][::-1]
    state = np.full(len(images), _SEED, np.uint32)
    for k in range(int(ascending[-1])):
        rows = len(ascending) - int(np.searchsorted(ascending, k, side="right"))  # those with a word number k
        if rows <= _FEW_ROWS:
            for i in range(rows):
                state[i] = _mix_words(int(state[i]), words[at[i] + k : at[i] + ascending[-1 - i]])
            break
        _mix(state[:rows], words[at[:rows] + k])
    out = np.empty_like(state)
    out[order] = _finish(state, (ascending[::-1] * 4).astype(np.uint32))
    return out


def _mod_buckets(columns: Sequence[pa.Array], types: Sequence[DataType], buckets: int) -> Hashes:
    root = types[0].root if len(types) == 1 and isinstance(types[0], AtomicType) else ""
    if root not in {"INT", "BIGINT"}:
        raise InvalidInputError(
            f"the bucket function mod takes one column of INT or BIGINT, not {list(map(str, types))}"
        )
    values = pc.fill_null(plain_column(columns[0], types[0]), 0).to_numpy(zero_copy_only=False)
    ids: Hashes = np.mod(values.astype(np.int64), np.int64(buckets)).astype(np.int32)
    return ids


def _hive_hashes(columns: Sequence[pa.Array], types: Sequence[DataType]) -> Hashes:
    if not columns:
        raise InvalidInputError("a hash needs at least one column")
    total = np.zeros(len(columns[0]), np.uint32)
    for column, dtype in zip(columns, types, strict=True):
        plain = plain_column(column, dtype)
        hashes = _hive_column(plain, dtype)
        nulls = null_mask(plain)
        total = total * np.uint32(31) + (hashes if nulls is None else np.where(nulls, np.uint32(0), hashes))
    return total.view(np.int32)


def _hive_column(column: pa.Array, dtype: DataType) -> _Words32:
    match dtype:
        case AtomicType(root="BOOLEAN" | "TINYINT" | "SMALLINT" | "INT" | "BIGINT"):
            return _hive_integers(column, dtype)
        case AtomicType(root="FLOAT" | "DOUBLE"):
            return _hive_floats(column, dtype)
        case AtomicType(root="DECIMAL"):
            return _hive_decimals(column, dtype)
        case AtomicType(root=root) if root in TEXT_ROOTS or root in BYTES_ROOTS:
            return _hive_bytes(column)
        case _:
            raise UnsupportedError(f"the bucket function hive is not implemented for the type {dtype}")


def _hive_integers(column: pa.Array, dtype: AtomicType) -> _Words32:
    if dtype.root == "BOOLEAN":
        column = column.cast(pa.int8())
    bits = INTEGER_BITS.get(dtype.root, 8)
    return _fold_words(fixed_values(column, f"<i{bits // 8}").astype(np.int64), wide=dtype.root == "BIGINT")


def _fold_words(values: npt.NDArray[np.int64], *, wide: bool) -> _Words32:
    """Return the low half of 64 bits, mixed with the high half where the type is that wide."""
    raw = values.view(np.uint64)
    mixed = raw ^ (raw >> np.uint64(32)) if wide else raw
    return (mixed & np.uint64(_LOW)).astype(np.uint32)


def _hive_floats(column: pa.Array, dtype: AtomicType) -> _Words32:
    single = dtype.root == "FLOAT"
    values = fixed_values(column, np.float32 if single else np.float64)
    values = np.where(values == 0, np.zeros(1, values.dtype), values)  # -0.0 hashes as 0.0
    values = np.where(np.isnan(values), np.full(1, np.nan, values.dtype), values)  # one NaN of many
    if single:
        return values.view(np.uint32)
    return _fold_words(values.view(np.int64), wide=True)


def _hive_bytes(column: pa.Array) -> _Words32:
    """Hash text as Java does, with signed bytes: the sum of each byte times 31 to the power of the bytes behind it."""
    starts, lengths, data = text_layout(column)
    longest = int(lengths.max(initial=0))
    powers = np.full(longest + 1, 31, np.uint32)
    powers[0] = 1
    powers = np.multiply.accumulate(powers, dtype=np.uint32)
    ends = np.cumsum(lengths)
    places = np.arange(int(lengths.sum()), dtype=np.int64)
    source = np.repeat(starts - (ends - lengths), lengths) + places
    terms = data[source].view(np.int8).astype(np.int32).view(np.uint32) * powers[np.repeat(ends, lengths) - 1 - places]
    sums = np.concatenate([np.zeros(1, np.uint32), np.cumsum(terms, dtype=np.uint32)])
    hashes: _Words32 = sums[ends] - sums[ends - lengths]
    return hashes


def _hive_decimals(column: pa.Array, dtype: AtomicType) -> _Words32:
    """Hash each distinct decimal once."""
    encoded = column.dictionary_encode()
    distinct = np.array([_hive_decimal(d, dtype) for d in encoded.dictionary.to_pylist()] or [0], np.uint32)
    hashes: _Words32 = distinct[encoded.indices.fill_null(0).to_numpy(zero_copy_only=False)]
    return hashes


def _hive_decimal(number: Decimal, dtype: AtomicType) -> int:
    """Return Java's hash of a decimal without trailing zeros."""
    unscaled, scale = unscaled_of(number, dtype), dtype.scale
    while unscaled and unscaled % 10 == 0:
        unscaled, scale = unscaled // 10, scale - 1
    magnitude, digest = abs(unscaled), 0
    for shift in range(magnitude.bit_length() // 32 * 32, -1, -32):
        digest = digest * 31 + (magnitude >> shift & _LOW)
    signed = -digest if unscaled < 0 else digest
    return (31 * signed + (scale if unscaled else 0)) & _LOW


def postponed_buckets(options: TableOptions, rows: int, size: float) -> int:
    """Return how many buckets the rows of a partition without real buckets need; `size` is their bytes.

    >>> postponed_buckets(TableOptions({"postpone.target-row-num-per-bucket": "100"}), 250, 0)
    3
    """
    given = options.postpone_default_bucket_num
    if given is not None and given > 0:
        return given
    row_target = options.postpone_target_row_num_per_bucket
    size_target = max(1, options.postpone_target_size_per_bucket)
    needed = -(-rows // row_target) if row_target is not None else int(-(-size // size_target))
    return max(1, min(needed, options.postpone_batch_write_fixed_bucket_max_parallelism))
