from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewright.errors import (
    ColumnNotExistException,
    CorruptTableError,
    InvalidInputError,
    LakewrightError,
    UnsupportedError,
)
from lakewright.spec.schema import Schema, new_table_schema
from lakewright.spec.schema_checks import (
    check_schema,
    check_supported_for_read,
    check_supported_for_write,
    doubtful_keys,
)
from lakewright.spec.table_schema import BucketMode, TableSchema
from lakewright.spec.types import (
    VECTOR_ROOTS,
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    VectorType,
    all_fields,
    numbered_fields,
    parse_type,
)
from support.effort import examples
from support.golden import WAREHOUSE

FILES = sorted(WAREHOUSE.glob("*/*/schema/schema-*")) + sorted(WAREHOUSE.glob("*/*/branch/*/schema/schema-*"))
INT, STRING = AtomicType("INT"), AtomicType("STRING")
ROW = RowType(nullable=True, fields=[DataField(0, "x", INT)])
VECTOR = VectorType(nullable=True, element=AtomicType("FLOAT"), length=2)


def read(path: Path) -> TableSchema:
    return TableSchema.from_json(path.read_bytes(), path=str(path))


def columns(*types: DataType) -> list[DataField]:
    """Return columns named a, b, c, ..."""
    return [DataField(0, chr(ord("a") + index), dtype) for index, dtype in enumerate(types)]


def created(
    fields: list[DataField] | None = None, partition: str = "", key: str = "", **options: object
) -> TableSchema:
    """Create a schema of columns a, b, c; underscores in option names stand for hyphens."""
    renamed = {name.replace("__", ".").replace("_", "-"): value for name, value in options.items()}
    wish = Schema(fields or columns(INT, STRING, INT), partition.split(), key.split(), renamed)
    return new_table_schema(wish, time_millis=7)


# Golden files


def test_every_golden_schema_file_comes_out_as_it_went_in() -> None:
    assert len(FILES) > 130
    for path in FILES:
        schema = read(path)
        ours, javas = json.loads(schema.to_json()), json.loads(path.read_bytes())
        assert list(ours) == [*javas, "checksum"]
        del ours["checksum"]
        assert ours == javas
        assert TableSchema.from_json(schema.to_json(), path="again") == schema
        assert schema.highest_field_id >= max(field.id for field in all_fields(schema.fields))


def test_every_golden_schema_keeps_our_rules_of_creation() -> None:
    for path in FILES:
        check_schema(read(path))


def test_every_golden_type_is_stable_under_parsing_and_printing() -> None:
    for path in FILES:
        for field in all_fields(read(path).fields):
            assert parse_type(field.type.to_dict()) == field.type
            if isinstance(field.type, AtomicType):
                assert str(parse_type(str(field.type))) == str(field.type)


def test_creation_numbers_fields_as_java_did() -> None:
    schema = read(WAREHOUSE / "types.db/nested_parquet/schema/schema-0")
    wish = Schema(_without_ids(schema.fields), options=schema.options)
    assert new_table_schema(wish, time_millis=schema.time_millis) == schema


def _without_ids(fields: tuple[DataField, ...]) -> tuple[DataField, ...]:
    class Zeros(Iterator[int]):
        def __next__(self) -> int:
            return 0

    return numbered_fields(fields, Zeros())


# JSON

ATOMS = st.sampled_from(
    "BOOLEAN;TINYINT;SMALLINT;INT;BIGINT;FLOAT;DOUBLE;DATE;STRING;BYTES;TIME(3);TIMESTAMP(9);CHAR(4);VARCHAR(9);"
    "BINARY(2);VARBINARY(3);DECIMAL(12, 4);TIMESTAMP(6) WITH LOCAL TIME ZONE;VARIANT;BLOB".split(";")
)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)


def _wrapped(inner: st.SearchStrategy[DataType]) -> st.SearchStrategy[DataType]:
    fields = st.builds(DataField, st.integers(0, 99), NAMES, inner, st.none() | NAMES)
    return st.one_of(
        st.builds(ArrayType, st.booleans(), inner),
        st.builds(MultisetType, st.booleans(), inner),
        st.builds(MapType, st.booleans(), inner, inner),
        st.builds(VectorType, st.booleans(), st.sampled_from(sorted(VECTOR_ROOTS)), st.integers(1, 9)),
        st.builds(RowType, st.booleans(), st.lists(fields, max_size=3)),
    )


TYPES: st.SearchStrategy[DataType] = st.recursive(st.builds(AtomicType, ATOMS, st.booleans()), _wrapped, max_leaves=8)


@st.composite
def schemas(draw: st.DrawFn) -> TableSchema:
    names = draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))
    fields = [DataField(0, name, draw(TYPES), draw(st.none() | NAMES), draw(st.none() | NAMES)) for name in names]
    keys = st.lists(st.sampled_from(names), unique=True).map(tuple)
    return TableSchema(
        id=draw(st.integers(0, 2**40)),
        fields=numbered_fields(fields, count()),
        highest_field_id=draw(st.integers(0, 2**30)),
        partition_keys=draw(keys),
        primary_keys=draw(keys),
        options=draw(st.dictionaries(NAMES, NAMES, max_size=3)),
        comment=draw(st.none() | NAMES),
        time_millis=draw(st.integers(0, 2**50)),
    )


@settings(max_examples=examples(150), derandomize=True)
@given(schemas())
def test_json_round_trip(schema: TableSchema) -> None:
    text = schema.to_json()
    assert TableSchema.from_json(text.encode(), path="p") == schema
    assert ("comment" in json.loads(text)) == (schema.comment is not None)


@settings(max_examples=examples(100), derandomize=True)
@given(schemas(), st.data())
def test_any_changed_character_is_noticed(schema: TableSchema, data: st.DataObject) -> None:
    text = schema.to_json()
    position = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.sampled_from("0aA,:{").filter(lambda c: c != text[position]))
    damaged = text[:position] + other + text[position + 1 :]
    if text[position].isspace():  # between the tokens nothing is said
        return
    try:
        found = TableSchema.from_json(damaged, path="p")
    except CorruptTableError:
        return
    # Only the name of the checksum's own key may go unnoticed.
    assert found == schema
    assert "checksum" not in json.loads(damaged)


def plain() -> dict[str, Any]:
    data: dict[str, Any] = json.loads(created(partition="c").to_json())
    del data["checksum"]
    return data


BROKEN: dict[str, Any] = {
    "no id": lambda d: d.pop("id"),
    "id as text": lambda d: d.update(id="0"),
    "id as boolean": lambda d: d.update(id=True),
    "negative id": lambda d: d.update(id=-1),
    "no fields": lambda d: d.pop("fields"),
    "fields as object": lambda d: d.update(fields={}),
    "field as text": lambda d: d.update(fields=["a"]),
    "field without type": lambda d: d["fields"][0].pop("type"),
    "bad parameters": lambda d: d["fields"][0].update(type="DECIMAL(99, 2)"),
    "row without fields": lambda d: d["fields"][0].update(type={"type": "ROW"}),
    "array without element": lambda d: d["fields"][0].update(type={"type": "ARRAY"}),
    "two columns of one name": lambda d: d["fields"][1].update(name="a"),
    "two columns of one id": lambda d: d["fields"][1].update(id=0),
    "no highest id": lambda d: d.pop("highestFieldId"),
    "unknown partition key": lambda d: d.update(partitionKeys=["zz"]),
    "key twice": lambda d: d.update(primaryKeys=["a", "a"]),
    "keys as text": lambda d: d.update(primaryKeys="a"),
    "no keys": lambda d: d.pop("primaryKeys"),
    "no options": lambda d: d.pop("options"),
    "option as list": lambda d: d.update(options={"x": []}),
    "wrong checksum": lambda d: d.update(checksum="crc32:00000000"),
    "time as text": lambda d: d.update(timeMillis="now"),
}


@pytest.mark.parametrize("defect", BROKEN)
def test_every_defect_is_a_corrupt_table_with_its_path(defect: str) -> None:
    data = plain()
    BROKEN[defect](data)
    with pytest.raises(CorruptTableError, match="lake/schema-0") as caught:
        TableSchema.from_json(json.dumps(data), path="lake/schema-0")
    assert caught.value.path == "lake/schema-0"


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "null", '"x"', b"\xff\xfe", "[" * 100_000])
def test_texts_that_are_no_schema(text: str | bytes) -> None:
    with pytest.raises(CorruptTableError, match="schema-9"):
        TableSchema.from_json(text, path="schema-9")


def test_a_newer_version_is_unsupported() -> None:
    with pytest.raises(UnsupportedError, match="newer"):
        TableSchema.from_json(json.dumps(plain() | {"version": 4}), path="p")


def test_schema_files_of_old_versions_have_their_old_defaults() -> None:
    data = plain()
    del data["version"], data["timeMillis"]
    one = TableSchema.from_json(json.dumps(data), path="p")
    assert (one.options, one.time_millis) == ({"bucket": "1", "file.format": "orc"}, 0)
    assert TableSchema.from_json(json.dumps(data | {"version": 2}), path="p").options == {"file.format": "orc"}
    data["options"] = {"bucket": "-1", "file.format": "avro"}
    assert TableSchema.from_json(json.dumps(data), path="p").options == data["options"]


def test_what_other_writers_add_is_tolerated() -> None:
    data = plain() | {"comment": None, "something": 1}
    data["fields"][0]["type"] = {"type": "ARRAY NOT NULL", "element": "INT", "nullable": True}
    schema = TableSchema.from_json(json.dumps(data), path="p")
    assert schema.comment is None
    assert schema.fields[0].type == ArrayType(nullable=False, element_type=INT)


# Derived facts


def test_trimmed_and_bucket_keys_follow_from_the_primary_key() -> None:
    schema = created(partition="c", key="c a", bucket=2)
    assert schema.trimmed_primary_keys == schema.bucket_keys == ("a",)
    assert [f.name for f in schema.bucket_fields] == [f.name for f in schema.trimmed_primary_key_fields] == ["a"]
    assert [f.name for f in schema.partition_fields] == ["c"]
    assert created(bucket=2, bucket_key="b,a").bucket_keys == ("b", "a")
    assert created().bucket_keys == ()


@pytest.mark.parametrize(
    ("mode", "arguments"),
    [
        (BucketMode.UNAWARE, {}),
        (BucketMode.HASH_FIXED, {"bucket": 2, "bucket_key": "a"}),
        (BucketMode.HASH_FIXED, {"bucket": 2, "key": "a"}),
        (BucketMode.HASH_DYNAMIC, {"key": "a"}),
        (BucketMode.HASH_DYNAMIC, {"key": "a c", "partition": "c"}),
        (BucketMode.KEY_DYNAMIC, {"key": "a", "partition": "c"}),
        (BucketMode.POSTPONE, {"key": "a", "bucket": -2}),
    ],
)
def test_the_bucket_mode_follows_from_options_and_keys(mode: BucketMode, arguments: dict[str, Any]) -> None:
    assert created(**arguments).bucket_mode is mode


def test_an_unknown_column_is_named_with_a_hint() -> None:
    schema = created([DataField(0, "customer", INT)])
    with pytest.raises(ColumnNotExistException, match="did you mean 'customer'") as caught:
        schema.field("custmer")
    assert caught.value.columns == ("customer",)


def test_options_can_be_laid_over_and_the_schema_stays_as_it_was() -> None:
    schema = created()
    over = schema.with_options({"file.format": "orc", "write-only": True})
    assert over.table_options.file_format == "orc"
    assert over.options["write-only"] == "true"
    assert schema.table_options.file_format == "parquet"


def test_a_schema_survives_pickling_with_its_caches() -> None:
    schema = created(partition="c")
    assert schema.arrow_schema.names == ["a", "b", "c"]
    assert schema.table_options.bucket == -1
    assert pickle.loads(pickle.dumps(schema)) == schema  # noqa: S301 - our own bytes


# Creation


def test_a_declaration_becomes_the_first_schema() -> None:
    arrow = pa.schema([pa.field("k", pa.int64()), pa.field("v", pa.string(), metadata={"description": "text"})])
    wish = Schema.from_pyarrow_schema(arrow, primary_keys=["k"], options={"bucket": 2}, comment="c")
    schema = new_table_schema(wish, time_millis=5)
    assert [(f.id, f.name, str(f.type), f.description) for f in schema.fields] == [
        (0, "k", "BIGINT NOT NULL", None),
        (1, "v", "STRING", "text"),
    ]
    assert (schema.id, schema.highest_field_id, schema.time_millis, schema.comment) == (0, 1, 5, "c")
    assert schema.options == {"bucket": "2"}


def test_a_nullable_primary_key_on_request() -> None:
    assert created(key="a").field("a").type == AtomicType("INT", nullable=False)
    assert created(key="a", primary_key__nullable=True).field("a").type == INT


def test_keys_given_as_options_are_moved() -> None:
    schema = created(primary_key="a, c")
    assert schema.primary_keys == ("a", "c")
    assert "primary-key" not in schema.options
    moved = new_table_schema(Schema(columns(INT, INT), options={"partition": "b"}), time_millis=0)
    assert (moved.partition_keys, moved.options) == (("b",), {})
    with pytest.raises(InvalidInputError, match="contradict"):
        new_table_schema(Schema(columns(INT, INT), ["a"], options={"partition": "b"}), time_millis=0)


def row(*names: str) -> RowType:
    return RowType(nullable=True, fields=[DataField(0, name, INT) for name in names])


REFUSALS: dict[str, tuple[dict[str, Any], type[LakewrightError]]] = {
    "duplicate column": ({"fields": columns(INT) * 2}, InvalidInputError),
    "duplicate nested field": ({"fields": columns(row("x", "x"))}, InvalidInputError),
    "empty row": ({"fields": columns(ArrayType(nullable=True, element_type=row()))}, InvalidInputError),
    "blank name": ({"fields": [DataField(0, "  ", INT)]}, InvalidInputError),
    "empty name": ({"fields": [DataField(0, "", INT)]}, InvalidInputError),
    "blank nested name": ({"fields": columns(row(""))}, InvalidInputError),
    "control character": ({"fields": [DataField(0, "a\x07b", INT)]}, InvalidInputError),
    "line break": ({"fields": [DataField(0, "a\nb", INT)]}, InvalidInputError),
    "lone surrogate": ({"fields": [DataField(0, "a\ud800", INT)]}, InvalidInputError),
    "system column": ({"fields": [DataField(0, "_VALUE_KIND", INT)]}, InvalidInputError),
    "rowkind": ({"fields": [DataField(0, "rowkind", INT)]}, InvalidInputError),
    "key prefix": ({"fields": [DataField(0, "_KEY_a", INT)]}, InvalidInputError),
    "unknown partition key": ({"partition": "z"}, ColumnNotExistException),
    "unknown primary key": ({"key": "z"}, ColumnNotExistException),
    "unknown bucket key": ({"bucket": 1, "bucket_key": "z"}, ColumnNotExistException),
    "bucket key with blanks": ({"bucket": 1, "bucket_key": "a, b"}, ColumnNotExistException),
    "partition key twice": ({"partition": "c c"}, InvalidInputError),
    "primary key twice": ({"key": "a a"}, InvalidInputError),
    "bucket key twice": ({"bucket": 1, "bucket_key": "a,a"}, InvalidInputError),
    "nested partition key": ({"fields": columns(ROW, INT), "partition": "a"}, InvalidInputError),
    "nested primary key": ({"fields": columns(ROW, INT), "key": "a"}, InvalidInputError),
    "nested bucket key": ({"fields": columns(ROW, INT), "bucket": 1, "bucket_key": "a"}, InvalidInputError),
    "variant key": ({"fields": columns(AtomicType("VARIANT"), INT), "key": "a"}, InvalidInputError),
    "primary key of partition keys": ({"partition": "a c", "key": "a"}, InvalidInputError),
    "bucket 0": ({"bucket": 0}, InvalidInputError),
    "bucket -3": ({"bucket": -3}, InvalidInputError),
    "fixed buckets without key": ({"bucket": 2}, InvalidInputError),
    "bucket key without buckets": ({"bucket_key": "a"}, InvalidInputError),
    "bucket key of a partition": ({"partition": "c", "bucket": 1, "bucket_key": "c"}, InvalidInputError),
    "bucket key outside the key": ({"key": "a", "bucket": 1, "bucket_key": "b"}, InvalidInputError),
    "postpone without key": ({"bucket": -2}, InvalidInputError),
    "mod on text": ({"bucket": 1, "bucket_key": "b", "bucket_function__type": "mod"}, InvalidInputError),
    "mod on two": ({"bucket": 1, "bucket_key": "a,c", "bucket_function__type": "mod"}, InvalidInputError),
    "row tracking with key": ({"key": "a", "row_tracking__enabled": True}, InvalidInputError),
    "row tracking in buckets": (
        {"bucket": 1, "bucket_key": "a", "row_tracking__enabled": True},
        InvalidInputError,
    ),
    "evolution without tracking": ({"data_evolution__enabled": True}, InvalidInputError),
    "bad size": ({"target_file_size": "much"}, InvalidInputError),
    "bad engine": ({"key": "a", "merge_engine": "newest"}, InvalidInputError),
    "unknown sequence field": ({"key": "a", "sequence__field": "z"}, ColumnNotExistException),
    "sequence with first-row": (
        {"key": "a", "sequence__field": "b", "merge_engine": "first-row"},
        InvalidInputError,
    ),
    "sequence across partitions": ({"key": "a", "partition": "c", "sequence__field": "b"}, InvalidInputError),
    "unknown rowkind field": ({"key": "a", "rowkind__field": "z"}, ColumnNotExistException),
    "changelog without key": ({"changelog_producer": "input"}, InvalidInputError),
    "option of no column": ({"fields__z__stats_mode": "none"}, ColumnNotExistException),
    "bad default": ({"fields": [DataField(0, "a", INT, default_value="many")]}, InvalidInputError),
    "path": ({"path": "/elsewhere"}, InvalidInputError),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_rules_of_creation(case: str) -> None:
    arguments, kind = REFUSALS[case]
    with pytest.raises(kind):
        created(**arguments)


def test_a_table_needs_columns_and_one_name_is_a_list_of_one() -> None:
    with pytest.raises(InvalidInputError, match="no columns"):
        new_table_schema(Schema(), time_millis=0)
    assert Schema(columns(INT), primary_keys="id").primary_keys == ("id",)
    assert Schema(columns(INT), partition_keys="day").partition_keys == ("day",)


def test_unusual_names_are_fine() -> None:
    names = ["a.b", "日本", "with blank", "quote\"'`", "$x", "1"]
    assert created([DataField(0, name, INT) for name in names]).field_names == tuple(names)


# What is supported


@pytest.mark.parametrize(
    "schema",
    [
        created(columns(INT, AtomicType("BLOB"))),
        created(columns(INT, AtomicType("GEOMETRY(OGC:CRS84)"))),
        created(columns(INT, ArrayType(nullable=True, element_type=VECTOR))),
        created().with_options({"type": "format-table"}),
        created().with_options({"chain-table.enabled": True}),
    ],
    ids=lambda schema: f"{schema.fields[-1].type} {dict(schema.options)}",
)
def test_schemas_that_can_neither_be_written_nor_read(schema: TableSchema) -> None:
    with pytest.raises(UnsupportedError):
        check_supported_for_write(schema)
    with pytest.raises(UnsupportedError):
        check_supported_for_read(schema)


@pytest.mark.parametrize(
    "stored",
    [
        "QUATERNION NOT NULL",
        "GEOMETRY('my (crs), x')",
        "GEOGRAPHY(OGC:CRS84, spherical)",
        {"type": "FUTURE NOT NULL", "of": {"a": 1}},
        {"type": "ARRAY", "element": "HYPER(3)"},
        {"type": "VECTOR", "element": "STRING", "length": 3},
    ],
    ids=str,
)
def test_types_of_later_versions_are_kept_and_refused_by_column(stored: Any) -> None:  # noqa: ANN401
    data = plain()
    data["fields"][1]["type"] = stored
    schema = TableSchema.from_json(json.dumps(data), path="p")
    assert schema.fields[1].to_dict()["type"] == stored
    assert TableSchema.from_json(schema.to_json(), path="p") == schema
    check_supported_for_read(schema, ["a", "c"])
    for check in (check_supported_for_read, check_supported_for_write):
        with pytest.raises(UnsupportedError, match="the column 'b' of type"):
            check(schema)
    key = replace(schema, primary_keys=("b",))
    with pytest.raises(UnsupportedError, match="'b'"):
        check_supported_for_read(key, ["a"])


def test_other_columns_of_such_a_table_can_be_read() -> None:
    schema = created(columns(INT, AtomicType("BLOB")))
    check_supported_for_read(schema, ["a"])
    with pytest.raises(UnsupportedError, match="'b'"):
        check_supported_for_read(schema, ["a", "b"])


@pytest.mark.parametrize(
    "options",
    [
        {"file__format": "csv"},
        {"file__compression": "rot13"},
        {"bucket": 1, "bucket_key": "a", "bucket_function__type": "latest"},
        {"key": "a", "bucket": 1, "changelog_file__format": "csv"},
    ],
    ids=str,
)
def test_schemas_that_can_be_read_but_not_written(options: dict[str, Any]) -> None:
    renamed = {name.replace("__", ".").replace("_", "-"): value for name, value in options.items() if name != "key"}
    schema = created(key=options.get("key", "")).with_options(renamed)  # as others store it
    check_supported_for_read(schema)
    with pytest.raises(UnsupportedError):
        check_supported_for_write(schema)


@pytest.mark.parametrize(
    "options",
    [{"sequence.snapshot-ordering": "true"}, {"merge-engine": "first-row", "changelog-producer": "input"}],
    ids=str,
)
def test_combinations_that_only_others_create_are_not_written(options: dict[str, str]) -> None:
    schema = created(key="a", bucket=1).with_options(options)
    check_supported_for_read(schema)
    with pytest.raises(UnsupportedError):
        check_supported_for_write(schema)
    with pytest.raises(InvalidInputError):
        check_schema(schema)


def test_fixed_buckets_without_a_key_as_others_create_them() -> None:
    schema = replace(created(), options={"bucket": "2"})
    check_supported_for_read(schema)
    check_supported_for_write(schema)
    assert "all rows of a partition go into one bucket" in doubtful_keys(schema)[0]
    schema = replace(schema, options={"bucket": "2", "bucket-function.type": "mod"})
    with pytest.raises(UnsupportedError, match="bucket-key"):
        check_supported_for_write(schema)


def test_vectors_are_refused_by_name_where_they_have_no_place() -> None:
    check_supported_for_write(created(columns(INT, VECTOR)))
    with pytest.raises(UnsupportedError, match=r"'b'.*ORC files cannot hold VECTOR<FLOAT, 2>"):
        check_supported_for_write(created(columns(INT, VECTOR), file__format="orc"))
    for refused in ({"partition": "b"}, {"key": "b"}, {"bucket": 2, "bucket_key": "b"}):
        with pytest.raises(InvalidInputError, match="'b'"):
            created(columns(INT, VECTOR), **refused)
    for text in ("VECTOR<STRING, 2>", "VECTOR<FLOAT, 0>"):
        with pytest.raises(InvalidInputError, match="VECTOR has"):
            parse_type(text)
    assert parse_type({"type": "VECTOR", "element": "FLOAT", "length": 2, "nullable": True}) == VECTOR
    assert VECTOR.to_dict() == {"type": "VECTOR", "element": "FLOAT", "length": 2}


def test_clustered_primary_key_tables_cannot_be_read() -> None:
    with pytest.raises(UnsupportedError, match="pk-clustering-override"):
        check_supported_for_read(created(key="a").with_options({"pk-clustering-override": True}))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"partition": "c", "file__format": "ORC"},
        {"bucket": 2, "bucket_key": "a", "bucket_function__type": "mod"},
        {"row_tracking__enabled": True, "data_evolution__enabled": True},
    ],
    ids=str,
)
def test_append_tables_are_written(options: dict[str, Any]) -> None:
    check_supported_for_write(created(**options))
    check_supported_for_read(created(**options))
