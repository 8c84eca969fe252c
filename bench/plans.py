"""Plans of a table with very many files beside pypaimon-rust: fresh processes in turn, medians and ratios.

    python -m bench.plans [--files 100000] [--repeats 5] [--scratch DIRECTORY]

The table has 100 partitions; its manifests are written by commits, its data files are named there and nowhere else.
Measured are, each time in a new process: the plan of all files, the plan with a filter that keeps one file, the second
plan of a process, and for us also a small commit and how long it takes to look at every file of a plan. Beside the time
on the wall stands the processor time, which other work on the machine disturbs least. pypaimon-rust runs in the
environment of the peers (see `bench/run.py`). Run by `make bench CASE=plans`.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PEERS_PYTHON = Path(os.environ.get("LAKEWRIGHT_PEERS", str(HERE.parent / ".venvs" / "peers" / "bin" / "python")))
LIBRARIES = ("lakewright", "pypaimon-rust")
PARTITIONS = 100
COMMITS = 10
ROWS = 1_000  # of a file
FILE_BYTES = 40 << 20


def make_table(root: str, files: int) -> None:
    """Make a table of that many files, a tenth of them in each commit; no file of rows is written."""
    import pyarrow as pa  # noqa: PLC0415 - this module also runs in environments without it

    import lakewright as lw  # noqa: PLC0415
    from lakewright.commit.commit_message import CommitMessage  # noqa: PLC0415
    from lakewright.commit.committer import Committer  # noqa: PLC0415
    from lakewright.spec.binary_row import encode_row  # noqa: PLC0415
    from lakewright.storage.local_storage import LocalStorage  # noqa: PLC0415

    class Unwritten(LocalStorage):
        """A storage that says of every file that it is there."""

        def size(self, path: str) -> int:  # noqa: ARG002 - of any file
            return FILE_BYTES

    columns = [("k", pa.int64()), ("s", pa.string()), ("d", pa.float64()), ("i", pa.int32()), ("p", pa.string())]
    catalog = lw.CatalogFactory.create({"warehouse": root})
    catalog.create_database("d")
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(pa.schema(columns), partition_keys=["p"]))
    store = catalog.get_table("d.t").store
    for commit in range(COMMITS):
        numbers = range(commit * files // COMMITS, (commit + 1) * files // COMMITS)
        messages = [
            CommitMessage(
                partition_bytes=encode_row([partition(some)], store.partition_types),
                bucket=0,
                total_buckets=-1,
                table=store.identity,
                schema_id=0,
                write_id=str(uuid.uuid4()),
                new_files=tuple(data_file(n, store.schema.fields) for n in numbers if n % PARTITIONS == some),
            )
            for some in range(PARTITIONS)
        ]
        Committer(replace(store, storage=Unwritten(durable=False))).commit(messages)


def partition(number: int) -> str:
    """Return the partition of a file."""
    return f"p{number % PARTITIONS:04d}"


def data_file(number: int, fields: Any) -> Any:  # noqa: ANN401 - types of lakewright, which is imported later
    """Return the facts of a file whose keys are its own."""
    from lakewright.spec.binary_row import encode_row  # noqa: PLC0415
    from lakewright.spec.manifest import EMPTY_ROW, EMPTY_STATS, DataFile, SimpleStats  # noqa: PLC0415

    types, first = [field.type for field in fields], number * ROWS
    low = encode_row([first, f"s{number:07d}", 0.0, 0, partition(number)], types)
    high = encode_row([first + ROWS - 1, f"s{number:07d}z", 1.0, 1_000_000, partition(number)], types)
    return DataFile(
        file_name=f"data-{uuid.uuid4()}-0.parquet",
        file_size=FILE_BYTES,
        row_count=ROWS,
        min_key=EMPTY_ROW,
        max_key=EMPTY_ROW,
        key_stats=EMPTY_STATS,
        value_stats=SimpleStats(low, high, (0,) * len(types)),
        min_sequence_number=0,
        max_sequence_number=ROWS - 1,
        schema_id=0,
        level=0,
        extra_files=(),
        creation_time=1_700_000_000_000 + number,
        delete_row_count=0,
        embedded_file_index=None,
        file_source=0,
        value_stats_cols=None,
        external_path=None,
        first_row_id=None,
        write_cols=None,
    )


class Clock:
    """Seconds on the wall and of the processor since it was made."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def read(self) -> list[float]:
        """Return both."""
        return [time.perf_counter() - self._wall, time.process_time() - self._cpu]


def lakewright_splits(root: str, key: int | None) -> Any:  # noqa: ANN401 - types of lakewright
    """Plan with lakewright."""
    import lakewright as lw  # noqa: PLC0415

    builder = lw.CatalogFactory.create({"warehouse": root}).get_table("d.t").new_read_builder()
    return builder.with_filter(None if key is None else f"k = {key}").new_scan().plan().splits()


def rust_splits(root: str, key: int | None) -> Any:  # noqa: ANN401 - types of pypaimon-rust
    """Plan with pypaimon-rust."""
    rust = importlib.import_module("pypaimon_rust.datafusion")
    builder = rust.PaimonCatalog({"warehouse": root}).get_table("d.t").new_read_builder()
    if key is not None:
        builder = builder.with_filter({"method": "equal", "field": "k", "literals": [key], "index": 0})
    return builder.new_scan().plan().splits()


def run(library: str, root: str, key: int | None) -> dict[str, Any]:
    """Plan twice in this process, and with lakewright look at all files and commit; print nothing."""
    plan = lakewright_splits if library == "lakewright" else rust_splits
    if library == "lakewright":
        import lakewright as lw  # noqa: PLC0415

        lw.CatalogFactory.create({"warehouse": root}).get_table("d.t").new_read_builder().new_scan()  # loads modules
    else:
        importlib.import_module("pypaimon_rust.datafusion")
    out: dict[str, Any] = {}
    clock = Clock()
    splits = plan(root, key)
    out["first"] = clock.read()
    out["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    out["splits"] = len(splits)
    del splits  # as after a query; while they are held, Python's collector looks at all of them once more
    clock = Clock()
    splits = plan(root, key)
    out["second"] = clock.read()
    if library == "lakewright" and key is None:
        clock = Clock()
        out["files"] = sum(len(split.file_paths) for split in splits)
        out["look"] = clock.read()
        out["peak_mb_after_look"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        out["commit"] = commits(root)
    return out


def commits(root: str) -> list[float]:
    """Return the median of small commits; the table goes back to what it was."""
    import pyarrow as pa  # noqa: PLC0415

    import lakewright as lw  # noqa: PLC0415

    table = lw.CatalogFactory.create({"warehouse": root, "lakewright.durable": "false"}).get_table("d.t")
    newest = table.store.snapshots.latest_id() or 0
    schema = pa.schema(
        [("k", pa.int64()), ("s", pa.string()), ("d", pa.float64()), ("i", pa.int32()), ("p", pa.string())]
    )
    rows = pa.table({"k": [1], "s": ["s"], "d": [0.5], "i": [1], "p": ["p0001"]}, schema=schema)
    times = []
    for _ in range(7):
        clock = Clock()
        lw.write_table(rows, table)
        times.append(clock.read())
    table.rollback_to(newest)
    return [statistics.median(some) for some in zip(*times, strict=True)]


def measure(root: str, repeats: int, key: int | None) -> dict[str, dict[str, Any]]:
    """Plan in fresh processes, the libraries in turn, and return medians."""
    seen: dict[str, list[dict[str, Any]]] = {name: [] for name in LIBRARIES}
    for _ in range(repeats):
        for name in LIBRARIES:
            python = sys.executable if name == "lakewright" else str(PEERS_PYTHON)
            command = [python, str(HERE / "plans.py"), "--child", name, "--scratch", root]
            command += [] if key is None else ["--key", str(key)]
            answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
            seen[name].append(json.loads(answer.splitlines()[-1]))
    return {name: {what: median([one[what] for one in some]) for what in some[0]} for name, some in seen.items()}


def median(values: list[Any]) -> Any:  # noqa: ANN401 - numbers, or pairs of numbers
    """Return the median of numbers, or of the members of pairs."""
    if isinstance(values[0], list):
        return [statistics.median(some) for some in zip(*values, strict=True)]
    return statistics.median(values)


def show(title: str, results: dict[str, dict[str, Any]]) -> None:
    """Print the medians, and ours as a multiple of the peer's."""
    ours, peer = (results[name] for name in LIBRARIES)
    for what in ("first", "second"):
        both = [f"{name} {some[what][0]:.3f} s (cpu {some[what][1]:.3f})" for name, some in results.items()]
        ratios = [mine / theirs for mine, theirs in zip(ours[what], peer[what], strict=True)]
        print(f"{title}, {what} plan: {', '.join(both)}; ratio {ratios[0]:.2f} (cpu {ratios[1]:.2f})")
    again = [second / first for first, second in zip(ours["first"], ours["second"], strict=True)]
    print(f"{title}: second / first {again[0]:.2f} (cpu {again[1]:.2f}); splits {ours['splits']}", end="; ")
    print(f"peak {ours['peak_mb']:.0f} MB, pypaimon-rust {peer['peak_mb']:.0f} MB")
    for what in ("look", "commit"):
        if what in ours:
            print(f"{title}, {what}: {ours[what][0]:.4f} s (cpu {ours[what][1]:.4f})", end="; ")
            print(f"peak {ours['peak_mb_after_look']:.0f} MB")


def main() -> None:
    """Measure, or be one of the processes that are measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--scratch", default="", help="where the table is, or is made; it is kept")
    parser.add_argument("--child", default="", choices=("", *LIBRARIES), help=argparse.SUPPRESS)
    parser.add_argument("--key", type=int, default=None, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        print(json.dumps(run(given.child, given.scratch, given.key)))
        return
    root = given.scratch or tempfile.mkdtemp(prefix="lakewright-plans-")
    try:
        if not (Path(root) / "d.db").exists():
            make_table(root, given.files)
        print(f"{given.files:,} files, {PARTITIONS} partitions; load {os.getloadavg()[0]:.1f}")
        show("all files", measure(root, given.repeats, None))
        show("one file", measure(root, given.repeats, given.files // 2 * ROWS + ROWS // 2))
    finally:
        if not given.scratch:
            shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
