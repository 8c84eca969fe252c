"""Columns of every type that Arrow and Paimon share, written and read back."""

import datetime
import decimal
import sys

import pyarrow as pa
from pypaimon import CatalogFactory, Schema

columns = pa.schema(
    [
        ("t", pa.int8()),
        ("s", pa.int16()),
        ("i", pa.int32()),
        ("b", pa.int64()),
        ("f", pa.float32()),
        ("d", pa.float64()),
        ("flag", pa.bool_()),
        ("text", pa.string()),
        ("raw", pa.binary()),
        ("fixed", pa.binary(3)),
        ("money", pa.decimal128(10, 2)),
        ("day", pa.date32()),
        ("clock", pa.time32("ms")),
        ("seconds", pa.timestamp("s")),
        ("millis", pa.timestamp("ms")),
        ("micros", pa.timestamp("us")),
        ("zoned", pa.timestamp("us", tz="UTC")),
        ("list", pa.list_(pa.int32())),
        ("map", pa.map_(pa.string(), pa.int64())),
        ("row", pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))])),
        pa.field("needed", pa.int32(), nullable=False),
    ]
)
moment = datetime.datetime(2024, 5, 6, 7, 8, 9)
full = {
    "t": 1,
    "s": 2,
    "i": 3,
    "b": 4,
    "f": 0.5,
    "d": 1.25,
    "flag": True,
    "text": "grün",
    "raw": b"\x00\x01",
    "fixed": b"abc",
    "money": decimal.Decimal("12.34"),
    "day": datetime.date(2024, 1, 2),
    "clock": datetime.time(3, 4, 5),
    "seconds": moment,
    "millis": moment.replace(microsecond=123000),
    "micros": moment.replace(microsecond=123456),
    "zoned": moment.replace(tzinfo=datetime.timezone.utc),
    "list": [1, 2],
    "map": [("k", 1)],
    "row": {"a": 5, "b": ["x"]},
    "needed": 6,
}
nothing = dict.fromkeys(full) | {"needed": 7}

catalog = CatalogFactory.create({"warehouse": sys.argv[1]})
catalog.create_database("types", False)
for file_format in ("parquet", "orc", "avro"):
    left_out = {"parquet": (), "orc": ("clock",), "avro": ("fixed", "map")}[file_format]
    names = [name for name in columns.names if name not in left_out]
    chosen = pa.schema([columns.field(name) for name in names])
    schema = Schema.from_pyarrow_schema(chosen, options={"file.format": file_format})
    catalog.create_table(f"types.{file_format}", schema, False)
    table = catalog.get_table(f"types.{file_format}")
    print([(field.id, field.name, str(field.type)) for field in table.fields if field.name not in ("clock", "zoned", "row")])
    builder = table.new_batch_write_builder()
    writer, commit = builder.new_write(), builder.new_commit()
    writer.write_arrow(pa.Table.from_pylist([{n: full[n] for n in names}, {n: nothing[n] for n in names}], schema=chosen))
    commit.commit(writer.prepare_commit())
    writer.close()
    commit.close()
    reader = table.new_read_builder()
    rows = reader.new_read().to_arrow(reader.new_scan().plan().splits())
    print([(field.name, field.type.equals(chosen.field(field.name).type)) for field in rows.schema])
    for row in rows.to_pylist():
        row["zoned"] = row["zoned"] and row["zoned"].isoformat()
        print(row)
