"""Streaming queries that are killed: a program that runs some, and the hand that kills it.

Run as a script it is the program: one Spark session with a query for each table, in the way that the table's name says.
Imported it is the hand: `StreamRuns` makes tables and files with known rows, starts the program, kills it with all that
it started, and says whether every row is in the tables once.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import lakewright as lw
from contract.fault_enumerator import stray_files
from lakewright.spec.snapshot import Snapshot

ROWS = 40  # of a file
KEYS = 25
START_SECONDS_MAX = 300
BATCH_SECONDS_MAX = 300
APPEND = {"append_sink": "sink", "append_foreach": "foreach"}
KEYED = {"keyed_sink": "sink", "keyed_foreach": "foreach"}
WAYS = {**APPEND, **KEYED}
_SUMS = {
    "bucket": "2",
    "merge-engine": "aggregation",
    "fields.n.aggregate-function": "sum",
    "fields.c.aggregate-function": "sum",
}


@dataclass
class StreamRuns:
    """Tables, the files that streams bring into them, and the program that runs the streams."""

    root: Path
    names: tuple[str, ...]
    files: int
    between: int = 0  # kills after which a batch was in the table and not yet in Spark's own log
    program: subprocess.Popen[bytes] | None = field(default=None, init=False)
    running: tuple[str, ...] = field(default=(), init=False)

    def __post_init__(self) -> None:
        catalog = lw.CatalogFactory.create({"warehouse": str(self.root / "warehouse")})
        catalog.create_database("d")
        columns = pa.schema({"k": pa.int64(), "n": pa.int64(), "c": pa.int64()})
        for name in self.names:
            keyed = name in KEYED
            schema = lw.Schema.from_pyarrow_schema(
                columns, primary_keys=["k"] if keyed else None, options=_SUMS if keyed else {}
            )
            catalog.create_table(f"d.{name}", schema)
        (self.root / "in").mkdir()
        for number in range(self.files):
            rows = range(number * ROWS, (number + 1) * ROWS)
            data = {"k": [row % KEYS for row in rows], "n": list(rows), "c": [1] * ROWS}
            path = self.root / "in" / f"{number:05}.parquet"
            pq.write_table(pa.table(data, columns), path)
            os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))

    def table(self, name: str) -> lw.FileStoreTable:
        return lw.open_table(str(self.root / "warehouse" / "d.db" / name))

    def start(self, files_per_batch: int, names: Sequence[str] = (), *, drain: bool = False) -> None:
        """Start the program with the queries of some tables, or of all, and wait until they run."""
        (self.root / "started").unlink(missing_ok=True)
        self.running = tuple(names) or self.names
        wish = {"root": str(self.root), "names": self.running, "files": files_per_batch, "drain": drain}
        with (self.root / "log").open("ab") as log:
            self.program = subprocess.Popen(
                [sys.executable, __file__, json.dumps(wish)],
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            )
        self._wait((self.root / "started").exists, START_SECONDS_MAX)

    def kill_at(self, dice: random.Random) -> None:
        """Kill the program while it starts, in the middle of its work, or just after one of its commits.

        Sometimes the JVM goes first: who commits for the sink is a process of its own and lives on for a moment.
        """
        moment, name = dice.random(), dice.choice(self.running)
        if moment < 0.2:
            time.sleep(dice.uniform(0.0, 5.0))
        elif moment < 0.6:
            self._wait_for_new(f"checkpoints/{name}/commits/[0-9]*")
            time.sleep(dice.uniform(0.0, 3.0))
        else:
            self._wait_for_new(f"warehouse/d.db/{name}/snapshot/snapshot-*")
            time.sleep(dice.uniform(0.0, 0.02))
        self.check_healthy()
        assert self.program is not None
        if dice.random() < 0.3:
            for pid in members_of(self.program.pid):
                if _is_java(pid):
                    kill_process(pid)
            time.sleep(dice.uniform(0.0, 1.0))
        self.kill()
        self.between += self._half_done()

    def kill(self) -> None:
        """Kill the program and everything it has started."""
        assert self.program is not None
        while members := members_of(self.program.pid):
            for pid in members:
                kill_process(pid)
            self.program.poll()
            time.sleep(0.01)
        self.program.wait()

    def drain(self, files_per_batch: int) -> None:
        """Run the queries until all files are in the tables."""
        self.start(files_per_batch, drain=True)
        assert self.program is not None
        code = self.program.wait(timeout=600)
        assert code == 0, self._log()

    def check_healthy(self) -> None:
        """Fail if the program ended by itself."""
        assert self._alive(), self._log()

    def check(self) -> None:
        """Check that every row is in every table once, and that nothing is left once orphans are removed."""
        total = self.files * ROWS
        for name in self.names:
            table = self.table(name)
            found = lw.read_table(table)
            if name in APPEND:
                counts = Counter(found["n"].to_pylist())
                assert counts == Counter(range(total)), f"{name}: {(Counter(range(total)) - counts)} is missing"
            else:
                sums = {row["k"]: (row["n"], row["c"]) for row in found.to_pylist()}
                rows = [range(key, total, KEYS) for key in range(KEYS)]
                assert sums == {key: (sum(of), len(of)) for key, of in enumerate(rows)}, name
            commits = [s for s in _snapshots(table) if s.commit_kind == "APPEND"]
            assert len({s.commit_user for s in commits}) == 1, f"{name}: a restarted query has another name"
            assert max(Counter(s.commit_identifier for s in commits).values()) == 1, f"{name}: a batch is there twice"
            table.remove_orphan_files(older_than=int(time.time() * 1000))
            assert stray_files(table.store) == set(), name

    def batches(self) -> dict[str, int]:
        """Return how many batches each table got."""
        return {name: sum(s.commit_kind == "APPEND" for s in _snapshots(self.table(name))) for name in self.names}

    def _half_done(self) -> int:
        """Return how many queries have a batch in the table that Spark does not know to be done."""
        count = 0
        for name in self.running:
            commits = self.root / "checkpoints" / name / "commits"
            done = max((int(path.name) for path in commits.glob("[0-9]*")), default=-1)
            newest = next((s for s in _snapshots(self.table(name)) if s.commit_kind == "APPEND"), None)
            count += newest is not None and newest.commit_identifier > done
        return count

    def _wait_for_new(self, pattern: str) -> None:
        """Wait until there is one more file of a kind."""
        before = sum(1 for _ in self.root.glob(pattern))
        self._wait(lambda: sum(1 for _ in self.root.glob(pattern)) > before, BATCH_SECONDS_MAX)

    def _alive(self) -> bool:
        return self.program is not None and self.program.poll() is None

    def _wait(self, ready: Callable[[], bool], seconds: float) -> None:
        limit = time.monotonic() + seconds
        while not ready():
            assert self._alive(), self._log()
            assert time.monotonic() < limit, f"not ready after {seconds} s\n{self._log()}"
            time.sleep(0.005)

    def _log(self) -> str:
        return (self.root / "log").read_text(errors="replace")[-6000:]


def _snapshots(table: lw.FileStoreTable) -> list[Snapshot]:
    return list(table.store.snapshots.walk_back(table.store.snapshots.latest_id() or 0))


def members_of(session: int) -> list[int]:
    """Return the processes of a session; workers of PySpark have groups of their own, but stay in it."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            state, _, _, of_session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
        except OSError:
            continue
        if int(of_session) == session and state != "Z":
            found.append(int(entry.name))
    return found


def _is_java(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip() == "java"
    except OSError:
        return False


def kill_process(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def main(wish: dict[str, object]) -> None:
    """Run one query per table until killed, or until all files are read."""
    from lakewright.spark.spark_session import local_session  # noqa: PLC0415 - only the program needs Spark
    from lakewright.spark.stream_verbs import write_stream  # noqa: PLC0415

    root, names = Path(str(wish["root"])), wish["names"]
    assert isinstance(names, list)
    config = {
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.files.openCostInBytes": "1",
        # A JVM that is killed within seconds does not get back what it spends on making code fast.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    spark = local_session("streams", master="local[2,3]", memory="1g", config=config)
    source = spark.readStream.schema("k long, n long, c long").option("maxFilesPerTrigger", str(wish["files"]))
    queries = []
    for name in names:
        frame = source.parquet(str(root / "in"))
        table, checkpoint = str(root / "warehouse" / "d.db" / name), str(root / "checkpoints" / name)
        trigger = {"availableNow": True} if wish["drain"] else {"processingTime": "0 seconds"}
        if WAYS[name] == "foreach":
            queries.append(write_stream(frame, table, checkpoint=checkpoint, trigger=trigger))
            continue
        writer = frame.writeStream.format("lakewright").option("checkpointLocation", checkpoint)
        queries.append(writer.trigger(**trigger).start(table))
    (root / "started").touch()
    if wish["drain"]:
        for query in queries:
            query.awaitTermination()
        return
    while all(query.isActive for query in queries):
        time.sleep(0.1)
    for query in queries:
        query.awaitTermination()  # raises what ended it
    raise SystemExit("a query ended by itself")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
