"""The contract of a catalog, as a test class: what catalogs of files, of a REST server and of a SQL database must do.

Subclass `CatalogContract` in a test module and give it the fixture `catalog`. Every test makes a database of its own,
so one server can serve them all. What a catalog does not support is said by the attributes of the class.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from contract.catalog_names import InDatabase, NamesContract, ids_of, newest_id, rows_of, together
from contract.engine_suite import COLUMNS, KINDS, Row, arrow, assert_tidy, tuples
from lakewright.errors import (
    BranchAlreadyExistException,
    BranchNotExistException,
    CommitConflictError,
    InvalidInputError,
    NotFoundError,
    TagAlreadyExistException,
    TagNotExistException,
)
from lakewright.spec.schema import SchemaChange
from lakewright.spec.snapshot import CommitKind
from lakewright.table.verbs import read_table, write_table

ROWS: list[Row] = [(i % 8, f"2026-01-0{i % 8 % 3 + 1}", i, f"row {i}") for i in range(16)]  # every key twice
MORE: list[Row] = [(i, f"2026-01-0{i % 3 + 1}", 100 + i, None) for i in range(4, 12)]
WRITTEN = (
    "append",
    "append, partitions",
    "append, buckets",
    "append, tracked",
    "keys",
    "keys in partitions",
    "dynamic",
)
_WRITE_ELSEWHERE = """
import pickle, sys
import lakewright as lw
table, data = pickle.load(sys.stdin.buffer)
result = lw.write_table(data, table)
print(result.snapshot_id, lw.read_table(table).num_rows)
"""


class CatalogContract(NamesContract):
    """The tests that every catalog must pass. Fixture: `catalog`."""

    # -- rows

    @pytest.mark.parametrize("kind", WRITTEN)
    def test_tables_hold_what_is_written(self, db: InDatabase, kind: str) -> None:
        """Appended, upserted, deleted and overwritten rows, as plain Python computes them; no file is left over."""
        table = db.create(kind=kind)
        expected = KINDS[kind].expected
        assert write_table(arrow(ROWS), table).snapshot_id == 1
        assert write_table(arrow(MORE), table).snapshot_id == 2
        assert tuples(read_table(table)) == expected([ROWS, MORE])
        assert tuples(read_table(table, snapshot_id=1)) == expected([ROWS])
        table.delete("id = 2")
        left = [row for row in expected([ROWS, MORE]) if row[0] != 2]
        assert tuples(read_table(db.catalog.get_table(db("t")))) == left
        write_table(arrow(MORE), table, mode="overwrite")
        assert_tidy(table)

    @pytest.mark.parametrize("kind", ["append, tracked", "keys"])
    def test_update_and_merge(self, db: InDatabase, kind: str) -> None:
        """Row-level changes are one snapshot each."""
        table = db.create(kind=kind)
        write_table(rows_of(1, 2, 3), table)
        table.update({"n": 50}, "id = 2")
        merged = table.merge(rows_of(3, 4), "id").when_matched_update({"text": "merged"}).when_not_matched_insert()
        merged.execute()
        rows = {row["id"]: (row["n"], row["text"]) for row in read_table(table).to_pylist()}
        assert rows == {1: (1, "row 1"), 2: (50, "row 2"), 3: (3, "merged"), 4: (4, "row 4")}
        assert newest_id(table) == 3

    def test_overwrite_and_truncate(self, db: InDatabase) -> None:
        """Partitions that are written are replaced, others stay; a truncated table is empty."""
        table = db.create(kind="append, partitions")
        for day in ("2026-01-01", "2026-01-02"):
            write_table(rows_of(1, 2, day=day), table)
        write_table(rows_of(9, day="2026-01-02"), table, mode="overwrite")
        assert ids_of(table) == [1, 2, 9]
        db.catalog.drop_partitions(db("t"), [{"day": "2026-01-01"}])
        assert ids_of(table) == [9]
        with table.new_batch_write_builder().new_commit() as commit:
            commit.truncate_table()
        assert ids_of(table) == []
        assert ids_of(table, snapshot_id=2) == [1, 1, 2, 2]

    @pytest.mark.parametrize("kind", ["append", "keys"])
    def test_compaction_and_expiry(self, db: InDatabase, kind: str) -> None:
        """A compaction is a snapshot with the same rows; expired snapshots go, their rows stay."""
        table = db.create(kind=kind)
        for number in range(6):
            write_table(rows_of(number, number + 1), table)
        before = ids_of(table)
        result = table.compact(full=True)
        assert result.files_after < result.files_before
        newest = table.snapshot()
        assert newest is not None
        assert newest.commit_kind is CommitKind.COMPACT
        assert ids_of(table) == before
        expired = table.expire_snapshots(retain_max=1, retain_min=1)
        assert expired.snapshot_ids == tuple(range(1, newest.id))
        assert ids_of(db.catalog.get_table(db("t"))) == before
        write_table(rows_of(7), table)
        assert newest_id(table) == newest.id + 1
        assert_tidy(table)

    def test_the_same_messages_are_committed_once(self, db: InDatabase) -> None:
        """A second commit of them, also from another handle, finds the first."""
        table = db.written()
        builder = table.new_batch_write_builder()
        with builder.new_write() as write:
            messages = write.write_arrow(rows_of(2)).prepare_commit()
        first = builder.new_commit().commit(messages)
        again = db.catalog.get_table(db("t")).new_batch_write_builder().new_commit().commit(messages)
        assert (first.snapshot_id, again.snapshot_id) == (2, 2)
        assert ids_of(table) == [1, 2]
        assert write_table(rows_of(3), table, job_id="load").replayed is False
        assert write_table(rows_of(3), table, job_id="load").replayed is True
        assert ids_of(table) == [1, 2, 3]

    def test_a_stream_of_commits_is_filtered(self, db: InDatabase) -> None:
        """Identifiers that were committed before are left out."""
        table = db.create(kind="keys")
        builder = table.new_stream_write_builder()
        with builder.new_write() as write, builder.new_commit() as commit:
            one = write.write_arrow(rows_of(1)).prepare_commit(1)
            assert commit.filter_and_commit({1: one}) == 1
            two = write.write_arrow(rows_of(2)).prepare_commit(2)
            assert commit.filter_and_commit({1: one, 2: two}) == 1
        assert ids_of(table) == [1, 2]

    def test_commits_that_race_are_all_made(self, db: InDatabase) -> None:
        """Ids of snapshots have no gaps, and every row is there once."""
        table = db.create()
        together([lambda i=i: write_table(rows_of(i), table) for i in range(6)])  # type: ignore[misc]
        assert ids_of(table) == list(range(6))
        assert newest_id(table) == 6
        assert_tidy(table)

    def test_a_table_in_another_process(self, db: InDatabase) -> None:
        """A pickled table writes and reads there, without the catalog."""
        table = db.written()
        done = subprocess.run(
            [sys.executable, "-c", _WRITE_ELSEWHERE],
            input=pickle.dumps((table, rows_of(2))),
            capture_output=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr.decode()
        assert done.stdout.split() == [b"2", b"2"]
        assert ids_of(table) == [1, 2]

    # -- reads

    def test_time_travel(self, db: InDatabase) -> None:
        """By id, tag and time, and what changed between two snapshots."""
        table = db.written(commits=3)
        table.create_tag("two", 2)
        second = table.snapshot(2)
        assert second is not None
        assert ids_of(table, snapshot_id=1) == [1]
        assert ids_of(table, tag="two") == [1, 2]
        assert ids_of(table, timestamp=second.time_millis)[:2] == [1, 2]
        assert ids_of(table, incremental=(1, 3)) == [2, 3]
        with pytest.raises(NotFoundError):
            read_table(table, snapshot_id=4)
        with pytest.raises(NotFoundError):
            read_table(table, tag="none")

    def test_a_table_is_followed(self, db: InDatabase) -> None:
        """A streaming scan gives what is there, then what every commit adds."""
        table = db.written()
        builder = table.new_stream_read_builder()
        read, scan = builder.new_read(), builder.new_streaming_scan()
        for number in (2, 3, 4):
            plan = scan.plan()
            assert plan is not None
            assert read.to_arrow(plan.splits())["id"].to_pylist() == [number - 1]
            assert scan.plan() is None
            write_table(rows_of(number), table)

    def test_system_tables(self, db: InDatabase) -> None:
        """They tell of snapshots, schemas, options, files, tags and branches."""
        table = db.written(commits=2)
        table.create_tag("one", 1)
        table.create_branch("b", "one")
        db.catalog.alter_table(db("t"), SchemaChange.set_option("write-only", "true"))

        def told(name: str, column: str) -> list[object]:
            values: list[object] = read_table(db.catalog.get_table(db(f"t${name}")))[column].to_pylist()
            return values

        assert told("snapshots", "snapshot_id") == [1, 2]
        assert told("schemas", "schema_id") == [0, 1]
        assert told("options", "key") == ["write-only"]
        assert told("files", "record_count") == [1, 1]
        assert told("tags", "tag_name") == ["one"]
        assert told("branches", "branch_name") == ["b"]
        with pytest.raises(NotFoundError):
            db.catalog.get_table(db("t$nothing"))

    def test_partitions_come_in_pages(self, db: InDatabase) -> None:
        """In the order of their names, with counts that follow deletes."""
        table = db.create(kind="append, partitions")
        for day in (1, 2, 3):
            write_table(rows_of(1, 2, day=f"2026-01-0{day}"), table)
        first = db.catalog.list_partitions_paged(db("t"), max_results=2)
        rest = db.catalog.list_partitions_paged(db("t"), page_token=first.next_page_token)
        listed = [*first.elements, *rest.elements]
        assert [p.spec for p in listed] == [{"day": f"2026-01-0{day}"} for day in (1, 2, 3)]
        assert {(p.record_count, p.file_count) for p in listed} == {(2, 1)}
        (only,) = db.catalog.list_partitions_paged(db("t"), partition_name_pattern="day=2026-01-02*").elements
        assert only.spec == {"day": "2026-01-02"}
        db.catalog.drop_partitions(db("t"), [{"day": "2026-01-02"}])
        assert len(db.catalog.list_partitions_paged(db("t")).elements) == 2

    # -- tags, branches, rollback

    def test_tags(self, db: InDatabase) -> None:
        """A tag keeps a snapshot readable after it has expired; names are taken once."""
        table = db.create()
        with pytest.raises(NotFoundError):
            db.catalog.create_tag(db("t"), "early")
        for number in (1, 2, 3):
            write_table(rows_of(number), table)
        db.catalog.create_tag(db("t"), "one", snapshot_id=1, time_retained="1 d")
        db.catalog.create_tag(db("t"), "three")
        with pytest.raises(TagAlreadyExistException):
            db.catalog.create_tag(db("t"), "one", snapshot_id=2)
        db.catalog.create_tag(db("t"), "one", snapshot_id=2, ignore_if_exists=True)
        tag = db.catalog.get_tag(db("t"), "one")
        assert (tag.snapshot.id, tag.time_retained) == (1, timedelta(days=1))
        assert db.catalog.get_tag(db("t"), "three").time_retained is None
        assert db.catalog.list_tags_paged(db("t")).elements == ["one", "three"]
        assert db.catalog.list_tags_paged(db("t"), tag_name_prefix="t").elements == ["three"]
        table.expire_snapshots(retain_max=1, retain_min=1)
        assert ids_of(table, tag="one") == [1]
        db.catalog.delete_tag(db("t"), "one")
        for call in (db.catalog.get_tag, db.catalog.delete_tag):
            with pytest.raises(TagNotExistException):
                call(db("t"), "one")
        assert table.list_tags() == ["three"]
        for name in (".", "..", "a/b"):
            with pytest.raises(InvalidInputError):
                db.catalog.create_tag(db("t"), name)

    def test_tags_are_renamed_and_replaced(self, db: InDatabase) -> None:
        """Where the catalog can."""
        if not self.renames_tags:
            pytest.skip("the catalog does not rename or replace tags")
        table = db.written(commits=2)
        table.create_tag("one", 1)
        table.rename_tag("one", "uno")
        table.replace_tag("uno", 2)
        assert table.list_tags() == ["uno"]
        assert ids_of(table, tag="uno") == [1, 2]

    def test_a_branch_at_a_tag(self, db: InDatabase) -> None:
        """It has the rows of the tag; what is written to it is seen by the table after a fast-forward."""
        table = db.written(commits=2)
        table.create_tag("two", 2)
        db.catalog.create_branch(db("t"), "b", "two")
        branch = db.catalog.get_table(db("t$branch_b"))
        write_table(rows_of(8), branch)
        write_table(rows_of(9), branch)
        assert (ids_of(branch), ids_of(table)) == ([1, 2, 8, 9], [1, 2])
        assert ids_of(branch, snapshot_id=3) == [1, 2, 8]
        db.catalog.fast_forward(db("t"), "b")
        assert ids_of(db.catalog.get_table(db("t"))) == [1, 2, 8, 9]
        write_table(rows_of(10), db.catalog.get_table(db("t")))
        assert ids_of(db.catalog.get_table(db("t"))) == [1, 2, 8, 9, 10]
        assert ids_of(db.catalog.get_table(db("t$branch_b"))) == [1, 2, 8, 9]

    def test_an_empty_branch(self, db: InDatabase) -> None:
        """It has the columns of the table, ids of its own, and schemas of its own."""
        db.written(commits=2)
        db.catalog.create_branch(db("t"), "b")
        branch = db.catalog.get_table(db("t$branch_b"))
        assert ids_of(branch) == []
        assert write_table(rows_of(5), branch).snapshot_id == 1
        db.catalog.alter_table(db("t$branch_b"), SchemaChange.add_column("x", "INT"))
        assert db.catalog.get_table(db("t$branch_b")).field_names[-1] == "x"
        assert db.catalog.get_table(db("t")).field_names[-1] == "text"
        assert (ids_of(db.catalog.get_table(db("t$branch_b"))), ids_of(db.catalog.get_table(db("t")))) == ([5], [1, 2])

    def test_names_of_branches(self, db: InDatabase) -> None:
        """Names are taken once; a dropped branch is gone."""
        db.written().create_tag("one")
        db.catalog.create_branch(db("t"), "b", "one")
        assert db.catalog.list_branches(db("t")) == ["b"]
        with pytest.raises(BranchAlreadyExistException):
            db.catalog.create_branch(db("t"), "b")
        with pytest.raises(TagNotExistException):
            db.catalog.create_branch(db("t"), "c", "none")
        for call in (db.catalog.drop_branch, db.catalog.fast_forward):
            with pytest.raises(BranchNotExistException):
                call(db("t"), "none")
        with pytest.raises(BranchNotExistException):
            db.catalog.get_table(db("t$branch_none"))
        db.catalog.drop_branch(db("t"), "b")
        assert db.catalog.list_branches(db("t")) == []
        for name in (".", "..", "a/b", "main", "12"):
            with pytest.raises(InvalidInputError):
                db.catalog.create_branch(db("t"), name)

    def test_a_branch_is_renamed(self, db: InDatabase) -> None:
        """Where the catalog can."""
        if not self.renames_branches:
            pytest.skip("the catalog does not rename branches")
        db.written().create_tag("one")
        db.catalog.create_branch(db("t"), "b", "one")
        db.catalog.rename_branch(db("t"), "b", "c")
        assert db.catalog.list_branches(db("t")) == ["c"]
        assert ids_of(db.catalog.get_table(db("t$branch_c"))) == [1]

    def test_rollback(self, db: InDatabase) -> None:
        """To an id or a tag; ids of removed snapshots are used again, and old handles see that."""
        table = db.written(commits=4)
        table.create_tag("two", 2)
        table.create_tag("four", 4)
        with pytest.raises(NotFoundError):
            db.catalog.rollback_to(db("t"), 9)
        with pytest.raises(NotFoundError):
            db.catalog.rollback_to(db("t"), "none")
        with pytest.raises(CommitConflictError):
            db.catalog.rollback_to(db("t"), 3, from_snapshot=2)
        assert ids_of(table) == [1, 2, 3, 4]
        db.catalog.rollback_to(db("t"), 3, from_snapshot=4)
        assert (ids_of(table), table.list_tags()) == ([1, 2, 3], ["two"])
        assert write_table(rows_of(8), table).snapshot_id == 4
        assert ids_of(db.catalog.get_table(db("t"))) == [1, 2, 3, 8]
        db.catalog.rollback_to(db("t"), "two")
        assert ids_of(table) == [1, 2]
        assert write_table(rows_of(9), table).snapshot_id == 3
        assert ids_of(table) == [1, 2, 9]

    # -- arguments

    def test_arguments_of_the_wrong_type(self, db: InDatabase) -> None:
        """They are refused before anything happens."""
        db.written()
        catalog: Any = db.catalog
        calls: list[Callable[[], object]] = [
            lambda: catalog.create_database(1),
            lambda: catalog.create_database("x", "yes"),
            lambda: catalog.get_table(1),
            lambda: catalog.get_table("no_database"),
            lambda: catalog.create_table(db("x"), {"a": "int"}),
            lambda: catalog.create_table(db("t$files"), COLUMNS),
            lambda: catalog.drop_table(db("t$branch_b")),
            lambda: catalog.alter_table(db("t"), ["drop"]),
            lambda: catalog.list_tables_paged(db.name, "many"),
            lambda: catalog.create_tag(db("t"), 1),
            lambda: catalog.create_branch(db("t"), 1),
            lambda: catalog.rollback_to(db("t"), 1.5),
        ]
        for call in calls:
            with pytest.raises(InvalidInputError):
                call()
