"""The golden tables: random filters, projections, shards and slices equal doing the same to the whole."""

from __future__ import annotations

import itertools
import pickle
import random
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from lakewright.errors import UnsupportedError
from lakewright.metadata.store import TableStore
from lakewright.read.builder import ReadBuilder
from lakewright.read.scan import pick_snapshot
from lakewright.read.splits.java import from_java, to_java
from lakewright.read.splits.split import DataSplit
from lakewright.spec.predicate.builder import PredicateBuilder
from lakewright.spec.predicate.predicate import Predicate
from lakewright.spec.schema.table_schema import BucketMode
from lakewright.spec.types import AtomicType, DataField
from lakewright.spec.values import from_scalar, to_python
from support.effort import examples
from support.golden import expected, expected_rows, in_order, normalised, spelled
from support.read_tables import golden_store

TABLES = sorted(name for name, spec in expected().items() if not spec.get("mayRefuse"))
COMPARABLE = frozenset(
    "BOOLEAN TINYINT SMALLINT INT BIGINT FLOAT DOUBLE DECIMAL CHAR VARCHAR BINARY VARBINARY DATE TIME TIMESTAMP "
    "TIMESTAMP_LTZ".split()
)


def _rows(table: pa.Table, store: TableStore) -> list[str]:
    return in_order(spelled(table, store.schema.fields), _unordered(store))


def _unordered(store: TableStore) -> list[int]:
    names = expected()[store.name].get("unorderedArrays", ())
    return [number for number, field in enumerate(store.schema.fields) if field.name in names]


def _travelled(name: str, options: dict[str, str]) -> TableStore:
    store = golden_store(name, options)
    snapshot = pick_snapshot(store)
    assert snapshot is not None
    return store.with_schema(store.schemas.get(snapshot.schema_id).with_options(options))


@pytest.mark.parametrize("name", TABLES)
def test_every_snapshot_and_tag(name: str) -> None:
    spec = expected()[name]
    states: list[tuple[dict[str, str], list[int]]] = [
        ({"scan.snapshot-id": str(s["id"])}, s["rows"]) for s in spec["snapshots"]
    ]
    states += [({"scan.tag-name": tag}, rows) for tag, rows in spec.get("tags", {}).items()]
    for options, numbers in states:
        store = _travelled(name, options)
        fields = store.schema.fields
        want = in_order(normalised(expected_rows(spec, numbers), fields), _unordered(store))
        assert _rows(ReadBuilder(store).new_read().to_arrow(), store) == want, options


def _leaf(rng: random.Random, builder: PredicateBuilder, fields: list[DataField], whole: pa.Table) -> Predicate:
    field = rng.choice(fields)
    column = whole[field.name]
    some = [column[rng.randrange(len(column))] for _ in range(3)]
    values: list[Any] = [to_python(from_scalar(v, field.type), field.type) for v in some]
    match rng.randrange(8):
        case 0:
            return builder.is_null(field.name)
        case 1:
            return builder.is_in(field.name, values)
        case 2:
            return builder.is_not_in(field.name, values[:1])
        case 3:
            return builder.between(field.name, values[0], values[1])
        case 4:
            return builder.not_equal(field.name, values[0])
        case 5:
            return builder.less_than(field.name, values[0])
        case 6:
            return builder.greater_or_equal(field.name, values[0])
        case _:
            return builder.equal(field.name, values[0])


@pytest.mark.parametrize("name", TABLES)
def test_random_filters_equal_filtering_the_whole(name: str) -> None:
    store = golden_store(name)
    whole = ReadBuilder(store).new_read().to_arrow()
    fields = [f for f in store.schema.fields if isinstance(f.type, AtomicType) and f.type.root in COMPARABLE]
    if not fields or not whole.num_rows:
        pytest.skip("nothing to compare")
    rng = random.Random(name)
    for _ in range(examples(10)):
        builder = ReadBuilder(store)
        leaves = [_leaf(rng, builder.new_predicate_builder(), fields, whole) for _ in range(rng.randint(1, 3))]
        joined = leaves[0]
        for leaf in leaves[1:]:
            joined = rng.choice([joined & leaf, joined | leaf, joined & ~leaf])
        got = builder.with_filter(joined).new_read().to_arrow()
        assert _rows(got, store) == _rows(whole.filter(joined.mask(whole)), store), str(joined)
        again = ReadBuilder(store).with_filter(str(joined)).new_read().to_arrow()
        assert _rows(again, store) == _rows(got, store), str(joined)


def _same(a: pa.Table, b: pa.Table) -> bool:
    """Compare rows in order, NaN equal to itself."""
    return bool(a.schema == b.schema) and repr(a.to_pylist()) == repr(b.to_pylist())


@pytest.mark.parametrize("name", TABLES)
def test_projections_and_orders(name: str) -> None:
    store = golden_store(name)
    whole = ReadBuilder(store).new_read().to_arrow()
    names = [f.name for f in store.schema.fields]
    rng = random.Random(name)
    for _ in range(4):
        chosen = rng.sample(names, rng.randint(1, len(names)))
        builder = ReadBuilder(store).with_projection(chosen)
        assert [f.name for f in builder.read_type()] == chosen
        assert _same(builder.new_read().to_arrow(), whole.select(chosen))
    read = ReadBuilder(store).new_read()
    assert _same(read.to_arrow(parallelism=1), whole)
    assert _same(read.to_arrow(parallelism=4), whole)
    assert _same(pa.Table.from_batches(read.to_arrow_batch_reader(), schema=whole.schema), whole)
    assert _same(pa.table(ReadBuilder(store)), whole)


@pytest.mark.parametrize("name", TABLES)
def test_shards_slices_and_chunks_partition_the_table(name: str) -> None:
    store = golden_store(name, {"source.split.target-size": "2 kb", "source.split.open-file-cost": "1 b"})
    builder = ReadBuilder(store)
    read = builder.new_read()
    plan = builder.new_scan().plan()
    whole = Counter(_rows(read.to_arrow(plan.splits()), store))
    for count in (2, 7):
        plans = [builder.new_scan().with_shard(i, count).plan() for i in range(count)]
        assert sum((Counter(_rows(read.to_arrow(p.splits()), store)) for p in plans), Counter()) == whole
        sizes = [p.row_count for p in plans]
        largest = max([1, *(split.row_count for p in plans for split in p.splits() if split.needs_merge)])
        assert max(sizes) - min(sizes) <= 2 * largest - 1
    cuts = [0, 1, plan.row_count // 2, plan.row_count]
    parts = [builder.new_scan().with_slice(a, max(a, b)).plan() for a, b in itertools.pairwise(cuts)]
    got = [read.to_arrow(p.splits()) for p in parts]
    if plan.row_count > 2:
        assert sum((Counter(_rows(part, store)) for part in got), Counter()) == whole
        assert parts[0].row_count == 1 or any(split.needs_merge for split in parts[0].splits())
    if any(split.needs_merge for split in plan.splits()):
        with pytest.raises(UnsupportedError, match="cannot be cut into chunks"):
            builder.new_scan().with_chunk_shuffle(7, 3).plan()
        return
    shuffled = builder.new_scan().with_chunk_shuffle(7, 3).plan()
    assert Counter(_rows(read.to_arrow(shuffled.splits()), store)) == whole
    assert shuffled == builder.new_scan().with_chunk_shuffle(7, 3).plan()
    assert all(split.row_count <= 3 for split in shuffled.splits())


@pytest.mark.parametrize("name", TABLES)
def test_splits_cross_processes(name: str) -> None:
    store = golden_store(name)
    builder = ReadBuilder(store)
    for split in builder.new_scan().plan().splits():
        assert DataSplit.deserialize(split.serialize()) == split
        assert pickle.loads(pickle.dumps(split)) == split  # noqa: S301
        assert from_java(to_java(split), store.partition_types) == split
        assert from_java(to_java(split, version=8), store.partition_types) == split
        rows = builder.new_read().to_arrow([split]).num_rows
        assert split.merged_row_count() == (None if split.needs_merge else rows)


def test_row_ids_of_moved_rows_come_from_the_file() -> None:
    for name in ("track.row_tracking", "track.row_tracking_compacted", "track.evolution", "track.evolution_schema"):
        spec, store = expected()[name], golden_store(name)
        names = [*(f.name for f in store.schema.fields), "_ROW_ID", "_SEQUENCE_NUMBER"]
        builder = ReadBuilder(store).with_projection(names)
        fields = builder.read_type()
        table = builder.new_read().to_arrow()
        want = normalised(expected_rows(spec, spec["rowTracking"]), fields)
        assert in_order(spelled(table, fields)) == in_order(want), name
        first = ReadBuilder(store).with_filter("_ROW_ID <= 2").with_projection(["_ROW_ID"]).new_read().to_arrow()
        assert sorted(first["_ROW_ID"].to_pylist()) == sorted(i for i in table["_ROW_ID"].to_pylist() if i <= 2)


@pytest.mark.parametrize("name", [n for n in TABLES if golden_store(n).schema.bucket_mode is BucketMode.HASH_FIXED])
def test_bucket_pruning_finds_every_row(name: str) -> None:
    """Each row of each bucketed table is found by its own bucket key, in one bucket alone."""
    store = golden_store(name)
    whole = ReadBuilder(store).new_read().to_arrow()
    for at in range(0, whole.num_rows, whole.num_rows // 20 + 1):
        builder = ReadBuilder(store)
        predicates = builder.new_predicate_builder()
        parts = []
        for field in store.schema.bucket_fields:
            value = to_python(from_scalar(whole[field.name][at], field.type), field.type)
            parts.append(predicates.is_null(field.name) if value is None else predicates.equal(field.name, value))
        predicate = predicates.and_predicates(parts)
        got = builder.with_filter(predicate).new_read().to_arrow()
        assert got.num_rows == whole.filter(predicate.mask(whole)).num_rows >= 1
        if all(part.method == "equal" for part in parts):
            splits = builder.new_scan().plan().splits()
            assert len({split.bucket for split in splits}) == 1 or len({split.total_buckets for split in splits}) > 1


def test_blobs_are_refused() -> None:
    blob = ReadBuilder(golden_store("track.blob"))
    with pytest.raises(UnsupportedError, match="BLOB"):
        blob.new_read()
    others = [f.name for f in blob.read_type() if str(f.type) != "BLOB"]
    assert blob.with_projection(others).new_read().to_arrow().num_rows == len(expected()["track.blob"]["rows"])
