"""Statements of the corpus in this process: all of them parse; a part of them runs, with the rows that Java answered.

The interop tests run the whole corpus on both engines. Here the part is drawn by a seed, and every fixture is made once
and copied as files for each statement that changes it.
"""

from __future__ import annotations

import random
import re
import shutil
from pathlib import Path

import pytest

from lakewright.errors import LakewrightError, UnsupportedError
from lakewright.statements.parser import parse_statement
from lakewright.statements.statements import Native
from support.effort import is_thin
from support.sql_corpus.cases import FAMILIES, OTHERWISE, Case, corpus, fixture, recorded
from support.sql_corpus.compared import expectation, verdict
from support.sql_corpus.ours import EmbeddedSession, write_files
from support.sql_corpus.running import Places, answers

SEED = 17
ONE_IN = 8 if is_thin() else 3  # the whole runs with Java
SPARKS = {  # statements that are left to the engine, which is Spark, or refuses them
    *("drop_temp_view", "drop_view", "syntax_error"),
    *("drop_function_from_catalog", "describe_function"),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Places:
    root = tmp_path_factory.mktemp("corpus")
    write_files(root / "files")
    return Places(root / "warehouse", root / "files", root / "out")


@pytest.mark.filterwarnings("ignore:.*the filesystem catalog stores no properties")
@pytest.mark.parametrize("family", FAMILIES)
def test_a_part_of_the_statements_answers_as_java_does(family: str, made: Places) -> None:
    cases = corpus(family)
    chosen = random.Random(SEED).sample(cases, -(-len(cases) // ONE_IN))
    session = EmbeddedSession(made.warehouse)
    java, different = recorded(), {}
    databases = {_database(session, made.warehouse, case) for case in chosen}
    for case, answer in answers(chosen, made, lambda: EmbeddedSession(made.warehouse), databases):
        what, why = verdict(case, expectation(case, java, made), answer)
        if what == "differs":
            different[case.name] = why
    names = {case.name for case in chosen}
    assert different.keys() == {name for name in OTHERWISE if name in names}, different


def _database(session: EmbeddedSession, warehouse: Path, case: Case) -> str:
    """Make the database that a case starts from, and return its name."""
    origin = warehouse / f"s_{case.fixture}.db"
    if not origin.exists():
        for text in (f"CREATE DATABASE s_{case.fixture}", f"USE s_{case.fixture}", *fixture(case.fixture)):
            session.sql(text)
    if not case.shared:
        shutil.copytree(origin, warehouse / f"{case.database}.db")
    return case.database


def test_all_statements_parse_or_are_refused_by_name() -> None:
    left, wrong = set(), {}
    for case in corpus():
        text = re.sub(r"\{\w+( [^}]*)?\}", "17", case.statement.replace("{db}", "some"))
        try:
            if isinstance(parse_statement(text), Native):
                left.add(case.name)
        except UnsupportedError:
            continue
        except LakewrightError as error:
            if not case.error:
                wrong[case.name] = str(error)
    assert wrong == {}
    assert left == SPARKS
