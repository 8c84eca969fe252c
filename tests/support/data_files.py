"""Data files in memory, for the tests of the formats."""

from __future__ import annotations

import io
from collections.abc import Sequence

import pyarrow as pa

from lakewright.formats.file_format import WriteOptions, WrittenFile
from lakewright.formats.format_registry import open_reader, open_writer
from lakewright.spec.column_stats import FULL
from lakewright.spec.predicate import Predicate
from lakewright.spec.types import DataField

FORMATS = ("parquet", "orc", "avro")  # that need no other package


class MemoryOutput(io.BytesIO):
    """A file that a storage opened for writing."""

    data: bytes | None = None
    discarded = False

    def close(self) -> None:
        self.data = self.getvalue()

    def discard(self) -> None:
        self.discarded = True


def options(fields: Sequence[DataField], **more: object) -> WriteOptions:
    return WriteOptions(stats=(FULL,) * len(fields), **more)  # type: ignore[arg-type]


def write(
    file_format: str, tables: Sequence[pa.Table], fields: Sequence[DataField], given: WriteOptions | None = None
) -> tuple[bytes, WrittenFile]:
    output = MemoryOutput()
    writer = open_writer(file_format, output, fields, given or options(fields))
    for table in tables:
        writer.write(table)
    facts = writer.close()
    assert output.data is not None
    assert facts.size == len(output.data)
    return output.data, facts


def read(
    file_format: str,
    data: bytes,
    fields: Sequence[DataField],
    *,
    skip: Predicate | None = None,
    batch_rows: int | None = None,
) -> tuple[pa.Table, list[int]]:
    """Return the rows and the position of each."""
    reader = open_reader(file_format, io.BytesIO(data), path="memory", size=len(data), fields=fields)
    batches: list[pa.RecordBatch] = []
    positions: list[int] = []
    for first, batch in reader.batches(skip=skip, batch_rows=batch_rows):
        batches.append(batch)
        positions.extend(range(first, first + batch.num_rows))
    if skip is None:
        assert positions == list(range(reader.row_count))
    reader.close()
    schema = batches[0].schema if batches else None
    return pa.Table.from_batches(batches, schema) if batches else pa.table({}), positions
