"""Ctrl-C in `lakewright sql`: whenever it is pressed, statements stop, clean up once, and the command ends with 130."""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path

import pyarrow as pa
import pytest

import lakewright as lw
from lakewright.cli import interrupts
from lakewright.cli.interrupts import StillRunning, interrupts_noted, run_interruptibly, was_interrupted
from lakewright.cli.main import main
from support.effort import examples
from support.warm_processes import BARE, LOADED, Ended

SEED = 20261118
INSERT = "INSERT INTO d.t SELECT a.id FROM range(1000000) a JOIN range(1000000) b ON a.id + b.id > 7"
ENDLESS = "SELECT count(*) FROM range(1000000) a JOIN range(1000000) b ON a.id + b.id < 7"


def _nothing(*_: object) -> None:
    """Handle a signal that is too late."""


@pytest.fixture(autouse=True)
def _late_presses_do_nothing() -> Iterator[None]:
    """Keep Ctrl-C from pytest, where a test presses it just after the code that handles it."""
    before = signal.signal(signal.SIGINT, _nothing)
    interrupts.forget_interrupts()
    yield
    signal.signal(signal.SIGINT, before)
    interrupts.forget_interrupts()


@pytest.fixture
def ctrl_c_raises() -> None:
    """Handle SIGINT as in a terminal; a shell that starts pytest in the background has it ignore the signal."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def pressing(*moments: float) -> Iterator[None]:
    """Press Ctrl-C so many seconds after it is handled, until the block is left."""
    ended = threading.Event()

    def press() -> None:
        while signal.getsignal(signal.SIGINT) is _nothing and not ended.wait(0.001):
            pass
        started = time.monotonic()
        for moment in moments:
            if ended.wait(max(0.0, started + moment - time.monotonic())):
                return
            os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=press)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def endless() -> None:
    """Run Python code until something is raised in it."""
    while True:
        time.sleep(0.001)


class Engine:
    """Holds the thread of a query as DuckDB does, and drops the first interrupts."""

    def __init__(self, dropped: int = 0) -> None:
        self.dropped = dropped
        self.asked = 0
        self._held = threading.Semaphore(0)

    def interrupt(self) -> None:
        """End the query, if enough interrupts have been dropped."""
        self.asked += 1
        if self.asked > self.dropped:
            self._held.release()

    def query(self) -> None:
        """Raise an error once the query is interrupted."""
        assert self._held.acquire(timeout=60)
        raise ValueError


# ---- work in a thread ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dropped", [0, 1, 8])
def test_an_engine_is_interrupted_until_its_query_ends(dropped: int) -> None:
    engine = Engine(dropped)
    with pressing(0.02), pytest.raises(KeyboardInterrupt):
        run_interruptibly(engine.interrupt, engine.query)
    assert engine.asked > dropped


def test_an_engine_that_fails_to_interrupt_is_asked_again() -> None:
    engine = Engine()

    def interrupt() -> None:
        engine.interrupt()
        raise RuntimeError

    engine.dropped = 2
    with pressing(0.02), pytest.raises(KeyboardInterrupt):
        run_interruptibly(interrupt, engine.query)


def test_an_engine_whose_interrupt_never_returns_does_not_stop_the_rest() -> None:
    released = threading.Event()

    def interrupt() -> None:
        released.wait(60)

    try:
        with pressing(0.02), pytest.raises(KeyboardInterrupt):
            run_interruptibly(interrupt, endless)
    finally:
        released.set()


@pytest.mark.parametrize("dropped", [0, 2])
def test_python_code_is_interrupted_until_it_ends(dropped: int) -> None:
    seen = list[int]()

    def work() -> None:
        for _ in range(dropped):
            with suppress(KeyboardInterrupt):
                endless()
            seen.append(1)
        endless()

    with pressing(0.02), pytest.raises(KeyboardInterrupt):
        run_interruptibly(lambda: None, work)
    assert len(seen) == dropped


@pytest.mark.parametrize("kind", ["engine", "python"])
def test_cleaning_up_is_not_interrupted(kind: str) -> None:
    engine, steps = Engine(), list[int]()

    def work() -> None:
        try:
            if kind == "engine":
                engine.query()
            endless()
        finally:
            for step in range(400):
                steps.append(step)
                time.sleep(0.001)

    with pressing(0.02, *(0.1 + n / 50 for n in range(50))), pytest.raises(KeyboardInterrupt):
        run_interruptibly(engine.interrupt, work)
    assert steps == list(range(400))


def _profile_after_an_interrupt() -> None:
    engine = Engine(8)  # holds its thread until exceptions for it were withdrawn
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with pressing(0.02), suppress(KeyboardInterrupt):
        run_interruptibly(engine.interrupt, engine.query)
    sys.setprofile(_nothing)
    _nothing()
    sys.setprofile(None)


@pytest.mark.processes
def test_a_profiler_works_after_an_interrupt() -> None:
    assert LOADED.run(_profile_after_an_interrupt) == Ended(0, "", "")


def test_pressing_again_and_again_breaks_nothing() -> None:
    engine = Engine(6)
    with pressing(*(n / 500 for n in range(500))), pytest.raises(KeyboardInterrupt):
        run_interruptibly(engine.interrupt, engine.query)


@pytest.mark.long
def test_an_interrupt_near_the_end_of_the_work_is_raised_in_the_work_or_not_at_all() -> None:
    """What is raised in the code of `threading` around the work would be an error of pytest here."""
    rng = random.Random(SEED)
    for _ in range(examples(200)):
        length, done = rng.uniform(0, 0.01), list[bool]()

        def work(length: float = length, done: list[bool] = done) -> None:
            end = time.monotonic() + length
            while time.monotonic() < end:
                pass
            done.append(True)

        with pressing(length + rng.uniform(-0.003, 0.003)):
            try:
                run_interruptibly(lambda: None, work)
            except KeyboardInterrupt:
                continue
            assert done


def test_work_that_was_done_before_the_interrupt_is_done() -> None:
    done = list[bool]()

    def work() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        done.append(True)

    run_interruptibly(lambda: None, work)
    assert done
    with pytest.raises(ZeroDivisionError):
        run_interruptibly(lambda: None, lambda: print(1 // 0))


def test_a_statement_that_does_not_stop_is_left_with_a_message(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(interrupts, "GIVE_UP_SECONDS", 0.3)
    held, threads = threading.Semaphore(0), list[threading.Thread]()

    def work() -> None:
        threads.append(threading.current_thread())
        held.acquire()

    with pressing(0.02), pytest.raises(StillRunning):
        run_interruptibly(lambda: None, work)
    assert capsys.readouterr().err.startswith("lakewright: the statement did not stop within 0.3 s; ")
    assert threads[0].daemon
    held.release()
    threads[0].join()


def test_the_signal_to_end_stops_the_work_too() -> None:
    cleaned = list[bool]()

    def end(*_: object) -> None:
        raise SystemExit(143)

    def work() -> None:
        try:
            time.sleep(0.1)  # by then the other thread waits
            os.kill(os.getpid(), signal.SIGTERM)
            endless()
        finally:
            cleaned.append(True)

    before = signal.signal(signal.SIGTERM, end)
    try:
        with pytest.raises(SystemExit):
            run_interruptibly(lambda: None, work)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert cleaned


# ---- the main thread -------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("ctrl_c_raises")
def test_an_interrupt_that_was_swallowed_before_stops_the_statements_before_they_begin() -> None:
    begun = list[bool]()
    with interrupts_noted():
        with suppress(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1)
        assert was_interrupted()
        with pytest.raises(KeyboardInterrupt):
            run_interruptibly(lambda: None, lambda: begun.append(True))
    assert not begun


@pytest.mark.usefixtures("ctrl_c_raises")
def test_an_import_error_in_place_of_an_interrupt_is_reported_as_an_interrupt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object) -> None:
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1)
        except KeyboardInterrupt:
            raise ImportError("numpy failed to import") from None

    monkeypatch.setattr("lakewright.statements.embedded.embedded_context.SQLContext", broken)
    assert main(["sql", "-w", str(tmp_path), "SELECT 1"]) == 130
    assert capsys.readouterr().err == "lakewright: interrupted\n"


def test_signals_that_are_ignored_stay_ignored() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with interrupts_noted():
        os.kill(os.getpid(), signal.SIGINT)
        run_interruptibly(lambda: None, lambda: os.kill(os.getpid(), signal.SIGINT))
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


# ---- queries in this process -----------------------------------------------------------------------------------------


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path / "w")})
    catalog.create_database("d")
    catalog.create_table("d.t", pa.schema({"id": pa.int64()}))
    return tmp_path / "w"


def _moments(full: int, latest: float) -> list[float]:
    """Return moments of all parts of the time, in small random steps."""
    rng, count = random.Random(SEED), examples(full)
    return [latest * (number + rng.random()) / count for number in range(count)]


@contextmanager
def busy_thread() -> Iterator[None]:
    """Keep the interpreter busy in another thread until the block is left."""
    ended = threading.Event()

    def work() -> None:
        while not ended.is_set():
            pass

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@pytest.mark.parametrize("is_busy", [False, True])
def test_ctrl_c_at_any_moment_stops_a_query(
    warehouse: Path, is_busy: bool, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the engine begins, between its calls, and while it works."""
    spill = warehouse.parent / "spill"
    spill.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(spill))
    for moment in _moments(50, 0.4):
        with busy_thread() if is_busy else nullcontext(), pressing(moment):
            assert main(["sql", "-w", str(warehouse), ENDLESS]) == 130
        assert capfd.readouterr() == ("", "lakewright: interrupted\n")
        assert not list(spill.iterdir())


def test_ctrl_c_near_the_end_of_a_query_shows_its_rows_or_says_interrupted(
    warehouse: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for moment in _moments(100, 0.05):
        with pressing(moment):
            code = main(["sql", "-w", str(warehouse), "SELECT 1 AS one"])
        assert (code, *capfd.readouterr()) in [(0, "one\n  1\n", ""), (130, "", "lakewright: interrupted\n")]


def test_ctrl_c_while_rows_are_inserted_removes_their_files(warehouse: Path) -> None:
    def press() -> None:
        while not list(warehouse.rglob("*.parquet")) and not ended.wait(0.01):
            pass
        os.kill(os.getpid(), signal.SIGINT)

    ended, thread = threading.Event(), threading.Thread(target=press)
    thread.start()
    try:
        assert main(["sql", "-w", str(warehouse), INSERT]) == 130
    finally:
        ended.set()
        thread.join()
    assert not list(warehouse.rglob("*.parquet"))
    assert lw.open_table(str(warehouse / "d.db" / "t")).store.snapshots.ids() == []


# ---- processes -------------------------------------------------------------------------------------------------------


# The process is that of the command from here on; Python itself answers an interrupt before with a traceback.
COMMAND = """
import os, sys, threading
try:
    from lakewright.cli.main import main
    def busy():
        while True: pass
    if os.environ.get("BUSY"):
        threading.Thread(target=busy, daemon=True).start()
    open(os.environ["READY"], "w").close()
    main()
except KeyboardInterrupt:
    os.write(2, b"lakewright: interrupted\\n")
    os._exit(130)
"""


def _pressed_at(moments: list[float], statement: str, warehouse: Path) -> list[Ended]:
    """Run the command once for each moment, all at the same time; press Ctrl-C in each that long after its start."""
    with ExitStack() as stack:
        runs, due = [], [float("inf")] * len(moments)
        for number in range(len(moments)):
            (warehouse.parent / f"ready-{number}").unlink(missing_ok=True)
            (warehouse.parent / f"spill-{number}").mkdir(exist_ok=True)
            variables = {
                "TMPDIR": str(warehouse.parent / f"spill-{number}"),
                "READY": str(warehouse.parent / f"ready-{number}"),
                "BUSY": "1" if number % 3 == 0 else "",
            }
            words = ("sql", "-w", str(warehouse), statement)
            runs.append(stack.enter_context(BARE.running(COMMAND, *words, environment=variables)))
        waiting = set(range(len(moments)))
        while waiting:
            for number in tuple(waiting):
                if due[number] == float("inf") and (warehouse.parent / f"ready-{number}").exists():
                    due[number] = time.monotonic() + moments[number]
                if due[number] < time.monotonic() or not runs[number].is_running():
                    waiting.remove(number)
                    runs[number].signal(signal.SIGINT)
            time.sleep(0.001)
        ended = [run.wait() for run in runs]
    assert not list(warehouse.parent.glob("spill-*/*"))
    return ended


@pytest.mark.processes
def test_ctrl_c_while_modules_are_imported_ends_the_command(warehouse: Path) -> None:
    """The processes have numpy and Arrow, and import the rest; five run at a time, some of them busy."""
    moments = _moments(40, 2.0)
    random.Random(SEED).shuffle(moments)
    for start in range(0, len(moments), 5):
        for ended in _pressed_at(moments[start : start + 5], ENDLESS, warehouse):
            assert (ended.code, ended.out) == (130, ""), ended.err
            assert ended.err.endswith("lakewright: interrupted\n")


@pytest.mark.processes
def test_a_query_that_does_not_stop_does_not_keep_the_process(warehouse: Path) -> None:
    held = """
import os, signal, threading
from lakewright.cli import interrupts
from lakewright.cli.main import main
from lakewright.statements.embedded.embedded_context import SQLContext
interrupts.GIVE_UP_SECONDS = 0.3
def query(*_):
    os.kill(os.getpid(), signal.SIGINT)
    threading.Semaphore(0).acquire()
SQLContext.query = query
main()
"""
    ended = LOADED.run(held, "sql", "-w", str(warehouse), "SELECT 1")
    assert ended.code == 130
    assert [line.partition(" within")[0] for line in ended.err.splitlines()] == [
        "lakewright: the statement did not stop",
        "lakewright: interrupted",
    ]
