from __future__ import annotations

import json
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewright.errors import CorruptTableError, UnsupportedError
from lakewright.spec.snapshot import CommitKind, Snapshot, Tag, snapshot_from_json, tag_from_json, tag_to_json, to_json
from support.facts import LONGS, TEXTS

PATH = "/t/snapshot/snapshot-7"
PLAIN = Snapshot(
    7, 0, "manifest-list-a-0", "manifest-list-a-1", "user", 2**63 - 1, CommitKind.APPEND, 1_700_000_000_000
)
FULL = Snapshot(
    **{name: getattr(PLAIN, name) for name in ("id", "schema_id", "base_manifest_list", "delta_manifest_list")},
    commit_user="ü",
    commit_identifier=4,
    commit_kind=CommitKind.OVERWRITE,
    time_millis=5,
    uuid="6e1e",
    base_manifest_list_size=1,
    delta_manifest_list_size=2,
    changelog_manifest_list="c",
    changelog_manifest_list_size=3,
    index_manifest="i",
    writer_version="lakewright",
    total_record_count=10,
    delta_record_count=-4,
    changelog_record_count=2,
    watermark=-(2**63),
    statistics="stat-0",
    properties={"b": "2", "a": "1"},
    next_row_id=0,
    operation="WRITE",
)


def test_keys_stand_in_the_order_of_the_format_and_the_checksum_last() -> None:
    assert list(json.loads(to_json(FULL))) == [
        *("version", "uuid", "id", "schemaId", "baseManifestList", "baseManifestListSize", "deltaManifestList"),
        *("deltaManifestListSize", "changelogManifestList", "changelogManifestListSize", "indexManifest", "commitUser"),
        *("writerVersion", "commitIdentifier", "commitKind", "timeMillis", "totalRecordCount", "deltaRecordCount"),
        *("changelogRecordCount", "watermark", "statistics", "properties", "nextRowId", "operation", "checksum"),
    ]


def test_absent_keys_are_omitted() -> None:
    members = json.loads(to_json(PLAIN))
    assert None not in members.values()
    assert "properties" not in members
    assert len(members) == 10


@given(
    st.builds(
        Snapshot,
        LONGS,
        LONGS,
        TEXTS,
        TEXTS,
        TEXTS,
        LONGS,
        st.sampled_from(CommitKind),
        LONGS,
        uuid=st.none() | TEXTS,
        watermark=st.none() | LONGS,
        properties=st.dictionaries(TEXTS, TEXTS),
        next_row_id=st.none() | LONGS,
    )
)
def test_a_snapshot_is_read_from_its_json(snapshot: Snapshot) -> None:
    assert snapshot_from_json(to_json(snapshot), path=PATH) == snapshot


@pytest.mark.parametrize("snapshot", [PLAIN, FULL])
def test_every_flipped_bit_is_noticed_or_harmless(snapshot: Snapshot) -> None:
    data = to_json(snapshot).encode()
    noticed = 0
    for bit in range(len(data) * 8):
        broken = bytearray(data)
        broken[bit // 8] ^= 1 << bit % 8
        try:
            assert snapshot_from_json(bytes(broken), path=PATH) == snapshot
        except CorruptTableError as error:
            noticed += 1
            assert error.path == PATH  # noqa: PT017 - either outcome is right
    assert noticed > 0.8 * len(data) * 8


@pytest.mark.parametrize("text", ["", "  \n", "{", '{"id": 7', "[]", "7", "\x00\x00", '{"id": 7}', '{"a":' * 5000])
def test_damaged_files_are_named_with_a_remedy(text: str) -> None:
    with pytest.raises(CorruptTableError, match=r"snapshot-7.*restore") as caught:
        snapshot_from_json(text, path=PATH)
    assert caught.value.path == PATH


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("id", "7"),
        ("id", True),
        ("id", 2**63),
        ("commitKind", "APPENDED"),
        ("commitKind", ["APPEND"]),
        ("baseManifestList", 3),
        ("properties", {"a": 1}),
        ("properties", []),
        ("timeMillis", 1.5),
        ("commitUser", None),
    ],
)
def test_values_of_a_wrong_type_are_refused(key: str, value: object) -> None:
    members = json.loads(to_json(PLAIN))
    del members["checksum"]
    members[key] = value
    with pytest.raises(CorruptTableError, match=key):
        snapshot_from_json(json.dumps(members), path=PATH)


def test_old_versions_and_unknown_keys_are_tolerated_and_newer_versions_are_not() -> None:
    members = json.loads(to_json(PLAIN))
    del members["checksum"]
    members["logOffsets"] = {"0": 1}
    for version in (1, 2, 3):
        assert snapshot_from_json(json.dumps(members | {"version": version}), path=PATH).version == version
    del members["version"]
    assert snapshot_from_json(json.dumps(members), path=PATH).version == 1
    with pytest.raises(UnsupportedError, match="version 4"):
        snapshot_from_json(json.dumps(members | {"version": 4}), path=PATH)


def test_tags_round_trip() -> None:
    plain = Tag("one", FULL)
    kept = Tag("two", PLAIN, datetime(2026, 11, 15, 10, 9, 53, 52571), timedelta(hours=1))  # noqa: DTZ001
    assert tag_from_json(tag_to_json(plain), name="one", path=PATH) == plain
    assert tag_from_json(tag_to_json(kept), name="two", path=PATH) == kept
    members = json.loads(tag_to_json(kept))
    assert members["tagCreateTime"] == [2026, 11, 15, 10, 9, 53, 52571000]
    assert members["tagTimeRetained"] == 3600


def test_a_tag_may_leave_out_trailing_zeros_of_its_time() -> None:
    members = json.loads(to_json(PLAIN))
    del members["checksum"]
    text = json.dumps(members | {"tagCreateTime": [2026, 1, 2, 3, 4], "tagTimeRetained": 31536000000.0})
    tag = tag_from_json(text, name="t", path=PATH)
    assert tag.create_time == datetime(2026, 1, 2, 3, 4)  # noqa: DTZ001
    assert tag.time_retained == timedelta(days=365000)
    for wrong in ([2026], "now", [2026, 13, 1], [None] * 7):
        with pytest.raises(CorruptTableError, match="tagCreateTime"):
            tag_from_json(json.dumps(members | {"tagCreateTime": wrong}), name="t", path=PATH)
    with pytest.raises(CorruptTableError, match="tagTimeRetained"):
        tag_from_json(json.dumps(members | {"tagTimeRetained": "1 h"}), name="t", path=PATH)
