"""The lock of a SQL catalog: one holder at a time, expired ones are replaced, waiting ends with an error that helps."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from lakewright.catalog.sql_catalog import LockSettings, SqlAuthority, SqlLock
from lakewright.catalog.sql_database import CatalogRows, database
from lakewright.catalog.sql_drivers import parse_address
from lakewright.errors import CommitContentionError, InvalidInputError
from support.sql_workers import hold_many_times
from support.warm_processes import LOADED

SETTINGS = LockSettings()
HELD = "SELECT lock_id, expire_time_seconds FROM paimon_distributed_locks"


class Time:
    """A clock that goes on when somebody sleeps, and what happens then."""

    def __init__(self) -> None:
        self.now = 0.0
        self.naps: list[float] = []
        self.then: Callable[[], None] = lambda: None

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.naps.append(seconds)
        self.then()


def lock_of(options: dict[str, str], times: Time | None = None, settings: LockSettings = SETTINGS) -> SqlLock:
    address = parse_address(options)
    CatalogRows(address, "jdbc").prepare(properties=False, lock_key_max=255)
    if times is not None:
        settings = replace(settings, sleep=times.sleep, clock=lambda: times.now)
    return SqlLock(address, "jdbc.d.t", settings)


def test_the_row_is_there_while_the_lock_is_held(sql: dict[str, str]) -> None:
    lock = lock_of(sql)
    with lock.held():
        assert database(lock.address).read(HELD) == [("jdbc.d.t", 480)]
    assert list(database(lock.address).read(HELD)) == []


def test_whoever_waits_gets_it_when_it_is_released(sql: dict[str, str]) -> None:
    times = Time()
    first, second = lock_of(sql), lock_of(sql, times)
    holding = first.held()
    holding.__enter__()

    def release_after_the_third_nap() -> None:
        if len(times.naps) == 3:
            holding.__exit__(None, None, None)

    times.then = release_after_the_third_nap
    with second.held():
        assert times.naps == [0.1, 0.2, 0.4]


def test_waiting_sleeps_longer_each_time_and_gives_up_with_a_remedy(sql: dict[str, str]) -> None:
    times = Time()
    waiting = lock_of(sql, times, LockSettings(2_000, 400))
    with lock_of(sql).held():
        with pytest.raises(CommitContentionError, match="delete the row") as caught, waiting.held():
            raise AssertionError
        assert list(database(waiting.address).read(HELD)) == [("jdbc.d.t", 480)]  # the other's is untouched
    assert caught.value.lock_id == "jdbc.d.t"
    assert times.naps[:4] == [0.1, 0.2, 0.4, 0.4]
    assert sum(times.naps) == pytest.approx(2.0)


def _age(lock: SqlLock, seconds: int) -> None:
    """Let the lock be older than it is."""
    sqlite = f"datetime('now', '-{seconds} seconds')"
    moment = sqlite if lock.address.dialect == "sqlite" else f"NOW() - INTERVAL '{seconds} seconds'"
    database(lock.address).write((f"UPDATE paimon_distributed_locks SET acquired_at = {moment}", ()))  # noqa: S608


def test_an_expired_lock_is_taken_over_and_the_slow_holder_does_not_delete_the_new_one(sql: dict[str, str]) -> None:
    times = Time()
    slow, second = lock_of(sql), lock_of(sql, times)
    slow._wait()
    _age(slow, 470)
    times.then = lambda: _age(slow, 490)
    with second.held():
        assert times.naps == [0.1]  # it had not expired at the first look
        _age(second, 5)
        slow._release(database(slow.address).read("SELECT CURRENT_TIMESTAMP")[0][0])  # another time than the row has
        assert list(database(second.address).read(HELD)) == [("jdbc.d.t", 480)]


def test_it_is_not_reentrant(sql: dict[str, str]) -> None:
    lock = lock_of(sql, Time(), LockSettings(100))
    with lock.held(), pytest.raises(CommitContentionError), lock.held():
        raise AssertionError
    with lock.held():
        pass


def test_a_lock_that_cannot_be_released_expires_and_hides_nothing(
    sql: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    lock = lock_of(sql)
    with lock.held():
        database(lock.address).write(("DROP TABLE paimon_distributed_locks", ()))
    assert "expires by itself" in caplog.text


def test_names_that_are_too_long(sqlite: dict[str, str]) -> None:
    with (
        pytest.raises(InvalidInputError, match="lock-key-max-length"),
        lock_of(sqlite, settings=LockSettings(key_max=5)).held(),
    ):
        raise AssertionError


def test_threads_never_hold_it_at_once(sql: dict[str, str]) -> None:
    lock, inside, most = lock_of(sql), [0], [0]

    def work() -> None:
        for _ in range(3):
            with lock.held():
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                inside[0] -= 1

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]


@pytest.mark.processes
def test_processes_never_hold_it_at_once(sql: dict[str, str], tmp_path: Path) -> None:
    lock = lock_of(sql)
    LOADED.run_together(hold_many_times, [(sql, str(tmp_path / "flag"), 8)] * 4)
    assert list(database(lock.address).read(HELD)) == []


def test_the_home_of_a_table_travels_and_locks_its_branch(sqlite: dict[str, str]) -> None:
    lock = lock_of(sqlite)
    rows = CatalogRows(parse_address({**sqlite, "jdbc.password": "s3cret"}), "key")
    home = SqlAuthority(rows, "d", "t", LockSettings())
    sent = pickle.loads(pickle.dumps(home))  # noqa: S301 - our own bytes
    assert sent == home
    assert "s3cret" not in repr(home)
    with sent.hold_lock(), sent.for_branch("dev").hold_lock():
        held = sorted(row[0] for row in database(lock.address).read(HELD))
    assert held == ["key.d.t", "key.d.t$branch_dev"]
    with replace(home, lock=None).hold_lock():
        assert list(database(lock.address).read(HELD)) == []
