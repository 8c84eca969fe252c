"""What a primary-key table must refuse: each request gets an error that says what to do, and nothing is written."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pyarrow as pa
import pytest

import lakewright as lw
from contract.faulty_storage import MemoryStorage
from lakewright.catalog.catalog import Catalog
from lakewright.catalog.filesystem_catalog import FileSystemCatalog

Request: TypeAlias = Callable[[lw.FileStoreTable], object]

COLUMNS = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("day", pa.string()),
        ("n", pa.int64()),
        ("ratio", pa.float64()),
        ("flag", pa.bool_()),
        ("tags", pa.list_(pa.string())),
        ("lines", pa.list_(pa.struct([("line", pa.int64()), ("text", pa.string())]))),
    ]
)
FIXED = {"bucket": "2"}
ROW = {"id": 1, "name": "a", "day": "mon", "n": 1, "ratio": 0.5}
_numbers = itertools.count()


@dataclass(frozen=True)
class World:
    """A catalog in memory, and a way to see that nothing changed."""

    storage: MemoryStorage
    catalog: Catalog

    def create(
        self, options: Mapping[str, str] | None = None, *, keys: tuple[str, ...] = ("id",), parts: tuple[str, ...] = ()
    ) -> lw.FileStoreTable:
        self.catalog.create_table(
            "d.t", lw.Schema.from_pyarrow_schema(COLUMNS, parts, keys, FIXED if options is None else options)
        )
        return self.catalog.get_table("d.t")

    def files(self) -> dict[str, bytes]:
        return dict(self.storage.image().files)


@pytest.fixture
def world() -> Iterator[World]:
    storage = MemoryStorage(f"keyed-requests-{next(_numbers)}")
    catalog = FileSystemCatalog(storage, f"{storage.root}/w")
    catalog.create_database("d")
    yield World(storage, catalog)
    storage.clear()


@dataclass(frozen=True)
class Refusal:
    """What a request must be answered with."""

    words: tuple[str, ...]  # all of them in the message, besides the name of the table
    error: type[lw.LakewrightError] = lw.InvalidInputError
    options: Mapping[str, str] = field(default_factory=lambda: FIXED)
    keys: tuple[str, ...] = ("id",)
    parts: tuple[str, ...] = ()

    def check(self, world: World, act: Callable[[], object]) -> lw.LakewrightError:
        before = world.files()
        with pytest.raises(self.error) as caught:
            act()
        assert world.files() == before, "something was written"
        for word in ("d.t", *self.words):
            assert word in str(caught.value), f"{word!r} is missing in: {caught.value}"
        return caught.value


def rows(*changed: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist([ROW | row for row in changed], schema=COLUMNS)


def aggregation(**functions: str) -> dict[str, str]:
    chosen = {f"fields.{name}.aggregate-function": function for name, function in functions.items()}
    return {**FIXED, "merge-engine": "aggregation", **chosen}


AGGREGATION = {**FIXED, "merge-engine": "aggregation"}
PARTIAL = {**FIXED, "merge-engine": "partial-update"}
FIRST_ROW = {**FIXED, "merge-engine": "first-row"}
VECTORS = {**FIXED, "deletion-vectors.enabled": "true"}

# Tables that cannot be: what a schema alone tells is refused before there is a file.
SCHEMAS = {
    "a key column twice": Refusal(("primary key", "'id'", "once"), keys=("id", "id")),
    "an unknown key column": Refusal(("'idd'", "did you mean 'id'"), lw.NotFoundError, keys=("idd",)),
    "a key of a nested type": Refusal(("'tags'", "primary key", "scalar column"), keys=("tags",)),
    "a key of partition columns alone": Refusal(("'day'", "not a partition key"), keys=("day",), parts=("day",)),
    "a bucket key outside the key": Refusal(("bucket key", "'n'"), options={**FIXED, "bucket-key": "n"}),
    "a bucket key of partition columns": Refusal(
        ("bucket key", "'day'"), options={**FIXED, "bucket-key": "day"}, keys=("id", "day"), parts=("day",)
    ),
    "a bucket key of dynamic buckets": Refusal(("'bucket-key'", "set 'bucket'"), options={"bucket-key": "id"}),
    "no buckets": Refusal(("'bucket'", "'0'", "at least 1"), options={"bucket": "0"}),
    "more buckets than a number holds": Refusal(("'bucket'", "'2147483648'"), options={"bucket": "2147483648"}),
    "mod of a text": Refusal(
        ("'mod'", "INT or BIGINT"), options={**FIXED, "bucket-function.type": "mod"}, keys=("name",)
    ),
    "mod of two columns": Refusal(
        ("'mod'", "exactly one"), options={**FIXED, "bucket-function.type": "mod"}, keys=("id", "name")
    ),
    "postpone without a key": Refusal(("-2", "primary key"), options={"bucket": "-2"}, keys=()),
    "an unknown merge engine": Refusal(
        ("'merge-engine'", "'merge'", "deduplicate, partial-update, aggregation, first-row"),
        options={**FIXED, "merge-engine": "merge"},
    ),
    "an unknown sequence field": Refusal(
        ("'nn'", "did you mean 'n'"), lw.NotFoundError, options={**FIXED, "sequence.field": "nn"}
    ),
    "a sequence field twice": Refusal(("'sequence.field'", "'n'", "once"), options={**FIXED, "sequence.field": "n,n"}),
    "a sequence field with first-row": Refusal(
        ("'sequence.field'", "first-row", "remove it"), options={**FIRST_ROW, "sequence.field": "n"}
    ),
    "a sequence field across partitions": Refusal(
        ("'sequence.field'", "partition keys", "'day'"), options={"sequence.field": "n"}, parts=("day",)
    ),
    "a sequence field without order": Refusal(
        ("'sequence.field'", "'tags'", "scalar"), options={**FIXED, "sequence.field": "tags"}
    ),
    "a sequence group without order": Refusal(
        ("'fields.tags.sequence-group'", "'tags'", "scalar"), options={**PARTIAL, "fields.tags.sequence-group": "n"}
    ),
    "fixed buckets across partitions": Refusal(("'day'", "add them", "'bucket' to -1"), parts=("day",)),
    "postponed buckets across partitions": Refusal(("'day'", "-1"), options={"bucket": "-2"}, parts=("day",)),
    "a time of rows that is not there": Refusal(
        ("'nn'",), lw.NotFoundError, options={**FIXED, "record-level.time-field": "nn"}
    ),
    "an unknown kind column": Refusal(("'kind'",), lw.NotFoundError, options={**FIXED, "rowkind.field": "kind"}),
    "a kind column of numbers": Refusal(("'rowkind.field'", "'n'", "text"), options={**FIXED, "rowkind.field": "n"}),
    "a changelog of an append table": Refusal(
        ("'changelog-producer'", "primary key"), options={"changelog-producer": "input"}, keys=()
    ),
    "an unknown changelog producer": Refusal(
        ("'changelog-producer'", "none, input, full-compaction, lookup"),
        options={**FIXED, "changelog-producer": "all"},
    ),
    "first-row with an input changelog": Refusal(
        ("first-row", "'input'", "none or lookup"), options={**FIRST_ROW, "changelog-producer": "input"}
    ),
    "first-row with a changelog of full compactions": Refusal(
        ("first-row", "'full-compaction'", "none or lookup"),
        options={**FIRST_ROW, "changelog-producer": "full-compaction"},
    ),
    "deletion vectors with first-row": Refusal(
        ("first-row", "'deletion-vectors.enabled'", "remove"), options={**FIRST_ROW, "deletion-vectors.enabled": "true"}
    ),
    "deletion vectors with a changelog of full compactions": Refusal(
        ("full-compaction", "'deletion-vectors.enabled'", "lookup"),
        options={**VECTORS, "changelog-producer": "full-compaction"},
    ),
    "snapshot ordering without write-only": Refusal(
        ("'sequence.snapshot-ordering'", "'write-only' = true"), options={**FIXED, "sequence.snapshot-ordering": "true"}
    ),
    "an unknown function": Refusal(
        ("'n'", "'fields.n.aggregate-function'", "'summ'", "one of"), lw.UnsupportedError, options=aggregation(n="summ")
    ),
    "a function that is not implemented": Refusal(
        ("'name'", "'hll_sketch'", "not supported"), lw.UnsupportedError, options=aggregation(name="hll_sketch")
    ),
    "a sum of texts": Refusal(("'sum'", "'name'", "STRING", "choose another"), options=aggregation(name="sum")),
    "a list of numbers": Refusal(("'listagg'", "'n'", "BIGINT"), options=aggregation(n="listagg")),
    "a default function that does not fit": Refusal(
        ("'sum'", "'name'"), options={**AGGREGATION, "fields.default-aggregate-function": "sum"}
    ),
    "a function of a column that is not there": Refusal(("'nn'",), lw.NotFoundError, options=aggregation(nn="sum")),
    "a function of a key column": Refusal(
        ("'id'", "primary key", "remove 'fields.id.aggregate-function'"), options=aggregation(id="sum")
    ),
    "a function of a sequence field": Refusal(
        ("'n'", "'sequence.field'", "remove"), options={**aggregation(n="sum"), "sequence.field": "n"}
    ),
    "a nested key that is not there": Refusal(
        ("'fields.lines.nested-key'", "'no'", "line, text"),
        options={**aggregation(lines="nested_update"), "fields.lines.nested-key": "no"},
    ),
    "a nested update without a key": Refusal(
        ("'fields.lines.nested-key'", "must name"), options=aggregation(lines="nested_partial_update")
    ),
    "a flag that is none": Refusal(
        ("'fields.n.ignore-retract'", "true or false"),
        options={**aggregation(n="max"), "fields.n.ignore-retract": "yes"},
    ),
    "removals that are ignored": Refusal(
        ("'aggregation.remove-record-on-delete'", "'fields.n.ignore-retract'", "remove one"),
        options={
            **aggregation(n="max"),
            "fields.n.ignore-retract": "true",
            "aggregation.remove-record-on-delete": "true",
        },
    ),
    "a function outside a sequence group": Refusal(
        ("'n'", "'sum'", "sequence group"), options={**PARTIAL, "fields.n.aggregate-function": "sum"}
    ),
    "a sequence group of unknown columns": Refusal(
        ("'fields.n.sequence-group'", "'names'"), options={**PARTIAL, "fields.n.sequence-group": "names"}
    ),
    "a column of two sequence groups": Refusal(
        ("'name'", "two sequence groups"),
        options={**PARTIAL, "fields.n.sequence-group": "name", "fields.ratio.sequence-group": "name"},
    ),
    "deletes ignored and removing": Refusal(
        ("'ignore-delete'", "'partial-update.remove-record-on-delete'"),
        options={**PARTIAL, "ignore-delete": "true", "partial-update.remove-record-on-delete": "true"},
    ),
    "removing by a group that is not there": Refusal(
        ("'partial-update.remove-record-on-sequence-group'", "'n'"),
        options={**PARTIAL, "partial-update.remove-record-on-sequence-group": "n"},
    ),
    "row tracking": Refusal(("'row-tracking.enabled'", "primary key"), options={"row-tracking.enabled": "true"}),
    "a column of the format": Refusal(("'_KEY_id'", "choose another"), keys=("_KEY_id",)),
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_impossible_keyed_tables_are_refused(world: World, name: str) -> None:
    wanted = SCHEMAS[name]
    columns = COLUMNS.append(pa.field("_KEY_id", pa.int64())) if "_KEY_id" in wanted.keys else COLUMNS
    schema = lw.Schema.from_pyarrow_schema(columns, wanted.parts, wanted.keys, wanted.options)
    error = wanted.check(world, lambda: world.catalog.create_table("d.t", schema))
    assert error.table == "d.t"
    assert world.catalog.list_tables("d") == []


ALTERED = [
    name
    for name, wanted in SCHEMAS.items()
    if wanted.keys == ("id",) and not wanted.parts and wanted.options.get("bucket") == "2" and len(wanted.options) > 1
]


@pytest.mark.parametrize("name", ALTERED)
def test_altering_a_table_to_an_impossible_one_is_refused(world: World, name: str) -> None:
    """A table without data may still change its merge engine; what comes out must be possible."""
    wanted = SCHEMAS[name]
    world.create()
    changes = [lw.SchemaChange.set_option(key, value) for key, value in wanted.options.items()]
    error = wanted.check(world, lambda: world.catalog.alter_table("d.t", changes))
    assert error.table == "d.t"


ALTERATIONS: dict[str, tuple[lw.SchemaChange, Refusal]] = {
    "a type that its function cannot take": (
        lw.SchemaChange.update_column_type("n", lw.AtomicType("STRING")),
        Refusal(("'sum'", "'n'"), options=aggregation(n="sum")),
    ),
    "a new column that the default function cannot take": (
        lw.SchemaChange.add_column("note", lw.AtomicType("STRING")),
        Refusal(
            ("'sum'", "'note'"),
            options={
                **aggregation(**dict.fromkeys(["name", "day", "flag", "tags", "lines"], "last_value")),
                "fields.default-aggregate-function": "sum",
            },
        ),
    ),
    "a dropped sequence field": (
        lw.SchemaChange.drop_column("n"),
        Refusal(("'n'", "'sequence.field'"), options={**FIXED, "sequence.field": "n"}),
    ),
    "a dropped column with a function": (
        lw.SchemaChange.drop_column("n"),
        Refusal(("'n'", "'fields.n.aggregate-function'"), options=aggregation(n="sum")),
    ),
    "a dropped field of a nested key": (
        lw.SchemaChange.drop_column(["lines", "element", "line"]),
        Refusal(
            ("'lines.line'", "'fields.lines.nested-key'"),
            options={**aggregation(lines="nested_update"), "fields.lines.nested-key": "line"},
        ),
    ),
    "a dropped key column": (lw.SchemaChange.drop_column("id"), Refusal(("'id'", "primary"))),
    "a key of another type": (
        lw.SchemaChange.update_column_type("id", lw.AtomicType("STRING")),
        Refusal(("'id'", "primary")),
    ),
}


@pytest.mark.parametrize("name", ALTERATIONS)
def test_alterations_that_would_break_merging(world: World, name: str) -> None:
    change, wanted = ALTERATIONS[name]
    world.create(wanted.options)
    wanted.check(world, lambda: world.catalog.alter_table("d.t", [change]))


def test_columns_that_data_brings_are_checked_too(world: World) -> None:
    _, wanted = ALTERATIONS["a new column that the default function cannot take"]
    table = world.create(wanted.options)
    data = rows({}).append_column("note", pa.array(["x"]))
    wanted.check(world, lambda: lw.write_table(data, table, schema_mode="merge"))


def test_a_table_of_others_with_strange_functions_can_still_be_altered(world: World) -> None:
    """Only what was right before must stay right."""
    table = world.create()
    strange = table.schema.with_options(aggregation(name="hll_sketch"))
    path = table.store.layout.schema_file(0)
    world.storage.delete(path)
    world.storage.create(path, strange.to_json().encode())
    world.catalog.alter_table("d.t", [lw.SchemaChange.add_column("note", lw.AtomicType("STRING"))])
    assert world.catalog.get_table("d.t").field_names[-1] == "note"


# Calls that cannot be done. A few rows are there before.


def write(data: object, **how: object) -> Request:
    def act(table: lw.FileStoreTable) -> None:
        with table.new_batch_write_builder().new_write() as writer:
            writer.write_arrow(data, **how)  # type: ignore[arg-type]
            writer.prepare_commit()

    return act


def delete(keys: object) -> Request:
    def act(table: lw.FileStoreTable) -> None:
        with table.new_batch_write_builder().new_write() as writer:
            writer.delete_arrow(keys)  # type: ignore[arg-type]
            writer.prepare_commit()

    return act


def with_options(request: Request, **options: str) -> Request:
    """Ask with options of others on top: a table that was made so elsewhere."""
    added = {name.replace("__", ".").replace("_", "-"): value for name, value in options.items()}

    def act(table: lw.FileStoreTable) -> object:
        schema = table.schema.with_options(added)
        return request(lw.FileStoreTable(table.identifier, table.store.with_schema(schema)))

    return act


def two(first: object, second: object) -> pa.Table:
    return rows({"id": first}, {"id": second})


APPEND = Refusal(("primary key",), options={}, keys=())
NO_KEY = Refusal(("no primary key", "primary_keys"), lw.UnsupportedError, options={}, keys=())
CALLS: dict[str, tuple[Request, Refusal]] = {
    "a null key": (write(two(4, None)), Refusal(("'id'", "row 1", "null"))),
    "a null key to delete": (delete(pa.table({"id": pa.array([None, 1], pa.int64())})), Refusal(("'id'", "row 0"))),
    "a null of a key of two columns": (write(rows({"name": None})), Refusal(("'name'", "row 0"), keys=("id", "name"))),
    "a key that is not a number": (
        write(rows({"ratio": float("nan")})),
        Refusal(("'ratio'", "row 0"), keys=("ratio",)),
    ),
    "no key column": (write(rows({}).drop_columns(["id"])), Refusal(("'id'",))),
    "not all key columns to delete by": (delete(pa.table({"id": [1]})), Refusal(("'name'",), keys=("id", "name"))),
    "no partition to delete in": (
        delete(pa.table({"id": [1]})),
        Refusal(("'day'",), keys=("id", "day"), parts=("day",)),
    ),
    "a key of another type": (delete(pa.table({"id": ["one"]})), Refusal(("'id'",))),
    "an unknown row kind": (write(rows({}), row_kinds="delete"), Refusal(("'delete'", "+I, -U, +U, -D"))),
    "a row kind out of range": (write(rows({}), row_kinds=[4]), Refusal(("4", "0 to 3"))),
    "too few row kinds": (write(rows({}, {}), row_kinds=["+I"]), Refusal(("1 kind for 2 rows",))),
    "too many row kinds": (write(rows({}), row_kinds=["+I", "-D"]), Refusal(("2 kinds for 1 row",))),
    "row kinds said twice": (
        write(rows({}).append_column("_row_kind", pa.array(["+I"])), row_kinds="-D"),
        Refusal(("row_kinds", "'_row_kind'", "say them once")),
    ),
    "row kinds beside a kind column": (
        write(rows({"name": "+I"}), row_kinds="-D"),
        Refusal(("row_kinds", "'name'", "'rowkind.field'"), options={**FIXED, "rowkind.field": "name"}),
    ),
    "two columns of row kinds": (
        write(rows({}).append_column("_row_kind", pa.array(["+I"])).append_column("row_kind", pa.array(["+I"]))),
        Refusal(("'_row_kind'", "'row_kind'", "drop one")),
    ),
    "a kind column that is null": (
        write(rows({"name": None})),
        Refusal(("'name'", "None", "row 0"), options={**FIXED, "rowkind.field": "name"}),
    ),
    "a kind column of other words": (
        write(rows({"name": "update"})),
        Refusal(("'name'", "'update'", "row 0"), options={**FIXED, "rowkind.field": "name"}),
    ),
    "a delete of a first row": (
        delete(pa.table({"id": [7]})),
        Refusal(("first-row", "'ignore-delete' = true"), options=FIRST_ROW),
    ),
    "a delete beside the first row": (
        write(rows({"id": 7}, {"id": 7}), row_kinds=["+I", "-D"]),
        Refusal(("first-row", "'ignore-delete' = true"), options=FIRST_ROW),
    ),
    "a delete from a maximum": (
        write(rows({}), row_kinds="-D"),
        Refusal(("'max'", "'n'", "'fields.n.ignore-retract' = true"), options=aggregation(n="max")),
    ),
    "an update before of a maximum": (
        write(rows({}), row_kinds="-U"),
        Refusal(("'max'", "'n'"), options={**aggregation(n="max"), "aggregation.remove-record-on-delete": "true"}),
    ),
    "a delete from a partial update": (
        delete(pa.table({"id": [1]})),
        Refusal(("partial-update", "'partial-update.remove-record-on-delete'"), options=PARTIAL),
    ),
    "an upsert without a key": (lambda t: lw.write_table(rows({}), t, mode="upsert"), NO_KEY),
    "a delete without a key": (lambda t: lw.write_table(rows({}), t, mode="delete"), NO_KEY),
    "a delete by the key of an append table": (delete(rows({})), APPEND),
    "row kinds of an append table": (write(rows({}), row_kinds="-D"), APPEND),
    "an unknown mode": (
        lambda t: lw.write_table(rows({}), t, mode="merge"),  # type: ignore[arg-type]
        Refusal(("'merge'", "'upsert', 'delete'")),
    ),
    "another number of buckets": (
        lambda t: lw.write_table(rows({"id": 5}), t.copy({"bucket": "3"})),
        Refusal(("2", "3", "table.rescale(")),
    ),
    "a bucket that is not there": (write(rows({}), bucket=2), Refusal(("bucket 2",))),
    "compacting partitions that are not there": (
        lambda t: t.compact(partitions=[{"week": "1"}]),
        Refusal(("'week'",), keys=("id", "day"), parts=("day",)),
    ),
    "writing a clustered table": (
        with_options(write(rows({})), pk_clustering_override="true"),
        Refusal(("'pk-clustering-override'",), lw.UnsupportedError),
    ),
    "reading a clustered table": (
        with_options(lw.read_table, pk_clustering_override="true"),
        Refusal(("'pk-clustering-override'",), lw.UnsupportedError),
    ),
    "compacting a clustered table": (
        with_options(lambda t: t.compact(), pk_clustering_override="true"),
        Refusal(("'pk-clustering-override'", "another engine"), lw.UnsupportedError),
    ),
    "writing in the order of snapshots": (
        with_options(write(rows({})), sequence__snapshot_ordering="true"),
        Refusal(("'sequence.snapshot-ordering'", "'write-only' = true"), lw.UnsupportedError),
    ),
    "writing with a function of others": (
        with_options(write(rows({})), merge_engine="aggregation", fields__n__aggregate_function="theta_sketch"),
        Refusal(("'n'", "'theta_sketch'"), lw.UnsupportedError),
    ),
    "rescaling an append table": (
        lambda t: t.rescale(4),
        Refusal(("append", "overwrite"), lw.UnsupportedError, options={}, keys=()),
    ),
    "rescaling to nothing": (lambda t: t.rescale(0), Refusal(("0",))),
    "rescaling dynamic buckets": (lambda t: t.rescale(4), Refusal(("bucket=-1", "chooses its buckets"), options={})),
    "real buckets of a table that does not postpone them": (
        lambda t: t.new_postpone_fixed_bucket_write_builder(),
        Refusal(("bucket = -2", "new_batch_write_builder")),
    ),
    "changes in the wrong order": (lambda t: lw.read_table(t, incremental=(1, 0)), Refusal(("incremental-between",))),
    "changes of a snapshot that is not there": (
        lambda t: lw.read_table(t, incremental=(0, 99)),
        Refusal(("99",), lw.NotFoundError),
    ),
    "changes of an unknown mode": (
        lambda t: lw.read_table(t, incremental=(0, 1), incremental_mode="all"),  # type: ignore[arg-type]
        Refusal(("'all'", "delta")),
    ),
    "a changelog that nobody writes": (
        lambda t: lw.read_table(t, incremental=(0, 1), incremental_mode="changelog"),
        Refusal(("changelog",)),
    ),
    "a snapshot and changes": (
        lambda t: lw.read_table(t, incremental=(0, 1), snapshot_id=1),
        Refusal(("snapshot_id", "incremental")),
    ),
    "a stream from a snapshot that is not there": (
        lambda t: t.copy({"scan.snapshot-id": "99"}).new_stream_read_builder().new_streaming_scan().plan(),
        Refusal(("99",), lw.NotFoundError),
    ),
    "a consumer with a path as its name": (
        lambda t: t.new_stream_read_builder().with_consumer_id("../x"),
        Refusal(("../x",)),
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_impossible_calls_are_refused_and_change_nothing(world: World, name: str) -> None:
    ask, wanted = CALLS[name]
    table = world.create(wanted.options, keys=wanted.keys, parts=wanted.parts)
    start = rows({"id": 1}, {"id": 2})
    if "rowkind.field" in wanted.options:
        start = start.set_column(1, "name", pa.array(["+I", "+I"]))
    lw.write_table(start, table)
    table = world.catalog.get_table("d.t")
    state = lw.read_table(table).sort_by("id")
    wanted.check(world, lambda: ask(table))
    assert lw.read_table(table).sort_by("id") == state


# Rows that stay hidden are said so, loudly.


@pytest.mark.parametrize("hiding", [{"deletion-vectors.enabled": "true"}, {"merge-engine": "first-row"}], ids=str)
def test_hidden_rows_are_warned_of(world: World, hiding: dict[str, str]) -> None:
    table = world.create({**FIXED, **hiding, "write-only": "true"})
    with pytest.warns(lw.LakewrightWarning, match=r"d\.t.*STAY HIDDEN.*table\.compact\(\)") as caught:
        lw.write_table(rows({}), table)
    assert caught[0].filename.endswith("verbs.py")
    assert lw.read_table(table).num_rows == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table.copy({"write-only": "false"}).compact()
        assert lw.read_table(table).num_rows == 1


@pytest.mark.parametrize("hiding", [{"deletion-vectors.enabled": "true"}, {"merge-engine": "first-row"}, {}], ids=str)
def test_a_writer_that_compacts_shows_its_rows_without_a_word(world: World, hiding: dict[str, str]) -> None:
    table = world.create({**FIXED, **hiding})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lw.write_table(rows({}), table)
    assert lw.read_table(table).num_rows == 1


def test_rows_that_wait_for_a_bucket_are_read_after_a_compaction(world: World) -> None:
    table = world.create({"bucket": "-2"})
    lw.write_table(rows({}), table)
    assert lw.read_table(table).num_rows == 0
    table.compact()
    assert lw.read_table(table).num_rows == 1
