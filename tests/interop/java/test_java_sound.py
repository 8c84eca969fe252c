"""Tables that Java wrote, of many kinds: all of them are sound, so `verify` finds no error and no warning in any."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import lakewright as lw
from lakewright.maintenance.verify_findings import INFO
from lakewright.maintenance.verify_table import verify_table
from support.java import Java

FAR_MILLIS = 10 * 24 * 60 * 60 * 1000  # every file is old enough to be an orphan
COLUMNS = "k INT,p STRING,v STRING,n BIGINT,x DOUBLE,d DATE,m DECIMAL(20,3),t TIMESTAMP(6)"
Step = tuple[str, ...]


def row(key: int, kind: str = "+I", round_: int = 0, part: str | None = None) -> str:
    """Return one row of `COLUMNS` as Java's process takes it; some cells are null."""
    text = "" if key % 7 == 3 else f"name {key} of round {round_}, a text longer than sixteen characters"
    double = ["", "-0.0", "NaN", "1.5", "-Infinity"][key % 5]
    part = "ab"[key % 2] if part is None else part
    day, number = key % 9 + 1, key * 10**10
    return f"{kind}|{key}|{part}|{text}|{number}|{double}|2024-0{day}-28|{key}.125|2024-01-01 00:00:0{day}"


def rows(keys: Sequence[int], round_: int = 0) -> Step:
    return ("write", *(row(key, round_=round_) for key in keys))


TAG: Step = ("retaintag", "v1", "PT9999H")
COMPACT: Step = ("compact", "compaction.min.file-num=2", "write-only=false")
PLAIN: tuple[Step, ...] = (rows(range(12)), rows(range(6, 18), 1), TAG, COMPACT, rows(range(3), 2))
CHANGES: tuple[Step, ...] = (
    *PLAIN,
    ("write", row(4, "-D"), row(5, "-D"), row(20)),
    COMPACT,
    rows(range(9, 30), 3),
)


@dataclass(frozen=True, slots=True)
class Kind:
    """How Java makes a table, and what it then does with it."""

    options: Mapping[str, str] = field(default_factory=dict)
    keys: str = ""
    partitions: str = ""
    columns: str = COLUMNS
    steps: tuple[Step, ...] = PLAIN
    orphans: bool = False  # files that Java leaves behind, as a rollback does: true findings


def keyed(options: Mapping[str, str], *, steps: tuple[Step, ...] = CHANGES, orphans: bool = False) -> Kind:
    return Kind({"bucket": "1", **options}, "k", steps=steps, orphans=orphans)


def _formats() -> Iterator[tuple[str, Kind]]:
    codecs = {
        "parquet": ("none", "lz4", "zstd", "gzip"),
        "orc": ("lz4", "zstd", "zlib", "none"),
        "avro": ("zstd", "deflate", "bzip2"),
    }
    for kind, names in codecs.items():
        for codec in names:
            yield f"{kind} {codec}", Kind({"file.format": kind, "file.compression": codec})
        yield f"keyed {kind}", keyed({"file.format": kind})
        yield f"vectors {kind}", keyed({"file.format": kind, "deletion-vectors.enabled": "true"})


def _engines() -> Iterator[tuple[str, Kind]]:
    engines: dict[str, dict[str, str]] = {
        "deduplicate": {},
        "partial-update": {"merge-engine": "partial-update", "ignore-delete": "true"},
        "aggregation": {
            "merge-engine": "aggregation",
            "fields.n.aggregate-function": "sum",
            "fields.x.aggregate-function": "max",
            "fields.v.aggregate-function": "last_non_null_value",
            "fields.default-aggregate-function": "last_value",
            "ignore-delete": "true",
        },
        "first-row": {"merge-engine": "first-row", "ignore-delete": "true"},
    }
    for engine, options in engines.items():
        for producer in ("none", "lookup", "full-compaction"):
            if (engine, producer) != ("first-row", "full-compaction"):
                yield f"{engine} {producer}", keyed({**options, "changelog-producer": producer})
        if engine != "first-row":
            yield f"{engine} vectors", keyed({**options, "deletion-vectors.enabled": "true"})
    yield "input", keyed({"changelog-producer": "input"})
    yield "input orc", keyed({"changelog-producer": "input", "changelog-file.format": "orc"})
    wide = {"deletion-vectors.enabled": "true", "deletion-vectors.bitmap64": "true", "changelog-producer": "lookup"}
    yield "vectors of 64 bits", keyed(wide)
    yield "merged on read", keyed({"deletion-vectors.enabled": "true", "deletion-vectors.merge-on-read": "true"})


def _buckets() -> Iterator[tuple[str, Kind]]:
    yield "three buckets", keyed({"bucket": "3"})
    yield (
        "dynamic buckets",
        keyed({"bucket": "-1", "dynamic-bucket.target-row-num": "5"}, steps=(PLAIN[0], *PLAIN[2:4])),
    )
    yield "postponed", keyed({"bucket": "-2"}, steps=PLAIN[:3])
    yield "append buckets", Kind({"bucket": "3", "bucket-key": "n"})
    yield "append buckets by text", Kind({"bucket": "4", "bucket-key": "p,v"})
    yield "buckets by remainder", Kind({"bucket": "3", "bucket-key": "k", "bucket-function.type": "mod"})
    yield "keyed partitions", Kind({"bucket": "2"}, "p,k", "p", steps=CHANGES)
    yield "dynamic partitions", Kind({"bucket": "-1"}, "p,k", "p", steps=PLAIN)
    yield "many levels", keyed({"num-levels": "4", "num-sorted-run.compaction-trigger": "2"}, steps=CHANGES + PLAIN[:2])
    yield "write only", keyed({"write-only": "true"}, steps=(*PLAIN[:2], PLAIN[2]))


def _metadata() -> Iterator[tuple[str, Kind]]:
    for mode in ("none", "counts", "truncate(4)", "full"):
        yield f"statistics {mode}", Kind({"metadata.stats-mode": mode, "fields.v.stats-mode": "truncate(20)"})
    yield "statistics by level", keyed({"metadata.stats-mode.per.level": "0:none,5:full"})
    yield "statistics of few columns", Kind({"metadata.stats-keep-first-n-columns": "2"})
    yield "statistics of all columns", Kind({"metadata.stats-dense-store": "false", "fields.n.stats-mode": "none"})
    yield "manifests merged", Kind({"manifest.merge-min-count": "2", "manifest.full-compaction-threshold-size": "1 b"})
    yield "manifests plain", Kind({"manifest.compression": "null", "manifest.target-file-size": "1 kb"})
    yield "names", keyed({"data-file.prefix": "rows-", "changelog-file.prefix": "log-", "changelog-producer": "input"})
    yield "suffixes", Kind({"file.suffix.include.compression": "true"})
    yield "data directory", keyed({"data-file.path-directory": "data", "index-file-in-data-file-dir": "true"})
    yield "thin", keyed({"data-file.thin-mode": "true"})
    for index in ("bloom-filter", "bitmap", "bsi", "range-bitmap"):
        yield f"index {index}", Kind({f"file-index.{index}.columns": "k,n", "file-index.in-manifest-threshold": "1 b"})
    yield (
        "index in the manifest",
        Kind({"file-index.bloom-filter.columns": "k", "file-index.in-manifest-threshold": "1 mb"}),
    )
    yield "small files", Kind({"target-file-size": "1 b", "bucket": "1", "bucket-key": "k"})
    yield "sequence field", keyed({"sequence.field": "n,x", "sequence.field.sort-order": "descending"})
    yield "row kinds", keyed({"rowkind.field": "p"}, steps=(("write", row(1, part="+I"), row(2, part="-D")),))
    yield "tracked rows", Kind({"row-tracking.enabled": "true"})
    yield "tracked partitions", Kind({"row-tracking.enabled": "true"}, partitions="p")
    yield "data evolution", Kind({"row-tracking.enabled": "true", "data-evolution.enabled": "true"}, steps=PLAIN[:3])


def _partitions() -> Iterator[tuple[str, Kind]]:
    odd = ["", " ", "a/b", "ü€", "100%", "k=v", "__x__", ".", "a:b", "tab\\t", "'", "x" * 120]
    texts = (("write", *(row(n, part=part) for n, part in enumerate(odd))), COMPACT, rows(range(4)))
    yield "odd texts", Kind(partitions="p", steps=texts)
    yield "odd texts in Hive's way", Kind({"partition.legacy-name": "false"}, partitions="p", steps=texts)
    for column in ("k", "n", "d", "m", "t"):
        yield f"partitions by {column}", Kind(partitions=column)
    yield "partitions by two", Kind(partitions="p,d", steps=PLAIN)


def _histories() -> Iterator[tuple[str, Kind]]:
    short = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "2"}
    expired = (rows(range(5)), TAG, rows(range(9)), COMPACT, rows(range(3)), rows(range(2)))
    yield "expired", Kind(short, steps=expired)
    yield "expired keys", keyed(short, steps=(*expired, *CHANGES[3:]))
    for producer in ("input", "lookup", "full-compaction"):
        logged = {**short, "changelog-producer": producer, "changelog.num-retained.max": "4"}
        yield f"expired {producer}", keyed({**short, "changelog-producer": producer}, steps=(*expired, *expired[2:]))
        yield (
            f"kept changelogs {producer}",
            keyed({**logged, "changelog.num-retained.min": "1"}, steps=(*expired, *expired[2:])),
        )
    branched = (*PLAIN, ("branch", "b"), ("write@b", *rows(range(4))[1:]), ("write@b", *rows(range(2, 8))[1:]))
    yield "branch", Kind(steps=branched)
    yield "branch of keys", keyed({}, steps=(*branched, ("compact@b",)))
    yield "forwarded", Kind(steps=(*branched, ("fastforward", "b"), rows(range(2))), orphans=True)
    yield "rolled back", keyed({}, steps=(*CHANGES, ("goback", "2"), rows(range(3))), orphans=True)
    added: tuple[Step, ...] = (("addcolumn", "extra", "STRING"), ("renamecolumn", "v", "w"))
    after = tuple(f"{cells}|extra {n}" for n, cells in enumerate(rows(range(4, 16), 5)[1:]))
    changed: tuple[Step, ...] = (*PLAIN[:3], *added, ("write", *after), COMPACT, ("write", *after[:3]))
    yield "changed columns", Kind(steps=changed)
    yield "changed columns orc", Kind({"file.format": "orc"}, steps=changed)
    yield "changed columns of keys", keyed({"changelog-producer": "lookup"}, steps=changed)
    old = {"partition.expiration-time": "3 d", "partition.timestamp-pattern": "$p"}
    dated = ("write", *(row(n, part=part) for n, part in enumerate(("2020-01-01", "2999-01-01", "x"))))
    yield "expired partitions", Kind(old, partitions="p", steps=(dated, ("expirepartitions",)))
    yield "purged", keyed({}, steps=(*PLAIN, ("purge",), *PLAIN[:1]))
    yield "tags with an end", Kind(steps=(PLAIN[0], ("retaintag", "x", "PT1H"), *PLAIN))


KINDS = {
    name: kind for make in (_formats, _engines, _buckets, _metadata, _partitions, _histories) for name, kind in make()
}


@pytest.fixture(scope="module")
def java() -> Iterator[Java]:
    started = Java()
    yield started
    started.close()


def findings(table: lw.FileStoreTable) -> list[str]:
    """Return every error and warning about all rows of all states of a table."""
    now = time.time_ns() // 1_000_000 + FAR_MILLIS
    result = verify_table(table.store, depth="full", states="all", now_millis=now)
    return [f"{one.kind} {one.path}: {one.message}" for one in result.findings if one.severity != INFO]


@pytest.mark.parametrize("name", KINDS)
def test_a_table_of_java_is_sound(java: Java, tmp_path: Path, name: str) -> None:
    kind, place = KINDS[name], (str(tmp_path), "d")
    options = {"bucket": "-1", **kind.options}
    made = [f"{key}={value}" for key, value in options.items()]
    java.ask("make", *place, "t", kind.columns, kind.partitions, kind.keys, *made)
    for command, *words in kind.steps:
        verb, _, branch = command.partition("@")
        java.ask(verb, *place, f"t$branch_{branch}" if branch else "t", *words)
    table = lw.CatalogFactory.create({"warehouse": str(tmp_path)}).get_table("d.t")
    assert len(table.store.snapshots.ids()) > 0
    assert [text for text in findings(table) if not (kind.orphans and text.startswith("orphan "))] == []


NESTED = pa.schema(
    {
        "k": pa.int32(),
        "a": pa.list_(pa.struct({"x": pa.int64(), "y": pa.list_(pa.string())})),
        "m": pa.map_(pa.string(), pa.struct({"z": pa.float64()})),
        "s": pa.struct({"in": pa.struct({"deep": pa.map_(pa.int32(), pa.list_(pa.date32()))})}),
        "b": pa.binary(),
        "c": pa.decimal128(38, 10),
    }
)


@pytest.mark.parametrize("keys", [[], ["k"]])
@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_a_table_of_nested_types_is_sound(java: Java, tmp_path: Path, file_format: str, keys: list[str]) -> None:
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d")
    options = {"file.format": file_format, **({"bucket": "2"} if keys else {})}
    catalog.create_table("d.source", lw.Schema.from_pyarrow_schema(NESTED))
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(NESTED, primary_keys=keys, options=options))
    some: list[dict[str, object]] = [
        {"k": n, "a": [{"x": n, "y": ["a", None]}, None], "m": [("u", {"z": 1.5}), ("v", None)], "b": b"\0\xff" * n}
        for n in range(9)
    ]
    full: list[dict[str, object]] = [
        {"k": n, "a": [], "s": {"in": {"deep": [(n, [None])]}}, "c": None} for n in range(9, 20)
    ]
    lw.write_table(pa.Table.from_pylist(some + full, schema=NESTED), catalog.get_table("d.source"))
    for _ in range(3):
        java.copy(tmp_path, "d.source", "d.t")
    java.compact(tmp_path, "d.t", **{"compaction.min.file-num": "2"})
    java.copy(tmp_path, "d.source", "d.t")
    assert findings(catalog.get_table("d.t")) == []


def test_upkeep_goes_on_where_java_removed_the_changelog_of_a_tag(java: Java, tmp_path: Path) -> None:
    name = "expired input"
    made = [f"{key}={value}" for key, value in KINDS[name].options.items()]
    java.ask("make", str(tmp_path), "d", "t", COLUMNS, "", "k", *made)
    for command, *words in KINDS[name].steps:
        java.ask(command, str(tmp_path), "d", "t", *words)
    table = lw.CatalogFactory.create({"warehouse": str(tmp_path)}).get_table("d.t")
    tagged = table.store.tags.get("v1").snapshot.changelog_manifest_list
    assert tagged is not None
    assert not table.store.storage.exists(table.store.layout.manifest_file(tagged))
    rows_of_tag = lw.read_table(table, tag="v1").num_rows
    assert table.expire_snapshots(retain_max=1).snapshot_ids != ()
    assert table.remove_orphan_files(older_than=timedelta(milliseconds=1)).count == 0
    assert lw.read_table(table, tag="v1").num_rows == rows_of_tag
    assert findings(table) == []


@pytest.mark.parametrize("manifests", ["orc", "parquet"])
def test_a_table_with_manifests_of_another_format_is_refused_by_name(
    java: Java, tmp_path: Path, manifests: str
) -> None:
    java.ask("make", str(tmp_path), "d", "t", "k INT", "", "", "bucket=-1", f"manifest.format={manifests}")
    java.ask("write", str(tmp_path), "d", "t", "+I|1")
    table = lw.CatalogFactory.create({"warehouse": str(tmp_path)}).get_table("d.t")
    for call in (lambda: lw.read_table(table), table.verify):
        with pytest.raises(lw.UnsupportedError, match=r"'manifest.format'.*Avro"):
            call()


def test_there_are_enough_of_them() -> None:
    assert len(KINDS) + 6 >= 63
