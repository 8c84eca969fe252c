"""Spark at size: rows into a primary-key table of many partitions, a tenth of them upserted, compacted and read.

    python -m bench.spark_size [--rows 5000000 100000000] [--partitions 300] [--root DIRECTORY]

Each size runs in a process of its own, after a small run that warms the session up. Told are the seconds of each stage
on the wall and of the processor (of all processes together), rows a second, and the peak memory of the JVM, of the
driver's Python and of the largest Python worker; then the time per row of each size as a multiple of the first one's.
What the table holds is compared with what it must hold: the number of rows and partitions, and the sums of three
columns. Run by `make bench CASE=spark-size`.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

COLUMNS = pa.schema(
    [
        pa.field("k", pa.int64(), nullable=False),
        pa.field("day", pa.int32(), nullable=False),
        pa.field("s", pa.string()),
        pa.field("d", pa.float64()),
        pa.field("i", pa.int32()),
    ]
)
BUCKETS = 4
UPSERTED = 10  # one of so many rows; every second of them has a key of the table
WARM_UP_ROWS = 200_000
NEW_I = 5_000


# ---- one size, in a process of its own -------------------------------------------------------------------------------


def run(root: str, rows: int, partitions: int, memory: str) -> dict[str, Any]:
    """Take one table through all stages, and return what each took."""
    from lakewright.spark.spark_session import local_session  # noqa: PLC0415 - the parent needs no Spark

    spark = local_session(master="local[2]", memory=memory, config={"spark.local.dir": root})
    stages(spark, f"{root}/warm", WARM_UP_ROWS, min(partitions, 20))
    started = time.perf_counter()
    told = stages(spark, f"{root}/full", rows, partitions)
    told["seconds"] = round(time.perf_counter() - started, 1)
    spark.stop()
    return told


def stages(spark: Any, root: str, rows: int, partitions: int) -> dict[str, Any]:  # noqa: ANN401 - pyspark has no types
    """Write, upsert, read, compact and read again; raise where the table holds something else than it must."""
    import lakewright as lw  # noqa: PLC0415
    import lakewright.spark as lws  # noqa: PLC0415

    catalog = lw.CatalogFactory.create({"warehouse": root})
    catalog.create_database("d", ignore_if_exists=True)
    options = {"bucket": str(BUCKETS), "write-only": "true"}
    schema = lw.Schema.from_pyarrow_schema(COLUMNS, partition_keys=["day"], primary_keys=["day", "k"], options=options)
    catalog.create_table("d.t", schema)
    table = catalog.get_table("d.t")
    upserts = rows // UPSERTED
    told: dict[str, Any] = {"rows": rows, "partitions": partitions, "load": os.getloadavg()[0], "stages": {}}

    def stage(name: str, count: int, work: Callable[[], Any]) -> None:
        with peaks() as seen:
            started = time.perf_counter()
            work()
            seconds = time.perf_counter() - started
        told["stages"][name] = {"rows": count, "seconds": round(seconds, 2), **seen.told()}
        print(name, json.dumps(told["stages"][name]), file=sys.stderr, flush=True)

    def read() -> None:
        found = held(lws.read_table(spark, table))
        if found != expected(rows, upserts, partitions):
            raise AssertionError(f"the table holds {found}, not {expected(rows, upserts, partitions)}")

    stage("write", rows, lambda: lws.write_table(base(spark, rows, partitions), table, "upsert"))
    stage("upsert", upserts, lambda: lws.write_table(changes(spark, rows, upserts, partitions), table, "upsert"))
    stage("read, merged", rows, read)
    stage("compact", rows, lambda: lws.compact(spark, table, full=True))
    stage("read, compacted", rows, read)
    told["files"] = lw.read_table(catalog.get_table("d.t$files")).num_rows
    return told


def base(spark: Any, rows: int, partitions: int) -> Any:  # noqa: ANN401 - as above
    """Return the first rows: keys from 0 on."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - as everybody writes it

    k = F.col("id")
    return spark.range(0, rows, 1, tasks(rows)).select(
        k.alias("k"),
        F.pmod(F.xxhash64(k), F.lit(partitions)).cast("int").alias("day"),
        F.concat(F.lit("customer "), F.hex(F.xxhash64(k, F.lit(1)))).alias("s"),
        (k / 2.0).cast("double").alias("d"),
        (k % 1000).cast("int").alias("i"),
    )


def changes(spark: Any, rows: int, upserts: int, partitions: int) -> Any:  # noqa: ANN401 - as above
    """Return the upserted rows: every second has a key of the table."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - as everybody writes it

    n = F.col("id")
    frame = spark.range(0, upserts, 1, tasks(upserts)).select(
        n, F.when(n % 2 == 0, n * UPSERTED).otherwise(n + rows).cast("bigint").alias("k")
    )
    return frame.select(
        "k",
        F.pmod(F.xxhash64("k"), F.lit(partitions)).cast("int").alias("day"),
        F.lit("upserted").alias("s"),
        F.lit(-1.0).alias("d"),
        (n % 7 + NEW_I).cast("int").alias("i"),
    )


def tasks(rows: int) -> int:
    """Return into how many tasks a source of rows is cut: a million rows each, and a few at least."""
    return max(8, rows // 1_000_000)


def held(frame: Any) -> list[float]:  # noqa: ANN401 - as above
    """Return what a frame holds: counts, and sums that are exact."""
    (row,) = frame.selectExpr("count(*)", "count(distinct day)", "sum(k)", "sum(i)", "sum(d)").collect()
    return list(row)


def expected(rows: int, upserts: int, partitions: int) -> list[float]:
    """Return what the table must hold."""
    total_k, total_i = rows * (rows - 1) // 2, sum_below(rows, 1000)
    total_d, new_k = total_k, 0
    for start in range(0, upserts, 1_000_000):  # in pieces: the memory of this process is watched
        n = np.arange(start, min(start + 1_000_000, upserts), dtype=np.int64)
        known = n[n % 2 == 0] * UPSERTED
        new_k += int((n[n % 2 == 1] + rows).sum())
        total_i += int((n % 7 + NEW_I).sum()) - int((known % 1000).sum())
        total_d -= int(known.sum())
    return [rows + upserts // 2, partitions, total_k + new_k, total_i, total_d / 2 - upserts]


def sum_below(count: int, modulus: int) -> int:
    """Return the sum of the first numbers, each modulo a number."""
    whole, rest = divmod(count, modulus)
    return whole * (modulus * (modulus - 1) // 2) + rest * (rest - 1) // 2


# ---- memory ----------------------------------------------------------------------------------------------------------


@dataclass
class Seen:
    """What was seen of processes: their largest size in bytes, and their processor time at first and at last."""

    bytes: dict[tuple[str, int], int] = field(default_factory=dict)
    first: dict[int, float] = field(default_factory=dict)
    last: dict[int, float] = field(default_factory=dict)

    def look(self, root: int, *, started: bool = False) -> None:
        """Look at a process and its descendants; those that come later began with no processor time."""
        for (kind, pid), (size, seconds) in processes(root).items():
            self.bytes[kind, pid] = max(size, self.bytes.get((kind, pid), 0))
            self.first.setdefault(pid, seconds if started else 0.0)
            self.last[pid] = seconds

    def told(self) -> dict[str, float]:
        """Return the processor seconds of all, and the largest size of each kind of process in megabytes."""
        kinds = ("driver", "jvm", "worker")
        peaks = {
            f"{kind}_mb": max((s for (k, _), s in self.bytes.items() if k == kind), default=0) >> 20 for kind in kinds
        }
        return {"cpu": round(sum(self.last[pid] - self.first[pid] for pid in self.last), 1), **peaks}


@contextmanager
def peaks() -> Iterator[Seen]:
    """Watch this process, its JVM and its Python workers."""
    seen, over = Seen(), threading.Event()
    seen.look(os.getpid(), started=True)

    def look() -> None:
        while not over.wait(0.3):
            seen.look(os.getpid())

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield seen
    finally:
        over.set()
        watcher.join()
        seen.look(os.getpid())


def processes(root: int) -> dict[tuple[str, int], tuple[int, float]]:
    """Return the bytes in memory and the processor seconds of a process and its descendants, by kind and process id."""
    parents: dict[int, int] = {}
    found: dict[tuple[str, int], tuple[int, float]] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            pid, stat = int(entry.name), (entry / "stat").read_text().rpartition(")")[2].split()
            parents[pid] = int(stat[1])
            command = (entry / "cmdline").read_bytes()
            kind = (
                "worker" if b"pyspark.daemon" in command else "jvm" if b"java" in command.split(b"\0")[0] else "other"
            )
            kind = "driver" if pid == root else kind
            size = int((entry / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
            found[kind, pid] = size, (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")
        except (OSError, ValueError, IndexError):  # it ended meanwhile
            continue
    return {key: seen for key, seen in found.items() if key[1] == root or root in ancestors(key[1], parents)}


def ancestors(pid: int, parents: dict[int, int]) -> Iterator[int]:
    """Yield the parents of a process."""
    while (pid := parents.get(pid, 0)) > 0:
        yield pid


# ---- all sizes -------------------------------------------------------------------------------------------------------


def alone(arguments: argparse.Namespace, root: str, rows: int) -> dict[str, Any]:
    """Run one size in a process that dies with this one."""
    command = [sys.executable, __file__, "--child", root, "--rows", str(rows), "--memory", arguments.memory]
    command += ["--partitions", str(arguments.partitions)]
    libc = ctypes.CDLL(None)
    answer = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, preexec_fn=lambda: libc.prctl(1, 15)
    )
    found: dict[str, Any] = json.loads(answer.stdout.splitlines()[-1])
    return found


def show(results: list[dict[str, Any]]) -> None:
    """Print the stages of all sizes, each with its time per row as a multiple of that of the first size."""
    print(
        "| stage | rows | seconds | rows/s | per row, of the first | cpu | the same | worker MB | driver MB | JVM MB |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for result in results:
        for name, one in result["stages"].items():
            first = results[0]["stages"][name]
            scale = first["rows"] / one["rows"]
            ratios = [f"{one[what] / first[what] * scale:.2f}" for what in ("seconds", "cpu")]
            memory = " | ".join(str(one[f"{kind}_mb"]) for kind in ("worker", "driver", "jvm"))
            times = f"{one['seconds']} | {one['rows'] / one['seconds']:,.0f} | {ratios[0]} | {one['cpu']} | {ratios[1]}"
            print(f"| {name} | {one['rows']:,} | {times} | {memory} |")


def main() -> None:
    """Measure all sizes, or be the process of one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[5_000_000, 100_000_000])
    parser.add_argument("--partitions", type=int, default=300)
    parser.add_argument("--memory", default="3g", help="of the JVM")
    parser.add_argument("--root", default=None, help="where tables are made, and removed again")
    parser.add_argument("--child", default="", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(run(arguments.child, arguments.rows[0], arguments.partitions, arguments.memory)))
        return
    results = []
    for rows in arguments.rows:
        with tempfile.TemporaryDirectory(dir=arguments.root) as root:
            results.append(alone(arguments, root, rows))
            print(json.dumps(results[-1]), flush=True)
    show(results)


if __name__ == "__main__":
    main()
