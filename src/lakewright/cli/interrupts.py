"""Ctrl-C while a command runs.

An engine such as DuckDB holds the thread of a query until the query ends, so statements run in a thread of their own
and the main thread waits for the keys. A single interrupt may have no effect: DuckDB drops one that comes before a
query runs, Spark cancels the jobs that run at that moment, and Python ignores a KeyboardInterrupt that is raised in a
callback of the import system. So both are repeated until the thread has ended.
"""

from __future__ import annotations

import ctypes
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from lakewright.cli.cli_output import fail

GIVE_UP_SECONDS = 30.0
_ENGINE_SECONDS = 0.05  # between two interrupts of the engine
_RAISE_SECONDS = 0.1  # for which a KeyboardInterrupt may wait for the next step in Python
_POLL_SECONDS = 0.1

_noted: list[int] = []  # each Ctrl-C since the command began that raised KeyboardInterrupt in the main thread


class StillRunning(KeyboardInterrupt):
    """Ctrl-C did not stop a statement in time: it goes on in a daemon thread until the process ends."""


# ---- the main thread -------------------------------------------------------------------------------------------------


@contextmanager
def interrupts_noted() -> Iterator[None]:
    """Remember Ctrl-C besides raising KeyboardInterrupt, for code that drops the exception or replaces it.

    Imports do both: what is raised in a weakref callback is printed and ignored, and an extension module that is
    interrupted while it loads numpy raises ImportError.
    """
    _noted.clear()
    before = signal.getsignal(signal.SIGINT)

    def note(number: int, frame: FrameType | None) -> None:
        _noted.append(number)
        if callable(before):
            before(number, frame)

    with _handled_by(note):
        yield


def was_interrupted() -> bool:
    """Return True if Ctrl-C was pressed since the command began, and not forgotten."""
    return bool(_noted)


def forget_interrupts() -> None:
    """Start again, as a prompt does that goes on after Ctrl-C."""
    _noted.clear()


def ignore_interrupts() -> None:
    """Ignore Ctrl-C from now on, for a process that is about to end."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def _handled_by(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Handle SIGINT in another way, unless it is ignored (as in a job that a shell started with `&`)."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


# ---- the thread of the statements ------------------------------------------------------------------------------------


def run_interruptibly(interrupt_engine: Callable[[], None], work: Callable[[], None]) -> None:
    """Run statements so that Ctrl-C stops them, and raise KeyboardInterrupt if it did.

    Nothing is raised if they were done all the same. Ctrl-C is only counted meanwhile, so that pressing it again cannot
    break off what stops the statements or what cleans up after them.
    """
    worker, pressed = _Worker(work), list[int]()
    with _handled_by(lambda number, _: pressed.append(number)):
        if was_interrupted():
            raise KeyboardInterrupt
        worker.start()
        try:
            while not pressed and not worker.ended.wait(_POLL_SECONDS):
                pass
        finally:  # also if SIGTERM raises SystemExit here
            _stop(worker, interrupt_engine)
    if not worker.ended.is_set():
        fail(f"the statement did not stop within {GIVE_UP_SECONDS:g} s; it is left when this process ends")
        raise StillRunning
    if not worker.done:
        raise KeyboardInterrupt if pressed or worker.error is None else worker.error


class _Worker(threading.Thread):
    """Runs work, and can be interrupted in Python code."""

    def __init__(self, work: Callable[[], None]) -> None:
        super().__init__(name="lakewright sql", daemon=True)  # what does not stop must not keep the process
        # Instead of `join` and `is_alive`: Python 3.11 takes a thread for ended after an exception in `join`.
        self.ended = threading.Event()
        self.done = False
        self.error: BaseException | None = None
        self._work = work
        # Invariant: an exception is set from outside only while the gate is held and the work is open, and is delivered
        # or withdrawn before the gate is free. So none reaches the code of `threading` before and after the work.
        self._gate = threading.Lock()
        self._is_open = False

    def run(self) -> None:
        """Run the work and keep how it ended."""
        try:
            try:
                self._is_open = True
                self._work()
                self.done = True
            except BaseException as error:  # noqa: BLE001 - it is raised again in the thread that waits
                self.error = error
        except KeyboardInterrupt:
            pass
        while self._is_open:
            try:
                with self._gate:
                    self._is_open = False
            except KeyboardInterrupt:
                continue
        self.ended.set()

    def raise_interrupt(self) -> None:
        """Raise KeyboardInterrupt at the next step in Python, if there is one soon.

        Nothing is raised while the thread handles an exception, such as the KeyboardInterrupt before or the error of
        the interrupted engine: then it removes files and closes connections, which must not be interrupted halfway.
        """
        with self._gate:
            if self._is_open and not self._handles_exception():
                self._set_exception(KeyboardInterrupt)
                try:
                    time.sleep(_RAISE_SECONDS)
                finally:
                    self._set_exception(None)

    def _handles_exception(self) -> bool:
        found = sys._current_exceptions().get(self.ident or 0)  # noqa: SLF001 - the documented way to ask
        return found is not None and found != (None, None, None)  # an exception since Python 3.12, before a tuple

    def _set_exception(self, kind: type[BaseException] | None) -> None:
        number = ctypes.c_ulong(self.ident or 0)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(number, None if kind is None else ctypes.py_object(kind))


def _stop(worker: _Worker, interrupt_engine: Callable[[], None]) -> None:
    """Interrupt a thread until it has ended, or for so long that more would not help."""
    if worker.ended.is_set():
        return
    deadline, engine_is_done = time.monotonic() + GIVE_UP_SECONDS, threading.Event()

    def interrupt_repeatedly() -> None:
        while not worker.ended.is_set() and time.monotonic() < deadline:
            with suppress(Exception):  # the engine may just be closing what it would interrupt
                interrupt_engine()
            worker.ended.wait(_ENGINE_SECONDS)
        engine_is_done.set()

    # In a thread of its own, as the call may wait for a server that does not answer.
    threading.Thread(target=interrupt_repeatedly, name="lakewright interrupt", daemon=True).start()
    while not worker.ended.wait(_ENGINE_SECONDS) and time.monotonic() < deadline:
        worker.raise_interrupt()
    engine_is_done.wait(1)  # a late interrupt would stop the next statement
    _clear_exception_flag()


def _clear_exception_flag() -> None:
    """Clear the flag by which Python 3.11 and 3.12 let all threads look for an exception from outside.

    An exception that is withdrawn, or whose thread has ended, leaves it set. That slows every thread down, and in
    Python 3.11 a function that is entered while a profiler or tracer is on then never begins. Only a delivery clears
    it, so one exception is raised and caught here.
    """

    class _DeliveredError(BaseException): ...

    with suppress(_DeliveredError):
        own = ctypes.c_ulong(threading.get_ident())
        ctypes.pythonapi.PyThreadState_SetAsyncExc(own, ctypes.py_object(_DeliveredError))
        while True:  # it is raised at the next step
            pass
