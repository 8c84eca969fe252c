"""VARIANT columns from JSON texts, and as JSON texts.

Both directions work on all rows of a column at once. Texts are cut into tokens with numpy: quotes decide which bytes
are inside of strings, brackets how deep each token is, and the tokens inside of one bracket, which are together once
all are sorted by their depth, must alternate as JSON's grammar says. Values become text the other way round: each node
is one token or a pair of brackets, the number of tokens of its parts tells where its own ones are, and one `take` puts
the bytes of all tokens in order.
"""

from __future__ import annotations

import base64
import json
import math
import uuid
from typing import NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakewright.errors import InvalidInputError
from lakewright.spec.scalars import java_float_text
from lakewright.spec.variant_encoding import VARIANT_TYPE, VariantTree, encode_scalars, encode_tree
from lakewright.spec.variant_values import (
    ARRAY,
    OBJECT,
    Bytes,
    Ints,
    Mask,
    VariantNodes,
    binary_array,
    binary_parts,
    combine,
    expand_levels,
    gather,
)

# ---- JSON to VARIANT -------------------------------------------------------------------------------------------------

_SPACE, _STRUCTURE, _QUOTE, _OTHER = range(4)
_CLASSES = np.full(256, _OTHER, np.uint8)
_CLASSES[list(b" \t\n\r")] = _SPACE
_CLASSES[list(b"{}[]:,")] = _STRUCTURE
_CLASSES[ord('"')] = _QUOTE
_OPEN = np.isin(np.arange(256), list(b"{["))
_CLOSE = np.isin(np.arange(256), list(b"}]"))
_BACKSLASH, _CONTROL = ord("\\"), 0x20
_NUMBER = r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$"
_LITERALS = ("null", "true", "false")
_EXACT_DIGITS = 18  # so many fit into 64 bits
_DIGITS_MAX = 38


def parse_json(texts: pa.LargeStringArray, first_row: int = 0) -> pa.StructArray:
    """Return JSON texts, none of them null, as a VARIANT column; InvalidInputError names a row that is not JSON.

    `first_row` is the number of the first one in messages.

    >>> parse_json(pa.array(['{"a": 1}'], pa.large_string()))[0].as_py()["value"].hex()
    '02010000020c01'
    """
    if not len(texts):
        return pa.array([], VARIANT_TYPE)
    # A line feed behind each text keeps tokens of neighbouring rows apart.
    lines = pc.binary_join_element_wise(texts, pa.scalar("", pa.large_string()), pa.scalar("\n", pa.large_string()))
    offsets, buffer = binary_parts(lines.cast(pa.large_binary()))
    data = buffer[offsets[0] : offsets[-1]]
    rows = _Rows(texts, offsets - offsets[0], first_row)
    return encode_tree(_tree_of(data, rows))


class _Rows:
    """The rows of the texts, for errors."""

    def __init__(self, texts: pa.LargeStringArray, offsets: Ints, first_row: int) -> None:
        self._texts, self._first_row = texts, first_row
        self.offsets = offsets

    def of(self, positions: Ints) -> Ints:
        """Return the rows of some bytes."""
        return np.searchsorted(self.offsets, positions, side="right") - 1

    def require(self, valid: Mask, positions: Ints, reason: str) -> None:
        """Raise an error for the first byte that is not valid."""
        if not valid.all():
            self.refuse(int(self.of(positions[~valid]).min()), reason)

    def refuse(self, row: int, reason: str) -> NoReturn:
        """Raise the error of a row, in the words of Python's parser where it finds one too."""
        text = self._texts[row].as_py()
        try:
            json.loads(text)
        except ValueError as error:
            reason = str(error)
        shown = text if len(text) <= 80 else text[:77] + "..."  # noqa: PLR2004 - a line of an error message
        number = self._first_row + row
        raise InvalidInputError(f"row {number} is not JSON: {reason}: {shown!r}; correct the text", row=number)


def _tree_of(data: Bytes, rows: _Rows) -> VariantTree:
    classes = _CLASSES[data]
    quotes = classes == _QUOTE
    if (data == _BACKSLASH).any():
        quotes[_find_escapes(data)] = False
    inside = np.bitwise_xor.accumulate(quotes.view(np.uint8)).view(bool)  # from the opening quote to before the closing
    rows.require(~(inside & (data < _CONTROL)), np.arange(len(data)), "a control character in a string")
    plain = (classes == _OTHER) & ~inside
    begins = plain.copy()
    begins[1:] &= ~plain[:-1]
    tokens = np.flatnonzero(begins | (quotes & inside) | ((classes == _STRUCTURE) & ~inside))
    signs = data[tokens]
    changes = _OPEN[signs].astype(np.int64) - _CLOSE[signs]
    depths = np.cumsum(changes) - (changes > 0)
    ends = np.searchsorted(tokens, rows.offsets)
    rows.require(np.diff(ends) > 0, rows.offsets[:-1], "the text is empty")
    rows.require((depths + (changes > 0))[ends[1:] - 1] == 0, rows.offsets[:-1], "brackets do not match")
    rows.require(depths >= 0, tokens, "brackets do not match")
    order = np.argsort(depths.astype(np.int32), kind="stable")
    brackets = tokens[order][changes[order] != 0]
    rows.require(data[brackets[::2]] + 2 == data[brackets[1::2]], brackets[::2], "brackets do not match")
    order = order[changes[order] >= 0]  # closing brackets are done with
    return _build_tree(data, rows, _Tokens(data, tokens[order], depths[order], rows, classes, plain))


class _Tokens:
    """Tokens without closing brackets, sorted by depth and position, and the brackets that they are in."""

    def __init__(self, data: Bytes, at: Ints, depths: Ints, rows: _Rows, classes: Bytes, plain: Mask) -> None:
        self.at, self.depths, self.signs = at, depths, data[at]
        self.is_open = _OPEN[self.signs]
        self.is_string = classes[at] == _QUOTE
        self.is_plain = plain[at]
        opens = np.flatnonzero(self.is_open)
        span = len(data) + 1
        outer = np.searchsorted(depths[opens] * span + at[opens], (depths - 1) * span + at) - 1
        self.parents = np.where(depths > 0, opens[outer] if len(opens) else -1, -1 - rows.of(at))
        self.first = np.append(True, self.parents[1:] != self.parents[:-1])
        starts = np.flatnonzero(self.first)
        self.counts = np.diff(np.append(starts, len(at)))
        self.nth = np.arange(len(at)) - np.repeat(starts, self.counts)


def _build_tree(data: Bytes, rows: _Rows, tokens: _Tokens) -> VariantTree:
    nth, signs = tokens.nth, tokens.signs
    in_object = (tokens.parents >= 0) & (signs[tokens.parents] == ord("{"))
    is_row = tokens.depths == 0
    is_value = tokens.is_open | tokens.is_string | tokens.is_plain
    step = np.where(in_object, nth % 4, 2 * (nth % 2) + 2)  # 0: a key, 1: a colon, 2: a value, 3 and 4: a comma
    fits = np.select(
        [step == 0, step == 1, step == 2],  # noqa: PLR2004 - see above
        [tokens.is_string, signs == ord(":"), is_value],
        (signs == ord(",")) & ~is_row,
    )
    rows.require(fits, tokens.at, "a value, a comma or a colon is missing")
    last = np.cumsum(tokens.counts) - 1
    rows.require(step[last] == 2, tokens.at[last], "a value is missing")  # noqa: PLR2004 - see above
    is_node, is_key = step == 2, step == 0  # noqa: PLR2004 - see above
    strings = _string_values(data, rows, tokens.at[tokens.is_string])
    keys = strings.filter(pa.array(is_key[tokens.is_string])).dictionary_encode()
    key_of = np.full(len(nth), -1, np.int64)
    key_of[np.flatnonzero(is_key) + 2] = keys.indices.to_numpy()
    parts = [
        (np.flatnonzero(tokens.is_string), encode_scalars(strings)),
        *_encode_plain(data, rows, tokens.at, np.flatnonzero(tokens.is_plain)),
    ]
    nodes = np.flatnonzero(is_node)
    number = np.cumsum(is_node) - 1
    members = nodes[in_object[nodes]]
    pairs = tokens.parents[members] * (len(keys.dictionary) + 1) + key_of[members]
    by_key = np.argsort(pairs, kind="stable")
    repeated = np.append(False, np.diff(pairs[by_key]) == 0)
    rows.require(~repeated, tokens.at[members[by_key]], "an object has a key twice")
    return VariantTree(
        tokens.depths[nodes],
        np.where(tokens.parents[nodes] >= 0, number[tokens.parents[nodes]], -1),
        np.select([signs[nodes] == ord("{"), signs[nodes] == ord("[")], [OBJECT, ARRAY], 0).astype(np.uint8),
        key_of[nodes],
        tokens.at[nodes],
        keys.dictionary,
        combine(parts, len(nth)).take(pa.array(nodes)),
    )


def _find_escapes(data: Bytes) -> Ints:
    """Return the positions of the bytes that a backslash escapes."""
    slashes = np.flatnonzero(data == _BACKSLASH)
    starts = np.append(True, np.diff(slashes) != 1)
    run = np.arange(len(slashes)) - np.maximum.accumulate(np.where(starts, np.arange(len(slashes)), 0))
    positions: Ints = slashes[run % 2 == 0] + 1
    return positions


def _string_values(data: Bytes, rows: _Rows, at: Ints) -> pa.LargeStringArray:
    """Return the strings that begin with quotes at some positions."""
    slashes = (data == _BACKSLASH).any()
    quotes = data == ord('"')
    if slashes:
        quotes[_find_escapes(data)] = False
    closing = np.flatnonzero(quotes)
    ends = closing[np.searchsorted(closing, at) + 1]
    texts = gather(data, at + 1, ends - at - 1).cast(pa.large_string())
    if not slashes:
        return texts
    escaped = np.flatnonzero(np.asarray(pc.match_substring(texts, "\\")))
    if not len(escaped):
        return texts
    quoted = ",".join(f'"{text}"' for text in texts.take(pa.array(escaped)).to_pylist())
    try:
        plain = pa.array(json.loads(f"[{quoted}]"), pa.large_string())
    except (ValueError, UnicodeEncodeError):  # one by one, to name the row
        for place in escaped.tolist():
            try:
                json.loads(f'"{texts[place].as_py()}"').encode()
            except ValueError as error:
                rows.refuse(int(rows.of(at[place : place + 1])[0]), f"a string cannot be read: {error}")
        raise
    others = np.setdiff1d(np.arange(len(texts)), escaped)
    return combine([(others, texts.take(pa.array(others))), (escaped, plain)], len(texts))


def _encode_plain(data: Bytes, rows: _Rows, at: Ints, places: Ints) -> list[tuple[Ints, pa.LargeBinaryArray]]:
    """Return the encoded values of the tokens without quotes: numbers, null, true and false."""
    stops = np.flatnonzero(_CLASSES[data] != _OTHER)
    begins = at[places]
    texts = gather(data, begins, stops[np.searchsorted(stops, begins)] - begins).cast(pa.large_string())
    found = pc.index_in(texts, pa.array(_LITERALS, pa.large_string()))
    parts = []
    for number, value in enumerate((None, True, False)):
        chosen = np.flatnonzero(np.asarray(pc.fill_null(pc.equal(found, number), fill_value=False)))
        dtype = pa.null() if value is None else pa.bool_()
        parts.append((places[chosen], encode_scalars(pa.array([value] * len(chosen), dtype))))
    left = np.flatnonzero(np.asarray(found.is_null()))
    numbers, places = texts.take(pa.array(left)), places[left]
    valid = np.asarray(pc.match_substring_regex(numbers, _NUMBER))
    rows.require(valid, begins[left], "neither a number nor null, true or false")
    return parts + [(places[chosen], encode_scalars(values)) for chosen, values in _number_values(numbers)]


def _number_values(texts: pa.LargeStringArray) -> list[tuple[Ints, pa.Array]]:
    """Return numbers as integers, decimals and doubles, each with its places: only exponents make a double of it."""
    has_exponent = np.asarray(pc.match_substring_regex(texts, "[eE]"))
    point = np.asarray(pc.find_substring(texts, ".")).astype(np.int64)
    digits = np.asarray(pc.binary_length(texts)) - np.asarray(pc.starts_with(texts, "-")) - (point >= 0)
    scales = np.where(point < 0, 0, np.asarray(pc.binary_length(texts)) - point - 1)
    short = ~has_exponent & (digits <= _EXACT_DIGITS)
    parts = []
    for scale in np.unique(scales[short]).tolist():
        chosen = np.flatnonzero(short & (scales == scale) & ((point >= 0) == (scale > 0)))
        numbers = texts.take(pa.array(chosen))
        parts.append((chosen, numbers.cast(pa.int64() if scale == 0 else pa.decimal128(_DIGITS_MAX, scale))))
    doubles = has_exponent.copy()
    for place in np.flatnonzero(~has_exponent & ~short).tolist():  # long numbers are rare
        text = texts[place].as_py()
        unscaled = int(text.replace(".", ""))
        if scales[place] == 0 and -(2**63) <= unscaled < 2**63:
            parts.append((np.array([place]), pa.array([unscaled], pa.int64())))
        elif scales[place] <= _DIGITS_MAX and abs(unscaled) < 10**_DIGITS_MAX:
            raw = unscaled.to_bytes(16, "little", signed=True)
            dtype = pa.decimal128(_DIGITS_MAX, int(scales[place]))
            parts.append((np.array([place]), pa.Array.from_buffers(dtype, 1, [None, pa.py_buffer(raw)])))
        else:
            doubles[place] = True
    chosen = np.flatnonzero(doubles)
    floats = [float(text) for text in texts.take(pa.array(chosen)).to_pylist()]
    return [*parts, (chosen, pa.array(floats, pa.float64()))]


# ---- VARIANT to JSON -------------------------------------------------------------------------------------------------

_SIGNS = ["", "{", "}", "[", "]", ","]  # the tokens that are the same everywhere
_ESCAPES = {chr(number): f"\\u{number:04X}" for number in range(_CONTROL)}
_ESCAPES |= {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"'}
_PLAIN_FLOATS = (1e-3, 1e7)  # Java writes exponents outside


def format_json(nodes: VariantNodes, zone: str = "UTC") -> pa.LargeStringArray:
    """Return values as JSON texts; timestamps with a zone are in the time zone `zone`."""
    members = expand_levels(nodes)
    levels = [nodes, *(part.nodes for part in members)]
    sizes: list[Ints] = []  # the number of tokens of each value
    inner = np.zeros(0, np.int64)
    for level, (_, counts, *_) in reversed(list(zip(levels, members, strict=False))):
        sums = np.append(0, np.cumsum(inner + 1))  # each part has a token before it: a comma, a key or both
        ends = np.cumsum(counts)
        inner = np.where(level.kinds >= OBJECT, 2 + sums[ends] - sums[ends - counts], 1)
        sizes.append(inner)
    sizes.reverse()
    starts = np.cumsum(sizes[0]) - sizes[0]
    roots = np.append(starts, int(sizes[0].sum()))
    pools = [pa.array(_SIGNS, pa.large_string()), *_key_texts(nodes)]
    key_tokens = len(_SIGNS), len(_SIGNS) + len(nodes.keys.names)
    position = sum(map(len, pools))
    order = np.empty(roots[-1], np.int64)
    for depth, level in enumerate(levels[:-1]):
        if depth:
            _, counts, owners, names, _ = members[depth - 1]
            parts = np.cumsum(sizes[depth] + 1)
            base = np.append(0, parts)[np.cumsum(counts) - counts]  # of the tokens of all parts before
            starts = (starts - base)[owners] + 1 + parts - sizes[depth]
            leads = np.append(True, owners[1:] != owners[:-1])
            order[starts - 1] = np.where(names < 0, np.where(leads, 0, 5), names + np.where(leads, *key_tokens))
        for places, values in level.scalar_arrays():
            texts = _scalar_texts(values, zone)
            order[starts[places]] = position + np.arange(len(places))
            position += len(places)
            pools.append(texts)
        for kind, sign in ((OBJECT, 1), (ARRAY, 3)):
            places = np.flatnonzero(level.kinds == kind)
            order[starts[places]] = sign
            order[starts[places] + sizes[depth][places] - 1] = sign + 1
    tokens = pa.concat_arrays(pools).take(pa.array(order))
    offsets, data = binary_parts(tokens.cast(pa.large_binary()))
    return binary_array(offsets[roots], data).cast(pa.large_string())


def _key_texts(nodes: VariantNodes) -> tuple[pa.Array, pa.Array]:
    """Return the keys as they begin an object, and as they go on with it."""
    quoted = _quote(nodes.keys.names)
    colon, none = pa.scalar(":", pa.large_string()), pa.scalar("", pa.large_string())
    first = pc.binary_join_element_wise(quoted, colon, none)
    return first, pc.binary_join_element_wise(pa.scalar(",", pa.large_string()), first, none)


def _quote(texts: pa.LargeStringArray) -> pa.LargeStringArray:
    _, data = binary_parts(texts.cast(pa.large_binary()))
    present = np.flatnonzero(np.bincount(data, minlength=128)[:128]).tolist()
    if ord("\\") in present:  # before the escapes, which have backslashes
        texts = pc.replace_substring(texts, "\\", "\\\\")
    for number in present:
        if chr(number) in _ESCAPES:
            texts = pc.replace_substring(texts, chr(number), _ESCAPES[chr(number)])
    mark = pa.scalar('"', pa.large_string())
    return pc.binary_join_element_wise(mark, texts, mark, pa.scalar("", pa.large_string()))


def _scalar_texts(values: pa.Array, zone: str) -> pa.LargeStringArray:
    kinds, dtype = pa.types, values.type
    if kinds.is_null(dtype):
        return pa.array(["null"] * len(values), pa.large_string())
    if kinds.is_large_string(dtype):
        return _quote(values)
    if kinds.is_floating(dtype):
        return format_floats(values)
    if kinds.is_decimal(dtype):
        return format_decimals(values)
    if kinds.is_boolean(dtype) or kinds.is_integer(dtype):
        return values.cast(pa.large_string())
    return _quote(format_plain(values, zone))


def format_plain(values: pa.Array, zone: str) -> pa.LargeStringArray:
    """Return dates, timestamps, bytes and UUIDs as text without quotes."""
    kinds, dtype = pa.types, values.type
    if kinds.is_date(dtype):
        return values.cast(pa.large_string())
    if kinds.is_large_binary(dtype):
        return pa.array([base64.b64encode(value).decode() for value in values.to_pylist()], pa.large_string())
    if kinds.is_fixed_size_binary(dtype):
        return pa.array([str(uuid.UUID(bytes=value)) for value in values.to_pylist()], pa.large_string())
    times = values.cast(pa.timestamp("us", zone if dtype.tz else None))
    # `%S` has six digits of a fraction, and `%z` no colon.
    texts = pc.replace_substring_regex(pc.strftime(times, format="%Y-%m-%d %H:%M:%S"), r"\.?0+$", "")
    if dtype.tz:
        offsets = pc.replace_substring_regex(pc.strftime(times, format="%z"), r"(\d\d)$", r":\1")
        texts = pc.binary_join_element_wise(texts, offsets, "")
    return texts.cast(pa.large_string())


def format_floats(values: pa.Array) -> pa.LargeStringArray:
    """Return floats as Java prints them, with quotes around what is not a number."""
    magnitudes = np.abs(np.asarray(values))
    plain = (magnitudes >= _PLAIN_FLOATS[0]) & (magnitudes < _PLAIN_FLOATS[1])
    texts = values.filter(pa.array(plain)).cast(pa.large_string())
    zeros = pc.if_else(pc.match_substring(texts, "."), pa.scalar("", pa.large_string()), ".0")
    texts = pc.binary_join_element_wise(texts, zeros, pa.scalar("", pa.large_string()))
    single = pa.types.is_float32(values.type)
    others = [java_float_text(number, single=single) for number in values.filter(pa.array(~plain)).to_pylist()]
    others = [text if math.isfinite(float(text)) else f'"{text}"' for text in others]
    parts = [(np.flatnonzero(plain), texts), (np.flatnonzero(~plain), pa.array(others, pa.large_string()))]
    return combine(parts, len(values))


def format_decimals(values: pa.Decimal128Array) -> pa.LargeStringArray:
    """Return decimals as plain digits without zeros at the end of a fraction."""
    scale = values.type.scale
    digits = values.view(pa.binary(16)).view(pa.decimal128(_DIGITS_MAX, 0)).cast(pa.string())
    if scale == 0:
        return digits.cast(pa.large_string())
    sign = pc.if_else(pc.starts_with(digits, "-"), "-", "")
    digits = pc.utf8_lpad(pc.replace_substring(digits, "-", "", max_replacements=1), scale + 1, "0")
    whole, fraction = pc.utf8_slice_codeunits(digits, 0, -scale), pc.utf8_slice_codeunits(digits, -scale)
    texts = pc.binary_join_element_wise(sign, whole, ".", fraction, "")
    return pc.replace_substring_regex(texts, r"\.?0+$", "").cast(pa.large_string())
