"""The storages for proofs: what a power cut leaves, and what a planned fault does."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable

import pytest

from contract.faulty_storage import Call, Crash, Fault, FaultKind, FaultyStorage, MemoryStorage
from lakewright.errors import InvalidInputError

_NUMBERS = itertools.count()
SEEDS = range(60)


@pytest.fixture
def memory() -> MemoryStorage:
    return MemoryStorage(f"proof-{next(_NUMBERS)}")


def _faulty(memory: MemoryStorage, kind: FaultKind, call: int = 1) -> FaultyStorage:
    return FaultyStorage(memory, [Fault(call, kind)])


def _outcomes(memory: MemoryStorage, path: str) -> set[bytes | None]:
    """Return what stands at a path after power cuts with many seeds from the same state."""
    found = set()
    disk = memory._disk
    start = {name: (file.data, file.kept) for name, file in disk.files.items()}
    for seed in SEEDS:
        memory.crash(seed)
        found.add(memory.read(path) if memory.exists(path) else None)
        disk.files.clear()
        for name, (data, kept) in start.items():
            disk.put(name, b"", synced=False)
            disk.files[name].data, disk.files[name].kept = data, kept
    return found


def test_what_was_acknowledged_survives_a_power_cut(memory: MemoryStorage) -> None:
    memory.create(f"{memory.root}/a", b"1")
    memory.replace(f"{memory.root}/b", b"2")
    output = memory.open_output(f"{memory.root}/c")
    output.write(b"3")
    output.close()
    assert memory.unsynced() == ()
    assert [_outcomes(memory, f"{memory.root}/{name}") for name in "abc"] == [{b"1"}, {b"2"}, {b"3"}]


def test_an_open_file_is_kept_cut_or_lost(memory: MemoryStorage) -> None:
    memory.open_output(f"{memory.root}/a").write(b"12")
    assert memory.unsynced() == (f"{memory.root}/a",)
    assert _outcomes(memory, f"{memory.root}/a") == {None, b"", b"1", b"12"}


def test_a_deleted_file_may_come_back(memory: MemoryStorage) -> None:
    memory.create(f"{memory.root}/a", b"1")
    memory.delete(f"{memory.root}/a")
    assert not memory.exists(f"{memory.root}/a")
    assert _outcomes(memory, f"{memory.root}/a") == {None, b"1"}


def test_a_throw_away_storage_keeps_nothing_for_sure(memory: MemoryStorage) -> None:
    fast = MemoryStorage(memory.name, durable=False)
    memory.create(f"{memory.root}/a", b"old")
    fast.replace(f"{memory.root}/a", b"new")
    fast.create(f"{memory.root}/b", b"2")
    assert _outcomes(fast, f"{memory.root}/a") >= {b"old", b"new", b"n"}
    assert _outcomes(fast, f"{memory.root}/b") == {None, b"", b"2"}


def test_a_seed_replays_a_power_cut(memory: MemoryStorage) -> None:
    def run(seed: int) -> object:
        memory.clear()
        fast = MemoryStorage(memory.name, durable=False)
        for number in range(20):
            fast.create(f"{memory.root}/{number}", b"content")
        memory.crash(seed)
        return memory.image()

    assert run(5) == run(5)
    assert run(5) != run(6)


def test_a_file_opened_before_the_power_cut_is_dead(memory: MemoryStorage) -> None:
    output = memory.open_output(f"{memory.root}/a")
    memory.crash(0)
    for call in (lambda: output.write(b"1"), output.close, output.discard):
        with pytest.raises(OSError, match="power cut"):
            call()


def test_an_image_brings_everything_back(memory: MemoryStorage) -> None:
    memory.create(f"{memory.root}/t/a", b"1")
    memory.make_directory(f"{memory.root}/empty")
    image = memory.image()
    memory.delete_directory(f"{memory.root}/t")
    memory.create(f"{memory.root}/b", b"1")
    memory.restore(image)
    assert [info.path for info in memory.walk(memory.root)] == [f"{memory.root}/t/a"]
    assert list(memory.list_directories(memory.root)) == [f"{memory.root}/empty", f"{memory.root}/t"]


def test_files_can_be_made_older(memory: MemoryStorage) -> None:
    memory.create(f"{memory.root}/a", b"1")
    before = next(memory.list(memory.root)).modified_millis
    memory.age(86_400_000)
    assert next(memory.list(memory.root)).modified_millis == before - 86_400_000


def test_a_name_is_all_it_takes(memory: MemoryStorage) -> None:
    copy = pickle.loads(pickle.dumps(memory))  # noqa: S301 - made here
    copy.create(f"{memory.root}/a", b"1")
    assert memory.read(f"{memory.root}/a") == b"1"


@pytest.mark.parametrize("path", ["/etc/x", "memory://other/x", "memory://proof-x/../y"])
def test_memory_has_an_outside_too(path: str) -> None:
    with pytest.raises(InvalidInputError):
        MemoryStorage("proof-x").create(path, b"1")


@pytest.mark.parametrize(
    ("kind", "error", "happened"),
    [
        (FaultKind.ERROR_BEFORE, OSError, False),
        (FaultKind.ERROR_AFTER, OSError, True),
        (FaultKind.CRASH_BEFORE, Crash, False),
        (FaultKind.CRASH_AFTER, Crash, True),
        (FaultKind.SHORT_WRITE, OSError, False),
        (FaultKind.DISK_FULL, OSError, False),
        (FaultKind.UNAVAILABLE, OSError, False),
    ],
)
def test_a_fault_comes_before_or_after_the_effect(
    memory: MemoryStorage, kind: FaultKind, error: type[BaseException], happened: bool
) -> None:
    calls: list[Callable[[FaultyStorage], object]] = [
        lambda storage: storage.create(f"{memory.root}/a", b"1"),
        lambda storage: storage.replace(f"{memory.root}/a", b"1"),
        lambda storage: storage.open_output(f"{memory.root}/a"),
    ]
    for call in calls:
        memory.clear()
        with pytest.raises(error):
            call(_faulty(memory, kind))
        assert memory.exists(f"{memory.root}/a") is happened


def test_replies_of_object_stores_can_mislead(memory: MemoryStorage) -> None:
    assert _faulty(memory, FaultKind.CONFLICT).create(f"{memory.root}/a", b"1") is False
    assert not memory.exists(f"{memory.root}/a")
    assert _faulty(memory, FaultKind.PRECONDITION).create(f"{memory.root}/a", b"1") is False
    assert memory.read(f"{memory.root}/a") == b"1"
    for kind in (FaultKind.CONFLICT, FaultKind.PRECONDITION):
        with pytest.raises(OSError, match=kind.value):
            _faulty(memory, kind).replace(f"{memory.root}/a", b"2")
    assert memory.read(f"{memory.root}/a") == b"1"


def test_only_the_planned_call_fails(memory: MemoryStorage) -> None:
    storage = _faulty(memory, FaultKind.ERROR_BEFORE, call=2)
    storage.create(f"{memory.root}/a", b"1")
    with pytest.raises(OSError, match="call 2"):
        storage.create(f"{memory.root}/b", b"1")
    assert storage.create(f"{memory.root}/b", b"1")
    assert storage.calls == [
        Call("create", f"{memory.root}/a"),
        Call("create", f"{memory.root}/b"),
        Call("create", f"{memory.root}/b"),
    ]


def test_a_full_disk_stays_full_but_can_be_read_and_tidied(memory: MemoryStorage) -> None:
    memory.create(f"{memory.root}/a", b"1")
    storage = _faulty(memory, FaultKind.DISK_FULL, call=2)
    output = storage.open_output(f"{memory.root}/b")
    for call in (lambda: output.write(b"1"), output.close, lambda: storage.create(f"{memory.root}/c", b"1")):
        with pytest.raises(OSError, match="disk full"):
            call()
    assert storage.read(f"{memory.root}/a") == b"1"
    output.discard()
    storage.delete(f"{memory.root}/a")
    assert list(memory.walk(memory.root)) == []


def test_nobody_tidies_up_after_a_crash(memory: MemoryStorage) -> None:
    storage = _faulty(memory, FaultKind.CRASH_BEFORE, call=3)
    output = storage.open_output(f"{memory.root}/a")
    output.write(b"1")
    with pytest.raises(Crash, match="call 3"):
        output.close()
    assert storage.dead
    for call in (
        output.discard,
        output.close,
        lambda: output.write(b"2"),
        lambda: storage.delete(f"{memory.root}/a"),
        lambda: storage.list(memory.root),
        lambda: storage.exists(f"{memory.root}/a"),
    ):
        with pytest.raises(Crash):
            call()
    assert not issubclass(Crash, Exception)
    assert memory.read(f"{memory.root}/a") == b"1"
    assert len(storage.calls) == 3


def test_a_short_write_leaves_half(memory: MemoryStorage) -> None:
    storage = _faulty(memory, FaultKind.SHORT_WRITE, call=2)
    output = storage.open_output(f"{memory.root}/a")
    with pytest.raises(OSError, match="short write"):
        output.write(b"1234")
    assert memory.read(f"{memory.root}/a") == b"12"


def test_a_slow_call_lets_others_move_first(memory: MemoryStorage) -> None:
    path = f"{memory.root}/a"
    plan = [Fault(1, FaultKind.SLOW)]
    storage = FaultyStorage(memory, plan, pause=lambda: memory.replace(path, b"theirs"))
    assert storage.create(path, b"mine") is False
    assert memory.read(path) == b"theirs"


def test_a_stale_listing_hides_what_we_made(memory: MemoryStorage) -> None:
    memory.create(f"{memory.root}/old", b"1")
    storage = _faulty(memory, FaultKind.STALE_LISTING, call=2)
    storage.create(f"{memory.root}/new", b"1")
    assert [info.path for info in storage.list(memory.root)] == [f"{memory.root}/old"]
    assert [info.path for info in storage.list(memory.root)] == [f"{memory.root}/new", f"{memory.root}/old"]
