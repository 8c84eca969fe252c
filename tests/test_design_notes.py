"""Notes in design/ that name files agree with the sources."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa

import lakewright as lw

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "lakewright"
TOUR = (ROOT / "design" / "tour.md").read_text()
# The function with which a row enters each file of the tour, in order.
STEPS = [
    ("table/verbs.py", "write_table"),
    ("table/write_builder.py", "BatchWriteBuilder.new_write"),
    ("write/table_writer.py", "TableWriter.write"),
    ("write/row_intake.py", "KeyedIntake.take"),
    ("write/keyed_buffer.py", "KeyedBuffer.add"),
    ("formats/data_file_writer.py", "RollingFile.write"),
    ("formats/parquet_writer.py", "ParquetEncoder.encode"),
    ("commit/committer.py", "Committer.commit"),
    ("commit/commit_loop.py", "CommitRun.publish"),
    ("commit/commit_plan.py", "plan_on"),
    ("commit/snapshot_producer.py", "SnapshotProducer.draft"),
    ("metadata/snapshot_files.py", "SnapshotFiles.write_latest_hint"),
]


def test_files_of_the_tour_exist() -> None:
    named = re.findall(r"`([a-z_0-9/]+(?:\.py|/))`", TOUR)
    assert named
    assert [path for path in named if not (SOURCE / path).exists()] == []


def test_packages_of_the_layers_exist() -> None:
    rows = re.findall(r"^\| \d \| (.*?) \|", (ROOT / "design" / "0001-layers.md").read_text(), re.MULTILINE)
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert named
    assert [name for name in named if not (SOURCE / name).is_dir() and not (SOURCE / f"{name}.py").exists()] == []


def test_a_write_goes_through_the_files_of_the_tour_in_their_order(tmp_path: Path) -> None:
    files = re.findall(r"^\d+\. \*\*`([\w/]+\.py)`", TOUR.partition("## The way back")[0], re.MULTILINE)
    assert files == [file for file, _ in STEPS]
    catalog = lw.CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("shop")
    columns = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("day", pa.string(), nullable=False)])
    keys: dict[str, Any] = {"partition_keys": ["day"], "primary_keys": ["day", "id"]}
    catalog.create_table("shop.orders", lw.Schema.from_pyarrow_schema(columns, **keys, options={"bucket": "4"}))
    table = catalog.get_table("shop.orders")
    calls = _calls_of(lambda: lw.write_table(pa.table({"id": [7], "day": ["2026-01-09"]}), table))
    assert [call for call in dict.fromkeys(calls) if call in STEPS] == STEPS


def _calls_of(action: Callable[[], object]) -> list[tuple[str, str]]:
    """Return the functions of the library that an action calls, in all threads: the file and the name."""
    calls: list[tuple[str, str]] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(SOURCE)):
            calls.append((str(Path(code.co_filename).relative_to(SOURCE)), code.co_qualname))

    before = sys.getprofile()
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(before)
        threading.setprofile(None)
    return calls
