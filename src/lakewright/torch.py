"""PyTorch datasets over splits: a read and its splits in, rows or batches out; every rank and worker reads its share.

What always holds: the shares of all ranks and of all workers of their data loaders are disjoint, and together they are
the splits. Shares are equal to the row, except where rows of one key lie in several files and are merged.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import islice

import numpy as np
import pyarrow as pa
import torch
from torch.utils.data import Dataset, IterableDataset, get_worker_info

from lakewright.errors import InvalidInputError
from lakewright.read.builder import TableRead
from lakewright.read.splits.plan import sharded
from lakewright.read.splits.split import DataSplit
from lakewright.spec import arguments

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
                raise InvalidInputError(f"to_torch has no argument {name!r}; {arguments.did_you_mean(name, known)}")
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
            arguments.flag(name, getattr(self, name))
        arguments.whole("seed", self.seed)
        for name in ("buffer_size", "max_buffer_input_splits", "batch_size"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
                raise InvalidInputError(f"{name} must be a positive int, not {arguments.shown(value)}")
        if self.batch_size is not None and self.batch_format == "row":
            raise InvalidInputError("batch_size requires batch_format='pyarrow' or 'torch'")
        if self.to_tensor_fn is not None:
            arguments.function("to_tensor_fn", self.to_tensor_fn)
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
    checked = TorchSettings.of(settings, streaming=arguments.flag("streaming", streaming))
    threads = arguments.positive("prefetch_concurrency", threads)
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
        self.epoch = 0
        self._skipped = 0  # rows that the next iteration leaves out, as an earlier one has given them
        self._given = 0

    def set_epoch(self, epoch: int) -> None:
        """Let the next iteration shuffle in another order; call it before the data loader starts its workers."""
        self.epoch = arguments.count("epoch", epoch)

    def state_dict(self) -> dict[str, int]:
        """Return how far the iteration of this rank and worker has come, for `load_state_dict` of a later run."""
        return {"epoch": self.epoch, "rows": self._given}

    def load_state_dict(self, state_dict: Mapping[str, int]) -> None:
        """Let the next iteration go on where another one was, with the same splits, settings, ranks and workers.

        Rows come in an order that only these decide, shuffled or not, so that each is given once.
        """
        state = arguments.mapping("state_dict", state_dict)
        self.epoch = arguments.count("epoch", state.get("epoch"))
        self._skipped = arguments.count("rows", state.get("rows"))

    def __iter__(self) -> Iterator[object]:
        settings, worker = self._settings, get_worker_info()
        rank, ranks = rank_of(settings)
        number, workers = (0, 1) if worker is None else (worker.id, worker.num_workers)
        splits = self._share(rank * workers + number, ranks * workers)
        if settings.shuffle:
            order = random.Random(f"{settings.seed}-{self.epoch}-{rank}-{number}")  # noqa: S311 - a seed replays a run
            batches = self._shuffled(splits, order)
        else:
            batches = iter(self._read.to_arrow_batch_reader(splits, parallelism=self._threads))
        self._given, self._skipped = self._skipped, 0
        batches = _after(batches, self._given)
        return self._counted(batches if settings.batch_size is None else sized_batches(batches, settings.batch_size))

    def _counted(self, batches: Iterator[pa.RecordBatch]) -> Iterator[object]:
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
        return sharded(self._splits, index, count)

    def _shuffled(self, splits: Sequence[DataSplit], order: random.Random) -> Iterator[pa.RecordBatch]:
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
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    rank, size = os.environ.get("RANK"), os.environ.get("WORLD_SIZE")
    if rank is None and size is None:
        return 0, 1
    if rank is None or size is None or not (rank.isdigit() and size.isdigit() and int(rank) < int(size)):
        raise InvalidInputError(
            "the environment variables RANK and WORLD_SIZE must be set together, to integers with "
            f"0 <= rank < world_size, and not to {rank!r} and {size!r}"
        )
    return int(rank), int(size)


def sized_batches(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of batches again in batches of so many rows, the last of which may be smaller."""
    waiting: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        start = 0
        while count + batch.num_rows - start >= rows:
            taken = rows - count
            yield _joined([*waiting, batch.slice(start, taken)])
            waiting, count, start = [], 0, start + taken
        if start < batch.num_rows:
            waiting.append(batch.slice(start))
            count += batch.num_rows - start
    if waiting:
        yield _joined(waiting)


def to_tensors(batch: pa.RecordBatch) -> dict[str, object]:
    """Return the columns of a batch as tensors by name; only numbers and booleans without nulls can be tensors."""
    tensors: dict[str, object] = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        dtype = column.type
        numeric = pa.types.is_integer(dtype) or pa.types.is_floating(dtype) or pa.types.is_boolean(dtype)
        if not numeric or column.null_count:
            held = f"{column.null_count} nulls" if numeric else f"values of the type {dtype}"
            raise InvalidInputError(
                f"the column {name!r} has {held}, which no tensor holds: leave it out of the projection, fill the "
                "nulls, or give a to_tensor_fn",
                column=name,
            )
        tensors[name] = torch.from_numpy(np.array(column.to_numpy(zero_copy_only=False)))
    return tensors


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


def _joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
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
    if not 0 <= arguments.whole("sharding_rank", rank) < arguments.whole("sharding_world_size", size):
        raise InvalidInputError(f"rank must satisfy 0 <= rank < world_size, not {rank} of {size}")


def _needs_streaming(settings: TorchSettings) -> str:
    if settings.batch_format != "row":
        return f"batch_format={settings.batch_format!r} requires streaming=True"
    if settings.shuffle:
        return "shuffle=True only supports streaming=True"
    return "distributed sharding requires streaming=True, and so do the settings of shuffling"
