"""PyTorch datasets over splits. Where PyTorch is not installed a small stand-in gives the few names that are used."""

from __future__ import annotations

import importlib
import importlib.util
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lakewright as lw
from lakewright import pypaimon

COLUMNS = pa.schema([("id", pa.int64()), ("x", pa.float64()), ("s", pa.string())])
INSTALLED = importlib.util.find_spec("torch") is not None


class _Numbers(np.ndarray[Any, Any]):
    """An array in place of a tensor in shared memory."""

    def share_memory_(self) -> _Numbers:
        return self


def _zeros(size: int, **_: object) -> Any:  # noqa: ANN401 - in place of a tensor
    return np.zeros(size, np.int64).view(_Numbers)


def _stand_in() -> dict[str, ModuleType]:
    """Return modules with the names of PyTorch that the datasets use."""
    data = ModuleType("torch.utils.data")
    vars(data).update(
        Dataset=type("Dataset", (), {}), IterableDataset=type("IterableDataset", (), {}), get_worker_info=lambda: None
    )
    torch, utils = ModuleType("torch"), ModuleType("torch.utils")
    distributed = SimpleNamespace(is_available=lambda: False, is_initialized=lambda: False)
    vars(torch).update(utils=utils, from_numpy=lambda array: array, distributed=distributed, zeros=_zeros, int64=None)
    vars(utils).update(data=data)
    return {"torch": torch, "torch.utils": utils, "torch.utils.data": data}


@pytest.fixture(autouse=True)
def room(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    if not INSTALLED:
        for name, module in _stand_in().items():
            monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delitem(sys.modules, "lakewright.integrations.torch_datasets", raising=False)
    yield importlib.import_module("lakewright.integrations.torch_datasets")
    sys.modules.pop("lakewright.integrations.torch_datasets", None)


@pytest.fixture
def table(tmp_path: Path) -> lw.FileStoreTable:
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d")
    catalog.create_table("d.t", COLUMNS)
    made = catalog.get_table("d.t")
    for first in (0, 40, 70):
        ids = list(range(first, min(first + 40, 100) if first != 40 else 70))
        lw.write_table(pa.table({"id": ids, "x": [n / 2 for n in ids], "s": [f"s{n}" for n in ids]}), made)
    return made


def _as_worker(monkeypatch: pytest.MonkeyPatch, room: ModuleType, number: int, count: int) -> None:
    monkeypatch.setattr(room, "get_worker_info", lambda: SimpleNamespace(id=number, num_workers=count))


def _ids(dataset: Any) -> list[int]:  # noqa: ANN401 - a dataset of PyTorch
    return [row["id"] for row in dataset]


def test_rows_are_read_by_their_number(table: lw.FileStoreTable) -> None:
    builder = table.new_read_builder().with_filter("id < 5").with_projection(["id", "s"])
    dataset: Any = builder.new_read().to_torch(builder.new_scan().plan().splits())
    assert len(dataset) == 5
    assert dataset[3] == {"id": 3, "s": "s3"}
    assert dataset[-1] == {"id": 4, "s": "s4"}
    assert dataset.__getitems__([2, 0]) == [{"id": 2, "s": "s2"}, {"id": 0, "s": "s0"}]
    with pytest.raises(IndexError, match="no row 5"):
        dataset[5]


def test_a_stream_without_ranks_and_workers_reads_all(table: lw.FileStoreTable) -> None:
    dataset = table.new_read_builder().new_read().to_torch(streaming=True, prefetch_concurrency=3)
    assert _ids(dataset) == list(range(100))
    assert _ids(dataset) == list(range(100))
    assert _ids(pickle.loads(pickle.dumps(dataset))) == list(range(100))  # noqa: S301 - our own bytes


@pytest.mark.parametrize("shuffle", [False, True])
def test_shares_of_ranks_and_workers_are_disjoint_and_complete(
    table: lw.FileStoreTable, room: ModuleType, monkeypatch: pytest.MonkeyPatch, *, shuffle: bool
) -> None:
    read, seen, sizes = table.new_read_builder().new_read(), [], []
    for rank in range(2):
        dataset = read.to_torch(streaming=True, shuffle=shuffle, sharding_rank=rank, sharding_world_size=2)
        for worker in range(3):
            _as_worker(monkeypatch, room, worker, 3)
            share = _ids(dataset)
            seen += share
            sizes.append(len(share))
    assert sorted(seen) == list(range(100))
    assert max(sizes) - min(sizes) <= 1


def test_rows_are_shuffled_by_seed_and_epoch(table: lw.FileStoreTable) -> None:
    read = table.new_read_builder().new_read()
    dataset: Any = read.to_torch(streaming=True, shuffle=True, seed=7, buffer_size=32, max_buffer_input_splits=2)
    first = _ids(dataset)
    assert sorted(first) == list(range(100))
    assert first != list(range(100))
    assert _ids(dataset) == first
    dataset.set_epoch(1)
    assert _ids(dataset) != first
    assert sorted(_ids(dataset)) == list(range(100))


@pytest.mark.parametrize("shuffle", [False, True])
def test_a_run_goes_on_where_another_one_was(table: lw.FileStoreTable, *, shuffle: bool) -> None:
    read = table.new_read_builder().new_read()
    settings: dict[str, Any] = {"streaming": True, "shuffle": shuffle, "seed": 3, "buffer_size": 16}
    whole: Any = read.to_torch(**settings)
    whole.set_epoch(2)
    rows = _ids(whole)
    stopped: Any = read.to_torch(**settings)
    stopped.set_epoch(2)
    begun = iter(stopped)
    first = [next(begun)["id"] for _ in range(37)]
    state = stopped.state_dict()
    assert (state["epoch"], state["rows"]) == (2, 37)
    later: Any = read.to_torch(**settings)
    later.load_state_dict(pickle.loads(pickle.dumps(state)))  # noqa: S301 - our own bytes
    assert first + _ids(later) == rows
    assert _ids(later) == rows  # the next iteration begins at the start
    later.load_state_dict(state)
    later.set_epoch(3)
    assert len(_ids(later)) == 100  # another epoch has not begun yet


def test_a_state_of_another_order_is_refused(
    table: lw.FileStoreTable, room: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows would be left out or come twice if a run went on in another order, or as another worker."""
    builder, settings = table.new_read_builder(), {"streaming": True, "shuffle": True, "seed": 3}
    dataset: Any = builder.new_read().to_torch(**settings)  # type: ignore[arg-type]
    next(iter(dataset))
    state = dataset.state_dict()
    for other in (
        builder.new_read().to_torch(streaming=True, shuffle=True, seed=4),
        builder.new_read().to_torch(streaming=True),
        table.new_read_builder().with_filter("id > 5").new_read().to_torch(**settings),  # type: ignore[arg-type]
    ):
        with pytest.raises(lw.InvalidInputError, match="other splits, another filter or other settings"):
            other.load_state_dict(state)
    _as_worker(monkeypatch, room, 0, 2)
    dataset.load_state_dict(state)
    with pytest.raises(lw.InvalidInputError, match="share 0 of 1, and here share 0 of 2 is read"):
        next(iter(dataset))
    table.delete("id = 3")
    later: Any = table.new_read_builder().new_read().to_torch(**settings)  # type: ignore[arg-type]
    with pytest.raises(lw.InvalidInputError, match="read the same snapshot"):
        later.load_state_dict(state)


def test_the_state_of_workers_is_not_asked_of_another_process(
    table: lw.FileStoreTable, room: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset: Any = table.new_read_builder().new_read().to_torch(streaming=True)
    with monkeypatch.context() as patch:
        _as_worker(patch, room, 0, 1)
        next(iter(dataset))
        assert dataset.state_dict()["rows"] == 1
    with pytest.raises(lw.InvalidInputError, match="StatefulDataLoader"):
        dataset.state_dict()
    next(iter(dataset))
    assert dataset.state_dict()["rows"] == 1


def test_batches_go_on_where_another_run_was(table: lw.FileStoreTable) -> None:
    read = table.new_read_builder().new_read()
    settings: dict[str, Any] = {"streaming": True, "batch_format": "pyarrow", "batch_size": 8, "shuffle": True}
    whole = [batch["id"].to_pylist() for batch in read.to_torch(**settings)]
    stopped: Any = read.to_torch(**settings)
    begun = iter(stopped)
    first = [next(begun)["id"].to_pylist() for _ in range(5)]
    later: Any = read.to_torch(**settings)
    later.load_state_dict(stopped.state_dict())
    assert first + [batch["id"].to_pylist() for batch in later] == whole
    for wrong in ({}, {"epoch": 0, "rows": -1}, None):
        with pytest.raises(lw.InvalidInputError):
            later.load_state_dict(wrong)


def test_ranks_and_workers_read_only_the_columns_and_files_they_need(
    table: lw.FileStoreTable, room: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[lw.MetricsEvent] = []
    builder = table.new_read_builder().with_filter("id >= 70").with_projection(["id"])
    read, seen = builder.new_read(), []
    lw.add_metrics_hook(events.append)
    try:
        for rank in range(2):
            dataset = read.to_torch(streaming=True, shuffle=True, sharding_rank=rank, sharding_world_size=2)
            for worker in range(2):
                _as_worker(monkeypatch, room, worker, 2)
                seen += _ids(dataset)
    finally:
        lw.remove_metrics_hook(events.append)
    assert sorted(seen) == list(range(70, 100))
    assert {event.details["columns"] for event in events} == {("id",)}
    assert {event.files for event in events} <= {0, 1}
    assert sum(event.rows for event in events) == 30


def test_streams_give_batches_and_tensors(table: lw.FileStoreTable) -> None:
    read = table.new_read_builder().with_projection(["id", "x"]).new_read()
    batches = list(read.to_torch(streaming=True, batch_format="pyarrow", batch_size=30))
    assert [batch.num_rows for batch in batches] == [30, 30, 30, 10]
    assert pa.Table.from_batches(batches)["id"].to_pylist() == list(range(100))
    tensors: Any = next(iter(read.to_torch(streaming=True, batch_format="torch", batch_size=4)))
    assert tensors["x"].tolist() == [0.0, 0.5, 1.0, 1.5]
    made: Any = read.to_torch(
        streaming=True, batch_format="torch", batch_size=50, to_tensor_fn=lambda batch: batch.num_rows
    )
    assert list(made) == [50, 50]
    with pytest.raises(lw.InvalidInputError, match="the column 's' has values of the type string"):
        next(iter(table.new_read_builder().new_read().to_torch(streaming=True, batch_format="torch")))


def test_lists_of_one_length_are_tensors_of_more_dimensions(room: ModuleType) -> None:
    columns = {"v": pa.list_(pa.float32()), "w": pa.list_(pa.list_(pa.int8())), "ragged": pa.list_(pa.int64())}
    rows = {"v": [[1, 2]] * 3, "w": [[[1], [2]], [[3], [4]], [[5], [6]]], "ragged": [[1], [], [2, 3]]}
    batch = pa.RecordBatch.from_pydict(rows, pa.schema(columns)).slice(1)
    tensors = room.to_tensors(batch.select(["v", "w"]))
    assert tuple(tensors["v"].shape) == (2, 2)
    assert tensors["w"].tolist() == [[[3], [4]], [[5], [6]]]
    with pytest.raises(lw.InvalidInputError, match="'ragged' has lists of 0 to 2 values in one batch"):
        room.to_tensors(batch)
    holes = pa.RecordBatch.from_pydict({"v": [[1, None], [2, 3]]}, pa.schema({"v": pa.list_(pa.int64())}))
    with pytest.raises(lw.InvalidInputError, match="'v' has 1 nulls"):
        room.to_tensors(holes)


def test_a_limit_counts_over_all_workers(
    table: lw.FileStoreTable, room: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    for shuffle in (False, True):
        dataset = table.new_read_builder().with_limit(7).new_read().to_torch(streaming=True, shuffle=shuffle)
        rows = 0
        for worker in range(3):
            _as_worker(monkeypatch, room, worker, 3)
            rows += len(_ids(dataset))
        assert rows == 7


def test_the_rank_is_taken_from_the_environment(table: lw.FileStoreTable, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = table.new_read_builder().new_read().to_torch(streaming=True, auto_detect_rank=True)
    assert len(_ids(dataset)) == 100
    monkeypatch.setenv("RANK", "1")
    with pytest.raises(lw.InvalidInputError, match="must be set together"):
        _ids(dataset)
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert _ids(dataset) == list(range(25, 50))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"streaming": True, "batch_format": "csv"}, "batch_format must be one of"),
        ({"streaming": True, "batch_size": 0, "batch_format": "torch"}, "batch_size must be a positive int"),
        ({"streaming": True, "batch_size": 5}, "batch_size requires batch_format"),
        ({"streaming": True, "to_tensor_fn": len}, "to_tensor_fn requires batch_format='torch'"),
        ({"batch_format": "torch"}, "requires streaming=True"),
        ({"shuffle": True}, "shuffle=True only supports streaming=True"),
        ({"sharding_rank": 0, "sharding_world_size": 2}, "distributed sharding requires streaming=True"),
        ({"streaming": True, "sharding_rank": 0}, "must be set together"),
        ({"streaming": True, "sharding_rank": 2, "sharding_world_size": 2}, "0 <= rank < world_size"),
        ({"streaming": True, "shuffle": True, "prefetch_concurrency": 2}, "does not support prefetch_concurrency"),
        ({"streaming": True, "batchsize": 5}, "no argument 'batchsize'; did you mean 'batch_size'"),
        ({"streaming": "yes"}, "streaming"),
    ],
)
def test_wrong_settings_are_refused(table: lw.FileStoreTable, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        table.new_read_builder().new_read().to_torch(**settings)


def test_pypaimon_s_splits_are_taken(tmp_path: Path) -> None:
    catalog = pypaimon.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d", True)  # noqa: FBT003 - pypaimon's signature
    catalog.create_table("d.t", pypaimon.Schema.from_pyarrow_schema(COLUMNS))
    table: Any = catalog.get_table("d.t")
    lw.write_table(pa.table({"id": [1, 2], "x": [0.5, 1.5], "s": ["a", "b"]}), table)
    builder = table.new_read_builder()
    splits, read = builder.new_scan().plan().splits(), builder.new_read()
    assert _ids(read.to_torch(splits, streaming=True)) == [1, 2]
    assert len(read.to_torch(splits)) == 2


@pytest.mark.skipif(INSTALLED, reason="PyTorch is installed")
def test_without_pytorch_the_remedy_is_named(table: lw.FileStoreTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(lw.UnsupportedError, match=r"pip install 'lakewright\[torch\]'"):
        table.new_read_builder().new_read().to_torch()


@pytest.mark.skipif(not INSTALLED, reason="PyTorch is not installed")
def test_a_data_loader_with_workers_reads_each_row_once(table: lw.FileStoreTable) -> None:
    loader = importlib.import_module("torch.utils.data").DataLoader
    dataset = table.new_read_builder().with_projection(["id"]).new_read().to_torch(streaming=True)
    seen = [int(n) for batch in loader(dataset, batch_size=8, num_workers=2) for n in batch["id"]]
    assert sorted(seen) == list(range(100))


def _told(dataset: Any, ranks: int, rank: int, rendezvous: str, found: str) -> None:  # noqa: ANN401 - of PyTorch
    """Read the share of one rank of several, with a worker that is started anew; write what was read into a file."""
    distributed = importlib.import_module("torch.distributed")
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=ranks)
    loader = importlib.import_module("torch.utils.data").DataLoader
    seen = [int(n) for batch in loader(dataset, num_workers=1, multiprocessing_context="spawn") for n in batch["id"]]
    Path(found, str(rank)).write_text(" ".join(map(str, seen)))
    distributed.barrier()
    distributed.destroy_process_group()


@pytest.mark.processes
@pytest.mark.skipif(not INSTALLED, reason="PyTorch is not installed")
def test_workers_that_are_started_anew_know_the_rank(
    table: lw.FileStoreTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A spawned worker has no process group of its own: it would read every row of every rank."""
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    found = tmp_path / "found"
    found.mkdir()
    dataset = (
        table.new_read_builder().with_projection(["id"]).new_read().to_torch(streaming=True, auto_detect_rank=True)
    )
    context = importlib.import_module("multiprocessing").get_context("spawn")
    arguments = [(dataset, 2, rank, str(tmp_path / "rendezvous"), str(found)) for rank in range(2)]
    running = [context.Process(target=_told, args=given) for given in arguments]
    for process in running:
        process.start()
    for process in running:
        process.join(120)
        assert process.exitcode == 0
    shares = [[int(n) for n in file.read_text().split()] for file in found.iterdir()]
    assert sorted(map(len, shares)) == [50, 50]
    assert sorted(n for share in shares for n in share) == list(range(100))


@pytest.mark.processes
@pytest.mark.skipif(not INSTALLED, reason="PyTorch is not installed")
def test_workers_that_live_on_hear_of_another_epoch(table: lw.FileStoreTable) -> None:
    loader = importlib.import_module("torch.utils.data").DataLoader
    dataset: Any = table.new_read_builder().with_projection(["id"]).new_read().to_torch(streaming=True, shuffle=True)
    batches = loader(dataset, batch_size=None, num_workers=2, persistent_workers=True)
    epochs = []
    for epoch in (0, 1, 0):
        dataset.set_epoch(epoch)
        epochs.append([row["id"] for row in batches])
    assert epochs[0] == epochs[2] != epochs[1]
    assert all(sorted(rows) == list(range(100)) for rows in epochs)


@pytest.mark.processes
@pytest.mark.skipif(importlib.util.find_spec("torchdata") is None, reason="torchdata is not installed")
@pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")  # torchdata asks PyTorch for it
@pytest.mark.parametrize("workers", [0, 2])
def test_a_stateful_data_loader_goes_on(table: lw.FileStoreTable, workers: int) -> None:
    stateful = importlib.import_module("torchdata.stateful_dataloader").StatefulDataLoader
    read = table.new_read_builder().with_projection(["id"]).new_read()

    def loader() -> Any:  # noqa: ANN401 - of torchdata
        dataset = read.to_torch(streaming=True, shuffle=True, seed=1, buffer_size=16)
        return stateful(dataset, batch_size=8, num_workers=workers)

    whole = [batch["id"].tolist() for batch in loader()]
    stopped = loader()
    first = [batch["id"].tolist() for _, batch in zip(range(5), stopped, strict=False)]
    later = loader()
    later.load_state_dict(stopped.state_dict())
    assert first + [batch["id"].tolist() for batch in later] == whole
    assert [batch["id"].tolist() for batch in later] == whole  # the next epoch is a whole one
