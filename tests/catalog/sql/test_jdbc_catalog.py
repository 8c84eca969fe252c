"""The SQL catalog: names in a database, tables in files; what a crash, a race or a refusal leaves can be repaired."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import lakewright as lw
from lakewright.catalog import sql_catalog as module
from lakewright.catalog.catalog import Database
from lakewright.catalog.sql_catalog import JdbcCatalog
from lakewright.catalog.sql_database import CatalogRows, SqlDatabase, database
from lakewright.errors import (
    CatalogServerError,
    CommitUnknownError,
    DatabaseAlreadyExistException,
    DatabaseNotEmptyException,
    DatabaseNotExistException,
    TableAlreadyExistException,
    TableNotExistException,
    UnsupportedError,
)
from support.s3 import S3Server
from support.sql_workers import COLUMNS, create_one, rows_of
from support.warm_processes import LOADED

LOCKS = "SELECT lock_id FROM paimon_distributed_locks"


def opened(options: dict[str, str], **more: str) -> JdbcCatalog:
    made = lw.CatalogFactory.create({**options, **{key.replace("_", "-"): value for key, value in more.items()}})
    assert isinstance(made, JdbcCatalog)
    return made


@pytest.fixture
def catalog(sql: dict[str, str]) -> JdbcCatalog:
    made = opened(sql)
    made.create_database("d")
    return made


def append(table: lw.FileStoreTable, *ids: int) -> None:
    lw.write_table(rows_of(*ids), table)


def ids(catalog: JdbcCatalog, name: str) -> list[int]:
    found: list[int] = sorted(lw.read_table(catalog.get_table(name))["id"].to_pylist())
    return found


def properties(catalog: JdbcCatalog, table: str) -> dict[str, str]:
    query = "SELECT property_key, property_value FROM paimon_table_properties WHERE table_name = ?"
    return dict(database(catalog.rows.address).read(query, table))


def root(catalog: JdbcCatalog, name: str) -> Path:
    return Path(catalog.warehouse, "d.db", name)


def test_databases_have_properties_and_no_directory(catalog: JdbcCatalog) -> None:
    catalog.create_database("e", properties={"owner": "ann", "comment": "of ann"})
    assert catalog.get_database("e") == Database(
        "e", {"comment": "of ann", "location": f"{catalog.warehouse}/e.db", "owner": "ann"}, "of ann"
    )
    catalog.alter_database("e", {"owner": "bob", "comment": None})
    assert catalog.get_database("e").options == {"location": f"{catalog.warehouse}/e.db", "owner": "bob"}
    with pytest.raises(lw.InvalidInputError, match="belongs to the catalog"):
        catalog.alter_database("e", {"exists": None})
    assert catalog.list_databases() == ["d", "e"]
    assert not Path(catalog.warehouse).exists()
    with pytest.raises(DatabaseAlreadyExistException):
        catalog.create_database("e")
    catalog.create_database("e", ignore_if_exists=True, properties={"owner": "eve"})
    assert catalog.get_database("e").options["owner"] == "bob"
    catalog.drop_database("e")
    with pytest.raises(DatabaseNotExistException, match=r"\(d\)"):
        catalog.get_database("e")
    with pytest.warns(lw.LakewrightWarning, match="its tables are in"):
        catalog.create_database("f", properties={"location": "/elsewhere"})


def test_the_life_of_a_table(catalog: JdbcCatalog) -> None:
    fields = [
        lw.DataField(0, "id", lw.AtomicType("BIGINT", nullable=False)),
        lw.DataField(1, "v", lw.AtomicType("STRING")),
    ]
    catalog.create_table("d.t", lw.Schema(fields, [], ["id"], {"bucket": "1"}))
    assert properties(catalog, "t") == {"bucket": "1", "primary-key": "id", "bucket-key": "id"}
    append(catalog.get_table("d.t"), 1, 2)
    catalog.alter_table("d.t", lw.SchemaChange.set_option("target-file-size", "1 mb"))
    assert properties(catalog, "t")["target-file-size"] == "1 mb"
    catalog.rename_table("d.t", "d.u")
    assert catalog.list_tables("d") == ["u"]
    assert properties(catalog, "t") == {}
    assert properties(catalog, "u")["bucket"] == "1"
    append(catalog.get_table("d.u"), 2, 3)
    assert ids(catalog, "d.u") == [1, 2, 3]
    catalog.drop_table("d.u")
    assert properties(catalog, "u") == {}
    assert not root(catalog, "u").exists()
    with pytest.raises(TableNotExistException, match="no tables"):
        catalog.get_table("d.u")
    catalog.drop_table("d.u", ignore_if_not_exists=True)


def test_a_table_outside_the_warehouse_is_refused(catalog: JdbcCatalog) -> None:
    with pytest.raises(UnsupportedError, match="leave out the option 'path'"):
        catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(COLUMNS, options={"path": "/elsewhere"}))


def test_a_table_moves_to_a_database_that_has_no_directory(catalog: JdbcCatalog) -> None:
    catalog.create_database("e")
    catalog.create_table("d.t", COLUMNS)
    catalog.rename_table("d.t", "e.t")
    assert (catalog.list_tables("d"), catalog.list_tables("e")) == ([], ["t"])


def test_branches_can_be_opened_and_leave_the_copied_options_alone(catalog: JdbcCatalog) -> None:
    catalog.create_table("d.t", COLUMNS)
    append(catalog.get_table("d.t"), 1)
    catalog.create_tag("d.t", "v1")
    catalog.create_branch("d.t", "dev", "v1")
    append(catalog.get_table("d.t$branch_dev"), 2)
    catalog.alter_table("d.t$branch_dev", lw.SchemaChange.set_option("target-file-size", "1 mb"))
    assert ids(catalog, "d.t$branch_dev") == [1, 2]
    assert ids(catalog, "d.t") == [1]
    assert properties(catalog, "t") == {}
    assert lw.read_table(catalog.get_table("d.t$snapshots")).num_rows == 1


def test_a_cascade_drops_the_files_too(catalog: JdbcCatalog) -> None:
    catalog.create_table("d.t", COLUMNS)
    with pytest.raises(DatabaseNotEmptyException, match="1 table"):
        catalog.drop_database("d")
    catalog.drop_database("d", cascade=True)
    assert catalog.list_databases() == []
    assert not Path(catalog.warehouse, "d.db").exists()


def test_views_of_others_take_their_names_and_are_refused(catalog: JdbcCatalog) -> None:
    columns = "catalog_key VARCHAR(255), database_name VARCHAR(255), view_name VARCHAR(255), view_schema TEXT"
    database(catalog.rows.address).write(
        (f"CREATE TABLE paimon_views ({columns})", ()),
        ("INSERT INTO paimon_views VALUES (?, ?, ?, ?)", ("jdbc", "d", "v", "{}")),
    )
    with pytest.raises(TableAlreadyExistException):
        catalog.create_table("d.v", COLUMNS)
    with pytest.raises(UnsupportedError, match="is a view"):
        catalog.get_table("d.v")
    catalog.create_table("d.t", COLUMNS)
    with pytest.raises(TableAlreadyExistException):
        catalog.rename_table("d.t", "d.v")
    assert catalog.list_tables("d") == ["t"]


def test_catalogs_with_other_keys_do_not_see_each_other_s_names(sql: dict[str, str], catalog: JdbcCatalog) -> None:
    other = opened(sql, catalog_key="other")
    catalog.create_table("d.t", COLUMNS)
    assert other.list_databases() == []
    other.create_database("d")
    # Both have the same warehouse: the files of the other's table are never taken, dropped or replaced.
    with pytest.raises(TableNotExistException, match="repair_table"):
        other.drop_table("d.t")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_LOOKS_MAX", 1)
        with pytest.raises(lw.InvalidInputError, match="does not list as"):
            other.create_table("d.t", COLUMNS)
    assert catalog.get_table("d.t").field_names == ["id", "v"]


def test_options_of_the_catalog(sql: dict[str, str], tmp_path: Path) -> None:
    made = opened(sql, sync_all_properties="false", client_pool_size="4", **{"table-default.target-file-size": "1 mb"})
    made.create_database("d")
    made.create_table("d.t", COLUMNS)
    assert made.get_table("d.t").options.to_map()["target-file-size"] == "1 mb"
    assert "paimon_table_properties" not in made.rows._present()
    for key, value, text in [
        ("lock.enabled", "perhaps", "true or false"),
        ("lock-key-max-length", "x", "number of characters"),
        ("warehouse", " ", "warehouse"),
        ("uri", "names.db", "jdbc:sqlite"),
        ("lock-acquire-timeout", "soon", "soon"),
    ]:
        with pytest.raises(lw.InvalidInputError, match=text):
            opened({**sql, "lock.enabled": "true", key: value})
    assert list(tmp_path.glob("*.db")) != [] or "postgresql" in sql["uri"]


def test_a_catalog_travels_closes_and_is_used_again(catalog: JdbcCatalog) -> None:
    sent = pickle.loads(pickle.dumps(catalog))  # noqa: S301 - our own bytes
    assert sent == catalog
    with sent:
        assert sent.list_databases() == ["d"]
    assert catalog.list_databases() == ["d"]


def test_no_secret_is_shown(sqlite: dict[str, str]) -> None:
    made = opened({**sqlite, "jdbc.password": "s3cret-word", "s3.secret-key": "s3cret-word"})
    made.create_database("d")
    made.create_table("d.t", COLUMNS)
    shown = [repr(made), repr(made.get_table("d.t")), repr(made.get_table("d.t").store), str(made)]
    with pytest.raises(TableNotExistException) as caught:
        made.get_table("d.x")
    assert "s3cret-word" not in " ".join([*shown, str(caught.value), repr(caught.value.facts)])


# Crashes, lost replies and refusals.


def fail_once(patch: pytest.MonkeyPatch, method: str, *, after: bool, error: Exception) -> None:
    """Let a method of the rows fail, before or after it had its effect."""
    real: Callable[..., Any] = getattr(CatalogRows, method)

    def failing(self: CatalogRows, *given: Any) -> Any:  # noqa: ANN401
        if after:
            real(self, *given)
        raise error

    patch.setattr(CatalogRows, method, failing)


LOST = CatalogServerError("the reply was lost", code=None, perhaps_done=True)
REFUSED = CatalogServerError("the database is full", code=None, perhaps_done=False)


def test_a_refused_row_takes_the_schema_file_back(catalog: JdbcCatalog) -> None:
    with pytest.MonkeyPatch.context() as patch:
        fail_once(patch, "insert_table", after=False, error=REFUSED)
        with pytest.raises(CatalogServerError, match="full"):
            catalog.create_table("d.t", COLUMNS)
    assert not root(catalog, "t").exists()
    catalog.create_table("d.t", COLUMNS)


def test_a_lost_reply_deletes_nothing(catalog: JdbcCatalog) -> None:
    with pytest.MonkeyPatch.context() as patch:
        fail_once(patch, "insert_table", after=True, error=LOST)
        catalog.create_table("d.t", COLUMNS)  # the row is found
    assert catalog.list_tables("d") == ["t"]
    with pytest.MonkeyPatch.context() as patch:
        fail_once(patch, "insert_table", after=False, error=LOST)
        with pytest.raises(CommitUnknownError, match="repair_table"):
            catalog.create_table("d.u", COLUMNS)
    assert root(catalog, "u").exists()
    catalog.repair_table("d.u")
    append(catalog.get_table("d.u"), 1)
    assert ids(catalog, "d.u") == [1]


def test_a_crash_between_file_and_row_is_repaired(catalog: JdbcCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.MonkeyPatch.context() as patch:
        fail_once(patch, "insert_table", after=False, error=RuntimeError("killed"))
        with pytest.raises(RuntimeError):
            catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(COLUMNS, options={"target-file-size": "1 mb"}))
    monkeypatch.setattr(module, "_LOOKS_MAX", 1)
    with pytest.raises(lw.InvalidInputError, match="repair_table"):
        catalog.create_table("d.t", COLUMNS)
    with pytest.raises(TableNotExistException, match="repair_table"):
        catalog.get_table("d.t")
    catalog.repair_table("d.t")
    assert properties(catalog, "t") == {"target-file-size": "1 mb"}
    catalog.repair_table("d.t")  # nothing to do
    with pytest.raises(TableNotExistException, match="no schema file"):
        catalog.repair_table("d.absent")


def test_a_row_that_somebody_repaired_meanwhile_is_our_table(catalog: JdbcCatalog) -> None:
    real = CatalogRows.insert_table

    def repaired_first(self: CatalogRows, *given: Any) -> bool:  # noqa: ANN401
        real(self, *given)
        return real(self, *given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CatalogRows, "insert_table", repaired_first)
        catalog.create_table("d.t", COLUMNS)
    assert catalog.get_table("d.t").field_names == ["id", "v"]


@pytest.mark.parametrize("error", [REFUSED, LOST, RuntimeError("killed")], ids=["refused", "lost", "killed"])
@pytest.mark.parametrize("after", [False, True])
def test_a_rename_that_fails_loses_nothing(catalog: JdbcCatalog, error: Exception, after: bool) -> None:
    if error is REFUSED and after:
        pytest.skip("what is refused has no effect")
    catalog.create_table("d.t", COLUMNS)
    append(catalog.get_table("d.t"), 1)
    with pytest.MonkeyPatch.context() as patch, suppress(CatalogServerError, CommitUnknownError, RuntimeError):
        fail_once(patch, "rename_table", after=after, error=error)
        catalog.rename_table("d.t", "d.u")
    if error is REFUSED:
        assert ids(catalog, "d.t") == [1]
        assert catalog.list_tables("d") == ["t"]
        return
    if not after:
        with pytest.raises(TableNotExistException, match="drop_table removes the name"):
            catalog.get_table("d.t")
        catalog.repair_table("d.u")
        catalog.drop_table("d.t")
    assert ids(catalog, "d.u") == [1]
    assert catalog.list_tables("d") == ["u"]


def test_names_that_are_taken_are_not_renamed_to(catalog: JdbcCatalog) -> None:
    catalog.create_table("d.t", COLUMNS)
    catalog.create_table("d.u", COLUMNS)
    with pytest.raises(TableAlreadyExistException):
        catalog.rename_table("d.t", "d.u")
    with pytest.raises(TableNotExistException):
        catalog.rename_table("d.absent", "d.new")
    catalog.rename_table("d.absent", "d.new", ignore_if_not_exists=True)
    with pytest.raises(DatabaseNotExistException):
        catalog.rename_table("d.t", "absent.t")
    database(catalog.rows.address).write(("DELETE FROM paimon_tables WHERE table_name = ?", ("u",)))
    with pytest.raises(lw.InvalidInputError, match="does not list as"):
        catalog.rename_table("d.t", "d.u")
    assert catalog.get_table("d.t").field_names == ["id", "v"]


def test_a_drop_whose_files_stay_says_so(catalog: JdbcCatalog) -> None:
    catalog.create_table("d.t", COLUMNS)

    def refused(*_: object) -> None:
        raise PermissionError(13, "not yours")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "remove_table", refused)
        with pytest.warns(lw.LakewrightWarning, match="delete them"):
            catalog.drop_table("d.t")
    assert catalog.list_tables("d") == []
    with pytest.MonkeyPatch.context() as patch:
        fail_once(patch, "delete_table", after=True, error=LOST)
        with pytest.raises(CommitUnknownError, match="call drop_table again"):
            catalog.drop_table("d.t")


def test_no_transaction_is_open_while_files_are_written(catalog: JdbcCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    inside: list[bool] = []
    real = SqlDatabase.transact

    def noted(self: SqlDatabase, work: Callable[..., list[int]]) -> list[int] | None:
        inside.append(True)
        try:
            return real(self, work)
        finally:
            inside.pop()

    monkeypatch.setattr(SqlDatabase, "transact", noted)
    storage = type(catalog.storage)
    for verb in ("create", "rename_directory", "delete", "open_output"):
        monkeypatch.setattr(storage, verb, _outside(getattr(storage, verb), inside))
    catalog.create_table("d.t", COLUMNS)
    append(catalog.get_table("d.t"), 1)
    catalog.alter_table("d.t", lw.SchemaChange.set_option("target-file-size", "1 mb"))
    catalog.rename_table("d.t", "d.u")
    catalog.drop_table("d.u")


def _outside(verb: Callable[..., Any], inside: list[bool]) -> Callable[..., Any]:
    def checked(*given: Any, **named: Any) -> Any:  # noqa: ANN401
        assert not inside
        return verb(*given, **named)

    return checked


# The lock.


def locks_seen_by(catalog: JdbcCatalog, action: Callable[[], object]) -> set[str]:
    """Return the locks that were held while files were created or moved."""
    seen: set[str] = set()
    storage = type(catalog.storage)

    def noting(verb: Callable[..., Any]) -> Callable[..., Any]:
        def noted(self: object, path: str, *given: Any, **named: Any) -> Any:  # noqa: ANN401
            if "/snapshot/snapshot-" in path or "/schema/schema-" in path or verb.__name__ == "rename_directory":
                seen.update(row[0] for row in database(catalog.rows.address).read(LOCKS))
            return verb(self, path, *given, **named)

        return noted

    with pytest.MonkeyPatch.context() as patch:
        for verb in ("create", "rename_directory"):
            patch.setattr(storage, verb, noting(getattr(storage, verb)))
        action()
    return seen


def test_the_lock_is_held_where_java_holds_it(sql: dict[str, str]) -> None:
    catalog = opened({**sql, "lock.enabled": "true"}, catalog_key="k")
    catalog.create_database("d")
    assert locks_seen_by(catalog, lambda: catalog.create_table("d.t", COLUMNS)) == {"k.d.t"}
    assert locks_seen_by(catalog, lambda: append(catalog.get_table("d.t"), 1)) == {"k.d.t"}
    change = lw.SchemaChange.set_option("target-file-size", "1 mb")
    assert locks_seen_by(catalog, lambda: catalog.alter_table("d.t", change)) == {"k.d.t"}
    catalog.create_branch("d.t", "dev")
    branch = catalog.get_table("d.t$branch_dev")
    assert locks_seen_by(catalog, lambda: append(branch, 1)) == {"k.d.t$branch_dev"}
    assert locks_seen_by(catalog, lambda: catalog.rename_table("d.t", "d.u")) == {"k.d.t", "k.d.u"}
    assert list(database(catalog.rows.address).read(LOCKS)) == []
    sent = pickle.loads(pickle.dumps(catalog.get_table("d.u")))  # noqa: S301 - our own bytes
    assert locks_seen_by(catalog, lambda: append(sent, 2)) == {"k.d.u"}


def test_a_lock_of_another_program_stops_a_commit_and_nothing_is_published(sqlite: dict[str, str]) -> None:
    patient = {"lock.enabled": "true", "lock-acquire-timeout": "50 ms", "lock-check-max-sleep": "10 ms"}
    catalog = opened({**sqlite, **patient})
    catalog.create_database("d")
    catalog.create_table("d.t", COLUMNS)
    table = catalog.get_table("d.t")
    insert = ("INSERT INTO paimon_distributed_locks (lock_id, expire_time_seconds) VALUES (?, ?)", ("jdbc.d.t", 480))
    database(catalog.rows.address).write(insert)
    with pytest.raises(lw.CommitContentionError, match=r"jdbc\.d\.t"):
        append(table, 1)
    with pytest.raises(lw.CommitContentionError, match=r"jdbc\.d\.t"):
        catalog.alter_table("d.t", lw.SchemaChange.set_option("target-file-size", "1 mb"))
    assert table.store.snapshots.latest() is None
    database(catalog.rows.address).write(("DELETE FROM paimon_distributed_locks", ()))
    append(table, 1)
    assert ids(catalog, "d.t") == [1]


def test_no_lock_on_a_disk_unless_asked_for(catalog: JdbcCatalog) -> None:
    assert catalog.lock is None
    assert "paimon_distributed_locks" not in catalog.rows._present()


def test_a_warehouse_on_an_object_store_is_locked_by_default(sqlite: dict[str, str], s3_server: S3Server) -> None:
    options = {**sqlite, **s3_server.options, "warehouse": f"s3://{s3_server.make_bucket()}/lake"}
    catalog = opened(options)
    catalog.create_database("d")
    assert locks_seen_by(catalog, lambda: catalog.create_table("d.t", COLUMNS)) == {"jdbc.d.t"}
    table = catalog.get_table("d.t")
    assert locks_seen_by(catalog, lambda: append(table, 1)) == {"jdbc.d.t"}
    catalog.rename_table("d.t", "d.u")
    assert ids(catalog, "d.u") == [1]
    catalog.drop_database("d", cascade=True)
    assert opened({**options, "lock.enabled": "false"}).lock is None


# Races.


@pytest.mark.processes
@pytest.mark.filterwarnings("ignore::lakewright.LakewrightWarning")
def test_one_of_eight_processes_creates_a_table(sql: dict[str, str], tmp_path: Path) -> None:
    catalog = opened(sql)
    catalog.create_database("d")
    results = tmp_path / "results"
    results.mkdir()
    LOADED.run_together(create_one, [(sql, n, str(results)) for n in range(8)])
    outcomes = {path.name: path.read_text() for path in results.iterdir()}
    winners = [number for number, outcome in outcomes.items() if outcome == "created"]
    assert len(winners) == 1
    assert properties(catalog, "t") == {"comment": winners[0]}
    assert catalog.get_table("d.t").options.to_map()["comment"] == winners[0]
    assert ids(catalog, "d.t") == list(range(8))
