"""The SQL catalog; its lock as a table authority."""

# ruff: noqa: S608 - statements are put together from names of this module; values are always passed beside them

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace

import pyarrow as pa

from lakewright.catalog.catalog import (
    Catalog,
    Database,
    as_schema,
    create_first,
    first_schema,
    has_schema,
    has_snapshot,
    layout_of,
    plain_identifier,
    remove_table,
    table_exists,
    wait_for_distinct_timestamp,
)
from lakewright.catalog.sql_database import EXISTS, LOCATION, LOCKS, CatalogRows, Run, Value, database, table_properties
from lakewright.catalog.sql_drivers import Address, parse_address
from lakewright.catalog.sys_database import check_not_system, is_system, system_database_tables
from lakewright.errors import (
    CatalogServerError,
    CommitContentionError,
    CommitUnknownError,
    DatabaseAlreadyExistException,
    DatabaseNotEmptyException,
    DatabaseNotExistException,
    InvalidInputError,
    LakewrightError,
    LakewrightWarning,
    NotFoundError,
    TableNotExistException,
    UnsupportedError,
    pluralize,
)
from lakewright.maintenance.external_directories import move_claims
from lakewright.metadata.authority import TableAuthority
from lakewright.metadata.schema_files import SchemaFiles
from lakewright.spec import argument_checks
from lakewright.spec.identifier import Identifier
from lakewright.spec.option_checks import check_catalog_options
from lakewright.spec.option_values import parse_duration_millis
from lakewright.spec.schema import Schema
from lakewright.spec.table_schema import TableSchema
from lakewright.storage.credentials import Credentials, setting_names
from lakewright.storage.storage import Storage
from lakewright.storage.storage_registry import open_storage
from lakewright.storage.table_layout import MAIN_BRANCH, Layout, check_name, database_directory
from lakewright.table.file_store_table import FileStoreTable
from lakewright.table.open_table import open_layout

# ---- The lock of a table ---------------------------------------------------------------------------------------------
# A row is as old as the clock of the database says. One that is older than its time to live is of a holder that died,
# and is replaced by the next process that wants the lock. A holder that was so slow deletes only its own row. The
# lock is not reentrant.

_FIRST_SLEEP_MILLIS = 100
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LockSettings:
    """How long to wait for a lock, and how it is asked for; the names are those of the catalog options."""

    acquire_timeout_millis: int = 8 * 60_000  # `lock-acquire-timeout`; a lock lives as long
    check_max_sleep_millis: int = 8_000  # `lock-check-max-sleep`
    key_max: int = 255  # `lock-key-max-length`
    sleep: Callable[[float], None] = field(default=time.sleep, repr=False)
    clock: Callable[[], float] = field(default=time.monotonic, repr=False)


@dataclass(frozen=True, slots=True)
class SqlLock:
    """A lock by its id, `<catalog key>.<database>.<table>`."""

    address: Address
    lock_id: str
    settings: LockSettings = LockSettings()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock, or raise CommitContentionError if others hold it for longer than the timeout."""
        acquired_at = self._wait()
        try:
            yield
        finally:
            self._release(acquired_at)

    def _wait(self) -> Value:
        settings = self.settings
        if len(self.lock_id) > settings.key_max:
            raise InvalidInputError(
                f"the lock {self.lock_id!r} has {len(self.lock_id)} characters, and 'lock-key-max-length' is "
                f"{settings.key_max}: use shorter names",
                lock_id=self.lock_id,
            )
        began, pause = settings.clock(), _FIRST_SLEEP_MILLIS
        while True:
            acquired_at = self._try()
            if acquired_at is not None:
                return acquired_at
            waited = int((settings.clock() - began) * 1000)
            if waited >= settings.acquire_timeout_millis:
                raise self._timed_out(waited)
            settings.sleep(min(pause, settings.acquire_timeout_millis - waited) / 1000)
            pause = min(pause * 2, settings.check_max_sleep_millis)

    def _try(self) -> Value | None:
        """Take the lock and return the time that its row got; None means that another process holds it."""
        place = database(self.address)
        expired = f"DELETE FROM {LOCKS} WHERE lock_id = ? AND {place.driver.age} > expire_time_seconds"
        insert = f"INSERT INTO {LOCKS} (lock_id, expire_time_seconds) VALUES (?, ?)"
        seconds = max(1, self.settings.acquire_timeout_millis // 1000)
        acquired: list[Value] = []

        def work(run: Run) -> list[int]:
            run(expired, (self.lock_id,))
            run(insert, (self.lock_id, seconds))
            acquired.append(run(f"SELECT acquired_at FROM {LOCKS} WHERE lock_id = ?", (self.lock_id,))[1][0][0])
            return []

        try:
            taken = place.transact(work) is None
        except CommitContentionError:  # the database is busy with others, perhaps with this very row
            return None
        return None if taken else acquired[0]

    def _release(self, acquired_at: Value) -> None:
        """Delete the row if it is still the one that was inserted. What was done under the lock stands in any case."""
        delete = (f"DELETE FROM {LOCKS} WHERE lock_id = ? AND acquired_at = ?", (self.lock_id, acquired_at))
        for _ in range(2):
            try:
                database(self.address).write(delete)
            except LakewrightError as error:
                _LOG.warning("the lock %s was not released, and expires by itself: %s", self.lock_id, error)
            else:
                return

    def _timed_out(self, waited: int) -> CommitContentionError:
        seconds = self.settings.acquire_timeout_millis // 1000
        return CommitContentionError(
            f"the lock {self.lock_id} was held by others for {waited / 1000:.0f} s, and 'lock-acquire-timeout' is "
            f"{seconds} s; nothing was published. Try again; if its holder has died, delete the row "
            f"lock_id = '{self.lock_id}' of {LOCKS} in {self.address}",
            lock_id=self.lock_id,
            waited_millis=waited,
        )


# ---- The authority of tables in a SQL catalog ------------------------------------------------------------------------
# A home holds no connection and can be sent to a worker. What it holds of secrets it does not show.


@dataclass(frozen=True, slots=True)
class SqlAuthority(TableAuthority):
    """The home of one branch of a table that a SQL catalog names."""

    rows: CatalogRows
    database: str
    table: str
    lock: LockSettings | None = None  # None: publishing takes no lock
    copies_properties: bool = True  # option `sync-all-properties`
    branch: str = MAIN_BRANCH

    def hold_lock(self) -> AbstractContextManager[None]:
        """Hold the lock of the branch, which Java holds while it publishes a snapshot or a schema."""
        if self.lock is None:
            return nullcontext()
        name = self.table if self.branch == MAIN_BRANCH else f"{self.table}$branch_{self.branch}"
        lock_id = f"{self.rows.catalog_key}.{self.database}.{name}"
        return SqlLock(self.rows.address, lock_id, self.lock).held()

    def schema_changed(self, schema: TableSchema) -> None:
        """Copy the options of a new schema into the database. The schema file counts: a failure changes nothing."""
        if not self.copies_properties or self.branch != MAIN_BRANCH:
            return
        try:
            self.rows.set_table_properties(self.database, self.table, table_properties(schema))
        except LakewrightError as error:
            _LOG.warning("%s.%s: its options were not copied into the catalog: %s", self.database, self.table, error)

    def for_branch(self, branch: str) -> SqlAuthority:
        """Return the home of another branch of the same table."""
        return replace(self, branch=branch)


# ---- The catalog -----------------------------------------------------------------------------------------------------
# A name is free where neither the database nor the warehouse knows it. Files come first: `schema-0` is created, or
# the directory moved, in a step that only one process can make, and then the row is written. So a row without files
# is never made, and what a crash leaves behind is a whole table whose name is missing, which `repair_table` writes. A
# drop goes the other way: first the rows, then the files. No transaction is open while files are written.
#
# With `lock.enabled` (the default where the warehouse is an object store) creating, altering, renaming, dropping and
# publishing hold the lock that Java holds, since Java publishes there by renaming and would replace our files.

_LOOKS_MAX = 50  # how often to look for the row of a table that another process is creating
_LOOK_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class JdbcCatalog(Catalog):
    """Databases and tables whose names a SQL database holds.

    >>> import tempfile, lakewright
    >>> place = tempfile.mkdtemp()
    >>> options = {"metastore": "jdbc", "uri": f"jdbc:sqlite:{place}/names.db", "warehouse": f"{place}/lake"}
    >>> with lakewright.CatalogFactory.create(options) as catalog:
    ...     catalog.create_database("sales", properties={"owner": "ann"})
    ...     catalog.get_database("sales").options["owner"]
    'ann'
    """

    storage: Storage = field(repr=False)
    warehouse: str
    rows: CatalogRows
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    lock: LockSettings | None = field(default=None, repr=False)
    copies_properties: bool = field(default=True, repr=False)

    # Databases.

    def list_databases(self) -> list[str]:
        """Return the names of the databases."""
        return self.rows.databases()

    def create_database(
        self,
        name: str,
        ignore_if_exists: bool = False,  # noqa: FBT001, FBT002 - pypaimon's signature
        properties: Mapping[str, object] | None = None,
    ) -> None:
        """Create a database. Tables are below the warehouse, whatever a property `location` says."""
        check_name("database", name)
        check_not_system(name)
        argument_checks.check_bool("ignore_if_exists", ignore_if_exists)
        given = {} if properties is None else argument_checks.check_text_mapping("properties", properties)
        location = database_directory(self.warehouse, name)
        if given.get(LOCATION, location).rstrip("/") != location:
            warnings.warn(
                f"database {name}: the property 'location' is stored, but its tables are in {location}",
                LakewrightWarning,
                stacklevel=2,
            )
        if not self.rows.has_database(name) and self.rows.create_database(name, {LOCATION: location} | given):
            return
        if not ignore_if_exists:
            raise DatabaseAlreadyExistException(
                f"database {name} already exists; choose another name, or keep it (ignore_if_exists=True, "
                "--if-not-exists)",
                database=name,
            )

    def get_database(self, name: str) -> Database:
        """Return a database with its properties, or raise DatabaseNotExistException."""
        if is_system(name):
            return Database(name)
        self._require_database(name)
        options = self.rows.database_properties(name)
        return Database(name, options, options.get("comment"))

    def alter_database(self, name: str, changes: Mapping[str, object | None]) -> None:
        """Set properties of a database; None removes one."""
        self._require_database(name)
        given = argument_checks.check_mapping("changes", changes)
        if EXISTS in given:
            raise InvalidInputError(f"the property {EXISTS!r} of database {name} belongs to the catalog", option=EXISTS)
        updates = argument_checks.check_text_mapping(
            "changes", {key: value for key, value in given.items() if value is not None}
        )
        self.rows.change_database(name, updates, [key for key, value in given.items() if value is None])

    def drop_database(
        self,
        name: str,
        ignore_if_not_exists: bool = False,  # noqa: FBT001, FBT002 - pypaimon's signature
        cascade: bool = False,  # noqa: FBT001, FBT002
    ) -> None:
        """Drop a database; one that holds tables or views only with `cascade`, which drops them."""
        check_name("database", name)
        argument_checks.check_bool("ignore_if_not_exists", ignore_if_not_exists)
        argument_checks.check_bool("cascade", cascade)
        if not self.rows.has_database(name):
            if ignore_if_not_exists:
                return
            raise self._no_database(name)
        tables, views = self.rows.tables(name), self.rows.views(name)
        if (tables or views) and not cascade:
            raise DatabaseNotEmptyException(
                f"database {name} holds {pluralize(len(tables), 'table')} and {pluralize(len(views), 'view')} "
                f"({', '.join([*tables, *views][:5])}); drop them or pass cascade=True",
                database=name,
                tables=tuple(tables),
            )
        for table in tables:
            self.drop_table(Identifier.create(name, table), ignore_if_not_exists=True)
        self.rows.drop_database(name)
        self.storage.prune_directory(database_directory(self.warehouse, name))

    # Tables.

    def list_tables(self, database_name: str) -> list[str]:
        """Return the names of the tables of a database."""
        if is_system(database_name):
            return system_database_tables()
        self._require_database(database_name)
        return self.rows.tables(database_name)

    def create_table(
        self,
        identifier: str | Identifier,
        schema: Schema | pa.Schema,
        ignore_if_exists: bool = False,  # noqa: FBT001, FBT002 - pypaimon's signature
    ) -> None:
        """Create a table: its schema file, then its name in the database.

        An Arrow schema stands for a table of these columns without keys and options.
        """
        name = plain_identifier(identifier)
        declared = as_schema(schema)
        argument_checks.check_bool("ignore_if_exists", ignore_if_exists)
        if "path" in declared.options:
            raise UnsupportedError(
                f"{name.get_full_name()}: tables of a SQL catalog are below its warehouse: leave out the option 'path'",
                table=name.get_full_name(),
                option="path",
            )
        self._require_database(name.get_database_name())
        layout = self._layout(name)
        if not self._is_taken(name):
            new_schema = first_schema(name, declared, self.options, self.storage, layout)
            if self.copies_properties:
                self.rows.check_table_properties(name.get_full_name(), table_properties(new_schema))
            with self._lock_tables(name):
                created = self._create(name, layout, new_schema)
            if created:
                wait_for_distinct_timestamp(new_schema)
                return
        if not ignore_if_exists:
            raise table_exists(name)

    def drop_table(
        self,
        identifier: str | Identifier,
        ignore_if_not_exists: bool = False,  # noqa: FBT001, FBT002 - pypaimon's signature
    ) -> None:
        """Drop a table with all its files. Files that cannot be deleted stay without a name, with a warning."""
        name = plain_identifier(identifier)
        argument_checks.check_bool("ignore_if_not_exists", ignore_if_not_exists)
        layout = self._layout(name)
        with self._lock_tables(name):
            with self._knowing(f"table {name.get_full_name()} may or may not have been dropped; call drop_table again"):
                dropped = self.rows.delete_table(name.get_database_name(), name.get_table_name())
            if dropped:
                self._remove(layout)
                return
        if not ignore_if_not_exists:
            raise self._no_table(name)

    def rename_table(
        self,
        source_identifier: str | Identifier,
        target_identifier: str | Identifier,
        ignore_if_not_exists: bool = False,  # noqa: FBT001, FBT002 - pypaimon's signature
    ) -> None:
        """Give a table another name. On object stores the files are copied one by one: let no writer run meanwhile.

        The directory is moved first, then the rows, and the directory back if the database refuses. So a table is
        listed under its new name only when all its files are there, and no two tables can get one name.
        """
        source, target = plain_identifier(source_identifier), plain_identifier(target_identifier)
        argument_checks.check_bool("ignore_if_not_exists", ignore_if_not_exists)
        if not self._has_table(source):
            if ignore_if_not_exists:
                return
            raise self._no_table(source)
        self._require_database(target.get_database_name())
        if self._is_taken(target):
            raise table_exists(target)
        old, new = self._layout(source), self._layout(target)
        if not has_schema(self.storage, old):
            raise self._no_files(source, old)
        with self._lock_tables(source, target):
            if not self._is_empty(new):
                raise self._not_free(target, new)
            renamed = self._rename(source, target)
        if not renamed:
            raise table_exists(target) if self._is_taken(target) else self._no_table(source)

    def repair_table(self, identifier: str | Identifier) -> None:
        """Write the name of a table whose files are in the warehouse, and the copy of its options, into the database.

        This is what a process that died in the middle of `create_table`, `rename_table` or `drop_table` leaves to do.
        """
        name = plain_identifier(identifier)
        database_name, table = name.get_database_name(), name.get_table_name()
        layout = self._layout(name)
        schema = SchemaFiles(self.storage, layout).latest()
        if schema is None:
            raise self._no_files(name, layout)
        if table in self.rows.views(database_name):
            raise table_exists(name)
        if not self.rows.has_database(database_name):
            self.rows.create_database(database_name, {LOCATION: database_directory(self.warehouse, database_name)})
        copied = table_properties(schema) if self.copies_properties else None
        if not self.rows.insert_table(database_name, table, copied) and copied is not None:
            self.rows.set_table_properties(database_name, table, copied)

    def close(self) -> None:
        """End the connection of this process to the database; a catalog that is used again makes a new one."""
        database(self.rows.address).close()

    # The steps.

    def _create(self, name: Identifier, layout: Layout, schema: TableSchema) -> bool:
        """Create the schema file and the row. False means that another process has created the table."""
        if not self._create_schema(name, layout, schema):
            return False
        copied = table_properties(schema) if self.copies_properties else None
        try:
            with self._knowing(
                f"table {name.get_full_name()} may or may not be listed: look, and call repair_table if it is not"
            ):
                inserted = self.rows.insert_table(name.get_database_name(), name.get_table_name(), copied)
        except CommitUnknownError:
            if self._has_table(name):
                return True
            raise
        except LakewrightError:  # it was refused: nothing refers to the file that was just made
            self._take_back(layout, schema)
            raise
        # A row that is there already names the table at this place: a repair wrote it, if the table is ours.
        return inserted or SchemaFiles(self.storage, layout).get(0) == schema

    def _create_schema(self, name: Identifier, layout: Layout, schema: TableSchema) -> bool:
        """Create the schema file; False means that the table has a row by now.

        Files without a row are of a table that another process is creating or dropping: the row, or the end of the
        files, is waited for.
        """
        for look in range(_LOOKS_MAX):
            if self._is_empty(layout) and create_first(self.storage, layout, schema):
                return True
            if self._has_table(name):
                return False
            if look < _LOOKS_MAX - 1:
                time.sleep(_LOOK_SECONDS)
        raise self._not_free(name, layout)

    def _take_back(self, layout: Layout, schema: TableSchema) -> None:
        """Delete the schema file that this call made; files that stay are found by the next creation."""
        path = layout.schema_file(schema.id)
        with suppress(OSError):
            if self.storage.read(path) == schema.to_json().encode():
                self.storage.delete(path)
                self.storage.prune_directory(layout.root)

    def _remove(self, layout: Layout) -> None:
        """Delete the files of a table that has no name any more."""
        if next(iter(self.storage.walk(layout.root)), None) is None:
            return
        try:
            remove_table(self.storage, self.warehouse, layout)
        except OSError as error:
            warnings.warn(
                f"the table was dropped, but its files at {layout.root} could not be deleted ({error}): delete them",
                LakewrightWarning,
                stacklevel=4,
            )

    def _move(self, old: Layout, new: Layout) -> None:
        if self.storage.renames_atomically:
            self.storage.make_directory(new.root.rsplit("/", 1)[0])
        self.storage.rename_directory(old.root, new.root)
        move_claims(self.storage, old.root, new)

    def _rename(self, source: Identifier, target: Identifier) -> bool:
        """Move the directory and then the rows; False means that the database refused, and the move is undone."""
        old, new = self._layout(source), self._layout(target)
        try:
            self._move(old, new)
        except FileNotFoundError as cause:
            raise self._no_table(source) from cause
        except FileExistsError as cause:
            raise table_exists(target) from cause
        try:
            renamed = self._rename_rows(source, target)
        except CommitUnknownError:
            raise
        except LakewrightError:
            self._move(new, old)
            raise
        if not renamed:
            self._undo_move(source, target)
        return renamed

    def _undo_move(self, source: Identifier, target: Identifier) -> None:
        """Put files back whose table could not get another name, or remove them if it was dropped meanwhile.

        A drop deletes the row first; while the files are at the place of the target it finds none to delete.
        """
        old, new = self._layout(source), self._layout(target)
        if self._has_table(target):
            return  # a repair lists the files under the new name
        if not self._has_table(source) and self._has_all_files():
            self._remove(new)
            return
        with suppress(FileExistsError):  # a new table is there by now; the files of the old one can be repaired
            self._move(new, old)

    def _has_all_files(self) -> bool:
        """Return whether each listed table has files: if one lacks them, another engine may have renamed it."""
        names = (Identifier.create(d, table) for d in self.rows.databases() for table in self.rows.tables(d))
        return all(has_schema(self.storage, self._layout(name)) for name in names)

    def _rename_rows(self, source: Identifier, target: Identifier) -> bool:
        old = (source.get_database_name(), source.get_table_name())
        new = (target.get_database_name(), target.get_table_name())
        try:
            with self._knowing(
                f"the files of {source.get_full_name()} are those of {target.get_full_name()} now, but the database "
                f"may have the old name: call repair_table for {target.get_full_name()}, and drop_table for "
                f"{source.get_full_name()} if it is still listed"
            ):
                return self.rows.rename_table(old, new)
        except CommitUnknownError:
            if self._has_table(target) and not self._has_table(source):
                return True
            raise

    @contextmanager
    def _knowing(self, doubt: str) -> Iterator[None]:
        """Raise CommitUnknownError with a text if the database lost the reply to the change in the block."""
        try:
            yield
        except CatalogServerError as error:
            if not error.perhaps_done:
                raise
            raise CommitUnknownError(f"{doubt} ({error})") from error

    @contextmanager
    def _lock_tables(self, *names: Identifier) -> Iterator[None]:
        """Hold the locks of tables, in an order that is the same for all processes."""
        with ExitStack() as stack:
            for name in sorted(names, key=Identifier.get_full_name):
                stack.enter_context(self._home(name).hold_lock())
            yield

    # From names to rows and files.

    def _layout(self, name: Identifier) -> Layout:
        return layout_of(self.warehouse, name)

    def _home(self, name: Identifier) -> SqlAuthority:
        database_name, table = name.get_database_name(), name.get_table_name()
        return SqlAuthority(self.rows, database_name, table, self.lock, self.copies_properties)

    def _table(self, name: Identifier) -> FileStoreTable:
        layout = self._layout(name)
        if not self._has_table(name):
            self._require_database(name.get_database_name())
            raise self._no_table(name)
        plain = Identifier.create(name.get_database_name(), name.get_table_name(), name.get_branch_name())
        try:
            return open_layout(plain, self.storage, layout, self._home(name))
        except NotFoundError:
            if has_schema(self.storage, layout):
                raise
        raise self._no_files(name, layout)

    def _has_table(self, name: Identifier) -> bool:
        return self.rows.has_table(name.get_database_name(), name.get_table_name())

    def _is_taken(self, name: Identifier) -> bool:
        return self._has_table(name) or name.get_table_name() in self.rows.views(name.get_database_name())

    def _is_empty(self, layout: Layout) -> bool:
        return not has_schema(self.storage, layout) and not has_snapshot(self.storage, layout)

    def _require_database(self, name: str) -> None:
        check_name("database", name)
        if not self.rows.has_database(name):
            raise self._no_database(name)

    def _no_database(self, name: str) -> DatabaseNotExistException:
        known = ", ".join(self.list_databases()[:10]) or "none yet"
        return DatabaseNotExistException(
            f"database {name} does not exist in {self.rows.address} ({known})", database=name
        )

    def _no_table(self, name: Identifier) -> LakewrightError:
        database_name, full = name.get_database_name(), name.get_full_name()
        if name.get_table_name() in self.rows.views(database_name):
            return UnsupportedError(f"{full} is a view, which lakewright does not support", table=full)
        known = ", ".join(self.rows.tables(database_name)[:10]) or "no tables"
        layout = self._layout(name)
        stray = ""
        if has_schema(self.storage, layout):
            stray = f"; {layout.root} holds the files of a table, which repair_table lists"
        return TableNotExistException(
            f"table {full} does not exist in {self.rows.address} (in {database_name}: {known}){stray}",
            table=full,
            identifier=name,
        )

    def _no_files(self, name: Identifier, layout: Layout) -> TableNotExistException:
        full = name.get_full_name()
        return TableNotExistException(
            f"table {full} has no schema file at {layout.root}; if {self.rows.address} lists it, drop_table removes "
            "the name",
            table=full,
            identifier=name,
        )

    def _not_free(self, name: Identifier, layout: Layout) -> InvalidInputError:
        full = name.get_full_name()
        return InvalidInputError(
            f"{layout.root} holds the files of a table that {self.rows.address} does not list as {full}: call "
            "repair_table, which lists it, and then drop_table if you do not want it; or delete the directory",
            table=full,
            path=layout.root,
        )


def open_jdbc(options: Mapping[str, str], credentials: Credentials | None = None) -> JdbcCatalog:
    """Open the catalog in the database at `uri`, and make the tables that it lacks."""
    if not options.get("warehouse", "").strip():
        raise InvalidInputError(
            "the catalog option 'warehouse' is missing: give the directory of the tables; their names are at 'uri'"
        )
    address = parse_address(options)
    storage, warehouse = open_storage(options["warehouse"], options, credentials)
    check_catalog_options(warehouse, options, setting_names())
    lock = _lock_settings(options) if _flag(options, "lock.enabled", not storage.renames_atomically) else None
    copies = _flag(options, "sync-all-properties", default=True)
    rows = CatalogRows(address, options.get("catalog-key", "jdbc"))
    rows.prepare(properties=copies, lock_key_max=None if lock is None else lock.key_max)
    return JdbcCatalog(storage, warehouse.rstrip("/") or "/", rows, options, lock, copies)


def _flag(options: Mapping[str, str], key: str, default: bool) -> bool:  # noqa: FBT001 - it is the value
    text = options.get(key, str(default)).strip().lower()
    if text not in {"true", "false"}:
        raise InvalidInputError(f"the catalog option {key!r} is {text!r}: give true or false", option=key)
    return text == "true"


def _lock_settings(options: Mapping[str, str]) -> LockSettings:
    default = LockSettings()
    timeout, nap = options.get("lock-acquire-timeout"), options.get("lock-check-max-sleep")
    longest = options.get("lock-key-max-length", str(default.key_max)).strip()
    if not longest.isdecimal() or not int(longest):
        raise InvalidInputError(
            f"the catalog option 'lock-key-max-length' is {longest!r}: give a number of characters",
            option="lock-key-max-length",
        )
    return LockSettings(
        default.acquire_timeout_millis if timeout is None else parse_duration_millis(timeout),
        default.check_max_sleep_millis if nap is None else parse_duration_millis(nap),
        int(longest),
    )
