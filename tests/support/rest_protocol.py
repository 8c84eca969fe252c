"""What a REST catalog server answers, as a test class of plain requests: Java's servers and our stand-in must pass it.

So the stand-in, which the tests of `make test` run on, is held against the real servers by
`make nightly PART=interop-rest`.
Subclass `ServerContract` and give it the fixture `server`.
"""

from __future__ import annotations

import http.client
import json
import uuid
from collections import Counter
from contextlib import AbstractContextManager
from typing import Any, Protocol
from urllib.parse import quote_plus

import pytest


class RestServerUnderTest(Protocol):
    """A running server with its levers; see `support.rest_server` for what each does."""

    like: str
    token: str
    warehouse: str
    prefix: str

    @property
    def uri(self) -> str: ...

    @property
    def options(self) -> dict[str, str]: ...

    def lose(self, number: int = 1, how: str = "500", match: str = ...) -> None: ...

    def fail(self, number: int, how: str, match: str = "") -> None: ...

    def retry_after(self, value: str | None) -> None: ...

    def calm(self) -> None: ...

    def deny(self, name: str) -> None: ...

    def allow(self, name: str) -> None: ...

    def counts(self) -> Counter[str]: ...

    def counting(self) -> AbstractContextManager[list[str]]: ...

    def faults_left(self) -> int: ...


FIELDS = [{"id": 0, "name": "id", "type": "INT"}, {"id": 1, "name": "name", "type": "STRING"}]
ODD_NAMES = ["x y", "50%", "~home", "a+b", "*", "ü", "a/b", "%2F", "a.b"]


class Asking:
    """Plain requests to a server, and the paths of one database of its own."""

    def __init__(self, server: RestServerUnderTest) -> None:
        self.server = server
        self.database = f"d{uuid.uuid4().hex[:8]}"
        self.ask("POST", "databases", {"name": self.database, "options": {}})

    def send(
        self, method: str, path: str, body: object = None, token: str | None = None
    ) -> tuple[int, Any, http.client.HTTPMessage]:
        """Send a request to a whole path; return status, answer and headers."""
        connection = http.client.HTTPConnection(self.server.uri.removeprefix("http://"), timeout=5)
        try:
            headers = {"Authorization": f"Bearer {token or self.server.token}", "Content-Type": "application/json"}
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            text = response.read().decode()
        finally:
            connection.close()
        try:
            return response.status, json.loads(text) if text else None, response.headers
        except ValueError:
            return response.status, text, response.headers

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """Send a request below the prefix."""
        return self.send(method, f"/v1/{self.server.prefix}/{path}", body)[:2]

    def table(self, name: str, *inner: str) -> str:
        """Return the path of a table of the database."""
        return "/".join(["databases", self.database, "tables", quote_plus(name, safe="*"), *inner])

    def create(self, name: str = "t", **members: object) -> dict[str, Any]:
        """Create a table and return what the server says of it."""
        schema = {"fields": FIELDS, "partitionKeys": [], "primaryKeys": [], "options": {}, **members}
        identifier = {"database": self.database, "object": name}
        status, answer = self.ask(
            "POST", f"databases/{self.database}/tables", {"identifier": identifier, "schema": schema}
        )
        assert status == 200, answer
        answer = self.ask("GET", self.table(name))[1]
        assert isinstance(answer, dict)
        return answer

    def snapshot(self, number: int) -> dict[str, Any]:
        """Return the members of a snapshot."""
        return {
            "version": 3,
            "uuid": str(uuid.uuid4()),
            "id": number,
            "schemaId": 0,
            "baseManifestList": f"manifest-list-{uuid.uuid4()}-0",
            "deltaManifestList": f"manifest-list-{uuid.uuid4()}-1",
            "commitUser": "u",
            "writerVersion": "w",
            "commitIdentifier": 9223372036854775807,
            "commitKind": "APPEND",
            "timeMillis": 1,
            "totalRecordCount": 3,
            "deltaRecordCount": 3,
            "checksum": "crc32:0",
        }

    def commit(self, table: dict[str, Any], snapshot: dict[str, Any], base: str | None, **members: object) -> Any:  # noqa: ANN401
        """Commit a snapshot of three rows; return status and answer."""
        stat = {"spec": {}, "recordCount": 3, "fileSizeInBytes": 9, "fileCount": 1, "lastFileCreationTime": 5}
        body = {"tableId": table["id"], "baseSnapshotUuid": base, "snapshot": snapshot}
        body |= {"statistics": [{**stat, "totalBuckets": 1}], **members}
        return self.ask("POST", self.table(table["name"], "commit"), body)


class ServerContract:
    """What servers answer to plain requests. Fixture: `server`."""

    @pytest.fixture
    def asking(self, server: RestServerUnderTest) -> Asking:
        return Asking(server)

    def test_configuration_and_authorization(self, asking: Asking) -> None:
        status, answer, _ = asking.send("GET", f"/v1/config?warehouse={asking.server.warehouse}")
        assert (status, answer["defaults"]["prefix"]) == (200, asking.server.prefix)
        assert asking.send("GET", "/v1/config?warehouse=another")[:2] == (404, None)
        assert asking.send("GET", "/v1/config?warehouse=wh", token="wrong")[:2] == (401, None)  # noqa: S106
        assert asking.ask("GET", "nothing/here") == (404, None)

    def test_databases(self, asking: Asking) -> None:
        name = f"{asking.database}x"
        assert asking.ask("POST", "databases", {"name": name, "options": {"k": "v"}}) == (200, None)
        status, answer = asking.ask("POST", "databases", {"name": name, "options": {}})
        assert (status, answer["code"], answer["resourceType"], answer["resourceName"]) == (409, 409, "DATABASE", name)
        status, answer = asking.ask("GET", f"databases/{name}")
        assert (status, answer["name"], answer["options"]["k"]) == (200, name, "v")
        assert asking.ask("POST", f"databases/{name}", {"removals": ["k"], "updates": {"a": "b"}})[0] == 200
        assert asking.ask("GET", f"databases/{name}")[1]["options"] == {"a": "b"}
        assert asking.ask("DELETE", f"databases/{name}") == (200, None)
        status, answer = asking.ask("GET", f"databases/{name}")
        assert (status, answer["code"], answer["resourceType"]) == (404, 404, "DATABASE")

    def test_pages_of_names(self, asking: Asking) -> None:
        prefix = f"p{uuid.uuid4().hex[:8]}"
        names = [f"{prefix}{i:03}" for i in range(101)]
        for name in names:
            asking.ask("POST", "databases", {"name": name, "options": {}})
        found: list[str] = []
        path = f"databases?databaseNamePattern={prefix}%25"
        sizes = []
        token: str | None = ""
        while token is not None:
            page = asking.ask("GET", path + (f"&pageToken={quote_plus(token)}" if token else ""))[1]
            sizes.append(len(page["databases"]))
            found += page["databases"]
            token = page.get("nextPageToken")
        assert found == names
        assert sizes == [100, 1]
        assert len(asking.ask("GET", path + "&maxResults=7")[1]["databases"]) == 7
        assert asking.ask("GET", "databases?databaseNamePattern=%25x")[0] == 400
        for name in names:
            asking.ask("DELETE", f"databases/{name}")

    @pytest.mark.parametrize("name", ODD_NAMES)
    def test_names_with_odd_characters(self, asking: Asking, name: str) -> None:
        made = asking.create(name)
        assert made["name"] == name
        assert asking.ask("GET", f"databases/{asking.database}/tables")[1]["tables"] == [name]
        assert asking.ask("DELETE", asking.table(name)) == (200, None)

    def test_tables(self, asking: Asking) -> None:
        made = asking.create("t", primaryKeys=["id"], options={"bucket": "1"})
        assert (made["database"], made["schemaId"], made["isExternal"]) == (asking.database, 0, False)
        assert made["schema"]["fields"][0] == {"id": 0, "name": "id", "type": "INT NOT NULL"}
        assert made["schema"]["options"] == {"bucket": "1"}
        schema = {"fields": FIELDS, "partitionKeys": [], "primaryKeys": [], "options": {}}
        body = {"identifier": {"database": asking.database, "object": "t"}, "schema": schema}
        status, answer = asking.ask("POST", f"databases/{asking.database}/tables", body)
        assert (status, answer["resourceType"], answer["resourceName"]) == (409, "TABLE", "t")
        status, answer = asking.ask("GET", asking.table("u"))
        assert (status, answer["code"], answer["resourceType"]) == (404, 404, "TABLE")
        there = {"database": asking.database, "object": "u"}
        assert asking.ask("POST", "tables/rename", {"source": body["identifier"], "destination": there}) == (200, None)
        moved = asking.ask("GET", asking.table("u"))[1]
        assert moved["id"] == made["id"]
        assert moved["path"] != made["path"]
        assert asking.ask("GET", asking.table("t"))[0] == 404
        asking.ask("DELETE", asking.table("u"))
        assert asking.create("u")["id"] != made["id"]

    def test_changes_of_a_schema_are_all_or_none(self, asking: Asking) -> None:
        asking.create()
        path = asking.table("t")
        add = {"action": "addColumn", "fieldNames": ["n"], "dataType": "BIGINT", "comment": None, "move": None}
        drop = {"action": "dropColumn", "fieldNames": ["none"]}
        status, answer = asking.ask("POST", path, {"changes": [add, drop]})
        assert (status, answer["resourceType"], answer["resourceName"]) == (404, "COLUMN", "none")
        assert asking.ask("GET", path)[1]["schemaId"] == 0
        assert asking.ask("POST", path, {"changes": [add, {"action": "setOption", "key": "k", "value": "v"}]})[0] == 200
        changed = asking.ask("GET", path)[1]
        assert (changed["schemaId"], changed["schema"]["options"]["k"]) == (1, "v")
        assert [f["name"] for f in changed["schema"]["fields"]] == ["id", "name", "n"]
        status, answer = asking.ask("POST", path, {"changes": [add]})
        assert (status, answer["resourceType"]) == (409, "COLUMN")

    def test_a_commit_is_published_once(self, asking: Asking) -> None:
        table = asking.create()
        status, answer = asking.ask("GET", asking.table("t", "snapshot"))
        assert (status, answer["resourceType"]) == (404, "SNAPSHOT")
        first = asking.snapshot(1)
        assert asking.commit(table, first, None) == (200, {"success": True})
        assert asking.commit(table, first, None) == (200, {"success": False})
        held = asking.ask("GET", asking.table("t", "snapshot"))[1]["snapshot"]
        assert (held["recordCount"], held["fileCount"]) == (3, 1)
        assert held["snapshot"]["deltaManifestList"] == first["deltaManifestList"]
        dropped = {"writerVersion", "checksum"} | ({"uuid"} if asking.server.like == "1.4.2" else set())
        assert set(first) - {k for k, v in held["snapshot"].items() if v is not None} == dropped
        found = asking.ask("GET", asking.table("t", "snapshots", "1"))[1]["snapshot"]
        assert found["deltaManifestList"] == first["deltaManifestList"]
        assert asking.ask("GET", asking.table("t", "snapshots", "2"))[0] == 404

    def test_what_a_commit_is_checked_for(self, asking: Asking) -> None:
        table = asking.create()
        first, second = asking.snapshot(1), asking.snapshot(2)
        status, answer = asking.commit(table, first, None, tableId="another")
        assert (status, answer["resourceType"]) == (404, "TABLE")
        with pytest.raises(http.client.RemoteDisconnected):
            asking.commit(table, first, None, tableId=None)
        assert asking.commit(table, first, None)[1] == {"success": True}
        accepted = asking.server.like == "1.4.2"
        assert asking.commit(table, second, str(uuid.uuid4()))[1] == {"success": accepted}
        base = None if accepted else first["uuid"]
        assert asking.commit(table, asking.snapshot(9), base)[1] == {"success": True}  # ids are not checked

    def test_tags_and_branches(self, asking: Asking) -> None:
        table = asking.create()
        assert asking.ask("GET", asking.table("t", "branches"))[1].get("branches") in (None, [])
        assert asking.ask("POST", asking.table("t", "tags"), {"tagName": "a"})[0] == 404
        snapshot = asking.snapshot(1)
        asking.commit(table, snapshot, None)
        assert asking.ask("POST", asking.table("t", "tags"), {"tagName": "a", "snapshotId": 1}) == (200, None)
        status, answer = asking.ask("POST", asking.table("t", "tags"), {"tagName": "a"})
        assert (status, answer["resourceType"], answer["resourceName"]) == (409, "TAG", "a")
        asking.ask("POST", asking.table("t", "tags"), {"tagName": "b", "timeRetained": "1d"})
        assert asking.ask("GET", asking.table("t", "tags"))[1]["tags"] == ["a", "b"]
        one, other = (asking.ask("GET", asking.table("t", "tags", name))[1] for name in "ab")
        assert (one["tagName"], one["snapshot"]["id"], one["tagTimeRetained"]) == ("a", 1, None)
        assert other["tagTimeRetained"] == "PT24H"
        assert other["tagCreateTime"] > 1_600_000_000_000
        assert asking.ask("DELETE", asking.table("t", "tags", "b")) == (200, None)
        status, answer = asking.ask("GET", asking.table("t", "tags", "b"))
        assert (status, answer["resourceType"], answer["resourceName"]) == (404, "TAG", "b")
        status, answer = asking.ask("POST", asking.table("t", "branches"), {"branch": "c", "fromTag": "none"})
        assert (status, answer["resourceType"]) == (404, "TAG")
        assert asking.ask("POST", asking.table("t", "branches"), {"branch": "c"}) == (200, None)
        status, answer = asking.ask("POST", asking.table("t", "branches"), {"branch": "c"})
        assert (status, answer["resourceType"], answer["resourceName"]) == (409, "BRANCH", "c")
        assert asking.ask("GET", asking.table("t", "branches"))[1] == {"branches": ["c"]}
        assert asking.ask("GET", f"databases/{asking.database}/tables")[1]["tables"] == ["t", "t"]
        assert asking.ask("GET", asking.table("t$branch_c", "snapshot"))[0] == 404
        assert asking.commit({**table, "name": "t$branch_c"}, asking.snapshot(1), None)[1] == {"success": True}
        assert asking.ask("POST", asking.table("t", "branches"), {"branch": "e", "fromTag": "a"}) == (200, None)
        at_tag = asking.ask("GET", asking.table("t$branch_e", "snapshot"))[1]["snapshot"]["snapshot"]
        assert at_tag["deltaManifestList"] == snapshot["deltaManifestList"]
        assert asking.ask("DELETE", asking.table("t", "branches", "c")) == (200, None)
        assert asking.ask("GET", asking.table("t$branch_c"))[0] == 404

    def test_partitions_are_not_listed_unless_the_option_says_so(self, asking: Asking) -> None:
        asking.create()
        answer = asking.ask("GET", asking.table("t", "partitions"))[1]
        assert answer["code"] == 501
        plain = {**FIELDS[1], "id": 0}
        table = asking.create(
            "p", fields=[plain], partitionKeys=["name"], options={"metastore.partitioned-table": "true"}
        )
        stat = {"recordCount": 3, "fileSizeInBytes": 9, "fileCount": 1, "lastFileCreationTime": 5, "totalBuckets": -1}
        stats = [{"spec": {"name": value}, **stat} for value in ("a", "b")]
        asking.commit(table, asking.snapshot(1), None, statistics=stats)
        listed = asking.ask("GET", asking.table("p", "partitions"))[1]["partitions"]
        assert [(p["spec"], p["recordCount"]) for p in listed] == [({"name": "b"}, 3), ({"name": "a"}, 3)]

    def test_permissions(self, asking: Asking) -> None:
        asking.create()
        asking.server.deny(f"{asking.database}.t")
        status, answer = asking.ask("GET", asking.table("t"))
        assert (status, answer["resourceType"]) == (403, "TABLE")
        asking.server.allow(f"{asking.database}.t")
        asking.server.deny(asking.database)
        status, answer = asking.ask("GET", f"databases/{asking.database}")
        assert (status, answer["resourceType"]) == (403, "DATABASE")
        asking.server.allow(asking.database)
        assert asking.ask("GET", asking.table("t"))[0] == 200

    def test_lost_answers_and_failed_calls(self, asking: Asking) -> None:
        table = asking.create()
        asking.server.lose(1, "503")
        asking.server.retry_after("7")
        path = f"/v1/{asking.server.prefix}/{asking.table('t', 'commit')}"
        first = asking.snapshot(1)
        body = {"tableId": table["id"], "baseSnapshotUuid": None, "snapshot": first, "statistics": []}
        status, answer, headers = asking.send("POST", path, body)
        assert (status, answer["code"], headers["Retry-After"]) == (503, 503, "7")
        assert asking.commit(table, first, None)[1] == {"success": False}  # the first one took place
        asking.server.fail(1, "500", "/commit")
        base = None if asking.server.like == "1.4.2" else first["uuid"]
        second = asking.snapshot(2)
        assert asking.commit(table, second, base)[0] == 500
        assert asking.commit(table, second, base)[1] == {"success": True}  # the first one did not
        asking.server.fail(1, "cut", "/snapshot$")
        with pytest.raises(http.client.RemoteDisconnected):
            asking.ask("GET", asking.table("t", "snapshot"))
        asking.server.fail(1, "half", "/snapshot$")
        with pytest.raises(http.client.IncompleteRead):
            asking.ask("GET", asking.table("t", "snapshot"))
        asking.server.fail(1, "garbage", "/snapshot$")
        assert asking.ask("GET", asking.table("t", "snapshot"))[1].startswith("<html>")
        asking.server.fail(3, "500")
        asking.server.calm()
        assert asking.ask("GET", asking.table("t", "snapshot"))[0] == 200
