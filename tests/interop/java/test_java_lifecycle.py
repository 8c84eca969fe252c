"""Partitions, tags and snapshots that grow old: Java and we leave the same behind, with the same clock and options."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import lakewright as lw
from lakewright.spec.snapshot import snapshot_from_json, to_json
from lakewright.table.file_store_table import FileStoreTable
from support.java import Java, JavaError
from support.scripted_http import Answer, scripted

DAY = timedelta(days=1)
NOW = datetime.now()  # noqa: DTZ005 - the format records the wall clock
DAYS = (0, 1, 2, 3, 4, 10, 20, 400)


@pytest.fixture(scope="module")
def java() -> Iterator[Java]:
    started = Java()
    yield started
    started.close()


@dataclass(frozen=True, slots=True)
class Twins:
    """Two copies of one table: what Java does to one of them is compared with what we do to the other."""

    java: Java
    warehouse: Path

    def make(self, columns: str, partitions: str, options: Mapping[str, str], keys: str = "") -> None:
        pairs = [f"{key}={value}" for key, value in {"bucket": "1" if keys else "-1", **options}.items()]
        self.java.ask("make", str(self.warehouse), "d", "ours", columns, partitions, keys, *pairs)

    def write(self, rows: Sequence[str], name: str = "ours") -> None:
        self.java.ask("write", str(self.warehouse), "d", name, *rows)

    def set(self, options: Mapping[str, str], name: str = "ours") -> None:
        self.java.set(self.warehouse, f"d.{name}", options)

    def copy(self) -> None:
        """Give Java a copy of the table as it is now."""
        shutil.copytree(self.path("ours"), self.path("theirs"))

    def ask(self, command: str, *words: str) -> None:
        self.java.ask(command, str(self.warehouse), "d", "theirs", *words)

    def path(self, name: str) -> Path:
        return self.warehouse / "d.db" / name

    def table(self, name: str = "ours") -> FileStoreTable:
        found = lw.CatalogFactory.create({"warehouse": str(self.warehouse)}).get_table(f"d.{name}")
        assert isinstance(found, FileStoreTable)
        return found

    def shift(self, ages: Mapping[int, timedelta]) -> None:
        """Let snapshots be older than they are."""
        for snapshot_id, age in ages.items():
            path = self.path("ours") / "snapshot" / f"snapshot-{snapshot_id}"
            fields = json.loads(path.read_text())
            fields.pop("checksum", None)
            fields["timeMillis"] = int((NOW - age).timestamp() * 1000)
            path.write_text(json.dumps(fields))
            assert to_json(snapshot_from_json(path.read_bytes(), path=str(path)))

    def state(self, name: str) -> tuple[object, ...]:
        """Return snapshots with their kinds, tags with their snapshots, and rows of a table."""
        table = self.table(name)
        store = table.store
        snapshots = [(one.id, str(one.commit_kind)) for one in map(store.snapshots.get, store.snapshots.ids())]
        tags = [(tag.name, tag.snapshot.id, tag.time_retained) for tag in store.tags.all()]
        rows = sorted(map(str, lw.read_table(table).to_pylist()))
        marks = sorted(str(path.relative_to(self.path(name))) for path in self.path(name).rglob("*_SUCCESS"))
        return snapshots, tags, rows, marks, store.changelogs.ids(), store.consumers.all()

    def agreed(self) -> tuple[object, ...]:
        ours, theirs = self.state("ours"), self.state("theirs")
        assert ours == theirs
        return ours


@pytest.fixture
def twins(java: Java, tmp_path: Path) -> Twins:
    return Twins(java, tmp_path)


PARTITIONS = {
    "days": ("dt STRING", "dt", [f"{NOW - n * DAY:%Y-%m-%d}" for n in DAYS], {}),
    "days and others": ("dt STRING", "dt", ["2024-01-01", "abc", "", "2024-2-31", "2024-13-1", " 2024-01-01"], {}),
    "times": (
        "dt STRING",
        "dt",
        ["2024-01-01 25:00:00", "2024-01-01 1:2:3.5", "2024-01-01T00:00:00", "2999-01-01"],
        {},
    ),
    "compact days": (
        "dt INT",
        "dt",
        [f"{NOW - n * DAY:%Y%m%d}" for n in DAYS],
        {"partition.timestamp-formatter": "yyyyMMdd"},
    ),
    "strict days": (
        "dt STRING",
        "dt",
        ["2024-02-31", "2024-2-3", "2024-01-01", "20240101", "2024-00-01", "2024-12-32", "0000-01-01"],
        {"partition.timestamp-formatter": "yyyy-MM-dd"},
    ),
    "loose days": (
        "dt STRING",
        "dt",
        ["2024-1-1", "2024-01-01", "2024-001-01", "24-1-1"],
        {"partition.timestamp-formatter": "yyyy-M-d"},
    ),
    "hours": (
        "dt STRING",
        "dt",
        ["2024010124", "2024010123", "20240101", "2024010125"],
        {"partition.timestamp-formatter": "yyyyMMddHH"},
    ),
    "two digits": ("dt STRING", "dt", ["240101", "991231"], {"partition.timestamp-formatter": "yyMMdd"}),
    "quoted": (
        "dt STRING",
        "dt",
        ["2024-01-01T05:06:07", "2024-01-01T05:06:07.123"],
        {"partition.timestamp-formatter": "yyyy-MM-dd'T'HH:mm:ss"},
    ),
    "fractions": (
        "dt STRING",
        "dt",
        ["2024-01-01 05:06:07.123", "2024-01-01 05:06:07.12"],
        {"partition.timestamp-formatter": "yyyy-MM-dd HH:mm:ss.SSS"},
    ),
    "optional": (
        "dt STRING",
        "dt",
        ["2024-01-01", "2024-01-01 10", "2024-01-01 1"],
        {"partition.timestamp-formatter": "yyyy-MM-dd[ HH]"},
    ),
    "dates": ("dt DATE", "dt", ["2024-01-01", "2999-01-01"], {}),
    "timestamps": ("dt TIMESTAMP(3)", "dt", ["2024-01-01 00:00:00", "2999-01-01 00:00:00"], {}),
    "limit": (
        "dt STRING",
        "dt",
        [f"{NOW - n * DAY:%Y-%m-%d}" for n in DAYS],
        {"partition.expiration-max-num": "3", "partition.expiration-batch-size": "2"},
    ),
    "fresh files": ("dt STRING", "dt", ["2024-01-01", "x", ""], {"partition.expiration-strategy": "update-time"}),
}


@pytest.mark.parametrize("case", PARTITIONS)
@pytest.mark.parametrize("way", ["call", "commit"])
def test_partitions_expire_as_in_java(twins: Twins, case: str, way: str) -> None:
    column, partitions, values, options = PARTITIONS[case]
    twins.make(f"{column},v INT", partitions, {})
    twins.write([f"+I|{value}|{number}" for number, value in enumerate(values)])
    age = {"partition.expiration-time": "3 d", "partition.expiration-check-interval": "0 ms"}
    twins.set({**age, **options})
    twins.copy()
    if way == "call":
        twins.ask("expirepartitions")
        twins.table().expire_partitions()
    else:
        row = f"+I|{values[-1] or 'x'}|9"
        twins.write([row], "theirs")
        typed = pa.table({"dt": lw.read_table(twins.table()).filter(pa.compute.field("v") == len(values) - 1)["dt"]})
        if values[-1]:
            lw.write_table(typed.append_column("v", pa.array([9], pa.int32())), twins.table())
        else:
            lw.write_table(pa.table({"dt": ["x"], "v": pa.array([9], pa.int32())}), twins.table())
    twins.agreed()


def test_partitions_of_two_columns_expire_as_in_java(twins: Twins) -> None:
    twins.make("dt STRING,hm STRING,v INT", "dt,hm", {"partition.expiration-time": "3 d"})
    twins.write([f"+I|{NOW - n * DAY:%Y%m%d}|{n % 24:02}|{n}" for n in DAYS])
    twins.set(
        {
            "partition.expiration-check-interval": "0 ms",
            "partition.timestamp-formatter": "yyyyMMdd HH",
            "partition.timestamp-pattern": "$dt $hm",
        }
    )
    twins.copy()
    twins.ask("expirepartitions")
    twins.table().expire_partitions()
    assert len(twins.agreed()[2]) in {3, 4}  # type: ignore[arg-type]


def test_partitions_expire_by_the_time_of_their_last_change_as_in_java(twins: Twins) -> None:
    options = {"partition.expiration-strategy": "update-time", "partition.expiration-check-interval": "0 ms"}
    twins.make("dt STRING,v INT", "dt", {**options, "partition.expiration-time": "1 ms"})
    twins.set({"write-only": "true"})
    twins.write(["+I|a|1", "+I|b|2"])
    twins.set({"write-only": "false"})
    twins.copy()
    twins.ask("expirepartitions")
    twins.table().expire_partitions()
    assert twins.agreed()[2] == []


Ages = Callable[[int], timedelta]
TAGS: dict[str, tuple[dict[str, str], list[timedelta]]] = {
    "daily": ({}, [9 * DAY, 8 * DAY, 8 * DAY, 5 * DAY, 2 * DAY, 1 * DAY]),
    "delayed": ({"tag.creation-delay": "10 h"}, [9 * DAY - timedelta(hours=n * 5) for n in range(12)]),
    "completed": ({"tag.automatic-completion": "true"}, [9 * DAY - timedelta(hours=30 * n) for n in range(7)]),
    "few": ({"tag.num-retained-max": "2"}, [9 * DAY - timedelta(hours=20 * n) for n in range(9)]),
    "hourly": (
        {"tag.creation-period": "hourly", "tag.period-formatter": "without_dashes"},
        [9 * DAY - timedelta(minutes=37 * n) for n in range(8)],
    ),
    "two hours": ({"tag.creation-period": "two-hours"}, [9 * DAY - timedelta(minutes=67 * n) for n in range(8)]),
    "no spaces": (
        {"tag.creation-period": "hourly", "tag.period-formatter": "without_dashes_and_spaces"},
        [9 * DAY - timedelta(minutes=37 * n) for n in range(5)],
    ),
    "minutes": ({"tag.creation-period-duration": "20 min"}, [9 * DAY - timedelta(minutes=7 * n) for n in range(9)]),
    "kept for a time": ({"tag.default-time-retained": "5 d"}, [9 * DAY, 5 * DAY, 2 * DAY]),
    "with a file": ({"tag.create-success-file": "true"}, [9 * DAY, 5 * DAY, 2 * DAY]),
}


@pytest.mark.parametrize("case", TAGS)
def test_tags_of_periods_are_those_of_java(twins: Twins, case: str) -> None:
    options, ages = TAGS[case]
    twins.make("v INT", "", {})
    for number in range(len(ages)):
        twins.write([f"+I|{number}"])
    twins.shift({number + 1: age for number, age in enumerate(ages)})
    kept = {"snapshot.time-retained": "999 d"}  # Java would expire the old snapshots first
    twins.set({"tag.automatic-creation": "process-time", **kept, **options})
    twins.copy()
    twins.write(["+I|99"], "theirs")
    lw.write_table(pa.table({"v": pa.array([99], pa.int32())}), twins.table())
    assert len(twins.agreed()[1]) > 1  # type: ignore[arg-type]
    twins.write(["+I|100"], "theirs")
    lw.write_table(pa.table({"v": pa.array([100], pa.int32())}), twins.table())
    twins.agreed()


@pytest.mark.parametrize("options", [{}, {"tag.batch.customized-name": "mine"}, {"tag.num-retained-max": "2"}])
def test_the_tag_after_a_batch_write_is_that_of_java(twins: Twins, options: dict[str, str]) -> None:
    twins.make("v INT", "", {})
    for name in ("a", "b", "c"):
        twins.write(["+I|1"])
        twins.table().create_tag(name)
    twins.set({"tag.automatic-creation": "batch", **options})
    twins.copy()
    twins.write(["+I|2"], "theirs")
    twins.ask("batchtag")
    lw.write_table(pa.table({"v": pa.array([2], pa.int32())}), twins.table())
    assert len(twins.agreed()[1]) >= 2  # type: ignore[arg-type]


def test_tags_expire_as_in_java(twins: Twins) -> None:
    twins.make("v INT", "", {})
    for name, kept in (("a", "PT0.001S"), ("b", "PT240H"), ("c", "PT0.5S")):
        twins.write(["+I|1"])
        twins.java.ask("retaintag", str(twins.warehouse), "d", "ours", name, kept)
    twins.table().create_tag("for-ever")
    for path in (twins.path("ours") / "tag").glob("tag-c"):  # created long ago
        fields = json.loads(path.read_text())
        fields["tagCreateTime"][0] -= 1
        path.write_text(json.dumps(fields))
    twins.copy()
    twins.ask("expiretags")
    assert twins.table().expire_tags() == ["c"]  # the next commit of Java deleted "a"
    assert [name for name, *_ in twins.agreed()[1]] == ["b", "for-ever"]  # type: ignore[attr-defined]


SNAPSHOTS = [
    {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "2"},
    {"snapshot.num-retained.min": "2", "snapshot.time-retained": "4 d"},
    {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "3", "snapshot.expire.limit": "2"},
    {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "2", "write-only": "true"},
]


@pytest.mark.parametrize("options", SNAPSHOTS)
@pytest.mark.parametrize("keys", ["", "k"])
def test_snapshots_expire_after_a_commit_as_in_java(twins: Twins, options: dict[str, str], keys: str) -> None:
    twins.make("k INT,v INT", "", {"write-only": "true"}, keys)
    for number in range(7):
        twins.write([f"+I|{number % 3}|{number}"])
    twins.shift({number + 1: (9 - number) * DAY for number in range(7)})
    twins.set({"write-only": "false", "num-sorted-run.compaction-trigger": "99", **options})
    twins.copy()
    twins.write(["+I|1|99"], "theirs")
    row = {"k": pa.array([1], pa.int32()), "v": pa.array([99], pa.int32())}
    lw.write_table(pa.table(row), twins.table())
    twins.agreed()


def test_a_purged_table_is_as_java_leaves_it(twins: Twins) -> None:
    twins.make("k INT,v INT", "", {}, "k")
    for number in range(4):
        twins.write([f"+I|{number}|{number}"])
    twins.table().create_tag("v1")
    twins.java.branch(twins.warehouse, "d.ours", "b")
    twins.copy()
    twins.ask("purge")
    twins.table().purge_files()
    snapshots, *_ = twins.agreed()
    assert [kind for _, kind in snapshots] == ["OVERWRITE"]  # type: ignore[attr-defined]
    for name in ("ours", "theirs"):
        assert list(twins.path(name).rglob("data-*")) == []
        assert twins.table(name).list_branches() == []


def test_a_partition_is_marked_as_done_as_in_java(twins: Twins) -> None:
    twins.make("p STRING,q INT,v INT", "p,q", {})
    twins.write(["+I|a|1|1", "+I|b|2|2"])
    twins.copy()
    twins.ask("markdone", "p=a/q=1")
    twins.table().mark_partition_done([{"p": "a", "q": 1}])
    assert twins.agreed()[3] == ["p=a/q=1/_SUCCESS"]
    texts = [json.loads((twins.path(name) / "p=a/q=1/_SUCCESS").read_text()) for name in ("ours", "theirs")]
    assert texts[0].keys() == texts[1].keys()


def test_a_server_gets_the_report_that_java_sends(twins: Twins) -> None:
    twins.make("p STRING,q INT,v INT", "p,q", {})
    twins.write(["+I|a|1|1"])
    with scripted() as server:
        server.will(*[Answer(200, {"result": "SUCCESS"})] * 2)
        action = {"partition.mark-done-action": "http-report", "partition.mark-done-action.http.params": "word"}
        twins.set({**action, "partition.mark-done-action.http.url": f"{server.uri}/done"})
        twins.copy()
        twins.ask("markdone", "p=a/q=1/")
        twins.table().mark_partition_done({"p": "a", "q": 1})
        theirs, ours = (got.body for got in server.requests)
    assert isinstance(theirs, dict)
    assert ours == {**theirs, "table": "d.ours", "path": str(twins.path("ours"))}
    assert theirs["table"] == "d.theirs"


def test_a_partition_is_added_to_no_metastore_as_in_java(twins: Twins) -> None:
    twins.make("p STRING,v INT", "p", {})
    twins.write(["+I|a|1"])
    twins.set({"partition.mark-done-action": "done-partition", "metastore.partitioned-table": "true"})
    twins.copy()
    with pytest.raises(JavaError, match="without metastore"):
        twins.ask("markdone", "p=a/")
    with pytest.raises(lw.UnsupportedError, match="metastore"):
        twins.table().mark_partition_done({"p": "a"})


SECONDS = int(NOW.timestamp())
TIMES = {
    "INT": [str(SECONDS - n * 86400) for n in (0, 1, 2, 4, 9)],
    "BIGINT": [str((SECONDS - n * 86400) * (1000 if n % 2 else 1)) for n in (0, 1, 2, 4, 9)],
    "TIMESTAMP(3)": [f"{NOW - n * DAY:%Y-%m-%d %H:%M:%S}" for n in (0, 1, 2, 4, 9)],
    "TIMESTAMP(6)": [f"{NOW - n * DAY:%Y-%m-%d %H:%M:%S}" for n in (0, 1, 2, 4, 9)],
}


@pytest.mark.parametrize("kind", TIMES)
@pytest.mark.parametrize("options", [{}, {"changelog-producer": "lookup"}, {"deletion-vectors.enabled": "true"}])
def test_records_expire_in_compactions_as_in_java(twins: Twins, kind: str, options: dict[str, str]) -> None:
    age = {"record-level.expire-time": "3 d", "record-level.time-field": "at"}
    twins.make(f"k INT,at {kind},v INT", "", {**age, **options, "write-only": "true"}, "k")
    times = [*TIMES[kind], ""]
    twins.write([f"+I|{number}|{time}|{number}" for number, time in enumerate(times)])
    twins.write([f"+I|{number}|{time}|{10 + number}" for number, time in enumerate(reversed(times))])
    twins.write([f"-D|0|{times[4]}|0"])
    twins.copy()
    assert len(twins.agreed()[2]) == (0 if "deletion-vectors.enabled" in options else 5)  # type: ignore[arg-type]
    twins.java.compact(twins.warehouse, "d.theirs", **{"write-only": "false"})
    twins.table().compact(full=True)
    assert len(twins.agreed()[2]) > 2  # type: ignore[arg-type]
