"""The REST catalog beyond the contract of catalogs: what is sent, lost answers, refusals, external tables."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import lakewright as lw
from lakewright.catalog.rest_catalog import RESTCatalog
from lakewright.catalog.rest_http import Patience
from lakewright.errors import (
    BranchNotExistException,
    DatabaseNotExistException,
    TableAlreadyExistException,
    TableNoPermissionException,
)
from lakewright.metadata.schema_files import SchemaFiles
from lakewright.spec.identifier import Identifier
from lakewright.spec.schema import Schema, new_table_schema
from lakewright.storage.local_storage import LocalStorage
from lakewright.storage.table_layout import Layout
from support.rest_server import RestServer, running_rest

COLUMNS = pa.schema({"id": pa.int64(), "day": pa.string()})
ROWS = pa.table({"id": [1, 2], "day": ["a", "a"]}, COLUMNS)
SCHEMA = Schema.from_pyarrow_schema(COLUMNS)
DAILY = Schema.from_pyarrow_schema(COLUMNS, ["day"], options={"metastore.partitioned-table": "true"})
FAULTS = ("500", "503", "429", "cut", "half", "garbage")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RestServer]:
    with running_rest(str(tmp_path / "data"), defaults={"table-default.snapshot.num-retained.min": "3"}) as running:
        yield running


@pytest.fixture
def catalog(server: RestServer) -> RESTCatalog:
    opened = lw.CatalogFactory.create(server.options)
    assert isinstance(opened, RESTCatalog)
    api = replace(opened.api, server=replace(opened.api.server, patience=Patience(2, 2, pause_first=0.001)))
    patient = replace(opened, api=api)
    patient.create_database("d", properties={"old": "x"})
    return patient


def _sent(server: RestServer) -> list[str]:
    return [entry.request for entry in server.log]


# What is sent.


def test_a_catalog_is_pickled_and_shows_no_secret(server: RestServer, catalog: RESTCatalog) -> None:
    catalog.create_table("d.t", SCHEMA)
    table = catalog.get_table("d.t")
    begin = len(server.log)
    again, same = pickle.loads(pickle.dumps((catalog, table)))  # noqa: S301 - our own bytes
    assert again.list_tables("d") == ["t"]
    assert lw.write_table(ROWS, same).snapshot_id == 1
    assert not [request for request in _sent(server)[begin:] if "config" in request]
    for shown in (repr(catalog), repr(table), repr(table.store), str(catalog.api)):
        assert server.token not in shown


def test_a_commit_and_opening_a_table_make_few_calls(server: RestServer, catalog: RESTCatalog) -> None:
    catalog.create_table("d.t", SCHEMA)
    with server.counting() as calls:
        table = catalog.get_table("d.t")
    assert calls == ["GET /v1/paimon/databases/D/tables/T"]
    with server.counting() as calls:
        lw.write_table(ROWS, table)
    assert calls == [
        "GET /v1/paimon/databases/D/tables/T/snapshot",
        "POST /v1/paimon/databases/D/tables/T/commit",
    ]


def test_defaults_of_the_server_are_options_of_new_tables(catalog: RESTCatalog) -> None:
    catalog.create_table("d.t", SCHEMA)
    assert dict(catalog.get_table("d.t").schema.options) == {"snapshot.num-retained.min": "3"}


def test_the_database_of_all_tables_is_never_asked_for(server: RestServer, catalog: RESTCatalog) -> None:
    begin = len(server.log)
    calls: list[Callable[[], object]] = [
        lambda: catalog.create_database("sys"),
        lambda: catalog.drop_database("sys"),
        lambda: catalog.create_table("sys.t", SCHEMA),
    ]
    for call in calls:
        with pytest.raises(lw.InvalidInputError, match="sys"):
            call()
    assert catalog.get_table("sys.tables").field_names[0] == "database_name"
    assert "tables" in catalog.list_tables("sys")
    assert len(server.log) == begin
    catalog.create_table("d.t", SCHEMA)
    assert lw.read_table(catalog.get_table("sys.tables"))["table_name"].to_pylist() == ["t"]


def test_properties_of_a_database_are_changed(catalog: RESTCatalog) -> None:
    catalog.create_database("e", properties={"a": 1, "b": "x", "comment": "c"})
    catalog.alter_database("e", {"a": None, "b": "y", "n": 5})
    database = catalog.get_database("e")
    assert dict(database.options) == {"b": "y", "comment": "c", "n": "5"}
    assert database.comment == "c"
    with pytest.raises(DatabaseNotExistException):
        catalog.alter_database("none", {"a": 1})


def test_servers_look_for_beginnings_and_we_for_the_rest(server: RestServer, catalog: RESTCatalog) -> None:
    for name in ("a_1", "ab1", "b1"):
        catalog.create_table(f"d.{name}", SCHEMA)
    begin = len(server.log)
    assert catalog.list_tables_paged("d", table_name_pattern="a*").elements == ["a_1", "ab1"]
    assert catalog.list_tables_paged("d", table_name_pattern="a_*").elements == ["a_1"]
    assert catalog.list_tables_paged("d", table_name_pattern="*1").elements == ["a_1", "ab1", "b1"]
    assert catalog.list_tables_paged("d", 1, None, "a_*").next_page_token is None
    assert catalog.list_databases_paged(database_name_pattern="*d*").elements == ["d"]
    patterns = [request for request in _sent(server)[begin:] if "Pattern" in request]
    assert patterns == ["GET /v1/paimon/databases/d/tables?tableNamePattern=a%25"]


def test_partitions_are_the_servers_where_it_keeps_them(server: RestServer, catalog: RESTCatalog) -> None:
    catalog.create_table("d.kept", DAILY)
    catalog.create_table("d.plain", Schema.from_pyarrow_schema(COLUMNS, ["day"]))
    for name in ("d.kept", "d.plain"):
        table = catalog.get_table(name)
        lw.write_table(ROWS, table)
        lw.write_table(pa.table({"id": [3], "day": ["b"]}, COLUMNS), table)
        begin = len(server.log)
        listed = catalog.list_partitions_paged(name).elements
        assert [(p.spec, p.record_count, p.file_count) for p in listed] == [({"day": "a"}, 2, 1), ({"day": "b"}, 1, 1)]
        opened = [request for request in _sent(server)[begin:] if request.endswith("/snapshot")]
        assert len(opened) == (0 if name == "d.kept" else 1)
        assert [p.spec for p in catalog.list_partitions_paged(name, partition_name_pattern="*b").elements] == [
            {"day": "b"}
        ]


# Lost answers.


def _verbs(catalog: RESTCatalog) -> dict[str, tuple[str, Callable[[], None], Callable[[], bool]]]:
    """Return verbs: what they send, how they are called, and whether they have been carried out."""
    change = [lw.SchemaChange.add_column("x", lw.AtomicType("INT")), lw.SchemaChange.set_option("write-only", "true")]
    return {
        "create": (
            "POST .*/tables$",
            lambda: catalog.create_table("d.new", SCHEMA),
            lambda: "new" in catalog.list_tables("d"),
        ),
        "alter": (
            "POST .*/tables/t$",
            lambda: catalog.alter_table("d.t", change),
            lambda: catalog.get_table("d.t").field_names == ["id", "day", "x"],
        ),
        "rename": (
            "POST .*/rename$",
            lambda: catalog.rename_table("d.t", "d.u"),
            lambda: catalog.list_tables("d") == ["u"],
        ),
        "drop": ("DELETE .*", lambda: catalog.drop_table("d.t"), lambda: catalog.list_tables("d") == []),
        "create database": (
            "POST .*/databases$",
            lambda: catalog.create_database("e", properties={"k": "v"}),
            lambda: "e" in catalog.list_databases(),
        ),
        "alter database": (
            "POST .*/databases/d$",
            lambda: catalog.alter_database("d", {"k": "v"}),
            lambda: catalog.get_database("d").options.get("k") == "v",
        ),
        "unset of a database": (
            "POST .*/databases/d$",
            lambda: catalog.alter_database("d", {"old": None}),
            lambda: "old" not in catalog.get_database("d").options,
        ),
        "drop database": (
            "DELETE .*/databases/d$",
            lambda: catalog.drop_database("d", cascade=True),
            lambda: catalog.list_databases() == [],
        ),
    }


VERBS = (
    *("create", "alter", "rename", "drop"),
    *("create database", "alter database", "unset of a database", "drop database"),
)


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("how", FAULTS)
def test_what_was_carried_out_succeeds_although_the_answer_is_lost(
    server: RestServer, catalog: RESTCatalog, verb: str, how: str
) -> None:
    catalog.create_table("d.t", SCHEMA)
    match, call, is_done = _verbs(catalog)[verb]
    server.lose(1, how, match)
    call()
    assert server.faults_left() == 0
    assert is_done()
    if verb == "alter":
        assert catalog.get_table("d.t").schema.id == 1


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("how", FAULTS)
def test_what_was_not_carried_out_is_repeated_unless_it_removes_something(
    server: RestServer, catalog: RESTCatalog, verb: str, how: str
) -> None:
    catalog.create_table("d.t", SCHEMA)
    match, call, is_done = _verbs(catalog)[verb]
    server.fail(1, how, match)
    if verb.startswith("drop"):
        with pytest.raises(lw.CommitUnknownError, match="look before you try again"):
            call()
        assert not is_done()
        call()
    else:
        call()
    assert is_done()


@pytest.mark.parametrize("verb", ["create", "rename"])
def test_a_call_that_is_never_answered_ends_as_unknown(server: RestServer, catalog: RESTCatalog, verb: str) -> None:
    catalog.create_table("d.t", SCHEMA)
    match, call, is_done = _verbs(catalog)[verb]
    server.fail(9, "503", match)
    with pytest.raises(lw.CommitUnknownError, match=r"d\.(new|t) was"):
        call()
    server.calm()
    assert not is_done()


def test_a_table_of_the_new_name_is_no_sign_that_a_rename_was_carried_out(
    server: RestServer, catalog: RESTCatalog
) -> None:
    catalog.create_table("d.t", SCHEMA)
    catalog.create_table("d.u", SCHEMA)
    server.fail(1, "cut", "POST .*/rename$")
    with pytest.raises(TableAlreadyExistException):
        catalog.rename_table("d.t", "d.u")


def test_a_name_that_others_take_meanwhile_is_not_ours(server: RestServer, catalog: RESTCatalog) -> None:
    server.fail(1, "cut", "POST .*/tables$")
    others = Schema.from_pyarrow_schema(pa.schema({"x": pa.int32()}))
    find = RESTCatalog._find

    def found(self: RESTCatalog, name: Identifier) -> object:
        """Return what the first look finds, and let others make the table right after it."""
        answer = find(self, name)
        if answer is None:
            self.api.create_table(name, new_table_schema(others, time_millis=1))
        return answer

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RESTCatalog, "_find", found)
        with pytest.raises(TableAlreadyExistException):
            catalog.create_table("d.t", SCHEMA)
    assert catalog.get_table("d.t").field_names == ["x"]


def test_what_the_server_refuses_is_not_unknown(server: RestServer, catalog: RESTCatalog) -> None:
    server.deny("d.t")
    catalog.create_table("d.u", SCHEMA)
    with pytest.raises(TableNoPermissionException):
        catalog.get_table("d.t")
    server.fail(1, "401")
    with pytest.raises(lw.NotAuthorizedError, match="'token'"):
        catalog.drop_table("d.u")
    assert "u" in catalog.list_tables("d")


# Refusals.


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"type": "format-table"}, "'format-table'"),
        ({"type": "object-table"}, "'object-table'"),
        ({"query-auth.enabled": "true"}, r"'query-auth\.enabled'"),
    ],
)
def test_tables_of_other_kinds_are_refused_by_name(
    catalog: RESTCatalog, monkeypatch: pytest.MonkeyPatch, options: dict[str, str], named: str
) -> None:
    with pytest.raises(lw.UnsupportedError, match=f"table d.t: .*{named}"):
        catalog.create_table("d.t", Schema(SCHEMA.fields, options=options))
    assert catalog.list_tables("d") == []
    catalog.create_table("d.t", SCHEMA)
    found = catalog.api.get_table(Identifier.create("d", "t"))
    marked = replace(found, schema={**found.schema, "options": dict(options)})
    monkeypatch.setattr(type(catalog.api), "get_table", lambda *_: marked)
    with pytest.raises(lw.UnsupportedError, match=f"table d.t: .*{named}"):
        catalog.get_table("d.t")


def test_a_place_for_a_new_table_is_refused(catalog: RESTCatalog, tmp_path: Path) -> None:
    with pytest.raises(lw.UnsupportedError, match="'path'"):
        catalog.create_table("d.t", Schema(SCHEMA.fields, options={"path": str(tmp_path)}))
    assert catalog.list_tables("d") == []


def test_the_database_of_the_new_name_must_exist(catalog: RESTCatalog) -> None:
    catalog.create_table("d.t", SCHEMA)
    with pytest.raises(DatabaseNotExistException) as error:
        catalog.rename_table("d.t", "none.t")
    assert error.value.database == "none"
    assert catalog.list_tables("d") == ["t"]


def test_options_that_are_missing_or_wrong(server: RestServer) -> None:
    for key, error in (("uri", lw.InvalidInputError), ("token", lw.InvalidInputError)):
        with pytest.raises(error, match=f"'{key}' is missing"):
            lw.CatalogFactory.create({k: v for k, v in server.options.items() if k != key})
    with pytest.raises(lw.NotFoundError, match="has no catalog 'none'"):
        lw.CatalogFactory.create({**server.options, "warehouse": "none"})
    with pytest.raises(lw.NotAuthorizedError):
        lw.CatalogFactory.create({**server.options, "token": "another"})


# External tables.


def _external(catalog: RESTCatalog, place: Path) -> Identifier:
    """Make an external table, as other engines do: the server knows its name, its schema is a file."""
    name = Identifier.create("d", "ext")
    schema = new_table_schema(SCHEMA, time_millis=5)
    catalog.api.create_table(name, replace(schema, options={"path": f"file:{place}"}))
    SchemaFiles(LocalStorage(durable=False), Layout(str(place))).create(schema)
    return name


def test_the_files_of_an_external_table_decide(server: RestServer, catalog: RESTCatalog, tmp_path: Path) -> None:
    place = tmp_path / "a b%20ü"
    table = catalog.get_table(_external(catalog, place))
    begin = len(server.log)
    assert table.table_path == str(place)
    assert lw.write_table(ROWS, table).snapshot_id == 1
    table.create_tag("one")
    table.create_branch("b", "one")
    assert _sent(server)[begin:] == []
    assert lw.read_table(catalog.get_table("d.ext$branch_b")).num_rows == 2
    with pytest.raises(BranchNotExistException):
        catalog.get_table("d.ext$branch_none")
    lw.write_table(ROWS, table)
    table.rollback_to(1)
    assert lw.read_table(table).num_rows == 2
    catalog.drop_table("d.ext")
    assert (place / "schema" / "schema-0").exists()


def test_an_external_table_without_a_schema_file_is_named(catalog: RESTCatalog, tmp_path: Path) -> None:
    name = _external(catalog, tmp_path / "ext")
    (tmp_path / "ext" / "schema" / "schema-0").unlink()
    with pytest.raises(lw.NotFoundError, match=r"d\.ext: .*external"):
        catalog.get_table(name)


# Packages.

_WITHOUT_URLLIB3 = """
import sys
import lakewright as lw
print('urllib3' in sys.modules)
sys.modules['urllib3'] = None
try:
    lw.CatalogFactory.create({'metastore': 'rest'})
except lw.UnsupportedError as error:
    print(error)
"""


@pytest.mark.processes
def test_the_package_for_http_is_loaded_when_it_is_needed() -> None:
    done = subprocess.run([sys.executable, "-c", _WITHOUT_URLLIB3], capture_output=True, text=True, check=True)
    expected = ["False", "the REST catalog needs the package urllib3: pip install 'lakewright[rest]'"]
    assert done.stdout.splitlines() == expected
