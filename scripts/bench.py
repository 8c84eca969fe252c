"""Run one case of the benches: `make bench CASE=spark`. A bench prints ratios and keeps them in bench/results."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
PEERS = ".venvs/peers/.bench"
CONNECTOR = "target/java/paimon-spark-3.5-0.9.0.jar"


@dataclass(frozen=True)
class Case:
    """One bench: what it measures, its command, what `make` makes for it, and the environment that runs it."""

    about: str
    command: Sequence[str]
    needs: Sequence[str] = ()
    environment: str = ".venv"


CASES = {
    "local": Case("whole tables beside pyarrow and other libraries", ["-m", "bench.run"], [PEERS]),
    "rows": Case("deletes, updates and merges", ["-m", "bench.rows"], [PEERS]),
    "compaction": Case("compaction and sorting beside deltalake", ["-m", "bench.compaction"], [PEERS]),
    "plans": Case("plans of a table of 100,000 files", ["-m", "bench.plans"], [PEERS]),
    "latency": Case("an object store that answers late", ["-m", "bench.latency", "--peers"], [PEERS]),
    "pieces": Case("one file read by several threads and tasks", ["-m", "bench.pieces", "--spark"]),
    "spark": Case("Spark beside native parquet", ["-m", "bench.spark"]),
    "spark-memory": Case("memory of Spark tasks", ["-m", "bench.spark_memory"]),
    "spark-size": Case(
        "100 million rows on Spark: half an hour, 20 GB", ["-m", "bench.spark_size", "--rows", "5000000", "100000000"]
    ),
    "spark-peers": Case(
        "Spark beside Delta Lake and Iceberg",
        ["-m", "bench.spark_peers"],
        [".venvs/spark-4.1/.made", "target/delta/.made", "target/iceberg/.made"],
        ".venvs/spark-4.1",
    ),
    "java": Case(
        "Paimon's own connector on Spark",
        ["-m", "bench.spark", "--java", CONNECTOR],
        [".venvs/java-sql/.made"],
        ".venvs/java-sql",
    ),
    "ray": Case("pypaimon on the same Ray", ["-m", "bench.on_ray"], [".venvs/peers/.ray"]),
}


def main(name: str, arguments: Sequence[str]) -> int:
    """Run one case with further arguments of its own."""
    if name not in CASES:
        print("\n".join(f"{case:13} {CASES[case].about}" for case in CASES))
        return int(name != "list")
    case = CASES[name]
    if case.needs:
        subprocess.run(["make", "--silent", *case.needs], cwd=ROOT, check=True)
    python = ROOT / case.environment / "bin" / "python"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "tests"), str(ROOT)))}
    return subprocess.run([python, *case.command, *arguments], cwd=ROOT, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
