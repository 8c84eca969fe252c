"""A key lives in one partition at a time, whatever arrives in whatever batches."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewright.errors import InvalidInputError
from lakewright.metadata.table_store import TableStore
from lakewright.spec.binary_row import decode_row
from lakewright.spec.manifest import EMPTY_ROW
from lakewright.spec.system_columns import DELETE, VALUE_KIND
from lakewright.write.bucket_routing import RowGroup
from lakewright.write.cross_partition import CrossPartitionRouter
from support.bucket_tables import keyed_store, new_task, with_kinds
from support.effort import examples

SCHEMA = pa.schema([pa.field("p", pa.string()), pa.field("k", pa.int64()), pa.field("v", pa.int64())])
Row = tuple[str | None, int, int, int]  # partition, key, value, kind

ROWS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "c", None]),
        st.integers(0, 6),
        st.integers(0, 99),
        st.sampled_from([0, 0, 0, 1, 2, 2, 3]),
    ),
    max_size=25,
)


def batch(rows: list[Row]) -> pa.Table:
    columns = [list(column) for column in zip(*rows, strict=True)] or [[], [], [], []]
    return with_kinds(pa.table(columns[:3], schema=SCHEMA), columns[3] or [])


def table(root: Path, **options: str) -> TableStore:
    return keyed_store(root, SCHEMA, (["k"], ["p"]), {"dynamic-bucket.target-row-num": "2", **options})


@dataclass
class Buckets:
    """What the places of a table hold, as each merges its own rows."""

    store: TableStore
    rows: dict[tuple[str | None, int], dict[int, int]] = field(default_factory=dict)
    log: list[tuple[str | None, int, int, int]] = field(default_factory=list)  # partition, key, value, kind

    def apply(self, groups: list[RowGroup]) -> None:
        assert len({(g.partition, g.bucket) for g in groups}) == len(groups)
        for group in groups:
            (partition,) = decode_row(group.partition, self.store.partition_types)
            assert partition is None or isinstance(partition, str)
            place = self.rows.setdefault((partition, group.bucket), {})
            for row in group.rows.to_pylist():
                assert row["p"] == partition
                self.log.append((partition, row["k"], row["v"], row[VALUE_KIND.name]))
                if row[VALUE_KIND.name] % 2:
                    place.pop(row["k"], None)
                else:
                    place[row["k"]] = row["v"]

    def state(self) -> dict[int, tuple[str | None, int]]:
        found: dict[int, tuple[str | None, int]] = {}
        for (partition, _), rows in self.rows.items():
            for key, value in rows.items():
                assert key not in found, f"{key} lives twice"
                found[key] = (partition, value)
        return found


@given(batches=st.lists(ROWS, max_size=4))
@settings(max_examples=examples(200))
def test_deduplicate_is_a_dict_of_keys(batches: list[list[Row]]) -> None:
    with TemporaryDirectory() as root:
        store = table(Path(root))
        router, buckets = CrossPartitionRouter(new_task(store)), Buckets(store)
        model: dict[int, tuple[str | None, int]] = {}
        for rows in batches:
            buckets.apply(router.route(batch(rows)))
            for partition, key, value, kind in rows:
                if kind % 2:
                    model.pop(key, None)
                else:
                    model[key] = (partition, value)
        assert buckets.state() == model
        # Keys taken away by -U may come back, so they keep their room; all others are counted exactly.
        if not any(kind == 1 for rows in batches for *_, kind in rows):
            assert all(len(rows) <= 2 for rows in buckets.rows.values())


@given(batches=st.lists(ROWS, max_size=4))
@settings(max_examples=examples(100))
def test_partial_updates_follow_their_key(batches: list[list[Row]]) -> None:
    with TemporaryDirectory() as root:
        store = table(Path(root), **{"merge-engine": "partial-update"})
        router, buckets = CrossPartitionRouter(new_task(store)), Buckets(store)
        homes: dict[int, str | None] = {}
        wanted = []
        for rows in batches:
            buckets.apply(router.route(batch(rows)))
            # Also a retract of a key that is not there says where the key is from then on.
            wanted += [(homes.setdefault(key, partition), key, value, kind) for partition, key, value, kind in rows]
        assert sorted(map(repr, wanted)) == sorted(map(repr, buckets.log))


@given(batches=st.lists(ROWS, max_size=4))
@settings(max_examples=examples(100))
def test_first_rows_stay_where_they_are(batches: list[list[Row]]) -> None:
    with TemporaryDirectory() as root:
        store = table(Path(root), **{"merge-engine": "first-row"})
        router, buckets = CrossPartitionRouter(new_task(store)), Buckets(store)
        homes: dict[int, str | None] = {}
        wanted = []
        for rows in batches:
            adds = [row for row in rows if row[3] in (0, 2)]
            buckets.apply(router.route(batch(adds)))
            wanted += [row for row in adds if homes.setdefault(row[1], row[0]) == row[0]]
        assert sorted(map(repr, wanted)) == sorted(map(repr, buckets.log))


def test_a_moved_key_leaves_a_delete_with_the_new_values_behind(tmp_path: Path) -> None:
    store = table(tmp_path)
    router, buckets = CrossPartitionRouter(new_task(store)), Buckets(store)
    buckets.apply(router.route(batch([("a", 1, 10, 0), ("a", 2, 20, 0)])))
    buckets.log.clear()
    buckets.apply(router.route(batch([("b", 1, 11, 0), ("c", 1, 12, 0), ("c", 2, 21, 3)])))
    assert sorted(buckets.log) == [
        ("a", 1, 11, DELETE),
        ("a", 2, 21, DELETE),
        ("b", 1, 11, 0),
        ("b", 1, 12, DELETE),
        ("c", 1, 12, 0),
    ]


def test_a_key_may_move_a_thousand_times_in_one_batch(tmp_path: Path) -> None:
    store = table(tmp_path)
    router, buckets = CrossPartitionRouter(new_task(store)), Buckets(store)
    buckets.apply(router.route(batch([("ab"[n % 2], 1, n, 0) for n in range(1000)])))
    assert buckets.state() == {1: ("b", 999)}
    assert len(buckets.log) == 1999


def test_nobody_chooses_a_bucket(tmp_path: Path) -> None:
    router = CrossPartitionRouter(new_task(table(tmp_path)))
    with pytest.raises(InvalidInputError, match="buckets are dynamic"):
        router.route(batch([("a", 1, 1, 0)]), bucket=3)
    assert router.route(batch([])) == []
    assert router.finish() == {}
    assert router.total_buckets(EMPTY_ROW) is None
