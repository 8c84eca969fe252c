"""The stores that chaos runs on: how a catalog reaches them, and what goes wrong with them meanwhile."""

from __future__ import annotations

import random
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from support.chaos.proxy import LATENESS_SECONDS, FaultyProxy
from support.chaos.roles import SPARK
from support.postgres import name_of, running_postgres
from support.rest_server import COMMIT, RestServer, running_rest
from support.s3 import running_s3, s3_options
from support.store_fronts import serving


@dataclass
class Store:
    """A place for a warehouse."""

    name: str
    options: Mapping[str, str]
    stop_seconds: float = 12.0  # longer than every timeout
    lateness: float = 0.0  # how long after its sender's death a request may be carried out
    removes_orphans_after: float = 0.01
    more_roles: Sequence[str] = ()
    epoch_seconds: tuple[float, float] = (10, 60)
    counts: Counter[str] = field(default_factory=Counter)

    @contextmanager
    def faults(self) -> Iterator[None]:
        """Let the store fail at random until the block is left."""
        yield

    def keep(self, directory: Path) -> None:
        """Bring what only this process has into a directory that stays."""


@contextmanager
def disk(directory: Path, seed: str) -> Iterator[Store]:
    """Lend a directory."""
    durable = random.Random(f"{seed} disk").choice(["true", "false"])
    yield Store("disk", {"warehouse": str(directory / "warehouse"), "lakewright.durable": durable})


@contextmanager
def spark(directory: Path, seed: str) -> Iterator[Store]:  # noqa: ARG001 - as all of them
    """Lend a directory to writers of which one runs on Spark; its session takes a while to start."""
    options = {"warehouse": str(directory / "warehouse"), "lakewright.durable": "false"}
    yield Store("spark", options, lateness=2, more_roles=[SPARK], epoch_seconds=(50, 90))


# S3.


@dataclass
class _S3(Store):
    """A bucket behind a proxy."""

    proxy: FaultyProxy | None = None
    download: Callable[[Path], None] = lambda _: None

    @contextmanager
    def faults(self) -> Iterator[None]:
        """Let every thirtieth request or so fail."""
        assert self.proxy is not None
        self.proxy.faults_share = self.proxy.random.choice([0.01, 0.03, 0.08])
        try:
            yield
        finally:
            self.proxy.faults_share = 0.0
            self.proxy.wait_until_quiet()

    def keep(self, directory: Path) -> None:
        """Download the bucket."""
        self.download(directory / "bucket")


@contextmanager
def s3(_: Path, seed: str) -> Iterator[Store]:
    """Run an S3 emulator and a proxy in front of it that fails at random."""
    with running_s3() as server:
        bucket = server.make_bucket()

        def download(target: Path) -> None:
            client = server.client()
            for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket):
                for each in page.get("Contents", ()):
                    path = target / each["Key"]
                    path.parent.mkdir(parents=True, exist_ok=True)
                    client.download_file(bucket, each["Key"], str(path))

        proxy = FaultyProxy(urlsplit(server.endpoint).port or 80, seed)
        with serving(proxy):
            options = {"warehouse": f"s3://{bucket}/warehouse", **s3_options(proxy.endpoint)}
            late = LATENESS_SECONDS + 2
            yield _S3("s3", options, lateness=late, counts=proxy.counts, proxy=proxy, download=download)


# REST servers.


_LOST = ("500", "502", "503", "504", "cut", "reset", "half", "garbage")
# Only of a commit are these a doubt (design/0013): any other call was not carried out if a server answers so.
_LOST_COMMIT = (*_LOST, "502 404", "405", "409", "again")
_REFUSED = ("500", "503", "429", "cut", "reset")
_REST_LATENESS = 1.5


@dataclass
class _Rest(Store):
    """A server whose answers go wrong."""

    server: RestServer | None = None
    dice: random.Random = field(default_factory=random.Random)

    @contextmanager
    def faults(self) -> Iterator[None]:
        """Use the levers of the server in a thread."""
        server = self.server
        assert server is not None
        with _repeating(self.dice, 0.7, self._harm):
            yield
        server.calm()
        server.listen()
        server.log.clear()

    def _harm(self) -> None:
        server, dice = self.server, self.dice
        assert server is not None
        harms = ["lose commit", "lose", "fail", "fail commit", "refuse"]
        if server.like != "1.4.2":
            # That release does not compare bases: a commit that is carried out after its sender has given it up, and
            # after its id was used and expired, becomes the newest snapshot. No client can prevent it.
            harms.append("late commit")
        match dice.choice(harms):
            case "lose commit":
                server.lose(1, how := dice.choice(_LOST_COMMIT))
            case "lose":
                server.lose(1, how := dice.choice(_LOST), match=dice.choice(["^POST", "^GET", "^DELETE"]))
            case "fail":
                server.fail(dice.randint(1, 3), how := dice.choice(_REFUSED), match="")
            case "fail commit":
                server.fail(1, how := dice.choice(_REFUSED), match=COMMIT)
            case "late commit":
                server.fail(1, f"late {dice.uniform(0.05, _REST_LATENESS):.2f}", match=COMMIT)
                how = "late"
            case _:
                server.refuse_after(dice.randint(0, 3), dice.uniform(0.1, 1.5))
                how = "refused connections"
        self.counts[how] += 1


@contextmanager
def rest(directory: Path, seed: str, like: str = "2.0.0") -> Iterator[Store]:
    """Run a stand-in for a REST server."""
    dice = random.Random(f"{seed} rest {like}")
    late = _REST_LATENESS + 2
    with running_rest(f"file:{directory}/warehouse", like=like) as server:
        yield _Rest(f"rest like {like}", server.options, lateness=late, server=server, dice=dice)


def old_rest(directory: Path, seed: str) -> AbstractContextManager[Store]:
    """Run a stand-in for a REST server of release 1.4.2."""
    return rest(directory, seed, "1.4.2")


# SQL catalogs.


@dataclass
class _Sql(Store):
    """A database that is locked, or loses its connections, at random."""

    dice: random.Random = field(default_factory=random.Random)
    harm: Callable[[], str] = str

    @contextmanager
    def faults(self) -> Iterator[None]:
        """Disturb the database in a thread."""

        def disturb() -> None:
            self.counts[self.harm()] += 1

        with _repeating(self.dice, 1.5, disturb):
            yield


def _sql_options(directory: Path, dice: random.Random) -> dict[str, str]:
    locked = {"lock.enabled": dice.choice(["true", "false"]), "lock-acquire-timeout": "8 s"}
    return {"warehouse": str(directory / "warehouse"), "lakewright.durable": "false", **locked}


@contextmanager
def sqlite(directory: Path, seed: str) -> Iterator[Store]:
    """Lend a file of SQLite, which somebody locks from time to time."""
    dice = random.Random(f"{seed} sqlite")
    names = directory / "names.db"

    def lock() -> str:
        connection = sqlite3.connect(names, timeout=1, isolation_level=None)
        with closing(connection), suppress(sqlite3.OperationalError):
            connection.execute("BEGIN EXCLUSIVE")
            time.sleep(dice.uniform(0.05, 2))
            connection.execute("ROLLBACK")
        return "locked"

    options = {"metastore": "jdbc", "uri": f"jdbc:sqlite:{names}", **_sql_options(directory, dice)}
    yield _Sql("sqlite", options, lateness=0.5, dice=dice, harm=lock)


@contextmanager
def postgres(directory: Path, seed: str) -> Iterator[Store]:
    """Run PostgreSQL, which ends connections from time to time."""
    dice = random.Random(f"{seed} postgres")
    with running_postgres() as server, server.database() as lent:
        name = name_of(lent)

        def cut() -> str:
            some = f"datname = '{name}' AND pid <> pg_backend_pid() AND random() < {dice.choice([0.1, 0.5, 1])}"
            server.run("postgres", f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {some}")  # noqa: S608
            return "connections cut"

        yield _Sql("postgres", {**lent, **_sql_options(directory, dice)}, lateness=1, dice=dice, harm=cut)


@contextmanager
def _repeating(dice: random.Random, pause: float, act: Callable[[], None]) -> Iterator[None]:
    """Call a function in a thread again and again, at random times, until the block is left."""
    over = threading.Event()

    def run() -> None:
        while not over.wait(dice.expovariate(1 / pause)):
            act()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


STORES: dict[str, Callable[[Path, str], AbstractContextManager[Store]]] = {
    "disk": disk,
    "s3": s3,
    "rest": rest,
    "rest-1.4.2": old_rest,
    "sqlite": sqlite,
    "postgres": postgres,
    "spark": spark,
}
