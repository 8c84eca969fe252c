"""A table read as a log of changes: its rows in, rows with their kind in a column `rowkind` out.

The kind is a column like the others here: it can be named in a projection, and is left out by one that does not name
it. In the binary log every other column is a list: the old and the new value of an update, else one value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Self

from lakewright.errors import ColumnNotExistException, UnsupportedError
from lakewright.metadata.store import TableStore
from lakewright.read.branches import OtherBranch
from lakewright.read.builder import ReadBuilder
from lakewright.read.changes.stream import StreamReadBuilder
from lakewright.read.projection import Projection, to_columns
from lakewright.spec.predicate.filters import Filter

KIND_COLUMN = "rowkind"


class LogReadBuilder(ReadBuilder):
    """Says what to read of a log."""

    def __init__(self, store: TableStore, other: OtherBranch | None = None) -> None:
        super().__init__(store, other)
        self._names: tuple[str, ...] | None = None  # of the result, that of the kind included; None: all
        self.with_include_row_kind()

    def with_filter(self, predicate: Filter | None) -> Self:
        """Keep changes whose row fulfils a predicate on the columns of the table; calls add up."""
        try:
            return super().with_filter(predicate)
        except ColumnNotExistException as error:
            if error.facts.get("column") != KIND_COLUMN:
                raise
            raise UnsupportedError(
                f"{self._store.name}: a read cannot filter by {KIND_COLUMN}: filter what was read, or use SQL",
                table=self._store.name,
                column=KIND_COLUMN,
            ) from None

    def with_projection(self, projection: str | Sequence[str] | Mapping[str, str] | None) -> Self:
        """Read some columns, in this order; `rowkind` is one of them."""
        if projection is None or isinstance(projection, Mapping):
            self._names = None
            return super().with_projection(projection)
        given = to_columns("columns", projection) or ()
        own = [name for name in dict.fromkeys(given) if name != KIND_COLUMN]
        super().with_projection(own or [self._store.schema.fields[0].name])
        labels = dict(zip(own, (field.name for field in self._rows().fields[1:]), strict=False))
        self._names = tuple(dict.fromkeys(labels.get(name, name) for name in given))
        return self

    def with_include_row_kind(self, include: bool = True, column: str = KIND_COLUMN) -> Self:  # noqa: ARG002, FBT001, FBT002 - pypaimon's signature
        """Do nothing: a log always has the kinds, in its own column."""
        return super().with_include_row_kind(column=KIND_COLUMN)

    def _projection(self) -> Projection:
        made = self._rows()
        return made if self._names is None else made.chosen(self._names)

    def _rows(self) -> Projection:
        """Return the projection before columns are left out and ordered."""
        return super()._projection()


class BinaryLogReadBuilder(LogReadBuilder):
    """Says what to read of a log in which an update is one row."""

    def with_filter(self, predicate: Filter | None) -> Self:
        """Keep changes by their partition and primary key, which the old and the new row of an update share."""
        if predicate is not None:
            schema = self._store.schema
            bound = LogReadBuilder(self._store).with_filter(predicate).predicate
            for name in sorted(bound.columns() - {*schema.partition_keys, *schema.primary_keys}):
                raise UnsupportedError(
                    f"{self._store.name}: {name} may differ in the two rows of an update, and a row of a binary log "
                    "holds both: filter what was read, or filter by the partition and the primary key",
                    table=self._store.name,
                    column=name,
                )
        return super().with_filter(predicate)

    def _rows(self) -> Projection:
        return super()._rows().in_lists()


class LogStreamReadBuilder(StreamReadBuilder):
    """Says what of a log to follow."""

    _builder_class: ClassVar[type[ReadBuilder]] = LogReadBuilder


class BinaryLogStreamReadBuilder(StreamReadBuilder):
    """Says what to follow of a log in which an update is one row."""

    _builder_class: ClassVar[type[ReadBuilder]] = BinaryLogReadBuilder
