"""The steps of an ingest on any engine.

look for an earlier commit of the job -> find the sources -> open them -> decide the schema of a new table -> map
    the columns of each source -> [a dry run ends here] -> create or evolve the table -> the engine writes and commits

Everything that names and types decide is checked before anything is written or created.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Any, Protocol

import pyarrow as pa

from lakewright.catalog.catalog_registry import CatalogFactory
from lakewright.commit.table_commit import WriteResult
from lakewright.compact.compaction_job import TaskRunner
from lakewright.dml.distributed_write import committed_job
from lakewright.errors import CommitUnknownError, InvalidInputError, with_table_name
from lakewright.ingestion.bad_rows import BadRowSink, Conversion
from lakewright.ingestion.ingest_plan import (
    ADDED,
    NARROWED,
    WIDENED,
    ColumnChange,
    ColumnMapping,
    ColumnRequest,
    IngestCall,
    IngestPlan,
    IngestResult,
    IngestTarget,
    SourceReport,
    check_matches_table,
    check_renames,
    find_target,
    make_call,
    map_columns,
)
from lakewright.ingestion.ingest_sources import IngestSource, find_sources
from lakewright.ingestion.text_values import STRING, ParseSettings, as_text, common_type
from lakewright.spec.arrow_types import to_arrow_field
from lakewright.spec.scalars import cast_text
from lakewright.spec.schema import Schema, new_table_schema
from lakewright.spec.schema_checks import check_supported_for_write
from lakewright.spec.schema_merging import fields_of_parts, is_wider, new_parts
from lakewright.spec.table_schema import TableSchema
from lakewright.spec.types import (
    PRECISION_MAX,
    TIMESTAMP_ROOTS,
    WIDENED_BY_KIND,
    AtomicType,
    DataField,
    DataType,
    numbered_fields,
    parse_type,
    with_nullable,
)
from lakewright.table.file_store_table import FileStoreTable
from lakewright.table.verbs import add_missing_columns, check_write_mode
from lakewright.write.alignment import add_field_remedy


class OpenedSource(Protocol):
    """One source whose columns an engine knows."""

    @property
    def source(self) -> IngestSource:
        """The source that was opened."""

    @property
    def fields(self) -> Sequence[DataField]:
        """The columns; those that hold texts are STRING, or in json the type that the values have."""

    @property
    def text(self) -> frozenset[str]:
        """The columns whose values are texts that must be parsed."""

    @property
    def untyped(self) -> frozenset[str]:
        """The columns whose values are all null in files that give them no type; their field is STRING."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What looks wrong in the source, for the report."""

    @property
    def parse_settings(self) -> ParseSettings:
        """How texts are parsed."""

    def guess_types(self, names: Collection[str]) -> Mapping[str, DataType]:
        """Return the types of some columns, those of texts guessed from all values."""

    def with_column_names(self, names: Sequence[str]) -> OpenedSource:
        """Return the source with other names for its columns."""


@dataclass(frozen=True, slots=True)
class EngineResult:
    """What an engine wrote: the committed write, and how many rows had the key of an earlier row."""

    result: WriteResult
    duplicates: int | None = None  # None: not counted


class IngestEngine(Protocol):
    """What reads sources and writes rows."""

    @property
    def compactions(self) -> TaskRunner | None:
        """Runs the tasks of compactions; None: this process does."""

    def open(self, source: IngestSource, call: IngestCall) -> Sequence[OpenedSource]:
        """Open a source; one whose files differ in their columns becomes several."""

    def describe_write(
        self, target: IngestTarget, parts: Sequence[tuple[OpenedSource, Conversion]], call: IngestCall, /
    ) -> str:
        """Return in words how the rows would be written."""

    def write(
        self, table: FileStoreTable, parts: Sequence[tuple[OpenedSource, Conversion]], call: IngestCall, bad: BadRowSink
    ) -> EngineResult:
        """Write the rows of all sources and commit them once."""


def run_call(engine: IngestEngine, given: Mapping[str, Any]) -> IngestResult:
    """Run an ingest on an engine; `given` are the arguments of the engine's public `ingest` by name."""
    call = make_call(given)
    catalog = CatalogFactory.create(given["catalog"]) if isinstance(given["catalog"], Mapping) else given["catalog"]
    find = partial(find_sources, given["source"], format=given["format"], catalog=catalog)
    return run(engine, find_target(given["table"], catalog, create=given["create"]), call, find)


def run(
    engine: IngestEngine, target: IngestTarget, call: IngestCall, find: Callable[[], Sequence[IngestSource]]
) -> IngestResult:
    """Ingest the sources that `find` returns; it is not called if the job was committed before."""
    started = time.monotonic()
    if call.job_id is not None and target.table is not None:
        earlier = committed_job(target.table.store, call.job_id, run=engine.compactions)
        if earlier is not None:
            bad = _bad_rows(target, call)
            bad.publish(replayed=True)
            return IngestResult(_plan(target, (), call), earlier, time.monotonic() - started, bad.count, bad.file)
    sources = find()
    opened = [one for source in sources for one in engine.open(source, call)]
    opened = _without_headers(opened, target, call)
    target = _with_schema(target, opened, call)
    check_write_mode(target, call.mode, call.schema_mode)
    with with_table_name(target.name):
        check_supported_for_write(target.table_schema)
    _check_constants(target.name, target.table_schema, call.column_request)
    check_renames([[f.name for f in one.fields] for one in opened], call.column_request)
    mappings = [_mapping_of(one, target, call.column_request) for one in opened]
    _check_same_columns(target, mappings, call)
    added = _added_columns(opened, mappings, call)
    fields = (*target.table_schema.fields, *added)
    mapped = list(zip(opened, mappings, strict=True))
    parts = [(one, _conversion(one, mapping, fields, target, call)) for one, mapping in mapped]
    adds = call.column_request.add_extra
    inside = [_new_parts(one, mapping, target.table_schema.fields) if adds else {} for one, mapping in mapped]
    reports = [
        _report(one, mapping, fields, new, adds=adds) for (one, mapping), new in zip(mapped, inside, strict=True)
    ]
    evolved = (
        target
        if target.table is None
        else replace(target, table=_evolve_schema(target.table, parts, inside, call, stored=False))
    )
    plan = _plan(target, tuple(reports), call, evolved.table_schema.fields if adds else fields)
    if call.dry_run:
        plan = replace(plan, method=engine.describe_write(target, parts, call))
    call.report(plan)
    if call.dry_run:
        return IngestResult(plan, None, time.monotonic() - started)
    created = target.create_if_missing()
    bad = _bad_rows(target, call)
    try:
        table = _evolve_schema(created.table, parts, inside, call, stored=True)
        # Evolving the table may have widened the types of its columns.
        parts = [(one, replace(conversion, fields=tuple(table.fields))) for one, conversion in parts]
        written = engine.write(table, parts, call, bad)
    except CommitUnknownError:  # the table may hold the rows, so the bad ones are kept for a run that finds out
        raise
    except BaseException:
        bad.discard()
        created.take_back()
        raise
    bad.publish(replayed=written.result.replayed)
    return IngestResult(plan, written.result, time.monotonic() - started, bad.count, bad.file, written.duplicates)


def _bad_rows(target: IngestTarget, call: IngestCall) -> BadRowSink:
    remedy = "" if call.bad_rows else "; correct it, or set bad rows aside (bad_rows, --bad-rows)"
    return BadRowSink(call.bad_rows, remedy=remedy, job=None if call.job_id is None else (target.name, call.job_id))


def new_fields(engine: IngestEngine, sources: Sequence[IngestSource], call: IngestCall) -> tuple[DataField, ...]:
    """Return the columns of the table that would be made for sources."""
    return tuple(_fields_of_new_table([one for source in sources for one in engine.open(source, call)], call))


# ---- the columns of the table ----------------------------------------------------------------------------------------


def _without_headers(opened: Sequence[OpenedSource], target: IngestTarget, call: IngestCall) -> list[OpenedSource]:
    """Name the columns of csv files without a header after those of an existing table, in its order."""
    if call.header or target.table is None:
        return list(opened)
    out = []
    for one in opened:
        directories = set(one.source.partition_columns)
        names = [f.name for f in target.table.fields if f.name not in {*directories, *call.column_request.constants}]
        own = [f.name for f in one.fields if f.name not in directories]
        if one.source.format == "csv" and len(own) != len(names):
            raise InvalidInputError(
                f"table {target.name} has the columns {', '.join(names)}, and the lines of {one.source.name} have "
                f"{len(own)} fields; without a header there must be one for each column",
                table=target.name,
            )
        out.append(one.with_column_names(names) if one.source.format == "csv" else one)
    return out


def _with_schema(target: IngestTarget, opened: Sequence[OpenedSource], call: IngestCall) -> IngestTarget:
    """Return the target with the schema of a new table; check that an existing table is as the call describes it."""
    if target.table is not None:
        check_matches_table(target.table, call.creation, call.types)
        return target
    fields = _fields_of_new_table(opened, call)
    creation = call.creation
    declared = Schema(fields, list(creation.partition_keys), list(creation.primary_keys), dict(creation.options))
    with with_table_name(target.name):
        new_schema = new_table_schema(declared, time_millis=int(time.time() * 1000))
    return IngestTarget(target.name, None, target.identifier, target.catalog, new_schema, declared)


def _fields_of_new_table(opened: Sequence[OpenedSource], call: IngestCall) -> list[DataField]:
    """Return the columns of a new table: those of all sources, with the types that were given or guessed."""
    request = call.column_request
    types: dict[str, DataType] = {}
    untyped: set[str] = set()
    for one in opened:
        chosen = [f.name for f in one.fields if request.chosen is None or f.name in request.chosen]
        targets = {name: _known_spelling(request.renames.get(name, name), types) for name in chosen}
        _add_types(types, one, targets, call.types, untyped)
    for name in request.constants:
        types.setdefault(name, parse_type(call.types[name]) if name in call.types else STRING)
    unknown = [name for name in call.types if name not in types]
    if unknown:
        raise InvalidInputError(
            f"there is no column {unknown[0]!r} to give a type; the new table has {', '.join(sorted(types))}",
            column=unknown[0],
        )
    return list(numbered_fields([DataField(0, name, dtype) for name, dtype in types.items()], count()))


def _known_spelling(name: str, known: Collection[str]) -> str:
    """Return a known name that differs from this one only in case, otherwise the name itself."""
    return next((other for other in known if name not in known and other.casefold() == name.casefold()), name)


def _add_types(
    types: dict[str, DataType],
    one: OpenedSource,
    targets: Mapping[str, str],
    given: Mapping[str, str],
    untyped: set[str],
) -> None:
    """Add the types of a source's columns, by their names in the table; `untyped` are those without a type so far."""
    guessed = one.guess_types([name for name, target in targets.items() if target not in given])
    for name, target in targets.items():
        if target in given:
            types[target] = parse_type(given[target])
        elif name in one.untyped and target in types:
            continue
        elif target in types and target not in untyped:
            types[target] = _common(types[target], guessed[name], target, one, text=name in one.text)
        else:
            types[target] = guessed[name]
        (untyped.add if name in one.untyped else untyped.discard)(target)


def _common(known: DataType, other: DataType, column: str, one: OpenedSource, *, text: bool) -> DataType:
    """Return a type that holds the values of a column in the sources so far (`known`) and in one more."""
    if known == other:
        return known
    if isinstance(known, AtomicType) and isinstance(other, AtomicType):
        for order in WIDENED_BY_KIND:
            if known.root in order and other.root in order:
                return max(known, other, key=lambda dtype: order.index(dtype.root))
        wide = _common_size(known, other)
        if wide is not None:
            return wide
        if text:
            return common_type([known, other])
    raise InvalidInputError(
        f"the sources disagree about the column {column!r}: {other} in {one.source.name!r}, {known} before; give it a "
        "type, or ingest them one after the other",
        column=column,
    )


def _common_size(one: AtomicType, other: AtomicType) -> AtomicType | None:
    """Return the type that holds the values of two decimals, or of two times of different precision; None: it has none.

    A time beyond the range of the finer type is an error when it is written.
    """
    if one.root != other.root:
        return None
    if one.root == "DECIMAL":
        scale = max(one.scale, other.scale)
        precision = scale + max(one.precision - one.scale, other.precision - other.scale)
        return AtomicType(f"DECIMAL({precision}, {scale})") if precision <= PRECISION_MAX else None
    return max(one, other, key=lambda dtype: dtype.precision) if one.root in TIMESTAMP_ROOTS else None


def _added_columns(
    opened: Sequence[OpenedSource], mappings: Sequence[ColumnMapping], call: IngestCall
) -> list[DataField]:
    """Return the columns that are added to the table, with their types."""
    types: dict[str, DataType] = {}
    untyped: set[str] = set()
    for one, mapping in zip(opened, mappings, strict=True):
        new = {change.column for change in mapping.changes if change.kind == ADDED}
        _add_types(types, one, {name: target for name, target in mapping.pairs if target in new}, call.types, untyped)
    return [DataField(-1, name, with_nullable(dtype, nullable=True)) for name, dtype in types.items()]


def _evolve_schema(
    table: FileStoreTable,
    parts: Sequence[tuple[OpenedSource, Conversion]],
    inside: Sequence[Mapping[str, DataType]],
    call: IngestCall,
    *,
    stored: bool,
) -> FileStoreTable:
    """Evolve the schema of a table if the call asks for it; without `stored`, return what the table would be.

    `inside` are the fields inside columns that the table lacks. The types that are guessed for other fields of json
    change nothing.
    """
    if call.schema_mode != "merge":
        return table
    known = {f.name for f in table.fields}
    for (one, conversion), new_inside in zip(parts, inside, strict=True):
        own = {f.name: f for f in one.fields}
        typed = [
            replace(own[name], name=to)
            for name, to in conversion.pairs
            if to in known and name not in one.text and name not in one.untyped
        ]
        new = [f for f in conversion.fields if f.name not in known]
        nested = [DataField(-1, to, part) for to, part in new_inside.items() if all(f.name != to for f in typed)]
        fields = [replace(f, type=with_nullable(f.type, nullable=True)) for f in (*typed, *nested, *new)]
        table = add_missing_columns(table, pa.schema([to_arrow_field(f) for f in fields]), stored=stored)
    return table


def _new_parts(one: OpenedSource, mapping: ColumnMapping, table: Sequence[DataField]) -> dict[str, DataType]:
    """Return the fields inside columns that the table lacks, by column of the table."""
    own, known = {f.name: f.type for f in one.fields}, {f.name: f.type for f in table}
    nested = [(name, to) for name, to in mapping.pairs if to in known and new_parts(own[name], known[to]) is not None]
    types = one.guess_types([name for name, _ in nested]) if nested else {}
    parts = {to: new_parts(types[name], known[to]) for name, to in nested}
    return {to: part for to, part in parts.items() if part is not None}


# ---- the columns of a source -----------------------------------------------------------------------------------------


def _mapping_of(one: OpenedSource, target: IngestTarget, request: ColumnRequest) -> ColumnMapping:
    schema = target.table_schema
    keys = {*schema.primary_keys, *schema.partition_keys} if schema.primary_keys else set[str]()
    return map_columns([f.name for f in one.fields], schema.fields, keys, request, name=target.name)


def _check_same_columns(target: IngestTarget, mappings: Sequence[ColumnMapping], call: IngestCall) -> None:
    """Refuse an upsert of sources that differ in their columns.

    An upsert keeps the columns that its rows lack, so rows that lack different columns need upserts of their own.
    """
    columns = [{*(to for _, to in one.pairs), *one.constants} for one in mappings]
    if call.mode == "upsert" and any(one != columns[0] for one in columns):
        raise InvalidInputError(
            f"{target.name}: the sources differ in their columns, and an upsert leaves those that a row lacks as they "
            "are; ingest them one after the other",
            table=target.name,
        )


def _conversion(
    one: OpenedSource, mapping: ColumnMapping, fields: Sequence[DataField], target: IngestTarget, call: IngestCall
) -> Conversion:
    """Return how batches of a source become rows, after checking that the types allow it."""
    known = {f.name: f.type for f in fields}
    own = {f.name: f for f in one.fields}
    for name, to in mapping.pairs:
        if name in one.text and to in known and not call.column_request.add_extra:
            _check_nested_fields(to, own[name].type, known[to], target.name)
    constants = {name: str(value) for name, value in mapping.constants.items()}
    conversion = Conversion(
        target.name, one.source.name, tuple(fields), mapping.pairs, one.text, constants, one.parse_settings
    )
    if not call.column_request.add_extra:  # otherwise the types of the table may still change
        read = [to_arrow_field(_as_read(one, own[name], known.get(to))) for name, to in mapping.pairs]
        conversion.check(pa.schema(read))
    return conversion


def _as_read(one: OpenedSource, own: DataField, target_type: DataType | None) -> DataField:
    """Return a column as it is read: json in the shape of the table's column, other texts as texts."""
    if own.name in one.untyped - one.text and target_type is not None:
        return replace(own, type=target_type)  # nulls become values of any type
    if own.name not in one.text or target_type is None:
        return own
    is_json = one.source.format == "json" and own.name not in one.source.partition_columns
    return replace(own, type=as_text(target_type) if is_json else STRING)


def _check_nested_fields(name: str, own: DataType, target: DataType, table: str) -> None:
    """Refuse json objects with fields that the table's type lacks: the values would be dropped without a word."""
    part = new_parts(own, target)
    for path, dtype in () if part is None else fields_of_parts(name, part, target):
        raise InvalidInputError(
            f"table {table}: the source has the field {path!r}, which the column {name!r} ({target}) lacks; "
            f"{add_field_remedy(table, path, dtype)}, or take it out of the source",
            table=table,
            column=name,
            field=path,
        )


def _report(
    one: OpenedSource,
    mapping: ColumnMapping,
    fields: Sequence[DataField],
    inside: Mapping[str, DataType],
    *,
    adds: bool,
) -> SourceReport:
    source = one.source
    known = {f.name: f.type for f in fields}
    own = {f.name: f.type for f in one.fields}
    changes = [_with_type(change, known) for change in mapping.changes]
    for to, part in inside.items():
        new = fields_of_parts(to, part, known[to])
        changes += [ColumnChange(ADDED, path, f"new field of the column, {dtype}") for path, dtype in new]
    for name, to in mapping.pairs:
        if name in one.text | one.untyped or not isinstance(known.get(to), AtomicType):
            continue
        if _type_text(own[name]) != _type_text(known[to]):
            changes.append(_type_change(to, own[name], known[to], adds=adds))
    return SourceReport(source.name, source.format, source.files, source.bytes, tuple(changes), one.warnings)


def _type_change(column: str, own: DataType, known: DataType, *, adds: bool) -> ColumnChange:
    """Return what becomes of the values of a column, or of the column of the table, whose types differ."""
    source, target = _type_text(own), _type_text(known)
    if not is_wider(own, known):
        return ColumnChange(WIDENED, column, f"{source} to {target}")
    if adds:
        return ColumnChange(WIDENED, column, f"{target} to {source}, in the table")
    return ColumnChange(NARROWED, column, f"{source} to {target}; a value that does not fit is an error")


def _with_type(change: ColumnChange, known: Mapping[str, DataType]) -> ColumnChange:
    if change.kind != ADDED:
        return change
    return replace(change, detail=f"{change.detail}, {known[change.column]}")


def _type_text(dtype: DataType) -> str:
    return str(with_nullable(dtype, nullable=True))


def _plan(
    target: IngestTarget, sources: tuple[SourceReport, ...], call: IngestCall, fields: Sequence[DataField] | None = None
) -> IngestPlan:
    schema, partition = target.table_schema, call.overwritten_partition
    return IngestPlan(
        target.name,
        call.mode,
        target.table is None,
        {f.name: str(f.type) for f in (schema.fields if fields is None else fields)},
        tuple(schema.primary_keys),
        tuple(schema.partition_keys),
        None if partition is None else {name: str(value) for name, value in partition.items()},
        sources,
        call.job_id,
    )


def _check_constants(table: str, schema: TableSchema, request: ColumnRequest) -> None:
    for name, value in request.constants.items():
        if name not in schema.partition_keys:
            raise InvalidInputError(
                f"table {table}: {name!r} is no partition column; it has {', '.join(schema.partition_keys) or 'none'}",
                table=table,
                column=name,
            )
        with with_table_name(table):
            cast_text(str(value), schema.field(name).type)
