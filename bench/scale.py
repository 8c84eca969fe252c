"""The constants of docs/performance.md: what one more file costs a commit, its driver, a plan and the manifests.

    python -m bench.scale [--files 20000] [--scratch DIRECTORY]

The files are named in manifests and nowhere else, as in `bench/plans.py`. Each constant is the slope between a fifth of
the files and all of them, so that what a process costs by itself is left out. Processor time, because other work on the
machine disturbs it least; memory is the peak of a process of its own.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bench.plans import PARTITIONS, data_file, lakewright_splits, make_table, partition

import lakewright as lw
from lakewright.commit.commit_message import CommitMessage
from lakewright.commit.committer import Committer
from lakewright.metadata.table_store import TableStore
from lakewright.spec.binary_row import encode_row
from lakewright.storage.local_storage import LocalStorage

FRAMES = 1_000
KINDS = ("plan", "look", "commit")  # the last one adds files


class Unwritten(LocalStorage):
    """A storage that says of every file that it is there."""

    def size(self, path: str) -> int:  # noqa: ARG002 - of any file
        return 40 << 20


def message(store: TableStore, numbers: Sequence[int]) -> CommitMessage:
    """Return what a task says that wrote these files."""
    return CommitMessage(
        partition_bytes=encode_row([partition(numbers[0])], store.partition_types),
        bucket=0,
        total_buckets=-1,
        table=store.identity,
        schema_id=0,
        write_id=f"job-{numbers[0]}",
        new_files=tuple(data_file(n, store.schema.fields) for n in numbers),
    )


def child(kind: str, root: str, files: int) -> dict[str, float]:
    """Do one thing in this process, and return what it took."""
    store = lw.CatalogFactory.create({"warehouse": root}).get_table("d.t").store
    if kind == "commit":
        store = replace(store, storage=Unwritten(durable=False))
        frames = [message(store, range(n, n + PARTITIONS)).serialize() for n in range(0, files, PARTITIONS)]
        began = time.process_time()
        Committer(store).commit([CommitMessage.deserialize(frame) for frame in frames])
    else:
        began = time.process_time()
        splits = lakewright_splits(root, None)
        if kind == "look":
            assert sum(len(split.files) for split in splits) == files
    return {"cpu": time.process_time() - began, "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}


def slopes(kind: str, roots: dict[int, str]) -> dict[str, float]:
    """Return processor time and memory of one more file."""
    taken = {}
    for files, root in roots.items():
        command = [sys.executable, "-m", "bench.scale", "--child", kind, "--scratch", root, "--files", str(files)]
        runs = [
            json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout) for _ in range(3)
        ]
        taken[files] = {name: min(run[name] for run in runs) for name in runs[0]}
    (few, low), (many, high) = sorted(taken.items())
    return {name: (high[name] - low[name]) / (many - few) for name in low}


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--scratch")
    parser.add_argument("--child", choices=KINDS)
    asked = parser.parse_args()
    if asked.child:
        print(json.dumps(child(asked.child, asked.scratch, asked.files)))
        return
    with tempfile.TemporaryDirectory(dir=asked.scratch) as scratch:
        roots = {files: f"{scratch}/{files}" for files in (asked.files // 5, asked.files)}
        for files, root in roots.items():
            make_table(root, files)
        folder = Path(roots[asked.files]) / "d.db" / "t" / "manifest"
        manifests = [path.stat().st_size for path in folder.glob("manifest-*") if "list" not in path.name]
        print(f"manifest bytes of a file: {sum(manifests) / asked.files:.0f}, in {len(manifests)} manifests")
        store = lw.CatalogFactory.create({"warehouse": roots[asked.files]}).get_table("d.t").store
        few, many = (len(message(store, range(count)).serialize()) for count in (1, 1 + FRAMES))
        print(f"bytes that a task sends: {few}, and {(many - few) / FRAMES:.0f} for each further file")
        for kind in KINDS:
            slope = slopes(kind, roots)
            print(f"{kind}: {slope['cpu'] * 1e6:.1f} us and {slope['memory']:.0f} bytes of memory for one more file")


if __name__ == "__main__":
    main()
