"""A primary-key table must behave like a dict, whatever happens underneath, now and at every older snapshot."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import lakewright as lw
from contract.fault_enumerator import OPTIONS
from contract.faulty_storage import MemoryStorage
from lakewright.spec.snapshot import CommitKind
from support.effort import examples

pytestmark = pytest.mark.long

names = itertools.count()
Key = tuple[int, str]  # the partition and the rest of the key
Rows = dict[Key, Any]
keys = st.tuples(st.integers(0, 1), st.sampled_from(["", "a", "b", "é", "a longer key than eight bytes"]))
values = st.one_of(st.none(), st.integers(-5, 5))
upserts = st.lists(st.tuples(keys, values), min_size=1, max_size=8)
RUNS = {"num-sorted-run.compaction-trigger": "2"}
TABLES = st.sampled_from(
    [
        {"bucket": "2"},
        {"bucket": "2"} | RUNS,
        {"bucket": "1", "write-only": "true"},
        {"bucket": "1", "file.format": "avro", "write-buffer-size": "1 mb"} | RUNS,
        {"bucket": "2", "deletion-vectors.enabled": "true"},
        {"bucket": "1", "deletion-vectors.enabled": "true", "deletion-vectors.bitmap64": "true"} | RUNS,
        {"bucket": "2", "changelog-producer": "lookup"} | RUNS,
        {"bucket": "1", "changelog-producer": "input"} | RUNS,
        {"bucket": "1", "changelog-producer": "full-compaction", "full-compaction.delta-commits": "2"},
        {"bucket": "-1", "dynamic-bucket.target-row-num": "2"} | RUNS,
        {"bucket": "1", "merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"} | RUNS,
    ]
)


class KeyedTable(RuleBasedStateMachine):
    """Upserts, deletes, overwrites, compactions, expiry, replays and time travel against a dict."""

    def __init__(self) -> None:
        super().__init__()
        storage = MemoryStorage(f"keyed-model-{next(names)}")
        self.storage = storage
        self.catalog = lw.FileSystemCatalog(storage, f"{storage.root}/warehouse", OPTIONS)
        self.rows: Rows = {}
        self.history: dict[int, Rows] = {}
        self.messages: list[lw.CommitMessage] = []
        self.partial = False

    @initialize(options=TABLES)
    def create(self, options: dict[str, str]) -> None:
        self.catalog.create_database("d")
        fields = [
            lw.DataField(0, "p", lw.AtomicType("INT")),
            lw.DataField(1, "k", lw.AtomicType("STRING")),
            lw.DataField(2, "v", lw.AtomicType("INT")),
        ]
        self.catalog.create_table("d.t", lw.Schema(fields, ["p"], ["p", "k"], options))
        self.partial = options.get("merge-engine") == "partial-update"

    @property
    def table(self) -> lw.FileStoreTable:
        return self.catalog.get_table("d.t")

    def data(self, batch: Sequence[tuple[Key, Any]]) -> pa.Table:
        return pa.table(
            {
                "v": pa.array([value for _, value in batch], pa.int32()),
                "k": pa.array([key[1] for key, _ in batch], pa.string()),
                "p": pa.array([key[0] for key, _ in batch], pa.int32()),
            }
        )

    def put(self, batch: Sequence[tuple[Key, Any]]) -> None:
        for key, value in batch:
            old = self.rows.get(key)
            self.rows[key] = old if self.partial and value is None else value

    def note(self) -> None:
        snapshot = self.table.snapshot()
        assert snapshot is not None
        self.history[snapshot.id] = dict(self.rows)

    @rule(batch=upserts)
    def upsert(self, batch: list[tuple[Key, Any]]) -> None:
        builder = self.table.new_batch_write_builder()
        with builder.new_write() as write, builder.new_commit() as commit:
            write.write_arrow(self.data(batch))
            self.messages = write.prepare_commit()
            commit.commit(self.messages)
        self.put(batch)
        self.note()

    @rule(gone=st.lists(keys, min_size=1, max_size=4))
    def delete(self, gone: list[Key]) -> None:
        lw.write_table(self.data([(key, None) for key in gone]).select(["p", "k"]), self.table, mode="delete")
        for key in gone:
            self.rows.pop(key, None)
        self.note()

    @rule(batch=upserts, kinds=st.lists(st.sampled_from(["+I", "+U", "-D"]), min_size=8, max_size=8))
    def change(self, batch: list[tuple[Key, Any]], kinds: list[str]) -> None:
        kinds = kinds[: len(batch)]
        # A partial update goes on from the values of the delete before it, while that one is still in the table.
        changes = [(key, None if kind == "-D" else value) for (key, value), kind in zip(batch, kinds, strict=True)]
        builder = self.table.new_batch_write_builder()
        with builder.new_write() as write, builder.new_commit() as commit:
            write.write_arrow(self.data(changes), row_kinds=kinds)
            commit.commit(write.prepare_commit())
        for change, kind in zip(changes, kinds, strict=True):
            if kind == "-D":
                self.rows.pop(change[0], None)
            else:
                self.put([change])
        self.note()

    @precondition(lambda self: self.messages)
    @rule()
    def replay(self) -> None:
        before = self.table.snapshot()
        self.table.new_batch_write_builder().new_commit().commit(self.messages)
        after = self.table.snapshot()
        assert after is not None
        assert after == before or after.commit_kind is CommitKind.COMPACT, "only a compaction may follow a replay"
        self.note()

    @rule(batch=upserts)
    def overwrite(self, batch: list[tuple[Key, Any]]) -> None:
        lw.write_table(self.data(batch), self.table, mode="overwrite")
        touched = {key[0] for key, _ in batch}
        self.rows = {key: value for key, value in self.rows.items() if key[0] not in touched}
        self.put(batch)
        self.note()

    @rule(part=st.integers(0, 1))
    def truncate_a_partition(self, part: int) -> None:
        with self.table.new_batch_write_builder().new_commit() as commit:
            commit.truncate_partitions([{"p": str(part)}])
        self.rows = {key: value for key, value in self.rows.items() if key[0] != part}
        self.note()

    @precondition(lambda self: self.history)
    @rule(full=st.booleans())
    def compact(self, full: bool) -> None:
        self.table.compact(full=full)
        self.note()

    @precondition(lambda self: len(self.history) > 2)
    @rule()
    def expire(self) -> None:
        self.table.expire_snapshots(retain_max=2, retain_min=1)
        kept = set(self.table.store.snapshots.ids())
        self.history = {snapshot_id: rows for snapshot_id, rows in self.history.items() if snapshot_id in kept}
        self.messages = []  # a replay must find its snapshot

    @rule()
    def clean_up(self) -> None:
        self.storage.age(7 * 24 * 60 * 60 * 1000)
        self.table.remove_orphan_files()

    @rule(part=st.integers(0, 1), low=st.integers(-5, 5), key=st.sampled_from(["", "a", "b"]))
    def read_with_a_filter(self, part: int, low: int, key: str) -> None:
        got = lw.read_table(self.table, filter=f"p = {part} and (v >= {low} or k = '{key}')")
        want = {
            at: value
            for at, value in self.rows.items()
            if at[0] == part and ((value is not None and value >= low) or at[1] == key)
        }
        assert self.seen(got) == want

    def seen(self, table: pa.Table) -> Rows:
        found = list(zip(*(table.column(name).to_pylist() for name in ("p", "k", "v")), strict=True))
        rows = {(p, k): v for p, k, v in found}
        assert len(rows) == len(found), "a key came twice"
        return rows

    @invariant()
    def reads_as_the_dict(self) -> None:
        if self.catalog.list_databases():
            assert self.seen(lw.read_table(self.table)) == self.rows

    @precondition(lambda self: self.history)
    @rule(which=st.integers(0, 100))
    def reads_as_it_was(self, which: int) -> None:
        snapshot_id = sorted(self.history)[which % len(self.history)]
        assert self.seen(lw.read_table(self.table, snapshot_id=snapshot_id)) == self.history[snapshot_id]

    def teardown(self) -> None:
        self.storage.clear()


KeyedTable.TestCase.settings = settings(
    max_examples=examples(100),
    stateful_step_count=50,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
    report_multiple_bugs=False,
)
TestKeyedTable = KeyedTable.TestCase
