"""Rows of a SQL catalog: connections, statements, errors."""

# ruff: noqa: S608 - statements are put together from names of this module; values are always passed beside them

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeAlias

from lakewright.catalog.sql_drivers import Address, Connection, Driver, Failure, driver_of
from lakewright.errors import (
    CatalogServerError,
    CommitContentionError,
    InvalidInputError,
    LakewrightError,
    NotAuthorizedError,
)
from lakewright.spec.table_schema import TableSchema

# ---- Connections and statements --------------------------------------------------------------------------------------
# A process has one connection for each address, made when it is first needed, used by one thread at a time, never
# pickled, and made anew in a process that was forked. A write is one short transaction: it is committed, refused, or
# raises CatalogServerError, whose `perhaps_done` is True only if the reply to COMMIT was lost.

Value: TypeAlias = Any  # text, a number, None, or what a column of the database gave
Row: TypeAlias = tuple[Value, ...]
Statement: TypeAlias = tuple[str, tuple[Value, ...]]  # with a `?` for each value
Run: TypeAlias = Callable[[str, tuple[Value, ...]], tuple[int, Sequence[Row]]]


@dataclass(slots=True)
class SqlDatabase:
    """The connection of this process to one database."""

    address: Address
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _connection: Connection | None = field(default=None, repr=False)

    @property
    def driver(self) -> Driver:
        """How this kind of database is spoken to."""
        return driver_of(self.address)

    def read(self, statement: str, *values: Value) -> Sequence[Row]:
        """Return the rows of a query. A lost connection is made anew, once."""
        with self._lock:
            return self._run_again_if_lost(statement, values)

    def write(self, *statements: Statement) -> list[int] | None:
        """Run statements in one transaction and return how many rows each changed.

        None means that a row with one of the keys exists: nothing was changed.
        """
        return self.transact(lambda run: [run(text, values)[0] for text, values in statements])

    def transact(self, work: Callable[[Run], list[int]]) -> list[int] | None:
        """Run a function in one transaction, which must not wait for anything but the database; see `write`."""
        with self._lock:
            try:
                # A connection that ended while it was idle is noticed here, before anything is done.
                self._run_again_if_lost(self.driver.begin, ())
                result = work(self._run)
            except Exception as error:  # noqa: BLE001 - each driver has classes of its own
                self._roll_back()
                if self._means(error) is Failure.KEY_TAKEN:
                    return None
                self._raise(error, perhaps_done=False)
            except BaseException:
                self._roll_back()
                raise
            self._commit()
            return result

    def close(self) -> None:
        """End the connection. The next call makes a new one."""
        with self._lock:
            self._drop()

    def _run_again_if_lost(self, statement: str, values: tuple[Value, ...]) -> Sequence[Row]:
        """Return the rows of a statement that may be run twice; a lost connection is made anew, once."""
        try:
            return self._run(statement, values)[1]
        except Exception as error:  # noqa: BLE001 - as above
            if self._means(error) is not Failure.LOST:
                self._raise(error, perhaps_done=False)
            self._drop()
        try:
            return self._run(statement, values)[1]
        except Exception as error:  # noqa: BLE001 - as above
            self._drop()
            self._raise(error, perhaps_done=False)

    def _commit(self) -> None:
        try:
            self._run("COMMIT", ())
        except BaseException as error:
            lost = not isinstance(error, Exception) or self._means(error) is Failure.LOST
            self._roll_back()
            if isinstance(error, Exception):
                self._raise(error, perhaps_done=lost)
            raise

    def _roll_back(self) -> None:
        """End a transaction without a trace; a connection that cannot do so is dropped, which does the same."""
        if self._connection is None:
            return
        try:
            self._run("ROLLBACK", ())
        except Exception:  # noqa: BLE001 - as above; the reason is known from the error before
            self._drop()

    def _run(self, statement: str, values: tuple[Value, ...]) -> tuple[int, Sequence[Row]]:
        if self._connection is None:
            self._connection = self.driver.connect(self.address)
        cursor = self._connection.cursor()
        try:
            cursor.execute(statement.replace("?", self.driver.mark) if values else statement, values)
            rows: Sequence[Row] = cursor.fetchall() if cursor.description else ()
            return cursor.rowcount, rows
        finally:
            with suppress(Exception):
                cursor.close()

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):
                connection.close()

    def _means(self, error: Exception) -> Failure:
        if isinstance(error, LakewrightError):
            return Failure.OTHER
        return Failure.LOST if isinstance(error, OSError) else self.driver.failure(error)

    def _raise(self, error: Exception, *, perhaps_done: bool) -> NoReturn:
        """Raise the error of the library that an error of the driver stands for."""
        if isinstance(error, LakewrightError):
            raise error
        address, text = str(self.address), self._text(error)
        match self._means(error):
            case Failure.BUSY:
                raise CommitContentionError(
                    f"{address}: others used the database for too long ({text}); nothing was changed: try again",
                    database=address,
                ) from error
            case Failure.DENIED:
                raise NotAuthorizedError(
                    f"{address}: not allowed ({text}): check the options 'jdbc.user' and 'jdbc.password', "
                    "and the rights to read and write the database",
                    database=address,
                ) from error
            case Failure.MISSING:
                raise InvalidInputError(
                    f"{address}: the database cannot be opened ({text}): check the option 'uri', and make the "
                    "database, or the directory of its file, first",
                    database=address,
                ) from error
            case Failure.TOO_LONG:
                raise InvalidInputError(
                    f"{address}: a value is too long for its column ({text}); names have up to 255 characters, "
                    "property values 1000",
                    database=address,
                ) from error
            case _:
                raise CatalogServerError(
                    f"{address}: the database failed ({text}); {_describe_outcome(perhaps_done=perhaps_done)}",
                    database=address,
                    code=None,
                    perhaps_done=perhaps_done,
                ) from error

    def _text(self, error: Exception) -> str:
        """Return the first line of what a driver says, which may show values in the others, and no password."""
        text = next(iter(str(error).strip().splitlines()), type(error).__name__)
        for key, value in self.address.properties:
            if "password" in key.lower() and value:
                text = text.replace(value, "***")
        return text


def _describe_outcome(*, perhaps_done: bool) -> str:
    if perhaps_done:
        return "the change may or may not have been made: look before trying again"
    return "nothing was changed: try again later"


_databases: dict[Address, SqlDatabase] = {}
_inherited: list[dict[Address, SqlDatabase]] = []  # of the parent process: neither used nor closed here
_registry = threading.Lock()


def database(address: Address) -> SqlDatabase:
    """Return the database at an address, the same one for every caller in this process."""
    with _registry:
        return _databases.setdefault(address, SqlDatabase(address))


def _forget_after_fork() -> None:
    """Keep the connections of the parent process untouched: both processes would write into one socket."""
    global _databases, _registry
    _inherited.append(_databases)
    _databases, _registry = {}, threading.Lock()


os.register_at_fork(after_in_child=_forget_after_fork)


# ---- Rows of the catalog ---------------------------------------------------------------------------------------------
# The database holds names: which databases and tables there are, and a copy of the options of tables for people to
# look at. Schemas and snapshots are files. Every row begins with the key of its catalog, since catalogs may share a
# database. A table that others made newer, or not at all, is tolerated: views are looked at only where their table
# exists.

TABLES = "paimon_tables"
DATABASE_PROPERTIES = "paimon_database_properties"
TABLE_PROPERTIES = "paimon_table_properties"
VIEWS = "paimon_views"
LOCKS = "paimon_distributed_locks"

EXISTS = "exists"  # a property that each database has, so that one without other properties has a row
LOCATION = "location"
_KEY_MAX = 255
_VALUE_MAX = 1000

_COLUMNS = {
    TABLES: "catalog_key VARCHAR(255) NOT NULL, database_name VARCHAR(255) NOT NULL, table_name VARCHAR(255) NOT NULL, "
    "PRIMARY KEY (catalog_key, database_name, table_name)",
    DATABASE_PROPERTIES: "catalog_key VARCHAR(255) NOT NULL, database_name VARCHAR(255) NOT NULL, "
    "property_key VARCHAR(255), property_value VARCHAR(1000), PRIMARY KEY (catalog_key, database_name, property_key)",
    TABLE_PROPERTIES: "catalog_key VARCHAR(255) NOT NULL, database_name VARCHAR(255) NOT NULL, "
    "table_name VARCHAR(255) NOT NULL, property_key VARCHAR(255) NOT NULL, property_value VARCHAR(1000), "
    "PRIMARY KEY (catalog_key, database_name, table_name, property_key)",
    LOCKS: "lock_id VARCHAR({key_max}) NOT NULL, acquired_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL, "
    "expire_time_seconds BIGINT DEFAULT 0 NOT NULL, PRIMARY KEY (lock_id)",
}

_OF_TABLE = "catalog_key = ? AND database_name = ? AND table_name = ?"
_TABLE = "(catalog_key, database_name, table_name)"
_DATABASE_PROPERTY = "(catalog_key, database_name, property_key, property_value)"
_TABLE_PROPERTY = "(catalog_key, database_name, table_name, property_key, property_value)"


def table_properties(schema: TableSchema) -> dict[str, str]:
    """Return the properties of a table that are copied into the database: its options and keys."""
    lists = {
        "primary-key": schema.primary_keys,
        "partition": schema.partition_keys,
        "bucket-key": schema.bucket_keys,
    }
    return dict(schema.options) | {key: ",".join(names) for key, names in lists.items() if names}


@dataclass(frozen=True, slots=True)
class CatalogRows:
    """The rows of one catalog in one database."""

    address: Address
    catalog_key: str

    @property
    def _database(self) -> SqlDatabase:
        return database(self.address)

    def prepare(self, *, properties: bool, lock_key_max: int | None) -> None:
        """Make the tables that are missing; that of locks only if the longest key of a lock is given."""
        wanted = [TABLES, DATABASE_PROPERTIES]
        wanted += [TABLE_PROPERTIES] if properties else []
        wanted += [LOCKS] if lock_key_max is not None else []
        present = self._present()
        for name in wanted:
            if name not in present:
                # None of another program that made it at the same time, which is as good.
                columns = _COLUMNS[name].replace("{key_max}", str(lock_key_max))
                self._database.write((f"CREATE TABLE IF NOT EXISTS {name} ({columns})", ()))

    def _present(self) -> set[str]:
        return {str(row[0]).lower() for row in self._database.read(self._database.driver.tables)}

    # Databases.

    def databases(self) -> list[str]:
        """Return the names of the databases: those that any table, property or view is of."""
        found: set[str] = set()
        for name in self._naming_databases():
            query = f"SELECT DISTINCT database_name FROM {name} WHERE catalog_key = ?"
            found.update(str(row[0]) for row in self._database.read(query, self.catalog_key))
        return sorted(found)

    def _naming_databases(self) -> list[str]:
        return [TABLES, DATABASE_PROPERTIES, *([VIEWS] if VIEWS in self._present() else [])]

    def has_database(self, name: str) -> bool:
        """Return whether a database exists."""
        return any(self._is_named(table, name) for table in self._naming_databases())

    def _is_named(self, table: str, name: str) -> bool:
        query = f"SELECT 1 FROM {table} WHERE catalog_key = ? AND database_name = ? LIMIT 1"
        return bool(self._database.read(query, self.catalog_key, name))

    def database_properties(self, name: str) -> dict[str, str]:
        """Return the properties of a database, without the one that only says that it exists."""
        query = (
            f"SELECT property_key, property_value FROM {DATABASE_PROPERTIES} "
            "WHERE catalog_key = ? AND database_name = ?"
        )
        rows = self._database.read(query, self.catalog_key, name)
        return {str(key): str(value) for key, value in sorted(rows) if key != EXISTS and value is not None}

    def create_database(self, name: str, properties: Mapping[str, str]) -> bool:
        """Insert the rows of a new database; False means that one of this name exists."""
        given = dict(properties) | {EXISTS: "true"}
        self._check_lengths(f"database {name}", given)
        return self._database.write(*(self._insert_database_property(name, k, v) for k, v in given.items())) is not None

    def change_database(self, name: str, updates: Mapping[str, str], removals: Sequence[str]) -> None:
        """Set and remove properties of a database in one transaction."""
        self._check_lengths(f"database {name}", updates)
        delete = f"DELETE FROM {DATABASE_PROPERTIES} WHERE catalog_key = ? AND database_name = ? AND property_key = ?"
        statements = [(delete, (self.catalog_key, name, key)) for key in dict.fromkeys([*updates, *removals])]
        statements += [self._insert_database_property(name, key, value) for key, value in updates.items()]
        if statements:
            self._database.write(*statements)

    def _insert_database_property(self, name: str, key: str, value: str) -> Statement:
        return f"INSERT INTO {DATABASE_PROPERTIES} {_DATABASE_PROPERTY} VALUES (?, ?, ?, ?)", (
            self.catalog_key,
            name,
            key,
            value,
        )

    def drop_database(self, name: str) -> None:
        """Delete the properties and views of a database. One that has tables exists as long as they do."""
        present = self._present()
        tables = [DATABASE_PROPERTIES, *([VIEWS] if VIEWS in present else [])]
        self._database.write(
            *(
                (f"DELETE FROM {table} WHERE catalog_key = ? AND database_name = ?", (self.catalog_key, name))
                for table in tables
            )
        )

    # Tables.

    def tables(self, database_name: str) -> list[str]:
        """Return the names of the tables of a database."""
        query = f"SELECT table_name FROM {TABLES} WHERE catalog_key = ? AND database_name = ?"
        return sorted(str(row[0]) for row in self._database.read(query, self.catalog_key, database_name))

    def views(self, database_name: str) -> list[str]:
        """Return the names of the views of a database."""
        if VIEWS not in self._present():
            return []
        query = f"SELECT view_name FROM {VIEWS} WHERE catalog_key = ? AND database_name = ?"
        return sorted(str(row[0]) for row in self._database.read(query, self.catalog_key, database_name))

    def has_table(self, database_name: str, name: str) -> bool:
        """Return whether a table has a row."""
        query = f"SELECT 1 FROM {TABLES} WHERE {_OF_TABLE}"
        return bool(self._database.read(query, self.catalog_key, database_name, name))

    def insert_table(self, database_name: str, name: str, properties: Mapping[str, str] | None) -> bool:
        """Insert the row of a table and its properties; False means that the table has a row."""
        insert = (f"INSERT INTO {TABLES} {_TABLE} VALUES (?, ?, ?)", (self.catalog_key, database_name, name))
        copied = [] if properties is None else self._new_properties(database_name, name, properties)
        return self._database.write(insert, *copied) is not None

    def delete_table(self, database_name: str, name: str) -> bool:
        """Delete the rows of a table; False means that there were none."""
        where = (self.catalog_key, database_name, name)
        changed = self._database.write(
            *((f"DELETE FROM {table} WHERE {_OF_TABLE}", where) for table in self._naming_tables())
        )
        return changed is not None and changed[0] > 0

    def rename_table(self, source: tuple[str, str], target: tuple[str, str]) -> bool:
        """Give the rows of a table another name; False means that the old name has no row, or that the new one has."""
        naming = self._naming_tables()

        def work(run: Run) -> list[int]:
            changed = []
            for table in naming:
                if table == TABLE_PROPERTIES:
                    run(f"DELETE FROM {table} WHERE {_OF_TABLE}", (self.catalog_key, *target))
                update = f"UPDATE {table} SET database_name = ?, table_name = ? WHERE {_OF_TABLE}"
                changed.append(run(update, (*target, self.catalog_key, *source))[0])
            return changed

        changed = self._database.transact(work)
        return changed is not None and changed[0] > 0

    def set_table_properties(self, database_name: str, name: str, properties: Mapping[str, str]) -> None:
        """Write the copy of a table's properties anew."""
        self._database.write(*self._new_properties(database_name, name, properties))

    def _naming_tables(self) -> list[str]:
        return [TABLES, *([TABLE_PROPERTIES] if TABLE_PROPERTIES in self._present() else [])]

    def _new_properties(self, database_name: str, name: str, properties: Mapping[str, str]) -> list[Statement]:
        self.check_table_properties(f"{database_name}.{name}", properties)
        where = (self.catalog_key, database_name, name)
        insert = f"INSERT INTO {TABLE_PROPERTIES} {_TABLE_PROPERTY} VALUES (?, ?, ?, ?, ?)"
        delete = f"DELETE FROM {TABLE_PROPERTIES} WHERE {_OF_TABLE}"
        return [(delete, where), *((insert, (*where, key, value)) for key, value in properties.items())]

    def check_table_properties(self, table: str, properties: Mapping[str, str]) -> None:
        """Raise InvalidInputError if the database cannot hold the properties of a table."""
        remedy = "; with the catalog option 'sync-all-properties' = false, options are not copied into the database"
        self._check_lengths(f"table {table}", properties, remedy)

    def _check_lengths(self, owner: str, properties: Mapping[str, str], remedy: str = "") -> None:
        if not self._database.driver.checks_lengths:
            return
        for key, value in properties.items():
            if len(key) > _KEY_MAX or len(value) > _VALUE_MAX:
                raise InvalidInputError(
                    f"{owner}: the property {key[:100]!r} has {len(value):,} characters, and {self.address} holds up "
                    f"to {_VALUE_MAX:,} in a value and {_KEY_MAX} in a key{remedy}",
                    option=key,
                )
