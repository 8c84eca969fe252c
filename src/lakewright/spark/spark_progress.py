"""Progress of a Spark job, classic and Connect.

The number of finished tasks comes from the job group, which a thread polls (classic), or from Connect's progress
handler. Rows and bytes of finished tasks come through an accumulator where the session has one; over Connect they are
known at the end. A bar is shown in terminals and notebooks and never in logs. Whatever fails in here, the job goes on.
"""

from __future__ import annotations

import shutil
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import IO, Any, Protocol, TypeAlias

from pyspark.accumulators import Accumulator, AccumulatorParam
from pyspark.sql import SparkSession

from lakewright.engine.job_progress import Progress, ProgressCallback
from lakewright.errors import LakewrightWarning, pluralize
from lakewright.spark.spark_features import Feature, has
from lakewright.spark.spark_session import is_connect

_POLL_SECONDS = 0.25
_BAR_WIDTH = 24
JOB_GROUP = "spark.jobGroup.id"

Work: TypeAlias = tuple[int, int]  # rows and bytes
Job: TypeAlias = tuple[bool, list[tuple[int, int, int]]]  # does it run; per stage the tasks, those that run, those done


class _Sum(AccumulatorParam[Work]):
    """Adds rows to rows and bytes to bytes."""

    def zero(self, value: Work) -> Work:
        return (0 * value[0], 0 * value[1])

    def addInPlace(self, value1: Work, value2: Work) -> Work:  # noqa: N802 - Spark's name
        return (value1[0] + value2[0], value1[1] + value2[1])


@dataclass(frozen=True, slots=True)
class Counter:
    """What a task adds its work to: it travels to executors, and does nothing where there is no listener."""

    total: Accumulator[Work] | None = None

    def add(self, rows: int, nbytes: int) -> None:
        """Add rows and bytes of this task; the driver sees them when the task has succeeded."""
        if self.total is not None:
            self.total.add((rows, nbytes))


class JobProgress:
    """How far the jobs of one group are, and the listeners that are called; made by `following_progress`."""

    def __init__(self, group: str, what: str, *, listeners: Iterable[Callable[[Progress], None]] = ()) -> None:
        self.what = what
        self.counter = Counter()
        self.line: str | None = None  # what replaces the bar at the end
        self._started = time.monotonic()
        self._listeners = list(listeners)
        self._group = group
        self._earlier: frozenset[int] = frozenset()
        self._tasks = (0, 0)  # all, done
        self._operations: dict[str | None, tuple[int, int]] = {}  # over Connect, as above
        self._work: Work | None = None
        self._thread = 0
        self._failure: Exception | None = None
        self._lock = threading.Lock()

    @property
    def has_listeners(self) -> bool:
        """Whether there is a callback or a bar."""
        return bool(self._listeners)

    def follow(self, spark: SparkSession) -> None:
        """Follow the jobs that this thread starts from now on, in the job group that it has by now."""
        self._thread = threading.get_ident()
        if self.has_listeners and not is_connect(spark):
            context = spark.sparkContext
            self._group = context.getLocalProperty(JOB_GROUP) or self._group
            self._earlier = frozenset(context.statusTracker().getJobIdsForGroup(self._group))

    def add_finished(self, rows: int, nbytes: int) -> None:
        """Add finished work as the driver knows it; from then on it replaces what tasks counted."""
        with self._lock:
            before = self._work or (0, 0)
            self._work = (before[0] + rows, before[1] + nbytes)

    def conclude(self, line: str) -> None:
        """Leave a line where the bar was."""
        self.line = line

    def progress(self) -> Progress:
        """Return how far the job is."""
        counted = self.counter.total.value if self.counter.total is not None else (0, 0)
        rows, nbytes = self._work or counted
        return Progress(rows, nbytes, time.monotonic() - self._started, *self._tasks)

    def tell(self, tasks: int, tasks_done: int) -> None:
        """Record the number of tasks, and call all listeners."""
        with self._lock:
            self._tasks = (tasks, tasks_done)
            now = self.progress()
            for listener in list(self._listeners):
                try:
                    listener(now)
                except Exception as error:  # noqa: BLE001 - whatever a callback does, the write goes on
                    self._listeners.remove(listener)
                    self._failure = self._failure or error

    def ask(self, tracker: Any) -> None:  # noqa: ANN401 - Spark's tracker has no public type
        """Ask a classic session how far the jobs of the group are."""
        numbers = sorted(set(tracker.getJobIdsForGroup(self._group)) - self._earlier)
        if numbers:
            self.tell(*tasks_of(_job(tracker, number) for number in numbers))

    def on_connect(self, stages: Iterable[Any] | None, *, operation_id: str | None, **_: object) -> None:
        """Take what Connect reports of an operation; it calls this in the thread that started the operation."""
        known = list(stages or ())
        if threading.get_ident() != self._thread or not known:
            return
        self._operations[operation_id] = (sum(s.num_tasks for s in known), sum(s.num_completed_tasks for s in known))
        self.tell(*map(sum, zip(*self._operations.values(), strict=True)))

    def finish(self, *, succeeded: bool) -> None:
        """Call the listeners a last time, and warn of a callback that failed; this warning never becomes an error."""
        if succeeded:
            self.tell(self._tasks[0], self._tasks[0])
        if self._failure is not None:
            with suppress(LakewrightWarning):
                warnings.warn(
                    f"{self.what}: the progress callback failed and was not called again: {self._failure!r}",
                    LakewrightWarning,
                    stacklevel=5,
                )


@contextmanager
def following_progress(
    spark: SparkSession,
    group: str,
    progress: bool | ProgressCallback | None,  # noqa: FBT001 - as in the public verbs
    *,
    what: str,
) -> Iterator[JobProgress]:
    """Follow the jobs of one group: with a callback, or with a bar unless `progress` is False.

    The callback runs in a thread of its own while the job runs, and once more at the end.
    """
    display = None if callable(progress) or progress is False else _display()
    job_progress = JobProgress(group, what, listeners=_listeners(progress, display, what))
    source = _connect_source if is_connect(spark) else _classic_source
    succeeded = False
    try:
        with source(spark, job_progress) if job_progress.has_listeners else nullcontext():
            yield job_progress
        succeeded = True
    finally:
        job_progress.finish(succeeded=succeeded)
        if display is not None:
            display.close(job_progress.line)


class _Result(Protocol):
    """What a write returns."""

    @property
    def snapshot_id(self) -> int | None: ...
    @property
    def rows(self) -> int: ...
    @property
    def files(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def seconds(self) -> float: ...


def final_line(result: _Result, name: str) -> str:
    """Return what a write did, in one line.

    >>> from types import SimpleNamespace
    >>> final_line(SimpleNamespace(snapshot_id=7, rows=1000000, files=12, bytes=34.5e6, seconds=3.21), "db.t")
    'db.t: snapshot 7, 1,000,000 rows, 12 files, 34.5 MB in 3.2 s'
    """
    if result.snapshot_id is None:
        return f"{name}: nothing to commit, in {result.seconds:.1f} s"
    rows, files = pluralize(result.rows, "row"), pluralize(result.files, "file")
    return f"{name}: snapshot {result.snapshot_id}, {rows}, {files}, {_size(result.bytes)} in {result.seconds:.1f} s"


def bar_text(what: str, now: Progress, width: int) -> str:
    """Return the bar as text of at most some width.

    >>> from lakewright.engine.job_progress import Progress
    >>> bar_text("write to db.t", Progress(500_000, 34_000_000, 2.0, tasks=8, tasks_done=2), 100)
    'write to db.t [######..................] 2/8 tasks, 500,000 rows, 34.0 MB, 250,000 rows/s, 6 s left'
    """
    parts = [f"{now.tasks_done}/{now.tasks} tasks" if now.tasks else "starting"]
    if now.rows:
        parts += [pluralize(now.rows, "row"), _size(now.bytes), f"{now.rows / max(now.seconds, 1e-9):,.0f} rows/s"]
    if 0 < now.tasks_done < now.tasks:
        parts.append(f"{now.seconds / now.tasks_done * (now.tasks - now.tasks_done):,.0f} s left")
    filled = _BAR_WIDTH * now.tasks_done // now.tasks if now.tasks else 0
    return f"{what} [{'#' * filled:.<{_BAR_WIDTH}}] {', '.join(parts)}"[:width]


def tasks_of(jobs: Iterable[Job]) -> tuple[int, int]:
    """Return how many tasks jobs have and how many are done.

    Stages whose work an earlier job did are skipped: they never start, although the job lists them and they have tasks.

    >>> tasks_of([(False, [(4, 0, 4)]), (True, [(4, 0, 0), (6, 2, 1)])])
    (10, 5)
    """
    tasks = tasks_done = 0
    for runs, stages in jobs:
        for number, (size, active, done) in enumerate(stages):
            started = active or done
            waits = runs and not any(later[1] or later[2] for later in stages[number + 1 :])
            tasks += size if started or waits else 0
            tasks_done += done
    return tasks, tasks_done


def _size(nbytes: float) -> str:
    return f"{nbytes / 1e6:,.1f} MB"


# ---- listeners -------------------------------------------------------------------------------------------------------


class _Display(Protocol):
    """One line that is written again and again."""

    def show(self, text: str) -> None: ...
    def close(self, line: str | None) -> None: ...


class Terminal:
    """The last line of a terminal."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._length = 0

    def show(self, text: str) -> None:
        """Write the text over the line."""
        self._stream.write(f"\r{text:<{self._length}}")
        self._stream.flush()
        self._length = len(text)

    def close(self, line: str | None) -> None:
        """Clear the bar, and leave a line in its place."""
        if self._length:
            self.show("")
        self._stream.write(f"\r{line}\n" if line else "\r")
        self._stream.flush()


class Notebook:
    """An output of a notebook's cell."""

    def __init__(self, display: Callable[..., Any]) -> None:
        self._display = display
        self._handle: Any = None

    def show(self, text: str) -> None:
        """Write the text in place of the last one."""
        shown = {"text/plain": text}
        if self._handle is None:
            self._handle = self._display(shown, raw=True, display_id=True)
        else:
            self._handle.update(shown, raw=True)

    def close(self, line: str | None) -> None:
        """Leave a line in place of the bar."""
        if line or self._handle is not None:
            self.show(line or "")


def _display() -> _Display | None:
    """Return where a bar can be shown, None where the output is a log."""
    ipython = sys.modules.get("IPython")  # a notebook has it loaded; nothing else needs it
    shell = ipython.get_ipython() if ipython is not None else None
    if getattr(shell, "kernel", None) is not None and ipython is not None:
        return Notebook(ipython.display.display)
    return Terminal(sys.stderr) if sys.stderr is not None and sys.stderr.isatty() else None


def _listeners(
    progress: bool | ProgressCallback | None,  # noqa: FBT001
    display: _Display | None,
    what: str,
) -> list[ProgressCallback]:
    if callable(progress):
        return [progress]
    if display is None:
        return []
    return [lambda now: display.show(bar_text(what, now, shutil.get_terminal_size().columns - 1))]


# ---- sources ---------------------------------------------------------------------------------------------------------


@contextmanager
def _connect_source(spark: SparkSession, job_progress: JobProgress) -> Iterator[None]:
    if not has(Feature.CONNECT_PROGRESS):
        yield
        return
    handler: Any = job_progress.on_connect  # Spark takes any callable
    spark.registerProgressHandler(handler)
    try:
        yield
    finally:
        spark.removeProgressHandler(handler)


@contextmanager
def _classic_source(spark: SparkSession, job_progress: JobProgress) -> Iterator[None]:
    context = spark.sparkContext
    job_progress.counter = Counter(context.accumulator((0, 0), _Sum()))
    over = threading.Event()

    def ask() -> None:
        while not over.wait(_POLL_SECONDS):
            # The session may end meanwhile: then there is nothing to ask.
            with suppress(Exception):
                job_progress.ask(context.statusTracker())

    asker = threading.Thread(target=ask, name="lakewright-progress", daemon=True)
    asker.start()
    try:
        yield
        with suppress(Exception):
            job_progress.ask(context.statusTracker())
    finally:
        over.set()
        asker.join()


def _job(tracker: Any, number: int) -> Job:  # noqa: ANN401 - Spark's tracker has no public type
    info = tracker.getJobInfo(number)
    stages = [] if info is None else [tracker.getStageInfo(stage) for stage in sorted(info.stageIds)]
    known = [(s.numTasks, s.numActiveTasks, s.numCompletedTasks) for s in stages if s is not None]
    return info is not None and info.status == "RUNNING", known
