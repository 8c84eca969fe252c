"""Commits on a REST server whose answers are lost or whose calls fail: published once, not published, or unknown.

The server is the stand-in; `make nightly PART=interop-rest` loses answers of Java's servers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

import lakewright as lw
from contract.catalog_names import InDatabase, ids_of, rows_of
from lakewright.catalog import rest_http
from lakewright.catalog.rest_authority import RestTable
from support.append_races import race_appends
from support.effort import each_once, examples, pairwise
from support.rest_proofs import (
    AFTER_A_ROLLBACK,
    IMPATIENT,
    assert_whole,
    commit_of,
    compaction_of,
    lose_answers,
    lose_answers_in_a_race,
    roll_back_a_compaction,
)
from support.rest_server import RestServer, running_rest

PATIENCE = rest_http.Patience(
    connect_seconds=60, read_seconds=60, pause_first=0.001, pause_max=0.01, retry_after_max=0.01, repeats_max=3
)
REQUESTS = {"snapshot": r"GET .*/tables/[^/]+/snapshot$", "commit": r"POST .*/commit$"}
# What becomes of a request: it is not carried out (before), or carried out and not answered (after).
WHEN = ("before", "after")
FAULTS = ("reset", "cut", "429", "500", "502", "503", "504", "hang", "half", "garbage")
FINAL = ("400", "401", "403", "404", "501")  # the server did nothing, and will not

SERVERS = ("2.0.0", "1.4.2")


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RestServer]:
    # On a busy machine any answer may take a while, so only who waits for one that never comes gives up soon.
    hangs = "hang" in request.node.callspec.params.values()
    patience = replace(PATIENCE, read_seconds=1) if hangs else PATIENCE

    def impatient(uri: str, headers: Mapping[str, str], auth: rest_http.Auth | None, _: object) -> rest_http.Server:
        return rest_http.server_at(uri, headers, auth, patience)

    monkeypatch.setattr("lakewright.catalog.rest_api.server_at", impatient)
    with running_rest(str(tmp_path / "data"), like=request.param) as started:
        yield started


@pytest.fixture
def db(server: RestServer) -> InDatabase:
    return InDatabase(lw.CatalogFactory.create(server.options))


def _table(db: InDatabase, kind: str = "append") -> lw.FileStoreTable:
    table = db.create(kind=kind, **IMPATIENT, **{"commit.max-retries": "3", "write-only": "true"})
    for number in (1, 2):
        lw.write_table(rows_of(number), table)
    return table


def _messages(table: lw.FileStoreTable, *ids: int) -> list[lw.CommitMessage]:
    with table.new_batch_write_builder().new_write() as write:
        return write.write_arrow(rows_of(*ids)).prepare_commit()


def _commit(table: lw.FileStoreTable, messages: list[lw.CommitMessage]) -> lw.LakewrightError | None:
    """Commit messages and return the error."""
    try:
        commit_of(table, messages)
    except lw.LakewrightError as error:
        return error
    return None


def _check(db: InDatabase, outcome: lw.LakewrightError | None) -> None:
    """Check that the table is whole and holds the rows of the third commit as its outcome says."""
    fresh = db.catalog.get_table(db("t"))
    held = ids_of(fresh)
    if outcome is None:
        assert held == [1, 2, 3]
    elif isinstance(outcome, lw.CommitUnknownError):
        assert held in ([1, 2], [1, 2, 3])
    else:
        assert held == [1, 2]
    assert_whole(fresh)


@pytest.mark.parametrize(
    ("server", "request_name", "when", "how", "often"),
    pairwise(SERVERS, list(REQUESTS), WHEN, FAULTS, (1, 50)),
    indirect=["server"],
)
def test_a_fault_at_each_request_of_a_commit(
    server: RestServer, db: InDatabase, request_name: str, when: str, how: str, often: int
) -> None:
    table = _table(db)
    messages = _messages(table, 3)
    lever = server.fail if when == "before" else server.lose
    lever(often, how, REQUESTS[request_name])
    server.retry_after("1" if how == "503" else None)
    outcome = _commit(table, messages)
    assert server.faults_left() < often
    server.calm()
    _check(db, outcome)
    if often == 1 and request_name == "snapshot" and how not in ("500", "hang", "garbage"):
        assert outcome is None  # a look that fails once is repeated
    if when == "after" and request_name == "commit" and often == 1:
        assert outcome is None  # it happened, and is found
    if outcome is not None and request_name == "snapshot":
        assert not isinstance(outcome, lw.CommitUnknownError)  # nothing had been sent
    # The same messages, committed again, are there once.
    assert _commit(table, messages) is None
    _check(db, None)
    lw.write_table(rows_of(4), table)
    assert ids_of(db.catalog.get_table(db("t"))) == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("server", "retries", "seconds"), pairwise(SERVERS, ("0", "10"), (0.0, 0.02, 0.1)), indirect=["server"]
)
def test_a_commit_that_is_carried_out_late_is_found_or_unknown(
    server: RestServer, db: InDatabase, retries: str, seconds: float
) -> None:
    """The connection is cut first. Whoever gives up meanwhile does not know; no file of the late snapshot is gone."""
    table = _table(db).copy({"commit.max-retries": retries})
    messages = _messages(table, 3)
    server.fail(1, f"late {seconds}", REQUESTS["commit"])
    outcome = _commit(table, messages)
    assert outcome is None or (retries == "0" and isinstance(outcome, lw.CommitUnknownError))
    deadline = time.monotonic() + 10
    while not any(entry.note == "late" for entry in server.log) and time.monotonic() < deadline:
        time.sleep(0.01)
    fresh = db.catalog.get_table(db("t"))
    assert ids_of(fresh) == [1, 2, 3]
    assert_whole(fresh)
    assert _commit(table, messages) is None
    _check(db, None)
    lw.write_table(rows_of(4), table)
    assert_whole(fresh, tidy=True)


def test_a_commit_that_a_proxy_sends_twice(server: RestServer, db: InDatabase) -> None:
    """The server says to the second request that it did not succeed: the first one did."""
    table = _table(db)
    server.lose(1, "again")
    assert lw.write_table(rows_of(3), table).snapshot_id == 3
    assert server.log[-2].answer == {"success": False}
    _check(db, None)
    assert_whole(db.catalog.get_table(db("t")), tidy=True)


@pytest.mark.parametrize(
    ("server", "then", "verb", "removes_files"),
    pairwise(SERVERS, ("nothing", "a write", "two writes"), ("append", "compact"), (False, True)),
    indirect=["server"],
)
def test_a_commit_whose_answer_is_lost_and_that_others_roll_back(
    server: RestServer, db: InDatabase, then: str, verb: str, removes_files: bool
) -> None:
    """Where the rollback removes the files of our snapshot too, a second attempt must not name them."""
    server.tables.rollback_removes_files = removes_files
    table, other = _table(db, "keys"), db.catalog.get_table(db("t"))

    def roll_back() -> None:
        other.rollback_to(2, from_snapshot=3)
        for number in range({"nothing": 0, "a write": 1, "two writes": 2}[then]):
            lw.write_table(rows_of(10 + number), other)

    others = {"nothing": [], "a write": [10], "two writes": [10, 11]}[then]
    messages = _messages(table, 3) if verb == "append" else compaction_of(table)
    server.lose(1, "500")
    server.meanwhile(roll_back)
    outcome = _commit(table, messages)
    fresh = db.catalog.get_table(db("t"))
    assert_whole(fresh)
    ours = [3] if verb == "append" and outcome is None else []
    assert ids_of(fresh) == [1, 2, *ours, *others]


@pytest.mark.parametrize(("server", "answers", "seconds"), pairwise(SERVERS, (0, 1), (0.05, 30)), indirect=["server"])
def test_a_commit_that_was_never_sent_is_not_unknown(
    server: RestServer, db: InDatabase, answers: int, seconds: float
) -> None:
    table = _table(db)
    messages = _messages(table, 3)
    server.refuse_after(answers, seconds)
    outcome = _commit(table, messages)
    assert not isinstance(outcome, lw.CommitUnknownError)  # what was never sent did not happen
    server.listen()
    _check(db, outcome)
    assert _commit(table, messages) is None
    _check(db, None)


@pytest.mark.parametrize(("server", "code"), each_once(SERVERS, FINAL), indirect=["server"])
def test_a_commit_that_the_server_refuses_for_good(server: RestServer, db: InDatabase, code: str) -> None:
    table = _table(db)
    messages = _messages(table, 3)
    server.fail(50, code, REQUESTS["commit"])
    with server.counting() as requests:
        outcome = _commit(table, messages)
    assert outcome is not None
    assert not isinstance(outcome, lw.CommitUnknownError)
    assert sum(request.endswith("/commit") for request in requests) == 1  # it is not tried again
    server.calm()
    _check(db, outcome)


@pytest.mark.parametrize(
    ("server", "code", "when"),
    pairwise(SERVERS, ("302", "402", "405", "409", "410", "413", "422", "423", "499"), WHEN),
    indirect=["server"],
)
def test_an_answer_that_does_not_rule_a_commit_out_is_looked_into(
    server: RestServer, db: InDatabase, code: str, when: str
) -> None:
    """A gateway may send a commit twice: the second one is refused because the first one was carried out."""
    table = _table(db)
    messages = _messages(table, 3)
    lever = server.fail if when == "before" else server.lose
    lever(1, code, REQUESTS["commit"])
    with server.counting() as requests:
        assert commit_of(table, messages) == 3
    after = next(i for i, request in enumerate(requests) if request.endswith("/commit")) + 1
    assert "/snapshots/" in requests[after]
    _check(db, None)


def test_a_refusal_under_the_status_of_a_gateway_is_looked_into(server: RestServer, db: InDatabase) -> None:
    table = _table(db)
    messages = _messages(table, 3)
    server.lose(1, "502 404", REQUESTS["commit"])
    assert commit_of(table, messages) == 3
    _check(db, None)


def test_an_error_in_the_middle_of_publishing_deletes_nothing(db: InDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever goes wrong once the request may have been sent, the snapshot may be there."""
    table, commit = _table(db), RestTable.commit

    def broken(*given: object) -> object:
        commit(*given)  # type: ignore[arg-type]
        raise RuntimeError("a library broke while it read the answer")

    messages = _messages(table, 3)
    with monkeypatch.context() as patch:
        patch.setattr(RestTable, "commit", broken)
        assert isinstance(_commit(table, messages), lw.CommitUnknownError)
    _check(db, None)
    assert _commit(table, messages) is None
    _check(db, None)


@pytest.mark.parametrize(
    ("server", "verb", "how", "when"),
    pairwise(SERVERS, ("overwrite", "compact", "delete"), ("500", "cut", "hang"), WHEN),
    indirect=["server"],
)
def test_a_fault_at_an_overwrite_compaction_or_delete_loses_and_doubles_nothing(
    server: RestServer, db: InDatabase, verb: str, how: str, when: str
) -> None:
    table = _table(db, "keys")
    verbs: dict[str, Callable[[], object]] = {
        "overwrite": lambda: lw.write_table(rows_of(7), table, mode="overwrite"),
        "compact": lambda: table.compact(full=True),
        "delete": lambda: table.delete("id = 1"),
    }
    expected = {"overwrite": [7], "compact": [1, 2], "delete": [2]}[verb]
    lever = server.fail if when == "before" else server.lose
    lever(1, how, REQUESTS["commit"])
    verbs[verb]()
    fresh = db.catalog.get_table(db("t"))
    assert ids_of(fresh) == expected
    assert_whole(fresh)
    assert len(fresh.store.snapshots.ids()) == 3


def test_random_lost_answers_leave_every_commit_there_once(server: RestServer, db: InDatabase) -> None:
    lose_answers(server, db.catalog, examples(40))


def test_random_lost_answers_leave_every_commit_of_a_keyed_table_there_once(server: RestServer, db: InDatabase) -> None:
    lose_answers(server, db.catalog, examples(40), "keys")


def test_lost_answers_in_a_race_leave_every_commit_there_once(server: RestServer, db: InDatabase) -> None:
    lose_answers_in_a_race(server, db.catalog, 3, examples(25))


@pytest.mark.processes
@pytest.mark.parametrize("server", ["2.0.0"], indirect=True)
@pytest.mark.usefixtures("server")
def test_processes_that_append_at_once_lose_nothing(db: InDatabase, tmp_path: Path) -> None:
    race_appends(db.catalog, tmp_path)


@pytest.mark.parametrize(
    ("server", "what", "removes_files"), pairwise(SERVERS, list(AFTER_A_ROLLBACK), (False, True)), indirect=["server"]
)
def test_a_compaction_that_others_roll_back(server: RestServer, db: InDatabase, what: str, removes_files: bool) -> None:
    server.tables.rollback_removes_files = removes_files
    roll_back_a_compaction(db.catalog, AFTER_A_ROLLBACK[what])


@pytest.mark.parametrize(
    ("server", "kind"), each_once(SERVERS, ("append", "append, partitions", "keys")), indirect=["server"]
)
def test_a_commit_makes_two_calls(server: RestServer, db: InDatabase, kind: str) -> None:
    table = _table(db, kind)
    messages = _messages(table, 3)
    with server.counting() as requests:
        commit_of(table, messages)
    start = "/v1/paimon/databases/D/tables/T"
    assert requests == [f"GET {start}/snapshot", f"POST {start}/commit"]
