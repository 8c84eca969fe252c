"""One library at work, driven by commands on standard input, one JSON object a line.

It runs in whatever environment holds the library, so it imports nothing but the library it was started for.
A command is {"case": ..., "directory": ..., ...}; the answer {"seconds": ..., "cpu": ..., "rows": ..., "peak_mb": ...}.
`cpu` is what all threads of the process used together: on a busy machine it says more than the seconds.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

THREADS = os.cpu_count() or 1


def batches(rows: int, partitions: int, batch_rows: int, seed: int = 7) -> Iterator[pa.RecordBatch]:
    """Yield random rows: an increasing key, a short text, a double, an int, a date-like partition."""
    random = np.random.default_rng(seed)
    names = pa.array([f"p{n:04d}" for n in range(max(partitions, 1))])
    words = pa.array([f"word-{n:07d}" for n in range(100_000)])
    for start in range(0, rows, batch_rows):
        count = min(batch_rows, rows - start)
        yield pa.RecordBatch.from_arrays(
            [
                pa.array(np.arange(start, start + count)),
                words.take(pa.array(random.integers(0, len(words), count))),
                pa.array(random.random(count)),
                pa.array(random.integers(0, 1_000_000, count, dtype=np.int32)),
                names.take(pa.array(random.integers(0, len(names), count))),
            ],
            names=["k", "s", "d", "i", "p"],
        )


KEYS = {"bigint": ["k"], "string": ["ks"], "composite": ["ks", "k"]}  # the key columns of each kind of keyed input


def keyed(rows: int, kind: str, *, seed: int = 7, of: int = 0) -> pa.Table:
    """Return rows with distinct keys in random order, drawn from `of` keys (as many as there are rows if 0)."""
    random = np.random.default_rng(seed)
    numbers = random.permutation(of or rows)[:rows].astype(np.int64) * 7 + 3
    words = pa.array([f"word-{n:07d}" for n in range(100_000)])
    columns: dict[str, Any] = {"k": pa.array(numbers)}
    if kind == "string":
        columns = {"ks": pc.utf8_lpad(pc.cast(pa.array(numbers), pa.string()), 16, "k")}
    if kind == "composite":
        columns = {"ks": pc.utf8_lpad(pc.cast(pa.array(numbers // 100), pa.string()), 12, "c"), "k": pa.array(numbers)}
    columns |= {
        "s": words.take(pa.array(random.integers(0, len(words), rows))),
        "d": pa.array(random.random(rows)),
        "i": pa.array(random.integers(0, 1_000_000, rows, dtype=np.int32)),
        "t": pa.array(random.integers(0, 2**40, rows)),
    }
    return pa.table(columns)


@dataclass(frozen=True)
class Where:
    """A comparison of a column with a number."""

    column: str
    index: int
    operator: str  # "<" or "="
    number: int

    @classmethod
    def of(cls, command: dict[str, Any]) -> Where | None:
        """Take it from a command: `below` asks for k < n, `equals` for i = n."""
        if "below" in command:
            return cls("k", 0, "<", command["below"])
        return cls("i", 3, "=", command["equals"]) if "equals" in command else None

    def to_arrow(self) -> pc.Expression:
        """Return it as an Arrow expression."""
        column = pc.field(self.column)
        return column < self.number if self.operator == "<" else column == self.number

    def __str__(self) -> str:
        return f"{self.column} {self.operator} {self.number}"


class Library:
    """What every library must be able to do; `None` means that it cannot be compared in that case."""

    def __init__(self) -> None:
        self.data: pa.Table | None = None
        self.partitions = 0

    def load(self, rows: int, partitions: int) -> pa.Table:
        """Make the input once, outside every clock."""
        if self.data is None or self.data.num_rows != rows or self.partitions != partitions:
            self.data = pa.Table.from_batches(batches(rows, partitions, 1_000_000))
            self.partitions = partitions
        return self.data

    def create(self, directory: str, schema: pa.Schema, partitioned: bool) -> None:  # noqa: FBT001
        """Make an empty table."""

    def write(self, directory: str, data: pa.Table) -> None:
        """Append and commit."""
        raise NotImplementedError

    def stream(self, directory: str, source: Iterator[pa.RecordBatch]) -> None:
        """Append a stream of batches in one commit."""
        raise NotImplementedError

    def read(self, directory: str, where: Where | None) -> int:
        """Read all rows, or those that fulfil a comparison; return how many."""
        raise NotImplementedError

    def plan(self, directory: str) -> int:
        """Plan a whole read; return the number of files."""
        raise NotImplementedError

    def create_keyed(self, directory: str, schema: pa.Schema, keys: list[str], options: dict[str, str]) -> None:
        """Make an empty table with a primary key."""
        raise NotImplementedError

    def upsert(self, directory: str, data: pa.Table, keys: list[str]) -> None:
        """Insert or replace by key, and commit."""
        raise NotImplementedError

    def compact(self, directory: str, zorder: list[str], file_bytes: int) -> None:
        """Merge all files of the table, in z-order of some columns, into files of a size; 0: as the library likes."""
        raise NotImplementedError


class PyArrow(Library):
    """Plain parquet files with the same settings and as many threads: the limit."""

    def write(self, directory: str, data: pa.Table) -> None:
        """Write one file per thread."""
        from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415

        os.makedirs(directory, exist_ok=True)
        part = -(-data.num_rows // THREADS)

        def one(number: int) -> None:
            with open(f"{directory}/{number}.parquet", "wb") as sink:
                pq.write_table(
                    data.slice(number * part, part),
                    sink,
                    compression="zstd",
                    compression_level=1,
                    use_dictionary=["s", "p"],
                    write_page_checksum=True,
                    store_decimal_as_integer=True,
                )
                sink.flush()
                os.fsync(sink.fileno())

        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(one, range(THREADS)))

    def read(self, directory: str, where: Where | None) -> int:
        """Read through pyarrow's own dataset."""
        return int(pq.read_table(directory, filters=where and where.to_arrow()).num_rows)


class Lakewright(Library):
    """Ours."""

    def __init__(self) -> None:
        super().__init__()
        self.lw = importlib.import_module("lakewright")

    def table(self, directory: str) -> Any:  # noqa: ANN401
        return self.lw.CatalogFactory.create({"warehouse": directory}).get_table("d.t")

    def create(self, directory: str, schema: pa.Schema, partitioned: bool) -> None:  # noqa: FBT001
        catalog = self.lw.CatalogFactory.create({"warehouse": directory})
        catalog.create_database("d", ignore_if_exists=True)
        keys = ["p"] if partitioned else []
        catalog.create_table("d.t", self.lw.Schema.from_pyarrow_schema(schema, partition_keys=keys))

    def write(self, directory: str, data: pa.Table) -> None:
        self.lw.write_table(data, self.table(directory))

    def stream(self, directory: str, source: Iterator[pa.RecordBatch]) -> None:
        builder = self.table(directory).new_batch_write_builder()
        with builder.new_write() as write, builder.new_commit() as commit:
            for batch in source:
                write.write_arrow_batch(batch)
            commit.commit(write.prepare_commit())

    def create_keyed(self, directory: str, schema: pa.Schema, keys: list[str], options: dict[str, str]) -> None:
        catalog = self.lw.CatalogFactory.create({"warehouse": directory})
        catalog.create_database("d", ignore_if_exists=True)
        catalog.create_table("d.t", self.lw.Schema.from_pyarrow_schema(schema, primary_keys=keys, options=options))

    def upsert(self, directory: str, data: pa.Table, keys: list[str]) -> None:  # noqa: ARG002
        self.lw.write_table(data, self.table(directory), mode="upsert")

    def compact(self, directory: str, zorder: list[str], file_bytes: int) -> None:
        table = self.table(directory)
        if file_bytes:
            table = table.copy({"target-file-size": str(file_bytes)})
        table.compact(full=True, **({"order_by": zorder, "strategy": "zorder"} if zorder else {}))

    def read(self, directory: str, where: Where | None) -> int:
        return int(self.lw.read_table(self.table(directory), filter=where and str(where)).num_rows)

    def plan(self, directory: str) -> int:
        splits = self.table(directory).new_read_builder().new_scan().plan().splits()
        return sum(len(split.files) for split in splits)


class PyPaimon(Library):
    """The Python release."""

    def __init__(self) -> None:
        super().__init__()
        self.pp = importlib.import_module("pypaimon")

    def table(self, directory: str) -> Any:  # noqa: ANN401
        return self.pp.CatalogFactory.create({"warehouse": directory}).get_table("d.t")

    def create(self, directory: str, schema: pa.Schema, partitioned: bool) -> None:  # noqa: FBT001
        catalog = self.pp.CatalogFactory.create({"warehouse": directory})
        catalog.create_database("d", ignore_if_exists=True)
        keys = ["p"] if partitioned else []
        catalog.create_table("d.t", self.pp.Schema.from_pyarrow_schema(schema, partition_keys=keys), False)  # noqa: FBT003

    def create_keyed(self, directory: str, schema: pa.Schema, keys: list[str], options: dict[str, str]) -> None:
        catalog = self.pp.CatalogFactory.create({"warehouse": directory})
        catalog.create_database("d", ignore_if_exists=True)
        made = self.pp.Schema.from_pyarrow_schema(schema, primary_keys=keys, options=options)
        catalog.create_table("d.t", made, False)  # noqa: FBT003

    def upsert(self, directory: str, data: pa.Table, keys: list[str]) -> None:  # noqa: ARG002
        self.write(directory, data)

    def write(self, directory: str, data: pa.Table) -> None:
        self.stream(directory, iter(data.to_batches()))

    def stream(self, directory: str, source: Iterator[pa.RecordBatch]) -> None:
        builder = self.table(directory).new_batch_write_builder()
        write, commit = builder.new_write(), builder.new_commit()
        for batch in source:
            write.write_arrow_batch(batch)
        commit.commit(write.prepare_commit())
        write.close()
        commit.close()

    def read(self, directory: str, where: Where | None) -> int:
        builder = self.table(directory).new_read_builder()
        if where is not None:
            predicates = builder.new_predicate_builder()
            compare = predicates.less_than if where.operator == "<" else predicates.equal
            builder = builder.with_filter(compare(where.column, where.number))
        return int(builder.new_read().to_arrow(builder.new_scan().plan().splits()).num_rows)

    def plan(self, directory: str) -> int:
        splits = self.table(directory).new_read_builder().new_scan().plan().splits()
        return sum(len(split.files) for split in splits)


class PyPaimonRust(PyPaimon):
    """The Rust release; it has no way to create tables, so the Python release does that."""

    def __init__(self) -> None:
        super().__init__()
        self.rust = importlib.import_module("pypaimon_rust.datafusion")

    def table(self, directory: str) -> Any:  # noqa: ANN401
        return self.rust.PaimonCatalog({"warehouse": directory}).get_table("d.t")

    def stream(self, directory: str, source: Iterator[pa.RecordBatch]) -> None:
        builder = self.table(directory).new_batch_write_builder()
        write, commit = builder.new_write(), builder.new_commit()
        for batch in source:
            write.write_arrow(batch)
        commit.commit(write.prepare_commit())
        write.close()
        commit.close()

    def read(self, directory: str, where: Where | None) -> int:
        builder = self.table(directory).new_read_builder()
        if where is not None:
            method = "lessThan" if where.operator == "<" else "equal"
            builder = builder.with_filter(
                {"method": method, "field": where.column, "literals": [where.number], "index": where.index}
            )
        splits = builder.new_scan().plan().splits()
        return int(pa.Table.from_batches(builder.new_read().read(splits)).num_rows)

    def plan(self, directory: str) -> int:
        return len(self.table(directory).new_read_builder().new_scan().plan().splits())


class DeltaLake(Library):
    """deltalake."""

    def __init__(self) -> None:
        super().__init__()
        self.dl = importlib.import_module("deltalake")

    def create(self, directory: str, schema: pa.Schema, partitioned: bool) -> None:  # noqa: FBT001
        self.dl.DeltaTable.create(directory, schema, partition_by=["p"] if partitioned else None)

    def write(self, directory: str, data: pa.Table) -> None:
        self.dl.write_deltalake(directory, data, mode="append")

    def stream(self, directory: str, source: Iterator[pa.RecordBatch]) -> None:
        first = next(source)
        rest = (batch for part in ([first], source) for batch in part)
        self.dl.write_deltalake(directory, pa.RecordBatchReader.from_batches(first.schema, rest), mode="append")

    def create_keyed(self, directory: str, schema: pa.Schema, keys: list[str], options: dict[str, str]) -> None:  # noqa: ARG002
        self.dl.DeltaTable.create(directory, schema)

    def upsert(self, directory: str, data: pa.Table, keys: list[str]) -> None:
        on = " and ".join(f"t.{key} = s.{key}" for key in keys)
        merge = self.dl.DeltaTable(directory).merge(data, on, source_alias="s", target_alias="t")
        merge.when_matched_update_all().when_not_matched_insert_all().execute()

    def compact(self, directory: str, zorder: list[str], file_bytes: int) -> None:
        optimizer = self.dl.DeltaTable(directory).optimize
        size = file_bytes or None
        _ = optimizer.z_order(zorder, target_size=size) if zorder else optimizer.compact(target_size=size)

    def read(self, directory: str, where: Where | None) -> int:
        dataset = self.dl.DeltaTable(directory).to_pyarrow_dataset()
        return int(dataset.to_table(filter=where and where.to_arrow()).num_rows)


class PyIceberg(Library):
    """pyiceberg with a sqlite catalog."""

    def __init__(self) -> None:
        super().__init__()
        self.catalogs = importlib.import_module("pyiceberg.catalog")
        self.transforms = importlib.import_module("pyiceberg.transforms")

    def catalog(self, directory: str) -> Any:  # noqa: ANN401
        uri = f"sqlite:///{directory}/catalog.db"
        return self.catalogs.load_catalog("local", type="sql", uri=uri, warehouse=f"file://{directory}")

    def create(self, directory: str, schema: pa.Schema, partitioned: bool) -> None:  # noqa: FBT001
        os.makedirs(directory, exist_ok=True)
        catalog = self.catalog(directory)
        catalog.create_namespace("d")
        table = catalog.create_table("d.t", schema)
        if partitioned:
            with table.update_spec() as update:
                update.add_field("p", self.transforms.IdentityTransform(), "p")

    def write(self, directory: str, data: pa.Table) -> None:
        self.catalog(directory).load_table("d.t").append(data)

    def read(self, directory: str, where: Where | None) -> int:
        table = self.catalog(directory).load_table("d.t")
        scan = table.scan() if where is None else table.scan(row_filter=str(where))
        return int(scan.to_arrow().num_rows)


class Lance(Library):
    """lance."""

    def __init__(self) -> None:
        super().__init__()
        self.lance = importlib.import_module("lance")

    def create_keyed(self, directory: str, schema: pa.Schema, keys: list[str], options: dict[str, str]) -> None:  # noqa: ARG002
        self.lance.write_dataset(schema.empty_table(), directory)

    def upsert(self, directory: str, data: pa.Table, keys: list[str]) -> None:
        merge = self.lance.dataset(directory).merge_insert(keys)
        merge.when_matched_update_all().when_not_matched_insert_all().execute(data)

    def read(self, directory: str, where: Where | None) -> int:
        return int(self.lance.dataset(directory).to_table(filter=where and str(where)).num_rows)


LIBRARIES = {
    "pyarrow": PyArrow,
    "lakewright": Lakewright,
    "pypaimon": PyPaimon,
    "pypaimon-rust": PyPaimonRust,
    "deltalake": DeltaLake,
    "pyiceberg": PyIceberg,
    "lance": Lance,
}


class Clock:
    """Seconds and processor seconds since it was made."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def read(self) -> dict[str, float]:
        return {"seconds": time.perf_counter() - self._wall, "cpu": time.process_time() - self._cpu}


def run(library: Library, command: dict[str, Any]) -> dict[str, Any]:
    """Do one case and time only its work."""
    case, directory = command["case"], command["directory"]
    rows, partitions = command.get("rows", 0), command.get("partitions", 0)
    if case == "write":
        data = library.load(rows, partitions)
        shutil.rmtree(directory, ignore_errors=True)
        library.create(directory, data.schema, partitions > 0)
        clock = Clock()
        library.write(directory, data)
        return clock.read() | {"bytes": tree_bytes(directory)}
    if case == "read":
        clock = Clock()
        count = library.read(directory, Where.of(command))
        return clock.read() | {"rows": count}
    if case == "plan":
        clock = Clock()
        count = library.plan(directory)
        return clock.read() | {"rows": count}
    if case == "upsert":
        return upsert(library, directory, command)
    if case == "runs":
        return runs(library, directory, command)
    if case == "small files":
        return small_files(library, directory, rows, command["files"])
    if case == "compact":
        clock = Clock()
        library.compact(directory, command.get("zorder", []), command.get("file_bytes", 0))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        return clock.read() | {"peak_mb": peak}
    if case == "commits":
        return commits(library, directory, rows, command["commits"])
    if case == "stream":
        shutil.rmtree(directory, ignore_errors=True)
        schema = next(batches(1, partitions, 1)).schema
        library.create(directory, schema, partitions > 0)
        clock = Clock()
        library.stream(directory, batches(rows, partitions, 100_000))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        return clock.read() | {"peak_mb": peak, "bytes": tree_bytes(directory)}
    raise ValueError(case)


def upsert(library: Library, directory: str, command: dict[str, Any]) -> dict[str, Any]:
    """Write keyed rows into an empty table, or (`into`) into one of that many rows: half of them replace one."""
    rows, kind, into = command["rows"], command.get("key", "bigint"), command.get("into", 0)
    data = keyed(rows, kind, of=2 * into)
    shutil.rmtree(directory, ignore_errors=True)
    library.create_keyed(directory, data.schema, KEYS[kind], {"bucket": str(command.get("buckets", 4))})
    if into:
        library.upsert(directory, keyed(into, kind, seed=8), KEYS[kind])
    clock = Clock()
    library.upsert(directory, data, KEYS[kind])
    return clock.read() | {"bytes": tree_bytes(directory)} | ({"rows": library.read(directory, None)} if into else {})


def runs(library: Library, directory: str, command: dict[str, Any]) -> dict[str, Any]:
    """Make a table whose buckets have that many overlapping sorted runs."""
    clock = Clock()
    shutil.rmtree(directory, ignore_errors=True)
    for number in range(command["runs"]):
        data = keyed(command["rows"], "bigint", seed=number, of=2 * command["rows"])
        if number == 0:
            options = {"bucket": str(command.get("buckets", 4)), "write-only": "true"}
            library.create_keyed(directory, data.schema, KEYS["bigint"], options)
        library.upsert(directory, data, KEYS["bigint"])
    return clock.read()


def small_rows(number: int, rows: int) -> pa.Table:
    """Return the rows of one of many small files: an increasing key; the other columns are in no order."""
    random = np.random.default_rng(number)
    words = pa.array([f"word-{n:07d}" for n in range(10_000)])
    times = 1_700_000_000_000_000 + random.integers(0, 365 * 86_400, rows) * 1_000_000
    return pa.table(
        {
            "k": np.arange(number * rows, (number + 1) * rows),
            "i": random.integers(0, 1_000_000, rows, dtype=np.int32),
            "d": random.random(rows),
            "t": pa.array(times, pa.timestamp("us")),
            "s": words.take(pa.array(random.integers(0, len(words), rows))),
        }
    )


def small_files(library: Library, directory: str, rows: int, files: int) -> dict[str, Any]:
    """Make a table of many small files, each from a commit of its own."""
    clock = Clock()
    shutil.rmtree(directory, ignore_errors=True)
    library.create(directory, small_rows(0, 1).schema, partitioned=False)
    for number in range(files):
        library.write(directory, small_rows(number, rows // files))
    return clock.read()


def commits(library: Library, directory: str, rows: int, count: int) -> dict[str, Any]:
    """Commit the same few rows again and again; `growth` compares the last tenth of the commits with the first."""
    data = library.load(rows, 0)
    shutil.rmtree(directory, ignore_errors=True)
    library.create(directory, data.schema, partitioned=False)
    whole, times = Clock(), []
    for _ in range(count):
        clock = Clock()
        library.write(directory, data)
        times.append(clock.read()["cpu"])
    out = whole.read()
    tenth = max(1, len(times) // 10)
    growth = float(np.median(times[-tenth:]) / np.median(times[:tenth]))
    return out | {"growth": growth, "rows": library.read(directory, None)}


def tree_bytes(directory: str) -> int:
    """Return how many bytes are below a directory."""
    return sum(path.stat().st_size for path in Path(directory).rglob("*") if path.is_file())


def main() -> None:
    """Answer commands until standard input ends."""
    library = LIBRARIES[sys.argv[1]]()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints goes to standard error
    for line in sys.stdin:
        try:
            answer = run(library, json.loads(line))
        except NotImplementedError:
            answer = {"skipped": True}
        except Exception as failure:  # noqa: BLE001 - a peer may fail in its own way; the table says so
            answer = {"failed": f"{type(failure).__name__}: {failure}"[:300]}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main()
