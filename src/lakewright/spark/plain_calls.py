"""`install`: plain calls of PySpark on tables of Paimon catalogs.

The methods of PySpark's classes are wrapped, not those of one session, because PySpark makes new Python objects for the
active session, for new sessions and for those of a stream's batches. A wrapper looks up the context of its session,
asks it whose table a name means, and calls the original method for everything that is not ours. Invariant: after
`uninstall` every class has exactly the attributes that it had before.
"""

# ruff: noqa: A002, ANN401, N802, N803, PLR0913, PLR0917, SLF001 - the names and signatures of PySpark

from __future__ import annotations

import functools
import importlib
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeAlias
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame, SparkSession

from lakewright.catalog.catalog import Catalog
from lakewright.errors import AlreadyExistsError, InvalidInputError, UnsupportedError
from lakewright.spark.data_source import bound_format
from lakewright.spark.frame_read import frame_of
from lakewright.spark.installed_context import InstalledContext
from lakewright.spark.plain_catalog import CATALOG_CALLS
from lakewright.spark.short_errors import converting
from lakewright.spark.source_options import READ, SourceOptions
from lakewright.spark.spark_features import Feature, import_name, require
from lakewright.spark.spark_session import check_session, in_session_zone, is_connect, is_own_call, own_calls
from lakewright.spark.spark_sql_changes import SparkEvaluation
from lakewright.spark.spark_sql_context import create_of, insert_rows
from lakewright.spark.spark_types import arrow_schema_of
from lakewright.spark.stream_verbs import foreach_batch
from lakewright.spec import argument_checks
from lakewright.statements.catalog_commands import quoted_text
from lakewright.statements.sql_session import Catalogs, has_database, one_catalog
from lakewright.statements.sql_text import Fragment, Name
from lakewright.statements.statements import Insert
from lakewright.statements.table_commands import CreateTable, TableClauses
from lakewright.table.file_store_table import FileStoreTable
from lakewright.table.table_views import SystemTable

Call: TypeAlias = Callable[..., Any]
_MISSING = object()
_FORMATS = {None, "paimon", "lakewright"}
_STREAM_MODES = {"append": "append", "update": "upsert", "complete": "overwrite"}

# ---- install, uninstall ----------------------------------------------------------------------------------------------


@dataclass
class _Installation:
    """What is installed: the contexts of sessions, and the attributes of PySpark's classes before."""

    contexts: dict[str, InstalledContext] = field(default_factory=dict)  # by the ids of sessions
    by_object: WeakKeyDictionary[SparkSession, InstalledContext] = field(default_factory=WeakKeyDictionary)
    before: list[tuple[Any, str, object]] = field(default_factory=list)
    newest: tuple[dict[str, Catalog], str | None] = ({}, None)


_state = _Installation()
_changing = threading.RLock()


def install(spark: SparkSession, catalogs: Mapping[str, Catalogs], default: str | None = None) -> None:
    """Let plain calls of PySpark find tables of catalogs: `spark.sql`, `spark.table`, `df.writeTo`, `saveAsTable` ...

    `catalogs` maps names to catalogs, options of catalogs or paths of warehouses: tables are then called
    `name.database.table`. `default` is the catalog, or `catalog.database`, that is current from now on, as after USE:
    shorter names mean its tables first, then Spark's, and a name that both have is refused. Sessions that are made
    later have the same catalogs. `uninstall` takes everything back.
    """
    check_session(spark)
    expected = 'catalogs by name, such as {"paimon": catalog}'
    if not isinstance(catalogs, Mapping) or not catalogs:
        raise argument_checks.argument_error("catalogs", expected, catalogs)
    opened = {argument_checks.check_text("the name of a catalog", name): one_catalog(c) for name, c in catalogs.items()}
    if default is not None and default.partition(".")[0] not in opened:
        raise InvalidInputError(f"default names the catalog {default!r}, and there are {', '.join(opened)}")
    for catalog in opened.values():
        has_database(catalog, "default")  # makes it, where it is missing
    if default is not None and "." in default:
        name, database = default.split(".", 1)
        if not has_database(opened[name], database):
            raise InvalidInputError(f"the catalog {name!r} has no database {database!r}", database=database)
    with _changing:
        if not _state.before:
            _wrap_classes(spark)
        _state.newest = opened, default
        _state.contexts[_id_of(spark)] = InstalledContext(spark, opened, default)
        _state.by_object.clear()


def uninstall() -> None:
    """Take back everything that `install` did, for all sessions."""
    with _changing:
        for owner, name, value in reversed(_state.before):
            delattr(owner, name) if value is _MISSING else setattr(owner, name, value)
        _state.before.clear()
        _state.contexts.clear()
        _state.by_object.clear()


def _id_of(spark: SparkSession) -> str:
    session: Any = spark
    return str(session.session_id if is_connect(spark) else session._jsparkSession.sessionUUID())


def _context_of(spark: SparkSession) -> InstalledContext | None:
    """Return the context of a session; None inside of calls of this library, and for methods kept after `uninstall`."""
    if is_own_call() or not _state.before:
        return None
    found = _state.by_object.get(spark)
    if found is None:
        with _changing:
            catalogs, default = _state.newest
            found = _state.contexts.get(_id_of(spark)) or InstalledContext(spark, catalogs, default)
            _state.contexts[_id_of(spark)] = _state.by_object[spark] = found
    return found


# ---- wrapping --------------------------------------------------------------------------------------------------------


def _wrap_classes(spark: SparkSession) -> None:
    place = "pyspark.sql.connect" if is_connect(spark) else "pyspark.sql"
    frames = type(spark.range(1))

    def each(owner: Any, session: Call, calls: Mapping[str, Call]) -> None:
        for name, route in calls.items():
            if hasattr(owner, name):
                _replace(owner, name, _route_call(getattr(owner, name), session, route))

    each(type(spark), lambda self: self, {"sql": _sql, "table": _table})
    each(type(spark.catalog), _session_of_catalog, CATALOG_CALLS)
    each(frames, _session_of_frame, {"writeTo": _write_to})
    reader, writer = (
        import_name(f"{place}.readwriter", "DataFrameReader"),
        import_name(f"{place}.readwriter", "DataFrameWriter"),
    )
    streams = f"{place}.streaming.readwriter"
    stream_reader, stream_writer = import_name(streams, "DataStreamReader"), import_name(streams, "DataStreamWriter")
    each(reader, _session_of_reader, {"table": _read_table})
    each(writer, _session_of_writer, {"saveAsTable": _save_as_table, "insertInto": _insert_into})
    each(stream_reader, _session_of_reader, {"table": _read_stream})
    each(stream_writer, _session_of_writer, {"toTable": _to_table})
    for owner in (reader, writer, stream_reader, stream_writer):
        for name in ("option", "options", "format", "mode", "partitionBy", "bucketBy", "outputMode", "schema"):
            if hasattr(owner, name):
                _replace(owner, name, _recording(name, getattr(owner, name)))
    for owner, name in ((type(spark), "read"), (type(spark), "readStream")):
        _replace(owner, name, _remembering("_lakewright_session", getattr(owner, name)))
    for name in ("write", "writeStream"):
        _replace(frames, name, _remembering("_lakewright_frame", getattr(frames, name)))
    _wrap_expressions(spark, frames)
    errors = "pyspark.sql.connect.client.core" if is_connect(spark) else "pyspark.errors.exceptions.captured"
    if import_name(errors, "convert_exception") is not None:
        module = importlib.import_module(errors)
        _replace(module, "convert_exception", converting(module.convert_exception))


def _wrap_expressions(spark: SparkSession, frames: Any) -> None:
    """Check texts of conditions and expressions, in which Spark itself looks names up."""
    if is_connect(spark):
        expression: Any = import_name("pyspark.sql.connect.expressions", "SQLExpression")

        def check_and_init(self: Any, text: str) -> None:
            _check_text(SparkSession.getActiveSession() or spark, text)
            init(self, text)

        init = expression.__init__
        _replace(expression, "__init__", functools.wraps(init)(check_and_init))
        return
    for name in ("where", "filter", "selectExpr"):
        _replace(frames, name, _checking(getattr(frames, name)))
    # `expr` itself may have been imported by name, so the function that it calls is wrapped.
    module = import_name("pyspark.sql.functions", "builtin") or importlib.import_module("pyspark.sql.functions")
    invoke = getattr(module, "_invoke_function", None)
    if invoke is not None:

        @functools.wraps(invoke)
        def call(name: str, *args: Any) -> Any:
            session = SparkSession.getActiveSession() if name == "expr" else None
            if session is not None:
                _check_text(session, args[0])
            return invoke(name, *args)

        _replace(module, "_invoke_function", call)


def _replace(owner: Any, name: str, value: object) -> None:
    _state.before.append((owner, name, vars(owner).get(name, _MISSING)))
    setattr(owner, name, value)


def _route_call(original: Call, session: Call, route: Call) -> Call:
    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        context = None if is_own_call() else _context_of(session(self))
        if context is None:
            return original(self, *args, **kwargs)
        with own_calls():
            return route(context, original, self, *args, **kwargs)

    return call


def _recording(name: str, original: Call) -> Call:
    """Wrap a method that sets something of a reader or writer, which Spark keeps where Python cannot see it."""

    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        self.__dict__.setdefault("_lakewright_calls", []).append((name, args, kwargs))
        return original(self, *args, **kwargs)

    return call


def _remembering(name: str, original: Any) -> property:
    def get(self: Any) -> Any:
        made = original.fget(self)
        setattr(made, name, self)
        return made

    return property(get, doc=original.__doc__)


def _checking(original: Call) -> Call:
    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        for text in args:
            if isinstance(text, str):
                _check_text(self.sparkSession, text)
        return original(self, *args, **kwargs)

    return call


def _check_text(spark: SparkSession, text: object) -> None:
    context = _context_of(spark) if isinstance(text, str) and "select" in text.lower() else None
    if context is not None:
        context.check_text(str(text))


def _session_of_frame(frame: DataFrame) -> SparkSession:
    return frame.sparkSession


def _session_of_catalog(catalog: Any) -> SparkSession:
    return catalog._sparkSession  # type: ignore[no-any-return]


def _session_of_reader(reader: Any) -> SparkSession:
    return reader._lakewright_session  # type: ignore[no-any-return]


def _session_of_writer(writer: Any) -> SparkSession:
    return _session_of_frame(writer._lakewright_frame)


@dataclass
class _Given:
    """What the methods of a reader or writer were given."""

    options: dict[str, str] = field(default_factory=dict)
    last: dict[str, Any] = field(default_factory=dict)  # arguments of the last call, by method

    @classmethod
    def of(cls, owner: Any, **more: Any) -> _Given:
        """Return what was given, and the arguments of the last call, which come on top."""
        given = cls()
        for name, args, kwargs in getattr(owner, "_lakewright_calls", ()):
            if name in {"option", "options"}:
                given.options |= {str(k): str(v) for k, v in (kwargs or dict([args] if args else [])).items()}
            else:
                given.last[name] = args[0] if len(args) == 1 else args
        given.last |= {name: value for name, value in more.items() if value is not None}
        return given

    def check_format(self, name: str) -> None:
        """Refuse a format that is none of Paimon's."""
        if self.last.get("format") not in _FORMATS or "bucketBy" in self.last:
            raise UnsupportedError(
                f"{name} is a table of a Paimon catalog: leave format(...) and bucketBy(...) out, and give options of "
                "the table such as 'bucket' and 'file.format' with option(...)",
                table=name,
            )

    @property
    def partitions(self) -> list[str]:
        """The partition columns."""
        given = self.last.get("partitionBy", ())
        names = (given,) if isinstance(given, str) else given
        return [str(one) for part in names for one in ([part] if isinstance(part, str) else part)]


# ---- reads -----------------------------------------------------------------------------------------------------------


def _sql(
    context: InstalledContext, original: Call, spark: SparkSession, sqlQuery: str, args: Any = None, **kwargs: Any
) -> Any:
    done = context.route(sqlQuery, args, kwargs) if isinstance(sqlQuery, str) else None
    return original(spark, sqlQuery, args, **kwargs) if done is None else done


def _table(context: InstalledContext, original: Call, spark: SparkSession, tableName: str) -> Any:
    table = context.find(tableName)
    return original(spark, tableName) if table is None else context.query_table(tableName)


def _read_table(context: InstalledContext, original: Call, reader: Any, tableName: str) -> Any:
    table = context.find(tableName)
    if table is None:
        return original(reader, tableName)
    options = _Given.of(reader).options
    if not options or isinstance(table, SystemTable):
        return context.query_table(tableName)
    own = in_session_zone(context.spark, table) if isinstance(table, FileStoreTable) else table
    return frame_of(context.spark, SourceOptions.of(options, READ, own).read())


def _read_stream(context: InstalledContext, original: Call, reader: Any, tableName: str) -> Any:
    table = context.find(tableName)
    if table is None or isinstance(table, SystemTable):
        return original(reader, tableName)
    require(Feature.PYTHON_SOURCE, f"readStream.table({tableName!r})")
    own = in_session_zone(context.spark, table) if isinstance(table, FileStoreTable) else table
    return reader.format(bound_format(context.spark, own)).load()


# ---- writes ----------------------------------------------------------------------------------------------------------


def _save_as_table(
    context: InstalledContext,
    original: Call,
    writer: Any,
    name: str,
    format: Any = None,
    mode: Any = None,
    partitionBy: Any = None,
    **options: Any,
) -> Any:
    parsed = context.name(name)
    if not context.is_ours(parsed, creates=True):
        return original(writer, name, format, mode, partitionBy, **options)
    given = _Given.of(writer, format=format, mode=mode, partitionBy=partitionBy)
    given.check_format(name)
    given.options |= {key: str(value) for key, value in options.items()}
    write = TableWriter(context, writer._lakewright_frame, parsed, given.options, given.partitions)
    how = str(given.last.get("mode") or "error").lower()
    exists = context.has(parsed)
    if how in {"error", "errorifexists", "default"} and exists:
        raise AlreadyExistsError(f'the table {name} exists already: write mode("append") or mode("overwrite")')
    if how == "ignore" and exists:
        return None
    if not exists:
        return write.create()
    return write.insert(overwrite=how == "overwrite", dynamic=given.options.get("partitionOverwriteMode") == "dynamic")


def _insert_into(context: InstalledContext, original: Call, writer: Any, tableName: str, overwrite: Any = None) -> Any:
    parsed = context.name(tableName)
    if not context.is_ours(parsed):
        return original(writer, tableName, overwrite)
    given = _Given.of(writer)
    replaces = overwrite if overwrite is not None else given.last.get("mode") == "overwrite"
    frame = writer._lakewright_frame
    return TableWriter(context, frame, parsed).insert(by_name=False, overwrite=bool(replaces), dynamic=None)


def _write_to(context: InstalledContext, original: Call, frame: DataFrame, table: str) -> Any:
    parsed = context.name(table)
    return TableWriter(context, frame, parsed) if context.is_ours(parsed, creates=True) else original(frame, table)


class TableWriter:
    """What `df.writeTo(name)` returns for a table of an installed catalog: PySpark's DataFrameWriterV2."""

    def __init__(
        self,
        context: InstalledContext,
        frame: DataFrame,
        name: Name,
        options: Mapping[str, str] | None = None,
        partitions: list[str] | None = None,
    ) -> None:
        self._context = context
        self._frame = frame
        self._name = name
        self._options = dict(options or {})
        self._partitions = list(partitions or [])

    def using(self, provider: str) -> TableWriter:
        """Name the format of the table to create: paimon."""
        _Given(last={"format": provider}).check_format(str(self._name))
        return self

    def option(self, key: str, value: object) -> TableWriter:
        """Set an option of the write, or of the table to create."""
        self._options[key] = str(value).lower() if isinstance(value, bool) else str(value)
        return self

    def options(self, **options: object) -> TableWriter:
        """Set options of the write, or of the table to create."""
        for key, value in options.items():
            self.option(key, value)
        return self

    def tableProperty(self, property: str, value: str) -> TableWriter:
        """Set an option of the table to create."""
        return self.option(property, value)

    def partitionedBy(self, col: Any, *cols: Any) -> TableWriter:
        """Name the partition columns of the table to create."""
        self._partitions = [_column_name(one) for one in (col, *cols)]
        return self

    def clusterBy(self, col: str, *cols: str) -> TableWriter:
        """Name the columns by which a compaction clusters the table to create."""
        return self.option("clustering.columns", ",".join((col, *cols)))

    def create(self) -> None:
        """Create the table with the columns and rows of the frame."""
        self._create(creates=True, replaces=False)

    def replace(self) -> None:
        """Put a table with the columns and rows of the frame in the place of one that exists."""
        self._create(creates=False, replaces=True)

    def createOrReplace(self) -> None:
        """Create the table with the columns and rows of the frame, or put it in the place of one that exists."""
        self._create(creates=True, replaces=True)

    def append(self) -> None:
        """Add the rows of the frame; columns are matched by name."""
        self.insert()

    def overwrite(self, condition: Any) -> None:
        """Replace the rows of one partition, or with `lit(True)` all of them."""
        self.insert(overwrite=True, condition=_condition_text(self._frame, condition))

    def overwritePartitions(self) -> None:
        """Replace the partitions of which the frame has rows."""
        self.insert(overwrite=True, dynamic=True)

    def insert(
        self,
        *,
        by_name: bool = True,
        overwrite: bool = False,
        dynamic: bool | None = False,
        condition: str | None = None,
    ) -> None:
        """Write the rows of the frame into the table."""
        with own_calls():
            text = self._name.place
            where = None if condition is None else Fragment(condition, 0, len(condition))
            statement = Insert(self._name, text, overwrite, by_name=by_name, replace_where=where, text=text)
            evaluation = SparkEvaluation(self._context, self._context, text, {}, self._context.spark)
            insert_rows(evaluation, statement, self._frame, dynamic=dynamic)

    def _create(self, *, creates: bool, replaces: bool) -> None:
        with own_calls():
            place = self._name.place
            partitions = tuple(Name((one,), place) for one in self._partitions)
            clauses = TableClauses(self._options, partitions)
            table = CreateTable(self._name, (), (), clauses, replaces=replaces, creates=creates, text=place)
            create_of(self._context, table, self._frame)


def _column_name(column: Any) -> str:
    """Return the name of a plain column; its text is the only form that every release of PySpark has."""
    text = column if isinstance(column, str) else str(column).removeprefix("Column<'").removesuffix("'>")
    if "(" in text:
        raise UnsupportedError(f"tables are partitioned by columns, not by {text}: add a column with its values")
    return text


def _condition_text(frame: DataFrame, condition: Any) -> str:
    """Return the SQL text of a condition on the columns of a frame."""
    if isinstance(condition, str):
        return condition
    if is_connect(frame.sparkSession):
        return _expression_text(condition._expr)
    # The text of a Column itself is not SQL since PySpark 4.0; that of the plan is in all releases.
    plan: Any = frame.where(condition)._jdf
    return str(plan.queryExecution().analyzed().condition().sql())


def _expression_text(node: Any) -> str:
    """Return the SQL text of equalities, joined by AND, of columns and literals."""
    if hasattr(node, "_unparsed_identifier"):
        return str(node._unparsed_identifier)
    if hasattr(node, "_value"):
        value = node._value
        return quoted_text(value) if isinstance(value, str) else str(value).lower()
    name, arguments = str(node._name), [_expression_text(one) for one in node._args]
    return f"({f' {name} '.join(arguments)})"


# ---- streams ---------------------------------------------------------------------------------------------------------


def _to_table(
    context: InstalledContext,
    original: Call,
    writer: Any,
    tableName: str,
    format: Any = None,
    outputMode: Any = None,
    partitionBy: Any = None,
    queryName: Any = None,
    **options: Any,
) -> Any:
    parsed = context.name(tableName)
    if not context.is_ours(parsed, creates=True):
        return original(writer, tableName, format, outputMode, partitionBy, queryName, **options)
    given = _Given.of(writer, format=format, outputMode=outputMode, partitionBy=partitionBy)
    given.options |= {key: str(value) for key, value in options.items()}
    given.check_format(tableName)
    checkpoint = given.options.pop("checkpointLocation", None)
    if checkpoint is None:
        _refuse_without_checkpoint(tableName)
    if not context.has(parsed):
        table = CreateTable(
            parsed,
            (),
            (),
            TableClauses(given.options, tuple(Name((p,), parsed.place) for p in given.partitions)),
            text=parsed.place,
        )
        table.create_as(context, arrow_schema_of(writer._lakewright_frame.schema))
    mode = _STREAM_MODES[str(given.last.get("outputMode", "append")).lower()]
    writes = foreach_batch(context.changeable(parsed), checkpoint=checkpoint, mode=mode)  # type: ignore[arg-type]
    writer = writer if outputMode is None else writer.outputMode(outputMode)
    writer = writer if queryName is None else writer.queryName(queryName)
    return writer.option("checkpointLocation", checkpoint).foreachBatch(writes).start()


def _refuse_without_checkpoint(name: str) -> NoReturn:
    raise InvalidInputError(
        f'toTable({name!r}) needs the location of its checkpoint: .option("checkpointLocation", "/path")', table=name
    )
