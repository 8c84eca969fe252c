"""The corpus on Java's connector 0.9.0 and on ours, embedded and on Spark: answers compared, tables read by both."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import lakewright
from support.sql_corpus.cases import FAMILIES, OTHERWISE, Case, corpus, recorded
from support.sql_corpus.compared import Verdict, counts, expectation, verdict
from support.sql_corpus.ours import EmbeddedSession, SparkCorpusSession, arrow_rows, write_files
from support.sql_corpus.running import Answer, Places, answers

ROOT = Path(__file__).parents[3]
JAR = ROOT / "target/java/paimon-spark-3.5-0.9.0.jar"
PYTHON = ROOT / ".venvs/java-sql/bin/python"
# The families to run: all, or those named in the environment.
CHOSEN = os.environ.get("FAMILIES", " ".join(FAMILIES)).split()

_PADDED = {"c_insert_types.t"}  # Java fills a CHAR with blanks when it reads it
_ON_SPARK = {"copy_csv_bad_rows"}
# The filesystem catalog warns that it stores no properties of databases.
pytestmark = pytest.mark.filterwarnings("ignore:.*the filesystem catalog stores no properties")

Verdicts = dict[str, dict[str, tuple[Verdict, str]]]


def java_side(*words: object) -> None:
    program = Path(__file__).with_name("java_side.py")
    subprocess.run(
        [str(PYTHON), str(program), str(JAR), *map(str, words)],
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "tests"), "TZ": "UTC"},
        stderr=subprocess.DEVNULL,
    )


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    write_files(folder / "files")
    return folder


@pytest.fixture(scope="session")
def java(root: Path) -> dict[str, Answer]:
    """Return Java's answers; they also stay in target/java-sql, for `python -m support.sql_corpus.record`."""
    kept = ROOT / "target" / "java-sql" / "answers.json"
    kept.parent.mkdir(parents=True, exist_ok=True)
    java_side("run", root / "java", root / "files", root / "out-java", kept, *CHOSEN)
    found: dict[str, Answer] = json.loads(kept.read_text())
    return found


@pytest.fixture(scope="session")
def verdicts() -> Iterator[Verdicts]:
    found: Verdicts = {}
    yield found
    if not found:
        return
    engines = sorted({engine for by_engine in found.values() for engine in by_engine})
    rows = [
        (case, not case.java, {engine: what for engine, (what, _) in found[case.name].items()})
        for case in corpus(*CHOSEN)
    ]
    print("\n\n" + counts(rows, engines))


def judge(
    engine: str, ours: Iterator[tuple[Case, Answer]], java: dict[str, Answer], places: Places, all_: Verdicts
) -> None:
    wrong = set()
    for case, answer in ours:
        what, why = verdict(case, expectation(case, java, places), answer)
        all_.setdefault(case.name, {})[engine] = what, why
        if what != "equal":
            print(f"{engine}: {case.family}/{case.name} {what}: {why}")
        if what == "differs":
            wrong.add(case.name)
    names = {case.name for case in corpus(*CHOSEN)}
    # A row of a file that Spark cannot read is Spark's own error.
    known = {name for name in {*OTHERWISE, *(_ON_SPARK if engine == "spark" else ())} if name in names}
    assert wrong == known


def test_java_answers_as_it_did_when_the_corpus_was_recorded(java: dict[str, Answer]) -> None:
    stored = recorded()
    changed = [
        case.name
        for case in corpus(*CHOSEN)
        if not case.java
        and verdict(case, {"error": "refused"} if case.error else stored[case.name], _as_ours(java[case.name]))[0]
        != "equal"
    ]
    assert changed == []


def test_embedded_answers_what_java_answers(root: Path, java: dict[str, Answer], verdicts: Verdicts) -> None:
    places = Places(root / "embedded", root / "files", root / "out-embedded")
    ours = answers(corpus(*CHOSEN), places, lambda: EmbeddedSession(places.warehouse))
    judge("embedded", ours, java, places, verdicts)


def test_spark_answers_what_java_answers(
    root: Path, java: dict[str, Answer], verdicts: Verdicts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    places = Places(root / "spark", root / "files", root / "out-spark")
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.memory", "1g")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.ansi.enabled", "false")  # as it is in Spark 3.5
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    try:
        ours = answers(corpus(*CHOSEN), places, lambda: SparkCorpusSession(spark, places.warehouse))
        judge("spark", ours, java, places, verdicts)
    finally:
        spark.stop()


@pytest.mark.parametrize("engine", ["embedded", "spark"])
def test_java_reads_the_tables_that_ours_made(engine: str, root: Path) -> None:
    warehouse = root / engine
    if not warehouse.exists():
        pytest.skip(f"no tables were made {engine}")
    java_side("read", warehouse, root / f"read-{engine}.json")
    by_java: dict[str, Any] = json.loads((root / f"read-{engine}.json").read_text())
    catalog = lakewright.CatalogFactory.create({"warehouse": str(warehouse)})
    different, refused, equal = [], [], 0
    for name, rows in by_java.items():
        if isinstance(rows, str):
            refused.append(f"{name}: {rows.splitlines()[0][:160]}")
            continue
        ours = arrow_rows(lakewright.read_table(catalog.get_table(name)))
        if sorted(map(json.dumps, rows)) != sorted(map(json.dumps, ours)) and name not in _PADDED:
            different.append(f"{name}: Java {rows}, ours {ours}")
        else:
            equal += 1
    print(f"\nTables that ours made {engine}, as Java reads them: {equal} equal, {len(refused)} not read by 0.9.0")
    print("\n".join(refused))
    assert different == []


def _as_ours(answer: Answer) -> Answer:
    return {**answer, "typed": True} if "error" in answer else answer
