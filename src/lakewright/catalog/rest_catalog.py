"""The REST catalog; data tokens."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import pyarrow as pa

from lakewright.catalog.catalog import (
    Catalog,
    Database,
    as_identifier,
    as_schema,
    now_millis,
    plain_identifier,
    table_exists,
    with_defaults,
)
from lakewright.catalog.listing import PagedList, page
from lakewright.catalog.rest_api import RestApi
from lakewright.catalog.rest_authority import ATTEMPTS_MAX, RestAuthority, RestTable, carry_out
from lakewright.catalog.rest_json import ServerTable
from lakewright.catalog.sys_database import check_not_system, is_system, system_database_tables
from lakewright.errors import (
    BranchNotExistException,
    DatabaseAlreadyExistException,
    DatabaseNotEmptyException,
    DatabaseNotExistException,
    InvalidInputError,
    NotFoundError,
    TableAlreadyExistException,
    TableNotExistException,
    UnsupportedError,
    with_table_name,
)
from lakewright.lsm.merge_rows import check_merging
from lakewright.maintenance.external_directories import check_external_places
from lakewright.metadata.schema_files import SchemaFiles
from lakewright.metadata.table_store import TableStore, apply_layout_options, format_partition_spec
from lakewright.spec import argument_checks
from lakewright.spec.identifier import MAIN_BRANCH, Identifier
from lakewright.spec.manifest import Partition
from lakewright.spec.option_checks import check_catalog_options, warn_unknown_options
from lakewright.spec.schema import Schema, new_table_schema
from lakewright.spec.schema_checks import check_column_types
from lakewright.spec.table_schema import TableSchema
from lakewright.storage.credentials import EXPIRES_AT_MILLIS, Credentials, setting_names
from lakewright.storage.storage import Storage
from lakewright.storage.storage_registry import open_storage
from lakewright.storage.table_layout import Layout, check_name
from lakewright.table.file_store_table import FileStoreTable
from lakewright.table.open_table import open_layout

# ---- Data tokens of tables -------------------------------------------------------------------------------------------
# A token is asked for when the storage is used, once per life, table, caller and process; processes of engines ask by
# themselves, without the configuration of the server. What a token holds is laid over the effective options. Files on
# a disk need no token.

_ENABLED = "data-token.enabled"
_OSS_ENDPOINT, _OSS_ENDPOINT_FOR_US = "fs.oss.endpoint", "dlf.oss-endpoint"
_SWITCH = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class DataTokens:
    """Asks the server for the keys of one table. Equal values share the keys of a process."""

    api: RestApi
    table: Identifier  # with its branch, without the name of a system table

    def __call__(self) -> Mapping[str, object]:
        """Return the keys as options, and when they expire."""
        token = self.api.table_token(self.table)
        issued: dict[str, object] = {**token.options, EXPIRES_AT_MILLIS: token.expires_at_millis}
        endpoint = token.options.get(_OSS_ENDPOINT_FOR_US) or self.api.options.get(_OSS_ENDPOINT_FOR_US)
        return {**issued, _OSS_ENDPOINT: endpoint} if endpoint else issued


def table_storage(
    api: RestApi, identifier: Identifier, path: str, *, is_external: bool, credentials: Credentials | None = None
) -> tuple[Storage, str]:
    """Return the storage of a table and its location there.

    The server issues the keys of a managed table if it is set up so; otherwise, and for external tables, the effective
    options hold them, or the user's `credentials` do.
    """
    if issues_tokens(api.options) and not is_external:
        table = Identifier(identifier.database, identifier.table, identifier.branch)
        tokens = DataTokens(api, table)
        credentials = Credentials(tokens, tokens, f"table {table.get_full_name()}")
    return open_storage(path, api.options, credentials)


def issues_tokens(options: Mapping[str, str]) -> bool:
    """Return whether the server issues the keys of its tables.

    >>> issues_tokens({"data-token.enabled": "true"}), issues_tokens({})
    (True, False)
    """
    value = options.get(_ENABLED, "false").strip().lower()
    if value not in _SWITCH:
        raise InvalidInputError(f"the option {_ENABLED!r} is true or false, not {value!r}", option=_ENABLED)
    return _SWITCH[value]


# ---- The catalog -----------------------------------------------------------------------------------------------------
# The tables of a REST server. A table is stored where the server says, and its
# schema is read from the file that the server names. After a lost answer the server is asked what became of the call;
# where it cannot tell, that is a CommitUnknownError.

_TYPE, _QUERY_AUTH, _PATH = "type", "query-auth.enabled", "path"
_PREFIX_PATTERN = re.compile(r"([^*%_\\]+)[*%]")  # what servers can look for


@dataclass(frozen=True, slots=True)
class RESTCatalog(Catalog):
    """Databases and tables of one catalog on a server. `warehouse` is the name of the catalog there.

    `options` are the effective ones: the server's defaults, the user's, and what the server overrides.
    """

    api: RestApi
    warehouse: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    credentials: Credentials | None = field(default=None, repr=False)  # of storages, where the server issues none

    # Databases.

    def list_databases(self) -> list[str]:
        """Return the names of the databases, in order."""
        return sorted(self.api.list_databases())

    def list_databases_paged(
        self,
        max_results: int | None = None,
        page_token: str | None = None,
        database_name_pattern: str | None = None,
    ) -> PagedList[str]:
        """Return a page of the names of the databases, those that match a pattern such as `sales_*`."""
        asked = _server_pattern(max_results, page_token, database_name_pattern)
        if asked is None:
            return page(self.list_databases(), max_results, page_token, pattern=database_name_pattern)
        found = self.api.list_databases_page(max_results, page_token, asked)
        return PagedList(found.elements, found.next_token)

    def create_database(
        self,
        name: str,
        ignore_if_exists: bool = False,  # noqa: FBT001, FBT002 - pypaimon's signature
        properties: Mapping[str, object] | None = None,
    ) -> None:
        """Create a database; the server stores its properties."""
        _check_database(name)
        ignored = argument_checks.check_bool("ignore_if_exists", ignore_if_exists)
        options = {} if properties is None else argument_checks.check_text_mapping("properties", properties)
        try:
            carry_out(
                f"whether database {name} was created",
                lambda: self.api.create_database(name, options),
                lambda: self._database_options(name) is not None,
                ATTEMPTS_MAX,
                database=name,
            )
        except DatabaseAlreadyExistException:
            if not ignored:
                raise

    def get_database(self, name: str) -> Database:
        """Return a database with its properties, or raise DatabaseNotExistException."""
        if is_system(name):
            return Database(name)
        _check_database(name)
        options = self.api.get_database(name).options
        return Database(name, options, options.get("comment"))

    def alter_database(self, name: str, changes: Mapping[str, object | None]) -> None:
        """Set properties of a database; None removes one."""
        _check_database(name)
        given = argument_checks.check_mapping("changes", changes)
        removals = [key for key, value in given.items() if value is None]
        updates = argument_checks.check_text_mapping(
            "changes", {key: value for key, value in given.items() if value is not None}
        )

        def is_changed() -> bool:
            now = self._database_options(name) or {}
            return now.keys().isdisjoint(removals) and updates.items() <= now.items()

        carry_out(
            f"whether database {name} was changed",
            lambda: self.api.alter_database(name, removals, updates),
            is_changed,
            ATTEMPTS_MAX,
            database=name,
        )

    def drop_database(
        self,
        name: str,
        ignore_if_not_exists: bool = False,  # noqa: FBT001, FBT002 - pypaimon's signature
        cascade: bool = False,  # noqa: FBT001, FBT002
    ) -> None:
        """Drop a database; one that holds tables only with `cascade`, and then the server drops them too."""
        _check_database(name)
        ignored = argument_checks.check_bool("ignore_if_not_exists", ignore_if_not_exists)
        try:
            if not argument_checks.check_bool("cascade", cascade):
                self._check_empty(name)
            carry_out(
                f"whether database {name} was dropped",
                lambda: self.api.drop_database(name),
                lambda: self._database_options(name) is None,
                database=name,
            )
        except DatabaseNotExistException:
            if not ignored:
                raise

    def _check_empty(self, name: str) -> None:
        tables = self.api.list_tables_page(name, 5, None, None).elements
        if tables:
            raise DatabaseNotEmptyException(
                f"database {name} holds tables ({', '.join(tables)}); drop them or pass cascade=True",
                database=name,
                tables=tuple(tables),
            )

    def _database_options(self, name: str) -> Mapping[str, str] | None:
        """Return the properties of a database, None where there is none."""
        try:
            return self.api.get_database(name).options
        except DatabaseNotExistException:
            return None

    # Tables.

    def list_tables(self, database_name: str) -> list[str]:
        """Return the names of the tables of a database, in order."""
        if is_system(database_name):
            return system_database_tables()
        _check_database(database_name)
        return sorted(self.api.list_tables(database_name))

    def list_tables_paged(
        self,
        database_name: str,
        max_results: int | None = None,
        page_token: str | None = None,
        table_name_pattern: str | None = None,
        table_type: str | None = None,
    ) -> PagedList[str]:
        """Return a page of the names of the tables of a database, those that match a pattern such as `orders_*`.

        `table_type` is a value of the option `type`, such as `table` or `format-table`.
        """
        _check_database(database_name)
        asked = _server_pattern(max_results, page_token, table_name_pattern)
        kind = argument_checks.check_optional(argument_checks.check_text, "table_type", table_type)
        if asked is None:
            names = sorted(self.api.list_tables(database_name, None, kind))
            return page(names, max_results, page_token, pattern=table_name_pattern)
        found = self.api.list_tables_page(database_name, max_results, page_token, asked, kind)
        return PagedList(found.elements, found.next_token)

    def create_table(
        self,
        identifier: str | Identifier,
        schema: Schema | pa.Schema,
        ignore_if_exists: bool = False,  # noqa: FBT001, FBT002 - pypaimon's signature
    ) -> None:
        """Create a table, which the server places. An Arrow schema stands for columns without keys and options."""
        name = _check_identifier(plain_identifier(identifier))
        declared = with_defaults(as_schema(schema), self.options)
        ignored = argument_checks.check_bool("ignore_if_exists", ignore_if_exists)
        with with_table_name(name.get_full_name()):
            _check_kind(declared.options)
            if _PATH in declared.options:
                raise UnsupportedError(
                    "the option 'path' asks for an external table, which a REST catalog cannot be asked for here: leave"
                    " it out, and the server places the table",
                    option=_PATH,
                )
            new_schema = new_table_schema(declared, time_millis=now_millis())
            check_merging(new_schema)
            check_column_types(new_schema)
            self._check_external_paths(new_schema)
        warn_unknown_options(f"table {name.get_full_name()}", name.get_full_name(), new_schema.options)
        try:
            carry_out(
                f"whether table {name.get_full_name()} was created",
                lambda: self.api.create_table(name, new_schema),
                lambda: self._has(name, new_schema),
                ATTEMPTS_MAX,
                table=name.get_full_name(),
            )
        except TableAlreadyExistException as error:
            if not ignored:
                raise table_exists(name) from error

    def _check_external_paths(self, schema: TableSchema) -> None:
        """Check external paths against the places of all tables; that of the new one is the server's to choose."""
        outside = apply_layout_options(Layout(""), schema).external_directories
        if outside:
            databases = self.api.list_databases()
            tables = [(d, table) for d in databases for table in self.api.list_table_details(d)]
            check_external_places(
                Layout("", external_directories=outside), {f"{d}.{t.name}": t.path for d, t in tables}
            )

    def _has(self, name: Identifier, schema: TableSchema) -> bool:
        found = self._find(name)
        return found is not None and found.agrees_with(schema)

    def _find(self, name: Identifier) -> ServerTable | None:
        try:
            return self.api.get_table(name)
        except (TableNotExistException, DatabaseNotExistException):
            return None

    def drop_table(
        self,
        identifier: str | Identifier,
        ignore_if_not_exists: bool = False,  # noqa: FBT001, FBT002 - pypaimon's signature
    ) -> None:
        """Drop a table. The server deletes its files, unless the table is external."""
        name = _check_identifier(plain_identifier(identifier))
        ignored = argument_checks.check_bool("ignore_if_not_exists", ignore_if_not_exists)
        try:
            carry_out(
                f"whether table {name.get_full_name()} was dropped",
                lambda: self.api.drop_table(name),
                lambda: self._find(name) is None,
                table=name.get_full_name(),
            )
        except (TableNotExistException, DatabaseNotExistException):
            if not ignored:
                raise

    def rename_table(
        self,
        source_identifier: str | Identifier,
        target_identifier: str | Identifier,
        ignore_if_not_exists: bool = False,  # noqa: FBT001, FBT002 - pypaimon's signature
    ) -> None:
        """Give a table another name."""
        source, target = (
            _check_identifier(plain_identifier(source_identifier)),
            _check_identifier(plain_identifier(target_identifier)),
        )
        ignored = argument_checks.check_bool("ignore_if_not_exists", ignore_if_not_exists)
        if source.get_database_name() != target.get_database_name():
            self.api.get_database(target.get_database_name())  # some servers take the name of one that does not exist
        try:
            carry_out(
                f"whether table {source.get_full_name()} was renamed",
                lambda: self.api.rename_table(source, target),
                lambda: self._find(source) is None and self._find(target) is not None,
                ATTEMPTS_MAX,
                table=source.get_full_name(),
            )
        except (TableNotExistException, DatabaseNotExistException):
            if not ignored:
                raise

    def list_partitions_paged(
        self,
        identifier: str | Identifier,
        max_results: int | None = None,
        page_token: str | None = None,
        partition_name_pattern: str | None = None,
    ) -> PagedList[Partition]:
        """Return partitions with their counts as the server knows them, else those of the newest snapshot.

        A name is `k1=v1/k2=v2`; in a pattern, such as `dt=2024-02*`, a `*` stands for any text. The pages of a server
        come in its own order.
        """
        name = _check_identifier(as_identifier(identifier))
        asked = _server_pattern(max_results, page_token, partition_name_pattern)
        with suppress(UnsupportedError):
            if asked is not None:
                found = self.api.list_partitions_page(name, max_results, page_token, asked)
                return PagedList(sorted(found.elements, key=lambda p: format_partition_spec(p.spec)), found.next_token)
            named = {format_partition_spec(p.spec): p for p in self.api.list_partitions(name)}
            names = page(sorted(named), max_results, page_token, pattern=partition_name_pattern)
            return PagedList([named[one] for one in names.elements], names.next_page_token)
        # The server keeps no list of this table's partitions.
        return super(RESTCatalog, self).list_partitions_paged(
            identifier, max_results, page_token, partition_name_pattern
        )

    # From names to tables.

    def _table(self, name: Identifier) -> FileStoreTable:
        own = _check_identifier(Identifier.create(name.get_database_name(), name.get_table_name(), _branch(name)))
        branch = own.get_branch_name()
        found = self._describe_table(own)
        with with_table_name(own.get_full_name()):
            _check_kind(found.options)
        storage, root = table_storage(
            self.api, own, found.path, is_external=found.is_external, credentials=self.credentials
        )
        if branch is not None and found.is_external:
            return open_layout(own, storage, Layout(root))  # such a branch is known to its files alone
        layout = Layout(root) if branch is None else Layout(root).for_branch(branch)
        try:
            opened = SchemaFiles(storage, layout).open_schema(found.schema_id)
        except NotFoundError as error:
            self.api.get_table(own)  # raises an error if the table was dropped or renamed meanwhile
            raise NotFoundError(
                f"{own.get_full_name()}: the server says that its schema is {found.schema_id}, and there is no such "
                f"file; an external table is opened once an engine has written its schema ({error})",
                table=own.get_full_name(),
            ) from error
        assert opened is not None  # noqa: S101 - it is None only where no id is asked for
        schema, origin = opened
        warn_unknown_options(f"table {own.get_full_name()}", layout.root, schema.options)
        home = RestAuthority(RestTable(self.api, own, found.id), found.is_external)
        store = TableStore(own.get_full_name(), storage, apply_layout_options(layout, schema), schema, origin, home)
        return FileStoreTable(own, store)

    def _describe_table(self, name: Identifier) -> ServerTable:
        """Return what the server says of a table or branch; of a branch that it does not know, what of its table."""
        try:
            return self.api.get_table(name)
        except TableNotExistException as error:
            branch = name.get_branch_name()
            table = Identifier.create(name.get_database_name(), name.get_table_name())
            found = None if branch is None else self._find(table)
            if found is None:
                raise
            if found.is_external:
                return found
            known = sorted(self.api.list_branches(table))
            raise BranchNotExistException(
                f"{table.get_full_name()}: the branch {branch} does not exist (branches: {known})",
                table=table.get_full_name(),
                branch=branch,
            ) from error


def _server_pattern(max_results: int | None, page_token: str | None, pattern: str | None) -> str | None:
    """Return the pattern to ask the server for, empty for all names; None if servers do not know such patterns."""
    argument_checks.check_optional(argument_checks.check_positive, "max_results", max_results)
    argument_checks.check_optional(argument_checks.check_text, "page_token", page_token)
    if argument_checks.check_optional(argument_checks.check_text, "the pattern of names", pattern) is None:
        return ""
    match = _PREFIX_PATTERN.fullmatch(pattern or "")
    return None if match is None else f"{match[1]}%"


def _branch(name: Identifier) -> str | None:
    branch = name.get_branch_name()
    return None if branch == MAIN_BRANCH else branch


def _check_identifier(name: Identifier) -> Identifier:
    """Return a name after a check that it can be one."""
    _check_database(name.get_database_name())
    check_name("table", name.get_table_name())
    return name


def _check_database(name: str) -> None:
    check_name("database", name)
    check_not_system(name)


def _check_kind(options: Mapping[str, str]) -> None:
    """Raise UnsupportedError for tables that are not read and written by the rules of Paimon tables alone."""
    kind = options.get(_TYPE, "table").strip().lower()
    if kind != "table":
        raise UnsupportedError(f"it is of the type {kind!r}, and only Paimon tables are supported", option=_TYPE)
    if options.get(_QUERY_AUTH, "false").strip().lower() == "true":
        raise UnsupportedError(
            f"{_QUERY_AUTH!r} lets the server decide which rows and columns a reader may see, which is not implemented",
            option=_QUERY_AUTH,
        )


def open_rest(options: Mapping[str, str], credentials: Credentials | None = None) -> RESTCatalog:
    """Open the catalog that a server has under the name `warehouse`."""
    api = RestApi.connect(options)
    check_catalog_options(f"{options['uri']} {api.warehouse}", options, setting_names())
    return RESTCatalog(api, api.warehouse, api.options, credentials)
