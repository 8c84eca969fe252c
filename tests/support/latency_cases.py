"""What users do on an object store, one call each: for `bench/latency.py` and for the tests of chains of requests."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

import lakewright as lw
from lakewright.catalog.catalog import Catalog

COMMITS = 30
FILES = 36
RUNS = 3
ROWS = 10
SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("part", pa.int32())])


@dataclass(frozen=True)
class Case:
    """One thing that users do, and in how many latencies it should be done."""

    name: str
    goal: int
    prepare: Callable[[Tables], None]  # makes the tables that the case needs
    run: Callable[[Tables], object]


@dataclass
class Tables:
    """Tables of small commits in one catalog; `reopen` returns a catalog that knows nothing yet."""

    reopen: Callable[[], Catalog]
    commits: int = COMMITS
    files: int = FILES
    catalog: Catalog = field(init=False)
    held: dict[str, lw.FileStoreTable] = field(default_factory=dict)
    numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1_000_000))

    def __post_init__(self) -> None:
        self.catalog = self.reopen()
        self.catalog.create_database("d", ignore_if_exists=True)

    def make(
        self,
        name: str,
        commits: int,
        *,
        keys: tuple[str, ...] = (),
        parts: tuple[str, ...] = (),
        options: Mapping[str, str] | None = None,
    ) -> None:
        """Make a table with so many commits of a few rows, unless it is there."""
        if name in self.held:
            return
        self.catalog.create_table(f"d.{name}", lw.Schema.from_pyarrow_schema(SCHEMA, parts, keys, options))
        self.held[name] = table = self.opened(name)
        for number in range(commits):
            lw.write_table(rows(0 if keys else number * ROWS), table)

    def opened(self, name: str, catalog: Catalog | None = None) -> lw.FileStoreTable:
        """Return a table anew from its catalog."""
        table = (catalog or self.catalog).get_table(f"d.{name}")
        assert isinstance(table, lw.FileStoreTable)
        return table

    def next_rows(self) -> pa.Table:
        """Return rows that no table has."""
        return rows(next(self.numbers) * ROWS)


def rows(first: int) -> pa.Table:
    """Return a few rows, of which every fourth has the same value in `part`."""
    ids = range(first, first + ROWS)
    columns = {"id": list(ids), "name": [f"name-{n}" for n in ids], "part": [n % 4 for n in ids]}
    return pa.table(columns, schema=SCHEMA)


def plain(tables: Tables) -> None:
    """Make an append table."""
    tables.make("plain", tables.commits)


def parted(tables: Tables) -> None:
    """Make an append table with four partitions."""
    tables.make("parted", tables.commits, parts=("part",))


def keyed(tables: Tables) -> None:
    """Make a primary-key table with two buckets."""
    tables.make("keyed", tables.commits, keys=("id",), options={"bucket": "2"})


def many(tables: Tables) -> None:
    """Make an append table whose rows are in many small files."""
    tables.make("many", tables.files)


def runs(tables: Tables) -> None:
    """Make a primary-key table with several runs in one bucket."""
    tables.make("runs", RUNS, keys=("id",), options={"bucket": "1"})


def nothing(_: Tables) -> None:
    """Make no table."""


def append(tables: Tables) -> None:
    """Append rows through a handle that is open."""
    lw.write_table(tables.next_rows(), tables.held["plain"])


def append_anew(tables: Tables) -> None:
    """Open a catalog and a table, and append rows."""
    lw.write_table(tables.next_rows(), tables.opened("plain", tables.reopen()))


def append_parts(tables: Tables) -> None:
    """Append rows of four partitions."""
    lw.write_table(tables.next_rows(), tables.held["parted"])


def upsert(tables: Tables) -> None:
    """Upsert rows that are in two buckets."""
    lw.write_table(tables.next_rows(), tables.held["keyed"])


def delete(tables: Tables) -> None:
    """Delete the row of a key."""
    assert tables.held["keyed"].delete(f"id = {next(tables.numbers) % ROWS}") is not None


def create(tables: Tables) -> None:
    """Create a table."""
    name = f"d.new{next(tables.numbers)}"
    tables.catalog.create_table(name, lw.Schema.from_pyarrow_schema(SCHEMA))


def plan(tables: Tables) -> None:
    """Plan a read of all files."""
    plan = tables.held["many"].new_read_builder().new_scan().plan()
    assert sum(len(split.files) for split in plan.splits()) == tables.files


def read_one(tables: Tables) -> None:
    """Read the one file that a filter leaves."""
    assert lw.read_table(tables.held["many"], filter=f"id = {ROWS + 3}").num_rows == 1


def read_all(tables: Tables) -> None:
    """Read all files."""
    assert lw.read_table(tables.held["many"]).num_rows == tables.files * ROWS


def merge_read(tables: Tables) -> None:
    """Read a bucket whose runs share their keys."""
    assert lw.read_table(tables.held["runs"]).num_rows == ROWS


CASES = (
    Case("append, handle held open", 8, plain, append),
    Case("append, opened anew", 10, plain, append_anew),
    Case("append into 4 partitions", 10, parted, append_parts),
    Case("upsert into 2 buckets", 14, keyed, upsert),
    Case("delete a key", 16, keyed, delete),
    Case("create", 7, nothing, create),
    Case("plan", 5, many, plan),
    Case("read one file of 36", 9, many, read_one),
    Case("read all 36", 12, many, read_all),
    Case("merge read of 3 runs", 10, runs, merge_read),
)
