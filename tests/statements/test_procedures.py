"""CALL of every procedure on real tables, without an engine: what it does, and the rows it returns."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import lakewright as lw
from lakewright.compact.compaction_rounds import CompactResult
from lakewright.errors import InvalidInputError, LakewrightError, NotFoundError, SQLSyntaxError, UnsupportedError
from lakewright.maintenance.tag_lifecycle import expire_tags
from lakewright.spec.manifest import ManifestEntry
from lakewright.spec.snapshot import snapshot_from_json, to_json
from lakewright.statements.call_statement import PROCEDURES, REFUSED, procedure_rows
from lakewright.statements.parser import parse_statement
from lakewright.statements.sql_session import Session
from lakewright.statements.sql_text import Args, Fragment
from lakewright.statements.statements import CatalogCommand
from lakewright.table.file_store_table import FileStoreTable


class LocalSession(Session):
    """A session without an engine; it notes how tables were compacted."""

    def __init__(self, catalog: lw.Catalog) -> None:
        super().__init__({"paimon": catalog, "other": catalog}, "d")
        self.compactions: list[tuple[str, object, object]] = []

    def compact(self, table: FileStoreTable, **arguments: object) -> CompactResult:
        self.compactions.append((table.name, arguments.get("full"), arguments.get("partitions")))
        return table.compact(**arguments)  # type: ignore[arg-type]

    def moment(self, expression: Fragment, args: Args) -> int:
        raise NotImplementedError

    def settings(self) -> dict[str, str]:
        return {}

    def set(self, key: str, value: str | None) -> None:
        raise NotImplementedError

    def sql(self, text: str, args: Args | None = None) -> list[tuple[object, ...]]:
        """Run a command, and return its rows."""
        statement = parse_statement(text)
        assert isinstance(statement, CatalogCommand)
        return [tuple(row.values()) for row in statement.run(self, args or {}).to_pylist()]


@pytest.fixture
def session(tmp_path: Path) -> LocalSession:
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d")
    columns = pa.schema({"id": pa.int64(), "n": pa.int64()})
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(columns, primary_keys=["id"], options={"bucket": "1"}))
    by_day = pa.schema({"day": pa.string(), "n": pa.int64()})
    catalog.create_table("d.days", lw.Schema.from_pyarrow_schema(by_day, partition_keys=["day"]))
    return LocalSession(catalog)


@pytest.fixture
def table(session: LocalSession) -> FileStoreTable:
    """Make a table of three snapshots."""
    table = session.catalog.get_table("d.t")
    for n in range(3):
        lw.write_table(pa.table({"id": [n], "n": [n]}), table)
    return table


@pytest.fixture
def days(session: LocalSession) -> FileStoreTable:
    """Make a table with two partitions of two files each."""
    table = session.catalog.get_table("d.days")
    today = f"{datetime.now():%Y-%m-%d}"  # noqa: DTZ005 - the values of partitions are wall times
    for n in range(2):
        lw.write_table(pa.table({"day": ["2020-01-01", today], "n": [n, n]}), table)
    return table


def numbers(table: FileStoreTable) -> list[int]:
    return sorted(lw.read_table(table)["n"].to_pylist())


def latest(table: FileStoreTable) -> int:
    snapshot = table.snapshot()
    assert snapshot is not None
    return snapshot.id


def set_watermark(table: FileStoreTable, snapshot_id: int, watermark: int) -> None:
    path = Path(table.table_path) / "snapshot" / f"snapshot-{snapshot_id}"
    snapshot = snapshot_from_json(path.read_bytes(), path=str(path))
    path.write_text(to_json(replace(snapshot, watermark=watermark)))


# ---- tags ------------------------------------------------------------------------------------------------------------


def test_tags_are_created_replaced_renamed_and_deleted(session: LocalSession, table: FileStoreTable) -> None:
    assert session.sql("CALL sys.create_tag('d.t', 'a', 1, '1 d')") == [(True,)]
    session.sql("CALL paimon.sys.create_tag(table => 't', tag => 'b')")
    tag = table.store.tags.get("a")
    assert (tag.snapshot.id, tag.time_retained) == (1, timedelta(days=1))
    assert table.store.tags.get("b").snapshot.id == 3
    session.sql("CALL sys.replace_tag(table => 'd.t', tag => 'a', snapshot => 2)")
    assert table.store.tags.get("a").snapshot.id == 2
    session.sql("CALL sys.rename_tag('d.t', 'a', 'c')")
    assert table.list_tags() == ["b", "c"]
    with pytest.raises(NotFoundError, match="'nothing' doesn't exist"):
        session.sql("CALL sys.delete_tag('d.t', 'b,nothing')")
    assert table.list_tags() == ["b", "c"]
    assert session.sql("CALL sys.delete_tag('d.t', 'b, c')") == [(True,)]
    assert table.list_tags() == []


def test_a_tag_at_a_time_or_a_watermark(session: LocalSession, table: FileStoreTable) -> None:
    second = table.store.snapshots.get(2)
    for snapshot_id in (1, 2, 3):
        set_watermark(table, snapshot_id, snapshot_id * 100)
    (row,) = session.sql("CALL sys.create_tag_from_timestamp('d.t', 'x', :at)", {"at": second.time_millis})
    assert row == ("x", 2, second.time_millis, "200")
    (row,) = session.sql("CALL sys.create_tag_from_watermark('d.t', 'y', 101)")
    assert row[:2] == ("y", 2)
    # What a tag keeps counts also when its snapshot has expired.
    table.expire_snapshots(retain_max=1, retain_min=1)
    (row,) = session.sql("CALL sys.create_tag_from_timestamp('d.t', 'z', ?)", [second.time_millis])
    assert row[:2] == ("z", 2)
    with pytest.raises(NotFoundError, match="no snapshot was committed at"):
        session.sql("CALL sys.create_tag_from_timestamp('d.t', 'late', TIMESTAMP '2999-01-01 00:00:00')")
    with pytest.raises(NotFoundError, match="no snapshot has reached 999"):
        session.sql("CALL sys.create_tag_from_watermark('d.t', 'late', 999)")


def test_tags_expire(session: LocalSession, table: FileStoreTable) -> None:
    table.create_tag("kept")
    table.create_tag("short", time_retained="1 ms")
    table.create_tag("long", time_retained="9 d")
    time.sleep(0.005)
    assert session.sql("CALL sys.expire_tags('d.t')") == [("short",)]
    assert session.sql("CALL sys.expire_tags('d.t')") == [("No expired tags.",)]
    assert session.sql("CALL sys.expire_tags(table => 'd.t', older_than => '2999-01-01 00:00:00')") == [("long",)]
    assert table.list_tags() == ["kept"]  # it records no time
    table.create_tag("next", time_retained="1 h")
    assert expire_tags(table.store, now=datetime.now() + timedelta(hours=2)) == ["next"]  # noqa: DTZ005


def test_tags_that_are_due(session: LocalSession, table: FileStoreTable) -> None:
    assert session.sql("CALL sys.trigger_tag_automatic_creation('d.t')") == [(True,)]
    options = {"tag.automatic-creation": "process-time"}
    session.catalog.create_table("d.x", lw.Schema.from_pyarrow_schema(pa.schema({"n": pa.int64()}), options=options))
    due = session.catalog.get_table("d.x")
    lw.write_table(pa.table({"n": [1]}), due.copy({"write-only": "true"}))
    assert due.list_tags() == []
    assert session.sql("CALL sys.trigger_tag_automatic_creation('d.x')") == [(True,)]
    assert due.list_tags() == [f"{datetime.now() - timedelta(days=1):%Y-%m-%d}"]  # noqa: DTZ005
    assert table.list_tags() == []


# ---- branches and rollback -------------------------------------------------------------------------------------------


def test_branches(session: LocalSession, table: FileStoreTable) -> None:
    table.create_tag("v1", 1)
    session.sql("CALL sys.create_branch('d.t', 'a', 'v1')")
    session.sql("CALL sys.create_branch(table => 'd.t', branch => 'b')")
    session.sql("CALL sys.create_branch(table => 'd.t', branch => 'b', ignoreIfExists => 'true')")
    assert table.list_branches() == ["a", "b"]
    session.sql("CALL sys.rename_branch('d.t', 'b', 'c')")
    with pytest.raises(NotFoundError, match="'nothing' doesn't exist"):
        session.sql("CALL sys.delete_branch('d.t', 'c,nothing')")
    with pytest.raises(InvalidInputError, match="allow_loss=True"):
        session.sql("CALL sys.fast_forward('d.t', 'a')")
    session.sql("CALL sys.fast_forward('d.t', 'a', allow_loss => true)")
    assert numbers(table) == [0]
    session.sql("CALL sys.delete_branch('d.t', 'a,c')")
    assert table.list_branches() == []


@pytest.mark.parametrize(
    "target", ["version => 2", "version => '2'", "snapshot => 2", "tag => 'v2'", "version => 'v2'"]
)
def test_rollback(session: LocalSession, table: FileStoreTable, target: str) -> None:
    table.create_tag("v2", 2)
    assert session.sql(f"CALL sys.rollback(table => 'd.t', {target})") == [(True,)]
    assert latest(table) == 2


def test_rollback_takes_one_target(session: LocalSession, table: FileStoreTable) -> None:
    for arguments in ("'d.t'", "'d.t', '1', 2"):
        with pytest.raises(InvalidInputError, match="takes one of version, snapshot and tag"):
            session.sql(f"CALL sys.rollback({arguments})")
    assert latest(table) == 3


def test_rollback_to_a_time_or_a_watermark(session: LocalSession, table: FileStoreTable) -> None:
    for snapshot_id in (1, 2):
        set_watermark(table, snapshot_id, snapshot_id * 100)
    assert session.sql("CALL sys.rollback_to_watermark('d.t', 299)") == [("Success roll back to snapshot: 2 .",)]
    with pytest.raises(NotFoundError, match="watermark earlier than or equal to 99"):
        session.sql("CALL sys.rollback_to_watermark('d.t', 99)")
    first = table.store.snapshots.get(1).time_millis
    found = table.store.snapshots.at_timestamp(first).id
    (row,) = session.sql("CALL sys.rollback_to_timestamp(table => 'd.t', timestamp => ?)", [first])
    assert row == (f"Success roll back to snapshot: {found} .",)
    assert latest(table) == found


def test_consumers(session: LocalSession, table: FileStoreTable) -> None:
    for name in ("a1", "a2", "b"):
        session.sql(f"CALL sys.reset_consumer('d.t', '{name}', 2)")
    assert table.store.consumers.all() == {"a1": 2, "a2": 2, "b": 2}
    session.sql("CALL sys.clear_consumers('d.t', 'a.*', 'a2')")
    assert table.store.consumers.list() == ["a2", "b"]
    session.sql("CALL sys.reset_consumer(table => 'd.t', consumerid => 'b')")
    assert table.store.consumers.list() == ["a2"]
    with pytest.raises(InvalidInputError, match="includingConsumers takes a regular expression"):
        session.sql("CALL sys.clear_consumers('d.t', '(')")
    session.sql("CALL sys.clear_consumers('d.t')")
    assert table.store.consumers.list() == []


# ---- upkeep ----------------------------------------------------------------------------------------------------------


def test_compact_a_table(session: LocalSession, table: FileStoreTable) -> None:
    assert session.sql("CALL sys.compact('d.t')") == [(True,)]
    assert session.sql("CALL sys.compact(table => 'd.t', compact_strategy => 'minor', options => 'num-levels=6')") == [
        (True,)
    ]
    assert session.compactions == [("d.t", True, None), ("d.t", False, None)]
    assert latest(table) == 4
    assert numbers(table) == [0, 1, 2]


@pytest.mark.parametrize("chosen", ["partitions => 'day=2020-01-01'", "where => 'day < \"2021\"'"])
def test_compact_some_partitions(session: LocalSession, days: FileStoreTable, chosen: str) -> None:
    chosen = chosen.replace('"', "''")
    session.sql(f"CALL sys.compact(table => 'd.days', {chosen})")
    counts = {part.spec["day"]: part.file_count for part in days.store.partition_counts(live(days))}
    assert min(counts.items()) == ("2020-01-01", 1)
    assert sorted(counts.values()) == [1, 2]


def live(table: FileStoreTable) -> list[ManifestEntry]:
    snapshot = table.snapshot()
    assert snapshot is not None
    return list(table.store.manifests.live(snapshot))


def test_compact_partitions_that_rest(session: LocalSession, days: FileStoreTable) -> None:
    session.sql("CALL sys.compact(table => 'd.days', partition_idle_time => '2 d')")
    assert latest(days) == 2
    time.sleep(0.005)
    session.sql("CALL sys.compact(table => 'd.days', partitions => 'day=2020-01-01', partition_idle_time => '1 ms')")
    assert session.compactions[-1] == ("d.days", True, [{"day": "2020-01-01"}])
    assert latest(days) == 3


def test_compact_in_order(session: LocalSession) -> None:
    session.catalog.create_table("d.points", lw.Schema.from_pyarrow_schema(pa.schema({"x": pa.int64()})))
    points = session.catalog.get_table("d.points")
    for numbers in ([3, 1], [4, 2]):
        lw.write_table(pa.table({"x": numbers}), points)
    session.sql("CALL sys.compact(table => 'd.points', order_strategy => 'zorder', order_by => 'x')")
    assert lw.read_table(points)["x"].to_pylist() == [1, 2, 3, 4]
    assert session.sql("CALL sys.compact_manifest(table => 'd.points')") == [(True,)]
    assert len(points.store.manifests.files_of(points.store.snapshots.get(4))) == 1
    with pytest.raises(UnsupportedError, match="no deletion vectors"):
        session.sql("CALL sys.materialize_deletion_vectors(table => 'd.points')")


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ("order_strategy => 'zorder'", InvalidInputError, "needs order_by"),
        ("order_by => 'n'", InvalidInputError, "order_by belongs to an order_strategy"),
        ("order_strategy => 'sideways'", InvalidInputError, "order_strategy takes one of"),
        ("compact_strategy => 'most'", InvalidInputError, "compact_strategy takes one of 'full', 'minor'"),
        ("where => 'n = 1'", InvalidInputError, "may only use the partition columns day"),
        ("where => 'day = 1', partitions => 'day=1'", InvalidInputError, "give partitions or where, not both"),
        ("partition_idle_time => 'soon'", InvalidInputError, "partition_idle_time takes a duration"),
        ("partitions => 'day'", InvalidInputError, "partitions takes key=value,key=value, not 'day'"),
    ],
)
def test_what_compact_refuses(
    session: LocalSession, days: FileStoreTable, arguments: str, kind: type[LakewrightError], message: str
) -> None:
    with pytest.raises(kind, match=message) as caught:
        session.sql(f"CALL sys.compact(table => 'd.days',\n  {arguments})")
    assert caught.value.line == 2
    assert latest(days) == 2


@pytest.mark.usefixtures("table", "days")
def test_compact_a_database(session: LocalSession) -> None:
    session.catalog.create_database("e")
    assert session.sql("CALL sys.compact_database('d', 'd\\\\..*', '.*days')") == [
        ("Compact database finished. Success: 1, Failed: 0",)
    ]
    assert [name for name, _, _ in session.compactions] == ["d.t"]


def test_rescale(session: LocalSession, table: FileStoreTable) -> None:
    assert session.sql("CALL sys.rescale(table => 'd.t', bucket_num => 4)") == [(True,)]
    assert session.catalog.get_table("d.t").options.bucket() == 4
    assert numbers(table) == [0, 1, 2]


def test_snapshots_expire(session: LocalSession, table: FileStoreTable) -> None:
    assert session.sql("CALL sys.expire_snapshots(table => 'd.t', retain_max => 2)") == [(1,)]
    assert session.sql("CALL sys.expire_snapshots('d.t', NULL, 1, '2000-01-01 00:00:00')") == [(0,)]
    assert table.store.snapshots.ids() == [2, 3]


def test_partitions_expire(session: LocalSession, days: FileStoreTable) -> None:
    with pytest.raises(InvalidInputError, match="give expiration_time"):
        session.sql("CALL sys.expire_partitions('d.days')")
    by_update = "CALL sys.expire_partitions(table => 'd.days', expiration_time => '1 h', expire_strategy => '{}')"
    assert session.sql(by_update.format("update-time")) == [("No expired partitions.",)]
    with pytest.raises(InvalidInputError, match="expire_strategy"):
        session.sql(by_update.format("by-hand"))
    expire = "CALL sys.expire_partitions(table => 'd.days', expiration_time => '2 d', timestamp_formatter => '{}')"
    assert session.sql(expire.format("yyyyMMdd")) == [("No expired partitions.",)]
    assert session.sql(expire.format("yyyy-MM-dd")) == [("day=2020-01-01",)]
    assert len(numbers(days)) == 2
    assert session.sql(expire.format("yyyy-MM-dd")) == [("No expired partitions.",)]
    with pytest.raises(InvalidInputError, match="'w' in the format 'w' is not supported"):
        session.sql(expire.format("w"))


def test_purge(session: LocalSession, table: FileStoreTable) -> None:
    table.create_tag("v1", 1)
    table.create_branch("b", "v1")
    table.store.consumers.record("c", 1)
    assert session.sql("CALL sys.purge_files('d.t')") == [("Success",)]
    assert (numbers(table), table.list_tags(), table.list_branches()) == ([], [], [])
    assert len(table.store.snapshots.ids()) == 1
    lw.write_table(pa.table({"id": [1], "n": [7]}), table)
    assert numbers(table) == [7]


def test_orphans_are_removed(session: LocalSession, table: FileStoreTable) -> None:
    stray = Path(table.table_path) / "manifest" / "manifest-stray"
    stray.write_bytes(b"12345")
    call = "CALL sys.remove_orphan_files(table => '{}', older_than => :at, dry_run => {})"
    args = {"at": datetime.now() + timedelta(seconds=-1)}  # noqa: DTZ005 - a local time
    assert session.sql(call.format("d.t", "true"), args) == [(0, 0)]
    stray.touch()
    at = datetime.fromtimestamp(stray.stat().st_mtime + 0.002)  # noqa: DTZ006 - a local time
    time.sleep(0.005)
    assert session.sql(f"CALL sys.remove_orphan_files('d.*', '{at}', true)") == [(1, 5)]
    assert stray.exists()
    session.sql(f"CALL sys.remove_orphan_files('d.t', '{at}')")
    assert not stray.exists()
    assert numbers(table) == [0, 1, 2]


def test_a_partition_is_marked_as_done(session: LocalSession, days: FileStoreTable) -> None:
    assert session.sql("CALL sys.mark_partition_done('d.days', 'day=2020-01-01')") == [(True,)]
    path = Path(days.table_path) / "day=2020-01-01" / "_SUCCESS"
    first = json.loads(path.read_bytes())
    assert first["creationTime"] == first["modificationTime"]
    time.sleep(0.005)
    session.sql("CALL sys.mark_partition_done('d.days', map('day', '2020-01-01'))")
    again = json.loads(path.read_bytes())
    assert again["creationTime"] == first["creationTime"] < again["modificationTime"]
    with pytest.raises(NotFoundError, match="no partition day=1999"):
        session.sql("CALL sys.mark_partition_done('d.days', 'day=1999;day=2020-01-01')")


# ---- names, values and errors ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        ("sys.compct('d.t')", NotFoundError, "no procedure 'compct'; did you mean 'compact'\\? There are clear_cons"),
        ("sys.migrate_table('hive', 'd.t')", UnsupportedError, "'migrate_table' cannot be called: .* needs a JVM"),
        ("compact('d.t')", SQLSyntaxError, "procedures are called as sys.name"),
        ("sys.create_tag('d.t')", SQLSyntaxError, "create_tag needs tag: create_tag\\(table STRING, tag STRING"),
        ("sys.create_tag(tag => 'x', table => NULL)", SQLSyntaxError, "create_tag needs table"),
        ("sys.create_tag('d.t', tg => 'x')", SQLSyntaxError, "no argument 'tg'; did you mean 'tag'\\?"),
        ("sys.create_tag('d.t', 'x', table => 'd.t')", SQLSyntaxError, "'table' is given twice"),
        ("sys.create_tag(table => 'd.t', 'x')", SQLSyntaxError, "without a name comes before"),
        ("sys.rename_tag('a', 'b', 'c', 'd')", SQLSyntaxError, "rename_tag takes 3 arguments, not 4"),
        ("sys.create_tag('d.t', 'x', 'one')", InvalidInputError, "snapshot takes a BIGINT, not 'one'"),
        ("sys.create_tag('d.t', array('x'))", InvalidInputError, "tag takes a STRING, not list"),
        ("sys.create_tag('d.t', :tag)", InvalidInputError, "there is no value for :tag: give args="),
        ("sys.create_tag('d.t', ?)", InvalidInputError, "there is no value for \\?"),
        ("sys.create_tag('d.t', upper('x'))", SQLSyntaxError, "expected a constant such as"),
        ("sys.create_tag('d.tt', 'x')", NotFoundError, "did you mean 't'\\?"),
        ("sys.create_tag('d.t.x.y', 'x')", SQLSyntaxError, "has 4 parts"),
        ("sys.create_tag('', 'x')", InvalidInputError, "table takes the name of a table such as 'db.t'"),
        ("elsewhere.sys.create_tag('d.t', 'x')", NotFoundError, "no catalog 'elsewhere'"),
        ("sys.create_tag('d.t$snapshots', 'x')", InvalidInputError, "is a system table"),
        ("sys.expire_snapshots('d.t', 3000000000)", InvalidInputError, "retain_max takes an INT"),
        ("sys.remove_orphan_files('d.t', dry_run => 'maybe')", InvalidInputError, "dry_run takes a BOOLEAN"),
        ("sys.compact('d.t', DATE 'x')", SQLSyntaxError, "'x' is no date"),
        ("sys.compact('d.t', map('a'))", SQLSyntaxError, "map takes pairs"),
    ],
)
def test_a_wrong_call_shows_the_place(
    session: LocalSession, call: str, kind: type[LakewrightError], message: str
) -> None:
    with pytest.raises(kind, match=message) as caught:
        session.sql(f"CALL {call}")
    assert "\n" in caught.value.message
    assert caught.value.message.endswith("^")
    assert session.catalog.get_table("d.t").list_tags() == []


@pytest.mark.usefixtures("table")
def test_tables_are_named_in_several_ways(session: LocalSession) -> None:
    for number, name in enumerate(("t", "d.t", "paimon.d.t", "`d`.`t`")):
        session.sql(f"CALL SYS.CREATE_TAG(`table` => '{name}', TAG => 'x{number}')")
    session.sql("CALL other.sys.create_tag('d.t', 'y')")
    assert len(session.catalog.get_table("d.t").list_tags()) == 5


def test_procedures_are_listed_and_described(session: LocalSession) -> None:
    rows = session.sql("SHOW PROCEDURES IN sys")
    assert ("paimon", ["sys"], "sys", "compact") in rows
    assert [row[3] for row in rows] == list(PROCEDURES) == [row[0] for row in procedure_rows()]
    assert session.sql("show procedures from other.sys")[0][0] == "other"
    with pytest.raises(NotFoundError, match="no procedures in d"):
        session.sql("SHOW PROCEDURES IN d")
    lines = [row[0] for row in session.sql("DESCRIBE PROCEDURE sys.rollback_to_timestamp")]
    assert lines[0] == "Procedure:   paimon.sys.rollback_to_timestamp"
    assert lines[3:] == ["  table STRING", "  timestamp BIGINT", "Returns:     result STRING"]


def test_no_procedure_is_both_built_and_refused() -> None:
    assert not PROCEDURES.keys() & REFUSED.keys()


# Of Java's Spark connector 0.9.0, and what later releases up to 1.4 have besides.
JAVA_090 = """compact create_branch create_tag create_tag_from_timestamp delete_branch delete_tag expire_partitions
    expire_snapshots fast_forward mark_partition_done migrate_file migrate_table remove_orphan_files repair
    reset_consumer rollback"""
JAVA_LATER = """alter_function alter_view_dialect clear_consumers compact_database compact_manifest copy create_function
    create_global_index drop_function expire_tags migrate_database purge_files refresh_object_table
    remove_unexisting_files rename_tag replace_tag rescale rewrite_file_index rollback_to_timestamp
    rollback_to_watermark trigger_tag_automatic_creation"""
NOT_BUILT = """alter_function alter_view_dialect create_function create_global_index drop_function migrate_database
    migrate_file migrate_table refresh_object_table repair rewrite_file_index"""


def test_every_procedure_of_java_is_built_or_refused_with_the_reason(session: LocalSession) -> None:
    names = {*JAVA_090.split(), *JAVA_LATER.split()}
    assert names - PROCEDURES.keys() == set(NOT_BUILT.split())
    for name in NOT_BUILT.split():
        with pytest.raises(UnsupportedError, match=f"the procedure {name!r} cannot be called: "):
            session.sql(f"CALL sys.{name}()")
