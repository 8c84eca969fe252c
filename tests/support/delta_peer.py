"""Delta Lake beside us in one Spark session: scripts in, and the rows of both after every statement.

A statement names our tables, `lake.t` and `lake.u`; Delta Lake gets it with the paths of its own in their place. A
table that we do not find by ourselves is therefore not found at all.
"""

from __future__ import annotations

import datetime as dt
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

import lakewright as lw
import lakewright.spark as lws
from lakewright.errors import LakewrightError
from support.dml_scripts import COLUMNS, VIEW, Kind, Statement
from support.jvm import SHORT_LIVED, home_without_archive

ROOT = Path(__file__).parents[2]
JARS = Path(os.environ.get("LAKEWRIGHT_DELTA", str(ROOT / "target" / "delta" / "jars")))
_OVERWRITE_MODE = "spark.sql.sources.partitionOverwriteMode"
_COUNTS = ("num_affected_rows", "num_updated_rows", "num_deleted_rows", "num_inserted_rows")
_NOT_COUNTED = -1
_LAKE = re.compile(r"\blake\.(\w+)")  # names of our tables

_ARROW = {
    "k": pa.int64(),
    "i": pa.int32(),
    "b": pa.int64(),
    "d": pa.decimal128(10, 2),
    "x": pa.float64(),
    "s": pa.string(),
    "f": pa.bool_(),
    "dt": pa.date32(),
    "ts": pa.timestamp("us", tz="UTC"),
    "st": pa.struct([("a", pa.int32()), ("b", pa.string())]),
    "arr": pa.list_(pa.int32()),
    "p": pa.string(),
}
# What a source may hold that the target does not have, and the reverse.
_VIEW_ROWS = """
    (1, 5, 50, 5.55, 0.5D, 'v1', true, DATE'2024-02-29', TIMESTAMP'2024-03-01 00:00:00', named_struct('a', 1, 'b', 'v'),
     array(7), 'x'),
    (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'y'),
    (4, 1, -1, 0.01, 0.1D, 'a', false, DATE'1969-12-31', NULL, named_struct('a', 2, 'b', 'é'), array(1, NULL), 'z'),
    (12, 2, 2, 1.25, 1.5D, '日本', true, NULL, TIMESTAMP'1969-12-31 23:59:59', NULL, array(1, 2), 'y'),
    (13, 0, 9007199254740993, -1.25, 0.0D, 'b', NULL, DATE'2026-11-16', NULL, named_struct('a', NULL, 'b', NULL),
     NULL, 'x')"""


class DifferenceError(AssertionError):
    """One statement whose effect is not the same."""


@contextmanager
def delta_session(folder: Path) -> Iterator[SparkSession]:
    """Run a session that knows Delta Lake, in UTC; the folder is for what Spark needs itself."""
    jars = sorted(JARS.glob("*.jar"))
    if not jars:
        raise FileNotFoundError(f"{JARS} holds no jars: run `make nightly PART=interop-delta`, which fetches them")
    environment = {
        "PYSPARK_PYTHON": sys.executable,
        "TZ": "UTC",
        "SPARK_HOME": str(home_without_archive(folder)),
        "PYTHONPATH": os.pathsep.join([str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")]),
    }
    with patch.dict(os.environ, environment):
        spark = lws.local_session(
            "delta",
            master="local[2]",
            memory="2g",
            config={
                "spark.jars": ",".join(map(str, jars)),
                "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
                "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
                "spark.driver.extraJavaOptions": f"{SHORT_LIVED} -Duser.timezone=UTC",
                "spark.sql.session.timeZone": "UTC",
                "spark.python.daemon.module": "support.warm_daemon",
                "spark.sql.shuffle.partitions": "2",
                "spark.databricks.delta.snapshotPartitions": "1",
                "spark.databricks.delta.stats.collect": "false",
                # Every statement is another one and has few rows: to compile it takes longer than to run it.
                "spark.sql.codegen.wholeStage": "false",
                "spark.sql.codegen.factoryMode": "NO_CODEGEN",
                "spark.sql.adaptive.enabled": "false",
            },
        )
        try:
            names = ", ".join(COLUMNS)
            typed = ", ".join(f"CAST({name} AS {dtype}) AS {name}" for name, dtype in COLUMNS.items())
            view = f"SELECT {typed} FROM VALUES {_VIEW_ROWS} AS q({names})"  # noqa: S608 - our own text
            spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW {VIEW} AS {view}")
            yield spark
        finally:
            spark.stop()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one statement did on one side."""

    counts: dict[str, int]
    error: str | None = None


class Templates:
    """Empty and filled tables, made once and copied for each script, because a copy of files takes no time."""

    def __init__(self, spark: SparkSession, folder: Path, fill: Sequence[Statement]) -> None:
        self.spark = spark
        self._folder = folder
        self._fill = fill

    def delta(self, *, partitioned: bool, filled: bool) -> Path:
        """Return a folder with the tables t and u of Delta Lake."""
        made = self._folder / f"delta-{partitioned}-{filled}"
        if made.exists():
            return made
        columns = ", ".join(f"{name} {dtype}{' NOT NULL' * (name == 'k')}" for name, dtype in COLUMNS.items())
        by = "PARTITIONED BY (p)" if partitioned else ""
        self.spark.sql(f"CREATE TABLE delta.`{made}/t` ({columns}) USING delta {by}")
        self.spark.sql(f"CREATE TABLE delta.`{made}/u` ({columns.replace(' NOT NULL', '')}) USING delta")
        if filled:
            self._run_fill(DeltaSide(self.spark, made))
        return made

    def ours(self, kind: Kind, *, filled: bool) -> Path:
        """Return a warehouse with the tables lake.t, of a kind, and lake.u."""
        made = self._folder / f"ours-{kind.name}-{filled}"
        if made.exists():
            return made
        catalog = lw.CatalogFactory.create({"warehouse": str(made)})
        catalog.create_database("lake", ignore_if_exists=False)
        solid = {"k", *kind.keys}
        for name, nullable, chosen in (("t", set(COLUMNS) - solid, kind), ("u", set(COLUMNS), Kind("source"))):
            fields = [pa.field(column, dtype, nullable=column in nullable) for column, dtype in _ARROW.items()]
            schema = lw.Schema.from_pyarrow_schema(
                pa.schema(fields),
                partition_keys=list(chosen.partitions),
                primary_keys=list(chosen.keys),
                options=dict(chosen.options),
            )
            catalog.create_table(f"lake.{name}", schema, ignore_if_exists=False)
        if filled:
            self._run_fill(OurSide(self.spark, made, kind))
        return made

    def _run_fill(self, side: DeltaSide | OurSide) -> None:
        for statement in self._fill:
            assert side.run(statement).error is None, side.run(statement).error


class DeltaSide:
    """The tables of Delta Lake, in a folder."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self._folder = folder

    def run(self, statement: Statement) -> Outcome:
        text = statement.text if statement.peer is None else statement.peer
        try:
            done = self._spark.sql(_LAKE.sub(rf"delta.`{self._folder}/\1`", text)).collect()
        except (PySparkException, Py4JJavaError) as error:  # errors of Delta Lake itself are not translated
            return Outcome({}, f"{type(error).__name__}: {error}")
        return Outcome({} if statement.peer else _counts(done))

    def rows(self) -> list[str]:
        return _sorted(self._spark.read.format("delta").load(f"{self._folder}/t").collect())


class OurSide:
    """Tables of one kind of ours, changed by SQL on Spark."""

    def __init__(self, spark: SparkSession, warehouse: Path, kind: Kind) -> None:
        self.name = f"lakewright, {kind.name}"
        self._catalog = lw.CatalogFactory.create({"warehouse": str(warehouse)})
        self._context = lws.SQLContext(spark, self._catalog)

    def run(self, statement: Statement) -> Outcome:
        try:
            done = self._context.sql(statement.text).collect()
        except (LakewrightError, PySparkException) as error:
            return Outcome({}, f"{type(error).__name__}: {error}")
        return Outcome(_counts(done))

    def rows(self) -> list[str]:
        return _sorted(self._context.sql("SELECT * FROM lake.t").collect())

    def embedded_rows(self) -> list[str]:
        """Return the rows as they are read without Spark."""
        rows = lw.read_table(self._catalog.get_table("lake.t")).to_pylist()
        return sorted(repr(_plain(row)) for row in rows)


@dataclass(frozen=True, slots=True)
class Script:
    """Statements, the kinds of table of ours that they change, and whether the tables hold the fixed rows before."""

    statements: Sequence[Statement]
    kinds: Sequence[Kind]
    filled: bool = False


def compare(templates: Templates, folder: Path, script: Script) -> None:
    """Run a script on both and compare after every statement; raise DifferenceError with the script so far."""
    spark, partitioned = templates.spark, any(kind.partitions for kind in script.kinds)
    home = _copied(templates.delta(partitioned=partitioned, filled=script.filled), folder / "delta")
    peer = DeltaSide(spark, home)
    ours = [
        OurSide(spark, _copied(templates.ours(kind, filled=script.filled), folder / kind.name), kind)
        for kind in script.kinds
    ]
    rows: list[str] = []
    for at, statement in enumerate(script.statements):
        spark.conf.set(_OVERWRITE_MODE, "dynamic" if statement.dynamic and statement.peer is None else "static")
        expected = peer.run(statement)
        rows = peer.rows()
        spark.conf.set(_OVERWRITE_MODE, "dynamic" if statement.dynamic else "static")
        for side in ours:
            fault = _fault(side, side.run(statement), expected, rows)
            if fault is not None:
                raise DifferenceError(_told(side.name, script.statements[: at + 1], fault))
    for side in ours:
        if (read := side.embedded_rows()) != rows:
            raise DifferenceError(_told(f"{side.name}, read embedded,", script.statements, _difference(rows, read)))


def _copied(template: Path, folder: Path) -> Path:
    shutil.copytree(template, folder)
    return folder


def shrunk(templates: Templates, folder: Path, script: Script) -> Script:
    """Return a shorter script that differs as well; every statement that is not needed for that is left out."""
    for at in reversed(range(len(script.statements))):
        fewer = replace(script, statements=[*script.statements[:at], *script.statements[at + 1 :]])
        try:
            compare(templates, folder / str(at), fewer)
        except DifferenceError:
            script = fewer
    return script


def _fault(side: OurSide, actual: Outcome, expected: Outcome, rows: list[str]) -> str | None:
    """Return how one statement differs, None where it does not."""
    if (actual.error is None) != (expected.error is None):
        return f"Delta Lake: {expected.error or 'no error'}\nours: {actual.error or 'no error'}"
    if (found := side.rows()) != rows:
        return _difference(rows, found)
    shared = [name for name in _COUNTS if expected.counts.get(name, _NOT_COUNTED) != _NOT_COUNTED and actual.counts]
    wrong = {name: (expected.counts[name], actual.counts.get(name)) for name in shared}
    wrong = {name: pair for name, pair in wrong.items() if pair[0] != pair[1]}
    return f"counts, of Delta Lake and ours: {wrong}" if wrong else None


def _difference(expected: list[str], found: list[str]) -> str:
    missing, extra = _without(expected, found), _without(found, expected)
    return "\n".join(["only in Delta Lake:", *missing, "only in ours:", *extra])


def _without(left: list[str], right: list[str]) -> list[str]:
    """Return the rows of one list that another lacks, each as often as it is missing."""
    rest = list(right)
    return [row for row in left if not (row in rest and (rest.remove(row) or True))]  # type: ignore[func-returns-value]


def _told(side: str, statements: Iterable[Statement], fault: str) -> str:
    script = ";\n".join("-- dynamic overwrite\n" * st.dynamic + st.text for st in statements)
    return f"{side} differs from Delta Lake after the last statement of this script:\n{script};\n\n{fault}"


def _counts(done: list[Row]) -> dict[str, int]:
    return {name: done[0][name] for name in done[0].asDict() if name in _COUNTS} if len(done) == 1 else {}


def _sorted(rows: list[Row]) -> list[str]:
    return sorted(repr(_plain(row.asDict(recursive=True))) for row in rows)


def _plain(row: dict[str, object]) -> tuple[object, ...]:
    """Return the values of a row in the order of the columns; times have no zone, as all of them are in UTC."""
    return tuple(
        value.replace(tzinfo=None) if isinstance(value := row[name], dt.datetime) else value for name in COLUMNS
    )
