"""The embedded engine passes the contract of engines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import pyarrow as pa
import pytest

import lakewright as lw
from lakewright.storage.local import LocalStorage
from lakewright.testing.engine_suite import Argument, EngineContract, Frame


class Embedded:
    """This process as an engine: a frame is a reader of batches."""

    def frame(self, rows: pa.Table, parts: int = 3) -> pa.RecordBatchReader:
        size = max(1, -(-rows.num_rows // parts))
        return _reader(rows.schema, iter(rows.combine_chunks().to_batches(max_chunksize=size)))

    def failing_frame(self, rows: pa.Table) -> pa.RecordBatchReader:
        def batches() -> Iterator[pa.RecordBatch]:
            yield from rows.to_batches()
            raise ValueError("the input is bad")

        return _reader(rows.schema, batches())

    def write(
        self, frame: Frame, table: lw.FileStoreTable | str, mode: Argument = "append", **arguments: Argument
    ) -> lw.CommitResult:
        return lw.write_table(frame, table, mode, **arguments)

    def read(self, table: Argument, **arguments: Argument) -> pa.Table:
        return lw.read_table(table, **arguments)

    def pinned(self, table: lw.FileStoreTable) -> Callable[[], pa.Table]:
        builder = table.new_read_builder()
        splits = builder.new_scan().plan().splits()
        return lambda: builder.new_read().to_arrow(splits)

    def delete(self, table: lw.FileStoreTable, where: str) -> lw.UpdateResult:
        return table.delete(where)

    def update(self, table: lw.FileStoreTable, assignments: Mapping[str, object], where: str) -> lw.UpdateResult:
        return table.update(assignments, where)

    def merge(self, frame: Frame, table: lw.FileStoreTable, on: str | Sequence[str]) -> lw.MergeBuilder:
        return table.merge(frame.read_all(), on)

    def forbid_jobs(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(LocalStorage, "open_output", lambda *_: pytest.fail("a file was written"))


def _reader(schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(schema, batches)


@pytest.fixture
def engine() -> Embedded:
    return Embedded()


class TestEmbedded(EngineContract):
    """The embedded engine."""
