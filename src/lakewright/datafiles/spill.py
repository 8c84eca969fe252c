"""Rows that do not fit into memory: tables in, the same tables out again, from an unnamed file on the local disk.

Each spill is one file without a name, so it is removed once its last table is released, or the process ends. It is not
compressed, because it is mostly read back from the page cache. A table that is given in parts can be read back in these
parts, or as one table.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterable, Iterator

import pyarrow as pa


class Spill:
    """One file of spilled tables, read back by number."""

    def __init__(self, tables: Iterable[Iterable[pa.Table]], schema: pa.Schema) -> None:
        """Write tables of one schema, each given in parts; a part is written before the next is taken."""
        self._lock = threading.Lock()
        self._schema = schema
        self._bounds = [0]
        self._file = tempfile.TemporaryFile(prefix="lakewright-")  # noqa: SIM115 - closed with its last table
        try:
            with pa.ipc.new_file(pa.PythonFile(self._file, mode="w"), schema) as writer:
                for parts in tables:
                    self._bounds.append(self._bounds[-1] + sum(_write(part, writer) for part in parts))
            self._reader = pa.ipc.open_file(pa.PythonFile(self._file, mode="r"))
        except BaseException:
            self._file.close()
            raise
        self._left = len(self._bounds) - 1

    @property
    def count(self) -> int:
        """How many tables there are."""
        return len(self._bounds) - 1

    def close(self) -> None:
        """Remove the file, whatever was released."""
        self._file.close()

    def read(self, number: int) -> pa.Table:
        """Return a spilled table by its number, whole."""
        return pa.concat_tables([self._schema.empty_table(), *self.parts(number)])

    def parts(self, number: int) -> Iterator[pa.Table]:
        """Yield the parts of a spilled table, by its number."""
        for at in range(self._bounds[number], self._bounds[number + 1]):
            with self._lock:
                batch = self._reader.get_batch(at)
            yield pa.Table.from_batches([batch])

    def release(self) -> None:
        """Release one of the tables; once all are released, the file is removed."""
        with self._lock:
            self._left -= 1
            if self._left == 0:
                self._file.close()


def _write(part: pa.Table, writer: pa.ipc.RecordBatchFileWriter) -> int:
    batches = part.combine_chunks().to_batches()
    for batch in batches:
        writer.write_batch(batch)
    return len(batches)
