"""What a builder and a scan can be asked for: partitions, fields, row ids, and an explained plan."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import lakewright as lw
from lakewright.errors import ColumnNotExistException
from lakewright.read.data_split import DataSplit
from lakewright.read.explain import PruningStat
from lakewright.read.table_read import TableRead

COLUMNS = pa.schema(
    [("day", pa.string()), ("id", pa.int64()), ("r", pa.struct([("x", pa.int32()), ("y", pa.string())]))]
)
TRACKED = {"row-tracking.enabled": "true"}


def _table(tmp_path: Path, options: dict[str, str] | None = None) -> lw.FileStoreTable:
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d")
    catalog.create_table("d.t", lw.Schema.from_pyarrow_schema(COLUMNS, partition_keys=["day"], options=options))
    table = catalog.get_table("d.t")
    for day, first in (("a", 0), ("b", 10), ("a", 20)):
        rows = [{"day": day, "id": first + n, "r": {"x": n, "y": day}} for n in range(10)]
        lw.write_table(pa.Table.from_pylist(rows, schema=COLUMNS), table)
    return table


def _ids(read: TableRead, splits: list[DataSplit]) -> list[int]:
    return sorted(read.to_arrow(splits)["id"].to_pylist())


def test_a_partition_filter_adds_to_the_filter(tmp_path: Path) -> None:
    builder = _table(tmp_path).new_read_builder().with_filter("id >= 5").with_partition_filter("day = 'a'")
    assert _ids(builder.new_read(), builder.new_scan().plan().splits()) == [*range(5, 10), *range(20, 30)]
    assert builder.explain().partition_pruning == PruningStat(3, 2)
    with pytest.raises(ColumnNotExistException, match="id"):
        builder.with_partition_filter("id = 3")


def test_a_read_type_names_columns(tmp_path: Path) -> None:
    table = _table(tmp_path, TRACKED)
    fields = {field.name: field for field in table.fields}
    builder = table.new_read_builder().with_read_type([fields["id"], fields["day"]])
    assert builder.new_read().to_arrow().column_names == ["id", "day"]
    builder.with_read_type([lw.DataField(0, "_ROW_ID", lw.AtomicType("BIGINT")), fields["id"]])
    assert builder.new_read().to_arrow().column_names == ["_ROW_ID", "id"]
    with pytest.raises(lw.UnsupportedError, match="BIGINT, not STRING"):
        builder.with_read_type([lw.DataField(1, "id", lw.AtomicType("STRING"))])


@pytest.mark.parametrize(
    ("ranges", "ids"),
    [
        ([(0, 2)], [0, 1, 2]),
        ([(8, 11)], [8, 9, 10, 11]),
        ([(2, 3), (3, 4), (29, 40)], [2, 3, 4, 29]),
        ([(31, 40)], []),
        ([], []),
    ],
)
def test_row_ranges_read_rows_by_their_ids(tmp_path: Path, ranges: list[tuple[int, int]], ids: list[int]) -> None:
    builder = _table(tmp_path, TRACKED).new_read_builder()
    scan = builder.new_scan().with_row_ranges(ranges)
    assert _ids(builder.new_read(), scan.plan().splits()) == ids


def test_row_ranges_count_deleted_rows(tmp_path: Path) -> None:
    table = _table(tmp_path, {**TRACKED, "deletion-vectors.enabled": "true"})
    table.delete("id IN (3, 4)")
    builder = table.new_read_builder()
    assert _ids(builder.new_read(), builder.new_scan().with_row_ranges([(2, 6)]).plan().splits()) == [2, 5, 6]


def test_row_ranges_need_row_ids(tmp_path: Path) -> None:
    with pytest.raises(lw.InvalidInputError, match=r"d\.t: rows have ids only with 'row-tracking.enabled'"):
        _table(tmp_path).new_read_builder().new_scan().with_row_ranges([(0, 1)])


def test_an_explained_plan_lists_its_splits(tmp_path: Path) -> None:
    builder = _table(tmp_path).new_read_builder().with_filter("day = 'a'").with_projection(["id"])
    shown = builder.explain(verbose=True)
    assert shown.splits is not None
    [split] = shown.splits
    assert (split.partition, split.bucket, split.file_count, split.row_count) == ({"day": "a"}, 0, 2, 20)
    assert (split.level_histogram, split.has_deletion_vectors, split.merged_row_count) == ({0: 2}, False, 20)
    assert [file.file_size for file in split.data_files] == [Path(path).stat().st_size for path in split.file_paths]
    assert (shown.files_per_split_min, shown.files_per_split_max, shown.files_per_split_avg) == (2, 2, 2.0)
    assert shown.split_size_min == shown.split_size_p50 == shown.split_size_p95 == shown.total_file_size
    lines = str(shown).splitlines()
    assert "  files/split:      min=2  max=2  avg=2.00" in lines
    assert any(line.startswith("  size/split:       min=") for line in lines)
    assert "Projection:         [id]" in lines
    assert builder.explain().splits is None


def test_an_empty_table_is_explained(tmp_path: Path) -> None:
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("d")
    catalog.create_table("d.t", COLUMNS)
    shown = catalog.get_table("d.t").new_read_builder().explain(verbose=True)
    assert (shown.snapshot_id, shown.schema_id, shown.split_count, shown.splits) == (None, None, 0, [])
    assert "Snapshot:           <none>" in str(shown)


def test_a_stream_scan_shows_and_takes_its_position(tmp_path: Path) -> None:
    table = _table(tmp_path)
    scan = table.new_stream_read_builder().new_streaming_scan()
    assert scan.next_snapshot_id is None
    scan.plan()
    assert scan.next_snapshot_id == 4
    scan.next_snapshot_id = 3
    plan = scan.plan()
    assert plan is not None
    assert plan.snapshot_id == 3


@pytest.mark.parametrize("given", [[(1, 2, 3)], [5], "ab", [("a", "b")], 7])
def test_wrong_row_ranges_are_named(tmp_path: Path, given: object) -> None:
    scan: Callable[[object], object] = _table(tmp_path, TRACKED).new_read_builder().new_scan().with_row_ranges  # type: ignore[assignment]
    with pytest.raises(lw.InvalidInputError, match="row_ranges"):
        scan(given)
