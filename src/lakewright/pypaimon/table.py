"""pypaimon's table: lakewright's, with the attributes and managers that scripts for pypaimon use."""

from __future__ import annotations

from typing import ClassVar

from lakewright.pypaimon.read.builder import ReadBuilder, StreamReadBuilder
from lakewright.pypaimon.read.file_io import FileIO
from lakewright.pypaimon.values.options import CoreOptions
from lakewright.pypaimon.write import BatchWriteBuilder, PostponeFixedBucketWriteBuilder, StreamWriteBuilder
from lakewright.read import builder
from lakewright.read.changes import stream
from lakewright.table import table as core


class FileStoreTable(core.FileStoreTable):
    """A table with pypaimon's shapes."""

    __slots__ = ()
    _read_builder_class: ClassVar[type[builder.ReadBuilder]] = ReadBuilder
    _stream_read_builder_class: ClassVar[type[stream.StreamReadBuilder]] = StreamReadBuilder

    def new_batch_write_builder(self) -> BatchWriteBuilder:
        """Start a batch write: one writer (or many), one commit."""
        return BatchWriteBuilder(self)

    def new_write_builder(self) -> BatchWriteBuilder:
        """Start a batch write, under pypaimon-rust's name."""
        return BatchWriteBuilder(self)

    def new_stream_write_builder(self) -> StreamWriteBuilder:
        """Start a stream write: many commits, each with an identifier."""
        return StreamWriteBuilder(self)

    def new_postpone_fixed_bucket_write_builder(self) -> PostponeFixedBucketWriteBuilder:
        """Start a batch write straight into real buckets of a table that postpones them (`bucket` = -2)."""
        return PostponeFixedBucketWriteBuilder(self)

    @property
    def options(self) -> CoreOptions:
        """The effective options."""
        return CoreOptions(self.store.options.to_map())

    @property
    def file_io(self) -> FileIO:
        """The files of the storage in which the table lies."""
        return FileIO(self.store.storage)
