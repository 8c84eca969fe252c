"""Blocks decoded side by side give what fastavro gives record by record, or nothing."""

from __future__ import annotations

import io
import random
from collections.abc import Iterator, Mapping
from typing import Any, cast

import fastavro
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewright.formats import avro_columns
from lakewright.formats.avro_columns import Columns, decode_columns
from lakewright.formats.avro_container import Block, FileSchema, compile_schema, file_schema
from support.effort import examples

SCHEMA = {
    "type": "record",
    "name": "r",
    "fields": [
        {"name": "n", "type": "long"},
        {"name": "text", "type": "string"},
        {"name": "maybe", "type": ["null", "int"]},
        {"name": "last_null", "type": ["bytes", "null"]},
        {"name": "time", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}]},
        {"name": "names", "type": {"type": "array", "items": "string"}},
        {
            "name": "inner",
            "type": [
                "null",
                {
                    "type": "record",
                    "name": "i",
                    "fields": [
                        {"name": "low", "type": "bytes"},
                        {"name": "counts", "type": ["null", {"type": "array", "items": ["null", "long"]}]},
                    ],
                },
            ],
        },
    ],
}
LONGS = st.integers(-(2**54), 2**54) | st.sampled_from([0, -1, 63, 64, -64, -65, 8191, 8192, 2**31, 2**54 - 1])
RECORDS = st.fixed_dictionaries(
    {
        "n": LONGS,
        "text": st.text(max_size=200),
        "maybe": st.none() | st.integers(-(2**31), 2**31 - 1),
        "last_null": st.none() | st.binary(max_size=9),
        "time": st.none() | LONGS,
        "names": st.lists(st.text(max_size=5), max_size=4),
        "inner": st.none()
        | st.fixed_dictionaries(
            {"low": st.binary(max_size=20), "counts": st.none() | st.lists(st.none() | LONGS, max_size=70)}
        ),
    }
)


@pytest.fixture(autouse=True)
def few_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(avro_columns, "LANES_MIN", 1)


def schema() -> FileSchema:
    return file_schema(SCHEMA)


def encoded(records: list[dict[str, Any]]) -> Block:
    out = io.BytesIO()
    for record in records:
        fastavro.schemaless_writer(out, compile_schema(schema().entry), record)
    return Block(len(records), out.getvalue())


def flat(record: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in record.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{name}.")
        elif value is not None or f"{prefix}{name}" != "inner":
            yield f"{prefix}{name}", value


def values(columns: Columns) -> list[dict[str, Any]]:
    """Return the records in the form of `flat`, made of the columns alone."""
    rows, present = np.arange(columns.count), columns.records["inner"]
    out: list[dict[str, Any]] = [{} for _ in rows]
    kinds = {"names": {"type": "array", "items": "string"}}
    kinds["inner.counts"] = {"type": "array", "items": ["null", "long"]}  # type: ignore[dict-item]
    for name, column in columns.fields.items():
        found: list[Any] = columns.numbers(name, rows) if column.sizes is None else [*columns.slices(name, rows)]
        for row, value in enumerate(found):
            if name.startswith("inner.") and not present[row]:
                continue
            is_null = column.sizes is not None and column.valid is not None and not column.valid[row]
            if not is_null and name in kinds:
                value = fastavro.schemaless_reader(io.BytesIO(value), compile_schema(kinds[name]), None)  # noqa: PLW2901
            out[row][name] = None if is_null else value.decode() if name == "text" else value
    return out


@settings(max_examples=examples(300))
@given(st.lists(st.lists(RECORDS, min_size=1, max_size=5), min_size=1, max_size=6))
def test_columns_hold_what_the_records_hold(blocks: list[list[dict[str, Any]]]) -> None:
    columns = decode_columns([encoded(block) for block in blocks], schema())
    assert columns is not None
    assert values(columns) == [dict(flat(record)) for block in blocks for record in block]


def by_record(block: Block) -> list[dict[str, Any]] | None:
    source, coding = io.BytesIO(block.data), compile_schema(schema().entry)
    try:
        records = [fastavro.schemaless_reader(source, coding, None) for _ in range(block.count)]
    except Exception:  # noqa: BLE001 - whatever fastavro raises for damage
        return None
    return cast("list[dict[str, Any]]", records) if source.tell() == len(block.data) else None


@settings(max_examples=examples(600))
@given(st.lists(RECORDS, min_size=1, max_size=4), st.integers(0, 2**32))
def test_damage_gives_nothing_or_what_the_damaged_records_hold(records: list[dict[str, Any]], seed: int) -> None:
    chance, whole = random.Random(seed), encoded(records)
    data = bytearray(whole.data)
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    if chance.random() < 0.3:
        del data[chance.randrange(len(data)) :]
    damaged = Block(len(records), bytes(data))
    found = decode_columns([whole, damaged, whole], schema())
    expected = by_record(damaged)
    if found is None:
        return
    if expected is None:  # only texts are left unchecked, until somebody asks for them
        with pytest.raises(UnicodeDecodeError):
            values(found)
    else:
        assert values(found) == [dict(flat(record)) for record in (*records, *expected, *records)]


def test_few_or_uneven_blocks_are_left_to_the_other_decoder(monkeypatch: pytest.MonkeyPatch) -> None:
    record = {"n": 1, "text": "", "maybe": None, "last_null": None, "time": None, "names": [], "inner": None}
    monkeypatch.setattr(avro_columns, "LANES_MIN", 4)
    one, ten = encoded([record]), encoded([record] * 10)
    assert decode_columns([], schema()) is None
    assert decode_columns([one] * 3, schema()) is None
    assert decode_columns([one] * 4, schema()) is not None
    assert decode_columns([*[one] * 20, ten], schema()) is None
    assert decode_columns([ten] * 4, schema()) is not None


def test_a_type_that_is_not_known_is_left_to_the_other_decoder() -> None:
    strange = {"type": "record", "name": "r", "fields": [{"name": "n", "type": "double"}]}
    assert decode_columns([Block(1, bytes(8))], file_schema(strange)) is None


def test_a_number_of_nine_bytes_is_left_to_the_other_decoder() -> None:
    records = [{"n": 2**60, "text": "", "maybe": None, "last_null": None, "time": None, "names": [], "inner": None}]
    assert decode_columns([encoded(records)], schema()) is None
