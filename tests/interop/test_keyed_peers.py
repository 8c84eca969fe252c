"""Primary-key tables among peers: every merge engine and option, mixed writers, compaction, vectors, changelogs.

Where the peers are known to be wrong, our answer is compared with the one that the format describes.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lakewright as lw
from lakewright.spec.arrow_types import to_arrow_schema
from lakewright.spec.system_columns import KIND_NAMES
from lakewright.spec.types import DataField
from support.effort import some
from support.engine_cases import (
    AGGREGATION,
    DEDUPLICATE,
    FIRST_ROW,
    IN_GROUPS,
    PARTIAL_UPDATE,
    RUST_DIFFERS,
    Case,
    Change,
    answer,
    table_of,
)
from support.engine_reference import RETRACTS
from support.golden import in_order, spelled
from support.keyed_tables import changelog_of, levels, live
from support.peers import NAMES, PeerError, Peers

US, RUST = "lakewright", "pypaimon-rust"
ALL = (US, *NAMES)


@dataclass(slots=True)
class Shared:
    """A table that everybody writes and reads."""

    catalog: lw.Catalog
    peers: Peers
    name: str
    unordered: Sequence[int] = ()  # places of columns whose arrays have no order
    table: lw.FileStoreTable = field(init=False)

    def __post_init__(self) -> None:
        self.table = self.catalog.get_table(self.name)

    @property
    def warehouse(self) -> Path:
        return Path(self.catalog.warehouse)

    def write(self, who: str, changes: Sequence[Change]) -> None:
        rows = table_of([values for _, values in changes], self.table.fields)
        kinds = [kind for kind, _ in changes]
        if who == US:
            builder = self.table.new_batch_write_builder()
            with builder.new_write() as write, builder.new_commit() as commit:
                write.write_arrow(rows, row_kinds=kinds)
                commit.commit(write.prepare_commit())
            return
        if set(kinds) != {"+I"}:  # which only the Rust peer can say
            rows = rows.append_column("_VALUE_KIND", pa.array([KIND_NAMES.index(kind) for kind in kinds], pa.int8()))
        self.peers.append(who, self.warehouse, self.name, rows)

    def read(self, who: str) -> pa.Table:
        """Return the rows that a reader sees, in the order of keys."""
        found = lw.read_table(self.table) if who == US else self.peers.read(who, self.warehouse, self.name)
        return self.settled(table_of([], self.table.fields) if found is None else found)

    def settled(self, rows: pa.Table) -> pa.Table:
        """Return rows of any Arrow flavour in ours, in the order of keys."""
        schema = pa.schema([f.with_nullable(True) for f in to_arrow_schema(self.table.fields)])  # noqa: FBT003 - pyarrow's
        same = pa.table([rows[f.name].cast(f.type) for f in schema], schema=schema)
        return same.sort_by([(name, "ascending") for name in self.table.primary_keys])

    def texts(self, rows: pa.Table) -> list[str]:
        return in_order(spelled(rows, self.table.fields), self.unordered)

    def show(self, want: Sequence[Mapping[str, Any]], *, to: Sequence[str] = ALL, at: object = "") -> None:
        """Check that readers see these rows."""
        wanted = self.settled(table_of(want, self.table.fields))
        for who in to:
            found = self.read(who)
            if not found.equals(wanted):  # the order of maps and of some arrays has no meaning
                assert self.texts(found) == self.texts(wanted), (who, at)


Make: TypeAlias = Callable[..., Shared]  # of a schema, and of places of columns whose arrays have no order


@pytest.fixture
def shared(catalog: lw.Catalog, peers: Peers) -> Make:
    numbers = itertools.count()

    def make(schema: lw.Schema, unordered: Sequence[int] = ()) -> Shared:
        name = f"d.t{next(numbers)}"
        catalog.create_table(name, schema)
        return Shared(catalog, peers, name, unordered)

    return make


# --- every merge engine and option


def _merged(writers: Sequence[str], commits: Sequence[Sequence[Change]]) -> list[int]:
    """Return the commits whose writer merges retracts without the older rows; this library keeps them apart."""
    apart = {US} if any(kind in RETRACTS for commit in commits for kind, _ in commit) else set()
    return [at for at, who in enumerate(writers) if who not in apart]


def _readers(case: Case) -> tuple[str, ...]:
    return ALL if case.python else (US, RUST)


@pytest.mark.parametrize(
    "case", some([*DEDUPLICATE, *PARTIAL_UPDATE, *IN_GROUPS, *AGGREGATION], 2, 13, 20, 24), ids=str
)
def test_an_engine_merges_the_same_rows_for_everybody(shared: Make, case: Case) -> None:
    commits = case.commits()
    for writers in ((US, US, US), (RUST, US, RUST)):
        want = answer(case.schema, commits, merged=_merged(writers, commits))
        table = shared(case.schema, case.unordered)
        for who, commit in zip(writers, commits, strict=True):
            table.write(who, commit)
        assert levels(table.table.store).keys() == {0}
        table.show(want, to=_readers(case), at=writers)
    table.table.compact(full=True)
    assert levels(table.table.store).keys() == {5}
    table.show(want, to=_readers(case), at="compacted")
    more = case.commits(seed=2, count=1)
    table.write(RUST, more[0])
    folded: list[Change] = [("+I", row) for row in want]  # what is at the top; a table forgets what it deleted
    table.show(answer(case.schema, [folded, *more], merged=[1]), to=_readers(case), at="once more")


@pytest.mark.nightly
@pytest.mark.parametrize("case", RUST_DIFFERS, ids=str)
def test_the_format_decides_where_rust_merges_otherwise(shared: Make, case: Case) -> None:
    table = shared(case.schema, case.unordered)
    commits = case.commits()
    for commit in commits:
        table.write(US, commit)
    want = answer(case.schema, commits, merged=_merged([US] * len(commits), commits))
    table.show(want, to=[US])
    assert not table.read(RUST).equals(table.read(US))
    table.table.compact(full=True)
    table.show(want, to=[US, RUST])  # nothing is left to merge


@pytest.mark.parametrize("case", some(FIRST_ROW, 1), ids=str)
def test_first_rows_are_the_same_for_everybody(shared: Make, case: Case) -> None:
    plain = case.schema
    table = shared(lw.Schema(plain.fields, [], ["k"], {**plain.options, "write-only": "false"}))
    commits = case.commits(count=4, size=20)
    for number, who in enumerate((RUST, US, RUST, RUST)):
        table.write(who, commits[number])
        if who == RUST:
            table.show(answer(plain, commits[:number]), at="hidden")
            table.table.compact(full=number == 3)
        table.show(answer(plain, commits[: number + 1]), at="shown")


# --- mixed writers, compaction in between

TEXT = [f"{n:016x}" for n in range(80)]
LAYOUTS: dict[str, tuple[dict[str, str], list[str], list[str]]] = {  # columns, primary key, partition
    "bigint": ({"k": "BIGINT", "v": "STRING", "n": "INT"}, ["k"], []),
    "text": ({"k": "STRING", "v": "STRING", "n": "INT"}, ["k"], []),
    "composite": ({"p": "STRING", "k": "BIGINT", "s": "STRING", "v": "STRING", "n": "INT"}, ["p", "s", "k"], ["p"]),
}
DYNAMIC = {"bucket": "-1", "dynamic-bucket.target-row-num": "10"}


def _schema(layout: str, options: Mapping[str, str]) -> lw.Schema:
    columns, keys, partition = LAYOUTS[layout]
    fields = [DataField(n, name, lw.AtomicType(text)) for n, (name, text) in enumerate(columns.items())]
    return lw.Schema(fields, partition, keys, {"bucket": "2", **options})


def _values(layout: str, key: int, turn: int) -> dict[str, Any]:
    """Return a row of a key."""
    rest = {"v": None if key % 11 == turn % 11 else f"turn {turn} of {key}", "n": turn}
    if layout == "text":
        return {"k": TEXT[key], **rest}
    if layout == "composite":
        return {"p": "ab"[key % 2], "k": key // 8, "s": f"s{key % 8}", **rest}
    return {"k": key, **rest}


# Who does what. The peers go on after our compactions and our overwrite.
STEPS = (
    (US, "upsert"),
    (NAMES[0], "upsert"),
    (RUST, "upsert"),
    (US, "delete"),
    (US, "compact"),
    (NAMES[0], "upsert"),
    (RUST, "delete"),
    (US, "upsert"),
    (RUST, "upsert"),
    (US, "compact full"),
    (NAMES[0], "upsert"),
    (RUST, "upsert"),
    (US, "delete"),
    (US, "overwrite"),
    (RUST, "upsert"),
    (NAMES[0], "upsert"),
    (US, "upsert"),
    (US, "compact full"),
    (NAMES[0], "upsert"),
)


def _take_turns(table: Shared, layout: str, chance: random.Random) -> None:
    """Walk the steps and check after each that everybody reads what a dict would hold."""
    model: dict[int, dict[str, Any]] = {}
    for turn, (who, what) in enumerate(STEPS):
        if what.startswith("compact"):
            table.table.compact(full="full" in what)
        elif what == "delete":
            gone = chance.sample(sorted(model), 12)
            table.write(who, [("-D", _values(layout, key, turn)) for key in gone])
            model = {key: row for key, row in model.items() if key not in gone}
        else:
            rows = {key: _values(layout, key, turn) for key in chance.sample(range(80), 30)}
            if what == "overwrite":  # every partition has rows in it
                lw.write_table(table_of(list(rows.values()), table.table.fields), table.table, "overwrite")
                model = rows
            else:
                table.write(who, [("+I", row) for row in rows.values()])
                model |= rows
        table.show(list(model.values()), at=(turn, who, what))


@pytest.mark.parametrize(
    ("layout", "options"),
    some(
        [
            ("bigint", {"write-only": "true"}),
            ("bigint", {"num-sorted-run.compaction-trigger": "3"}),
            ("bigint", {"file.format": "avro", "write-only": "true"}),
            ("text", {"num-sorted-run.compaction-trigger": "2"}),
            ("text", {"file.format": "avro", "data-file.thin-mode": "false"}),
            ("composite", {"write-only": "true"}),
            ("composite", {"file.format": "avro", "num-sorted-run.compaction-trigger": "2"}),
            ("composite", {"file.format": "orc", "file.compression": "uncompressed", "bucket-key": "k"}),
            ("composite", DYNAMIC),
        ],
        *(1, 6),
    ),
    ids=str,
)
def test_all_write_in_turn_and_we_compact(shared: Make, layout: str, options: dict[str, str]) -> None:
    _take_turns(shared(_schema(layout, options)), layout, random.Random(f"{layout} {options}"))


@pytest.mark.nightly
def test_kinds_in_a_column_of_the_table(shared: Make) -> None:
    fields = [
        DataField(n, name, lw.AtomicType("STRING" if n else "BIGINT")) for n, name in enumerate(("k", "v", "kind"))
    ]
    table = shared(lw.Schema(fields, [], ["k"], {"bucket": "1", "write-only": "true", "rowkind.field": "kind"}))
    model: dict[int, dict[str, Any]] = {}
    chance = random.Random(5)
    for who in (US, RUST) * 2:
        rows: list[dict[str, Any]] = [
            {"k": k, "v": who, "kind": chance.choice(["+I", "+U", "-D"])} for k in chance.sample(range(30), 20)
        ]
        data = table_of(rows, fields)
        if who == US:
            lw.write_table(data, table.table)
        else:
            table.peers.append(who, table.warehouse, table.name, data)
        model |= {row["k"]: row for row in rows}
        table.show([row for row in model.values() if row["kind"] != "-D"])


# --- deletion vectors

# Engines whose answer does not depend on what was compacted when, and the peer that writes such tables.
VECTOR_CASES = [
    (DEDUPLICATE[0], RUST),
    *((case, NAMES[0]) for case in (PARTIAL_UPDATE[0], AGGREGATION[0])),
    (PARTIAL_UPDATE[5], ""),  # pypaimon knows no sequence groups, and pypaimon-rust only tables that deduplicate
]


@pytest.mark.parametrize(
    ("case", "peer", "bitmap64"),
    some([(*one, bits) for one in VECTOR_CASES for bits in ("false", "true")], 1, 2),
    ids=str,
)
def test_vectors_of_our_compaction_hide_the_same_rows(shared: Make, case: Case, peer: str, bitmap64: str) -> None:
    vectors = {"deletion-vectors.enabled": "true", "deletion-vectors.bitmap64": bitmap64, "write-only": "false"}
    plain = case.schema
    readers = [who for who in _readers(case) if bitmap64 == "false" or who != NAMES[0]]  # pypaimon knows one form only
    table = shared(lw.Schema(plain.fields, [], ["k"], {**plain.options, **vectors}))
    commits: list[list[Change]] = [[("+I", {"k": k, **dict.fromkeys(case.columns)}) for k in range(1000)]]
    commits += ([("+I" if peer == NAMES[0] else kind, row) for kind, row in c] for c in case.commits(count=6))
    visible = 0
    for number, (who, commit) in enumerate(zip(["", "", peer, "", peer, peer, ""], commits, strict=True), start=1):
        table.write(who or US, commit)
        if who and number != 5:  # two commits of the peer's wait for one compaction of ours
            table.show(answer(plain, commits[:visible]), to=readers, at="hidden")
            table.table.compact()
        if not who or number != 5:
            visible = number
        table.show(answer(plain, commits[:visible]), to=readers, at=number)
    assert any(split.has_deletions for split in table.table.new_read_builder().new_scan().plan().splits())
    assert len(levels(table.table.store)) > 1
    if bitmap64 == "true" and case.python:
        with pytest.raises(PeerError):
            table.read(NAMES[0])
    table.table.compact(full=True)
    assert levels(table.table.store).keys() == {5}
    table.show(answer(plain, commits), to=readers, at="compacted")


# --- changelogs


@pytest.mark.parametrize("case", some([DEDUPLICATE[0], DEDUPLICATE[3], PARTIAL_UPDATE[6], AGGREGATION[1]], 0), ids=str)
def test_input_changelogs_are_those_of_rust(shared: Make, case: Case) -> None:
    """All rows as they came, with their kinds and numbers, in the order of keys, whoever writes and whoever reads."""
    plain = case.schema
    schema = lw.Schema(plain.fields, [], ["k"], {**plain.options, "changelog-producer": "input", "bucket": "1"})
    ours, theirs = shared(schema), shared(schema)
    commits = case.commits()
    for commit in commits:
        ours.write(US, commit)
        theirs.write(RUST, commit)
    until = len(commits)
    assert changelog_of(ours.table.store, 1, until) == changelog_of(theirs.table.store, 1, until)
    for number, commit in enumerate(commits, start=1):
        kinds = sorted((kind, values["k"]) for kind, values in commit)
        stored = changelog_of(ours.table.store, number, number)
        assert sorted((KIND_NAMES[row[1]], row[2]) for row in stored) == kinds
        assert _facts(ours.table, number) == _facts(theirs.table, number)
    for table in (ours, theirs):
        read = lw.read_table(table.table, incremental=(0, until), incremental_mode="changelog", row_kinds=True)
        found = table.peers.changes(table.warehouse, table.name, (0, until))
        assert found is not None
        assert found["rowkind"].to_pylist() == read["_row_kind"].to_pylist()
        assert found.drop(["rowkind"]).to_pylist() == read.drop(["_row_kind"]).to_pylist()
        if case.python:
            table.table.store.consumers.record("reader", 1)
            followed = table.peers.follow(table.warehouse, table.name, "reader", until)
            assert followed is not None
            assert followed.to_pylist() == read.to_pylist()


def _facts(table: lw.FileStoreTable, snapshot: int) -> list[tuple[object, ...]]:
    """Return what the changelog manifest says of its files, names and sizes left out."""
    entries = table.store.manifests.changelog(table.store.snapshots.get(snapshot))
    files = [entry.file for entry in entries]
    return [
        (
            f.level,
            f.row_count,
            f.delete_row_count,
            f.min_sequence_number,
            f.max_sequence_number,
            f.file_source,
            f.min_key,
        )
        for f in files
    ]


def test_deltas_are_read_alike_and_compactions_are_none(shared: Make) -> None:
    case = DEDUPLICATE[0]
    table = shared(case.schema)
    for who, commit in zip((US, RUST, US, RUST), case.commits(count=4), strict=True):
        table.write(who, commit)
    table.table.compact(full=True)
    table.write(US, case.commits(seed=2, count=1)[0])

    def texts(rows: pa.Table | None) -> list[str]:
        assert rows is not None
        return sorted(str(list(row.values())) for row in rows.to_pylist())

    ours = lw.read_table(table.table, incremental=(0, 6), incremental_mode="delta", row_kinds=True)
    assert len(set(ours["_row_kind"].to_pylist())) == 4
    assert texts(table.peers.changes(table.warehouse, table.name, (0, 6), "delta")) == texts(ours)
    table.table.store.consumers.record("reader", 1)
    assert texts(table.peers.follow(table.warehouse, table.name, "reader", 5)) == texts(ours)


@pytest.mark.nightly
def test_pypaimon_folds_the_changelog_and_we_do_not(shared: Make) -> None:
    schema = _schema("bigint", {"changelog-producer": "input", "bucket": "1", "write-only": "true"})
    ours, theirs = shared(schema), shared(schema)
    changes: list[Change] = [("+I", _values("bigint", key, turn)) for turn in (1, 2) for key in (1, 2, 3)]
    ours.write(US, changes)
    theirs.write(NAMES[0], changes)
    assert len(changelog_of(ours.table.store, 1, 1)) == 6
    assert len(changelog_of(theirs.table.store, 1, 1)) == 3
    want = [_values("bigint", key, 2) for key in (1, 2, 3)]
    ours.show(want)
    theirs.show(want)


@pytest.mark.parametrize("producer", some(["lookup", "full-compaction"], 0))
def test_rust_reads_the_changelog_of_our_compactions(shared: Make, producer: str) -> None:
    table = shared(_schema("bigint", {"changelog-producer": producer, "bucket": "1"}))
    model: dict[int, dict[str, Any]] = {}
    chance = random.Random(producer)
    for turn, who in enumerate((US, RUST, NAMES[0], RUST, US)):
        before = table.table.store.snapshots.latest_id() or 0
        rows = {key: _values("bigint", key, turn) for key in chance.sample(range(80), 30)}
        gone = set(chance.sample(sorted(rows), 8)) if who == RUST else set()
        table.write(who, [("-D" if key in gone else "+I", row) for key, row in rows.items()])
        table.table.compact(full=producer == "full-compaction")
        after = {k: v for k, v in (model | rows).items() if k not in gone}
        between = (before, table.table.store.snapshots.latest_id() or 0)
        want = _changed(model, after, rows)
        read = lw.read_table(table.table, incremental=between, incremental_mode="changelog", row_kinds=True)
        assert sorted((tuple(row.values()) for row in read.to_pylist()), key=repr) == want
        found = table.peers.changes(table.warehouse, table.name, between)
        assert found is not None
        assert sorted((tuple(row.values()) for row in found.to_pylist()), key=repr) == want
        model = after
        table.show(list(model.values()))


def _changed(before: Mapping[int, Any], after: Mapping[int, Any], written: Mapping[int, Any]) -> list[tuple[Any, ...]]:
    """Return the changelog of the keys that were written."""
    out: list[tuple[Any, ...]] = []
    for key in written:
        old, new = before.get(key), after.get(key)
        if old is not None:
            out.append(("-U" if new is not None else "-D", *old.values()))
        if new is not None:
            out.append(("+U" if old is not None else "+I", *new.values()))
    return sorted(out, key=repr)


# --- where both peers are wrong


@pytest.mark.nightly
@pytest.mark.parametrize("lookup", [{"changelog-producer": "lookup"}, {"force-lookup": "true"}], ids=str)
def test_rows_below_a_folded_row_count_once_for_us(shared: Make, lookup: dict[str, str]) -> None:
    """The lowest level above 0 holds what is deeper already; the peers add both, until one file is left."""
    fields = [DataField(0, "k", lw.AtomicType("BIGINT")), DataField(1, "v", lw.AtomicType("BIGINT"))]
    options = {"bucket": "1", "merge-engine": "aggregation", "fields.v.aggregate-function": "sum", **lookup}
    table = shared(lw.Schema(fields, [], ["k"], options))
    table.write(US, [("+I", {"k": k, "v": 1}) for k in range(3000)])
    for _ in range(2):
        table.write(US, [("+I", {"k": 1, "v": 2})])
    assert levels(table.table.store) == {5: 1, 4: 1}
    want = [{"k": k, "v": 5 if k == 1 else 1} for k in range(3000)]
    table.show(want, to=[US])
    for peer in NAMES:
        found = table.peers.read(peer, table.warehouse, table.name)
        assert found is not None
        assert found.filter(pc.equal(found["k"], 1))["v"].to_pylist() == [6]
    table.table.compact(full=True)
    table.show(want)


@pytest.mark.nightly
@pytest.mark.parametrize("peer", NAMES)
@pytest.mark.parametrize(
    ("dtype", "bucket", "same"),
    [("TIMESTAMP(6)", 0, False), ("DECIMAL(20, 2)", 5, False), ("INT", 3, True), ("STRING", 3, True)],
)
def test_null_keys_lie_where_java_puts_them(shared: Make, peer: str, dtype: str, bucket: int, same: bool) -> None:
    fields = [DataField(0, "k", lw.AtomicType(dtype)), DataField(1, "v", lw.AtomicType("BIGINT"))]
    options = {"bucket": "7", "primary-key.nullable": "true", "write-only": "true"}
    table = shared(lw.Schema(fields, [], ["k"], options))
    table.write(US, [("+I", {"k": None, "v": 1})])
    table.show([{"k": None, "v": 1}])
    assert {entry.bucket for entry in live(table.table.store)} == {bucket}
    table.write(peer, [("+I", {"k": None, "v": 2})])
    assert {entry.bucket for entry in live(table.table.store)} == {bucket, 3}
    one = [{"k": None, "v": 2}]
    table.show(one if same else [{"k": None, "v": 1}, *one])
