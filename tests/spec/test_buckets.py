from __future__ import annotations

import sys
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewright.errors import InvalidInputError, UnsupportedError
from lakewright.spec.binary_row import encode_body
from lakewright.spec.bucket_hash import _bucket, bucket_ids, bucket_of, row_hashes
from lakewright.spec.scalars import cast_text, to_array
from lakewright.spec.types import ArrayType, AtomicType, DataType, Value
from support.effort import examples
from support.golden import expected
from support.values import scalar_types, values_of

MOMENT = 1_714_979_289_123_000_000
ZEROS = "0000000000000000"

# types, values, row bytes (None: not stated), hash, bucket of 7, bucket of 16
VECTORS: list[tuple[str, tuple[Value, ...], str | None, int, int, int]] = [
    ("INT", (1,), f"{ZEROS}0100000000000000", 1465514398, 5, 14),
    ("INT", (-1,), f"{ZEROS}ffffffff00000000", 1133687267, 6, 3),
    ("INT", (None,), f"0001000000000000{ZEROS}", -1748325344, 3, 0),
    ("BIGINT", (1234567890123,), f"{ZEROS}cb04fb711f010000", -1873221036, 1, 12),
    ("BIGINT", (-3,), f"{ZEROS}fdffffffffffffff", -1512827124, 4, 4),
    ("TINYINT", (-5,), f"{ZEROS}fb00000000000000", -866908712, 5, 8),
    ("SMALLINT", (300,), f"{ZEROS}2c01000000000000", 690796707, 6, 3),
    ("BOOLEAN", (True,), f"{ZEROS}0100000000000000", 1465514398, 5, 14),
    ("BOOLEAN", (False,), ZEROS * 2, -300363099, 1, 11),
    ("STRING", ("",), f"{ZEROS}0000000000000080", 302122119, 5, 7),
    ("STRING", ("abc",), f"{ZEROS}6162630000000083", -101922419, 4, 3),
    ("STRING", ("abcdefg",), f"{ZEROS}6162636465666787", -1431907323, 0, 11),
    ("STRING", ("abcdefgh",), f"{ZEROS}08000000100000006162636465666768", -843760178, 2, 2),
    (
        "STRING",
        ("hello paimon world",),
        f"{ZEROS}1200000010000000" + b"hello paimon world".hex() + "00" * 6,
        314798453,
        4,
        5,
    ),
    ("STRING", ("日本語",), f"{ZEROS}0900000010000000e697a5e69cace8aa9e" + "00" * 7, -476998221, 0, 13),
    ("BYTES", (b"0123456789",), f"{ZEROS}0a0000001000000030313233343536373839" + "00" * 6, 1898686293, 0, 5),
    ("DATE", (20000,), f"{ZEROS}204e000000000000", 1668009018, 4, 10),
    ("TIME(3)", (3723004,), f"{ZEROS}fcce380000000000", -867467144, 5, 8),
    ("TIMESTAMP(3)", (MOMENT,), f"{ZEROS}2338bb4c8f010000", 1545699168, 6, 0),
    ("TIMESTAMP(6)", (MOMENT + 456000,), f"{ZEROS}40f50600100000002338bb4c8f010000", 361594329, 5, 9),
    ("TIMESTAMP(6)", (-1000,), f"{ZEROS}583e0f0010000000ffffffffffffffff", 1236894319, 3, 15),
    ("TIMESTAMP(6)", (None,), f"00010000000000000000000010000000{ZEROS}", -340882661, 0, 5),
    ("TIMESTAMP_LTZ(6)", (MOMENT + 456000,), f"{ZEROS}40f50600100000002338bb4c8f010000", 361594329, 5, 9),
    ("DECIMAL(10,2)", (Decimal("12345.67"),), f"{ZEROS}87d6120000000000", 754928256, 5, 0),
    ("DECIMAL(20,2)", (Decimal("12345.67"),), f"{ZEROS}030000001000000012d687" + "00" * 13, -1505263393, 4, 1),
    ("DECIMAL(38,10)", (Decimal("-1.5"),), f"{ZEROS}0500000010000000fc81ee2a00" + "00" * 11, -1749182803, 4, 3),
    ("DECIMAL(20,2)", (None,), "00010000000000000000000010000000" + ZEROS * 2, -1380280760, 5, 8),
    ("FLOAT", (1.5,), f"{ZEROS}0000c03f00000000", -173842779, 5, 11),
    ("DOUBLE", (3.14,), f"{ZEROS}1f85eb51b81e0940", 802027594, 4, 10),
    ("DOUBLE", (-0.0,), f"{ZEROS}0000000000000080", 302122119, 5, 7),
    ("INT;STRING", (7, "x"), f"{ZEROS}07000000000000007800000000000081", -1252423430, 6, 6),
    ("BIGINT;BIGINT", (1, 2), None, 1909828896, 3, 0),
    (
        "STRING;BIGINT",
        ("a-long-string", 42),
        f"{ZEROS}0d000000180000002a00000000000000" + b"a-long-string".hex() + "000000",
        -106755147,
        2,
        11,
    ),
    ("STRING;STRING", ("first long string", "second long string"), None, 642005590, 2, 6),
    ("INT;STRING", (None, None), f"0003000000000000{ZEROS}{ZEROS}", -1130415291, 5, 11),
]


@pytest.mark.parametrize(("text", "values", "image", "digest", "of_7", "of_16"), VECTORS)
def test_keys_hash_as_in_java(
    text: str, values: tuple[Value, ...], image: str | None, digest: int, of_7: int, of_16: int
) -> None:
    types = [AtomicType(t) for t in text.split(";")]
    if image is not None:
        assert encode_body(values, types).hex() == image
    columns = [to_array([v], t) for v, t in zip(values, types, strict=True)]
    assert row_hashes(columns, types).tolist() == [digest]
    for count, bucket in ((7, of_7), (16, of_16)):
        assert bucket_ids(columns, types, function="default", buckets=count).tolist() == [bucket]
        assert bucket_of(values, types, function="default", buckets=count) == bucket


def test_mod_and_hive_as_in_java() -> None:
    big, text, integer = AtomicType("BIGINT"), AtomicType("STRING"), AtomicType("INT")
    mod = bucket_ids([pa.array([-8, -7, -1, 13, None])], [big], function="mod", buckets=7)
    assert mod.tolist() == [6, 0, 6, 6, 0]
    assert bucket_of([-3], [big], function="hive", buckets=7) == 2
    assert bucket_of(["abc"], [text], function="hive", buckets=7) == 6
    assert bucket_of([5, "abc"], [integer, text], function="hive", buckets=7) == 0


def _signed(number: int) -> int:
    return (number + 2**31) % 2**32 - 2**31


def _java_string_hash(data: bytes) -> int:
    digest = 0
    for byte in data:
        digest = digest * 31 + (byte - 256 if byte > 127 else byte)
    return digest


@given(st.lists(st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=12), min_size=1, max_size=20))
@settings(max_examples=examples(60))
def test_hive_hashes_text_byte_by_byte(texts: list[str | None]) -> None:
    column = pa.array(["skipped", *texts])[1:]
    found = bucket_ids([column], [AtomicType("STRING")], function="hive", buckets=1000)
    wanted = [0 if t is None else (_java_string_hash(t.encode()) & 0x7FFFFFFF) % 1000 for t in texts]
    assert found.tolist() == wanted


def test_hive_hashes_of_numbers() -> None:
    def hive(value: Value, text: str) -> int:
        return bucket_of([value], [AtomicType(text)], function="hive", buckets=2**31 - 1)

    assert hive(-0.0, "DOUBLE") == hive(0.0, "DOUBLE") == 0
    assert hive(1.5, "FLOAT") == 0x3FC00000
    assert hive(1.5, "DOUBLE") == 0x3FF80000
    assert hive(value=True, text="BOOLEAN") == 1
    assert hive(Decimal("12.50"), "DECIMAL(10,2)") == 31 * 125 + 1
    assert hive(Decimal(100), "DECIMAL(10,2)") == 31 - 2
    wide = 12345678901234567891
    assert hive(Decimal(wide), "DECIMAL(20,0)") == _signed(31 * ((wide >> 32) * 31 + (wide & 0xFFFFFFFF))) & 0x7FFFFFFF


@given(st.data())
@settings(max_examples=examples(150))
def test_many_rows_hash_as_each_one_does(data: st.DataObject) -> None:
    types = data.draw(st.lists(scalar_types, min_size=1, max_size=4))
    count = data.draw(st.integers(0, 40))
    rows = [tuple(data.draw(values_of(t)) for t in types) for _ in range(min(count, 12))]
    rows = (rows * 4)[:count]
    columns = [to_array([row[i] for row in rows], t) for i, t in enumerate(types)]
    wanted = [bucket_of(row, types, function="default", buckets=31) for row in rows]  # type: ignore[arg-type]
    assert bucket_ids(columns, types, function="default", buckets=31).tolist() == wanted
    first = data.draw(st.integers(0, count))
    chunked = [pa.chunked_array([c[:first], c[first:]]) for c in columns]
    assert bucket_ids(chunked, types, function="default", buckets=31).tolist() == wanted
    sliced = [c.slice(first) for c in columns]
    assert bucket_ids(sliced, types, function="default", buckets=31).tolist() == wanted[first:]


@pytest.mark.parametrize("length", range(6, 19))
def test_texts_that_are_all_as_long_hash_as_each_one_does(length: int) -> None:
    texts = [f"{n:0{length}d}" for n in range(40)]
    types = [AtomicType("STRING"), AtomicType("BIGINT"), AtomicType("STRING")]
    rows = list(zip(texts, range(40), texts[::-1], strict=True))
    columns = [to_array(list(column), dtype) for column, dtype in zip(zip(*rows, strict=True), types, strict=True)]
    wanted = [bucket_of(row, types, function="default", buckets=31) for row in rows]
    assert bucket_ids(columns, types, function="default", buckets=31).tolist() == wanted
    sliced = [column.slice(3, 30) for column in columns]
    assert bucket_ids(sliced, types, function="default", buckets=31).tolist() == wanted[3:33]


def test_blocks_and_very_long_texts_change_nothing() -> None:
    rng = np.random.default_rng(7)
    texts = ["x" * int(n) for n in rng.integers(0, 40, 70_000)]
    texts[65_000] = "long " * 20_000
    texts[3] = "ab" * 1000
    hashes = row_hashes([pa.array(texts)], [AtomicType("STRING")])
    for i in [0, 3, 32_767, 32_768, 65_000, 69_999]:
        assert hashes[i] == row_hashes([pa.array([texts[i]])], [AtomicType("STRING")])[0]
        assert bucket_of([texts[i]], [AtomicType("STRING")], function="default", buckets=9) == abs(int(hashes[i])) % 9


@pytest.mark.parametrize("lengths", [[100_000], [100_000, 100_000, 100_000], [5, 100_000], [90_000, 100_000]], ids=str)
def test_a_few_long_texts_take_no_call_for_each_word(lengths: list[int]) -> None:
    column = pa.array([f"{n}" + "é" * (n // 2) for n in lengths])
    calls = 0

    def count(_frame: object, _event: str, _argument: object) -> None:
        nonlocal calls
        calls += 1

    sys.setprofile(count)
    try:
        row_hashes([column], [AtomicType("STRING")])
    finally:
        sys.setprofile(None)
    assert calls < max(lengths) / 100


@pytest.mark.parametrize(
    ("dtype", "function", "buckets", "error"),
    [
        (ArrayType(True, AtomicType("INT")), "default", 4, UnsupportedError),  # noqa: FBT003
        (AtomicType("INT"), "other", 4, UnsupportedError),
        (AtomicType("INT"), "default", 0, InvalidInputError),
        (AtomicType("SMALLINT"), "mod", 4, InvalidInputError),
        (AtomicType("DATE"), "hive", 4, UnsupportedError),
    ],
    ids=str,
)
def test_what_cannot_be_hashed_is_refused(dtype: DataType, function: str, buckets: int, error: type[Exception]) -> None:
    column = to_array([None], dtype)
    with pytest.raises(error):
        bucket_ids([column], [dtype], function=function, buckets=buckets)


def _golden_value(cell: object, dtype: AtomicType) -> Value:
    if isinstance(cell, str) and dtype.root in {"BINARY", "VARBINARY"}:
        return bytes.fromhex(cell)
    if isinstance(cell, str):
        return cast_text(cell, dtype)
    return float(cell) if dtype.root in {"FLOAT", "DOUBLE"} and cell is not None else cell  # type: ignore[arg-type, return-value]


def test_golden_rows_are_in_the_buckets_that_java_chose() -> None:
    tables = {name: spec for name, spec in expected().items() if _bucket_keys(spec)}
    assert len(tables) > 40
    assert [name for name, spec in tables.items() if _golden_buckets(spec) != spec["buckets"]] == []


def _bucket_keys(spec: dict[str, Any]) -> list[str]:
    if "buckets" not in spec:
        return []
    keys = [k for k in spec["primaryKeys"] if k not in spec["partitionKeys"]]
    return spec["options"]["bucket-key"].split(",") if "bucket-key" in spec["options"] else keys


def _golden_buckets(spec: dict[str, Any]) -> list[int]:
    columns, keys = {column[1]: i for i, column in enumerate(spec["columns"])}, _bucket_keys(spec)
    types = [AtomicType(spec["columns"][columns[k]][2]) for k in keys]
    rows = [spec["pool"][i] for i in spec["rows"]]
    arrays = [
        to_array([_golden_value(row[columns[k]], t) for row in rows], t) for k, t in zip(keys, types, strict=True)
    ]
    function = spec["options"].get("bucket-function.type", "default")
    # A rescaled table has partitions of different bucket counts.
    totals = {str(file["partition"]): file["totalBuckets"] for file in spec["files"]}
    found = {n: bucket_ids(arrays, types, function=function, buckets=n) for n in totals.values()}
    partitions = [str([row[columns[k]] for k in spec["partitionKeys"]]) for row in rows]
    return [int(found[totals[p]][i]) for i, p in enumerate(partitions)]


@pytest.mark.parametrize("buckets", [1, 2, 3, 7, 1 << 20, 2**31 - 1])
def test_hashes_below_zero_share_the_buckets_of_those_above(buckets: int) -> None:
    hashes = [0, 1, -1, 7, -7, 2**31 - 1, -(2**31 - 1), -(2**31)]
    assert _bucket(np.array(hashes, np.int32), buckets).tolist() == [abs(one) % buckets for one in hashes]
