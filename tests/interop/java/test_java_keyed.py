"""Primary-key tables with Java: it reads, compacts and continues what we write, and we do the same to its tables."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest

import lakewright as lw
from lakewright.spec.arrow_types import to_arrow_schema
from lakewright.spec.types import DataField
from support.golden import in_order, normalised, spelled
from support.java import Java

KEYS = 40
GROUPS = {
    "merge-engine": "partial-update",
    "fields.g.sequence-group": "v,s",
    "fields.h.sequence-group": "w",
    "fields.w.aggregate-function": "sum",
}
FUNCTIONS = {
    "merge-engine": "aggregation",
    "fields.v.aggregate-function": "sum",
    "fields.w.aggregate-function": "max",
    "fields.w.ignore-retract": "true",
    "fields.s.aggregate-function": "last_non_null_value",
    "fields.g.aggregate-function": "last_value",
    "fields.h.aggregate-function": "sum",
}


@dataclass(frozen=True)
class Kind:
    """A kind of table: its options, and which changes it takes."""

    name: str
    options: dict[str, str] = field(default_factory=dict)
    kinds: str = "+I +U -D"
    keys: tuple[str, ...] = ("k",)
    partitioned: bool = False
    once: bool = False  # whether a key comes at most once in a commit
    java_writes: bool = True  # its plain writer knows no dynamic buckets
    alike: bool = True  # Java keeps values of deleted records, and what it retracts depends on the rows in its buffer


TABLES = [
    Kind("deduplicate"),
    Kind("partitioned", keys=("p", "k"), partitioned=True),
    Kind("composite", keys=("s", "k")),
    Kind("sequence", {"sequence.field": "g"}),
    # Java 1.4.2 sorts its write buffer upwards all the same, so a key comes once in a commit.
    Kind("sequence_desc", {"sequence.field": "g,h", "sequence.field.sort-order": "descending"}, once=True),
    Kind("ignore_delete", {"ignore-delete": "true"}),
    Kind("thin", {"data-file.thin-mode": "true"}),
    Kind("full_files", {"data-file.thin-mode": "false"}),
    Kind("orc", {"file.format": "orc"}),
    Kind("avro", {"file.format": "avro"}),
    Kind("levels", {"file.format.per.level": "0:avro,5:orc"}),
    Kind("dynamic", {"bucket": "-1", "dynamic-bucket.target-row-num": "10"}, java_writes=False),
    Kind("partial_update", {"merge-engine": "partial-update"}, "+I +U"),
    Kind("partial_update_ignore", {"merge-engine": "partial-update", "ignore-delete": "true"}),
    Kind(
        "partial_update_remove",
        {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
        alike=False,
    ),
    Kind("sequence_groups", GROUPS, alike=False),
    Kind("remove_group", GROUPS | {"partial-update.remove-record-on-sequence-group": "g"}, alike=False),
    Kind("aggregation", FUNCTIONS, alike=False),
    Kind("retracts", FUNCTIONS, "+I +U -U -D", alike=False),
    Kind(
        "aggregation_remove",
        {key: value for key, value in FUNCTIONS.items() if "retract" not in key}
        | {"aggregation.remove-record-on-delete": "true"},
        alike=False,
    ),
    # Where Java looks keys up, it makes a row of the delete of a key that never was; we make nothing of it.
    Kind("aggregation_lookup", FUNCTIONS | {"changelog-producer": "lookup"}, "+I +U"),
    Kind("first_row", {"merge-engine": "first-row"}, "+I"),
    Kind("vectors", {"deletion-vectors.enabled": "true"}),
    Kind("vectors64", {"deletion-vectors.enabled": "true", "deletion-vectors.bitmap64": "true"}),
    Kind("vectors_sum", FUNCTIONS | {"deletion-vectors.enabled": "true"}, "+I +U"),
    Kind("input", {"changelog-producer": "input"}),
    Kind("lookup", {"changelog-producer": "lookup"}),
    Kind("full_compaction", {"changelog-producer": "full-compaction"}),
]
FIELDS = [
    DataField(0, "p", lw.AtomicType("STRING")),
    DataField(1, "k", lw.AtomicType("INT")),
    DataField(2, "v", lw.AtomicType("BIGINT")),
    DataField(3, "w", lw.AtomicType("INT")),
    DataField(4, "s", lw.AtomicType("STRING")),
    DataField(5, "g", lw.AtomicType("INT")),
    DataField(6, "h", lw.AtomicType("INT")),
]
CHANGES = [DataField(7, "kind", lw.AtomicType("STRING")), *FIELDS]


@pytest.fixture(scope="module")
def java() -> Iterator[Java]:
    started = Java()
    yield started
    started.close()


def _changes(kind: Kind, seed: int, count: int = 50) -> pa.Table:
    """Return changes of few keys, so that they meet; a composite key takes its text from the number."""
    rng = random.Random(seed)
    maybe = [None, *range(6)]
    rows = []
    keys = rng.sample(range(KEYS), KEYS) if kind.once else [rng.randrange(KEYS) for _ in range(count)]
    for number, key in enumerate(keys):
        text = f"key {key % 7}" if "s" in kind.keys else rng.choice([None, "", f"text {number}", "é" * (number % 9)])
        rows.append(
            {
                "kind": rng.choice(kind.kinds.split()),
                "p": f"part {key % 3}",
                "k": key,
                "v": rng.choice([None, number, -number]),
                "w": rng.randrange(100),
                "s": text,
                "g": rng.choice(maybe),
                "h": rng.choice(maybe),
            }
        )
    return pa.Table.from_pylist(rows, schema=to_arrow_schema(CHANGES))


class Tables:
    """Two tables of one kind, one for us and one for Java, that get the same changes."""

    def __init__(self, java: Java, catalog: lw.Catalog, kind: Kind) -> None:
        self.java, self.catalog, self.kind = java, catalog, kind
        self.warehouse = Path(catalog.warehouse)
        for name in ("d.ours", "d.theirs"):
            options = {"bucket": "2", "num-sorted-run.compaction-trigger": "3"} | kind.options
            partitions = ["p"] if kind.partitioned else []
            catalog.create_table(name, lw.Schema(FIELDS, partitions, list(kind.keys), options))
        self.steps = 0

    def change(self, seed: int, *writers: str) -> None:
        """Apply the same changes to both tables, each by a writer: `us` or `java`."""
        changes = _changes(self.kind, seed)
        for name, writer in zip(("d.ours", "d.theirs"), writers, strict=True):
            if writer == "us" or not self.kind.java_writes:
                kinds = changes.column("kind").combine_chunks()
                with_kinds = changes.drop_columns(["kind"])
                builder = self.catalog.get_table(name).new_batch_write_builder()
                with builder.new_write() as write, builder.new_commit() as commit:
                    write.write_arrow(with_kinds, row_kinds=kinds)
                    commit.commit(write.prepare_commit())
                continue
            self.steps += 1
            source = f"d.changes{self.steps}"
            self.catalog.create_table(source, lw.Schema(CHANGES, options={"bucket": "1", "bucket-key": "kind"}))
            lw.write_table(changes, self.catalog.get_table(source))
            self.java.apply(self.warehouse, source, name)

    def check(self) -> list[str]:
        """Both readings of each table are equal, and those of one table to those of the other."""
        readings = {}
        for name in ("d.ours", "d.theirs"):
            table = self.catalog.get_table(name)
            readings[name, "us"] = in_order(spelled(lw.read_table(table), table.fields))
            readings[name, "java"] = in_order(normalised(self.java.read(self.warehouse, name), table.fields))
        for name in ("d.ours", "d.theirs"):
            assert readings[name, "us"] == readings[name, "java"], name
        if self.kind.alike:
            assert readings["d.ours", "us"] == readings["d.theirs", "us"]
        return readings["d.theirs", "java"]


@pytest.mark.parametrize("kind", TABLES, ids=lambda kind: kind.name)
def test_both_write_compact_and_read_the_same(java: Java, catalog: lw.Catalog, kind: Kind) -> None:
    tables = Tables(java, catalog, kind)
    tables.change(1, "us", "java")
    tables.change(2, "us", "java")
    assert tables.check()
    java.compact(tables.warehouse, "d.ours")  # theirs of ours
    catalog.get_table("d.theirs").compact(full=True)  # and ours of theirs
    tables.check()
    tables.change(3, "java", "us")
    tables.check()
    for seed in range(4, 9):
        tables.change(seed, *(("us", "java") if seed % 2 else ("java", "us")))
    tables.check()
    catalog.get_table("d.ours").compact(full=True)
    java.compact(tables.warehouse, "d.theirs")
    tables.check()


@pytest.mark.parametrize("producer", ["input", "lookup", "full-compaction"])
def test_java_reads_our_changelog(java: Java, catalog: lw.Catalog, producer: str) -> None:
    """Replaying the changelog that Java reads from our table gives the rows of the table."""
    tables = Tables(java, catalog, Kind(producer, {"changelog-producer": producer, "bucket": "1"}, "+I +U"))
    for seed in range(4):
        tables.change(seed, "us", "us")
        catalog.get_table("d.ours").compact(full=True)
    table = catalog.get_table("d.ours")
    latest = table.snapshot()
    assert latest is not None
    log = []
    for until in range(1, latest.id + 1):  # the order inside a longer range has no meaning
        between = {"incremental-between": f"{until - 1},{until}", "incremental-between-scan-mode": "changelog"}
        log += java.read(tables.warehouse, "d.ours$audit_log", **between)
    state: dict[object, Sequence[object]] = {}
    for kind, *row in log:
        if kind in {"+I", "+U"}:
            state[row[1]] = row
        elif kind == "-D" or (kind == "-U" and producer != "input"):
            assert state.pop(row[1]) == row
    assert in_order(normalised(list(state.values()), table.fields)) == tables.check()
