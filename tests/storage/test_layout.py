"""Paths: every one of the format, none outside the table, and partition names as Java spells them."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import PurePosixPath
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewright.errors import CorruptTableError, InvalidInputError
from lakewright.spec.manifest import IndexFile
from lakewright.spec.scalars import cast_text
from lakewright.spec.types import AtomicType, DataField, Value
from lakewright.storage.table_layout import (
    Layout,
    check_file_name,
    check_name,
    database_directory,
    escape,
    parse_numbered_names,
    partition_text,
)
from support.facts import data_file
from support.golden import WAREHOUSE, expected

DEFAULT = "__DEFAULT_PARTITION__"
FILE = replace(data_file("data-1.parquet"), extra_files=("data-1.parquet.index",))
hostile = st.one_of(
    st.text(max_size=20),
    st.text(alphabet="./\\\0a%:~ \n", max_size=12),
    st.sampled_from(["..", ".", "", "/etc/passwd", "../../x", "a/../../b", "x" * 300, "\ud800", "..\\x", "a\0b"]),
)


def test_files_of_the_main_branch_have_their_paths() -> None:
    table = Layout("/lake/db.db/t")
    assert [
        table.branch_root,
        table.schema_file(0),
        table.snapshot_file(12),
        table.latest_hint,
        table.earliest_hint,
        table.tag_file("v1"),
        table.changelog_file(3),
        table.consumer_file("me"),
        table.manifest_file("manifest-1"),
        table.index_file("index-1"),
        table.statistics_file("stat-1"),
        table.branch_directory("dev"),
        table.bucket_directory("", 0),
        table.data_file("p=1/q=2", 3, FILE),
        table.extra_file("p=1/q=2", 3, FILE, "data-1.parquet.index"),
    ] == [
        "/lake/db.db/t",
        "/lake/db.db/t/schema/schema-0",
        "/lake/db.db/t/snapshot/snapshot-12",
        "/lake/db.db/t/snapshot/LATEST",
        "/lake/db.db/t/snapshot/EARLIEST",
        "/lake/db.db/t/tag/tag-v1",
        "/lake/db.db/t/changelog/changelog-3",
        "/lake/db.db/t/consumer/consumer-me",
        "/lake/db.db/t/manifest/manifest-1",
        "/lake/db.db/t/index/index-1",
        "/lake/db.db/t/statistics/stat-1",
        "/lake/db.db/t/branch/branch-dev",
        "/lake/db.db/t/bucket-0",
        "/lake/db.db/t/p=1/q=2/bucket-3/data-1.parquet",
        "/lake/db.db/t/p=1/q=2/bucket-3/data-1.parquet.index",
    ]


def test_a_branch_shares_manifests_and_data() -> None:
    branch = Layout("/t").for_branch("dev")
    assert branch.schema_file(1) == "/t/branch/branch-dev/schema/schema-1"
    assert branch.latest_hint == "/t/branch/branch-dev/snapshot/LATEST"
    assert branch.tag_file("v") == "/t/branch/branch-dev/tag/tag-v"
    assert branch.changelog_file(1) == "/t/branch/branch-dev/changelog/changelog-1"
    assert branch.consumer_file("c") == "/t/branch/branch-dev/consumer/consumer-c"
    assert branch.branch_directory("other") == "/t/branch/branch-other"
    for shared in ("manifest_directory", "index_directory", "statistics_directory", "data_root"):
        assert getattr(branch, shared) == getattr(Layout("/t"), shared)
    assert branch.for_branch("main") == Layout("/t")


def test_options_move_data_and_index_files() -> None:
    table = Layout("/t", data_directory="data/inner", index_in_data_directory=True)
    bucket = table.bucket_directory("p=1", -2)
    assert bucket == "/t/data/inner/p=1/bucket-postpone"
    assert table.index_file("index-1", bucket) == f"{bucket}/index-1"
    assert table.index_file("index-1") == "/t/index/index-1"
    assert Layout("/t").index_file("index-1", bucket) == "/t/index/index-1"
    outside = Layout("/t", external_directories=("s3://b/x",))
    assert outside.index_file(IndexFile("HASH", "i", 1, 1, external_path="s3://b/x/i")) == "s3://b/x/i"
    assert outside.named_index_file("s3://b/x/i", bucket) == "s3://b/x/i"
    assert outside.named_index_file("s3://b/y/i", bucket) == "/t/index/i"
    assert table.named_index_file("file:/elsewhere/i", bucket) == f"{bucket}/i"


def test_files_outside_the_table_keep_their_path_where_the_options_allow_it() -> None:
    outside = replace(FILE, external_path="s3://other/d/data-1.parquet")
    table = Layout("/t", external_directories=("file:///x", "s3://other/"))
    assert table.data_file("", 0, outside) == "s3://other/d/data-1.parquet"
    assert table.extra_file("", 0, outside, "x.index") == "s3://other/d/x.index"
    assert table.data_file("", 0, replace(FILE, external_path="/x/data-1.parquet")) == "/x/data-1.parquet"
    for elsewhere in ("s3://others/data-1.parquet", "/y/data-1.parquet", "/xx/data-1.parquet"):
        with pytest.raises(CorruptTableError, match=r"external-paths"):
            table.data_file("", 0, replace(FILE, external_path=elsewhere))


@pytest.mark.parametrize(
    "path",
    ["/etc/passwd", "data-1.parquet", "/x/../data-1.parquet", "", "s3://b/../data-1.parquet", "/x/data-1.parquet/"],
)
def test_a_path_outside_the_table_must_lead_to_the_file(path: str) -> None:
    with pytest.raises(CorruptTableError, match=r"data-1\.parquet"):
        Layout("/t").data_file("", 0, replace(FILE, external_path=path))


@given(hostile)
def test_no_name_leaves_the_table(name: str) -> None:
    table = Layout("/lake/t")
    for build in (
        table.manifest_file,
        table.statistics_file,
        table.index_file,
        table.tag_file,
        table.consumer_file,
        table.branch_directory,
        lambda name: table.for_branch(name).snapshot_file(1),
        lambda name: table.data_file("", 0, replace(FILE, file_name=name)),
        lambda name: table.extra_file("", 0, FILE, name),
        lambda name: table.bucket_directory(name, 0) + "/x",
        lambda name: replace(table, data_directory=name).data_file("", 0, FILE),
        lambda name: database_directory("/lake/t", name) + "/x",
    ):
        try:
            path = build(name)
        except (InvalidInputError, CorruptTableError):
            continue
        assert os.path.normpath(path) == path
        assert PurePosixPath(path).is_relative_to("/lake/t")
        assert all(len(part.encode()) <= 255 for part in path.split("/"))
        path.encode()


@given(hostile)
def test_a_name_out_of_a_file_is_the_files_fault(name: str) -> None:
    try:
        assert check_file_name(name) == name
    except InvalidInputError:
        with pytest.raises(CorruptTableError) as raised:
            check_file_name(name, origin="manifest/m-1")
        assert raised.value.path == "manifest/m-1"


@pytest.mark.parametrize("name", ["dev", "日本", "a b", "a=b", "1a", "-", "x" * 200])
@pytest.mark.parametrize("kind", ["database", "table", "branch", "tag"])
def test_plain_names_are_taken(kind: str, name: str) -> None:
    assert check_name(kind, name) == name


@pytest.mark.parametrize(
    "name", ["", " ", "\t", ".", "..", "a/b", "a\\b", "a\0", "a\x7f", "x" * 256, "é" * 128, "\ud800"]
)
@pytest.mark.parametrize("kind", ["database", "table", "branch", "tag"])
def test_names_that_are_no_component_are_refused(kind: str, name: str) -> None:
    with pytest.raises(InvalidInputError):
        check_name(kind, name)


def test_names_fit_with_what_the_format_adds() -> None:
    assert check_name("table", "x" * 255)
    assert check_name("tag", "x" * 251)
    for kind, length in {"tag": 252, "branch": 249, "database": 253}.items():
        with pytest.raises(InvalidInputError, match="255"):
            check_name(kind, "x" * length)


@pytest.mark.parametrize("name", ["main", "7", "0123", "٣"])
def test_branches_are_neither_main_nor_numbers(name: str) -> None:
    with pytest.raises(InvalidInputError):
        check_name("branch", name)
    assert check_name("tag", name)


def test_only_exact_numbers_count() -> None:
    names = "snapshot-2 snapshot-10 snapshot-0 snapshot-01 snapshot- snapshot--1 snapshot-+1 snapshot-1x snapshot-٣ "
    names += ".snapshot-4.u.tmp snapshot-5.tmp-u xsnapshot-6 snapshot-99999999999999999999 LATEST schema-1"
    assert parse_numbered_names([*names.split(), "snapshot-7\n", "snapshot- 8"], "snapshot-") == [0, 2, 10]


@given(st.text())
def test_escapes_can_be_undone(text: str) -> None:
    assert unquote(escape(text)) == text
    assert not set(escape(text)) & set("/:=\\\"#'*?{}[]^\x7f\x00\n")


def test_escapes_are_javas() -> None:
    special = "\"#%'*/:=?\\{}[]^\x7f\x01\x1f"
    assert escape(special) == "%22%23%25%27%2A%2F%3A%3D%3F%5C%7B%7D%5B%5D%5E%7F%01%1F"
    assert escape("a b.~!@$&()-+;,<>|`é日") == "a b.~!@$&()-+;,<>|`é日"


def _text(value: Value, dtype: str, *, legacy: bool = True, name: str = "p") -> str:
    return partition_text([value], [DataField(0, name, AtomicType(dtype))], default_name=DEFAULT, legacy=legacy)


def _nanos(text: str, nanos: int = 0) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 10**9 + nanos


@pytest.mark.parametrize(
    ("value", "dtype", "legacy", "modern"),
    [
        (True, "BOOLEAN", "true", "true"),
        (-7, "BIGINT", "-7", "-7"),
        (20000, "DATE", "20000", "2024-10-04"),
        (3661001, "TIME(3)", "3661001", "01%3A01%3A01.001"),
        (0, "TIME(3)", "0", "00%3A00%3A00.0"),
        (0, "TIME(0)", "0", "00%3A00%3A00"),
        (_nanos("2023-11-14T22:13:20", 123_000_000), "TIMESTAMP(3)", "2023-11-14T22%3A13%3A20.123", None),
        (_nanos("2023-11-14T22:13:20", 123_400_000), "TIMESTAMP(6)", "2023-11-14T22%3A13%3A20.123400", None),
        (_nanos("2023-11-14T22:13:20", 1), "TIMESTAMP(9)", "2023-11-14T22%3A13%3A20.000000001", None),
        (_nanos("2023-11-14T22:13:00"), "TIMESTAMP(3)", "2023-11-14T22%3A13", "2023-11-14 22%3A13%3A00.000"),
        (_nanos("2023-11-14T00:00:00"), "TIMESTAMP(0)", "2023-11-14T00%3A00", "2023-11-14 00%3A00%3A00"),
        (_nanos("1969-12-31T23:59:59"), "TIMESTAMP(3)", "1969-12-31T23%3A59%3A59", "1969-12-31 23%3A59%3A59.000"),
        (Decimal("12.50"), "DECIMAL(10, 2)", "12.50", "12.50"),
        (1e10, "DOUBLE", "1.0E10", "1.0E10"),
        (1.5, "FLOAT", "1.5", "1.5"),
        (None, "INT", DEFAULT, DEFAULT),
        ("", "STRING", DEFAULT, DEFAULT),
        (" \t\u3000", "STRING", DEFAULT, DEFAULT),
        ("\u00a0", "STRING", "\u00a0", "\u00a0"),
        (" x", "STRING", " x", " x"),
    ],
)
def test_values_are_spelled_as_java_does(value: Value, dtype: str, legacy: str, modern: str | None) -> None:
    assert _text(value, dtype) == f"p={legacy}"
    if modern is not None:
        assert _text(value, dtype, legacy=False) == f"p={modern}"


def test_keys_and_the_default_name_are_escaped_too() -> None:
    assert _text("v", "STRING", name="a/b") == "a%2Fb=v"
    fields = [DataField(0, "p", AtomicType("INT"))]
    assert partition_text([None], fields, default_name="a=b", legacy=True) == "p=a%3Db"
    assert partition_text([], [], default_name=DEFAULT, legacy=True) == ""


@pytest.mark.parametrize("value", ["x" * 254, "é" * 127, "/" * 90, "\ud800"])
def test_a_value_too_long_for_a_directory_is_named(value: str) -> None:
    with pytest.raises(InvalidInputError, match="'p'") as raised:
        _text(value, "STRING")
    assert raised.value.column == "p"


@given(st.text(max_size=40), st.booleans())
def test_a_partition_is_one_component_per_key(text: str, legacy: bool) -> None:
    try:
        made = _text(text, "STRING", legacy=legacy)
    except InvalidInputError:
        return
    assert Layout("/t").bucket_directory(made, 0) == f"/t/{made}/bucket-0"
    assert "/" not in made


def _golden_files() -> list[tuple[str, str, str]]:
    """Return table, the directory that our text gives and the name of each live file of a partitioned table."""
    found = []
    for name, table in expected().items():
        types = {column[1]: AtomicType(column[2]) for column in table["columns"] if column[1] in table["partitionKeys"]}
        fields = [DataField(number, key, types[key]) for number, key in enumerate(table["partitionKeys"])]
        if not fields:
            continue
        legacy = table["options"].get("partition.legacy-name", "true") == "true"
        database, _, short = name.partition(".")
        layout = Layout(f"{database}.db/{short}", data_directory=table["options"].get("data-file.path-directory"))
        for file in table["files"]:
            values = [
                cast_text(str(value), field.type)
                if isinstance(value, str) and field.type != AtomicType("STRING")
                else value
                for value, field in zip(file["partition"], fields, strict=True)
            ]
            text = partition_text(values, fields, default_name=DEFAULT, legacy=legacy)
            found.append((name, layout.bucket_directory(text, file["bucket"]), file["file"]))
    return found


def test_golden_files_lie_where_we_look() -> None:
    files = _golden_files()
    missing = [file for file in files if not (WAREHOUSE / file[1] / file[2]).is_file()]
    assert missing == []
    assert len(files) >= 49
    assert len({file[0] for file in files}) >= 10
