"""The files that writers made for a commit: messages in; paths, a check of their sizes and their deletion out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from lakewright.commit.changes import written_files, written_index_files
from lakewright.commit.message.message import CommitMessage
from lakewright.errors import InvalidMessageError
from lakewright.metadata.schemas import Schemas
from lakewright.metadata.store import TableStore
from lakewright.storage.base import Storage
from lakewright.storage.layout import MAIN_BRANCH
from lakewright.storage.side_by_side import each

_THREADS = 16
_FEW = 8  # below this starting threads costs more than it saves


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """One file that a writer made; the size is None for side files, of which messages record only the name."""

    name: str
    path: str
    size: int | None


def files_of(store: TableStore, messages: Iterable[CommitMessage]) -> tuple[WrittenFile, ...]:
    """Return every file that the writers of the messages made. The paths are built here, never taken from a message."""
    return tuple(file for message in messages for file in _files(store, message))


def check_written(store: TableStore, files: Sequence[WrittenFile]) -> None:
    """Raise InvalidMessageError if a file is missing or has another size than its message says."""
    sizes = _call_each(store.storage, store.storage.size, [file.path for file in files])
    bad = [
        f"{file.path} ({'missing' if size is None else f'{size} bytes, not {file.size}'})"
        for file, size in zip(files, sizes, strict=True)
        if size is None or file.size not in {None, size}
    ]
    if bad:
        raise InvalidMessageError(
            f"{store.name}: {len(bad)} of {len(files)} files to commit are missing or cut: {bad[0]}; "
            "write the data again",
            table=store.name,
            files=tuple(bad),
        )


def delete_written(store: TableStore, files: Sequence[WrittenFile]) -> None:
    """Delete files that will never be committed."""
    _call_each(store.storage, store.storage.delete, [file.path for file in files])


def prune_dropped_table(store: TableStore) -> None:
    """Remove the empty directories that late writers made again for a table or branch that was dropped or renamed."""
    for layout in dict.fromkeys((store.layout, store.layout.for_branch(MAIN_BRANCH))):
        if store.storage.renames_atomically and not Schemas(store.storage, layout).ids():
            store.storage.prune_directory(layout.branch_root)


def _files(store: TableStore, message: CommitMessage) -> Iterator[WrittenFile]:
    layout = store.layout
    partition = store.partition_directory(message.partition_bytes)
    for file in written_files(message):
        if file.external_path is not None and not layout.is_external_file(
            partition, message.bucket, file.external_path
        ):
            raise InvalidMessageError(
                f"{store.name}: a commit message places {file.file_name} at {file.external_path}, where the option "
                "'data-file.external-paths' has no directory for its bucket; write the data again",
                table=store.name,
                files=(file.file_name,),
            )
        yield WrittenFile(file.file_name, layout.data_file(partition, message.bucket, file), file.file_size)
        for name in file.extra_files:
            yield WrittenFile(name, layout.extra_file(partition, message.bucket, file, name), None)
    directory = layout.bucket_directory(partition, message.bucket)
    for index in written_index_files(message):
        yield WrittenFile(index.file_name, layout.index_file(index, directory), index.file_size)


def _call_each(storage: Storage, call: Callable[[str], int | None], paths: Sequence[str]) -> list[int | None]:
    if storage.requests_at_once > 1 or len(paths) <= _FEW:
        return each(storage, call, paths)
    with ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(call, paths))
