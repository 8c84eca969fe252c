"""Spark: ours beside Delta Lake and Iceberg, in one session, interleaved; and queries on our tables beside parquet.

`changes` appends 5 million rows to a table of each, reads them, deletes and updates 2 in 100 of them, and merges
200,000 rows of which half have a key that the table has. Ours runs twice, by SQL and by the verbs of `lakewright`.
All tables go through the same changes, one after the other, and must hold the same rows in the end. `queries` runs 22
queries of the shape of TPC-H by SQL on our tables, and by Spark on views over the same files. `compaction` joins 1,000
small files with 10 million rows, and sorts them along a z-order curve, in ours and in Delta Lake. Run by
`make bench CASE=spark-peers`.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import os
import platform
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import pyspark
from bench.spark import COLUMNS, noop, rows_of, timed
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

import lakewright as lw
import lakewright.spark as lws
from support.shop_queries import QUERIES
from support.shop_tables import shop_tables

ROOT = Path(__file__).parents[1]
WARM_UPS = 1
OF_A_THOUSAND = 20  # how many of a thousand rows one delete or one update takes
MERGED_SHARE = 25  # one row in so many is merged
SMALL_FILES = 1_000
COMPACTED_BYTES = 16 << 20  # of the files that a compaction writes


class Engine(Protocol):
    """A table format on Spark, with one table."""

    name: str

    def create(self) -> None:
        """Make the table anew, without rows."""

    def append(self, frame: DataFrame) -> None:
        """Append rows and commit."""

    def read(self) -> DataFrame:
        """Return the rows."""

    def delete(self, low: int) -> None:
        """Delete the rows whose i is in a range."""

    def update(self, low: int) -> None:
        """Give s a new value in the rows whose i is in a range."""

    def merge(self, view: str) -> None:
        """Update the rows whose keys a view has, and insert the rest of it."""


class SqlEngine:
    """An engine that takes statements."""

    name = ""
    table = ""
    definition = ""

    def __init__(self, run: Callable[[str], DataFrame]) -> None:
        self._run = run

    def create(self) -> None:
        self._run(f"DROP TABLE IF EXISTS {self.table}")
        self._run(f"CREATE TABLE {self.table} ({COLUMNS}) {self.definition}")

    def append(self, frame: DataFrame) -> None:
        frame.createOrReplaceTempView("appended")
        self._run(f"INSERT INTO {self.table} SELECT * FROM appended").collect()  # noqa: S608 - our own names

    def read(self) -> DataFrame:
        return self._run(f"SELECT * FROM {self.table}")  # noqa: S608 - as above

    def delete(self, low: int) -> None:
        self._run(f"DELETE FROM {self.table} WHERE {_range(low)}").collect()  # noqa: S608 - as above

    def update(self, low: int) -> None:
        self._run(f"UPDATE {self.table} SET s = 'changed' WHERE {_range(low)}").collect()  # noqa: S608 - as above

    def merge(self, view: str) -> None:
        clauses = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        self._run(f"MERGE INTO {self.table} t USING {view} s ON t.k = s.k {clauses}").collect()


class Delta(SqlEngine):
    """Delta Lake as it comes."""

    name = "Delta Lake"
    table = "delta_plain"
    definition = "USING delta"


class DeltaVectors(SqlEngine):
    """Delta Lake with deletion vectors."""

    name = "Delta Lake, vectors"
    table = "delta_vectors"
    definition = "USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"


class Iceberg(SqlEngine):
    """Iceberg, which writes down what changed instead of whole files."""

    name = "Iceberg"
    table = "ice.d.t"
    definition = (
        "USING iceberg TBLPROPERTIES ('format-version' = '3', 'write.delete.mode' = 'merge-on-read', "
        "'write.update.mode' = 'merge-on-read', 'write.merge.mode' = 'merge-on-read')"
    )


class OursBySql(SqlEngine):
    """Ours, by SQL."""

    name = "lakewright, SQL"
    table = "d.by_sql"
    definition = "TBLPROPERTIES ('deletion-vectors.enabled' = 'true')"


class OursByVerbs:
    """Ours, by the verbs of `lakewright.spark`."""

    name = "lakewright, verbs"

    def __init__(self, spark: SparkSession, catalog: lw.Catalog) -> None:
        self._spark = spark
        self._catalog = catalog

    def create(self) -> None:
        self._catalog.drop_table("d.by_verbs", ignore_if_not_exists=True)
        schema = lw.Schema(_fields(), options={"deletion-vectors.enabled": "true"})
        self._catalog.create_table("d.by_verbs", schema, ignore_if_exists=False)

    def append(self, frame: DataFrame) -> None:
        lws.write_table(frame, self._table(), progress=False)

    def read(self) -> DataFrame:
        return lws.read_table(self._spark, self._table())

    def delete(self, low: int) -> None:
        lws.delete(self._spark, self._table(), _range(low))

    def update(self, low: int) -> None:
        lws.update(self._spark, self._table(), {"s": "changed"}, _range(low))

    def merge(self, view: str) -> None:
        builder = lws.merge(self._spark.table(view), self._table(), "k")
        builder.when_matched_update().when_not_matched_insert().execute()

    def _table(self) -> lw.FileStoreTable:
        return self._catalog.get_table("d.by_verbs")


def _range(low: int) -> str:
    return f"i >= {low} AND i < {low + OF_A_THOUSAND}"


class Race:
    """Engines that do the same work in turn, and how long each took."""

    def __init__(self, engines: list[Engine], repeats: int) -> None:
        self.engines = engines
        self.repeats = repeats
        self.results: dict[str, dict[str, dict[str, Any]]] = {}

    def run(self, title: str, work: Callable[[Engine, int], object], before: Callable[[Engine], object] = id) -> None:
        """Run some work on every engine, with the number of the repeat, in another order each time."""
        taken: dict[str, list[tuple[float, float]]] = {engine.name: [] for engine in self.engines}
        for repeat in range(WARM_UPS + self.repeats):
            for engine in self.engines if repeat % 2 else reversed(self.engines):
                before(engine)
                seconds = timed(functools.partial(work, engine, repeat))
                if repeat >= WARM_UPS:
                    taken[engine.name].append(seconds)
        self.results[title] = {
            name: {
                "seconds": statistics.median(wall for wall, _ in seen),
                "cpu": statistics.median(cpu for _, cpu in seen),
                "all": seen,
            }
            for name, seen in taken.items()
        }
        medians = {name: round(row["seconds"], 2) for name, row in self.results[title].items()}
        sys.stderr.write(f"{title}: {medians}\n")


def changes(spark: SparkSession, race: Race, rows: int, works: Sequence[str]) -> None:
    """Compare the changes that are asked for."""
    data = rows_of(spark, rows)
    noop(data)
    if "append" in works:
        race.run(f"append {rows:,} rows", lambda engine, _: engine.append(data), before=lambda engine: engine.create())
    else:
        for engine in race.engines:
            engine.create()
            engine.append(data)
    data.unpersist()
    if "read" in works:
        race.run("read", lambda engine, _: noop(engine.read()))
    if "delete" in works:
        race.run("delete 2 %", lambda engine, repeat: engine.delete(OF_A_THOUSAND * repeat))
    if "update" in works:
        race.run("update 2 %", lambda engine, repeat: engine.update(500 + OF_A_THOUSAND * repeat))
    if "merge" in works:
        views = [_merged(spark, rows, repeat) for repeat in range(WARM_UPS + race.repeats)]
        race.run(f"merge {rows // MERGED_SHARE:,} rows", lambda engine, repeat: engine.merge(views[repeat]))
    if "read" in works:
        # Delta Lake cannot write rows of a table with deletion vectors to the sink `noop`, so they are summed up.
        race.run("sum up after the changes", lambda engine, _: _digest(engine.read()))
    found = {engine.name: _digest(engine.read()) for engine in race.engines}
    if len(set(found.values())) > 1:
        raise SystemExit(f"the tables do not hold the same rows: {found}")


def _merged(spark: SparkSession, rows: int, repeat: int) -> str:
    """Return the name of a view with the rows of one merge: every second has a key that the table may have."""
    place = F.col("id")
    known, new = place * MERGED_SHARE + repeat, F.lit(rows * (repeat + 1)) + place
    values = spark.range(0, rows // MERGED_SHARE, 1, 4).select(
        F.when(place % 2 == 0, known).otherwise(new).alias("k"),
        F.concat(F.lit("merged-"), F.xxhash64(place).cast("string")).alias("s"),
        (F.xxhash64(place, F.lit(repeat)) / float(2**63)).alias("d"),
        F.lit(1000 + repeat).cast("int").alias("i"),
        F.lit("2026-12-01").cast("date").alias("dt"),
    )
    noop(values.cache())
    values.createOrReplaceTempView(f"merged_{repeat}")
    return f"merged_{repeat}"


def _digest(frame: DataFrame) -> tuple[object, ...]:
    """Return the number of rows and a sum over all their values."""
    whole = F.sum(F.xxhash64("k", "s", "d", "i", "dt").cast("decimal(38,0)"))
    return tuple(frame.select(F.count("*"), whole).first() or ())


def queries(spark: SparkSession, catalog: lw.Catalog, scale: float, repeats: int) -> dict[str, Any]:
    """Compare queries on our tables with the same queries on views over the same files."""
    catalog.create_database("shop", ignore_if_exists=True)
    for name, rows in shop_tables(scale).items():
        schema = lw.Schema.from_pyarrow_schema(rows.schema)
        catalog.create_table(f"shop.{name}", schema, ignore_if_exists=False)
        table = catalog.get_table(f"shop.{name}")
        lw.write_table(rows, table)
        splits = table.new_read_builder().new_scan().plan().splits()
        files = [path for split in splits for path in split.file_paths]
        shape = lws.read_table(spark, table).schema
        spark.read.schema(shape).parquet(*files).createOrReplaceTempView(f"parquet_{name}")
    context = lws.SQLContext(spark, catalog)
    results: dict[str, Any] = {}
    for title, text in QUERIES.items():
        works = {
            "parquet": functools.partial(_answer, spark.sql, text.replace("shop.", "parquet_")),
            "ours": functools.partial(_answer, context.sql, text),
        }
        results[title] = _in_turn(works, repeats)
        ours, parquet = (results[title][name]["seconds"] for name in ("ours", "parquet"))
        sys.stderr.write(f"{title}: {ours:.2f} s, {ours / parquet:.2f} of parquet\n")
    return results


def compaction(spark: SparkSession, root: Path, rows: int, repeats: int) -> dict[str, dict[str, dict[str, Any]]]:
    """Compare compactions of a table of 1,000 files; every repeat works on a copy of the same files."""
    spark.conf.set("spark.databricks.delta.optimize.maxFileSize", COMPACTED_BYTES)
    spark.conf.set("spark.databricks.delta.optimize.minFileSize", COMPACTED_BYTES)
    places = {"lakewright": root / "small.db" / "ours", "Delta Lake": root / "small-delta"}
    small = rows_of(spark, rows).repartition(SMALL_FILES, F.rand(7))
    small.write.format("delta").save(str(places["Delta Lake"]))
    catalog = lw.CatalogFactory.create({"warehouse": str(root)})
    catalog.create_database("small")
    options = {"target-file-size": f"{COMPACTED_BYTES} b"}
    catalog.create_table("small.ours", lw.Schema(_fields(), options=options))
    lws.write_table(small, catalog.get_table("small.ours"), progress=False)
    works: dict[str, dict[str, Callable[[str], object]]] = {
        f"compact {SMALL_FILES:,} files": {
            "lakewright": lambda path: lws.compact(spark, path, full=True),
            "Delta Lake": lambda path: spark.sql(f"OPTIMIZE delta.`{path}`").collect(),
        },
        "z-order by k and i": {
            "lakewright": lambda path: lws.compact(spark, path, order_by=["k", "i"], strategy="zorder"),
            "Delta Lake": lambda path: spark.sql(f"OPTIMIZE delta.`{path}` ZORDER BY (k, i)").collect(),
        },
    }
    results: dict[str, dict[str, dict[str, Any]]] = {}
    for title, by_engine in works.items():
        taken: dict[str, list[tuple[float, float]]] = {name: [] for name in by_engine}
        for repeat in range(WARM_UPS + repeats):
            for name in by_engine if repeat % 2 else reversed(list(by_engine)):
                copy = root / "copy.db" / f"{name.split()[0]}-{repeat}"
                shutil.copytree(places[name], copy)
                seconds = timed(functools.partial(by_engine[name], str(copy)))
                if repeat >= WARM_UPS:
                    taken[name].append(seconds)
                _check_compacted(spark, name, copy, rows)
                shutil.rmtree(copy)
        results[title] = {
            name: {"seconds": statistics.median(wall for wall, _ in seen), "cpu": statistics.median(c for _, c in seen)}
            for name, seen in taken.items()
        }
        sys.stderr.write(f"{title}: {results[title]}\n")
    return results


def _check_compacted(spark: SparkSession, name: str, path: Path, rows: int) -> None:
    """End the run if a compaction lost rows or left the files as they were."""
    if name == "lakewright":
        splits = lw.open_table(str(path)).new_read_builder().new_scan().plan().splits()
        files, found = sum(len(split.files) for split in splits), sum(split.row_count for split in splits)
    else:
        frame = spark.read.format("delta").load(str(path))
        files, found = len(frame.inputFiles()), frame.count()
    if found != rows or files > SMALL_FILES // 5:
        raise SystemExit(f"{name} left {files} files with {found} rows of {rows}")


def _fields() -> list[lw.DataField]:
    types = [("k", "BIGINT"), ("s", "STRING"), ("d", "DOUBLE"), ("i", "INT"), ("dt", "DATE")]
    return [lw.DataField(at, name, lw.AtomicType(dtype)) for at, (name, dtype) in enumerate(types)]


def _answer(run: Callable[[str], DataFrame], text: str) -> object:
    return run(text).collect()


def _in_turn(works: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, dict[str, Any]]:
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in works}
    for repeat in range(WARM_UPS + repeats):
        for name in works if repeat % 2 else reversed(list(works)):
            seconds = timed(works[name])
            if repeat >= WARM_UPS:
                taken[name].append(seconds)
    return {
        name: {"seconds": statistics.median(wall for wall, _ in seen), "cpu": statistics.median(cpu for _, cpu in seen)}
        for name, seen in taken.items()
    }


@contextmanager
def session(root: Path, memory: str, *, peers: bool = True) -> Iterator[SparkSession]:
    """Run a local session on two cores, that knows the peers unless it is told not to."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    jars = [
        str(jar) for peer in ("delta", "iceberg") for jar in sorted((ROOT / "target" / peer / "jars").glob("*.jar"))
    ]
    extensions = ["io.delta.sql.DeltaSparkSessionExtension"]
    if (ROOT / "target" / "iceberg" / "jars").is_dir():
        extensions.append("org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions")
    known = {
        "spark.jars": ",".join(jars),
        "spark.sql.extensions": ",".join(extensions),
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.ice.type": "hadoop",
        "spark.sql.catalog.ice.warehouse": str(root / "iceberg"),
    }
    spark = lws.local_session(
        "bench",
        master="local[2]",
        memory=memory,
        config={
            **(known if peers else {}),
            "spark.sql.warehouse.dir": str(root / "delta"),
            "spark.local.dir": str(root / "scratch"),
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.shuffle.partitions": "8",  # for two cores
            "spark.databricks.delta.snapshotPartitions": "2",
        },
    )
    try:
        yield spark
    finally:
        spark.stop()


def markdown_changes(results: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> str:
    """Return seconds, and how many times as long as our SQL the others take."""
    names = list(next(iter(results.values())))
    lines = ["| work | " + " | ".join(names) + " |", "| --- " * (len(names) + 1) + "|"]
    for title, row in results.items():
        base = row[names[0]]["seconds"]
        cells = [f"{row[name]['seconds']:.2f} s ({row[name]['seconds'] / base:.2f})" for name in names]
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return "\n".join(lines) + f"\n\nIn brackets: of {names[0]}.\n"


def markdown_queries(results: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> str:
    """Return seconds and ratios of each query, and the geometric mean of the ratios."""
    lines = [
        "| query | parquet s | lakewright s | of parquet | of parquet, by cpu |",
        "| --- | --- | --- | --- | --- |",
    ]
    ratios = []
    for title, row in results.items():
        wall, cpu = (row["ours"][kind] / max(row["parquet"][kind], 0.01) for kind in ("seconds", "cpu"))
        ratios.append(wall)
        seconds = f"{row['parquet']['seconds']:.2f} | {row['ours']['seconds']:.2f}"
        lines.append(f"| {title} | {seconds} | {wall:.2f} | {cpu:.2f} |")
    mean = math.exp(statistics.fmean(map(math.log, ratios)))
    return "\n".join([*lines, f"| geometric mean | | | {mean:.2f} | |"]) + "\n"


def main() -> None:
    """Measure, print the tables and write them down."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--scale", type=float, default=1.0, help="1 is 5 million rows, and 6 million items in the queries"
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--memory", default="8g")
    parser.add_argument("--only", choices=("changes", "queries", "compaction"))
    parser.add_argument("--engines", default="sql,verbs,delta,vectors,iceberg", help="which engines make changes")
    parser.add_argument("--works", default="append,read,delete,update,merge", help="which changes are measured")
    parser.add_argument("--out", default=str(ROOT / "bench" / "results"))
    arguments = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="bench-spark-peers-"))
    parts: dict[str, Any] = {}
    try:
        with session(root, arguments.memory) as spark:
            catalog = lw.CatalogFactory.create({"warehouse": str(root / "warehouse")})
            catalog.create_database("d", ignore_if_exists=True)
            if arguments.only in {None, "compaction"}:
                rows = int(10_000_000 * arguments.scale)
                parts["compaction"] = compaction(spark, root / "compaction", rows, arguments.repeats)
            if arguments.only in {None, "changes"}:
                every: dict[str, Callable[[], Engine]] = {
                    "sql": lambda: OursBySql(lws.SQLContext(spark, catalog).sql),
                    "verbs": lambda: OursByVerbs(spark, catalog),
                    "delta": lambda: Delta(spark.sql),
                    "vectors": lambda: DeltaVectors(spark.sql),
                    "iceberg": lambda: Iceberg(spark.sql),
                }
                engines = [every[name]() for name in arguments.engines.split(",")]
                rows = int(5_000_000 * arguments.scale)
                race = Race(engines, arguments.repeats)
                parts["changes"] = race.results
                changes(spark, race, rows, arguments.works.split(","))
            if arguments.only in {None, "queries"}:
                parts["queries"] = queries(spark, catalog, arguments.scale, arguments.repeats)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    writers = {"changes": markdown_changes, "queries": markdown_queries, "compaction": markdown_changes}
    text = "\n".join(writers[name](results) for name, results in parts.items())
    facts = {
        "pyspark": pyspark.__version__,
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "scale": arguments.scale,
    }
    out = Path(arguments.out)
    out.mkdir(parents=True, exist_ok=True)
    (out / "spark-peers.json").write_text(json.dumps({"facts": facts, **parts}, indent=1))
    (out / "spark-peers.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
