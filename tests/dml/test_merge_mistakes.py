"""What users of merge and update get wrong: it is refused with the remedy, or has the one meaning it can have."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lakewright as lw
from lakewright.dml.merge import MergeBuilder
from lakewright.errors import ColumnNotExistException
from support.effort import each_once
from support.row_changes import KINDS, new_table

ROWS = pa.table({"id": [1, 2], "p": [0, 0], "n": [10, 20], "name": ["a", "b"]})
SOURCE = pa.table({"id": [2, 3], "p": [0, 0], "n": [5, 6], "name": ["s2", "s3"]})
Said = Callable[[MergeBuilder], MergeBuilder]


def filled(kind: str) -> lw.FileStoreTable:
    table = new_table(kind)
    lw.write_table(ROWS, table)
    return table


def seen(table: lw.FileStoreTable) -> list[tuple[object, ...]]:
    found = lw.read_table(table, columns=["id", "n", "name"]).to_pylist()
    return sorted((tuple(row.values()) for row in found), key=repr)


@pytest.mark.parametrize("kind", KINDS)
def test_an_insert_takes_the_key_from_the_source(kind: str) -> None:
    table = filled(kind)
    on = ["id", "p"] if "p" in (*table.primary_keys, *table.partition_keys) else ["id"]
    done = table.merge(SOURCE, on).when_not_matched_insert({"n": lw.source_col("n")}).execute()
    assert done.inserted == 1
    assert seen(table) == [(1, 10, "a"), (2, 20, "b"), (3, 6, None)]
    assert table.delete("id IS NULL").is_empty


def test_the_key_of_the_source_may_have_another_name() -> None:
    table = filled("plain")
    source = SOURCE.rename_columns(["key", "p", "n", "name"])
    table.merge(source, "t.id = s.key").when_not_matched_insert().execute()
    assert seen(table)[-1] == (3, 6, "s3")
    source = pa.table({"key": [7]})
    table.merge(source, "t.id = s.key").when_not_matched_insert({"name": "new"}).execute()
    assert seen(table)[-1] == (7, None, "new")
    table.merge(pa.table({"key": [8]}), "t.id = s.key").when_not_matched_insert({"id": 9}).execute()
    assert seen(table)[-1] == (9, None, None)  # what is assigned counts


TEXTS = ["s.name", "t.name", "source.name", "target.name", "S.name", " s.name ", "s.`name`", "t.n + 1", "s.name || 'x'"]


@pytest.mark.parametrize(("text", "kind"), each_once(TEXTS, ["plain", "keyed", "evolution"]))
def test_text_that_names_a_column_is_refused(kind: str, text: str) -> None:
    table = filled(kind)
    clauses: list[Said] = [
        lambda m: m.when_matched_update({"name": text}),
        lambda m: m.when_not_matched_insert({"id": lw.source_col("id"), "p": 0, "name": text}),
        lambda m: m.when_not_matched_by_source_update({"name": text}),
    ]
    for said in clauses:
        with pytest.raises(lw.InvalidInputError, match=r"the text .* itself.*lit\(") as caught:
            said(table.merge(SOURCE, "id")).execute()
        assert caught.value.facts["column"] == "name"
        assert ("lw.expr(" in str(caught.value)) == (" + " in text or "||" in text)
    if text.strip()[0] == "t":
        with pytest.raises(lw.InvalidInputError, match=r"lit\("):
            table.update({"name": text})
    assert seen(table) == [(1, 10, "a"), (2, 20, "b")]
    table.merge(SOURCE, "id").when_matched_update({"name": lw.lit(text)}).execute()
    assert seen(table)[1] == (2, 20, text)


def test_text_that_names_no_column_stays_text() -> None:
    table = filled("plain")
    for text in ("name", "n", "s.nothing", "x.name", "t.", "s.name is unknown", "visit s.name", "t.name.more"):
        table.merge(SOURCE, "id").when_matched_update({"name": text}).execute()
        assert seen(table)[1] == (2, 20, text)
        table.update({"name": text}, "id = 1")
        assert seen(table)[0] == (1, 10, text)


def test_pypaimons_clauses_read_such_text_as_columns() -> None:
    table = filled("plain")
    builder = table.new_batch_write_builder()
    matched = lw.WhenMatched.update({"name": "s.name"})
    added = lw.WhenNotMatched({"name": "s.name"})
    update = builder.new_update()
    messages = update.merge_into(SOURCE, on="id", when_matched=[matched], when_not_matched=[added])
    builder.new_commit().commit(messages)
    assert seen(table) == [(1, 10, "a"), (2, 20, "s2"), (3, None, "s3")]


@pytest.mark.parametrize("kind", ["plain", "keyed", "evolution"])
def test_other_mistakes_are_named(kind: str) -> None:
    table = filled(kind)
    wrong: list[tuple[Said, str]] = [
        (lambda m: m.when_matched_delete("x.n > 3"), r"'x.n'|'x'"),
        (lambda m: m.when_matched_delete("s.nothing > 3"), "nothing"),
        (lambda m: m.when_matched_update({"n": lw.source_col("nothing")}), "the source has no column 'nothing'"),
        (lambda m: m.when_matched_update({"nothing": 3}), "nothing"),
        (lambda m: m.when_matched_update({"n": "t.n + 1"}), "never read as SQL"),
        (lambda m: m.when_matched_update({"n": "many"}), "taken as it stands"),
        (lambda m: m.when_not_matched_insert({"name": lw.target_col("name")}), "name"),
        (lambda m: m.when_not_matched_insert({"n": pc.field("t.n")}), "t.n"),
    ]
    for said, message in wrong:
        with pytest.raises((lw.InvalidInputError, ColumnNotExistException), match=message):
            said(table.merge(SOURCE, "id")).execute()
    assert table.store.snapshots.latest_id() == 1


def test_new_rows_with_one_key_are_refused_where_one_would_stay() -> None:
    table = filled("keyed")
    source = pa.table({"id": [3, 4, 3], "p": [0, 0, 0], "n": [1, 2, 3]})
    with pytest.raises(lw.InvalidInputError, match="several rows with the key id = 3") as caught:
        table.merge(source, "id").when_not_matched_insert().execute()
    assert caught.value.facts["key"] == {"id": 3}
    assert table.store.snapshots.latest_id() == 1
    plain = filled("plain")
    assert plain.merge(source, "id").when_not_matched_insert().execute().inserted == 3


def test_the_names_of_other_libraries_point_to_ours() -> None:
    merge = filled("plain").merge(SOURCE, "id")
    with pytest.raises(AttributeError, match=r"without assignments, when_matched_update\(\) sets all columns"):
        merge.when_matched_update_all()
    with pytest.raises(AttributeError, match=r"when_not_matched_insert\(\) sets all columns"):
        merge.when_not_matched_insert_all()
    assert not hasattr(merge, "when_matched_update_al")


def test_a_merge_takes_expressions_in_sql() -> None:
    table = filled("plain")
    values = {"n": lw.expr("t.n + s.n"), "name": lw.expr("concat(t.name, upper(s.name))")}
    inserted = {"id": lw.expr("s.id * 10"), "p": 0, "name": lw.expr("s.name")}
    table.merge(SOURCE, "id").when_matched_update(values).when_not_matched_insert(inserted).execute()
    assert seen(table) == [(1, 10, "a"), (2, 25, "bS2"), (30, None, "s3")]
