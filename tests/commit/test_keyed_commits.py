"""Commits to primary-key tables: levels, upgrades, key hashes, numbers by snapshot. The contents do not matter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from lakewright.commit.commit_message import CommitMessage
from lakewright.errors import CommitConflictError, InvalidMessageError
from lakewright.metadata.schema_files import SchemaFiles
from lakewright.metadata.table_store import TableStore
from lakewright.spec.binary_row import encode_row
from lakewright.spec.manifest import (
    APPEND,
    COMPACT,
    DELETE,
    DELETION_VECTORS,
    EMPTY_ROW,
    HASH,
    DataFile,
    DeletionRange,
    IndexFile,
)
from lakewright.spec.schema import Schema, new_table_schema
from lakewright.spec.snapshot import CommitKind
from lakewright.spec.types import AtomicType, DataField
from lakewright.storage.local_storage import LocalStorage
from lakewright.storage.table_layout import Layout
from support.commits import committer, data_file, live_names
from support.read_tables import golden_store

BIGINT = AtomicType("BIGINT", nullable=False)


def new_store(root: Path, options: Mapping[str, str] | None = None) -> TableStore:
    fields = [DataField(0, "k", BIGINT), DataField(1, "v", AtomicType("BIGINT"))]
    schema = new_table_schema(Schema(fields, None, ["k"], {"bucket": "1", **(options or {})}), time_millis=1)
    store = TableStore("db.t", LocalStorage(durable=False), Layout(f"{root}/t"), schema)
    assert SchemaFiles(store.storage, store.layout).create(schema)
    return store


def keyed_file(name: str, low: int, high: int, *, level: int = 0, numbers: int = 0, **more: object) -> DataFile:
    file = data_file(
        f"{name}.parquet",
        rows=2,
        min_key=encode_row([low], [BIGINT]),
        max_key=encode_row([high], [BIGINT]),
        level=level,
        min_sequence_number=numbers,
        max_sequence_number=numbers + 1,
    )
    return replace(file, **more)  # type: ignore[arg-type]


def message(store: TableStore, bucket: int = 0, **changes: object) -> CommitMessage:
    """Return a message, after writing ten bytes for each new file."""
    total = store.options.bucket
    made = CommitMessage(EMPTY_ROW, bucket, total if total != -2 else 4, table=store.identity, schema_id=0)
    made = replace(made, **changes)  # type: ignore[arg-type]
    for file in (*made.new_files, *made.changelog_files, *made.compact_after, *made.compact_changelog_files):
        store.storage.create(store.layout.data_file("", bucket, file), b"0123456789")
    for index in (*made.new_index_files, *made.compact_new_index_files):
        store.storage.create(store.layout.index_file(index), b"0123456789")
    return made


def levels(store: TableStore) -> dict[str, int]:
    newest = store.snapshots.latest()
    assert newest is not None
    return {e.file.file_name.removesuffix(".parquet"): e.file.level for e in store.manifests.live(newest)}


def filled(root: Path, options: Mapping[str, str] | None = None) -> TableStore:
    """Return a table with two fresh files of the keys 0 to 9."""
    store = new_store(root, options)
    for number, name in enumerate(("a", "b")):
        file = keyed_file(name, 0, 9, numbers=2 * number)
        committer(store).commit([message(store, new_files=(file,))])
    return store


def compaction(store: TableStore, *before: DataFile, after: DataFile, **more: object) -> CommitMessage:
    return message(store, 0, **{"compact_before": before, "compact_after": (after,), **more})


A, B = keyed_file("a", 0, 9), keyed_file("b", 0, 9, numbers=2)


def test_an_upgrade_keeps_the_name_and_changes_the_level(tmp_path: Path) -> None:
    store = filled(tmp_path)
    up = compaction(store, A, after=replace(A, level=5))
    snapshot = committer(store).commit([up])
    assert snapshot is not None
    assert (snapshot.commit_kind, snapshot.delta_record_count) == (CommitKind.COMPACT, 0)
    assert levels(store) == {"a": 5, "b": 0}
    # The same messages again, in every way that a replay can come.
    assert committer(store).commit([up]) == snapshot
    later = committer(store)
    later.clock = lambda: 2**42
    assert later.commit([up]) == snapshot
    committer(store).abort([up])
    assert store.storage.exists(store.layout.data_file("", 0, A))


def test_another_upgrade_of_the_file_is_not_mistaken_for_ours(tmp_path: Path) -> None:
    store = filled(tmp_path)
    mine, theirs = compaction(store, A, after=replace(A, level=4)), compaction(store, A, after=replace(A, level=5))
    committer(store).commit([theirs])
    with pytest.raises(CommitConflictError):
        committer(store).commit([mine])
    assert levels(store) == {"a": 5, "b": 0}
    again = compaction(store, replace(A, level=5), after=replace(A, level=4))
    late = committer(store)
    late.clock = lambda: 2**42
    assert late.commit([again]) is not None
    assert levels(store) == {"a": 4, "b": 0}


def test_files_of_a_level_must_stay_apart(tmp_path: Path) -> None:
    store = filled(tmp_path)
    committer(store).commit([compaction(store, A, after=replace(A, level=5))])
    with pytest.raises(CommitConflictError, match="would share keys"):
        committer(store).commit([compaction(store, B, after=keyed_file("c", 9, 12, level=5))])
    assert levels(store) == {"a": 5, "b": 0}
    committer(store).commit([compaction(store, B, after=keyed_file("d", 10, 12, level=5))])
    assert levels(store) == {"a": 5, "d": 5}
    # Rows that go to a deeper level without compaction are checked too.
    with pytest.raises(CommitConflictError, match="would share keys"):
        committer(store).commit([message(store, new_files=(keyed_file("e", 3, 4, level=5, numbers=9),))])


def test_of_two_compactions_of_one_file_one_fails(tmp_path: Path) -> None:
    store = filled(tmp_path)
    one = compaction(store, A, B, after=keyed_file("c", 0, 9, level=5, numbers=2))
    two = compaction(store, A, B, after=keyed_file("d", 0, 9, level=5, numbers=2))
    committer(store).commit([one])
    with pytest.raises(CommitConflictError, match="gone"):
        committer(store).commit([two])
    assert live_names(store) == ["c"]


def test_a_changelog_belongs_to_its_snapshot(tmp_path: Path) -> None:
    store = new_store(tmp_path, {"changelog-producer": "input"})
    first = message(store, new_files=(A,), changelog_files=(keyed_file("log-a", 0, 9),))
    snapshot = committer(store).commit([first])
    assert snapshot is not None
    assert snapshot.changelog_record_count == 2
    log = keyed_file("log-c", 0, 9)
    packed = compaction(store, A, after=keyed_file("c", 0, 9, level=5), compact_changelog_files=(log,))
    compacted = committer(store).commit([packed])
    assert compacted is not None
    names = [[e.file.file_name for e in store.manifests.changelog(s)] for s in (snapshot, compacted)]
    assert names == [["log-a.parquet"], ["log-c.parquet"]]
    plain = committer(store).commit([message(store, new_files=(keyed_file("d", 0, 9, numbers=7),))])
    assert plain is not None
    assert (plain.changelog_manifest_list, plain.changelog_record_count) == (None, None)


def hashes(name: str) -> IndexFile:
    return IndexFile(HASH, name, 10, 2)


def index_names(store: TableStore) -> list[str]:
    newest = store.snapshots.latest()
    assert newest is not None
    if newest.index_manifest is None:
        return []
    return sorted(e.file.file_name for e in store.manifests.read_index(newest.index_manifest))


def test_dynamic_buckets_grow_one_writer_at_a_time(tmp_path: Path) -> None:
    store = new_store(tmp_path, {"bucket": "-1"})

    def grown(name: str, base: tuple[str, ...], bucket: int = 0, numbers: int = 0) -> CommitMessage:
        new = (keyed_file(name, 0, 9, numbers=numbers),)
        return message(store, bucket, new_files=new, new_index_files=(hashes(f"h-{name}"),), hash_base=base)

    first, rival = grown("a", ()), grown("x", ())
    committer(store).commit([first, grown("b", (), bucket=1)])
    with pytest.raises(CommitConflictError, match="write the data again"):
        committer(store).commit([rival])
    assert index_names(store) == ["h-a", "h-b"]
    known = message(store, new_files=(keyed_file("c", 0, 9, numbers=20),), hash_base=("h-a", "h-b"))
    committer(store).commit([known])
    assert index_names(store) == ["h-a", "h-b"]
    committer(store).commit([grown("d", ("h-a", "h-b"), numbers=30)])
    assert index_names(store) == ["h-b", "h-d"]


def test_a_replay_is_recognised_before_its_hashes_are_compared(tmp_path: Path) -> None:
    store = new_store(tmp_path, {"bucket": "-1"})
    mine = message(store, new_files=(A,), new_index_files=(hashes("h1"),), hash_base=())
    snapshot = committer(store).commit([mine])
    more = message(store, new_files=(B,), new_index_files=(hashes("h2"),), hash_base=("h1",))
    committer(store).commit([more])
    assert committer(store).commit([mine]) == snapshot


def test_an_overwrite_needs_no_hashes_of_before(tmp_path: Path) -> None:
    store = new_store(tmp_path, {"bucket": "-1"})
    committer(store).commit([message(store, new_files=(A,), new_index_files=(hashes("h1"),), hash_base=())])
    anew = message(store, new_files=(B,), new_index_files=(hashes("h2"),), hash_base=())
    committer(store).overwrite([anew])
    assert index_names(store) == ["h2"]


def test_rows_routed_by_hashes_may_meet_deletion_vectors(tmp_path: Path) -> None:
    store = new_store(tmp_path, {"bucket": "-1", "deletion-vectors.enabled": "true"})
    old = keyed_file("a", 0, 9, level=5)
    first = message(store, new_files=(A,), new_index_files=(hashes("h1"),), hash_base=())
    committer(store).commit([first])
    vectors = IndexFile(DELETION_VECTORS, "v1", 10, 1, (DeletionRange("a.parquet", 1, 2, 1),))
    committer(store).commit([compaction(store, A, after=old, compact_new_index_files=(vectors,))])
    grown = message(store, new_files=(B,), new_index_files=(hashes("h2"),), hash_base=("h1",))
    committer(store).commit([grown])
    assert index_names(store) == ["h2", "v1"]
    # A bucket has one file of vectors, also where the number of buckets is not fixed.
    none_left = IndexFile(DELETION_VECTORS, "v2", 10, 0, ())
    packed = keyed_file("c", 0, 9, level=5)
    with pytest.raises(CommitConflictError, match="deleted or rewritten"):
        committer(store).commit([compaction(store, old, after=packed)])
    committer(store).commit([compaction(store, old, after=packed, compact_new_index_files=(none_left,))])
    assert index_names(store) == ["h2", "v2"]


def test_vectors_that_somebody_else_replaced_are_a_conflict(tmp_path: Path) -> None:
    store = filled(tmp_path, {"deletion-vectors.enabled": "true"})
    up = replace(A, level=5)

    def vectors(name: str) -> tuple[IndexFile, ...]:
        return (IndexFile(DELETION_VECTORS, name, 10, 1, (DeletionRange("a.parquet", 1, 2, 1),)),)

    committer(store).commit([compaction(store, A, after=up, compact_new_index_files=vectors("v1"))])
    mine, theirs = (
        message(store, compact_new_index_files=vectors(name), compact_deleted_index_files=vectors("v1"))
        for name in ("v2", "v3")
    )
    committer(store).commit([theirs])
    with pytest.raises(CommitConflictError, match="gone"):
        committer(store).commit([mine])
    assert index_names(store) == ["v3"]


def test_an_overwrite_puts_its_files_on_the_deepest_level(tmp_path: Path) -> None:
    store = filled(tmp_path, {"bucket": "2"})
    apart = (keyed_file("c", 0, 4), keyed_file("d", 5, 9))
    overlapping = (keyed_file("e", 0, 5), keyed_file("f", 5, 9))
    overwritten = [message(store, new_files=apart), message(store, 1, new_files=overlapping)]
    snapshot = committer(store).overwrite(overwritten)
    assert levels(store) == {"c": 5, "d": 5, "e": 0, "f": 0}
    assert committer(store).overwrite(overwritten) == snapshot
    assert snapshot is not None
    assert sum(e.kind == DELETE for e in store.manifests.delta(snapshot)) == 2
    for options, wanted in (({"overwrite-upgrade": "false"}, 0), ({"num-levels": "3"}, 2)):
        other = store.with_schema(store.schema.with_options(options))
        committer(other).overwrite([message(store, new_files=(keyed_file(f"g{wanted}", 0, 4),))])
        assert levels(store) == {f"g{wanted}": wanted}
    committer(store).overwrite([message(store, new_files=(keyed_file("h", 0, 4, delete_row_count=1),))])
    assert levels(store) == {"h": 0}


def test_java_puts_them_there_too() -> None:
    store = golden_store("meta.overwrite_pk")
    newest = store.snapshots.latest()
    assert newest is not None
    overwritten = [store.snapshots.get(i) for i in store.snapshots.ids()]
    kinds = {s.commit_kind for s in overwritten}
    assert CommitKind.OVERWRITE in kinds
    last = max((s for s in overwritten if s.commit_kind is CommitKind.OVERWRITE), key=lambda s: s.id)
    added = [e for e in store.manifests.delta(last) if e.kind != DELETE]
    assert {e.file.level for e in added} == {store.options.level_count - 1}


def test_rows_may_be_numbered_by_their_snapshot(tmp_path: Path) -> None:
    store = new_store(tmp_path, {"sequence.snapshot-ordering": "true", "write-only": "true"})
    for name in ("a", "b", "c"):
        committer(store).commit([message(store, new_files=(keyed_file(name, 0, 9, file_source=APPEND),))])
    newest = store.snapshots.latest()
    assert newest is not None
    entries = {e.file.file_name: e.file for e in store.manifests.live(newest)}
    numbers = {n: (f.min_sequence_number, f.max_sequence_number) for n, f in entries.items()}
    assert numbers == {"a.parquet": (1, 1), "b.parquet": (2, 2), "c.parquet": (3, 3)}
    before = tuple(entries[name] for name in ("a.parquet", "b.parquet"))
    packed = keyed_file("d", 0, 9, level=5, numbers=1, file_source=COMPACT)
    up = replace(entries["c.parquet"], level=4)
    moved = message(store, compact_before=(*before, entries["c.parquet"]), compact_after=(packed, up))
    compacted = committer(store).commit([moved])
    assert compacted is not None
    numbers = {
        e.file.file_name: (e.file.min_sequence_number, e.file.max_sequence_number)
        for e in store.manifests.live(compacted)
    }
    assert numbers == {"d.parquet": (1, 2), "c.parquet": (3, 3)}


def test_writers_that_do_not_look_at_files_are_told_the_highest_number(tmp_path: Path) -> None:
    key = "sequence.generation.max-sequence-number"
    store = filled(tmp_path, {"write.sequence-number-init-mode": "snapshot", "write-only": "true"})
    assert [store.snapshots.get(i).properties for i in (1, 2)] == [{key: "1"}, {key: "3"}]
    committer(store).commit([compaction(store, A, after=replace(A, level=5))], properties={"mine": "x"})
    assert store.snapshots.get(3).properties[key] == "3"
    plain = filled(tmp_path / "plain")
    assert plain.snapshots.get(2).properties == {}
    later = plain.with_schema(plain.schema.with_options({"write.sequence-number-init-mode": "snapshot"}))
    committer(later).commit([message(later, new_files=(keyed_file("c", 0, 9, numbers=9),))])
    assert later.snapshots.get(3).properties == {}  # nobody knows what the files before it have


def test_real_buckets_of_a_postpone_table_must_agree(tmp_path: Path) -> None:
    store = new_store(tmp_path, {"bucket": "-2"})
    waiting = replace(message(store, -2), total_buckets=-2, new_files=(keyed_file("p", 0, 9),))
    store.storage.create(store.layout.data_file("", -2, waiting.new_files[0]), b"0123456789")
    committer(store).commit([waiting])
    committer(store).commit([message(store, new_files=(A,))])
    for total, name in ((8, "x"), (4, "y")):
        file = keyed_file(name, 0, 9, numbers=50)
        other = message(store, new_files=(file,), total_buckets=total)
        if total == 4:
            committer(store).commit([other])
            continue
        with pytest.raises(CommitConflictError, match="buckets"):
            committer(store).commit([other])
    # Distributing what waits is no overwrite of the partition either.
    wrong = message(store, total_buckets=8, new_files=(keyed_file("z", 0, 9, numbers=60),))
    gone = replace(waiting, new_files=(), deleted_files=waiting.new_files)
    with pytest.raises(CommitConflictError, match="buckets"):
        committer(store).commit([gone, wrong])
    right = message(store, new_files=(keyed_file("q", 0, 9, numbers=70),))
    committer(store).commit([gone, right])
    assert live_names(store) == ["a", "q", "y"]


def test_two_messages_cannot_both_replace_the_hashes_of_a_bucket(tmp_path: Path) -> None:
    store = new_store(tmp_path, {"bucket": "-1"})
    pair = [
        message(store, new_files=(file,), new_index_files=(hashes(name),), hash_base=())
        for file, name in ((A, "h1"), (B, "h2"))
    ]
    with pytest.raises((CommitConflictError, InvalidMessageError)):
        committer(store).commit(pair)
