"""Change data capture: events of the tables of a database become rows of tables.

records of a batch -> events (`cdc_formats`) -> what is new in them: tables, columns, types
    -> tables are created and evolved -> events that do not fit go to the dead letters -> one commit for each table

Invariant: an event is in a table or among the dead letters, once, however often the query was stopped, killed or
restarted from its checkpoint. Each table, and the dead letters, are committed under the id of the query and the number
of the batch. Dead letters come first: an event that would fit after a change of the table in between is then in both,
and in no case lost.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import PurePath

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.streaming.query import StreamingQuery

from lakewright.catalog.catalog import Catalog, plain_identifier
from lakewright.catalog.catalog_registry import CatalogFactory
from lakewright.errors import InvalidInputError, NotFoundError, TableAlreadyExistException, UnsupportedError
from lakewright.ingestion.ingest_plan import create_table, find_target
from lakewright.read.projection import ROW_KIND
from lakewright.spark.cdc_formats import DELETE, RECORD, Decode, EventFormat, format_of, shape_of, to_records
from lakewright.spark.cdc_values import (
    JSON_MAP,
    EventField,
    can_hold,
    misfit_sql,
    text_sql,
    type_of_shape,
    unknown_sql,
    value_of,
    value_sql,
    widened_columns,
)
from lakewright.spark.data_sinks import stream_user
from lakewright.spark.frame_operations import union_all
from lakewright.spark.frame_write import write_micro_batch
from lakewright.spark.spark_features import Feature, has
from lakewright.spark.spark_session import check_session
from lakewright.spark.stream_verbs import query_id_of
from lakewright.spec import argument_checks
from lakewright.spec.argument_checks import PathLike, SchemaMode
from lakewright.spec.arrow_types import to_arrow_schema
from lakewright.spec.identifier import Identifier
from lakewright.spec.schema import Schema
from lakewright.spec.table_options import TableOptions
from lakewright.spec.types import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    RowType,
    numbered_fields,
    with_nullable,
)
from lakewright.table.file_store_table import FileStoreTable
from lakewright.table.verbs import add_missing_columns

ORDER = "_cdc_order"  # the column by which the newest row of a key is found
DELETED = "_deleted"
DEAD_LETTERS = "cdc_dead_letters"

Keys = Mapping[str, str | Sequence[str]] | str | Sequence[str]
Tables = Mapping[str, str] | Callable[[str], str | None]

_OFFSET = "offset"
_REFUSALS = (InvalidInputError, UnsupportedError)
_RESERVED = frozenset({ORDER, DELETED, ROW_KIND})
_DEFAULT_DATABASE = "default"
_NO_TIME = "the session has no type TIME: start it with spark.sql.timeType.enabled=true"
_PLACE = ("version", "position", "offset", "at")
_LETTERS = numbered_fields(
    [
        DataField(0, "topic", AtomicType("STRING")),
        DataField(0, "partition", AtomicType("INT")),
        DataField(0, "offset", AtomicType("BIGINT")),
        DataField(0, "reason", AtomicType("STRING")),
        DataField(0, "text", AtomicType("STRING")),
    ],
    count(),
)
_SHOWN = 80  # how much of a value that does not fit a reason repeats


def cdc(  # noqa: PLR0913 - each argument is one choice of the caller
    stream: DataFrame,
    catalog_or_table: Catalog | Mapping[str, object] | FileStoreTable | PathLike,
    *,
    format: str | Decode = "debezium",  # noqa: A002 - the word Spark uses
    keys: Keys | None = None,
    tables: Tables | None = None,
    order: str = _OFFSET,
    deletes: str = "row",
    dead_letters: FileStoreTable | str | None = None,
    schema_mode: SchemaMode | None = "merge",
    checkpoint: PathLike | None = None,
    trigger: Mapping[str, str | bool] | None = None,
) -> StreamingQuery:
    """Start a query that applies the change events of a stream to tables, each event once, and return it.

    `stream` has the columns `key`, `value`, `topic`, `partition` and `offset`, as Spark's source for Kafka gives them.
    With a catalog (or its options) the events of a source table `shop.orders` change the table of this name, which is
    created if it does not exist; with a table, all events change that table.

    - `format`: debezium, canal, maxwell, or a function from records to events (see the page on change data capture).
    - `keys`: the key columns of each table, by the table's name; by default those of the record's key.
    - `tables`: our name for each name of the source, as a mapping or a function. Without a name events are skipped.
    - `order`: `offset`, or a field of the event such as `ts_ms` or `source.lsn`, an integer that grows with the changes
      of a key. It is kept in the column `_cdc_order`, the `sequence.field` of the table: late events change nothing.
    - `deletes`: `row` removes deleted rows, `mark` keeps them, with true in the column `_deleted`.
    - `dead_letters`: the table, or its name, for events that cannot be read or do not fit; by default
      `cdc_dead_letters` in the database of the first table.
    - `schema_mode`: None creates no tables and changes no columns.
    - `checkpoint`: the location of the query's state. `trigger`: what `DataStreamWriter.trigger` takes.
    """
    _check_arguments(stream, checkpoint, order, deletes, schema_mode, trigger)
    target = _to_target(catalog_or_table)
    batches = CapturedBatches(
        target,
        str(checkpoint),
        format_of(format),
        _key_names(keys, target),
        _table_names(tables, target),
        order,
        marks_deletes=deletes == "mark",
        letters=_letters_place(dead_letters, target),
        evolves=schema_mode == "merge",
    )
    batches.check_known_tables()
    writer = stream.writeStream.option("checkpointLocation", batches.checkpoint).foreachBatch(batches)
    if trigger is not None:
        writer = writer.trigger(**trigger)  # type: ignore[arg-type]
    return writer.start()


# ---- Checks of a call ------------------------------------------------------------------------------------------------


def _check_arguments(
    stream: DataFrame, checkpoint: object, order: object, deletes: str, schema_mode: str | None, trigger: object
) -> None:
    if not getattr(stream, "isStreaming", False):
        raise InvalidInputError("this frame is no stream: read it with spark.readStream.format('kafka')")
    check_session(stream.sparkSession)
    lacking = sorted({"key", "value", "topic", "offset"}.difference(stream.columns))
    if lacking:
        raise InvalidInputError(
            f"the stream lacks the columns {lacking}: change events have key, value, topic, partition and offset, as "
            "spark.readStream.format('kafka') gives them"
        )
    if not checkpoint or not isinstance(checkpoint, str | PurePath):
        raise InvalidInputError(
            f"checkpoint is the location of the query's state, not {checkpoint!r}: without it events would be applied "
            "again after a restart"
        )
    argument_checks.check_text("order", order)
    argument_checks.check_one_of("deletes", deletes, ("row", "mark"))
    if schema_mode is not None:
        argument_checks.check_one_of("schema_mode", schema_mode, ("merge",))
    if trigger is not None and not isinstance(trigger, Mapping):
        raise InvalidInputError(f"trigger is a mapping such as {{'availableNow': True}}, not {trigger!r}")


def _to_target(given: object) -> Catalog | FileStoreTable:
    if isinstance(given, str | os.PathLike):
        found = find_target(os.fspath(given), None, create=False).table
        return argument_checks.check_instance("catalog_or_table", found, FileStoreTable, "a table")
    if isinstance(given, Mapping):
        return CatalogFactory.create(dict(given))
    if isinstance(given, Catalog | FileStoreTable):
        return given
    raise argument_checks.argument_error("catalog_or_table", "a catalog, its options, a table or its path", given)


def _key_names(keys: Keys | None, target: Catalog | FileStoreTable) -> dict[str, tuple[str, ...]]:
    """Return the key columns of tables by their names; a table that is given needs none."""
    if keys is None:
        return {}
    if isinstance(target, FileStoreTable):
        named = keys.get(target.name) if isinstance(keys, Mapping) else keys
        if named is not None and set(argument_checks.check_names("keys", named)) != set(target.primary_keys):
            raise InvalidInputError(
                f"{target.name} has the primary key {', '.join(target.primary_keys)}: leave keys out",
                table=target.name,
            )
        return {}
    if not isinstance(keys, Mapping):
        raise InvalidInputError(f"keys is a mapping such as {{'shop.orders': ['id']}}, not {keys!r}")
    return {
        Identifier.from_string(name).get_full_name(): argument_checks.check_names("keys", columns)
        for name, columns in keys.items()
    }


def _table_names(tables: Tables | None, target: Catalog | FileStoreTable) -> Tables | None:
    if tables is None:
        return None
    if isinstance(target, FileStoreTable):
        raise InvalidInputError(
            f"tables maps names of the source to tables of a catalog, and {target.name} is one table: leave it out, or "
            "give the catalog",
            table=target.name,
        )
    if callable(tables):
        return tables
    named = argument_checks.check_text_mapping("tables", tables)
    return {source: Identifier.from_string(name).get_full_name() for source, name in named.items()}


def _letters_place(given: object, target: Catalog | FileStoreTable) -> FileStoreTable | str | None:
    """Return the table of the dead letters, its name or path; None: in the database of the first table."""
    if isinstance(given, FileStoreTable):
        lacking = [column.name for column in _LETTERS if column.name not in given.field_names]
        if lacking:
            raise InvalidInputError(f"the table of dead letters {given.name} lacks the columns {lacking}: add them")
        return given
    if given is not None:
        return argument_checks.check_path("dead_letters", given)
    if isinstance(target, Catalog):
        return None
    path = f"{target.table_path.rstrip('/').rpartition('/')[0]}/{DEAD_LETTERS}"
    find_target(path, None, create=True)  # says that the table must be given, if its place is no warehouse
    return path


def check_captures(table: FileStoreTable, *, marks_deletes: bool) -> None:
    """Raise InvalidInputError unless a table has a key, and takes the newest row of each key by `_cdc_order`."""
    types = {f.name: f.type for f in table.fields}
    order, mark = types.get(ORDER), types.get(DELETED)
    if not table.primary_keys:
        problem = "it has no primary key"
    elif table.store.options.sequence_field != (ORDER,):
        problem = f"its sequence.field is not {ORDER}, so late events could replace newer rows"
    elif not isinstance(order, AtomicType) or order.root != "BIGINT":
        problem = f"its column {ORDER} is not BIGINT"
    elif marks_deletes and mark is not None and (not isinstance(mark, AtomicType) or mark.root != "BOOLEAN"):
        problem = f"its column {DELETED} is not BOOLEAN"
    else:
        return
    raise InvalidInputError(
        f"{table.name} cannot take change events: {problem}. Let cdc create the table, or create it with a primary "
        f"key, a column {ORDER} BIGINT and the option 'sequence.field' = '{ORDER}'",
        table=table.name,
    )


# ---- What the events of a batch bring --------------------------------------------------------------------------------


@dataclass
class SourceFacts:
    """What the events of one source table say about its columns."""

    seen: list[EventField] = field(default_factory=list)  # in the order of the events
    versions: dict[int, tuple[EventField, ...]] = field(default_factory=dict)  # the types of some events, by their hash
    keys: tuple[str, ...] = ()

    def encodings_of(self, name: str) -> dict[EventField, list[int]]:
        """Return how the texts of a column are to be read, where they are not the values, with the versions."""
        found: dict[EventField, list[int]] = defaultdict(list)
        for version, fields in self.versions.items():
            for one in fields:
                if one.name == name and not one.is_plain:
                    found[one].append(version)
        return found


def collect_facts(events: DataFrame, kind: EventFormat, *, has_time: bool) -> dict[str, SourceFacts]:
    """Return what the events of each source table say about its columns."""
    shapes = events.where("reason IS NULL").select(
        "source", "version", "types", F.to_json(F.map_keys("key")).alias("keys"), "shape", "offset"
    )
    # Few shapes are left of many events before they are taken apart.
    shapes = shapes.groupBy("source", "version", "keys", "shape").agg(
        F.first("types").alias("types"), F.min("offset").alias("first")
    )
    columns = F.explode_outer(F.from_json("shape", JSON_MAP)).alias("name", "part")
    parts = shapes.select("source", "version", "keys", "types", "first", columns)
    parts = parts.groupBy("source", "version", "keys", "name", "part").agg(
        F.first("types").alias("types"), F.min("first").alias("first")
    )
    facts: dict[str, SourceFacts] = defaultdict(SourceFacts)
    for row in sorted(parts.collect(), key=lambda row: (row["first"] or 0, str(row["name"]))):
        one = facts[row["source"]]
        if row["types"] is not None and row["version"] not in one.versions:
            fields = tuple(field if has_time else without_time(field) for field in kind.read_types(row["types"]))
            one.versions[row["version"]] = fields
            one.seen.extend(fields)
        if row["name"] is not None and (dtype := type_of_shape(row["part"])) is not None:
            one.seen.append(EventField(row["name"], dtype))
        if not one.keys and row["keys"] is not None:
            one.keys = argument_checks.check_names("keys", json.loads(row["keys"]))
    return facts


def without_time(given: EventField) -> EventField:
    """Return a column with texts in place of times of the day, which a session has no type for."""
    return replace(given, type=time_as_text(given.type))


def time_as_text(dtype: DataType) -> DataType:
    """Return a type with STRING in place of TIME, on all levels."""
    match dtype:
        case AtomicType(root="TIME"):
            return AtomicType("STRING", dtype.nullable)
        case RowType():
            return RowType(dtype.nullable, [replace(part, type=time_as_text(part.type)) for part in dtype.fields])
        case ArrayType():
            return ArrayType(dtype.nullable, time_as_text(dtype.element))
        case MapType():
            return MapType(dtype.nullable, dtype.key, time_as_text(dtype.value))
        case _:
            return dtype


# ---- One table of a batch --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TablePlan:
    """What becomes of the events of one table: SQL over their columns."""

    name: str
    sources: tuple[str, ...]
    facts: SourceFacts
    table: FileStoreTable | None = None
    problem: str = ""  # why no event of the table can be applied
    refused: Mapping[str, str] = field(default_factory=dict)  # columns that the table cannot get, with the reason
    marks_deletes: bool = False
    is_total_order: bool = True  # no two events of a key have the same place in the order

    @property
    def columns(self) -> list[DataField]:
        """The columns of the table that events fill."""
        hidden = {ORDER, DELETED} if self.marks_deletes else {ORDER}
        return [] if self.table is None else [f for f in self.table.fields if f.name not in hidden]

    def events_of(self, events: DataFrame) -> DataFrame:
        """Return the events of the table, each with the reason why it cannot be applied, null if it can."""
        own = events.where(f"reason IS NULL AND source IN ({', '.join(map(text_sql, self.sources))})")
        return own.withColumn("reason", F.expr(self.reason_sql()))

    def reason_sql(self) -> str:
        """Return the SQL of the reason why an event cannot be applied, null if it can be."""
        if self.table is None:
            return text_sql(self.problem)
        unordered = text_sql("the event has no integer in the field that orders events")
        removed = self._row_reasons("coalesce(before, key)", removed=True)
        moved = f"CASE WHEN {self.moves_key} THEN {self._row_reasons('before', removed=True)} END"
        return (
            f"CASE WHEN position IS NULL THEN {unordered} WHEN operation = '{DELETE}' THEN {removed} "
            f"ELSE coalesce({self._row_reasons('after')}, {moved}) END"
        )

    @property
    def moves_key(self) -> str:
        """The SQL that is true where an update gives a row another key."""
        keys = self.table.primary_keys if self.table is not None else ()
        changed = (
            f"({value_of('before', key)} IS NOT NULL AND NOT {value_of('before', key)} <=> {value_of('after', key)})"
            for key in keys
        )
        return f"(before IS NOT NULL AND ({' OR '.join(changed)}))"

    def _row_reasons(self, row: str, *, removed: bool = False) -> str:
        """Return the SQL of all reasons why a row does not fit; of one that is removed only the key has to."""
        keys = () if self.table is None else self.table.primary_keys
        reasons = [(f"{row} IS NULL", text_sql("the event has no row and no key"))]
        for column in self.columns:
            raw = value_of(row, column.name)
            if column.name in self.refused:
                continue
            if removed and column.name not in keys and column.type.nullable:
                continue
            if not column.type.nullable:
                reasons.append((f"{row} IS NOT NULL AND {raw} IS NULL", text_sql(f"{column.name!r} is null")))
            shown = f"concat({text_sql(f'{column.name!r} is {column.type} and cannot hold ')}, left({raw}, {_SHOWN})"
            misfits = [misfit_sql(raw, column.type, one) for one in self._encodings(column.name)]
            reasons.append((self._by_version(column.name, misfits), f"{shown})"))
        if not removed:
            for name, why in self.refused.items():
                reasons.append((f"{value_of(row, name)} IS NOT NULL", text_sql(f"{name!r} cannot be added: {why}")))
            known = [*(column.name for column in self.columns), *self.refused]
            reasons.append((unknown_sql(row, known), text_sql("the event has a column that the table lacks")))
        cases = ", ".join(f"CASE WHEN {condition} THEN {text} END" for condition, text in reasons)
        return f"nullif(concat_ws('; ', {cases}), '')"

    def _encodings(self, name: str) -> list[EventField | None]:
        return [None, *self.facts.encodings_of(name)]

    def _by_version(self, name: str, sql: Sequence[str]) -> str:
        """Return the SQL that reads a column as the types of its event say; the first is for plain values."""
        plain, *encoded = sql
        versions = self.facts.encodings_of(name).values()
        cases = [
            f"WHEN version IN ({', '.join(f'{version}L' for version in of)}) THEN {text}"
            for of, text in zip(versions, encoded, strict=True)
        ]
        return f"CASE {' '.join(cases)} ELSE {plain} END" if cases else plain

    def rows_of(self, events: DataFrame) -> DataFrame:
        """Return the rows that events write, with their kinds: an update of the key removes one row and adds one."""
        gone = "+U" if self.marks_deletes else "-D"
        added = "struct('+U' AS kind, false AS deleted, after AS row)"
        removed = f"struct('{gone}' AS kind, true AS deleted, {{}} AS row)"
        changes = (
            f"CASE WHEN operation = '{DELETE}' THEN array({removed.format('coalesce(before, key)')}) "
            f"WHEN {self.moves_key} THEN array({removed.format('before')}, {added}) ELSE array({added}) END"
        )
        frame = events.selectExpr(*_PLACE, f"explode({changes}) AS change")
        frame = frame.selectExpr(*_PLACE, "change.kind", "change.deleted", "change.row")
        if not self.is_total_order and self.table is not None:  # of equal positions, the later event wins
            keys = [F.expr(value_of("row", key)) for key in self.table.primary_keys]
            frame = frame.repartition(*keys).sortWithinPartitions("offset", "at")
        selected = []
        for column in self.columns:
            if can_hold(column.type) and column.name not in self.refused:
                raw = value_of("row", column.name)
                values = [value_sql(raw, column.type, one) for one in self._encodings(column.name)]
                selected.append(F.expr(self._by_version(column.name, values)).alias(column.name))
        if self.marks_deletes:
            selected.append(F.col("deleted").alias(DELETED))
        return frame.select(*selected, F.col("position").alias(ORDER), F.col("kind").alias(ROW_KIND))


# ---- One batch -------------------------------------------------------------------------------------------------------


@dataclass
class CapturedBatches:
    """Applies each batch of a stream of change events to tables, once; a function for `foreachBatch`.

    Over Spark Connect it is pickled and runs beside the server, as `BatchWriter` does.
    """

    target: Catalog | FileStoreTable
    checkpoint: str
    kind: EventFormat
    keys: Mapping[str, Sequence[str]]
    tables: Tables | None
    order: str
    marks_deletes: bool
    letters: FileStoreTable | str | None
    evolves: bool
    _user: str | None = field(default=None, init=False, repr=False)

    def check_known_tables(self) -> None:
        """Raise InvalidInputError if a table that is named already cannot take change events."""
        if isinstance(self.target, FileStoreTable):
            check_captures(self.target, marks_deletes=self.marks_deletes)
            return
        for name in self.tables.values() if isinstance(self.tables, Mapping) else ():
            table = find_table(self.target, name)
            if table is not None:
                check_captures(table, marks_deletes=self.marks_deletes)

    def __call__(self, df: DataFrame, batch_id: int) -> None:
        """Apply one batch, and commit each table under the query's name and the batch's number."""
        spark = df.sparkSession
        if self._user is None:
            self._user = stream_user(query_id_of(spark, self.checkpoint))
        has_time = _has_time(spark)
        with _kept(self._events(df)) as events:
            facts = collect_facts(events, self.kind, has_time=has_time)
            plans = [self._plan_table(name, of, has_time) for name, of in sorted(self._by_table(facts).items())]
            self._write_letters(events, plans, batch_id)
            for plan in plans:
                if plan.table is not None:
                    rows = plan.rows_of(plan.events_of(events).where("reason IS NULL"))
                    write_micro_batch(rows, plan.table, batch_id, commit_user=self._user)

    def _events(self, df: DataFrame) -> DataFrame:
        """Return the events of a batch, and the records that are none, with the reason."""
        records = to_records(df)
        events = self.kind.decode(records.where("coalesce(is_text, true)"))
        broken = records.where("NOT is_text").select(*RECORD, F.lit("the value is not UTF-8").alias("reason"))
        events = events.unionByName(broken, allowMissingColumns=True)
        position = "offset"
        if self.order != _OFFSET:
            position = f"try_cast(get_json_object(event, {text_sql(f'$.{self.order}')}) AS BIGINT)"
        events = events.selectExpr("*", f"{position} AS position", "xxhash64(types) AS version")
        return events.withColumn("shape", shape_of(F.col("untyped"))).drop("event", "untyped")

    def _by_table(self, facts: Mapping[str, SourceFacts]) -> dict[str, dict[str, SourceFacts]]:
        """Return the facts of the sources of each table."""
        found: dict[str, dict[str, SourceFacts]] = defaultdict(dict)
        for source, of in facts.items():
            name = self._table_of(source)
            if name is not None:
                found[name][source] = of
        return found

    def _table_of(self, source: str) -> str | None:
        """Return the table of a source, None where its events are skipped."""
        if isinstance(self.target, FileStoreTable):
            return self.target.name
        if self.tables is None:
            return source
        return self.tables(source) if callable(self.tables) else self.tables.get(source)

    # Tables.

    def _plan_table(self, name: str, sources: Mapping[str, SourceFacts], has_time: bool) -> TablePlan:  # noqa: FBT001
        """Return what becomes of the events of a table, which is created or gets the columns that it lacks."""
        facts = SourceFacts()
        for of in sources.values():
            facts.seen.extend(of.seen)
            facts.versions.update(of.versions)
            facts.keys = facts.keys or of.keys
        plan = TablePlan(
            name,
            tuple(sources),
            facts,
            marks_deletes=self.marks_deletes,
            is_total_order=self.order == _OFFSET,
        )
        try:
            table = self._open_table(name, facts)
            check_captures(table, marks_deletes=self.marks_deletes)
        except _REFUSALS as error:
            return replace(plan, problem=str(error))
        table, refused = self._evolve_table(table, facts.seen) if self.evolves else (table, {})
        if not has_time:
            refused |= {f.name: _NO_TIME for f in table.fields if time_as_text(f.type) != f.type}
        return replace(plan, table=table, refused=refused)

    def _open_table(self, name: str, facts: SourceFacts) -> FileStoreTable:
        """Return a table with its newest schema; one that does not exist is created with the columns of its events."""
        if isinstance(self.target, FileStoreTable):
            return self.target.refreshed()
        found = find_table(self.target, name)
        if found is not None:
            return found
        keys = tuple(self.keys.get(name, facts.keys))
        if not self.evolves:
            raise InvalidInputError(f"the table {name} does not exist, and schema_mode=None creates none: create it")
        if not keys:
            raise InvalidInputError(f"the events of {name} have no key: name its columns with keys={{{name!r}: [...]}}")
        accepted, _ = new_columns({}, widened_columns({}, facts.seen))
        types = {column: with_nullable(dtype, column not in keys) for column, dtype in accepted.items()}
        types |= {DELETED: AtomicType("BOOLEAN")} if self.marks_deletes else {}
        types[ORDER] = AtomicType("BIGINT")
        fields = numbered_fields([DataField(0, column, dtype) for column, dtype in types.items()], count())
        declared = Schema(fields, primary_keys=keys, options={TableOptions.sequence_field.key(): ORDER})
        return _create(self.target, Identifier.from_string(name), declared)

    def _evolve_table(self, table: FileStoreTable, seen: Iterable[EventField]) -> tuple[FileStoreTable, dict[str, str]]:
        """Return the table with the columns and types that events need, and the columns that it cannot get."""
        known = {f.name: f.type for f in table.fields}
        wanted, refused = new_columns(known, widened_columns(known, seen))
        if self.marks_deletes and DELETED not in known:
            wanted[DELETED] = AtomicType("BOOLEAN")
        for name, dtype in wanted.items():
            try:
                column = DataField(0, name, with_nullable(dtype, nullable=True))
                table = add_missing_columns(table, to_arrow_schema([column]))
            except _REFUSALS as error:
                if name not in known:  # a type that cannot be widened stays, and holds what fits
                    refused[name] = str(error)
        return table, refused

    # Dead letters.

    def _write_letters(self, events: DataFrame, plans: Sequence[TablePlan], batch_id: int) -> None:
        """Write the events that cannot be applied into the table of the dead letters."""
        frames = [events, *(plan.events_of(events) for plan in plans)]
        names = [column.name for column in _LETTERS]
        letters = union_all([frame.where("reason IS NOT NULL").select(*names) for frame in frames])
        if not letters.isEmpty():
            write_micro_batch(letters, self._letters_table(plans), batch_id, commit_user=str(self._user))

    def _letters_table(self, plans: Sequence[TablePlan]) -> FileStoreTable:
        if isinstance(self.letters, FileStoreTable):
            return self.letters
        catalog = self.target if isinstance(self.target, Catalog) else None
        place = self.letters
        if place is None:
            databases = [plan.name.rpartition(".")[0] for plan in plans if plan.table is not None]
            place = f"{next(iter(databases), _DEFAULT_DATABASE)}.{DEAD_LETTERS}"
        found = find_target(place, catalog, create=True)
        if found.table is not None:
            return found.table
        return _create(
            found.catalog, found.identifier, Schema(_LETTERS, options={"bucket": "-1"})
        )  # whatever the catalog's default


def find_table(catalog: Catalog, name: str) -> FileStoreTable | None:
    """Return a table of a catalog, None if it does not exist."""
    try:
        found = catalog.get_table(plain_identifier(name))
    except NotFoundError:
        return None
    return found


def _create(catalog: Catalog | None, identifier: Identifier | None, declared: Schema) -> FileStoreTable:
    """Create a table unless another query does so first, and return it."""
    if catalog is None or identifier is None:
        raise AssertionError(identifier)
    with suppress(TableAlreadyExistException):
        create_table(catalog, identifier, declared)
    return catalog.get_table(identifier)


def new_columns(
    known: Mapping[str, DataType], columns: Mapping[str, DataType]
) -> tuple[dict[str, DataType], dict[str, str]]:
    """Return the columns that a table lacks, or has with a narrower type, and those that it cannot get, with reasons.

    >>> from lakewright.spec.types import parse_type
    >>> new_columns({"id": parse_type("INT")}, {"id": parse_type("BIGINT"), "ID": parse_type("INT")})
    ({'id': AtomicType(type='BIGINT', nullable=True)}, {'ID': "the table has the column 'id'"})
    """
    spelled = {name.lower(): name for name in known}
    accepted: dict[str, DataType] = {}
    refused: dict[str, str] = {}
    for name, dtype in columns.items():
        if name in _RESERVED:
            if name not in known:
                refused[name] = "the name is reserved"
        elif spelled.setdefault(name.lower(), name) != name:  # one name to Spark
            refused[name] = f"the table has the column {spelled[name.lower()]!r}"
        elif known.get(name) != dtype:
            accepted[name] = dtype
    return accepted, refused


def _has_time(spark: SparkSession) -> bool:
    """Return whether a session has a type for times of the day."""
    if not has(Feature.TIME):
        return False
    with suppress(PySparkException):  # a managed session may refuse to say
        return str(spark.conf.get("spark.sql.timeType.enabled", "false")).lower() == "true"
    return False


@contextmanager
def _kept(frame: DataFrame) -> Iterator[DataFrame]:
    """Keep the rows of a frame while it is used several times, where the session allows it."""
    kept = False
    with suppress(PySparkException):
        frame.persist()
        kept = True
    try:
        yield frame
    finally:
        if kept:
            frame.unpersist()
