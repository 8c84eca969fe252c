"""Rows that do not fit into memory: tables in, the same tables out again, from an unnamed file on the local disk.

Each spill is one file without a name, so it goes away with its last table, or with the process. A bucket comes back in
one piece, which makes one good row group of what arrived in many small parts, whatever the format of the data files
and however dear an open file is in the store they go to. It is not compressed: it rarely outlives the page cache.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Sequence

import pyarrow as pa


class Spill:
    """One file of spilled tables, read back by number."""

    def __init__(self, tables: Sequence[Sequence[pa.Table]]) -> None:
        """Write the tables, each given in parts of one schema."""
        self._lock = threading.Lock()
        self._left = len(tables)
        self._bounds = [0]
        self._file = tempfile.TemporaryFile(prefix="lakewright-")  # noqa: SIM115 - closed with its last table
        try:
            self._write(tables)
            self._reader = pa.ipc.open_file(pa.PythonFile(self._file, mode="r"))
        except BaseException:
            self._file.close()
            raise

    def read(self, number: int) -> pa.Table:
        """Return a table."""
        first, end = self._bounds[number], self._bounds[number + 1]
        with self._lock:
            return pa.Table.from_batches([self._reader.get_batch(i) for i in range(first, end)])

    def release(self) -> None:
        """Say that one of the tables is not needed any more; the file goes with the last."""
        with self._lock:
            self._left -= 1
            if self._left == 0:
                self._file.close()

    def _write(self, tables: Sequence[Sequence[pa.Table]]) -> None:
        with pa.ipc.new_file(pa.PythonFile(self._file, mode="w"), tables[0][0].schema) as writer:
            for parts in tables:
                batches = pa.concat_tables(parts).combine_chunks().to_batches()
                for batch in batches:
                    writer.write_batch(batch)
                self._bounds.append(self._bounds[-1] + len(batches))
