from __future__ import annotations

from dataclasses import replace

import pytest

from lakewright.commit.commit_changes import (
    Change,
    TargetFacts,
    append_change,
    assign_row_ids,
    check_messages,
    compact_change,
    record_count,
)
from lakewright.commit.commit_message import CommitMessage
from lakewright.commit.commit_plan import (
    WHOLE_TABLE,
    PartitionSelection,
    overwrite_change,
    partitions_by_specs,
    partitions_of_files,
)
from lakewright.errors import InvalidInputError, InvalidMessageError, UnsupportedError
from lakewright.spec.binary_row import encode_row
from lakewright.spec.manifest import ADD, COMPACT, DELETE, DELETION_VECTORS, HASH, IndexEntry, IndexFile, ManifestEntry
from lakewright.spec.snapshot import CommitKind
from lakewright.spec.types import AtomicType, DataField
from support.commits import data_file

RECEIVER = TargetFacts("db.t", "me", frozenset({0}), -1, has_primary_key=False, row_tracking=False)
ROW = bytes(12)


def made(*names: str, **more: object) -> CommitMessage:
    files = tuple(data_file(name) for name in names)
    base = CommitMessage(partition_bytes=ROW, bucket=0, total_buckets=-1, new_files=files, table="me", schema_id=0)
    return replace(base, **more)  # type: ignore[arg-type]


def entry(kind: int, name: str, partition: bytes = ROW, bucket: int = 0, **more: object) -> ManifestEntry:
    return ManifestEntry(kind, partition, bucket, -1, data_file(name, **more))  # type: ignore[arg-type]


def test_messages_become_an_append_group_and_a_compact_group() -> None:
    index = IndexFile(HASH, "i", 1, 1)
    message = made(
        "new",
        deleted_files=(data_file("old"),),
        changelog_files=(data_file("log"),),
        new_index_files=(index,),
        deleted_index_files=(replace(index, file_name="j"),),
        compact_before=(data_file("before"),),
        compact_after=(data_file("after"),),
        compact_changelog_files=(data_file("clog"),),
        total_buckets=None,
    )
    append, compact = append_change([message], 5), compact_change([message], 5)
    assert [(e.kind, e.file.file_name, e.total_buckets) for e in append.entries] == [
        (DELETE, "old", 5),
        (ADD, "new", 5),
    ]
    assert [e.file.file_name for e in append.changelog] == ["log"]
    assert [(e.kind, e.file.file_name) for e in append.index] == [(DELETE, "j"), (ADD, "i")]
    assert [(e.kind, e.file.file_name) for e in compact.entries] == [(DELETE, "before"), (ADD, "after")]
    assert [e.file.file_name for e in compact.changelog] == ["clog"]
    assert compact.index == ()
    assert Change().is_empty
    assert not append.is_empty


def test_index_deletes_of_all_messages_come_before_the_adds() -> None:
    one = made(new_index_files=(IndexFile(HASH, "a", 1, 1),))
    two = made(deleted_index_files=(IndexFile(HASH, "b", 1, 1),))
    assert [e.kind for e in append_change([one, two], -1).index] == [DELETE, ADD]


def test_taking_files_or_rows_away_is_an_overwrite() -> None:
    assert append_change([made("a")], -1).kind is CommitKind.APPEND
    assert append_change([made("a", new_index_files=(IndexFile(HASH, "i", 1, 1),))], -1).kind is CommitKind.APPEND
    assert append_change([made(deleted_files=(data_file("a"),))], -1).kind is CommitKind.OVERWRITE
    vectors = IndexFile(DELETION_VECTORS, "i", 1, 1)
    assert append_change([made(new_index_files=(vectors,))], -1).kind is CommitKind.OVERWRITE
    assert append_change([made(deleted_index_files=(vectors,))], -1).kind is CommitKind.OVERWRITE


def test_rows_are_counted_with_their_sign() -> None:
    assert record_count([entry(ADD, "a", rows=5), entry(DELETE, "b", rows=2)]) == 3


@pytest.mark.parametrize(
    ("message", "complaint"),
    [
        (made("a", table="them"), "written for table them, this is table me"),
        (made("a", schema_id=3), "schema 3"),
        (made(new_files=(data_file("a", schema_id=9),)), "schema 9"),
        (made("a", bucket=1), "bucket 1 of -1 does not fit a table with bucket=-1"),
        (made("a", total_buckets=4), "bucket 0 of 4 does not fit"),
        (made("a", rows_in=2), "took in 2 rows but its files hold 1"),
        (made("a", "a"), "name a twice as written"),
        (made("a", changelog_files=(data_file("a"),)), "name a twice as written"),
        (made(deleted_files=(data_file("x"), data_file("x"))), "name x twice as deleted"),
        (made(compact_before=(data_file("x"), data_file("x"))), "name x twice as compacted"),
        (made("../a"), "separator"),
        (made(new_files=(data_file("a", extra_files=("b/c",)),)), "separator"),
        (made(new_index_files=(IndexFile(HASH, "..", 1, 1),)), "cannot be a file name"),
    ],
)
def test_messages_that_do_not_fit_the_table_are_refused(message: CommitMessage, complaint: str) -> None:
    with pytest.raises(InvalidMessageError, match=complaint) as caught:
        check_messages([message], RECEIVER)
    assert caught.value.table == "db.t"


def test_a_message_handed_in_twice_is_refused() -> None:
    with pytest.raises(InvalidMessageError, match="hand in each message once"):
        check_messages([made("a"), made("a")], RECEIVER)
    check_messages([made("a"), made("a", partition_bytes=encode_row(("x",), (AtomicType("STRING"),)))], RECEIVER)


def test_messages_that_fit_are_taken() -> None:
    upgrade = made("a", compact_before=(data_file("a"),), compact_after=(data_file("a", level=5),), rows_in=1)
    check_messages([upgrade], RECEIVER)
    check_messages([made("a", table="", schema_id=None, total_buckets=None)], RECEIVER)
    fixed = replace(RECEIVER, buckets=4)
    check_messages([made("a", bucket=3, total_buckets=None), made("b", bucket=1, total_buckets=2)], fixed)
    with pytest.raises(InvalidMessageError):
        check_messages([made("a", bucket=4, total_buckets=None)], fixed)
    keyed = replace(RECEIVER, has_primary_key=True)
    check_messages([made("a", bucket=7, rows_in=5)], keyed)
    with pytest.raises(InvalidMessageError):
        check_messages([made("a", rows_in=0)], keyed)
    postpone = replace(keyed, buckets=-2)
    check_messages([made("a", bucket=-2, total_buckets=-2), made("b", bucket=1, total_buckets=2)], postpone)


def test_what_row_tracking_cannot_number_is_refused() -> None:
    tracking = replace(RECEIVER, row_tracking=True)
    check_messages([made("a")], tracking)
    with pytest.raises(InvalidMessageError, match="row tracking needs"):
        check_messages([made(new_files=(data_file("a", file_source=None),))], tracking)
    with pytest.raises(UnsupportedError, match="outside the table"):
        check_messages([made(new_index_files=(IndexFile(HASH, "a", 1, 1, external_path="/x/a"),))], RECEIVER)


def test_row_ids_follow_the_order_of_the_files() -> None:
    other = encode_row(("x",), (AtomicType("STRING"),))
    entries = (
        entry(ADD, "a", rows=10),
        entry(ADD, "b", other, rows=3),
        entry(ADD, "c", rows=5),
        entry(ADD, "moved", rows=4, write_cols=("v", "_ROW_ID", "_SEQUENCE_NUMBER"), min_sequence_number=2),
        entry(ADD, "preset", rows=2, first_row_id=1, write_cols=("v",)),
        entry(ADD, "compacted", rows=8, file_source=COMPACT, min_sequence_number=1, max_sequence_number=4),
        entry(DELETE, "gone", rows=7),
    )
    plain, following = assign_row_ids(entries, snapshot_id=9, next_row_id=100, by_partition=False)
    assert [(e.file.file_name, e.file.first_row_id) for e in plain] == [
        ("a", 100),
        ("b", 110),
        ("c", 113),
        ("moved", None),
        ("preset", 1),
        ("compacted", None),
        ("gone", None),
    ]
    assert following == 118
    sequences = {e.file.file_name: (e.file.min_sequence_number, e.file.max_sequence_number) for e in plain}
    assert sequences["a"] == (9, 9)
    assert sequences["moved"] == (2, 9)
    assert sequences["compacted"] == (1, 4)
    assert sequences["gone"] == (0, 0)
    # The rows of "preset" end before id 3, and new ones follow.
    grouped, following = assign_row_ids(entries, snapshot_id=9, next_row_id=0, by_partition=True)
    assert {e.file.file_name: e.file.first_row_id for e in grouped if e.file.file_name in "abc"} == {
        "a": 3,
        "c": 13,
        "b": 18,
    }
    assert following == 21
    again, _ = assign_row_ids(entries, snapshot_id=10, next_row_id=200, by_partition=False)
    assert again[0].file.first_row_id == 200  # the entries of the intent were left as they are


FIELDS = (DataField(0, "dt", AtomicType("DATE")), DataField(1, "hour", AtomicType("INT")))


def test_specs_are_read_by_the_types_of_the_columns() -> None:
    specs: list[dict[str, object]] = [{"hour": "7", "dt": "2024-10-04"}, {"dt": None}, {"dt": "nix", "hour": 3}, {}]
    parsed = partitions_by_specs(specs, FIELDS, default_name="nix", table="t")
    assert parsed.specs == (((0, 20000), (1, 7)), ((0, None),), ((0, None), (1, 3)), ())
    assert PartitionSelection(specs=parsed.specs[:1]).selects(b"", (20000, 7))
    assert not PartitionSelection(specs=parsed.specs[:1]).selects(b"", (20000, 8))
    assert PartitionSelection(specs=parsed.specs[1:2]).selects(b"", (None, 8))
    assert WHOLE_TABLE.selects(b"", (1, 2))
    with pytest.raises(InvalidInputError, match="'day' in the partition spec"):
        partitions_by_specs([{"day": 1}], FIELDS, default_name="nix", table="t")
    with pytest.raises(InvalidInputError):
        partitions_by_specs([{"hour": "noon"}], FIELDS, default_name="nix", table="t")


def test_bounds_rule_partitions_out_only_when_certain() -> None:
    wanted = PartitionSelection(specs=(((1, 7),),))
    values = dict[bytes, tuple[int, ...]]().__getitem__
    assert wanted.may_select([(None, None, 3), (5, 9, 0)], values)
    assert not wanted.may_select([(None, None, 3), (8, 9, 0)], values)
    assert wanted.may_select([(None, None, 3), (None, None, 0)], values)
    null = PartitionSelection(specs=(((1, None),),))
    assert not null.may_select([(1, 2, 0), (5, 9, 0)], values)
    assert null.may_select([(1, 2, 0), (5, 9, None)], values)
    assert WHOLE_TABLE.may_select([(1, 2, 0), (5, 9, 0)], values)
    listed = PartitionSelection(partitions=frozenset({b"p"}))
    assert listed.may_select([(1, 3, 0), (5, 9, 0)], {b"p": (2, 7)}.__getitem__)
    assert not listed.may_select([(1, 3, 0), (5, 9, 0)], {b"p": (4, 7)}.__getitem__)


def test_an_overwrite_deletes_what_is_live_and_drops_changelogs() -> None:
    new = Change((entry(ADD, "new", b"p"),), (entry(ADD, "log", b"p"),), ())
    live = [entry(ADD, "a", b"p"), entry(ADD, "b", b"q"), entry(ADD, "waiting", b"p", bucket=-2)]
    index = [IndexEntry(ADD, b"p", 0, IndexFile(HASH, "i", 1, 1)), IndexEntry(ADD, b"q", 0, IndexFile(HASH, "j", 1, 1))]
    selects = partitions_of_files(new).selects
    change = overwrite_change(new, live, index, lambda p: selects(p, ()), buckets=2)
    assert [(e.kind, e.file.file_name) for e in change.entries] == [(DELETE, "a"), (ADD, "new")]
    assert [(e.kind, e.file.file_name) for e in change.index] == [(DELETE, "i")]
    assert change.changelog == ()
    change = overwrite_change(new, live, index, lambda p: selects(p, ()), buckets=-2)
    assert [e.file.file_name for e in change.entries] == ["a", "waiting", "new"]
