"""Incremental jobs: every change of the source reaches the target once, whatever dies, expires or is rolled back."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

import lakewright as lw
from contract.fault_enumerator import OPTIONS, SIX_FAULTS, Operation, enumerate_faults
from contract.faulty_storage import Crash, Fault, FaultKind, FaultyStorage, MemoryStorage
from lakewright.dml.incremental_jobs import TransformResult
from lakewright.errors import FullRefreshRequiredError
from support.effort import examples, is_thin

pytestmark = pytest.mark.long

names = itertools.count()
COLUMNS = pa.schema({"id": pa.int64(), "mail": pa.string(), "n": pa.int64()})
Rows = dict[int, tuple[str, int]]  # id to mail and n


def create(catalog: lw.Catalog, name: str, keys: list[str], options: dict[str, str] | None = None) -> None:
    bucket = {"bucket": "2"} if keys else {}
    catalog.create_table(
        name, lw.Schema.from_pyarrow_schema(COLUMNS, primary_keys=keys, options=bucket | (options or {}))
    )


def positive(rows: pa.Table) -> pa.Table:
    return rows.filter(pc.field("n") > 0)


def even(rows: pa.Table) -> pa.Table:
    return rows.filter(pc.equal(pc.bit_wise_and(rows["n"], 1), 0))


def as_rows(table: lw.FileStoreTable) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in lw.read_table(table).to_pylist())


def expire(table: lw.FileStoreTable) -> None:
    table.expire_snapshots(retain_max=1)


class Pipeline(RuleBasedStateMachine):
    """A chain of three tables, and a log that is copied, against a dict and a list."""

    def __init__(self) -> None:
        super().__init__()
        self.memory = MemoryStorage(f"incremental-{next(names)}")
        self.rows: Rows = {}
        self.log: list[int] = []
        self.may_need_refresh = False
        self.died = 0

    @initialize(options=st.sampled_from([{}, {"deletion-vectors.enabled": "true"}, {"changelog-producer": "input"}]))
    def begin(self, options: dict[str, str]) -> None:
        catalog = self.open()
        catalog.create_database("d")
        create(catalog, "d.source", ["id"], options)
        create(catalog, "d.middle", ["mail"], options)  # another key: mails move between ids
        create(catalog, "d.end", ["mail"])
        create(catalog, "d.log", [])
        create(catalog, "d.copy", [])

    def open(self, fault: Fault | None = None) -> lw.Catalog:
        storage = self.memory if fault is None else FaultyStorage(self.memory, [fault])
        return lw.FileSystemCatalog(storage, f"{self.memory.root}/warehouse", OPTIONS)

    def table(self, name: str) -> lw.FileStoreTable:
        return self.open().get_table(f"d.{name}")

    @rule(ids=st.lists(st.integers(0, 5), min_size=1, max_size=4, unique=True), n=st.integers(-3, 6))
    def put(self, ids: list[int], n: int) -> None:
        """Write rows; those of ids that are there already swap their mails."""
        mails = [self.rows[i][0] if i in self.rows else f"m{i}" for i in ids]
        taken = {mail for i, (mail, _) in self.rows.items() if i not in ids}
        mails = mails[1:] + mails[:1]
        if len(set(mails)) < len(mails) or not taken.isdisjoint(mails):
            return
        new = {i: (mail, n + at) for at, (i, mail) in enumerate(zip(ids, mails, strict=True))}
        lw.write_table(
            pa.Table.from_pylist([{"id": i, "mail": m, "n": k} for i, (m, k) in new.items()], COLUMNS),
            self.table("source"),
        )
        self.rows |= new

    @rule(ids=st.lists(st.integers(0, 5), min_size=1, max_size=3))
    def delete(self, ids: list[int]) -> None:
        lw.write_table(pa.table({"id": ids}), self.table("source"), mode="delete")
        for i in ids:
            self.rows.pop(i, None)

    @rule(n=st.integers(0, 9))
    def append(self, n: int) -> None:
        lw.write_table(pa.table({"id": [n], "mail": ["x"], "n": [len(self.log)]}), self.table("log"))
        self.log.append(n)

    @rule(name=st.sampled_from(["source", "middle", "log", "copy"]))
    def compact(self, name: str) -> None:
        self.table(name).compact(full=True)

    @rule(name=st.sampled_from(["source", "middle", "end", "log", "copy"]))
    def expire(self, name: str) -> None:
        expire(self.table(name))

    @rule(back=st.integers(1, 3), name=st.sampled_from(["middle", "end", "copy"]))
    def roll_back_target(self, back: int, name: str) -> None:
        ids = self.table(name).store.snapshots.ids()
        if len(ids) > back:
            self.table(name).rollback_to(ids[-1 - back])
            self.table(name).compact(full=True)  # rows may be hidden until they are compacted
            self.may_need_refresh = True

    @rule(call=st.integers(1, 120), kind=st.sampled_from([FaultKind.CRASH_BEFORE, FaultKind.CRASH_AFTER]))
    def run_and_die(self, call: int, kind: FaultKind) -> None:
        try:
            self.run_all(self.open(Fault(call, kind)), None)
        except Crash:
            self.died += 1

    @rule(every=st.sampled_from([None, 1, 2]))
    def run(self, every: int | None) -> None:
        self.run_all(self.open(), every)
        live = sorted((i, mail, n) for i, (mail, n) in self.rows.items())
        assert as_rows(self.table("middle")) == [row for row in live if row[2] > 0]
        assert as_rows(self.table("end")) == [row for row in live if row[2] > 0 and row[2] % 2 == 0]
        assert as_rows(self.table("copy")) == sorted((n, "x", at) for at, n in enumerate(self.log))
        again = self.run_all(self.open(), every)
        assert not any(result.commits for result in again), "nothing new makes no snapshot"
        self.may_need_refresh = False

    def run_all(self, catalog: lw.Catalog, every: int | None) -> list[TransformResult]:
        return [
            self.run_one(catalog, "source", positive, "middle", every),
            self.run_one(catalog, "middle", even, "end", every),
            self.run_one(catalog, "log", lambda rows: rows, "copy", every),
        ]

    def run_one(
        self, catalog: lw.Catalog, source: str, fn: Callable[[pa.Table], pa.Table], target: str, every: int | None
    ) -> TransformResult:
        tables = catalog.get_table(f"d.{source}"), catalog.get_table(f"d.{target}")
        try:
            return lw.transform(tables[0], fn, tables[1], job_id="daily run", commit_every=every)
        except FullRefreshRequiredError:
            assert self.may_need_refresh
            return lw.transform(tables[0], fn, tables[1], job_id="daily run", full_refresh=True)


Pipeline.TestCase.settings = settings(
    max_examples=examples(60), stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
test_chain_of_tables = Pipeline.TestCase


# ---- Every call fails ------------------------------------------------------------------------------------------------


def prepared(keys: list[str]) -> Callable[[lw.Catalog], None]:
    def prepare(catalog: lw.Catalog) -> None:
        catalog.create_database("d")
        create(catalog, "d.t", keys, {"write-only": "true"})  # a compaction that fails is only a warning
        create(catalog, "d.source", keys)
        write(catalog, [(1, "a", 1), (2, "b", 2)])
        copy(catalog)
        write(catalog, [(2, "c", -2), (3, "b", 3)])

    return prepare


def write(catalog: lw.Catalog, rows: list[tuple[int, str, int]]) -> None:
    columns = [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), COLUMNS, strict=True)]
    lw.write_table(pa.table(columns, COLUMNS), catalog.get_table("d.source"))


def copy(catalog: lw.Catalog, **arguments: Any) -> TransformResult:  # noqa: ANN401 - passed on
    source, target = catalog.get_table("d.source"), catalog.get_table("d.t")
    return lw.transform(source, positive, target, **{"job_id": "copy", **arguments})


@pytest.mark.parametrize("keys", [[], ["id"]], ids=["append", "keys"])
def test_every_call_of_a_run_may_fail(keys: list[str]) -> None:
    operation = Operation("transform", prepared(keys), copy, again=copy)
    report = enumerate_faults(operation, lambda catalog: as_rows(catalog.get_table("d.t")), SIX_FAULTS, thin=is_thin())
    assert not report.failures, report.failures
    assert report.runs > 10


# ---- Single cases ----------------------------------------------------------------------------------------------------


@pytest.fixture(params=[[], ["id"]], ids=["append", "keys"])
def catalog(request: pytest.FixtureRequest) -> lw.Catalog:
    """Return a catalog with a source of two commits, of which the first is processed."""
    memory = MemoryStorage(f"incremental-{next(names)}")
    made = lw.FileSystemCatalog(memory, f"{memory.root}/warehouse", OPTIONS)
    prepared(request.param)(made)
    return made


def test_of_two_runs_at_once_one_commits(catalog: lw.Catalog) -> None:
    def overtaken(rows: pa.Table) -> pa.Table:
        write(catalog, [(9, "z", 9)])  # so that the other run comes further
        assert copy(catalog).commits
        return rows

    source, target = catalog.get_table("d.source"), catalog.get_table("d.t")
    with pytest.raises(lw.CommitConflictError, match="run it again"):
        lw.transform(source, overtaken, target, job_id="copy")
    held = as_rows(target)
    assert held == sorted(set(held))
    assert not copy(catalog).commits


def test_a_full_refresh_replaces_rows_of_the_job_alone(catalog: lw.Catalog) -> None:
    source, target = catalog.get_table("d.source"), catalog.get_table("d.t")
    for _ in range(2):  # also after the snapshots before have expired
        done = copy(catalog, full_refresh=True)
        assert (len(done.commits), done.source_snapshot_id) == (1, source.store.snapshots.latest_id())
        assert as_rows(target) == as_rows_of(source, "n > 0")
        expire(target)
    write(catalog, [(7, "w", 7)])
    copy(catalog)
    assert as_rows(target) == as_rows_of(source, "n > 0")
    lw.write_table(pa.table([[8], ["v"], [8]], COLUMNS.names), target)
    with pytest.raises(lw.InvalidInputError, match="others have written"):
        copy(catalog, full_refresh=True)
    target.new_batch_write_builder().new_commit().truncate_table()
    copy(catalog, full_refresh=True)
    assert as_rows(target) == as_rows_of(source, "n > 0")


def as_rows_of(table: lw.FileStoreTable, condition: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in lw.read_table(table, filter=condition).to_pylist())


def test_where_the_changes_are_gone_a_full_refresh_is_asked_for(catalog: lw.Catalog) -> None:
    source, target = catalog.get_table("d.source"), catalog.get_table("d.t")

    def roll_back() -> None:
        source.rollback_to(source.store.snapshots.ids()[-2])
        write(catalog, [(5, "e", 5)])

    def expire_all() -> None:
        source.clear_consumers()
        write(catalog, [(6, "f", 6)])
        expire(source)

    def create_again() -> None:
        catalog.drop_table("d.source")
        create(catalog, "d.source", source.primary_keys)
        write(catalog, [(4, "d", 4)])

    copy(catalog)
    for spoil, why in ((roll_back, "rolled back"), (expire_all, "expired"), (create_again, "another table")):
        spoil()
        held = as_rows(target)
        with pytest.raises(FullRefreshRequiredError, match=f"{why}.*full_refresh=True"):
            copy(catalog)
        assert as_rows(target) == held
        copy(catalog, full_refresh=True)
        assert as_rows(target) == as_rows_of(catalog.get_table("d.source"), "n > 0")


def test_progress_outlives_the_snapshots_of_the_target(catalog: lw.Catalog) -> None:
    source, target = catalog.get_table("d.source"), catalog.get_table("d.t")
    for number in (10, 11):
        lw.write_table(pa.table([[number], [f"{number}"], [number]], COLUMNS.names), target)
    expire(target)
    assert [commit.rows for commit in copy(catalog).commits] in ([1], [2]), "the rows of the second commit"
    expire(source)
    write(catalog, [(12, "y", 12)])
    assert copy(catalog).rows == 1


def test_wrong_calls_are_refused_before_anything_is_written(catalog: lw.Catalog) -> None:
    source, target = catalog.get_table("d.source"), catalog.get_table("d.t")
    before = target.store.snapshots.latest_id()
    if source.primary_keys:
        with pytest.raises(lw.InvalidInputError, match="_row_kind"):
            lw.transform(source, lambda rows: rows.select(COLUMNS.names), target, job_id="copy")
        create(catalog, "d.history", [])
        history = catalog.get_table("d.history")
        with pytest.raises(lw.InvalidInputError, match="no primary key"):
            lw.transform(source, positive, history, job_id="copy")
        assert lw.transform(source, lambda rows: rows.drop_columns(["_row_kind"]), history, job_id="copy").rows == 3
    else:
        source.delete("id = 1")
        with pytest.raises(FullRefreshRequiredError, match="changed or removed rows"):
            copy(catalog)
    for wrong in ({"job_id": ""}, {"commit_every": 0}, {"full_refresh": 1}):
        with pytest.raises(lw.InvalidInputError):
            copy(catalog, **wrong)
    with pytest.raises(lw.InvalidInputError, match="own source"):
        lw.transform(source, positive, source, job_id="copy")
    with pytest.raises(lw.InvalidInputError, match="time travel"):
        lw.transform(source.copy({"scan.snapshot-id": "1"}), positive, target, job_id="copy")
    assert target.store.snapshots.latest_id() == before


def test_an_aggregation_keeps_sums_of_rows_that_change() -> None:
    memory = MemoryStorage(f"incremental-{next(names)}")
    catalog = lw.FileSystemCatalog(memory, f"{memory.root}/warehouse", OPTIONS)
    catalog.create_database("d")
    create(catalog, "d.source", ["id"])
    sums = {"merge-engine": "aggregation", "fields.n.aggregate-function": "sum", "fields.id.aggregate-function": "sum"}
    create(catalog, "d.t", ["mail"], sums)
    for rows in ([(1, "a", 1), (2, "a", 2), (3, "b", 3)], [(1, "b", 10), (2, "a", 5)]):
        write(catalog, rows)
        copy(catalog)
    lw.write_table(pa.table({"id": [3]}), catalog.get_table("d.source"), mode="delete")
    copy(catalog)
    assert as_rows(catalog.get_table("d.t")) == [(1, "b", 10), (2, "a", 5)]
