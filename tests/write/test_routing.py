"""Every row lands in the one group it belongs to, and rows keep their order."""

from __future__ import annotations

import random
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewright.spec.binary_row import encode_row
from lakewright.spec.bucket_hash import bucket_of
from lakewright.spec.manifest import EMPTY_ROW
from lakewright.spec.scalars import from_scalar, to_array
from lakewright.spec.schema import Schema, new_table_schema
from lakewright.spec.types import AtomicType, DataField, Value
from lakewright.write.bucket_routing import HashRouter, Routing, RowGroup, route, run_bounds, stable_order
from support.effort import examples

N = DataField(0, "n", AtomicType("BIGINT"))
DAY = DataField(1, "day", AtomicType("DATE"))
CITY = DataField(2, "city", AtomicType("STRING"))
RATE = DataField(3, "rate", AtomicType("DOUBLE"))
KEY = DataField(4, "key", AtomicType("INT"))
SCHEMA = pa.schema({"n": pa.int64(), "day": pa.date32(), "city": pa.string(), "rate": pa.float64(), "key": pa.int32()})


def reference(table: pa.Table, routing: Routing) -> dict[tuple[bytes, int], list[object]]:
    """Group row by row, as slowly and as plainly as it goes."""
    groups: dict[tuple[bytes, int], list[object]] = {}
    for i in range(table.num_rows):
        values = [from_scalar(table[f.name][i], f.type) for f in routing.partition_fields]
        partition = encode_row(values, [f.type for f in routing.partition_fields])
        bucket = 0
        if routing.buckets > 1:
            keys = [from_scalar(table[f.name][i], f.type) for f in routing.bucket_fields]
            types = [f.type for f in routing.bucket_fields]
            bucket = bucket_of(keys, types, function=routing.function, buckets=routing.buckets)
        groups.setdefault((partition, bucket), []).append(table["n"][i].as_py())
    return groups


def as_dict(groups: list[RowGroup]) -> dict[tuple[bytes, int], list[object]]:
    out = {(g.partition, g.bucket): g.rows["n"].to_pylist() for g in groups}
    assert len(out) == len(groups), "a group stands there twice"
    return out


rows = st.lists(
    st.tuples(
        st.one_of(st.none(), st.integers(-3, 3)),
        st.one_of(st.none(), st.sampled_from(["", " ", "a", "b", "ä/ö", "x" * 40])),
        st.one_of(st.none(), st.sampled_from([0.0, -0.0, 1.5, float("inf")])),
        st.one_of(st.none(), st.integers(-(2**31), 2**31 - 1)),
    ),
    max_size=60,
)
partitions = st.sets(st.sampled_from([DAY, CITY, RATE]), max_size=3).map(lambda s: tuple(sorted(s, key=lambda f: f.id)))


@settings(max_examples=examples(150))
@given(rows, partitions, st.sampled_from([-1, 1, 2, 7]), st.sampled_from(["default", "mod"]), st.integers(1, 5))
def test_groups_equal_the_reference(
    data: list[tuple[int | None, str | None, float | None, int | None]],
    partition_fields: tuple[DataField, ...],
    buckets: int,
    function: str,
    chunks: int,
) -> None:
    if function == "mod":
        data = [row for row in data if row[3] is not None]
    columns = [list(column) for column in zip(*data, strict=True)] or [[], [], [], []]
    whole = pa.table(
        [
            pa.array(range(len(data)), pa.int64()),
            pa.array(columns[0], pa.int32()).cast(pa.date32()),
            pa.array(columns[1], pa.string()),
            pa.array(columns[2], pa.float64()),
            pa.array(columns[3], pa.int32()),
        ],
        schema=SCHEMA,
    )
    step = max(1, len(data) // chunks)
    parts = [whole.slice(i, step) for i in range(0, len(data), step)]
    table = pa.concat_tables(parts) if parts else whole
    routing = Routing("t", partition_fields, (KEY,) if buckets > 0 else (), buckets, function)
    found, wanted = as_dict(route(table, routing)), reference(whole, routing)
    assert (found, list(found)) == (wanted, list(wanted))  # as the partitions and buckets first appear


@pytest.mark.parametrize("span", [254, 255, 256, 257, 65_534, 65_535, 65_536, 65_537])
def test_codes_are_told_apart_however_far_they_lie_from_each_other(span: int) -> None:
    codes = np.array([0, span, 1, 0, span, span - 1, 0, 1]) - 7
    order = stable_order(codes)
    runs = np.split(order, run_bounds(codes[order])[1:-1])
    assert sorted(run.tolist() for run in runs) == [[0, 3, 6], [1, 4], [2, 7], [5]]


def test_one_group_is_not_copied() -> None:
    table = pa.table({"n": pa.array(range(100), pa.int64()), "city": ["a"] * 100})
    for routing in (Routing("t", ()), Routing("t", (CITY,))):
        (group,) = route(table, routing)
        assert group.rows["n"].chunk(0).buffers()[1].address == table["n"].chunk(0).buffers()[1].address


def test_rows_that_come_in_order_are_not_copied() -> None:
    table = pa.table({"n": pa.array(range(100), pa.int64()), "city": ["a"] * 50 + ["b"] * 50})
    groups = route(table, Routing("t", (CITY,)))
    addresses = {g.rows["n"].chunk(0).buffers()[1].address for g in groups}
    assert addresses == {table["n"].chunk(0).buffers()[1].address}


def test_without_partitions_and_buckets_all_rows_go_to_bucket_0() -> None:
    (group,) = route(pa.table({"n": [1, 2]}), Routing("t", ()))
    assert (group.partition, group.bucket, group.rows.num_rows) == (EMPTY_ROW, 0, 2)
    assert route(pa.table({"n": pa.array([], pa.int64())}), Routing("t", ())) == []


def test_an_explicit_bucket_wins() -> None:
    table = pa.table(
        {"n": pa.array([1, 2, 3], pa.int64()), "key": pa.array([1, 2, 3], pa.int32()), "city": ["a", "b", "a"]}
    )
    groups = route(table, Routing("t", (CITY,), (KEY,), 4), bucket=3)
    assert {g.bucket for g in groups} == {3}
    assert sorted(g.rows.num_rows for g in groups) == [1, 2]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("BOOLEAN", [None, True, False, None, True, False]),
        ("TINYINT", [3, None, 1, 3, None, 1]),
        ("DOUBLE", [0.0, -0.0, None, 0.0, -0.0, None]),
        ("DATE", [3, None, 1, 3, None, 1]),
        ("TIMESTAMP(9)", [3, None, 1, 3, None, 1]),
        ("DECIMAL(38, 3)", [Decimal("1.500"), None, Decimal("1.000"), Decimal("1.500"), None, Decimal("1.000")]),
        ("STRING", ["b", "", None, "b", "", None]),
        ("BYTES", [b"x" * 20, b"", None, b"x" * 20, b"", None]),
    ],
)
def test_partition_columns_of_any_type_keep_their_values(text: str, values: list[Value]) -> None:
    part = DataField(0, "p", AtomicType(text))
    column = to_array(values, part.type)
    for table in (pa.table({"p": column}), pa.table({"n": pa.array(range(6)), "p": column})):
        groups = route(table, Routing("t", (part,)))
        assert len(groups) == 3
        for group in groups:
            group.rows.validate(full=True)
            (value,) = {repr(from_scalar(scalar, part.type)) for scalar in group.rows["p"]}
            assert group.partition == encode_row([v for v in values if repr(v) == value][:1], [part.type])
            if "n" in table.column_names:
                assert [repr(values[n]) for n in group.rows["n"].to_pylist()] == [value] * 2


def test_many_thousand_partitions_in_one_batch() -> None:
    chance = random.Random(7)
    values = [chance.randrange(30_000) for _ in range(100_000)]
    table = pa.table({"n": pa.array(values, pa.int64()), "city": [f"c{v}" for v in values]})
    groups = route(table, Routing("t", (CITY,)))
    assert len(groups) == len(set(values))
    assert sum(g.rows.num_rows for g in groups) == len(values)
    assert all(len(set(g.rows["n"].to_pylist())) == 1 for g in groups[:200])


def test_more_combinations_than_a_long_holds() -> None:
    size = 6_000
    fields = tuple(DataField(i, f"p{i}", AtomicType("INT")) for i in range(5))
    columns = {f.name: pa.array(range(size), pa.int32()) for f in fields}
    table = pa.table({"n": pa.array(range(size), pa.int64()), **columns}).take(list(range(size))[::-1])
    groups = route(table, Routing("t", fields))
    assert len(groups) == size
    assert sum(g.rows.num_rows for g in groups) == size


@settings(max_examples=examples(40))
@given(st.lists(st.integers(-50, 50), max_size=200), st.integers(2, 300), st.integers(1, 5))
def test_groups_in_place_are_the_gathered_ones(keys: list[int], buckets: int, chunks: int) -> None:
    declared = Schema(
        [DataField(0, "k", AtomicType("BIGINT", nullable=False))], primary_keys=["k"], options={"bucket": str(buckets)}
    )
    schema = new_table_schema(declared, time_millis=0)
    step = max(1, len(keys) // chunks)
    parts = [pa.array(keys[at : at + step], pa.int64()) for at in range(0, len(keys), step)]
    table = pa.table({"k": pa.chunked_array(parts, pa.int64())})
    gathered = HashRouter(schema, table="t").route(table)
    in_place = HashRouter(schema, table="t", in_place=True).route(table)
    assert [(g.bucket, g.count) for g in in_place] == [(g.bucket, g.count) for g in gathered]
    assert [g.rows if g.at is None else g.rows.take(pa.array(g.at)) for g in in_place] == [g.rows for g in gathered]
    assert len({id(g.rows) for g in in_place}) <= 1
