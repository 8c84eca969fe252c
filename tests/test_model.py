"""A table must behave like a bag of rows, whatever happens underneath, now and at every older snapshot."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import lakewright as lw
from contract.fault_enumerator import OPTIONS
from contract.faulty_storage import MemoryStorage
from support.effort import examples

pytestmark = pytest.mark.long

names = itertools.count()
Bag = Counter[tuple[Any, ...]]
values = st.one_of(st.none(), st.sampled_from(["", "a", "b", "a longer text than sixteen characters"]))
rows = st.lists(st.tuples(st.integers(-3, 3), st.one_of(st.none(), st.integers(0, 2)), values), min_size=1, max_size=6)
TABLES = st.sampled_from(
    [
        {},
        {"bucket": "2", "bucket-key": "id"},
        {"file.format": "avro"},
        {"manifest.merge-min-count": "2", "manifest.target-file-size": "2 kb"},
        {"row-tracking.enabled": "true"},
    ]
)


class AppendTable(RuleBasedStateMachine):
    """Appends, overwrites, truncations, schema changes, tags, replays and time travel against a bag."""

    def __init__(self) -> None:
        super().__init__()
        storage = MemoryStorage(f"model-{next(names)}")
        self.storage = storage
        self.catalog = lw.FileSystemCatalog(storage, f"{storage.root}/warehouse", OPTIONS)
        self.bag: Bag = Counter()
        self.columns = ["id", "p", "v"]
        self.history: dict[int, tuple[Bag, int]] = {}
        self.tags: dict[str, int] = {}
        self.messages: list[lw.CommitMessage] = []

    @initialize(options=TABLES)
    def create(self, options: dict[str, str]) -> None:
        self.catalog.create_database("d")
        fields = [
            lw.DataField(0, "id", lw.AtomicType("INT")),
            lw.DataField(1, "p", lw.AtomicType("INT")),
            lw.DataField(2, "v", lw.AtomicType("STRING")),
        ]
        self.catalog.create_table("d.t", lw.Schema(fields, ["p"], options=options))

    @property
    def table(self) -> lw.FileStoreTable:
        return self.catalog.get_table("d.t")

    def data(self, batch: Sequence[tuple[Any, ...]]) -> pa.Table:
        ids, parts, texts = zip(*batch, strict=True)
        return pa.table(
            {self.columns[2]: pa.array(texts, pa.string()), "id": pa.array(ids), "p": pa.array(parts, pa.int32())}
        )

    def wide(self, batch: Sequence[tuple[Any, ...]]) -> Bag:
        return Counter((*row, *([None] * (len(self.columns) - 3))) for row in batch)

    def note(self) -> None:
        snapshot = self.table.snapshot()
        assert snapshot is not None
        self.history[snapshot.id] = (self.bag.copy(), len(self.columns))

    def keep(self, test: Callable[[tuple[Any, ...]], bool]) -> None:
        self.bag = Counter({row: count for row, count in self.bag.items() if test(row)})

    @rule(batch=rows)
    def append(self, batch: list[tuple[Any, ...]]) -> None:
        builder = self.table.new_batch_write_builder()
        with builder.new_write() as write, builder.new_commit() as commit:
            write.write_arrow(self.data(batch))
            self.messages = write.prepare_commit()
            commit.commit(self.messages)
        self.bag += self.wide(batch)
        self.note()

    @precondition(lambda self: self.messages)
    @rule()
    def replay(self) -> None:
        before = self.table.snapshot()
        self.table.new_batch_write_builder().new_commit().commit(self.messages)
        assert self.table.snapshot() == before

    @rule(batch=rows)
    def overwrite_what_the_rows_touch(self, batch: list[tuple[Any, ...]]) -> None:
        lw.write_table(self.data(batch), self.table, mode="overwrite")
        touched = {row[1] for row in batch}
        self.keep(lambda row: row[1] not in touched)
        self.bag += self.wide(batch)
        self.note()

    @rule(batch=rows, part=st.integers(0, 2))
    def overwrite_one_partition(self, batch: list[tuple[Any, ...]], part: int) -> None:
        inside = [(row[0], part, row[2]) for row in batch]
        lw.write_table(self.data(inside), self.table, mode="overwrite", partitions={"p": part})
        self.keep(lambda row: row[1] != part)
        self.bag += self.wide(inside)
        self.note()

    @rule(part=st.integers(0, 2))
    def truncate_a_partition(self, part: int) -> None:
        with self.table.new_batch_write_builder().new_commit() as commit:
            commit.truncate_partitions([{"p": str(part)}])
        self.keep(lambda row: row[1] != part)
        self.note()

    @rule()
    def truncate(self) -> None:
        with self.table.new_batch_write_builder().new_commit() as commit:
            commit.truncate_table()
        self.bag = Counter()
        self.note()

    @precondition(lambda self: len(self.columns) < 6)
    @rule()
    def add_a_column(self) -> None:
        name = f"n{len(self.columns)}"
        self.catalog.alter_table("d.t", [lw.SchemaChange.add_column(name, lw.AtomicType("BIGINT"))])
        self.columns.append(name)
        self.bag = Counter({(*row, None): count for row, count in self.bag.items()})

    @rule()
    def rename_a_column(self) -> None:
        name = "w" if self.columns[2] == "v" else "v"
        self.catalog.alter_table("d.t", [lw.SchemaChange.rename_column(self.columns[2], name)])
        self.columns[2] = name

    @precondition(lambda self: self.history and len(self.tags) < 3)
    @rule(which=st.integers(0, 100))
    def tag(self, which: int) -> None:
        snapshot_id = sorted(self.history)[which % len(self.history)]
        name = f"tag {len(self.tags)}"
        self.table.create_tag(name, snapshot_id)
        self.tags[name] = snapshot_id

    @rule(part=st.integers(0, 2), low=st.integers(-3, 3))
    def read_with_a_filter(self, part: int, low: int) -> None:
        got = lw.read_table(self.table, filter=f"p = {part} and id >= {low}")
        want = Counter({r: c for r, c in self.bag.items() if r[1] == part and r[0] >= low})
        assert self.seen(got) == want

    @rule(index=st.integers(0, 2))
    def shards_are_the_whole(self, index: int) -> None:
        builder = self.table.new_read_builder()
        parts = [builder.new_scan().with_shard(n, index + 1).plan().splits() for n in range(index + 1)]
        total: Bag = Counter()
        for splits in parts:
            total += self.seen(builder.new_read().to_arrow(splits))
        assert total == self.bag

    @rule()
    def clean_up(self) -> None:
        self.storage.age(7 * 24 * 60 * 60 * 1000)
        self.table.remove_orphan_files()

    def seen(self, table: pa.Table) -> Bag:
        return Counter(zip(*(column.to_pylist() for column in table.columns), strict=True))

    @invariant()
    def reads_as_the_bag(self) -> None:
        if self.catalog.list_databases():
            assert self.seen(lw.read_table(self.table)) == self.bag

    @precondition(lambda self: self.history)
    @rule(which=st.integers(0, 100))
    def reads_as_it_was(self, which: int) -> None:
        snapshot_id = sorted(self.history)[which % len(self.history)]
        bag, width = self.history[snapshot_id]
        got = lw.read_table(self.table, snapshot_id=snapshot_id)
        assert got.num_columns == width
        assert self.seen(got) == bag
        for tag, tagged in self.tags.items():
            assert self.seen(lw.read_table(self.table, tag=tag)) == self.history[tagged][0]

    def teardown(self) -> None:
        self.storage.clear()


AppendTable.TestCase.settings = settings(
    max_examples=examples(100), stateful_step_count=50, derandomize=True, suppress_health_check=list(HealthCheck)
)
TestAppendTable = AppendTable.TestCase
