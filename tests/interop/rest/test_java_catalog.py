"""The REST catalog on Java's servers: the contract of catalogs, and commits in races and after lost answers."""

from __future__ import annotations

from pathlib import Path

import pytest

import lakewright as lw
from contract.catalog_names import InDatabase, rows_of
from support.append_races import race_appends
from support.catalogs import MarkedCatalogContract
from support.java_rest import JavaRestServer
from support.rest_proofs import (
    AFTER_A_ROLLBACK,
    IMPATIENT,
    commit_of,
    lose_answers,
    lose_answers_in_a_race,
    roll_back_a_compaction,
)


@pytest.fixture
def catalog(server: JavaRestServer) -> lw.Catalog:
    return lw.CatalogFactory.create(server.options)


class TestJavaCatalog(MarkedCatalogContract):
    renames_branches = False  # 2.0.0 answers that it did, and does nothing
    renames_tags = False  # there is no such call


@pytest.mark.parametrize("kind", ["append", "keys"])
def test_a_hundred_commits_whose_answers_are_lost(server: JavaRestServer, catalog: lw.Catalog, kind: str) -> None:
    lose_answers(server, catalog, 100, kind)


def test_answers_that_are_lost_in_a_race(server: JavaRestServer, catalog: lw.Catalog) -> None:
    lose_answers_in_a_race(server, catalog, 4, 25)


def test_eight_processes_append_at_once(catalog: lw.Catalog, tmp_path: Path) -> None:
    race_appends(catalog, tmp_path, processes=8, appends=25)


@pytest.mark.parametrize("what", AFTER_A_ROLLBACK)
def test_a_compaction_that_others_roll_back(catalog: lw.Catalog, what: str) -> None:
    roll_back_a_compaction(catalog, AFTER_A_ROLLBACK[what])


def test_a_commit_makes_two_calls(server: JavaRestServer, catalog: lw.Catalog) -> None:
    table = InDatabase(catalog).create(**IMPATIENT)
    lw.write_table(rows_of(1), table)
    with table.new_batch_write_builder().new_write() as write:
        messages = write.write_arrow(rows_of(2)).prepare_commit()
    with server.counting() as requests:
        commit_of(table, messages)
    assert [request.rpartition("/")[2] for request in requests] == ["snapshot", "commit"]
