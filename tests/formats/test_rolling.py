"""Files of primary-key tables: the facts that readers trust are those that Java records for the same rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakewright.formats.data_file_writer import FilePlan, FinishedFile, NewFile, RollingFile
from lakewright.formats.format_registry import file_format_of, open_reader
from lakewright.metadata.table_store import TableStore
from lakewright.spec.binary_row import decode_row
from lakewright.spec.column_stats import field_stats
from lakewright.spec.manifest import APPEND, COMPACT, DataFile, ManifestEntry
from lakewright.spec.schema import Schema, new_table_schema
from lakewright.spec.system_columns import DELETE, INSERT, KEYED_FIELDS, UPDATE_AFTER, UPDATE_BEFORE, keyed_table
from lakewright.spec.table_schema import TableSchema
from lakewright.spec.types import AtomicType
from lakewright.table.open_table import open_table
from support.data_files import MemoryOutput
from support.golden import WAREHOUSE, expected

COLUMNS = pa.schema({"k": pa.string(), "n": pa.int64(), "v": pa.string()})
_UNLIKE_JAVA = {"BINARY", "VARBINARY", "FLOAT", "DOUBLE"}  # Java has no bounds of bytes, and NaN as a bound


def schema_of(keys: list[str], **options: object) -> TableSchema:
    stored = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    return new_table_schema(
        Schema.from_pyarrow_schema(COLUMNS, primary_keys=keys, options={"bucket": 1, **stored}), time_millis=1
    )


def rows(keys: list[str], kinds: list[int] | None = None, first: int = 0) -> pa.Table:
    values = pa.table(
        {"k": keys, "n": list(range(len(keys))), "v": [None if n % 2 else "x" * 20 for n in range(len(keys))]},
        schema=COLUMNS,
    )
    numbers = pa.array(range(first + len(keys) - 1, first - 1, -1), pa.int64())
    return keyed_table(values, numbers, pa.array(kinds or [INSERT] * len(keys), pa.int8()))


class Written:
    """The files that a rolling file made, in memory."""

    def __init__(self, plan: FilePlan, *tables: pa.Table) -> None:
        self.plan = plan
        self.outputs: list[MemoryOutput] = []
        rolling = RollingFile(plan, self._new_file, None, lambda: 77)
        for table in tables:
            rolling.write(table)
        rolling.finish()
        self.files = rolling.files

    def _new_file(self, _plan: FilePlan) -> NewFile:
        name = self.plan.file_name(f"u-{len(self.outputs)}")
        self.outputs.append(MemoryOutput())
        return NewFile(name, f"/{name}", self.outputs[-1])

    @property
    def facts(self) -> list[DataFile]:
        return [done.facts for done in self.files]

    def parquet(self, number: int = 0) -> pa.Table:
        return pq.read_table(pa.BufferReader(self.outputs[number].data))


def test_the_facts_of_a_small_file() -> None:
    schema = schema_of(["k", "n"])
    kinds = [INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE]
    written = Written(FilePlan.for_keyed_rows(schema, level=0), rows(["a", "b", "c", "d"], kinds, first=5))
    (file,) = written.facts
    types = [field.type for field in schema.trimmed_primary_key_fields]
    assert (decode_row(file.min_key, types), decode_row(file.max_key, types)) == (("a", 0), ("d", 3))
    assert (file.min_sequence_number, file.max_sequence_number) == (5, 8)
    assert (file.row_count, file.delete_row_count, file.level, file.file_source) == (4, 2, 0, APPEND)
    assert file.key_stats.null_counts == (0, 0)
    assert decode_row(file.key_stats.max_values, types) == ("d", 3)
    assert (file.value_stats_cols, file.value_stats.null_counts, file.creation_time) == (None, (0, 0, 2), 77)
    assert file.file_name == "data-u-0.parquet"
    table = written.parquet()
    assert table.column_names == ["_SEQUENCE_NUMBER", "_VALUE_KIND", "k", "n", "v"]
    assert table["_VALUE_KIND"].to_pylist() == kinds


def test_files_are_thin_unless_the_table_says_otherwise() -> None:
    def names(**options: object) -> list[str]:
        plan = FilePlan.for_keyed_rows(schema_of(["n", "k"], **options), level=0)
        table: list[str] = Written(plan, rows(["a"])).parquet().column_names
        return table

    assert names()[:2] == names(data_file__thin_mode="true")[:2] == ["_SEQUENCE_NUMBER", "_VALUE_KIND"]
    fat = names(data_file__thin_mode="false")
    assert fat == ["_KEY_n", "_KEY_k", "_SEQUENCE_NUMBER", "_VALUE_KIND", "k", "n", "v"]


def test_key_copies_are_the_keys_and_have_field_ids() -> None:
    plan = FilePlan.for_keyed_rows(schema_of(["k"], data_file__thin_mode="false"), level=0)
    written = Written(plan, rows(["a", "b"]))
    assert written.parquet()["_KEY_k"].to_pylist() == ["a", "b"]
    fields = pq.read_schema(pa.BufferReader(written.outputs[0].data))
    ids = {field.name: int(field.metadata[b"PARQUET:field_id"]) for field in fields}
    assert ids == {
        "_KEY_k": 1073741823,
        "_SEQUENCE_NUMBER": 2147483646,
        "_VALUE_KIND": 2147483645,
        "k": 0,
        "n": 1,
        "v": 2,
    }
    assert not fields.field("_KEY_k").nullable


def test_keys_are_bounded_in_full_and_their_statistics_obey_no_option() -> None:
    long = "a" * 200
    schema = schema_of(["k"], metadata__stats_mode="none")
    (file,) = Written(FilePlan.for_keyed_rows(schema, level=0), rows([long, "b" * 200])).facts
    assert decode_row(file.min_key, [AtomicType("STRING")]) == (long,)
    assert decode_row(file.key_stats.min_values, [AtomicType("STRING")]) == (long[:128],)
    assert decode_row(file.key_stats.max_values, [AtomicType("STRING")]) == ("b" * 127 + "c",)
    assert (file.value_stats_cols, file.value_stats.null_counts) == ((), ())
    schema = schema_of(["k"], fields__k__stats_mode="counts", fields__v__stats_mode="truncate(3)")
    (file,) = Written(FilePlan.for_keyed_rows(schema, level=0), rows([long])).facts
    key, value = (field_stats(file, name, schema.fields) for name in "kv")
    assert key is not None
    assert value is not None
    assert (key.min, key.null_count, value.min, value.max) == (None, 0, "xxx", "xxy")


def test_a_file_that_rolls_has_the_bounds_of_its_own_rows() -> None:
    plan = replace(FilePlan.for_keyed_rows(schema_of(["k"]), level=0), file_rows_max=3)
    keys = [f"k{n:02d}" for n in range(8)]
    kinds = [DELETE, INSERT, INSERT, INSERT, INSERT, DELETE, DELETE, INSERT]
    files = Written(plan, rows(keys[:2], kinds[:2]), rows(keys[2:], kinds[2:])).facts
    text = [AtomicType("STRING")]
    found = [(decode_row(f.min_key, text)[0], decode_row(f.max_key, text)[0], f.delete_row_count) for f in files]
    assert found == [("k00", "k02", 1), ("k03", "k05", 1), ("k06", "k07", 1)]


def test_levels_and_changelogs_have_formats_of_their_own() -> None:
    options = {
        "file__format__per__level": "0:avro,5:orc",
        "file__compression__per__level": "0:none",
        "changelog_file__format": "orc",
        "changelog_file__compression": "snappy",
        "changelog_file__prefix": "log-",
        "file__suffix__include__compression": "true",
        "target_file_row_num": 2,
    }
    schema = schema_of(["k"], **options)
    plans = [FilePlan.for_keyed_rows(schema, level=0), FilePlan.for_keyed_rows(schema, level=5, source=COMPACT)]
    plans.append(FilePlan.for_keyed_rows(schema, level=0, changelog=True))
    named = [(plan.file_name("u"), plan.options.compression, plan.level, plan.source) for plan in plans]
    assert named == [
        ("data-u.avro", "none", 0, APPEND),
        ("data-u.zst.orc", "zstd", 5, COMPACT),
        ("log-u.snappy.orc", "snappy", 0, APPEND),
    ]
    assert [len(Written(plan, rows(["a", "b", "c"])).files) for plan in plans] == [2, 1, 2]
    assert {f.level for f in Written(plans[1], rows(["a"])).facts} == {5}


# ---- what Java says of the same rows ---------------------------------------------------------------------------------


def _golden_files() -> Iterator[tuple[str, TableStore, ManifestEntry]]:
    for name in sorted(expected()):
        store = open_table(str(WAREHOUSE / name.replace(".", ".db/"))).store
        newest = store.snapshots.latest()
        if not store.schema.primary_keys or newest is None:
            continue
        entries = [entry for entry in store.manifests.live(newest) if entry.bucket >= 0]
        for snapshot in map(store.snapshots.get, store.snapshots.ids()):
            entries += store.manifests.changelog(snapshot)
        yield from ((name, store, entry) for entry in entries)


def _rewritten(store: TableStore, entry: ManifestEntry) -> tuple[TableSchema, FinishedFile]:
    file = entry.file
    schema = store.schemas.get(file.schema_id)
    path = store.layout.data_file(store.partition_directory(entry.partition), entry.bucket, file)
    fields = (*KEYED_FIELDS, *schema.fields)
    source = store.storage.open_input(path)
    reader = open_reader(file_format_of(file.file_name), source, path=path, size=file.file_size, fields=fields)
    table = pa.Table.from_batches([batch for _, batch in reader.batches()])
    reader.close()
    assert file.file_source is not None
    changelog = file.file_name.startswith("changelog-")
    plan = FilePlan.for_keyed_rows(schema, level=file.level, source=file.file_source, changelog=changelog)
    (done,) = Written(plan, table).files
    return schema, done


def _bounds(file: DataFile, schema: TableSchema) -> Mapping[str, Any]:
    alike = [f for f in schema.fields if isinstance(f.type, AtomicType) and f.type.root not in _UNLIKE_JAVA]
    return {f.name: field_stats(file, f.name, schema.fields) for f in alike}


def test_java_says_the_same_of_the_same_rows() -> None:
    seen = logs = 0
    for name, store, entry in _golden_files():
        schema, done = _rewritten(store, entry)
        java, ours = entry.file, done.facts
        for fact in (
            "row_count min_key max_key key_stats min_sequence_number max_sequence_number delete_row_count level "
            "file_source write_cols external_path first_row_id"
        ).split():
            assert getattr(ours, fact) == getattr(java, fact), (name, fact)
        assert _bounds(ours, schema) == _bounds(java, schema), name
        seen += 1
        logs += java.file_name.startswith("changelog-")
    assert seen > 130
    assert logs > 10


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_every_format_counts_the_same(file_format: str) -> None:
    plan = FilePlan.for_keyed_rows(schema_of(["k"], file__format=file_format), level=0)
    (file,) = Written(plan, rows(["a", "b", "c"], [INSERT, DELETE, DELETE], first=9)).facts
    assert (file.min_sequence_number, file.max_sequence_number, file.delete_row_count) == (9, 11, 2)
    assert file.value_stats.null_counts == (0, 0, 1)
