"""Which snapshot, which manifests, which files: by options, by partition, by bucket, by statistics."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pytest

from lakewright.errors import InvalidInputError, NotFoundError, TagNotExistException, UnsupportedError
from lakewright.metadata.table_store import TableStore
from lakewright.read.manifest_scan import scan
from lakewright.read.pruning import devolve, matching_buckets
from lakewright.read.read_builder import ReadBuilder
from lakewright.read.time_travel import resolve_snapshot
from lakewright.spec.filter_text import parse_predicate
from lakewright.spec.predicate import FALSE, TRUE, PredicateBuilder
from lakewright.spec.types import AtomicType, DataField
from support.golden import expected
from support.read_tables import append, golden_store, new_table

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string()), ("name", pa.string())])


def _with(store: TableStore, options: Mapping[str, str]) -> TableStore:
    return store.with_schema(store.schema.with_options(options))


def _picked(options: Mapping[str, str]) -> int | None:
    snapshot = resolve_snapshot(golden_store("meta.tags", options))
    return None if snapshot is None else snapshot.id


def test_the_options_name_the_snapshot() -> None:
    spec = expected()["meta.tags"]
    ids = [s["id"] for s in spec["snapshots"]]
    store = golden_store("meta.tags")
    times = {i: store.snapshots.get(i).time_millis for i in ids}
    assert _picked({}) == ids[-1]
    assert _picked({"scan.mode": "latest-full"}) == ids[-1]
    assert _picked({"scan.snapshot-id": "1"}) == 1
    assert _picked({"scan.snapshot-id": "1", "scan.mode": "from-snapshot"}) == 1
    assert _picked({"scan.timestamp-millis": str(times[2])}) == 2
    assert _picked({"scan.timestamp-millis": str(times[2] - 1)}) == 1
    local = datetime.fromtimestamp(times[2] / 1000).isoformat(sep=" ")  # noqa: DTZ006 - the option is local time
    assert _picked({"scan.timestamp": local, "scan.mode": "from-timestamp"}) == 2
    for tag in spec["tags"]:
        wanted = store.tags.get(tag).snapshot.id
        assert _picked({"scan.tag-name": tag}) == wanted
        assert _picked({"scan.version": tag}) == wanted
    assert _picked({"scan.version": "2"}) == 2
    assert resolve_snapshot(golden_store("append.no_snapshot")) is None
    compacted = resolve_snapshot(golden_store("append.unaware_compacted", {"scan.mode": "compacted-full"}))
    assert compacted is not None
    assert compacted.commit_kind == "COMPACT"


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"scan.snapshot-id": "1", "scan.tag-name": "x"}, InvalidInputError, "Only one of the following parameters"),
        ({"scan.snapshot-id": "99"}, NotFoundError, "99"),
        ({"scan.tag-name": "nope"}, TagNotExistException, "nope"),
        ({"scan.version": "nope"}, NotFoundError, "no tag"),
        ({"scan.timestamp-millis": "5"}, NotFoundError, "No snapshot found with timestamp earlier"),
        ({"scan.timestamp": "yesterday"}, InvalidInputError, "scan.timestamp"),
        ({"scan.watermark": "5"}, NotFoundError, "watermark"),
        ({"scan.version": "watermark-5"}, NotFoundError, "watermark"),
        ({"scan.mode": "from-snapshot"}, InvalidInputError, "but none of .* is set"),
        ({"scan.mode": "latest-full", "scan.snapshot-id": "1"}, InvalidInputError, "conflicts with"),
        ({"scan.mode": "latest-delta"}, UnsupportedError, "scan.mode"),
    ],
)
def test_options_that_name_none(options: dict[str, str], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        _picked(options)


def test_the_funnel_counts_the_files_that_each_step_leaves(tmp_path: Path) -> None:
    store = new_table(tmp_path, SCHEMA, ["p"])
    for n in range(4):
        rows = {"id": [n * 10 + i for i in range(4)], "p": ["a", "a", "b", "b"], "name": [f"n{n}"] * 4}
        append(store, pa.table(rows, schema=SCHEMA))
    append(store, pa.table({"id": [99], "p": ["z"], "name": [None]}, schema=SCHEMA))
    snapshot = resolve_snapshot(store)
    assert snapshot is not None

    def funnel(text: str) -> tuple[int, ...]:
        found = scan(store, snapshot, parse_predicate(text, store.schema.fields)).funnel
        return (
            found.manifests_total,
            found.manifests_read,
            found.files_total,
            found.files_after_partition,
            found.files_after_bucket,
            found.files_after_stats,
        )

    assert funnel("true") == (5, 5, 9, 9, 9, 9)
    assert funnel("p = 'a'") == (5, 4, 9, 4, 4, 4)
    assert funnel("p = 'z'") == (5, 1, 9, 1, 1, 1)
    assert funnel("p = 'q'") == (5, 0, 9, 0, 0, 0)
    assert funnel("p = 'a' and id between 10 and 19") == (5, 4, 9, 4, 4, 1)
    assert funnel("id >= 30") == (5, 5, 9, 9, 9, 3)
    assert funnel("name is null") == (5, 5, 9, 9, 9, 1)
    assert funnel("name = 'n2' or p = 'z'") == (5, 5, 9, 9, 9, 3)
    assert funnel("p = 'a' and name = 'n2' or p = 'z' and id < 5") == (5, 5, 9, 5, 5, 1)
    result = ReadBuilder(store).with_filter("p = 'a' and id < 5").explain(verbose=True)
    assert (result.partition_pruning.before, result.partition_pruning.after) == (9, 4)  # type: ignore[union-attr]
    assert (result.file_skipping.before, result.file_skipping.after) == (4, 1)  # type: ignore[union-attr]
    assert result.bucket_pruning is None
    assert result.split_count == result.splits_raw_convertible == 1
    assert "File skipping:      4 -> 1  (pruned 3)" in str(result)
    assert "p = 'a' AND id < 5" in str(result)


def test_buckets_are_pruned_by_the_entries_own_count(tmp_path: Path) -> None:
    store = new_table(tmp_path, SCHEMA, ["p"], {"bucket": "5", "bucket-key": "id,name"})
    rows = pa.table({"id": list(range(50)), "p": ["a", "b"] * 25, "name": ["x"] * 50}, schema=SCHEMA)
    append(store, rows)
    for text, buckets in [
        ("id = 7 and name = 'x'", 1),
        ("id in (7, 8) and name in ('x', 'y') and p = 'b'", 4),
        ("id = 7", 5),
        ("id = 7 and name > 'a'", 5),
        ("id = 7 and name = 'x' and (p = 'a' or id = 8)", 1),
    ]:
        builder = ReadBuilder(store).with_filter(text)
        assert len({s.bucket for s in builder.new_scan().plan().splits()}) <= buckets, text
        predicate = parse_predicate(text, store.schema.fields)
        assert builder.new_read().to_arrow().num_rows == rows.filter(predicate.mask(rows)).num_rows, text
    pruning = ReadBuilder(store).with_filter("id = 7 and name = 'x'").explain().bucket_pruning
    assert pruning is not None
    assert pruning.after < pruning.before


def test_equal_values_name_the_buckets_to_read() -> None:
    fields = [DataField(0, "d", AtomicType("DOUBLE")), DataField(1, "i", AtomicType("INT"))]
    builder = PredicateBuilder(fields)
    zero = matching_buckets(builder.equal("d", 0.0), fields[:1], "default", 97)
    assert zero is not None
    assert len(zero) == 2  # -0.0 equals 0.0 and lies elsewhere
    assert matching_buckets(builder.equal("i", None), fields[1:], "default", 7) == frozenset()
    assert matching_buckets(builder.is_in("i", [1, 2]) & builder.is_in("i", [2, 3]), fields[1:], "default", 7) == (
        matching_buckets(builder.equal("i", 2), fields[1:], "default", 7)
    )
    assert matching_buckets(builder.is_in("i", range(1001)), fields[1:], "default", 7) is None
    assert matching_buckets(builder.is_null("i"), fields[1:], "default", 7) is None
    assert matching_buckets(builder.equal("i", 1) | builder.is_null("i"), fields[1:], "default", 7) is None


def test_predicates_are_said_in_the_words_of_the_file() -> None:
    now = [
        DataField(0, "a", AtomicType("BIGINT")),
        DataField(1, "b", AtomicType("STRING")),
        DataField(2, "c", AtomicType("INT")),
        DataField(3, "d", AtomicType("DOUBLE")),
    ]
    then = [
        DataField(0, "old_a", AtomicType("INT")),
        DataField(1, "old_b", AtomicType("STRING")),
        DataField(3, "d", AtomicType("INT")),
        DataField(9, "c", AtomicType("INT")),  # dropped, and the name given to another column
    ]

    def said(text: str) -> str:
        return str(devolve(parse_predicate(text, now), now, then))

    assert said("a = 5 and b = 'x'") == "old_a = 5 AND old_b = 'x'"
    assert said("a < 5000000000") == "old_a <= 2147483647"
    assert said("a > 5000000000") == "old_a > 2147483647"
    assert said("d > 1.5 and a = 1") == "old_a = 1"
    assert said("d > 1.5 or a = 1") == "TRUE"
    assert said("c = 5") == "FALSE"
    assert said("not c = 5") == "FALSE"
    assert said("c is null and a = 1") == "old_a = 1"
    assert said("c is not null or a = 1") == "old_a = 1"
    assert said("b not like 'x%'") == "NOT (old_b LIKE 'x%')"
    assert devolve(TRUE, now, then) == TRUE
    assert devolve(FALSE, now, then) == FALSE
