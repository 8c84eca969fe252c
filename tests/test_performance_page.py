"""The figures of docs/performance.md are those of the design note, and its formulas count what a storage sees."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

import lakewright as lw
from contract.faulty_storage import FaultyStorage
from lakewright.catalog.filesystem_catalog import FileSystemCatalog
from lakewright.commit.commit_loop import FilePublisher
from lakewright.commit.committer import Committer
from lakewright.metadata.authority import Outcome
from lakewright.spec.manifest import ManifestEntry
from lakewright.spec.snapshot import Snapshot
from lakewright.storage.object_storage import ObjectStorage

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "performance.md").read_text()
FORMULAS = dict(re.findall(r"^\| ([^|]+) \| `([^`]+)` \|", PAGE.split("## Requests", 1)[1], re.MULTILINE))
_FIGURE = re.compile(r"\d+\.\d+x? \(\d+\.\d+x?\)")
_SYMBOLS = re.compile(r"[A-Z]|\d+|[+* ]")
COLUMNS = pa.schema([pa.field("part", pa.int64(), nullable=False), pa.field("id", pa.int64(), nullable=False)])
WRITE_ONLY = {"bucket": "1", "write-only": "true"}
_FREE = {"open_output", "write", "discard"}  # no requests while a file is small
_numbers = itertools.count()


class Counted:
    """A table on an object store in memory; each write makes one small file in each of some partitions."""

    def __init__(self, keys: Sequence[str] = (), options: Mapping[str, str] | None = None) -> None:
        self.storage = FaultyStorage(ObjectStorage("memory://"))
        self.catalog = FileSystemCatalog(self.storage, f"memory:///model-{next(_numbers)}")
        self.catalog.create_database("d")
        self.catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(COLUMNS, ["part"], keys, options))
        self.table = self.open()

    def open(self) -> lw.FileStoreTable:
        """Return a handle that knows nothing yet."""
        table = self.catalog.get_table("d.t")
        assert isinstance(table, lw.FileStoreTable)
        return table

    def write(self, files: int, times: int = 1) -> None:
        """Write that many files, in each of so many commits."""
        for _ in range(times):
            lw.write_table(rows(files), self.table)

    def requests(self, act: Callable[[], object]) -> int:
        """Return how many requests an act makes."""
        self.storage.calls.clear()
        act()
        return sum(call.verb not in _FREE for call in self.storage.calls)


def rows(files: int) -> pa.Table:
    """Return one new row for each of so many partitions."""
    return pa.table({"part": range(files), "id": [next(_numbers)] * files}, schema=COLUMNS)


def opened() -> int:
    """Open a table of a filesystem catalog."""
    made = Counted()
    return made.requests(made.open)


def appended(files: int, manifests: int) -> int:
    """Append files to a table with so many manifests."""
    made = Counted()
    made.write(1, times=manifests)
    return made.requests(lambda: made.write(files))


def raced(files: int, races: int) -> int:
    """Commit files that are written, and lose so many races before."""
    made = Counted()
    made.write(files)
    store = made.table.store
    builder = made.table.new_batch_write_builder()
    messages = [builder.new_write().write_arrow(rows(files)).prepare_commit() for _ in range(races + 1)]
    mine, others = messages[0], messages[1:]

    class Late(FilePublisher):
        def publish(self, snapshot: Snapshot, base: Snapshot | None, entries: Sequence[ManifestEntry] = ()) -> Outcome:
            if others:
                Committer(replace(store, storage=made.storage.inner)).commit(others.pop())
            return super().publish(snapshot, base, entries)

    committer = Committer(store, publisher=Late(store.storage, store.layout), sleep=lambda _: None)
    return made.requests(lambda: committer.commit(mine))


def upserted(files: int, manifests: int) -> int:
    """Upsert into so many buckets of a table that others compact."""
    made = Counted(["part", "id"], WRITE_ONLY)
    made.write(1, times=manifests)
    return made.requests(lambda: made.write(files))


def planned(manifests: int) -> int:
    """Plan a table with so many manifests that this process did not read yet."""
    made = Counted()
    made.write(2, times=manifests)
    return made.requests(lambda: made.open().new_read_builder().new_scan().plan()) - opened()


def read_again(files: int) -> int:
    """Read so many small files with a handle that has planned before."""
    made = Counted()
    made.write(files)
    lw.read_table(made.table)
    return made.requests(lambda: lw.read_table(made.table))


def compacted(files: int, runs: int) -> int:
    """Compact so many buckets, each of so many runs, into one run each."""
    made = Counted(["part", "id"], WRITE_ONLY)
    made.write(files, times=runs)
    return made.requests(lambda: made.table.compact(full=True))


def expired(snapshots: int) -> int:
    """Expire so many snapshots whose files are all still used."""
    made = Counted()
    made.write(1, times=snapshots + 1)
    return made.requests(lambda: made.table.expire_snapshots(retain_max=1, retain_min=1))


# What runs each row of the table of requests, and the sizes to count it with.
MODEL: dict[str, tuple[Callable[..., int], list[dict[str, int]]]] = {
    "open a table": (opened, [{}]),
    "append": (appended, [{"F": 1, "M": 1}, {"F": 5, "M": 1}, {"F": 40, "M": 9}]),
    "append that merges manifests": (appended, [{"F": 1, "M": 30}, {"F": 3, "M": 30}]),
    "commit alone, after lost races": (raced, [{"F": 1, "L": 0}, {"F": 3, "L": 1}, {"F": 2, "L": 4}]),
    "upsert": (upserted, [{"F": 1, "M": 1}, {"F": 4, "M": 1}, {"F": 2, "M": 12}]),
    "plan, first of a process": (planned, [{"M": 1}, {"M": 4}, {"M": 20}]),
    "read, planned before": (read_again, [{"F": 1}, {"F": 30}]),
    "full compaction": (compacted, [{"F": 1, "R": 2}, {"F": 1, "R": 5}, {"F": 4, "R": 4}]),
    "expire": (expired, [{"S": 3}, {"S": 12}]),
}
ARGUMENTS = {"F": "files", "M": "manifests", "L": "races", "R": "runs", "S": "snapshots"}


def _figures(text: str) -> dict[str, list[str]]:
    """Return the figures of each line of the table that compares libraries, by its case."""
    table = text.split("| case | lakewright s (cpu) |", 1)[1].split("\n\n", 1)[0]
    lines = [line for line in table.splitlines() if _FIGURE.search(line)]
    return {line.split("|")[1].strip(): _FIGURE.findall(line) for line in lines}


def test_the_figures_are_those_of_the_design_note() -> None:
    shown, measured = _figures(PAGE), _figures((ROOT / "design" / "0003-speed.md").read_text())
    assert shown == {case: measured[case] for case in shown}
    assert len(shown) >= 7


def test_the_formulas_count_the_requests_that_a_storage_sees() -> None:
    assert FORMULAS.keys() == MODEL.keys()
    wrong = []
    for name, (run, cases) in MODEL.items():
        for values in cases:
            counted = run(**{ARGUMENTS[letter]: value for letter, value in values.items()})
            if _evaluate(FORMULAS[name], values) != counted:
                wrong.append(f"{name}: {FORMULAS[name]} with {values}, but the storage saw {counted} requests")
    assert wrong == []


def _evaluate(formula: str, values: dict[str, int]) -> int:
    """Return the value of a sum of products such as `12 + 2 * F`."""
    assert "".join(_SYMBOLS.findall(formula)) == formula
    numbers = re.sub(r"[A-Z]", lambda letter: str(values[letter[0]]), formula)
    return sum(_product(term) for term in numbers.split("+"))


def _product(term: str) -> int:
    product = 1
    for factor in term.split("*"):
        product *= int(ast.literal_eval(factor.strip()))
    return product
