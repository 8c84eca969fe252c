"""SHOW CREATE TABLE of any table shows a statement that makes an equal one."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import hypothesis
import pytest
from hypothesis import strategies as st

import lakewright as lw
from lakewright.spec.types import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    numbered_fields,
)
from lakewright.statements.catalog_commands import quoted_text, type_text
from lakewright.statements.parse_columns import read_part
from lakewright.statements.sql_text import Fragment
from lakewright.statements.token_cursor import TokenCursor
from support.sql_sessions import rows

ATOMS = st.sampled_from(
    "BOOLEAN;TINYINT;SMALLINT;INT;BIGINT;FLOAT;DOUBLE;DATE;STRING;BYTES;TIME(3);TIME(0);TIMESTAMP(9);TIMESTAMP(6);"
    "CHAR(4);VARCHAR(9);BINARY(2);VARBINARY(3);DECIMAL(12, 4);TIMESTAMP(6) WITH LOCAL TIME ZONE;"
    "TIMESTAMP(3) WITH LOCAL TIME ZONE".split(";")
)
NAMES = st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=5).filter(
    lambda name: name.strip() and not name.startswith("_") and name != "rowkind"
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
DEFAULTS = TEXTS.filter(lambda text: not (text.startswith("'") and text.endswith("'")))
KEYS = ("file.format", "snapshot.num-retained.min", "write-buffer-size", "own.key")


def _wrapped(inner: st.SearchStrategy[DataType]) -> st.SearchStrategy[DataType]:
    fields = st.builds(DataField, st.just(0), NAMES, inner, st.none() | TEXTS)
    return st.one_of(
        st.builds(ArrayType, st.booleans(), inner),
        st.builds(MultisetType, st.booleans(), inner),
        st.builds(MapType, st.booleans(), inner, inner),
        st.builds(RowType, st.booleans(), st.lists(fields, min_size=1, max_size=3, unique_by=lambda f: f.name)),
    )


TYPES: st.SearchStrategy[DataType] = st.recursive(st.builds(AtomicType, ATOMS, st.booleans()), _wrapped, max_leaves=6)


def _numbered(dtype: DataType) -> DataType:
    (field,) = numbered_fields([DataField(0, "x", dtype)], count())
    return field.type


@hypothesis.given(TYPES)
def test_a_type_is_read_as_it_is_written(dtype: DataType) -> None:
    text = f"{type_text(dtype)}{'' if dtype.nullable else ' NOT NULL'}"
    cursor = TokenCursor(Fragment(text, 0, len(text)))
    assert _numbered(read_part(cursor, nullable=True)) == _numbered(dtype)
    cursor.expect_end()


@hypothesis.given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_text_is_read_as_it_is_written(text: str) -> None:
    written = quoted_text(text)
    cursor = TokenCursor(Fragment(written, 0, len(written)))
    assert cursor.string() == text
    cursor.expect_end()


@st.composite
def schemas(draw: st.DrawFn) -> lw.Schema:
    names = draw(st.lists(NAMES, min_size=2, max_size=5, unique_by=str.casefold))
    key = DataField(0, names[0], AtomicType(draw(st.sampled_from(["INT", "STRING", "DATE"]))), draw(st.none() | TEXTS))
    fields = [DataField(0, name, draw(TYPES), draw(st.none() | TEXTS)) for name in names[1:]]
    fields.append(DataField(0, "d_", AtomicType("STRING"), None, draw(st.none() | DEFAULTS)))
    fields.append(
        DataField(0, "n_", AtomicType("DECIMAL(9, 2)"), None, draw(st.sampled_from([None, "5", "-1.25", "1e2"])))
    )
    use = draw(st.sampled_from(["none", "partition", "primary"]))
    options = {"own.key": draw(TEXTS.filter(str.strip)), "file.format": draw(st.sampled_from(["orc", "parquet"]))}
    keys = {"partition_keys" if use == "partition" else "primary_keys": [key.name]} if use != "none" else {}
    return lw.Schema([key, *fields], options=options, comment=draw(st.none() | TEXTS), **keys)


@pytest.mark.filterwarnings("ignore::lakewright.errors.LakewrightWarning")
@hypothesis.settings(max_examples=25, deadline=None, suppress_health_check=list(hypothesis.HealthCheck))
@hypothesis.given(schemas(), st.sampled_from(["t", "a b", "x.y", "1"]))
def test_the_statement_makes_an_equal_table(
    tmp_path_factory: pytest.TempPathFactory, schema: lw.Schema, name: str
) -> None:
    ctx = lw.SQLContext(str(Path(tmp_path_factory.mktemp("w"))), "d")
    ctx.sql("CREATE DATABASE d")
    made = lw.Identifier("d", name)
    ctx.catalog.create_table(made, schema)
    first = ctx.catalog.get_table(made).schema
    ((text,),) = rows(ctx.sql(f"SHOW CREATE TABLE d.`{name}`"))
    ctx.sql(f"DROP TABLE `{name}`")
    ctx.sql(text)
    again = ctx.catalog.get_table(made).schema
    assert (again.fields, again.partition_keys, again.primary_keys) == (
        first.fields,
        first.partition_keys,
        first.primary_keys,
    )
    assert (again.options, again.comment) == (first.options, first.comment)
