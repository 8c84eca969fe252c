"""Formats of change events: Debezium, Canal, Maxwell, and functions of users.

A format turns the records of a topic into events, by Spark's own functions. An event says which table of the source it
is about (`source`), its place in the record (`at`), what happened (`operation`: upsert or delete), and has the columns
`key`, `before` and `after` as maps of texts. Its columns are typed by `types`, in the words of the format, or by the
JSON object `untyped`. `event` is the JSON that a field such as `ts_ms` is taken from, and `reason` says why a record
cannot be read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from lakewright.errors import InvalidInputError
from lakewright.spark.cdc_values import ELEMENT, JSON_ARRAY, JSON_MAP, VALUE, Encoding, EventField
from lakewright.spec.types import ArrayType, AtomicType, DataField, DataType, MapType, RowType, numbered_fields

UPSERT, DELETE = "upsert", "delete"
RECORD = ("topic", "partition", "offset", "text")  # what each event keeps of its record
EVENT = ("at", "source", "operation", "key", "before", "after", "types", "untyped", "event", "reason")

Decode = Callable[[DataFrame], DataFrame]


@dataclass(frozen=True, slots=True)
class EventFormat:
    """How records become events, and how the types that events bring are read."""

    decode: Decode
    read_types: Callable[[str], tuple[EventField, ...]] = lambda _: ()


def format_of(given: str | Decode) -> EventFormat:
    """Return the format of a name, or one that a function decodes."""
    if callable(given):
        return EventFormat(_decoded_by(given))
    if given not in FORMATS:
        raise InvalidInputError(
            f"format is one of {', '.join(map(repr, FORMATS))} or a function that takes the records as a frame and "
            f"returns the events, not {given!r}"
        )
    return FORMATS[given]


def to_records(batch: DataFrame) -> DataFrame:
    """Return records with their texts: `key_text` and `text`, and `is_text`, false where the value is not UTF-8."""
    partition = F.col("partition").cast("int") if "partition" in batch.columns else F.lit(None).cast("int")
    return batch.select(
        F.col("topic").cast("string").alias("topic"),
        partition.alias("partition"),
        F.col("offset").cast("long").alias("offset"),
        _text(batch, "key").alias("key_text"),
        _text(batch, "value").alias("text"),
        (F.col("value").cast("binary") == _text(batch, "value").cast("binary")).alias("is_text"),
    )


def _text(batch: DataFrame, name: str) -> Column:
    """Return bytes as text; what is not UTF-8 has replacement characters, since Arrow refuses it."""
    if dict(batch.dtypes)[name] != "binary":
        return F.col(name).cast("string")
    if hasattr(F, "make_valid_utf8"):  # Spark 4.0, where `decode` raises
        return F.make_valid_utf8(F.col(name).cast("string"))
    return F.decode(F.col(name), "UTF-8")


def shape_of(text: Column) -> Column:
    """Return a JSON text with a letter of `cdc_values.SHAPES` in place of each scalar, so that few texts are left."""
    shape = F.regexp_replace(text, r"\\.", "x")  # escapes in strings
    # Keys keep their text. Each match begins where the last one ended, so no string is entered in its middle.
    shape = F.regexp_replace(shape, r'\G([^"]*+)"(?:([^"]*+)"(\s*+:)|[^"]*+")', '$1"$2"$3')
    shape = F.regexp_replace(shape, r'""(?!\s*+:)', '"s"')
    for value, letter in _LITERALS.items():
        shape = F.regexp_replace(shape, rf"([:\[,]\s*+){value}(?=\s*+[,}}\]])", f'$1"{letter}"')
    # Elements of one shape are one.
    return F.regexp_replace(shape, r'("[sbindz]")(?:\s*+,\s*+\1)++(?!\s*+:)', "$1")


_LITERALS = {
    "-?+[1-8]?[0-9]{1,18}": "i",  # fits in 64 bits
    "-?+[0-9]++": "n",
    "-?+[0-9][-+.0-9eE]*+": "d",
    "(?:true|false)": "b",
    "null": "z",
}


def _json_map(text: str) -> str:
    return f"from_json({text}, '{JSON_MAP}')"


def _select_columns(frame: DataFrame, **columns: str) -> DataFrame:
    """Return a frame with what it keeps of its records, and the event that SQL describes."""
    columns = {"at": "0", **columns}
    return frame.selectExpr(*RECORD, *(f"{columns.get(name, 'NULL')} AS {name}" for name in EVENT))


# ---- Functions of users ----------------------------------------------------------------------------------------------


def _decoded_by(function: Decode) -> Decode:
    """Return a decoder of a function, which gives the columns of an event as JSON texts."""

    def decode(records: DataFrame) -> DataFrame:
        events = function(records)
        lacking = {*RECORD, "source", "operation", "key", "before", "after"}.difference(events.columns)
        if lacking:
            raise InvalidInputError(
                f"the frame that the function of format returned lacks the columns {sorted(lacking)}: it has those of "
                "the records, source, operation ('upsert', 'delete' or null), and key, before and after as JSON objects"
            )
        known = f"operation IS NULL OR operation IN ('{UPSERT}', '{DELETE}')"
        return _select_columns(
            events.where("operation IS NOT NULL"),
            source="cast(source AS STRING)",
            operation=f"CASE WHEN {known} THEN cast(operation AS STRING) END",
            key=_json_map("key"),
            before=_json_map("before"),
            after=_json_map("after"),
            types="cast(NULL AS STRING)",
            untyped="cast(coalesce(after, before, key) AS STRING)",
            event="text",
            reason=_reason(
                (f"NOT ({known})", "concat('the operation is ', operation)"),
                ("source IS NULL", "'the event names no table'"),
            ),
        )

    return decode


# ---- Debezium --------------------------------------------------------------------------------------------------------


def _decode_debezium(records: DataFrame) -> DataFrame:
    frame = records.where("text IS NOT NULL")  # a tombstone follows the event of each delete
    frame = frame.withColumn("_top", F.expr(_json_map("text")))
    wrapped = "(map_contains_key(_top, 'payload') AND NOT map_contains_key(_top, 'op'))"
    frame = frame.withColumn("_event", F.expr(f"CASE WHEN {wrapped} THEN _top['payload'] ELSE text END"))
    frame = frame.withColumn("_types", F.expr(f"CASE WHEN {wrapped} THEN _top['schema'] END"))
    frame = frame.where(f"_top IS NULL OR NOT {wrapped} OR _event IS NOT NULL")
    frame = frame.withColumn("_map", F.expr(_json_map("_event")))
    frame = frame.withColumn("_source", F.expr(_json_map("_map['source']")))
    frame = frame.withColumn("_key", F.expr(_json_map("key_text")))
    is_change = "_map['op'] IN ('c', 'r', 'u', 'd')"
    # Messages of the source's log, changes of schemas, borders of transactions and heartbeats.
    heartbeat = "(map_contains_key(_map, 'ts_ms') AND size(_map) = 1)"
    other = f"(_map['op'] = 'm' OR _map['ddl'] IS NOT NULL OR _map['status'] IN ('BEGIN', 'END') OR {heartbeat})"
    frame = frame.where(f"_map IS NULL OR NOT coalesce({other}, false)")
    row = "coalesce(_map['after'], _map['before'])"
    wrapped_key, key = "map_contains_key(_key, 'payload') AND map_contains_key(_key, 'schema')", "_key['payload']"
    return _select_columns(
        frame,
        source="concat_ws('.', coalesce(_source['schema'], _source['db']), _source['table'])",
        operation=f"CASE WHEN {is_change} THEN CASE _map['op'] WHEN 'd' THEN '{DELETE}' ELSE '{UPSERT}' END END",
        key=f"CASE WHEN {wrapped_key} THEN {_json_map(key)} ELSE _key END",
        before=_json_map("_map['before']"),
        after=_json_map("_map['after']"),
        types="_types",
        untyped=f"CASE WHEN _types IS NULL THEN {row} END",
        event="_event",
        reason=_reason(
            ("_map IS NULL", "'the value is not a JSON object'"),
            ("_map['op'] = 't'", "'the table was truncated, which is not applied'"),
            (f"NOT coalesce({is_change}, false)", "'the value is not an event of Debezium: it has no op'"),
            ("_source['table'] IS NULL", "'the event names no table'"),
            (f"contains(_map['after'], '{_UNAVAILABLE}')", f"'{_UNAVAILABLE_REASON}'"),
            *_no_row("_map['op'] <> 'd'", _json_map("_map['after']")),
        ),
    )


_UNAVAILABLE = "__debezium_unavailable_value"
_UNAVAILABLE_REASON = (
    "the event leaves out an unchanged large value: set REPLICA IDENTITY FULL for the table at the source"
)

_BY_NAME: dict[str, tuple[str, Encoding]] = {
    "io.debezium.time.Date": ("DATE", Encoding.DAYS),
    "io.debezium.time.Time": ("TIME(3)", Encoding.TIME_MILLIS),
    "io.debezium.time.MicroTime": ("TIME(3)", Encoding.TIME_MICROS),
    "io.debezium.time.NanoTime": ("TIME(3)", Encoding.TIME_NANOS),
    "io.debezium.time.Timestamp": ("TIMESTAMP(3)", Encoding.MILLIS),
    "io.debezium.time.MicroTimestamp": ("TIMESTAMP(6)", Encoding.MICROS),
    "io.debezium.time.NanoTimestamp": ("TIMESTAMP(6)", Encoding.NANOS),
    "io.debezium.time.ZonedTimestamp": ("TIMESTAMP(6) WITH LOCAL TIME ZONE", Encoding.PLAIN),
    "org.apache.kafka.connect.data.Date": ("DATE", Encoding.DAYS),
    "org.apache.kafka.connect.data.Time": ("TIME(3)", Encoding.TIME_MILLIS),
    "org.apache.kafka.connect.data.Timestamp": ("TIMESTAMP(3)", Encoding.MILLIS),
    "io.debezium.data.VariableScaleDecimal": ("STRING", Encoding.SCALED),
}
_BY_TYPE = {
    "int8": "TINYINT",
    "int16": "SMALLINT",
    "int32": "INT",
    "int64": "BIGINT",
    "float": "FLOAT",
    "float32": "FLOAT",
    "double": "DOUBLE",
    "float64": "DOUBLE",
    "boolean": "BOOLEAN",
    "string": "STRING",
    "bytes": "BYTES",
}
_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_DIGITS_MAX = 38


def debezium_types(text: str) -> tuple[EventField, ...]:
    """Return the columns that the schema of an event describes; none where the text is not such a schema."""
    try:
        envelope = json.loads(text)
        rows = {part.get("field"): part for part in envelope["fields"]}
        row = rows.get("after") or rows["before"]
        return tuple(_connect_field(part["field"], part) for part in row["fields"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return ()


def _connect_field(name: str, schema: Mapping[str, object]) -> EventField:
    """Return a column, or a part of one, that a schema of Kafka Connect describes."""
    kind, logical = str(schema.get("type")), str(schema.get("name"))
    if logical in _BY_NAME:
        text, encoding = _BY_NAME[logical]
        return EventField(name, AtomicType(text), encoding)
    if logical == _DECIMAL:
        return EventField(name, _connect_decimal(schema.get("parameters")), Encoding.UNSCALED)
    match kind, schema:
        case "struct", {"fields": list(fields)} if fields:
            parts = tuple(_connect_field(str(part["field"]), part) for part in fields)
            return EventField(name, _row([(part.name, part.type) for part in parts]), parts=parts)
        case "array", {"items": dict(items)}:
            part = _connect_field(ELEMENT, items)
            return EventField(name, ArrayType(True, part.type), parts=(part,))  # noqa: FBT003 - pypaimon's order
        case "map", {"values": dict(values)}:
            part = _connect_field(VALUE, values)
            dtype = MapType(True, AtomicType("STRING", nullable=False), part.type)  # noqa: FBT003
            return EventField(name, dtype, parts=(part,))
        case _:
            return EventField(name, AtomicType(_BY_TYPE.get(kind, "STRING")))


def _connect_decimal(parameters: object) -> AtomicType:
    known = parameters if isinstance(parameters, Mapping) else {}
    scale = int(known.get("scale", 0))
    precision = int(known.get("connect.decimal.precision", _DIGITS_MAX))
    fits = 0 < precision <= _DIGITS_MAX and 0 <= scale <= precision
    return AtomicType(f"DECIMAL({precision}, {scale})" if fits else "STRING")


def _row(parts: Sequence[tuple[str, DataType]]) -> RowType:
    fields = [DataField(0, name, dtype) for name, dtype in parts]
    return RowType(True, numbered_fields(fields, count()))  # noqa: FBT003 - pypaimon's order


# ---- Canal -----------------------------------------------------------------------------------------------------------


def _decode_canal(records: DataFrame) -> DataFrame:
    frame = records.where("text IS NOT NULL").withColumn("_map", F.expr(_json_map("text")))
    kind = "upper(_map['type'])"
    frame = frame.where(f"_map IS NULL OR {kind} = 'TRUNCATE' OR NOT coalesce(_map['isDdl'] = 'true', false)")
    # A record has several rows, in the order in which they changed; `old` has the earlier values of an update.
    rows = f"posexplode_outer(from_json(_map['data'], '{JSON_ARRAY}')) AS (_at, _row)"
    frame = frame.selectExpr("*", rows)
    frame = frame.withColumn("_old", F.expr(_json_map(f"get(from_json(_map['old'], '{JSON_ARRAY}'), _at)")))
    frame = frame.withColumn("_after", F.expr(_json_map("_row")))
    keys = f"from_json(_map['pkNames'], '{JSON_ARRAY}')"
    is_change = f"{kind} IN ('INSERT', 'UPDATE', 'DELETE')"
    return _select_columns(
        frame,
        at="coalesce(_at, 0)",
        source="concat_ws('.', _map['database'], _map['table'])",
        operation=f"CASE WHEN {is_change} THEN CASE {kind} WHEN 'DELETE' THEN '{DELETE}' ELSE '{UPSERT}' END END",
        key=f"map_filter(_after, (k, v) -> array_contains({keys}, k))",
        before=f"CASE WHEN {kind} = 'DELETE' THEN _after ELSE {_with_old('_after', '_old')} END",
        after=f"CASE WHEN {kind} <> 'DELETE' THEN _after END",
        types="_map['mysqlType']",
        untyped="CASE WHEN _map['mysqlType'] IS NULL THEN _row END",
        event="text",
        reason=_reason(
            ("_map IS NULL", "'the value is not a JSON object'"),
            (f"{kind} = 'TRUNCATE'", "'the table was truncated, which is not applied'"),
            (f"NOT coalesce({is_change}, false)", "'the value is not an event of Canal: its type is unknown'"),
            ("_map['table'] IS NULL", "'the event names no table'"),
            *_no_row("true", "_after"),
        ),
    )


_MYSQL = {
    "bool": "BOOLEAN",
    "tinyint": "TINYINT",
    "smallint": "SMALLINT",
    "mediumint": "INT",
    "int": "INT",
    "integer": "INT",
    "bigint": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "real": "DOUBLE",
    "date": "DATE",
    "year": "INT",
}
_UNSIGNED = {"TINYINT": "SMALLINT", "SMALLINT": "INT", "INT": "BIGINT", "BIGINT": "DECIMAL(20, 0)"}
_MYSQL_TYPE = re.compile(r"\s*(?P<root>[a-z]+)\s*(?:\((?P<args>[^)]*)\))?(?P<rest>.*)", re.IGNORECASE | re.DOTALL)


def canal_types(text: str) -> tuple[EventField, ...]:
    """Return the columns that the MySQL types of an event describe; none where the text is not a JSON object.

    >>> [str(field.type) for field in canal_types('{"id": "int unsigned", "price": "decimal(10,2)"}')]
    ['BIGINT', 'DECIMAL(10, 2)']
    """
    try:
        types = json.loads(text)
        return tuple(_mysql_field(str(name), str(dtype)) for name, dtype in types.items())
    except (ValueError, AttributeError):
        return ()


def _mysql_field(name: str, dtype: str) -> EventField:
    found = _MYSQL_TYPE.match(dtype)
    root, args, rest = ("", "", "") if found is None else (found["root"].lower(), found["args"] or "", found["rest"])
    digits = args.strip() if args.strip().isdigit() else "0"
    if root in {"decimal", "numeric"}:
        sizes = [int(part) for part in re.findall(r"\d+", args)] or [10]
        precision, scale = sizes[0], sizes[1] if len(sizes) > 1 else 0
        return EventField(name, AtomicType(f"DECIMAL({precision}, {scale})" if precision <= _DIGITS_MAX else "STRING"))
    if root in {"datetime", "timestamp"}:
        return EventField(name, AtomicType(f"TIMESTAMP({digits})"))
    if root == "time":
        return EventField(name, AtomicType("TIME(3)"))
    if "blob" in root or "binary" in root:
        return EventField(name, AtomicType("BYTES"), Encoding.LATIN1)
    known = _MYSQL.get(root, "STRING")
    return EventField(name, AtomicType(_UNSIGNED.get(known, known) if "unsigned" in rest.lower() else known))


# ---- Maxwell ---------------------------------------------------------------------------------------------------------


def _decode_maxwell(records: DataFrame) -> DataFrame:
    frame = records.where("text IS NOT NULL").withColumn("_map", F.expr(_json_map("text")))
    other = "(_map['type'] LIKE 'table-%' OR _map['type'] LIKE 'database-%')"
    frame = frame.where(f"_map IS NULL OR NOT coalesce({other}, false)")
    frame = frame.where(
        "_map IS NULL OR NOT coalesce(_map['type'] IN ('bootstrap-start', 'bootstrap-complete'), false)"
    )
    frame = frame.withColumn("_after", F.expr(_json_map("_map['data']")))
    frame = frame.withColumn("_old", F.expr(_json_map("_map['old']")))
    frame = frame.withColumn("_key", F.expr(_json_map("key_text")))
    is_change = "_map['type'] IN ('insert', 'bootstrap-insert', 'update', 'delete')"
    names = f"from_json(_map['primary_key_columns'], '{JSON_ARRAY}')"
    named = f"map_filter(_after, (k, v) -> array_contains({names}, k))"
    of_record = "transform_keys(map_filter(_key, (k, v) -> startswith(k, 'pk.')), (k, v) -> substr(k, 4))"
    return _select_columns(
        frame,
        source="concat_ws('.', _map['database'], _map['table'])",
        operation=f"CASE WHEN {is_change} THEN CASE _map['type'] WHEN 'delete' THEN '{DELETE}' ELSE '{UPSERT}' END END",
        key=f"CASE WHEN {names} IS NULL THEN {of_record} ELSE {named} END",
        before=f"CASE WHEN _map['type'] = 'delete' THEN _after ELSE {_with_old('_after', '_old')} END",
        after="CASE WHEN _map['type'] <> 'delete' THEN _after END",
        types="cast(NULL AS STRING)",
        untyped="_map['data']",
        event="text",
        reason=_reason(
            ("_map IS NULL", "'the value is not a JSON object'"),
            (f"NOT coalesce({is_change}, false)", "'the value is not an event of Maxwell: its type is unknown'"),
            ("_map['table'] IS NULL", "'the event names no table'"),
            *_no_row("true", "_after"),
        ),
    )


# ---- Shared by the formats -------------------------------------------------------------------------------------------


def _with_old(after: str, old: str) -> str:
    """Return the SQL of the row before an update, of which only the changed values are given; null without them."""
    same = f"map_filter({after}, (k, v) -> NOT map_contains_key({old}, k))"
    return f"CASE WHEN {old} IS NOT NULL THEN map_concat({same}, {old}) END"


def _no_row(when: str, row: str) -> list[tuple[str, str]]:
    return [(f"{when} AND {row} IS NULL", "'the event has no row'")]


def _reason(*cases: tuple[str, str]) -> str:
    """Return the SQL of the first reason that holds, null if none does."""
    return f"CASE {' '.join(f'WHEN {condition} THEN {text}' for condition, text in cases)} END"


FORMATS = {
    "debezium": EventFormat(_decode_debezium, debezium_types),
    "canal": EventFormat(_decode_canal, canal_types),
    "maxwell": EventFormat(_decode_maxwell),
}
