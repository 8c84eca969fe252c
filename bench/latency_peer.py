"""One peer at work for `bench/latency.py`: "prepare CASE" and "run CASE" on standard input, "ok" or "-" for each.

    python bench/latency_peer.py LIBRARY ENDPOINT WAREHOUSE

It runs in the environment of the peers. Libraries use the conditional puts of the store where they can. A case that a
library does not know, or fails at, is answered with "-".
"""

from __future__ import annotations

import importlib
import itertools
import sys
from collections.abc import Callable
from typing import Any

import pyarrow as pa

ROWS, COMMITS, FILES, RUNS = 10, 30, 36, 3
SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("part", pa.int32())])


def rows(first: int) -> pa.Table:
    """Return a few rows."""
    ids = range(first, first + ROWS)
    columns = {"id": list(ids), "name": [f"name-{n}" for n in ids], "part": [n % 4 for n in ids]}
    return pa.table(columns, schema=SCHEMA)


class PyPaimon:
    """The Python release."""

    def __init__(self, endpoint: str, warehouse: str) -> None:
        self.pp = importlib.import_module("pypaimon")
        self.options = {
            "warehouse": warehouse,
            "fs.s3.endpoint": endpoint,
            "fs.s3.accessKeyId": "key",
            "fs.s3.accessKeySecret": "secret",
            "fs.s3.region": "us-east-1",
            "fs.s3.path.style.access": "true",
        }
        self.held: dict[str, Any] = {}

    def opened(self, name: str) -> Any:  # noqa: ANN401 - a library without types
        """Return a table from a new catalog."""
        return self.pp.CatalogFactory.create(self.options).get_table(f"d.{name}")

    def make(self, name: str, keys: list[str], parts: list[str], buckets: int) -> None:
        """Make a table and keep its handle."""
        catalog = self.pp.CatalogFactory.create(self.options)
        catalog.create_database("d", ignore_if_exists=True)
        options = {"bucket": str(buckets)} if keys else {}
        schema = self.pp.Schema.from_pyarrow_schema(SCHEMA, partition_keys=parts, primary_keys=keys, options=options)
        catalog.create_table(f"d.{name}", schema, False)  # noqa: FBT003
        self.held[name] = self.opened(name)

    def write(self, table: Any, data: pa.Table) -> None:  # noqa: ANN401
        """Write rows and commit them."""
        builder = table.new_batch_write_builder()
        write, commit = builder.new_write(), builder.new_commit()
        write.write_arrow(data)
        commit.commit(write.prepare_commit())
        write.close()
        commit.close()

    def plan(self, table: Any, equals: int | None = None) -> Any:  # noqa: ANN401
        """Plan a read, perhaps of one id."""
        builder = table.new_read_builder()
        if equals is not None:
            builder = builder.with_filter(builder.new_predicate_builder().equal("id", equals))
        return builder, builder.new_scan().plan().splits()

    def read(self, table: Any, equals: int | None = None) -> None:  # noqa: ANN401
        """Read rows."""
        builder, splits = self.plan(table, equals)
        builder.new_read().to_arrow(splits)


class PyPaimonRust(PyPaimon):
    """The Rust release; it cannot create tables, so the Python release does that."""

    def __init__(self, endpoint: str, warehouse: str) -> None:
        super().__init__(endpoint, warehouse)
        self.rust = importlib.import_module("pypaimon_rust.datafusion")
        self.rust_options = {
            "warehouse": warehouse,
            "s3.endpoint": endpoint,
            "s3.access-key": "key",
            "s3.secret-key": "secret",
            "s3.region": "us-east-1",
            "s3.path-style-access": "true",
        }

    def opened(self, name: str) -> Any:  # noqa: ANN401
        return self.rust.PaimonCatalog(self.rust_options).get_table(f"d.{name}")

    def write(self, table: Any, data: pa.Table) -> None:  # noqa: ANN401
        builder = table.new_batch_write_builder()
        write, commit = builder.new_write(), builder.new_commit()
        for batch in data.to_batches():
            write.write_arrow(batch)
        commit.commit(write.prepare_commit())

    def plan(self, table: Any, equals: int | None = None) -> Any:  # noqa: ANN401
        builder = table.new_read_builder()
        if equals is not None:
            asked = {"method": "equal", "field": "id", "literals": [equals], "index": 0}
            builder = builder.with_filter(asked)
        return builder, builder.new_scan().plan().splits()

    def read(self, table: Any, equals: int | None = None) -> None:  # noqa: ANN401
        builder, splits = self.plan(table, equals)
        pa.Table.from_batches(builder.new_read().read(splits))


class DeltaLake:
    """deltalake; a handle of it is a place, as writes look for the newest version themselves."""

    def __init__(self, endpoint: str, warehouse: str) -> None:
        self.dl = importlib.import_module("deltalake")
        self.warehouse = warehouse
        self.options = {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
            "aws_conditional_put": "etag",
        }
        self.held: dict[str, Any] = {}

    def opened(self, name: str) -> Any:  # noqa: ANN401
        """Return a table anew."""
        return self.dl.DeltaTable(f"{self.warehouse}/{name}", storage_options=self.options)

    def make(self, name: str, keys: list[str], parts: list[str], _buckets: int) -> None:
        """Make a table; without keys, as Delta has none."""
        if keys:
            raise NotImplementedError
        place = f"{self.warehouse}/{name}"
        self.dl.DeltaTable.create(place, SCHEMA, partition_by=parts or None, storage_options=self.options)
        self.held[name] = self.opened(name)

    def write(self, table: Any, data: pa.Table) -> None:  # noqa: ANN401
        """Append rows."""
        self.dl.write_deltalake(table, data, mode="append")

    def plan(self, table: Any, _equals: int | None = None) -> Any:  # noqa: ANN401
        """List the files."""
        table.update_incremental()
        return table.file_uris()

    def read(self, table: Any, equals: int | None = None) -> None:  # noqa: ANN401
        """Read rows of the newest version."""
        table.update_incremental()
        filters = None if equals is None else [("id", "=", equals)]
        table.to_pyarrow_table(filters=filters)


LIBRARIES: dict[str, Callable[[str, str], Any]] = {
    "pypaimon": PyPaimon,
    "pypaimon-rust": PyPaimonRust,
    "deltalake": DeltaLake,
}
_numbers = itertools.count(1_000_000)
# The table of each case: its name, commits, keys, partition keys, buckets.
TABLES: dict[str, tuple[str, int, list[str], list[str], int]] = {
    "append, handle held open": ("plain", COMMITS, [], [], 0),
    "append, opened anew": ("plain", COMMITS, [], [], 0),
    "append into 4 partitions": ("parted", COMMITS, [], ["part"], 0),
    "upsert into 2 buckets": ("keyed", COMMITS, ["id"], [], 2),
    "plan": ("many", FILES, [], [], 0),
    "read one file of 36": ("many", FILES, [], [], 0),
    "read all 36": ("many", FILES, [], [], 0),
    "merge read of 3 runs": ("runs", RUNS, ["id"], [], 1),
}


def prepare(library: Any, case: str) -> None:  # noqa: ANN401
    """Make the table of a case."""
    name, commits, keys, parts, buckets = TABLES[case]
    if name not in library.held:
        library.make(name, keys, parts, buckets)
        for number in range(commits):
            library.write(library.held[name], rows(0 if keys else number * ROWS))


def run(library: Any, case: str) -> None:  # noqa: ANN401
    """Do what the case says."""
    name = TABLES[case][0]
    if case == "plan":
        library.plan(library.held[name])
    elif "read" in case:
        library.read(library.held[name], ROWS + 3 if "one" in case else None)
    else:
        table = library.opened(name) if "anew" in case else library.held[name]
        library.write(table, rows(next(_numbers) * ROWS))


def main() -> None:
    """Answer commands until there are no more."""
    library = LIBRARIES[sys.argv[1]](*sys.argv[2:])
    for line in sys.stdin:
        verb, _, case = line.strip().partition(" ")
        try:
            (prepare if verb == "prepare" else run)(library, case)
            answer = "ok"
        except Exception as error:  # noqa: BLE001 - whatever a library cannot do is left out of the table
            print(f"{sys.argv[1]}, {case}: {error!r:.300}", file=sys.stderr)
            answer = "-"
        print(answer, flush=True)


if __name__ == "__main__":
    main()
