"""The steps of an ingest, for any engine: from a call to a snapshot.

    look for the job's own commit -> find the sources -> open them -> settle the columns of the table -> fit the columns
    of each source -> [dry run ends here] -> make or evolve the table -> the engine writes and commits

What names and types can tell is checked before anything is written or created.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Protocol

import pyarrow as pa

from lakewright.calls import check_mode, merged_table
from lakewright.commit.table_commit import WriteResult
from lakewright.compact.job import RunTasks
from lakewright.distributed.protocol import committed_job
from lakewright.errors import InvalidInputError, naming
from lakewright.ingestion.columns import ADDED, WIDENED, Change, Fit, Wish, check_renames, fit
from lakewright.ingestion.plan import Call, IngestPlan, IngestResult, SourceReport, Target, check_same
from lakewright.ingestion.rows import BadRows, Conversion
from lakewright.ingestion.sources import Source
from lakewright.ingestion.text import STRING, TextForms, as_text, common_type
from lakewright.spec.arrow import to_arrow_field
from lakewright.spec.schema.supported import check_supported_for_write
from lakewright.spec.schema.table_schema import Schema, TableSchema, new_table_schema
from lakewright.spec.types import (
    WIDENED_BY_KIND,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    RowType,
    numbered_fields,
    parse_type,
    with_nullable,
)
from lakewright.spec.values import cast_text
from lakewright.table.table import FileStoreTable


class Opened(Protocol):
    """One source, opened by an engine far enough to know its columns."""

    @property
    def source(self) -> Source:
        """What was opened."""

    @property
    def fields(self) -> Sequence[DataField]:
        """The columns; those that hold text for values are STRING, or what a json file shows."""

    @property
    def text(self) -> frozenset[str]:
        """The columns that hold texts for values."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a person should look at."""

    @property
    def forms(self) -> TextForms:
        """How texts stand for values."""

    def guess(self, names: Collection[str]) -> Mapping[str, DataType]:
        """Return the types that the values of some columns show."""

    def named(self, names: Sequence[str]) -> Opened:
        """Return the source with other names for its columns."""


@dataclass(frozen=True, slots=True)
class Written:
    """What an engine brought into the table."""

    result: WriteResult
    duplicates: int | None = None


class Engine(Protocol):
    """What reads sources and writes rows."""

    @property
    def compactions(self) -> RunTasks | None:
        """What runs compactions; None: this process."""

    def open(self, source: Source, call: Call) -> Sequence[Opened]:
        """Open a source; one whose files differ in their columns becomes several."""

    def way(self, target: Target, parts: Sequence[tuple[Opened, Conversion]], call: Call, /) -> str:
        """Say how the rows would be written."""

    def write(
        self, table: FileStoreTable, parts: Sequence[tuple[Opened, Conversion]], call: Call, bad: BadRows
    ) -> Written:
        """Write the rows of all sources and commit them once."""


def run(engine: Engine, target: Target, call: Call, find: Callable[[], Sequence[Source]]) -> IngestResult:
    """Go from sources, which are looked for only if nobody has done the job, to a snapshot."""
    started = time.monotonic()
    if call.job_id is not None and target.table is not None:
        earlier = committed_job(target.table, call.job_id, run=engine.compactions)
        if earlier is not None:
            return IngestResult(_plan(target, (), call), earlier, time.monotonic() - started)
    sources = find()
    opened = [one for source in sources for one in engine.open(source, call)]
    opened = _without_headers(opened, target, call)
    target = _settled(target, opened, call)
    check_mode(target, call.mode, call.schema_mode)
    with naming(target.name):
        check_supported_for_write(target.known)
    _check_constants(target.name, target.known, call.wish)
    check_renames([[f.name for f in one.fields] for one in opened], call.wish)
    fits = [_fit(one, target, call.wish) for one in opened]
    _check_alike(target, fits, call)
    added = _added(opened, fits, call)
    fields = (*target.known.fields, *added)
    parts = [(one, _conversion(one, found, fields, target, call)) for one, found in zip(opened, fits, strict=True)]
    reports = [_report(one, found, fields) for one, found in zip(opened, fits, strict=True)]
    plan = _plan(target, tuple(reports), call, added)
    if call.dry_run:
        plan = replace(plan, way=engine.way(target, parts, call))
    call.report(plan)
    if call.dry_run:
        return IngestResult(plan, None, time.monotonic() - started)
    table = _ready(target, parts, call)
    parts = [
        (one, replace(conversion, fields=tuple(table.fields))) for one, conversion in parts
    ]  # types may be wider now
    remedy = "" if call.bad_rows else "; correct it, or set bad rows aside (bad_rows, --bad-rows)"
    bad = BadRows(call.bad_rows, remedy=remedy)
    try:
        written = engine.write(table, parts, call, bad)
    except BaseException:
        bad.forget()
        raise
    return IngestResult(plan, written.result, time.monotonic() - started, bad.count, bad.file, written.duplicates)


# ---- the columns of the table ----------------------------------------------------------------------------------------


def _without_headers(opened: Sequence[Opened], target: Target, call: Call) -> list[Opened]:
    """Name the columns of csv files without a header after those of the table that is there, by their order."""
    if call.header or target.table is None:
        return list(opened)
    out = []
    for one in opened:
        directories = set(one.source.partition_columns)
        names = [f.name for f in target.table.fields if f.name not in {*directories, *call.wish.constants}]
        own = [f.name for f in one.fields if f.name not in directories]
        if one.source.format == "csv" and len(own) != len(names):
            raise InvalidInputError(
                f"table {target.name} has the columns {', '.join(names)}, and the lines of {one.source.name} have "
                f"{len(own)} fields; without a header there must be one for each column",
                table=target.name,
            )
        out.append(one.named(names) if one.source.format == "csv" else one)
    return out


def _settled(target: Target, opened: Sequence[Opened], call: Call) -> Target:
    """Return the target with the columns of a new table, or check that the table there is what was asked for."""
    if target.table is not None:
        check_same(target.table, call.creation, call.types)
        return target
    fields = _new_fields(opened, call)
    creation = call.creation
    declared = Schema(fields, list(creation.partition_by), list(creation.primary_key), dict(creation.options))
    with naming(target.name):
        made = new_table_schema(declared, time_millis=int(time.time() * 1000))
    return Target(target.name, None, target.identifier, target.catalog, made, declared)


def _new_fields(opened: Sequence[Opened], call: Call) -> list[DataField]:
    """Return the columns of a new table: those of all sources, with the types that were said or that the data shows."""
    wish = call.wish
    types: dict[str, DataType] = {}
    for one in opened:
        chosen = [f.name for f in one.fields if wish.columns is None or f.name in wish.columns]
        targets = {name: _alike(wish.renames.get(name, name), types) for name in chosen}
        _add_types(types, one, targets, call.types)
    for name in wish.constants:
        types.setdefault(name, parse_type(call.types[name]) if name in call.types else STRING)
    unknown = [name for name in call.types if name not in types]
    if unknown:
        raise InvalidInputError(
            f"there is no column {unknown[0]!r} to give a type; the new table has {', '.join(sorted(types))}",
            column=unknown[0],
        )
    return list(numbered_fields([DataField(0, name, dtype) for name, dtype in types.items()], count()))


def _alike(name: str, known: Collection[str]) -> str:
    """Return a name that is known, where it differs from this one only in case."""
    return next((other for other in known if name not in known and other.casefold() == name.casefold()), name)


def _add_types(types: dict[str, DataType], one: Opened, targets: Mapping[str, str], given: Mapping[str, str]) -> None:
    """Add the types of a source's columns, by their names in the table."""
    guessed = one.guess([name for name, target in targets.items() if target not in given])
    for name, target in targets.items():
        if target in given:
            types[target] = parse_type(given[target])
        elif target in types:
            types[target] = _common(types[target], guessed[name], target, one, text=name in one.text)
        else:
            types[target] = guessed[name]


def _common(known: DataType, found: DataType, column: str, one: Opened, *, text: bool) -> DataType:
    if known == found:
        return known
    if isinstance(known, AtomicType) and isinstance(found, AtomicType):
        for order in WIDENED_BY_KIND:
            if known.root in order and found.root in order:
                return max(known, found, key=lambda dtype: order.index(dtype.root))
        if text:
            return common_type([known, found])
    raise InvalidInputError(
        f"the sources disagree about the column {column!r}: {found} in {one.source.name!r}, {known} before; give it a "
        "type, or ingest them one after the other",
        column=column,
    )


def _added(opened: Sequence[Opened], fits: Sequence[Fit], call: Call) -> list[DataField]:
    """Return the columns that the table takes up, with their types."""
    types: dict[str, DataType] = {}
    for one, found in zip(opened, fits, strict=True):
        new = {change.column for change in found.changes if change.kind == ADDED}
        _add_types(types, one, {name: target for name, target in found.pairs if target in new}, call.types)
    return [DataField(-1, name, with_nullable(dtype, nullable=True)) for name, dtype in types.items()]


def _ready(target: Target, parts: Sequence[tuple[Opened, Conversion]], call: Call) -> FileStoreTable:
    """Return the table, made or evolved as was asked for."""
    table = target.made()
    if call.schema_mode != "merge":
        return table
    known = {f.name for f in table.fields}
    for one, conversion in parts:
        own = {f.name: f for f in one.fields}
        typed = [replace(own[name], name=to) for name, to in conversion.pairs if to in known and name not in one.text]
        new = [f for f in conversion.fields if f.name not in known]
        fields = [replace(f, type=with_nullable(f.type, nullable=True)) for f in (*typed, *new)]
        table = merged_table(table, pa.schema([to_arrow_field(f) for f in fields]))
    return table


# ---- the columns of a source -----------------------------------------------------------------------------------------


def _fit(one: Opened, target: Target, wish: Wish) -> Fit:
    schema = target.known
    keys = {*schema.primary_keys, *schema.partition_keys} if schema.primary_keys else set[str]()
    return fit([f.name for f in one.fields], schema.fields, keys, wish, name=target.name)


def _check_alike(target: Target, fits: Sequence[Fit], call: Call) -> None:
    """Refuse sources of an upsert that differ in their columns: a column that a row lacks stays as it is."""
    columns = [{*(to for _, to in one.pairs), *one.constants} for one in fits]
    if call.mode == "upsert" and any(one != columns[0] for one in columns):
        raise InvalidInputError(
            f"{target.name}: the sources differ in their columns, and an upsert leaves those that a row lacks as they "
            "are; ingest them one after the other",
            table=target.name,
        )


def _conversion(one: Opened, found: Fit, fields: Sequence[DataField], target: Target, call: Call) -> Conversion:
    """Return how the rows of a source are made, checked as far as types tell."""
    known = {f.name: f.type for f in fields}
    own = {f.name: f for f in one.fields}
    for name, to in found.pairs:
        if name in one.text and to in known:
            _check_inside(to, own[name].type, known[to])
    constants = {name: str(value) for name, value in found.constants.items()}
    made = Conversion(target.name, one.source.name, tuple(fields), found.pairs, one.text, constants, one.forms)
    if not call.wish.add_extra:  # the table's types may change otherwise
        made.check(pa.schema([to_arrow_field(_as_read(one, own[name], known.get(to))) for name, to in found.pairs]))
    return made


def _as_read(one: Opened, own: DataField, wanted: DataType | None) -> DataField:
    """Return a column as it is read: json in the shape of the table's column, other texts as texts."""
    if own.name not in one.text or wanted is None:
        return own
    inside = one.source.format == "json" and own.name not in one.source.partition_columns
    return replace(own, type=as_text(wanted) if inside else STRING)


def _check_inside(name: str, found: DataType, wanted: DataType) -> None:
    """Refuse fields inside of json objects that the table's type lacks: they would be left out in silence."""
    match found, wanted:
        case RowType(), RowType():
            inside = {f.name: f.type for f in wanted.fields}
            for one in found.fields:
                if one.name not in inside:
                    raise InvalidInputError(
                        f"the source has the field {one.name!r} in the column {name!r}, which the table lacks "
                        f"({wanted}); add it to the table or take it out",
                        column=name,
                    )
                _check_inside(f"{name}.{one.name}", one.type, inside[one.name])
        case ArrayType(), ArrayType():
            _check_inside(f"{name}.element", found.element, wanted.element)
        case RowType(), MapType():
            for one in found.fields:
                _check_inside(f"{name}.{one.name}", one.type, wanted.value)
        case _:
            pass


def _report(one: Opened, found: Fit, fields: Sequence[DataField]) -> SourceReport:
    source = one.source
    known = {f.name: f.type for f in fields}
    own = {f.name: f.type for f in one.fields}
    changes = [_typed(change, known) for change in found.changes]
    for name, to in found.pairs:
        if name not in one.text and to in known and _plain(own[name]) != _plain(known[to]):
            changes.append(Change(WIDENED, to, f"{_plain(own[name])} to {_plain(known[to])}"))
    return SourceReport(source.name, source.format, source.files, source.bytes, tuple(changes), one.warnings)


def _typed(change: Change, known: Mapping[str, DataType]) -> Change:
    if change.kind != ADDED:
        return change
    return replace(change, detail=f"{change.detail}, {known[change.column]}")


def _plain(dtype: DataType) -> str:
    return str(with_nullable(dtype, nullable=True))


def _plan(target: Target, sources: tuple[SourceReport, ...], call: Call, added: Sequence[DataField] = ()) -> IngestPlan:
    schema = target.known
    return IngestPlan(
        target.name,
        call.mode,
        target.table is None,
        {f.name: str(f.type) for f in (*schema.fields, *added)},
        tuple(schema.primary_keys),
        tuple(schema.partition_keys),
        None if call.replaced is None else {name: str(value) for name, value in call.replaced.items()},
        sources,
        call.job_id,
    )


def _check_constants(table: str, schema: TableSchema, wish: Wish) -> None:
    for name, value in wish.constants.items():
        if name not in schema.partition_keys:
            raise InvalidInputError(
                f"table {table}: {name!r} is no partition column; it has {', '.join(schema.partition_keys) or 'none'}",
                table=table,
                column=name,
            )
        with naming(table):
            cast_text(str(value), schema.field(name).type)
