"""PyTorch datasets over splits.

Invariant: the shares of all ranks and of all workers of their data loaders are disjoint, and together they are
the splits. Shares are equal to the row, except where rows of one key are in several files and are merged.
"""

from __future__ import annotations

import hashlib
import os
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import islice

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch.utils.data import Dataset, IterableDataset, get_worker_info

from lakewright.errors import InvalidInputError
from lakewright.read.data_split import DataSplit
from lakewright.read.split_planning import shard_splits
from lakewright.read.table_read import TableRead
from lakewright.spec import argument_checks

BATCH_FORMATS = ("row", "pyarrow", "torch")
ToTensor = Callable[[pa.RecordBatch], object]


@dataclass(frozen=True, slots=True)
class TorchSettings:
    """The choices of a caller of `to_torch`."""

    batch_format: str = "row"  # rows as dicts, record batches of Arrow, or tensors by column
    batch_size: int | None = None  # rows of a batch; None: as they are read
    to_tensor_fn: ToTensor | None = None  # how a record batch becomes tensors
    shuffle: bool = False
    seed: int = 0
    buffer_size: int = 1000  # how many rows are shuffled together
    max_buffer_input_splits: int = 10  # how many splits are read in turns while rows are shuffled
    auto_detect_rank: bool = False  # take the rank from torch.distributed, or from RANK and WORLD_SIZE
    sharding_rank: int | None = None
    sharding_world_size: int | None = None

    @classmethod
    def of(cls, given: Mapping[str, object], *, streaming: bool) -> TorchSettings:
        """Return checked settings."""
        known = [field.name for field in fields(cls)]
        for name in given:
            if name not in known:
                raise InvalidInputError(
                    f"to_torch has no argument {name!r}; {argument_checks.suggest_name(name, known)}"
                )
        made = cls(**given)  # type: ignore[arg-type] # checked next
        made.check()
        if not streaming and made != cls():
            raise InvalidInputError(_needs_streaming(made))
        return made

    def check(self) -> None:
        """Raise InvalidInputError unless every value fits its name, and the values fit together."""
        if self.batch_format not in BATCH_FORMATS:
            raise InvalidInputError(f"batch_format must be one of {sorted(BATCH_FORMATS)}, got {self.batch_format!r}")
        for name in ("shuffle", "auto_detect_rank"):
            argument_checks.check_bool(name, getattr(self, name))
        argument_checks.check_int("seed", self.seed)
        for name in ("buffer_size", "max_buffer_input_splits", "batch_size"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
                raise InvalidInputError(f"{name} must be a positive int, not {argument_checks.describe_value(value)}")
        if self.batch_size is not None and self.batch_format == "row":
            raise InvalidInputError("batch_size requires batch_format='pyarrow' or 'torch'")
        if self.to_tensor_fn is not None:
            argument_checks.check_callable("to_tensor_fn", self.to_tensor_fn)
            if self.batch_format != "torch":
                raise InvalidInputError("to_tensor_fn requires batch_format='torch'")
        _check_rank(self)


def to_torch(
    read: TableRead,
    splits: Sequence[DataSplit] | None,
    settings: Mapping[str, object],
    *,
    streaming: bool,
    threads: int,
) -> MapRows | StreamedRows:
    """Return a dataset of the rows of splits, of a fresh plan where none are given."""
    checked = TorchSettings.of(settings, streaming=argument_checks.check_bool("streaming", streaming))
    threads = argument_checks.check_positive("prefetch_concurrency", threads)
    if threads > 1 and (checked.shuffle or checked.batch_format != "row"):
        raise InvalidInputError(
            "batch formats require prefetch_concurrency=1, and shuffle=True does not support prefetch_concurrency > 1: "
            "let the DataLoader have more workers"
        )
    planned = read.new_plan().splits() if splits is None else list(splits)
    return StreamedRows(read, planned, checked, threads) if streaming else MapRows(read.to_arrow(planned))


class MapRows(Dataset):  # type: ignore[type-arg,misc,unused-ignore] # torch may be there, or not
    """Rows by their number, all in memory as Arrow data: dicts by column name."""

    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return int(self._rows.num_rows)

    def __getitem__(self, index: int) -> dict[str, object]:
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[dict[str, object]]:
        """Return several rows at once, as data loaders ask for them."""
        count = len(self)
        for index in indices:
            if not -count <= index < count:
                raise IndexError(f"there is no row {index}: the dataset has {count}")
        taken: list[dict[str, object]] = self._rows.take([index % count for index in indices]).to_pylist()
        return taken


class StreamedRows(IterableDataset):  # type: ignore[type-arg,misc,unused-ignore] # torch may be there, or not
    """Rows or batches, read as they are asked for; each rank and each worker of a data loader reads its share."""

    def __init__(self, read: TableRead, splits: Sequence[DataSplit], settings: TorchSettings, threads: int) -> None:
        self._read = read
        self._splits = list(splits)
        self._settings = settings
        self._threads = threads
        # The epoch, and whether workers read: in shared memory, so that workers that live on hear of another epoch.
        self._shared = torch.zeros(2, dtype=torch.int64).share_memory_()
        self._rank: tuple[int, int] | None = None  # for workers that are started anew and do not know it
        self._state: dict[str, object] | None = None  # where the next iteration goes on
        self._at, self._given = {"epoch": 0, "share": 0, "shares": 1}, 0
        self._word: str | None = None

    def __getstate__(self) -> dict[str, object]:
        """Return what a worker gets that does not begin as a copy of this process: the rank of this one too."""
        distributed = self._settings.auto_detect_rank and _distributed_rank() is not None
        return {**self.__dict__, "_rank": rank_of(self._settings) if distributed else None}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._shared.share_memory_()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._read.store.name}: splits={len(self._splits)}, epoch={self.epoch})"

    @property
    def epoch(self) -> int:
        """Which epoch the next iteration is of."""
        return int(self._shared[0])

    def set_epoch(self, epoch: int) -> None:
        """Let the next iteration shuffle in another order, also in workers of a data loader that live on."""
        self._shared[0] = argument_checks.check_non_negative("epoch", epoch)

    def state_dict(self) -> dict[str, object]:
        """Return how far the iteration of this rank and worker has come, for `load_state_dict` of a later run."""
        if get_worker_info() is None and bool(self._shared[1]):
            raise InvalidInputError(
                "workers of a data loader read the rows, and only they know how far they have come: use "
                "torchdata's StatefulDataLoader and its state_dict, or a DataLoader with num_workers=0"
            )
        return {**self._at, "rows": self._given, "order": self._order()}

    def load_state_dict(self, state_dict: Mapping[str, object]) -> None:
        """Let the next iteration go on where another one was, with the same splits, settings, ranks and workers.

        Rows come in an order that only these decide, shuffled or not, so that each is given once. Another epoch that is
        set before the iteration starts it from its beginning.
        """
        state = argument_checks.check_mapping("state_dict", state_dict)
        for name in ("epoch", "rows", "share", "shares"):
            argument_checks.check_non_negative(name, state.get(name))
        if state.get("order") != self._order():
            raise InvalidInputError(
                "this state is of other splits, another filter or other settings, in which rows come in another order: "
                "read the same snapshot (snapshot_id, a tag) with the same arguments, or begin anew"
            )
        self._state = dict(state)
        self.set_epoch(argument_checks.check_non_negative("epoch", state["epoch"]))

    def __iter__(self) -> Iterator[object]:
        settings, worker = self._settings, get_worker_info()
        number, workers = (0, 1) if worker is None else (worker.id, worker.num_workers)
        rank, ranks = self._rank if worker is not None and self._rank is not None else rank_of(settings)
        self._shared[1] = int(worker is not None)
        self._at = {"epoch": self.epoch, "share": rank * workers + number, "shares": ranks * workers}
        self._given = self._rows_before(self._at)
        splits = self._share(self._at["share"], self._at["shares"])
        if settings.shuffle:
            order = random.Random(f"{settings.seed}-{self.epoch}-{rank}-{number}")  # noqa: S311 - a seed replays a run
            batches = self._shuffle_splits(splits, order)
        else:
            batches = iter(self._read.to_arrow_batch_reader(splits, parallelism=self._threads))
        batches = _after(batches, self._given)
        return self._count_rows(batches if settings.batch_size is None else sized_batches(batches, settings.batch_size))

    def _rows_before(self, at: Mapping[str, int]) -> int:
        """Return how many rows an earlier run has given of the share that is read now, as the loaded state says."""
        state, self._state = self._state, None
        if state is None or state["epoch"] != at["epoch"]:
            return 0
        if (state["share"], state["shares"]) != (at["share"], at["shares"]):
            raise InvalidInputError(
                f"this state is of share {state['share']} of {state['shares']}, and here share {at['share']} of "
                f"{at['shares']} is read (shares are ranks x workers): go on with as many, each with its own state"
            )
        return argument_checks.check_non_negative("rows", state["rows"])

    def _order(self) -> str:
        """Return a word for all that decides the order of rows, but epoch, rank and worker."""
        if self._word is None:
            settings = self._settings
            mixed = (settings.seed, settings.buffer_size, settings.max_buffer_input_splits) if settings.shuffle else ()
            digest = hashlib.sha256(repr((mixed, str(self._read.predicate), self._read.limit)).encode())
            for split in self._splits:
                files = [file.file_name for file in split.files]
                deleted = [None if one is None else (one.offset, one.cardinality) for one in split.deletion_files]
                digest.update(repr((files, split.row_ranges, deleted)).encode())
            self._word = digest.hexdigest()[:16]
        return self._word

    def _count_rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[object]:
        """Yield rows or batches in the form that was asked for, and count the rows that were given."""
        settings = self._settings
        for batch in batches:
            if settings.batch_format == "row":
                for row in batch.to_pylist():
                    self._given += 1
                    yield row
                continue
            self._given += batch.num_rows
            yield batch if settings.batch_format == "pyarrow" else (settings.to_tensor_fn or to_tensors)(batch)

    def _share(self, index: int, count: int) -> list[DataSplit]:
        """Return the splits of one worker of all; a read with a limit is the first worker's alone."""
        if self._read.limit is not None:
            return self._splits if index == 0 else []
        return shard_splits(self._splits, index, count)

    def _shuffle_splits(self, splits: Sequence[DataSplit], order: random.Random) -> Iterator[pa.RecordBatch]:
        """Yield blocks of rows in random order, made of several splits at a time."""
        waiting = list(splits)
        order.shuffle(waiting)
        # A limit counts over all splits, so that they are one read.
        sources = [[split] for split in waiting] if self._read.limit is None else [waiting]
        readers = (iter(self._read.to_arrow_batch_reader(source, parallelism=1)) for source in sources)
        mixed = _in_turns(readers, self._settings.max_buffer_input_splits)
        for block in sized_batches(mixed, self._settings.buffer_size):
            rows = list(range(block.num_rows))
            order.shuffle(rows)
            yield block.take(pa.array(rows, pa.int64()))


def rank_of(settings: TorchSettings) -> tuple[int, int]:
    """Return which of how many processes of a distributed training this one is; (0, 1) unless the settings say so."""
    if settings.sharding_rank is not None and settings.sharding_world_size is not None:
        return settings.sharding_rank, settings.sharding_world_size
    if not settings.auto_detect_rank:
        return 0, 1
    if (found := _distributed_rank()) is not None:
        return found
    rank, size = os.environ.get("RANK"), os.environ.get("WORLD_SIZE")
    if rank is None and size is None:
        return 0, 1
    if rank is None or size is None or not (rank.isdigit() and size.isdigit() and int(rank) < int(size)):
        raise InvalidInputError(
            "the environment variables RANK and WORLD_SIZE must be set together, to integers with "
            f"0 <= rank < world_size, and not to {rank!r} and {size!r}"
        )
    return int(rank), int(size)


def _distributed_rank() -> tuple[int, int] | None:
    """Return the rank and the number of ranks that torch.distributed knows; None if it was not started here."""
    distributed = torch.distributed
    if not (distributed.is_available() and distributed.is_initialized()):
        return None
    return distributed.get_rank(), distributed.get_world_size()


def sized_batches(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of batches again in batches of so many rows, the last of which may be smaller."""
    waiting: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        start = 0
        while count + batch.num_rows - start >= rows:
            taken = rows - count
            yield _join_batches([*waiting, batch.slice(start, taken)])
            waiting, count, start = [], 0, start + taken
        if start < batch.num_rows:
            waiting.append(batch.slice(start))
            count += batch.num_rows - start
    if waiting:
        yield _join_batches(waiting)


def to_tensors(batch: pa.RecordBatch) -> dict[str, object]:
    """Return the columns of a batch as tensors by name: numbers, booleans, and lists of them with equally many each."""
    named = zip(batch.schema.names, batch.columns, strict=True)
    return {name: torch.from_numpy(_values(name, column)) for name, column in named}


def _values(name: str, column: pa.Array) -> NDArray[np.generic]:
    """Return a column as an array of numbers; lists are its rows."""
    dtype = column.type
    if pa.types.is_integer(dtype) or pa.types.is_floating(dtype) or pa.types.is_boolean(dtype):
        if not column.null_count:
            return np.array(column.to_numpy(zero_copy_only=False))
        held = f"{column.null_count} nulls"
    elif pa.types.is_fixed_size_list(dtype) and not column.null_count:
        return _values(name, column.flatten()).reshape(len(column), dtype.list_size)
    elif not (pa.types.is_list(dtype) or pa.types.is_large_list(dtype)) or column.null_count:
        held = f"values of the type {dtype}" if not column.null_count else f"{column.null_count} nulls"
    else:
        sizes = set(np.diff(column.offsets.to_numpy()).tolist()) or {0}
        if len(sizes) == 1:
            inner = _values(name, column.flatten())
            return inner.reshape(len(column), *sizes, *inner.shape[1:])
        held = f"lists of {min(sizes)} to {max(sizes)} values in one batch"
    raise InvalidInputError(
        f"the column {name!r} has {held}, which no tensor holds: leave it out of the projection, fill the nulls, or "
        "give a to_tensor_fn",
        column=name,
    )


def _in_turns(readers: Iterator[Iterator[pa.RecordBatch]], at_once: int) -> Iterator[pa.RecordBatch]:
    """Yield a batch of each of some readers in turns; where one ends the next takes its place."""
    active = list(islice(readers, at_once))
    while active:
        for reader in list(active):
            batch = next(reader, None)
            if batch is not None:
                yield batch
                continue
            active.remove(reader)
            active.extend(islice(readers, 1))


def _after(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of batches after so many."""
    left = rows
    for batch in batches:
        if left < batch.num_rows:
            yield batch.slice(left) if left else batch
        left = max(0, left - batch.num_rows)


def _join_batches(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


def _check_rank(settings: TorchSettings) -> None:
    rank, size = settings.sharding_rank, settings.sharding_world_size
    if rank is None and size is None:
        return
    if settings.auto_detect_rank:
        raise InvalidInputError("explicit sharding context cannot be combined with auto_detect_rank=True")
    if rank is None or size is None:
        raise InvalidInputError("sharding_rank and sharding_world_size must be set together")
    if (
        not 0
        <= argument_checks.check_int("sharding_rank", rank)
        < argument_checks.check_int("sharding_world_size", size)
    ):
        raise InvalidInputError(f"rank must satisfy 0 <= rank < world_size, not {rank} of {size}")


def _needs_streaming(settings: TorchSettings) -> str:
    if settings.batch_format != "row":
        return f"batch_format={settings.batch_format!r} requires streaming=True"
    if settings.shuffle:
        return "shuffle=True only supports streaming=True"
    return "distributed sharding requires streaming=True, and so do the settings of shuffling"
