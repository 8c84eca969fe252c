"""Rows that do not fit and where they go.

A `Conversion` is a value that an engine ships to the workers that hold the batches. Bad rows are found without looking
at each row: first by the characters of texts, then by converting halves of the batch, and halves of bad halves.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from lakewright.errors import InvalidInputError
from lakewright.ingestion.text_values import ParseSettings, has_wrong_shape, parse
from lakewright.spec.arrow_types import to_arrow_type
from lakewright.spec.scalars import cast_text, to_array
from lakewright.spec.types import DataField
from lakewright.write.alignment import unknown_field
from lakewright.write.array_conversion import TypeMismatch, UnknownField, ValueMismatch, check, convert, is_constrained

_SHOWN_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class BadRow:
    """One row that does not fit the table: which column, its value there, and why it does not fit."""

    row: int  # its position in the batch
    column: str
    value: str | None
    reason: str


@dataclass(frozen=True)
class Conversion:
    """How batches of one source become rows of the table."""

    table: str
    source: str
    fields: tuple[DataField, ...]  # of the table, with those that are new
    pairs: tuple[tuple[str, str], ...]  # (name in the source, name in the table)
    text: frozenset[str] = frozenset()  # columns of the source whose values are texts that must be parsed
    constants: Mapping[str, str] = field(default_factory=dict)
    parse_settings: ParseSettings = field(default_factory=ParseSettings)

    @cached_property
    def _known(self) -> dict[str, DataField]:
        return {f.name: f for f in self.fields}

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns that come out; one that the table lacks holds the row kinds."""
        names = [target for _, target in self.pairs] + list(self.constants)
        known = self._known
        return pa.schema([(name, to_arrow_type(known[name].type) if name in known else pa.string()) for name in names])

    def check(self, given: pa.Schema) -> None:
        """Raise InvalidInputError if a column has a type none of whose values can fit."""
        self.convert_rows(given.empty_table())

    def convert_rows(self, batch: pa.Table | pa.RecordBatch) -> tuple[pa.Table, list[BadRow]]:
        """Return the rows that fit, and why the others do not."""
        try:
            return self._convert_batch(batch), []
        except _ColumnRefused:
            pass
        bad = {one.row: one for one in self._wrong_shapes(batch)}
        positions = [row for row in range(batch.num_rows) if row not in bad]
        rest = batch.take(pa.array(positions, pa.int64()))
        bad |= {positions[one.row]: one for one in self._bisect(rest, 0)}
        kept = pa.array([row for row in range(batch.num_rows) if row not in bad], pa.int64())
        misfits = [BadRow(row, one.column, one.value, one.reason) for row, one in sorted(bad.items())]
        return self._convert_batch(batch.take(kept)), misfits

    def _convert_batch(self, batch: pa.Table | pa.RecordBatch) -> pa.Table:
        columns = [self._column(batch, name, target) for name, target in self.pairs]
        columns += [
            pa.repeat(to_array([cast_text(text, self._known[name].type)], self._known[name].type)[0], batch.num_rows)
            for name, text in self.constants.items()
        ]
        return pa.Table.from_arrays(columns, schema=self.schema)

    def _column(self, batch: pa.Table | pa.RecordBatch, name: str, target: str) -> pa.Array | pa.ChunkedArray:
        column = batch.column(name)
        array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        field_ = self._known.get(target)
        if field_ is None:
            return array.cast(pa.string())
        try:
            values = parse(array, field_.type, self.parse_settings) if name in self.text else array
            values = convert(values, field_.type)
            if is_constrained(field_.type) and field_.default_value is None:
                check(values, field_.type)
        except (ValueMismatch, pa.ArrowInvalid) as error:
            raise _ColumnRefused(name, target, str(error)) from None
        except UnknownField as error:
            error.path = (target, *error.path)
            raise unknown_field(self.table, field_, error) from None
        except (TypeMismatch, pa.ArrowNotImplementedError) as error:
            raise InvalidInputError(
                f"table {self.table}: the column {target!r} is {field_.type}, and {self.source} cannot fill it: "
                f"{error}",
                table=self.table,
                column=target,
            ) from None
        return values

    def _wrong_shapes(self, batch: pa.Table | pa.RecordBatch) -> list[BadRow]:
        """Return the rows with a text whose characters alone show that it is no value of the column."""
        bad: dict[int, BadRow] = {}
        for name, target in self.pairs:
            if name not in self.text or target not in self._known:
                continue
            column = batch.column(name)
            array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
            flags = has_wrong_shape(array, self._known[target].type, self.parse_settings)
            for row in pc.indices_nonzero(flags).to_pylist():
                bad.setdefault(row, self._bad(batch, row, _ColumnRefused(name, target, "")))
        return list(bad.values())

    def _bisect(self, batch: pa.Table | pa.RecordBatch, first: int) -> list[BadRow]:
        """Return the rows of a batch that do not fit, numbered from `first`."""
        try:
            self._convert_batch(batch)
        except _ColumnRefused as refused:
            if batch.num_rows == 1:
                return [self._bad(batch, 0, refused, number=first)]
            half = batch.num_rows // 2
            return self._bisect(batch.slice(0, half), first) + self._bisect(batch.slice(half), first + half)
        return []

    def _bad(
        self, batch: pa.Table | pa.RecordBatch, row: int, refused: _ColumnRefused, *, number: int | None = None
    ) -> BadRow:
        value = batch.column(refused.name)[row].as_py()
        dtype = self._known[refused.target].type
        reason = refused.reason
        if not reason:
            try:
                self._column(batch.slice(row, 1), refused.name, refused.target)
            except _ColumnRefused as again:
                reason = again.reason
        shown = None if value is None else str(value)[:_SHOWN_CHARACTERS]
        message = f"the column {refused.target!r} cannot take {shown!r} as {dtype}: {reason}"
        return BadRow(row if number is None else number, refused.target, shown, message)


class _ColumnRefused(Exception):  # noqa: N818 - a reason that stays in this module
    """At least one value of a column does not fit."""

    def __init__(self, name: str, target: str, reason: str) -> None:
        super().__init__(name, target, reason)
        self.name, self.target, self.reason = name, target, reason


# ---- bad records -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BadRecord:
    """One record of a source that does not fit the table, with its file and line."""

    file: str
    line: int | None
    record: object  # the text of the record, or its values
    column: str | None
    value: str | None
    reason: str

    def __str__(self) -> str:
        where = self.file if self.line is None else f"{self.file}, line {self.line}"
        record = (
            "" if self.line is not None or self.record is None else f" (in the record {_format_record(self.record)})"
        )
        return f"{where}: {self.reason}{record}"


def _format_record(record: object) -> str:
    text = record if isinstance(record, str) else json.dumps(record, default=str)
    return text.strip()[:_SHOWN_CHARACTERS]


class BadRowSink:
    """Where bad records go: to a file of JSON lines in a directory, or without one to an error for the first.

    The file has a name that ends with `.part` until the other rows are committed, so that a run that was killed before
    leaves no file which a later run writes again. A run with a job id gives the file a name that follows from the id:
    a later run finds it, also if the first one was killed between its commit and the renaming.
    """

    def __init__(self, directory: str | None, *, remedy: str = "", job: tuple[str, str] | None = None) -> None:
        """Collect records in a directory; `job` is the table and the id of a job that commits once."""
        self._directory = None if directory is None else Path(directory)
        self.remedy = remedy
        self.count = 0
        self.file: str | None = None
        run = str(uuid.uuid4())
        self._stem = (
            f"bad-rows-{run}" if job is None else f"bad-rows-{sha256(json.dumps(job).encode()).hexdigest()[:32]}"
        )
        self._part = f"{self._stem}.{run}.part"

    @property
    def raises(self) -> bool:
        """Whether the first bad record is an error."""
        return self._directory is None

    def add(self, records: Sequence[BadRecord]) -> None:
        """Append records to the file, or raise InvalidInputError for the first of them."""
        if not records:
            return
        if self._directory is None:
            first = records[0]
            facts = {"source": first.file, "line": first.line, "column": first.column, "value": first.value}
            raise InvalidInputError(f"{first}{self.remedy}", **facts)
        self.count += len(records)
        self._directory.mkdir(parents=True, exist_ok=True)
        with (self._directory / self._part).open("a", encoding="utf-8") as out:
            out.writelines(json.dumps(asdict(record), default=str, ensure_ascii=False) + "\n" for record in records)

    def discard(self) -> None:
        """Remove the records of this run: nothing was committed."""
        if self._directory is not None:
            (self._directory / self._part).unlink(missing_ok=True)

    def publish(self, *, replayed: bool) -> None:
        """Give the file its name: the rows are committed, by this run or (`replayed`) by an earlier one of the job."""
        if self._directory is None:
            return
        final = self._directory / f"{self._stem}.jsonl"
        parts = sorted(self._directory.glob(f"{self._stem}.*.part"), key=lambda path: path.stat().st_mtime_ns)
        own = self._directory / self._part
        if replayed:  # the newest of the earlier runs is the one that committed
            own.unlink(missing_ok=True)
            parts = [path for path in parts if path != own]
        chosen = parts[-1:] if replayed and not final.exists() else [path for path in parts if path == own]
        for path in chosen:
            path.replace(final)
        for path in parts:
            path.unlink(missing_ok=True)
        self.file = str(final) if chosen or (replayed and final.exists()) else None
        if replayed:
            self.count = 0 if self.file is None else final.read_bytes().count(b"\n")
