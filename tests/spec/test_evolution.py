from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewright.errors import ColumnAlreadyExistException, ColumnNotExistException, InvalidInputError, LakewrightError
from lakewright.spec.schema import Move, Schema, SchemaChange, new_table_schema
from lakewright.spec.schema_evolution import Cast, apply_changes, cast_between
from lakewright.spec.table_schema import TableSchema
from lakewright.spec.types import ArrayType, AtomicType, DataField, MapType, RowType, all_fields, parse_type
from support.effort import examples
from support.golden import WAREHOUSE

INT, STRING, BIGINT = AtomicType("INT"), AtomicType("STRING"), AtomicType("BIGINT")
C = SchemaChange


def nested(*fields: DataField) -> RowType:
    return RowType(nullable=True, fields=fields)


def table(partition: str = "", key: str = "", **options: object) -> TableSchema:
    """Return a table of columns a INT, b STRING, p INT, r ROW, items ARRAY<ROW>, m MAP<STRING, ROW>, blob BLOB."""
    inner = nested(DataField(0, "x", INT), DataField(0, "y", STRING))
    fields = [
        DataField(0, "a", INT),
        DataField(0, "b", STRING),
        DataField(0, "p", INT),
        DataField(0, "r", inner),
        DataField(0, "items", ArrayType(nullable=True, element_type=inner)),
        DataField(0, "m", MapType(nullable=True, key_type=STRING, value_type=inner)),
        DataField(0, "blob", AtomicType("BLOB")),
        DataField(0, "numbers", ArrayType(nullable=True, element_type=INT)),
    ]
    renamed = {name.replace("__", ".").replace("_", "-"): value for name, value in options.items()}
    return new_table_schema(Schema(fields, partition.split(), key.split(), renamed), time_millis=1)


def evolved(schema: TableSchema, *changes: SchemaChange, has_snapshot: bool = True) -> TableSchema:
    return apply_changes(schema, changes, has_snapshot=has_snapshot, time_millis=9)


def shape(fields: Iterable[DataField]) -> list[tuple[int, str]]:
    return [(field.id, field.name) for field in fields]


def inside(schema: TableSchema, column: str) -> tuple[DataField, ...]:
    """Return the fields of the ROW in a column."""
    dtype = schema.field(column).type
    match dtype:
        case ArrayType(element=RowType(fields=fields)) | MapType(value=RowType(fields=fields)) | RowType(fields=fields):
            return fields
        case _:
            raise AssertionError(dtype)


# What changes


def test_a_new_schema_has_the_next_id_and_the_given_time() -> None:
    schema = evolved(table(), C.update_comment("new"))
    assert (schema.id, schema.time_millis, schema.comment) == (1, 9, "new")
    assert evolved(schema, C.update_comment(None)).comment is None


def test_changes_that_change_nothing_return_the_same_schema() -> None:
    schema = table(write_only=True)
    assert evolved(schema) is schema
    assert evolved(schema, C.set_option("write-only", "true")) is schema
    assert evolved(schema, C.remove_option("never-set")) is schema
    assert evolved(schema, C.rename_column("a", "z"), C.rename_column("z", "a")) is schema


def test_a_new_column_gets_an_id_that_was_never_used() -> None:
    schema = table()
    highest = schema.highest_field_id
    added = evolved(schema, C.add_column("n", BIGINT, "why"))
    assert added.fields[-1] == DataField(highest + 1, "n", BIGINT, "why")
    again = evolved(added, C.drop_column("n"), C.add_column("n", "BIGINT"))
    assert again.fields[-1].id == highest + 2
    assert again.highest_field_id == highest + 2


def test_a_new_row_is_numbered_with_what_is_inside_it() -> None:
    schema = table()
    highest = schema.highest_field_id
    added = evolved(schema, C.add_column("n", nested(DataField(0, "u", INT), DataField(0, "v", INT))))
    assert added.fields[-1].id == highest + 1
    assert shape(inside(added, "n")) == [(highest + 2, "u"), (highest + 3, "v")]
    assert added.highest_field_id == highest + 3


def test_a_file_that_states_too_low_a_highest_id_does_not_lead_to_an_id_twice() -> None:
    added = evolved(replace(table(), highest_field_id=0), C.add_column("n", INT))
    ids = [field.id for field in all_fields(added.fields)]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize(
    ("move", "names"),
    [
        (Move.first("n"), "n a b p"),
        (Move.last("n"), "a b p r items m blob numbers n"),
        (Move.after("n", "a"), "a n b p"),
        (Move.before("n", "b"), "a n b p"),
    ],
)
def test_a_new_column_is_added_at_a_position(move: Move, names: str) -> None:
    added = evolved(table(), C.add_column("n", INT, move=move))
    assert list(added.field_names[: len(names.split())]) == names.split()


@pytest.mark.parametrize(
    ("move", "names"),
    [
        (Move.first("p"), "p a b"),
        (Move.after("a", "p"), "b p a"),
        (Move.before("p", "b"), "a p b"),
        (Move.after("p", "a"), "a p b"),
    ],
)
def test_a_column_is_moved_to_a_position(move: Move, names: str) -> None:
    schema = table()
    moved = evolved(schema, C.update_column_position(move))
    assert list(moved.field_names[:3]) == names.split()
    assert sorted(shape(moved.fields)) == sorted(shape(schema.fields))


def test_nested_fields_change_through_rows_arrays_and_maps() -> None:
    schema = table()
    highest = schema.highest_field_id
    x, y = inside(schema, "items")
    changed = evolved(
        schema,
        C.add_column(["r", "z"], INT, move=Move.first("z")),
        C.rename_column(["items", "element", "x"], "xx"),
        C.drop_column(["m", "value", "y"]),
        C.update_column_type(["items", "element", "xx"], BIGINT),
        C.update_column_comment(["items", "element", "y"], "why"),
        C.update_column_type(["numbers", "element"], BIGINT),
    )
    assert [field.name for field in inside(changed, "r")] == ["z", "x", "y"]
    assert inside(changed, "r")[0].id == highest + 1
    assert inside(changed, "items") == (replace(x, name="xx", type=BIGINT), replace(y, description="why"))
    assert [field.name for field in inside(changed, "m")] == ["x"]
    assert changed.field("numbers").type == ArrayType(nullable=True, element_type=BIGINT)


def test_the_golden_nested_evolution_comes_out_equal() -> None:
    directory = WAREHOUSE / "evolve.db/nested/schema"
    first, second, third = (
        TableSchema.from_json((directory / f"schema-{number}").read_bytes(), path="golden") for number in range(3)
    )
    ours = apply_changes(
        first,
        [C.rename_column(["r", "y"], "yy"), C.add_column(["r", "z"], BIGINT)],
        has_snapshot=True,
        time_millis=second.time_millis,
    )
    assert ours == second
    ours = apply_changes(
        second,
        [
            C.drop_column(["r", "x"]),
            C.add_column(["ar", "element", "z"], AtomicType("DOUBLE")),
            C.add_column(["mr", "value", "w"], STRING),
        ],
        has_snapshot=True,
        time_millis=third.time_millis,
    )
    assert ours == third


@pytest.mark.parametrize("name", ["types_parquet", "types_orc"])
def test_the_golden_type_changes_are_allowed(name: str) -> None:
    directory = WAREHOUSE / "evolve.db" / name / "schema"
    first, second = (
        TableSchema.from_json((directory / f"schema-{number}").read_bytes(), path="golden") for number in range(2)
    )
    changes = [C.update_column_type(field.name, field.type) for field in second.fields]
    assert apply_changes(first, changes, has_snapshot=True, time_millis=second.time_millis) == second


NAMING = {  # options that name the column b, and how they look once it is named z
    "sequence.field": ("p,b", "p,z"),
    "rowkind.field": ("b", "z"),
    "record-level.time-field": ("b", "z"),
    "clustering.columns": ("b, p", "z, p"),
    "fields.p.sequence-group": ("r,b", "r,z"),
    "partial-update.remove-record-on-sequence-group": ("b", "z"),
}
OF_COLUMN = [
    "aggregate-function",
    "ignore-retract",
    "distinct",
    "list-agg-delimiter",
    "nested-key",
    "nested-sequence-field",
    "count-limit",
    "ts-field",
    "stats-mode",
]


@pytest.mark.parametrize("key", NAMING)
def test_options_follow_the_name_of_a_column_that_they_list(key: str) -> None:
    before, after = NAMING[key]
    schema = replace(table(key="a"), options={key: before})
    assert evolved(schema, C.rename_column("b", "z")).options == {key: after}
    with pytest.raises(InvalidInputError, match="cannot be dropped") as caught:
        evolved(schema, C.drop_column("b"))
    assert (caught.value.column, caught.value.option) == ("b", key)
    assert evolved(schema, C.drop_column("b"), C.remove_option(key), has_snapshot=False).options == {}


@pytest.mark.parametrize("what", OF_COLUMN)
def test_options_of_one_column_follow_its_name(what: str) -> None:
    schema = replace(table(key="a"), options={f"fields.items.{what}": "x"})
    assert evolved(schema, C.rename_column("items", "z")).options == {f"fields.z.{what}": "x"}
    with pytest.raises(InvalidInputError, match=f"'fields.items.{what}' names it"):
        evolved(schema, C.drop_column("items"))


def test_a_sequence_group_follows_its_fields() -> None:
    schema = replace(table(key="a"), options={"fields.b,p.sequence-group": "r,items"})
    assert evolved(schema, C.rename_column("p", "z")).options == {"fields.b,z.sequence-group": "r,items"}
    for column in ("b", "p", "r", "items"):
        with pytest.raises(InvalidInputError, match="cannot be dropped"):
            evolved(schema, C.drop_column(column))


@pytest.mark.parametrize(
    ("column", "part", "what"),
    [("items", "element", "nested-key"), ("items", "element", "nested-sequence-field"), ("m", "value", "ts-field")],
)
def test_options_follow_the_fields_inside_a_column(column: str, part: str, what: str) -> None:
    schema = replace(table(key="a"), options={f"fields.{column}.{what}": "y"})
    assert evolved(schema, C.rename_column([column, part, "y"], "z")).options == {f"fields.{column}.{what}": "z"}
    assert evolved(schema, C.rename_column([column, part, "x"], "z")).options == schema.options
    assert evolved(schema, C.rename_column(["r", "y"], "z")).options == schema.options
    with pytest.raises(InvalidInputError, match=f"'{column}.y' cannot be dropped: the option 'fields.{column}.{what}'"):
        evolved(schema, C.drop_column([column, part, "y"]))
    evolved(schema, C.drop_column([column, part, "x"]))


def test_a_renamed_column_keeps_its_id_and_keys_and_options_follow() -> None:
    schema = table(
        key="a",
        bucket=1,
        bucket_key="a",
        sequence__field="b,p",
        fields__b__aggregate_function="max",
        fields__ab__nonsense="1",
        merge_engine="partial-update",
        file_index__bloom_filter__columns="b,p",
        file_index__bloom_filter__b__items="50",
    )
    schema = replace(schema, options={**schema.options, "fields.b,p.sequence-group": "blob,b"})
    renamed = evolved(schema, C.rename_column("a", "k"), C.rename_column("b", "z"))
    assert renamed.primary_keys == renamed.bucket_keys == ("k",)
    assert renamed.field("k").id == schema.field("a").id
    assert renamed.options == {
        "bucket": "1",
        "bucket-key": "k",
        "sequence.field": "z,p",
        "fields.z.aggregate-function": "max",
        "fields.ab.nonsense": "1",
        "merge-engine": "partial-update",
        "file-index.bloom-filter.columns": "z,p",
        "file-index.bloom-filter.z.items": "50",
        "fields.z,p.sequence-group": "blob,z",
    }


def test_nullability_is_changed_alone_or_with_the_type() -> None:
    schema = evolved(table(), C.set_option("alter-column-null-to-not-null.disabled", "false"))
    strict = evolved(schema, C.update_column_nullability("b", new_nullability=False))
    assert strict.field("b").type == AtomicType("STRING", nullable=False)
    kept = evolved(strict, C.update_column_type("b", AtomicType("INT"), keep_nullability=True))
    assert kept.field("b").type == AtomicType("INT", nullable=False)
    assert evolved(strict, C.update_column_nullability("b", new_nullability=True)).field("b").type == STRING


def test_default_values_and_comments_are_set_and_removed() -> None:
    schema = evolved(table(), C.update_column_default_value("a", "7"), C.update_column_comment("a", "what"))
    assert (schema.field("a").default_value, schema.field("a").description) == ("7", "what")
    back = evolved(schema, C.update_column_default_value("a", None), C.update_column_comment("a", None))
    assert back.field("a") == table().field("a")


def test_the_primary_key_of_an_empty_table_can_be_dropped() -> None:
    dropped = evolved(table(key="a"), C.drop_primary_key(), has_snapshot=False)
    assert dropped.primary_keys == ()
    with pytest.raises(InvalidInputError, match="never written"):
        evolved(table(key="a"), C.drop_primary_key())


# What does not

REFUSALS: dict[str, tuple[dict[str, Any], SchemaChange, type[LakewrightError]]] = {
    "add an existing column": ({}, C.add_column("a", INT), ColumnAlreadyExistException),
    "add an existing nested field": ({}, C.add_column(["r", "x"], INT), ColumnAlreadyExistException),
    "add NOT NULL": ({}, C.add_column("n", AtomicType("INT", nullable=False)), InvalidInputError),
    "add a blank name": ({}, C.add_column(" ", INT), InvalidInputError),
    "add a system name": ({}, C.add_column("_ROW_ID", INT), InvalidInputError),
    "add below a scalar": ({}, C.add_column(["a", "x"], INT), ColumnNotExistException),
    "add below nothing": ({}, C.add_column(["zz", "x"], INT), ColumnNotExistException),
    "add beside an element": ({}, C.add_column(["numbers", "x"], INT), InvalidInputError),
    "add after nothing": ({}, C.add_column("n", INT, move=Move.after("n", "zz")), ColumnNotExistException),
    "add with the move of another": ({}, C.add_column("n", INT, move=Move.first("a")), InvalidInputError),
    "drop nothing": ({}, C.drop_column("zz"), ColumnNotExistException),
    "drop a nested nothing": ({}, C.drop_column(["items", "x"]), ColumnNotExistException),
    "drop an element": ({}, C.drop_column(["numbers", "element"]), InvalidInputError),
    "drop a partition key": ({"partition": "p"}, C.drop_column("p"), InvalidInputError),
    "drop a primary key": ({"key": "a"}, C.drop_column("a"), InvalidInputError),
    "drop a bucket key": ({"bucket": 1, "bucket_key": "a"}, C.drop_column("a"), InvalidInputError),
    "drop a sequence field": ({"key": "a", "sequence__field": "b"}, C.drop_column("b"), InvalidInputError),
    "drop a column with options": ({"fields__b__stats_mode": "none"}, C.drop_column("b"), InvalidInputError),
    "rename nothing": ({}, C.rename_column("zz", "y"), ColumnNotExistException),
    "rename to a taken name": ({}, C.rename_column("a", "b"), ColumnAlreadyExistException),
    "rename to a system name": ({}, C.rename_column("a", "_KEY_a"), InvalidInputError),
    "rename to a blank": ({}, C.rename_column("a", ""), InvalidInputError),
    "rename a partition key": ({"partition": "p"}, C.rename_column("p", "q"), InvalidInputError),
    "rename a blob": ({}, C.rename_column("blob", "bb"), InvalidInputError),
    "rename an element": ({}, C.rename_column(["numbers", "element"], "e"), InvalidInputError),
    "retype nothing": ({}, C.update_column_type("zz", INT), ColumnNotExistException),
    "retype a partition key": ({"partition": "p"}, C.update_column_type("p", BIGINT), InvalidInputError),
    "retype a primary key": ({"key": "a"}, C.update_column_type("a", BIGINT), InvalidInputError),
    "retype a bucket key": ({"bucket": 1, "bucket_key": "a"}, C.update_column_type("a", BIGINT), InvalidInputError),
    "retype without a cast": ({}, C.update_column_type("a", AtomicType("DATE")), InvalidInputError),
    "retype a blob": ({}, C.update_column_type("blob", AtomicType("BYTES")), InvalidInputError),
    "retype to a blob": ({}, C.update_column_type("b", AtomicType("BLOB")), InvalidInputError),
    "retype a row": ({}, C.update_column_type("r", INT), InvalidInputError),
    "retype to NOT NULL": ({}, C.update_column_type("a", AtomicType("BIGINT", nullable=False)), InvalidInputError),
    "retype explicitly where forbidden": (
        {"disable_explicit_type_casting": True},
        C.update_column_type("b", INT),
        InvalidInputError,
    ),
    "to NOT NULL": ({}, C.update_column_nullability("a", new_nullability=False), InvalidInputError),
    "key to nullable": (
        {"key": "a"},
        C.update_column_nullability("a", new_nullability=True),
        InvalidInputError,
    ),
    "comment nothing": ({}, C.update_column_comment("zz", "c"), ColumnNotExistException),
    "a default of another type": ({}, C.update_column_default_value("a", "many"), InvalidInputError),
    "a default inside": ({}, C.update_column_default_value(["r", "x"], "1"), InvalidInputError),
    "move nothing": ({}, C.update_column_position(Move.first("zz")), ColumnNotExistException),
    "move after nothing": ({}, C.update_column_position(Move.after("a", "zz")), ColumnNotExistException),
    "move after itself": ({}, C.update_column_position(Move.after("a", "a")), InvalidInputError),
    "a bad option value": ({}, C.set_option("write-only", "perhaps"), InvalidInputError),
    "path": ({}, C.set_option("path", "/x"), InvalidInputError),
    "type": ({}, C.set_option("type", "format-table"), InvalidInputError),
    "primary-key": ({}, C.set_option("primary-key", "a"), InvalidInputError),
    "partition": ({}, C.remove_option("partition"), InvalidInputError),
    "bucket from -1": ({}, C.set_option("bucket", 2), InvalidInputError),
    "bucket to -1": ({"key": "a", "bucket": 2}, C.remove_option("bucket"), InvalidInputError),
    "bucket to 0": ({"key": "a", "bucket": 2}, C.set_option("bucket", 0), InvalidInputError),
    "merge engine": ({"key": "a"}, C.set_option("merge-engine", "first-row"), InvalidInputError),
    "lookup of sums": (
        {"key": "a", "merge_engine": "aggregation"},
        C.set_option("changelog-producer", "lookup"),
        InvalidInputError,
    ),
    "no more lookup of sums": (
        {"key": "a", "merge_engine": "aggregation", "changelog_producer": "lookup"},
        C.remove_option("changelog-producer"),
        InvalidInputError,
    ),
    "row tracking": ({}, C.set_option("row-tracking.enabled", "true"), InvalidInputError),
    "data directory": ({}, C.set_option("data-file.path-directory", "d"), InvalidInputError),
    "bucket function": (
        {"key": "a", "bucket": 1},
        C.set_option("bucket-function.type", "mod"),
        InvalidInputError,
    ),
    "deletion vectors": ({}, C.set_option("deletion-vectors.enabled", True), InvalidInputError),  # noqa: FBT003
    "ignore-delete off": ({"key": "a", "ignore_delete": True}, C.remove_option("ignore-delete"), InvalidInputError),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_impossible_changes_are_refused(case: str) -> None:
    arguments, change, kind = REFUSALS[case]
    with pytest.raises(kind):
        evolved(table(**arguments), change)


def test_the_only_column_cannot_be_dropped() -> None:
    lone = new_table_schema(Schema([DataField(0, "a", INT)]), time_millis=0)
    with pytest.raises(InvalidInputError, match="only"):
        evolved(lone, C.drop_column("a"))


def test_the_message_names_the_nested_column_and_its_neighbours() -> None:
    with pytest.raises(ColumnNotExistException, match=r"'items\.element\.xy'.*did you mean"):
        evolved(table(), C.drop_column(["items", "element", "xy"]))


def test_paths_must_be_texts() -> None:
    with pytest.raises(InvalidInputError):
        C.drop_column([])
    with pytest.raises(InvalidInputError, match="not a change"):
        apply_changes(table(), [C()], has_snapshot=False, time_millis=0)


# Options that may change


@pytest.mark.parametrize(
    ("arguments", "change", "has_snapshot"),
    [
        ({"key": "a", "bucket": 2}, C.set_option("bucket", 3), True),
        ({"key": "a"}, C.set_option("bucket", 3), False),
        ({"key": "a"}, C.set_option("merge-engine", "first-row"), False),
        ({"key": "a"}, C.set_option("merge-engine", "deduplicate"), True),
        ({"key": "a"}, C.set_option("changelog-producer", "lookup"), True),
        ({"deletion_vectors__modifiable": True}, C.set_option("deletion-vectors.enabled", "true"), True),
        ({"key": "a"}, C.set_option("ignore-delete", "true"), True),
        ({}, C.set_option("some.option.of.others", "x"), True),
        ({}, C.set_option("file.format", "orc"), True),
    ],
)
def test_options_that_may_change(arguments: dict[str, Any], change: SchemaChange, has_snapshot: bool) -> None:
    before = table(**arguments)
    after = evolved(before, change, has_snapshot=has_snapshot)
    assert after.options != before.options


def test_a_table_becomes_bucketed_before_its_first_write() -> None:
    changed = evolved(table(), C.set_option("bucket", 2), C.set_option("bucket-key", "a"), has_snapshot=False)
    assert changed.bucket_keys == ("a",)


# Casts


@pytest.mark.parametrize(
    ("source", "target", "cast"),
    [
        ("TINYINT", "BIGINT", Cast.IMPLICIT),
        ("BIGINT", "TINYINT", Cast.EXPLICIT),
        ("BIGINT", "FLOAT", Cast.IMPLICIT),
        ("DOUBLE", "FLOAT", Cast.EXPLICIT),
        ("FLOAT", "DECIMAL(10, 2)", Cast.IMPLICIT),
        ("DECIMAL(10, 2)", "DECIMAL(8, 1)", Cast.IMPLICIT),
        ("CHAR(2)", "STRING", Cast.IMPLICIT),
        ("STRING", "CHAR(2)", Cast.EXPLICIT),
        ("STRING", "DATE", Cast.EXPLICIT),
        ("BINARY(2)", "BYTES", Cast.IMPLICIT),
        ("BYTES", "STRING", Cast.EXPLICIT),
        ("BYTES", "INT", Cast.IMPOSSIBLE),
        ("TIMESTAMP(3)", "DATE", Cast.IMPLICIT),
        ("DATE", "TIMESTAMP(3)", Cast.EXPLICIT),
        ("TIMESTAMP(3)", "TIMESTAMP(6) WITH LOCAL TIME ZONE", Cast.IMPLICIT),
        ("TIMESTAMP(3)", "BIGINT", Cast.EXPLICIT),
        ("DATE", "INT", Cast.IMPOSSIBLE),
        ("INT", "DATE", Cast.IMPOSSIBLE),
        ("BOOLEAN", "INT", Cast.EXPLICIT),
        ("BOOLEAN", "DATE", Cast.IMPOSSIBLE),
        ("VARIANT", "STRING", Cast.IMPOSSIBLE),
        ("INT ARRAY", "BIGINT ARRAY", Cast.IMPOSSIBLE),
        ("INT ARRAY NOT NULL", "INT ARRAY", Cast.IMPLICIT),
    ],
)
def test_the_cast_between_two_types(source: str, target: str, cast: Cast) -> None:
    assert cast_between(parse_type(source), parse_type(target)) is cast


# Any sequence of changes


NAMES = st.sampled_from(["a", "b", "c", "d", "e"])
ANY_CHANGE = st.one_of(
    st.builds(C.add_column, NAMES, st.sampled_from([INT, STRING, nested(DataField(0, "q", INT))])),
    st.builds(C.drop_column, NAMES),
    st.builds(C.rename_column, NAMES, NAMES),
    st.builds(C.update_column_type, NAMES, st.sampled_from([INT, BIGINT, STRING])),
    st.builds(lambda a, b: C.update_column_position(Move.after(a, b)), NAMES, NAMES),
)


@settings(max_examples=examples(200), derandomize=True)
@given(st.lists(ANY_CHANGE, max_size=12))
def test_ids_are_never_used_twice(changes: list[SchemaChange]) -> None:
    schema = table()
    owners = {field.id: "first" for field in all_fields(schema.fields)}
    for step, change in enumerate(changes):
        try:
            changed = evolved(schema, change)
        except LakewrightError:
            continue
        ids = [field.id for field in all_fields(changed.fields)]
        assert len(ids) == len(set(ids))
        before = {field.id for field in all_fields(schema.fields)}
        for number in set(ids) - before:
            assert number not in owners
            owners[number] = f"step {step}"
        assert changed.highest_field_id >= max(owners)
        schema = changed
