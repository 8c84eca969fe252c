"""The calls: requests as the protocol has them, answers as values, errors of the public tree."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from datetime import timedelta

import pytest

import lakewright as lw
from lakewright.catalog.rest_api import RestApi
from lakewright.catalog.rest_authority import RestAuthority, RestTable
from lakewright.errors import (
    BranchAlreadyExistException,
    BranchNotExistException,
    CatalogServerError,
    ColumnAlreadyExistException,
    ColumnNotExistException,
    DatabaseNoPermissionException,
    DatabaseNotExistException,
    LakewrightError,
    NotFoundError,
    TableAlreadyExistException,
    TableNoPermissionException,
    TableNotExistException,
    TagAlreadyExistException,
    TagNotExistException,
)
from lakewright.spec.identifier import Identifier
from lakewright.spec.manifest import Partition
from lakewright.spec.schema import Schema, new_table_schema
from lakewright.spec.snapshot import CommitKind, Snapshot
from support.scripted_http import QUICK, Answer, Script

T = Identifier.create("d", "t")
BRANCH = Identifier.create("d e", "t", "b")
S = Snapshot(2, 0, "list-a", "list-b", "me", 7, CommitKind.APPEND, 1700000000000, uuid="u-2", delta_record_count=1)
S_JSON = {
    "version": 3,
    "uuid": "u-2",
    "id": 2,
    "schemaId": 0,
    "baseManifestList": "list-a",
    "deltaManifestList": "list-b",
    "commitUser": "me",
    "commitIdentifier": 7,
    "commitKind": "APPEND",
    "timeMillis": 1700000000000,
    "deltaRecordCount": 1,
}
TABLE = {
    "id": "i-1",
    "database": "d",
    "name": "t",
    "path": "file:/lake/a b%20ü",
    "isExternal": False,
    "schemaId": 3,
    "schema": {
        "fields": [{"id": 4, "name": "a", "type": "INT"}],
        "partitionKeys": [],
        "primaryKeys": [],
        "options": {"bucket": "-1", "gone": None},
        "comment": "c",
        "unknown": 1,
    },
    "owner": "o",
}


def _options(script: Script, **more: str) -> dict[str, str]:
    base = {"uri": f"{script.uri}/", "warehouse": "a:b c", "token.provider": "bear", "token": "a-very-secret-token"}
    return base | {key.replace("_", "."): value for key, value in more.items()}


def test_options_of_the_server_lie_below_and_above_the_users(script: Script) -> None:
    defaults = {"prefix": "p q", "k1": "server", "k2": "server", "k3": None, "header.X-B": "2"}
    script.will(Answer(body={"defaults": defaults, "overrides": {"k2": "forced", "k4": None}}))
    api = RestApi.connect(_options(script, k1="mine", k2="mine", k4="mine", header_X="1"), QUICK)
    assert script.names == ["GET /v1/config?warehouse=a%3Ab+c"]
    assert script.requests[0].headers["X"] == "1"
    assert {key: api.options.get(key) for key in ("k1", "k2", "k3", "k4", "prefix")} == {
        "k1": "mine",
        "k2": "forced",
        "k3": None,
        "k4": "mine",
        "prefix": "p q",
    }
    again = pickle.loads(pickle.dumps(api))  # noqa: S301 - our own bytes
    assert (again, hash(again), again.options) == (api, hash(api), api.options)
    again.drop_table(T)
    assert script.names[1:] == ["DELETE /v1/p+q/databases/d/tables/t"]  # a worker does not ask for the configuration
    assert script.requests[1].headers["X-B"] == "2"
    assert "secret" not in repr(api)


def test_a_server_without_prefix_and_a_catalog_without_name(script: Script) -> None:
    script.will(Answer(body={"defaults": None, "overrides": None}))
    api = RestApi.connect(_options(script, warehouse=""), QUICK)
    api.drop_database("d")
    assert script.names == ["GET /v1/config", "DELETE /v1/databases/d"]


def test_a_catalog_that_the_server_does_not_have(script: Script) -> None:
    script.will(Answer(404))
    with pytest.raises(NotFoundError, match=r"has no catalog 'a:b c'.*not a path"):
        RestApi.connect(_options(script), QUICK)


def test_an_address_is_needed() -> None:
    with pytest.raises(lw.InvalidInputError, match="'uri' is missing"):
        RestApi.connect({"token.provider": "bear", "token": "x"})


CALLS: list[tuple[Callable[[RestApi], object], str, object, object, object]] = [
    (lambda a: a.create_database("x", {"k": "v"}), "POST /v1/p/databases", {"name": "x", "options": {"k": "v"}}, None,
     None),
    (lambda a: a.alter_database("x", ["r"], {"k": "v"}), "POST /v1/p/databases/x",
     {"removals": ["r"], "updates": {"k": "v"}}, {"removed": ["r"]}, None),
    (lambda a: a.drop_database("x y"), "DELETE /v1/p/databases/x+y", None, None, None),
    (lambda a: a.get_table(BRANCH).path, "GET /v1/p/databases/d+e/tables/t%24branch_b", None, TABLE,
     "file:/lake/a b%20ü"),
    (lambda a: a.get_table_by_id("i/1").schema_id, "GET /v1/p/tables/id/i%2F1", None, TABLE, 3),
    (lambda a: a.get_table(T).options, "GET /v1/p/databases/d/tables/t", None, TABLE, {"bucket": "-1"}),
    (lambda a: a.get_table(T).declared.fields[0].id, "GET /v1/p/databases/d/tables/t", None, TABLE, 4),
    (lambda a: a.alter_table(T, [lw.SchemaChange.set_option("k", "v")]), "POST /v1/p/databases/d/tables/t",
     {"changes": [{"action": "setOption", "key": "k", "value": "v"}]}, None, None),
    (lambda a: a.drop_table(T), "DELETE /v1/p/databases/d/tables/t", None, None, None),
    (lambda a: a.rename_table(T, Identifier.create("e", "u")), "POST /v1/p/tables/rename",
     {"source": {"database": "d", "object": "t"}, "destination": {"database": "e", "object": "u"}}, None, None),
    (lambda a: a.table_token(T).options, "GET /v1/p/databases/d/tables/t/token", None,
     {"token": {"fs.s3.accessKeyId": "k"}, "expiresAtMillis": 9}, {"fs.s3.accessKeyId": "k"}),
    (lambda a: a.latest_snapshot(T), "GET /v1/p/databases/d/tables/t/snapshot", None,
     {"snapshot": {"snapshot": S_JSON, "recordCount": 1}}, S),
    (lambda a: a.get_snapshot(T, 2), "GET /v1/p/databases/d/tables/t/snapshots/2", None, {"snapshot": S_JSON}, S),
    (lambda a: a.list_snapshots(T), "GET /v1/p/databases/d/tables/t/snapshots", None, {"snapshots": [S_JSON]}, [S]),
    (lambda a: a.commit(BRANCH, "i-1", "u-1", S, [Partition({"p": "x"}, 1, 2, 3, 4, 5)]),
     "POST /v1/p/databases/d+e/tables/t%24branch_b/commit",
     {"tableId": "i-1", "baseSnapshotUuid": "u-1", "snapshot": S_JSON,
      "statistics": [{"spec": {"p": "x"}, "recordCount": 1, "fileSizeInBytes": 2, "fileCount": 3,
                      "lastFileCreationTime": 4, "totalBuckets": 5}]}, {"success": True}, True),
    (lambda a: a.commit(T, "i-1", None, S, []), "POST /v1/p/databases/d/tables/t/commit",
     {"tableId": "i-1", "baseSnapshotUuid": None, "snapshot": S_JSON, "statistics": []}, {"success": False}, False),
    (lambda a: a.rollback(T, 1, 2), "POST /v1/p/databases/d/tables/t/rollback",
     {"instant": {"type": "snapshot", "snapshotId": 1}, "fromSnapshot": 2}, None, None),
    (lambda a: a.rollback(T, "v"), "POST /v1/p/databases/d/tables/t/rollback",
     {"instant": {"type": "tag", "tagName": "v"}}, None, None),
    (lambda a: a.rollback_schema(T, 3), "POST /v1/p/databases/d/tables/t/rollback-schema", {"schemaId": 3}, None, None),
    (lambda a: a.list_partitions(T), "GET /v1/p/databases/d/tables/t/partitions", None,
     {"partitions": [{"spec": {"p": "x"}, "recordCount": 1, "fileSizeInBytes": 2, "fileCount": 3,
                      "lastFileCreationTime": 4, "totalBuckets": None, "done": True, "createdAt": 7}]},
     [Partition({"p": "x"}, 1, 2, 3, 4, 0)]),
    (lambda a: a.list_partitions_by_names(T, [{"p": "x"}]),
     "POST /v1/p/databases/d/tables/t/partitions/list-by-names", {"specs": [{"p": "x"}]}, {"partitions": None}, []),
    (lambda a: a.mark_partitions(T, [{"p": "x"}]), "POST /v1/p/databases/d/tables/t/partitions/mark",
     {"specs": [{"p": "x"}]}, None, None),
    (lambda a: a.list_tags(T), "GET /v1/p/databases/d/tables/t/tags", None, {"tags": ["a"]}, ["a"]),
    (lambda a: a.create_tag(T, "v 1"), "POST /v1/p/databases/d/tables/t/tags", {"tagName": "v 1"}, None, None),
    (lambda a: a.create_tag(T, "v", 2, 5000), "POST /v1/p/databases/d/tables/t/tags",
     {"tagName": "v", "snapshotId": 2, "timeRetained": "5000 ms"}, None, None),
    (lambda a: a.get_tag(T, "v 1").time_retained, "GET /v1/p/databases/d/tables/t/tags/v+1", None,
     {"tagName": "v 1", "snapshot": S_JSON, "tagCreateTime": 1000, "tagTimeRetained": "PT24H"}, timedelta(days=1)),
    (lambda a: a.delete_tag(T, "v 1"), "DELETE /v1/p/databases/d/tables/t/tags/v+1", None, None, None),
    (lambda a: a.list_branches(T), "GET /v1/p/databases/d/tables/t/branches", None, {"branches": None}, []),
    (lambda a: a.create_branch(T, "b"), "POST /v1/p/databases/d/tables/t/branches", {"branch": "b"}, None, None),
    (lambda a: a.create_branch(T, "b", "v"), "POST /v1/p/databases/d/tables/t/branches",
     {"branch": "b", "fromTag": "v"}, None, None),
    (lambda a: a.drop_branch(T, "b"), "DELETE /v1/p/databases/d/tables/t/branches/b", None, None, None),
    (lambda a: a.fast_forward(T, "b"), "POST /v1/p/databases/d/tables/t/branches/b/forward", {}, None, None),
    (lambda a: a.rename_branch(T, "b", "c"), "POST /v1/p/databases/d/tables/t/branches/b/rename", {"toBranch": "c"},
     None, None),
]  # fmt: skip


@pytest.mark.parametrize("case", CALLS, ids=[case[1] for case in CALLS])
def test_a_call_and_its_answer(
    api: RestApi, script: Script, case: tuple[Callable[[RestApi], object], str, object, object, object]
) -> None:
    call, request, sent, answer, result = case
    script.will(Answer(body=answer))
    assert call(api) == result
    assert script.names == [request]
    assert script.requests[0].body == sent


def test_a_new_table_is_sent_without_what_only_its_file_has(api: RestApi, script: Script) -> None:
    declared = Schema(
        [lw.DataField(9, "a", lw.AtomicType("INT"), "text", "7")],
        primary_keys=["a"],
        options={"bucket": 2},
        comment="c",
    )
    api.create_table(T, new_table_schema(declared, time_millis=5))
    assert script.names == ["POST /v1/p/databases/d/tables"]
    assert script.requests[0].body == {
        "identifier": {"database": "d", "object": "t"},
        "schema": {
            "fields": [{"id": 0, "name": "a", "type": "INT NOT NULL", "description": "text", "defaultValue": "7"}],
            "partitionKeys": [],
            "primaryKeys": ["a"],
            "options": {"bucket": "2"},
            "comment": "c",
        },
    }


def test_a_database_is_read_with_who_made_it(api: RestApi, script: Script) -> None:
    script.will(Answer(body={"id": "1", "name": "d", "location": "/l", "options": {"k": "v"}, "createdAt": 5}))
    database = api.get_database("d")
    assert (database.name, database.location, database.options, database.audit) == (
        "d",
        "/l",
        {"k": "v"},
        {"createdAt": "5"},
    )


# Pages.


def test_all_pages_are_read_and_names_come_once(api: RestApi, script: Script) -> None:
    script.will(
        Answer(body={"tables": ["a", "b"], "nextPageToken": "b c"}),
        Answer(body={"tables": ["b", "c"], "nextPageToken": "d"}),
        Answer(body={"tables": [], "nextPageToken": "e"}),
    )
    assert api.list_tables("d") == ["a", "b", "c"]
    path = "GET /v1/p/databases/d/tables"
    assert script.names == [path, f"{path}?pageToken=b+c", f"{path}?pageToken=d"]


@pytest.mark.parametrize("last", [{"databases": None}, {"databases": ["a"], "nextPageToken": ""}])
def test_the_last_page_has_no_token_or_no_names(api: RestApi, script: Script, last: dict[str, object]) -> None:
    script.will(Answer(body=last))
    assert api.list_databases() == (last["databases"] or [])
    assert len(script.requests) == 1


def test_a_pattern_and_a_page_size_are_sent_unless_they_are_empty(api: RestApi, script: Script) -> None:
    page = Answer(body={"tables": [], "nextPageToken": None})
    script.will(page, page)
    api.list_tables_page("d", 2, None, "a%", "table")
    api.list_tables_page("d", 0, "", "")
    path = "GET /v1/p/databases/d/tables"
    assert script.names == [f"{path}?maxResults=2&tableNamePattern=a%25&tableType=table", path]


def test_a_list_that_does_not_end_is_an_error(api: RestApi, script: Script) -> None:
    script.will(*[Answer(body={"tables": ["a"], "nextPageToken": "x"})] * 5)
    with pytest.raises(CatalogServerError, match="does not end"):
        api.list_tables("d")


@pytest.mark.parametrize(
    ("call", "answer"),
    [
        (lambda a: a.list_snapshots(T), {"id": "1", "name": "d", "options": {}}),
        (lambda a: a.list_tables("d"), {}),
        (lambda a: a.list_tables("d"), {"tables": "t"}),
        (lambda a: a.list_table_details("d"), {"tableDetails": ["t"]}),
        (lambda a: a.get_table(T), {"name": "t"}),
        (lambda a: a.get_table(T), {**TABLE, "id": None}),
        (lambda a: a.get_table(T), {**TABLE, "schemaId": True}),
        (lambda a: a.latest_snapshot(T), {"snapshot": None}),
        (lambda a: a.latest_snapshot(T), {"snapshot": {"snapshot": {"id": 1}}}),
        (lambda a: a.table_token(T), {"token": {}}),
        (lambda a: a.get_tag(T, "v"), {"tagName": "v", "snapshot": S_JSON, "tagTimeRetained": "long"}),
        (lambda a: a.commit(T, "i", None, S, []), {}),
        (lambda a: a.commit(T, "i", None, S, []), {"success": "yes"}),
    ],
)
def test_an_answer_without_what_was_asked_for_is_an_error(
    api: RestApi, script: Script, call: Callable[[RestApi], object], answer: object
) -> None:
    script.will(Answer(body=answer))
    with pytest.raises(CatalogServerError, match=r"answer of the server|server's snapshot") as error:
        call(api)
    assert error.value.perhaps_done


# Errors.


def _error(code: int, kind: str | None = None, name: str | None = None) -> Answer:
    return Answer(code, {"message": "told", "resourceType": kind, "resourceName": name, "code": code})


ERRORS: list[tuple[int, str | None, str | None, type[LakewrightError], str]] = [
    (400, None, None, lw.InvalidInputError, "told"),
    (401, None, None, lw.NotAuthorizedError, "'token'"),
    (403, "TABLE", "t", TableNoPermissionException, "do not allow"),
    (403, "DATABASE", "d", DatabaseNoPermissionException, "do not allow"),
    (404, "TABLE", "t", TableNotExistException, r"table d\.t does not exist"),
    (404, "DATABASE", "d", DatabaseNotExistException, "database d does not exist"),
    (404, "COLUMN", "c", ColumnNotExistException, "the column 'c' does not exist"),
    (404, "TAG", "v", TagNotExistException, "the tag 'v' does not exist"),
    (404, "BRANCH", "b", BranchNotExistException, "the branch 'b' does not exist"),
    (404, None, None, NotFoundError, "answered 404"),
    (409, "TABLE", "t", TableAlreadyExistException, r"table d\.t already exists"),
    (409, "COLUMN", "c", ColumnAlreadyExistException, "the column 'c' already exists"),
    (409, "TAG", "v", TagAlreadyExistException, "the tag 'v' already exists"),
    (409, "BRANCH", "b", BranchAlreadyExistException, "the branch 'b' already exists"),
    (409, None, None, lw.AlreadyExistsError, "answered 409"),
    (501, None, None, lw.UnsupportedError, "does not implement"),
    (500, None, None, CatalogServerError, "may have been carried out"),
    (503, None, None, CatalogServerError, "may have been carried out"),
    (418, None, None, CatalogServerError, "may have been carried out"),
]


@pytest.mark.parametrize("case", ERRORS, ids=[f"{case[0]}-{case[1]}" for case in ERRORS])
def test_an_error_of_the_server_is_one_of_ours(
    api: RestApi, script: Script, case: tuple[int, str | None, str | None, type[LakewrightError], str]
) -> None:
    code, kind, name, expected, text = case
    script.will(_error(code, kind, name))
    with pytest.raises(expected, match=text) as raised:
        api.alter_table(T, [lw.SchemaChange.set_option("k", "v")])
    assert type(raised.value) is expected
    assert (raised.value.table, raised.value.identifier) == ("d.t", T)
    again = pickle.loads(pickle.dumps(raised.value))  # noqa: S301 - our own bytes
    assert (type(again), str(again)) == (expected, str(raised.value))
    assert "POST /v1/p/databases/d/tables/t" in str(raised.value)


def test_a_table_without_snapshots_has_no_latest_one(api: RestApi, script: Script) -> None:
    script.will(_error(404, "SNAPSHOT"), _error(404, "SNAPSHOT"), _error(404, "TABLE", "t"))
    assert api.latest_snapshot(T) is None
    assert api.get_snapshot(T, 7) is None
    with pytest.raises(TableNotExistException):
        api.latest_snapshot(T)


def test_a_server_that_keeps_no_snapshots_of_a_table_says_so(api: RestApi, script: Script) -> None:
    script.will(Answer(404, {"code": 501, "message": "external"}))
    with pytest.raises(lw.UnsupportedError):
        api.latest_snapshot(T)


def test_a_new_name_that_is_taken_is_the_one_in_the_error(api: RestApi, script: Script) -> None:
    script.will(_error(409, "TABLE", "u"))
    with pytest.raises(TableAlreadyExistException, match=r"table e\.u already exists") as error:
        api.rename_table(T, Identifier.create("e", "u"))
    assert error.value.identifier == Identifier.create("e", "u")


@pytest.mark.parametrize("name", [".", ".."])
def test_names_that_mean_directories_are_never_sent(api: RestApi, script: Script, name: str) -> None:
    table = Identifier.create("d", name)
    calls: list[Callable[[], object]] = [
        lambda: api.drop_table(table),
        lambda: api.drop_table(Identifier.create(name, "t")),
        lambda: api.drop_database(name),
        lambda: api.create_database(name, {}),
        lambda: api.delete_tag(T, name),
        lambda: api.create_tag(T, name),
        lambda: api.drop_branch(T, name),
        lambda: api.create_branch(T, name),
        lambda: api.rename_table(T, table),
        lambda: api.get_table_by_id(name),
    ]
    for call in calls:
        with pytest.raises(lw.InvalidInputError, match="in a URL"):
            call()
    assert script.requests == []


@pytest.mark.parametrize("status", [200, 501])
def test_a_server_is_told_about_partitions_that_are_done_if_it_wants_to_know(script: Script, status: int) -> None:
    script.will(Answer(body={"defaults": {"prefix": "p"}}), Answer(status, {"message": "m", "code": status}))
    home = RestAuthority(RestTable(RestApi.connect(_options(script), QUICK), T, "id"))
    home.partitions_done([{"p": "x"}])
    assert script.names[1:] == ["POST /v1/p/databases/d/tables/t/partitions/mark"]
    assert script.requests[1].body == {"specs": [{"p": "x"}]}
