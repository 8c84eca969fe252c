"""The contract of an engine, as a test class: what the embedded engine, Spark and Ray must all do.

Subclass `EngineContract` in a test module and give it the fixture `engine`. What a table must hold is computed here
from plain Python rows, not by another engine. What only one engine can do (streams, blocks, killed drivers) is tested
beside that engine.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import pyarrow as pa
import pytest

from contract.fault_enumerator import stray_files
from lakewright.catalog.catalog import Catalog
from lakewright.catalog.catalog_registry import CatalogFactory
from lakewright.commit.commit_message import CommitMessage
from lakewright.commit.committer import Committer
from lakewright.commit.table_commit import CommitResult
from lakewright.dml.assignments import source_col
from lakewright.dml.incremental_jobs import TransformResult
from lakewright.dml.merge import MergeBuilder
from lakewright.dml.row_changes import UpdateResult
from lakewright.errors import (
    ColumnNotExistException,
    CommitUnknownError,
    InvalidInputError,
    TableReplacedError,
    UnsupportedError,
)
from lakewright.metadata.authority import FILE_AUTHORITY
from lakewright.spec.schema import Schema
from lakewright.spec.snapshot import CommitKind, Snapshot
from lakewright.table.file_store_table import FileStoreTable
from lakewright.table.verbs import read_table, write_table

Row: TypeAlias = tuple[Any, ...]
Frame: TypeAlias = Any  # an engine's own kind of data
Argument: TypeAlias = Any  # of an engine's call

COLUMNS = pa.schema({"id": pa.int64(), "day": pa.string(), "n": pa.int64(), "text": pa.string()})
ROWS: list[Row] = [(i % 40, f"2026-01-0{i % 40 % 3 + 1}", i, f"row {i}") for i in range(120)]  # every key three times
MORE: list[Row] = [(i % 50, f"2026-01-0{i % 50 % 3 + 1}", 1000 + i, None) for i in range(50)]
DAY = "2026-01-01"


class EngineUnderTest(Protocol):
    """One engine as the contract uses it. Rows are Arrow tables; a frame is the engine's own kind of data."""

    def frame(self, rows: pa.Table, parts: int = 3) -> Frame:
        """Return rows as a frame of so many parts, in their order."""

    def failing_frame(self, rows: pa.Table) -> Frame:
        """Return a frame that gives some of the rows and then fails with the text `the input is bad`."""

    def write(
        self, frame: Frame, table: FileStoreTable | str, mode: str = "append", **arguments: Argument
    ) -> CommitResult:
        """Write a frame with the engine's `write_table`."""

    def read(self, table: Argument, **arguments: Argument) -> pa.Table:
        """Read a table or system table with the engine's `read_table`."""

    def pinned(self, table: FileStoreTable) -> Callable[[], pa.Table]:
        """Plan a read now, and return a function that reads its rows later."""

    def counts(self, table: FileStoreTable, where: str | None) -> Mapping[str, int]:
        """Return the number of rows (of those that match) by every kind of query that needs no column."""

    def delete(self, table: FileStoreTable, where: str) -> UpdateResult:
        """Delete rows."""

    def update(self, table: FileStoreTable, assignments: Mapping[str, object], where: str) -> UpdateResult:
        """Update rows."""

    def merge(self, frame: Frame, table: FileStoreTable, on: str | Sequence[str]) -> MergeBuilder:
        """Begin a merge."""

    def transform(
        self, source: FileStoreTable, above: int, target: FileStoreTable, **arguments: Argument
    ) -> TransformResult:
        """Run a job that brings the rows whose `n` is above a number into another table."""

    def forbid_jobs(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Make the test fail as soon as a task of the engine starts to write."""


@dataclass(frozen=True)
class Kind:
    """One kind of table, and which rows it holds after some writes."""

    keys: Sequence[str] = ()
    partitions: Sequence[str] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    fold: Callable[[Row, Row], Row] = lambda _, new: new  # the row of a key, and the next one with that key
    compacts: bool = False  # rows are hidden until a compaction

    def expected(self, writes: Sequence[Sequence[Row]]) -> list[Row]:
        """Return the rows that the table holds after these writes, sorted."""
        rows = [row for written in writes for row in written]
        if not self.keys:
            return in_order(rows)
        at = [COLUMNS.names.index(name) for name in self.keys]
        held: dict[Row, Row] = {}
        for row in rows:
            key = tuple(row[i] for i in at)
            held[key] = self.fold(held[key], row) if key in held else row
        return in_order(held.values())


def _filled(old: Row, new: Row) -> Row:
    return tuple(was if now is None else now for was, now in zip(old, new, strict=True))


def _summed(old: Row, new: Row) -> Row:
    return (*_filled(old, new)[:2], old[2] + new[2], _filled(old, new)[3])


KINDS = {
    "append": Kind(),
    "append, partitions": Kind(partitions=["day"]),
    "append, partitions together": Kind(partitions=["day"], options={"lakewright.write-distribution": "partition"}),
    "append, buckets": Kind(options={"bucket": "3", "bucket-key": "id"}),
    "append, buckets in partitions": Kind(partitions=["day"], options={"bucket": "2", "bucket-key": "id"}),
    "append, tracked": Kind(options={"row-tracking.enabled": "true"}),
    "keys": Kind(["id"], options={"bucket": "3"}),
    "keys, in place": Kind(["id"], options={"bucket": "2", "lakewright.write-distribution": "none"}),
    "keys in partitions": Kind(["id", "day"], ["day"], {"bucket": "2"}),
    "dynamic": Kind(["id"], options={"bucket": "-1", "dynamic-bucket.target-row-num": "10"}),
    "dynamic in partitions": Kind(["id", "day"], ["day"], {"bucket": "-1"}),
    "across partitions": Kind(["id"], ["day"], {"bucket": "-1"}),
    "postponed": Kind(["id"], options={"bucket": "-2", "postpone.default-bucket-num": "2"}, compacts=True),
    "changelog": Kind(["id"], options={"bucket": "2", "changelog-producer": "input"}),
    "deletion vectors": Kind(["id"], options={"bucket": "2", "deletion-vectors.enabled": "true"}),
    "first row": Kind(["id"], options={"bucket": "2", "merge-engine": "first-row"}, fold=lambda old, _: old),
    "partial update": Kind(["id"], options={"bucket": "2", "merge-engine": "partial-update"}, fold=_filled),
    "sums": Kind(
        ["id"],
        options={
            "bucket": "2",
            "merge-engine": "aggregation",
            "fields.n.aggregate-function": "sum",
            "fields.day.aggregate-function": "last_non_null_value",
            "fields.text.aggregate-function": "last_non_null_value",
        },
        fold=_summed,
    ),
    "sequence field": Kind(["id"], options={"bucket": "2", "sequence.field": "n"}),
}
READS: list[dict[str, Any]] = [
    {"filter": "id > 20 AND day <> '2026-01-01'"},
    {"filter": "n >= 1000 OR text = 'row 7'", "columns": ["text", "id"]},
    {"filter": "id > 1000"},
    {"columns": {"key": "id", "number": "n"}},
    {"snapshot_id": 1},
    {"tag": "first"},
]


# ---- tables and rows -------------------------------------------------------------------------------------------------


def arrow(rows: Sequence[Row], columns: pa.Schema = COLUMNS) -> pa.Table:
    """Return rows as an Arrow table."""
    return pa.Table.from_pylist([dict(zip(columns.names, row, strict=True)) for row in rows], columns)


def in_order(rows: Iterable[Row]) -> list[Row]:
    """Return rows in an order that does not depend on how they were stored."""
    return sorted(rows, key=repr)


def tuples(data: pa.Table) -> list[Row]:
    """Return the rows of an Arrow table, sorted."""
    return in_order(tuple(row.values()) for row in data.to_pylist())


def catalog_at(root: Path) -> Catalog:
    """Open the catalog of one test. A suite for tables of other catalogs puts a function of its own in this place."""
    return CatalogFactory.create({"warehouse": str(root / "warehouse")})


def new_table(root: Path, kind: Kind | str = "append", name: str = "t", columns: pa.Schema = COLUMNS) -> FileStoreTable:
    """Make a table in the catalog of one test."""
    made = KINDS[kind] if isinstance(kind, str) else kind
    catalog = catalog_at(root)
    catalog.create_database("d", ignore_if_exists=True)
    schema = Schema.from_pyarrow_schema(
        columns, partition_keys=list(made.partitions), primary_keys=list(made.keys), options=dict(made.options)
    )
    catalog.create_table(f"d.{name}", schema)
    return catalog.get_table(f"d.{name}")


def assert_tidy(table: FileStoreTable) -> None:
    """Check that no file is left that nothing names."""
    assert stray_files(table.store) == set()


# ---- the contract ----------------------------------------------------------------------------------------------------


class EngineContract:
    """The tests that every engine must pass. Fixture: `engine`, an `EngineUnderTest`."""

    # -- writes

    @pytest.mark.parametrize("name", KINDS)
    def test_a_table_of_every_kind_holds_the_rows(self, engine: EngineUnderTest, tmp_path: Path, name: str) -> None:
        """Two writes are two snapshots, and rows of one key are merged as the table says."""
        kind = KINDS[name]
        table = new_table(tmp_path, kind)
        for rows in (ROWS, MORE):
            result = engine.write(engine.frame(arrow(rows)), table)
            assert result.snapshot_id is not None
            assert not result.replayed
        if kind.compacts:
            table.compact()
        assert tuples(engine.read(table)) == kind.expected([ROWS, MORE])
        if "changelog-producer" in kind.options:
            changes = read_table(table, incremental=(0, 2), row_kinds=True)
            assert changes.num_rows >= len(kind.expected([ROWS, MORE]))
        assert_tidy(table)

    @pytest.mark.parametrize("name", ["append", "append, tracked", "keys", "deletion vectors"])
    def test_queries_that_need_no_column_count_the_rows(
        self, engine: EngineUnderTest, tmp_path: Path, name: str
    ) -> None:
        """A plan without columns has as many rows as any other, also after a delete."""
        table = new_table(tmp_path, name)
        for rows in (ROWS, MORE):
            write_table(arrow(rows), table)
        table.delete("id < 7")
        for where in (None, "id > 20"):
            rows_left = read_table(table, filter=where).num_rows
            counts = engine.counts(table, where)
            assert counts == dict.fromkeys(counts, rows_left)

    def test_a_merge_of_schemas_adds_fields_inside_columns(self, engine: EngineUnderTest, tmp_path: Path) -> None:
        """Fields are added to ROW and ARRAY columns as columns are added to a table."""

        def rows(number: int, **more: str) -> pa.Table:
            user = {"name": "a", **more}
            return pa.table({"id": [number], "user": [user], "parts": [[user]]})

        first = rows(1)
        table = new_table(tmp_path, Kind(), columns=first.schema)
        write_table(first, table)
        engine.write(engine.frame(rows(2, email="e"), parts=1), table, schema_mode="merge")
        found = engine.read(table.refreshed()).sort_by("id").to_pylist()
        for row, user in zip(found, ({"name": "a", "email": None}, {"name": "a", "email": "e"}), strict=True):
            assert (row["user"], row["parts"]) == (user, [user])

    def test_rows_keep_the_order_of_the_frame(self, engine: EngineUnderTest, tmp_path: Path) -> None:
        """Row ids count up with the rows, over parts and over files."""
        kind = Kind(options={"row-tracking.enabled": "true", "target-file-row-num": "300"})
        table = new_table(tmp_path, kind, columns=pa.schema({"n": pa.int64()}))
        engine.write(engine.frame(pa.table({"n": range(4000)}), parts=4), table)
        read_back = read_table(table, columns=["n", "_ROW_ID"])
        assert read_back["n"].to_pylist() == read_back["_ROW_ID"].to_pylist() == list(range(4000))

    def test_the_result_counts_what_was_written(self, engine: EngineUnderTest, tmp_path: Path) -> None:
        """Rows, files, bytes and partitions are those of the snapshot; a table can be given by its path.

        Not so a table whose history a server owns: a path says nothing of the server.
        """
        table = new_table(tmp_path, "append, partitions")
        result = engine.write(
            engine.frame(arrow(ROWS), 2), table.table_path if table.store.home == FILE_AUTHORITY else table
        )
        files = [entry.file for entry in table.store.manifests.live(_newest(table))]
        assert (result.rows, result.files, result.bytes) == (120, len(files), sum(file.file_size for file in files))
        assert (result.snapshot_id, result.partitions, result.replayed) == (1, 3, False)
        assert result.seconds > 0

    @pytest.mark.parametrize("kind", ["append", "keys"])
    def test_no_rows_make_no_snapshot(self, engine: EngineUnderTest, tmp_path: Path, kind: str) -> None:
        """An empty frame is not an error."""
        table = new_table(tmp_path, kind)
        result = engine.write(engine.frame(COLUMNS.empty_table(), 1), table)
        assert (result.snapshot_id, result.rows, result.files) == (None, 0, 0)
        assert table.store.snapshots.latest_id() is None

    def test_an_overwrite_replaces_partitions_or_the_table(self, engine: EngineUnderTest, tmp_path: Path) -> None:
        """The partitions of the rows, the partitions that are named, or all of a table without partitions."""
        table = new_table(tmp_path, "append, partitions")
        engine.write(engine.frame(arrow(ROWS)), table)
        others = [row for row in ROWS if row[1] != DAY]
        engine.write(engine.frame(arrow([(1, DAY, 1, "new")]), 1), table, "overwrite")
        assert tuples(engine.read(table)) == in_order([*others, (1, DAY, 1, "new")])
        engine.write(engine.frame(COLUMNS.empty_table(), 1), table, "overwrite", partitions={"day": DAY})
        assert tuples(engine.read(table)) == in_order(others)
        with pytest.raises(InvalidInputError, match="does not replace"):
            engine.write(engine.frame(arrow(MORE)), table, "overwrite", partitions={"day": DAY})
        keyed = new_table(tmp_path, "keys", "keyed")
        engine.write(engine.frame(arrow(ROWS)), keyed)
        engine.write(engine.frame(arrow(MORE[:2]), 1), keyed, "overwrite")
        assert tuples(engine.read(keyed)) == in_order(MORE[:2])
        assert_tidy(table)
        assert_tidy(keyed)

    def test_keys_are_upserted_and_deleted(self, engine: EngineUnderTest, tmp_path: Path) -> None:
        """A delete takes the keys alone; row kinds in a column say what each row does."""
        table = new_table(tmp_path, "keys")
        engine.write(engine.frame(arrow(ROWS)), table, "upsert")
        assert engine.write(engine.frame(pa.table({"id": range(10)})), table, "delete").rows == 10
        assert [row["id"] for row in engine.read(table, columns=["id"]).sort_by("id").to_pylist()] == list(
            range(10, 40)
        )
        kinds = arrow([(10, DAY, 0, ""), (11, DAY, 1, "b"), (99, DAY, 2, "c")])
        engine.write(engine.frame(kinds.append_column("_row_kind", pa.array(["-D", "+U", "+I"]))), table)
        rows = {row[0]: row for row in tuples(engine.read(table))}
        assert (10 in rows, rows[11], rows[99]) == (False, (11, DAY, 1, "b"), (99, DAY, 2, "c"))
        with pytest.raises(InvalidInputError, match="row kind"):
            engine.write(engine.frame(kinds.append_column("_row_kind", pa.array(["?"] * 3))), table)
        with pytest.raises(UnsupportedError, match="no primary key"):
            engine.write(engine.frame(pa.table({"id": [1]}), 1), new_table(tmp_path, name="keyless"), "delete")
        assert_tidy(table)

    @pytest.mark.parametrize("kind", ["float", "double"])
    def test_the_two_zeros_are_two_keys_and_one_value(self, engine: EngineUnderTest, tmp_path: Path, kind: str) -> None:
        """An upsert of some columns, or of all, and a delete find the very key; a merge compares as SQL does."""
        columns = pa.schema({"id": pa.type_for_alias(kind), "n": pa.int64(), "text": pa.string()})
        table = new_table(tmp_path, Kind(["id"], options={"bucket": "4"}), columns=columns)

        def write(rows: Sequence[Row], mode: str, names: Sequence[str]) -> None:
            fields = pa.schema([columns.field(name) for name in names])
            engine.write(engine.frame(arrow(rows, fields), 1), table, mode)

        write([(0.0, 1, "plus")], "append", columns.names)
        write([(-0.0, 2)], "upsert", ["id", "n"])
        assert tuples(engine.read(table)) == [(-0.0, 2, None), (0.0, 1, "plus")]
        write([(0.0, 3), (-0.0, 4), (0.0, 5)], "upsert", ["id", "n"])
        assert tuples(engine.read(table)) == [(-0.0, 4, None), (0.0, 5, "plus")]
        write([(-0.0, 6, "minus")], "upsert", columns.names)
        assert tuples(engine.read(table)) == [(-0.0, 6, "minus"), (0.0, 5, "plus")]
        assert len(tuples(engine.read(table, filter="id = 0"))) == 2
        source = arrow([(-0.0, 7, "both")], columns)
        merge = engine.merge(engine.frame(source, 1), table, "id").when_matched_update({"text": source_col("text")})
        assert merge.execute().updated == 2
        assert tuples(engine.read(table)) == [(-0.0, 6, "both"), (0.0, 5, "both")]
        write([(0.0,)], "delete", ["id"])
        assert tuples(engine.read(table)) == [(-0.0, 6, "both")]
        table.compact(full=True)
        assert tuples(engine.read(table)) == [(-0.0, 6, "both")]

    def test_merging_schemas_adds_and_widens_columns(self, engine: EngineUnderTest, tmp_path: Path) -> None:
        """A handle that is older than the columns still writes and reads."""
        table = new_table(tmp_path, columns=pa.schema({"id": pa.int32()}))
        engine.write(engine.frame(pa.table({"id": pa.array([1], pa.int32())}), 1), table)
        for number, text in ((2**40, "new"), (2**40 + 1, "more")):
            engine.write(engine.frame(pa.table({"id": [number], "text": [text]}), 1), table, schema_mode="merge")
        assert tuples(engine.read(table)) == in_order([(1, None), (2**40, "new"), (2**40 + 1, "more")])

    # -- what is refused

    def test_a_wrong_call_is_refused_before_a_task_starts(
        self, engine: EngineUnderTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Columns, modes, partitions and job ids are checked first."""
        table, rows = new_table(tmp_path, "keys"), arrow(ROWS)
        engine.forbid_jobs(monkeypatch)
        for wrong, mode, message in (
            (rows.drop_columns(["id"]), "append", "lacks the column 'id'"),
            (rows.append_column("extra", rows["n"]), "append", "extra"),
            (rows.drop_columns(["id"]), "delete", "lacks the column 'id'"),
        ):
            with pytest.raises(InvalidInputError, match=message):
                engine.write(engine.frame(wrong), table, mode)
        for arguments, message in (
            ({"mode": "merge"}, r"mode.*'merge'"),
            ({"partitions": {"day": "x"}}, "overwrite replaces"),
            ({"job_id": ""}, "job id"),
            ({"schema_mode": "replace"}, "schema_mode"),
        ):
            with pytest.raises(InvalidInputError, match=message):
                engine.write(engine.frame(rows), table, **arguments)
        assert_tidy(table)

    @pytest.mark.parametrize("kind", ["keys", "keys, in place"])
    def test_a_null_key_is_refused_with_its_column(self, engine: EngineUnderTest, tmp_path: Path, kind: str) -> None:
        """An error that only a worker can find reaches the caller with its type and its attributes."""
        table = new_table(tmp_path, kind)
        with pytest.raises(InvalidInputError, match="'id'") as raised:
            engine.write(engine.frame(arrow([*ROWS, (None, DAY, 1, "no key")])), table)
        assert type(raised.value) is InvalidInputError
        assert raised.value.column == "id"
        assert table.store.snapshots.latest_id() is None
        assert_tidy(table)

    @pytest.mark.parametrize("kind", ["append", "keys"])
    def test_an_input_that_fails_leaves_nothing(self, engine: EngineUnderTest, tmp_path: Path, kind: str) -> None:
        """The caller gets the error of the input, and no file stays."""
        table = new_table(tmp_path, kind)
        with pytest.raises(Exception, match="the input is bad"):
            engine.write(engine.failing_frame(arrow(ROWS)), table)
        assert table.store.snapshots.latest_id() is None
        assert_tidy(table)

    # -- one commit

    def test_a_job_is_committed_once(
        self, engine: EngineUnderTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Another run of the job writes no rows and returns the result of the first."""
        table = new_table(tmp_path, "append, partitions")
        first = engine.write(engine.frame(arrow(ROWS)), table, job_id="load 7")
        engine.write(engine.frame(arrow(MORE)), table, job_id="load 8")
        again_frame = engine.frame(arrow(MORE))
        engine.forbid_jobs(monkeypatch)
        again = engine.write(again_frame, table, job_id="load 7")
        assert (first.replayed, again.replayed) == (False, True)
        for fact in ("snapshot_id", "rows", "files", "bytes", "partitions"):
            assert getattr(again, fact) == getattr(first, fact)
        assert read_table(table).num_rows == 170

    @pytest.mark.parametrize("mode", ["append", "overwrite"])
    def test_of_two_runs_of_one_job_one_commits(
        self, engine: EngineUnderTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
    ) -> None:
        """Both look for the job before either has committed; the slower one finds the other's snapshot."""
        table = new_table(tmp_path, "keys")
        commit, both_wrote = Committer.commit, threading.Barrier(2, timeout=120)
        overwrite = Committer.overwrite

        def wait(verb: Callable[..., Snapshot | None]) -> Callable[..., Snapshot | None]:
            def wait_and_call(*given: Argument, **more: Argument) -> Snapshot | None:
                if more.get("operation") != "COMPACT" and table.store.snapshots.latest_id() is None:
                    both_wrote.wait()
                return verb(*given, **more)

            return wait_and_call

        monkeypatch.setattr(Committer, "commit", wait(commit))
        monkeypatch.setattr(Committer, "overwrite", wait(overwrite))
        results: list[CommitResult] = []
        frames = [engine.frame(arrow(ROWS)) for _ in range(2)]
        drivers = [
            threading.Thread(target=lambda one=one: results.append(engine.write(one, table, mode, job_id="one")))
            for one in frames
        ]
        for driver in drivers:
            driver.start()
        for driver in drivers:
            driver.join()
        assert sorted(result.replayed for result in results) == [False, True]
        assert [(result.snapshot_id, result.rows) for result in results] == [(1, 40), (1, 40)]
        assert table.store.snapshots.latest_id() == 1
        assert_tidy(table)

    def test_a_refused_commit_leaves_nothing(
        self, engine: EngineUnderTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The table is dropped and made again while rows are written: no file of the write stays in the new one."""
        table = new_table(tmp_path)
        catalog, commit = catalog_at(tmp_path), Committer.commit

        def replaced(self: Committer, messages: Sequence[CommitMessage], **more: Argument) -> Snapshot | None:
            catalog.drop_table("d.t")
            catalog.create_table("d.t", Schema.from_pyarrow_schema(COLUMNS))
            return commit(self, messages, **more)

        monkeypatch.setattr(Committer, "commit", replaced)
        with pytest.raises(TableReplacedError):
            engine.write(engine.frame(arrow(ROWS)), table)
        assert_tidy(catalog.get_table("d.t"))

    def test_a_commit_with_an_unknown_end_removes_nothing(
        self, engine: EngineUnderTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The snapshot may have been published, so its files must stay."""
        commit = Committer.commit

        def lose_the_reply(self: Committer, messages: Sequence[CommitMessage], **more: Argument) -> None:
            commit(self, messages, **more)
            raise CommitUnknownError("the reply is lost")

        table = new_table(tmp_path)
        monkeypatch.setattr(Committer, "commit", lose_the_reply)
        with pytest.raises(CommitUnknownError):
            engine.write(engine.frame(arrow(ROWS)), table)
        assert tuples(read_table(table)) == in_order(ROWS)

    def test_a_compaction_follows_the_commit_that_needs_it(self, engine: EngineUnderTest, tmp_path: Path) -> None:
        """With deletion vectors level 0 is hidden, so the rows can be read only after a compaction."""
        table = new_table(tmp_path, "deletion vectors")
        engine.write(engine.frame(arrow(ROWS)), table)
        assert _newest(table).commit_kind is CommitKind.COMPACT
        assert tuples(engine.read(table)) == KINDS["keys"].expected([ROWS])
        assert_tidy(table)

    # -- reads

    @pytest.mark.parametrize("kind", ["append, partitions", "keys"])
    def test_reads_filter_project_and_travel(self, engine: EngineUnderTest, tmp_path: Path, kind: str) -> None:
        """Each read returns the rows that plain Python computes."""
        table = new_table(tmp_path, kind)
        write_table(arrow(ROWS), table)
        table.create_tag("first")
        write_table(arrow(MORE), table)
        first, latest = (KINDS[kind].expected(writes) for writes in ([ROWS], [ROWS, MORE]))
        expected: list[list[Row]] = [
            [row for row in latest if row[0] > 20 and row[1] != DAY],
            [(row[3], row[0]) for row in latest if row[2] >= 1000 or row[3] == "row 7"],
            [],
            [(row[0], row[2]) for row in latest],
            first,
            first,
        ]
        for arguments, rows in zip(READS, expected, strict=True):
            read_back = engine.read(table, **arguments)
            assert tuples(read_back) == in_order(rows), arguments
            assert read_back.column_names == list(arguments.get("columns", COLUMNS.names)), arguments
        assert engine.read(table, limit=7).num_rows == 7
        assert tuples(engine.read(table.table_path)) == latest

    def test_changes_are_read_with_their_kinds(self, engine: EngineUnderTest, tmp_path: Path) -> None:
        """The changes between two snapshots are read as a difference of states, each row with its kind."""
        table = new_table(tmp_path, "keys")
        write_table(arrow([(1, DAY, 1, "a"), (2, DAY, 2, "b")]), table)
        write_table(arrow([(2, DAY, 3, "b"), (3, DAY, 4, "c")]), table)
        write_table(pa.table({"id": [1]}), table, "delete")
        changes = engine.read(table, incremental=(1, 3), incremental_mode="diff", row_kinds=True, columns=["id", "n"])
        rows = {(row["id"], row["n"], row["_row_kind"]) for row in changes.to_pylist()}
        assert {row for row in rows if row[0] != 2} == {(1, 1, "-D"), (3, 4, "+I")}
        assert (2, 3) in {row[:2] for row in rows}

    def test_a_read_stays_with_its_snapshot(self, engine: EngineUnderTest, tmp_path: Path) -> None:
        """Commits after the planning do not change what is read, and an empty table has its columns."""
        table = new_table(tmp_path)
        empty = engine.read(table)
        assert (empty.num_rows, empty.column_names) == (0, COLUMNS.names)
        write_table(arrow(ROWS), table)
        rows = engine.pinned(table)
        write_table(arrow(MORE), table)
        assert tuples(rows()) == in_order(ROWS)

    def test_system_tables_are_read(self, engine: EngineUnderTest, tmp_path: Path) -> None:
        """They take a filter, columns and a limit, and no other argument."""
        table = new_table(tmp_path)
        for rows in (ROWS, MORE):
            write_table(arrow(rows), table)
        snapshots = catalog_at(tmp_path).get_table("d.t$snapshots")
        assert tuples(engine.read(snapshots, filter="snapshot_id > 1", columns=["snapshot_id"])) == [(2,)]
        with pytest.raises(InvalidInputError, match="only filter, columns and limit"):
            engine.read(snapshots, tag="first")

    def test_a_wrong_read_is_refused(self, engine: EngineUnderTest, tmp_path: Path) -> None:
        """Unknown columns and contradicting arguments raise before anything is read."""
        table = new_table(tmp_path)
        write_table(arrow(ROWS), table)
        with pytest.raises(ColumnNotExistException):
            engine.read(table, columns=["nope"])
        with pytest.raises(InvalidInputError, match="one of"):
            engine.read(table, tag="first", snapshot_id=1)

    # -- row verbs

    @pytest.mark.parametrize("kind", ["append, partitions", "append, tracked", "keys", "dynamic"])
    def test_rows_are_deleted_updated_and_merged(self, engine: EngineUnderTest, tmp_path: Path, kind: str) -> None:
        """Each verb is one snapshot, and counts the rows that it changed."""
        table = new_table(tmp_path, kind)
        start = [(i, f"2026-01-0{i % 3 + 1}", i, f"row {i}") for i in range(60)]
        write_table(arrow(start), table)
        assert engine.delete(table, "n >= 50 OR id IN (1, 2)").deleted == 12
        assert engine.update(table, {"text": "new"}, "id < 10 AND day = '2026-01-01'").updated == 4
        held = {i: [*row[:3], "new" if i < 10 and row[1] == DAY else row[3]] for i, row in enumerate(start)}
        held = {i: row for i, row in held.items() if i < 50 and i not in {1, 2}}
        assert tuples(read_table(table)) == in_order(tuple(row) for row in held.values())
        source = arrow([(3, DAY, 300, "merged"), (4, "2026-01-02", None, "gone"), (1, "2026-01-02", 100, "again")])
        done = (
            engine.merge(engine.frame(source, 2), table, "id")
            .when_matched_delete(condition="s.n IS NULL")
            .when_matched_update({"n": source_col("n"), "text": source_col("text")})
            .when_not_matched_insert()
            .execute()
        )
        assert (done.deleted, done.updated, done.inserted) == (1, 1, 1)
        del held[4]
        held[3][2:] = [300, "merged"]
        held[1] = [1, "2026-01-02", 100, "again"]
        assert tuples(read_table(table)) == in_order(tuple(row) for row in held.values())
        before = table.store.snapshots.latest_id()
        assert engine.delete(table, "id = 77").is_empty
        assert table.store.snapshots.latest_id() == before
        assert_tidy(table)

    # ---- transform

    def test_a_chain_of_jobs_follows_its_source(self, engine: EngineUnderTest, tmp_path: Path) -> None:
        source = new_table(tmp_path, Kind(["id"], options={"bucket": "2"}), "source")
        # By another key, so that texts move between ids; of a run the row that is added stays, not the one that leaves.
        middle = new_table(tmp_path, Kind(["text"], options={"bucket": "2"}), "middle")
        end = new_table(tmp_path, Kind(["text"], options={"bucket": "1"}), "end")
        rows = {i: (i, DAY, i, f"text {i}") for i in range(20)}
        for step in range(3):
            if step:
                for i in range(6):  # texts move, numbers change
                    rows[i] = (i, DAY, 20 - i if step == 1 else i, f"text {(i + step) % 6}")
                write_table(pa.table({"id": pa.array([19 - step])}), source, mode="delete")
                del rows[19 - step]
            write_table(arrow(list(rows.values())), source)
            for made in (
                engine.transform(source, 3, middle, job_id="job"),
                engine.transform(middle, 5, end, job_id="job"),
            ):
                assert made.commits
            for table, above in ((middle, 3), (end, 5)):
                assert tuples(read_table(table)) == in_order(row for row in rows.values() if row[2] > above)
        assert not engine.transform(source, 3, middle, job_id="job").commits
        done = engine.transform(source, 10, middle, job_id="job", full_refresh=True)
        assert done.snapshot_id is not None
        assert tuples(read_table(middle)) == in_order(row for row in rows.values() if row[2] > 10)

    def test_a_job_copies_new_rows_of_a_log_once(self, engine: EngineUnderTest, tmp_path: Path) -> None:
        source, target = (new_table(tmp_path, "append", name) for name in ("source", "target"))
        for batch in (ROWS, MORE):
            write_table(arrow(batch), source)
        first = engine.transform(source, -1, target, job_id="copy")
        assert (first.rows, first.source_snapshot_id, len(first.commits)) == (len(ROWS) + len(MORE), 2, 1)
        for batch in (ROWS[:5], ROWS[5:7]):
            write_table(arrow(batch), source)
        steps = engine.transform(source, -1, target, job_id="copy", commit_every=1).commits
        assert [made.rows for made in steps] == [5, 2]
        assert tuples(read_table(target)) == tuples(read_table(source))

    def test_a_change_that_loses_a_race_is_planned_again(
        self, engine: EngineUnderTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The second plan contains the rows that another commit changed after the first."""
        table = new_table(tmp_path)
        write_table(arrow(ROWS[:40]), table)
        commit, others = Committer.commit, [lambda: table.update({"n": 5000}, "id = 5")]

        def overtaken(self: Committer, messages: Sequence[CommitMessage], **more: Argument) -> Snapshot | None:
            if others:
                others.pop()()
            return commit(self, messages, **more)

        monkeypatch.setattr(Committer, "commit", overtaken)
        done = engine.delete(table, "id < 10 AND n < 4000")
        assert (done.deleted, done.attempts) == (9, 2)
        assert sorted(row["n"] for row in read_table(table, filter="id < 10").to_pylist()) == [5000]
        assert_tidy(table)


def _newest(table: FileStoreTable) -> Snapshot:
    newest = table.store.snapshots.latest()
    assert newest is not None
    return newest
