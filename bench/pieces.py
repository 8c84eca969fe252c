"""Pieces smaller than a file: one file and one merge read by one thread and by two, and scans of deleted rows.

Ours against ours: with one thread, Arrow has one too. Runs are interleaved; medians of the time on the wall and of the
processor time, and pyarrow's read of the same file. The last column bears a busy machine: the processor time of the
whole in one thread, divided by that of the longer of its two pieces. `--spark` adds two tasks against
one where rows must merge.

    make bench CASE=pieces
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import lakewright as lw
from lakewright.read.split_sharing import cut_splits
from lakewright.spec.predicate import TRUE
from lakewright.table.file_store_table import FileStoreTable

BIG = {"target-file-size": "64 gb", "write-buffer-size": "16 gb", "write-only": "true"}
KEYED = {"bucket": "1", "merge-engine": "partial-update"}
CONDITIONS = {"untouched": None, "1 %": "category = 'c07'", "10 %": "category < 'c10'"}


def rows_of(count: int, step: int = 1) -> pa.Table:
    """Return rows whose ids are `step` apart, with random values."""
    chance = np.random.default_rng(step)
    names = pa.array([f"name-{n:07d}" for n in range(100_000)])
    categories = pa.array([f"c{n:02d}" for n in range(100)])
    return pa.table(
        {
            "id": pa.array(np.arange(count) * step),
            "name": names.take(pa.array(chance.integers(0, len(names), count))),
            "amount": chance.random(count),
            "category": categories.take(pa.array(chance.integers(0, len(categories), count))),
        }
    )


def make_table(warehouse: str, name: str, keys: Sequence[str], options: dict[str, str]) -> FileStoreTable:
    """Make an empty table."""
    catalog = lw.CatalogFactory.create({"warehouse": warehouse})
    catalog.create_database("d", ignore_if_exists=True)
    fields = [field.with_nullable(field.name not in keys) for field in rows_of(1).schema]
    catalog.create_table(
        f"d.{name}", lw.Schema.from_pyarrow_schema(pa.schema(fields), primary_keys=list(keys), options=options)
    )
    return catalog.get_table(f"d.{name}")


def make_tables(warehouse: str, rows: int) -> dict[str, FileStoreTable]:
    """Write all tables."""
    data = rows_of(rows)
    tables = {
        "file": make_table(warehouse, "file", [], BIG),
        "merge": make_table(warehouse, "merge", ["id"], BIG | KEYED),
    }
    lw.write_table(data, tables["file"])
    lw.write_table(data, tables["merge"])
    lw.write_table(rows_of(rows // 50, 50), tables["merge"])
    for number, (name, condition) in enumerate(CONDITIONS.items()):
        table = tables[name] = make_table(warehouse, f"deleted{number}", [], {"deletion-vectors.enabled": "true"})
        lw.write_table(data.slice(0, rows // 2), table)
        if condition is not None:
            table.delete(condition)
    return tables


def scan(table: FileStoreTable, threads: int) -> Callable[[], object]:
    """Return a read of all rows by so many threads, of which Arrow has as many."""

    def run() -> object:
        pa.set_cpu_count(threads)
        return table.new_read_builder().new_read().to_arrow(parallelism=threads)

    return run


def times(cases: dict[str, Callable[[], object]], repeats: int) -> dict[str, tuple[float, float]]:
    """Return medians of the time on the wall and of the processor time, of runs in turn; the first does not count."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in cases}
    for _ in range(repeats + 1):
        for name, run in cases.items():
            wall, cpu = time.perf_counter(), time.process_time()
            run()
            found[name].append((time.perf_counter() - wall, time.process_time() - cpu))
    return {
        name: (statistics.median(wall for wall, _ in some[1:]), statistics.median(cpu for _, cpu in some[1:]))
        for name, some in found.items()
    }


def best_ratio(table: FileStoreTable, repeats: int) -> float:
    """Return how many times as fast two threads could be: the whole against the longer piece, each in one thread."""
    builder = table.new_read_builder()
    read, splits = builder.new_read(), builder.new_scan().plan().splits()
    cut = cut_splits(read.store, splits, TRUE, 2)
    pa.set_cpu_count(1)
    pieces: dict[str, Callable[[], object]] = {"whole": lambda: read.to_arrow(splits, parallelism=1)}
    for number, piece in enumerate(cut):
        pieces[str(number)] = lambda piece=piece: read.to_arrow([piece], parallelism=1)  # type: ignore[misc]
    cpu = {name: seconds for name, (_, seconds) in times(pieces, repeats).items()}
    return cpu["whole"] / max(cpu[str(number)] for number in range(len(cut)))


def spark_seconds(warehouse: str, tasks: int) -> float:
    """Return the median time of a query over the merged rows on Spark with so many cores, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.pieces", "--tasks", str(tasks), "--warehouse", warehouse],
        check=True,
        capture_output=True,
        text=True,
    )
    return float(json.loads(done.stdout.splitlines()[-1]))


def spark_query(warehouse: str, tasks: int, repeats: int) -> None:
    """Print the median time of a query on Spark with so many cores."""
    import lakewright.spark as lws  # noqa: PLC0415 - only this part needs Spark

    spark = lws.local_session(master=f"local[{tasks}]")
    table = lw.CatalogFactory.create({"warehouse": warehouse}).get_table("d.merge")

    def query() -> object:  # a frame each time: Spark does not repeat what one has shuffled before
        return lws.read_table(spark, table).selectExpr("sum(id)", "sum(amount)", "count(name)").collect()

    print(json.dumps(times({"query": query}, repeats)["query"][0]))


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--spark", action="store_true")
    parser.add_argument("--tasks", type=int)
    parser.add_argument("--warehouse", help="where tables are made; they are kept")
    given = parser.parse_args()
    if given.tasks:
        spark_query(given.warehouse, given.tasks, given.repeats)
        return
    with tempfile.TemporaryDirectory() as warehouse:
        tables = make_tables(warehouse, given.rows)
        path = tables["file"].new_read_builder().new_scan().plan().splits()[0].file_paths[0]
        print("| | wall s | cpu s | best of 2 |\n| --- | --- | --- | --- |")
        for name in ("file", "merge"):
            found = times({f"{name}, {n} threads": scan(tables[name], n) for n in (1, 2)}, given.repeats)
            best = best_ratio(tables[name], given.repeats)
            for case, (wall, cpu) in found.items():
                print(f"| {case} | {wall:.2f} | {cpu:.2f} | {best:.2f} |")
        found = times({name: scan(tables[name], 2) for name in CONDITIONS}, given.repeats)
        found |= times({"pyarrow, file": lambda: pq.read_table(path)}, given.repeats)
        for case, (wall, cpu) in found.items():
            print(f"| {case} | {wall:.2f} | {cpu:.2f} | |")
        if given.spark:
            for tasks in (1, 2):
                print(f"| merge on Spark, {tasks} tasks | {spark_seconds(warehouse, tasks):.2f} | | |")


if __name__ == "__main__":
    main()
