"""ORC data files in, batches of the requested columns out, through Arrow.

A sealed file is read whole and its checksum is verified before anything is decoded. Files of other writers have no
checksum, and a missing column in them reads as null. Other writers pad the text of CHAR columns with blanks, which are
removed. Arrow decodes timestamps as nanoseconds, so a file with timestamps outside 1677 to 2262 is refused.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from itertools import accumulate

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc as pa_orc

from lakewright.errors import counted
from lakewright.formats.base import (
    Input,
    check_map_layout,
    corrupt,
    decoding,
    empty_batch,
    overlap,
    read_at,
    scalar_types,
)
from lakewright.formats.conform import conform, rebuild_list, rebuild_struct
from lakewright.formats.orc.tail import (
    END_BYTES,
    MAGIC,
    TAIL_BYTES_MAX,
    TIMESTAMP_MILLIS_MAX,
    Postscript,
    read_postscript,
    stripe_rows,
    timestamp_bounds,
    timestamp_out_of_range,
)
from lakewright.formats.seal import SEAL_BYTES, sealed_checksum
from lakewright.spec.arrow import to_arrow_schema
from lakewright.spec.predicate.predicate import Predicate
from lakewright.spec.types import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
)


class OrcFileReader:
    """One ORC file being read."""

    def __init__(self, source: Input, *, path: str, size: int, fields: Sequence[DataField]) -> None:
        self._source = source
        self._path = path
        self._fields = tuple(fields)
        self._schema = to_arrow_schema(fields)
        with decoding(path):
            tail, postscript = self._tail(size)
            self._sealed, data = self._check_seal(size, postscript)
            self._file = pa_orc.ORCFile(pa.PythonFile(source, mode="r") if data is None else pa.BufferReader(data))
            self._stripe_rows = stripe_rows(tail, postscript)
            if len(self._stripe_rows) != self._file.nstripes:
                raise corrupt(path, "its footer lists another number of stripes")
            self._check_columns(self._file.schema)
            self._check_times(tail, postscript)

    @property
    def row_count(self) -> int:
        """The number of rows in the file."""
        return int(self._file.nrows)

    @property
    def stored_columns(self) -> tuple[str, ...]:
        """The names of all columns that the file holds, in its order, whichever are read."""
        return tuple(self._file.schema.names)

    def starts(self, skip: Predicate | None = None) -> tuple[int, ...]:  # noqa: ARG002 - as for `batches`
        """Return the positions of the first rows of stripes."""
        return tuple(accumulate(self._stripe_rows[:-1], initial=0)) if self._stripe_rows else ()

    def close(self) -> None:
        """Close the file."""
        self._source.close()

    def batches(
        self,
        *,
        skip: Predicate | None = None,  # noqa: ARG002 - Arrow does not show the statistics of stripes
        batch_rows: int | None = None,
        within: range | None = None,
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield batches in file order, each with the position of its first row."""
        position = 0
        for stripe, rows in enumerate(self._stripe_rows):
            if not overlap(position, rows, within):
                position += rows
                continue
            with decoding(self._path):
                batch = self._decode(stripe)
            if batch.num_rows != rows:
                raise corrupt(self._path, f"a stripe of {counted(batch.num_rows, 'row')} that should have {rows}")
            step = batch_rows or max(1, rows)
            for start in range(0, rows, step):
                part = batch.slice(start, step)
                yield position, part
                position += part.num_rows
        if position != self.row_count:
            raise corrupt(self._path, f"{counted(position, 'row')} where its footer announces {self.row_count}")

    def _tail(self, size: int) -> tuple[bytes, Postscript]:
        end = self._read_at(max(0, size - END_BYTES), min(size, END_BYTES))
        postscript = read_postscript(end)
        length = postscript.tail_bytes
        if length + len(MAGIC) > size or length > TAIL_BYTES_MAX:
            raise corrupt(self._path, "its tail is longer than it can be")
        return self._read_at(size - length, length), postscript

    def _check_seal(self, size: int, postscript: Postscript) -> tuple[bool, pa.Buffer | None]:
        """Return whether the file has a seal, and then its bytes, whose checksum is verified."""
        at = size - postscript.tail_bytes - SEAL_BYTES
        if at < len(MAGIC):
            return False, None
        checksum = sealed_checksum(self._read_at(at, SEAL_BYTES))
        if checksum is None:
            return False, None
        data = self._read_at(0, size)
        view = memoryview(data)
        if zlib.crc32(view[at + SEAL_BYTES :], zlib.crc32(view[:at])) != checksum:
            raise corrupt(self._path, "its checksum does not match")
        return True, pa.py_buffer(data)

    def _read_at(self, offset: int, length: int) -> bytes:
        return read_at(self._source, offset, length, self._path)

    def _check_columns(self, stored: pa.Schema) -> None:
        names = [field.name for field in self._fields if field.name in stored.names]
        for field in self._fields:
            if field.name not in stored.names:
                self._missing(field.name)
            else:
                check_map_layout(field, stored.field(field.name).type, self._path)
        # Arrow reads a dot as a path into a ROW: with such a name among the columns, all are read.
        self._columns = None if any("." in name for name in names) else names or stored.names[:1]

    def _missing(self, name: str) -> None:
        if self._sealed:
            raise corrupt(self._path, f"it lacks the column {name!r} that its schema announces")

    def _check_times(self, tail: bytes, postscript: Postscript) -> None:
        if not any(_has_timestamp(field.type) for field in self._fields):
            return
        bounds = timestamp_bounds(tail, postscript)
        for field in self._fields:
            low, high = bounds.get(field.name, (0, 0))
            if _has_timestamp(field.type) and max(-low, high) > TIMESTAMP_MILLIS_MAX:
                raise timestamp_out_of_range(field.name, f"the file {self._path}", self._path)

    def _decode(self, stripe: int) -> pa.RecordBatch:
        batch = self._file.read_stripe(stripe, columns=self._columns)
        columns = []
        for field, target in zip(self._fields, self._schema, strict=True):
            index = batch.schema.get_field_index(field.name)
            if index < 0:
                columns.append(pa.nulls(batch.num_rows, target.type))
                continue
            array = conform(batch.column(index), target.type, self._missing)
            columns.append(_stripped(array, field.type) if _has_char(field.type) else array)
        if not columns:
            return empty_batch(self._schema, batch.num_rows)
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)


def _has_timestamp(dtype: DataType) -> bool:
    return any(leaf.root.startswith("TIMESTAMP") for leaf in scalar_types(dtype))


def _has_char(dtype: DataType) -> bool:
    return any(leaf.root == "CHAR" for leaf in scalar_types(dtype))


def _stripped(array: pa.Array, dtype: DataType) -> pa.Array:
    """Return an array without the blanks that pad CHAR values."""
    match dtype:
        case AtomicType():
            return pc.utf8_rtrim(array, " ") if dtype.root == "CHAR" else array
        case RowType():
            children = [_stripped(array.field(i), field.type) for i, field in enumerate(dtype.fields)]
            return rebuild_struct(array, array.type, children)
        case MapType() | MultisetType():
            parts = [_stripped(array.keys, dtype.key), _stripped(array.items, dtype.value)]
            fields = [array.type.key_field, array.type.item_field]
            return rebuild_list(array, array.type, pa.StructArray.from_arrays(parts, fields=fields))
        case ArrayType():
            return rebuild_list(array, array.type, _stripped(array.values, dtype.element))
        case _:
            return array
