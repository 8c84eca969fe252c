"""What options of partial-update and aggregation tables are refused, with the column, the option and the remedy."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap

from lakewright.errors import CorruptTableError, InvalidInputError, LakewrightError, UnsupportedError
from lakewright.lsm.merge_rows import MergeRules, check_merging
from lakewright.spec.table_schema import TableSchema
from lakewright.spec.types import JSON, DataField, parse_type

ROWS: JSON = {"type": "ARRAY", "element": {"type": "ROW", "fields": [{"id": 20, "name": "id", "type": "INT"}]}}
TIMES: JSON = {
    "type": "MAP",
    "key": "INT",
    "value": {
        "type": "ROW",
        "fields": [{"id": 21, "name": "v", "type": "STRING"}, {"id": 22, "name": "t", "type": "INT"}],
    },
}
COLUMNS: dict[str, JSON] = {
    "k": "INT NOT NULL",
    "g": "INT",
    "h": "INT",
    "a": "INT",
    "s": "STRING",
    "short": "VARCHAR(5)",
    "b": "BOOLEAN",
    "r": ROWS,
    "m": TIMES,
    "z": "VARBINARY(9)",
}
AGGREGATION = {"merge-engine": "aggregation"}
PARTIAL = {"merge-engine": "partial-update"}
REMOVE = "partial-update.remove-record-on-delete"
REMOVE_GROUP = "partial-update.remove-record-on-sequence-group"


def schema_of(options: dict[str, str]) -> TableSchema:
    fields = tuple(DataField(n, name, parse_type(kind)) for n, (name, kind) in enumerate(COLUMNS.items()))
    return TableSchema(0, fields, 30, (), ("k",), {"bucket": "1", **options})


def function(column: str, name: str, **more: str) -> dict[str, str]:
    options = {"aggregate-function": name, **{key.replace("_", "-"): value for key, value in more.items()}}
    return {f"fields.{column}.{key}": value for key, value in options.items()}


@pytest.mark.parametrize(
    ("options", "kind", "facts", "words"),
    [
        (AGGREGATION | function("a", "nope"), UnsupportedError, {"column": "a"}, "unknown function 'nope'"),
        (AGGREGATION | function("z", "hll_sketch"), UnsupportedError, {"column": "z"}, "hll_sketch"),
        (AGGREGATION | function("z", "theta_sketch"), UnsupportedError, {"column": "z"}, "theta_sketch"),
        (AGGREGATION | function("z", "rbm64"), UnsupportedError, {"column": "z"}, "rbm64"),
        (AGGREGATION | function("s", "sum"), InvalidInputError, {"column": "s"}, "needs a number"),
        (AGGREGATION | function("b", "max"), InvalidInputError, {"column": "b"}, "has an order"),
        (AGGREGATION | function("short", "listagg"), InvalidInputError, {"column": "short"}, "needs a STRING"),
        (AGGREGATION | function("a", "bool_or"), InvalidInputError, {"column": "a"}, "needs a BOOLEAN"),
        (AGGREGATION | function("a", "collect"), InvalidInputError, {"column": "a"}, "needs an ARRAY"),
        (AGGREGATION | function("r", "merge_map"), InvalidInputError, {"column": "r"}, "needs a MAP"),
        (AGGREGATION | function("a", "rbm32"), InvalidInputError, {"column": "a"}, "needs a VARBINARY"),
        (AGGREGATION | function("r", "nested_partial_update"), InvalidInputError, {"column": "r"}, "nested-key"),
        (
            AGGREGATION | function("r", "nested_update", nested_key="no"),
            InvalidInputError,
            {"option": "fields.r.nested-key"},
            "names 'no'",
        ),
        (
            AGGREGATION | function("r", "nested_update", nested_sequence_field="id"),
            InvalidInputError,
            {"option": "fields.r.nested-sequence-field"},
            "nested-key",
        ),
        (
            AGGREGATION | function("m", "merge_map_with_keytime"),
            InvalidInputError,
            {"option": "fields.m.ts-field"},
            "must name a STRING",
        ),
        (
            AGGREGATION | function("a", "max", ignore_retract="maybe"),
            InvalidInputError,
            {"option": "fields.a.ignore-retract"},
            "true or false",
        ),
        (
            AGGREGATION | function("s", "listagg", distinct="true", list_agg_delimiter=""),
            InvalidInputError,
            {"option": "fields.s.list-agg-delimiter"},
            "empty",
        ),
        (
            AGGREGATION | {"aggregation.remove-record-on-delete": "true"} | function("a", "max", ignore_retract="true"),
            InvalidInputError,
            {"option": "aggregation.remove-record-on-delete"},
            "remove one of them",
        ),
        (
            AGGREGATION | {"fields.default-aggregate-function": "sum"},
            InvalidInputError,
            {"column": "s"},
            "needs a number",
        ),
        (PARTIAL | function("a", "sum"), InvalidInputError, {"column": "a"}, "no sequence group"),
        (PARTIAL | function("a", "last_value"), InvalidInputError, {"column": "a"}, "no sequence group"),
        (
            PARTIAL | {"fields.g.sequence-group": "a", "fields.h.sequence-group": "a"},
            InvalidInputError,
            {"column": "a"},
            "two sequence groups",
        ),
        (PARTIAL | {"fields.g.sequence-group": "no"}, InvalidInputError, {"column": "no"}, "no such column"),
        (PARTIAL | {"fields.g,no.sequence-group": "a"}, InvalidInputError, {"column": "no"}, "no such column"),
        (PARTIAL | {REMOVE: "true", "ignore-delete": "true"}, InvalidInputError, {"option": REMOVE}, "ignore-delete"),
        (
            PARTIAL | {REMOVE_GROUP: "g", "fields.g.sequence-group": "a", "ignore-delete": "true"},
            InvalidInputError,
            {"option": REMOVE_GROUP},
            "ignore-delete",
        ),
        (
            PARTIAL | {REMOVE: "true", "fields.g.sequence-group": "a"},
            InvalidInputError,
            {"option": REMOVE},
            REMOVE_GROUP,
        ),
        (
            PARTIAL | {REMOVE_GROUP: "a", "fields.g.sequence-group": "a"},
            InvalidInputError,
            {"option": REMOVE_GROUP, "column": "a"},
            "no sequence field",
        ),
    ],
)
def test_what_cannot_work_is_refused(
    options: dict[str, str], kind: type[LakewrightError], facts: dict[str, str], words: str
) -> None:
    schema = schema_of(options)
    with pytest.raises(kind, match=words) as refused:
        MergeRules.of_schema(schema)
    assert {name: getattr(refused.value, name) for name in facts} == facts
    with pytest.raises(kind):
        check_merging(schema)


@pytest.mark.parametrize(
    ("options", "column"),
    [
        (AGGREGATION | function("k", "sum"), "k"),
        (AGGREGATION | function("g", "max") | {"sequence.field": "g"}, "g"),
        (PARTIAL | function("k", "sum"), "k"),
        (PARTIAL | function("g", "sum") | {"fields.g.sequence-group": "a"}, "g"),
    ],
)
def test_what_does_nothing_is_read_but_refused_for_new_tables(options: dict[str, str], column: str) -> None:
    schema = schema_of(options)
    MergeRules.of_schema(schema)
    with pytest.raises(InvalidInputError, match="takes no function") as refused:
        check_merging(schema)
    assert refused.value.column == column


def test_what_works_is_not_refused() -> None:
    check_merging(schema_of({}))
    check_merging(schema_of(AGGREGATION | function("a", "sum") | function("r", "nested_update", nested_key="id")))
    check_merging(schema_of(PARTIAL | {"fields.g,h.sequence-group": "a,s"} | function("a", "sum")))
    check_merging(schema_of(PARTIAL | function("a", "last_non_null_value")))


def test_a_projection_keeps_the_sequence_fields_that_decide() -> None:
    groups = {"fields.g.sequence-group": "a", "fields.h.sequence-group": "s"}
    assert MergeRules.of_schema(schema_of(PARTIAL | groups)).needed_columns(["a"]) == ("k", "g", "a")
    removing = MergeRules.of_schema(schema_of(PARTIAL | groups | {REMOVE_GROUP: "h"}))
    assert removing.needed_columns(["b"]) == ("k", "h", "b")
    assert MergeRules.of_schema(schema_of(AGGREGATION)).needed_columns(["b"]) == ("k", "b")


def keyed(kinds: list[int], **columns: list[object]) -> pa.Table:
    schema = schema_of({}).arrow_schema
    return pa.table(
        {
            "_SEQUENCE_NUMBER": pa.array(range(len(kinds)), pa.int64()),
            "_VALUE_KIND": pa.array(kinds, pa.int8()),
            **{name: pa.array(values, schema.field(name).type) for name, values in columns.items()},
        }
    )


def test_a_projected_merge_gives_what_the_whole_one_gives() -> None:
    options = {"fields.g.sequence-group": "a", "fields.h.sequence-group": "s", REMOVE_GROUP: "h"}
    spec = MergeRules.of_schema(schema_of(PARTIAL | options))
    rows = keyed([0, 3, 0], k=[1, 1, 1], g=[1, 2, 1], h=[1, 1, None], a=[1, 2, 3], s=["x", "y", "z"])
    whole = spec.fold(rows)
    part = spec.fold(rows.select(["_SEQUENCE_NUMBER", "_VALUE_KIND", *spec.needed_columns(["a"])]))
    assert whole["a"].to_pylist() == part["a"].to_pylist() == [2]
    assert whole["_VALUE_KIND"].to_pylist() == part["_VALUE_KIND"].to_pylist() == [0]


@pytest.mark.parametrize("name", ["max", "min", "first_value", "first_non_null_value"])
def test_a_retract_that_cannot_be_taken_back_names_column_and_remedy(name: str) -> None:
    spec = MergeRules.of_schema(schema_of(AGGREGATION | function("a", name)))
    rows = keyed([0, 3], k=[1, 1], a=[1, 1])
    with pytest.raises(InvalidInputError, match=r"'fields\.a\.ignore-retract' = true") as refused:
        spec.fold(rows)
    assert refused.value.column == "a"
    ignoring = MergeRules.of_schema(schema_of(AGGREGATION | function("a", name, ignore_retract="true")))
    assert ignoring.fold(rows)["a"].to_pylist() == [1]


def test_a_delete_of_a_partial_update_names_the_remedies() -> None:
    spec = MergeRules.of_schema(schema_of(PARTIAL))
    with pytest.raises(InvalidInputError, match=r"ignore-delete.*remove-record-on-delete.*sequence groups"):
        spec.fold(keyed([0, 3], k=[1, 1], a=[1, None]))


def test_a_key_with_one_row_never_meets_the_engine() -> None:
    spec = MergeRules.of_schema(schema_of(PARTIAL))
    assert spec.fold(keyed([3], k=[1], a=[1]))["_VALUE_KIND"].to_pylist() == [3]


def test_a_not_null_column_must_have_a_value() -> None:
    fields = (DataField(0, "k", parse_type("INT NOT NULL")), DataField(1, "a", parse_type("INT NOT NULL")))
    spec = MergeRules.of_schema(TableSchema(0, fields, 1, (), ("k",), {"bucket": "1", **PARTIAL}))
    with pytest.raises(InvalidInputError, match="'a' is NOT NULL"):
        spec.fold(keyed([0, 0], k=[1, 1], a=[None, None]))


def test_bitmaps_are_united() -> None:
    spec = MergeRules.of_schema(schema_of(AGGREGATION | function("z", "rbm32")))
    cells: list[object] = [BitMap([1, 2]).serialize(), None, BitMap([2, 70_000]).serialize()]
    (united,) = spec.fold(keyed([0, 0, 0], k=[1, 1, 1], z=cells))["z"].to_pylist()
    assert BitMap.deserialize(united) == BitMap([1, 2, 70_000])
    with pytest.raises(CorruptTableError, match="no bitmap"):
        spec.fold(keyed([0, 0], k=[1, 1], z=[b"nonsense", b"more"]))


def test_one_key_with_very_many_rows_among_others() -> None:
    count = 100_000
    options = {"fields.g.sequence-group": "a,s,r", **function("a", "sum"), **function("r", "collect")}
    spec = MergeRules.of_schema(schema_of(PARTIAL | options))
    keys = np.append(np.zeros(count, np.int32), np.arange(1, 1001, dtype=np.int32))
    rows = pa.table(
        {
            "_SEQUENCE_NUMBER": pa.array(np.arange(len(keys))),
            "_VALUE_KIND": pa.array(np.zeros(len(keys), np.int8)),
            "k": pa.array(keys),
            "g": pa.array(np.arange(len(keys), dtype=np.int32)[::-1]),
            "a": pa.array(np.ones(len(keys), np.int32)),
        }
    )
    out = spec.fold(rows)
    assert out["a"].to_pylist() == [count] + [1] * 1000
    assert out["g"][0].as_py() == len(keys) - 1
