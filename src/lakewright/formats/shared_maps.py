"""MAP columns that a file stores with shared shredding: their values are spread over columns which the keys share.

Such a column is a struct: `__field_mapping` names for each row the key that each of K columns `__col_<i>` holds, by a
number, -1 for none, and `__overflow` maps the numbers of the other keys to their values. The metadata of the Arrow
field in the file names the keys. The file says that it is stored so, not the table: its option may be older or newer.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import zstandard

from lakewright.errors import UnsupportedError
from lakewright.formats.arrow_conform import Missing, conform
from lakewright.spec.types import DataField, MapType

_LAYOUT, _SHARED = b"paimon.map.storage-layout", b"shared-shredding"
_PREFIX = b"paimon.map.shared-shredding."
_ARROW_SCHEMA = b"ARROW:schema"
_MAPPING, _COLUMN, _OVERFLOW = "__field_mapping", "__col_", "__overflow"
_LZ4_HEAD_BYTES = 8  # the compressed and the original length


@dataclass(frozen=True, slots=True)
class SharedMap:
    """The keys of such a column in one file, at the places of their numbers; a null is a number without a key."""

    keys: pa.Array

    def conform_column(self, column: pa.ChunkedArray, target: pa.DataType, missing: Missing) -> pa.ChunkedArray:
        """Return the column of the file as maps of the canonical type."""
        return pa.chunked_array([self.to_maps(chunk, target, missing) for chunk in column.chunks], target)

    def to_maps(self, array: pa.StructArray, target: pa.MapType, missing: Missing) -> pa.MapArray:
        """Return rows of the file as maps; their entries have no order."""
        parts = dict(zip((field.name for field in array.type), array.flatten(), strict=True))
        numbers = _dense(parts[_MAPPING], sum(name.startswith(_COLUMN) for name in parts))
        rows, keys, items = [], [], []
        for at in range(numbers.shape[1]):
            used = np.flatnonzero(numbers[:, at] >= 0)
            rows.append(used)
            keys.append(numbers[used, at])
            items.append(conform(parts[f"{_COLUMN}{at}"], target.item_type, missing).take(pa.array(used)))
        overflow = parts[_OVERFLOW]
        entries = overflow.cast(pa.list_(pa.struct([overflow.type.key_field, overflow.type.item_field])))
        inside = entries.flatten()
        rows.append(np.repeat(np.arange(len(array)), entries.value_lengths().fill_null(0).to_numpy()))
        keys.append(inside.field(0).to_numpy(zero_copy_only=False).astype(np.int32))
        items.append(conform(inside.field(1), target.item_type, missing))
        return self._maps(array, np.concatenate(rows), np.concatenate(keys), pa.concat_arrays(items), target)

    def _maps(
        self,
        array: pa.Array,
        rows: npt.NDArray[np.int64],
        numbers: npt.NDArray[np.int32],
        items: pa.Array,
        target: pa.MapType,
    ) -> pa.MapArray:
        """Put entries together: the rows that they are in, the numbers of their keys, and their values."""
        known = np.isin(numbers, np.flatnonzero(self.keys.is_valid().to_numpy(zero_copy_only=False)))
        order = np.flatnonzero(known)[np.argsort(rows[known], kind="stable")]
        offsets = np.zeros(len(array) + 1, np.int32)
        np.cumsum(np.bincount(rows[order], minlength=len(array)), out=offsets[1:])
        names = self.keys.take(pa.array(numbers[order])).cast(target.key_type)
        mask = array.is_null() if array.null_count else None
        return pa.MapArray.from_arrays(pa.array(offsets), names, items.take(pa.array(order)), type=target, mask=mask)


def _dense(mapping: pa.ListArray, width: int) -> npt.NDArray[np.int32]:
    """Return the numbers in the columns of each row; -1 for columns that are not used."""
    numbers = np.full((len(mapping), width), -1, np.int32)
    valid = mapping.is_valid().to_numpy(zero_copy_only=False)
    numbers[valid] = mapping.flatten().to_numpy().reshape(int(valid.sum()), width)
    return numbers


def read_shared_map(field: DataField, stored: pa.Field, path: str) -> SharedMap | None:
    """Return how to read a MAP column of a file with shared shredding; None if the file stores it otherwise."""
    metadata = stored.metadata or {}
    if not isinstance(field.type, MapType) or metadata.get(_LAYOUT) != _SHARED:
        return None
    version = metadata.get(_PREFIX + b"version", b"").decode()
    codec = metadata.get(_PREFIX + b"field-dict-compression", b"zstd").decode()
    if version != "1" or codec not in {"zstd", "lz4", "none"}:
        raise UnsupportedError(
            f"the column {field.name!r} of the file {path} is a MAP with shared shredding of the version {version!r}, "
            f"compressed with {codec!r}, which this release does not know; leave the column out",
            path=path,
            column=field.name,
        )
    packed = metadata[_PREFIX + b"field-dict"].decode().encode("latin-1")  # each byte is stored as one character
    size = int(metadata[_PREFIX + b"field-dict-original-size"])
    numbers: dict[str, int] = json.loads(_decompress(packed, codec, size))
    keys: list[str | None] = [None] * (max(numbers.values(), default=-1) + 1)
    for name, number in numbers.items():
        keys[number] = name
    return SharedMap(pa.array(keys, pa.string()))


def _decompress(data: bytes, codec: str, size: int) -> bytes:
    match codec:
        case "zstd":
            return zstandard.ZstdDecompressor().decompress(data, max_output_size=size)
        case "lz4":
            return bytes(pa.decompress(data[_LZ4_HEAD_BYTES:], size, codec="lz4_raw"))
        case _:
            return data


def schema_with_metadata(schema: pa.Schema, metadata: dict[bytes, bytes]) -> pa.Schema:
    """Return the schema that an ORC file has in its metadata, which older releases of Arrow do not look at."""
    encoded = metadata.get(_ARROW_SCHEMA)
    return schema if encoded is None else pa.ipc.read_schema(pa.py_buffer(base64.b64decode(encoded)))
