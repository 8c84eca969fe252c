"""One partition, spelled in every way that has one meaning, and refused before any work in all others."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import lakewright as lw
from lakewright.errors import InvalidInputError
from support.effort import each_once

COLUMNS = pa.schema(
    [pa.field("day", pa.date32(), nullable=False), pa.field("k", pa.int64()), pa.field("v", pa.string())]
)
DAY = dt.date(2026, 1, 9)
SPELLINGS = [DAY, "2026-01-09", pd.Timestamp("2026-01-09"), np.datetime64("2026-01-09"), pa.scalar(DAY)]
Verb = Callable[[lw.Catalog, lw.FileStoreTable, Any], object]


def _overwrite(_: lw.Catalog, table: lw.FileStoreTable, spec: Any) -> object:  # noqa: ANN401 - anything
    builder = table.new_batch_write_builder().overwrite(spec)
    with builder.new_write() as write, builder.new_commit() as commit:
        write.write_arrow(pa.table({"day": [DAY], "k": [9], "v": ["new"]}, schema=COLUMNS))
        return commit.commit(write.prepare_commit())


def _truncate(_: lw.Catalog, table: lw.FileStoreTable, spec: Any) -> object:  # noqa: ANN401
    return table.new_batch_write_builder().new_commit().truncate_partitions([spec])


VERBS: dict[str, Verb] = {
    "overwrite": _overwrite,
    "truncate": _truncate,
    "compact": lambda _, table, spec: table.compact(full=True, partitions=[spec]),
    "drop": lambda catalog, _, spec: catalog.drop_partitions("d.t", [spec]),
}


@pytest.fixture
def catalog(tmp_path: Path) -> lw.Catalog:
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d")
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(COLUMNS, partition_keys=["day"]))
    rows = pa.table({"day": [DAY, dt.date(2026, 1, 10)], "k": [1, 2], "v": ["a", "b"]}, schema=COLUMNS)
    for _ in range(2):
        lw.write_table(rows, catalog.get_table("d.t"))
    return catalog


@pytest.mark.parametrize(("day", "verb"), each_once(SPELLINGS, list(VERBS)))
def test_a_day_may_be_spelled_in_many_ways(catalog: lw.Catalog, day: object, verb: str) -> None:
    VERBS[verb](catalog, catalog.get_table("d.t"), {"day": day})
    left = lw.read_table(catalog.get_table("d.t"), filter="day = '2026-01-09'")["v"].to_pylist()
    assert left == {"overwrite": ["new"], "compact": ["a", "a"]}.get(verb, [])
    files = lw.read_table(catalog.get_table("d.t$files"))["partition"].to_pylist()
    assert files.count("day=2026-01-10") == 2, "other partitions stay as they are"


WRONG_SPECS: list[tuple[object, str]] = [
    ({"nope": "x"}, "'nope' in the partition spec .* is not a partition column .day."),
    ({"day": "x"}, "the partition column 'day': 'x' .str. is no value of the type DATE"),
    ({"day": 5.5}, "the partition column 'day': 5.5"),
    ({"day": dt.datetime(2026, 1, 9, 3)}, "the type holds whole days"),  # noqa: DTZ001 - DATE has no zone
]


@pytest.mark.parametrize(
    ("wrong", "verb"),
    each_once(WRONG_SPECS, [verb for verb in VERBS if verb != "overwrite"]),
)
def test_specs_that_name_no_partition_are_refused(catalog: lw.Catalog, wrong: tuple[object, str], verb: str) -> None:
    spec, message = wrong
    with pytest.raises(InvalidInputError, match=message) as caught:
        VERBS[verb](catalog, catalog.get_table("d.t"), spec)
    assert caught.value.table == "d.t"
    assert len(lw.read_table(catalog.get_table("d.t$snapshots"))) == 2


@pytest.mark.parametrize("spec", [{"nope": "x"}, {"day": "x"}, {"day": 5.5}])
def test_an_overwrite_is_refused_before_rows_are_written(catalog: lw.Catalog, spec: dict[str, object]) -> None:
    with pytest.raises(InvalidInputError, match=r"d\.t: .*partition"):
        catalog.get_table("d.t").new_batch_write_builder().overwrite(spec)


def test_rows_outside_of_an_overwrite_are_named_by_their_day(catalog: lw.Catalog) -> None:
    with pytest.raises(InvalidInputError, match="partition day=2026-01-09, which the overwrite"):
        _overwrite(catalog, catalog.get_table("d.t"), {"day": "2026-01-10"})


def test_one_spec_needs_no_list(catalog: lw.Catalog) -> None:
    catalog.get_table("d.t").compact(full=True, partitions={"day": DAY})
    assert lw.read_table(catalog.get_table("d.t$files")).num_rows == 3
