"""Compaction of many small files beside deltalake: the same rows, runs in turn, medians and ratios.

    python -m bench.compaction [--rows 10000000] [--files 1000] [--repeats 3] [--scratch DIRECTORY]

Every run works on a fresh copy of the table. `compact` joins the files, `z-order` sorts all rows along a curve through
two columns. Then the share of the files is counted that queries for one point in these columns open. `deltalake` runs
in the environment of the peers (see `bench/run.py`). Run by `make bench CASE=compaction`.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
from pathlib import Path

import numpy as np
from bench.run import Worker
from bench.worker import small_rows, tree_bytes

import lakewright as lw

LIBRARIES = ("lakewright", "deltalake")
FILE_BYTES = 16 << 20  # of the files that come out
ZORDER = ["i", "t"]
CASES: dict[str, list[str]] = {"compact": [], "z-order": ZORDER}


def copied(source: Path, target: Path) -> Path:
    """Copy a table; data files, which are never changed, are linked."""
    shutil.rmtree(target, ignore_errors=True)

    def copy(one: str, other: str) -> None:
        (os.link if one.endswith(".parquet") else shutil.copyfile)(one, other)

    shutil.copytree(source, target, copy_function=copy)
    return target


def measure(workers: dict[str, Worker], root: Path, repeats: int) -> None:
    """Time all cases, the libraries in turn, and print medians."""
    for case, columns in CASES.items():
        times: dict[str, list[dict[str, float]]] = {name: [] for name in workers}
        for _ in range(repeats):
            for name, worker in workers.items():
                place = copied(root / name / "small", root / name / case)
                answer = worker.ask(case="compact", directory=str(place), zorder=columns, file_bytes=FILE_BYTES)
                if "seconds" not in answer:
                    raise SystemExit(f"{name}: {answer}")
                times[name].append(answer)
        medians = {
            name: {key: statistics.median(one[key] for one in some) for key in ("seconds", "cpu", "peak_mb")}
            for name, some in times.items()
        }
        for name, some in medians.items():
            each = " ".join(f"{one['seconds']:.2f}" for one in times[name])
            peak = f"{some['peak_mb']:6.0f} MB"
            print(f"{case:8} {name:10} {some['seconds']:7.2f} s  cpu {some['cpu']:7.2f} s  {peak}  ({each})")
        ours, theirs = (medians[name] for name in LIBRARIES)
        print(
            f"{case:8} ratio {theirs['seconds'] / ours['seconds']:.2f}, of cpu {theirs['cpu'] / ours['cpu']:.2f}",
            flush=True,
        )


def opened_share(directory: Path, queries: int = 50) -> tuple[float, float]:
    """Return the mean and the greatest share of the files that queries for one point open."""
    table = lw.CatalogFactory.create({"warehouse": str(directory)}).get_table("d.t")

    def files(where: str | None) -> int:
        reader = table.new_read_builder()
        reader = reader if where is None else reader.with_filter(where)
        return sum(len(split.files) for split in reader.new_scan().plan().splits())

    points = small_rows(0, queries).select(ZORDER).to_pylist()
    shares = [files(f"i = {point['i']} AND t = TIMESTAMP '{point['t']}'") / files(None) for point in points]
    return float(np.mean(shares)), max(shares)


def main() -> None:
    """Make the tables, run the cases, print what came out."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--scratch", type=Path, help="where tables are made; kept if it exists before")
    arguments = parser.parse_args()
    root = arguments.scratch or Path(tempfile.mkdtemp(prefix="bench-compaction-"))
    kept = arguments.scratch is not None and arguments.scratch.exists()
    workers = {name: Worker(name) for name in LIBRARIES}
    try:
        for name, worker in workers.items():
            place = root / name / "small"
            if not place.exists():
                worker.ask(case="small files", directory=str(place), rows=arguments.rows, files=arguments.files)
            print(f"{name}: {arguments.rows:,} rows in {arguments.files:,} files, {tree_bytes(str(place)) >> 20} MB")
        measure(workers, root, arguments.repeats)
        mean, most = opened_share(root / "lakewright" / "z-order")
        print(f"a query for one point of {' and '.join(ZORDER)} opens {mean:.1%} of the files, at most {most:.1%}")
    finally:
        for worker in workers.values():
            worker.close()
        if not kept:
            shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
