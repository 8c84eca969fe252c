"""Ray: ours against pypaimon's own verbs, each in a Ray of its own, in one run and interleaved.

Writes `bench/results/<name>.json` and `.md`. The two need different versions of pyarrow, so each has an environment and
a process of its own, whose Ray stays up between the cases. The first run of a case is told apart (cold: workers start
and import), the others give medians. A cell has two ratios: of the time on the wall, and of the processor time of the
whole tree of processes, which a busy neighbour disturbs least. Both must give equally many rows.
"""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import os
import platform
import secrets
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

HERE = Path(__file__).parent
ROOT = HERE.parent
PEERS_PYTHON = Path(os.environ.get("LAKEWRIGHT_PEERS", str(ROOT / ".venvs" / "peers" / "bin" / "python")))
OURS, PEER = "lakewright", "pypaimon"
PEER_KEYED = {"hash_fixed_precluster": "map_groups"}  # without it the peer refuses tables with a primary key
BLOCKS = 8  # of the datasets that are written
SOURCE_NEW = 4
EVOLUTION = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
LOCAL = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # else Ray takes the machine's own address
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "token",
    "RAY_DATA_DISABLE_PROGRESS_BARS": "1",
}


@dataclass(frozen=True, slots=True)
class Case:
    """One row of the result."""

    title: str
    verb: str  # "write", "read" or "merge"
    rows: int  # that the table has then
    table: str
    wanted: float  # how many times as long the peer has to take
    keys: tuple[str, ...] = ()
    source: int = 0  # rows that are merged; one in SOURCE_NEW is not in the table before


def cases(scale: float) -> list[Case]:
    """Return the cases in an order in which reads find what writes left."""
    many, keyed = int(5_000_000 * scale), int(200_000 * scale)
    return [
        Case(f"append write, {many:,} rows", "write", many, "append", 2),
        Case(f"append read, {many:,} rows", "read", many, "append", 2),
        Case(f"primary-key write, {keyed:,} rows, 2 buckets", "write", keyed, "keyed", 10, ("k",)),
        Case(f"primary-key read, {keyed:,} rows", "read", keyed, "keyed", 1, ("k",)),
        Case(
            f"merge of {keyed:,} rows into {many:,}, data evolution",
            "merge",
            many + keyed // SOURCE_NEW,
            "merged",
            3,
            source=keyed,
        ),
    ]


# In a process with one library and one Ray


def rows_of(count: int) -> pa.Table:
    """Return random rows: a key in random order, a short text, a double, an int."""
    random = np.random.default_rng(7)
    words = pa.array([f"word-{n:07d}" for n in range(100_000)])
    return pa.table(
        {
            "k": random.permutation(count).astype(np.int64),
            "s": words.take(pa.array(random.integers(0, len(words), count))),
            "d": random.random(count),
            "i": random.integers(0, 1_000_000, count, dtype=np.int32),
        }
    )


class Library:
    """A library with pypaimon's names, and the Ray of this process."""

    def __init__(self, name: str, warehouse: str) -> None:
        clock = Clock()
        os.environ.update(LOCAL)
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
        self.ray: Any = importlib.import_module("ray")
        self.data: Any = importlib.import_module("ray.data")
        self.library: Any = importlib.import_module(name)
        self.scratch = tempfile.mkdtemp(prefix="lw-", dir="/tmp")  # sockets need short paths
        self.ray.init(
            num_cpus=2,
            object_store_memory=1_500_000_000,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
            _node_ip_address="127.0.0.1",
            _temp_dir=self.scratch,
        )
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        self.warehouse = warehouse
        self.catalog = self.library.CatalogFactory.create({"warehouse": warehouse})
        self.catalog.create_database("d", True)  # noqa: FBT003 - pypaimon's signature
        self.inputs: dict[int, Any] = {}
        self.started = clock.read()

    def dataset(self, rows: int) -> Any:  # noqa: ANN401 - a dataset of ray
        """Return the input, made once and outside every clock."""
        if rows not in self.inputs:
            whole, step = rows_of(rows), -(-rows // BLOCKS)
            found = self.data.from_arrow([whole.slice(at, step) for at in range(0, rows, step)])
            self.inputs = {rows: found.materialize()}
        return self.inputs[rows]

    def write(self, rows: int, table: str, keys: list[str], source: int) -> dict[str, Any]:  # noqa: ARG002 - as merge
        """Write a dataset into a new table."""
        data = self.dataset(rows)
        self._create(table, data, keys, {"bucket": "2"} if keys else {})
        clock = Clock()
        write = self.catalog.get_table(f"d.{table}").new_batch_write_builder().new_write()
        write.write_ray(data, **(PEER_KEYED if keys and self.library.__name__ == PEER else {}))
        write.close()
        return clock.read() | {"rows": self._dataset(table).count()}

    def merge(self, rows: int, table: str, keys: list[str], source: int) -> dict[str, Any]:
        """Merge a dataset into a table that is made and filled outside of the clock."""
        before = rows - source // SOURCE_NEW
        data = self.dataset(before)
        self._create(table, data, keys, EVOLUTION)
        write = self.catalog.get_table(f"d.{table}").new_batch_write_builder().new_write()
        write.write_ray(data)
        write.close()
        changes = self.changes(before, source)
        clock = Clock()
        if self.library.__name__ == PEER:
            self._merge_as_peer(changes, table)
        else:
            lakewright = importlib.import_module("lakewright.ray")
            values = {name: self.library.source_col(name) for name in ("s", "d")}
            builder = lakewright.merge(changes, self.catalog.get_table(f"d.{table}"), "k")
            builder.when_matched_update(values).when_not_matched_insert().execute()
        return clock.read() | {"rows": self._dataset(table).count()}

    def changes(self, before: int, count: int) -> Any:  # noqa: ANN401 - a dataset of ray
        """Return rows to merge: some keys that the table has, in no order, and some that it lacks."""
        random, new = np.random.default_rng(11), count // SOURCE_NEW
        there = random.choice(before, count - new, replace=False)
        keys = random.permutation(np.concatenate([there, np.arange(before, before + new)])).astype(np.int64)
        whole = rows_of(count).set_column(0, "k", pa.array(keys))
        step = -(-count // BLOCKS)
        return self.data.from_arrow([whole.slice(at, step) for at in range(0, count, step)]).materialize()

    def _merge_as_peer(self, changes: Any, table: str) -> None:  # noqa: ANN401 - a dataset of ray
        peer = importlib.import_module("pypaimon.ray")
        values = {name: peer.source_col(name) for name in ("s", "d")}
        peer.merge_into(
            f"d.{table}",
            changes,
            {"warehouse": self.warehouse},
            on=["k"],
            when_matched=[peer.WhenMatched.update(values)],
            when_not_matched=[peer.WhenNotMatched("*")],
        )

    def _create(self, table: str, data: Any, keys: list[str], options: dict[str, str]) -> None:  # noqa: ANN401
        self.catalog.drop_table(f"d.{table}", True)  # noqa: FBT003 - pypaimon's signature
        schema = self.library.Schema.from_pyarrow_schema(data.schema().base_schema, primary_keys=keys, options=options)
        self.catalog.create_table(f"d.{table}", schema, False)  # noqa: FBT003 - pypaimon's signature

    def read(self, rows: int, table: str, keys: list[str], source: int) -> dict[str, Any]:  # noqa: ARG002 - as merge
        """Read a table into the object store."""
        clock = Clock()
        found = self._dataset(table).materialize()
        return clock.read() | {"rows": found.count(), "blocks": found.num_blocks()}

    def _dataset(self, table: str) -> Any:  # noqa: ANN401 - a dataset of ray
        builder = self.catalog.get_table(f"d.{table}").new_read_builder()
        return builder.new_read().to_ray(builder.new_scan().plan().splits())

    def close(self) -> None:
        """End Ray."""
        self.ray.shutdown()
        shutil.rmtree(self.scratch, ignore_errors=True)


@dataclass(slots=True)
class Clock:
    """Seconds on the wall and of all processors since it was made; processes that end meanwhile do not count."""

    wall: float = field(default_factory=time.monotonic)
    cpu: dict[int, float] = field(default_factory=lambda: {pid: cpu_seconds(pid) for pid in tree(os.getpid())})

    def read(self) -> dict[str, float]:
        seconds = time.monotonic() - self.wall
        return {
            "seconds": seconds,
            "cpu": sum(max(0.0, cpu_seconds(pid) - self.cpu.get(pid, 0.0)) for pid in tree(os.getpid())),
        }


def tree(pid: int) -> Iterator[int]:
    """Yield a process and all below it."""
    yield pid
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = path.read_text().split()
        except OSError:  # it ended meanwhile
            continue
        for child in children:
            yield from tree(int(child))


def cpu_seconds(pid: int) -> float:
    """Return what a process used, with its children that ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:  # it ended meanwhile
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def serve(name: str, warehouse: str) -> None:
    """Answer commands until standard input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints goes to standard error
    library = Library(name, warehouse)
    answers.write(json.dumps(library.started) + "\n")
    answers.flush()
    for line in sys.stdin:
        command = json.loads(line)
        try:
            answer = getattr(library, command.pop("verb"))(**command)
        except Exception as failure:  # noqa: BLE001 - a peer may fail in its own way; the table says so
            answer = {"failed": f"{type(failure).__name__}: {failure}"[:300]}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
    library.close()


# In the process that compares


@dataclass(slots=True)
class Worker:
    """One library in a process of its own."""

    name: str
    root: Path
    started: dict[str, Any] = field(init=False)
    process: subprocess.Popen[str] = field(init=False)

    def __post_init__(self) -> None:
        python = sys.executable if self.name == OURS else str(PEERS_PYTHON)
        self.process = subprocess.Popen(
            [python, "-W", "ignore", __file__, "--serve", self.name, "--root", str(self.root / self.name)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.started = self._answer()

    def ask(self, **command: object) -> dict[str, Any]:
        """Send a command and wait for its answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        answer: dict[str, Any] = json.loads(line) if line else {"failed": "the process died"}
        return answer

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(60)


def measure(case: Case, workers: dict[str, Worker], repeats: int) -> dict[str, Any]:
    """Run one case, interleaved; the first run of each is the cold one."""
    seen: dict[str, list[dict[str, Any]]] = {name: [] for name in workers}
    for repeat in range(repeats + 1):
        for name in sorted(workers, reverse=bool(repeat % 2)):
            answer = workers[name].ask(
                verb=case.verb, rows=case.rows, table=case.table, keys=list(case.keys), source=case.source
            )
            if answer.get("rows") != case.rows:
                raise SystemExit(f"{case.title}: {name} should have {case.rows} rows: {answer}")
            seen[name].append(answer)
    return {name: _summary(answers) for name, answers in seen.items()} | {"wanted": case.wanted}


def _summary(answers: list[dict[str, Any]]) -> dict[str, Any]:
    cold, *warm = answers
    medians = {what: statistics.median(answer[what] for answer in warm) for what in ("seconds", "cpu")}
    return warm[-1] | medians | {"cold": cold["seconds"], "all": [round(answer["seconds"], 3) for answer in warm]}


def markdown(results: dict[str, dict[str, Any]]) -> str:
    """Return the table of ratios: how many times as long the peer takes, by the wall and by cpu."""
    lines = [
        f"| work | {OURS} s (cpu) | {PEER} s (cpu) | ratio (cpu) | wanted | first run, s |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for title, row in results.items():
        ours, peer = row[OURS], row[PEER]
        lines.append(
            f"| {title} | {ours['seconds']:.2f} ({ours['cpu']:.2f}) | {peer['seconds']:.2f} ({peer['cpu']:.2f}) "
            f"| {peer['seconds'] / ours['seconds']:.1f}x ({peer['cpu'] / ours['cpu']:.1f}x) | {row['wanted']:g}x "
            f"| {ours['cold']:.2f}, {peer['cold']:.2f} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="fraction of the rows")
    parser.add_argument("--repeats", type=int, default=5, help="how often each case runs warm")
    parser.add_argument("--only", default="", help="run only the cases of one table: append, keyed or merged")
    parser.add_argument("--name", default="ray")
    parser.add_argument("--serve", default="", help="be the process of one library")
    parser.add_argument("--root", default="")
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.serve, arguments.root)
        return
    root = Path(tempfile.mkdtemp(prefix="lakewright-bench-"))
    workers = {name: Worker(name, root) for name in (OURS, PEER)}
    started = {name: worker.started for name, worker in workers.items()}
    results: dict[str, dict[str, Any]] = {}
    try:
        for case in cases(arguments.scale):
            if arguments.only in {"", case.table}:
                results[case.title] = measure(case, workers, arguments.repeats)
                print(case.title, json.dumps(results[case.title]), flush=True)
    finally:
        for worker in workers.values():
            worker.close()
        shutil.rmtree(root, ignore_errors=True)
    machine = {"python": platform.python_version(), "cpus": os.cpu_count(), "machine": platform.machine()}
    out = HERE / "results"
    out.mkdir(exist_ok=True)
    (out / f"{arguments.name}.json").write_text(
        json.dumps({"machine": machine, "started": started, "results": results}, indent=2)
    )
    (out / f"{arguments.name}.md").write_text(markdown(results))
    print(markdown(results))


if __name__ == "__main__":
    main()
