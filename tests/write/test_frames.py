"""Frames of pandas become rows with their named index; frames of engines are told by their types."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

import lakewright as lw
from lakewright.engine_registry import engine_verb
from lakewright.errors import InvalidInputError, UnsupportedError
from lakewright.write.input_data import to_local_data
from support.effort import each_once

SCHEMA = pa.schema({"id": pa.int64(), "k": pa.string(), "n": pa.int64()})
ROWS = [{"id": 1, "k": "a", "n": 10}, {"id": 2, "k": "b", "n": 20}]
FRAME = pd.DataFrame(ROWS)
TRACKED = {"row-tracking.enabled": "true", "deletion-vectors.enabled": "true"}


def new_table(root: Path, keys: list[str] | None = None, options: dict[str, str] | None = None) -> lw.FileStoreTable:
    catalog = lw.CatalogFactory.create({"warehouse": str(root)})
    catalog.create_database("d")
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(SCHEMA, primary_keys=keys, options=options))
    return catalog.get_table("d.t")


def _nameless(frame: pd.DataFrame, labels: list[object]) -> pd.DataFrame:
    return frame.set_axis(pd.Index(labels), axis=0)


FRAMES: dict[str, Callable[[], pd.DataFrame]] = {
    "default index": lambda: FRAME,
    "a filtered frame": lambda: pd.concat([FRAME, FRAME]).iloc[2:],
    "a range with a name": lambda: FRAME.set_index("id"),
    "numbers with a name": lambda: FRAME.iloc[::-1].set_index("id").iloc[::-1],
    "text with a name": lambda: FRAME.set_index("k"),
    "two levels": lambda: FRAME.set_index(["id", "k"]),
    "a level without a name": lambda: FRAME.set_index(["id", pd.Index([7, 9])]),
    "levels without names": lambda: FRAME.set_index([pd.Index([7, 9]), pd.Index([1, 1])]),
    "text without a name": lambda: _nameless(FRAME, ["x", "y"]),
    "a subclass": lambda: type("Frame", (pd.DataFrame,), {})(FRAME.set_index("id")),
}


@pytest.mark.parametrize(("name", "verb"), each_once(list(FRAMES), ["call", "list", "pandas", "arrow"]))
def test_named_levels_of_an_index_are_columns_and_others_are_dropped(tmp_path: Path, name: str, verb: str) -> None:
    table, frame = new_table(tmp_path), FRAMES[name]()
    if verb in {"call", "list"}:
        lw.write_table([frame] if verb == "list" else frame, table)
    else:
        builder = table.new_batch_write_builder()
        with builder.new_write() as write, builder.new_commit() as commit:
            write.write_pandas(frame) if verb == "pandas" else write.write_arrow(frame)
            commit.commit(write.prepare_commit())
    assert lw.read_table(table).to_pylist() == ROWS


def test_a_level_that_is_a_column_too_is_refused(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    twice = FRAME.set_index("id", drop=False)
    for frame in (twice, FRAME.set_index(["k", "k"])):
        with pytest.raises(InvalidInputError, match=r"d\.t: '(id|k)' names a level"):
            lw.write_table(frame, table)
    with pytest.raises(InvalidInputError, match="names a level"), table.new_batch_write_builder().new_write() as write:
        write.write_pandas(twice)
    assert table.snapshot() is None


def test_changes_of_rows_take_an_index_too(tmp_path: Path) -> None:
    table = new_table(tmp_path / "append", options=TRACKED)
    lw.write_table(FRAME, table)
    more = pd.DataFrame({"id": [2, 3], "k": ["c", "d"], "n": [21, 30]}).set_index("id")
    assert table.upsert(more, ["id"]).rows == 2
    merged = table.merge(more.assign(n=0), on="id").when_matched_update().execute()
    assert merged.updated == 2
    ids = pd.DataFrame({"_ROW_ID": [0, 1], "n": [5, 6]}).set_index("_ROW_ID")
    assert table.update_by_row_id(ids).updated == 2
    assert table.delete_by_row_id(ids).deleted == 2
    assert lw.read_table(table).to_pylist() == [{"id": 3, "k": "d", "n": 0}]

    keyed = new_table(tmp_path / "keyed", ["id"], {"bucket": "1"})
    lw.write_table(FRAME.set_index("id"), keyed)
    keyed.upsert(more)
    lw.write_table(pd.DataFrame(index=pd.Index([1], name="id")), keyed, mode="delete")
    assert lw.read_table(keyed)["id"].to_pylist() == [2, 3]


def _fake(module: str, name: str) -> object:
    """Return an object of a type that looks like one of another library."""
    return type(name, (), {"__module__": module, "__arrow_c_stream__": lambda *_: pytest.fail("the rows were taken")})()


@pytest.mark.parametrize(
    ("module", "name", "said"),
    [
        ("pyspark.sql.classic.dataframe", "DataFrame", "write_spark"),
        ("pyspark.sql.connect.dataframe", "DataFrame", "write_spark"),
        ("ray.data.dataset", "Dataset", "write_ray"),
        ("pyspark.pandas.frame", "DataFrame", "to_spark"),
    ],
)
def test_no_builder_pulls_the_rows_of_an_engine_into_this_process(
    tmp_path: Path, module: str, name: str, said: str
) -> None:
    table, frame = new_table(tmp_path), _fake(module, name)
    assert hasattr(frame, "__arrow_c_stream__")
    with table.new_batch_write_builder().new_write() as write:
        for call in (write.write_arrow, write.write_pandas, write.write_arrow_batch, write.delete_arrow):
            with pytest.raises((InvalidInputError, UnsupportedError), match=f"{said}|primary key"):
                call(frame)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match=said):
        lw.write_table([frame], table)


def test_other_objects_of_such_libraries_are_no_frames() -> None:
    for module, name in (("pyspark.sql.types", "Row"), ("ray.dataset", "Dataset"), ("pysparkling.sql", "DataFrame")):
        other = _fake(module, name)
        assert engine_verb(other, "upsert") is None
        assert to_local_data(other, "t") is other
