"""Memory on Spark: what a driver holds when many tasks answer, and what workers hold when rows have many places.

`driver` needs no Spark: the answers of 10,000 tasks with four files each go through the driver's own code into one
snapshot. `workers` writes 20 million rows into 300 partitions, with a primary key in four buckets each and as a plain
append, and watches the peak of every Python worker. Each figure is measured in a process of its own.
"""

from __future__ import annotations

import argparse
import ctypes
import datetime as dt
import json
import os
import pickle
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO

import pyarrow as pa
from pyspark.sql import Row

import lakewright as lw
from lakewright.commit.commit_message import CommitMessage

COLUMNS = pa.schema(
    [
        pa.field("k", pa.int64(), nullable=False),
        pa.field("day", pa.int32(), nullable=False),
        pa.field("s", pa.string()),
        pa.field("d", pa.float64()),
        pa.field("i", pa.int32()),
        pa.field("dt", pa.date32()),
    ]
)
FILES_PER_TASK = 4
WORKER_BYTES_MAX = 2 << 30


def make_table(root: str, name: str, **schema: object) -> lw.FileStoreTable:
    catalog = lw.CatalogFactory.create({"warehouse": root})
    catalog.create_database("d", True)  # noqa: FBT003 - pypaimon's order of arguments
    catalog.create_table(f"d.{name}", lw.Schema.from_pyarrow_schema(COLUMNS, **schema))  # type: ignore[arg-type]
    return catalog.get_table(f"d.{name}")


# ---- the driver ------------------------------------------------------------------------------------------------------


def answers(root: str, tasks: int, path: str) -> None:
    """Make what Spark would bring home: rows with the messages of tasks, each with a file in four partitions."""
    from lakewright.engine.engine import TaskResult  # noqa: PLC0415 - processes that only count need none of it
    from lakewright.write.table_writer import WriteJob  # noqa: PLC0415

    table = make_table(root, "driver", partition_keys=["day"])
    job = WriteJob.new(table.store, overwrite=False)
    rows = pa.table(
        {
            "k": range(1000),
            "day": [n % FILES_PER_TASK for n in range(1000)],
            "s": [f"a string of {n}" for n in range(1000)],
            "d": [n / 7 for n in range(1000)],
            "i": range(1000),
            "dt": [dt.date(2026, 1, 1)] * 1000,
        },
        COLUMNS,
    )
    with job.open_writer(0, 0) as writer:
        writer.write(rows)
        messages = writer.prepare()
    with Path(path).open("wb") as out:
        pickle.dump((table, job), out)
        for task in range(tasks):
            named = [_copied(table, message, f"data-{job.write_id}-{task}-{task}") for message in messages]
            pickle.dump((task, task, 0, 0, 1, TaskResult(named).to_bytes(), None), out)


def _copied(table: lw.FileStoreTable, message: CommitMessage, stem: str) -> CommitMessage:
    """Return a message as another task would send it, with links to the files of the first."""
    (file,) = message.new_files
    name = f"{stem}-copy.parquet"
    (day,) = message.partition
    folder = Path(table.table_path) / f"day={day}" / "bucket-0"
    (folder / name).hardlink_to(folder / file.file_name)
    return replace(message, new_files=(replace(file, file_name=name),))


def drive(path: str) -> None:
    """Take the answers from the hands of Spark to a snapshot, and print what that took."""
    from lakewright.dml.distributed_write import (  # noqa: PLC0415
        CommitTarget,
        _publish,
        _Written,
    )
    from lakewright.engine.engine import TaskResult  # noqa: PLC0415
    from lakewright.engine.engine_job import verified_messages  # noqa: PLC0415
    from lakewright.spark.spark_engine import _complete, _join_payloads  # noqa: PLC0415

    shape = Row("task", "attempt", "retry", "piece", "pieces", "payload", "error")
    marks = {"start": resident()}
    with Path(path).open("rb") as source:
        _, job = pickle.load(source)  # noqa: S301 - our own, of a moment ago
        rows = list(_rows(source, shape))
    marks["answers"] = resident()
    started = time.process_time()
    done = _complete(_join_payloads(rows, 0), "bench")
    del rows
    messages = verified_messages(job, (TaskResult.from_bytes(one.payload) for one in done))
    marks["messages"] = resident()
    written = _Written(messages, len(done), "bench")
    result = _publish(job, CommitTarget(), lambda *_: [], time.monotonic(), written).result
    marks["committed"] = resident()
    megabytes = {name: round(value / 2**20) for name, value in marks.items()}
    payload = round(sum(len(one.payload) for one in done) / 2**20)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    said = {"tasks": len(done), "files": result.files, "payload_mb": payload, "resident_mb": megabytes, "peak_mb": peak}
    print(json.dumps({**said, "cpu_seconds": round(time.process_time() - started, 1)}))


def _rows(source: IO[bytes], shape: Callable[..., Row]) -> Iterator[Row]:
    while True:
        try:
            yield shape(*pickle.load(source))  # noqa: S301 - as above
        except EOFError:
            return


def resident() -> int:
    """Return the bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


# ---- the workers -----------------------------------------------------------------------------------------------------


def work(case: str, root: str, rows: int, partitions: int) -> None:
    """Write rows into many partitions, and print the peak of every Python worker."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - as everybody writes it

    from lakewright.spark.spark_session import local_session  # noqa: PLC0415
    from lakewright.spark.spark_verbs import write_table  # noqa: PLC0415

    keyed = case == "primary key"
    table = make_table(
        root,
        case.replace(" ", "_"),
        partition_keys=["day"],
        primary_keys=["day", "k"] if keyed else None,
        options={"bucket": "4", "write-only": "true"} if keyed else {},
    )
    spark = local_session(master="local[2]", memory="2g", config={"spark.local.dir": root})
    k = F.col("id")
    frame = spark.range(0, rows, numPartitions=8).select(
        k.alias("k"),
        F.pmod(F.xxhash64(k), F.lit(partitions)).cast("int").alias("day"),
        F.concat(F.lit("customer "), F.hex(F.xxhash64(k, F.lit(1)))).alias("s"),
        F.rand(1).alias("d"),
        (k % 1000).cast("int").alias("i"),
        F.expr("date'2026-01-01'").alias("dt"),
    )
    with peaks() as seen:
        result = write_table(
            frame,
            table,
            "upsert" if keyed else "append",
            distribution="partition" if case == "append together" else None,
        )
    spark.stop()
    workers = sorted((round(value / 2**20) for value in seen.values()), reverse=True)
    said = {"case": case, "rows": result.rows, "files": result.files, "partitions": result.partitions}
    print(json.dumps({**said, "way": result.method, "seconds": round(result.seconds), "worker_peaks_mb": workers[:6]}))


@contextmanager
def peaks() -> Iterator[dict[int, int]]:
    """Watch the largest size of every Python worker below this process, by process id."""
    seen: dict[int, int] = {}
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.2):
            seen.update(_workers(os.getpid()))

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield seen
    finally:
        over.set()
        watcher.join()


def _workers(root: int) -> dict[int, int]:
    """Return the peak of every Python worker that descends from a process."""
    parents: dict[int, int] = {}
    found: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            if b"pyspark.daemon" in (entry / "cmdline").read_bytes():
                status = dict(line.split(":", 1) for line in (entry / "status").read_text().splitlines() if ":" in line)
                found[int(entry.name)] = int(status["VmHWM"].split()[0]) * 1024
        except (OSError, KeyError, ValueError):  # it ended meanwhile
            continue
    return {pid: size for pid, size in found.items() if root in _ancestors(pid, parents)}


def _ancestors(pid: int, parents: dict[int, int]) -> Iterator[int]:
    while (pid := parents.get(pid, 0)) > 0:
        yield pid


# ---- all of it -------------------------------------------------------------------------------------------------------


def alone(*words: str) -> dict[str, object]:
    """Run one measurement in a process of its own, which dies with this one."""
    command = [sys.executable, __file__, *words]
    libc = ctypes.CDLL(None)
    run = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, preexec_fn=lambda: libc.prctl(1, 15))
    lines = run.stdout.splitlines()
    found: dict[str, object] = json.loads(lines[-1]) if lines else {}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "what", nargs="?", choices=("all", "driver", "workers", "answers", "drive", "work"), default="all"
    )
    parser.add_argument("rest", nargs="*")
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--partitions", type=int, default=300)
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--root", default=None, help="where tables are made, and removed again")
    args = parser.parse_args()
    match args.what:
        case "answers":
            answers(args.rest[0], args.tasks, args.rest[1])
        case "drive":
            drive(args.rest[0])
        case "work":
            work(args.rest[0], args.rest[1], args.rows, args.partitions)
        case _:
            measure(args)


def measure(args: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory(dir=args.root) as root:
        if args.what in {"all", "driver"}:
            for tasks in (args.tasks // 10, args.tasks):
                path = f"{root}/{tasks}.answers"
                alone("answers", f"{root}/{tasks}", path, "--tasks", str(tasks))
                print(json.dumps(alone("drive", path)))
        if args.what in {"all", "workers"}:
            for case in ("primary key", "append", "append together"):
                sizes = ("--rows", str(args.rows), "--partitions", str(args.partitions))
                found = alone("work", case, root, *sizes)
                worst = max(found["worker_peaks_mb"], default=0)  # type: ignore[call-overload]
                print(json.dumps({**found, "holds": worst * 2**20 < WORKER_BYTES_MAX}))


if __name__ == "__main__":
    main()
