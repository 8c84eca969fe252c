"""One job from its tasks to its commit: run, verify, publish once, remove the files of lost attempts."""

from __future__ import annotations

import json
import time
import traceback
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, Protocol, TypeVar

from lakewright.commit.commit_changes import files_of_messages
from lakewright.commit.commit_message import CommitMessage
from lakewright.engine.engine import Engine, Job, TaskResult, TaskResults, Work
from lakewright.errors import (
    CommitConflictError,
    CommitContentionError,
    InvalidInputError,
    LakewrightError,
    LakewrightWarning,
    TableNotExistException,
    pluralize,
)
from lakewright.metadata.table_store import TableStore
from lakewright.spec.manifest import count_rows
from lakewright.spec.snapshot import Snapshot
from lakewright.storage.storage import FileInfo
from lakewright.write.table_writer import WriteJob
from lakewright.write.write_task import PartitionBucket

# ---- Files that attempts leave behind --------------------------------------------------------------------------------
# Such attempts send no messages that would list their files; but the id of the write is part of the name of every
# file that its tasks make. Invariant: only files of the table, and below its external paths, with that id in their
# name are removed, and none that a snapshot names, not even one that an earlier attempt to commit has published. A
# caller whose commit may still be published, because its outcome is unknown, must not call this.

_ID_CHARACTERS_MIN = 16  # a shorter text could be part of a name by chance
_SLACK_MILLIS = 20 * 60 * 1000  # how far the clocks of the storage and of committers may differ


def remove_leftovers(
    store: TableStore, write_id: str, *, keep: Collection[str] = (), places: Collection[PartitionBucket] | None = None
) -> int:
    """Delete the files of a write that no snapshot names and that are not to be kept, and return how many they were.

    `places` says which buckets the write touched, if that is known; otherwise the whole table is walked.
    """
    if len(write_id) < _ID_CHARACTERS_MIN:
        raise InvalidInputError(f"{store.name}: {write_id!r} is no id of a write, so no files can be found by it")
    # List the files before reading the snapshots, so that snapshots published in between are read too.
    written = {info.path: info for info in _files(store, places) if f"-{write_id}-" in _name(info.path)}
    if not written:
        return 0
    since = min(info.modified_millis for info in written.values()) - _SLACK_MILLIS
    named = {*keep, *_named_since(store, since)}
    leftovers = [path for path in written if _name(path) not in named]
    for path in leftovers:
        store.storage.delete(path)
    return len(leftovers)


def _files(store: TableStore, places: Collection[PartitionBucket] | None) -> Iterator[FileInfo]:
    layout = store.layout
    if places is None:
        for directory in (layout.data_root, *layout.reachable_directories):
            yield from store.storage.walk(directory)
    else:
        for directory in {layout.bucket_directory(store.partition_directory(p), bucket) for p, bucket in places}:
            yield from store.storage.list(directory)
            for outside in layout.reachable_directories:
                yield from store.storage.walk(f"{outside.rstrip('/')}/{directory[len(layout.root) + 1 :]}")
    yield from store.storage.list(layout.index_directory)


def _named_since(store: TableStore, millis: int) -> set[str]:
    """Return the names of all files that snapshots since a time added, also of those that were removed later."""
    names: set[str] = set()
    manifests = store.manifests
    for snapshot in store.snapshots.walk_back(store.snapshots.latest_id() or 0):
        if snapshot.time_millis < millis:
            break
        for entry in (*manifests.delta(snapshot), *manifests.changelog(snapshot)):
            names.update((entry.file.file_name, *entry.file.extra_files))
        if snapshot.index_manifest is not None:
            names.update(entry.file.file_name for entry in manifests.read_index(snapshot.index_manifest))
    return names


def _name(path: str) -> str:
    return path.rpartition("/")[2]


# ---- Removing the files of a failed job ------------------------------------------------------------------------------
# Invariant: a removal that fails is a warning and hides no other error; what stays is an orphan.

QUIET_SECONDS = 0.5  # a worker whose task was killed may close one more file
_ROUNDS_MAX = 10


def remove_all(store: TableStore, write_id: str, *, quiet_seconds: float = QUIET_SECONDS) -> None:
    """Remove the files of a write until none appear for some seconds: tasks that were killed may still close some."""
    try:
        remove_leftovers(store, write_id)
        for _ in range(_ROUNDS_MAX):
            time.sleep(quiet_seconds)
            if not remove_leftovers(store, write_id):
                return
    except (LakewrightError, OSError) as error:
        _warn(store, write_id, error)


def remove_all_but(store: TableStore, write_id: str, messages: Sequence[CommitMessage]) -> None:
    """Remove the files of a write that no message names, from the buckets that the messages touch."""
    keep = {file.name for file in files_of_messages(store, messages)}
    places = {(message.partition_bytes, message.bucket) for message in messages}
    try:
        remove_leftovers(store, write_id, keep=keep, places=places)
    except (LakewrightError, OSError) as error:
        _warn(store, write_id, error)


def _warn(store: TableStore, write_id: str, error: Exception) -> None:
    warnings.warn(
        f"{store.name}: files of the write {write_id} may be left behind ({error}); no snapshot names them, and "
        "table.remove_orphan_files() removes them once they are old enough",
        LakewrightWarning,
        stacklevel=4,
    )


# ---- Errors of tasks -------------------------------------------------------------------------------------------------
# The text is JSON and holds only plain values, so that reading it runs no code. Facts of other
# types arrive as the text that shows them.

_PLAIN = (str, bool, int, float, type(None))


def is_transient(error: BaseException) -> bool:
    """Return whether a failure of the storage, or of the machine, is behind an error: then trying again may help.

    A missing file is no such failure: it will be missing the next time too.
    """
    return any(isinstance(e, OSError) and not isinstance(e, FileNotFoundError) for e in _causes(error))


def error_to_text(error: LakewrightError) -> str:
    """Return an error as text, with its traceback."""
    facts = {name: _to_json(value) for name, value in error.facts.items()}
    where = "".join(traceback.format_exception(error))
    return json.dumps({"error": type(error).__name__, "message": error.message, "facts": facts, "where": where})


def error_from_text(text: str) -> LakewrightError:
    """Read what `error_to_text` wrote: the same type, message and facts, with the worker's traceback as a note."""
    fields = json.loads(text)
    kinds = {kind.__name__: kind for kind in _kinds(LakewrightError)}
    facts = {name: _from_json(value) for name, value in fields["facts"].items()}
    error = kinds.get(fields["error"], LakewrightError)(fields["message"], **facts)
    error.add_note(f"It was raised by a task on a worker:\n{fields['where']}")
    return error


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    seen: set[int] = set()
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)


def _kinds(kind: type[LakewrightError]) -> Iterator[type[LakewrightError]]:
    yield kind
    for inner in kind.__subclasses__():
        yield from _kinds(inner)


def _to_json(value: object) -> object:
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, list):
        return [_to_json(item) for item in value]
    if isinstance(value, tuple):
        return {"tuple": [_to_json(item) for item in value]}
    return str(value)


def _from_json(value: object) -> object:
    match value:
        case {"bytes": str(digits)}:
            return bytes.fromhex(digits)
        case {"tuple": list(items)}:
            return tuple(_from_json(item) for item in items)
        case list():
            return [_from_json(item) for item in value]
        case _:
            return value


# ---- Running a job ---------------------------------------------------------------------------------------------------
# run the tasks -> verify their answers -> publish -> remove the files of attempts that lost
#
# An engine ships functions to workers and brings their results to the driver. Invariant: tasks never
# commit. What fails before publishing begins leaves no file behind; once it has begun and it is unknown how it ended,
# nothing is removed.

# What a commit raises when it is known that it published nothing, unless the error names a snapshot (`published_id`).
_NOT_PUBLISHED = (InvalidInputError, CommitConflictError, CommitContentionError, TableNotExistException)


class HasMessages(Protocol):
    """What the results of a job say, once they are verified."""

    @property
    def messages(self) -> Sequence[CommitMessage]:
        """What is to be committed: it names every file that must stay."""


Made = TypeVar("Made", bound=HasMessages)
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class JobEnd(Generic[Result]):
    """How a job ended."""

    result: Result
    overtaken_by: Snapshot | None = None  # another driver committed the same job, so no file of this run is needed


def complete_job(
    workers: Engine[Work],
    job: Job[Work],
    verify: Callable[[TaskResults], Made],
    publish: Callable[[Made], JobEnd[Result]],
) -> JobEnd[Result]:
    """Run the tasks of a job, verify their answers, publish what they made, and remove the files not needed."""
    clean_up = partial(remove_all, job.store, job.write_id, quiet_seconds=workers.quiet_seconds)
    try:
        answers = workers.run(job)
        made = verify(answers)
    except BaseException:
        clean_up()
        raise

    def remove_losers() -> None:
        if answers.has_losers():
            remove_all_but(job.store, job.write_id, made.messages)

    return publish_made(partial(publish, made), clean_up=clean_up, remove_losers=remove_losers)


def publish_made(
    publish: Callable[[], JobEnd[Result]], *, clean_up: Callable[[], None], remove_losers: Callable[[], None]
) -> JobEnd[Result]:
    """Publish what tasks made, and remove all files of the job, or those of lost attempts, that are not needed then."""
    try:
        end = publish()
    except _NOT_PUBLISHED as error:
        if "published_id" not in error.facts:
            clean_up()
        raise
    if end.overtaken_by is not None:
        clean_up()
    else:
        remove_losers()
    return end


def run_tasks(workers: Engine[Work], job: Job[Work], verify: Callable[[TaskResults], Made]) -> Made:
    """Run and verify a job whose commit is left to the caller, who removes the files where nothing is published."""
    return complete_job(workers, job, verify, _leave_to_caller).result


def _leave_to_caller(made: Made) -> JobEnd[Made]:
    return JobEnd(made)


# ---- Messages of tasks -----------------------------------------------------------------------------------------------
# Invariant: messages of another write, and lost rows, are refused.


def verified_messages(job: WriteJob, results: Iterable[TaskResult]) -> list[CommitMessage]:
    """Return the messages of all tasks, after checking that they are of this write and that no row was lost."""
    messages = [message for result in results for message in result.messages]
    foreign = [message for message in messages if message.write_id != job.write_id]
    written = count_rows(file for message in messages for file in message.new_files)
    taken = sum(message.rows_in or 0 for message in messages)
    if foreign or written > taken or (written < taken and not job.store.schema.primary_keys):
        raise LakewrightError(
            f"{job.store.name}: the tasks took {pluralize(taken, 'row')} and wrote {written}, and "
            f"{len(foreign)} messages are of another write; nothing was committed, write the data again",
            table=job.store.name,
        )
    return messages
