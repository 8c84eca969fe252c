"""Columns that a read returns and needs.

A path into a ROW such as `a.b` gives a column named `a_b`; of the ROW only the wanted fields are read. Columns that
only the filter needs are read and dropped again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from lakewright.errors import InvalidInputError
from lakewright.formats.blob_values import BlobType
from lakewright.spec import argument_checks
from lakewright.spec.argument_checks import BlobForm
from lakewright.spec.arrow_types import to_arrow_schema
from lakewright.spec.predicate import TRUE, Predicate, resolve_path
from lakewright.spec.system_columns import INSERT, KIND_NAMES, ROW_ID, SEQUENCE_NUMBER
from lakewright.spec.types import ArrayType, AtomicType, DataField, DataType, RowType, blob_fields, with_nullable

ROW_TRACKING_FIELDS = (ROW_ID, SEQUENCE_NUMBER)
ROW_KIND = "_row_kind"  # the column that says what happened to a row: one of `KIND_NAMES`


@dataclass(frozen=True)
class Projection:
    """The fields to read, and where each column of the result comes from."""

    read_fields: tuple[DataField, ...]  # columns of the table; of a ROW perhaps only a part
    fields: tuple[DataField, ...]  # the columns of the result
    paths: tuple[tuple[str, ...], ...]  # of each column of the result
    blobs: BlobForm = "bytes"  # what the values of BLOB columns come as
    kind: str | None = None  # the name of the column of the result that is the kind of each row, where there is one
    rows: Projection | None = None  # of the rows that are put into lists, two for an update; None: rows stay rows

    @cached_property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the result."""
        schema = to_arrow_schema(self.fields)
        if self.blobs != "lazy":
            return schema
        lazy = {field.name for field in blob_fields(self.fields)}
        return pa.schema([field.with_type(BlobType()) if field.name in lazy else field for field in schema])

    @cached_property
    def _stored_schema(self) -> pa.Schema:
        """The Arrow schema of the result while its BLOB columns are descriptors."""
        return to_arrow_schema(self.fields)

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch of the read fields as one of the result; rows that come without a kind are inserts."""
        if not self.paths:
            return batch.select([])
        if self.kind is not None and self.kind not in batch.schema.names:
            batch = batch.append_column(self.kind, pa.repeat(KIND_NAMES[INSERT], batch.num_rows))
        columns = []
        for path in self.paths:
            column = batch.column(path[0])
            for name in path[1:]:
                column = pc.struct_field(column, name)
            columns.append(column)
        return pa.RecordBatch.from_arrays(columns, schema=self._stored_schema)

    def with_kinds(self, name: str = ROW_KIND) -> Projection:
        """Return a projection whose result begins with the kind of each row."""
        if any(field.name == name for field in (*self.read_fields, *self.fields)):
            raise InvalidInputError(
                f"the kind of a row would come as {name!r}, but a column has that name; leave it out, or rename it",
                column=name,
            )
        field = DataField(-1, name, AtomicType("STRING"))
        return replace(self, fields=(field, *self.fields), paths=((name,), *self.paths), kind=name)

    def with_columns(self, names: Sequence[str]) -> Projection:
        """Return a projection whose result has only these columns, in this order."""
        known = {field.name: (field, path) for field, path in zip(self.fields, self.paths, strict=True)}
        found = [known[name] for name in names]
        return replace(self, fields=tuple(field for field, _ in found), paths=tuple(path for _, path in found))

    def in_lists(self) -> Projection:
        """Return a projection whose columns are lists: one value of a row, or the old and the new one of an update."""
        fields = [
            field if field.name == self.kind else replace(field, type=ArrayType(True, with_nullable(field.type, True)))  # noqa: FBT003
            for field in self.fields
        ]
        return replace(self, fields=tuple(fields), rows=self)

    def empty(self) -> pa.Table:
        """Return a result without rows."""
        return self.schema.empty_table()


def plan_projection(
    fields: Sequence[DataField],
    columns: Sequence[str] | Mapping[str, str] | None = None,
    predicate: Predicate = TRUE,
    *,
    hidden: Sequence[DataField] = (),
) -> Projection:
    """Plan the reading of some columns, all where none are named; hidden ones come only when they are named.

    >>> fields = [DataField(0, "r", RowType(True, [DataField(1, "x", AtomicType("INT"))]))]
    >>> [(field.id, field.name) for field in plan_projection(fields, ["r.x"]).fields]
    [(1, 'r_x')]
    """
    known = {field.name: field for field in (*fields, *hidden)}
    outputs: dict[str, tuple[tuple[str, ...], DataField]] = {}
    for name, column in _named_columns(fields, columns):
        path, dtype = resolve_path(known, column)
        label = name or "_".join(path)
        if label in outputs and outputs[label][0] != path:
            raise InvalidInputError(
                f"two columns of the projection are named {label!r}; name them with a mapping of names to columns",
                column=label,
            )
        outputs.setdefault(label, (path, _output_field(known, path, dtype, label)))
    needed = {path for path, _ in outputs.values()} | {leaf.path for leaf in predicate.leaves() if leaf.path}
    read = tuple(_part(field, {path[1:] for path in needed if path[0] == name}) for name, field in known.items())
    return Projection(
        tuple(field for field in read if any(path[0] == field.name for path in needed)),
        tuple(field for _, field in outputs.values()),
        tuple(path for path, _ in outputs.values()),
    )


def to_columns(argument: str, given: object) -> tuple[str, ...] | dict[str, str] | None:
    """Return columns as a caller names them: one, several, or a mapping from new names to columns; None is all."""
    if given is None or not isinstance(given, Mapping):
        return None if given is None else argument_checks.check_names(argument, given)
    return {
        name: argument_checks.check_text(argument, column)
        for name, column in argument_checks.check_mapping(argument, given).items()
    }


def _named_columns(
    fields: Sequence[DataField], columns: Sequence[str] | Mapping[str, str] | None
) -> Iterable[tuple[str | None, str]]:
    if columns is None:
        return [(field.name, field.name) for field in fields]
    if isinstance(columns, Mapping):
        return list(columns.items())
    return [(None, name) for name in columns]


def _output_field(known: Mapping[str, DataField], path: tuple[str, ...], dtype: DataType, label: str) -> DataField:
    field = known[path[0]]
    nullable = dtype.nullable
    for name in path[1:]:
        nullable = nullable or field.type.nullable
        inner = field.type
        if isinstance(inner, RowType):
            field = next(f for f in inner.fields if f.name == name)
    return replace(field, name=label, type=with_nullable(dtype, nullable))


def _part(field: DataField, paths: set[tuple[str, ...]]) -> DataField:
    """Return a field with only the fields of these paths inside its ROW; the empty path means the whole field."""
    if not paths or () in paths or not isinstance(field.type, RowType):
        return field
    kept = [
        _part(inner, {path[1:] for path in paths if path[0] == inner.name})
        for inner in field.type.fields
        if any(path[0] == inner.name for path in paths)
    ]
    return replace(field, type=RowType(field.type.nullable, kept))
