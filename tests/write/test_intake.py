"""What a primary-key table takes in: kinds from one source, keys that can be found again, deletes by key alone."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from lakewright.errors import InvalidInputError
from lakewright.spec.arrow_types import to_arrow_schema
from lakewright.spec.schema import Schema, new_table_schema
from lakewright.spec.table_schema import TableSchema
from lakewright.spec.types import ArrayType, AtomicType, DataField, DataType, MapType, RowType
from lakewright.write.row_intake import GivenKinds, Intake, KeyedIntake

COLUMNS = pa.schema({"k": pa.int64(), "f": pa.float64(), "v": pa.string()})


def schema_of(columns: pa.Schema = COLUMNS, keys: tuple[str, ...] = ("k",), **options: object) -> TableSchema:
    stored = {name.replace("__", ".").replace("_", "-"): value for name, value in options.items()}
    wish = Schema.from_pyarrow_schema(columns, primary_keys=list(keys), options={"bucket": 1, **stored})
    return new_table_schema(wish, time_millis=1)


def take(schema: TableSchema, data: pa.Table, given: object = None, **more: Any) -> pa.Table:  # noqa: ANN401
    intake = KeyedIntake(schema, table="t", write_cols=None, **more)
    return intake.take(data, None if given is None else GivenKinds(given, table="t"), first_row=0)  # type: ignore[arg-type]


def test_rows_are_inserts_where_nobody_says_otherwise() -> None:
    rows = take(schema_of(), pa.table({"v": ["a"], "k": [1]}))
    assert rows.column_names == ["_VALUE_KIND", "k", "f", "v"]
    assert rows.to_pylist() == [{"_VALUE_KIND": 0, "k": 1, "f": None, "v": "a"}]


def test_kinds_come_from_an_argument_a_column_or_the_table() -> None:
    plain = pa.table({"k": [1, 2], "v": ["a", "b"]})
    assert take(schema_of(), plain, "-D")["_VALUE_KIND"].to_pylist() == [3, 3]
    assert take(schema_of(), plain, [0, 2])["_VALUE_KIND"].to_pylist() == [0, 2]
    with_column = plain.append_column("_row_kind", pa.array(["-U", "+U"]))
    assert take(schema_of(), with_column)["_VALUE_KIND"].to_pylist() == [1, 2]
    assert "_row_kind" not in take(schema_of(), with_column).column_names
    schema = schema_of(rowkind__field="v")
    assert take(schema, pa.table({"k": [1], "v": ["-D"]})).to_pylist()[0] == {
        "_VALUE_KIND": 3,
        "k": 1,
        "f": None,
        "v": "-D",
    }
    with pytest.raises(InvalidInputError, match="'v' says None in row 1"):
        take(schema, pa.table({"k": [1, 2], "v": ["+I", None]}))


def test_row_kinds_given_in_two_ways_are_refused() -> None:
    with_column = pa.table({"k": [1], "v": ["+I"], "row_kind": ["-U"]})
    for schema, data, given in [
        (schema_of(), with_column, "+I"),
        (schema_of(rowkind__field="v"), with_column, None),
        (schema_of(rowkind__field="v"), with_column.drop_columns(["row_kind"]), "+I"),
    ]:
        with pytest.raises(InvalidInputError, match="said twice"):
            take(schema, data, given)


def test_a_table_with_such_a_column_keeps_it_as_data() -> None:
    schema = schema_of(pa.schema({"k": pa.int64(), "row_kind": pa.string()}))
    assert take(schema, pa.table({"k": [1], "row_kind": ["-D"]})).to_pylist() == [
        {"_VALUE_KIND": 0, "k": 1, "row_kind": "-D"}
    ]


def test_ignored_kinds_do_not_come_in() -> None:
    data = pa.table({"k": [1, 2, 3, 4], "_row_kind": ["+I", "-U", "+U", "-D"]})
    assert take(schema_of(ignore_delete="true"), data)["k"].to_pylist() == [1, 3]
    assert take(schema_of(ignore_update_before="true"), data)["k"].to_pylist() == [1, 3, 4]


def test_a_key_is_not_null() -> None:
    with pytest.raises(InvalidInputError, match="'k'") as caught:
        take(schema_of(), pa.table({"k": [1, 2, None]}))
    assert caught.value.row == 2
    loose = new_table_schema(
        Schema.from_pyarrow_schema(COLUMNS, primary_keys=["k"], options={"bucket": 1, "primary-key.nullable": "true"}),
        time_millis=1,
    )
    assert take(loose, pa.table({"k": [1, None]}))["k"].to_pylist() == [1, None]
    # A schema of another writer may have a key column that is nullable although the option forbids nulls.
    foreign = loose.with_options({"primary-key.nullable": "false"})
    with pytest.raises(InvalidInputError, match="null in row 1"):
        take(foreign, pa.table({"k": [1, None]}))


def test_a_key_is_no_nan() -> None:
    schema = schema_of(keys=("f",))
    assert take(schema, pa.table({"f": [1.0, -0.0, 0.0]})).num_rows == 3
    with pytest.raises(InvalidInputError, match="NaN") as caught:
        take(schema, pa.table({"f": [1.0, float("nan")]}))
    assert (caught.value.column, caught.value.row) == ("f", 1)
    assert take(schema_of(), pa.table({"k": [1], "f": [float("nan")]})).num_rows == 1


def test_nan_cannot_name_a_partition() -> None:
    wish = Schema.from_pyarrow_schema(COLUMNS, partition_keys=["f"])
    intake = Intake(new_table_schema(wish, time_millis=1), wish.fields, table="t", write_cols=None)
    with pytest.raises(InvalidInputError, match="NaN") as caught:
        intake.take(pa.table({"f": [1.0, None, float("nan")]}), None, first_row=10)
    assert (caught.value.column, caught.value.row) == ("f", 12)


NOT_NULL: list[tuple[DataType, object]] = [
    (AtomicType("INT", nullable=False), 0),
    (AtomicType("BOOLEAN", nullable=False), False),
    (AtomicType("DOUBLE", nullable=False), 0.0),
    (AtomicType("DECIMAL(20, 2)", nullable=False), Decimal("0.00")),
    (AtomicType("STRING", nullable=False), ""),
    (AtomicType("CHAR(3)", nullable=False), ""),
    (AtomicType("BINARY(3)", nullable=False), b"\0\0\0"),
    (AtomicType("BYTES", nullable=False), b""),
    (AtomicType("DATE", nullable=False), dt.date(1970, 1, 1)),
    (AtomicType("TIME(3)", nullable=False), dt.time(0)),
    (AtomicType("TIMESTAMP(6)", nullable=False), dt.datetime(1970, 1, 1)),  # noqa: DTZ001
    (ArrayType(False, AtomicType("INT")), []),  # noqa: FBT003
    (MapType(False, AtomicType("STRING", nullable=False), AtomicType("INT")), []),  # noqa: FBT003
    (
        RowType(False, [DataField(90, "x", AtomicType("INT", nullable=False)), DataField(91, "y", AtomicType("INT"))]),  # noqa: FBT003
        {"x": 0, "y": None},
    ),
]


def test_a_delete_needs_the_key_alone() -> None:
    fields = [DataField(0, "k", AtomicType("BIGINT")), DataField(1, "v", AtomicType("STRING"), default_value="d")]
    fields += [DataField(2 + n, f"c{n}", dtype) for n, (dtype, _) in enumerate(NOT_NULL)]
    schema = new_table_schema(Schema(fields, primary_keys=["k"], options={"bucket": "1"}), time_millis=1)
    rows = take(schema, pa.table({"k": [7, 8]}), keys_only=True)
    rows.validate(full=True)
    assert rows.drop_columns(["_VALUE_KIND"]).schema.equals(to_arrow_schema(schema.fields))
    first = rows.to_pylist()[0]
    assert (first["_VALUE_KIND"], first["k"], first["v"]) == (3, 7, None)
    assert [first[f"c{n}"] for n in range(len(NOT_NULL))] == [value for _, value in NOT_NULL]
    more = take(schema, pa.table({"k": [7], "v": ["x"]}), keys_only=True)
    assert more["v"].to_pylist() == ["x"]
    with pytest.raises(InvalidInputError, match="'k'"):
        take(schema, pa.table({"v": ["x"]}), keys_only=True)


def test_a_delete_needs_the_partition_unless_the_key_may_live_in_any() -> None:
    columns = pa.schema({"p": pa.string(), "k": pa.int64()})

    def partitioned(keys: list[str], bucket: int) -> TableSchema:
        wish = Schema.from_pyarrow_schema(columns, ["p"], keys, options={"bucket": bucket})
        return new_table_schema(wish, time_millis=1)

    with pytest.raises(InvalidInputError, match="'p'"):
        take(partitioned(["p", "k"], 1), pa.table({"k": [1]}), keys_only=True)
    assert take(partitioned(["k"], -1), pa.table({"k": [1]}), keys_only=True)["p"].to_pylist() == [None]


def test_a_delete_says_no_kinds_and_fills_the_kind_column_of_the_table() -> None:
    with pytest.raises(InvalidInputError, match="said twice"):
        take(schema_of(), pa.table({"k": [1], "_row_kind": ["-D"]}), keys_only=True)
    schema = schema_of(rowkind__field="v")
    assert take(schema, pa.table({"k": [1]}), keys_only=True)["v"].to_pylist() == ["-D"]


def test_a_delete_on_a_table_that_ignores_deletes_is_nothing() -> None:
    assert take(schema_of(ignore_delete="true"), pa.table({"k": [1]}), keys_only=True).num_rows == 0
