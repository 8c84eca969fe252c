"""Row kinds in every spelling become numbers; whatever is none is refused with its row."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import lakewright as lw
from lakewright.errors import InvalidInputError
from lakewright.spec.table_options import TableOptions
from lakewright.write.row_intake import (
    GivenKinds,
    RowKinds,
    kept_kinds,
    kind_column,
    refuse_others_than_inserts,
    to_kinds,
)


def kinds(values: pa.Array | pa.ChunkedArray) -> list[int]:
    found: list[int] = to_kinds(values, table="t", source="the column 'x'").tolist()
    return found


@pytest.mark.parametrize(
    "values",
    [
        pa.array(["+I", "-U", "+U", "-D", "-d"]),
        pa.array(["+i", "-u", "+u", "-d", "-D"], pa.large_string()),
        pa.array(["+I", "-U", "+U", "-D", "-D"], pa.string_view()),
        pa.array(["+I", "-U", "+U", "-D", "-D"]).dictionary_encode(),
        pa.array([0, 1, 2, 3, 3], pa.int8()),
        pa.array([0, 1, 2, 3, 3], pa.uint64()),
        pa.chunked_array([[0, 1], [], [2, 3, 3]], pa.int64()),
    ],
    ids=lambda values: str(values.type),
)
def test_row_kinds_may_be_numbers_or_texts(values: pa.Array) -> None:
    assert kinds(values) == [0, 1, 2, 3, 3]


def test_no_rows_have_no_kinds() -> None:
    assert kinds(pa.array([], pa.string())) == []
    assert kinds(pa.chunked_array([], pa.int32())) == []


@pytest.mark.parametrize(
    ("values", "row"),
    [
        (pa.array(["+I", None]), 1),
        (pa.array(["+I", "+I", "insert"]), 2),
        (pa.array(["I"]), 0),
        (pa.array([0, 4]), 1),
        (pa.array([-1]), 0),
        (pa.array([0, 0, None]), 2),
    ],
    ids=str,
)
def test_what_is_no_kind_is_named_with_its_row(values: pa.Array, row: int) -> None:
    with pytest.raises(InvalidInputError, match="no row kind") as caught:
        to_kinds(values, table="t", source="the column 'x'", first_row=10)
    assert caught.value.row == 10 + row


def test_other_types_hold_no_kinds() -> None:
    for values in (pa.array([True]), pa.array([1.0]), pa.array([b"+I"])):
        with pytest.raises(InvalidInputError, match="cannot hold row kinds"):
            kinds(values)


@pytest.mark.parametrize(
    "given",
    [["+I", "-D"], ("+I", "-D"), np.array([0, 3]), pa.array([0, 3]), iter(["+I", "-D"])],
    ids=lambda given: type(given).__name__,
)
def test_kinds_are_handed_out_row_by_row(given: RowKinds) -> None:
    found = GivenKinds(given, table="t")
    assert found.next(0, 1).tolist() == [0]
    assert found.next(1, 1).tolist() == [3]
    found.check_count(2)
    with pytest.raises(InvalidInputError, match="2 kinds for 3 rows"):
        found.check_count(3)
    with pytest.raises(InvalidInputError, match="at least 3"):
        found.next(1, 2)


@pytest.mark.parametrize(("given", "number"), [("-U", 1), (2, 2), ("-d", 3)])
def test_one_kind_may_hold_for_all_rows(given: RowKinds, number: int) -> None:
    found = GivenKinds(given, table="t")
    assert found.next(5, 3).tolist() == [number] * 3
    found.check_count(12345)


@pytest.mark.parametrize("given", ["delete", 4, [], [object()], [0, "+I"]], ids="text number none object mixed".split())
def test_arguments_that_are_no_kinds(given: RowKinds) -> None:
    with pytest.raises(InvalidInputError):
        GivenKinds(given, table="t").check_count(1)


def test_columns_that_say_kinds() -> None:
    assert kind_column(["k", "_row_kind"], ["k"], table="t") == "_row_kind"
    assert kind_column(["k", "rowkind"], ["k"], table="t") == "rowkind"
    assert kind_column(["k", "row_kind"], ["k", "row_kind"], table="t") is None
    assert kind_column(["k", "ROW_KIND"], ["k"], table="t") is None
    with pytest.raises(InvalidInputError, match="both"):
        kind_column(["row_kind", "_row_kind"], ["k"], table="t")


def test_options_say_which_kinds_are_kept() -> None:
    all_kinds = np.array([0, 1, 2, 3], np.int8)

    def let_in(**options: str) -> list[bool] | None:
        keep = kept_kinds(
            all_kinds, TableOptions.from_dict({name.replace("_", "-"): text for name, text in options.items()})
        )
        return None if keep is None else keep.tolist()

    assert let_in() is None
    assert let_in(ignore_delete="true") == [True, False, True, False]
    assert let_in(ignore_update_before="true") == [True, False, True, True]
    assert let_in(ignore_delete="true", ignore_update_before="true") == [True, False, True, False]
    assert kept_kinds(all_kinds[:1], TableOptions.from_dict({"ignore-delete": "true"})) is None


def test_append_tables_take_inserts() -> None:
    refuse_others_than_inserts(np.zeros(3, np.int8), table="t")
    with pytest.raises(InvalidInputError, match="'\\+U'"):
        refuse_others_than_inserts(np.array([0, 2], np.int8), table="t")


def test_a_batch_without_rows_has_an_empty_list_of_kinds(tmp_path: Path) -> None:
    table = lw.create_table_from({"k": [1]}, "d.t", catalog=tmp_path, primary_keys="k", options={"bucket": "1"})
    builder = table.new_batch_write_builder()
    with builder.new_write() as write, builder.new_commit() as commit:
        write.write_arrow(pa.table({"k": pa.array([], pa.int64())}), row_kinds=[])
        write.write_arrow(pa.table({"k": [1]}), row_kinds=["-D"])
        commit.commit(write.prepare_commit())
    assert lw.read_table(table).num_rows == 0
