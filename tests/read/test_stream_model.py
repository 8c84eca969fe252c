"""Tables that are written while they are followed: whenever a stream begins, it leads to what the table holds."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pyarrow as pa
import pytest

from lakewright.compact.compaction_job import compact_table
from lakewright.metadata.table_store import TableStore
from lakewright.read.read_builder import ReadBuilder
from lakewright.read.stream_read import StreamReadBuilder, StreamScan
from lakewright.read.table_scan import Plan
from lakewright.table.write_builder import BatchWriteBuilder
from support.effort import every_second, thinned
from support.keyed_tables import COLUMNS, keyed_store

pytestmark = pytest.mark.long

Rows = dict[int, tuple[object, ...]]
SMALL = {"num-sorted-run.compaction-trigger": "3", "num-levels": "4", "bucket": "2"}
NONE = SMALL
INPUT = {**SMALL, "changelog-producer": "input"}
LOOKUP = {**SMALL, "changelog-producer": "lookup"}
FULL = {**SMALL, "changelog-producer": "full-compaction"}
VECTORS = {**SMALL, "deletion-vectors.enabled": "true"}
SUM = {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum", "fields.w.aggregate-function": "last_value"}


class Follower:
    """A stream, and the state that its events have led to."""

    def __init__(self, store: TableStore, *, strict: bool) -> None:
        self.builder = StreamReadBuilder(store).with_include_row_kind()
        self.scan: StreamScan = self.builder.new_streaming_scan()
        self.rows: Rows = {}
        self.strict = strict  # a changelog tells old rows; what was written does not

    def catch_up(self) -> Rows:
        while (plan := self.scan.plan()) is not None:
            self._apply(plan)
        return self.rows

    def _apply(self, plan: Plan) -> None:
        for row in self.builder.new_read().to_arrow(plan.splits()).to_pylist():
            kind, key, *values = row.values()
            if kind in {"-U", "-D"}:
                old = self.rows.pop(key, None)
                assert not self.strict or old == tuple(values)
            else:
                assert not self.strict or key not in self.rows
                self.rows[key] = tuple(values)


def read(store: TableStore) -> Rows:
    rows = ReadBuilder(store).new_read().to_arrow().to_pylist()
    return {row["k"]: tuple(row.values())[1:] for row in rows}


def write(store: TableStore, rng: random.Random, *, deletes: bool) -> None:
    keys = rng.sample(range(30), rng.randrange(1, 8))
    kinds = ["-D" if deletes and rng.random() < 0.3 else "+I" for _ in keys]
    values = {"k": keys, "v": [rng.randrange(3) for _ in keys], "w": [rng.choice(["a", None]) for _ in keys]}
    builder = BatchWriteBuilder(store)
    with builder.new_write() as writer, builder.new_commit() as commit:
        writer.write_arrow(pa.table(values, schema=COLUMNS), row_kinds=kinds)
        commit.commit(writer.prepare_commit())


@pytest.mark.parametrize(
    ("options", "strict", "deletes"),
    every_second(
        [
            (INPUT, False, True),
            (NONE, False, True),
            (FULL, True, True),
            (LOOKUP, True, True),
            (VECTORS, False, True),
            ({**FULL, **SUM}, True, False),
            ({**LOOKUP, **SUM}, True, False),
            ({**LOOKUP, "merge-engine": "first-row"}, True, False),
            ({**LOOKUP, "deletion-vectors.enabled": "true"}, True, True),
        ]
    ),
    ids=lambda value: ",".join(value.values()) if isinstance(value, dict) else str(value),
)
def test_a_stream_leads_to_the_table_wherever_it_begins(
    tmp_path: Path, options: dict[str, str], strict: bool, deletes: bool
) -> None:
    rng = random.Random(11)
    store = keyed_store(tmp_path, options)
    followers = [Follower(store, strict=strict)]
    for step in range(10):
        write(store, rng, deletes=deletes)
        if step % 4 == 3:
            compact_table(store, full=True)
        if rng.random() < 0.5:
            followers.append(Follower(store, strict=strict))
        rng.choice(followers).catch_up()
    compact_table(store, full=True)
    whole = read(store)
    assert whole
    for follower in followers:
        assert follower.catch_up() == whole


@pytest.mark.parametrize(
    "options", [NONE, LOOKUP, {**SMALL, **SUM}, VECTORS], ids=["dedup", "lookup", "sum", "vectors"]
)
def test_a_difference_leads_from_one_state_to_the_other(tmp_path: Path, options: dict[str, str]) -> None:
    rng = random.Random(5)
    store = keyed_store(tmp_path, options)
    for step in range(6):
        write(store, rng, deletes="merge-engine" not in options)
        if step == 3:
            compact_table(store, full=True)

    def seen(extra: dict[str, str]) -> TableStore:
        return store.with_schema(store.schema.with_options(extra))

    states = {number: read(seen({"scan.snapshot-id": str(number)})) for number in store.snapshots.ids()}
    for first, second in thinned([*itertools.combinations(states, 2)]):
        mode = {"incremental-between": f"{first},{second}", "incremental-between-scan-mode": "diff"}
        builder = ReadBuilder(seen(mode)).with_include_row_kind()
        state = dict(states[first])
        for row in builder.new_read().to_arrow().to_pylist():
            kind, key, *values = row.values()
            if kind in {"-U", "-D"}:
                assert state.pop(key) == tuple(values)
            else:
                assert kind == "+I" or states[first][key] != tuple(values)
                state[key] = tuple(values)
        assert state == states[second]
