from __future__ import annotations

import hashlib
import json
import pickle
import re
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields, replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewright.commit.commit_message import MAGIC, VERSION, CommitMessage, with_guards
from lakewright.commit.message_encoding import MESSAGE_MEMBERS, FileChanges
from lakewright.errors import InvalidInputError, InvalidMessageError, UnsupportedError
from lakewright.spec.binary_row import encode_row
from lakewright.spec.manifest import DELETION_VECTORS, DataFile, DeletionRange, IndexFile
from lakewright.spec.snapshot import CommitKind, Snapshot
from lakewright.spec.types import AtomicType
from support.effort import examples
from support.facts import LONGS, NAMES, NATURALS, TEXTS, data_file, data_files, index_files, text_partition

PEER_MESSAGES = Path(__file__).parent / "peer_messages"
PLAIN = CommitMessage(
    partition_bytes=text_partition("x"),
    bucket=0,
    total_buckets=-1,
    new_files=(data_file(),),
    new_index_files=(IndexFile(DELETION_VECTORS, "index-0", 5, 1, (DeletionRange("data-0.parquet", 1, 2, 3),)),),
    table="sales.orders",
    schema_id=0,
    write_id="job",
    attempt="task-0.1",
    partition_types=("STRING",),
    rows_in=3,
    base_snapshot="manifest-list-1",
    hash_base=("index-1", "index-2"),
)


def messages() -> st.SearchStrategy[CommitMessage]:
    files = st.lists(data_files(), max_size=2).map(tuple)
    indexes = st.lists(index_files(), max_size=2).map(tuple)
    return st.builds(
        CommitMessage,
        partition_bytes=(st.none() | TEXTS).map(text_partition),
        bucket=st.integers(-2, 2**31 - 1),
        total_buckets=st.none() | st.integers(-2, 2**31 - 1),
        **dict.fromkeys(("new_files", "deleted_files", "changelog_files", "compact_before"), files),
        **dict.fromkeys(("compact_after", "compact_changelog_files"), files),
        **dict.fromkeys(("new_index_files", "deleted_index_files"), indexes),
        **dict.fromkeys(("compact_new_index_files", "compact_deleted_index_files"), indexes),
        check_from_snapshot=st.none() | LONGS,
        table=TEXTS,
        schema_id=st.none() | NATURALS,
        write_id=TEXTS,
        attempt=TEXTS,
        partition_types=st.just(("STRING",)),
        rows_in=st.none() | NATURALS,
        base_snapshot=st.none() | st.just("") | NAMES,
        hash_base=st.none() | st.lists(NAMES, max_size=2).map(tuple),
        planned_on=st.none() | st.just("") | NAMES,
        reads=st.lists(TEXTS, max_size=2).map(tuple),
    )


def framed(body: bytes, *, magic: bytes = MAGIC, version: int = VERSION, length: int | None = None) -> bytes:
    """Put a frame with a right checksum around any body."""
    size = len(body) if length is None else length
    return struct.pack(">4sHI", magic, version, size) + hashlib.sha256(body).digest() + body


def altered(change: Callable[[dict[str, Any]], object]) -> bytes:
    """Return a message whose body was changed by somebody who knows how to make the checksum right."""
    body = json.loads(PLAIN.serialize()[42:])
    change(body)
    return framed(json.dumps(body, sort_keys=True, separators=(",", ":")).encode())


@given(messages())
@settings(max_examples=examples(50))
def test_messages_survive_their_frame_and_pickling(message: CommitMessage) -> None:
    assert CommitMessage.deserialize(message.serialize()) == message
    assert pickle.loads(pickle.dumps(message)) == message  # noqa: S301 - our own bytes


@given(messages())
@settings(max_examples=examples(50))
def test_messages_survive_the_way_over_java(message: CommitMessage) -> None:
    back = CommitMessage.from_java(message.to_java(), partition_types=("STRING",))
    assert {f.name: getattr(back, f.name) for f in fields(FileChanges)} == {
        f.name: getattr(message, f.name) for f in fields(FileChanges)
    }
    assert (back.table, back.schema_id, back.rows_in) == ("", None, None)
    assert (back.base_snapshot, back.hash_base) == (None, None)
    assert back.to_java() == message.to_java()


def test_the_body_knows_every_field() -> None:
    assert [f.name for f in fields(CommitMessage)] == list(MESSAGE_MEMBERS)


def test_a_message_says_what_it_was_planned_on() -> None:
    snapshot = Snapshot(7, 0, "base-list", "delta-list", "user", 1, CommitKind.APPEND, 0)
    message = with_guards(PLAIN, snapshot, unchanged="partition", reads=["v", "k", "v"])
    assert (message.check_from_snapshot, message.planned_on, message.reads) == (7, "delta-list", ("k", "v"))
    assert CommitMessage.deserialize(message.serialize()) == message
    empty = with_guards(PLAIN, None, unchanged="table")
    assert (empty.check_from_snapshot, empty.planned_on) == (0, "")
    assert CommitMessage.deserialize(empty.serialize()) == empty
    with pytest.raises(InvalidMessageError, match="since when"):
        CommitMessage.deserialize(replace(message, check_from_snapshot=-1).serialize())


def test_a_pickled_message_holds_only_its_frame() -> None:
    assert PLAIN.serialize() in pickle.dumps(PLAIN)


def test_the_partition_comes_as_python_values() -> None:
    types = (AtomicType("STRING"), AtomicType("DATE"))
    message = replace(
        PLAIN, partition_bytes=encode_row(["ü", 20000], types), partition_types=tuple(str(t) for t in types)
    )
    assert message.partition == ("ü", date(2024, 10, 4))
    assert CommitMessage(partition_bytes=bytes(12), bucket=0).partition == ()
    with pytest.raises(InvalidInputError, match="partition_types"):
        _ = replace(PLAIN, partition_types=()).partition


def test_a_message_is_empty_when_it_changes_no_file() -> None:
    empty = CommitMessage(partition_bytes=bytes(12), bucket=0, rows_in=0)
    assert empty.is_empty
    file, index = (data_file(),), (IndexFile("HASH", "index-0", 1, 1),)
    for member in fields(FileChanges):
        if member.name.endswith(("files", "before", "after")):
            content: Any = index if "index" in member.name else file
            assert not replace(empty, **{member.name: content}).is_empty


def test_every_flipped_bit_is_noticed() -> None:
    data = PLAIN.serialize()
    for bit in range(len(data) * 8):
        broken = bytearray(data)
        broken[bit // 8] ^= 1 << bit % 8
        with pytest.raises(InvalidMessageError):
            CommitMessage.deserialize(bytes(broken))


def test_cut_and_too_long_messages_are_refused() -> None:
    data = PLAIN.serialize()
    for length in range(len(data)):
        with pytest.raises(InvalidMessageError):
            CommitMessage.deserialize(data[:length])
    with pytest.raises(InvalidMessageError):
        CommitMessage.deserialize(data + b"\0")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        pickle.dumps({"a": 1}),
        framed(b"{}"),
        framed(b"[]"),
        framed(b"null"),
        framed(b"["),
        framed(b"[" * 100_000),
        framed(b"\xff"),
        framed(PLAIN.serialize()[42:], magic=b"LWCX"),
        framed(PLAIN.serialize()[42:], version=VERSION - 1),
        framed(PLAIN.serialize()[42:], version=VERSION + 1),
        framed(PLAIN.serialize()[42:], length=2**32 - 1),
        framed(PLAIN.serialize()[42:] + b" "),
        framed(PLAIN.serialize()[42:-1] + b',"bucket":0}'),
        framed(b"9" * 10_000),
    ],
)
def test_foreign_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidMessageError):
        CommitMessage.deserialize(data)


HOSTILE_NAMES = [
    "",
    ".",
    "..",
    "../x",
    "a/b",
    "a\\b",
    "/etc/passwd",
    "a..b",
    "a\0",
    "a\n",
    ".hidden",
    "x" * 300,
    "C:x",
    "a%2Fb",
]


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_names_that_are_paths_are_refused(name: str) -> None:
    def rename(body: dict[str, Any], *path: str | int) -> None:
        target: Any = body
        for step in path[:-1]:
            target = target[step]
        target[path[-1]] = name

    for path in (
        ("new_files", 0, "file_name"),
        ("new_index_files", 0, "file_name"),
        ("new_index_files", 0, "deletion_ranges", 0, "data_file"),
        ("hash_base", 0),
        *([("base_snapshot",), ("planned_on",)] if name else []),
    ):
        with pytest.raises(InvalidMessageError, match="file name"):
            CommitMessage.deserialize(altered(lambda body, path=path: rename(body, *path)))  # type: ignore[misc]
    with pytest.raises(InvalidMessageError, match="file name"):
        CommitMessage.deserialize(altered(lambda body: body["new_files"][0].update(extra_files=[name])))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("bucket", -3),
        ("bucket", 2**31),
        ("bucket", True),
        ("bucket", "0"),
        ("bucket", 0.0),
        ("total_buckets", -3),
        ("rows_in", -1),
        ("schema_id", -1),
        ("table", None),
        ("table", "\ud800"),
        ("partition_types", ["NO SUCH TYPE"]),
        ("partition_types", ["INT", "INT"]),
        ("partition_bytes", ""),
        ("partition_bytes", "AAAA"),
        ("partition_bytes", "!"),
        ("new_files", None),
        ("new_files", {}),
        ("new_files", [None]),
        ("unknown", 1),
        ("unchanged", "row"),
        ("unchanged", "bucket"),  # since when?
        ("reads", None),
    ],
)
def test_values_out_of_bounds_are_refused(path: str, value: object) -> None:
    with pytest.raises(InvalidMessageError):
        CommitMessage.deserialize(altered(lambda body: body.update({path: value})))


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("file_size", -1),
        ("row_count", -1),
        ("row_count", 2**63),
        ("level", -1),
        ("delete_row_count", -1),
        ("first_row_id", -1),
        ("min_key", "?"),
        ("min_key", "QQ=="[:3]),
        ("min_key", "QR=="),  # bits behind the last byte
        ("external_path", "file:/etc/passwd"),
        ("value_stats_cols", [1]),
        ("value_stats", {"min_values": "", "max_values": ""}),
        ("more", 1),
    ],
)
def test_data_files_out_of_bounds_are_refused(member: str, value: object) -> None:
    with pytest.raises(InvalidMessageError):
        CommitMessage.deserialize(altered(lambda body: body["new_files"][0].update({member: value})))


TOKENS = [
    "1",
    "-0",
    "1.0",
    "1e2",
    "NaN",
    "true",
    "null",
    '""',
    '"a"',
    '"YQ=="',
    '"YR=="',
    '"YQ"',
    '"\\ud800"',
    "[]",
    "{}",
    " ",
]


@given(st.data())
@settings(max_examples=examples(300))
def test_a_body_that_is_taken_is_in_canonical_form(data: st.DataObject) -> None:
    """Whatever is put in the place of a part of a body, it is refused, or it is the one form of what it says."""
    body = PLAIN.serialize()[42:].decode()
    parts = re.findall(r'"(?:[^"\\]|\\.)*"|[^"\[\]{},:]+|.', body)
    for at in data.draw(st.lists(st.integers(0, len(parts) - 1), min_size=1, max_size=2)):
        parts[at] = data.draw(st.sampled_from([*TOKENS, parts[at] * 2, parts[at] + " ", *parts[at - 1 : at + 1]]))
    frame = framed("".join(parts).encode())
    with suppress(InvalidMessageError):
        assert CommitMessage.deserialize(frame).serialize() == frame


@pytest.mark.parametrize("text", ["YR==", "YQ=", "YQ", "Y Q==", "YQ==YQ==", "=YQ=", "Y\u00e9=="])
def test_base64_in_another_form_is_refused(text: str) -> None:
    assert CommitMessage.deserialize(altered(lambda body: body["new_files"][0].update(min_key="YQ==")))
    with pytest.raises(InvalidMessageError, match="min_key"):
        CommitMessage.deserialize(altered(lambda body: body["new_files"][0].update(min_key=text)))


def test_a_file_that_goes_away_may_lie_outside_the_table() -> None:
    outside = replace(data_file(), external_path="s3://bucket/data-0.parquet")
    message = replace(PLAIN, new_files=(), deleted_files=(outside,))
    assert CommitMessage.deserialize(message.serialize()) == message
    added = replace(PLAIN, new_files=(outside,))  # the committer checks that the table has files there
    assert CommitMessage.deserialize(added.serialize()) == added
    for path in ("s3://bucket/other.parquet", "data-0.parquet", "s3://bucket/../data-0.parquet"):
        with pytest.raises(InvalidMessageError, match="no path to it"):
            CommitMessage.deserialize(replace(PLAIN, new_files=(replace(outside, external_path=path),)).serialize())


@pytest.mark.parametrize("path", sorted(PEER_MESSAGES.glob("*.hex")), ids=lambda path: path.stem)
def test_messages_of_a_peer_are_read_and_written_again_with_the_same_bytes(path: Path) -> None:
    data = bytes.fromhex(path.read_text())
    message = CommitMessage.from_java(data)
    assert message.to_java() == data
    assert message.new_files[0].file_name.startswith("data-")
    assert message.new_files[0].row_count == 1 if "primary" not in path.stem else message.bucket in {0, 1}


def test_a_peers_partition_gets_javas_form_once_its_types_are_known() -> None:
    data = bytes.fromhex((PEER_MESSAGES / "rust_null_timestamp_partition.hex").read_text())
    loose = CommitMessage.from_java(data)
    message = CommitMessage.from_java(data, partition_types=("TIMESTAMP(6)",))
    assert message.partition == (None,)
    assert message.partition_bytes == encode_row([None], [AtomicType("TIMESTAMP(6)")])
    assert message.partition_bytes != loose.partition_bytes
    with pytest.raises(InvalidMessageError, match="partition"):
        CommitMessage.from_java(data, partition_types=("INT", "INT"))


def test_version_13_lacks_the_last_field() -> None:
    data = replace(PLAIN, check_from_snapshot=None).to_java()
    assert data.endswith(b"\0")
    assert CommitMessage.from_java(data[:-1], 13).new_files == PLAIN.new_files
    for wrong in ((data, 13), (data[:-1], 14)):
        with pytest.raises(InvalidMessageError):
            CommitMessage.from_java(*wrong)
    for version in (1, 11, 12, 15):
        with pytest.raises(UnsupportedError, match=str(version)):
            CommitMessage.from_java(data, version)


def test_damaged_java_bodies_are_refused_or_still_harmless() -> None:
    data = PLAIN.to_java()
    for place in range(len(data)):
        for value in (0, 1, 0x7F, 0xFF):
            broken = data[:place] + bytes([value]) + data[place + 1 :]
            try:
                message = CommitMessage.from_java(broken)
            except InvalidMessageError:
                continue
            files: tuple[DataFile | IndexFile, ...] = (*message.new_files, *message.new_index_files)
            names = [file.file_name for file in files]
            assert not any("/" in name or ".." in name for name in names)
    for length in range(len(data)):
        with pytest.raises(InvalidMessageError):
            CommitMessage.from_java(data[:length])


def test_hostile_names_in_java_bodies_are_refused() -> None:
    file: DataFile = data_file("../../secret")
    with pytest.raises(InvalidMessageError, match="file name"):
        CommitMessage.from_java(replace(PLAIN, new_files=(file,)).to_java())
