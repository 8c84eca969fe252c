"""Typed calls of the REST protocol."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias, TypeVar
from urllib.parse import quote_plus

from lakewright.catalog import rest_json
from lakewright.catalog.rest_auth import auth_of
from lakewright.catalog.rest_http import (
    NOT_FOUND,
    CallFailed,
    NoAnswer,
    Patience,
    Refused,
    Request,
    Server,
    commit_error,
    public_error,
    server_at,
)
from lakewright.catalog.rest_json import Page, ServerDatabase, ServerTable, TableToken
from lakewright.errors import (
    CatalogServerError,
    InvalidInputError,
    LakewrightError,
    NotFoundError,
    TableAlreadyExistException,
)
from lakewright.spec import argument_checks
from lakewright.spec.identifier import MAIN_BRANCH, Identifier
from lakewright.spec.manifest import Partition
from lakewright.spec.schema import SchemaChange
from lakewright.spec.snapshot import Snapshot, Tag
from lakewright.spec.table_schema import TableSchema
from lakewright.spec.types import JSON

# ---- Names in URLs ---------------------------------------------------------------------------------------------------
# Every name is one segment of a path, encoded as HTML forms are, which is what servers decode. The names `.` and `..`
# are refused: HTTP programs on the way take them for directories, so that a call about the table `..` would reach its
# database.


def form_encode(text: str) -> str:
    """Return a text as forms encode it: letters, digits and `.-_*` stay, a space becomes `+`, all else `%XX`.

    >>> form_encode("a b/c~d*ü")
    'a+b%2Fc%7Ed*%C3%BC'
    """
    return quote_plus(text, safe="*").replace("~", "%7E")


def segment(kind: str, name: str) -> str:
    """Return a name as one segment of a path; `kind` says in errors what it names.

    >>> segment("table", "orders$branch_b")
    'orders%24branch_b'
    """
    if argument_checks.check_text(f"the name of a {kind}", name) in {".", ".."}:
        raise InvalidInputError(
            f"{name!r} cannot name a {kind} of a REST catalog: in a URL it means a directory", name=name, kind=kind
        )
    return form_encode(name)


def object_name(identifier: Identifier) -> str:
    """Return the table with its branch, which is how a table is named in URLs and bodies; a system table is left out.

    >>> object_name(Identifier.from_string("d.t$branch_b$files")), object_name(Identifier.from_string("d.t$files"))
    ('t$branch_b', 't')
    """
    branch = identifier.get_branch_name()
    kept = None if branch == MAIN_BRANCH else branch
    return Identifier.create(identifier.get_database_name(), identifier.get_table_name(), kept).get_object_name()


def query_text(parameters: Mapping[str, str]) -> str:
    """Return parameters as the query of a URL, sorted by key, as signatures need them.

    >>> query_text({"pageToken": "a b", "maxResults": "2"})
    'maxResults=2&pageToken=a+b'
    """
    return "&".join(f"{form_encode(key)}={form_encode(parameters[key])}" for key in sorted(parameters))


# ---- Calls of the protocol -------------------------------------------------------------------------------------------
# A `RestApi` is small, frozen and goes to other processes, where it works without asking for the configuration again.
# A failure is an error of the public tree. A call that changes something and ends in a `CatalogServerError` may have
# been carried out if `error.perhaps_done` says so; such a call is never sent twice.

T = TypeVar("T")
About: TypeAlias = Identifier | str | None  # what a request is about: a table, the name of a database, or neither

ErrorOf: TypeAlias = Callable[[CallFailed, str, Mapping[str, object]], LakewrightError]  # of a failed request

_HEADER = "header."
_PAGES_MAX = 100_000  # of one list
SPECS_MAX = 1000  # partitions in one call


@dataclass(frozen=True, slots=True)
class RestApi:
    """The calls of one catalog on one server, for one caller.

    `options` are the effective ones: the server's defaults, over them the user's, over them what the server overrides.
    """

    server: Server
    prefix: str
    warehouse: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def connect(cls, options: Mapping[str, str], patience: Patience | None = None) -> RestApi:
        """Ask the server that the options name for its configuration, and return the calls of its catalog."""
        if not options.get("uri", "").strip():
            raise InvalidInputError(
                "the option 'uri' is missing: a REST catalog needs the address of its server", option="uri"
            )
        server = server_at(options["uri"].strip(), _headers(options), auth_of(options), patience)
        warehouse = options.get("warehouse", "")
        answer = _config(server, warehouse)
        effective = {
            **rest_json.option_map(answer, "defaults"),
            **options,
            **rest_json.option_map(answer, "overrides"),
        }
        headers = tuple(sorted(_headers(effective).items()))
        return cls(replace(server, headers=headers), effective.get("prefix", ""), warehouse, effective)

    # Databases.

    def list_databases(self, pattern: str | None = None) -> list[str]:
        """Return the names of all databases, those that a prefix with `%` matches."""
        return _unique(_all_pages(lambda token: self.list_databases_page(None, token, pattern)))

    def list_databases_page(self, max_results: int | None, token: str | None, pattern: str | None) -> Page[str]:
        """Return a page of the names of the databases."""
        query = _paging(max_results, token, databaseNamePattern=pattern)
        return _page(self._get(self._path("databases"), query), "databases", rest_json.names)

    def create_database(self, name: str, options: Mapping[str, str]) -> None:
        """Make a database."""
        segment("database", name)
        self._post(self._path("databases"), {"name": name, "options": dict(options)}, about=name)

    def get_database(self, name: str) -> ServerDatabase:
        """Return a database."""
        return self._get(self._database(name), about=name).read(rest_json.database_from_json)

    def alter_database(self, name: str, removals: Sequence[str], updates: Mapping[str, str]) -> None:
        """Change the options of a database."""
        self._post(self._database(name), {"removals": list(removals), "updates": dict(updates)}, about=name)

    def drop_database(self, name: str) -> None:
        """Drop a database with all its tables."""
        self._delete(self._database(name), about=name)

    # Tables.

    def list_tables(self, database: str, pattern: str | None = None, table_type: str | None = None) -> list[str]:
        """Return the names of all tables of a database, those that a prefix with `%` matches, or of one type."""
        return _unique(_all_pages(lambda token: self.list_tables_page(database, None, token, pattern, table_type)))

    def list_tables_page(
        self,
        database: str,
        max_results: int | None,
        token: str | None,
        pattern: str | None,
        table_type: str | None = None,
    ) -> Page[str]:
        """Return a page of the names of the tables of a database."""
        query = _paging(max_results, token, tableNamePattern=pattern, tableType=table_type)
        return _page(self._get(f"{self._database(database)}/tables", query, about=database), "tables", rest_json.names)

    def list_table_details(self, database: str, pattern: str | None = None) -> list[ServerTable]:
        """Return all tables of a database with their schemas. Options there may repeat the path or the branch."""

        def page(token: str | None) -> Page[ServerTable]:
            answer = self._get(
                f"{self._database(database)}/table-details",
                _paging(None, token, tableNamePattern=pattern),
                about=database,
            )
            return _page(answer, "tableDetails", _each(rest_json.table_from_json))

        return list(_all_pages(page))

    def get_table(self, identifier: Identifier) -> ServerTable:
        """Return a table, or a branch of it."""
        return self._get(self._table(identifier), about=identifier).read(rest_json.table_from_json)

    def get_table_by_id(self, table_id: str) -> ServerTable:
        """Return the table that has an id, whatever its name is now."""
        return self._get(self._path("tables", "id", segment("table id", table_id))).read(rest_json.table_from_json)

    def create_table(self, identifier: Identifier, schema: TableSchema) -> None:
        """Make a table."""
        body = {"identifier": _identifier_json(identifier), "schema": rest_json.schema_to_json(schema)}
        self._post(f"{self._database(identifier.get_database_name())}/tables", body, about=identifier)

    def alter_table(self, identifier: Identifier, changes: Iterable[SchemaChange]) -> None:
        """Make one new schema with all of the changes, or none."""
        self._post(
            self._table(identifier), {"changes": [rest_json.change_to_json(c) for c in changes]}, about=identifier
        )

    def drop_table(self, identifier: Identifier) -> None:
        """Drop a table; the server deletes the files of one that it placed itself."""
        self._delete(self._table(identifier), about=identifier)

    def rename_table(self, source: Identifier, destination: Identifier) -> None:
        """Give a table another name; its id stays."""
        body = {"source": _identifier_json(source), "destination": _identifier_json(destination)}
        try:
            self._post(self._path("tables", "rename"), body, about=source)
        except TableAlreadyExistException as error:
            name = destination.get_full_name()
            raise TableAlreadyExistException(
                f"table {name} already exists", table=name, identifier=destination
            ) from error

    def table_token(self, identifier: Identifier) -> TableToken:
        """Return credentials for the storage of a table."""
        return self._get(f"{self._table(identifier)}/token", about=identifier).read(rest_json.token_from_json)

    # Snapshots and the commit.

    def latest_snapshot(self, identifier: Identifier) -> Snapshot | None:
        """Return the newest snapshot, None for an empty table; UnsupportedError where files decide."""
        answer = self._snapshot_or_none(f"{self._table(identifier)}/snapshot", identifier)
        return (
            None
            if answer is None
            else answer.read(
                lambda members: rest_json.snapshot_from_json(
                    rest_json.member(rest_json.member(members, "snapshot", dict), "snapshot", dict)
                )
            )
        )

    def get_snapshot(self, identifier: Identifier, version: int | str) -> Snapshot | None:
        """Return the snapshot of an id, of a tag, the `EARLIEST` or the `LATEST`; None if there is none."""
        name = segment("snapshot", str(version))
        answer = self._snapshot_or_none(f"{self._table(identifier)}/snapshots/{name}", identifier)
        return None if answer is None else answer.read(_snapshot_member)

    def list_snapshots(self, identifier: Identifier) -> list[Snapshot]:
        """Return all snapshots."""

        def page(token: str | None) -> Page[Snapshot]:
            answer = self._get(f"{self._table(identifier)}/snapshots", _paging(None, token), about=identifier)
            return _page(answer, "snapshots", _each(rest_json.snapshot_from_json))

        return list(_all_pages(page))

    def commit(
        self,
        identifier: Identifier,
        table_id: str,
        base_uuid: str | None,
        snapshot: Snapshot,
        changes: Iterable[Partition],
    ) -> bool:
        """Ask the server to make a snapshot the newest one, and return whether it says that it did.

        `base_uuid` is the uuid of the snapshot that it was planned on, None for none or for one without a uuid;
        `changes` is what it adds to each partition.
        """
        body = {
            "tableId": table_id,
            "baseSnapshotUuid": base_uuid,
            "snapshot": rest_json.snapshot_to_json(snapshot),
            "statistics": [rest_json.partition_to_json(change) for change in changes],
        }
        request = Request("POST", f"{self._table(identifier)}/commit", body=_json(body))
        answer = self._send(request, identifier, commit_error)
        return answer.read(lambda members: rest_json.member(members, "success", bool))

    def rollback(self, identifier: Identifier, target: int | str, from_snapshot: int | None = None) -> None:
        """Make a snapshot (by its id) or a tag (by its name) the newest state; all later snapshots are removed.

        With `from_snapshot` only if that one is the newest now.
        """
        by_id = {"type": "snapshot", "snapshotId": target}
        instant = by_id if isinstance(target, int) else {"type": "tag", "tagName": target}
        guard = {} if from_snapshot is None else {"fromSnapshot": from_snapshot}
        self._post(f"{self._table(identifier)}/rollback", {"instant": instant, **guard}, about=identifier)

    def rollback_schema(self, identifier: Identifier, schema_id: int) -> None:
        """Make a schema the newest one; all later ones are removed."""
        self._post(f"{self._table(identifier)}/rollback-schema", {"schemaId": schema_id}, about=identifier)

    # Partitions.

    def list_partitions(self, identifier: Identifier, pattern: str | None = None) -> list[Partition]:
        """Return all partitions; UnsupportedError where the server keeps no list of them."""
        return list(_all_pages(lambda token: self.list_partitions_page(identifier, None, token, pattern)))

    def list_partitions_page(
        self, identifier: Identifier, max_results: int | None, token: str | None, pattern: str | None
    ) -> Page[Partition]:
        """Return a page of the partitions."""
        query = _paging(max_results, token, partitionNamePattern=pattern)
        answer = self._get(f"{self._table(identifier)}/partitions", query, about=identifier)
        return _page(answer, "partitions", _partitions)

    def list_partitions_by_names(self, identifier: Identifier, specs: Sequence[Mapping[str, str]]) -> list[Partition]:
        """Return those of some partitions that exist."""
        path, found = f"{self._table(identifier)}/partitions/list-by-names", []
        for start in range(0, len(specs), SPECS_MAX):
            body = {"specs": [dict(spec) for spec in specs[start : start + SPECS_MAX]]}
            answer = self._post(path, body, reads_only=True, about=identifier)
            found += _page(answer, "partitions", _partitions).elements
        return found

    def mark_partitions(self, identifier: Identifier, specs: Sequence[Mapping[str, str]]) -> None:
        """Mark partitions as done."""
        body = {"specs": [dict(spec) for spec in specs]}
        self._post(f"{self._table(identifier)}/partitions/mark", body, about=identifier)

    # Tags and branches.

    def list_tags(self, identifier: Identifier) -> list[str]:
        """Return the names of all tags."""
        return _unique(_all_pages(lambda token: self.list_tags_page(identifier, None, token)))

    def list_tags_page(self, identifier: Identifier, max_results: int | None, token: str | None) -> Page[str]:
        """Return a page of the names of the tags. Servers disagree about prefixes, so none is asked for."""
        answer = self._get(f"{self._table(identifier)}/tags", _paging(max_results, token), about=identifier)
        return _page(answer, "tags", rest_json.names)

    def create_tag(
        self, identifier: Identifier, name: str, snapshot_id: int | None = None, time_retained_millis: int | None = None
    ) -> None:
        """Give a snapshot, by default the newest, a name."""
        segment("tag", name)
        body: dict[str, object] = {"tagName": name}
        if snapshot_id is not None:
            body["snapshotId"] = snapshot_id
        if time_retained_millis is not None:
            body["timeRetained"] = f"{time_retained_millis} ms"
        self._post(f"{self._table(identifier)}/tags", body, about=identifier)

    def get_tag(self, identifier: Identifier, name: str) -> Tag:
        """Return a tag."""
        path = f"{self._table(identifier)}/tags/{segment('tag', name)}"
        return self._get(path, about=identifier).read(rest_json.tag_from_json)

    def delete_tag(self, identifier: Identifier, name: str) -> None:
        """Delete a tag."""
        self._delete(f"{self._table(identifier)}/tags/{segment('tag', name)}", about=identifier)

    def list_branches(self, identifier: Identifier) -> list[str]:
        """Return the names of the branches beside `main`."""
        answer = self._get(f"{self._table(identifier)}/branches", about=identifier)
        return answer.read(lambda members: rest_json.names(rest_json.list_member(members, "branches")))

    def create_branch(self, identifier: Identifier, name: str, from_tag: str | None = None) -> None:
        """Make a branch at the state of a tag, without one an empty branch."""
        segment("branch", name)
        body = {"branch": name} if from_tag is None else {"branch": name, "fromTag": from_tag}
        self._post(f"{self._table(identifier)}/branches", body, about=identifier)

    def drop_branch(self, identifier: Identifier, name: str) -> None:
        """Drop a branch."""
        self._delete(self._branch(identifier, name), about=identifier)

    def fast_forward(self, identifier: Identifier, name: str) -> None:
        """Bring the table to the state of a branch."""
        self._post(f"{self._branch(identifier, name)}/forward", {}, about=identifier)

    def rename_branch(self, identifier: Identifier, name: str, new_name: str) -> None:
        """Give a branch another name. A server may answer that it did although it did nothing: look afterwards."""
        segment("branch", new_name)
        self._post(f"{self._branch(identifier, name)}/rename", {"toBranch": new_name}, about=identifier)

    # From names to requests.

    def _path(self, *parts: str) -> str:
        prefix = (segment("prefix", self.prefix),) if self.prefix else ()
        return "/".join(("/v1", *prefix, *parts))

    def _database(self, name: str) -> str:
        return self._path("databases", segment("database", name))

    def _table(self, identifier: Identifier) -> str:
        return f"{self._database(identifier.get_database_name())}/tables/{segment('table', object_name(identifier))}"

    def _branch(self, identifier: Identifier, name: str) -> str:
        return f"{self._table(identifier)}/branches/{segment('branch', name)}"

    def _get(self, path: str, query: Mapping[str, str] | None = None, *, about: About = None) -> _Answer:
        return self._send(Request("GET", path, query_text(query or {}), reads_only=True), about)

    def _post(self, path: str, body: Mapping[str, object], *, about: About = None, reads_only: bool = False) -> _Answer:
        return self._send(Request("POST", path, body=_json(body), reads_only=reads_only), about)

    def _delete(self, path: str, *, about: About) -> None:
        self._send(Request("DELETE", path), about)

    def _send(self, request: Request, about: About, error: ErrorOf = public_error) -> _Answer:
        facts = _facts(about)
        try:
            return _Answer(self.server.send(request), request, facts)
        except CallFailed as failure:
            raise error(failure, request.name, facts) from failure

    def _snapshot_or_none(self, path: str, identifier: Identifier) -> _Answer | None:
        try:
            return self._get(path, about=identifier)
        except NotFoundError as error:
            cause = error.__cause__
            if isinstance(cause, Refused) and cause.body.resource_type == "SNAPSHOT":
                return None
            raise


@dataclass(frozen=True, slots=True)
class _Answer:
    """The members of an answer, and the request it answers."""

    members: Mapping[str, JSON] = field(repr=False)
    request: Request
    facts: Mapping[str, object]

    def read(self, convert: Callable[[Mapping[str, JSON]], T]) -> T:
        """Return the value in the members; one that cannot be read counts as no answer."""
        try:
            return convert(self.members)
        except rest_json.Unreadable as cause:
            failure = NoAnswer(str(cause), is_passing=False)
            raise public_error(failure, self.request.name, self.facts) from cause


def _config(server: Server, warehouse: str) -> dict[str, JSON]:
    query = {"warehouse": warehouse} if warehouse else {}
    request = Request("GET", "/v1/config", query_text(query), reads_only=True)
    try:
        return server.send(request)
    except CallFailed as failure:
        if isinstance(failure, Refused) and failure.body.code == NOT_FOUND:
            raise NotFoundError(
                f"the server {server.host}:{server.port} has no catalog {warehouse!r}: the option 'warehouse' of a REST"
                " catalog is the name of a catalog on the server, not a path",
                option="warehouse",
                warehouse=warehouse,
            ) from failure
        raise public_error(failure, request.name, {}) from failure


def _headers(options: Mapping[str, str]) -> dict[str, str]:
    """Return the HTTP headers that the options `header.<Name>` ask for."""
    return {key.removeprefix(_HEADER): value for key, value in options.items() if key.startswith(_HEADER)}


def _facts(about: About) -> dict[str, object]:
    """Return what errors of a request tell about its table or database."""
    if isinstance(about, Identifier):
        name = about.get_full_name()
        return {"database": about.get_database_name(), "table": name, "identifier": about}
    return {} if about is None else {"database": about}


def _identifier_json(identifier: Identifier) -> dict[str, str]:
    segment("database", identifier.get_database_name())
    segment("table", object_name(identifier))
    return {"database": identifier.get_database_name(), "object": object_name(identifier)}


def _json(body: Mapping[str, object]) -> bytes:
    try:
        return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        raise InvalidInputError("a name, option or comment is not valid Unicode") from None


# Pages.


def _paging(max_results: int | None, token: str | None, **patterns: str | None) -> dict[str, str]:
    """Return the query that asks for a page; what is absent, 0 or empty is not sent."""
    asked = {"maxResults": str(max_results) if max_results else None, "pageToken": token, **patterns}
    return {key: value for key, value in asked.items() if value}


def _page(answer: _Answer, key: str, elements: Callable[[list[JSON]], list[T]]) -> Page[T]:
    def read(members: Mapping[str, JSON]) -> Page[T]:
        return Page(elements(rest_json.list_member(members, key)), rest_json.optional_text(members, "nextPageToken"))

    return answer.read(read)


def _each(convert: Callable[[Mapping[str, JSON]], T]) -> Callable[[list[JSON]], list[T]]:
    def elements(values: list[JSON]) -> list[T]:
        if not all(isinstance(value, dict) for value in values):
            raise rest_json.Unreadable("the answer of the server has a list with an element that is no object")
        return [convert(value) for value in values if isinstance(value, dict)]

    return elements


def _partitions(values: list[JSON]) -> list[Partition]:
    return [rest_json.partition_from_json(value) for value in values]


def _snapshot_member(members: Mapping[str, JSON]) -> Snapshot:
    return rest_json.snapshot_from_json(rest_json.member(members, "snapshot", dict))


def _all_pages(fetch: Callable[[str | None], Page[T]]) -> Iterable[T]:
    """Yield the elements of all pages: until a page is empty or has no token for the next one."""
    token: str | None = None
    seen: set[str] = set()
    while True:
        page = fetch(token)
        yield from page.elements
        if not page.elements or page.next_token is None:
            return
        token = page.next_token
        if token in seen or len(seen) > _PAGES_MAX:
            raise _endless()
        seen.add(token)


def _endless() -> LakewrightError:
    return CatalogServerError(
        "the server's list does not end: it repeats the token of a page", perhaps_done=False, code=None
    )


def _unique(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(values))
