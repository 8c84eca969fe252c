"""Row-level changes: ours against the peers', on tables of the same rows, in one run and interleaved.

Writes `bench/results/<name>.json` and `.md`. A change is made on a fresh copy of its table, and a clock runs from
opening the table to the end of the commit. The first run of a case is left out, the others give medians. A cell has two
ratios: of the time on the wall, and of the processor time of all threads together, which a busy neighbour disturbs
least. All who were asked for the same change must end with the same rows.

The Paimon tables are written by us, so every Paimon library changes the same files; the Delta table has as many files
with the same rows.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

HERE = Path(__file__).parent
ROOT = HERE.parent
PEERS_PYTHON = Path(os.environ.get("LAKEWRIGHT_PEERS", str(ROOT / ".venvs" / "peers" / "bin" / "python")))
OURS, DELTA, PYTHON, RUST = "lakewright", "deltalake", "pypaimon", "pypaimon-rust"

VECTORS = {"deletion-vectors.enabled": "true"}
TRACKED = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
KINDS: dict[str, dict[str, str]] = {
    "vectors": VECTORS,
    "plain": {},
    "evolution": TRACKED,
    "evolution+vectors": TRACKED | VECTORS,
    "delta": {},
}
WHERE = {"spread": "category = 'c07'", "range": "id < {hundredth}"}  # each is true of one row of a hundred
CATEGORIES = 100
SLOW_SECONDS = 5
NEW_AMOUNT = -1.0  # those of sources are negative too, and all others are not


@dataclass(frozen=True, slots=True)
class Contender:
    """A library on a kind of table."""

    library: str
    kind: str

    def __str__(self) -> str:
        return self.library if self.library == DELTA else f"{self.library}, {self.kind}"


@dataclass(frozen=True, slots=True)
class Case:
    """One row of the result; the first contender is the one that the others are compared with."""

    title: str
    verb: str
    contenders: tuple[Contender, ...]
    detail: str = ""
    wanted: tuple[str, float] | None = None  # a library, and how many times as long it has to take


def cases() -> list[Case]:
    """Return what is measured."""
    ours = {kind: Contender(OURS, kind) for kind in KINDS}
    delta = Contender(DELTA, "delta")
    rust = {kind: Contender(RUST, kind) for kind in KINDS}
    python = {kind: Contender(PYTHON, kind) for kind in KINDS}
    deletes = ours["vectors"], ours["plain"], ours["evolution+vectors"], delta, rust["vectors"]
    by_predicate = (*deletes, rust["evolution+vectors"], python["evolution+vectors"])
    changes = ours["vectors"], ours["plain"], ours["evolution"], delta, rust["vectors"], rust["plain"]
    merges = (*changes, rust["evolution"], python["evolution"])
    return [
        Case("delete 1 %, in all files", "delete", by_predicate, "spread", (DELTA, 5)),
        Case("delete 1 %, one range", "delete", by_predicate, "range", (DELTA, 5)),
        Case("update 1 %, in all files", "update", merges, "spread"),
        Case("merge 4 %, half of it new", "merge", merges, wanted=(DELTA, 1)),
        Case("upsert 4 %, half of it new", "upsert", (*changes[:3], rust["evolution"], python["evolution"])),
        Case("one column of 2 % by row id", "by_row_id", (ours["evolution"], rust["evolution"], python["evolution"]),
             wanted=(RUST, 1)),
        Case("scan after a delete in all files", "scan", (ours["vectors"], rust["vectors"]), "spread"),
        Case("scan of the untouched table", "scan", (ours["vectors"], rust["vectors"], delta)),
    ]  # fmt: skip


# In a process with one library


def rows_of(first: int, count: int) -> pa.Table:
    """Return rows with consecutive ids and random values; they depend on the first id alone."""
    random = np.random.default_rng(first)
    names = pa.array([f"name-{n:07d}" for n in range(100_000)])
    categories = pa.array([f"c{n:02d}" for n in range(CATEGORIES)])
    return pa.table(
        {
            "id": pa.array(np.arange(first, first + count)),
            "name": names.take(pa.array(random.integers(0, len(names), count))),
            "amount": random.random(count),
            "ts": pa.array(random.integers(1_600_000_000_000_000, 1_700_000_000_000_000, count), pa.timestamp("us")),
            "category": categories.take(pa.array(random.integers(0, CATEGORIES, count))),
        }
    )


def source_of(rows: int) -> pa.Table:
    """Return rows to merge: two of a hundred that are there and as many new ones, in no order."""
    random, half = np.random.default_rng(1), rows // 50
    ids = np.concatenate([random.choice(rows, half, replace=False), np.arange(rows, rows + half)])
    new = rows_of(rows, 2 * half)
    shuffled = pa.array(random.permutation(ids))
    return new.set_column(0, "id", shuffled).set_column(2, "amount", pa.array(-1 - random.random(2 * half)))


def by_id_of(rows: int) -> pa.Table:
    """Return new values for two of a hundred rows, found by their ids."""
    random, count = np.random.default_rng(2), rows // 50
    ids = np.sort(random.choice(rows, count, replace=False))
    return pa.table({"_ROW_ID": ids, "amount": -1 - random.random(count)})


class Library:
    """What a library does with the table in a directory; what it cannot do it does not have."""

    def __init__(self) -> None:
        self.rows = 0
        self.source = self.by_id = pa.table({})

    def know(self, rows: int) -> None:
        """Make the inputs, outside every clock."""
        self.rows, self.source, self.by_id = rows, source_of(rows), by_id_of(rows)

    def condition(self, detail: str) -> str:
        """Return a condition as text."""
        return WHERE[detail].format(hundredth=self.rows // 100)

    def make(self, directory: str, options: dict[str, str], parts: Iterator[pa.Table]) -> None:
        """Write a table, a commit for each part."""
        raise NotImplementedError

    def scan(self, directory: str, columns: list[str] | None = None) -> pa.Table:
        """Read all rows."""
        raise NotImplementedError


class Lakewright(Library):
    """Ours."""

    def __init__(self) -> None:
        super().__init__()
        self.lw = importlib.import_module("lakewright")

    def table(self, directory: str) -> Any:  # noqa: ANN401 - whatever the library has
        return self.lw.CatalogFactory.create({"warehouse": directory}).get_table("d.t")

    def make(self, directory: str, options: dict[str, str], parts: Iterator[pa.Table]) -> None:
        catalog = self.lw.CatalogFactory.create({"warehouse": directory})
        catalog.create_database("d")
        for number, part in enumerate(parts):
            if number == 0:
                catalog.create_table("d.t", self.lw.Schema.from_pyarrow_schema(part.schema, options=options))
            self.lw.write_table(part, catalog.get_table("d.t"))

    def scan(self, directory: str, columns: list[str] | None = None) -> pa.Table:
        return self.lw.read_table(self.table(directory), columns=columns)

    def delete(self, directory: str, detail: str) -> None:
        self.table(directory).delete(self.condition(detail))

    def update(self, directory: str, detail: str) -> None:
        self.table(directory).update({"amount": NEW_AMOUNT}, self.condition(detail))

    def merge(self, directory: str, _detail: str) -> None:
        self.table(directory).merge(self.source, ["id"]).when_matched_update().when_not_matched_insert().execute()

    def upsert(self, directory: str, _detail: str) -> None:
        self.table(directory).upsert(self.source, ["id"])

    def by_row_id(self, directory: str, _detail: str) -> None:
        self.table(directory).update_by_row_id(self.by_id)


class DeltaLake(Library):
    """deltalake."""

    def __init__(self) -> None:
        super().__init__()
        self.dl = importlib.import_module("deltalake")

    def make(self, directory: str, options: dict[str, str], parts: Iterator[pa.Table]) -> None:  # noqa: ARG002
        for part in parts:
            self.dl.write_deltalake(directory, part, mode="append")

    def scan(self, directory: str, columns: list[str] | None = None) -> pa.Table:
        return self.dl.DeltaTable(directory).to_pyarrow_dataset().to_table(columns=columns)

    def delete(self, directory: str, detail: str) -> None:
        self.dl.DeltaTable(directory).delete(self.condition(detail))

    def update(self, directory: str, detail: str) -> None:
        self.dl.DeltaTable(directory).update(updates={"amount": str(NEW_AMOUNT)}, predicate=self.condition(detail))

    def merge(self, directory: str, _detail: str) -> None:
        merge = self.dl.DeltaTable(directory).merge(self.source, "t.id = s.id", source_alias="s", target_alias="t")
        merge.when_matched_update_all().when_not_matched_insert_all().execute()


class PyPaimon(Library):
    """The Python release, which changes rows of tables with data evolution."""

    def __init__(self) -> None:
        super().__init__()
        self.pp = importlib.import_module("pypaimon")
        self.clauses = importlib.import_module("pypaimon.ray.data_evolution_merge_transform")

    def table(self, directory: str) -> Any:  # noqa: ANN401 - whatever the library has
        return self.pp.CatalogFactory.create({"warehouse": directory}).get_table("d.t")

    def scan(self, directory: str, columns: list[str] | None = None) -> pa.Table:
        builder = self.table(directory).new_read_builder()
        builder = builder if columns is None else builder.with_projection(columns)
        return builder.new_read().to_arrow(builder.new_scan().plan().splits())

    def delete(self, directory: str, detail: str) -> None:
        self.change(directory, lambda update: update.delete_by_predicate(self.predicate(update, detail)))

    def update(self, directory: str, detail: str) -> None:
        assigned = {"amount": NEW_AMOUNT}
        self.change(directory, lambda update: update.update_by_predicate(self.predicate(update, detail), assigned))

    def merge(self, directory: str, _detail: str) -> None:
        clauses = {
            "when_matched": [self.clauses.WhenMatched.update("*")],
            "when_not_matched": [self.clauses.WhenNotMatched("*")],
        }
        self.change(directory, lambda update: update.merge_into(self.source, on=["id"], **clauses))

    def upsert(self, directory: str, _detail: str) -> None:
        self.change(directory, lambda update: update.upsert_by_arrow_with_key(self.source, ["id"]))

    def by_row_id(self, directory: str, _detail: str) -> None:
        self.change(
            directory, lambda update: update.with_update_type(["amount"]).update_by_arrow_with_row_id(self.by_id)
        )

    def change(self, directory: str, do: Any) -> None:  # noqa: ANN401 - a function of whatever the library has
        builder = self.table(directory).new_batch_write_builder()
        commit = builder.new_commit()
        commit.commit(do(builder.new_update()))
        commit.close()

    def predicate(self, update: Any, detail: str) -> Any:  # noqa: ANN401 - whatever the library has
        builder = update.new_predicate_builder()
        if detail == "range":
            return builder.less_than("id", self.rows // 100)
        return builder.equal("category", "c07")


class PyPaimonRust(PyPaimon):
    """The Rust release: SQL, and its own verbs where they are no statement."""

    def __init__(self) -> None:
        super().__init__()
        self.rust = importlib.import_module("pypaimon_rust.datafusion")

    def table(self, directory: str) -> Any:  # noqa: ANN401 - whatever the library has
        return self.rust.PaimonCatalog({"warehouse": directory}).get_table("d.t")

    def scan(self, directory: str, columns: list[str] | None = None) -> pa.Table:
        builder = self.table(directory).new_read_builder()
        builder = builder if columns is None else builder.with_projection(columns)
        return pa.Table.from_batches(builder.new_read().read(builder.new_scan().plan().splits()))

    def delete(self, directory: str, detail: str) -> None:
        self.sql(directory, f"DELETE FROM d.t WHERE {self.condition(detail)}")  # noqa: S608 - our own text

    def update(self, directory: str, detail: str) -> None:
        self.sql(directory, f"UPDATE d.t SET amount = {NEW_AMOUNT} WHERE {self.condition(detail)}")  # noqa: S608

    def merge(self, directory: str, _detail: str) -> None:
        names = self.source.column_names
        assigned = ", ".join(f"{name} = s.{name}" for name in names if name != "id")
        inserted = f"({', '.join(names)}) VALUES ({', '.join(f's.{name}' for name in names)})"
        self.sql(
            directory,
            f"MERGE INTO d.t AS t USING source AS s ON t.id = s.id WHEN MATCHED THEN UPDATE SET {assigned} "
            f"WHEN NOT MATCHED THEN INSERT {inserted}",
        )

    def sql(self, directory: str, statement: str) -> None:
        context = self.rust.SQLContext()
        context.register_catalog("paimon", {"warehouse": directory})
        context.set_current_catalog("paimon")
        context.set_current_database("d")
        context.register_batch("source", self.source.combine_chunks().to_batches()[0])
        context.sql(statement)


LIBRARIES = {OURS: Lakewright, DELTA: DeltaLake, PYTHON: PyPaimon, RUST: PyPaimonRust}


def run(library: Library, command: dict[str, Any]) -> dict[str, Any]:
    """Do one thing and time only its work."""
    verb, directory = command["verb"], command["directory"]
    if verb == "know":
        library.know(command["rows"])
        return {}
    if verb == "make":
        rows, files = library.rows, command["files"]
        parts = (rows_of(number * rows // files, rows // files) for number in range(files))
        library.make(directory, command["options"], parts)
        return {}
    if verb == "check":
        return found_in(library.scan(directory, ["id", "amount"]))
    wall, cpu = time.perf_counter(), time.process_time()
    out = library.scan(directory) if verb == "scan" else getattr(library, verb)(directory, command["detail"])
    answer: dict[str, Any] = {"seconds": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
    return answer | ({"found": {"rows": out.num_rows}} if verb == "scan" else {})


def found_in(rows: pa.Table) -> dict[str, Any]:
    """Return what tells tables apart after a change."""
    changed = pc.sum(pc.less(rows.column("amount"), 0)).as_py()
    return {"rows": rows.num_rows, "ids": pc.sum(rows.column("id")).as_py(), "changed": changed}


def serve(name: str) -> None:
    """Answer commands until standard input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints goes to standard error
    library = LIBRARIES[name]()
    for line in sys.stdin:
        try:
            answer = run(library, json.loads(line))
        except Exception as failure:  # noqa: BLE001 - a peer may fail in its own way; the table says so
            answer = {"failed": f"{type(failure).__name__}: {failure}"[:300]}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


# In the process that compares


@dataclass(slots=True)
class Worker:
    """One library in a process of its own."""

    name: str
    process: subprocess.Popen[str] = field(init=False)

    def __post_init__(self) -> None:
        python = sys.executable if self.name == OURS else str(PEERS_PYTHON)
        self.process = subprocess.Popen(
            [python, "-W", "ignore", __file__, "--serve", self.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def ask(self, **command: object) -> dict[str, Any]:
        """Send a command and wait for its answer."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        answer: dict[str, Any] = json.loads(line) if line else {"failed": "the process died"}
        return answer

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(60)


@dataclass(slots=True)
class Bench:
    """The tables, and the libraries that change copies of them."""

    root: Path
    rows: int
    files: int
    workers: dict[str, Worker] = field(default_factory=dict)

    def worker(self, name: str) -> Worker:
        """Return the process of a library, which has made its inputs."""
        if name not in self.workers:
            self.workers[name] = Worker(name)
            self.workers[name].ask(verb="know", directory="", rows=self.rows)
        return self.workers[name]

    def table(self, kind: str) -> Path:
        """Return an untouched table of a kind."""
        path = self.root / kind
        if not path.exists():
            maker = self.worker(DELTA if kind == "delta" else OURS)
            made = maker.ask(verb="make", directory=str(path), options=KINDS[kind], files=self.files)
            if made:
                raise SystemExit(f"the table {kind} could not be written: {made}")
        return path

    def once(self, case: Case, contender: Contender, *, check: bool) -> dict[str, Any]:
        """Do the work of a case once, on a copy of the table, and look what became of it."""
        worker, copy = self.worker(contender.library), self.root / "copy"
        shutil.copytree(self.table(contender.kind), copy, copy_function=linked)
        if case.verb == "scan" and case.detail:
            self.worker(OURS).ask(verb="delete", directory=str(copy), detail=case.detail)
        answer = worker.ask(verb=case.verb, directory=str(copy), detail=case.detail)
        if check and "seconds" in answer and case.verb != "scan":
            answer["found"] = worker.ask(verb="check", directory=str(copy))
        shutil.rmtree(copy)
        return answer

    def measure(self, case: Case, repeats: int) -> dict[str, Any]:
        """Run one case, interleaved; the first run of each shows that it is right, the others how long it takes."""
        seen: dict[Contender, list[dict[str, Any]]] = {contender: [] for contender in case.contenders}
        for repeat in range(repeats + 1):
            for contender in sorted(seen, key=str, reverse=bool(repeat % 2)):
                if is_worth_repeating(seen[contender]):
                    seen[contender].append(self.once(case, contender, check=repeat == 0))
        found = {str(contender): answers[0]["found"] for contender, answers in seen.items() if "found" in answers[0]}
        if len({json.dumps(one) for one in found.values()}) > 1:
            raise SystemExit(f"{case.title}: the libraries do not end with the same rows: {found}")
        return {str(contender): summary(answers) for contender, answers in seen.items()}

    def close(self) -> None:
        """End all processes and remove all tables."""
        for worker in self.workers.values():
            worker.close()
        shutil.rmtree(self.root, ignore_errors=True)


def is_worth_repeating(answers: list[dict[str, Any]]) -> bool:
    """Say whether one more run tells anything: not of who failed, and who is slow is warm once."""
    slow = len(answers) > 1 and answers[-1].get("seconds", 0) > SLOW_SECONDS
    return not slow and not any("failed" in answer for answer in answers)


def linked(source: str, target: str) -> None:
    """Copy a file; those that nobody ever changes are linked."""
    (os.link if source.endswith(".parquet") else shutil.copy2)(source, target)


def summary(answers: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the medians of all runs but the first, or what failed."""
    first, *warm = answers
    failed = [answer for answer in answers if "failed" in answer]
    if failed or not warm:
        return failed[0] if failed else first
    medians = {what: statistics.median(answer[what] for answer in warm) for what in ("seconds", "cpu")}
    every = [round(answer["seconds"], 3) for answer in warm]
    return medians | {"first": first["seconds"], "all": every, "found": first.get("found")}


def markdown(results: dict[str, dict[str, Any]], wanted: dict[str, tuple[str, float]]) -> str:
    """Return a table of all contenders: seconds, and how many times as long as the first they take."""
    lines = ["| work | who | s (cpu) | ratio (cpu) | wanted |", "| --- | --- | --- | --- | --- |"]
    for title, row in results.items():
        first = next(iter(row.values()))
        goal, times = wanted.get(title, ("", 0))
        for who, answer in row.items():
            if "seconds" not in answer:
                lines.append(f"| {title} | {who} | failed: {answer.get('failed', '')[:80]} | | |")
                continue
            ratio = f"{answer['seconds'] / first['seconds']:.2f}x ({answer['cpu'] / first['cpu']:.2f}x)"
            asked = f"{times:g}x" if goal and who.startswith(goal) else ""
            figures = f"{answer['seconds']:.3f} ({answer['cpu']:.3f})"
            lines.append(f"| {title} | {who} | {figures} | {'' if answer is first else ratio} | {asked} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run everything, or the cases that were named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--files", type=int, default=10, help="of each table")
    parser.add_argument("--repeats", type=int, default=5, help="how often each case runs warm")
    parser.add_argument("--only", default="", help="run cases whose title contains one of these, with commas between")
    parser.add_argument("--without", default="", help="leave these libraries out, with commas between")
    parser.add_argument("--name", default="rows")
    parser.add_argument("--serve", default="", help="be the process of one library")
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.serve)
        return
    bench = Bench(Path(tempfile.mkdtemp(prefix="lakewright-bench-")), arguments.rows, arguments.files)
    results: dict[str, dict[str, Any]] = {}
    without = arguments.without.split(",")
    try:
        for case in cases():
            if any(word.strip() in case.title for word in arguments.only.split(",")):
                left = tuple(contender for contender in case.contenders if contender.library not in without)
                results[case.title] = bench.measure(replace(case, contenders=left), arguments.repeats)
                print(case.title, json.dumps(results[case.title]), flush=True)
    finally:
        bench.close()
    machine = {"python": platform.python_version(), "cpus": os.cpu_count(), "machine": platform.machine()}
    shape = {"rows": arguments.rows, "files": arguments.files, "repeats": arguments.repeats}
    text = markdown(results, {case.title: case.wanted for case in cases() if case.wanted is not None})
    out = HERE / "results"
    out.mkdir(exist_ok=True)
    (out / f"{arguments.name}.json").write_text(
        json.dumps({"machine": machine, "table": shape, "results": results}, indent=2)
    )
    (out / f"{arguments.name}.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
