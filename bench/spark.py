"""Spark: ours against Spark's own parquet, in one session, interleaved; Java Paimon likewise, apart.

Run under PySpark 4.x it measures lakewright (`make bench CASE=spark`), under PySpark 3.5 with the connector's jar it
measures Java Paimon (`make bench CASE=java`). The two sessions cannot be one, so each is compared with native parquet
doing the nearest same thing in the same session, and only those ratios are comparable. A cell has two ratios: of the
time on the wall, and of the processor time of the session's whole process tree, which a busy neighbour disturbs least.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import platform
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pyspark
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

HERE = Path(__file__).parent
COLUMNS = "k bigint, s string, d double, i int, dt date"
BUCKETS = 4
DATES = 8
WARM_UPS = 2  # the JVM compiles what runs often


class Engine(Protocol):
    """What is compared with native parquet."""

    name: str

    def create(self, name: str, *, keyed: bool = False, partitioned: bool = False) -> str:
        """Make an empty table and return where it is."""

    def write(self, frame: DataFrame, name: str) -> None:
        """Append or upsert, and commit."""

    def read(self, name: str) -> DataFrame:
        """Return the rows of the table."""

    def files(self, name: str) -> list[str]:
        """Return the data files of the newest snapshot."""

    def forget(self) -> None:
        """Drop whatever earlier queries left in caches."""


class Lakewright:
    """Ours."""

    name = "lakewright"

    def __init__(self, spark: SparkSession, warehouse: str) -> None:
        self._lakewright = __import__("lakewright")
        self._verbs = __import__("lakewright.spark", fromlist=["spark"])
        self._outdated = __import__("lakewright.spark.computed_vectors", fromlist=["outdated"])
        self._spark = spark
        self._catalog = self._lakewright.CatalogFactory.create({"warehouse": warehouse})
        self._catalog.create_database("d", ignore_if_exists=True)

    def create(self, name: str, *, keyed: bool = False, partitioned: bool = False) -> str:
        types = [("k", "BIGINT"), ("s", "STRING"), ("d", "DOUBLE"), ("i", "INT"), ("dt", "DATE")]
        lw = self._lakewright
        fields = [lw.DataField(at, name, lw.AtomicType(dtype)) for at, (name, dtype) in enumerate(types)]
        options = {"bucket": str(BUCKETS)} if keyed else {}
        schema = lw.Schema(fields, ["dt"] if partitioned else [], ["k"] if keyed else [], options)
        self._catalog.drop_table(f"d.{name}", ignore_if_not_exists=True)
        self._catalog.create_table(f"d.{name}", schema, ignore_if_exists=False)
        return str(self._table(name).table_path)

    def write(self, frame: DataFrame, name: str) -> None:
        self._verbs.write_table(frame, self._table(name), progress=False)

    def read(self, name: str) -> DataFrame:
        frame: DataFrame = self._verbs.read_table(self._spark, self._table(name))
        return frame

    def files(self, name: str) -> list[str]:
        splits = self._table(name).new_read_builder().new_scan().plan().splits()
        return [path for split in splits for path in split.file_paths]

    def forget(self) -> None:
        self._outdated.clear_outdated_cache()

    def _table(self, name: str) -> Any:  # noqa: ANN401 - lakewright is not there under PySpark 3.5
        return self._catalog.get_table(f"d.{name}")


class JavaPaimon:
    """Java Paimon's connector, through SQL and the DataFrame writer."""

    name = "java paimon"

    def __init__(self, spark: SparkSession, warehouse: str) -> None:
        self._spark = spark
        self._warehouse = warehouse
        spark.sql("CREATE DATABASE IF NOT EXISTS paimon.d")

    def create(self, name: str, *, keyed: bool = False, partitioned: bool = False) -> str:
        properties = f"'primary-key'='k', 'bucket'='{BUCKETS}'" if keyed else "'bucket'='-1'"
        by = "PARTITIONED BY (dt)" if partitioned else ""
        self._spark.sql(f"DROP TABLE IF EXISTS paimon.d.{name}")
        self._spark.sql(f"CREATE TABLE paimon.d.{name} ({COLUMNS}) {by} TBLPROPERTIES ({properties})")
        return f"{self._warehouse}/d.db/{name}"

    def write(self, frame: DataFrame, name: str) -> None:
        frame.writeTo(f"paimon.d.{name}").append()

    def read(self, name: str) -> DataFrame:
        return self._spark.table(f"paimon.d.{name}")

    def files(self, name: str) -> list[str]:
        rows = self._spark.sql(f"SELECT bucket, file_path FROM paimon.d.`{name}$files`").collect()  # noqa: S608 - our names
        return [f"{self._warehouse}/d.db/{name}/bucket-{row.bucket}/{row.file_path}" for row in rows]

    def forget(self) -> None:
        """Do nothing: it keeps no bitmaps."""


@dataclass(slots=True)
class Bench:
    """One session with its data, and what was measured so far."""

    spark: SparkSession
    engine: Engine
    root: Path
    rows: int
    repeats: int
    results: dict[str, dict[str, Any]] = field(default_factory=dict)

    def source(self, rows: int, *, every: int = 1, revision: int = 0) -> DataFrame:
        """Return cached rows in four partitions; with `every`, the keys of every n-th row."""
        return rows_of(self.spark, self.rows, rows, every=every, revision=revision)

    def compare(self, title: str, native: Callable[[], object], ours: Callable[[], object]) -> None:
        """Run both, interleaved, after a warm-up, and keep the medians."""
        kinds = (("native", native), ("ours", ours))
        seen: dict[str, list[tuple[float, float]]] = {"native": [], "ours": []}
        for repeat in range(-WARM_UPS, self.repeats):
            for kind, work in kinds if repeat % 2 else reversed(kinds):
                taken = timed(work)
                if repeat >= 0:
                    seen[kind].append(taken)
        wall, cpu = ({kind: statistics.median(t[at] for t in taken) for kind, taken in seen.items()} for at in (0, 1))
        self.results[title] = {
            "native_seconds": wall["native"],
            "seconds": wall["ours"],
            "ratio": wall["ours"] / wall["native"],
            "cpu_ratio": cpu["ours"] / cpu["native"],
            "all": seen,
        }
        sys.stderr.write(f"{title}: {wall['ours']:.2f} s, {wall['ours'] / wall['native']:.2f} of native\n")

    def fresh(self, name: str) -> str:
        """Return a directory that is not there yet."""
        path = self.root / "native" / name
        shutil.rmtree(path, ignore_errors=True)
        return str(path)


def rows_of(spark: SparkSession, keys: int, rows: int | None = None, *, every: int = 1, revision: int = 0) -> DataFrame:
    """Return cached rows in four partitions, as many as there are keys unless `rows` says otherwise."""
    key = F.col("id") * every

    def random(seed: int) -> Column:  # the same for the same key, and as hard to compress as life
        return F.abs(F.xxhash64(key, F.lit(seed)))

    return (
        spark.range(0, keys if rows is None else rows, 1, 4)
        .select(
            ((key * 7_919 + 13) % keys).cast("bigint").alias("k"),
            F.concat(F.lit("customer-"), (random(1) % 1_000_000).cast("string")).alias("s"),
            (random(2 + revision) / float(2**63)).alias("d"),
            (random(5) % 1000).cast("int").alias("i"),
            F.date_add(F.lit("2026-11-01").cast("date"), (random(6) % DATES).cast("int")).alias("dt"),
        )
        .cache()
    )


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Return the seconds on the wall and of the processors that some work takes."""
    cpu, started = tree_cpu(), time.perf_counter()
    work()
    return time.perf_counter() - started, tree_cpu() - cpu


def tree_cpu() -> float:
    """Return the processor seconds of this process and all below it, those that ended included."""
    ticks = 0
    below = {os.getpid()}
    stats = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                stats[int(entry)] = Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
    grew = True
    while grew:
        more = {pid for pid, stat in stats.items() if int(stat[1]) in below and pid not in below}
        below |= more
        grew = bool(more)
    for pid in below & stats.keys():
        ticks += sum(map(int, stats[pid][11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def noop(frame: DataFrame) -> None:
    """Compute every column of every row and throw it away."""
    frame.write.format("noop").mode("overwrite").save()


def aggregate(frame: DataFrame) -> None:
    """Compute something from two columns."""
    frame.groupBy("i").agg(F.sum("d")).collect()


def writes(bench: Bench) -> None:
    """Compare the writes."""
    data, engine = bench.source(bench.rows), bench.engine
    noop(data)

    def ours(name: str, *, keyed: bool = False, partitioned: bool = False) -> None:
        engine.create(name, keyed=keyed, partitioned=partitioned)
        engine.write(data, name)

    def plain() -> None:
        data.write.option("compression", "zstd").parquet(bench.fresh("append"))

    def by_date() -> None:
        data.write.option("compression", "zstd").partitionBy("dt").parquet(bench.fresh("dates"))

    def sorted_by_key() -> None:
        placed = data.repartition(BUCKETS, "k").sortWithinPartitions("k")
        placed.write.option("compression", "zstd").parquet(bench.fresh("sorted"))

    bench.compare("append write", plain, functools.partial(ours, "append"))
    bench.compare(f"partitioned append, {DATES} dates", by_date, functools.partial(ours, "dates", partitioned=True))
    bench.compare(f"primary-key write, {BUCKETS} buckets", sorted_by_key, functools.partial(ours, "keyed", keyed=True))
    data.unpersist()


def reads(bench: Bench) -> None:
    """Compare the reads of tables that the engine wrote: raw, then merged after an upsert of a quarter of the keys."""
    engine, spark = bench.engine, bench.spark
    data, changes = bench.source(bench.rows), bench.source(bench.rows // 4, every=4, revision=1)
    engine.create("append")
    engine.write(data, "append")
    raw = engine.files("append")
    bench.compare("raw read, all columns", lambda: noop(native(spark, raw)), lambda: noop(engine.read("append")))
    bench.compare(
        "raw read, aggregate", lambda: aggregate(native(spark, raw)), lambda: aggregate(engine.read("append"))
    )
    engine.create("keyed", keyed=True)
    engine.write(data, "keyed")
    engine.write(changes, "keyed")
    data.unpersist()
    changes.unpersist()
    files = engine.files("keyed")
    count = engine.read("keyed").count()
    if count != bench.rows:
        raise SystemExit(f"the merged table has {count} rows instead of {bench.rows}")

    def first(query: Callable[[DataFrame], None]) -> None:
        engine.forget()
        query(engine.read("keyed"))

    for what, query in (("all columns", noop), ("aggregate", aggregate)):
        scan = functools.partial(lambda query: query(native(spark, files)), query)
        bench.compare(f"merge read, {what}, first", scan, functools.partial(first, query))
        query(engine.read("keyed"))
        again = functools.partial(lambda query: query(engine.read("keyed")), query)
        bench.compare(f"merge read, {what}, second", scan, again)


def native(spark: SparkSession, files: list[str]) -> DataFrame:
    """Return Spark's own scan of some files."""
    return spark.read.schema(COLUMNS).parquet(*files)


@contextmanager
def session(java: str | None, root: Path) -> Iterator[tuple[SparkSession, Engine]]:
    """Run a local session on two cores, ours or one with Java Paimon's connector."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[2]").appName("bench")
    chosen = {
        "spark.driver.memory": "5g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(root / "scratch"),
    }
    if java is not None:
        chosen |= {
            "spark.jars": java,
            "spark.sql.catalog.paimon": "org.apache.paimon.spark.SparkCatalog",
            "spark.sql.catalog.paimon.warehouse": str(root / "warehouse"),
            "spark.sql.extensions": "org.apache.paimon.spark.extensions.PaimonSparkSessionExtensions",
        }
    for key, value in chosen.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    make = Lakewright if java is None else JavaPaimon
    try:
        yield spark, make(spark, str(root / "warehouse"))
    finally:
        spark.stop()


def markdown(results: dict[str, dict[str, Any]], name: str) -> str:
    """Return the table of ratios."""
    lines = [f"| work | native s | {name} s | of native | of native, by cpu |", "| --- | --- | --- | --- | --- |"]
    for title, row in results.items():
        cells = f"{row['native_seconds']:.2f} | {row['seconds']:.2f} | {row['ratio']:.2f} | {row['cpu_ratio']:.2f}"
        lines.append(f"| {title} | {cells} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print the table and write it down."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--java", help="the jar of Java Paimon's connector; without it lakewright is measured")
    parser.add_argument("--only", choices=("writes", "reads"))
    parser.add_argument("--out", default=str(HERE / "results"))
    arguments = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="bench-spark-"))
    try:
        with session(arguments.java, root) as (spark, engine):
            bench = Bench(spark, engine, root, arguments.rows, arguments.repeats)
            for part in (writes, reads):
                if arguments.only in {None, part.__name__}:
                    part(bench)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    name = "spark-java" if arguments.java else "spark"
    text = markdown(bench.results, engine.name)
    facts = {"pyspark": pyspark.__version__, "python": platform.python_version(), "cores": os.cpu_count()}
    out = Path(arguments.out)
    out.mkdir(parents=True, exist_ok=True)
    (out / f"{name}.json").write_text(json.dumps({"facts": facts, "results": bench.results}, indent=1))
    (out / f"{name}.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
