"""Change events of databases become rows of tables, each event once."""

from __future__ import annotations

import base64
import json
import os
import random
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name

import lakewright as lw
from lakewright.commit.table_commit import WriteResult
from lakewright.errors import InvalidInputError
from lakewright.spark import change_capture
from lakewright.spark.cdc_formats import canal_types, debezium_types, format_of, shape_of, to_records
from lakewright.spark.cdc_values import Encoding, EventField, misfit_sql, text_sql, value_sql, widened_columns
from lakewright.spark.change_capture import CapturedBatches, cdc
from lakewright.spark.frame_write import write_micro_batch
from lakewright.spec.types import AtomicType, parse_type

NOW = {"availableNow": True}
RECORD = "key string, value string, topic string, partition int, offset long"
SECONDS_MAX = 300
JSON = dict[str, Any]


def _debezium(op: str, before: JSON | None, after: JSON | None, table: str = "orders", **more: object) -> JSON:
    return {"op": op, "before": before, "after": after, "source": {"db": "shop", "table": table}, **more}


# ---- types and values ------------------------------------------------------------------------------------------------


def test_the_schema_of_an_event_of_debezium_types_its_columns() -> None:
    row = [
        {"field": "id", "type": "int32"},
        {"field": "day", "type": "int32", "name": "io.debezium.time.Date"},
        {"field": "at", "type": "int64", "name": "io.debezium.time.MicroTimestamp"},
        {
            "field": "price",
            "type": "bytes",
            "name": "org.apache.kafka.connect.data.Decimal",
            "parameters": {"scale": "2", "connect.decimal.precision": "10"},
        },
        {"field": "tags", "type": "array", "items": {"type": "string"}},
        {"field": "place", "type": "struct", "fields": [{"field": "zip", "type": "int64"}]},
    ]
    fields = debezium_types(json.dumps({"type": "struct", "fields": [{"field": "after", "fields": row}]}))
    assert [(one.name, str(one.type), one.encoding) for one in fields] == [
        ("id", "INT", Encoding.PLAIN),
        ("day", "DATE", Encoding.DAYS),
        ("at", "TIMESTAMP(6)", Encoding.MICROS),
        ("price", "DECIMAL(10, 2)", Encoding.UNSCALED),
        ("tags", "ARRAY<STRING>", Encoding.PLAIN),
        ("place", "ROW<`zip` BIGINT>", Encoding.PLAIN),
    ]
    assert debezium_types("{}") == debezium_types("x") == ()


def test_columns_are_added_and_widened_in_the_order_of_the_events() -> None:
    seen = [("id", "INT"), ("id", "BIGINT"), ("id", "STRING"), ("n", "DECIMAL(4, 2)"), ("n", "DECIMAL(9, 3)")]
    events = [EventField(name, parse_type(dtype)) for name, dtype in seen]
    columns = widened_columns({"id": parse_type("SMALLINT")}, events)
    assert {name: str(dtype) for name, dtype in columns.items()} == {"id": "BIGINT", "n": "DECIMAL(9, 3)"}
    mysql = canal_types('{"a": "bigint(20) unsigned", "b": "datetime(3)", "c": "varbinary(9)", "d": "enum(\'x\')"}')
    assert [str(one.type) for one in mysql] == ["DECIMAL(20, 0)", "TIMESTAMP(3)", "BYTES", "STRING"]


def _bytes(number: int) -> str:
    return base64.b64encode(number.to_bytes((number.bit_length() + 8) // 8, "big", signed=True)).decode()


PRICE = EventField("", AtomicType("DECIMAL(10, 2)"), Encoding.UNSCALED)
BIG = EventField("", AtomicType("DECIMAL(38, 10)"), Encoding.UNSCALED)
ANY_SCALE = EventField("", AtomicType("STRING"), Encoding.SCALED)
NESTED = EventField("", parse_type("STRING"), parts=(EventField("day", AtomicType("DATE"), Encoding.DAYS),))
MISFIT = object()


def _in(encoding: Encoding) -> EventField:
    return EventField("", AtomicType("STRING"), encoding)


VALUES: list[tuple[str, Any, EventField | None, object]] = [
    ("7", "TINYINT", None, 7),
    ("700", "TINYINT", None, MISFIT),
    ("1.5", "BIGINT", None, MISFIT),
    ("abc", "DOUBLE", None, MISFIT),
    ("1.25", "DECIMAL(4, 2)", None, Decimal("1.25")),
    ("1.255", "DECIMAL(4, 2)", None, MISFIT),
    (_bytes(-12345), "DECIMAL(10, 2)", PRICE, Decimal("-123.45")),
    (_bytes(5), "DECIMAL(10, 2)", PRICE, Decimal("0.05")),
    (_bytes(-(10**37) + 1), "DECIMAL(38, 10)", BIG, Decimal("-999999999999999999999999999.9999999999")),
    ("!", "DECIMAL(10, 2)", PRICE, MISFIT),
    (_bytes(10**45), "DECIMAL(10, 2)", PRICE, MISFIT),
    (json.dumps({"scale": 3, "value": _bytes(1234)}), "STRING", ANY_SCALE, "1.234"),
    ("19000", "DATE", _in(Encoding.DAYS), date(2022, 1, 8)),
    ("99999999", "DATE", _in(Encoding.DAYS), MISFIT),
    ("2022-01-08", "DATE", None, date(2022, 1, 8)),
    ("1500", "TIMESTAMP(3)", _in(Encoding.MILLIS), datetime.fromisoformat("1970-01-01T00:00:01.500000")),
    ("-1", "TIMESTAMP(6)", _in(Encoding.MICROS), datetime.fromisoformat("1969-12-31T23:59:59.999999")),
    ("1", "TIMESTAMP(3)", _in(Encoding.MICROS), MISFIT),
    ("9" * 18, "TIMESTAMP(3)", _in(Encoding.MILLIS), MISFIT),
    ("2022-01-08T01:02:03", "TIMESTAMP(6)", None, datetime.fromisoformat("2022-01-08T01:02:03")),
    ("2022-01-08T01:02:03+05:00", "TIMESTAMP(6)", None, MISFIT),
    ("36000000", "STRING", _in(Encoding.TIME_MILLIS), "10:00:00"),
    ("YWI=", "BYTES", None, b"ab"),
    ("a\u00e9", "BYTES", _in(Encoding.LATIN1), b"a\xe9"),
    ("a\u20ac", "BYTES", _in(Encoding.LATIN1), MISFIT),
    ("abcd", "VARCHAR(3)", None, MISFIT),
    ("[1, null]", {"type": "ARRAY", "element": "INT"}, None, [1, None]),
    ("[1, 2.5]", {"type": "ARRAY", "element": "INT"}, None, MISFIT),
    ('{"a": 1}', {"type": "MAP", "key": "STRING NOT NULL", "value": "INT"}, None, {"a": 1}),
    ('{"day": 1}', {"type": "ROW", "fields": [{"id": 0, "name": "day", "type": "DATE"}]}, NESTED, (date(1970, 1, 2),)),
    ('{"other": 1}', {"type": "ROW", "fields": [{"id": 0, "name": "day", "type": "DATE"}]}, NESTED, MISFIT),
]


def test_texts_become_exactly_their_values_or_do_not_fit(spark: SparkSession) -> None:
    columns = []
    for at, (_, dtype, encoding, _) in enumerate(VALUES):
        raw, target = f"text[{at}]", parse_type(dtype)
        columns += [f"{value_sql(raw, target, encoding)} AS v{at}", f"{misfit_sql(raw, target, encoding)} AS m{at}"]
    texts = ", ".join(text_sql(text) for text, *_ in VALUES)
    (row,) = spark.sql(f"SELECT array({texts}) AS text").selectExpr(*columns).collect()
    found = [MISFIT if row[f"m{at}"] else row[f"v{at}"] for at in range(len(VALUES))]
    plain = [bytes(one) if isinstance(one, bytearray) else one for one in found]
    wrong = [(case[0], case[1], have) for case, have in zip(VALUES, plain, strict=True) if have != case[3]]
    assert wrong == []


def test_the_shape_of_a_json_text_has_letters_for_scalars(spark: SparkSession) -> None:
    text = r'{"a": "x\"y:1,", "b:2": [1, 2], "c": {"d": 1.5e3, "e": null}, "f": 12345678901234567890, "g": [true,":"]}'
    (row,) = spark.createDataFrame([(text,)], "text string").select(shape_of(F.col("text"))).collect()
    assert json.loads(row[0]) == {
        "a": "s",
        "b:2": ["i"],
        "c": {"d": "d", "e": "z"},
        "f": "n",
        "g": ["b", "s"],
    }


def test_the_function_of_a_query_travels(tmp_path: Path) -> None:
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    given = CapturedBatches(catalog, "c", format_of("debezium"), {}, str.lower, "offset", False, None, True)  # noqa: FBT003
    sent = cloudpickle.loads(cloudpickle.dumps(given))  # type: ignore[no-untyped-call]
    assert sent.kind == given.kind
    assert sent.target.warehouse == str(tmp_path)


# ---- formats ---------------------------------------------------------------------------------------------------------

Event = tuple[str, str, JSON | None, JSON | None, JSON | None]


def _events(spark: SparkSession, name: str, records: Sequence[tuple[object, object]]) -> list[Event]:
    rows = [
        (
            None if key is None else json.dumps(key),
            value if isinstance(value, str | None) else json.dumps(value),
            "t",
            0,
            at,
        )
        for at, (key, value) in enumerate(records)
    ]
    frame = format_of(name).decode(to_records(spark.createDataFrame(rows, RECORD)))
    found = frame.orderBy("offset", "at").collect()
    return [
        ("bad", "", None, None, None)
        if row["reason"] is not None
        else (row["source"], row["operation"], row["key"], row["before"], row["after"])
        for row in found
    ]


def test_events_of_debezium(spark: SparkSession) -> None:
    wrapped = {"schema": {}, "payload": _debezium("u", {"id": 1}, {"id": 2})}
    records = [
        ({"schema": {}, "payload": {"id": 1}}, wrapped),
        ({"id": 1}, _debezium("d", {"id": 1}, None)),
        ({"id": 1}, None),  # a tombstone
        ({"id": 1}, {"ddl": "ALTER TABLE", "databaseName": "shop"}),
        (None, {"ts_ms": 1}),  # a heartbeat
        (None, _debezium("t", None, None)),
        (None, _debezium("u", None, None)),
        (None, "{"),
        (None, '{"hello": 1}'),
        (None, _debezium("c", None, {"id": "__debezium_unavailable_value"})),
    ]
    assert _events(spark, "debezium", records) == [
        ("shop.orders", "upsert", {"id": "1"}, {"id": "1"}, {"id": "2"}),
        ("shop.orders", "delete", {"id": "1"}, {"id": "1"}, None),
        *[("bad", "", None, None, None)] * 5,
    ]


def test_events_of_canal_and_maxwell_know_the_row_before_an_update(spark: SparkSession) -> None:
    canal = {"database": "shop", "table": "orders", "pkNames": ["id"], "isDdl": False, "mysqlType": {"id": "int"}}
    rows = [{"id": "2", "n": "5"}, {"id": "3", "n": None}]
    records: list[tuple[object, object]] = [
        (None, {**canal, "type": "UPDATE", "data": rows, "old": [{"id": "1"}, {"n": "4"}]}),
        (None, {**canal, "type": "DELETE", "data": rows[:1], "old": None}),
        (None, {**canal, "type": "ALTER", "isDdl": True, "data": None}),
        (None, {**canal, "type": "INSERT", "data": None}),
    ]
    assert _events(spark, "canal", records) == [
        ("shop.orders", "upsert", {"id": "2"}, {"id": "1", "n": "5"}, rows[0]),
        ("shop.orders", "upsert", {"id": "3"}, {"id": "3", "n": "4"}, rows[1]),
        ("shop.orders", "delete", {"id": "2"}, rows[0], None),
        ("bad", "", None, None, None),
    ]
    maxwell = {"database": "shop", "table": "orders"}
    key = {"database": "shop", "table": "orders", "pk.id": 2}
    records = [
        (key, {**maxwell, "type": "update", "data": {"id": 2, "n": 5}, "old": {"id": 1}}),
        (key, {**maxwell, "type": "delete", "data": {"id": 2, "n": 5}}),
        (None, {**maxwell, "type": "table-alter"}),
        (None, {**maxwell, "type": "other"}),
    ]
    assert _events(spark, "maxwell", records) == [
        ("shop.orders", "upsert", {"id": "2"}, {"n": "5", "id": "1"}, {"id": "2", "n": "5"}),
        ("shop.orders", "delete", {"id": "2"}, {"id": "2", "n": "5"}, None),
        ("bad", "", None, None, None),
    ]


# ---- queries ---------------------------------------------------------------------------------------------------------


@dataclass
class Capture:
    """Records in files, the query that applies them, and a dict that says what the tables hold."""

    spark: SparkSession
    root: Path
    options: dict[str, Any] = field(default_factory=dict)
    offset: int = 0
    files: int = 0
    rows: dict[str, dict[int, JSON]] = field(default_factory=dict)
    newest: dict[tuple[str, int], int] = field(default_factory=dict)
    dead: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.catalog = lw.CatalogFactory.create(
            {"warehouse": str(self.root / "warehouse"), "table-default.bucket": "1"}
        )
        (self.root / "in").mkdir()

    def add(self, records: Sequence[JSON]) -> None:
        """Add a file of records, which is a batch."""
        path = self.root / "in" / f"{self.files:04}.json"
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
        os.utime(path, (1_700_000_000 + self.files,) * 2)  # Spark takes files in the order of their times
        self.files += 1

    def record(self, value: object, key: object = None) -> JSON:
        self.offset += 1
        text = value if isinstance(value, str | None) else json.dumps(value)
        return {"key": json.dumps(key), "value": text, "topic": "t", "partition": 0, "offset": self.offset}

    def start(self, **options: object) -> None:
        stream = self.spark.readStream.schema(RECORD).option("maxFilesPerTrigger", "1").json(str(self.root / "in"))
        given = {"checkpoint": str(self.root / "checkpoint"), "trigger": NOW, **self.options, **options}
        assert cdc(stream, self.catalog, **given).awaitTermination(SECONDS_MAX), "the query does not end"

    def repeat_last_batch(self) -> None:
        """Make Spark run the last batch again, as if the driver had died before it recorded its end."""
        commits = self.root / "checkpoint" / "commits"
        last = max((path for path in commits.iterdir() if path.name.isdigit()), key=lambda path: int(path.name))
        last.unlink()
        (commits / f".{last.name}.crc").unlink(missing_ok=True)

    def table(self, name: str) -> lw.FileStoreTable:
        return self.catalog.get_table(f"shop.{name}")

    def check(self) -> None:
        for name, expected in self.rows.items():
            table = self.table(name)
            found = {row["id"]: row for row in lw.read_table(table).to_pylist()}
            shown = {
                key: {k: v for k, v in row.items() if v is not None and not k.startswith("_cdc")}
                for key, row in found.items()
            }
            assert shown == expected, name
            batches = [
                s.commit_identifier for s in table.store.snapshots.walk_back(table.store.snapshots.latest_id() or 0)
            ]
            own = [number for number in batches if number < 1 << 40]
            assert len(set(own)) == len(own), f"{name}: a batch is there twice"
        letters = lw.read_table(self.table("cdc_dead_letters"))
        assert sorted(letters["offset"].to_pylist()) == sorted(self.dead)
        assert letters["reason"].null_count == letters["text"].null_count == 0


def _history(capture: Capture, dice: random.Random, events: int) -> list[JSON]:
    """Return records of random changes of three tables, and let the dict know what comes of them."""
    records: list[JSON] = []
    for _ in range(events):
        name = dice.choice(["orders", "items", "people"])
        rows = capture.rows.setdefault(name, {})
        if dice.random() < 0.06:
            bad = dice.choice(["{", "[1]", '"x"', '{"op": "c"}', _debezium("u", None, {"id": 1, "n": "many"}, name)])
            records.append(capture.record(bad))
            capture.dead.append(capture.offset)
            continue
        key = dice.randrange(8)
        row: JSON = {"id": key, "n": dice.randrange(1 << 40), "name": f"{name}\u00fc'\"{key}"}
        if capture.files:  # columns that come later, one with fields that come later still
            row["extra"] = {"a": dice.random(), **({"b": ["x"]} if capture.files > 1 else {})}
        old = rows.get(key)
        choice = dice.random()
        if old is not None and choice < 0.25:
            records.append(capture.record(_debezium("d", {"id": key}, None, name), {"id": key}))
            del rows[key]
        elif old is not None and choice < 0.4:
            moved = {**row, "id": (key + 1) % 8}
            records.append(capture.record(_debezium("u", old, moved, name), {"id": moved["id"]}))
            del rows[key]
            rows[moved["id"]] = moved
        else:
            records.append(capture.record(_debezium("c", None, row, name), {"id": key}))
            rows[key] = row
        if dice.random() < 0.1:
            records.append(capture.record(None, {"id": key}))
    dice.shuffle(records)  # files of one batch come in no order
    return records


def _with_all_fields(rows: Mapping[int, JSON]) -> dict[int, JSON]:
    """Return rows as they are read once a field was added inside a column."""
    return {
        key: {**row, **({"extra": {"a": row["extra"]["a"], "b": row["extra"].get("b")}} if "extra" in row else {})}
        for key, row in rows.items()
    }


def _dying_after(commits: int) -> AbstractContextManager[object]:
    """Let the driver die after some commits of a batch: of the dead letters, and of tables."""
    done: list[int] = []

    def write(df: DataFrame, table: lw.FileStoreTable, batch_id: int, *, commit_user: str) -> WriteResult:
        result = write_micro_batch(df, table, batch_id, commit_user=commit_user)
        done.append(batch_id)
        if len(done) == commits:
            raise RuntimeError("the driver dies")
        return result

    return patch.object(change_capture, "write_micro_batch", write)


def test_random_histories_with_restarts_end_as_a_dict_does(spark: SparkSession, tmp_path: Path) -> None:
    dice = random.Random(20261120)
    capture = Capture(spark, tmp_path)
    for batch in range(3):
        capture.add(_history(capture, dice, 60))
        if batch:
            with _dying_after(batch), pytest.raises(StreamingQueryException, match="the driver dies"):
                capture.start()
        capture.start()
    capture.repeat_last_batch()
    capture.start()
    capture.rows = {name: _with_all_fields(rows) for name, rows in capture.rows.items()}
    capture.check()


def test_updates_that_come_late_and_marked_deletes_survive_a_compaction(spark: SparkSession, tmp_path: Path) -> None:
    capture = Capture(spark, tmp_path, {"deletes": "mark", "order": "ts_ms", "tables": lambda name: f"new.{name[5:]}"})
    alive = _debezium("c", None, {"id": 1, "n": 1}, ts_ms=10)
    gone = _debezium("d", {"id": 1, "n": 1}, None, ts_ms=30)
    late = _debezium("u", None, {"id": 1, "n": 2}, ts_ms=20)
    same = [_debezium("u", None, {"id": 2, "n": n}, ts_ms=20) for n in range(5)]  # of one millisecond the last wins
    unordered = _debezium("u", None, {"id": 3, "n": 1})
    records = [capture.record(value, {"id": 1}) for value in (alive, gone, *same, unordered)]
    capture.add(records[::-1])
    capture.start()
    table = capture.catalog.get_table("new.orders")
    table.compact(full=True)
    capture.add([capture.record(late, {"id": 1})])
    capture.start()
    rows = lw.read_table(table).to_pylist()
    assert [(row["id"], row["n"], row["_deleted"], row["_cdc_order"]) for row in rows] == [
        (1, 1, True, 30),
        (2, 4, False, 20),
    ]
    (letter,) = lw.read_table(capture.catalog.get_table("new.cdc_dead_letters")).to_pylist()
    assert letter["offset"] == 8, letter
    assert "no integer" in letter["reason"]


def test_a_table_of_another_kind_and_wrong_arguments_are_refused_before_the_query_starts(
    spark: SparkSession, tmp_path: Path
) -> None:
    capture = Capture(spark, tmp_path)
    columns = pa.schema({"id": pa.int64(), "n": pa.int64()})
    capture.catalog.create_database("shop")
    capture.catalog.create_table("shop.plain", lw.Schema.from_pyarrow_schema(columns, primary_keys=["id"]))
    plain = capture.table("plain")
    stream = spark.readStream.schema(RECORD).json(str(tmp_path / "in"))
    checkpoint = str(tmp_path / "checkpoint")
    wrong: list[tuple[Any, dict[str, Any], str]] = [
        (capture.catalog, {"checkpoint": None}, "checkpoint is the location"),
        (capture.catalog, {"format": "avro"}, "format is one of 'debezium', 'canal', 'maxwell'"),
        (capture.catalog, {"deletes": "soft"}, "deletes"),
        (capture.catalog, {"order": 3}, "order"),
        (capture.catalog, {"keys": ["id"]}, "keys is a mapping"),
        (capture.catalog, {"schema_mode": "overwrite"}, "schema_mode"),
        (capture.catalog, {"trigger": "now"}, "trigger is a mapping"),
        (capture.catalog, {"tables": {"shop.orders": "shop.plain"}}, "its sequence.field is not _cdc_order"),
        (capture.catalog, {"dead_letters": plain}, "lacks the columns"),
        (plain, {}, "its sequence.field is not _cdc_order"),
        (plain, {"tables": {"a": "b"}}, "tables maps names"),
        (3, {}, "catalog_or_table"),
    ]
    for target, options, message in wrong:
        with pytest.raises(InvalidInputError, match=message):
            cdc(stream, target, **{"checkpoint": checkpoint, **options})
    with pytest.raises(InvalidInputError, match="is no stream"):
        cdc(spark.range(1), capture.catalog, checkpoint=checkpoint)
    with pytest.raises(InvalidInputError, match="lacks the columns"):
        cdc(stream.drop("offset"), capture.catalog, checkpoint=checkpoint)
    assert not spark.streams.active
    assert not Path(checkpoint).exists()
