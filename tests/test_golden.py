"""The golden tables, which Java wrote: everything that is read from them is what Java reads.

Each table is opened once, for all checks: metadata, rows of every snapshot, tag and branch, filters, projections,
splits, changes between snapshots, and streams. A table that may be refused is read, or refused as unsupported.
"""

from __future__ import annotations

import itertools
import json
import pickle
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import Any

import pyarrow as pa
import pytest

import lakewright as lw
from lakewright.errors import UnsupportedError
from lakewright.metadata.manifest_records import manifest_facts
from lakewright.metadata.table_store import TableStore
from lakewright.read.data_split import DataSplit
from lakewright.read.read_builder import ReadBuilder
from lakewright.read.stream_read import StreamReadBuilder
from lakewright.spec.binary_row import decode_row
from lakewright.spec.manifest import ADD, DELETION_VECTORS
from lakewright.spec.predicate import Predicate, PredicateBuilder
from lakewright.spec.scalars import from_scalar, to_array, to_python
from lakewright.spec.table_schema import BucketMode
from lakewright.spec.types import AtomicType, DataField, DataType, blob_fields
from support.effort import examples
from support.golden import (
    MULTIMODAL,
    WAREHOUSE,
    expected,
    expected_multimodal,
    expected_rows,
    in_order,
    normalised,
    spelled,
)
from support.java_splits import from_java, to_java

COMPARABLE = frozenset(
    "BOOLEAN TINYINT SMALLINT INT BIGINT FLOAT DOUBLE DECIMAL CHAR VARCHAR BINARY VARBINARY DATE TIME TIMESTAMP "
    "TIMESTAMP_LTZ".split()
)
# The areas of the multimodal tables that are read.
READ_AREAS: frozenset[str] = frozenset({"blob", "lance", "other", "shred", "variant", "vector"})
SMALL_SPLITS = {"source.split.target-size": "2 kb", "source.split.open-file-cost": "1 b"}


@dataclass(frozen=True)
class Golden:
    """A golden table, and what Java reads from it (see tests/golden/README.md)."""

    name: str
    spec: dict[str, Any]
    catalog: lw.Catalog

    @cached_property
    def table(self) -> lw.FileStoreTable:
        return self.catalog.get_table(self.name)

    @property
    def store(self) -> TableStore:
        return self.table.store

    @property
    def fields(self) -> Sequence[DataField]:
        return self.store.schema.fields

    @cached_property
    def whole(self) -> pa.Table:
        """All rows of the latest snapshot."""
        return read(self.table)

    def with_options(self, options: dict[str, str]) -> TableStore:
        return self.store.with_schema(self.store.schema.with_options(options))

    def unordered(self, fields: Sequence[DataField]) -> list[int]:
        names = self.spec.get("unorderedArrays", ())
        return [number for number, field in enumerate(fields) if field.name in names]

    def rows(self, table: pa.Table, fields: Sequence[DataField] | None = None) -> list[str]:
        """Return rows that were read, as sorted text."""
        fields = self.fields if fields is None else fields
        return in_order(spelled(table, fields), self.unordered(fields))

    def wanted(self, numbers: Iterable[int], fields: Sequence[DataField] | None = None) -> list[str]:
        """Return rows that Java read, as sorted text."""
        fields = self.fields if fields is None else fields
        return in_order(normalised(expected_rows(self.spec, numbers), fields), self.unordered(fields))

    def assert_reads(self, table: lw.FileStoreTable, numbers: list[int], what: str) -> None:
        """Assert that a table, at another snapshot or branch maybe, has some rows."""
        builder = table.new_read_builder()
        fields = builder.read_type()
        assert self.rows(builder.new_read().to_arrow(), fields) == self.wanted(numbers, fields), what


def read(table: lw.FileStoreTable) -> pa.Table:
    return table.new_read_builder().new_read().to_arrow()


# ---- metadata --------------------------------------------------------------------------------------------------------


def check_schemas(golden: Golden) -> None:
    schema, spec = golden.store.schema, golden.spec
    assert [[field.id, field.name, str(field.type)] for field in golden.table.fields] == spec["columns"]
    assert list(schema.primary_keys) == spec["primaryKeys"]
    assert list(schema.partition_keys) == spec["partitionKeys"]
    assert schema.options == spec["options"]
    schemas = golden.store.schemas
    assert [one.id for one in schemas.all()] == schemas.ids()
    assert schema.id == max(schemas.ids())


def check_live_files(golden: Golden) -> None:
    store = golden.store
    latest = store.snapshots.latest()
    found = [
        {
            "partition": _partition(e.partition, store.partition_types),
            "bucket": e.bucket,
            "totalBuckets": e.total_buckets,
            "level": e.file.level,
            "file": e.file.file_name,
            "rows": e.file.row_count,
            "deletes": e.file.delete_row_count,
            "seq": [e.file.min_sequence_number, e.file.max_sequence_number],
            "schemaId": e.file.schema_id,
            "firstRowId": e.file.first_row_id,
            "writeCols": None if e.file.write_cols is None else list(e.file.write_cols),
        }
        for e in ([] if latest is None else store.manifests.live(latest))
    ]
    wanted = [{k: fact for k, fact in file.items() if fact is not None} for file in golden.spec.get("files", [])]
    named = {name for file in wanted for name in file}  # not all writers say all facts of a file
    found = [{name: fact for name, fact in file.items() if name in named and fact is not None} for file in found]
    assert sorted(found, key=itemgetter("file")) == sorted(wanted, key=itemgetter("file"))
    rows = lw.read_table(golden.catalog.get_table(f"{golden.name}$files")).to_pylist()
    listed = sorted((r["file_path"].rsplit("/")[-1], r["bucket"], r["level"], r["record_count"]) for r in rows)
    assert listed == sorted((f["file"], f.get("bucket", 0), f.get("level", 0), f["rows"]) for f in wanted)


def _partition(partition: bytes, types: tuple[DataType, ...]) -> list[Any]:
    fields = [DataField(n, f"p{n}", dtype) for n, dtype in enumerate(types)]
    values = decode_row(partition, types)
    columns = [to_array([value], field.type) for value, field in zip(values, fields, strict=True)]
    return spelled(pa.table(columns, [field.name for field in fields]), fields)[0] if fields else []


def check_snapshots_and_manifests(golden: Golden) -> None:
    snapshots, manifests = golden.store.snapshots, golden.store.manifests
    wanted = [(s["id"], s["kind"], s["schemaId"], s["totalRecordCount"]) for s in golden.spec["snapshots"]]
    found = [snapshots.get(number) for number in snapshots.ids()]
    assert [(s.id, s.commit_kind, s.schema_id, s.total_record_count) for s in found] == wanted
    for snapshot in found:
        assert golden.table.snapshot(snapshot.id) == snapshot
        added = sum(e.file.row_count * (1 if e.kind == ADD else -1) for e in manifests.delta(snapshot))
        assert added == snapshot.delta_record_count
        assert sum(e.file.row_count for e in manifests.live(snapshot)) == snapshot.total_record_count
        changelog = manifests.changelog(snapshot)
        assert sum(e.file.row_count for e in changelog) == (snapshot.changelog_record_count or 0)
        indexes = [] if snapshot.index_manifest is None else manifests.read_index(snapshot.index_manifest)
        vectors = [entry.file for entry in indexes if entry.file.index_type == DELETION_VECTORS]
        assert [len(file.deletion_ranges or ()) for file in vectors] == [file.row_count for file in vectors]
        for manifest in manifests.files_of(snapshot):
            name, size = manifest.file_name, manifest.file_size
            entries, types = manifests.read(manifest), golden.store.partition_types
            assert manifest_facts(entries, types, name=name, size=size, schema_id=0) == manifest


# ---- rows ------------------------------------------------------------------------------------------------------------


def check_latest_rows(golden: Golden) -> None:
    assert golden.rows(golden.whole) == golden.wanted(golden.spec["rows"])


def check_every_snapshot(golden: Golden) -> None:
    for snapshot in golden.spec["snapshots"]:
        then = golden.table.copy({"scan.snapshot-id": str(snapshot["id"])})
        golden.assert_reads(then, snapshot["rows"], f"snapshot {snapshot['id']}")


def check_every_tag(golden: Golden) -> None:
    tags = golden.spec.get("tags", {})
    assert sorted(golden.table.list_tags()) == golden.store.tags.list() == sorted(tags)
    assert len(golden.store.tags.all()) == len(tags)
    for tag, numbers in tags.items():
        golden.assert_reads(golden.table.copy({"scan.tag-name": tag}), numbers, f"tag {tag}")


def check_every_branch(golden: Golden) -> None:
    branches = golden.spec.get("branches", {})
    assert golden.catalog.list_branches(golden.name) == sorted(branches)
    for branch, numbers in branches.items():
        table = golden.catalog.get_table(f"{golden.name}$branch_{branch}")
        assert table.snapshot() is not None
        golden.assert_reads(table, numbers, f"branch {branch}")


def check_row_ids(golden: Golden) -> None:
    if "rowTracking" not in golden.spec:
        return
    builder = golden.table.new_read_builder().with_projection(
        [*golden.table.field_names, "_ROW_ID", "_SEQUENCE_NUMBER"]
    )
    rows, fields = builder.new_read().to_arrow(), builder.read_type()
    assert golden.rows(rows, fields) == golden.wanted(golden.spec["rowTracking"], fields)
    first = golden.table.new_read_builder().with_filter("_ROW_ID <= 2").with_projection(["_ROW_ID"])
    ids = first.new_read().to_arrow()["_ROW_ID"].to_pylist()
    assert sorted(ids) == sorted(i for i in rows["_ROW_ID"].to_pylist() if i <= 2)


def check_projections_and_ways_to_read(golden: Golden) -> None:
    whole, names = golden.whole, golden.table.field_names
    rng = random.Random(golden.name)
    for _ in range(4):
        chosen = rng.sample(names, rng.randint(1, len(names)))
        builder = golden.table.new_read_builder().with_projection(chosen)
        assert [f.name for f in builder.read_type()] == chosen
        _assert_same(builder.new_read().to_arrow(), whole.select(chosen))
    reading = golden.table.new_read_builder().new_read()
    _assert_same(reading.to_arrow(parallelism=1), whole)
    _assert_same(reading.to_arrow(parallelism=4), whole)
    _assert_same(pa.Table.from_batches(reading.to_arrow_batch_reader(), schema=whole.schema), whole)
    _assert_same(pa.table(golden.table.new_read_builder()), whole)


def _assert_same(found: pa.Table, wanted: pa.Table) -> None:
    """Compare rows in order, NaN equal to itself."""
    assert found.schema == wanted.schema
    assert repr(found.to_pylist()) == repr(wanted.to_pylist())


# ---- filters ---------------------------------------------------------------------------------------------------------


def check_random_filters(golden: Golden) -> None:
    """Filter by random predicates, given as values and as text, and compare with filtering all rows."""
    whole = golden.whole
    fields = [f for f in golden.fields if isinstance(f.type, AtomicType) and f.type.root in COMPARABLE]
    if not fields or not whole.num_rows:
        return
    rng = random.Random(golden.name)
    for _ in range(examples(10)):
        builder = golden.table.new_read_builder()
        leaves = [_leaf(rng, builder.new_predicate_builder(), fields, whole) for _ in range(rng.randint(1, 3))]
        joined = leaves[0]
        for leaf in leaves[1:]:
            joined = rng.choice([joined & leaf, joined | leaf, joined & ~leaf])
        found = golden.rows(builder.with_filter(joined).new_read().to_arrow())
        assert found == golden.rows(whole.filter(joined.mask(whole))), str(joined)
        again = golden.table.new_read_builder().with_filter(str(joined)).new_read().to_arrow()
        assert golden.rows(again) == found, str(joined)


def _leaf(rng: random.Random, builder: PredicateBuilder, fields: list[DataField], whole: pa.Table) -> Predicate:
    field = rng.choice(fields)
    column = whole[field.name]
    some = [column[rng.randrange(len(column))] for _ in range(3)]
    values: list[Any] = [to_python(from_scalar(v, field.type), field.type) for v in some]
    match rng.randrange(8):
        case 0:
            return builder.is_null(field.name)
        case 1:
            return builder.is_in(field.name, values)
        case 2:
            return builder.is_not_in(field.name, values[:1])
        case 3:
            return builder.between(field.name, values[0], values[1])
        case 4:
            return builder.not_equal(field.name, values[0])
        case 5:
            return builder.less_than(field.name, values[0])
        case 6:
            return builder.greater_or_equal(field.name, values[0])
        case _:
            return builder.equal(field.name, values[0])


def check_bucket_pruning(golden: Golden) -> None:
    """Find rows by their own bucket key, in one bucket alone."""
    if golden.store.schema.bucket_mode is not BucketMode.HASH_FIXED:
        return
    whole = golden.whole
    for at in range(0, whole.num_rows, whole.num_rows // 20 + 1):
        builder = golden.table.new_read_builder()
        predicates = builder.new_predicate_builder()
        parts = []
        for field in golden.store.schema.bucket_fields:
            value = to_python(from_scalar(whole[field.name][at], field.type), field.type)
            parts.append(predicates.is_null(field.name) if value is None else predicates.equal(field.name, value))
        predicate = predicates.and_predicates(parts)
        found = builder.with_filter(predicate).new_read().to_arrow()
        assert found.num_rows == whole.filter(predicate.mask(whole)).num_rows >= 1, str(predicate)
        if all(part.method == "equal" for part in parts):
            splits = builder.new_scan().plan().splits()
            assert len({split.bucket for split in splits}) == 1 or len({split.total_buckets for split in splits}) > 1


# ---- splits ----------------------------------------------------------------------------------------------------------


def check_shards_slices_and_chunks(golden: Golden) -> None:
    """Read the parts of a plan: together they have each row of the table once."""
    builder = ReadBuilder(golden.with_options(SMALL_SPLITS))
    reading = builder.new_read()
    plan = builder.new_scan().plan()

    def rows(splits: list[DataSplit]) -> Counter[str]:
        return Counter(golden.rows(reading.to_arrow(splits)))

    whole = rows(plan.splits())
    assert whole == Counter(golden.rows(golden.whole))
    for count in (2, 7):
        plans = [builder.new_scan().with_shard(i, count).plan() for i in range(count)]
        assert sum((rows(p.splits()) for p in plans), Counter()) == whole
        sizes = [p.row_count for p in plans]
        largest = max([1, *(split.row_count for p in plans for split in p.splits() if split.needs_merge)])
        assert max(sizes) - min(sizes) <= 2 * largest - 1
    cuts = [0, 1, plan.row_count // 2, plan.row_count]
    parts = [builder.new_scan().with_slice(a, max(a, b)).plan() for a, b in itertools.pairwise(cuts)]
    slices = [rows(p.splits()) for p in parts]
    if plan.row_count > 2:
        assert sum(slices, Counter()) == whole
        assert parts[0].row_count == 1 or any(split.needs_merge for split in parts[0].splits())
    if any(split.needs_merge for split in plan.splits()):
        with pytest.raises(UnsupportedError, match="cannot be cut into chunks"):
            builder.new_scan().with_chunk_shuffle(7, 3).plan()
        return
    shuffled = builder.new_scan().with_chunk_shuffle(7, 3).plan()
    assert rows(shuffled.splits()) == whole
    assert shuffled == builder.new_scan().with_chunk_shuffle(7, 3).plan()
    assert all(split.row_count <= 3 for split in shuffled.splits())


def check_splits_cross_processes(golden: Golden) -> None:
    builder = golden.table.new_read_builder()
    for split in builder.new_scan().plan().splits():
        assert DataSplit.deserialize(split.serialize()) == split
        assert pickle.loads(pickle.dumps(split)) == split  # noqa: S301 - our own bytes
        assert from_java(to_java(split), golden.store.partition_types) == split
        assert from_java(to_java(split, version=8), golden.store.partition_types) == split
        rows = builder.new_read().to_arrow([split]).num_rows
        assert split.merged_row_count() == (None if split.needs_merge else rows)


# ---- changes and streams ---------------------------------------------------------------------------------------------


def check_events_of_every_snapshot(golden: Golden) -> None:
    """Compare the delta and the changelog of each snapshot with the events that Java reads."""
    if not golden.spec["primaryKeys"]:
        return
    for snapshot, mode in itertools.product(golden.spec["snapshots"], ("delta", "changelog")):
        if mode not in snapshot:
            continue
        store = _between(golden, snapshot["id"] - 1, snapshot["id"], mode)
        rows = normalised(expected_rows(golden.spec, [number for _, number in snapshot[mode]]), store.schema.fields)
        want = [[kind, *row] for (kind, _), row in zip(snapshot[mode], rows, strict=True)]
        builder = ReadBuilder(store).with_include_row_kind()
        parts = [_events(builder.new_read().to_arrow([s]), store) for s in builder.new_scan().plan().splits()]
        assert in_order(itertools.chain(*parts)) == in_order(want), f"{mode} of snapshot {snapshot['id']}"
        for part in parts:  # the order of buckets has no meaning, that of the rows of a bucket has
            left = iter(want)
            assert all(row in left for row in part), f"{mode} of snapshot {snapshot['id']}"


def check_differences_of_keyed_states(golden: Golden) -> None:
    if not golden.spec["primaryKeys"] or golden.name == "pk.rescaled_bucket":  # whose keys moved: it is refused
        return
    fields, loose = golden.fields, golden.unordered(golden.fields)
    names = {*golden.store.schema.primary_keys, *golden.store.schema.partition_keys}
    keys = [n for n, f in enumerate(fields) if f.name in names]
    for first, second in _pairs_of_snapshots(golden):
        before, after = (
            {
                json.dumps([row[n] for n in keys]): row
                for row in normalised(expected_rows(golden.spec, s["rows"]), fields)
            }
            for s in (first, second)
        )
        want = [["-D", *before[key]] for key in before.keys() - after.keys()]
        want += [["+I", *after[key]] for key in after.keys() - before.keys()]
        for key in before.keys() & after.keys():
            if in_order([before[key]], loose) != in_order([after[key]], loose):
                want += [["-U", *before[key]], ["+U", *after[key]]]
        found = _changes(_between(golden, first["id"], second["id"], "diff"))
        assert in_order(found, [n + 1 for n in loose]) == in_order(want, [n + 1 for n in loose])


def check_differences_and_added_rows_of_append_tables(golden: Golden) -> None:
    if golden.spec["primaryKeys"]:
        return
    for first, second in _pairs_of_snapshots(golden):
        before, after = (Counter(golden.wanted(s["rows"])) for s in (first, second))
        want = [["-D", *json.loads(row)] for row in (before - after).elements()]
        want += [["+I", *json.loads(row)] for row in (after - before).elements()]
        assert in_order(_changes(_between(golden, first["id"], second["id"], "diff"))) == in_order(want)
        if second["id"] == first["id"] + 1 and second["kind"] == "APPEND" and not _updates_columns(golden, first):
            assert in_order(_changes(_between(golden, first["id"], second["id"], "auto"))) == in_order(want)


def _updates_columns(golden: Golden, first: dict[str, Any]) -> bool:
    """Return True if a file of the table has columns of rows that were there before: that is no event of rows."""
    before = golden.store.snapshots.get(first["id"]).next_row_id or 0
    files = (e.file for e in golden.store.manifests.delta(golden.store.snapshots.get(first["id"] + 1)))
    return any(f.first_row_id is not None and f.first_row_id < before and f.write_cols is not None for f in files)


def check_a_stream_leads_to_the_rows(golden: Golden) -> None:
    """Follow a table from its first snapshot on: the events of the stream leave its rows."""
    if not _is_replaced_row_by_row(golden.spec) or golden.name in {"pk.postpone", "changelog.full_compaction"}:
        return
    snapshots = golden.spec["snapshots"]
    store = golden.with_options({"scan.mode": "from-snapshot-full", "scan.snapshot-id": str(snapshots[0]["id"])})
    names = {*store.schema.primary_keys, *store.schema.partition_keys}
    keys = [n for n, field in enumerate(store.schema.fields) if field.name in names]
    state: dict[str, list[Any]] = {}
    scan = StreamReadBuilder(store).new_streaming_scan()
    reading = StreamReadBuilder(store).with_include_row_kind().new_read()
    while (plan := scan.plan()) is not None:
        for kind, *row in _events(reading.to_arrow(plan.splits()), store):
            key = json.dumps([row[n] for n in keys])
            if kind in {"+I", "+U"}:
                state[key] = row
            else:
                state.pop(key, None)
    assert in_order(state.values()) == golden.wanted(golden.spec["rows"])
    assert scan.checkpoint() == snapshots[-1]["id"] + 1


def _is_replaced_row_by_row(spec: dict[str, Any]) -> bool:
    options = spec["options"]
    return (
        bool(spec["primaryKeys"])
        and options.get("merge-engine", "deduplicate") == "deduplicate"
        and not {"sequence.field", "ignore-delete", "deletion-vectors.enabled"} & options.keys()
        and all(s["kind"] != "OVERWRITE" for s in spec["snapshots"])
    )


def _between(golden: Golden, start: int, end: int, mode: str) -> TableStore:
    return golden.with_options({"incremental-between": f"{start},{end}", "incremental-between-scan-mode": mode})


def _pairs_of_snapshots(golden: Golden) -> Iterable[tuple[dict[str, Any], dict[str, Any]]]:
    return itertools.combinations([s for s in golden.spec["snapshots"] if "columns" not in s], 2)


def _changes(store: TableStore) -> list[list[Any]]:
    return _events(ReadBuilder(store).with_include_row_kind().new_read().to_arrow(), store)


def _events(table: pa.Table, store: TableStore) -> list[list[Any]]:
    kinds = table["_row_kind"].to_pylist()
    return [[kind, *row] for kind, row in zip(kinds, spelled(table, store.schema.fields), strict=True)]


# ---- the tests -------------------------------------------------------------------------------------------------------

METADATA = (check_schemas, check_live_files, check_snapshots_and_manifests)
ROWS = (
    check_latest_rows,
    check_every_snapshot,
    check_every_tag,
    check_every_branch,
    check_row_ids,
    check_projections_and_ways_to_read,
    check_random_filters,
    check_bucket_pruning,
    check_shards_slices_and_chunks,
    check_splits_cross_processes,
    check_events_of_every_snapshot,
    check_differences_of_keyed_states,
    check_differences_and_added_rows_of_append_tables,
    check_a_stream_leads_to_the_rows,
)


@pytest.fixture(scope="module")
def catalog() -> lw.Catalog:
    return lw.CatalogFactory.create({"warehouse": str(WAREHOUSE)})


@pytest.mark.parametrize("name", sorted(expected()))
def test_a_table_that_java_wrote(catalog: lw.Catalog, subtests: pytest.Subtests, name: str) -> None:
    golden = Golden(name, expected()[name], catalog)
    for check in (*METADATA, *([] if _is_refused(golden) else ROWS)):
        with subtests.test(check.__name__):
            check(golden)


@pytest.mark.parametrize("name", sorted(name for name in expected_multimodal() if name.partition(".")[0] in READ_AREAS))
def test_a_multimodal_table(subtests: pytest.Subtests, name: str) -> None:
    catalog = lw.CatalogFactory.create({"warehouse": str(MULTIMODAL / "warehouse")})
    golden = Golden(name, expected_multimodal()[name], catalog)
    if name.startswith("blob.descriptor_field"):
        assert _descriptors(golden) == golden.wanted(golden.spec["rows"])
        with pytest.raises(lw.NotFoundError, match="refers to file:"):  # the files are not there
            lw.read_table(golden.table, blobs="bytes")
        return
    if "descriptors" in golden.spec:
        assert _descriptors(golden) == in_order(golden.spec["descriptors"])
    for check in (*METADATA, *([] if _is_refused(golden) else ROWS)):
        with subtests.test(check.__name__):
            check(golden)


def _descriptors(golden: Golden) -> list[str]:
    """Return the newest rows with BLOB values as the places of their bytes, in the spelling of `expected.json`."""
    table = lw.read_table(golden.table, blobs="lazy")
    blobs = [field.name for field in blob_fields(golden.fields)]
    plain = spelled(table.drop_columns(blobs), [field for field in golden.fields if field.name not in blobs])
    rows = []
    for at, values in enumerate(plain):
        rest = iter(values)
        rows.append([_place(table[f.name][at].as_py()) if f.name in blobs else next(rest) for f in golden.fields])
    return in_order(rows)


def _place(blob: lw.Blob | None) -> dict[str, Any] | None:
    if blob is None:
        return None
    uri = blob.uri.rpartition("/")[2] if "/bucket-" in blob.uri else blob.uri
    return {"uri": uri, "offset": blob.offset, "length": blob.length}


def _is_refused(golden: Golden) -> bool:
    """Return True if a table cannot be read, and may be refused."""
    if not golden.spec.get("mayRefuse"):
        return False
    try:
        read(golden.table)
    except UnsupportedError:
        return True
    return False


def test_tags_have_a_time_to_live_or_none(catalog: lw.Catalog) -> None:
    tags = catalog.get_table("meta.tags").store.tags.all()
    assert Counter(tag.time_retained is None for tag in tags) == {True: 2, False: 1}
    assert all((tag.create_time is None) == (tag.time_retained is None) for tag in tags)
