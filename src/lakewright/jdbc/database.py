"""A thin layer over the drivers: statements in, rows and counts out, and errors of the library that name the database.

A process has one connection for each address, made when it is first needed, used by one thread at a time, never
pickled, and made anew in a process that was forked. A write is one short transaction: it is committed, refused, or
raises CatalogServerError, whose `perhaps_done` is True only if the reply to COMMIT was lost.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeAlias

from lakewright.errors import (
    CatalogServerError,
    CommitContentionError,
    InvalidInputError,
    LakewrightError,
    NotAuthorizedError,
)
from lakewright.jdbc.drivers import Connection, Driver, Failure, driver_of
from lakewright.jdbc.uri import Address

Value: TypeAlias = Any  # text, a number, None, or what a column of the database gave
Row: TypeAlias = tuple[Value, ...]
Statement: TypeAlias = tuple[str, tuple[Value, ...]]  # with a `?` for each value
Run: TypeAlias = Callable[[str, tuple[Value, ...]], tuple[int, Sequence[Row]]]


@dataclass(slots=True)
class Database:
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
                # A connection that ended while nobody used it is noticed here, before anything is done.
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
                    f"{address}: the database failed ({text}); {_done(perhaps_done=perhaps_done)}",
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


def _done(*, perhaps_done: bool) -> str:
    if perhaps_done:
        return "the change may or may not have been made: look before trying again"
    return "nothing was changed: try again later"


_databases: dict[Address, Database] = {}
_inherited: list[dict[Address, Database]] = []  # of the parent process: neither used nor closed here
_registry = threading.Lock()


def database(address: Address) -> Database:
    """Return the database at an address, the same one for every caller in this process."""
    with _registry:
        return _databases.setdefault(address, Database(address))


def _forget_after_fork() -> None:
    """Keep the connections of the parent process untouched: both processes would write into one socket."""
    global _databases, _registry
    _inherited.append(_databases)
    _databases, _registry = {}, threading.Lock()


os.register_at_fork(after_in_child=_forget_after_fork)
