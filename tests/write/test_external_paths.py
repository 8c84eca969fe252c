"""Data files outside the table: every strategy writes where it should, and whatever deletes files finds them."""

from __future__ import annotations

import pickle
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import lakewright as lw
from lakewright.engine.engine_job import remove_leftovers
from lakewright.errors import InvalidInputError, InvalidMessageError, LakewrightWarning, UnsupportedError
from lakewright.maintenance.external_directories import CLAIMS
from lakewright.spec.external_paths import external_paths
from lakewright.spec.table_options import TableOptions
from support.effort import each_once
from support.s3 import S3Server

COLUMNS = pa.schema([pa.field("k", pa.int64(), nullable=False), ("p", pa.string()), ("v", pa.string())])
PATHS, STRATEGY = "data-file.external-paths", "data-file.external-paths.strategy"
WEIGHTS, SYSTEM = "data-file.external-paths.weights", "data-file.external-paths.specific-fs"
STRATEGIES = ["round-robin", "specific-fs", "entropy-inject", "weight-robin"]


@pytest.fixture
def catalog(tmp_path: Path) -> lw.Catalog:
    made = lw.CatalogFactory.create({"warehouse": str(tmp_path / "warehouse")})
    made.create_database("d")
    return made


def _options(tmp_path: Path, strategy: str, weights: str = "1,3") -> dict[str, str]:
    paths = f"file://{tmp_path}/one, file:{tmp_path}/two/"
    more = {SYSTEM: "FILE"} if strategy == "specific-fs" else {WEIGHTS: weights} if strategy == "weight-robin" else {}
    return {PATHS: paths, STRATEGY: strategy, **more}


def _table(catalog: lw.Catalog, options: dict[str, str], *, keys: bool = False, name: str = "d.t") -> lw.FileStoreTable:
    schema = lw.Schema.from_pyarrow_schema(
        COLUMNS,
        partition_keys=["p"],
        primary_keys=["p", "k"] if keys else None,
        options={**({"bucket": "2"} if keys else {}), **options},
    )
    catalog.create_table(name, schema)
    return catalog.get_table(name)


def _rows(count: int, v: str = "a", p: str | None = None) -> pa.Table:
    keys = range(count)
    return pa.table({"k": keys, "p": [p or f"p{k % 3}" for k in keys], "v": [v] * count}, COLUMNS)


def _outside(tmp_path: Path) -> list[Path]:
    return sorted(path for place in ("one", "two") for path in (tmp_path / place).rglob("*") if _holds_data(path))


def _holds_data(path: Path) -> bool:
    return path.is_file() and path.parent.name != CLAIMS


def _inside(table: lw.FileStoreTable) -> list[Path]:
    return [path for path in Path(table.table_path).rglob("*.parquet") if "bucket" in str(path)]


@pytest.mark.parametrize(("strategy", "keys"), each_once(STRATEGIES, [False, True]))
def test_every_strategy_writes_outside_and_is_read_back(
    catalog: lw.Catalog, tmp_path: Path, strategy: str, keys: bool
) -> None:
    changelog = {"changelog-producer": "lookup"} if keys else {}
    table = _table(catalog, {**_options(tmp_path, strategy, "1,1"), **changelog}, keys=keys)
    for v in "abcd":  # names of files choose by chance, so there must be enough for both directories
        lw.write_table(_rows(30, v), table)
    assert lw.read_table(table).num_rows == (30 if keys else 120)
    table.compact(full=True)
    table.delete("k < 10")
    assert sorted(lw.read_table(table)["k"].to_pylist()) == sorted([*range(10, 30)] * (1 if keys else 4))
    files = _outside(tmp_path)
    assert len({path.relative_to(tmp_path).parts[0] for path in files}) == 2, "both directories are used"
    assert not _inside(table)
    assert not keys or any(path.name.startswith("changelog-") for path in files)
    depth = 4 if strategy == "entropy-inject" else 0
    assert {len(path.relative_to(tmp_path).parts) for path in files} == {4 + depth}
    assert {path.relative_to(tmp_path).parts[1] for path in files} == {"p=p0", "p=p1", "p=p2"}
    live = lw.read_table(catalog.get_table("d.t$files"))["file_path"].to_pylist()
    assert {path.removeprefix("file:") for path in live} <= {str(path) for path in files}


def test_files_are_spread_by_weight(tmp_path: Path) -> None:
    paths = external_paths(TableOptions(_options(tmp_path, "weight-robin")))
    assert paths is not None
    chosen = Counter("/one/" in paths.path_of("bucket-0", f"data-{n}-0.parquet", 0) for n in range(4000))
    assert 850 < chosen[True] < 1150


def test_files_of_one_writer_take_turns(tmp_path: Path) -> None:
    paths = external_paths(TableOptions(_options(tmp_path, "round-robin")))
    assert paths is not None
    turns = ["/one/" in paths.path_of("bucket-0", f"data-x-0-{n}.parquet", n) for n in range(6)]
    assert turns in ([True, False] * 3, [False, True] * 3)


def test_without_a_strategy_files_stay_inside(catalog: lw.Catalog, tmp_path: Path) -> None:
    for number, options in enumerate(({PATHS: f"file:{tmp_path}/one"}, {STRATEGY: "round-robin"})):
        table = _table(catalog, options, name=f"d.t{number}")
        lw.write_table(_rows(3), table)
        assert not _outside(tmp_path)
        assert len(_inside(table)) == 3


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({PATHS: "/plain", STRATEGY: "round-robin"}, "no full path"),
        ({PATHS: "relative", STRATEGY: "round-robin"}, "no full path"),
        ({PATHS: "file:/x", STRATEGY: "specific-fs"}, "must name a file system"),
        ({PATHS: "file:/x", STRATEGY: "specific-fs", SYSTEM: "s3"}, "no path that the strategy allows"),
        ({PATHS: " , ", STRATEGY: "round-robin"}, "one of its items is blank"),
        ({PATHS: "file:/x,file:/y", STRATEGY: "weight-robin", WEIGHTS: "1"}, "1 weights for 2"),
        ({PATHS: "file:/x,file:/y", STRATEGY: "weight-robin", WEIGHTS: "1,0"}, "cannot be '1,0'"),
        ({PATHS: "file:/x", STRATEGY: "by-hand"}, "cannot be 'by-hand'"),
    ],
)
def test_bad_options_are_refused_before_any_row(catalog: lw.Catalog, options: dict[str, str], match: str) -> None:
    table = _table(catalog, {})
    with pytest.raises(InvalidInputError, match=match):
        table.copy(options).new_batch_write_builder().new_write()


def test_paths_may_be_options_of_a_table_handle(catalog: lw.Catalog, tmp_path: Path) -> None:
    table = _table(catalog, {}).copy(_options(tmp_path, "round-robin"))
    lw.write_table(_rows(3), table)
    assert len(_outside(tmp_path)) == 3
    assert lw.read_table(table).num_rows == 3


def test_another_file_system_is_refused(catalog: lw.Catalog) -> None:
    table = _table(catalog, {PATHS: "s3://bucket/x", STRATEGY: "round-robin"})
    with pytest.raises(UnsupportedError, match="another file system"):
        table.new_batch_write_builder().new_write().write_arrow(_rows(1))


def test_messages_travel_and_can_be_aborted(catalog: lw.Catalog, tmp_path: Path) -> None:
    table = _table(catalog, _options(tmp_path, "entropy-inject"))
    builder = table.new_batch_write_builder()
    with builder.new_write() as write, builder.new_commit() as commit:
        write.write_arrow(_rows(9))
        messages = pickle.loads(pickle.dumps(write.prepare_commit()))  # noqa: S301 - our own bytes
        assert len(_outside(tmp_path)) == 3
        commit.abort(messages)
    assert not _outside(tmp_path)
    with builder.new_write() as write, builder.new_commit() as commit:
        write.write_arrow(_rows(9))
        messages = [lw.CommitMessage.deserialize(message.serialize()) for message in write.prepare_commit()]
        commit.commit([lw.CommitMessage.from_java(message.to_java()) for message in messages])
    assert lw.read_table(table).num_rows == 9


def test_a_message_cannot_place_a_file_elsewhere(catalog: lw.Catalog, tmp_path: Path) -> None:
    table = _table(catalog, _options(tmp_path, "round-robin"))
    builder = table.new_batch_write_builder()
    write = builder.new_write()
    write.write_arrow(_rows(3, p="x"))
    [message] = write.prepare_commit()
    for place in (f"file:{tmp_path}/three/p=x/bucket-0", f"file:{tmp_path}/one/p=y/bucket-0", f"file:{tmp_path}/one"):
        file = replace(message.new_files[0], external_path=f"{place}/{message.new_files[0].file_name}")
        with pytest.raises(InvalidMessageError, match="has no directory for its bucket"):
            builder.new_commit().commit([replace(message, new_files=(file,))])
    assert table.snapshot() is None


@pytest.mark.parametrize(("strategy", "known"), each_once(["round-robin", "entropy-inject"], [True, False]))
def test_leftovers_of_a_write_are_found(catalog: lw.Catalog, tmp_path: Path, strategy: str, known: bool) -> None:
    table = _table(catalog, _options(tmp_path, strategy))
    lw.write_table(_rows(3), table)
    before = _outside(tmp_path)
    write = table.new_batch_write_builder().new_write()
    write.write_arrow(_rows(9))
    messages = write.prepare_commit()
    write_id = messages[0].new_files[0].file_name.removeprefix("data-")[:36]
    places = [(message.partition_bytes, message.bucket) for message in messages] if known else None
    assert remove_leftovers(table.store, write_id, places=places) == 3
    assert _outside(tmp_path) == before


@pytest.mark.parametrize("strategy", ["round-robin", "entropy-inject"])
def test_expiry_orphans_and_drop_find_the_files(catalog: lw.Catalog, tmp_path: Path, strategy: str) -> None:
    table = _table(catalog, _options(tmp_path, strategy), keys=True)
    for v in "abc":
        lw.write_table(_rows(9, v), table)
    table.compact(full=True)
    before = _outside(tmp_path)
    table.expire_snapshots(retain_max=1, retain_min=1)
    after = _outside(tmp_path)
    assert len(after) < len(before)
    assert sorted(lw.read_table(table)["v"].to_pylist()) == ["c"] * 9
    assert {path.name for path in after} == {
        Path(path).name for path in lw.read_table(catalog.get_table("d.t$files"))["file_path"].to_pylist()
    }
    write = table.new_batch_write_builder().new_write()
    write.write_arrow(_rows(9))
    messages = write.prepare_commit()
    stray = {file.file_name for message in messages for file in message.new_files}
    stranger = tmp_path / "one" / "notes.txt"
    stranger.write_text("not a data file")
    removed = table.remove_orphan_files(older_than=_soon())
    assert {Path(path).name for path in removed.paths} >= stray
    assert {path.name for path in _outside(tmp_path)} == {path.name for path in after} | {"notes.txt"}
    assert sorted(lw.read_table(table)["v"].to_pylist()) == ["c"] * 9
    catalog.drop_table("d.t")
    assert _outside(tmp_path) == [stranger]


def _soon() -> int:
    time.sleep(0.01)
    return time.time_ns() // 1_000_000


def test_orphans_of_a_shared_directory_are_left_alone(catalog: lw.Catalog, tmp_path: Path) -> None:
    first = _table(catalog, _options(tmp_path, "round-robin"), name="d.first")
    second = _table(
        catalog, {PATHS: f"file:{tmp_path}/two/inner,file:{tmp_path}/three", STRATEGY: "round-robin"}, name="d.s"
    )
    for table in (first, second):
        lw.write_table(_rows(9), table)
    with pytest.warns(LakewrightWarning, match="are left alone"):
        removed = first.remove_orphan_files(older_than=_soon())
    assert not removed.paths
    catalog.drop_table("d.first")
    assert lw.read_table(second).num_rows == 9


@pytest.mark.parametrize("strategy", ["round-robin", "entropy-inject"])
def test_of_two_writers_of_one_bucket_the_later_commit_wins(catalog: lw.Catalog, tmp_path: Path, strategy: str) -> None:
    table = _table(catalog, {**_options(tmp_path, strategy), "bucket": "1"}, keys=True)
    builders = [table.new_batch_write_builder() for _ in "ab"]
    writes = [builder.new_write() for builder in builders]
    for write, v in zip(writes, "ab", strict=True):
        write.write_arrow(_rows(9, v))
    prepared = [write.prepare_commit() for write in writes]
    for builder, messages in zip(builders, prepared, strict=True):
        builder.new_commit().commit(messages)  # the second one's rows get higher numbers, in copies of its files
    assert lw.read_table(table)["v"].to_pylist() == ["b"] * 9
    splits = table.new_read_builder().new_scan().plan().splits()
    assert {file.file_name for split in splits for file in split.files} == {path.name for path in _outside(tmp_path)}


def test_external_paths_in_an_object_store(s3_server: S3Server) -> None:
    bucket = s3_server.make_bucket()
    catalog = lw.CatalogFactory.create({"warehouse": f"s3://{bucket}/warehouse", **s3_server.options})
    catalog.create_database("d")
    table = _table(catalog, {PATHS: f"s3a://{bucket}/one,s3://{bucket}/two", STRATEGY: "entropy-inject"}, keys=True)
    for v in "ab":
        lw.write_table(_rows(9, v), table)
    table.compact(full=True)
    table.expire_snapshots(retain_max=1, retain_min=1)
    assert sorted(lw.read_table(table)["v"].to_pylist()) == ["b"] * 9
    live = {Path(path).name for path in lw.read_table(catalog.get_table("d.t$files"))["file_path"].to_pylist()}

    def outside() -> set[str]:
        found = s3_server.client().list_objects_v2(Bucket=bucket).get("Contents", [])
        keys = [one["Key"] for one in found if one["Key"].startswith(("one/", "two/"))]
        return {Path(key).name for key in keys if CLAIMS not in key}

    assert outside() == live
    write = table.new_batch_write_builder().new_write()
    write.write_arrow(_rows(3))
    write.prepare_commit()
    time.sleep(1.1)  # the store keeps times in seconds
    table.remove_orphan_files(older_than=_soon())
    assert outside() == live
    catalog.drop_table("d.t")
    assert outside() == set()
    left = s3_server.client().list_objects_v2(Bucket=bucket).get("Contents", [])
    assert not [one["Key"] for one in left if one["Key"].startswith(("one/", "two/"))]  # no claim either
    other = _table(catalog, {PATHS: f"s3://{s3_server.make_bucket()}/x", STRATEGY: "round-robin"})
    with pytest.raises(UnsupportedError, match="another bucket"):
        other.new_batch_write_builder().new_write().write_arrow(_rows(1))
