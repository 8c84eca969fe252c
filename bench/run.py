"""Ratios, not seconds: every library does the same work in one run, interleaved, and the medians are compared.

Writes `bench/results/<name>.json` and `.md`. Machines are noisy: only a ratio taken in one run can be believed. Each
cell has two of them: of the time on the wall, and of the processor time of all threads together, which a busy
neighbour disturbs least. Libraries that were asked for the same rows must return equally many.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parent
PEERS_PYTHON = Path(os.environ.get("LAKEWRIGHT_PEERS", str(ROOT / ".venvs" / "peers" / "bin" / "python")))
OURS = ("pyarrow", "lakewright")
PEERS = ("pypaimon", "pypaimon-rust", "deltalake", "pyiceberg", "lance")
REFERENCE = "lakewright"
BEFORE = "before"  # an older checkout of ours


@dataclass(slots=True)
class Worker:
    """One library in a process of its own."""

    name: str
    checkout: str = ""  # where the sources of "before" are
    process: subprocess.Popen[str] = field(init=False)

    def __post_init__(self) -> None:
        older = self.name == BEFORE
        python = sys.executable if self.name in OURS or older else str(PEERS_PYTHON)
        self.process = subprocess.Popen(
            [python, str(HERE / "worker.py"), REFERENCE if older else self.name],
            env=os.environ | ({"PYTHONPATH": str(Path(self.checkout) / "src")} if older else {}),
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


@dataclass(frozen=True, slots=True)
class Case:
    """One row of the result."""

    title: str
    command: dict[str, object]
    libraries: tuple[str, ...]
    repeats: int
    place: str  # the directory is <library>/<place>; a place that begins with "our" is made by us and read by all


def cases(scale: float) -> list[Case]:
    """Return the cases in an order in which reads find what writes left."""
    rows = int(5_000_000 * scale)
    every, paimon = (*OURS, *PEERS), (REFERENCE, "pypaimon", "pypaimon-rust")
    tables = tuple(name for name in every if name != "pyarrow")
    return [
        Case("append write", {"case": "write", "rows": rows}, every, 5, "append"),
        Case("full read", {"case": "read"}, every, 5, "append"),
        Case("filtered read (1 %)", {"case": "read", "below": rows // 100}, every, 5, "append"),
        Case("point read, unsorted", {"case": "read", "equals": 12_345}, every, 5, "append"),
        Case("partitioned write, 8", {"case": "write", "rows": rows, "partitions": 8}, tables, 3, "p8"),
        Case("partitioned write, 300", {"case": "write", "rows": rows, "partitions": 300}, tables, 3, "p300"),
        Case("200 small commits", {"case": "commits", "rows": 1000, "commits": 200}, tables, 1, "commits"),
        Case("planning 10,000 files", {"case": "plan"}, paimon, 3, "our-plan"),
        *keyed_cases(scale),
    ]


def keyed_cases(scale: float) -> list[Case]:
    """Return the cases of primary-key tables; the Python release takes minutes for some, so it is left out there."""
    rows = int(2_000_000 * scale)
    rust, paimon = (REFERENCE, "pypaimon-rust"), (REFERENCE, "pypaimon", "pypaimon-rust")
    merging = (REFERENCE, "pypaimon-rust", "deltalake", "lance")
    upsert = {"case": "upsert", "rows": rows}
    into = {"case": "upsert", "rows": int(200_000 * scale), "into": int(500_000 * scale)}
    return [
        Case("upsert, BIGINT key", upsert, rust, 5, "bigint"),
        Case("upsert, string key", upsert | {"key": "string"}, rust, 5, "string"),
        Case("upsert, composite key", upsert | {"key": "composite"}, rust, 5, "composite"),
        Case("upsert, dynamic buckets", upsert | {"buckets": -1}, rust, 5, "dynamic"),
        Case("merge read, 2 runs", {"case": "read"}, paimon, 5, "our-2-runs"),
        Case("merge read, 10 runs", {"case": "read"}, paimon, 5, "our-10-runs"),
        Case("upsert 200,000 into 500,000", into, merging, 5, "into"),
    ]


def measure(case: Case, workers: dict[str, Worker], root: Path) -> dict[str, Any]:
    """Run one case, interleaved, and return medians per library."""
    seen: dict[str, list[dict[str, Any]]] = {name: [] for name in case.libraries}
    for repeat in range(case.repeats):
        order = case.libraries[repeat % len(case.libraries) :] + case.libraries[: repeat % len(case.libraries)]
        for name in order:
            owner = REFERENCE if case.place.startswith("our-") else name
            answer = workers[name].ask(directory=str(root / owner / case.place), **case.command)
            seen[name].append(answer)
    results = {name: summary(answers) for name, answers in seen.items()}
    counts = {name: result["rows"] for name, result in results.items() if "rows" in result}
    if len(set(counts.values())) > 1:
        raise SystemExit(f"{case.title}: the libraries disagree about the number of rows: {counts}")
    return results


def summary(answers: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the median of the seconds, with whatever else the answers say."""
    bad = [answer for answer in answers if "seconds" not in answer]
    if bad:
        return bad[0]
    return answers[-1] | {what: statistics.median(answer[what] for answer in answers) for what in ("seconds", "cpu")}


def streamed(root: Path, rows: int, libraries: tuple[str, ...]) -> dict[str, Any]:
    """Stream rows over 300 partitions in a fresh process each and report the peak memory."""
    out = {}
    for name in libraries:
        worker = Worker(name)
        out[name] = worker.ask(case="stream", directory=str(root / name / "stream"), rows=rows, partitions=300)
        worker.close()
        shutil.rmtree(root / name / "stream", ignore_errors=True)
    return out


def prepare(place: str, worker: Worker, root: Path, arguments: argparse.Namespace) -> None:
    """Write the table that all libraries are to read: of many files of one row each, or of overlapping runs."""
    directory, rows = str(root / REFERENCE / place), int(2_000_000 * arguments.scale)
    if place == "our-plan":
        answer = worker.ask(case="write", directory=directory, rows=arguments.files * 3, partitions=arguments.files)
    else:
        runs = int(place.split("-")[1])
        answer = worker.ask(case="runs", directory=directory, rows=rows // runs, runs=runs)
    if "seconds" not in answer:
        raise SystemExit(f"the table {place} could not be written: {answer}")


def compacted(root: Path, rows: int) -> dict[str, Any]:
    """Compact ten runs of that many rows together, in a process of its own, and report the peak memory."""
    maker, directory = Worker(REFERENCE), str(root / REFERENCE / "compact")
    maker.ask(case="runs", directory=directory, rows=rows // 10, runs=10, buckets=1)
    maker.close()
    worker = Worker(REFERENCE)
    answer = worker.ask(case="compact", directory=directory)
    worker.close()
    return {REFERENCE: answer}


def markdown(results: dict[str, dict[str, Any]]) -> str:
    """Return the table of ratios: how many times as long as lakewright each library takes, by the wall and by cpu."""
    names = [name for name in (*OURS, BEFORE, *PEERS) if any(name in row for row in results.values())]
    lines = [f"| case | lakewright s (cpu) | {' | '.join(n for n in names if n != REFERENCE)} |"]
    lines.append("| --- " * (len(names) + 1) + "|")
    for title, row in results.items():
        cells = [cell(row.get(name), row[REFERENCE]) for name in names if name != REFERENCE]
        lines.append(f"| {title} | {detail(row[REFERENCE])} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def detail(answer: dict[str, Any]) -> str:
    """Return our own figure with its extras."""
    if "seconds" not in answer:
        return f"failed: {answer.get('failed')}"
    return f"{answer['seconds']:.3f} ({answer['cpu']:.3f}){extras(answer)}"


def cell(answer: dict[str, Any] | None, ours: dict[str, Any]) -> str:
    """Return a peer's ratios to ours."""
    if answer is None or answer.get("skipped"):
        return "-"
    if "seconds" not in answer or "seconds" not in ours:
        return "failed"
    return f"{answer['seconds'] / ours['seconds']:.2f}x ({answer['cpu'] / ours['cpu']:.2f}x){extras(answer)}"


def extras(answer: dict[str, Any]) -> str:
    """Return what else an answer says."""
    out = f" last/first {answer['growth']:.2f}" if "growth" in answer else ""
    out += f" peak {answer['peak_mb']:.0f} MB" if "peak_mb" in answer else ""
    return out + (f" {answer['bytes'] / 1e6:.1f} MB" if "bytes" in answer else "")


def wanted(cases: list[Case], only: str) -> list[Case]:
    """Return the cases whose titles contain one of the words, and the writes that their reads need."""
    words = [word.strip() for word in only.split(",")]
    chosen = [case for case in cases if any(word in case.title for word in words)]
    places = {case.place for case in chosen if case.command["case"] == "read" and not case.place.startswith("our-")}
    return [case for case in cases if case in chosen or (case.place in places and case.command["case"] == "write")]


def main() -> None:
    """Run everything, or the cases that were named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="fraction of 5 M rows (and of 16 M streamed)")
    parser.add_argument("--only", default="", help="run cases whose title contains one of these, with commas between")
    parser.add_argument("--repeats", type=int, default=0, help="how often each case runs, instead of its own number")
    parser.add_argument("--name", default="latest")
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--before", default="", help="an older checkout, measured beside this one instead of the peers")
    arguments = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="lakewright-bench-"))
    results: dict[str, dict[str, Any]] = {}
    names = (REFERENCE, BEFORE) if arguments.before else (*OURS, *PEERS)
    workers = {name: Worker(name, arguments.before) for name in names}
    try:
        for one in wanted(cases(arguments.scale), arguments.only):
            libraries = names if arguments.before else one.libraries
            case = replace(one, repeats=arguments.repeats or one.repeats, libraries=libraries)
            if case.place.startswith("our-"):
                prepare(case.place, workers[REFERENCE], root, arguments)
            results[case.title] = measure(case, workers, root)
            print(case.title, json.dumps(results[case.title]), flush=True)
    finally:
        for worker in workers.values():
            worker.close()
    if not arguments.only or "stream" in arguments.only:
        rows = int(16_000_000 * arguments.scale)
        results["streamed, 300 partitions"] = streamed(
            root, rows, (REFERENCE, "pypaimon", "pypaimon-rust", "deltalake")
        )
    if not arguments.only or "compact" in arguments.only:
        results["compaction of 20 M rows, 1 bucket"] = compacted(root, int(20_000_000 * arguments.scale))
    shutil.rmtree(root, ignore_errors=True)
    out = HERE / "results"
    out.mkdir(exist_ok=True)
    machine = {"python": platform.python_version(), "cpus": os.cpu_count(), "machine": platform.machine()}
    (out / f"{arguments.name}.json").write_text(json.dumps({"machine": machine, "results": results}, indent=2))
    (out / f"{arguments.name}.md").write_text(markdown(results))
    print(markdown(results))


if __name__ == "__main__":
    main()
