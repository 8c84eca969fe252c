"""pypaimon's names on Ray: the same calls, counts and shapes as pypaimon's, on tables with data evolution."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import pyarrow as pa
import pytest
import ray.data
from ray.data import Dataset

import lakewright as lw
from lakewright.dml import assignments
from lakewright.errors import InvalidInputError
from lakewright.pypaimon import compat_update
from lakewright.pypaimon import ray as ray_module
from lakewright.pypaimon.compat_catalog import CatalogFactory
from lakewright.pypaimon.compat_install import _FaceLoader, _Finder
from lakewright.table import update_builder
from support.effort import some
from support.ray_rows import arrow_of
from support.spark_writes import assert_tidy

pytestmark = pytest.mark.usefixtures("ray_session")
EVOLVING = {"row-tracking.enabled": "true", "data-evolution.enabled": "true", "deletion-vectors.enabled": "true"}
COLUMNS = pa.schema({"id": pa.int64(), "n": pa.int64(), "s": pa.string()})
CHANGES = pa.table({"id": [1, 2, 30], "n": [100, 200, 300], "s": ["a", "b", "c"]})


@pytest.fixture
def options(tmp_path: Path) -> dict[str, object]:
    """Return the options of a catalog with a table of ten rows, `d.t`, and one without data evolution, `d.plain`."""
    found: dict[str, object] = {"warehouse": str(tmp_path)}
    catalog = CatalogFactory.create(found)
    catalog.create_database("d", ignore_if_exists=False)
    for name, own in (("t", EVOLVING), ("plain", {})):
        catalog.create_table(f"d.{name}", lw.Schema.from_pyarrow_schema(COLUMNS, options=own), ignore_if_exists=False)
    rows = pa.table({"id": range(10), "n": range(10), "s": [str(i) for i in range(10)]}, COLUMNS)
    assert ray_module.write_paimon(dataset(rows), "d.t", found) == ray_module.PaimonWriteResult(10, 1)
    return found


def dataset(rows: pa.Table) -> Dataset:
    return ray.data.from_arrow([rows.slice(0, 2), rows.slice(2)])


def held(options: dict[str, object], *columns: str) -> list[tuple[object, ...]]:
    read = arrow_of(ray_module.read_paimon("d.t", options, projection=list(columns) or None))
    return sorted((tuple(row.values()) for row in read.to_pylist()), key=repr)


@pytest.mark.parametrize("shape", some([lambda t: t, dataset, lambda t: t.to_pandas()], 1))
def test_a_merge_takes_every_kind_of_source(options: dict[str, object], shape: Callable[[pa.Table], object]) -> None:
    done = ray_module.merge_into(
        "d.t",
        shape(CHANGES),
        options,
        on={"id": "id"},
        when_matched=[
            compat_update.WhenMatched.update(
                {"n": assignments.source_col("n"), "s": assignments.lit("x")}, condition="s.n > 100"
            )
        ],
        when_not_matched=[update_builder.WhenNotMatched("*")],
        num_partitions=3,
    )
    assert done == {"num_matched": 1, "num_inserted": 1, "num_unchanged": 0}
    rows = {row[0]: row for row in held(options)}
    assert (rows[1], rows[2], rows[30]) == ((1, 1, "1"), (2, 200, "x"), (30, 300, "c"))
    assert_tidy(CatalogFactory.create(options).get_table("d.t"))


@pytest.mark.nightly
def test_tables_are_merged_by_name_and_by_their_own_ids(options: dict[str, object]) -> None:
    ray_module.write_paimon(dataset(CHANGES), "d.plain", options)
    assert ray_module.merge_into(
        "d.t", "d.plain", options, on=["id"], when_matched=[compat_update.WhenMatched.delete()]
    ) == {
        "num_matched": 2,
        "num_inserted": 0,
        "num_unchanged": 0,
    }
    all_rows = [compat_update.WhenMatched.update({"s": assignments.lit("self")})]
    assert ray_module.merge_into("d.t", "d.t", options, on=["_ROW_ID"], when_matched=all_rows)["num_matched"] == 8
    assert {row[0] for row in held(options, "s")} == {"self"}
    with pytest.raises(InvalidInputError, match="Self-merge"):
        ray_module.merge_into(
            "d.t", "d.t", options, on=["_ROW_ID"], when_not_matched=[update_builder.WhenNotMatched("*")]
        )


def test_rows_are_updated_and_read_by_their_ids(options: dict[str, object]) -> None:
    given = pa.table({"_ROW_ID": [7, 3], "n": [70, 30], "more": [0, 0]})
    assert ray_module.update_by_row_id("d.t", given, options, update_cols=["n"]) == {"num_updated": 2}
    read = ray_module.read_by_row_id(
        "d.t", pa.table({"at": [3, 7, 3]}), options, projection=["s", "n"], row_id_col="at"
    )
    assert sorted(map(str, read.take_all())) == [
        "{'s': '3', 'n': 30, '_ROW_ID': 3}",
        "{'s': '7', 'n': 70, '_ROW_ID': 7}",
    ]
    old = ray_module.read_by_row_id(
        "d.t", pa.table({"_ROW_ID": [3]}), options, projection=["n"], dynamic_options={"scan.snapshot-id": "1"}
    )
    assert old.take_all() == [{"n": 3, "_ROW_ID": 3}]


@pytest.mark.nightly
def test_ranges_of_ids_are_processed_in_turn(options: dict[str, object]) -> None:
    ray_module.write_paimon(dataset(CHANGES), "d.t", options)
    seen: list[list[tuple[int, int]]] = []
    ray_module.process_row_id_ranges(
        "d.t", options, rows_per_commit=11, processor=lambda some: seen.append([(each.from_, each.to) for each in some])
    )
    flat = [pair for some in seen for pair in some]
    assert (flat[0][0], flat[-1][1]) == (0, 12)
    assert all(sum(end - first + 1 for first, end in some) >= 11 for some in seen[:-1])


def test_what_pypaimon_refuses_is_refused(options: dict[str, object]) -> None:
    update = [compat_update.WhenMatched.update("*")]
    calls: list[tuple[Callable[[], object], str]] = [
        (
            lambda: ray_module.merge_into("d.plain", CHANGES, options, on=["id"], when_matched=update),
            "data-evolution.enabled",
        ),
        (lambda: ray_module.merge_into("d.t", CHANGES, options, on=["id"]), "At least one of when_matched"),
        (lambda: ray_module.merge_into("d.t", CHANGES, options, on=["nope"], when_matched=update), "'nope'"),
        (lambda: ray_module.merge_into("d.t", CHANGES, options, on=[], when_matched=update), "must not be empty"),
        (lambda: ray_module.update_by_row_id("d.t", "d.plain", options, update_cols=["n"]), "table-name source"),
        (lambda: ray_module.update_by_row_id("d.t", CHANGES, options, update_cols=["n"]), "_ROW_ID"),
        (lambda: ray_module.update_by_row_id("d.t", CHANGES, options, update_cols=["nope"]), "not in target"),
        (lambda: ray_module.update_by_row_id("d.t", CHANGES, options, update_cols=[]), "non-empty"),
        (lambda: ray_module.read_by_row_id("d.t", CHANGES, options, projection=["n"]), "missing the '_ROW_ID' column"),
        (
            lambda: ray_module.read_by_row_id("d.t", CHANGES, options, projection=["n"], dynamic_options=EVOLVING),
            "invariants",
        ),
        (lambda: ray_module.bucket_join("d.t", "d.plain", options, on="id"), "fixed number of buckets"),
        (lambda: ray_module.bucket_join("d.t", "d.plain", options, on="id", join_type="left"), "only join_type"),
        (lambda: ray_module.read_paimon("d.t", options, snapshot_id=1, tag_name="x"), "one of"),
    ]
    for call, message in calls:
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(TypeError, match="not int"):
        ray_module.merge_into("d.t", 5, options, on=["id"], when_matched=update)


def test_a_sink_says_what_it_committed(options: dict[str, object]) -> None:
    sink = ray_module.PaimonDatasink(CatalogFactory.create(options).get_table("d.plain"), overwrite=True)
    assert sink.commit_result is None
    dataset(CHANGES).write_datasink(sink)
    assert sink.commit_result == ray_module.PaimonWriteResult(3, 1)
    with pytest.raises(InvalidInputError, match="bucket plan"):
        ray_module.PaimonDatasink(sink.table, postpone_bucket_plan=cast("Any", object()))


@pytest.mark.parametrize("path", ["ray", "ray.ray_paimon", "write.ray_datasink"])
def test_module_paths_of_pypaimon_lead_here(path: str) -> None:
    spec = _Finder().find_spec(f"pypaimon.{path}")
    assert spec is not None
    assert isinstance(spec.loader, _FaceLoader)
    module = ModuleType(spec.name)
    spec.loader.exec_module(module)
    assert module.__dict__["PaimonDatasink"] is ray_module.PaimonDatasink
    assert {*ray_module.__all__} <= {*module.__dict__}
