"""The body of a commit message: facts in, canonical JSON out, and back with every value checked.

A codec encodes and decodes one kind of value. Decoding trusts nothing: a member that is missing or unknown, a number
out of range or a text that is not base64 raises an InvalidMessageError that names the place. Bytes are in base64.
"""

from __future__ import annotations

import binascii
import json
import operator
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

from lakewright.errors import InvalidMessageError
from lakewright.spec.datafile import DataFile, DeletionRange, GlobalIndex, IndexFile, SimpleStats
from lakewright.spec.snapshot import SeenSnapshot
from lakewright.spec.types import JSON

T = TypeVar("T")

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
SCOPES = ("bucket", "partition", "table")  # where no other writer may have written rows since a change was planned

_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Codec(Generic[T]):
    """How one kind of value becomes JSON and is read back.

    `decode` also gets the place, which its errors name; None: nobody will see the error.
    """

    encode: Callable[[T], JSON]
    decode: Callable[[object, str | None], T]


def integer(low: int, high: int) -> Codec[int]:
    """Return the codec of numbers between two bounds, both included."""

    def decode(value: object, place: str | None) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise _refused(value, place)
        return value

    return Codec(operator.index, decode)


def one_of(texts: tuple[str, ...]) -> Codec[str]:
    """Return the codec of texts that are known beforehand."""

    def decode(value: object, place: str | None) -> str:
        if not isinstance(value, str) or value not in texts:
            raise _refused(value, place)
        return value

    return Codec(str, decode)


def optional(inner: Codec[T]) -> Codec[T | None]:
    """Return the codec of values that may be missing."""
    return Codec(
        lambda value: None if value is None else inner.encode(value),
        lambda value, place: None if value is None else inner.decode(value, place),
    )


def tuple_of(inner: Codec[T]) -> Codec[tuple[T, ...]]:
    """Return the codec of any number of values of one kind."""

    def decode(value: object, place: str | None) -> tuple[T, ...]:
        if not isinstance(value, list):
            raise _refused(value, place)
        if place is None:
            return tuple([inner.decode(item, None) for item in value])
        return tuple(inner.decode(item, f"{place}[{index}]") for index, item in enumerate(value))

    return Codec(lambda values: [inner.encode(value) for value in values], decode)


def record(make: Callable[..., T], members: Mapping[str, Codec[object]]) -> Codec[T]:
    """Return the codec of frozen values with exactly these attributes."""

    def encode(value: T) -> JSON:
        return {name: codec.encode(getattr(value, name)) for name, codec in members.items()}

    def decode(value: object, place: str | None) -> T:
        if not isinstance(value, dict) or value.keys() != members.keys():
            raise _refused(value, place)
        if place is None:
            return make(**{name: codec.decode(value[name], None) for name, codec in members.items()})
        return make(**{name: codec.decode(value[name], f"{place}.{name}") for name, codec in members.items()})

    return Codec(encode, decode)


def to_bytes(value: T, codec: Codec[T]) -> bytes:
    """Return a value as canonical JSON: equal values have equal bytes."""
    return _canonical(codec.encode(value))


def _canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def from_bytes(data: bytes, codec: Codec[T]) -> T:
    """Read a value from canonical JSON; any other form of the same value is refused."""
    try:
        parsed = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InvalidMessageError(f"the body of the commit message is not JSON: {error}") from error
    try:
        value = codec.decode(parsed, None)
    except InvalidMessageError:
        value = codec.decode(parsed, "message")  # says where
    # JSON in another form may contain more than was decoded, such as members named twice, so it is refused.
    if _canonical(parsed) != data:
        raise InvalidMessageError("the body of the commit message is not in the form that lakewright writes")
    return value


def _refused(value: object, place: str | None) -> InvalidMessageError:
    shown = repr(value)[:80]
    return InvalidMessageError(f"the commit message has {shown} at {place}; write the data again", place=place)


def _decode_text(value: object, place: str | None) -> str:
    # JSON allows half of a surrogate pair, which cannot be encoded in UTF-8.
    if not isinstance(value, str) or (not value.isascii() and _SURROGATE.search(value)):
        raise _refused(value, place)
    return sys.intern(value)  # thousands of messages of one write repeat the same texts


def _decode_blob(value: object, place: str | None) -> bytes:
    text = _decode_text(value, place)
    try:
        data = binascii.a2b_base64(text, strict_mode=True)
    except (binascii.Error, ValueError) as error:
        raise _refused(value, place) from error
    if _encode_blob(data) != text:  # bits behind the last byte may differ
        raise _refused(value, place)
    return data


def _encode_blob(data: bytes) -> str:
    return binascii.b2a_base64(data, newline=False).decode()


TEXT: Codec[str] = Codec(str, _decode_text)
BLOB: Codec[bytes] = Codec(_encode_blob, _decode_blob)
LONG = integer(-LONG_MAX - 1, LONG_MAX)
NATURAL = integer(0, LONG_MAX)
NATURAL_INT = integer(0, INT_MAX)
BUCKET = integer(-2, INT_MAX)  # -2 is the postponed bucket; as a total also -1, buckets without a fixed number
TEXTS = tuple_of(TEXT)


def _members(**codecs: object) -> Mapping[str, Codec[object]]:
    """Gather codecs of different kinds; a record gives each codec only values of its kind."""
    return cast("Mapping[str, Codec[object]]", codecs)


_STATS = record(SimpleStats, _members(min_values=BLOB, max_values=BLOB, null_counts=tuple_of(optional(NATURAL))))

DATA_FILE = record(
    DataFile,
    _members(
        file_name=TEXT,
        file_size=NATURAL,
        row_count=NATURAL,
        min_key=BLOB,
        max_key=BLOB,
        key_stats=_STATS,
        value_stats=_STATS,
        min_sequence_number=LONG,
        max_sequence_number=LONG,
        schema_id=NATURAL,
        level=NATURAL_INT,
        extra_files=TEXTS,
        creation_time=optional(LONG),
        delete_row_count=optional(NATURAL),
        embedded_file_index=optional(BLOB),
        file_source=optional(integer(0, 127)),
        value_stats_cols=optional(TEXTS),
        external_path=optional(TEXT),
        first_row_id=optional(NATURAL),
        write_cols=optional(TEXTS),
        write_cols_sequences=optional(tuple_of(LONG)),
    ),
)

_RANGE = record(
    DeletionRange,
    _members(data_file=TEXT, offset=NATURAL_INT, length=NATURAL_INT, cardinality=optional(NATURAL)),
)
_GLOBAL_INDEX = record(
    GlobalIndex,
    _members(
        row_range_start=NATURAL,
        row_range_end=NATURAL,
        index_field_id=NATURAL_INT,
        extra_field_ids=optional(tuple_of(NATURAL_INT)),
        index_meta=optional(BLOB),
        source_meta=optional(BLOB),
    ),
)
INDEX_FILE = record(
    IndexFile,
    _members(
        index_type=TEXT,
        file_name=TEXT,
        file_size=NATURAL,
        row_count=NATURAL,
        deletion_ranges=optional(tuple_of(_RANGE)),
        external_path=optional(TEXT),
        global_index=optional(_GLOBAL_INDEX),
    ),
)

_SEEN = record(SeenSnapshot, _members(id=NATURAL, base_manifest_list=TEXT, delta_manifest_list=TEXT))

_FILES = tuple_of(DATA_FILE)
_INDEX_FILES = tuple_of(INDEX_FILE)

# The attributes of a message of version 3, by name; `message` defines the class that has them.
MESSAGE_MEMBERS_3 = _members(
    partition_bytes=BLOB,
    bucket=BUCKET,
    total_buckets=optional(BUCKET),
    new_files=_FILES,
    deleted_files=_FILES,
    changelog_files=_FILES,
    compact_before=_FILES,
    compact_after=_FILES,
    compact_changelog_files=_FILES,
    new_index_files=_INDEX_FILES,
    deleted_index_files=_INDEX_FILES,
    compact_new_index_files=_INDEX_FILES,
    compact_deleted_index_files=_INDEX_FILES,
    check_from_snapshot=optional(LONG),
    table=TEXT,
    schema_id=optional(NATURAL),
    write_id=TEXT,
    attempt=TEXT,
    partition_types=TEXTS,
    rows_in=optional(NATURAL),
    base_snapshot=optional(TEXT),
    hash_base=optional(TEXTS),
    planned_on=optional(TEXT),
    unchanged=optional(one_of(SCOPES)),
    reads=TEXTS,
)
MESSAGE_MEMBERS = {**MESSAGE_MEMBERS_3, **_members(seen=optional(_SEEN))}
