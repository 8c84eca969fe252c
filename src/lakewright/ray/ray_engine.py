"""`RayEngine`: tasks, exchange, progress, errors.

Invariant: when `Tasks.finish` returns, it has one answer of every task; when the block of `Tasks` ends with an
error, no task of it runs any more. An error of ours that a task raised is what the caller gets. Ray starts tasks again
whose worker died; each attempt has a number of its own, by which the files of a dead one are known.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeAlias

import pyarrow as pa
import ray
from ray.exceptions import RayError

from lakewright.dml.change_tasks import CountingWriter
from lakewright.dml.keyed_rules import KeyedChangeRules
from lakewright.engine.engine import Job, SendTask, ShareTask, TaskId, TaskResult
from lakewright.engine.engine_job import QUIET_SECONDS
from lakewright.engine.job_progress import Progress, ProgressCallback
from lakewright.errors import InvalidInputError, LakewrightError
from lakewright.metadata.table_store import TableStore
from lakewright.spec.manifest import count_rows
from lakewright.table.verbs import check_concurrency
from lakewright.write.bucket_assignment import Assigner
from lakewright.write.input_data import from_pandas
from lakewright.write.row_shuffle import ShuffleTargets, send
from lakewright.write.table_writer import WriteJob

_STOP_SECONDS_MAX = 30.0
_END_SECONDS_MAX = 2.0  # after an error, for tasks to end by themselves
_SENT_BYTES = 64 << 20  # a task that sends blobs to others puts so many of them into the object store at a time


@dataclass(frozen=True, slots=True)
class RayWriteSettings:
    """What a caller chose for one write or change: how its tasks run."""

    concurrency: int | None = None
    remote_args: Mapping[str, object] | None = None  # as `ray.remote` takes them
    progress: bool | ProgressCallback | None = None

    @classmethod
    def of(cls, concurrency: int | None, remote_args: Mapping[str, object] | None) -> RayWriteSettings:
        """Check the arguments of a call, and keep them."""
        check_concurrency(concurrency)
        if remote_args is not None and not isinstance(remote_args, Mapping):
            raise InvalidInputError(f"ray_remote_args is a dict of what ray.remote takes, not {remote_args!r}")
        return cls(concurrency, remote_args)

    @property
    def running_max(self) -> int:
        """How many tasks run at a time, at most."""
        cpus = max(1, int(ray.cluster_resources().get("CPU", 1)))
        return cpus if self.concurrency is None else min(cpus, self.concurrency)


@dataclass(frozen=True, slots=True)
class RayTaskResult:
    """The answer of one task to the driver."""

    number: int
    payload: bytes  # a `TaskResult`
    retried: bool  # an earlier attempt may have left files behind


@dataclass(frozen=True, slots=True)
class BlockSlice:
    """Rows of a block that one task takes: those from `start` to `end`, or all where no end is given."""

    block: Any  # a reference
    start: int = 0
    end: int | None = None
    bytes: int = 0  # about


class ProgressReport:
    """Calls a callback with the progress of a write."""

    def __init__(self, progress: bool | ProgressCallback | None) -> None:  # noqa: FBT001 - a callback, or a flag
        self._callback = progress if callable(progress) else None
        self._started = time.monotonic()
        self._rows = self._bytes = self._done = 0

    def add_finished(self, answer: RayTaskResult, tasks: int) -> None:
        """Count what a task wrote and call the callback; `tasks` is how many tasks there are so far."""
        if self._callback is None:
            return
        files = [file for message in TaskResult.from_bytes(answer.payload).messages for file in message.new_files]
        self._rows += count_rows(files)
        self._bytes += sum(file.file_size for file in files)
        self._done += 1
        self._callback(Progress(self._rows, self._bytes, time.monotonic() - self._started, tasks, self._done))


class Tasks:
    """Tasks whose answers are all needed: the first that fails ends the others."""

    def __init__(self, settings: RayWriteSettings, report: ProgressReport) -> None:
        self._arguments = {"num_cpus": 1, **(settings.remote_args or {})}
        self._ahead = settings.running_max if settings.concurrency is not None else 2 * settings.running_max
        self._report = report
        self._running: list[Any] = []
        self._sending: list[Any] = []
        self._sent: list[Any] = []
        self._answers: list[RayTaskResult] = []
        self._started = 0

    def start(self, function: Any, *arguments: object) -> None:  # noqa: ANN401 - a remote function of Ray
        """Start a task that returns an answer, once there is room for it."""
        while len(self._running) >= self._ahead:
            self._collect()
        self._running.append(function.options(**self._arguments).remote(*arguments))
        self._started += 1

    def finish(self) -> list[RayTaskResult]:
        """Wait for all tasks and return their answers, by number."""
        while self._running:
            self._collect()
        return sorted(self._answers, key=lambda answer: answer.number)

    def send(self, function: Any, count: int, *arguments: object) -> list[Any]:  # noqa: ANN401 - a remote function
        """Start a task that returns a small fact and so many tables, once there is room; return references to these."""
        while len(self._sending) >= self._ahead:
            self._check_sent(1)
        task = function.options(**self._arguments, num_returns=count + 1)
        returned: Any = task.remote(*arguments)
        returned = returned if count else [returned]  # a list, where several references are asked for
        self._sending.append(returned[0])
        self._sent.append(returned[0])
        return list(returned[1:])

    def stream(self, function: Any, *arguments: object) -> Any:  # noqa: ANN401 - a remote function, a generator of Ray
        """Start a task that yields values, the last of which says that it is done, once there is room."""
        while len(self._sending) >= self._ahead:
            self._check_sent(1)
        generator = function.options(**self._arguments, num_returns="streaming").remote(*arguments)
        self._sending.append(generator.completed())
        return generator

    def wait_for_streams(self, generators: Sequence[Any]) -> list[list[Any]]:
        """Wait for tasks that `stream` started; return references to what each yielded, without the last."""
        self._check_sent(len(self._sending))
        references = [list(generator) for generator in generators]
        ray.get([some[-1] for some in references])  # raises the error of a task that failed
        return [some[:-1] for some in references]

    def wait_for_sent(self) -> list[Any]:
        """Wait until all tasks that `send` started are done, and return their facts, in the order of the calls."""
        self._check_sent(len(self._sending))
        sent, self._sent = self._sent, []
        return list(ray.get(sent))

    def _check_sent(self, count: int) -> None:
        if self._sending:
            done, self._sending = ray.wait(self._sending, num_returns=count)
            ray.get(done)

    def _collect(self) -> None:
        done, self._running = ray.wait(self._running, num_returns=1)
        for answer in ray.get(done):
            self._answers.append(answer)
            self._report.add_finished(answer, self._started)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        left = [*self._running, *self._sending]
        if left and isinstance(error, Exception):  # an interrupt does not wait
            # Up to 2.60 Ray aborts this process if a task is cancelled at the moment when it starts or ends ("Tried to
            # complete task that was not pending"), so those that are short are left to end.
            with suppress(RayError, ValueError):
                _, left = ray.wait(left, num_returns=len(left), timeout=_END_SECONDS_MAX)
        for task in left:
            with suppress(RayError, ValueError):  # nothing may hide the error that is being raised
                ray.cancel(task, force=True)
        if left:
            with suppress(RayError, ValueError):
                ray.wait(left, num_returns=len(left), timeout=_STOP_SECONDS_MAX)


@contextmanager
def our_errors() -> Iterator[None]:
    """Raise the error of ours that a task raised, where Ray raises one around it."""
    try:
        yield
    except RayError as error:
        ours = error_of_ours(error)
        if ours is not None:
            raise ours from error
        raise


def error_of_ours(error: BaseException) -> LakewrightError | None:
    """Return the error of ours that Ray has wrapped; None where it is not one of ours."""
    cause: BaseException | None = error
    for _ in range(10):
        if cause is None or type(cause) in _kinds():
            break
        cause = getattr(cause, "cause", None) or cause.__cause__
    return cause if isinstance(cause, LakewrightError) else None


def _kinds() -> set[type[LakewrightError]]:
    """Return our own error types, without the classes that Ray derives from them."""
    kinds, fresh = {LakewrightError}, [LakewrightError]
    while fresh:
        fresh = [kind for parent in fresh for kind in parent.__subclasses__() if kind.__module__ == parent.__module__]
        kinds.update(fresh)
    return kinds


# ---- the engine ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RayAnswers:
    """The answers of the tasks of one job, by task number."""

    answers: Sequence[RayTaskResult]
    method: str = ""  # how the rows reached the tasks

    @property
    def results(self) -> list[TaskResult]:
        """One result per task, by its number."""
        return [TaskResult.from_bytes(answer.payload) for answer in self.answers]

    def has_losers(self) -> bool:
        """Return whether some task was started again, so that an earlier attempt may have left files."""
        return any(answer.retried for answer in self.answers)


RayWork: TypeAlias = Callable[[TableStore], RayAnswers]  # runs tasks that write files of a table, and waits for them


@dataclass(frozen=True, slots=True)
class RayEngine:
    """The workers of the cluster that this process is connected to."""

    settings: RayWriteSettings

    @property
    def quiet_seconds(self) -> float:
        """How long after a file of a killed task another one may still appear."""
        return QUIET_SECONDS

    @property
    def tasks_at_once(self) -> int:
        """How many tasks run at a time."""
        return self.settings.running_max

    def run(self, job: Job[RayWork]) -> RayAnswers:
        """Run all tasks of a job; an error of ours that a task raised is what the caller gets."""
        with our_errors():
            return job.work(job.store)

    def share_out(self, shares: Sequence[Sequence[bytes]], function: ShareTask, *, description: str) -> RayWork:  # noqa: ARG002 - Ray names tasks itself
        """Return the work of calling a function once for every share; every failure is raised as an error of ours."""

        def work(tasks: Tasks) -> None:
            shared = ray.put(function)
            for number, share in enumerate(shares):
                tasks.start(RUN_SHARE, shared, number, share)

        return partial(self._answers, work)

    def exchange(
        self, shares: Sequence[Sequence[bytes]], send: SendTask, receive: ShareTask, *, targets: int, description: str
    ) -> RayWork:
        """Return the work of tasks that send blobs to so many others: blobs travel through the object store."""
        del description  # Ray names tasks itself

        def work(tasks: Tasks) -> None:
            sending, receiving = ray.put(send), ray.put(receive)
            sent = tasks.wait_for_streams([tasks.stream(SEND_BLOBS, sending, share, targets) for share in shares])
            for number in range(targets):
                # Each task yields a list for every target in turn.
                lists = [some for one in sent for some in one[number::targets]]
                tasks.start(RECEIVE_BLOBS, receiving, number, lists)

        return partial(self._answers, work)

    def _answers(self, work: Callable[[Tasks], None], store: TableStore) -> RayAnswers:
        """Start tasks, wait for all of them, and return their answers; what fails is raised as an error of ours."""
        try:
            with Tasks(self.settings, ProgressReport(None)) as tasks:
                work(tasks)
                return RayAnswers(tasks.finish())
        except RayError as error:
            raise error_of_ours(error) or LakewrightError(f"{store.name}: {error}", table=store.name) from error


# ---- on a worker -----------------------------------------------------------------------------------------------------


def write_pieces(job: WriteJob, number: int, assigner: Assigner, pieces: Sequence[BlockSlice]) -> RayTaskResult:
    """Write pieces, which are fetched one by one, in their order."""
    with job.open_writer(number, new_attempt(), assigner=assigner) as writer:
        for rows in rows_of(fetch_blocks(pieces), job.store.name):
            writer.write(rows)
        return answer_of(number, TaskResult(writer.prepare()))


def split_by_receiver(job: WriteJob, receivers: ShuffleTargets, pieces: Sequence[BlockSlice]) -> list[Any]:
    """Return how many rows there are, and for each receiver a table of its rows, or None."""
    mode = job.store.schema.bucket_mode
    batches = (batch for rows in rows_of(fetch_blocks(pieces), job.store.name) for batch in rows.to_batches())
    parts: list[list[pa.Table]] = [[] for _ in range(receivers.count)]
    for group in send(batches, job, receivers):
        parts[receivers.of(group, mode)].append(group.rows)
    rows = sum(part.num_rows for tables in parts for part in tables)
    return [rows, *(pa.concat_tables(tables) if tables else None for tables in parts)]


def receive(job: WriteJob, number: int, assigner: Assigner, parts: Sequence[Any]) -> RayTaskResult:
    """Write what was sent to a receiver, which is fetched part by part, in the order of the parts."""
    with job.open_writer(number, new_attempt(), assigner=assigner) as writer:
        for part in parts:
            rows = ray.get(part)
            if rows is not None:
                writer.take(rows)
        return answer_of(number, TaskResult(writer.prepare()))


def receive_and_count(
    job: WriteJob,
    number: int,
    assigner: Assigner,
    changes: Sequence[Any],
    inserts: Sequence[Any],
    rules: KeyedChangeRules,
) -> RayTaskResult:
    """Write what was sent to a receiver, inserts last, and count its row kinds: see `verify_keyed`.

    All rows of a key come to one receiver, so keys that are inserted twice are found here.
    """
    keys = []
    with job.open_writer(number, new_attempt(), assigner=assigner) as writer:
        counting = CountingWriter(writer)
        for at, part in enumerate((*changes, *inserts)):
            rows = ray.get(part)
            if rows is None:
                continue
            counting.take(rows)
            if at >= len(changes):
                keys.append(rows.select(job.store.schema.primary_keys))
        if keys:
            rules.check_inserted(pa.concat_tables(keys))
        return answer_of(number, counting.finish())


def run_share(function: ShareTask, number: int, share: Sequence[bytes]) -> RayTaskResult:
    """Call a function for one share of a job."""
    return answer_of(number, function(TaskId(number, new_attempt()), iter(share)))


def send_blobs(function: SendTask, share: Sequence[bytes], targets: int) -> Iterator[list[pa.Buffer] | None]:
    """Yield lists of blobs, one for each target in turn, whenever there are some; and None at the end."""
    lists: list[list[pa.Buffer]] = [[] for _ in range(targets)]
    size = 0
    for target, blob in function(iter(share)):
        lists[target].append(blob)
        size += blob.size
        if size >= _SENT_BYTES:
            yield from (some for some in lists)  # Ray hands values to what is yielded from, so it must be a generator
            lists, size = [[] for _ in range(targets)], 0
    yield from (some for some in lists)
    yield None


def receive_blobs(function: ShareTask, number: int, lists: Sequence[Any]) -> RayTaskResult:
    """Call a function for the blobs that were sent to one task, which are fetched list by list."""
    blobs = (blob for some in lists for blob in ray.get(some))
    return answer_of(number, function(TaskId(number, new_attempt()), blobs))


def fetch_blocks(pieces: Iterable[BlockSlice]) -> Iterator[Any]:
    """Yield the blocks of pieces, which are fetched one by one."""
    for piece in pieces:
        block = ray.get(piece.block)
        if piece.end is None:
            yield block
        elif isinstance(block, pa.Table):
            yield block.slice(piece.start, piece.end - piece.start)
        else:
            yield block.iloc[piece.start : piece.end]


def rows_of(blocks: Iterable[Any], table: str) -> Iterator[pa.Table]:
    """Yield blocks of any kind as Arrow tables, without the empty ones: those may lack their columns."""
    for block in blocks:
        rows = block if isinstance(block, pa.Table) else from_pandas(block, table)
        if rows.num_rows:
            yield rows


def new_attempt() -> int:
    """Return a number that no other attempt has."""
    return uuid.uuid4().int >> 66


def answer_of(number: int, result: TaskResult) -> RayTaskResult:
    """Return the answer of a task, on its worker."""
    return RayTaskResult(number, result.to_bytes(), was_tried_before())


def was_tried_before() -> bool:
    """Return whether this is another attempt at a task; True where Ray does not say."""
    try:
        return bool(ray.get_runtime_context().worker.core_worker.get_current_task_attempt_number())
    except AttributeError:
        return True


WRITE_PIECES = ray.remote(write_pieces)
SEND = ray.remote(split_by_receiver)
RECEIVE = ray.remote(receive)
RECEIVE_COUNTED = ray.remote(receive_and_count)
RUN_SHARE = ray.remote(run_share)
SEND_BLOBS = ray.remote(send_blobs)
RECEIVE_BLOBS = ray.remote(receive_blobs)
