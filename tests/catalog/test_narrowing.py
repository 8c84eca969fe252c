"""A narrower type is refused while a row holds a value that would not stay, unless the loss is asked for."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakewright as lw
from lakewright.errors import InvalidInputError, LakewrightWarning
from lakewright.metadata.schema_files import SchemaFiles
from lakewright.spec.scalars import to_array
from lakewright.spec.schema_evolution import Cast, cast_between, keeps_all_values
from lakewright.spec.table_schema import TableSchema
from lakewright.spec.types import parse_type
from support.values import SCALARS

C = lw.SchemaChange


def _at(*parts: int) -> dt.datetime:
    return dt.datetime(*parts)  # type: ignore[arg-type]  # noqa: DTZ001 - TIMESTAMP has no zone


@pytest.fixture
def catalog(tmp_path: Path) -> lw.Catalog:
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d")
    return catalog


def _made(catalog: lw.Catalog, dtype: str, values: list[Any], **options: object) -> lw.FileStoreTable:
    fields = [lw.DataField(0, "id", lw.AtomicType("INT")), lw.DataField(1, "c", lw.AtomicType(dtype))]
    catalog.create_table("d.t", lw.Schema(fields=fields, options=options))
    table = catalog.get_table("d.t")
    schema = pa.schema([pa.field("id", pa.int32()), table.new_read_builder().new_read().to_arrow().schema.field("c")])
    arrays = [pa.array(range(len(values)), pa.int32()), pa.array(values, schema.field("c").type)]
    lw.write_table(pa.table(arrays, schema=schema), table)
    return table


# (old, new, values that fit, one that does not, what it would read as)
PAIRS: list[tuple[str, str, list[Any], Any, str]] = [
    ("INT", "TINYINT", [-128, 127], 300, "300, which would read as 44"),
    ("BIGINT", "INT", [2**31 - 1, -(2**31)], 2**31, "2147483648, which would read as -2147483648"),
    ("BIGINT", "DECIMAL(4, 1)", [999, -999], 1000, "1000, which would read as null"),
    ("BIGINT", "DOUBLE", [2**53, 2**54], 2**53 + 1, "9007199254740993"),
    ("INT", "FLOAT", [16777216], 16777217, "16777217, which would read as 1.6777216E7"),
    ("INT", "BOOLEAN", [0, 1], 7, "7, which would read as true"),
    ("DOUBLE", "FLOAT", [0.5, float("nan")], 0.1, "0.1, which would read as 0.10000000149011612"),
    ("DOUBLE", "INT", [3.0, -0.0], 3.5, "3.5, which would read as 3"),
    ("DOUBLE", "DECIMAL(4, 2)", [0.25], 0.255, "0.255, which would read as 0.26"),
    ("DECIMAL(6, 2)", "DECIMAL(4, 2)", [Decimal("99.99")], Decimal("100.00"), "100.00, which would read as null"),
    ("DECIMAL(6, 2)", "DECIMAL(6, 1)", [Decimal("1.50")], Decimal("1.55"), "1.55, which would read as 1.6"),
    ("DECIMAL(6, 2)", "INT", [Decimal("1.00")], Decimal("1.01"), "1.01, which would read as 1"),
    ("STRING", "VARCHAR(3)", ["abc", ""], "abcd", "'abcd', which would read as 'abc'"),
    ("VARCHAR(5)", "CHAR(3)", ["abc", "a"], "abcd", "'abcd', which would read as 'abc'"),
    ("BYTES", "VARBINARY(2)", [b"ab"], b"abc", "abc, which would read as ab"),
    ("BYTES", "STRING", [b"ab"], b"\xff", "which would read as"),
    ("INT", "VARCHAR(2)", [10], 100, "100"),
    ("STRING", "INT", ["12", " 7 ", "007"], "12.7", "'12.7', which would read as 12"),
    ("STRING", "TINYINT", ["12"], "300", "'300', which is none of its values"),
    ("STRING", "DOUBLE", ["1.50", "NaN"], "x", "'x', which is none of its values"),
    ("STRING", "DECIMAL(4, 1)", ["1.50"], "1.55", "'1.55', which would read as 1.6"),
    ("STRING", "DATE", ["2026-01-09"], "9 Jan", "'9 Jan', which is none of its values"),
    ("STRING", "BOOLEAN", ["true", "no"], "maybe", "'maybe', which is none of its values"),
    ("STRING", "TIMESTAMP(0)", ["2026-01-09 10:00:00"], "2026-01-09 10:00:00.5", "which would read as"),
    ("TIMESTAMP(6)", "TIMESTAMP(3)", [_at(2026, 1, 9)], _at(2026, 1, 9, 0, 0, 0, 1), "would read as"),
    ("TIMESTAMP(3)", "DATE", [_at(2026, 1, 9)], _at(2026, 1, 9, 1), "which would read as 2026-01-09"),
    ("TIMESTAMP(6)", "TIMESTAMP(9)", [_at(2026, 1, 9)], _at(3000, 1, 1), "none of its values"),
    ("TIMESTAMP(3)", "BIGINT", [_at(2026, 1, 9)], _at(2026, 1, 9, 0, 0, 0, 5000), "1767916800"),
]


@pytest.mark.parametrize(("old", "new", "fitting", "other", "message"), PAIRS, ids=[f"{p[0]}-{p[1]}" for p in PAIRS])
def test_a_narrower_type_holds_every_stored_value(
    catalog: lw.Catalog, old: str, new: str, fitting: list[Any], other: object, message: str
) -> None:
    table = _made(catalog, old, [*fitting, None])
    lw.write_table(pa.table({"id": [9], "c": pa.array([other], lw.read_table(table).schema.field("c").type)}), table)
    before = lw.read_table(table)
    with pytest.raises(InvalidInputError, match="allow_lossy=True") as caught:
        catalog.alter_table("d.t", [C.update_column_type("c", new)])
    assert message in str(caught.value)
    assert "d.t" in str(caught.value)
    assert (caught.value.column, caught.value.count) == ("c", 1)
    assert str(lw.read_table(catalog.get_table("d.t"))) == str(before), "nothing was changed"
    assert catalog.get_table("d.t").schema.id == 0
    table.delete("id = 9")
    table.compact(full=True)
    catalog.alter_table("d.t", [C.update_column_type("c", new)])
    read = lw.read_table(catalog.get_table("d.t"))
    assert read.num_rows == len(fitting) + 1
    assert read["c"].null_count == 1


def test_a_lossy_change_is_made_with_allow_lossy(catalog: lw.Catalog) -> None:
    _made(catalog, "INT", [1, 300])
    catalog.alter_table("d.t", [C.update_column_type("c", "TINYINT", allow_lossy=True)])
    assert lw.read_table(catalog.get_table("d.t"))["c"].to_pylist() == [1, 44]


def test_all_changes_of_one_call_are_looked_at_together(catalog: lw.Catalog) -> None:
    _made(catalog, "INT", [1, 300])
    renamed = [C.update_column_type("c", "TINYINT"), C.rename_column("c", "e")]
    with pytest.raises(InvalidInputError, match="'c' cannot be converted from INT to TINYINT"):
        catalog.alter_table("d.t", renamed)
    by_the_way = [C.update_column_type("c", "STRING"), C.update_column_type("c", "TINYINT")]
    with pytest.raises(InvalidInputError, match="INT to TINYINT"):
        catalog.alter_table("d.t", by_the_way)
    catalog.alter_table("d.t", [C.update_column_type("c", "BIGINT"), C.rename_column("c", "e")])
    assert lw.read_table(catalog.get_table("d.t"))["e"].to_pylist() == [1, 300]


def test_what_statistics_prove_is_not_read(catalog: lw.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    _made(catalog, "BIGINT", list(range(100)))

    def no_reading(*_: object) -> None:
        pytest.fail("a file was read though its statistics prove that all values fit")

    monkeypatch.setattr("lakewright.read.table_read.units_of", no_reading)
    catalog.alter_table("d.t", [C.update_column_type("c", "SMALLINT")])
    assert str(catalog.get_table("d.t").fields[1].type) == "SMALLINT"


def test_nested_fields_are_checked_too(catalog: lw.Catalog) -> None:
    inner = pa.struct([("x", pa.int64()), ("y", pa.list_(pa.int32())), ("z", pa.map_(pa.string(), pa.int32()))])
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(pa.schema([("r", inner)])))
    table = catalog.get_table("d.t")
    rows = [None, {"x": 1, "y": [1, None], "z": [("k", 7)]}, {"x": 2**40, "y": [5, 300], "z": [("a", 1), ("b", 40000)]}]
    lw.write_table(pa.table({"r": pa.array(rows, inner)}), table)
    for path, new, shown in (
        (["r", "x"], "INT", "r.x"),
        (["r", "y", "element"], "TINYINT", "r.y.element"),
        (["r", "z", "value"], "SMALLINT", "r.z.value"),
    ):
        with pytest.raises(InvalidInputError, match=f"'{shown}' cannot be converted"):
            catalog.alter_table("d.t", [C.update_column_type(path, new)])
        catalog.alter_table("d.t", [C.update_column_type(path, new, allow_lossy=True)])
    assert lw.read_table(catalog.get_table("d.t"))["r"].to_pylist()[2]["y"] == [5, 44]


@pytest.mark.parametrize("nested", [False, True])
def test_a_column_with_nulls_cannot_become_not_null(catalog: lw.Catalog, nested: bool) -> None:
    options = {"alter-column-null-to-not-null.disabled": "false"}
    inner = pa.struct([("x", pa.int64())])
    columns = pa.schema([("id", pa.int64()), ("c", inner if nested else pa.int64())])
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(columns, options=options))
    table = catalog.get_table("d.t")
    rows = pa.table([[1, 2, 3], pa.array([{"x": 5}, {"x": None}, None] if nested else [5, None, 6])], schema=columns)
    lw.write_table(rows, table)
    path = ["c", "x"] if nested else "c"
    for change in (
        C.update_column_nullability(path, False),  # noqa: FBT003 - pypaimon's signature
        C.update_column_type(path, lw.AtomicType("INT", nullable=False), allow_lossy=True),
    ):
        with pytest.raises(InvalidInputError, match="1 value of it is null"):
            catalog.alter_table("d.t", [change])
    table.delete("id = 2")
    catalog.alter_table("d.t", [C.update_column_nullability(path, False)])  # noqa: FBT003


def test_only_merged_rows_count(catalog: lw.Catalog) -> None:
    columns = pa.schema([pa.field("id", pa.int64(), nullable=False), ("c", pa.int32())])
    schema = lw.Schema.from_pyarrow_schema(columns, primary_keys=["id"], options={"bucket": 1})
    catalog.create_table("d.t", schema)
    table = catalog.get_table("d.t")
    lw.write_table(pa.table({"id": [1, 2], "c": pa.array([300, 5], pa.int32())}), table)
    with pytest.raises(InvalidInputError, match="300, which would read as 44"):
        catalog.alter_table("d.t", [C.update_column_type("c", "TINYINT")])
    lw.write_table(pa.table({"id": [1], "c": pa.array([30], pa.int32())}), table)
    catalog.alter_table("d.t", [C.update_column_type("c", "TINYINT")])
    assert lw.read_table(catalog.get_table("d.t"))["c"].to_pylist() == [30, 5]


@pytest.mark.parametrize("bucket", [-2, 1])
def test_rows_that_no_batch_read_sees_count(catalog: lw.Catalog, bucket: int) -> None:
    columns = pa.schema([pa.field("id", pa.int64(), nullable=False), ("c", pa.int32())])
    options = {"bucket": bucket, **({"deletion-vectors.enabled": "true"} if bucket > 0 else {})}
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(columns, primary_keys=["id"], options=options))
    table = catalog.get_table("d.t")
    lw.write_table(pa.table({"id": [1, 2], "c": pa.array([300, 5], pa.int32())}), table)
    with pytest.raises(InvalidInputError, match="300, which would read as 44"):
        catalog.alter_table("d.t", [C.update_column_type("c", "TINYINT")])
    catalog.alter_table("d.t", [C.update_column_type("c", "BIGINT")])


KEYED = {"bucket": 1}


@pytest.mark.parametrize(
    ("options", "first", "second"),
    [
        (KEYED, "abc", "12"),
        ({**KEYED, "merge-engine": "partial-update"}, "abc", "12"),
        ({**KEYED, "deletion-vectors.enabled": "true"}, "abc", "12"),
        ({"deletion-vectors.enabled": "true"}, "abc", None),
    ],
    ids=["deduplicate", "partial-update", "vectors", "append"],
)
def test_stored_text_that_no_read_shows_would_make_the_file_unreadable(
    catalog: lw.Catalog, options: dict[str, Any], first: str, second: str | None
) -> None:
    columns = pa.schema([pa.field("id", pa.int64(), nullable=False), ("c", pa.string())])
    keys = ["id"] if "bucket" in options else None
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(columns, primary_keys=keys, options=options))
    table = catalog.get_table("d.t")
    lw.write_table(pa.table({"id": [1, 2], "c": [first, "5"]}, schema=columns), table)
    if second is None:
        table.delete("id = 1")
    else:
        lw.write_table(pa.table({"id": [1], "c": [second]}, schema=columns), table)
    with pytest.raises(InvalidInputError, match=r"'abc', which is none of its values.*compact\(full=True\)"):
        catalog.alter_table("d.t", [C.update_column_type("c", "INT")])
    table.compact(full=True)
    catalog.alter_table("d.t", [C.update_column_type("c", "INT")])
    assert lw.read_table(catalog.get_table("d.t"))["c"].to_pylist() == [int(text) for text in (second, "5") if text]


def test_every_value_of_an_aggregation_counts(catalog: lw.Catalog) -> None:
    columns = pa.schema([pa.field("id", pa.int64(), nullable=False), ("c", pa.int32())])
    options = {"bucket": 1, "merge-engine": "aggregation", "fields.c.aggregate-function": "sum"}
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(columns, primary_keys=["id"], options=options))
    table = catalog.get_table("d.t")
    for value in (300, -290):
        lw.write_table(pa.table({"id": [1], "c": [value]}, schema=columns), table)
    with pytest.raises(InvalidInputError, match=r"2 values.*300.*compact\(full=True\)"):
        catalog.alter_table("d.t", [C.update_column_type("c", "TINYINT")])
    table.compact(full=True)
    catalog.alter_table("d.t", [C.update_column_type("c", "TINYINT")])
    assert lw.read_table(catalog.get_table("d.t"))["c"].to_pylist() == [10]


def test_a_value_written_during_the_change_is_warned_of(catalog: lw.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _made(catalog, "INT", [1])
    create = SchemaFiles.create

    def late(schemas: SchemaFiles, schema: TableSchema) -> bool:
        lw.write_table(pa.table({"id": pa.array([2], pa.int32()), "c": pa.array([300], pa.int32())}), table)
        return create(schemas, schema)

    monkeypatch.setattr(SchemaFiles, "create", late)
    with pytest.warns(LakewrightWarning, match="300, which would read as 44"):
        catalog.alter_table("d.t", [C.update_column_type("c", "TINYINT")])
    monkeypatch.undo()
    catalog.alter_table("d.t", [C.update_column_type("c", "INT")])
    assert lw.read_table(catalog.get_table("d.t"))["c"].to_pylist() == [1, 300]


def test_the_merge_of_schemas_never_narrows(catalog: lw.Catalog) -> None:
    table = _made(catalog, "BIGINT", [2**40])
    stale = catalog.get_table("d.t")
    lw.write_table(pa.table({"id": [1], "c": pa.array([5], pa.int32())}), table, schema_mode="merge")
    assert str(catalog.get_table("d.t").fields[1].type) == "BIGINT"
    catalog.alter_table("d.t", [C.update_column_type("c", "STRING")])
    fresh = catalog.get_table("d.t")
    lw.write_table(pa.table({"id": pa.array([1], pa.int32()), "c": ["x"]}), fresh)
    # An old handle that would widen what it knows must not narrow what there is.
    small = pa.table({"id": pa.array([1], pa.int32()), "c": pa.array([Decimal("1.5")])})
    with pytest.raises(InvalidInputError):
        lw.write_table(small, stale, schema_mode="merge")
    assert str(catalog.get_table("d.t").fields[1].type) == "STRING"


def test_types_that_keep_all_values_have_a_cast() -> None:
    types = [parse_type(text) for text in SCALARS]
    keeping = [(old, new) for old in types for new in types if keeps_all_values(old, new)]
    assert len(keeping) > len(types)
    assert [pair for pair in keeping if cast_between(*pair) is Cast.IMPOSSIBLE] == []


def test_decimals_keep_values_if_no_digit_is_lost() -> None:
    wide = parse_type("DECIMAL(38, 0)")
    assert keeps_all_values(parse_type("DECIMAL(37, 0)"), wide)
    assert not keeps_all_values(wide, parse_type("DECIMAL(38, 1)"))
    assert to_array([Decimal(10) ** 37], wide).to_pylist() == [Decimal(10) ** 37]
