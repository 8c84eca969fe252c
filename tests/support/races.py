"""Two row-level changes of one table, one stopped in the middle of the other: as if one came after the other.

The first is stopped at one of its storage calls, the second runs from beginning to end, then the first goes on.
Afterwards the rows are those of both, one after the other in either order, and nothing is left over. Verbs plan again
by themselves, so nobody sees a conflict unless the rows it names by their ids are gone.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

import lakewright as lw
from contract.fault_enumerator import stray_files
from contract.faulty_storage import Fault, FaultKind, FaultyStorage, MemoryStorage

Row = tuple[int, int | None, str | None]  # k, a, b
Rows = tuple[Row, ...]
START: Rows = ((1, 1, "s"), (2, 2, "s"), (3, 1, "s"), (4, 2, "s"))
FIELDS = [
    lw.DataField(0, "k", lw.AtomicType("INT", nullable=False)),
    lw.DataField(1, "a", lw.AtomicType("INT")),
    lw.DataField(2, "b", lw.AtomicType("STRING")),
]
VECTORS = {"deletion-vectors.enabled": "true"}
TRACKED = {"row-tracking.enabled": "true"}
APPEND = {
    "copy": {},
    "vectors": VECTORS,
    "bucketed vectors": {"bucket": "1", "bucket-key": "k", **VECTORS},
    "tracked": TRACKED,
    "evolution": {"data-evolution.enabled": "true", **TRACKED, **VECTORS},
    "evolution without vectors": {"data-evolution.enabled": "true", **TRACKED},
}
KEYED = {
    "keyed": {"bucket": "1", "write-only": "true"},
    "keyed compacting": {"bucket": "1", "num-sorted-run.compaction-trigger": "2"},
    "keyed vectors": {"bucket": "1", **VECTORS},
    "keyed dynamic": {"bucket": "-1", "write-only": "true"},
}
TABLES: dict[str, dict[str, str]] = {**APPEND, **KEYED}
_names = itertools.count()


def table_of(rows: Rows) -> pa.Table:
    """Return rows as Arrow."""
    k, a, b = zip(*rows, strict=True)
    return pa.table({"k": pa.array(k, pa.int32()), "a": pa.array(a, pa.int32()), "b": pa.array(b, pa.string())})


@dataclass(frozen=True)
class Verb:
    """Something that a writer does, and what it means for the rows; `who` marks its rows."""

    name: str
    run: Callable[[lw.FileStoreTable, str], object]
    model: Callable[[Rows, str], Rows]
    tracked: bool = False  # only for tables that know row ids

    def fits(self, kind: str) -> bool:
        """Say whether a table of this kind has the verb."""
        return not self.tracked or "row-tracking.enabled" in TABLES[kind]


def _new(who: str) -> int:
    return 100 + ord(who)


def _merged(rows: Rows, k: int, a: int, who: str) -> Rows:
    """Return the rows after those of k = 1 and of one more key got the name, or were added with it."""
    keys = {row[0] for row in rows}
    changed = tuple((key, value, who if key in {1, k} else b) for key, value, b in rows)
    return changed + tuple((key, a, who) for key in (1, k) if key not in keys)


def _with(rows: Rows, a: int | None = None, b: str | None = None) -> Rows:
    """Return the rows after an upsert of k = 1 and k = 10 that has one of the other columns."""
    known = {row[0]: row for row in rows}
    for k in (1, 10):
        _, old_a, old_b = known.get(k, (k, None, None))
        known[k] = (k, old_a if a is None else a, old_b if b is None else b)
    return tuple(known.values())


def _source(k: int, who: str) -> pa.Table:
    return table_of(((1, 5, who), (k, 5, who)))


def _by_row_id(column: str) -> Callable[[lw.FileStoreTable, str], object]:
    def run(table: lw.FileStoreTable, who: str) -> object:
        found = lw.read_table(table, filter="k = 1", columns=["_ROW_ID"])
        if not found.num_rows:  # it was deleted before
            return None
        value = pa.array([ord(who)], pa.int32()) if column == "a" else pa.array([who])
        return table.update_by_row_id(pa.table({"_ROW_ID": found.column("_ROW_ID"), column: value}))

    return run


def _merge(table: lw.FileStoreTable, who: str) -> object:
    merging = table.merge(_source(_new(who), who), ["k"])
    return merging.when_matched_update({"b": lw.source_col("b")}).when_not_matched_insert().execute()


VERBS = [
    Verb("delete", lambda t, _: t.delete("a = 1"), lambda rows, _: tuple(r for r in rows if r[1] != 1)),
    Verb("delete-2", lambda t, _: t.delete("k = 2"), lambda rows, _: tuple(r for r in rows if r[0] != 2)),
    Verb(
        "update",
        lambda t, who: t.update({"a": pc.add(pc.field("a"), 1), "b": who}, "k <= 2"),
        lambda rows, who: tuple((k, a if a is None else a + 1, who) if k <= 2 else (k, a, b) for k, a, b in rows),
    ),
    Verb(
        "update-b",
        lambda t, who: t.update({"b": who}, "a = 1"),
        lambda rows, who: tuple((k, a, who if a == 1 else b) for k, a, b in rows),
    ),
    Verb(
        "upsert",
        lambda t, who: t.upsert(_source(10, who), None if t.primary_keys else ["k"]),
        lambda rows, who: (*(r for r in rows if r[0] not in {1, 10}), (1, 5, who), (10, 5, who)),
    ),
    Verb(
        "upsert-a",
        lambda t, who: t.upsert(_source(10, who).select(["k", "a"]), None if t.primary_keys else ["k"]),
        lambda rows, _: _with(rows, a=5),
    ),
    Verb(
        "upsert-b",
        lambda t, who: t.upsert(_source(10, who).select(["k", "b"]), None if t.primary_keys else ["k"]),
        lambda rows, who: _with(rows, b=who),
    ),
    Verb("merge", _merge, lambda rows, who: _merged(rows, _new(who), 5, who)),
    Verb(
        "append",
        lambda t, who: lw.write_table(table_of(((_new(who), 1, who),)), t),
        lambda rows, who: (*rows, (_new(who), 1, who)),
    ),
    Verb(
        "overwrite",
        lambda t, who: lw.write_table(table_of(((1, 1, who), (7, 1, who))), t, mode="overwrite"),
        lambda _, who: ((1, 1, who), (7, 1, who)),
    ),
    Verb("compact", lambda t, _: t.compact(full=True), lambda rows, _: rows),
    Verb(
        "row-id-a",
        _by_row_id("a"),
        lambda rows, who: tuple((k, ord(who) if k == 1 else a, b) for k, a, b in rows),
        tracked=True,
    ),
    Verb(
        "row-id-b",
        _by_row_id("b"),
        lambda rows, who: tuple((k, a, who if k == 1 else b) for k, a, b in rows),
        tracked=True,
    ),
]
VERB = {verb.name: verb for verb in VERBS}


def read(table: lw.FileStoreTable) -> list[Row]:
    """Return the rows in order."""
    found = lw.read_table(table.copy({"deletion-vectors.merge-on-read": "true"})).select(["k", "a", "b"])
    return sorted(zip(*(column.to_pylist() for column in found.columns), strict=True))


class Scene:
    """A table at its beginning, on which the same two operations are tried again and again."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.memory = MemoryStorage(f"races-{next(_names)}")
        catalog = lw.FileSystemCatalog(self.memory, f"{self.memory.root}/w", {})
        catalog.create_database("d")
        keys = ["k"] if kind in KEYED else None
        options = {"lakewright.write-threads": "1", "lakewright.read-threads": "1", **TABLES[kind]}
        catalog.create_table("d.t", lw.Schema(FIELDS, None, keys, options))
        self.table = catalog.get_table("d.t")
        lw.write_table(table_of(START[:2]), self.table)
        lw.write_table(table_of(START[2:]), self.table)
        self.start = self.memory.image()

    def through(self, storage: FaultyStorage) -> lw.FileStoreTable:
        """Return the table as somebody sees it who can be stopped."""
        return replace(self.table, store=replace(self.table.store, storage=storage))

    def calls(self, verb: Verb) -> tuple[int, int]:
        """Return how many storage calls an operation makes, and which of them publishes its snapshot."""
        self.memory.restore(self.start)
        counted = FaultyStorage(self.memory)
        verb.run(self.through(counted), "A")
        made = counted.calls
        published = [n for n, c in enumerate(made, 1) if c.verb == "create" and "/snapshot/snapshot-" in c.path]
        return len(made), published[0] if published else len(made) // 2

    def check(self, first: Verb, second: Verb, stop: int) -> None:
        """Stop the first operation at a call, run the second, and judge what came of it."""
        self.memory.restore(self.start)
        happened: list[tuple[Verb, str]] = []

        def act(verb: Verb, who: str, table: lw.FileStoreTable) -> None:
            try:
                verb.run(table, who)
            except (lw.CommitConflictError, lw.InvalidInputError, lw.NotFoundError):
                # A compaction gives way, rows that are gone cannot be named by their ids, and plain writes are not
                # planned again where two of them chose buckets at the same time.
                plain = self.kind == "keyed dynamic" and verb.name in {"append", "overwrite"}
                assert plain or verb.name == "compact" or verb.tracked, f"{verb.name} failed at {stop}"
            else:
                happened.append((verb, who))

        stopping = FaultyStorage(self.memory, [Fault(stop, FaultKind.SLOW)], pause=lambda: act(second, "B", self.table))
        act(first, "A", self.through(stopping))
        assert happened, "one of two must get through"
        rows = read(self.table)
        orders = [happened, happened[::-1]]
        expected = []
        for order in orders:
            state: Rows = START
            for verb, who in order:
                state = verb.model(state, who)
            expected.append(sorted(state))
        assert rows in expected, (self.kind, first.name, second.name, stop, rows, expected)
        self.memory.age(7 * 24 * 60 * 60 * 1000)
        self.table.remove_orphan_files()
        assert read(self.table) == rows
        assert stray_files(self.table.store) == set()
